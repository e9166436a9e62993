"""A plan file: a digest over its meaning, and a name that is safe for any cluster."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from featurelib.model import Move, Plan, RangeGroup, Requirements, Step
from featurelib.planning.files import digest, file_name, file_names, write_plan

UPDATE = Move(feature="f", from_level=1, to_level=2, upgrade_type="UPGRADE")
MEANING = Plan(
    cluster="c",
    intent="upgrade-all",
    dialect="strict",
    own_dialects=("kraft-4.2",),
    catalogue="2026-11-21",
    steps=(Step(updates=(UPDATE,), timeout_ms=60_000),),
    requirements=Requirements(
        levels={"f": 1, "g": 2},
        nodes=(RangeGroup(brokers=(1, 2), controllers=(), ranges={"f": (1, 2), "g": (0, 3)}),),
        features_node_version=None,
    ),
)


def required(**changes: object) -> Plan:
    whole = replace(MEANING.requirements, **changes)
    return replace(MEANING, requirements=whole)


def test_the_order_in_which_a_plan_is_made_does_not_change_its_digest() -> None:
    group = RangeGroup(brokers=(1, 2), controllers=(), ranges={"g": (0, 3), "f": (1, 2)})
    other = required(levels={"g": 2, "f": 1}, nodes=(group,))
    assert digest(other) == digest(MEANING)
    assert write_plan(other) == write_plan(MEANING)


@pytest.mark.parametrize(
    "other",
    [
        replace(MEANING, cluster="d"),
        replace(MEANING, intent="downgrade-all"),
        replace(MEANING, dialect="kip"),
        replace(MEANING, own_dialects=("kraft-4.1", "kraft-4.2")),
        replace(MEANING, catalogue="2027-01-01"),
        replace(MEANING, steps=()),
        replace(MEANING, steps=(Step(updates=(UPDATE,), timeout_ms=1),)),
        required(levels={"f": 1, "g": 3}),
        required(levels={"f": 1}),
        required(nodes=()),
        required(
            nodes=(RangeGroup(brokers=(1,), controllers=(), ranges={"f": (1, 2), "g": (0, 3)}),)
        ),
        required(
            nodes=(RangeGroup(brokers=(), controllers=(1, 2), ranges={"f": (1, 2), "g": (0, 3)}),)
        ),
        required(nodes=(RangeGroup(brokers=(1, 2), controllers=(), ranges={"f": (1, 3)}),)),
        required(features_node_version=0),
    ],
)
def test_another_meaning_is_another_digest(other: Plan) -> None:
    assert digest(other) != digest(MEANING)


HOSTILE = ["../../x", "", ".", "..", "a/b", "a\\b", "-rf", ".hidden", "CON", "nul", "com1.txt"]
HOSTILE += [
    "x" * 300,
    "x" * 299 + "y",
    "über",
    "名前",
    "a b",
    "a\0b",
    "a\nb",
    "~",
    "$(x)",
    "a" * 120,
]
HOSTILE += ["a" * 121, "cluster_", "CLUSTER-A", "cluster-a", "Cluster-A", "a.", "a "]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_name_is_safe_whatever_the_cluster_is_called(name: str) -> None:
    made = file_name(name)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.json", made), made
    assert len(made) <= 200


def test_names_that_file_systems_confuse_never_share_a_file() -> None:
    made = [name.lower() for name in file_names(["Prod", "prod", "PROD", "CON", "con"])]
    assert len(set(made)) == len(made)


@settings(max_examples=300, derandomize=True, deadline=None, database=None)
@given(st.lists(st.text(max_size=40), unique=True, min_size=2, max_size=6))
def test_two_clusters_never_share_a_file(names: list[str]) -> None:
    assert len({file_name(name) for name in names}) == len(names)


def test_a_name_made_to_look_like_a_changed_one_is_another_file() -> None:
    changed = file_name("a/b")
    assert file_name(changed.removesuffix(".json")) != changed
