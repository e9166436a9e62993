"""Bronze to silver: histories with a row per feature, and one snapshot row per cluster.

The snapshot is folded from the last one and the newer lines, so the cost of a run depends on new
lines and the number of clusters. It is written first; the histories follow up to its run. After a
crash the histories are completed before anything new is folded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial, reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from featurelib.arrow import schema_of
from featurelib.audit.columns import end_of_second, latest
from featurelib.errors import NoEvidenceError
from featurelib.landing.line import ZNODE
from featurelib.snapshot.records import SET_ASIDE, UNUSABLE
from featurelib.spark.folding import ENTRY, LATE, unfold
from featurelib.spark.frames import fold_frame
from featurelib.spark.ingest import quarantine
from featurelib.spark.log import Wanted
from featurelib.spark.store import Store
from featurelib.tables import (
    CHANGED,
    CLUSTER_SNAPSHOT,
    FINALIZED_FEATURES,
    LANDING_LINE,
    NODE_ADVERTISEMENT,
    Table,
)

HISTORIES = (NODE_ADVERTISEMENT, FINALIZED_FEATURES)


def refine(
    store: Store, say: Callable[[str], None], *, as_of: int | None = None, run: int | None = None
) -> int:
    """Update the silver tables to the newest ingest, and return its run; without news nothing
    changes.

    Lines dated later than `as_of` (microseconds; None = no limit) are not folded: they wait in
    bronze for a later run. A cluster that was folded further is folded again from bronze. `run` is
    the number of a run without new lines that folds waiting ones. Snapshots of an earlier release
    are made anew from bronze, and so is all of silver where another writer changed a table of it or
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
    done = store.newest_run(CLUSTER_SNAPSHOT)
    until = None if as_of is None else latest(as_of)
    known, waited, late = None, False, False
    change = None if done is None else _find_change(store)
    if change is not None:
        say(f"warning: table {change}. All clusters are folded again from bronze.")
    elif done is not None:
        _follow_up(store, done, say, anew=True)  # the state after a crash is unknown: check it
        columns = ["cluster", "observed_at", "waiting", "checksum"]
        known = known_of(store.fetch(CLUSTER_SNAPSHOT, columns=columns), done, until)
        part = _waiting_lines(known, until)
        waited = known.waits and _has(store, part.rows)
        # A late line makes the fold tell the newest statements again, which a history may have.
        late = _has(store, _Part(wanted=[("run", ">", done), *_dated(None, known.newest)]).rows)
    if known is not None and known.done >= newest and not known.ahead and not waited:
        say("refine: nothing new came in")
        upto = newest
    else:
        silver = max(store.newest_run(table) or 0 for table in (CLUSTER_SNAPSHOT, *HISTORIES))
        upto = newest if done is None else max(newest, run or 0, silver + 1)
        again = change is not None
        _fold_clusters(store, known, _parts(store, known, waited, until, upto), upto, again)
        say("refine: snapshot of every cluster written")
        _follow_up(store, upto, say, anew=known is None or waited or late, again=again)
        say("refine: histories written")
    return upto


def _has(store: Store, conditions: Sequence[Wanted]) -> bool:
    """Return true if bronze has such a line; bounds in the log skip files without one."""
    return len(store.fetch(LANDING_LINE, conditions, ["line_id"])) > 0


def _find_change(store: Store) -> str | None:
    """Return in words how a silver table, or bronze, differs from what the last run left."""
    folded = store.newest_commit(CLUSTER_SNAPSHOT).get("folded")
    changes = [(table, store.find_change(table)) for table in (CLUSTER_SNAPSHOT, *HISTORIES)]
    changes += [(CLUSTER_SNAPSHOT, store.find_lag(of, CLUSTER_SNAPSHOT)) for of in HISTORIES]
    changes += [(LANDING_LINE, store.find_change(LANDING_LINE, folded))]
    return next((f"{table.full_name}: {change}" for table, change in changes if change), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """The lines in the snapshots: every valid line of runs up to `done` dated up to `newest`
    (microseconds), and none later. `newest` is the end of the second of the latest folded line;
    waiting lines are of a later second. Delta keeps times of files to the millisecond, so the last
    run's files are not opened for it. `ahead` are clusters to fold again: folded further than this
    run, or void, because bronze may have changed lines again. Unless one `waits`, bronze has no
    line of those runs that is later."""

    done: int
    newest: int
    ahead: tuple[str, ...]
    waits: bool


def known_of(snapshots: pa.Table, done: int, until: int | None) -> _Known:
    at = snapshots["observed_at"].cast(pa.int64())
    is_ahead = pc.is_in(snapshots["checksum"], pa.array([SET_ASIDE, UNUSABLE]))
    if until is not None:
        is_ahead = pc.or_(is_ahead, pc.fill_null(pc.greater(at, until), False))
    ahead = snapshots["cluster"].filter(is_ahead).to_pylist()
    return _Known(
        done=done,
        newest=end_of_second(pc.max(at).as_py() or 0),
        ahead=tuple(ahead),
        waits=(pc.max(snapshots["waiting"]).as_py() or 0) > 0,
    )


def _dated(after: int | None, until: int | None) -> list[Wanted]:
    """Return the conditions for lines dated later than `after`, and not later than `until`."""
    later: list[Wanted] = [] if after is None else [("observed_at", ">", after)]
    return later if until is None else [*later, ("observed_at", "<=", until)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The rows to fold: valid lines of bronze that meet all of `wanted`, or states of clusters.
    `run` replaces their own. Only those of `dumps`, if there are any: rows of (cluster,
    observed_at). `quarantined`: lines for which this holds in place of valid lines."""

    wanted: Sequence[Wanted]
    table: Table = LANDING_LINE
    run: int | None = None
    dumps: pa.Table | None = None
    quarantined: Sequence[Wanted] = ()

    @property
    def rows(self) -> list[Wanted]:
        if self.quarantined:
            return [*self.wanted, *self.quarantined, ("cluster", "is not null", None)]
        is_line = self.table == LANDING_LINE
        return [*self.wanted, ("reason", "is null", None)] if is_line else list(self.wanted)

    def frame(self, store: Store) -> DataFrame:
        """Return the rows as ENTRY."""
        names = [name for name in ENTRY.names if name in self.table.schema.names]
        frame = store.read(self.table, conditions=self.rows).select(*names, "observed_at")
        if self.dumps is not None:
            dumps = F.broadcast(store.session.createDataFrame(self.dumps))
            frame = frame.join(dumps, on=["cluster", "observed_at"], how="left_semi")
        if self.run is not None:
            frame = frame.withColumn("run", F.lit(self.run))
        values = {"state": b""} if self.quarantined else {}
        missing = {n: F.lit(values.get(n)) for n in ENTRY.names if n not in frame.columns}
        types = from_arrow_schema(ENTRY)
        return frame.withColumns(missing).select([F.col(f.name).cast(f.dataType) for f in types])


def _waiting_lines(known: _Known, until: int | None, upto: int | None = None) -> _Part:
    """Return the lines that earlier runs left in bronze and this run folds."""
    return _Part(wanted=[("run", "<=", known.done), *_dated(known.newest, until)], run=upto)


def _parts(
    store: Store, known: _Known | None, waited: bool, until: int | None, upto: int
) -> list[_Part]:
    """Return the lines to fold every cluster from, up to `until`. Lines that waited are folded as
    if they came in this run. Of lines later than `until` only their existence is reported."""
    late: list[Wanted] = [] if until is None else [("observed_at", ">", until)]
    waiting = [_Part(wanted=late, run=LATE)] if late else []
    if known is None:
        return [*_with_unread([_Part(wanted=_dated(None, until))]), *waiting]
    new: Wanted = ("run", ">", known.done)
    fresh = [_Part(wanted=[new, *_dated(None, until)])]
    if waited:
        fresh.append(_waiting_lines(known, until, upto))
    if late and not known.waits and not known.ahead:
        waiting = [_Part(wanted=[new, *late], run=LATE)]
    lines = [*_with_unread(fresh), *_whole_dumps(store, fresh, known)]
    before = _Part(wanted=[], table=CLUSTER_SNAPSHOT, run=0)
    if known.ahead:
        rest_of, ahead = (("cluster", how, list(known.ahead)) for how in ("not in", "in"))
        lines = [replace(part, wanted=[*part.wanted, rest_of]) for part in lines]
        lines += _with_unread([_Part(wanted=[ahead, *_dated(None, until)])])
        before = replace(before, wanted=[rest_of])
    return [*lines, *waiting, before]


def _with_unread(parts: Sequence[_Part]) -> list[_Part]:
    """Return the parts, with the fact in damaged znode lines that a path was read. A changed line
    makes its cluster's state void."""
    znodes: list[Wanted] = [("reason", "is not null", None), ("kind", "=", ZNODE)]
    changed: list[Wanted] = [("reason", "=", CHANGED)]
    damaged = (znodes, changed)
    return [*parts, *(replace(part, quarantined=of) for part in parts for of in damaged)]


def _whole_dumps(store: Store, fresh: Sequence[_Part], known: _Known) -> list[_Part]:
    """Return the earlier lines of every metadata log dump that `fresh` has a line of.

    The meaning of a record depends on its file, so a dump is read whole, however many files it was
    split over. Only files that have lines between the times of these dumps are opened.
    """
    is_log: Wanted = ("kind", "=", "metadata_log")
    keys = ["cluster", "observed_at"]
    tables = [store.fetch(LANDING_LINE, [*part.rows, is_log], keys) for part in fresh]
    dumps = pa.concat_tables(tables).group_by(keys).aggregate([])
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
) -> None:
    """Write one row per cluster.

    Lines of runs up to `done` were folded already; they only complete dumps, except for a cluster
    with such lines that is not in the snapshot: it is folded again. The histories have the
    statements of runs up to `since`, or are written `again` as a whole.
    """
    done = 0 if known is None else known.done
    since = 0 if again else min(store.newest_run(table) or 0 for table in HISTORIES)
    bronze = store.newest_commit(LANDING_LINE).get("commit")
    frame = reduce(DataFrame.unionByName, [part.frame(store) for part in parts])
    rows = fold_frame(frame, done, since)
    store.overwrite(CLUSTER_SNAPSHOT, rows.withColumn("run", F.lit(upto)), upto, bronze)


def _follow_up(
    store: Store, upto: int, say: Callable[[str], None], anew: bool, again: bool = False
) -> None:
    """Append new statements of the snapshot to each history; quarantine the lines that the fold set
    aside.

    `anew`: some lines may have been folded before and cut off since (a clock that was ahead, an
    earlier --as-of, another release), or came late. Their statements, or those around them, are in
    a history already and stay there once. `again`: the snapshot has all statements of bronze,
    which replace each history.
    """
    taught: list[Wanted] = [("learned", "is not null", None)]

    def append(table: Table) -> None:
        since = store.newest_run(table) or 0
        if since >= upto:
            return
        since = 0 if again else since
        of_table = partial(unfold, table, since)
        schema = from_arrow_schema(schema_of(table.schema))
        rows = store.read(CLUSTER_SNAPSHOT, conditions=taught)
        learned = rows.select("cluster", "learned").mapInArrow(of_table, schema)
        learned = learned.select(*table.schema.names)
        if anew and since:
            stored = store.read(table)
            same = [learned[name].eqNullSafe(stored[name]) for name in table.grain]
            learned = learned.join(stored, on=same, how="left_anti")
        (store.overwrite if again else store.append)(table, learned, upto)

    with ThreadPoolExecutor(max_workers=len(HISTORIES)) as pool:
        list(pool.map(append, HISTORIES))
    aside: list[Wanted] = [("set_aside", "is not null", None)]
    if store.fetch(CLUSTER_SNAPSHOT, aside, ["cluster"]).num_rows:
        lines = store.read(CLUSTER_SNAPSHOT, conditions=aside)
        quarantine(store, lines.select("cluster", F.inline("set_aside")), say)
