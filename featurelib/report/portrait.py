"""Who supports what in each cluster: what the range plots of a page are drawn from.

Nothing is judged here; nodes that advertise the same ranges are one group.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from featurelib.core.evidence import Evidence
from featurelib.feature import Role
from featurelib.model import NodeGroup

Node = tuple[str, int]  # its role and its id


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What became of finalized levels at one epoch: feature, level before, level after."""

    at: str
    epoch: int | None
    changes: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Portrait:
    """One cluster: its groups of nodes, the nodes whose ranges nobody knows, and its history."""

    groups: tuple[NodeGroup, ...] = ()
    silent: tuple[Node, ...] = ()
    history: tuple[Moment, ...] = ()


def portraits(evidence: Evidence) -> dict[str, Portrait]:
    """The portrait of every cluster of a batch, without its history, by cluster id."""
    who, answering = evidence.subjects, evidence.answering
    silent: list[set[Node]] = [set() for _ in evidence.clusters]
    for subject in np.flatnonzero(answering.of_subject < 0).tolist():
        node = (Role(int(who.role[subject])).text, int(who.node_id[subject]))
        silent[int(who.cluster[subject])].add(node)
    groups: list[list[NodeGroup]] = [[] for _ in evidence.clusters]
    ranges = _ranges(evidence)
    for profile, cluster in enumerate(answering.cluster.tolist()):
        begin, end = answering.subject_first[profile : profile + 2].tolist()
        behind = answering.subject_order[begin:end]
        ids, brokers = who.node_id[behind], who.role[behind] == int(Role.BROKER)
        groups[cluster].append(
            NodeGroup(
                brokers=tuple(sorted(ids[brokers].tolist())),
                controllers=tuple(sorted(ids[~brokers].tolist())),
                ranges=ranges[profile],
            )
        )
    return {
        cluster: Portrait(groups=tuple(groups[i]), silent=tuple(sorted(silent[i])))
        for i, cluster in enumerate(evidence.clusters)
    }


def _ranges(evidence: Evidence) -> list[dict[str, tuple[int, int]]]:
    """What each answering profile lists."""
    asked = evidence.questions
    found: list[dict[str, tuple[int, int]]] = [{} for _ in evidence.answering.cluster]
    pairs = np.flatnonzero(asked.pair_listed)
    feature = asked.feature[asked.pair_question[pairs]]
    columns = (asked.pair_profile[pairs], feature, asked.pair_min[pairs], asked.pair_max[pairs])
    for profile, name, low, high in zip(*(column.tolist() for column in columns), strict=True):
        found[profile][asked.names[name]] = (low, high)
    return found
