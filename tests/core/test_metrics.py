"""What metrics of nodes may decide: they fill in where no stronger word is, and never make READY
what a stronger one contradicts."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from featurelib.audit.evidence import Expected
from featurelib.view.report import read_profiles
from tests.core.lines import (
    codes,
    findings,
    judge_lines,
    lines_of,
    listing,
    metrics_line,
    quorum_line,
    readiness,
    rows_of,
    snapshot,
)
from tests.core.oracle import CONTROLLER, METADATA, Cluster, Node
from tests.facts import first_fact

BROKER = Node(node_id=1, ranges={METADATA: (7, 27)}, levels={METADATA: 25}, epoch=900)
VOTER = replace(BROKER, node_id=9, role=CONTROLLER)
# All that landed of it says READY for metadata.version 27.
GOOD = Cluster(
    name="c", nodes=(BROKER, VOTER), stored={METADATA: 25}, voters=(9,), registry="fenced"
)
HIDDEN = replace(GOOD, nodes=(BROKER, replace(VOTER, answered=None)))  # as Strimzi's controllers
SILENT = replace(GOOD, nodes=(BROKER, replace(VOTER, answered=None, failed=0)))
VOUCHED = Expected(vouched=True)
OF_METRICS = {"range_from_metrics", "metrics_disagree", "metrics_of_stranger"}
GROUP = "group.version"


def verdict(*lines: bytes, of: Cluster = GOOD, feature: str = METADATA) -> str:
    text: str = readiness(judge_lines([*lines_of(of), *lines]), feature)["verdict"]
    return text


@pytest.mark.parametrize("cluster", [HIDDEN, SILENT])
def test_they_stand_in_for_a_controller_nobody_can_ask(cluster: Cluster) -> None:
    assert verdict(of=cluster) == "UNKNOWN"
    shown = metrics_line(9, "controller", seconds=10)
    assert verdict(shown, of=cluster) == "READY"
    [finding] = findings(judge_lines([*lines_of(cluster), shown]), *OF_METRICS)
    assert (finding["code"], finding["node_id"]) == ("range_from_metrics", 9)
    # What they show counts as any range does.
    assert verdict(metrics_line(9, "controller", seconds=10, most=25), of=cluster) == "BLOCKED"


@pytest.mark.parametrize(("seconds", "verdict_then"), [(-280, "READY"), (-400, "UNKNOWN")])
def test_they_count_only_about_when_the_node_did_not_answer(
    seconds: int, verdict_then: str
) -> None:
    shown = metrics_line(9, "controller", seconds=seconds)
    assert verdict(shown, of=SILENT) == verdict_then


@pytest.mark.parametrize(
    ("seconds", "most", "verdict_then"),
    [(60, 27, "READY"), (60, 33, "UNKNOWN"), (60, 25, "UNKNOWN"), (-60, 25, "READY")],
)
def test_a_stronger_word_stands_and_one_that_is_no_older_makes_it_unknown(
    seconds: int, most: int, verdict_then: str
) -> None:
    shown = metrics_line(1, seconds=seconds, most=most)
    assert verdict(shown) == verdict_then
    judged = judge_lines([*lines_of(GOOD), shown])
    assert ("metrics_disagree" in codes(judged)) == (verdict_then == "UNKNOWN")


def test_what_metrics_leave_out_contradicts_nobody_and_what_they_have_more_does() -> None:
    both = {METADATA: (7, 27), GROUP: (0, 1)}
    more = replace(GOOD, nodes=(replace(BROKER, ranges=both), replace(VOTER, ranges=both)))
    assert verdict(metrics_line(1), of=more, feature=GROUP) == verdict(of=more, feature=GROUP)
    shown = metrics_line(1, group_version=(0, 1))
    [finding] = findings(judge_lines([*lines_of(GOOD), shown]), "metrics_disagree")
    assert finding["feature"] == GROUP
    assert first_fact(finding) == "0 to 0 in its own response, 0 to 1 in its metrics"


def test_a_name_that_nobody_spells_says_nothing() -> None:
    lines = [*lines_of(HIDDEN), metrics_line(9, "controller", of_tomorrow=(1, 3))]
    assert {row["feature"] for row in judge_lines(lines).readiness.to_pylist()} == {METADATA}


def alone(*lines: bytes) -> dict[str, object]:
    """What is known of metadata.version by metrics alone."""
    return readiness(judge_lines([*lines, quorum_line("c", (9,))], VOUCHED), METADATA)


def test_levels_are_believed_where_no_other_witness_says_them() -> None:
    both = metrics_line(1), metrics_line(9, "controller")
    assert alone(*both)["finalized_level"] == 25
    assert alone(*both)["verdict"] == "READY"
    # A stronger witness that is no older says otherwise.
    wire = lines_of(replace(GOOD, nodes=(replace(BROKER, levels={METADATA: 24}), VOTER)))
    row = readiness(judge_lines([*wire, metrics_line(1)]), METADATA)
    assert (row["verdict"], row["finalized_level"]) == ("UNKNOWN", None)


@pytest.mark.parametrize("levels", [{"metadataVersion": 7}, {"groupVersion": 1}, {}])
def test_a_process_that_may_have_just_started_tells_no_level(levels: dict[str, int]) -> None:
    shown = metrics_line(1, levels=levels), metrics_line(9, "controller", levels=levels)
    assert alone(*shown)["finalized_level"] is None
    assert alone(*shown)["verdict"] == "UNKNOWN"


def test_levels_on_which_processes_do_not_agree_are_not_known() -> None:
    other = metrics_line(9, "controller", levels={"metadataVersion": 26})
    row = alone(metrics_line(1), other)
    assert (row["verdict"], row["finalized_level"]) == ("UNKNOWN", None)
    # One that was scraped long before the newest only lags behind.
    before = metrics_line(9, "controller", seconds=-600, levels={"metadataVersion": 26})
    assert alone(metrics_line(1), before)["finalized_level"] == 25


def test_levels_alone_are_no_range() -> None:
    shown = metrics_line(9, "controller").replace(b"supported_features", b"elsewhere")
    assert verdict(shown, of=HIDDEN) == "UNKNOWN"


def test_nodes_the_cluster_does_not_list_are_told() -> None:
    lines = [*lines_of(GOOD), metrics_line(7), metrics_line(8, "controller")]
    strangers = findings(judge_lines(lines), "metrics_of_stranger")
    assert [(row["role"], row["node_id"]) for row in strangers] == [
        ("broker", 7),
        ("controller", 8),
    ]
    [plan] = rows_of(judge_lines(lines), "plans")
    own = {node.node_id for node in GOOD.nodes}
    assert plan["nodes"] == len(own)
    [profiles] = read_profiles(judge_lines(lines).evidence).values()
    assert {node for one in profiles for node in (*one.brokers, *one.controllers)} == own
    # Where nothing lists the brokers nobody is a stranger; where the owner stands for it, a list
    # without fenced ones is one of all of them.
    shown = [metrics_line(1), metrics_line(7, most=20), metrics_line(9, "controller")]
    shown += [quorum_line("c", (9,))]
    for more, code, nodes in (
        ([], "incompatible_with_finalized", 3),
        ([listing((1, False), version=1)], "metrics_of_stranger", 2),
    ):
        judged = judge_lines([*shown, *more], VOUCHED)
        either = {"metrics_of_stranger", "incompatible_with_finalized"}
        assert codes(judged) & either == {code}
        [plan] = rows_of(judged, "plans")
        assert plan["nodes"] == nodes
    # What they support is of no account, if the quorum's leader does not see them fetch.
    old = [*lines_of(GOOD), metrics_line(7, most=20), metrics_line(8, "controller", most=20)]
    assert codes(judge_lines(old)) == codes(judge_lines(lines))
    followed = judge_lines([*old, quorum_line("c", (9,), (7,), age=0)])
    assert {row["node_id"] for row in findings(followed, "metrics_of_stranger")} == {8}
    assert {row["node_id"] for row in findings(followed, "incompatible_with_finalized")} == {7}
    # Of a cluster whose lists nobody read nothing can be said.
    unlisted = [metrics_line(7), metrics_line(8, "controller")]
    assert "metrics_of_stranger" not in codes(judge_lines(unlisted))


def test_lines_in_any_order_are_the_same_row() -> None:
    lines = [*lines_of(GOOD), *(metrics_line(1, seconds=s, most=20 + s) for s in (1, 5, 3))]
    rows = {snapshot({"c": random.Random(n).sample(lines, len(lines))}).to_pylist()[0]["state"]
            for n in range(6)}  # fmt: skip
    assert len(rows) == 1


def test_they_show_that_a_quorum_runs_the_cluster_unless_zookeeper_is_seen() -> None:
    levelless = replace(BROKER, levels={})
    broker = replace(GOOD, nodes=(levelless,), voters=None, registry="none", stored={})
    assert "mode_unknown" in codes(judge_lines(lines_of(broker)))
    found = codes(judge_lines([*lines_of(broker), metrics_line(1)]))
    assert ("mode_unknown" in found, "voters_unknown" in found) == (False, True)
    seen = lines_of(replace(broker, zookeeper=True))
    assert "voters_unknown" not in codes(judge_lines([*seen, metrics_line(7)]))
