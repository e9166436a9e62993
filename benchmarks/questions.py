"""What a question costs on a fleet: each command on its own, against a bare Python start.

    python -m benchmarks.questions [--clusters 2500] [--nights 2] [--repeat 3] [--tables FOLDER]

A made-up fleet is judged and written as Delta tables without Spark: its snapshots sorted by cluster
in as many files as Spark writes, its histories a file a night. Then every command is started as a
process of its own, and so is a Python that imports deltalake and Arrow and ends. Seconds of the
wall and of the processors; only a machine that does nothing else tells the former.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from deltalake import write_deltalake

from benchmarks.built_rows import build_rows
from benchmarks.facts import FIRST_NIGHT, Facts, Shape, draw
from benchmarks.fleet import add_shape, read_shape
from benchmarks.fleet_rows import write_flat
from benchmarks.measure import scratch, show_table
from featurelib.catalogue import load as load_catalogue
from featurelib.core.audit import Judged, judge
from featurelib.core.dialect import STRICT, load
from featurelib.core.evidence import Conditions
from featurelib.snapshot.unpacked import unpack
from featurelib.tables import Table
from featurelib.tables.bronze import LANDING_LINE
from featurelib.tables.gold import (
    AUDIT_RUN,
    FEATURE_READINESS,
    FINDINGS,
    INCOMPATIBLE_BROKERS,
    UPGRADE_PLANS,
)
from featurelib.tables.silver import CLUSTER_SNAPSHOT, FINALIZED_FEATURES, NODE_ADVERTISEMENT

BARE = "bare Python with deltalake and Arrow"
FILES = 2  # of the snapshots: spark.sql.shuffle.partitions
HOURS_72 = 72 * 3600 * 10**6
PARTS = {
    FINDINGS: "findings",
    INCOMPATIBLE_BROKERS: "incompatible",
    FEATURE_READINESS: "readiness",
    UPGRADE_PLANS: "plans",
}


def run_of(night: int) -> int:
    """The number of a night's run."""
    at = datetime.fromtimestamp(FIRST_NIGHT / 1e6, UTC) + timedelta(days=night)
    return int(at.strftime("%Y%m%d%H%M%S"))


def write_fleet(root: Path, shape: Shape, nights: int, folder: Path) -> list[str]:
    """All tables of some nights below `root`; returns the clusters' ids."""
    for night in range(nights):
        facts, run = draw(shape, night), run_of(night)
        batches = list(build_rows(facts))
        rows = pa.Table.from_batches(batches)
        as_of = int(pa.compute.max(rows["observed_at"].cast(pa.int64())).as_py())
        for judged in _judged(batches, as_of):
            for table, part in PARTS.items():
                _append(root, table, getattr(judged, part), run)
        _write_snapshots(root, rows, run, facts)
        _write_histories(root, facts, run, folder / str(night))
        _write_lines(root, facts, run)
        about = {
            "run": run,
            "as_of": datetime.fromtimestamp(as_of / 1e6, UTC),
            "catalogue": load_catalogue().label,
            "dialect": STRICT,
            "inputs": [{"table": CLUSTER_SNAPSHOT.full_name, "version": _version(root)}],
        }
        told = pa.Table.from_pylist([about], schema=AUDIT_RUN.schema)
        _append(root, AUDIT_RUN, told.drop_columns(["run"]), run)
    return facts.ids


def _judged(batches: Sequence[pa.RecordBatch], as_of: int) -> Iterator[Judged]:
    conditions = Conditions(as_of=as_of, max_age=HOURS_72)
    for batch in batches:
        yield judge(unpack(batch), conditions, load_catalogue(), load(STRICT))


def _write_snapshots(root: Path, rows: pa.Table, run: int, facts: Facts) -> None:
    changes = CLUSTER_SNAPSHOT.schema.field("changes")
    rows = rows.append_column(changes, pa.nulls(rows.num_rows, changes.type))
    # As a fold leaves them: shared out by a hash of the cluster, and sorted in each file.
    share = np.array([hash(name) % FILES for name in facts.ids])
    for part in range(FILES):
        mine = rows.filter(pa.array(share == part)).sort_by("cluster")
        _append(root, CLUSTER_SNAPSHOT, mine, run, "append" if part else "overwrite")


def _write_histories(root: Path, facts: Facts, run: int, folder: Path) -> None:
    write_flat(facts, folder)
    dates = {"observed_at": int(facts.at(slice(0, 1))[0, -1]), "epoch": 1000 + run % 1000}
    for name, table in (
        ("advertisement", NODE_ADVERTISEMENT),
        ("finalized", FINALIZED_FEATURES),
    ):
        told = pa.parquet.read_table(folder / f"{name}.parquet")
        columns = {
            "cluster": told["cluster"],
            "observed_at": _same(dates["observed_at"], told.num_rows),
            "line_id": pa.array(_lines(told)),
            "witness": told["role"] if name == "advertisement" else _same("broker", told.num_rows),
            "node_id": told["node"] if name == "advertisement" else _same(1, told.num_rows),
            "epoch": _same(dates["epoch"], told.num_rows),
            "feature": told["feature"],
        }
        ends = ("min_version", "max_version") if name == "advertisement" else ("level", "level")
        for own, column in zip(table.schema.names[-2:], ends, strict=True):
            columns[own] = told[column]
        _append(root, table, pa.table(columns), run)


def _write_lines(root: Path, facts: Facts, run: int) -> None:
    """Bronze: a line for each number that the snapshots name, without what it says."""
    clusters, lines = facts.shape.clusters, facts.shape.lines
    count = clusters * lines
    columns = {
        "line_id": pa.array(np.arange(count) + 1),
        "source_file": _same(f"landing/{run}/part-000.jsonl", count),
        "line_number": pa.array(np.arange(count) + 1),
        "cluster": pa.array(np.repeat(np.array(facts.ids), lines)),
        "observed_at": pa.array(facts.at(slice(0, clusters)).ravel()),
        "raw": _same(b"x" * 2000, count),
    }
    for name in ("content_hash", "kind", "reason"):
        columns[name] = pa.nulls(count, LANDING_LINE.schema.field(name).type)
    _append(root, LANDING_LINE, pa.table(columns), run)


def _lines(told: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """A number for each answer: rows of one cluster and node that follow one another."""
    cluster = told["cluster"].combine_chunks().dictionary_encode().indices.to_numpy()
    last = np.zeros(told.num_rows, dtype=bool)
    last[1:] = cluster[1:] != cluster[:-1]
    if "node" in told.schema.names:
        node = told["node"].to_numpy()
        last[1:] |= node[1:] != node[:-1]
    return np.cumsum(last) + 1


def _same(value: object, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value), count)


def _append(root: Path, table: Table, rows: pa.Table, run: int, mode: str = "append") -> None:
    """Add rows as the nightly's store does, with the table's own version property."""
    path = root / table.path
    is_new = not path.exists()
    rows = rows.add_column(0, "run", pa.repeat(pa.scalar(run, pa.int64()), rows.num_rows))
    rows = rows.select(table.schema.names).cast(table.schema)
    write_deltalake(str(path), rows, mode=mode)  # type: ignore[call-overload]
    if is_new:
        log = path / "_delta_log" / f"{0:020}.json"
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for action in actions:
            if "metaData" in action:
                action["metaData"]["configuration"]["featurelib.tableVersion"] = str(table.version)
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))


def _version(root: Path) -> int:
    return len(list((root / CLUSTER_SNAPSHOT.path / "_delta_log").glob("*.json"))) - 1


def commands(tables: Path, cluster: str) -> dict[str, list[str]]:
    """Every question as a command line, about one cluster in the middle of the fleet."""
    start, at = [sys.executable, "-m", "featurelib"], ["--tables", str(tables)]
    return {
        BARE: [sys.executable, "-c", "import deltalake, pyarrow.dataset"],
        "why-not, every node in the way": [*start, "why-not", cluster, "metadata.version=33", *at],
        "what-if": [*start, "what-if", cluster, "--release", "4.2", *at],
        "roll": [*start, "roll", cluster, "--to", "4.2", *at],
        "timeline": [*start, "timeline", cluster, *at],
        "diff": [*start, "diff", "--last", *at],
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
        if not (tables / AUDIT_RUN.path).exists():
            write_fleet(tables, shape, given.nights, folder)
        cluster = draw(shape, 0).ids[shape.clusters // 2]
        seconds = measure(commands(tables, cluster), given.repeat)
        bare = seconds[BARE][1]
        rows = [
            (name, f"{wall:.2f}", f"{used:.2f}", f"{used / bare:.1f}")
            for name, (wall, used) in seconds.items()
        ]
        title = f"{shape.clusters:,} clusters of {shape.nodes} nodes, {given.nights} nights"
        show_table(title, ("", "seconds", "of processor", "times bare"), rows)


if __name__ == "__main__":
    main()
