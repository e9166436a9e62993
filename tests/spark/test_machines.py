"""More than one machine: a night on a real cluster and an S3, and what is refused there.

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

from featurelib.tables import INGEST_RUN, LANDING_LINE
from tests.backends.rig.jars import UnavailableError
from tests.spark.drivers import Driver, said, submit
from tests.spark.machines import (
    BUCKET,
    Machines,
    ObjectStore,
    bare_python,
    fetch_s3_jars,
    running_cluster,
    running_s3,
)
from tests.spark.nights import SAMPLES, Row, all_tables, rows_of

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    with ExitStack() as stack:
        try:
            running = stack.enter_context(running_cluster(tmp_path_factory.mktemp("cluster")))
        except UnavailableError as missing:
            pytest.skip(f"a Spark cluster: {missing}")
        yield running


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[ObjectStore]:
    try:
        fetch_s3_jars()
    except UnavailableError as missing:
        pytest.skip(f"S3: {missing}")
    with running_s3(tmp_path / "s3") as running:
        yield running


def test_a_night_on_machines_and_s3_has_the_tables_of_a_local_one(
    machines: Machines, s3: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second driver is refused in one line; the first is killed, and the third makes it good."""
    for path in SAMPLES.glob("*/landing.jsonl"):
        name = f"{path.parent.name}.jsonl"
        s3.put(f"{BUCKET}/landing/{name}", path.read_bytes())
        (tmp_path / "landing").mkdir(exist_ok=True)
        shutil.copy(path, tmp_path / "landing" / name)
    tables = f"s3a://{BUCKET}/tables"
    spark = [*machines.options(), *s3.options()]
    places = ["--landing", f"s3a://{BUCKET}/landing", "--tables", tables]
    words = [*spark, "nightly", *places, "--out", f"s3a://{BUCKET}/out", "--as-of", "newest"]
    with submit(*words, env=machines.env()) as first:
        first.wait_for(said("new files"))
        with submit(*words, env=machines.env()) as second:
            assert second.finish() == ""
        assert second.process.returncode == 3
        refusal = expect_one_line(second)
        assert refusal.startswith(f"error: tables {tables}: held by nightly run 20")
        assert f" on {socket.gethostname()}, since 20" in refusal
        assert "; nothing was written. Run again when it has ended; if it is dead, in " in refusal
        first.wait_for(said("snapshot of every cluster written"))
        first.kill()
    with submit(*words, env=machines.env()) as third:
        assert third.finish().startswith("featurelib")
    assert third.process.returncode == 0
    assert "Traceback" not in "".join(third.said)

    local = ["--landing", tmp_path / "landing", "--tables", tmp_path / "tables"]
    with submit("nightly", *local, "--as-of", "newest") as driver:
        driver.finish()
    assert driver.process.returncode == 0
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    expected = ten_tables(tmp_path / "tables")
    found = ten_tables(f"s3://{BUCKET}/tables")
    assert len(found) == 10
    for name, rows in found.items():
        assert rows == expected[name], name


def ten_tables(tables: str | Path) -> dict[str, list[Row]]:
    """Without what tells one night from another, and without the folder of landing files."""
    found = all_tables(tables)
    for row in found[LANDING_LINE.full_name]:
        row["source_file"] = Path(str(row["source_file"])).name
    found[LANDING_LINE.full_name].sort(key=repr)
    without = ("run", "landing", "files")
    return found | {INGEST_RUN.full_name: rows_of(tables, INGEST_RUN, without=without)}


def expect_one_line(driver: Driver) -> str:
    """What is said beside the start is one line."""
    *begun, last = driver.said
    assert [line for line in begun if not line.startswith(("nightly: run", "spark: "))] == []
    return last


@pytest.mark.parametrize("wrong", ["folder", "packages"])
def test_executors_that_are_not_fit_are_refused_before_the_first_write(
    machines: Machines, tmp_path: Path, wrong: str
) -> None:
    landing = SAMPLES / "zk-282-stock"
    tables: str | Path = tmp_path / "tables"
    python = machines.python
    if wrong == "folder":
        tables = "/proc/self/cwd/tables"  # another one for each process
    else:
        python = bare_python(tmp_path / "bare")
    words = [*machines.options(), "nightly", "--landing", landing, "--tables", tables]
    with submit(*words, env=machines.env(python), cwd=tmp_path) as driver:
        assert driver.finish() == ""
    assert driver.process.returncode == 2
    line = expect_one_line(driver)
    if wrong == "folder":
        assert line.startswith(
            f"error: tables {tables}: the executor on {socket.gethostname()} does not see this "
            "folder as the driver does; nothing was written. Name a place that all machines share"
        )
    else:
        assert "PYSPARK_PYTHON names" in line
    assert os.listdir(tmp_path / "tables") == [".featurelib.lock"]
