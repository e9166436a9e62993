"""A table's log, asked and appended to without a Spark job.

What SQL answers with jobs of its own (newest version, newest run, columns), the log has in its
newest file. A commit is a list of actions, as the open protocol's JSON; the transaction that
Spark's own writes use puts them into the log, with the same checks, conflicts and checkpoints.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from featurelib.tables import Table

# ----------------------------------------
# Rows as Parquet files in memory: a worker hands these over, and Spark only carries bytes.


class Growing:
    """A file of one table's rows that grows; its memory is that of the compressed rows."""

    def __init__(self, table: Table) -> None:
        self._schema = file_schema(table)
        self._sink = pa.BufferOutputStream()
        # What a reader gets is the table's schema: nothing of Arrow's own is stored.
        self._writer = pq.ParquetWriter(self._sink, self._schema, store_schema=False)
        self._rows = 0

    @property
    def size(self) -> int:
        return int(self._sink.tell())

    def add(self, rows: pa.Table) -> None:
        """Append rows of the table's columns; ArrowInvalid when a required one is null."""
        self._rows += rows.num_rows
        if rows.num_rows:
            self._writer.write_table(rows.cast(self._schema))

    def end(self) -> bytes | None:
        """The file; None when it has no row."""
        self._writer.close()
        return self._sink.getvalue().to_pybytes() if self._rows else None


def file_schema(table: Table) -> pa.Schema:
    """The table's schema; required columns are not nullable."""
    return pa.schema(
        [field.with_nullable(field.name not in table.required) for field in table.schema]
    )


def pack(table: Table, rows: pa.Table) -> list[bytes]:
    """`rows` as the files of one commit: one, or none without rows."""
    growing = Growing(table)
    growing.add(rows)
    file = growing.end()
    return [] if file is None else [file]


def read(file: bytes, schema: pa.Schema) -> pa.Table:
    """The columns of `schema`."""
    return pq.read_table(pa.BufferReader(file), columns=schema.names).cast(schema)


def describe(file: bytes, columns: tuple[str, ...]) -> dict[str, object]:
    """Rows, and the bounds of `columns` (numbers, texts), as a log notes them: readers that want
    other rows leave the file out.
    """
    footer = pq.read_metadata(pa.BufferReader(file))
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    position = {groups[0].column(i).path_in_schema: i for i in range(footer.num_columns)}
    lowest, highest, nulls = {}, {}, {}
    for name in columns:
        found = [group.column(position[name]).statistics for group in groups]
        if all(one is not None and one.has_null_count and one.has_min_max for one in found):
            lowest[name] = min(one.min for one in found)
            highest[name] = max(one.max for one in found)
            nulls[name] = sum(one.null_count for one in found)
    return {
        "numRecords": footer.num_rows,
        "minValues": lowest,
        "maxValues": highest,
        "nullCount": nulls,
    }


# ----------------------------------------


class Log:
    """The log of the table at `uri`. `package` is the JVM's package that holds it."""

    # py4j objects have no types.
    def __init__(self, session: SparkSession, package: Any, uri: str) -> None:
        self._jvm: Any = session._jvm
        self._package = package
        self._log = package.DeltaLog.forTable(session._jsparkSession, uri)

    def version(self) -> int:
        """Of the newest commit; -1 = there is no table."""
        return int(self._newest().version())

    def columns(self) -> T.StructType:
        text = self._newest().metadata().schemaString()
        return T.StructType.fromJson(json.loads(text))

    def property(self, key: str) -> str | None:
        value = self._newest().metadata().configuration().get(key)
        return str(value.get()) if value.isDefined() else None

    def newest_run(self, application: str) -> int | None:
        """The greatest run that `application` committed."""
        return self._run_in(self._newest(), application)

    def note(self, version: int) -> str | None:
        """What the writer of a version left in its commit (`userMetadata`)."""
        path = self._jvm.org.apache.hadoop.fs.Path(self._log.logPath(), f"{version:020}.json")
        lines = self._log.store().read(path, self._hadoop())
        for i in range(lines.size()):
            action = json.loads(lines.apply(i))
            if "commitInfo" in action:
                note = action["commitInfo"].get("userMetadata")
                return None if note is None else str(note)
        return None

    def append(
        self, files: Sequence[Mapping[str, object]], application: str, run: int, note: str
    ) -> int | None:
        """Commit `files` (the protocol's `add`) as a run; returns the version.

        None = that run, or a later one, is in the table. Two that commit for one application at
        once are a conflict.
        """
        transaction = self._log.startTransaction()
        seen = self._run_in(transaction.snapshot(), application)
        if seen is not None and run <= seen:
            return None
        transaction.readTxn().addOne(application)
        txn = {"appId": application, "version": run, "lastUpdated": _now()}
        actions: list[Mapping[str, object]] = [{"txn": txn}, *({"add": file} for file in files)]
        read = self._package.actions.Action.fromJson
        parsed = self._sequence([read(json.dumps(action)) for action in actions])
        return int(transaction.commit(parsed, self._operation(note)))

    def put(self, file: bytes, bounded: tuple[str, ...]) -> Mapping[str, object]:
        """Write a Parquet file of flat rows beside the log; returns what `append` is given.

        Nobody reads it before it is committed. `bounded` are the columns whose bounds are noted.
        """
        name = f"part-{uuid4()}.snappy.parquet"
        self._write(name, file)
        return {
            "path": name,
            "partitionValues": {},
            "size": len(file),
            "modificationTime": _now(),
            "dataChange": True,
            "stats": json.dumps(describe(file, bounded)),
        }

    def _write(self, name: str, content: bytes) -> None:
        folder = self._log.dataPath()
        if folder.toUri().getScheme() == "file":  # without the JVM, which is handed bytes as text
            with open(f"{folder.toUri().getPath()}/{name}", "xb") as file:
                file.write(content)
            return
        path = self._jvm.org.apache.hadoop.fs.Path(folder, name)
        stream = path.getFileSystem(self._hadoop()).create(path, False)
        try:
            stream.write(content)
        finally:
            stream.close()

    def _newest(self) -> Any:
        none = self._jvm.scala.Option.empty()
        return self._log.update(False, none, none)

    def _run_in(self, snapshot: Any, application: str) -> int | None:
        """From the checksum beside the newest commit, if it is there: else Spark reads all."""
        checksum = snapshot.checksumOpt()
        known = checksum.get().setTransactions() if checksum.isDefined() else checksum
        if not known.isDefined():
            found = snapshot.transactions().get(application)
            return int(found.get()) if found.isDefined() else None
        for i in range(known.get().size()):
            transaction = known.get().apply(i)
            if transaction.appId() == application:
                return int(transaction.version())
        return None

    def _operation(self, note: str) -> Any:
        option = self._jvm.scala.Option
        none, append = option.empty(), self._jvm.org.apache.spark.sql.SaveMode.Append
        columns = option.apply(self._sequence([]))
        return self._package.DeltaOperations.Write(
            append, columns, none, option.apply(note), none, none, none, none, none
        )

    def _sequence(self, values: Sequence[object]) -> Any:
        items = self._jvm.java.util.ArrayList()
        for value in values:
            items.add(value)
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(items)

    def _hadoop(self) -> Any:
        return self._log.newDeltaHadoopConf()


def _now() -> int:
    """Milliseconds, as the log counts."""
    return int(time.time() * 1000)
