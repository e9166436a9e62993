"""More than one machine: a night on a real cluster and S3 or HDFS, and what is refused there.

The machines are processes on loopback (tests/spark/machines.py).
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from featurelib.tables import ALL, INGEST_RUN, LANDING_LINE
from tests.backends.rig.jars import UnavailableError
from tests.spark.drivers import said, submit
from tests.spark.machines import (
    Machines,
    NameNode,
    ObjectStore,
    fetch_s3_jars,
    running_cluster,
    running_hdfs,
    running_s3,
)
from tests.spark.nights import SAMPLES, Row, all_tables, rows_of, run_job

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    with ExitStack() as stack:
        try:
            running = stack.enter_context(running_cluster(tmp_path_factory.mktemp("cluster")))
        except UnavailableError as missing:
            pytest.skip(f"a Spark cluster: {missing}")
        yield running


@pytest.fixture(params=["s3", *(["hdfs"] if os.environ.get("FEATURELIB_HDFS") else [])])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ObjectStore | NameNode]:
    """HDFS only where FEATURELIB_HDFS is set: it needs a jar of 56 MB."""
    try:
        if request.param == "s3":
            fetch_s3_jars()
        with {"s3": running_s3, "hdfs": running_hdfs}[request.param](tmp_path / "store") as running:
            for name, value in running.env.items():
                monkeypatch.setenv(name, value)
            yield running
    except UnavailableError as missing:
        pytest.skip(f"{request.param}: {missing}")


def test_a_night_on_machines_has_the_tables_of_a_local_one(
    machines: Machines, store: ObjectStore | NameNode, session: SparkSession, tmp_path: Path
) -> None:
    """A driver is killed half way, its silver written and no gold. It went on without an executor
    that was killed, and beside it another driver was refused in one line. The next one makes all of
    it good."""
    landing = tmp_path / "landing"
    landing.mkdir()
    for path in SAMPLES.glob("*/landing.jsonl"):
        shutil.copy(path, landing / f"{path.parent.name}.jsonl")
    store.put(landing)
    spark = [*machines.options(), *store.options()]
    places = ["--landing", f"{store.root}/landing", "--tables", f"{store.root}/tables"]
    words = [*spark, "nightly", *places, "--out", f"{store.root}/out", "--as-of", "newest"]
    with submit(*words, env=machines.env()) as killed:
        killed.wait_for(said("new files"))
        machines.kill_an_executor()
        expect_a_second_is_refused(words, machines, store)
        killed.wait_for(said("snapshot of every cluster written"))
        killed.kill()
    with submit(*words, env=machines.env()) as last:
        assert last.finish().startswith("featurelib")
    assert last.process.returncode == 0
    assert "Traceback" not in "".join(last.said)

    local = ["--landing", landing, "--tables", tmp_path / "tables"]
    assert run_job("nightly", *local, "--as-of", "newest") == 0
    expected = comparable_tables(tmp_path / "tables")
    found = comparable_tables(store.tables(tmp_path / "copied"))
    assert found.keys() == {table.full_name for table in ALL}
    for name, rows in found.items():
        assert rows == expected[name], name


def expect_a_second_is_refused(
    words: list[str], machines: Machines, store: ObjectStore | NameNode
) -> None:
    with submit(*words, env=machines.env()) as second:
        assert second.finish() == ""
    assert second.process.returncode == 3
    *begun, refusal = second.said
    usual = ("nightly: run", "spark: ", f"tables {store.root}/tables: held by nightly run 20")
    assert [line for line in begun if not line.startswith(usual)] == []
    assert refusal.startswith(f"error: tables {store.root}/tables: held by nightly run 20")
    assert f" on {socket.gethostname()}, since 20" in refusal
    assert "; nothing was written. Run again when it has ended; if it is dead, the" in refusal


def comparable_tables(tables: str | Path) -> dict[str, list[Row]]:
    """Without what tells one night from another, and without the folder of landing files."""
    found = all_tables(tables)
    for row in found[LANDING_LINE.full_name]:
        row["source_file"] = Path(str(row["source_file"])).name
    found[LANDING_LINE.full_name].sort(key=repr)
    without = ("run", "landing", "files")
    return found | {INGEST_RUN.full_name: rows_of(tables, INGEST_RUN, without=without)}
