"""What else a level changes: with a cluster's own values, in plans, and as a finding."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

import featurelib.catalogue as catalogue_package
from featurelib.audit.evidence import ALL_BROKERS, KAFKAS_DEFAULT, ONE_BROKER, OWN_FILE
from featurelib.audit.side_effects import (
    effects_of,
    first_command,
    say_briefly,
    say_effect,
    side_effects,
)
from featurelib.catalogue import load, with_overlay
from featurelib.controller.decide import decide
from featurelib.errors import PlanError
from featurelib.model import Move, SideEffect, Step, ValueChange
from featurelib.planning.files import digest, read_plan, write_plan
from tests.core.lines import configs_line, judge_rows, lines_of, snapshot
from tests.core.oracle import METADATA, Cluster, Node
from tests.core.test_decide import FOUND, PLAN
from tests.core.test_planfile import MEANING

ELR, KEY = "eligible.leader.replicas.version", "min.insync.replicas"
RANGES = {METADATA: (7, 25), ELR: (0, 1)}
SAID = {"ranges": RANGES, "levels": {METADATA: 25}, "epoch": 900}
NODES = (
    Node(node_id=2, **SAID),  # type: ignore[arg-type]
    Node(node_id=3, **SAID),  # type: ignore[arg-type]
    Node(node_id=1, role="controller", **SAID),  # type: ignore[arg-type]
)
CLUSTER = Cluster(name="c", registry="fenced", nodes=NODES, voters=(1,))
UP = Move(feature=ELR, from_level=0, to_level=1, upgrade_type="UPGRADE")
STEP = Step(updates=(UP,), timeout_ms=1000)
FIRST = (
    "kafka-configs.sh --bootstrap-server HOST:PORT --entity-type brokers --entity-default --alter "
    "--add-config min.insync.replicas={}"
)
Values = dict[str, tuple[str | None, int]]


def broker(node: int, own: Values, default: Values | None = None) -> bytes:
    return configs_line(node, "broker", {str(node): own, "": default or {}})


def controller(own: Values, node: int = 1) -> bytes:
    return configs_line(node, "controller", {str(node): own})


def effect_of(*configs: bytes) -> SideEffect:
    """The side effect of the level where nodes said so, as the finding has it too."""
    judged = judge_rows(snapshot({"c": [*lines_of(CLUSTER), *configs]}), [CLUSTER])
    assert judged.evidence is not None
    [effect] = side_effects(load(), [STEP], judged.evidence)
    [row] = [r for r in judged.findings.to_pylist() if r["code"] == "side_effect_by_name"]
    assert (row["feature"], row["level"], row["detail"]) == (ELR, 1, say_briefly(effect))
    assert judged.readiness["available"].to_pylist() == [1, None]
    assert judged.readiness["verdict"].to_pylist()[0] == "UP_TO_DATE"
    return effect


def change(*brokers: int, to: tuple[str | None, str | None]) -> ValueChange:
    return ValueChange(brokers=brokers, before=to[0], after=to[1])


FILE_2, OWN_1 = {KEY: ("2", OWN_FILE)}, {KEY: ("1", KAFKAS_DEFAULT)}


def test_the_active_controllers_own_value_takes_the_place_of_the_brokers() -> None:
    effect = effect_of(broker(2, FILE_2), broker(3, FILE_2), controller(OWN_1))
    assert effect.values == (change(2, 3, to=("2", "1")),)
    assert say_effect(effect) == (
        "min.insync.replicas: brokers 2-3: 2 → 1 (where no cluster default is set, the active "
        "controller's own value becomes the cluster default, over the values in the brokers' "
        "files; values set per broker are deleted; afterwards it cannot be set per broker, and the "
        "cluster default cannot be removed, while the level is finalized). Going back does not "
        "restore it."
    )
    assert say_briefly(effect) == (
        "min.insync.replicas: brokers 2-3: 2 → 1. Going back does not restore it."
    )
    assert first_command(effect) == FIRST.format("2")


def test_a_cluster_default_that_is_set_stays_and_values_per_broker_go() -> None:
    default = {KEY: ("3", ALL_BROKERS)}
    one = broker(2, {KEY: ("2", ONE_BROKER)}, default)
    effect = effect_of(one, broker(3, default, default), controller({KEY: ("3", ALL_BROKERS)}))
    assert effect.values == (change(2, to=("2", "3")), change(3, to=("3", "3")))
    assert "broker 2: 2 → 3; broker 3: 3 as now (where" in say_effect(effect)
    assert first_command(effect) == FIRST.format("N")
    same = effect_of(broker(2, default, default), broker(3, default, default))
    assert (same.values, first_command(same)) == ((change(2, 3, to=("3", "3")),), "")


@pytest.mark.parametrize(
    ("configs", "values"),
    [
        ((), (change(2, 3, to=(None, None)),)),
        ((broker(2, FILE_2),), (change(2, to=("2", None)), change(3, to=(None, None)))),
        ((broker(2, FILE_2), broker(3, FILE_2)), (change(2, 3, to=("2", None)),)),
        ((controller(OWN_1),), (change(2, 3, to=(None, None)),)),
        (
            (controller(OWN_1), broker(3, FILE_2)),
            (change(2, to=(None, "1")), change(3, to=("2", "1"))),
        ),
        (
            # A value set for the controller itself hides what stands in its file.
            (broker(2, FILE_2), broker(3, FILE_2), controller({KEY: ("4", ONE_BROKER)})),
            (change(2, 3, to=("2", None)),),
        ),
        (
            # Another controller than the active one.
            (broker(2, FILE_2), broker(3, FILE_2), controller(OWN_1, node=8)),
            (change(2, 3, to=("2", None)),),
        ),
    ],
)  # fmt: skip
def test_what_nobody_said_is_not_known_and_the_key_to_look_at_is_named(
    configs: tuple[bytes, ...], values: tuple[ValueChange, ...]
) -> None:
    effect = effect_of(*configs)
    assert effect.values == values
    said = say_effect(effect)
    seen = any((one.before, one.after) != (None, None) for one in values)
    missing = "not all is known" if seen else "its values are not known"
    assert f"{missing}: look at it on brokers, on controllers, and as cluster default (" in said
    assert "not known → not known" not in said
    assert first_command(effect).startswith("kafka-configs.sh")


def test_a_level_that_is_there_or_left_changes_nothing() -> None:
    down = replace(UP, from_level=1, to_level=0, upgrade_type="SAFE_DOWNGRADE")
    other = replace(UP, feature="group.version")
    steps = [Step(updates=(down, other), timeout_ms=1)]
    assert side_effects(load(), steps) == ()
    there = tuple(replace(node, levels={METADATA: 25, ELR: 1}) for node in NODES)
    cluster = replace(CLUSTER, nodes=there, stored={METADATA: 25, ELR: 1})
    judged = judge_rows(snapshot({"c": lines_of(cluster)}), [cluster])
    assert "side_effect_by_name" not in judged.findings["code"].to_pylist()


def test_an_effect_without_a_name_and_one_that_is_restored_read_well() -> None:
    nameless = replace(EFFECT, key="", what="a topic is made", restored=True, values=())
    assert (
        say_effect(nameless) == say_briefly(nameless) == f"{nameless.what}. Going back restores it."
    )
    assert first_command(nameless) == ""


# --- In a plan ------------------------------------------------------------------------------------

EFFECT = SideEffect(
    feature="f", level=2, key="k", what="it is set", afterwards="", restored=False,
    values=(ValueChange(brokers=(1, 2), before="2", after=None),),
)  # fmt: skip


def test_a_plan_binds_what_else_it_changes() -> None:
    whole = replace(MEANING, side_effects=(EFFECT,))
    assert read_plan(write_plan(whole), "x").plan == whole
    assert digest(whole) != digest(MEANING)
    assert '"side_effects"' not in write_plan(MEANING)
    assert effects_of(whole, load()) == (EFFECT,)


def test_a_plan_of_an_earlier_release_is_shown_with_what_the_catalogue_says() -> None:
    [effect] = effects_of(replace(MEANING, steps=(STEP,)), load())
    assert (effect.key, effect.values) == (KEY, ())
    assert "min.insync.replicas: its values are not known: look" in say_effect(effect)


@pytest.mark.parametrize(
    ("effect", "said"),
    [
        (replace(EFFECT, level=3), "a level that the plan goes up to or past, found f 3"),
        (replace(EFFECT, level=1), "a level that the plan goes up to or past, found f 1"),
        (replace(EFFECT, feature="g"), "a level that the plan goes up to or past, found g 2"),
        (replace(EFFECT, what=" "), "side_effects[0].what: expected a text, found none"),
        (replace(EFFECT, key=""), "side_effects[0].key: expected the name of what has values"),
        (replace(EFFECT, values=EFFECT.values * 2), "side_effects[0].values: expected each broker"),
        (replace(EFFECT, values=(change(to=("1", "2")),)), "and none without brokers"),
    ],
)
def test_a_plan_whose_side_effects_are_not_its_own_is_none(effect: SideEffect, said: str) -> None:
    with pytest.raises(PlanError) as told:
        read_plan(write_plan(replace(MEANING, side_effects=(effect,))), "x")
    assert said in str(told.value)


def test_a_plan_is_sent_only_while_it_would_change_what_was_approved() -> None:
    plan = replace(PLAN, side_effects=(EFFECT,))
    found = replace(FOUND, side_effects=(EFFECT,))
    assert decide(plan, 0, found) == plan.steps[0]
    worse = replace(EFFECT, values=(change(1, 2, to=("2", "1")),))
    refused = decide(plan, 0, replace(found, side_effects=(worse,)))
    assert isinstance(refused, tuple)
    [reason] = refused
    assert reason.what == "side effect of f 2"
    assert (": 2 → not known" in reason.expected, ": 2 → 1" in reason.found) == (True, True)
    unsaid = decide(PLAN, 0, found)
    assert isinstance(unsaid, tuple)
    assert unsaid[0].expected == "none"
    gone = decide(plan, 0, FOUND)
    assert isinstance(gone, tuple)
    assert gone[0].found == "none"
    applied = replace(FOUND, requirements=replace(FOUND.requirements, levels={"f": 2, "h": 4}))
    assert decide(plan, 1, applied) == plan.steps[1]


# --- What was measured ----------------------------------------------------------------------------


def measured() -> list[dict[str, str]]:
    path = Path(catalogue_package.__file__).with_name("measured_steps.csv")
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_catalogue_says_what_was_measured_and_nothing_else() -> None:
    """A step has a side effect where a value, or what may be set, is another one afterwards."""
    found = {
        (row["feature"], int(row["level"]))
        for row in measured()
        if row["changed"] or row["no_longer_set"] or row["newly_set"]
    }
    assert found == {(row.feature, row.level) for row in load().rows.side_effect}


def test_every_level_of_every_release_was_measured() -> None:
    """But for those below the lowest that the release formats, where a cluster begins."""
    rows = {(r["release"], r["feature"], int(r["level"])) for r in measured()}
    lacking = []
    for release in load().releases:
        own = load().of(release.release)
        for name in (METADATA, *own.features):
            first = max(own.oldest, own.oldest_bootstrap) if name == METADATA else 0
            lacking += [
                (release.release, name, level)
                for level in own.known_levels(name)
                if level > first and (release.release, name, level) not in rows
            ]
    assert lacking == []


def test_the_default_it_writes_is_the_controllers_and_never_over_one_that_is_set() -> None:
    rows = [row for row in measured() if row["feature"] == ELR]
    wanted = {"": "1", "the controller has 3": "3", "cluster default 2": ""}
    for row in rows:
        wrote = f"CONFIG_RECORD 4:'' {KEY}={wanted[row['setting']]}"
        assert (wrote in row["records"]) == bool(wanted[row["setting"]]), row["version"]
        assert f"CONFIG_RECORD 4:'1' {KEY}=None" in row["records"]
        assert f"set {KEY} of broker '1': accepted → 40 " in row["no_longer_set"]
        assert row["not_restored"]
    assert {row["release"] for row in rows} == {"4.0", "4.1", "4.2", "4.3", "4.4"}
    assert {row["setting"] for row in rows} == set(wanted)


def test_a_level_beyond_the_one_that_changes_more_says_nothing_of_it() -> None:
    vendor = with_overlay(
        load(),
        f"""
        [[feature_level]]
        feature = "{ELR}"
        level = 2
        default_from = "4.3-IV0"
        stable_since = "4.2"
        [[release_feature]]
        release = "4.2"
        feature = "{ELR}"
        newest_stable = 2
        newest_unstable = 2
        """,
        "vendor.toml",
    )
    for level, codes in ((0, ["side_effect_by_name"]), (1, [])):
        ranges, levels = {METADATA: (7, 29), ELR: (0, 2)}, {METADATA: 29, ELR: level}
        nodes = tuple(
            Node(node_id=i, role=role, ranges=ranges, levels=levels, epoch=900)
            for i, role in ((1, "broker"), (9, "controller"))
        )
        cluster = Cluster(name="c", nodes=nodes, voters=(9,), stored=levels)
        judged = judge_rows(snapshot({"c": lines_of(cluster)}), [cluster], vendor)
        assert judged.findings["code"].to_pylist() == codes
