"""How time and memory grow with a fleet: one page with a picture, one size after the other.

    python -m benchmarks.growth --out FOLDER [--clusters 2500 10000 40000 100000] [--whole]

A point is a size with few, many or realistic profiles (alike.py describes these): the audit of a
snapshot table, judged, and judged and written as the job does it, and DuckDB on the flat tables of
the same facts, counting and writing, in turns. The least of three after one that warms up counts:
processor time, of all processes of a side, which other work on the machine changes least; wall time
is in the table. With --whole also ingest and refine of the lines that make such a table (100,000
clusters of 50 nodes have 15 GB of lines, 1 GB gzipped). Memory is sampled in the first round. Each
point runs in processes of its own, and stands in FOLDER/points.jsonl as soon as it is measured: the
same command goes on where it was stopped. FOLDER/growth.html is written after every point.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path

from benchmarks.alike import KINDS, shapes_of
from benchmarks.audit_against_duckdb import THREADS, Side, load_store
from benchmarks.builds import catalogue_of
from benchmarks.chart import Line, page
from benchmarks.facts import Shape, draw
from benchmarks.fleet import write_night
from benchmarks.fleet_rows import write_flat, write_snapshot
from benchmarks.measure import (
    SAMPLE_SECONDS,
    apart,
    clock,
    processors,
    resident_of,
    scratch,
    watched,
)
from benchmarks.yardstick import started
from featurelib.spark.ingest import ingest
from featurelib.spark.refine import refine
from featurelib.spark.session import open_session
from featurelib.spark.store import Store
from featurelib.tables import CLUSTER_SNAPSHOT

CLUSTERS = (2_500, 10_000, 40_000, 100_000)
ROUNDS = 3
GIB = 1 << 30
Seconds = tuple[float, float]  # of processors, by the clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One size, measured. Seconds; peaks of memory in bytes, of a worker that of the biggest."""

    clusters: int
    listeners: int
    features: int
    profiles: str
    whole: bool
    ingest: float
    refine: float
    judged: Seconds
    audit: Seconds
    counts: Seconds  # of DuckDB
    writes: Seconds  # of DuckDB
    driver: int  # Python's
    jvm: int
    worker: int
    snapshots: int  # bytes of the table
    load: float  # before
    others: float  # processors that others kept busy meanwhile

    def is_of(self, fleet: Fleet) -> bool:
        """Return true if the point is of this fleet."""
        own = (self.clusters, self.profiles, self.whole)
        return own == (fleet.clusters, fleet.kind, fleet.whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What a point measures."""

    kind: str  # one of KINDS
    clusters: int
    whole: bool = False

    @property
    def shapes(self) -> list[Shape]:
        return shapes_of(self.kind, self.clusters)


class Peaks:
    """The most that the driver, its JVM and its biggest worker held, sampled."""

    def __init__(self) -> None:
        self.of = {"driver": 0, "jvm": 0, "worker": 0}
        self._end = threading.Event()

    @contextmanager
    def sampled(self) -> Iterator[None]:
        sampler = threading.Thread(target=self._sample, daemon=True)
        sampler.start()
        try:
            yield
        finally:
            self._end.set()
            sampler.join()

    def _sample(self) -> None:
        while not self._end.wait(SAMPLE_SECONDS):
            for role, held in resident_of(os.getpid()).items():
                self.of[role] = max(self.of[role], held)


def measure(fleet: Fleet, driver_memory: str | None, folder: Path) -> Point:
    """Return one point; its files are in `folder`, which is empty."""
    settings = {"spark.master": f"local[{THREADS}]", "spark.ui.showConsoleProgress": "false"}
    if driver_memory:
        settings["spark.driver.memory"] = driver_memory
    as_of = apart(_prepare, fleet, folder)
    taken = {"ingest": 0.0, "refine": 0.0}
    session = open_session("featurelib benchmark: growth", settings)
    peaks = Peaks()
    try:
        store = Store(session, str(folder / "tables"))
        with started(folder / "flat" / "*", THREADS) as yardstick, watched() as machine:
            if fleet.whole:
                landing = str(folder / "landing")
                taken["ingest"] = clock(lambda: ingest(store, landing, 1, _say_nothing))
                taken["refine"] = clock(lambda: refine(store, _say_nothing))
            else:
                load_store(store, folder / "snapshot" / "*")
            side = Side(store, as_of, catalogue_of(fleet.shapes[0].features))
            sides: dict[str, Callable[[], float]] = {
                "judged": side.judge,
                "counts": yardstick.count,
                "audit": side.write,
                "writes": partial(yardstick.write, folder / "flat"),
            }
            least = _take_turns(sides, peaks)
    finally:
        session.stop()
    table = folder / "tables" / CLUSTER_SNAPSHOT.path
    return Point(
        clusters=fleet.clusters,
        listeners=sum(shape.clusters * shape.listeners for shape in fleet.shapes),
        features=fleet.shapes[0].features,
        profiles=fleet.kind,
        whole=fleet.whole,
        ingest=taken["ingest"],
        refine=taken["refine"],
        judged=least["judged"],
        audit=least["audit"],
        counts=least["counts"],
        writes=least["writes"],
        driver=peaks.of["driver"],
        jvm=peaks.of["jvm"],
        worker=peaks.of["worker"],
        snapshots=sum(path.stat().st_size for path in table.rglob("*.parquet")),
        load=round(machine.before, 2),
        others=round(machine.others, 2),
    )


def _take_turns(sides: Mapping[str, Callable[[], float]], peaks: Peaks) -> dict[str, Seconds]:
    """Return the least of each side's rounds after one that warms up."""
    with peaks.sampled():  # it takes processor time itself
        for side in sides.values():
            side()
    rounds: dict[str, list[Seconds]] = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, side in sides.items():
            before = processors()
            wall = side()
            rounds[name].append((round(processors() - before, 2), round(wall, 3)))
    return {
        name: (min(spent for spent, _ in own), min(wall for _, wall in own))
        for name, own in rounds.items()
    }


def _prepare(fleet: Fleet, folder: Path) -> int:
    """Write the fleet, a folder for each shape, and return its time."""
    latest = 0
    for number, shape in enumerate(fleet.shapes):
        facts = draw(shape)
        latest = max(latest, facts.as_of)
        (folder / "flat").mkdir(exist_ok=True)
        write_flat(facts, folder / "flat" / str(number))
        if fleet.whole:
            write_night(facts, folder / "landing" / str(number), zipped=True)
        else:
            (folder / "snapshot").mkdir(exist_ok=True)
            write_snapshot(facts, folder / "snapshot" / str(number), run=1)
    return latest


def _say_nothing(text: str) -> None:
    del text


def read_points(path: Path) -> list[Point]:
    """What was measured so far; a line that a killed run left half written is left out."""
    known = {field.name for field in fields(Point)}
    points = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if set(found) == known:
            points.append(Point(**found))
    return points


def write_page(points: Sequence[Point], path: Path) -> None:
    """The picture of time, the picture of memory, and all figures."""
    steps: list[tuple[str, Callable[[Point], float]]] = [
        ("judged", lambda point: point.judged[0]),
        ("DuckDB counts", lambda point: point.counts[0]),
    ]
    written: list[tuple[str, Callable[[Point], float]]] = [
        ("judged and written", lambda point: point.audit[0]),
        ("DuckDB writes", lambda point: point.writes[0]),
    ]
    if any(point.whole for point in points):
        written.append(("whole night", lambda point: point.ingest + point.refine + point.audit[1]))
    held: list[tuple[str, Callable[[Point], float]]] = [
        ("driver's Python", lambda point: point.driver / GIB),
        ("driver's Java", lambda point: point.jvm / GIB),
        ("a worker", lambda point: point.worker / GIB),
    ]
    pictures = {
        "Processor seconds to judge, by number of clusters": _lines(points, steps),
        "Processor seconds to judge and write, by number of clusters": _lines(points, written),
        "GiB held at most, by number of clusters": _lines(points, held),
    }
    ordered = sorted(points, key=lambda point: (point.whole, point.clusters, point.profiles))
    rows = [[cell(point) for cell in FIGURES.values()] for point in ordered]
    path.write_text(page("How featurelib grows with a fleet", pictures, list(FIGURES), rows))


def _lines(
    points: Sequence[Point], parts: Sequence[tuple[str, Callable[[Point], float]]]
) -> list[Line]:
    return [
        Line(
            name=f"{name}, {profiles}",
            points=[(p.clusters, value(p)) for p in points if p.profiles == profiles],
        )
        for name, value in parts
        for profiles in KINDS
    ]


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value else "–"


def _both(value: Seconds) -> str:
    return f"{value[0]:.2f} ({value[1]:.2f})"


FIGURES: dict[str, Callable[[Point], str]] = {
    "clusters": lambda p: f"{p.clusters:,}",
    "listeners": lambda p: f"{p.listeners:,}",
    "features": lambda p: str(p.features),
    "profiles": lambda p: p.profiles,
    "ingest, s": lambda p: _seconds(p.ingest),
    "refine, s": lambda p: _seconds(p.refine),
    "judged, s of processors (by the clock)": lambda p: _both(p.judged),
    "DuckDB counts, s of processors (by the clock)": lambda p: _both(p.counts),
    "judged / DuckDB": lambda p: f"{p.judged[0] / p.counts[0]:.2f}",
    "judged and written, s of processors (by the clock)": lambda p: _both(p.audit),
    "DuckDB writes, s of processors (by the clock)": lambda p: _both(p.writes),
    "written / DuckDB": lambda p: f"{p.audit[0] / p.writes[0]:.2f}",
    "driver's Python, GiB": lambda p: f"{p.driver / GIB:.2f}",
    "driver's Java, GiB": lambda p: f"{p.jvm / GIB:.2f}",
    "biggest worker, GiB": lambda p: f"{p.worker / GIB:.2f}",
    "snapshots, MiB": lambda p: f"{p.snapshots / (1 << 20):.0f}",
    "load before": lambda p: f"{p.load:.2f}",
    "processors of others": lambda p: f"{p.others:.2f}",
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--clusters", type=int, nargs="+", default=list(CLUSTERS))
    parser.add_argument("--profiles", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--whole", action="store_true", help="ingest and refine as well")
    parser.add_argument("--driver-memory", help="Spark's default without it")
    parser.add_argument("--scratch", type=Path, help="where to put a fleet while it is measured")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / "points.jsonl"
    for clusters in sorted(given.clusters):
        for profiles in given.profiles:
            fleet = Fleet(kind=profiles, clusters=clusters, whole=given.whole)
            if any(point.is_of(fleet) for point in read_points(path)):
                continue
            print(f"{clusters:,} clusters, {profiles} profiles …", flush=True)
            with scratch(given.scratch) as folder:
                point = apart(measure, fleet, given.driver_memory, folder)
            with path.open("a") as file:
                file.write("\n" * (path.stat().st_size > 0) + json.dumps(asdict(point)))
            print(f"  {point}", flush=True)
            write_page(read_points(path), given.out / "growth.html")
    write_page(read_points(path), given.out / "growth.html")
    print(f"page: {given.out / 'growth.html'}")


if __name__ == "__main__":
    main()
