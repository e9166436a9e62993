"""Carries out one approved plan on one cluster: looks, decides, validates, sends, looks again.

What was approved is exactly what is sent, only while the world is as the plan saw it. A run ends at
the first step that is not applied, or that some node does not report; every way it can end is an
EndingKind, or an error if nothing was sent. The cluster is locked all the while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum

from featurelib.backends.base import accepts, is_honoured, may_prove, validate
from featurelib.controller.decide import AlreadyThere, Decision, Refuse, Send, decide
from featurelib.controller.journal import Clearance, Journal, JournalEntry, Way
from featurelib.controller.look import Look, Watcher
from featurelib.controller.owners import expect_plan_ours
from featurelib.controller.send import LOCK_SECONDS, Sender, Waits, expect_settled
from featurelib.core.outcome import Ending, EndingKind, Fate, StepOutcome, kind_of, refused
from featurelib.errors import (
    ApprovalError,
    BackendError,
    BusyError,
    FeatureLibError,
    OutcomeUnknownError,
    PlanError,
    RefusedError,
    StalePlanError,
)
from featurelib.model import Plan, Step
from featurelib.planning.files import SKEW, digest, say_time
from featurelib.planning.requirements import plan_faults

_DECIDES = (
    "nobody shows everybody whom the controller asks, and nothing else is missing: the controller "
    "knows them all, so its answer decides"
)
_ASK = (
    "Only the controller knows everybody whom it asks: with --validate-only it is asked, and "
    "nothing is written."
)


class Mode(Enum):
    """How far to go."""

    SEND = "send"
    VALIDATE = "validate"  # ask the controller, where it then writes nothing
    REHEARSE = "rehearse"  # send nothing at all


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOrder:
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


def apply(order: ApplyOrder, watcher: Watcher, journal: Journal) -> Ending:
    """Carry out the plan. Raises what is an error before anything was sent by this run:

    PlanError, RefusedError (StalePlanError, ApprovalError, BusyError, JournalError), BackendError,
    and OutcomeUnknownError where an earlier request is not settled, or this one was interrupted.
    """
    plan = order.plan
    fault = next(plan_faults(plan), None)
    if fault is not None:
        raise PlanError(f"plan for {plan.cluster}: {fault}. Nothing was sent. Make it again.")
    expect_plan_ours(plan, watcher.fleet, watcher.catalogue)
    clearance = order.check_approval(datetime.now(UTC))
    with ExitStack() as held:
        try:
            lock = held.enter_context(
                journal.lock(plan.cluster, order.command, seconds=LOCK_SECONDS)
            )
            expect_settled(journal, plan.cluster, order.way)
        except (BusyError, OutcomeUnknownError):  # not the point if another cluster is at hand
            with suppress(BackendError):
                _expect_cluster(watcher.look(), order, watcher, journal)
            raise
        mine = journal.entries(cluster=plan.cluster, plan=digest(plan))
        if order.mode is Mode.SEND:
            _expect_clock(journal)
        look = watcher.look()
        _expect_cluster(look, order, watcher, journal)
        sender = Sender(
            watcher=watcher,
            journal=journal,
            lock=lock,
            waits=order.waits,
            way=order.way,
            cluster=plan.cluster,
            plan=digest(plan),
            total=len(plan.steps),
            name=order.name,
            settings=order.settings,
        )
        return _Run(order, sender, mine, clearance.approval).carry_out(look)


class _Run:
    """One go at a plan, under the cluster's lock. `mine` are the journal's entries of this plan."""

    def __init__(
        self, order: ApplyOrder, sender: Sender, mine: Sequence[JournalEntry], approval: str
    ) -> None:
        self._order, self._plan, self._sender = order, order.plan, sender
        self._watcher, self._mine, self._steps = sender.watcher, mine, sender.steps
        self._used = [entry for entry in mine if entry.intent.approval == approval]
        fates = {entry.intent.position: entry.fate for entry in self._used}
        self._before = 0  # steps that are known to be applied, from the first on without a gap
        while fates.get(self._before) is Fate.APPLIED:
            self._before += 1

    def carry_out(self, first: Look) -> Ending:
        """Go on from the first look, which is of the plan's cluster."""
        self._sender.look = first
        position = self._before
        while True:
            try:
                look = self._sender.look or self._watcher.look(self._plan.cluster)
                step = self._next(look, position)
                if isinstance(step, Ending):
                    return step
                result = self._sender.send(step, position, look, self._clearance)
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
            if why := self._sender.unwritten:  # what became of it is known here, and nowhere else
                text = f"what became of the last request could not be written down: {why}"
                return self._end(text, kind=EndingKind.UNKNOWN)
            position += 1
            done = position == len(self._plan.steps)
            if done or result.fate is not Fate.APPLIED or result.late:
                return self._end()

    def _clearance(self) -> Clearance:
        return self._order.check_approval(datetime.now(UTC))

    def _next(self, look: Look, position: int) -> Step | Ending:
        """The step to send, looked at, judged, allowed and validated; or how this run ends."""
        plan, mode = self._plan, self._order.mode
        asks = mode is not Mode.REHEARSE
        decision, instead = decide_next(self._watcher, look, plan, position, asks=asks)
        if isinstance(decision, Refuse):
            raise self._refusal(decision, instead)
        if isinstance(decision, AlreadyThere):
            if self._steps:
                return self._end("the other levels are there already: somebody else wrote them")
            return self._end(*_writers(self._mine), kind=EndingKind.NOTHING_TO_DO)
        if mode is Mode.REHEARSE:
            return self._end(kind=EndingKind.REHEARSED)
        against = self._validate(look, decision.step, position)
        if against is not None:
            self._steps.append(against)
            return self._end()
        if mode is Mode.VALIDATE:
            return self._end(kind=EndingKind.VALIDATED)
        return decision.step

    def _validate(self, look: Look, step: Step, position: int) -> StepOutcome | None:
        """What the controller says against a step, asked without writing; None = nothing, or it
        cannot be asked."""
        backend = self._watcher.backend
        if not is_honoured(backend, look.sight.dialects):
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
        reply = validate(backend, step)
        return None if accepts(reply, step) else refused(step, position, reply)

    def _refusal(self, decision: Refuse, instead: str) -> RefusedError:
        """Every reason not to send, and the next command."""
        reasons = "".join(f"\n  {reason.text}" for reason in decision.reasons)
        evidence = [reason for reason in decision.reasons if reason.what != "judged again"]
        kind = StalePlanError if evidence else RefusedError
        told = ""
        if self._before:
            numbers = ", ".join(str(entry.number) for entry in self._used)
            told = (
                f"\n  With this approval {self._before} of {len(self._plan.steps)} steps were "
                f"applied before (journal entry {numbers}); what they wrote is expected."
            )
        overlay = any(reason.what == "catalogue" for reason in evidence)
        hint = " Or judge by the same catalogue, with --overlay FILE." if overlay else ""
        what = "is not as the plan expects it" if evidence else "would refuse the plan now"
        return kind(
            f"cluster {self._plan.cluster} {what}. Nothing was sent.{reasons}{told}\n"
            + (instead or f"Make a new plan: {self._order.way.plan}{hint}")
        )

    def _end(self, *reasons: str, kind: EndingKind | None = None) -> Ending:
        steps, total = tuple(self._steps), len(self._plan.steps)
        return Ending(
            kind=kind or kind_of(steps, before=self._before, total=total, reasons=reasons),
            cluster=self._plan.cluster,
            plan=self._sender.plan,
            total=total,
            before=self._before,
            steps=steps,
            reasons=reasons,
        )


def _writers(entries: Sequence[JournalEntry]) -> Iterator[str]:
    """Who wrote what a plan wants, where the journal knows that it was this plan."""
    for entry in entries:
        if entry.fate is Fate.APPLIED:
            who, when = entry.intent.who, datetime.fromtimestamp(entry.intent.at, UTC)
            by = f"{who.user} on {who.host}"
            yield f"journal entry {entry.number}, sent by {by} at {say_time(when)}"


def decide_next(
    watcher: Watcher, look: Look, plan: Plan, position: int, *, asks: bool
) -> tuple[Decision, str]:
    """What to do with the step at `position`, and for a refusal what helps better than a new plan.

    Whom the controller asks and nobody shows refuses a plan like anything else that is missing,
    unless the controller, who knows them all, is asked to validate just what would be sent
    (`asks`). Then a step that only who was not seen holds back goes on to that question.
    """
    rest = plan.steps[position:]
    seen = decide(plan, position, watcher.found(look, plan, rest))
    if not isinstance(seen, Refuse) or not look.is_unproven:
        return seen, ""
    proven = decide(plan, position, watcher.found(watcher.as_if_seen(look), plan, rest))
    if not isinstance(proven, Send):
        return seen, ""
    if not may_prove(watcher.backend, look.sight.dialects, proven.step):
        return seen, ""
    if not asks:
        return seen, _ASK
    watcher.say(_DECIDES)
    return proven, ""


def _expect_cluster(look: Look, order: ApplyOrder, watcher: Watcher, journal: Journal) -> None:
    """Raises RefusedError where another cluster than the plan's answers. Nothing else is said then:
    all that is known of the plan is of a cluster that was not looked at."""
    here, wanted = look.sight.cluster_id, order.plan.cluster
    if here != wanted:
        raise RefusedError(
            f"{watcher.backend.where}: this is cluster {here}, the plan is of cluster {wanted}. "
            f"Nothing was sent. {_right_way(order, watcher, journal)}"
        )


def _right_way(order: ApplyOrder, watcher: Watcher, journal: Journal) -> str:
    """How the plan's cluster is reached, where the inventory or the journal knows it."""
    wanted = order.plan.cluster
    if any(entry.id == wanted and entry.is_reachable for entry in watcher.fleet.cluster):
        if order.way.reach.startswith("--"):
            return f"The inventory reaches cluster {wanted}: leave {order.way.reach} out."
        return f"Mend the address of cluster {wanted} in the inventory."
    used = [entry.intent.reach for entry in journal.entries(cluster=wanted)]
    for reach in reversed(used):
        if reach.startswith("--") and reach != order.way.text:
            return f"Cluster {wanted} was reached before with {reach}"
    return f"Give the address or file of cluster {wanted}: --bootstrap HOST:PORT or --file PATH."


def _expect_clock(journal: Journal) -> None:
    """Raises ApprovalError where the journal was written to later than now: then this clock is
    behind, or one was ahead, and whether an approval has expired cannot be told."""
    now = datetime.now(UTC)
    times = [
        (moment, entry.number)
        for entry in journal.entries()
        for moment in (entry.intent.at, *(outcome.at for outcome in entry.outcomes))
    ]
    newest, number = max(times, default=(0.0, 0))
    written = datetime.fromtimestamp(newest, UTC)
    if written > now + SKEW:
        raise ApprovalError(
            f"{journal.path}: expected entries of before now, {say_time(now)}, found that entry "
            f"{number} was written at {say_time(written)}: this clock is behind, or it was ahead "
            "then, and whether the approval has expired cannot be told. Nothing was sent. Set the "
            "clock right; if it is, go on in another journal: --journal FILE"
        )
