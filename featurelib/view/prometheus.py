"""The report's counts in Prometheus' text format, for a node exporter's textfile collector.

The same values as in the other reports; a label's value is escaped as the format asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any

from featurelib.view.model import Report

PREFIX = "featurelib_"
EPOCH = date(1970, 1, 1)
Sample = tuple[Mapping[str, str], float]


def render_prometheus(report: Report) -> str:
    """Gauges of one run; a metric without samples is left out."""
    lines = []
    for name, text, samples in _gauges(report):
        if samples:
            lines.append(f"# HELP {PREFIX}{name} {text}\n# TYPE {PREFIX}{name} gauge\n")
        for labels, value in samples:
            inside = ",".join(f'{key}="{_escape(label)}"' for key, label in labels.items())
            lines.append(f"{PREFIX}{name}{f'{{{inside}}}' if inside else ''} {value:.15g}\n")
    return "".join(lines)


def _gauges(report: Report) -> Iterator[tuple[str, str, list[Sample]]]:
    """Name, text and samples of each."""
    fleet, run, ingest = report.fleet, report.run, report.run.ingest
    yield "clusters", "Clusters by verdict.", _by("verdict", fleet.clusters_by_verdict)
    yield "phases", "Clusters by phase.", _by("phase", fleet.clusters_by_phase)
    yield "features", "Features of clusters by verdict.", _by("verdict", fleet.features_by_verdict)
    yield "findings", "Findings by severity.", _by("severity", fleet.findings_by_severity)
    yield "findings_muted", "Findings that a mute sets aside.", _one(fleet.muted)
    yield "mutes", "Mutes by what has come of them.", _by("state", _mute_states(report))
    ends = "mute_runs_out_seconds"
    yield ends, "When the nearest mute in use runs out.", _end(fleet.muted_until)
    yield "need_person", "Clusters a person has to look at.", _one(fleet.need_person)
    yield "can_move", "Clusters whose plan has steps.", _one(fleet.can_move)
    unfit = fleet.incompatible_nodes
    yield "incompatible_nodes", "Nodes that do not fit what is finalized.", _one(unfit)
    yield "run", "Number of the newest run.", _one(run.number)
    yield "as_of_seconds", "When the run judged as of.", _time(run.as_of)
    yield "newest_line_seconds", "When the newest line was read.", _time(run.newest_line)
    if ingest is not None:
        fates = {name: getattr(ingest, name) for name in ("accepted", "repeated", "quarantined")}
        yield "landing_lines", "Lines this run read.", _by("fate", fates)
    clusters: list[Sample] = [
        ({"cluster": one.id, "name": one.name, "verdict": one.verdict.value}, 1)
        for one in report.clusters
    ]
    yield "cluster", "1 for the verdict of each cluster.", clusters


def _by(label: str, counts: Mapping[Any, int]) -> list[Sample]:
    return [({label: str(key)}, count) for key, count in counts.items()]


def _one(value: float) -> list[Sample]:
    return [({}, value)]


def _time(at: datetime | None) -> list[Sample]:
    return [] if at is None else _one(at.timestamp())


def _end(last: date | None) -> list[Sample]:
    """The end of a day, in UTC."""
    return [] if last is None else _one((last.toordinal() - EPOCH.toordinal() + 1) * 86_400)


def _mute_states(report: Report) -> dict[str, int]:
    """`expired`, `unused` (it meets no finding) and `in_use`."""
    expired = sum(mute.expired for mute in report.mutes)
    unused = sum(not mute.expired and mute.findings == 0 for mute in report.mutes)
    return {"in_use": len(report.mutes) - expired - unused, "expired": expired, "unused": unused}


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
