"""`featurelib resume`: finds out what became of requests whose outcome is not known."""

from __future__ import annotations

import sys
from shlex import join, quote

from featurelib.backends.opening import TIMEOUT_SECONDS
from featurelib.catalogue import Catalogue
from featurelib.cli.catalogue import Json, OverlayFile, open_catalogue
from featurelib.cli.entrance import say
from featurelib.cli.journal import JournalFile, journal_path, open_journal
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
from featurelib.cli.resume_text import Found, report
from featurelib.cli.settings import ConfigFile, open_settings
from featurelib.configuration.fleet import Fleet
from featurelib.configuration.settings import Settings
from featurelib.controller.looking import Watcher
from featurelib.controller.resuming import (
    Settled,
    Unexplained,
    asked_in_vain,
    find_unexplained,
    resume,
)
from featurelib.errors import BackendError, RefusedError
from featurelib.journal.journal import Entry, Journal


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
        open_catalogue(overlay),
        open_settings(config),
    )
    named = any((cluster, bootstrap, controllers, zookeeper, file))
    more = f" --journal {quote(journal)}" if journal is not None else ""
    opened = open_journal(path)
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
            found = _of_all(opened, catalogue, settings, fleet, timeout, more)
    finally:
        opened.close()
    return report(found, catalogue, as_json=as_json)


def _of_one(
    journal: Journal, reached: Reached, settings: Settings, fleet: str | None, more: str
) -> Found:
    """What became of one cluster's requests, and which are open for others."""
    asked, settled, unexplained = _resume(journal, reached.entry.id, reached, settings)
    others = [
        (entry, _way(entry, reached.fleet, fleet) + more)
        for entry in journal.entries(only_open=True)
        if entry.intent.cluster != asked
    ]
    return Found(settled=settled, others=others, asked=asked, unexplained=unexplained)


def _way(entry: Entry, inventory: Fleet, fleet: str | None) -> str:
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
) -> tuple[list[tuple[str, Reached]], list[tuple[Entry, str]]]:
    """The clusters with requests to look after that the inventory can reach, and the open requests
    of others."""
    _, inventory = open_fleet(fleet, catalogue)
    chosen: dict[str, Reached] = {}
    lost: list[tuple[Entry, str]] = []
    for entry in journal.entries():
        if not (entry.is_open or asked_in_vain(entry)):
            continue
        known = [c for c in inventory.cluster if c.id == entry.intent.cluster and c.is_reachable]
        if known:
            reached = reach(entry.intent.cluster, catalogue, fleet=fleet, timeout=timeout)
            chosen[entry.intent.cluster] = reached
        elif entry.is_open:
            why = "the inventory has no way to reach it. Run: "
            lost.append((entry, why + _way(entry, inventory, fleet) + more))
    return list(chosen.items()), lost


def _resume(
    journal: Journal, cluster_id: str, reached: Reached, settings: Settings
) -> tuple[str, tuple[Settled, ...], tuple[Unexplained, ...]]:
    """The cluster's id, which a look tells where it is empty, what became of its requests, and
    levels that none explains."""
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
        settled = resume(watcher, journal, cluster=cluster, command=command)
        unexplained: tuple[Unexplained, ...] = ()
        try:
            unexplained = find_unexplained(journal, watcher, cluster)
        except BackendError as error:
            say(f"closed requests of cluster {cluster} were not looked at again: {error}")
        return cluster, settled, unexplained
    finally:
        backend.close()
