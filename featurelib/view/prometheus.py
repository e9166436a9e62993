"""The report's counts in Prometheus' text format, for a node exporter's textfile collector.

The same values as in the other reports; a label's value is escaped as the format asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from featurelib.view.model import Report

PREFIX = "featurelib_"
EPOCH = date(1970, 1, 1)
Sample = tuple[str, float | None]  # its labels, and its value; None = it has none


def render_prometheus(report: Report) -> str:
    """Gauges of one run; a metric without samples is left out."""
    lines = []
    for name, text, samples in _gauges(report):
        shown = [(labels, value) for labels, value in samples if value is not None]
        if shown:
            lines.append(f"# HELP {PREFIX}{name} {text}\n# TYPE {PREFIX}{name} gauge\n")
        lines += [f"{PREFIX}{name}{labels} {value:.15g}\n" for labels, value in shown]
    return "".join(lines)


def _gauges(report: Report) -> Iterator[tuple[str, str, list[Sample]]]:
    """Name, text and samples of each."""
    fleet, run, ingest = report.fleet, report.run, report.run.ingest
    yield "clusters", "Clusters by verdict.", _by("verdict", fleet.clusters_by_verdict)
    yield "phases", "Clusters by phase.", _by("phase", fleet.clusters_by_phase)
    yield "features", "Features of clusters by verdict.", _by("verdict", fleet.features_by_verdict)
    yield "findings", "Findings by severity.", _by("severity", fleet.findings_by_severity)
    expired = sum(mute.expired for mute in report.mutes)
    unused = sum(not mute.expired and mute.findings == 0 for mute in report.mutes)
    states = {"in_use": len(report.mutes) - expired - unused, "expired": expired, "unused": unused}
    last = fleet.muted_until  # until its end, in UTC
    ends = None if last is None else ((last - EPOCH).days + 1) * 86_400
    newest = None if run.newest_line is None else run.newest_line.timestamp()
    yield "findings_muted", "Findings that a mute sets aside.", [("", fleet.muted)]
    yield "mutes", "Mutes by what has come of them.", _by("state", states)
    yield "mute_runs_out_seconds", "When the nearest mute in use runs out.", [("", ends)]
    yield "need_person", "Clusters a person has to look at.", [("", fleet.need_person)]
    yield "can_move", "Clusters whose plan has steps.", [("", fleet.can_move)]
    unfit = fleet.incompatible_nodes
    yield "incompatible_nodes", "Nodes that do not fit what is finalized.", [("", unfit)]
    yield "run", "Number of the newest run.", [("", run.number)]
    yield "as_of_seconds", "When the run judged as of.", [("", run.as_of.timestamp())]
    yield "newest_line_seconds", "When the newest line was read.", [("", newest)]
    if ingest is not None:
        fates = {name: getattr(ingest, name) for name in ("accepted", "repeated", "quarantined")}
        yield "landing_lines", "Lines this run read.", _by("fate", fates)
    about = [{"cluster": c.id, "name": c.name, "verdict": c.verdict} for c in report.clusters]
    yield "cluster", "1 for the verdict of each cluster.", [(_labels(**c), 1) for c in about]


def _by(label: str, counts: Mapping[Any, int]) -> list[Sample]:
    return [(_labels(**{label: key}), count) for key, count in counts.items()]


def _labels(**labels: str) -> str:
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
    inside = [f'{key}="{text.translate(escapes)}"' for key, text in labels.items()]
    return f"{{{','.join(inside)}}}"
