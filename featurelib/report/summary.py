"""One cluster in one line: what to know of it, or to do with it, first."""

from __future__ import annotations

from collections.abc import Sequence

from featurelib.feature import Severity, Verdict
from featurelib.report import phrases
from featurelib.report.causes import BY_NODE, CONSEQUENCE
from featurelib.report.landed import NOT_ANSWERING, worth_saying
from featurelib.report.model import Finding, Step
from featurelib.report.muted import count_muted, heard
from featurelib.report.words import metadata_first, say_code

FEATURES = 1  # named in one line; the others are counted


def summarize_cluster(verdict: Verdict, findings: Sequence[Finding], steps: Sequence[Step]) -> str:
    """The worst findings of the cluster as a phrase, then what can be finalized all the same."""
    muted = len(findings)
    findings = heard(findings)
    muted -= len(findings)
    findings = worth_saying(findings)
    parts = [_problem(findings, Severity.CRITICAL)]
    if verdict is Verdict.UNKNOWN:
        parts.append(_problem(findings, Severity.UNKNOWN))
    if verdict is Verdict.BLOCKED:
        parts.append(_in_the_way(findings))
    if not any(parts) and not steps:
        parts.append(_problem(findings, Severity.WARNING))
    if steps and verdict is Verdict.READY:
        moves = [f"{step.feature} {step.to_level.text}" for step in steps]
        parts.append(f"can finalize {phrases.some(moves, FEATURES)}")
    elif steps:
        parts.append(f"can finalize {phrases.count(len(steps), 'feature')}")
    said = list(filter(None, parts)) or ["nothing to do"]
    return "; ".join([*said, *filter(None, [count_muted(muted, None)])])


def _problem(findings: Sequence[Finding], severity: Severity) -> str:
    """`critical: incompatible with finalized (broker 2)`: the first code, and how many others."""
    found = [finding for finding in findings if finding.severity is severity]
    codes = list(dict.fromkeys(finding.code for finding in found))
    if not codes:
        return ""
    first = [finding for finding in found if finding.code == codes[0]]
    who = _who(first) + _why(first)
    label = f"{severity.value}: " if severity is not Severity.UNKNOWN else ""
    return label + phrases.some([say_code(codes[0]) + who, *codes[1:]], 1)


def _why(findings: Sequence[Finding]) -> str:
    """Why nodes did not answer, where all of them failed alike."""
    reasons = {finding.detail for finding in findings if finding.code == NOT_ANSWERING}
    reason = reasons.pop() if len(reasons) == 1 else None
    return f": {reason.rstrip('.')}" if reason else ""


def _in_the_way(findings: Sequence[Finding]) -> str:
    """`system off; broker 2 holds back metadata.version and 2 more`."""
    found = [finding for finding in findings if finding.severity is Severity.BLOCKER]
    by_node = [finding for finding in found if finding.code == BY_NODE]
    if not by_node:
        return _problem(findings, Severity.BLOCKER)
    codes = {finding.code for finding in found} - {BY_NODE, CONSEQUENCE}
    named = sorted({finding.feature or "" for finding in by_node}, key=metadata_first)
    verb = "holds" if len({finding.node_id for finding in by_node}) == 1 else "hold"
    nodes = f"{_nodes(by_node)} {verb} back {phrases.some(named, FEATURES)}"
    return "; ".join([*map(say_code, sorted(codes)), nodes])


def _who(findings: Sequence[Finding]) -> str:
    nodes = _nodes(findings)
    return f" ({nodes})" if nodes else ""


def _nodes(findings: Sequence[Finding]) -> str:
    ids = {finding.node_id for finding in findings if finding.node_id is not None}
    roles = {finding.role for finding in findings}
    return phrases.nodes(roles.pop() if len(roles) == 1 else None, ids) if ids else ""
