"""A plan file: a digest over its meaning, a name that is safe for any cluster, and reading it back:
only what this release would write is one, and no byte of it may change."""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import featurelib.planning.files
from featurelib.errors import PlanError
from featurelib.model import (
    Guards,
    Move,
    Plan,
    RangeGroup,
    Requirements,
    SideEffect,
    Step,
    ValueChange,
)
from featurelib.planning.files import (
    ForPeople,
    PlanFile,
    digest,
    file_name,
    file_names,
    read_plan,
    write_plan,
)
from featurelib.planning.outlook import with_texts
from tests.core import scale
from tests.core.frozen import expect_refused
from tests.core.tampering import WAYS
from tests.report.samples import CATALOGUE, judge_samples
from tests.report.schema_check import faults as schema_faults

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


GROUP, STEP = MEANING.requirements.nodes[0], MEANING.steps[0]


def required(**changes: Any) -> Plan:
    return replace(MEANING, requirements=replace(MEANING.requirements, **changes))


def grouped(*groups: dict[str, Any]) -> Plan:
    return required(nodes=tuple(replace(GROUP, **changes) for changes in groups))


def test_the_order_in_which_a_plan_is_made_does_not_change_its_digest() -> None:
    group = replace(GROUP, ranges={"g": (0, 3), "f": (1, 2)})
    other = required(levels={"g": 2, "f": 1}, nodes=(group,))
    assert digest(other) == digest(MEANING)
    assert write_plan(other) == write_plan(MEANING)


def test_another_meaning_is_another_digest() -> None:
    others = [
        *(
            replace(MEANING, **{name: "x"})
            for name in ("cluster", "intent", "dialect", "catalogue")
        ),
        replace(MEANING, own_dialects=("kraft-4.1", "kraft-4.2")),
        replace(MEANING, steps=()),
        replace(MEANING, steps=(replace(STEP, timeout_ms=1),)),
        required(levels={"f": 1, "g": 3}),
        required(levels={"f": 1}),
        required(nodes=()),
        grouped({"brokers": (1,)}),
        grouped({"brokers": (), "controllers": (1, 2)}),
        grouped({"ranges": {"f": (1, 3)}}),
        required(features_node_version=0),
    ]
    assert len({digest(MEANING), *map(digest, others)}) == 1 + len(others)


HOSTILE = ["../../x", "", ".", "..", "a/b", "a\\b", "-rf", ".hidden", "CON", "nul", "com1.txt", "~"]
HOSTILE += ["x" * 300, "x" * 299 + "y", "über", "名前", "a b", "a\0b", "a\nb", "$(x)", "a" * 120]
HOSTILE += ["a" * 121, "cluster_", "CLUSTER-A", "cluster-a", "Cluster-A", "a.", "a "]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_name_is_safe_whatever_the_cluster_is_called(name: str) -> None:
    made = file_name(name)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.json", made), made
    assert len(made) <= 200


def test_names_that_file_systems_confuse_never_share_a_file() -> None:
    made = [name.lower() for name in file_names(["Prod", "prod", "PROD", "CON", "con"])]
    assert len(set(made)) == len(made)


def test_files_are_named_as_people_name_clusters_unless_two_have_one_name() -> None:
    titles = {"id-1": "orders", "id-2": "Twice", "id-3": "twice", "id-4": "a/b", "id-5": "id-2"}
    first, second, third, odd, last = file_names([*titles, "id-6"], titles)[:5]
    assert (first, last) == ("orders.json", "id-2.json")
    assert second == file_name("Twice", "id-2", plain=False) != third
    assert odd == file_name("a/b", "id-4") != file_name("a/b", "id-7")
    assert file_names(["id-6"], titles) == ["id-6.json"]


@settings(max_examples=300, derandomize=True, deadline=None, database=None)
@given(st.lists(st.text(max_size=40), unique=True, min_size=2, max_size=6))
def test_two_clusters_never_share_a_file(names: list[str]) -> None:
    assert len({file_name(name) for name in names}) == len(names)


def test_a_name_made_to_look_like_a_changed_one_is_another_file() -> None:
    changed = file_name("a/b")
    assert file_name(changed.removesuffix(".json")) != changed


# --- Read back ---------------------------------------------------------------------------------

CASES = int(os.environ.get("FEATURELIB_CASES", "2000"))
SCHEMA = Path(featurelib.planning.files.__file__).with_name("plan.schema.json")
PEOPLE = ForPeople(name="payments", level_names={"f": {"1": "one"}}, warnings=("mind",))
GUARDS = (
    Guards(require_signature=True, managed_by="strimzi", managed_features=("metadata.version",)),
    Guards(require_signature=False, managed_by="msk", managed_features=None),
)
# Written down by the last release that knew none.
DIGEST_WITHOUT_GUARDS = "sha256:4b06eaa1087bcb182dca3039176115764b3faa42ba8bf94458a4f9f20c6d78ab"
KINDS = (Plan, Guards, SideEffect, ValueChange, Step, Move, Requirements, RangeGroup)
Json = dict[str, Any]


@cache
def sample_plans() -> tuple[str, ...]:
    """The nightly's plans of the samples as releases without guards wrote them, and some written by
    hand."""
    table = with_texts(judge_samples(), dialect="strict", catalogue=CATALOGUE)
    plans = [text for text in table["plan"].to_pylist() if text]
    return (
        *plans,
        write_plan(MEANING, PEOPLE),
        *(write_plan(replace(MEANING, guards=g)) for g in GUARDS),
    )


def changed(change: Callable[[Json], object], *, sealed: bool = True) -> str:
    """The plan with something else in it, and the digest of that if `sealed`."""
    document: Json = json.loads(write_plan(MEANING, PEOPLE))
    change(document)
    if sealed:
        document["digest"] = digest(msgspec.convert(document["meaning"], Plan))
    return json.dumps(document)


def test_what_is_written_reads_back() -> None:
    assert len(sample_plans()) == 7 + len(GUARDS)
    for text in sample_plans():
        plan = read_plan(text, "x")
        assert write_plan(plan.plan, plan.for_people) == text
        assert read_plan(text.encode(), "x") == plan


def test_a_plan_of_a_release_that_wrote_no_guards_is_the_plan_it_was() -> None:
    assert "guards" not in json.loads(write_plan(MEANING))["meaning"]
    assert digest(MEANING) == DIGEST_WITHOUT_GUARDS
    assert read_plan(write_plan(MEANING), "x").plan.guards is None
    with_guards = {digest(replace(MEANING, guards=one)) for one in GUARDS}
    assert len(with_guards - {digest(MEANING)}) == len(GUARDS)
    assert [GUARDS[0].manages(name) for name in ("metadata.version", "group.version")] == [
        True,
        False,
    ]
    assert GUARDS[1].manages("group.version")


def test_the_order_of_keys_and_whitespace_mean_nothing() -> None:
    document = json.loads(write_plan(MEANING))
    backwards = json.dumps(dict(reversed(document.items())), indent=7)
    assert read_plan(backwards, "x").plan == MEANING
    assert read_plan(json.dumps(document, ensure_ascii=True), "x").plan == MEANING


@pytest.mark.no_cover
def test_no_byte_that_carries_meaning_can_be_another() -> None:
    dice, same = random.Random(1), 0
    for text in sample_plans():
        raw, meaning = text.encode(), read_plan(text, "x").plan
        for at in range(0, len(raw), 1 if scale.WHOLE else 5):
            for other in {raw[at] ^ 1 << dice.randrange(8), dice.randrange(256)} - {raw[at]}:
                try:
                    found = read_plan(raw[:at] + bytes([other]) + raw[at + 1 :], "x").plan
                except PlanError:
                    continue
                same += 1
                assert found == meaning, (at, other)
    assert 0 < same < 1000  # blanks, and what is for people


@pytest.mark.no_cover
def test_nothing_tampered_with_is_accepted_unless_it_means_the_same() -> None:
    dice, refused, ways = random.Random(2), 0, Counter[str]()
    texts = [text.encode() for text in sample_plans()]
    for case in range(CASES):
        text, way = texts[case % len(texts)], WAYS[case // len(texts) % len(WAYS)]
        other = way(text, dice)
        ways[way.__name__] += 1
        try:
            assert read_plan(other, "x").plan == read_plan(text, "x").plan, (way.__name__, other)
        except PlanError:
            refused += 1
    assert len(ways) == len(WAYS)
    assert refused > 0.5 * CASES


def plain(**keys: object) -> str:
    """The file with other keys of its own."""
    return changed(lambda plan: plan.update(keys), sealed=False)


def within(*path: str | int, **keys: object) -> str:
    """The file with other keys somewhere in its meaning, and the digest of that."""

    def change(document: Json) -> None:
        for step in path:
            document = document[step]  # type: ignore[index]
        document.update(keys)

    return changed(change)


def guarded(**guards: Any) -> Plan:
    return replace(MEANING, guards=Guards(require_signature=False, **guards))


def steps(*updates: Move, timeout_ms: int = 1, own: tuple[str, ...] = ("kraft-4.2",)) -> Plan:
    names = {update.feature for update in updates} | {"f", "g"}
    group = replace(GROUP, ranges=dict.fromkeys(names, (0, 9)))
    whole = replace(MEANING.requirements, nodes=(group,))
    step = Step(updates=updates, timeout_ms=timeout_ms)
    return replace(MEANING, own_dialects=own, requirements=whole, steps=(step,))


def update(**changes: Any) -> Plan:
    return steps(replace(UPDATE, **changes))


TEXT, TOLD = write_plan(MEANING), write_plan(MEANING, PEOPLE)
KRAFT = Move(feature="kraft.version", from_level=0, to_level=1, upgrade_type="UPGRADE")
SECOND = replace(UPDATE, feature="g", from_level=2, to_level=3)
THIRD = replace(STEP, updates=(replace(UPDATE, from_level=2, to_level=3),))
EFFECT = SideEffect(
    feature="f", level=2, key="k", what="it is set", afterwards="", restored=False,
    values=(ValueChange(brokers=(1, 2), before="2", after=None),),
)  # fmt: skip
FIRST_UPDATE = "meaning", "steps", 0, "updates", 0


def effect(**changes: Any) -> Plan:
    return replace(MEANING, side_effects=(replace(EFFECT, **changes),))


# What is wrong → the file, or a meaning that somebody sealed. In which words it is refused:
# data/frozen/plan_files.txt.
WRONG: dict[str, str | bytes | Plan] = {
    "nothing": "",
    "null": "null",
    "a list": "[]",
    "an approval": '{"format": "featurelib.approval"}',
    "no UTF-8": b"\xff\xfe\x00",
    "lists in lists": "[" * 100_000,
    "a format that is no number": '{"format": NaN}',
    "another version": plain(version=2),
    "a version that is true": plain(version=True),
    "a version that is a text": plain(version="1"),
    "another digest": plain(digest="sha256:0"),
    "a digest that is a number": plain(digest=1),
    "a key too many": within(extra=1),
    "a key too many for people": within("for_people", extra=1),
    "a key too many in the meaning": within("meaning", extra=1),
    "a key too many in an update": within(*FIRST_UPDATE, unsafe=True),
    "guards that are null": within("meaning", guards=None),
    "guards without keys": within("meaning", guards={"require_signature": False}),
    "no nodes": changed(lambda p: p["meaning"]["requirements"].pop("nodes"), sealed=False),
    "a fraction": TEXT.replace('"timeout_ms": 60000', '"timeout_ms": 60000.0'),
    "a key twice": TEXT.replace('"to_level": 2', '"to_level": 2, "to_level": 2'),
    "a key twice for people": TOLD.replace('"name"', '"name": "x", "name"'),
    "half a letter": TEXT.replace('"c"', '"\\ud800"'),
    "a number of 5000 digits": TEXT.replace("60000", "9" * 5000),
    "a blank cluster": replace(MEANING, cluster=" "),
    "no intent": replace(MEANING, intent=""),
    "no catalogue": replace(MEANING, catalogue=""),
    "another policy": replace(MEANING, dialect="kip"),
    "an unknown dialect": replace(MEANING, own_dialects=("kraft-9",)),
    "dialects out of order": replace(MEANING, own_dialects=("kraft-4.2", "kraft-4.1")),
    "no steps": replace(MEANING, steps=()),
    "no time": steps(UPDATE, timeout_ms=0),
    "too much time": steps(UPDATE, timeout_ms=2**31),
    "a step without updates": steps(),
    "a feature twice": steps(UPDATE, UPDATE),
    "kraft.version beside another": steps(UPDATE, KRAFT),
    "two features for 3.9": steps(UPDATE, SECOND, own=("kraft-3.9",)),
    "two features where 3.9 may answer": steps(UPDATE, SECOND, own=("kraft-3.9", "kraft-4.2")),
    "two features for nobody knows whom": steps(UPDATE, SECOND, own=()),
    "a feature without a name": update(feature="", from_level=0),
    "a level below 0": update(to_level=-1),
    "a level above 32767": update(to_level=2**15),
    "a level that it is not at": update(from_level=0),
    "the level that it is at": update(to_level=1),
    "an unknown type": update(upgrade_type="DOWN"),
    "a downgrade that goes up": update(upgrade_type="SAFE_DOWNGRADE"),
    "an upgrade that goes down": update(to_level=0),
    "a step that does not go on where the one before ends": replace(MEANING, steps=(STEP, STEP)),
    "features that nobody manages": guarded(managed_features=("f",)),
    "all managed by nobody": guarded(managed_features=None),
    "a manager of nothing": guarded(managed_by="msk"),
    "managed features out of order": guarded(managed_by="msk", managed_features=("g", "f")),
    "a side effect of a level beyond": effect(level=3),
    "a side effect of the level it is at": effect(level=1),
    "a side effect of another feature": effect(feature="g"),
    "a side effect of nothing": effect(what=" "),
    "a side effect without a key": effect(key=""),
    "a side effect twice on a broker": effect(values=EFFECT.values * 2),
    "a side effect on nobody": effect(values=(replace(EFFECT.values[0], brokers=()),)),
    "level 0 required": required(levels={"f": 1, "g": 0}),
    "a level of nothing required": required(levels={"f": 1, "": 2}),
    "a features node below 0": required(features_node_version=-1),
    "nodes of none": required(nodes=()),
    "a group of nobody": grouped({"brokers": ()}),
    "nodes out of order": grouped({"brokers": (2, 1)}),
    "a node twice": grouped({"brokers": (1, 1)}),
    "a node below 0": grouped({"brokers": (-1,)}),
    "a range upside down": grouped({"ranges": {"f": (2, 1)}}),
    "no range of a planned feature": grouped({"ranges": {"g": (0, 1)}}),
    "a node in two groups": grouped({}, {"brokers": (2,)}),
    "groups out of order": grouped({"brokers": (3,)}, {}),
    "groups of unlike features": grouped({}, {"brokers": (3,), "ranges": {"f": (0, 1)}}),
}


def test_what_is_no_plan_is_refused_whoever_sealed_it() -> None:
    def reading(wrong: str | bytes | Plan) -> Callable[[], object]:
        text = write_plan(wrong) if isinstance(wrong, Plan) else wrong
        return lambda: read_plan(text, "plan.json")

    cases = [(name, reading(wrong)) for name, wrong in WRONG.items()]
    expect_refused("plan_files", PlanError, cases, begins="plan.json:")


def test_several_steps_go_on_where_the_one_before_ends() -> None:
    good = replace(MEANING, steps=(STEP, THIRD))
    assert read_plan(write_plan(good), "x").plan == good


def load_schema() -> Any:
    return json.loads(SCHEMA.read_text(encoding="utf-8"))


def test_plans_fit_the_schema() -> None:
    schema = load_schema()
    for text in sample_plans():
        assert list(schema_faults(json.loads(text), schema)) == []


def test_the_schema_has_every_key_of_a_plan_and_no_other() -> None:
    parts = {
        "PlanFile": [field.encode_name for field in msgspec.structs.fields(PlanFile)],
        "ForPeople": [field.name for field in msgspec.structs.fields(ForPeople)],
        **{kind.__name__: [field.name for field in fields(kind)] for kind in KINDS},
    }
    shipped = load_schema()["$defs"]
    assert {name: list(part["properties"]) for name, part in shipped.items()} == parts
    assert not any(part["additionalProperties"] for part in shipped.values())


@pytest.mark.parametrize(
    "text",
    [
        plain(version=2), plain(format="x"), plain(extra=1),
        changed(lambda plan: plan.pop("digest"), sealed=False),
        changed(lambda plan: plan["meaning"].pop("cluster"), sealed=False),
        *(write_plan(WRONG[name]) for name in (  # type: ignore[arg-type]  # these are meanings
            "another policy", "no steps", "no time", "a level above 32767", "an unknown type",
            "level 0 required", "a node below 0",
        )),
        changed(lambda plan: plan["meaning"]["requirements"]["nodes"][0].update(ranges={"f": [1]}),
                sealed=False),
    ],
)  # fmt: skip
def test_what_is_no_plan_does_not_fit_the_schema(text: str) -> None:
    assert list(schema_faults(json.loads(text), load_schema()))


def test_what_turns_or_hides_text_is_escaped_in_files_that_a_person_reviews() -> None:
    hostile = "a\u202eb\u2066c\ufeffd\u200be\u2028f\x7fg\U000e0001h"
    text = write_plan(replace(MEANING, intent=hostile))
    assert text.replace("\n", "").isprintable()
    assert read_plan(text, "p.json").plan.intent == hostile
    assert "\\u202eb\\u2066c\\ufeffd\\u200be\\u2028f\\u007fg\\udb40\\udc01h" in text


@pytest.mark.parametrize("name", ["cluster", "catalogue", "intent"])
def test_a_text_with_a_line_end_is_refused(name: str) -> None:
    """In an error it would pass for a line of featurelib."""
    text = write_plan(replace(MEANING, **{name: "x\n  f 1 → 2: nothing"}))
    with pytest.raises(PlanError, match=f"{name}: the text has a line end"):
        read_plan(text, "p.json")
