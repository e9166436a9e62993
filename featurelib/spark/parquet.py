"""Rows as Parquet files in memory: a worker hands these over, and Spark only carries bytes."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from featurelib.tables import Table


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
