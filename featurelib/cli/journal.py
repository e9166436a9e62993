"""`featurelib journal`: what was sent to clusters from here, and what became of it.

The option that chooses the journal is here too, for the commands that write to it.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from featurelib.catalogue import Catalogue
from featurelib.cli.catalogue import Json, OverlayFile, open_catalogue
from featurelib.cli.layout import terminal_width, wrapped
from featurelib.cli.text import counted
from featurelib.controller.ending_words import move_text, operation
from featurelib.core.outcome import UpdateOutcome
from featurelib.journal.journal import Entry, Journal
from featurelib.report.clean import clean

JournalFile = Annotated[
    str | None,
    typer.Option(
        "--journal",
        metavar="FILE",
        help="Where it is written down what was sent. "
        "Default: ~/.local/state/featurelib/journal.sqlite.",
    ),
]


def journal_path(journal: str | None) -> Path:
    """The journal's file: the one named, or this user's."""
    if journal is not None:
        return Path(journal)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "featurelib" / "journal.sqlite"


def journal(
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="ID", help="Only what was sent to it.")
    ] = None,
    only_open: Annotated[
        bool, typer.Option("--open", help="Only what may have been written: see resume.")
    ] = False,
    journal: JournalFile = None,
    overlay: OverlayFile = None,
    as_json: Json = False,
) -> int:
    """What was sent from here, and what became of it.

    \b
        featurelib journal --cluster MkU3OEVBNTcwNTJENDM2Qg
        featurelib journal --open

    Nothing is asked of a cluster. Exit codes: 0 done, 2 usage.
    """
    catalogue, path = open_catalogue(overlay), journal_path(journal)
    entries = _read(path, cluster, only_open=only_open)
    if as_json:
        document = {"version": 1, "journal": str(path), "entries": [_as_json(e) for e in entries]}
        print(json.dumps(document, indent=2, ensure_ascii=False))
        return 0
    for entry in entries:
        print("\n".join(_shown(entry, catalogue)))
    waiting = sum(entry.is_open for entry in entries)
    what = counted(len(entries), "open request" if only_open else "request")
    print(f"{path}: {what}" + (f"; {waiting} to settle with featurelib resume" if waiting else ""))
    return 0


def _read(path: Path, cluster: str | None, *, only_open: bool) -> tuple[Entry, ...]:
    """The entries; a journal that is not there has none, and is not made."""
    if not path.exists():
        return ()
    opened = Journal(path)
    try:
        return opened.entries(cluster=cluster, only_open=only_open)
    finally:
        opened.close()


def _shown(entry: Entry, catalogue: Catalogue) -> list[str]:
    """One request: who sent it when and what became of it, then a line an update."""
    intent = entry.intent
    fate = entry.fate.value.upper() if entry.is_open else entry.fate.value
    who = f"{clean(intent.who.user)} on {clean(intent.who.host)}"
    head = f"{entry.number}: {_time(intent.at)} by {who}, cluster {clean(intent.cluster)}, "
    width = terminal_width()
    lines = wrapped(f"{head}step {intent.position + 1} of {intent.total}: {fate}", width, "", "  ")
    for update in intent.step.updates:
        lines += wrapped(move_text(update, catalogue), width, "    ", "      ")
    for outcome in entry.outcomes:
        why = outcome.result.proof or outcome.result.unproven
        text = f"{outcome.by}: {outcome.result.fate.value}{f': {clean(why, 500)}' if why else ''}"
        lines += wrapped(f"{_time(outcome.at)} {text}", width, "    ", "      ")
    return lines


def _as_json(entry: Entry) -> dict[str, object]:
    intent = entry.intent
    return {
        "number": entry.number,
        "open": entry.is_open,
        "outcome": entry.fate.value,
        "cluster": intent.cluster,
        "where": intent.where,
        "plan": intent.plan,
        "approval": intent.approval,
        "step": intent.position + 1,
        "steps": intent.total,
        "sent_at": _time(intent.at),
        "sent_to": None if intent.sent_to is None else asdict(intent.sent_to),
        "user": intent.who.user,
        "host": intent.who.host,
        "process": intent.who.pid,
        "updates": [
            {
                "feature": update.feature,
                "from_level": update.from_level,
                "to_level": update.to_level,
                "upgrade_type": update.upgrade_type,
            }
            for update in intent.step.updates
        ],
        "found_out": [
            {
                "at": _time(outcome.at),
                "by": outcome.by,
                "outcome": outcome.result.fate.value,
                "proof": outcome.result.proof,
                "unproven": outcome.result.unproven,
                "updates": results_as_json(outcome.result.updates),
            }
            for outcome in entry.outcomes
        ],
    }


def results_as_json(updates: tuple[UpdateOutcome, ...]) -> list[dict[str, object]]:
    """What became of each update, as objects."""
    return [
        {
            "feature": outcome.update.feature,
            "from_level": outcome.update.from_level,
            "to_level": outcome.update.to_level,
            "upgrade_type": outcome.update.upgrade_type,
            "operation": operation(outcome.update).lower(),
            "outcome": outcome.fate.value,
            "level": outcome.level,
            "code": outcome.code,
            "message": outcome.message,
        }
        for outcome in updates
    ]


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
