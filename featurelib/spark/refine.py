"""Bronze to silver: histories a row a feature, and one snapshot row a cluster.

The snapshot is folded from the last one and the lines that came since, so a night costs by what
came in and by the number of clusters. It is written first; the histories follow up to its run, and
what a crash left open is followed up before anything new is folded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from featurelib.audit.columns import end_of_second, latest
from featurelib.catalogue import load
from featurelib.errors import NoEvidenceError
from featurelib.landing import Landing, Quarantined, read
from featurelib.schema import SNAPSHOT
from featurelib.snapshot import ClusterState, begin, snapshot_rows
from featurelib.snapshot.history import Learned, history_rows, pack
from featurelib.spark.store import Store
from featurelib.tables import (
    CLUSTER_SNAPSHOT,
    FINALIZED_FEATURES,
    LANDING_LINE,
    NODE_ADVERTISEMENT,
    Table,
)

BATCH_CLUSTERS = 500
HISTORIES = (NODE_ADVERTISEMENT, FINALIZED_FEATURES)
LATE = (1 << 63) - 1  # in the place of a run: lines that are not folded yet come last
ENTRY = ("run", "cluster", "line_id", "raw", "state")  # a line to fold, or what is known
FOLDED = SNAPSHOT.append(pa.field("learned", pa.binary()))


@dataclass(frozen=True, slots=True, kw_only=True)
class RefineCounts:
    """What one run refined."""

    run: int  # the newest ingest the snapshot holds
    clusters: int


def refine(
    store: Store,
    say: Callable[[str], None],
    *,
    as_of: int | None = None,
    run: int | None = None,
) -> RefineCounts:
    """Bring the silver tables up to the newest ingest; nothing new changes nothing.

    Lines dated later than `as_of` (microseconds; None = none is) allows are not folded: they wait
    in bronze until a later night reaches them. A cluster that was folded further than that is
    folded anew from bronze. `run` numbers a night that brought no lines and folds some all the
    same. Snapshots of an earlier release are made anew from bronze. Raises NoEvidenceError when
    nothing was ever ingested, TableError (see Store).
    """
    newest = store.newest_run(LANDING_LINE)
    if newest is None:
        raise NoEvidenceError(
            f"tables {store.root}: nothing was ingested yet, so there is nothing to refine. "
            "Run ./spark-submit.sh ingest first."
        )
    store.create(*HISTORIES, CLUSTER_SNAPSHOT)
    done = store.newest_run(CLUSTER_SNAPSHOT)
    bronze = store.read(LANDING_LINE).filter(F.col("reason").isNull())
    until = None if as_of is None else latest(as_of)
    known = waited = None
    if done is not None:
        store.expect_ahead(CLUSTER_SNAPSHOT, *HISTORIES)
        _follow_up(store, done, anew=True)  # what the crash left is not known: look
        columns = ["cluster", "observed_at", "waiting"]
        known = _known(store.fetch(CLUSTER_SNAPSHOT, columns=columns), done, until)
        waited = _waited(bronze, known, until)
    if known is not None and known.done >= newest and not known.ahead and waited is None:
        say("refine: nothing new came in")
        upto = newest
    else:
        upto = newest if known is None else max(newest, run or 0, known.done + 1)
        folded = _folded(store, bronze, known, waited, until, upto)
        store.overwrite(CLUSTER_SNAPSHOT, folded.withColumn("run", F.lit(upto)), upto)
        say("refine: snapshot of every cluster written")
        _follow_up(store, upto, anew=known is None or waited is not None)
        say("refine: histories written")
    clusters = store.fetch(CLUSTER_SNAPSHOT, columns=["run"]).num_rows
    return RefineCounts(run=upto, clusters=clusters)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the snapshots hold: every valid line of runs up to `done` that is dated up to `newest`
    (microseconds), and none later: it is the end of the second of the latest line that was folded,
    of all clusters, and what waited was of a later second. Delta keeps times of files to the
    millisecond, so last night's are not opened for it. `ahead` are clusters that were folded
    further than tonight's. Unless one `waits`, bronze has no line of those runs that is later."""

    done: int
    newest: int
    ahead: tuple[str, ...]
    waits: bool


def _known(snapshots: pa.Table, done: int, until: int | None) -> _Known:
    at = snapshots["observed_at"].cast(pa.int64())
    ahead = [] if until is None else snapshots["cluster"].filter(pc.greater(at, until)).to_pylist()
    return _Known(
        done=done,
        newest=end_of_second(pc.max(at).as_py() or 0),
        ahead=tuple(ahead),
        waits=(pc.max(snapshots["waiting"]).as_py() or 0) > 0,
    )


def _dated(lines: DataFrame, after: int | None = None, until: int | None = None) -> DataFrame:
    """Lines dated later than `after`, and not later than `until`; one without a date is early."""
    at = F.col("observed_at")
    if until is not None:
        lines = lines.filter(at.isNull() | (at <= F.timestamp_micros(F.lit(until))))
    return lines if after is None else lines.filter(at > F.timestamp_micros(F.lit(after)))


def _waited(bronze: DataFrame, known: _Known, until: int | None) -> DataFrame | None:
    """The lines that earlier nights left in bronze and tonight reaches; None = there are none."""
    if not known.waits:
        return None
    waited = _dated(bronze.filter(F.col("run") <= F.lit(known.done)), known.newest, until)
    return None if waited.isEmpty() else waited


def _folded(
    store: Store,
    bronze: DataFrame,
    known: _Known | None,
    waited: DataFrame | None,
    until: int | None,
    upto: int,
) -> DataFrame:
    """Every cluster folded up to `until`. What waited is folded as if it came in this run."""
    since = min(store.newest_run(table) or 0 for table in HISTORIES)
    late = None if until is None else _dated(bronze, until)
    if known is None:
        return _fold_clusters(_dated(bronze, until=until), None, 0, since, late)
    is_old = F.col("run") <= F.lit(known.done)
    old, new = _dated(bronze.filter(is_old), until=known.newest), bronze.filter(~is_old)
    fresh = _dated(new, until=until)
    if waited is not None:
        fresh = fresh.unionByName(waited.withColumn("run", F.lit(upto).cast("bigint")))
    if until is not None and not known.waits and not known.ahead:
        late = _dated(new, until)
    lines = _with_whole_dumps(fresh, old)
    before = store.read(CLUSTER_SNAPSHOT)
    if known.ahead:
        is_ahead = F.col("cluster").isin(*known.ahead)
        anew = _dated(bronze.filter(is_ahead), until=until)
        lines = lines.filter(~is_ahead).unionByName(anew)
        before = before.filter(~is_ahead)
    return _fold_clusters(lines, before, known.done, since, late)


def _with_whole_dumps(fresh: DataFrame, old: DataFrame) -> DataFrame:
    """`fresh` and, of every metadata log dump it has a line of, the lines that came before.

    What a record means depends on the file it stands in, so a dump is read whole, however many
    files it was split over. Between the times of these dumps Delta has to look; the files of all
    other nights are skipped.
    """
    is_log = F.col("kind") == F.lit("metadata_log")
    dumps = fresh.filter(is_log)
    ends = [F.unix_micros(end("observed_at")) for end in (F.min, F.max)]
    first, last = dumps.agg(*ends).collect()[0]
    if first is None:
        return fresh
    between = F.col("observed_at").between(*(F.timestamp_micros(F.lit(at)) for at in (first, last)))
    touched = dumps.select("cluster", "observed_at").distinct()
    earlier = old.filter(is_log & between)
    context = earlier.join(F.broadcast(touched), on=["cluster", "observed_at"], how="left_semi")
    return fresh.unionByName(context)


def _fold_clusters(
    lines: DataFrame, before: DataFrame | None, done: int, since: int, late: DataFrame | None
) -> DataFrame:
    """One row a cluster: what was known (`before`) and valid `lines`.

    Lines of runs up to `done` were folded already; they only make dumps whole, but for a cluster
    that has lines of such runs and is not in `before`: it is folded anew. Of `late` it is only told
    that they are there. The histories have what runs up to `since` showed.
    """
    parts = lines.select(*ENTRY[:-1]).withColumn("state", F.lit(None).cast("binary"))
    if late is not None:
        waiting = late.withColumn("run", F.lit(LATE)).select(*ENTRY[:-1])
        parts = parts.unionByName(waiting, allowMissingColumns=True)
    if before is not None:
        known = before.select(F.lit(0).cast("bigint").alias("run"), "cluster", "state")
        parts = parts.unionByName(known, allowMissingColumns=True)
    ordered = parts.repartition("cluster").sortWithinPartitions("cluster", "run", "line_id")

    def fold(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return fold_batches(batches, done, since)

    return ordered.mapInArrow(fold, from_arrow_schema(FOLDED)).select(*FOLDED.names)


_Entry = tuple[int, str, int, bytes | None, bytes | None]  # as ENTRY


def fold_batches(
    batches: Iterable[pa.RecordBatch], done: int, since: int
) -> Iterator[pa.RecordBatch]:
    """ENTRY in, sorted by cluster and run; FOLDED out, a row a cluster."""
    entries: Iterator[_Entry] = (
        entry
        for batch in batches
        for entry in zip(*(batch.column(name).to_pylist() for name in ENTRY), strict=True)
    )
    rows: list[_Folded] = []
    for cluster, mine in groupby(entries, key=itemgetter(1)):
        rows.append(_fold(cluster, mine, done, since))
        if len(rows) >= BATCH_CLUSTERS:
            yield _batch(rows)
            rows = []
    if rows:
        yield _batch(rows)


_Folded = tuple[str, ClusterState, bytes | None]


def _fold(cluster: str, entries: Iterator[_Entry], done: int, since: int) -> _Folded:
    """One cluster: its state, and what it newly learned, packed."""
    learned = Learned()
    first = next(entries)
    fold, is_anew = begin(first[4], load()), first[4] is None
    for run, of_run in groupby(chain([first], entries), key=itemgetter(0)):
        is_new = max(done, since) < run < LATE  # else the histories have it
        fold.run, fold.learned = run, learned if is_new else None
        take = fold.wait if run == LATE else fold.add
        for _, _, line_id, raw, _ in of_run:
            if raw is not None:
                take(_valid(raw), line_id)
        if run <= done and not is_anew:
            fold.forget_run()
        else:
            fold.close_run()
    return cluster, fold.finish(), pack(learned)


def _valid(raw: bytes) -> Landing:
    line = read(raw)
    if isinstance(line, Quarantined):  # a parser that changed its mind is a fault of ours
        raise AssertionError(f"a valid line of bronze is rejected now: {line.reason}")
    return line


def _batch(rows: list[_Folded]) -> pa.RecordBatch:
    snapshots = snapshot_rows((cluster, state) for cluster, state, _ in rows)
    learned = pa.array([packed for _, _, packed in rows], pa.binary())
    return pa.RecordBatch.from_arrays([*snapshots.columns, learned], schema=FOLDED)


def _follow_up(store: Store, upto: int, anew: bool) -> None:
    """Append to each history what the snapshot has for it, and it does not have.

    `anew`: lines may have been folded that were folded before, and cut off since (a clock that was
    ahead, an earlier --as-of, another release). They teach again what a history has, which stays
    there once.
    """

    def append(table: Table) -> None:
        since = store.newest_run(table) or 0
        if since >= upto:
            return
        rows = store.read(CLUSTER_SNAPSHOT).filter(F.col("learned").isNotNull())
        schema = from_arrow_schema(table.schema)
        unfold = partial(_unfold, table, since)
        learned = rows.select("cluster", "learned").mapInArrow(unfold, schema)
        learned = learned.select(*table.schema.names)
        if anew and since:
            there = store.read(table)
            same = [learned[name].eqNullSafe(there[name]) for name in table.grain]
            learned = learned.join(there, on=same, how="left_anti")
        store.append(table, learned, upto)

    with ThreadPoolExecutor(max_workers=len(HISTORIES)) as pool:
        list(pool.map(append, HISTORIES))


def _unfold(
    table: Table, since: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What rows of (cluster, learned) have for a history, by runs after `since`."""
    pairs = (
        pair
        for batch in batches
        for pair in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    )
    return history_rows(table, since, pairs)
