"""Bronze to silver: histories with a row per feature, and one snapshot row per cluster.

The snapshot is folded from the last one and the newer lines, so the cost of a run depends on new
lines and the number of clusters. It is written first; the histories follow up to its run. After a
crash the histories are completed before anything new is folded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from featurelib.arrow import schema_of
from featurelib.audit.columns import end_of_second, latest
from featurelib.errors import NoEvidenceError
from featurelib.snapshot.records import SET_ASIDE, UNUSABLE
from featurelib.spark.folding import LATE, unfold
from featurelib.spark.frames import entries_of, fold_frame
from featurelib.spark.ingest import quarantine
from featurelib.spark.log import Wanted
from featurelib.spark.store import Store
from featurelib.tables import (
    CLUSTER_SNAPSHOT,
    FINALIZED_FEATURES,
    LANDING_LINE,
    NODE_ADVERTISEMENT,
    Table,
)

HISTORIES = (NODE_ADVERTISEMENT, FINALIZED_FEATURES)
VALID: Wanted = ("reason", "is null", None)


def refine(
    store: Store, say: Callable[[str], None], *, as_of: int | None = None, run: int | None = None
) -> int:
    """Update the silver tables to the newest ingest, and return its run; without news nothing
    changes.

    Lines dated later than `as_of` (microseconds; None if no limit) are not folded: they wait in
    bronze for a later run. `run` is the number of a run without new lines that folds waiting ones.
    Some clusters are folded again from all their lines (see _find_stale). So are all clusters, if
    the snapshots are of an earlier release, or if another writer changed a table of silver or
    bronze, or put an older copy in its place. Raises NoEvidenceError when nothing was ever
    ingested, TableError (see Store).
    """
    newest = store.newest_run(LANDING_LINE)
    if newest is None:
        raise NoEvidenceError(
            f"tables {store.root}: nothing was ingested yet, so there is nothing to refine. "
            "Run ./spark-submit.sh ingest first."
        )
    store.create(*HISTORIES, CLUSTER_SNAPSHOT)
    for name in store.find_older({CLUSTER_SNAPSHOT.full_name: store.version(CLUSTER_SNAPSHOT)}):
        say(f"warning: {name} is older than the last run left it, as a backup is. It is updated.")
    done = store.newest_run(CLUSTER_SNAPSHOT) or 0
    until: list[Wanted] = [] if as_of is None else [("observed_at", "<=", latest(as_of))]
    new: Wanted = ("run", ">", done)
    stale, is_late = list[str](), False
    change = _find_change(store) if done else None
    if change is not None:
        say(f"warning: table {change}. All clusters are folded again from bronze.")
    elif done:
        _follow_up(store, done, say, anew=True)  # after a crash, what is missing is unknown
        end, stale = _find_stale(store, new, until)
        if done >= newest and not stale:
            say("refine: nothing new came in")
            return newest
        # A late line makes the fold repeat the newest statements, which a history may already have.
        late: list[Wanted] = [new, ("observed_at", "<=", end), VALID]
        is_late = len(store.fetch(LANDING_LINE, late, ["line_id"])) > 0
    is_repeated = not done or change is not None
    silver = max(store.newest_run(table) or 0 for table in (CLUSTER_SNAPSHOT, *HISTORIES))
    upto = max(newest, run or 0, silver + 1) if silver else newest
    if is_repeated:
        parts = [_lines(store, until)]
    else:
        not_stale: list[Wanted] = [("cluster", "not in", stale)] if stale else []
        parts = [_states(store, not_stale), _lines(store, [new, *until, *not_stale])]
        if stale:
            parts.append(_lines(store, [("cluster", "in", stale), *until], upto))
    parts += [_lines(store, [("observed_at", ">", time), VALID], LATE) for _, _, time in until]
    bronze = store.newest_commit(LANDING_LINE).get("commit")
    # States have no columns of a line: they become null.
    entries = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), parts)
    rows = fold_frame(entries, learns=True)
    store.overwrite(CLUSTER_SNAPSHOT, rows.withColumn("run", F.lit(upto)), upto, bronze)
    say("refine: snapshot of every cluster written")
    _follow_up(store, upto, say, anew=bool(stale) or is_late, again=is_repeated)
    say("refine: histories written")
    return upto


def _find_change(store: Store) -> str | None:
    """Return a text about the change of a silver or bronze table since the last run; None if all
    are unchanged."""
    folded = store.newest_commit(CLUSTER_SNAPSHOT).get("folded")
    changes = [(table, store.find_change(table)) for table in (CLUSTER_SNAPSHOT, *HISTORIES)]
    changes += [(CLUSTER_SNAPSHOT, store.find_lag(name, CLUSTER_SNAPSHOT)) for name in HISTORIES]
    changes += [(LANDING_LINE, store.find_change(LANDING_LINE, folded))]
    return next((f"{table.full_name}: {change}" for table, change in changes if change), None)


def ahead_of(snapshots: pa.Table, until: Sequence[Wanted]) -> list[str]:
    """Return the clusters to fold again: folded beyond `until`, changed in bronze, or failed."""
    is_ahead = pc.is_in(snapshots["checksum"], pa.array([SET_ASIDE, UNUSABLE]))
    for _, _, latest_at in until:
        is_later = pc.greater(snapshots["observed_at"].cast(pa.int64()), latest_at)
        is_ahead = pc.or_(is_ahead, pc.fill_null(is_later, False))
    names: list[str] = snapshots["cluster"].filter(is_ahead).to_pylist()
    return names


def _find_stale(store: Store, new: Wanted, until: Sequence[Wanted]) -> tuple[int, list[str]]:
    """Return (end of the second of the newest folded line, clusters to fold again from bronze).
    Fold again: ahead_of; clusters whose waiting line is now valid; clusters with `new` lines of a
    partly read log dump."""
    snapshots = store.fetch(CLUSTER_SNAPSHOT, columns=["cluster", "observed_at", "checksum"])
    clusters, times = set(ahead_of(snapshots, until)), snapshots["observed_at"].cast(pa.int64())
    # Waiting lines have a later second than all folded ones. Delta stores file times in
    # milliseconds, so the files of earlier runs are not opened for them.
    end = end_of_second(pc.max(times).as_py() or 0)
    run, _, done = new
    old: Wanted = (run, "<=", done)
    due: list[Wanted] = [old, ("observed_at", ">", end), *until, VALID]
    clusters |= {*store.fetch(LANDING_LINE, due, ["cluster"])["cluster"].to_pylist()}
    is_log: list[Wanted] = [("kind", "=", "metadata_log"), VALID]
    dump = ["cluster", "observed_at"]
    dumps = store.fetch(LANDING_LINE, [new, *until, *is_log], dump)
    if dumps.num_rows:
        span = pc.min_max(dumps["observed_at"].cast(pa.int64())).as_py()
        of_times: list[Wanted] = [
            ("observed_at", ">=", span["min"]),
            ("observed_at", "<=", min(span["max"], end)),
        ]
        earlier = store.fetch(LANDING_LINE, [old, *is_log, *of_times], dump)
        clusters |= {*earlier.join(dumps, dump, join_type="left semi")["cluster"].to_pylist()}
    return end, sorted(clusters)


def _lines(store: Store, conditions: Sequence[Wanted], run: int | None = None) -> DataFrame:
    """Return lines of bronze as ENTRY. `run` replaces the lines' own run."""
    lines = store.read(LANDING_LINE, conditions)
    return entries_of(lines, F.col("run") if run is None else F.lit(run))


def _states(store: Store, conditions: Sequence[Wanted]) -> DataFrame:
    """Return the stored states that meet all `conditions`: the columns of ENTRY without a line."""
    states = store.read(CLUSTER_SNAPSHOT, conditions)
    return states.select(F.lit(0).cast("bigint").alias("run"), "cluster", "state")


def _follow_up(
    store: Store, upto: int, say: Callable[[str], None], anew: bool, again: bool = False
) -> None:
    """Append the snapshot's new statements to each history, and quarantine the lines that the fold
    rejected.

    `anew`: some lines may have been folded before and cut off since (a clock that was ahead, an
    earlier --as-of, another release), or came late. Statements that a history already has stay
    there once. `again`: the snapshot has all statements of bronze, which replace each history.
    """
    taught: list[Wanted] = [("learned", "is not null", None)]

    def append(table: Table) -> None:
        since = store.newest_run(table) or 0
        if since >= upto:
            return
        since = 0 if again else since
        of_table = partial(unfold, table, since)
        schema = from_arrow_schema(schema_of(table.schema))
        rows = store.read(CLUSTER_SNAPSHOT, taught)
        learned = rows.select("cluster", "learned").mapInArrow(of_table, schema)
        learned = learned.select(*table.schema.names)
        if anew and since:
            stored = store.read(table)
            is_same = [learned[name].eqNullSafe(stored[name]) for name in table.grain]
            learned = learned.join(stored, on=is_same, how="left_anti")
        (store.overwrite if again else store.append)(table, learned, upto)

    with ThreadPoolExecutor(max_workers=len(HISTORIES)) as pool:
        list(pool.map(append, HISTORIES))
    aside: list[Wanted] = [("set_aside", "is not null", None)]
    if store.fetch(CLUSTER_SNAPSHOT, aside, ["cluster"]).num_rows:
        lines = store.read(CLUSTER_SNAPSHOT, aside)
        quarantine(store, lines.select("cluster", F.inline("set_aside")), say)
