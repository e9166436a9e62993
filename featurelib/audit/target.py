"""Which level each feature can reach now (target), on the way to its ceiling.

The search proposes a level for every feature of every cluster at once, asks the rules, lowers
what is refused and asks again; it only ever lowers, so it ends. Whether a proposal holds is the
rules' answer alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt

from featurelib.audit.columns import Bool, Int, find
from featurelib.audit.evidence import Evidence
from featurelib.audit.features import Questions
from featurelib.catalogue import Catalogue
from featurelib.core.dialect import GENERATIONS, Dialect, load
from featurelib.core.rules import RULES, NodeRows, UpdateRows
from featurelib.feature import METADATA_VERSION

# ----------------------------------------
# What bounds each feature: the ceiling to reach, what is known, stable, seen and common.
#
# The ceiling comes from the catalogue for the features it knows, and from the nodes for all
# others.

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


# ----------------------------------------


def _int32(values: Int) -> npt.NDArray[np.int32]:
    return values.astype(np.int32)


class Judge:
    """Asks the rules of one dialect about proposed levels for all questions at once."""

    def __init__(
        self, evidence: Evidence, bounds: Bounds, dialect: Dialect, catalogue: Catalogue
    ) -> None:
        self.evidence = evidence
        self.asked = evidence.questions
        self.bounds = bounds
        self.dialect = dialect
        self.catalogue = catalogue
        self.askable = np.bincount(evidence.subjects.cluster, minlength=len(evidence.clusters))
        self._missing_voter = evidence.subjects.voter & ~evidence.subjects.registered
        self.unregistered = self._unregistered_voters()
        leftovers, _ = evidence.leftovers()
        self.leftovers = np.bincount(leftovers, minlength=len(evidence.clusters))
        self.metadata_version = self._metadata_version()

    def node_rows(self, level: Int, pairs: Int, lowest: Int | None = None) -> NodeRows:
        """Rows for these pairs, asking each question's `level`."""
        asked = self.asked
        question = asked.pair_question[pairs]
        wanted = _int32(level[question])
        return NodeRows(
            lowest=wanted if lowest is None else _int32(lowest[question]),
            level=wanted,
            min_version=_int32(asked.pair_min[pairs]),
            max_version=_int32(asked.pair_max[pairs]),
        )

    def offending_pairs(self, level: Int, questions: Bool) -> Int:
        """Pairs of the given questions whose profile does not support `level`."""
        pairs = np.flatnonzero(questions[self.asked.pair_question])
        rows = self.node_rows(level, pairs)
        hit = np.zeros(len(pairs), dtype=bool)
        for row in self.dialect.of_nodes:
            hit |= row.ask(rows)
        hit &= ~self.asked.pair_unclear[pairs]
        return pairs[hit]

    def update_rows(self, level: Int, state: Int) -> UpdateRows:
        """Rows asking for `level` of each question where everything else is at `state`."""
        asked, cluster = self.asked, self.asked.cluster
        membership = self.evidence.membership
        needed, proposed = self._dependencies(level, state)
        return UpdateRows(
            level=_int32(level),
            current=_int32(asked.current),
            newest_known=_int32(self.bounds.newest_known),
            newest_stable=_int32(self.bounds.newest_stable),
            asked=_int32(self.askable[cluster]),
            unregistered_voters=_int32(self.unregistered[cluster]),
            unregistered_configured=_int32(self.leftovers[cluster]),
            needed=_int32(needed),
            proposed=_int32(proposed),
            metadata_version=_int32(self.metadata_version[cluster]),
            register_from=np.asarray(self.dialect.can.controllers_register_from, dtype=np.int32),
            off=self.evidence.levels.system_off[cluster],
            migrating=(membership.kraft & membership.zookeeper)[cluster],
        )

    def violations(self, level: Int, state: Int) -> list[tuple[str, Bool]]:
        """For each rule about updates: its code, and which questions violate it at `level`.

        Levels only go up here, so rules about directions find none of their columns.
        """
        rows = self.update_rows(level, state)
        asked = (row for row in self.dialect.of_updates if row.rule.readable(rows))
        return [(row.code, row.ask(rows)) for row in asked]

    def dependency(self, question: int, level: int) -> str:
        """What `level` of a question's feature depends on, as `feature level`, comma separated."""
        name = self.asked.names[int(self.asked.feature[question])]
        return ", ".join(
            f"{dependency.other} {dependency.least}"
            for dependency in self.catalogue.dependencies
            if (dependency.feature, dependency.level) == (name, level)
        )

    def _dependencies(self, level: Int, state: Int) -> tuple[Int, Int]:
        """What each proposed level needs of another feature, and what is proposed there."""
        asked = self.asked
        needed = np.zeros(len(level), dtype=np.int64)
        proposed = np.zeros(len(level), dtype=np.int64)
        keys = asked.cluster * len(asked.names) + asked.feature
        for dependency in self.catalogue.dependencies:
            if dependency.feature not in asked.names:
                continue
            mine = (asked.feature == asked.names.index(dependency.feature)) & (
                level == dependency.level
            )
            rows = np.flatnonzero(mine)
            there = np.zeros(len(rows), dtype=np.int64)
            if dependency.other in asked.names:
                code = asked.names.index(dependency.other)
                at = find(keys, asked.cluster[rows] * len(asked.names) + code)
                there = np.where(at >= 0, state[np.maximum(at, 0)], 0)
                # Where it is not known what is finalized, nothing is refused: see `rests_on`.
                unsure = (at >= 0) & ~asked.known[np.maximum(at, 0)]
                there = np.where(unsure, np.maximum(there, dependency.least), there)
            worse = dependency.least - there > needed[rows] - proposed[rows]
            needed[rows[worse]] = dependency.least
            proposed[rows[worse]] = there[worse]
        return needed, proposed

    def rests_on(self, level: Int, others: Bool) -> Bool:
        """Questions whose `level` depends on a feature of their cluster that is among `others`.

        Every level rests on metadata.version besides, unless that is known to be high enough.
        """
        asked, names = self.asked, self.asked.names
        keys = asked.cluster * len(names) + asked.feature
        hit = np.zeros(len(level), dtype=bool)
        for dependency in self.catalogue.dependencies:
            if dependency.feature in names and dependency.other in names:
                mine = asked.feature == names.index(dependency.feature)
                rows = np.flatnonzero(mine & (level == dependency.level))
                wanted = asked.cluster[rows] * len(names) + names.index(dependency.other)
                at = find(keys, wanted)
                hit[rows] |= (at >= 0) & others[np.maximum(at, 0)]
        return hit | self._rests_on_metadata_version(level, others)

    def _rests_on_metadata_version(self, level: Int, others: Bool) -> Bool:
        """On KRaft no record holds a level before 3.3-IV0, and metadata.version decides whether
        controllers are asked at all. Enough is what every generation is content with."""
        asked, names, membership = self.asked, self.asked.names, self.evidence.membership
        hit = np.zeros(len(level), dtype=bool)
        if METADATA_VERSION not in names:
            return hit
        mine = asked.feature == names.index(METADATA_VERSION)
        needed = max(load(name).can.metadata_needed for name in GENERATIONS)
        known = np.full(len(self.evidence.clusters), needed)
        unsure = np.flatnonzero(mine & others)
        known[asked.cluster[unsure]] = np.where(asked.known, asked.current, 0)[unsure]
        rows = SimpleNamespace(
            level=level,
            metadata_proposed=known[asked.cluster],
            metadata_needed=np.int32(needed),
        )
        on_kraft = membership.kraft | ~membership.zookeeper
        return RULES["metadata_version_unmet"].ask(rows) & on_kraft[asked.cluster] & ~mine

    def missing_voters(self, questions: Int) -> tuple[Int, Int]:
        """The voters that never registered in the clusters of these questions, as (question,
        subject), one row each."""
        cluster = self.evidence.subjects.cluster
        missing = np.flatnonzero(self._missing_voter)
        pairs = [
            (q, s)
            for q in questions.tolist()
            for s in missing[cluster[missing] == self.asked.cluster[q]].tolist()
        ]
        found = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return found[:, 0], found[:, 1]

    def leftovers_of(self, questions: Int) -> tuple[Int, Int]:
        """Whom the active controllers of these questions' clusters are configured to ask, and who
        is nothing else there, as (question, node id), one row each."""
        cluster, node_id = self.evidence.leftovers()
        pairs = [
            (q, i)
            for q in questions.tolist()
            for i in node_id[cluster == self.asked.cluster[q]].tolist()
        ]
        found = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return found[:, 0], found[:, 1]

    def _unregistered_voters(self) -> Int:
        """Voters each cluster's witnesses of registrations do not know."""
        evidence, subjects = self.evidence, self.evidence.subjects
        missing = subjects.cluster[self._missing_voter]
        count = np.bincount(missing, minlength=len(evidence.clusters))
        return np.where(evidence.membership.controllers_known, count, 0)

    def _metadata_version(self) -> Int:
        """The finalized metadata.version of each cluster; what its absence means where none is."""
        asked = self.asked
        level = np.full(len(self.evidence.clusters), self.dialect.can.absent_metadata_version)
        if METADATA_VERSION in asked.names:
            mine = (asked.feature == asked.names.index(METADATA_VERSION)) & (asked.current > 0)
            level[asked.cluster[mine]] = asked.current[mine]
        return level


def search(judge: Judge, ceiling: Int) -> Int:
    """The highest level up to `ceiling` that passes every rule now; the current one if none does.

    Of the levels below a refused one only the lowest of the nodes' highest can pass the node
    rules: any higher one is above some node's range, any lower one is no better for the others.
    """
    current = judge.asked.current
    level = ceiling.copy()
    refused = np.zeros(len(level), dtype=bool)
    refused[judge.asked.pair_question[judge.offending_pairs(level, level > current)]] = True
    level = np.where(refused, np.minimum(level, judge.bounds.common), level)
    level = np.maximum(level, current)
    still = judge.asked.pair_question[judge.offending_pairs(level, refused)]
    level[still] = current[still]
    while True:
        wrong = np.zeros(len(level), dtype=bool)
        for _, hit in judge.violations(level, level):
            wrong |= hit
        wrong &= level > current
        if not wrong.any():
            return level
        # Rules about updates refuse a level of an unknown feature only for the cluster's sake.
        level[wrong] = np.where(judge.bounds.newest_known >= 0, level - 1, current)[wrong]
        below = judge.asked.pair_question[judge.offending_pairs(level, wrong)]
        level[below] = current[below]
