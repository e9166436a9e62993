"""Describe one cluster: every node, its ranges, and the sources of finalized levels.

The input is one ClusterView, so live data, landing files and tables give equal descriptions. The
module judges nothing: remarks about a node come from the audit's findings.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from featurelib.audit.cluster_view import ClusterView
from featurelib.audit.evidence import Evidence
from featurelib.audit.findings import FindingWords
from featurelib.audit.profiles import ranges_of
from featurelib.catalogue import Catalogue
from featurelib.feature import METADATA_VERSION, ClusterMode, Role, Severity, Witness
from featurelib.findings import finding_rows
from featurelib.words import level_text, metadata_first, newer_than


class Ends(NamedTuple):
    """The minimum and maximum of a supported range."""

    min_version: int
    max_version: int


Ranges = dict[str, Ends]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShown:
    """A node in one role. `profile`: number of its range map, None = unknown; `seen_at`: when the
    ranges were read; `is_voter`: None = unknown; `epoch`: of its finalized features."""

    role: str
    node_id: int
    state: str
    is_active: bool
    is_voter: bool | None
    is_fenced: bool | None
    is_unregistered_voter: bool
    release: str
    profile: int | None
    is_partial: bool
    epoch: int | None
    error: str
    seen_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelShown:
    """A feature and its finalized level: None = unknown, 0 = not finalized."""

    feature: str
    level: int | None
    min_level: int | None
    text: str  # the level with its name; also a level that only kafka-features.sh printed
    is_disputed: bool
    offended: tuple[int, ...]  # profiles of the nodes that do not support the level


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessShown:
    """A type of source for finalized levels, with its highest epoch."""

    witness: str
    epoch: int
    seen_at: datetime
    is_believed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingShown:
    """A finding with its texts."""

    code: str
    severity: str
    role: str | None
    node_id: int | None
    message: str
    of_any: str  # the message without the node's name


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The description of a cluster. `controller`: None = unknown; `configured_voters`: the ids in
    controller.quorum.voters, if they differ from the voters."""

    cluster_id: str
    mode: str
    seen_at: datetime
    controller: int | None
    configured_voters: tuple[int, ...] | None
    releases: tuple[str, ...]
    nodes: tuple[NodeShown, ...]
    profiles: tuple[Ranges, ...]
    levels: tuple[LevelShown, ...]
    witnesses: tuple[WitnessShown, ...]
    findings: tuple[FindingShown, ...]

    @property
    def answered(self) -> bool:
        """True if a node responded or a source shows levels."""
        return any(node.profile is not None for node in self.nodes) or bool(self.witnesses)


_WITNESSES = {
    Witness.FEATURES_NODE: "features node",
    Witness.BROKER: "brokers",
    Witness.METADATA_LOG: "metadata log",
    Witness.CONTROLLER: "controllers",
    Witness.TOOL: "kafka-features.sh",
    Witness.SCRAPE: "metrics",
}
_SEVERITIES = list(Severity)
Row = dict[str, Any]


def describe(view: ClusterView, catalogue: Catalogue) -> Description:
    """Return the description of one cluster."""
    evidence = view.evidence
    subjects, member, read = evidence.subjects, evidence.membership, evidence.configured.get(0)
    voters = set(subjects.node_id[subjects.voter].tolist())
    findings: list[Row] = view.judged.findings.to_pylist()
    # The most common ranges come first.
    used = Counter(p for p in subjects.profile.tolist() if p >= 0)
    order = {p: index for index, p in enumerate(sorted(used, key=lambda p: (-used[p], p)))}
    ranges = (ranges_of(evidence.snapshots, position) for position in order)
    profiles = tuple({name: Ends(*ends) for name, ends in r.items()} for r in ranges)
    newer_software = _newer_software(order, profiles, catalogue)
    nodes = tuple(_nodes(view, evidence, order, findings, newer_software))
    is_known = evidence.controller[0] >= 0 or any(node.is_active for node in nodes)
    return Description(
        cluster_id=view.cluster_id,
        mode=list(ClusterMode)[member.mode[0]].value,
        seen_at=_time(view.seen),
        controller=view.cluster.active if is_known else None,
        configured_voters=(
            tuple(sorted(read.ids)) if read and read.ids and set(read.ids) != voters else None
        ),
        releases=view.releases,
        nodes=nodes,
        profiles=profiles,
        levels=tuple(_levels(view, evidence, order, profiles, catalogue)),
        witnesses=tuple(_witnesses(evidence)),
        findings=tuple(_findings(findings, catalogue)),
    )


def _newer_software(
    order: Mapping[int, int], profiles: Sequence[Ranges], catalogue: Catalogue
) -> dict[int, str]:
    """Return node position → text for each node whose maximum metadata.version no known release
    has."""
    ends = {i: profiles[at].get(METADATA_VERSION) for i, at in order.items()}
    text = newer_than(catalogue)
    return {i: text for i, end in ends.items() if end and end[1] not in catalogue.names}


def _nodes(
    view: ClusterView,
    evidence: Evidence,
    order: Mapping[int, int],
    findings: Sequence[Row],
    newer: Mapping[int, str],
) -> Iterator[NodeShown]:
    nodes, member = evidence.subjects, evidence.membership
    releases = {(node.role, node.node_id): node.release for node in view.cluster.nodes}
    called, leader = _states_of(findings), (_leading_role(evidence), view.cluster.active)
    # A node leads if it is the only candidate and responds.
    is_named = bool(evidence.controller[0] >= 0)
    node_keys = zip(nodes.role.tolist(), nodes.node_id.tolist(), strict=True)
    for i, (number, node_id) in enumerate(node_keys):
        role, position, fenced = Role(number), int(nodes.profile[i]), int(nodes.fenced[i])
        answers, answer = bool(nodes.answers[i]), _answer(evidence, i)
        state = "running" if answers else "fenced" if fenced == 1 else "registered"
        unlisted = nodes.voter[i] and not nodes.registered[i] and member.controllers_known[0]
        yield NodeShown(
            role=role.text,
            node_id=node_id,
            state=called.get((role.text, node_id), state),
            is_active=(role, node_id) == leader and (is_named or answers),
            is_voter=bool(nodes.voter[i]) if member.quorum_known[0] else None,
            is_fenced=None if fenced < 0 else bool(fenced),
            is_unregistered_voter=bool(unlisted),
            release=releases.get((role, node_id)) or newer.get(position) or answer.releases,
            profile=order.get(position),
            is_partial=bool(nodes.partial[i]),
            epoch=answer.epoch,
            error=answer.error,
            seen_at=_time(int(nodes.at[i])) if position >= 0 else None,
        )


def _states_of(findings: Sequence[Row]) -> dict[tuple[str, int], str]:
    """Return (role, node id) → state of nodes, from findings whose row has a state."""
    return {
        (row["role"], row["node_id"]): known.state
        for code, known in reversed(finding_rows().items())  # the first finding wins
        for row in findings
        if known.state and row["code"] == code
    }


def _leading_role(evidence: Evidence) -> Role | None:
    """Return the role of the controlling node: broker in ZooKeeper mode, otherwise controller; None
    = unknown."""
    if evidence.membership.kraft[0]:
        return Role.CONTROLLER
    return Role.BROKER if evidence.membership.zookeeper[0] else None


class _Answer(NamedTuple):
    """The newest response of a node: epoch, last error, releases that offer the same requests."""

    epoch: int | None = None
    error: str = ""
    releases: str = ""


def _answer(evidence: Evidence, subject: int) -> _Answer:
    """Return the newest response of the node at position `subject`; empty without a query."""
    nodes = evidence.subjects
    listener = int(nodes.listener[subject])
    if listener < 0:
        return _Answer()
    epoch = int(evidence.listeners.field("epoch")[listener])
    has_failed = int(nodes.failed_at[subject]) > 0 and not nodes.answers[subject]
    return _Answer(
        epoch=epoch if epoch >= 0 else None,
        error=evidence.errors(np.array([listener]))[0] if has_failed else "",
        releases=(evidence.listeners.text("releases", listener) or "").replace(";", " or "),
    )


def _levels(
    view: ClusterView,
    evidence: Evidence,
    order: Mapping[int, int],
    profiles: Sequence[Ranges],
    catalogue: Catalogue,
) -> Iterator[LevelShown]:
    nodes, finalized = evidence.subjects, view.cluster.finalized
    rows = zip(nodes.role.tolist(), nodes.node_id.tolist(), nodes.profile.tolist(), strict=True)
    of_node = {(Role(role).text, node_id): order.get(p) for role, node_id, p in rows}
    unfit: dict[str, set[int]] = defaultdict(set)
    for row in view.judged.incompatible.to_pylist():
        if (offender := of_node.get((row["role"], row["node_id"]))) is not None:
            unfit[row["feature"]].add(offender)
    disputed = {name for _, name, _ in evidence.levels.disputed}
    trusted = bool(evidence.levels.trusted[0])
    by_tool = not trusted and int(evidence.levels.kind[0]) == int(Witness.TOOL)
    for name in sorted({*finalized, *(n for p in profiles for n in p)}, key=metadata_first):
        low, level = finalized.get(name, (0, 0)) if trusted else (None, None)
        printed = finalized[name][1] if by_tool and name in finalized else level
        yield LevelShown(
            feature=name,
            level=level,
            min_level=low,
            text=level_text(catalogue, name, printed) + ", as the tool said" * (printed != level),
            is_disputed=name in disputed,
            offended=tuple(sorted(unfit[name])),
        )


def _witnesses(evidence: Evidence) -> Iterator[WitnessShown]:
    snapshot, witnesses = evidence.snapshots, evidence.snapshots["witnesses"]
    columns = (witnesses.field(name).tolist() for name in ("kind", "epoch", "at"))
    rows = list(zip(*columns, strict=True))
    at = int(snapshot.scalar("features_node_at")[0])
    if at and snapshot.features_node[0] is not None:
        version = int(snapshot.scalar("features_node_version")[0])
        rows.insert(0, (Witness.FEATURES_NODE, version, at))
    for kind, epoch, seen_at in rows:
        yield WitnessShown(
            witness=_WITNESSES[Witness(kind)],
            epoch=epoch,
            seen_at=_time(seen_at),
            is_believed=kind == int(evidence.levels.kind[0]),
        )


def _findings(findings: Sequence[Row], catalogue: Catalogue) -> Iterator[FindingShown]:
    """Yield the findings of a description, worst first, without blockers of levels."""
    words = FindingWords(catalogue)
    for row in sorted(findings, key=lambda row: _SEVERITIES.index(Severity(row["severity"]))):
        if row["severity"] != Severity.BLOCKER:
            yield FindingShown(
                **{name: row[name] for name in ("code", "severity", "role", "node_id")},
                message=words.of(row).statement,
                of_any=words.of(row | {"node_id": None}).statement,
            )


def _time(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC)
