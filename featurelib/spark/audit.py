"""Silver to gold: every snapshot row judged once by the core, results appended with the run.

Spark only carries: whole clusters go to the core in Arrow batches and its tables come back. Each
run records the versions of the tables it read, so that a night can be judged again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from featurelib import planfile
from featurelib.catalogue import load as load_catalogue
from featurelib.core.audit import Judged, judge
from featurelib.core.dialect import STRICT
from featurelib.core.dialect import load as load_dialect
from featurelib.core.evidence import Conditions
from featurelib.errors import NoEvidenceError
from featurelib.feature import Severity, Verdict
from featurelib.fleet import Fleet
from featurelib.schema import FINDING, INCOMPATIBLE_BROKER, READINESS, SNAPSHOT, UPGRADE_PLAN
from featurelib.snapshot.unpacked import unpack
from featurelib.spark.store import Store, arrow_type
from featurelib.tables import gold
from featurelib.tables.bronze import LANDING_LINE
from featurelib.tables.silver import CLUSTER_SNAPSHOT
from featurelib.tables.table import Table

MOST_LOCATED = 5000
WRITERS = 2
BATCH_CLUSTERS = 2000  # the columns of more no longer fit a processor's cache
# The lists come packed; `oddities` has nearly always none.
CORE_COLUMNS = [
    field.name
    for field in SNAPSHOT
    if field.name != "state" and (field.name == "oddities" or not pa.types.is_list(field.type))
]
PARTS: dict[str, tuple[Table, pa.Schema]] = {
    "findings": (gold.FINDINGS, FINDING),
    "incompatible": (gold.INCOMPATIBLE_BROKERS, INCOMPATIBLE_BROKER),
    "readiness": (gold.FEATURE_READINESS, READINESS),
    "plans": (gold.UPGRADE_PLANS, UPGRADE_PLAN),
}
JUDGED = pa.schema(
    [(part, pa.list_(pa.struct(list(schema)))) for part, (_, schema) in PARTS.items()]
)


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
) -> Audited:
    """Judge every cluster and append the gold tables. `as_of` None = the newest line's time.

    Raises NoEvidenceError when there is no cluster to judge, TableError and ConfigError (Store).
    """
    snapshots = store.read(CLUSTER_SNAPSHOT).select(*CORE_COLUMNS)
    store.expect_newer(run, *gold.TABLES)
    read = (LANDING_LINE, CLUSTER_SNAPSHOT)
    with ThreadPoolExecutor(max_workers=len(read)) as pool:
        versions = pool.map(store.version, read)
        inputs = dict(zip((table.full_name for table in read), versions, strict=True))
    newest = newest_line(snapshots)
    when = newest if as_of is None else as_of
    expected = with_expected(snapshots, fleet)
    conditions = Conditions(as_of=when, max_age=max_age, inventory=fleet.inventory)
    judged = judge_snapshots(expected, conditions, severities).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        collected = collect(judged)
        clusters = collected.plans.num_rows
        if clusters == 0:
            raise NoEvidenceError(
                f"tables {store.root}: no cluster to judge, because no accepted line landed and "
                "the inventory expects none. Look at the reasons in bronze.landing_line."
            )
        say(f"audit: {clusters} clusters judged")
        append_gold(store, judged, run)
        row = run_row(collected, run, when, inputs)
        store.append(gold.AUDIT_RUN, store.session.createDataFrame(row), run)
        say("audit: gold tables written")
    finally:
        judged.unpersist()
    return Audited(
        run=run, as_of=when, judged=collected, inputs=inputs, newest=newest, release=_release()
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


def newest_line(snapshots: DataFrame) -> int:
    """When the newest line of all clusters was read, microseconds; 0 without any."""
    newest = snapshots.agg(F.unix_micros(F.max("observed_at")).alias("at")).collect()[0].at
    return int(newest or 0)


def with_expected(snapshots: DataFrame, fleet: Fleet) -> DataFrame:
    """`snapshots`, and a row without evidence for every expected cluster that never landed."""
    if not fleet.cluster:
        return snapshots
    names = pa.table({"cluster": [entry.id for entry in fleet.cluster]})
    listed = snapshots.sparkSession.createDataFrame(names)
    missing = listed.join(snapshots.select("cluster"), on="cluster", how="left_anti")
    empty = {
        "oddities": F.array(),
        "zookeeper": F.lit(False),
        "migration": F.lit(-1),
        "features_node_version": F.lit(-1),
        "controller": F.lit(-1),
    }
    types = {field.name: field.dataType for field in snapshots.schema.fields}
    columns = []
    for name in snapshots.columns[1:]:
        if name in ("observed_at", "features_node", "packed"):
            value = F.lit(None)
        elif types[name].typeName() == "array":
            value = F.array()
        else:
            value = empty.get(name, F.lit(0))
        columns.append(value.cast(types[name]).alias(name))
    return snapshots.unionByName(missing.select("cluster", *columns))


def judge_snapshots(
    snapshots: DataFrame, conditions: Conditions, severities: dict[str, Severity]
) -> DataFrame:
    """One row a batch of clusters, with the core's four tables as list columns (JUDGED)."""

    def judge_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        dialect, catalogue = load_dialect(STRICT), load_catalogue()
        for batch in batches:
            for start in range(0, batch.num_rows, BATCH_CLUSTERS):
                rows = unpack(batch.slice(start, BATCH_CLUSTERS))
                said = judge(rows, conditions, catalogue, dialect, severities)
                plans = planfile.with_texts(said, dialect=STRICT, catalogue=catalogue.dated)
                yield nest(replace(said, plans=plans))

    return snapshots.mapInArrow(judge_batches, arrow_type(JUDGED)).select(*JUDGED.names)


def nest(judged: Judged) -> pa.RecordBatch:
    """The four tables as one row: each a list of structs."""
    columns = []
    for part, field in zip(PARTS, JUDGED, strict=True):
        table = getattr(judged, part).combine_chunks()
        arrays = [column.combine_chunks() for column in table.columns]
        values = pa.StructArray.from_arrays(arrays, fields=list(field.type.value_type))
        offsets = pa.array([0, len(values)], pa.int32())
        columns.append(pa.ListArray.from_arrays(offsets, values))
    return pa.RecordBatch.from_arrays(columns, schema=JUDGED)


def collect(judged: DataFrame) -> Judged:
    """All of JUDGED on the driver, as four tables."""
    table = judged.toArrow()
    parts = {}
    for part, (_, schema) in PARTS.items():
        values = pa.concat_arrays(
            [chunk.flatten() for chunk in table[part].chunks]
            or [pa.array([], pa.struct(list(schema)))]
        )
        parts[part] = pa.Table.from_arrays(
            [values.field(i).cast(field.type) for i, field in enumerate(schema)], schema=schema
        )
    return Judged(**parts)


def append_gold(store: Store, judged: DataFrame, run: int) -> None:
    """The four results, two at a time: a commit is mostly waiting.

    The run's own row comes after them, so that a night without it did not end. The rows come from
    the workers' cached answer: handing them back from the driver takes three times as long.
    """
    store.create(*gold.TABLES)

    def write(part: str) -> None:
        table, _ = PARTS[part]
        rows = judged.select(F.inline(part)).withColumn("run", F.lit(run))
        store.append(table, rows, run)

    with ThreadPoolExecutor(max_workers=WRITERS) as pool:
        list(pool.map(write, PARTS))


def run_row(judged: Judged, run: int, as_of: int, inputs: dict[str, int]) -> pa.Table:
    """The run's row of gold.audit_run; verdicts are counted by cluster."""
    verdicts = judged.plans["verdict"].to_pylist()
    row = {
        "run": run,
        "as_of": as_of,
        "release": _release(),
        "catalogue": load_catalogue().dated,
        "dialect": STRICT,
        "inputs": [{"table": name, "version": at} for name, at in sorted(inputs.items())],
        "clusters": len(verdicts),
        "findings": judged.findings.num_rows,
    }
    row |= {verdict.name.lower(): verdicts.count(verdict.value) for verdict in Verdict}
    return pa.Table.from_pylist([row], schema=gold.AUDIT_RUN.schema)


def _release() -> str:
    try:
        return version("featurelib")
    except PackageNotFoundError:  # it travels as a zip, without its metadata
        return "unpackaged"
