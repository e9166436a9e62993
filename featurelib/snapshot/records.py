"""The stored form of snapshot rows, which the core reads: parts of fixed-width records.

A row is a cluster. featurelib.schema.LAYOUT names its parts and their fields; the bytes of a part
are contiguous in one column. So a batch of rows is one array of records per part, read without a
copy. Two clusters, of which the first has three listeners:

    cluster   listeners (bytes)        Snapshots["listeners"]
    a         [3 records]              row     0  0  0  1
    b         [1 record]               node_id 1  2  3  1

Shared values are stored once: `profiles` has the number of `ranges` of each distinct map, and a
listener refers to a map by its position in the row. Names of features and other texts are positions
in two lists of texts; `Snapshots` makes them positions in the lists of the batch.

A checksum guards every row against damage. No other check is needed, because only this module
writes rows. If you change or add a part, raise the version of silver.cluster_snapshot.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from featurelib.rows import (
    NONE,
    Bool,
    Cells,
    Column,
    Int,
    TableRows,
    Texts,
    cells_of,
    make_rows,
    numbers_of,
    pick,
    texts_of,
)
from featurelib.schema import LAYOUT, SNAPSHOT, TEXT_FIELDS

MALFORMED = "snapshot_malformed"  # the finding about an unreadable row
_DAMAGED = "its checksum does not match its content"
_LOST = "it is missing, although the tables have lines of the cluster"
SET_ASIDE = -1  # replaces the checksum if the cluster's lines no longer count
_SET_ASIDE = "bronze.landing_line has lines of the cluster that were quarantined later"
UNUSABLE = -2  # replaces the checksum if featurelib failed; the row's only text is the error
_BYTES = ("names", "texts", *LAYOUT)
_TEXTS = msgspec.msgpack.Decoder(list[str])
_NO_SCALARS = {"controller": -1, "log_gap_end": -1, "migration": -1, "features_node_version": -1}
NODE_GONE = -2  # replaces the version of a deleted znode, whose last text is kept
RecordArray = npt.NDArray[np.void]
Struct = TypeVar("Struct", bound=msgspec.Struct)


def make_records(part: str, rows: Sequence[tuple[object, ...]]) -> RecordArray:
    """Return the records of a part. Each tuple has the values in field order."""
    return np.array(rows, dtype=LAYOUT[part])


def no_scalars() -> RecordArray:
    """Return the `scalars` record for a cluster without data."""
    empty = np.zeros(1, dtype=LAYOUT["scalars"])
    for name, value in _NO_SCALARS.items():
        empty[name] = value
    return empty


@dataclass(slots=True, kw_only=True)
class StoredRow:
    """A snapshot row that can be changed. Parts not in `parts` have no records."""

    cluster: str
    observed_at: int | None
    waiting: int = 0
    features_node: str | None = None
    parts: dict[str, RecordArray] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    state: bytes = b""

    def name_code(self, name: str) -> int:
        """Return the position of a feature name in `names`; append a new name."""
        return _code(self.names, name)

    def text_code(self, text: str | None) -> int:
        """Return the position of a text in `texts`; append a new text. None gives -1."""
        return -1 if text is None else _code(self.texts, text)


def _code(texts: list[str], text: str) -> int:
    if text not in texts:
        texts.append(text)
    return texts.index(text)


def open_row(rows: TableRows) -> StoredRow:
    """Return the only row of `rows` in changeable form, without `state`."""
    [first] = rows.take(np.arange(1)).to_pylist()
    at = int(rows.numbers("observed_at")[0])
    return StoredRow(
        cluster=first["cluster"],
        observed_at=None if at == NONE else at,
        waiting=first["waiting"] or 0,
        features_node=first["features_node"],
        parts={part: np.frombuffer(first[part], layout).copy() for part, layout in LAYOUT.items()},
        names=_decode(first["names"]),
        texts=_decode(first["texts"]),
    )


def write_rows(rows: Sequence[StoredRow]) -> TableRows:
    """Return the rows as stored (featurelib.schema.SNAPSHOT)."""
    columns: dict[str, Column | Int] = {
        "cluster": texts_of(row.cluster for row in rows),
        "observed_at": numbers_of(row.observed_at for row in rows),
        "waiting": np.array([row.waiting for row in rows], dtype=np.int64),
        "features_node": texts_of(row.features_node for row in rows),
        "names": cells_of([msgspec.msgpack.encode(row.names) for row in rows]),
        "texts": cells_of([msgspec.msgpack.encode(row.texts) for row in rows]),
        "state": cells_of([row.state for row in rows]),
    }
    for part, layout in LAYOUT.items():
        empty = np.empty(0, dtype=layout)
        records = [row.parts.get(part, empty) for row in rows]
        lengths = np.array([len(part_records) for part_records in records], dtype=np.int64)
        columns[part] = pack(np.concatenate([empty, *records]), lengths)
    return with_checksum(columns)


def pack(records: RecordArray, lengths: Int) -> Cells:
    """Return the records as a column of bytes. Row i has the next lengths[i] records."""
    ends = np.concatenate(([0], np.cumsum(lengths) * records.dtype.itemsize))
    return Cells(data=records.tobytes(), ends=ends)


def with_checksum(columns: Mapping[str, Column | Int]) -> TableRows:
    """Return rows of SNAPSHOT with checksums. Omitted columns are null."""
    cluster = columns["cluster"]
    assert isinstance(cluster, Texts)
    rows = make_rows(SNAPSHOT, len(cluster), columns)
    return rows.replace(checksum=_checksums(rows))


def _checksums(rows: TableRows) -> Int:
    """Return the correct checksum of each row."""
    waiting, node = rows.numbers("waiting"), rows.texts("features_node")
    heads = [rows.numbers("observed_at"), np.where(waiting == NONE, 0, waiting), node.codes >= 0]
    columns = [_encoded(rows.texts("cluster")), _encoded(node), *map(rows.cells, _BYTES)]
    heads += [column.lengths for column in columns]
    lengths = np.ascontiguousarray(np.stack(heads, axis=1), dtype="<i8")
    sums = list(map(zlib.crc32, lengths))
    for column in columns:
        if column.ends[-1]:
            data, ends = memoryview(column.data), pairwise(column.ends.tolist())
            sums = [
                zlib.crc32(data[start:end], before)
                for before, (start, end) in zip(sums, ends, strict=True)
            ]
    return np.array(sums, dtype=np.int64)


def _encoded(texts: Texts) -> Cells:
    """Return texts as UTF-8 bytes. Null becomes empty."""
    words = [*(text.encode() for text in texts.words), b""]  # the text of code -1
    return cells_of([words[code] for code in texts.codes.tolist()])


def _damages(rows: TableRows) -> dict[int, str]:
    """Return position → error for each unreadable row."""
    has_data = rows.numbers("observed_at") != NONE
    for name in _BYTES:
        has_data |= rows.cells(name).lengths > 0
    sums = rows.numbers("checksum")
    damaged = np.flatnonzero((sums != _checksums(rows)) & (has_data | (sums != NONE)))
    reasons = np.where(sums == SET_ASIDE, _SET_ASIDE, np.where(has_data, _DAMAGED, _LOST)).tolist()
    unusable = dict.fromkeys(np.flatnonzero(sums == UNUSABLE).tolist())
    texts = rows.take(np.array([*unusable], dtype=np.int64)).cells("texts").to_pylist()
    faults = {at: " ".join(_decode(text)) for at, text in zip(unusable, texts, strict=True)}
    return {at: faults.get(at, reasons[at]) for at in damaged.tolist()}


def unusable_row(cluster: str, fault: Exception) -> TableRows:
    """Return a row without data for a cluster on which featurelib failed. The finding
    snapshot_malformed shows `fault`."""
    reason = f"featurelib failed on it ({type(fault).__name__}: {fault}); please report it"
    texts = cells_of([msgspec.msgpack.encode([reason])])
    row = with_checksum({"cluster": texts_of([cluster]), "texts": texts})
    return row.replace(checksum=np.array([UNUSABLE]))


def _decode(stored: bytes) -> list[str]:
    return _TEXTS.decode(stored) if stored else []


class _Texts:
    """A column of text lists. `values`: all distinct texts, sorted."""

    def __init__(self, column: Cells) -> None:
        position: dict[bytes, int] = {}
        of_row = [position.setdefault(stored, len(position)) for stored in column.to_pylist()]
        decoded = [_decode(stored) for stored in position]
        self.values = sorted({text for texts in decoded for text in texts})
        rank = {text: code for code, text in enumerate(self.values)}
        self._codes: Int = np.array([rank[t] for texts in decoded for t in texts], dtype=np.int64)
        sizes = np.array([len(texts) for texts in decoded], dtype=np.int64)
        self._first = (np.cumsum(sizes) - sizes)[np.array(of_row, dtype=np.int64)]

    def codes(self, row: Int, local: Int) -> Int:
        """Return positions in `values` for local positions in the rows' text lists. -1 stays."""
        codes: Int = np.full(len(local), -1, dtype=np.int64)
        codes[local >= 0] = self._codes[(self._first[row] + local)[local >= 0]]
        return codes


class Records:
    """A part of all rows in a batch, as flat records. Record i belongs to row `row[i]`."""

    def __init__(self, records: RecordArray, lengths: Int, texts: Mapping[str, _Texts]) -> None:
        self.lengths = lengths
        self.start: Int = np.cumsum(lengths) - lengths
        self.row: Int = np.repeat(np.arange(len(lengths)), lengths)
        self._records, self._texts = records, texts
        self._fields: dict[str, Int] = {}

    def __len__(self) -> int:
        return len(self._records)

    def field(self, name: str) -> Int:
        """Return a field of all records as int64. A text becomes its position among the batch's
        texts."""
        if name not in self._fields:
            values = self._records[name].astype(np.int64)
            if name in TEXT_FIELDS:
                values = self._texts[TEXT_FIELDS[name]].codes(self.row, values)
            self._fields[name] = values
        return self._fields[name]

    def text(self, name: str, record: int) -> str | None:
        """Return the text in a field of one record; None without text."""
        return self.texts(name, np.array([record]))[0]

    def texts(self, name: str, at: Int) -> list[str | None]:
        """Return the texts in a field of the records `at`; None without text, or at position -1."""
        words = [*self._texts[TEXT_FIELDS[name]].values, None]  # the text of code -1
        return [words[code] for code in pick(self.field(name), at, -1).tolist()]

    def structs(self, kind: type[Struct], positions: Int | None = None) -> list[Struct]:
        """Return the records at `positions`, or all, as structs with their texts."""
        at = np.arange(len(self)) if positions is None else positions
        columns = {
            name: self.texts(name, at) if name in TEXT_FIELDS else self.field(name)[at].tolist()
            for name in kind.__struct_fields__
        }
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return msgspec.convert(rows, list[kind], strict=False)  # type: ignore[valid-type]  # 0 is false

    def code(self, name: str, text: str) -> int:
        """Return the code of `text` in a field; -2 if no record has it."""
        values = self._texts[TEXT_FIELDS[name]].values
        return values.index(text) if text in values else -2


class Snapshots:
    """The decoded rows of featurelib.schema.SNAPSHOT (without `state`).

    A damaged row counts as a cluster without data, and `malformed` has its error. A row without a
    checksum belongs to a cluster that never had data.
    """

    def __init__(self, rows: TableRows) -> None:
        self.malformed = _damages(rows)
        self.clusters = [name or "" for name in rows["cluster"].to_pylist()]
        if self.malformed:
            rows_kept = np.arange(len(rows))
            rows_kept[[*self.malformed]] = -1
            rows = rows.take(rows_kept)
        waiting = rows.numbers("waiting")
        self.waiting: Int = np.where(waiting == NONE, 0, waiting)
        self.checksum, self._rows = rows.numbers("checksum"), rows
        self._texts = {name: _Texts(rows.cells(name)) for name in ("names", "texts")}
        self._parts: dict[str, Records] = {}
        texts, version = rows["features_node"].to_pylist(), self.scalar("features_node_version")
        pairs = list(zip(texts, (version == NODE_GONE).tolist(), strict=True))
        # The text of `/feature`, also after the znode was deleted; None = unknown.
        self.features_node: list[str | None] = [None if lost else text for text, lost in pairs]
        self.features_node_left: list[str | None] = [text if lost else None for text, lost in pairs]
        # When the newest data was read; null if no reading has a response.
        self.observed_at = rows.numbers("observed_at").copy()
        self.observed_at[self["not_reached"].row] = self["not_reached"].field("answered_at")
        self.landed: Bool = self.observed_at != NONE

    def __len__(self) -> int:
        return len(self.clusters)

    @property
    def names(self) -> list[str]:
        """The sorted feature names. A field `feature` is a position in this list."""
        return self._texts["names"].values

    def __getitem__(self, part: str) -> Records:
        if part not in self._parts:
            column, layout = self._rows.cells(part), LAYOUT[part]
            records = np.frombuffer(column.data, layout)
            lengths = column.lengths // layout.itemsize
            if part == "scalars" and len(records) < len(lengths):
                known, records = records, np.repeat(no_scalars(), len(lengths))
                records[lengths > 0] = known
                lengths = np.ones(len(lengths), dtype=np.int64)
            self._parts[part] = Records(records, lengths, self._texts)
        return self._parts[part]

    def scalar(self, name: str) -> Int:
        """Return a scalar of each cluster."""
        return self["scalars"].field(name)
