"""One value kept in one file, safe against a crash at any moment: it knows nothing of Kafka.

Every change is one SQLite transaction that appends the next state, so a crash leaves the state
before or the state after. No state is ever changed or taken away: a reader may be held at an older
position, and then reads what was there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from featurelib.errors import InputError, UnreachableError

_SCHEMA = (
    "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE state (position INTEGER PRIMARY KEY, what TEXT NOT NULL, content BLOB NOT NULL)",
    "CREATE TABLE held (reader INTEGER PRIMARY KEY, position INTEGER NOT NULL,"
    " for_good INTEGER NOT NULL)",
)
FORM = "2"  # of the file; another one is refused
LONGEST_WAIT_S = 30  # for another process that holds the file


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Where a reader stands still: until it is let go, or for good."""

    position: int
    for_good: bool


class StateFile:
    """One file. Where there is none, or an empty one, it is made, and told `about`."""

    def __init__(self, path: str, about: Mapping[str, str]) -> None:
        self.path = path
        with ExitStack() as opening:
            try:
                self._db = sqlite3.connect(path, isolation_level=None, timeout=LONGEST_WAIT_S)
                opening.callback(self._db.close)
                self._db.execute("PRAGMA synchronous = FULL")
                with self.transaction():
                    self.about = self._open({**about, "form": FORM})
            except sqlite3.DatabaseError as error:
                raise self._wrong_file(str(error)) from error
            opening.pop_all()

    def _open(self, about: dict[str, str]) -> dict[str, str]:
        """What the file says about itself; makes the tables where there are none."""
        there = {row[0] for row in self._db.execute("SELECT tbl_name FROM sqlite_master")}
        if not there:
            for statement in _SCHEMA:
                self._db.execute(statement)
            self._db.executemany("INSERT INTO about VALUES (?, ?)", about.items())
            return about
        if "about" not in there:
            raise self._wrong_file(f"the tables {', '.join(sorted(there))}")
        found = dict[str, str]()
        if {row[1] for row in self._db.execute("PRAGMA table_info(about)")} == {"name", "value"}:
            found = dict(self._db.execute("SELECT name, value FROM about"))
        if found.get("form") != FORM:
            raise InputError(
                f"{self.path}: expected an embedded cluster of form {FORM}, found "
                f"{found.get('form', 'an older one')}. "
                "Open it with the release of featurelib that made it."
            )
        return found

    def _wrong_file(self, found: str) -> InputError:
        return InputError(
            f"{self.path}: expected an embedded cluster's file, found: {found}. Name another file."
        )

    def close(self) -> None:
        """Close the file; what was appended is on the disk already."""
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing. Raises UnreachableError while another process holds the file."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise UnreachableError(f"{self.path}: {error}. Wait for the other process.") from error
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def read(self, position: int | None = None) -> tuple[int, bytes]:
        """A position and the state there; the newest, unless one is named. Raises InputError."""
        row = self._db.execute(
            "SELECT position, content FROM state WHERE ? IS NULL OR position = ? "
            "ORDER BY position DESC LIMIT 1",
            (position, position),
        ).fetchone()
        if row is None:
            raise InputError(f"{self.path}: no cluster is in this file yet. Put one in first.")
        return int(row[0]), bytes(row[1])

    def append(self, what: str, content: bytes) -> None:
        """The next state, and what led to it."""
        self._db.execute("INSERT INTO state (what, content) VALUES (?, ?)", (what, content))

    @property
    def held(self) -> dict[int, Held]:
        """The readers that stand still."""
        rows = self._db.execute("SELECT reader, position, for_good FROM held")
        return {row[0]: Held(position=row[1], for_good=bool(row[2])) for row in rows}

    def hold(self, readers: Iterable[int], position: int, *, for_good: bool = False) -> None:
        """Readers stand still at `position`, or where they stand already."""
        self._db.executemany(
            "INSERT INTO held VALUES (?, ?, ?) ON CONFLICT (reader) "
            "DO UPDATE SET for_good = max(for_good, excluded.for_good)",
            [(reader, position, for_good) for reader in readers],
        )

    def let_go(self, readers: Iterable[int], *, held_for_good: bool = False) -> None:
        """Readers read the newest state again; one that is held for good only if that is said."""
        self._db.executemany(
            "DELETE FROM held WHERE reader = ? AND for_good <= ?",
            [(reader, held_for_good) for reader in readers],
        )
