"""Report quorums without a running majority or leader, dead voters and wrong lists of voters.

Easy to get wrong: a voter without a response may run, because a firewall may block the request.
Three facts prove a majority: a leader that sees most voters fetch, a leader that answered a probe,
or responses of most voters or of their broker roles. The name of a leader proves nothing: a single
voter names the dead leader (4.3.1), and a single leader still calls itself leader (3.6.2). Three
facts prove a missing leader: a controller that lost it, brokers whose DescribeQuorum times out
(3.9.2, 4.3.1), or a leader without a majority that fetches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from featurelib.audit.columns import broker_key, find, marked, node_key, place
from featurelib.audit.evidence import BatchFindings, Evidence, StaticVoters
from featurelib.audit.registrations import record_keys
from featurelib.audit.target import Judge
from featurelib.feature import KRAFT_VERSION, Role
from featurelib.findings import Issue
from featurelib.landing.responses import MEMBERS, UNLISTED
from featurelib.rows import Bool, Int, pick, texts_of
from featurelib.snapshot.state import ONE_MOMENT, ONE_READING
from featurelib.words import nodes

# The code of a quorum that nobody sees a leader of, and the code of a missing majority.
NO_LEADER, NO_MAJORITY = "quorum_without_leader", "no_majority_answers"
NEVER = int(np.iinfo(np.int64).max)


def report_majority(report: BatchFindings, proven: Bool) -> Int:
    """Report clusters without proof of a running majority. `proven`: clusters whose controller
    answered a probe. Return the number of reasons for UNKNOWN per cluster."""
    evidence, node = report.evidence, report.evidence.subjects
    member, clusters = evidence.membership, len(evidence.clusters)
    declared = evidence.controllers_vouched
    # If DescribeQuorum was never read, the controllers count as voters.
    votes = node.voter | ((node.role == Role.CONTROLLER) & ~member.quorum_known[node.cluster])
    votes &= ~node.expected_only
    records, finders = _leaderless_nodes(evidence, votes)
    waited_at = _leaderless_at(evidence, votes, records, finders)
    lost = votes & (waited_at > member.quorum_at + ONE_MOMENT)[node.cluster]
    lost &= node.answered_at <= waited_at[node.cluster] + ONE_READING
    runs = node.answers | node.follows
    controllers = np.flatnonzero(node.role == Role.CONTROLLER)
    brokers = find(node.key, broker_key(node.key[controllers]))  # a process runs if a role responds
    is_recent = node.answered_at[brokers] + ONE_READING >= node.failed_at[controllers]
    runs[controllers] |= (brokers >= 0) & node.answers[brokers] & is_recent
    voters, failed, answered, running, follow = (
        np.bincount(node.cluster[votes & mask], minlength=clusters)
        for mask in (votes, node.not_answering | lost, node.answers, runs, node.follows & ~lost)
    )
    newest = np.zeros(clusters, dtype=np.int64)
    np.maximum.at(newest, node.cluster, np.maximum(node.answered_at, node.failed_at))
    lonely = (follow > 0) & (2 * follow <= voters) & (member.quorum_at + ONE_READING >= newest)
    minority = (failed > 0) & (2 * (voters - failed) <= voters) & (2 * follow <= voters) & ~proven
    count = np.zeros(clusters, dtype=np.int64)
    for row in np.flatnonzero(minority | lonely).tolist():
        votes_here, leaderless = votes & (node.cluster == row), node.cluster[finders] == row
        offline = np.flatnonzero(votes_here & ~node.answers & ~node.follows)
        offline = offline if len(offline) else np.flatnonzero(votes_here & lost)
        reasons, source = _leaderless_texts(evidence, records[leaderless])
        if lonely[row]:
            reasons.append("the last leader sees no majority of them fetch")
            source = source or (member.quorum_at[row], member.quorum_line[row])
        # A node without a response has its own finding; the owner declares unreachable controllers.
        clear = voters[row] == 1 or running[row] * 2 > voters[row] or declared[row]
        if not len(offline) or (clear and not reasons):
            continue
        last_voter = offline[np.argmax(node.failed_at[offline])]
        at, line = source or (node.failed_at[last_voter], node.failed_line[last_voter])
        ids = nodes(Role.CONTROLLER.text, node.node_id[offline].tolist())
        lacking = len(offline) - (voters[row] - 1) // 2  # voters that a majority lacks
        ids = f"{lacking} of {ids}" if 0 < lacking < len(offline) else ids
        count += report.of_clusters(
            NO_LEADER if reasons else NO_MAJORITY,
            np.array([row]),
            detail=["; ".join([f"{answered[row]} of {voters[row]} voters responded", *reasons])],
            cause=texts_of([Issue.LISTENER if node.answers[offline].all() else None]),
            voters=texts_of([ids]),
            at=np.array([at]),
            line=np.array([line]),
        )
    return count


def report_dead_voters(report: BatchFindings) -> None:
    """Report voters of a dynamic quorum that neither respond nor fetch from the leader."""
    evidence, node = report.evidence, report.evidence.subjects
    member, voters = evidence.membership, evidence.snapshots["voters"]
    is_dynamic, _ = evidence.dynamic()
    shows = is_dynamic & member.quorum_known & marked(len(is_dynamic), node.cluster[node.follows])
    at, line = (positions[node.cluster] for positions in member.quorum_place)
    dead_voters = node.voter & ~node.answers & ~node.follows & shows[node.cluster]
    dead_voters &= at + ONE_READING >= node.failed_at
    voter_keys = node_key(voters.row, Role.CONTROLLER, voters.field("node_id"))
    at_voter = place(voter_keys, np.argsort(voter_keys, kind="stable"), node.key[dead_voters])
    ids = texts_of(voters.texts("directory", at_voter))
    report.of_nodes("voter_not_fetching", dead_voters, (at, line), directory=ids)


def _leaderless_nodes(evidence: Evidence, votes: Bool) -> tuple[Int, Int]:
    """Return (records of nodes that reported no leader, positions of these nodes). A record counts
    only if voters did not respond, or if an earlier collection shows a leader."""
    node, records = evidence.subjects, evidence.snapshots["leaderless"]
    at, subject = records.field("at"), find(node.key, record_keys(records))
    leader_at = evidence.membership.quorum_at.copy()
    np.maximum.at(leader_at, node.cluster[votes], node.failed_at[votes] - ONE_READING)
    since_asked = pick(
        np.where(node.answers, node.answered_at - ONE_READING, NEVER), subject, NEVER
    )
    counts = np.flatnonzero(at >= np.maximum(since_asked, leader_at[records.row]))
    return counts, subject[counts]


def _leaderless_at(evidence: Evidence, votes: Bool, records: Int, finders: Int) -> Int:
    """Return per cluster the last time at which the quorum certainly had no leader; 0 = never.
    Certain: all voters, or brokers, report no leader. A few voters may be in an election."""
    node, clusters = evidence.subjects, len(evidence.clusters)
    by_voter, waited_at = finders[votes[finders]], np.zeros(clusters, dtype=np.int64)
    all_voters = np.bincount(node.cluster[votes], minlength=clusters)
    agreeing = np.bincount(node.cluster[by_voter], minlength=clusters)
    waits = (node.role[finders] == Role.BROKER) | (agreeing == all_voters)[node.cluster[finders]]
    asked_at = evidence.snapshots["leaderless"].field("at")[records]
    np.maximum.at(waited_at, node.cluster[finders[waits]], asked_at[waits])
    return waited_at


def _leaderless_texts(evidence: Evidence, rows: Int) -> tuple[list[str], tuple[int, int] | None]:
    """Return (texts about the nodes that reported no leader, (time, line) of the newest report)."""
    records = evidence.snapshots["leaderless"]
    role, ids, at = (records.field(name)[rows] for name in ("role", "node_id", "at"))
    phrases = (Role.CONTROLLER, "found no leader"), (Role.BROKER, "got no response from a leader")
    texts = [
        f"{nodes(of.text, ids[role == of].tolist())} {words}" for of, words in phrases if of in role
    ]
    newest = np.argmax(at) if texts else 0
    return texts, (at[newest], records.field("line")[rows[newest]]) if texts else None


def report_static_voters(report: BatchFindings) -> None:
    """Report controllers that have `controller.quorum.voters` in a dynamic quorum, or that lack it
    in a static quorum."""
    evidence, voters = report.evidence, report.evidence.configurations.static_voters
    dynamic, may_be_dynamic = evidence.dynamic()
    static = evidence.membership.kraft & ~may_be_dynamic
    static[[at for at, name, _ in evidence.levels.disputed if name == KRAFT_VERSION]] = False
    wrong_lists = [voter for voter in voters if dynamic[voter.cluster] and voter.ids]
    empty_lists = [voter for voter in voters if static[voter.cluster] and not voter.ids]
    for code, voter_lists, text in (
        ("dynamic_quorum_with_static_voters", wrong_lists, [*_voter_texts(evidence, wrong_lists)]),
        ("static_quorum_without_voters", empty_lists, None),
    ):
        rows = [(v.cluster, v.node_id, v.at, v.line) for v in voter_lists]
        cluster, node_id, at, line = np.array(rows, dtype=np.int64).reshape(-1, 4).T
        report.of_clusters(
            code,
            cluster,
            detail=text,
            role=np.full(len(voter_lists), Role.CONTROLLER),
            node_id=node_id,
            at=at,
            line=line,
        )


def _voter_texts(evidence: Evidence, lists: Sequence[StaticVoters]) -> Iterator[str]:
    """Yield each list of voter ids as text that marks unregistered ids."""
    nodes = evidence.subjects
    controllers = nodes.registered & (nodes.role == Role.CONTROLLER)
    controllers &= marked(len(evidence.clusters), [v.cluster for v in lists])[nodes.cluster]
    keys = nodes.cluster[controllers].tolist(), nodes.node_id[controllers].tolist()
    registered = set(zip(*keys, strict=True))
    for voters in lists:
        lost = {i for i in voters.ids if (voters.cluster, i) not in registered} - {voters.node_id}
        is_listed = lost and evidence.membership.controllers_known[voters.cluster]
        suffix = f"; {ids_text(lost)} not registered" if is_listed else ""
        yield f"{ids_text(voters.ids)}{suffix}"


def lacks_controllers(judge: Judge) -> tuple[Bool, Bool]:
    """Return two masks of clusters: controllers may be missing in the data; the list of controllers
    is outdated. Controllers may be missing if a node list was refused, failed or is outdated
    (docs/decisions/0025)."""
    evidence, clusters = judge.evidence, len(judge.evidence.clusters)
    refused, listeners = evidence.snapshots["refusals"], evidence.listeners
    requests = [refused.code("request", name) for name in (MEMBERS, UNLISTED)]
    is_list = refused.field("role") == Role.CONTROLLER
    is_list &= np.isin(refused.field("request"), requests)
    is_unlisted = listeners.field("role") == Role.CONTROLLER
    is_unlisted &= find(evidence.subjects.key, record_keys(listeners)) < 0
    may_lack = marked(clusters, listeners.row[is_unlisted]) | evidence.membership.controllers_known
    lists = evidence.snapshots["members"]
    is_outdated = (lists.field("role") == Role.CONTROLLER) & (lists.field("fenced_shown") < 0)
    may_lack = (may_lack & evidence.dynamic()[0]) | marked(clusters, refused.row[is_list])
    outdated = marked(clusters, lists.row[is_outdated])
    can_register = judge.metadata_version >= judge.dialect.can.controllers_register_from
    return (may_lack | outdated) & can_register, outdated


def ids_text(ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ids)))
