"""A plan file: a digest over its meaning, and a name that is safe for any cluster."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from featurelib.catalogue import load
from featurelib.model import Move, Plan, RangeGroup, Requirements, Step
from featurelib.planning.files import digest, file_name, file_names, write_plan
from featurelib.planning.night import with_texts
from tests.core.lines import judge_clusters
from tests.core.oracle import METADATA, Cluster, Node
from tests.core.random_clusters import RELEASES

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


def test_a_plan_file_says_its_format_and_its_own_digest() -> None:
    plan = json.loads(write_plan(MEANING))
    assert (plan["format"], plan["version"]) == ("featurelib.plan", 1)
    assert plan["digest"] == digest(MEANING)
    assert msgspec.convert(plan["meaning"], Plan) == MEANING


@dataclass(frozen=True)
class Planned:
    text: str
    plan: dict[str, object]


def planned(cluster: Cluster) -> Planned:
    table = with_texts(judge_clusters(cluster), dialect="strict", catalogue=load())
    text = table["plan"][0].as_py()
    return Planned(text, json.loads(text))


KRAFT = Cluster(
    name="c",
    nodes=(
        Node(node_id=2, ranges=RELEASES["4.1"], levels={METADATA: 25}, epoch=900),
        Node(node_id=1, ranges=RELEASES["4.1"]),
        Node(node_id=11, role="controller", ranges=RELEASES["4.2"]),
    ),
    voters=(11,),
    stored={METADATA: 25},
)


def test_a_plan_requires_levels_ranges_and_registrations_and_no_epoch() -> None:
    made = planned(KRAFT)
    meaning = msgspec.convert(made.plan["meaning"], Plan)
    assert meaning.requirements.levels[METADATA] == 25
    assert meaning.requirements.features_node_version is None
    groups = [(group.brokers, group.controllers) for group in meaning.requirements.nodes]
    assert groups == [((1, 2), ()), ((), (11,))]
    wanted = {update.feature for step in meaning.steps for update in step.updates}
    assert all(set(group.ranges) == wanted for group in meaning.requirements.nodes)
    assert meaning.steps[0].updates[0].feature == METADATA
    assert '"epoch"' not in made.text


def test_a_broker_s_epoch_does_not_change_the_plan() -> None:
    moved = (replace(KRAFT.nodes[0], epoch=990), *KRAFT.nodes[1:])
    assert planned(replace(KRAFT, nodes=moved)).text == planned(KRAFT).text


def test_a_plan_in_zookeeper_mode_requires_the_features_node_s_version() -> None:
    node = Node(node_id=1, ranges={"f": (1, 3)}, epoch=5)
    cluster = Cluster(name="z", zookeeper=True, nodes=(node,), stored={"f": 1})
    meaning = msgspec.convert(planned(cluster).plan["meaning"], Plan)
    assert meaning.requirements.features_node_version == 5


def test_a_cluster_without_steps_has_no_plan_file() -> None:
    node = Node(node_id=1, ranges={"f": (1, 3)})
    cluster = Cluster(name="z", zookeeper=True, nodes=(node,), stored={"f": 3})
    table = with_texts(judge_clusters(cluster), dialect="strict", catalogue=load())
    assert table["plan"].to_pylist() == [None]


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


def test_an_ordinary_cluster_keeps_its_name() -> None:
    assert file_name("MkU3OEVBNTcwNTJENDM2Qg") == "MkU3OEVBNTcwNTJENDM2Qg.json"


def test_two_hostile_names_never_share_a_file() -> None:
    made = [file_name(name) for name in HOSTILE]
    assert len(set(made)) == len(made)


def test_names_that_file_systems_confuse_never_share_a_file() -> None:
    made = [name.lower() for name in file_names(["Prod", "prod", "PROD", "CON", "con"])]
    assert len(set(made)) == len(made)


@pytest.mark.parametrize("name", ["CON", "con", "nul", "com1.txt", "AUX"])
def test_a_device_of_windows_is_no_file_name(name: str) -> None:
    assert file_name(name).split(".")[0].upper() != name.split(".")[0].upper()


@settings(max_examples=300, derandomize=True, deadline=None, database=None)
@given(st.lists(st.text(max_size=40), unique=True, min_size=2, max_size=6))
def test_two_clusters_never_share_a_file(names: list[str]) -> None:
    assert len({file_name(name) for name in names}) == len(names)


def test_a_name_made_to_look_like_a_changed_one_is_another_file() -> None:
    changed = file_name("a/b")
    assert file_name(changed.removesuffix(".json")) != changed
