"""What is not known: the reasons a verdict is UNKNOWN, and anomalies a person should see.

A reason holds for a whole cluster (somebody was not asked) or for one feature (witnesses disagree
about it). Each reason is a finding; nothing is unknown without one. A right without which nobody
shows who votes keeps the whole cluster from a verdict; one that only adds to what is known keeps
nothing, and is a finding all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import msgspec
import numpy as np
import pyarrow as pa

from featurelib.audit.columns import Bool, Int, distinct, find, latest, node_key, split_key
from featurelib.audit.evidence import Evidence
from featurelib.audit.finalized import UNSEEN, epochs_back
from featurelib.audit.findings import Findings
from featurelib.audit.quorum import vouched_for, without_range
from featurelib.feature import Role, Witness
from featurelib.landing.responses import CONFIGS, MEMBERS, NOT_AUTHORIZED, PROBE, QUORUM, needed
from featurelib.snapshot.records import MALFORMED


def report_features(evidence: Evidence, said: Findings) -> Int:
    """Add the findings that hold for one feature to `said`; how many each question has."""
    asked, levels, who = evidence.questions, evidence.levels, evidence.subjects
    count = np.zeros(len(asked.cluster), dtype=np.int64)
    disputed = sorted(set(levels.disputed))
    where = np.array([cluster for cluster, _, _ in disputed], dtype=np.int64)
    names = [name for _, name, _ in disputed]
    details = [detail for _, _, detail in disputed]
    features = pa.array(names, pa.string())
    said.add("witnesses_disagree", where, feature=features, **levels.place(where), detail=details)
    at = _questions(evidence, where, names)
    np.add.at(count, at[at >= 0], 1)  # nobody may ask about it in that cluster
    unseen = np.flatnonzero(levels.entry_level == UNSEEN)  # by the witness that is believed
    where, features = levels.entry_cluster[unseen], levels.names.take(pa.array(unseen))
    details = [
        f"the {Witness(kind).name.lower().replace('_', ' ')} does not show it"
        for kind in levels.kind[where].tolist()
    ]
    said.add("level_unknown", where, feature=features, **levels.place(where), detail=details)
    np.add.at(count, _questions(evidence, where, features.to_pylist()), 1)
    pair, subject = evidence.expand(np.flatnonzero(asked.pair_unclear))
    question = asked.pair_question[pair]
    said.add(
        "partial_answer",
        asked.cluster[question],
        role=who.role[subject],
        node_id=who.node_id[subject],
        feature=evidence.features(question),
        at=who.at[subject],
        line=who.line[subject],
    )
    np.add.at(count, question, 1)
    return count


def _questions(evidence: Evidence, cluster: Int, names: list[str]) -> Int:
    """The question about each feature of each cluster; -1 = it is not asked there."""
    asked = evidence.questions
    codes = {name: code for code, name in enumerate(asked.names)}
    width = max(len(codes), 1)
    code = np.array([codes.get(name, width) for name in names], dtype=np.int64)
    at = find(asked.cluster * width + asked.feature, cluster * width + code)
    return np.where(code < width, at, -1)


_TITLES = {
    QUORUM: "DescribeQuorum",
    MEMBERS: "DescribeCluster",
    PROBE: "UpdateFeatures",
    CONFIGS: "DescribeConfigs",
}
_SHOWS = {
    QUORUM: "who votes and where controllers listen",
    MEMBERS: "which controllers are registered and do not vote",
    CONFIGS: "whom controllers are configured to ask, and which settings a level overwrites",
    PROBE: "by a request to validate whether a registration that was not seen blocks",
}


class Withheld(msgspec.Struct, frozen=True, kw_only=True):
    """One request that one half of the nodes refused last for want of a right.

    `node_id` -1 = the active controller, whoever it was. `elsewhere`: the other half answered it.
    `principal` "" = the collector did not know it.
    """

    request: str
    role: Role
    node_id: int
    elsewhere: bool
    principal: str
    at: int
    line: int


def report_rights(evidence: Evidence, said: Findings, count: Callable[[Int], Int]) -> Bool:
    """Add the findings; by cluster, whether what the quorum would say is hidden by a right.

    `count` notes clusters that are kept from a verdict, one finding each.
    """
    hidden = np.zeros(len(evidence.clusters), dtype=bool)
    missing: list[tuple[int, list[Withheld]]] = []
    withheld: list[tuple[int, list[Withheld]]] = []
    for cluster, request, refusals in _by_request(evidence):
        settled = any(one.elsewhere for one in refusals) or evidence.controllers_vouched[cluster]
        if request == QUORUM and not settled:
            missing.append((cluster, refusals))
            hidden[cluster] = True
        else:
            withheld.append((cluster, refusals))
    for code, found in (("right_missing", missing), ("right_withheld", withheld)):
        where = np.array([cluster for cluster, _ in found], dtype=np.int64)
        newest = [max(refusals, key=lambda one: (one.at, one.line)) for _, refusals in found]
        said.add(
            code,
            count(where) if code == "right_missing" else where,
            at=np.array([one.at for one in newest], dtype=np.int64),
            line=np.array([one.line for one in newest], dtype=np.int64),
            detail=[_detail(refusals) for _, refusals in found],
        )
    return hidden


def _by_request(evidence: Evidence) -> list[tuple[int, str, list[Withheld]]]:
    """(cluster, request, its refusals) in the order of clusters."""
    refused, found = evidence.snapshots["refusals"], dict[tuple[int, str], list[Withheld]]()
    for cluster, one in zip(refused.row.tolist(), refused.structs(Withheld), strict=True):
        found.setdefault((cluster, one.request), []).append(one)
    return [(cluster, request, some) for (cluster, request), some in sorted(found.items())]


def _detail(refusals: list[Withheld]) -> str:
    """Which right, who was refused by whom, and what it would show."""
    first = refusals[0]
    by_principal: dict[str, list[str]] = {}
    for one in refusals:
        who = f"{one.role.text} {one.node_id}" if one.node_id >= 0 else "the active controller"
        by_principal.setdefault(one.principal, []).append(who)
    refused = " and ".join(
        f"to {principal or 'whoever collects'} by {' and '.join(some)}"
        for principal, some in by_principal.items()
    )
    return (
        f"{needed(first.request, first.role)} on CLUSTER; {_TITLES[first.request]} was refused "
        f"{refused} (error {NOT_AUTHORIZED}), which shows {_SHOWS[first.request]}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Which clusters and questions cannot be judged, and by how many findings each."""

    clusters: Bool
    features: Bool
    per_cluster: Int
    per_question: Int


class _Count:
    def __init__(self, clusters: int) -> None:
        self.by_cluster: Int = np.zeros(clusters, dtype=np.int64)

    def add(self, cluster: Int) -> Int:
        np.add.at(self.by_cluster, cluster, 1)
        return cluster


def report(evidence: Evidence, said: Findings) -> Unknown:
    """Add every finding about missing evidence to `said`, and say whom it keeps from a verdict.

    What is not known of nodes and registrations is said by `report_nodes`, once it is known what
    controllers answered to probes.
    """
    count = _Count(len(evidence.clusters))
    hidden = report_rights(evidence, said, count.add)
    _clusters(evidence, said, count, hidden)
    _levels(evidence, said, count)
    _anomalies(evidence, said)
    _membership_anomalies(evidence, said)
    questions = report_features(evidence, said)
    return Unknown(
        clusters=count.by_cluster > 0,
        features=questions > 0,
        per_cluster=count.by_cluster,
        per_question=questions,
    )


def report_nodes(
    evidence: Evidence, said: Findings, unknown: Unknown, proven: Bool, covered: Bool
) -> Unknown:
    """`unknown`, with what is not known of nodes, and the clusters whose registrations may be more
    than were seen. By cluster `proven` says whether its controller showed that none of them blocks;
    `covered` are the subjects whose registrations it answered for."""
    count = _Count(len(evidence.clusters))
    _nodes(evidence, said, count, covered)
    unproven = evidence.landed & ~evidence.membership.registrations_proven & ~proven
    said.add("registrations_unproven", count.add(np.flatnonzero(unproven)))
    return replace(
        unknown,
        clusters=unknown.clusters | (count.by_cluster > 0),
        per_cluster=unknown.per_cluster + count.by_cluster,
    )


def covered_by_probe(evidence: Evidence, proven: Bool, controllers: Bool) -> Bool:
    """The subjects whose own word is missing or too old, and whose registration their controller
    asked when it agreed; `controllers`: by cluster, whether it asks those of controllers."""
    who = evidence.subjects
    asked = proven[who.cluster] & who.registered
    asked &= (who.role == int(Role.BROKER)) | controllers[who.cluster]
    return asked & (who.not_asked | who.not_answering | who.too_old | without_range(evidence))


def _clusters(evidence: Evidence, said: Findings, count: _Count, hidden: Bool) -> None:
    """`hidden`: a missing right is the reason why nothing shows a quorum, and is said already."""
    landed, member = evidence.landed, evidence.membership
    malformed = np.array(list(evidence.malformed), dtype=np.int64)
    said.add(MALFORMED, count.add(malformed), detail=list(evidence.malformed.values()))
    silent = np.setdiff1d(np.flatnonzero(~landed), malformed)
    said.add("cluster_not_landed", count.add(silent))
    no_mode = landed & ~member.kraft & ~member.zookeeper & ~hidden
    said.add("mode_unknown", count.add(np.flatnonzero(no_mode)))
    nobody = np.bincount(evidence.subjects.cluster, minlength=len(landed)) == 0
    said.add("no_node_to_ask", count.add(np.flatnonzero(landed & nobody)))
    no_voters, vouched = member.kraft & ~member.quorum_known, evidence.controllers_vouched
    said.add("voters_unknown", count.add(np.flatnonzero(no_voters & ~vouched & ~hidden)))
    said.add("voters_vouched", np.flatnonzero(no_voters & vouched & landed))


def _nodes(evidence: Evidence, said: Findings, count: _Count, covered: Bool) -> None:
    who = evidence.subjects
    vouched = vouched_for(evidence)
    missing = who.expected_only & ~vouched
    counted = ~who.expected_only & ~vouched & ~covered
    no_range = without_range(evidence) & ~covered

    def add(
        code: str, hit: Bool, at: Int, line: Int, say: Callable[[Int], list[str]] | None = None
    ) -> None:
        rows = np.flatnonzero(hit)
        said.add(
            code,
            count.add(who.cluster[rows]),
            role=who.role[rows],
            node_id=who.node_id[rows],
            at=at[rows],
            line=line[rows],
            detail=None if say is None else say(rows),
        )

    def reasons(rows: Int) -> list[str]:
        live = ["; Kafka calls it live" if row else "" for row in who.live[rows]]
        errors = [evidence.errors(int(who.listener[row])) for row in rows]
        return [f"{error}{more}" for error, more in zip(errors, live, strict=True)]

    add("expected_node_missing", missing, who.at, who.line)
    add("node_not_asked", counted & who.not_asked, who.at, who.line)
    add("node_not_answering", counted & who.not_answering, who.failed_at, who.failed_line, reasons)
    count.add(who.cluster[no_range])  # featurelib.audit.quorum says them
    is_late = who.at > latest(evidence.as_of)
    add("evidence_too_old", counted & who.too_old & ~is_late, who.at, who.line)
    add("evidence_too_new", counted & who.too_old & is_late, who.at, who.line)
    _say_stand_in(evidence, "controller_vouched", np.flatnonzero(vouched & ~covered), said)
    _say_stand_in(evidence, "node_probed", np.flatnonzero(covered), said)


def _say_stand_in(evidence: Evidence, code: str, rows: Int, said: Findings) -> None:
    """Nodes nobody could ask, for which somebody else's word stands in place of an answer."""
    who = evidence.subjects
    said.add(
        code,
        who.cluster[rows],
        role=who.role[rows],
        node_id=who.node_id[rows],
        at=np.maximum(who.at, who.failed_at)[rows],
        line=np.where(who.failed_at > who.at, who.failed_line, who.line)[rows],
    )


def _levels(evidence: Evidence, said: Findings, count: _Count) -> None:
    levels, landed = evidence.levels, evidence.landed
    damaged = {cluster for cluster, _ in [*levels.damaged, *levels.ambiguous]}
    rows = [int(c) for c in np.flatnonzero(landed & ~levels.trusted) if int(c) not in damaged]
    details = [
        "; the tool's output names no witness" if levels.kind[c] == int(Witness.TOOL) else ""
        for c in rows
    ]
    where = count.add(np.array(rows, dtype=np.int64))
    said.add("no_trustworthy_witness", where, detail=details)
    not_now, is_late = levels.trusted & levels.too_old, levels.at > latest(evidence.as_of)
    for code, hit in (
        ("levels_too_old", not_now & ~is_late),
        ("levels_too_new", not_now & is_late),
    ):
        where = np.flatnonzero(hit)
        said.add(
            code,
            count.add(where),
            **levels.place(where),
            detail=None,
        )
    for code, entries in (
        ("features_node_damaged", levels.damaged),
        ("features_node_ambiguous", levels.ambiguous),
        ("features_node_absent", [(cluster, "") for cluster in levels.absent]),
    ):
        where = np.array([cluster for cluster, _ in entries], dtype=np.int64)
        said.add(
            code,
            where if code == "features_node_absent" else count.add(where),
            **levels.place(where),
            detail=[detail for _, detail in entries],
        )


def _anomalies(evidence: Evidence, said: Findings) -> None:
    """Add what the fold met that speaks against what was collected."""
    snapshots, levels, listeners = evidence.snapshots, evidence.levels, evidence.listeners

    def add(code: str, where: Int, detail: list[str]) -> None:
        said.add(code, where, at=levels.at[where], line=levels.line[where], detail=detail)

    role, node_id, epoch, highest = (
        listeners.field(name) for name in ("role", "node_id", "epoch", "highest_epoch")
    )
    back = epochs_back(snapshots)
    who = [f"{Role(int(role[i])).text} {node_id[i]}" for i in back]
    fell = [f"from {highest[i]} to {epoch[i]}" for i in back]
    details = [f"{node} {levels}" for node, levels in zip(who, fell, strict=True)]
    add("epoch_went_back", listeners.row[back], details)
    waiting = np.flatnonzero(snapshots.waiting)
    at, line = snapshots.scalar("waiting_at")[waiting], snapshots.scalar("waiting_line")[waiting]
    counts = snapshots.waiting[waiting].tolist()
    details = [_waiting(count, newest) for count, newest in zip(counts, at.tolist(), strict=True)]
    said.add("evidence_from_the_future", waiting, at=at, line=line, detail=details)
    recreated = np.flatnonzero(snapshots.scalar("features_node_recreated"))
    add("features_node_recreated", recreated, [""] * len(recreated))
    dumps = snapshots["ambiguous_dumps"]
    add("metadata_log_ambiguous", dumps.row, [str(time) for time in dumps.field("at")])
    end, gap_end = snapshots.scalar("log_end"), snapshots.scalar("log_gap_end")
    gaps = np.flatnonzero(gap_end >= 0)
    details = [f"offsets {end[i]} to {gap_end[i] - 1} were not dumped" for i in gaps]
    add("metadata_log_gap", gaps, details)
    gone = snapshots["registrations_gone"]
    add("registration_gone", gone.row, [str(node) for node in gone.field("node_id")])


def _waiting(count: int, newest: int) -> str:
    when = datetime.fromtimestamp(newest // 1_000_000, UTC)
    lines = "1 line" if count == 1 else f"{count} lines"
    return f"{lines}, the latest dated {when:%Y-%m-%dT%H:%M:%SZ}"


def _membership_anomalies(evidence: Evidence, said: Findings) -> None:
    who = evidence.subjects
    without = np.flatnonzero(who.listed_nothing & ~evidence.levels.system_off[who.cluster])
    said.add(
        "registration_without_features",
        who.cluster[without],
        role=who.role[without],
        node_id=who.node_id[without],
        at=who.at[without],
        line=who.line[without],
    )
    known = distinct(node_key(who.cluster, 0, who.node_id))
    observers = evidence.snapshots["observers"]
    seen = node_key(observers.row, 0, observers.field("node_id"))
    cluster, _, node_id = split_key(seen[find(known, seen) < 0])
    proven = evidence.membership.registrations_proven[cluster]
    for code, hit in (("observer_not_registered", proven), ("observer_not_listed", ~proven)):
        where = cluster[hit]
        said.add(
            code,
            where,
            node_id=node_id[hit],
            at=evidence.membership.quorum_at[where],
            line=evidence.membership.quorum_line[where],
        )
