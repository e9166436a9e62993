"""Open requests are settled by looking; nothing is ever sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from featurelib.controller.journal import Journal, JournalEntry, Settlement
from featurelib.controller.send import Waits, find_unexplained, resume
from featurelib.core.outcome import EndingKind, Fate, MoveOutcome, StepOutcome
from featurelib.errors import BusyError, JournalError, OutcomeUnknownError, UnreachableError
from featurelib.feature import UpgradeType
from featurelib.model import Passed
from featurelib.view.outcome import settled_sentence, unexplained_sentence
from tests.controller.clusters import (
    CATALOGUE,
    WAITS,
    Bench,
    Wrapped,
    bench,
    kraft,
    replace,
    zookeeper,
)
from tests.controller.test_apply import LOST, cut, other_writer


def resumed(
    it: Bench, backend: Wrapped | None = None, waits: Waits = WAITS
) -> tuple[JournalEntry, ...]:
    with it.journal() as journal:
        return resume(it.watcher(backend), journal, "c-1", waits=waits)


def left_open(it: Bench, applied: bool) -> None:
    """A run whose reply is lost, and who then is interrupted."""

    def stop(look: int) -> None:
        if look > 1:
            raise KeyboardInterrupt

    lost: dict[str, Any] = {"after_update": cut} if applied else {"answer": LOST}
    with pytest.raises(OutcomeUnknownError):
        it.apply(it.plan(), it.wrapped(before_describe=stop, **lost))
    assert it.fates() == ["unknown"]


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
    assert settled.fate is (Fate.APPLIED if applied else Fate.NOT_APPLIED)
    assert watching.sent == []
    assert it.fates() == [settled.fate.value]
    assert resumed(it) == ()
    assert it.apply(plan).kind in (EndingKind.APPLIED, EndingKind.NOTHING_TO_DO)


def test_nothing_is_called_not_applied_without_proof_however_late_it_is(tmp_path: Path) -> None:
    """A controller that stood still carries a request out when it goes on (SIGSTOP, SIGCONT)."""
    it = bench(tmp_path, kraft(25))
    plan = it.plan()
    left_open(it, applied=False)
    with it.journal() as journal:
        now = [journal.entries()[0].intent.over_at + 86_400]
    waits = replace(WAITS, clock=lambda: now[0], sleep=_pass_time(now))
    silent = it.wrapped(unproven="controller 1 does not answer")
    [settled] = resumed(it, silent, waits)
    assert settled.is_open
    assert settled_sentence(settled, CATALOGUE) == (
        "Journal entry 1: still unknown: "
        "group.version is not finalized, metadata.version is at 25 (4.0-IV3), share.version is "
        "not finalized, streams.version is not finalized, transaction.version is not finalized; "
        "it may still be applied: controller 1 does not answer."
    )
    it.backend.update(plan.steps[0])  # it goes on
    [settled] = resumed(it, silent, waits)
    assert settled.fate is Fate.APPLIED


def _pass_time(now: list[float]) -> Callable[[float], None]:
    def sleep(seconds: float) -> None:
        now[0] += max(seconds, 0.01)

    return sleep


def test_what_is_carried_out_before_it_is_proven_that_nothing_can_be_is_seen(
    tmp_path: Path,
) -> None:
    """The levels of before count for nothing, however short before it was."""
    it = bench(tmp_path, kraft(25))
    plan = it.plan()
    left_open(it, applied=False)
    asked = it.wrapped()

    def late(sent: object, features: object) -> Passed:
        it.backend.update(plan.steps[0])
        return Passed(how="it has been waited for")

    asked.passed = late  # type: ignore[method-assign]
    [settled] = resumed(it, asked)
    assert settled.fate is Fate.APPLIED
    assert settled.outcomes[-1].result.proof == "it has been waited for"


def test_levels_count_only_where_somebody_has_heard_of_all_that_was_carried_out(
    tmp_path: Path,
) -> None:
    it = bench(tmp_path, kraft(25))
    left_open(it, applied=False)
    epoch = it.cluster.epoch

    def at(offset: int) -> Wrapped:
        asked = it.wrapped()
        asked.passed = lambda sent, features: Passed(how="by epoch 7", offset=offset)  # type: ignore[method-assign]
        return asked

    [settled] = resumed(it, at(epoch + 1))
    assert settled.is_open
    assert (
        "no responding node surely has all committed changes"
        in settled.outcomes[-1].result.unproven
    )
    [settled] = resumed(it, at(epoch))
    assert settled.fate is Fate.NOT_APPLIED


def test_a_cluster_that_does_not_answer_leaves_its_requests_open(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    left_open(it, applied=True)

    def silent(look: int) -> None:
        if look > 1:  # the first look tells which cluster it is
            raise UnreachableError("nobody answers")

    [settled] = resumed(it, it.wrapped(before_describe=silent))
    assert settled.is_open
    assert it.fates() == ["unknown"]
    sentence = settled_sentence(settled, CATALOGUE)
    assert sentence.startswith("Journal entry 1: still unknown: ")
    [settled] = resumed(it)
    assert settled.fate is Fate.APPLIED


def test_another_writer_s_level_settles_a_request_as_overtaken(tmp_path: Path) -> None:
    it = bench(tmp_path, zookeeper(), "zk")
    left_open(it, applied=False)
    other_writer(it, "f", 3)
    [settled] = resumed(it)
    assert settled.fate is Fate.OVERTAKEN
    sentence = settled_sentence(settled, CATALOGUE)
    assert sentence == (
        "Journal entry 1: overtaken by another writer: f is at 3; the file holds every request "
        "that was carried out."
    )


def test_while_somebody_is_at_work_nothing_is_resumed(tmp_path: Path) -> None:
    it = bench(tmp_path, kraft(25))
    left_open(it, applied=True)
    with (
        it.journal() as journal,
        journal.lock("c-1", "featurelib apply", seconds=60),
        pytest.raises(BusyError),
    ):
        resumed(it)


def test_an_outcome_that_cannot_be_written_down_leaves_the_request_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = bench(tmp_path, kraft(25))
    left_open(it, applied=True)

    def full(*args: object) -> None:
        raise JournalError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "settle", full)
        with pytest.raises(OutcomeUnknownError, match=r"entry 1 is: applied.*no space left"):
            resumed(it)
    assert it.fates() == ["unknown"]


def closed_by_the_clock(it: Bench, fate: Fate) -> None:
    """An entry as earlier releases left it: closed, and without whom it was sent to."""
    left_open(it, applied=False)
    with it.journal() as journal:
        [entry] = journal.entries()
        updates = tuple(
            MoveOutcome(update=u, fate=fate, code=7, message=None, level=u.from_level)
            for u in entry.intent.step.updates
        )
        result = StepOutcome(position=0, updates=updates)
        journal.settle(1, Settlement(result=result, by="apply", who=entry.intent.who, at=0.0))


def unexplained(it: Bench) -> list[str]:
    with it.journal() as journal:
        found = find_unexplained(journal, it.watcher(), "c-1")
        return [unexplained_sentence(one, CATALOGUE) for one in found]


@pytest.mark.parametrize("fate", [Fate.REJECTED, Fate.NOT_APPLIED])
def test_a_level_that_no_request_explains_is_said_with_the_entry_that_asked_for_it(
    tmp_path: Path, fate: Fate
) -> None:
    it = bench(tmp_path, zookeeper(), "zk")
    assert unexplained(it) == []
    closed_by_the_clock(it, fate)  # of the plan of all features: f 5
    assert unexplained(it) == []
    it.backend.update(it.plan().steps[0])  # the controller goes on
    assert unexplained(it) == [
        "f is at 5. No request of this journal that was applied explains the level: entry 1 "
        f"requested it and was closed as {fate.value}."
    ]
    other_writer(it, "f", 3, UpgradeType.SAFE_DOWNGRADE)
    assert unexplained(it) == []
    other_writer(it, "f", 1, UpgradeType.SAFE_DOWNGRADE)
    assert it.apply(it.plan(up={"f": "5"})).kind is EndingKind.APPLIED
    assert unexplained(it) == [], "the second entry explains it"
