"""The work of an audit's workers: snapshot rows in, the core's tables out, as Arrow bytes.

Workers import only this module and its imports, so that they start fast: it needs neither Spark nor
pandas, whose import takes longer than all the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

import msgspec
import numpy as np
import pyarrow as pa

from featurelib import arrow
from featurelib.audit.audit import Judged, judge, judge_each
from featurelib.audit.columns import age_class
from featurelib.audit.evidence import Conditions, Waiting
from featurelib.audit.gold import PARTS
from featurelib.catalogue import Catalogue
from featurelib.catalogue import load as load_catalogue
from featurelib.config.fleet import Fleet
from featurelib.config.settings import MICROSECONDS_AN_HOUR, Settings, mutes_of
from featurelib.core.dialect import STRICT
from featurelib.core.dialect import load as load_dialect
from featurelib.feature import Severity
from featurelib.planning import outlook
from featurelib.planning.requirements import Guarding
from featurelib.rows import NONE, Column, Int, TableRows, cells_of, make_rows
from featurelib.schema import BYTES, SNAPSHOT, TIME_FIELDS, Schema
from featurelib.snapshot.records import Snapshots

BATCH_CLUSTERS = 2000  # the columns of more clusters exceed a processor's cache
CORE_COLUMNS = [name for name in SNAPSHOT.names if name != "state"]
# An Arrow stream of each part, or as JSON the clusters that a worker left out; empty = none.
_CELLS = Schema.of((part, BYTES) for part in [*PARTS, "unchanged"])
CELLS = arrow.schema_of(_CELLS)
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")

WaitingClusters = dict[str, dict[str, Waiting]]
Judging = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """The last run, whose results are reused for unchanged clusters. `rows`: cluster → (checksum of
    its snapshot row, time of its newest line), without READY clusters. `as_of`: microseconds."""

    run: int
    as_of: int
    rows: dict[str, tuple[int, int]]

    def split(
        self, batch: pa.RecordBatch, conditions: Conditions
    ) -> tuple[pa.RecordBatch, list[str]]:
        """Split a batch into (rows to judge, unchanged clusters). A row must be judged if it
        changed, is damaged or lost lines, or if a time in it has passed an age limit since."""
        rows = arrow.rows_of(batch, SNAPSHOT)
        stored = [self.rows.get(cluster, (NONE, NONE)) for cluster in rows["cluster"].to_pylist()]
        checksum, newest_line = np.array(stored, dtype=np.int64).reshape(-1, 2).T
        differs = (checksum != rows.numbers("checksum")) | (checksum == NONE)
        if differs.all():
            return batch, []
        snapshots, max_age = Snapshots(rows), conditions.max_age
        differs |= newest_line != snapshots.observed_at  # a damaged row has no time
        newer = [conditions.newest_lines.get(cluster, NONE) for cluster in snapshots.clusters]
        differs |= np.array(newer, dtype=np.int64) > snapshots.observed_at  # lines were lost
        parts = ((snapshots[part], name) for part, name in TIME_FIELDS)
        times = [
            (rows_of.row, np.abs(rows_of.field(name))) for rows_of, name in parts
        ]  # log_at is negative for a log with a gap
        for cluster, at in [(np.arange(len(rows)), snapshots.observed_at), *times]:
            before, now = (age_class(at, to, max_age) for to in (self.as_of, conditions.as_of))
            differs[cluster[before != now]] = True
        unchanged = [snapshots.clusters[at] for at in np.flatnonzero(~differs).tolist()]
        return arrow.batch_of(rows.take(np.flatnonzero(differs))), unchanged


def judge_by(
    conditions: Conditions,
    severities: dict[str, Severity],
    catalogue: Catalogue | None = None,
    guarding: Guarding | None = None,
    last: EarlierRun | None = None,
) -> Judging:
    """Return a function that judges snapshot rows into CELLS, BATCH_CLUSTERS at a time. Rows that
    are unchanged since `last` are skipped."""

    def judged(rows: TableRows) -> Judged:
        known = catalogue or load_catalogue()
        result = judge(rows, conditions, known, load_dialect(STRICT), severities)
        plans = outlook.with_texts(result, dialect=STRICT, catalogue=known, guarding=guarding)
        return replace(result, plans=plans)

    def judge_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for stored in batches:
            batch, unchanged = (stored, []) if last is None else last.split(stored, conditions)
            if unchanged:
                names = cells_of([msgspec.json.encode(unchanged)])
                yield arrow.batch_of(make_rows(_CELLS, 1, {"unchanged": names}))
            # Pieces of equal size, because a small rest costs nearly as much as a full piece.
            size = ceil(batch.num_rows / (ceil(batch.num_rows / BATCH_CLUSTERS) or 1)) or 1
            for start in range(0, batch.num_rows, size):
                rows = batch.slice(start, size)
                yield _cells(judge_each(arrow.rows_of(rows, SNAPSHOT), judged))

    return judge_batches


def judge_as_of(
    as_of: int,
    fleet: Fleet,
    settings: Settings,
    catalogue: Catalogue | None,
    waiting: WaitingClusters | None = None,
    newest_lines: Mapping[str, int] | None = None,
    last: EarlierRun | None = None,
) -> Judging:
    """Return judge_by for an inventory and settings. `waiting`: cluster → feature → last judgement,
    None = no earlier run; `newest_lines`: cluster → time of the newest line, microseconds."""
    conditions = Conditions(
        as_of=as_of,
        max_age=settings.max_age,
        inventory=fleet.inventory,
        mutes=mutes_of(settings.mute, fleet, "settings"),
        forgotten=settings.forgotten,
        min_ready=settings.min_ready_days * 24 * MICROSECONDS_AN_HOUR,
        waiting=waiting or {},
        newest_lines=newest_lines or {},
    )
    guarding = Guarding.by(settings, fleet)
    return judge_by(conditions, settings.severities, catalogue, guarding, last)


def _cells(judged: Judged) -> pa.RecordBatch:
    """Return the judged tables as one row of CELLS: a binary column per table."""
    cells: dict[str, Column | Int] = {}
    for part in PARTS:
        rows, sink = arrow.batch_of(getattr(judged, part), coded=True), pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=_COMPRESSED) as writer:
            writer.write_batch(rows)
        cells[part] = cells_of([sink.getvalue().to_pybytes()])
    return arrow.batch_of(make_rows(_CELLS, 1, cells))


def judged_in(cells: pa.Table | pa.RecordBatch) -> Judged:
    """Return the judgements in rows of CELLS."""

    def rows(part: str, schema: Schema) -> TableRows:
        empty = arrow.schema_of(schema, coded=True).empty_table()
        buffers = (cell.as_buffer() for cell in cells.column(part))
        streams = (pa.ipc.open_stream(buffer) for buffer in buffers if buffer.size)
        return arrow.rows_of(pa.concat_tables([empty, *(s.read_all() for s in streams)]), schema)

    return Judged(**{part: rows(part, schema) for part, (_, schema) in PARTS.items()})  # type: ignore[arg-type]  # its evidence is none of them


def unchanged_in(cells: pa.Table) -> set[str]:
    """Return the clusters that workers skipped as unchanged, from rows of CELLS."""
    texts = filter(None, cells["unchanged"].to_pylist())
    return {name for text in texts for name in msgspec.json.decode(text)}


def expected_rows(clusters: pa.ChunkedArray, fleet: Fleet, lost: Sequence[str] = ()) -> pa.Table:
    """Return the cluster and checksum of snapshot rows without evidence, for expected clusters
    without data and for clusters in `lost`."""
    landed = {*clusters.to_pylist(), *lost}
    missing = [entry.id for entry in fleet.cluster if entry.id not in landed]
    checksums = [*[None] * len(missing), *[0] * len(lost)]
    columns = [pa.array([*missing, *lost], pa.string()), pa.array(checksums, pa.int64())]
    return pa.table(columns, names=["cluster", "checksum"])
