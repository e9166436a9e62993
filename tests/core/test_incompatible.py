"""A node that does not support what is finalized is told what becomes of it."""

from __future__ import annotations

import pytest

from tests.core.lines import judge_clusters
from tests.core.oracle import METADATA, Cluster, Node

OLD, NEW = {METADATA: (1, 19)}, {METADATA: (1, 21), "f": (0, 2)}


def told(cluster: Cluster) -> dict[tuple[str, int, str], str]:
    found = judge_clusters(cluster).findings.to_pylist()
    return {
        (row["role"], row["node_id"], row["feature"]): row["detail"]
        for row in found
        if row["code"] == "incompatible_with_finalized"
    }


def kraft(role: str, **stored: int) -> Cluster:
    nodes = (
        Node(node_id=1, ranges=NEW, levels=stored, epoch=900),
        Node(node_id=2, role=role, ranges=OLD, levels=stored, epoch=900),
        Node(node_id=11, role="controller", ranges=NEW),
    )
    return Cluster(name="c", nodes=nodes, voters=(11,), stored=stored)


@pytest.mark.parametrize(
    ("stored", "feature", "fate"),
    [
        ({METADATA: 21}, METADATA, "no longer follows the metadata"),
        ({METADATA: 19, "f": 2}, "f", "refuse to register it"),
    ],
)
def test_a_kraft_broker_is_blind_or_kept_out(
    stored: dict[str, int], feature: str, fate: str
) -> None:
    assert fate in told(kraft("broker", **stored))["broker", 2, feature]


def test_a_controller_ends() -> None:
    said = told(kraft("controller", **{METADATA: 19, "f": 2}))
    assert "ends, and cannot start again" in said["controller", 2, "f"]


def test_a_broker_in_zookeeper_mode_stops_and_cannot_start() -> None:
    nodes = (Node(node_id=1, ranges={"f": (1, 3)}), Node(node_id=2, ranges={"f": (1, 1)}))
    cluster = Cluster(name="c", zookeeper=True, nodes=nodes, stored={"f": 2})
    assert "stops with exit status 1" in told(cluster)["broker", 2, "f"]
