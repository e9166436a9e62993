"""The JSON report: its schema, its order, and that it holds everything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

import featurelib.view
from featurelib.view.model import Report, render_json
from tests.report.samples import judge_fleet, report_samples
from tests.report.schema_check import expect_made_of, faults
from tests.report.tables import judged, plan, report

SHIPPED = Path(featurelib.view.__file__).with_name("report.schema.json")


def load_schema() -> Any:
    return json.loads(SHIPPED.read_text(encoding="utf-8"))


def test_the_shipped_schema_is_made_from_the_types() -> None:
    expect_made_of(Report, SHIPPED)


def test_real_output_fits_the_schema() -> None:
    schema = load_schema()
    assert list(faults(json.loads(render_json(report_samples())), schema)) == []
    assert list(faults(json.loads(render_json(report(judged([])))), schema)) == []


def test_it_reads_back_as_the_same_report() -> None:
    document = msgspec.json.decode(render_json(report_samples()), type=Report)
    said = report_samples()
    assert document.run == said.run
    assert document.fleet == said.fleet
    assert document.causes == said.causes
    assert document.clusters == said.clusters


def test_every_row_of_every_table_is_in_it() -> None:
    tables, document = judge_fleet(), json.loads(render_json(report_samples()))
    clusters = document["clusters"]
    for part, rows in (
        ("findings", len(tables.findings)),
        ("readiness", len(tables.readiness)),
        ("incompatible", len(tables.incompatible)),
    ):
        assert sum(len(cluster[part]) for cluster in clusters) == rows
    assert len(clusters) == len(tables.plans)


def test_the_key_is_exact_and_all_other_texts_are_clean() -> None:
    key = "a\u202e" + "x" * 250
    document = json.loads(render_json(report(judged([plan(key, "READY")]))))
    [cluster] = document["clusters"]
    assert cluster.pop("key") == key
    assert all(text.isprintable() and len(text) <= 120 for text in _texts(cluster))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from _texts(member)
    elif isinstance(value, list):
        for member in value:
            yield from _texts(member)
