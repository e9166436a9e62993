"""The edge for a fleet: evidence of many clusters in, a batch of requests out.

What a cluster's evidence leaves open is never a reason for a refusal here: it is a reason for
UNKNOWN, which is said elsewhere.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from featurelib.catalogue.tables import Tables
from featurelib.core.batch import Batch, Group, Ranges, State, Updates
from featurelib.core.columns import Bool, Int
from featurelib.core.dialect import Asks
from featurelib.core.evidence import Evidence
from featurelib.core.questions import Questions
from featurelib.feature import METADATA_VERSION, Role, UpgradeType

ANY_LEVEL = np.iinfo(np.int16).max


class FleetEdge:
    """What all requests of a batch of clusters share, and the requests themselves."""

    def __init__(self, evidence: Evidence, tables: Tables) -> None:
        self._evidence, self._tables = evidence, tables
        self.ranges = _ranges(evidence.questions, len(evidence.answering.cluster))
        membership = evidence.membership
        self.zookeeper: Bool = membership.zookeeper & ~membership.kraft

    def batch(self, questions: Int, level: Int, release: int) -> Batch:
        """Requests that raise these questions to their `level`, one for each cluster.

        `release` is the controllers' own, a position in the catalogue's tables; -1 unknown.
        """
        asked = self._evidence.questions
        clusters, request = np.unique(asked.cluster[questions], return_inverse=True)
        rows = len(clusters)
        finalized = _finalized(asked, clusters)
        return Batch(
            names=tuple(asked.names),
            catalogued=np.array([self._tables.feature_code(name) for name in asked.names]),
            ranges=self.ranges,
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
            vendors=True,
        )

    def _metadata_known(self) -> Bool:
        """Where it is known whether controllers have to register."""
        asked = self._evidence.questions
        known = np.ones(len(self._evidence.clusters), dtype=bool)
        if METADATA_VERSION in asked.names:
            unsure = (asked.feature == asked.names.index(METADATA_VERSION)) & ~asked.known
            known[asked.cluster[unsure]] = False
        return known

    def _group(self, asks: Asks, clusters: Int) -> Group:
        """Whom each of `clusters` asks. Whoever may be the active controller counts as local."""
        evidence, subjects = self._evidence, self._evidence.subjects
        broker, controller = subjects.role == Role.BROKER, subjects.role == Role.CONTROLLER
        # In ZooKeeper mode a broker is the controller; else brokers stand in for unknown ones.
        counted = controller & (evidence.answering.of_subject >= 0)
        leads = np.bincount(subjects.cluster[counted], minlength=len(evidence.clusters)) > 0
        leads &= ~self.zookeeper
        local = np.where(leads[subjects.cluster], controller, broker)
        # Where it is known who is active, it alone; else whoever may be it.
        active = local & (subjects.node_id == evidence.controller[subjects.cluster])
        active &= evidence.answering.of_subject >= 0
        told = np.bincount(subjects.cluster[active], minlength=len(evidence.clusters)) > 0
        local = np.where(told[subjects.cluster], active, local)
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
        known = evidence.membership.controllers_known & self._metadata_known()
        never = subjects.voter & ~subjects.registered & known[subjects.cluster]
        # A node whose range nobody knows is a reason for UNKNOWN elsewhere, not for a refusal here.
        members &= (profile >= 0) | (never & (asks is Asks.VOTERS))
        row = np.full(len(evidence.clusters), -1)
        row[clusters] = np.arange(len(clusters))
        who = np.flatnonzero(members & (row[subjects.cluster] >= 0))
        nothing = len(self.ranges.lists) - 1
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
    # An answer that may leave the feature out refuses nothing.
    pair = np.flatnonzero(asked.pair_unclear)
    at = asked.pair_profile[pair], asked.feature[asked.pair_question[pair]]
    high[at], lists[at] = ANY_LEVEL, True
    return Ranges(min_version=low, max_version=high, lists=lists)


def _finalized(asked: Questions, clusters: Int) -> npt.NDArray[np.int32]:
    """What is finalized, [clusters, features]; what is not known is a reason for no refusal."""
    levels = np.zeros((len(clusters), len(asked.names)), dtype=np.int32)
    row = np.searchsorted(clusters, asked.cluster)
    mine = row < len(clusters)
    mine[mine] = clusters[row[mine]] == asked.cluster[mine]
    levels[row[mine], asked.feature[mine]] = np.where(asked.known, asked.current, ANY_LEVEL)[mine]
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
