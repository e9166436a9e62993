"""Bronze to silver: histories a row a feature, and one snapshot row a cluster.

The snapshot is folded from the last one and the lines that came since, so a night costs by what
came in and by the number of clusters. It is written first; the histories follow up to its run, and
what a crash left open is followed up before anything new is folded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from featurelib.catalogue import load
from featurelib.errors import NoEvidenceError
from featurelib.schema import CHANGE, SNAPSHOT
from featurelib.snapshot import Change, Rows, begin
from featurelib.spark.histories import history_of_changes, history_of_lines, read_valid
from featurelib.spark.shapes import arrow_type
from featurelib.spark.store import Store
from featurelib.tables.bronze import LANDING_LINE
from featurelib.tables.silver import CLUSTER_SNAPSHOT, FINALIZED_FEATURES, NODE_ADVERTISEMENT
from featurelib.tables.table import Table

BATCH_CLUSTERS = 500
FOLDED = SNAPSHOT.append(pa.field("changes", pa.list_(CHANGE)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RefineCounts:
    """What one run refined."""

    run: int  # the newest ingest the snapshot holds
    clusters: int


def refine(store: Store, say: Callable[[str], None]) -> RefineCounts:
    """Bring the silver tables up to the newest ingest; nothing new changes nothing.

    Raises NoEvidenceError when nothing was ever ingested, TableError (see Store).
    """
    newest = store.newest_run(LANDING_LINE)
    if newest is None:
        raise NoEvidenceError(
            f"tables {store.root}: nothing was ingested yet, so there is nothing to refine. "
            "Run ./spark-submit.sh ingest first."
        )
    store.create(NODE_ADVERTISEMENT, FINALIZED_FEATURES, CLUSTER_SNAPSHOT)
    done = store.newest_run(CLUSTER_SNAPSHOT)
    bronze = valid_lines(store.read(LANDING_LINE))
    _follow_up(store, bronze, done)
    fresh = bronze.filter(F.col("run") > F.lit(done or 0))
    if done is not None and done >= newest:
        say("refine: nothing new came in")
    else:
        lines = fresh if done is None else with_whole_dumps(fresh, bronze, done, dump_times(fresh))
        before = None if done is None else store.read(CLUSTER_SNAPSHOT)
        folded = fold_clusters(lines, before, done or 0)
        store.overwrite(CLUSTER_SNAPSHOT, folded.withColumn("run", F.lit(newest)), newest)
        say("refine: snapshot of every cluster written")
        _follow_up(store, bronze, newest)
        say("refine: histories written")
    return RefineCounts(run=newest, clusters=store.read(CLUSTER_SNAPSHOT).count())


def valid_lines(bronze: DataFrame) -> DataFrame:
    """The lines of bronze that are not quarantined."""
    return bronze.filter(F.col("reason").isNull()).select(
        "run", "cluster", "kind", "observed_at", "line_id", "raw"
    )


def dump_times(fresh: DataFrame) -> tuple[int, int] | None:
    """First and last time, in microseconds, of the metadata log dumps `fresh` has lines of."""
    times = fresh.filter(F.col("kind") == F.lit("metadata_log")).agg(
        F.unix_micros(F.min("observed_at")).alias("first"),
        F.unix_micros(F.max("observed_at")).alias("last"),
    )
    found = times.collect()[0]
    return None if found.first is None else (found.first, found.last)


def with_whole_dumps(
    fresh: DataFrame, bronze: DataFrame, done: int, times: tuple[int, int] | None
) -> DataFrame:
    """`fresh` and, of every metadata log dump it has a line of, the lines that came before.

    What a record means depends on the file it stands in, so a dump is read whole, however many
    files it was split over. Between these times of dumps (see dump_times), Delta has to look; the
    files of all other nights are skipped.
    """
    if times is None:
        return fresh
    is_log = F.col("kind") == F.lit("metadata_log")
    touched = fresh.filter(is_log).select("cluster", "observed_at").distinct()
    between = F.col("observed_at").between(*(F.timestamp_micros(F.lit(at)) for at in times))
    earlier = bronze.filter(is_log & between & (F.col("run") <= F.lit(done)))
    context = earlier.join(F.broadcast(touched), on=["cluster", "observed_at"], how="left_semi")
    return fresh.unionByName(context)


def fold_clusters(lines: DataFrame, before: DataFrame | None, done: int) -> DataFrame:
    """One row a cluster: what was known (`before`) and `lines` (of valid_lines).

    Lines of runs up to `done` were folded already; they only make dumps whole.
    """
    parts = lines.select("run", "cluster", "line_id", "raw")
    parts = parts.withColumn("state", F.lit(None).cast("binary"))
    if before is not None:
        known = before.select(
            F.lit(0).cast("bigint").alias("run"),
            "cluster",
            F.lit(None).cast("bigint").alias("line_id"),
            F.lit(None).cast("binary").alias("raw"),
            "state",
        )
        parts = parts.unionByName(known)
    ordered = parts.repartition("cluster").sortWithinPartitions("cluster", "run", "line_id")

    def fold(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return fold_batches(batches, done)

    return ordered.mapInArrow(fold, arrow_type(FOLDED)).select(*FOLDED.names)


def fold_batches(batches: Iterable[pa.RecordBatch], done: int) -> Iterator[pa.RecordBatch]:
    """Rows sorted by cluster and run in; FOLDED out, a row a cluster."""
    catalogue = load()
    rows, changes = Rows(), list[list[dict[str, object]]]()
    for cluster, entries in groupby(_entries(batches), key=lambda entry: entry[1]):
        fold, learned = None, list[dict[str, object]]()
        for run, of_run in groupby(entries, key=lambda entry: entry[0]):
            for _, _, line_id, raw, state in of_run:
                if fold is None:
                    fold = begin(state, catalogue)
                if raw is not None:
                    fold.add(read_valid(raw), line_id)
            assert fold is not None
            if run <= done:
                fold.forget_run()
            else:
                learned += [entry for change in fold.close_run() for entry in _say(run, change)]
        assert fold is not None
        rows.add(cluster, fold.finish())
        changes.append(learned)
        if len(rows) >= BATCH_CLUSTERS:
            yield _batch(rows, changes)
            changes = []
    if len(rows):
        yield _batch(rows, changes)


_Entry = tuple[int, str, int, bytes | None, bytes | None]


def _entries(batches: Iterable[pa.RecordBatch]) -> Iterator[_Entry]:
    for batch in batches:
        columns = (
            batch.column(n).to_pylist() for n in ("run", "cluster", "line_id", "raw", "state")
        )
        yield from zip(*columns, strict=True)


def _batch(rows: Rows, changes: list[list[dict[str, object]]]) -> pa.RecordBatch:
    learned = pa.array(changes, pa.list_(CHANGE))
    return pa.RecordBatch.from_arrays([*rows.take().columns, learned], schema=FOLDED)


def _say(run: int, change: Change) -> list[dict[str, object]]:
    """A change as rows: one for a level, one a feature for a registration."""
    common = {"run": run, "offset": change.offset, "at": change.at, "line": change.line}
    if change.level is not None:
        name, level = change.level
        return [{**common, "is_level": True, "feature": name, "low": level, "high": level}]
    assert change.node is not None
    _, node_id = change.node
    ranges = change.ranges or ((None, None, None),)
    return [
        {**common, "is_level": False, "node_id": node_id, "feature": name, "low": low, "high": high}
        for name, low, high in ranges
    ]


def _follow_up(store: Store, bronze: DataFrame, upto: int | None) -> None:
    """Append to each history what the snapshot holds and it does not."""
    if upto is None:
        return

    def append(table: Table, finalized: bool) -> None:
        since = store.newest_run(table) or 0
        if since >= upto:
            return
        lines = bronze.filter((F.col("run") > F.lit(since)) & (F.col("run") <= F.lit(upto)))
        changes = store.read(CLUSTER_SNAPSHOT).select("cluster", F.inline("changes"))
        said = history_of_lines(lines, finalized)
        learned = history_of_changes(changes, since, finalized)
        store.append(table, said.unionByName(learned), upto)

    with ThreadPoolExecutor(max_workers=2) as pool:
        histories = ((NODE_ADVERTISEMENT, False), (FINALIZED_FEATURES, True))
        list(pool.map(lambda history: append(*history), histories))
