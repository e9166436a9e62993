"""Write the report for CI servers: JUnit's XML, and SARIF 2.1.0.

In JUnit's XML a cluster is a suite and each feature a case; findings about no feature are the case
`cluster`. A case fails if its feature is BLOCKED, or a finding is critical, or no majority of the
voters answered. It is skipped if that is not known or muted. SARIF has every finding at its landing
line, or at the inventory: GitHub refuses a file with a result that has no place.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import msgspec

from featurelib.api.tables import NightTables
from featurelib.audit.findings import NO_SITE, wordings
from featurelib.core.dialect import STRICT, load
from featurelib.errors import ConfigError
from featurelib.extras.exports.sheets import Sheet, render_sheet
from featurelib.feature import Severity, Verdict
from featurelib.findings import Action, tagged, way_of
from featurelib.view.digest import late_since, unmuted
from featurelib.view.model import Report, ReportedCluster, ReportedFinding, render_json
from featurelib.words import code_text

WHOLE = "cluster"  # the name of the case for findings without a feature
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
# Of critical, blocker, unknown, warning and info.
SARIF_LEVELS = dict(zip(Severity, ("error", "error", "warning", "warning", "note"), strict=True))
UNKNOWN, BLOCKED = Verdict.UNKNOWN, Verdict.BLOCKED
_HOLDS = {BLOCKED: Severity.BLOCKER, UNKNOWN: Severity.UNKNOWN}
_GAP = re.compile(r"(?<!\w)\{(\w+)\}|\{\w+\}")  # after a word the text continues without a blank


class CiForm(StrEnum):
    """The formats for CI servers, by their names on the command line."""

    JUNIT = "junit"
    SARIF = "sarif"


class Case(NamedTuple):
    """A test case of JUnit. `end`: the result, "" = passed; `why`: the findings that explain it."""

    name: str
    end: str
    why: Sequence[ReportedFinding] = ()


def render_for_ci(report: Report, form: CiForm, listed_in: str = NO_SITE.inventory) -> str:
    """Return the report in a format for CI servers. `listed_in`: the inventory file."""
    return render_junit(report) if form is CiForm.JUNIT else render_sarif(report, listed_in)


def render_junit(report: Report) -> str:
    """Return the report as JUnit XML for Ant's and Jenkins' schemas. All durations are 0."""
    root = Element("testsuites")
    at = f"{report.run.as_of.astimezone(UTC):%Y-%m-%dT%H:%M:%S}"
    for number, cluster in enumerate(report.clusters):
        cases = list(_cases(cluster, report.run.newest_line))
        ends = Counter(case.end for case in cases)
        counts = {"tests": len(cases), "failures": ends["failure"], "skipped": ends["skipped"]}
        suite = SubElement(
            root,
            "testsuite",
            {"name": cluster.name, "package": "featurelib", "id": str(number), "timestamp": at},
            hostname="localhost",
            errors="0",
            time="0",
            **{name: str(count) for name, count in counts.items()},
        )
        properties = SubElement(suite, "properties")
        for name in ("id", "owner", "verdict", "phase"):
            SubElement(properties, "property", name=name, value=getattr(cluster, name) or "")
        for case in cases:
            _add_case(suite, case, cluster)
        texts = (cluster.summary, cluster.collect, *cluster.commands, cluster.owner_command)
        SubElement(suite, "system-out").text = "\n".join(filter(None, texts))
        SubElement(suite, "system-err")
    indent(root)
    text = tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _cases(cluster: ReportedCluster, fleet: datetime | None) -> Iterator[Case]:
    """Yield the test cases of a cluster. `fleet`: the time of the newest line of all clusters."""
    features = {ready.feature for ready in cluster.readiness}
    of_cluster = [finding for finding in cluster.findings if finding.feature not in features]
    verdict = Verdict.UP_TO_DATE if features else cluster.verdict
    if late_since(cluster.newest_line, cluster.findings, fleet) or cluster.verdict is UNKNOWN:
        verdict = UNKNOWN
    yield _case(WHOLE, verdict, of_cluster, [])
    for ready in cluster.readiness:
        of_feature = [finding for finding in cluster.findings if finding.feature == ready.feature]
        yield _case(ready.feature, ready.verdict, of_feature, of_cluster)


def _case(
    name: str, verdict: Verdict, own: Sequence[ReportedFinding], whole: Sequence[ReportedFinding]
) -> Case:
    critical = [
        f for f in own if f.severity is Severity.CRITICAL or f.code in tagged("no_majority")
    ]
    causes = [f for f in (*own, *whole) if f.severity is _HOLDS.get(verdict)]
    wrong = unmuted(critical)
    if verdict is BLOCKED:
        wrong += unmuted(causes)
    if wrong or (verdict is BLOCKED and not causes):
        return Case(name, "failure", wrong)
    texts = dict.fromkeys([*critical, *causes])
    return Case(name, "skipped" if critical or verdict in _HOLDS else "", [*texts])


def _add_case(suite: Element, case: Case, cluster: ReportedCluster) -> None:
    element = SubElement(suite, "testcase", name=case.name, classname=cluster.name, time="0")
    if case.end:
        message = case.why[0].statement if case.why else cluster.summary
        ended = SubElement(element, case.end, message=message)
        if case.end == "failure":
            ended.set("type", case.why[0].code if case.why else cluster.verdict)
        ended.text = "\n\n".join(map(_lines, case.why))


def _lines(item: ReportedFinding) -> str:
    """Return a finding as text with one line per part."""
    source = f"read from {item.line}" if item.line else ""
    muted = f"muted until {item.muted_until}: {item.muted}" if item.muted else ""
    texts = (f"{item.severity}: {item.statement}", item.action, item.command, source, muted)
    return "\n".join(filter(None, texts))


def render_sarif(report: Report, listed_in: str = NO_SITE.inventory) -> str:
    """Return the report as SARIF: one rule per finding code, one result per finding."""
    rules: dict[str, int] = {}
    results = [
        _result(cluster, finding, rules.setdefault(finding.code, len(rules)), listed_in)
        for cluster in report.clusters
        for finding in cluster.findings
    ]
    tool = {
        "name": "featurelib",
        "fullName": "featurelib",
        "version": report.run.release or "unknown",
        "rules": [*map(_rule, rules)],
    }
    run = {
        "tool": {"driver": tool},
        "automationDetails": {"id": f"featurelib/{report.run.number}"},
        "results": results,
    }
    return write_sarif(run)


def write_sarif(run: dict[str, Any]) -> str:
    """Return a SARIF log with one run as JSON text."""
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(log), indent=1).decode() + "\n"


def _rule(code: str) -> dict[str, Any]:
    """Return the SARIF rule of a finding code: text and remedy, with placeholders in capitals."""
    rule = {"shortDescription": code_text(code), "fullDescription": code_text(code)}
    if words := wordings(load(STRICT)).get(code):  # codes of another release have no texts
        advice = way_of(Action.START_AGAIN).text  # without a release; each result has its own
        remedy = words.remedy.replace("{way}", advice).replace("{newer}", "")
        helps = f"{remedy[:1].upper()}{remedy[1:]} It rests on: {words.source}"
        rule |= {"fullDescription": words.statement, "help": helps}
    texts = {key: _GAP.sub(lambda gap: (gap[1] or "").upper(), text) for key, text in rule.items()}
    filled = {key: {"text": text} for key, text in texts.items()}
    return {"id": code, "name": code.title().replace("_", ""), **filled}


def _result(
    cluster: ReportedCluster, item: ReportedFinding, rule: int, listed_in: str
) -> dict[str, Any]:
    node = "" if item.node_id is None else f"{item.role or 'node'} {item.node_id}"
    parts = [part for part in (cluster.name, item.feature, node) if part]
    named = {"name": parts[-1], "fullyQualifiedName": "/".join(parts), "kind": "resource"}
    location = sarif_place(item.line or f"{listed_in}:1")
    return {
        "ruleId": item.code,
        "ruleIndex": rule,
        "level": SARIF_LEVELS[item.severity],
        "message": {"text": "\n".join(filter(None, (item.statement, item.action, item.command)))},
        "locations": [{"logicalLocations": [named], "physicalLocation": location}],
        # The parts by which `featurelib diff` recognises a finding.
        "partialFingerprints": {"finding/v1": "/".join((item.code, cluster.id, *parts[1:]))},
        "properties": {"severity": item.severity, "owner": cluster.owner},
        # SARIF requires a baseline state of all results or of none.
        "suppressions": [{"kind": "external", "justification": item.muted}] * bool(item.muted),
    }


def sarif_place(line: str) -> dict[str, Any]:
    """Return the SARIF location for `file:line`. The file may be local, relative or a URI."""
    path, _, number = line.rpartition(":")
    scheme, is_store, path_part = path.partition("://")
    uri = f"{scheme}://{quote(path_part)}" if is_store else quote(path)
    if path.startswith("/"):
        uri = f"file:///{quote(path.lstrip('/'))}"
    region = {"region": {"startLine": int(number)}} if number.isdecimal() else {}
    return {"artifactLocation": {"uri": uri}, **region}


def export(
    night: NightTables,
    as_form: CiForm | None = None,
    csv: Sheet | None = None,
    as_json: bool = False,
) -> int:
    """Print a report for a spreadsheet or CI server.

    \b
        featurelib export --as sarif --tables TABLES > report.sarif
        featurelib export --as junit --owner payments --tables TABLES > report.junit.xml
        featurelib export --csv findings --view live --tables TABLES > findings.csv

    Without --as and --csv it is JSON. --csv prints one part of it. What a spreadsheet would
    calculate begins with an apostrophe there.

    Exit codes: 0 done; 2 usage; 5 there is no run, or the run has none of these clusters.
    """
    if (as_form is not None) + (csv is not None) + as_json > 1:
        raise ConfigError("--as, --csv and --json exclude each other. Keep one of them.")
    if csv is not None:
        print(render_sheet(night.report, csv), end="")
    elif as_form is not None:
        print(render_for_ci(night.report, as_form, night.listed_in), end="")
    else:
        print(render_json(night.report).decode(), end="")
    return 0
