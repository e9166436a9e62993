"""Nights of landing lines: samples as lines, bronze made from them, tables to compare."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame

from featurelib.arrow import table_of
from featurelib.catalogue import load as load_catalogue
from featurelib.landing import Landing, read
from featurelib.rows import TableRows
from featurelib.snapshot import ClusterState, fold_lines, snapshot_rows
from featurelib.spark.lines import SCHEMA, parse_file
from featurelib.spark.store import Store
from featurelib.tables import (
    AUDIT_RUN,
    CLUSTERS,
    FEATURE_READINESS,
    FINDINGS,
    INCOMPATIBLE_BROKERS,
    LANDING_LINE,
    NODES,
    OF_RUN,
    SILVER,
    UPGRADE_PLANS,
    Table,
)
from tests.laboratory import LABORATORY

ROOT = Path(__file__).parents[2]
SAMPLES = LABORATORY
RUN = 20261121000000
Row = dict[str, object]
GOLD = (FINDINGS, INCOMPATIBLE_BROKERS, FEATURE_READINESS, UPGRADE_PLANS, CLUSTERS, NODES)


def sample_lines(*names: str) -> list[bytes]:
    """The landing lines of these samples, of all of them without a name."""
    folders = [SAMPLES / name for name in names] or sorted(SAMPLES.glob("*/"))
    return [
        line for folder in folders for line in (folder / "landing.jsonl").read_bytes().splitlines()
    ]


def parse(lines: Sequence[bytes], name: str = "lines") -> pa.Table:
    """What an ingest worker makes of these lines, as if they stood in one file."""
    content = b"\n".join(lines)
    batches = list(parse_file(f"file:/{name}.jsonl", lambda: iter([content])))
    return pa.Table.from_batches(batches, schema=SCHEMA).drop_columns(["counted", "doubled"])


def with_run(run: int, lines: Sequence[bytes]) -> pa.Table:
    """`lines` as rows of bronze.landing_line."""
    parsed = parse(lines, f"run-{run}")
    column = pa.array([run] * parsed.num_rows, pa.int64())
    return parsed.add_column(0, pa.field("run", pa.int64()), column)


def put_bronze(store: Store, run: int, lines: Sequence[bytes]) -> None:
    """`lines` in bronze, none of which is there, without the cost of reading files."""
    store.append(LANDING_LINE, with_run(run, lines), run)


def fold_samples(lines: Iterable[bytes], until: int | None = None) -> pa.Table:
    """Snapshot rows of these lines, sorted by cluster, without Spark and in one go; those dated
    later than `until` wait."""
    by_cluster: dict[str, list[tuple[Landing, int]]] = {}
    for row in parse(list(lines)).to_pylist():
        if row["reason"] is None:
            line = read(row["raw"])
            assert isinstance(line, Landing)
            by_cluster.setdefault(line.cluster, []).append((line, row["line_id"]))
    rows: list[tuple[str, ClusterState]] = []
    for cluster in sorted(by_cluster):
        rows.append((cluster, fold_lines(by_cluster[cluster], load_catalogue(), until)))
    return table_of(snapshot_rows(rows))


def run_job(name: str, *words: object) -> int:
    """Run a job in this process and its session; gives its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [f"{name}.py", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(ROOT / "jobs" / f"{name}.py"), run_name="__main__")
    assert isinstance(ended.value.code, int)
    return ended.value.code


def open_table(tables: str | Path, table: Table) -> DeltaTable:
    """A table as others see it: without Spark."""
    return DeltaTable(f"{str(tables).removeprefix('file:')}/{table.path}")


def rows_of(
    tables: str | Path, table: Table, *, without: Iterable[str] = OF_RUN, run: int | None = None
) -> list[Row]:
    """All rows, or those of one run, in an order of their own; `without` some columns."""
    found = open_table(tables, table).to_pyarrow_table()
    if run is not None:
        found = found.filter(pa.compute.equal(found["run"], run))
    return in_order(found.drop_columns([name for name in without if name in found.column_names]))


def in_order(table: pa.Table | TableRows) -> list[Row]:
    rows: list[Row] = table.to_pylist()
    return sorted(rows, key=repr)


def all_tables(tables: str | Path) -> dict[str, list[Row]]:
    """Bronze and silver but for their runs, and the newest night's gold."""
    rows = {
        table.full_name: rows_of(tables, table, without=("run", "learned", "set_aside"))
        for table in (LANDING_LINE, *SILVER)
    }
    told = open_table(tables, AUDIT_RUN).to_pyarrow_table().to_pylist()
    newest = max(row["run"] for row in told)
    for table in (*GOLD, AUDIT_RUN):
        rows[table.full_name] = rows_of(
            tables, table, without=(*OF_RUN, "inputs", "out", "unchanged", "conditions"), run=newest
        )
    return rows


def at_version(store: Store, table: Table, version: int) -> DataFrame:
    """The rows of a table as of one of its versions, as any user of Spark reads them."""
    reader, place = store.session.read.option("versionAsOf", version), store.path(table)
    return reader.table(place) if store.is_named else reader.format("delta").load(place)
