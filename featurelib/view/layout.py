"""Lay text out for a terminal or a pipe: paragraphs, tables and lists at a width.

Text is wrapped between words. A word wider than its line (a command, a file name) stays whole, so
that it can be copied; columns, and pages with `parts`, split it, a reference `file:line` from its
end. Nothing depends on colour: `paint` adds styles, which have no width, `plain` removes them. A
page's text has none; `painted` is for a terminal.
"""

from __future__ import annotations

import re
import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

WIDEST, NARROWEST = 100, 40
UNWRAPPED = 1_000_000  # a width for scripts: a paragraph is one line
ROOM = 24  # the least width of a table's last column; with less each row is a paragraph
_STYLES = {
    "bold": "1", "dim": "2", "underline": "4", "red": "31", "green": "32", "yellow": "33",
    "magenta": "35", "cyan": "36",
}  # fmt: skip
# Words with a style of their own when they begin a table cell.
STYLES = {
    "UNKNOWN": "magenta", "BLOCKED": "red", "READY": "cyan", "UP_TO_DATE": "green",
    "CRITICAL": "bold red", "critical": "bold red", "blocker": "red", "unknown": "magenta",
    "warning": "yellow", "info": "dim",
}  # fmt: skip
_ESCAPE = re.compile(r"\x1b\[[\d;]*m")
_WORD = re.compile(r"[^ \n]+")
_PIECES = re.compile(r" +|[^ ]+")
_MARKS = "/.:,;=@-_"  # a word that is too wide is split after these characters
_REFERENCE = re.compile(r"\S+:\d+:?")


def terminal_width() -> int:
    """Return the width of the terminal, at most 100; 100 if the output is no terminal."""
    return max(NARROWEST, min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns))


def paint(text: str, style: str) -> str:
    """Return a text with a style, such as `bold red`, on each word."""
    codes = ";".join(_STYLES[name] for name in style.split())
    return _WORD.sub(f"\x1b[{codes}m\\g<0>\x1b[0m", text)


def plain(text: str) -> str:
    """Return a text without style escapes."""
    return _ESCAPE.sub("", text)


def width_of(text: str) -> int:
    """Return the number of terminal columns that a text needs."""
    if "\x1b" in text:
        text = plain(text)
    return len(text) if text.isascii() else sum(map(_cell, text))


def _cell(letter: str) -> int:
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def wrap(
    text: str, width: int, start: str = "", below: str | None = None, *, parts: bool = False
) -> list[str]:
    """Wrap `text` to lines of at most `width` columns. `start`: before the first line; `below`:
    before the others; `parts`: also split words that are too wide."""
    below = " " * len(start) if below is None else below
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line, gap, is_empty = start if not lines else below, "", True
        for piece in _PIECES.findall(paragraph):
            if piece.isspace():
                gap = piece
                continue
            if not is_empty and width_of(line) + len(gap) + width_of(piece) > width:
                lines.append(line)
                line, gap, is_empty = below, "", True
            room = width - max(width_of(line) + len(gap), len(below))
            pieces = _pieces_of(piece, room) if parts and width_of(piece) > room else [piece]
            for part in pieces[:-1]:
                lines.append(line + part)
                line = below
            line, gap, is_empty = line + gap + pieces[-1], "", False
        lines.append(line.rstrip())
    return lines


def _pieces_of(text: str, room: int) -> list[str]:
    """Split a word into pieces of at most `room` columns, preferably after punctuation."""
    escapes = _ESCAPE.findall(text)
    visible = plain(text)
    backwards = _REFERENCE.fullmatch(visible) is not None
    pieces, piece, wide = list[str](), "", 0
    for letter in reversed(visible) if backwards else visible:
        if piece and wide + _cell(letter) > room:
            mark = max(map(piece.rfind, _MARKS)) + 1
            end = mark if 2 * mark > len(piece) else len(piece)
            pieces.append(piece[:end])
            piece = piece[end:]
            wide = width_of(piece)
        piece, wide = piece + letter, wide + _cell(letter)
    pieces.append(piece)
    if backwards:
        pieces = [piece[::-1] for piece in reversed(pieces)]
    return [f"{escapes[0]}{piece}{escapes[-1]}" for piece in pieces] if escapes else pieces


def _toned(cell: str) -> str:
    """Return a table cell in the style of its first word, if it has one."""
    style = STYLES.get(re.split(r"\W", cell, maxsplit=1)[0])
    return paint(cell, style) if style else cell


def _is_number(cell: str) -> bool:
    return not cell or plain(cell).replace(",", "").isdigit()


class Page:
    """A page of paragraphs, tables and lists. `str` and iteration give lines without styles."""

    def __init__(
        self, width: int | None = None, *, parts: bool = False, lines: Iterable[str] = ()
    ) -> None:
        """Begin a page with `lines`. `parts`: split words wider than `width`."""
        self.width = terminal_width() if width is None else width
        self._parts = parts
        self._lines = [*lines]

    def __iter__(self) -> Iterator[str]:
        return map(plain, self._lines)

    def __str__(self) -> str:
        return "\n".join(self)

    @property
    def painted(self) -> str:
        """The text of the page with styles for a terminal."""
        return "\n".join(self._lines)

    def text(self, text: str, indent: int = 0, below: int | None = None, start: str = "") -> None:
        """Add a paragraph that begins with `start`. `indent`: of the first line; `below`: of
        further lines."""
        margin = " " * (indent if below is None else below)
        self._lines += wrap(text, self.width, " " * indent + start, margin, parts=self._parts)

    def item(self, text: str, indent: int = 0) -> None:
        """Add a paragraph whose further lines are indented by two more columns."""
        self.text(text, indent, indent + 2)

    def line(self, text: str = "") -> None:
        """Add a line without wrapping, for example a command; default: an empty line."""
        self._lines.append(text)

    def head(self, text: str) -> None:
        """Add an empty line, then a bold heading."""
        self._lines += ["", paint(text, "bold")]

    def lines(self, lines: Iterable[str], indent: int = 0) -> None:
        """Add lines without wrapping, indented by `indent`."""
        self._lines += [f"{' ' * indent}{line}".rstrip() for line in lines]

    def facts(self, rows: Sequence[tuple[str, str]], indent: int = 0) -> None:
        """Add rows (name, value). Empty values are skipped; values that are too wide come below the
        name."""
        column = max((len(name) for name, value in rows if value), default=0) + 2
        for name, value in rows:
            if value and max(map(width_of, value.split())) <= self.width - indent - column:
                self.text(value, indent, indent + column, f"{name:<{column}}")
            elif value:
                self.line(" " * indent + name)
                self.text(value, indent + 2)

    def table(
        self,
        rows: Sequence[Sequence[str]],
        indent: int = 0,
        *,
        head: bool = True,
        most: Sequence[int] = (),
    ) -> None:
        """Add rows as a table. Empty columns are omitted; numbers are aligned right; if the last
        column has less than ROOM columns, each row becomes a paragraph. `head`: the first row is
        the heading; `most`: maximum width per column, 0 = no limit."""
        full = [i for i, cells in enumerate(zip(*rows, strict=True)) if any(cells[head:])]
        if not full:  # the table has a head and no rows
            return
        kept = [[_toned(row[i]) for i in full] for row in rows]
        kept[:head] = [[cell if "\x1b" in cell else paint(cell, "dim") for cell in kept[0]]] * head
        columns = list(zip(*kept, strict=True))
        caps = dict(enumerate(most))
        widths = [
            min(max(map(width_of, "\n".join(column).split("\n"))), caps.get(i) or self.width)
            for i, column in zip(full, columns, strict=True)
        ]
        before = indent + sum(widths[:-1]) + 2 * (len(widths) - 1)
        room = self.width - before
        if widths[-1] > room and (room < ROOM or self._is_cut(columns[-1], room)):
            self._paragraphs(kept, indent, head=head)
            return
        numbers = [all(map(_is_number, column[head:])) for column in columns]
        widths[-1] = min(widths[-1], room)
        for row in kept:
            self._row(row, widths, numbers, indent)

    def _is_cut(self, column: Sequence[str], room: int) -> bool:
        """Return true if a word in a cell is wider than `room` and must not be split."""
        words = (text for cell in column for text in cell.split())
        return not self._parts and any(width_of(text) > room for text in words)

    def _row(
        self, row: Sequence[str], widths: Sequence[int], numbers: Sequence[bool], indent: int
    ) -> None:
        cells = [wrap(cell, wide, parts=True) for cell, wide in zip(row, widths, strict=True)]
        for i in range(max(map(len, cells))):
            texts = []
            for lines, wide, is_number in zip(cells, widths, numbers, strict=True):
                text = lines[i] if i < len(lines) else ""
                blank = " " * (wide - width_of(text))
                texts.append(blank + text if is_number else text + blank)
            self.lines(["  ".join(texts)], indent)

    def _paragraphs(self, rows: Sequence[Sequence[str]], indent: int, *, head: bool) -> None:
        names = rows[0] if head else [""] * len(rows[0])
        for row in rows[1:] if head else rows:
            cells = [
                f"{name} {cell}".strip() for name, cell in zip(names, row, strict=True) if cell
            ]
            cells[0] = row[0] or cells[0]
            self.item(" · ".join(cells).replace("\n", " · "), indent)
