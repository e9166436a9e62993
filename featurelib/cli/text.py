"""Plain text for a terminal or a pipe: columns that line up, numbers with their noun."""

from __future__ import annotations

from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of one length as lines whose cells begin below each other; numbers end there."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    numbers = [all(row[i].isdigit() for row in rows[1:]) for i in range(len(widths))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, numbers, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
