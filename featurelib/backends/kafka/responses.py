"""Answers of Kafka in one shape, whatever version they came in; nothing here knows a client.

Which version was asked and which answered stays with the answer. A field that a version lacks is
None, never a value that could be believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from shlex import quote
from typing import Annotated, TypeVar

import msgspec

from featurelib.audit.oddities import ALTER, DESCRIBE, DESCRIBE_CONFIGS, NOT_AUTHORIZED
from featurelib.core.reply import Reply, Result
from featurelib.errors import ProtocolError
from featurelib.landing.describe import KEYS
from featurelib.words import clean

NO_ERROR, NOT_CONTROLLER, UNSUPPORTED_VERSION = 0, 41, 35
BROKERS, CONTROLLERS = 1, 2  # endpoint types
NOT_KNOWN = -1  # an offset
METADATA_TOPIC = "__cluster_metadata"
LONGEST_WORDS, LONGEST_HOST = 500, 255  # characters
RESULTS_UP_TO = 1  # UpdateFeatures version 2 has no results (KIP-1022)

_T = TypeVar("_T")


class Api(IntEnum):
    """Requests that are sent, by API key."""

    METADATA = 3
    API_VERSIONS = 18
    DESCRIBE_CONFIGS = 32
    LIST_PARTITION_REASSIGNMENTS = 46
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60

    @property
    def title(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))


# What a user must be allowed to do on CLUSTER (docs/acls.md). A broker answers DescribeCluster to
# everybody; a controller only to those who may alter.
RIGHTS = {Api.DESCRIBE_QUORUM: DESCRIBE, Api.DESCRIBE_CLUSTER: ALTER}
RIGHTS |= {Api.UPDATE_FEATURES: ALTER, Api.LIST_PARTITION_REASSIGNMENTS: DESCRIBE}
RIGHTS |= {Api.DESCRIBE_CONFIGS: DESCRIBE_CONFIGS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer: `body` has the protocol's names in snake case, `at` is when it came."""

    api: Api
    version: int
    at: datetime
    body: dict[str, object]

    @property
    def code(self) -> int:
        return self._head.error_code

    @property
    def _head(self) -> _Head:
        """What is wrong with all of it; configurations say that of each resource, the node's own
        first."""
        if self.api is Api.DESCRIBE_CONFIGS:
            return _read(self, _Configs).results[0]
        return _read(self, _Head)

    @property
    def fault(self) -> str | None:
        """Why this is no answer, in words that say what to do; None if it is one."""
        head = self._head
        if head.error_code == NO_ERROR:
            return None
        if head.error_code == NOT_AUTHORIZED and self.api in RIGHTS:
            return missing_right(self.api)
        said = f": {clean(head.error_message, LONGEST_WORDS)}" if head.error_message else ""
        return f"{self.api.title} was answered with error {head.error_code}{said}"


def missing_right(api: Api, principal: str = "") -> str:
    """The operation that has to be allowed, in place of the controller's words: those show its
    own objects and no operation that could be looked up. `principal`: who asked, if it is known."""
    return (
        f"{api.title} is not authorized (error {NOT_AUTHORIZED}): the user needs the operation "
        f"{RIGHTS[api]} on the resource CLUSTER. kafka-acls.sh --add --allow-principal "
        f"{quote(principal or 'User:NAME')} --operation {RIGHTS[api]} --cluster"
    )


class _Head(msgspec.Struct, frozen=True):
    error_code: int = 0  # Metadata has none
    error_message: str | None = None


class _Configs(msgspec.Struct, frozen=True):
    results: Annotated[list[_Head], msgspec.Meta(min_length=1)]


class _Broker(msgspec.Struct, frozen=True):
    host: str
    port: int
    broker_id: int = -1
    node_id: int = -1  # Metadata's name of it
    is_fenced: bool | None = None


class _Cluster(msgspec.Struct, frozen=True):
    cluster_id: str | None
    controller_id: int
    brokers: list[_Broker]


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """Who belongs to a cluster, as Metadata or DescribeCluster says; node id → host:port.

    `controller_id` -1 = unknown; of brokers in KRaft it is any broker.
    """

    cluster_id: str
    controller_id: int
    addresses: dict[int, str]
    fenced: frozenset[int]


def members(answer: Answer) -> Members:
    """Metadata or DescribeCluster of any version. Raises ProtocolError."""
    said = _read(answer, _Cluster)
    ids = {max(one.broker_id, one.node_id): one for one in said.brokers}
    return Members(
        cluster_id=said.cluster_id or "",
        controller_id=said.controller_id,
        addresses={node: address(one.host, one.port) for node, one in ids.items()},
        fenced=frozenset(node for node, one in ids.items() if one.is_fenced),
    )


class _Listener(msgspec.Struct, frozen=True):
    host: str
    port: int


class _QuorumNode(msgspec.Struct, frozen=True):
    node_id: int
    listeners: list[_Listener]


class _Replica(msgspec.Struct, frozen=True):
    replica_id: int
    log_end_offset: int = NOT_KNOWN


class _Partition(msgspec.Struct, frozen=True):
    error_code: int
    leader_id: int
    leader_epoch: int
    current_voters: list[_Replica]
    high_watermark: int = NOT_KNOWN


class _Topic(msgspec.Struct, frozen=True):
    partitions: list[_Partition]


class _Quorum(msgspec.Struct, frozen=True):
    error_code: int
    topics: list[_Topic]
    nodes: list[_QuorumNode] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """Who leads the metadata quorum and where its voters listen; leader -1 = unknown.

    What is committed ends before `high_watermark`, and the leader's log before `log_end`; -1 = the
    leader does not know yet: it has committed nothing in its epoch (LeaderState).

    Addresses are there from version 2 on (3.9). Only the leader itself answers on a controller's
    listener, so that an answer there says whose listener it is.
    """

    leader_id: int
    leader_epoch: int
    voters: tuple[int, ...]
    addresses: dict[int, tuple[str, ...]]
    high_watermark: int = NOT_KNOWN
    log_end: int = NOT_KNOWN


def quorum(answer: Answer) -> Quorum | None:
    """DescribeQuorum of any version; None for one that says an error. Raises ProtocolError."""
    said = _read(answer, _Quorum)
    partitions = [p for topic in said.topics for p in topic.partitions]
    if said.error_code or not partitions or partitions[0].error_code:
        return None
    voters = {one.replica_id: one for one in partitions[0].current_voters}
    leader = voters.get(partitions[0].leader_id)
    return Quorum(
        leader_id=partitions[0].leader_id,
        leader_epoch=partitions[0].leader_epoch,
        voters=tuple(sorted(voters)),
        addresses={
            node.node_id: tuple(address(one.host, one.port) for one in node.listeners)
            for node in said.nodes
        },
        high_watermark=partitions[0].high_watermark,
        log_end=NOT_KNOWN if leader is None else leader.log_end_offset,
    )


class _Result(msgspec.Struct, frozen=True):
    feature: str
    error_code: int
    error_message: str | None = None


class _Update(msgspec.Struct, frozen=True):
    error_code: int
    error_message: str | None = None
    results: list[_Result] = []


def reply(answer: Answer) -> Reply:
    """UpdateFeatures of any version, its codes and words as they came. Raises ProtocolError."""
    said = _read(answer, _Update)
    results = tuple(
        Result(feature=one.feature, code=one.error_code, message=one.error_message)
        for one in said.results
    )
    return Reply(
        code=said.error_code,
        message=said.error_message,
        results=results if answer.version <= RESULTS_UP_TO else None,
    )


class _Synonym(msgspec.Struct, frozen=True):
    name: str
    value: str | None
    source: int


class _Config(msgspec.Struct, frozen=True):
    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_sensitive: bool
    synonyms: list[_Synonym]


class _Resource(msgspec.Struct, frozen=True):
    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str
    configs: list[_Config]


class _Resources(msgspec.Struct, frozen=True):
    throttle_time_ms: int
    results: list[_Resource]


def configurations(answer: Answer) -> dict[str, object]:
    """DescribeConfigs of any version, without whatever is sensitive or was not asked for. Raises
    ProtocolError."""
    said = _read(answer, _Resources)
    results = [
        msgspec.structs.replace(
            one, configs=[c for c in one.configs if c.name in KEYS and not c.is_sensitive]
        )
        for one in said.results
    ]
    found: dict[str, object] = msgspec.to_builtins(msgspec.structs.replace(said, results=results))
    return found


def address(host: str, port: int) -> str:
    """host:port; an IPv6 host in brackets. A host that nobody can have is made safe to show."""
    host = clean(host, LONGEST_HOST)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _read(answer: Answer, shape: type[_T]) -> _T:
    try:
        return msgspec.convert(answer.body, shape)
    except msgspec.ValidationError as error:
        raise ProtocolError(
            f"{answer.api.title} version {answer.version}: expected the fields of the protocol, "
            f"found: {error}. Is it Kafka that listens there?"
        ) from error
