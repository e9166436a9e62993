"""What a person has to know of a plan that is good: losses, ambiguities, clients to check first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow.compute as pc

from featurelib.catalogue import Catalogue
from featurelib.core.again import dialect_of, request_of, who_may_lead
from featurelib.core.deprecation import raised_by
from featurelib.core.intents import Command, Intent, goal_of
from featurelib.core.moves import Goal
from featurelib.model import Step
from featurelib.sight import Sight


def warnings_of(sight: Sight, intent: Intent, goal: Goal, catalogue: Catalogue) -> Iterator[str]:
    """What is lost for good, what was meant by a level, and nodes that do not fit already."""
    for move in goal.moves:
        there = catalogue.level_name(move.feature, move.level)
        if move.irreversible:
            yield f"{move.feature} {there} is irreversible: nothing takes it back."
        for loss in move.losses:
            yield (
                f"{move.feature} {there} may lose what {loss.name} brought: "
                f"{loss.purpose.removesuffix('.')}."
            )
    several = [release for release in sight.releases if catalogue.release_named(release)]
    if intent.command in (Command.UPGRADE, Command.DOWNGRADE) and len(several) > 1:
        levels = [
            goal_of(intent, replace(sight.cluster, release=release), catalogue).levels
            for release in several
        ]
        others = [r for r, mapped in zip(several, levels, strict=True) if mapped != levels[0]]
        if others:
            yield (
                f"The controllers may run {', '.join(several)}. Levels are as {several[0]} maps "
                f"them; {', '.join(others)} would map them otherwise. Name the release in "
                "conf/fleet.toml."
            )
    if pc.any(pc.equal(sight.judged.findings["code"], "incompatible_with_finalized")).as_py():
        yield "Some node does not fit what is finalized already: `featurelib describe` names it."


def warnings_of_steps(
    sight: Sight, mode: str, steps: Sequence[Step], catalogue: Catalogue
) -> tuple[str, ...]:
    """What a person must have checked, because a controller of 2.7 to 3.2 would store its own
    minimum with an update, and that is a higher one (KIP-584, Feature version deprecation)."""
    said = dict[str, None]()
    for release in sight.releases:
        own = dialect_of(release, mode, catalogue)
        requests = [request_of(step, own) for step in steps]
        for led in who_may_lead(replace(sight.cluster, release=release), mode):
            for needed in raised_by(led, requests, own, catalogue.tables):
                there = f"{needed.feature}: its finalized minimum would become"
                said[f"{there} {needed.last_lost + 1}. {needed.text}"] = None
    return tuple(said)
