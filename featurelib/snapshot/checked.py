"""Whether the packed lists of each row are whole, because a batch is unpacked at once.

Bytes too many or too few in one row would shift the records of every row behind it. Such a row is
handed on as null, and by row it is said what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import pyarrow as pa

from featurelib.audit.columns import Bool, Int
from featurelib.schema import PACKED
from featurelib.snapshot.packed import LAYOUT

TEXTS = msgspec.msgpack.Decoder(list[str | None])
# Sizes, and the records they share out; positions, and the records they point at.
_SHARES = (
    ("profile_sizes", "ranges"),
    ("level_map_sizes", "levels"),
    ("members", "member"),
)
_POINTS = (("levels_apart", "entry"), ("partial", "entry"), ("failed", "entry"))
_NAMED = ("ranges", "levels")


def checked(packed: pa.StructArray) -> tuple[pa.StructArray, dict[int, str]]:
    """`packed` (featurelib.schema.PACKED) with null in place of broken rows, and what is wrong."""
    parts = dict(zip(PACKED.names, packed.flatten(), strict=True))
    lengths = {name: byte_lengths(column) for name, column in parts.items()}
    found: dict[int, str] = {}
    for name, of in LAYOUT.items():
        _note(found, lengths[name] % of.itemsize != 0, f"{name}: expected whole records")
    packed = _without(packed, found)
    for broken, text in _inside(packed):
        _note(found, broken, text)
    return _without(packed, found), found


def _inside(packed: pa.StructArray) -> Iterator[tuple[Bool, str]]:
    """What is wrong with rows of whole records."""
    parts = dict(zip(PACKED.names, packed.flatten(), strict=True))
    counts = {n: byte_lengths(parts[n]) // of.itemsize for n, of in LAYOUT.items()}
    records = {name: np.frombuffer(opened(parts[name]), of) for name, of in LAYOUT.items()}
    for sizes, shared in _SHARES:
        size, count = records[sizes]["size"].astype(np.int64), counts[sizes]
        whole = (_per_row(size, count) == counts[shared]) & ~_any(size < 0, count)
        yield ~whole, f"{sizes}: expected sizes that share out all of {shared}"
    for name, field in _POINTS:
        entry, count = records[name][field], counts[name]
        beyond = (entry < 0) | (entry >= np.repeat(counts["listeners"], count))
        yield _any(beyond, count), f"{name}: expected positions of listeners"
    names, errors = text_counts(parts["names"]), text_counts(parts["errors"])
    yield names < 0, "names: expected a list of texts in MessagePack"
    for part in _NAMED:
        feature, count = records[part]["feature"], counts[part]
        beyond = (feature < 0) | (feature >= np.repeat(names, count))
        yield _any(beyond, count), f"{part}: expected positions of names"
    yield errors != counts["failed"], "errors: expected a text in MessagePack for each of failed"
    shown = records["members"]["fenced_shown"]
    yield _any((shown < 0) | (shown > 1), counts["members"]), "members: expected 0 or 1"


def byte_lengths(column: pa.Array) -> Int:
    """How many bytes each row of a binary column has; 0 where it is null."""
    return np.diff(offsets_of(column))


def opened(column: pa.Array) -> memoryview:
    """The bytes of a binary column, which lie without a gap."""
    data, offsets = column.buffers()[2], offsets_of(column)
    if len(column) == 0 or data is None:
        return memoryview(b"")
    return memoryview(data)[int(offsets[0]) : int(offsets[-1])]


def offsets_of(column: pa.Array) -> Int:
    """Where each row's bytes begin, and the last end."""
    _, offsets, data = column.buffers()
    if len(column) == 0 or data is None:
        return np.zeros(len(column) + 1, dtype=np.int64)
    mine = np.frombuffer(offsets, np.int32)[column.offset :][: len(column) + 1]
    return mine.astype(np.int64)


def text_counts(column: pa.Array) -> Int:
    """How many texts each row holds, 0 where it is null or empty; -1 = it holds something else."""
    coded = column.fill_null(b"").dictionary_encode()
    counts = [_count(said) for said in coded.dictionary.to_pylist()]
    found: Int = np.array([*counts, 0])[coded.indices.to_numpy(zero_copy_only=False)]
    return found


def _count(said: bytes) -> int:
    try:
        return len(TEXTS.decode(said)) if said else 0
    except (msgspec.DecodeError, UnicodeDecodeError):
        return -1


def _per_row(values: Int, counts: Int) -> Int:
    """The sum of each row's values."""
    sums = np.concatenate(([0], np.cumsum(values)))
    ends = np.cumsum(counts)
    total: Int = sums[ends] - sums[ends - counts]
    return total


def _any(hit: Bool, counts: Int) -> Bool:
    return _per_row(hit.astype(np.int64), counts) > 0


def _note(found: dict[int, str], broken: Bool, text: str) -> None:
    for row in np.flatnonzero(broken).tolist():
        found.setdefault(row, f"packed.{text}")


def _without(packed: pa.StructArray, rows: dict[int, str]) -> pa.StructArray:
    if not rows:
        return packed
    gone = np.zeros(len(packed), dtype=bool)
    gone[list(rows)] = True
    return packed.take(pa.array(np.arange(len(packed)), mask=gone))
