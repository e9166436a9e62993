"""What a cluster's own controller would answer to the levels the strict policy lets pass.

READY needs both. Which release the controllers run is read from the ranges they advertise, or told
by the inventory; where several fit, each is asked, and any refusal counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from featurelib.catalogue.tables import Tables
from featurelib.core.answer import judge
from featurelib.core.batch import Batch, Group, Ranges, State, Updates
from featurelib.core.columns import Bool, Int
from featurelib.core.dialect import Asks, Dialect, RuleRow, generation_of, load
from featurelib.core.evidence import Evidence
from featurelib.core.generations import possible_releases
from featurelib.core.questions import Questions
from featurelib.feature import Role, UpgradeType

# Both generations of ZooKeeper mode, by a release of each: brokers there advertise no range.
ZOOKEEPER_RELEASES = ("3.2", "3.9")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A rule of one generation that refuses some of the questions' levels."""

    dialect: Dialect
    row: RuleRow
    questions: Int


class OwnDialects:
    """The dialects the clusters of a batch may speak, and their answers."""

    def __init__(self, evidence: Evidence, told: list[str], tables: Tables) -> None:
        """`told` is the release the inventory names for each cluster, "" where it names none."""
        self._evidence, self._tables = evidence, tables
        self._ranges = _ranges(evidence.questions, len(evidence.answering.cluster))
        membership = evidence.membership
        self._zookeeper = membership.zookeeper & ~membership.kraft
        self.spoken: dict[tuple[str, str], Bool] = self._spoken(told)

    def dialects(self, cluster: int) -> list[str]:
        """The names of the dialects that one cluster's controllers may speak, sorted."""
        return sorted({name for (name, _), which in self.spoken.items() if which[cluster]})

    def refusals(self, level: Int) -> Iterator[Refusal]:
        """Every rule of an own dialect that refuses a question's `level`, above the current one."""
        asked = self._evidence.questions
        wanted = asked.known & (level > asked.current)
        for (name, release), which in self.spoken.items():
            questions = np.flatnonzero(wanted & which[asked.cluster])
            if len(questions) == 0:
                continue
            dialect = load(name)
            batch = self._batch(questions, level, self._tables.release_code(release))
            judged = judge(batch, dialect, self._tables)
            for row, hit in zip(dialect.rules, judged.offends, strict=True):
                if hit.any():
                    yield Refusal(dialect=dialect, row=row, questions=questions[hit])

    def _spoken(self, told: list[str]) -> dict[tuple[str, str], Bool]:
        possible = self._possible(told)
        spoken: dict[tuple[str, str], Bool] = {}
        for code, release in enumerate(self._tables.releases):
            if possible[:, code].any():
                spoken[generation_of(release, "kraft"), release] = possible[:, code]
        for release in ZOOKEEPER_RELEASES:
            name = generation_of(release, "zk")
            others = [t and generation_of(t, "zk") != name for t in told]
            which = self._zookeeper & ~np.array(others, dtype=bool)
            if which.any():
                spoken[name, release] = which
        return spoken

    def _possible(self, told: list[str]) -> npt.NDArray[np.bool_]:
        """[clusters, releases] which releases the controllers of KRaft clusters may run."""
        evidence, tables = self._evidence, self._tables
        subjects, names = evidence.subjects, evidence.questions.names
        shape = len(self._ranges.lists), len(tables.features)
        low, high = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int32)
        for code, feature in enumerate(tables.features):
            if feature in names:
                low[:, code] = self._ranges.min_version[:, names.index(feature)]
                high[:, code] = self._ranges.max_version[:, names.index(feature)]
        counts = evidence.answering.of_subject >= 0
        partial = np.zeros(shape[0], dtype=bool)
        partial[evidence.answering.of_subject[counts]] = subjects.partial[counts]
        fits = possible_releases(low, high, partial, tables)
        possible = np.zeros((len(evidence.clusters), len(tables.releases)), dtype=bool)
        controllers = counts & (subjects.role == Role.CONTROLLER)
        shown = np.zeros(len(evidence.clusters), dtype=bool)
        shown[subjects.cluster[controllers]] = True
        speak = controllers | (counts & ~shown[subjects.cluster])
        np.logical_or.at(
            possible, subjects.cluster[speak], fits[evidence.answering.of_subject[speak]]
        )
        for i, release in enumerate(told):
            code = tables.release_code(".".join(release.split(".")[:2])) if release else -1
            if code >= 0:  # the owner's word decides between look-alikes, or is one candidate more
                possible[i] &= ~possible[i, code]
                possible[i, code] = True
        return possible & ~self._zookeeper[:, None]

    def _batch(self, questions: Int, level: Int, release: int) -> Batch:
        asked = self._evidence.questions
        clusters, request = np.unique(asked.cluster[questions], return_inverse=True)
        rows = len(clusters)
        finalized = _finalized(asked, clusters)
        return Batch(
            names=tuple(asked.names),
            catalogued=np.array([self._tables.feature_code(name) for name in asked.names]),
            ranges=self._ranges,
            groups={asks: self._group(asks, clusters) for asks in Asks},
            state=_state(finalized, release, self._evidence, clusters),
            updates=Updates(
                request=request,
                feature=asked.feature[questions],
                level=level[questions].astype(np.int32),
                kind=np.full(len(questions), UpgradeType.UPGRADE, dtype=np.int32),
                rank=np.arange(len(questions)),
            ),
            dry_run=np.zeros(rows, dtype=bool),
        )

    def _group(self, asks: Asks, clusters: Int) -> Group:
        """Whom each of `clusters` asks. Whoever may be the active controller counts as local."""
        evidence, subjects = self._evidence, self._evidence.subjects
        broker, controller = subjects.role == Role.BROKER, subjects.role == Role.CONTROLLER
        local = np.where(self._zookeeper[subjects.cluster], broker, controller)
        members = {
            Asks.EVERYONE: np.ones(len(broker), dtype=bool),
            Asks.LOCAL_CONTROLLER: local,
            Asks.REACHABLE_CONTROLLERS: controller & subjects.answers,
            Asks.REGISTERED_CONTROLLERS: controller & subjects.registered,
            Asks.BROKERS: broker & subjects.registered,
            Asks.LIVE_BROKERS: broker & subjects.registered,
            Asks.VOTERS: subjects.voter,
            Asks.QUORUM: subjects.voter,
        }[asks]
        profile = evidence.answering.of_subject
        never = (
            subjects.voter
            & ~subjects.registered
            & evidence.membership.controllers_known[subjects.cluster]
        )
        # A node whose range nobody knows is a reason for UNKNOWN elsewhere, not for a refusal here.
        members &= (profile >= 0) | never
        row = np.full(len(evidence.clusters), -1)
        row[clusters] = np.arange(len(clusters))
        who = np.flatnonzero(members & (row[subjects.cluster] >= 0))
        nothing = len(self._ranges.lists) - 1
        mine = np.where(profile[who] >= 0, profile[who], nothing)
        return _grouped(row[subjects.cluster[who]], mine, ~never[who], len(clusters), nothing)


def _grouped(row: Int, profile: Int, registered: Bool, rows: int, nothing: int) -> Group:
    """Pairs of nodes with one profile; which of them a message names is nobody's concern here."""
    key = (row * (nothing + 1) + profile) << 1 | registered
    pairs, count = np.unique(key, return_counts=True)
    owner = (pairs >> 1) // (nothing + 1)
    size = np.bincount(owner, minlength=rows)
    return Group(
        start=np.cumsum(size) - size,
        size=size,
        profile=(pairs >> 1) % (nothing + 1),
        node=np.full(len(pairs), -1),
        count=count,
        registered=(pairs & 1).astype(bool),
    )


def _ranges(asked: Questions, profiles: int) -> Ranges:
    """The answering profiles as tables [profiles + 1, features]; the last one lists nothing."""
    shape = profiles + 1, max(len(asked.names), 1)
    low, high = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int32)
    lists = np.zeros(shape, dtype=bool)
    pair = np.flatnonzero(asked.pair_listed)
    at = asked.pair_profile[pair], asked.feature[asked.pair_question[pair]]
    low[at], high[at], lists[at] = asked.pair_min[pair], asked.pair_max[pair], True
    return Ranges(min_version=low, max_version=high, lists=lists)


def _finalized(asked: Questions, clusters: Int) -> npt.NDArray[np.int32]:
    """What is finalized, [clusters, features]."""
    levels = np.zeros((len(clusters), len(asked.names)), dtype=np.int32)
    row = np.searchsorted(clusters, asked.cluster)
    mine = row < len(clusters)
    mine[mine] = clusters[row[mine]] == asked.cluster[mine]
    levels[row[mine], asked.feature[mine]] = asked.current[mine]
    return levels


def _state(
    finalized: npt.NDArray[np.int32], release: int, evidence: Evidence, clusters: Int
) -> State:
    rows = len(clusters)
    no, none = np.zeros(rows, dtype=bool), np.zeros(rows, dtype=np.int32)
    membership = evidence.membership
    return State(
        release=np.full(rows, release),
        finalized=finalized,
        minimum=finalized,
        cached=finalized,
        cached_min=finalized,
        kraft_record=none,
        raft_level=none,
        raft_ready=~no,
        migrating=(membership.kraft & membership.zookeeper)[clusters],
        off=evidence.levels.system_off[clusters],
        unauthorized=no,
        elsewhere=no,
        node_missing=no,
        blind=no,
        active=np.full(rows, -1),
    )
