"""One go at an approved plan, under the cluster's lock: look, decide, validate, send, look again.

It ends at the first step that is not applied, or that some node does not report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum

from featurelib.controller.commands import Way
from featurelib.controller.deciding import decide_next, refusal
from featurelib.controller.looking import Look, Watcher
from featurelib.controller.sending import Sent, Waits, aim, send
from featurelib.controller.validating import ask, is_agreed, is_honoured, refused
from featurelib.core.decide import NothingToDo, Refuse, Send
from featurelib.core.ending import Ending, Rehearsed, Unknown, Validated, conclude
from featurelib.core.ending import NothingToDo as NothingWasToDo
from featurelib.core.outcome import Fate, Heard, Recipient, StepOutcome, settle
from featurelib.errors import (
    FeatureLibError,
    OutcomeUnknownError,
    RefusedError,
)
from featurelib.journal.journal import Clearance, Entry, Intent, Journal, Lock
from featurelib.model import Plan, Step
from featurelib.planning.files import digest, say_time


class Mode(Enum):
    """How far to go."""

    SEND = "send"
    VALIDATE = "validate"  # ask the controller, where it then writes nothing
    REHEARSE = "rehearse"  # send nothing at all


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A plan and the word for it. `check_approval` gives what lets it be sent, as of a time, or
    raises ApprovalError; it is asked before each request. `way` is how the cluster was chosen, for
    the next command a message names; `name` and `settings` are kept in the journal."""

    plan: Plan
    check_approval: Callable[[datetime], Clearance]
    mode: Mode = Mode.SEND
    command: str = "featurelib apply"
    way: Way = field(default_factory=Way)
    waits: Waits = field(default_factory=Waits)
    name: str = ""  # of the cluster
    settings: str = ""  # the file that ruled


def _carried_out(entries: Sequence[Entry]) -> int:
    """How many steps of a plan are known to be applied, from the first on without a gap."""
    fates = {entry.intent.position: entry.fate for entry in entries}
    count = 0
    while fates.get(count) is Fate.APPLIED:
        count += 1
    return count


def _writers(entries: Sequence[Entry]) -> Iterator[str]:
    """Who wrote what a plan wants, where the journal knows that it was this plan."""
    for entry in entries:
        if entry.fate is Fate.APPLIED:
            who, when = entry.intent.who, datetime.fromtimestamp(entry.intent.at, UTC)
            by = f"{who.user} on {who.host}"
            yield f"journal entry {entry.number}, sent by {by} at {say_time(when)}"


class Run:
    """One go at a plan. `mine` are the journal's entries of this plan."""

    def __init__(
        self,
        order: Order,
        watcher: Watcher,
        journal: Journal,
        lock: Lock,
        mine: Sequence[Entry],
        approval: str,
    ) -> None:
        self._order, self._watcher, self._journal, self._lock = order, watcher, journal, lock
        self._plan, self._digest, self._mine = order.plan, digest(order.plan), mine
        self._used = [entry for entry in mine if entry.intent.approval == approval]
        self._before = _carried_out(self._used)
        self._steps: list[StepOutcome] = []

    def carry_out(self, first: Look) -> Ending:
        """From the first look on, which is of the plan's cluster."""
        look: Look | None = first
        position = self._before
        while True:
            try:
                if look is None:
                    look = self._watcher.look(self._plan.cluster)
                step = self._next(look, position)
                if isinstance(step, Ending):
                    return step
                aimed = aim(self._watcher)
                if isinstance(aimed, Heard):
                    self._steps.append(settle(step, position, aimed, None, proven=False))
                    return self._end()
                intent = self._intent(step, position, aimed)
                sent = self._send(intent, look)
            except OutcomeUnknownError:
                raise
            except KeyboardInterrupt:  # between two requests
                if not self._steps:
                    raise
                return self._end("interrupted")
            except FeatureLibError as error:  # nothing of this step was sent
                if not self._steps:
                    raise
                return self._end(str(error))
            if sent.unwritten:
                return self._unwritten(sent.unwritten)
            position += 1
            if sent.result.fate is not Fate.APPLIED or sent.result.late:
                return self._end()
            if position == len(self._plan.steps):
                return self._end()
            look = sent.look

    def _send(self, intent: Intent, look: Look) -> Sent:
        """Send the request, and take up what became of it before anything can interrupt again."""
        try:
            sent = send(self._watcher, self._journal, self._lock, intent, look, self._order.waits)
            self._steps.append(sent.result)
        except KeyboardInterrupt as error:
            raise OutcomeUnknownError(
                f"interrupted while request {intent.position + 1} of {intent.total} was being "
                "sent: it may have been applied. "
                f"Look: {self._order.way.resume}"
            ) from error
        return sent

    def _next(self, look: Look, position: int) -> Step | Ending:
        """The step to send, looked at, judged, allowed and validated; or how this run ends."""
        plan, order = self._plan, self._order
        asks = order.mode is not Mode.REHEARSE
        decision, instead = decide_next(self._watcher, look, plan, position, asks=asks)
        if isinstance(decision, Refuse):
            raise refusal(plan, decision, self._used, self._before, order.way, instead)
        if isinstance(decision, NothingToDo):
            if self._steps:
                return self._end("the other levels are there already: somebody else wrote them")
            return replace(self._of(NothingWasToDo), reasons=tuple(_writers(self._mine)))
        assert isinstance(decision, Send)
        if order.mode is Mode.REHEARSE:
            return self._of(Rehearsed)
        against = self._validate(look, decision.step, position)
        if against is not None:
            self._steps.append(against)
            return self._end()
        if order.mode is Mode.VALIDATE:
            return self._of(Validated)
        return decision.step

    def _validate(self, look: Look, step: Step, position: int) -> StepOutcome | None:
        """What the controller says against a step, asked without writing; None = nothing, or it
        cannot be asked."""
        if not is_honoured(self._watcher.backend, look.sight.dialects):
            text = "This controller would apply a request to validate, so it is not asked to."
            if self._order.mode is Mode.VALIDATE:
                raise RefusedError(
                    f"--validate-only: expected a controller that validates without writing. "
                    f"{text} Nothing was sent. Use --dry-run."
                )
            if not self._steps:
                self._watcher.say(text)
            return None
        self._watcher.say(f"asking the controller to validate step {position + 1}")
        heard = ask(self._watcher.backend, step)
        return None if is_agreed(step, heard) else refused(step, position, heard)

    def _intent(self, step: Step, position: int, aimed: Recipient) -> Intent:
        now = datetime.now(UTC)
        plan, waits = self._plan, self._order.waits
        clearance = self._order.check_approval(now)
        return Intent(
            cluster=plan.cluster,
            where=self._watcher.backend.where,
            reach=self._order.way.text,
            plan=self._digest,
            approval=clearance.approval,
            position=position,
            total=len(plan.steps),
            step=step,
            who=self._lock.who,
            at=waits.clock(),
            over_at=waits.over_at(step),
            sent_to=aimed,
            name=self._order.name,
            settings=self._order.settings,
            approved_by=clearance.by,
            reason=clearance.reason,
            signed=clearance.signed,
        )

    def _of(self, kind: type[Ending]) -> Ending:
        return kind(
            cluster=self._plan.cluster,
            plan=self._digest,
            total=len(self._plan.steps),
            before=self._before,
        )

    def _end(self, *reasons: str) -> Ending:
        return conclude(
            cluster=self._plan.cluster,
            plan=self._digest,
            total=len(self._plan.steps),
            before=self._before,
            steps=tuple(self._steps),
            reasons=reasons,
        )

    def _unwritten(self, why: str) -> Ending:
        """What became of the request is known here, and nowhere else: so it stays open."""
        return Unknown(
            cluster=self._plan.cluster,
            plan=self._digest,
            total=len(self._plan.steps),
            before=self._before,
            steps=tuple(self._steps),
            reasons=(f"what became of the last request could not be written down: {why}",),
        )
