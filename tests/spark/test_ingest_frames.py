"""The transformations of ingest, on small frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from chispa.dataframe_comparer import assert_df_equality
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from featurelib.errors import LandingError
from featurelib.spark import ingest as module
from featurelib.spark.ingest import check_files, drop_known, mark_repeated, read_lines

pytestmark = pytest.mark.spark


def test_mark_repeated_keeps_the_first_place_of_what_is_not_known(session: SparkSession) -> None:
    columns = "content_hash string, source_file string, line_number int"
    rows = [("n", "b", 1), ("n", "a", 2), ("n", "a", 9), ("k", "a", 1), ("o", "c", 1)]
    found = mark_repeated(
        frame(session, rows, columns), frame(session, [("k",)], "content_hash string")
    )
    expected = frame(
        session,
        [
            ("n", "b", 1, True),
            ("n", "a", 2, False),
            ("n", "a", 9, True),
            ("k", "a", 1, True),
            ("o", "c", 1, False),
        ],
        columns + ", repeated boolean",
    )
    assert_df_equality(found, expected, ignore_row_order=True, ignore_nullable=True)


def test_drop_known_compares_name_size_and_time(session: SparkSession) -> None:
    columns = "source_file string, size bigint, modified_at timestamp"
    at, later = "2026-11-21 00:00:00", "2026-11-21 00:00:01"
    listed = [("a", 1, at), ("b", 1, at), ("c", 1, at), ("d", 1, at)]
    known = [("a", 1, at), ("b", 2, at), ("c", 1, later)]
    runs = (
        frame(session, known, columns)
        .groupBy()
        .agg(F.collect_list(F.struct("source_file", "size", "modified_at")).alias("files"))
    )
    found = drop_known(frame(session, listed, columns), runs)
    assert sorted(row.source_file for row in found.collect()) == ["b", "c", "d"]


def frame(session: SparkSession, rows: list[tuple[Any, ...]], columns: str) -> DataFrame:
    """Rows as SQL literals: no Python worker, and times are cast by Spark itself."""
    names = [column.split()[0] for column in columns.split(", ")]
    types = [column.split()[1] for column in columns.split(", ")]
    arrays = [pa.array(column) for column in zip(*rows, strict=True)]
    df = session.createDataFrame(pa.Table.from_arrays(arrays, names=names))
    return df.select([F.col(name).cast(type_) for name, type_ in zip(names, types, strict=True)])


def test_a_remote_file_too_big_to_cross_is_named() -> None:
    big = Row(source_file="s3a://b/big.jsonl", size=(1 << 30) + 1)
    with pytest.raises(LandingError, match=r"s3a://b/big\.jsonl: .* Split it between two lines"):
        check_files("s3a://b", [big])
    check_files("/b", [Row(source_file="file:/b/big.jsonl", size=1 << 40)])


def test_remote_files_come_through_spark_and_give_the_same_lines(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"not a landing line\n\nanother")
    paths = [f"file:{tmp_path}/a.jsonl"]
    local = read_lines(session, paths)
    monkeypatch.setattr(module, "LOCAL", "none:")
    assert "CAST(NULL" not in plan(read_lines(session, paths)).upper()
    assert_df_equality(read_lines(session, paths), local)


def plan(df: DataFrame) -> str:
    return str(df._jdf.queryExecution().toString())
