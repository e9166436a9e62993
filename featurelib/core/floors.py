"""How far back a level can go without loss, and from where on there is no way back.

Arrays in, arrays out: R clusters or questions, W = levels from 0 up to the catalogue's width.
Whether a level may be had again is the rules' answer alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from featurelib.catalogue import Catalogue, ReleaseCatalogue, Tables
from featurelib.catalogue.releases import ANY, FEATURE_RECORDS_FROM
from featurelib.core.batch import NOT_HERE, Flags, Ints, Levels
from featurelib.core.cluster import Cluster
from featurelib.core.compatibility import Advertised, misfits
from featurelib.core.dialect import Capability
from featurelib.core.rules import RULES
from featurelib.feature import METADATA_VERSION, UpgradeType

_FIRST = 1  # 3.0-IV1


@dataclass(frozen=True, slots=True, kw_only=True)
class Footing:
    """Where each of R clusters stands with metadata.version."""

    release: Ints  # [R] of the active controller, a position in the tables
    level: Levels  # [R] finalized
    min_version: Levels  # [R] the highest of the nodes' lowest
    max_version: Levels  # [R] the lowest of the nodes' highest
    needed_by_others: Levels  # [R] what the other finalized levels need of it

    @classmethod
    def alone(cls, tables: Tables, release: Ints, level: Levels) -> Footing:
        """Every node runs what the controller runs, and no other level needs anything."""
        code = tables.feature_code(METADATA_VERSION)
        return cls(
            release=release,
            level=level,
            min_version=tables.oldest[release, code].astype(np.int32),
            max_version=tables.newest_unstable[release, code].astype(np.int32),
            needed_by_others=np.zeros(len(level), dtype=np.int32),
        )

    def at(self, rows: Ints) -> Footing:
        """Of the clusters at these positions."""
        return Footing(
            release=self.release[rows],
            level=self.level[rows],
            min_version=self.min_version[rows],
            max_version=self.max_version[rows],
            needed_by_others=self.needed_by_others[rows],
        )


def footing_of(clusters: Sequence[Cluster], catalogue: Catalogue) -> Footing:
    """Where these clusters stand: every node counts, fenced, stopped and silent ones too. A node or
    cluster that says nothing of metadata.version is at 3.0-IV1 (KIP-778)."""
    silence = {METADATA_VERSION: (_FIRST, _FIRST)}
    rows = []
    for cluster in clusters:
        ends = [(silence | node.supported)[METADATA_VERSION] for node in cluster.nodes]
        release = catalogue.release_named(cluster.release)
        levels = {name: level for name, (_, level) in cluster.finalized.items()}
        rows.append(
            (
                catalogue.tables.release_code(ANY if release is None else release),
                levels.get(METADATA_VERSION, _FIRST),
                max((low for low, _ in ends), default=0),
                min((high for _, high in ends), default=0),
                _needed(catalogue.of(ANY if release is None else release), levels),
            )
        )
    columns = np.array(rows, dtype=np.int32).reshape(-1, 5).T
    return Footing(
        release=columns[0].astype(np.int64),
        level=columns[1],
        min_version=columns[2],
        max_version=columns[3],
        needed_by_others=columns[4],
    )


def _needed(software: ReleaseCatalogue, levels: Mapping[str, int]) -> int:
    """What the finalized levels of other features need of metadata.version (KIP-1022)."""
    least = [
        needed.least
        for name, level in levels.items()
        for needed in software.needs(name, level)
        if needed.other == METADATA_VERSION
    ]
    stored = [FEATURE_RECORDS_FROM for name in levels if name != METADATA_VERSION]
    return max(least + stored, default=0)


HELD_BY = (
    "unknown_metadata_version",
    "lossy_safe_downgrade",
    "unsupported_by_node",
    "below_metadata_floor",
    "dependant_broken",
)


def held(tables: Tables, where: Footing, can: Capability) -> dict[str, Flags]:
    """For each rule that can hold a level up: which metadata.versions below it refuses, [R, W].

    A safe downgrade of one request is asked for; several in a row never get further, because what
    one of them loses the whole way loses (KIP-778, Downgrades; MetadataVersion).
    """
    levels = np.arange(tables.width, dtype=np.int32)
    current = np.minimum(where.level, tables.width - 1)[:, None]
    known = tables.level_known[where.release, tables.feature_code(METADATA_VERSION)]
    rows = SimpleNamespace(
        level=np.broadcast_to(levels, known.shape),
        current=current,
        kind=np.int32(UpgradeType.SAFE_DOWNGRADE),
        loses=tables.lossy(where.release[:, None], current.astype(np.int16), levels.astype("i2")),
        known_level=known,
        min_version=where.min_version[:, None],
        max_version=where.max_version[:, None],
        silent=np.False_,
        metadata_floor=np.int32(can.metadata_floor),
        needed_by_others=where.needed_by_others[:, None],
    )
    below = rows.level < current
    return {name: RULES[name].ask(rows) & below for name in HELD_BY}


def downgrade_floor(tables: Tables, where: Footing, can: Capability) -> Levels:
    """[R] the lowest metadata.version that can be had without losing metadata; the present one if
    nothing lower can, -1 if the controller's release does not know the present one."""
    refused = np.logical_or.reduce(list(held(tables, where, can).values()))
    levels = np.arange(tables.width, dtype=np.int32)
    free = ~refused & (levels < where.level[:, None])
    lowest = np.where(free.any(axis=1), free.argmax(axis=1), where.level)
    return np.where(_known(tables, where), lowest, NOT_HERE).astype(np.int32)


def _known(tables: Tables, where: Footing) -> Flags:
    code = tables.feature_code(METADATA_VERSION)
    inside = (where.level >= 0) & (where.level < tables.width)
    known: Flags = tables.level_known[where.release, code, np.where(inside, where.level, 0)]
    return inside & known


def point_of_no_return(tables: Tables, where: Footing, target: Levels, can: Capability) -> Levels:
    """[R] the first metadata.version on the way up to `target` from which the present one cannot be
    had again; -1 if it can from everywhere. Levels the controller's release does not know are no
    step of the way (KIP-778, Downgrades)."""
    levels = np.arange(tables.width, dtype=np.int32)
    steps = (where.level[:, None] < levels) & (levels <= target[:, None])
    steps &= tables.level_known[where.release, tables.feature_code(METADATA_VERSION)]
    row, step = np.nonzero(steps)
    there = Footing(
        release=where.release[row],
        level=step.astype(np.int32),
        min_version=where.min_version[row],
        max_version=where.max_version[row],
        needed_by_others=where.needed_by_others[row],
    )
    lost = np.zeros_like(steps)
    for refused in held(tables, there, can).values():
        lost[row, step] |= refused[
            np.arange(len(row)), np.minimum(where.level[row], tables.width - 1)
        ]
    return np.where(lost.any(axis=1), lost.argmax(axis=1), NOT_HERE).astype(np.int32)


def no_return_of_other(software: ReleaseCatalogue, feature: str, level: int, target: int) -> int:
    """The first irreversible level of the feature above `level`, up to `target`; -1 for none."""
    return min((n for n in _never_back(software, feature) if level < n <= target), default=NOT_HERE)


def _never_back(software: ReleaseCatalogue, feature: str) -> list[int]:
    return [v.level for v in software.levels if v.feature == feature and v.irreversible]


def fitting_after_lowering(
    tables: Tables, where: Footing, can: Capability, fixed: Levels, ranges: Advertised
) -> Flags:
    """[R, L]: once everything is lowered as far as that release needs, it may be rolled to.

    `fixed` [R, F] are the levels that nothing lowers, see `never_lowered` (metadata.version: 0);
    metadata.version goes to any level that loses nothing (KIP-778, Downgrades: the level first,
    then the software).
    """
    code = ranges.names.index(METADATA_VERSION)
    levels = np.arange(tables.width, dtype=np.int32)
    refused = np.logical_or.reduce(list(held(tables, where, can).values()))
    free = ~refused & (levels <= where.level[:, None])  # [R, W]
    only = Advertised(
        releases=ranges.releases,
        names=(METADATA_VERSION,),
        min_version=ranges.min_version[:, [code]],
        max_version=ranges.max_version[:, [code]],
    )
    holds = ~misfits(levels[:, None], only)[:, :, 0]  # [W, L]
    somewhere: Flags = (free[:, :, None] & holds[None]).any(axis=1)
    return somewhere & ~misfits(fixed, ranges).any(axis=2)


def never_lowered(catalogue: Catalogue, names: Sequence[str], levels: Levels) -> Levels:
    """[R, F] the level nothing takes each feature below: an irreversible one, or 0."""
    fixed = np.zeros_like(levels)
    for known in catalogue.levels:
        if known.irreversible and known.feature in names:
            at = names.index(known.feature)
            fixed[:, at] = np.where(levels[:, at] < known.level, fixed[:, at], known.level)
    return fixed
