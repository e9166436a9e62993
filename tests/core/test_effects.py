"""What else a level changes: with a cluster's own values, in plans, and as a finding."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import featurelib.catalogue as catalogue_package
from featurelib.audit.evidence import ALL_BROKERS, KAFKAS_DEFAULT, ONE_BROKER, OWN_FILE
from featurelib.audit.findings import FindingWords
from featurelib.audit.side_effects import (
    effects_of,
    first_command,
    say_briefly,
    say_effect,
    side_effects,
)
from featurelib.catalogue import load, with_overlay
from featurelib.controller.decide import decide
from featurelib.model import Move, SideEffect, Step, ValueChange
from featurelib.planning.files import digest, read_plan, write_plan
from tests.core.frozen import expect_frozen
from tests.core.lines import (
    codes,
    configs_line,
    findings,
    judge_rows,
    lines_of,
    readiness,
    snapshot,
)
from tests.core.oracle import METADATA, Cluster, Node
from tests.core.test_decide import FOUND, PLAN
from tests.core.test_planfile import EFFECT, MEANING
from tests.facts import first_fact

BY_NAME = "side_effect_by_name"
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
    [row] = findings(judged, "side_effect_by_name")
    assert (row["feature"], row["level"], first_fact(row)) == (ELR, 1, say_briefly(effect))
    ready = readiness(judged, ELR)
    assert (ready["available"], ready["verdict"]) == (1, "UP_TO_DATE")
    return effect


def test_a_level_that_waits_for_another_has_no_command() -> None:
    """Its plan would be refused: what it depends on is finalized first."""
    low = tuple(replace(node, levels={METADATA: 21}) for node in NODES)
    for cluster, printed in ((CLUSTER, True), (replace(CLUSTER, nodes=low), False)):
        [row] = findings(judge_rows(snapshot({"c": lines_of(cluster)}), [cluster]), BY_NAME)
        words = FindingWords(load()).of(row)
        assert ("First finalize" not in words.statement, words.command != "") == (printed, printed)


def change(*brokers: int, to: tuple[str | None, str | None]) -> ValueChange:
    return ValueChange(brokers=brokers, before=to[0], after=to[1])


FILE_2, OWN_1 = {KEY: ("2", OWN_FILE)}, {KEY: ("1", KAFKAS_DEFAULT)}


SET = {KEY: ("3", ALL_BROKERS)}
BOTH = broker(2, FILE_2), broker(3, FILE_2)
ONE_SET = broker(2, {KEY: ("2", ONE_BROKER)}, SET), broker(3, SET, SET)

# What nodes are configured with → before and after, the sentence, the first command:
# data/frozen/side_effects.txt.
CONFIGS: dict[str, tuple[bytes, ...]] = {
    "the active controller's own value takes the place of the brokers'": (
        *BOTH, controller(OWN_1)),
    "a cluster default that is set stays, and values per broker go": (*ONE_SET, controller(SET)),
    "nothing changes": (broker(2, SET, SET), broker(3, SET, SET)),
    "nothing is known": (),
    "one broker is known": (broker(2, FILE_2),),
    "the brokers are known": BOTH,
    "the controller is known": (controller(OWN_1),),
    "the controller and one broker are known": (controller(OWN_1), broker(3, FILE_2)),
    "a value set for the controller itself hides what stands in its file": (
        *BOTH, controller({KEY: ("4", ONE_BROKER)})),
    "another controller than the active one": (*BOTH, controller(OWN_1, node=8)),
}  # fmt: skip


def test_what_a_level_writes_is_said_with_the_cluster_s_own_values() -> None:
    told = {}
    for name, configs in CONFIGS.items():
        effect = effect_of(*configs)
        values = [f"{[*one.brokers]}: {one.before} to {one.after}" for one in effect.values]
        told[name] = "\n".join([*values, say_effect(effect), first_command(effect) or "no command"])
        assert "not known → not known" not in told[name]
    expect_frozen("side_effects", told)


def test_a_level_that_is_there_or_left_changes_nothing() -> None:
    down = replace(UP, from_level=1, to_level=0, upgrade_type="SAFE_DOWNGRADE")
    other = replace(UP, feature="group.version")
    steps = [Step(updates=(down, other), timeout_ms=1)]
    assert side_effects(load(), steps) == ()
    there = tuple(replace(node, levels={METADATA: 25, ELR: 1}) for node in NODES)
    cluster = replace(CLUSTER, nodes=there, stored={METADATA: 25, ELR: 1})
    judged = judge_rows(snapshot({"c": lines_of(cluster)}), [cluster])
    assert "side_effect_by_name" not in codes(judged)


def test_an_effect_without_a_name_and_one_that_is_restored_read_well() -> None:
    nameless = replace(EFFECT, key="", what="a topic is made", restored=True, values=())
    assert (
        say_effect(nameless) == say_briefly(nameless) == f"{nameless.what}. Going back restores it."
    )
    assert first_command(nameless) == ""


# --- In a plan ------------------------------------------------------------------------------------


def test_a_plan_binds_what_else_it_changes() -> None:
    whole = replace(MEANING, side_effects=(EFFECT,))
    assert read_plan(write_plan(whole), "x").plan == whole
    assert digest(whole) != digest(MEANING)
    assert '"side_effects"' not in write_plan(MEANING)
    assert effects_of(whole, load()) == (EFFECT,)


def test_a_plan_of_an_earlier_release_is_shown_with_what_the_catalogue_says() -> None:
    [effect] = effects_of(replace(MEANING, steps=(STEP,)), load())
    assert (effect.key, effect.values) == (KEY, ())
    assert "min.insync.replicas: its values are not known; check" in say_effect(effect)


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
    for level, expected in ((0, {"side_effect_by_name"}), (1, set())):
        ranges, levels = {METADATA: (7, 29), ELR: (0, 2)}, {METADATA: 29, ELR: level}
        nodes = tuple(
            Node(node_id=i, role=role, ranges=ranges, levels=levels, epoch=900)
            for i, role in ((1, "broker"), (9, "controller"))
        )
        cluster = Cluster(name="c", nodes=nodes, voters=(9,), stored=levels)
        judged = judge_rows(snapshot({"c": lines_of(cluster)}), [cluster], vendor)
        assert codes(judged) == expected
