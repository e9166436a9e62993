"""One run at a time: a lock that the kernel frees when the run's process dies.

Delta's commit on a local file system checks and then renames, so two drivers can both win. The
lock is a flock of the driver's own descriptor; no child inherits it (PEP 446). An object store
has no flock: there the scheduler, or the store's own put-if-absent, has to keep runs apart.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from featurelib.errors import BusyError, ConfigError

FILE_NAME = ".featurelib.lock"


@contextmanager
def hold_folder(folder: Path, run: int, job: str) -> Iterator[None]:
    """Hold `folder` for one run; BusyError names who holds it already."""
    descriptor = _open(folder / FILE_NAME)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BusyError(_say_busy(folder, os.pread(descriptor, 4096, 0))) from error
        holder = {"job": job, "run": run, "pid": os.getpid(), "host": socket.gethostname()}
        _write(descriptor, json.dumps(holder).encode() + b"\n")
        yield
        _write(descriptor, b"")
    finally:
        os.close(descriptor)  # frees the lock


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ConfigError(
            f"tables: the lock {path} cannot be opened ({error.strerror}). "
            "Name a folder this user may write with --tables."
        ) from error


def _write(descriptor: int, content: bytes) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, content, 0)


def _say_busy(folder: Path, content: bytes) -> str:
    try:
        holder = json.loads(content)
        who = "{job} run {run} (pid {pid} on {host}, started {run} UTC)".format(**holder)
    except (ValueError, KeyError, TypeError):
        who = "another process that has not yet said its name"
    return f"tables {folder}: held by {who}; nothing was written. Run again when it has ended."
