"""Every recorded answer of real brokers to a features node no controller writes, explained.

`data/hostile_feature_nodes`: 2.8.2, 3.3.2 and 3.9.2, one broker (f 1..5, g 2..4) that is also the
controller. What a recording shows is compared with the effects of the reading, with no exceptions.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from featurelib.core.features_znode import (
    BEHAVIOURS,
    DecodedNode,
    Generation,
    ZnodeReading,
    behaviour_anywhere,
    behaviour_row,
    decode,
)
from tests.core import scale
from tests.core.frozen import expect_frozen

RECORDED = Path(__file__).parent / "data" / "hostile_feature_nodes"
RELEASES = {"2.8.2": Generation.ZK_2_7, "3.3.2": Generation.ZK_3_3, "3.9.2": Generation.ZK_3_9}
CASES = [
    json.loads(line)
    for release in RELEASES
    for line in (RECORDED / f"zk-{release}.jsonl").read_text("utf-8").splitlines()
]
GOOD = '{"version":2,"status":1,"features":{"f":{"min_version_level":1,"max_version_level":3}}}'
SCHEMA_1 = GOOD.replace("2", "1", 1)
SCHEMA_2 = GOOD.replace('"min_version_level":1,', "")
NEW = (Generation.ZK_3_3, Generation.ZK_3_9)


def judge(case) -> tuple[DecodedNode, ZnodeReading]:
    """The node, and its reading by a broker with the recorded ranges: class C is decided here."""
    node = decode(case["content"], RELEASES[case["release"]])
    fits = all(
        name in case["supported"]
        and case["supported"][name][0] <= least
        and level <= case["supported"][name][1]
        for name, least, level in node.levels
    )
    return node, node.reading if fits else ZnodeReading.INCOMPATIBLE


def finalized(case) -> tuple[int, tuple[tuple[str, int, int], ...]]:
    answer = case["apiversions"]
    rows = [
        (f["name"], f["min_version_level"], f["max_version_level"])
        for f in answer["finalized_features"]
    ]
    return answer["finalized_features_epoch"], tuple(sorted(rows))


def effects(case) -> frozenset[str]:
    row = behaviour_row(judge(case)[1], RELEASES[case["release"]])
    return frozenset(row[case["moment"]])


def recorded(which=lambda case: True):
    cases = [case for case in CASES if which(case)]
    return pytest.mark.parametrize("case", cases, ids=[case["id"] for case in cases])


def goes_on(case) -> bool:
    return case["exit_status"] is None


def test_there_are_all_225_recorded_cases():
    assert len(CASES) == len({case["id"] for case in CASES}) == 225


@recorded()
def test_a_broker_stops_exactly_when_it_is_said_to(case):
    assert ("stop" in effects(case)) == (case["exit_status"] == 1)
    assert case["exit_status"] in (None, 1)
    assert ("apiversions" in case) == goes_on(case)


@recorded(goes_on)
def test_a_broker_that_goes_on_believes_what_is_said(case):
    epoch, levels = finalized(case)
    node, _ = judge(case)
    believed = effects(case) & {"clear", "take_over", "keep_old"}
    if believed == {"clear"}:
        assert (epoch, levels) == (-1, ())
    elif believed == {"take_over"}:
        assert levels == node.levels
        rewritten = case["moment"] == "at_start" and schema_changes(case, node)
        assert epoch == case["znode_version_before"] + rewritten
    else:
        assert believed == {"keep_old"}
        assert levels == decode(case["before"], RELEASES[case["release"]]).levels
        assert 0 <= epoch < case["znode_version_before"]


def schema_changes(case, node: DecodedNode) -> bool:
    """Whether the controller elected rewrites the node in its own schema (only gen 2 does)."""
    return RELEASES[case["release"]] in NEW and node.schema_version == 1


@recorded(lambda case: case["moment"] == "at_start" and goes_on(case))
def test_a_controller_is_elected_exactly_when_it_is_said_to(case):
    update = case["update_f_to_4"]["error_code"]
    if "elect_nobody" in effects(case):
        assert (update, case["znode_after"]) == (41, "unchanged")
        return
    generation = RELEASES[case["release"]]
    expected = {name: (least, level) for name, least, level in judge(case)[0].levels}
    expected["f"] = (1, 4) if generation is Generation.ZK_2_7 else (4, 4)
    after = {name: levels for name, *levels in decode(case["znode_after"], generation).levels}
    assert case["became_controller"]
    assert update == 0
    assert {name: tuple(levels) for name, levels in after.items()} == expected


@recorded(lambda case: case["moment"] == "running" and "update_f_to_4" in case)
def test_the_next_update_writes_what_is_said(case):
    assert "lose_levels" in effects(case)
    written = decode(case["znode_after"], RELEASES[case["release"]])
    assert [(name, level) for name, _, level in written.levels] == [("f", 4)]


def level(number: str) -> str:
    return GOOD.replace("3}", number + "}")


# The text of the node → what each generation reads: data/frozen/features_node_texts.txt.
TEXTS = {
    "schema 1: older brokers keep the minimum, newer ones forget it": SCHEMA_1,
    "schema 2: older brokers miss the minimum": SCHEMA_2,
    "schema 7: only newer brokers know an upper bound": GOOD.replace("2", "7", 1),
    "features of the wrong type, status missing": '{"version":1,"features":3}',
    "status of the wrong type, features missing": '{"version":1,"status":"1"}',
    "types are looked at before ranges": level('0},"g":{"note":"x"}'),
    "a key nobody knows may hold a number": level('3,"note":7'),
    "and nothing else": level('3,"note":"x"'),
    **{f"level {number}": level(number) for number in (
        "32767", "32768", "65536", "65537", "2147483647", "-65535", "-0", "2147483648",
        "-2147483649", "1e999", "3.0", "[1]",
    )},
    "a level of 5000 digits": level("9" * 5000),
    **{f"no object: {text!r}": text for text in (
        " \t\r\n", "\ufeff", "\ufeff ", "01", "1", "1 x", "1x", "1.", "null", "null and void",
        "nullify", "true_", "false\u00e9", "false\u2028", "true{", '"x"y', "{", "Infinity",
        "-Infinity", "{}{",
    )},
    "100,000 lists": "[" * 100_000,
    **{f"encoded as {name}": SCHEMA_1.encode(name).decode("utf-8") for name in (
        "utf-16-le", "utf-16-be", "utf-32-le", "utf-8-sig",
    )},
    "a byte that is no UTF-8": SCHEMA_1.replace('"f"', '"\udcff"'),
    "behind the document it is not looked at": SCHEMA_1 + "\udcff",
    "half a letter": SCHEMA_1.replace('"f"', '"\ud800"'),
    "a name that cannot be sent": SCHEMA_1.replace('"f"', r'"\ud800f"'),
    "a name beyond 16 bits": SCHEMA_1.replace('"f"', r'"\ud83d\ude00"'),
    "a node that is off": SCHEMA_2.replace('status":1', 'status":0'),
    "a name of 25,000 letters, escaped": SCHEMA_1.replace(
        '"f"', '"' + "\\u001b[31m" * 5000 + '"').replace("3}", '"\\n"}'),
}  # fmt: skip


def test_a_text_is_read_as_jackson_and_java_of_each_generation_read_it():
    told = {}
    for name, text in TEXTS.items():
        said = []
        for generation in Generation:
            node = decode(text, generation)
            fault = node.fault or ""
            assert fault.isprintable()
            assert len(fault) < 250
            reading = f"{node.reading.value} {[*node.levels]!a} {fault}".rstrip()
            said.append(f"{generation.value}: {reading}")
        told[name] = "\n".join(said)
    expect_frozen("features_node_texts", told)


DRAWN = settings(max_examples=scale.some(100), deadline=None)


TOKENS = ["{", "}", "[", "]", ":", ",", '"', "0", "1", "-1", "1.5", "true", "null", "NaN", "\ufeff"]
TOKENS += ['"version":1', '"version":2', '"status":1', '"features":{', '"max_version_level":9']


@DRAWN
@given(st.lists(st.sampled_from(TOKENS) | st.characters()).map("".join))
def test_no_text_that_looks_like_a_node_raises(text):
    for generation in Generation:
        node = decode(text, generation)
        assert (node.fault is None) <= (
            node.reading in (ZnodeReading.ACCEPTED, ZnodeReading.DISABLED)
        )


EVERY = list(product(ZnodeReading, Generation))


@pytest.mark.parametrize(("reading", "generation"), EVERY)
def test_every_reading_has_exactly_one_row_for_every_generation(reading, generation):
    rows = [r for r in BEHAVIOURS if r["reading"] == reading and generation in r["generations"]]
    assert rows == [behaviour_row(reading, generation)]


def test_without_a_generation_the_words_go_by_releases():
    assert behaviour_anywhere(ZnodeReading.WRONG_TYPE) == (
        "2.7 to 3.2: every broker stops with exit status 1 and cannot start again; "
        "3.3.0 to 3.4.0: every broker stops with exit status 1 and cannot start again; "
        "3.4.1 to 3.9: running brokers keep the old levels and epoch, but none can start and the "
        "next election should find no controller."
    )
