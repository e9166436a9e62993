"""`describe_cluster`: which brokers, or controllers, one node knows of.

Before version 2 nothing tells a fenced broker from one that does not exist: such a list is never
proof that it is complete.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from featurelib.feature import Role
from featurelib.landing.describe import DescribeLine
from featurelib.landing.fault import FaultError
from featurelib.landing.shape import misfit
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


class _Broker(msgspec.Struct, frozen=True, gc=False):
    broker_id: NodeId
    is_fenced: Truth | None = None


class _Answer(msgspec.Struct, frozen=True, gc=False):
    error_code: Int16
    controller_id: NodeIdOrNone
    brokers: Annotated[list[_Broker], Meta(description="a list of brokers")]


_ANSWER = msgspec.json.Decoder(_Answer)
_UNANSWERED = _Answer(error_code=0, controller_id=-1, brokers=[])


class DescribeClusterLine(
    DescribeLine, tag="describe_cluster", frozen=True, gc=False, kw_only=True
):
    """The line as it stands in the file."""

    endpoint_type: EndpointType | None = None  # version 0 knows brokers only
    include_fenced_brokers: Truth | None = None

    def content(self) -> ClusterDescription:
        """What was observed; FaultError for an answer that is none."""
        text = self.answer_text()
        answer = self._answer(text) if text else _UNANSWERED
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
            bool(text) and answer.error_code == 0,
        )

    def _answer(self, text: bytes) -> _Answer:
        try:
            return _ANSWER.decode(text)
        except msgspec.ValidationError as error:
            raise misfit(text, _Answer, error, "answer") from None
