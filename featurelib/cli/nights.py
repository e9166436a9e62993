"""`featurelib diff`: what two nights found, against each other."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated

import typer

from featurelib.cli.asked import usual_tables
from featurelib.cli.options import (
    ClusterName,
    FleetFile,
    Json,
    OverlayFile,
    RunNumber,
    TablesFolder,
    open_catalogue,
)
from featurelib.errors import ConfigError, NoEvidenceError
from featurelib.feature import Severity
from featurelib.lake import Lake
from featurelib.questions.diff import Diff, diff
from featurelib.questions.timeline import Timeline, timeline
from featurelib.source import entry_named, open_fleet
from featurelib.tables import FINALIZED_FEATURES, NODE_ADVERTISEMENT
from featurelib.view.nights import diff_page, timeline_page

DIFF_VERSION = 1  # of the JSON output
FINDINGS_FOUND = 1  # exit code
MOST = 20  # clusters, and findings of one, that are shown

Given = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RUN RUN] [SEVERITY]",
        help="Two nights, the older one first; and, with --fail-on-new, what counts.",
    ),
]


def diff_command(
    given: Given = None,
    last: Annotated[
        bool, typer.Option("--last", help="The newest night against the one before.")
    ] = False,
    fail_on_new: Annotated[
        bool,
        typer.Option(
            "--fail-on-new",
            help="Exit code 1 if a finding is new and not muted: of SEVERITY or worse, or any.",
        ),
    ] = False,
    tables: TablesFolder = None,
    fleet: FleetFile = None,
    overlay: OverlayFile = None,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="Clusters shown, and findings of each; 0 = all.")
    ] = MOST,
    as_json: Json = False,
) -> int:
    """What two nights found, against each other.

    New, resolved, unchanged, incomparable:

    \b
        featurelib diff --last --tables TABLES
        featurelib diff 20261120060000 20261121060000 --tables TABLES --json
        featurelib diff --last --fail-on-new blocker --tables TABLES

    By cluster. Incomparable is a finding of one night that the other could not have found: judged
    by another catalogue or policy, the cluster not judged, or its evidence UNKNOWN there.

    Exit codes: 0 answered; 1 with --fail-on-new, if one is new; 2 usage; 5 there are no two nights.
    """
    runs, worst = _read(given or [], fail_on_new)
    catalogue = open_catalogue(overlay)
    tables, fleet = usual_tables(tables, fleet)
    lake = Lake(tables)
    before, after = _choose(lake, runs, last)
    found = diff(lake, before, after)
    names = open_fleet(fleet, catalogue)[1].names
    if as_json:
        print(json.dumps(_diff_document(found, names, tables), default=str, ensure_ascii=False))
    else:
        print(diff_page(found, names, catalogue, limit))
    failed = worst is not None and found.new_at_least(worst) > 0
    return FINDINGS_FOUND if failed else 0


def _read(words: list[str], fail_on_new: bool) -> tuple[list[int], Severity | None]:
    """The runs, and from which severity on a new finding fails. Raises ConfigError."""
    runs = [int(word) for word in words if word.isascii() and word.isdigit()]
    others = [word for word in words if not (word.isascii() and word.isdigit())]
    if not others:
        return runs, Severity.INFO if fail_on_new else None
    if fail_on_new and len(others) == 1 and others[0] in set(Severity):
        return runs, Severity(others[0])
    expected = f"a severity, {', '.join(Severity)}" if fail_on_new else "runs, as 20261121060000"
    raise ConfigError(
        f"{' '.join(others)}: expected {expected}, found {others[0]!r}. "
        "As: featurelib diff --last --fail-on-new blocker"
    )


def _choose(lake: Lake, runs: list[int], last: bool) -> tuple[int, int]:
    """The two nights, as named or the two newest. Raises ConfigError, NoEvidenceError."""
    if last == bool(runs) or (runs and len(runs) != 2):
        raise ConfigError(
            f"expected two runs, or --last, found {len(runs)} run{'' if len(runs) == 1 else 's'}"
            f"{' and --last' if last else ''}. As: featurelib diff --last"
        )
    if runs:
        return lake.run(runs[0]), lake.run(runs[1])
    known: list[int] = lake.runs["run"].to_pylist()
    if len(known) < 2:
        raise NoEvidenceError(
            f"--last: expected two nights below {lake.root}, found one, {known[0]}. Run the "
            "nightly again."
        )
    return known[1], known[0]


def _diff_document(found: Diff, names: dict[str, str], tables: str) -> dict[str, object]:
    return {
        "version": DIFF_VERSION,
        "made_from": f"tables in {tables}",
        "before": found.before,
        "after": found.after,
        "judged_alike": found.judged_alike,
        "counts": found.counts,
        "same": found.same,
        "clusters": [
            {
                "cluster": one.cluster,
                "name": names.get(one.cluster),
                "before": one.before,
                "after": one.after,
                "new": one.new,
                "resolved": one.resolved,
                "unchanged": one.unchanged,
                "incomparable": [row | {"why": why} for row, why in one.incomparable],
            }
            for one in found.clusters
        ],
    }


# ----------------------------------------
# `featurelib timeline`: who could what when in one cluster, and what went back.

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
        made_from = f"tables in {tables}, up to run {lake.run(run)}"
        print(timeline_page(found, entry.title, made_from, catalogue))
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
