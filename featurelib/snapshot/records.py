"""Snapshot rows as they are stored, which is as the core reads them: parts of fixed-width records.

A row is a cluster. featurelib.schema.LAYOUT names its parts and their fields; the bytes of a part
lie behind each other in one column, so that a batch of rows is one array of records a part, read
without a copy. Two clusters, of which the first has three listeners:

    cluster   listeners (bytes)        Snapshots["listeners"]
    a         [3 records]              row     0  0  0  1
    b         [1 record]               node_id 1  2  3  1

What is shared stands once: `profiles` says how many `ranges` each distinct map has, and a listener
names a map by its position in the row. Names of features and other texts are positions in two
lists of texts; `Snapshots` makes them positions in the lists of the batch.

A checksum guards every row against damage. Beyond it nothing is verified: who wrote it was this
module. A part that is changed or added makes another version of silver.cluster_snapshot.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from featurelib.schema import LAYOUT, SNAPSHOT, TEXT_FIELDS

MALFORMED = "snapshot_malformed"  # the finding
_DAMAGED = "its checksum is not that of what it holds"
_NONE = np.iinfo(np.int64).min  # in the place of a null, in what the checksum is of
_BYTES = ("names", "texts", *LAYOUT)
_TEXTS = msgspec.msgpack.Decoder(list[str])
_NO_SCALARS = {"controller": -1, "log_gap_end": -1, "migration": -1, "features_node_version": -1}
Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]
RecordArray = npt.NDArray[np.void]
Struct = TypeVar("Struct", bound=msgspec.Struct)


def make_records(part: str, rows: Sequence[tuple[object, ...]]) -> RecordArray:
    """Records of a part from tuples in the order of its fields."""
    return np.array(rows, dtype=LAYOUT[part])


def no_scalars() -> RecordArray:
    """The one record of `scalars` of a cluster of which nothing is known."""
    empty = np.zeros(1, dtype=LAYOUT["scalars"])
    for name, value in _NO_SCALARS.items():
        empty[name] = value
    return empty


@dataclass(slots=True, kw_only=True)
class StoredRow:
    """One row to be written, or changed: a part that is not in `parts` has no records."""

    cluster: str
    observed_at: int | None
    waiting: int = 0
    features_node: str | None = None
    parts: dict[str, RecordArray] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    state: bytes = b""

    def name_code(self, name: str) -> int:
        """The position of a feature's name, which is added where it is new."""
        return _code(self.names, name)

    def text_code(self, text: str | None) -> int:
        """The position of any other text, which is added where it is new; -1 = none."""
        return -1 if text is None else _code(self.texts, text)


def _code(texts: list[str], text: str) -> int:
    if text not in texts:
        texts.append(text)
    return texts.index(text)


def open_row(batch: pa.RecordBatch) -> StoredRow:
    """The first row of a batch, as one that can be changed; its `state` is left out."""
    first = {name: batch.column(name)[0].as_py() for name in SNAPSHOT.names if name != "state"}
    at = batch.column("observed_at").cast(pa.int64())[0].as_py()
    return StoredRow(
        cluster=first["cluster"],
        observed_at=at,
        waiting=first["waiting"] or 0,
        features_node=first["features_node"],
        parts={part: np.frombuffer(first[part] or b"", of).copy() for part, of in LAYOUT.items()},
        names=_decode(first["names"] or b""),
        texts=_decode(first["texts"] or b""),
    )


def write_rows(rows: Sequence[StoredRow]) -> pa.RecordBatch:
    """The rows as a batch of featurelib.schema.SNAPSHOT."""
    columns: dict[str, pa.Array] = {
        "cluster": pa.array([row.cluster for row in rows], pa.string()),
        "observed_at": pa.array([row.observed_at for row in rows], pa.int64()),
        "waiting": pa.array([row.waiting for row in rows], pa.int32()),
        "features_node": pa.array([row.features_node for row in rows], pa.string()),
        "names": pa.array([msgspec.msgpack.encode(row.names) for row in rows], pa.binary()),
        "texts": pa.array([msgspec.msgpack.encode(row.texts) for row in rows], pa.binary()),
        "state": pa.array([row.state for row in rows], pa.binary()),
    }
    for part, of in LAYOUT.items():
        none = np.empty(0, dtype=of)
        records = [row.parts.get(part, none) for row in rows]
        lengths = np.array([len(one) for one in records], dtype=np.int64)
        columns[part] = pack(np.concatenate([none, *records]), lengths)
    return with_checksum(columns)


def pack(records: RecordArray, lengths: Int) -> pa.Array:
    """One part's column: row i has the next lengths[i] of the records."""
    offsets = np.concatenate(([0], np.cumsum(lengths) * records.dtype.itemsize)).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(records.tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def with_checksum(columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """A batch of featurelib.schema.SNAPSHOT from all of its columns but `checksum`."""
    sums = pa.array(_checksums(columns), pa.int64())
    return pa.RecordBatch.from_arrays(
        [sums if f.name == "checksum" else columns[f.name].cast(f.type) for f in SNAPSHOT],
        schema=SNAPSHOT,
    )


def _checksums(columns: Mapping[str, pa.Array]) -> list[int]:
    """What `checksum` has to be: of the lengths of all bytes, and of the bytes."""
    names = ("cluster", "features_node", *_BYTES)
    bytes_of = [columns[name].cast(pa.binary()).fill_null(b"") for name in names]
    heads = [columns["observed_at"].cast(pa.int64()).fill_null(_NONE).to_numpy()]
    heads += [columns["waiting"].fill_null(0).to_numpy()]
    heads += [columns["features_node"].is_valid().to_numpy(zero_copy_only=False)]
    heads += [np.diff(_offsets(column)) for column in bytes_of]
    lengths = np.ascontiguousarray(np.stack(heads, axis=1), dtype="<i8")
    rows = zip(*(column.to_pylist() for column in bytes_of), strict=True)
    return [
        zlib.crc32(b"".join(of_row), zlib.crc32(length))
        for length, of_row in zip(lengths, rows, strict=True)
    ]


def _is_damaged(columns: Mapping[str, pa.Array]) -> Bool:
    """By row whether the checksum is another; a row of a cluster id alone needs none."""
    there = columns["observed_at"].is_valid().to_numpy(zero_copy_only=False)
    for name in _BYTES:
        there |= np.diff(_offsets(columns[name])) > 0
    kept = columns["checksum"].fill_null(_NONE).to_numpy()
    sums = np.array(_checksums(columns), dtype=np.int64)
    return np.asarray((kept != sums) & (there | (kept != _NONE)))


def _opened(column: pa.Array) -> memoryview:
    """The bytes of a binary column, which lie without a gap."""
    data, offsets = column.buffers()[2], _offsets(column)
    if len(column) == 0 or data is None:
        return memoryview(b"")
    return memoryview(data)[int(offsets[0]) : int(offsets[-1])]


def _offsets(column: pa.Array) -> Int:
    """Where each row's bytes begin, and the last end."""
    _, offsets, data = column.buffers()
    if len(column) == 0 or data is None:
        return np.zeros(len(column) + 1, dtype=np.int64)
    mine = np.frombuffer(offsets, np.int32)[column.offset :][: len(column) + 1]
    return mine.astype(np.int64)


def _decode(stored: bytes) -> list[str]:
    return _TEXTS.decode(stored) if stored else []


class _Texts:
    """A column of lists of texts: `values` are all of them, sorted, each once."""

    def __init__(self, column: pa.Array) -> None:
        coded = column.fill_null(b"").dictionary_encode()
        lists = [_decode(stored) for stored in coded.dictionary.to_pylist()]
        self.values = sorted({text for texts in lists for text in texts})
        rank = {text: code for code, text in enumerate(self.values)}
        self._codes: Int = np.array([rank[t] for texts in lists for t in texts], dtype=np.int64)
        sizes = np.array([len(texts) for texts in lists], dtype=np.int64)
        self._first = (np.cumsum(sizes) - sizes)[coded.indices.to_numpy(zero_copy_only=False)]

    def codes(self, row: Int, local: Int) -> Int:
        """Positions in `values` from positions in the lists of these rows; -1 stays."""
        codes: Int = np.full(len(local), -1, dtype=np.int64)
        codes[local >= 0] = self._codes[(self._first[row] + local)[local >= 0]]
        return codes


class Records:
    """One part of a batch of rows, flat: record i stands in row `row[i]`."""

    def __init__(self, records: RecordArray, lengths: Int, texts: Mapping[str, _Texts]) -> None:
        self.lengths = lengths
        self.start: Int = np.cumsum(lengths) - lengths
        self.row: Int = np.repeat(np.arange(len(lengths)), lengths)
        self._records, self._texts = records, texts
        self._fields: dict[str, Int] = {}

    def __len__(self) -> int:
        return len(self._records)

    def field(self, name: str) -> Int:
        """One field of all records, int64; a text is its position among those of the batch."""
        if name not in self._fields:
            values = self._records[name].astype(np.int64)
            if name in TEXT_FIELDS:
                values = self._texts[TEXT_FIELDS[name]].codes(self.row, values)
            self._fields[name] = values
        return self._fields[name]

    def text(self, name: str, record: int) -> str | None:
        """One text of one record; None = there is none."""
        code = int(self.field(name)[record])
        return None if code < 0 else self._texts[TEXT_FIELDS[name]].values[code]

    def structs(self, of: type[Struct], where: Int | None = None) -> list[Struct]:
        """All records, or those at `where`, with texts, as structs with fields of these names."""
        at = np.arange(len(self)) if where is None else where
        columns = {
            name: [self.text(name, i) for i in at.tolist()]
            if name in TEXT_FIELDS
            else self.field(name)[at].tolist()
            for name in of.__struct_fields__
        }
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return msgspec.convert(rows, list[of], strict=False)  # type: ignore[valid-type]  # 0 is false

    def code(self, name: str, text: str) -> int:
        """What `field` has in the place of `text`; -2 = no record of the batch has it."""
        values = self._texts[TEXT_FIELDS[name]].values
        return values.index(text) if text in values else -2


class Snapshots:
    """A batch of featurelib.schema.SNAPSHOT laid open (`state` is not needed).

    A row that was damaged is read as that of a cluster of which nothing landed, and `malformed`
    has what is wrong with it. One without a checksum is that of a cluster that never landed.
    """

    def __init__(self, batch: pa.RecordBatch) -> None:
        columns = {name: batch.column(name) for name in SNAPSHOT.names if name != "state"}
        damaged = np.flatnonzero(_is_damaged(columns)).tolist()
        self.malformed: dict[int, str] = dict.fromkeys(damaged, _DAMAGED)
        self.clusters: list[str] = columns["cluster"].fill_null("").to_pylist()
        if damaged:
            keep = np.ones(len(batch), dtype=bool)
            keep[damaged] = False
            sound = pa.array(np.arange(len(batch)), mask=~keep)
            columns = {name: column.take(sound) for name, column in columns.items()}
        self.landed: Bool = columns["observed_at"].is_valid().to_numpy(zero_copy_only=False)
        self.waiting: Int = columns["waiting"].fill_null(0).to_numpy().astype(np.int64)
        self.features_node: pa.Array = columns["features_node"]
        self._columns = columns
        self._texts = {name: _Texts(columns[name]) for name in ("names", "texts")}
        self._parts: dict[str, Records] = {}

    def __len__(self) -> int:
        return len(self.clusters)

    @property
    def names(self) -> list[str]:
        """The names of features, sorted: a field `feature` is a position among them."""
        return self._texts["names"].values

    def __getitem__(self, part: str) -> Records:
        if part not in self._parts:
            column, of = self._columns[part], LAYOUT[part]
            records = np.frombuffer(_opened(column), of)
            lengths = np.diff(_offsets(column)) // of.itemsize
            if part == "scalars" and len(records) < len(lengths):
                known, records = records, np.repeat(no_scalars(), len(lengths))
                records[lengths > 0] = known
                lengths = np.ones(len(lengths), dtype=np.int64)
            self._parts[part] = Records(records, lengths, self._texts)
        return self._parts[part]

    def scalar(self, name: str) -> Int:
        """One number a cluster."""
        return self["scalars"].field(name)
