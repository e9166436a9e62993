"""What changed since the night before, and how the fleet went over all nights that are kept.

A trend is a row of numbers, one a night, drawn small beside its first and its last: a line on the
page, blocks in text. A night that did not count something has no number there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from featurelib.catalogue import Catalogue
from featurelib.feature import METADATA_VERSION, Severity, Verdict, release_number
from featurelib.questions.nights import is_late
from featurelib.snapshot.history import changed_levels
from featurelib.view.digest import late_since
from featurelib.view.model import (
    AtLevel,
    Change,
    ChangedLevel,
    ChangedVerdict,
    Level,
    OnRelease,
    Report,
    ReportedCluster,
    ReportedNight,
)
from featurelib.words import age, although, clean, level_text, metadata_first, some

Night = Mapping[str, Any]  # a row of gold.audit_run
BLOCKS = "▁▂▃▄▅▆▇█"
CRITICAL = Severity.CRITICAL
POINTS = 30  # blocks in one line of text
WIDTH, HEIGHT = 240, 28  # of a line on the page


def read_nights(rows: Iterable[Night], run: int, catalogue: Catalogue) -> tuple[ReportedNight, ...]:
    """Return the nights up to `run`, oldest first."""
    ordered = sorted((row for row in rows if row["run"] <= run), key=lambda row: int(row["run"]))
    return tuple(_night(row, catalogue) for row in ordered)


def _night(row: Night, catalogue: Catalogue) -> ReportedNight:
    def level(number: int) -> Level:
        return Level(number=number, text=level_text(catalogue, METADATA_VERSION, number))

    return ReportedNight(
        run=row["run"],
        as_of=row["as_of"],
        clusters_by_verdict={verdict: row[verdict.name.lower()] or 0 for verdict in Verdict},
        findings=row["findings"] or 0,
        releases=tuple(
            OnRelease(release=clean(one["release"]), clusters=one["clusters"])
            for one in row["releases"] or ()
        ),
        metadata_versions=tuple(
            AtLevel(level=level(one["level"]), clusters=one["clusters"])
            for one in row["metadata_versions"] or ()
        ),
        median_wait_hours=row["median_wait_hours"],
        longest_wait_hours=row["longest_wait_hours"],
    )


def compare(
    clusters: Sequence[ReportedCluster],
    nights: Sequence[ReportedNight],
    before: Mapping[str, str] | None,
    levels: Iterable[Night],
    names: Mapping[str, str],
    catalogue: Catalogue,
) -> Change | None:
    """Return what changed since the night before the last of `nights`, where `before` has the
    verdict of each cluster and `levels` rows of what was finalized; None where there was no such
    night."""
    if before is None or len(nights) < 2:
        return None
    then = {key: Verdict(verdict) for key, verdict in before.items()}
    now = {cluster.key: cluster for cluster in clusters}
    every = ((key, now.get(key)) for key in [*now, *sorted(then.keys() - now.keys())])
    moved = [
        ChangedVerdict(
            key=key,
            name=one.name if one else clean(names.get(key) or key),
            before=then.get(key),
            after=one.verdict if one else None,
            severity=one.severity if one else None,
        )
        for key, one in every
        if one is None or then.get(key) is not one.verdict
    ]
    night = nights[-2]
    changes = tuple(_changed_levels(clusters, levels, catalogue))
    return Change(run=night.run, as_of=night.as_of, verdicts=tuple(moved), levels=changes)


def _changed_levels(
    clusters: Sequence[ReportedCluster], levels: Iterable[Night], catalogue: Catalogue
) -> Iterator[ChangedLevel]:
    then: defaultdict[str, dict[str, int | None]] = defaultdict(dict)
    for row in levels:
        then[row["cluster"]][clean(row["feature"])] = row["finalized_level"]
    for cluster in clusters:
        known = ((ready.feature, ready.finalized) for ready in cluster.readiness)
        now = {feature: None if level is None else level.number for feature, level in known}
        for feature, *ends in changed_levels(then[cluster.key], now):
            before, after = (
                Level(number=end, text=level_text(catalogue, feature, end)) for end in ends
            )
            yield ChangedLevel(
                key=cluster.key,
                name=cluster.name,
                feature=feature,
                before=before,
                after=after,
                unfit=tuple(
                    f"{node.role} {node.node_id}"
                    for node in cluster.incompatible
                    if node.feature == feature
                ),
            )


def changed(change: Change, verdict: Verdict) -> int:
    """Return how many clusters more have this verdict than in the night before."""
    moved = change.verdicts
    return sum(one.after is verdict for one in moved) - sum(one.before is verdict for one in moved)


def gather_moves(change: Change) -> list[tuple[str, list[ChangedVerdict]]]:
    """Return the clusters of each move, with what is worst now first: `BLOCKED → READY`; a cluster
    that was not judged is new, or gone, and what is critical says so."""
    moves: defaultdict[str, list[ChangedVerdict]] = defaultdict(list)
    order = [*Verdict, None]

    def turn(one: ChangedVerdict) -> tuple[bool, int, int]:
        return one.severity is not CRITICAL, order.index(one.after), order.index(one.before)

    for one in sorted(change.verdicts, key=turn):
        critical = f", {CRITICAL}" if one.severity is CRITICAL else ""
        moves[f"{one.before or 'new'} → {one.after or 'gone'}{critical}"].append(one)
    return list(moves.items())


def gather_levels(change: Change) -> list[tuple[str, list[ChangedLevel]]]:
    """Return the clusters of each move of a level: `kraft.version 0 (not finalized) → 1`, and whom
    it does not fit; what went down comes first."""

    def order(one: ChangedLevel) -> tuple[bool, tuple[bool, str]]:
        return one.before.number < one.after.number, metadata_first(one.feature)

    moves: defaultdict[str, list[ChangedLevel]] = defaultdict(list)
    for one in sorted(change.levels, key=order):
        down = ", WENT DOWN" if one.after.number < one.before.number else ""
        levels = f"{one.before.text} → {one.after.text}{down}"
        moves[f"{one.feature} {levels}{although(one.unfit)}"].append(one)
    return list(moves.items())


def other_changes(report: Report) -> list[str]:
    """Return of whom nothing landed any more since the night before, and which mutes ran out."""
    change, newest = report.change, report.run.newest_line
    if change is None:
        return []
    late = [
        (one.name, late_since(one.newest_line, one.findings, newest)) for one in report.clusters
    ]
    silent = [name for name, at in late if at is not None and not is_late(at, change.as_of)]
    lines = [f"nothing landed any more: {some(silent, 4)}"] if silent else []
    over = [one for one in report.mutes if one.expired and one.until >= change.as_of.date()]
    return lines + [
        f"ran out: the mute of {' in '.join(filter(None, (m.code, m.cluster)))}" for m in over
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One number over all nights: in words at the first night that has it, and at the last."""

    name: str
    values: tuple[int | None, ...]
    first: str
    last: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """Numbers of one kind over all nights."""

    title: str
    series: tuple[Series, ...]


def trends(report: Report) -> tuple[Trend, ...]:
    """Return how the fleet went; nothing before the second night."""
    nights = report.nights
    if len(nights) < 2:
        return ()
    verdicts = {
        verdict.value: [night.clusters_by_verdict[verdict] for night in nights]
        for verdict in Verdict
    }
    oldest = [min((at.level.number for at in n.metadata_versions), default=None) for n in nights]
    named = {at.level.number: at.level.text for n in nights for at in n.metadata_versions}
    lags = {
        "median": [night.median_wait_hours for night in nights],
        "longest": [night.longest_wait_hours for night in nights],
    }
    found = (
        ("clusters by verdict", [_series(name, row) for name, row in verdicts.items()]),
        ("clusters by oldest software that runs", _by(nights, _releases, release_number)),
        ("clusters by metadata.version", _by(nights, _levels, lambda text: int(text.split()[0]))),
        ("oldest metadata.version", [_series("of any cluster", oldest, lambda n: named[n])]),
        ("how long clusters are READY", [_series(n, row, _age) for n, row in lags.items()]),
    )
    kept = ((title, [row for row in rows if _has_any(row)]) for title, rows in found)
    return tuple(Trend(title=title, series=tuple(rows)) for title, rows in kept if rows)


def _has_any(series: Series) -> bool:
    return any(series.values)


def _age(hours: int) -> str:
    return age(timedelta(hours=hours))


def _releases(night: ReportedNight) -> dict[str, int]:
    return {one.release: one.clusters for one in night.releases}


def _levels(night: ReportedNight) -> dict[str, int]:
    return {one.level.text: one.clusters for one in night.metadata_versions}


def _by(
    nights: Sequence[ReportedNight],
    counts: Callable[[ReportedNight], dict[str, int]],
    order: Callable[[str], Any],
) -> list[Series]:
    """A series for each name that any night counted, the newest first, then what has none."""
    rows = [counts(night) for night in nights]
    names = sorted({name for row in rows for name in row}, key=order, reverse=True)
    every = [sum(night.clusters_by_verdict.values()) for night in nights]
    others = [of - sum(row.values()) if row else None for of, row in zip(every, rows, strict=True)]
    named = [_series(name, [row.get(name, 0) if row else None for row in rows]) for name in names]
    return [*named, _series("none, or not known", others)]


def _series(
    name: str, values: Sequence[int | None], text: Callable[[int], str] = "{:,}".format
) -> Series:
    known = [text(value) for value in values if value is not None]
    first, last = (known[0], known[-1]) if known else ("", "")
    if values and values[-1] is None:
        last = "–"
    return Series(name=name, values=tuple(values), first=first, last=last)


def blocks(values: Sequence[int | None]) -> str:
    """Return the newest values as blocks of a height each, with a blank for none."""
    top = max((value for value in values if value is not None), default=0) or 1
    return "".join(
        " " if value is None else BLOCKS[(len(BLOCKS) - 1) * value // top]
        for value in values[-POINTS:]
    )


def line(values: Sequence[int | None]) -> list[str]:
    """Return the points of a line, and of another behind each gap, as SVG's polyline has them."""
    top = max((value for value in values if value is not None), default=0) or 1
    wide = (WIDTH - 4) / max(len(values) - 1, 1)
    lines, points = list[str](), list[str]()
    for place, value in enumerate([*values, None]):
        if value is not None:
            points.append(f"{2 + place * wide:.0f},{HEIGHT - 3 - (HEIGHT - 6) * value / top:.0f}")
        elif points:
            lines.append(" ".join(points if len(points) > 1 else points * 2))
            points = []
    return lines


def span_text(first: datetime, last: datetime) -> str:
    """Return `2026-11-08 to 2026-11-21`."""
    return f"{first.astimezone(UTC):%Y-%m-%d} to {last.astimezone(UTC):%Y-%m-%d}"
