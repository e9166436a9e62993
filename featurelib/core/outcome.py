"""What became of a request: what is true decides, the controller's word only explains it.

A level that is there is applied, whatever was answered: 4.1 moves kraft.version while it refuses
the request, ZooKeeper mode writes and then answers 96. A level that is not there is not applied
only once it is proven that nobody can carry the request out any more: by a refusal for good, or
because everybody who may hold it has handled all that was sent before (Passed) and the level of
afterwards is the old one. No clock proves it: a controller reckons a request's time from when it
handles it, so one that stood still carries it out when it goes on, minutes later. Nor does a
replica that merely has not heard, nor error 7, which comes from a broker that gave up waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from featurelib.core.reply import NO_ERROR, Reply
from featurelib.feature import KRAFT_VERSION
from featurelib.model import Move, Step


class Fate(StrEnum):
    """What became of one update, or of a step."""

    APPLIED = "applied"  # the level is there
    REJECTED = "rejected"  # refused, and the level is as it was
    NOT_APPLIED = "not applied"  # not refused, or never sent, and the level is as it was
    OVERTAKEN = "overtaken"  # it is at another level: somebody else wrote too
    UNKNOWN = "unknown"  # it may be there or not
    PARTLY = "partly applied"  # of a step: some updates are there, some are not


# A controller that answers so has judged the request and is done with it: no rights to ALTER,
# UNSUPPORTED_VERSION, INVALID_REQUEST, INVALID_UPDATE_VERSION. Not among them: 96, and
# REQUEST_TIMED_OUT and NOT_CONTROLLER, since the next leader may commit what was appended.
FOR_GOOD = frozenset({31, 35, 42, 95})

NO_EPOCH = -1  # of a leader: ZooKeeper mode has none, or nobody said it


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """Whom a request was sent to: the active controller itself, or a broker that hands it on.

    `leader` led the quorum in `leader_epoch` when it was last looked at.
    """

    role: str  # controller, broker
    node: int
    address: str
    leader: int
    leader_epoch: int = NO_EPOCH

    @property
    def title(self) -> str:
        """`controller 3`, `broker 1`."""
        return f"{self.role} {self.node}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """Nothing that was sent before can still be carried out, so levels of afterwards count: those
    of a replica that holds the metadata log up to `offset` at least (None: of any look from now
    on). `how` is a sentence without its full stop."""

    how: str
    offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPassed:
    """A request that was sent may still be carried out: `why`, in words that say what is missing,
    and what helps."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What was heard of a request. Without a reply it was lost, or never `sent`."""

    reply: Reply | None = None
    sent: bool = True
    why: str = ""  # there is no reply

    def of(self, feature: str) -> tuple[int | None, str | None]:
        """The code and the words about one update; None = nothing was said."""
        if self.reply is None:
            return None, self.why or None
        if self.reply.code != NO_ERROR:
            return self.reply.code, self.reply.message
        if not self.reply.results:  # wire version 2 lists none where all is well
            return NO_ERROR, None
        said = {result.feature: result for result in self.reply.results}
        if feature not in said:
            return None, "the answer does not mention it"
        return said[feature].code, said[feature].message


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a look showed. `unknown`: the features whose level no trustworthy witness says."""

    levels: Mapping[str, int]
    unknown: frozenset[str] = frozenset()

    def level(self, feature: str) -> int | None:
        """0 = not finalized, None = not known."""
        return None if feature in self.unknown else self.levels.get(feature, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateOutcome:
    """What became of one update, the answer about it, and the level now (None = not known)."""

    update: Move
    fate: Fate
    code: int | None
    message: str | None
    level: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """What became of one request. `late` are nodes that do not report the levels it wrote.

    `proof` says why nothing of it can still be carried out, and `unproven` why something may; ""
    where that decided nothing.
    """

    position: int
    updates: tuple[UpdateOutcome, ...]
    late: tuple[str, ...] = ()
    asked: int = 0  # nodes whose report was waited for
    proof: str = ""
    unproven: str = ""

    @property
    def fate(self) -> Fate:
        """One word for the whole request."""
        fates = {outcome.fate for outcome in self.updates}
        if Fate.UNKNOWN in fates:
            return Fate.UNKNOWN
        if len(fates) == 1:
            return next(iter(fates))
        if fates & {Fate.APPLIED, Fate.OVERTAKEN}:
            return Fate.PARTLY
        return Fate.REJECTED if Fate.REJECTED in fates else Fate.NOT_APPLIED


def settle(
    step: Step, position: int, heard: Heard, seen: Seen | None, *, proven: bool
) -> StepOutcome:
    """What became of a request, by what was heard and seen (None: nothing could be seen).

    `proven`: nobody could carry it out any more when `seen` was seen.
    """
    outcomes = []
    for update in step.updates:
        code, message = heard.of(update.feature)
        level = None if seen is None else seen.level(update.feature)
        fate = _fate(update, step, heard, level, proven=proven)
        outcomes.append(
            UpdateOutcome(update=update, fate=fate, code=code, message=message, level=level)
        )
    return StepOutcome(position=position, updates=tuple(outcomes))


def _fate(update: Move, step: Step, heard: Heard, level: int | None, *, proven: bool) -> Fate:
    code, _ = heard.of(update.feature)
    if not heard.sent:
        return Fate.NOT_APPLIED
    if level == update.to_level:
        return Fate.APPLIED
    final = code in FOR_GOOD and not may_have_leaked(update, step)
    if level is None:
        return Fate.REJECTED if final else Fate.UNKNOWN
    is_over = final or proven or code == NO_ERROR
    if level != update.from_level:
        return Fate.OVERTAKEN if is_over else Fate.UNKNOWN
    if final:
        return Fate.REJECTED
    if not proven:
        return Fate.UNKNOWN  # where it was answered well, a replica that has not heard yet
    if code == NO_ERROR:  # it was written, and somebody took it back
        return Fate.OVERTAKEN
    return Fate.NOT_APPLIED if code is None else Fate.REJECTED


def may_have_leaked(update: Move, step: Step) -> bool:
    """From 4.1 on kraft.version moves although the rest of its request is refused, and shows a
    moment later (KAFKA-16538)."""
    return update.feature == KRAFT_VERSION and len(step.updates) > 1


# ----------------------------------------
# How carrying out a plan ended, as types: one for each way, with the exit code it stands for.
#
# Nothing half applied is ever called applied.


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """`steps` are those this run put to the controller; `before` were applied by earlier runs."""

    exit_code: ClassVar[int]
    word: ClassVar[str]

    cluster: str
    plan: str  # its digest
    total: int  # steps of the plan
    before: int = 0
    steps: tuple[StepOutcome, ...] = ()
    reasons: tuple[str, ...] = ()  # why it went no further; else empty


class Applied(Ending):
    """Every level of the plan is there, and every node reports it."""

    __slots__ = ()
    exit_code, word = 0, "applied"


class NothingToDo(Ending):
    """Every level of the plan was there already; nothing was sent."""

    __slots__ = ()
    exit_code, word = 0, "nothing to do"


class Validated(Ending):
    """The controller would accept the next step; nothing was written."""

    __slots__ = ()
    exit_code, word = 0, "validated"


class Rehearsed(Ending):
    """Everything was checked and nothing was sent, as --dry-run asks."""

    __slots__ = ()
    exit_code, word = 0, "rehearsed"


class Rejected(Ending):
    """The controller refused, or was never asked, and nothing was written."""

    __slots__ = ()
    exit_code, word = 3, "rejected"


class StoppedAfter(Ending):
    """Something was written, and the plan is not done, or not every node reports it."""

    __slots__ = ()
    exit_code, word = 1, "stopped"

    @property
    def count(self) -> int:
        """How many of the plan's steps are applied."""
        return applied(self)


class Unknown(Ending):
    """Something may have been written: resume."""

    __slots__ = ()
    exit_code, word = 4, "unknown"


def applied(ending: Ending) -> int:
    """How many steps of the plan are applied, by this run and those before."""
    return ending.before + sum(step.fate is Fate.APPLIED for step in ending.steps)


def conclude(
    *,
    cluster: str,
    plan: str,
    total: int,
    before: int,
    steps: tuple[StepOutcome, ...],
    reasons: tuple[str, ...] = (),
) -> Ending:
    """How a run ended that put `steps` to the controller."""
    fates = [step.fate for step in steps]
    whole = before + fates.count(Fate.APPLIED) == total
    late = any(step.late for step in steps)
    kind: type[Ending] = StoppedAfter
    if Fate.UNKNOWN in fates:
        kind = Unknown
    elif whole and not late and not reasons:
        kind = Applied
    elif before == 0 and set(fates) <= {Fate.REJECTED, Fate.NOT_APPLIED}:
        kind = Rejected
    return kind(
        cluster=cluster, plan=plan, total=total, before=before, steps=steps, reasons=reasons
    )
