"""Faults of the surroundings, in the words in which others said them, are one sentence each."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from featurelib.errors import BusyError, ConfigError, FeatureLibError, SurroundingsError
from featurelib.faults import explain
from featurelib.spark.ingest import ingest
from featurelib.spark.refine import refine
from featurelib.spark.session import all_jars, expect_one_spark, jars_for, open_session
from featurelib.spark.store import Store
from featurelib.tables import (
    CLUSTER_SNAPSHOT,
    FINALIZED_FEATURES,
    LANDING_LINE,
    NODE_ADVERTISEMENT,
)
from tests.spark.nights import RUN, SAMPLES, Row, in_order, open_table, put_bronze, sample_lines

TRACE = "\n\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2898)" * 300

# What was said, as which error it ends, and how the sentence begins.
SAID: list[tuple[str, type[FeatureLibError], str]] = [
    (
        "Unsupported table features required: [ClusteredTable, DomainMetadata]",
        ConfigError,
        "hdfs://localhost:1/t: another writer turned on table features that featurelib cannot "
        "use (Unsupported table features required: [ClusteredTable",
    ),
    (
        "An error occurred while calling o88.save.\n: org.apache.spark.SparkException: "
        "[TASK_WRITE_FAILED] Task failed while writing rows to file:/t/bronze/landing_line. "
        "SQLSTATE: 58030\nCaused by: java.io.IOException: No space left on device",
        SurroundingsError,
        "the disk of file:/t/bronze/landing_line is full (No space left on",
    ),
    (
        "[Errno 28] No space left on device",
        SurroundingsError,
        "the disk of --tables, of --out or of Spark's scratch (SPARK_LOCAL_DIRS, else /tmp) is",
    ),
    (
        "[Errno 30] Read-only file system: '/mnt/out/report.json.part'",
        SurroundingsError,
        "/mnt/out/report.json.part: access is refused (Read-only file system). Give this user",
    ),
    (
        'java.io.IOException: Cannot run program "/opt/none/python": error=2, No such file',
        ConfigError,
        "the workers cannot start their Python, /opt/none/python. PYSPARK_PYTHON names",
    ),
    (
        "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in "
        "worker has different version: 3.12 than that in driver: 3.11, PySpark cannot run with "
        "different minor versions.\nPlease check environment variables PYSPARK_PYTHON and",
        ConfigError,
        "the workers' Python is of another release than the driver's (Python in worker has "
        "different version: 3.12 than that in driver: 3.11). PYSPARK_PYTHON names",
    ),
    (
        "Traceback (most recent call last):\nModuleNotFoundError: No module named 'numpy'\n",
        ConfigError,
        "the workers' Python lacks a package: No module named 'numpy'. PYSPARK_PYTHON names",
    ),
    (
        "Job aborted due to stage failure: Task 0 in stage 49.0 failed 1 times, most recent "
        "failure: Lost task 0.0 in stage 49.0 (TID 58) (localhost executor driver): "
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider "
        "setting\nCaused by: java.io.IOException: Broken pipe",
        SurroundingsError,
        "a worker of Spark died (Python worker exited unexpectedly (crashed)). Run the job again",
    ),
    (
        "An error occurred while calling o1.save.\n: java.lang.OutOfMemoryError: Java heap space",
        SurroundingsError,
        "Spark has no memory left (OutOfMemoryError: Java heap space). Run the job again with more",
    ),
    (
        "[DELTA_CONCURRENT_TRANSACTION] This error occurs when multiple streaming queries are "
        "using the same checkpoint",
        BusyError,
        "tables: another run wrote to them at the same time",
    ),
    (
        "[DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION] Cannot create table",
        BusyError,
        "tables: another run wrote to them at the same time",
    ),
    (
        "An error occurred while calling z:io.delta.tables.DeltaTable.isDeltaTable.\n: "
        "java.net.ConnectException: Call From vm/127.0.0.1 to localhost:1 failed on connection "
        "exception: java.net.ConnectException: Connection refused; For more details see: …",
        SurroundingsError,
        "hdfs://localhost:1/t: cannot be reached, or does not exist (Connection refused). Check",
    ),
    (
        "java.net.UnknownHostException: no-such-host.invalid",
        SurroundingsError,
        "hdfs://localhost:1/t: cannot be reached, or does not exist (UnknownHostException: no-",
    ),
    (
        "Generic S3 error: Error performing GET http://127.0.0.1:1/b?prefix=x in 1.2s, after 10 "
        "retries - HTTP error: error sending request",
        SurroundingsError,
        "hdfs://localhost:1/t: cannot be reached, or does not exist (error sending request). Check",
    ),
    (
        "java.nio.file.AccessDeniedException: b: getFileStatus on b: software.amazon.awssdk…S3Exce"
        "ption: (Service: S3, Status Code: 403, Request ID: x)",
        SurroundingsError,
        "hdfs://localhost:1/t: access is refused (AccessDeniedException: b: getFileStatus on b",
    ),
    (
        "Generic S3 error: Error performing GET http://127.0.0.1:1/b?list-type=2 in 10ms - Server "
        "returned non-2xx status code: 403 Forbidden: <Error><Code>InvalidAccessKeyId</Code>"
        "<Message>The AWS Access Key Id you provided does not exist in our records.</Message>",
        SurroundingsError,
        "hdfs://localhost:1/t: access is refused (InvalidAccessKeyId). Give this user",
    ),
    (
        "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 16ms - "
        "Server returned non-2xx status code: 403 Forbidden: denied",
        SurroundingsError,
        "hdfs://localhost:1/t: there are no credentials in the environment, and http://169.254.169.254",
    ),
    (
        'org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "foo"',
        ConfigError,
        "hdfs://localhost:1/t: Spark has no connector for this address (No FileSystem for scheme",
    ),
    (
        "java.lang.RuntimeException: file:/t/silver/x/part-0.c000.zstd.parquet is not a "
        "Parquet file. Expected magic number at tail",
        SurroundingsError,
        "table silver.x: cannot be read, because a file of it is missing or damaged: "
        "file:/t/silver/x/part-0.c000.zstd.parquet. Restore it, or move the folder silver away",
    ),
    (
        "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file "
        "file:///t/bronze/landing_line/part-1.snappy.parquet. File does not exist.",
        SurroundingsError,
        "table bronze.landing_line: cannot be read, because a file of it is missing or damaged: "
        "file:///t/bronze/landing_line/part-1.snappy.parquet. Restore it from a backup",
    ),
    (
        "[DELTA_MISSING_TRANSACTION_LOG] Incompatible format detected.\x1b[2J",
        SurroundingsError,
        "a file at hdfs://localhost:1/t: cannot be read, because a file of it is missing or",
    ),
    (
        "Kernel error: Json error: Truncated record whilst reading string\n   0: <unknown>",
        SurroundingsError,
        "a file at hdfs://localhost:1/t: cannot be read, because a file of it is missing or",
    ),
    (
        "An error occurred while calling o41.collectToPython.\n: java.io.IOException: odd",
        SurroundingsError,
        "hdfs://localhost:1/t: cannot be read or written (java.io.IOException: odd). Fix the cause",
    ),
]


@pytest.mark.parametrize(("said", "kind", "sentence"), SAID)
def test_a_fault_of_the_surroundings_is_one_sentence(
    said: str, kind: type[FeatureLibError], sentence: str
) -> None:
    where = "" if "28]" in said else "hdfs://localhost:1/t"
    found = explain(RuntimeError(said + TRACE), where)
    assert str(found).startswith(sentence)
    assert type(found) is kind
    assert str(found).isprintable()
    assert len(str(found)) < 600


@pytest.mark.parametrize("error", [MemoryError(), OSError(12, "Cannot allocate memory")])
def test_memory_that_featurelib_itself_lacks_is_not_spark_s(error: Exception) -> None:
    assert str(explain(error)).startswith(f"featurelib has no memory left ({type(error).__name__}")


def test_what_is_not_known_is_a_fault_of_ours() -> None:
    assert explain(RuntimeError("AssertionError: 3 lines by their newlines, but 2 rows")) is None


@pytest.mark.spark
def test_what_spark_says_of_its_surroundings_today_is_known(store: Store, tmp_path: Path) -> None:
    put_bronze(store, RUN, sample_lines("ghost-broker"))
    (file,) = (tmp_path / "tables" / LANDING_LINE.path).glob("*.parquet")
    file.write_bytes(file.read_bytes()[:-9])
    (tmp_path / "tables" / LANDING_LINE.path / f".{file.name}.crc").unlink(missing_ok=True)
    lines = Store(store.session, store.root).read(LANDING_LINE)
    with pytest.raises(Exception, match="FAILED_READ_FILE") as damaged:
        lines.collect()
    assert "table bronze.landing_line: cannot be read, because" in str(explain(damaged.value))

    def die(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        os.kill(os.getpid(), signal.SIGKILL)
        yield from batches

    with pytest.raises(Exception, match="Python worker") as died:
        store.session.range(1).mapInArrow(die, "id long").collect()
    assert str(explain(died.value)).startswith("a worker of Spark died (Python worker exited unexp")
    for uri, kind, sentence in (
        ("hdfs://127.0.0.1:1/t", SurroundingsError, "cannot be reached, or does not exist"),
        (
            "hdfs://no-such-host.invalid:1/t",
            SurroundingsError,
            "cannot be reached, or does not exist",
        ),
        (
            "hdfs://no-such-host.invalid/t",
            ConfigError,
            "Hadoop's configuration does not have this NameNode",
        ),
        ("nowhere://b/t", ConfigError, "Spark has no connector for this address"),
    ):
        with pytest.raises(kind, match=f"{uri}.*: {sentence}"):
            Store(store.session, uri).exists(LANDING_LINE)


@pytest.mark.spark
def test_a_table_that_lost_a_commit_is_refused_and_made_anew_as_the_line_says(
    store: Store, tmp_path: Path
) -> None:
    """Else the next night would go on from what is left, with clusters missing in silence."""
    shutil.copytree(SAMPLES / "ghost-broker", tmp_path / "landing")

    def run_night(run: int) -> list[list[Row]]:
        now = Store(store.session, store.root)
        ingest(now, str(tmp_path / "landing"), run, lambda said: None)
        refine(now, lambda said: None, run=run)
        silver = (CLUSTER_SNAPSHOT, NODE_ADVERTISEMENT, FINALIZED_FEATURES)
        kept = ("cluster", "observed_at", "texts", "names", "line_id", "feature", "level")
        found = [open_table(store.root, one).to_pyarrow_table() for one in (LANDING_LINE, *silver)]
        return [in_order(one.select([n for n in kept if n in one.column_names])) for one in found]

    before = run_night(RUN)
    max((tmp_path / "tables" / CLUSTER_SNAPSHOT.path / "_delta_log").glob("*.json")).write_bytes(
        b""
    )
    with pytest.raises(SurroundingsError, match=r"^table silver.cluster_snapshot.*Restore it"):
        run_night(RUN + 1)
    shutil.rmtree(tmp_path / "tables" / "silver")
    assert run_night(RUN + 2) == before


def test_a_spark_that_is_not_known_is_refused_before_it_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.3.0")
    with pytest.raises(
        ConfigError,
        match=r"^featurelib has no Delta jars for Spark 4\.3\.0, only for 4\.0, 4\.1 or 4\.2\. ",
    ):
        open_session("nobody sees it")


def test_a_cluster_s_spark_has_to_be_of_the_release_of_this_python_s() -> None:
    expect_one_spark("4.0.4", "4.0.2")
    with pytest.raises(
        ConfigError, match=r"Spark 4\.0\.2 runs, and this Python has pyspark 4\.2\.0"
    ):
        expect_one_spark("4.2.0", "4.0.2")


def test_every_spark_has_its_own_jar_of_one_delta() -> None:
    assert len({jar.version for jar in all_jars()}) == 1
    for spark in ("4.0.2", "4.1.4", "4.2.0"):
        names = [jar.name for jar in jars_for(spark)]
        assert names == [f"delta-spark_{spark[:3]}_2.13", "delta-storage"]
