"""Finds out what became of requests whose outcome is not known, by looking: nothing is sent.

A request whose level is not there is called not applied only once its time is over; until then
this waits. A cluster that does not answer leaves its requests open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from featurelib.controller.looking import Watcher
from featurelib.controller.sending import LOCK_SECONDS, Waits, watch
from featurelib.core.outcome import Fate, Heard, StepOutcome
from featurelib.errors import BackendError, JournalError, OutcomeUnknownError, RefusedError
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

    `cluster` is its id; without it a look tells. Raises RefusedError where another cluster answers,
    BusyError while somebody is at work there, JournalError, and BackendError where the id is not
    known and nothing answers.
    """
    cluster_id = cluster or watcher.look().sight.cluster_id
    if not journal.entries(cluster=cluster_id, only_open=True):
        return ()
    with journal.lock(cluster_id, command, seconds=LOCK_SECONDS) as lock:
        waiting = journal.entries(cluster=cluster_id, only_open=True)
        times, settled = waits or Waits(), list[Settled]()
        for entry in waiting:
            _say_wait(entry, watcher, times)
            if cluster and not settled:
                _expect_cluster(watcher, cluster, waiting)
            settled.append(_settle(entry, watcher, journal, lock, times))
        return tuple(settled)


def _expect_cluster(watcher: Watcher, cluster: str, found: Sequence[Entry]) -> None:
    """Looking again at another cluster would never tell. One that does not answer may be it."""
    try:
        here = watcher.look(say=_quietly).sight.cluster_id
    except BackendError:
        return
    if here == cluster:
        return
    numbers = ", ".join(str(entry.number) for entry in found)
    used = [entry.intent.reach for entry in found if entry.intent.reach.startswith("--")]
    how = f"It was reached with {used[-1]}" if used else "Mend its address."
    raise RefusedError(
        f"{watcher.backend.where}: this is cluster {here}, expected cluster {cluster}, of which "
        f"the outcome of journal entry {numbers} is unknown. Nothing was sent. {how}"
    )


def _quietly(text: str) -> None:
    """The wait was told, and what comes of it will be."""


def _say_wait(entry: Entry, watcher: Watcher, waits: Waits) -> None:
    left = ceil(entry.intent.over_at - waits.clock())
    if left > 0:
        watcher.say(
            f"journal entry {entry.number}: waiting up to {left} s: until then the controller may "
            "still carry it out"
        )


def _settle(entry: Entry, watcher: Watcher, journal: Journal, lock: Lock, waits: Waits) -> Settled:
    why = NEVER_HEARD
    if entry.outcomes:  # it was looked at before, in vain
        said = entry.outcomes[-1].result.updates
        why = next((outcome.message for outcome in said if outcome.message), NEVER_HEARD)
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
