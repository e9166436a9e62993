"""Arrow list columns as flat numpy columns, and look-ups between them.

Nothing here knows what a feature is.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

_CLUSTER, _ROLE = 32, 31  # the lowest bits of a node key's parts
_CONTROLLER = 1 << _ROLE
_DENSE = 16  # times as many possible keys as keys: up to there a table is faster than a search


class Flat:
    """A list<struct> column laid flat: `row[i]` is the row that entry i stands in."""

    def __init__(self, column: pa.Array) -> None:
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        lengths = np.nan_to_num(lengths).astype(np.int64)
        self.lengths: Int = lengths
        self.start: Int = np.concatenate(([0], np.cumsum(lengths)))[:-1]
        self.row: Int = np.repeat(np.arange(len(lengths)), lengths)
        self.values: pa.Array = column.flatten()
        self._fields: dict[str, Int] = {}

    def __len__(self) -> int:
        return len(self.values)

    def field(self, name: str) -> Int:
        """One integer field of the struct, int64; it must not be null."""
        if name not in self._fields:
            self._fields[name] = integers(self.child(name))
        return self._fields[name]

    def child(self, name: str) -> pa.Array:
        """One field of the struct as it is."""
        return self.values.field(self.values.type.get_field_index(name))


def integers(column: pa.Array) -> Int:
    """An integer or boolean column as int64."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return column.to_numpy(zero_copy_only=False).astype(np.int64)


def node_key(cluster: Int, role: Int | int, node_id: Int) -> Int:
    """One number for (cluster position, role, node id), ordered like the three."""
    return (cluster << _CLUSTER) | (role << _ROLE) | node_id


def split_key(keys: Int) -> tuple[Int, Int, Int]:
    """Return (cluster position, role, node id) of node keys."""
    return keys >> _CLUSTER, (keys >> _ROLE) & 1, keys & (_CONTROLLER - 1)


def broker_key(keys: Int) -> Int:
    """Return the keys of the broker halves of the same processes."""
    return keys & ~_CONTROLLER


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
    picked = values[np.maximum(at, 0)]
    picked[at < 0] = absent
    return picked


def any_of(row: Int, hit: Bool, rows: int) -> Bool:
    """For each of `rows` rows: whether some entry of it is hit."""
    return np.bincount(row[hit], minlength=rows) > 0


def distinct(values: Int) -> Int:
    """The distinct values, ascending. Keys come nearly in order, which a stable sort likes."""
    ordered = np.sort(values, kind="stable")
    return ordered[first_of_equals(ordered)]


def first_of_equals(ordered: Int) -> Bool:
    """Which of these are not equal to the one before."""
    first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def positions(keys: Int, end: int) -> tuple[Int, Int]:
    """The distinct keys, ascending, and the position of each key among them; 0 <= key < `end`."""
    if end > _DENSE * len(keys):
        found = distinct(keys)
        return found, np.searchsorted(found, keys)
    there = np.zeros(end, dtype=bool)
    there[keys] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[keys]


# ----------------------------------------
# How old evidence may be, and how far ahead of a judgement: the clocks of collectors differ.
#
# Times are microseconds. What is dated later than `latest` decides nothing yet.

SKEW_MINUTES = 5  # how far two clocks may differ
_SECOND = 1_000_000
SKEW = SKEW_MINUTES * 60 * _SECOND


def latest(as_of: int) -> int:
    """The latest time of evidence that counts as of `as_of`."""
    return end_of_second(as_of + SKEW)


def end_of_second(at: int) -> int:
    """The last microsecond of the second of `at`: seconds count whole, so that whoever knows the
    latest line that counted knows that all others of its second did."""
    return at // _SECOND * _SECOND + _SECOND - 1


def is_fresh(at: Int, as_of: int, max_age: int) -> Bool:
    """Whether evidence of these times counts: neither too old, nor from the future."""
    return np.asarray((as_of - at <= max_age) & (at <= latest(as_of)))
