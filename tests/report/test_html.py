"""The page: who is in the way stands out, hostile texts stay texts, thousands of clusters fit."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path

import pytest

from featurelib.api.tables import plan_files
from featurelib.audit.findings import Mute
from featurelib.config.fleet import Fleet, FleetPart
from featurelib.config.fleet import FleetEntry as Entry
from featurelib.planning.files import read_plan
from featurelib.snapshot.history import LevelMove
from featurelib.view.html import (
    IN_FULL,
    WIDTH,
    Scale,
    page_names,
    render_html,
    render_pages,
)
from featurelib.view.plot import BARS, LABEL, STATES, draw
from featurelib.view.prometheus import render_prometheus
from featurelib.view.report import narrow
from featurelib.view.text import render_text
from featurelib.view.trend import gather_levels, gather_moves, trends
from featurelib.words import age, time_text
from tests.report.page import read_page
from tests.report.samples import judge_samples, made_up_nights, report_samples
from tests.report.scenes import step
from tests.report.tables import AS_OF, SEEN, Nodes, finding, judged, plan, report, unfit, with_nodes

MOST = 3 << 20  # bytes of the one file
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; DROP TABLE clusters; --",
    '=HYPERLINK("http://evil.example")',
    "\x1b[2J\x1b]0;title\x07",
    "‮gnp.elif",
    "{{ 77 * 7777 }}{% raw %}",
    "javascript:alert(1)",
    "&lt;b&gt;",
]


def test_every_sample_stands_in_full_and_every_link_leads_somewhere() -> None:
    said = report_samples()
    page = read_page(render_html(said))
    assert page.articles == len(said.clusters) == len(page.rows)
    inside = [link[1:] for link in page.links if link.startswith("#") and "=" not in link]
    assert set(inside) <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert list(render_pages(said, most=9)) == []
    whole = " ".join(page.texts)
    for cluster in said.clusters:
        for found in cluster.findings:
            assert not found.command or found.command in whole
        for command in cluster.commands:
            assert command in whole


def test_a_code_leads_to_what_it_means_does_and_rests_on() -> None:
    said = report_samples()
    known = (Path(__file__).parents[2] / "docs" / "vocabulary.md").read_text("utf-8")
    text = " ".join(read_page(render_html(said)).texts).partition("What the codes mean")[2]
    for code in {one.code for cluster in said.clusters for one in cluster.findings}:
        where = [(c, one) for c in said.clusters for one in c.findings if one.code == code]
        (first, found), severity = where[0], where[0][1].severity
        *_, meaning = re.findall(rf"^\| `{severity}` \| (.*) \|$", known, re.MULTILINE)
        told = f" {code} {severity}: {meaning} In {first.name} : {found.statement} "
        assert f"{told}Do: {found.action} Rests on: {found.source}. " in text


def marks(**levels: int) -> list[tuple[str, str]]:
    then = {
        "downgrade_floor": levels.pop("then", None),
        "point_of_no_return": levels.pop("point", None),
    }
    row = {"cluster": "c", "feature": "f", "verdict": "READY", "ceiling": 9, "target": 8, **levels}
    returns = [{"feature": "other", "downgrade_floor": 1}, {"feature": "f", **then}]
    plans = [plan("c", "READY", returns_after=returns)]
    said = report(judged(plans, readiness=[row]))
    [cluster] = with_nodes(said, {("broker", 1): {"f": (0, 9)}}).clusters
    [plot] = draw(cluster)
    return [(mark.kind, mark.text) for mark in plot.marks]


def test_marks_that_fall_together_are_one_mark_with_all_their_words() -> None:
    usual = [("finalized", "finalized 5"), ("target", "target 8"), ("ceiling", "ceiling 9")]
    assert marks(finalized_level=5) == usual
    assert marks(finalized_level=5, downgrade_floor=3, then=6, point=7) == [
        *usual,
        ("floor", "floor today 3"),
        ("floor", "floor after the plan 6"),
        ("end", "point of no return 7"),
    ]
    assert marks(finalized_level=5, downgrade_floor=5, then=5, point=8) == [
        ("finalized", "finalized and floor today and floor after the plan 5"),
        ("target", "target and point of no return 8"),
        ("ceiling", "ceiling 9"),
    ]


def test_the_words_above_a_bar_have_room() -> None:
    widest = f"does not list it · {STATES['unfit']}"
    assert (LABEL + len(widest)) * 6.5 <= WIDTH  # pixels of a letter, on average


def test_nodes_of_equal_ranges_share_a_bar_and_silent_ones_have_their_own() -> None:
    said = report(
        judged(
            [plan("c", "BLOCKED")],
            [unfit("c", 3, "f", 1, 2)],
            [{"cluster": "c", "feature": "f", "verdict": "BLOCKED", "ceiling": 27}],
        )
    )
    wide: dict[str, tuple[int, int]] = {"f": (1, 30_000)}
    nodes: Nodes = {("broker", 1): wide | {"g": (1, 1)}, ("broker", 2): wide, ("broker", 4): wide}
    nodes |= {("controller", 9): wide, ("broker", 3): {"f": (1, 2)}, ("broker", 5): {}}
    nodes |= {("broker", 6): None, ("controller", 10): None}
    [cluster] = with_nodes(said, nodes).clusters
    [plot] = draw(cluster)
    assert [(bar.nodes, bar.label, bar.state, bar.text) for bar in plot.bars] == [
        ("broker 5", "broker 5", "fits", "does not list it"),
        ("broker 3", "broker 3", "holds", "1–2 · in the way"),
        ("brokers 1-2, 4; controller 9", "4 nodes", "fits", "1–30000"),
        ("broker 6; controller 10", "broker 6; controller 10", "silent", "not known"),
    ]
    assert plot.levels == (1, 2, 27, 30_000)
    places = [Scale(plot.levels).at(level) for level in plot.levels]
    assert places == sorted(places)
    assert "broker 3: 1–2 · in the way" in plot.words
    several: Nodes = {("broker", n): {"f": (0, n)} for n in range(200)}
    [plot] = draw(with_nodes(said, several).clusters[0])
    assert len(plot.bars) == BARS
    assert (plot.bars[0].label, plot.bars[0].state) == ("broker 3", "holds")
    assert plot.bars[-1].label == "171 more ranges"


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_texts_stay_texts(hostile: str) -> None:
    tables = judged(
        [plan(hostile, "BLOCKED")],
        [
            finding(hostile, "node_not_answering", "unknown", detail=hostile, feature=hostile),
            unfit(hostile, 2, "f", 1, 2) | {"muted": hostile, "muted_until": date(2026, 12, 31)},
        ],
        [{"cluster": hostile, "feature": hostile, "verdict": "READY", "target": 2, "ceiling": 2}],
    )
    entry = Entry(id=hostile, name=hostile, owner=hostile, contact=hostile, labels={"x": hostile})
    rule = Mute(code="unsupported_by_node", reason=hostile, until=date(2026, 12, 31))
    said = report(tables, inventory=Fleet(cluster=(entry,)), mutes=(rule,))
    said = with_nodes(said, {("broker", 1): {hostile: (1, 2)}})
    plain = read_page(render_html(report(judged([plan("c", "BLOCKED")]))))
    text = render_html(said)
    page = read_page(text)
    allowed = {tag for tag, _ in plain.tags} | {"svg", "path", "line", "text", "figure", "wbr"}
    allowed |= {
        "figcaption",
        "title",
        "strong",
        "ol",
        "ul",
        "tr",
        "td",
        "th",
        "h4",
        "b",
        "details",
        "summary",
        "dl",
        "dt",
        "dd",
    }
    assert {tag for tag, _ in page.tags} <= allowed | {"table", "thead", "tbody", "pre", "code"}
    scripts = [attributes for tag, attributes in page.tags if tag == "script"]
    assert scripts == [{}]
    assert not [name for _, given in page.tags for name in given if name.startswith("on")]
    assert not any(link.startswith("javascript:") for link in page.links)
    assert "\x1b" not in text
    assert "‮" not in text
    assert "598829" not in re.sub(
        r"<style>.*?</style>|<script>.*?</script>", "", text, flags=re.DOTALL
    )


def test_gauges_escape_their_labels() -> None:
    said = report(judged([plan('a"b\\c\nd', "READY")]))
    row = next(
        line
        for line in render_prometheus(said).split("\n")
        if line.startswith("featurelib_cluster_info{")
    )
    assert 'verdict="READY",' in row
    assert 'cluster="a\\"b\\\\c' in row


def test_the_gauge_of_the_nearest_mute_is_the_end_of_its_day() -> None:
    row = unfit("a", 2, "f", 1, 2) | {"muted": "known", "muted_until": date(2026, 11, 21)}
    text = render_prometheus(report(judged([plan("a", "BLOCKED")], [row])))
    assert "featurelib_mute_end_timestamp_seconds 1795305600\n" in text
    assert "mute_end" not in render_prometheus(report(judged([plan("a", "READY")])))


@cache
def big_report(clusters: int) -> str:
    """A fleet of three in a hundred blocked, as a nightly of real size shows it."""
    names = [f"cluster-of-a-long-name-{i:05}" for i in range(clusters)]
    features = ["metadata.version", *(f"vendor.feature.{i}" for i in range(19))]
    tables = judged(
        [plan(n, "BLOCKED" if i % 33 == 0 else "READY", nodes=53) for i, n in enumerate(names)],
        [unfit(name, 7, feature, 1, 20) for name in names[::33] for feature in features],
        [
            {"cluster": name, "feature": feature, "verdict": "READY", "finalized_level": 20,
             "target": 27, "ceiling": 27}
            for name in names
            for feature in features
        ],
    )  # fmt: skip
    wide = dict.fromkeys(features, (1, 27))
    nodes = {("broker", n): wide | {"vendor.feature.0": (1, n)} for n in range(1, 54)}
    return render_html(with_nodes(report(tables), nodes))


def test_the_one_file_of_2500_clusters_keeps_within_its_size() -> None:
    text = big_report(2500)
    assert len(text.encode()) < MOST
    page = read_page(text)
    assert len(page.rows) == 2500
    assert page.articles == IN_FULL


def test_every_cause_is_in_a_table_and_each_of_many_clusters_in_the_filter() -> None:
    rows = [unfit(name, 1, f"f{n:02}", 1, 2) for n in range(30) for name in "abcde"]
    page = render_html(report(judged([plan(name, "BLOCKED") for name in "abcde"], rows)))
    (choices,) = re.findall(r'<select id="cause">(.*?)</select>', page)
    for n in range(30):
        assert f"<option>nodes that support f{n:02} 1-2</option>" in choices
        assert f"<td>nodes that support f{n:02} 1-2 " in page


def test_clusters_beyond_the_hundred_have_a_page_of_their_own() -> None:
    names = [f"c{i:03}" for i in range(IN_FULL + 1)]
    said = report(judged([plan(name, "BLOCKED") for name in names]))
    page = read_page(render_html(said))
    pages = dict(render_pages(said, most=5000))
    assert set(pages) == {f"clusters/{name}" for name in page_names(said)}
    outside = [link for link in page.links if not link.startswith("#")]
    assert outside == [f"clusters/{name}" for name in page_names(said)[IN_FULL:]]
    last = read_page(pages["clusters/c100.html"])
    assert (last.articles, last.links) == (1, ["#main", "../report.html"])


def test_a_page_names_the_run_that_wrote_it_and_a_look_has_none() -> None:
    names = [f"c{i:03}" for i in range(IN_FULL + 1)]
    said = report(judged([plan(name, "BLOCKED") for name in names]))
    number, at = said.run.number, time_text(said.run.as_of)
    night = replace(said, run=replace(said.run, tables="tables"))
    look = replace(said, run=replace(said.run, tables=None))
    pages = [dict(render_pages(one, most=1)).popitem()[1] for one in (night, look)]
    assert f" · written by run {number} (as of {at}) · judged by" in pages[0]
    assert f" · run {number} · judged by" in render_html(night)
    assert not any(str(number) in page for page in (pages[1], render_html(look)))


def test_tiles_say_what_changed_since_the_night_before() -> None:
    tables = judged([plan("a", "BLOCKED"), plan("b", "BLOCKED"), plan("c", "READY")])
    before = dict.fromkeys("abg", "BLOCKED") | {"c": "BLOCKED"}
    nights = made_up_nights(20261121080000, SEEN)
    said = report(tables, nights=nights, before=before)
    text = " ".join(read_page(render_html(said)).texts)
    assert "critical ±0 2 BLOCKED -2 0 UNKNOWN ±0 1 READY +1 0 UP_TO_DATE ±0" in text
    assert "c : BLOCKED → READY g: BLOCKED → gone" in text
    first = render_html(report(tables, nights=nights[-1:]))
    assert "the last run" not in first
    assert "the run before" not in first
    assert "Over " not in first


def test_many_changes_of_a_night_are_folded() -> None:
    levels = [
        {"cluster": f"c{n}", "feature": f, "verdict": "READY", "ceiling": 2}
        for n in range(16)
        for f in ("f", f"f{n}")
    ]
    names = [f"c{n}" for n in range(16)]
    said = report(
        judged(
            [plan(name, "READY") for name in names],
            readiness=[row | {"finalized_level": 2} for row in levels],
        ),
        nights=made_up_nights(20261121080000, SEEN),
        before=dict.fromkeys(names, "READY"),
        levels_before=[row | {"finalized_level": 1} for row in levels],
    )
    page = render_html(said)
    # A change of many clusters is one entry; so is a cluster with its own changes.
    assert (page.count(": f 1 → 2</li>"), page.count(" 1 → 2</li>")) == (1, 17)
    assert "<summary>5 more changes</summary>" in page


def test_software_that_went_back_is_not_told_as_a_level_that_was_finalized() -> None:
    known = {"feature": "metadata.version", "ceiling": 27}
    before = [{"cluster": n, "verdict": "READY", "finalized_level": 25, **known} for n in "ab"]
    levels = {"a": 25, "b": 27}
    now = [
        {**row, "verdict": "UP_TO_DATE", "finalized_level": at, "ceiling": at, "blockers": 0}
        for row, at in zip(before, levels.values(), strict=True)
    ]
    said = report(
        judged([plan(name, "UP_TO_DATE") for name in levels], [], now),
        nights=made_up_nights(20261121080000, SEEN),
        before=dict.fromkeys(levels, "READY"),
        levels_before=before,
    )
    fell = "software was rolled back: the maximum metadata.version fell from 27 (4.1-IV1) to 25"
    assert said.change is not None
    assert [moved for moved, _ in gather_moves(said.change)] == [
        "READY → UP_TO_DATE, software was rolled back",
        "READY → UP_TO_DATE",
    ]
    text, page = render_text(said), " ".join(read_page(render_html(said)).texts)
    assert f"a : READY → UP_TO_DATE, software was rolled back; {fell} (4.0-IV3) b : READY" in page
    assert "READY → UP_TO_DATE, software was rolled back  a\n" in text
    said_of = {one.name: one.summary for one in said.clusters}
    assert said_of == {
        "a": "software was rolled back: find out why",
        "b": "nothing to do",
    }
    assert [(one.verb, one.text) for one in said.today] == [("Ask", "Software was rolled back.")]
    assert said.fleet.need_person == 1
    assert fell in " ".join(text.split())
    assert render_html(said).count("<tr class=loud") == 1  # a is not green
    part = FleetPart(text="b", options="", ids=frozenset("b"), unlisted=None)
    assert "rolled back" not in render_text(narrow(said, part))


def test_who_does_not_answer_since_this_night_is_told_before_levels_that_rose() -> None:
    names = {"a": "UP_TO_DATE", "b": "UP_TO_DATE", "old": "UP_TO_DATE", "put aside": "UP_TO_DATE"}
    on = {"role": "broker", "node_id": 3}
    rows = [finding(name, "ghost_broker", "warning", **on, detail="") for name in names]
    rows[-1] |= {"muted": "the disk is replaced", "muted_until": date(2026, 12, 31)}
    rows.append(finding("come", "ghost_broker", "warning", **on, detail=""))
    rows.append(finding("b", "silent_broker", "warning", role="broker", node_id=4))
    level = {"cluster": "a", "feature": "f", "verdict": "UP_TO_DATE", "ceiling": 2}
    said = report(
        judged(
            [plan(n, "UP_TO_DATE") for n in [*names, "come"]],
            rows,
            [level | {"finalized_level": 2}],
        ),
        nights=made_up_nights(20261121080000, SEEN),
        before=names,
        levels_before=[level | {"finalized_level": 1}],
        silent_before={("old", "broker", 3)},
    )
    assert said.change is not None
    assert [(move, [one.key for one in who]) for move, who in gather_levels(said.change)] == [
        ("newly not answering, broker 3", ["a"]),
        ("newly not answering, brokers 3-4", ["b"]),
        ("f 1 → 2", ["a"]),
    ]
    assert "newly not answering, broker 3: a\n" in render_text(said)
    page = " ".join(read_page(render_html(said)).texts)
    assert "a : newly not answering, broker 3; f 1 → 2 b : newly" in page
    assert said.today[0].clusters == ("a", "b", "come", "old")  # put aside needs nobody
    part = FleetPart(text="old", options="", ids=frozenset(["old"]), unlisted=None)
    assert "not answering" not in render_text(narrow(said, part)).partition("Since")[2][:300]


def test_what_is_newly_critical_is_told_first_though_its_verdict_stayed() -> None:
    names = {"known": ("UP_TO_DATE", True), "new": "UP_TO_DATE", "worse": "READY", "calm": "READY"}
    plans = [plan(name, "BLOCKED" if name in ("worse", "calm") else "UP_TO_DATE") for name in names]
    found = [finding(n, "incompatible_with_finalized", "critical") for n in ("known", "new")]
    said = report(judged(plans, found), nights=made_up_nights(20261121080000, SEEN), before=names)
    assert said.change is not None
    assert [(move, [one.name for one in who]) for move, who in gather_moves(said.change)] == [
        ("newly critical, UP_TO_DATE as before", ["new"]),
        ("READY → BLOCKED", ["calm", "worse"]),
    ]
    text = " ".join(read_page(render_html(said)).texts)
    assert "2 critical" in text
    # The verdict of a critical cluster never stands alone.
    assert "new critical UP_TO_DATE" in text
    assert "2 critical +1" in text
    assert "UP_TO_DATE ±0" in text
    assert "new : newly critical, UP_TO_DATE as before" in text
    assert "was UP_TO_DATE" not in text
    assert "newly critical, UP_TO_DATE as before  new\n" in render_text(said)


def test_a_line_of_the_table_is_cut_between_words_and_short_waits_are_no_hour_of_nothing() -> None:
    assert [age(timedelta(minutes=n)) for n in (0, 59, 60)] == ["under an hour", "59 min", "1 hour"]
    silent = [
        finding(
            "a", "node_not_answering", "unknown", role="broker", node_id=1, detail=f"{'ab ' * 60}."
        )
    ]
    page = render_html(report(judged([plan("a", "UNKNOWN")], silent)))
    assert re.search(r'class="?said"?>(?:<b>[^<]+</b> )?[^<]{60,120}b…<', page.replace("\n", ""))


@pytest.mark.parametrize("severity", ["critical", "warning", "blocker"])
@pytest.mark.parametrize("code", ["epoch_went_back", "cluster_not_reached"])
def test_a_plan_waits_by_what_is_so_whatever_severity_the_settings_give_it(
    code: str, severity: str
) -> None:
    text = next(text for text in judge_samples().plans["plan"].to_pylist() if text)
    tables = judged(
        [plan("a", "READY", steps=[step(goal=19)], plan=text)],
        [finding("a", code, severity, detail="")],
        [{"cluster": "a", "feature": "f", "verdict": "READY", "finalized_level": 1}],
    )
    assert "Approve" not in {task.verb for task in report(tables).today}


def test_a_late_cluster_is_collected_though_a_stale_node_of_it_was_seen_too_long_ago() -> None:
    newest = datetime.fromtimestamp(AS_OF / 10**6, UTC)
    rows = [
        finding("a", code, severity, role="broker", node_id=2, detail="")
        for code, severity in (("ghost_broker", "warning"), ("evidence_too_old", "unknown"))
    ]
    late = [plan("a", "UP_TO_DATE", newest_line=newest - timedelta(hours=24))]
    said = report(judged(late, rows), newest=AS_OF)
    assert [task.verb for task in said.today] == ["Collect", "Check"]


def test_what_helps_is_compared_without_the_node_and_with_the_release() -> None:
    rows = [
        unfit("a", node, "f", 1, 2) | {"detail": release}
        for node, release in ((2, "4.2"), (3, "4.3"), (4, "2.7"), (5, "2.7"))
    ]
    findings = report(judged([plan("a", "BLOCKED")], rows)).clusters[0].findings
    of_2, of_3, of_4, of_5 = (finding.remedy_key for finding in findings)
    assert of_2 != of_3
    assert of_4 == of_5
    assert findings[3].action_for("brokers 4-5") == (
        "Upgrade the software of brokers 4-5 to Kafka 2.7 or later."
    )


def test_a_plan_of_a_cluster_whose_levels_went_down_waits_for_the_answer_why() -> None:
    text = next(text for text in judge_samples().plans["plan"].to_pylist() if text)
    plans = [plan(name, "READY", steps=[step(goal=19)], plan=text) for name in "ab"]
    ready = [
        {"cluster": name, "feature": "f", "verdict": "READY", "finalized_level": 1} for name in "ab"
    ]
    levels = [
        {"cluster": a, "feature": "f", "verdict": "READY", "finalized_level": n, "ceiling": 2}
        for a, n in (("a", 2), ("b", 1))
    ]
    nights = made_up_nights(20261121080000, SEEN)
    tables = judged(plans, readiness=ready)
    before = dict.fromkeys("ab", "READY")
    went = {"a": [(LevelMove("f", 2, 1), SEEN)]}
    said = report(tables, nights=nights, before=before, levels_before=levels, lowered=went)
    assert [(task.verb, task.clusters) for task in said.today] == [
        ("Ask", ("a",)),
        ("Approve", ("b",)),
    ]
    assert said.today[0].text == "Levels went down."
    assert said.today[0].how.startswith("a: f 2 → 1 (2026-11-21). Ask who did it, why, ")
    page = render_html(said)
    assert "f 2 → 1, WENT DOWN" in page
    assert '<li class="urgent"><b>Ask</b>' in page
    assert page.count(' data-todo="1 3"') == page.count(' data-todo="2 3"') == 1  # both can move
    told = {one.key: one.summary for one in said.clusters}
    assert told["a"].startswith("levels went down: find out why first; ")
    assert told["b"].startswith("can finalize metadata.version ")
    [calm] = report(tables).today
    assert calm.how == "Read each plan, then approve it."
    # So does the file of the plan that is read before it is approved, and its digest stays.
    files = plan_files(tables, {}, said)
    lower, same = (read_plan(files[name][1], name) for name in "ab")
    assert lower.for_people.warnings == (
        "Ask first why f went down from 2 to 1 (seen 2026-11-21 05:52 UTC).",
    )
    assert (lower.digest, files["b"][1]) == (same.digest, text)
    grave = report(judged(plans, [finding("b", "unmet_dependency", "critical")], ready))
    name, warned = plan_files(tables, {}, grave)["b"]
    [warning] = read_plan(warned, name).for_people.warnings
    assert warning.startswith("Fix the critical finding first: ")


def test_what_is_urgent_is_red_and_nothing_below_it_is_redder() -> None:
    page = render_html(report_samples())
    shades = re.findall(r'<li class="(\w*)"><b>([\w ]+)</b>', page)
    assert shades == [
        ("urgent", "Fix"), ("urgent", "Check"), ("urgent", "Collect"), ("urgent", "Check"),
        ("", "Approve"), ("", "Hand over"), ("", "Fix"), ("", "Upgrade"), ("", "Fix"), ("", "Fix"),
        ("rest", "Look at"),
    ]  # fmt: skip


def test_a_count_of_nothing_leads_nowhere_and_no_cluster_has_no_table() -> None:
    page = read_page(render_html(report(judged([plan("a", "READY")]))))
    assert [link for link in page.links if link.startswith("#verdict")] == ["#verdict=READY"]
    page = read_page(render_html(report(judged([]))))
    assert not [given for tag, given in page.tags if tag in ("table", "input")]


def test_a_plan_without_a_way_back_says_so() -> None:
    back = [{"feature": "f", "downgrade_floor": 9, "point_of_no_return": 9}]
    plans = [plan(name, "READY", steps=[step("f")], returns_after=back) for name in "abc"]
    several = "Some levels of a, b, c cannot be taken back. Read each plan, then approve it."
    [task] = report(judged(plans)).today
    assert (task.text, task.how) == ("3 plans are ready.", several)
    [task] = report(judged(plans[:1])).today
    assert task.how == "Point of no return: f 9. Read the plan, then approve it."


def test_trends_count_the_clusters_whose_software_nobody_knows() -> None:
    said = report(judged([plan("a", "READY")]), nights=made_up_nights(20261121080000, SEEN))
    less = tuple(replace(night, releases=night.releases[1:]) for night in said.runs)
    for nights, expected in ((said.runs, None), (less, said.runs[-1].releases[0].clusters)):
        [by_software] = [
            trend for trend in trends(replace(said, runs=nights)) if "software" in trend.title
        ]
        rest = {one.name: one.values[-1] for one in by_software.series}
        assert rest.get("none, or not known") == expected
