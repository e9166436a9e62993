"""Define `featurelib history` and `featurelib diff`: one cluster over time, and a comparison of two
runs.

Both read the nightly's tables without Spark; nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

from featurelib.api.clusters import Answer, AnyCluster, choose
from featurelib.api.documents import KEYS, OfCluster, document, row_of
from featurelib.api.tables import NightTables
from featurelib.audit.findings import FindingWords
from featurelib.catalogue import Catalogue
from featurelib.cli.choosing import CHOOSING, chosen, nights
from featurelib.config.files import journal_path
from featurelib.config.fleet import FleetEntry
from featurelib.controller.journal import Journal
from featurelib.errors import ConfigError, InputError, JournalError, NoEvidenceError
from featurelib.extras.history.comparison import ClusterDiff, Diff, State
from featurelib.extras.history.comparison import diff as compare
from featurelib.extras.history.page import diff_page, timeline_page
from featurelib.extras.history.timeline import RangeChange, Timeline, find_senders, read_timeline
from featurelib.feature import Severity
from featurelib.lake import Lake
from featurelib.snapshot.history import LevelChange
from featurelib.source import Chosen, Wanted, find_tables, open_fleet
from featurelib.view.documents import Document, fill

Row = dict[str, object]
FINALIZED = "finalized"
_CHANGE = ("since", "until", "who", "feature", "before", "after", "epoch", "went_back")
MOST = 20  # Maximum number of clusters, and findings of each, in the text; rows have all
KEYS |= {
    Timeline: row_of("regressions levels ranges epochs_back=epochs sent journal"),
    LevelChange: row_of("at epoch epoch_before changes went_down"),
    RangeChange: row_of("since until role node_ids registered first changes shrank"),
}


class OfTables(Document):
    """The first key of a JSON document about a fleet: the source of the data."""

    made_from: str


def history(cluster: AnyCluster, *, journal: str | None = None) -> Answer[Timeline]:
    """Show the feature history of one cluster.

    \b
        featurelib history payments-eu --tables TABLES

    Print ranges, finalized levels by epoch, and regressions, from the histories that the nightly
    keeps (silver.node_advertisement, finalized_features). Four changes are marked as going back: a
    lower maximum of a node, a feature that a node lost, a lower level, a smaller epoch. The sender
    of a level is shown if the journal of this machine has it.

    Exit codes: 0 answered; 2 usage; 5 there is no data about the cluster.
    """
    chosen = choose(cluster)
    options, catalogue = chosen.wanted, chosen.catalogue
    if options.tables is None:
        raise ConfigError(
            "history reads the nightly's tables, and this is a live cluster. Use for example "
            "history(open_tables(FOLDER)['payments-eu'])"
        )
    fleet, name = open_fleet(options.fleet, catalogue)[1], options.cluster or ""
    entry = fleet.named(name) or FleetEntry(id=name)
    lake = Lake(options.tables)
    history = read_timeline(lake, entry.id, options.run)
    if (path := journal_path(journal)).is_file():
        try:
            with closing(Journal(path)) as opened:
                senders = find_senders(history.levels, opened.entries(cluster=entry.id))
            history = replace(history, sent=tuple(senders), journal=str(path))
        except (JournalError, InputError) as error:
            chosen.say(f"warning: {error}")
    made_from = f"tables in {options.tables}"
    up_to = f"{made_from}, up to run {lake.run(options.run)}"
    return Answer(
        value=history,
        make_rows=lambda: _changes(history),
        make_document=lambda: document(
            fill(OfCluster, cluster=entry.id, name=entry.title or None, made_from=made_from),
            history,
        ),
        page=lambda width: timeline_page(history, entry.title, up_to, catalogue, width),
    )


def diff(
    tables: NightTables,
    before: int | None = None,
    after: int | None = None,
    *,
    fail_on_new: Severity | None = None,
    limit: int = MOST,
) -> Answer[Diff]:
    """Compare what two runs found.

    `after` defaults to the newest run, `before` to the run before `after`:

    \b
        featurelib diff --tables TABLES
        featurelib diff 20261120060000 20261121060000 --tables TABLES --json
        featurelib diff --fail-on-new blocker --owner payments --tables TABLES

    Findings are grouped by cluster. A finding of only one run is incomparable if the other run
    could not have found it: it used another catalogue or policy, it did not judge the cluster, or
    data was missing.

    In Python: diff(open_tables(FOLDER)).frame(); a row is a finding of only one run. Exit codes: 0
    answered; 1 with --fail-on-new, if one is new; 2 usage; 5 there are no two runs.
    """
    lake, now = tables.lake, tables.run if after is None else after
    run = _before(lake, now) if before is None else lake.run(before)
    if run == now:
        raise ConfigError(f"diff: {now} cannot be compared with itself. Name another run.")
    difference = compare(lake, run, lake.run(now), tables.names, tables.part)
    if tables.part is not None and not (difference.clusters or difference.same):
        raise tables.nothing(f"run {run} or {now}")
    catalogue = tables.catalogue
    return Answer(
        value=difference,
        make_rows=lambda: (
            row for cluster in difference.clusters for row in _finding_rows(cluster, catalogue)
        ),
        make_document=lambda: document(fill(OfTables, made_from=tables.made_from), difference),
        page=lambda width: diff_page(difference, catalogue, limit, width, tables.part),
        exit_code=int(fail_on_new is not None and difference.new_at_least(fail_on_new) > 0),
    )


def _before(lake: Lake, run: int) -> int:
    earlier: list[int] = [number for number in lake.runs["run"].to_pylist() if number < run]
    if earlier:
        return max(earlier)
    raise NoEvidenceError(
        f"diff: {lake.root} has no run before {run}. Run the nightly again, or name two runs: "
        "featurelib diff RUN RUN"
    )


def _changes(timeline: Timeline) -> Iterator[Row]:
    for level in timeline.levels:
        for name, old, new in level.changes:
            is_lower = new < old or level.epoch_before is not None
            row = level.at, level.at, FINALIZED, name, str(old), str(new), level.epoch, is_lower
            yield dict(zip(_CHANGE, row, strict=True))
    for change in timeline.ranges:
        for name, *ends in change.changes:
            before, after = (None if pair is None else f"{pair[0]}-{pair[1]}" for pair in ends)
            shrank = name in change.shrank
            cells = change.since, change.until, change.who, name, before, after, None, shrank
            yield dict(zip(_CHANGE, cells, strict=True))


def _finding_rows(cluster: ClusterDiff, catalogue: Catalogue) -> Iterator[Row]:
    words = FindingWords(catalogue)
    states = (State.NEW, State.RESOLVED, State.INCOMPARABLE)
    for state, row in ((kind, row) for kind in states for row in getattr(cluster, kind)):
        yield {
            "cluster": cluster.name or cluster.cluster,
            "state": str(state),
            **{key: row[key] for key in ("severity", "code", "role", "node_id", "feature")},
            "says": words.of(row).statement,
            "why": str(row["why"]) if "why" in row else None,
            "muted": row["muted"],
        }


def _stored(
    cluster: str | None = None,
    tables: str | None = None,
    run: int | None = None,
    fleet: str | None = None,
    overlay: str | None = None,
) -> Chosen:
    """Return the cluster in the tables of a run. Raises ConfigError if no tables are set."""
    if cluster is None:
        raise ConfigError("No cluster is named. Add the id or name of a cluster.")
    folder = find_tables(tables)
    return chosen(Wanted(cluster=cluster, tables=folder, run=run, fleet=fleet, overlay=overlay))


CHOOSING |= {"history.cluster": _stored, "diff.tables": nights}
