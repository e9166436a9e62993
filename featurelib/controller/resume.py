"""Finds out what became of requests whose outcome is not known. Nothing is written to the cluster.

A request whose level is not there is called not applied only once it is proven that nobody can
carry it out any more (featurelib.core.outcome); else it stays open, and what is missing is
said. What was closed before is looked at again: earlier releases closed requests by the clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from featurelib.controller.journal import Journal, JournalEntry, Lock, Settlement
from featurelib.controller.look import Watcher
from featurelib.controller.send import LOCK_SECONDS, Waits, quietly, watch
from featurelib.core.outcome import Delivery, Fate, StepOutcome
from featurelib.core.reply import NO_ERROR, Reply, Result
from featurelib.errors import BackendError, JournalError, OutcomeUnknownError, RefusedError

NEVER_HEARD = "no answer was written down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """One request that was open, and what is known of it now."""

    entry: JournalEntry
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
        if cluster and waiting:
            _expect_cluster(watcher, cluster, waiting)
        times = waits or Waits()
        return tuple(_settle(entry, watcher, journal, lock, times) for entry in waiting)


def _expect_cluster(watcher: Watcher, cluster: str, found: Sequence[JournalEntry]) -> None:
    """Looking again at another cluster would never tell. One that does not answer may be it."""
    try:
        here = watcher.look(say=quietly).sight.cluster_id
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


def _settle(
    entry: JournalEntry, watcher: Watcher, journal: Journal, lock: Lock, waits: Waits
) -> Settled:
    result, _ = watch(watcher, lock, entry.intent, _delivery(entry), None, waits)
    outcome = Settlement(result=result, by="resume", who=lock.who, at=waits.clock())
    try:
        journal.settle(entry.number, outcome)
    except JournalError as error:
        raise OutcomeUnknownError(
            f"journal entry {entry.number}: {result.fate.value}, and that could not be written "
            f"down, so the entry stays open: {error}"
        ) from error
    return Settled(entry=entry, result=result)


def _delivery(entry: JournalEntry) -> Delivery:
    """What was answered, as far as it was written down; a look in vain adds nothing to it."""
    known = entry.outcomes[-1].result.updates if entry.outcomes else ()
    results = tuple(
        Result(feature=one.update.feature, code=one.code, message=one.message)
        for one in known
        if one.code is not None
    )
    if not results:
        return Delivery(why=next((one.message for one in known if one.message), NEVER_HEARD))
    return Delivery(reply=Reply(code=NO_ERROR, message=None, results=results))


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexplained:
    """A level that is there though no request that is known to be applied explains it; `entry`
    asked for it and was closed without it."""

    feature: str
    level: int
    entry: JournalEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """What was looked after: requests that were `settled`, and open ones that were not: `lost`,
    which were asked for too, each with why, and `others`, which are of other clusters than
    `cluster`, the last that was looked at, with the command. `unexplained` are levels of the
    clusters that were looked at."""

    settled: tuple[Settled, ...] = ()
    lost: Sequence[tuple[JournalEntry, str]] = ()
    others: Sequence[tuple[JournalEntry, str]] = ()
    cluster: str = ""
    unexplained: tuple[Unexplained, ...] = ()

    @property
    def unknown(self) -> int:
        """Requests of which it still is not known what became of them."""
        return sum(one.is_open for one in self.settled) + len(self.lost)


def find_unexplained(journal: Journal, watcher: Watcher, cluster: str) -> tuple[Unexplained, ...]:
    """Levels of now that only requests explain which were closed as rejected or not applied.

    Looks only where there are such. Raises BackendError.
    """
    entries = journal.entries(cluster=cluster)
    if not any(asked_in_vain(entry) for entry in entries):
        return ()
    features = {move.feature for entry in entries for move in entry.intent.step.updates}
    seen = watcher.look(cluster, say=quietly).seen(features)
    found = []
    for feature in sorted(features - seen.unknown):
        level, in_vain = seen.level(feature), None
        for entry in entries:
            for outcome in entry.outcomes[-1].result.updates if entry.outcomes else ():
                if outcome.update.feature != feature:
                    continue
                if outcome.fate in (Fate.APPLIED, Fate.OVERTAKEN):  # from here on it was known
                    in_vain = None
                elif outcome.update.to_level == level and asked_in_vain(entry):
                    in_vain = entry
        if in_vain is not None and level is not None:
            found.append(Unexplained(feature=feature, level=level, entry=in_vain))
    return tuple(found)


def asked_in_vain(entry: JournalEntry) -> bool:
    """Whether it was closed as if nothing of it had been written."""
    return entry.fate in (Fate.REJECTED, Fate.NOT_APPLIED)
