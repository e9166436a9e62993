"""What the describe_* kinds share: somebody was asked, and answered or did not.

An unanswered request claims nothing, so its line needs neither a time nor a version; an answer
needs both. An answer with an error code counts as not answered. What an answer says beside the
fields that are used may be anything; a `Whole` line knows it all in the form that Kafka gives it.
"""

from __future__ import annotations

import msgspec

from featurelib.feature import Role
from featurelib.landing.envelope import Line
from featurelib.landing.fault import FaultError, show
from featurelib.landing.wire import (
    DescribeVersion,
    FilledText,
    Int16,
    Listener,
    NodeId,
    Text,
)

_ROLES = {role.text: role for role in Role}
# What is not used of an answer, in the form that Kafka gives it.
Unused = str | int | float | bool | None | msgspec.UnsetType


class RequestLine(Line, frozen=True, gc=False, kw_only=True):
    """One request that was made, and what came back; each kind says who was asked."""

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


class DescribeLine(RequestLine, frozen=True, gc=False, kw_only=True):
    """One request to one listener that names whom the whole cluster has."""

    asked_node: NodeId
    listener: Listener
    version: DescribeVersion | None = None

    @property
    def role(self) -> Role:
        return _ROLES[self.listener]
