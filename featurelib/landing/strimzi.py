"""Read Strimzi's resources (`kubectl get … -o json`) as landing lines of the kind `strimzi`.

A `Kafka` resource has the requested software and metadata.version, and in its status the operator's
result. `KafkaNodePool` and `StrimziPodSet` list the expected nodes; some may never have registered
with Kafka. No other resource is kept, because resources of pods may have secrets. v1beta2 and v1
are read alike. Two Kafka resources with one cluster id are both ignored.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Self

import msgspec

from featurelib.errors import LandingError
from featurelib.landing.fields import (
    CLUSTER_LENGTH,
    INT32_MAX,
    FilledText,
    Listener,
    NodeId,
    Text,
    Timed,
    Truth,
    write_line,
)
from featurelib.landing.strict import FaultError, show
from featurelib.words import count

# A name NAMESPACE/NAME that Kubernetes allows.
RESOURCE = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
COMMAND = "kubectl get kafka,kafkanodepool,strimzipodset -A -o json"
KIND = "strimzi"
_GROUPS = ("kafka.strimzi.io/", "core.strimzi.io/")
_CLUSTER, _KIND = "strimzi.io/cluster", "strimzi.io/kind"
_VERSION = "strimzi.io/kafka-version"
_ROLES: dict[str, Listener] = {
    "strimzi.io/broker-role": "broker",
    "strimzi.io/controller-role": "controller",
}
_PAUSED, _REFUSED = "ReconciliationPaused", "MetadataUpdateFailed"
_LONGEST = 1000  # the maximum length of the operator's message, in characters
_POD = re.compile(r".*-(\d{1,10})", re.DOTALL | re.ASCII)
_NodeKey = tuple[int, str]  # the id and role of a node


class StrimziNode(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A node that Strimzi runs, in one role. `version`: the Kafka release of its pods."""

    node_id: NodeId
    role: Listener
    version: FilledText | None = None


class StrimziLine(Timed, tag=KIND, frozen=True, gc=False, kw_only=True):
    """The Strimzi resources of one cluster. `version`, `metadata_version`: None = the operator
    chooses; `status_…`: from the resource's status; `nodes_complete`: no node pool is missing."""

    resource: FilledText
    version: FilledText | None = None
    metadata_version: FilledText | None = None
    status_version: FilledText | None = None
    status_metadata_version: FilledText | None = None
    refused: Text | None = None  # why the operator could not change metadata.version
    paused: Truth
    nodes_complete: Truth
    nodes: list[StrimziNode]

    def content(self) -> Self:
        if not RESOURCE.fullmatch(self.resource):
            expected = "expected NAMESPACE/NAME of a Kafka resource"
            raise FaultError(f"resource: {expected}, found {show(self.resource)}")
        if len({(node.node_id, node.role) for node in self.nodes}) < len(self.nodes):
            raise FaultError("nodes: a node is in the list more than once with the same role")
        return self


# --- As in the API server's responses -------------------------------------------------------------


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    namespace: str | None = None  # pods in a StrimziPodSet have no namespace
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Authentication(msgspec.Struct, frozen=True):
    type: str | None = None


class _Listener(msgspec.Struct, frozen=True):
    name: str
    tls: bool | None = None
    authentication: _Authentication | None = None

    @property
    def asks(self) -> tuple[str, ...]:
        """The requirements of the listener for clients, such as TLS."""
        kind = (self.authentication.type or "an own way") if self.authentication else ""
        return (*(("TLS",) if self.tls else ()), *((f"authentication {kind}",) if kind else ()))


class _KafkaOfSpec(msgspec.Struct, frozen=True, rename="camel"):
    version: str | None = None
    metadata_version: str | None = None
    listeners: list[_Listener] | None = None  # before v1beta2 the listeners are an object


class _KafkaSpec(msgspec.Struct, frozen=True):
    kafka: _KafkaOfSpec


class _Condition(msgspec.Struct, frozen=True):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None


class _Pool(msgspec.Struct, frozen=True):
    name: str | None = None


class _ListenerStatus(msgspec.Struct, frozen=True, rename="camel"):
    name: str | None = None
    type: str | None = None  # before 0.34 the type is the listener's name
    bootstrap_servers: str | None = None


class _KafkaStatus(msgspec.Struct, frozen=True, rename="camel"):
    cluster_id: str | None = None
    kafka_version: str | None = None
    kafka_metadata_version: str | None = None
    conditions: list[_Condition] | None = None
    kafka_node_pools: list[_Pool] | None = None
    listeners: list[_ListenerStatus] | None = None


class _Kafka(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _KafkaSpec | None = None  # v1beta2 accepts resources without a spec
    status: _KafkaStatus | None = None

    @property
    def name(self) -> str:
        """The resource as NAMESPACE/NAME."""
        return f"{self.metadata.namespace or ''}/{self.metadata.name}"


class _PoolSpec(msgspec.Struct, frozen=True):
    roles: list[str] | None = None


class _PoolStatus(msgspec.Struct, frozen=True, rename="camel"):
    node_ids: list[int] | None = None
    roles: list[str] | None = None


class _NodePool(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _PoolSpec | None = None
    status: _PoolStatus | None = None


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Metadata


class _Pods(msgspec.Struct, frozen=True):
    pods: list[_Pod] | None = None


class _PodSet(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _Pods | None = None


_TYPES: dict[str, type[_Kafka | _NodePool | _PodSet]] = {
    "Kafka": _Kafka,
    "KafkaNodePool": _NodePool,
    "StrimziPodSet": _PodSet,
}


class ListedListener(NamedTuple):
    """A listener of a cluster: addresses host:port,…, and requirements for clients."""

    name: str
    servers: str
    asks: tuple[str, ...]


class StrimziCluster(NamedTuple):
    """A Kafka resource with the fields of its landing line and its listeners."""

    cluster_id: str
    resource: str
    keys: Mapping[str, object]
    listeners: tuple[ListedListener, ...]

    @property
    def name(self) -> str:
        """The name of the Kafka resource without namespace."""
        return self.resource.partition("/")[2]

    @property
    def text(self) -> str:
        """The fields of the resource as text."""
        nodes, level = self.keys["nodes"], self.keys["metadata_version"]
        assert isinstance(nodes, list)
        role_counts = sorted(Counter(node.role for node in nodes).items())
        counted = " and ".join(count(number, role) for role, number in role_counts)
        texts = [
            f"{counted or 'no nodes'}{'' if self.keys['nodes_complete'] else ', not all pools'}"
        ]
        texts.append(
            f"asked for: Kafka {show(str(self.keys['version'] or 'as the operator chooses'))}"
        )
        texts.append(f"metadata.version {show(str(level or 'as the operator chooses'))}")
        return ", ".join(texts)

    def line(self, observed_at: int) -> bytes:
        """Return the landing line of the resource. `observed_at`: microseconds."""
        return write_line(KIND, self.cluster_id, observed_at, self.keys)


class StrimziFleet(NamedTuple):
    """The clusters in a set of resources. `left_out`: why other Kafka resources are ignored."""

    clusters: tuple[StrimziCluster, ...]
    left_out: tuple[str, ...]


def objects_of(text: str, source: str) -> Iterator[object]:
    """Yield the JSON objects in a text, and those in lists. Raises LandingError."""
    decoder, at = json.JSONDecoder(), 0
    while remainder := text[at:].lstrip():
        at = len(text) - len(remainder)
        try:
            document, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            line = text.count("\n", 0, getattr(error, "pos", at)) + 1
            actual = "another text" if isinstance(error, ValueError) else "JSON nested too deep"
            raise _fault(f"{source}:{line}", f"the JSON of {COMMAND}", actual) from None
        items = document.get("items") if isinstance(document, dict) else None
        yield from items if isinstance(items, list) else [document]


def read_resources(objects: Iterable[object], source: str) -> StrimziFleet:
    """Return the clusters in Strimzi resources. Raises LandingError, with `source`, if there is no
    Kafka resource."""
    count, kafkas, nodes = 0, list[_Kafka](), dict[str, dict[str, list[StrimziNode]]]()
    for count, item in enumerate(objects, start=1):
        resource = _resource(item, f"{source}: object {count}")
        if isinstance(resource, _Kafka):
            kafkas.append(resource)
        elif resource is not None:
            metadata = resource.metadata
            cluster = f"{metadata.namespace}/{(metadata.labels or {}).get(_CLUSTER)}"
            halves = _of_pods(resource) if isinstance(resource, _PodSet) else _of_pool(resource)
            nodes.setdefault(cluster, {}).setdefault(metadata.name, []).extend(halves)
    if not kafkas:
        expected = f"Kafka resources of Strimzi, the output of {COMMAND}"
        raise _fault(source, expected, f"{count} other objects")
    ids = Counter(kafka.status.cluster_id for kafka in kafkas if kafka.status)
    faults = [_why_ignored(kafka, ids) for kafka in kafkas]
    return StrimziFleet(
        tuple(
            _cluster(kafka, nodes.get(kafka.name, {}))
            for kafka, fault in zip(kafkas, faults, strict=True)
            if not fault
        ),
        tuple(
            f"{show(kafka.name)}: left out, {fault}"
            for kafka, fault in zip(kafkas, faults, strict=True)
            if fault
        ),
    )


def _fault(source: str, expected: str, actual: str) -> LandingError:
    return LandingError(f"{source}: expected {expected}, found {actual}. Nothing was written.")


def _resource(item: object, source: str) -> _Kafka | _NodePool | _PodSet | None:
    """Return a Kubernetes object as typed Strimzi resource; None for other objects."""
    keys = item if isinstance(item, dict) else {}
    kind, version = keys.get("kind"), keys.get("apiVersion")
    if not isinstance(kind, str) or not isinstance(version, str):
        actual = show(json.dumps(item, ensure_ascii=False))
        raise _fault(source, "a Kubernetes object with apiVersion and kind", actual)
    if kind == "Status":  # an error of the API server
        raise _fault(source, "resources", f"an error: {show(str(keys.get('message')))}")
    if kind not in _TYPES or not version.startswith(_GROUPS):
        return None
    try:
        return msgspec.convert(item, _TYPES[kind])
    except msgspec.ValidationError as error:
        raise _fault(source, f"a {kind} of Strimzi", str(error)) from None


def _why_ignored(kafka: _Kafka, ids: Mapping[str | None, int]) -> str:
    """Return the reason why a Kafka resource is ignored; "" if it is used."""
    own_id = kafka.status.cluster_id if kafka.status else None
    if not RESOURCE.fullmatch(kafka.name):
        return "because Kubernetes does not allow its name"
    if kafka.spec is None:
        return "because it has no spec, so its requested software is unknown"
    if not own_id:
        return "because its status has no clusterId: the operator has not started the cluster yet"
    if len(own_id) > CLUSTER_LENGTH or not own_id.isprintable():
        return f"since Kafka has no such cluster id: {show(own_id)}"
    if ids[own_id] > 1:
        return f"since {ids[own_id]} Kafka resources say that they are cluster {show(own_id)}"
    return ""


def _cluster(kafka: _Kafka, by_resource: Mapping[str, Sequence[StrimziNode]]) -> StrimziCluster:
    assert kafka.spec is not None
    status, spec = kafka.status or _KafkaStatus(), kafka.spec.kafka
    nodes: dict[_NodeKey, StrimziNode] = {}
    for node in sorted(chain.from_iterable(by_resource.values()), key=lambda of: not of.version):
        nodes.setdefault((node.node_id, node.role), node)
    pools = [pool.name or "" for pool in status.kafka_node_pools or ()]
    name = kafka.metadata.name
    node_lists = [by_resource.get(pool) or by_resource.get(f"{name}-{pool}") for pool in pools]
    conditions = {c.reason or "": c for c in status.conditions or ()}
    conditions |= {c.type or "": c for c in status.conditions or ()}
    refused = conditions.get(_REFUSED)
    keys: dict[str, object] = {
        "resource": kafka.name,
        "version": spec.version or None,
        "metadata_version": spec.metadata_version or None,
        "status_version": status.kafka_version or None,
        "status_metadata_version": status.kafka_metadata_version or None,
        "refused": refused and (refused.message or _REFUSED)[:_LONGEST],
        "paused": _PAUSED in conditions,
        "nodes_complete": bool(nodes) and all(node_lists),
        "nodes": [nodes[key] for key in sorted(nodes)],
    }
    asks = {listener.name: listener.asks for listener in spec.listeners or ()}
    listeners = tuple(
        ListedListener(known := of.name or of.type or "", of.bootstrap_servers, asks.get(known, ()))
        for of in status.listeners or ()
        if of.bootstrap_servers
    )
    return StrimziCluster(status.cluster_id or "", kafka.name, keys, listeners)


def _of_pool(pool: _NodePool) -> Iterator[StrimziNode]:
    status, spec = pool.status or _PoolStatus(), pool.spec or _PoolSpec()
    for node_id in status.node_ids or ():
        yield from _node_roles(node_id, status.roles or spec.roles or (), None)


def _of_pods(pods: _PodSet) -> Iterator[StrimziNode]:
    """Yield the nodes of a pod set. Pods without roles are brokers."""
    labels = pods.metadata.labels or {}
    if labels.get(_KIND) != "Kafka" or pods.metadata.name.endswith("-zookeeper"):
        return  # a resource of Kafka Connect or ZooKeeper
    version = (pods.metadata.annotations or {}).get(_VERSION)
    for pod in (pods.spec and pods.spec.pods) or ():
        labels, number = pod.metadata.labels or {}, _POD.fullmatch(pod.metadata.name)
        roles = [role for label, role in _ROLES.items() if labels.get(label) == "true"]
        pod_version = (pod.metadata.annotations or {}).get(_VERSION) or version
        if number is not None:
            yield from _node_roles(int(number[1]), roles or ["broker"], pod_version or None)


def _node_roles(node_id: int, roles: Iterable[str], version: str | None) -> Iterator[StrimziNode]:
    """Yield a node per role; none if the id is invalid."""
    for role in _ROLES.values():
        if role in roles and 0 <= node_id <= INT32_MAX:
            yield StrimziNode(node_id=node_id, role=role, version=version)
