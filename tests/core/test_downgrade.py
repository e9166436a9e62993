"""Downgrade floors, points of no return and who may join: of every pair of levels against a plain
walk, of a plan, and of a fleet as of each cluster alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from featurelib.audit.cluster_view import PlainCluster
from featurelib.audit.evidence import Evidence, read
from featurelib.catalogue import ReleaseCatalogue
from featurelib.core.compatibility import fits
from featurelib.core.dialect import generation_of, load
from featurelib.core.downgrade import (
    Position,
    Return,
    fitting_after_lowering,
    floors,
    lowest_metadata,
    no_returns,
    of_other_feature,
    position,
    returns_of,
)
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION
from featurelib.model import Move, Plan, RangeGroup, Requirements, Step
from tests.core import scale
from tests.core.lines import conditions, judge_clusters, lines_of, readiness, rows_of, snapshot
from tests.core.made_up import CATALOGUE
from tests.core.oracle import CONTROLLER, Cluster, Node
from tests.core.random_clusters import ELR, GROUP, clusters
from tests.core.random_clusters import RELEASES as SOFTWARE

TABLES = CATALOGUE.tables
RELEASES = [release.release for release in CATALOGUE.releases]
CAN = load("kraft-4.2").can
Ends = tuple[int, int]


def steps_from(own: ReleaseCatalogue, level: int, lowest: int, nodes: Ends) -> Iterator[int]:
    """The levels one SAFE_DOWNGRADE away, as MetadataVersion and QuorumFeatures decide it."""
    for there in own.names:
        crossed = range(there + 1, level + 1)
        lossless = not any(n in own.loses_metadata_below for n in crossed)
        if there < level and lossless and there >= lowest and nodes[0] <= there <= nodes[1]:
            yield there


def walked(own: ReleaseCatalogue, level: int, lowest: int, nodes: Ends) -> set[int]:
    """Every level that any walk of safe downgrades reaches."""
    reached, waiting = {level}, [level]
    while waiting:
        for there in steps_from(own, waiting.pop(), lowest, nodes):
            if there not in reached:
                reached.add(there)
                waiting.append(there)
    return reached


def at(levels: list[int], nodes: Ends) -> Position:
    return position([({METADATA_VERSION: level}, [nodes]) for level in levels], CATALOGUE)


def ends_to_try(own: ReleaseCatalogue) -> list[Ends]:
    whole = own.oldest, own.newest_unstable
    return [whole, (max(own.oldest, 6), whole[1]), (whole[0], own.newest_stable - 1), (15, 20)]


@pytest.mark.parametrize("release", RELEASES)
def test_the_floor_of_every_level_is_where_the_lowest_walk_ends(release: str) -> None:
    own, can = CATALOGUE.of(release), load(generation_of(release, "kraft")).can
    for nodes in ends_to_try(own):
        levels = list(own.names)
        lowest = can.metadata_floor
        expected = [min(walked(own, level, lowest, nodes)) for level in levels]
        found = floors(TABLES, TABLES.release_code(release), at(levels, nodes), can)
        assert found.tolist() == expected, nodes


@pytest.mark.parametrize("release", RELEASES)
def test_the_point_of_no_return_of_every_pair_is_where_the_way_back_ends(release: str) -> None:
    own, can = CATALOGUE.of(release), load(generation_of(release, "kraft")).can
    pairs = [(a, b) for a in own.names for b in own.names if a < b]
    for nodes in ends_to_try(own):
        expected = []
        for start, target in pairs:
            way = [level for level in own.names if start < level <= target]
            gone = [n for n in way if start not in walked(own, n, can.metadata_floor, nodes)]
            expected.append(gone[0] if gone else -1)
        where, code = at([start for start, _ in pairs], nodes), TABLES.release_code(release)
        ends = np.array([target for _, target in pairs])
        assert no_returns(TABLES, code, where, ends, can).tolist() == expected, nodes


def test_well_known_floors() -> None:
    def floor(release: str, level: int) -> int:
        own, can = CATALOGUE.of(release), load(generation_of(release, "kraft")).can
        where = at([level], (own.oldest, own.newest_unstable))
        return int(floors(TABLES, TABLES.release_code(release), where, can)[0])

    assert [floor("4.2", n) for n in (29, 23, 22, 17, 16, 7)] == [23, 23, 17, 17, 15, 7]
    assert [floor("4.2", 30), floor("4.3", 30)] == [23, 30]  # unstable in 4.2, and not lossy there
    assert [floor("3.9", 22), floor("3.9", 21)] == [22, 17]
    assert [floor("3.3", 4), floor("3.3", 3)] == [4, 3]  # nothing is set below 3.3-IV0
    assert [floor("4.2", 33), floor("4.2", 99), floor("4.2", 0)] == [-1, -1, -1]


def test_no_way_is_no_point_of_no_return_and_kraft_version_never_goes_back() -> None:
    code, ends = TABLES.release_code("4.2"), np.array([27, 20])
    assert no_returns(TABLES, code, at([27, 27], (7, 30)), ends, CAN).tolist() == [-1, -1]
    current, target = np.array([0, 1]), np.array([1, 1])
    raft = of_other_feature(CATALOGUE, KRAFT_VERSION, current, target)
    assert (raft.floor.tolist(), raft.no_return.tolist()) == ([0, 1], [1, -1])
    other = of_other_feature(CATALOGUE, "transaction.version", current, target + 1)
    assert (other.floor.tolist(), other.no_return.tolist()) == ([0, 0], [-1, -1])


# --- Software -------------------------------------------------------------------------------------


def plain_misfits(release: str, levels: dict[str, int], *, unstable: bool) -> set[str]:
    own, bad = CATALOGUE.of(release), set()
    for name, level in levels.items():
        known = own.known_levels(name, unstable=unstable)
        if level > 0 and (level not in known or max(known) == 0):
            bad.add(name)
    return bad


@pytest.mark.parametrize("level", range(1, 36))
def test_a_release_joins_when_it_has_every_finalized_level(level: int) -> None:
    levels = {METADATA_VERSION: level, ELR: level % 2, KRAFT_VERSION: level // 20, "f": level // 30}
    found = fits(levels, CATALOGUE)
    assert [fit.release for fit in found] == RELEASES
    for fit in found:
        assert set(fit.misfits) == plain_misfits(fit.release, levels, unstable=False)
        assert set(fit.misfits_unstable) == plain_misfits(fit.release, levels, unstable=True)
        assert fit.joins == (not fit.misfits)


@pytest.mark.parametrize("release", RELEASES)
def test_a_release_may_be_rolled_to_once_levels_are_lowered_as_far_as_it_needs(
    release: str,
) -> None:
    own, can = CATALOGUE.of(release), load(generation_of(release, "kraft")).can
    nodes = own.oldest, own.newest_unstable
    for level in own.names:
        ways = walked(own, level, can.metadata_floor, nodes)
        for raft in (0, 1):
            levels = {METADATA_VERSION: level, KRAFT_VERSION: raft}
            found = fitting_after_lowering(levels, at([level], nodes), release, can, CATALOGUE)
            expected = {
                to: any(
                    not plain_misfits(
                        to, {METADATA_VERSION: n, KRAFT_VERSION: raft}, unstable=False
                    )
                    for n in ways
                )
                for to in RELEASES
            }
            assert found == expected, levels


# --- A plan ---------------------------------------------------------------------------------------

WIDE = {METADATA_VERSION: (1, 29), GROUP: (0, 1)}


def up(feature: str, low: int, high: int) -> Move:
    return Move(feature=feature, from_level=low, to_level=high, upgrade_type="UPGRADE")


def planned(
    *updates: Move,
    levels: dict[str, int],
    own: tuple[str, ...] = ("kraft-4.2",),
    ranges: dict[str, tuple[int, int]] = WIDE,
) -> Plan:
    group = RangeGroup(brokers=(1,), controllers=(1,), ranges=ranges)
    required = Requirements(levels=levels, nodes=(group,), features_node_version=None)
    return Plan(
        cluster="c",
        intent="upgrade-all",
        dialect="strict",
        own_dialects=own,
        catalogue=CATALOGUE.label,
        steps=tuple(Step(updates=(update,), timeout_ms=60_000) for update in updates),
        requirements=required,
    )


Ways = tuple[tuple[str, int, int], ...]  # feature, floor, point of no return


# From 3.5-IV2 (11) to 3.7-IV4 (19): 3.6-IV1 (13) and 3.7-IV2 (17) changed metadata. A level that is
# stored as a record needs 3.3-IV0 at least, and group.version 1 needs 4.0-IV0 (22).
UP = up(METADATA_VERSION, 11, 19)
AT_11 = {METADATA_VERSION: 11}
FIRST = planned(up(METADATA_VERSION, 1, 2), levels={METADATA_VERSION: 1})
ACME = planned(up("acme", 1, 2), levels={"acme": 1})
PLANS: dict[str, tuple[Plan, Ways]] = {
    "the floor rises with the plan": (
        planned(UP, levels=AT_11), ((METADATA_VERSION, 17, 13),)),
    "what stays counts as it is": (
        planned(up(GROUP, 0, 1), levels={METADATA_VERSION: 25}),
        ((GROUP, 0, -1), (METADATA_VERSION, 23, -1))),
    "nodes that start later hold the floor up": (
        planned(up(METADATA_VERSION, 24, 25), levels={METADATA_VERSION: 24},
                ranges={METADATA_VERSION: (24, 25)}), ((METADATA_VERSION, 24, -1),)),
    "nothing takes kraft.version back": (
        planned(up(KRAFT_VERSION, 0, 1), levels={METADATA_VERSION: 25}),
        ((KRAFT_VERSION, 1, 1), (METADATA_VERSION, 23, -1))),
    "nobody knows a vendor's feature": (ACME, (("acme", -1, -1),)),
    "in ZooKeeper mode metadata.version means nothing": (
        planned(up("acme", 1, 2), levels={"acme": 1} | AT_11, own=("zk-3.3",)),
        (("acme", -1, -1), (METADATA_VERSION, -1, -1))),
    "a plan that names no dialect is asked of the strict policy": (
        planned(UP, levels=AT_11, own=()), ((METADATA_VERSION, 17, 13),)),
    "what may be in ZooKeeper mode may be in KRaft mode": (
        planned(UP, levels=AT_11, own=("zk-3.3", "kraft-3.7")), ((METADATA_VERSION, 17, 13),)),
    "the worst of several dialects counts": (
        replace(FIRST, own_dialects=("kraft-4.0", "kraft-4.2")), ((METADATA_VERSION, 2, 2),)),
    "in whichever order they stand": (
        replace(FIRST, own_dialects=("kraft-4.2", "kraft-4.0")), ((METADATA_VERSION, 2, 2),)),
}  # fmt: skip


def test_a_plan_leaves_each_feature_its_way_back() -> None:
    for name, (plan, expected) in PLANS.items():
        [found] = returns_of([plan], CATALOGUE)
        ways = [Return(feature=one, floor=low, no_return=end) for one, low, end in expected]
        assert list(found) == ways, name
    plan = planned(up(GROUP, 0, 1), levels={})  # without a metadata.version there is no floor
    lowest = lowest_metadata([(plan, {GROUP: 1}), (plan, {METADATA_VERSION: 19})], CATALOGUE)
    assert lowest[0] == -1


# --- A fleet --------------------------------------------------------------------------------------


def kraft(release: str, stored: dict[str, int], *others: str, name: str = "k") -> Cluster:
    """One process of each release, the first of them the controller; all fresh."""
    nodes = [
        Node(node_id=i, ranges=SOFTWARE[one], levels=stored, epoch=900)
        for i, one in enumerate((release, *others), start=1)
    ]
    leader = Node(node_id=1, role=CONTROLLER, ranges=SOFTWARE[release])
    return Cluster(name=name, nodes=(*nodes, leader), voters=(1,), stored=stored)


def back(cluster: Cluster) -> tuple[int | None, int | None]:
    row = readiness(judge_clusters(cluster), METADATA_VERSION)
    return row["downgrade_floor"], row["point_of_no_return"]


def plan(cluster: Cluster) -> dict[str, Any]:
    return rows_of(judge_clusters(cluster), "plans")[0]


def test_the_floor_is_the_last_level_before_metadata_would_be_lost_or_a_node_does_not_know() -> (
    None
):
    """4.1 loses nothing from 25 down to 23 and nothing on the way to 27; from 22 it cannot go
    back."""
    here = kraft("4.1", {METADATA_VERSION: 25})
    assert back(here) == (23, None)
    assert back(kraft("4.1", {METADATA_VERSION: 7})) == (7, 8)
    ranges = SOFTWARE["4.1"] | {METADATA_VERSION: (24, 27)}
    narrow = replace(here.nodes[0], node_id=3, ranges=ranges)
    assert back(replace(here, nodes=(*here.nodes, narrow))) == (24, None)


def seen(*some: Cluster) -> Evidence:
    rows = snapshot({cluster.name: lines_of(cluster) for cluster in some})
    return read(rows, conditions(some), absent_metadata=1)


def test_who_may_join_is_not_known_where_a_level_is_not() -> None:
    """In ZooKeeper mode no release of the catalogue can join."""
    assert plan(kraft("3.6", {}))["may_join"] == RELEASES[:7]
    split = replace(kraft("4.1", {METADATA_VERSION: 25}), registry="fenced")
    assert plan(split)["may_join"] == RELEASES[7:]
    other = replace(split.nodes[0], node_id=9, levels={METADATA_VERSION: 24})
    assert plan(replace(split, nodes=(*split.nodes, other)))["may_join"] is None
    broker = Node(node_id=1, ranges={"f": (1, 3)}, epoch=5)
    row = plan(Cluster(name="z", zookeeper=True, nodes=(broker,), stored={"f": 1}))
    assert (row["may_join"], row["may_join_after"], len(row["steps"])) == (None, None, 1)
    cluster = kraft("4.2", {METADATA_VERSION: 29, "f": 2})
    nodes = tuple(replace(n, ranges={**n.ranges, "f": (1, 5)}) for n in cluster.nodes)
    assert plan(replace(cluster, nodes=nodes))["may_join"] is None  # a vendor's


def expected(plain: PlainCluster, target: int) -> tuple[int | None, int | None]:
    """The worst of all releases that may run there, each cluster and release alone."""
    cluster = plain.cluster()
    levels = {name: level for name, (_, level) in cluster.finalized.items()}
    where = position(
        [(levels, [node.range_of(METADATA_VERSION) for node in cluster.nodes])], CATALOGUE
    )
    lowest, points = [], []
    for release in plain.releases:
        can = load(generation_of(release, "kraft")).can
        code = TABLES.release_code(release)
        lowest.append(int(floors(TABLES, code, where, can)[0]))
        points.append(int(no_returns(TABLES, code, where, np.array([target]), can)[0]))
    known = [point for point in points if point >= 0]
    return (max(lowest) if max(lowest, default=-1) >= 0 else None), min(known, default=None)


@settings(max_examples=scale.some(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(clusters())
def test_a_fleet_is_told_what_each_cluster_alone_would_be(some: list[Cluster]) -> None:
    judged = judge_clusters(*some)
    plain = [PlainCluster(seen(described), "", CATALOGUE) for described in some]
    names = [described.name for described in some]
    for row in judged.readiness.to_pylist():
        position = names.index(row["cluster"])
        if row["verdict"] == "READY" and row["feature"] == METADATA_VERSION:
            found = row["downgrade_floor"], row["point_of_no_return"]
            assert found == expected(plain[position], row["target"])
    for position, row in enumerate(judged.plans.to_pylist()):
        if row["may_join"] is not None:
            now = {n: v for n, (_, v) in plain[position].cluster().finalized.items()}
            now = {METADATA_VERSION: 1} | now
            assert row["may_join"] == [fit.release for fit in fits(now, CATALOGUE) if fit.joins]
            after = now | {step["feature"]: step["to_level"] for step in row["steps"]}
            wanted = [fit.release for fit in fits(after, CATALOGUE) if fit.joins]
            assert row["may_join_after"] == (wanted if row["steps"] else None)
