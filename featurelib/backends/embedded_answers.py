"""What nodes of an embedded cluster answer when they are asked: in the shape of landing lines.

Every answer has the keys of its landing line beside kind, cluster, time and who was asked. Which
versions a release knows, and what it leaves out of them, is as recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self

import msgspec

from featurelib.audit.configured import BROKER_DEFAULT, KAFKAS_DEFAULT, OWN_FILE
from featurelib.backends.embedded_state import NOBODY, State, reading_of
from featurelib.backends.state_file import StateFile
from featurelib.catalogue.tables import Tables
from featurelib.core.cluster import Cluster, Node, Range
from featurelib.core.dialect import Dialect, generation_of, load
from featurelib.core.features_znode import Reading
from featurelib.errors import InputError, ProtocolError, UnreachableError
from featurelib.feature import METADATA_VERSION, Role
from featurelib.landing.responses import BROKER

Answer = dict[str, object]

LEAST_API_VERSIONS = 3  # the first that carries features
ALL_RANGES = 4  # version 3 leaves out ranges from 0 (KAFKA-17011)
KNOWS_ALL_RANGES = (3, 9)
CONTROLLERS_SHOW_LEVELS = (3, 6)  # before, a controller's listener says -1 and nothing
DESCRIBE_CLUSTER = ((4, 0), 2), ((3, 7), 1), ((0, 0), 0)  # from which release, which version
CONTROLLERS_DESCRIBE = (3, 7)
NAMES_DIRECTORIES = (3, 9)  # DescribeQuorum version 2
TOO_EARLY = "Direct-to-controller communication is not supported with the current MetadataVersion."
UNSUPPORTED_VERSION, NOT_LEADER = 35, 6
BROKERS, CONTROLLERS = 1, 2  # endpoint types


def api_versions(state: State, node: Node, asked_version: int, dialect: Dialect) -> Answer:
    """ApiVersions as a node answers that has read `state`. Raises ProtocolError below version 3."""
    if asked_version < LEAST_API_VERSIONS:
        raise ProtocolError(
            f"node {node.node_id}: expected ApiVersions version {LEAST_API_VERSIONS} or above, "
            f"found {asked_version}, whose answer has no features. Ask in a later one."
        )
    newest = ALL_RANGES if _since(node, KNOWS_ALL_RANGES) else LEAST_API_VERSIONS
    version = min(asked_version, newest)
    levels, epoch = _finalized(state, node, dialect)
    return {
        "asked_version": asked_version,
        "answered_version": version,
        "error_code": 0,
        "supported_features": [
            {"name": name, "min_version": low, "max_version": high}
            for name, (low, high) in sorted(state.supported(node).items())
            if version >= ALL_RANGES or low > 0
        ],
        "finalized_features_epoch": epoch,
        "finalized_features": [
            {"name": name, "max_version_level": level, "min_version_level": low}
            for name, (low, level) in sorted(levels.items())
        ],
        "zk_migration_ready": state.cluster.migrating,
    }


def _finalized(state: State, node: Node, dialect: Dialect) -> tuple[dict[str, Range], int]:
    """What a node takes to be finalized, and its epoch: -1 where it does not know."""
    if dialect.mode != "zk":
        if node.role is Role.BROKER:
            return state.cluster.finalized, state.epoch
        shows = _since(node, CONTROLLERS_SHOW_LEVELS)
        return (state.cluster.finalized, state.features_at) if shows else ({}, -1)
    read = reading_of(state, node)
    if read is None or not state.follows(node, dialect):
        return {}, -1
    if read[0].reading is not Reading.ACCEPTED:
        return {}, -1
    return {name: (low, level) for name, low, level in read[0].levels}, state.epoch


def describe_cluster(
    state: State, node: Node, cluster_id: str, dialect: Dialect, *, include_fenced: bool
) -> Answer:
    """DescribeCluster in the newest version the node knows; fenced brokers from version 2 on.

    Raises ProtocolError where fenced brokers are asked of a node that does not know the field.
    """
    if node.role is Role.CONTROLLER and not _since(node, CONTROLLERS_DESCRIBE):
        return {"answer": None, "why": "the listener does not offer DescribeCluster"}
    version = next(version for since, version in DESCRIBE_CLUSTER if _since(node, since))
    if include_fenced and version < 2:
        raise ProtocolError(
            f"node {node.node_id}: expected a release that tells fenced brokers, 4.0 or later, "
            f"found {node.release}. Ask without them; the list is then no proof."
        )
    kind = CONTROLLERS if node.role is Role.CONTROLLER else BROKERS
    answer: Answer = {"throttle_time_ms": 0, "error_code": 0, "error_message": None}
    level = state.cluster.finalized.get(METADATA_VERSION, (0, 0))[1]
    if kind == CONTROLLERS and level < dialect.can.controllers_register_from:
        answer |= {"error_code": UNSUPPORTED_VERSION, "error_message": TOO_EARLY}
        answer |= {"endpoint_type": BROKERS, "cluster_id": "", "controller_id": NOBODY}
        answer["brokers"] = []
    else:
        if version > 0:
            answer["endpoint_type"] = kind
        # In KRaft a broker names any broker, so that requests to the controller are forwarded.
        forwards = dialect.mode != "zk" and kind == BROKERS
        leader = node.node_id if forwards else state.cluster.active
        answer |= {"cluster_id": cluster_id, "controller_id": leader}
        listed = _listed(state.cluster.nodes, node.role, include_fenced)
        answer["brokers"] = [_broker(one, version) for one in listed]
    return {
        "version": version,
        "endpoint_type": kind if version > 0 else None,
        "include_fenced_brokers": include_fenced,
        "answer": answer | {"authorized_operations": None},
    }


def _listed(nodes: Iterable[Node], role: Role, include_fenced: bool) -> list[Node]:
    able = (n for n in nodes if n.role is role and n.registered and not n.ignored)
    shown = (n for n in able if role is Role.CONTROLLER or include_fenced or not n.fenced)
    return sorted(shown, key=lambda n: n.node_id)


def _broker(node: Node, version: int) -> Answer:
    said: Answer = {"broker_id": node.node_id, **_endpoint(node), "rack": None}
    return said | ({"is_fenced": node.fenced} if version >= 2 else {})


def _endpoint(node: Node) -> Answer:
    port = 9093 if node.role is Role.CONTROLLER else 9092
    return {"host": f"node-{node.node_id}.embedded", "port": port}


def describe_quorum(state: State, node: Node, dialect: Dialect) -> Answer:
    """DescribeQuorum. Raises ProtocolError in ZooKeeper mode, where there is none."""
    if dialect.mode == "zk":
        raise ProtocolError(
            f"node {node.node_id}: expected a cluster in KRaft mode, found ZooKeeper mode, "
            "which has no metadata quorum. Read the features node."
        )
    newer, nodes = _since(node, NAMES_DIRECTORIES), state.cluster.nodes
    voters = [n for n in nodes if n.voter]
    ids = {n.node_id for n in voters}
    observers = {n.node_id: n for n in nodes if n.running and n.node_id not in ids}
    leads = state.cluster.active != NOBODY
    code = {"error_code": 0 if leads else NOT_LEADER, **({"error_message": ""} if newer else {})}
    partition = {
        "partition_index": 0,
        **code,
        "leader_id": state.cluster.active,
        "leader_epoch": state.term,
        "high_watermark": state.epoch + 1 if leads else -1,
        "current_voters": [_replica(n, state, newer) for n in voters],
        "observers": [_replica(n, state, newer) for _, n in sorted(observers.items())],
    }
    top = {"error_code": 0, **({"error_message": ""} if newer else {})}
    topics = [{"topic_name": "__cluster_metadata", "partitions": [partition]}]
    listeners = [
        {"node_id": n.node_id, "listeners": [{"name": "CONTROLLER", **_endpoint(n)}]}
        for n in voters
    ]
    answer = {**top, "topics": topics, **({"nodes": listeners} if newer else {})}
    return {"version": 2 if newer else 1, "answer": answer}


def describe_configs(state: State, node: Node, dialect: Dialect) -> Answer:
    """DescribeConfigs of the node itself, and on a broker of the default of all brokers, which
    nobody sets. Raises ProtocolError in ZooKeeper mode, where features hang on none of it."""
    if dialect.mode == "zk":
        raise ProtocolError(
            f"node {node.node_id}: expected a cluster in KRaft mode, found ZooKeeper mode. "
            "Nothing that is kept of its configuration matters there."
        )
    endpoint = _endpoint(node)
    asked: Answer = {"endpoint": f"{endpoint['host']}:{endpoint['port']}"}
    if node.role is Role.CONTROLLER and not _since(node, CONTROLLERS_DESCRIBE):
        return {**asked, "answer": None, "why": "the listener does not offer DescribeConfigs"}
    values = _configuration(state, node)
    names = [str(node.node_id)] + ([BROKER_DEFAULT] if node.role is Role.BROKER else [])
    results = [
        {
            "error_code": 0,
            "error_message": None,
            "resource_type": BROKER,
            "resource_name": name,
            "configs": [_config(*value) for value in values] if name else [],
        }
        for name in names
    ]
    return {**asked, "version": 4, "answer": {"throttle_time_ms": 0, "results": results}}


def _configuration(state: State, node: Node) -> list[tuple[str, str, bool]]:
    """(key, value, whether Kafka's own default stands there), by key."""
    nodes = state.cluster.nodes
    listeners = [n for n in nodes if n.voter]
    at = [f"node-{n.node_id}.embedded:9093" for n in listeners]
    voters = ",".join(f"{n.node_id}@{where}" for n, where in zip(listeners, at, strict=True))
    dynamic = state.cluster.raft_level > 0
    roles = ",".join(
        role.text
        for role in Role
        if any((n.node_id, n.role) == (node.node_id, role) for n in nodes)
    )
    said = [
        ("controller.quorum.voters", "" if dynamic else voters, dynamic),
        ("min.insync.replicas", "1", True),
        ("node.id", str(node.node_id), False),
        ("process.roles", roles, False),
    ]
    if _since(node, NAMES_DIRECTORIES):
        servers = ",".join(at) if dynamic else ""
        said.insert(0, ("controller.quorum.bootstrap.servers", servers, not dynamic))
    return said


def _config(key: str, value: str, is_default: bool) -> Answer:
    source = KAFKAS_DEFAULT if is_default else OWN_FILE
    return {
        "name": key,
        "value": value,
        "read_only": key != "min.insync.replicas",
        "config_source": source,
        "is_sensitive": False,
        "synonyms": [{"name": key, "value": value, "source": source}],
    }


def _replica(node: Node, state: State, newer: bool) -> Answer:
    reached = state.epoch + 1 if node.running else -1
    said: Answer = {"replica_id": node.node_id, "log_end_offset": reached}
    said |= {"last_fetch_timestamp": -1, "last_caught_up_timestamp": -1}
    return said | ({"replica_directory_id": None} if newer else {})


def _since(node: Node, release: tuple[int, int]) -> bool:
    """Whether a node is of a release or a later one; so is one of an unknown release."""
    parts = [int(part) for part in node.release.split(".")[:2] if part.isdigit()]
    return len(parts) < 2 or tuple(parts) >= release


# ----------------------------------------
# An embedded cluster as it is asked: its file, its newest state, and what its nodes answer.

_STATE = msgspec.json.Decoder(State)


class EmbeddedView:
    """What can be asked of one cluster in one file."""

    def __init__(
        self,
        path: str,
        tables: Tables,
        *,
        mode: str = "kraft",
        cluster_id: str = "embedded",
        dialect: Dialect | None = None,
    ) -> None:
        self._tables, self._dialect = tables, dialect
        self._file = StateFile(path, {"mode": mode, "cluster_id": cluster_id})
        self.mode: str = self._file.about["mode"]
        self.cluster_id: str = self._file.about["cluster_id"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was answered is on the disk already."""
        self._file.close()

    @property
    def path(self) -> str:
        """The file it is kept in."""
        return self._file.path

    @property
    def cluster(self) -> Cluster:
        """The newest state. Raises InputError when nothing was put in yet."""
        return self._newest()[1].cluster

    @property
    def epoch(self) -> int:
        """KRaft: the log's end. ZooKeeper mode: the version of the features node."""
        return self._newest()[1].epoch

    @property
    def features_node(self) -> str | None:
        """ZooKeeper mode: the text of the features node; None if it does not exist."""
        return self._newest()[1].text

    @property
    def dialect(self) -> Dialect:
        """How the active controller answers: as its release does, unless one was given."""
        return self._generation(self.cluster.release)

    def describe(self, node_id: int, version: int = 4, *, role: Role | None = None) -> Answer:
        """What a node answers to ApiVersions on its broker's listener, or another: what it
        supports, and what it takes to be finalized; perhaps of before.

        Raises UnreachableError for a node that does not run, ProtocolError below version 3.
        """
        node, seen = self._ask(node_id, role)
        return api_versions(seen, node, version, self._generation(seen.cluster.release))

    def describe_cluster(
        self, node_id: int, *, include_fenced: bool = False, role: Role | None = None
    ) -> Answer:
        """What a node answers to DescribeCluster: brokers, or controllers on a controller's
        listener. Raises UnreachableError, ProtocolError."""
        node, seen = self._ask(node_id, role)
        dialect = self._generation(seen.cluster.release)
        return describe_cluster(seen, node, self.cluster_id, dialect, include_fenced=include_fenced)

    def describe_quorum(self, node_id: int, *, role: Role | None = None) -> Answer:
        """What a node answers to DescribeQuorum. Raises UnreachableError, ProtocolError."""
        node, seen = self._ask(node_id, role)
        return describe_quorum(seen, node, self._generation(seen.cluster.release))

    def describe_configs(self, node_id: int, *, role: Role | None = None) -> Answer:
        """What a node says it is configured with. Raises UnreachableError, ProtocolError."""
        node, seen = self._ask(node_id, role)
        return describe_configs(seen, node, self._generation(seen.cluster.release))

    def _ask(self, node_id: int, role: Role | None) -> tuple[Node, State]:
        """A running half of a process, a broker's if none is named, and the state it has read."""
        _, newest = self._newest()
        nodes = [n for n in newest.cluster.nodes if role is None or n.role is role]
        what = "nodes" if role is None else f"{role.text}s"
        node = self._find(sorted(nodes, key=lambda n: n.role), what, node_id)
        if not node.running:
            raise UnreachableError(
                f"{self._file.path}: node {node_id} does not run. Start it first."
            )
        held = self._file.held.get(node_id)
        return node, newest if held is None else self._at(held.position)

    def _find(self, nodes: Sequence[Node], what: str, node_id: int) -> Node:
        by_id = {node.node_id: node for node in reversed(nodes)}  # the first of an id counts
        if node_id in by_id:
            return by_id[node_id]
        ids = ", ".join(str(known) for known in sorted(by_id)) or "none"
        raise InputError(
            f"{self._file.path}: expected one of the {what} {ids}, found {node_id}. "
            "Register or start it first."
        )

    def _generation(self, release: str) -> Dialect:
        """The dialect of controllers of a release, or the one that was given. InputError."""
        if self._dialect is not None:
            return self._dialect
        try:
            return load(generation_of(release, self.mode))
        except KeyError as error:
            raise InputError(
                f"{self._file.path}: {error.args[0]}. `featurelib rules --dialects` lists them."
            ) from error

    def _newest(self) -> tuple[int, State]:
        position, content = self._file.read()
        return position, _STATE.decode(content)

    def _at(self, position: int) -> State:
        return _STATE.decode(self._file.read(position)[1])


# ----------------------------------------
# What ZooKeeper holds of an embedded cluster in ZooKeeper mode, as landing lines hold it.
#
# A registration goes with its broker; the features node is the text as it was written.

_REGISTRATION = 5  # the first schema with features (KIP-584)
_FIRST = 1  # czxid of nodes nobody makes again here


def znodes(cluster: EmbeddedView) -> Iterator[Answer]:
    """Every node a collector reads, each with the keys of a `znode` line."""
    text, state = cluster.features_node, cluster.cluster
    cluster_id = {"version": "1", "id": cluster.cluster_id}
    yield _znode("/cluster/id", cluster_id, version=0)
    feature = _znode("/feature", None, version=None if text is None else cluster.epoch)
    yield feature | {"data": None if text is None else _readable(text)}
    yield _znode("/features", None, version=None)
    leads = None if state.active == NOBODY else {"version": 1, "brokerid": state.active}
    yield _znode("/controller", leads, version=None if leads is None else 0)
    for node in sorted(state.nodes, key=lambda n: n.node_id):
        if node.registered:
            yield _znode(f"/brokers/ids/{node.node_id}", _registration(node), version=0)


def _readable(text: str) -> str:
    """Bytes that are no UTF-8 as a reader of ZooKeeper shows them."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _registration(node: Node) -> Answer:
    features = {
        name: {"min_version": low, "max_version": high}
        for name, (low, high) in sorted(node.supported.items())
    }
    return {"features": features, "version": _REGISTRATION, "endpoints": []}


def _znode(path: str, data: object, *, version: int | None) -> Answer:
    text = None if data is None else msgspec.json.encode(data).decode()
    czxid = None if version is None else _FIRST
    return {"path": path, "version": version, "czxid": czxid, "data": text}
