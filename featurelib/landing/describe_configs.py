"""`describe_configs`: what one node is configured with, of the few keys a verdict or a side effect
rests on.

A node speaks for itself (its own id as the resource), and for the default of all brokers ("").
Nothing secret is asked for; whatever else stands in an answer is not read. KIP-226, KIP-919.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta

from featurelib.core.configured import BROKER_DEFAULT
from featurelib.feature import Role
from featurelib.landing.describe import RequestLine, Unused
from featurelib.landing.fault import FaultError, show
from featurelib.landing.wire import (
    ConfigsVersion,
    FilledText,
    Int8,
    Int16,
    Listener,
    NodeId,
    Text,
    Truth,
)

# What is asked for, and all that is read: none of it is a secret.
KEYS: Final = (
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "min.insync.replicas",
    "node.id",
    "process.roles",
    "unstable.api.versions.enable",
    "unstable.feature.versions.enable",
)
BROKER = 4  # resource type; a controller is asked for its own configuration as one, too

# (key, value, source) of KEYS, by key; a key that is not set may be left out. Sources are those of
# DescribeConfigsResponse: 2 one broker, 3 the default of brokers, 4 the node's file, 5 Kafka's own.
Values = tuple[tuple[str, str | None, int], ...]


class ConfigDescription(msgspec.Struct, frozen=True, gc=False):
    """One DescribeConfigs answer; `resources` are those it was given for: the asked node's id or
    BROKER_DEFAULT, and the values. Not `answered` = for none; the code says why."""

    asked_node: int
    listener: Role
    endpoint: str
    version: int | None  # None = not answered
    resources: tuple[tuple[str, Values], ...]
    answered: bool
    error_code: int = 0
    principal: str = ""  # who asked; "" = not known


class _Synonym(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    name: Text
    value: Text | None = None
    source: Int8 = 0


class _Config(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    name: Text
    config_source: Int8
    is_sensitive: Truth
    value: Text | None = None


class _WholeSynonym(_Synonym, frozen=True, gc=False, kw_only=True, omit_defaults=False):
    value: Text | None
    source: Int8


class _WholeConfig(_Config, frozen=True, gc=False, kw_only=True, omit_defaults=False):
    value: Text | None
    read_only: Unused = UNSET
    synonyms: Sequence[_WholeSynonym] = ()


class _Result(msgspec.Struct, frozen=True, gc=False):
    error_code: Int16
    resource_type: Annotated[Literal[4], Meta(description="4 (a broker)")]
    resource_name: Text
    configs: Annotated[Sequence[_Config], Meta(description="a list of configurations")]


class _WholeResult(_Result, frozen=True, gc=False, kw_only=True):
    configs: Sequence[_WholeConfig]
    error_message: Unused = UNSET


class _Answer(msgspec.Struct, frozen=True, gc=False):
    results: Annotated[
        Sequence[_Result], Meta(min_length=1, description="a list of at least one result")
    ]


class _WholeAnswer(_Answer, frozen=True, gc=False, kw_only=True):
    results: Annotated[Sequence[_WholeResult], Meta(min_length=1)]
    throttle_time_ms: Unused = UNSET


class DescribeConfigsLine(RequestLine, tag="describe_configs", frozen=True, gc=False, kw_only=True):
    """The line as it stands in the file."""

    asked_node: NodeId
    role: Listener
    endpoint: FilledText
    version: ConfigsVersion | None = None
    answer: Annotated[_Answer | None, Meta(description="an object")] = None

    def content(self) -> ConfigDescription:
        """What was observed; FaultError for an answer that is none."""
        self.require_one(self.answer is not None, self.version)
        results = self.answer.results if self.answer else ()
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
            Role[self.role.upper()],
            self.endpoint,
            self.version,
            resources,
            bool(resources),
            0 if resources else code,
            self.principal or "",
        )

    def _values(self, result: _Result, where: str) -> Values:
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
            (key, known[key].value, known[key].config_source)
            for key in KEYS
            if key in known and not known[key].is_sensitive
        )


class WholeDescribeConfigsLine(
    DescribeConfigsLine, tag="describe_configs", frozen=True, gc=False, kw_only=True
):
    """A line whose answer has no other fields than Kafka's."""

    answer: _WholeAnswer | None = None
