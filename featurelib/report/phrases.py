"""Short phrases every report uses: counts, lists that end in "and N more", runs of node ids, and
where a landing line stands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

RUNS = 12  # of node ids shown in one phrase


def count(number: int, noun: str) -> str:
    """`1 node`, `2,500 nodes`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def age(span: timedelta) -> str:
    """`47 hours`, `4 days`: whole ones, as many as have passed."""
    hours = int(span.total_seconds() // 3600)
    return count(hours, "hour") if hours < 48 else count(hours // 24, "day")


def some(texts: Sequence[str], most: int) -> str:
    """`a, b, c and 4 more`: at most `most` of the texts."""
    shown, left = texts[:most], len(texts) - most
    return ", ".join(shown) + (f" and {left:,} more" if left > 0 else "")


def nodes(role: str | None, ids: Iterable[int]) -> str:
    """`broker 2`, `brokers 2-5, 9`: runs of ids, the first RUNS of them."""
    ordered = sorted(set(ids))
    runs: list[list[int]] = []
    for node in ordered:
        if runs and node == runs[-1][1] + 1:
            runs[-1][1] = node
        else:
            runs.append([node, node])
    texts = [str(low) if low == high else f"{low}-{high}" for low, high in runs]
    left = sum(high - low + 1 for low, high in runs[RUNS:])
    more = f" and {left:,} more" if left else ""
    noun = (role or "node") + ("s" if len(ordered) > 1 else "")
    return f"{noun} {', '.join(texts[:RUNS])}{more}"


def place(line: str) -> str:
    """`payments/landing.jsonl:7`: the last folder, the file and the number of a landing line."""
    return "/".join(line.split("/")[-2:])
