"""Compute the changes since the previous run, and the trends over all kept runs.

A trend is a row of numbers, one per run, drawn on the page as a line between its first and last
value. A run without the count has no number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from featurelib import words
from featurelib.catalogue import Catalogue
from featurelib.feature import METADATA_VERSION, Severity, Verdict, release_number
from featurelib.findings import tagged
from featurelib.snapshot import history
from featurelib.view import model
from featurelib.view.digest import IDLE, late_since, nodes_of, unmuted

Night = Mapping[str, Any]  # a row of gold.audit_run
Node = tuple[str, str | None, int | None]  # (cluster, role, node id)
METADATA_FELL = "metadata.version was downgraded"
CRITICAL = Severity.CRITICAL
WIDTH, HEIGHT = 240, 28  # the size of one trend line on the page


class PreviousRuns(NamedTuple):
    """The data of earlier runs: `nights` are rows of gold.audit_run, with this run's row.

    `verdicts` (each with True if critical; None if there is no previous run), `levels` and `silent`
    (nodes that did not respond) are those of the previous run. `lowered`: the levels that can be
    raised now and whose last change was a downgrade, with the time it was seen."""

    nights: Iterable[Night] = ()
    verdicts: Mapping[str, tuple[str, bool]] | None = None
    levels: Iterable[Night] = ()
    silent: Container[Node] = ()
    lowered: Mapping[str, Sequence[tuple[history.LevelMove, datetime]]] = {}


def read_nights(rows: Iterable[Night], run: int, catalogue: Catalogue) -> tuple[model.PastRun, ...]:
    """Return the runs up to `run`, oldest first."""
    ordered = sorted((row for row in rows if row["run"] <= run), key=lambda row: int(row["run"]))
    return tuple(_night(row, catalogue) for row in ordered)


def _night(row: Night, catalogue: Catalogue) -> model.PastRun:
    def level(number: int) -> model.Level:
        return model.Level(
            number=number, text=words.level_text(catalogue, METADATA_VERSION, number)
        )

    return model.PastRun(
        run=row["run"],
        as_of=row["as_of"],
        clusters_by_verdict={verdict: row[verdict.name.lower()] or 0 for verdict in Verdict},
        findings=row["findings"] or 0,
        releases=tuple(
            model.OnRelease(release=words.clean(item["release"]), clusters=item["clusters"])
            for item in row["releases"] or ()
        ),
        metadata_versions=tuple(
            model.AtLevel(level=level(item["level"]), clusters=item["clusters"])
            for item in row["metadata_versions"] or ()
        ),
        median_wait_hours=row["median_wait_hours"],
        longest_wait_hours=row["longest_wait_hours"],
    )


def compare(
    clusters: Sequence[model.ReportedCluster],
    nights: Sequence[model.PastRun],
    past: PreviousRuns,
    names: Mapping[str, str],
    catalogue: Catalogue,
) -> model.Change | None:
    """Return the changes between the last two of `nights`; None without earlier run."""
    before = past.verdicts
    if before is None or len(nights) < 2:
        return None
    compared = [cluster for cluster in clusters if cluster.key in before]
    return model.Change(
        run=nights[-2].run,
        as_of=nights[-2].as_of,
        verdicts=tuple(_changed_verdicts(clusters, before, names)),
        silent=tuple(_newly_silent(compared, past.silent)),
        critical=tuple(sorted(key for key, (_, is_critical) in before.items() if is_critical)),
        **_changed_levels(clusters, past, nights[-1].as_of, catalogue),
    )


def _changed_verdicts(
    clusters: Sequence[model.ReportedCluster],
    before: Mapping[str, tuple[str, bool]],
    names: Mapping[str, str],
) -> Iterator[model.ChangedVerdict]:
    """Yield the clusters whose verdict changed, that became critical, or that are new or gone."""
    for now in clusters:
        unchanged = {(now.verdict, now.severity is CRITICAL), (now.verdict, True)}
        old = before.get(now.key)
        if old not in unchanged:
            verdict = Verdict(old[0]) if old else None
            yield model.ChangedVerdict(
                key=now.key, name=now.name, before=verdict, after=now.verdict, severity=now.severity
            )
    for key in sorted(before.keys() - {cluster.key for cluster in clusters}):
        name, verdict = words.clean(names.get(key) or key), Verdict(before[key][0])
        yield model.ChangedVerdict(key=key, name=name, before=verdict, after=None, severity=None)


def _newly_silent(
    clusters: Sequence[model.ReportedCluster], silent: Container[Node]
) -> Iterator[model.ChangedNodes]:
    """Yield, per cluster, the nodes that stopped responding since the previous run."""
    for cluster in clusters:
        down = (f for f in unmuted(cluster.findings) if f.code in tagged("down"))
        new = [f for f in down if (cluster.key, f.role, f.node_id) not in silent]
        if nodes := nodes_of(new):
            yield model.ChangedNodes(key=cluster.key, name=cluster.name, nodes=nodes)


def _changed_levels(
    clusters: Sequence[model.ReportedCluster],
    past: PreviousRuns,
    now_at: datetime,
    catalogue: Catalogue,
) -> dict[str, Any]:
    """Return the changed levels, the lowered maximum levels, and the levels whose last change was a
    downgrade."""
    cleaned = [{**row, "feature": words.clean(row["feature"])} for row in past.levels]
    before, tops = (
        history.known_levels(cleaned, column) for column in ("finalized_level", "ceiling")
    )
    changes = {name: list[model.ChangedLevel]() for name in ("levels", "ceilings", "lowered")}
    for cluster in clusters:
        levels = {ready.feature: _number(ready.finalized) for ready in cluster.readiness}
        trusted = (ready for ready in cluster.readiness if ready.verdict is not Verdict.UNKNOWN)
        top = {ready.feature: _number(ready.ceiling) for ready in trusted}
        moved = history.changed_levels(before[cluster.key], levels)
        lowered = history.lowered_ceilings(tops[cluster.key], top, moved)
        tonight = ([(move, now_at) for move in moves] for moves in (moved, lowered))
        steps = (*tonight, past.lowered.get(cluster.key, ()))
        for changed, moves in zip(changes.values(), steps, strict=True):
            changed += [_changed_level(cluster, move, at, catalogue) for move, at in moves]
    return {name: tuple(moves) for name, moves in changes.items()}


def _number(level: model.Level | None) -> int | None:
    return level.number if level else None


def _changed_level(
    cluster: model.ReportedCluster, move: history.LevelMove, at: datetime, catalogue: Catalogue
) -> model.ChangedLevel:
    """Return the change of a level, with the nodes that do not support the new level."""
    feature, *ends = move
    name = words.clean(feature)
    before, after = (model.Level(number=n, text=words.level_text(catalogue, name, n)) for n in ends)
    unfit = (f"{n.role} {n.node_id}" for n in cluster.incompatible if n.feature == name)
    return model.ChangedLevel(
        key=cluster.key,
        name=cluster.name,
        feature=name,
        before=before,
        after=after,
        seen=at,
        unfit=tuple(unfit),
    )


def changed(change: model.Change, verdict: Verdict) -> int:
    """Return by how many clusters with this verdict increased since the previous run."""
    moved = change.verdicts
    return sum(c.after is verdict for c in moved) - sum(c.before is verdict for c in moved)


def setbacks(
    clusters: Sequence[model.ReportedCluster], change: model.Change | None
) -> dict[str, list[model.ReportedCluster]]:
    """Return setback → its clusters, worst first."""
    moved = (*change.levels, *change.lowered) if change else ()
    codes = tagged("epoch_fell")
    by_cluster = {
        METADATA_FELL: {
            c.key for c in clusters if any(f.code in codes for f in unmuted(c.findings))
        },
        "levels went down": {o.key for o in moved if o.after.number < o.before.number},
        "software was rolled back": {c.key for c in change.ceilings} if change else set[str](),
    }
    by_kind = {kind: [c for c in clusters if c.key in keys] for kind, keys in by_cluster.items()}
    return {kind: rows for kind, rows in by_kind.items() if rows}


def say_setbacks(
    clusters: Sequence[model.ReportedCluster], change: model.Change | None
) -> Iterator[model.ReportedCluster]:
    """Yield the clusters. The summary of a cluster with a setback begins with the setback."""
    pairs = [(c.key, setback) for setback, rows in setbacks(clusters, change).items() for c in rows]
    first = dict(reversed(pairs))
    for cluster in clusters:
        if kind := first.get(cluster.key):
            look = f"{kind}: {'find out why first' if cluster.steps else 'find out why'}"
            summary = cluster.summary.removeprefix(IDLE).removeprefix("; ")
            line = "; ".join(filter(None, (look, summary)))
            cluster = replace(cluster, summary=line, needs_person=True)
        yield cluster


def ask_first(report: model.Report) -> Iterator[tuple[str, str]]:
    """Yield (cluster key, problem) to clarify before an upgrade: critical findings, unexplained
    downgrades."""
    moves = defaultdict[str, list[tuple[str, str, str, datetime]]](list)
    for level in report.change.lowered if report.change else ():
        moves[level.key].append((level.feature, level.before.text, level.after.text, level.seen))
    for cluster in report.clusters:
        critical = (f for f in unmuted(cluster.findings) if f.severity is Severity.CRITICAL)
        reason = (
            words.mend_first([g.statement for g in critical]),
            words.ask_why_lower(moves[cluster.key]),
        )
        yield from ((cluster.key, text) for text in reason if text)


def gather_moves(change: model.Change) -> list[tuple[str, list[model.ChangedVerdict]]]:
    """Return (change of verdict `BLOCKED → READY`, its clusters), worst change first."""
    moves: defaultdict[str, list[model.ChangedVerdict]] = defaultdict(list)
    order, ceiling_keys = [*Verdict, None], {ceiling.key for ceiling in change.ceilings}

    def urgency(move: model.ChangedVerdict) -> tuple[bool, int, int, bool]:
        ends = order.index(move.after), order.index(move.before)
        return move.severity is not CRITICAL, *ends, move.key not in ceiling_keys

    for verdict in sorted(change.verdicts, key=urgency):
        notes = f", {CRITICAL}" if verdict.severity is CRITICAL else ""
        notes += ", software was rolled back" if verdict.key in ceiling_keys else ""
        same_text = f"newly {CRITICAL}, {verdict.after} as before"
        move = f"{verdict.before or 'new'} → {verdict.after or 'gone'}{notes}"
        moves[same_text if verdict.before is verdict.after else move].append(verdict)
    return list(moves.items())


def gather_levels(
    change: model.Change,
) -> list[tuple[str, list[model.ChangedLevel | model.ChangedNodes]]]:
    """Return (change of a level `kraft.version 0 (not finalized) → 1`, its clusters). Setbacks and
    nodes that stopped responding come first."""

    def order(moved: model.ChangedLevel) -> tuple[bool, tuple[bool, str]]:
        return moved.before.number < moved.after.number, words.metadata_first(moved.feature)

    moves: defaultdict[str, list[model.ChangedLevel | model.ChangedNodes]] = defaultdict(list)
    for level in change.ceilings:
        moves[words.went_back(level.feature, level.before.text, level.after.text)].append(level)
    for fallen in change.silent:
        moves[f"newly not answering, {fallen.nodes}"].append(fallen)
    for level in sorted(change.levels, key=order):
        suffix = ", WENT DOWN" if level.after.number < level.before.number else ""
        levels = f"{level.before.text} → {level.after.text}{suffix}"
        moves[f"{level.feature} {levels}{words.although(level.unfit)}"].append(level)
    return list(moves.items())


def other_changes(report: model.Report) -> list[str]:
    """Return texts about clusters without data since the previous run, and about expired mutes."""
    change, newest = report.change, report.run.newest_line
    if change is None:
        return []
    late = [(c.name, late_since(c.newest_line, c.findings, newest)) for c in report.clusters]
    silent = [name for name, at in late if at is not None and not history.is_late(at, change.as_of)]
    lines = [f"no usable data was collected from {words.some(silent, 4)}"] if silent else []
    expired = [mute for mute in report.mutes if mute.expired and mute.until >= change.as_of.date()]
    return lines + [
        f"ran out: the mute of {' in '.join(filter(None, (m.code, m.cluster)))}" for m in expired
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A number in each run. `first`, `last`: its texts in the first and last run."""

    name: str
    values: tuple[int | None, ...]
    first: str
    last: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """The numbers of one kind in all runs, for example clusters by verdict."""

    title: str
    series: tuple[Series, ...]


def trends(report: model.Report) -> tuple[Trend, ...]:
    """Return the trends of the fleet; () before the second run."""
    if len(nights := report.runs) < 2:
        return ()
    releases = [{r.release: r.clusters for r in night.releases} for night in nights]
    levels = [{at.level.text: at.clusters for at in night.metadata_versions} for night in nights]
    medians = [night.median_wait_hours for night in nights]
    longest = [night.longest_wait_hours for night in nights]
    ages = [_series("median", medians, _age), _series("longest", longest, _age)]
    series = (
        ("clusters by verdict", _verdicts(nights)),
        ("clusters by oldest software that runs", _named(nights, releases, release_number)),
        ("clusters by metadata.version", _named(nights, levels, lambda text: int(text.split()[0]))),
        ("oldest metadata.version", [_oldest(nights)]),
        ("how long clusters are READY", ages),
    )
    charts = ((title, [row for row in rows if any(row.values)]) for title, rows in series)
    return tuple(Trend(title=title, series=tuple(rows)) for title, rows in charts if rows)


def _verdicts(nights: Sequence[model.PastRun]) -> list[Series]:
    counts = [night.clusters_by_verdict for night in nights]
    return [_series(verdict.value, [count[verdict] for count in counts]) for verdict in Verdict]


def _oldest(nights: Sequence[model.PastRun]) -> Series:
    """Return the oldest finalized metadata.version of the fleet in each run."""
    texts = [{at.level.number: at.level.text for at in night.metadata_versions} for night in nights]
    names = {number: text for row in texts for number, text in row.items()}
    return _series("of any cluster", [min(row, default=None) for row in texts], names.__getitem__)


def _age(hours: int) -> str:
    return words.age(timedelta(hours=hours))


def _named(
    nights: Sequence[model.PastRun], rows: Sequence[Mapping[str, int]], order: Callable[[str], Any]
) -> list[Series]:
    """Return a series of counts per name, newest name first, then for clusters without name."""
    names = sorted({name for row in rows for name in row}, key=order, reverse=True)
    every = [sum(night.clusters_by_verdict.values()) for night in nights]
    unknown = [n - sum(row.values()) if row else None for n, row in zip(every, rows, strict=True)]
    named = [_series(name, [row.get(name, 0) if row else None for row in rows]) for name in names]
    return [*named, _series("none, or not known", unknown)]


def _series(
    name: str, values: Sequence[int | None], text: Callable[[int], str] = "{:,}".format
) -> Series:
    numbers = [text(value) for value in values if value is not None]
    first, last = (numbers[0], numbers[-1]) if numbers else ("", "")
    if values and values[-1] is None:
        last = "–"
    return Series(name=name, values=tuple(values), first=first, last=last)


def line(values: Sequence[int | None]) -> list[str]:
    """Return the points of a series as SVG polylines. A gap begins a new polyline."""
    top = max((value for value in values if value is not None), default=0) or 1
    wide = (WIDTH - 4) / max(len(values) - 1, 1)
    lines, points = list[str](), list[str]()
    for index, value in enumerate([*values, None]):
        if value is not None:
            points.append(f"{2 + index * wide:.0f},{HEIGHT - 3 - (HEIGHT - 6) * value / top:.0f}")
        elif points:
            lines.append(" ".join(points if len(points) > 1 else points * 2))
            points = []
    return lines


def span_text(first: datetime, last: datetime) -> str:
    """Return two times as a range of days: `2026-11-08 to 2026-11-21`."""
    return f"{first.astimezone(UTC):%Y-%m-%d} to {last.astimezone(UTC):%Y-%m-%d}"
