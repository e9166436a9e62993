"""Render the report in Prometheus' text format, for a node exporter's textfile collector.

The values are those of the other reports; a label's value is escaped as the format requires. A
metric has no sample if its value is unknown. Alerts and the dashboard in `conf/` use these names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any

from featurelib.feature import Severity, Verdict
from featurelib.findings import tagged
from featurelib.view.digest import has_landed, unmuted
from featurelib.view.model import Report, ReportedCluster

PREFIX = "featurelib_"
EPOCH = date(1970, 1, 1)
Sample = tuple[str, float | None]  # (labels, value) of a sample; value None = unknown


def render_prometheus(report: Report) -> str:
    """Return the metrics of a run in Prometheus' text format."""
    lines = []
    for name, text, samples in (*_of_fleet(report), *_of_clusters(report), *_of_features(report)):
        values = {labels: value for labels, value in samples if value is not None}
        if values:
            lines.append(f"# HELP {PREFIX}{name} {text}\n# TYPE {PREFIX}{name} gauge\n")
        lines += [f"{PREFIX}{name}{labels} {value:.15g}\n" for labels, value in values.items()]
    return "".join(lines)


def _of_fleet(report: Report) -> Iterator[tuple[str, str, list[Sample]]]:
    """Yield (name, help text, samples) of each metric about the fleet."""
    fleet, run, ingest = report.fleet, report.run, report.run.ingest
    yield "clusters", "Clusters by verdict.", _by("verdict", fleet.clusters_by_verdict)
    yield "phases", "Clusters by phase.", _by("phase", fleet.clusters_by_phase)
    yield "features", "Features of clusters by verdict.", _by("verdict", fleet.features_by_verdict)
    yield "findings", "Findings by severity.", _by("severity", fleet.findings_by_severity)
    expired = sum(mute.expired for mute in report.mutes)
    unused = sum(not mute.expired and mute.findings == 0 for mute in report.mutes)
    states = {"in_use": len(report.mutes) - expired - unused, "expired": expired, "unused": unused}
    last = fleet.muted_until  # the last day of the mute, in UTC
    ends = None if last is None else ((last - EPOCH).days + 1) * 86_400
    newest = _seconds(run.newest_line)
    yield "findings_muted", "Findings that a mute sets aside.", [("", fleet.muted)]
    yield "mutes", "Mutes by what has come of them.", _by("state", states)
    yield "mute_end_timestamp_seconds", "When the nearest mute in use runs out.", [("", ends)]
    yield "need_person", "Clusters that a person must check.", [("", fleet.need_person)]
    yield "can_move", "Clusters whose plan has steps.", [("", fleet.can_move)]
    unfit = fleet.incompatible_nodes
    yield "incompatible_nodes", "Nodes that do not support a finalized level.", [("", unfit)]
    yield "run", "Number of the newest run.", [("", run.number)]
    as_of = run.as_of.timestamp()
    yield "run_as_of_timestamp_seconds", "When the run judged as of.", [("", as_of)]
    yield "newest_line_timestamp_seconds", "When the newest line was read.", [("", newest)]
    if ingest is not None:
        fates = {name: getattr(ingest, name) for name in ("accepted", "repeated", "quarantined")}
        yield "landing_lines", "Lines this run read.", _by("fate", fates)


def _of_clusters(report: Report) -> Iterator[tuple[str, str, list[Sample]]]:
    """Yield (name, help text, samples) of each metric about single clusters."""
    clusters = [(_labels(**_about(cluster)), cluster) for cluster in report.clusters]
    info, findings = list[Sample](), list[Sample]()
    for c in report.clusters:
        extra = {"phase": c.phase, "managed_by": c.managed_by or ""}
        info.append((_labels(**_about(c), verdict=c.verdict, **extra), 1))
        counts = Counter(f.severity for f in unmuted(c.findings))
        findings += [(_labels(**_about(c), severity=key), counts[key]) for key in Severity]
    yield "cluster_info", "1 for each cluster: its verdict, its phase, its owner.", info
    landed: list[Sample] = [(labels, has_landed(c.findings)) for labels, c in clusters]
    yield "cluster_landed", "1 if data of the cluster was ever collected, else 0.", landed
    newest: list[Sample] = [(labels, _seconds(c.newest_line)) for labels, c in clusters]
    name = "cluster_newest_line_timestamp_seconds"
    yield name, "The time of the newest line of a cluster.", newest
    silent: list[Sample] = [
        (labels, len({number for _, number in _named(c, "not_answering")}))
        for labels, c in clusters
    ]
    yield "cluster_silent_nodes", "Nodes of a cluster that did not respond.", silent
    lost: list[Sample] = [(labels, len(_named(c, "stale"))) for labels, c in clusters]
    yield "cluster_ghosts", "Nodes that are registered and that Kafka itself does not see.", lost
    yield "cluster_findings", "Findings of a cluster that no mute sets aside.", findings


def _named(cluster: ReportedCluster, tag: str) -> set[tuple[str | None, int | None]]:
    """Return (role, id) of the nodes in findings with this tag."""
    return {(f.role, f.node_id) for f in cluster.findings if f.code in tagged(tag)}


def _of_features(report: Report) -> Iterator[tuple[str, str, list[Sample]]]:
    """Yield (name, help text, samples) of each metric about single features."""
    rows = [
        (_about(cluster) | {"feature": ready.feature}, ready)
        for cluster in report.clusters
        for ready in cluster.readiness
    ]
    verdicts: list[Sample] = [(_labels(**a, verdict=ready.verdict), 1) for a, ready in rows]
    yield "feature_info", "1 for each feature of a cluster: its verdict.", verdicts
    for name, text in (
        ("finalized", "Finalized level; 0 = it is not finalized."),
        ("target", "Level to finalize next, where it is READY."),
        ("ceiling", "Highest level that the audit aims at."),
        ("downgrade_floor", "Lowest level that can be had again without losing metadata."),
    ):
        # The maximum level of an UNKNOWN feature is unknown.
        rows_known = [row for row in rows if (name, row[1].verdict) != ("ceiling", Verdict.UNKNOWN)]
        levels = [(_labels(**about), getattr(ready, name)) for about, ready in rows_known]
        numbers = [(labels, None if level is None else level.number) for labels, level in levels]
        yield f"feature_{name}_level", text, numbers
    since: list[Sample] = [(_labels(**a), _seconds(ready.ready_since)) for a, ready in rows]
    yield "feature_ready_since_timestamp_seconds", "When a run found it READY first.", since
    since = [(_labels(**a, verdict=r.verdict), _seconds(r.verdict_since)) for a, r in rows]
    yield "feature_verdict_since_timestamp_seconds", "When its verdict and target began.", since


def _seconds(time: datetime | None) -> float | None:
    return None if time is None else time.timestamp()


def _about(cluster: ReportedCluster) -> dict[str, str]:
    """Return the labels of metrics about one cluster."""
    return {"cluster": cluster.id, "name": cluster.name, "owner": cluster.owner or ""}


def _by(label: str, counts: Mapping[Any, int]) -> list[Sample]:
    return [(_labels(**{label: key}), count) for key, count in counts.items()]


def _labels(**labels: str) -> str:
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
    inside = [f'{key}="{text.translate(escapes)}"' for key, text in labels.items()]
    return f"{{{','.join(inside)}}}"
