"""What controllers' own `controller.quorum.voters` leaves open, or leaves behind.

From 3.7 a controller that is asked for a level wants those registered whom its own configuration
names, and not who votes (QuorumFeatures.quorumNodeIds). docs/decisions/0011-configured-voters.md
argues when that matters without having been read.
"""

from __future__ import annotations

import numpy as np

from featurelib.core.columns import Bool, Int
from featurelib.core.evidence import Evidence
from featurelib.core.findings import Findings
from featurelib.core.remedies import CONTROLLERS_UNREGISTER_FROM
from featurelib.core.target import Judge
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
