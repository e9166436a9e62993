"""Which nodes stop themselves over what is finalized, and in which words."""

from __future__ import annotations

from tests.core.controllers.asking import outside
from tests.core.controllers.java import range_text
from tests.core.controllers.releases import KNOWN
from tests.core.controllers.words import (
    CONTROLLER,
    METADATA,
    Cluster,
    Node,
    Range,
    minor,
)


def incompatible(
    generation: str, finalized: dict[str, Range], supported: dict[str, Range]
) -> list[tuple[str, str]]:
    """What does not fit a broker in ZooKeeper mode: names, and the reason it logs.

    2.7 to 3.2 want the whole finalized range inside their own, 3.3 to 3.9 the level.
    """
    found = []
    for name, (low, level) in finalized.items():
        span = supported.get(name)
        if span is None:
            found.append((name, "Unsupported feature"))
            continue
        unfit = outside(level, span) or (generation == "zk-2.7" and outside(low, span))
        if unfit:
            said = str(level)
            if generation == "zk-2.7":
                said = f"FinalizedVersionRange[min_version_level:{low}, max_version_level:{level}]"
            own = f"SupportedVersionRange[min_version:{span[0]}, max_version:{span[1]}]"
            found.append((name, f"{said} is incompatible with {own}"))
    return found


def unfit_nodes(generation: str, cluster: Cluster) -> list[Node]:
    """ZooKeeper mode: the running brokers that would stop if they looked at the node now."""
    if minor(cluster.ibp) < (2, 7) or cluster.status != "Enabled":
        return []
    levels = cluster.finalized or {}
    running = [node for node in cluster.brokers() if node.running]
    return [node for node in running if incompatible(generation, levels, node.supported)]


def replays(node: Node, feature: str, level: int) -> str | None:
    """KRaft: the words with which a node ends over a finalized level; None: it goes on."""
    if node.role == CONTROLLER:
        span = node.supported.get(feature, (0, 0))
        if not outside(level, span):
            return None
        record = f"FeatureLevelRecord(name='{feature}', featureLevel={level})"
        return (
            f"Tried to apply FeatureLevelRecord {record}, but this controller only supports "
            f"versions {range_text(*span)}"
        )
    low, high = KNOWN[minor(node.release)]
    if feature != METADATA or low <= level <= high:
        return None  # a broker takes any level of another feature
    if minor(node.release) >= (4, 0):
        valid = f"Valid feature levels are from {low} to {high}."
        return f"No MetadataVersion with feature level {level}. {valid}"
    return f"No MetadataVersion with feature level {level}"
