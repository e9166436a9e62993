"""Every benchmark, one after the other, and one table at the end.

    python -m benchmarks [small | medium | full]

small shows in minutes that all of it works, and its ratios are mostly the fixed costs of Spark and
Delta; medium has the smaller size of the bars; full has every bar. A bar that is missed, or cannot
be told because the machine was not quiet, ends with code 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import audit_against_duckdb, night, parse_against_from_json, thirty_nights
from benchmarks.facts import Shape
from benchmarks.measure import Ratio, apart, show_ratios
from benchmarks.yardstick import ORDERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much of everything. The audit's sizes are clusters of 50 × 20."""

    audit: tuple[int, ...]
    parse: int
    night_clusters: int
    nights: int
    repeat: int


SIZES = {
    "small": Size(audit=(500,), parse=200, night_clusters=100, nights=3, repeat=2),
    "medium": Size(audit=(10_000,), parse=2_000, night_clusters=1_000, nights=8, repeat=3),
    "full": Size(audit=(10_000, 40_000), parse=4_000, night_clusters=1_000, nights=30, repeat=5),
}


def run(size: Size, folder: Path | None) -> list[Ratio]:
    """Run everything, each benchmark in a process and a JVM of its own; returns all ratios."""
    ratios = apart(night.run, size.repeat, folder)
    for clusters in size.audit:
        shape = Shape(clusters=clusters)
        for order in ORDERS:
            for ratio in apart(audit_against_duckdb.run, shape, size.repeat, folder, order):
                what = f"audit, {clusters:,} clusters by {order}: {ratio.what}"
                ratios.append(replace(ratio, what=what))
    shape = Shape(clusters=size.parse, features=parse_against_from_json.FEATURES)
    ratios += apart(parse_against_from_json.run, shape, size.repeat, folder)
    nodes, features = thirty_nights.NODES, thirty_nights.FEATURES
    shape = Shape(clusters=size.night_clusters, nodes=nodes, features=features)
    return ratios + apart(thirty_nights.run, shape, size.nights, folder)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("size", nargs="?", choices=SIZES, default="small")
    parser.add_argument("--scratch", type=Path, help="where to put what is made up")
    given = parser.parse_args(arguments)
    ratios = run(SIZES[given.size], given.scratch)
    show_ratios("all ratios", ratios)
    return int(any(ratio.verdict in ("missed", "not quiet") for ratio in ratios))


if __name__ == "__main__":
    sys.exit(main())
