"""What is counted, in which order, what holds the fleet back, and what a plan cannot take back."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from xml.etree import ElementTree

import numpy as np
import pytest

from featurelib.audit.audit import Judged
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.extras.exports.ci import render_junit
from featurelib.planning.files import read_plan
from featurelib.planning.outlook import NONE, look_ahead
from featurelib.rows import TableRows, make_rows
from featurelib.tables import with_run
from featurelib.view.digest import group_findings
from featurelib.view.model import Level
from featurelib.view.text import render_text
from featurelib.words import time_text
from tests.report.samples import CATALOGUE, judge_samples, report_samples
from tests.report.scenes import step
from tests.report.tables import AS_OF, Row, finding, judged, plan, report, unfit

ASIDE = {"muted": "the disk is replaced", "muted_until": date(2026, 12, 31)}
PARTS = ("findings", "incompatible", "readiness", "plans")


def test_clusters_come_worst_first_then_by_name() -> None:
    verdicts = {"u": "UP_TO_DATE", "r": "READY", "b2": "BLOCKED", "k": "UNKNOWN"}
    verdicts |= {"c": "UP_TO_DATE", "b1": "BLOCKED"}
    rows = [finding("c", "features_node_damaged", "critical")]
    tables = judged([plan(name, verdict) for name, verdict in verdicts.items()], rows)
    assert [c.name for c in report(tables).clusters] == ["c", "k", "b1", "b2", "r", "u"]
    renamed = report(tables, names={"b1": "z", "b2": "a"}).clusters
    assert [c.name for c in renamed] == ["c", "k", "a", "z", "r", "u"]


def test_order_of_rows_changes_nothing() -> None:
    tables = judge_samples()
    turned = Judged(**{part: _reverse(getattr(tables, part)) for part in PARTS})
    assert report(tables) == report(turned)


def _reverse(rows: TableRows) -> TableRows:
    return rows.take(np.arange(len(rows))[::-1])


def test_columns_of_the_gold_tables_are_left_alone() -> None:
    tables = judge_samples()
    gold = Judged(
        **{
            part: make_rows(with_run(rows.schema), len(rows), rows.columns)
            for part in PARTS
            for rows in [getattr(tables, part)]
        }
    )
    assert report(tables) == report(gold)


MANY = [f"c{n:02}" for n in range(12)]
UNMET = finding("a", "dependency_unmet", "blocker", feature="x", level=1, detail="y 2")
OLD = "nodes that support metadata.version 7-25 (up to 4.0-IV3)"
GHOSTS = "nodes that are off and still registered"
# What is found, and of each cause its title, how many clusters it holds back, and how many alone.
CAUSES = {
    "nodes of one old release are one cause": (
        [
            unfit("a", 1, "metadata.version", 7, 25),
            unfit("a", 1, "share.version", None, None),
            unfit("b", 4, "metadata.version", 7, 25),
            unfit("b", 5, "metadata.version", 7, 25),
            unfit("b", 6, "metadata.version", 7, 21),
        ],
        [(OLD, 2, 1), ("nodes that support metadata.version 7-21 (up to 3.9-IV0)", 1, 0)],
    ),
    "a missing feature, where metadata.version is not in the way": (
        [unfit("a", 1, "search", None, None)],
        [("nodes that do not support search at all", 1, 1)],
    ),
    "what is off and registered, whether or not anybody knows what it supports": (
        [
            finding(name, code, severity, role="broker", node_id=2)
            for name in "ab"
            for code, severity in (("range_unknown", "unknown"), ("ghost_broker", "warning"))
        ],
        [(f"{GHOSTS}; their ranges are unknown", 2, 2)],
    ),
    "an unmet dependency, where nothing else is": (
        [UNMET, unfit("a", 1, "y", 0, 1)],
        [("nodes that support y 0-1", 1, 1)],
    ),
    "an unmet dependency alone": (
        [UNMET],
        [("a level depends on a level that cannot be finalized", 1, 1)],
    ),
    "missing evidence": (
        [finding(name, "voters_unknown", "unknown") for name in "ab"] + [unfit("c", 1, "f", 1, 2)],
        [("the voters of the quorum are unknown", 2, 2), ("nodes that support f 1-2", 1, 1)],
    ),
    "one that unlocks nothing alone goes behind one that does": (
        [unfit(name, 1, feature, 1, 2) for name in "abc" for feature in ("f", f"x{name}", "y")]
        + [unfit(name, 1, "g", 1, 2) for name in "de"],
        [(f"nodes that support {name} 1-2", n, alone) for name, n, alone in
         (("g", 2, 2), ("f", 3, 0), ("y", 3, 0), ("xa", 1, 0), ("xb", 1, 0), ("xc", 1, 0))],
    ),
    "one of many clusters goes before one that unlocks a single cluster": (
        [unfit(name, 1, feature, 1, 2) for name in MANY for feature in ("f", f"x{name}")]
        + [unfit("z", 1, "g", 1, 2)],
        [("nodes that support f 1-2", 12, 0), ("nodes that support g 1-2", 1, 1)],
    ),
    "what unlocks more clusters alone goes first": (
        [unfit(cluster, 1, feature, 1, 3) for cluster, feature in ("af", "bf", "bg", "cg", "ch")],
        [(f"nodes that support {name} 1-3", n, alone) for name, n, alone in
         (("f", 2, 1), ("g", 2, 0), ("h", 1, 0))],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "expected"), CAUSES.values(), ids=CAUSES)
def test_causes_are_what_nodes_share_and_what_unlocks_most_goes_first(
    rows: list[Row], expected: list[tuple[str, int, int]]
) -> None:
    names = {row["cluster"] for row in rows}
    causes = report(judged([plan(name, "BLOCKED") for name in names], rows)).causes
    shown = [(cause.title, cause.clusters, cause.alone) for cause in causes]
    assert shown[: len(expected)] == expected


def test_a_cause_counts_nodes_and_names_features_and_clusters() -> None:
    rows = [unfit("a", 1, name, 7, 25) for name in ("share.version", "metadata.version")]
    rows += [row | {"role": "controller"} for row in rows]  # two halves of one process
    [cause] = report(judged([plan("a", "BLOCKED")], rows)).causes
    assert cause.features == ("metadata.version", "share.version")
    assert (cause.nodes, cause.held) == (1, ("a",))


def test_many_nodes_with_one_fault_are_written_once_and_one_node_has_one_remedy() -> None:
    rows = [unfit("a", node, feature, 1, 2) for node in range(1, 51) for feature in "fgh"]
    rows += [unfit("b", node, f"f{node}{n}", 1, 2) for node in (1, 2) for n in range(9)]
    many, few = report(judged([plan("a", "BLOCKED"), plan("b", "BLOCKED")], rows)).clusters
    [group] = group_findings(many.findings)
    assert (len(group.messages), group.others) == (3, "The same holds for brokers 2-50.")
    assert [(len(g.messages), g.others) for g in group_findings(few.findings)] == [(9, "")] * 2


def test_groups_leave_no_remedy_out() -> None:
    rows = [
        finding("a", "dependency_unmet", "blocker", feature=name, level=1, detail=f"{name} 2")
        for name in "xy"
    ] + [finding("a", "system_off", "blocker", feature=name, level=1) for name in "xy"]
    [cluster] = report(judged([plan("a", "BLOCKED")], rows)).clusters
    groups = group_findings(cluster.findings)
    assert {group.first.action for group in groups} == {f.action for f in cluster.findings}
    assert [len(group.messages) for group in groups] == [1, 1, 1]


@pytest.mark.parametrize(
    ("verdict", "findings", "needs"),
    [
        ("BLOCKED", [unfit("a", 2, "f", 1, 2) | ASIDE, unfit("a", 3, "f", 1, 2)], True),
        ("UNKNOWN", [finding("a", "node_not_asked", "unknown", **ASIDE)], False),
        ("READY", [finding("a", "partial_answer", "warning", **ASIDE)], False),
        ("READY", [finding("a", "partial_answer", "warning")], True),
        ("READY", [finding("a", "partial_answer", "critical", **ASIDE)], False),
        # A mute of what does not hold it back makes no BLOCKED cluster somebody else's.
        (
            "BLOCKED",
            [
                unfit("a", 2, "f", 1, 2) | {"severity": "info"},
                finding("a", "partial_answer", "warning", **ASIDE),
            ],
            True,
        ),
    ],
)
def test_who_needs_a_person(verdict: str, findings: list[Row], needs: bool) -> None:
    assert report(judged([plan("a", verdict)], findings)).clusters[0].needs_person == needs


def test_muted_clusters_come_last_and_critical_ones_are_critical_no_more() -> None:
    critical = finding("b", "incompatible_with_finalized", "critical")
    tables = judged(
        [plan("a", "BLOCKED"), plan("b", "UP_TO_DATE"), plan("c", "BLOCKED")],
        [unfit("a", 2, "f", 1, 2) | ASIDE, critical | ASIDE, unfit("c", 2, "f", 1, 2)],
    )
    assert [cluster.name for cluster in report(tables).clusters] == ["c", "b", "a"]


def test_who_has_to_dump_the_log_is_told_into_which_folder_and_of_which_cluster() -> None:
    tables = judged([plan("a", "UNKNOWN")], [finding("a", "registrations_unproven", "unknown")])
    said = report(tables, names={"a": "a b"}, places=("new lines", "our fleet.toml"))
    [told] = said.clusters[0].findings
    assert told.action.endswith(
        "--kind metadata_log --cluster 'a b' --out 'new lines' --fleet 'our fleet.toml'."
    )
    [asked] = report(tables).clusters[0].findings
    assert asked.action.endswith(" (put the landing folder for LANDING).")


def test_the_report_says_of_a_plan_what_show_says_of_it() -> None:
    texts = {row["cluster"]: row["plan"] for row in judge_samples().plans.to_pylist()}
    found = {cluster.key: cluster for cluster in report_samples().clusters}
    said = list[int]()
    for key, text in texts.items():
        returns = {back.feature: back for back in found[key].returns}
        if text is None:
            assert returns == {}
            continue
        steps = look_ahead(read_plan(text, key).plan, CATALOGUE)
        points = {c.update.feature: c.no_return for step in steps for c in step.changes}
        names = {*points, *({"metadata.version"} & steps[-1].levels.keys())}
        assert returns.keys() == names
        for name, back in returns.items():
            assert number(back.point_of_no_return) == points.get(name, NONE)
        if "metadata.version" in returns:
            assert number(returns["metadata.version"].downgrade_floor) == steps[-1].floor
            said.append(steps[-1].floor)
    assert len(set(said)) > 2  # no one number for all of them


def test_steps_stand_in_the_order_in_which_they_are_carried_out() -> None:
    waiting = "eligible.leader.replicas.version"  # it needs metadata.version 23
    rows = [("metadata.version", 22, 27), ("group.version", 0, 1), (waiting, 0, 1)]
    steps = [step(name, start, goal) for name, start, goal in rows]
    strimzi = Fleet(cluster=(FleetEntry(id="a", managed_by="strimzi", managed_as="kafka/pay"),))
    [found] = report(judged([plan("a", "READY", steps=steps)]), inventory=strimzi).clusters
    told = [(one.request, one.feature, one.managed_by, one.waits) for one in found.steps]
    ours, theirs = (1, "group.version", None, False), (2, "metadata.version", "strimzi", False)
    assert told == [ours, theirs, (3, waiting, None, True)]


def test_findings_and_plans_are_groups_and_the_most_urgent_come_first() -> None:
    on = {"role": "broker", "node_id": 1}
    rows = [unfit(name, 1, "f", 1, 2) for name in "abc"]
    rows += [
        unfit("d", 2, "f", 1, 2),
        finding("d", "ghost_broker", "warning", **on | {"node_id": 2}),
    ]
    detail = "DescribeQuorum: DESCRIBE CLUSTER"
    rows += [finding("e", "right_missing", "unknown", **on, detail=detail)]
    rows += [finding("f", "cluster_not_landed", "unknown")]
    rows += [finding(name, "node_not_answering", "unknown", **on, detail="") for name in "gh"]
    bad = {"x": "features_node_damaged", "y": "incompatible_with_finalized", "i": "epoch_went_back"}
    rows += [finding(name, code, "critical", detail="") for name, code in bad.items()]
    rows[-1]["severity"] = "unknown"
    verdicts = dict.fromkeys("abcd", "BLOCKED") | dict.fromkeys("efghi", "UNKNOWN")
    plans = [plan(name, verdict) for name, verdict in verdicts.items()]
    plans += [plan(name, "UP_TO_DATE") for name in "xy"]
    plans += [plan(name, "READY", steps=[step()]) for name in "op"]
    whose = Fleet(cluster=(FleetEntry(id="p", managed_by="aiven"),))
    found = report(judged(plans, rows), inventory=whose)
    assert [(task.verb, "".join(task.clusters)) for task in found.today] == [
        ("Fix", "x"), ("Fix", "y"), ("Ask", "i"), ("Check", "gh"), ("Collect", "f"), ("Check", "d"),
        ("Approve", "o"), ("Hand over", "p"), ("Fix", "e"), ("Upgrade", "abc"),
    ]  # fmt: skip
    upgrade = found.today[9]
    assert upgrade.text == "The software of some nodes blocks levels."
    assert upgrade.how == (
        "In a (broker 1): Upgrade the software of broker 1. Likewise in b (broker 1), c (broker 1)."
    )
    short, long = (" ".join(render_text(found, width=1000, limit=n).split()) for n in (20, 0))
    left = "Fix: right missing, Upgrade: unsupported by node)"
    assert left in short
    assert left not in long


def test_an_order_of_a_row_holds_for_its_own_severity_alone() -> None:
    rows = [finding("a", "not_in_inventory", "critical"), finding("b", "voters_unknown", "unknown")]
    rows.append(finding("c", "of another release", "blocker", detail="x"))
    found = report(judged([plan(name, "UNKNOWN") for name in "abc"], rows)).today
    assert [(task.verb, task.clusters) for task in found] == [
        ("Fix", ("a",)), ("Fix", ("b",)), ("Fix", ("c",)),
    ]  # fmt: skip


def test_plans_wait_where_no_data_came_and_who_fell_silent_last_is_named_first() -> None:
    now = datetime.fromtimestamp(AS_OF / 1e6, UTC)
    ages = {"fresh": 1, "gone": 71, "silent": 28}
    plans = [
        plan(name, "READY", steps=[step()], newest_line=now - timedelta(hours=age))
        for name, age in ages.items()
    ]
    rows = [finding("lost", "cluster_not_landed", "unknown")]
    late, lost, approve = report(
        judged([*plans, plan("lost", "UNKNOWN")], rows), newest=AS_OF
    ).today
    assert (late.verb, late.clusters) == ("Collect", ("silent", "gone"))
    assert (lost.verb, lost.clusters) == ("Collect", ("lost",))
    assert (approve.verb, approve.clusters) == ("Approve", ("fresh",))
    said = [f"{name} since {time_text(now - timedelta(hours=age))}" for name, age in ages.items()]
    assert late.text == f"No new data from {said[2]} (1 day), from {said[1]} (3 days)."


def test_several_managers_finalize_and_msk_has_no_command_that_could_be_wrong() -> None:
    names = {"a": "msk", "b": "Strimzi", "c": "aiven"}
    entries = [
        FleetEntry(id=one, managed_by=who, managed_as=f"x/{one}") for one, who in names.items()
    ]
    said = {}
    for some in ("a", "ab", "abc"):
        plans = [plan(name, "READY", steps=[step(start=19, goal=21)]) for name in some]
        found = report(judged(plans), inventory=Fleet(cluster=tuple(entries)))
        [task] = found.today
        said[some] = task.how.partition(" On MSK")[0]
        assert task.command == ""
        assert task.how.endswith(
            " On MSK levels follow the Kafka version. Ask its support about one that did not."
        )
        assert found.clusters[0].owner_command is None
    assert said == {
        "a": "msk finalizes these levels: upgrade them there.",
        "ab": "msk and Strimzi finalize these levels: upgrade them there.",
        "abc": "msk, Strimzi, aiven finalize these levels: upgrade them there.",
    }


def number(level: Level | None) -> int:
    return NONE if level is None else level.number


@pytest.mark.parametrize("name", ["up \u202e down", "a catalogue of everything " * 9, "--tables"])
def test_commands_call_a_cluster_by_its_id_where_its_name_cannot_be_typed(name: str) -> None:
    rows = [finding("k1", "side_effect_by_name", "info", feature="f", level=1, detail="x")]
    rows += [finding("k1", "refused_by_own_controller", "blocker", feature="f", level=1)]
    plans = [plan("k1", "READY", steps=[step("f", 0, 2)]), plan("k2", "UNKNOWN")]
    known = tuple(FleetEntry(id=one, name=f"{name}{one}") for one in ("k1", "k2"))
    tables = judged(plans, [*rows, finding("k2", "cluster_not_landed", "unknown")])
    for one in report(tables, inventory=Fleet(cluster=known)).clusters:
        commands = [*one.commands, one.collect, *(found.command for found in one.findings)]
        printed = [text.split()[2] for text in commands if text]
        assert printed == [one.id] * (3 if one.id == "k1" else 1), commands


def test_a_quorum_comes_before_all_and_one_of_which_nobody_knows_before_silent_nodes() -> None:
    about = {"role": "controller", "node_id": 2, "detail": "refused"}
    silent = [finding(c, "node_not_answering", "unknown", **about) for c in ("few", "lost", "one")]
    start = {"voters": "1 of controllers 2-3", "detail": "1 of 3 voters responded"}
    unfit_one = finding("unfit", "incompatible_with_finalized", "critical", detail="", node_id=1)
    rows = [
        *silent,
        unfit_one,
        finding("few", "no_majority_answers", "unknown", **start),
        finding("lost", "quorum_without_leader", "critical", **start),
    ]
    names = ("few", "lost", "one", "unfit")
    said = report(judged([plan(name, "UNKNOWN") for name in names], rows))
    assert [(task.verb, task.clusters) for task in said.today] == [
        ("Fix", ("lost",)),
        ("Fix", ("unfit",)),
        ("Check", ("few",)),
        ("Check", ("one",)),
    ]
    one_line = {cluster.key: cluster.summary for cluster in said.clusters}
    few = "No majority of the voters responded (1 of 3 voters responded), and 1 more problem"
    assert one_line["few"] == few
    assert one_line["lost"].startswith("critical: The quorum has no leader (1 of 3")
    suites = ElementTree.fromstring(render_junit(said))
    failed = {one.get("name") for one in suites if one.get("failures") != "0"}
    assert failed == {"few", "lost", "unfit"}


def test_a_critical_node_that_does_not_answer_is_told_once() -> None:
    at = {"role": "broker", "node_id": 1}
    rows = [
        finding("a", "incompatible_with_finalized", "critical", **at, detail=""),
        finding("a", "node_not_answering", "unknown", **at, detail="refused"),
    ]
    found = report(judged([plan("a", "UNKNOWN")], rows)).today
    assert [(task.verb, task.clusters) for task in found] == [("Fix", ("a",))]
    rows.append(finding("a", "node_not_answering", "unknown", role="broker", node_id=2, detail=""))
    found = report(judged([plan("a", "UNKNOWN")], rows)).today
    assert [(task.verb, task.clusters) for task in found] == [("Fix", ("a",)), ("Check", ("a",))]


@pytest.mark.parametrize("kinds", [1, 2])
def test_what_helps_in_several_clusters_names_all_nodes_of_each(kinds: int) -> None:
    def unfit_at(name: str, node: int, high: int) -> dict[str, object]:
        of = {"role": "broker", "node_id": node, "feature": "f", "finalized_level": 3}
        ends = {"min_version": high - 1, "max_version": high}
        return finding(name, "incompatible_with_finalized", "critical", **of, **ends)

    rows = [unfit_at(*of, 2) for of in (("a", 5), ("a", 6), ("b", 4), ("b", 7))]
    rows += [unfit_at("c", 1, 5)] * (kinds - 1)
    names = {str(row["cluster"]) for row in rows}
    [task] = report(judged([plan(name, "UP_TO_DATE") for name in sorted(names)], rows)).today
    assert "In a (brokers 5-6): " in task.how
    assert "Likewise in b (brokers 4, 7)." in task.how
