"""What the nightly's tables remember: one cluster over time, and one night against another.

Read without Spark; nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from featurelib.api.clusters import AnyCluster, Stored, choose
from featurelib.api.shown import Answer
from featurelib.audit.wording import FindingColumns, FindingWords
from featurelib.catalogue import Catalogue
from featurelib.cli.diff import diff_lines
from featurelib.cli.timeline import read_timeline, timeline_lines
from featurelib.core.dialect import STRICT, load
from featurelib.errors import ConfigError, NoEvidenceError
from featurelib.lake import Lake
from featurelib.questions.diff import ClusterDiff, Diff, State
from featurelib.questions.diff import diff as compare
from featurelib.questions.timeline import RangeChange, Timeline
from featurelib.reaching import open_fleet
from featurelib.source import entry_named
from featurelib.view.layout import WIDEST
from featurelib.words import nodes as say_nodes

if TYPE_CHECKING:
    from featurelib.api.tables import Tables

Row = dict[str, object]
MOST = 20  # clusters, and findings of each, in the text; the rows have all
FINALIZED = "finalized"


def timeline(cluster: AnyCluster) -> Answer[Timeline]:
    """Who could what when in one cluster, levels by epoch, and everything that went back.

        timeline(tables["payments-eu"])
        timeline(tables["payments-eu"]).frame()

    Only tables remember, so it is asked of what open_tables gives. The value has `ranges`,
    `levels`, `epochs` and `regressions`; a row is one change of one feature: since and until when,
    who (nodes, or `finalized`), before, after, and whether that went back. Raises ConfigError for
    a cluster that is looked at, NoEvidenceError for one that never said anything.
    """
    chosen = choose(cluster)
    if not isinstance(chosen, Stored) or chosen.wanted.tables is None:
        raise ConfigError(
            "timeline: expected a cluster of the nightly's tables, found one that is looked at. "
            "Only tables remember. As: timeline(open_tables(FOLDER)['payments-eu'])"
        )
    wanted, catalogue = chosen.wanted, chosen.catalogue
    lake = Lake(wanted.tables or "")
    entry = entry_named(wanted.cluster, open_fleet(wanted.fleet, catalogue)[1].cluster)
    found = read_timeline(lake, entry.id, wanted.run)
    made_from = f"tables in {wanted.tables}, up to run {lake.run(wanted.run)}"
    words = FindingWords(catalogue, load(STRICT))
    lines = timeline_lines(found, entry.title, made_from, words, catalogue, WIDEST)
    return Answer(value=found, text="\n".join(lines), rows=tuple(_changes(found)))


def diff(tables: Tables, before: int | None = None, after: int | None = None) -> Answer[Diff]:
    """What two nights found, against each other: new, resolved, unchanged, incomparable.

        diff(tables)                            # this night against the one before it
        diff(tables, before=20261120060000).frame()

    Nights are runs; without `after` it is the night that `tables` was opened at, without `before`
    the one before that. The value has `clusters` and `counts`; a row is one finding that is not in
    both nights: its state, and why it cannot be compared. Raises ConfigError for a night that is
    not there, NoEvidenceError where there is none before it.
    """
    lake, now = tables.lake, tables.run if after is None else after
    found = compare(lake, _before(lake, now) if before is None else before, lake.run(now))
    names = tables.names
    lines = diff_lines(found, names, tables.catalogue, MOST, WIDEST)
    rows = (row for one in found.clusters for row in _findings(one, names, tables.catalogue))
    return Answer(value=found, text="\n".join(lines), rows=tuple(rows))


def _before(lake: Lake, run: int) -> int:
    earlier = [one for one in lake.runs["run"].to_pylist() if one < run]
    if not earlier:
        raise NoEvidenceError(
            f"diff: expected a night before {run} below {lake.root}, found none. Run the nightly "
            "again, or name two nights: diff(tables, before=RUN, after=RUN)"
        )
    return int(max(earlier))


def _changes(found: Timeline) -> Iterator[Row]:
    for level in found.levels:
        for name, was, now in level.changes:
            yield {
                "since": level.at,
                "until": level.at,
                "who": FINALIZED,
                "feature": name,
                "before": str(was),
                "after": str(now),
                "epoch": level.epoch,
                "went_back": now < was,
            }
    for change in found.ranges:
        yield from _range_changes(change)


def _range_changes(change: RangeChange) -> Iterator[Row]:
    for name, was, now in change.changes:
        yield {
            "since": change.since,
            "until": change.until,
            "who": say_nodes(change.role, change.node_ids),
            "feature": name,
            "before": _range(was),
            "after": _range(now),
            "epoch": None,
            "went_back": name in change.shrank,
        }


def _range(ends: tuple[int, int] | None) -> str | None:
    return None if ends is None else f"{ends[0]}-{ends[1]}"


def _findings(one: ClusterDiff, names: dict[str, str], catalogue: Catalogue) -> Iterator[Row]:
    words = FindingWords(catalogue, load(STRICT))
    told: list[tuple[State, dict[str, Any], str | None]] = []
    told += [(State.NEW, row, None) for row in one.new]
    told += [(State.RESOLVED, row, None) for row in one.resolved]
    told += [(State.INCOMPARABLE, row, str(why)) for row, why in one.incomparable]
    for state, row, why in told:
        columns: FindingColumns = row  # type: ignore[assignment]  # a row has more columns than words use
        yield {
            "cluster": names.get(one.cluster, one.cluster),
            "state": str(state),
            "severity": row["severity"],
            "code": row["code"],
            "role": row["role"],
            "node_id": row["node_id"],
            "feature": row["feature"],
            "says": words.of(columns).message,
            "why": why,
            "muted": row["muted"],
        }
