"""Silver to gold: judge every snapshot row once, and append the results with the run.

Workers judge whole clusters in Arrow batches in one job, whatever the size of the fleet. A worker
returns Arrow bytes instead of rows: Spark would convert every row twice, which takes longer than
judging. Each run records the versions of the tables it read, so that it can be judged again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema

from featurelib import __version__, arrow, tables
from featurelib.audit import gold
from featurelib.audit.audit import Judged
from featurelib.audit.columns import latest
from featurelib.audit.evidence import Waiting
from featurelib.audit.findings import NO_SITE
from featurelib.catalogue import Catalogue
from featurelib.catalogue import load as load_catalogue
from featurelib.config.fleet import Fleet
from featurelib.config.settings import Settings
from featurelib.core.dialect import STRICT
from featurelib.errors import NoEvidenceError, TableError
from featurelib.faults import explaining
from featurelib.feature import Verdict
from featurelib.findings import code_of
from featurelib.spark.judging import (
    CELLS,
    CORE_COLUMNS,
    Judging,
    WaitingClusters,
    expected_rows,
    judge_as_of,
    judged_in,
    unchanged_in,
)
from featurelib.spark.log import Wanted
from featurelib.spark.store import Store
from featurelib.spark.unchanged import digest_conditions, find_last, with_unchanged
from featurelib.tables import Table
from featurelib.words import count

WRITERS = 4
WAITS = [verdict.value for verdict in Verdict if verdict is not Verdict.UP_TO_DATE]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """The judgement of one run. `inputs`: the versions of the tables that were read."""

    run: int
    as_of: int
    judged: Judged
    inputs: dict[str, int]


def audit(
    store: Store,
    fleet: Fleet,
    settings: Settings,
    *,
    run: int,
    as_of: int | None,
    say: Callable[[str], None],
    catalogue: Catalogue | None = None,
    places: tuple[str, str, str | None] = (NO_SITE.landing, NO_SITE.inventory, None),
) -> Audited:
    """Judge every cluster and append the gold tables. `as_of` None means the newest line's time,
    `catalogue` None means this release's own. `places`: the landing folder and the inventory, for
    commands, and the folder of the report.

    Raises NoEvidenceError when there is no cluster to judge, TableError and ConfigError (Store).
    """
    snapshots = tables.CLUSTER_SNAPSHOT
    change = store.find_change(snapshots)
    if change := change or store.find_lag(tables.FINALIZED_FEATURES, snapshots):
        raise TableError(
            f"table {snapshots.full_name} at {store.path(snapshots)}: {change}; "
            "nothing was judged. Run nightly, or refine: both fold it again from bronze."
        )
    known = store.fetch(tables.CLUSTER_SNAPSHOT, columns=["cluster", "observed_at"])
    store.expect_newer(run, *tables.GOLD)
    store.expect_ahead(tables.AUDIT_RUN, *gold.RESULTS.values())
    waiting, inputs = read_waiting(store)
    inputs[tables.LANDING_LINE.full_name] = store.version(tables.LANDING_LINE)
    for name in store.find_older(inputs):
        say(f"warning: {name} is older than the last run left it, as a backup is: lines are lost.")
    inputs[snapshots.full_name] = store.version(snapshots)  # refine compared it
    newest = pc.max(known["observed_at"].cast(pa.int64())).as_py() or 0
    as_of_run = newest if as_of is None else as_of
    newest_lines = read_newest_lines(store, None if as_of is None else latest(as_of))
    conditions = digest_conditions(fleet, settings, catalogue, as_of_run, as_of is None)
    last = find_last(store, waiting, conditions, as_of_run)
    judging = judge_as_of(as_of_run, fleet, settings, catalogue, waiting, newest_lines, last)
    lost = lost_clusters(store, known["cluster"])
    if lost:
        say(f"warning: {count(len(lost), 'cluster')} lost in silver.cluster_snapshot: UNKNOWN.")
    absent = expected_rows(known["cluster"], fleet, lost)
    cells = judge_snapshots(store, judging, absent)
    result, unchanged = judged_in(cells), unchanged_in(cells)
    if last is not None and unchanged:
        result = with_unchanged(store, result, last.run, unchanged)
    if not (clusters := len(result.plans)):
        raise NoEvidenceError(
            f"tables {store.root}: there is nothing to audit. The tables have no valid line, and "
            "the inventory lists no cluster. bronze.landing_line shows why lines are quarantined."
        )
    say(f"audit: {clusters - len(unchanged)} clusters judged, {len(unchanged)} unchanged")
    write_gold(store, result, fleet, catalogue or load_catalogue(), run, places[:2])
    of_run = {"out": places[2], "unchanged": len(unchanged), "conditions": conditions}
    row = run_row(result, run, as_of_run, inputs, catalogue, of_run)
    store.append(tables.AUDIT_RUN, row, run)
    say("audit: gold tables written")
    return Audited(run=run, as_of=as_of_run, judged=result, inputs=inputs)


def write_gold(
    store: Store,
    judged: Judged,
    fleet: Fleet,
    catalogue: Catalogue,
    run: int,
    places: tuple[str, str],
) -> None:
    """Append the rows of one run to the gold tables, in parallel. The row of audit_run comes last
    and marks a complete run."""

    def write(table: Table) -> None:
        made = gold.rows_of(table, judged, fleet, catalogue, places)
        rows, schema = arrow.table_of(made, coded=True), table.schema
        for name, value in (("run", run), ("run_date", date.fromisoformat(str(run)[:8]))):
            column = pa.repeat(pa.scalar(value, arrow.type_of(schema[name])), rows.num_rows)
            rows = rows.append_column(name, column)
        if table == tables.FINDINGS:
            rows = rows.append_column("first_seen_run", first_seen(store, rows))
        store.append(table, rows.select(schema.names), run)

    store.create(*tables.GOLD)
    with ThreadPoolExecutor(max_workers=WRITERS) as pool:
        list(pool.map(write, gold.RESULTS.values()))


def first_seen(store: Store, findings: pa.Table) -> pa.Array:
    """Return, per finding, the first of the consecutive runs that have it."""
    conditions: list[Wanted] = [("run", "=", store.newest_run(tables.AUDIT_RUN) or 0)]
    grain = tables.FINDINGS.grain[1:]
    before = store.fetch(tables.FINDINGS, conditions, ["run", "first_seen_run", *grain])
    keys, earlier = (
        pc.binary_join_element_wise(
            *(pc.fill_null(rows[name].cast(pa.string()), "") for name in grain), "\0"
        ).combine_chunks()
        for rows in (findings, before)
    )
    first = pc.coalesce(before["first_seen_run"], before["run"])
    return pc.coalesce(pc.take(first, pc.index_in(keys, value_set=earlier)), findings["run"])


def run_row(
    judged: Judged,
    run: int,
    as_of: int,
    inputs: dict[str, int],
    catalogue: Catalogue | None = None,
    of_run: Mapping[str, object] | None = None,
) -> pa.Table:
    """Return the row of gold.audit_run: clusters by verdict, and the columns `of_run`."""
    verdicts = judged.plans["verdict"].to_pylist()
    row = {
        "run": run,
        "run_date": date.fromisoformat(str(run)[:8]),
        "as_of": as_of,
        "release": __version__,
        "catalogue": (catalogue or load_catalogue()).label,
        "dialect": STRICT,
        "inputs": [{"table": name, "version": at} for name, at in sorted(inputs.items())],
        "clusters": len(verdicts),
        "findings": len(judged.findings),
        **(of_run or {}),
    }
    row |= {verdict.name.lower(): verdicts.count(verdict.value) for verdict in Verdict}
    row |= gold.adoption(judged, as_of, catalogue or load_catalogue())
    return pa.Table.from_pylist([row], schema=arrow.schema_of(tables.AUDIT_RUN.schema))


def lost_clusters(store: Store, known: pa.ChunkedArray) -> list[str]:
    """Return the clusters without snapshot that the last run judged, or that got lines since."""

    def clusters(table: Table, *conditions: Wanted) -> set[str]:
        return set(store.fetch(table, conditions, ["cluster"])["cluster"].to_pylist())

    folded = store.newest_run(tables.CLUSTER_SNAPSHOT) or 0
    landed = clusters(tables.LANDING_LINE, ("reason", "is null", None), ("run", ">", folded))
    newest = store.newest_run(tables.AUDIT_RUN)  # AUDIT_RUN has finished runs only
    if newest is not None and store.exists(tables.UPGRADE_PLANS) and store.exists(tables.FINDINGS):
        condition: Wanted = ("run", "=", newest)
        silent = clusters(tables.FINDINGS, condition, ("code", "=", code_of("no_data")))
        landed |= clusters(tables.UPGRADE_PLANS, condition) - silent
    return sorted(landed.difference(known.to_pylist()))


def judge_snapshots(store: Store, judging: Judging, absent: pa.Table | None = None) -> pa.Table:
    """Judge all snapshot rows and `absent` clusters on Spark's workers. Return a table of CELLS."""
    rows = store.read(tables.CLUSTER_SNAPSHOT).select(*CORE_COLUMNS)
    if absent is not None and absent.num_rows:
        rows = rows.unionByName(store.session.createDataFrame(absent), allowMissingColumns=True)
    with explaining(store.path(tables.CLUSTER_SNAPSHOT)):
        return rows.mapInArrow(judging, from_arrow_schema(CELLS)).select(*CELLS.names).toArrow()


def read_newest_lines(store: Store, until: int | None) -> dict[str, int]:
    """Return cluster → time of the newest line used by any run, microseconds. Lines after `until`
    are ignored."""
    if store.newest_run(tables.AUDIT_RUN) is None:
        return {}
    late: list[Wanted] = [] if until is None else [("newest_line", "<=", until)]
    rows = store.fetch(tables.UPGRADE_PLANS, late, ["cluster", "newest_line"])
    newest = rows.group_by("cluster").aggregate([("newest_line", "max")])
    times = newest["newest_line_max"].cast(pa.int64()).to_pylist()
    pairs = zip(newest["cluster"].to_pylist(), times, strict=True)
    return {cluster: at for cluster, at in pairs if at is not None}


def read_waiting(store: Store) -> tuple[WaitingClusters, dict[str, int]]:
    """Return (cluster → feature → judgement of the previous run, without UP_TO_DATE; versions of
    the tables read). Both are empty without previous run."""
    newest = store.newest_run(tables.AUDIT_RUN)
    if newest is None:
        return {}, {}
    inputs = {tables.FEATURE_READINESS.full_name: store.version(tables.FEATURE_READINESS)}
    times = ["ready_since", "verdict_since"]
    columns = ["cluster", "feature", "finalized_level", "verdict", "target", *times]
    conditions: list[Wanted] = [("run", "=", newest), ("verdict", "in", WAITS)]
    table = store.fetch(tables.FEATURE_READINESS, conditions, columns)
    for name in times:
        table = table.drop_columns([name]).append_column(name, table[name].cast(pa.int64()))
    waiting: dict[str, dict[str, Waiting]] = defaultdict(dict)
    for cluster, feature, *values in zip(*(column.to_pylist() for column in table), strict=True):
        waiting[cluster][feature] = Waiting(*values)
    return dict(waiting), inputs
