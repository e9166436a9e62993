"""Faults of Spark's surroundings, in the words in which Spark said them, are one sentence each."""

from __future__ import annotations

import pytest

from featurelib.errors import BusyError, ConfigError, TableError
from featurelib.spark.session import explain, open_session
from featurelib.spark.versions import all_jars, expect_one_spark, jars_for

TRACE = "\n\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2898)" * 300


@pytest.mark.parametrize(
    ("said", "kind", "sentence"),
    [
        (
            "An error occurred while calling o88.save.\n: java.io.IOException: No space left on "
            "device",
            ConfigError,
            "expected room on the disks that Spark writes to, found none",
        ),
        (
            'java.io.IOException: Cannot run program "/opt/none/python": error=2, No such file',
            ConfigError,
            "the workers cannot start their Python, /opt/none/python. PYSPARK_PYTHON names",
        ),
        (
            "Traceback (most recent call last):\nModuleNotFoundError: No module named 'numpy'\n",
            ConfigError,
            "the workers' Python lacks a package: No module named 'numpy'. PYSPARK_PYTHON names",
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
            "java.lang.RuntimeException: file:/t/silver/x/part-0.c000.zstd.parquet is not a "
            "Parquet file. Expected magic number at tail",
            TableError,
            "a table cannot be read: file:/t/silver/x/part-0.c000.zstd.parquet. A file of it is",
        ),
        (
            "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file "
            "file:///t/bronze/part-1.snappy.parquet. File does not exist.",
            TableError,
            "a table cannot be read: file:///t/bronze/part-1.snappy.parquet. A file of it is",
        ),
        (
            "[DELTA_MISSING_TRANSACTION_LOG] Incompatible format detected.\x1b[2J",
            TableError,
            "a table cannot be read: Incompatible format detected",
        ),
        (
            "Kernel error: Json error: Truncated record whilst reading string\n   0: <unknown>",
            TableError,
            "a table cannot be read: Json error: Truncated record whilst reading string. A file",
        ),
    ],
)
def test_a_fault_of_the_surroundings_is_one_sentence(
    said: str, kind: type[Exception], sentence: str
) -> None:
    found = explain(RuntimeError(said + TRACE))
    assert type(found) is kind
    assert str(found).startswith(sentence)
    assert str(found).isprintable()
    assert len(str(found)) < 600


def test_what_is_not_known_is_a_fault_of_ours() -> None:
    assert explain(RuntimeError("AssertionError: 3 lines by their newlines, but 2 rows")) is None


def test_a_spark_that_is_not_known_is_refused_before_it_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.3.0")
    with pytest.raises(ConfigError, match=r"^Spark: expected 4\.0, 4\.1 or 4\.2, found 4\.3\.0, "):
        open_session("nobody sees it")


def test_a_cluster_s_spark_has_to_be_of_the_release_of_this_python_s() -> None:
    expect_one_spark("4.0.4", "4.0.2")
    with pytest.raises(ConfigError, match=r"expected 4\.2 as the pyspark 4\.2\.0 .* found 4\.0\.2"):
        expect_one_spark("4.2.0", "4.0.2")


def test_every_spark_has_its_own_jar_of_one_delta() -> None:
    assert len({jar.version for jar in all_jars()}) == 1
    for spark in ("4.0.2", "4.1.4", "4.2.0"):
        names = [jar.name for jar in jars_for(spark)]
        assert names == [f"delta-spark_{spark[:3]}_2.13", "delta-storage"]
