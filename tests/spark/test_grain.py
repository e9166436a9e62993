"""Every table holds what its declaration says, after a night of an earlier release and one of ours.

`tests/data/tables/nov-21.tar.gz` holds the tables of one night of commit 4684c51: three samples, in
fewer columns than today's (gold.upgrade_plan is of version 3 and knows no `returns_after`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from featurelib import open_tables
from featurelib.arrow import schema_of
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.config.settings import Settings
from featurelib.extras.history import diff
from featurelib.lake import Lake
from featurelib.spark.auditing import audit
from featurelib.spark.ingest import ingest
from featurelib.spark.log import spark_schema
from featurelib.spark.refine import refine
from featurelib.spark.store import Store
from featurelib.tables import ALL, CLUSTER_SNAPSHOT, CLUSTERS, GOLD, NODES, SILVER, Table
from jobs.nightly import unpack
from tests.spark.nights import fold_samples, in_order, open_table, rows_of, sample_lines

pytestmark = pytest.mark.spark

NOV_21 = Path(__file__).parents[1] / "data" / "tables" / "nov-21.tar.gz"
FIRST, SECOND = 20261101000000, 20261122000000
SAMPLES = ("ghost-broker", "k37-forgotten", "zk-332-ranges")  # what it holds
FLEET = Fleet(cluster=(FleetEntry(id="lost", brokers=(1, 2)),))
BY_TABLE = pytest.mark.parametrize("table", ALL, ids=lambda table: str(table.full_name))


@dataclass(frozen=True, slots=True)
class Nights:
    root: str
    before: dict[Table, pa.Table]  # after the first night


@pytest.fixture(scope="module")
def nights(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Nights:
    """All samples and bad lines come in the second night; what the first one had is repeated."""
    root, landing = str(tmp_path_factory.mktemp("tables")), tmp_path_factory.mktemp("landing")
    unpack(NOV_21, str(root))
    later = (CLUSTERS, NODES)  # tables that this release did not have
    known = [table for table in ALL if table not in later]
    before = {table: open_table(root, table).to_pyarrow_table() for table in known}
    before |= {table: schema_of(table.schema).empty_table() for table in later}
    assert Lake(root).run() == FIRST  # readers without Spark need no new night
    lines = [*sample_lines(), b"not a landing line", b"\xff\xfe", b"{}", b"not a landing line"]
    (landing / "a.jsonl").write_bytes(b"\n".join(lines))
    store = Store(session, root)
    counts = ingest(store, str(landing), SECOND, lambda _: None)
    assert counts.accepted > 0 < counts.repeated < len(before[ALL[0]]) + 10
    refine(store, lambda _: None)
    audit(store, FLEET, Settings(), run=SECOND, as_of=None, say=lambda _: None)
    return Nights(root, before)


@BY_TABLE
def test_a_table_holds_what_its_declaration_says(nights: Nights, table: Table) -> None:
    opened = open_table(nights.root, table)
    assert opened.metadata().description  # a table keeps the sentence of the release that made it
    assert opened.metadata().configuration["featurelib.tableVersion"] == str(table.version)
    columns = pa.schema(opened.schema().to_arrow())
    declared = to_arrow_schema(spark_schema(table), timezone="UTC")
    left = set(columns.names) - set(declared.names)  # a column that this release has no more
    assert left <= {*nights.before[table].column_names}
    assert set(declared.names) <= set(columns.names)  # those that were added come last
    rows = opened.to_pyarrow_table()
    assert rows.num_rows > 0
    for field in declared:
        assert rows.schema.field(field.name).type == field.type, field.name
    nulls = [name for name in table.required if rows[name].null_count]
    assert nulls == []
    groups = rows.group_by(list(table.grain)).aggregate([([], "count_all")])
    twice = groups.filter(pc.greater(groups["count_all"], 1)).to_pylist()
    assert twice == []


def expect_the_same_statements(before: pa.Table, now: pa.Table) -> None:
    """`before` has a row for each response, and calls the source its witness."""
    named = ["role" if name == "witness" else name for name in before.column_names]
    old = before.rename_columns(named)
    assert {repr(row) for row in now.select(named).to_pylist()} <= {
        repr(row) for row in old.to_pylist()
    }
    content = ["cluster", "role", "node_id", *named[-3:]]
    told, expected = ({repr(row) for row in of.select(content).to_pylist()} for of in (now, old))
    assert told == expected


@BY_TABLE
def test_what_an_earlier_release_wrote_is_carried_on(nights: Nights, table: Table) -> None:
    now, before = open_table(nights.root, table).to_pyarrow_table(), nights.before[table]
    if table is CLUSTER_SNAPSHOT:  # made anew from bronze
        assert now.sort_by("cluster")["state"] == fold_samples(sample_lines())["state"]
        return
    if table.is_rebuilt:  # a history, made anew with rows where something changed
        expect_the_same_statements(before, now.filter(pc.equal(now["run"], FIRST)))
        return
    assert set(pc.unique(now["run"]).to_pylist()) | {FIRST} == {FIRST, SECOND}
    old = now.filter(pc.equal(now["run"], FIRST)).select(before.column_names)
    assert in_order(old) == in_order(before)


def test_the_nights_of_an_earlier_release_stay_readable(nights: Nights) -> None:
    assert any(set(nights.before[table].column_names) < set(table.schema.names) for table in GOLD)
    lake = Lake(nights.root)
    for table in GOLD[:-1]:
        assert lake.rows(table, run=FIRST).schema == table.schema
    assert len(lake.rows(GOLD[3], run=FIRST)) == 3
    assert len(open_tables(nights.root, run=FIRST).report.clusters) == 3
    assert diff(open_tables(nights.root), FIRST, SECOND).value.after == SECOND


def test_a_night_that_brings_nothing_and_dies_once_makes_the_snapshots_anew(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> int:
        raise KeyboardInterrupt

    unpack(NOV_21, str(tmp_path))
    histories = [t for t in SILVER if t is not CLUSTER_SNAPSHOT]
    before = [open_table(tmp_path, table).to_pyarrow_table() for table in histories]
    with monkeypatch.context() as patch:
        patch.setattr(Store, "overwrite", die)
        with pytest.raises(KeyboardInterrupt):
            refine(Store(session, str(tmp_path)), lambda _: None)
    for report in (["refine: snapshot of every cluster written", "refine: histories written"],
                   ["refine: nothing new came in"]):  # fmt: skip
        texts: list[str] = []
        refine(Store(session, str(tmp_path)), texts.append)
        assert texts == report
    snapshots = rows_of(tmp_path, CLUSTER_SNAPSHOT, without=("run", "learned", "set_aside"))
    assert snapshots == in_order(fold_samples(sample_lines(*SAMPLES)))
    for table, old in zip(histories, before, strict=True):
        expect_the_same_statements(old, open_table(tmp_path, table).to_pyarrow_table())
