"""What the audit says before anyone approves: the way back, and who may join."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings

from featurelib.audit.audit import Judged
from featurelib.audit.cluster_view import PlainCluster
from featurelib.audit.evidence import Evidence, read
from featurelib.core.compatibility import fits
from featurelib.core.dialect import generation_of, load
from featurelib.core.downgrade import floors, no_returns, position
from featurelib.feature import METADATA_VERSION
from tests.core import scale
from tests.core.lines import conditions, judge_clusters, lines_of, snapshot
from tests.core.made_up import CATALOGUE
from tests.core.oracle import CONTROLLER, Cluster, Node
from tests.core.random_clusters import RELEASES, clusters

TABLES = CATALOGUE.tables
ALL = ["3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9", "4.0", "4.1", "4.2", "4.3", "4.4"]


def kraft(release: str, stored: dict[str, int], *others: str, name: str = "k") -> Cluster:
    """One process of each release, the first of them the controller; all fresh."""
    nodes = [
        Node(node_id=i, ranges=RELEASES[one], levels=stored, epoch=900)
        for i, one in enumerate((release, *others), start=1)
    ]
    leader = Node(node_id=1, role=CONTROLLER, ranges=RELEASES[release])
    return Cluster(name=name, nodes=(*nodes, leader), voters=(1,), stored=stored)


def ready(judged: Judged, feature: str = METADATA_VERSION) -> dict[str, Any]:
    rows: list[dict[str, Any]] = judged.readiness.to_pylist()
    [row] = [row for row in rows if row["feature"] == feature]
    assert row["verdict"] == "READY"
    return row


def back(*some: Cluster, feature: str = METADATA_VERSION) -> tuple[int | None, int | None]:
    row = ready(judge_clusters(*some), feature)
    return row["downgrade_floor"], row["point_of_no_return"]


def plan(*some: Cluster) -> dict[str, Any]:
    rows: list[dict[str, Any]] = judge_clusters(*some).plans.to_pylist()
    return rows[0]


def test_the_floor_is_the_last_level_before_metadata_would_be_lost() -> None:
    """4.1 loses nothing from 25 down to 23 and nothing on the way to 27; from 22 it cannot go
    back."""
    assert back(kraft("4.1", {METADATA_VERSION: 25})) == (23, None)
    assert back(kraft("4.1", {METADATA_VERSION: 7})) == (7, 8)


def test_a_node_that_no_longer_knows_a_level_holds_the_floor_up() -> None:
    wide = {METADATA_VERSION: (24, 27)}
    nodes = kraft("4.1", {METADATA_VERSION: 25}).nodes
    narrow = Node(
        node_id=3, ranges=RELEASES["4.1"] | wide, levels={METADATA_VERSION: 25}, epoch=900
    )
    cluster = replace(kraft("4.1", {METADATA_VERSION: 25}), nodes=(*nodes, narrow))
    assert back(cluster) == (24, None)


def seen(*some: Cluster) -> Evidence:
    rows = snapshot({cluster.name: lines_of(cluster) for cluster in some})
    return read(rows, conditions(some), absent_metadata=1)


def test_a_cluster_that_says_nothing_of_metadata_version_takes_who_knows_the_first() -> None:
    assert plan(kraft("3.6", {}))["may_join"] == ALL[:7]


def test_nobody_may_join_what_no_release_knows() -> None:
    cluster = kraft("4.2", {METADATA_VERSION: 29, "f": 2})
    nodes = tuple(replace(n, ranges={**n.ranges, "f": (1, 5)}) for n in cluster.nodes)
    assert plan(replace(cluster, nodes=nodes))["may_join"] == []


def test_who_may_join_is_not_known_where_a_level_is_not() -> None:
    """In ZooKeeper mode no release of the catalogue can join."""
    levels = {METADATA_VERSION: 25}
    split = replace(kraft("4.1", levels), registry="fenced")
    other = replace(split.nodes[0], node_id=9, levels={METADATA_VERSION: 24})
    assert plan(replace(split, nodes=(*split.nodes, other)))["may_join"] is None
    assert plan(split)["may_join"] == ALL[7:]
    broker = Node(node_id=1, ranges={"f": (1, 3)}, epoch=5)
    zookeeper = Cluster(name="z", zookeeper=True, nodes=(broker,), stored={"f": 1})
    row = plan(zookeeper)
    assert (row["may_join"], row["may_join_after"], len(row["steps"])) == (None, None, 1)


def expected(plain: PlainCluster, target: int) -> tuple[int | None, int | None]:
    """The worst of all releases that may run there, each cluster and release alone."""
    cluster = plain.cluster()
    levels = {name: level for name, (_, level) in cluster.finalized.items()}
    at = position(
        [(levels, [node.range_of(METADATA_VERSION) for node in cluster.nodes])], CATALOGUE
    )
    lowest, points = [], []
    for release in plain.releases:
        can = load(generation_of(release, "kraft")).can
        code = TABLES.release_code(release)
        lowest.append(int(floors(TABLES, code, at, can)[0]))
        points.append(int(no_returns(TABLES, code, at, np.array([target]), can)[0]))
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
