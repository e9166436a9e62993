"""READY needs both: the strict policy, and whatever controller answers there.

The strict policy goes first; what it lets pass is put to every dialect that may be spoken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from featurelib.audit.columns import Bool, Int
from featurelib.audit.controllers import NOBODY, OwnDialects, blind_leaders
from featurelib.audit.findings import Findings
from featurelib.audit.fleet import Proposed
from featurelib.audit.target import Judge, search
from featurelib.core.batch import NOT_HERE
from featurelib.core.dialect import load
from featurelib.core.dry_run import FAILS_AFTER_WRITING
from featurelib.feature import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """What both let pass. `target` and `refusals` (findings of own dialects) are by question;
    `dialects` are those a cluster's controllers may speak, where something was asked of them, and
    `unanswered` the questions whose target no dialect was there to judge.
    """

    target: Int
    refusals: Int
    unanswered: Bool
    dialects: dict[int, list[str]]


def agree(
    asking: Judge, own_dialects: Callable[[], OwnDialects], ceiling: Int, said: Findings
) -> Agreed:
    """The highest levels that pass the strict policy and every own dialect; findings for the rest.

    `own_dialects` is called only where something can go up. A refused level is lowered and asked
    again; what depends on it falls with it.
    """
    asked, evidence = asking.asked, asking.evidence
    target, refused = search(asking, ceiling), set[tuple[int, str]]()
    wanted = np.unique(asked.cluster[asked.known & (target > asked.current)])
    count = np.zeros(len(target), dtype=np.int64)
    if len(wanted) == 0:
        nobody = np.zeros(len(target), dtype=bool)
        return Agreed(target=target, refusals=count, unanswered=nobody, dialects={})
    own = own_dialects()
    while True:
        found = [(one, row) for one in own.propose(target) for row in one.by_row()]
        if not found:
            break
        for proposed, (place, row, at) in found:
            for i in at.tolist():
                question = int(proposed.questions[i])
                if (question, row.code) not in refused:
                    refused.add((question, row.code))
                    count[question] += 1
                    why = f"{row.code} of {proposed.dialect.title}"
                    why += _who(asking, proposed, place, i)
                    _say(why, question, int(target[question]), asking, said)
        hit = np.unique(np.concatenate([one.questions[at] for one, (_, _, at) in found]))
        target[hit] = np.maximum(target[hit] - 1, asked.current[hit])
        target = search(asking, target)
    count += _sees_no_levels(asking, own, target, said)
    spoken = {int(cluster): own.dialects(int(cluster)) for cluster in wanted}
    several = {cluster: names for cluster, names in spoken.items() if len(names) > 1}
    said.add(
        "generation_ambiguous",
        np.array(list(several), dtype=np.int64),
        at=evidence.levels.at[list(several)],
        line=evidence.levels.line[list(several)],
        detail=[", ".join(load(name).title for name in names) for names in several.values()],
    )
    silent = np.zeros(len(evidence.clusters), dtype=bool)
    silent[[cluster for cluster, names in spoken.items() if not names]] = True
    unanswered = silent[asked.cluster] & asked.known & (target > asked.current)
    where = np.unique(asked.cluster[unanswered])
    said.add(
        "release_unknown", where, at=evidence.levels.at[where], line=evidence.levels.line[where]
    )
    return Agreed(target=target, refusals=count, unanswered=unanswered, dialects=spoken)


def _sees_no_levels(asking: Judge, own: OwnDialects, target: Int, said: Findings) -> Int:
    """Takes every target of a controller that does not see the features node back; a finding each,
    and by question how many."""
    asked, evidence = asking.asked, asking.evidence
    blind = blind_leaders(evidence, own.zookeeper)[asked.cluster]
    hit = np.flatnonzero(asked.known & (target > asked.current) & (blind != NOBODY))
    where = asked.cluster[hit]
    said.add(
        FAILS_AFTER_WRITING,
        where,
        role=np.full(len(hit), Role.BROKER),
        node_id=blind[hit],
        feature=evidence.features(hit),
        finalized_level=asked.current[hit],
        level=target[hit],
        at=evidence.levels.at[where],
        line=evidence.levels.line[where],
    )
    target[hit] = asked.current[hit]
    return np.bincount(hit, minlength=len(target))


def _who(asking: Judge, proposed: Proposed, place: int, update: int) -> str:
    """The nodes behind the first answering profile that a row names, their range, and the one the
    rule asks for where it asks for more than the level, as the end of a sentence."""
    evidence, row = asking.evidence, proposed.dialect.rules[place]
    pair = int(proposed.judged.named[place, update])
    if row.asks is None or pair == NOT_HERE:
        return ""
    profile = int(proposed.batch.groups[row.asks].profile[pair])
    if profile >= len(evidence.answering.cluster):
        return ""
    begin, end = evidence.answering.subject_first[profile : profile + 2].tolist()
    who = evidence.answering.subject_order[begin:end]
    ids = sorted(set(evidence.subjects.node_id[who].tolist()))
    nodes = f"node {ids[0]} supports" if len(ids) == 1 else f"nodes {_listed(ids)} support"
    columns, ranges = proposed.judged.columns, proposed.batch.ranges
    at = profile, int(columns.feature[update])
    needed = ""
    if "lowest" in row.rule.columns and columns.local_min[update]:
        needed = f", and must support {columns.local_min[update]}-{columns.level[update]}"
    return f": {nodes} {ranges.min_version[at]}-{ranges.max_version[at]}{needed}"


def _listed(ids: list[int]) -> str:
    return ", ".join(map(str, ids))


def _say(why: str, question: int, level: int, asking: Judge, said: Findings) -> None:
    asked, levels = asking.asked, asking.evidence.levels
    at = np.array([question])
    cluster = asked.cluster[at]
    said.add(
        "refused_by_own_controller",
        cluster,
        feature=asking.evidence.features(at),
        finalized_level=asked.current[at],
        level=np.array([level]),
        at=levels.at[cluster],
        line=levels.line[cluster],
        detail=[why],
    )
