"""What is not known: the reasons a verdict is UNKNOWN, and oddities a person should see.

A reason holds for a whole cluster (somebody was not asked) or for one feature (witnesses disagree
about it). Each reason is a finding; nothing is unknown without one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from featurelib.core.ages import latest
from featurelib.core.columns import Bool, Int, distinct, find, integers
from featurelib.core.evidence import Evidence
from featurelib.core.findings import Findings
from featurelib.core.ghosts import vouched_for, without_range
from featurelib.core.malformed import CODE as MALFORMED
from featurelib.core.missing_of_features import report_features
from featurelib.core.oddity import Oddity, read
from featurelib.core.refusals import REFUSED
from featurelib.core.rights import report_rights
from featurelib.core.validations import PROBED
from featurelib.feature import Role, Witness


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
    _oddities(evidence, said)
    _membership_oddities(evidence, said)
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
    count.add(who.cluster[no_range])  # featurelib.core.ghosts says them
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
            epoch=levels.epoch[where],
            at=levels.at[where],
            line=levels.line[where],
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
            epoch=levels.epoch[where],
            at=levels.at[where],
            line=levels.line[where],
            detail=[detail for _, detail in entries],
        )


def _oddities(evidence: Evidence, said: Findings) -> None:
    by_code: dict[str, list[tuple[int, Oddity]]] = {}
    for cluster, entries in enumerate(evidence.oddities):
        for entry in map(read, entries or ()):
            by_code.setdefault(entry.code, []).append((cluster, entry))
    for code in (REFUSED, PROBED):  # featurelib.core.rights and probes say these
        by_code.pop(code, None)
    for code, found in sorted(by_code.items()):
        where = np.array([cluster for cluster, _ in found], dtype=np.int64)
        said.add(
            code,
            where,
            at=np.array([one.at or evidence.levels.at[i] for i, one in found]),
            line=np.array([one.line if one.at else evidence.levels.line[i] for i, one in found]),
            detail=[entry.detail for _, entry in found],
        )


def _membership_oddities(evidence: Evidence, said: Findings) -> None:
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
    known = distinct((who.cluster << 32) | who.node_id)
    seen = (evidence.observers.row << 32) | integers(evidence.observers.values)
    strangers = seen[find(known, seen) < 0]
    proven = evidence.membership.registrations_proven[strangers >> 32]
    for code, hit in (("observer_not_registered", proven), ("observer_not_listed", ~proven)):
        where = strangers[hit] >> 32
        said.add(
            code,
            where,
            node_id=strangers[hit] & 0xFFFFFFFF,
            at=evidence.membership.quorum_at[where],
            line=evidence.membership.quorum_line[where],
        )
