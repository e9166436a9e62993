"""`featurelib timeline`: who could what when in one cluster, and what went back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

from featurelib.audit.wording import FindingWords
from featurelib.catalogue import Catalogue
from featurelib.cli.asked import usual_tables
from featurelib.cli.catalogue import Json, OverlayFile, open_catalogue
from featurelib.cli.common import RunNumber, TablesFolder
from featurelib.cli.layout import table
from featurelib.cli.plan_source import entry_named
from featurelib.cli.reach import ClusterName, FleetFile, open_fleet
from featurelib.core.dialect import STRICT, load
from featurelib.errors import ConfigError, NoEvidenceError
from featurelib.lake import Lake
from featurelib.level_history import LevelChange
from featurelib.questions.timeline import RangeChange, Timeline, timeline
from featurelib.tables import FINALIZED_FEATURES, NODE_ADVERTISEMENT
from featurelib.view.layout import terminal_width, wrap
from featurelib.words import clean, count, metadata_first, range_text
from featurelib.words import nodes as say_nodes

VERSION = 1  # of the JSON output


def timeline_command(
    cluster: ClusterName = None,
    tables: TablesFolder = None,
    run: RunNumber = None,
    fleet: FleetFile = None,
    overlay: OverlayFile = None,
    as_json: Json = False,
) -> int:
    """Who could what when in one cluster.

    Ranges, finalized levels by epoch, and what went back:

    \b
        featurelib timeline payments-eu --tables TABLES
        featurelib timeline k41-forgotten

    Read from the histories that the nightly keeps (silver.node_advertisement, finalized_features).
    Marked as going back: a node whose range ends lower or that lost a feature, a level that went
    down, an epoch that is smaller than before. Nodes that changed alike stand in one line.

    Exit codes: 0 answered; 2 usage; 5 nothing is known of the cluster.
    """
    catalogue = open_catalogue(overlay)
    tables, fleet = usual_tables(tables, fleet)
    if cluster is None:
        raise ConfigError("expected a cluster, found none named. Give its id or name.")
    entry = entry_named(cluster, open_fleet(fleet, catalogue)[1].cluster)
    lake = Lake(tables)
    found = read_timeline(lake, entry.id, run)
    if as_json:
        print(json.dumps(_document(found, entry.title, tables), ensure_ascii=False))
    else:
        width, words = terminal_width(), FindingWords(catalogue, load(STRICT))
        made_from = f"tables in {tables}, up to run {lake.run(run)}"
        for line in timeline_lines(found, entry.title, made_from, words, catalogue, width):
            print(line)
    return 0


def read_timeline(lake: Lake, cluster_id: str, run: int | None = None) -> Timeline:
    """The timeline of a cluster up to a night. Raises ConfigError for one that is not there,
    NoEvidenceError for one that never said anything."""
    advertised = lake.history(NODE_ADVERTISEMENT, cluster_id, run).to_pylist()
    finalized = lake.history(FINALIZED_FEATURES, cluster_id, run).to_pylist()
    if not advertised and not finalized:
        lake.expect_cluster(cluster_id, run)
        raise NoEvidenceError(
            f"cluster {cluster_id}: nothing that answered landed from it up to run "
            f"{lake.run(run)}. Collect it."
        )
    return timeline(cluster_id, advertised, finalized)


def timeline_lines(
    found: Timeline,
    name: str,
    made_from: str,
    words: FindingWords,
    catalogue: Catalogue,
    width: int,
) -> Iterator[str]:
    """The lines of a timeline, without line ends."""
    back = count(found.regressions, "change") if found.regressions else "nothing"
    yield from wrap(f"{clean(name)}: {back} went back", width)
    yield from wrap(clean(made_from, 300), width)
    if found.levels:
        yield ""
        head = ("finalized levels", "epoch", "what changed", "")
        rows = [_level_row(change, catalogue) for change in found.levels]
        yield from table([head, *rows], width)
    else:
        yield "nothing was ever said to be finalized"
    yield from wrap("times are when it was read; of a dumped log, when it was dumped", width)
    yield ""
    yield "what nodes supported"
    for change in found.ranges:
        yield from _range_lines(change, words, width)
    for one in found.epochs:
        who = f"{one.witness} {one.node_id}" if one.node_id is not None else one.witness
        text = f"{_time(one.at)}  WENT BACK: the epoch of {who}, from {one.before} to {one.after}"
        yield from wrap(text.replace("_", " "), width, "  ", "    ")


def _level_row(change: LevelChange, catalogue: Catalogue) -> tuple[str, ...]:
    def text(feature: str, level: int) -> str:
        name = catalogue.level_name(feature, level)
        return str(level) if name == str(level) else f"{level} ({name})"

    order = sorted(change.changes, key=lambda one: metadata_first(one[0]))
    moves = [f"{clean(n, 60)} {text(n, was)} → {text(n, now)}" for n, was, now in order]
    epoch = "" if change.epoch is None else str(change.epoch)
    mark = "WENT DOWN" if change.went_down else ""
    return _time(change.at), epoch, "; ".join(moves), mark


def _range_lines(change: RangeChange, words: FindingWords, width: int) -> Iterator[str]:
    when = _time(change.since)
    if change.until != change.since:
        when += f" to {_time(change.until)}"

    def text(feature: str, ends: tuple[int, int] | None) -> str:
        return range_text(words.catalogue, feature, ends) if ends else "not listed"

    order = sorted(change.changes, key=lambda one: metadata_first(one[0]))
    if change.first:
        said = [f"{clean(n, 60)} {text(n, now)}" for n, _, now in order] or ["no feature"]
        what = f"first seen: {', '.join(said)}"
    else:
        said = [f"{clean(n, 60)} {text(n, was)} → {text(n, now)}" for n, was, now in order]
        what = f"{'WENT BACK: ' if change.shrank else ''}{'; '.join(said)}"
    who = say_nodes(change.role, change.node_ids)
    yield from wrap(f"{when}  {who}: {what}", width, "  ", "    ")


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _document(found: Timeline, name: str, tables: str) -> dict[str, object]:
    def ends(one: tuple[int, int] | None) -> dict[str, int] | None:
        return None if one is None else {"min_version": one[0], "max_version": one[1]}

    return {
        "version": VERSION,
        "cluster": found.cluster_id,
        "name": name or None,
        "made_from": f"tables in {tables}",
        "regressions": found.regressions,
        "levels": [
            {
                "at": _iso(one.at),
                "epoch": one.epoch,
                "changes": [
                    {"feature": name, "from_level": was, "to_level": now}
                    for name, was, now in one.changes
                ],
                "went_down": one.went_down,
            }
            for one in found.levels
        ],
        "ranges": [
            {
                "since": _iso(one.since),
                "until": _iso(one.until),
                "role": one.role,
                "node_ids": one.node_ids,
                "first": one.first,
                "changes": [
                    {"feature": n, "before": ends(was), "after": ends(now)}
                    for n, was, now in one.changes
                ],
                "shrank": one.shrank,
            }
            for one in found.ranges
        ],
        "epochs_back": [
            {
                "at": _iso(one.at),
                "witness": one.witness,
                "node_id": one.node_id,
                "before": one.before,
                "after": one.after,
            }
            for one in found.epochs
        ],
    }
