"""Whether history makes a night dearer: ingest, refine and audit, night after night, one session.

    python -m benchmarks.thirty_nights --clusters 1000 --nodes 20 --features 8 --nights 30

Every node is asked every night, so a night's lines are new; one cluster in a hundred changed. Two
nights of a small fleet warm the session up. What counts is the median of the last five nights
against the first; the second is shown too, because the first also makes the tables. Writing the
lines is not counted. Seconds of the processors are shown as well: on a machine that others use
only they tell one night from another. Last come the bytes of each table with its log after 1, 10,
30, 60, 96 and 365 nights, and the line that fits those after the first; docs/reference/settings.md
has them. With --vacuum each night also maintains its tables, as vacuum = true does, and keeps no
older version. `--minutes 15 --nights 96` is a day of a fleet that is collected four times an hour.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from shutil import rmtree
from statistics import median

import numpy as np
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from benchmarks.builds import catalogue_of
from benchmarks.facts import Facts, Shape, draw
from benchmarks.fleet import add_shape, read_shape, write_night
from benchmarks.measure import (
    Memory,
    Ratio,
    apart,
    clock,
    processor,
    scratch,
    show_ratios,
    show_table,
    watched,
)
from featurelib.config.fleet import Fleet
from featurelib.config.settings import Settings
from featurelib.spark.auditing import audit
from featurelib.spark.ingest import ingest
from featurelib.spark.refine import refine
from featurelib.spark.session import open_session
from featurelib.spark.store import Store
from featurelib.tables import ALL

THREADS = 2
NIGHTS, NODES, FEATURES = 30, 20, 8
LAST = 5
MARKS = (1, 10, 30, 60, 96, 365)  # nights after which tables are measured, beside the last
FIRST_RUN = 20260101000000
BAR, BAR_NIGHTS, BAR_CLUSTERS = 1.3, 30, 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """Seconds of one night's steps, and of the processors for all of them."""

    ingest: float
    refine: float
    audit: float
    used: float

    @property
    def whole(self) -> float:
        return self.ingest + self.refine + self.audit


def _say_nothing(text: str) -> None:
    del text


def land(shape: Shape, night: int, landing: Path) -> None:
    """Write the lines of a night."""
    write_night(draw(shape, night), landing)


def spend(store: Store, landing: Path, shape: Shape, number: int, *, vacuum: bool = False) -> Night:
    """Land and judge one night. `vacuum`: delete what only older versions need."""
    apart(land, shape, number, landing)
    run, settings = FIRST_RUN + number, Settings()
    as_of = _as_of(shape, number)
    before = processor(os.getpid())
    steps = {
        "ingest": clock(lambda: ingest(store, str(landing), run, _say_nothing)),
        "refine": clock(lambda: refine(store, _say_nothing)),
        "audit": clock(
            lambda: audit(
                store,
                Fleet(),
                settings,
                run=run,
                as_of=as_of,
                say=_say_nothing,
                catalogue=catalogue_of(shape.features),
            )
        ),
    }
    used = processor(os.getpid()) - before
    if vacuum:
        for table in ALL:
            store.maintain(table, 0, vacuum=True)
        rmtree(landing)  # its lines are in bronze
    return Night(**steps, used=used)


def _as_of(shape: Shape, night: int) -> int:
    facts: Facts = draw(replace(shape, clusters=1), night)
    return facts.as_of


def measure(
    shape: Shape, nights: int, folder: Path, session: SparkSession, *, vacuum: bool = False
) -> list[Night]:
    """Every night's seconds, printed as they come."""
    warm = replace(shape, clusters=min(shape.clusters, 50))
    for number in range(2):
        spend(Store(session, str(folder / "warm")), folder / "warm-landing", warm, number)
    store, spent = Store(session, str(folder / "tables")), list[Night]()
    grown: dict[int, Sizes] = {}
    for number in range(nights):
        night = spend(store, folder / "landing", shape, number, vacuum=vacuum)
        spent.append(night)
        if number + 1 in {*MARKS, nights}:
            grown[number + 1] = sizes(folder / "tables")
        print(
            f"night {number + 1}: ingest {night.ingest:.1f} s, refine {night.refine:.1f} s, "
            f"audit {night.audit:.1f} s, {night.whole / spent[0].whole:.2f} of the first; "
            f"{night.used:.1f} s of processors, {night.used / spent[0].used:.2f} of the first",
            flush=True,
        )
    size = f"{shape.clusters:,} × {shape.nodes} × {shape.features}"
    show_growth(grown, size)
    return spent


Sizes = dict[str, tuple[int, int, int]]  # by table: rows, bytes of its files, and of its log


def sizes(tables: Path) -> Sizes:
    """Return the size of each table."""
    found: Sizes = {}
    for table in ALL:
        place = tables / table.path
        rows = DeltaTable(str(place)).to_pyarrow_dataset().count_rows()
        files = [path for path in place.rglob("*") if path.is_file()]
        log = sum(path.stat().st_size for path in files if "_delta_log" in path.parts)
        whole = sum(path.stat().st_size for path in files)
        found[table.full_name] = rows, whole - log, log
    return found


def show_growth(grown: dict[int, Sizes], of: str) -> None:
    """Print the size of each table after some nights, and its growth by the line of least squares
    through those after the first."""
    fitted = [night for night in grown if night > 1]
    whole = {
        night: tuple(map(sum, zip(*tables.values(), strict=True)))
        for night, tables in grown.items()
    }
    every = {night: {**tables, "all": whole[night]} for night, tables in grown.items()}
    lines = []
    for name in every[fitted[-1]]:
        rows, size = (
            [at(every[night][name]) for night in grown]
            for at in (itemgetter(0), lambda found: found[1] + found[2])
        )
        slopes = [_slope(list(grown), values) for values in (rows, size)]
        ends = [f"{value / 1e6:.2f}" for value in size]
        lines.append((name, *ends, f"{slopes[1] / 1e6:.4f}", f"{rows[-1]:,}", f"{slopes[0]:,.0f}"))
    heads = [f"MB, {night}" for night in grown]
    show_table(f"growth, {of}", ("", *heads, "MB a night", "rows", "rows a night"), lines)


def _slope(nights: list[int], values: list[int]) -> float:
    """Return the growth of a night, by the nights after the first if there are several."""
    start = 1 if len(nights) > 2 else 0
    return float(np.polyfit(nights[start:], values[start:], 1)[0])


def run(
    shape: Shape, nights: int = NIGHTS, folder: Path | None = None, *, vacuum: bool = False
) -> list[Ratio]:
    """Measure and print; returns what the summary repeats."""
    memory = Memory()
    with scratch(folder) as place:
        session = open_session(
            "featurelib benchmark: nights",
            {"spark.master": f"local[{THREADS}]", "spark.ui.showConsoleProgress": "false"},
        )
        try:
            with memory.sampled(), watched() as machine:
                spent = measure(shape, nights, place, session, vacuum=vacuum)
        finally:
            session.stop()
    last = spent[1:][-LAST:]
    comparable = shape.clusters == BAR_CLUSTERS and nights >= BAR_NIGHTS
    newest, used = (median(getattr(n, name) for n in last) for name in ("whole", "used"))
    bar = BAR if comparable else None
    ratios = machine.beside(
        [
            Ratio(what=f"night {nights} by the first", of=newest, to=spent[0].whole, bar=bar),
            Ratio(what=f"night {nights} by the second", of=newest, to=spent[1].whole),
            *(
                Ratio(what=f"night {nights} by {name}, of processors", of=used, to=first.used)
                for name, first in (("the first", spent[0]), ("the second", spent[1]))
            ),
        ]
    )
    steps = [
        (step, f"{getattr(spent[0], step):.2f}", f"{median(getattr(n, step) for n in last):.2f}")
        for step in ("ingest", "refine", "audit")
    ]
    size = f"{shape.clusters:,} × {shape.nodes} × {shape.features}"
    show_table(f"seconds of a step, {size}", ("", "first night", "last nights"), steps)
    show_ratios(f"{nights} nights", ratios)
    print(f"  peak memory {memory.peak / (1 << 30):.2f} GiB")
    return ratios


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_shape(parser)
    parser.set_defaults(nodes=NODES, features=FEATURES)
    parser.add_argument("--nights", type=int, default=NIGHTS)
    parser.add_argument("--vacuum", action="store_true", help="maintain the tables every night")
    parser.add_argument("--scratch", type=Path, help="where to put lines and tables")
    given = parser.parse_args(arguments)
    if given.nights < 2:
        parser.error("--nights: expected 2 or more")
    run(read_shape(given), given.nights, given.scratch, vacuum=given.vacuum)


if __name__ == "__main__":
    main()
