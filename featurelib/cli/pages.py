"""The pages of a night: the one file, a page for each cluster it only lists, Prometheus' gauges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from featurelib.core.evidence import Conditions
from featurelib.level_history import histories
from featurelib.view.html import IN_FULL, has_pages, render_html, render_pages
from featurelib.view.model import Report
from featurelib.view.plot import Portrait, portraits
from featurelib.view.prometheus import render_prometheus

if TYPE_CHECKING:
    from featurelib.configuration.fleet import Fleet
    from featurelib.spark.store import Store

MOST = 5000  # clusters with a page of their own: the worst ones


def pages_of(
    store: Store, report: Report, fleet: Fleet, conditions: Conditions
) -> Iterator[tuple[str, str]]:
    """Name and text of every page of a report, the one file first."""
    from featurelib.spark.pages import verdicts_before

    seen = _portraits(store, report, fleet, conditions)
    before = verdicts_before(store, report.run.number)
    yield "report.html", render_html(report, seen, before=before)
    yield "report.prom", render_prometheus(report)
    yield from render_pages(report, seen, most=MOST)


def _portraits(
    store: Store, report: Report, fleet: Fleet, conditions: Conditions
) -> dict[str, Portrait]:
    from featurelib.spark.pages import read_evidence, read_history

    keys = [cluster.key for cluster in report.clusters[:MOST]]
    seen: dict[str, Portrait] = {}
    for evidence in read_evidence(store, fleet, conditions, keys):
        seen |= portraits(evidence)
    in_full = keys[:IN_FULL] if has_pages(report) else keys
    for cluster, moments in histories(read_history(store, in_full).to_pylist()).items():
        seen[cluster] = replace(seen.get(cluster, Portrait()), history=moments)
    return seen
