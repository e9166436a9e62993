"""One go at an approved plan, under the cluster's lock: look, decide, validate, send, look again.

It ends at the first step that is not applied, or that some node does not report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum

from featurelib.controller.commands import Way
from featurelib.controller.decide import Decision, NothingToDo, Refuse, Send, decide
from featurelib.controller.journal import Clearance, Entry, Intent, Journal, Lock
from featurelib.controller.look import Look, Watcher
from featurelib.controller.owners import expect_plan_ours
from featurelib.controller.send import LOCK_SECONDS, Sent, Waits, aim, send
from featurelib.controller.validate import ask, is_agreed, is_honoured, may_prove, refused
from featurelib.core.outcome import (
    Ending,
    Fate,
    Heard,
    Recipient,
    Rehearsed,
    StepOutcome,
    Unknown,
    Validated,
    conclude,
    settle,
)
from featurelib.core.outcome import NothingToDo as NothingWasToDo
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

# ----------------------------------------
# What to do next with a plan, by one look at its cluster; and the words of a refusal.
#
# Whom the controller asks and nobody shows refuses a plan like anything else that is missing,
# unless
# the controller, who knows them all, is asked to validate just what would be sent.

_DECIDES = (
    "nobody shows everybody whom the controller asks, and nothing else is missing: the controller "
    "knows them all, so its answer decides"
)
_ASK = (
    "Only the controller knows everybody whom it asks: with --validate-only it is asked, and "
    "nothing is written."
)


def decide_next(
    watcher: Watcher, look: Look, plan: Plan, position: int, *, asks: bool
) -> tuple[Decision, str]:
    """What to do with the step at `position`, and for a refusal what helps better than a new plan.

    `asks`: before anything is sent the controller is asked to validate it, where it may be. Then a
    step that only who was not seen holds back goes on to that question.
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


def refusal(
    plan: Plan, decision: Refuse, used: Sequence[Entry], before: int, way: Way, instead: str
) -> RefusedError:
    """Every reason not to send, and the next command; `used` are the journal's entries of this plan
    and approval, by which `before` steps are applied."""
    reasons = "".join(f"\n  {reason.text}" for reason in decision.reasons)
    evidence = [reason for reason in decision.reasons if reason.what != "judged again"]
    kind = StalePlanError if evidence else RefusedError
    told = ""
    if before:
        numbers = ", ".join(str(entry.number) for entry in used)
        told = (
            f"\n  With this approval {before} of {len(plan.steps)} steps were applied before "
            f"(journal entry {numbers}); what they wrote is expected."
        )
    overlay = any(reason.what == "catalogue" for reason in evidence)
    hint = " Or judge by the same catalogue, with --overlay FILE." if overlay else ""
    what = "is not as the plan expects it" if evidence else "would refuse the plan now"
    return kind(
        f"cluster {plan.cluster} {what}. Nothing was sent.{reasons}{told}\n"
        + (instead or f"Make a new plan: {way.plan}{hint}")
    )


# ----------------------------------------


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


# ----------------------------------------
# Carries out one approved plan on one cluster: looks, decides, sends, looks again.
#
# What was approved is exactly what is sent, only while the world is as the plan saw it. Every way
# it
# can end is a type of featurelib.core.outcome, or an error if nothing was sent.


def apply(order: Order, watcher: Watcher, journal: Journal) -> Ending:
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
        return Run(order, watcher, journal, lock, mine, clearance.approval).carry_out(look)


def _expect_cluster(look: Look, order: Order, watcher: Watcher, journal: Journal) -> None:
    """Raises RefusedError where another cluster than the plan's answers. Nothing else is said then:
    all that is known of the plan is of a cluster that was not looked at."""
    here, wanted = look.sight.cluster_id, order.plan.cluster
    if here != wanted:
        raise RefusedError(
            f"{watcher.backend.where}: this is cluster {here}, the plan is of cluster {wanted}. "
            f"Nothing was sent. {_right_way(order, watcher, journal)}"
        )


def _right_way(order: Order, watcher: Watcher, journal: Journal) -> str:
    """How the plan's cluster is reached, where the inventory or the journal knows it."""
    wanted = order.plan.cluster
    has_options = order.way.reach.startswith("--")
    if any(entry.id == wanted and entry.is_reachable for entry in watcher.fleet.cluster):
        if has_options:
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


def expect_settled(journal: Journal, cluster: str, way: Way) -> None:
    """An earlier request that may have been applied is looked after first."""
    waiting = journal.entries(cluster=cluster, only_open=True)
    if waiting:
        numbers = ", ".join(str(entry.number) for entry in waiting)
        raise OutcomeUnknownError(
            f"cluster {cluster}: expected every earlier request to be settled, found "
            f"the outcome of journal entry {numbers} unknown. Nothing was sent. "
            f"Look first: {way.resume}"
        )
