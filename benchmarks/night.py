"""The first command, on the samples, against a bare session: whole commands.

    python -m benchmarks.night --repeat 5

The session writes one Delta row. Both are started by ./spark-submit.sh, in turns, each with tables
of its own, with a class archive that is there already. Time is from the start of the command to its
end; processor time is of the command and of all it started.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from statistics import median

from benchmarks.measure import Ratio, scratch, show_ratios, watched

ROOT = Path(__file__).parents[1]
BAR = 2.0
ARCHIVE_SECONDS = 180  # it is made after the first run, at the lowest priority

Spent = tuple[float, float]  # seconds of a command, and of the processors


def spend(folder: Path, *words: object) -> Spent:
    """What one command takes. Raises CalledProcessError with what it said."""
    before, begin = os.times(), time.perf_counter()
    command = [str(ROOT / "spark-submit.sh"), *map(str, words)]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if ended.returncode:
        print(ended.stderr)
    ended.check_returncode()
    taken, after = time.perf_counter() - begin, os.times()
    used = after.children_user + after.children_system
    return taken, used - before.children_user - before.children_system


def run_night(place: Path) -> Spent:
    """What ./spark-submit.sh does by itself, into new tables below `place`."""
    place.mkdir()
    return spend(place, "nightly", "--tables", place / "tables", "--out", place / "out")


def run_bare(place: Path) -> Spent:
    """A session that writes one row, below `place`."""
    place.mkdir()
    return spend(place, ROOT / "benchmarks" / "bare.py", place / "row")


def await_archive() -> None:
    """Wait until no class archive is being made: a command before this made it begin."""
    cache = Path(os.environ.get("FEATURELIB_CACHE") or ROOT / ".cache")
    end = time.time() + ARCHIVE_SECONDS
    lists = cache.glob("classes-*.list")  # a killed run leaves its own for ever
    fresh = [path for path in lists if path.stat().st_mtime > end - 3 * ARCHIVE_SECONDS]
    while any(path.exists() for path in fresh) and time.time() < end:
        time.sleep(1)


def run(repeat: int, folder: Path | None = None) -> list[Ratio]:
    """Measure and print; returns what the summary repeats."""
    sides = {"nightly": run_night, "bare": run_bare}
    spent: dict[str, list[Spent]] = {name: [] for name in sides}
    with scratch(folder) as place:
        names = map(str, count())
        run_night(place / next(names))
        await_archive()
        with watched() as machine:
            for _ in range(repeat):
                for name, side in sides.items():
                    spent[name].append(side(place / next(names)))
    wall, used = ({name: median(one[i] for one in spent[name]) for name in sides} for i in (0, 1))
    ratios = machine.beside(
        [
            Ratio(what="nightly by bare session", of=wall["nightly"], to=wall["bare"], bar=BAR),
            Ratio(what="the same, of processors", of=used["nightly"], to=used["bare"]),
        ]
    )
    show_ratios("nightly on the samples, whole commands", ratios)
    return ratios


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.night", description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--scratch", type=Path, help="where to put the tables while it runs")
    given = parser.parse_args(arguments)
    run(given.repeat, given.scratch)


if __name__ == "__main__":
    main()
