"""What is concluded from Strimzi's resources: findings, and no better verdict."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import Any

import pytest

from featurelib.audit.audit import Judged
from featurelib.audit.evidence import Expected
from featurelib.audit.findings import FindingWords
from featurelib.catalogue import load
from tests.core.lines import judge_lines, lines_of, strimzi_line
from tests.core.oracle import CONTROLLER, METADATA, Cluster, Node
from tests.facts import first_fact

LEVELS: dict[str, Any] = {"levels": {METADATA: 25}, "epoch": 900}
BROKER = Node(node_id=1, ranges={METADATA: (7, 27)}, **LEVELS)
VOTER = Node(node_id=9, role=CONTROLLER, ranges={METADATA: (7, 27)}, **LEVELS)
GOOD = Cluster(name="c", nodes=(BROKER, VOTER), stored={METADATA: 25}, voters=(9,))
OURS = Expected(managed_by="strimzi")


def judged(*lines: bytes, cluster: Cluster | None = GOOD, expected: Expected = OURS) -> Judged:
    known = lines_of(cluster) if cluster else []
    return judge_lines([*known, *lines], expected)


def details(*lines: bytes, **more: Any) -> dict[str, str]:
    """Code → detail of the findings."""
    rows = judged(*lines, **more).findings.to_pylist()
    return {row["code"]: first_fact(row) for row in rows}


def verdicts(of: Judged) -> list[str]:
    return [row["verdict"] for row in of.readiness.to_pylist()]


def test_resources_that_agree_with_the_nodes_say_nothing() -> None:
    assert verdicts(judged(strimzi_line())) == verdicts(judged()) == ["READY"]
    assert details(strimzi_line()) == {}


def test_alone_they_make_nothing_ready() -> None:
    found = judged(strimzi_line(), cluster=None)
    assert "READY" not in verdicts(found)
    codes = {row["code"] for row in found.findings.to_pylist()}
    assert {"strimzi_node_missing", "no_trustworthy_witness"} <= codes


def test_a_node_that_nobody_else_shows_is_unknown_and_vouching_for_controllers_covers_theirs() -> (
    None
):
    assert verdicts(judged(strimzi_line("b1 b2 c9"))) == ["UNKNOWN"]
    vouched = replace(OURS, controllers_vouched=True)
    assert verdicts(judged(strimzi_line("b1 c9 c10"), expected=vouched)) == ["READY"]


def test_what_is_older_than_other_evidence_may_be_says_nothing() -> None:
    old = strimzi_line("b1 b2", age=100, metadata_version=None, status_version="3.9.0")
    assert details(old) == {}


def test_the_newest_resources_take_the_place_of_older_ones_and_make_no_node_fresher() -> None:
    assert details(strimzi_line("b1 b2 c9", age=1), strimzi_line("b1 c9")) == {}
    found = judged(strimzi_line()).plans.to_pylist()[0]["newest_line"]
    assert found == judged().plans.to_pylist()[0]["newest_line"]


PAST_30 = (
    "from 25 (4.0-IV3) to 33 (4.4-IV2), and cannot be downgraded without loss from 30 (4.3-IV0) on"
)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "with Kafka 4.1.2 from 25 (4.0-IV3) to 27 (4.1-IV1)"),
        ({"version": "4.4.0"}, f"with Kafka 4.4.0 {PAST_30}"),
        ({"version": "4.0.1"}, f"with Kafka 4.4, for one, {PAST_30}"),
        (
            {"version": None},
            f"with Kafka 4.4, for one, {PAST_30}; Kafka's own version is left to the operator, too",
        ),
    ],
)
def test_what_an_operator_does_by_itself_is_foreseen(changes: dict[str, Any], said: str) -> None:
    line = strimzi_line(metadata_version=None, **changes)
    assert details(line)["metadata_version_not_pinned"] == f"kafka/orders: {said}"


def test_the_level_of_now_is_pinned_by_the_command_that_is_printed() -> None:
    rows = judged(strimzi_line(metadata_version=None)).findings.to_pylist()
    [row] = (row for row in rows if row["code"] == "metadata_version_not_pinned")
    said = FindingWords(load()).of(row)
    assert "to the finalized level, 4.0-IV3." in said.action
    patch = shlex.split(said.command)
    assert patch[:5] == ["kubectl", "-n", "kafka", "patch", "kafka"]
    assert json.loads(patch[-1]) == {"spec": {"kafka": {"metadataVersion": "4.0-IV3"}}}


def test_without_the_nodes_the_status_says_from_where_it_would_be_raised() -> None:
    line = strimzi_line(metadata_version=None, status_metadata_version="4.1-IV1")
    found = details(line, cluster=None)["metadata_version_not_pinned"]
    assert "from 27 (4.1-IV1) to 33" in found


@pytest.mark.parametrize("status", [None, "9.9-IV0", "4.4-IV2"])
def test_where_nothing_further_is_known_nothing_is_foreseen(status: str | None) -> None:
    line = strimzi_line(metadata_version=None, status_metadata_version=status)
    assert "metadata_version_not_pinned" not in details(line, cluster=None)


def test_an_operator_before_0_39_leaves_the_level_alone() -> None:
    old = strimzi_line(metadata_version=None, status_metadata_version=None)
    assert details(old) == {}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": "4.2.0"}, "Kafka 4.2.0 is requested, and its status shows 4.1.2"),
        (
            {"metadata_version": "4.1"},
            "metadata.version 4.1 is requested, and its status shows 4.0-IV3",
        ),
        (
            {"refused": "no \u202e way", "paused": True},
            "the operator reports: no \\u202e way; its reconciliation is paused",
        ),
    ],
)
def test_what_is_asked_for_and_not_there_is_said(changes: dict[str, Any], said: str) -> None:
    assert details(strimzi_line(**changes))["strimzi_not_carried_out"] == f"kafka/orders: {said}"


def test_which_level_was_asked_for_is_said_too() -> None:
    [found] = (
        row
        for row in judged(strimzi_line(metadata_version="4.1")).findings.to_pylist()
        if row["code"] == "strimzi_not_carried_out"
    )
    assert found["level"] == 27


@pytest.mark.parametrize("same", ["4.0", "4.0-IV3"])
def test_a_level_has_more_than_one_name(same: str) -> None:
    assert details(strimzi_line(metadata_version=same)) == {}


def test_a_status_that_contradicts_the_nodes_is_a_finding_and_no_verdict() -> None:
    other = strimzi_line(
        metadata_version="4.1-IV1", status_metadata_version="4.1-IV1", status_version="3.9.0"
    )
    found = details(other)["strimzi_contradicted"]
    assert found == (
        "kafka/orders: its status shows metadata.version 27 (4.1-IV1), the nodes 25 (4.0-IV3); "
        "its status shows Kafka 3.9.0, the nodes 4.1"
    )
    assert verdicts(judged(other)) == ["READY"]


def test_a_status_that_is_older_than_the_nodes_word_is_only_behind() -> None:
    behind = strimzi_line(age=10, metadata_version="3.9-IV0", status_metadata_version="3.9-IV0")
    assert "strimzi_contradicted" not in details(behind)
    assert "strimzi_node_unlisted" not in details(strimzi_line("b1", age=10))


def test_kafka_of_no_release_we_know_contradicts_nothing() -> None:
    assert details(strimzi_line(status_version="4.9.0", version="4.9.0")) == {}


def test_who_is_registered_and_in_no_pool_is_named_where_all_pools_were_read() -> None:
    assert details(strimzi_line("b1"))["strimzi_node_unlisted"] == "kafka/orders"
    assert details(strimzi_line("b1", nodes_complete=False)) == {}


def test_a_cluster_whose_owner_the_inventory_does_not_name_is_said_to_be_strimzis() -> None:
    assert details(strimzi_line(), expected=Expected()) == {
        "strimzi_not_in_inventory": "kafka/orders"
    }
