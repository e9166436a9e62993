"""Muted findings stay in every count and ask nobody for anything; old mutes speak up."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from featurelib.audit.findings import Mute
from featurelib.view.html import render_html
from featurelib.view.model import Report
from featurelib.view.prometheus import render_prometheus
from featurelib.view.text import render_text
from tests.report.tables import Row, finding, judged, plan, report, unfit

TODAY = date(2026, 11, 21)  # as of which these reports judge
LATER = TODAY + timedelta(days=40)
ASIDE = {"muted": "the disk is replaced", "muted_until": LATER}


def mute(code: str = "unsupported_by_node", **more: Any) -> Mute:
    return Mute(**{"code": code, "reason": "the disk is replaced", "until": LATER, **more})


def of_one(verdict: str, *findings: Row, **more: Any) -> Report:
    return report(judged([plan("a", verdict)], list(findings)), **more)


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
