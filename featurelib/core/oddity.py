"""An entry of a snapshot row's `oddities`: a code, perhaps when and in which line, and what was
seen, as `code:detail` or `code@MICROSECONDS,LINE:detail`. The fold writes it, the core reads it.
"""

from __future__ import annotations

from dataclasses import dataclass

FUTURE = "evidence_from_the_future"  # lines that are dated later than what is judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddity:
    """One entry. `at` in microseconds and `line` as in bronze; 0 = it names no line."""

    code: str
    detail: str
    at: int = 0
    line: int = 0


def write(oddity: Oddity) -> str:
    """The entry as the row holds it."""
    place = f"@{oddity.at},{oddity.line}" if oddity.at else ""
    return f"{oddity.code}{place}:{oddity.detail}"


def read(entry: str) -> Oddity:
    """The entry that `write` wrote. Raises ValueError for any other text."""
    head, detail = entry.split(":", 1)
    code, at_sign, place = head.partition("@")
    if not at_sign:
        return Oddity(code=code, detail=detail)
    at, line = place.split(",")
    return Oddity(code=code, detail=detail, at=int(at), line=int(line))
