"""Identify the process that holds a cluster's lock or was about to send a request.

A process of this host can be queried, so a frozen process never counts as ended. The state of a
process on another host is unknown.
"""

from __future__ import annotations

import getpass
import os
import socket
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from featurelib.planning.files import say_time


def say_seconds(seconds: float) -> str:
    """Return a time in seconds since 1970 as text `2026-11-21T06:00:00Z`."""
    return say_time(datetime.fromtimestamp(seconds, UTC))


def elapsed() -> float:
    """Return the seconds since boot; includes sleep if the system counts it."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that holds a lock, with user and host. `started`: the start time, which tells
    processes with one id apart; "" = unknown."""

    user: str
    host: str
    pid: int
    started: str
    since: float
    command: str
    namespace: str = ""  # the process id's namespace, such as a container's; "" = unknown

    @property
    def text(self) -> str:
        """The holder: `ann on kafka-admin-1 (process 4711, since 2026-11-21T06:00:00Z: apply)`."""
        since = f"process {self.pid}, since {say_seconds(self.since)}: {self.command}"
        return f"{self.user} on {self.host} ({since})"

    @property
    def is_elsewhere(self) -> bool:
        """True for a process on another host or in another container. This host cannot see if such
        a process has ended."""
        is_other = bool(self.namespace) and self.namespace != _namespace()
        return is_other or self.host != socket.gethostname()

    def is_running_here(self) -> bool:
        """Return true for another process that runs, or is frozen, on this host."""
        is_comparable = bool(self.started) and not self.is_elsewhere and self.pid != os.getpid()
        return is_comparable and not self.is_gone()

    def is_gone(self) -> bool:
        """Return true if the process certainly ended. Always false for a process elsewhere."""
        if self.is_elsewhere:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass  # the process exists and has another user
        started = _started(self.pid)
        return bool(started and self.started) and started != self.started


def myself(command: str) -> Holder:
    """Return this process as holder of a lock. `command`: its command line."""
    pid, host = os.getpid(), socket.gethostname()
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in containers
        user = f"user {os.getuid()}"
    started, since = _started(pid), datetime.now(UTC).timestamp()
    return Holder(
        user=user,
        host=host,
        pid=pid,
        started=started,
        since=since,
        command=command,
        namespace=_namespace(),
    )


def _namespace() -> str:
    """Return the process-id namespace of this process; "" if unknown."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:  # only Linux has namespaces
        return ""


def _started(pid: int) -> str:
    """Return the start time of a process in clock ticks since boot; "" if unknown."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8")
    except OSError:  # Linux shows the start time only while the process runs
        return ""
    # The program's name is in brackets and may contain any character. Field 22 is the start time.
    state, *fields = stat.rpartition(")")[2].split()
    return "ended" if state in "ZX" else f"{boot.strip()} {fields[18]}"
