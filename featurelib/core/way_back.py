"""How far back each READY feature of a batch goes, and from where on it cannot (N3).

featurelib.core.floors says it for the release a controller runs; where several may run there, the
worst of them counts: the highest floor, the earliest point of no return.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from featurelib.catalogue import Catalogue, Tables
from featurelib.catalogue.releases import FEATURE_RECORDS_FROM
from featurelib.core.batch import NOT_HERE
from featurelib.core.columns import Bool, Int
from featurelib.core.dialect import load
from featurelib.core.evidence import Evidence
from featurelib.core.floors import Footing, downgrade_floor, point_of_no_return
from featurelib.core.questions import Questions
from featurelib.feature import METADATA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class WayBack:
    """By question; -1 = no such level, or nobody can tell.

    `floor`: the lowest level, 0 = not finalized, that can be had again from the present one without
    losing metadata. `no_return`: the first level on the way to the target from which the present
    one cannot be had again.
    """

    floor: Int
    no_return: Int


def ways_back(
    evidence: Evidence,
    ready: Bool,
    target: Int,
    spoken: dict[tuple[str, str], Bool],
    catalogue: Catalogue,
) -> WayBack:
    """The way back of each question that is `ready` for its `target` (KIP-778, Downgrades).

    `spoken`: (dialect, release) → which clusters' controllers may be of it. Features that the
    catalogue does not know have none, and neither has metadata.version in ZooKeeper mode.
    """
    asked, names = evidence.questions, evidence.questions.names
    known = [i for i, name in enumerate(names) if name in catalogue.features - {METADATA_VERSION}]
    found = WayBack(
        floor=np.where(ready & np.isin(asked.feature, known), 0, NOT_HERE),
        no_return=np.full(len(ready), NOT_HERE),
    )
    for level in sorted((v for v in catalogue.levels if v.irreversible), key=lambda v: -v.level):
        if level.feature not in names:
            continue
        mine = ready & (asked.feature == names.index(level.feature))
        found.floor[mine & (found.floor < level.level) & (level.level <= asked.current)] = (
            level.level
        )
        found.no_return[mine & (asked.current < level.level) & (level.level <= target)] = (
            level.level
        )
    if METADATA_VERSION in names:
        mine = ready & (asked.feature == names.index(METADATA_VERSION))
        _of_metadata_version(evidence, np.flatnonzero(mine), target, spoken, catalogue, found)
    return found


def _of_metadata_version(
    evidence: Evidence,
    rows: Int,
    target: Int,
    spoken: dict[tuple[str, str], Bool],
    catalogue: Catalogue,
    found: WayBack,
) -> None:
    """Fill in what is found for `rows`, the questions about metadata.version."""
    asked, tables = evidence.questions, catalogue.tables
    if len(rows) == 0:
        return
    lowest, highest = _ends(asked, rows)
    others = _Others(evidence, tables)
    for (dialect, release), which in spoken.items():
        can, mine = load(dialect), np.flatnonzero(which[asked.cluster[rows]])
        if can.mode != "kraft" or len(mine) == 0:
            continue
        question, code = rows[mine], tables.release_code(release)
        level = asked.current[question]
        needed = others.need(code)[asked.cluster[question]]
        columns = np.stack([level, lowest[mine], highest[mine], needed, target[question]])
        # Clusters that stand alike go the same way: a fleet has few kinds of them.
        alike, inverse = np.unique(np.minimum(columns, tables.width), axis=1, return_inverse=True)
        where = Footing(
            release=np.full(alike.shape[1], code),
            level=alike[0],
            min_version=alike[1],
            max_version=alike[2],
            needed_by_others=alike[3],
        )
        floor = downgrade_floor(tables, where, can.can)[inverse]
        found.floor[question] = np.maximum(found.floor[question], floor)
        last = point_of_no_return(tables, where, alike[4], can.can)[inverse]
        before = found.no_return[question]
        earlier = (last >= 0) & ((before < 0) | (last < before))
        found.no_return[question] = np.where(earlier, last, before)


def _ends(asked: Questions, rows: Int) -> tuple[Int, Int]:
    """The highest of the nodes' lowest and the lowest of their highest, of these questions."""
    count = asked.pair_count[rows]
    first = np.cumsum(count) - count
    pairs = np.repeat(asked.pair_first[rows] - first, count) + np.arange(int(count.sum()))
    return (
        np.maximum.reduceat(asked.pair_min[pairs], first),
        np.minimum.reduceat(asked.pair_max[pairs], first),
    )


class _Others:
    """What the other finalized levels of each cluster need of metadata.version (KIP-1022)."""

    def __init__(self, evidence: Evidence, tables: Tables) -> None:
        asked, self._tables = evidence.questions, tables
        self._clusters = len(evidence.clusters)
        there = (asked.current > 0) & (asked.feature != asked.names.index(METADATA_VERSION))
        stored = np.bincount(asked.cluster[there], minlength=self._clusters) > 0
        self._stored: Int = np.where(stored, FEATURE_RECORDS_FROM, 0)
        depending = {tables.features[code] for code in tables.dependency_feature.tolist()}
        self._levels = {
            name: self._of(asked, i) for i, name in enumerate(asked.names) if name in depending
        }

    def need(self, release: int) -> Int:
        """By cluster, as the catalogue of one release has it."""
        tables, needed = self._tables, self._stored.copy()
        metadata = tables.feature_code(METADATA_VERSION)
        mine = tables.dependency_release == release
        for row in np.flatnonzero(mine & (tables.dependency_other == metadata)).tolist():
            levels = self._levels.get(tables.features[tables.dependency_feature[row]])
            if levels is not None:
                hit = levels == tables.dependency_level[row]
                needed[hit] = np.maximum(needed[hit], tables.dependency_least[row])
        return needed

    def _of(self, asked: Questions, code: int) -> Int:
        """The finalized level of one feature by cluster; 0 where it is not finalized."""
        levels = np.zeros(self._clusters, dtype=np.int64)
        mine = asked.feature == code
        levels[asked.cluster[mine]] = asked.current[mine]
        return levels
