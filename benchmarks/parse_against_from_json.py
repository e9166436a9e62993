"""Parsing and checking landing lines: featurelib's ingest worker against Spark's from_json.

    python -m benchmarks.parse_against_from_json --clusters 1000 --nodes 50 --features 8

Both read the same files, judge every line, hash it, and send what ingest keeps of it to nowhere.
Starting the session is not counted. One line in a hundred is damaged in a way both have to notice.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.facts import Shape, draw
from benchmarks.fleet import add_shape, read_shape, write_night
from benchmarks.from_json_checks import check_lines
from benchmarks.measure import Ratio, apart, clock, scratch, show_ratios, take_turns, watched
from featurelib.spark.ingest import read_lines
from featurelib.spark.session import open_session

THREADS = 2
BAR, BAR_LINES = 3.5, 100_000  # fewer lines measure the start of jobs
FEATURES = 8  # lines of about 1 kB, as real ones
DAMAGED = 100  # one line of so many
DAMAGES = (
    (b'"min_version":', b'"min_version":4'),  # above the maximum
    (b'"node_id":', b'"node_id":-'),
    (b'"role":"', b'"role":"x'),
    (b'"kind":"', b'"kind":"x'),
    (b'"observed_at":"2026', b'"observed_at":"1026'),
    (b'"cluster_id":"', b'"cluster_id":"","was":"'),
    (b"}", b""),  # the first one: brackets no longer match
)


def prepare(shape: Shape, folder: Path) -> tuple[int, int]:
    """Write the lines, damage some; returns how many there are, and how many are damaged."""
    total = broken = 0
    for path in write_night(draw(shape), folder, files=8):
        lines = path.read_bytes().splitlines()
        for at in range(0, len(lines), DAMAGED):
            old, new = DAMAGES[at // DAMAGED % len(DAMAGES)]
            damaged = lines[at].replace(old, new, 1)
            broken += damaged != lines[at]
            lines[at] = damaged
        path.write_bytes(b"\n".join(lines) + b"\n")
        total += len(lines)
    return total, broken


def measure(shape: Shape, repeat: int, folder: Path) -> tuple[Ratio, int]:
    """from_json's time by the parser's, and the number of lines."""
    lines, broken = apart(prepare, shape, folder)
    session = open_session(
        "featurelib benchmark: parse",
        {"spark.master": f"local[{THREADS}]", "spark.ui.showConsoleProgress": "false"},
    )
    try:
        mine, theirs = _parsed(session, folder), _from_json(session, folder)
        found = mine.filter(F.col("reason").isNotNull()).count()
        found_too = theirs.filter(~F.col("valid")).count()
        print(f"{lines:,} lines, {broken:,} damaged; found {found:,} and {found_too:,}")
        if not broken == found == found_too or mine.count() != lines:
            raise RuntimeError("the two sides do not agree, so their times mean nothing")
        sides = {
            "parser": lambda: _time(_parsed(session, folder)),
            "from_json": lambda: _time(_from_json(session, folder)),
        }
        with watched() as machine:
            seconds = take_turns(sides, repeat)
    finally:
        session.stop()
    ratio = Ratio(
        what="from_json by the parser",
        of=seconds["from_json"],
        to=seconds["parser"],
        bar=BAR if lines >= BAR_LINES else None,
        at_least=True,
    )
    return machine.beside([ratio])[0], lines


def _parsed(session: SparkSession, folder: Path) -> DataFrame:
    return read_lines(session, [f"file:{path}" for path in sorted(folder.rglob("*.jsonl"))])


def _from_json(session: SparkSession, folder: Path) -> DataFrame:
    return check_lines(session.read.option("recursiveFileLookup", "true").text(str(folder)))


def _time(df: DataFrame) -> float:
    return clock(lambda: df.write.format("noop").mode("overwrite").save())


def run(shape: Shape, repeat: int, folder: Path | None = None) -> list[Ratio]:
    """Measure and print; returns what the summary repeats."""
    with scratch(folder) as place:
        ratio, lines = measure(shape, repeat, place)
    show_ratios(f"parsing and checking {lines:,} lines, {shape.features} features", [ratio])
    print(f"  {lines / ratio.to:,.0f} lines a second with {THREADS} threads")
    return [ratio]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_shape(parser)
    parser.set_defaults(features=FEATURES)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--scratch", type=Path, help="where to put the lines while it runs")
    given = parser.parse_args(arguments)
    run(read_shape(given), given.repeat, given.scratch)


if __name__ == "__main__":
    main()
