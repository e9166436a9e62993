"""Judge a cluster with other nodes or levels, by the same core and inputs.

A node that cannot register is left out. The controller checks the range of a broker that registers.
A controller that reads an unsupported finalized level exits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from featurelib.audit.cluster_view import ClusterView, Inputs, without_nodes
from featurelib.audit.findings import without_blanks
from featurelib.catalogue import Catalogue, Tables
from featurelib.config.fleet import FleetEntry as Entry
from featurelib.core.cluster import Cluster, Features, Node
from featurelib.core.compatibility import Admission, Effect, Newcomer, Unfit, join, stopped
from featurelib.core.dialect import Dialect, zookeeper_releases
from featurelib.core.dry_run import dialect_of
from featurelib.errors import ConfigError
from featurelib.extras.predictions.draft import Draft
from featurelib.feature import Role, release_line
from featurelib.planning.planner import mode_of

Row = dict[str, Any]
_NONE_LEFT = "From 4.0 on there is none:"
KEY = ("code", "role", "node_id", "feature", "level")  # columns that identify a finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A refused node. `dialect`: the controllers'; `entry`: refused, stops or ignored; `message`:
    Kafka's."""

    role: Role
    node_id: int
    dialect: str
    entry: str
    features: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The assumed changes. `nodes`, `added`: node id → release; `release`: of all other running
    nodes; `finalized`: feature → level, 0 = not finalized."""

    nodes: Mapping[int, str] = field(default_factory=dict)
    removed: tuple[int, ...] = ()
    added: Mapping[int, str] = field(default_factory=dict)
    release: str | None = None
    finalized: Mapping[str, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The assumed changes as a clause that follows `if`."""
        parts = [f"node {node} runs {release}" for node, release in self.nodes.items()]
        parts += [f"node {node} is gone" for node in self.removed]
        parts += [f"broker {node} of {release} comes" for node, release in self.added.items()]
        if self.release is not None:
            prefix = "other " if self.nodes else ""
            parts.append(f"every {prefix}node that runs is of {self.release}")
        parts += [f"{name} is finalized at {level}" for name, level in self.finalized.items()]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureDiff:
    """A feature before and after the change, as rows of featurelib.schema; None = unknown."""

    feature: str
    before: Row | None
    after: Row | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The verdict and phase of a cluster, and the releases that can register."""

    verdict: str
    phase: str
    may_join: list[str] | None
    may_join_after: list[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """The differences that a change makes. `turns`: changed features, `unchanged`: the number of
    others; `new`, `resolved`, `critical`: findings; `refused`: nodes that cannot register; `off`:
    stopped nodes; `silent`: nodes without response; `runs`: removed nodes that still run."""

    before: ClusterView
    after: ClusterView
    turns: tuple[FeatureDiff, ...]
    unchanged: int
    new: tuple[Row, ...]
    resolved: tuple[Row, ...]
    critical: tuple[Row, ...]
    refused: tuple[Refused, ...] = ()
    joined: tuple[int, ...] = ()  # the ids of nodes that could register
    off: tuple[int, ...] = ()
    silent: tuple[int, ...] = ()
    runs: tuple[int, ...] = ()

    @property
    def was(self) -> Standing:
        """The state of the cluster before the change."""
        return _standing(self.before)

    @property
    def now(self) -> Standing:
        """The state of the cluster after the change."""
        return _standing(self.after)


def _standing(view: ClusterView) -> Standing:
    [row] = view.judged.plans.to_pylist()
    return Standing(**{name: row[name] for name in Standing.__slots__})


def what_if(view: ClusterView, changes: Changes, inputs: Inputs) -> WhatIf:
    """Return the differences that `changes` make to the cluster in `view`. Raises ConfigError for a
    missing node, an added node that exists, or an unknown release."""
    _expect_nodes(view, changes)
    draft, state = _drafted(view, changes)
    halves, stopped, silent = _wanted(view, changes, inputs)
    nodes = [*halves, *_readers(state, halves, changes)]
    refused = tuple(refusals_of(state, nodes, view.releases, mode_of(view), inputs.catalogue))
    out = {(e.role, e.node_id) for e in refused}
    for node in nodes[len(halves) :]:
        if node.half in out:
            draft.stop(node.node_id, node.role)
    for node in halves:
        if (node.role, node.node_id) not in out:
            if node.node_id in changes.added:
                draft.add(node.node_id, node.supported)
            else:
                draft.run(node.node_id, node.role, node.supported)
        elif node.node_id not in changes.added:
            draft.stop(node.node_id, node.role)
    after = _then(view, changes, halves, inputs).see(draft.row())
    stay = {(role.text, node_id) for role, node_id in out}
    return replace(
        compare(view, after, stay),
        refused=refused,
        joined=tuple(sorted({node.node_id for node in halves} - {node_id for _, node_id in out})),
        off=stopped,
        silent=silent,
        runs=_running(view, changes.removed),
    )


def compare(
    before: ClusterView, after: ClusterView, stay: Set[tuple[str, int]] = frozenset()
) -> WhatIf:
    """Compare two views of a cluster. `stay`: (role, node id) of nodes whose findings stay open
    although `after` lacks them."""
    old, now = ({row["feature"]: row for row in e.judged.readiness.to_pylist()}
                for e in (before, after))  # fmt: skip
    features = sorted(old.keys() | now.keys())
    turns = [
        FeatureDiff(feature=name, before=old.get(name), after=now.get(name)) for name in features
    ]
    differ = tuple(change for change in turns if change.before != change.after)
    found_before, found_then = _findings(before), _findings(after)
    return WhatIf(
        before=before,
        after=after,
        turns=differ,
        unchanged=len(turns) - len(differ),
        new=tuple(row for key, row in found_then.items() if key not in found_before),
        resolved=tuple(
            row
            for key, row in found_before.items()
            if key not in found_then and key[1:3] not in stay
        ),
        critical=tuple(
            row
            for key, row in found_then.items()
            if key in found_before and row["severity"] == "critical"
        ),
    )


def _readers(cluster: Cluster, halves: Sequence[Node], changes: Changes) -> list[Node]:
    """Return the controllers that must read a changed level, and stop if they do not support it."""
    if not changes.finalized:
        return []
    touched = {*changes.removed, *(node.node_id for node in halves)}
    running = (node for node in cluster.nodes if node.running and node.role is Role.CONTROLLER)
    return [node for node in running if node.node_id not in touched]


def _running(view: ClusterView, removed: Sequence[int]) -> tuple[int, ...]:
    """Return the nodes in `removed` that still run."""
    node = view.evidence.subjects
    running = node.node_id[node.answers | node.live | node.unregistered].tolist()
    return tuple(node_id for node_id in removed if node_id in running)


def _findings(view: ClusterView) -> dict[tuple[object, ...], Row]:
    """Return the findings by the values of KEY, which identify a finding."""
    rows = map(without_blanks, view.judged.findings.to_pylist())
    return {tuple(row[name] for name in KEY): row for row in rows}


def _drafted(view: ClusterView, changes: Changes) -> tuple[Draft, Cluster]:
    """Return (draft with removed nodes and changed levels, cluster with these levels)."""
    draft = Draft(without_nodes(view.rows, changes.removed), view.newest + 1)
    if changes.finalized:
        draft.finalize(changes.finalized)
    finalized = {n: e for n, e in view.cluster.finalized.items() if n not in changes.finalized}
    finalized |= {name: (level, level) for name, level in changes.finalized.items() if level}
    return draft, replace(view.cluster, finalized=finalized)


def _wanted(
    view: ClusterView, changes: Changes, inputs: Inputs
) -> tuple[list[Node], tuple[int, ...], tuple[int, ...]]:
    """Return (nodes that get other software, ids of nodes that Kafka reports as stopped, ids of
    nodes that did not respond)."""
    options = {node_id: ("--node", text) for node_id, text in changes.nodes.items()}
    stopped, silent = set[int](), set[int]()
    nodes = [node for node in view.cluster.nodes if node.node_id not in changes.removed]
    for node in nodes:
        if changes.release is not None and node.node_id not in changes.nodes:
            if node.running:
                options[node.node_id] = ("--release", changes.release)
            else:
                (stopped if node.gone else silent).add(node.node_id)
    starting = [(node, *options[node.node_id]) for node in nodes if node.node_id in options]
    for node_id, text in changes.added.items():
        starting.append((Node(node_id=node_id, role=Role.BROKER), "--add", text))
    mode, catalogue = mode_of(view), inputs.catalogue
    halves = [
        with_release(node, release_of(text, view, catalogue, option), mode, catalogue)
        for node, option, text in starting
    ]
    silent -= options.keys()
    return halves, tuple(sorted(stopped - options.keys() - silent)), tuple(sorted(silent))


def _then(view: ClusterView, changes: Changes, halves: Sequence[Node], inputs: Inputs) -> Inputs:
    """Return the inputs with the inventory that fits the changed cluster."""
    entry = next((e for e in inputs.fleet.cluster if e.id == view.cluster_id), None)
    if entry is None:
        return inputs
    leader = Role.BROKER if mode_of(view) == "zk" else Role.CONTROLLER
    release = "" if any(node.role is leader for node in halves) else entry.release
    return with_entry(
        inputs,
        entry,
        release=release if changes.release is None else changes.release,
        brokers=tuple(broker for broker in entry.brokers if broker not in changes.removed),
        controllers=tuple(n for n in entry.controllers if n not in changes.removed),
    )


def with_entry(inputs: Inputs, entry: Entry, **changes: object) -> Inputs:
    """Return the inputs with some values of a cluster's inventory entry replaced."""
    rest_of = tuple(e for e in inputs.fleet.cluster if e is not entry)
    new = msgspec.structs.replace(entry, **changes)
    return replace(inputs, fleet=msgspec.structs.replace(inputs.fleet, cluster=(*rest_of, new)))


def _expect_nodes(view: ClusterView, changes: Changes) -> None:
    node_ids = sorted(set(view.evidence.subjects.node_id.tolist()))
    known_text = ", ".join(map(str, node_ids)) or "none"
    counted = {node.node_id for node in view.cluster.nodes}  # nodes with data or a registration
    for option, ids in (("--node", changes.nodes), ("--remove", changes.removed)):
        for node_id in ids:
            if option == "--node" and node_id in set(node_ids) - counted:
                raise ConfigError(
                    f"--node {node_id}: Only the inventory has node {node_id}. The node is not "
                    "registered, and no data was collected from it. For a broker that registers, "
                    f"use --add {node_id}=RELEASE."
                )
            if node_id not in node_ids:
                raise ConfigError(
                    f"{option} {node_id}: Cluster {view.cluster_id} has no node {node_id}. Its "
                    f"nodes: {known_text}. For a new broker, use --add {node_id}=RELEASE."
                )
    for node_id in changes.added:
        if node_id in counted:
            raise ConfigError(
                f"--add {node_id}: Cluster {view.cluster_id} has a node {node_id} already. For "
                f"other software on node {node_id}, use --node {node_id}=RELEASE."
            )
    repeated = sorted(set(changes.nodes) & set(changes.removed))
    if repeated:
        raise ConfigError(f"--node and --remove both name {repeated[0]}. Keep one of them.")


def release_of(text: str, view: ClusterView, catalogue: Catalogue, option: str) -> str:
    """Return the release of a version. Raises ConfigError if the cluster's mode lacks it."""
    with_zk, kind = zookeeper_releases(), "with ZooKeeper mode"
    if mode_of(view) == "zk":
        name, known, hint = (
            release_line(text),
            with_zk,
            f"{_NONE_LEFT} migrate the cluster to KRaft first",
        )
    else:
        name, known = catalogue.release_named(text) or "", [r.release for r in catalogue.releases]
        if view.cluster.migrating:
            known = [r for r in known if catalogue.of(r).based_on in with_zk]
            hint = f"{_NONE_LEFT} finish the migration to KRaft first"
        else:
            kind = f"of the catalogue of {catalogue.label}"
            hint = "Name one of them, or add it with --overlay FILE"
    if name in known:
        return name
    raise ConfigError(f"{option} {text}: This is no release {kind} ({', '.join(known)}). {hint}.")


def software_of_release(release: str, mode: str, catalogue: Catalogue) -> Features:
    """Return the ranges of a release's production software; {} in ZooKeeper mode."""
    if mode == "zk":
        return {}
    return dict(sorted(catalogue.of(release).ranges().items()))


def with_release(node: Node, release: str, mode: str, catalogue: Catalogue) -> Node:
    """Return a node restarted with production software of a release."""
    supported = software_of_release(release, mode, catalogue)
    return replace(node, release=release, supported=supported, running=True, fenced=False)


def refusals_of(
    cluster: Cluster,
    nodes: Sequence[Node],
    releases: Sequence[str],
    mode: str,
    catalogue: Catalogue,
) -> Iterator[Refused]:
    """Yield every reason why one of `nodes` cannot register, by each possible controller.

    Source: ClusterControlManager.registerBroker, FeatureControlManager.replay; KIP-584, Broker
    protections.
    """
    for own in {(own := dialect_of(name, mode, catalogue)).name: own for name in releases}.values():
        for node in nodes:
            for entry, unfit, message in _entries(cluster, node, own, catalogue.tables):
                yield Refused(
                    role=node.role,
                    node_id=node.node_id,
                    dialect=own.name,
                    entry=entry.name.lower(),
                    features=tuple(u.feature for u in unfit),
                    message=message,
                )


def _entries(
    cluster: Cluster, node: Node, dialect: Dialect, tables: Tables
) -> Iterator[tuple[Admission, tuple[Unfit, ...], str]]:
    """Yield (outcome, features, messages) for each reason why a starting node fails."""
    if node.role is Role.CONTROLLER:
        single = replace(cluster, nodes=(replace(node, running=True),))
        for stop in stopped(single, dialect, tables):
            if stop.effect is not Effect.GOES_ON:
                yield Admission.STOPS, stop.unfit, "; ".join(u.text for u in stop.unfit)
        return
    joined = join(cluster, Newcomer(node=node), dialect, tables)
    if joined.entry in (Admission.REFUSED, Admission.STOPS, Admission.IGNORED):
        yield joined.entry, joined.unfit, joined.message or ""
