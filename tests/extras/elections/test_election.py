"""What the next election would make of a cluster's features node, and the verdicts after it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from featurelib.audit.cluster_view import ClusterView, Inputs
from featurelib.config.fleet import Fleet
from featurelib.config.fleet import FleetEntry as Entry
from featurelib.core.features_znode import ZnodeChange, ZnodeReason
from featurelib.extras.elections.foresee import (
    Doubt,
    Election,
    expect_protocol_version,
    hold_election,
)
from featurelib.extras.predictions.what_if import compare
from tests.core.lines import AS_OF, MAX_AGE, microseconds
from tests.core.lines import lines_of as lines_of_cluster
from tests.core.oracle import Cluster, Node
from tests.questions.nights import CATALOGUE, TERMS, lines_of, view
from tests.seeing import see

ZOOKEEPER = (
    "zk-282-disabled", "zk-282-ignored-broker", "zk-282-min-above-one", "zk-282-ranges",
    "zk-282-stock", "zk-332-ranges", "zk-392-many", "zk-392-stock", "zk-roll-282-332",
)  # fmt: skip
THEN = Inputs(catalogue=CATALOGUE, as_of=microseconds(AS_OF), max_age=MAX_AGE)
WIDE, NARROW = {"f": (1, 5), "g": (1, 2)}, {"f": (1, 3)}


def ask(name: str, version: str, inputs: Inputs = TERMS) -> Election:
    return foresee(view(name), version, inputs)


def foresee(one: ClusterView, version: str, inputs: Inputs) -> Election:
    expect_protocol_version(one, version, inputs)
    foreseen, after = hold_election(one, version, inputs)
    return Election(election=foreseen, what_if=compare(one, after))


def told(name: str, release: str) -> Inputs:
    entry = Entry(id=view(name).cluster_id, release=release)
    return Inputs(
        catalogue=CATALOGUE, as_of=None, max_age=TERMS.max_age, fleet=Fleet(cluster=(entry,))
    )


def verdicts(one: ClusterView) -> list[tuple[object, ...]]:
    rows = one.judged.readiness.to_pylist()
    keys = ("feature", "verdict", "finalized_level", "target", "ceiling")
    said = [tuple(row[key] for key in keys) for row in rows]
    phase = one.judged.plans.to_pylist()[0]
    return [(phase["verdict"], phase["phase"]), *said]


@pytest.mark.parametrize("name", ZOOKEEPER)
def test_at_2_6_all_is_lost_and_the_verdicts_are_those_of_what_would_land_then(name: str) -> None:
    """Against lines as they would land: no features registered, the node Disabled, epoch -1."""
    found = ask(name, "2.6")
    one = found.election.settled
    assert one is not None
    assert one.election.content is not None
    assert (one.election.content.status, one.election.content.levels, one.ends) == (0, (), {})
    before = found.election.before
    assert before is not None
    assert [n for n, _, _ in one.election.lost] == [n for n, _, _ in before.levels]
    lines = [*lines_of(name), *landed_at_2_6(name, one.election.text or "", one.version or 0)]
    after = see(
        lines, catalogue=CATALOGUE, as_of=None, max_age=TERMS.max_age, fleet=same_dialect(name)
    )
    assert verdicts(found.what_if.after) == verdicts(after)


def same_dialect(name: str) -> Fleet:
    """Who knows the release now knows it then."""
    only = len(view(name).dialects) == 1
    release = "3.9" if only else ""
    return Fleet(cluster=(Entry(id=view(name).cluster_id, release=release),))


def landed_at_2_6(name: str, text: str, version: int) -> list[bytes]:
    """The last word of each broker that is registered, again and later."""
    lines = [json.loads(line) for line in lines_of(name)]
    now = "2026-11-21T06:30:00.000Z"
    later = []
    last = {}
    for line in lines:
        if line["kind"] == "znode" and line["path"].startswith("/brokers/ids/"):
            last[line["path"]] = line
        if line["kind"] == "api_versions" and line.get("error_code") == 0:
            last["answer", line["node_id"], line["asked_version"]] = line
    here = {n.node_id for n in view(name).cluster.nodes if n.registered}
    for line in last.values():
        node_id = int(line["path"].split("/")[-1]) if "path" in line else line["node_id"]
        if node_id not in here:
            continue
        if "path" in line:
            said = json.loads(line["data"])
            said.pop("features", None)
            line = line | {"data": json.dumps(said | {"version": 4})}
        else:
            line = line | {"finalized_features": [], "finalized_features_epoch": -1}
        later.append(json.dumps(line | {"observed_at": now}).encode())
    (node, *_) = [x for x in reversed(lines) if x.get("path") == "/feature"]
    node |= {"data": text, "version": version, "observed_at": now}
    return [*later, json.dumps(node).encode()]


def made(*nodes: Node, told: str = "", **changes: Any) -> Election:
    version = changes.pop("version", "2.8")
    described = Cluster(name="z", zookeeper=True, nodes=nodes, **changes)
    inputs = Inputs(
        catalogue=CATALOGUE, as_of=THEN.as_of, max_age=MAX_AGE,
        fleet=Fleet(cluster=(Entry(id="z", release=told),)),
    )  # fmt: skip
    one = see(
        lines_of_cluster(described), catalogue=CATALOGUE, as_of=THEN.as_of, max_age=MAX_AGE,
        fleet=inputs.fleet,
    )  # fmt: skip
    return foresee(one, version, inputs)


def broker(node_id: int, ranges: dict[str, tuple[int, int]], **changes: Any) -> Node:
    return Node(node_id=node_id, ranges=ranges, **changes)


def test_a_broker_that_would_end_does_not_run_afterwards() -> None:
    found = made(broker(1, WIDE), broker(2, NARROW), stored={"f": 4}, told="3.9", schema=1)
    (one,) = found.election.outcomes
    assert (one.leaders, one.ends) == ((1,), {2: ("f",)})
    assert [n.node_id for n in found.what_if.after.cluster.nodes if n.registered] == [1]


def test_where_no_broker_supports_what_is_finalized_nobody_leads() -> None:
    found = made(broker(2, NARROW), stored={"f": 4}, told="3.9", controller=2)
    (one,) = found.election.outcomes
    assert (one.election.reasons, one.leaders) == ((ZnodeReason.INCOMPATIBLE,), ())
    evidence = found.what_if.after.judged.evidence
    assert evidence is not None
    assert evidence.controller.tolist() == [-1]
    assert "READY" not in {v[1] for v in verdicts(found.what_if.after)}


def test_a_broker_whose_software_nobody_knows_leaves_the_levels_unknown() -> None:
    silent = broker(2, NARROW, says_nothing=True, answered=None)
    found = made(broker(1, WIDE), silent, features_node=False, told="2.8")
    assert found.election.silent == (2,)
    assert [one.certain for one in found.election.outcomes] == [True, False]
    assert {v[1] for v in verdicts(found.what_if.after)[1:]} == {"UNKNOWN"}
    off = made(broker(1, WIDE), silent, features_node=False, told="2.8", version="2.6")
    assert off.election.settled is not None  # Disabled and empty, whoever wins
    ignored = ask("zk-282-ignored-broker", "2.6").election
    assert [one.leaders for one in ignored.outcomes] == [(1, 2)]  # nothing keeps 2 from it


def test_where_one_of_two_generations_elects_nobody_nobody_leads() -> None:
    """2.7 to 3.2 ask for the finalized minimum 1 as well; the node stays in both."""
    found = made(broker(1, {"f": (2, 5)}), stored={"f": 4}, schema=1, controller=1)
    left = [(one.dialects, one.election.change) for one in found.election.outcomes]
    assert left == [(("zk-2.7",), ZnodeChange.NOBODY), (("zk-3.3",), ZnodeChange.UNCHANGED)]
    one = found.election.settled
    assert one is not None
    assert (one.election.change, one.ends) == (ZnodeChange.NOBODY, {1: ("f",)})
    evidence = found.what_if.after.judged.evidence
    assert evidence is not None
    assert evidence.controller.tolist() == [-1]


def test_a_features_node_that_was_not_read_makes_it_unknown() -> None:
    described = Cluster(name="z", zookeeper=True, nodes=(broker(1, WIDE),), stored={"f": 2})
    lines = [x for x in lines_of_cluster(described) if b'"/feature"' not in x]
    one = see(lines, catalogue=CATALOGUE, as_of=THEN.as_of, max_age=MAX_AGE)
    found = foresee(one, "2.6", THEN)
    assert (found.election.doubt, found.election.outcomes) == (Doubt.NOT_READ, ())
    assert verdicts(found.what_if.after) == verdicts(found.what_if.before)
