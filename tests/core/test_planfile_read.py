"""Reading a plan back: only what this release would write is one, and no byte of it may change."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

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
from featurelib.planning.files import ForPeople, PlanFile, digest, read_plan, write_plan
from featurelib.planning.outlook import with_texts
from tests.core import scale
from tests.core.tampering import WAYS
from tests.core.test_planfile import MEANING
from tests.report.samples import CATALOGUE, judge_samples
from tests.report.schema_check import faults as schema_faults

CASES = int(os.environ.get("FEATURELIB_CASES", "2000"))
SCHEMA = Path(featurelib.planning.files.__file__).with_name("plan.schema.json")
PEOPLE = ForPeople(name="payments", level_names={"f": {"1": "one"}}, warnings=("mind",))
GROUP, STEP, UPDATE = MEANING.requirements.nodes[0], MEANING.steps[0], MEANING.steps[0].updates[0]
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


def refusal(text: str | bytes) -> str:
    with pytest.raises(PlanError) as told:
        read_plan(text, "plan.json")
    assert str(told.value).startswith("plan.json:")
    assert "featurelib plan" in str(told.value)
    return str(told.value)


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


def swapped(key: str, value: object) -> Callable[[Json], object]:
    return lambda plan: plan.__setitem__(key, value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a plan, found: Expecting value"),
        ("null", "expected a plan, featurelib.plan version 1, found None"),
        ("[]", "expected a plan"),
        ('{"format": "featurelib.approval"}', "found 'featurelib.approval'"),
        (b"\xff\xfe\x00", "expected a plan, found: "),
        ("[" * 100_000, "lists in lists"),
        ('{"format": NaN}', "found nan"),
        (changed(swapped("version", 2), sealed=False), "version 2. Use the featurelib"),
        (changed(swapped("version", True), sealed=False), "Expected `int`, got `bool`"),
        (changed(swapped("version", "1"), sealed=False), "version '1'"),
        (changed(swapped("digest", "sha256:0"), sealed=False), "was changed after it was made"),
        (changed(swapped("digest", 1), sealed=False), "Expected `str`, got `int`"),
        (changed(swapped("extra", 1)), "unknown field `extra`"),
        (changed(lambda p: p["for_people"].update(extra=1)), "unknown field `extra`"),
        (changed(lambda p: p["meaning"].update(extra=1)), 'keys or escapes): \'"extra": 1'),
        (
            changed(lambda p: p["meaning"]["steps"][0]["updates"][0].update(unsafe=True)),
            '\'"unsafe": true',
        ),
        (changed(lambda p: p["meaning"].update(guards=None)), '\'"guards": null'),
        (
            changed(lambda p: p["meaning"].update(guards={"require_signature": False})),
            'in which it is written, \'"managed_by": ""',
        ),
        (
            changed(lambda p: p["meaning"]["requirements"].pop("nodes"), sealed=False),
            "missing required field `nodes`",
        ),
        (
            write_plan(MEANING).replace('"timeout_ms": 60000', '"timeout_ms": 60000.0'),
            "Expected `int`, got `float`",
        ),
        (
            write_plan(MEANING).replace('"to_level": 2', '"to_level": 2, "to_level": 2'),
            "the key 'to_level' stands twice in one object",
        ),
        (
            write_plan(MEANING, PEOPLE).replace('"name"', '"name": "x", "name"'),
            "the key 'name' stands twice",
        ),
        (write_plan(MEANING).replace('"c"', '"\\ud800"'), "surrogates not allowed"),
        (write_plan(MEANING).replace("60000", "9" * 5000), "Exceeds the limit"),
    ],
)
def test_what_is_not_a_plan_is_refused(text: str | bytes, said: str) -> None:
    assert said in refusal(text)


def guarded(**guards: Any) -> Plan:
    return replace(MEANING, guards=Guards(require_signature=False, **guards))


def steps(*updates: Move, timeout_ms: int = 1, own: tuple[str, ...] = ("kraft-4.2",)) -> Plan:
    names = {update.feature for update in updates} | {"f", "g"}
    group = replace(GROUP, ranges=dict.fromkeys(names, (0, 9)))
    required = replace(MEANING.requirements, nodes=(group,))
    return replace(
        MEANING,
        own_dialects=own,
        requirements=required,
        steps=(Step(updates=updates, timeout_ms=timeout_ms),),
    )


def required(**changes: Any) -> Plan:
    return replace(MEANING, requirements=replace(MEANING.requirements, **changes))


KRAFT = Move(feature="kraft.version", from_level=0, to_level=1, upgrade_type="UPGRADE")
SECOND = replace(UPDATE, feature="g", from_level=2, to_level=3)


@pytest.mark.parametrize(
    ("meaning", "said"),
    [
        (replace(MEANING, cluster=" "), "cluster: expected a text"),
        (replace(MEANING, intent=""), "intent: expected a text"),
        (replace(MEANING, catalogue=""), "catalogue: expected a text"),
        (replace(MEANING, dialect="kip"), "dialect: expected 'strict', found 'kip'"),
        (replace(MEANING, own_dialects=("kraft-9",)), "own_dialects: expected some of zk-2.7,"),
        (replace(MEANING, own_dialects=("kraft-4.2", "kraft-4.1")), "expected ascending values"),
        (replace(MEANING, steps=()), "steps: expected one or more"),
        (steps(UPDATE, timeout_ms=0), "steps[0].timeout_ms: expected 1 to 2147483647, found 0"),
        (steps(UPDATE, timeout_ms=2**31), "steps[0].timeout_ms"),
        (steps(), "steps[0].updates: expected one or more"),
        (steps(UPDATE, UPDATE), "expected each feature once"),
        (steps(UPDATE, KRAFT), "expected kraft.version in a request of its own"),
        (steps(UPDATE, SECOND, own=("kraft-3.9",)), "expected one feature in a request"),
        (steps(UPDATE, SECOND, own=("kraft-3.9", "kraft-4.2")), "expected one feature"),
        (steps(UPDATE, SECOND, own=()), "expected one feature in a request"),
        (steps(replace(UPDATE, feature="", from_level=0)), "feature: expected a name"),
        (steps(replace(UPDATE, to_level=-1)), "to_level: expected 0 to 32767, found -1"),
        (steps(replace(UPDATE, to_level=2**15)), "to_level: expected 0 to 32767"),
        (steps(replace(UPDATE, from_level=0)), "from_level: expected 1, where it is by then"),
        (steps(replace(UPDATE, to_level=1)), "to_level: expected another level than 1"),
        (steps(replace(UPDATE, upgrade_type="DOWN")), "upgrade_type: expected UPGRADE, found"),
        (steps(replace(UPDATE, upgrade_type="SAFE_DOWNGRADE")), "expected UPGRADE, found"),
        (
            steps(replace(UPDATE, to_level=0)),
            "expected SAFE_DOWNGRADE or UNSAFE_DOWNGRADE, found 'UPGRADE'",
        ),
        (guarded(managed_features=("f",)), "expected none where managed_by names nobody"),
        (guarded(managed_features=None), "names nobody, found all"),
        (guarded(managed_by="msk"), "guards.managed_features: expected what msk manages"),
        (guarded(managed_by="msk", managed_features=("g", "f")), "expected ascending values"),
        (required(levels={"f": 1, "g": 0}), "requirements.levels: expected names with 1 to"),
        (required(levels={"f": 1, "": 2}), "requirements.levels: expected names"),
        (required(features_node_version=-1), "features_node_version: expected 0 to"),
        (required(nodes=()), "requirements.nodes: expected one or more"),
        (required(nodes=(replace(GROUP, brokers=()),)), "expected a broker or a controller"),
        (required(nodes=(replace(GROUP, brokers=(2, 1)),)), "brokers: expected ascending"),
        (required(nodes=(replace(GROUP, brokers=(1, 1)),)), "brokers: expected ascending"),
        (required(nodes=(replace(GROUP, brokers=(-1,)),)), "expected ids from 0"),
        (required(nodes=(replace(GROUP, ranges={"f": (2, 1)}),)), "ranges: expected a range"),
        (required(nodes=(replace(GROUP, ranges={"g": (0, 1)}),)), "every planned feature, 'f'"),
        (required(nodes=(GROUP, replace(GROUP, brokers=(2,)))), "in one group, found one in two"),
        (required(nodes=(replace(GROUP, brokers=(3,)), GROUP)), "by their nodes' ids"),
        (
            required(nodes=(GROUP, replace(GROUP, brokers=(3,), ranges={"f": (0, 1)}))),
            "the same features in every group",
        ),
    ],
)
def test_a_meaning_that_is_no_plan_is_refused_whoever_sealed_it(meaning: Plan, said: str) -> None:
    assert said in refusal(write_plan(meaning))


def test_several_steps_go_on_where_the_one_before_ends() -> None:
    second = replace(UPDATE, from_level=2, to_level=3)
    good = replace(MEANING, steps=(STEP, replace(STEP, updates=(second,))))
    assert read_plan(write_plan(good), "x").plan == good
    bad = replace(MEANING, steps=(STEP, replace(STEP, updates=(UPDATE,))))
    assert "steps[1].updates[0].from_level: expected 2" in refusal(write_plan(bad))


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
    "change",
    [
        swapped("version", 2),
        swapped("format", "x"),
        swapped("extra", 1),
        lambda p: p.pop("digest"),
        lambda p: p["meaning"].pop("cluster"),
        lambda p: p["meaning"].update(dialect="kip"),
        lambda p: p["meaning"]["steps"].clear(),
        lambda p: p["meaning"]["steps"][0].update(timeout_ms=0),
        lambda p: p["meaning"]["steps"][0]["updates"][0].update(to_level=2**15),
        lambda p: p["meaning"]["steps"][0]["updates"][0].update(upgrade_type="UP"),
        lambda p: p["meaning"]["requirements"]["levels"].update(f=0),
        lambda p: p["meaning"]["requirements"]["nodes"][0]["ranges"].update(f=[1]),
        lambda p: p["meaning"]["requirements"]["nodes"][0]["brokers"].append(-1),
    ],
)
def test_what_is_no_plan_does_not_fit_the_schema(change: Callable[[Json], object]) -> None:
    schema = load_schema()
    document = json.loads(changed(change, sealed=False))
    assert list(schema_faults(document, schema))
