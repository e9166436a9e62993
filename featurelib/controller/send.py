"""One request: written down, sent once, and watched until it is known what became of it.

Nothing is ever sent twice. Whatever is answered, and if nothing is, the cluster is looked at before
anything is said.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from threading import Event, Thread

from featurelib.controller.journal import Intent, Journal, Lock, Outcome
from featurelib.controller.look import Look, Watcher, late_nodes
from featurelib.core.outcome import Fate, Heard, NotPassed, Recipient, StepOutcome, settle
from featurelib.errors import (
    BackendError,
    BusyError,
    InputError,
    JournalError,
    OutcomeUnknownError,
    RefusedError,
    UnreachableError,
)
from featurelib.model import Step

NODES_SECONDS = 60.0  # how long nodes may take to report a level
LOCK_SECONDS = 300.0  # a lock expires so long after its holder did something last
_ANSWER_SAID_S = 10  # between two lines while an answer is waited for
_QUIET = 1.0  # seconds between two lines of progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """How long to wait, in seconds; none of it settles anything. `margin` is added to a request's
    own time limit, `nodes` is how long nodes may take to report a level, `proof` how long somebody
    who only looks waits for an answer."""

    nodes: float = NODES_SECONDS
    margin: float = 5.0
    proof: float = 10.0
    first: float = 0.05  # between two looks; then twice as long, up to `longest`
    longest: float = 2.0
    clock: Callable[[], float] = field(default=time.time)
    sleep: Callable[[float], None] = field(default=time.sleep)

    def over_at(self, step: Step) -> float:
        """Until when the sender of a request waits for what becomes of it: seconds since 1970."""
        return self.clock() + step.timeout_ms / 1000 + self.margin


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What became of a request, the last look, and why it could not be written down ("" = it
    was)."""

    result: StepOutcome
    look: Look | None
    unwritten: str = ""


def aim(watcher: Watcher) -> Recipient | Heard:
    """Whom the next request goes to, connected to; or why there is nobody, and nothing was sent."""
    try:
        return watcher.backend.recipient()
    except (UnreachableError, RefusedError, InputError) as error:
        return Heard(sent=False, why=str(error))


def send(
    watcher: Watcher, journal: Journal, lock: Lock, intent: Intent, before: Look, waits: Waits
) -> Sent:
    """Send the intended request once. Raises JournalError or BusyError if it was not even sent."""
    number = journal.intend(lock, intent)
    # Only now, so that whoever reads this and kills the process finds the request in the journal.
    watcher.say(f"sending step {intent.position + 1} of {intent.total}: {_moves(intent.step)}")
    with _said_to_wait(watcher, intent.step):
        heard = _put(watcher, intent.step)
    result, look = watch(watcher, lock, intent, heard, before, waits)
    try:
        journal.settle(number, Outcome(result=result, by="apply", who=lock.who, at=waits.clock()))
    except JournalError as error:
        return Sent(result=result, look=look, unwritten=str(error))
    return Sent(result=result, look=look)


def _moves(step: Step) -> str:
    return ", ".join(f"{update.feature} {update.to_level}" for update in step.updates)


@contextmanager
def _said_to_wait(watcher: Watcher, step: Step) -> Iterator[None]:
    """Says once in a while that an answer is waited for, as long as the block runs."""
    ended = Event()

    def say() -> None:
        waited = 0
        while not ended.wait(_ANSWER_SAID_S):
            waited += _ANSWER_SAID_S
            watcher.say(
                f"no answer for {waited} s; the controller has {step.timeout_ms / 1000:g} s from "
                "when it takes the request up"
            )

    thread = Thread(target=say, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


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
    """Look until it is known what became of a request, or for as long as somebody waits; and who
    reports it.

    Without `before` nobody is waited for: the nodes that answer now are counted.
    """
    step, began, pause = intent.step, waits.clock(), waits.first
    until = began + waits.proof
    if before is not None:
        until = max(intent.over_at, began + waits.margin)
    is_accepted = _was_accepted(heard)
    if is_accepted:
        until = began + waits.nodes
    progress = _Progress(watcher, waits)
    while True:
        with suppress(JournalError, BusyError):  # looking needs no lock
            lock.keep()
        # What was accepted is only not heard of yet, as a rule.
        asks = not is_accepted or waits.clock() >= (began + until) / 2
        result, look = _judge(watcher, intent, heard, asks=asks)
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
            left = began + waits.nodes - waits.clock()
            waiting = left > 0 and bool(late and before is not None)
        else:
            left = until - waits.clock()
            waiting = left > 0 and result.fate is Fate.UNKNOWN
            if waiting:
                progress.say(result.unproven or f"waiting to see {_moves(step)}")
        if not waiting:
            return result, look
        waits.sleep(max(min(pause, left), 0.0))
        pause = min(2 * pause, waits.longest)


def _judge(
    watcher: Watcher, intent: Intent, heard: Heard, *, asks: bool
) -> tuple[StepOutcome, Look | None]:
    """What became of a request by a look from now on; where that leaves it open, whoever may hold
    it is asked, if `asks`, and the cluster is looked at once more."""
    step, position, features = intent.step, intent.position, _features(intent.step)
    if not heard.sent:
        return settle(step, position, heard, None, proven=False), None
    look, why = _look(watcher, intent.cluster)
    seen = None if look is None else look.seen(features)
    result = settle(step, position, heard, seen, proven=False)
    if result.fate is not Fate.UNKNOWN or not (asks or look is None):
        return result, look
    if look is None:
        return replace(result, unproven=why), None
    passed = watcher.backend.passed(intent.sent_to, features)
    if isinstance(passed, NotPassed):
        return replace(result, unproven=passed.why), look
    after, why = _look(watcher, intent.cluster)
    known = None if after is None else after.seen_after(passed, features)
    if known is None:
        why = why or "no node answers that is known to have heard of all that was carried out"
        return replace(result, unproven=why), look
    result = settle(step, position, heard, known, proven=True)
    return replace(result, proof=passed.how), after


def _features(step: Step) -> list[str]:
    return [update.feature for update in step.updates]


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
