"""Counts over the fleet, taken from the clusters of the same report so that they cannot differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from featurelib.feature import Phase, Severity, Verdict
from featurelib.report.landed import has_landed
from featurelib.report.model import Cluster, Fleet

TOO_OLD = frozenset({"evidence_too_old", "levels_too_old"})


def count_fleet(clusters: Sequence[Cluster]) -> Fleet:
    """The counts of featurelib.report.model.Fleet; every key is there, in the enum's order."""
    by_verdict = Counter(cluster.verdict for cluster in clusters)
    by_phase = Counter(cluster.phase for cluster in clusters)
    features = Counter(ready.verdict for cluster in clusters for ready in cluster.readiness)
    severities = Counter(found.severity for cluster in clusters for found in cluster.findings)
    misfits = {(c.key, node.node_id) for c in clusters for node in c.incompatible}
    muted = [found for cluster in clusters for found in cluster.findings if found.muted is not None]
    return Fleet(
        clusters=len(clusters),
        clusters_by_verdict={verdict: by_verdict[verdict] for verdict in Verdict},
        clusters_by_phase={phase: by_phase[phase] for phase in Phase},
        features=features.total(),
        features_by_verdict={verdict: features[verdict] for verdict in Verdict},
        findings=severities.total(),
        findings_by_severity={severity: severities[severity] for severity in Severity},
        muted=len(muted),
        muted_until=min((m.muted_until for m in muted if m.muted_until is not None), default=None),
        need_person=sum(cluster.needs_person for cluster in clusters),
        can_move=sum(bool(cluster.steps) for cluster in clusters),
        incompatible_nodes=len(misfits),
        all_too_old=bool(clusters) and all(map(_is_too_old, clusters)),
        too_old=sum(map(_is_too_old, clusters)),
        not_landed=sum(not has_landed(cluster.findings) for cluster in clusters),
    )


def _is_too_old(cluster: Cluster) -> bool:
    old = any(found.code in TOO_OLD for found in cluster.findings)
    return old and cluster.verdict is Verdict.UNKNOWN
