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
    Reading,
    behaviour_anywhere,
    behaviour_row,
    decode,
)
from tests.core import scale

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


def judge(case) -> tuple[DecodedNode, Reading]:
    """The node, and its reading by a broker with the recorded ranges: class C is decided here."""
    node = decode(case["content"], RELEASES[case["release"]])
    fits = all(
        name in case["supported"]
        and case["supported"][name][0] <= least
        and level <= case["supported"][name][1]
        for name, least, level in node.levels
    )
    return node, node.reading if fits else Reading.INCOMPATIBLE


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


def read(text: str, *generations: Generation) -> set[tuple[Reading, tuple]]:
    answers = {
        (node.reading, node.levels)
        for node in (decode(text, generation) for generation in generations or Generation)
    }
    assert len(answers) == 1
    return next(iter(answers))


def test_older_brokers_keep_the_minimum_and_newer_ones_forget_it():
    assert read(SCHEMA_1, Generation.ZK_2_7)[1] == (("f", 1, 3),)
    assert read(SCHEMA_1, *NEW)[1] == (("f", 3, 3),)


def test_schema_2_is_undecodable_for_older_brokers_because_the_minimum_is_missing():
    node = decode(SCHEMA_2, Generation.ZK_2_7)
    assert node.reading is Reading.UNDECODABLE
    assert node.fault == (
        'Features node, features["f"]["min_version_level"]: expected 1 or above, found nothing.'
    )


def test_only_newer_brokers_know_an_upper_bound_of_the_schema_number():
    later = GOOD.replace("2", "7", 1)
    assert read(later, Generation.ZK_2_7) == (Reading.ACCEPTED, (("f", 1, 3),))
    assert read(later, *NEW) == (Reading.UNDECODABLE, ())


def test_older_brokers_look_at_features_first_and_newer_ones_at_status():
    both = '{"version":1,"features":3}'  # features of the wrong type, status missing
    assert read(both, Generation.ZK_2_7)[0] is Reading.WRONG_TYPE
    assert read(both, *NEW)[0] is Reading.UNDECODABLE
    both = '{"version":1,"status":"1"}'  # status of the wrong type, features missing
    assert read(both, Generation.ZK_2_7)[0] is Reading.UNDECODABLE
    assert read(both, *NEW)[0] is Reading.WRONG_TYPE


def test_types_are_looked_at_before_ranges():
    text = GOOD.replace("3}", '0},"g":{"note":"x"}')
    assert read(text)[0] is Reading.WRONG_TYPE


def test_even_a_key_nobody_knows_must_hold_a_number():
    assert read(GOOD.replace("3}", '3,"note":7}'), Generation.ZK_2_7)[0] is Reading.ACCEPTED
    assert read(GOOD.replace("3}", '3,"note":"x"}'))[0] is Reading.WRONG_TYPE


@pytest.mark.parametrize(
    ("number", "older", "newer"),
    [
        ("32767", 32767, 32767),
        ("32768", None, -32768),
        ("65536", None, 0),
        ("65537", 1, 1),
        ("2147483647", None, -1),
        ("-65535", 1, None),  # newer brokers check first and truncate then, older ones otherwise
        ("-0", None, None),
    ],
)
def test_levels_are_narrowed_to_16_bits_like_in_java(number, older, newer):
    text = GOOD.replace("3}", number + "}")
    assert read(text, Generation.ZK_2_7)[1] == ((("f", 1, older),) if older else ())
    assert read(text, *NEW)[1] == ((("f", newer, newer),) if newer is not None else ())
    if newer is None:
        assert read(text, *NEW)[0] is Reading.UNDECODABLE


@pytest.mark.parametrize("number", ["2147483648", "-2147483649", "9" * 5000, "1e999", "3.0", "[1]"])
def test_what_is_no_number_of_32_bits_is_of_the_wrong_type(number):
    assert read(GOOD.replace("3}", number + "}"))[0] is Reading.WRONG_TYPE


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        (" \t\r\n", Reading.WRONG_TYPE),
        ("\ufeff", Reading.UNDECODABLE),
        ("\ufeff ", Reading.WRONG_TYPE),
        ("01", Reading.UNDECODABLE),
        ("1", Reading.WRONG_TYPE),
        ("1 x", Reading.WRONG_TYPE),
        ("1x", Reading.UNDECODABLE),
        ("1.", Reading.UNDECODABLE),
        ("null", Reading.WRONG_TYPE),
        ("null and void", Reading.WRONG_TYPE),
        ("nullify", Reading.UNDECODABLE),
        ("true_", Reading.UNDECODABLE),
        ("false\u00e9", Reading.UNDECODABLE),
        ("false\u2028", Reading.UNDECODABLE),
        ("true{", Reading.WRONG_TYPE),
        ('"x"y', Reading.WRONG_TYPE),
        ("{", Reading.UNDECODABLE),
        ("Infinity", Reading.UNDECODABLE),
        ("-Infinity", Reading.UNDECODABLE),
        ("{}{", Reading.WRONG_TYPE),
        ("[" * 100_000, Reading.UNDECODABLE),
    ],
)
def test_a_text_that_is_no_object_is_read_as_jackson_reads_it(text, reading):
    assert read(text) == (reading, ())


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-8-sig"])
def test_other_encodings_are_recognised_by_their_zero_bytes(encoding):
    stored = SCHEMA_1.encode(encoding).decode("utf-8")
    assert read(stored, *NEW) == (Reading.ACCEPTED, (("f", 3, 3),))


def test_bytes_that_are_no_utf_8_are_undecodable_unless_they_follow_the_document():
    inside = SCHEMA_1.replace('"f"', '"\udcff"')
    assert read(inside)[0] is Reading.UNDECODABLE
    assert read(SCHEMA_1 + "\udcff", *NEW)[0] is Reading.ACCEPTED
    assert read(SCHEMA_1.replace('"f"', '"\ud800"'))[0] is Reading.UNDECODABLE


def test_a_name_that_cannot_be_sent_gets_a_question_mark():
    assert read(SCHEMA_1.replace('"f"', r'"\ud800f"'), *NEW)[1] == (("?f", 3, 3),)
    assert read(SCHEMA_1.replace('"f"', r'"\ud83d\ude00"'), *NEW)[1] == (("\U0001f600", 3, 3),)


def test_a_disabled_node_says_which_features_are_ignored():
    node = decode(SCHEMA_2.replace('status":1', 'status":0'), Generation.ZK_3_9)
    assert (node.reading, node.levels) == (Reading.DISABLED, ())
    assert (node.schema_version, node.status) == (2, 0)
    assert node.fault == (
        'Features node, status: expected 1, found 0, so 1 are ignored, like "f" at 3.'
    )


def test_a_fault_is_short_and_escaped_whatever_the_node_holds():
    text = SCHEMA_1.replace('"f"', '"' + "\\u001b[31m" * 5000 + '"').replace("3}", '"\\n"}')
    fault = decode(text, Generation.ZK_3_9).fault
    assert fault.isprintable()
    assert len(fault) < 250


DRAWN = settings(max_examples=scale.some(100), deadline=None)


TOKENS = ["{", "}", "[", "]", ":", ",", '"', "0", "1", "-1", "1.5", "true", "null", "NaN", "\ufeff"]
TOKENS += ['"version":1', '"version":2', '"status":1', '"features":{', '"max_version_level":9']


@DRAWN
@given(st.lists(st.sampled_from(TOKENS) | st.characters()).map("".join))
def test_no_text_that_looks_like_a_node_raises(text):
    for generation in Generation:
        node = decode(text, generation)
        assert (node.fault is None) <= (node.reading in (Reading.ACCEPTED, Reading.DISABLED))


EVERY = list(product(Reading, Generation))


@pytest.mark.parametrize(("reading", "generation"), EVERY)
def test_every_reading_has_exactly_one_row_for_every_generation(reading, generation):
    rows = [r for r in BEHAVIOURS if r["reading"] == reading and generation in r["generations"]]
    assert rows == [behaviour_row(reading, generation)]


def test_without_a_generation_the_words_go_by_releases():
    assert behaviour_anywhere(Reading.WRONG_TYPE) == (
        "2.7 to 3.2: every broker stops with exit status 1 and cannot start again; "
        "3.3.0 to 3.4.0: every broker stops with exit status 1 and cannot start again; "
        "3.4.1 to 3.9: running brokers keep the old levels and epoch, but none can start and the "
        "next election should find no controller."
    )
