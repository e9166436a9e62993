"""A dialect is compiled when it is loaded, and every code has words and a source."""

from __future__ import annotations

import ast
import string
from pathlib import Path

import numpy as np
import pytest

import featurelib.core
from featurelib.core import dialect as module
from featurelib.core.dialect import load
from featurelib.core.findings import wordings
from featurelib.core.rules import RULES, NodeRows, UpdateRows

CORE = Path(featurelib.core.__file__).parent
ROW = {
    "rule": "unsupported_by_node",
    "scope": "node",
    "severity": "blocker",
    "message": "m",
    "remedy": "r",
    "command": "",
}
PLACES = {"role", "node", "feature", "level", "range", "finalized", "detail", "dated"}
PLACES |= {"observed_at", "epoch"}


def test_a_misspelt_rule_fails_when_the_dialect_is_loaded() -> None:
    with pytest.raises(KeyError, match="unsuported"):
        module._compile({**ROW, "rule": "unsuported_by_node"})


@pytest.mark.parametrize(
    ("rule", "scope"),
    [("unsupported_by_node", "update"), ("system_off", "node"), ("system_off", "x")],
)
def test_a_wrong_scope_fails_when_the_dialect_is_loaded(rule: str, scope: str) -> None:
    with pytest.raises(KeyError, match=rule):
        module._compile({**ROW, "rule": rule, "scope": scope})


def test_an_unknown_severity_fails_when_the_dialect_is_loaded() -> None:
    with pytest.raises(ValueError, match="blokker"):
        module._compile({**ROW, "severity": "blokker"})


def test_a_dialect_nobody_wrote_is_not_found() -> None:
    with pytest.raises(FileNotFoundError):
        load("zk-0.8")


def test_every_rule_looks_at_nodes_or_at_updates_and_not_at_both() -> None:
    for rule in RULES.values():
        assert (rule.of_nodes is None) != (rule.of_updates is None), rule.name
        assert rule.source, rule.name


def test_the_strict_dialect_asks_every_rule_about_proposals_once() -> None:
    strict = load("strict")
    codes = [row.code for row in strict.rules]
    assert len(codes) == len(set(codes))
    # What is finalized already is no proposal: the audit asks that rule by name.
    assert set(codes) == set(RULES) - {"incompatible_with_finalized"}
    parted = [row.code for row in (*strict.of_nodes, *strict.of_updates)]
    assert sorted(parted) == sorted(codes)


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


def emitted() -> set[str]:
    """Every literal code given to `said.add` or to a helper that hands it on."""
    found = set()
    for path in CORE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and node.args and "add" in ast.unparse(node.func):
                first = node.args[0]
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    found.add(first.value)
    return found


def test_every_code_the_core_emits_has_words() -> None:
    codes = emitted()
    assert {"unsupported_by_node", "node_not_asked", "cluster_not_landed"} <= codes
    assert codes <= set(wordings(load("strict")))


@pytest.mark.parametrize(
    ("level", "ends", "offends"),
    [
        (3, (1, 5), False),
        (1, (1, 5), False),
        (5, (1, 5), False),
        (6, (1, 5), True),
        (2, (3, 5), True),
        (0, (0, 0), False),
        (1, (0, 0), True),
    ],
)
def test_a_node_supports_a_level_within_its_range(
    level: int, ends: tuple[int, int], offends: bool
) -> None:
    rows = _node_rows(level, level, ends)
    mask = RULES["unsupported_by_node"].of_nodes
    assert mask is not None
    assert mask(rows).tolist() == [offends]


@pytest.mark.parametrize(
    ("lowest", "level", "ends", "offends"),
    [
        (1, 3, (1, 5), False),
        (1, 3, (2, 5), True),
        (3, 3, (2, 5), False),
        (0, 0, (2, 5), False),
        (3, 6, (2, 5), True),
        (1, 1, (0, 0), True),
    ],
)
def test_a_node_has_to_support_the_finalized_minimum_too(
    lowest: int, level: int, ends: tuple[int, int], offends: bool
) -> None:
    mask = RULES["incompatible_with_finalized"].of_nodes
    assert mask is not None
    assert mask(_node_rows(lowest, level, ends)).tolist() == [offends]


FITTING = {
    "level": 3,
    "current": 1,
    "newest_known": 5,
    "newest_stable": 4,
    "askable": 1,
    "unregistered_voters": 0,
    "needed": 0,
    "proposed": 0,
    "system_off": False,
    "migrating": False,
}


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("level_newer_than_catalogue", {"level": 6, "newest_stable": 9}),
        ("unstable_level", {"level": 5}),
        ("no_node_to_ask", {"askable": 0}),
        ("voter_not_registered", {"unregistered_voters": 1}),
        ("dependency_unmet", {"needed": 2, "proposed": 1}),
        ("system_off", {"system_off": True}),
        ("during_zk_migration", {"migrating": True}),
    ],
)
def test_a_rule_about_updates_fires_alone(rule: str, change: dict[str, int]) -> None:
    rows = {name: np.array([value]) for name, value in {**FITTING, **change}.items()}
    fired = [
        name
        for name, known in RULES.items()
        if known.of_updates is not None and known.of_updates(UpdateRows(**rows)).all()
    ]
    assert fired == [rule]


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("level_newer_than_catalogue", {"newest_known": -1, "level": 99}),
        ("unstable_level", {"newest_stable": -1, "level": 99}),
        ("no_node_to_ask", {"askable": 0, "level": 1}),
        ("voter_not_registered", {"unregistered_voters": 1, "level": 1}),
        ("system_off", {"system_off": True, "level": 1}),
        ("during_zk_migration", {"migrating": True, "level": 1}),
    ],
)
def test_a_rule_about_updates_lets_what_does_not_move_or_is_not_known_pass(
    rule: str, change: dict[str, int]
) -> None:
    rows = {name: np.array([value]) for name, value in {**FITTING, **change}.items()}
    mask = RULES[rule].of_updates
    assert mask is not None
    assert not mask(UpdateRows(**rows)).any()


def _node_rows(lowest: int, level: int, ends: tuple[int, int]) -> NodeRows:
    columns = (np.array([value], dtype=np.int32) for value in (lowest, level, *ends))
    return NodeRows(**dict(zip(NodeRows.__slots__, columns, strict=True)))
