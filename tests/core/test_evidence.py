"""What the evidence takes from a batch and the inventory, cluster by cluster."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import numpy as np
import pyarrow as pa
import pytest

from featurelib.audit import evidence as facts
from featurelib.audit.evidence import Conditions, Evidence, Expected, Waiting
from featurelib.core.features_znode import Generation
from featurelib.feature import Role, Witness
from tests.core.lines import (
    AS_OF,
    MAX_AGE,
    anomalies,
    answer_line,
    failure_line,
    landings,
    line_of,
    lines_of,
    microseconds,
    snapshot,
)
from tests.core.oracle import CONTROLLER, METADATA, Cluster, Node

RANGES = {METADATA: (7, 25), "f": (1, 5)}
OTHERS = {METADATA: (7, 22)}
GREATEST = 2**31 - 1  # the highest node id Kafka's wire carries
TWO = Cluster(
    name="two",
    nodes=(
        Node(node_id=1, ranges=RANGES, levels={METADATA: 20}, epoch=900),
        Node(node_id=2, ranges=OTHERS),
        Node(node_id=3, ranges=RANGES),
        Node(node_id=11, role=CONTROLLER, ranges=OTHERS),
    ),
    stored={METADATA: 20},
    voters=(11,),
)
ONE = Cluster(
    name="one",
    nodes=(Node(node_id=1, ranges=OTHERS, levels={METADATA: 20}, epoch=900),),
    stored={METADATA: 20},
)


def read(batch: pa.RecordBatch, **inventory: Expected) -> Evidence:
    conditions = Conditions(as_of=microseconds(AS_OF), max_age=MAX_AGE, inventory=inventory)
    return facts.read(batch, conditions, absent_metadata=1)


def of(*clusters: Cluster, **inventory: Expected) -> Evidence:
    return read(snapshot({c.name: lines_of(c) for c in clusters}), **inventory)


def test_a_pair_stands_for_every_node_of_its_profile() -> None:
    evidence = of(ONE, TWO)
    asked, who = evidence.questions, evidence.subjects
    feature = np.array(asked.names)[asked.feature]
    pairs = np.flatnonzero((feature == "f")[asked.pair_question])
    found = {}
    pair, subject = evidence.expand(pairs)
    for p, s in zip(pair.tolist(), subject.tolist(), strict=True):
        key = evidence.clusters[who.cluster[s]], int(asked.pair_max[p])
        found.setdefault(key, set()).add(int(who.node_id[s]))
    assert found == {("two", 5): {1, 3}, ("two", 0): {2, 11}}
    # Pairs in any order, some of them: each brings its own nodes, side by side.
    turned, subjects = evidence.expand(pairs[::-1])
    assert list(zip(turned.tolist(), subjects.tolist(), strict=True)) == [
        entry
        for p in pairs[::-1].tolist()
        for entry in zip(pair.tolist(), subject.tolist(), strict=True)
        if entry[0] == p
    ]
    nobody = evidence.expand(pairs[:0])
    assert [len(column) for column in nobody] == [0, 0]


def test_expected_nodes_that_nothing_shows_are_told_by_cluster_role_and_id() -> None:
    expected = Expected(brokers=(1, 5, 0, GREATEST), controllers=(0, 11, 12, GREATEST))
    evidence = of(ONE, TWO, two=expected, elsewhere=Expected(brokers=(77,)))
    who = evidence.subjects
    missing = [
        (evidence.clusters[c], Role(int(r)).text, int(n))
        for c, r, n, only in zip(who.cluster, who.role, who.node_id, who.expected_only, strict=True)
        if only
    ]
    assert sorted(missing) == [
        ("two", "broker", 0), ("two", "broker", 5), ("two", "broker", GREATEST),
        ("two", "controller", 0), ("two", "controller", 12), ("two", "controller", GREATEST),
    ]  # fmt: skip
    assert (who.node_id < GREATEST + 1).all()


def test_an_owner_stands_for_the_registrations_of_one_cluster_alone() -> None:
    seen = Cluster(name="seen", registry="none", nodes=ONE.nodes)
    same = Cluster(name="same", registry="none", nodes=ONE.nodes)
    for name, proven in (("seen", [True, False]), ("same", [False, True])):
        evidence = of(seen, same, **{name: Expected(vouched=True)})
        assert evidence.membership.registrations_proven.tolist() == proven
    evidence = of(seen, same, seen=Expected(vouched=False))
    assert evidence.membership.registrations_proven.tolist() == [False, False]


SCHEMA_3 = '{"version":3,"status":1,"features":{"f":{"min_version_level":1,"max_version_level":2}}}'


def test_the_generation_of_a_cluster_is_its_own() -> None:
    def lines(name: str) -> list[bytes]:
        keys = {"path": "/feature", "version": 3, "czxid": 3, "data": SCHEMA_3}
        return [line_of("znode", name, 1, **keys)]

    batch = snapshot({"a": lines("a"), "b": lines("b")})
    for known in ("a", "b"):
        evidence = read(batch, **{known: Expected(generation=Generation.ZK_2_7)})
        said = evidence.levels.ambiguous
        assert [evidence.clusters[cluster] for cluster, _ in said] == [{"a": "b", "b": "a"}[known]]


def went_back(*, cluster: str, node_id: int, role: str, epochs: tuple[int, int]) -> list[bytes]:
    """A node that spoke of one epoch, and an hour later of another."""
    before = Node(
        node_id=node_id,
        role=role,
        ranges=RANGES,
        levels={METADATA: 20},
        epoch=epochs[0],
        answered=2,
    )
    after = Node(node_id=node_id, role=role, ranges=RANGES, levels={METADATA: 20}, epoch=epochs[1])
    return [answer_line(cluster, before), answer_line(cluster, after)]


def test_an_epoch_that_went_back_counts_where_its_witness_is_believed() -> None:
    back, on = (900, 800), (800, 900)
    broker, quorum = {"node_id": 1, "role": "broker"}, {"node_id": 11, "role": CONTROLLER}
    batch = snapshot(
        {
            "broker-went-back": went_back(cluster="broker-went-back", epochs=back, **broker),
            "controller-alone": went_back(cluster="controller-alone", epochs=back, **quorum),
            "controller-beside": [
                *went_back(cluster="controller-beside", epochs=on, **broker),
                *went_back(cluster="controller-beside", epochs=(700, 600), **quorum),
            ],
            "went-on": went_back(cluster="went-on", epochs=on, **broker),
            "nothing": [],
            "hole": [
                *went_back(cluster="hole", epochs=back, **broker),
                line_of("znode", "hole", 2, path="/feature", version=1, czxid=1, data="{"),
                line_of("znode", "hole", 1, path="/feature", version=1, czxid=2, data="{"),
            ],
        }
    )
    evidence = read(batch)
    said = dict(zip(evidence.clusters, evidence.levels.went_back.tolist(), strict=True))
    assert said == {
        "broker-went-back": True, "controller-alone": True, "controller-beside": False,
        "went-on": False, "nothing": False, "hole": False,
    }  # fmt: skip
    kinds = dict(zip(evidence.clusters, evidence.levels.kind.tolist(), strict=True))
    assert kinds["controller-beside"] == Witness.BROKER
    assert kinds["nothing"] == -1
    assert "epoch_went_back:controller 11 from 700 to 600" in anomalies(batch)


def test_columns_of_the_row_are_passed_on() -> None:
    silent = Node(node_id=2, ranges=RANGES, answered=None, failed=1)
    lines = [*lines_of(TWO), failure_line("two", silent)]
    batch = snapshot({"two": lines, "one": lines_of(ONE), "none": []})
    evidence = read(batch)
    assert evidence.landed.tolist() == [True, True, False]
    assert evidence.controller.tolist() == [1, -1, -1]
    errors = [evidence.errors(i) for i in range(len(evidence.listeners))]
    assert sorted(set(errors)) == ["connection refused", "no reason given"]
    names = evidence.features(np.arange(len(evidence.questions.feature))).to_pylist()
    assert set(names) == {METADATA, "f"}
    assert len(landings(lines)) == len(lines)


@pytest.mark.parametrize("kind", [Expected, Waiting, Conditions, Evidence])
def test_what_judging_depends_on_cannot_be_changed(kind: type) -> None:
    some = {field.name: None for field in fields(kind)}
    value = kind(**some)
    with pytest.raises(FrozenInstanceError):
        setattr(value, next(iter(some)), 1)
    with pytest.raises((AttributeError, TypeError)):
        object.__setattr__(value, "unheard_of", 1)
    with pytest.raises(TypeError):
        kind(*some.values())


def test_an_inventory_says_nothing_unless_it_is_told() -> None:
    assert Expected() == Expected(
        brokers=(), controllers=(), vouched=False, generation=None, release=""
    )
    bare = Conditions(as_of=1, max_age=2)
    assert (bare.inventory, bare.mutes, bare.waiting, bare.forgotten) == ({}, (), {}, 0)
