"""An embedded cluster as a backend: looked at and updated as a real one is.

It says what nodes of the cluster's release say over the wire, and not what the file knows beyond
that: fenced brokers of before 4.0 stay hidden, a node that does not run gives no answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from featurelib.backends.base import Abilities, Backend, Say
from featurelib.backends.embedded import EmbeddedCluster
from featurelib.backends.embedded_answers import ALL_RANGES, Answer
from featurelib.backends.embedded_state import NOBODY
from featurelib.backends.embedded_znodes import znodes
from featurelib.catalogue import Catalogue
from featurelib.configuration.fleet import Cluster as Entry
from featurelib.core.again import request_of
from featurelib.core.cluster import Node
from featurelib.core.outcome import NotPassed, Passed, Recipient
from featurelib.core.reply import Reply
from featurelib.errors import ConfigError, ProtocolError, RefusedError, UnreachableError
from featurelib.feature import Role
from featurelib.model import Step

_KRAFT_CANNOT = ("It cannot refuse a request that another writer has overtaken.",)
_ZOOKEEPER_CANNOT = (
    "It cannot validate without writing: in ZooKeeper mode such a request is applied.",
    *_KRAFT_CANNOT,
)


def open_embedded(entry: Entry, catalogue: Catalogue) -> Backend:
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
