"""What is asked of a table's rows, for Spark and for Arrow: all of it has to hold.

Where a file's bounds in the log exclude it, the file is not opened.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

from featurelib.arrow import type_of
from featurelib.schema import TIME
from featurelib.tables import Table

Wanted = tuple[str, str, Any]  # a column, how it compares, with what; times are microseconds
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


def by_bounds(table: Table, wanted: Sequence[Wanted]) -> list[Wanted]:
    """`wanted` by what the log knows of a file: the last of its times is cut to a millisecond."""
    return [
        (name, ">=", of // 1000 * 1000)
        if how in (">", ">=") and table.schema[name] is TIME
        else (name, how, of)
        for name, how, of in wanted
    ]


def _is_null(column: Column | pc.Expression) -> Any:
    return column.isNull() if isinstance(column, Column) else column.is_null()
