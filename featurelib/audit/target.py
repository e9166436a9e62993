"""Which level each feature can reach now (target), on the way to its ceiling.

The ceiling comes from the catalogue for the features it knows, and from the nodes for all others.
The search proposes a level for every feature of every cluster at once, asks the engine, lowers what
is refused and asks again; it only ever lowers, so it ends. READY needs two judges: what the policy
lets pass is put to every dialect that the cluster's controllers may speak, and falls by one level
where any of them refuses. Whether a proposal holds is the rules' answer alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from featurelib.audit.columns import Bool, Int
from featurelib.audit.controllers import NOBODY, OwnDialects, blind_leaders
from featurelib.audit.evidence import Evidence
from featurelib.audit.features import Questions
from featurelib.audit.findings import Findings
from featurelib.audit.fleet import ANY_LEVEL, FleetColumns, Proposed
from featurelib.catalogue import Catalogue
from featurelib.core.batch import NOT_HERE
from featurelib.core.dialect import GENERATIONS, Dialect, load
from featurelib.core.dry_run import FAILS_AFTER_WRITING
from featurelib.core.rules import dependency_unmet, metadata_version_unmet
from featurelib.feature import METADATA_VERSION, Role

UNLIMITED = -1  # the catalogue does not know the feature, so it sets no bound
UNCLEAR = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What the catalogue says about each question. int64; UNLIMITED where it knows nothing."""

    ceiling: Int
    newest_known: Int
    newest_stable: Int
    seen: Int  # the highest level any node supports
    common: Int  # the lowest of the nodes' highest levels


def bounds(evidence: Evidence, catalogue: Catalogue) -> Bounds:
    """The ceiling of each question: the production default at the newest stable
    metadata.version any node supports, below what moves only by name, or, for unknown features, the
    highest level seen."""
    asked = evidence.questions
    seen = _reduce(np.maximum, asked, asked.pair_max)
    # A node whose answer may leave the feature out says nothing of it, least of all 0.
    common = _reduce(np.minimum, asked, np.where(asked.pair_unclear, UNCLEAR, asked.pair_max))
    ceiling = seen.copy()
    newest_known = np.full(len(seen), UNLIMITED, dtype=np.int64)
    newest_stable = newest_known.copy()
    newest, stable = (ends[asked.cluster] for ends in _stable_ends(evidence, catalogue))
    for code, name in enumerate(asked.names):
        if name not in catalogue.features:
            continue
        mine = asked.feature == code
        newest_known[mine] = catalogue.newest_known(name)
        if name == METADATA_VERSION:
            newest_stable[mine], ceiling[mine] = stable[mine], newest[mine]
        else:
            ceiling[mine] = catalogue.ceiling(name, newest[mine], asked.current[mine])
    return Bounds(
        ceiling=np.maximum(ceiling, asked.current),
        newest_known=newest_known,
        newest_stable=newest_stable,
        seen=seen,
        common=np.minimum(common, seen),
    )


def _reduce(by: np.ufunc, asked: Questions, values: Int) -> Int:
    result = np.zeros(len(asked.cluster), dtype=np.int64)
    some = asked.pair_count > 0
    if some.any():
        result[some] = by.reduceat(values, asked.pair_first[some])
    return result


def _stable_ends(evidence: Evidence, catalogue: Catalogue) -> tuple[Int, Int]:
    """The newest stable metadata.version that any node of each cluster supports, and the one above
    which some node's own software calls a level it supports unstable."""
    asked, subjects, answering = evidence.questions, evidence.subjects, evidence.answering
    newest = np.zeros(len(evidence.clusters), dtype=np.int64)
    if METADATA_VERSION not in asked.names:
        return newest, newest
    by_profile = np.zeros(len(answering.cluster), dtype=np.int64)
    mine = asked.feature[asked.pair_question] == asked.names.index(METADATA_VERSION)
    by_profile[asked.pair_profile[mine]] = asked.pair_max[mine]
    table = catalogue.stable_up_to().astype(np.int64)
    counts = answering.of_subject >= 0
    supported = by_profile[answering.of_subject[counts]]
    stable = table[np.minimum(supported, len(table) - 1)]
    own = subjects.stable_metadata[counts]
    stable = np.where(own > 0, np.minimum(stable, own), stable)
    cluster, more = subjects.cluster[counts], stable < supported
    np.maximum.at(newest, cluster, stable)
    lowest = newest.copy()
    np.minimum.at(lowest, cluster[more], stable[more])
    return newest, lowest


class Judge:
    """One policy, and the questions of a batch with what bounds them."""

    def __init__(
        self, evidence: Evidence, bounds: Bounds, dialect: Dialect, catalogue: Catalogue
    ) -> None:
        self.evidence = evidence
        self.asked = evidence.questions
        self.bounds = bounds
        self.dialect = dialect.in_audits
        self.catalogue = catalogue
        self._of_metadata = self.asked.of_feature(METADATA_VERSION)
        clusters = len(evidence.clusters)
        stable = np.full(clusters, ANY_LEVEL)
        stable[self.asked.cluster[self._of_metadata]] = bounds.newest_stable[self._of_metadata]
        self.fleet = FleetColumns(evidence, catalogue.tables, stable)
        # The finalized metadata.version of each cluster; what its absence means where none is.
        self.metadata_version: Int = np.full(clusters, dialect.can.absent_metadata_version)
        mine = self._of_metadata & (self.asked.current > 0)
        self.metadata_version[self.asked.cluster[mine]] = self.asked.current[mine]

    def propose(self, level: Int, questions: Bool, beside: Int | None = None) -> Proposed:
        """Put the `level` of these questions to the policy, where everything else of their clusters
        is at `beside`; None = at `level`, too."""
        return self.fleet.propose(np.flatnonzero(questions), level, self.dialect, beside=beside)

    def dependency(self, question: int, level: int) -> str:
        """What `level` of a question's feature depends on, as `feature level`, comma separated."""
        name = self.asked.names[int(self.asked.feature[question])]
        return ", ".join(
            f"{dependency.other} {dependency.least}"
            for dependency in self.catalogue.dependencies
            if (dependency.feature, dependency.level) == (name, level)
        )

    def rests_on(self, level: Int, others: Bool) -> Bool:
        """Questions whose `level`, above the current one, depends on a feature of their cluster
        that is among `others`: with nothing of those, and enough of the rest, it is refused.

        Every level rests on metadata.version besides, unless that is known to be high enough.
        """
        hit = level > self.asked.current
        without = self.propose(level, hit, beside=np.where(others, 0, ANY_LEVEL))
        columns = without.judged.columns
        hit[hit] = dependency_unmet(columns.proposed, columns.needed)
        return hit | self._rests_on_metadata_version(level, others)

    def _rests_on_metadata_version(self, level: Int, others: Bool) -> Bool:
        """On KRaft no record holds a level before 3.3-IV0, and metadata.version decides whether
        controllers are asked at all. Enough is what every generation is content with."""
        asked, membership = self.asked, self.evidence.membership
        needed = max(load(name).can.metadata_needed for name in GENERATIONS)
        known = np.full(len(self.evidence.clusters), needed)
        unsure = np.flatnonzero(self._of_metadata & others)
        known[asked.cluster[unsure]] = np.where(asked.known, asked.current, 0)[unsure]
        on_kraft = (membership.kraft | ~membership.zookeeper)[asked.cluster]
        hit = metadata_version_unmet(level, known[asked.cluster], needed)
        return hit & on_kraft & ~self._of_metadata


def search(judge: Judge, ceiling: Int) -> Int:
    """The highest level up to `ceiling` that passes every rule now; the current one if none does.

    Of the levels below a refused one only the lowest of the nodes' highest can pass the node
    rules: any higher one is above some node's range, any lower one is no better for the others.
    The other rules are heeded where no node is in the way any more.
    """
    asked, bounds = judge.asked, judge.bounds
    level, current = ceiling.copy(), asked.current
    wanted = level > current
    while wanted.any():
        proposed = judge.propose(level, wanted)
        nodes, others = proposed.refused(by_nodes=True), proposed.refused(by_nodes=False)
        of_nodes = np.zeros(len(judge.evidence.clusters), dtype=bool)
        of_nodes[asked.cluster[nodes]] = True
        others = others[~of_nodes[asked.cluster[others]]]
        common = bounds.common[nodes]
        level[nodes] = np.where(level[nodes] > common, common, 0)
        # Rules about updates refuse a level of an unknown feature only for the cluster's sake.
        level[others] = np.where(bounds.newest_known[others] >= 0, level[others] - 1, 0)
        level = np.maximum(level, current)
        of_nodes[asked.cluster[others]] = True
        wanted = (level > current) & of_nodes[asked.cluster]
    return level


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
    group = proposed.batch.groups[row.asks] if row.asks is not None and pair >= 0 else None
    profile = NOT_HERE if group is None else int(group.profile[pair])
    if not 0 <= profile < len(evidence.answering.cluster):  # nobody, or who lists nothing
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
