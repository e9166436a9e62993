"""`featurelib resume`: finds out what became of requests whose outcome is not known."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import join, quote

from featurelib.backends.opening import TIMEOUT_SECONDS
from featurelib.catalogue import Catalogue
from featurelib.cli.catalogue import Json, OverlayFile, open_catalogue
from featurelib.cli.entrance import say
from featurelib.cli.journal import JournalFile, journal_path, results_as_json
from featurelib.cli.reach import (
    Bootstrap,
    ClusterName,
    Controllers,
    EmbeddedFile,
    FleetFile,
    Reached,
    Timeout,
    Zookeeper,
    open_fleet,
    reach,
)
from featurelib.cli.settings import ConfigFile, open_settings
from featurelib.cli.text import counted
from featurelib.configuration.fleet import Fleet
from featurelib.configuration.settings import Settings
from featurelib.controller.ending_words import settled_sentence
from featurelib.controller.looking import Watcher
from featurelib.controller.resuming import Settled, resume
from featurelib.errors import OutcomeUnknownError
from featurelib.journal.journal import Entry, Journal
from featurelib.report.clean import clean


def resume_command(
    cluster: ClusterName = None,
    bootstrap: Bootstrap = None,
    controllers: Controllers = None,
    zookeeper: Zookeeper = None,
    file: EmbeddedFile = None,
    fleet: FleetFile = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    journal: JournalFile = None,
    config: ConfigFile = None,
    overlay: OverlayFile = None,
    as_json: Json = False,
) -> int:
    """Settle requests whose outcome is not known.

    It finds out by looking. Nothing is sent.

    Without a cluster: of all clusters with open requests that the inventory can reach. A request
    is called not applied once nobody can apply it any more; until then this waits.

    \b
        featurelib resume payments-eu

    Exit codes: 0 all settled, 2 usage, 3 somebody is at work there, 4 still unknown, 5 could not
    look.
    """
    path, catalogue, settings = (
        journal_path(journal),
        open_catalogue(overlay),
        open_settings(config),
    )
    named = any((cluster, bootstrap, controllers, zookeeper, file))
    if not path.exists():
        return _report(Found(), catalogue, as_json=as_json)
    more = f" --journal {quote(journal)}" if journal is not None else ""
    opened = Journal(path)
    try:
        if named:
            reached = reach(
                cluster,
                catalogue,
                fleet=fleet,
                bootstrap=bootstrap,
                controllers=controllers,
                zookeeper=zookeeper,
                file=file,
                timeout=timeout,
            )
            found = _of_one(opened, reached, settings, fleet, more)
        else:
            chosen, lost = _reachable(opened, catalogue, fleet, timeout, more)
            settled: tuple[Settled, ...] = ()
            for cluster_id, way in chosen:
                settled += _resume(opened, cluster_id, way, settings)[1]
            found = Found(settled=settled, lost=lost)
    finally:
        opened.close()
    return _report(found, catalogue, as_json=as_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was looked after, and open requests that were not, each with the command for it:
    `lost`, which were asked for too, and `others`, which are of other clusters than `asked`."""

    settled: tuple[Settled, ...] = ()
    lost: Sequence[tuple[Entry, str]] = ()
    others: Sequence[tuple[Entry, str]] = ()
    asked: str = ""


def _of_one(
    journal: Journal, reached: Reached, settings: Settings, fleet: str | None, more: str
) -> Found:
    """What became of one cluster's requests, and which are open for others."""
    asked, settled = _resume(journal, reached.entry.id, reached, settings)
    others = [
        (entry, _way(entry, reached.fleet, fleet) + more)
        for entry in journal.entries(only_open=True)
        if entry.intent.cluster != asked
    ]
    return Found(settled=settled, others=others, asked=asked)


def _way(entry: Entry, inventory: Fleet, fleet: str | None) -> str:
    """The command that settles a request: by the inventory, or as it was reached when it was sent.
    A name alone is no way where the inventory has none."""
    cluster, used = entry.intent.cluster, entry.intent.reach
    if any(known.id == cluster and known.is_reachable for known in inventory.cluster):
        where = f" --fleet {quote(fleet)}" if fleet is not None else ""
        return f"featurelib resume {quote(cluster)}{where}"
    return f"featurelib resume {used if used.startswith('--') else '--bootstrap HOST:PORT'}"


def _reachable(
    journal: Journal, catalogue: Catalogue, fleet: str | None, timeout: float, more: str
) -> tuple[list[tuple[str, Reached]], list[tuple[Entry, str]]]:
    """The clusters with open requests that the inventory can reach, and the requests of others."""
    _, inventory = open_fleet(fleet, catalogue)
    chosen: dict[str, Reached] = {}
    lost: list[tuple[Entry, str]] = []
    for entry in journal.entries(only_open=True):
        known = [c for c in inventory.cluster if c.id == entry.intent.cluster and c.is_reachable]
        if known:
            reached = reach(entry.intent.cluster, catalogue, fleet=fleet, timeout=timeout)
            chosen[entry.intent.cluster] = reached
        else:
            lost.append((entry, _way(entry, inventory, fleet) + more))
    return list(chosen.items()), lost


def _resume(
    journal: Journal, cluster_id: str, reached: Reached, settings: Settings
) -> tuple[str, tuple[Settled, ...]]:
    """The cluster's id, which a look tells where it is empty, and what became of its requests."""
    backend = reached.open()
    try:
        watcher = Watcher(
            backend=backend,
            catalogue=reached.catalogue,
            fleet=reached.fleet,
            max_age=settings.max_age,
            say=say,
        )
        cluster = cluster_id or watcher.look().sight.cluster_id
        command = join(["featurelib", *sys.argv[1:]])
        return cluster, resume(watcher, journal, cluster=cluster, command=command)
    finally:
        backend.close()


def _report(found: Found, catalogue: Catalogue, *, as_json: bool) -> int:
    """One sentence a request, and one at the end."""
    unknown = sum(one.is_open for one in found.settled) + len(found.lost)
    code = OutcomeUnknownError.exit_code if unknown else 0
    end = _end(found, unknown)
    if as_json:
        requests: list[dict[str, object]] = [
            {
                "number": one.entry.number,
                "cluster": one.entry.intent.cluster,
                "outcome": one.result.fate.value,
                "updates": results_as_json(one.result.updates),
            }
            for one in found.settled
        ]
        requests += _open_as_json(found.lost)
        document = {
            "version": 1,
            "requests": requests,
            "others": _open_as_json(found.others),
            "unknown": unknown,
            "says": end,
        }
        print(json.dumps(document, indent=2, ensure_ascii=False))
        return code
    for one in found.settled:
        print(f"cluster {clean(one.entry.intent.cluster)}: ", end="")
        print(settled_sentence(one.entry.number, one.result, catalogue))
    for entry, way in found.lost:
        print(
            f"cluster {clean(entry.intent.cluster)}: Journal entry {entry.number}: still unknown: "
            f"the inventory has no way to reach it. Run: {way}"
        )
    print(end)
    return code


def _open_as_json(entries: Sequence[tuple[Entry, str]]) -> list[dict[str, object]]:
    return [
        {"number": e.number, "cluster": e.intent.cluster, "outcome": "unknown", "next": way}
        for e, way in entries
    ]


def _end(found: Found, unknown: int) -> str:
    """What is true of all that was asked for, then of other clusters."""
    count = len(found.settled) + len(found.lost)
    others = "".join(f" {text}" for text in _of_others(found.others))
    if unknown:
        return f"Still unknown: {unknown} of {counted(count, 'request')}.{_again(found)}{others}"
    if count:
        return f"Settled: {counted(count, 'request')}; nothing was sent.{others}"
    if others:
        asked = clean(found.asked)
        return f"Nothing to settle: no request is open for this cluster ({asked}).{others}"
    return "Nothing to settle: the outcome of every request is known."


def _again(found: Found) -> str:
    """What can help those that were looked at in vain; the lost have their own command."""
    waiting = [str(one.entry.number) for one in found.settled if one.is_open]
    if not waiting:
        return ""
    return (
        f" Run this again for journal entry {', '.join(waiting)}."
        if found.lost
        else " Run this again."
    )


def _of_others(others: Sequence[tuple[Entry, str]]) -> Iterator[str]:
    """One sentence a cluster and way: how many are open there, and the command."""
    counts = Counter((entry.intent.cluster, way) for entry, way in others)
    for (cluster, way), count in counts.items():
        what = f"{counted(count, 'request')} {'is' if count == 1 else 'are'} open"
        yield f"{what} for another cluster ({clean(cluster)}). Run: {way}"
