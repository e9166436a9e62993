"""Muted findings stay in every count and ask nobody for anything; old mutes speak up."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from featurelib.audit.findings import Mute
from featurelib.feature import Severity
from featurelib.view.html import render_html
from featurelib.view.model import Report
from featurelib.view.prometheus import render_prometheus
from featurelib.view.text import render_text
from tests.report.page import read_page
from tests.report.tables import Row, finding, judged, plan, report, unfit

TODAY = date(2026, 11, 21)  # as of which these reports judge
LATER = TODAY + timedelta(days=40)
ASIDE = {"muted": "the disk is replaced", "muted_until": LATER}


def mute(code: str = "unsupported_by_node", **more: Any) -> Mute:
    return Mute(**{"code": code, "reason": "the disk is replaced", "until": LATER, **more})


def of_one(verdict: str, *findings: Row, **more: Any) -> Report:
    return report(judged([plan("a", verdict)], list(findings)), **more)


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_cluster_with_nothing_but_muted_findings_needs_nobody() -> None:
    said = of_one("BLOCKED", unfit("a", 2, "f", 1, 2) | ASIDE)
    [cluster] = said.clusters
    assert not cluster.needs_person
    assert cluster.verdict.value == "BLOCKED"
    assert cluster.summary == "nothing to do; 1 finding muted"
    fleet = said.fleet
    assert (fleet.need_person, fleet.findings, fleet.muted, fleet.muted_until) == (0, 1, 1, LATER)
    assert fleet.findings_by_severity[Severity.BLOCKER] == 1
    lead = "Nothing else is wrong, and nothing is left to finalize, in 1 cluster. "
    lead += f"1 finding muted, the first until {LATER}."
    assert lead in words(render_text(said))
    assert lead in words(" ".join(read_page(render_html(said, {})).texts))
    assert f"of these 1 finding muted, the first until {LATER}" in words(render_text(said))
    assert "What to do, cluster by cluster" not in render_text(said)
    assert "Nothing to do until the next run." in render_text(said)


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
    assert of_one(verdict, *findings).clusters[0].needs_person == needs


def test_muted_clusters_come_last_and_critical_ones_are_critical_no_more() -> None:
    critical = finding("b", "incompatible_with_finalized", "critical")
    tables = judged(
        [plan("a", "BLOCKED"), plan("b", "UP_TO_DATE"), plan("c", "BLOCKED")],
        [unfit("a", 2, "f", 1, 2) | ASIDE, critical | ASIDE, unfit("c", 2, "f", 1, 2)],
    )
    assert [cluster.name for cluster in report(tables).clusters] == ["c", "b", "a"]


def test_muted_findings_stand_apart_with_reason_and_day() -> None:
    said = of_one(
        "BLOCKED",
        unfit("a", 2, "f", 1, 2) | ASIDE,
        unfit("a", 3, "f", 1, 2) | ASIDE,
        finding("a", "ghost_broker", "warning", role="broker", node_id=7),
    )
    line = "unsupported_by_node (brokers 2-3; f), muted: the disk is replaced, "
    line += f"until {LATER}"
    text = render_text(said, width=200)
    assert f"muted  {line}" in text
    assert "broker 2 does not" not in text.lower()
    page = read_page(render_html(said, {}))
    assert line in page.texts
    assert page.texts.index("Findings") < page.texts.index("Muted") < page.texts.index(line)
    [cluster] = said.clusters
    told = [found.message in page.texts for found in cluster.findings]
    assert told == [found.muted is None for found in cluster.findings]
    assert "1 of 1 cluster need a person. 2 findings muted, the first until" in words(text)


def test_a_cause_says_in_how_many_clusters_it_is_muted_and_still_ranks() -> None:
    tables = judged(
        [plan(name, "BLOCKED") for name in "abc"],
        [
            unfit("a", 2, "f", 1, 2) | ASIDE,
            unfit("b", 2, "f", 1, 2) | ASIDE,
            unfit("b", 3, "f", 1, 2),
            unfit("c", 2, "f", 1, 2),
        ],
    )
    said = report(tables)
    [cause] = said.causes
    assert (cause.clusters, cause.muted) == (3, 1)
    assert "in b, c, a, muted in 1\n" in render_text(said)
    assert "in b, c, a, muted in 1" in words(" ".join(read_page(render_html(said, {})).texts))


@pytest.mark.parametrize(
    ("rule", "state", "text", "kind"),
    [
        (mute(), f"until {LATER}", "(1 finding in 1 cluster)", "in_use"),
        (mute(until=TODAY), f"until {TODAY}", "(1 finding in 1 cluster)", "in_use"),
        (
            mute(until=TODAY - timedelta(days=1)),
            "ran out with 2026-11-20",
            "(1 finding in 1 cluster again; renew it or take it out of conf/audit.toml)",
            "expired",
        ),
        (
            mute("system_off", until=date(2026, 1, 1)),
            "ran out with 2026-01-01",
            "(no finding; take it out of conf/audit.toml)",
            "expired",
        ),
        (
            mute(node=9),
            "matches nothing",
            f"(until {LATER}; take it out of conf/audit.toml)",
            "unused",
        ),
    ],
)
def test_what_has_come_of_a_mute_is_said_in_every_form(
    rule: Mute, state: str, text: str, kind: str
) -> None:
    said = of_one("BLOCKED", unfit("a", 2, "f", 1, 2), mutes=(rule,))
    shown = render_text(said, width=200).partition("\nMutes\n")[2].splitlines()[0]
    assert words(shown).startswith(f"{state} {rule.code}")
    assert shown.endswith(f": the disk is replaced {text}")
    page = read_page(render_html(said, {}))
    assert page.mutes == [state]
    assert any(one.endswith(f": the disk is replaced {text}") for one in page.texts)
    gauges = [
        f'featurelib_mutes{{state="{one}"}} {int(one == kind)}\n'
        for one in ("in_use", "expired", "unused")
    ]
    assert "".join(gauges) in render_prometheus(said)


def test_a_mute_says_what_it_is_about_by_the_names_people_use() -> None:
    rule = mute(cluster="a", feature="f", node=2)
    said = of_one("BLOCKED", unfit("a", 2, "f", 1, 2), mutes=(rule,), names={"a": "payments"})
    [shown] = said.mutes
    assert (shown.cluster, shown.feature, shown.node, shown.findings) == ("payments", "f", 2, 1)
    assert "unsupported_by_node f, node 2, in payments: the disk" in words(render_text(said))


def test_a_mute_counts_findings_and_the_clusters_they_are_in() -> None:
    rows = [unfit("a", 1, "f", 1, 2), unfit("a", 2, "f", 1, 2), unfit("b", 1, "f", 1, 2)]
    said = report(judged([plan("a", "BLOCKED"), plan("b", "BLOCKED")], rows), mutes=(mute(),))
    assert [(one.findings, one.clusters) for one in said.mutes] == [(3, 2)]
    assert "(3 findings in 2 clusters)" in words(render_text(said))


def test_what_ran_out_comes_first_and_then_what_matches_nothing() -> None:
    old = TODAY - timedelta(days=1)
    rules = (mute(), mute(node=9), mute(until=old), mute("system_off", until=old))
    said = of_one("BLOCKED", unfit("a", 2, "f", 1, 2), mutes=rules)
    order = [(one.code, one.expired, one.findings) for one in said.mutes]
    assert order == [
        ("system_off", True, 0),
        ("unsupported_by_node", True, 1),
        ("unsupported_by_node", False, 0),
        ("unsupported_by_node", False, 1),
    ]
    assert "… and 2 more: --limit 0 shows all" in render_text(said, limit=2)


def test_the_gauge_of_the_nearest_mute_is_the_end_of_its_day() -> None:
    said = of_one("BLOCKED", unfit("a", 2, "f", 1, 2) | ASIDE | {"muted_until": TODAY})
    assert "featurelib_mute_runs_out_seconds 1795305600\n" in render_prometheus(said)
    assert "mute_runs_out" not in render_prometheus(of_one("READY"))


def test_a_hostile_reason_stays_a_text() -> None:
    reason = "<script>alert(1)</script>\x1b[2J"
    row = unfit("a", 2, "f", 1, 2) | {"muted": reason, "muted_until": LATER}
    said = of_one("BLOCKED", row, mutes=(mute(reason=reason),))
    page = render_html(said, {})
    assert page.count("<script>") == 1
    assert "\x1b" not in page + render_text(said)


def test_without_mutes_nothing_is_said_of_them() -> None:
    said = of_one("BLOCKED", unfit("a", 2, "f", 1, 2))
    whole = render_text(said) + " ".join(read_page(render_html(said, {})).texts)
    assert "mute" not in whole.lower()
