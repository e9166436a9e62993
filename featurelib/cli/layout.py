"""Plain text as wide as the terminal: tables where they fit, else one paragraph a row.

Nothing depends on colour. A pipe is 100 columns wide, and so is a wider terminal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from featurelib.cli.text import columns
from featurelib.view.layout import wrap


def table(rows: Sequence[Sequence[str]], width: int, indent: str = "") -> Iterator[str]:
    """Rows below a head as columns; where they are wider than `width`, each row is a paragraph:
    its first cell, then `head cell` for the others. Columns that are empty throughout are left
    out."""
    full = [i for i in range(len(rows[0])) if any(row[i] for row in rows[1:])]
    shown = [[row[i] for i in full] for row in rows]
    lines = columns(shown)
    if all(len(indent) + len(line) <= width for line in lines):
        yield from (indent + line for line in lines)
        return
    head = shown[0]
    for row in shown[1:]:
        cells = [f"{name} {cell}".strip() for name, cell in zip(head, row, strict=True) if cell]
        cells[0] = row[0] or cells[0]
        yield from wrap(" · ".join(cells), width, indent, indent + "  ")


def show_moment(microseconds: int | None) -> str:
    """A time to the minute, as people write it; empty for none."""
    if not microseconds:
        return ""
    return datetime.fromtimestamp(microseconds / 1e6, UTC).strftime("%Y-%m-%d %H:%M UTC")


def iso_moment(microseconds: int | None) -> str | None:
    """A time as JSON has it, or None."""
    if not microseconds:
        return None
    moment = datetime.fromtimestamp(microseconds / 1e6, UTC)
    return moment.isoformat().replace("+00:00", "Z")
