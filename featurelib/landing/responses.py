"""Define Kafka's responses, once for listeners, landing lines, sandbox clusters and recordings.

Names are the protocol's, in snake case. Fields that a judgement needs have a type and a bound.
Other fields (`Unused`) may have any value; they are declared, so that a line with only Kafka's own
fields can be proven strict at once. A field that a version lacks is UNSET or None, never a possible
value. ApiVersions has no type here: its fields are in the line (kinds.py).
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

import msgspec
from msgspec import UNSET, Meta, UnsetType

from featurelib.core.reply import Reply, Result
from featurelib.feature import Role
from featurelib.landing.fields import (
    Epoch,
    FilledText,
    Int8,
    Int16,
    Level,
    NodeId,
    NodeIdOrNone,
    Text,
    Truth,
)

Unused = object
_Words = Text | None | UnsetType
NO_ERROR, NOT_CONTROLLER, UNSUPPORTED_VERSION, TIMED_OUT = 0, 41, 35, 7
NOT_AUTHORIZED = 31  # error code CLUSTER_AUTHORIZATION_FAILED
# Operations on the resource CLUSTER, and the kinds of lines that need them.
DESCRIBE, ALTER, DESCRIBE_CONFIGS = "DESCRIBE", "ALTER", "DESCRIBE_CONFIGS"
QUORUM, MEMBERS, PROBE = "describe_quorum", "describe_cluster", "probe"
CONFIGS = "describe_configs"
UNLISTED = "unlisted"  # the kind in a refusal of the list of controllers
BROKERS, CONTROLLERS = 1, 2  # the endpoint types of DescribeCluster
METADATA_TOPIC = "__cluster_metadata"
SHOWS_FENCED_FROM = 2  # the first version of DescribeCluster that lists fenced brokers
NOT_OFFERED = "the listener does not offer {}"  # the reason for a missing response
BROKER: Final = 4  # the resource type of brokers; also for a controller's own configuration
BROKER_DEFAULT: Final = ""  # the resource of all brokers
VOTERS = "controller.quorum.voters"
IDLE_INTERVAL = "metadata.max.idle.interval.ms"
# The requested configuration keys; no key is a secret.
KEYS: Final = (
    "controller.quorum.bootstrap.servers",
    VOTERS,
    IDLE_INTERVAL,
    "min.insync.replicas",
    "node.id",
    "process.roles",
    "unstable.api.versions.enable",
    "unstable.feature.versions.enable",
)


def needed(request: str, role: Role) -> str:
    """Return the operation on CLUSTER that a request needs (ControllerApis, KafkaApis, 3.3 to 4.4).

    A controller lists controllers only to users who may alter the cluster.
    """
    if request == CONFIGS:
        return DESCRIBE_CONFIGS
    to_alter = request == PROBE or (request == MEMBERS and role is Role.CONTROLLER)
    return ALTER if to_alter else DESCRIBE


def given(text: str | UnsetType | None) -> str | None:
    """Return an optional text field; None if it is missing."""
    return None if text is UNSET else text


class Part(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A response of Kafka, or a part of it."""


class SupportedFeature(Part, frozen=True, gc=False):
    """A supported version range in ApiVersions."""

    name: FilledText
    min_version: Level
    max_version: Level


class ShownLevel(Part, frozen=True, gc=False):
    """A FinalizedLevel metric of a node. `name`: the feature, as in the metric's label."""

    name: FilledText
    level: Level


class FinalizedFeature(Part, frozen=True, gc=False):
    """A finalized feature in ApiVersions."""

    name: FilledText
    min_version_level: Level
    max_version_level: Level


class OfferedRequest(Part, frozen=True, gc=False):
    """A request that a node offers in ApiVersions, with its first and last version."""

    api_key: Int16
    min_version: Int16
    max_version: Int16


class ListedNode(Part, frozen=True, gc=False):
    """A broker or controller in a DescribeCluster response."""

    broker_id: NodeId
    is_fenced: Truth | UnsetType | None = UNSET  # responses before version 2 lack the field
    host: Unused = UNSET
    port: Unused = UNSET
    rack: Unused = UNSET


class DescribeCluster(Part, frozen=True, gc=False):
    """The brokers or controllers that one node lists. `controller_id` -1 = unknown."""

    error_code: Int16
    controller_id: NodeIdOrNone
    brokers: Annotated[list[ListedNode], Meta(description="a list of brokers")]
    cluster_id: Unused = UNSET
    endpoint_type: Unused = UNSET
    error_message: Unused = UNSET
    throttle_time_ms: Unused = UNSET
    authorized_operations: Unused = UNSET


class Replica(Part, frozen=True, gc=False):
    """A voter or an observer of the metadata quorum."""

    replica_id: NodeId
    last_fetch_timestamp: Epoch | UnsetType = UNSET  # milliseconds; -1 or UNSET = unknown
    log_end_offset: Unused = UNSET
    last_caught_up_timestamp: Unused = UNSET
    replica_directory_id: object = UNSET  # a UUID; zeros or another type = unknown


class Partition(Part, frozen=True, gc=False):
    """The metadata topic's partition. Leader, epoch or high watermark -1 = unknown."""

    partition_index: NodeId
    error_code: Int16
    leader_id: NodeIdOrNone
    leader_epoch: NodeIdOrNone  # an epoch has the range of a node id
    high_watermark: Epoch
    current_voters: Annotated[list[Replica], Meta(description="a list of replicas")]
    observers: Annotated[list[Replica], Meta(description="a list of replicas")]
    error_message: Unused = UNSET


class Topic(Part, frozen=True, gc=False):
    topic_name: Text
    partitions: Annotated[list[Partition], Meta(description="a list of partitions")]


class QuorumListener(Part, frozen=True, gc=False):
    host: Unused
    port: Unused
    name: Unused = UNSET


class QuorumNode(Part, frozen=True, gc=False):
    """A voter with its listeners in DescribeQuorum."""

    node_id: NodeId
    listeners: list[QuorumListener]


class DescribeQuorum(Part, frozen=True, gc=False):
    """A DescribeQuorum response: voters and observers. `nodes`: from version 2 on, QuorumNode."""

    error_code: Int16
    topics: Annotated[list[Topic], Meta(description="a list of topics")]
    nodes: Unused = UNSET
    error_message: Unused = UNSET
    throttle_time_ms: Unused = UNSET


class Configuration(Part, frozen=True, gc=False):
    """A configuration key with its value. `config_source`: a number in core.configured."""

    name: Text
    config_source: Int8
    is_sensitive: Truth
    value: _Words = UNSET
    read_only: Unused = UNSET
    synonyms: Unused = UNSET


class Resource(Part, frozen=True, gc=False):
    """The configuration of a node; `resource_name` "" = the default of all brokers."""

    error_code: Int16
    resource_type: Annotated[Literal[4], Meta(description="4 (a broker)")]
    resource_name: Text
    configs: Annotated[list[Configuration], Meta(description="a list of configurations")]
    error_message: Unused = UNSET


class DescribeConfigs(Part, frozen=True, gc=False):
    """A DescribeConfigs response: the configuration of each requested resource, in their order."""

    results: Annotated[
        list[Resource], Meta(min_length=1, description="a list of at least one result")
    ]
    throttle_time_ms: Unused = UNSET


class UpdatedFeature(Part, frozen=True, gc=False):
    feature: Text
    error_code: Int16
    error_message: _Words = UNSET


class UpdateFeatures(Part, frozen=True, gc=False):
    """An UpdateFeatures response. `results`: None or UNSET in versions without results."""

    error_code: Int16
    error_message: _Words = UNSET
    results: (
        Annotated[list[UpdatedFeature], Meta(description="a list of results")] | UnsetType | None
    ) = UNSET

    @classmethod
    def of(cls, reply: Reply) -> Self:
        """Return the typed response with the content of `reply`."""
        results = None
        if reply.results is not None:
            results = [
                UpdatedFeature(feature=row.feature, error_code=row.code, error_message=row.message)
                for row in reply.results
            ]
        return cls(error_code=reply.code, error_message=reply.message, results=results)

    @property
    def reply(self) -> Reply:
        """The response as a value of featurelib.core.reply.Reply."""
        results = None
        if isinstance(self.results, list):
            results = tuple(
                Result(feature=row.feature, code=row.error_code, message=given(row.error_message))
                for row in self.results
            )
        return Reply(code=self.error_code, message=given(self.error_message), results=results)
