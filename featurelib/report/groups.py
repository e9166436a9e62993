"""Findings of one cluster gathered for reading: what has one remedy is said once.

Fifty old nodes that hold back three features are one group: three sentences about the first node,
and who else it holds for. Nothing is left out that the count and the node list do not say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from featurelib.feature import Severity
from featurelib.report import phrases
from featurelib.report.model import Finding, Level, Range


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Findings of one code about the same nodes; `first` lends remedy, command and evidence."""

    severity: Severity
    messages: tuple[str, ...]
    others: str  # the further nodes all messages hold for, or nothing
    first: Finding


_Fact = tuple[str, Severity, str | None, str | None, Level | None, Level | None, Range | None]


def group_findings(findings: Sequence[Finding]) -> tuple[Group, ...]:
    """The groups in the order of their first findings."""
    facts: dict[_Fact, list[Finding]] = defaultdict(list)
    for finding in findings:
        facts[_fact(finding)].append(finding)
    groups: dict[tuple[object, ...], list[list[Finding]]] = defaultdict(list)
    for alike in facts.values():
        first = alike[0]
        who = tuple(finding.node_id for finding in alike)
        same = (first.code, first.severity, first.role, who, first.remedy, first.command)
        groups[same].append(alike)
    return tuple(_group(rows) for rows in groups.values())


def _fact(finding: Finding) -> _Fact:
    """What makes two findings differ in nothing but the node."""
    # Without a node each finding is a fact of its own; its message tells them apart.
    about = finding.feature if finding.node_id is not None else finding.message
    return (
        finding.code,
        finding.severity,
        finding.role,
        about,
        finding.level,
        finding.finalized,
        finding.supported,
    )


def _group(rows: list[list[Finding]]) -> Group:
    first = rows[0][0]
    others = [found.node_id for found in rows[0][1:] if found.node_id is not None]
    also = f"The same holds for {phrases.nodes(first.role, others)}." if others else ""
    return Group(
        severity=first.severity,
        messages=tuple(alike[0].message for alike in rows),
        others=also,
        first=first,
    )
