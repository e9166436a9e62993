"""What may happen to an embedded cluster beside updates: nodes come, go and lag, leaders change.

Nodes protect themselves as real ones do: what an operation finalizes may end some. A node that lags
behind answers with what was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from featurelib.backends.embedded import EmbeddedCluster, Updated
from featurelib.backends.embedded_answers import api_versions
from featurelib.backends.embedded_state import (
    NOBODY,
    EmbeddedState,
    Started,
    end,
    over_text,
    reading_of,
    watch,
)
from featurelib.catalogue.tables import Tables
from featurelib.core.cluster import Cluster, Node, Request
from featurelib.core.compatibility import (
    Admission,
    Effect,
    Joined,
    Moment,
    Newcomer,
    Stopped,
    Unfit,
    join,
    stopped,
)
from featurelib.core.dialect import Dialect, is_before
from featurelib.core.election import ENABLED, ElectionResult, ZnodeChange, ZnodeReason, elect
from featurelib.core.features_znode import behaviour_row
from featurelib.errors import InputError
from featurelib.feature import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Elected:
    """What an election did to the features node (None in KRaft), and the nodes that stopped."""

    election: ElectionResult | None = None
    stopped: tuple[Stopped, ...] = ()


class Simulated(EmbeddedCluster):
    """An embedded cluster to which more may happen than the product does to one."""

    @property
    def features_node(self) -> str | None:
        """ZooKeeper mode: the text of the features node; None if it does not exist."""
        return self.state.text

    def describe(self, node_id: int, role: Role | None = None) -> dict[str, Any]:
        """What a node answers to ApiVersions; perhaps what was true before."""
        answered: dict[str, Any] = msgspec.to_builtins(api_versions(*self.seen(node_id, role)))
        return answered

    def register(self, node: Node, *, protocol_version: str = "") -> Joined:
        """A node starts for the first time, or in the place of the one of its id and role: whether
        it may join. `protocol_version`: of ZooKeeper mode's brokers; empty: their release's own."""
        return self._arrive(f"register {node.node_id}", lambda _: [node], protocol_version)[-1]

    def start(self, node_id: int, *, protocol_version: str | None = None) -> tuple[Joined, ...]:
        """A process that ended starts again and is judged, its controller first; None = with the
        protocol version it had. Raises InputError."""

        def halves(state: EmbeddedState) -> list[Node]:
            ended = [node for node in state.cluster.nodes if not node.running]
            self._find(ended, "nodes that do not run", node_id)
            mine = sorted((n for n in ended if n.node_id == node_id), key=lambda n: -n.role)
            return [replace(n, fenced=False, supported=state.supported(n)) for n in mine]

        return self._arrive(f"start {node_id}", halves, protocol_version)

    def stop(self, node_id: int) -> None:
        """A process ends. KRaft: it stays registered, a broker fenced. Raises InputError."""

        def ended(state: EmbeddedState) -> Cluster:
            self._find(state.cluster.nodes, "nodes", node_id)
            return end(state.cluster, {node_id}, self._generation(state.cluster.release))

        self._change(f"stop {node_id}", ended)

    def fence(self, node_id: int, *, fenced: bool = True) -> None:
        """The session of a broker that runs ends, or comes back. Raises InputError."""

        def changed(state: EmbeddedState) -> Cluster:
            brokers = [n for n in state.cluster.nodes if n.role is Role.BROKER and n.running]
            found = self._find(brokers, "running brokers", node_id)
            kraft = self.mode == "kraft"
            now = replace(found, fenced=fenced) if kraft else replace(found, registered=not fenced)
            nodes = tuple(now if node is found else node for node in state.cluster.nodes)
            leads = kraft or not fenced or state.cluster.active != node_id
            active = state.cluster.active if leads else NOBODY
            return replace(state.cluster, nodes=nodes, active=active)

        self._change(f"fence {node_id}", changed)

    def elect(self, node_id: int, *, protocol_version: str | None = None) -> Elected:
        """Another node becomes the active controller: a running voter, or in ZooKeeper mode a live
        broker, which then looks at the features node. Raises InputError."""
        with self._file.transaction():
            position, before = self._newest()
            nodes = before.cluster.nodes
            if self.mode == "kraft":
                able = [n for n in nodes if n.voter and n.running]
                leader = self._find(able, "running voters", node_id)
                release = leader.release or before.cluster.release
                led = replace(before.cluster, active=node_id, release=release)
                term = before.term + 1
                self._append(
                    f"elect {node_id}", replace(before, cluster=led, term=term), moves=True
                )
                return Elected()
            able = [n for n in nodes if n.running and n.registered]
            leader = self._find(able, "live brokers", node_id)
            dialect = self._generation(leader.release or before.cluster.release)
            if protocol_version is not None:
                before = run_with(before, leader, protocol_version, dialect)
            version = before.protocol_version(node_id)
            deaf = self._deaf()
            after, election = crown(before, leader, version, dialect, deaf=node_id in deaf)
            after, stopped = self._meet(position, before, after)
            if after.cluster.active == node_id:
                after = look_again(after, dialect, self._tables)
            self._append(f"elect {node_id}", after)
        return Elected(election=election, stopped=stopped)

    def update_features(self, request: Request, *, lagging: bool = False) -> Updated:
        """Put a request to the active controller. With `lagging` no node has applied it yet, so
        nobody stops before `settle`."""
        if not lagging:
            return super().update_features(request)
        with self._file.transaction():
            position, before = self._newest()
            answered, after = self._answered(before, request)
            if after != before:
                ids = [node.node_id for node in before.cluster.nodes]
                self._file.hold(ids, position)
                self._append("update_features", after)
        return Updated(answered=answered)

    def write_features_node(self, text: str | None) -> tuple[Stopped, ...]:
        """ZooKeeper mode: somebody else writes `text` into the features node, or deletes it (None):
        who stops over it. Brokers that saw it deleted see no later one. Raises InputError."""
        if self.mode != "zk":
            raise InputError(
                f"{self._file.path}: expected a cluster in ZooKeeper mode, found KRaft mode, which "
                "has no features node. Send an update."
            )
        with self._file.transaction():
            position, before = self._newest()
            after = overwritten(before, text, self._deaf())
            after, stopped = self._meet(position, before, after)
            self._append("write_features_node", after)
            if text is None:
                ids = [node.node_id for node in after.cluster.nodes if node.running]
                self._file.hold(ids, self._newest()[0], for_good=True)
        return stopped

    def settle(self) -> tuple[Stopped, ...]:
        """Every node applies everything, and may stop over it. What was between the state it had
        and the newest it skips, as one that loads a snapshot does."""
        with self._file.transaction():
            position, before = self._newest()
            after, stopped = self._meet(position, before, before)
            if after != before:
                self._append("settle", after)
        return stopped

    def _arrive(
        self,
        what: str,
        halves: Callable[[EmbeddedState], Sequence[Node]],
        protocol_version: str | None,
    ) -> tuple[Joined, ...]:
        """The halves of a process start, one after the other, until one ends it."""
        joined: list[Joined] = []
        with self._file.transaction():
            _, state = self._newest()
            dialect = self._generation(state.cluster.release)
            for node in halves(state):
                had = state.protocol_version(node.node_id)
                version = had if protocol_version is None else protocol_version
                state, found = arrive(state, node, version, dialect, self._tables)
                joined.append(found)
                if found.entry is Admission.STOPS:
                    break
                self._file.let_go([node.node_id], held_for_good=True)
            accepted = any(found.entry is Admission.ACCEPTED for found in joined)
            self._append(what, state, moves=accepted)
        return tuple(joined)


def arrive(
    state: EmbeddedState, node: Node, protocol_version: str, dialect: Dialect, tables: Tables
) -> tuple[EmbeddedState, Joined]:
    """A process starts and wants to register: what becomes of it, and of its registration."""
    started = {key: how for key, how in state.started.items() if key != node.node_id}
    if protocol_version:
        how = Started(protocol_version=protocol_version, supported=node.supported)
        started[node.node_id] = how
    cluster = state.cluster
    if node.node_id == cluster.active and any(_key(n) == _key(node) for n in cluster.nodes):
        cluster = replace(cluster, active=NOBODY)  # another process takes the place of the leader
    joined = join(cluster, Newcomer(node=node, protocol_version=protocol_version), dialect, tables)
    entry = joined.entry
    late = entry is Admission.REFUSED and node.role is Role.CONTROLLER  # it runs, and asks again
    silent = is_before(protocol_version, dialect.election.system_from)
    fresh = replace(
        node,
        running=True,
        registered=not late,
        ignored=entry is Admission.IGNORED,
        supported={} if silent else node.supported,
    )
    with_it = replace(state, cluster=_with(cluster, fresh), started=started)
    if ends := _ends_at_start(with_it, fresh, dialect, tables):
        joined = Joined(entry=Admission.STOPS, message=joined.message or ends[0].text, unfit=ends)
    if joined.entry is Admission.STOPS:
        return replace(state, cluster=end(cluster, {node.node_id}, dialect)), joined
    if entry is Admission.REFUSED and not late:
        others = [n for n in cluster.nodes if _key(n) != _key(node)]
        old = [replace(n, running=False, fenced=True) for n in cluster.nodes if n not in others]
        return replace(state, cluster=replace(cluster, nodes=(*others, *old))), joined
    return with_it, joined


def _ends_at_start(
    state: EmbeddedState, node: Node, dialect: Dialect, tables: Tables
) -> tuple[Unfit, ...]:
    """Why a process that starts ends by itself; empty: it does not."""
    if dialect.mode == "kraft":
        found = stopped(state.cluster, dialect, tables, moment=Moment.NEXT_START)
        return next((i.unfit for i in found if i.node == node and i.effect is Effect.EXITS), ())
    read = reading_of(state, node)
    if read is None or not state.follows(node, dialect):
        return ()
    if "stop" in behaviour_row(read[0].reading, read[1])["at_start"]:
        return over_text(node, read[0]).unfit
    return next((item.unfit for item in watch(state, [node], dialect, tables).stopped), ())


def _key(node: Node) -> tuple[int, Role]:
    return node.node_id, node.role


def _with(cluster: Cluster, node: Node) -> Cluster:
    others = [other for other in cluster.nodes if _key(other) != _key(node)]
    return replace(cluster, nodes=(*others, node))


def crown(
    state: EmbeddedState, leader: Node, protocol_version: str, dialect: Dialect, *, deaf: bool
) -> tuple[EmbeddedState, ElectionResult]:
    """ZooKeeper mode: what the election of `leader`, of `dialect`'s generation, makes of the node.

    A `deaf` one writes, and does not see what it wrote.
    """
    cluster, supported = state.cluster, state.supported(leader)
    found = elect(state.text, protocol_version, supported, dialect)
    if found.change is ZnodeChange.NOBODY:
        ends = {leader.node_id} if ZnodeReason.INCOMPATIBLE in found.reasons else ()
        return replace(state, cluster=replace(end(cluster, ends, dialect), active=NOBODY)), found
    assert found.content is not None
    assert found.text is not None
    version = found.version(None if cluster.node_missing else state.epoch)
    after = replace(
        cluster,
        active=leader.node_id,
        release=leader.release or cluster.release,
        finalized={name: (low, level) for name, low, level in found.content.levels},
        cached={} if deaf else None,
        off=found.content.status != ENABLED,
        node_missing=False,
        blind=deaf,
    )
    node = found.text.encode("utf-8", "surrogateescape")
    return replace(state, cluster=after, epoch=version or 0, node=node), found


def run_with(
    state: EmbeddedState, node: Node, protocol_version: str, dialect: Dialect
) -> EmbeddedState:
    """A broker as if it had been started with another protocol version."""
    how = Started(protocol_version=protocol_version, supported=state.supported(node))
    silent = is_before(protocol_version, dialect.election.system_from)
    now = replace(node, supported={} if silent else how.supported)
    nodes = tuple(now if n == node else n for n in state.cluster.nodes)
    return replace(
        state,
        cluster=replace(state.cluster, nodes=nodes),
        started={**state.started, node.node_id: how},
    )


def look_again(state: EmbeddedState, dialect: Dialect, tables: Tables) -> EmbeddedState:
    """ZooKeeper mode: a new controller leaves out the registrations that do not fit."""

    cluster = state.cluster

    def seen(node: Node) -> Node:
        if not node.registered:
            return node
        newcomer = Newcomer(node=node, unguarded=True)
        entry = join(cluster, newcomer, dialect, tables).entry
        return replace(node, ignored=entry is Admission.IGNORED)

    nodes = tuple(seen(node) for node in cluster.nodes)
    return replace(state, cluster=replace(cluster, nodes=nodes))


def overwritten(state: EmbeddedState, text: str | None, deaf: Collection[int]) -> EmbeddedState:
    """ZooKeeper mode: somebody else writes the features node, or deletes it (None)."""
    cluster = state.cluster
    if text is None:
        gone = replace(cluster, finalized={}, cached={}, node_missing=True, blind=False)
        return replace(state, cluster=gone, node=None)
    node = text.encode("utf-8", "surrogateescape")
    epoch = 0 if cluster.node_missing else state.epoch + 1
    after = replace(state, node=node, epoch=epoch)
    read = reading_of(after, Node(node_id=NOBODY, role=Role.BROKER))  # as the controller does
    assert read is not None
    effects = behaviour_row(read[0].reading, read[1])["running"]
    had = cluster.finalized if cluster.cached is None else cluster.cached
    blind = cluster.active in deaf
    cached = had if "keep_old" in effects else {} if blind or "clear" in effects else None
    levels = {name: (low, level) for name, low, level in read[0].levels}
    return replace(
        after,
        cluster=replace(cluster, finalized=levels, cached=cached, node_missing=False, blind=blind),
    )
