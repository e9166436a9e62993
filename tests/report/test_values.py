"""What is counted, in which order, and what holds the fleet back."""

from __future__ import annotations

import pyarrow as pa

from featurelib.audit.audit import Judged
from featurelib.feature import Severity, Verdict
from featurelib.view.digest import group_findings
from featurelib.words import nodes, some
from tests.report.samples import judge_samples
from tests.report.tables import finding, judged, plan, report, unfit

PARTS = ("findings", "incompatible", "readiness", "plans")


def test_clusters_come_worst_first_then_by_name() -> None:
    plans = [
        plan("u", "UP_TO_DATE"),
        plan("r", "READY"),
        plan("b2", "BLOCKED"),
        plan("k", "UNKNOWN"),
        plan("c", "UP_TO_DATE"),
        plan("b1", "BLOCKED"),
    ]
    rows = [finding("c", "features_node_damaged", "critical")]
    ordered = report(judged(plans, rows)).clusters
    assert [c.name for c in ordered] == ["c", "k", "b1", "b2", "r", "u"]
    names = {"b1": "z", "b2": "a"}
    ordered = report(judged(plans, rows), names=names).clusters
    assert [c.name for c in ordered] == ["c", "k", "a", "z", "r", "u"]


def test_order_of_rows_changes_nothing() -> None:
    tables = judge_samples()
    turned = Judged(**{part: _reverse(getattr(tables, part)) for part in PARTS})
    assert report(tables) == report(turned)


def _reverse(table: pa.Table) -> pa.Table:
    return table.take(list(range(table.num_rows))[::-1])


def test_columns_of_the_gold_tables_are_left_alone() -> None:
    tables = judge_samples()
    run = pa.array([1], pa.int64())
    gold = Judged(
        **{
            part: table.add_column(0, "run", pa.repeat(run[0], table.num_rows))
            for part in PARTS
            for table in [getattr(tables, part)]
        }
    )
    assert report(tables) == report(gold)


def test_an_empty_name_of_the_inventory_is_no_name() -> None:
    [cluster] = report(judged([plan("id", "READY")]), names={"id": ""}).clusters
    assert cluster.name == "id"


def test_nodes_of_one_old_release_are_one_cause() -> None:
    rows = [
        unfit("a", 1, "metadata.version", 7, 25),
        unfit("a", 1, "share.version", None, None),
        unfit("b", 4, "metadata.version", 7, 25),
        unfit("b", 5, "metadata.version", 7, 25),
        unfit("b", 6, "metadata.version", 7, 21),
    ]
    first, second = report(judged([plan("a", "BLOCKED"), plan("b", "BLOCKED")], rows)).causes
    assert first.title == "nodes that support metadata.version 7-25 (up to 4.0-IV3)"
    assert (first.clusters, first.alone, first.nodes) == (2, 1, 3)
    assert first.features == ("metadata.version", "share.version")
    assert first.held == ("a", "b")
    assert (second.clusters, second.alone, second.nodes) == (1, 0, 1)


def test_two_halves_of_one_process_are_one_node_in_the_way() -> None:
    row = unfit("a", 1, "metadata.version", 7, 25)
    [cause] = report(judged([plan("a", "BLOCKED")], [row, row | {"role": "controller"}])).causes
    assert cause.nodes == 1


def test_a_missing_feature_is_a_cause_where_metadata_version_is_not_in_the_way() -> None:
    row = unfit("a", 1, "search", None, None)
    [cause] = report(judged([plan("a", "BLOCKED")], [row])).causes
    assert cause.title == "nodes that do not support search at all"


def test_an_unmet_dependency_is_a_cause_only_where_nothing_else_is() -> None:
    row = finding("a", "dependency_unmet", "blocker", feature="x", level=1, detail="y 2")
    both = [row, unfit("a", 1, "y", 0, 1)]
    [cause] = report(judged([plan("a", "BLOCKED")], both)).causes
    assert (cause.code, cause.alone) == ("unsupported_by_node", 1)
    [cause] = report(judged([plan("a", "BLOCKED")], [row])).causes
    assert cause.title == "dependency unmet"


def test_missing_evidence_is_a_cause_too() -> None:
    plans = [plan("a", "UNKNOWN"), plan("b", "UNKNOWN"), plan("c", "BLOCKED")]
    rows = [finding(name, "voters_unknown", "unknown") for name in "ab"]
    rows.append(unfit("c", 1, "f", 1, 2))
    assert [cause.title for cause in report(judged(plans, rows)).causes] == [
        "voters unknown",
        "nodes that support f 1-2",
    ]


def test_a_cause_that_unlocks_nothing_alone_goes_behind_one_that_does() -> None:
    plans = [plan(name, "BLOCKED") for name in "abcde"]
    rows = [unfit(name, 1, feature, 1, 2) for name in "abc" for feature in ("f", f"x{name}", "y")]
    rows += [unfit(name, 1, "g", 1, 2) for name in "de"]
    causes = report(judged(plans, rows)).causes
    assert [(c.feature, c.clusters, c.alone) for c in causes[:3]] == [
        ("g", 2, 2),
        ("f", 3, 0),
        ("y", 3, 0),
    ]


def test_a_cause_of_many_clusters_goes_before_one_that_unlocks_a_single_cluster() -> None:
    names = [f"c{n:02}" for n in range(12)]
    rows = [unfit(name, 1, feature, 1, 2) for name in names for feature in ("f", f"x{name}")]
    rows.append(unfit("z", 1, "g", 1, 2))
    causes = report(judged([plan(name, "BLOCKED") for name in [*names, "z"]], rows)).causes
    assert [(c.feature, c.alone) for c in causes[:2]] == [("f", 0), ("g", 1)]


def test_what_unlocks_more_clusters_alone_goes_first() -> None:
    plans = [plan(name, "BLOCKED") for name in "abc"]
    rows = [
        unfit("a", 1, "f", 1, 2),
        unfit("b", 1, "f", 1, 2),
        unfit("b", 1, "g", 1, 3),
        unfit("c", 1, "g", 1, 3),
        unfit("c", 1, "h", 1, 3),
    ]
    causes = report(judged(plans, rows)).causes
    assert [(c.feature, c.clusters, c.alone) for c in causes] == [
        ("f", 2, 1),
        ("g", 2, 0),
        ("h", 1, 0),
    ]


def test_severities_are_the_tables_and_not_the_wordings() -> None:
    row = finding("a", "ghost_broker", "critical", role="broker", node_id=2)
    counted = report(judged([plan("a", "UP_TO_DATE")], [row])).fleet.findings_by_severity
    assert counted[Severity.CRITICAL] == 1


def test_a_blocked_cluster_needs_a_person_whatever_the_severities() -> None:
    row = unfit("a", 1, "f", 1, 2) | {"severity": "info"}
    fleet = report(judged([plan("a", "BLOCKED")], [row])).fleet
    assert (fleet.need_person, fleet.clusters_by_verdict[Verdict.BLOCKED]) == (1, 1)


def test_many_nodes_with_one_fault_are_said_once() -> None:
    rows = [unfit("a", node, feature, 1, 2) for node in range(1, 51) for feature in "fgh"]
    [cluster] = report(judged([plan("a", "BLOCKED")], rows)).clusters
    [group] = group_findings(cluster.findings)
    assert len(group.messages) == 3
    assert group.others == "The same holds for brokers 2-50."


def test_one_node_with_many_faults_has_one_remedy() -> None:
    rows = [unfit("a", node, f"f{node}{n}", 1, 2) for node in (1, 2) for n in range(9)]
    [cluster] = report(judged([plan("a", "BLOCKED")], rows)).clusters
    first, second = group_findings(cluster.findings)
    assert len(first.messages) == len(second.messages) == 9
    assert first.others == ""


def test_groups_leave_no_remedy_out() -> None:
    rows = [
        finding("a", "dependency_unmet", "blocker", feature=name, level=1, detail=f"{name} 2")
        for name in "xy"
    ] + [finding("a", "system_off", "blocker", feature=name, level=1) for name in "xy"]
    [cluster] = report(judged([plan("a", "BLOCKED")], rows)).clusters
    groups = group_findings(cluster.findings)
    assert {group.first.remedy for group in groups} == {f.remedy for f in cluster.findings}
    assert [len(group.messages) for group in groups] == [1, 1, 1]


def test_runs_of_nodes() -> None:
    assert nodes("broker", [2]) == "broker 2"
    assert nodes(None, [5, 2, 3, 2]) == "nodes 2-3, 5"
    assert nodes("broker", range(0, 60, 2)).endswith("22 and 18 more")
    assert some(["a", "b", "c"], 2) == "a, b and 1 more"
