"""The smallest set of nodes to fix that unlocks a level of a feature.

A level is unlocked when the policy passes it once these nodes run other software, or are gone.
Every node has to support a level, so the set is exactly who does not, for the level and for what it
depends on; only among levels that a dependency leaves open is there something to choose.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from featurelib.audit.findings import Action, action_for_gone
from featurelib.catalogue import Catalogue, Dependency
from featurelib.core.cluster import Case, Cluster, Features, Node, Request, Update, unregistered
from featurelib.core.compatibility import may_join
from featurelib.core.dialect import STRICT, Asks, load
from featurelib.core.dry_run import refused_by
from featurelib.core.rules import below_local_min, unsupported_by_node
from featurelib.feature import METADATA_VERSION, Role
from featurelib.planning.goal import level_of, software_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """One node, and what to do about it."""

    role: Role
    node_id: int
    action: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlock:
    """One level of one feature: whom to fix, what has to move with it, and what no fix helps."""

    feature: str
    level: int
    release: str  # the first whose production software supports all of it; "" = none known
    fixes: tuple[Fix, ...]  # none: nothing holds it but `also`
    needs: tuple[tuple[str, int], ...]  # levels of other features it depends on, not yet there
    also: tuple[str, ...]  # rules that refuse it all the same


def ladder(cluster: Cluster, feature: str, catalogue: Catalogue) -> tuple[int, ...]:
    """The levels of `feature` above the finalized one that some node supports, lowest first.

    For a feature no release knows only the ends of the nodes' ranges: in between nothing changes.
    """
    ranges = [node.supported[feature] for node in cluster.nodes if feature in node.supported]
    current, seen = level_of(cluster, feature), max((high for _, high in ranges), default=0)
    if feature == METADATA_VERSION:
        known = set(catalogue.names)
    elif feature in catalogue.features:
        known = {level.level for level in catalogue.levels if level.feature == feature}
    else:
        known = {end for ends in ranges for end in ends}
    return tuple(sorted(level for level in known if current < level <= seen))


def refusing(nodes: Sequence[Node], feature: str, level: int) -> tuple[Node, ...]:
    """Who of `nodes` does not support a level: QuorumFeatures.reasonNotSupported."""
    ends = np.array([node.range_of(feature) for node in nodes], dtype=np.int32).reshape(-1, 2)
    hit = unsupported_by_node(np.int32(level), ends[:, 0], ends[:, 1], np.False_)
    return tuple(node for node, bad in zip(nodes, hit.tolist(), strict=True) if bad)


def unlock(cluster: Cluster, catalogue: Catalogue, feature: str, level: int) -> Unlock:
    """The least that unlocks one level above the finalized one, also one that is no next level:
    because no node supports it yet, or because nobody knows the feature."""
    choices = list(_choices(cluster, catalogue, {feature: level}))
    questions = {move for moves in choices for move in moves.items()}
    offenders = {move: refusing(cluster.nodes, *move) for move in questions}
    moves = _least(choices, offenders)
    codes = _codes(_case(cluster, moves), catalogue)
    wanted = {(n.role, n.node_id): n for move in moves.items() for n in offenders[move]}
    if "voter_not_registered" in codes:
        wanted |= {(n.role, n.node_id): n for n in unregistered(cluster, Asks.QUORUM)}
    nodes = [node for _, node in sorted(wanted.items())]
    if "configured_voter_not_registered" in codes:
        nodes += unregistered(cluster, Asks.CONFIGURED_ONLY)
    fixes = tuple(
        Fix(role=n.role, node_id=n.node_id, action=action_for(cluster, n, moves, codes))
        for n in nodes
    )
    release = first_release(cluster, catalogue, moves)
    then = _codes(_case(_repaired(cluster, fixes, moves, release), moves), catalogue)
    return Unlock(
        feature=feature,
        level=level,
        release=release,
        fixes=fixes,
        needs=tuple(sorted(set(moves.items()) - {(feature, level)})),
        also=tuple(sorted(then)),
    )


Moves = dict[str, int]


def _choices(cluster: Cluster, catalogue: Catalogue, moves: Moves) -> Iterator[Moves]:
    """Every way to move what `moves` depend on with them, to one of the levels that are enough."""
    for feature, level in moves.items():
        for needed in _needs(cluster, catalogue, feature, level):
            there = moves.get(needed.other, level_of(cluster, needed.other))
            if there >= needed.least:
                continue
            rungs = ladder(cluster, needed.other, catalogue)
            for rung in (needed.least, *(n for n in rungs if n > needed.least)):
                yield from _choices(cluster, catalogue, {**moves, needed.other: rung})
            return
    yield moves


def _needs(
    cluster: Cluster, catalogue: Catalogue, feature: str, level: int
) -> tuple[Dependency, ...]:
    """By the controller's release, or the first that knows the level at all."""
    own = software_of(cluster, catalogue)
    order = [own] if own else []
    order += catalogue.releases
    knowing = next((software for software in order if software.knows(feature, level)), None)
    return knowing.needs(feature, level) if knowing else ()


def _least(choices: list[Moves], offenders: Mapping[tuple[str, int], tuple[Node, ...]]) -> Moves:
    """The choice with the fewest nodes to fix; of those, the one with the fewest, lowest levels."""

    def cost(moves: Moves) -> tuple[int, int, list[tuple[str, int]]]:
        who = {(n.role, n.node_id) for move in moves.items() for n in offenders[move]}
        return len(who), sum(moves.values()), sorted(moves.items())

    return min(choices, key=cost)


def action_for(cluster: Cluster, node: Node, moves: Moves, codes: Container[str]) -> Action:
    """What to do about a node that is in the way of `moves`, where these rules refuse them."""
    if node.voter and not node.registered and "voter_not_registered" in codes:
        return Action.REGISTER
    if not node.voter and not node.registered and "configured_voter_not_registered" in codes:
        return Action.RECONFIGURE
    if not node.running and node.gone:
        return action_for_gone(node.role, metadata_version(cluster))
    if not node.running:
        return Action.START
    level = np.array(list(moves.values()), dtype=np.int32)
    lowest = np.array([node.range_of(name)[0] for name in moves], dtype=np.int32)
    return Action.DOWNGRADE if below_local_min(level, lowest).any() else Action.UPGRADE


def first_release(cluster: Cluster, catalogue: Catalogue, moves: Moves) -> str:
    """The oldest release whose production software supports the levels there would be."""
    levels = {name: level for name, (_, level) in cluster.finalized.items()} | moves
    return next(iter(may_join(levels, catalogue)), "")


def _repaired(cluster: Cluster, fixes: Sequence[Fix], moves: Moves, release: str) -> Cluster:
    """The cluster once every fix is done: ghosts gone, and everybody else of that release."""
    todo = {(fix.role, fix.node_id): fix.action for fix in fixes}
    local = Role.CONTROLLER if _kraft(cluster) else Role.BROKER
    nodes, own = [], cluster.release
    for node in cluster.nodes:
        action = todo.get((node.role, node.node_id))
        if action is None:
            nodes.append(node)
        elif action not in (Action.UNREGISTER, Action.UNREGISTER_CONTROLLER):
            known = node.supported | _wider(node, moves)
            nodes.append(replace(node, registered=True, supported=known, release=release))
            own = release if (node.role, node.node_id) == (local, cluster.active) else own
    left = {fix.node_id for fix in fixes if fix.action is Action.RECONFIGURE}
    ids = cluster.configured_voters
    asked = ids if ids is None else tuple(i for i in ids if i not in left)
    return replace(cluster, nodes=tuple(nodes), release=own, configured_voters=asked)


def metadata_version(cluster: Cluster) -> int | None:
    """What is finalized of metadata.version; None in ZooKeeper mode."""
    level = level_of(cluster, METADATA_VERSION)
    return level if level or _kraft(cluster) else None


def _kraft(cluster: Cluster) -> bool:
    return any(node.role is Role.CONTROLLER for node in cluster.nodes)


def _wider(node: Node, moves: Moves) -> Features:
    ends = {name: (*node.range_of(name), level) for name, level in moves.items()}
    return {name: (min(values), max(values)) for name, values in ends.items()}


def _case(cluster: Cluster, moves: Moves) -> Case:
    updates = tuple(Update(feature=name, level=level) for name, level in sorted(moves.items()))
    return cluster, Request(updates=updates)


def _codes(case: Case, catalogue: Catalogue) -> frozenset[str]:
    """The rules of the policy that refuse a request."""
    return refused_by([case], load(STRICT), catalogue.tables)[0]
