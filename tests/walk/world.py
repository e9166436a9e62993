"""The cluster of a walk: real nodes that are rolled, stopped, frozen, added and taken away.

What is kept here is only what a person at the machines would know: which processes run, of which
release, with which configuration. What is true of the cluster is asked of its controllers.
"""

from __future__ import annotations

import base64
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

from tests.backends.rig.cluster import RunningCluster, RunningNode
from tests.backends.rig.java import Java
from tests.backends.rig.kraft import Node, Shape, prepare_node, start_kraft
from tests.backends.rig.layout import free_address, write_properties
from tests.backends.rig.process import NotReadyError
from tests.walk.wire import Line, Quorum

PATIENCE_SECONDS = 15.0  # for a node that neither serves nor ends
MEMORY = ("-Xmx160m",)
QUICK = {
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "initial.broker.registration.timeout.ms": "6000",
    "controlled.shutdown.enable": "false",
}
VOTERS, SERVERS = "controller.quorum.voters", "controller.quorum.bootstrap.servers"
RUNNING, STOPPED, FROZEN, LIMPING = "running", "stopped", "frozen", "limping"


@dataclass(slots=True, kw_only=True)
class Member:
    """One node of the walk. `state` limping: its process runs and it does not serve."""

    node: Node
    state: str = RUNNING

    @property
    def id(self) -> int:
        return self.node.id

    @property
    def is_broker(self) -> bool:
        return "broker" in self.node.roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.node.roles

    def __str__(self) -> str:
        odd = " unstable" if self.node.unstable else ""
        return f"{self.id} ({self.node.roles} {self.node.release}{odd}, {self.state})"


@dataclass(slots=True, kw_only=True)
class World:
    """A running cluster under our hands; `registered`: brokers that did, as far as we saw."""

    home: Path
    cluster: RunningCluster
    members: dict[int, Member]
    dynamic: bool
    registered: set[int] = field(default_factory=set)
    gone_controllers: set[int] = field(default_factory=set)

    @classmethod
    def start(
        cls,
        home: Path,
        nodes: list[Node],
        *,
        release_version: str,
        features: Mapping[str, int],
        dynamic: bool,
    ) -> World:
        small = [_small(node) for node in nodes]
        cluster = start_kraft(
            home, small, release_version=release_version, features=features, dynamic=dynamic
        )
        members = {node.id: Member(node=_fixed(home, node)) for node in small}
        brokers = {one.id for one in members.values() if one.is_broker}
        return cls(home=home, cluster=cluster, members=members, dynamic=dynamic, registered=brokers)

    # Who is there

    @property
    def serving(self) -> list[Member]:
        return [one for one in self.members.values() if one.state == RUNNING]

    def brokers(self, *states: str) -> list[Member]:
        return [one for one in self._of(states) if one.is_broker]

    def controllers(self, *states: str) -> list[Member]:
        return [one for one in self._of(states) if one.is_controller]

    def _of(self, states: tuple[str, ...]) -> list[Member]:
        return [one for one in self.members.values() if not states or one.state in states]

    def node(self, node_id: int) -> RunningNode:
        return self.cluster.nodes[node_id]

    @property
    def addresses(self) -> tuple[list[str], list[str]]:
        """Listeners of brokers and of controllers, of all nodes that are known."""
        nodes = self.cluster.nodes.values()
        return [n.broker for n in nodes if n.broker], [n.controller for n in nodes if n.controller]

    # What is true

    def quorum(self) -> Quorum:
        """The newest epoch that a controller which runs knows of."""
        found = [Quorum(epoch=-1, leader=-1, voters=(), observers=())]
        for one in self.controllers(RUNNING):
            with suppress(OSError), Line(self.node(one.id).controller, 2) as line:
                found.append(line.quorum())
        return max(found, key=lambda one: (one.epoch, one.leader))

    @contextmanager
    def leader(self) -> Iterator[Line]:
        """The active controller's own listener. Raises OSError where none leads."""
        leader = self.quorum().leader
        member = self.members.get(leader)
        if member is None or member.state != RUNNING:
            raise OSError(f"nobody leads who could be asked ({leader})")
        with Line(self.node(leader).controller) as line:
            yield line

    # What is done to it

    def stop(self, member: Member, *, kill: bool) -> None:
        self.node(member.id).process.stop(kill=kill or member.state == FROZEN)
        member.state = STOPPED

    def launch(self, member: Member, **change: object) -> str:
        """Starts a stopped node, with another release or configuration; gives what became of it."""
        member.node = replace(member.node, **change)  # type: ignore[arg-type]  # fields of Node
        node = member.node
        self.cluster.nodes[node.id] = replace(
            self.node(node.id),
            broker=(self.node(node.id).broker or free_address()) if member.is_broker else "",
        )
        running = prepare_node(self.home, node, self._shape(), Java.of(node.release))
        self.cluster.nodes[node.id] = running
        running.launch()
        return self.wait(member)

    def wait(self, member: Member, seconds: float = PATIENCE_SECONDS) -> str:
        """Until it serves, ends, or patience does."""
        process = self.node(member.id).process
        process.timeout_seconds = 10_000
        over = time.monotonic() + seconds
        while time.monotonic() < over:
            if process.is_ready:
                member.state = RUNNING
                if member.is_broker:
                    self.registered.add(member.id)
                return "serves"
            if not process.running:
                with suppress(NotReadyError):
                    process.wait()
                member.state = STOPPED
                return f"ended: {_last_words(process.text())}"
            time.sleep(0.05)
        member.state = LIMPING
        return "runs and does not serve"

    def freeze(self, member: Member) -> None:
        os.killpg(self._pid(member), signal.SIGSTOP)
        member.state = FROZEN

    def thaw(self, member: Member) -> None:
        os.killpg(self._pid(member), signal.SIGCONT)
        member.state = RUNNING

    def _pid(self, member: Member) -> int:
        pid = self.node(member.id).process.pid
        if pid is None:
            raise NotReadyError(f"{member} does not run")
        return pid

    def notice(self) -> None:
        """Processes that ended by themselves, and nodes that serve at last."""
        for member in self.members.values():
            process = self.node(member.id).process
            if member.state in (RUNNING, FROZEN, LIMPING) and not process.running:
                member.state = STOPPED
            elif member.state == LIMPING and process.is_ready:
                self.wait(member, 1)

    def join(self, node: Node) -> Member:
        """A new node with empty folders, of this cluster by its meta.properties."""
        node = _small(node)
        address = free_address() if "broker" in node.roles else ""
        controller = free_address() if "controller" in node.roles else ""
        folder = self.home / f"node-{node.id}" / "data"
        for path in folder.glob("*") if folder.exists() else ():
            path.rename(path.with_name(f".old-{uuid4().hex}-{path.name}"))
        meta = {"version": "1", "cluster.id": self.cluster.cluster_id, "node.id": str(node.id)}
        meta["directory.id"] = base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        write_properties(folder / "meta.properties", meta)
        member = Member(node=node, state=STOPPED)
        self.members[node.id] = member
        shape = self._shape()
        shape = replace(
            shape,
            brokers={**shape.brokers, **({node.id: address} if address else {})},
            controllers={**shape.controllers, **({node.id: controller} if controller else {})},
        )
        self.cluster.nodes[node.id] = prepare_node(self.home, node, shape, Java.of(node.release))
        return member

    def wipe(self, member: Member) -> None:
        """The disk of a stopped node is replaced: it keeps its id and its addresses."""
        node = self.node(member.id)
        self.join(member.node)
        self.members[member.id] = member
        self.cluster.nodes[member.id] = node

    def forget(self, member: Member) -> None:
        """A stopped node is gone for good; its registration stays where it is."""
        self.members.pop(member.id)
        self.cluster.nodes.pop(member.id)

    def directory_id(self, node_id: int) -> str:
        """The id of a controller's metadata directory (KIP-853)."""
        text = (self.home / f"node-{node_id}" / "data" / "meta.properties").read_text()
        pairs = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        return pairs.get("directory.id", "AAAAAAAAAAAAAAAAAAAAAA")

    def stop_all(self) -> None:
        for member in self.members.values():
            if member.state == FROZEN:
                with suppress(OSError, NotReadyError):
                    self.thaw(member)
        self.cluster.stop()

    def _shape(self) -> Shape:
        nodes = self.cluster.nodes.values()
        return Shape(
            cluster_id=self.cluster.cluster_id,
            brokers={n.id: n.broker for n in nodes if n.broker},
            controllers={n.id: n.controller for n in nodes if n.controller},
            dynamic=self.dynamic,
            security=None,
        )


def _small(node: Node) -> Node:
    properties = {**QUICK, **node.properties}
    return replace(node, properties=properties, java_options=MEMORY)


def _fixed(home: Path, node: Node) -> Node:
    """The node with the quorum's configuration that it was started with, whoever comes or goes."""
    text = (home / f"node-{node.id}" / "server.properties").read_text()
    pairs = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    quorum = {key: pairs[key] for key in (VOTERS, SERVERS) if key in pairs}
    return replace(node, properties={**node.properties, **quorum})


def _last_words(text: str) -> str:
    words = [line for line in text.splitlines() if "xception" in line or "ERROR" in line]
    return words[-1].strip()[:300] if words else "without a word"
