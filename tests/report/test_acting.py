"""What the report gives whoever has to act: whose a cluster is, what can go up, what is too old."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from featurelib.audit.audit import judge
from featurelib.audit.evidence import Conditions, Expected
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.snapshot import ClusterState, fold_lines, snapshot_rows
from featurelib.view.as_json import render_json
from featurelib.view.model import Report
from featurelib.view.text import render_text
from tests.report.samples import CATALOGUE, DIALECT, HOURS_72, judge_samples
from tests.report.tables import AS_OF, Row, finding, judged, plan, report, unfit

HOUR = 3600 * 10**6
MOVES = "\nCan be finalized now\n"
CLUSTERS = "\nClusters, worst first\n"
BLOCKS = "\nWhat to do, cluster by cluster\n"


def words(text: str) -> str:
    return " ".join(text.split())


def section(said: Report, start: str, end: str, limit: int = 20) -> str:
    return render_text(said, limit=limit).split(start)[1].split(end)[0]


def step(feature: str = "metadata.version", start: int = 11, goal: int = 19) -> Row:
    levels = {"request": 1, "from_level": start, "to_level": goal}
    return {"feature": feature, **levels, "upgrade_type": "UPGRADE", "timeout_ms": 1}


def missing(cluster: str, severity: str = "unknown") -> list[Row]:
    nodes = [("broker", 1), ("broker", 2), ("broker", 3), ("controller", 100)]
    return [finding(cluster, "cluster_not_landed", "unknown")] + [
        finding(cluster, "expected_node_missing", severity, role=role, node_id=node)
        for role, node in nodes
    ]


# Whose it is.

OWNED = Fleet(
    cluster=(
        FleetEntry(id="a", name="payments", owner="billing", contact="#billing-oncall"),
        FleetEntry(id="b", name="search", owner="", managed_by="strimzi"),
        FleetEntry(id="c", name="calm", owner="nobody is woken"),
    )
)


def report_owned() -> Report:
    plans = [
        plan("a", "BLOCKED"),
        plan("b", "READY", steps=[step()]),
        plan("c", "UP_TO_DATE", "finalized"),
    ]
    rows = [unfit("a", 1, "f", 1, 2)]
    return report(judged(plans, rows), inventory=OWNED, plan_files={"b": "plans/b.json"})


def test_owner_and_contact_stand_where_somebody_has_to_act() -> None:
    said = report_owned()
    assert "billing · #billing-oncall" in section(said, CLUSTERS, BLOCKS)
    assert "owner  billing · #billing-oncall\n" in section(said, BLOCKS, "\nNext")
    assert "nobody is woken" not in render_text(said)


def test_the_next_step_names_whom_to_ask() -> None:
    only = replace(report_owned(), clusters=report_owned().clusters[:1])
    assert "Next payments (billing, #billing-oncall): Broker 1" in words(render_text(only))


def test_levels_of_a_managed_cluster_are_left_to_who_manages_it() -> None:
    said = report_owned()
    assert "managed by strimzi\n" in section(said, MOVES, CLUSTERS)
    block = section(said, BLOCKS, "\nNext")
    assert "managed  by strimzi, which finalizes there: levels are changed through it\n" in block
    assert (
        "and have strimzi carry it out, which finalizes there: featurelib show FOLDER/plans/b.json"
        in words(render_text(said))
    )


def test_a_plan_in_our_own_hands_is_proposed_before_a_managed_one() -> None:
    plans = [plan(name, "READY", steps=[step()]) for name in "bd"]
    files = {name: f"plans/{name}.json" for name in "bd"}
    said = report(judged(plans), inventory=OWNED, plan_files=files)
    text = words(render_text(said))
    assert text.endswith(
        "Read the plan of d, and carry it out step by step: featurelib show FOLDER/plans/d.json"
    )


def test_people_are_in_the_json_and_null_where_the_inventory_is_silent() -> None:
    clusters = {c["name"]: c for c in json.loads(render_json(report_owned()))["clusters"]}
    keys = ("owner", "contact", "managed_by")
    assert [clusters["payments"][key] for key in keys] == ["billing", "#billing-oncall", None]
    assert [clusters["search"][key] for key in keys] == [None, None, "strimzi"]


@pytest.mark.parametrize("hostile", ["\x1b[2J", "[red]x[/red]", "two\nlines", "x" * 300])
def test_hostile_people_stay_text(hostile: str) -> None:
    entry = FleetEntry(id="a", owner=hostile, contact=hostile, managed_by=hostile)
    tables = judged([plan("a", "BLOCKED", steps=[step()])], [unfit("a", 1, "f", 1, 2)])
    said = report(tables, inventory=Fleet(cluster=(entry,)))
    for text in (render_text(said), render_json(said).decode()):
        assert all(line.isprintable() for line in text.split("\n"))
    assert max(map(len, render_text(said).splitlines())) <= 100


# What can go up.


def test_what_can_be_finalized_is_a_section_with_levels_by_name() -> None:
    plans = [
        plan("held", "BLOCKED", steps=[step("f", 0, 1)]),
        plan("free", "READY", steps=[step(), {**step("group.version", 0, 1), "request": 2}]),
        plan("done", "UP_TO_DATE"),
    ]
    said = report(judged(plans, [unfit("held", 1, "g", 1, 2)]))
    rows = section(said, MOVES, CLUSTERS)
    assert (
        "free 2 metadata.version 11 (3.5-IV2) → 19 (3.7-IV4) group.version 0 (not finalized) → 1 "
        in words(rows)
    )
    assert rows.index("free ") < rows.index("held ")
    assert "BLOCKED beyond that" in rows
    assert "done" not in rows


def test_the_first_clusters_that_can_be_finalized_are_shown_and_the_others_counted() -> None:
    said = report(judged([plan(f"c{n:02}", "READY", steps=[step()]) for n in range(25)]))
    rows = section(said, MOVES, CLUSTERS)
    assert rows.count("3.7-IV4") == 20
    assert "… and 5 more: --limit 0 shows all" in rows
    assert section(said, MOVES, CLUSTERS, limit=0).count("3.7-IV4") == 25


def test_a_ready_cluster_without_a_finding_has_its_steps_in_its_block() -> None:
    said = report(judged([plan("a", "READY", steps=[step()])]), plan_files={"a": "plans/a.json"})
    block = section(said, BLOCKS, "\nNext")
    assert block.split() == words(
        "READY a rolling, 3 nodes plan 1. metadata.version 11 (3.5-IV2) → 19 (3.7-IV4) plans/a.json"
        " run kafka-features.sh --bootstrap-server HOST:PORT upgrade --feature metadata.version=19"
    ).split(" ")


def test_each_request_is_a_command_to_type_where_that_is_safe() -> None:
    two = [step(), step("group.version", 0, 1), {**step("f", 0, 2), "request": 2}]
    plain = report(judged([plan("a", "READY", steps=two)])).clusters[0]
    assert [command.partition("upgrade ")[2] for command in plain.commands] == [
        "--feature metadata.version=19 --feature group.version=1",
        "--feature f=2",
    ]
    hostile = report(judged([plan("a", "READY", steps=[step("f; rm -rf /", 0, 2)])])).clusters[0]
    assert hostile.commands == ()
    old = plan("a", "READY", steps=[step("f", 0, 2)]) | {"dialects": ["zk-2.7"]}
    assert report(judged([old])).clusters[0].commands == ()
    entry = FleetEntry(id="a", managed_by="strimzi")
    mine = judged([plan("a", "READY", steps=two)])
    assert report(mine, inventory=Fleet(cluster=(entry,))).clusters[0].commands == ()


def test_what_the_owner_of_a_managed_cluster_does_not_move_is_ours_to_carry_out() -> None:
    entry = FleetEntry(id="a", managed_by="strimzi")
    mine = judged([plan("a", "READY", steps=[step("group.version", 0, 1)])])
    said = report(mine, inventory=Fleet(cluster=(entry,)), plan_files={"a": "plans/a.json"})
    assert len(said.clusters[0].commands) == 1
    text = words(render_text(said))
    assert "by strimzi, which does not move what is planned: that is ours" in text
    assert "Read the plan of a, and carry it out step by step:" in text


# What did not land.


def test_a_cluster_that_did_not_land_is_said_once_with_its_nodes() -> None:
    plans = [plan("gone", "UNKNOWN", "unknown", 4)]
    said = report(judged(plans, missing("gone")))
    block = section(said, BLOCKS, "\nNext")
    assert "The inventory expects brokers 1-3 and controller 100 there." in block
    assert "expected_node_missing" not in block
    assert "cluster not landed\n" in section(said, CLUSTERS, BLOCKS)
    [cause] = said.causes
    assert (cause.code, cause.alone) == ("cluster_not_landed", 1)
    # The tables stay complete, and so does the JSON.
    assert said.fleet.findings == len(said.clusters[0].findings) == 5


def test_a_node_missing_from_a_cluster_that_landed_is_said() -> None:
    said = report(judged([plan("a", "UNKNOWN")], missing("a")[1:]))
    assert "Broker 2 is expected by the inventory" in render_text(said)


def test_missing_nodes_that_were_made_more_severe_are_said() -> None:
    said = report(judged([plan("a", "UNKNOWN")], missing("a", "critical")))
    assert "Broker 2 is expected by the inventory" in render_text(said)


# What is too old.


def report_old(*, days: int, gone: int = 0) -> Report:
    """The samples `days` after their newest line, with expected clusters that did not land."""
    tables = judge_samples(later=days * 24 * HOUR)
    if gone:
        plans = [plan(f"gone-{n}", "UNKNOWN", "unknown") for n in range(gone)]
        rows = [row for n in range(gone) for row in missing(f"gone-{n}")]
        more = judged(plans, rows)
        tables = replace(
            tables,
            plans=pa.concat_tables([tables.plans, more.plans]),
            findings=pa.concat_tables([tables.findings, more.findings]),
        )
    return report(tables, newest=AS_OF - days * 24 * HOUR)


def top(said: Report) -> str:
    return words(render_text(said).split("\n\n")[1])


def test_says_at_the_top_when_everything_is_too_old() -> None:
    said = report_old(days=100)
    assert said.fleet.all_too_old
    assert top(said) == (
        "Every verdict is UNKNOWN because the evidence of all 26 clusters is too old to judge by. "
        "The newest line is 100 days old (2026-08-13 05:46 UTC); what is older than 72 hours "
        "decides nothing. Collect the fleet again, or judge as of the newest line with "
        "--as-of newest."
    )
    assert render_text(said).endswith("\n./spark-submit.sh audit --tables FOLDER --as-of newest\n")


def test_a_missing_cluster_does_not_hide_that_the_rest_is_too_old() -> None:
    said = report_old(days=100, gone=2)
    assert (said.fleet.too_old, said.fleet.not_landed, said.fleet.all_too_old) == (26, 2, False)
    assert top(said).startswith(
        "Every verdict is UNKNOWN because the evidence of 26 of 28 clusters is too old to judge "
        "by, and nothing landed from the other 2. The newest line is 100 days old"
    )
    assert "Collect the fleet again" in render_text(said).split("\nNext")[1]


def test_nothing_is_said_of_age_where_nothing_is_too_old() -> None:
    said = report_old(days=0, gone=1)
    assert (said.fleet.too_old, said.fleet.not_landed) == (0, 1)
    assert "too old" not in top(said)


def test_a_share_that_is_too_old_is_said_after_the_counts() -> None:
    plans = [plan(name, "UNKNOWN") for name in "abc"]
    rows = [finding(name, "levels_too_old", "unknown") for name in "ab"]
    assert top(report(judged(plans, rows))) == (
        "3 of 3 clusters need a person. The evidence of 2 is too old to judge by: collect it again."
        " Need a person: clusters that are BLOCKED or UNKNOWN, or have a finding above info."
    )


def test_the_newest_line_is_no_remedy_where_it_is_young() -> None:
    rows = [finding("a", "levels_too_old", "unknown")]
    said = report(judged([plan("a", "UNKNOWN")], rows), newest=AS_OF - 71 * HOUR)
    text = words(render_text(said))
    assert "The newest line is 2 days old" in text
    assert "--as-of newest" not in text


def test_what_the_core_says_of_a_cluster_that_did_not_land_is_said_once() -> None:
    batch = _empty_row("gone")
    inventory = {"gone": Expected(brokers=(1, 2), controllers=(100,))}
    conditions = Conditions(as_of=AS_OF, max_age=HOURS_72, inventory=inventory)
    said = report(judge(batch, conditions, CATALOGUE, DIALECT))
    assert [found.code for found in said.clusters[0].findings] == [
        "cluster_not_landed",
        *["expected_node_missing"] * 3,
    ]
    text = render_text(said)
    assert "expects brokers 1-2 and controller 100 there" in text
    assert "expected_node_missing" not in text


def _empty_row(cluster: str) -> pa.RecordBatch:
    """A snapshot row as the audit makes it for an expected cluster that never landed."""
    rows: list[tuple[str, ClusterState]] = []
    rows.append((cluster, fold_lines([], CATALOGUE)))
    batch = snapshot_rows(rows)
    at = batch.schema.get_field_index("observed_at")
    return batch.set_column(at, batch.schema.field(at), pa.nulls(1, batch.schema.field(at).type))
