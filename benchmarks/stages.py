"""Processor time of an audit in this process, by stages, against DuckDB in the same run.

    python -m benchmarks.stages [--profiles few] [--clusters 2000]

Input: snapshot rows of a made-up fleet, in memory. Output: a row for each stage. Its ratio is to
the processor time in which DuckDB, on one thread, counts verdicts and offenders of the same facts.
Only this process's seconds count, the sides take turns, and the least of all turns is compared:
other processes only ever add to it. Turns end when no bar is missed, or when there were enough.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb

from benchmarks.builds import catalogue_of
from benchmarks.built_rows import build_rows
from benchmarks.facts import DAY, PROFILES, Facts, Shape, draw
from benchmarks.fleet_rows import write_flat
from benchmarks.measure import Ratio, scratch, show_ratios
from benchmarks.yardstick import COUNT, TABLES, VIEWS
from featurelib import arrow
from featurelib.audit import audit, evidence, gold
from featurelib.audit.evidence import Conditions
from featurelib.config.fleet import Fleet
from featurelib.core.dialect import STRICT, load
from featurelib.planning import outlook
from featurelib.rows import join_rows
from featurelib.schema import SNAPSHOT
from featurelib.tables import CLUSTERS, FINDINGS

# Stage → the functions that are it, each with the module where an audit looks it up.
STAGES: dict[str, tuple[tuple[object, str], ...]] = {
    "evidence": ((evidence, "read"), (audit, "Software"), (audit, "report_unknown")),
    "incompatible nodes": ((audit, "find_incompatible"),),
    "rules": ((audit, "bounds"), (audit, "agree"), (audit, "_blockers")),
    "nodes": ((audit, "report_nodes"),),
    "plans": ((audit, "ways_back"), (audit, "plans"), (outlook, "with_texts")),
    "texts of findings": ((gold, "finding_texts"),),
}
THE_REST, WHOLE = "the rest", "whole audit"
# Clusters of 50 × 20 by profiles, and bars: 1.5 times the ratios of 2026-11-30. Runs at loads
# of 10 to 23 differed by a tenth, and a stage that takes twice as long misses its bar.
SIZES = {"few": 2000, "many": 500}
BARS: dict[str, dict[str, float]] = {
    "few": {
        "evidence": 0.93,
        "rules": 0.43,
        "incompatible nodes": 0.037,
        "nodes": 0.2,
        "plans": 0.39,
        "texts of findings": 0.85,
        THE_REST: 0.33,
        WHOLE: 3.2,
    },
    "many": {
        "evidence": 3.1,
        "rules": 1.45,
        "incompatible nodes": 0.09,
        "nodes": 0.32,
        "plans": 0.65,
        "texts of findings": 2.6,
        THE_REST: 0.6,
        WHOLE: 8.5,
    },
}
FEWEST_TURNS, MOST_TURNS = 3, 20

Seconds = dict[str, float]


def measure(shape: Shape, bars: dict[str, float], folder: Path) -> list[Ratio]:
    """Return the least seconds of each stage against the yardstick's."""
    facts = draw(shape)
    write_flat(facts, folder / "flat")
    judge, count = _auditing(facts), _counting(folder / "flat")
    judge(), count()  # the first turn warms up
    least: Seconds = {}
    for turn in range(1, MOST_TURNS + 1):
        for name, seconds in (judge() | {"": _seconds(count)}).items():
            least[name] = min(seconds, least.get(name, seconds))
        ratios = [
            Ratio(what=name, of=of, to=least[""], bar=bars.get(name))
            for name, of in least.items()
            if name
        ]
        if turn >= FEWEST_TURNS and not any(ratio.verdict == "missed" for ratio in ratios):
            break
    return ratios


def _auditing(facts: Facts) -> Callable[[], Seconds]:
    """Return an audit of the fleet, one batch, as workers and driver make it."""
    rows = arrow.batch_of(join_rows(list(build_rows(facts))))
    conditions = Conditions(as_of=facts.as_of, max_age=3 * DAY)
    catalogue, dialect, fleet = catalogue_of(facts.shape.features), load(STRICT), Fleet()

    def run() -> None:
        judged = audit.judge(arrow.rows_of(rows, SNAPSHOT), conditions, catalogue, dialect)
        plans = outlook.with_texts(judged, dialect=STRICT, catalogue=catalogue, guarding=None)
        for table in (FINDINGS, CLUSTERS):
            gold.rows_of(table, replace(judged, plans=plans), fleet, catalogue)

    def by_stage() -> Seconds:
        seconds: Seconds = defaultdict(float)
        with _timed(seconds):
            whole = _seconds(run)
        return {**seconds, THE_REST: whole - sum(seconds.values()), WHOLE: whole}

    return by_stage


@contextmanager
def _timed(seconds: Seconds) -> Iterator[None]:
    """Add up the processor time of each stage while the block runs."""
    with ExitStack() as stack:
        for stage, functions in STAGES.items():
            for module, name in functions:
                timer = _timer(getattr(module, name), stage, seconds)
                stack.enter_context(patch.object(module, name, timer))
        yield


def _timer(function: Callable[..., Any], stage: str, seconds: Seconds) -> Callable[..., Any]:
    def timed(*args: object, **kwargs: object) -> object:
        begin = time.process_time()
        try:
            return function(*args, **kwargs)
        finally:
            seconds[stage] += time.process_time() - begin

    return timed


def _counting(flat: Path) -> Callable[[], object]:
    """Return DuckDB's counts of the same facts, on one thread, from tables in memory."""
    connection = duckdb.connect(config={"threads": 1})
    for name, file in TABLES.items():
        connection.execute(f"create table {name} as from read_parquet('{flat / file}')")
    for name, rows in VIEWS.items():
        connection.execute(f"create view {name} as {rows}")
    return lambda: [connection.execute(query).fetchall() for query in COUNT]


def _seconds(action: Callable[[], object]) -> float:
    """Return the seconds of this process's processor time that `action` takes."""
    begin = time.process_time()
    action()
    return time.process_time() - begin


def run(profiles: str, clusters: int) -> list[Ratio]:
    """Measure a fleet, and print its stages. Only a fleet of SIZES has bars."""
    shape = Shape(clusters=clusters, profiles=profiles)
    bars = BARS[profiles] if clusters == SIZES[profiles] else {}
    print(f"load before {os.getloadavg()[0]:.2f}")
    with scratch(None) as folder:
        ratios = measure(shape, bars, folder)
    show_ratios(
        f"processor time, {clusters:,} × {shape.nodes} × {shape.features}, {profiles} profiles",
        ratios,
    )
    return ratios


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stages", description=__doc__)
    parser.add_argument("--profiles", choices=PROFILES, default=PROFILES[0])
    parser.add_argument("--clusters", type=int)
    given = parser.parse_args(arguments)
    ratios = run(given.profiles, given.clusters or SIZES[given.profiles])
    return int(any(ratio.verdict == "missed" for ratio in ratios))


if __name__ == "__main__":
    sys.exit(main())
