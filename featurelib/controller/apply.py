"""Apply an approved plan to one cluster, or one request of a program (KIP-584's Admin call).

Only approved requests are sent, only while the cluster is as in the plan, and under the cluster's
lock. A run ends at the first step that is not applied, or that a node does not report. Every end is
an EndingKind, or an error if no request was sent. A program's request with invalid values is
rejected before it is sent. Any other request is recorded and followed like a step of a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from shlex import quote

from featurelib.backends.base import accepts, is_honoured, may_prove, validate
from featurelib.config.fleet import FleetEntry
from featurelib.controller.decide import NOT_FINALIZED, Decision, Mismatch, decide
from featurelib.controller.holder import say_seconds
from featurelib.controller.journal import Clearance, ClusterArgs, Journal
from featurelib.controller.reading import Reading, Watcher
from featurelib.controller.send import Sender, Waits
from featurelib.core.outcome import Ending, EndingKind, Fate, StepOutcome, kind_of, refused
from featurelib.core.reply import NO_ERROR
from featurelib.errors import (
    ApprovalError,
    BackendError,
    BusyError,
    ConfigError,
    FeatureLibError,
    NoEvidenceError,
    OutcomeUnknownError,
    PlanError,
    RefusedError,
    RejectedError,
    StalePlanError,
    UnreachableError,
)
from featurelib.feature import HIGHEST_INT32, HIGHEST_LEVEL, UpgradeType
from featurelib.model import Move, Plan, Step
from featurelib.planning.files import SKEW, digest, say_time
from featurelib.planning.owners import expect_ours
from featurelib.planning.requirements import plan_faults

NO_PLAN = "none"  # the journal's text for a missing plan digest or approval
TIMEOUT_MS = 60_000  # Kafka's default timeout of an UpdateFeatures request

_DECIDES = (
    "some nodes that the controller checks are unknown here, and nothing else is missing: the "
    "controller knows all of them, so its response decides"
)
_ASK = "Only the controller knows every node that it checks. --validate-only asks the controller."


class Mode(Enum):
    """The task of an `apply`: send requests, only validate them, or a dry run."""

    SEND = "send"
    VALIDATE = "validate"  # let the controller validate, but only if it then writes no record
    REHEARSE = "rehearse"  # a dry run: send no request


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOrder:
    """A plan to apply. `check_approval`: called before each request; returns the valid approval or
    raises ApprovalError. `way`: the options that chose the cluster, for commands in messages.
    `name`, `settings`: recorded in the journal."""

    plan: Plan
    check_approval: Callable[[datetime], Clearance]
    mode: Mode = Mode.SEND
    command: str = "featurelib apply"
    way: ClusterArgs = field(default_factory=ClusterArgs)
    waits: Waits = field(default_factory=Waits)
    name: str = ""  # the cluster's name for people
    settings: str = ""  # the path of the settings file


def apply(order: ApplyOrder, watcher: Watcher, journal: Journal) -> Ending:
    """Apply an approved plan; return the ending. Raises PlanError, RefusedError, BackendError
    before a request is sent; OutcomeUnknownError if a request was interrupted, or an earlier one is
    open."""
    plan = order.plan
    if fault := next(plan_faults(plan), None):
        raise PlanError(f"plan for {plan.cluster}: {fault}. Nothing was sent. Make the plan again.")
    expect_ours(plan.cluster, plan.moves, watcher.fleet, watcher.catalogue, plan.guards)
    clearance = check_clearance(order, journal)
    with ExitStack() as resources:
        try:
            sender = resources.enter_context(
                Sender.holding(
                    journal,
                    plan.cluster,
                    order.command,
                    choice=order.way,
                    watcher=watcher,
                    waits=order.waits,
                    plan=digest(plan),
                    total=len(plan.steps),
                    name=order.name,
                    settings=order.settings,
                )
            )
        except (BusyError, OutcomeUnknownError):
            # The error about another cluster, below, matters more.
            with suppress(BackendError):
                _expect_cluster(watcher.read(), order, watcher, journal)
            raise
        if order.mode is Mode.SEND:
            _expect_clock(journal)
        try:
            sender.reading = watcher.read()
        except UnreachableError as error:
            entry = _by_inventory(order, watcher)
            raise UnreachableError(str(error), error.lines, entry) from error
        _expect_cluster(sender.reading, order, watcher, journal)
        return _Run(order, sender, clearance.approval).run_steps()


def check_clearance(order: ApplyOrder, journal: Journal) -> Clearance:
    """Return the approval. Raises ApprovalError if it is invalid or withdrawn."""
    clearance = order.check_approval(datetime.now(UTC))
    for item in journal.withdrawals():
        if item.approval == clearance.approval:
            raise ApprovalError(
                f"{journal.path}: The approval was {item.text}. Nothing was sent. To apply the "
                "plan, "
                "approve the plan again."
            )
    return clearance


class _Run:
    """The execution of a plan, after the cluster was locked and read."""

    def __init__(self, order: ApplyOrder, sender: Sender, approval: str) -> None:
        self._order, self._plan, self._sender = order, order.plan, sender
        self._watcher, self._steps = sender.watcher, sender.steps
        self._mine = sender.journal.entries(cluster=sender.cluster, plan=sender.plan)
        self._used = [entry for entry in self._mine if entry.intent.approval == approval]
        fates = {entry.intent.position: entry.fate for entry in self._used}
        self._before = 0  # the number of first steps known to be applied
        while fates.get(self._before) is Fate.APPLIED:
            self._before += 1

    def run_steps(self) -> Ending:
        """Apply the remaining steps of the plan; return the ending."""
        position, clearance = (
            self._before,
            partial(check_clearance, self._order, self._sender.journal),
        )
        while True:
            try:
                reading = self._sender.reading or self._watcher.read(self._plan.cluster)
                step = self._next(reading, position)
                if isinstance(step, Ending):
                    return step
                result = self._sender.send(step, position, reading, clearance)
            except OutcomeUnknownError:
                raise
            except (KeyboardInterrupt, FeatureLibError) as error:  # no request was sent yet
                if not self._steps:
                    raise
                is_told = isinstance(error, FeatureLibError)
                return self._end(str(error) if is_told else "interrupted")
            # The journal lacks the outcome; only this process knows it.
            if cause := self._sender.unwritten:
                text = f"featurelib could not save the outcome of the last request: {cause}"
                is_unsent = result.fate is Fate.NOT_APPLIED and not result.proof
                return self._end(text, kind=None if is_unsent else EndingKind.UNKNOWN)
            position += 1
            applied_steps = position == len(self._plan.steps)
            if applied_steps or result.fate is not Fate.APPLIED or result.late:
                return self._end()

    def _next(self, reading: Reading, position: int) -> Step | Ending:
        """Return the next step after its checks and validation; or the ending of the plan."""
        plan, mode = self._plan, self._order.mode
        by_probe = mode is not Mode.REHEARSE
        decision, remedy = decide_next(self._watcher, reading, plan, position, asks=by_probe)
        if isinstance(decision, tuple):
            raise self._refusal(decision, remedy)
        if decision is None:
            if self._steps:
                return self._end("the other levels are there already: somebody else wrote them")
            return self._end(*self._writers(), kind=EndingKind.NOTHING_TO_DO)
        if mode is Mode.REHEARSE:
            return self._end(kind=EndingKind.REHEARSED)
        mismatches = self._validate(reading, decision, position)
        if mismatches is not None:
            self._steps.append(mismatches)
            return self._end()
        if mode is Mode.VALIDATE:
            return self._end(kind=EndingKind.VALIDATED)
        return decision

    def _validate(self, reading: Reading, step: Step, position: int) -> StepOutcome | None:
        """Let the controller validate a step without writing. Return the refusal; None if the
        controller accepts the step or cannot validate."""
        backend = self._watcher.backend
        if not is_honoured(backend, reading.view.dialects):
            text = "This controller would apply a request that should only be validated."
            if self._order.mode is Mode.VALIDATE:
                raise RefusedError(f"--validate-only: {text} Nothing was sent. Use --dry-run.")
            if not self._steps:
                self._watcher.say(text)
            return None
        self._watcher.say(f"asking the controller to validate step {position + 1}")
        reply = validate(backend, step)
        return None if accepts(reply, step) else refused(step, position, reply)

    def _refusal(self, against: tuple[Mismatch, ...], instead: str) -> RefusedError:
        """Return the error that no request is sent, with all reasons and the next command."""
        reasons = "".join(f"\n  {reason.text}" for reason in against)
        evidence = {reason.what for reason in against} - {"judged again"}
        kind = StalePlanError if evidence else RefusedError
        problem = "is not as the plan expects it" if evidence else "would refuse the plan now"
        advice = f"Make a new plan: {self._order.way.plan}"
        if all(reason.is_unseen for reason in against):
            problem = "was not seen whole"
            advice = (
                "What was seen is as the plan expects it. Once the rest is seen too, go on with "
                f"the same plan: {self._order.command}\nIf it is gone for good, m{advice[1:]}"
            )
        if self._before:
            numbers = ", ".join(str(entry.number) for entry in self._used)
            reasons += (
                f"\n  With this approval {self._before} of {len(self._plan.steps)} steps were "
                f"applied before (journal entry {numbers}); what they wrote is expected."
            )
        reasons += "".join(f"\n  {text}" for text in self._movers(against))
        if "catalogue" in evidence:
            advice += " Or judge by the same catalogue, with --overlay FILE."
        subject = f"cluster {self._plan.cluster}"
        return kind(f"{subject} {problem}. Nothing was sent.{reasons}\n{instead or advice}")

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

    def _movers(self, against: tuple[Mismatch, ...]) -> Iterator[str]:
        """Yield a text about each journal entry that changed a level after the plan was made."""
        moved = {}
        for entry in self._sender.journal.entries(cluster=self._plan.cluster):
            for update in () if entry.is_in_vain else entry.intent.step.updates:
                moved[f"level of {update.feature}", str(update.to_level or NOT_FINALIZED)] = entry
        for reason in against:
            if (sent := moved.get((reason.what, reason.found))) is not None:
                at = say_seconds(sent.intent.at)
                yield (
                    f"{reason.what}: {reason.found} was sent from this machine at {at}, "
                    f"journal entry {sent.number}. See featurelib journal{self._order.way.kept_in}"
                )

    def _writers(self) -> Iterator[str]:
        """Yield a text about each applied request of this plan: journal entry, user and time."""
        for entry in self._mine:
            if entry.fate is Fate.APPLIED:
                author = f"{entry.intent.who.user} on {entry.intent.who.host}"
                at = say_seconds(entry.intent.at)
                yield f"journal entry {entry.number}, sent by {author} at {at}"


def decide_next(
    watcher: Watcher, reading: Reading, plan: Plan, position: int, *, asks: bool
) -> tuple[Decision, str]:
    """Return (decision about the step at `position`, remedy for a refusal, "" = a new plan).

    A node that no source shows blocks a plan. With `asks` the controller, which knows all nodes,
    first validates the request."""
    steps = plan.steps[position:]
    decision = decide(plan, position, watcher.found(reading, plan, steps))
    if not isinstance(decision, tuple) or not reading.is_unproven:
        return decision, ""
    proven = decide(plan, position, watcher.found(watcher.as_if_seen(reading), plan, steps))
    dialects = reading.view.dialects
    if not isinstance(proven, Step) or not may_prove(watcher.backend, dialects, proven):
        return decision, ""
    if not asks:
        return decision, _ASK
    watcher.say(_DECIDES)
    return proven, ""


def _expect_cluster(
    reading: Reading, order: ApplyOrder, watcher: Watcher, journal: Journal
) -> None:
    """Raise RefusedError if the connected cluster is not the plan's cluster."""
    actual, expected = reading.view.cluster_id, order.plan.cluster
    if actual != expected:
        raise RefusedError(
            f"{watcher.backend.where}: this is cluster {actual}, the plan is of cluster "
            f"{expected}. Nothing was sent. {_cluster_options(order, watcher, journal)}"
        )


def _by_inventory(order: ApplyOrder, watcher: Watcher) -> str:
    """Return a text with the options that reach the plan's cluster through the inventory, if the
    user gave other addresses; "" if the inventory lacks the cluster."""
    cluster, reach = order.plan.cluster, order.way.reach
    entry = watcher.fleet.of(cluster, FleetEntry(id=cluster))
    if not (entry.is_reachable and reach.startswith("--")):
        return ""
    address = f" at {entry.address} by {entry.security.protocol}" if entry.address else ""
    return f"The inventory reaches cluster {cluster}{address}: leave {reach} out."


def _cluster_options(order: ApplyOrder, watcher: Watcher, journal: Journal) -> str:
    """Return a text with the options that reach the plan's cluster, by inventory or journal."""
    cluster = order.plan.cluster
    if item := _by_inventory(order, watcher):
        return item
    if watcher.fleet.of(cluster, FleetEntry(id=cluster)).is_reachable:
        return f"Fix the address of cluster {cluster} in the inventory."
    used = [entry.intent.reach for entry in journal.entries(cluster=cluster)]
    for reach in reversed(used):
        if reach.startswith("--") and reach != order.way.text:
            return f"Cluster {cluster} was reached before with {reach}"
    return f"Give the address or file of cluster {cluster}: --bootstrap HOST:PORT or --file PATH."


def _expect_clock(journal: Journal) -> None:
    """Raise ApprovalError if the journal has a time in the future, because a wrong clock could hide
    an expired approval."""
    now = datetime.now(UTC)
    times = [
        (moment, entry.number)
        for entry in journal.entries()
        for moment in (entry.intent.at, *(outcome.at for outcome in entry.outcomes))
    ]
    newest, number = max(times, default=(0.0, 0))
    if newest > (now + SKEW).timestamp():
        raise ApprovalError(
            f"{journal.path}: Entry {number} was written at {say_seconds(newest)}, and this clock "
            f"shows {say_time(now)}: one of the two clocks is wrong, so the approval may have "
            "expired. "
            "Nothing was sent. Correct the clock. If the clock is right, use another journal: "
            "--journal FILE"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    """The requested level of one feature, like FeatureUpdate of Kafka's Admin (KIP-584, KIP-778).

    `level` 0 deletes the feature, and needs a downgrade type. Raises ConfigError for values that no
    controller accepts.
    """

    level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE

    def __post_init__(self) -> None:
        expected, actual = "", repr(self.upgrade_type)
        if not 0 <= self.level <= HIGHEST_LEVEL:
            expected, actual = f"a level of 0 to {HIGHEST_LEVEL}", str(self.level)
        elif not isinstance(self.upgrade_type, UpgradeType):
            expected = f"one of the upgrade types {', '.join(kind.name for kind in UpgradeType)}"
        elif self.level < 1 and self.upgrade_type is UpgradeType.UPGRADE:
            expected = "SAFE_DOWNGRADE or UNSAFE_DOWNGRADE for level 0, which removes the feature"
            actual = "UPGRADE"
        if expected:
            raise ConfigError(f"FeatureUpdate: expected {expected}, found {actual}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureResult:
    """The outcome of an update. `code`, `message`: of the controller's response, None without
    response; `level`: the present level, None = unknown; `fate`: None for a request that only
    validated."""

    feature: str
    fate: Fate | None
    code: int | None
    message: str | None
    level: int | None

    @property
    def is_ok(self) -> bool:
        """True if the level is finalized, or if a validation accepted the update."""
        return self.code == NO_ERROR if self.fate is None else self.fate is Fate.APPLIED

    @property
    def text(self) -> str:
        """The outcome as text, such as `rejected (error 95): …; it is at 25`."""
        validated = "would be accepted" if self.is_ok else "would be refused"
        result = validated if self.fate is None else self.fate.value
        code = f" (error {self.code})" if self.code not in (None, NO_ERROR) else ""
        words = f": {self.message}" if self.message and not self.is_ok else ""
        level = "its level is unknown" if self.level is None else f"it is at {self.level}"
        return f"{result}{code}{words}; {level}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult:
    """The outcome of a request per feature. `late`: nodes that do not yet report the levels;
    `resume`: the command that settles unknown outcomes."""

    cluster_id: str
    validate_only: bool
    features: Mapping[str, FeatureResult]
    late: tuple[str, ...] = ()
    resume: str = field(default="featurelib resume", repr=False)

    @property
    def is_ok(self) -> bool:
        """True if every update is finalized, or if a validation accepted every update."""
        return all(result.is_ok for result in self.features.values())

    def __str__(self) -> str:
        lines = [f"{result.feature}: {result.text}" for result in self.features.values()]
        return "\n".join([*lines, *(f"not reported yet by {node}" for node in self.late)])

    def expect_ok(self) -> None:
        """Raise OutcomeUnknownError if an outcome is unknown, or RejectedError if an update was not
        applied. The error names all such features."""
        failed = [result for result in self.features.values() if not result.is_ok]
        if not failed:
            return
        text = "; ".join(f"{result.feature}: {result.text}" for result in failed)
        if any(result.fate is Fate.UNKNOWN for result in failed):
            advice = f"Run `{self.resume}` to find out whether the update was applied."
            raise OutcomeUnknownError(f"cluster {self.cluster_id}: {text}. {advice}")
        raise RejectedError(f"cluster {self.cluster_id}: {text}.")


def update_features(
    watcher: Watcher,
    journal: Journal,
    updates: Mapping[str, FeatureUpdate],
    *,
    validate_only: bool,
    timeout_ms: int,
    choice: ClusterArgs,
) -> UpdateResult:
    """Send one request with these updates exactly once; return its outcome. Raises before sending:
    ConfigError, RefusedError, BackendError; OutcomeUnknownError if an earlier request is open."""
    _expect_updates(updates, timeout_ms)
    reading = watcher.read()
    cluster, step = reading.view.cluster_id, _step(reading, updates, timeout_ms)
    options = f" --fleet {quote(choice.fleet)}" if choice.fleet else ""
    expect_ours(cluster, step.updates, watcher.fleet, watcher.catalogue, options=options)
    if validate_only:
        outcome = refused(step, 0, validate(watcher.backend, step))
        return _result(cluster, outcome, choice, validate_only=True)
    entry = watcher.fleet.of(cluster, FleetEntry(id=cluster))
    facts = {"plan": NO_PLAN, "total": 1, "name": entry.name, "waits": Waits(), "watcher": watcher}
    command = "featurelib.update_features"
    with Sender.holding(journal, cluster, command, choice=choice, **facts) as sender:
        outcome = sender.send(step, 0, reading, lambda: Clearance(approval=NO_PLAN, signed=None))
    if sender.unwritten:
        raise OutcomeUnknownError(
            f"cluster {cluster}: {outcome.fate.value}, but featurelib could not save this outcome: "
            f"{sender.unwritten}. Run `{choice.resume}`."
        )
    return _result(cluster, outcome, choice, validate_only=False)


def _result(
    cluster: str, outcome: StepOutcome, choice: ClusterArgs, *, validate_only: bool
) -> UpdateResult:
    features = {
        move.update.feature: FeatureResult(
            feature=move.update.feature,
            fate=None if validate_only else move.fate,
            code=move.code,
            message=move.message,
            level=move.level,
        )
        for move in outcome.updates
    }
    return UpdateResult(
        cluster_id=cluster,
        validate_only=validate_only,
        features=features,
        late=outcome.late,
        resume=choice.resume,
    )


def _expect_updates(updates: Mapping[str, FeatureUpdate], timeout_ms: int) -> None:
    """Raise ConfigError for updates that Kafka's Admin.updateFeatures refuses, and for timeout 0,
    at which a controller in ZooKeeper mode writes and then reports a failure."""
    blank, expected, given = [name for name in updates if not name.strip()], "", "none"
    if not updates:
        expected = "an update"
    elif blank:
        expected, given = "a feature's name", repr(blank[0])
    elif not 0 < timeout_ms <= HIGHEST_INT32:
        expected, given = f"a timeout_ms of 1 to {HIGHEST_INT32}", str(timeout_ms)
    if expected:
        raise ConfigError(f"update_features: expected {expected}, found {given}. Nothing was sent.")


def _step(reading: Reading, updates: Mapping[str, FeatureUpdate], timeout_ms: int) -> Step:
    """Return the updates as a step that starts from the present levels. Raises NoEvidenceError."""
    levels = reading.seen(updates)
    if unknown := sorted(levels.unknown & updates.keys()):
        raise NoEvidenceError(
            f"cluster {reading.view.cluster_id}: No node reports the finalized level of "
            f"{', '.join(unknown)}. Nothing was sent. describe_features shows which nodes respond."
        )
    return Step(
        updates=tuple(
            Move(
                feature=name,
                from_level=levels.level(name) or 0,
                to_level=update.level,
                upgrade_type=update.upgrade_type.name,
            )
            for name, update in updates.items()
        ),
        timeout_ms=timeout_ms,
    )
