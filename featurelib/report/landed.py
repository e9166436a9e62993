"""Clusters from which nothing landed, or where nobody answered: what follows from that comes after.

The findings themselves stay complete; this is about what is worth a sentence of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from featurelib.report import phrases
from featurelib.report.model import SEVERITY_RANK, Finding

NOT_LANDED = "cluster_not_landed"
NODE_MISSING = "expected_node_missing"
NOT_ANSWERING = "node_not_answering"


def has_landed(findings: Sequence[Finding]) -> bool:
    """Whether anything landed from the cluster that has these findings."""
    return all(finding.code != NOT_LANDED for finding in findings)


def is_silent(findings: Sequence[Finding], nodes: int) -> bool:
    """Whether none of the `nodes` of the cluster answered: what else is unknown follows from it."""
    codes = {NOT_ANSWERING, NODE_MISSING}
    silent = {finding.node_id for finding in findings if finding.code in codes}
    return len(silent) == nodes and any(finding.code == NOT_ANSWERING for finding in findings)


def worth_saying(findings: Sequence[Finding]) -> list[Finding]:
    """The findings without the missing nodes of a cluster from which nothing landed.

    Those that conf/audit.toml makes more severe than the missing cluster are kept.
    """
    ranks = [SEVERITY_RANK[found.severity] for found in findings if found.code == NOT_LANDED]
    if not ranks:
        return list(findings)
    return [
        found
        for found in findings
        if found.code != NODE_MISSING or SEVERITY_RANK[found.severity] < min(ranks)
    ]


def say_missing(findings: Sequence[Finding]) -> str:
    """The nodes that are missing with their whole cluster, in one sentence; empty without any."""
    missing: dict[str | None, list[int]] = defaultdict(list)
    for finding in findings:
        if finding.code == NODE_MISSING and finding.node_id is not None:
            missing[finding.role].append(finding.node_id)
    if not missing:
        return ""
    who = " and ".join(phrases.nodes(role, ids) for role, ids in missing.items())
    return f"The inventory expects {who} there."
