"""What a refine's workers run: lines and states sorted by cluster in, snapshot rows out, and what
the histories learned of them.

Workers import this module and what it names, and start with that: as judging.py, it has nothing of
Spark's, and nothing that imports pandas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter

import pyarrow as pa

from featurelib.arrow import batch_of, bytes_of, schema_of
from featurelib.catalogue import load
from featurelib.landing import Landing, Quarantined, read
from featurelib.landing.kinds import UnreadZnode
from featurelib.landing.line import ZNODE
from featurelib.schema import BYTES, SNAPSHOT
from featurelib.snapshot import ClusterState, begin, snapshot_rows
from featurelib.snapshot.history import Learned, history_rows, pack
from featurelib.tables import Table

BATCH_CLUSTERS = 500
LATE = (1 << 63) - 1  # in the place of a run: lines that are not folded yet come last
ENTRY = pa.schema(  # a line to fold, or what is known
    [
        ("run", pa.int64()),
        ("cluster", pa.string()),
        ("line_id", pa.int64()),
        ("raw", pa.binary()),
        ("state", pa.binary()),
    ]
)
FOLDED = schema_of(SNAPSHOT.with_last("learned", BYTES))

_Entry = tuple[int, str, int, bytes | None, bytes | None]  # as ENTRY


def fold_batches(
    batches: Iterable[pa.RecordBatch], done: int, since: int
) -> Iterator[pa.RecordBatch]:
    """ENTRY in, sorted by cluster and run; FOLDED out, a row a cluster."""
    entries: Iterator[_Entry] = (
        entry
        for batch in batches
        for entry in zip(*(batch.column(name).to_pylist() for name in ENTRY.names), strict=True)
    )
    rows: list[_Folded] = []
    for cluster, mine in groupby(entries, key=itemgetter(1)):
        rows += filter(None, [_fold(cluster, mine, done, since)])
        if len(rows) >= BATCH_CLUSTERS:
            yield _batch(rows)
            rows = []
    if rows:
        yield _batch(rows)


_Folded = tuple[str, ClusterState, bytes | None]


def _fold(cluster: str, entries: Iterator[_Entry], done: int, since: int) -> _Folded | None:
    """One cluster: its state, and what it newly learned, packed; None = no line of it is valid."""
    learned = Learned()
    first = next(entries)
    fold, is_anew = begin(first[4], load()), first[4] is None
    is_known = not is_anew
    for run, of_run in groupby(chain([first], entries), key=itemgetter(0)):
        is_new = max(done, since) < run < LATE  # else the histories have it
        fold.run, fold.learned = run, learned if is_new else None
        take = fold.wait if run == LATE else fold.add
        for _, _, line_id, raw, _ in of_run:
            if raw is not None and (line := _folded(raw)) is not None:
                is_known |= not isinstance(line.content, UnreadZnode)
                if run != LATE or not isinstance(line.content, UnreadZnode):
                    take(line, line_id)
        if run <= done and not is_anew:
            fold.forget_run()
        else:
            fold.close_run()
    return (cluster, fold.finish(), pack(learned)) if is_known else None


def _folded(raw: bytes) -> Landing | None:
    """A line as it is folded; None = a quarantined one of a znode that does not say which."""
    line = read(raw)
    if not isinstance(line, Quarantined):
        return line
    if line.kind != ZNODE:  # a parser that changed its mind is a fault of ours
        raise AssertionError(f"a valid line of bronze is rejected now: {line.reason}")
    return line.unread


def _batch(rows: list[_Folded]) -> pa.RecordBatch:
    snapshots = snapshot_rows((cluster, state) for cluster, state, _ in rows)
    learned = bytes_of([packed for _, _, packed in rows])
    return pa.RecordBatch.from_arrays([*batch_of(snapshots).columns, learned], schema=FOLDED)


def unfold(table: Table, since: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What rows of (cluster, learned) have for a history, by runs after `since`."""
    pairs = (
        pair
        for batch in batches
        for pair in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    )
    return map(batch_of, history_rows(table, since, pairs))
