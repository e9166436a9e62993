"""One session for the whole suite, and a store of its own for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from featurelib.spark.session import open_session
from featurelib.spark.store import Store
from tests.spark.nights import ROOT, run_job

# Small frames, many of them: what production gains by compiling, a test never earns back; nor is
# each of Spark's thousands of classes verified at every start.
JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC "
JAVA += "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": JAVA,
}


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    session = open_session("featurelib tests", {**SETTINGS, "spark.sql.warehouse.dir": warehouse})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def checkout(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a checkout is after the README's first command: thirty nights of the samples."""
    place = tmp_path_factory.mktemp("checkout")
    (place / "data").mkdir()
    (place / "data" / "samples").symlink_to(ROOT / "data" / "samples")
    (place / "notebooks").mkdir()
    made = place / "build" / "samples"
    assert run_job("nightly", "--tables", made / "tables", "--out", made / "out") == 0
    return place


@pytest.fixture
def store(session: SparkSession, tmp_path: Path) -> Store:
    return Store(session, str(tmp_path / "tables"))
