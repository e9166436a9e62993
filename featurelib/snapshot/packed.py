"""The lists of a snapshot row as fixed-width records: what the core is handed.

Spark hands lists of structs to Python value by value, and bytes at once. Nothing is lost:
featurelib.snapshot.layout gives back the rows. Numbers are little-endian, without padding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from featurelib.audit.columns import Flat, Int
from featurelib.schema import (
    LISTENER,
    PACKED,
)

# `entry` is the position of a listener among its cluster's; what is not listed is as most are:
# levels are of the newest full answer, no partial answer, never a failure.
_ENTRY = ("entry", "<i4")
_LAYOUT: dict[str, list[tuple[str, str]]] = {
    "profile_sizes": [("size", "<i4")],
    "ranges": [("feature", "<i4"), ("min_version", "<i2"), ("max_version", "<i2")],
    "level_map_sizes": [("size", "<i4")],
    "levels": [("feature", "<i4"), ("min_level", "<i2"), ("level", "<i2")],
    "listeners": [
        ("node_id", "<i4"),
        ("role", "<i1"),
        ("full", "<i4"),
        ("full_at", "<i8"),
        ("full_line", "<i8"),
        ("levels", "<i4"),
        ("epoch", "<i8"),
    ],
    "levels_apart": [_ENTRY, ("levels_at", "<i8"), ("levels_line", "<i8")],
    "partial": [_ENTRY, ("partial", "<i4"), ("partial_at", "<i8"), ("partial_line", "<i8")],
    "failed": [_ENTRY, ("failed_at", "<i8"), ("failed_line", "<i8")],
    "registrations": [
        ("node_id", "<i4"),
        ("role", "<i1"),
        ("witness", "<i1"),
        ("profile", "<i4"),
        ("fenced", "<i1"),
        ("at", "<i8"),
        ("line", "<i8"),
    ],
    "witnesses": [
        ("kind", "<i1"),
        ("levels", "<i4"),
        ("epoch", "<i8"),
        ("at", "<i8"),
        ("line", "<i8"),
    ],
    "members": [
        ("role", "<i1"),
        ("fenced_shown", "<i1"),
        ("at", "<i8"),
        ("line", "<i8"),
        ("size", "<i4"),
    ],
    "member": [("node_id", "<i4"), ("fenced", "<i1")],
    "voters": [("node_id", "<i4")],
    "observers": [("node_id", "<i4")],
}
LAYOUT = {name: np.dtype(fields) for name, fields in _LAYOUT.items()}


def pack(lists: Mapping[str, pa.Array]) -> pa.StructArray:
    """The list columns of SNAPSHOT rows, by name, as a column of PACKED; no list is null."""
    packed: dict[str, pa.Array] = {}
    outer = {name: Flat(lists[name]) for name in ("profiles", "level_maps")}
    inner = {name: Flat(flat.values) for name, flat in outer.items()}
    row = {name: outer[name].row[inner[name].row] for name in outer}
    codes, packed["names"] = _name_codes(
        len(lists["profiles"]),
        np.concatenate([row["profiles"], row["level_maps"]]),
        pa.concat_arrays([flat.child("feature") for flat in inner.values()]),
    )
    for name, part, least, most, of in (
        ("profiles", "ranges", "min_version", "max_version", codes[: len(row["profiles"])]),
        ("level_maps", "levels", "min_level", "level", codes[len(row["profiles"]) :]),
    ):
        flat, sizes = outer[name], inner[name].lengths
        packed[f"{name[:-1]}_sizes"] = _write(f"{name[:-1]}_sizes", {"size": sizes}, flat.lengths)
        fields = {"feature": of, least: inner[name].field(least), most: inner[name].field(most)}
        packed[part] = _write(part, fields, np.bincount(row[name], minlength=len(flat.lengths)))
    packed |= _pack_listeners(Flat(lists["listeners"]))
    for name in ("registrations", "witnesses"):
        flat = Flat(lists[name])
        fields = {field: flat.field(field) for field in LAYOUT[name].names or ()}
        packed[name] = _write(name, fields, flat.lengths)
    members = Flat(lists["members"])
    listed = Flat(members.child("members"))
    fields = {name: members.field(name) for name in ("role", "fenced_shown", "at", "line")}
    packed["members"] = _write("members", fields | {"size": listed.lengths}, members.lengths)
    count = np.bincount(members.row, listed.lengths, len(members.lengths)).astype(np.int64)
    fields = {name: listed.field(name) for name in ("node_id", "fenced")}
    packed["member"] = _write("member", fields, count)
    for name in ("voters", "observers"):
        flat = Flat(lists[name])
        values = flat.values.to_numpy(zero_copy_only=False)
        packed[name] = _write(name, {"node_id": values}, flat.lengths)
    return pa.StructArray.from_arrays([packed[f.name] for f in PACKED], fields=list(PACKED))


def _pack_listeners(flat: Flat) -> dict[str, pa.Array]:
    names = {field.name for field in LISTENER} - {"error"}
    said = {name: flat.field(name) for name in names}
    apart = (said["levels_at"] != said["full_at"]) | (said["levels_line"] != said["full_line"])
    no_partial = (said["partial"] == -1) & (said["partial_at"] == 0) & (said["partial_line"] == 0)
    error = flat.child("error")
    failed = (said["failed_at"] != 0) | (said["failed_line"] != 0)
    failed |= error.is_valid().to_numpy(zero_copy_only=False)
    said["entry"] = np.arange(len(flat)) - flat.start[flat.row]
    rows = len(flat.lengths)
    packed = {"listeners": _write("listeners", said, flat.lengths)}
    for name, hit in (("levels_apart", apart), ("partial", ~no_partial), ("failed", failed)):
        count = np.bincount(flat.row[hit], minlength=rows)
        packed[name] = _write(name, {field: said[field][hit] for field in said}, count)
    reasons: list[list[str | None]] = [[] for _ in range(rows)]
    for row, text in zip(flat.row[failed].tolist(), error.filter(failed).to_pylist(), strict=True):
        reasons[row].append(text)
    packed["errors"] = _write_texts(reasons)
    return packed


def _name_codes(rows: int, row: Int, names: pa.Array) -> tuple[Int, pa.Array]:
    """The position of each name among the sorted names of its row, and these as texts."""
    coded = names.dictionary_encode()
    known: list[str] = coded.dictionary.to_pylist()
    order = np.array(sorted(range(len(known)), key=known.__getitem__), dtype=np.int64)
    rank = np.empty(len(known), dtype=np.int64)
    rank[order] = np.arange(len(known))
    key = row * max(len(known), 1) + rank[coded.indices.to_numpy(zero_copy_only=False)]
    found, at = np.unique(key, return_inverse=True)
    owner = found // max(len(known), 1)
    first = np.searchsorted(owner, np.arange(rows))
    of_row: list[list[str | None]] = [[] for _ in range(rows)]
    for where, code in zip(owner.tolist(), (found % max(len(known), 1)).tolist(), strict=True):
        of_row[where].append(known[order[code]])
    return at - first[row], _write_texts(of_row)


def _write_texts(rows: Sequence[Sequence[str | None]]) -> pa.Array:
    return pa.array([msgspec.msgpack.encode(row) if row else b"" for row in rows], pa.binary())


def _write(name: str, fields: Mapping[str, npt.NDArray[np.generic]], counts: Int) -> pa.Array:
    """One column of records: row i has the next counts[i] of them."""
    of = LAYOUT[name]
    records = np.empty(int(counts.sum()), dtype=of)
    for field in of.names or ():
        records[field] = fields[field]
    offsets = np.concatenate(([0], np.cumsum(counts) * of.itemsize)).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(records.tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(counts), buffers)
