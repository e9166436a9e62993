"""Rows of the histories: what one landing line said about features, a row a feature.

Lines of the metadata log are not read here: what a record means depends on the file it stands in,
so the fold says it. Rows carry the line's own run, so writing them again can be noticed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict

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
from featurelib.snapshot.state import Map
from featurelib.tables import FINALIZED_FEATURES, NODE_ADVERTISEMENT

REGISTRATION = "registration"
_Row = tuple[int, str, int, int, str, int | None, int | None, Map]


class History:
    """Collects rows of one of the two histories; `take` hands them out as its table's schema."""

    def __init__(self, finalized: bool, catalogue: Catalogue) -> None:
        self._finalized = finalized
        self._catalogue = catalogue
        self._rows: list[_Row] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, run: int, landing: Landing, line_id: int) -> None:
        """The line's rows, if it says anything for this history."""
        at = landing.observed_at
        said = self._said(landing)
        if at is None or said is None:
            return
        witness, node_id, epoch, features = said
        self._rows.append((run, landing.cluster, at, line_id, witness, node_id, epoch, features))

    def take(self) -> pa.RecordBatch:
        """The rows so far, features laid flat; a map of nothing is one row without a feature."""
        rows, self._rows = self._rows, []
        table = FINALIZED_FEATURES if self._finalized else NODE_ADVERTISEMENT
        repeat = np.array([max(len(row[-1]), 1) for row in rows], dtype=np.int64)
        owner = pa.array(np.repeat(np.arange(len(rows)), repeat))
        columns = [
            pa.array([row[i] for row in rows], field.type).take(owner)
            for i, field in enumerate(list(table.schema)[:-3])
        ]
        flat = [entry for row in rows for entry in row[-1] or ((None, None, None),)]
        by_column = list(zip(*flat, strict=True)) if flat else [(), (), ()]
        columns += [
            pa.array(values, field.type)
            for values, field in zip(by_column, list(table.schema)[-3:], strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=table.schema)

    def _said(self, landing: Landing) -> tuple[str, int | None, int | None, Map] | None:
        content = landing.content
        if isinstance(content, ApiVersionsAnswer):
            return self._answer(content)
        if isinstance(content, Znode) and content.data is not None:
            return self._znode(content, content.data)
        if isinstance(content, ToolLine) and self._finalized:
            return self._tool(content)
        return None

    def _answer(self, said: ApiVersionsAnswer) -> tuple[str, int, int | None, Map] | None:
        if said.error is not None or (self._finalized and said.epoch < 0):
            return None
        features = said.finalized if self._finalized else said.supported
        epoch = said.epoch if said.epoch >= 0 else None
        return Role(said.role).text, said.node_id, epoch, features

    def _znode(self, said: Znode, data: str) -> tuple[str, int | None, int | None, Map] | None:
        node_id = broker_id(said.path)
        if self._finalized and said.path in ("/feature", "/features"):
            readings = [decode(data, generation) for generation in Generation]
            good = [node for node in readings if node.reading == Reading.ACCEPTED]
            name = Witness.FEATURES_NODE.name.lower()
            return (name, None, said.version, good[0].levels) if good else None
        if not self._finalized and node_id is not None:
            entry = znode.registration(data)
            return (REGISTRATION, node_id, None, entry.features or ()) if not entry.defect else None
        return None

    def _tool(self, said: ToolLine) -> tuple[str, None, int | None, Map] | None:
        entry = features_describe.parse_line(said.line)
        if entry is None:
            return None
        level = 0 if entry.level_text == "-" else self._catalogue.level_of(entry.level_text)
        minimum = level if entry.min_level_text is None else None
        if entry.min_level_text not in (None, "-"):
            minimum = self._catalogue.level_of(str(entry.min_level_text))
        if level is None:
            return None
        features = ((entry.feature, minimum if minimum is not None else level, level),)
        return Witness.TOOL.name.lower(), None, entry.epoch, features


# ----------------------------------------
# What became of a cluster's finalized levels: rows of silver.finalized_features, told by epoch.
#
# A broker's epoch is how far it has read: the log's offset in KRaft mode, the version of the
# features
# node in ZooKeeper mode. So a broker and the log, or the node, tell one story; a controller's
# epoch
# is of another kind, and a tool names none: they are heard where nobody else spoke.

LOG = Witness.METADATA_LOG.name.lower()
TOGETHER = frozenset({LOG, Witness.FEATURES_NODE.name.lower(), Witness.BROKER.name.lower()})
HEARD = (TOGETHER, {Witness.CONTROLLER.name.lower()}, {Witness.TOOL.name.lower()})


class Row(TypedDict):
    """The columns of silver.finalized_features that a history is made of."""

    cluster: str
    observed_at: datetime
    line_id: int
    witness: str
    epoch: int | None
    feature: str | None
    level: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelChange:
    """What changed at one epoch: feature, level before, level after; 0 = not finalized. `epoch`
    is None where only a tool, which names none, told it."""

    at: datetime
    epoch: int | None
    changes: tuple[tuple[str, int, int], ...]

    @property
    def went_down(self) -> tuple[str, ...]:
        """The features whose level is lower than before."""
        return tuple(name for name, before, after in self.changes if after < before)


def level_changes(rows: Iterable[Row]) -> Iterator[LevelChange]:
    """The changes of one cluster, oldest first."""
    known = list(rows)
    said = {row["witness"] for row in known}
    heard = next((kinds for kinds in HEARD if kinds & said), set())
    sayings: dict[tuple[int, datetime, int], list[Row]] = defaultdict(list)
    for row in known:
        if row["witness"] in heard:
            # Of a tool what is in the place of the epoch is the number of its line.
            epoch = -1 if row["witness"] == "tool" or row["epoch"] is None else row["epoch"]
            sayings[epoch, row["observed_at"], row["line_id"] if epoch >= 0 else 0].append(row)
    levels: dict[str, int] = {}
    for (epoch, at, _), mine in sorted(sayings.items(), key=lambda entry: entry[0]):
        after = {row["feature"]: row["level"] or 0 for row in mine if row["feature"] is not None}
        if mine[0]["witness"] == LOG:
            after = levels | after
        after = {name: level for name, level in after.items() if level > 0}
        names = sorted({name for name, _ in levels.items() ^ after.items()})
        if names:
            changes = tuple((name, levels.get(name, 0), after.get(name, 0)) for name in names)
            yield LevelChange(at=at, epoch=epoch if epoch >= 0 else None, changes=changes)
        levels = after


def histories(rows: Iterable[Row]) -> dict[str, tuple[LevelChange, ...]]:
    """The changes of each cluster, oldest first, by cluster id."""
    by_cluster: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_cluster[row["cluster"]].append(row)
    return {cluster: tuple(level_changes(mine)) for cluster, mine in by_cluster.items()}
