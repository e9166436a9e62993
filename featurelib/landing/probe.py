"""`probe`: one UpdateFeatures request to validate only, as it was put to the active controller, and
the answer. Nothing was written by it.

A request nobody answered claims nothing. An answer is read for each update as Kafka means it: an
error of the whole request counts for all of them.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from featurelib.core.outcome import Delivery
from featurelib.landing.fields import FilledText, Level, Timed
from featurelib.landing.responses import UpdateFeatures
from featurelib.landing.strict import FaultError


class ProbeAnswer(msgspec.Struct, frozen=True, gc=False):
    """One update that was asked about; `code` None = nothing was said about it."""

    feature: str
    from_level: int
    to_level: int
    code: int | None
    message: str


class ProbeReply(msgspec.Struct, frozen=True, gc=False):
    """What the controller said; `code` of the whole request, None = it did not answer."""

    answers: tuple[ProbeAnswer, ...]
    code: int | None


class ProbedUpdate(msgspec.Struct, frozen=True, gc=False):
    """One update of the request."""

    feature: FilledText
    from_level: Level
    to_level: Level


class ProbeLine(Timed, tag="probe", frozen=True, gc=False, kw_only=True):
    """The line as it stands in the file."""

    updates: Annotated[
        list[ProbedUpdate], Meta(min_length=1, description="a list of at least one update")
    ]
    answer: Annotated[UpdateFeatures | None, Meta(description="an object")] = None
    error: FilledText | None = None

    def content(self) -> ProbeReply:
        """What was observed; FaultError for a line that says both an answer and an error."""
        if (self.answer is None) == (self.error is None):
            raise FaultError("expected either an answer or an error, found both or neither")
        if len({update.feature for update in self.updates}) < len(self.updates):
            raise FaultError("updates: expected each feature once, found one more than once")
        heard = Delivery(reply=None if self.answer is None else self.answer.reply)
        answers = []
        for update in self.updates:
            code, message = heard.of(update.feature)
            answers.append(
                ProbeAnswer(update.feature, update.from_level, update.to_level, code, message or "")
            )
        return ProbeReply(tuple(answers), None if self.answer is None else self.answer.error_code)
