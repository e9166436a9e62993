"""Arrow list columns as flat numpy columns, and look-ups between them.

Nothing here knows what a feature is.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


class Flat:
    """A list<struct> column laid flat: `row[i]` is the row that entry i stands in."""

    def __init__(self, column: pa.Array) -> None:
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        lengths = np.nan_to_num(lengths).astype(np.int64)
        self.lengths: Int = lengths
        self.start: Int = np.concatenate(([0], np.cumsum(lengths)))[:-1]
        self.row: Int = np.repeat(np.arange(len(lengths)), lengths)
        self.values: pa.Array = column.flatten()

    def __len__(self) -> int:
        return len(self.values)

    def field(self, name: str) -> Int:
        """One integer field of the struct, int64; it must not be null."""
        return integers(self.values.field(self.values.type.get_field_index(name)))

    def child(self, name: str) -> pa.Array:
        """One field of the struct as it is."""
        return self.values.field(self.values.type.get_field_index(name))


def integers(column: pa.Array) -> Int:
    """An integer or boolean column as int64."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return column.to_numpy(zero_copy_only=False).astype(np.int64)


def node_key(cluster: Int, role: Int, node_id: Int) -> Int:
    """One number for (cluster position, role, node id), ordered like the three."""
    return (cluster << 32) | (role << 31) | node_id


def find(keys: Int, wanted: Int) -> Int:
    """Positions of `wanted` in the sorted, distinct `keys`; -1 where it is not there."""
    if len(keys) == 0:
        return np.full(len(wanted), -1, dtype=np.int64)
    at = np.searchsorted(keys, wanted)
    at = np.minimum(at, len(keys) - 1)
    return np.where(keys[at] == wanted, at, -1)


def pick(values: Int, at: Int, absent: int) -> Int:
    """`values` at positions `at`, and `absent` where the position is -1."""
    if len(values) == 0:
        return np.full(len(at), absent, dtype=np.int64)
    return np.where(at >= 0, values[np.maximum(at, 0)], absent)


def any_of(row: Int, hit: Bool, rows: int) -> Bool:
    """For each of `rows` rows: whether some entry of it is hit."""
    return np.bincount(row[hit], minlength=rows) > 0


def distinct(values: Int) -> Int:
    """The distinct values, ascending. Keys come nearly in order, which a stable sort likes."""
    ordered = np.sort(values, kind="stable")
    keep = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=keep[1:])
    return ordered[keep]
