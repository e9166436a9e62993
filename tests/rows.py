"""Rows of a schema from plain values, and as Arrow has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from featurelib.arrow import rows_of, schema_of
from featurelib.rows import TableRows
from featurelib.schema import Schema


def make(values: Iterable[Mapping[str, object]], schema: Schema) -> TableRows:
    """A row for each; a column left out is null."""
    full = [{name: row.get(name) for name in schema.names} for row in values]
    return rows_of(pa.Table.from_pylist(full, schema=schema_of(schema)), schema)


def some(rows: TableRows, *at: int) -> TableRows:
    """The rows at these positions."""
    return rows.take(np.array(at, dtype=np.int64))


def newest(rows: TableRows) -> int:
    """When the newest line of these snapshot rows was read, microseconds."""
    return int(rows.numbers("observed_at").max())
