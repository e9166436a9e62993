"""What nodes of an embedded cluster answer when they are asked, as the keys of landing lines.

Which versions a release knows, and what it leaves out of them, is as recorded. What ZooKeeper holds
of a cluster in ZooKeeper mode is here, too: a registration goes with its broker; the features node
is the text as it was written.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import UNSET

from featurelib.audit.configured import KAFKAS_DEFAULT, OWN_FILE
from featurelib.backends.embedded_state import NOBODY, EmbeddedState, reading_of
from featurelib.core.cluster import Node, Range
from featurelib.core.dialect import Dialect
from featurelib.core.features_znode import Reading
from featurelib.feature import METADATA_VERSION, Role, release_number
from featurelib.landing.describe import BROKER_DEFAULT
from featurelib.landing.responses import (
    BROKER,
    BROKERS,
    CONTROLLERS,
    METADATA_TOPIC,
    NO_ERROR,
    UNSUPPORTED_VERSION,
    Configuration,
    DescribeCluster,
    DescribeConfigs,
    DescribeQuorum,
    FinalizedFeature,
    ListedNode,
    Partition,
    Replica,
    Resource,
    SupportedFeature,
    Topic,
)

Keys = dict[str, object]

ASKED_VERSION = 4  # of ApiVersions; version 3 leaves out ranges from 0 (KAFKA-17011)
KNOWS_ALL_RANGES = (3, 9)
CONTROLLERS_SHOW_LEVELS = (3, 6)  # before, a controller's listener says -1 and nothing
DESCRIBE_CLUSTER = ((4, 0), 2), ((3, 7), 1), ((0, 0), 0)  # from which release, which version
SHOWS_FENCED_FROM = 2  # DescribeCluster
CONTROLLERS_DESCRIBE = (3, 7)
NAMES_DIRECTORIES = (3, 9)  # DescribeQuorum version 2
TOO_EARLY = "Direct-to-controller communication is not supported with the current MetadataVersion."
NOT_LEADER = 6
_REGISTRATION = 5  # the first schema of /brokers/ids with features (KIP-584)


def endpoint(node: Node) -> str:
    """Where a node would listen."""
    return f"node-{node.node_id}.embedded:{9093 if node.role is Role.CONTROLLER else 9092}"


def api_versions(state: EmbeddedState, node: Node, dialect: Dialect) -> Keys:
    """ApiVersions as a node answers that has read `state`."""
    knows_all = _since(node, KNOWS_ALL_RANGES)
    levels, epoch = _finalized(state, node, dialect)
    return {
        "answered_version": ASKED_VERSION if knows_all else ASKED_VERSION - 1,
        "error_code": NO_ERROR,
        "supported_features": [
            SupportedFeature(name=name, min_version=low, max_version=high)
            for name, (low, high) in sorted(node.supported.items())
            if knows_all or low > 0
        ],
        "finalized_features_epoch": epoch,
        "finalized_features": [
            FinalizedFeature(name=name, max_version_level=level, min_version_level=low)
            for name, (low, level) in sorted(levels.items())
        ],
        "zk_migration_ready": state.cluster.migrating,
    }


def _finalized(state: EmbeddedState, node: Node, dialect: Dialect) -> tuple[dict[str, Range], int]:
    """What a node takes to be finalized, and its epoch: -1 where it does not know."""
    if dialect.mode != "zk":
        if node.role is Role.BROKER:
            return state.cluster.finalized, state.epoch
        shows = _since(node, CONTROLLERS_SHOW_LEVELS)
        return (state.cluster.finalized, state.features_at) if shows else ({}, -1)
    read = reading_of(state, node)
    if read is None or state.cluster.off:
        return {}, -1
    if read[0].reading is not Reading.ACCEPTED:
        return {}, -1
    return {name: (low, level) for name, low, level in read[0].levels}, state.epoch


def describe_cluster(state: EmbeddedState, node: Node, dialect: Dialect, cluster_id: str) -> Keys:
    """DescribeCluster in the newest version the node knows, fenced brokers where it can."""
    is_controller = node.role is Role.CONTROLLER
    if is_controller and not _since(node, CONTROLLERS_DESCRIBE):
        return {"why": "the listener does not offer DescribeCluster"}
    version = next(version for since, version in DESCRIBE_CLUSTER if _since(node, since))
    fenced = version >= SHOWS_FENCED_FROM
    kind = CONTROLLERS if is_controller else BROKERS
    level = state.cluster.finalized.get(METADATA_VERSION, (0, 0))[1]
    if is_controller and level < dialect.can.controllers_register_from:
        answer = DescribeCluster(
            error_code=UNSUPPORTED_VERSION, error_message=TOO_EARLY, controller_id=NOBODY,
            brokers=[], endpoint_type=BROKERS, cluster_id="", throttle_time_ms=0,
            authorized_operations=None,
        )  # fmt: skip
    else:
        # In KRaft a broker names any broker, so that requests to the controller are forwarded.
        forwards = dialect.mode != "zk" and not is_controller
        able = [n for n in state.cluster.nodes if n.role is node.role and n.registered]
        listed = [n for n in able if not n.ignored and (is_controller or fenced or not n.fenced)]
        answer = DescribeCluster(
            error_code=NO_ERROR,
            error_message=None,
            controller_id=node.node_id if forwards else state.cluster.active,
            brokers=[
                ListedNode(
                    broker_id=one.node_id,
                    rack=None,
                    is_fenced=one.fenced if fenced else UNSET,
                    **_address(one),
                )
                for one in sorted(listed, key=lambda n: n.node_id)
            ],
            endpoint_type=kind if version > 0 else UNSET,
            cluster_id=cluster_id,
            throttle_time_ms=0,
            authorized_operations=None,
        )
    return {
        "version": version,
        "endpoint_type": kind if version > 0 else None,
        "include_fenced_brokers": fenced,
        "answer": answer,
    }


def _address(node: Node) -> dict[str, object]:
    host, _, port = endpoint(node).partition(":")
    return {"host": host, "port": int(port)}


def describe_quorum(state: EmbeddedState, node: Node) -> Keys:
    """DescribeQuorum of a cluster in KRaft mode."""
    newer, nodes = _since(node, NAMES_DIRECTORIES), state.cluster.nodes
    voters = [n for n in nodes if n.voter]
    ids = {n.node_id for n in voters}
    observers = {n.node_id: n for n in nodes if n.running and n.node_id not in ids}
    leads = state.cluster.active != NOBODY
    no_words = "" if newer else UNSET
    partition = Partition(
        partition_index=0,
        error_code=NO_ERROR if leads else NOT_LEADER,
        error_message=no_words,
        leader_id=state.cluster.active,
        leader_epoch=state.term,
        high_watermark=state.epoch + 1 if leads else -1,
        current_voters=[_replica(n, state, newer) for n in voters],
        observers=[_replica(n, state, newer) for _, n in sorted(observers.items())],
    )
    listeners = [
        {"node_id": n.node_id, "listeners": [{"name": "CONTROLLER", **_address(n)}]} for n in voters
    ]
    answer = DescribeQuorum(
        error_code=NO_ERROR,
        error_message=no_words,
        topics=[Topic(topic_name=METADATA_TOPIC, partitions=[partition])],
        nodes=listeners if newer else UNSET,
    )
    return {"version": 2 if newer else 1, "answer": answer}


def _replica(node: Node, state: EmbeddedState, newer: bool) -> Replica:
    return Replica(
        replica_id=node.node_id,
        log_end_offset=state.epoch + 1 if node.running else -1,
        last_fetch_timestamp=-1,
        last_caught_up_timestamp=-1,
        replica_directory_id=None if newer else UNSET,
    )


def describe_configs(state: EmbeddedState, node: Node) -> Keys:
    """DescribeConfigs, in KRaft mode, of the node itself, and on a broker of the default of all
    brokers, which nobody sets."""
    if node.role is Role.CONTROLLER and not _since(node, CONTROLLERS_DESCRIBE):
        return {"endpoint": endpoint(node), "why": "the listener does not offer DescribeConfigs"}
    values = _configuration(state, node)
    names = [str(node.node_id)] + ([BROKER_DEFAULT] if node.role is Role.BROKER else [])
    results = [
        Resource(
            error_code=NO_ERROR,
            error_message=None,
            resource_type=BROKER,
            resource_name=name,
            configs=[_configured(*value) for value in values] if name else [],
        )
        for name in names
    ]
    answer = DescribeConfigs(throttle_time_ms=0, results=results)
    return {"endpoint": endpoint(node), "version": 4, "answer": answer}


def _configuration(state: EmbeddedState, node: Node) -> list[tuple[str, str, bool]]:
    """(key, value, whether Kafka's own default stands there), by key."""
    nodes = state.cluster.nodes
    listeners = [n for n in nodes if n.voter]
    voters = ",".join(f"{n.node_id}@{endpoint(n)}" for n in listeners)
    dynamic = state.cluster.raft_level > 0
    roles = ",".join(
        role.text
        for role in Role
        if any((n.node_id, n.role) == (node.node_id, role) for n in nodes)
    )
    values = [
        ("controller.quorum.voters", "" if dynamic else voters, dynamic),
        ("min.insync.replicas", "1", True),
        ("node.id", str(node.node_id), False),
        ("process.roles", roles, False),
    ]
    if _since(node, NAMES_DIRECTORIES):
        servers = ",".join(map(endpoint, listeners)) if dynamic else ""
        values.insert(0, ("controller.quorum.bootstrap.servers", servers, not dynamic))
    return values


def _configured(key: str, value: str, is_default: bool) -> Configuration:
    source = KAFKAS_DEFAULT if is_default else OWN_FILE
    return Configuration(
        name=key,
        value=value,
        read_only=key != "min.insync.replicas",
        config_source=source,
        is_sensitive=False,
        synonyms=[{"name": key, "value": value, "source": source}],
    )


def _since(node: Node, release: tuple[int, int]) -> bool:
    """Whether a node is of a release or a later one; so is one of an unknown release."""
    number = release_number(node.release)
    return len(number) < 2 or number >= release


def znodes(state: EmbeddedState, cluster_id: str) -> Iterator[Keys]:
    """Every node of ZooKeeper that a collector reads."""
    cluster, text = state.cluster, state.text
    yield _znode("/cluster/id", {"version": "1", "id": cluster_id}, version=0)
    feature = _znode("/feature", None, version=None if text is None else state.epoch)
    # Bytes that are no UTF-8 are as a reader of ZooKeeper shows them.
    shown = text and text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    yield feature | {"data": shown}
    yield _znode("/features", None, version=None)
    leads = None if cluster.active == NOBODY else {"version": 1, "brokerid": cluster.active}
    yield _znode("/controller", leads, version=None if leads is None else 0)
    for node in sorted(cluster.nodes, key=lambda n: n.node_id):
        if node.registered:
            features = {
                name: {"min_version": low, "max_version": high}
                for name, (low, high) in sorted(node.supported.items())
            }
            broker = {"features": features, "version": _REGISTRATION, "endpoints": []}
            yield _znode(f"/brokers/ids/{node.node_id}", broker, version=0)


def _znode(path: str, data: object, *, version: int | None) -> Keys:
    text = None if data is None else msgspec.json.encode(data).decode()
    czxid = None if version is None else 1  # nobody makes a node again here
    return {"path": path, "version": version, "czxid": czxid, "data": text}
