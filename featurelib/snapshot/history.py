"""What a fold learns for the two histories: what each line, and each record of the log, shows.

A line is a statement of its own; what a record of the metadata log means depends on the file it
stands in, so the fold tells it. The snapshot row keeps the statements of the last fold until the
histories have them, so that a line is read once, and a crash between the two loses nothing.

Read back, the rows of silver.finalized_features become what changed, by epoch. A broker's epoch is
how far it has read: the log's offset in KRaft mode, the version of the features node in ZooKeeper
mode. So a broker and the log, or the node, tell one story; a controller's epoch is of another kind,
and a tool names none: they count where nobody else shows anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypedDict

import msgspec
import numpy as np
import pyarrow as pa

from featurelib.catalogue import Catalogue
from featurelib.core.features_znode import Generation, Reading, decode
from featurelib.feature import Role, Witness
from featurelib.landing import (
    ApiVersionsAnswer,
    Landing,
    ToolLine,
    Znode,
    broker_id,
    features_describe,
    znode,
)
from featurelib.snapshot.log import LogChange
from featurelib.snapshot.state import Map
from featurelib.tables import FINALIZED_FEATURES, Table

REGISTRATION = "registration"
_LOG = Witness.METADATA_LOG.name.lower()


class Statement(msgspec.Struct, array_like=True, gc=False):
    """What one line or record shows of features: of their levels, or of a node's ranges."""

    run: int  # that brought the line
    at: int
    line: int
    witness: str
    node_id: int | None
    epoch: int | None
    is_finalized: bool
    map: int  # position in `maps`


class Learned(msgspec.Struct, array_like=True, gc=False):
    """The statements of one cluster that a fold adds to the histories."""

    maps: list[Map] = []
    statements: list[Statement] = []

    def add(self, run: int, landing: Landing, line: int, catalogue: Catalogue) -> None:
        """The statements of one accepted line, which may be none."""
        at = landing.observed_at
        if at is None:
            return
        for is_finalized, (witness, node_id, epoch, features) in _statements(landing, catalogue):
            shown = self._position(features)
            self.statements.append(
                Statement(run, at, line, witness, node_id, epoch, is_finalized, shown)
            )

    def add_change(self, run: int, change: LogChange) -> None:
        """The statement of one record of the metadata log that was applied for the first time."""
        node_id, features = None if change.node is None else change.node[1], change.ranges
        if change.level is not None:
            name, level = change.level
            features = ((name, level, level),)
        is_finalized, shown = change.level is not None, self._position(features)
        at, line, offset = change.at, change.line, change.offset
        self.statements.append(Statement(run, at, line, _LOG, node_id, offset, is_finalized, shown))

    def _position(self, features: Map) -> int:
        if features not in self.maps:
            self.maps.append(features)
        return self.maps.index(features)


_DECODER = msgspec.msgpack.Decoder(Learned)


def pack(learned: Learned) -> bytes | None:
    """The statements as the snapshot row keeps them; None = there are none."""
    return msgspec.msgpack.encode(learned) if learned.statements else None


def history_rows(
    table: Table, since: int, clusters: Iterable[tuple[str, bytes]], most: int = 50_000
) -> Iterator[pa.RecordBatch]:
    """Rows of one of the two histories, by runs after `since`, from (cluster, packed statements);
    about `most` statements a batch."""
    rows: list[tuple[str, Statement, Map]] = []
    for cluster, packed in clusters:
        learned = _DECODER.decode(packed)
        rows += [
            (cluster, one, learned.maps[one.map])
            for one in learned.statements
            if one.is_finalized == (table == FINALIZED_FEATURES) and one.run > since
        ]
        if len(rows) >= most:
            yield _batch(table, rows)
            rows = []
    if rows:
        yield _batch(table, rows)


def _batch(table: Table, rows: list[tuple[str, Statement, Map]]) -> pa.RecordBatch:
    """Features laid flat, each distinct map once; one of nothing is a row without a feature."""
    codes: dict[Map, int] = {}
    of_row = np.array([codes.setdefault(features, len(codes)) for _, _, features in rows])
    entries = [entry for features in codes for entry in features or ((None, None, None),)]
    sizes = np.array([max(len(features), 1) for features in codes])
    lengths = sizes[of_row]
    owner = np.repeat(np.arange(len(rows)), lengths)
    first = (np.cumsum(sizes) - sizes)[of_row] - (np.cumsum(lengths) - lengths)
    entry = pa.array(first[owner] + np.arange(len(owner)))
    columns = {
        "run": [one.run for _, one, _ in rows],
        "cluster": [cluster for cluster, _, _ in rows],
        "observed_at": [one.at for _, one, _ in rows],
        "line_id": [one.line for _, one, _ in rows],
        "witness": [one.witness for _, one, _ in rows],
        "node_id": [one.node_id for _, one, _ in rows],
        "epoch": [one.epoch for _, one, _ in rows],
    }
    *fields, _, _, _ = table.schema
    arrays = [pa.array(columns[f.name], f.type).take(pa.array(owner)) for f in fields]
    arrays += [
        pa.array(values, field.type).take(entry)
        for values, field in zip(zip(*entries, strict=True), list(table.schema)[-3:], strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)


_Shown = tuple[str, int | None, int | None, Map]  # witness, node, epoch, features


def _statements(landing: Landing, catalogue: Catalogue) -> Iterator[tuple[bool, _Shown]]:
    """What a line shows, and whether that is what is finalized."""
    content = landing.content
    if isinstance(content, ApiVersionsAnswer) and content.error is None:
        epoch = content.epoch if content.epoch >= 0 else None
        who = (Role(content.role).text, content.node_id, epoch)
        yield False, (*who, content.supported)
        if epoch is not None:
            yield True, (*who, content.finalized)
    elif isinstance(content, Znode) and content.data is not None:
        yield from _of_znode(content, content.data)
    elif isinstance(content, ToolLine):
        yield from _of_tool(content, catalogue)


def _of_znode(content: Znode, data: str) -> Iterator[tuple[bool, _Shown]]:
    node_id = broker_id(content.path)
    if content.path in ("/feature", "/features"):
        readings = [decode(data, generation) for generation in Generation]
        good = [node for node in readings if node.reading == Reading.ACCEPTED]
        if good:
            yield True, (Witness.FEATURES_NODE.name.lower(), None, content.version, good[0].levels)
    elif node_id is not None:
        entry = znode.registration(data)
        if not entry.defect:
            yield False, (REGISTRATION, node_id, None, entry.features or ())


def _of_tool(content: ToolLine, catalogue: Catalogue) -> Iterator[tuple[bool, _Shown]]:
    entry = features_describe.parse_line(content.line)
    if entry is None:
        return
    level = 0 if entry.level_text == "-" else catalogue.level_of(entry.level_text)
    minimum = level if entry.min_level_text is None else None
    if entry.min_level_text not in (None, "-"):
        minimum = catalogue.level_of(str(entry.min_level_text))
    if level is not None:
        features = ((entry.feature, minimum if minimum is not None else level, level),)
        yield True, (Witness.TOOL.name.lower(), None, entry.epoch, features)


LOG = Witness.METADATA_LOG.name.lower()
TOGETHER = frozenset({LOG, Witness.FEATURES_NODE.name.lower(), Witness.BROKER.name.lower()})
IN_ORDER = (TOGETHER, {Witness.CONTROLLER.name.lower()}, {Witness.TOOL.name.lower()})


class Row(TypedDict):
    """The columns of silver.finalized_features that a history is made of."""

    cluster: str
    observed_at: datetime
    line_id: int
    witness: str
    epoch: int | None
    feature: str | None
    level: int | None


class LevelMove(NamedTuple):
    """A feature's level before and after; 0 = not finalized."""

    feature: str
    from_level: int
    to_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelChange:
    """What changed at one epoch. `epoch` is None where only a tool, which names none, told it."""

    at: datetime
    epoch: int | None
    changes: tuple[LevelMove, ...]

    @property
    def went_down(self) -> tuple[str, ...]:
        """The features whose level is lower than before."""
        return tuple(name for name, before, after in self.changes if after < before)


def level_changes(rows: Iterable[Row]) -> Iterator[LevelChange]:
    """The changes of one cluster, oldest first."""
    known = list(rows)
    witnesses = {row["witness"] for row in known}
    believed = next((kinds for kinds in IN_ORDER if kinds & witnesses), set())
    statements: dict[tuple[int, datetime, int], list[Row]] = defaultdict(list)
    for row in known:
        if row["witness"] in believed:
            # Of a tool what is in the place of the epoch is the number of its line.
            epoch = -1 if row["witness"] == "tool" or row["epoch"] is None else row["epoch"]
            statements[epoch, row["observed_at"], row["line_id"] if epoch >= 0 else 0].append(row)
    levels: dict[str, int] = {}
    for (epoch, at, _), mine in sorted(statements.items(), key=lambda entry: entry[0]):
        after = {row["feature"]: row["level"] or 0 for row in mine if row["feature"] is not None}
        if mine[0]["witness"] == LOG:
            after = levels | after
        after = {name: level for name, level in after.items() if level > 0}
        names = sorted({name for name, _ in levels.items() ^ after.items()})
        if names:
            changes = tuple(LevelMove(n, levels.get(n, 0), after.get(n, 0)) for n in names)
            yield LevelChange(at=at, epoch=epoch if epoch >= 0 else None, changes=changes)
        levels = after


def histories(rows: Iterable[Row]) -> dict[str, tuple[LevelChange, ...]]:
    """The changes of each cluster, oldest first, by cluster id."""
    by_cluster: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_cluster[row["cluster"]].append(row)
    return {cluster: tuple(level_changes(mine)) for cluster, mine in by_cluster.items()}
