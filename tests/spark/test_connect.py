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

from benchmarks.facts import Shape, draw
from benchmarks.fleet import write_night
from featurelib.config.fleet import Fleet
from featurelib.spark.store import Store
from featurelib.tables import ALL, Table
from tests.spark.nights import ROOT, RUN, SAMPLES, run_job, sample_lines
from tests.spark.test_frames import nightly_of

pytestmark = pytest.mark.spark

CLIENT = """
import json
import sys

from pyspark.sql import SparkSession
from featurelib import spark as fl

builder = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "1")
session = builder.config("spark.ui.enabled", "false").getOrCreate()
assert type(session).__module__ == "pyspark.sql.connect.session"
for lines in map(session.read.text, sys.argv[1:]):
    audit = fl.audit(lines, landing="/data/landing", listed_in="/etc/fleet.toml").persist()
    joined = fl.incompatible(fl.supported_ranges(lines), fl.finalized_levels(lines))
    frames = {"joined": joined} | {
        name: getattr(audit, name)
        for name in ("clusters", "readiness", "incompatible_brokers", "findings", "nodes", "plans")
    }
    rows = {name: sorted(map(repr, frame.toArrow().to_pylist())) for name, frame in frames.items()}
    print(json.dumps(rows))
    audit.unpersist()
session.stop()
"""


def test_a_client_of_spark_connect_gets_what_a_classic_nightly_writes(
    session: SparkSession, tmp_path: Path
) -> None:
    """The samples, and a fleet that is drawn from a seed."""
    shape = Shape(clusters=30, nodes=6, features=8, ghosts=0.05, disagreeing=0.2, rolling=0.2)
    write_night(draw(shape), tmp_path)
    landings = [f"{SAMPLES}/*/landing.jsonl", f"{tmp_path}/night-00"]
    env = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    env.pop("SPARK_CONF_DIR", None)  # the server has no Delta
    answer = subprocess.run(
        [sys.executable, "-c", CLIENT, *landings], env=env, cwd=ROOT, capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr
    printed = answer.stdout.splitlines()[-2:]
    files = sorted(Path(landings[1]).iterdir())
    drawn = [line for path in files for line in path.read_bytes().splitlines()]
    for number, lines in enumerate((sample_lines(), drawn)):
        store = Store(session, str(tmp_path / f"tables-{number}"))
        expected = {
            name: sorted(map(repr, rows.toArrow().to_pylist()))
            for name, rows in nightly_of(store, lines, None, Fleet()).items()
        }
        found = json.loads(printed[number])
        assert len(found.pop("joined")) == len(expected["incompatible_brokers"]) > 0
        assert found == expected


NIGHTLY = """
import runpy
import sys

from pyspark.sql import SparkSession
from featurelib.spark.session import find_jars

builder = SparkSession.builder.remote("local[2]").config("spark.jars", find_jars())
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
    env["SPARK_CONF_DIR"] = str(ROOT / "conf")
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
