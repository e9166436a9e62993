"""Answers of listeners, whatever version they came in: who belongs to a cluster, who leads it, and
what an update was answered. Nothing here knows a client; the responses are landing.responses.

Which version was asked and which answered stays with the answer. A field that a version lacks is
None, never a value that could be believed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from shlex import quote
from typing import Annotated, TypeVar

import msgspec

from featurelib.core.reply import Reply
from featurelib.errors import ProtocolError
from featurelib.landing.fields import NodeId
from featurelib.landing.responses import (
    ALTER,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    KEYS,
    NO_ERROR,
    NOT_AUTHORIZED,
    DescribeConfigs,
    DescribeQuorum,
    QuorumNode,
    UpdateFeatures,
)
from featurelib.words import clean

NOT_KNOWN = -1  # an offset
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
class ListenerAnswer:
    """One answer: `body` has the protocol's names in snake case, `at` is when it came."""

    api: Api
    version: int
    at: datetime
    body: dict[str, object]

    def read(self, shape: type[_T], part: object = None) -> _T:
        """The answer, or a part of it, in this shape. Raises ProtocolError."""
        try:
            return msgspec.convert(self.body if part is None else part, shape)
        except msgspec.ValidationError as error:
            raise ProtocolError(
                f"{self.api.title} version {self.version}: expected the fields of the protocol, "
                f"found: {error}. Is it Kafka that listens there?"
            ) from error

    @property
    def _head(self) -> _Head:
        """What is wrong with all of it; configurations say that of each resource, the node's own
        first."""
        is_of_many = self.api is Api.DESCRIBE_CONFIGS
        return self.read(_Heads).results[0] if is_of_many else self.read(_Head)

    @property
    def code(self) -> int:
        return self._head.error_code

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


class _Heads(msgspec.Struct, frozen=True):
    results: Annotated[list[_Head], msgspec.Meta(min_length=1)]


class _Member(msgspec.Struct, frozen=True):
    """A node as Metadata (`node_id`) or DescribeCluster (`broker_id`) lists it."""

    host: object
    port: object
    node_id: int | None = None
    broker_id: NodeId | None = None
    is_fenced: bool | None = None


class ListedMembers(msgspec.Struct, frozen=True):
    """Who belongs to a cluster, as Metadata or DescribeCluster of any version says it.

    `controller_id` -1 = unknown; of brokers in KRaft it is any broker.
    """

    cluster_id: str | None
    controller_id: int
    brokers: list[_Member]

    @property
    def addresses(self) -> dict[int, str]:
        """Node id → host:port."""
        return {node: address(one.host, one.port) for node, one in self._by_id}

    @property
    def fenced(self) -> set[int]:
        return {node for node, one in self._by_id if one.is_fenced}

    @property
    def _by_id(self) -> Iterator[tuple[int, _Member]]:
        for one in self.brokers:
            node = one.broker_id if one.node_id is None else one.node_id
            if node is not None:
                yield node, one


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
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


def quorum(answer: ListenerAnswer) -> QuorumState | None:
    """Read DescribeQuorum of any version; None for an error. Raises ProtocolError."""
    response = answer.read(DescribeQuorum)
    partition = next((p for topic in response.topics for p in topic.partitions), None)
    if response.error_code or partition is None or partition.error_code:
        return None
    voters = {one.replica_id: one.log_end_offset for one in partition.current_voters}
    end = voters.get(partition.leader_id)
    return QuorumState(
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        voters=tuple(sorted(voters)),
        addresses={
            node.node_id: tuple(address(one.host, one.port) for one in node.listeners)
            for node in answer.read(list[QuorumNode], response.nodes or [])
        },
        high_watermark=partition.high_watermark,
        log_end=end if isinstance(end, int) else NOT_KNOWN,
    )


def reply(answer: ListenerAnswer) -> Reply:
    """Read UpdateFeatures of any version, its codes and words as they came. Raises
    ProtocolError."""
    response = answer.read(UpdateFeatures)
    if answer.version > RESULTS_UP_TO:
        response = msgspec.structs.replace(response, results=None)
    return response.reply


def configurations(answer: ListenerAnswer) -> DescribeConfigs:
    """Read DescribeConfigs of any version, without whatever is sensitive or was not asked for.
    Raises ProtocolError."""
    response = answer.read(DescribeConfigs)
    results = [
        msgspec.structs.replace(
            one, configs=[c for c in one.configs if c.name in KEYS and not c.is_sensitive]
        )
        for one in response.results
    ]
    return msgspec.structs.replace(response, results=results)


def address(host: object, port: object) -> str:
    """host:port; an IPv6 host in brackets. A host that nobody can have is made safe to show."""
    shown = clean(str(host), LONGEST_HOST)
    return f"[{shown}]:{port}" if ":" in shown else f"{shown}:{port}"
