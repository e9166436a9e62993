"""The smallest set of nodes to fix that unlocks a level of a feature.

A level is unlocked when the policy passes it once these nodes run other software, or are gone.
Every node has to support a level, so the set is exactly who does not, for the level and for what it
depends on; only among levels that a dependency leaves open is there something to choose.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from featurelib.audit.findings import Action, action_for_gone
from featurelib.catalogue import Catalogue
from featurelib.core.cluster import Cluster, Half, Node, Request, Update, unregistered
from featurelib.core.compatibility import may_join
from featurelib.core.dialect import STRICT, Asks, load
from featurelib.core.dry_run import refused_by
from featurelib.core.rules import below_local_min, unsupported_by_node
from featurelib.feature import METADATA_VERSION, Role
from featurelib.planning.goal import software_of

Moves = dict[str, int]


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
    if feature == METADATA_VERSION:
        known = set(catalogue.names)
    elif feature in catalogue.features:
        known = {level.level for level in catalogue.levels if level.feature == feature}
    else:
        known = {end for ends in ranges for end in ends}
    seen = max((high for _, high in ranges), default=0)
    return tuple(sorted(level for level in known if cluster.level(feature) < level <= seen))


def refusing(nodes: Sequence[Node], feature: str, level: int) -> tuple[Node, ...]:
    """Who of `nodes` does not support a level: QuorumFeatures.reasonNotSupported."""
    ends = np.array([node.range_of(feature) for node in nodes], dtype=np.int32).reshape(-1, 2)
    hit = unsupported_by_node(np.int32(level), ends[:, 0], ends[:, 1], np.False_)
    return tuple(nodes[i] for i in np.flatnonzero(hit).tolist())


def unlock(cluster: Cluster, catalogue: Catalogue, feature: str, level: int) -> Unlock:
    """The least that unlocks one level above the finalized one, also one that is no next level:
    because no node supports it yet, or because nobody knows the feature."""
    choices = list(_choices(cluster, catalogue, {feature: level}))
    questions = {move for moves in choices for move in moves.items()}
    offenders = {move: refusing(cluster.nodes, *move) for move in questions}

    def in_the_way(moves: Moves) -> dict[Half, Node]:
        return {node.half: node for move in moves.items() for node in offenders[move]}

    # The fewest nodes to fix; of choices with as many, the one with the fewest, lowest levels.
    moves = min(choices, key=lambda m: (len(in_the_way(m)), sum(m.values()), sorted(m.items())))
    codes = _refused(cluster, moves, catalogue)
    wanted = in_the_way(moves)
    if "voter_not_registered" in codes:
        wanted |= {node.half: node for node in unregistered(cluster, Asks.QUORUM)}
    nodes = [node for _, node in sorted(wanted.items())]
    if "configured_voter_not_registered" in codes:
        nodes += unregistered(cluster, Asks.CONFIGURED_ONLY)
    fixes = tuple(
        Fix(role=n.role, node_id=n.node_id, action=action_for(cluster, n, moves, codes))
        for n in nodes
    )
    release = first_release(cluster, catalogue, moves)
    then = _refused(_repaired(cluster, fixes, moves, release), moves, catalogue)
    return Unlock(
        feature=feature,
        level=level,
        release=release,
        fixes=fixes,
        needs=tuple(sorted(moves.items() - {(feature, level)})),
        also=tuple(sorted(then)),
    )


def _choices(cluster: Cluster, catalogue: Catalogue, moves: Moves) -> Iterator[Moves]:
    """Every way to move what `moves` depend on with them, to one of the levels that are enough. On
    what, says the controller's release, or the first that knows the level at all."""
    own = software_of(cluster, catalogue)
    order = [*([own] if own else []), *catalogue.releases]
    for move in moves.items():
        knowing = next((software for software in order if software.knows(*move)), None)
        for needed in knowing.needs(*move) if knowing else ():
            if moves.get(needed.other, cluster.level(needed.other)) < needed.least:
                rungs = ladder(cluster, needed.other, catalogue)
                for rung in (needed.least, *(n for n in rungs if n > needed.least)):
                    yield from _choices(cluster, catalogue, {**moves, needed.other: rung})
                return
    yield moves


def action_for(cluster: Cluster, node: Node, moves: Moves, codes: Container[str]) -> Action:
    """What to do about a node that is in the way of `moves`, where these rules refuse them."""
    if node.voter and not node.registered and "voter_not_registered" in codes:
        return Action.REGISTER
    if not node.voter and not node.registered and "configured_voter_not_registered" in codes:
        return Action.RECONFIGURE
    if not node.running and node.gone:
        level = cluster.level(METADATA_VERSION)
        return action_for_gone(node.role, level if level or cluster.has_quorum else None)
    if not node.running:
        return Action.START
    levels = np.array(list(moves.values()), dtype=np.int32)
    lowest = np.array([node.range_of(name)[0] for name in moves], dtype=np.int32)
    return Action.DOWNGRADE if below_local_min(levels, lowest).any() else Action.UPGRADE


def first_release(cluster: Cluster, catalogue: Catalogue, moves: Moves) -> str:
    """The oldest release whose production software supports the levels there would be."""
    return next(iter(may_join(cluster.levels | moves, catalogue)), "")


def _repaired(cluster: Cluster, fixes: Sequence[Fix], moves: Moves, release: str) -> Cluster:
    """The cluster once every fix is done: ghosts gone, and everybody else of that release."""
    todo = {(fix.role, fix.node_id): fix.action for fix in fixes}
    active = (Role.CONTROLLER if cluster.has_quorum else Role.BROKER), cluster.active
    nodes, own = [], cluster.release
    for node in cluster.nodes:
        action = todo.get(node.half)
        if action is None:
            nodes.append(node)
        elif action not in (Action.UNREGISTER, Action.UNREGISTER_CONTROLLER):
            nodes.append(replace(node.widened(moves), registered=True, release=release))
            own = release if node.half == active else own
    left = {fix.node_id for fix in fixes if fix.action is Action.RECONFIGURE}
    ids = cluster.configured_voters
    asked = ids if ids is None else tuple(i for i in ids if i not in left)
    return replace(cluster, nodes=tuple(nodes), release=own, configured_voters=asked)


def _refused(cluster: Cluster, moves: Moves, catalogue: Catalogue) -> frozenset[str]:
    """The rules of the policy that refuse to move all of it in one request."""
    updates = tuple(Update(feature=name, level=level) for name, level in sorted(moves.items()))
    case = cluster, Request(updates=updates)
    return refused_by([case], load(STRICT), catalogue.tables)[0]
