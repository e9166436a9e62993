"""What is done with an approved plan on a fresh look: every difference named, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from featurelib.controller.decide import Decision, Situation, after, decide
from featurelib.model import Move, Plan, RangeGroup, Requirements, Step


def step(feature: str, low: int, high: int) -> Step:
    kind = "UPGRADE" if high > low else "SAFE_DOWNGRADE"
    update = Move(feature=feature, from_level=low, to_level=high, upgrade_type=kind)
    return Step(updates=(update,), timeout_ms=1000)


RANGES = {"f": (1, 3), "g": (1, 3)}
PLAN = Plan(
    cluster="c",
    intent="upgrade-all",
    dialect="strict",
    own_dialects=("kraft-4.1", "kraft-4.2"),
    catalogue="2026-11-21",
    steps=(step("f", 1, 2), step("g", 0, 1)),
    requirements=Requirements(
        levels={"f": 1, "h": 4},
        nodes=(RangeGroup(brokers=(1, 2), controllers=(9,), ranges=RANGES),),
        features_node_version=None,
    ),
)
FOUND = Situation(
    cluster="c", requirements=PLAN.requirements, dialects=PLAN.own_dialects, catalogue="2026-11-21"
)


def required(**change: Any) -> Situation:
    return replace(FOUND, requirements=replace(FOUND.requirements, **change))


def texts(decision: Decision) -> list[str]:
    assert isinstance(decision, tuple), decision
    return [reason.text for reason in decision]


def test_a_world_as_the_plan_saw_it_is_sent_the_first_step() -> None:
    assert decide(PLAN, 0, FOUND) == PLAN.steps[0]


def nodes(*groups: RangeGroup) -> Situation:
    return required(nodes=groups)


THEIRS = FOUND.requirements.nodes[0]
STRANGER = RangeGroup(brokers=(7,), controllers=(), ranges={"f": (1, 1), "g": (0, 0)})
DIALECTS = "controllers' dialects: expected kraft-4.1, kraft-4.2, found "


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (replace(FOUND, cluster="d"), ["cluster: expected c, found d"]),
        (replace(FOUND, catalogue="x"), ["catalogue: expected 2026-11-21, found x"]),
        (replace(FOUND, dialects=("kraft-4.2",)), [DIALECTS + "kraft-4.2"]),
        (replace(FOUND, dialects=()), [DIALECTS + "none known"]),
        (required(levels={"f": 2, "h": 4}), ["level of f: expected 1, found 2"]),
        (required(levels={"f": 1}), ["level of h: expected 4, found not finalized"]),
        (required(levels={"f": 1, "h": 4, "i": 1}),
         ["level of i: expected not finalized, found 1"]),
        (replace(FOUND, unknown=frozenset("f")), ["level of f: expected 1, found not known"]),
        (required(features_node_version=3),
         ["version of the features node: expected none (KRaft), found 3"]),
        (nodes(), [f"{some}: expected f 1-3, g 1-3, found no such node, or no answer"
                   for some in ("brokers 1-2", "controller 9")]),
        (nodes(THEIRS, STRANGER), ["broker 7: expected no such node, found f 1-1, g 0-0"]),
        (nodes(replace(THEIRS, ranges=RANGES | {"g": (1, 2)})),
         [f"{some}: expected g 1-3, found g 1-2" for some in ("brokers 1-2", "controller 9")]),
        (replace(FOUND, missing=("Broker 4 was not asked.",)),
         ["evidence: expected complete, found Broker 4 was not asked."]),
        (replace(FOUND, against=("strict: f 2: no",)),
         ["judged again: expected nothing against the plan, found strict: f 2: no"]),
    ],
)  # fmt: skip
def test_each_difference_is_refused_naming_expected_and_found(
    found: Situation, said: list[str]
) -> None:
    assert texts(decide(PLAN, 0, found)) == said


def test_what_nobody_showed_is_told_from_what_is_another() -> None:
    plan = replace(PLAN, requirements=replace(PLAN.requirements, features_node_version=3))
    unseen = replace(required(nodes=()), dialects=(), missing=("Nobody said it.",))
    found = decide(plan, 0, unseen)
    assert isinstance(found, tuple)
    assert [reason.is_unseen for reason in found] == [True] * 5
    assert "(KRaft)" not in "".join(reason.text for reason in found)
    found = decide(plan, 0, FOUND)
    assert isinstance(found, tuple)
    assert [reason.is_unseen for reason in found] == [False]


def test_all_differences_are_named_and_not_the_first() -> None:
    found = replace(required(levels={"f": 3}, nodes=()), catalogue="x", dialects=("kraft-3.9",))
    assert len(texts(decide(PLAN, 0, found))) == 1 + 1 + 2 + 2


def test_a_plan_that_another_policy_judged_is_refused() -> None:
    plan = replace(PLAN, dialect="kip")
    assert texts(decide(plan, 0, FOUND)) == ["policy: expected strict, found kip"]


def test_after_a_step_only_what_it_wrote_may_differ() -> None:
    levels = {"f": 2, "h": 4}
    assert decide(PLAN, 1, required(levels=levels)) == PLAN.steps[1]
    assert texts(decide(PLAN, 1, FOUND)) == ["level of f: expected 2, found 1"]
    assert texts(decide(PLAN, 0, required(levels=levels))) == ["level of f: expected 1, found 2"]
    assert texts(decide(PLAN, 1, required(levels={"f": 2, "h": 5}))) == [
        "level of h: expected 4, found 5"
    ]


def test_in_zookeeper_mode_each_step_moves_the_version_by_one() -> None:
    plan = replace(PLAN, requirements=replace(PLAN.requirements, features_node_version=7))
    assert [after(plan, done).features_node_version for done in (0, 1, 2)] == [7, 8, 9]
    moved = required(levels={"f": 2, "h": 4}, features_node_version=8)
    assert decide(plan, 1, moved) == plan.steps[1]
    twice = required(levels={"f": 2, "h": 4}, features_node_version=9)
    assert texts(decide(plan, 1, twice)) == ["version of the features node: expected 8, found 9"]


def test_after_a_step_controllers_may_be_told_apart_from_their_look_alikes() -> None:
    narrowed = replace(required(levels={"f": 2, "h": 4}), dialects=("kraft-4.2",))
    assert decide(PLAN, 1, narrowed) == PLAN.steps[1]
    other = replace(narrowed, dialects=("kraft-3.9",))
    assert texts(decide(PLAN, 1, other))


@pytest.mark.parametrize("done", [0, 1, 2])
def test_when_every_level_is_there_nothing_is_to_do_whatever_else_changed(done: int) -> None:
    found = replace(required(levels={"f": 2, "g": 1}, nodes=()), catalogue="x")
    assert decide(PLAN, done, found) is None


def test_levels_that_are_not_known_are_not_there() -> None:
    found = replace(required(levels={"f": 2, "g": 1, "h": 4}), unknown=frozenset("g"))
    assert texts(decide(PLAN, 0, found))


def test_a_plan_that_was_carried_out_and_undone_is_not_sent_again() -> None:
    assert texts(decide(PLAN, 2, FOUND)) == [
        "level of f: expected 2, found 1",
        "level of g: expected 1, found not finalized",
    ]


def test_a_plan_without_a_step_is_nothing_to_do_where_the_world_is_as_it_says() -> None:
    empty = replace(PLAN, steps=())
    assert decide(empty, 0, FOUND) is None
    assert texts(decide(empty, 0, replace(FOUND, catalogue="x")))
