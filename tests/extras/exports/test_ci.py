"""JUnit's XML and SARIF: what passes, fails and is skipped, and that no fact and no name gets lost.

What they look like is a golden. Both were held once, with hostile names and with every small scene,
against the published schemas: Ant's (windyroad/JUnit-Schema) and Jenkins' (xunit-plugin,
junit-10.xsd), and SARIF's of OASIS (sarif-schema-2.1.0.json, errata 01); no fault was found. The
validators and readers that docs/how-to/ci.md names were given them, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import Any
from xml.etree import ElementTree

import pytest

from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.extras.exports.ci import render_junit, render_sarif
from featurelib.view.model import Report
from tests.report.samples import report_samples
from tests.report.scenes import late_scenes
from tests.report.tables import Row, finding, judged, plan, report, unfit
from tests.report.test_html import HOSTILE

ASIDE = {"muted": "the disk is replaced", "muted_until": date(2026, 12, 31)}
PASSED, FAILED, SKIPPED = "", "failure", "skipped"


def cases(found: Report) -> Iterator[tuple[str, str, str, str]]:
    """Suite, case, how it ended, and its message."""
    for suite in ElementTree.fromstring(render_junit(found).encode()):
        ends = []
        for case in suite.iter("testcase"):
            assert case.get("classname") == suite.get("name")
            [end] = [*case] or [ElementTree.Element("")]
            ends.append(end.tag)
            yield suite.get("name", ""), case.get("name", ""), end.tag, end.get("message", "")
        counted = (suite.get(name) for name in ("tests", "failures", "skipped"))
        assert [*map(int, filter(None, counted))] == [
            len(ends),
            ends.count(FAILED),
            ends.count(SKIPPED),
        ]


def results(found: Report) -> list[dict[str, Any]]:
    [run] = json.loads(render_sarif(found))["runs"]
    assert run["tool"]["driver"]["fullName"]
    for rule in run["tool"]["driver"]["rules"]:  # as GitHub and Azure DevOps demand it
        assert rule["name"] not in ("", rule["id"])
        assert all(rule[key]["text"] for key in ("shortDescription", "fullDescription"))
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert all(rules[one["ruleIndex"]] == one["ruleId"] for one in run["results"])
    assert len(rules) == len(set(rules))
    read: list[dict[str, Any]] = run["results"]
    return read


def test_each_feature_of_each_cluster_is_a_case_that_ends_as_its_verdict_says() -> None:
    said = report_samples()
    ends = {"BLOCKED": FAILED, "UNKNOWN": SKIPPED, "READY": PASSED, "UP_TO_DATE": PASSED}
    expected = {
        (cluster.name, ready.feature): ends[ready.verdict]
        for cluster in said.clusters
        for ready in cluster.readiness
    }
    expected["zk-282-ignored-broker", "search.index"] = FAILED  # UP_TO_DATE, and critical
    found = {(name, case): end for name, case, end, _ in cases(said)}
    whole = {name: found.pop((name, "cluster")) for name in {name for name, _ in found}}
    assert found == expected
    unknown = {cluster.name for cluster in said.clusters if cluster.verdict == "UNKNOWN"}
    assert {name for name, end in whole.items() if end == SKIPPED} == unknown
    assert set(whole.values()) == {PASSED, SKIPPED}


CRITICAL = finding("a", "incompatible_with_finalized", "critical", feature="f", detail="")
NODE_GONE = finding("a", "node_not_answering", "unknown", role="broker", node_id=1, detail="")
DAMAGED = finding("a", "features_node_damaged", "critical", detail="")


@pytest.mark.parametrize(
    ("verdict", "findings", "whole", "feature"),
    [
        ("BLOCKED", [unfit("a", 1, "f", 1, 2)], PASSED, FAILED),
        ("BLOCKED", [unfit("a", 1, "f", 1, 2) | ASIDE], PASSED, SKIPPED),
        ("BLOCKED", [unfit("a", 1, "f", 1, 2) | ASIDE, unfit("a", 2, "f", 1, 2)], PASSED, FAILED),
        ("BLOCKED", [], PASSED, FAILED),  # conf/audit.toml made light of what blocks it
        ("READY", [unfit("a", 1, "f", 1, 2)], PASSED, PASSED),  # of the level above
        ("READY", [CRITICAL], PASSED, FAILED),
        ("READY", [CRITICAL | ASIDE], PASSED, SKIPPED),
        ("UNKNOWN", [NODE_GONE], SKIPPED, SKIPPED),
        ("UNKNOWN", [NODE_GONE | ASIDE], SKIPPED, SKIPPED),
        ("UNKNOWN", [], SKIPPED, SKIPPED),
        ("UNKNOWN", [CRITICAL], SKIPPED, FAILED),
        ("UP_TO_DATE", [DAMAGED], FAILED, PASSED),
        ("UP_TO_DATE", [CRITICAL | {"feature": "g"}], FAILED, PASSED),  # a feature without a case
    ],
)
def test_only_what_is_known_and_not_wrong_passes(
    verdict: str, findings: list[Row], whole: str, feature: str
) -> None:
    rows = [{"cluster": "a", "feature": "f", "verdict": verdict}]
    found = report(judged([plan("a", verdict)], findings, rows))
    ends = {case: (end, message) for _, case, end, message in cases(found)}
    assert {case: end for case, (end, _) in ends.items()} == {"cluster": whole, "f": feature}
    assert all(bool(end) == bool(message) for end, message in ends.values())


def test_a_cluster_without_features_or_without_this_night_does_not_pass_for_that() -> None:
    [blocked] = cases(report(judged([plan("a", "BLOCKED")])))
    assert blocked[2] == FAILED
    late = dict(late_scenes())["a night without one cluster"]
    assert {name == "calm": end for name, _, end, _ in cases(late)} == {
        True: PASSED,
        False: SKIPPED,
    }


def test_every_finding_is_a_result_and_a_muted_one_is_suppressed() -> None:
    rows = [unfit("a", 1, "f", 1, 2) | ASIDE, DAMAGED, NODE_GONE]
    for said in (report_samples(), report(judged([plan("a", "BLOCKED")], rows))):
        found = [one for cluster in said.clusters for one in cluster.findings]
        for one, result in zip(found, results(said), strict=True):
            text = result["message"]["text"]
            assert all(part in text for part in (one.statement, one.action, one.command))
            assert [why["justification"] for why in result["suppressions"]] == [one.muted] * bool(
                one.muted
            )
            [place] = result["locations"]
            [named] = place["logicalLocations"]
            assert (one.feature or "") in named["fullyQualifiedName"]
            at = place["physicalLocation"]["artifactLocation"]["uri"]
            assert (at == "conf/fleet.toml") == (one.line is None)


@pytest.mark.parametrize(
    ("line", "uri"),
    [
        ("payments/landing.jsonl:7", "payments/landing.jsonl"),
        ("///land/a b#1%.jsonl:7", "file:///land/a%20b%231%25.jsonl"),
        ("/land/größe:x.jsonl:7", "file:///land/gr%C3%B6%C3%9Fe%3Ax.jsonl"),
        ("s3a://bucket/land/a b.jsonl:7", "s3a://bucket/land/a%20b.jsonl"),
        ("javascript:alert(1):7", "javascript%3Aalert%281%29"),
    ],
)
def test_a_landing_line_is_a_uri_and_a_number(line: str, uri: str) -> None:
    said = report_samples()
    [cluster] = [one for one in said.clusters if one.name == "mixed-35-33"]
    lines = tuple(replace(one, line=line) for one in cluster.findings)
    [result] = results(replace(said, clusters=(replace(cluster, findings=lines),)))
    place = result["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": uri}, "region": {"startLine": 7}}


@pytest.mark.parametrize("hostile", [*HOSTILE, "]]>\x00\uffff\ufffe a\nb", "a,b|c"])
def test_hostile_texts_stay_texts(hostile: str) -> None:
    rows = [unfit(hostile, 1, hostile, 1, 2) | ASIDE | {"muted": hostile}]
    rows.append(finding(hostile, "node_not_answering", "unknown", detail=hostile, feature=hostile))
    ready = [{"cluster": hostile, "feature": hostile, "verdict": "UNKNOWN"}]
    entry = FleetEntry(id=hostile, name=hostile, owner=hostile)
    said = report(
        judged([plan(hostile, "UNKNOWN")], rows, ready), inventory=Fleet(cluster=(entry,))
    )
    [cluster] = said.clusters
    [_, (name, case, end, message)] = cases(said)
    assert (name, case, end) == (cluster.name, cluster.readiness[0].feature, SKIPPED)
    assert message in {one.message for one in cluster.findings}
    assert {one["properties"]["owner"] for one in results(said)} == {cluster.owner}
    for text in (render_junit(said), render_sarif(said)):
        assert re.sub(r"[\n]", "", text).isprintable()
