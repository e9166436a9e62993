"""Snapshot rows judged by the core, in Arrow batches; the results come back as Parquet files.

A worker hands over files, and not rows: Spark would turn every row into its own form and back,
and that takes longer than judging. A file is a cell of one row a task, nearly always.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from featurelib.catalogue import Catalogue
from featurelib.catalogue import load as load_catalogue
from featurelib.configuration.fleet import Fleet
from featurelib.core.audit import Judged, judge
from featurelib.core.dialect import STRICT
from featurelib.core.dialect import load as load_dialect
from featurelib.core.evidence import Conditions
from featurelib.feature import Severity
from featurelib.planning import night
from featurelib.planning.requirements import Guarding
from featurelib.schema import FINDING, INCOMPATIBLE_BROKER, READINESS, SNAPSHOT, UPGRADE_PLAN
from featurelib.snapshot.unpacked import unpack
from featurelib.spark.parquet import Growing, read
from featurelib.spark.shapes import arrow_type
from featurelib.tables import (
    FEATURE_READINESS,
    FINDINGS,
    INCOMPATIBLE_BROKERS,
    UPGRADE_PLANS,
    Table,
)

BATCH_CLUSTERS = 2000  # the columns of more no longer fit a processor's cache
MOST_BYTES = 64 << 20  # of one file: a cell has to fit the JVM's memory
# The lists come packed; of these there are few.
_UNPACKED = ("oddities", "configs", "software")
CORE_COLUMNS = [
    field.name
    for field in SNAPSHOT
    if field.name != "state" and (field.name in _UNPACKED or not pa.types.is_list(field.type))
]
PARTS: dict[str, tuple[Table, pa.Schema]] = {
    "findings": (FINDINGS, FINDING),
    "incompatible": (INCOMPATIBLE_BROKERS, INCOMPATIBLE_BROKER),
    "readiness": (FEATURE_READINESS, READINESS),
    "plans": (UPGRADE_PLANS, UPGRADE_PLAN),
}
# A Parquet file of each part, null without rows; and when the newest line of these clusters was
# read, microseconds, null without any.
FILES = pa.schema([*((part, pa.binary()) for part in PARTS), ("newest", pa.int64())])


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
    snapshots: DataFrame,
    conditions: Conditions,
    severities: dict[str, Severity],
    run: int,
    catalogue: Catalogue | None = None,
    guarding: Guarding | None = None,
) -> DataFrame:
    """The core's four tables with the run, as files (FILES): a row a task, or more if it is big."""

    def judge_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        dialect, known = load_dialect(STRICT), catalogue or load_catalogue()
        files = _Files(run)
        for batch in batches:
            for start in range(0, batch.num_rows, BATCH_CLUSTERS):
                rows = batch.slice(start, BATCH_CLUSTERS)
                said = judge(unpack(rows), conditions, known, dialect, severities)
                plans = night.with_texts(said, dialect=STRICT, catalogue=known, guarding=guarding)
                files.add(replace(said, plans=plans), rows["observed_at"])
                if files.size > MOST_BYTES:
                    yield files.end()
                    files = _Files(run)
        yield files.end()

    return snapshots.mapInArrow(judge_batches, arrow_type(FILES)).select(*FILES.names)


class _Files:
    """One row of FILES that grows."""

    def __init__(self, run: int) -> None:
        self._run = run
        self._growing = {part: Growing(table) for part, (table, _) in PARTS.items()}
        self._newest: list[int] = []

    @property
    def size(self) -> int:
        return max(growing.size for growing in self._growing.values())

    def add(self, judged: Judged, observed_at: pa.Array) -> None:
        for part, growing in self._growing.items():
            rows = getattr(judged, part)
            run = pa.repeat(pa.scalar(self._run, pa.int64()), rows.num_rows)
            growing.add(rows.add_column(0, "run", run))
        newest = pc.max(observed_at.cast(pa.int64())).as_py()
        self._newest += [] if newest is None else [newest]

    def end(self) -> pa.RecordBatch:
        cells = {part: [growing.end()] for part, growing in self._growing.items()}
        newest = [max(self._newest, default=None)]
        return pa.RecordBatch.from_pydict({**cells, "newest": newest}, schema=FILES)


def files_of(files: pa.Table, part: str) -> list[bytes]:
    """The files of one part."""
    return [cell.as_py() for cell in files[part] if cell.is_valid]


def rows_of(files: pa.Table) -> Judged:
    """What FILES hold, as the four tables."""
    parts = {
        part: pa.concat_tables(
            [schema.empty_table(), *(read(file, schema) for file in files_of(files, part))]
        )
        for part, (_, schema) in PARTS.items()
    }
    return Judged(**parts)
