"""What a plan depends on, read from the evidence it is made from, and from the fresh one.

Bound are all finalized levels and, for every node that must answer, the ranges of the features
that move and of those that have a say in it; so a node that comes, goes or changes is noticed.
Ranges of other features are not: they decide nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import numpy as np

from featurelib.catalogue import Catalogue
from featurelib.core.evidence import Evidence
from featurelib.feature import METADATA_VERSION, Role, Witness
from featurelib.model import Move, NodeGroup, Requirements, Step
from featurelib.plans.checks import in_order

Ranges = dict[str, tuple[int, int]]


def require(
    evidence: Evidence, cluster: int, features: Iterable[str], catalogue: Catalogue
) -> Requirements:
    """What the evidence of the batch's cluster at position `cluster` makes a plan depend on.

    `features` are those of the plan's updates; what they depend on is found here.
    """
    asked = evidence.questions
    begin, end = np.searchsorted(asked.cluster, (cluster, cluster + 1)).tolist()
    names = [asked.names[code] for code in asked.feature[begin:end].tolist()]
    levels = dict(zip(names, asked.current[begin:end].tolist(), strict=True))
    bound = having_a_say(features, catalogue)
    pairs = zip(asked.pair_first[begin:end].tolist(), names, strict=True)
    wanted = [(pair, name) for pair, name in pairs if name in bound]
    in_zookeeper = int(evidence.levels.kind[cluster]) == int(Witness.FEATURES_NODE)
    return Requirements(
        levels={name: level for name, level in levels.items() if level > 0},
        nodes=tuple(sorted(_groups(evidence, cluster, wanted), key=in_order)),
        features_node_version=int(evidence.levels.epoch[cluster]) if in_zookeeper else None,
    )


def having_a_say(features: Iterable[str], catalogue: Catalogue) -> frozenset[str]:
    """These features and all that any of their levels depends on; every level needs a
    metadata.version that can store it (KIP-1022)."""
    found, waiting = {METADATA_VERSION}, set(features)
    while waiting:
        found |= waiting
        waiting = {d.other for d in catalogue.dependencies if d.feature in waiting} - found
    return frozenset(found)


def _groups(evidence: Evidence, cluster: int, wanted: Sequence[tuple[int, str]]) -> list[NodeGroup]:
    """The nodes that must answer, together where they advertise the same of what is wanted."""
    asked, answering, who = evidence.questions, evidence.answering, evidence.subjects
    ids: dict[tuple[tuple[str, int, int], ...], tuple[list[int], list[int]]] = {}
    first, count = int(answering.first[cluster]), int(answering.count[cluster])
    for offset in range(count):
        start, stop = answering.subject_first[first + offset : first + offset + 2]
        subjects = answering.subject_order[start:stop]
        said = tuple(
            (name, int(asked.pair_min[pair + offset]), int(asked.pair_max[pair + offset]))
            for pair, name in wanted
        )
        brokers, controllers = ids.setdefault(said, ([], []))
        is_broker = who.role[subjects] == int(Role.BROKER)
        brokers += who.node_id[subjects][is_broker].tolist()
        controllers += who.node_id[subjects][~is_broker].tolist()
    return [
        NodeGroup(
            brokers=tuple(sorted(brokers)),
            controllers=tuple(sorted(controllers)),
            ranges={name: (low, high) for name, low, high in said},
        )
        for said, (brokers, controllers) in ids.items()
    ]


def features_of(steps: Iterable[Step]) -> tuple[str, ...]:
    """The features that some step moves, sorted."""
    return tuple(sorted({update.feature for step in steps for update in step.updates}))


def steps_of(rows: Sequence[Mapping[str, object]]) -> tuple[Step, ...]:
    """Steps from rows of featurelib.schema.STEP: updates of one request are one step."""
    together = (list(some) for _, some in groupby(rows, key=lambda row: row["request"]))
    return tuple(
        Step(
            updates=tuple(
                Move(
                    feature=str(row["feature"]),
                    from_level=int(str(row["from_level"])),
                    to_level=int(str(row["to_level"])),
                    upgrade_type=str(row["upgrade_type"]),
                )
                for row in some
            ),
            timeout_ms=int(str(some[0]["timeout_ms"])),
        )
        for some in together
    )
