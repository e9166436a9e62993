"""One server process: started in a group of its own, waited for, ended by its id.

Whatever becomes of the test run, the server ends: with its fixture, and on Linux with the thread
that started it, even after SIGKILL. What it printed stands in its log file.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

STEP_SECONDS = 0.03
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def _end_with_parent() -> None:
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class NotReadyError(Exception):
    """A server ended, or did not serve in time; the text ends with the tail of its log."""


@dataclass(slots=True, kw_only=True)
class Process:
    """A server that is ready when `ready` says so of the text it has printed since this start."""

    name: str
    home: Path
    ready: Callable[[str], bool]
    timeout_seconds: float = 90
    start_seconds: float = 0.0
    _child: subprocess.Popen[bytes] | None = None
    _read_from: int = 0
    _began: float = 0.0
    _after: list[Callable[[int], None]] = field(default_factory=list)

    @property
    def log(self) -> Path:
        return self.home / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None and self.running else None

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def is_ready(self) -> bool:
        """Whether it has served since this start."""
        return self.ready(self.text()[self._read_from :])

    def launch(self, command: Sequence[str], then: Callable[[int], None] | None = None) -> None:
        """Starts it without waiting; `then` is called with the exit code after it was stopped."""
        self.home.mkdir(parents=True, exist_ok=True)
        self._read_from = self.log.stat().st_size if self.log.exists() else 0
        self._after = [then] if then else []
        self._began = time.monotonic()
        with self.log.open("ab") as out:
            self._child = subprocess.Popen(
                command, cwd=self.home, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                start_new_session=True, preexec_fn=_end_with_parent,
            )  # fmt: skip

    def wait(self) -> None:
        """Waits until it serves; raises NotReadyError, and then it is ended."""
        while not self.is_ready:
            if not self.running:
                code = self._child.returncode if self._child else None
                raise NotReadyError(
                    f"{self.name} ended with {code} before it served:\n{self.tail()}"
                )
            if time.monotonic() - self._began > self.timeout_seconds:
                self.stop(kill=True)
                raise NotReadyError(
                    f"{self.name} did not serve in {self.timeout_seconds} s:\n{self.tail()}"
                )
            time.sleep(STEP_SECONDS)
        self.start_seconds = time.monotonic() - self._began

    def stop(self, *, kill: bool = False, timeout_seconds: float = 30) -> None:
        """Ends it: asks, and after the time limit, or at once with `kill`, insists."""
        if self._child is None:
            return
        self._signal(signal.SIGKILL if kill else signal.SIGTERM)
        try:
            self._child.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._child.wait(5)
        while self._after:
            self._after.pop()(self._child.returncode)

    @property
    def leaves_something(self) -> bool:
        """Whether an orderly end is worth waiting for."""
        return bool(self._after)

    def _signal(self, number: signal.Signals) -> None:
        if self._child is not None and self._child.poll() is None:
            os.killpg(self._child.pid, number)

    def text(self) -> str:
        return self.log.read_bytes().decode("latin-1") if self.log.exists() else ""

    def tail(self, lines: int = 40) -> str:
        return "\n".join(self.text().splitlines()[-lines:])
