"""Text that says where a line stands: `file:line` is never broken inside its number.

What fits is wrapped as ever; a reference wider than its column is broken from its end.
"""

from __future__ import annotations

import re

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

_REFERENCE = re.compile(r"\S+:\d+:?(?!\S)")


class Located:
    """One paragraph in one style, wrapped as wide as the place it is shown in."""

    def __init__(self, text: str, style: str) -> None:
        self._text, self._style = text, style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(break_references(self._text, options.max_width), style=self._style)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, Text(self._text))


def break_references(text: str, width: int) -> str:
    """The text with each reference of more than `width` columns on lines of its own."""

    def fold(found: re.Match[str]) -> str:
        whole = found.group()
        if cell_len(whole) <= width:
            return whole
        pieces = [piece[::-1] for piece in reversed(chop_cells(whole[::-1], width))]
        return ("\n" if found.start() else "") + "\n".join(pieces)

    return _REFERENCE.sub(fold, text)
