"""On random reports the tables, the JSON and the text count the same."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from featurelib.core.findings import wordings
from featurelib.feature import Phase, Severity, Verdict
from featurelib.report import render_json, render_text
from tests.report.samples import DIALECT
from tests.report.schema_check import faults
from tests.report.tables import Row, judged, report
from tests.report.test_json import load_schema

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
FEATURES = st.sampled_from(["metadata.version", "group.version", "search", "größe"]) | NAMES
LEVELS = st.integers(-2, 40) | st.none()
VERDICTS = st.sampled_from([verdict.value for verdict in Verdict])
SEVERITIES = st.sampled_from([severity.value for severity in Severity])
CODES = st.sampled_from(sorted(wordings(DIALECT))) | NAMES


def rows_of(cluster: str) -> st.SearchStrategy[dict[str, list[Row]]]:
    constant = st.just(cluster)
    level, role = st.integers(0, 40), st.sampled_from(["broker", "controller"])
    node = st.integers(0, 5)
    step = st.fixed_dictionaries(
        {
            "request": st.just(1),
            "feature": FEATURES,
            "from_level": level,
            "to_level": level,
            "upgrade_type": st.just("UPGRADE"),
            "timeout_ms": st.just(60_000),
        }
    )
    parts = {
        "plans": {
            "verdict": VERDICTS,
            "phase": st.sampled_from([phase.value for phase in Phase]),
            "nodes": st.integers(0, 3000),
            "steps": st.lists(step, max_size=2),
        },
        "findings": {
            "code": CODES,
            "severity": SEVERITIES,
            "role": role | st.none(),
            "node_id": node | st.none(),
            "feature": FEATURES | st.none(),
            "finalized_level": LEVELS,
            "level": LEVELS,
            "min_version": LEVELS,
            "max_version": LEVELS,
            "epoch": st.integers(0, 99) | st.none(),
            "line_id": st.integers(-(2**63), 2**63 - 1) | st.none(),
            "detail": NAMES | st.none(),
        },
        "readiness": {
            "feature": FEATURES,
            "verdict": VERDICTS,
            "finalized_level": LEVELS,
            "target": LEVELS,
            "ceiling": level,
            "available": LEVELS,
            "blockers": st.integers(0, 9),
            "unknowns": st.integers(0, 9),
        },
        "incompatible": {
            "role": role,
            "node_id": node,
            "feature": FEATURES,
            "finalized_level": level,
            "min_version": LEVELS,
            "max_version": LEVELS,
            "fenced": st.booleans() | st.none(),
        },
    }
    sizes = {"plans": (1, 1), "findings": (0, 6), "readiness": (0, 4), "incompatible": (0, 2)}
    return st.fixed_dictionaries(
        {
            part: st.lists(
                st.fixed_dictionaries({"cluster": constant, **columns}),
                min_size=sizes[part][0],
                max_size=sizes[part][1],
            )
            for part, columns in parts.items()
        }
    )


@st.composite
def fleets(draw: st.DrawFn) -> dict[str, list[Row]]:
    clusters = draw(st.lists(NAMES, max_size=6, unique=True))
    parts: dict[str, list[Row]] = {"plans": [], "findings": [], "readiness": [], "incompatible": []}
    for cluster in clusters:
        for part, rows in draw(rows_of(cluster)).items():
            parts[part] += rows
    return parts


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(fleets(), st.sampled_from([60, 80, 100, 120]))
def test_tables_json_and_text_count_the_same(fleet: dict[str, list[Row]], width: int) -> None:
    said = report(judged(**fleet))
    document = json.loads(render_json(said))
    text = render_text(said, width=width, limit=0)
    schema = load_schema()
    assert list(faults(document, schema, schema)) == []
    assert max(map(cell_len, text.splitlines())) <= width
    for counted in (count_tables(fleet), count_json(document)):
        assert document["fleet"] | counted == document["fleet"]
    check_text(text, document)


def count_tables(fleet: dict[str, list[Row]]) -> Row:
    nodes = {(row["cluster"], row["node_id"]) for row in fleet["incompatible"]}
    return {
        "clusters": len(fleet["plans"]),
        "clusters_by_verdict": count(Verdict, [row["verdict"] for row in fleet["plans"]]),
        "clusters_by_phase": count(Phase, [row["phase"] for row in fleet["plans"]]),
        "features": len(fleet["readiness"]),
        "features_by_verdict": count(Verdict, [row["verdict"] for row in fleet["readiness"]]),
        "findings": len(fleet["findings"]),
        "findings_by_severity": count(Severity, [row["severity"] for row in fleet["findings"]]),
        "can_move": sum(bool(row["steps"]) for row in fleet["plans"]),
        "incompatible_nodes": len(nodes),
    }


def count_json(document: Any) -> Row:
    clusters = document["clusters"]
    features = [ready for cluster in clusters for ready in cluster["readiness"]]
    findings = [found for cluster in clusters for found in cluster["findings"]]
    return {
        "clusters": len(clusters),
        "clusters_by_verdict": count(Verdict, [cluster["verdict"] for cluster in clusters]),
        "clusters_by_phase": count(Phase, [cluster["phase"] for cluster in clusters]),
        "features": len(features),
        "features_by_verdict": count(Verdict, [ready["verdict"] for ready in features]),
        "findings": len(findings),
        "findings_by_severity": count(Severity, [found["severity"] for found in findings]),
        "need_person": sum(cluster["needs_person"] for cluster in clusters),
    }


def count(keys: type[Verdict] | type[Phase] | type[Severity], values: list[str]) -> dict[str, int]:
    counted = Counter(values)
    return {key.value: counted[key.value] for key in keys}


def check_text(text: str, document: Any) -> None:
    """What the text says in figures is what the JSON holds."""
    fleet, words = document["fleet"], re.sub(r"\s+", " ", text)
    if not fleet["clusters"]:
        assert "No cluster was judged" in words
        return
    for label, counts, total in (
        ("clusters", fleet["clusters_by_verdict"], fleet["clusters"]),
        ("their features", fleet["features_by_verdict"], fleet["features"]),
    ):
        assert f"{label} {' '.join(str(n) for n in counts.values())} {total}" in words
    for label, counts in (
        ("phases", fleet["clusters_by_phase"]),
        ("findings", fleet["findings_by_severity"]),
    ):
        shown = " · ".join(f"{n} {name}" for name, n in counts.items() if n)
        assert f"{label} {shown or 'none'}" in words
    table = text.split("Clusters, worst first\n")[1].split("\nWhat to do, cluster by cluster\n")[0]
    verdicts = Counter(re.findall(rf"^({'|'.join(Verdict)}) ", table, re.MULTILINE))
    assert {v: verdicts[v] for v in fleet["clusters_by_verdict"]} == fleet["clusters_by_verdict"]
    all_old = 0 < fleet["too_old"] == fleet["clusters"] - fleet["not_landed"]
    assert all_old or not fleet["all_too_old"]
    assert all_old == ("Every verdict is UNKNOWN because the evidence" in words)
    if fleet["need_person"] and not all_old:
        assert f"{fleet['need_person']} of {fleet['clusters']} cluster" in words
