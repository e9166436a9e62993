"""A dialect is compiled when it is loaded, and every code has words and a source."""

from __future__ import annotations

import string
from pathlib import Path

import pytest

import featurelib.core
from featurelib.audit.findings import wordings
from featurelib.core import dialect as module
from featurelib.core.dialect import GENERATIONS, Asks, load
from featurelib.core.rules import RULES

CORE = Path(featurelib.core.__file__).parent
ROW: dict[str, object] = {"rule": "unsupported_by_node", "asks": "everyone"}
PLACES = {"role", "node", "feature", "level", "range", "finalized", "detail", "dated"}
PLACES |= {"observed_at", "epoch", "way", "software"}


def compiled(**change: object) -> module.RuleRow:
    return module._compile({**ROW, **change}, 95, "")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"rule": "unsuported_by_node"}, "unsuported"),
        ({"where": ["finalised"]}, "finalised"),
        ({"asked": "brokers"}, "asked"),
    ],
)
def test_a_name_that_is_none_fails_when_the_dialect_is_loaded(
    change: dict[str, object], named: str
) -> None:
    with pytest.raises(KeyError, match=named):
        compiled(**change)


@pytest.mark.parametrize(
    "change", [{"asks": "brokerz"}, {"absence": "nil"}, {"order": "alphabetical"}]
)
def test_a_word_that_is_none_fails_when_the_dialect_is_loaded(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=str(next(iter(change.values())))):
        compiled(**change)


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({"rule": "unsupported_by_node"}, "whom it asks"),
        ({"rule": "no_node_to_ask"}, "whom it asks"),
        ({"rule": "negative_level", "asks": "everyone"}, "at no node"),
        ({"rule": "same_level", "says": "{feature} is {levle}"}, "fills levle"),
        ({"rule": "same_level", "says": "{node} has it"}, "fills node"),
    ],
)
def test_a_row_that_cannot_be_asked_fails_when_the_dialect_is_loaded(
    row: dict[str, object], named: str
) -> None:
    with pytest.raises(KeyError, match=named):
        module._compile(row, 95, "")
    assert compiled().asks == Asks.EVERYONE


@pytest.mark.parametrize("row", [{"rule": "same_level"}, {"rule": "system_off", "where": ["sets"]}])
def test_before_any_update_is_read_only_the_request_can_be_asked_about(
    row: dict[str, object],
) -> None:
    with pytest.raises(KeyError, match="cannot read"):
        module._compile(row, 95, "", door=True)


def test_a_capability_nobody_has_fails_when_the_dialect_is_loaded() -> None:
    with pytest.raises(KeyError, match="capability has no atomik"):
        module._fill(module.Capability, {"atomik": True})


@pytest.mark.parametrize("name", [*GENERATIONS, "kip", "strict"])
def test_every_dialect_loads_under_its_own_name(name: str) -> None:
    assert load(name).name == name


def test_every_rule_is_asked_by_some_dialect() -> None:
    tables = [load(name) for name in (*GENERATIONS, "kip", "strict")]
    asked = {row.code for table in tables for row in (*table.door, *table.rules)}
    # What is finalized already is no update: the audit asks that rule by name.
    assert asked == set(RULES) - {"incompatible_with_finalized"}


def test_a_dialect_nobody_wrote_is_not_found() -> None:
    with pytest.raises(FileNotFoundError):
        load("zk-0.8")


def test_every_rule_has_a_source_and_a_sentence() -> None:
    for rule in RULES.values():
        assert rule.source, rule.name
        assert rule.sentence.endswith("."), rule.name


def test_the_strict_dialect_asks_no_rule_twice() -> None:
    strict = load("strict")
    codes = [row.code for row in strict.rules]
    assert len(codes) == len(set(codes))


def test_every_wording_has_a_source_a_message_and_a_remedy() -> None:
    for code, words in wordings(load("strict")).items():
        assert words.source, code
        assert words.message.endswith((".", "}")), code
        assert words.remedy.endswith("."), code


def test_every_placeholder_of_a_wording_is_known() -> None:
    for code, words in wordings(load("strict")).items():
        for text in (words.message, words.remedy, words.command):
            names = {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
            assert names <= PLACES, (code, names - PLACES)
