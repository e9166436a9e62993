"""Nodes that stop, join or are elected, against what was recorded of real ones."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from tests.core.controllers import deprecation, transcripts
from tests.core.controllers.election import elect
from tests.core.controllers.model import answer, generation_of
from tests.core.controllers.node import read_node
from tests.core.controllers.protections import (
    CLEARS,
    GOES_ON,
    KEEPS,
    STOPS,
    at_start,
    becomes_controller,
    incompatible,
    on_change,
    replays,
)
from tests.core.controllers.registration import register
from tests.core.controllers.words import (
    CONTROLLER,
    ENABLED,
    KRAFT,
    METADATA,
    Cluster,
    Node,
    Range,
    Request,
    Update,
)

ZOOKEEPER = ["2.8.2", "3.3.2", "3.9.2"]
HOSTILE = Path(__file__).parents[1] / "data" / "hostile_feature_nodes"


def recorded(folder: str, release: str) -> list[dict[str, Any]]:
    with lzma.open(transcripts.HERE / folder / f"zk-{release}.jsonl.xz", "rt") as lines:
        return [json.loads(line) for line in lines]


def ranges(said: dict[str, list[int]]) -> dict[str, Range]:
    return {name: (low, high) for name, (low, high) in said.items()}


@pytest.mark.parametrize(("release", "cases"), [("2.8.2", 9), ("3.3.2", 28), ("3.9.2", 25)])
def test_what_an_elected_controller_does_to_the_features_node(release: str, cases: int) -> None:
    generation = "zk-2.7" if release == "2.8.2" else "zk-3.3"
    lines = recorded("bootstrap", release)
    for line in lines:
        before, ibp = line["node_before"], line["inter_broker_protocol"]
        found = elect(release, ibp, before, ranges(line["supported"]))
        assert found.elected == line["controller_elected"]
        assert found.node == read_node(generation, line["node_after"]), line["id"]
        moved = 0 if before is None else int(found.written)
        assert moved == line["znode_version_after"], line["id"]
        if found.written and found.node is not None:
            raw = json.loads(line["node_after"])
            lows = {n: e.get("min_version_level") for n, e in raw["features"].items()}
            kept = {
                n: low if raw["version"] == 1 else None
                for n, (low, _) in found.node.features.items()
            }
            assert lows == kept, line["id"]
    assert len(lines) == cases


@pytest.mark.parametrize(("release", "cases"), [("2.8.2", 87), ("3.3.2", 51), ("3.9.2", 87)])
def test_what_a_broker_does_about_hostile_nodes(release: str, cases: int) -> None:
    text = (HOSTILE / f"zk-{release}.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        ask = on_change if line["moment"] == "running" else at_start
        supported = ranges(line["supported"])
        epoch = line.get("apiversions", {}).get("finalized_features_epoch")
        if line["exit_status"] is not None:
            does = STOPS
        elif epoch == -1:
            does = CLEARS
        else:
            does = KEEPS if epoch < line["znode_version_before"] else GOES_ON
        assert ask(release, supported, line["content"]) == does, line["id"]
        if line["moment"] != "running" and line["exit_status"] is None:
            refused = line["update_f_to_4"]["error_code"] == 41
            assert becomes_controller(release, line["content"]) != refused, line["id"]
    assert len(lines) == cases


@pytest.mark.parametrize("release", ZOOKEEPER)
def test_brokers_stop_as_recorded(release: str) -> None:
    """(broker's range of f, level before, epoch before, level and epoch then)"""
    cases: dict[str, tuple[Range, int, int, int]] = {
        "level-above-a-running-broker": ((1, 3), 0, 4, 1),
        "level-above-the-running-controller": ((1, 5), 0, 9, 1),
        "race-start-vs-update": ((1, 3), 0, 4, 1),
        "incompatible-at-start": ((1, 3), -1, 4, 0),
        "replaced-in-one-transaction-same-epoch": ((1, 5), 0, 4, 0),
        "replaced-in-one-transaction-smaller-epoch": ((1, 5), 3, 4, 0),
    }
    generation = "zk-2.7" if release == "2.8.2" else "zk-3.3"
    seen = 0
    for line in recorded("protections", release):
        case = cases.get(line["id"].removeprefix(f"{release}-"))
        if case is None:
            continue
        span, cached_epoch, level, epoch = case
        entry = {"min_version_level": 1, "max_version_level": level}
        node = json.dumps({"version": 1, "status": 1, "features": {"f": entry}})
        does = on_change(release, {"f": span}, node, epoch, cached_epoch)
        assert does == (STOPS if line["exit_status"] == 1 else GOES_ON), line["id"]
        finalized = {"f": (1, level) if generation == "zk-2.7" else (level, level)}
        log = json.dumps(line)
        for name, why in incompatible(generation, finalized, {"f": span}):
            assert f"{{feature={name}, reason='{why}'}}" in log, line["id"]
        seen += 1
    assert seen >= 3


@pytest.mark.parametrize("release", ZOOKEEPER)
def test_ignored_registrations_do_not_hold_an_update_back(release: str) -> None:
    """Hand-made registrations under a live controller (f 1..5)."""
    generation, seen = generation_of("zk", release), 0
    for line in recorded("protections", release):
        if "-hand-registration-" not in line["id"]:
            continue
        level = line["finalized_at_that_time"]
        said = line["registration"].get("features", {})
        spans = {n: (r["min_version"], r["max_version"]) for n, r in said.items()}
        new = Node(node_id=7, release=release, supported=spans)
        local = Node(node_id=1, release=release, supported={"f": (1, 5)}, active=True)
        at = Cluster(
            release=release,
            mode="zk",
            nodes=(local,),
            finalized={"f": (1, level)},
            ibp="2.8",
            status=ENABLED,
        )
        ignored = any("Ignoring registration" in text for text in line["log_of_the_controller"])
        assert register(generation, at, new).accepted != ignored
        seen += 1
    assert seen >= 1


def kraft(release: str, levels: dict[str, int], *nodes: Node) -> Cluster:
    finalized = {name: (level, level) for name, level in levels.items()}
    return Cluster(release=release, mode="kraft", nodes=nodes, finalized=finalized)


def test_registrations_are_refused_in_the_recorded_words() -> None:
    levels = {METADATA: 25, "group.version": 1, "transaction.version": 2}
    old = Node(node_id=2, release="3.9.2", supported={METADATA: (1, 21), KRAFT: (0, 1)})
    found = register("kraft-4.2", kraft("4.2.1", levels), old)
    start = "Unable to register because the broker does not support"
    assert (found.code, found.message) == (
        35,
        f"{start} finalized version 25 of metadata.version. "
        "The broker wants a version between 1 and 21, inclusive.",
    )
    assert len(found.any_of) == 3
    wide = Node(node_id=2, release="3.9.2", supported={METADATA: (1, 25)})
    assert register("kraft-4.2", kraft("4.2.1", levels), wide).message == (
        f"{start} finalized version 1 of group.version. "
        "The broker wants a version between 0 and 0, inclusive."
    )
    older = Node(node_id=2, release="3.3.2", supported={METADATA: (1, 7)})
    assert register("kraft-3.5", kraft("3.5.2", {METADATA: 11}), older).message == (
        f"{start} version 11 of metadata.version. It wants a version between 1 and 7, inclusive."
    )
    blind = Node(node_id=2, release="3.5.2", supported={METADATA: (1, 11)})
    found = register("kraft-3.7", kraft("3.7.2", {METADATA: 19}), blind)
    assert (found.code, found.message) == (-1, "No directories specified in request")


def test_each_generation_compares_other_features() -> None:
    """A feature that is not finalized, one that is not listed, and the raft layer's level."""
    wants = Node(node_id=2, release="3.9.2", supported={METADATA: (1, 20), "f": (1, 3)})
    omits = Node(node_id=2, release="3.9.2", supported={METADATA: (1, 20)})
    bare, with_f = kraft("3.9.2", {METADATA: 20}), kraft("3.9.2", {METADATA: 20, "f": 2})
    raft = Cluster(**{**vars(bare), "raft": 1})
    accepts = {
        name: [
            register(name, at, node).accepted
            for at, node in [(bare, wants), (with_f, wants), (with_f, omits), (raft, omits)]
        ]
        for name in ("kraft-3.3", "kraft-3.7", "kraft-3.8", "kraft-3.9", "kraft-4.2", "kip")
    }
    assert accepts == {
        "kraft-3.3": [True, True, True, True],
        "kraft-3.7": [True, True, True, True],
        "kraft-3.8": [False, True, True, True],
        "kraft-3.9": [False, True, False, False],
        "kraft-4.2": [False, True, False, False],
        "kip": [True, True, False, True],
    }
    controller = Node(node_id=3, role=CONTROLLER, release="3.9.2")
    assert register("kraft-3.9", kraft("3.9.2", {METADATA: 14}), controller).code == 35
    assert register("kraft-3.9", kraft("3.9.2", {METADATA: 15}), controller).accepted


def test_nodes_end_over_finalized_levels_in_the_recorded_words() -> None:
    own = {METADATA: (7, 25)}
    controller = Node(node_id=1, role=CONTROLLER, release="4.0.1", supported=own)
    assert replays(controller, METADATA, 27) == (
        "Tried to apply FeatureLevelRecord FeatureLevelRecord(name='metadata.version', "
        "featureLevel=27), but this controller only supports versions 7-25"
    )
    broker = Node(node_id=1, release="4.0.1", supported=own)
    text = "No MetadataVersion with feature level 27. Valid feature levels are from 7 to 26."
    assert replays(broker, METADATA, 27) == text
    assert replays(broker, METADATA, 25) is None


def test_minimum_levels() -> None:
    """2.8.2, `ranked` 3..3 to 5: the controller's own minimum, 2, becomes the finalized one."""
    nodes = (
        Node(node_id=1, release="2.8.2", supported={"ranked": (2, 6)}, active=True),
        Node(node_id=2, release="2.8.2", supported={"ranked": (1, 6)}),
    )
    at = Cluster(
        release="2.8.2",
        mode="zk",
        nodes=nodes,
        finalized={"ranked": (3, 3)},
        ibp="2.8",
        status=ENABLED,
    )
    found = answer("zk-2.7", at, Request(version=0, updates=(Update("ranked", 5),), sent_to=1))
    assert found.after == {"ranked": (2, 5)}
    assert deprecation.minimum_after_update(at, "ranked") == 2
    assert deprecation.minimum_by_the_text(at, "ranked") == 2
    assert deprecation.deprecated_by_the_text(at) == {"ranked": (3, 3)}
