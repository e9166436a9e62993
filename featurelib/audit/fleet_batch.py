"""The edge for a fleet: evidence of many clusters in, a batch of requests out.

What a cluster's evidence leaves open is never a reason for a refusal here: it is a reason for
UNKNOWN, which is said elsewhere.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from featurelib.audit.columns import Bool, Int
from featurelib.audit.evidence import Evidence
from featurelib.audit.features import Questions
from featurelib.catalogue.tables import Tables
from featurelib.core.batch import Batch, Group, Ranges, State, Updates
from featurelib.core.dialect import Asks, Dialect
from featurelib.feature import METADATA_VERSION, Role, UpgradeType

ANY_LEVEL = np.iinfo(np.int16).max


class FleetEdge:
    """What all requests of a batch of clusters share, and the requests themselves."""

    def __init__(self, evidence: Evidence, tables: Tables) -> None:
        self._evidence, self._tables = evidence, tables
        self.ranges = _ranges(evidence.questions, len(evidence.answering.cluster))
        membership = evidence.membership
        self.zookeeper: Bool = membership.zookeeper & ~membership.kraft

        self._groups: dict[Asks, Group] = {}

    def batch(self, questions: Int, level: Int, release: int, dialect: Dialect) -> Batch:
        """Requests that raise these questions to their `level`, one for each cluster.

        `release` is the controllers' own, a position in the catalogue's tables; -1 unknown.
        """
        asked = self._evidence.questions
        clusters, request = np.unique(asked.cluster[questions], return_inverse=True)
        wanted = {Asks.LOCAL_CONTROLLER, *(row.asks for row in dialect.rules if row.asks)}
        return Batch(
            names=tuple(asked.names),
            catalogued=np.array([self._tables.feature_code(name) for name in asked.names]),
            ranges=self.ranges,
            groups={asks: _of(self._group(asks), clusters) for asks in wanted},
            state=_state(_finalized(asked, clusters), release, self._evidence, clusters),
            updates=Updates(
                request=request,
                feature=asked.feature[questions],
                level=level[questions].astype(np.int32),
                kind=np.full(len(questions), UpgradeType.UPGRADE, dtype=np.int32),
                rank=np.arange(len(questions)),
            ),
            dry_run=np.zeros(len(clusters), dtype=bool),
            vendors=True,
        )

    def _group(self, asks: Asks) -> Group:
        """Whom every cluster of the evidence asks, worked out once."""
        if asks not in self._groups:
            profile = self._evidence.answering.of_subject
            # A node whose range nobody knows is a reason for UNKNOWN, not for a refusal.
            members = self._members(asks) & (profile >= 0)
            never = self._never_registered(asks)
            self._groups[asks] = self._pairs(profile[members], never)
        return self._groups[asks]

    def _members(self, asks: Asks) -> Bool:
        subjects = self._evidence.subjects
        broker, controller = subjects.role == Role.BROKER, subjects.role == Role.CONTROLLER
        if asks is Asks.LOCAL_CONTROLLER:
            return self._may_lead(broker, controller)
        return {
            Asks.EVERYONE: broker | controller,
            Asks.REACHABLE_CONTROLLERS: controller & subjects.answers,
            Asks.REGISTERED_CONTROLLERS: controller & subjects.registered,
            Asks.BROKERS: broker & subjects.registered,
            Asks.LIVE_BROKERS: broker & subjects.registered,
            Asks.CONFIGURED_VOTERS: subjects.voter & subjects.registered,
            Asks.CONFIGURED_ONLY: subjects.voter & False,
            Asks.QUORUM: subjects.voter,
        }[asks]

    def _may_lead(self, broker: Bool, controller: Bool) -> Bool:
        """The active controller where it is known, else whoever may be it.

        In ZooKeeper mode that is a broker; elsewhere brokers stand in for unknown controllers.
        """
        evidence, cluster = self._evidence, self._evidence.subjects.cluster
        clusters, counted = len(evidence.clusters), evidence.answering.of_subject >= 0
        leads = np.bincount(cluster[controller & counted], minlength=clusters) > 0
        local = np.where((leads & ~self.zookeeper)[cluster], controller, broker)
        active = local & counted & (evidence.subjects.node_id == evidence.controller[cluster])
        told = np.bincount(cluster[active], minlength=clusters) > 0
        return np.where(told[cluster], active, local)

    def _never_registered(self, asks: Asks) -> Int | None:
        """How many of whom active controllers are configured to ask never registered, by cluster,
        where controllers have to; None for a rule that asks others.

        Where the configuration was not read, a static quorum is as configured, and of a dynamic one
        nothing is known: which is no reason for a refusal.
        """
        if asks is not Asks.CONFIGURED_VOTERS:
            return None
        asked, subjects = self._evidence.questions, self._evidence.subjects
        known = self._evidence.membership.controllers_known.copy()
        if METADATA_VERSION in asked.names:  # else nobody knows whether they have to
            unsure = (asked.feature == asked.names.index(METADATA_VERSION)) & ~asked.known
            known[asked.cluster[unsure]] = False
        never = subjects.voter & ~subjects.registered
        voters = np.bincount(subjects.cluster[never], minlength=len(known))
        voters[self._evidence.dynamic()[0]] = 0
        missing, _ = self._evidence.configured_unregistered()
        named = np.bincount(missing, minlength=len(known))
        read = self._evidence.configured.known(len(known))
        return np.where(known, np.where(read, named, voters), 0)

    def _pairs(self, profile: Int, never: Int | None) -> Group:
        """Nodes by answering profile, which belongs to one cluster; those of a cluster together.

        Which node a message names is nobody's concern here: an audit lists all of them.
        """
        answering, clusters = self._evidence.answering, len(self._evidence.clusters)
        nodes = np.bincount(profile, minlength=len(answering.cluster))
        found = np.flatnonzero(nodes)
        owner, count = answering.cluster[found], nodes[found]
        registered = np.ones(len(found), dtype=bool)
        if never is not None and never.any():
            missing = np.flatnonzero(never)
            nothing = np.full(len(missing), len(self.ranges.lists) - 1)
            order = np.argsort(np.concatenate((owner, missing)), kind="stable")
            owner = np.concatenate((owner, missing))[order]
            found = np.concatenate((found, nothing))[order]
            count = np.concatenate((count, never[missing]))[order]
            registered = np.concatenate((registered, np.zeros(len(missing), dtype=bool)))[order]
        size = np.bincount(owner, minlength=clusters)
        return Group(
            start=np.cumsum(size) - size,
            size=size,
            profile=found,
            node=np.full(len(found), -1),
            count=count,
            registered=registered,
        )


def _of(group: Group, clusters: Int) -> Group:
    """The group as these clusters ask it; the pairs are shared."""
    return replace(group, start=group.start[clusters], size=group.size[clusters])


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
        stable_metadata=np.full(rows, ANY_LEVEL, dtype=np.int32),  # the policy has its own bounds
        raft_ready=~no,
        migrating=(membership.kraft & membership.zookeeper)[clusters],
        off=evidence.levels.system_off[clusters],
        unauthorized=no,
        elsewhere=no,
        node_missing=no,
        blind=no,
        active=np.full(rows, -1),
    )
