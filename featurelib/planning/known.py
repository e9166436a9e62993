"""One cluster with the benefit of the doubt, so that only what is known proves anything.

A plain cluster holds nodes whose range nobody knows as if they supported nothing. Here they support
what is asked; that nobody knows it is said on its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from featurelib.catalogue import Catalogue
from featurelib.core.cluster import Cluster, Features, Node
from featurelib.core.unlock import ladder, refusing
from featurelib.feature import METADATA_VERSION, Role
from featurelib.sight import Sight

Half = tuple[Role, int]
Levels = Mapping[str, int]


def widened(node: Node, levels: Levels) -> Node:
    """The node as if it supported `levels` besides all that it does support."""
    more: Features = {}
    for name, level in levels.items():
        low, high = node.range_of(name)
        more[name] = (min(low, level), max(high, level))
    return replace(node, supported=node.supported | more)


def doubtful(sight: Sight) -> dict[Half, frozenset[str] | None]:
    """The nodes nobody knows enough about: every feature of theirs (None), or only those that a
    partial answer may have left out."""
    evidence = sight.judged.evidence
    assert evidence is not None
    who, asked = evidence.subjects, evidence.questions
    halves = [(Role(r), n) for r, n in zip(who.role.tolist(), who.node_id.tolist(), strict=True)]
    found: dict[Half, frozenset[str] | None] = {}
    unclear: dict[int, set[str]] = {}
    for question, profile, hidden in zip(
        asked.pair_question.tolist(),
        asked.pair_profile.tolist(),
        asked.pair_unclear.tolist(),
        strict=True,
    ):
        if hidden:
            name = asked.names[int(asked.feature[question])]
            unclear.setdefault(profile, set()).add(name)
    for half, profile in zip(halves, evidence.answering.of_subject.tolist(), strict=True):
        if profile < 0:
            found[half] = None
        elif profile in unclear:
            found[half] = frozenset(unclear[profile])
    return found


def known_cluster(sight: Sight, levels: Levels) -> Cluster:
    """The cluster in which every doubtful node supports `levels`, and one whose release nobody
    knows runs what the active controller does: a raft layer asks its voters' releases too."""
    doubts = doubtful(sight)
    nodes = []
    for node in sight.cluster.nodes:
        half = (node.role, node.node_id)
        if half in doubts:
            names = doubts[half]
            levels_of = {n: v for n, v in levels.items() if names is None or n in names}
            release = node.release or sight.cluster.release
            nodes.append(replace(widened(node, levels_of), release=release))
        else:
            nodes.append(node)
    return replace(sight.cluster, nodes=tuple(nodes))


def lowest_supported(sight: Sight, least: int, catalogue: Catalogue) -> int:
    """The lowest metadata.version from `least` on that no known node refuses, else `least`."""
    rungs = ladder(sight.cluster, METADATA_VERSION, catalogue)
    for level in (least, *(rung for rung in rungs if rung > least)):
        asked = (METADATA_VERSION, level)
        if not refusing(known_cluster(sight, dict([asked])).nodes, [asked])[asked]:
            return level
    return least


def only_narrow(cluster: Cluster, narrow: Collection[Half], levels: Levels) -> Cluster:
    """The cluster in which everybody supports `levels`, and what the active controller's own range
    holds of these features besides, but the nodes `narrow`, who support what they do.

    Controllers of ZooKeeper mode before 3.3 ask for a range from their own minimum on.
    """
    own: dict[str, list[int]] = {name: [level] for name, level in levels.items()}
    for node in cluster.nodes:
        if node.node_id == cluster.active:
            for name in levels.keys() & node.supported.keys():
                own[name] += node.supported[name]
    nodes: Iterable[Node] = (
        node
        if (node.role, node.node_id) in narrow
        else widened(
            widened(node, {name: min(ends) for name, ends in own.items()}),
            {name: max(ends) for name, ends in own.items()},
        )
        for node in cluster.nodes
    )
    return replace(cluster, nodes=tuple(nodes))
