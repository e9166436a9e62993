"""Reads what featurelib.snapshot.packed wrote: a whole batch at once.

A binary column's bytes lie without a gap, so each part of a batch is one array of records.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from featurelib.core.columns import Int
from featurelib.core.malformed import CODE as MALFORMED
from featurelib.schema import (
    FINALIZED,
    LISTENER,
    MEMBER,
    MEMBERS,
    PACKED,
    RANGE,
    REGISTRATION,
    SNAPSHOT,
    WITNESS,
)
from featurelib.snapshot.checked import TEXTS, byte_lengths, checked, opened
from featurelib.snapshot.packed import LAYOUT

Records = npt.NDArray[np.void]

UNPACKED = pa.schema([field for field in SNAPSHOT if field.name not in ("packed", "state")])


def unpack(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of SNAPSHOT without `packed` and `state`, from rows that need no list but `packed`.

    A row whose `packed` is null has empty lists. One whose `packed` is broken has them too, and an
    oddity that says so, from which the core knows that nothing is known.
    """
    packed, broken = checked(rows.column("packed"))
    read = _Reader(packed)
    lists = {
        "profiles": read.maps("profile_sizes", "ranges", RANGE),
        "level_maps": read.maps("level_map_sizes", "levels", FINALIZED),
        "listeners": read.listeners(),
        "registrations": read.structs("registrations", REGISTRATION),
        "witnesses": read.structs("witnesses", WITNESS),
        "members": read.members(),
        "voters": read.numbers("voters"),
        "observers": read.numbers("observers"),
    }
    if broken:
        said = rows.column("oddities").to_pylist()
        for row, text in broken.items():
            said[row] = [f"{MALFORMED}:{text}"]
        lists["oddities"] = pa.array(said, UNPACKED.field("oddities").type)
    columns = [lists[n] if n in lists else rows.column(n) for n in UNPACKED.names]
    return pa.RecordBatch.from_arrays(columns, schema=UNPACKED)


class _Reader:
    """The packed columns of a batch, each laid open once."""

    def __init__(self, packed: pa.StructArray) -> None:
        parts = dict(zip(PACKED.names, packed.flatten(), strict=True))
        self.errors = parts["errors"]
        self.records: dict[str, Records] = {}
        self.counts: dict[str, Int] = {}
        for name, of in LAYOUT.items():
            self.records[name] = np.frombuffer(opened(parts[name]), of)
            self.counts[name] = byte_lengths(parts[name]) // of.itemsize
        texts, self.first_name, _ = _texts(parts["names"])
        self.texts = pa.array(texts, pa.string())

    def structs(self, name: str, of: pa.StructType) -> pa.Array:
        return _lists(self.counts[name], _struct(of, self._fields(name)))

    def numbers(self, name: str) -> pa.Array:
        return _lists(self.counts[name], self._fields(name)["node_id"])

    def maps(self, sizes: str, part: str, of: pa.StructType) -> pa.Array:
        fields = self._fields(part)
        first = np.repeat(self.first_name, self.counts[part])
        at = first + self.records[part]["feature"]
        fields["feature"] = self.texts.take(pa.array(at))
        inner = _lists(self.records[sizes]["size"], _struct(of, fields))
        return _lists(self.counts[sizes], inner)

    def members(self) -> pa.Array:
        fields = self._fields("members")
        listed = _struct(MEMBER, self._fields("member"))
        fields["members"] = _lists(self.records["members"]["size"], listed)
        fields["fenced_shown"] = fields["fenced_shown"].cast(pa.bool_())
        return _lists(self.counts["members"], _struct(MEMBERS, fields))

    def listeners(self) -> pa.Array:
        count = self.counts["listeners"]
        first = np.cumsum(count) - count
        dense = {name: self.records["listeners"][name] for name in LAYOUT["listeners"].names or ()}
        none = np.zeros(int(count.sum()), dtype=np.int64)
        columns: dict[str, npt.NDArray[np.generic]] = {
            **dense,
            "levels_at": dense["full_at"].copy(),
            "levels_line": dense["full_line"].copy(),
            "partial": np.full(len(none), -1, dtype=np.int32),
            **{n: none.copy() for n in ("partial_at", "partial_line", "failed_at", "failed_line")},
        }
        where = np.zeros(0, dtype=np.int64)
        for name in ("levels_apart", "partial", "failed"):
            entries = self.records[name]
            where = np.repeat(first, self.counts[name]) + entries["entry"]
            for field in (entries.dtype.names or ())[1:]:
                columns[field][where] = entries[field]
        fields = {name: pa.array(np.ascontiguousarray(column)) for name, column in columns.items()}
        said = np.full(len(none), -1, dtype=np.int64)
        texts, at, sizes = _texts(self.errors)
        within = np.arange(len(where)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        said[where] = np.repeat(at, sizes) + within
        fields["error"] = pa.array(texts, pa.string()).take(pa.array(said, mask=said < 0))
        return _lists(count, _struct(LISTENER, fields))

    def _fields(self, name: str) -> dict[str, pa.Array]:
        records = self.records[name]
        return {
            field: pa.array(np.ascontiguousarray(records[field]))
            for field in records.dtype.names or ()
        }


def _texts(column: pa.Array) -> tuple[list[str | None], Int, Int]:
    """All texts, equal lists once; where each row's begin, and how many it has."""
    coded = column.fill_null(b"").dictionary_encode()
    lists = [TEXTS.decode(said) if said else [] for said in coded.dictionary.to_pylist()]
    sizes = np.array([len(said) for said in lists], dtype=np.int64)
    at = coded.indices.to_numpy(zero_copy_only=False)
    return [text for said in lists for text in said], (np.cumsum(sizes) - sizes)[at], sizes[at]


def _struct(of: pa.StructType, fields: Mapping[str, pa.Array]) -> pa.Array:
    return pa.StructArray.from_arrays([fields[f.name] for f in of], fields=list(of))


def _lists(counts: Int, values: pa.Array) -> pa.Array:
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)
