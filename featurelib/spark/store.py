"""The tables, as Delta: made, checked, read, appended, kept, and held by one run at a time.

A table is opened before it is used: one written by a newer release, or of another schema, is
refused before anything is written. One of an earlier release is read as it is, with null in the
columns it did not know, and gets them when it is written to. Columns that only a later release
knows stay, and are null in what this one writes. A commit belongs to a run, carries it, and is
made once.

What the log of a table says, and its small commits, take two roads, both public. Tables on a local
disk are asked and appended to by `deltalake`, beside Spark: the newest commit is known in 3 ms and
a commit made in 10, where Spark starts jobs. Wherever else Spark writes (hdfs://, s3a://, …) Spark
and Delta do it themselves, so that one set of credentials and one LogStore hold. Why, and what two
writers do to each other: docs/decisions/0012-two-roads-to-a-log.md.

Two drivers can both win a commit: hold.py keeps the second out.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import deltalake
import pyarrow as pa
from delta.tables import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyarrow import parquet
from pyarrow.dataset import Dataset
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from featurelib import arrow
from featurelib.errors import ConfigError, NoEvidenceError, TableError
from featurelib.faults import damaged, explaining
from featurelib.lake import expect_whole_log
from featurelib.spark.executors import Executors
from featurelib.spark.hold import LOCK_NAME, hold_folder, hold_remote
from featurelib.spark.wanted import Wanted, as_column, as_expression, by_bounds
from featurelib.tables import Table

VERSION_PROPERTY = "featurelib.tableVersion"
RETENTION_DAYS = 90  # longer than any approved plan lives
LOCAL = "file:"
GROUP_ROWS = 1 << 15  # of a file: whoever asks for one cluster reads a group or two

Mode = Literal["append", "overwrite"]


class Store:
    """Every table below one URI, through one session."""

    def __init__(self, session: SparkSession, root_uri: str) -> None:
        self.session = session
        self.root = resolve_uri(root_uri)
        self._made: set[str] = set()  # as this release writes them
        self._expect: list[Callable[[], None]] = []  # what has to hold before a commit

    def path(self, table: Table) -> str:
        return f"{self.root}/{table.path}"

    def exists(self, table: Table) -> bool:
        return self._head(table) is not None

    def create(self, *tables: Table) -> None:
        """Make the tables that are not there, and check those that are: all checks come first."""
        heads = [
            (table, self._head(table)) for table in tables if table.full_name not in self._made
        ]
        for table, head in heads:
            if head is not None:
                self._check(table, head)
        self._expect_fit()
        for table, head in heads:
            with explaining(self.path(table)):
                if head is None or _is_outdated(table, head):
                    self._log(table).create(_properties(table), replace=head is not None)
                else:
                    self._carry_over(table, head)
            self._made.add(table.full_name)

    def check(self, table: Table) -> Head:
        """TableError unless the table is there as this release reads it: an earlier release may
        have known fewer columns, none of them required."""
        head = self._head(table)
        if head is None:
            raise NoEvidenceError(
                f"table {table.full_name}: there is none at {self.path(table)}. "
                "Run the job that writes it first: nightly, or ingest, refine, audit in turn."
            )
        self._check(table, head)
        return head

    def read(
        self, table: Table, version: int | None = None, wanted: Sequence[Wanted] = ()
    ) -> DataFrame:
        """The table's rows for which all of `wanted` holds, now or as of one of its versions. Files
        whose bounds in the log exclude it are not opened."""
        self._expect_readable(table)
        found = self._log(table).frame(self.session, version, wanted)
        missing = {name: F.lit(None) for name in table.schema.names if name not in found.columns}
        rows = (
            fit(table, found.withColumns(missing)) if missing else found.select(*table.schema.names)
        )
        return rows.filter(as_column(table, wanted)) if wanted else rows

    def fetch(
        self,
        table: Table,
        wanted: Sequence[Wanted] = (),
        columns: Sequence[str] | None = None,
        version: int | None = None,
    ) -> pa.Table:
        """The same rows in the driver's memory: for what is known to be few."""
        names = list(columns or table.schema.names)
        log = self._log(table)
        if isinstance(log, LocalLog):
            self._expect_readable(table)
            with explaining(self.path(table)):
                opened = log.dataset(version)
            if opened is not None:
                return log.fetch(opened, wanted, names)
        # Not Spark's own idea of these types, which is another for times and what may be null.
        types = arrow.schema_of(table.schema.select(names))
        return self.read(table, version, wanted).select(*names).toArrow().cast(types)

    def weigh(self, table: Table, wanted: Sequence[Wanted] = ()) -> int | None:
        """Bytes of the files that may hold such rows, unpacked: a line of 16 MB may be stored in
        some kB. None = nobody can say without a job of Spark's."""
        log = self._log(table)
        if not isinstance(log, LocalLog) or (opened := log.dataset(None)) is None:
            return None
        with explaining(self.path(table)):
            footers = (parquet.read_metadata(path) for path in log.files(opened, wanted))
            groups = (foot.row_group(at) for foot in footers for at in range(foot.num_row_groups))
            weight: int = sum(group.total_byte_size for group in groups)
            return weight

    def _expect_readable(self, table: Table) -> None:
        if _is_outdated(table, self.check(table)):
            raise NoEvidenceError(
                f"table {table.full_name} at {self.path(table)}: an earlier featurelib wrote it, "
                "in a form of its own. Run nightly, or refine: both make it anew from bronze."
            )

    def append(self, table: Table, df: DataFrame, run: int) -> int:
        """Add one run's rows in one commit; returns the table's version, which holds them."""
        return self._write(table, df, run, mode="append")

    def overwrite(self, table: Table, df: DataFrame, run: int) -> int:
        """Put one run's rows in place of all others, as one commit; returns its version."""
        return self._write(table, df, run, mode="overwrite")

    def add(self, table: Table, rows: pa.Table, run: int, mode: Mode = "append") -> int:
        """Add one run's rows that the driver holds, in one commit, as append does; or put them in
        place of all others, as overwrite does."""
        self.create(table)
        self._expect_fit()
        note = _note(table, run)
        if table.sort_by:
            rows = rows.sort_by([(name, "ascending") for name in table.sort_by])
        with explaining(self.path(table)):
            self._log(table).add(rows, run, note, mode)
        return self._committed(table, run, note)

    def version(self, table: Table) -> int:
        """Of the newest commit: what a later reader names to see the same rows."""
        return self.check(table).version

    def newest_run(self, table: Table) -> int | None:
        """The greatest run that wrote the table; None when none did, or it is not there."""
        head = self._head(table)
        if head is None:
            return None
        self._check(table, head)
        return head.run

    def expect_ahead(self, table: Table, *others: Table) -> None:
        """SurroundingsError where `others`, which are written after `table`, know a later run than
        it: commits of it are lost."""
        newest = self.newest_run(table)
        for other in others:
            known = self.newest_run(other)
            if known is not None and known > (newest or 0):
                said = f"its newest run is {newest or 'none'}, {other.full_name} knows run {known}"
                raise damaged(said, self.path(table))

    def newest_of(self, *tables: Table) -> int | None:
        """The greatest run that wrote any of the tables."""
        return max((run for run in map(self.newest_run, tables) if run), default=None)

    def expect_newer(self, run: int, *tables: Table) -> None:
        """ConfigError unless `run` is greater than every run in `tables`."""
        for table in tables:
            newest = self.newest_run(table)
            if newest is not None and run <= newest:
                raise ConfigError(self._say_old_run(table, run, newest))

    @contextmanager
    def hold(self, run: int, who: str, say: Callable[[str], None]) -> Iterator[None]:
        """Keep other runs out of these tables while the block runs; BusyError if one is in.

        `who` is the job. Executors that lack what they need are refused: ConfigError.
        """
        with ExitStack() as stack:
            if self.root.startswith(LOCAL):
                folder = Path(self.root.removeprefix(LOCAL))
                token = stack.enter_context(hold_folder(folder, run, who))
                executors = Executors(self.session, folder / LOCK_NAME, token)
                self._expect = [partial(executors.expect, say)]
            else:
                lease = hold_remote(self.session, self.root, run, who, say)
                stack.enter_context(lease.held())
                executors = Executors(self.session, None, "")
                self._expect = [partial(executors.expect, say), lease.expect]
            stack.callback(self._expect.clear)
            self._expect_fit()
            yield

    def _expect_fit(self) -> None:
        """Before every commit: BusyError where another run may have these tables by now, and
        ConfigError where an executor does not see them."""
        for expect in self._expect:
            expect()

    def maintain(
        self, table: Table, retention_days: int = RETENTION_DAYS, vacuum: bool = False
    ) -> None:
        """Set how long old versions stay readable; drop the files of older ones if asked."""
        known, wanted = self.check(table).properties, _retention(retention_days)
        if any(known.get(key) != value for key, value in wanted.items()):
            alter(self.session, self.path(table), f"SET TBLPROPERTIES ({pairs(wanted)})")
        if vacuum:  # never with RETAIN: that would override the table's own retention
            DeltaTable.forPath(self.session, self.path(table)).vacuum()

    def _write(self, table: Table, df: DataFrame, run: int, mode: str) -> int:
        self.create(table)
        note = _note(table, run)
        rows = df.sortWithinPartitions(*table.sort_by) if table.sort_by else df
        writing = writer(rows, table, run, note).mode(mode)
        if table.file_rows is not None:
            writing = writing.option("maxRecordsPerFile", table.file_rows)
        self._expect_fit()
        with explaining(self.path(table)):
            writing.save(self.path(table))
        return self._committed(table, run, note)

    def _committed(self, table: Table, run: int, note: str) -> int:
        """Delta drops a run it has seen without a word, so the newest commit has to be this one."""
        head = self._head(table)
        if head is None or head.note != note:
            raise ConfigError(self._say_old_run(table, run, None if head is None else head.run))
        return head.version

    def _check(self, table: Table, head: Head) -> None:
        found = head.properties.get(VERSION_PROPERTY, "none")
        if not found.isdecimal() or int(found) > table.version:
            raise TableError(
                f"table {table.full_name} at {self.path(table)}: expected {VERSION_PROPERTY} "
                f"{table.version} or earlier, found {found}; nothing was written. A newer "
                "featurelib wrote it: run that release or a later one."
            )
        if not _is_outdated(table, head):
            self._check_columns(table, head)

    def _check_columns(self, table: Table, head: Head) -> None:
        """Those of an earlier release may lack, those of a later one have more: none required."""
        # Not nullability of what both have: Delta holds the required columns by itself.
        ours, theirs = _types(spark_schema(table)), _types(head.schema)
        needed = {f.name for f in (*spark_schema(table), *head.schema) if not f.nullable}
        differ = [
            f"{name}: expected {ours.get(name, 'none')}, found {theirs.get(name, 'none')}"
            for name in dict.fromkeys((*ours, *theirs))
            if ours.get(name) != theirs.get(name)
            and (name in needed or (name in ours and name in theirs))
        ]
        if differ:
            raise TableError(
                f"table {table.full_name} at {self.path(table)}: column {'; '.join(differ)}; "
                "nothing was written. Restore that table, or name other tables with --tables."
            )

    def _carry_over(self, table: Table, head: Head) -> None:
        """Give the table the columns that this release added; rows that are there have null."""
        missing = [f for f in spark_schema(table).fields if f.name not in head.schema.names]
        if missing:
            columns = ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in missing)
            alter(self.session, self.path(table), f"ADD COLUMNS ({columns})")
        version = {VERSION_PROPERTY: str(table.version)}
        if head.properties[VERSION_PROPERTY] != str(table.version):
            alter(self.session, self.path(table), f"SET TBLPROPERTIES ({pairs(version)})")

    def _head(self, table: Table) -> Head | None:
        with explaining(self.path(table)):
            return self._log(table).head()

    def _log(self, table: Table) -> LocalLog | SparkLog:
        if self.root.startswith(LOCAL):
            return LocalLog(table, self.path(table).removeprefix(LOCAL))
        return SparkLog(self.session, table, self.path(table))

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


def _is_outdated(table: Table, head: Head) -> bool:
    """Whether an earlier release wrote a table that this one makes anew from others."""
    return table.is_rebuilt and head.properties.get(VERSION_PROPERTY) != str(table.version)


def _types(schema: T.StructType) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema.fields}


def _note(table: Table, run: int) -> str:
    """What a commit says of itself, unlike any other's."""
    return json.dumps({"run": run, "application": application(table), "commit": uuid4().hex})


def _properties(table: Table) -> dict[str, str]:
    return {
        VERSION_PROPERTY: str(table.version),
        "delta.enableDeletionVectors": "false",  # readers that know only Parquet must be right
        **_retention(RETENTION_DAYS),
        **({"delta.dataSkippingStatsColumns": ",".join(table.skip_by)} if table.skip_by else {}),
    }


def _retention(days: int) -> dict[str, str]:
    keys = ("delta.deletedFileRetentionDuration", "delta.logRetentionDuration")
    return dict.fromkeys(keys, f"interval {days} days")


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The newest commit of a table."""

    version: int
    run: int | None  # the greatest that was committed; None = none was
    note: str | None  # what its writer left in it
    schema: T.StructType
    properties: Mapping[str, str]


def application(table: Table) -> str:
    """Whose runs Delta counts; a table that is rebuilt counts those of its own version."""
    version = f"@{table.version}" if table.is_rebuilt else ""
    return f"featurelib/{table.full_name}{version}"


def spark_schema(table: Table) -> T.StructType:
    """The table's schema in Spark's types; required columns are NOT NULL."""
    fields = from_arrow_schema(arrow.schema_of(table.schema)).fields
    return T.StructType(
        [T.StructField(f.name, f.dataType, f.name not in table.required) for f in fields]
    )


class LocalLog:
    """Of a table on a local disk."""

    def __init__(self, table: Table, path: str) -> None:
        self._table, self._path = table, path

    def head(self) -> Head | None:
        """The newest commit; None = there is no table."""
        try:
            found = deltalake.DeltaTable(self._path)
        except TableNotFoundError:
            return None
        expect_whole_log(self._path)
        newest = next(iter(found.history(1)), {})
        return Head(
            version=found.version(),
            run=found.transaction_version(application(self._table)),
            note=newest.get("userMetadata"),
            schema=T.StructType.fromJson(json.loads(found.schema().to_json())),
            properties=found.metadata().configuration,
        )

    def create(self, properties: Mapping[str, str], replace: bool) -> None:
        """Make the table unless it is there; `replace` one that is there by an empty one."""
        deltalake.DeltaTable.create(
            self._path,
            self._schema(),
            mode="overwrite" if replace else "ignore",
            description=self._table.comment,
            configuration=properties,
            raise_if_key_not_exists=False,  # of ours it knows nothing
        )

    def add(self, rows: pa.Table, run: int, note: str, mode: Mode) -> None:
        """Add one run's rows as one commit, which carries the run and the note; a run that is not
        greater than the newest adds nothing, without a word."""
        opened = deltalake.DeltaTable(self._path)  # what comes after this is a conflict
        seen = opened.transaction_version(application(self._table))
        if seen is not None and run <= seen:
            return
        deltalake.write_deltalake(
            opened,
            rows.select(self._table.schema.names).cast(self._schema()),
            mode=mode,
            schema_mode="merge",  # columns of a later release are null
            commit_properties=deltalake.CommitProperties(
                custom_metadata={"userMetadata": note},
                app_transactions=[deltalake.Transaction(application(self._table), run)],
            ),
            writer_properties=deltalake.WriterProperties(
                max_row_group_size=min(GROUP_ROWS, self._table.file_rows or GROUP_ROWS)
            ),
        )

    def dataset(self, version: int | None) -> Dataset | None:
        """The files of a version, with their bounds in the log; None = they alone do not say what
        the table holds (deletion vectors, renamed columns), and Delta itself has to be asked."""
        found = deltalake.DeltaTable(self._path, version=version)
        if found.protocol().min_reader_version > 1:
            return None
        # Arrow's own file system: through deltalake's, threads call Python while the process ends.
        return found.to_pyarrow_dataset(filesystem=SubTreeFileSystem(self._path, LocalFileSystem()))

    def files(self, found: Dataset, wanted: Sequence[Wanted]) -> list[str]:
        """The files that may hold such rows."""
        bounds = as_expression(self._table, by_bounds(self._table, wanted))
        return [f"{self._path}/{one.path}" for one in found.get_fragments(bounds)]

    def frame(
        self, session: SparkSession, version: int | None, wanted: Sequence[Wanted]
    ) -> DataFrame:
        """The rows of a version, those at least for which all of `wanted` holds. The log is read
        here: Delta would start some jobs to do it."""
        found = self.dataset(version)
        if found is None:
            return read_delta(session, LOCAL + self._path, version)
        files = [escape(LOCAL + path) for path in self.files(found, wanted)]
        schema = spark_schema(self._table)
        if not files:
            return session.createDataFrame([], schema)
        return session.read.schema(schema).parquet(*files)

    def fetch(self, found: Dataset, wanted: Sequence[Wanted], names: list[str]) -> pa.Table:
        """Rows for which all of `wanted` holds; columns that the table lacks are null."""
        needed = dict.fromkeys((*names, *(name for name, _, _ in wanted)))
        there = [name for name in needed if name in found.schema.names]
        bounds = as_expression(self._table, by_bounds(self._table, wanted))
        with explaining(LOCAL + self._path):
            rows = found.to_table(columns=there, filter=bounds)
        schema = arrow.schema_of(self._table.schema.select(needed))
        lacking = {field.name: pa.nulls(rows.num_rows, field.type) for field in schema}
        filled = [rows[name] if name in there else lacking[name] for name in needed]
        whole = pa.table(filled, names=list(needed)).cast(schema)
        exactly = as_expression(self._table, wanted)
        return (whole if exactly is None else whole.filter(exactly)).select(names)

    def _schema(self) -> pa.Schema:
        needed = self._table.required
        fields = arrow.schema_of(self._table.schema)
        return pa.schema([field.with_nullable(field.name not in needed) for field in fields])


class SparkLog:
    """Of a table wherever Spark writes: through Delta's own commands. As LocalLog."""

    def __init__(self, session: SparkSession, table: Table, uri: str) -> None:
        self._session, self._table, self._uri = session, table, uri

    def head(self) -> Head | None:
        if not DeltaTable.isDeltaTable(self._session, self._uri):
            return None
        table = DeltaTable.forPath(self._session, self._uri)
        commits = table.history().select("version", "userMetadata").orderBy(F.desc("version"))
        newest, *_ = rows = commits.collect()
        runs = [run for row in rows if (run := self._run_in(row.userMetadata)) is not None]
        [detail] = table.detail().select("properties").collect()
        return Head(
            version=newest.version,
            run=max(runs, default=None),
            note=newest.userMetadata,
            schema=table.toDF().schema,
            properties=detail.properties,
        )

    def create(self, properties: Mapping[str, str], replace: bool) -> None:
        if replace:  # by its path, Delta's own createOrReplace only creates
            empty = self._session.createDataFrame([], spark_schema(self._table))
            writing = empty.write.format("delta").mode("overwrite")
            writing.option("overwriteSchema", "true").save(self._uri)
            alter(self._session, self._uri, f"SET TBLPROPERTIES ({pairs(properties)})")
            return
        builder = DeltaTable.createIfNotExists(self._session).location(self._uri)
        for key, value in properties.items():
            builder = builder.property(key, value)
        builder.addColumns(spark_schema(self._table)).comment(self._table.comment).execute()

    def frame(
        self, session: SparkSession, version: int | None, wanted: Sequence[Wanted]
    ) -> DataFrame:
        del wanted  # Delta looks for bounds by itself
        return read_delta(session, self._uri, version)

    def _run_in(self, note: str | None) -> int | None:
        """The run of a commit of ours; one of an earlier release names no application."""
        try:
            left = json.loads(note or "null")
            of = left.get("application", f"featurelib/{self._table.full_name}")
            return int(left["run"]) if of == application(self._table) else None
        except (ValueError, KeyError, TypeError, AttributeError):  # of somebody else
            return None

    def add(self, rows: pa.Table, run: int, note: str, mode: Mode) -> None:
        frame = self._session.createDataFrame(rows)
        writer(frame, self._table, run, note).mode(mode).save(self._uri)


def read_delta(session: SparkSession, uri: str, version: int | None) -> DataFrame:
    """A table by its place, as Delta reads it."""
    reader = session.read.format("delta")
    return (reader if version is None else reader.option("versionAsOf", version)).load(uri)


def escape(path: str) -> str:
    """`path` where Spark takes a pattern."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", path)


def alter(session: SparkSession, uri: str, change: str) -> None:
    """ALTER TABLE, of a table by its place."""
    name = uri.replace("`", "``")
    session.sql(f"ALTER TABLE delta.`{name}` {change}")


def pairs(properties: Mapping[str, str]) -> str:
    """Properties as SQL has them."""
    return ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())


def writer(rows: DataFrame, table: Table, run: int, note: str) -> Any:
    """Spark's writer of one run's rows as one commit, which carries the run and the note."""
    named = {"txnAppId": application(table), "userMetadata": note}
    return fit(table, rows).write.format("delta").options(txnVersion=run, **named)


def fit(table: Table, df: DataFrame) -> DataFrame:
    """Exactly the table's columns, in its order and types; what does not fit is an error."""
    return df.select([F.col(f.name).cast(f.dataType) for f in spark_schema(table).fields])
