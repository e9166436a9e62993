"""A process that carries a plan out and kills itself at one boundary.

The boundaries are all moments between two things that last: lock, intent, request, reply, outcome.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from featurelib.backends.base import Say
from featurelib.backends.embedded import EmbeddedBackend
from featurelib.config.fleet import Fleet
from featurelib.controller.apply import ApplyOrder, apply
from featurelib.controller.journal import Dispatch, Journal, Lock, Settlement
from featurelib.controller.look import Watcher
from featurelib.core.reply import Reply
from featurelib.model import Plan, Step
from tests.backends.simulator import Simulated
from tests.controller.clusters import AGE, CATALOGUE, WAITS, approved, say_nothing

BOUNDARIES = (
    "before the lock",
    "after the lock",
    "after the first look",
    "while the intent is written",
    "after the intent",
    "after the request was sent",
    "after the reply",
    "after the look",
    "while the outcome is written",
    "after the outcome",
)


class Killer:
    """Ends this process without a word at one boundary of one step."""

    def __init__(self, boundary: str, step: int) -> None:
        self.boundary, self.step, self.now = boundary, step, 0

    def at(self, boundary: str) -> None:
        if (boundary, self.now) == (self.boundary, self.step):
            os.kill(os.getpid(), signal.SIGKILL)


class KilledBackend(EmbeddedBackend):
    """The real backend, and a killer beside it."""

    def __init__(self, cluster: Simulated, killer: Killer) -> None:
        super().__init__(cluster)
        self._killer, self._sent = killer, False

    def describe(self, say: Say) -> tuple[bytes, ...]:
        if self._sent:
            self._killer.at("after the reply")
        lines = super().describe(say)
        self._killer.at("after the look" if self._sent else "after the first look")
        return lines

    def update(self, step: Step, *, validate_only: bool = False) -> Reply:
        if validate_only:
            return super().update(step, validate_only=True)
        self._killer.at("after the intent")
        reply = super().update(step)
        self._killer.at("after the request was sent")
        self._sent = True
        return reply


class KilledJournal(Journal):
    """The real journal, and a killer beside it."""

    def __init__(self, path: Path, killer: Killer) -> None:
        self._killer, self._writing = killer, ""
        super().__init__(path)
        self._db.set_trace_callback(self._trace)

    def _trace(self, statement: str) -> None:
        if statement == "COMMIT" and self._writing:
            self._killer.at(self._writing)

    def intend(self, lock: Lock, intent: Dispatch) -> int:
        self._writing = "while the intent is written"
        number = super().intend(lock, intent)
        self._writing = ""
        return number

    def settle(self, number: int, outcome: Settlement) -> None:
        self._writing = "while the outcome is written"
        super().settle(number, outcome)
        self._writing = ""
        self._killer.at("after the outcome")
        self._killer.now += 1

    def entries(self, **how: object) -> tuple[object, ...]:  # type: ignore[override]
        self._killer.at("after the lock")  # the first thing it does then
        return super().entries(**how)  # type: ignore[arg-type]


def carry_out(folder: Path, plan: Plan, boundary: str, step: int) -> None:
    """Apply `plan` to the cluster in `folder`; the process does not live to see the end."""
    killer = Killer(boundary, step)
    backend = KilledBackend(Simulated(str(folder / "cluster.db"), CATALOGUE.tables), killer)
    journal = KilledJournal(folder / "state" / "journal.sqlite", killer)
    watcher = Watcher(
        backend=backend, catalogue=CATALOGUE, fleet=Fleet(), max_age=AGE, say=say_nothing
    )
    killer.at("before the lock")
    apply(ApplyOrder(plan=plan, check_approval=approved, waits=WAITS), watcher, journal)
