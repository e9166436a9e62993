"""A cluster kept in one file: it holds no rule, it asks the core.

Every operation is one transaction that reads the newest state, asks, and appends the next one; a
crash at any moment leaves the state before or the state after. Nodes protect themselves as real
ones do: what an operation finalizes may end some. A node that lags behind answers with what was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from featurelib.backends.embedded_nodes import arrive, ask_again, react
from featurelib.backends.embedded_state import NOBODY, State, end
from featurelib.backends.embedded_state import Elected as Elected
from featurelib.backends.embedded_state import Outcome as Outcome
from featurelib.backends.embedded_view import EmbeddedView
from featurelib.backends.embedded_znode import (
    crown,
    look_again,
    overwritten,
    run_with,
    start_of,
    written,
)
from featurelib.backends.state_file import IN_MEMORY as IN_MEMORY
from featurelib.core.ask import answer
from featurelib.core.cluster import Cluster, Node, Request
from featurelib.core.compatibility import Entry, Joined, Stopped
from featurelib.core.moves import level_of
from featurelib.core.remedies import CONTROLLERS_UNREGISTER_FROM
from featurelib.errors import InputError
from featurelib.feature import METADATA_VERSION, Role


class EmbeddedCluster(EmbeddedView):
    """One cluster in one file. A file that is empty or not there becomes one of `mode`."""

    def put(self, cluster: Cluster, epoch: int = 0) -> None:
        """Make `cluster` the state, whatever was there: a start, or a restored capture."""
        state = start_of(cluster, epoch, self._generation(cluster.release))
        ids = [node.node_id for node in cluster.nodes]
        with self._file.transaction():
            self._file.let_go(self._file.held, held_for_good=True)
            if cluster.blind:  # to the node that came after the one they knew
                self._append("delete", overwritten(state, None, ()))
                self._file.hold(ids, self._newest()[0], for_good=True)
            self._append("put", state)

    def register(self, node: Node, *, protocol_version: str = "") -> Joined:
        """A node starts for the first time, or in the place of the one of its id and role: whether
        it may join. `protocol_version`: of ZooKeeper mode's brokers; empty: their release's own."""
        return self._arrive(f"register {node.node_id}", lambda _: [node], protocol_version)[-1]

    def start(self, node_id: int, *, protocol_version: str | None = None) -> tuple[Joined, ...]:
        """A process that ended starts again and is judged, its controller first; None = with the
        protocol version it had. Raises InputError."""

        def halves(state: State) -> list[Node]:
            ended = [node for node in state.cluster.nodes if not node.running]
            self._find(ended, "nodes that do not run", node_id)
            mine = sorted((n for n in ended if n.node_id == node_id), key=lambda n: -n.role)
            return [replace(n, fenced=False, supported=state.supported(n)) for n in mine]

        return self._arrive(f"start {node_id}", halves, protocol_version)

    def stop(self, node_id: int) -> None:
        """A process ends. KRaft: it stays registered, a broker fenced. Raises InputError."""

        def ended(state: State) -> Cluster:
            self._find(state.cluster.nodes, "nodes", node_id)
            return end(state.cluster, {node_id}, self._generation(state.cluster.release))

        self._change(f"stop {node_id}", ended)

    def fence(self, node_id: int, *, fenced: bool = True) -> None:
        """The session of a broker that runs ends, or comes back. Raises InputError."""

        def changed(state: State) -> Cluster:
            brokers = [n for n in state.cluster.nodes if n.role is Role.BROKER and n.running]
            found = self._find(brokers, "running brokers", node_id)
            kraft = self.mode == "kraft"
            now = replace(found, fenced=fenced) if kraft else replace(found, registered=not fenced)
            nodes = tuple(now if node is found else node for node in state.cluster.nodes)
            leads = kraft or not fenced or state.cluster.active != node_id
            active = state.cluster.active if leads else NOBODY
            return replace(state.cluster, nodes=nodes, active=active)

        self._change(f"fence {node_id}", changed)

    def unregister(self, node_id: int, role: Role = Role.BROKER) -> None:
        """A node half is taken out of the cluster (UnregisterBroker; KIP-1312,
        UnregisterController, which no voter is). Raises InputError."""

        def without(state: State) -> Cluster:
            able = [n for n in state.cluster.nodes if n.role is role]
            if role is Role.CONTROLLER:
                able = [n for n in able if not n.voter]
                self._expect_unregistering(state.cluster)
            what = "brokers" if role is Role.BROKER else "controllers that do not vote"
            gone = self._find(able, what, node_id)
            nodes = tuple(node for node in state.cluster.nodes if node is not gone)
            leads = self.mode == "kraft" or state.cluster.active != node_id
            return replace(
                state.cluster, nodes=nodes, active=state.cluster.active if leads else NOBODY
            )

        self._change(f"unregister {node_id}", without)

    def _expect_unregistering(self, cluster: Cluster) -> None:
        """Raises InputError below the metadata.version from which controllers are unregistered."""
        level = level_of(cluster, METADATA_VERSION)
        if level < CONTROLLERS_UNREGISTER_FROM:
            raise InputError(
                f"expected metadata.version {CONTROLLERS_UNREGISTER_FROM} or above, found {level}: "
                "below it no controller can be unregistered (KIP-1312)."
            )

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

    def update_features(self, request: Request, *, lagging: bool = False) -> Outcome:
        """Put a request to the active controller. With `lagging` no node has applied it yet, so
        nobody stops before `settle`."""
        with self._file.transaction():
            position, before = self._newest()
            cluster, dialect = before.cluster, self._generation(before.cluster.release)
            asked = replace(request, to_active=False) if cluster.active == NOBODY else request
            answered = answer(cluster, asked, dialect, self._tables)
            after = replace(before, cluster=answered.after)
            if answered.writes:
                epoch = before.epoch + 1
                after = replace(after, epoch=epoch, features_at=epoch)
                after = written(after, dialect) if self.mode == "zk" else after
            stopped: tuple[Stopped, ...] = ()
            if after == before:
                return Outcome(answered=answered)
            if lagging:
                self._file.hold([node.node_id for node in cluster.nodes], position)
            else:
                after, stopped = self._meet(position, before, after)
            self._append("update_features", after)
        return Outcome(answered=answered, stopped=stopped)

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
        self, what: str, halves: Callable[[State], Sequence[Node]], protocol_version: str | None
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
                if found.entry is Entry.STOPS:
                    break
                self._file.let_go([node.node_id], held_for_good=True)
            accepted = any(found.entry is Entry.ACCEPTED for found in joined)
            self._append(what, state, moves=accepted)
        return tuple(joined)

    def _change(self, what: str, change: Callable[[State], Cluster]) -> None:
        with self._file.transaction():
            _, state = self._newest()
            self._append(what, replace(state, cluster=change(state)), moves=True)

    def _meet(
        self, position: int, before: State, after: State
    ) -> tuple[State, tuple[Stopped, ...]]:
        """All nodes that can see it meet `after`: the state once they did, and who stopped."""
        held, dialect = self._file.held, self._generation(after.cluster.release)
        behind = [h.position for h in held.values() if not h.for_good]
        began = self._at(min(behind)) if behind else before
        found = react(began, after, dialect, self._tables, self._deaf())
        ids = {node.node_id for node in after.cluster.nodes}
        self._file.let_go(ids - found.keep)
        self._file.hold(found.keep, position)
        self._file.hold(found.blind, position, for_good=True)
        cluster = end(after.cluster, {item.node.node_id for item in found.stopped}, dialect)
        if self.mode == "kraft":
            cluster = ask_again(began.cluster, cluster, dialect, self._tables)
        return replace(after, cluster=cluster), found.stopped

    def _deaf(self) -> set[int]:
        return {node_id for node_id, held in self._file.held.items() if held.for_good}

    def _append(self, what: str, state: State, *, moves: bool = False) -> None:
        """The next state. What `moves` is a record of the log in KRaft, and nothing elsewhere."""
        if moves and self.mode == "kraft":
            state = replace(state, epoch=state.epoch + 1)
        self._file.append(what, msgspec.json.encode(state))
