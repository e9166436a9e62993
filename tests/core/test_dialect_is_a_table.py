"""What stands in the table of the policy is asked by an audit, and answers under its own name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from featurelib.audit.audit import Judged, judge
from featurelib.catalogue import load as load_catalogue
from featurelib.core.dialect import Dialect, load
from featurelib.core.rules import GROUP_COLUMNS, NODE_COLUMNS, UPDATE_COLUMNS, Function, Rule
from tests.core.lines import conditions, lines_of, snapshot
from tests.core.oracle import CONTROLLER, METADATA, Cluster, Node

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
    [row] = judged.readiness.to_pylist()
    found: int | None = row["target"]
    return found


def nodes(judged: Judged, code: str) -> list[int | None]:
    return [row["node_id"] for row in judged.findings.to_pylist() if row["code"] == code]


def test_the_policy_alone_lets_it_go_as_far_as_every_node() -> None:
    assert target(audit(load("strict"))) == 21
    assert nodes(audit(load("strict")), "unsupported_by_node") == [2]


def test_a_row_of_the_table_is_asked_whatever_columns_it_reads() -> None:
    def leaps(level: np.ndarray, current: np.ndarray, kind: np.ndarray) -> np.ndarray:
        return level > current + kind

    found = audit(with_rule("leaps", leaps, "level", "current", "kind", like="unstable_level"))
    assert target(found) == 18
    assert nodes(found, "leaps") == [None]


@pytest.mark.parametrize("column", UPDATE_COLUMNS)
def test_every_column_about_updates_is_there_in_an_audit(column: str) -> None:
    like = "no_node_to_ask" if column in GROUP_COLUMNS else "unstable_level"
    rule = with_rule("new", lambda values: np.asarray(values) == values, column, like=like)
    assert len(nodes(audit(rule), "new")) == 1


@pytest.mark.parametrize("column", NODE_COLUMNS)
def test_every_column_about_nodes_is_there_in_an_audit(column: str) -> None:
    rule = with_rule("new", lambda values: values == values, column, like="unsupported_by_node")
    assert nodes(audit(rule), "new") == [1, 2, 11]


def test_a_finding_has_the_code_of_the_row_that_made_it() -> None:
    def at_its_end(level: np.ndarray, max_version: np.ndarray) -> np.ndarray:
        return level == max_version

    columns = "level", "max_version"
    found = audit(with_rule("at_its_end", at_its_end, *columns, like="unsupported_by_node"))
    assert target(found) is None
    assert nodes(found, "at_its_end") == [1, 11]
    assert nodes(found, "unsupported_by_node") == [2]
