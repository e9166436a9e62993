"""The orders in which Java walks its maps, so that the first offender is the one Kafka names.

Only names in messages depend on them. Sources: java.util.HashMap, java.lang.String.hashCode,
org.apache.kafka.timeline.BaseHashTable.
"""

from __future__ import annotations

from collections.abc import Iterable

_INT = 1 << 32
_LONG = 1 << 64
_MULTIPLIER = -7046029254386353131  # BaseHashTable spreads the bits of a hash with it


def string_hash(text: str) -> int:
    """String.hashCode as an unsigned 32-bit number; a character is a UTF-16 code unit."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for i in range(0, len(data), 2):
        value = (31 * value + (data[i] << 8 | data[i + 1])) % _INT
    return value


def hash_order(hashes: Iterable[int], least: int = 16) -> list[int]:
    """Positions of distinct keys with these hashes, as java.util.HashMap walks them.

    `least` is its first size: 16, or smaller where it was made for as many as there are.
    """
    keys = list(hashes)
    size = least
    while len(keys) > 0.75 * size:
        size *= 2
    return sorted(range(len(keys)), key=lambda i: ((keys[i] ^ keys[i] >> 16) & (size - 1), i))


def name_order(names: Iterable[str]) -> list[int]:
    """Positions of distinct names, as a HashMap with String keys walks them."""
    return hash_order(string_hash(name) for name in names)


def table_order(ids: Iterable[int]) -> list[int]:
    """Positions of node ids in a timeline hash table: by slot, later insertions first."""
    keys = list(ids)
    size = 2
    for count in range(len(keys)):
        while (count + 1) * 0.75 > size:
            size *= 2
    bits = size.bit_length() - 1
    slot = [((key * _MULTIPLIER) % _LONG) >> (64 - bits) for key in keys]
    return sorted(range(len(keys)), key=lambda i: (slot[i], -i))
