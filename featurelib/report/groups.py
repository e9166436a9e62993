"""Findings of one cluster gathered for reading: what can be said at once is said once.

Fifty old nodes that hold back three features are three sentences about the first of them, and who
else they hold for. One node that holds back three features has one remedy. Whichever way of the
two makes fewer groups is taken; neither leaves a node or a feature out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from featurelib.feature import Severity
from featurelib.report import phrases
from featurelib.report.landed import NOT_LANDED, say_missing, worth_saying
from featurelib.report.model import Finding

_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Findings of one code; `first` lends remedy, command and evidence."""

    severity: Severity
    messages: tuple[str, ...]
    others: str  # the further nodes every message holds for or that are missing, or nothing
    first: Finding


def group_findings(findings: Sequence[Finding]) -> tuple[Group, ...]:
    """The groups, in the order of the first finding of each code."""
    groups: list[Group] = []
    told = worth_saying(findings)
    for same in _gather(told, lambda finding: (finding.severity, finding.code)):
        by_fact, by_remedy = _by_fact(same), _by_remedy(same)
        groups += by_fact if len(by_fact) < len(by_remedy) else by_remedy
    return tuple(
        replace(group, others=say_missing(findings)) if group.first.code == NOT_LANDED else group
        for group in groups
    )


def _by_remedy(findings: Sequence[Finding]) -> list[Group]:
    return [
        Group(
            severity=alike[0].severity,
            messages=_once(alike),
            others="",
            first=alike[0],
        )
        for alike in _gather(findings, lambda finding: (finding.remedy, finding.command))
    ]


def _by_fact(findings: Sequence[Finding]) -> list[Group]:
    """What differs in nothing but the node together; then what holds for the same nodes."""
    facts = _gather(findings, _fact)
    return [_join(alike) for alike in _gather(facts, _nodes_and_remedy)]


def _nodes_and_remedy(alike: list[Finding]) -> Hashable:
    first = alike[0]
    nodes = tuple(finding.node_id for finding in alike)
    return first.role, nodes, first.remedy, first.command


def _join(facts: list[list[Finding]]) -> Group:
    first = facts[0][0]
    others = [found.node_id for found in facts[0][1:] if found.node_id is not None]
    also = f"The same holds for {phrases.nodes(first.role, others)}." if others else ""
    messages = _once([alike[0] for alike in facts])
    return Group(severity=first.severity, messages=messages, others=also, first=first)


def _once(findings: Sequence[Finding]) -> tuple[str, ...]:
    """The messages; one that names no feature stands once for all of them."""
    return tuple(dict.fromkeys(finding.message for finding in findings))


def _fact(finding: Finding) -> Hashable:
    # Without a node a finding is a fact of its own, told from others by all it says.
    if finding.node_id is None:
        return finding
    nobody = replace(finding, node_id=None, message="", remedy="", command="", epoch=None)
    return replace(nobody, observed_at=None, line_id=None, line=None)


def _gather(rows: Sequence[_Row], key: Callable[[_Row], Hashable]) -> list[list[_Row]]:
    groups: dict[Hashable, list[_Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return list(groups.values())
