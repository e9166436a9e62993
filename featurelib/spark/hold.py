"""Let one run at a time write the tables, and show a second run which run holds them.

Each commit is conditional, so a run that another run overtook ends anyway, but only after its work.
Therefore a run locks the tables while it lasts.

The lock is a lease: a Delta table without rows beside the tables, on a disk or in a store. Each
commit of the lease names the holder, or no holder, and fails if another commit came first. So one
of several runs wins. A holder commits again every BEAT seconds, and before a commit to a table if
it slept. A run that finds a living process of this machine ends, and takes the place of a dead one.
Of any other holder it waits DEAD seconds for the next commit; clocks are not compared. The reasons
are in decision 0021.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from threading import Event, Lock, Thread
from uuid import uuid4

import msgspec
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from featurelib.controller.holder import Holder, elapsed, myself, say_seconds
from featurelib.errors import BusyError
from featurelib.faults import explaining

LEASE_NAME = ".featurelib.hold"
HOLDER = "featurelib.holder"  # the key in a commit of the lease
BEAT = 15.0  # seconds between two commits of a holder
POLL = 1.0
EXPIRED = 90.0  # a holder without a commit for this long commits before it continues
DEAD = 120.0  # seconds without a commit, after which another run may take over
RECENT = 20  # the commits of a lease that are read; those of other writers do not count
_NO_ROWS = pa.schema([("nothing", pa.int64())])


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingRun:
    """The run that holds the tables, and its process. `token`: unique per run, "" for an unknown
    run."""

    run: int
    process: Holder  # its command is the name of the job
    token: str

    def __str__(self) -> str:
        process = self.process
        since = f"pid {process.pid} on {process.host}, since {say_seconds(process.since)}"
        return f"{process.command} run {self.run} ({since})" if self.token else UNNAMED

    @classmethod
    def this(cls, job: str, run: int) -> HoldingRun:
        """Return this process as holder of the tables for a run."""
        return cls(run=run, process=myself(job), token=uuid4().hex)

    def is_gone(self) -> bool:
        """Return true if the process of the run has ended, as far as this machine can see."""
        boot, started = (p.started.partition(" ")[0] for p in (self.process, myself("")))
        return bool(boot) and boot == started and self.process.is_gone()


@contextmanager
def telling(job: str, say: Callable[[str], None], every: float = 30.0) -> Iterator[None]:
    """Print at intervals how long the block has run."""
    ended, began = Event(), elapsed()

    def tell() -> None:
        while not ended.wait(every):
            say(f"{job}: at work for {elapsed() - began:.0f} s")

    thread = Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


UNNAMED = "another run that has not yet said its name"
_UNKNOWN = HoldingRun(run=0, process=replace(myself(""), started=""), token="")


class Lease:
    """The lock of a run on the tables in a folder or URI. `options`: as for deltalake."""

    def __init__(
        self, uri: str, options: Mapping[str, str], me: HoldingRun, say: Callable[[str], None]
    ) -> None:
        self._uri, self._options, self._me, self._say = uri, dict(options), me, say
        self._beaten = 0.0  # when the last successful commit began
        self._ended = Event()
        self._lost = ""  # why the lock is lost; "" if it is not
        self._beating = Lock()  # only one thread commits at a time

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the tables during the block. Raises BusyError with the other holder."""
        with explaining(self._uri):
            self._take()
        thread = Thread(target=self._keep_beating, name="featurelib-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(BEAT)
            # If the store cannot be reached, the lease ends by its age. A lost lease belongs to
            # another run.
            with suppress(DeltaError, OSError):
                if not self._lost and _holder(opened := self._open()) == self._me:
                    self._put(opened, b"")

    def expect(self) -> None:
        """Check the lock before a commit. Raises BusyError if another run may hold it."""
        if elapsed() - self._beaten > EXPIRED:
            with explaining(self._uri):
                self._beat()
        if self._lost:
            raise BusyError(f"tables {self._uri}: {self._lost}")

    def _open(self) -> DeltaTable:
        return DeltaTable(f"{self._uri}/{LEASE_NAME}", storage_options=self._options)

    def _take(self) -> None:
        with suppress(CommitFailedError):  # another run committed at the same time
            DeltaTable.create(
                f"{self._uri}/{LEASE_NAME}",
                _NO_ROWS,
                mode="ignore",
                configuration={"delta.logRetentionDuration": "interval 1 days"},
                storage_options=self._options,
            )
        opened, begun = self._open(), elapsed()
        holder = _holder(opened)
        if holder is not None and holder.process.is_running_here():
            raise self._busy(holder)
        if holder is not None and not holder.is_gone():
            self._watch(opened, holder)
            begun = elapsed()
        try:
            self._put(opened, msgspec.json.encode(self._me))
        except CommitFailedError as error:
            # If a response is lost, deltalake sends the request again, and our own first commit
            # makes it fail.
            if (holder := _holder(self._open())) != self._me:
                raise self._busy(holder) from error
        self._beaten = begun

    def _watch(self, opened: DeltaTable, holder: HoldingRun) -> None:
        """Wait for a commit of the holder. Raises BusyError if there is one."""
        self._say(
            f"tables {self._uri}: held by {holder}; waiting for a sign of life, at most "
            f"{DEAD:.0f} s"
        )
        end, version = elapsed() + DEAD, opened.version()
        while elapsed() < end:
            Event().wait(POLL)
            opened.update_incremental()
            if opened.version() != version:
                if (next_holder := _holder(opened)) is not None:
                    raise self._busy(next_holder)
                return

    def _busy(self, holder: HoldingRun | None) -> BusyError:
        return BusyError(
            f"tables {self._uri}: held by {holder or UNNAMED}; nothing was written. Run again when "
            f"it has ended; if it is dead, the next run takes its place after {DEAD:.0f} s."
        )

    def _put(self, opened: DeltaTable, content: bytes) -> None:
        """Commit to the lease. Raises CommitFailedError if another commit came first."""
        opened.create_write_transaction(
            [],
            "append",
            opened.schema(),
            commit_properties=CommitProperties(
                custom_metadata={HOLDER: content.decode()},
                max_commit_retries=0,
                app_transactions=[Transaction(HOLDER, opened.version() + 1)],
            ),
        )

    def _keep_beating(self) -> None:
        while not self._ended.wait(BEAT):
            # Before the next commit, expect() raises this error.
            with suppress(DeltaError, OSError):
                self._beat()

    def _beat(self) -> None:
        """Extend the lease by a commit if this run still holds it; otherwise record its loss."""
        with self._beating:
            begun = elapsed()
            try:
                opened = self._open()
                holder = _holder(opened)
                if holder == self._me:
                    self._put(opened, msgspec.json.encode(self._me))
            except TableNotFoundError:
                return self._record_loss(
                    f"went on while somebody removed its lease, {LEASE_NAME}; nothing more was "
                    "written, because another run may hold the tables now. Run again"
                )
            except CommitFailedError:
                holder = _holder(self._open())
            if holder == self._me:
                self._beaten = begun
                return None
            return self._record_loss(
                f"was not heard of for {DEAD:.0f} s, and {holder or 'another run'} took its place; "
                "nothing more was written. Run again when that one has ended"
            )

    def _record_loss(self, reason: str) -> None:
        self._lost = (
            f"{self._me.process.command} run {self._me.run} {reason}: nothing is counted twice."
        )
        self._ended.set()


def _holder(opened: DeltaTable) -> HoldingRun | None:
    """Return the holder in the newest commit of the lease; None if the tables are free."""
    newest = next((commit[HOLDER] for commit in opened.history(RECENT) if HOLDER in commit), "")
    try:
        return msgspec.json.decode(newest, type=HoldingRun) if newest else None
    except msgspec.DecodeError:
        return _UNKNOWN
