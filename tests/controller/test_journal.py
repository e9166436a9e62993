"""The journal: intents before outcomes, locks that name their holder, files that are none."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from featurelib.controller import journal as journals
from featurelib.controller.journal import (
    Dispatch,
    Journal,
    Settlement,
    Verified,
    Withdrawal,
    myself,
)
from featurelib.core.outcome import Fate, MoveOutcome, StepOutcome
from featurelib.errors import BusyError, InputError, JournalError
from featurelib.model import Move, Step

UPDATE = Move(feature="f", from_level=1, to_level=2, upgrade_type="UPGRADE")
STEP = Step(updates=(UPDATE,), timeout_ms=1000)


def intent(cluster: str = "c", **change: object) -> Dispatch:
    made = Dispatch(
        cluster=cluster,
        where="here",
        reach="--file x",
        plan="sha256:1",
        approval="a",
        position=0,
        total=2,
        step=STEP,
        who=myself("a test"),
        at=1000.0,
        over_at=1001.0,
    )
    return replace(made, **change)  # type: ignore[arg-type]


def outcome(fate: Fate, by: str = "apply") -> Settlement:
    update = MoveOutcome(update=UPDATE, fate=fate, code=0, message=None, level=2)
    result = StepOutcome(position=0, updates=(update,), asked=3)
    return Settlement(result=result, by=by, who=myself("a test"), at=1002.0)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "deep" / "down" / "journal.sqlite")


def test_an_intent_is_open_until_its_outcome_is_known(journal: Journal) -> None:
    with journal.lock("c", "apply", seconds=60) as lock:
        number = journal.intend(lock, intent())
        [entry] = journal.entries(only_open=True)
        assert (entry.number, entry.intent, entry.is_open) == (number, entry.intent, True)
        assert entry.intent.step == STEP
        journal.settle(number, outcome(Fate.UNKNOWN))
        assert len(journal.entries(cluster="c", only_open=True)) == 1
        journal.settle(number, outcome(Fate.APPLIED, by="resume"))
    assert journal.entries(only_open=True) == ()
    [entry] = journal.entries(cluster="c", plan="sha256:1")
    assert [found.by for found in entry.outcomes] == ["apply", "resume"]
    assert (entry.fate, entry.is_open) == (Fate.APPLIED, False)
    assert journal.entries(cluster="d") == journal.entries(plan="sha256:2") == ()


@pytest.mark.parametrize("fate", [f for f in Fate if f not in (Fate.UNKNOWN, Fate.PARTLY)])
def test_every_outcome_but_unknown_settles_a_request(journal: Journal, fate: Fate) -> None:
    with journal.lock("c", "apply", seconds=60) as lock:
        journal.settle(journal.intend(lock, intent()), outcome(fate))
    assert journal.entries(only_open=True) == ()


# --- The lock -------------------------------------------------------------------------------------


def test_a_cluster_is_held_by_one_and_the_other_is_told_who(journal: Journal) -> None:
    other = Journal(journal.path)
    with journal.lock("c", "featurelib apply plan.json", seconds=60):
        with pytest.raises(BusyError) as error, other.lock("c", "me too", seconds=60):
            raise AssertionError("both hold it")
        text = str(error.value)
        assert f"process {os.getpid()}, since " in text
        assert "featurelib apply plan.json" in text
        assert "Nothing was sent" in text
        with other.lock("d", "another cluster", seconds=60):
            pass
    for each in (other, journal):
        with each.lock("c", "now", seconds=60):
            pass
    other.close()


def test_a_lock_ends_when_it_expires(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Journal(journal.path)
    now = journals._now()
    with journal.lock("c", "forgotten", seconds=60) as mine:
        monkeypatch.setattr(journals, "_now", lambda: now + 61)
        with other.lock("c", "later", seconds=60):
            for late in (lambda: journal.intend(mine, intent()), mine.keep):
                with pytest.raises(BusyError, match=r"expired, and .*later.* holds it"):
                    late()
            assert journal.entries() == ()
    with other.lock("c", "after both", seconds=60):
        pass
    other.close()


def test_a_lock_that_is_kept_does_not_expire(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Journal(journal.path)
    now = journals._now()
    with journal.lock("c", "at work", seconds=60) as mine:
        for seconds in (50, 100, 150):
            monkeypatch.setattr(journals, "_now", lambda then=seconds: now + then)
            mine.keep()
            with pytest.raises(BusyError), other.lock("c", "too early", seconds=60):
                pass
    other.close()


def test_a_lock_holds_while_a_request_may_take(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Journal(journal.path)
    now = journals._now()
    with journal.lock("c", "at work", seconds=60) as mine:
        journal.intend(mine, intent(at=0.0, over_at=300.0))
        monkeypatch.setattr(journals, "_now", lambda: now + 350)
        with pytest.raises(BusyError), other.lock("c", "too early", seconds=60):
            pass
    other.close()


def test_the_lock_of_a_process_that_ended_is_free(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    code = (
        "import sys, os, pathlib; from featurelib.controller.journal import Journal;"
        f"lock = Journal(pathlib.Path({str(path)!r})).lock('c', 'killed', seconds=3600);"
        "lock.__enter__();"
        "print('held', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    journal = Journal(path)
    with pytest.raises(BusyError, match="killed"), journal.lock("c", "now", seconds=60):
        pass
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is not reaped
    child.stdout.close()
    assert child.stdin is not None
    with journal.lock("c", "now", seconds=60):  # a zombie is no process any more
        pass
    child.wait()
    child.stdin.close()
    with journal.lock("c", "again", seconds=60):
        pass
    journal.close()


def test_who_holds_a_lock_on_another_machine_is_not_known_to_be_gone() -> None:
    me = myself("x")
    assert not me.is_gone()
    assert not replace(me, host="elsewhere", pid=999_999_999).is_gone()
    assert replace(me, pid=999_999_999).is_gone()
    assert replace(me, started="long before").is_gone(), "another process has its number now"
    assert not replace(me, started="").is_gone()


def test_another_user_s_process_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(pid: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", forbidden)
    assert not myself("x").is_gone()


# --- What was written stays as it was written -----------------------------------------------------


def written(path: Path) -> Journal:
    """A journal of three requests, of which the first was settled twice."""
    journal = Journal(path)
    with journal.lock("c", "apply", seconds=60) as lock:
        for _ in range(3):
            journal.intend(lock, intent())
    journal.settle(1, outcome(Fate.UNKNOWN))
    journal.settle(1, outcome(Fate.APPLIED, by="resume"))
    return journal


def change(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as db:
        for statement in statements:
            assert db.execute(statement).rowcount == 1, statement
    db.close()


def test_records_as_they_were_written_and_the_digest_to_keep(tmp_path: Path) -> None:
    journal = written(tmp_path / "j")
    first = journal.verify()
    assert (first.records, first.faults) == (5, ())
    with journal.lock("c", "apply", seconds=60) as lock:
        journal.intend(lock, intent())
    second = journal.verify(first.digest)
    assert (second.records, second.faults) == (6, ())
    assert second.digest != first.digest
    assert (second.kept, second.is_right) == ("outcome 2 (written after outcome 1)", True)
    unknown = journal.verify("sha256:0")
    assert (unknown.faults, unknown.kept, unknown.is_right) == ((), "", False)
    assert Journal(tmp_path / "empty").verify() == Verified(records=0, digest="", faults=())


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("UPDATE intent SET number = 9 WHERE number = 2", "entry 2: taken out"),
        ("UPDATE intent SET cluster = 'd' WHERE number = 2", "entry 2: it or"),
        ("UPDATE intent SET cluster = x'63' WHERE number = 2", "entry 2: it or"),
        ("UPDATE intent SET plan = 'sha256:2' WHERE number = 3", "entry 3: it or"),
        ("UPDATE intent SET content = content || ' ' WHERE number = 1", "entry 1: it or"),
        ("UPDATE intent SET content = cast(content AS TEXT) WHERE number = 1", "entry 1: it or"),
        ("DELETE FROM intent WHERE number = 3", "entry 3: taken out"),
        (
            "INSERT INTO intent (cluster, plan, content) SELECT cluster, plan, content FROM intent"
            " WHERE number = 1",
            "entry 4: it has no digest",
        ),
        (
            "UPDATE outcome SET number = 7 WHERE number = 2",
            "outcome 2 (written after outcome 1): taken out",
        ),
        (
            "UPDATE outcome SET intent = 2 WHERE number = 1",
            "outcome 1 (written after entry 3): it or",
        ),
        (
            "UPDATE outcome SET settled = 1 WHERE number = 1",
            "outcome 1 (written after entry 3): it or",
        ),
        ("UPDATE outcome SET settled = 1.0 WHERE number = 2", None),  # an integer to SQLite
        (
            "UPDATE outcome SET settled = 'yes' WHERE number = 2",
            "outcome 2 (written after outcome 1): it or",
        ),
        (
            "UPDATE outcome SET content = x'7b7d' WHERE number = 2",
            "outcome 2 (written after outcome 1): it or",
        ),
        ("DELETE FROM outcome WHERE number = 2", "outcome 2 (written after outcome 1): taken out"),
        ("UPDATE seal SET number = 9 WHERE number = 5", "digests after number 4: taken out"),
        ("UPDATE seal SET number = -1 WHERE number = 1", "digests after number 0: taken"),
        ("UPDATE seal SET record = 'outcome' WHERE number = 1", "outcome 1: it or"),
        ("UPDATE seal SET record = '\x1b[2J' WHERE number = 1", "\x1b[2J 1: taken out"),
        ("UPDATE seal SET place = 3 WHERE number = 2", "entry 3: it or"),
        (
            "UPDATE seal SET digest = 'sha256:0' WHERE number = 5",
            "outcome 2 (written after outcome 1): it or",
        ),
        ("DELETE FROM seal WHERE number = 3", "digests after number 2: taken out"),
        ("DELETE FROM seal WHERE number = 5", "digests after number 4: taken out"),
    ],
)
def test_whatever_is_changed_put_in_or_taken_out_is_seen(
    tmp_path: Path, statement: str, fault: str | None
) -> None:
    journal = written(tmp_path / "j")
    kept = journal.verify().digest
    change(tmp_path / "j", statement)
    found = journal.verify(kept).faults
    assert bool(found) == (fault is not None)
    assert fault is None or any(fault in one for one in found), found
    refused = nullcontext() if fault is None else pytest.raises(JournalError, match="Nothing was")
    with journal.lock("c", "apply", seconds=60) as lock, refused:
        journal.intend(lock, intent())


@pytest.mark.parametrize(
    ("statement", "is_read"),
    [
        ("UPDATE withdrawal SET number = 2", True),
        ("UPDATE withdrawal SET approval = 'b'", False),
        ("UPDATE withdrawal SET content = x'7b7d'", False),
        ("UPDATE withdrawal SET content = replace(content, '1000', '1001')", True),
        ("DELETE FROM withdrawal", True),
    ],
)
def test_an_approval_that_was_taken_back_is_a_record_like_others(
    tmp_path: Path, statement: str, is_read: bool
) -> None:
    one = Withdrawal(
        approval="a", plan="sha256:1", cluster="c", approved_by="ann",
        who=myself("a test"), at=1000.0, reason="",
    )  # fmt: skip
    journal = written(tmp_path / "j")
    assert journal.withdrawals() == ()
    journal.withdraw(one)
    assert journal.withdrawals() == (one,)
    assert journal.verify().faults == ()
    change(tmp_path / "j", statement)
    assert journal.verify().faults != ()
    with nullcontext() if is_read else pytest.raises(JournalError, match="withdrawal 1: expected"):
        journal.withdrawals()


def test_a_record_that_was_cut_out_with_its_digest_is_missed_by_the_next(tmp_path: Path) -> None:
    journal = written(tmp_path / "j")
    change(
        tmp_path / "j",
        "DELETE FROM intent WHERE number = 3",
        "DELETE FROM seal WHERE number = 3",
        "UPDATE seal SET number = 3 WHERE number = 4",
        "UPDATE seal SET number = 4 WHERE number = 5",
        "UPDATE sqlite_sequence SET seq = 4 WHERE name = 'seal'",
    )
    assert journal.verify().faults == (
        "outcome 1 (written after entry 2): it or its digest was changed",
    )


def test_only_a_digest_that_was_kept_tells_what_was_cut_off_with_its_digest_or_written_anew(
    tmp_path: Path,
) -> None:
    journal = written(tmp_path / "j")
    kept = journal.verify().digest
    change(
        tmp_path / "j",
        "DELETE FROM outcome WHERE number = 2",
        "DELETE FROM seal WHERE number = 5",
        "UPDATE sqlite_sequence SET seq = 4 WHERE name = 'seal'",
    )
    another = written(tmp_path / "other")
    for one in (journal, another):
        assert one.verify().faults == ()
        assert (one.verify(kept).kept, one.verify(kept).is_right) == ("", False)


def test_a_journal_of_before_digests_is_read_and_gets_them_with_its_next_record(
    tmp_path: Path,
) -> None:
    journal = written(tmp_path / "j")
    with sqlite3.connect(tmp_path / "j") as db:
        db.execute("DROP TABLE seal")
    db.close()
    before = journal.entries()
    assert [entry.number for entry in before] == [1, 2, 3]
    assert len(journal.verify().faults) == 5
    journal.settle(2, outcome(Fate.APPLIED))
    assert journal.verify().faults == ()
    assert journal.entries()[0] == before[0]
    # A release of before digests, beside this one, writes none.
    change(tmp_path / "j", "INSERT INTO outcome (intent, settled, content) VALUES (3, 0, '')")
    journal.settle(3, outcome(Fate.APPLIED))
    assert journal.verify().faults == ("outcome 4: it has no digest",)


# --- Files that are no journal --------------------------------------------------------------------


def test_another_file_is_no_journal_and_is_left_alone(tmp_path: Path) -> None:
    text, other, newer = tmp_path / "notes", tmp_path / "bills.db", tmp_path / "newer.db"
    text.write_text("no database at all, and longer than a header of one " * 10)
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE bills (amount INTEGER)")
    db.close()
    Journal(newer).close()
    with sqlite3.connect(newer) as db:
        db.execute("UPDATE about SET value = '2'")
    db.close()
    for path, kind, found in (
        (text, JournalError, "not a database"),
        (other, InputError, "is not a journal"),
        (newer, InputError, "is a journal of form 2"),
    ):
        before = path.read_bytes()
        with pytest.raises(kind, match=found) as error:
            Journal(path)
        assert str(path) in str(error.value)
        assert "--journal FILE" in str(error.value)
        assert path.read_bytes() == before


def test_a_journal_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="the journal cannot be opened"):
        Journal(tmp_path / "file" / "journal")


def test_a_journal_that_somebody_holds_too_long_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "LONGEST_WAIT_S", 0.05)
    journal = Journal(tmp_path / "journal")
    with sqlite3.connect(journal.path, isolation_level=None) as db:
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalError, match="database is locked"):
            journal.entries()
    db.close()
    assert journal.entries() == ()
    journal.close()
