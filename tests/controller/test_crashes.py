"""Killed at every boundary, without room for the journal, and fifty at once: nothing half applied
is ever called applied, nothing is sent twice, and one resume settles what was left open.

Boundaries are all moments between two things that last: lock, intent, request, reply, outcome."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from featurelib.backends.base import Check, Say
from featurelib.config.fleet import Fleet
from featurelib.controller.apply import ApplyOrder, apply
from featurelib.controller.journal import Dispatch, Journal, Lock, Settlement
from featurelib.controller.reading import Watcher
from featurelib.controller.send import resume
from featurelib.core.outcome import EndingKind, Fate
from featurelib.core.reply import Reply
from featurelib.errors import FeatureLibError, JournalError
from featurelib.extras.sandbox.backend import EmbeddedBackend
from featurelib.model import Plan, Step
from tests.backends.simulator import Simulated
from tests.controller.clusters import (
    AGE,
    CATALOGUE,
    WAITS,
    Bench,
    approved,
    bench,
    kraft,
    say_nothing,
    zookeeper,
)

BOUNDARIES = (
    "before the lock",
    "after the lock",
    "after the first look",
    "while the intent is written",
    "after the intent",
    "after the request was sent",
    "after the reply",
    "after the look",
    "while the outcome is written",
    "after the outcome",
)


class Killer:
    """Ends this process without a word at one boundary of one step."""

    def __init__(self, boundary: str, step: int) -> None:
        self.boundary, self.step, self.now = boundary, step, 0

    def at(self, boundary: str) -> None:
        if (boundary, self.now) == (self.boundary, self.step):
            os.kill(os.getpid(), signal.SIGKILL)


class KilledBackend(EmbeddedBackend):
    """The real backend, and a killer beside it."""

    def __init__(self, cluster: Simulated, killer: Killer) -> None:
        super().__init__(cluster)
        self._killer, self._sent = killer, False

    def describe(self, say: Say) -> tuple[bytes, ...]:
        if self._sent:
            self._killer.at("after the reply")
        lines = super().describe(say)
        self._killer.at("after the look" if self._sent else "after the first look")
        return lines

    def update(self, step: Step, *, validate_only: bool = False, last_check: Check = None) -> Reply:
        if validate_only:
            return super().update(step, validate_only=True)
        self._killer.at("after the intent")
        reply = super().update(step, last_check=last_check)
        self._killer.at("after the request was sent")
        self._sent = True
        return reply


class KilledJournal(Journal):
    """The real journal, and a killer beside it."""

    def __init__(self, path: Path, killer: Killer) -> None:
        self._killer, self._writing = killer, ""
        super().__init__(path)
        self._db.set_trace_callback(self._trace)

    def _trace(self, statement: str) -> None:
        if statement == "COMMIT" and self._writing:
            self._killer.at(self._writing)

    def intend(self, lock: Lock, intent: Dispatch) -> int:
        self._writing = "while the intent is written"
        number = super().intend(lock, intent)
        self._writing = ""
        return number

    def settle(self, number: int, outcome: Settlement) -> None:
        self._writing = "while the outcome is written"
        super().settle(number, outcome)
        self._writing = ""
        self._killer.at("after the outcome")
        self._killer.now += 1

    def entries(self, **how: object) -> tuple[object, ...]:  # type: ignore[override]
        self._killer.at("after the lock")  # the first thing it does then
        return super().entries(**how)  # type: ignore[arg-type]


def carry_out(folder: Path, plan: Plan, boundary: str, step: int) -> None:
    """Apply `plan` to the cluster in `folder`; the process does not live to see the end."""
    killer = Killer(boundary, step)
    backend = KilledBackend(Simulated(str(folder / "cluster.db"), CATALOGUE.tables), killer)
    journal = KilledJournal(folder / "state" / "journal.sqlite", killer)
    watcher = Watcher(
        backend=backend, catalogue=CATALOGUE, fleet=Fleet(), max_age=AGE, say=say_nothing
    )
    killer.at("before the lock")
    apply(ApplyOrder(plan=plan, check_approval=approved, waits=WAITS), watcher, journal)


# --- Killed ---------------------------------------------------------------------------------------


KILLED = -9


MOMENTS = [(boundary, 0) for boundary in BOUNDARIES]
MOMENTS += [(boundary, 1) for boundary in BOUNDARIES[3:]]  # one lock, one first look


def in_a_child(work: Callable[[], object]) -> int:
    """Run `work` in a process of its own, because what ends it must not end the tests: its code."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status)


def settle(it: Bench) -> list[Fate]:
    with it.journal() as journal:
        return [one.fate for one in resume(it.watcher(), journal, "c-1", waits=WAITS)]


@pytest.mark.parametrize(("boundary", "step"), MOMENTS)
def test_killed_at_any_boundary_one_resume_settles_everything_and_nothing_is_sent_twice(
    tmp_path: Path, boundary: str, step: int
) -> None:
    it = bench(tmp_path, zookeeper(), "zk")  # two requests; each moves the version by one
    plan = it.plan()
    assert in_a_child(lambda: carry_out(tmp_path, plan, boundary, step)) == KILLED
    assert [s.updates[0].feature for s in plan.steps] == ["f", "g"]

    sent = boundary in BOUNDARIES[5:]
    written = step + sent
    assert it.cluster.epoch == 100 + written
    is_open = boundary in BOUNDARIES[4:9]
    fates = it.fates()
    assert fates.count("unknown") == is_open
    assert fates.count("applied") == step + (boundary == "after the outcome")

    settled = settle(it)
    assert settled == ([Fate.APPLIED if sent else Fate.NOT_APPLIED] if is_open else [])
    assert it.fates().count("applied") == written
    assert settle(it) == []

    ending = it.apply(plan)
    assert ending.kind in (EndingKind.APPLIED, EndingKind.NOTHING_TO_DO)
    assert (it.levels(), it.cluster.epoch) == ({"f": 5, "g": 5}, 102), "a request was sent twice"


# --- No room for the journal ----------------------------------------------------------------------


def no_more_room() -> None:
    """From now on no file of this process grows (an error, and no signal: Python ignores it)."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))


def test_without_room_for_the_intent_nothing_is_sent(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    plan = it.plan()
    Journal(it.journal_path).close()

    def work() -> None:
        wrapped = it.wrapped()

        def full(look: int) -> None:
            no_more_room()

        wrapped.before_describe = full
        with pytest.raises(JournalError, match="the journal cannot be written"):
            it.apply(plan, wrapped)
        assert wrapped.written == []

    assert in_a_child(work) == 0
    assert it.levels() == {"metadata.version": 25}
    assert it.fates() == []


def test_without_room_for_the_lock_nothing_is_sent(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    plan = it.plan()

    def work() -> None:
        no_more_room()
        wrapped = it.wrapped()
        with pytest.raises(JournalError):
            it.apply(plan, wrapped)
        assert (wrapped.looks, wrapped.sent) == (0, [])

    assert in_a_child(work) == 0


def test_a_journal_that_is_damaged_after_the_request_never_says_that_nothing_was_sent(
    tmp_path: Path,
) -> None:
    it = bench(tmp_path, kraft(25))
    plan = it.plan()

    def damaged(reply: Reply) -> Reply:
        it.journal_path.write_bytes(b"x" * it.journal_path.stat().st_size)
        return reply

    ending = it.apply(plan, it.wrapped(after_update=damaged))
    assert ending.kind is EndingKind.UNKNOWN
    assert "could not save" in ending.reasons[0]
    assert "othing was sent" not in ending.reasons[0]


def test_without_room_for_the_outcome_it_is_unknown_and_resume_settles_it(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    plan = it.plan()

    def work() -> None:
        def full(reply: Reply) -> Reply:
            no_more_room()
            return reply

        ending = it.apply(plan, it.wrapped(after_update=full))
        assert ending.kind is EndingKind.UNKNOWN
        assert "could not save" in ending.reasons[0]

    assert in_a_child(work) == 0
    assert it.fates() == ["unknown"]
    assert settle(it) == [Fate.APPLIED]
    assert it.apply(plan).kind is EndingKind.NOTHING_TO_DO


# --- Many at once ---------------------------------------------------------------------------------


def test_of_fifty_appliers_at_once_exactly_one_applies(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    plan = it.plan()
    before = it.cluster.epoch
    gate_read, gate_write = os.pipe()
    answers_read, answers_write = os.pipe()
    processes = []
    for _ in range(50):
        process = os.fork()
        if process == 0:
            word = "a programming error"
            try:
                os.close(gate_write)
                os.read(gate_read, 1)  # until it is closed
                word = _one_of_many(tmp_path, plan)
            finally:
                os.write(answers_write, f"{word}\n".encode())
                os._exit(0)
        processes.append(process)
    os.close(gate_read)
    os.close(answers_write)
    os.close(gate_write)
    with os.fdopen(answers_read) as lines:
        words = [line.strip() for line in lines]
    for process in processes:
        os.waitpid(process, 0)
    assert words.count("applied") == 1, words
    assert set(words) <= {"applied", "nothing to do", "BusyError"}, words
    assert len(words) == 50
    assert it.fates() == ["applied"]
    assert it.cluster.epoch == before + 1


def _one_of_many(folder: Path, plan: Plan) -> str:

    cluster = Simulated(str(folder / "cluster.db"), CATALOGUE.tables)
    try:
        return Bench(folder=folder, cluster=cluster).apply(plan).kind.value
    except FeatureLibError as error:
        return type(error).__name__
