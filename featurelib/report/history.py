"""What became of a cluster's finalized levels, as a report shows it; told by level_history.py."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from featurelib.level_history import LevelChange, Row, level_changes
from featurelib.report.clean import clean
from featurelib.report.portrait import Moment
from featurelib.report.words import show_time


def histories(rows: Iterable[Row]) -> dict[str, tuple[Moment, ...]]:
    """The moments of each cluster, oldest first, by cluster id."""
    by_cluster: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_cluster[row["cluster"]].append(row)
    return {
        cluster: tuple(map(_moment, level_changes(mine))) for cluster, mine in by_cluster.items()
    }


def _moment(change: LevelChange) -> Moment:
    changes = tuple((clean(name), before, after) for name, before, after in change.changes)
    return Moment(at=show_time(change.at) or "", epoch=change.epoch, changes=changes)
