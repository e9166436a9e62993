"""How an embedded cluster in ZooKeeper mode behaves, beside what real ones were recorded doing."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from featurelib.core.cluster import Cluster
from featurelib.core.compatibility import Admission
from featurelib.core.election import ZnodeChange
from tests.backends.clusters import ZK, content, finalized, node_of, opened, to, zk_broker
from tests.backends.simulator import Simulated

TESTS = Path(__file__).parents[1]


def cluster_of(*nodes: Any, level: int = 3, **change: Any) -> Simulated:
    """Brokers with f finalized, the first of them the controller."""
    release = nodes[0].release if nodes else "3.9.2"
    low = 1 if release.startswith("2") else level
    start = Cluster(release=release, nodes=nodes, active=1, finalized={"f": (low, level)})
    return opened(replace(start, **change), 7, "zk")


@pytest.fixture
def two() -> Iterator[Simulated]:
    with cluster_of(zk_broker(1, f=(1, 5)), zk_broker(2, f=(1, 3))) as cluster:
        yield cluster


def raised(cluster: Simulated, level: int, feature: str = "f") -> int:
    """The code an update is answered with: of the request, or of its only result."""
    reply = cluster.update_features(replace(to(level, feature=feature), version=0)).answered.reply
    return reply.results[0].code if reply.results else reply.code


# --- Recorded -------------------------------------------------------------------------------------


def recorded(folder: str, release: str) -> list[dict[str, Any]]:
    path = TESTS / "data/transcripts" / folder / f"zk-{release}.jsonl.xz"
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def hostile(release: str, moment: str) -> list[dict[str, Any]]:
    text = (TESTS / "core/data/hostile_feature_nodes" / f"zk-{release}.jsonl").read_text("utf-8")
    return [case for case in map(json.loads, text.splitlines()) if case["moment"] == moment]


def own(case: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {name: (low, high) for name, (low, high) in case["supported"].items()}


def shown(cluster: Simulated) -> tuple[int, list[tuple[str, int, int]]]:
    said: dict[str, Any] = cluster.describe(1)
    return said["finalized_features_epoch"], levels_of(said)


def levels_of(said: dict[str, Any]) -> list[tuple[str, int, int]]:
    entries = said["finalized_features"]
    rows = ((e["name"], e["min_version_level"], e["max_version_level"]) for e in entries)
    return sorted(rows)


def empty(release: str) -> Simulated:
    return opened(Cluster(release=release, node_missing=True, cached={}), mode="zk")


@pytest.mark.parametrize("release", ["2.8.2", "3.3.2", "3.9.2"])
def test_brokers_that_run_take_a_hostile_text_as_recorded(release: str) -> None:
    cases = hostile(release, "running")
    assert len(cases) == 51
    for case in cases:
        with empty(release) as cluster:
            cluster.write_features_node(case["before"])
            assert cluster.register(zk_broker(1, release, **own(case))).entry is Admission.ACCEPTED
            assert cluster.elect(1).election.change is ZnodeChange.UNCHANGED, case["id"]
            good = shown(cluster)
            stopped = cluster.write_features_node(case["content"])
            assert bool(stopped) == (case["exit_status"] == 1), case["id"]
            if stopped:
                assert cluster.cluster.active == -1
                assert node_of(cluster, 1).registered is False
                continue
            told = case["apiversions"]
            epoch, levels = shown(cluster)
            assert levels == levels_of(told), case["id"]
            kept, known = good == (epoch, levels), told["finalized_features_epoch"] >= 0
            assert (epoch >= 0) == known, case["id"]
            assert kept == (
                known and told["finalized_features_epoch"] < case["znode_version_before"]
            ), case["id"]
            if (update := case.get("update_f_to_4")) is None:
                continue
            reply = cluster.update_features(replace(to(4, feature="f"), version=0)).answered.reply
            results = [(r.feature, r.code, r.message) for r in reply.results or ()]
            said = [tuple(entry.values()) for entry in update["results"]]
            assert (reply.code, results) == (update["error_code"], said), case["id"]
            assert cluster.features_node is not None
            assert json.loads(cluster.features_node) == json.loads(case["znode_after"]), case["id"]


# --- Protections ----------------------------------------------------------------------------------


def test_an_update_spares_the_live_and_ends_who_was_not_asked(two: Simulated) -> None:
    """The lifetime race: a broker without session runs, is not asked, and watches the node."""
    assert raised(two, 4) == 42
    two.fence(2)
    outcome = two.update_features(to(4, feature="f"))
    assert [item.node.node_id for item in outcome.stopped] == [2]


# --- Elections ------------------------------------------------------------------------------------


def test_an_update_over_a_damaged_node_loses_the_other_levels() -> None:
    with opened(ZK, 7, "zk") as cluster:
        cluster.write_features_node("not json")
        assert raised(cluster, 2) == 0
        assert finalized(cluster, 1) == ({"f": 2}, 9)


def test_a_wrong_type_stops_older_brokers_and_newer_ones_keep_what_they_had() -> None:
    three = zk_broker(1, f=(1, 5)), zk_broker(2, "3.3.2", f=(1, 5)), zk_broker(3, f=(1, 5))
    with cluster_of(*three) as cluster:
        stopped = cluster.write_features_node('{"version":"1"}')
        assert [item.node.node_id for item in stopped] == [2]
        assert finalized(cluster, 1) == ({"f": 3}, 7)
        cluster.settle()
        assert finalized(cluster, 3) == ({"f": 3}, 7)
        assert [j.entry for j in cluster.start(2)] == [Admission.STOPS]
        assert raised(cluster, 4) == 0
        assert finalized(cluster, 3) == ({"f": 4}, 9)
        assert [j.entry for j in cluster.start(2)] == [Admission.ACCEPTED]


def test_who_saw_the_node_deleted_sees_no_later_one_until_it_is_restarted(
    two: Simulated,
) -> None:
    assert two.write_features_node(None) == ()
    assert (two.features_node, finalized(two, 1)) == (None, ({}, -1))
    assert two.write_features_node(content(("f", 4, 4))) == ()  # nobody saw it, nobody stops
    assert (two.epoch, finalized(two, 2)) == (0, ({}, -1))
    assert raised(two, 2) == 96
    assert finalized(two, 1) == ({}, -1)
    two.stop(2)
    assert [j.entry for j in two.start(2)] == [Admission.ACCEPTED]
    assert finalized(two, 2) == ({"f": 2}, 1)
    two.elect(2)
    assert raised(two, 3) == 0
    assert (finalized(two, 1), finalized(two, 2)) == (({}, -1), ({"f": 3}, 2))


def test_a_controller_that_sees_no_node_writes_only_its_own_update() -> None:
    with opened(ZK, 7, "zk") as cluster:
        cluster.write_features_node(None)
        cluster.write_features_node(content(("f", 4, 4), ("g", 1, 1)))
        assert cluster.elect(1).election.change is ZnodeChange.UNCHANGED
        assert raised(cluster, 2) == 96
        assert cluster.cluster.finalized == {"f": (2, 2)}
