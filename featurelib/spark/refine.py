"""Bronze to silver: histories a row a feature, and one snapshot row a cluster.

The snapshot is folded from the last one and the lines that came since, so a night costs by what
came in and by the number of clusters. It is written first; the histories follow up to its run, and
what a crash left open is followed up before anything new is folded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial, reduce
from hashlib import sha256

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from featurelib.arrow import schema_of
from featurelib.audit.columns import end_of_second, latest
from featurelib.errors import NoEvidenceError
from featurelib.landing.line import ZNODE
from featurelib.spark.folding import ENTRY, FOLDED, LATE, fold_batches, unfold
from featurelib.spark.frames import SORTED, fold_frame
from featurelib.spark.log import Mode, Wanted
from featurelib.spark.store import Store
from featurelib.tables import (
    CLUSTER_SNAPSHOT,
    FINALIZED_FEATURES,
    LANDING_LINE,
    NODE_ADVERTISEMENT,
    Table,
)
from featurelib.words import count

PLACE = ("source_file", "line_number")
HISTORIES = (NODE_ADVERTISEMENT, FINALIZED_FEATURES)
FEW_BYTES = 32 << 20  # unpacked: the driver folds them while workers would start


@dataclass(frozen=True, slots=True, kw_only=True)
class RefineCounts:
    """What one run refined."""

    run: int  # the newest ingest the snapshot holds
    clusters: int


def refine(
    store: Store, say: Callable[[str], None], *, as_of: int | None = None, run: int | None = None
) -> RefineCounts:
    """Bring the silver tables up to the newest ingest; nothing new changes nothing.

    Lines dated later than `as_of` (microseconds; None = none is) allows are not folded: they wait
    in bronze until a later night reaches them. A cluster that was folded further than that is
    folded anew from bronze. `run` numbers a night that brought no lines and folds some all the
    same. Snapshots of an earlier release are made anew from bronze, and so is all of silver
    where another writer changed a table of it, or put an older copy in its place. Raises
    NoEvidenceError when nothing was ever ingested, TableError (see Store).
    """
    newest = store.newest_run(LANDING_LINE)
    if newest is None:
        raise NoEvidenceError(
            f"tables {store.root}: nothing was ingested yet, so there is nothing to refine. "
            "Run ./spark-submit.sh ingest first."
        )
    store.create(*HISTORIES, CLUSTER_SNAPSHOT)
    done = store.newest_run(CLUSTER_SNAPSHOT)
    until = None if as_of is None else latest(as_of)
    known, waited = None, False
    change = None if done is None else _find_change(store)
    if change is not None:
        say(f"warning: table {change}. All clusters are folded again from bronze.")
    elif done is not None:
        _follow_up(store, done, anew=True)  # what the crash left is not known: look
        columns = ["cluster", "observed_at", "waiting"]
        known = _known(store.fetch(CLUSTER_SNAPSHOT, columns=columns), done, until)
        part = _waited(known, until)
        waited = known.waits and len(store.fetch(part.table, part.rows, ["line_id"])) > 0
    if known is not None and known.done >= newest and not known.ahead and not waited:
        say("refine: nothing new came in")
        upto = newest
    else:
        silver = store.newest_of(CLUSTER_SNAPSHOT, *HISTORIES) or 0
        upto = newest if done is None else max(newest, run or 0, silver + 1)
        lost = known is not None and _find_lost_lines(store, say)
        again = change is not None
        parts = _parts(store, known, waited, until, upto)
        _say_damaged(_fold_clusters(store, known, parts, upto, again), say)
        say("refine: snapshot of every cluster written")
        _follow_up(store, upto, anew=known is None or waited or lost, again=again)
        say("refine: histories written")
    clusters = store.fetch(CLUSTER_SNAPSHOT, columns=["run"]).num_rows
    return RefineCounts(run=upto, clusters=clusters)


def _find_change(store: Store) -> str | None:
    """Return the silver table that is not as the last run left it, and how, in words."""
    lags = {CLUSTER_SNAPSHOT: [store.find_lag(of, CLUSTER_SNAPSHOT) for of in HISTORIES]}
    for table in (CLUSTER_SNAPSHOT, *HISTORIES):
        for change in (store.find_change(table), *lags.get(table, ())):
            if change is not None:
                return f"{table.full_name}: {change}"
    return None


def _find_lost_lines(store: Store, say: Callable[[str], None]) -> bool:
    """Return whether bronze changed under the snapshots: an ingest has then read lines again."""
    folded = store.newest_commit(CLUSTER_SNAPSHOT).get("folded")
    if (change := store.find_change(LANDING_LINE, folded)) is not None:
        say(f"warning: table {LANDING_LINE.full_name}: {change}. Snapshots keep what they know.")
    return change is not None


def _say_damaged(places: list[str], say: Callable[[str], None]) -> None:
    if places:
        say(
            f"warning: table {LANDING_LINE.full_name}: {count(len(places), 'line')} left out, "
            f"because the bytes in `raw` are not those of `content_hash`; the first is "
            f"{min(places)}. Restore that table from a copy, or move the folders bronze and silver "
            "away: the next nightly then reads all landing files again."
        )


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


def _dated(after: int | None, until: int | None) -> list[Wanted]:
    """Lines dated later than `after`, and not later than `until`."""
    later: list[Wanted] = [] if after is None else [("observed_at", ">", after)]
    return later if until is None else [*later, ("observed_at", "<=", until)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Rows to fold: valid lines of bronze for which all of `wanted` holds, or what is known of
    clusters. `run` stands in place of their own. Only those of `dumps`, if there are any: rows of
    (cluster, observed_at). `unread`: quarantined lines of znodes in place of valid lines."""

    wanted: Sequence[Wanted]
    table: Table = LANDING_LINE
    run: int | None = None
    dumps: pa.Table | None = None
    unread: bool = False

    @property
    def rows(self) -> list[Wanted]:
        if self.unread:
            damaged: list[Wanted] = [("reason", "is not null", None), ("kind", "=", ZNODE)]
            return [*self.wanted, *damaged, ("cluster", "is not null", None)]
        is_line = self.table == LANDING_LINE
        return [*self.wanted, ("reason", "is null", None)] if is_line else list(self.wanted)

    def fetch(self, store: Store, damaged: list[str]) -> pa.Table:
        """The rows as ENTRY, in the driver. Lines of bronze that do not have their hash are left
        out, and `damaged` gets their places."""
        found = store.fetch(self.table, self.rows, self._columns())
        if self.table == LANDING_LINE:
            pairs = zip(*(found[name].to_pylist() for name in ("raw", "content_hash")), strict=True)
            is_whole = pa.array([sha256(raw).digest() == of for raw, of in pairs], pa.bool_())
            lines = found.filter(pc.invert(is_whole)).select(PLACE).to_pylist()
            damaged += [f"{line['source_file']}:{line['line_number']}" for line in lines]
            found = found.filter(is_whole)
        if self.dumps is not None:
            found = found.join(self.dumps, ["cluster", "observed_at"], join_type="left semi")
        if self.run is not None:
            found = found.drop_columns(["run"])
            found = found.append_column("run", pa.repeat(pa.scalar(self.run), found.num_rows))
        for field in ENTRY:
            if field.name not in found.column_names:
                found = found.append_column(field, pa.nulls(found.num_rows, field.type))
        return found.select(ENTRY.names).cast(ENTRY)

    def frame(self, store: Store, damaged: list[str]) -> DataFrame:
        """The rows as ENTRY, for Spark; as fetch."""
        found = store.read(self.table, wanted=self.rows).select(*self._columns())
        if self.table == LANDING_LINE:
            is_whole = F.unhex(F.sha2("raw", 256)) == F.col("content_hash")
            places = found.filter(~is_whole).select(F.concat_ws(":", *PLACE).alias("place"))
            damaged += places.toArrow()["place"].to_pylist()
            found = found.filter(is_whole)
        if self.dumps is not None:
            dumps = F.broadcast(store.session.createDataFrame(self.dumps))
            found = found.join(dumps, on=["cluster", "observed_at"], how="left_semi")
        if self.run is not None:
            found = found.withColumn("run", F.lit(self.run))
        missing = {n: F.lit(None) for n in ENTRY.names if n not in found.columns}
        types = from_arrow_schema(ENTRY)
        return found.withColumns(missing).select([F.col(f.name).cast(f.dataType) for f in types])

    def _columns(self) -> list[str]:
        names = [name for name in ENTRY.names if name in self.table.schema.names]
        is_line = self.table == LANDING_LINE
        return [*names, "observed_at", *(("content_hash", *PLACE) if is_line else ())]


def _waited(known: _Known, until: int | None, upto: int | None = None) -> _Part:
    """The lines that earlier nights left in bronze and tonight reaches."""
    return _Part(wanted=[("run", "<=", known.done), *_dated(known.newest, until)], run=upto)


def _parts(
    store: Store, known: _Known | None, waited: bool, until: int | None, upto: int
) -> list[_Part]:
    """What every cluster is folded from, up to `until`. What waited is folded as if it came in this
    run. Of lines later than `until` it is only told that they are there."""
    late: list[Wanted] = [] if until is None else [("observed_at", ">", until)]
    waiting = [_Part(wanted=late, run=LATE)] if late else []
    if known is None:
        return [*_with_unread([_Part(wanted=_dated(None, until))]), *waiting]
    new: Wanted = ("run", ">", known.done)
    fresh = [_Part(wanted=[new, *_dated(None, until)])]
    if waited:
        fresh.append(_waited(known, until, upto))
    if late and not known.waits and not known.ahead:
        waiting = [_Part(wanted=[new, *late], run=LATE)]
    lines = [*_with_unread(fresh), *_whole_dumps(store, fresh, known)]
    before = _Part(wanted=[], table=CLUSTER_SNAPSHOT, run=0)
    if known.ahead:
        others, ahead = (("cluster", how, list(known.ahead)) for how in ("not in", "in"))
        lines = [replace(part, wanted=[*part.wanted, others]) for part in lines]
        lines += _with_unread([_Part(wanted=[ahead, *_dated(None, until)])])
        before = replace(before, wanted=[others])
    return [*lines, *waiting, before]


def _with_unread(parts: Sequence[_Part]) -> list[_Part]:
    """The same parts, and what their damaged lines of znodes still say: that a path was read."""
    return [*parts, *(replace(part, unread=True) for part in parts)]


def _whole_dumps(store: Store, fresh: Sequence[_Part], known: _Known) -> list[_Part]:
    """Of every metadata log dump that `fresh` has a line of, the lines that came before.

    What a record means depends on the file it stands in, so a dump is read whole, however many
    files it was split over. Only files that have lines between the times of these dumps are opened.
    """
    is_log: Wanted = ("kind", "=", "metadata_log")
    keys = ["cluster", "observed_at"]
    found = [store.fetch(LANDING_LINE, [*part.rows, is_log], keys) for part in fresh]
    dumps = pa.concat_tables(found).group_by(keys).aggregate([])
    if dumps.num_rows == 0:
        return []
    times = pc.min_max(dumps["observed_at"].cast(pa.int64())).as_py()
    between: list[Wanted] = [
        ("observed_at", ">=", times["min"]),
        ("observed_at", "<=", min(times["max"], known.newest)),
    ]
    return [_Part(wanted=[("run", "<=", known.done), is_log, *between], dumps=dumps)]


def _fold_clusters(
    store: Store, known: _Known | None, parts: Sequence[_Part], upto: int, again: bool
) -> list[str]:
    """Write one row a cluster; return the places of lines that were left out, as damaged.

    Lines of runs up to `done` were folded already; they only make dumps whole, but for a cluster
    that has lines of such runs and is not in the snapshot: it is folded anew. The histories have
    what runs up to `since` showed, or are written `again` as a whole. Few lines and clusters are
    folded here, many by workers.
    """
    done = 0 if known is None else known.done
    since = 0 if again else min(store.newest_run(table) or 0 for table in HISTORIES)
    bronze = store.newest_commit(LANDING_LINE).get("commit")
    damaged: list[str] = []
    weights = [store.weigh(part.table, part.rows) for part in parts]
    if all(weight is not None for weight in weights) and sum(filter(None, weights)) <= FEW_BYTES:
        entries = pa.concat_tables([part.fetch(store, damaged) for part in parts])
        ordered = entries.sort_by([(name, "ascending") for name in SORTED])
        folded = pa.Table.from_batches(fold_batches(ordered.to_batches(), done, since), FOLDED)
        run = pa.repeat(pa.scalar(upto, pa.int64()), folded.num_rows)
        store.add(CLUSTER_SNAPSHOT, folded.add_column(0, "run", run), upto, "overwrite", bronze)
        return damaged

    frame = reduce(DataFrame.unionByName, [part.frame(store, damaged) for part in parts])
    rows = fold_frame(frame, done, since)
    store.overwrite(CLUSTER_SNAPSHOT, rows.withColumn("run", F.lit(upto)), upto, bronze)
    return damaged


def _follow_up(store: Store, upto: int, anew: bool, again: bool = False) -> None:
    """Append to each history what the snapshot has for it, and it does not have.

    `anew`: lines may have been folded that were folded before, and cut off since (a clock that was
    ahead, an earlier --as-of, another release). They teach again what a history has, which stays
    there once. `again`: the snapshot has all that bronze teaches, which replaces each history.
    """

    taught: list[Wanted] = [("learned", "is not null", None)]

    def append(table: Table) -> None:
        since = store.newest_run(table) or 0
        if since >= upto:
            return
        mode: Mode = "overwrite" if again else "append"
        since = 0 if again else since
        of_table = partial(unfold, table, since)
        weight = store.weigh(CLUSTER_SNAPSHOT)
        if weight is not None and weight <= FEW_BYTES and not (anew and since):
            few = store.fetch(CLUSTER_SNAPSHOT, taught, ["cluster", "learned"])
            store.add(
                table,
                pa.Table.from_batches(of_table(few.to_batches()), schema_of(table.schema)),
                upto,
                mode,
            )
            return
        schema = from_arrow_schema(schema_of(table.schema))
        rows = store.read(CLUSTER_SNAPSHOT, wanted=taught)
        learned = rows.select("cluster", "learned").mapInArrow(of_table, schema)
        learned = learned.select(*table.schema.names)
        if anew and since:
            there = store.read(table)
            same = [learned[name].eqNullSafe(there[name]) for name in table.grain]
            learned = learned.join(there, on=same, how="left_anti")
        (store.overwrite if again else store.append)(table, learned, upto)

    with ThreadPoolExecutor(max_workers=len(HISTORIES)) as pool:
        list(pool.map(append, HISTORIES))
