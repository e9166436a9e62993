"""`probe`: one UpdateFeatures request to validate only, as it was put to the active controller, and
the answer. Nothing was written by it.

A request nobody answered claims nothing. An answer is read for each update as Kafka means it: an
error of the whole request counts for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from featurelib.core.outcome import Heard
from featurelib.core.reply import Reply, Result
from featurelib.landing.envelope import Timed
from featurelib.landing.fault import FaultError
from featurelib.landing.wire import FilledText, Int16, Level, Text


class ProbeAnswer(msgspec.Struct, frozen=True, gc=False):
    """One update that was asked about; `code` None = nothing was said about it."""

    feature: str
    from_level: int
    to_level: int
    code: int | None
    message: str


class Probe(msgspec.Struct, frozen=True, gc=False):
    """What the controller said; `code` of the whole request, None = it did not answer."""

    answers: tuple[ProbeAnswer, ...]
    code: int | None


class _Update(msgspec.Struct, frozen=True, gc=False):
    feature: FilledText
    from_level: Level
    to_level: Level


class _Result(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    feature: FilledText
    error_code: Int16
    error_message: Text | None = None


class _Answer(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    error_code: Int16
    error_message: Text | None = None
    # None = the wire version has none
    results: Annotated[Sequence[_Result], Meta(description="a list of results")] | None = None


class ProbeLine(Timed, tag="probe", frozen=True, gc=False, kw_only=True):
    """The line as it stands in the file."""

    updates: Annotated[
        Sequence[_Update], Meta(min_length=1, description="a list of at least one update")
    ]
    answer: Annotated[_Answer | None, Meta(description="an object")] = None
    error: FilledText | None = None

    def content(self) -> Probe:
        """What was observed; FaultError for a line that says both an answer and an error."""
        if (self.answer is None) == (self.error is None):
            raise FaultError("expected either an answer or an error, found both or neither")
        if len({update.feature for update in self.updates}) < len(self.updates):
            raise FaultError("updates: expected each feature once, found one more than once")
        heard = Heard(reply=None if self.answer is None else _reply(self.answer))
        answers = []
        for update in self.updates:
            code, message = heard.of(update.feature)
            said = ProbeAnswer(
                update.feature, update.from_level, update.to_level, code, message or ""
            )
            answers.append(said)
        return Probe(tuple(answers), None if self.answer is None else self.answer.error_code)


def _reply(answer: _Answer) -> Reply:
    results = None
    if answer.results is not None:
        results = tuple(
            Result(feature=one.feature, code=one.error_code, message=one.error_message)
            for one in answer.results
        )
    return Reply(code=answer.error_code, message=answer.error_message, results=results)
