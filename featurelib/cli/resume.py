"""`featurelib resume`: finds out what became of requests whose outcome is not known."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import join, quote

from featurelib.api.documents import ResumeDocument, SettledDocument, UnexplainedDocument
from featurelib.backends.opening import TIMEOUT_SECONDS
from featurelib.catalogue import Catalogue
from featurelib.cli.entrance import say
from featurelib.cli.journal import open_journal, result_documents
from featurelib.config.catalogue import open_catalogue
from featurelib.config.files import journal_path, open_settings
from featurelib.config.fleet import Fleet
from featurelib.config.settings import Settings
from featurelib.controller.journal import Journal, JournalEntry
from featurelib.controller.resume import (
    Settled,
    Unexplained,
    asked_in_vain,
    find_unexplained,
    resume,
)
from featurelib.errors import BackendError, OutcomeUnknownError, RefusedError
from featurelib.source import ReachedCluster, Wanted, open_fleet, reach
from featurelib.view.documents import as_json as to_json
from featurelib.view.documents import fill
from featurelib.view.outcome import settled_sentence, unexplained_sentence
from featurelib.words import clean, count

# What `featurelib resume` found out: one sentence a request, and one at the end.


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was looked after, and open requests that were not: `lost`, which were asked for too,
    each with why, and `others`, which are of other clusters than `asked`, with the command.
    `unexplained` are levels of the clusters that were looked at."""

    settled: tuple[Settled, ...] = ()
    lost: Sequence[tuple[JournalEntry, str]] = ()
    others: Sequence[tuple[JournalEntry, str]] = ()
    asked: str = ""
    unexplained: Sequence[Unexplained] = ()


def report(found: Found, catalogue: Catalogue, *, as_json: bool) -> int:
    """Print it; the exit code."""
    unknown = sum(one.is_open for one in found.settled) + len(found.lost)
    code = OutcomeUnknownError.exit_code if unknown else 0
    end = _end(found, unknown)
    if as_json:
        print(to_json(_document(found, unknown, end)))
        return code
    for one in found.settled:
        print(f"cluster {clean(one.entry.intent.cluster)}: ", end="")
        print(settled_sentence(one.entry.number, one.result, catalogue))
    for entry, why in found.lost:
        print(
            f"cluster {clean(entry.intent.cluster)}: Journal entry {entry.number}: still unknown: "
            f"{why}"
        )
    for level in found.unexplained:
        print(f"cluster {clean(level.entry.intent.cluster)}: ", end="")
        print(unexplained_sentence(level, catalogue))
    print(end)
    return code


def _document(found: Found, unknown: int, end: str) -> ResumeDocument:
    settled = [
        fill(
            SettledDocument,
            one.result,
            number=one.entry.number,
            cluster=one.entry.intent.cluster,
            outcome=one.result.fate.value,
            updates=result_documents(one.result.updates),
        )
        for one in found.settled
    ]
    return fill(
        ResumeDocument,
        requests=[*settled, *(_open(entry, why=why) for entry, why in found.lost)],
        others=[_open(entry, next=command) for entry, command in found.others],
        unexplained=[
            fill(
                UnexplainedDocument,
                one,
                cluster=one.entry.intent.cluster,
                entry=one.entry.number,
                closed_as=one.entry.fate.value,
            )
            for one in found.unexplained
        ],
        unknown=unknown,
        says=end,
    )


def _open(entry: JournalEntry, **more: str) -> SettledDocument:
    cluster = entry.intent.cluster
    return fill(SettledDocument, number=entry.number, cluster=cluster, outcome="unknown", **more)


def _end(found: Found, unknown: int) -> str:
    """What is true of all that was asked for, then of other clusters."""
    number = len(found.settled) + len(found.lost)
    others = "".join(f" {text}" for text in _of_others(found.others))
    if unknown:
        return f"Still unknown: {unknown} of {count(number, 'request')}.{_again(found)}{others}"
    if number:
        return f"Settled: {count(number, 'request')}; nothing was written.{others}"
    if others:
        asked = clean(found.asked)
        return f"Nothing to settle: no request is open for this cluster ({asked}).{others}"
    if found.unexplained:
        return "Nothing to settle; how these levels came about is not known."
    return "Nothing to settle: the outcome of every request is known."


def _again(found: Found) -> str:
    """What can help those that were looked at in vain; of the lost it is said what does."""
    waiting = [str(one.entry.number) for one in found.settled if one.is_open]
    if not waiting:
        return ""
    return (
        f" Run this again for journal entry {', '.join(waiting)}."
        if found.lost
        else " Run this again."
    )


def _of_others(others: Sequence[tuple[JournalEntry, str]]) -> Iterator[str]:
    """One sentence a cluster and way: how many are open there, and the command."""
    counts = Counter((entry.intent.cluster, way) for entry, way in others)
    for (cluster, way), number in counts.items():
        what = f"{count(number, 'request')} {'is' if number == 1 else 'are'} open"
        yield f"{what} for another cluster ({clean(cluster)}). Run: {way}"


def resume_command(
    cluster: str | None = None,
    bootstrap: str | None = None,
    controllers: str | None = None,
    zookeeper: str | None = None,
    file: str | None = None,
    fleet: str | None = None,
    timeout: float = TIMEOUT_SECONDS,
    journal: str | None = None,
    config: str | None = None,
    overlay: str | None = None,
    as_json: bool = False,
) -> int:
    """Settle requests whose outcome is not known.

    It finds out by looking, and where that does not tell by asking the nodes that may still hold
    the request. Nothing is written.

    Without a cluster: of all clusters that the inventory can reach. A request is called not
    applied once it is proven that nobody can carry it out any more; no clock proves that.
    Requests that were closed before are looked at again: a level is said that none explains.

    \b
        featurelib resume payments-eu

    Exit codes: 0 all settled, 2 usage, or no journal is there, 3 it is damaged, somebody is at
    work there, or it is another cluster, 4 still unknown, 5 could not look.
    """
    path, catalogue, settings = (
        journal_path(journal),
        open_catalogue(overlay, say),
        open_settings(config),
    )
    named = any((cluster, bootstrap, controllers, zookeeper, file))
    more = f" --journal {quote(journal)}" if journal is not None else ""
    opened = open_journal(path)
    try:
        if named:
            wanted = Wanted(
                cluster=cluster,
                fleet=fleet,
                bootstrap=bootstrap,
                controllers=controllers,
                zookeeper=zookeeper,
                file=file,
                timeout=timeout,
            )
            reached = reach(wanted, catalogue)
            found = _of_one(opened, reached, settings, fleet, more)
        else:
            found = _of_all(opened, catalogue, settings, fleet, timeout, more)
    finally:
        opened.close()
    return report(found, catalogue, as_json=as_json)


def _of_one(
    journal: Journal, reached: ReachedCluster, settings: Settings, fleet: str | None, more: str
) -> Found:
    """What became of one cluster's requests, and which are open for others."""
    asked, settled, unexplained = _resume(journal, reached.entry.id, reached, settings)
    others = [
        (entry, _way(entry, reached.fleet, fleet) + more)
        for entry in journal.entries(only_open=True)
        if entry.intent.cluster != asked
    ]
    return Found(settled=settled, others=others, asked=asked, unexplained=unexplained)


def _way(entry: JournalEntry, inventory: Fleet, fleet: str | None) -> str:
    """The command that settles a request: by the inventory, or as it was reached when it was sent.
    A name alone is no way where the inventory has none."""
    cluster, used = entry.intent.cluster, entry.intent.reach
    if any(known.id == cluster and known.is_reachable for known in inventory.cluster):
        where = f" --fleet {quote(fleet)}" if fleet is not None else ""
        return f"featurelib resume {quote(cluster)}{where}"
    is_way = used.startswith("--") or " --fleet " in used
    return f"featurelib resume {used if is_way else '--bootstrap HOST:PORT'}"


def _of_all(
    journal: Journal,
    catalogue: Catalogue,
    settings: Settings,
    fleet: str | None,
    timeout: float,
    more: str,
) -> Found:
    """What became of the requests of every cluster that the inventory can reach; where one cannot
    be looked after the others are."""
    chosen, lost = _reachable(journal, catalogue, fleet, timeout, more)
    settled: tuple[Settled, ...] = ()
    unexplained: tuple[Unexplained, ...] = ()
    for cluster_id, way in chosen:
        try:
            _, more_settled, more_levels = _resume(journal, cluster_id, way, settings)
            settled, unexplained = settled + more_settled, unexplained + more_levels
        except RefusedError as error:
            waiting = journal.entries(cluster=cluster_id, only_open=True)
            lost += [(entry, str(error)) for entry in waiting]
    return Found(settled=settled, lost=lost, unexplained=unexplained)


def _reachable(
    journal: Journal, catalogue: Catalogue, fleet: str | None, timeout: float, more: str
) -> tuple[list[tuple[str, ReachedCluster]], list[tuple[JournalEntry, str]]]:
    """The clusters with requests to look after that the inventory can reach, and the open requests
    of others."""
    _, inventory = open_fleet(fleet, catalogue)
    chosen: dict[str, ReachedCluster] = {}
    lost: list[tuple[JournalEntry, str]] = []
    for entry in journal.entries():
        if not (entry.is_open or asked_in_vain(entry)):
            continue
        known = [c for c in inventory.cluster if c.id == entry.intent.cluster and c.is_reachable]
        if known:
            wanted = Wanted(cluster=entry.intent.cluster, fleet=fleet, timeout=timeout)
            reached = reach(wanted, catalogue)
            chosen[entry.intent.cluster] = reached
        elif entry.is_open:
            why = "the inventory has no way to reach it. Run: "
            lost.append((entry, why + _way(entry, inventory, fleet) + more))
    return list(chosen.items()), lost


def _resume(
    journal: Journal, cluster_id: str, reached: ReachedCluster, settings: Settings
) -> tuple[str, tuple[Settled, ...], tuple[Unexplained, ...]]:
    """The cluster's id, which a look tells where it is empty, what became of its requests, and
    levels that none explains."""
    with reached.watcher(settings.max_age, say) as watcher:
        cluster = cluster_id or watcher.look().sight.cluster_id
        command = join(["featurelib", *sys.argv[1:]])
        settled = resume(watcher, journal, cluster=cluster, command=command)
        unexplained: tuple[Unexplained, ...] = ()
        try:
            unexplained = find_unexplained(journal, watcher, cluster)
        except BackendError as error:
            say(f"closed requests of cluster {cluster} were not looked at again: {error}")
        return cluster, settled, unexplained
