"""`describe_cluster`: which brokers, or controllers, one node knows of.

Before version 2 nothing tells a fenced broker from one that does not exist: such a list is never
proof that it is complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta

from featurelib.feature import Role
from featurelib.landing.describe import DescribeLine, Unused
from featurelib.landing.fault import FaultError
from featurelib.landing.wire import EndpointType, Int16, NodeId, NodeIdOrNone, Truth

BROKERS = 1  # endpoint type


class ClusterDescription(msgspec.Struct, frozen=True, gc=False):
    """One DescribeCluster answer; `brokers` is (id, fenced) by id, fenced None = not said.

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


class _Broker(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    broker_id: NodeId
    is_fenced: Truth | None = None


class _WholeBroker(_Broker, frozen=True, gc=False):
    host: Unused = UNSET
    port: Unused = UNSET
    rack: Unused = UNSET


class _Answer(msgspec.Struct, frozen=True, gc=False):
    error_code: Int16
    controller_id: NodeIdOrNone
    brokers: Annotated[Sequence[_Broker], Meta(description="a list of brokers")]


class _WholeAnswer(_Answer, frozen=True, gc=False, kw_only=True):
    brokers: Sequence[_WholeBroker]
    throttle_time_ms: Unused = UNSET
    error_message: Unused = UNSET
    endpoint_type: Unused = UNSET
    cluster_id: Unused = UNSET
    authorized_operations: Unused = UNSET


_UNANSWERED = _Answer(error_code=0, controller_id=-1, brokers=[])


class DescribeClusterLine(
    DescribeLine, tag="describe_cluster", frozen=True, gc=False, kw_only=True
):
    """The line as it stands in the file."""

    endpoint_type: EndpointType | None = None  # version 0 knows brokers only
    include_fenced_brokers: Truth | None = None
    answer: Annotated[_Answer | None, Meta(description="an object")] = None

    def content(self) -> ClusterDescription:
        """What was observed; FaultError for an answer that is none."""
        self.require_one(self.answer is not None, self.version)
        answer = self.answer or _UNANSWERED
        brokers = sorted({broker.broker_id: broker.is_fenced for broker in answer.brokers}.items())
        if len(brokers) < len(answer.brokers):
            raise FaultError("answer.brokers: expected each broker once, found one more than once")
        return ClusterDescription(
            self.asked_node,
            self.role,
            self.version,
            self.endpoint_type or BROKERS,
            bool(self.include_fenced_brokers),
            answer.controller_id,
            tuple(brokers),
            self.answer is not None and answer.error_code == 0,
            answer.error_code or self.error_code or 0,
            self.principal or "",
        )


class WholeDescribeClusterLine(
    DescribeClusterLine, tag="describe_cluster", frozen=True, gc=False, kw_only=True
):
    """A line whose answer has no other fields than Kafka's."""

    answer: _WholeAnswer | None = None
