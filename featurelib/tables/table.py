"""What a table is: a place, one row's meaning (grain), a schema and a sentence about it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One Delta table of the house.

    `grain` names the columns that tell two rows apart; no two rows agree in all of them.
    `version` grows when the schema changes in a way older releases cannot read. `skip_by` are the
    columns by which readers leave files out; None = Delta's choice, which costs every write more.
    Rows that Spark appends lie in each file by `sort_by`, and no file has more than `file_rows`:
    so whoever asks for one cluster reads a small file or two of each run.
    """

    layer: str
    name: str
    comment: str
    grain: tuple[str, ...]
    schema: pa.Schema
    required: frozenset[str]  # columns that are never null
    version: int = 1
    skip_by: tuple[str, ...] | None = None
    sort_by: tuple[str, ...] = ()
    file_rows: int | None = None

    @property
    def path(self) -> str:
        """Where the table lies below the tables' URI."""
        return f"{self.layer}/{self.name}"

    @property
    def full_name(self) -> str:
        return f"{self.layer}.{self.name}"


def with_run(schema: pa.Schema) -> pa.Schema:
    """`schema` with the run that wrote the row as its first column."""
    return schema.insert(0, pa.field("run", pa.int64()))
