"""Supported ranges and finalized levels as rows: whoever joins them finds the nodes that the core
finds."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings

from featurelib.audit.evidence import finalized_levels, supported_ranges
from featurelib.feature import METADATA_VERSION
from tests.core.lines import judge_clusters
from tests.core.oracle import Cluster
from tests.core.random_clusters import clusters


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
