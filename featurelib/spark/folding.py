"""The work of the job `refine` in Spark's workers: sorted lines and the states of the last fold in,
snapshot rows and rows of the histories out.

Workers import only this module and its imports. It needs neither Spark nor pandas, like judging.py,
so that workers start fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import chain, groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa

from featurelib import tables
from featurelib.arrow import batch_of, bytes_of, schema_of
from featurelib.catalogue import load
from featurelib.landing import Landing, Quarantined, read
from featurelib.landing.kinds import UnreadZnode
from featurelib.snapshot import ClusterState, begin, snapshot_rows
from featurelib.snapshot.fold import UnusableLineError
from featurelib.snapshot.history import Learned, history_rows, pack
from featurelib.snapshot.records import SET_ASIDE
from featurelib.tables import CHANGED, Table

BATCH_CLUSTERS = 500
LATE = (1 << 63) - 1  # in place of a run: lines that wait come last
ENTRY = pa.schema(  # a line to fold (`state` null, or empty if quarantined), or a stored state
    [
        ("run", pa.int64()),
        ("cluster", pa.string()),
        ("line_id", pa.int64()),
        ("raw", pa.binary()),
        ("state", pa.binary()),
    ]
)
SORTED = ("cluster", "run", "line_id")  # the order of a fold
FOLDED = schema_of(tables.FOLDED)

_Entry = tuple[int, str, int, bytes | None, bytes | None]  # the columns of ENTRY


def fold_batches(batches: Iterable[pa.RecordBatch], learns: bool) -> Iterator[pa.RecordBatch]:
    """Combine the landing lines in `batches`, sorted by cluster and run, to one row per cluster
    with its state. `learns`: include the new history rows."""
    entries: Iterator[_Entry] = (
        entry
        for batch in batches
        for entry in zip(*(batch.column(name).to_pylist() for name in ENTRY.names), strict=True)
    )
    rows: list[_Folded] = []
    for cluster, lines in groupby(entries, key=itemgetter(1)):
        try:
            rows += filter(None, [_fold(cluster, lines, learns)])
        except Exception as fault:  # no cluster ends the run of the others
            rows.append((cluster, fault, None, None, False))
        if len(rows) >= BATCH_CLUSTERS:
            yield _batch(rows)
            rows = []
    if rows:
        yield _batch(rows)


# Lines to quarantine, as rows of SET_ASIDE or null; `true` if they make the state invalid.
_Folded = tuple[str, ClusterState | Exception, bytes | None, list[tuple[int, str]] | None, bool]


def _fold(cluster: str, entries: Iterator[_Entry], learns: bool) -> _Folded | None:
    """Return a cluster's folded state and new history rows; None if there are no rows."""
    learned, set_aside, landed = Learned(), dict[int, str](), set[int]()
    first = next(entries)
    fold, is_known, is_void = begin(first[4] or None, load()), bool(first[4]), False
    fold.learned = learned if learns else None
    for run, of_run in groupby(chain([first], entries), key=itemgetter(0)):
        fold.run = run
        take = fold.wait if run == LATE else fold.add
        for _, _, line_id, raw, quarantined in of_run:
            if raw is None:
                continue
            landing = _read(raw, cluster, line_id)
            if isinstance(landing, Landing):
                landed.add(line_id)
            elif quarantined is None or landing.reason == CHANGED:
                set_aside[line_id] = landing.reason
            line = landing if isinstance(landing, Landing) else landing.unread
            if line is not None:
                is_known |= not isinstance(line.content, UnreadZnode)
                if run == LATE and isinstance(line.content, UnreadZnode):
                    continue
                try:
                    take(line, line_id)
                except UnusableLineError as fault:
                    set_aside[line_id], is_void = str(fault), True
                    landed.discard(line_id)
        fold.close_run()
    aside = [line for line in set_aside.items() if line[0] not in landed] or None
    if not is_known and aside is None:
        return None
    is_void |= not is_known or CHANGED in dict(aside or ()).values()
    return cluster, fold.finish(), pack(learned), aside, is_void


def _read(raw: bytes, cluster: str, line_id: int) -> Landing | Quarantined:
    """Parse a line of bronze. A changed line, or one that this release rejects, is quarantined."""
    line = read(raw)
    is_whole = int.from_bytes(sha256(raw).digest()[:8], "big", signed=True) == line_id
    if is_whole and (isinstance(line, Quarantined) or line.cluster == cluster):
        return line
    return Quarantined(CHANGED, None, None, None)


def _batch(rows: list[_Folded]) -> pa.RecordBatch:
    snapshots = snapshot_rows((cluster, state) for cluster, state, *_ in rows)
    _, _, learned, set_aside, is_void = zip(*rows, strict=True)
    snapshots.numbers("checksum")[np.array(is_void)] = SET_ASIDE
    kind = FOLDED.field("set_aside").type  # without it pa.array imports pandas
    lines = pa.array(set_aside, kind) if any(set_aside) else pa.nulls(len(rows), kind)
    columns = [*batch_of(snapshots).columns, bytes_of(learned), lines]
    return pa.RecordBatch.from_arrays(columns, schema=FOLDED)


def unfold(table: Table, since: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the history `table` for runs after `since`, from (cluster, learned)."""
    pairs = (
        pair
        for batch in batches
        for pair in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    )
    return map(batch_of, history_rows(table, since, pairs))
