"""Supported ranges and finalized levels as rows: whoever joins them finds the nodes that the core
finds."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings

from featurelib.audit.audit import Judged
from featurelib.audit.evidence import finalized_levels, supported_ranges
from featurelib.feature import METADATA_VERSION
from tests.core.lines import judge_clusters
from tests.core.oracle import Cluster
from tests.core.random_clusters import clusters
from tests.report.samples import judge_samples, read_samples


def excludes(levels: dict[str, Any], ranges: dict[str, Any] | None) -> bool:
    """Say if a finalized level excludes a node; it lists nothing: 0-0, metadata.version 1."""
    if ranges is None:
        return bool(levels["level"] > (levels["feature"] == METADATA_VERSION))
    low, high = ranges["min_version"], ranges["max_version"]
    least = min(levels["min_level"], levels["level"])
    return (low is not None and least < low) or (high is not None and levels["level"] > high)


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(clusters())
def test_a_join_of_the_two_finds_what_the_core_finds(some: list[Cluster]) -> None:
    judged = judge_clusters(*some)
    assert judged.evidence is not None
    supported = supported_ranges(judged.evidence).to_pylist()
    finalized = finalized_levels(judged.evidence).to_pylist()
    ranges = {(r["cluster"], r["role"], r["node_id"], r["feature"]): r for r in supported}
    assert len(ranges) == len(supported)  # the grain
    nodes = {(row["cluster"], row["role"], row["node_id"]) for row in supported}
    joined = {
        (*node, levels["feature"])
        for node in nodes
        for levels in finalized
        if levels["cluster"] == node[0] and excludes(levels, ranges.get((*node, levels["feature"])))
    }
    keys = ("cluster", "role", "node_id", "feature")
    assert joined == {tuple(r[key] for key in keys) for r in judged.incompatible.to_pylist()}
    assert check_nodes(judged).keys() >= nodes


def check_nodes(judged: Judged) -> dict[tuple[str, str, int], dict[str, Any]]:
    """Hold the table of nodes against the other tables; return its rows by its grain."""
    assert judged.nodes is not None
    nodes = {
        tuple(r[n] for n in ("cluster", "role", "node_id")): r for r in judged.nodes.to_pylist()
    }
    assert len(nodes) == len(judged.nodes)
    for plan in judged.plans.to_pylist():
        of_cluster = [row for row in nodes.values() if row["cluster"] == plan["cluster"]]
        assert len({row["node_id"] for row in of_cluster}) == plan["nodes"]
        assert sum(bool(row["active_controller"]) for row in of_cluster) <= 1
    for row in judged.incompatible.to_pylist():
        node = nodes[row["cluster"], row["role"], row["node_id"]]
        seen = ("fenced", "observed_at", "line_id")
        assert [node[name] for name in seen] == [row[name] for name in seen]
    return nodes


def test_the_table_of_nodes_shows_stale_registrations_releases_and_the_controller() -> None:
    names, judged = read_samples().names, judge_samples()
    nodes = {(names[of], *half): row for (of, *half), row in check_nodes(judged).items()}
    ghost, broker = nodes["ghost-broker", "broker", 2], nodes["ghost-broker", "broker", 1]
    flags = ("registered", "fenced", "stale", "voter")
    assert [ghost[flag] for flag in flags] == [True, True, True, False]
    assert [broker[flag] for flag in flags] == [True, False, False, False]
    assert broker["answered_at"] < broker["observed_at"]  # its registration
    assert broker["failed_at"] is None
    assert ghost["failed_at"] > ghost["answered_at"]
    releases = {row["release"] for (of, *_), row in nodes.items() if of == "mixed-42-39"}
    [plan] = [row for row in judged.plans.to_pylist() if names[row["cluster"]] == "mixed-42-39"]
    assert releases == {plan["release"], plan["newest_release"]} == {"3.9", "4.2"}
    led = {of for (of, *_), row in nodes.items() if row["active_controller"]}
    assert led == {names[row["cluster"]] for row in judged.plans.to_pylist()}
