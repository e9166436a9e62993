"""The library and the nightly on Spark Connect: a client without a JVM gets the same."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from featurelib.rows import TableRows
from featurelib.tables import ALL, Table
from tests.report.samples import judge_samples
from tests.spark.nights import ROOT, RUN, SAMPLES, run_job

pytestmark = pytest.mark.spark

CLIENT = """
import json
import sys

from pyspark.sql import SparkSession
from featurelib import spark as fl

def rows(frame, *names):
    return [list(row) for row in frame.select(*names).collect()]

builder = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "1")
session = builder.config("spark.ui.enabled", "false").getOrCreate()
assert type(session).__module__ == "pyspark.sql.connect.session"
lines = session.read.text(sys.argv[1])
audit = fl.audit(lines).persist()
joined = fl.incompatible(fl.supported_ranges(lines), fl.finalized_levels(lines))
print(json.dumps({
    "readiness": rows(audit.readiness, "cluster", "feature", "verdict", "target"),
    "findings": audit.findings.count(),
    "plans": rows(audit.plans, "cluster", "verdict"),
    "incompatible": rows(joined, "cluster", "node_id", "feature"),
}))
session.stop()
"""


def test_a_client_of_spark_connect_gets_the_verdicts_of_the_core() -> None:
    env = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-c", CLIENT, f"{SAMPLES}/*/landing.jsonl"]
    answer = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout.splitlines()[-1])
    judged = judge_samples()
    expected = {
        "readiness": columns_of(judged.readiness, "cluster", "feature", "verdict", "target"),
        "plans": columns_of(judged.plans, "cluster", "verdict"),
        "incompatible": columns_of(judged.incompatible, "cluster", "node_id", "feature"),
    }
    assert found.pop("findings") == len(judged.findings)
    assert {name: sorted(rows, key=str) for name, rows in found.items()} == expected


NIGHTLY = """
import runpy
import sys

from pyspark.sql import SparkSession
from featurelib.spark.session import find_jars, read_settings

builder = SparkSession.builder.remote("local[2]").config("spark.jars", find_jars())
for key, value in read_settings().items():
    builder = builder.config(key, value)
session = builder.getOrCreate()
assert type(session).__module__ == "pyspark.sql.connect.session"
runpy.run_path("jobs/nightly.py", run_name="__main__")
"""


def test_a_nightly_on_a_connect_session_writes_the_tables_of_a_classic_one(
    session: SparkSession, tmp_path: Path
) -> None:
    """Two runs: one that makes the tables, and one that carries them on."""
    landing = tmp_path / "landing"
    env = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    for run, samples in enumerate((["ghost-broker", "zk-282-stock"], ["k39-static"]), RUN):
        for name in samples:
            shutil.copytree(SAMPLES / name, landing / name)
        usual = ("--landing", landing, "--as-of", "newest", "--run", run)
        words = [sys.executable, "-c", NIGHTLY, *map(str, usual)]
        ended = subprocess.run(
            [*words, "--tables", tmp_path / "connect"],
            env=env,
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert ended.returncode == 0, ended.stderr
        assert run_job("nightly", *usual, "--tables", tmp_path / "classic") == 0
    for table in ALL:
        rows = [rows_of(tmp_path / kind, table) for kind in ("connect", "classic")]
        assert rows[0] == rows[1], table.full_name


def rows_of(tables: Path, table: Table) -> list[str]:
    """The rows of a table as texts, sorted."""
    return sorted(map(repr, DeltaTable(tables / table.path).to_pyarrow_table().to_pylist()))


def columns_of(rows: TableRows, *names: str) -> list[list[object]]:
    """Some columns of a table, row by row, sorted."""
    values = zip(*(rows[name].to_pylist() for name in names), strict=True)
    return sorted(map(list, values), key=str)
