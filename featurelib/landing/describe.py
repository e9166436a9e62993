"""`describe_cluster`, `describe_quorum`, `describe_configs`: somebody was asked, and answered or
did not.

An unanswered request claims nothing, so its line needs neither a time nor a version; an answer
needs both. An answer with an error code counts as not answered. What an answer says beside the
fields that are used may be anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta

from featurelib.feature import Role
from featurelib.landing.fields import (
    ConfigsVersion,
    DescribeVersion,
    EndpointType,
    FilledText,
    Int16,
    Line,
    Listener,
    NodeId,
    Text,
    Truth,
)
from featurelib.landing.responses import (
    BROKERS,
    METADATA_TOPIC,
    DescribeCluster,
    DescribeConfigs,
    DescribeQuorum,
    Partition,
    Replica,
    Resource,
    given,
)
from featurelib.landing.strict import FaultError, show

_ROLES = {role.text: role for role in Role}
_OBJECT = Meta(description="an object")
# A follower fetches twice a second (RaftClient, MAX_FETCH_WAIT_MS); a broker is fenced after 9 s.
FOLLOWS_WITHIN_MS = 10_000
# What is asked for of configurations, and all that is read: none of it is a secret.
BROKER_DEFAULT: Final = ""  # the resource that stands for all brokers
KEYS: Final = (
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "min.insync.replicas",
    "node.id",
    "process.roles",
    "unstable.api.versions.enable",
    "unstable.feature.versions.enable",
)
# (key, value, source) of KEYS, by key; a key that is not set may be left out. Sources are those of
# DescribeConfigsResponse: 2 one broker, 3 the default of brokers, 4 the node's file, 5 Kafka's own.
Values = tuple[tuple[str, str | None, int], ...]


class ClusterDescription(msgspec.Struct, frozen=True, gc=False):
    """One DescribeCluster answer; `brokers` is (id, fenced) by id, fenced None = not said: before
    version 2 nothing tells a fenced broker from one that does not exist.

    `endpoint_type` 1 = the list holds brokers, 2 = controllers. `controller_id` -1 = unknown.
    """

    asked_node: int
    listener: Role
    version: int | None  # None = not answered
    endpoint_type: int
    include_fenced: bool
    controller_id: int
    brokers: tuple[tuple[int, bool | None], ...]
    answered: bool
    error_code: int = 0
    principal: str = ""  # who asked; "" = not known


class QuorumDescription(msgspec.Struct, frozen=True, gc=False):
    """One DescribeQuorum answer; voters and observers are node ids, ascending.

    Of the observers those that follow. -1 as leader, epoch or high watermark = unknown.
    """

    asked_node: int
    listener: Role
    version: int | None  # None = not answered
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[int, ...]
    observers: tuple[int, ...]
    answered: bool
    error_code: int = 0
    principal: str = ""  # who asked; "" = not known


class ConfigDescription(msgspec.Struct, frozen=True, gc=False):
    """One DescribeConfigs answer (KIP-226, KIP-919); `resources` are those it was given for: the
    asked node's id or BROKER_DEFAULT, and the values. Not `answered` = for none; the code says
    why."""

    asked_node: int
    listener: Role
    endpoint: str
    version: int | None  # None = not answered
    resources: tuple[tuple[str, Values], ...]
    answered: bool
    error_code: int = 0
    principal: str = ""  # who asked; "" = not known


class RequestLine(Line, frozen=True, gc=False, kw_only=True):
    """One request that was made, and what came back; each kind says who was asked."""

    asked_node: NodeId
    error: FilledText | None = None
    error_code: Int16 | None = None  # beside `error`: what the answer said
    principal: Text | None = None  # who asked, as an authorizer names it
    why: Text | None = None

    def require_one(self, is_answered: bool, version: int | None) -> None:
        """Raise FaultError if the line says both an answer and an error, or neither."""
        if not is_answered:
            if self.error is None and self.why is None:
                raise FaultError("neither an answer nor an error: expected answer, error or why")
            return
        if self.error is not None:
            raise FaultError(f"error: expected none beside an answer, found {show(self.error)}")
        for name, found in (("observed_at", self.observed_at), ("version", version)):
            if found is None:
                raise FaultError(f"{name} is missing: expected beside an answer")


class DescribeClusterLine(RequestLine, tag="describe_cluster", frozen=True, gc=False, kw_only=True):
    """The line as it stands in the file."""

    listener: Listener
    version: DescribeVersion | None = None
    endpoint_type: EndpointType | None = None  # version 0 knows brokers only
    include_fenced_brokers: Truth | None = None
    answer: Annotated[DescribeCluster | None, _OBJECT] = None

    def content(self) -> ClusterDescription:
        """What was observed; FaultError for an answer that is none."""
        answer = self.answer
        self.require_one(answer is not None, self.version)
        listed = answer.brokers if answer else ()
        fenced = {one.broker_id: one.is_fenced for one in listed}
        if len(fenced) < len(listed):
            raise FaultError("answer.brokers: expected each broker once, found one more than once")
        return ClusterDescription(
            self.asked_node,
            _ROLES[self.listener],
            self.version,
            self.endpoint_type or BROKERS,
            bool(self.include_fenced_brokers),
            answer.controller_id if answer else -1,
            tuple((node, None if of is UNSET else of) for node, of in sorted(fenced.items())),
            answer is not None and answer.error_code == 0,
            (answer.error_code if answer else 0) or self.error_code or 0,
            self.principal or "",
        )


class DescribeQuorumLine(RequestLine, tag="describe_quorum", frozen=True, gc=False, kw_only=True):
    """The line as it stands in the file."""

    listener: Listener
    version: DescribeVersion | None = None
    answer: Annotated[DescribeQuorum | None, _OBJECT] = None

    def content(self) -> QuorumDescription:
        """What was observed; FaultError for an answer that is none."""
        self.require_one(self.answer is not None, self.version)
        quorum = _quorum(self.answer) if self.answer else None
        code = self.error_code or 0
        if self.answer is not None:
            code = self.answer.error_code or (quorum.error_code if quorum else 0)
        said = quorum if quorum is not None and code == 0 else None
        return QuorumDescription(
            self.asked_node,
            _ROLES[self.listener],
            self.version,
            said.leader_id if said else -1,
            said.leader_epoch if said else -1,
            said.high_watermark if said else -1,
            _ids(said.current_voters) if said else (),
            _ids(_following(said)) if said else (),
            said is not None,
            code,
            self.principal or "",
        )


def _quorum(answer: DescribeQuorum) -> Partition | None:
    """The metadata partition of an answer; None if the whole answer is an error."""
    if answer.error_code:
        return None
    for topic in answer.topics:
        for partition in topic.partitions:
            if topic.topic_name == METADATA_TOPIC and partition.partition_index == 0:
                return partition
    raise FaultError(f"answer.topics: expected partition 0 of {METADATA_TOPIC}, found none")


def _following(quorum: Partition) -> list[Replica]:
    """The observers that fetched lately: Kafka lists one for five minutes after its last fetch
    (LeaderState.OBSERVER_SESSION_TIMEOUT_MS). The leader's own entry has the time of the answer
    (LeaderState.describeReplicaState); where no time is said, being listed is all there is."""
    now = max(map(_fetched_at, (*quorum.current_voters, *quorum.observers)), default=-1)
    fetched = ((one, _fetched_at(one)) for one in quorum.observers)
    return [one for one, at in fetched if at < 0 or now - at <= FOLLOWS_WITHIN_MS]


def _fetched_at(replica: Replica) -> int:
    at = replica.last_fetch_timestamp
    return -1 if at is UNSET else at


def _ids(replicas: Iterable[Replica]) -> tuple[int, ...]:
    """Each id once: a replica that changed its disk may be listed twice, with two directories."""
    return tuple(sorted({replica.replica_id for replica in replicas}))


class DescribeConfigsLine(RequestLine, tag="describe_configs", frozen=True, gc=False, kw_only=True):
    """The line as it stands in the file."""

    role: Listener
    endpoint: FilledText
    version: ConfigsVersion | None = None
    answer: Annotated[DescribeConfigs | None, _OBJECT] = None

    def content(self) -> ConfigDescription:
        """What was observed; FaultError for an answer that is none."""
        self.require_one(self.answer is not None, self.version)
        results = self.answer.results if self.answer else []
        if len({result.resource_name for result in results}) < len(results):
            raise FaultError(
                "answer.results: expected each resource once, found one more than once"
            )
        values = [self._values(one, f"answer.results[{i}]") for i, one in enumerate(results)]
        resources = tuple(
            (result.resource_name, of)
            for result, of in zip(results, values, strict=True)
            if result.error_code == 0
        )
        code = results[0].error_code if results else self.error_code or 0
        return ConfigDescription(
            self.asked_node,
            _ROLES[self.role],
            self.endpoint,
            self.version,
            resources,
            bool(resources),
            0 if resources else code,
            self.principal or "",
        )

    def _values(self, result: Resource, where: str) -> Values:
        name = result.resource_name
        if result.error_code == 0 and name not in (BROKER_DEFAULT, str(self.asked_node)):
            # Kafka answers for itself alone: "Unexpected broker id" (ConfigHelper).
            raise FaultError(
                f'{where}.resource_name: expected "{self.asked_node}", which was asked, or "", '
                f"found {show(name)}"
            )
        known = {one.name: one for one in result.configs}
        if len(known) < len(result.configs):
            raise FaultError(f"{where}.configs: expected each key once, found one more than once")
        return tuple(
            (key, given(known[key].value), known[key].config_source)
            for key in KEYS
            if key in known and not known[key].is_sensitive
        )
