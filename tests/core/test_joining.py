"""Which nodes may join, against recorded refusals and the plain oracle."""

from __future__ import annotations

import json
import lzma
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from featurelib.core.cluster import Cluster, Node
from featurelib.core.compatibility import Admission, Joined, Newcomer, join
from featurelib.core.dialect import GENERATIONS, load
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role
from tests.core.controllers import words
from tests.core.controllers.draw import RELEASES, draw, profile
from tests.core.controllers.registration import register
from tests.core.oracle_cases import TABLES, cluster_of, node_of

DATA = Path(__file__).parents[1] / "data" / "transcripts" / "protections"
START = "Unable to register because the broker does not support"
GROUP, TRANSACTION, ELR = "group.version", "transaction.version", "eligible.leader.replicas.version"


def finalized(**levels: int) -> dict[str, tuple[int, int]]:
    names = {"mv": METADATA_VERSION, "kraft": KRAFT_VERSION, "group": GROUP, "tx": TRANSACTION}
    return {names.get(name, name): (level, level) for name, level in levels.items()}


def asked(
    dialect: str, levels: dict[str, tuple[int, int]], node: Node, *, raft_level: int = 0
) -> Joined:
    cluster = Cluster(release="", finalized=levels, raft_level=raft_level)
    return join(cluster, Newcomer(node=node), load(dialect), TABLES)


def broker(release: str, **supported: tuple[int, int]) -> Node:
    names = {"mv": METADATA_VERSION, "kraft": KRAFT_VERSION, "group": GROUP, "tx": TRANSACTION}
    own = {names.get(name, name): ends for name, ends in supported.items()}
    return Node(node_id=2, role=Role.BROKER, release=release, supported=own)


def old(level: int, name: str, low: int, high: int) -> str:
    wants = f"It wants a version between {low} and {high}, inclusive."
    return f"{START} version {level} of {name}. {wants}"


def new(level: int, name: str, low: int, high: int) -> str:
    return (
        f"{START} finalized version {level} of {name}. "
        f"The broker wants a version between {low} and {high}, inclusive."
    )


def test_a_3_3_broker_is_refused_as_recorded_by_3_5() -> None:
    found = asked("kraft-3.5", finalized(mv=11), broker("3.3.2", mv=(1, 7)))
    assert (found.entry, found.code) == (Admission.REFUSED, 35)
    assert found.message == old(11, METADATA_VERSION, 1, 7)


def test_a_3_9_broker_is_refused_as_recorded_by_4_2_and_everything_unfit_is_named() -> None:
    levels = finalized(mv=25, group=1, tx=2)
    found = asked("kraft-4.2", levels, broker("3.9.2", kraft=(0, 1), mv=(1, 21)))
    assert (found.entry, found.code) == (Admission.REFUSED, 35)
    assert found.message == new(25, METADATA_VERSION, 1, 21)
    assert [item.feature for item in found.unfit] == [METADATA_VERSION, GROUP, TRANSACTION]
    wider = asked("kraft-4.2", levels, broker("3.9.2", kraft=(0, 1), mv=(1, 25)))
    assert wider.message == new(1, GROUP, 0, 0)


def test_a_broker_without_log_directories_is_refused_before_its_features() -> None:
    """Recorded: 3.5.2 at a 3.7.2 controller; what that broker reads as UNKNOWN_SERVER_ERROR."""
    found = asked("kraft-3.7", finalized(mv=19), broker("3.5.2", mv=(1, 11)))
    assert (found.entry, found.code) == (Admission.REFUSED, 119)
    assert found.message == "No directories specified in request"
    assert [item.text for item in found.unfit] == [old(19, METADATA_VERSION, 1, 11)]
    assert asked("kraft-3.7", finalized(mv=17), broker("3.6.2", mv=(1, 17))).code == 119
    assert asked("kraft-3.7", finalized(mv=16), broker("3.5.2", mv=(1, 16))).unfit == ()
    assert asked("kraft-3.7", finalized(mv=17), broker("", mv=(1, 17))).entry is Admission.ACCEPTED
    assert asked("kraft-3.5", finalized(mv=11), broker("3.5.2", mv=(1, 11))).message is None


def test_kraft_version_counts_with_the_value_of_the_raft_layer() -> None:
    """3.9 reports a record of level 1 that the raft layer knows nothing of."""
    node = broker("3.9.2", mv=(1, 21), kraft=(0, 0))
    levels = finalized(mv=21, kraft=1)
    assert asked("kraft-3.9", levels, node).entry is Admission.ACCEPTED
    assert asked("kraft-3.9", levels, node, raft_level=1).message == new(1, KRAFT_VERSION, 0, 0)
    assert asked("kraft-4.1", levels, node).message == new(1, KRAFT_VERSION, 0, 0)


def test_what_is_not_listed_is_named_in_the_order_of_a_copied_hash_map() -> None:
    """8 buckets for three features, so transaction.version comes before kraft.version; read in
    ClusterControlManager, never recorded."""
    node = broker("4.1.2", mv=(7, 27))
    found = asked("kraft-4.1", finalized(mv=25, kraft=1, tx=2), node)
    assert [item.feature for item in found.unfit] == [TRANSACTION, KRAFT_VERSION]
    assert found.message == new(2, TRANSACTION, 0, 0)


def recorded(release: str) -> list[dict[str, Any]]:
    with lzma.open(DATA / f"zk-{release}.jsonl.xz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("release", ["2.8.2", "3.3.2", "3.9.2"])
def test_registrations_made_by_hand_are_ignored_as_recorded(release: str) -> None:
    dialect = load("zk-2.7" if release == "2.8.2" else "zk-3.3")
    seen = set()
    for case in recorded(release):
        if "-hand-registration-" not in case["id"]:
            continue
        node_id, level = int(case["id"].rsplit("-", 1)[1]), case["finalized_at_that_time"]
        said = case["registration"].get("features", {})
        own = {name: (e["min_version"], e["max_version"]) for name, e in said.items()}
        node = Node(node_id=node_id, role=Role.BROKER, supported=own)
        least = 1 if release == "2.8.2" else level
        cluster = Cluster(release=release, finalized={"f": (least, level)})
        found = join(cluster, Newcomer(node=node, unguarded=True), dialect, TABLES)
        lines = " ".join(case["log_of_the_controller"])
        assert (found.entry is Admission.IGNORED) == ("Ignoring registration" in lines), case["id"]
        assert found.message is None or found.message in lines, case["id"]
        seen.add(found.entry)
    assert Admission.IGNORED in seen
    assert seen <= {Admission.ACCEPTED, Admission.IGNORED}


def test_a_broker_below_protocol_version_2_7_is_ignored() -> None:
    """Recorded with 2.8.2: it advertises 1-3 to clients and registers nothing; it never exits."""
    node = broker("2.8.2", f=(1, 3))
    at = Cluster(release="2.8.2", finalized={"f": (1, 2)})
    dialect = load("zk-2.7")
    found = join(at, Newcomer(node=node, protocol_version="2.6-IV0"), dialect, TABLES)
    assert (found.entry, found.code) == (Admission.IGNORED, 0)
    assert str(found.message).endswith("due to incompatibilities with finalized features: 2")
    assert [item.text for item in found.unfit] == ["{feature=f, reason='Unsupported feature'}"]
    assert join(at, Newcomer(node=node, protocol_version="2.7"), dialect, TABLES).unfit == ()
    off = join(replace(at, off=True), Newcomer(node=broker("2.8.2")), dialect, TABLES)
    assert off == Joined(entry=Admission.ACCEPTED)


def test_a_broker_of_zookeeper_mode_judges_itself_by_its_own_generation() -> None:
    """Mid-roll: 3.3 looks at the level only; the 2.8 controller wants the minimum as well."""
    at = Cluster(release="2.8.2", finalized={"f": (1, 3), "g": (1, 1)})
    node = broker("3.3.2", f=(2, 5), g=(1, 1))
    found = join(at, Newcomer(node=node), load("zk-2.7"), TABLES)
    assert found.entry is Admission.IGNORED
    mine = join(at, Newcomer(node=replace(node, release="2.8.2")), load("zk-2.7"), TABLES)
    assert mine.entry is Admission.STOPS
    assert mine.message == (
        "Feature incompatibilities seen: {feature=f, reason='FinalizedVersionRange"
        "[min_version_level:1, max_version_level:3] is incompatible with "
        "SupportedVersionRange[min_version:2, max_version:5]'}"
    )
    none = join(at, Newcomer(node=broker("3.9.2")), load("zk-3.3"), TABLES)
    assert none.message == (
        "Feature incompatibilities seen: {feature=f, reason='Unsupported feature'}, "
        "{feature=g, reason='Unsupported feature'}"
    )


GOOD = {Admission.ACCEPTED, Admission.NOT_REGISTERED}


@pytest.mark.parametrize("name", [*GENERATIONS, "kip"])
def test_random_registrations_are_judged_as_the_oracle_does(name: str) -> None:
    entries = set()
    dialect = load(name)
    for seed in range(400):
        chance, drawn = Random(seed), draw(seed, name)
        cluster = drawn.cluster
        release = chance.choice(RELEASES[name])
        if name.startswith("kraft") and chance.random() < 0.3:
            release = chance.choice(["3.3.2", "3.6.2", "3.7.2", "3.9.2", "4.2.1"])
        node = chance.choice(cluster.nodes)
        node = words.Node(**{**vars(node), "release": release, "ignored": False})
        if cluster.mode == "kraft" and chance.random() < 0.5:
            node = words.Node(**{**vars(node), "supported": profile(chance, release)})
        core = cluster_of(cluster)
        if name.startswith("zk") and cluster.status != words.ENABLED:
            core = replace(core, finalized={})
        found = join(core, Newcomer(node=node_of(node)), dialect, TABLES)
        entries.add(found.entry)
        said = register(name, cluster, node)
        if name == "kip" and node.role == words.CONTROLLER:
            continue  # no text lets a controller register
        assert (found.entry in GOOD) == said.accepted, seed
        if name.startswith("zk"):
            reasons = {item.text.split("reason='")[1][:-2] for item in found.unfit}
            assert reasons == said.any_of, seed
            continue
        # What the controller sends; a broker that never heard of 119 reads it as -1.
        assert found.code == {None: 0, -1: 119}.get(said.code, said.code), seed
        if found.code == 119 or not found.unfit:
            assert found.message == next(iter(said.any_of), None), seed
        else:
            assert {item.text for item in found.unfit} == said.any_of, seed
            assert found.message in said.any_of, seed
    assert len(entries) >= 2
