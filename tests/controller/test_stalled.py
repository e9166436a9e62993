"""An applier that stands still after its intent: nothing is settled meanwhile, and nothing is sent
by it that no longer holds. A terminal that nobody reads, SIGSTOP or a paused machine stops it."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from featurelib.controller import holder, send
from featurelib.controller.holder import myself
from featurelib.controller.journal import Clearance, Dispatch, Journal, Lock, Withdrawal
from featurelib.core.outcome import Ending, EndingKind, Fate
from featurelib.errors import (
    ApprovalError,
    BusyError,
    InputError,
    JournalError,
    OutcomeUnknownError,
    RefusedError,
)
from tests.controller.clusters import Bench, approved, bench, kraft, replace
from tests.controller.test_resume import resumed

LATER_S = 420.0  # more than LOCK_SECONDS


@pytest.fixture
def it(tmp_path: Path) -> Bench:
    return bench(tmp_path, kraft())


def after_the_intent(monkeypatch: pytest.MonkeyPatch, happens: Callable[[Journal], object]) -> None:
    """Let something happen between the intent and the last check."""
    real = Journal.intend

    def intend(self: Journal, lock: Lock, intent: Dispatch) -> int:
        number = real(self, lock, intent)
        happens(self)
        return number

    monkeypatch.setattr(Journal, "intend", intend)


def expect_not_sent(it: Bench, ending: Ending, why: str) -> None:
    assert (ending.kind, it.fates()) == (EndingKind.REJECTED, [Fate.NOT_APPLIED.value])
    assert why in (ending.steps[0].updates[0].message or "")
    assert it.levels() == {"metadata.version": 25}


def test_a_frozen_applier_s_request_is_settled_by_nobody_and_not_sent_when_it_goes_on(
    it: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = it.plan()
    monkeypatch.setattr(send, "LONGEST_PAUSE_S", 0.2)
    after_the_intent(monkeypatch, lambda _: os.kill(os.getpid(), signal.SIGSTOP))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        word = "a fault"
        try:
            ending = it.apply(plan)
            word = f"{ending.kind.value}: {ending.steps[0].updates[0].message}"
        finally:
            os.write(write, word.encode())
            os._exit(0)
    assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
    clock = datetime.now().timestamp() + LATER_S
    monkeypatch.setattr("featurelib.controller.journal._now", lambda: clock)
    with pytest.raises(
        BusyError, match=r"The lock ends with that process\. Nothing was sent\. Wait"
    ):
        resumed(it)
    monkeypatch.undo()
    with it.journal() as journal:  # no lock stands there any more, as of a journal of before
        journal._db.execute("DELETE FROM lock")
    with pytest.raises(BusyError, match="the process of journal entry 1 still runs"):
        resumed(it)
    assert it.fates() == ["unknown"]
    with it.journal() as journal, journal.lock("c-1", "an operator", seconds=300):
        pass
    os.kill(child, signal.SIGCONT)
    assert select.select([read], [], [], 30)[0]
    assert os.read(read, 9999).decode().startswith("rejected: The lock of cluster c-1 expired")
    os.waitpid(child, 0)
    assert (it.fates(), it.levels()) == (["not applied"], {"metadata.version": 25})


def test_whoever_stood_still_for_long_does_not_send(
    it: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = it.plan()
    monkeypatch.setattr(send, "LONGEST_PAUSE_S", -1.0)
    expect_not_sent(it, it.apply(plan), "the checks are 0 s old, because this process stood still")


def test_a_request_does_not_rest_on_a_look_of_long_ago(
    it: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a terminal that nobody reads stops it between the look and the checks."""
    plan = it.plan()
    monkeypatch.setattr(send, "OLDEST_READING_S", -1.0)
    with pytest.raises(RefusedError, match=r"the last reading is \d+ s old.* Nothing was sent"):
        it.apply(plan)
    assert (it.fates(), it.levels()) == ([], {"metadata.version": 25})


def test_a_look_that_grows_old_after_the_intent_is_not_enough(
    it: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the controller throttles the connection."""
    plan = it.plan()
    after_the_intent(monkeypatch, lambda _: monkeypatch.setattr(send, "OLDEST_READING_S", -1.0))
    expect_not_sent(it, it.apply(plan), "the last reading is ")


def test_an_approval_that_expires_after_the_intent_is_not_sent(it: Bench) -> None:
    asked: list[datetime] = []

    def check(at: datetime) -> Clearance:
        asked.append(at)
        if len(asked) > 2:  # at the start, before the intent, after it
            raise ApprovalError("expired. Nothing was sent.")
        return approved(at)

    expect_not_sent(it, it.apply(it.plan(), check_approval=check), "expired")
    assert asked == sorted(asked)
    assert asked[-1] - asked[0] < timedelta(minutes=1)


def test_a_last_check_that_fails_by_a_fault_is_not_sent(it: Bench) -> None:
    asked: list[datetime] = []

    def check(at: datetime) -> Clearance:
        asked.append(at)
        if len(asked) > 2:
            raise OSError(5, "Input/output error")
        return approved(at)

    ending = it.apply(it.plan(), check_approval=check)
    expect_not_sent(it, ending, "the last check failed: OSError(5, 'Input/output error')")


def test_what_was_not_sent_is_not_unknown_where_the_journal_s_disk_fails(
    it: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Journal) -> object:
        raise JournalError("the journal cannot be written: disk I/O error")

    plan = it.plan()
    after_the_intent(monkeypatch, lambda _: monkeypatch.setattr(Journal, "_transaction", fail))
    monkeypatch.setattr(Lock, "keep", fail)
    ending = it.apply(plan)
    monkeypatch.undo()
    assert ending.kind is EndingKind.REJECTED
    assert "disk I/O error" in (ending.steps[0].updates[0].message or "")
    assert it.levels() == {"metadata.version": 25}
    assert it.fates() == ["unknown"]  # its entry is open until resume closes it
    with it.journal() as journal:  # could not be let go of
        journal._db.execute("DELETE FROM lock")
    assert resumed(it)[0].fate is Fate.NOT_APPLIED


def test_an_approval_that_is_withdrawn_after_the_intent_is_not_sent(
    it: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = Withdrawal(
        approval="approval-1",
        plan="p",
        cluster="c-1",
        approved_by="ann",
        who=myself("w"),
        at=1.0,
        reason="no",
    )
    plan = it.plan()
    after_the_intent(monkeypatch, lambda journal: journal.withdraw(taken))
    expect_not_sent(it, it.apply(plan), "The approval ")


def test_a_request_of_another_host_stays_open_until_somebody_says_that_its_process_ended(
    it: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = it.plan()

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    after_the_intent(monkeypatch, stop)
    with pytest.raises(OutcomeUnknownError):
        it.apply(plan)
    monkeypatch.undo()
    monkeypatch.setattr("socket.gethostname", lambda: "another-host")
    [entry] = resumed(it)
    assert entry.fate is Fate.UNKNOWN
    assert "may still send it: run resume there" in entry.outcomes[-1].result.unproven
    with it.journal() as journal:
        [entry] = send.resume(it.watcher(), journal, "c-1", sender_ended=True)
    assert entry.fate is Fate.NOT_APPLIED


def test_a_process_of_this_host_is_known_to_run_and_to_have_ended() -> None:
    child = os.fork()
    if child == 0:
        signal.pause()
    parent = myself("x")
    other = replace(parent, pid=child, started=holder._started(child))
    assert (other.is_running_here(), other.is_gone(), other.is_elsewhere) == (True, False, False)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert (other.is_running_here(), other.is_gone()) == (False, True)
    assert not parent.is_running_here()  # a program looks after its own request


@pytest.mark.parametrize("name", [":memory:", "file:journal.sqlite?mode=memory"])
def test_a_journal_that_does_not_stay_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="a journal is a file that stays"):
        Journal(Path(name))


def test_an_emptied_journal_is_refused_and_a_new_one_is_known_as_new(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    made = Journal(path)
    assert made.is_new
    made.close()
    again = Journal(path)
    assert not again.is_new
    again.close()
    path.write_bytes(b"")
    with pytest.raises(JournalError, match="the journal is empty, so its requests are lost"):
        Journal(path)
    assert [file.name for file in tmp_path.iterdir()] == ["journal.sqlite"]


@pytest.mark.parametrize("replaced", [True, False])
def test_a_journal_that_goes_away_under_a_run_sends_nothing(
    it: Bench, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    plan, real = it.plan(), Journal.intend

    def intend(self: Journal, lock: Lock, intent: Dispatch) -> int:
        self.path.unlink()
        if replaced:
            Journal(self.path).close()
        return real(self, lock, intent)

    monkeypatch.setattr(Journal, "intend", intend)
    with pytest.raises(JournalError, match=r"cannot be written|removed or replaced"):
        it.apply(plan)
    assert it.levels() == {"metadata.version": 25}


def test_a_journal_that_is_gone_right_after_the_intent_sends_nothing(
    it: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, real = it.plan(), Journal._identity

    def identity(self: Journal) -> tuple[int, int] | None:
        if self.entries():
            self.path.unlink(missing_ok=True)
        return real(self)

    monkeypatch.setattr(Journal, "_identity", identity)
    with pytest.raises(JournalError, match="removed or replaced while this run held it"):
        it.apply(plan)
    assert it.levels() == {"metadata.version": 25}


def test_verify_sees_an_outcome_whose_request_is_missing(it: Bench) -> None:
    it.apply(it.plan())
    with it.journal() as journal:
        assert journal.verify().is_right
        for table in ("intent", "seal"):
            journal._db.execute(f"DELETE FROM {table}")
        journal._db.execute("DELETE FROM sqlite_sequence WHERE name = 'seal'")
        assert "outcome 1: its entry 1 is missing" in journal.verify().faults


def test_a_process_of_another_container_of_this_host_is_elsewhere() -> None:
    """Containers that share the name of their host have process numbers of their own."""
    mine = myself("x")
    other = replace(mine, namespace="pid:[1]", pid=2**22 + 1)
    assert (mine.is_elsewhere, other.is_elsewhere) == (False, True)
    assert (other.is_gone(), other.is_running_here()) == (False, False)
