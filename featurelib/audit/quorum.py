"""Nodes that are gone, voters that are too few, and what controllers' configuration leaves open.

A node that is registered and that Kafka itself does not see is a ghost; one that only we cannot
reach is not: it is `node_not_answering` (missing.py). Which remedy works depends on the cluster's
metadata.version: it stands in `finalized_level` of these findings, and the least release of
software that helps in the `detail` of a controller's.

From 3.7 a controller that is asked for a level wants those registered whom its own
`controller.quorum.voters` names, and not who votes (QuorumFeatures.quorumNodeIds);
docs/decisions/0011-configured-voters.md argues when that matters without having been read.
"""

from __future__ import annotations

import numpy as np

from featurelib.audit.columns import Bool, Int
from featurelib.audit.evidence import Evidence
from featurelib.audit.findings import CONTROLLERS_UNREGISTER_FROM, NO_NUMBER, Findings
from featurelib.audit.target import Judge
from featurelib.audit.verdict import who_may_join
from featurelib.catalogue import Catalogue
from featurelib.feature import Role

_NOT_READ = "its controller.quorum.voters was not read"
_NO_LIST = "no list of registered controllers was read"


def report_settings(evidence: Evidence, said: Findings) -> None:
    """Add a finding for each controller of a dynamic quorum that still has static voters."""
    dynamic, _ = evidence.dynamic()
    who = evidence.subjects
    listed = evidence.membership.controllers_known
    controllers = (who.role == int(Role.CONTROLLER)) & who.registered
    registered = set(zip(who.cluster[controllers], who.node_id[controllers], strict=True))
    left = [
        one for one in evidence.configurations.static_voters if dynamic[one.cluster] and one.ids
    ]
    details = []
    for one in left:
        ids = sorted(set(one.ids) - {one.node_id})
        gone = [str(i) for i in ids if listed[one.cluster] and (one.cluster, i) not in registered]
        more = f"; {', '.join(gone)} not registered" if gone else ""
        details.append(f"{', '.join(map(str, sorted(one.ids)))}{more}")
    said.add(
        "dynamic_quorum_with_static_voters",
        np.array([one.cluster for one in left], dtype=np.int64),
        role=np.full(len(left), int(Role.CONTROLLER)),
        node_id=np.array([one.node_id for one in left], dtype=np.int64),
        at=np.array([one.at for one in left], dtype=np.int64),
        line=np.array([one.line for one in left], dtype=np.int64),
        detail=details,
    )


def report_unread(asking: Judge, target: Int, proven: Bool, said: Findings) -> Bool:
    """Add the clusters whose active controller may ask somebody nobody knows of, and say by
    question whether its `target` hangs on that: what cannot go up anyhow does not.

    `proven` says by cluster whether the controller itself showed that nobody is in the way.
    """
    evidence, asked = asking.evidence, asking.asked
    member, clusters = evidence.membership, len(evidence.clusters)
    registers = asking.metadata_version >= asking.dialect.can.controllers_register_from
    proven = proven | (evidence.controller_decides & registers)
    rises = asked.known & (target > asked.current)
    open_to = member.kraft & member.quorum_known & ~proven & ~evidence.controllers_vouched
    open_to &= np.bincount(asked.cluster[rises], minlength=clusters) > 0
    _, may_be_dynamic = evidence.dynamic()
    # Only who was unregistered can be named there and be gone without a trace.
    unread = open_to & ~evidence.configured.known(clusters) & may_be_dynamic
    unread &= asking.metadata_version >= CONTROLLERS_UNREGISTER_FROM
    details = dict.fromkeys(np.flatnonzero(unread).tolist(), _NOT_READ)
    for cluster, strangers in _unlisted(evidence).items():
        if open_to[cluster]:
            ids = ", ".join(map(str, strangers))
            details[cluster] = f"it is configured to ask {ids}, and {_NO_LIST}"
    where = np.array(sorted(details), dtype=np.int64)
    said.add(
        "configured_voters_unknown",
        where,
        at=member.quorum_at[where],
        line=member.quorum_line[where],
        detail=[details[cluster] for cluster in where.tolist()],
    )
    return rises & np.isin(asked.cluster, where)


def _unlisted(evidence: Evidence) -> dict[int, list[int]]:
    """Whom active controllers are configured to ask and nobody knows, where nothing lists who is
    registered."""
    who, found = evidence.subjects, dict[int, list[int]]()
    for cluster, one in evidence.configured.of.items():
        if not evidence.membership.controllers_known[cluster]:
            mine = (who.cluster == cluster) & (who.role == int(Role.CONTROLLER))
            strangers = sorted(set(one.ids) - {one.node_id, *who.node_id[mine].tolist()})
            found |= {cluster: strangers} if strangers else {}
    return found


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
