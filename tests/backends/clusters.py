"""Small clusters for the tests of backends, and what is read from their answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from featurelib.catalogue import load
from featurelib.core.cluster import Cluster, Node, Range, Request, Update
from featurelib.feature import Role, UpgradeType
from tests.backends.simulator import Simulated

TABLES = load().tables
IN_MEMORY = ":memory:"
NEW = {"metadata.version": (7, 29), "kraft.version": (0, 1), "group.version": (0, 1)}
UP = UpgradeType.UPGRADE


def controller(node_id: int, **change: Any) -> Node:
    node = Node(node_id=node_id, role=Role.CONTROLLER, supported=NEW, release="4.2.1", voter=True)
    return replace(node, **change)


def broker(node_id: int, **change: Any) -> Node:
    node = Node(node_id=node_id, role=Role.BROKER, supported=NEW, release="4.2.1")
    return replace(node, **change)


def zk_broker(node_id: int, release: str = "3.9.2", /, **supported: Range) -> Node:
    own = supported or {"f": (1, 5), "g": (1, 5)}
    return Node(node_id=node_id, role=Role.BROKER, release=release, supported=own)


KRAFT = Cluster(
    release="4.2.1",
    nodes=(controller(1), controller(2), broker(3), broker(4)),
    active=1,
    finalized={"metadata.version": (25, 25)},
)
ZK = Cluster(release="3.9.2", nodes=(zk_broker(1),), active=1, finalized={"f": (1, 1), "g": (1, 1)})


def to(level: int, kind: int = UP, feature: str = "metadata.version") -> Request:
    return Request(updates=(Update(feature=feature, level=level, kind=kind),))


def opened(cluster: Cluster, epoch: int = 0, mode: str = "kraft") -> Simulated:
    """A cluster in memory, put there."""
    embedded = Simulated(IN_MEMORY, TABLES, mode=mode)
    embedded.put(cluster, epoch)
    return embedded


def finalized(cluster: Simulated, node_id: int = 3, **how: Any) -> tuple[dict[str, int], int]:
    """Levels and epoch as a node shows them."""
    said: dict[str, Any] = cluster.describe(node_id, **how)
    levels = {entry["name"]: entry["max_version_level"] for entry in said["finalized_features"]}
    return levels, said["finalized_features_epoch"]


def node_of(cluster: Simulated, node_id: int, role: Role = Role.BROKER) -> Node | None:
    found = (n for n in cluster.cluster.nodes if (n.node_id, n.role) == (node_id, role))
    return next(found, None)
