"""What was asked of clusters and what became of it, in one SQLite file of this machine.

An intent is on the disk before its request is sent; its outcome follows. An intent without a
settled outcome is open: something may have been written. Nothing is ever changed or deleted but
locks. A lock names its holder; it ends with it, when its process does, or when it expires.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from featurelib.core.outcome import Fate
from featurelib.errors import BusyError, InputError, JournalError
from featurelib.journal.holder import Holder, myself
from featurelib.journal.requests import Clearance as Clearance
from featurelib.journal.requests import Entry as Entry
from featurelib.journal.requests import Intent as Intent
from featurelib.journal.requests import Outcome as Outcome

FORM = "1"  # of the file; another one is refused
LONGEST_WAIT_S = 30  # for another process that writes to the journal
_SCHEMA = (
    "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE lock (cluster TEXT PRIMARY KEY, holder BLOB NOT NULL, expires REAL NOT NULL)",
    "CREATE TABLE intent (number INTEGER PRIMARY KEY AUTOINCREMENT, cluster TEXT NOT NULL,"
    " plan TEXT NOT NULL, content BLOB NOT NULL)",
    "CREATE INDEX intent_plan ON intent (cluster, plan)",
    "CREATE TABLE outcome (number INTEGER PRIMARY KEY AUTOINCREMENT, intent INTEGER NOT NULL,"
    " settled INTEGER NOT NULL, content BLOB NOT NULL)",
    "CREATE INDEX outcome_intent ON outcome (intent)",
)


_INTENT, _OUTCOME = msgspec.json.Decoder(Intent), msgspec.json.Decoder(Outcome)
_HOLDER = msgspec.json.Decoder(Holder)
_LATEST = 253_402_300_800.0  # the year 10000, seconds since 1970: no later time can be shown
Row = TypeVar("Row")


class Journal:
    """One journal file. Where there is none it is made. Close it when done."""

    def __init__(self, path: Path) -> None:
        """Raises JournalError for a file that cannot be kept, InputError for one that is none."""
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = sqlite3.connect(path, isolation_level=None, timeout=LONGEST_WAIT_S)
        except (OSError, sqlite3.Error) as error:
            raise self._cannot("be opened", error) from error
        try:
            with self._transaction():
                self._open()
            # EXTRA: what was committed stays so if the machine stops at the next moment.
            self._db.execute("PRAGMA synchronous = EXTRA")
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Close the file; what was written is on the disk already."""
        self._db.close()

    @contextmanager
    def lock(self, cluster: str, command: str, *, seconds: float) -> Iterator[Lock]:
        """Hold the cluster for this process. Raises BusyError naming who else holds it.

        It holds for `seconds`, and again from each intent and `keep`.
        """
        lock = Lock(journal=self, cluster=cluster, who=myself(command), seconds=seconds)
        with self._transaction():
            row = self._db.execute(
                "SELECT holder, expires FROM lock WHERE cluster = ?", (cluster,)
            ).fetchone()
            if row is not None:
                self._expect_free(cluster, *self._holder(cluster, *row))
            self._put(lock, seconds)
        try:
            yield lock
        finally:
            self._release(lock)

    def intend(self, lock: Lock, intent: Intent) -> int:
        """Write down that a request is about to be sent; the number of its entry.

        When this returns it is on the disk. Raises JournalError if it is not, and BusyError if the
        lock is no longer ours: either way nothing is to be sent.
        """
        content = msgspec.json.encode(intent)
        with self._transaction():
            self._expect_mine(lock)
            self._put(lock, lock.seconds + max(0.0, intent.over_at - intent.at))
            number = self._db.execute(
                "INSERT INTO intent (cluster, plan, content) VALUES (?, ?, ?)",
                (intent.cluster, intent.plan, content),
            ).lastrowid
        assert number is not None
        return number

    def settle(self, number: int, outcome: Outcome) -> None:
        """Write down what became of a request. Raises JournalError if that cannot be kept."""
        settled = outcome.result.fate is not Fate.UNKNOWN
        with self._transaction():
            self._db.execute(
                "INSERT INTO outcome (intent, settled, content) VALUES (?, ?, ?)",
                (number, settled, msgspec.json.encode(outcome)),
            )

    def entries(
        self, *, cluster: str | None = None, plan: str | None = None, only_open: bool = False
    ) -> tuple[Entry, ...]:
        """What was intended and what became of it, oldest first.

        Every row is read, whatever is asked for: one that is damaged may be of any cluster, open or
        not. Raises JournalError for such a one.
        """
        with self._transaction():
            intents = self._db.execute(
                "SELECT number, cluster, plan, content FROM intent ORDER BY number"
            ).fetchall()
            rows = self._db.execute(
                "SELECT intent, content FROM outcome ORDER BY number"
            ).fetchall()
        outcomes: dict[int, list[Outcome]] = {number: [] for number, *_ in intents}
        for number, content in rows:
            outcome = self._decoded(_OUTCOME, content, f"the outcome of entry {number}")
            if number not in outcomes or not _are_times(outcome.at):
                raise self._damaged(f"the outcome of entry {number}", "one of a request")
            outcomes[number].append(outcome)
        found = []
        for number, its_cluster, its_plan, content in intents:
            intent = self._decoded(_INTENT, content, f"entry {number}")
            times = _are_times(intent.at, intent.over_at, intent.who.since)
            if (its_cluster, its_plan) != (intent.cluster, intent.plan) or not times:
                raise self._damaged(f"entry {number}", "one cluster, plan and time all through it")
            entry = Entry(number=number, intent=intent, outcomes=tuple(outcomes[number]))
            wanted = cluster in (None, intent.cluster) and plan in (None, intent.plan)
            if wanted and (entry.is_open or not only_open):
                found.append(entry)
        return tuple(found)

    def holders(self) -> dict[str, tuple[Holder, float]]:
        """Who holds which cluster, and until when; seconds since 1970."""
        rows = self._db.execute("SELECT cluster, holder, expires FROM lock")
        return {row[0]: self._holder(*row) for row in rows}

    def _holder(self, cluster: str, content: object, expires: object) -> tuple[Holder, float]:
        what = f"the lock of cluster {cluster}"
        holder = self._decoded(_HOLDER, content, what)
        if not isinstance(expires, int | float) or not _are_times(expires, holder.since):
            raise self._damaged(what, "a time when it ends")
        return holder, float(expires)

    def _decoded(self, decoder: msgspec.json.Decoder[Row], content: object, what: str) -> Row:
        try:
            return decoder.decode(content)  # type: ignore[arg-type]  # the file may hold anything
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
            raise self._damaged(what, "what was written down", str(error)) from error

    def _damaged(self, what: str, expected: str, found: str = "another") -> JournalError:
        return JournalError(
            f"{self.path}: {what}: expected {expected}, found {found}: the journal is damaged, and "
            "what is open cannot be told from it. Nothing was sent. Keep the file; put a copy from "
            "before in its place, or name another with --journal FILE once you know by featurelib "
            "describe what is true."
        )

    def _put(self, lock: Lock, seconds: float) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO lock VALUES (?, ?, ?)",
            (lock.cluster, msgspec.json.encode(lock.who), _now() + seconds),
        )

    def _release(self, lock: Lock) -> None:
        """Let go of what is ours. Where the journal cannot be written the lock ends with us."""
        try:
            with self._transaction():
                self._db.execute(
                    "DELETE FROM lock WHERE cluster = ? AND holder = ?",
                    (lock.cluster, msgspec.json.encode(lock.who)),
                )
        except (JournalError, BusyError):
            pass

    def _expect_free(self, cluster: str, holder: Holder, expires: float) -> None:
        if holder.is_gone() or expires <= _now():
            return
        raise BusyError(
            f"cluster {cluster}: expected nobody else at work, found {holder.text}; the lock ends "
            f"with that process, or at {_time(expires)}. Nothing was sent. Wait for it, then run "
            "this again."
        )

    def _expect_mine(self, lock: Lock) -> None:
        row = self._db.execute(
            "SELECT holder FROM lock WHERE cluster = ?", (lock.cluster,)
        ).fetchone()
        if row is None or row[0] != msgspec.json.encode(lock.who):
            what = f"the lock of cluster {lock.cluster}"
            other = "nobody" if row is None else self._decoded(_HOLDER, row[0], what).text
            raise BusyError(
                f"cluster {lock.cluster}: expected to hold its lock, found that {other} does: ours "
                "had expired. The request was not sent. Run this again."
            )

    def _open(self) -> None:
        there = {row[0] for row in self._db.execute("SELECT tbl_name FROM sqlite_master")}
        if not there:
            for statement in _SCHEMA:
                self._db.execute(statement)
            self._db.execute("INSERT INTO about VALUES ('form', ?)", (FORM,))
            return
        form = None
        if {"about", "intent"} <= there:
            form = self._db.execute("SELECT value FROM about WHERE name = 'form'").fetchone()
        if form != (FORM,):
            raise InputError(
                f"{self.path}: expected a journal of form {FORM}, found "
                f"{'another file' if form is None else f'form {form[0]}'}. Nothing was sent. "
                "Name another with --journal FILE."
            )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All of it or nothing, on the disk at the end. Raises JournalError."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._undo()
            raise self._cannot("be written", error) from error
        except BaseException:
            self._undo()
            raise

    def _undo(self) -> None:
        if self._db.in_transaction:
            try:
                self._db.execute("ROLLBACK")
            except sqlite3.Error:  # SQLite undoes it when the file is opened next
                self._db.close()

    def _cannot(self, what: str, error: Exception) -> JournalError:
        no_file_of_ours = isinstance(error, sqlite3.DatabaseError) and not isinstance(
            error, sqlite3.OperationalError
        )
        if no_file_of_ours or "decode" in str(error):
            return JournalError(
                f"{self.path}: expected a journal, found a file that is none, or is damaged: "
                f"{error}. Nothing was sent. Name the right one with --journal FILE."
            )
        return JournalError(
            f"{self.path}: the journal cannot {what}: {error}. Make room or mend its rights, or "
            "name another with --journal FILE."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A cluster that is held by this process."""

    journal: Journal
    cluster: str
    who: Holder
    seconds: float

    def keep(self) -> None:
        """Hold it for another while. Raises BusyError where it was lost, JournalError."""
        with self.journal._transaction():
            self.journal._expect_mine(self)
            self.journal._put(self, self.seconds)


def _are_times(*seconds: float) -> bool:
    return all(0 <= moment < _LATEST for moment in seconds)


def _now() -> float:
    return datetime.now(UTC).timestamp()


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
