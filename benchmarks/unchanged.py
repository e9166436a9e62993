"""A run in which few clusters changed, against a run that judges every cluster, both as the job.

    python -m benchmarks.unchanged [--clusters 10000] [--changed 100]

One cluster of `--changed` has newer data. Both sides judge without writing, so that the results of
all clusters are in the driver, and then write all gold tables, in turns, on the same tables and in
one session. Processor time counts, of this process, Java and the workers; wall time and the load
are printed beside it. The least of all turns is compared.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.audit_against_duckdb import THREADS, Side, load_store
from benchmarks.builds import catalogue_of
from benchmarks.facts import Shape, draw
from benchmarks.fleet import add_shape, read_shape
from benchmarks.fleet_rows import write_snapshot
from benchmarks.measure import Ratio, clock, processors, scratch, show_ratios
from featurelib.arrow import rows_of, table_of
from featurelib.config.fleet import Fleet
from featurelib.schema import SNAPSHOT
from featurelib.snapshot.records import with_checksum
from featurelib.spark.auditing import judge_snapshots, read_waiting
from featurelib.spark.judging import judge_as_of, judged_in, unchanged_in
from featurelib.spark.session import open_session
from featurelib.spark.store import Store
from featurelib.spark.unchanged import digest_conditions, find_last, with_unchanged
from featurelib.tables import AUDIT_RUN, CLUSTER_SNAPSHOT

CHANGED, EVERY = "judged if changed", "every cluster judged"
JUDGED, WRITTEN = "nothing written", "gold written"
TURNS = 3
Seconds = tuple[float, float]  # of processors, by the clock


def measure(shape: Shape, every: int, folder: Path) -> list[Ratio]:
    """Return the ratios of processor and wall time."""
    facts = draw(shape)
    write_snapshot(facts, folder / "snapshot", run=1)
    settings = {"spark.master": f"local[{THREADS}]", "spark.ui.showConsoleProgress": "false"}
    session = open_session("featurelib benchmark: unchanged", settings)
    try:
        store = Store(session, str(folder / "tables"))
        load_store(store, folder / "snapshot")
        side = Side(store, facts.as_of, catalogue_of(shape.features))
        return _compare(side, every)
    finally:
        session.stop()


def _compare(side: Side, every: int) -> list[Ratio]:
    least = dict[tuple[str, str], Seconds]()
    side.write()  # warms up
    for turn in range(TURNS + 1):
        for name in (EVERY, CHANGED):
            _change(side.store, every, side.run + 1)
            side.judges_every = name == EVERY
            actions: dict[str, Callable[[], object]]
            actions = {JUDGED: partial(_judge, side), WRITTEN: side.write}
            for what, action in actions.items():
                seconds = _seconds(action)
                print(f"  {name}, {what}: {seconds[0]:.2f} s, clock {seconds[1]:.2f} s")
                if turn:
                    before = least.get((name, what), seconds)
                    least[name, what] = min(before[0], seconds[0]), min(before[1], seconds[1])
            [stays] = side.newest(AUDIT_RUN)["unchanged"].to_pylist()
            print(f"  {name}: {stays:,} unchanged")
    return [
        Ratio(what=f"{CHANGED} / {EVERY}, {what}, {of}", of=a, to=b)
        for what in (JUDGED, WRITTEN)
        for of, a, b in zip(
            ("processors", "clock"), least[CHANGED, what], least[EVERY, what], strict=True
        )
    ]


def _judge(side: Side) -> None:
    """Bring the results of all clusters into the driver, as the job does it."""
    store, settings, as_of = side.store, side.settings, side.as_of
    waiting, _ = read_waiting(store)
    conditions = digest_conditions(Fleet(), settings, side.catalogue, as_of, is_newest=False)
    last = None if side.judges_every else find_last(store, waiting, conditions, as_of)
    judging = judge_as_of(as_of, Fleet(), settings, side.catalogue, waiting, last=last)
    cells = judge_snapshots(store, judging)
    judged, unchanged = judged_in(cells), unchanged_in(cells)
    if last is not None:
        with_unchanged(store, judged, last.run, unchanged)


def _change(store: Store, every: int, run: int) -> None:
    """Write the snapshot table anew, where one cluster of `every` has a later second."""
    stored = store.fetch(CLUSTER_SNAPSHOT)
    rows = rows_of(stored, SNAPSHOT)
    observed_at = rows.numbers("observed_at").copy()
    observed_at[run % every :: every] += 1_000_000
    changed = table_of(with_checksum({**rows.replace(observed_at=observed_at).columns}))
    for name in ("observed_at", "checksum"):
        place = stored.schema.get_field_index(name)
        stored = stored.set_column(place, stored.schema.field(name), changed[name])
    store.overwrite(CLUSTER_SNAPSHOT, stored, run)


def _seconds(action: Callable[[], object]) -> Seconds:
    """Return what an action takes."""
    before = processors()
    wall = clock(action)
    return processors() - before, wall


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_shape(parser)
    parser.add_argument("--changed", type=int, default=100, help="one cluster of so many changes")
    given = parser.parse_args(arguments)
    shape = read_shape(given)
    print(f"load before {os.getloadavg()[0]:.2f}")
    with scratch(None) as folder:
        ratios = measure(shape, given.changed, folder)
    size = f"{shape.clusters:,} × {shape.nodes} × {shape.features}, {shape.profiles} profiles"
    show_ratios(f"one cluster of {given.changed} changed, {size}", ratios)
    print(f"load after {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
