"""What a test holds: one running cluster, its addresses, and how to stop and start its nodes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.backends.rig.java import Java
from tests.backends.rig.process import Process
from tests.backends.rig.security import Security

FEATURES_TOOL = "org.apache.kafka.tools.FeatureCommand"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningNode:
    """One node; an address is "host:port", or "" where the node has no such listener."""

    id: int
    release: str
    broker: str
    controller: str
    process: Process
    launch: Callable[[], None] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCluster:
    """A cluster of real processes; tests/backends/rig/__init__.py describes it."""

    bootstrap: str
    controller_bootstrap: str
    cluster_id: str
    nodes: dict[int, RunningNode]
    java: Java
    security: Security | None = None
    zookeeper: str = ""
    _more: list[Process] = field(default_factory=list)

    def start_node(self, node_id: int) -> None:
        node = self.nodes[node_id]
        node.launch()
        node.process.wait()

    def stop_node(self, node_id: int, *, kill: bool = False) -> None:
        self.nodes[node_id].process.stop(kill=kill)

    def logs(self, node_id: int) -> str:
        return self.nodes[node_id].process.text()

    def features_tool(
        self, *words: str, timeout_seconds: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """The real kafka-features of the cluster's newest release, without its shell script."""
        return self.java.run(FEATURES_TOOL, *words, timeout_seconds=timeout_seconds)

    def stop(self) -> None:
        """Ends every process: at once, but those that leave an archive of classes in good order."""
        processes = [*(node.process for node in self.nodes.values()), *self._more]
        for process in sorted(processes, key=lambda one: not one.leaves_something):
            process.stop(kill=not process.leaves_something)


def start_all(nodes: list[RunningNode]) -> None:
    """Launches the nodes at once, since controllers wait for each other, then waits for each."""
    for node in nodes:
        node.launch()
    for node in nodes:
        node.process.wait()
