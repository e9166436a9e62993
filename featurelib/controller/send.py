"""Send one request: record it, send it once, and read the cluster until the outcome is known.

No request is sent twice. The cluster is read before an outcome is stated. A request whose level is
missing is *not applied* only if no node can apply it any more (featurelib.core.outcome); otherwise
it stays open. Closed requests are checked again, because earlier releases closed them by time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from threading import Event, Thread
from typing import Any

from featurelib.config.files import quietly
from featurelib.controller.holder import elapsed
from featurelib.controller.journal import (
    Clearance,
    ClusterArgs,
    Dispatch,
    Journal,
    JournalEntry,
    Lock,
    Settlement,
)
from featurelib.controller.reading import Reading, Watcher, late_nodes
from featurelib.core.outcome import Delivery, Fate, StepOutcome, settle
from featurelib.core.reply import NO_ERROR, Reply, Result
from featurelib.errors import (
    BackendError,
    BusyError,
    FeatureLibError,
    InputError,
    JournalError,
    OutcomeUnknownError,
    RefusedError,
    UnreachableError,
)
from featurelib.model import NotPassed, Step
from featurelib.words import reporting

NODES_SECONDS = 60.0  # seconds to wait until nodes report a level
LOCK_SECONDS = 300.0  # seconds after its holder's last action when a lock expires
OLDEST_READING_S = 30.0  # the longest time from the data to the request, with a validation
LONGEST_PAUSE_S = 5.0  # the longest time from the checks to the request, before new checks
_ANSWER_SAID_S = 10  # seconds between two progress lines while waiting for a response
_QUIET = 1.0  # seconds between two lines of other progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """The waiting times in seconds. `margin`: added to the request's timeout; `nodes`: for nodes to
    report a level; `proof`: for a response to `resume`. No waiting time decides an outcome."""

    nodes: float = NODES_SECONDS
    margin: float = 5.0
    proof: float = 10.0
    first: float = 0.05  # the pause between two queries; doubled each time, up to `longest`
    longest: float = 2.0
    clock: Callable[[], float] = field(default=time.time)
    sleep: Callable[[float], object] = field(default=Event().wait)
    monotonic: Callable[[], float] = field(default=elapsed)

    def over_at(self, step: Step) -> float:
        """Return the time in seconds since 1970 until which the sender of a request waits."""
        return self.clock() + step.timeout_ms / 1000 + self.margin


@dataclass(slots=True, kw_only=True)
class Sender:
    """The sender of the requests of a plan (`plan`: its digest; `total`: its steps), which holds
    the cluster's lock. `steps`: the outcomes; `unwritten`: why the journal lacks the last outcome;
    `reading`: the newest data."""

    watcher: Watcher
    journal: Journal
    lock: Lock
    waits: Waits
    way: ClusterArgs
    cluster: str
    plan: str
    total: int
    name: str = ""
    settings: str = ""
    steps: list[StepOutcome] = field(default_factory=list)
    unwritten: str = ""
    reading: Reading | None = None

    @classmethod
    @contextmanager
    def holding(
        cls, journal: Journal, cluster: str, command: str, *, choice: ClusterArgs, **fields: Any
    ) -> Iterator[Sender]:
        """Lock the cluster for a sender within the block. Raises BusyError, JournalError;
        OutcomeUnknownError if an earlier request is open."""
        with journal.lock(cluster, command, seconds=LOCK_SECONDS) as lock:
            if waiting := journal.entries(cluster=cluster, only_open=True):
                raise OutcomeUnknownError(
                    f"cluster {cluster}: The outcome of journal entry {_numbers(waiting)} is "
                    f"unknown. Nothing was sent. First run `{choice.resume}`."
                )
            yield cls(journal=journal, lock=lock, cluster=cluster, way=choice, **fields)

    def send(
        self, step: Step, position: int, before: Reading, clearance: Callable[[], Clearance]
    ) -> StepOutcome:
        """Send a request once, if a node accepts it and `clearance` allows it; return its outcome.

        Raises before the request is sent: JournalError, BusyError, RefusedError for old data, and
        the errors of `clearance`. Raises OutcomeUnknownError if the request was interrupted.
        """
        try:
            recipient = self.watcher.backend.recipient()
        except (UnreachableError, RefusedError, InputError) as error:
            nobody = Delivery(sent=False, why=str(error))
            self.steps.append(settle(step, position, nobody, None, proven=False))
            return self.steps[-1]
        # Print before the checks, because output to an unread terminal may block.
        self.watcher.say(f"sending step {position + 1} of {self.total}: {_moves(step)}")
        began, clearance_now = self.waits.monotonic(), clearance()
        self._expect_recent("the last reading is", before.at, OLDEST_READING_S)
        dispatch = Dispatch(
            cluster=self.cluster,
            where=self.watcher.backend.where,
            reach=self.way.text,
            plan=self.plan,
            approval=clearance_now.approval,
            position=position,
            total=self.total,
            step=step,
            who=self.lock.who,
            at=self.waits.clock(),
            over_at=self.waits.over_at(step),
            sent_to=recipient,
            name=self.name,
            settings=self.settings,
            approved_by=clearance_now.by,
            reason=clearance_now.reason,
            signed=clearance_now.signed,
            key=clearance_now.key,
        )
        try:  # record the outcome before another interrupt
            self.steps.append(self._send(dispatch, before, began, clearance))
        except KeyboardInterrupt as error:
            raise OutcomeUnknownError(
                f"interrupted while request {position + 1} of {self.total} was being sent: it may "
                f"have been applied. Run `{self.way.resume}`."
            ) from error
        return self.steps[-1]

    def _send(
        self, dispatch: Dispatch, before: Reading, began: float, clearance: Callable[[], Clearance]
    ) -> StepOutcome:
        """Record the request in the journal, then send it; return the outcome."""
        number, step, waits = self.journal.intend(self.lock, dispatch), dispatch.step, self.waits
        delivery = _put(self.watcher, step, lambda: self._check(before, began, clearance))
        result, self.reading = watch(self.watcher, self.lock, dispatch, delivery, before, waits)
        settlement = Settlement(result=result, by="apply", who=self.lock.who, at=waits.clock())
        try:
            self.journal.settle(number, settlement)
        except JournalError as error:
            self.unwritten = str(error)
        return result

    def _expect_recent(self, subject: str, at: float, limit: float) -> None:
        """Raise RefusedError if `subject`, of the time `at`, is older than `limit` seconds."""
        if (age := self.waits.monotonic() - at) > limit:
            raise RefusedError(
                f"cluster {self.cluster}: {subject} {age:.0f} s old, because this process stood "
                "still or the controller was slow. Nothing was sent. Run the command again."
            )

    def _check(self, before: Reading, began: float, clearance: Callable[[], Clearance]) -> None:
        """Check the lock, the approval and the age of the data. Raises BusyError, ApprovalError,
        RefusedError."""
        self.lock.keep()
        clearance()
        self._expect_recent("the checks are", began, LONGEST_PAUSE_S)
        self._expect_recent("the last reading is", before.at, OLDEST_READING_S)


def _moves(step: Step) -> str:
    return _levels((move.feature, move.to_level) for move in step.updates)


def _levels(levels: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {level}" for name, level in levels)


def _put(watcher: Watcher, step: Step, check: Callable[[], None]) -> Delivery:
    """Send the request unless `check` raises; print progress; return the response."""
    started, ended = Event(), Event()

    def say() -> None:
        waited = 0
        started.wait()
        while not ended.wait(_ANSWER_SAID_S):
            waited += _ANSWER_SAID_S
            watcher.say(
                f"no answer for {waited} s; the controller has {step.timeout_ms / 1000:g} s from "
                "when it takes the request up"
            )

    def last_check() -> None:
        try:
            check()
        except FeatureLibError:
            raise
        except Exception as error:  # a backend would mistake the error for a lost response
            raise RefusedError(f"the last check failed: {error!r}. Nothing was sent.") from error
        started.set()

    thread = Thread(target=say, daemon=True)
    thread.start()
    try:
        return Delivery(reply=watcher.backend.update(step, last_check=last_check))
    except (UnreachableError, RefusedError, InputError) as error:
        return Delivery(sent=False, why=str(error))
    except (OutcomeUnknownError, BackendError) as error:  # the response is lost or invalid
        return Delivery(why=str(error))
    finally:
        ended.set()
        started.set()
        thread.join(1.0)  # the thread may hang on an unread terminal


def watch(
    watcher: Watcher,
    lock: Lock,
    dispatch: Dispatch,
    delivery: Delivery,
    before: Reading | None,
    waits: Waits,
) -> tuple[StepOutcome, Reading | None]:
    """Read the cluster until the outcome of a request is known or the time is over; return
    (outcome, last data). `before`: None = do not wait for nodes that do not respond."""
    step, began, pause = dispatch.step, waits.clock(), waits.first
    features = [move.feature for move in step.updates]
    is_accepted = delivery.reply is not None and delivery.reply.is_good
    until = began + waits.proof
    if is_accepted:
        until = began + waits.nodes
    elif before is not None:
        until = max(dispatch.over_at, began + waits.margin)
    printed, printed_at = "", 0.0
    while True:
        with suppress(JournalError, BusyError):  # reading the cluster needs no lock
            lock.keep()
        # Usually an accepted update is only not visible yet.
        is_due = not is_accepted or waits.clock() >= (began + until) / 2
        result, reading = _judge(watcher, dispatch, delivery, features, asks=is_due)
        if result.fate in (Fate.APPLIED, Fate.PARTLY):
            done = [move.update for move in result.updates if move.fate is Fate.APPLIED]
            levels = {move.feature: move.to_level for move in done}
            assert reading is not None  # the levels came from this data
            late_count, nodes = late_nodes(before or reading, reading, levels)
            result = replace(result, late=tuple(late_count), asked=nodes)
            text = f"{reporting(nodes - len(late_count), nodes)} {_levels(sorted(levels.items()))}"
            span = began + waits.nodes - waits.clock()
            waiting = span > 0 and bool(late_count and before is not None)
        else:
            span = until - waits.clock()
            # A machine that was suspended queried no node in that time, so read once more.
            waiting = (span > 0 or not is_due) and result.fate is Fate.UNKNOWN
            text = (result.unproven or f"waiting to see {_moves(step)}") if waiting else printed
        # Print changes at once, other progress at intervals.
        if text != printed and waits.clock() - printed_at >= (_QUIET if printed else 0.0):
            watcher.say(text)
            printed, printed_at = text, waits.clock()
        if not waiting:
            return result, reading
        waits.sleep(max(min(pause, span), 0.0))
        pause = min(2 * pause, waits.longest)


def _judge(
    watcher: Watcher, dispatch: Dispatch, delivery: Delivery, features: list[str], *, asks: bool
) -> tuple[StepOutcome, Reading | None]:
    """Return (outcome of a request after a new query, data of the query). `asks`: if the outcome
    stays unknown, also query the nodes that may still hold the request."""
    step, position = dispatch.step, dispatch.position
    if not delivery.sent:
        return settle(step, position, delivery, None, proven=False), None
    reading, reason = _read(watcher, dispatch.cluster)
    levels = None if reading is None else reading.seen(features)
    result = settle(step, position, delivery, levels, proven=False)
    if result.fate is not Fate.UNKNOWN or not (asks or reading is None):
        return result, reading
    if reading is None:
        return replace(result, unproven=reason), None
    if dispatch.who.is_elsewhere:
        reason = f"{dispatch.who.text} may still send it: run resume there, or end that process"
        return replace(result, unproven=f"{reason} and run resume --sender-ended"), reading
    passed = watcher.backend.passed(dispatch.sent_to, features)
    if isinstance(passed, NotPassed):
        return replace(result, unproven=passed.why), reading
    after, reason = _read(watcher, dispatch.cluster)
    state = None if after is None else after.seen_after(passed, features)
    if state is None:
        reason = reason or "no responding node surely has all committed changes"
        return replace(result, unproven=reason), reading
    result = settle(step, position, delivery, state, proven=True)
    return replace(result, proof=passed.how), after


def _read(watcher: Watcher, cluster: str) -> tuple[Reading | None, str]:
    try:
        return watcher.read(cluster, say=quietly), ""
    except BackendError as error:
        return None, f"the cluster cannot be read: {error}"


def resume(
    watcher: Watcher,
    journal: Journal,
    cluster: str,
    *,
    command: str = "featurelib resume",
    waits: Waits | None = None,
    sender_ended: bool = False,
) -> tuple[JournalEntry, ...]:
    """Settle every open request of a cluster, oldest first, and return each with its outcomes;
    write nothing to the cluster. `sender_ended`: the user declares that the sending processes on
    other hosts have ended, because this host cannot check that.

    Raises RefusedError if another cluster responds, BusyError while another process works on the
    cluster or the process of an open request still runs on this host, and JournalError.
    """
    if not journal.entries(cluster=cluster, only_open=True):
        return ()
    with journal.lock(cluster, command, seconds=LOCK_SECONDS) as lock:
        if waiting := journal.entries(cluster=cluster, only_open=True):
            _expect_ended(cluster, waiting)
            _expect_cluster(watcher, cluster, waiting)
        times = waits or Waits()
        return tuple(
            _settle(entry, watcher, journal, lock, times, sender_ended) for entry in waiting
        )


def _expect_ended(cluster: str, entries: Sequence[JournalEntry]) -> None:
    """Raise BusyError if the process that sent a request still exists on this host, because it may
    send the request later."""
    for entry in entries:
        if entry.intent.who.is_running_here():
            raise BusyError(
                f"cluster {cluster}: the process of journal entry {entry.number} still runs and "
                f"may send its request: {entry.intent.who.text}. Nothing was sent. Wait for the "
                "process or end it, then run the command again."
            )


def _expect_cluster(watcher: Watcher, cluster: str, entries: Sequence[JournalEntry]) -> None:
    """Raise RefusedError if another cluster responds. An unreachable cluster is accepted."""
    try:
        actual = watcher.read(say=quietly).view.cluster_id
    except BackendError:
        return
    if actual != cluster:
        used = [entry.intent.reach for entry in entries if entry.intent.reach.startswith("--")]
        advice = f"It was reached with {used[-1]}" if used else "Fix its address."
        raise RefusedError(
            f"{watcher.backend.where}: This is cluster {actual}, and journal entry "
            f"{_numbers(entries)}, whose outcome is unknown, is of cluster {cluster}. Nothing was "
            f"sent. {advice}"
        )


def _numbers(entries: Sequence[JournalEntry]) -> str:
    return ", ".join(str(entry.number) for entry in entries)


def _settle(
    entry: JournalEntry,
    watcher: Watcher,
    journal: Journal,
    lock: Lock,
    waits: Waits,
    sender_ended: bool,
) -> JournalEntry:
    dispatch = replace(entry.intent, who=lock.who) if sender_ended else entry.intent
    result, _ = watch(watcher, lock, dispatch, _delivery(entry), None, waits)
    outcome = Settlement(result=result, by="resume", who=lock.who, at=waits.clock())
    try:
        journal.settle(entry.number, outcome)
    except JournalError as error:
        raise OutcomeUnknownError(
            f"The outcome of journal entry {entry.number} is: {result.fate.value}. featurelib "
            "could "
            f"not save it, so the entry stays open: {error} Run resume again."
        ) from error
    return replace(entry, outcomes=(*entry.outcomes, outcome))


def _delivery(entry: JournalEntry) -> Delivery:
    """Return the controller's response that the journal recorded."""
    results = tuple(
        Result(feature=move.update.feature, code=move.code, message=move.message)
        for move in entry.updates
        if move.code is not None
    )
    if not results:
        words = (move.message for move in entry.updates if move.message)
        return Delivery(why=next(words, "the journal has no response"))
    return Delivery(reply=Reply(code=NO_ERROR, message=None, results=results))


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexplained:
    """A finalized level that no applied request explains. `entry`: a request for this level that
    was not applied."""

    feature: str
    level: int
    entry: JournalEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The result of `resume`. `settled`: checked requests. `lost`: open requests that could not be
    checked, with reasons; `others`: open requests of other clusters, with commands. `unexplained`:
    levels without applied request."""

    settled: tuple[JournalEntry, ...] = ()
    lost: Sequence[tuple[JournalEntry, str]] = ()
    others: Sequence[tuple[JournalEntry, str]] = ()
    cluster: str = ""
    part: str = ""
    unexplained: tuple[Unexplained, ...] = ()

    @property
    def unknown(self) -> int:
        """The number of requests whose outcome is unknown after `resume`."""
        return sum(entry.is_open for entry in self.settled) + len(self.lost)


def find_unexplained(journal: Journal, watcher: Watcher, cluster: str) -> tuple[Unexplained, ...]:
    """Return the finalized levels that only a request closed as rejected or not applied can
    explain. The cluster is queried only if there are such requests. Raises BackendError."""
    entries = journal.entries(cluster=cluster)
    if not any(entry.is_in_vain for entry in entries):
        return ()
    features = {move.feature for entry in entries for move in entry.intent.step.updates}
    levels = watcher.read(cluster, say=quietly).seen(features)
    levels_left = []
    for feature in sorted(features - levels.unknown):
        level, is_unapplied = levels.level(feature), None
        for entry in entries:
            for outcome in entry.updates:
                if outcome.update.feature != feature:
                    continue
                # From here on the journal explains the level.
                if outcome.fate in (Fate.APPLIED, Fate.OVERTAKEN):
                    is_unapplied = None
                elif outcome.update.to_level == level and entry.is_in_vain:
                    is_unapplied = entry
        if is_unapplied is not None and level is not None:
            levels_left.append(Unexplained(feature=feature, level=level, entry=is_unapplied))
    return tuple(levels_left)
