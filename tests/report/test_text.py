"""The terminal text: widths, colour, limits, names from a hostile place, places of lines."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from featurelib.audit.findings import Mute
from featurelib.config.fleet import Fleet
from featurelib.config.fleet import FleetEntry as Entry
from featurelib.core.dialect import STRICT
from featurelib.extras.exports.sheets import Sheet, render_sheet
from featurelib.model import Reason
from featurelib.planning.goal import Command, Goal, Intent
from featurelib.planning.planner import Planned
from featurelib.snapshot.history import LevelChange, LevelMove
from featurelib.view.digest import history_lines
from featurelib.view.facts import Links, RunFacts
from featurelib.view.html import render_html
from featurelib.view.layout import width_of, wrap
from featurelib.view.model import render_json
from featurelib.view.plan import Onward, planning_page
from featurelib.view.report import add_details, report_run, summarize
from featurelib.view.text import render_text, report_page
from featurelib.view.trend import other_changes
from featurelib.words import LONGEST_PATH
from tests.report.page import read_page
from tests.report.samples import CATALOGUE, made_up_nights, report_samples
from tests.report.tables import AS_OF, SEEN, finding, judged, plan, report, unfit

BY_NODE = "unsupported_by_node"
ESCAPES = re.compile(r"\x1b\[[\d;]*m")
HOSTILE = [
    "\x1b]0;owned\x07\x1b[2J\x1b[31mred",
    "[bold red]markup[/] [link=http://x]y[/link] :skull:",
    "two\nlines\r\nand\ttab",
    "x" * 300,
    "\u202egnp.exe\u2066\u200f",
    "{node} {0} %s <b>html</b> =1+1",
    "名前" * 80,
    "\x00\x7f\x9b\ufeff\u2028",
]


@pytest.mark.parametrize("width", [30, 50, 71, 72, 80, 100, 120, 200])
@pytest.mark.parametrize("limit", [0, 20])
def test_no_line_is_wider_than_asked(width: int, limit: int) -> None:
    text = render_text(report_samples(), width=width, limit=limit)
    assert widest(text) <= width


COMMANDS = r"featurelib |kubectl |grep |\./spark-submit\.sh |[a-z-]+\.sh "


def widest(text: str) -> int:
    """Columns of the widest line of a report; a command is one line, so that it can be copied."""
    lines = ESCAPES.sub("", text).split("\n")
    command = re.compile(rf" *(run  |{COMMANDS})")
    return max(width_of(line) for line in lines if not command.match(line))


def test_no_line_ends_in_blanks_and_no_gap_is_two_lines_high() -> None:
    text = render_text(report_samples())
    assert not re.search(r"[ \t]\n", text)
    assert "\n\n\n" not in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_colour_changes_no_letter() -> None:
    plain, colourful = render_text(report_samples()), report_page(report_samples(), 100).painted
    assert "\x1b" not in plain
    assert "\x1b[31m" in colourful
    bare = "\n".join(line.rstrip() for line in ESCAPES.sub("", colourful).splitlines())
    assert bare.rstrip("\n") + "\n" == plain


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("colour", [False, True])
def test_hostile_values_stay_text(hostile: str, colour: bool) -> None:
    rows = [
        unfit(hostile, 2, hostile, 1, 2),
        finding(hostile, "node_not_answering", "unknown", role="broker", node_id=3, detail=hostile),
        finding(hostile, "witnesses_disagree", "unknown", feature=hostile, detail=hostile),
    ]
    step = {
        "request": 1,
        "feature": hostile,
        "from_level": 0,
        "to_level": 1,
        "upgrade_type": "UPGRADE",
    }
    tables = judged(
        [plan(hostile, "BLOCKED", steps=[step | {"timeout_ms": 1}])],
        rows,
        [{"cluster": hostile, "feature": hostile, "verdict": "BLOCKED", "ceiling": 2}],
    )
    people = {"owner": hostile, "contact": hostile, "managed_by": hostile}
    for entry in ({}, {"name": hostile, **people}, {"name": "payments"}):
        inventory = Fleet(cluster=(Entry(id=hostile, **entry),))
        said = report(tables, inventory=inventory, plan_files={hostile: hostile})
        for width in (40, 80):
            page = report_page(said, width, limit=0)
            text = page.painted if colour else str(page)
            assert all(line.isprintable() for line in ESCAPES.sub("", text).split("\n"))
            assert widest(text) <= width
        if not colour:
            assert "\x1b" not in text
        assert all(line.isprintable() for line in render_json(said).decode().split("\n"))


def test_the_first_rows_are_shown_and_the_others_counted() -> None:
    plans = [plan(f"cluster-{n:02}", "BLOCKED") for n in range(25)]
    rows = [unfit(f"cluster-{n:02}", 1, "f", 1, 2) for n in range(25)]
    said = report(judged(plans, rows))
    text = render_text(said)
    assert text.count("… and 5 more: --limit 0 shows all") == 2
    assert "cluster-19" in text
    assert "cluster-20" not in text
    assert "Can be finalized now" not in text
    text = render_text(said, limit=0)
    assert "more: --limit" not in text
    assert text.count("cluster-24") == 4  # today, the cause, the table, and by itself
    assert render_text(said, limit=3).count("… and 22 more: --limit 0 shows all") == 2


def test_the_first_findings_of_a_cluster_are_shown_and_the_others_counted() -> None:
    rows = [unfit("a", node, "f", 1, node) for node in range(1, 26)]
    said = report(judged([plan("a", "BLOCKED")], rows))
    text = render_text(said)
    assert text.count("\n   blocker  ") == 20
    assert "\n            … and 5 more findings: --limit 0 shows all\n" in text
    assert "Broker 21" not in text
    text = render_text(said, limit=0)
    assert text.count("\n   blocker  ") == 25
    assert "more finding" not in text
    assert "… and 1 more finding: --limit 0" in render_text(said, limit=24)


@pytest.mark.parametrize(
    ("out", "command"),
    [
        ("/data/out/", "featurelib show /data/out/plans/b.json"),
        ("file:/data/out", "featurelib show /data/out/plans/b.json"),
        ("my out", "featurelib show 'my out/plans/b.json'"),
        ("", "featurelib show FOLDER/plans/b.json"),
    ],
)
def test_a_plan_is_the_next_step_where_nothing_is_broken(out: str, command: str) -> None:
    step = {"request": 1, "feature": "f", "from_level": 0, "to_level": 1}
    step["upgrade_type"] = "UPGRADE"
    ready = plan("b", "READY", steps=[step | {"timeout_ms": 1}])
    tables = judged([plan("a", "BLOCKED"), ready], [unfit("a", 1, "f", 1, 2)])
    said = report(tables, plan_files={"b": "plans/b.json"}, out=out)
    text = " ".join(render_text(said).split())
    next_step = "Next Approve b: f 0 (not finalized) → 1. Read the plan, then approve it. "
    assert text.endswith(next_step + command)


def test_evidence_names_the_last_folder_and_the_json_the_whole_path() -> None:
    path = "/data/" + "deep/" * 20 + "ghost-broker/landing.jsonl:48"
    rows = [finding("a", "ghost_broker", "critical", role="broker", node_id=2, line_id=7)]
    said = report(judged([plan("a", "BLOCKED")], rows), find_line={7: path}.get)
    for text in (render_text(said), render_html(said)):
        assert " · ghost-broker/landing.jsonl:48" in text
        assert "deep/" not in text
    assert said.clusters[0].findings[0].line == path
    endless = report(judged([plan("a", "BLOCKED")], rows), find_line={7: "x" * 999 + ":48"}.get)
    assert (endless.clusters[0].findings[0].line or "").endswith("x…:48")


@pytest.mark.parametrize("width", [24, 31, 44, 57])
def test_a_line_reference_is_never_broken_inside_its_number(width: int) -> None:
    path = "/data/größe-日本語-of-the-landing-zone/landing.jsonl:12345"
    rows = [finding("a", "ghost_broker", "critical", role="broker", node_id=2, line_id=7)]
    run = report_run(CATALOGUE, 1, 0, RunFacts(quarantine=(1, [(path, "none such", None)])))
    tables = judged([plan("a", "BLOCKED")], rows)
    said = summarize(tables, run, CATALOGUE, links=Links(find_line={7: path}.get))
    text = render_text(said, width=width)
    assert text.count(":12345") == 2
    assert "".join(text.split()).count("landing-zone/landing.jsonl:12345") == 2
    assert max(map(width_of, text.splitlines())) <= width


def test_a_place_without_a_number_is_cut_as_a_path_is() -> None:
    run = report_run(CATALOGUE, 1, 0, RunFacts(quarantine=(1, [("x" * 999, "none such", None)])))
    assert run.quarantine is not None
    assert run.quarantine.newest[0].line == "x" * (LONGEST_PATH - 1) + "…"


def test_a_line_that_was_left_out_names_its_cluster_where_it_shows_one() -> None:
    lines = [("a:1", "cut", "pay"), ("a:2", "cut", "not listed"), ("a:3", "cut", None)]
    run = report_run(CATALOGUE, 1, 0, RunFacts(quarantine=(3, lines)))
    said = replace(report(judged([plan("k", "READY")])), run=run)
    page = " ".join(read_page(render_html(said)).texts)
    for line in ("pay: a:1: cut", "not listed: a:2: cut"):
        assert line in render_text(said)
        assert line in page
    assert " a:3: cut" in page


def test_what_was_read_first_is_no_change_of_a_level() -> None:
    said = report(judged([plan("one", "UP_TO_DATE", "finalized")]))
    times = [datetime(2026, 11, day, 8, tzinfo=UTC) for day in (20, 20, 21)]
    moves = [("metadata.version", 0, 25), ("group.version", 0, 1), ("metadata.version", 25, 27)]
    changes = [
        LevelChange(at=at, epoch=epoch, changes=(LevelMove(*move),))
        for epoch, (at, move) in enumerate(zip(times, moves, strict=True), start=4)
    ]
    still = (LevelMove("metadata.version", 27, 27), LevelMove("group.version", 1, 0))
    changes.append(LevelChange(at=times[2], epoch=2, epoch_before=6, changes=still))
    [one] = add_details(said, {}, {"one": changes}, CATALOGUE).clusters
    assert history_lines(one) == [
        ("first read 2026-11-20 08:00 UTC, epoch 4", "metadata.version 25 (4.0-IV3)"),
        ("first read 2026-11-20 08:00 UTC, epoch 5", "group.version 1"),
        ("read 2026-11-21 08:00 UTC, epoch 6", "metadata.version 25 (4.0-IV3) → 27 (4.1-IV1)"),
        (
            "read 2026-11-21 08:00 UTC, epoch decreased from 6 to 2",
            "metadata.version 27 (4.1-IV1), group.version 1 → 0 (not finalized)",
        ),
    ]


def test_what_fell_silent_and_which_mute_ran_out_is_said_in_the_night_it_happens() -> None:
    then = datetime.fromtimestamp(AS_OF / 1e6, UTC) - timedelta(days=1)
    ages = {"calm": 0, "fresh": 24, "old": 49}
    plans = [
        plan(name, "UP_TO_DATE", "finalized", newest_line=then + timedelta(hours=24 - age))
        for name, age in ages.items()
    ]
    days = {"ghost_broker": then.date(), "voters_unknown": then.date() - timedelta(days=1)}
    mutes = tuple(Mute(code=code, reason="known", until=day) for code, day in days.items())
    said = report(
        judged(plans),
        newest=AS_OF,
        mutes=mutes,
        nights=made_up_nights(20261121080000, then + timedelta(days=1)),
        before=dict.fromkeys(ages, "UP_TO_DATE"),
    )
    lines = ["no usable data was collected from fresh", "ran out: the mute of ghost_broker"]
    assert other_changes(said) == lines
    text, page = render_text(said), render_html(said)
    assert [(line in text, line in page) for line in lines] == [(True, True)] * 2


def test_how_far_a_level_that_is_not_known_could_go_is_no_target() -> None:
    row = {"cluster": "a", "feature": "kraft.version", "verdict": "UNKNOWN", "ceiling": 1}
    levels = [row | {"finalized_level": n} for n in (None, 0)]
    texts = [render_text(report(judged([plan("a", "UNKNOWN")], [], [n])), limit=0) for n in levels]
    assert "kraft.version  not known, possible up to 1  UNKNOWN" in texts[0]
    assert "kraft.version  0 (not finalized) → 1  UNKNOWN" in texts[1]


def test_each_of_several_ghosts_has_its_own_command() -> None:
    gone = [
        finding(
            "a", "ghost_broker", "warning", role="broker", node_id=n, finalized_level=25, detail=""
        )
        for n in (2, 3)
    ]
    rows = [unfit("a", 2, "f", 1, 2), unfit("a", 3, "f", 1, 2), *gone]
    said = report(judged([plan("a", "BLOCKED")], rows))
    lines = [
        f"kafka-cluster.sh unregister --bootstrap-server HOST:PORT --id {node}" for node in (2, 3)
    ]
    text, page = render_text(said), render_html(said)
    [task] = said.today
    assert task.command == ""  # it stands beside its condition only
    for line in lines:
        assert text.count(line) == 1
        assert (f"<code>{line}</code>" in page, f"<pre>{line}</pre>" in page) == (False, True)
    # So has each of the reasons against a plan, whose remedy is said once.
    reasons = tuple(
        Reason(
            judge=STRICT,
            code="unsupported_by_node",
            message=f"{i}.",
            feature="f",
            action="r",
            command=line,
        )
        for i, line in enumerate(lines)
    )
    planned = Planned(intent=Intent(command=Command.UPGRADE_ALL), goal=Goal(), refusals=reasons)
    refused = str(planning_page(planned, "a", "b", CATALOGUE, onward=Onward()))
    assert [refused.count(line) for line in (*lines, "→ r")] == [1, 1, 1]


def test_no_part_of_a_cell_is_a_formula_where_a_semicolon_separates_cells() -> None:
    known = Fleet(cluster=(Entry(id="c", owner='a;=HYPERLINK("http://evil.example");\t+1; b'),))
    sheet = render_sheet(report(judged([plan("c", "BLOCKED")]), inventory=known), Sheet.CLUSTERS)
    expected = '"a;\'=HYPERLINK(""http://evil.example"");\\t+1; b"'
    assert expected in sheet


def test_a_word_wider_than_its_column_is_parted_there_and_the_table_stays_one() -> None:
    name = "payments-settlement-prod-eu-central-1-blue"
    owner = '=HYPERLINK("http://evil.example","x")'
    known = Fleet(cluster=(Entry(id="long", name=name, owner=owner),))
    plans = [plan("long", "BLOCKED"), plan("other", "UP_TO_DATE", "finalized")]
    text = render_text(report(judged(plans), inventory=known), limit=0)
    table = text[text.index("Clusters, worst first") :]
    assert "BLOCKED · cluster" not in text
    assert "\nUP_TO_DATE  other  " in table
    assert max(map(len, text.splitlines())) <= 100


def test_an_address_wider_than_its_line_is_parted_at_a_mark() -> None:
    address = "kafka-102.fraud-prod.example:9093:"
    lines = wrap(f"controller 102: {address}", 33, parts=True)
    assert [line.strip() for line in lines] == [
        "controller 102:",
        "kafka",
        "-102.fraud-prod.example:9093:",
    ]
    assert wrap("x" * 40, 33, parts=True) == ["x" * 33, "x" * 7]


def test_evidence_too_old_in_two_ways_is_to_be_collected_once() -> None:
    old = [
        finding("c", "evidence_too_old", "unknown", role="broker", node_id=1, observed_at=SEEN),
        finding("c", "levels_too_old", "unknown", observed_at=SEEN),
    ]
    for rows in (old, old[1:]):
        today = report(judged([plan("c", "UNKNOWN")], findings=rows)).today
        assert [(task.verb, task.clusters) for task in today] == [("Collect", ("c",))]
