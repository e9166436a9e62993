"""How many clusters of a fleet are alike, and what judging one of each kind could save at most.

    python -m benchmarks.alike [--clusters 10000]

Input: snapshot rows of made-up fleets with few, many and realistic profiles, in memory. Output: the
number of distinct rows by two measures. Both leave out names of clusters, times, lines, and the
epochs and offsets that the layout marks as content. The first keeps the ids of nodes. The second
leaves them out and sorts the records of each part, which forgets what belongs to one node. So it
finds at most as many kinds as a right signature does, and no right signature saves more.

Realistic: clusters of 4 to 50 brokers, small ones more often, with Kafka's own seven features. One
cluster of twenty is in a rolling upgrade, three of ten wait for a finalization, and few nodes are
too old or stale. Patch releases have the ranges of their minor release.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from benchmarks.builds import catalogue_of
from benchmarks.built_rows import build_rows
from benchmarks.facts import DAY, Shape, draw
from featurelib import schema
from featurelib.audit.audit import judge
from featurelib.audit.evidence import Conditions
from featurelib.core.dialect import STRICT, load
from featurelib.planning import outlook
from featurelib.rows import TableRows, join_rows

LEFT_OUT = {"time", "line"}
POSITIONS = {"epoch", "highest_epoch", "log_end", "features_node_version"}  # different everywhere
TURNS = 3
KINDS = ("few", "many", "realistic")
BROKERS = {4: 0.3, 6: 0.25, 9: 0.2, 12: 0.12, 24: 0.08, 50: 0.05}  # number → share of clusters
REALISTIC = {"features": 7, "offenders": 0.002, "ghosts": 0.005, "rolling": 0.05}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Snapshot rows, and when they are judged."""

    rows: TableRows
    as_of: int
    features: int


def shapes_of(kind: str, clusters: int) -> list[Shape]:
    """Return the parts of a fleet with `few`, `many` or `realistic` profiles."""
    if kind != "realistic":
        return [Shape(clusters=clusters, profiles=kind)]
    return [
        Shape(clusters=round(clusters * share), nodes=nodes, seed=nodes, **REALISTIC)  # type: ignore[arg-type]
        for nodes, share in BROKERS.items()
    ]


def fleet(kind: str, clusters: int) -> Fleet:
    """Return a fleet with `few`, `many` or `realistic` profiles."""
    shapes = shapes_of(kind, clusters)
    facts = [draw(shape) for shape in shapes]
    rows = join_rows([rows for of in facts for rows in build_rows(of)])
    return Fleet(rows=rows, as_of=max(of.as_of for of in facts), features=shapes[0].features)


def signatures(rows: TableRows, *, with_ids: bool) -> list[bytes]:
    """Return a digest of each row's content."""
    digests = [blake2b(digest_size=16) for _ in range(len(rows))]
    texts = (
        rows["features_node"].to_pylist(),
        rows["names"].to_pylist(),
        rows["texts"].to_pylist(),
    )
    for digest, *values in zip(digests, *texts, strict=True):
        digest.update(repr(values).encode())
    left_out = LEFT_OUT if with_ids else LEFT_OUT | {"node"}
    for part, of in schema.LAYOUT.items():
        column, marks = rows.cells(part), schema._PARTS[part]
        fields = [n for n in of.names or () if marks[n] not in left_out and n not in POSITIONS]
        records = np.frombuffer(column.data, of)
        ends = column.ends // of.itemsize
        kept = np.zeros(len(records), [(name, of[name]) for name in fields])
        for name in fields:
            kept[name] = records[name]
        if not with_ids and fields:  # by row, then by content
            row = np.repeat(np.arange(len(rows)), np.diff(ends))
            kept = kept[np.lexsort([*(kept[name] for name in reversed(fields)), row])]
        for digest, start, end in zip(digests, ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            digest.update(kept[start:end].tobytes() + b"\0%d" % (end - start))
    return [digest.digest() for digest in digests]


def auditing(of: Fleet, rows: TableRows) -> Callable[[], object]:
    """Return an audit of these rows with plan files, as a worker makes it."""
    conditions = Conditions(as_of=of.as_of, max_age=3 * DAY)
    catalogue, dialect = catalogue_of(of.features), load(STRICT)

    def run() -> object:
        judged = judge(rows, conditions, catalogue, dialect)
        return outlook.with_texts(judged, dialect=STRICT, catalogue=catalogue, guarding=None)

    return run


def seconds(action: Callable[[], object]) -> float:
    """Return the least processor time of this process in some turns."""
    least = float("inf")
    for _ in range(TURNS):
        begin = time.process_time()
        action()
        least = min(least, time.process_time() - begin)
    return least


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=10_000)
    given = parser.parse_args(arguments)
    print(f"load {os.getloadavg()[0]:.2f}")
    print(
        "profiles | clusters | distinct with ids | kinds | all, s | one of a kind, s | signing, s"
    )
    for kind in ("few", "realistic", "many"):
        drawn = fleet(kind, given.clusters if kind != "many" else given.clusters // 4)
        own = len(set(signatures(drawn.rows, with_ids=True)))
        kinds = signatures(drawn.rows, with_ids=False)
        first = np.array(sorted({name: at for at, name in enumerate(kinds)}.values()))
        whole = seconds(auditing(drawn, drawn.rows))
        part = seconds(auditing(drawn, drawn.rows.take(first)))
        signing = seconds(lambda rows=drawn.rows: signatures(rows, with_ids=False))  # type: ignore[misc]
        print(
            f"{kind} | {len(kinds):,} | {own:,} | {len(first):,} | "
            f"{whole:.2f} | {part:.2f} | {signing:.2f}"
        )
    print(f"load {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
