"""A process as the journal knows it: whose, where, since when, and whether it is still there."""

from __future__ import annotations

import getpass
import os
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

_ENDED = "ended"  # and its parent did not look yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One process. `started` tells it from a later one with its number; "" = not known."""

    user: str
    host: str
    pid: int
    started: str
    since: float  # seconds since 1970
    command: str

    @property
    def text(self) -> str:
        """`ann on kafka-admin-1 (process 4711, since 2026-11-21T06:00:00Z: featurelib apply …)`."""
        since = f"{datetime.fromtimestamp(self.since, UTC):%Y-%m-%dT%H:%M:%SZ}"
        return f"{self.user} on {self.host} (process {self.pid}, since {since}: {self.command})"

    def is_gone(self) -> bool:
        """Whether this process is known to have ended; of another machine's it never is."""
        if self.host != socket.gethostname():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass  # it is there, and another user's
        started = _started(self.pid)
        return bool(started and self.started) and started != self.started


def myself(command: str) -> Holder:
    """This process, doing `command`."""
    pid = os.getpid()
    return Holder(
        user=_user(),
        host=socket.gethostname(),
        pid=pid,
        started=_started(pid),
        since=datetime.now(UTC).timestamp(),
        command=command,
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user number without a name, as in containers
        return f"user {os.getuid()}"


def _started(pid: int) -> str:
    """When a process started, in clock ticks after this boot of the machine; "" = not known."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8")
    except OSError:  # not Linux, or it is gone
        return ""
    # The name of the program stands in brackets and may hold anything; start time is field 22.
    state, *fields = stat.rpartition(")")[2].split()
    return _ENDED if state in "ZX" else f"{boot.strip()} {fields[18]}"
