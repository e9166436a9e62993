"""Which nodes do not support a level, and how a controller says so."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.core.controllers.java import (
    ids_in_map_order,
    ids_in_table_order,
    in_map_order,
    int_hash,
    range_text,
)
from tests.core.controllers.words import (
    CONTROLLER,
    Cluster,
    Node,
    Range,
    Refusal,
    Update,
    minor,
    refuse,
)

NOTHING: Range = (0, 0)


def outside(level: int, span: Range) -> bool:
    return level < span[0] or level > span[1]


def bad(update: Update, why: str) -> str:
    """How KRaft controllers begin."""
    return f"Invalid update version {update.level} for feature {update.feature}. {why}"


def words_of(who: str, node: Node, update: Update) -> str:
    low, high = node.supported.get(update.feature, NOTHING)
    if high == 0:
        return bad(update, f"{who} {node.node_id} does not support this feature.")
    only = range_text(low, high)
    return bad(update, f"{who} {node.node_id} only supports versions {only}")


def not_supported(who: str, nodes: Iterable[Node], update: Update) -> Refusal | None:
    """The first node whose range the level is outside of; an unlisted feature reads [0, 0]."""
    for node in nodes:
        if outside(update.level, node.supported.get(update.feature, NOTHING)):
            return refuse(words_of(who, node, update))
    return None


def not_supported_locally(local: Node, update: Update) -> Refusal | None:
    return not_supported("Local controller", [local], update)


def not_listed_or_supported(brokers: Iterable[Node], update: Update) -> Refusal | None:
    """3.3 to 3.6: a broker must list the feature, whatever the level."""
    for node in brokers:
        span = node.supported.get(update.feature)
        if span is None:
            return refuse(bad(update, f"Broker {node.node_id} does not support this feature."))
        if outside(update.level, span):
            supports = f"It supports {span[0]} to {span[1]}."
            text = f"Broker {node.node_id} does not support the given version. {supports}"
            return refuse(bad(update, text))
    return None


def ordered(nodes: list[Node], order: Callable[[list[int]], list[int]]) -> list[Node]:
    by_id = {node.node_id: node for node in nodes}
    return [by_id[number] for number in order([node.node_id for node in nodes])]


def brokers_in_map_order(cluster: Cluster) -> list[Node]:
    return ordered(cluster.brokers(), ids_in_map_order)


def brokers_in_table_order(cluster: Cluster) -> list[Node]:
    return ordered(cluster.brokers(), ids_in_table_order)


def other_controllers(cluster: Cluster, local: Node) -> list[Node]:
    """The registered controllers beside the one that judges, in the table's order."""
    registered = [n for n in cluster.nodes if n.role == CONTROLLER and n.registered]
    return [n for n in ordered(registered, ids_in_table_order) if n.node_id != local.node_id]


def voters_in_map_order(cluster: Cluster) -> list[Node]:
    """As controller.quorum.voters was read: into a HashMap, from 3.8 on one of its size."""
    sized = minor(cluster.release) >= (3, 8)
    return in_map_order(cluster.quorum(), lambda n: int_hash(n.node_id), 1 if sized else 16)


def reachable_voters(cluster: Cluster, local: Node) -> list[Node]:
    others = [n for n in voters_in_map_order(cluster) if n.node_id != local.node_id]
    return [n for n in others if n.running and n.registered]


def voter_not_registered(cluster: Cluster, local: Node, update: Update) -> Refusal | None:
    """By controller.quorum.voters, which a dynamic quorum leaves empty: it then asks no voter."""
    if cluster.raft:
        return None
    for node in voters_in_map_order(cluster):
        if node.node_id != local.node_id and not node.registered:
            text = "has not registered, and may not support this feature"
            return refuse(bad(update, f"controller {node.node_id} {text}"))
    return None
