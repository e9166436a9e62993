"""Decide the outcome of a request and of a run by the state; a response only explains it.

A finalized level counts as applied, whatever the response was: 4.1 changes kraft.version even if it
refuses the request, and ZooKeeper mode writes and then responds with 96. Another level counts as
not applied only with proof that no node can still apply the request. The proof is a final refusal;
or all nodes that may hold the request have handled all earlier requests (Passed), and the level is
the old one afterwards. Time proves nothing: a controller counts a request's timeout from its
handling, so a paused controller may apply the request minutes later. A lagging replica proves
nothing, nor does error 7, which a broker sends when it stops waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from featurelib.core.reply import NO_ERROR, Reply
from featurelib.feature import KRAFT_VERSION
from featurelib.model import Move, Step


class Fate(StrEnum):
    """The outcome of an update or of a step."""

    APPLIED = "applied"  # the level is finalized
    REJECTED = "rejected"  # the controller refused the update, and the level did not change
    NOT_APPLIED = "not applied"  # no refusal is known, and the level is unchanged
    OVERTAKEN = "overtaken"  # another tool changed the level, too
    UNKNOWN = "unknown"  # the level may be finalized or not
    PARTLY = "partly applied"  # some updates of a step are finalized, and some are not


# Final error codes: the controller rejected the request and will not apply it later. 96,
# REQUEST_TIMED_OUT and NOT_CONTROLLER are not final: the next leader may commit the record.
FINAL_ERRORS = frozenset({31, 35, 42, 95})


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The response to a request. `reply`: None if it was lost or the request was not sent."""

    reply: Reply | None = None
    sent: bool = True
    why: str = ""  # the reason for a missing reply

    def of(self, feature: str) -> tuple[int | None, str | None]:
        """Return (code, message) of the response for an update; (None, reason) without one."""
        return self.reply.of(feature) if self.reply else (None, self.why or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelsSeen:
    """The present finalized levels. `unknown`: the features that no trusted source reports."""

    levels: Mapping[str, int]
    unknown: frozenset[str] = frozenset()

    def level(self, feature: str) -> int | None:
        """Return the present level of a feature: 0 if not finalized, None if unknown."""
        return None if feature in self.unknown else self.levels.get(feature, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveOutcome:
    """The outcome of one update, its response, and the present level (None = unknown)."""

    update: Move
    fate: Fate
    code: int | None
    message: str | None
    level: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """The outcome of one request. `late`: nodes that do not yet report the new levels. `proof`: why
    the request cannot be applied later; `unproven`: why it still could be; "" = did not matter."""

    position: int
    updates: tuple[MoveOutcome, ...]
    late: tuple[str, ...] = ()
    asked: int = 0  # the number of nodes that should report the levels; a combined node counts once
    proof: str = ""
    unproven: str = ""

    @property
    def fate(self) -> Fate:
        """The outcome of the whole request, derived from its updates."""
        fates = {outcome.fate for outcome in self.updates}
        if Fate.UNKNOWN in fates:
            return Fate.UNKNOWN
        if len(fates) == 1:
            return next(iter(fates))
        if fates & {Fate.APPLIED, Fate.OVERTAKEN}:
            return Fate.PARTLY
        return Fate.REJECTED if Fate.REJECTED in fates else Fate.NOT_APPLIED


def settle(
    step: Step, position: int, delivery: Delivery, levels: LevelsSeen | None, *, proven: bool
) -> StepOutcome:
    """Return the outcome of a request from its response and the present levels (None = unreadable).

    `proven`: when `levels` was read, no node could apply the request any more.
    """
    outcomes = []
    for move in step.updates:
        code, message = delivery.of(move.feature)
        level = None if levels is None else levels.level(move.feature)
        result = _fate(move, step, delivery, level, proven=proven)
        outcomes.append(
            MoveOutcome(update=move, fate=result, code=code, message=message, level=level)
        )
    return StepOutcome(position=position, updates=tuple(outcomes))


def _fate(move: Move, step: Step, delivery: Delivery, level: int | None, *, proven: bool) -> Fate:
    code, _ = delivery.of(move.feature)
    if not delivery.sent:
        return Fate.NOT_APPLIED
    if level == move.to_level:
        return Fate.APPLIED
    is_final = code in FINAL_ERRORS and not may_have_leaked(move, step)
    if level is None:
        return Fate.REJECTED if is_final else Fate.UNKNOWN
    is_over = is_final or proven or code == NO_ERROR
    if level != move.from_level:
        return Fate.OVERTAKEN if is_over else Fate.UNKNOWN
    if is_final:
        return Fate.REJECTED
    if not proven:
        return Fate.UNKNOWN  # the controller accepted, but the queried node may lag
    if code == NO_ERROR:  # restored; 4.0 accepts a downgrade of kraft.version without effect
        return Fate.NOT_APPLIED if move.feature == KRAFT_VERSION else Fate.OVERTAKEN
    return Fate.NOT_APPLIED if code is None else Fate.REJECTED


def may_have_leaked(move: Move, step: Step) -> bool:
    """Return true if the update may be applied although its request is refused: kraft.version in a
    request with several updates, Kafka 4.1 and later (KAFKA-16538)."""
    return move.feature == KRAFT_VERSION and len(step.updates) > 1


def refused(step: Step, position: int, reply: Reply) -> StepOutcome:
    """Return the outcome of a request that the controller refused when it only validated."""
    answers = [(move, *reply.of(move.feature)) for move in step.updates]
    return StepOutcome(
        position=position,
        updates=tuple(
            MoveOutcome(
                update=move,
                fate=Fate.NOT_APPLIED if code == NO_ERROR else Fate.REJECTED,
                code=code,
                message=message,
                level=move.from_level,
            )
            for move, code, message in answers
        ),
    )


class EndingKind(StrEnum):
    """The ways in which an `apply` ends. A partly applied plan is never called applied."""

    APPLIED = "applied"  # every level is finalized, and every node reports it
    NOTHING_TO_DO = "nothing to do"  # every level was finalized before; no request was sent
    VALIDATED = "validated"  # the controller would accept the next step; no record was written
    REHEARSED = "rehearsed"  # everything was checked and no request was sent (--dry-run)
    REJECTED = "rejected"  # the controller refused, or got no request; no record was written
    STOPPED = "stopped"  # some levels were written, or not every node reports them
    UNKNOWN = "unknown"  # levels may have been written: run resume

    @property
    def exit_code(self) -> int:
        """The exit code of `featurelib apply`."""
        codes = {EndingKind.REJECTED: 3, EndingKind.STOPPED: 1, EndingKind.UNKNOWN: 4}
        return codes.get(self, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The result of one `apply`. `steps`: the steps of this call; `before`: the number of steps
    applied earlier."""

    kind: EndingKind
    cluster: str
    plan: str  # the digest of the plan
    total: int  # the number of steps in the plan
    before: int = 0
    steps: tuple[StepOutcome, ...] = ()
    reasons: tuple[str, ...] = ()  # the reasons why the run stopped

    @property
    def applied(self) -> int:
        """The number of steps of the plan that are applied, by this or an earlier call."""
        return self.before + sum(step.fate is Fate.APPLIED for step in self.steps)


def kind_of(
    steps: tuple[StepOutcome, ...], *, before: int, total: int, reasons: tuple[str, ...]
) -> EndingKind:
    """Return the ending of a run that sent `steps`."""
    fates = [step.fate for step in steps]
    is_complete = before + fates.count(Fate.APPLIED) == total
    if Fate.UNKNOWN in fates:
        return EndingKind.UNKNOWN
    if is_complete and not reasons and not any(step.late for step in steps):
        return EndingKind.APPLIED
    if before == 0 and set(fates) <= {Fate.REJECTED, Fate.NOT_APPLIED}:
        return EndingKind.REJECTED
    return EndingKind.STOPPED
