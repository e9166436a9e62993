"""`featurelib describe`: all nodes of one cluster, what each supports, and what is finalized.

Kafka's own tool asks one node and shows its view. Here everybody is asked, and whoever contradicts
or is silent is shown.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import datetime

from featurelib.cli.catalogue import Json, OverlayFile, open_catalogue
from featurelib.cli.common import EVIDENCE, with_options
from featurelib.cli.describe_text import describe_lines
from featurelib.cli.plan_source import Source, Wanted, find_source
from featurelib.cli.reach import ClusterName
from featurelib.describing import describe
from featurelib.description import Description
from featurelib.errors import UnreachableError
from featurelib.source import NEWEST

VERSION = 1  # of the JSON output


@with_options(wanted=EVIDENCE.without("as_of"))
def describe_command(
    wanted: Wanted,
    cluster: ClusterName = None,
    overlay: OverlayFile = None,
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
    stored = wanted.capture is not None or wanted.tables is not None
    as_of = NEWEST if stored else None  # ages are for the audit
    if wanted.tables is not None:
        from featurelib.cli.asked import usual_tables

        wanted = replace(wanted, fleet=usual_tables(wanted.tables, wanted.fleet)[1])
    source = find_source(replace(wanted, cluster=cluster, as_of=as_of), catalogue)
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
    said["nodes"] = [
        asdict(node) | {"seen_at": None if node.seen_at is None else _time(node.seen_at)}
        for node in described.nodes
    ]
    said["witnesses"] = [asdict(w) | {"seen_at": _time(w.seen_at)} for w in described.witnesses]
    about = {"name": entry.title or None, "owner": entry.owner or None}
    about |= {"managed_by": entry.managed_by or None, "made_from": source.made_from}
    return {"version": VERSION, **about, **said}


def _time(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
