"""How carrying out a plan ended, as types: one for each way, with the exit code it stands for.

Nothing half applied is ever called applied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from featurelib.core.outcome import Fate, StepOutcome


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
