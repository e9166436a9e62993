"""What may happen to a sandbox cluster beside updates: nodes come, go and lag, leaders change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from featurelib.core.cluster import Cluster, Node, Request
from featurelib.core.compatibility import Admission, Joined, Newcomer, Stopped, join
from featurelib.extras.sandbox.backend import api_versions
from featurelib.extras.sandbox.cluster import (
    NOBODY,
    EmbeddedCluster,
    EmbeddedState,
    Updated,
    end,
)
from featurelib.feature import Role


class Simulated(EmbeddedCluster):
    """A sandbox cluster to which more may happen than the product does to one."""

    @property
    def epoch(self) -> int:
        """KRaft: the log's end. ZooKeeper mode: the version of the features node."""
        return self.state.epoch

    def describe(self, node_id: int, role: Role | None = None) -> dict[str, Any]:
        """What a node that runs answers to ApiVersions; perhaps what was true before."""
        nodes = [n for n in self.cluster.nodes if role is None or n.role is role]
        node = self._find(sorted(nodes, key=lambda n: n.role), "nodes", node_id)
        assert node.running
        state = self.seen_by(node_id)
        answered: dict[str, Any] = msgspec.to_builtins(
            api_versions(state, node, self.dialect(state))
        )
        return answered

    def register(self, node: Node) -> Joined:
        """A node of KRaft starts and asks to join, in the place of the one of its id and role; a
        controller that comes too early runs, and asks again."""
        with self._file.transaction():
            _, state = self._newest()
            cluster, dialect = state.cluster, self.dialect(state)
            joined = join(cluster, Newcomer(node=node), dialect, self._tables)
            is_in = joined.entry is Admission.ACCEPTED
            if is_in or node.role is Role.CONTROLLER:
                key = node.node_id, node.role
                others = [n for n in cluster.nodes if (n.node_id, n.role) != key]
                nodes = (*others, replace(node, running=True, registered=is_in))
                state = replace(state, cluster=replace(cluster, nodes=nodes))
                self._file.let_go([node.node_id], held_for_good=True)
            self._append(f"register {node.node_id}", state, moves=is_in)
        return joined

    def _change(self, what: str, change: Callable[[EmbeddedState], Cluster]) -> None:
        with self._file.transaction():
            state = self.state
            self._append(what, replace(state, cluster=change(state)), moves=True)

    def stop(self, node_id: int) -> None:
        """A process ends. KRaft: it stays registered, a broker fenced. Raises InputError."""

        def ended(state: EmbeddedState) -> Cluster:
            self._find(state.cluster.nodes, "nodes", node_id)
            return end(state.cluster, {node_id}, self.dialect(state))

        self._change(f"stop {node_id}", ended)

    def fence(self, node_id: int) -> None:
        """The session of a broker that runs ends. Raises InputError."""

        def changed(state: EmbeddedState) -> Cluster:
            brokers = [n for n in state.cluster.nodes if n.role is Role.BROKER and n.running]
            found = self._find(brokers, "running brokers", node_id)
            kraft = self.mode == "kraft"
            now = replace(found, fenced=True) if kraft else replace(found, registered=False)
            nodes = tuple(now if node is found else node for node in state.cluster.nodes)
            leads = kraft or state.cluster.active != node_id
            active = state.cluster.active if leads else NOBODY
            return replace(state.cluster, nodes=nodes, active=active)

        self._change(f"fence {node_id}", changed)

    def elect(self, node_id: int) -> None:
        """Another voter that runs becomes the active controller. Raises InputError."""
        with self._file.transaction():
            _, before = self._newest()
            able = [n for n in before.cluster.nodes if n.voter and n.running]
            leader = self._find(able, "running voters", node_id)
            release = leader.release or before.cluster.release
            led = replace(before.cluster, active=node_id, release=release)
            after = replace(before, cluster=led)
            self._append(f"elect {node_id}", after, moves=True)

    def update_features(self, request: Request, *, lagging: bool = False) -> Updated:
        """Put a request to the active controller. With `lagging` no node has applied it yet, so
        nobody stops before `settle`."""
        if not lagging:
            return super().update_features(request)
        with self._file.transaction():
            position, before = self._newest()
            answered, after = before.answer(request, self.dialect(before), self._tables)
            if after != before:
                ids = [node.node_id for node in before.cluster.nodes]
                self._file.hold(ids, position)
                self._append("update_features", after)
        return Updated(answered)

    def settle(self) -> tuple[Stopped, ...]:
        """Every node applies everything, and may stop over it."""
        with self._file.transaction():
            position, before = self._newest()
            after, stopped = self._meet(position, before, before)
            if after != before:
                self._append("settle", after)
        return stopped
