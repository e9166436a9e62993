"""The tables, as Delta: made, checked, read, appended and kept. Only this module says "delta".

A table is opened before it is used: one written by a newer release, or of another schema, is
refused before anything is written. A commit belongs to a run, carries it, and is made once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from featurelib.errors import ConfigError, NoEvidenceError, TableError
from featurelib.spark.lock import hold_folder
from featurelib.spark.log import Log
from featurelib.tables import Table

# ----------------------------------------
# A table's schema in Spark's types, and rows brought into it.


def spark_schema(table: Table) -> T.StructType:
    """The table's Arrow schema in Spark's types; required columns are NOT NULL."""
    fields = from_arrow_schema(table.schema).fields
    return T.StructType(
        [T.StructField(f.name, f.dataType, f.name not in table.required) for f in fields]
    )


def arrow_type(schema: pa.Schema) -> T.StructType:
    """What an Arrow function hands out, in Spark's types."""
    return from_arrow_schema(schema)


def fit(table: Table, df: DataFrame) -> DataFrame:
    """Exactly the table's columns, in its order and types; what does not fit is an error."""
    return df.select([F.col(f.name).cast(f.dataType) for f in spark_schema(table).fields])


def with_missing(table: Table, df: DataFrame) -> DataFrame:
    """Rows of an earlier release with null in the columns it did not know."""
    missing = [field for field in spark_schema(table).fields if field.name not in df.columns]
    if not missing:
        return df
    return fit(table, df.withColumns({field.name: F.lit(None) for field in missing}))


def column_texts(schema: T.StructType) -> list[str]:
    """`name type` of each column, to be compared."""
    # Not nullability: Delta holds the required columns by itself.
    return [f"{field.name} {field.dataType.simpleString()}" for field in schema.fields]


# ----------------------------------------

VERSION_PROPERTY = "featurelib.tableVersion"
RETENTION_DAYS = 90  # longer than any approved plan lives


class Store:
    """Every table below one URI, through one session."""

    def __init__(self, session: SparkSession, root_uri: str) -> None:
        self.session = session
        self.root = resolve_uri(root_uri)
        self._opened: set[str] = set()  # and as this release reads them
        self._made: set[str] = set()  # and as it writes them

    def path(self, table: Table) -> str:
        return f"{self.root}/{table.path}"

    def exists(self, table: Table) -> bool:
        return DeltaTable.isDeltaTable(self.session, self.path(table))

    def create(self, *tables: Table) -> None:
        """Make the tables that are not there, and check those that are: all checks come first."""
        unknown = [table for table in tables if table.full_name not in self._made]
        if not unknown:
            return
        # Side by side: each is a commit of its own, and most of its time is waiting.
        with ThreadPoolExecutor(max_workers=len(unknown)) as pool:
            there = list(pool.map(self.exists, unknown))
            for table, exists in zip(unknown, there, strict=True):
                if exists:
                    self.check(table)
                    self._add_missing(table)
            absent = [table for table, exists in zip(unknown, there, strict=True) if not exists]
            list(pool.map(self._create, absent))

    def check(self, table: Table) -> None:
        """TableError unless the table is there as this release reads it: an earlier release may
        have known fewer columns, none of them required."""
        if table.full_name in self._opened:
            return
        if not self.exists(table):
            raise NoEvidenceError(
                f"table {table.full_name}: there is none at {self.path(table)}. "
                "Run the job that writes it first: nightly, or ingest, refine, audit in turn."
            )
        self._check_version(table)
        self._check_schema(table)
        self._opened.add(table.full_name)

    def read(self, table: Table, version: int | None = None) -> DataFrame:
        """The table's rows, now or as of one of its versions."""
        self.check(table)
        reader = self.session.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return with_missing(table, reader.load(self.path(table)))

    def append(self, table: Table, df: DataFrame, run: int) -> int:
        """Add one run's rows in one commit; returns the table's version, which holds them."""
        return self._write(table, df, run, mode="append")

    def overwrite(self, table: Table, df: DataFrame, run: int) -> int:
        """Put one run's rows in place of all others, as one commit; returns its version."""
        return self._write(table, df, run, mode="overwrite")

    def add(self, table: Table, files: Sequence[bytes], run: int) -> int:
        """Add one run's rows, packed by featurelib.spark.log, in one commit, as append does."""
        self.create(table)
        log = self._log(table)
        added = [log.put(file, table.skip_by or ()) for file in files]
        version = log.append(added, _application(table), run, _note(run))
        if version is None:
            raise ConfigError(self._say_old_run(table, run, self.newest_run(table)))
        return version

    def version(self, table: Table) -> int:
        """Of the newest commit: what a later reader names to see the same rows."""
        self.check(table)
        return self._log(table).version()

    def newest_run(self, table: Table) -> int | None:
        """The greatest run that wrote the table; None when none did, or it is not there."""
        if not self.exists(table):
            return None
        self.check(table)
        return self._log(table).newest_run(_application(table))

    def newest_of(self, *tables: Table) -> int | None:
        """The greatest run that wrote any of the tables."""
        with ThreadPoolExecutor(max_workers=len(tables)) as pool:
            return max((run for run in pool.map(self.newest_run, tables) if run), default=None)

    def expect_newer(self, run: int, *tables: Table) -> None:
        """ConfigError unless `run` is greater than every run in `tables`."""
        with ThreadPoolExecutor(max_workers=len(tables)) as pool:
            for table, newest in zip(tables, pool.map(self.newest_run, tables), strict=True):
                if newest is not None and run <= newest:
                    raise ConfigError(self._say_old_run(table, run, newest))

    def hold(self, run: int, who: str) -> AbstractContextManager[None]:
        """Keep other runs out of these tables while the block runs; BusyError if one is in.

        Only a local file system is held; `who` is the job.
        """
        if self.root.startswith("file:"):
            return hold_folder(Path(self.root.removeprefix("file:")), run, who)
        return nullcontext()

    def maintain(
        self, table: Table, retention_days: int = RETENTION_DAYS, vacuum: bool = False
    ) -> None:
        """Set how long old versions stay readable; drop the files of older ones if asked."""
        self.check(table)
        log, wanted = self._log(table), _retention(retention_days)
        if any(log.property(key) != value for key, value in wanted.items()):
            pairs = ", ".join(f"'{key}' = '{value}'" for key, value in wanted.items())
            name = self.path(table).replace("`", "``")
            self.session.sql(f"ALTER TABLE delta.`{name}` SET TBLPROPERTIES ({pairs})")
        if vacuum:  # never with RETAIN: that would override the table's own retention
            DeltaTable.forPath(self.session, self.path(table)).vacuum()

    def _create(self, table: Table) -> None:
        builder = DeltaTable.createIfNotExists(self.session).location(self.path(table))
        properties = {
            VERSION_PROPERTY: str(table.version),
            "delta.enableDeletionVectors": "false",  # readers that know only Parquet must be right
            **_retention(RETENTION_DAYS),
        }
        if table.skip_by is not None:
            properties["delta.dataSkippingStatsColumns"] = ",".join(table.skip_by)
        for key, value in properties.items():
            builder = builder.property(key, value)
        builder.addColumns(spark_schema(table)).comment(table.comment).execute()
        self._opened.add(table.full_name)
        self._made.add(table.full_name)

    def _write(self, table: Table, df: DataFrame, run: int, mode: str) -> int:
        """Delta drops a run it has seen without a word, so the newest commit has to be this one."""
        self.create(table)
        log, note = self._log(table), _note(run)
        named = {"txnAppId": _application(table), "userMetadata": note}
        rows = fit(table, df)
        if table.sort_by:
            rows = rows.sortWithinPartitions(*table.sort_by)
        writer = rows.write.format("delta").mode(mode).options(txnVersion=run, **named)
        if table.file_rows is not None:
            writer = writer.option("maxRecordsPerFile", table.file_rows)
        writer.save(self.path(table))
        version = log.version()
        if log.note(version) != note:
            raise ConfigError(self._say_old_run(table, run, self.newest_run(table)))
        return version

    def _check_version(self, table: Table) -> None:
        found = self._log(table).property(VERSION_PROPERTY) or "none"
        if found == str(table.version):
            return
        newer = found.isdecimal() and int(found) > table.version
        remedy = (
            "A newer featurelib wrote it: run that release or a later one."
            if newer
            else "This release cannot read it: name others with --tables (samples: remove build/)."
        )
        raise TableError(
            f"table {table.full_name} at {self.path(table)}: expected {VERSION_PROPERTY} "
            f"{table.version}, found {found}; nothing was written. {remedy}"
        )

    def _check_schema(self, table: Table) -> None:
        schema, columns = spark_schema(table), self._log(table).columns()
        expected, found = column_texts(schema), column_texts(columns)
        known = T.StructType(
            [f for f in schema.fields if not f.nullable or f.name in columns.names]
        )
        if column_texts(known) == found:
            return
        differ = sorted(set(expected) ^ set(found)) or ["the order of columns"]
        raise TableError(
            f"table {table.full_name} at {self.path(table)}: expected columns "
            f"{', '.join(expected)}; found {', '.join(found)} (differs: {'; '.join(differ)}); "
            "nothing was written. Restore that table, or name other tables with --tables."
        )

    def _add_missing(self, table: Table) -> None:
        """Give the table the columns that this release added; rows that are there have null."""
        fields, known = spark_schema(table).fields, self._log(table).columns().names
        for before, field in pairwise(fields):
            if field.name not in known:
                name, of = self.path(table).replace("`", "``"), field.dataType.simpleString()
                self.session.sql(
                    f"ALTER TABLE delta.`{name}` "
                    f"ADD COLUMNS (`{field.name}` {of} AFTER `{before.name}`)"
                )
        self._made.add(table.full_name)

    def _log(self, table: Table) -> Log:
        jvm: Any = self.session._jvm
        return Log(self.session, jvm.org.apache.spark.sql.delta, self.path(table))

    def _say_old_run(self, table: Table, run: int, newest: int | None) -> str:
        return (
            f"run {run}: not greater than run {newest}, the newest in {table.full_name} at "
            f"{self.path(table)}; nothing was written. Leave out --run, or name a later one."
        )


def resolve_uri(root_uri: str) -> str:
    """`root_uri` without a trailing slash; a plain path becomes an absolute `file:` URI."""
    scheme, colon, rest = root_uri.partition(":")
    if colon and scheme != "file" and "/" not in scheme:
        return root_uri.rstrip("/")
    path = rest if scheme == "file" and colon else root_uri
    # One slash: Delta takes file:///x and file:/x for two places (DELTA_AMBIGUOUS_PATHS).
    return "file:" + os.path.abspath("/" + path.lstrip("/") if path.startswith("//") else path)


def _application(table: Table) -> str:
    return f"featurelib/{table.full_name}"


def _note(run: int) -> str:
    """What a commit says of itself, unlike any other's."""
    return json.dumps({"run": run, "commit": uuid4().hex})


def _retention(days: int) -> dict[str, str]:
    keys = ("delta.deletedFileRetentionDuration", "delta.logRetentionDuration")
    return dict.fromkeys(keys, f"interval {days} days")
