"""What the log of a table says, and its small commits, on each of three roads.

A table of a local disk by deltalake, of anywhere else by Spark and Delta: by its place, or of a
catalog by its name. Store chooses and checks; here are the words that each road knows.
"""

from __future__ import annotations

import functools
import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
from delta.tables import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyarrow.dataset import Dataset
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from featurelib import arrow
from featurelib.arrow import type_of
from featurelib.errors import TableError
from featurelib.faults import explaining, in_a_line
from featurelib.lake import Wanted as Wanted
from featurelib.lake import by_bounds, expect_whole_log, log_entries
from featurelib.schema import TIME
from featurelib.spark.session import hadoop
from featurelib.tables import Table

LOCAL = "file:"
GROUP_ROWS = 1 << 15  # of a file: whoever asks for one cluster reads a group or two

Mode = Literal["append", "overwrite"]
_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda column, values: column.isin(values),
    "not in": lambda column, values: ~column.isin(values),
    "is null": lambda column, _: _is_null(column),
    "is not null": lambda column, _: ~_is_null(column),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The newest commit of a table."""

    version: int
    run: int | None  # the greatest that was committed; None = none was
    note: str | None  # what its writer left in it
    schema: T.StructType
    properties: Mapping[str, str]
    commits: Iterable[Commit]  # all, the newest first


Commit = tuple[int, str, str | None]  # version, Delta's name of the operation, writer's note
RECENT = 20  # commits of a local log that are read first


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
        expect_whole_log(log_entries(self._path), self._path)
        newest = next(iter(found.history(1)), {})
        return Head(
            version=found.version(),
            run=found.transaction_version(self._table.application),
            note=newest.get("userMetadata"),
            schema=T.StructType.fromJson(json.loads(found.schema().to_json())),
            properties=found.metadata().configuration,
            commits=_commits(found),
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
        greater than the newest adds nothing, without a word. Texts may be coded: made plain here,
        before they are written, they would fill memory with what stands there a thousand times."""
        opened = deltalake.DeltaTable(self._path)  # what comes after this is a conflict
        seen = opened.transaction_version(self._table.application)
        if seen is not None and run <= seen:
            return
        deltalake.write_deltalake(
            opened,
            rows.select(self._table.schema.names).cast(self._schema(coded=is_coded(rows))),
            mode=mode,
            schema_mode="merge",  # columns of a later release are null
            commit_properties=deltalake.CommitProperties(
                custom_metadata={"userMetadata": note},
                app_transactions=[deltalake.Transaction(self._table.application, run)],
            ),
            writer_properties=deltalake.WriterProperties(
                max_row_group_size=min(GROUP_ROWS, self._table.file_rows or GROUP_ROWS)
            ),
        )

    def write(self, rows: DataFrame, run: int, note: str, mode: Mode) -> None:
        """As add, of rows that Spark has; `overwrite`: in place of all that are there."""
        write(rows, self._table, LOCAL + self._path, run, note, mode)

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
            rows = arrow.scan(found, there, bounds)
        schema = arrow.schema_of(self._table.schema.select(needed))
        lacking = {field.name: pa.nulls(rows.num_rows, field.type) for field in schema}
        filled = [rows[name] if name in there else lacking[name] for name in needed]
        whole = pa.table(filled, names=list(needed)).cast(schema)
        exactly = as_expression(self._table, wanted)
        return (whole if exactly is None else whole.filter(exactly)).select(names)

    def _schema(self, *, coded: bool = False) -> pa.Schema:
        needed = self._table.required
        fields = arrow.schema_of(self._table.schema, coded=coded)
        return pa.schema([field.with_nullable(field.name not in needed) for field in fields])


class SparkLog:
    """Of a table wherever Spark writes: through Delta's own commands. As LocalLog."""

    def __init__(self, session: SparkSession, table: Table, uri: str) -> None:
        self._session, self._table, self._uri = session, table, uri

    def _opened(self) -> DeltaTable | None:
        if not DeltaTable.isDeltaTable(self._session, self._uri):
            return None
        return DeltaTable.forPath(self._session, self._uri)

    def head(self) -> Head | None:
        if (table := self._opened()) is None:
            return None
        rows = table.history().select("version", "operation", "userMetadata").collect()
        newest = max(rows, key=lambda row: row.version)  # sorted by Spark it would take two jobs
        runs = [run for row in rows if (run := self._run_in(row.userMetadata)) is not None]
        commits = sorted(((r.version, r.operation, r.userMetadata) for r in rows), reverse=True)
        [detail] = table.detail().select("location", "properties").collect()
        expect_whole_log(self._entries(detail.location), self._uri)
        return Head(
            version=newest.version,
            run=max(runs, default=None),
            note=newest.userMetadata,
            schema=table.toDF().schema,
            properties=detail.properties,
            commits=commits,
        )

    def _entries(self, location: str) -> list[tuple[str, int]]:
        """Name and size of each file of the log."""
        files, folder = hadoop(self._session, f"{location}/_delta_log")
        return [(one.getPath().getName(), one.getLen()) for one in files.listStatus(folder)]

    def create(self, properties: Mapping[str, str], replace: bool) -> None:
        if replace:  # by its path, Delta's own createOrReplace only creates
            empty = self._session.createDataFrame([], spark_schema(self._table))
            writing = empty.write.format("delta").mode("overwrite")
            writing.option("overwriteSchema", "true").save(self._uri)
            place = "delta.`{}`".format(self._uri.replace("`", "``"))
            alter(self._session, place, f"SET TBLPROPERTIES ({pairs(properties)})")
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
        own = read_note(note)
        of = own.get("application", f"featurelib/{self._table.full_name}")
        return int(own["run"]) if own and of == self._table.application else None

    def add(self, rows: pa.Table, run: int, note: str, mode: Mode) -> None:
        plain = rows.cast(arrow.schema_of(self._table.schema)) if is_coded(rows) else rows
        self.write(self._session.createDataFrame(plain), run, note, mode)

    def write(self, rows: DataFrame, run: int, note: str, mode: Mode) -> None:
        write(rows, self._table, self._uri, run, note, mode)


def _commits(opened: deltalake.DeltaTable) -> Iterator[Commit]:
    for limit, known in ((RECENT, 0), (None, RECENT)):  # the whole log is seldom needed
        for commit in opened.history(limit)[known:]:
            yield commit["version"], commit["operation"], commit.get("userMetadata")


def read_note(note: str | None) -> dict[str, Any]:
    """Return the note of a commit that featurelib made; empty = another writer made the commit."""
    try:
        own: dict[str, Any] = json.loads(note or "null")
        return {**own, "run": int(own["run"])}
    except (ValueError, KeyError, TypeError):
        return {}


def is_coded(rows: pa.Table) -> bool:
    """Whether texts are positions among their words."""
    return any(map(pa.types.is_dictionary, rows.schema.types))


def read_delta(session: SparkSession, uri: str, version: int | None) -> DataFrame:
    """A table by its place, as Delta reads it."""
    reader = session.read.format("delta")
    return (reader if version is None else reader.option("versionAsOf", version)).load(uri)


def escape(path: str) -> str:
    """`path` where Spark takes a pattern."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", path)


class CatalogLog(SparkLog):
    """Of a table of a catalog, by its name as SQL has it. As SparkLog."""

    def _opened(self) -> DeltaTable | None:
        if not self._session.catalog.tableExists(self._uri):
            return None
        try:
            return DeltaTable.forName(self._session, self._uri)
        except PySparkException as error:
            raise TableError(
                f"table {self._uri}: expected one of Delta's, found {in_a_line(str(error))}. Name "
                "another schema with --tables, or move what stands there away."
            ) from error

    def create(self, properties: Mapping[str, str], replace: bool) -> None:
        columns = ", ".join(
            f"`{f.name}` {f.dataType.simpleString()}{'' if f.nullable else ' NOT NULL'}"
            for f in spark_schema(self._table)
        )
        how = "CREATE OR REPLACE TABLE" if replace else "CREATE TABLE IF NOT EXISTS"
        comment = self._table.comment.replace("'", "\\'")
        self._session.sql(
            f"{how} {self._uri} ({columns}) USING delta COMMENT '{comment}' "
            f"TBLPROPERTIES ({pairs(properties)})"
        )

    def frame(
        self, session: SparkSession, version: int | None, wanted: Sequence[Wanted]
    ) -> DataFrame:
        del wanted  # Delta looks for bounds by itself
        reader = session.read if version is None else session.read.option("versionAsOf", version)
        return reader.table(self._uri)

    def write(self, rows: DataFrame, run: int, note: str, mode: Mode) -> None:
        writing = fit(self._table, rows).writeTo(self._uri)
        writing = writing.options(**_options(self._table, run, note))
        if mode == "append":
            writing.append()
        else:  # not replace(), which would take the table's properties along
            writing.overwrite(F.lit(True))


def alter(session: SparkSession, place: str, change: str) -> None:
    """ALTER TABLE, of a table as SQL has it."""
    session.sql(f"ALTER TABLE {place} {change}")


def pairs(properties: Mapping[str, str]) -> str:
    """Properties as SQL has them."""
    return ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())


def _options(table: Table, run: int, note: str) -> dict[str, str]:
    """What a commit of Spark's carries: the run, the note; how large its files may be, and that the
    many of such a table, which every night reads as a whole, unpack in a third of Snappy's time."""
    options = {"txnAppId": table.application, "txnVersion": str(run), "userMetadata": note}
    if table.file_rows is not None:
        options |= {"maxRecordsPerFile": str(table.file_rows), "compression": "lz4_raw"}
    return options


def write(rows: DataFrame, table: Table, uri: str, run: int, note: str, mode: Mode) -> None:
    """Let Spark write one run's rows to a place, as one commit that carries the run and note."""
    writing = fit(table, rows).write.format("delta").options(**_options(table, run, note))
    writing.mode(mode).save(uri)


def fit(table: Table, df: DataFrame) -> DataFrame:
    """Exactly the table's columns, in its order and types; what does not fit is an error."""
    return df.select([F.col(f.name).cast(f.dataType) for f in spark_schema(table).fields])


def as_column(table: Table, wanted: Sequence[Wanted]) -> Column:
    """All of `wanted`, for Spark."""

    def literal(name: str, value: Any) -> Any:
        is_time = table.schema[name] is TIME
        return F.timestamp_micros(F.lit(value)) if is_time else value

    conditions = [_COMPARED[how](F.col(name), literal(name, of)) for name, how, of in wanted]
    found: Column = functools.reduce(operator.and_, conditions)
    return found


def as_expression(table: Table, wanted: Sequence[Wanted]) -> pc.Expression | None:
    """All of `wanted`, for Arrow; None = nothing is wanted."""

    def literal(name: str, value: Any) -> Any:
        kind = type_of(table.schema[name])
        return pa.array(value, kind) if isinstance(value, list) else pa.scalar(value, kind)

    conditions = [_COMPARED[how](pc.field(name), literal(name, of)) for name, how, of in wanted]
    return functools.reduce(operator.and_, conditions) if conditions else None


def _is_null(column: Column | pc.Expression) -> Any:
    return column.isNull() if isinstance(column, Column) else column.is_null()
