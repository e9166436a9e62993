"""One cluster of a batch of evidence as plain values: what goals, steps, floors and joins take.

Nothing is judged anew: who counts, whose range is believed and what is finalized is the evidence's
word. What it leaves open is no reason to hope: a node whose range nobody knows supports nothing
here, and whether that is UNKNOWN or BLOCKED is for the audit to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from featurelib.audit.controllers import NOBODY, Likely, blind_leaders
from featurelib.audit.evidence import Evidence
from featurelib.catalogue import Catalogue
from featurelib.core.cluster import Cluster, Features, Node, Range
from featurelib.core.compatibility import left_out
from featurelib.core.dialect import STRICT, Asks, load
from featurelib.core.nodes import are_asked
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role

_REGISTER_FROM = load(STRICT).can.controllers_register_from


class _Where(NamedTuple):
    """A cluster of the batch: its position, its subjects, and which of them may be active."""

    position: int
    subjects: range
    may_lead: list[int]  # the active controller alone, where it is known
    zookeeper: bool

    @property
    def active(self) -> int:
        """The subject that is the active controller; -1 = not known."""
        return self.may_lead[0] if len(self.may_lead) == 1 else NOBODY


class PlainClusters:
    """The clusters of one batch of evidence, each as plain values when it is asked for."""

    def __init__(
        self,
        evidence: Evidence,
        told: Sequence[str],
        catalogue: Catalogue,
        probed: Mapping[int, Features] | None = None,
    ) -> None:
        """`told` is the release the inventory names for each cluster, "" where it names none;
        `probed`: what its controller agreed to in the place of a subject, as ranges."""
        self._probed = probed or {}
        self._evidence, self._tables = evidence, catalogue.tables
        self._catalogue = catalogue
        self._likely = Likely(evidence, told, catalogue)
        owner = evidence.levels.entry_cluster
        self._entries = np.argsort(owner, kind="stable")
        self._entry_owner = owner[self._entries]
        self._blind = blind_leaders(evidence, self._likely.own.zookeeper)
        nodes = self._likely.own.fleet.nodes
        gone = are_asked(nodes, Asks.CONFIGURED_ONLY)
        columns = nodes.cluster[gone].tolist(), nodes.node_id[gone].tolist()
        self._leftovers = set(zip(*columns, strict=True))

    def dialects(self, position: int) -> tuple[str, ...]:
        """The dialects its controllers may speak, sorted; of those that judge alike one: that of
        the active controller, if it is among them."""
        active = self._where(position).active
        own = self._likely.of_node(active) if active != NOBODY else ""
        return tuple(self._likely.own.dialects(position, self._catalogue.release_named(own) or ""))

    def releases(self, position: int) -> tuple[str, ...]:
        """The releases its controllers may run, the likeliest of the active one first."""
        return self._likely.of_cluster(position, self._where(position).may_lead)

    def cluster(self, position: int) -> Cluster:
        """The plain value of the cluster at `position`."""
        where, levels = self._where(position), self._evidence.levels
        off = bool(levels.system_off[position])
        missing = where.zookeeper and position in levels.absent
        blind = bool(self._blind[position] != NOBODY)
        releases = self._likely.of_cluster(position, where.may_lead)
        finalized = self._finalized(where)
        record, raft = self._kraft_version(position, finalized)
        membership = self._evidence.membership
        nodes = self._nodes(where, finalized.get(METADATA_VERSION, (0, 0))[1])
        cluster = Cluster(
            release=releases[0] if releases else "",
            nodes=nodes,
            active=self._leader(where),
            finalized=finalized,
            cached={} if off or missing or blind else None,
            kraft_record=record,
            raft_level=raft,
            configured_voters=self._configured(position, nodes),
            off=off,
            migrating=bool((membership.kraft & membership.zookeeper)[position]),
            node_missing=missing,
            blind=blind,
        )
        return left_out(cluster, releases, self._tables) if where.zookeeper else cluster

    def _where(self, position: int) -> _Where:
        who, leader = self._evidence.subjects, int(self._evidence.controller[position])
        begin, end = np.searchsorted(who.cluster, (position, position + 1)).tolist()
        zookeeper = bool(self._likely.own.zookeeper[position])
        counted = np.flatnonzero(~who.expected_only[begin:end]) + begin
        may_lead = counted[who.role[counted] == Role.CONTROLLER]
        if zookeeper or len(may_lead) == 0:
            may_lead = counted[who.role[counted] == Role.BROKER]
        active = may_lead[who.node_id[may_lead] == leader]
        found = active if len(active) else may_lead
        return _Where(position, range(begin, end), found.tolist(), zookeeper)

    def _configured(self, position: int, nodes: tuple[Node, ...]) -> tuple[int, ...] | None:
        """Whom the active controller is configured to ask; None where that was not read. Who is no
        node here is among them if a list of controllers shows that it is gone: else no such list
        was read, or its owner vouches for it."""
        read = self._evidence.configured.of.get(position)
        if read is None:
            return None
        known = {(position, node.node_id) for node in nodes if node.role is Role.CONTROLLER}
        return tuple(i for i in read.ids if (position, i) in known | self._leftovers)

    def _leader(self, where: _Where) -> int:
        leader = int(self._evidence.controller[where.position])
        if leader >= 0 or where.active == NOBODY:
            return leader
        return int(self._evidence.subjects.node_id[where.active])

    def _nodes(self, where: _Where, metadata_version: int) -> tuple[Node, ...]:
        """What only the inventory speaks of is left out: nothing shows that it is there, or its
        owner vouches for a controller that nobody could ask. No word of the owner stands for a
        voter that has to be registered and is not (QuorumFeatures.reasonNotSupported)."""
        who, known = self._evidence.subjects, self._evidence.membership.controllers_known
        mine = slice(where.subjects.start, where.subjects.stop)
        controller = who.role[mine] == Role.CONTROLLER
        # Nobody is held to a list that was never read; what answers after a list is on it by now.
        registered = who.registered[mine] | np.where(controller, ~known[where.position], True)
        never_failed = (who.failed_at[mine] == 0) & ~who.gone[mine]
        running = who.answers[mine] | never_failed | (where.zookeeper & who.registered[mine])
        profiles = self._evidence.answering.of_subject[mine]
        vouched = controller & self._evidence.controllers_vouched[where.position]
        unasked = vouched & ~who.answers[mine] & (profiles < 0)
        in_the_way = who.voter[mine] & ~registered & (metadata_version >= _REGISTER_FROM)
        left_out = who.expected_only[mine] | (unasked & ~in_the_way)
        ranges = self._ranges(where.position)
        columns = (
            where.subjects,
            profiles.tolist(),
            who.node_id[mine].tolist(),
            controller.tolist(),
            registered.tolist(),
            (who.fenced[mine] == 1).tolist(),
            running.tolist(),
            who.gone[mine].tolist(),
            who.voter[mine].tolist(),
            left_out.tolist(),
        )
        return tuple(
            Node(
                node_id=node_id,
                role=Role.CONTROLLER if leads else Role.BROKER,
                supported=self._probed.get(subject) or ranges.get(profile, {}),
                release=self._likely.of_node(subject),
                registered=listed,
                fenced=fenced,
                running=runs,
                gone=gone,
                voter=voter,
            )
            for subject, profile, node_id, leads, listed, fenced, runs, gone, voter, out in zip(
                *columns, strict=True
            )
            if not out
        )

    def _ranges(self, position: int) -> dict[int, Features]:
        """What each answering profile of a cluster lists. A feature that a partial answer may have
        left out is not listed: nobody saw it."""
        asked, answering = self._evidence.questions, self._evidence.answering
        begin, end = np.searchsorted(asked.cluster, (position, position + 1)).tolist()
        first = int(answering.first[position])
        found: dict[int, Features] = {first + i: {} for i in range(answering.count[position])}
        if begin == end:
            return found
        start = int(asked.pair_first[begin])
        pairs = slice(start, int(asked.pair_first[end - 1] + asked.pair_count[end - 1]))
        for question, profile, low, high, listed in zip(
            asked.feature[asked.pair_question[pairs]].tolist(),
            asked.pair_profile[pairs].tolist(),
            asked.pair_min[pairs].tolist(),
            asked.pair_max[pairs].tolist(),
            asked.pair_listed[pairs].tolist(),
            strict=True,
        ):
            if listed:
                found[profile][asked.names[question]] = (low, high)
        return found

    def _finalized(self, where: _Where) -> dict[str, Range]:
        """Feature → (minimum, level) as the witness that is believed says them; a level that it
        cannot see is left out, and so is the 0 with which KRaft says that nothing is finalized."""
        levels = self._evidence.levels
        begin, end = np.searchsorted(self._entry_owner, (where.position, where.position + 1))
        entries = self._entries[begin:end]
        least = 0 if where.zookeeper else 1
        return {
            name: (max(low, 0) or level, level)
            for name, low, level in zip(
                levels.names.take(entries).to_pylist(),
                levels.entry_min[entries].tolist(),
                levels.entry_level[entries].tolist(),
                strict=True,
            )
            if level >= least
        }

    def _kraft_version(self, position: int, finalized: dict[str, Range]) -> tuple[int, int]:
        """The controller's record of kraft.version, and the raft layer's level.

        3.9 reports its own record, which the raft layer may know nothing of; then the metadata log
        disputes it (facts of 3.9.2; KAFKA-18979).
        """
        level = finalized.get(KRAFT_VERSION, (0, 0))[1]
        disputed = any(
            (cluster, name) == (position, KRAFT_VERSION)
            for cluster, name, _ in self._evidence.levels.disputed
        )
        return (level, 0) if disputed else (0, level)
