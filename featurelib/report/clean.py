"""Makes texts from outside safe to show: names and errors may hold anything.

What is not printable (controls, terminal escapes, marks that turn the direction of writing, line
ends) is shown as an escape, `\\x1b`; what is too long is cut and ends in an ellipsis.
"""

from __future__ import annotations

from functools import lru_cache

LENGTH = 120  # characters
LONGEST_PATH = 250  # a file name that is cut names no file
EMPTY = "(empty)"


@lru_cache(maxsize=8192)
def clean(text: str, length: int = LENGTH) -> str:
    """`text` as printable characters, at most `length` of them."""
    shown = text if len(text) <= length else text[: length + 1]
    if not shown.isprintable():
        shown = "".join(map(_escape, shown))
    if len(shown) > length:
        shown = shown[: length - 1] + "…"
    return shown or EMPTY


def _escape(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


def clean_place(place: str) -> str:
    """`file:line` made safe to show; a path that is too long is cut, its number is not."""
    path, colon, number = place.rpartition(":")
    if not colon:
        return clean(place, LONGEST_PATH)
    return clean(path, LONGEST_PATH) + colon + clean(number)
