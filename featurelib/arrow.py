"""Convert rows to Arrow and back, and define Arrow's type of each column.

Bytes are not copied on their way in. Texts are stored as positions in a list of words, so that a
word that a thousand rows have is made once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from featurelib.rows import (
    NONE,
    Bool,
    Cells,
    Column,
    Int,
    Lists,
    Numbers,
    TableRows,
    Texts,
    cells_of,
    nulls,
)
from featurelib.schema import BOOL, BYTES, DATE, INT, LONG, SHORT, TEXT, TIME, Kind, ListOf, Scalar
from featurelib.schema import Schema as Columns

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

    from featurelib.lake import Wanted

NULLS = ("is null", "is not null")
COMPARED: dict[str, Callable[[Any, Any], Any]] = {  # comparisons for columns of Arrow and of Spark
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda column, values: column.isin(values),
    "not in": lambda column, values: ~column.isin(values),
}
FAULTS = (pa.ArrowException, OSError)  # errors about missing, damaged or unreadable files
_TYPES = {
    BOOL: pa.bool_(),
    SHORT: pa.int16(),
    INT: pa.int32(),
    LONG: pa.int64(),
    TEXT: pa.string(),
    BYTES: pa.binary(),
    TIME: pa.timestamp("us", tz="UTC"),
    DATE: pa.date32(),
}
_CODED = pa.dictionary(pa.int32(), pa.string())
_STORED = {TIME: pa.int64(), DATE: pa.int32(), BOOL: pa.int8()}  # the types that these are cast to


def type_of(kind: Kind, *, coded: bool = False) -> pa.DataType:
    """Return the Arrow type of a column. `coded`: texts become positions in a word list."""
    if isinstance(kind, Scalar):
        return _CODED if coded and kind is TEXT else _TYPES[kind]
    if isinstance(kind, ListOf):
        return pa.list_(type_of(kind.of, coded=coded))
    return pa.struct(list(schema_of(kind, coded=coded)))


def schema_of(columns: Columns, *, coded: bool = False) -> pa.Schema:
    """Return the Arrow schema of these columns. Every column may be null. `coded`: texts become
    positions in a word list."""
    return pa.schema([(name, type_of(kind, coded=coded)) for name, kind in columns.fields])


def batch_of(rows: TableRows, *, coded: bool = False) -> pa.RecordBatch:
    """Return the rows as an Arrow record batch. `coded`: texts become positions in a word list."""
    schema = schema_of(rows.schema, coded=coded)
    arrays = [_array(rows[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def table_of(rows: TableRows, *, coded: bool = False) -> pa.Table:
    """Return the rows as an Arrow table with one batch. `coded`: texts become positions in a word
    list."""
    return pa.Table.from_batches([batch_of(rows, coded=coded)])


def _array(column: Column, kind: pa.DataType) -> pa.Array:
    match column:
        case Numbers(values=values, of=of):
            plain = _plain(values, values == NONE)
            return plain.cast(_STORED[of]).cast(kind) if of in _STORED else plain.cast(kind)
        case Texts(words=words, codes=codes):
            texts = _bytes(cells_of([word.encode() for word in words]), pa.string())
            places = _plain(codes, codes < 0)
            if kind == _CODED:
                return pa.DictionaryArray.from_arrays(places.cast(_CODED.index_type), texts)
            return texts.take(places)
        case Cells():
            return _bytes(column, kind)
        case Lists(size=size, of=entries):
            ends = np.concatenate(([0], np.cumsum(np.maximum(size, 0)))).astype(np.int32)
            values = _array(entries, kind.value_type)
            buffers = [_valid_bits(size < 0), pa.py_buffer(ends)]
            return pa.Array.from_buffers(kind, len(size), buffers, children=[values])
        case TableRows():
            arrays = [_array(column[field.name], field.type) for field in kind]
            return pa.StructArray.from_arrays(arrays, fields=list(kind))


# Arrays are made from buffers. pa.array and pa.scalar import pandas to inspect their input, and
# that import takes longer than many commands.


def _plain(values: Int, missing: Bool) -> pa.Array:
    """Return numbers as an Arrow int64 array; null where `missing` is true."""
    buffers = [_valid_bits(missing), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.int64(), len(values), buffers)


def _valid_bits(missing: Bool) -> pa.Buffer | None:
    """Return Arrow's validity bitmap; None if no value is missing."""
    return pa.py_buffer(np.packbits(~missing, bitorder="little")) if missing.any() else None


def bytes_of(values: Sequence[bytes | None]) -> pa.Array:
    """Return a sequence of bytes as an Arrow array; None becomes null."""
    missing = np.array([value is None for value in values], dtype=bool)
    return _bytes(cells_of([value or b"" for value in values]), pa.binary(), _valid_bits(missing))


def _bytes(cells: Cells, kind: pa.DataType, validity: pa.Buffer | None = None) -> pa.Array:
    buffers = [validity, pa.py_buffer(cells.ends.astype(np.int32)), pa.py_buffer(cells.data)]
    return pa.Array.from_buffers(kind, len(cells), buffers)


def read(
    dataset: Dataset, columns: Columns, conditions: Sequence[Wanted], names: Sequence[str]
) -> pa.Table:
    """Return the columns `names` of the rows in a dataset that meet all `conditions`.

    `columns`: the schema. Columns that an earlier release did not write are null. Raises one of
    FAULTS."""
    needed = dict.fromkeys((*names, *(name for name, _, _ in conditions)))
    schema, stored = schema_of(columns.select(needed)), dataset.schema
    missing = [field for field in schema if field.name not in stored.names]
    bounds = as_expression(columns, by_bounds(columns, conditions))
    files = dataset.replace_schema(pa.schema([*stored, *missing]))
    try:
        table = files.to_table(columns=[*needed], filter=bounds)
    except pa.ArrowNotImplementedError:
        # deltalake's DELETE, UPDATE and MERGE write texts as string_view, which Arrow reads but
        # cannot compare.
        tables = [file.to_table(schema=files.schema) for file in files.get_fragments(bounds)]
        table = pa.concat_tables([files.schema.empty_table(), *tables]).select([*needed])
    table = table.cast(schema)
    if conditions:
        table = table.filter(as_expression(columns, conditions))
    return table.select(names)


def by_bounds(columns: Columns, conditions: Sequence[Wanted]) -> list[Wanted]:
    """Convert conditions on rows to conditions on the value bounds of files. Delta's log truncates
    the latest time of a file to a millisecond."""
    return [
        (name, ">=", value // 1000 * 1000)
        if operator in (">", ">=") and columns[name] is TIME
        else (name, operator, value)
        for name, operator, value in conditions
    ]


def as_expression(columns: Columns, bounds: Sequence[Wanted]) -> pc.Expression | None:
    """Return one Arrow expression that requires all `bounds`; None if `bounds` is empty."""
    conditions = []
    for name, how, bound in bounds:
        column, kind = pc.field(name), type_of(columns[name])
        if how in NULLS:
            conditions.append(column.is_null() if how == "is null" else column.is_valid())
        else:
            value = pa.array(bound, kind) if isinstance(bound, list) else pa.scalar(bound, kind)
            conditions.append(COMPARED[how](column, value))
    return reduce(operator.and_, conditions) if conditions else None


def rows_of(table: pa.Table | pa.RecordBatch, columns: Columns) -> TableRows:
    """Return an Arrow table as rows with the schema `columns`. A missing column becomes null."""
    filled: dict[str, Column] = {}
    for name, kind in columns.fields:
        array = table.column(name) if name in table.schema.names else None
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        filled[name] = nulls(kind, table.num_rows) if array is None else _column(array, kind)
    return TableRows(schema=columns, columns=filled)


def _column(array: pa.Array, kind: Kind) -> Column:
    if isinstance(kind, Scalar) and array.type not in (_TYPES[kind], _CODED):
        array = array.cast(_TYPES[kind])
    if kind is TEXT:
        coded = array.dictionary_encode()
        return Texts(words=coded.dictionary.to_pylist(), codes=_numbers(coded.indices, -1))
    if kind is BYTES:
        return _cells(array.fill_null(_NO_BYTES) if array.null_count else array)
    if isinstance(kind, Scalar):
        plain = array.cast(_STORED[kind]) if kind in _STORED else array
        return Numbers(values=_numbers(plain, NONE), of=kind)
    if isinstance(kind, Columns):
        return rows_of(pa.RecordBatch.from_struct_array(array), kind)
    entries = _column(array.flatten(), kind.of)
    assert isinstance(entries, (Texts, TableRows))
    return Lists(size=_numbers(array.value_lengths(), -1), of=entries)


_NO_BYTES = _bytes(cells_of([b""]), pa.binary())[0]


def _numbers(array: pa.Array, absent: int) -> Int:
    """Return an Arrow array of whole numbers as int64, with `absent` for null."""
    plain = array.cast(pa.int64())
    validity, values = plain.buffers()
    if len(plain) == 0 or values is None:  # all values are null
        return np.full(len(plain), absent, dtype=np.int64)
    # A buffer may be longer than its values.
    numbers: Int = np.frombuffer(values, np.int64, len(plain), 8 * plain.offset)
    if validity is not None:
        bits = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")[plain.offset :]
        numbers = np.where(bits[: len(plain)], numbers, absent)
    return numbers


def _cells(array: pa.Array) -> Cells:
    """Return an Arrow array of bytes as a column that shares its memory."""
    _, offsets, data = array.buffers()
    if data is None or len(array) == 0:
        return Cells(data=b"", ends=np.zeros(len(array) + 1, dtype=np.int64))
    ends: Int = np.frombuffer(offsets, np.int32)[array.offset :][: len(array) + 1].astype(np.int64)
    return Cells(data=memoryview(data)[int(ends[0]) : int(ends[-1])], ends=ends - ends[0])
