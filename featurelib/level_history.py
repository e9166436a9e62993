"""What became of a cluster's finalized levels: rows of silver.finalized_features, told by epoch.

A broker's epoch is how far it has read: the log's offset in KRaft mode, the version of the features
node in ZooKeeper mode. So a broker and the log, or the node, tell one story; a controller's epoch
is of another kind, and a tool names none: they are heard where nobody else spoke.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict

from featurelib.feature import Witness

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
