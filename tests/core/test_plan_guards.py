"""Guards of a plan that hardly anything reaches: each is reached here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from featurelib.catalogue import load
from featurelib.controller.decide import AlreadyThere, Refuse, decide
from featurelib.core.dialect import GENERATIONS
from featurelib.core.dry_run import dialect_of
from featurelib.core.outcome import Fate, MoveOutcome, StepOutcome
from featurelib.model import Move
from tests.core.test_decide import FOUND, PLAN


def test_controllers_newer_than_all_answer_as_the_newest_there_is() -> None:
    assert dialect_of("9.9", "kraft", load()).name == GENERATIONS[-1]
    assert dialect_of("4.0.1", "kraft", load()).name == "kraft-4.0"


def test_a_plan_without_a_step_is_nothing_to_do_where_the_world_is_as_it_says() -> None:
    empty = replace(PLAN, steps=())
    assert decide(empty, 0, FOUND) == AlreadyThere()
    assert isinstance(decide(empty, 0, replace(FOUND, catalogue="x")), Refuse)


@pytest.mark.parametrize(
    ("fates", "whole"),
    [
        ([Fate.REJECTED, Fate.NOT_APPLIED], Fate.REJECTED),
        ([Fate.NOT_APPLIED, Fate.NOT_APPLIED], Fate.NOT_APPLIED),
        ([Fate.APPLIED, Fate.REJECTED], Fate.PARTLY),
        ([Fate.OVERTAKEN, Fate.NOT_APPLIED], Fate.PARTLY),
        ([Fate.APPLIED, Fate.UNKNOWN], Fate.UNKNOWN),
    ],
)
def test_a_request_has_one_fate(fates: list[Fate], whole: Fate) -> None:
    update = Move(feature="f", from_level=0, to_level=1, upgrade_type="UPGRADE")
    said = [MoveOutcome(update=update, fate=f, code=0, message=None, level=1) for f in fates]
    assert StepOutcome(position=0, updates=tuple(said)).fate is whole
