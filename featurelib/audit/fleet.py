"""Turn the evidence about many clusters into a batch of requests, and return rejected questions.

Missing evidence never refuses a level here: a node with an unknown range supports every level, and
an unknown level satisfies every dependency. missing.py reports the missing evidence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from featurelib.audit.columns import find, first_of_equals, marked, node_key, split_key
from featurelib.audit.evidence import Evidence
from featurelib.catalogue import ANY, Tables
from featurelib.core.batch import Batch, ClusterColumns, Levels, NodePairs, Ranges, Updates
from featurelib.core.dialect import Asks, Dialect, RuleRow
from featurelib.core.judge import Offences, judge, offending_pairs
from featurelib.core.nodes import Nodes, are_asked
from featurelib.feature import Role, UpgradeType
from featurelib.rows import Bool, Int, spread

ANY_LEVEL = np.iinfo(np.int16).max


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """The refusals of levels by one dialect: K rules for U (cluster, feature) pairs."""

    questions: Int
    dialect: Dialect
    batch: Batch
    judged: Offences

    def refused(self, *, by_nodes: bool) -> Int:
        """Return the refused (cluster, feature) pairs. `by_nodes`: refused by rules about nodes,
        else by other rules."""
        rows = [row.rule.about_nodes is by_nodes for row in self.dialect.rules]
        return self.questions[self.judged.offends[rows].any(axis=0)]

    def by_row(self) -> Iterator[tuple[int, RuleRow, Int]]:
        """Yield (position, rule, refused (cluster, feature) pairs) for each violated rule."""
        for update in np.flatnonzero(self.judged.offends.any(axis=1)).tolist():
            yield update, self.dialect.rules[update], np.flatnonzero(self.judged.offends[update])


class FleetColumns:
    """The clusters of a batch as columns of the rule engine, for any dialect.

    The engine checks (cluster, profile, registered) pairs. After the P profiles of the evidence
    come two more: one that supports every level, and one without features."""

    def __init__(
        self, evidence: Evidence, tables: Tables, stable_metadata: Int | None = None
    ) -> None:
        """Keep the evidence in the form of the rule engine. `stable_metadata`: per cluster, the
        metadata.version above which levels are unstable; None = no dialect needs the value."""
        self.evidence, self._tables = evidence, tables
        self._clusters, self._profiles = len(evidence.clusters), len(evidence.answering.cluster)
        self._names = tuple(evidence.questions.names)
        self._catalogued = np.array([tables.feature_code(name) for name in self._names], dtype=int)
        anything = np.full(self._clusters, ANY_LEVEL)
        self._stable = anything if stable_metadata is None else stable_metadata
        self._groups: dict[Asks, tuple[NodePairs, Int]] = {}

    def propose(
        self,
        questions: Int,
        level: Int,
        dialect: Dialect,
        *,
        other: Int | None = None,
        release: str = ANY,
    ) -> Proposed:
        """Evaluate `level` of the (cluster, feature) pairs in `questions` with a dialect. `other`:
        the levels of the clusters' other features, None = `level`; an unknown level satisfies every
        dependency. `release`: the controllers' release."""
        if other is None:
            other = self.known_or_enough(level)
        owner = self.evidence.questions.cluster[questions]
        first = first_of_equals(owner)
        clusters = owner[first]
        request = np.cumsum(first) - 1
        groups_asked = {Asks.LOCAL_CONTROLLER, *(row.asks for row in dialect.rules)}
        groups = {rule: self._group(rule)[0] for rule in groups_asked if rule is not None}
        batch = Batch(
            names=self._names,
            catalogued=self._catalogued,
            ranges=self.ranges if dialect.mode != "any" else self._ranges_by_text,
            groups={
                rule: replace(group, start=group.start[clusters], size=group.size[clusters])
                for rule, group in groups.items()
            },
            state=self._state(clusters, self._tables.release_code(release)),
            updates=Updates(
                request=request,
                feature=self.evidence.questions.feature[questions],
                level=level[questions].astype(np.int32),
                kind=np.full(len(questions), UpgradeType.UPGRADE, dtype=np.int32),
                rank=np.arange(len(questions)),
            ),
            dry_run=np.zeros(len(clusters), dtype=bool),
            vendors=True,
            proposed=self._table(other)[clusters],
        )
        offences = judge(batch, dialect, self._tables)
        return Proposed(questions=questions, dialect=dialect, batch=batch, judged=offences)

    def known_or_enough(self, level: Int) -> Int:
        """Return `level`, but ANY_LEVEL (enough for all dependencies) if it is unknown."""
        return np.where(self.evidence.questions.known, level, ANY_LEVEL)

    def offenders(self, proposed: Proposed, place: int) -> tuple[Int, Int, Int]:
        """Return (pair, profile, position in `nodes`) of each node that the rule number `place`
        refuses."""
        row, offences = proposed.dialect.rules[place], proposed.judged
        if row.asks is None:
            nobody = np.zeros(0, dtype=np.int64)
            return nobody, nobody, nobody
        update, pair = offending_pairs(offences, proposed.batch, row)
        group, code = self._group(row.asks)
        member = np.flatnonzero(are_asked(self.nodes, row.asks))
        member = member[np.argsort(self._code[member], kind="stable")]
        begin = np.searchsorted(self._code[member], code[pair])
        pair_index, at = spread(begin, group.count[pair])
        node = member[at]
        order = np.lexsort((node, update[pair_index]))
        pair_index, node = pair_index[order], node[order]
        return proposed.questions[update[pair_index]], group.profile[pair[pair_index]], node

    @cached_property
    def nodes(self) -> Nodes:
        """The nodes of all clusters: first the nodes in the evidence, then unregistered nodes that
        only an active controller's configuration names."""
        evidence, node = self.evidence, self.evidence.subjects
        listed, configured = evidence.membership.controllers_known, evidence.configured
        rows = [(at, Role.CONTROLLER, i) for at, voters in configured.items() for i in voters.ids]
        keys_named = np.sort(node_key(*np.array(rows, dtype=np.int64).reshape(-1, 3).T))
        named_only = keys_named[find(node.key, keys_named) < 0]
        named_only = named_only[listed[split_key(named_only)[0]]]
        keys = np.concatenate((node.key, named_only))
        cluster, role, node_id = split_key(keys)
        controller, is_known = role == Role.CONTROLLER, np.arange(len(keys)) < len(node.cluster)

        def column(of_subjects: Bool) -> Bool:
            return np.concatenate((of_subjects, np.zeros(len(named_only), dtype=bool)))

        voter = controller & column(node.voter)
        read = marked(self._clusters, list(configured))[cluster]
        static = voter & ~evidence.dynamic()[0][cluster]
        is_named = controller & np.where(read, find(keys_named, keys) >= 0, static)
        profile = np.full(len(keys), self._profiles + 1)
        of_subject = evidence.answering.of_subject
        profile[: len(of_subject)] = np.where(of_subject >= 0, of_subject, self._profiles)
        return Nodes(
            cluster=cluster,
            node_id=node_id,
            controller=controller,
            profile=profile,
            known=is_known,
            registered=column(node.registered) | (controller & ~listed[cluster]),
            voter=voter,
            live=column(~evidence.left_out()),
            reachable=column(node.answers),
            configured=np.where(is_named, 0, -1),
            leads=column(evidence.may_lead(of_subject >= 0)),
            is_active=controller & (node_id == evidence.controller[cluster]),
        )

    @cached_property
    def _code(self) -> Int:
        """Return one number per node. Nodes with equal profile (or cluster) and registration have
        equal numbers."""
        nodes, behind = self.nodes, self.nodes.profile - self._profiles
        shared = self._profiles + behind * self._clusters + nodes.cluster
        return np.where(behind < 0, nodes.profile, shared) << 1 | nodes.registered

    def _group(self, asks: Asks) -> tuple[NodePairs, Int]:
        """Return (distinct (cluster, profile, registered) pairs of the nodes that `asks` checks,
        number of each pair). The result is cached."""
        if asks not in self._groups:
            count = np.bincount(self._code[are_asked(self.nodes, asks)])
            code = np.flatnonzero(count)
            place = code >> 1
            behind, cluster = np.divmod(np.maximum(place - self._profiles, 0), self._clusters or 1)
            of_profile = place < self._profiles
            owner = cluster.copy()
            owner[of_profile] = self.evidence.answering.cluster[place[of_profile]]
            order = np.argsort(owner, kind="stable")
            size = np.bincount(owner, minlength=self._clusters)
            group = NodePairs(
                start=np.cumsum(size) - size,
                size=size,
                profile=np.where(of_profile, place, self._profiles + behind)[order],
                node=np.full(len(code), -1),
                count=count[code][order],
                registered=(code & 1)[order] > 0,
            )
            self._groups[asks] = group, code[order]
        return self._groups[asks]

    @cached_property
    def ranges(self) -> Ranges:
        """The ranges of all profiles, [P + 2, features], as Kafka reads them. A missing feature has
        the range 0-0."""
        query = self.evidence.questions
        low, high = np.zeros((2, self._profiles + 2, max(len(self._names), 1)), dtype=np.int32)
        is_listed = np.zeros(low.shape, dtype=bool)
        listed = np.flatnonzero(query.pair_listed)
        at = self._places(listed)
        low[at], high[at], is_listed[at] = query.pair_min[listed], query.pair_max[listed], True
        # A partial or missing response refuses no level of a feature that it may omit.
        for nothing in (self._places(np.flatnonzero(query.pair_unclear)), self._profiles):
            high[nothing], is_listed[nothing] = ANY_LEVEL, True
        return Ranges(min_version=low, max_version=high, lists=is_listed)

    @cached_property
    def _ranges_by_text(self) -> Ranges:
        """The ranges of all profiles; missing features have the policy's default range."""
        query, ranges = self.evidence.questions, self.ranges
        absent = np.flatnonzero(~query.pair_listed & ~query.pair_unclear & (query.pair_max > 0))
        low, high, at = ranges.min_version.copy(), ranges.max_version.copy(), self._places(absent)
        low[at], high[at] = query.pair_min[absent], query.pair_max[absent]
        return replace(ranges, min_version=low, max_version=high)

    def _places(self, pairs: Int) -> tuple[Int, Int]:
        """Return the positions of (profile, feature) pairs in a flat table [profiles, features]."""
        query = self.evidence.questions
        return query.pair_profile[pairs], query.feature[query.pair_question[pairs]]

    @cached_property
    def _finalized(self) -> Levels:
        return self._table(self.evidence.questions.current)

    def _table(self, level: Int) -> Levels:
        """Return the levels as a table [clusters, features]; 0 for features without level."""
        query = self.evidence.questions
        levels = np.zeros((self._clusters, len(self._names)), dtype=np.int32)
        levels[query.cluster, query.feature] = level
        return levels

    def _state(self, clusters: Int, release: int) -> ClusterColumns:
        rows, member = len(clusters), self.evidence.membership
        falses, zeros = np.zeros(rows, dtype=bool), np.zeros(rows, dtype=np.int32)
        finalized = self._finalized[clusters]
        return ClusterColumns(
            release=np.full(rows, release),
            finalized=finalized,
            minimum=finalized,
            cached=finalized,
            cached_min=finalized,
            kraft_record=zeros,
            raft_level=zeros,
            stable_metadata=self._stable[clusters].astype(np.int32),
            raft_ready=~falses,
            migrating=member.migrating[clusters],
            off=self.evidence.levels.system_off[clusters],
            unauthorized=falses,
            elsewhere=falses,
            node_missing=falses,
            blind=falses,
            active=np.full(rows, -1),
        )
