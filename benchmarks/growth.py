"""How time and memory grow with a fleet: one page with a picture, one size after the other.

    python -m benchmarks.growth --out FOLDER [--clusters 2500 10000 40000 100000] [--whole]

A point is a size with few or with many profiles: the audit of a snapshot table, judged, and judged
and written as the job does it, the median of three after one that warms up; with --whole also
ingest and refine of the lines that make such a table (100,000 clusters of 50 nodes have 15 GB of
lines, 1 GB gzipped). Each point runs in processes of its own, and stands in FOLDER/points.jsonl as
soon as it is measured: the same command goes on where it was stopped. FOLDER/growth.html is written
after every point.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median

from benchmarks.audit_against_duckdb import THREADS, Side, load_store
from benchmarks.builds import catalogue_of
from benchmarks.chart import Line, page
from benchmarks.facts import PROFILES, Shape, draw
from benchmarks.fleet import write_night
from benchmarks.fleet_rows import write_snapshot
from benchmarks.measure import SAMPLE_SECONDS, apart, clock, resident_of, scratch, watched
from featurelib.spark.ingest import ingest
from featurelib.spark.refine import refine
from featurelib.spark.session import open_session
from featurelib.spark.store import Store
from featurelib.tables import CLUSTER_SNAPSHOT

CLUSTERS = (2_500, 10_000, 40_000, 100_000)
ROUNDS = 3
GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One size, measured. Seconds; peaks of memory in bytes, of a worker that of the biggest."""

    clusters: int
    nodes: int
    features: int
    profiles: str
    whole: bool
    ingest: float
    refine: float
    judged: float
    audit: float
    driver: int  # Python's
    jvm: int
    worker: int
    snapshots: int  # bytes of the table
    others: float  # processors that others kept busy meanwhile

    def is_of(self, shape: Shape, whole: bool) -> bool:
        """Whether it was measured of this."""
        mine = (self.clusters, self.nodes, self.features, self.profiles, self.whole)
        return mine == (shape.clusters, shape.nodes, shape.features, shape.profiles, whole)


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


def measure(shape: Shape, whole: bool, driver_memory: str | None, folder: Path) -> Point:
    """One point; what it needs lies in `folder`, which is empty."""
    settings = {"spark.master": f"local[{THREADS}]", "spark.ui.showConsoleProgress": "false"}
    if driver_memory:
        settings["spark.driver.memory"] = driver_memory
    as_of = apart(_prepare, shape, whole, folder)
    seconds = {"ingest": 0.0, "refine": 0.0}
    session = open_session("featurelib benchmark: growth", settings)
    peaks = Peaks()
    try:
        store = Store(session, str(folder / "tables"))
        with watched() as machine, peaks.sampled():
            if whole:
                landing = str(folder / "landing")
                seconds["ingest"] = clock(lambda: ingest(store, landing, 1, _say_nothing))
                seconds["refine"] = clock(lambda: refine(store, _say_nothing))
            else:
                load_store(store, folder / "snapshot")
            side = Side(store, as_of, catalogue_of(shape.features))
            side.judge()
            rounds = [(side.judge(), side.write()) for _ in range(ROUNDS)]
            seconds["judged"] = median(judged for judged, _ in rounds)
            seconds["audit"] = median(audit for _, audit in rounds)
    finally:
        session.stop()
    table = folder / "tables" / CLUSTER_SNAPSHOT.path
    return Point(
        clusters=shape.clusters,
        nodes=shape.nodes,
        features=shape.features,
        profiles=shape.profiles,
        whole=whole,
        ingest=seconds["ingest"],
        refine=seconds["refine"],
        judged=seconds["judged"],
        audit=seconds["audit"],
        driver=peaks.of["driver"],
        jvm=peaks.of["jvm"],
        worker=peaks.of["worker"],
        snapshots=sum(path.stat().st_size for path in table.glob("*.parquet")),
        others=round(machine.others, 2),
    )


def _prepare(shape: Shape, whole: bool, folder: Path) -> int:
    facts = draw(shape)
    if whole:
        write_night(facts, folder / "landing", zipped=True)
    else:
        write_snapshot(facts, folder / "snapshot", run=1)
    return facts.as_of


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
        ("audit", lambda point: point.audit),
        ("judged alone", lambda point: point.judged),
    ]
    if any(point.whole for point in points):
        steps.append(("whole night", lambda point: point.ingest + point.refine + point.audit))
    held: list[tuple[str, Callable[[Point], float]]] = [
        ("driver's Python", lambda point: point.driver / GIB),
        ("driver's Java", lambda point: point.jvm / GIB),
        ("a worker", lambda point: point.worker / GIB),
    ]
    pictures = {
        "Seconds, by number of clusters": _lines(points, steps),
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
            name=f"{name}, {profiles} profiles",
            points=[(p.clusters, value(p)) for p in points if p.profiles == profiles],
        )
        for name, value in parts
        for profiles in PROFILES
    ]


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value else "–"


FIGURES: dict[str, Callable[[Point], str]] = {
    "clusters × nodes × features": lambda p: f"{p.clusters:,} × {p.nodes} × {p.features}",
    "profiles": lambda p: p.profiles,
    "ingest, s": lambda p: _seconds(p.ingest),
    "refine, s": lambda p: _seconds(p.refine),
    "judged, s": lambda p: _seconds(p.judged),
    "audit, s": lambda p: _seconds(p.audit),
    "driver's Python, GiB": lambda p: f"{p.driver / GIB:.2f}",
    "driver's Java, GiB": lambda p: f"{p.jvm / GIB:.2f}",
    "biggest worker, GiB": lambda p: f"{p.worker / GIB:.2f}",
    "snapshots, MiB": lambda p: f"{p.snapshots / (1 << 20):.0f}",
    "processors of others": lambda p: f"{p.others:.2f}",
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--clusters", type=int, nargs="+", default=list(CLUSTERS))
    parser.add_argument("--profiles", nargs="+", choices=PROFILES, default=list(PROFILES))
    parser.add_argument("--nodes", type=int, default=Shape().nodes)
    parser.add_argument("--features", type=int, default=Shape().features)
    parser.add_argument("--whole", action="store_true", help="ingest and refine as well")
    parser.add_argument("--driver-memory", help="Spark's default without it")
    parser.add_argument("--scratch", type=Path, help="where to put a fleet while it is measured")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / "points.jsonl"
    for clusters in sorted(given.clusters):
        for profiles in given.profiles:
            shape = Shape(
                clusters=clusters, nodes=given.nodes, features=given.features, profiles=profiles
            )
            if any(point.is_of(shape, given.whole) for point in read_points(path)):
                continue
            print(f"{clusters:,} clusters, {profiles} profiles …", flush=True)
            with scratch(given.scratch) as folder:
                point = apart(measure, shape, given.whole, given.driver_memory, folder)
            with path.open("a") as file:
                file.write("\n" * (path.stat().st_size > 0) + json.dumps(asdict(point)))
            print(f"  {point}", flush=True)
            write_page(read_points(path), given.out / "growth.html")
    write_page(read_points(path), given.out / "growth.html")
    print(f"page: {given.out / 'growth.html'}")


if __name__ == "__main__":
    main()
