"""Describes one cluster: every node, what each supports, and who says what is finalized.

Everything is read from one Sight, so a live look, a capture and the nightly's tables describe a
cluster alike. Nothing is judged here: what is odd about a node is what the audit found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from featurelib.audit.cluster_view import Sight
from featurelib.audit.evidence import Evidence
from featurelib.audit.wording import FindingWords
from featurelib.catalogue import Catalogue
from featurelib.core.dialect import STRICT, load
from featurelib.feature import Role, Severity, Witness
from featurelib.words import level_text, metadata_first


class Ends(NamedTuple):
    """The ends of one supported range."""

    min_version: int
    max_version: int


Ranges = dict[str, Ends]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShown:
    """One half of a process. `profile` is a position in the description's profiles; None = its
    ranges are not known; `seen_at` is when they were seen. `is_voter` None = no quorum was seen.
    `epoch` is what it says its finalized features are of."""

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
    """One feature. `level` None = no trustworthy witness; 0 = not finalized."""

    feature: str
    level: int | None
    min_level: int | None
    text: str  # with its name
    is_disputed: bool
    offended: tuple[int, ...]  # profiles of nodes that do not support it


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessShown:
    """One kind of witness of what is finalized, at its highest epoch."""

    witness: str
    epoch: int
    seen_at: datetime
    is_believed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingShown:
    """One finding in words."""

    code: str
    severity: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """One cluster. `controller` None = nothing says who is the active one. `configured_voters`: the
    ids in its own controller.quorum.voters, where they are known and not those who vote."""

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
        """Whether anything is known but that nodes did not answer."""
        return any(node.profile is not None for node in self.nodes) or bool(self.witnesses)


# What the audit calls a node, as the word for it here; the first that fits is said.
_CALLED = {
    "ghost_broker": "ghost",
    "ghost_controller": "ghost",
    "silent_broker": "silent",
    "expected_node_missing": "expected, not there",
    "controller_vouched": "vouched for by the owner",
    "node_probed": "answered for by its controller",
    "node_not_answering": "not answering",
    "node_not_asked": "not asked",
    "range_unknown": "range unknown",
}
_WITNESSES = {
    Witness.FEATURES_NODE: "features node",
    Witness.BROKER: "brokers",
    Witness.METADATA_LOG: "metadata log",
    Witness.CONTROLLER: "controllers",
    Witness.TOOL: "kafka-features.sh",
}


def describe(sight: Sight, catalogue: Catalogue) -> Description:
    """The description of one cluster."""
    return _Describer(sight, catalogue).describe()


class _Describer:
    def __init__(self, sight: Sight, catalogue: Catalogue) -> None:
        assert sight.judged.evidence is not None
        self.sight, self.evidence = sight, sight.judged.evidence
        self.words = FindingWords(catalogue, load(STRICT))
        self.snapshot = self.evidence.snapshots
        self.findings: list[dict[str, Any]] = sight.judged.findings.to_pylist()
        # Profiles as they are shown: what most nodes advertise goes first.
        used = [p for p in self.evidence.subjects.profile.tolist() if p >= 0]
        self.order = sorted(set(used), key=lambda p: (-used.count(p), p))

    def describe(self) -> Description:
        member, leader = self.evidence.membership, self.sight.cluster.active
        modes = {
            (True, False): "KRaft",
            (False, True): "ZooKeeper mode",
            (True, True): "migrating from ZooKeeper to KRaft",
        }
        return Description(
            cluster_id=self.sight.cluster_id,
            mode=modes.get((bool(member.kraft[0]), bool(member.zookeeper[0])), "mode not known"),
            seen_at=_time(self.sight.newest),
            controller=leader if leader >= 0 else None,
            configured_voters=self.configured_voters(),
            releases=self.sight.releases,
            nodes=tuple(self.nodes(leader)),
            profiles=tuple(self.profile(p) for p in self.order),
            levels=tuple(self.levels()),
            witnesses=tuple(self.witnesses()),
            findings=tuple(self.said()),
        )

    def configured_voters(self) -> tuple[int, ...] | None:
        read, who = self.evidence.configured.of.get(0), self.evidence.subjects
        if read is None or set(read.ids) == set(who.node_id[who.voter].tolist()):
            return None
        return tuple(sorted(read.ids))

    def profile(self, position: int) -> Ranges:
        sizes, entries = self.snapshot["profiles"].field("size"), self.snapshot["ranges"]
        first = int(sizes[:position].sum())  # behind all of them is the empty one
        mine = range(first, first + int(sizes[position]) if position < len(sizes) else first)
        low, high = entries.field("min_version"), entries.field("max_version")
        return {entries.text("feature", i) or "": Ends(int(low[i]), int(high[i])) for i in mine}

    def nodes(self, leader: int) -> Iterator[NodeShown]:
        who = self.evidence.subjects
        called = self.called()
        releases = {(n.role, n.node_id): n.release for n in self.sight.cluster.nodes}
        epochs = self.evidence.listeners.field("epoch")
        listed = bool(self.evidence.membership.controllers_known[0])
        quorum = bool(self.evidence.membership.quorum_known[0])
        leads = Role.CONTROLLER if bool(self.evidence.membership.kraft[0]) else Role.BROKER
        for i, (number, node_id) in enumerate(
            zip(who.role.tolist(), who.node_id.tolist(), strict=True)
        ):
            role, listener = Role(number), int(who.listener[i])
            position, fenced = int(who.profile[i]), int(who.fenced[i])
            epoch = int(epochs[listener]) if listener >= 0 else -1
            failed = listener >= 0 and not who.answers[i]
            yield NodeShown(
                role=role.text,
                node_id=node_id,
                state=called.get((role.text, node_id), _state(self.evidence, i)),
                is_active=role is leads and node_id == leader,
                is_voter=bool(who.voter[i]) if quorum else None,
                is_fenced=None if fenced < 0 else bool(fenced),
                is_unregistered_voter=bool(who.voter[i] and not who.registered[i] and listed),
                release=releases.get((role, node_id), ""),
                profile=self.order.index(position) if position >= 0 else None,
                is_partial=bool(who.partial[i]),
                epoch=epoch if epoch >= 0 else None,
                error=self.evidence.errors(listener) if failed else "",
                seen_at=_time(int(who.at[i])) if position >= 0 else None,
            )

    def called(self) -> dict[tuple[str, int], str]:
        rank = {code: place for place, code in enumerate(_CALLED)}
        about = [row for row in self.findings if row["code"] in rank]
        about.sort(key=lambda row: -rank[row["code"]])  # the first that fits is put in last
        return {(row["role"], row["node_id"]): _CALLED[row["code"]] for row in about}

    def levels(self) -> Iterator[LevelShown]:
        finalized, listed = (
            self.sight.cluster.finalized,
            {n for p in self.order for n in self.profile(p)},
        )
        trusted = bool(self.evidence.levels.trusted[0])
        disputed = {name for _, name, _ in self.evidence.levels.disputed}
        unfit: dict[str, set[int]] = {}
        profiles = self.profile_of_node()
        for row in self.sight.judged.incompatible.to_pylist():
            offender = profiles.get((row["role"], row["node_id"]))
            if offender is not None:
                unfit.setdefault(row["feature"], set()).add(offender)
        for name in sorted(listed | set(finalized), key=metadata_first):
            low, level = finalized.get(name, (0, 0)) if trusted else (None, None)
            yield LevelShown(
                feature=name,
                level=level,
                min_level=low,
                text=level_text(self.words.catalogue, name, level),
                is_disputed=name in disputed,
                offended=tuple(sorted(unfit.get(name, ()))),
            )

    def profile_of_node(self) -> dict[tuple[str, int], int]:
        who = self.evidence.subjects
        rows = zip(who.role.tolist(), who.node_id.tolist(), who.profile.tolist(), strict=True)
        return {(Role(r).text, n): self.order.index(p) for r, n, p in rows if p >= 0}

    def witnesses(self) -> Iterator[WitnessShown]:
        believed = int(self.evidence.levels.kind[0])
        snapshot, said = self.snapshot, self.snapshot["witnesses"]
        if snapshot.scalar("features_node_at")[0] and snapshot.features_node[0].is_valid:
            yield WitnessShown(
                witness=_WITNESSES[Witness.FEATURES_NODE],
                epoch=int(snapshot.scalar("features_node_version")[0]),
                seen_at=_time(int(snapshot.scalar("features_node_at")[0])),
                is_believed=believed == Witness.FEATURES_NODE,
            )
        for kind, epoch, at in zip(
            *(said.field(name).tolist() for name in ("kind", "epoch", "at")), strict=True
        ):
            yield WitnessShown(
                witness=_WITNESSES[Witness(kind)],
                epoch=epoch,
                seen_at=_time(at),
                is_believed=kind == believed,
            )

    def said(self) -> Iterator[FindingShown]:
        """Findings, worst first, but for what only holds a level back: plans say that."""
        order = list(Severity)
        for row in sorted(self.findings, key=lambda row: order.index(Severity(row["severity"]))):
            if row["severity"] != Severity.BLOCKER:
                message = self.words.of(row).message  # type: ignore[arg-type]  # a row as columns
                yield FindingShown(code=row["code"], severity=row["severity"], message=message)


def _state(evidence: Evidence, subject: int) -> str:
    """What is known of a node that the audit calls nothing."""
    who = evidence.subjects
    if who.answers[subject]:
        return "running"
    return "fenced" if who.fenced[subject] == 1 else "registered"


def _time(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC)
