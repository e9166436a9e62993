"""Open requests are settled by looking; nothing is ever sent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from featurelib.backends.base import Say
from featurelib.backends.embedded_backend import EmbeddedBackend
from featurelib.controller.ending_words import settled_sentence
from featurelib.controller.resuming import Settled, resume
from featurelib.core import ending as endings
from featurelib.core.outcome import Fate
from featurelib.errors import BusyError, OutcomeUnknownError, RefusedError, UnreachableError
from featurelib.journal.journal import Journal
from tests.controller.clusters import (
    CATALOGUE,
    TIMEOUT_MS,
    WAITS,
    Bench,
    Wrapped,
    bench,
    kraft,
    replace,
    zookeeper,
)
from tests.controller.test_apply import cut, cut_before, other_writer


def resumed(it: Bench, backend: Wrapped | None = None) -> tuple[Settled, ...]:
    journal = Journal(it.journal_path)
    try:
        return resume(it.watcher(backend), journal, waits=WAITS)
    finally:
        journal.close()


def left_open(it: Bench, applied: bool, timeout_ms: int = TIMEOUT_MS) -> Wrapped:
    """A run whose reply is lost, and who then is interrupted."""

    def stop(look: int) -> None:
        if look > 1:
            raise KeyboardInterrupt

    wrapped = it.wrapped(before_describe=stop)
    if applied:
        wrapped.after_update = cut
    else:
        wrapped.before_update = cut_before
    with pytest.raises(OutcomeUnknownError):
        it.apply(it.plan(timeout_ms), wrapped)
    assert it.fates() == ["unknown"]
    return wrapped


@pytest.mark.parametrize(("mode", "make"), [("kraft", kraft), ("zk", zookeeper)])
@pytest.mark.parametrize("applied", [True, False])
def test_an_open_request_is_settled_by_one_look(
    tmp_path: Path, mode: str, make: Callable[[], object], applied: bool
) -> None:
    it = bench(tmp_path, make(), mode)  # type: ignore[arg-type]
    plan = it.plan()
    left_open(it, applied)
    watching = it.wrapped()
    [settled] = resumed(it, watching)
    assert settled.result.fate is (Fate.APPLIED if applied else Fate.NOT_APPLIED)
    assert watching.sent == []
    assert it.fates() == [settled.result.fate.value]
    assert resumed(it) == ()
    assert isinstance(it.apply(plan), endings.Applied | endings.NothingToDo)


def test_nothing_is_called_not_applied_before_its_time_is_over(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    left_open(it, applied=False)
    journal = Journal(it.journal_path)
    over_at = journal.entries()[0].intent.over_at
    journal.close()
    [settled] = resumed(it)
    assert settled.result.fate is Fate.NOT_APPLIED
    assert datetime.now(UTC).timestamp() >= over_at


@pytest.mark.parametrize(("left", "told"), [(64.2, "65"), (1.0, "1"), (0.0, ""), (-9.0, "")])
def test_it_is_said_before_the_first_look_how_long_resume_may_wait(
    tmp_path: Path, left: float, told: str
) -> None:
    it = bench(tmp_path, kraft(25))
    left_open(it, applied=False)
    journal = Journal(it.journal_path)
    now = [journal.entries()[0].intent.over_at - left]
    it.said.clear()
    said: list[str] = []

    def sleep(seconds: float) -> None:
        now[0] += max(seconds, 0.5)

    waits = replace(WAITS, clock=lambda: now[0], sleep=sleep, longest=30.0)
    watching = it.wrapped(before_describe=lambda look: said.extend(it.said if look == 1 else ()))
    [settled] = resume(it.watcher(watching), journal, waits=waits, cluster="c-1")
    journal.close()
    assert settled.result.fate is Fate.NOT_APPLIED
    waiting = (
        f"journal entry 1: waiting up to {told} s: until then the controller may still carry it out"
    )
    assert said == ([waiting] if told else [])


def test_what_is_applied_while_resume_waits_is_seen(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    left_open(it, applied=False, timeout_ms=60_000)
    watching = it.wrapped()
    real = it.plan()

    def late(look: int) -> None:
        if look == 3:
            it.backend.update(real.steps[0])

    watching.before_describe = late
    [settled] = resumed(it, watching)
    assert settled.result.fate is Fate.APPLIED


def test_a_look_that_began_before_its_time_was_over_proves_nothing(tmp_path: Path) -> None:
    """The request is applied while nodes are being asked, at the very end of its time."""
    it = bench(tmp_path, kraft(25))
    left_open(it, applied=False)
    real = it.plan()
    journal = Journal(it.journal_path)
    now = [journal.entries()[0].intent.over_at - 0.01]

    class Slow(EmbeddedBackend):
        def describe(self, say: Say) -> tuple[bytes, ...]:
            lines = super().describe(say)
            if it.levels() == {"metadata.version": 25}:
                self.update(real.steps[0])
                now[0] += 1
            return lines

    waits = replace(WAITS, clock=lambda: now[0], sleep=lambda seconds: None)
    watcher = it.watcher(Slow(it.cluster))
    [settled] = resume(watcher, journal, waits=waits, cluster="c-1")
    journal.close()
    assert settled.result.fate is Fate.APPLIED


def test_a_cluster_that_does_not_answer_leaves_its_requests_open(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    left_open(it, applied=True)

    def silent(look: int) -> None:
        if look > 1:  # the first look tells which cluster it is
            raise UnreachableError("nobody answers")

    [settled] = resumed(it, it.wrapped(before_describe=silent))
    assert settled.is_open
    assert it.fates() == ["unknown"]
    sentence = settled_sentence(settled.entry.number, settled.result, CATALOGUE)
    assert sentence.startswith("Journal entry 1: still unknown: ")
    [settled] = resumed(it)
    assert settled.result.fate is Fate.APPLIED


def test_another_writer_s_level_settles_a_request_as_overtaken(tmp_path: Path) -> None:
    it = bench(tmp_path, zookeeper(), "zk")
    left_open(it, applied=False)
    other_writer(it, "f", 3)
    [settled] = resumed(it)
    assert settled.result.fate is Fate.OVERTAKEN
    sentence = settled_sentence(settled.entry.number, settled.result, CATALOGUE)
    assert sentence == "Journal entry 1: overtaken by another writer: f is at 3."


def test_the_levels_of_another_cluster_settle_nothing(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    left_open(it, applied=True)
    (tmp_path / "other").mkdir()
    other = bench(tmp_path / "other", kraft(25))
    other.cluster.close()
    from featurelib.backends.embedded import EmbeddedCluster

    there = EmbeddedCluster(str(tmp_path / "two"), CATALOGUE.tables, cluster_id="c-2")
    there.put(kraft(29), 5)
    it.cluster = there
    journal = Journal(it.journal_path)
    with pytest.raises(RefusedError, match=r"this is cluster c-2, expected cluster c-1, of which"):
        resume(it.watcher(), journal, waits=WAITS, cluster="c-1")
    journal.close()
    assert it.fates() == ["unknown"]


def test_while_somebody_is_at_work_nothing_is_resumed(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    left_open(it, applied=True)
    journal = Journal(it.journal_path)
    with journal.lock("c-1", "featurelib apply", seconds=60), pytest.raises(BusyError):
        resumed(it)
    journal.close()


def test_an_outcome_that_cannot_be_written_down_leaves_the_request_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from featurelib.errors import JournalError

    it = bench(tmp_path, kraft(25))
    left_open(it, applied=True)

    def full(*args: object) -> None:
        raise JournalError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "settle", full)
        with pytest.raises(OutcomeUnknownError, match=r"entry 1: applied, .*no space left"):
            resumed(it)
    assert it.fates() == ["unknown"]


def test_nothing_open_needs_no_lock_and_no_second_look(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    watching = it.wrapped()
    assert resumed(it, watching) == ()
    assert watching.looks == 1
