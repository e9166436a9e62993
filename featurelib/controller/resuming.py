"""Finds out what became of requests whose outcome is not known, by looking: nothing is sent.

A request whose level is not there is called not applied only once its time is over; until then
this waits. A cluster that does not answer leaves its requests open.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from featurelib.controller.looking import Watcher
from featurelib.controller.sending import LOCK_SECONDS, Waits, watch
from featurelib.core.outcome import Fate, Heard, StepOutcome
from featurelib.errors import JournalError, OutcomeUnknownError
from featurelib.journal.journal import Entry, Journal, Lock, Outcome

NEVER_HEARD = "no answer was written down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """One request that was open, and what is known of it now."""

    entry: Entry
    result: StepOutcome

    @property
    def is_open(self) -> bool:
        """Whether it still is not known."""
        return self.result.fate is Fate.UNKNOWN


def resume(
    watcher: Watcher,
    journal: Journal,
    *,
    command: str = "featurelib resume",
    waits: Waits | None = None,
    cluster: str | None = None,
) -> tuple[Settled, ...]:
    """Settle every open request of the cluster that `watcher` looks at, oldest first.

    `cluster` is its id; without it a look tells. Raises BusyError while somebody is at work there,
    JournalError, and BackendError where the id is not known and nothing answers.
    """
    cluster_id = cluster or watcher.look().sight.cluster_id
    if not journal.entries(cluster=cluster_id, only_open=True):
        return ()
    with journal.lock(cluster_id, command, seconds=LOCK_SECONDS) as lock:
        waiting = journal.entries(cluster=cluster_id, only_open=True)
        times = waits or Waits()
        return tuple(_settle(entry, watcher, journal, lock, times) for entry in waiting)


def _settle(entry: Entry, watcher: Watcher, journal: Journal, lock: Lock, waits: Waits) -> Settled:
    why = NEVER_HEARD
    if entry.outcomes:  # it was looked at before, in vain
        said = entry.outcomes[-1].result.updates
        why = next((outcome.message for outcome in said if outcome.message), NEVER_HEARD)
    left = ceil(entry.intent.over_at - waits.clock())
    if left > 0:
        watcher.say(
            f"journal entry {entry.number}: waiting up to {left} s: until then the controller may "
            "still carry it out"
        )
    result, _ = watch(watcher, lock, entry.intent, Heard(why=why), None, waits)
    outcome = Outcome(result=result, by="resume", who=lock.who, at=waits.clock())
    try:
        journal.settle(entry.number, outcome)
    except JournalError as error:
        raise OutcomeUnknownError(
            f"journal entry {entry.number}: {result.fate.value}, and that could not be written "
            f"down, so the entry stays open: {error}"
        ) from error
    return Settled(entry=entry, result=result)
