"""Ctrl-C ends a job at once and in one line: nothing is unwound, the next run makes all of it good.

Spark's JVM gets the same Ctrl-C, so that whatever would still be asked of it fails in many lines.
Light to import: scripts/driver.py uses it before anything else.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

INTERRUPTED = 130
MESSAGE = "error: interrupted; run again, nothing is counted twice"
_said = threading.Lock()


@contextmanager
def ending_at_interrupt() -> Iterator[None]:
    """While the block runs, SIGINT ends the process with one line and INTERRUPTED.

    Spark puts a handler of its own in place when a session starts. A thread is told all the same,
    by way of a pipe that every signal with a handler is written to. A SIGINT that the caller had
    ignored (a background job of a script) stays ignored.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    handler = signal.signal(signal.SIGINT, _at_interrupt)
    outer = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(reader,), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(outer)
        signal.signal(signal.SIGINT, handler)
        os.close(writer)
        watcher.join()
        os.close(reader)


def leave_at_interrupt() -> None:
    """From now on SIGINT ends the process with one line; where the caller ignores it, it does
    not."""
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, _at_interrupt)


def ignore_interrupts() -> None:
    """For the last moments of a process, whose exit code is known."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def raising_at_interrupt() -> Iterator[None]:
    """While the block runs, SIGINT is KeyboardInterrupt: for what has to say how far it came."""
    before = signal.getsignal(signal.SIGINT)
    if before is not _at_interrupt:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _at_interrupt(number: int, frame: object) -> None:
    _leave()


def _watch(reader: int) -> None:
    while number := os.read(reader, 1):
        if number[0] == signal.SIGINT:
            _leave()


def say_interrupted() -> int:
    """MESSAGE on stderr, once in the life of a process; returns the exit code."""
    if _said.acquire(blocking=False):  # the main thread and the watcher may both come here
        with suppress(OSError):  # a full disk behind it
            os.write(2, f"{MESSAGE}\n".encode())
    return INTERRUPTED


def _leave() -> None:
    os._exit(say_interrupted())
