"""Lines over a number of clusters, both scales logarithmic, as one HTML page that needs nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 560, 320
LEFT, RIGHT, TOP, BOTTOM = 60, 190, 30, 40
COLOURS = ("#1b6ca8", "#7fb2d9", "#b8442c", "#e5a58f", "#3c7a3c", "#9ccb9c")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A name, and (clusters, value) in any order; values of 0 were not measured."""

    name: str
    points: Sequence[tuple[int, float]]


def page(
    title: str,
    pictures: Mapping[str, Sequence[Line]],
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
) -> str:
    """The pictures, each under what its values are, and a table of all figures."""
    drawn = "\n".join(f"<h2>{escape(unit)}</h2>\n{draw(lines)}" for unit, lines in pictures.items())
    table = "\n".join(
        f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in row)}</tr>"
        for tag, row in [("th", head), *(("td", row) for row in rows)]
    )
    style = "body{font:14px sans-serif;margin:2em}td,th{text-align:right;padding:2px 8px}"
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{style}</style>\n<h1>{escape(title)}</h1>\n{drawn}\n<table>\n{table}\n</table>\n"
        "</html>\n"
    )


def draw(lines: Sequence[Line]) -> str:
    """An SVG of these lines; nothing where nothing was measured."""
    measured = {line.name: sorted(p for p in line.points if p[1] > 0) for line in lines}
    points = [point for of_line in measured.values() for point in of_line]
    if not points:
        return "<p>nothing was measured</p>"
    across = _ends([clusters for clusters, _ in points])
    up = _ends([value for _, value in points])

    def x(clusters: float) -> float:
        return LEFT + _part(clusters, across) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - _part(value, up) * (HEIGHT - TOP - BOTTOM)

    parts = [
        *(_text(x(at), HEIGHT - BOTTOM + 18, f"{at:,}", "middle") for at in {p[0] for p in points}),
        *(_grid(y(at), at) for at in _steps(up)),
    ]
    for (name, of_line), colour in zip(measured.items(), COLOURS * len(measured), strict=False):
        path = " ".join(f"{x(clusters):.1f},{y(value):.1f}" for clusters, value in of_line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{x(clusters):.1f}" cy="{y(value):.1f}" r="3" fill="{colour}">'
            f"<title>{escape(name)}: {value:.2f} at {clusters:,}</title></circle>"
            for clusters, value in of_line
        ]
        row = TOP + 18 * list(measured).index(name)
        parts.append(_text(WIDTH - RIGHT + 14, row, name, "start", colour))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'role="img" font-size="11">\n' + "\n".join(parts) + "\n</svg>"
    )


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """The least and the greatest, a little apart even where they are one."""
    return min(values) / 1.2, max(values) * 1.2


def _part(value: float, ends: tuple[float, float]) -> float:
    low, high = map(math.log, ends)
    return (math.log(value) - low) / (high - low)


def _steps(ends: tuple[float, float]) -> Iterator[float]:
    """1, 2, 5, 10, 20, … between the ends."""
    for power in range(math.floor(math.log10(ends[0])), math.ceil(math.log10(ends[1])) + 1):
        for digit in (1, 2, 5):
            if ends[0] <= (step := digit * 10.0**power) <= ends[1]:
                yield step


def _grid(at: float, value: float) -> str:
    line = f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
    return line + _text(LEFT - 6, at + 4, f"{value:g}", "end")


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#333") -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"'
    return f"<text {where}>{escape(text)}</text>"
