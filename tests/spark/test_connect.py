"""The Spark library on a Spark Connect server of its own: a client without a JVM gets the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from featurelib.rows import TableRows
from tests.report.samples import judge_samples
from tests.spark.nights import ROOT, SAMPLES

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


def columns_of(rows: TableRows, *names: str) -> list[list[object]]:
    """Some columns of a table, row by row, sorted."""
    values = zip(*(rows[name].to_pylist() for name in names), strict=True)
    return sorted(map(list, values), key=str)
