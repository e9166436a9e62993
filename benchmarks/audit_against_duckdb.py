"""The audit against DuckDB: the same facts, the same run, as many threads.

    python -m benchmarks.audit_against_duckdb --clusters 10000 --nodes 50 --features 20

featurelib judges the Delta snapshot table; the yardstick joins and aggregates the flat tables as
Parquet. First without writing anything, then with all gold tables as Delta against two Parquet
files. Spark SQL counts the same as DuckDB, in the session that judges. Starting it is not counted;
memory is of the driver, its JVM and its workers.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa

from benchmarks.agreement import compare
from benchmarks.builds import catalogue_of
from benchmarks.facts import Shape, draw
from benchmarks.fleet import add_shape, read_shape
from benchmarks.fleet_rows import write_flat, write_snapshot
from benchmarks.measure import (
    Memory,
    Ratio,
    apart,
    clock,
    scratch,
    show_ratios,
    take_turns,
    watched,
)
from benchmarks.yardstick import (
    ORDERS,
    Yardstick,
    count_with_spark,
    order_by_arrival,
    started,
)
from featurelib.audit.evidence import Conditions
from featurelib.catalogue import Catalogue
from featurelib.config.fleet import Fleet
from featurelib.config.settings import Settings
from featurelib.spark import auditing
from featurelib.spark.auditing import judge_snapshots
from featurelib.spark.judging import judge_by
from featurelib.spark.log import spark_schema
from featurelib.spark.session import open_session
from featurelib.spark.store import Store
from featurelib.tables import (
    CLUSTER_SNAPSHOT,
    FEATURE_READINESS,
    INCOMPATIBLE_BROKERS,
    LANDING_LINE,
    Table,
)

THREADS = 2
JUDGED, WRITTEN = "judged, nothing written", "judged, results written"
# By clusters and the order of DuckDB's rows.
BARS = {
    (10_000, "cluster"): {JUDGED: 2.0, WRITTEN: 3.0},
    (40_000, "cluster"): {JUDGED: 1.2, WRITTEN: 2.0},
    (40_000, "arrival"): {JUDGED: 0.5, WRITTEN: 0.8},
}
SPARK, SPARK_BAR = "Spark SQL counts by judged", 6.0  # at 10,000
BAR_NODES, BAR_FEATURES = 50, 20
MEMORY_BAR = 5 << 30


@dataclass(slots=True)
class Side:
    """featurelib's side: a store with one snapshot table, judged again and again."""

    store: Store
    as_of: int
    catalogue: Catalogue  # with rows for the made-up features
    run: int = 20261129000000  # its first eight digits are a day
    settings: Settings = field(default_factory=Settings)
    judges_every: bool = True  # cluster; else those that changed since the last run

    def judge(self) -> float:
        """Seconds from the table to results in the driver, compressed, that go nowhere."""
        conditions = Conditions(as_of=self.as_of, max_age=self.settings.max_age)

        return clock(lambda: judge_snapshots(self.store, judge_by(conditions, {}, self.catalogue)))

    def write(self) -> float:
        """Seconds from the table to every gold table, as the job does it."""
        self.run += 1
        every = patch.object(auditing, "find_last", return_value=None)
        with every if self.judges_every else nullcontext():
            return clock(
                lambda: auditing.audit(
                    self.store,
                    Fleet(),
                    self.settings,
                    run=self.run,
                    as_of=self.as_of,
                    say=lambda text: None,
                    catalogue=self.catalogue,
                )
            )

    def newest(self, table: Table) -> pa.Table:
        """What the last run wrote, not by way of the JVM: its heap of 1 GB is too small for it."""
        return self.store.fetch(table, [("run", "=", self.run)])


def prepare(shape: Shape, folder: Path, flat_order: str = ORDERS[0]) -> int:
    """Write a fleet as snapshot rows and as flat tables; returns its as-of time."""
    facts = draw(shape)
    write_snapshot(facts, folder / "snapshot", run=1)
    write_flat(facts, folder / "flat")
    if flat_order == "arrival":
        order_by_arrival(folder / "flat")
    return facts.as_of


def load_store(store: Store, rows: Path) -> None:
    """Make the snapshot table as refine leaves it, and the empty table whose version is noted."""
    store.create(LANDING_LINE, CLUSTER_SNAPSHOT)
    built = store.session.read.schema(spark_schema(CLUSTER_SNAPSHOT)).parquet(str(rows))
    store.overwrite(CLUSTER_SNAPSHOT, built, run=1)


def measure(
    shape: Shape, repeat: int, folder: Path, flat_order: str, driver_memory: str | None
) -> tuple[list[Ratio], Memory]:
    """Both sides, in turns; RuntimeError when they do not agree."""
    as_of = apart(prepare, shape, folder, flat_order)
    settings = {"spark.master": f"local[{THREADS}]", "spark.ui.showConsoleProgress": "false"}
    if driver_memory:
        settings["spark.driver.memory"] = driver_memory
    session = open_session("featurelib benchmark: audit", settings)
    try:
        store = Store(session, str(folder / "tables"))
        load_store(store, folder / "snapshot")
        with started(folder / "flat", THREADS) as yardstick, watched() as machine:
            ratios, memory = _compare(
                Side(store, as_of, catalogue_of(shape.features)),
                yardstick,
                shape,
                repeat,
                flat_order,
            )
        return machine.beside(ratios), memory
    finally:
        session.stop()


def _compare(
    mine: Side, yardstick: Yardstick, shape: Shape, repeat: int, flat_order: str
) -> tuple[list[Ratio], Memory]:
    memory = Memory(leave_out=[yardstick.pid])
    sides: dict[str, Callable[[], float]] = {
        "judge": mine.judge,
        "duckdb counts": yardstick.count,
        "write": mine.write,
        "duckdb writes": yardstick.write,
        "spark counts": lambda: count_with_spark(mine.store.session, yardstick.folder),
    }
    with memory.sampled():
        seconds = take_turns(sides, repeat)
    agreement = compare(
        yardstick, mine.newest(INCOMPATIBLE_BROKERS), mine.newest(FEATURE_READINESS)
    )
    print(agreement.show())
    if agreement.differences:
        raise RuntimeError("the two sides do not agree, so their times mean nothing")
    comparable = (shape.nodes, shape.features) == (BAR_NODES, BAR_FEATURES)
    pairs = ((JUDGED, "judge", "duckdb counts"), (WRITTEN, "write", "duckdb writes"))
    ratios = [
        Ratio(
            what=what,
            of=seconds[of],
            to=seconds[to],
            bar=BARS.get((shape.clusters, flat_order), {}).get(what) if comparable else None,
        )
        for what, of, to in pairs
    ]
    ratios.append(
        Ratio(
            what=SPARK,
            of=seconds["spark counts"],
            to=seconds["judge"],
            bar=SPARK_BAR if comparable and shape.clusters == 10_000 else None,
            at_least=True,
        )
    )
    return ratios, memory


def run(
    shape: Shape,
    repeat: int,
    folder: Path | None = None,
    flat_order: str = ORDERS[0],
    driver_memory: str | None = None,
) -> list[Ratio]:
    """Measure and print; returns what the summary repeats."""
    with scratch(folder) as place:
        ratios, memory = measure(shape, repeat, place, flat_order, driver_memory)
    size = f"{shape.clusters:,} × {shape.nodes} × {shape.features}, {shape.profiles} profiles"
    show_ratios(f"audit against DuckDB, {size}, flat rows by {flat_order}", ratios)
    fits = "within" if memory.peak <= MEMORY_BAR else "above"
    print(f"  peak memory {memory.peak / (1 << 30):.2f} GiB, {fits} {MEMORY_BAR >> 30} GiB")
    return ratios


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_shape(parser)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--scratch", type=Path, help="where to put the fleet while it runs")
    parser.add_argument("--flat-order", choices=ORDERS, default=ORDERS[0])
    parser.add_argument("--driver-memory", help="Spark's default without it")
    given = parser.parse_args(arguments)
    run(read_shape(given), given.repeat, given.scratch, given.flat_order, given.driver_memory)


if __name__ == "__main__":
    main()
