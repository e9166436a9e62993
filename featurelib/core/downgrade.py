"""Find the lowest level of a lossless downgrade, and the point of no return.

Input and output are arrays: R clusters, plans or questions; W = levels from 0 to the catalogue's
maximum. Only the rules decide whether a downgrade is possible, by each dialect and release that may
judge it. Of several results the worst counts: the highest floor, the earliest point of no return.

    4.1 at metadata.version 25, target 27     every node supports 7 to 27, nothing else finalized
    held     0..6 no node has them · 7..22 metadata would be lost · 23, 24 free   → floor 23
    no_return  a downgrade from 26 and 27 to 25 is possible                       → -1, none

Other features can be downgraded to 0, or to the highest irreversible level.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from featurelib.catalogue import ANY, FEATURE_RECORDS_FROM, Catalogue, Tables
from featurelib.core.batch import NOT_HERE, Flags, Ints, Levels
from featurelib.core.cluster import Range
from featurelib.core.compatibility import advertised, misfits
from featurelib.core.dialect import STRICT, Capability, load
from featurelib.core.rules import (
    below_metadata_floor,
    dependant_broken,
    lossy_safe_downgrade,
    unknown_metadata_version,
    unsupported_by_node,
)
from featurelib.feature import METADATA_VERSION, SILENT_METADATA_VERSION, UpgradeType
from featurelib.model import Move, Plan, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The input for downgrades: metadata.version, common range and other levels of R clusters."""

    level: Levels  # [R] the finalized metadata.version
    min_version: Levels  # [R] the highest minimum of all nodes
    max_version: Levels  # [R] the lowest maximum of all nodes
    others: Levels  # [R, features of the tables] finalized levels; 0 for metadata.version itself
    stores: Flags  # [R] true if another feature is finalized, also a feature that the tables lack

    def at(self, rows: Ints) -> Position:
        """Return the rows `rows` of these columns."""
        return Position(**{part.name: getattr(self, part.name)[rows] for part in fields(self)})


def position(
    clusters: Sequence[tuple[Mapping[str, int], Iterable[Range]]], catalogue: Catalogue
) -> Position:
    """Return the downgrade input of clusters, given as (finalized levels, metadata.version ranges
    of all nodes). Include fenced, stopped and unreachable nodes."""
    rows = []
    for levels, supported in clusters:
        level = levels.get(METADATA_VERSION, SILENT_METADATA_VERSION)
        ends = list(supported)
        lowest = max((low for low, _ in ends), default=0)
        highest = min((high for _, high in ends), default=0)
        levels_known = [levels.get(name, 0) for name in catalogue.tables.features[1:]]
        stores = any(level for name, level in levels.items() if name != METADATA_VERSION)
        rows.append((level, lowest, highest, stores, 0, *levels_known))
    width = 4 + len(catalogue.tables.features)
    columns = np.array(rows, dtype=np.int32).reshape(-1, width)
    return Position(
        level=columns[:, 0],
        min_version=columns[:, 1],
        max_version=columns[:, 2],
        others=columns[:, 4:],
        stores=columns[:, 3] > 0,
    )


def _needed_by_others(tables: Tables, release: int, at: Position) -> Levels:
    """Return [R] the metadata.version that the other finalized levels need, by the software of one
    release (KIP-1022)."""
    needed = np.where(at.stores, FEATURE_RECORDS_FROM, 0).astype(np.int32)
    for code, feature, level, other, least in tables.dependencies.tolist():
        if (code, other) == (release, 0):  # metadata.version is the first feature
            mask = at.others[:, feature] == level
            needed[mask] = np.maximum(needed[mask], least)
    return needed


def _refused(tables: Tables, release: int, at: Position, needed: Levels, can: Capability) -> Flags:
    """Return a mask [R, W] of the metadata.versions below the finalized one that some rule refuses.

    One request for a safe downgrade is judged. Several requests in a row never get further, because
    each loss is also a loss of the whole downgrade (KIP-778, Downgrades; MetadataVersion).
    """
    level = np.arange(tables.width, dtype=np.int32)
    current = np.minimum(at.level, tables.width - 1)[:, None]
    level_known = tables.level_known[release, 0]
    loses = tables.lossy(np.array(release), current.astype(np.int16), level.astype(np.int16))
    is_safe = np.int32(UpgradeType.SAFE_DOWNGRADE)
    refused = (
        unknown_metadata_version(level_known)
        | lossy_safe_downgrade(level, current, is_safe, loses)
        | unsupported_by_node(level, at.min_version[:, None], at.max_version[:, None], np.False_)
        | below_metadata_floor(level, np.int32(can.metadata_floor))
        | dependant_broken(level, needed[:, None])
    )
    return refused & (level < current)


def floors(tables: Tables, release: int, at: Position, capability: Capability) -> Levels:
    """Return [R] the lowest metadata.version of a lossless downgrade: the present one if none is
    possible, -1 if `release` does not know it."""
    needed = _needed_by_others(tables, release, at)
    level = np.arange(tables.width, dtype=np.int32)
    free = ~_refused(tables, release, at, needed, capability) & (level < at.level[:, None])
    lowest = np.where(free.any(axis=1), free.argmax(axis=1), at.level)
    inside = (at.level >= 0) & (at.level < tables.width)
    mask = inside & tables.level_known[release, 0, np.where(inside, at.level, 0)]
    return np.where(mask, lowest, NOT_HERE).astype(np.int32)


def no_returns(tables: Tables, release: int, at: Position, target: Ints, can: Capability) -> Levels:
    """Return [R] the first metadata.version of an upgrade to `target` that cannot be downgraded to
    the present one; -1 if every level can (KIP-778, Downgrades)."""
    levels = np.arange(tables.width, dtype=np.int32)
    steps = (at.level[:, None] < levels) & (levels <= target[:, None])
    steps &= tables.level_known[release, 0]
    row, step = np.nonzero(steps)
    starts = at.at(row)
    needed = _needed_by_others(tables, release, starts)
    current = np.minimum(starts.level, tables.width - 1)
    starts = replace(starts, level=step.astype(np.int32))
    lost = np.zeros_like(steps)
    lost[row, step] = _refused(tables, release, starts, needed, can)[np.arange(len(row)), current]
    return np.where(lost.any(axis=1), lost.argmax(axis=1), NOT_HERE).astype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaysBack:
    """The possible downgrades of features, one row each; -1 = unknown, or no such level.

    `floor`: the lowest level (0 = not finalized) of a lossless downgrade from the present level.
    `no_return`: the first level of the upgrade that cannot be downgraded to the present level."""

    floor: Ints
    no_return: Ints


def of_metadata_version(
    at: Position, target: Ints, judges: Iterable[tuple[str, str, Ints]], tables: Tables
) -> WaysBack:
    """Return the possible downgrades of metadata.version. `judges`: (dialect, release, rows to
    judge); the strictest result counts."""
    unknown = np.full(len(at.level), NOT_HERE)
    downgrades = WaysBack(floor=unknown, no_return=unknown.copy())
    for dialect, release, rows in judges:
        if load(dialect).mode == "zk" or len(rows) == 0:
            continue
        capability, code, part = load(dialect).can, tables.release_code(release), at.at(rows)
        parts = (part.level, part.min_version, part.max_version, target[rows], part.stores)
        # Equal clusters are judged once.
        columns = np.minimum(np.column_stack((*parts, part.others)), tables.width)
        _, first, inverse = np.unique(columns, axis=0, return_index=True, return_inverse=True)
        distinct, position = part.at(first), inverse.reshape(-1)
        lowest = floors(tables, code, distinct, capability)[position]
        downgrades.floor[rows] = np.maximum(downgrades.floor[rows], lowest)
        last = no_returns(tables, code, distinct, target[rows][first], capability)[position]
        before = downgrades.no_return[rows]
        is_lower = (last >= 0) & ((before < 0) | (last < before))
        downgrades.no_return[rows] = np.where(is_lower, last, before)
    return downgrades


def of_other_feature(catalogue: Catalogue, feature: str, current: Ints, target: Ints) -> WaysBack:
    """Return the possible downgrades of a feature other than metadata.version; unknown if the
    catalogue lacks the feature."""
    is_known = feature in catalogue.features
    floor = np.full(len(current), 0 if is_known else NOT_HERE)
    no_return = np.full(len(current), NOT_HERE)
    for level in sorted(catalogue.irreversible(feature), reverse=True):
        floor = np.where((level <= current) & (floor < level), level, floor)
        no_return = np.where((current < level) & (level <= target), level, no_return)
    return WaysBack(floor=floor, no_return=no_return)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateLoss:
    """The losses of an update that no later update can undo. `no_return`: the first level that
    cannot be downgraded without loss to the present level, or None; `may_lose_metadata`: the update
    type permits the loss of metadata."""

    deletes: bool
    may_lose_metadata: bool
    no_return: int | None


def loss_of(update: Move, plan: Plan, catalogue: Catalogue) -> UpdateLoss:
    """Return the losses and the point of no return of one update of `plan`."""
    [point] = _points([(plan, update)], catalogue)
    return UpdateLoss(
        deletes=update.to_level == 0,
        may_lose_metadata=update.upgrade_type == UpgradeType.UNSAFE_DOWNGRADE.name,
        no_return=None if point == NOT_HERE else point,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """The safe downgrade of a feature after a plan; -1 = unknown, or no such level.

    `floor`: the lowest level (0 = not finalized) of a lossless downgrade. `no_return`: the first
    level of the plan that cannot be downgraded to today's level."""

    feature: str
    floor: int
    no_return: int


def returns_of(plans: Sequence[Plan], catalogue: Catalogue) -> list[tuple[Return, ...]]:
    """Return, per plan, the possible downgrades afterwards: of its features and of
    metadata.version, sorted by name."""
    plan_keys = [
        (p.steps, frozenset(p.requirements.levels.items()), frozenset(_ends(p)), p.own_dialects)
        for p in plans
    ]
    plan_of = dict(zip(plan_keys, plans, strict=True))
    by_kind = dict(zip(plan_of, _returns_of([*plan_of.values()], catalogue), strict=True))
    return [by_kind[kind] for kind in plan_keys]


def _returns_of(plans: Sequence[Plan], catalogue: Catalogue) -> Iterator[tuple[Return, ...]]:
    levels = [levels_after(plan.requirements.levels, plan.steps) for plan in plans]
    lowest = lowest_metadata(list(zip(plans, levels, strict=True)), catalogue)
    moved = [(plan, update) for plan in plans for update in plan.moves]
    points = iter(_points(moved, catalogue))
    for plan, after, metadata in zip(plans, levels, lowest, strict=True):
        by_feature = {update.feature: next(points) for update in plan.moves}
        floor = {METADATA_VERSION: metadata}
        for name in by_feature.keys() - floor.keys():
            level = np.array([after.get(name, 0)])
            floor[name] = int(of_other_feature(catalogue, name, level, level).floor[0])
        yield tuple(
            Return(feature=name, floor=floor[name], no_return=by_feature.get(name, NOT_HERE))
            for name in sorted({*by_feature, *({METADATA_VERSION} & after.keys())})
        )


def levels_after(levels: Mapping[str, int], steps: Iterable[Step]) -> dict[str, int]:
    """Return feature → finalized level after these steps."""
    sent = {update.feature: update.to_level for step in steps for update in step.updates}
    return {name: level for name, level in {**levels, **sent}.items() if level}


def lowest_metadata(
    plans: Sequence[tuple[Plan, Mapping[str, int]]], catalogue: Catalogue
) -> list[int]:
    """Return, per plan, the lowest metadata.version of a lossless downgrade from the given levels;
    -1 if no level is finalized. If dialects differ, the highest result is used."""
    at = position([(levels, _ends(plan)) for plan, levels in plans], catalogue)
    rows = [i for i, (_, levels) in enumerate(plans) if METADATA_VERSION in levels]
    judges = _judges([plan for plan, _ in plans], rows)
    lowest: list[int] = of_metadata_version(
        at, at.level.astype(np.int64), judges, catalogue.tables
    ).floor.tolist()
    return lowest


def _points(moved: Sequence[tuple[Plan, Move]], catalogue: Catalogue) -> list[int]:
    """Return, per update, the first level that cannot be downgraded to the present level without
    loss; -1 if every level can. The strictest dialect counts."""
    # Other features may change in the same request, so their dependencies block no downgrade.
    present = [({METADATA_VERSION: update.from_level}, _ends(plan)) for plan, update in moved]
    rows = [i for i, (_, update) in enumerate(moved) if update.feature == METADATA_VERSION]
    target = np.array([update.to_level for _, update in moved], dtype=np.int64)
    judges, at = _judges([plan for plan, _ in moved], rows), position(present, catalogue)
    points: list[int] = of_metadata_version(at, target, judges, catalogue.tables).no_return.tolist()
    for i, (_, update) in enumerate(moved):
        if update.upgrade_type != UpgradeType.UPGRADE.name:
            points[i] = NOT_HERE
        elif update.feature != METADATA_VERSION:
            ends = np.array([[update.from_level], [update.to_level]])
            points[i] = int(of_other_feature(catalogue, update.feature, *ends).no_return[0])
    return points


def _ends(plan: Plan) -> list[Range]:
    """Return the metadata.version ranges of the nodes in a plan."""
    silent = SILENT_METADATA_VERSION, SILENT_METADATA_VERSION
    return [group.ranges.get(METADATA_VERSION, silent) for group in plan.requirements.nodes]


def _judges(plans: Sequence[Plan], rows: Iterable[int]) -> list[tuple[str, str, Ints]]:
    """Return (dialect, ANY, rows of its plans) for each dialect that controllers may use."""
    speaking: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        for name in plans[row].own_dialects or (STRICT,):
            speaking[name].append(row)
    return [(name, ANY, np.array(part, dtype=np.int64)) for name, part in speaking.items()]


def fitting_after_lowering(
    levels: Mapping[str, int], at: Position, release: str, can: Capability, catalogue: Catalogue
) -> Mapping[str, bool]:
    """Return release → true if the cluster can run the release after the necessary downgrades of
    `levels` (KIP-778, Downgrades: first the level, then the software).

    metadata.version can go to any level that loses no metadata; other features keep only their
    irreversible levels.
    """
    tables, no_need = catalogue.tables, np.zeros(1, dtype=np.int32)
    wide = np.arange(tables.width, dtype=np.int32)
    refused = _refused(tables, tables.release_code(release), at, no_need, can)[0]
    free = wide[~refused & (wide <= at.level[0])]
    ranges = advertised(catalogue, [METADATA_VERSION])
    fits_any = ~misfits(free[:, None], ranges)[:, :, 0].all(axis=0)
    fixed = {
        name: max((n for n in catalogue.irreversible(name) if n <= level), default=0)
        for name, level in levels.items()
        if name != METADATA_VERSION
    }
    stays = misfits(np.array([[*fixed.values()]], dtype=np.int32), advertised(catalogue, [*fixed]))
    is_fit = (fits_any & ~stays[0].any(axis=1)).tolist()
    return dict(zip(ranges.releases, is_fit, strict=True))
