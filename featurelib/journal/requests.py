"""What the journal holds of one request: what was intended, and what was found out about it."""

from __future__ import annotations

from dataclasses import dataclass

from featurelib.core.outcome import Fate, Recipient, StepOutcome
from featurelib.journal.holder import Holder
from featurelib.model import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Clearance:
    """What lets a plan be sent: an approval that was checked. `approval` is what it is known by,
    "" = none was needed; `signed`: by a signature that `by` was found to have made."""

    approval: str
    by: str = ""
    reason: str = ""
    signed: bool = False

    @property
    def text(self) -> str:
        """`signed by ann@example.com (CHG-1)`, `by ann, NOT signed`."""
        who = f"signed by {self.by}" if self.signed else f"by {self.by}, NOT signed"
        return f"{who} ({self.reason})" if self.reason else who


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One request that is about to be sent, by whom and to whom.

    Times are seconds since 1970; at `over_at` the request's own time is over, and whoever sent it
    waits no longer. It settles nothing. `approval` is what the approval is known by. In entries of
    releases that did not keep them `sent_to` and `signed` are None, and the last texts empty.
    """

    cluster: str
    where: str  # how the cluster was reached
    reach: str  # the options that reach it again
    plan: str  # digest
    approval: str
    position: int  # of the step, from 0
    total: int  # steps of the plan
    step: Step
    who: Holder
    at: float
    over_at: float
    sent_to: Recipient | None = None
    name: str = ""  # of the cluster, in the inventory that was used
    settings: str = ""  # the file whose settings ruled, or that there was none
    approved_by: str = ""
    reason: str = ""  # of the approval
    signed: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a request, who says so, and when."""

    result: StepOutcome
    by: str  # apply, resume
    who: Holder
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An intent and everything that was found out about it, oldest first."""

    number: int
    intent: Intent
    outcomes: tuple[Outcome, ...]

    @property
    def fate(self) -> Fate:
        """What is known last."""
        return self.outcomes[-1].result.fate if self.outcomes else Fate.UNKNOWN

    @property
    def is_open(self) -> bool:
        """Whether something may have been written that nobody knows of."""
        return self.fate is Fate.UNKNOWN
