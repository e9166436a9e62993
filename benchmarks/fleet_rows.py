"""A made-up fleet as a snapshot table and as the flat tables of the yardsticks, in Parquet.

Small fleets are folded from their lines by featurelib, as a night does it; big ones are built.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.built_rows import BATCH, build_rows
from benchmarks.facts import Facts
from benchmarks.fleet_lines import write_lines
from featurelib.arrow import batch_of, schema_of
from featurelib.catalogue import load
from featurelib.feature import Role
from featurelib.landing import Quarantined, read
from featurelib.rows import TableRows
from featurelib.schema import LONG, SNAPSHOT
from featurelib.snapshot import ClusterState, fold_lines, snapshot_rows

ADVERTISEMENT = pa.schema(
    [
        ("cluster", pa.string()),
        ("node", pa.int32()),
        ("role", pa.string()),
        ("feature", pa.string()),
        ("min_version", pa.int16()),
        ("max_version", pa.int16()),
    ]
)
FINALIZED = pa.schema([("cluster", pa.string()), ("feature", pa.string()), ("level", pa.int16())])
ROW_GROUP = 122_880  # what DuckDB writes, and shares out between its threads


def fold_rows(facts: Facts) -> Iterator[TableRows]:
    """The fleet's snapshot rows, folded by featurelib from the fleet's lines."""
    catalogue = load()
    rows: list[tuple[str, ClusterState]] = []
    for cluster, name in enumerate(facts.ids):
        number, landed = cluster * facts.shape.lines, []
        for text in write_lines(facts, cluster, cluster + 1):
            for raw in text.splitlines():
                number += 1
                line = read(raw)
                if isinstance(line, Quarantined):
                    raise AssertionError(f"a made-up line is rejected: {line.reason}")
                landed.append((line, number))
        rows.append((name, fold_lines(landed, catalogue)))
        if len(rows) >= BATCH:
            yield snapshot_rows(rows)
            rows = []
    if len(rows):
        yield snapshot_rows(rows)


def write_snapshot(facts: Facts, folder: Path, run: int, files: int = 4) -> None:
    """The snapshot table's rows (silver.cluster_snapshot, without `learned`) as Parquet files."""
    folder.mkdir(parents=True)
    schema = schema_of(SNAPSHOT.with_first("run", LONG))
    writers = [pq.ParquetWriter(folder / f"part-{i}.parquet", schema) for i in range(files)]
    for i, batch in enumerate(map(batch_of, build_rows(facts))):
        row = pa.array([run] * batch.num_rows, pa.int64())
        writers[i % files].write_batch(
            pa.RecordBatch.from_arrays([row, *batch.columns], schema=schema)
        )
    for writer in writers:
        writer.close()


def write_flat(facts: Facts, folder: Path) -> None:
    """The same facts flat: advertisement.parquet, finalized.parquet."""
    folder.mkdir(parents=True)
    for name, schema, rows in (
        ("advertisement", ADVERTISEMENT, _advertisements),
        ("finalized", FINALIZED, _finalized),
    ):
        with pq.ParquetWriter(folder / f"{name}.parquet", schema) as writer:
            for first in range(0, facts.shape.clusters, BATCH):
                clusters = slice(first, min(first + BATCH, facts.shape.clusters))
                writer.write_table(rows(facts, clusters).cast(schema), row_group_size=ROW_GROUP)


def _advertisements(facts: Facts, clusters: slice) -> pa.Table:
    """A row for each listener that answered and each feature, by cluster."""
    builds, width = facts.builds, len(facts.builds.names)
    row, listener = np.nonzero(facts.answering(clusters))
    software = facts.software[clusters][row, listener]
    minimum = builds.minimum[software]
    if facts.shape.profiles == "many":
        minimum[:, builds.made_up] = facts.minima(clusters)[row, listener]
    ids = np.array([facts.node_ids(i) for i in range(clusters.start, clusters.stop)])
    return pa.table(
        {
            "cluster": _words(facts.ids[clusters], np.repeat(row, width)),
            "node": np.repeat(ids[row, listener], width),
            "role": _words(
                [role.text for role in Role], np.repeat(listener >= facts.shape.nodes, width)
            ),
            "feature": _words(builds.names, np.tile(np.arange(width), len(row))),
            "min_version": minimum.ravel(),
            "max_version": builds.maximum[software].ravel(),
        }
    )


def _finalized(facts: Facts, clusters: slice) -> pa.Table:
    """A row for each feature that is finalized, at the highest epoch."""
    levels = facts.builds.levels[facts.finalized[clusters]]
    row, feature = np.nonzero(levels)
    return pa.table(
        {
            "cluster": _words(facts.ids[clusters], row),
            "feature": _words(facts.builds.names, feature),
            "level": levels[row, feature],
        }
    )


def _words(names: list[str], at: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(at.astype(np.int32)), pa.array(names))
