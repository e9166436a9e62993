"""A cluster kept in one file: it holds no rule, it asks the core.

Every operation is one transaction that reads the newest state, asks, and appends the next one; a
crash at any moment leaves the state before or the state after. Nodes protect themselves as real
ones do: what an operation finalizes may end some. A node that lags behind answers with what was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from featurelib.audit.findings import CONTROLLERS_UNREGISTER_FROM
from featurelib.backends.base import Abilities, Backend, Say
from featurelib.backends.embedded_answers import ALL_RANGES, Answer, EmbeddedView, znodes
from featurelib.backends.embedded_state import (
    NOBODY,
    Elected,
    Outcome,
    State,
    arrive,
    ask_again,
    crown,
    end,
    look_again,
    overwritten,
    react,
    run_with,
    start_of,
    written,
)
from featurelib.catalogue import Catalogue
from featurelib.config.fleet import Cluster as InventoryCluster
from featurelib.core.cluster import Cluster, Node, Request
from featurelib.core.compatibility import Entry, Joined, Stopped
from featurelib.core.dry_run import answer, request_of
from featurelib.core.outcome import NotPassed, Passed, Recipient
from featurelib.core.reply import Reply
from featurelib.errors import ConfigError, InputError, ProtocolError, RefusedError, UnreachableError
from featurelib.feature import METADATA_VERSION, Role
from featurelib.model import Step
from featurelib.planning.goal import level_of


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


# ----------------------------------------
# An embedded cluster as a backend: looked at and updated as a real one is.
#
# It says what nodes of the cluster's release say over the wire, and not what the file knows beyond
# that: fenced brokers of before 4.0 stay hidden, a node that does not run gives no answer.

_KRAFT_CANNOT = ("It cannot refuse a request that another writer has overtaken.",)
_ZOOKEEPER_CANNOT = (
    "It cannot validate without writing: in ZooKeeper mode such a request is applied.",
    *_KRAFT_CANNOT,
)


def open_embedded(entry: InventoryCluster, catalogue: Catalogue) -> Backend:
    """The backend of the embedded cluster in `entry.file`. Raises ConfigError where none is."""
    if not Path(entry.file).is_file():
        raise ConfigError(
            f"{entry.file}: expected an embedded cluster, found no such file. "
            f"Make one: featurelib embedded make {entry.file}"
        )
    return EmbeddedBackend(EmbeddedCluster(entry.file, catalogue.tables))


class EmbeddedBackend:
    """One embedded cluster. Closing it closes the cluster's file."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster

    @property
    def where(self) -> str:
        """The file."""
        return self._cluster.path

    def describe(self, say: Say) -> tuple[bytes, ...]:
        """One look at every node, as landing lines. Raises UnreachableError where none runs."""
        nodes = sorted(self._cluster.cluster.nodes, key=lambda n: (n.node_id, -n.role))
        if self._cluster.mode == "zk":  # nobody knows of a broker that is not registered
            nodes = [node for node in nodes if node.registered]
        running = [node for node in nodes if node.running]
        if not running:
            raise UnreachableError(
                f"{self.where}: expected nodes that answer, found none of {len(nodes)} running. "
                "Nothing was asked or sent."
            )
        say(f"asking {len(nodes)} listeners of {self.where}")
        lines = [self._line("api_versions", **self._answer(node)) for node in nodes]
        lines += [self._line(kind, **answer) for kind, answer in self._lists(running)]
        lines += [self._line(kind, **answer) for kind, answer in self._configurations(running)]
        return tuple(lines)

    def abilities(self) -> Abilities:
        """By the cluster's mode: in ZooKeeper mode a request to validate is written."""
        zookeeper = self._cluster.mode == "zk"
        return Abilities(
            mode=self._cluster.mode,
            validate_only=not zookeeper,
            cannot=_ZOOKEEPER_CANNOT if zookeeper else _KRAFT_CANNOT,
        )

    def recipient(self) -> Recipient:
        """The active controller. Raises UnreachableError where nobody leads."""
        active = self._cluster.cluster.active
        if active == NOBODY:
            raise self._nobody_leads()
        return Recipient(role="controller", node=active, address=self.where, leader=active)

    def passed(self, sent: Recipient | None, features: Collection[str]) -> Passed | NotPassed:
        """Always: a request is carried out while the caller waits, or never."""
        return Passed(how="the file holds every request that was carried out")

    def update(self, step: Step, *, validate_only: bool = False) -> Reply:
        """The active controller's answer. Raises UnreachableError where nobody leads, and
        RefusedError for `validate_only` in ZooKeeper mode."""
        if validate_only and not self.abilities().validate_only:
            raise RefusedError(
                f"{self.where}: expected a controller that validates without writing, found one "
                "in ZooKeeper mode, which would apply the request. Nothing was sent."
            )
        if self._cluster.cluster.active == NOBODY:
            raise self._nobody_leads()
        asked = request_of(step, self._cluster.dialect, validate_only=validate_only)
        return self._cluster.update_features(asked).answered.reply

    def close(self) -> None:
        """Close the file."""
        self._cluster.close()

    def _nobody_leads(self) -> UnreachableError:
        return UnreachableError(
            f"{self.where}: expected an active controller, found none. Nothing was sent. "
            "Try again once one is elected."
        )

    def _answer(self, node: Node) -> Answer:
        """What a listener answers to ApiVersions, or that it does not."""
        port = 9093 if node.role is Role.CONTROLLER else 9092
        asked: Answer = {
            "node_id": node.node_id,
            "role": node.role.text,
            "endpoint": f"node-{node.node_id}.embedded:{port}",
            "asked_version": ALL_RANGES,
        }
        try:
            return asked | self._cluster.describe(node.node_id, ALL_RANGES, role=node.role)
        except UnreachableError:
            return asked | {"error": "ConnectionRefusedError: the process does not run"}

    def _lists(self, running: list[Node]) -> Iterator[tuple[str, Answer]]:
        """Who belongs to the cluster: what one running node of each role says, or the znodes."""
        cluster = self._cluster
        if cluster.mode == "zk":
            yield from (("znode", node) for node in znodes(cluster))
            return
        for role in (Role.CONTROLLER, Role.BROKER):
            asked = next((node.node_id for node in running if node.role is role), None)
            if asked is None:
                continue
            where: Answer = {"asked_node": asked, "listener": role.text}
            yield "describe_cluster", where | self._members(asked, role)
            yield "describe_quorum", where | cluster.describe_quorum(asked, role=role)

    def _configurations(self, running: list[Node]) -> Iterator[tuple[str, Answer]]:
        """What each running node is configured with; brokers of ZooKeeper mode are not asked."""
        for node in running if self._cluster.mode != "zk" else ():
            said = self._cluster.describe_configs(node.node_id, role=node.role)
            who: Answer = {"asked_node": node.node_id, "role": node.role.text}
            yield "describe_configs", who | said

    def _members(self, asked: int, role: Role) -> Answer:
        try:
            return self._cluster.describe_cluster(asked, include_fenced=True, role=role)
        except ProtocolError:  # before 4.0
            return self._cluster.describe_cluster(asked, role=role)

    def _line(self, kind: str, **content: object) -> bytes:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        head = {"kind": kind, "cluster_id": self._cluster.cluster_id, "observed_at": now}
        return msgspec.json.encode(head | content)
