"""`featurelib describe`: all nodes of one cluster, what each supports, and what is finalized.

Kafka's own tool asks one node and shows its view. Here everybody is asked, and whoever contradicts
or is silent is shown.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer

from featurelib.backends.opening import TIMEOUT_SECONDS
from featurelib.cli.catalogue import Json, OverlayFile, open_catalogue
from featurelib.cli.describe_text import describe_lines
from featurelib.cli.plan_source import Source, Wanted, find_source
from featurelib.cli.reach import (
    Bootstrap,
    ClusterName,
    Controllers,
    EmbeddedFile,
    FleetFile,
    Timeout,
    Zookeeper,
)
from featurelib.cli.settings import ConfigFile
from featurelib.describing import describe
from featurelib.description import Description
from featurelib.errors import UnreachableError

VERSION = 1  # of the JSON output

Capture = Annotated[
    str | None,
    typer.Option("--capture", metavar="PATH", help="Landing files instead of a live look."),
]
Tables = Annotated[
    str | None,
    typer.Option("--tables", metavar="FOLDER", help="The nightly's tables instead of a look."),
]


def describe_command(
    cluster: ClusterName = None,
    bootstrap: Bootstrap = None,
    controllers: Controllers = None,
    zookeeper: Zookeeper = None,
    file: EmbeddedFile = None,
    capture: Capture = None,
    tables: Tables = None,
    fleet: FleetFile = None,
    config: ConfigFile = None,
    overlay: OverlayFile = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    as_json: Json = False,
) -> int:
    """Every node of a cluster, and what is finalized.

    Who is there, and what each supports.

    Every listener is asked, and nothing is changed. Equal nodes stand together; a range that does
    not hold the finalized level is marked. Exit codes: 0 done; 2 usage; 5 nothing answered.

    \b
        featurelib describe payments-eu
        featurelib describe --bootstrap kafka-1.example:9092
        featurelib describe --capture landing/payments-eu.jsonl --json
    """
    catalogue = open_catalogue(overlay)
    stored = capture is not None or tables is not None
    wanted = Wanted(
        cluster=cluster,
        capture=capture,
        tables=tables,
        run=None,
        as_of="newest" if stored else None,  # ages are for the audit
        fleet=fleet,
        config=config,
        bootstrap=bootstrap,
        controllers=controllers,
        zookeeper=zookeeper,
        file=file,
        timeout=timeout,
    )
    source = find_source(wanted, catalogue)
    described = describe(source.sight, catalogue)
    if as_json:
        print(json.dumps(_document(described, source), ensure_ascii=False))
    else:
        for line in describe_lines(described, source.entry, source.made_from):
            print(line)
    return 0 if described.answered else UnreachableError.exit_code


def _document(described: Description, source: Source) -> dict[str, object]:
    """The description as JSON; profiles are named by their position."""
    entry = source.entry
    said: dict[str, object] = asdict(described)
    said["profiles"] = [
        {name: {"min_version": low, "max_version": high} for name, (low, high) in ranges.items()}
        for ranges in described.profiles
    ]
    said["seen_at"] = _time(described.seen_at)
    said["witnesses"] = [asdict(w) | {"seen_at": _time(w.seen_at)} for w in described.witnesses]
    about = {"name": entry.title or None, "owner": entry.owner or None}
    about |= {"managed_by": entry.managed_by or None, "made_from": source.made_from}
    return {"version": VERSION, **about, **said}


def _time(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
