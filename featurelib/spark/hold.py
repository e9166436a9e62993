"""One run at a time: who holds the tables, and how a second run is told so.

Delta's commit on a local disk looks and then renames, and so it does on S3: two drivers can both
win. So a run holds the tables for as long as it lasts.

On a local disk the lock is a flock of the driver's own descriptor. The kernel frees it when the
process dies, however it dies; no child inherits it (PEP 446).

Anywhere else there is no kernel that sees a driver die, and the lock is a lease: files in a folder
beside the tables.

    00000007        who holds the tables: job, run, process, machine; made only if it is not there
    00000007.beat   written anew every BEAT seconds for as long as the holder lives
    00000007.free   the holder has ended

The greatest number counts. Whoever finds it free, or its holder dead, creates the next one, which
the store gives to one of them (If-None-Match on S3; the name node on HDFS). The greatest number is
never removed, so none is ever given twice. A holder is dead when

* its process is gone, seen from the machine, the boot and the process namespace it ran in; or
* no beat came for DEAD seconds. That is a difference of two times which the store itself gave to
  two files, the last beat and one that the asker writes now: the clocks of the two machines, which
  may differ by more than that, are not asked.

A holder that slept (a machine suspended, a store out of reach) may find itself replaced. It writes
a beat and looks before its next commit; a successor creates its number and looks for a new beat.
Both write first and look then, so that one of them sees the other and stands back.

Whoever removes the file of a lock or a lease lets a second run in. So the holder of a lock looks
for its file before each commit, and that of a lease with each beat, and stops where it is gone or
another's.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Protocol
from uuid import uuid4

import msgspec
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # no types
from pyspark.sql import SparkSession

from featurelib.errors import BusyError
from featurelib.faults import explaining
from featurelib.spark.session import fill, hadoop

LOCK_NAME = ".featurelib.lock"
LEASE_NAME = ".featurelib.lease"
BEAT = 15.0  # seconds
EXPIRED = 90.0  # a holder that wrote no beat for so long looks before it commits
DEAD = 120.0  # and after so long another may take its place
LOOKS = 8  # until it is given up to find out who was first
CONDITIONAL = "fs.option.create.conditional.overwrite"
# File systems whose own createFile without overwriting lets only one writer win.
ONE_WINS = {"hdfs", "viewfs", "abfs", "abfss", "gs", "file"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingRun:
    """Who holds the tables. `seen_from` is where its processes (number to start, in the kernel's
    ticks) can be looked up; None = nowhere."""

    job: str
    run: int
    pid: int
    host: str
    since: str
    seen_from: str | None = None
    processes: dict[int, int] = field(default_factory=dict)
    token: str = ""

    def __str__(self) -> str:
        return f"{self.job} run {self.run} (pid {self.pid} on {self.host}, since {self.since})"

    @classmethod
    def this(cls, job: str, run: int, *others: int) -> HoldingRun:
        """This process; `others` are processes that may write for it (Spark's JVM)."""
        return cls(
            job=job,
            run=run,
            pid=os.getpid(),
            host=socket.gethostname(),
            since=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            seen_from=_seen_from(),
            processes={pid: _start(pid) or 0 for pid in (os.getpid(), *others)},
            token=uuid4().hex,
        )

    def is_gone(self) -> bool:
        """Whether every process of it has ended, as far as this one can see."""
        if self.seen_from is None or self.seen_from != _seen_from():
            return False
        return all(_start(pid) != start for pid, start in self.processes.items())


def _seen_from() -> str | None:
    """This machine since its start, and the processes one sees here: a container sees its own."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None


def _start(pid: int) -> int | None:
    """When a process began, in ticks since the machine did; None = it has ended."""
    try:
        # The name, in brackets, may hold anything.
        words = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if words[0] in (b"Z", b"X") else int(words[19])


@contextmanager
def hold_folder(folder: Path, run: int, job: str) -> Iterator[str]:
    """Hold a folder of this machine for one run; BusyError names who holds it already. Gives what
    only this run has written into the lock's file."""
    with explaining(f"--tables {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(folder / LOCK_NAME, flags, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = _read_holder(os.pread(descriptor, 4096, 0)) or UNNAMED
            raise BusyError(
                f"tables {folder}: held by {holder}; nothing was written. Run again when it has "
                "ended: the tables are free as soon as its process is gone."
            ) from error
        os.ftruncate(descriptor, 0)
        me = HoldingRun.this(job, run)
        os.pwrite(descriptor, msgspec.json.encode(me) + b"\n", 0)
        os.fsync(descriptor)  # for executors that look from another machine
        yield me.token
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)  # frees the lock


def expect_lock(folder: Path, token: str) -> None:
    """Before every commit: BusyError where the lock's file is gone, or another run's, who made it
    anew and holds it as well."""
    try:
        content = (folder / LOCK_NAME).read_bytes()
    except FileNotFoundError:
        content = b""
    if token.encode() not in content:
        raise BusyError(
            f"tables {folder}: somebody removed this run's lock, {LOCK_NAME}, while it went on; "
            f"nothing more was written, because {_read_holder(content) or 'another run'} may hold "
            "the tables now. Run again when no other run is there: nothing is counted twice."
        )


UNNAMED = "another run that has not yet said its name"


def _read_holder(content: bytes) -> HoldingRun | None:
    try:
        return msgspec.json.decode(content, type=HoldingRun)
    except msgspec.DecodeError:
        return None


class LeaseFolder(Protocol):
    """The folder of a lease. What it raises is what the store said."""

    def list(self) -> Mapping[str, int]:
        """Names of its files, and when each was written, by the store's clock, in milliseconds."""

    def create(self, name: str, content: bytes) -> None:
        """Write a file that is not there; any error where it is, or is made at the same time."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file, in the place of one that is there."""

    def read(self, name: str) -> bytes | None:
        """What a file holds; None = it is not there."""

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""


class Lease:
    """The hold of one run on tables that are not on a disk of this machine."""

    def __init__(self, place: LeaseFolder, root: str, me: HoldingRun) -> None:
        self._place, self._root, self._me = place, root, me
        self._number = 0
        self._beaten = 0.0  # before the last beat that was written began
        self._ended = Event()
        self._lost = ""  # why the tables are not ours any more
        self._beating = Lock()  # two threads do not beat at once

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the tables while the block runs; BusyError names who holds them already."""
        self._take()
        thread = Thread(target=self._go_on_beating, name="featurelib-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(BEAT)
            # The store is out of reach: the lease ends by its age. What is lost is another's.
            with suppress(Py4JError, OSError):
                if not self._lost:
                    self._place.write(f"{self._number:08}.free", b"")
                    self._place.remove(f"{self._number:08}.beat")

    def expect(self) -> None:
        """Before every commit: BusyError where another run may have these tables now."""
        if _now() - self._beaten > EXPIRED:
            self._beat()
        if self._lost:
            raise BusyError(f"tables {self._root}: {self._lost}")

    def _take(self) -> None:
        for _ in range(LOOKS):
            seen = _Seen.of(self._place.list())
            if seen.number and not seen.is_free:
                self._expect_dead(seen)
            begun = _now()
            self._number = seen.number + 1
            if self._create() and self._is_mine(seen):
                self._beaten = begun
                for name in self._place.list():
                    if name[:8].isdecimal() and int(name[:8]) < self._number:
                        self._place.remove(name)
                return
        raise BusyError(
            f"tables {self._root}: several runs ask for them at once; nothing was written. "
            "Start one run at a time."
        )

    def _create(self) -> bool:
        """Whether the number is ours now. What the file holds decides, and not what was said: a
        request whose answer got lost is sent again, and is then refused because of itself."""
        name = f"{self._number:08}"
        try:
            self._place.create(name, msgspec.json.encode(self._me))
        except (Py4JError, OSError):
            if self._is_written_by_us(name):
                return True
            if _Seen.of(self._place.list()).number < self._number:
                raise
            return False
        return True

    def _is_mine(self, before: _Seen) -> bool:
        """Whether the number that was just created is the greatest. BusyError where the holder
        before it was found dead, and has written a beat since."""
        name, now = f"{self._number:08}", _Seen.of(self._place.list())
        if now.number != self._number:
            self._place.remove(name)
            return False
        if before.number and not before.is_free and now.beats.get(before.number) != before.beat:
            # It may be in a commit, and stops after it: until then the number is nobody's.
            self._place.write(name, msgspec.json.encode(replace(self._me, seen_from=None)))
            raise BusyError(
                f"tables {self._root}: a run that was not heard of for {DEAD:.0f} s goes on; "
                f"nothing was written. Run again in {DEAD:.0f} s."
            )
        return True

    def _expect_dead(self, seen: _Seen) -> None:
        """BusyError unless the holder of the greatest number is dead."""
        content = self._place.read(f"{seen.number:08}")
        holder = None if content is None else _read_holder(content)
        if holder is not None and holder.is_gone():
            return
        silent = (self._store_time() - seen.beat) / 1000
        if silent <= DEAD:
            raise BusyError(
                f"tables {self._root}: held by {holder or UNNAMED}; its last sign of life is "
                f"{max(silent, 0):.0f} s old; nothing was written. Run again when it has ended; "
                f"if it is dead, in {DEAD - silent + 1:.0f} s: then the tables are free."
            )

    def _store_time(self) -> int:
        name = f"{self._me.token}.look"
        self._place.write(name, b"")
        try:
            return self._place.list()[name]
        finally:
            self._place.remove(name)

    def _go_on_beating(self) -> None:
        while not self._ended.wait(BEAT):
            # expect() says what is wrong, before the next commit.
            with suppress(Py4JError, OSError):
                self._beat()

    def _beat(self) -> None:
        """Write a beat, and look whether the number is still ours, and the greatest."""
        with self._beating:
            begun, name = _now(), f"{self._number:08}"
            self._place.write(f"{name}.beat", b"")
            if _Seen.of(self._place.list()).number > self._number:
                self._lose(
                    f"was not heard of for {DEAD:.0f} s, and another run holds them now; nothing "
                    "more was written. Run again when that one has ended"
                )
            elif not self._is_written_by_us(name):
                self._lose(
                    f"went on while somebody removed its lease, {LEASE_NAME}; nothing more was "
                    "written, because another run may hold the tables now. Run again in "
                    f"{DEAD:.0f} s"
                )
            else:
                self._beaten = begun

    def _lose(self, why: str) -> None:
        self._lost = f"{self._me.job} run {self._me.run} {why}: nothing is counted twice."
        self._ended.set()

    def _is_written_by_us(self, name: str) -> bool:
        there = self._place.read(name)
        holder = None if there is None else _read_holder(there)
        return holder is not None and holder.token == self._me.token


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A look at the folder of a lease."""

    number: int  # the greatest; 0 = there is none
    is_free: bool
    beats: Mapping[int, int]  # number to its last sign of life, by the store's clock

    @property
    def beat(self) -> int:
        return self.beats[self.number]

    @classmethod
    def of(cls, files: Mapping[str, int]) -> _Seen:
        beats: dict[int, int] = {}
        for name, written in files.items():
            number, _, kind = name.partition(".")
            if number.isdecimal() and kind in ("", "beat", "free"):
                beats[int(number)] = max(written, beats.get(int(number), 0))
        newest = max(beats, default=0)  # whatever is left of one that somebody removed
        return cls(number=newest, is_free=f"{newest:08}.free" in files, beats=beats)


def _now() -> float:
    """Seconds that went by, those of a sleeping machine among them."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


def hold_remote(
    session: SparkSession, uri: str, run: int, job: str, say: Callable[[str], None]
) -> Lease:
    """The lease of one run on the tables at a URI that Hadoop's file systems know."""
    place = HadoopFolder(session, f"{uri}/{LEASE_NAME}")
    if not place.lets_one_win:
        say(
            f"warning: tables {uri}: this file system may let two runs make one file at once, and "
            "then both hold the tables: start one run at a time (docs/operations.md)."
        )
    jvm = session._jvm
    assert jvm is not None
    me = HoldingRun.this(job, run, int(jvm.java.lang.ProcessHandle.current().pid()))
    return Lease(place, uri, me)


class HadoopFolder:
    """A folder of small files through Hadoop's public FileSystem: whatever Spark reads."""

    def __init__(self, session: SparkSession, uri: str) -> None:
        self._files, self._folder = hadoop(session, uri)
        self._is_conditional = bool(self._files.hasPathCapability(self._folder, CONDITIONAL))
        self.lets_one_win = self._is_conditional or uri.partition(":")[0] in ONE_WINS

    def list(self) -> Mapping[str, int]:
        found = self._files.listStatus(self._folder) if self._files.exists(self._folder) else ()
        return {one.getPath().getName(): int(one.getModificationTime()) for one in found}

    def create(self, name: str, content: bytes) -> None:
        making = self._files.createFile(self._path(name)).recursive().overwrite(False)
        if self._is_conditional:  # else S3 looks, and then writes
            making = making.must(CONDITIONAL, True)
        fill(making.build(), content)

    def write(self, name: str, content: bytes) -> None:
        fill(self._files.create(self._path(name), True), content)

    def read(self, name: str) -> bytes | None:
        if not self._files.exists(self._path(name)):
            return None
        stream = self._files.open(self._path(name))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def remove(self, name: str) -> None:
        self._files.delete(self._path(name), False)

    def _path(self, name: str):  # type: ignore[no-untyped-def]  # py4j objects have no types
        return self._folder.suffix(f"/{name}")
