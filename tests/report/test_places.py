"""Where a landing line stands: short for a person, whole in JSON, and its number in one piece."""

from __future__ import annotations

import pytest

from featurelib.view.html import render_html
from featurelib.view.layout import width_of
from featurelib.view.report import report_run, summarize
from featurelib.view.text import render_text
from featurelib.words import LONGEST_PATH
from tests.report.samples import CATALOGUE
from tests.report.tables import finding, judged, plan, report


def test_evidence_names_the_last_folder_and_the_json_the_whole_path() -> None:
    path = "/data/" + "deep/" * 20 + "ghost-broker/landing.jsonl:48"
    rows = [finding("a", "ghost_broker", "critical", role="broker", node_id=2, line_id=7)]
    said = report(judged([plan("a", "BLOCKED")], rows), find_line={7: path}.get)
    for text in (render_text(said), render_html(said, {})):
        assert " · ghost-broker/landing.jsonl:48" in text
        assert "deep/" not in text
    assert said.clusters[0].findings[0].line == path
    endless = report(judged([plan("a", "BLOCKED")], rows), find_line={7: "x" * 999 + ":48"}.get)
    assert (endless.clusters[0].findings[0].line or "").endswith("x…:48")


@pytest.mark.parametrize("width", [24, 31, 44, 57])
def test_a_line_reference_is_never_broken_inside_its_number(width: int) -> None:
    path = "/data/größe-日本語-of-the-landing-zone/landing.jsonl:12345"
    rows = [finding("a", "ghost_broker", "critical", role="broker", node_id=2, line_id=7)]
    run = report_run(CATALOGUE, 1, 0, quarantine=(1, [(path, "none such")]))
    tables = judged([plan("a", "BLOCKED")], rows)
    said = summarize(tables, run, CATALOGUE, find_line={7: path}.get)
    text = render_text(said, width=width)
    assert text.count(":12345") == 2
    assert "".join(text.split()).count("landing-zone/landing.jsonl:12345") == 2
    assert max(map(width_of, text.splitlines())) <= width


def test_a_place_without_a_number_is_cut_as_a_path_is() -> None:
    run = report_run(CATALOGUE, 1, 0, quarantine=(1, [("x" * 999, "none such")]))
    assert run.quarantine is not None
    assert run.quarantine.newest[0].line == "x" * (LONGEST_PATH - 1) + "…"
