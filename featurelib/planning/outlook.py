"""Describe a plan step by step (purpose, effects and downgrade of each level), and make the plans
of a run, one for every cluster with a READY feature.

Everything is computed from the part of the plan that the digest covers. A plan names no release, so
the catalogue of all releases and every dialect of the plan count, and the worst result decides. A
run's plan equals that of `featurelib plan CLUSTER upgrade-all` for equal evidence, except for the
part for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from featurelib.audit.audit import Judged
from featurelib.audit.side_effects import effects_of, first_command
from featurelib.catalogue import Catalogue
from featurelib.core.batch import NOT_HERE
from featurelib.core.compatibility import may_join
from featurelib.core.downgrade import levels_after, loss_of, lowest_metadata, returns_of
from featurelib.feature import METADATA_VERSION
from featurelib.findings import filled
from featurelib.model import Move, Plan, SideEffect
from featurelib.planning.files import ForPeople, write_plan
from featurelib.planning.goal import Command, Note, losses
from featurelib.planning.owners import left_over, share
from featurelib.planning.requirements import Guarding, features_of, require, steps_of
from featurelib.rows import NONE as NO_NUMBER
from featurelib.rows import Column, Int, Lists, TableRows, Texts, make_rows, texts_of
from featurelib.schema import RETURN

NONE = -1  # there is no such level
Levels = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOutlook:
    """The effects of one update. `no_return`: the first level that cannot be downgraded without
    loss to the level before the plan, -1 = none."""

    update: Move
    brings: tuple[Note, ...]  # the notes about an upgrade to the level
    loses: tuple[Note, ...]  # the notes about a downgrade: metadata that may be lost
    unlocks: tuple[tuple[str, int], ...]  # levels of other features that become possible
    irreversible: bool  # true if the level cannot be downgraded
    no_return: int
    side_effects: tuple[SideEffect, ...]
    keeps: tuple[str, ...]  # commands that keep values; they run first


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutlook:
    """The effects of one request. `floor`: the lowest metadata.version of a lossless downgrade, -1
    = none; `joins…`: the releases that can register."""

    changes: tuple[ChangeOutlook, ...]
    timeout_ms: int
    levels: dict[str, int]  # the finalized levels after the step
    floor: int
    joins: tuple[str, ...]
    joins_no_more: tuple[str, ...]
    joins_newly: tuple[str, ...]

    def never_again(self, catalogue: Catalogue) -> tuple[str, ...]:
        """Return the releases in `joins_no_more` that no downgrade makes compatible again."""
        if self.floor == NONE:
            return ()
        levels = {METADATA_VERSION: self.floor}
        for name, level in self.levels.items():
            if irreversible := [n for n in catalogue.irreversible(name) if n <= level]:
                levels[name] = max(irreversible)
        may_return = may_join(levels, catalogue)
        return tuple(release for release in self.joins_no_more if release not in may_return)


def look_ahead(meaning: Plan, catalogue: Catalogue, address: str = "") -> tuple[StepOutlook, ...]:
    """Return the effects of each step of a plan (KIP-778). `address`: of brokers, for commands."""
    levels, steps = dict(meaning.requirements.levels), []
    for step in meaning.steps:
        before = _compatible_releases(meaning, levels, catalogue)
        levels = levels_after(levels, [step])
        [floor], joins = (
            lowest_metadata([(meaning, levels)], catalogue),
            _compatible_releases(meaning, levels, catalogue),
        )
        steps.append(
            StepOutlook(
                changes=tuple(_change(move, meaning, catalogue, address) for move in step.updates),
                timeout_ms=step.timeout_ms,
                levels=levels,
                floor=floor,
                joins=joins,
                joins_no_more=tuple(name for name in before if name not in joins),
                joins_newly=tuple(name for name in joins if name not in before),
            )
        )
    return tuple(steps)


def _change(update: Move, meaning: Plan, catalogue: Catalogue, address: str) -> ChangeOutlook:
    name, low, high = update.feature, update.from_level, update.to_level
    all_effects = effects_of(meaning, catalogue)
    effects = tuple(e for e in all_effects if e.feature == name and low < e.level <= high)
    no_return = loss_of(update, meaning, catalogue).no_return
    return ChangeOutlook(
        update=update,
        brings=tuple(
            Note(level=row.level, name=row.name, purpose=row.purpose)
            for row in catalogue.rows.metadata_version
            if name == METADATA_VERSION and low < row.level <= high
        ),
        loses=losses(catalogue, "", update),
        unlocks=tuple(
            (is_needed.feature, is_needed.level)
            for is_needed in catalogue.dependencies
            if is_needed.other == name and low < is_needed.least <= high
        ),
        irreversible=high > low and high in catalogue.irreversible(name),
        no_return=NONE if no_return is None else no_return,
        side_effects=effects,
        keeps=tuple(filled(text, address) for text in map(first_command, effects) if text),
    )


def _compatible_releases(meaning: Plan, levels: Levels, catalogue: Catalogue) -> tuple[str, ...]:
    """Return the releases whose production software can register at these levels; () in ZooKeeper
    mode."""
    levels_known = {name: level for name, level in levels.items() if name in catalogue.features}
    if meaning.requirements.features_node_version is not None or not levels_known:
        return ()
    return may_join(levels_known, catalogue)


def level_names(plan: Plan, catalogue: Catalogue) -> dict[str, dict[str, str]]:
    """Return feature → level → name for the metadata.versions in a plan."""
    moves = [move for move in plan.moves if move.feature == METADATA_VERSION]
    levels = {level for move in moves for level in (move.from_level, move.to_level)}
    levels |= {plan.requirements.levels.get(METADATA_VERSION, 0)}
    names = {str(n): catalogue.names[n] for n in sorted(levels) if n in catalogue.names}
    return {METADATA_VERSION: names} if names else {}


def with_texts(
    result: Judged, *, dialect: str, catalogue: Catalogue, guarding: Guarding | None = None
) -> TableRows:
    """Return judged plans with two more columns: `plan` (the plan as text, null = no request) and
    `returns_after` (downgrades afterwards). `guarding`: the settings for guards."""
    evidence, plans = result.evidence, result.plans
    assert evidence is not None
    rows = np.flatnonzero(plans.lists("steps").size)
    made, texts = list[Plan](), dict[int, str]()
    rows_shown = plans.select(["cluster", "steps", "dialects"]).take(rows)
    for i, row in zip(rows.tolist(), rows_shown.to_pylist(), strict=True):
        steps = steps_of(row["steps"])
        plan = Plan(
            cluster=row["cluster"],
            intent=str(Command.UPGRADE_ALL),
            dialect=dialect,
            own_dialects=tuple(row["dialects"]),
            catalogue=catalogue.label,
            steps=steps,
            requirements=require(evidence, i, features_of(steps), catalogue),
            guards=None if guarding is None else guarding.of(row["cluster"]),
        )
        made.append(plan)
        shares = share(steps, plan.guards, plan.requirements.levels, catalogue)
        warnings = tuple[str, ...]()
        if shares.theirs and guarding is not None:
            entry = guarding.managed[row["cluster"]]
            warnings = tuple(downgrade.line for downgrade in left_over(shares, entry, catalogue))
            required = require(evidence, i, features_of(shares.ours), catalogue)
            plan = replace(plan, steps=shares.ours, requirements=required)
        context = ForPeople(level_names=level_names(plan, catalogue), warnings=warnings)
        if shares.ours:
            texts[i] = write_plan(plan, context)
    ways_back = returns_of(made, catalogue)
    size = np.full(len(plans), -1, dtype=np.int64)
    size[rows] = [len(of_plan) for of_plan in ways_back]
    downgrades = [downgrade for of_plan in ways_back for downgrade in of_plan]
    floor = np.array([downgrade.floor for downgrade in downgrades], dtype=np.int64)
    no_return = np.array([downgrade.no_return for downgrade in downgrades], dtype=np.int64)
    returns: dict[str, Column | Int] = {
        "feature": texts_of(downgrade.feature for downgrade in downgrades),
        "downgrade_floor": np.where(floor == NOT_HERE, NO_NUMBER, floor),
        "point_of_no_return": np.where(no_return == NOT_HERE, NO_NUMBER, no_return),
    }
    position = np.full(len(plans), -1, dtype=np.int64)
    position[list(texts)] = np.arange(len(texts))
    return plans.replace(
        plan=Texts(words=list(texts.values()), codes=position),
        returns_after=Lists(size=size, of=make_rows(RETURN, len(downgrades), returns)),
    )
