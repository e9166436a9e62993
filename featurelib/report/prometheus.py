"""The report's counts in Prometheus' text format, for a node exporter's textfile collector.

The same values as in the other reports; a label's value is escaped as the format asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from typing import Any

from featurelib.report.model import Report

PREFIX = "featurelib_"
EPOCH = date(1970, 1, 1)
Sample = tuple[Mapping[str, str], float]


def render_prometheus(report: Report) -> str:
    """Gauges of one run; a metric without samples is left out."""
    return "".join(_lines(report))


def _lines(report: Report) -> Iterator[str]:
    fleet, run = report.fleet, report.run
    yield from _gauge("clusters", "Clusters by verdict.", _by("verdict", fleet.clusters_by_verdict))
    yield from _gauge("phases", "Clusters by phase.", _by("phase", fleet.clusters_by_phase))
    yield from _gauge(
        "features", "Features of clusters by verdict.", _by("verdict", fleet.features_by_verdict)
    )
    yield from _gauge(
        "findings", "Findings by severity.", _by("severity", fleet.findings_by_severity)
    )
    yield from _gauge("findings_muted", "Findings that a mute sets aside.", _one(fleet.muted))
    yield from _gauge("mutes", "Mutes by what has come of them.", _by("state", _states(report)))
    yield from _gauge(
        "mute_runs_out_seconds", "When the nearest mute in use runs out.", _end(fleet.muted_until)
    )
    yield from _gauge("need_person", "Clusters a person has to look at.", _one(fleet.need_person))
    yield from _gauge("can_move", "Clusters whose plan has steps.", _one(fleet.can_move))
    yield from _gauge(
        "incompatible_nodes",
        "Nodes that do not fit what is finalized.",
        _one(fleet.incompatible_nodes),
    )
    yield from _gauge("run", "Number of the newest run.", _one(run.number))
    yield from _gauge("as_of_seconds", "When the run judged as of.", _time(run.as_of))
    yield from _gauge(
        "newest_line_seconds", "When the newest line was read.", _time(run.newest_line)
    )
    if run.ingest is not None:
        counts = {
            "accepted": run.ingest.accepted,
            "repeated": run.ingest.repeated,
            "quarantined": run.ingest.quarantined,
        }
        yield from _gauge("landing_lines", "Lines this run read.", _by("fate", counts))
    yield from _gauge(
        "cluster",
        "1 for the verdict of each cluster.",
        [
            ({"cluster": one.id, "name": one.name, "verdict": one.verdict.value}, 1)
            for one in report.clusters
        ],
    )


def _gauge(name: str, text: str, samples: Iterable[Sample]) -> Iterator[str]:
    found = list(samples)
    if found:
        yield f"# HELP {PREFIX}{name} {text}\n# TYPE {PREFIX}{name} gauge\n"
    for labels, value in found:
        inside = ",".join(f'{key}="{_escape(label)}"' for key, label in labels.items())
        yield f"{PREFIX}{name}{f'{{{inside}}}' if inside else ''} {value:.15g}\n"


def _by(label: str, counts: Mapping[Any, int]) -> list[Sample]:
    return [({label: str(key)}, count) for key, count in counts.items()]


def _one(value: float) -> list[Sample]:
    return [({}, value)]


def _time(at: datetime | None) -> list[Sample]:
    return [] if at is None else [({}, at.timestamp())]


def _end(last: date | None) -> list[Sample]:
    """The end of a day, in UTC."""
    if last is None:
        return []
    days = last.toordinal() - EPOCH.toordinal() + 1
    return _one(days * 86_400)


def _states(report: Report) -> dict[str, int]:
    """`expired`, `unused` (it meets no finding) and `in_use`."""
    expired = sum(mute.expired for mute in report.mutes)
    unused = sum(not mute.expired and mute.findings == 0 for mute in report.mutes)
    return {"in_use": len(report.mutes) - expired - unused, "expired": expired, "unused": unused}


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
