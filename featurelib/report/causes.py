"""What holds the fleet back most: findings that block or hide a verdict, by what they share.

Nodes of one old release are one cause, whatever features they hold back: they are known by their
range of metadata.version or, where that is not in the way, by the range that is. First what unlocks
most: of a cluster with n causes each one counts for an n-th. Of equals, nodes that do not answer,
since other evidence may be missing for that alone; then what needs fewer nodes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from featurelib.feature import METADATA_VERSION, Severity
from featurelib.report.landed import NOT_ANSWERING, worth_saying
from featurelib.report.model import Cause, Cluster, Finding, Range
from featurelib.report.words import metadata_first, say_code

HOLDS_BACK = frozenset({Severity.BLOCKER, Severity.UNKNOWN})
BY_NODE = "unsupported_by_node"
# Follows from another finding: it is a cause only where there is no other.
CONSEQUENCE = "dependency_unmet"


class _Key(NamedTuple):
    code: str
    severity: Severity
    feature: str | None = None
    supported: Range | None = None


def rank_causes(clusters: Sequence[Cluster]) -> tuple[Cause, ...]:
    """Every cause over all clusters, the one that holds back most of them first."""
    held: dict[_Key, list[tuple[Cluster, Finding]]] = defaultdict(list)
    shares: dict[_Key, Counter[int]] = defaultdict(
        Counter
    )  # clusters, by how many causes hold them
    for cluster in clusters:
        keyed = list(_causes_of(cluster))
        keys = {key for key, _ in keyed}
        for key, finding in keyed:
            held[key].append((cluster, finding))
        for key in keys:
            shares[key][len(keys)] += 1
    causes = [
        (_cause(key, rows, shares[key][1]), _share(shares[key])) for key, rows in held.items()
    ]
    return tuple(cause for cause, _ in sorted(causes, key=lambda pair: _rank(*pair)))


def _share(clusters: Counter[int]) -> Fraction:
    return sum((Fraction(count, causes) for causes, count in clusters.items()), Fraction())


def _rank(cause: Cause, share: Fraction) -> tuple[Fraction, int, bool, int, str, str]:
    answers = cause.code != NOT_ANSWERING
    return -share, -cause.clusters, answers, cause.nodes, cause.title, cause.severity


def _causes_of(cluster: Cluster) -> Iterator[tuple[_Key, Finding]]:
    told = worth_saying(cluster.findings)
    found = [finding for finding in told if finding.severity in HOLDS_BACK]
    others = [finding for finding in found if finding.code != CONSEQUENCE]
    metadata = {
        finding.node_id: finding.supported
        for finding in found
        if (finding.code, finding.feature) == (BY_NODE, METADATA_VERSION)
    }
    for finding in others or found:
        key = _Key(finding.code, finding.severity)
        if finding.code == BY_NODE and finding.node_id in metadata:
            key = key._replace(feature=METADATA_VERSION, supported=metadata[finding.node_id])
        elif finding.code == BY_NODE:
            key = key._replace(feature=finding.feature, supported=finding.supported)
        yield key, finding


def _cause(key: _Key, rows: list[tuple[Cluster, Finding]], alone: int) -> Cause:
    clusters = {cluster.key: cluster.name for cluster, _ in rows}
    nodes = {(c.key, finding.node_id) for c, finding in rows if finding.node_id is not None}
    features = {finding.feature for _, finding in rows if finding.feature is not None}
    return Cause(
        title=_title(key),
        code=key.code,
        severity=key.severity,
        feature=key.feature,
        supported=key.supported,
        features=tuple(sorted(features, key=metadata_first)),
        clusters=len(clusters),
        alone=alone,
        nodes=len(nodes),
        held=tuple(clusters.values()),
        muted=len(clusters.keys() - {c.key for c, finding in rows if finding.muted is None}),
    )


def _title(key: _Key) -> str:
    if key.code != BY_NODE:
        return say_code(key.code)
    if key.supported is None:
        return f"nodes that do not support {key.feature} at all"
    return f"nodes that support {key.feature} {key.supported.text}"
