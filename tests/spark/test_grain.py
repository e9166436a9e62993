"""Every table holds what its declaration says, after two nights of all kinds of lines."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.spark.audit import audit
from featurelib.spark.ingest import ingest
from featurelib.spark.log import spark_schema
from featurelib.spark.refine import refine
from featurelib.spark.store import Store
from featurelib.tables import ALL, Table
from tests.spark.nights import RUN, SAMPLES, open_table, sample_lines

pytestmark = pytest.mark.spark

LATE = ("mixed-42-39", "zk-roll-282-332")  # they come in the second night
FLEET = Fleet(cluster=(FleetEntry(id="lost", brokers=(1, 2)),))


@pytest.fixture(scope="module")
def tables(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the tables of two nights lie."""
    landing, root = tmp_path_factory.mktemp("landing"), str(tmp_path_factory.mktemp("tables"))
    first = [path.name for path in SAMPLES.glob("*/") if path.name not in LATE]
    files = {
        "first": [*sample_lines(*first), b"not a landing line", b"\xff\xfe", b"{}"],
        "second": [*sample_lines(*LATE, "k40-fresh"), b"not a landing line", b"[]"],
    }
    for run, name in enumerate(files, RUN):
        (landing / f"{name}.jsonl").write_bytes(b"\n".join(files[name]))
        store = Store(session, root)
        ingest(store, str(landing), run, lambda _: None)
        refine(store, lambda _: None)
        audit(
            store,
            FLEET,
            run=run,
            as_of=None,
            max_age=72 * 3_600_000_000,
            severities={},
            say=lambda _: None,
        )
    return root


def test_every_table_is_written(tables: str) -> None:
    found = {str(path.parent.relative_to(tables)) for path in Path(tables).rglob("_delta_log")}
    assert found == {table.path for table in ALL}


@pytest.mark.parametrize("table", ALL, ids=lambda table: str(table.full_name))
def test_a_table_holds_what_its_declaration_says(tables: str, table: Table) -> None:
    opened = open_table(tables, table)
    assert opened.metadata().description == table.comment
    columns = pa.schema(opened.schema().to_arrow())
    declared = to_arrow_schema(spark_schema(table), timezone="UTC")
    assert columns.names == declared.names
    assert {field.name for field in columns if not field.nullable} == set(table.required)
    rows = opened.to_pyarrow_table()
    assert rows.num_rows > 0
    for field in declared:
        assert rows.schema.field(field.name).type == field.type, field.name
    nulls = [name for name in table.required if rows[name].null_count]
    assert nulls == []
    groups = rows.group_by(list(table.grain)).aggregate([([], "count_all")])
    twice = groups.filter(pc.greater(groups["count_all"], 1)).to_pylist()
    assert twice == []


@pytest.mark.parametrize(
    "table",
    [table for table in ALL if table.name != "cluster_snapshot"],
    ids=lambda table: str(table.full_name),
)
def test_a_table_keeps_the_rows_of_both_nights(tables: str, table: Table) -> None:
    runs = pc.unique(open_table(tables, table).to_pyarrow_table()["run"]).to_pylist()
    assert sorted(runs) == [RUN, RUN + 1]
