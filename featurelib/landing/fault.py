"""What is wrong with a line, as one sentence a person understands.

Inside this package a defect travels as `FaultError`; `read` turns it into a value.
Whatever is shown of the line itself is cut and made printable here, and only here.
"""

from __future__ import annotations

SHOWN = 60  # characters of a found value; a reason stays one short line


class FaultError(Exception):
    """The sentence that quarantines a line."""


def show(text: str) -> str:
    """`text` on one line: unprintable characters as escapes, long texts cut."""
    cut = text[: SHOWN + 1]
    if not cut.isprintable():
        cut = "".join(mark if mark.isprintable() else _escape(mark) for mark in cut)
    return cut if len(cut) <= SHOWN else cut[:SHOWN] + "…"


def _escape(mark: str) -> str:
    return mark.encode("unicode_escape").decode("ascii")
