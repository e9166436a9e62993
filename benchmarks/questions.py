"""What a question costs on a fleet: each command on its own, against a bare Python and DuckDB.

    python -m benchmarks.questions [--clusters 2500] [--nights 2] [--repeat 3] [--tables FOLDER]

A made-up fleet's nights go through the real jobs (ingest, refine, audit). Then every command is
started as a process of its own, and so are a Python that imports deltalake and Arrow and ends, and
DuckDB, which fetches from the Parquet files of both histories what a timeline is made of. Seconds
of the wall and of the processors; only a machine that does nothing else tells the former.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benchmarks.facts import Shape, draw
from benchmarks.fleet import add_shape, read_shape
from benchmarks.measure import apart, scratch, show_table
from benchmarks.thirty_nights import THREADS, spend
from featurelib.spark.session import open_session
from featurelib.spark.store import Store
from featurelib.tables import AUDIT_RUN, FINALIZED_FEATURES, NODE_ADVERTISEMENT

BARE = "bare Python with deltalake and Arrow"
# Nothing is ever removed from a history, so its files are its rows.
SELECT = """
import duckdb, sys
for folder in sys.argv[2:]:
    query = f"select * from read_parquet('{folder}/*.parquet') where cluster = ?"
    rows = duckdb.execute(query, [sys.argv[1]]).fetchall()
    assert rows
"""


def write_fleet(tables: Path, shape: Shape, nights: int, folder: Path) -> None:
    """So many nights of a fleet below `tables`, as the nightly leaves them; those there count."""
    settings = {"spark.master": f"local[{THREADS}]", "spark.ui.showConsoleProgress": "false"}
    session = open_session("featurelib benchmark: questions", settings)
    try:
        store = Store(session, str(tables))
        for night in range(store.newest_run(AUDIT_RUN) or 0, nights):
            spent = spend(store, folder / "landing", shape, night)
            print(
                f"night {night + 1}: {spent.whole:.1f} s, {spent.used:.1f} s of processors",
                flush=True,
            )
    finally:
        session.stop()


def commands(tables: Path, cluster: str) -> dict[str, list[str]]:
    """Every question as a command line, about one cluster in the middle of the fleet."""
    start, at = [sys.executable, "-m", "featurelib"], ["--tables", str(tables)]
    histories = [str(tables / table.path) for table in (NODE_ADVERTISEMENT, FINALIZED_FEATURES)]
    return {
        BARE: [sys.executable, "-c", "import deltalake, pyarrow.dataset"],
        "DuckDB, both histories of it": [sys.executable, "-c", SELECT, cluster, *histories],
        "why-not, every node in the way": [*start, "why-not", cluster, "metadata.version=33", *at],
        "what-if": [*start, "what-if", cluster, "--release", "4.2", *at],
        "can-roll": [*start, "can-roll", cluster, "--to", "4.2", *at],
        "history": [*start, "history", cluster, *at],
        "diff": [*start, "diff", *at],
        "waves of the fleet": [*start, "waves", "plan", "upgrade-all", *at],
    }


def measure(lines: dict[str, list[str]], repeat: int) -> dict[str, tuple[float, float]]:
    """The median wall and processor seconds of each, in turns, after one round that warms up."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in lines}
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for turn in range(repeat + 1):
        for name, line in lines.items():
            before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run(line, check=True, capture_output=True, env=environment)
            wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            if turn:
                found[name].append((wall, used))
    return {name: (median(w for w, _ in t), median(u for _, u in t)) for name, t in found.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the fleet unless it is there, and print a row for each command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.questions", description=__doc__)
    add_shape(parser)
    parser.set_defaults(clusters=2500)
    parser.add_argument("--nights", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--tables", type=Path, help="where to keep the tables; default: nowhere")
    given = parser.parse_args(arguments)
    shape = read_shape(given)
    with ExitStack() as stack:
        folder = stack.enter_context(scratch(None))
        tables = given.tables or folder / "tables"
        apart(write_fleet, tables, shape, given.nights, folder)
        cluster = draw(shape, 0).ids[shape.clusters // 2]
        seconds = measure(commands(tables, cluster), given.repeat)
        bare = seconds[BARE][1]
        rows = [
            (name, f"{wall:.2f}", f"{used:.2f}", f"{used / bare:.1f}")
            for name, (wall, used) in seconds.items()
        ]
        size = f"{shape.clusters:,} × {shape.nodes} × {shape.features}, {given.nights} nights"
        title = f"{size}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
        show_table(title, ("", "seconds", "of processor", "times bare"), rows)


if __name__ == "__main__":
    main()
