"""One request: written down, sent once, and watched until it is known what became of it.

Nothing is ever sent twice. Whatever is answered, and if nothing is, the cluster is looked at before
anything is said.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from featurelib.controller.looking import Look, Watcher, late_nodes
from featurelib.core.outcome import Fate, Heard, StepOutcome, settle
from featurelib.core.planned import Step
from featurelib.errors import (
    BackendError,
    BusyError,
    InputError,
    JournalError,
    OutcomeUnknownError,
    RefusedError,
    UnreachableError,
)
from featurelib.journal.journal import Intent, Journal, Lock, Outcome

NODES_SECONDS = 60.0  # how long nodes may take to report a level
LOCK_SECONDS = 300.0  # a lock expires so long after its holder did something last
_QUIET = 1.0  # seconds between two lines of progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """How long to wait, in seconds. `margin` is added to a request's own time limit, after which
    nobody applies it any more; `nodes` is how long nodes may take to report a level."""

    nodes: float = NODES_SECONDS
    margin: float = 5.0
    first: float = 0.05  # between two looks; then twice as long, up to `longest`
    longest: float = 2.0
    clock: Callable[[], float] = field(default=time.time)
    sleep: Callable[[float], None] = field(default=time.sleep)

    def over_at(self, step: Step) -> float:
        """When a request sent now can no longer be applied: seconds since 1970."""
        return self.clock() + step.timeout_ms / 1000 + self.margin


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What became of a request, the last look, and why it could not be written down ("" = it
    was)."""

    result: StepOutcome
    look: Look | None
    unwritten: str = ""


def send(
    watcher: Watcher, journal: Journal, lock: Lock, intent: Intent, before: Look, waits: Waits
) -> Sent:
    """Send the intended request once. Raises JournalError or BusyError if it was not even sent."""
    number = journal.intend(lock, intent)
    # Only now, so that whoever reads this and kills the process finds the request in the journal.
    watcher.say(f"sending step {intent.position + 1} of {intent.total}: {_moves(intent.step)}")
    heard = _put(watcher, intent.step)
    result, look = watch(watcher, lock, intent, heard, before, waits)
    try:
        journal.settle(number, Outcome(result=result, by="apply", who=lock.who, at=waits.clock()))
    except JournalError as error:
        return Sent(result=result, look=look, unwritten=str(error))
    return Sent(result=result, look=look)


def _moves(step: Step) -> str:
    return ", ".join(f"{update.feature} {update.to_level}" for update in step.updates)


def _put(watcher: Watcher, step: Step) -> Heard:
    try:
        return Heard(reply=watcher.backend.update(step))
    except OutcomeUnknownError as error:
        return Heard(why=str(error))
    except (UnreachableError, RefusedError, InputError) as error:
        return Heard(sent=False, why=str(error))
    except BackendError as error:  # an answer that makes no sense
        return Heard(why=str(error))


def watch(
    watcher: Watcher, lock: Lock, intent: Intent, heard: Heard, before: Look | None, waits: Waits
) -> tuple[StepOutcome, Look | None]:
    """Look until it is known what became of a request, or time is over; and who reports it.

    Without `before` nobody is waited for: the nodes that answer now are counted.
    """
    step, began, pause = intent.step, waits.clock(), waits.first
    wanted = {update.feature: update.to_level for update in step.updates}
    progress = _Progress(watcher, waits)
    while True:
        with suppress(JournalError, BusyError):  # looking needs no lock
            lock.keep()
        over = waits.clock() >= intent.over_at  # of a look that begins later, not of one that ends
        look, why = _look(watcher, intent.cluster) if heard.sent else (None, "")
        seen = None if look is None else look.seen(wanted)
        result = settle(step, intent.position, heard, seen, over=over)
        if result.fate in (Fate.APPLIED, Fate.PARTLY):
            there = {
                outcome.update.feature: outcome.update.to_level
                for outcome in result.updates
                if outcome.fate is Fate.APPLIED
            }
            assert look is not None  # it showed them
            late, asked = late_nodes(before or look, look, there)
            result = replace(result, late=tuple(late), asked=asked)
            progress.say(f"{asked - len(late)} of {asked} nodes report {_levels(there)}")
        elif result.fate is Fate.UNKNOWN:
            progress.say(why or f"waiting to see {_levels(wanted)}")
        if result.fate is Fate.UNKNOWN and not _was_accepted(heard):
            waiting, left = not over, intent.over_at - waits.clock()
        else:
            left = began + waits.nodes - waits.clock()
            waiting = left > 0 and (
                result.fate is Fate.UNKNOWN or bool(result.late and before is not None)
            )
        if not waiting:
            return result, look
        waits.sleep(max(min(pause, left), 0.0))
        pause = min(2 * pause, waits.longest)


def _was_accepted(heard: Heard) -> bool:
    return heard.reply is not None and all(
        code == 0 for code in (heard.reply.code, *(r.code for r in heard.reply.results or ()))
    )


def _look(watcher: Watcher, cluster: str) -> tuple[Look | None, str]:
    try:
        return watcher.look(cluster, say=_quietly), ""
    except BackendError as error:
        return None, f"the cluster cannot be looked at: {error}"


def _quietly(text: str) -> None:
    """Nobody needs to hear of every look of a wait."""


def _levels(levels: dict[str, int]) -> str:
    return ", ".join(f"{name} {level}" for name, level in sorted(levels.items()))


class _Progress:
    """Says what is new at once, and what is not once in a while."""

    def __init__(self, watcher: Watcher, waits: Waits) -> None:
        self._say, self._clock = watcher.say, waits.clock
        self._last, self._at = "", 0.0

    def say(self, text: str) -> None:
        if text != self._last and self._clock() - self._at >= (_QUIET if self._last else 0.0):
            self._say(text)
            self._last, self._at = text, self._clock()
