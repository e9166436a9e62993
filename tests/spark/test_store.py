"""Tables as Delta, and one run at a time."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import deltalake
import pyarrow as pa
import pytest
from chispa.dataframe_comparer import assert_df_equality
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow import parquet
from pyarrow.fs import FileSystem
from pyspark.errors import ArithmeticException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from featurelib import tables
from featurelib.arrow import schema_of, type_of
from featurelib.errors import (
    BusyError,
    ConfigError,
    NoEvidenceError,
    SurroundingsError,
    TableError,
)
from featurelib.lake import Lake, log_entries
from featurelib.schema import INT, LONG, SHORT, TEXT, TIME, ListOf, Schema, columns
from featurelib.spark import log
from featurelib.spark import store as store_module
from featurelib.spark.hold import Lease
from featurelib.spark.log import (
    CHANGE_FEED,
    Mode,
    Wanted,
    row_schema,
    spark_schema,
    storage_options,
)
from featurelib.spark.store import Store, resolve_uri
from featurelib.tables import AUDIT_RUN, FINDINGS, INGEST_RUN, Table
from tests.spark.nights import at_version

RUN = 20261121000000
THING = Table(
    layer="bronze",
    name="thing",
    comment="It's a thing.",
    grain=("run", "level"),
    schema=Schema.of([("run", LONG), ("level", SHORT), ("note", TEXT)]),
    required=frozenset({"run", "level"}),
)

pytestmark = pytest.mark.spark


def things(session: SparkSession, run: int, *levels: int) -> DataFrame:
    frame = session.createDataFrame(pa.table({"level": pa.array(levels, pa.int64())}))
    return frame.select(F.lit(None).alias("note"), "level", F.lit(run).alias("run"))


@pytest.fixture
def store(request: pytest.FixtureRequest, session: SparkSession, tmp_path: Path) -> Iterator[Store]:
    """Tables by their places, or by their names in a catalog."""
    if getattr(request, "param", "path") == "path":
        yield Store(session, str(tmp_path / "tables"))
        return
    session.sql(f"CREATE SCHEMA spark_catalog.things LOCATION '{tmp_path}/tables'")
    yield Store(session, "spark_catalog.things")
    session.sql("DROP SCHEMA spark_catalog.things CASCADE")


either = pytest.mark.parametrize("store", ["path", "catalog"], indirect=True)


def test_created_table_has_its_schema_comment_version_and_plain_protocol(store: Store) -> None:
    store.create(FINDINGS)
    as_delta_has_it = store.session.read.format("delta").load(store.path(FINDINGS))
    assert as_delta_has_it.schema == spark_schema(FINDINGS)
    outside = DeltaTable(store.path(FINDINGS).removeprefix("file:"))
    assert outside.metadata().description == FINDINGS.comment
    assert outside.metadata().configuration == {
        "featurelib.tableVersion": str(FINDINGS.version),
        "delta.dataSkippingStatsColumns": "run,cluster",
        "delta.enableChangeDataFeed": "true",
        "delta.enableDeletionVectors": "false",
        "delta.deletedFileRetentionDuration": "interval 90 days",
        "delta.logRetentionDuration": "interval 90 days",
    }
    assert (outside.protocol().min_reader_version, outside.protocol().min_writer_version) == (1, 4)


def test_a_sorted_table_lies_in_small_files_each_with_its_own_span(store: Store) -> None:
    table = replace(THING, skip_by=("level",), sort_by=("level",), file_rows=3)
    rows = things(store.session, RUN, 7, 1, 5, 3, 2, 8, 6, 4).coalesce(1)
    store.append(table, rows, RUN)
    outside = DeltaTable(store.path(table).removeprefix("file:"))
    files = pa.table(outside.get_add_actions(flatten=True)).sort_by("min.level").to_pylist()
    assert [(f["min.level"], f["max.level"], f["num_records"]) for f in files] == [
        (1, 3, 3), (4, 6, 3), (7, 8, 2)
    ]  # fmt: skip


def test_append_adds_overwrite_replaces_a_run_counts_once_and_every_version_can_be_read(
    store: Store,
) -> None:
    session = store.session
    store.append(THING, things(session, RUN, 1, 2), RUN)
    before = store.version(THING)
    assert store.append(THING, things(session, RUN + 1), RUN + 1) == before + 1  # of no row
    after = store.overwrite(THING, things(session, RUN + 2, 9), RUN + 2)
    expected = things(session, RUN, 1, 2).to(row_schema(THING))
    there = at_version(store, THING, before)
    assert_df_equality(
        there, expected, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True
    )
    assert [row.level for row in store.read(THING).collect()] == [9]
    assert store.version(THING) == after
    as_delta_has_it = session.read.format("delta").load(store.path(THING))
    assert as_delta_has_it.schema == spark_schema(THING)
    newest, *_ = DeltaTable(store.path(THING).removeprefix("file:")).history(1)
    assert json.loads(newest["userMetadata"])["run"] == RUN + 2 == store.newest_run(THING)
    store.expect_newer(RUN + 3, THING)
    for run in (RUN + 2, RUN + 1):
        with pytest.raises(ConfigError, match=f"run {run}: not greater than run {RUN + 2}"):
            store.expect_newer(run, THING)
        with pytest.raises(ConfigError, match="nothing was written"):
            store.append(THING, things(store.session, run, 2), run)
    assert store.version(THING) == after


NUMBERED = replace(THING, name="numbered", skip_by=("run", "note"))


def numbered(run: int, *notes: str | None) -> pa.Table:
    rows = {"run": [run] * len(notes), "level": range(len(notes)), "note": notes}
    return pa.table(rows, schema=schema_of(NUMBERED.schema))


def test_rows_of_the_driver_are_a_commit_like_any_other(store: Store) -> None:
    store.append(NUMBERED, things(store.session, RUN, 1), RUN)
    before = store.version(NUMBERED)
    assert store.append(NUMBERED, numbered(RUN + 1, "ö", None, "ä"), RUN + 1) == before + 1
    assert store.append(NUMBERED, numbered(RUN + 2), RUN + 2) == before + 2  # of no row
    assert store.newest_run(NUMBERED) == RUN + 2
    rows = [tuple(row) for row in store.read(NUMBERED).orderBy("run", "level").collect()]
    expected = [(RUN, 1, None), (RUN + 1, 0, "ö"), (RUN + 1, 1, None), (RUN + 1, 2, "ä")]
    assert rows == expected
    assert store.read(NUMBERED).filter(F.col("note") == "ä").count() == 1
    outside = DeltaTable(store.path(NUMBERED).removeprefix("file:"))
    assert sorted(row["level"] for row in outside.to_pyarrow_table().to_pylist()) == [0, 1, 1, 2]
    assert json.loads(outside.history(2)[1]["userMetadata"])["run"] == RUN + 1
    noted = pa.table(outside.get_add_actions(flatten=True)).sort_by("min.run").to_pylist()[-1]
    assert (noted["num_records"], noted["min.note"], noted["max.note"]) == (3, "ä", "ö")
    assert (noted["null_count.note"], noted["max.run"]) == (1, RUN + 1)
    for run in (RUN + 2, RUN + 1):
        with pytest.raises(ConfigError, match=f"run {run}: not greater than run {RUN + 2}"):
            store.append(NUMBERED, numbered(run, "b"), run)
    with pytest.raises(DeltaError, match="1 rows failed validation"):  # null in a required column
        store.append(
            NUMBERED, pa.table({"run": [RUN + 9], "level": [None], "note": ["a"]}), RUN + 9
        )
    assert store.version(NUMBERED) == before + 2


def test_files_of_workers_are_in_the_log_with_their_bounds_and_in_the_form_of_all(
    store: Store,
) -> None:
    table = replace(THING, schema=THING.schema.with_last("at", TIME))
    rows = things(store.session, RUN, 3, 5)
    moment = F.when(F.col("level") == 5, F.timestamp_micros(F.lit(1_500_001)))
    store.append(table, rows.withColumn("at", moment).coalesce(1), RUN)
    store.append(table, store.fetch(table), RUN + 1)
    outside = DeltaTable(store.path(table).removeprefix("file:"))
    noted = pa.table(outside.get_add_actions(flatten=True)).to_pylist()
    for file in noted:
        assert (file["num_records"], file["null_count.note"], file["null_count.at"]) == (2, 2, 1)
        assert (file["min.level"], file["max.level"]) == (3, 5)
        assert file["min.at"] == file["max.at"]
        assert file["min.at"].isoformat().startswith("1970-01-01T00:00:01.50000")
        foot = parquet.read_metadata(Path(store.path(table).removeprefix("file:"), file["path"]))
        assert foot.row_group(0).column(0).compression == "ZSTD"
    assert len(noted) == 2
    later: list[Wanted] = [("at", ">", 1_500_001)]
    assert store.fetch(table, later).num_rows == store.read(table, conditions=later).count() == 0
    nothing = rows.withColumn("level", F.lit(None)).withColumn("at", F.lit(None))
    with pytest.raises(ValueError, match=r"^bronze\.thing: 2 rows have null in level, run$"):
        store.append(table, nothing, RUN + 2)


def test_files_that_an_executor_wrote_elsewhere_are_missed_before_the_commit(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that machines do not share: the driver lists what it sees of it."""
    store.append(THING, things(store.session, RUN, 1), RUN)
    version = store.version(THING)
    files_at = log.files_at

    def see_nothing(place: str, options: dict[str, str]) -> FileSystem:
        for file in Path(place).glob("*.parquet"):
            file.unlink()
        return files_at(place, options)

    monkeypatch.setattr(log, "files_at", see_nothing)
    with pytest.raises(ConfigError, match="wrote 1 rows, and the driver sees 0 of them; nothing"):
        store.append(THING, things(store.session, RUN + 1, 1), RUN + 1)
    monkeypatch.undo()
    assert store.version(THING) == version
    assert store.append(THING, things(store.session, RUN + 1, 1), RUN + 1) == version + 1


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_table_with_features_that_deltalake_does_not_write_is_written_by_spark(
    store: Store, mode: Mode
) -> None:
    store.create(THING)
    store.session.sql(
        f"ALTER TABLE {store.in_sql(THING)} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')"
    )
    row = pa.table({"run": [RUN], "level": [1], "note": ["a"]}, schema=schema_of(THING.schema))
    (store.append if mode == "append" else store.overwrite)(THING, row, RUN)
    assert store.newest_run(THING) == RUN
    (store.append if mode == "append" else store.overwrite)(
        THING, things(store.session, RUN + 1, 2), RUN + 1
    )
    found = sorted(row.level for row in store.read(THING).collect())
    assert found == ([1, 2] if mode == "append" else [2])
    with pytest.raises(ConfigError, match="not greater than"):
        store.append(THING, row, RUN)


@either
def test_gold_tells_which_rows_a_run_added_and_deltalake_still_writes_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of before gets the change feed as well; where a user stopped it, it stays off."""
    with monkeypatch.context() as patched:
        patched.setattr(store_module, "GOLD", ())
        store.create(FINDINGS)
    Store(store.session, store.root).create(FINDINGS, AUDIT_RUN)
    off = f"ALTER TABLE {store.in_sql(AUDIT_RUN)} SET TBLPROPERTIES ('{CHANGE_FEED}' = 'false')"
    store.session.sql(off)
    Store(store.session, store.root).create(AUDIT_RUN)
    assert store.check(AUDIT_RUN).properties[CHANGE_FEED] == "false"
    row = {"run": RUN, "cluster": "a", "code": "b", "severity": "info"}
    schema = schema_of(FINDINGS.schema)
    version = store.append(FINDINGS, pa.Table.from_pylist([row], schema=schema), RUN)
    again = pa.Table.from_pylist([row | {"run": RUN + 1}], schema=schema)
    store.append(FINDINGS, store.session.createDataFrame(again), RUN + 1)
    changes = store.session.read.option("readChangeFeed", True).option("startingVersion", version)
    is_named = store.is_named
    found = (
        changes.table(store.path(FINDINGS))
        if is_named
        else changes.format("delta").load(store.path(FINDINGS))
    )
    assert sorted((row.run, row._change_type) for row in found.collect()) == [
        (RUN, "insert"), (RUN + 1, "insert")
    ]  # fmt: skip
    if not is_named:
        engines = store.session.sql(f"DESCRIBE HISTORY {store.in_sql(FINDINGS)} LIMIT 2").collect()
        assert {str(row.engineInfo)[:8] for row in engines} == {"delta-rs"}


def test_small_files_are_joined_where_files_of_old_versions_are_deleted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("featurelib.spark.log.SMALL_FILES", 2)
    table = replace(NUMBERED, layer="gold")
    for of in (table, NUMBERED):
        for run in range(RUN, RUN + 3):
            store.append(of, numbered(run, "a"), run)
    outside = [DeltaTable(store.path(of).removeprefix("file:")) for of in (table, NUMBERED)]
    for vacuum, files in ((False, [3, 3]), (True, [1, 3])):  # bronze stays as it is
        for of in (table, NUMBERED):
            store.maintain(of, vacuum=vacuum)
        for one in outside:
            one.update_incremental()
        assert [len(one.file_uris()) for one in outside] == files
    assert sorted(row.run for row in store.read(table).collect()) == [RUN, RUN + 1, RUN + 2]
    assert store.find_change(table) is None
    store.append(table, numbered(RUN + 3, "b"), RUN + 3)


def test_the_newest_run_is_known_after_checkpoints(store: Store) -> None:
    for run in range(RUN, RUN + 11):
        store.append(NUMBERED, numbered(run, "a"), run)
    outside = DeltaTable(store.path(NUMBERED).removeprefix("file:"))
    outside.create_checkpoint()
    outside.cleanup_metadata()
    assert store.newest_run(NUMBERED) == RUN + 10
    assert store.read(NUMBERED).count() == 11
    store.append(NUMBERED, things(store.session, RUN + 11, 1), RUN + 11)
    assert store.newest_run(NUMBERED) == RUN + 11


def test_two_commits_of_one_run_at_once_are_a_conflict(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one comes while ours has looked and not yet written."""
    store.create(NUMBERED)
    write = deltalake.write_deltalake

    def be_overtaken(*words: object, **options: object) -> None:
        monkeypatch.setattr(deltalake, "write_deltalake", write)
        store.append(NUMBERED, numbered(RUN, "theirs"), RUN)
        write(*words, **options)  # type: ignore[arg-type]  # what they are is not ours

    monkeypatch.setattr(deltalake, "write_deltalake", be_overtaken)
    with pytest.raises(BusyError, match="another run wrote to them at the same time"):
        store.append(NUMBERED, numbered(RUN, "ours"), RUN)
    assert [row.note for row in store.read(NUMBERED).collect()] == ["theirs"]


@either
def test_rows_in_the_drivers_memory_have_the_types_of_the_table(store: Store) -> None:
    table = replace(NUMBERED, schema=NUMBERED.schema.with_last("at", TIME))
    schema = schema_of(table.schema)
    rows = pa.table({"run": [RUN], "level": [1], "note": ["a"], "at": [5]}, schema=schema)
    store.append(table, rows, RUN)
    assert store.fetch(table).equals(rows)
    assert store.fetch(table, columns=["at"]).schema == pa.schema([schema.field("at")])


def test_a_value_that_does_not_fit_its_column_is_an_error(session: SparkSession) -> None:
    with pytest.raises(ArithmeticException, match="CAST_OVERFLOW"):
        things(session, RUN, 40_000).to(row_schema(THING)).collect()


def test_a_table_that_is_not_there_is_no_evidence(store: Store) -> None:
    with pytest.raises(NoEvidenceError, match=r"bronze\.thing: there is none at file:/"):
        store.read(THING)


def test_a_table_of_a_newer_release_is_refused_and_nothing_is_written(store: Store) -> None:
    store.create(replace(THING, version=2))
    other = replace(THING, name="other")
    later = Store(store.session, store.root)
    with pytest.raises(
        TableError, match=r"featurelib\.tableVersion is 2, and this featurelib knows 1"
    ):
        later.create(other, THING)
    with pytest.raises(TableError, match="Use that release of featurelib or a later one"):
        later.append(THING, things(store.session, RUN, 1), RUN)
    assert not store.exists(other)
    assert len(DeltaTable(store.path(THING).removeprefix("file:")).history()) == 1


def test_a_table_of_another_schema_is_refused(store: Store) -> None:
    store.create(replace(THING, schema=Schema.of([("run", LONG), ("level", INT)])))
    with pytest.raises(TableError, match=r"column level: expected smallint, found int; nothing"):
        Store(store.session, store.root).read(THING)
    wider = THING.schema.with_last("x", INT)
    needed = replace(THING, name="other", schema=wider, required=frozenset({"x"}))
    store.create(replace(needed, schema=THING.schema, required=frozenset()))
    with pytest.raises(TableError, match=r"column x: expected int, found none; nothing"):
        Store(store.session, store.root).create(needed)


@either
def test_a_column_of_a_later_release_is_null_before_it_and_in_what_an_earlier_one_writes(
    store: Store,
) -> None:
    """The release before writes, this one does, and the one before once more."""
    fields, pairs = THING.schema.fields, ListOf(of=Schema.of([("key", TEXT), ("value", SHORT)]))
    schema = Schema.of([*fields[:2], ("more", pairs), *fields[2:]])
    wider = replace(THING, version=2, schema=schema)
    three = pa.array([[{"key": "k", "value": 3}]], type_of(pairs))

    def of(run: int) -> pa.Table:
        return pa.table({"run": [run], "level": [1], "note": ["a"]}, schema=schema_of(THING.schema))

    store.append(THING, of(RUN), RUN)
    before = store.version(THING)
    later = Store(store.session, store.root)
    assert [(row.level, row.more) for row in later.read(wider).collect()] == [(1, None)]
    assert later.version(wider) == before  # nothing was written
    later.append(wider, of(RUN + 1).append_column("more", three), RUN + 1)
    assert later.read(wider).schema.names == wider.schema.names
    found = {row.run: row.more for row in later.read(wider).collect()}
    assert found == {RUN: None, RUN + 1: [("k", 3)]}
    assert at_version(later, wider, before).columns == THING.schema.names
    again = replace(THING, version=2)  # a release that knows the version and not the column
    earlier = Store(store.session, store.root)
    earlier.append(again, of(RUN + 2), RUN + 2)
    earlier.append(again, things(store.session, RUN + 3, 5), RUN + 3)
    assert earlier.read(again).columns == again.schema.names
    assert {row.run: row.more for row in later.read(wider).collect()} == {
        **found, RUN + 2: None, RUN + 3: None
    }  # fmt: skip
    assert earlier.newest_run(again) == RUN + 3
    with pytest.raises(ConfigError, match="not greater than"):
        earlier.append(again, of(RUN + 3), RUN + 3)


@either
def test_a_fact_of_a_later_release_is_null_before_it_and_in_what_an_earlier_one_writes(
    store: Store,
) -> None:
    """A struct and a list of rows get a part more, before the others."""

    def with_parts(names: str) -> Table:
        of = columns(names)
        schema = Schema.of([*THING.schema.fields, ("facts", of), ("steps", ListOf(of=of))])
        return replace(THING, schema=schema)

    def rows(table: Table, run: int, facts: dict[str, str]) -> pa.Table:
        row = {"run": run, "level": 1, "note": None, "facts": facts, "steps": [facts]}
        return pa.Table.from_pylist([row], schema=schema_of(table.schema))

    def read(store: Store, table: Table) -> dict[int, tuple[Any, Any]]:
        wanted = {row["run"]: (row["facts"], row["steps"]) for row in store.rows(table).to_pylist()}
        frame = store.read(table)
        assert frame.schema[-2].dataType == spark_schema(table)[-2].dataType
        got = {row["run"]: row for row in (row.asDict(recursive=True) for row in frame.collect())}
        assert {run: (row["facts"], row["steps"]) for run, row in got.items()} == wanted
        return wanted

    old, new = with_parts("reason"), with_parts("cause reason")
    store.append(old, rows(old, RUN, {"reason": "r"}), RUN)
    before = store.version(old)
    later = Store(store.session, store.root)
    first = {"cause": None, "reason": "r"}
    assert read(later, new) == {RUN: (first, [first])}
    assert later.version(new) == before  # nothing was written
    both = {"cause": "c", "reason": "s"}
    later.append(new, rows(new, RUN + 2, both), RUN + 2)
    later.append(new, store.session.createDataFrame(rows(new, RUN + 3, both)), RUN + 3)
    expected = {
        RUN: (first, [first]), RUN + 2: (both, [both]), RUN + 3: (both, [both])
    }  # fmt: skip
    assert read(later, new) == expected
    earlier = Store(store.session, store.root)  # the release before, once more
    earlier.append(old, rows(old, RUN + 4, {"reason": "t"}), RUN + 4)
    earlier.append(old, store.session.createDataFrame(rows(old, RUN + 5, {"reason": "t"})), RUN + 5)
    assert read(earlier, old)[RUN + 2] == ({"reason": "s"}, [{"reason": "s"}])
    last = {"cause": None, "reason": "t"}
    assert read(later, new) == expected | {run: (last, [last]) for run in (RUN + 4, RUN + 5)}
    other = replace(THING, schema=THING.schema.with_last("facts", Schema.of([("reason", SHORT)])))
    with pytest.raises(TableError, match=r"column facts\.reason: expected smallint, found string;"):
        Store(store.session, store.root).read(other)


@either
def test_a_table_that_is_rebuilt_is_empty_for_the_release_after(
    store: Store,
) -> None:
    old = replace(THING, is_rebuilt=True)
    new = replace(old, version=2, schema=Schema.of([("run", LONG), ("level", TEXT)]))
    store.append(old, things(store.session, RUN, 1), RUN)
    later = Store(store.session, store.root)
    assert later.newest_run(new) is None
    with pytest.raises(NoEvidenceError, match="an earlier featurelib wrote it"):
        later.read(new)
    # The newest night's rows are asked for by their version, too, where no --run was given.
    for version, then in ((None, ""), (0, " Then omit --run.")):
        if store.is_named:
            continue  # a schema is known by its table of runs
        with pytest.raises(
            NoEvidenceError, match=rf"Run the nightly once. It rebuilds the table.{then}$"
        ):
            Lake(store.folder.removeprefix("file:")).read(new, version=version)
    later.create(new)
    assert later.read(new).count() == 0
    assert later.newest_run(new) is None
    later.append(new, pa.table({"run": [RUN], "level": ["a"]}), RUN)  # the same run once more
    assert [row.level for row in later.read(new).collect()] == ["a"]
    with pytest.raises(TableError, match="A newer featurelib"):
        store.read(old)


@either
def test_columns_have_comments_and_those_of_users_stay(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def comments(table: Table) -> dict[str, str]:
        fields = store.session.sql(f"DESCRIBE {store.in_sql(table)}").collect()
        return {row.col_name: row.comment or "" for row in fields}

    store.create(INGEST_RUN)
    about = INGEST_RUN.about.items()
    assert comments(INGEST_RUN) == {name: text for name, text in about if "." not in name}
    sentences = {"columns": {"run": "It's a run."}}
    monkeypatch.setattr(tables, "_sentences", lambda: sentences)
    store.create(THING)
    assert comments(THING) == {"run": "It's a run.", "level": "", "note": ""}
    sentences["columns"] = {"run": "Other words."}  # words of users stay
    later = Store(store.session, store.root)
    later.create(THING)
    types = {"run": pa.int64(), "level": pa.int16(), "note": pa.string()}
    values = {"run": [RUN], "level": [1], "note": ["a"]}
    later.append(
        THING, pa.table({name: pa.array(values[name], types[name]) for name in types}), RUN
    )
    assert comments(THING) == {"run": "It's a run.", "level": "", "note": ""}
    version = later.version(THING)
    Store(store.session, store.root).create(THING)
    assert later.version(THING) == version


@either
def test_parts_of_a_column_have_comments_and_an_earlier_table_gets_new_parts_with_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_facts(names: str) -> Table:
        schema = THING.schema.with_last("facts", columns(names))
        return replace(THING, schema=schema.with_last("steps", ListOf(of=columns(names))))

    def comments(table: Table) -> dict[str, str]:
        parts = log.flatten(store.check(table).schema)
        return {name: field.metadata.get("comment", "") for name, field in parts.items()}

    sentences = {"columns": {"run": "A run."}}
    monkeypatch.setattr(tables, "_sentences", lambda: sentences)
    old, new = with_facts("reason"), with_facts("cause reason")
    store.create(old)
    before = store.version(old)
    sentences["columns"] = {"run": "Other words.", "reason": "It's why.", "cause": "Whence."}
    later = Store(store.session, store.root)
    row = {"run": RUN, "level": 1, "note": "a", "facts": {"cause": "c", "reason": "r"}}
    written = pa.Table.from_pylist([row], schema=schema_of(new.schema))
    after = later.append(new, written, RUN)
    assert comments(new) == {
        "run": "A run.", "level": "", "note": "", "facts": "", "facts.reason": "",
        "facts.cause": "Whence.", "steps": "", "steps.element.reason": "",
        "steps.element.cause": "Whence.",
    }  # fmt: skip
    assert after == before + (1 if store.is_named else 2)
    assert not log.flatten(store.check(new).schema)["run"].nullable
    Store(store.session, store.root).create(new)
    assert later.version(new) == after
    fresh = replace(new, name="fresh")
    later.create(fresh)
    assert comments(fresh)["facts.reason"] == "It's why."


def test_retention_is_set_and_vacuum_keeps_what_is_younger(store: Store) -> None:
    store.append(THING, things(store.session, RUN, 1), RUN)
    store.overwrite(THING, things(store.session, RUN + 1, 2), RUN + 1)
    version = store.version(THING)
    store.maintain(THING)
    assert store.version(THING) == version  # it is so already
    store.maintain(THING, retention_days=30, vacuum=True)
    found = DeltaTable(store.path(THING).removeprefix("file:")).metadata().configuration
    assert found["delta.deletedFileRetentionDuration"] == "interval 30 days"
    assert [row.level for row in at_version(store, THING, version - 1).collect()] == [1]
    assert store.newest_run(THING) == RUN + 1
    store.maintain(THING, retention_days=0, vacuum=True)
    folders = Path(store.path(THING).removeprefix("file:")).glob("[!_]*/")
    assert [folder.name[:14] for folder in folders] == [str(RUN + 1)]


def test_whatever_commits_looks_before_and_after_whether_the_tables_are_still_this_run_s(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[bool] = []
    write = deltalake.write_deltalake

    def look(*_: object) -> None:
        if taken:
            raise BusyError("another run holds them now.")

    def sleep_within(*words: object, **named: object) -> None:
        write(*words, **named)  # type: ignore[arg-type]  # what they are is not ours
        taken.append(True)

    monkeypatch.setattr(Lease, "expect", look)
    row = pa.table({"run": [RUN + 1], "level": [1], "note": ["a"]})
    commits: list[Callable[[], object]] = [
        lambda: store.create(replace(THING, name="other")),
        lambda: store.append(THING, row, RUN + 1),
        lambda: store.append(THING, things(store.session, RUN + 1, 1), RUN + 1),
        lambda: store.maintain(THING, retention_days=30),
        lambda: store.maintain(THING, vacuum=True),
        lambda: store.expect_newer(RUN, THING),  # whose run is another's
    ]
    with store.hold(RUN, "audit", print):
        monkeypatch.setattr("deltalake.write_deltalake", sleep_within)
        with pytest.raises(BusyError, match=r"now\. But version 1 of bronze\.thing, .* may stand"):
            store.append(THING, row, RUN + 1)
        before = store.version(THING)
        for commit in commits:
            with pytest.raises(BusyError, match="another run holds them now"):
                commit()
        assert store.version(THING) == before


@pytest.mark.parametrize("by", ["driver", "workers"])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_of_two_writers_past_the_lock_the_slower_is_told_so_and_adds_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, mode: Mode
) -> None:
    """The other commits after this one has looked at the table, and before it commits."""
    schema = schema_of(THING.schema)
    [mine, theirs] = (pa.table([[run], [1], ["a"]], schema=schema) for run in (RUN, RUN + 1))
    other = Store(store.session, store.root)
    other.create(THING)
    begun, done = tmp_path / "begun", tmp_path / "done"

    def slowly(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begun.touch()
        while not done.exists():
            time.sleep(0.01)
        yield from batches

    def meet() -> None:
        while not begun.exists():
            time.sleep(0.01)
        other.append(THING, theirs, RUN + 1)
        done.touch()

    def write_late(*words: object, **named: object) -> None:
        monkeypatch.undo()
        begun.touch()
        meet()
        deltalake.write_deltalake(*words, **named)  # type: ignore[arg-type]

    with ThreadPoolExecutor() as pool:
        if by == "driver":
            monkeypatch.setattr("deltalake.write_deltalake", write_late)
            write = store.append if mode == "append" else store.overwrite
            writing = pool.submit(write, THING, mine, RUN)
        else:
            frame = store.session.createDataFrame(mine)
            late = frame.mapInArrow(slowly, frame.schema)
            write = store.append if mode == "append" else store.overwrite
            writing = pool.submit(write, THING, late, RUN)
            meet()
        with pytest.raises(BusyError, match="another run wrote to them at the same time"):
            writing.result(60)
    assert [row.run for row in other.read(THING).collect()] == [RUN + 1]


@pytest.mark.parametrize("how", ["over it", "after it", "all gone"])
def test_a_commit_that_is_not_the_newest_of_its_log_was_met_by_another_writer(
    store: Store, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The run is newer than all that are there, so its number is not at fault."""
    store.create(NUMBERED)
    folder = Path(store.path(NUMBERED).removeprefix("file:"))
    write = deltalake.write_deltalake

    def be_met(*words: object, **options: object) -> None:
        write(*words, **options)  # type: ignore[arg-type]  # what they are is not ours
        if how == "over it":
            newest = max(folder.glob("_delta_log/*.json"))
            newest.write_text('{"commitInfo": {"operation": "WRITE"}}')
        elif how == "after it":
            write(folder, numbered(RUN + 9, "theirs"), mode="append")
        else:
            shutil.rmtree(folder)

    monkeypatch.setattr(deltalake, "write_deltalake", be_met)
    version = {"over it": "version 1 of another", "after it": "version 2 of another"}.get(how, "no")
    with pytest.raises(BusyError, match=f"newest commit is not of run {RUN}, but {version}"):
        store.append(NUMBERED, numbered(RUN, "ours"), RUN)


@either
def test_an_empty_entry_of_a_log_is_not_read_past(store: Store) -> None:
    store.append(THING, things(store.session, RUN, 1), RUN)
    name = THING.name_in_schema if store.is_named else THING.path
    folder = Path(store.folder.removeprefix("file:"), name)
    max(folder.glob("_delta_log/*.json")).write_bytes(b"")
    for checked in folder.glob("_delta_log/.*.crc"):
        checked.unlink()
    with pytest.raises(SurroundingsError, match=r"^table bronze\.thing.* is empty\. Restore"):
        Store(store.session, store.root).read(THING)
    with pytest.raises(SurroundingsError, match="json is empty"):
        log_entries(f"file://{folder}")


def test_a_log_is_read_again_only_if_its_files_changed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, read = store.path(THING).removeprefix("file:"), list[int]()
    opening = DeltaTable

    def opened(*args: Any, **options: Any) -> DeltaTable:
        read.append(1)
        return opening(*args, **options)

    def rows() -> list[int]:
        read.clear()
        assert store.version(THING) >= 0
        return sorted(store.fetch(THING)["level"].to_pylist())

    store.append(THING, pa.table(_thing(RUN, 1)), RUN)
    shutil.copytree(place, tmp_path / "before")
    monkeypatch.setattr(deltalake, "DeltaTable", opened)
    assert (rows(), rows(), read) == ([1], [1], [])
    deltalake.write_deltalake(place, pa.table(_thing(RUN, 2)), mode="append")  # of another writer
    assert (rows(), len(read)) == ([1, 2], 1)
    shutil.rmtree(place)
    assert (store.exists(THING), store.newest_run(THING)) == (False, None)
    shutil.copytree(tmp_path / "before", place)  # an older copy
    assert (rows(), store.newest_run(THING)) == ([1], RUN)


def test_a_table_without_rows_is_read_without_a_worker(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    store.create(THING)
    frame = store.read(THING)
    frame.explain()
    assert "LocalTableScan" in capsys.readouterr().out  # a list's rows are made by Python
    assert frame.collect() == []


def _thing(run: int, level: int) -> dict[str, pa.Array]:
    note = pa.array([None], pa.string())
    return {"run": pa.array([run]), "level": pa.array([level], pa.int16()), "note": note}


def test_deltalake_is_told_what_spark_was(session: SparkSession) -> None:
    settings = {
        "s3a.endpoint": "http://s3.example:9000",
        "s3a.access.key": "any",
        "s3a.bucket.b.access.key": "of b",
        "s3a.secret.key": "secret",
        "azure.account.key.a.dfs.core.windows.net": "key",
    }
    spark = Mock()
    spark.conf.get = lambda name, other: settings.get(name.removeprefix("spark.hadoop.fs."), other)
    assert storage_options(spark, "s3a://b/t") == {
        "aws_endpoint": "http://s3.example:9000",
        "aws_allow_http": "true",
        "aws_access_key_id": "of b",
        "aws_secret_access_key": "secret",
    }
    assert storage_options(spark, "s3://c/t")["aws_access_key_id"] == "any"
    settings["s3a.endpoint"] = "s3.example"
    assert storage_options(spark, "s3://c")["aws_endpoint"] == "https://s3.example"
    of_azure = storage_options(spark, "abfss://c@a.dfs.core.windows.net/t")
    assert of_azure == {"azure_storage_account_key": "key"}
    assert storage_options(session, "file:/a") == storage_options(session, "hdfs://n/a") == {}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("/a/b/", "file:/a/b"),
        ("file:/a/b", "file:/a/b"),
        ("file:///a/b/", "file:/a/b"),
        ("a b", f"file:{os.getcwd()}/a b"),
        ("s3a://bucket/a/", "s3a://bucket/a"),
        ("hdfs:/a", "hdfs:/a"),
    ],
)
def test_a_place_has_one_spelling(given: str, expected: str) -> None:
    assert resolve_uri(given) == expected
