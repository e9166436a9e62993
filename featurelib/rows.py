"""Define rows of a schema as columns: the form of the core's input and output.

A column is one of five, by its type in featurelib.schema: `Numbers` (flags, times and days too),
`Texts`, `Cells` of bytes, `Lists` of texts or rows, `TableRows` of structs. Columns are numpy
arrays, and null is a special number in each. Three rows, of columns `cluster`, `level`, `steps`:

    Texts    words "a", "b"     codes  0  0  1       a, a, b
    Numbers                     values 2  7  NONE    2, 7, null
    Lists    of rows r0, r1     size   2  0  -1      [r0, r1], [], null

The module calculates nothing; other modules read the arrays. featurelib.arrow converts rows to
Arrow's and back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from featurelib.schema import BOOL, BYTES, DATE, TEXT, TIME, Kind, Scalar, Schema

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

NONE = int(np.iinfo(np.int64).min)  # the number that stands for null in a column of numbers
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY = _EPOCH.date().toordinal()


def pick(values: Int, at: Int, absent: int) -> Int:
    """Return `values[at]`, with `absent` where a position is -1."""
    if len(values) == 0:
        return np.full(len(at), absent, dtype=np.int64)
    picked = values[np.maximum(at, 0)]
    picked[at < 0] = absent
    return picked


def spread(first: Int, count: Int) -> tuple[Int, Int]:
    """Return (run of each entry, position of each entry) for runs of positions: run i has
    `count[i]` positions from `first[i]` on."""
    run = np.repeat(np.arange(len(count)), count)
    return run, np.repeat(first - (np.cumsum(count) - count), count) + np.arange(len(run))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Numbers:
    """A column of numbers. `of`: their type, such as microseconds or flags."""

    values: Int
    of: Scalar

    def __len__(self) -> int:
        return len(self.values)

    def take(self, at: Int) -> Numbers:
        """Return the values at the positions `at`; null at position -1."""
        return Numbers(values=pick(self.values, at, NONE), of=self.of)

    def to_pylist(self) -> list[Any]:
        """Return the values as Python values."""
        values = self.values.tolist()
        if self.of is TIME:
            return [None if v == NONE else _EPOCH + timedelta(microseconds=v) for v in values]
        if self.of is DATE:
            return [None if v == NONE else date.fromordinal(v + _FIRST_DAY) for v in values]
        if self.of is BOOL:
            return [None if value == NONE else value > 0 for value in values]
        return [None if value == NONE else value for value in values]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Texts:
    """A column of texts: row i is `words[codes[i]]`, null if the code is -1."""

    words: Sequence[str]
    codes: Int

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, at: Int) -> Texts:
        """Return the texts at the positions `at`; null at position -1."""
        return Texts(words=self.words, codes=pick(self.codes, at, -1))

    def equal(self, text: str) -> Bool:
        """Return a mask of the rows that equal `text`."""
        mask = np.array([*(item == text for item in self.words), False])  # the last is for code -1
        return mask[self.codes]

    def to_pylist(self) -> list[Any]:
        """Return the texts as Python values."""
        words = [*self.words, None]  # the last entry is for code -1
        return [words[code] for code in self.codes.tolist()]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cells:
    """A column of bytes: row i is `data[ends[i]:ends[i + 1]]`. No row is null."""

    data: bytes | memoryview
    ends: Int

    def __len__(self) -> int:
        return len(self.ends) - 1

    @property
    def lengths(self) -> Int:
        """The number of bytes of each row."""
        lengths: Int = np.diff(self.ends)
        return lengths

    def take(self, at: Int) -> Cells:
        """Return the bytes at the positions `at`; empty bytes at position -1."""
        starts, ends = pick(self.ends[:-1], at, 0).tolist(), pick(self.ends[1:], at, 0).tolist()
        cells = zip(starts, ends, strict=True)
        return cells_of([bytes(self.data[start:end]) for start, end in cells])

    def to_pylist(self) -> list[Any]:
        """Return the bytes of each row."""
        data = bytes(self.data)
        return [data[start:end] for start, end in pairwise(self.ends.tolist())]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lists:
    """A column of lists. Row i has the next `size[i]` entries of `of`; size -1 = null."""

    size: Int
    of: Texts | TableRows

    def __len__(self) -> int:
        return len(self.size)

    def take(self, at: Int) -> Lists:
        """Return the lists at the positions `at`; null at position -1."""
        size, count = pick(self.size, at, -1), np.maximum(self.size, 0)
        first = pick(np.cumsum(count) - count, at, 0)
        _, entries = spread(first, np.maximum(size, 0))
        return Lists(size=size, of=self.of.take(entries))

    def to_pylist(self) -> list[Any]:
        """Return the lists as Python values."""
        entries = iter(self.of.to_pylist())
        return [None if n < 0 else [next(entries) for _ in range(n)] for n in self.size.tolist()]


Column = Union[Numbers, Texts, Cells, Lists, "TableRows"]  # TableRows: rows of a struct


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableRows:
    """The rows of a schema: one column per name, all of equal length."""

    schema: Schema
    columns: Mapping[str, Column] = field(repr=False)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def numbers(self, name: str) -> Int:
        """Return the numbers of the column `name`; NONE = null."""
        column = self.columns[name]
        assert isinstance(column, Numbers)
        return column.values

    def texts(self, name: str) -> Texts:
        """Return the text column `name`."""
        column = self.columns[name]
        assert isinstance(column, Texts)
        return column

    def cells(self, name: str) -> Cells:
        """Return the bytes column `name`."""
        column = self.columns[name]
        assert isinstance(column, Cells)
        return column

    def lists(self, name: str) -> Lists:
        """Return the list column `name`."""
        column = self.columns[name]
        assert isinstance(column, Lists)
        return column

    def take(self, at: Int) -> TableRows:
        """Return the rows at the positions `at`; nulls at position -1."""
        return TableRows(
            schema=self.schema, columns={name: of.take(at) for name, of in self.columns.items()}
        )

    def select(self, names: Sequence[str]) -> TableRows:
        """Return the rows with only the columns `names`."""
        columns = {name: self.columns[name] for name in names}
        return TableRows(schema=self.schema.select(names), columns=columns)

    def replace(self, **columns: Column | Int) -> TableRows:
        """Return the rows with these columns replaced."""
        replaced = {name: _column(self.schema[name], values) for name, values in columns.items()}
        return TableRows(schema=self.schema, columns={**self.columns, **replaced})

    def to_pylist(self) -> list[Any]:
        """Return each row as a dictionary of Python values."""
        names = self.schema.names
        values = [self.columns[name].to_pylist() for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def make_rows(schema: Schema, count: int, columns: Mapping[str, Column | Int]) -> TableRows:
    """Return `count` rows of a schema. Columns not in `columns` are null."""
    made = {
        name: _column(kind, columns[name]) if name in columns else nulls(kind, count)
        for name, kind in schema.fields
    }
    return TableRows(schema=schema, columns=made)


def _column(kind: Kind, values: Column | Int) -> Column:
    if not isinstance(values, np.ndarray):
        return values
    assert isinstance(kind, Scalar)
    return Numbers(values=values.astype(np.int64, copy=False), of=kind)


def nulls(kind: Kind, count: int) -> Column:
    """Return a column of `count` nulls."""
    if kind is TEXT:
        return Texts(words=(), codes=np.full(count, -1, dtype=np.int64))
    if kind is BYTES:
        return Cells(data=b"", ends=np.zeros(count + 1, dtype=np.int64))
    if isinstance(kind, Scalar):
        return Numbers(values=np.full(count, NONE, dtype=np.int64), of=kind)
    if isinstance(kind, Schema):
        return make_rows(kind, count, {})
    element = make_rows(kind.of, 0, {}) if isinstance(kind.of, Schema) else nulls(kind.of, 0)
    assert isinstance(element, Texts | TableRows)
    return Lists(size=np.full(count, -1, dtype=np.int64), of=element)


def numbers_of(values: Iterable[int | None]) -> Int:
    """Return numbers as an array for a column; None becomes NONE."""
    return np.array([NONE if value is None else value for value in values], dtype=np.int64)


def texts_of(values: Iterable[str | None]) -> Texts:
    """Return texts as a column; None becomes null."""
    position: dict[str, int] = {}
    codes = [-1 if text is None else position.setdefault(text, len(position)) for text in values]
    return Texts(words=[*position], codes=np.array(codes, dtype=np.int64))


def lists_of(values: Sequence[Sequence[str]]) -> Lists:
    """Return lists of texts as a column."""
    size = np.array([len(texts) for texts in values], dtype=np.int64)
    return Lists(size=size, of=texts_of(text for texts in values for text in texts))


def cells_of(values: Sequence[bytes]) -> Cells:
    """Return a sequence of bytes as a column."""
    ends = np.cumsum([0, *map(len, values)], dtype=np.int64)
    return Cells(data=b"".join(values), ends=ends)


def join_rows(parts: Sequence[TableRows]) -> TableRows:
    """Return the rows of all `parts` in order. They have one schema; at least one is needed."""
    schema = parts[0].schema
    joined = {name: _join([part[name] for part in parts]) for name in schema.names}
    return TableRows(schema=schema, columns=joined)


def _join(parts: Sequence[Any]) -> Any:
    """Return columns of one type, or rows of one schema, joined in order."""
    match parts[0]:
        case Numbers(of=kind):
            return Numbers(values=np.concatenate([part.values for part in parts]), of=kind)
        case Texts():
            return join_texts(parts)
        case Cells():
            return cells_of([cell for part in parts for cell in part.to_pylist()])
        case Lists():
            size = np.concatenate([part.size for part in parts])
            return Lists(size=size, of=_join([part.of for part in parts]))
        case _:
            return join_rows(parts)


def join_texts(parts: Sequence[Texts]) -> Texts:
    """Return text columns joined in order. Each distinct word is stored once."""
    first: dict[int, int] = {}
    words: list[str] = []
    codes: list[Int] = []
    for part in parts:
        if id(part.words) not in first:
            first[id(part.words)] = len(words)
            words += part.words
        codes.append(np.where(part.codes < 0, -1, part.codes + first[id(part.words)]))
    return Texts(words=words, codes=np.concatenate(codes))
