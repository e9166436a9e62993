"""What the audit would say of a cluster if its nodes or levels were others.

The evidence is changed and judged again, by the same core and the same terms; nothing else differs.
A node that may not join does not come: what is left of it is what is judged. A broker registers,
and the controller judges it; a controller reads what is finalized, and ends over what it does not
support. Every generation that may lead is asked; any refusal counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from featurelib.audit.cluster_view import Sight, Terms
from featurelib.catalogue import Catalogue
from featurelib.config.fleet import Fleet
from featurelib.core.cluster import Cluster, Features, Node
from featurelib.core.compatibility import (
    Admission,
    Effect,
    Newcomer,
    advertised,
    join,
    stopped,
)
from featurelib.core.dialect import GENERATIONS, Dialect, load
from featurelib.core.dry_run import dialect_of
from featurelib.errors import ConfigError
from featurelib.feature import Role, release_line
from featurelib.planning.planner import mode_of
from featurelib.questions.draft import Draft
from featurelib.questions.election import (
    Foreseen,
    expect_protocol_version,
    hold_election,
    told_release,
)

Row = dict[str, Any]
KEY = ("code", "role", "node_id", "feature")  # of a finding, within a cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Why one node may not come: who says so, what becomes of it, over which features, and in
    Kafka's words. `entry` is refused, stops or ignored."""

    role: Role
    node_id: int
    dialect: str
    entry: str
    features: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What would be otherwise. `nodes` and `added`: node id → release; `release`: of every node
    that runs, but those named; `finalized`: feature → level, 0 = not finalized.
    `protocol_version`: the inter.broker.protocol.version of every broker at the next election,
    which comes after all else; None = no election."""

    nodes: Mapping[int, str] = field(default_factory=dict)
    removed: tuple[int, ...] = ()
    added: Mapping[int, str] = field(default_factory=dict)
    release: str | None = None
    finalized: Mapping[str, int] = field(default_factory=dict)
    protocol_version: str | None = None

    @property
    def text(self) -> str:
        """The change as a clause after `if`."""
        parts = [f"node {node} runs {release}" for node, release in self.nodes.items()]
        parts += [f"node {node} is gone" for node in self.removed]
        parts += [f"broker {node} of {release} comes" for node, release in self.added.items()]
        if self.release is not None:
            others = " other" if self.nodes else ""
            parts.append(f"every{others} node that runs is of {self.release}")
        parts += [f"{name} is finalized at {level}" for name, level in self.finalized.items()]
        if (version := self.protocol_version) is not None:
            parts.append(f"a controller is elected at inter.broker.protocol.version {version}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One feature before and after; None = nobody speaks of it. Rows of featurelib.schema."""

    feature: str
    before: Row | None
    after: Row | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a cluster stands, from its row of featurelib.schema.PLAN."""

    verdict: str
    phase: str
    may_join: list[str] | None
    may_join_after: list[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """What differs. `turns` are features whose row differs, `unchanged` counts the others; `new`
    and `gone` are findings; `refused` is who may not join; `idle` who does not run and is left;
    `election` what the next controller would make of the features node, where that was asked."""

    before: Sight
    after: Sight
    turns: tuple[Turn, ...]
    unchanged: int
    new: tuple[Row, ...]
    gone: tuple[Row, ...]
    refused: tuple[Refused, ...]
    joined: tuple[int, ...]  # nodes that may, and did
    idle: tuple[int, ...]
    election: Foreseen | None = None

    @property
    def was(self) -> Standing:
        """Where the cluster stands before."""
        return _standing(self.before)

    @property
    def now(self) -> Standing:
        """Where it stands afterwards."""
        return _standing(self.after)


def _standing(sight: Sight) -> Standing:
    [row] = sight.judged.plans.to_pylist()
    return Standing(**{name: row[name] for name in Standing.__slots__})


def what_if(sight: Sight, changes: Changes, terms: Terms) -> WhatIf:
    """The verdicts before and after `changes`, judged by `terms`, which judged `sight`.

    Raises ConfigError for a node that is not there, or is there already, for a release that nobody
    knows, and for a protocol version that does not exist there.
    """
    _expect_nodes(sight, changes)
    version = changes.protocol_version
    if version is not None:
        expect_protocol_version(sight, version, _releases(changes, terms, sight), terms)
    after, then, refused, joined, idle = _look_again(sight, changes, terms)
    election = None
    if version is not None:
        election, after = hold_election(after, version, then)
    was, now = _readiness(sight), _readiness(after)
    turns = [
        Turn(feature=name, before=was.get(name), after=now.get(name))
        for name in sorted(was.keys() | now.keys())
    ]
    told = [turn for turn in turns if turn.before != turn.after]
    before_rows, after_rows = _findings(sight), _findings(after)
    return WhatIf(
        before=sight,
        after=after,
        turns=tuple(told),
        unchanged=len(turns) - len(told),
        new=tuple(row for key, row in after_rows.items() if key not in before_rows),
        gone=tuple(row for key, row in before_rows.items() if key not in after_rows),
        refused=refused,
        joined=joined,
        idle=idle,
        election=election,
    )


def _releases(changes: Changes, terms: Terms, sight: Sight) -> dict[str, str]:
    """The releases that somebody names, by who does."""
    named = {f"node {node}": release for node, release in changes.nodes.items()}
    named |= {f"broker {node}": release for node, release in changes.added.items()}
    if changes.release is not None:
        return named | {"--release": changes.release}
    return named | {"the inventory": told_release(sight, terms)}


def _look_again(
    sight: Sight, changes: Changes, terms: Terms
) -> tuple[Sight, Terms, tuple[Refused, ...], tuple[int, ...], tuple[int, ...]]:
    mode, cluster = mode_of(sight), sight.cluster
    draft = Draft(sight.rows, max(sight.newest, terms.as_of or 0) + 1)  # after all that is known
    for node_id in changes.removed:
        draft.remove(node_id)
    if changes.finalized:
        draft.finalize(changes.finalized)
    finalized = {n: e for n, e in cluster.finalized.items() if n not in changes.finalized}
    finalized |= {name: (level, level) for name, level in changes.finalized.items() if level}
    there = replace(cluster, finalized=finalized)
    wanted, idle = _wanted(sight, changes, mode, terms)
    refused = tuple(
        refusals_of(there, wanted, sight.releases, mode, terms.catalogue) if wanted else ()
    )
    out = {(one.role, one.node_id) for one in refused}
    for node in wanted:
        if (node.role, node.node_id) in out:
            if node.node_id not in changes.added:
                draft.stop(node.node_id, node.role)
        elif node.node_id in changes.added:
            draft.add(node.node_id, node.supported)
        else:
            draft.run(node.node_id, node.role, node.supported)
    led = {n.node_id for n in wanted if n.role is Role.CONTROLLER or mode == "zk"}
    told = _told(terms.fleet, sight.cluster_id, changes, bool(led))
    then = replace(terms, fleet=told)
    stays = {node_id for _, node_id in out}
    joined = tuple(sorted({node.node_id for node in wanted} - stays))
    return then.see(draft.row()), then, refused, joined, idle


def _wanted(
    sight: Sight, changes: Changes, mode: str, terms: Terms
) -> tuple[list[Node], tuple[int, ...]]:
    """The halves of nodes that would start with other software, and nodes that do not run."""
    named = dict(changes.nodes)
    idle = set[int]()
    if changes.release is not None:
        for node in sight.cluster.nodes:
            if node.node_id in named or node.node_id in changes.removed:
                continue
            if node.running:
                named.setdefault(node.node_id, changes.release)
            else:
                idle.add(node.node_id)
    found = []
    for node in sight.cluster.nodes:
        if node.node_id in named and node.node_id not in changes.removed:
            option = "--node" if node.node_id in changes.nodes else "--release"
            found.append(_with(node, named[node.node_id], mode, terms, option))
    for node_id, release in changes.added.items():
        node = Node(node_id=node_id, role=Role.BROKER)
        found.append(_with(node, release, mode, terms, "--add"))
    return found, tuple(sorted(idle - named.keys()))


def _with(node: Node, text: str, mode: str, terms: Terms, option: str) -> Node:
    release = release_of(text, mode, terms.catalogue, option)
    supported = software_of_release(release, mode, terms.catalogue)
    return replace(node, release=release, supported=supported, running=True, fenced=False)


def _told(fleet: Fleet, cluster_id: str, changes: Changes, led_by_others: bool) -> Fleet:
    """The inventory as its owner would write it then."""
    entries = []
    for entry in fleet.cluster:
        if entry.id == cluster_id:
            gone, release = set(changes.removed), entry.release
            if changes.release is not None:
                release = changes.release
            elif led_by_others:
                release = ""
            entries.append(
                msgspec.structs.replace(
                    entry,
                    release=release,
                    brokers=tuple(n for n in entry.brokers if n not in gone),
                    controllers=tuple(n for n in entry.controllers if n not in gone),
                )
            )
        else:
            entries.append(entry)
    return msgspec.structs.replace(fleet, cluster=tuple(entries))


def _expect_nodes(sight: Sight, changes: Changes) -> None:
    evidence = sight.judged.evidence
    assert evidence is not None
    known = sorted(set(evidence.subjects.node_id.tolist()))
    shown = ", ".join(map(str, known)) or "none"
    for option, ids in (("--node", changes.nodes), ("--remove", changes.removed)):
        for node_id in ids:
            if node_id not in known:
                raise ConfigError(
                    f"{option} {node_id}: expected a node of cluster {sight.cluster_id}, found "
                    f"these: {shown}. A new broker comes with --add {node_id}=RELEASE."
                )
    for node_id in changes.added:
        if node_id in known:
            raise ConfigError(
                f"--add {node_id}: expected a node that is not there yet, found {node_id} among "
                f"the nodes of cluster {sight.cluster_id}. It runs other software with --node "
                f"{node_id}=RELEASE."
            )
    both = sorted(set(changes.nodes) & set(changes.removed))
    if both:
        raise ConfigError(f"--node and --remove both name {both[0]}. Keep one of them.")


def _readiness(sight: Sight) -> dict[str, Row]:
    return {row["feature"]: row for row in sight.judged.readiness.to_pylist()}


def _findings(sight: Sight) -> dict[tuple[object, ...], Row]:
    """Findings by what tells them apart; a level they are about does, too."""
    rows: Sequence[Row] = sight.judged.findings.to_pylist()
    return dict(_keyed(rows))


def _keyed(rows: Sequence[Row]) -> Iterator[tuple[tuple[object, ...], Row]]:
    for row in rows:
        yield tuple(row[name] for name in (*KEY, "level")), row


# --- Who may join ---------------------------------------------------------------------------------


def release_of(text: str, mode: str, catalogue: Catalogue, option: str) -> str:
    """The release a version means, one with the mode of the cluster. Raises ConfigError."""
    short = release_line(text)
    if mode == "zk":
        known = [name for d in GENERATIONS for name in load(d).releases if load(d).mode == mode]
        if short in known:
            return short
        raise ConfigError(
            f"{option} {text}: expected a release with ZooKeeper mode ({', '.join(known)}), found "
            "none such. From 4.0 on there is none: migrate the cluster to KRaft first."
        )
    named = catalogue.release_named(text)
    if named is None:
        known = [own.release for own in catalogue.releases]
        raise ConfigError(
            f"{option} {text}: expected a release of the catalogue of {catalogue.label} "
            f"({', '.join(known)}), found none such. Name one of them, or add it with --overlay "
            "FILE."
        )
    return named


def software_of_release(
    release: str, mode: str, catalogue: Catalogue, *, unstable: bool = False
) -> Features:
    """What production software of a release advertises; in ZooKeeper mode nothing at all."""
    if mode == "zk":
        return {}
    names = sorted(catalogue.features)
    ends = advertised(catalogue, names, unstable=unstable)
    at = ends.releases.index(release)
    rows = zip(names, ends.min_version[at].tolist(), ends.max_version[at].tolist(), strict=True)
    return {name: (low, high) for name, low, high in rows if high > 0}


def refusals_of(
    cluster: Cluster,
    nodes: Sequence[Node],
    releases: Sequence[str],
    mode: str,
    catalogue: Catalogue,
) -> Iterator[Refused]:
    """Every reason why one of `nodes` may not come, for every generation that may lead.

    Source: ClusterControlManager.registerBroker, FeatureControlManager.replay; KIP-584, Broker
    protections.
    """
    told: set[tuple[Role, int, str]] = set()
    for release in releases:
        own = dialect_of(release, mode, catalogue)
        for node in nodes:
            key = (node.role, node.node_id, own.name)
            if key in told:
                continue
            told.add(key)
            yield from _refused(cluster, node, own, catalogue)


def _refused(cluster: Cluster, node: Node, own: Dialect, catalogue: Catalogue) -> Iterator[Refused]:
    if node.role is Role.CONTROLLER:
        alone = replace(cluster, nodes=(replace(node, running=True),))
        for stop in stopped(alone, own, catalogue.tables):
            if stop.effect is not Effect.GOES_ON:
                yield Refused(
                    role=node.role,
                    node_id=node.node_id,
                    dialect=own.name,
                    entry=Admission.STOPS.name.lower(),
                    features=tuple(one.feature for one in stop.unfit),
                    message="; ".join(one.text for one in stop.unfit),
                )
        return
    joined = join(cluster, Newcomer(node=node), own, catalogue.tables)
    if joined.entry in (Admission.REFUSED, Admission.STOPS, Admission.IGNORED):
        yield Refused(
            role=node.role,
            node_id=node.node_id,
            dialect=own.name,
            entry=joined.entry.name.lower(),
            features=tuple(one.feature for one in joined.unfit),
            message=joined.message or "",
        )
