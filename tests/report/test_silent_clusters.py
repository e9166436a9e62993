"""Where no node answered, that is the root: it is said first, with its reason."""

from __future__ import annotations

from typing import Any

from featurelib.view.digest import hint
from featurelib.view.html import render_html
from featurelib.view.model import Report
from featurelib.view.text import render_text
from tests.report.tables import finding, judged, plan, report

REFUSED = "127.0.0.1:19092: connection refused"
FOLLOWS = ("mode_unknown", "no_trustworthy_witness", "registrations_unproven")
COUNTED = "Need a person: clusters that are BLOCKED or UNKNOWN, or have a finding above info"


def silent(*nodes: int, of: int, **more: Any) -> Report:
    rows = [finding("c", code, "unknown", detail="") for code in FOLLOWS]
    rows += [
        finding(
            "c", "node_not_answering", "unknown", role="broker", node_id=node, detail=REFUSED + "."
        )
        for node in nodes
    ]
    rows += [finding("c", more["also"], "unknown", role="broker", node_id=9)] if more else []
    return report(judged([plan("c", "UNKNOWN", "unknown", of)], rows))


def test_nodes_that_do_not_answer_come_before_what_follows_from_it() -> None:
    said = silent(1, 2, of=2)
    [cluster] = said.clusters
    assert [found.code for found in cluster.findings] == ["node_not_answering"] * 2 + [*FOLLOWS]
    assert cluster.summary == f"node not answering (brokers 1-2): {REFUSED} and 3 more"
    assert [cause.code for cause in said.causes] == ["node_not_answering", *FOLLOWS]
    step, command = hint(said)
    assert step.startswith(f"c: Broker 1 did not answer ({REFUSED}.). Check its address, ")
    assert command == ""


def test_a_missing_node_did_not_answer_either() -> None:
    [cluster] = silent(1, of=2, also="expected_node_missing").clusters
    assert cluster.findings[0].code == "node_not_answering"


def test_where_another_node_answered_the_order_stays() -> None:
    [cluster] = silent(1, of=2).clusters
    assert cluster.findings[0].code == "mode_unknown"
    assert cluster.summary == "mode unknown and 3 more"


def test_the_lead_is_explained_in_text_and_page() -> None:
    said = silent(1, of=1)
    assert f"1 of 1 cluster need a person.\n{COUNTED}.\n" in render_text(said)
    assert f"{COUNTED}." in render_html(said, {})
    fine = report(judged([plan("c", "UP_TO_DATE")]))
    assert COUNTED not in render_text(fine) + render_html(fine, {})


def test_the_lead_says_that_muted_findings_do_not_count() -> None:
    row = finding("c", "ghost_broker", "warning", role="broker", node_id=7, muted="known")
    said = report(judged([plan("c", "BLOCKED")], [row]))
    assert f"{COUNTED}; muted findings do not count." in " ".join(render_text(said).split())
