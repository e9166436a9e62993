"""Whether a majority of a quorum's voters runs, where so many did not answer us.

That they did not answer us does not show that they are down: a firewall may stand between. A
leader that sees most voters fetch shows that they run, and so does one that answered a probe. That
a node names a leader shows nothing: a voter that is left alone names the dead one for good (4.3.1),
and a leader that is left alone goes on calling itself the leader (3.6.2). What shows that there is
none: a controller that knows of no leader, brokers that pass DescribeQuorum on and wait in vain
(both 3.9.2 and 4.3.1), and a leader that sees no majority fetch (3.6.2).
"""

from __future__ import annotations

import numpy as np

from featurelib.audit.columns import find
from featurelib.audit.evidence import BatchFindings, Evidence
from featurelib.audit.registrations import record_keys
from featurelib.feature import Role
from featurelib.rows import Bool, Int, pick, texts_of
from featurelib.snapshot.state import ONE_LOOK
from featurelib.words import nodes

# Of a quorum that has no leader, as far as anybody shows: the most urgent thing of all.
NO_LEADER, NO_MAJORITY = "quorum_without_leader", "no_majority_answers"


def report_majority(said: BatchFindings, proven: Bool) -> Int:
    """Add the clusters without a majority that anybody shows; `proven` are those where the active
    controller answered a probe. By cluster, how many keep it from a verdict."""
    evidence, who = said.evidence, said.evidence.subjects
    member, clusters = evidence.membership, len(evidence.clusters)
    # Where the quorum was never shown, its controllers stand in for the voters.
    votes = who.voter | ((who.role == Role.CONTROLLER) & ~member.quorum_known[who.cluster])
    votes &= ~who.expected_only
    voters, failed, answered, follow = (
        np.bincount(who.cluster[votes & which], minlength=clusters)
        for which in (votes, who.not_answering, who.answers, who.follows)
    )
    newest = np.zeros(clusters, dtype=np.int64)
    np.maximum.at(newest, who.cluster, np.maximum(who.answered_at, who.failed_at))
    alone = (follow > 0) & (2 * follow <= voters) & (member.quorum_at + ONE_LOOK >= newest)
    few = (failed > 0) & (2 * (voters - failed) <= voters) & (2 * follow <= voters) & ~proven
    count = np.zeros(clusters, dtype=np.int64)
    for row in np.flatnonzero(few | alone).tolist():
        mine = votes & (who.cluster == row)
        off = np.flatnonzero(mine & ~who.answers & ~who.follows)
        lost, place = _without_leader(evidence, row, int(who.failed_at[mine].max()))
        if alone[row]:
            lost.append("the last leader sees no majority of them fetch")
            place = place or (member.quorum_at[row], member.quorum_line[row])
        if not lost and (voters[row] == 1 or evidence.controllers_vouched[row]):
            continue  # one that does not answer says all of it; whom nobody can ask is vouched for
        if not len(off):
            continue  # they run
        last = off[np.argmax(who.failed_at[off])]
        at, line = place or (who.failed_at[last], who.failed_line[last])
        ids = nodes(Role.CONTROLLER.text, who.node_id[off].tolist())
        least = len(off) - (voters[row] - 1) // 2  # what a majority lacks
        count += said.of_clusters(
            NO_LEADER if lost else NO_MAJORITY,
            np.array([row]),
            detail=["; ".join([f"{answered[row]} of {voters[row]} voters answered", *lost])],
            to_fix=texts_of([f"{least} of {ids}" if 0 < least < len(off) else ids]),
            at=np.array([at]),
            line=np.array([line]),
        )
    return count


def _without_leader(
    evidence: Evidence, row: int, since: int
) -> tuple[list[str], tuple[int, int] | None]:
    """Which nodes that answer found no leader about when voters did not answer, and where that was
    read last."""
    who, found = evidence.subjects, evidence.snapshots["leaderless"]
    runs = pick(who.answers.astype(np.int64), find(who.key, record_keys(found)), 0) > 0
    mine = np.flatnonzero((found.row == row) & runs & (found.field("at") + ONE_LOOK >= since))
    role, at, line = (found.field(name)[mine] for name in ("role", "at", "line"))
    ids = found.field("node_id")[mine]
    lost = [
        f"{nodes(of.text, ids[role == of].tolist())} {found_none}"
        for of, found_none in (
            (Role.CONTROLLER, "found no leader"),
            (Role.BROKER, "asked for the leader in vain"),
        )
        if (role == of).any()
    ]
    if not lost:
        return [], None
    newest = np.argmax(at)
    return lost, (at[newest], line[newest])
