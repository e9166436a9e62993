"""Tables with features that deltalake does not read or write, made by Spark: jobs go on by Spark,
and commands without Spark read a table or refuse it in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from featurelib.errors import TableError
from featurelib.lake import Lake
from featurelib.tables import (
    AUDIT_RUN,
    CLUSTER_SNAPSHOT,
    CLUSTERS,
    FEATURE_READINESS,
    FINDINGS,
    INCOMPATIBLE_BROKERS,
    LANDING_LINE,
    NODE_ADVERTISEMENT,
    NODES,
    UPGRADE_PLANS,
)
from tests.spark.nights import RUN, SAMPLES, run_job

pytestmark = pytest.mark.spark

SET = "ALTER TABLE {} SET TBLPROPERTIES"
BY_NAME = f"{SET} ('delta.columnMapping.mode' = 'name')"
REFUSED = {
    UPGRADE_PLANS: [  # deletion vectors
        f"{SET} ('delta.enableDeletionVectors' = 'true')",
        "DELETE FROM {} WHERE cluster = 'k40-fresh'",
    ],
    FINDINGS: [BY_NAME],  # column mapping
    FEATURE_READINESS: [BY_NAME, "ALTER TABLE {} DROP COLUMN ready_since"],
    NODES: [f"{SET} ('delta.enableTypeWidening' = 'true')"],
    CLUSTERS: [f"{SET} ('delta.checkpointPolicy' = 'v2')"],
    INCOMPATIBLE_BROKERS: ["ALTER TABLE {} ADD COLUMNS (other variant)"],
    NODE_ADVERTISEMENT: [BY_NAME, f"{SET} ('delta.enableIcebergCompatV2' = 'true')"],  # UniForm
}
READ = {
    AUDIT_RUN: [f"{SET} ('delta.enableInCommitTimestamps' = 'true')"],
    CLUSTER_SNAPSHOT: ["ALTER TABLE {} CLUSTER BY (cluster)"],  # liquid clustering
    LANDING_LINE: [f"{SET} ('delta.enableRowTracking' = 'true')"],
}


def test_tables_that_only_spark_reads_are_refused_without_spark_and_go_on_with_it(
    session: SparkSession, tmp_path: Path
) -> None:
    landing, tables = tmp_path / "landing", tmp_path / "tables"
    landing.mkdir()
    for name in ("ghost-broker", "k40-fresh"):
        (landing / f"{name}.jsonl").write_bytes((SAMPLES / name / "landing.jsonl").read_bytes())
    words = ["--tables", tables, "--landing", landing, "--as-of", "newest", "--again", "--run"]
    assert run_job("nightly", *words, RUN) == 0
    names = {table: f"delta.`{tables}/{table.path}`" for table in (*REFUSED, *READ)}
    for table, statements in (REFUSED | READ).items():
        for statement in statements:
            session.sql(statement.format(names[table]))

    lake = Lake(str(tables))
    for table in REFUSED:
        with pytest.raises(TableError, match="only Spark reads it, because of features like"):
            lake.read(table)
    for table in READ:
        assert len(lake.read(table)) > 0

    assert run_job("nightly", *words, RUN + 1) == 0
    for table in (UPGRADE_PLANS, FINDINGS, FEATURE_READINESS, NODES, CLUSTERS, AUDIT_RUN):
        runs = session.sql(f"SELECT run, count(*) AS rows FROM {names[table]} GROUP BY run")
        counts = {row.run: row.rows for row in runs.collect()}
        assert set(counts) == {RUN, RUN + 1}
        if table is not UPGRADE_PLANS:  # whose row of one cluster was deleted
            assert counts[RUN] == counts[RUN + 1]
