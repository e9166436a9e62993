"""Reading a text once: the answers of a fleet repeat the same few values byte for byte.

What is remembered is bounded in number and in size, and only successes are: a reader that raises
is asked again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

REMEMBERED = 2048  # values of one reader
REMEMBERED_BYTES = 8 * 1024  # of one value; longer ones are read each time

_T = TypeVar("_T")


def remembered(read: Callable[[bytes], _T]) -> Callable[[bytes], _T]:
    """`read`, asked only once for a short text that it was asked for lately."""
    recall = lru_cache(maxsize=REMEMBERED)(read)

    def look(raw: bytes) -> _T:
        return recall(raw) if len(raw) <= REMEMBERED_BYTES else read(raw)

    return look
