"""What is counted, in which order, what holds the fleet back, and what a plan cannot take back."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from xml.etree import ElementTree

import numpy as np
import pytest

from featurelib.audit.audit import Judged
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.planning.files import read_plan
from featurelib.planning.outlook import NONE, look_ahead
from featurelib.rows import TableRows, make_rows
from featurelib.tables import with_run
from featurelib.view.ci import render_junit
from featurelib.view.digest import group_findings
from featurelib.view.model import Level
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


def test_a_phase_of_earlier_nights_is_read_by_its_name_of_today() -> None:
    [cluster] = report(judged([plan("c", "READY", "rolling")])).clusters
    assert cluster.phase.value == "mixed software"


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
        [(f"{GHOSTS}, of which nobody knows what they support", 2, 2)],
    ),
    "an unmet dependency, where nothing else is": (
        [UNMET, unfit("a", 1, "y", 0, 1)],
        [("nodes that support y 0-1", 1, 1)],
    ),
    "an unmet dependency alone": ([UNMET], [("what a level needs cannot be finalized", 1, 1)]),
    "missing evidence": (
        [finding(name, "voters_unknown", "unknown") for name in "ab"] + [unfit("c", 1, "f", 1, 2)],
        [("nothing shows who votes", 2, 2), ("nodes that support f 1-2", 1, 1)],
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
    assert {group.first.remedy for group in groups} == {f.remedy for f in cluster.findings}
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
    assert told.remedy.endswith(
        "--kind metadata_log --cluster 'a b' --out 'new lines' --fleet 'our fleet.toml'."
    )
    [asked] = report(tables).clusters[0].findings
    assert asked.remedy.endswith(" (put the landing folder for LANDING).")


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


def test_what_is_less_urgent_shares_a_line_where_seven_are_too_few() -> None:
    """Three clusters wait for an upgrade, one has a ghost; two plans take their lines."""
    on = {"role": "broker", "node_id": 1}
    rows = [unfit(name, 1, "f", 1, 2) for name in "abc"]
    rows += [
        unfit("d", 2, "f", 1, 2),
        finding("d", "ghost_broker", "warning", **on | {"node_id": 2}),
    ]
    detail = "DescribeQuorum: DESCRIBE CLUSTER"
    rows += [finding("e", "right_missing", "unknown", **on, detail=detail)]
    rows += [
        finding("f", "cluster_not_landed", "unknown"),
        finding("g", "node_not_answering", "unknown", **on),
    ]
    rows += [finding("h", "expected_node_missing", "unknown", **on)]
    bad = {"x": "incompatible_with_finalized", "y": "unmet_dependency"}
    rows += [finding(name, code, "critical") for name, code in bad.items()]
    verdicts = dict.fromkeys("abcd", "BLOCKED") | dict.fromkeys("efgh", "UNKNOWN")
    plans = [plan(name, verdict) for name, verdict in verdicts.items()]
    plans += [plan(name, "UP_TO_DATE") for name in bad]
    urgent = [("Fix", "x"), ("Fix", "y"), ("Collect", "f"), ("Check", "gh"), ("Fix", "e")]
    found = report(judged(plans, rows)).today
    where = [(task.verb, "".join(task.clusters)) for task in found]
    assert where == [*urgent, ("Check", "d"), ("Upgrade", "abc")]
    assert found[4].command
    assert found[3].codes == ("node_not_answering", "expected_node_missing")
    plans += [plan(name, "READY", steps=[step()]) for name in "op"]
    plans.append(plan("z", "UP_TO_DATE"))
    rows.append(finding("z", "features_node_damaged", "critical"))
    whose = Fleet(cluster=(FleetEntry(id="p", managed_by="aiven"),))
    found = report(judged(plans, rows), inventory=whose).today
    where = [(task.verb, "".join(task.clusters)) for task in found]
    grave = [("Fix", "z"), ("Fix", "xy")]
    assert where == [*grave, *urgent[2:], ("Approve", "op"), ("Look at", "abcd")]
    assert found[1].text == (
        "Nodes do not support what is finalized in 1 cluster, unmet dependency in 1 cluster."
    )
    assert " Hand over: " in found[5].how
    assert found[5].how.endswith("aiven finalizes that: change it there.")
    # What unlocks most comes first.
    assert found[6].text == (
        "The software of some nodes holds levels back in 3 clusters, brokers are off and still "
        "registered in 1 cluster."
    )
    assert found[6].how == (
        "In a (broker 1): Upgrade the software of broker 1. Likewise in b (broker 1), c (broker "
        "1). In d (broker 2): Check its address, the network, the credentials and its load first. …"
    )


def test_a_task_of_several_clusters_says_what_helps_in_each_of_them() -> None:
    def unfit_at(name: str, node: int, high: int) -> dict[str, object]:
        of = {"role": "broker", "node_id": node, "feature": "f", "finalized_level": 3}
        ends = {"min_version": high - 1, "max_version": high}
        return finding(name, "incompatible_with_finalized", "critical", **of, **ends)

    rows = [unfit_at("b", 3, 5), unfit_at("c", 5, 2), unfit_at("d", 12, 2)]
    rows.append(finding("e", "features_node_damaged", "critical"))
    plans = [plan(name, "UP_TO_DATE") for name in "bcde"]
    plans += [plan(name, "READY", steps=[step()]) for name in "op"]
    dark = ["voters_unknown", "node_not_asked", "mode_unknown", "release_unknown"]
    dark.append("witnesses_disagree")
    for n, code in enumerate([*dark, dark[-1]]):
        plans.append(plan(f"u{n}", "UNKNOWN"))
        rows.append(finding(f"u{n}", code, "unknown"))
    plans += [plan("lost", "UNKNOWN"), plan("held", "BLOCKED")]
    rows += [finding("lost", "cluster_not_landed", "unknown"), unfit("held", 1, "f", 1, 2)]
    whose = Fleet(cluster=(FleetEntry(id="p", managed_by="aiven"),))
    today = report(judged(plans, rows), inventory=whose).today
    found = {task.clusters: task.how for task in today}
    begins = "its range begins above what is finalized, and newer software does not help. …"
    assert found["b", "c", "d"] == (
        f"In b (broker 3): Run older software on broker 3: {begins} In c (broker 5): Upgrade the "
        "software of broker 5 until it supports the level, or take it out of the cluster. Likewise "
        "in d (broker 12)."
    )
    how = found[tuple(f"u{n}" for n in (4, 5, 0, 1, 2, 3))]
    assert how.startswith("In u4: Collect again. … Likewise in u5. In u0: ")  # what helps in most
    assert how.endswith(" In 1 more cluster: something else.")


def test_what_went_back_is_asked_and_who_does_not_answer_shares_a_line_where_it_must() -> None:
    """Eight kinds of things to do: one more than there are lines."""
    on = {"role": "broker", "node_id": 1}
    codes = {"bad": "incompatible_with_finalized", "mute": "node_not_answering"}
    codes |= {"lost": "cluster_not_landed", "dark": "voters_unknown", "back": "epoch_went_back"}
    grave = {"bad": "critical"}
    rows = [finding(name, code, grave.get(name, "unknown"), **on) for name, code in codes.items()]
    rows += [unfit("held", 1, "f", 1, 2), finding("back", "right_missing", "unknown", detail="")]
    plans = [plan(name, "UP_TO_DATE" if name == "bad" else "UNKNOWN") for name in codes]
    plans += [plan(name, "READY", steps=[step()]) for name in ("ours", "theirs")]
    whose = Fleet(cluster=(FleetEntry(id="theirs", managed_by="aiven"),))
    first = [("Fix", ("bad",)), ("Ask", ("back",)), ("Collect", ("lost",))]
    moves = [("Approve", ("ours",)), ("Hand over", ("theirs",))]
    found = report(judged(plans, rows), inventory=whose).today
    where = [(task.verb, task.clusters) for task in found]
    assert where == [*first, ("Check", ("mute",)), ("Fix", ("dark",)), *moves]
    plans.append(plan("held", "BLOCKED"))
    found = report(judged(plans, rows), inventory=whose).today
    where = [(task.verb, task.clusters) for task in found]
    assert where == [*first, ("Fix", ("mute", "dark")), *moves, ("Upgrade", ("held",))]
    assert (found[1].text, found[1].codes) == ("Metadata went back in back.", ("epoch_went_back",))


def test_who_never_landed_and_for_how_many_nights_others_did_not_is_said_newest_first() -> None:
    now = datetime.fromtimestamp(AS_OF / 1e6, UTC)
    ages = {"fresh": 1, "gone": 71, "early": 25, "silent": 28}
    plans = [
        plan(name, "READY", steps=[step()], newest_line=now - timedelta(hours=age))
        for name, age in ages.items()
    ]
    rows = [finding("early", "evidence_from_the_future", "warning", detail="1 line")]
    rows.append(finding("lost", "cluster_not_landed", "unknown"))
    task, approve = report(judged([*plans, plan("lost", "UNKNOWN")], rows), newest=AS_OF).today
    assert task.clusters == ("silent", "early", "gone", "lost")
    # Nobody knows what the others are by now.
    assert (approve.verb, approve.clusters) == ("Approve", ("fresh",))
    said = [f"{name} since {time_text(now - timedelta(hours=age))}" for name, age in ages.items()]
    assert task.text == (
        f"Nothing that counts landed from {said[3]} (1 night), {said[2]} (1 night), {said[1]} (3 "
        "nights). No data was ever collected from lost. Lines from early are dated ahead: set its "
        "collector's clock."
    )


def test_an_owner_all_of_whose_clusters_are_silent_is_named() -> None:
    owners = {"a": "media", "b": "media", "c": "ledger", "d": "ledger", "e": "alone"}
    now = datetime.fromtimestamp(AS_OF / 1e6, UTC)
    plans = [
        plan(name, "UP_TO_DATE", newest_line=now - timedelta(hours=25 if name in "abce" else 1))
        for name in owners
    ]
    entries = tuple(FleetEntry(id=name, owner=owner) for name, owner in owners.items())
    [task] = report(judged(plans), newest=AS_OF, inventory=Fleet(cluster=entries)).today
    shared = "Among them are all 2 clusters of media: look first at what these share."
    assert task.text.endswith(shared)
    assert (task.text.count("all 2"), "alone" in task.text) == (1, False)


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
        "a": "msk finalizes that: change it there.",
        "ab": "msk and Strimzi finalize that: change it there.",
        "abc": "msk, Strimzi, aiven finalize that: change it there.",
    }


def number(level: Level | None) -> int:
    return NONE if level is None else level.number


@pytest.mark.parametrize(("names", "said"), [("d", "It holds"), ("de", "They hold")])
def test_ghosts_are_said_to_hold_back_in_their_number(names: str, said: str) -> None:
    ghost = {"role": "broker", "node_id": 2}
    rows = [unfit(name, 2, "f", 1, 2) for name in names]
    rows += [finding(name, "ghost_broker", "warning", **ghost) for name in names]
    today = report(judged([plan(name, "BLOCKED") for name in names], rows)).today
    [task] = [task for task in today if task.verb == "Check"]
    assert task.text.endswith(f" {said} back f.")


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
    start = {"to_fix": "1 of controllers 2-3", "detail": "1 of 3 voters answered"}
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
    few = "no majority answers: 1 of 3 voters answered, node not answering"  # words, and no code
    assert one_line["few"] == few
    assert one_line["lost"].startswith("critical: quorum without leader; node not answering")
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
