"""Record the last nightly beside its tables, so that a nightly without new data ends at once.

Input: the places and options of a run. Output: the record of the last run if that run still holds.
No Spark is needed. A run writes its record last, so a run that did not end has none. Only local
folders have a record. Easy to get wrong: `_digest` must hold whatever changes a verdict or a page;
the clock does, so a run as of now never holds for another. No run holds for longer than a day.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from featurelib.cli.entrance import say
from featurelib.cli.night import Places
from featurelib.config.files import digest_code, quietly, write_whole
from featurelib.errors import FeatureLibError
from featurelib.faults import in_a_line
from featurelib.feature import Severity
from featurelib.lake import Lake
from featurelib.source import now
from featurelib.spark.local_files import list_local, local_path
from featurelib.tables import ALL, CLUSTER_SNAPSHOT, is_name

if TYPE_CHECKING:
    from featurelib.spark.auditing import Audited
    from featurelib.spark.store import Store

NAME = ".featurelib.run.json"
DAY = 86_400_000_000  # the length of a day in microseconds
Stamps = dict[str, tuple[int, int]]  # file → size, and time of its last change in nanoseconds


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run: the digest of its inputs, its table versions, and its files.

    `as_of`, `ended_at`: microseconds. `pages`: file → (key of the cluster's page, digest of
    featurelib's files)."""

    run: int
    inputs: str
    as_of: int
    ended_at: int
    exit_code: int
    versions: dict[str, int]
    files: Stamps
    pages: dict[str, str]


class LastRun:
    """The record of the last run, and the inputs of this run to compare with."""

    def __init__(self, places: Places, as_of: str | None, fail_on: Severity | None) -> None:
        """Read the inputs of this run before any data is read. `as_of`: the option's text."""
        self._is_as_of_now = as_of is None and places.as_of is not None
        paths = [None if uri is None else local_path(uri) for uri in (places.tables, places.out)]
        self._tables, self._out = (Path(path or "") for path in paths)
        landing = local_path(places.landing)
        self._code, is_local = digest_code(), None not in paths and not is_name(places.tables)
        self._inputs = None
        if landing and is_local and self._code:
            self._inputs = _digest(landing, places, fail_on, self._code)
        self._record = self._read() if self._inputs else None
        self.pages: dict[str, str] = {}  # the pages of this run, with their keys

    def _read(self) -> RunRecord | None:
        try:
            return msgspec.json.decode((self._tables / NAME).read_bytes(), type=RunRecord)
        except (OSError, msgspec.MsgspecError):
            return None

    def find(self) -> RunRecord | None:
        """Return the last run's record if nothing changed since; None if a run is needed."""
        record = self._record
        if record is None or record.inputs != self._inputs or self._is_as_of_now:
            return None
        try:
            lake = Lake(str(self._tables))
            versions = {table.full_name: lake.version_if_whole(table) for table in ALL}
        except FeatureLibError:  # the run will report this error
            return None
        is_there = versions == record.versions and record.files == self._stamps(record.files)
        return record if is_there and 0 <= now() - record.ended_at < DAY else None

    def keeps(self, page: str, key: str) -> bool:
        """Return true if an unchanged page exists that was written with the same key."""
        self.pages[page], record = f"{key} {self._code}", self._record
        if record is None or record.pages.get(page) != self.pages[page]:
            return False
        return self._stamps([page]) == {page: record.files.get(page)}

    def write(self, store: Store, run: Audited, files: Iterable[str], exit_code: int) -> None:
        """Write the record of this run. `files`: the files of its report. Without record, the next
        run judges everything again."""
        try:
            waiting = store.rows(CLUSTER_SNAPSHOT, [("waiting", ">", 0)], ["cluster"])
            if self._inputs is None or len(waiting) or any(map(store.find_change, ALL)):
                return
            record = RunRecord(
                run=run.run,
                inputs=self._inputs,
                as_of=run.as_of,
                ended_at=now(),
                exit_code=exit_code,
                versions={table.full_name: store.version(table) for table in ALL},
                files=self._stamps(files),
                pages=self.pages,
            )
            write_whole(str(self._tables / NAME), msgspec.json.encode(record), "--tables FOLDER")
        except Exception as error:  # the run is finished; its exit code stays
            say(f"warning: this run left no record, so the next one runs: {in_a_line(str(error))}")
            with suppress(OSError):
                (self._tables / NAME).unlink(missing_ok=True)

    def _stamps(self, files: Iterable[str]) -> Stamps:
        """Return file → (size, modification time) of the existing files in the folder --out."""
        paths = {name: self._out / name for name in files}
        stats = {name: path.stat() for name, path in paths.items() if path.is_file()}
        return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()}


def _digest(landing: str, places: Places, fail_on: Severity | None, code: str) -> str:
    """Return a digest of all inputs that decide the result of a run, except the tables."""
    inputs = (
        sorted(list_local(landing, quietly)),
        (places.fleet, places.settings, places.catalogue.label, places.as_of, fail_on, code),
        (places.landing, places.tables, places.out, places.listed_in, places.wanted),
    )
    return sha256(msgspec.json.encode(inputs, order="deterministic")).hexdigest()
