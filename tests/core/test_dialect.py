"""A dialect is a table: compiled when it is loaded, every row of it asked and answered under its
own name, and every code with words and a source."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from msgspec import ValidationError

from featurelib.audit.audit import Judged, judge
from featurelib.audit.findings import wordings
from featurelib.catalogue import load as load_catalogue
from featurelib.core import dialect as module
from featurelib.core.dialect import GENERATIONS, Asks, Dialect, load
from featurelib.core.rules import (
    GROUP_COLUMNS,
    NODE_COLUMNS,
    RULES,
    UPDATE_COLUMNS,
    Function,
    Rule,
)
from tests.core.lines import conditions, findings, lines_of, readiness, snapshot
from tests.core.oracle import CONTROLLER, METADATA, Cluster, Node

ROW: dict[str, object] = {"rule": "unsupported_by_node", "asks": "everyone"}


@pytest.mark.parametrize(
    ("row", "error", "named"),
    [
        (ROW | {"rule": "unsuported_by_node"}, KeyError, "unsuported"),
        (ROW | {"where": ["finalised"]}, KeyError, "finalised"),
        (ROW | {"asked": "brokers"}, KeyError, "asked"),
        (ROW | {"asks": "brokerz"}, ValidationError, "asks"),
        (ROW | {"absence": "nil"}, ValidationError, "absence"),
        (ROW | {"order": "alphabetical"}, ValidationError, "order"),
        ({"rule": "unsupported_by_node"}, KeyError, "whom it asks"),
        ({"rule": "no_node_to_ask"}, KeyError, "whom it asks"),
        ({"rule": "negative_level", "asks": "everyone"}, KeyError, "at no node"),
        ({"rule": "same_level", "says": "{feature} is {levle}"}, KeyError, "fills levle"),
        ({"rule": "same_level", "says": "{node} has it"}, KeyError, "fills node"),
    ],
)
def test_a_row_that_cannot_be_asked_fails_when_the_dialect_is_loaded(
    row: dict[str, object], error: type[Exception], named: str
) -> None:
    assert module._compile(ROW, 95, "").asks == Asks.EVERYONE
    with pytest.raises(error, match=named):
        module._compile(row, 95, "")


@pytest.mark.parametrize("row", [{"rule": "same_level"}, {"rule": "system_off", "where": ["sets"]}])
def test_before_any_update_is_read_only_the_request_can_be_asked_about(
    row: dict[str, object],
) -> None:
    with pytest.raises(KeyError, match="cannot read"):
        module._compile(row, 95, "", on_request=True)


def test_a_capability_nobody_has_fails_when_the_dialect_is_loaded() -> None:
    with pytest.raises(KeyError, match="capability has no atomik"):
        module._fill(module.Capability, {"atomik": True})


@pytest.mark.parametrize("name", [*GENERATIONS, "kip", "strict"])
def test_every_dialect_loads_under_its_own_name(name: str) -> None:
    assert load(name).name == name


def test_every_rule_is_asked_by_some_dialect() -> None:
    tables = [load(name) for name in (*GENERATIONS, "kip", "strict")]
    asked = {row.code for table in tables for row in (*table.request_checks, *table.rules)}
    # What is finalized already is no update: the audit asks that rule by name.
    assert asked == set(RULES) - {"incompatible_with_finalized"}


def test_a_dialect_nobody_wrote_is_not_found() -> None:
    with pytest.raises(FileNotFoundError):
        load("zk-0.8")


def test_the_strict_dialect_asks_no_rule_twice() -> None:
    strict = load("strict")
    codes = [row.code for row in strict.rules]
    assert len(codes) == len(set(codes))


def test_every_wording_has_a_source_a_message_and_a_remedy() -> None:
    for code, words in wordings(load("strict")).items():
        assert words.source, code
        assert words.message.endswith((".", "}")), code
        assert words.remedy.endswith("."), code


# --- In an audit ----------------------------------------------------------------------------------

RANGES = {METADATA: (7, 25)}
OLDER = {METADATA: (7, 21)}
LEVELS = {METADATA: 17}
CLUSTER = Cluster(
    name="c",
    nodes=(
        Node(node_id=1, ranges=RANGES, levels=LEVELS, epoch=900),
        Node(node_id=2, ranges=OLDER, levels=LEVELS, epoch=900),
        Node(node_id=11, ranges=RANGES, role=CONTROLLER),
    ),
    voters=(11,),
    stored=LEVELS,
    registry="fenced",
)


def with_rule(name: str, mask: Function, *columns: str, like: str) -> Dialect:
    """The policy with one more row, which is as the row `like` but for its rule."""
    strict = load("strict")
    row = next(row for row in strict.rules if row.code == like)
    rule = Rule(
        name=name, about_nodes=row.rule.about_nodes, columns=columns, source="", sentence="",
        mask=mask,
    )  # fmt: skip
    return replace(strict, rules=(*strict.rules, replace(row, rule=rule)))


def audit(dialect: Dialect) -> Judged:
    batch = snapshot({"c": lines_of(CLUSTER)})
    return judge(batch, conditions([CLUSTER]), load_catalogue(), dialect)


def target(judged: Judged) -> int | None:
    found: int | None = readiness(judged, METADATA)["target"]
    return found


def offenders(judged: Judged, code: str) -> list[int | None]:
    return [row["node_id"] for row in findings(judged, code)]


def test_the_policy_alone_lets_it_go_as_far_as_every_node() -> None:
    assert target(audit(load("strict"))) == 21
    assert offenders(audit(load("strict")), "unsupported_by_node") == [2]


def test_a_row_of_the_table_is_asked_whatever_columns_it_reads() -> None:
    def leaps(level: np.ndarray, current: np.ndarray, kind: np.ndarray) -> np.ndarray:
        return level > current + kind

    found = audit(with_rule("leaps", leaps, "level", "current", "kind", like="unstable_level"))
    assert target(found) == 18
    assert offenders(found, "leaps") == [None]


@pytest.mark.parametrize("column", UPDATE_COLUMNS)
def test_every_column_about_updates_is_there_in_an_audit(column: str) -> None:
    like = "no_node_to_ask" if column in GROUP_COLUMNS else "unstable_level"
    rule = with_rule("new", lambda values: np.asarray(values) == values, column, like=like)
    assert len(offenders(audit(rule), "new")) == 1


@pytest.mark.parametrize("column", NODE_COLUMNS)
def test_every_column_about_nodes_is_there_in_an_audit(column: str) -> None:
    rule = with_rule("new", lambda values: values == values, column, like="unsupported_by_node")
    assert offenders(audit(rule), "new") == [1, 2, 11]


def test_a_finding_has_the_code_of_the_row_that_made_it() -> None:
    def at_its_end(level: np.ndarray, max_version: np.ndarray) -> np.ndarray:
        return level == max_version

    columns = "level", "max_version"
    found = audit(with_rule("at_its_end", at_its_end, *columns, like="unsupported_by_node"))
    assert target(found) is None
    assert offenders(found, "at_its_end") == [1, 11]
    assert offenders(found, "unsupported_by_node") == [2]
