"""Tables that an earlier release wrote: one more night, and its own nights stay readable.

`tests/data/tables/nov-21.tar.gz` holds the tables of one night of commit 4684c51: three samples, in
fewer columns than today's (gold.upgrade_plan is of version 3 and knows no `returns_after`).
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from featurelib import diff, open_tables
from featurelib.config.fleet import Fleet
from featurelib.lake import Lake
from featurelib.spark.audit import audit
from featurelib.spark.ingest import ingest
from featurelib.spark.refine import refine
from featurelib.spark.store import Store
from featurelib.tables import ALL, CLUSTER_SNAPSHOT, GOLD, SILVER
from tests.spark.nights import fold_samples, in_order, open_table, rows_of, sample_lines

pytestmark = pytest.mark.spark

NOV_21 = Path(__file__).parents[1] / "data" / "tables" / "nov-21.tar.gz"
FIRST, SECOND = 20261101000000, 20261122000000
SAMPLES = ("ghost-broker", "k37-forgotten", "zk-332-ranges")


def test_an_earlier_release_s_tables_go_on_and_its_nights_stay_readable(
    session: SparkSession, tmp_path: Path
) -> None:
    tables, landing = tmp_path / "tables", tmp_path / "landing.jsonl"
    with tarfile.open(NOV_21) as packed:
        packed.extractall(tables, filter="data")
    before = {table: open_table(tables, table).to_pyarrow_table() for table in ALL}
    assert any(set(before[table].column_names) < set(table.schema.names) for table in GOLD)
    assert Lake(str(tables)).run() == FIRST  # readers without Spark need no new night

    store = Store(session, str(tables))
    landing.write_bytes(b"\n".join(sample_lines(*SAMPLES, "k40-fresh")))
    counts = ingest(store, str(landing), SECOND, lambda _: None)
    assert 0 < counts.accepted < counts.lines == counts.accepted + counts.repeated
    refine(store, lambda _: None)
    options = {"as_of": None, "max_age": 72 * 3_600_000_000, "severities": {}}
    audit(store, Fleet(), run=SECOND, say=lambda _: None, **options)  # type: ignore[arg-type]

    for table in ALL:
        now = open_table(tables, table).to_pyarrow_table()
        assert set(now.column_names) == set(table.schema.names)
        groups = now.group_by(list(table.grain)).aggregate([([], "count_all")])
        assert set(groups["count_all"].to_pylist()) <= {1}
        if not table.is_rebuilt:
            old = now.filter(pc.equal(now["run"], FIRST)).select(before[table].column_names)
            assert in_order(old) == in_order(before[table])
    snapshot = open_table(tables, CLUSTER_SNAPSHOT).to_pyarrow_table().sort_by("cluster")
    assert snapshot["state"] == fold_samples(sample_lines(*SAMPLES, "k40-fresh"))["state"]

    lake = Lake(str(tables))
    for run, clusters in ((FIRST, 3), (SECOND, 4)):
        rows = {table.name: lake.rows(table, run=run) for table in GOLD[:-1]}
        assert rows["upgrade_plan"].num_rows == clusters
        assert all(rows[table.name].schema == table.schema for table in GOLD[:-1])
    then = open_tables(str(tables), run=FIRST)
    assert len(then.report.clusters) == 3
    assert diff(open_tables(str(tables)), FIRST, SECOND).value.after == SECOND


def test_a_night_that_brings_nothing_and_dies_once_makes_the_snapshots_anew(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> int:
        raise KeyboardInterrupt

    with tarfile.open(NOV_21) as packed:
        packed.extractall(tmp_path, filter="data")
    histories = [t for t in SILVER if not t.is_rebuilt]
    before = [rows_of(tmp_path, table, without=()) for table in histories]
    with monkeypatch.context() as patch:
        patch.setattr(Store, "overwrite", die)
        with pytest.raises(KeyboardInterrupt):
            refine(Store(session, str(tmp_path)), lambda _: None)
    for report in (["refine: snapshot of every cluster written", "refine: histories written"],
                   ["refine: nothing new came in"]):  # fmt: skip
        texts: list[str] = []
        refine(Store(session, str(tmp_path)), texts.append)
        assert texts == report
    snapshots = rows_of(tmp_path, CLUSTER_SNAPSHOT, without=("run", "learned"))
    assert snapshots == in_order(fold_samples(sample_lines(*SAMPLES)))
    assert [rows_of(tmp_path, table, without=()) for table in histories] == before
