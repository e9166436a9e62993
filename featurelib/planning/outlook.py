"""What a plan does, step by step: what each level brings, unlocks and costs, and the way back.

All of it is worked out anew from what the digest covers. A plan names no release, so the catalogue
of all of them answers, for every dialect of the plan; the worst is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from featurelib.audit.side_effects import effects_of
from featurelib.catalogue import Catalogue
from featurelib.core.compatibility import may_join
from featurelib.core.downgrade import levels_after, loss_of, lowest_metadata
from featurelib.feature import METADATA_VERSION
from featurelib.model import Move, Plan, SideEffect
from featurelib.planning.goal import Note, losses

NONE = -1  # no such level
Levels = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOutlook:
    """One update. `no_return` is the first level on the way from which what is finalized before
    the plan cannot be had again without loss; -1 if it can from everywhere."""

    update: Move
    brings: tuple[Note, ...]  # going up
    loses: tuple[Note, ...]  # going down: what may be lost with it
    unlocks: tuple[tuple[str, int], ...]  # levels of other features whose need is met from here on
    irreversible: bool  # nothing takes it back
    no_return: int
    side_effects: tuple[SideEffect, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutlook:
    """One request. `floor` is the lowest metadata.version that can be had again without loss, -1
    where there is none to speak of; releases are those whose production software may join."""

    changes: tuple[ChangeOutlook, ...]
    timeout_ms: int
    levels: dict[str, int]  # once it has settled
    floor: int
    joins: tuple[str, ...]
    joins_no_more: tuple[str, ...]
    joins_newly: tuple[str, ...]


def look_ahead(meaning: Plan, catalogue: Catalogue) -> tuple[StepOutlook, ...]:
    """Each step of a plan as it would be once those before it are applied (KIP-778)."""
    levels, steps = dict(meaning.requirements.levels), []
    for step in meaning.steps:
        after = levels_after(levels, [step])
        [floor] = lowest_metadata([(meaning, after)], catalogue)
        before_joins, joins = _joins(meaning, levels, catalogue), _joins(meaning, after, catalogue)
        steps.append(
            StepOutlook(
                changes=tuple(_change(update, meaning, catalogue) for update in step.updates),
                timeout_ms=step.timeout_ms,
                levels=after,
                floor=floor,
                joins=joins,
                joins_no_more=tuple(name for name in before_joins if name not in joins),
                joins_newly=tuple(name for name in joins if name not in before_joins),
            )
        )
        levels = dict(after)
    return tuple(steps)


def _change(update: Move, meaning: Plan, catalogue: Catalogue) -> ChangeOutlook:
    name, low, high = update.feature, update.from_level, update.to_level
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
            (need.feature, need.level)
            for need in catalogue.dependencies
            if need.other == name and low < need.least <= high
        ),
        irreversible=high > low and high in catalogue.irreversible(name),
        no_return=NONE if no_return is None else no_return,
        side_effects=tuple(
            effect
            for effect in effects_of(meaning, catalogue)
            if effect.feature == name and low < effect.level <= high
        ),
    )


def _joins(meaning: Plan, levels: Levels, catalogue: Catalogue) -> tuple[str, ...]:
    """The releases whose production software may register at these levels of Kafka's features.
    In ZooKeeper mode production software lists none, so there is nothing to say."""
    known = {name: level for name, level in levels.items() if name in catalogue.features}
    if meaning.requirements.features_node_version is not None or not known:
        return ()
    return may_join(known, catalogue)
