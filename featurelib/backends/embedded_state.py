"""What is true of an embedded cluster at one moment, and what nodes make of the next one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from featurelib.core.ask import Answered
from featurelib.core.cluster import Cluster, Features, Node
from featurelib.core.compatibility import Stopped
from featurelib.core.dialect import Dialect
from featurelib.core.election import Election
from featurelib.core.sections import is_before
from featurelib.feature import Role

NOBODY = -1  # leads the cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """How a broker of ZooKeeper mode was started, where that was said."""

    protocol_version: str
    supported: Features  # below 2.7 it supports more than it registers


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One cluster at one moment. `node`: the bytes of the features node, None if it is not there.

    `epoch`: the log's end, or the features node's version; `features_at`: the offset of the last
    feature record; `term`: the raft leader's epoch.
    """

    cluster: Cluster
    epoch: int
    node: bytes | None = None
    features_at: int = -1
    term: int = 0
    started: dict[int, Started] = field(default_factory=dict)

    @property
    def text(self) -> str | None:
        """The features node as `decode` reads it."""
        return None if self.node is None else self.node.decode("utf-8", "surrogateescape")

    def protocol_version(self, node_id: int) -> str:
        """inter.broker.protocol.version of a broker; empty: its release's own."""
        return self.started[node_id].protocol_version if node_id in self.started else ""

    def supported(self, node: Node) -> Features:
        """What a node supports, registered or not."""
        return (
            self.started[node.node_id].supported
            if node.node_id in self.started
            else (node.supported)
        )

    def follows(self, node: Node, dialect: Dialect) -> bool:
        """ZooKeeper mode: whether a broker looks at the features node at all."""
        if node.node_id in self.started or not self.cluster.off:
            version = self.protocol_version(node.node_id)
            return not is_before(version, dialect.election.system_from)
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """What running nodes make of a change. The others take it over."""

    stopped: tuple[Stopped, ...] = ()
    keep: frozenset[int] = frozenset()  # what they had read, until they can read the next
    blind: frozenset[int] = frozenset()  # they follow no longer, until they are started again


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The controller's answer, and the nodes that stopped over what was finalized."""

    answered: Answered
    stopped: tuple[Stopped, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Elected:
    """What an election did to the features node (None in KRaft), and the nodes that stopped."""

    election: Election | None = None
    stopped: tuple[Stopped, ...] = ()


def end(cluster: Cluster, ids: Collection[int], dialect: Dialect) -> Cluster:
    """Processes end. A registration in ZooKeeper goes with its session, one of KRaft is fenced."""

    def ended(node: Node) -> Node:
        if node.node_id not in ids:
            return node
        if dialect.mode == "zk":
            return replace(node, running=False, registered=False, ignored=False)
        return replace(node, running=False, fenced=node.fenced or node.role is Role.BROKER)

    return replace(
        cluster,
        nodes=tuple(ended(node) for node in cluster.nodes),
        active=NOBODY if cluster.active in ids else cluster.active,
    )
