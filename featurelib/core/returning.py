"""What of a plan cannot be taken back, and how far back a cluster goes once it is applied (N3).

A plan names no release, so the catalogue of all releases answers, for every dialect of the plan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from featurelib.catalogue import Catalogue
from featurelib.catalogue.releases import ANY
from featurelib.core.batch import NOT_HERE
from featurelib.core.cluster import Cluster, Node
from featurelib.core.columns import Int
from featurelib.core.dialect import STRICT, load
from featurelib.core.floors import (
    Footing,
    downgrade_floor,
    footing_of,
    no_return_of_other,
    point_of_no_return,
)
from featurelib.core.moves import irreversible
from featurelib.feature import METADATA_VERSION, Role, UpgradeType
from featurelib.model import Move, Plan, Step

ZOOKEEPER = "zk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What an update does that none of its kind takes back.

    `no_return`: the first level on its way from which the present one cannot be had again without
    loss, or None. `may_lose_metadata`: it says itself that it may.
    """

    deletes: bool
    may_lose_metadata: bool
    no_return: int | None


def loss_of(update: Move, meaning: Plan, catalogue: Catalogue) -> Loss:
    """What one update of `meaning` loses, or makes it impossible to go back to."""
    [point] = no_returns([(meaning, update)], catalogue)
    return Loss(
        deletes=update.to_level == 0,
        may_lose_metadata=update.upgrade_type == UpgradeType.UNSAFE_DOWNGRADE.name,
        no_return=None if point == NOT_HERE else point,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """How far back one feature goes once a plan is applied; -1 = no such level, or nobody can tell.

    `floor`: the lowest level, 0 = not finalized, that can be had then without losing metadata.
    `no_return`: the first level of the plan's way from which today's cannot be had again.
    """

    feature: str
    floor: int
    no_return: int


def returns_of(plans: Sequence[Plan], catalogue: Catalogue) -> list[tuple[Return, ...]]:
    """For each plan: what it moves and metadata.version, by name, as all of it leaves them."""
    levels = [levels_after(plan.requirements.levels, plan.steps) for plan in plans]
    floors = lowest_metadata(list(zip(plans, levels, strict=True)), catalogue)
    moved = [(plan, update) for plan in plans for step in plan.steps for update in step.updates]
    points: dict[int, dict[str, int]] = defaultdict(dict)
    for (plan, update), point in zip(moved, no_returns(moved, catalogue), strict=True):
        points[id(plan)][update.feature] = point
    found = []
    for plan, after, lowest in zip(plans, levels, floors, strict=True):
        of = points[id(plan)]
        names = sorted({*of, *({METADATA_VERSION} & after.keys())})
        found.append(
            tuple(
                Return(
                    feature=name,
                    floor=lowest
                    if name == METADATA_VERSION
                    else _lowest_other(catalogue, name, after.get(name, 0)),
                    no_return=of.get(name, NOT_HERE),
                )
                for name in names
            )
        )
    return found


def levels_after(levels: Mapping[str, int], steps: Iterable[Step]) -> dict[str, int]:
    """What is finalized once these steps are applied, feature → level."""
    sent = {update.feature: update.to_level for step in steps for update in step.updates}
    return {name: level for name, level in {**levels, **sent}.items() if level}


def lowest_metadata(
    plans: Sequence[tuple[Plan, Mapping[str, int]]], catalogue: Catalogue
) -> list[int]:
    """The lowest metadata.version that can be had without loss from these levels, by the nodes of
    each plan: the highest of what its dialects say; -1 where none is finalized."""
    there = [
        Cluster(
            release="",
            nodes=tuple(
                Node(node_id=i, role=Role.BROKER, supported=dict(group.ranges))
                for i, group in enumerate(plan.requirements.nodes)
            ),
            finalized={name: (level, level) for name, level in levels.items()},
        )
        for plan, levels in plans
    ]
    where, found = footing_of(there, catalogue), np.full(len(plans), NOT_HERE)
    for name, rows in _by_dialect([plan for plan, _ in plans]).items():
        rows = np.array([row for row in rows if METADATA_VERSION in plans[row][1]], dtype=np.int64)
        floor = downgrade_floor(catalogue.tables, where.at(rows), load(name).can)
        found[rows] = np.maximum(found[rows], floor)
    lowest: list[int] = found.tolist()
    return lowest


def no_returns(moved: Sequence[tuple[Plan, Move]], catalogue: Catalogue) -> list[int]:
    """For each update of a plan the first level on its way up from which the present one cannot be
    had again without loss, by the worst of the plan's dialects; -1 = it can from everywhere."""
    ups = [i for i, (_, u) in enumerate(moved) if u.upgrade_type == UpgradeType.UPGRADE.name]
    found, software = [NOT_HERE] * len(moved), catalogue.of(ANY)
    for i in ups:
        update = moved[i][1]
        found[i] = no_return_of_other(software, update.feature, update.from_level, update.to_level)
    mine = [i for i in ups if moved[i][1].feature == METADATA_VERSION]
    points = _no_returns_of_metadata([moved[i] for i in mine], catalogue)
    for i, point in zip(mine, points, strict=True):
        found[i] = point
    return found


def _no_returns_of_metadata(moved: Sequence[tuple[Plan, Move]], catalogue: Catalogue) -> list[int]:
    tables = catalogue.tables
    rows = []
    for plan, update in moved:
        ranges = [group.ranges for group in plan.requirements.nodes]
        ends = [of[METADATA_VERSION] for of in ranges if METADATA_VERSION in of]
        lowest, highest = max((n for n, _ in ends), default=0), min((n for _, n in ends), default=0)
        rows.append((update.from_level, lowest, highest, update.to_level))
    level, low, high, target = np.array(rows, dtype=np.int32).reshape(-1, 4).T
    where = Footing(
        release=np.full(len(moved), tables.release_code(ANY), dtype=np.int64),
        level=level,
        min_version=low,
        max_version=high,
        needed_by_others=np.zeros(len(moved), dtype=np.int32),
    )
    none = np.iinfo(np.int32).max
    first = np.full(len(moved), none, dtype=np.int64)
    for name, mine in _by_dialect([plan for plan, _ in moved]).items():
        points = point_of_no_return(tables, where.at(mine), target[mine], load(name).can)
        first[mine] = np.minimum(first[mine], np.where(points < 0, none, points))
    found: list[int] = np.where(first == none, NOT_HERE, first).tolist()
    return found


def _by_dialect(plans: Sequence[Plan]) -> dict[str, Int]:
    """Every dialect that some plan's controllers may speak, and which plans these are; but not
    those of ZooKeeper mode, where metadata.version means nothing."""
    found: dict[str, list[int]] = defaultdict(list)
    for i, plan in enumerate(plans):
        for name in plan.own_dialects or (STRICT,):
            if load(name).mode != ZOOKEEPER:
                found[name].append(i)
    return {name: np.array(rows, dtype=np.int64) for name, rows in found.items()}


def _lowest_other(catalogue: Catalogue, feature: str, level: int) -> int:
    """0, but nothing takes an irreversible level back; of what the catalogue does not know nobody
    can tell."""
    if feature not in catalogue.features:
        return NOT_HERE
    return max((n for n in irreversible(catalogue, feature) if n <= level), default=0)
