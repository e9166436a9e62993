"""One cluster in one line: what to know of it, or to do with it, first."""

from __future__ import annotations

from collections.abc import Sequence

from featurelib.feature import Severity, Verdict
from featurelib.report import phrases
from featurelib.report.causes import BY_NODE
from featurelib.report.model import Finding, Step
from featurelib.report.words import say_code

FEATURES = 1  # named in one line; the others are counted


def summarize_cluster(verdict: Verdict, findings: Sequence[Finding], steps: Sequence[Step]) -> str:
    """The worst findings of the cluster as a phrase, then what can be finalized all the same."""
    parts = [_problem(findings, Severity.CRITICAL)]
    if verdict is Verdict.UNKNOWN:
        parts.append(_problem(findings, Severity.UNKNOWN))
    if verdict is Verdict.BLOCKED:
        parts.append(_in_the_way(findings))
    if not any(parts) and not steps:
        parts.append(_problem(findings, Severity.WARNING))
    if steps:
        moves = [f"{step.feature} {step.to_level.text}" for step in steps]
        parts.append(f"can finalize {phrases.some(moves, FEATURES)}")
    return "; ".join(filter(None, parts)) or "nothing to do"


def _problem(findings: Sequence[Finding], severity: Severity) -> str:
    """`critical: incompatible with finalized (broker 2)`: the first code, and how many others."""
    found = [finding for finding in findings if finding.severity is severity]
    codes = list(dict.fromkeys(finding.code for finding in found))
    if not codes:
        return ""
    first = [finding for finding in found if finding.code == codes[0]]
    who = _who(first)
    label = f"{severity.value}: " if severity is not Severity.UNKNOWN else ""
    return label + phrases.some([say_code(codes[0]) + who, *codes[1:]], 1)


def _in_the_way(findings: Sequence[Finding]) -> str:
    found = [finding for finding in findings if finding.severity is Severity.BLOCKER]
    by_node = [finding for finding in found if finding.code == BY_NODE]
    if not by_node:
        return _problem(findings, Severity.BLOCKER)
    features = list(dict.fromkeys(finding.feature or "" for finding in by_node))
    ids = {finding.node_id for finding in by_node if finding.node_id is not None}
    roles = {finding.role for finding in by_node}
    role = roles.pop() if len(roles) == 1 else None
    verb = "holds" if len(ids) == 1 else "hold"
    return f"{phrases.nodes(role, ids)} {verb} back {phrases.some(features, FEATURES)}"


def _who(findings: Sequence[Finding]) -> str:
    ids = {finding.node_id for finding in findings if finding.node_id is not None}
    roles = {finding.role for finding in findings}
    role = roles.pop() if len(roles) == 1 else None
    return f" ({phrases.nodes(role, ids)})" if ids else ""
