"""`featurelib journal`: what was sent to clusters from here, and what became of it.

The option that chooses the journal is here too, for the commands that write to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from featurelib.api.documents import (
    EntryDocument,
    JournalDocument,
    OutcomeDocument,
    UpdateResultDocument,
)
from featurelib.cli.entrance import say
from featurelib.config.catalogue import open_catalogue
from featurelib.config.files import journal_path
from featurelib.config.fleet import Fleet
from featurelib.controller.journal import Dispatch, Journal, JournalEntry
from featurelib.core.outcome import MoveOutcome
from featurelib.errors import ConfigError
from featurelib.source import open_fleet
from featurelib.view.documents import as_json as to_json
from featurelib.view.documents import fill
from featurelib.view.layout import Page
from featurelib.view.outcome import operation, show_entry
from featurelib.words import clean, count


def journal(
    cluster: str | None = None,
    only_open: bool = False,
    fleet: str | None = None,
    journal: str | None = None,
    overlay: str | None = None,
    as_json: bool = False,
) -> int:
    """What was sent from here, and what became of it.

    Who approved it and why, too.

    \b
        featurelib journal --cluster payments-eu
        featurelib journal --open

    Nothing is asked of a cluster. Exit codes: 0 done, 2 usage, or no journal is there, 3 it is
    damaged.
    """
    catalogue, path = open_catalogue(overlay, say), journal_path(journal)
    where, inventory = open_fleet(fleet, catalogue)
    opened = open_journal(path)
    try:
        chosen = None if cluster is None else _id_of(cluster, opened.entries(), inventory, where)
        entries = opened.entries(cluster=chosen, only_open=only_open)
    finally:
        opened.close()
    names = inventory.names
    if as_json:
        shown = [_document(entry, names) for entry in entries]
        print(to_json(fill(JournalDocument, journal=str(path), entries=shown)))
        return 0
    for entry in entries:
        page = Page()
        show_entry(entry, _named(entry.intent, names), catalogue, page)
        print(page)
    waiting = sum(entry.is_open for entry in entries)
    what = count(len(entries), "open request" if only_open else "request")
    print(f"{path}: {what}" + (f"; {waiting} to settle with featurelib resume" if waiting else ""))
    return 0


def open_journal(path: Path) -> Journal:
    """The journal in a file that is there: to look after what was sent none is made. Raises
    ConfigError where there is none, JournalError and InputError for one that cannot be read."""
    if not path.exists():
        raise ConfigError(
            f"{path}: expected a journal, found none: nothing was sent with it, or it is another "
            "user's or machine's. What may be open cannot be told. Name it with --journal FILE."
        )
    if path.is_file() and not path.stat().st_size:
        raise ConfigError(
            f"{path}: expected a journal, found an empty file. What may be open cannot be told. "
            "Name it with --journal FILE."
        )
    return Journal(path)


def _id_of(text: str, entries: Sequence[JournalEntry], fleet: Fleet, where: str) -> str:
    """The id of the cluster that is meant: as everywhere else, or as the journal calls it. Raises
    ConfigError for one that neither knows, or a name of several."""
    known = {entry.intent.cluster: entry.intent.name for entry in entries}
    listed = any(text in (entry.id, entry.name) for entry in fleet.cluster)
    if text in known or listed:
        return text if text in known else fleet.find(text, where).id
    named = [cluster for cluster, name in known.items() if name == text]
    if len(named) == 1:
        return named[0]
    more = f"name one of the journal's: {', '.join(sorted(known))}" if known else "leave it out"
    return fleet.find(text, where, others=more).id


def _named(intent: Dispatch, names: Mapping[str, str]) -> str:
    """A cluster's name with its id: the inventory's of today, or that of when it was sent."""
    cluster = clean(intent.cluster)
    name = clean(names.get(intent.cluster) or intent.name or intent.cluster)
    return cluster if name == cluster else f"{name} ({cluster})"


def _document(entry: JournalEntry, names: Mapping[str, str]) -> EntryDocument:
    intent = entry.intent
    return fill(
        EntryDocument,
        intent,
        number=entry.number,
        open=entry.is_open,
        outcome=entry.fate.value,
        name=names.get(intent.cluster) or intent.name or intent.cluster,
        approved_by=intent.approved_by or None,
        reason=intent.reason or None,
        settings=intent.settings or None,
        step=intent.position + 1,
        steps=intent.total,
        sent_at=_time(intent.at),
        user=intent.who.user,
        host=intent.who.host,
        process=intent.who.pid,
        updates=intent.step.updates,
        found_out=[
            fill(
                OutcomeDocument,
                outcome.result,
                at=_time(outcome.at),
                by=outcome.by,
                outcome=outcome.result.fate.value,
                updates=result_documents(outcome.result.updates),
            )
            for outcome in entry.outcomes
        ],
    )


def result_documents(updates: tuple[MoveOutcome, ...]) -> list[UpdateResultDocument]:
    """What became of each update, as objects."""
    return [
        UpdateResultDocument(
            **asdict(outcome.update),
            operation=operation(outcome.update).lower(),
            outcome=outcome.fate.value,
            level=outcome.level,
            code=outcome.code,
            message=outcome.message,
        )
        for outcome in updates
    ]


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
