"""The report as JSON: everything in it, in one order, with a version and a schema that ships.

`version` goes up when a reader of the older one could misread; new members do not raise it.
report.schema.json beside this file is made from the types, and a test holds it to them.
"""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from typing import Literal

import msgspec

from featurelib.view.model import (
    Cause,
    FleetCounts,
    Report,
    ReportedCluster,
    ReportedMute,
    ReportedRun,
)

FORMAT: Literal["featurelib.report"] = "featurelib.report"
VERSION: Literal[1] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDocument:
    """featurelib's report on one nightly audit of a fleet of Kafka clusters."""

    format: Literal["featurelib.report"]
    version: Literal[1]
    run: ReportedRun
    fleet: FleetCounts
    causes: tuple[Cause, ...]
    clusters: tuple[ReportedCluster, ...]
    mutes: tuple[ReportedMute, ...]


def render_json(report: Report) -> bytes:
    """The whole report, indented, ending in a line end."""
    document = ReportDocument(
        format=FORMAT,
        version=VERSION,
        run=report.run,
        fleet=report.fleet,
        causes=report.causes,
        clusters=report.clusters,
        mutes=report.mutes,
    )
    text = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    if all(cluster.key.isprintable() for cluster in report.clusters):
        return text
    # Keys are exact, but whoever looks at the file must not obey them.
    lines = text.decode().split("\n")
    return "\n".join("".join(map(_escape, line)) for line in lines).encode()


def _escape(character: str) -> str:
    return character if character.isprintable() else json.dumps(character)[1:-1]


def make_schema() -> dict[str, object]:
    """The JSON Schema (draft 2020-12) of what `render_json` writes."""
    schema = msgspec.json.schema(ReportDocument)
    for definition in schema["$defs"].values():
        if "description" in definition:
            definition["description"] = inspect.cleandoc(definition["description"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
