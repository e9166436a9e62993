"""Report missing evidence, stale registrations and anomalies as findings.

A reason for UNKNOWN applies to a whole cluster (a node was not queried) or to one feature (sources
disagree), and each has a finding. A missing permission makes UNKNOWN if no node shows the voters.

A stale node is registered, but Kafka itself does not see it. A node that only the collector cannot
reach has the finding `node_not_answering`. The remedy depends on the cluster's metadata.version
(column `finalized_level`), and for a controller on the oldest sufficient release (`detail`).

From 3.7 on the active controller requires the nodes in its own `controller.quorum.voters`, not the
voters (QuorumFeatures.quorumNodeIds; docs/decisions/0011-configured-voters.md).
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial

import msgspec
import numpy as np

from featurelib.audit.checks import outdated
from featurelib.audit.columns import find, latest, marked, other_half
from featurelib.audit.evidence import BatchFindings, Evidence
from featurelib.audit.finalized import UNSEEN, witness_text
from featurelib.audit.majority import (
    ids_text,
    lacks_controllers,
    report_dead_voters,
    report_majority,
    report_static_voters,
)
from featurelib.audit.profiles import ranges_of
from featurelib.audit.target import Agreed, Judge
from featurelib.audit.verdict import least_software
from featurelib.core.dialect import GENERATIONS, load
from featurelib.core.features_znode import elect
from featurelib.feature import UNREGISTERS_CONTROLLERS_FROM, Role, Witness
from featurelib.findings import Issue
from featurelib.landing.responses import CONFIGS, MEMBERS, NOT_AUTHORIZED, PROBE, QUORUM, needed
from featurelib.rows import NONE, Bool, Int, Texts, pick, texts_of
from featurelib.snapshot.records import MALFORMED
from featurelib.words import NOBODY_ANSWERED, clean, moment, nodes, share_reasons, time_text

NOT_LANDED = "cluster_not_landed"
NODE_DAMAGED, NODE_DELETED = "features_node_damaged", "features_node_deleted"
_SHOWN_WHOLE = 250
_NO_LIST = "no list of registered controllers was read"


def report_unknown(report: BatchFindings) -> tuple[Int, Int]:
    """Report missing data. Return (reasons for UNKNOWN per cluster, reasons per (cluster,
    feature)). `report_nodes` reports missing data about nodes later, because a probe may replace
    it."""
    missing, hidden = _missing_permissions(report)
    missing += _clusters(report, hidden) + _levels(report)
    _anomalies(report)
    return missing, _features(report)


def _clusters(report: BatchFindings, hidden: Bool) -> Int:
    """Report missing data about whole clusters. `hidden`: clusters whose quorum a missing
    permission hides. Return the number of findings per cluster."""
    evidence, malformed = report.evidence, report.evidence.malformed
    landed, member, vouched = evidence.landed, evidence.membership, evidence.controllers_vouched
    no_voters = member.kraft & ~member.quorum_known
    count = report.of_clusters(MALFORMED, malformed)
    for code, mask in (
        (NOT_LANDED, ~landed & ~marked(len(landed), list(malformed))),
        ("mode_unknown", landed & ~member.kraft & ~member.zookeeper & ~hidden),
        ("no_node_to_ask", landed & ~marked(len(landed), evidence.subjects.cluster)),
    ):
        count += report.of_clusters(code, mask)
    unknown, is_old = no_voters & ~vouched & ~hidden, member.quorum_at > 0
    # If all data is old, only the finding about old data is reported.
    unknown &= ~(is_old & evidence.levels.trusted & evidence.levels.too_old)
    has_table = marked(len(landed), evidence.snapshots["voters"].row) & ~is_old
    for clusters, source, text in (
        (unknown & ~is_old & ~has_table, (), ""),
        (unknown & has_table, (), ": --replication alone may lack a row"),
        (unknown & is_old, member.quorum_place, " recently"),
    ):
        details = [text] * int(clusters.sum())
        count += report.of_clusters("voters_unknown", clusters, source, details)
    report.of_clusters("voters_vouched", no_voters & vouched & landed)
    unreached = evidence.snapshots["not_reached"]
    texts = [text or "" for text in unreached.texts("error", np.arange(len(unreached)))]
    refused = texts_of(Issue.of_error(text) for text in texts)
    at, line = unreached.field("at"), unreached.field("line")
    messages = (text.replace(NOBODY_ANSWERED, "").removesuffix(".") for text in texts)
    reasons = [f"{share_reasons(reasons)}." for reasons in messages]
    count += report.of_clusters(
        "cluster_not_reached", unreached.row, detail=reasons, at=at, line=line, cause=refused
    )
    return count


def _levels(report: BatchFindings) -> Int:
    levels, source = report.evidence.levels, report.evidence.levels.place
    is_readable = ~marked(len(levels.kind), [*levels.damaged, *levels.ambiguous, *levels.absent])
    no_witness = np.flatnonzero(report.evidence.landed & ~levels.trusted & is_readable)
    by_tool = levels.kind[no_witness] == Witness.TOOL
    details = np.where(by_tool, "; the tool's output names no witness", "").tolist()
    count = report.of_clusters("no_trustworthy_witness", no_witness, detail=details)
    is_dated, is_late = levels.trusted & levels.too_old, levels.at > latest(report.evidence.as_of)
    for code, mask in (
        ("levels_too_old", is_dated & ~is_late),
        ("levels_too_new", is_dated & is_late),
        ("features_node_ambiguous", levels.ambiguous),
    ):
        count += report.of_clusters(code, mask, source)
    epochs = levels.epoch[[*levels.damaged]]
    versions = np.where(epochs < 0, NONE, epochs)
    count += report.of_clusters(NODE_DAMAGED, levels.damaged, source, znode_version=versions)
    lost_levels = {cluster: text for cluster in levels.absent if (text := _gone(report, cluster))}
    lost_texts = [levels.absent[cluster][0] for cluster in lost_levels]
    # The printed command must restore the znode's text byte for byte; else it has a placeholder.
    texts = texts_of(text if clean(text, _SHOWN_WHOLE) == text else None for text in lost_texts)
    count += report.of_clusters(NODE_DELETED, lost_levels, source, znode_text=texts)
    without_levels = [cluster for cluster in levels.absent if cluster not in lost_levels]
    return count + report.of_clusters("features_node_absent", without_levels, source)


def _gone(report: BatchFindings, cluster: int) -> str:
    """Describe the lost levels of a deleted `/feature` znode and the levels that the next
    controller will finalize; "" if there are no levels."""
    node, (text, levels) = report.evidence.subjects, report.evidence.levels.absent[cluster]
    brokers = (node.cluster == cluster) & (node.role == Role.BROKER) & node.registered
    after, dialect = defaultdict[str, set[int]](set), load(GENERATIONS[0])
    for profile in {*node.profile[brokers & ~node.listed_nothing & (node.profile >= 0)].tolist()}:
        supported = ranges_of(report.evidence.snapshots, profile)
        new_znode = elect(None, dialect.election.system_from, supported, dialect).content
        for name, _, level in new_znode.levels if new_znode else ():
            after[name].add(level)
    if not (levels or after):
        return ""
    held = ", ".join(f"{clean(name)} {level}" for name, _, level in levels) or "no feature"
    content = f"When it was last read it held {held}." if text else "What stood in it was not read."
    parts = ((clean(name), " or ".join(map(str, sorted(after[name])))) for name in sorted(after))
    levels_text = ", ".join(f"{name} {ids}" for name, ids in parts)
    effect = " The next controller that is elected finalizes the highest levels that it supports"
    return f"{content}{effect}, which nobody approved: {levels_text}." if levels_text else content


def _features(report: BatchFindings) -> Int:
    """Report findings about single features. Return their number per (cluster, feature)."""
    evidence, levels, query = report.evidence, report.evidence.levels, report.evidence.questions
    disputed = sorted(set(levels.disputed))
    clusters = np.array([cluster for cluster, _, _ in disputed], dtype=np.int64)
    names = texts_of(name for _, name, _ in disputed)
    details = [detail for _, _, detail in disputed]
    report.of_clusters("witnesses_disagree", clusters, levels.place, details, feature=names)
    questions = [_questions(evidence, clusters, names)]
    invisible = np.flatnonzero(levels.entry_level == UNSEEN)  # the trusted source cannot show them
    clusters, names = levels.entry_cluster[invisible], levels.names.take(invisible)
    by_tool = levels.kind[clusters] == Witness.TOOL
    ids = evidence.snapshots["unnumbered"]
    keys = zip(
        ids.row.tolist(), (evidence.snapshots.names[i] for i in ids.field("feature")), strict=True
    )
    printed_levels = dict(zip(keys, ids.texts("printed", np.arange(len(ids))), strict=True))
    pairs = zip(clusters.tolist(), names.to_pylist(), strict=True)
    facts = [printed_levels.get(pair) or witness_text(levels.kind[pair[0]]) for pair in pairs]
    for code, mask in (("level_unknown", ~by_tool), ("level_name_unknown", by_tool)):
        rows = np.flatnonzero(mask)
        details = [facts[i] for i in rows]
        report.of_clusters(code, clusters[rows], levels.place, details, feature=names.take(rows))
    questions.append(_questions(evidence, clusters, names))
    questions.append(_metrics(report))
    pair, subject = evidence.expand(np.flatnonzero(query.pair_unclear))
    questions.append(query.pair_question[pair])
    report.of_nodes("partial_answer", subject, feature=evidence.features(questions[-1]))
    # -1: no question is about this feature of the cluster
    all_questions = np.concatenate(questions)
    return np.bincount(all_questions[all_questions >= 0], minlength=len(query.cluster))


def _metrics(report: BatchFindings) -> Int:
    """Report metrics that contradict the node's response; return their (cluster, feature)."""
    node, odd = report.evidence.subjects, list[tuple[int, str, str]]()
    for row in np.flatnonzero(node.scraped >= 0).tolist():
        by_node, by_metrics = (
            ranges_of(report.evidence.snapshots, int(profile[row]))
            for profile in (node.profile, node.scraped)
        )
        for name, (low, high) in sorted(by_metrics.items()):
            if (pair := by_node.get(name, (0, 0))) != (low, high):
                text = f"{pair[0]} to {pair[1]} in its own response, {low} to {high} in its metrics"
                odd.append((row, name, text))
    rows = np.array([row for row, _, _ in odd], dtype=np.int64)
    names = texts_of(name for _, name, _ in odd)
    report.of_nodes("metrics_disagree", rows, detail=[text for *_, text in odd], feature=names)
    return _questions(report.evidence, node.cluster[rows], names)


def _foreign_metrics(report: BatchFindings) -> None:
    """Report nodes that are not part of the cluster and that only metrics show."""
    listeners, rows = report.evidence.listeners, report.evidence.strangers()
    report.of_clusters(
        "metrics_of_stranger",
        listeners.row[rows],
        role=listeners.field("role")[rows],
        node_id=listeners.field("node_id")[rows],
        at=listeners.field("scraped_at")[rows],
        line=listeners.field("scraped_line")[rows],
    )


def _questions(evidence: Evidence, cluster: Int, names: Texts) -> Int:
    """Return the position of each (cluster, feature name) pair; -1 if the pair does not exist."""
    query = evidence.questions
    codes = {name: code for code, name in enumerate(query.names)}
    width = max(len(codes), 1)
    code = np.array([codes.get(name, -1) for name in names.to_pylist()], dtype=np.int64)
    at = find(query.cluster * width + query.feature, cluster * width + code)
    return np.where(code >= 0, at, -1)


def _anomalies(report: BatchFindings) -> None:
    """Report the contradictions in the collected data that a snapshot has recorded."""
    evidence, snapshots, node = report.evidence, report.evidence.snapshots, report.evidence.subjects
    listeners, levels_place, scalar = evidence.listeners, evidence.levels.seen, snapshots.scalar
    fallen = evidence.levels.back
    fields = (listeners.field(n)[fallen] for n in ("role", "node_id", "highest_epoch", "epoch"))
    rows = zip(*(values.tolist() for values in fields), strict=True)
    texts = [f"{Role(role).text} {node} from {high} to {low}" for role, node, high, low in rows]
    source = {name: listeners.field(f"levels_{name}")[fallen] for name in ("at", "line")}
    report.of_clusters("epoch_went_back", listeners.row[fallen], (), texts, **source)
    waiting, newest = snapshots.waiting, scalar("waiting_at")
    lines = [
        f"{'1 line' if waiting[i] == 1 else f'{waiting[i]} lines'}, the latest dated "
        f"{moment(int(newest[i])):%Y-%m-%dT%H:%M:%SZ}"
        for i in np.flatnonzero(waiting)
    ]
    waiting_source = newest, scalar("waiting_line")
    report.of_clusters("evidence_from_the_future", waiting > 0, waiting_source, lines)
    recreated = dict.fromkeys(np.flatnonzero(scalar("features_node_recreated")).tolist(), "")
    report.of_clusters("features_node_recreated", recreated, levels_place)
    dumps, removed = snapshots["ambiguous_dumps"], snapshots["registrations_gone"]
    times = [str(time) for time in dumps.field("at")]
    report.of_clusters("metadata_log_ambiguous", dumps.row, levels_place, times)
    ends, gap_ends = scalar("log_end"), scalar("log_gap_end")
    gaps = {
        i: f"offsets {ends[i]} to {gap_ends[i] - 1} were not dumped"
        if gap_ends[i] > ends[i]
        else f"a line is missing after offset {ends[i] - 1}"
        for i in np.flatnonzero(gap_ends >= 0).tolist()
    }
    report.of_clusters("metadata_log_gap", gaps, levels_place)
    nodes = [str(node) for node in removed.field("node_id")]
    report.of_clusters("registration_gone", removed.row, levels_place, nodes)

    _foreign_metrics(report)
    lacks_features = node.listed_nothing & ~evidence.levels.system_off[node.cluster]
    report.of_nodes("registration_without_features", lacks_features)
    cluster, node_id = evidence.unlisted_observers(np.ones_like(evidence.landed))
    is_proven = evidence.membership.registrations_proven[cluster]
    for code, mask in (("observer_not_registered", is_proven), ("observer_not_listed", ~is_proven)):
        quorum_source = evidence.membership.quorum_place
        report.of_clusters(code, cluster[mask], quorum_source, node_id=node_id[mask])


# Refused request → (Kafka's name for it, the data that its response would show).
_REFUSED = {
    QUORUM: ("DescribeQuorum", "the voters and the listeners of controllers"),
    MEMBERS: ("DescribeCluster", "which controllers are registered and do not vote"),
    CONFIGS: (
        "DescribeConfigs",
        "whom controllers are configured to ask, and which settings a level overwrites",
    ),
    PROBE: (
        "UpdateFeatures",
        "by a request to validate whether a registration that was not seen blocks",
    ),
}


class RefusedPermission(msgspec.Struct, frozen=True, kw_only=True):
    """A request that a node refused because a permission is missing.

    `node_id`: -1 = the active controller, with unknown id. `elsewhere`: the other role of the
    process answered. `principal`: "" = unknown."""

    request: str
    role: Role
    node_id: int
    elsewhere: bool
    principal: str
    at: int
    line: int


def _missing_permissions(report: BatchFindings) -> tuple[Int, Bool]:
    """Report missing permissions. Return (number of permissions per cluster that prevent a verdict,
    mask of clusters whose quorum is hidden)."""
    evidence, refused = report.evidence, report.evidence.snapshots["refusals"]
    by_request = dict[tuple[int, str], list[RefusedPermission]]()
    for cluster, r in zip(refused.row.tolist(), refused.structs(RefusedPermission), strict=True):
        if r.request in _REFUSED:
            by_request.setdefault((cluster, r.request), []).append(r)
    rows_by: dict[str, list[tuple[int, int, int, str, str | None]]] = {
        "right_missing": [],
        "right_withheld": [],
    }
    for (cluster, request), refusals in sorted(by_request.items()):
        is_settled = any(r.elsewhere for r in refusals) or evidence.controllers_vouched[cluster]
        code = "right_missing" if request == QUORUM and not is_settled else "right_withheld"
        newest = max((refusal.at, refusal.line) for refusal in refusals)
        rows_by[code].append((cluster, *newest, _detail(refusals), refusals[0].principal or None))
    count_by_code = {}
    for code, rows in rows_by.items():
        clusters, at, line = np.array([row[:3] for row in rows], dtype=np.int64).reshape(-1, 3).T
        details, principals = [row[3] for row in rows], texts_of(row[4] for row in rows)
        count_by_code[code] = report.of_clusters(
            code, clusters, detail=details, at=at, line=line, principal=principals
        )
    return count_by_code["right_missing"], count_by_code["right_missing"] > 0


def _detail(refusals: list[RefusedPermission]) -> str:
    """Describe a missing permission: principal, nodes that refused, and missing data."""
    first_refusal = refusals[0]
    by_principal: dict[str, dict[Role, list[int]]] = {}
    for r in refusals:
        by_principal.setdefault(r.principal, {}).setdefault(r.role, []).append(r.node_id)
    texts = []
    for principal, ids_by_role in by_principal.items():
        judges = " and ".join(nodes(r.text, ids) for r, ids in ids_by_role.items() if min(ids) >= 0)
        texts.append(
            f"to {clean(principal or 'whoever collects')} by {judges or 'the active controller'}"
        )
    request, content = _REFUSED[first_refusal.request]
    return (
        f"{needed(first_refusal.request, first_refusal.role)} on CLUSTER; {request} was refused "
        f"{' and '.join(texts)} (error {NOT_AUTHORIZED}), which shows {content}"
    )


def _declared_compatible(evidence: Evidence) -> Bool:
    """Return a mask of silent controllers that the owner declares compatible."""
    node, declared = evidence.subjects, evidence.controllers_vouched
    return declared[node.cluster] & (node.role == Role.CONTROLLER) & ~node.answers


def _without_range(evidence: Evidence) -> Bool:
    """Return a mask of registered nodes whose range is unknown or outdated."""
    node = evidence.subjects
    is_counted = ~node.expected_only & ~_declared_compatible(evidence)
    return is_counted & ((node.profile < 0) | node.past) & ~node.not_asked & ~node.not_answering


def _covered_by_probe(judge: Judge, agreed: Agreed, proven: Bool) -> Bool:
    """Return a mask of the nodes whose registration the controller checked in an accepted probe.
    Missing data about these nodes does not matter."""
    evidence, node = judge.evidence, judge.evidence.subjects
    controllers = marked(len(evidence.clusters), agreed.controllers)
    registers = judge.metadata_version >= judge.dialect.can.controllers_register_from
    broker, without_range = node.role == Role.BROKER, _without_range(evidence)
    is_covered = node.not_asked | node.not_answering | node.too_old | without_range
    is_covered &= proven[node.cluster] & (broker | controllers[node.cluster])
    decides = evidence.controller_decides & ~evidence.membership.on_zookeeper
    without_range &= decides[node.cluster] & (broker | registers[node.cluster])
    return node.registered & (is_covered | without_range)


def report_nodes(judge: Judge, agreed: Agreed, report: BatchFindings) -> tuple[Int, Bool]:
    """Report nodes with missing data, stale nodes, and missing voters. Return (reasons for UNKNOWN
    per cluster, mask of nodes that an accepted probe covers)."""
    evidence, nodes = report.evidence, report.evidence.subjects
    proven = marked(len(evidence.clusters), list(agreed.probed))
    covered = _covered_by_probe(judge, agreed, proven)
    vouched, is_late = _declared_compatible(evidence), nodes.at > latest(evidence.as_of)
    counted = ~nodes.expected_only & ~vouched & ~covered
    is_operated = find(evidence.operated, nodes.key) >= 0
    # A cluster without any data has another finding.
    is_expected = nodes.expected_only & ~vouched & evidence.landed[nodes.cluster]
    times, failed = (nodes.at, nodes.line), (nodes.failed_at, nodes.failed_line)
    count, old_software = np.zeros(len(evidence.clusters), dtype=np.int64), outdated(evidence)
    is_silent = counted & nodes.not_answering
    cause_codes = np.where(nodes.live, len(old_software.words), old_software.codes)
    causes = Texts(words=[*old_software.words, Issue.LISTENER.value], codes=cause_codes)
    for code, mask, source, detail in (
        ("expected_node_missing", is_expected & ~is_operated, times, None),
        ("strimzi_node_missing", nodes.expected_only & ~vouched & is_operated, times, None),
        ("node_not_asked", counted & nodes.not_asked, times, partial(_not_queried_texts, evidence)),
        ("node_not_answering", is_silent, failed, partial(_error_texts, evidence)),
        ("evidence_too_old", counted & nodes.too_old & ~is_late, times, None),
        ("evidence_too_new", counted & nodes.too_old & is_late, times, None),
    ):
        fails = {"cause": causes.take(np.flatnonzero(mask))} if mask is is_silent else {}
        count += report.of_nodes(code, mask, source, detail, **fails)
    places = zip(times, evidence.membership.quorum_place, strict=True)
    seen_there = tuple(np.where(nodes.answers, node, ids[nodes.cluster]) for node, ids in places)
    new_nodes = np.flatnonzero(nodes.unregistered)
    answers = np.where(nodes.not_asked[new_nodes], "responded before the newest run", "responds")
    verb = np.where(nodes.answers[new_nodes], answers, "reads the metadata log").tolist()
    fix = old_software.take(new_nodes)
    report.of_nodes("expected_node_not_registered", nodes.unregistered, seen_there, verb, cause=fix)
    # Metrics replace the response of these nodes, so their failed request hides nothing.
    line = np.where(nodes.failed_at > nodes.at, nodes.failed_line, nodes.line)
    for code, mask in (
        ("controller_vouched", vouched & ~covered),
        ("node_probed", covered),
        ("range_from_metrics", nodes.by_metrics & ~covered),
    ):
        report.of_nodes(code, mask, (np.maximum(nodes.at, nodes.failed_at), line))
    count += _registrations(judge, agreed, proven, report)
    member = evidence.membership
    pending = member.migrating & member.quorum_known
    pending &= ~marked(len(pending), evidence.snapshots["observers"].row)
    report.of_clusters("migration_waits", pending, member.quorum_place)
    is_rising = judge.asked.known & (agreed.target > judge.asked.current)
    rising_clusters = marked(len(count), judge.asked.cluster[is_rising])
    count += _stale_nodes(judge, covered | (nodes.past & ~rising_clusters[nodes.cluster]), report)
    count += report_majority(report, proven)
    report_dead_voters(report)
    report_static_voters(report)
    return count, covered


def _registrations(judge: Judge, agreed: Agreed, proven: Bool, sink: BatchFindings) -> Int:
    """Report missing data about registrations; return reasons for UNKNOWN per cluster."""
    evidence, member = sink.evidence, sink.evidence.membership
    # If all data is old, the remedy is a new collection; its audit reports what is still missing.
    unproven = evidence.landed & ~(evidence.levels.trusted & evidence.levels.too_old)
    # During a migration no level can change, so missing registrations do not matter.
    unproven &= ~member.migrating & ~member.registrations_proven & ~proven
    # If no feature has a level above the finalized one, an unseen registration blocks nothing.
    query, ceiling = judge.asked, judge.bounds.ceiling
    may_rise = ~query.known | (ceiling > query.current) | (agreed.refusals > 0)
    is_settled = marked(len(unproven), query.cluster)
    is_settled &= ~marked(len(unproven), query.cluster[may_rise])
    nodes_of, is_decided = evidence.snapshots["disputed"], proven | evidence.controller_decides
    rows = member.disputed[~is_decided[nodes_of.row[member.disputed]]]
    role, node, at, line = (nodes_of.field(n)[rows] for n in ("role", "node_id", "at", "line"))
    clusters = nodes_of.row[rows]
    count = sink.of_clusters("lists_disagree", clusters, role=role, node_id=node, at=at, line=line)
    rows = np.flatnonzero(unproven)
    causes = np.where(member.brokers_lag, Issue.LAGS, "")
    causes = np.where(member.on_zookeeper, Issue.ZNODE, causes)
    causes_of_rows = texts_of(cause or None for cause in causes[rows].tolist())
    count += sink.of_clusters("registrations_unproven", rows, cause=causes_of_rows)
    hidden = ~(
        member.controllers_current | evidence.controllers_vouched | member.migrating | proven
    )
    may_lack, outdated = lacks_controllers(judge)
    rows = np.flatnonzero(hidden & member.quorum_known & may_lack & ~evidence.controller_decides)
    causes_of_rows = texts_of(np.where(outdated[rows], Issue.LAGS, Issue.CONTROLLERS).tolist())
    count += sink.of_clusters("registrations_unproven", rows, cause=causes_of_rows)
    # A controller in a dynamic quorum may be registered and follow without a vote.
    hidden &= evidence.dynamic()[1]
    cluster, node_id = evidence.unlisted_observers(hidden)
    count += sink.of_clusters("observer_unknown", cluster, member.quorum_place, node_id=node_id)
    return np.where(is_settled, 0, count)


def _not_queried_texts(evidence: Evidence, rows: Bool) -> list[str]:
    node, detail = evidence.subjects, "not queried in the newest run, although other nodes were"
    has_offers = pick(evidence.listeners.field("releases_at"), node.listener[rows], 0) > 0
    never_texts = np.where(has_offers, "queried only for its list of requests", "never queried")
    return np.where(node.answers[rows], detail, never_texts).tolist()


def _error_texts(evidence: Evidence, rows: Int) -> list[str]:
    node = evidence.subjects
    suffixes = np.where(node.follows[rows], "; its leader sees it fetch", "; Kafka calls it live")
    live = np.where(node.live[rows], suffixes, "").tolist()
    return ["".join(pair) for pair in zip(evidence.errors(node.listener[rows]), live, strict=True)]


def _stale_nodes(judge: Judge, covered: Bool, report: BatchFindings) -> Int:
    """Report stale nodes. Return per cluster the number of stale nodes with an unknown range."""
    evidence, node = report.evidence, report.evidence.subjects
    registered = node.registered & ~node.expected_only & ~_declared_compatible(evidence)
    in_zookeeper = evidence.membership.zookeeper[node.cluster]
    broker = registered & (node.role == Role.BROKER) & ~node.answers
    controller = registered & (node.role == Role.CONTROLLER) & node.gone
    brokers = node.registered & ~node.expected_only & (node.role == Role.BROKER)
    only = broker & (
        np.bincount(node.cluster[brokers], minlength=len(evidence.clusters))[node.cluster] == 1
    )
    # Without any response, featurelib cannot tell stale nodes from unreachable nodes.
    silent, some_answer = (
        np.bincount(node.cluster[mask], minlength=len(evidence.clusters)) > 0
        for mask in (node.not_answering, node.answers)
    )
    can_tell = evidence.membership.kraft & evidence.levels.trusted & (some_answer | ~silent)
    metadata_version = np.where(can_tell, judge.metadata_version, NONE)[node.cluster]
    # A cluster needs its only broker, so the remedy is to start the broker.
    metadata_version[only] = metadata_version[_recently_stopped(evidence, broker, brokers)] = NONE

    def no_answer(rows: Int) -> list[str]:
        failed = ((node.failed_at > 0) & ~node.answers)[rows].tolist()
        errors = zip(evidence.errors(node.listener[rows]), failed, strict=True)
        return [f"; it did not respond ({clean(error)})" if did else "" for error, did in errors]

    def unregistered(rows: Int) -> list[str]:
        answers = (node.answers & evidence.membership.on_zookeeper[node.cluster])[rows].tolist()
        return [
            f"{'; it responds' * is_there}{error}"
            for is_there, error in zip(answers, no_answer(rows), strict=True)
        ]

    def software(rows: Int) -> Texts:
        return least_software(judge, node.cluster[rows])

    def gone_broker(rows: Int) -> list[str]:
        start = "; no other broker is registered: start it"
        last = (time_text(moment(at)) for at in node.answered_at[rows].tolist())
        return [
            f"{start * bool(only[row])}{at and f'; it last responded on {at}'}{error}"
            for row, at, error in zip(rows, last, no_answer(rows), strict=True)
        ]

    # A broker that stopped before the log was dumped is fenced in the log. A node that responded
    # later is not stale. The finding cites the line that shows the node as stopped.
    fenced, unseen = (node.fenced_at, node.fenced_line), evidence.membership.quorum_place
    quorum, times = tuple(column[node.cluster] for column in unseen), (node.at, node.line)
    failed = (node.failed_at, node.failed_line)
    hidden = np.flatnonzero(_without_range(evidence) & ~covered)
    causes = np.where(node.past, Issue.EARLIER, "")
    causes = np.where(evidence.membership.on_zookeeper[node.cluster], Issue.ZNODE, causes)
    causes = np.where(node.contradicted, Issue.CONTRADICTED, causes)[hidden]
    facts: dict[str, Int | Texts] = {"cause": texts_of(cause or None for cause in causes.tolist())}
    facts["finalized_level"] = np.where(node.gone, metadata_version, NONE)[hidden]
    count = report.of_nodes("range_unknown", hidden, times, unregistered, **facts)
    stale = broker & node.gone & ~in_zookeeper
    runs = pick(node.answered_at * node.answers, find(node.key, other_half(node.key[stale])), 0)
    half = texts_of(Issue.HALF if at else None for at in runs.tolist())
    level = metadata_version[stale]
    report.of_nodes("ghost_broker", stale, fenced, gone_broker, finalized_level=level, cause=half)
    for code, hit, source, detail in (
        ("ghost_controller", controller, quorum, software),
        ("silent_broker", broker & (node.failed_at > 0) & in_zookeeper, failed, no_answer),
    ):
        report.of_nodes(code, hit, source, detail, finalized_level=metadata_version[hit])
    return count


def _recently_stopped(evidence: Evidence, stale: Bool, brokers: Bool) -> Int:
    """Return the stale nodes that recently ran the software of the other brokers. Such nodes should
    be started, not unregistered."""
    node = evidence.subjects
    has_range = node.profile >= 0
    recent = np.flatnonzero(stale & has_range & (node.answered_at > 0) & ~node.too_old)
    is_in_cluster = marked(len(evidence.clusters), node.cluster[recent])[node.cluster]
    kind = node.cluster * (node.profile.max(initial=0) + 1) + node.profile
    return recent[np.isin(kind[recent], kind[brokers & node.answers & has_range & is_in_cluster])]


def report_unread(judge: Judge, agreed: Agreed, report: BatchFindings) -> Bool:
    """Report clusters whose active controller may require an unknown node, unless a probe proved
    that no node blocks. Return a mask of the (cluster, feature) pairs that depend on that node."""
    evidence, query, node = judge.evidence, judge.asked, judge.evidence.subjects
    member, clusters = evidence.membership, len(evidence.clusters)
    registers = judge.metadata_version >= judge.dialect.can.controllers_register_from
    proven = marked(clusters, list(agreed.probed)) | (evidence.controller_decides & registers)
    is_rising = query.known & (agreed.target > query.current)
    may_rise = member.kraft & member.quorum_known & ~proven & ~evidence.controllers_vouched
    may_rise &= marked(clusters, query.cluster[is_rising])
    _, may_be_dynamic = evidence.dynamic()
    # A controller can be unregistered, and so missing in all other lists, only from here on.
    is_unread = may_rise & ~marked(clusters, list(evidence.configured)) & may_be_dynamic
    is_unread &= judge.metadata_version >= UNREGISTERS_CONTROLLERS_FROM
    not_read = "its controller.quorum.voters was not read"
    details = dict.fromkeys(np.flatnonzero(is_unread).tolist(), not_read)
    for cluster, voters in evidence.configured.items():
        if may_rise[cluster] and not member.controllers_current[cluster]:
            controllers = (node.cluster == cluster) & (node.role == Role.CONTROLLER)
            if unknown := set(voters.ids) - {voters.node_id, *node.node_id[controllers].tolist()}:
                details[cluster] = f"it is configured to ask {ids_text(unknown)}, and {_NO_LIST}"
    details = dict(sorted(details.items()))
    count = report.of_clusters("configured_voters_unknown", details, member.quorum_place)
    return is_rising & (count > 0)[query.cluster]
