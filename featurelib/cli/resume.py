"""`featurelib resume`: finds out what became of requests whose outcome is not known."""

from __future__ import annotations

import json
import sys
from shlex import join

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
from featurelib.ending_words import settled_sentence
from featurelib.errors import OutcomeUnknownError
from featurelib.journal import Entry, Journal
from featurelib.looking import Watcher
from featurelib.report.clean import clean
from featurelib.resuming import Settled, resume
from featurelib.settings import Settings


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
        return _report([], [], catalogue, as_json=as_json)
    opened = Journal(path)
    try:
        chosen: list[tuple[str | None, Reached]] = []
        lost: list[tuple[Entry, str]] = []
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
            chosen.append((reached.entry.id or None, reached))
        else:
            chosen, lost = _reachable(opened, catalogue, fleet, timeout)
        settled: list[Settled] = []
        for cluster_id, reached in chosen:
            settled += _resume(opened, cluster_id, reached, settings)
    finally:
        opened.close()
    return _report(settled, lost, catalogue, as_json=as_json)


def _reachable(
    journal: Journal, catalogue: Catalogue, fleet: str | None, timeout: float
) -> tuple[list[tuple[str | None, Reached]], list[tuple[Entry, str]]]:
    """The clusters with open requests that the inventory can reach, and the requests of others."""
    _, inventory = open_fleet(fleet, catalogue)
    chosen: dict[str | None, Reached] = {}
    lost: list[tuple[Entry, str]] = []
    for entry in journal.entries(only_open=True):
        known = [c for c in inventory.cluster if c.id == entry.intent.cluster and c.is_reachable]
        if known:
            reached = reach(entry.intent.cluster, catalogue, fleet=fleet, timeout=timeout)
            chosen[entry.intent.cluster] = reached
        else:
            way = entry.intent.reach or "--bootstrap HOST:PORT"
            lost.append((entry, f"featurelib resume {way}"))
    return list(chosen.items()), lost


def _resume(
    journal: Journal, cluster_id: str | None, reached: Reached, settings: Settings
) -> tuple[Settled, ...]:
    backend = reached.open()
    try:
        watcher = Watcher(
            backend=backend,
            catalogue=reached.catalogue,
            fleet=reached.fleet,
            max_age=settings.max_age,
            say=say,
        )
        command = join(["featurelib", *sys.argv[1:]])
        return resume(watcher, journal, cluster=cluster_id, command=command)
    finally:
        backend.close()


def _report(
    settled: list[Settled], lost: list[tuple[Entry, str]], catalogue: Catalogue, *, as_json: bool
) -> int:
    """One sentence a request, and one at the end."""
    unknown = sum(one.is_open for one in settled) + len(lost)
    code = OutcomeUnknownError.exit_code if unknown else 0
    end = _end(len(settled) + len(lost), unknown)
    if as_json:
        requests = [
            {
                "number": one.entry.number,
                "cluster": one.entry.intent.cluster,
                "outcome": one.result.fate.value,
                "updates": results_as_json(one.result.updates),
            }
            for one in settled
        ]
        requests += [
            {"number": e.number, "cluster": e.intent.cluster, "outcome": "unknown", "next": way}
            for e, way in lost
        ]
        document = {"version": 1, "requests": requests, "unknown": unknown, "says": end}
        print(json.dumps(document, indent=2, ensure_ascii=False))
        return code
    for one in settled:
        print(f"cluster {clean(one.entry.intent.cluster)}: ", end="")
        print(settled_sentence(one.entry.number, one.result, catalogue))
    for entry, way in lost:
        print(
            f"cluster {clean(entry.intent.cluster)}: Journal entry {entry.number}: still unknown: "
            f"nothing says how to reach it. Run: {way}"
        )
    print(end)
    return code


def _end(count: int, unknown: int) -> str:
    if count == 0:
        return "Nothing to settle: the outcome of every request is known."
    if unknown:
        return f"Still unknown: {unknown} of {counted(count, 'request')}. Run this again."
    return f"Settled: {counted(count, 'request')}; nothing was sent."
