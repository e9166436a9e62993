"""What the log of a table says, and its small commits: two roads, both public.

Tables on a local disk are asked and appended to by `deltalake`, beside Spark: the newest commit is
known in 3 ms and a commit made in 10, where Spark starts jobs. Wherever else Spark writes (hdfs://,
s3a://, …) Spark and Delta do it themselves, so that one set of credentials and one LogStore hold.
Why, and what two writers do to each other: docs/decisions/0012-two-roads-to-a-log.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import deltalake
import pyarrow as pa
from delta.tables import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from featurelib.tables import Table

GROUP_ROWS = 1 << 15  # of a file: whoever asks for one cluster reads a group or two


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
    """The table's Arrow schema in Spark's types; required columns are NOT NULL."""
    fields = from_arrow_schema(table.schema).fields
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

    def append(self, rows: pa.Table, run: int, note: str) -> None:
        """Add one run's rows as one commit, which carries the run and the note; a run that is not
        greater than the newest adds nothing, without a word."""
        opened = deltalake.DeltaTable(self._path)  # what comes after this is a conflict
        seen = opened.transaction_version(application(self._table))
        if seen is not None and run <= seen:
            return
        deltalake.write_deltalake(
            opened,
            rows.select(self._table.schema.names).cast(self._schema()),
            mode="append",
            schema_mode="merge",  # columns of a later release are null
            commit_properties=deltalake.CommitProperties(
                custom_metadata={"userMetadata": note},
                app_transactions=[deltalake.Transaction(application(self._table), run)],
            ),
            writer_properties=deltalake.WriterProperties(max_row_group_size=GROUP_ROWS),
        )

    def _schema(self) -> pa.Schema:
        needed = self._table.required
        return pa.schema([f.with_nullable(f.name not in needed) for f in self._table.schema])


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

    def _run_in(self, note: str | None) -> int | None:
        """The run of a commit of ours; one of an earlier release names no application."""
        try:
            left = json.loads(note or "null")
            of = left.get("application", f"featurelib/{self._table.full_name}")
            return int(left["run"]) if of == application(self._table) else None
        except (ValueError, KeyError, TypeError, AttributeError):  # of somebody else
            return None

    def append(self, rows: pa.Table, run: int, note: str) -> None:
        frame = self._session.createDataFrame(rows)
        writer(frame, self._table, run, note).mode("append").save(self._uri)


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
