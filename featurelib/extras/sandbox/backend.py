"""Provide a backend for a sandbox cluster, which is read and updated like a real cluster.

The backend returns only data that real nodes of the release return. Fenced brokers before 4.0 stay
hidden, and a stopped node does not respond. Request versions and their fields are as recorded. In
ZooKeeper mode it has the znodes, too: a registration ends with its broker; `/feature` has the text
as written.
"""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from featurelib.audit.cluster_view import Inputs
from featurelib.audit.evidence import KAFKAS_DEFAULT, OWN_FILE
from featurelib.backends.base import Abilities, Backend, Check, Say
from featurelib.catalogue import Catalogue, ReleaseCatalogue
from featurelib.config.fleet import FleetEntry as Entry
from featurelib.core.cluster import Cluster, Node, Range
from featurelib.core.dialect import Dialect
from featurelib.core.dry_run import request_of
from featurelib.core.features_znode import ZnodeReading
from featurelib.core.reply import Reply
from featurelib.errors import ConfigError, RefusedError, UnreachableError
from featurelib.extras.initial_levels.storage_format import FormatRequest, initial_levels
from featurelib.extras.sandbox.cluster import NOBODY, EmbeddedCluster, EmbeddedState
from featurelib.feature import METADATA_VERSION, Role, release_number
from featurelib.landing import responses as wire
from featurelib.landing.fields import write_line
from featurelib.landing.kinds import BROKER_IDS
from featurelib.model import NotPassed, Passed, Recipient, Step

ASKED_VERSION = 4  # the version of ApiVersions; version 3 omits ranges from 0 (KAFKA-17011)
KNOWS_ALL_RANGES = (3, 9)
CONTROLLERS_SHOW_LEVELS = (3, 6)  # earlier controllers return epoch -1 and no levels
DESCRIBE_CLUSTER = ((4, 0), 2), ((3, 7), 1), ((0, 0), 0)  # (first release, version of the request)
CONTROLLERS_DESCRIBE = (3, 7)
NAMES_DIRECTORIES = (3, 9)  # the first release with DescribeQuorum version 2
TOO_EARLY = "Direct-to-controller communication is not supported with the current MetadataVersion."
NOT_LEADER = 6
_REGISTRATION = 5  # the first schema of /brokers/ids with features (KIP-584)
FIRST_CONTROLLER = 100  # the first controller's node id; brokers begin at 1
ANY_AGE = 2**62
Keys = dict[str, object]  # the keys of a landing line


def open_embedded(entry: Entry, catalogue: Catalogue) -> Backend:
    """Return the backend of the sandbox cluster in `entry.file`. Raises ConfigError."""
    return EmbeddedBackend(open_file(entry.file, catalogue))


def open_file(file: str, catalogue: Catalogue) -> EmbeddedCluster:
    """Open the sandbox cluster in a file. Raises ConfigError if the file does not exist."""
    if not Path(file).is_file():
        raise ConfigError(
            f"{file}: There is no such file. Make a sandbox cluster: featurelib sandbox make {file}"
        )
    return EmbeddedCluster(file, catalogue.tables)


class EmbeddedBackend:
    """A backend of a sandbox cluster; `close` closes its file."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster

    @property
    def where(self) -> str:
        return self._cluster.path

    def describe(self, say: Say) -> tuple[bytes, ...]:
        """Return landing lines about every node. Raises UnreachableError if no node runs."""
        nodes = sorted(self._cluster.cluster.nodes, key=lambda n: (n.node_id, -n.role))
        if self._cluster.mode == "zk":  # an unregistered broker is not visible
            nodes = [node for node in nodes if node.registered]
        if not any(node.running for node in nodes):
            raise UnreachableError(
                f"{self.where}: None of the {len(nodes)} nodes is running. Nothing was read or "
                "sent."
            )
        say(f"asking {len(nodes)} listeners of {self.where}")
        return tuple(
            write_line(kind, self._cluster.cluster_id, time.time_ns() // 1000, keys)
            for kind, keys in self._answers(nodes)
        )

    def abilities(self) -> Abilities:
        """Return the guarantees of the cluster's mode. In ZooKeeper mode a request to validate
        would be applied."""
        return Abilities(mode=self._cluster.mode, validate_only=self._cluster.mode != "zk")

    def recipient(self) -> Recipient:
        """Return the active controller. Raises UnreachableError if there is none."""
        active = self._cluster.cluster.active
        if active == NOBODY:
            raise UnreachableError(
                f"{self.where}: The cluster has no active controller. Nothing was sent. Try again "
                "after an election."
            )
        return Recipient(role="controller", node=active, address=self.where, leader=active)

    def passed(self, sent: Recipient | None, features: Collection[str]) -> Passed | NotPassed:
        """Return the proof that no request is pending. The sandbox applies each request at once."""
        return Passed(how="the file holds every request that was carried out")

    def update(self, step: Step, *, validate_only: bool = False, last_check: Check = None) -> Reply:
        """Send a request; return the reply. Raises UnreachableError, RefusedError."""
        if validate_only and not self.abilities().validate_only:
            raise RefusedError(
                f"{self.where}: The controller is in ZooKeeper mode. It would apply a request that "
                "should only be validated. Nothing was sent."
            )
        self.recipient()
        request = request_of(step, self._cluster.dialect(), validate_only=validate_only)
        if last_check is not None:
            last_check()
        return self._cluster.update_features(request).answered.reply

    def close(self) -> None:
        self._cluster.close()

    def _answers(self, nodes: list[Node]) -> Iterator[tuple[str, Keys]]:
        """Yield (kind, fields) of the landing lines that a collector would write."""
        cluster, running = self._cluster, [node for node in nodes if node.running]
        states = {node.node_id: cluster.seen_by(node.node_id) for node in running}
        dialects = {node_id: cluster.dialect(state) for node_id, state in states.items()}
        for node in nodes:
            keys: Keys = {
                "node_id": node.node_id,
                "role": node.role.text,
                "endpoint": endpoint(node),
            }
            keys["asked_version"] = ASKED_VERSION
            if node.running:
                keys |= api_versions(states[node.node_id], node, dialects[node.node_id])
            else:
                keys["error"] = "ConnectionRefusedError: the process does not run"
            yield "api_versions", keys
        if cluster.mode == "zk":
            yield from (("znode", keys) for keys in _znodes(cluster.state, cluster.cluster_id))
            return
        for role in (Role.CONTROLLER, Role.BROKER):
            asked_node = next((node for node in running if node.role is role), None)
            if asked_node is not None:
                state, by = states[asked_node.node_id], dialects[asked_node.node_id]
                keys = {"asked_node": asked_node.node_id, "listener": role.text}
                yield "describe_cluster", keys | _members(state, asked_node, by, cluster.cluster_id)
                yield "describe_quorum", keys | _quorum(state, asked_node)
        for node in running:
            keys = {"asked_node": node.node_id, "role": node.role.text, "endpoint": endpoint(node)}
            yield "describe_configs", keys | _configs(states[node.node_id], node)


def endpoint(node: Node) -> str:
    """Return the address of a node's only listener."""
    return f"node-{node.node_id}.embedded:{9093 if node.role is Role.CONTROLLER else 9092}"


def _address(node: Node) -> dict[str, object]:
    host, _, port = endpoint(node).partition(":")
    return {"host": host, "port": int(port)}


def _since(node: Node, release: tuple[int, int]) -> bool:
    """Return true if a node has this or a later release, or if its release is unknown."""
    number = release_number(node.release)
    return len(number) < 2 or number >= release


def api_versions(state: EmbeddedState, node: Node, dialect: Dialect) -> Keys:
    """Return the ApiVersions response of a node that has read `state`."""
    knows_all = _since(node, KNOWS_ALL_RANGES)
    levels, epoch = _finalized(state, node, dialect)
    return {
        "answered_version": ASKED_VERSION if knows_all else ASKED_VERSION - 1,
        "error_code": wire.NO_ERROR,
        "supported_features": [
            wire.SupportedFeature(name=name, min_version=low, max_version=high)
            for name, (low, high) in sorted(node.supported.items())
            if knows_all or low > 0
        ],
        "finalized_features_epoch": epoch,
        "finalized_features": [
            wire.FinalizedFeature(name=name, max_version_level=level, min_version_level=low)
            for name, (low, level) in sorted(levels.items())
        ],
        "zk_migration_ready": state.cluster.migrating,
    }


def _finalized(state: EmbeddedState, node: Node, dialect: Dialect) -> tuple[dict[str, Range], int]:
    """Return (finalized levels, epoch) that a node reports; epoch -1 if it reports none."""
    if dialect.mode != "zk":
        if node.role is Role.BROKER:
            return state.cluster.finalized, state.epoch
        first = _since(node, CONTROLLERS_SHOW_LEVELS)
        return (state.cluster.finalized, state.features_at) if first else ({}, -1)
    read = state.read_by(node)
    if read is None or state.cluster.off or read[0].reading is not ZnodeReading.ACCEPTED:
        return {}, -1
    return {name: (low, level) for name, low, level in read[0].levels}, state.epoch


def _members(state: EmbeddedState, node: Node, dialect: Dialect, cluster_id: str) -> Keys:
    """Return the DescribeCluster response of a node in its newest version."""
    of_controllers = node.role is Role.CONTROLLER
    if of_controllers and not _since(node, CONTROLLERS_DESCRIBE):
        return {"why": wire.NOT_OFFERED.format("DescribeCluster")}
    version = next(version for since, version in DESCRIBE_CLUSTER if _since(node, since))
    fenced = version >= wire.SHOWS_FENCED_FROM
    kind = wire.CONTROLLERS if of_controllers else wire.BROKERS
    level = state.cluster.level(METADATA_VERSION)
    # In KRaft mode a broker names any broker as controller, and forwards requests.
    forwards = dialect.mode != "zk" and not of_controllers
    registered = [n for n in state.cluster.nodes if n.role is node.role and n.registered]
    listed = [n for n in registered if not n.ignored and (of_controllers or fenced or not n.fenced)]
    answer = wire.DescribeCluster(
        error_code=wire.NO_ERROR,
        error_message=None,
        controller_id=node.node_id if forwards else state.cluster.active,
        brokers=[
            wire.ListedNode(
                broker_id=n.node_id,
                rack=None,
                is_fenced=n.fenced if fenced else UNSET,
                **_address(n),
            )
            for n in sorted(listed, key=lambda n: n.node_id)
        ],
        endpoint_type=kind if version > 0 else UNSET,
        cluster_id=cluster_id,
        throttle_time_ms=0,
        authorized_operations=None,
    )
    if of_controllers and level < dialect.can.controllers_register_from:
        answer = msgspec.structs.replace(
            answer, error_code=wire.UNSUPPORTED_VERSION, error_message=TOO_EARLY,
            controller_id=NOBODY, brokers=[], endpoint_type=wire.BROKERS, cluster_id="",
        )  # fmt: skip
    return {
        "version": version,
        "endpoint_type": kind if version > 0 else None,
        "include_fenced_brokers": fenced,
        "answer": answer,
    }


def _quorum(state: EmbeddedState, node: Node) -> Keys:
    """Return the DescribeQuorum response of a node in KRaft mode."""
    newer, nodes = _since(node, NAMES_DIRECTORIES), state.cluster.nodes
    voters = [node for node in nodes if node.voter]
    ids = {voter.node_id for voter in voters}
    observers = {node.node_id: node for node in nodes if node.running and node.node_id not in ids}
    is_led, no_words = state.cluster.active != NOBODY, "" if newer else UNSET

    def replicas(nodes: Iterable[Node]) -> list[wire.Replica]:
        return [
            wire.Replica(
                replica_id=node.node_id,
                log_end_offset=state.epoch + 1 if node.running else -1,
                last_fetch_timestamp=-1,
                last_caught_up_timestamp=-1,
                replica_directory_id=None if newer else UNSET,
            )
            for node in nodes
        ]

    partition = wire.Partition(
        partition_index=0,
        error_code=wire.NO_ERROR if is_led else NOT_LEADER,
        error_message=no_words,
        leader_id=state.cluster.active,
        leader_epoch=0,  # a sandbox cluster has had one election
        high_watermark=state.epoch + 1 if is_led else -1,
        current_voters=replicas(voters),
        observers=replicas(observers[at] for at in sorted(observers)),
    )
    listeners = [
        {"node_id": n.node_id, "listeners": [{"name": "CONTROLLER", **_address(n)}]} for n in voters
    ]
    answer = wire.DescribeQuorum(
        error_code=wire.NO_ERROR,
        error_message=no_words,
        topics=[wire.Topic(topic_name=wire.METADATA_TOPIC, partitions=[partition])],
        nodes=listeners if newer else UNSET,
    )
    return {"version": 2 if newer else 1, "answer": answer}


def _configs(state: EmbeddedState, node: Node) -> Keys:
    """Return the DescribeConfigs response of a node in KRaft mode."""
    if node.role is Role.CONTROLLER and not _since(node, CONTROLLERS_DESCRIBE):
        return {"why": wire.NOT_OFFERED.format("DescribeConfigs")}
    names = [str(node.node_id)] + ([wire.BROKER_DEFAULT] if node.role is Role.BROKER else [])
    results = [
        wire.Resource(
            error_code=wire.NO_ERROR,
            error_message=None,
            resource_type=wire.BROKER,
            resource_name=name,
            configs=[*_configured(state, node)] if name else [],
        )
        for name in names
    ]
    return {"version": 4, "answer": wire.DescribeConfigs(throttle_time_ms=0, results=results)}


def _configured(state: EmbeddedState, node: Node) -> Iterator[wire.Configuration]:
    """Yield the configuration of a node. Other keys have Kafka's default."""
    nodes, dynamic = state.cluster.nodes, state.cluster.raft_level > 0
    voters = [node for node in nodes if node.voter]
    roles_of_node = {n.role for n in nodes if n.node_id == node.node_id}
    servers = ",".join(map(endpoint, voters)) if dynamic else ""
    configured = "" if dynamic else ",".join(f"{n.node_id}@{endpoint(n)}" for n in voters)
    roles = ",".join(role.text for role in Role if role in roles_of_node)
    for key, value, is_default in (
        ("controller.quorum.bootstrap.servers", servers, not dynamic),
        ("controller.quorum.voters", configured, dynamic),
        ("min.insync.replicas", "1", True),
        ("node.id", str(node.node_id), False),
        ("process.roles", roles, False),
    ):
        if key.endswith("bootstrap.servers") and not _since(node, NAMES_DIRECTORIES):
            continue
        source = KAFKAS_DEFAULT if is_default else OWN_FILE
        yield wire.Configuration(
            name=key,
            value=value,
            read_only=key != "min.insync.replicas",
            config_source=source,
            is_sensitive=False,
            synonyms=[{"name": key, "value": value, "source": source}],
        )


def _znodes(state: EmbeddedState, cluster_id: str) -> Iterator[Keys]:
    """Yield every znode that a collector reads."""
    cluster, text = state.cluster, state.text
    # ZooKeeper's reader shows invalid UTF-8 in this way, too.
    stored = text and text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    znodes: list[tuple[str, int, object]] = [("/cluster/id", 0, {"version": "1", "id": cluster_id})]
    znodes += [("/feature", state.epoch, stored), ("/features", 0, None)]
    active = None if cluster.active == NOBODY else {"version": 1, "brokerid": cluster.active}
    znodes.append(("/controller", 0, active))
    for node in sorted(cluster.nodes, key=lambda n: n.node_id):
        if node.registered:
            features = {
                name: {"min_version": low, "max_version": high}
                for name, (low, high) in sorted(node.supported.items())
            }
            broker = {"features": features, "version": _REGISTRATION, "endpoints": []}
            znodes.append((f"{BROKER_IDS}/{node.node_id}", 0, broker))
    listed = sorted(node.node_id for node in cluster.nodes if node.registered)
    yield {"path": BROKER_IDS, "version": 0, "czxid": 1, "data": None, "children": listed}
    for path, version, data in znodes:
        if data is None:
            yield {"path": path, "version": None, "czxid": None, "data": None}
        else:
            text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
            yield {"path": path, "version": version, "czxid": 1, "data": text}


class Made(NamedTuple):
    """The content of a new sandbox file: mode, cluster id, cluster."""

    mode: str  # the cluster's mode: kraft or zk
    cluster_id: str
    cluster: Cluster


def formatted(own: ReleaseCatalogue, metadata: str | None, brokers: int, controllers: int) -> Made:
    """Return a new KRaft cluster, as kafka-storage.sh format of release `own` creates it.
    `metadata`: the release version, None = newest. Raises ConfigError."""
    initial = initial_levels(own, FormatRequest(release_version=metadata))
    if initial.refusals:
        words = "; ".join(refusal.text for refusal in initial.refusals)
        raise ConfigError(f"--metadata {metadata}: kafka-storage.sh of {own.release} says: {words}")
    supported = own.ranges()
    groups = ((Role.CONTROLLER, FIRST_CONTROLLER, controllers), (Role.BROKER, 1, brokers))
    nodes = tuple(
        Node(
            node_id=first + i,
            role=role,
            supported=supported,
            release=own.release,
            voter=role is Role.CONTROLLER,
        )
        for role, first, count in groups
        for i in range(count)
    )
    finalized = {name: (level, level) for name, level in initial.levels.items() if level}
    cluster = Cluster(
        release=own.release, nodes=nodes, active=FIRST_CONTROLLER, finalized=finalized
    )
    made_up = "-"
    while made_up.startswith("-"):  # Kafka's own ids never look like options (Uuid.randomUuid)
        made_up = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[:22]
    return Made("kraft", made_up, cluster)


def captured(path: str, lines: Iterable[bytes], catalogue: Catalogue) -> Made:
    """Return a sandbox copy of a recorded cluster. `path`: the file or folder of the landing lines.
    Raises ConfigError, LandingError, NoEvidenceError."""
    advice = "Keep the lines of one of them in a file of their own."
    if Path(path).is_dir():
        advice = f"Name the file or the sub-folder of one of them: --capture {Path(path) / 'NAME'}."
    view = Inputs(catalogue=catalogue, as_of=None, max_age=ANY_AGE).see_lines(lines, None, advice)
    mode = view.dialects[0].partition("-")[0] if view.dialects else ""
    if not mode or not view.releases:
        raise ConfigError(
            f"--capture {path}: The data does not show the release of the controllers. Collect the "
            "controllers, too."
        )
    return Made(mode, view.cluster_id, view.cluster)
