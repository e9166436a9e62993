"""Keep sent requests and their outcomes in a SQLite file on this machine.

A request is on the disk (Dispatch) before it is sent; its outcome (Settlement) follows. A request
without a final settlement is open: it may have written levels. Only locks are ever changed or
deleted. A lock has a holder, a process, and ends with the process or when the lock expires. Times
are seconds since 1970.

Each record has a digest of itself and of the previous digest (`seal`), so that a changed, added or
removed record is visible. The next record adds the digests to a file of an older release.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import join, quote
from typing import Any, TypeVar

import msgspec

from featurelib.controller.holder import Holder, myself, say_seconds
from featurelib.core.outcome import Fate, MoveOutcome, StepOutcome
from featurelib.errors import BusyError, InputError, JournalError
from featurelib.model import Recipient, Step

FORM = "1"  # the format of the file; other formats are refused
LONGEST_WAIT_S = 30  # the maximum wait for another process that writes to the journal
_SCHEMA = (
    "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE lock (cluster TEXT PRIMARY KEY, holder BLOB NOT NULL, expires REAL NOT NULL)",
    "CREATE TABLE intent (number INTEGER PRIMARY KEY AUTOINCREMENT, cluster TEXT NOT NULL,"
    " plan TEXT NOT NULL, content BLOB NOT NULL)",
    "CREATE INDEX intent_plan ON intent (cluster, plan)",
    "CREATE TABLE outcome (number INTEGER PRIMARY KEY AUTOINCREMENT, intent INTEGER NOT NULL,"
    " settled INTEGER NOT NULL, content BLOB NOT NULL)",
    "CREATE INDEX outcome_intent ON outcome (intent)",
    f"INSERT INTO about VALUES ('form', '{FORM}')",
)
_SEALS = (
    "CREATE TABLE seal (number INTEGER PRIMARY KEY AUTOINCREMENT, record TEXT NOT NULL,"
    " place INTEGER NOT NULL, digest TEXT NOT NULL)"
)
_SEALED = {  # the tables of records; a record's digest covers the whole row
    "intent": "number, cluster, plan, content",
    "outcome": "number, intent, settled, content",
    "withdrawal": "number, approval, content",
}
_WITHDRAWALS = (  # created with the first withdrawal; older releases have no such table
    "CREATE TABLE IF NOT EXISTS withdrawal (number INTEGER PRIMARY KEY AUTOINCREMENT,"
    " approval TEXT NOT NULL, content BLOB NOT NULL)"
)
_LATEST = 253_402_300_800.0  # the year 10000: no later time can be shown
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterArgs:
    """The options that chose a cluster, repeated in the commands of messages. `reach`: its
    addresses, file or name; `intent`: the arguments of a plan."""

    reach: str = ""
    intent: str = ""
    fleet: str | None = None
    journal: str | None = None

    @property
    def text(self) -> str:
        """The arguments of a command line that choose the cluster."""
        return f"{self.reach}{_option('fleet', self.fleet)}".strip()

    @property
    def resume(self) -> str:
        """The command `featurelib resume`, which settles a request with unknown outcome."""
        return f"featurelib resume {self.text}".rstrip() + self.kept_in

    @property
    def kept_in(self) -> str:
        """The option that names the journal; "" for the default journal."""
        return _option("journal", self.journal)

    @property
    def plan(self) -> str:
        """The command that makes a new plan for the cluster."""
        intent = join(self.intent.split()) or "…"  # one line, because the text is untrusted
        if self.reach.startswith("--"):  # `plan` takes options after its command
            return f"featurelib plan {intent} {self.text}"
        return f"featurelib plan {self.reach or 'CLUSTER'} {intent}{_option('fleet', self.fleet)}"


def _option(name: str, value: str | None) -> str:
    return f" --{name} {quote(value)}" if value else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clearance:
    """A verified approval of a plan. `approval`: its id; `signed`: true if `by` signed the plan."""

    approval: str
    by: str = ""
    reason: str = ""
    signed: bool | None = False  # None if no signature was needed
    key: str = ""  # type and fingerprint of the signing key

    @property
    def text(self) -> str:
        """The approval as text: `signed by ann@example.com with ED25519 key … (CHG-1)` or `by ann,
        NOT signed`."""
        approver = f"signed by {self.by}" if self.signed else f"by {self.by}, NOT signed"
        approver += f" with {self.key}" if self.key else ""
        return f"{approver} ({self.reason})" if self.reason else approver


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """A request that is sent now, with its sender and receiver.

    `over_at`: the time at which the sender stops waiting; the outcome stays open. In entries of
    older releases `sent_to` and `signed` are None, and the last texts are empty."""

    cluster: str
    where: str  # the cluster's address, for messages
    reach: str  # the options that reach the cluster
    plan: str  # the digest of the plan
    approval: str
    position: int  # the step's position in the plan, from 0
    total: int  # the number of steps in the plan
    step: Step
    who: Holder
    at: float
    over_at: float
    sent_to: Recipient | None = None
    name: str = ""  # the cluster's name in the inventory
    settings: str = ""  # the settings file, or a note that there was none
    approved_by: str = ""
    reason: str = ""  # the reason in the approval
    signed: bool | None = None
    key: str = ""  # the key that signed the approval

    @property
    def clearance(self) -> Clearance:
        """The approval under which the request was sent."""
        return Clearance(
            approval=self.approval,
            by=self.approved_by,
            reason=self.reason,
            signed=self.signed,
            key=self.key,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The outcome of a request; who determined it, and when."""

    result: StepOutcome
    by: str  # the command that wrote the record: apply or resume
    who: Holder
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """A request with all its recorded outcomes, oldest first."""

    number: int
    intent: Dispatch
    outcomes: tuple[Settlement, ...]

    @property
    def fate(self) -> Fate:
        """The newest recorded outcome of the request; UNKNOWN without record."""
        return self.outcomes[-1].result.fate if self.outcomes else Fate.UNKNOWN

    @property
    def is_open(self) -> bool:
        """True if the outcome is unknown, so that the request may have written levels."""
        return self.fate is Fate.UNKNOWN

    @property
    def is_in_vain(self) -> bool:
        """True if the request ended as rejected or not applied."""
        return self.fate in (Fate.REJECTED, Fate.NOT_APPLIED)

    @property
    def updates(self) -> tuple[MoveOutcome, ...]:
        """The newest outcome of each update; () without record."""
        return self.outcomes[-1].result.updates if self.outcomes else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """A withdrawn approval. `who`, `at`, `reason`: of the withdrawal."""

    approval: str
    plan: str
    cluster: str
    approved_by: str
    who: Holder
    at: float
    reason: str

    @property
    def text(self) -> str:
        """The text `taken back by ann on kafka-admin-1 at 2026-11-21T06:00:00Z (CHG-18)`."""
        reason = f" ({self.reason})" if self.reason else ""
        return f"taken back by {self.who.user} on {self.who.host} at {say_seconds(self.at)}{reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The result of verifying a journal: number of records, newest digest ("" = none), faults.
    `kept`: the record with the searched digest, "" = not found, None = no search."""

    records: int
    digest: str
    faults: tuple[str, ...]
    kept: str | None = None

    @property
    def is_right(self) -> bool:
        """True if the journal has no fault and contains the searched digest."""
        return not self.faults and self.kept != ""


class Journal:
    """The journal file; created if it does not exist. The caller closes the journal."""

    def __init__(self, path: Path) -> None:
        """Open the journal file. Raises JournalError if it is not writable or was emptied,
        InputError if it is no journal."""
        self.path, self.is_new = path, not path.exists()
        if path.name == ":memory:" or str(path).startswith("file:"):
            raise InputError(
                f"{path}: a journal is a file that stays. Name one with --journal FILE."
            )
        try:
            if path.is_file() and not path.stat().st_size:
                raise JournalError(
                    f"{path}: the journal is empty, so its requests are lost, and one may be open. "
                    "Nothing was sent. Restore a copy. If you have no copy, check the levels with "
                    "featurelib describe, and then remove the file."
                )
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self.is_new:
                self._make()
            self._db = sqlite3.connect(path, isolation_level=None, timeout=LONGEST_WAIT_S)
        except (OSError, sqlite3.Error) as error:
            raise self._cannot("be opened", error) from error
        try:
            with self._transaction():
                self._open()
            self._file = self._identity()
            # EXTRA: a committed record survives a power failure.
            self._db.execute("PRAGMA synchronous = EXTRA")
        except BaseException:
            self._db.close()
            raise

    def _make(self) -> None:
        """Create the journal in one step, because an empty file would count as a lost journal."""
        new_path = self.path.with_name(f".{self.path.name}.{os.getpid()}.{time.monotonic_ns()}")
        with closing(sqlite3.connect(new_path, isolation_level=None)) as is_linked:
            is_linked.executescript(";".join(("BEGIN", *_SCHEMA, "COMMIT")))
        try:
            with suppress(FileExistsError):  # another process created the file first
                os.link(new_path, self.path)
        finally:
            new_path.unlink()

    def _open(self) -> None:
        tables, form = (
            {row[0] for row in self._db.execute("SELECT tbl_name FROM sqlite_master")},
            None,
        )
        if {"about", "intent"} <= tables:
            form = self._row("SELECT value FROM about WHERE name = 'form'")
        if form != (FORM,):
            fault = "is not a journal" if form is None else f"is a journal of form {form[0]}"
            raise InputError(
                f"{self.path} {fault}, and this featurelib reads form {FORM}. Nothing was sent. "
                "Use another journal: --journal FILE."
            )

    def close(self) -> None:
        """Close the file. All records are on the disk before."""
        self._db.close()

    @contextmanager
    def lock(self, cluster: str, command: str, *, seconds: float) -> Iterator[Lock]:
        """Lock the cluster for this process during the block. BusyError names another holder.

        The lock lasts `seconds`, and longer after each intent and `keep`. A process of this host
        keeps its lock even when it is frozen, because it may continue."""
        lock = Lock(journal=self, cluster=cluster, who=myself(command), seconds=seconds)
        with self._transaction():
            if row := self._row("SELECT holder, expires FROM lock WHERE cluster = ?", cluster):
                holder, expires = self._holder(cluster, row[0]), row[1]
                if not isinstance(expires, int | float) or not _are_times(expires, holder.since):
                    raise self._damaged(f"the lock of cluster {cluster}", "a time when it ends")
                if (is_local := holder.is_running_here()) or not (
                    holder.is_gone() or expires <= _now()
                ):
                    until = "" if is_local else f", or at {say_seconds(expires)}"
                    raise BusyError(
                        f"cluster {cluster} is locked by {holder.text}. The lock ends with that "
                        f"process{until}. Nothing was sent. Wait for it{' or end it' * is_local}, "
                        "then run the command again."
                    )
            self._extend(lock, seconds)
        try:
            yield lock
        finally:  # if the journal cannot be written, the lock ends with the process
            with suppress(JournalError, BusyError), self._transaction():
                self._db.execute(
                    "DELETE FROM lock WHERE cluster = ? AND holder = ?", (cluster, lock.holder)
                )

    def intend(self, lock: Lock, intent: Dispatch) -> int:
        """Record on the disk that a request is sent now; return the record's number.

        Raises JournalError if the record is not written, or another record was changed, and
        BusyError if the lock was lost: then do not send the request.
        """
        # The next record gives digests to the records of a journal without any.
        if (faults := self.verify().faults) and self._has_table("seal"):
            raise JournalError(
                f"{self.path}: not all records are as they were written ({faults[0]}), so the "
                "approval may be used or withdrawn already. Nothing was sent. Restore a backup of "
                "the journal, then run the command again."
            )
        with self._transaction():
            self._expect_own_lock(lock)
            self._extend(lock, lock.seconds + max(0.0, intent.over_at - intent.at))
            number = self._db.execute(
                "INSERT INTO intent (cluster, plan, content) VALUES (?, ?, ?)",
                (intent.cluster, intent.plan, msgspec.json.encode(intent)),
            ).lastrowid
            assert number is not None
            self._seal("intent", number)
        row = self._row("SELECT content FROM intent WHERE number = ?", number)
        if row != (msgspec.json.encode(intent),) or self._identity() != self._file:
            raise JournalError(
                f"{self.path}: the journal was removed or replaced while this run held it. Nothing "
                "was sent. Put the journal back, then run the command again."
            )
        return number

    def _identity(self) -> tuple[int, int] | None:
        """Return (device, file number) of the file at the journal's path; None without file."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def settle(self, number: int, outcome: Settlement) -> None:
        """Record the outcome of a request. Raises JournalError if writing fails."""
        settled = outcome.result.fate is not Fate.UNKNOWN
        with self._transaction():
            cursor = self._db.execute(
                "INSERT INTO outcome (intent, settled, content) VALUES (?, ?, ?)",
                (number, settled, msgspec.json.encode(outcome)),
            ).lastrowid
            assert cursor is not None
            self._seal("outcome", cursor)

    def withdraw(self, withdrawal: Withdrawal) -> None:
        """Record a withdrawn approval. Raises JournalError if writing fails."""
        with self._transaction():
            self._db.execute(_WITHDRAWALS)
            cursor = self._db.execute(
                "INSERT INTO withdrawal (approval, content) VALUES (?, ?)",
                (withdrawal.approval, msgspec.json.encode(withdrawal)),
            ).lastrowid
            assert cursor is not None
            self._seal("withdrawal", cursor)

    def withdrawals(self) -> tuple[Withdrawal, ...]:
        """Return all withdrawn approvals, oldest first. Raises JournalError."""
        with self._transaction():
            rows = self._rows("withdrawal")
        items = []
        for number, approval, content in rows:
            item = self._decoded(Withdrawal, content, f"withdrawal {number}")
            if approval != item.approval or not _are_times(item.at, item.who.since):
                raise self._damaged(f"withdrawal {number}", "one approval and time all through it")
            items.append(item)
        return tuple(items)

    def entries(
        self, *, cluster: str | None = None, plan: str | None = None, only_open: bool = False
    ) -> tuple[JournalEntry, ...]:
        """Return the requests with their outcomes, oldest first. Raises JournalError if any row is
        damaged."""
        with self._transaction():
            intents = self._db.execute(
                "SELECT number, cluster, plan, content FROM intent ORDER BY number"
            ).fetchall()
            outcomes = self._db.execute(
                "SELECT intent, content FROM outcome ORDER BY number"
            ).fetchall()
        entries = dict[int, JournalEntry]()
        for number, its_cluster, its_plan, content in intents:
            subject = f"entry {number}"
            intent = self._decoded(Dispatch, content, subject)
            times = _are_times(intent.at, intent.over_at, intent.who.since)
            if (its_cluster, its_plan) != (intent.cluster, intent.plan) or not times:
                raise self._damaged(subject, "one cluster, plan and time all through it")
            entries[number] = JournalEntry(number=number, intent=intent, outcomes=())
        for number, content in outcomes:
            subject = f"the outcome of entry {number}"
            outcome = self._decoded(Settlement, content, subject)
            if number not in entries or not _are_times(outcome.at):
                raise self._damaged(subject, "one of a request")
            entry = entries[number]
            entries[number] = replace(entry, outcomes=(*entry.outcomes, outcome))
        return tuple(
            entry
            for entry in entries.values()
            if cluster in (None, entry.intent.cluster) and plan in (None, entry.intent.plan)
            if entry.is_open or not only_open
        )

    def _seal(self, record: str, row_id: int) -> None:
        """Add the digest of a new record; in a journal without digests, of all records."""
        records = [(record, row_id)]
        if not self._has_table("seal"):
            self._db.execute(_SEALS)
            records = [(table, row[0]) for table in _SEALED for row in self._rows(table)]
        for table, number in records:
            row = self._row(f"SELECT {_SEALED[table]} FROM {table} WHERE number = ?", number)
            last = self._row("SELECT digest FROM seal ORDER BY number DESC LIMIT 1") or ("",)
            self._db.execute(
                "INSERT INTO seal (record, place, digest) VALUES (?, ?, ?)",
                (table, number, _chained(last[0], table, row)),
            )

    def _has_table(self, table: str) -> bool:
        return self._row("SELECT 1 FROM sqlite_master WHERE name = ?", table) is not None

    def _rows(self, table: str) -> list[tuple[Any, ...]]:
        if not self._has_table(table):
            return []
        query = f"SELECT {_SEALED[table]} FROM {table} ORDER BY number"
        return self._db.execute(query).fetchall()

    def verify(self, kept: str | None = None) -> Verified:
        """Check every record and its digest; return the result. `kept`: an earlier newest digest to
        search. Raises JournalError if the file is unreadable."""
        seals, newest = list[tuple[Any, ...]](), None
        with self._transaction():
            rows = {(table, row[0]): row for table in _SEALED for row in self._rows(table)}
            if self._has_table("seal"):
                query = "SELECT number, record, place, digest FROM seal ORDER BY number"
                seals = self._db.execute(query).fetchall()
                newest = self._row("SELECT seq FROM sqlite_sequence WHERE name = 'seal'")
        records_by_place = dict(rows)
        records, faults, digest, number, before = len(rows), list[str](), "", 0, ""
        match = None if kept is None else ""
        for at, table, row_id, stored in seals:
            row = rows.pop((table, row_id), None)
            name = f"{_table_title(table)} {row_id}"
            text = name if table == "intent" or not before else f"{name} (written after {before})"
            if at != number + 1:
                faults.append(f"digests after number {number}: taken out")
            if row is None:
                faults.append(f"{text}: taken out")
            elif _chained(digest, table, row) != stored:
                faults.append(f"{text}: it or its digest was changed")
            match = text if stored == kept else match
            number, digest, before = at, stored, name
        if newest is not None and newest[0] != number:
            faults.append(f"digests after number {number}: taken out")
        faults += [f"{_table_title(table)} {row_id}: it has no digest" for table, row_id in rows]
        faults += [
            f"outcome {row_id}: its entry {entry} is missing"
            for (table, row_id), (_, entry, *_) in records_by_place.items()
            if table == "outcome" and ("intent", entry) not in records_by_place
        ]
        return Verified(records=records, digest=digest, faults=tuple(faults), kept=match)

    def _row(self, query: str, *values: object) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._db.execute(query, values).fetchone()
        return row

    def _extend(self, lock: Lock, seconds: float) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO lock VALUES (?, ?, ?)",
            (lock.cluster, lock.holder, _now() + seconds),
        )

    def _expect_own_lock(self, lock: Lock) -> None:
        row = self._row("SELECT holder FROM lock WHERE cluster = ?", lock.cluster)
        if row is None or row[0] != lock.holder:
            now = "" if row is None else f", and {self._holder(lock.cluster, row[0]).text} holds it"
            raise BusyError(
                f"The lock of cluster {lock.cluster} expired{now}. The request was not sent. Run "
                "the command again."
            )

    def _holder(self, cluster: str, content: object) -> Holder:
        return self._decoded(Holder, content, f"the lock of cluster {cluster}")

    def _decoded(self, kind: type[Row], content: Any, subject: str) -> Row:
        try:
            return msgspec.json.decode(content, type=kind)
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
            raise self._damaged(subject, "an entry that featurelib wrote", str(error)) from error

    def _damaged(self, subject: str, expected: str, actual: str = "another") -> JournalError:
        return JournalError(
            f"{self.path}: {subject}: expected {expected}, found {actual}. The journal is damaged, "
            "so "
            "its open requests are unknown. Nothing was sent. Keep the file. Restore a backup, or "
            "check the levels with `featurelib describe` and use another journal: --journal FILE"
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Run the block as one transaction, synced to the disk. Raises JournalError."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except BaseException as error:
            try:
                self._db.rollback()
            except sqlite3.Error:  # SQLite rolls back when the file is opened next
                self._db.close()
            if isinstance(error, sqlite3.Error):
                raise self._cannot("be written", error) from error
            raise

    def _cannot(self, action: str, error: Exception) -> JournalError:
        is_none = isinstance(error, sqlite3.DatabaseError)
        if (is_none and not isinstance(error, sqlite3.OperationalError)) or "decode" in str(error):
            return JournalError(
                f"{self.path} is not a journal, or it is damaged: {error}. Use the right file: "
                "--journal FILE."
            )
        remedy = "Make room or fix the permissions of the file, or use another: --journal FILE."
        if "locked" in str(error):
            remedy = "Another process holds the file. Wait for the process or end it."
        return JournalError(f"{self.path}: the journal cannot {action}: {error}. {remedy}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """The lock that this process holds on a cluster."""

    journal: Journal
    cluster: str
    who: Holder
    seconds: float

    @property
    def holder(self) -> bytes:
        """The holder of the lock, encoded as in the journal file."""
        return msgspec.json.encode(self.who)

    def keep(self) -> None:
        """Extend the lock. Raises BusyError if the lock was lost, JournalError if writing fails."""
        with self.journal._transaction():
            self.journal._expect_own_lock(self)
            self.journal._extend(self, self.seconds)


def _table_title(table: str) -> str:
    return "entry" if table == "intent" else table


def _chained(before: str, table: str, row: object) -> str:
    """Return the digest of a record that includes the previous digest."""
    content = msgspec.msgpack.encode([before, table, row])
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _are_times(*seconds: float) -> bool:
    return all(0 <= moment < _LATEST for moment in seconds)


def _now() -> float:
    return datetime.now(UTC).timestamp()
