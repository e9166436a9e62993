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
    """Return one number for (cluster position, role, node id). The numbers sort like the tuples."""
    return (cluster << _CLUSTER) | (role << _ROLE) | node_id


def split_key(keys: Int) -> tuple[Int, Int, Int]:
    """Split node keys into (cluster position, role, node id)."""
    return keys >> _CLUSTER, (keys >> _ROLE) & 1, keys & (_CONTROLLER - 1)


def broker_key(keys: Int) -> Int:
    """Return node keys with the role replaced by broker."""
    return keys & ~_CONTROLLER


def other_half(keys: Int) -> Int:
    """Return node keys with the role swapped: the other role of each node."""
    return keys ^ _CONTROLLER


def find(keys: Int, keys_sought: Int) -> Int:
    """Return positions of `keys_sought` in the sorted, distinct `keys`; -1 if absent."""
    if len(keys) == 0:
        return np.full(len(keys_sought), -1, dtype=np.int64)
    if np.array_equal(keys, keys_sought):  # all nodes responded, so no search is needed
        return np.arange(len(keys))
    at = np.searchsorted(keys, keys_sought)
    at = np.minimum(at, len(keys) - 1)
    return np.where(keys[at] == keys_sought, at, -1)


def marked(rows: int, at: Int | Sequence[int]) -> Bool:
    """Return a mask of `rows` rows that is true at the positions `at`."""
    mask = np.zeros(rows, dtype=bool)
    mask[at] = True
    return mask


def distinct(values: Int) -> Int:
    """Return the distinct values, ascending. A stable sort is fast for nearly sorted keys."""
    sorted_values = np.sort(values, kind="stable")
    return sorted_values[first_of_equals(sorted_values)]


def first_of_equals(ordered: Int) -> Bool:
    """Return a mask of values that differ from the value before them."""
    is_first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return is_first


def firsts(keys: Int, *order: Int | Bool) -> Int:
    """Return the position of the first row of each distinct key, keys ascending. The columns
    `order` sort the rows of one key, the most important column first."""
    if (keys[1:] > keys[:-1]).all():
        return np.arange(len(keys))
    at = np.lexsort((*reversed(order), keys)) if order else np.argsort(keys, kind="stable")
    return at[first_of_equals(keys[at])]


def place(keys: Int, order: Int, sought: Int) -> Int:
    """Return positions of `sought` in the unsorted `keys`, which `order` sorts; -1 if absent."""
    return pick(order, find(keys[order], sought), -1)


def positions(keys: Int, end: int) -> tuple[Int, Int]:
    """Return the distinct keys, ascending, and each key's position in them; 0 <= key < `end`."""
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
    """Return the latest time of evidence that counts in a judgement as of `as_of`: 5 minutes later,
    because clocks differ."""
    return end_of_second(as_of + SKEW)


def end_of_second(at: int) -> int:
    """Return the last microsecond of the second that contains `at`: if one line of a second counts,
    all lines of that second count."""
    return at // _SECOND * _SECOND + _SECOND - 1


def is_fresh(at: Int, as_of: int, max_age: int) -> Bool:
    """Return a mask of times of evidence that is neither too old nor from the future."""
    return np.asarray((as_of - at <= max_age) & (at <= latest(as_of)))


def age_class(at: Int, as_of: int, max_age: int) -> Int:
    """Return a class number for each time. All checks of the audit (`is_fresh`, `latest`,
    `max_age`) treat two times of one class alike."""
    age = as_of - at
    return np.asarray((age <= max_age) + 2 * (-age <= max_age) + 4 * (at <= latest(as_of)))
