"""The report of the samples: text, JSON, the page, the page of one cluster, Prometheus' gauges."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from featurelib.extras.exports.ci import CiForm, render_for_ci
from featurelib.view import html
from featurelib.view.html import render_html, render_pages
from featurelib.view.model import render_json
from featurelib.view.prometheus import render_prometheus
from featurelib.view.text import render_text
from tests.golden.transcript import REWRITES
from tests.report.page import read_page
from tests.report.samples import ONE, report_samples
from tests.report.scenes import old_scenes, scenes

STORED = Path(__file__).parent / "report"
STYLES = re.compile(r"(?s)<(style|script)>.*?</\1>")  # they stand in files of their own


def _written() -> dict[str, str]:
    """Name and text of each file."""
    report = report_samples()
    return {
        "report.txt": render_text(report),
        "everything.txt": render_text(report, limit=0),
        "narrow.txt": render_text(report, width=60, limit=3),
        "report.html": STYLES.sub(r"<\1></\1>", render_html(report)),
        "report.json": render_json(report).decode(),
        "report.prom": render_prometheus(report),
        "report.junit.xml": render_for_ci(report, CiForm.JUNIT),
        "report.sarif": render_for_ci(report, CiForm.SARIF),
    }


@pytest.mark.parametrize("name", sorted(_written()))
def test_reports_say_what_they_said(name: str) -> None:
    _compare(name, _written()[name])


def test_the_page_of_a_cluster_says_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "IN_FULL", 1)
    pages = [text for _, text in render_pages(report_samples(), most=99)]
    [page] = [text for text in pages if f"<title>{ONE}" in text]
    _compare("cluster.html", STYLES.sub(r"<\1></\1>", page))


def test_small_reports_say_what_they_said() -> None:
    texts = [f"=== {title}\n{render_text(report)}" for title, report in scenes()]
    for title, report in old_scenes():
        head, *_, end = render_text(report).split("\n\n")
        texts.append(f"=== {title}\n{head}\n…\n{end}")
    for title, report in scenes():
        if title == "mutes":
            page = "\n".join(read_page(render_html(report)).texts)
            texts.append(
                f"=== {title}, the page and the gauges\n{page}\n{render_prometheus(report)}"
            )
    _compare("scenes.txt", "\n".join(texts))


def _compare(name: str, text: str) -> None:
    if REWRITES:
        (STORED / name).write_text(text, "utf-8")
    assert text == (STORED / name).read_text("utf-8")
