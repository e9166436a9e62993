"""Java's orders: which of several offenders a controller meets first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")
WORD, LONG = 2**32 - 1, 2**64 - 1
GOLDEN = -7046029254386353131


def text_hash(text: str) -> int:
    """String.hashCode: over UTF-16 units."""
    found = 0
    raw = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(raw), 2):
        found = (31 * found + (raw[i] << 8) + raw[i + 1]) & WORD
    return found


def int_hash(number: int) -> int:
    """Integer.hashCode: the number itself."""
    return number & WORD


def in_map_order(things: Iterable[T], hash_of: Callable[[T], int], size: int = 16) -> list[T]:
    """HashMap: 16 buckets, doubled while more than three quarters full; insertion breaks ties."""
    put = list(things)
    while len(put) > 0.75 * size:
        size *= 2
    return sorted(put, key=lambda thing: spread(hash_of(thing)) & (size - 1))


def spread(number: int) -> int:
    return number ^ (number >> 16)


def names_in_map_order(names: Sequence[str]) -> list[str]:
    return in_map_order(names, text_hash)


def ids_in_table_order(ids: Sequence[int]) -> list[int]:
    """The registration table: slots by the top bits of a product; the latest first in a slot."""
    size = 2
    while len(ids) * 0.75 > size:
        size *= 2
    bits = size.bit_length() - 1
    slots: list[list[int]] = [[] for _ in range(size)]
    for number in ids:
        slots[((number * GOLDEN) & LONG) >> (64 - bits)].insert(0, number)
    return [number for slot in slots for number in slot]


def ids_in_map_order(ids: Sequence[int]) -> list[int]:
    """A HashMap that was filled from the registration table."""
    return in_map_order(ids_in_table_order(ids), int_hash)


def by_name(name: str) -> bytes:
    """The key of Java's order of strings."""
    return name.encode("utf-16-be", "surrogatepass")


def range_text(low: int, high: int) -> str:
    if low == high:
        return str(low)
    if high == 32767:
        return f"{low}+"
    return f"{low}-{high}"
