"""Silver to gold: every snapshot row judged once by the core, results appended with the run.

Spark only carries: whole clusters go to the core in Arrow batches and its tables come back. Each
run records the versions of the tables it read, so that a night can be judged again.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from featurelib.catalogue import Catalogue
from featurelib.catalogue import load as load_catalogue
from featurelib.configuration.fleet import Fleet
from featurelib.core.audit import Judged
from featurelib.core.dialect import STRICT
from featurelib.core.evidence import Conditions
from featurelib.core.mutes import Mute
from featurelib.errors import NoEvidenceError
from featurelib.feature import Severity, Verdict
from featurelib.planning.requirements import Guarding
from featurelib.spark.judging import (
    CORE_COLUMNS,
    PARTS,
    files_of,
    judge_snapshots,
    newest_line,
    rows_of,
    with_expected,
)
from featurelib.spark.parquet import pack
from featurelib.spark.store import Store
from featurelib.spark.waiting import read_waiting
from featurelib.tables import AUDIT_RUN, CLUSTER_SNAPSHOT, GOLD, LANDING_LINE

MOST_LOCATED = 5000
WRITERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """What one run judged, collected: the four tables, as of when, and what was read."""

    run: int
    as_of: int
    judged: Judged
    inputs: dict[str, int]
    newest: int  # when the newest line was read, microseconds
    release: str  # of featurelib


def audit(
    store: Store,
    fleet: Fleet,
    *,
    run: int,
    as_of: int | None,
    max_age: int,
    severities: dict[str, Severity],
    say: Callable[[str], None],
    catalogue: Catalogue | None = None,
    mutes: tuple[Mute, ...] = (),
    forgotten: int = 0,
    guarding: Guarding | None = None,
) -> Audited:
    """Judge every cluster and append the gold tables. `as_of` None = the newest line's time.

    `catalogue` None = the one that ships with this release, without an overlay. `forgotten`: how
    long a feature is READY until that is a finding, microseconds; 0 = never. `guarding`: the guards
    of the plans.

    Raises NoEvidenceError when there is no cluster to judge, TableError and ConfigError (Store).
    """
    snapshots = store.read(CLUSTER_SNAPSHOT).select(*CORE_COLUMNS)
    store.expect_newer(run, *GOLD)
    inputs = {table.full_name: store.version(table) for table in (LANDING_LINE, CLUSTER_SNAPSHOT)}
    when = newest_line(snapshots) if as_of is None else as_of
    waiting, read = read_waiting(store)
    inputs |= read
    conditions = Conditions(
        as_of=when,
        max_age=max_age,
        inventory=fleet.inventory,
        mutes=mutes,
        waiting=waiting,
        forgotten=forgotten,
    )
    expected = with_expected(snapshots, fleet)
    files = judge_snapshots(expected, conditions, severities, run, catalogue, guarding).toArrow()
    judged = rows_of(files)
    clusters = judged.plans.num_rows
    if clusters == 0:
        raise NoEvidenceError(
            f"tables {store.root}: no cluster to judge, because no accepted line landed and "
            "the inventory expects none. Look at the reasons in bronze.landing_line."
        )
    say(f"audit: {clusters} clusters judged")
    append_gold(store, files, run)
    store.add(AUDIT_RUN, pack(AUDIT_RUN, run_row(judged, run, when, inputs, catalogue)), run)
    say("audit: gold tables written")
    newest = pc.max(files["newest"]).as_py() or 0
    return Audited(
        run=run, as_of=when, judged=judged, inputs=inputs, newest=newest, release=_release()
    )


def locate_lines(store: Store, findings: pa.Table) -> dict[int, str]:
    """line_id → `file:line` of the landing lines that findings rest on, for a person to open.

    Only files of bronze that hold lines of these times are read; a fleet with more findings than
    anybody opens is left to a join on line_id.
    """
    wanted = findings.select(["line_id", "observed_at"]).drop_null()
    ids = pc.unique(wanted["line_id"])
    if len(ids) == 0 or len(ids) > MOST_LOCATED:
        return {}
    times = pc.min_max(wanted["observed_at"].cast(pa.int64())).as_py()
    between = [F.timestamp_micros(F.lit(times[end])) for end in ("min", "max")]
    keys = store.session.createDataFrame(pa.table({"line_id": ids}))
    lines = store.read(LANDING_LINE).filter(F.col("observed_at").between(*between))
    found = lines.join(F.broadcast(keys), on="line_id", how="left_semi")
    rows = found.select("line_id", "source_file", "line_number").collect()
    return {
        row.line_id: f"{row.source_file.removeprefix('file:')}:{row.line_number}" for row in rows
    }


def read_quarantine(store: Store, most: int) -> tuple[int, list[tuple[str, str]]]:
    """How many quarantined lines bronze holds, and `file:line` and reason of the newest run's
    first, `most` of all. Files without such a line are left out by their statistics."""
    bad = store.read(LANDING_LINE).filter(F.col("reason").isNotNull())
    ordered = bad.orderBy(F.desc("run"), "source_file", "line_number").limit(most + 1)
    rows = ordered.select("source_file", "line_number", "reason").collect()
    newest = [(f"{r.source_file.removeprefix('file:')}:{r.line_number}", r.reason) for r in rows]
    return (len(rows) if len(rows) <= most else bad.count()), newest[:most]


def append_gold(store: Store, files: pa.Table, run: int) -> None:
    """The four results, side by side: a commit is mostly waiting.

    The run's own row comes after them, so that a night without it did not end.
    """

    def write(part: str) -> None:
        table, _ = PARTS[part]
        store.add(table, files_of(files, part), run)

    store.create(*GOLD)
    with ThreadPoolExecutor(max_workers=WRITERS) as pool:
        list(pool.map(write, PARTS))


def run_row(
    judged: Judged,
    run: int,
    as_of: int,
    inputs: dict[str, int],
    catalogue: Catalogue | None = None,
) -> pa.Table:
    """The run's row of gold.audit_run; verdicts are counted by cluster."""
    verdicts = judged.plans["verdict"].to_pylist()
    row = {
        "run": run,
        "as_of": as_of,
        "release": _release(),
        "catalogue": (catalogue or load_catalogue()).label,
        "dialect": STRICT,
        "inputs": [{"table": name, "version": at} for name, at in sorted(inputs.items())],
        "clusters": len(verdicts),
        "findings": judged.findings.num_rows,
    }
    row |= {verdict.name.lower(): verdicts.count(verdict.value) for verdict in Verdict}
    return pa.Table.from_pylist([row], schema=AUDIT_RUN.schema)


def _release() -> str:
    try:
        return version("featurelib")
    except PackageNotFoundError:  # it travels as a zip, without its metadata
        return "unpackaged"
