"""Look up values in flat numpy columns, and decide which evidence is recent.

The functions work on numbers only. Clocks of collectors differ, so evidence dated later than
`latest` does not count yet. Times are microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from featurelib.rows import Bool, Int, pick

_CLUSTER, _ROLE = 32, 31  # the bit positions of the parts in a node key
_CONTROLLER = 1 << _ROLE
_DENSE = 16  # for up to 16 possible keys per key, a table is faster than a search


def node_key(cluster: Int, role: Int | int, node_id: Int) -> Int:
    """Return one number for (cluster position, role, node id), which sorts like the tuple."""
    return (cluster << _CLUSTER) | (role << _ROLE) | node_id


def split_key(keys: Int) -> tuple[Int, Int, Int]:
    """Split node keys into (cluster position, role, node id)."""
    return keys >> _CLUSTER, (keys >> _ROLE) & 1, keys & (_CONTROLLER - 1)


def broker_key(keys: Int) -> Int:
    """Return the node keys with the role broker."""
    return keys & ~_CONTROLLER


def other_half(keys: Int) -> Int:
    """Return the node keys with the other role: broker becomes controller, and vice versa."""
    return keys ^ _CONTROLLER


def find(keys: Int, keys_sought: Int) -> Int:
    """Return the positions of `keys_sought` in `keys` (sorted, distinct); -1 if absent."""
    if len(keys) == 0:
        return np.full(len(keys_sought), -1, dtype=np.int64)
    if np.array_equal(keys, keys_sought):  # all nodes responded, so no search is needed
        return np.arange(len(keys))
    at = np.searchsorted(keys, keys_sought)
    at = np.minimum(at, len(keys) - 1)
    return np.where(keys[at] == keys_sought, at, -1)


def marked(rows: int, at: Int | Sequence[int]) -> Bool:
    """Return a mask of length `rows` that is true at the positions `at`."""
    mask = np.zeros(rows, dtype=bool)
    mask[at] = True
    return mask


def distinct(values: Int) -> Int:
    """Return the distinct values, ascending. A stable sort is fast for nearly sorted keys."""
    sorted_values = np.sort(values, kind="stable")
    return sorted_values[first_of_equals(sorted_values)]


def first_of_equals(ordered: Int) -> Bool:
    """Return a mask that is true where a value differs from the previous value."""
    is_first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return is_first


def firsts(keys: Int, *order: Int | Bool) -> Int:
    """Return the position of the first row of each distinct key, in the order of the keys. The
    columns `order` rank rows with equal keys, the most important column first."""
    if (keys[1:] > keys[:-1]).all():
        return np.arange(len(keys))
    at = np.lexsort((*reversed(order), keys)) if order else np.argsort(keys, kind="stable")
    return at[first_of_equals(keys[at])]


def place(keys: Int, order: Int, sought: Int) -> Int:
    """Return the positions of `sought` in the unsorted `keys`; -1 if absent. `order`: the positions
    that sort `keys`."""
    return pick(order, find(keys[order], sought), -1)


def positions(keys: Int, end: int) -> tuple[Int, Int]:
    """Return (distinct keys, position of each key in them). Keys are from 0 to `end` - 1."""
    if end > _DENSE * len(keys):
        distinct_keys = distinct(keys)
        return distinct_keys, np.searchsorted(distinct_keys, keys)
    present = np.zeros(end, dtype=bool)
    present[keys] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[keys]


SKEW_MINUTES = 5  # the allowed difference of two clocks
_SECOND = 1_000_000
SKEW = SKEW_MINUTES * 60 * _SECOND


def latest(as_of: int) -> int:
    """Return the latest evidence time that a judgement uses: 5 minutes after `as_of`, because
    clocks differ."""
    return end_of_second(as_of + SKEW)


def end_of_second(at: int) -> int:
    """Return the last microsecond of the second that contains `at`."""
    return at // _SECOND * _SECOND + _SECOND - 1


def is_fresh(at: Int, as_of: int, max_age: int) -> Bool:
    """Return a mask of times that are not older than `max_age` and not in the future."""
    return np.asarray((as_of - at <= max_age) & (at <= latest(as_of)))


def age_class(at: Int, as_of: int, max_age: int) -> Int:
    """Return a class number per time. The age checks `is_fresh`, `latest` and `max_age` give equal
    results for times of one class."""
    age = as_of - at
    return np.asarray((age <= max_age) + 2 * (-age <= max_age) + 4 * (at <= latest(as_of)))
