"""Nodes that are registered and that Kafka itself does not see, and what helps.

A node that only we cannot reach is no ghost: it is `node_not_answering` (core/missing.py). Which
remedy works depends on the metadata.version of the cluster: it stands in `finalized_level` of these
findings, and the least release of software that helps in the `detail` of a controller's.
"""

from __future__ import annotations

import numpy as np

from featurelib.catalogue import Catalogue
from featurelib.core.columns import Bool, Int
from featurelib.core.evidence import Evidence
from featurelib.core.findings import NO_NUMBER, Findings
from featurelib.core.plan import who_may_join
from featurelib.core.target import Judge
from featurelib.feature import Role


def report_ghosts(asking: Judge, ceiling: Int, covered: Bool, said: Findings) -> None:
    """Add what is known of nodes that are gone, and of voters that are too few; `covered` are
    subjects whose range is not missing, because their controller answered for it."""
    evidence = asking.evidence
    who = evidence.subjects
    registered = who.registered & ~who.expected_only & ~vouched_for(evidence)
    in_zookeeper = evidence.membership.zookeeper[who.cluster]
    broker = registered & (who.role == int(Role.BROKER)) & ~who.answers
    controller = registered & (who.role == int(Role.CONTROLLER)) & who.gone
    # A log dumped after its broker was stopped shows it fenced: what answered last is no ghost.
    for code, hit in (
        ("range_unknown", without_range(evidence) & ~covered),
        ("ghost_broker", broker & who.gone & ~in_zookeeper),
        ("ghost_controller", controller),
        ("silent_broker", broker & (who.failed_at > 0) & in_zookeeper),
    ):
        rows = np.flatnonzero(hit)
        if code == "ghost_controller":
            detail = least_software(evidence, asking.catalogue, ceiling, who.cluster[rows])
        else:
            detail = _no_answer(evidence, rows)
        said.add(
            code,
            who.cluster[rows],
            role=who.role[rows],
            node_id=who.node_id[rows],
            finalized_level=_metadata_version(asking)[who.cluster[rows]],
            at=who.at[rows],
            line=who.line[rows],
            detail=detail,
        )
    _majority(evidence, said)


def vouched_for(evidence: Evidence) -> Bool:
    """The controllers that do not answer, and for which the owner's word stands in."""
    who = evidence.subjects
    controller = who.role == int(Role.CONTROLLER)
    return evidence.controllers_vouched[who.cluster] & controller & ~who.answers


def without_range(evidence: Evidence) -> Bool:
    """The nodes that are known to be registered, and whose range nobody ever saw."""
    who = evidence.subjects
    counted = ~who.expected_only & ~vouched_for(evidence)
    return counted & (who.profile < 0) & ~who.not_asked & ~who.not_answering


def least_software(
    evidence: Evidence, catalogue: Catalogue, ceiling: Int, clusters: Int
) -> list[str]:
    """The oldest release that may join each of `clusters` now and at its ceilings; "" = none."""
    if len(clusters) == 0:
        return []
    now = who_may_join(evidence, catalogue, evidence.questions.current)
    then = who_may_join(evidence, catalogue, ceiling)
    found = []
    for position in clusters.tolist():
        both = set(now[position].as_py() or ())
        found.append(next((name for name in then[position].as_py() or () if name in both), ""))
    return found


def _metadata_version(asking: Judge) -> Int:
    """What is finalized of metadata.version by cluster, where it is known and there is such."""
    evidence = asking.evidence
    known = evidence.membership.kraft & evidence.levels.trusted
    return np.where(known, asking.metadata_version, NO_NUMBER)


def _no_answer(evidence: Evidence, rows: Int) -> list[str]:
    """That these subjects did not answer when they were asked, and why; empty where they were not
    asked."""
    who = evidence.subjects
    silent = (who.failed_at > 0) & ~who.answers
    return [
        f"; it did not answer ({evidence.errors(int(who.listener[row]))})" if silent[row] else ""
        for row in rows
    ]


def _majority(evidence: Evidence, said: Findings) -> None:
    """Where so many voters were asked and did not answer that the others are no majority."""
    who, clusters = evidence.subjects, len(evidence.clusters)
    voters = np.bincount(who.cluster[who.voter], minlength=clusters)
    failed = np.bincount(who.cluster[who.voter & who.not_answering], minlength=clusters)
    answer = np.bincount(who.cluster[who.voter & who.answers], minlength=clusters)
    rows = np.flatnonzero((voters > 1) & (failed > 0) & (2 * (voters - failed) <= voters))
    said.add(
        "no_majority_answers",
        rows,
        at=evidence.membership.quorum_at[rows],
        line=evidence.membership.quorum_line[rows],
        detail=[f"{answer[row]} of {voters[row]}" for row in rows.tolist()],
    )
