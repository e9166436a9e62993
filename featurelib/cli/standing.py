"""The record of the last nightly beside its tables: a nightly with nothing new ends by it at once.

Input: the places and options of a run. Output: the record of the last run if that run still holds.
No Spark is needed. A run writes its record last, so a run that did not end has none. Only local
folders have a record. Easy to get wrong: `_digest` must hold whatever changes a verdict or a page.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import featurelib
from featurelib.cli.night import Places, local_path
from featurelib.config.files import quietly, write_whole
from featurelib.errors import FeatureLibError
from featurelib.feature import Severity
from featurelib.lake import Lake
from featurelib.tables import ALL, CLUSTER_SNAPSHOT, is_name

if TYPE_CHECKING:
    from featurelib.spark.store import Store

NAME = ".featurelib.run.json"
HOUR = 3_600_000_000  # microseconds
Stamps = dict[str, tuple[int, int]]  # file → size and time of its last change, nanoseconds


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A run that ended: a digest of its inputs, the table versions that it left, and its files.

    `code`: digest of featurelib's own files. `as_of` is in microseconds, None = the newest line.
    `pages`: file → key of a cluster's page (see featurelib.view.html.render_pages)."""

    run: int
    code: str
    inputs: str
    as_of: int | None
    exit_code: int
    versions: dict[str, int]
    files: Stamps
    pages: dict[str, str]


class LastRun:
    """The record of the last run, and the one that this run makes."""

    def __init__(self, places: Places, as_of: str | None, fail_on: Severity | None) -> None:
        """Take the inputs as they are now, before a run reads them. `as_of` is the option."""
        self._as_of = places.as_of
        paths = [None if uri is None else local_path(uri) for uri in (places.tables, places.out)]
        self._tables, self._out = (Path(path or "") for path in paths)
        landing = local_path(places.landing)
        is_local = None not in (landing, *paths) and not is_name(places.tables)
        self._code = _digest_code()
        self._inputs = _digest(landing, places, as_of, fail_on) if landing and is_local else None
        self._record = self._read() if is_local else None
        self.pages: dict[str, str] = {}  # of this run, those among them that it keeps

    def _read(self) -> RunRecord | None:
        try:
            return msgspec.json.decode((self._tables / NAME).read_bytes(), type=RunRecord)
        except (OSError, msgspec.MsgspecError):
            return None

    def find(self) -> RunRecord | None:
        """Return the record if a run now would judge the same evidence by the same rules, and the
        report is there; None = run. Ages may have grown by less than an hour."""
        record = self._record
        if record is None or (record.code, record.inputs) != (self._code, self._inputs):
            return None
        if self._as_of != record.as_of and not 0 <= (self._as_of or 0) - (record.as_of or 0) < HOUR:
            return None
        try:
            lake = Lake(str(self._tables))
            versions = {table.full_name: lake.version(table) for table in ALL}
        except FeatureLibError:  # the run says what is wrong
            return None
        is_there = record.files == self._stamps(record.files)
        return record if is_there and versions == record.versions else None

    def keeps(self, page: str, key: str) -> bool:
        """Return True if a cluster's page was made of this key, and nobody changed it since."""
        self.pages[page], record = key, self._record
        if record is None or record.code != self._code or record.pages.get(page) != key:
            return False
        return self._stamps([page]) == {page: record.files.get(page)}

    def write(self, store: Store, run: int, files: Iterable[str], exit_code: int) -> None:
        """Record this run; `files` are those of its report. A run has no record if lines wait for
        their time, or if another writer changed a table."""
        waiting = store.rows(CLUSTER_SNAPSHOT, [("waiting", ">", 0)], ["cluster"])
        versions = {table.full_name: store.version(table) for table in ALL}
        if self._inputs is None or len(waiting) or any(map(store.find_change, ALL)):
            return
        record = RunRecord(
            run=run,
            code=self._code,
            inputs=self._inputs,
            as_of=self._as_of,
            exit_code=exit_code,
            versions=versions,
            files=self._stamps(files),
            pages=self.pages,
        )
        write_whole(str(self._tables / NAME), msgspec.json.encode(record), "--tables FOLDER")

    def _stamps(self, files: Iterable[str]) -> Stamps:
        """Return the stamps of those of these files of --out that are there."""
        paths = {name: self._out / name for name in files}
        stats = {name: path.stat() for name, path in paths.items() if path.is_file()}
        return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()}


def _digest_code() -> str:
    """Return a digest of the names, sizes and times of featurelib's files."""
    sources = Path(featurelib.__file__).parent.rglob("*.*")
    stats = {str(path): path.stat() for path in sources if path.suffix != ".pyc"}
    stamps = sorted((path, stat.st_size, stat.st_mtime_ns) for path, stat in stats.items())
    return sha256(msgspec.json.encode(stamps)).hexdigest()


def _digest(landing: str, places: Places, as_of: str | None, fail_on: Severity | None) -> str:
    """Return a digest of whatever decides a run but its tables, the code and the clock."""
    from featurelib.spark.local_files import list_local

    inputs = (
        sorted(list_local(landing, quietly)),
        (places.fleet, places.settings, places.catalogue.label, as_of, fail_on),
        (places.landing, places.tables, places.out, places.listed_in, places.wanted),
    )
    return sha256(msgspec.json.encode(inputs, order="deterministic")).hexdigest()
