"""Read the log of a table, and commit to it.

deltalake reads a table with a path, and commits to it, wherever it is; Spark's SQL and writer do
for a table of a catalog, because the catalog decides its place. Spark's workers read and write the
files of both. Store chooses and checks.
"""

from __future__ import annotations

import functools
import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias
from uuid import uuid4

import deltalake
import pyarrow as pa
from deltalake.exceptions import TableNotFoundError
from deltalake.transaction import AddAction
from pyarrow.fs import FileSelector
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from featurelib import arrow
from featurelib.errors import ConfigError, TableError
from featurelib.faults import damaged, in_a_line
from featurelib.lake import TableReader, files_at
from featurelib.lake import Wanted as Wanted
from featurelib.schema import BYTES, TIME, Scalar
from featurelib.tables import Table

LOCAL = "file:"
PLAIN_WRITER, PLAIN_FEATURES = 4, {"appendOnly", "invariants", "changeDataFeed"}
RULES = ("delta.constraints.", "delta.generationExpression")  # a writer must apply these
CHANGE_FEED = "delta.enableChangeDataFeed"
SMALL_FILES = 200  # a table with more files gets them joined
CODEC: Literal["ZSTD"] = "ZSTD"  # the codec of every table file, by all writers
GROUP_ROWS = 1 << 15  # rows of a file's group: a query for one cluster reads a group or two

Mode = Literal["append", "overwrite"]
Rows: TypeAlias = "DataFrame | pa.Table"  # a Spark DataFrame, or an Arrow table of few rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The newest commit of a table: version, run, schema and properties."""

    version: int
    run: int | None  # the greatest run committed so far; None if none
    schema: T.StructType
    properties: Mapping[str, str]
    commits: Callable[[], Iterable[Commit]]  # all commits, newest first


Commit = tuple[int, str, str | None]  # version, Delta's name of the operation, note of the writer
RECENT = 20  # the commits of a local log that are read first


@functools.cache
def row_schema(table: Table) -> T.StructType:
    """Return a table's columns in Spark's types. All columns and their parts may be null."""
    return from_arrow_schema(arrow.schema_of(table.schema))


def spark_schema(table: Table) -> T.StructType:
    """Return a table's schema in Spark's types, with comments. Required columns are NOT NULL."""
    schema = T.StructType.fromJson(row_schema(table).jsonValue())  # a copy
    for name, field in flatten(schema).items():
        if (comment := table.about.get(name.replace(".element", ""))) is not None:
            field.metadata = {"comment": comment}
        field.nullable = name not in table.required
    return schema


def flatten(schema: T.StructType, prefix: str = "") -> dict[str, T.StructField]:
    """Return name → field, including nested fields with Delta's names (`a.b`, `list.element.b`)."""
    columns: dict[str, T.StructField] = {}
    for field in schema.fields:
        name, kind = f"{prefix}{field.name}", field.dataType
        columns[name] = field
        if isinstance(kind, T.ArrayType):
            name, kind = f"{name}.element", kind.elementType
        if isinstance(kind, T.StructType):
            columns |= flatten(kind, f"{name}.")
    return columns


class PathLog(TableReader):
    """The Delta log of a table at a URI, read and written by deltalake. A commit fails if another
    run committed since `open`."""

    def __init__(
        self, session: SparkSession, table: Table, uri: str, options: Mapping[str, str]
    ) -> None:
        """Open the log of the table at `uri`. `options`: from storage_options."""
        super().__init__(table, uri.removeprefix(LOCAL), options)
        self._session, self._uri = session, uri
        self.name = f"delta.`{uri.replace('`', '``')}`"  # in SQL
        self._head: tuple[deltalake.DeltaTable | None, Head | None] = None, None

    def head(self) -> Head | None:
        """Return the newest commit of the table; None without table."""
        try:
            opened = self.open().opened
        except TableNotFoundError as error:
            if "Unknown scheme" in str(error):
                raise
            return None
        if self._head[0] is not opened:
            head = Head(
                version=opened.version(),
                run=opened.transaction_version(self.table.application),
                schema=_schema_in(opened),
                properties=opened.metadata().configuration,
                commits=functools.partial(_commits, opened),
            )
            self._head = opened, head
        return self._head[1]

    @property
    def _by_spark(self) -> CatalogLog:
        """The log of the table through Spark, because deltalake cannot write the table."""
        return CatalogLog(self._session, self.table, self.name)

    def create(self, properties: Mapping[str, str], replace: bool) -> None:
        """Create the table if it does not exist. `replace`: empty an existing table."""
        deltalake.DeltaTable.create(
            self.place,
            deltalake.Schema.from_json(spark_schema(self.table).json()),
            mode="overwrite" if replace else "ignore",
            description=self.table.comment,
            configuration=properties,
            storage_options=self.options,
            raise_if_key_not_exists=False,  # featurelib's own properties are not known to deltalake
        )

    def set(self, properties: Mapping[str, str]) -> None:
        """Set properties of the table."""
        self._by_spark.set(properties)

    def _add_columns(self, opened: deltalake.DeltaTable) -> None:
        """Add the columns and nested fields that are new in this release; null in existing rows."""
        schema, stored = spark_schema(self.table), flatten(_schema_in(opened))
        parts = flatten(schema)
        for name in parts.keys() & stored.keys():
            parts[name].metadata, parts[name].nullable = {}, stored[name].nullable
        if parts.keys() - stored.keys():  # one commit; Spark would start jobs for each column
            opened.alter.add_columns(deltalake.Schema.from_json(schema.json()).fields)

    def write(self, rows: Rows, run: int, note: str, mode: Mode) -> None:
        """Write the rows of one run as one commit. `overwrite` replaces all rows. A run that is not
        newer than the newest one adds nothing."""
        # A table of its own: the commit fails if any other commit comes first.
        opened = deltalake.DeltaTable(self.place, storage_options=self.options)
        if not _is_plain(opened):
            return self._by_spark.write(rows, run, note, mode)
        newest = opened.transaction_version(self.table.application)
        if newest is not None and run <= newest:
            return None
        self._add_columns(opened)
        commit = deltalake.CommitProperties(
            custom_metadata={"userMetadata": note},
            app_transactions=[deltalake.Transaction(self.table.application, run)],
        )
        if isinstance(rows, pa.Table):
            deltalake.write_deltalake(
                opened,
                rows.select(self.table.schema.names),
                mode=mode,
                schema_mode="merge",  # null in columns of a later release
                commit_properties=commit,
                writer_properties=self._form,
            )
        else:
            added = self._write_files(rows, run)
            opened.create_write_transaction(added, mode, opened.schema(), commit_properties=commit)
        return None

    @property
    def _form(self) -> deltalake.WriterProperties:
        rows = min(GROUP_ROWS, self.table.file_rows or GROUP_ROWS)
        return deltalake.WriterProperties(compression=CODEC, max_row_group_size=rows)

    def clean(self, joining: bool) -> None:
        """Delete files that only old versions need. `joining`: join small files first."""
        opened = self.open().opened
        if joining and _is_plain(opened) and len(opened.file_uris()) > SMALL_FILES:
            opened.optimize.compact(writer_properties=self._form)
        opened.vacuum(dry_run=False, full=True)
        if "://" not in self.place:  # a disk keeps the empty folders of earlier runs
            for folder in Path(self.place).iterdir():
                with suppress(OSError):  # it still has files
                    folder.rmdir()

    def _write_files(self, rows: DataFrame, run: int) -> list[Any]:
        """Let workers write files into the table's folder, and return the files' log entries.
        Spark's own Delta writer would start six jobs to read the log.

        Raises ConfigError if an executor wrote to a folder of its own machine, where no other
        machine could read the table.
        """
        part, observation = f"{run}-{uuid4().hex}", Observation()
        is_null = functools.reduce(operator.or_, map(F.isnull, self.table.required))
        counting = rows.to(row_schema(self.table)).observe(
            observation, F.count(F.lit(1)).alias("rows"), F.count_if(is_null).alias("nulls")
        )
        counting.write.options(**_form(self.table)).parquet(f"{self._uri}/{part}")
        if nulls := observation.get["nulls"]:
            required = ", ".join(sorted(self.table.required))
            raise ValueError(f"{self.table.full_name}: {nulls} rows have null in {required}")
        added = self._find_files(part)
        total = sum(json.loads(e.stats)["numRecords"] for e in added)
        if total != (counted := observation.get["rows"]):
            raise ConfigError(
                f"table {self._uri}: the executors wrote {counted} rows, and the driver sees "
                f"{total} of them; nothing was committed. The executors do not share this "
                "folder: name a place that all machines share with --tables, a share that is "
                "mounted at the same path, hdfs://… or s3a://… (docs/how-to/spark-cluster.md)."
            )
        return added

    def _find_files(self, part: str) -> list[Any]:
        """Return the log entries of all files with rows in a folder of the table."""
        folder, columns = f"{self.place}/{part}", self.table.schema
        plain = [name for name in columns.names if isinstance(columns[name], Scalar)]
        bounded = self.table.skip_by or [name for name in plain if columns[name] != BYTES]
        files = files_at(folder, self.options)
        listed = files.get_file_info(FileSelector("", allow_not_found=True))
        if not any(file.extension == "parquet" for file in listed):
            return []
        deltalake.convert_to_deltalake(
            folder,
            configuration={"delta.dataSkippingStatsColumns": ",".join(bounded)},
            storage_options=self.options,
        )
        with files.open_input_stream(f"_delta_log/{0:020}.json") as stream:
            entries = [json.loads(line).get("add") for line in stream.read().splitlines()]
        files.delete_dir("_delta_log")
        return [
            AddAction(f"{part}/{e['path']}", e["size"], {}, e["modificationTime"], True, e["stats"])
            for e in entries
            if e and json.loads(e["stats"])["numRecords"]
        ]

    def frame(self, conditions: Sequence[Wanted]) -> DataFrame:
        """Return the rows that meet all `conditions`, and possibly further rows."""
        dataset, schema = self.open().dataset, self.table.schema
        if dataset is None:
            return self._by_spark.frame(conditions)
        bounds = arrow.as_expression(schema, arrow.by_bounds(schema, conditions))
        fragments = dataset.get_fragments(bounds)  # files that may have such rows
        files = [escape(f"{self._uri}/{fragment.path}") for fragment in fragments]
        if not files:  # Python's workers would read an empty list otherwise
            empty = arrow.schema_of(schema).empty_table()
            return self._session.createDataFrame(empty, row_schema(self.table))
        return self._session.read.schema(spark_schema(self.table)).parquet(*files)


class CatalogLog:
    """The log of a table in a catalog, read and written through Spark's SQL."""

    def __init__(self, session: SparkSession, table: Table, name: str) -> None:
        self._session, self._table, self.name = session, table, name

    def head(self) -> Head | None:
        if not self._session.catalog.tableExists(self.name):
            return None
        try:
            history = self._session.sql(f"DESCRIBE HISTORY {self.name}")
            rows = history.select("version", "operation", "userMetadata").collect()
        except AnalysisException as error:
            raise TableError(
                f"table {self.name} is not a Delta table: {in_a_line(str(error))}. Use another "
                f"schema with --tables, or rename {self.name}."
            ) from error
        # Sorted here, because Spark would need two jobs.
        commits = sorted(((r.version, r.operation, r.userMetadata) for r in rows), reverse=True)
        if lost := [version for version, operation, _ in commits if operation is None]:
            raise damaged(f"version {min(lost)} of its log is empty", self._table.path)
        notes = [read_note(note) for *_, note in commits]
        runs = [own["run"] for own in notes if own.get("application") == self._table.application]
        properties = self._session.sql(f"SHOW TBLPROPERTIES {self.name}").collect()
        return Head(
            version=commits[0][0],
            run=max(runs, default=None),
            schema=self._session.read.table(self.name).schema,
            properties={row.key: row.value for row in properties},
            commits=lambda: commits,
        )

    def create(self, properties: Mapping[str, str], replace: bool) -> None:
        verb = "CREATE OR REPLACE TABLE" if replace else "CREATE TABLE IF NOT EXISTS"
        comment = self._table.comment.replace("'", "\\'")
        self._session.sql(
            f"{verb} {self.name} ({spark_schema(self._table).toDDL()}) USING delta "
            f"COMMENT '{comment}' TBLPROPERTIES ({pairs(properties)})"
        )

    def frame(self, conditions: Sequence[Wanted]) -> DataFrame:
        del conditions  # Delta itself uses the bounds
        return self._session.read.table(self.name)

    def set(self, properties: Mapping[str, str]) -> None:
        self._session.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ({pairs(properties)})")

    def clean(self, joining: bool) -> None:
        if joining:
            self._session.sql(f"OPTIMIZE {self.name}")
        self._session.sql(f"VACUUM {self.name}")

    def write(self, rows: Rows, run: int, note: str, mode: Mode) -> None:
        if isinstance(rows, pa.Table):
            plain = rows.select(self._table.schema.names)
            rows = self._session.createDataFrame(plain.cast(arrow.schema_of(self._table.schema)))
        fields = spark_schema(self._table).fields
        schema = [T.StructField(f.name, f.dataType, True, f.metadata) for f in fields]
        writing = (
            rows.to(T.StructType(schema))
            .writeTo(self.name)
            .options(
                txnAppId=self._table.application,
                txnVersion=str(run),
                userMetadata=note,
                mergeSchema="true",
                **_form(self._table),
            )
        )
        if mode == "append":
            writing.append()
        else:  # replace() would copy the table's properties
            writing.overwrite(F.lit(True))


# Name of an S3 setting in Hadoop → its name in deltalake.
_S3 = {
    "access.key": "aws_access_key_id",
    "secret.key": "aws_secret_access_key",
    "session.token": "aws_session_token",
    "endpoint": "aws_endpoint",
    "endpoint.region": "aws_region",
}


def storage_options(session: SparkSession, uri: str) -> dict[str, str]:
    """Return deltalake's options for an object store, from Spark's settings."""
    scheme, _, path = uri.partition("://")
    host = path.partition("/")[0]

    def setting(name: str) -> str | None:
        return session.conf.get(f"spark.hadoop.fs.{name}", None)

    options: dict[str, str | None] = {}
    if scheme in ("s3", "s3a"):
        for name, key in _S3.items():
            options[key] = setting(f"s3a.bucket.{host}.{name}") or setting(f"s3a.{name}")
        endpoint = options["aws_endpoint"]
        if endpoint and "://" not in endpoint:
            options["aws_endpoint"] = endpoint = f"https://{endpoint}"
        options["aws_allow_http"] = "true" if (endpoint or "").startswith("http://") else None
    elif scheme in ("abfs", "abfss"):
        account = host.rpartition("@")[2]
        options["azure_storage_account_key"] = setting(f"azure.account.key.{account}")
    return {key: value for key, value in options.items() if value}


def _is_plain(opened: deltalake.DeltaTable) -> bool:
    """Return true if deltalake supports all that a writer of this table needs."""
    protocol = opened.protocol()
    if protocol.writer_features is not None:
        return set(protocol.writer_features) <= PLAIN_FEATURES
    text = f"{opened.metadata().configuration} {opened.schema().to_json()}"
    return protocol.min_writer_version <= PLAIN_WRITER and not any(rule in text for rule in RULES)


def _schema_in(opened: deltalake.DeltaTable) -> T.StructType:
    return T.StructType.fromJson(json.loads(opened.schema().to_json()))


def _commits(opened: deltalake.DeltaTable) -> Iterator[Commit]:
    for limit, skip in ((RECENT, 0), (None, RECENT)):  # the whole log is rarely needed
        for commit in opened.history(limit)[skip:]:
            yield commit["version"], commit["operation"], commit.get("userMetadata")


def read_note(note: str | None) -> dict[str, Any]:
    """Return featurelib's note in a commit; {} if another writer made the commit."""
    try:
        values: dict[str, Any] = json.loads(note or "null")
        return {**values, "run": int(values["run"])}
    except (ValueError, KeyError, TypeError):
        return {}


def escape(path: str) -> str:
    """Return a path with Spark's pattern characters escaped."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", path)


def pairs(properties: Mapping[str, str]) -> str:
    """Return table properties as SQL: `'key' = 'value', …`."""
    return ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())


def _form(table: Table) -> dict[str, str]:
    """Return Spark's options for files of the table: codec and maximum number of rows."""
    rows = {} if table.file_rows is None else {"maxRecordsPerFile": str(table.file_rows)}
    return {"compression": CODEC.lower(), **rows}


def as_column(table: Table, condition: Wanted) -> Column:
    """Return a condition on rows as a Spark column."""
    name, operator, value = condition
    if operator in arrow.NULLS:
        return F.col(name).isNull() if operator == "is null" else F.col(name).isNotNull()
    value = F.timestamp_micros(F.lit(value)) if table.schema[name] is TIME else value
    column: Column = arrow.COMPARED[operator](F.col(name), value)
    return column
