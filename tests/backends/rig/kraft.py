"""KRaft clusters of any shape: which nodes, of which releases, formatted at which levels.

Controllers are formatted by the real kafka-storage; a node that is only a broker needs no more than
meta.properties, which is written here and saves a Java. Nodes are started together.
"""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.backends.rig.cluster import RunningCluster, RunningNode, start_all
from tests.backends.rig.java import Java
from tests.backends.rig.layout import SMALL, free_address, write_properties
from tests.backends.rig.process import Process
from tests.backends.rig.security import Security

NEWEST = "4.2.1"
NEWEST_TOOLS = "4.3.1"
READY = "Kafka Server started"
# For a broker beside one controller: while that is away it looks for no other leader, which it does
# without a pause (KafkaRaftClient.pollFollowerAsObserver) and takes a processor.
ONE_LEADER = {"controller.quorum.fetch.timeout.ms": "60000"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node to be. `started=False`: known to the quorum, formatted, never run until start_node.

    `unstable`: it advertises the levels still in development too (3.8 and later).
    """

    id: int
    release: str = NEWEST
    roles: str = "broker,controller"
    unstable: bool = False
    started: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    java_options: tuple[str, ...] = ()
    jars: tuple[Path, ...] = ()  # beside Kafka's; the same for all nodes of a release


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the nodes of one cluster share."""

    cluster_id: str
    brokers: Mapping[int, str]
    controllers: Mapping[int, str]
    dynamic: bool
    security: Security | None


def start_kraft(
    home: Path,
    nodes: Sequence[Node] = (Node(id=1),),
    *,
    release_version: str = "",
    features: Mapping[str, int] | None = None,
    dynamic: bool = False,
    security: Security | None = None,
) -> RunningCluster:
    """Formats and starts a cluster; the caller stops it.

    `release_version`: of the format, such as "4.1" ("" = the tool's own default); `features`:
    levels given to the format by name; `dynamic`: a quorum of one that others may join
    (kraft.version 1), 3.9 and later.
    Raises UnavailableError without jars or Java, NotReadyError where a node does not start.
    """
    shape = Shape(
        cluster_id=_cluster_id(),
        brokers={node.id: free_address() for node in nodes if "broker" in node.roles},
        controllers={node.id: free_address() for node in nodes if "controller" in node.roles},
        dynamic=dynamic,
        security=security,
    )
    javas = {node.release: Java.of(node.release, *node.jars) for node in nodes}
    running = {node.id: prepare_node(home, node, shape, javas[node.release]) for node in nodes}
    levels = [f"--release-version={release_version}"] if release_version else []
    levels += [f"--feature={name}={level}" for name, level in (features or {}).items()]
    _format(home, nodes, shape, javas, levels)
    cluster = RunningCluster(
        bootstrap=",".join(shape.brokers.values()),
        controller_bootstrap=",".join(shape.controllers.values()),
        cluster_id=shape.cluster_id,
        nodes=running,
        java=_tools(javas),
        security=security,
    )
    try:
        start_all([running[node.id] for node in nodes if node.started])
    except BaseException:
        cluster.stop()
        raise
    return cluster


def _tools(javas: Mapping[str, Java]) -> Java:
    """The newest of these releases that has kafka-features; else the newest that has."""
    found = [one for one in javas.values() if one.has_tools]
    return max(found, key=lambda one: one.release) if found else Java.of(NEWEST_TOOLS)


def _cluster_id() -> str:
    while True:  # the tool would read a leading dash as an option
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def prepare_node(home: Path, node: Node, shape: Shape, java: Java) -> RunningNode:
    """Writes the node's properties, so that it can be launched; its data is left as it is."""
    folder = home / f"node-{node.id}"
    conf = write_properties(folder / "server.properties", _properties(folder, node, shape))
    process = Process(name=f"kafka-{node.id}", home=folder, ready=lambda text: READY in text)
    return RunningNode(
        id=node.id,
        release=node.release,
        broker=shape.brokers.get(node.id, ""),
        controller=shape.controllers.get(node.id, ""),
        process=process,
        launch=partial(java.serve, process, "kafka.Kafka", str(conf), options=node.java_options),
    )


def _properties(folder: Path, node: Node, shape: Shape) -> dict[str, str]:
    listeners = {"BROKER": shape.brokers, "CONTROLLER": shape.controllers}
    own = [f"{name}://{at[node.id]}" for name, at in listeners.items() if node.id in at]
    protocol = "SASL_SSL" if shape.security else "PLAINTEXT"
    properties = {
        "process.roles": node.roles,
        "node.id": str(node.id),
        "log.dirs": str(folder / "data"),
        "listeners": ",".join(own),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": f"BROKER:{protocol},CONTROLLER:{protocol}",
        **_quorum(shape),
        **SMALL,
    }
    if "broker" in node.roles:
        properties["inter.broker.listener.name"] = "BROKER"
    if node.unstable:
        properties["unstable.feature.versions.enable"] = "true"
    if shape.security:
        properties |= shape.security.properties("CONTROLLER")
    return properties | dict(node.properties)


def _quorum(shape: Shape) -> dict[str, str]:
    if shape.dynamic:
        return {"controller.quorum.bootstrap.servers": ",".join(shape.controllers.values())}
    voters = ",".join(f"{node_id}@{address}" for node_id, address in shape.controllers.items())
    return {"controller.quorum.voters": voters}


def _format(
    home: Path, nodes: Sequence[Node], shape: Shape, javas: Mapping[str, Java], levels: list[str]
) -> None:
    """Formats all nodes at once.

    In a dynamic quorum the first controller is alone at first, and the others come as observers.
    """
    running: list[tuple[Node, subprocess.Popen[str]]] = []
    first = min(shape.controllers)
    for node in nodes:
        folder = home / f"node-{node.id}"
        if node.id not in shape.controllers:
            meta = {"version": "1", "cluster.id": shape.cluster_id, "node.id": str(node.id)}
            write_properties(folder / "data" / "meta.properties", meta)
            continue
        words = ["format", "-t", shape.cluster_id, "-c", str(folder / "server.properties"), *levels]
        if shape.dynamic:
            words.append("--standalone" if node.id == first else "--no-initial-controllers")
        words += shape.security.format_words if shape.security else ()
        command = javas[node.release].command("kafka.tools.StorageTool", *words)
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            text=True,
        )  # fmt: skip
        running.append((node, child))
    for node, child in running:
        said, _ = child.communicate(timeout=60)
        if child.returncode:
            raise ValueError(f"node {node.id} could not be formatted: {said}")
