"""What nodes of an embedded cluster answer when they are asked: in the shape of landing lines.

Every answer has the keys of its landing line beside kind, cluster, time and who was asked. Which
versions a release knows, and what it leaves out of them, is as recorded.
"""

from __future__ import annotations

from collections.abc import Iterable

from featurelib.backends.embedded_state import NOBODY, State
from featurelib.backends.embedded_znode import reading_of
from featurelib.core.cluster import Node, Range
from featurelib.core.configured import BROKER_DEFAULT, KAFKAS_DEFAULT, OWN_FILE
from featurelib.core.dialect import Dialect
from featurelib.core.features_node import Reading
from featurelib.errors import ProtocolError
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
