"""What the two describe_* kinds share: somebody was asked, and answered or did not.

An unanswered request claims nothing, so its line needs neither a time nor a version; an answer
needs both. An answer with an error code counts as not answered.
"""

from __future__ import annotations

import msgspec

from featurelib.feature import Role
from featurelib.landing.document import require_strict
from featurelib.landing.envelope import Line
from featurelib.landing.fault import FaultError, show
from featurelib.landing.wire import DescribeVersion, FilledText, Listener, NodeId, Text

ABSENT = msgspec.Raw(b"")
_ROLES = {role.text: role for role in Role}


class DescribeLine(Line, frozen=True, gc=False, kw_only=True):
    """One request to one listener and what came back."""

    asked_node: NodeId
    listener: Listener
    version: DescribeVersion | None = None
    answer: msgspec.Raw = ABSENT
    error: FilledText | None = None
    why: Text | None = None

    @property
    def role(self) -> Role:
        return _ROLES[self.listener]

    def answer_text(self) -> bytes:
        """The answer as JSON, empty if none came; FaultError if the line says both or neither."""
        answer = bytes(self.answer)
        if answer in (b"", b"null"):
            if self.error is None and self.why is None:
                raise FaultError("neither an answer nor an error: expected answer, error or why")
            return b""
        if self.error is not None:
            raise FaultError(f"error: expected none beside an answer, found {show(self.error)}")
        for name, found in (("observed_at", self.observed_at), ("version", self.version)):
            if found is None:
                raise FaultError(f"{name} is missing: expected beside an answer")
        require_strict(answer)
        return answer
