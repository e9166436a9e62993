"""Follow a rolling upgrade: software of each node, possible levels, and what awaited ones lack.

READY is shown exactly if a plan for the awaited levels would be made. Earlier readings add only the
time of each node's state, and brokers that are no longer listed: up to 3.9, and in ZooKeeper mode,
a restarting broker is on no list, and the others would pass levels that it may not support.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from featurelib.audit.cluster_view import ClusterView
from featurelib.catalogue import ANY, Catalogue
from featurelib.core.dialect import GENERATIONS
from featurelib.errors import ConfigError
from featurelib.feature import METADATA_VERSION, ClusterMode, Role, Verdict
from featurelib.findings import tagged
from featurelib.model import Reason
from featurelib.planning.goal import Command, Intent
from featurelib.planning.planner import make_plan
from featurelib.planning.reasons import EVIDENCE, refusing
from featurelib.questions.describe import NodeShown, describe
from featurelib.questions.why_not import named_level
from featurelib.words import clean, level_text, moment

GONE = "no_longer_listed"


class NodeState(StrEnum):
    """The state of a node at the newest query."""

    RUNNING = "running"
    FENCED = "running, fenced"
    SILENT = "not answering"
    GONE = "on no list now"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNow:
    """A node in one role. `release`: at its last response; `since`: start of its state; `lacks`:
    unsupported awaited levels."""

    role: str
    node_id: int
    state: NodeState
    release: str
    is_active: bool
    since: datetime
    lacks: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureNow:
    """A feature. `finalized`: None without trusted source; `possible`: the level that can be
    finalized now; `wanted`: the awaited level, or the maximum level."""

    feature: str
    finalized: int | None
    possible: int | None
    wanted: int | None
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The state of one cluster at `at`; `started`: the first query. `until`: awaited levels;
    `ready`: true if all can be finalized or are; `error`: why the query failed, with the previous
    nodes."""

    cluster_id: str
    mode: str
    started: datetime
    at: datetime
    nodes: tuple[NodeNow, ...]
    features: tuple[FeatureNow, ...]
    missing: tuple[Reason, ...]
    until: dict[str, int] | None
    ready: bool | None
    error: str | None

    @property
    def answered(self) -> bool:
        """True if the cluster responded to this or an earlier query."""
        return bool(self.mode)


class Watch:
    """The repeated queries of one cluster. `until`: texts FEATURE=LEVEL, or a release."""

    def __init__(self, until: Sequence[str], catalogue: Catalogue) -> None:
        self._texts, self._catalogue = until, catalogue
        self._until: dict[str, int] | None = None
        self._last: Watched | None = None

    def see(self, view: ClusterView) -> Watched:
        """Return the state after a new query. Raises ConfigError for unknown names in `until`."""
        at = moment(view.newest)
        assert at is not None  # every reading has a time
        if self._texts and self._until is None:
            self._until = read_target(self._texts, view, self._catalogue)
        features = tuple(_features(view, self._until))
        goal = {f.feature: f.wanted for f in features if f.wanted is not None}
        nodes = (*self._nodes(view, goal, at), *self._gone(view, at))
        ready, refusals = self._judged(view, goal)
        lost = [node for node in nodes if node.state is NodeState.GONE]
        missing = () if ready else tuple(_missing(refusals, nodes))
        self._last = Watched(
            cluster_id=view.cluster_id,
            mode=list(ClusterMode)[view.evidence.membership.mode[0]].value,
            started=at if self._last is None else self._last.started,
            at=at,
            nodes=nodes,
            features=features,
            missing=(*missing, *map(_no_longer_listed, lost)),
            until=self._until,
            ready=None if self._until is None else ready and not lost,
            error=None,
        )
        return self._last

    def lose(self, error: str, at: datetime, cluster_id: str) -> Watched:
        """Return the state after a query to which no node responded."""
        last = self._last
        nodes = () if last is None else last.nodes
        silent = (replace(n, state=NodeState.SILENT, is_active=False, lacks={}) for n in nodes)
        self._last = Watched(
            cluster_id=cluster_id if last is None else last.cluster_id,
            mode="" if last is None else last.mode,
            started=at if last is None else last.started,
            at=at,
            nodes=tuple(self._since(n, at) for n in silent),
            features=(),
            missing=(),
            until=self._until,
            ready=False if self._texts else None,
            error=error,
        )
        return self._last

    def _judged(self, view: ClusterView, goal: Mapping[str, int]) -> tuple[bool, Sequence[Reason]]:
        """Return (ready, reasons). Ready: all levels of `goal` are finalized or can be planned."""
        if self._until is None:
            intent = Intent(command=Command.UPGRADE_ALL)
        elif goal:
            upgrades = {name: str(level) for name, level in goal.items()}
            intent = Intent(command=Command.UPGRADE, up=upgrades)
        else:
            return view.is_trusted, ()
        planned = make_plan(view, intent, self._catalogue)
        return self._until is not None and planned.plan is not None, planned.refusals

    def _nodes(self, view: ClusterView, goal: Mapping[str, int], at: datetime) -> Iterator[NodeNow]:
        nodes = [node for node in view.cluster.nodes if node.supported]
        unfit = {
            name: {node.half for node in refusing(nodes, name, level)}
            for name, level in goal.items()
        }
        rows = describe(view, self._catalogue).nodes
        subjects = view.evidence.subjects
        columns = (subjects.role.tolist(), subjects.answers.tolist())
        for node, role, answers in zip(rows, *columns, strict=True):
            node_key = Role(role), node.node_id
            lacks = {name: goal[name] for name, node_keys in unfit.items() if node_key in node_keys}
            now = NodeNow(
                role=node.role,
                node_id=node.node_id,
                state=_state(node, answers=answers),
                release=node.release,
                is_active=node.is_active,
                since=at,
                lacks=lacks if answers else {},
            )
            yield self._since(now, at)

    def _gone(self, view: ClusterView, at: datetime) -> Iterator[NodeNow]:
        """Yield brokers that left the node list and may be restarting. Skipped if the list includes
        fenced brokers."""
        records, subjects = view.evidence.snapshots["members"], view.evidence.subjects
        shows_all = (records.field("role") == Role.BROKER) & (records.field("fenced_shown") > 0)
        if self._last is None or shows_all.any():
            return
        ids = set(subjects.node_id[subjects.role == Role.BROKER].tolist())
        for node in self._last.nodes:
            if node.role == Role.BROKER.text and node.node_id not in ids:
                lost = replace(node, state=NodeState.GONE, is_active=False, lacks={})
                yield self._since(lost, at)

    def _since(self, node: NodeNow, at: datetime) -> NodeNow:
        """Return the node with the time at which its present state began."""
        node_key = node.role, node.node_id
        nodes = () if self._last is None else self._last.nodes
        before = next((node for node in nodes if (node.role, node.node_id) == node_key), None)
        if before is None:
            return replace(node, since=at)
        if node.state is not NodeState.RUNNING:
            node = replace(node, release=node.release or before.release)
        is_same = (node.state, node.release) == (before.state, before.release)
        return replace(node, since=before.since if is_same else at)


def _state(node: NodeShown, *, answers: bool) -> NodeState:
    if not answers:
        return NodeState.SILENT
    return NodeState.FENCED if node.is_fenced else NodeState.RUNNING


def _features(view: ClusterView, until: Mapping[str, int] | None) -> Iterator[FeatureNow]:
    """Yield every feature that is finalized, possible or awaited."""
    rows = {row["feature"]: row for row in view.judged.readiness.to_pylist()}
    for name in sorted({*rows, *(until or ())}, key=lambda name: (name != METADATA_VERSION, name)):
        row = rows.get(name, {})
        finalized = row.get("finalized_level") if row else 0
        ceiling = (until or {}).get(name) if until is not None else row.get("ceiling")
        is_ready = row.get("verdict") == Verdict.READY
        is_there = ceiling is None or (finalized is not None and finalized >= ceiling)
        yield FeatureNow(
            feature=name,
            finalized=finalized,
            possible=row["target"] if is_ready else None,
            wanted=None if is_there else ceiling,
            verdict=row.get("verdict", Verdict.UNKNOWN),
        )


def _missing(refusals: Sequence[Reason], nodes: Sequence[NodeNow]) -> Iterator[Reason]:
    """Yield the reasons that the nodes' rows do not show. The controller's own reason is used only
    if there is no other."""
    silent = {
        f"{n.role} {n.node_id}" for n in nodes if n.state in (NodeState.SILENT, NodeState.GONE)
    }
    rest_of = [r for r in refusals if r.node not in silent and r.code not in tagged("unsupported")]
    of_policy = [r for r in rest_of if r.judge not in GENERATIONS]
    is_shown = bool(of_policy or silent) or any(node.lacks for node in nodes)
    yield from of_policy if is_shown else rest_of


def _no_longer_listed(node: NodeNow) -> Reason:
    return Reason(
        judge=EVIDENCE,
        code=GONE,
        node=f"{node.role} {node.node_id}",
        message=f"{node.role.capitalize()} {node.node_id} was there and is on no list now.",
        action="If it is gone for good, start the watch again.",
    )


def read_target(texts: Sequence[str], view: ClusterView, catalogue: Catalogue) -> dict[str, int]:
    """Return feature → awaited level from texts FEATURE=LEVEL or a release. Raises ConfigError
    (unknown or repeated name)."""
    levels: dict[str, int] = {}
    for text in texts:
        name, sign, level = text.partition("=")
        target = {name: _level(name, level, view, catalogue)} if sign else _of(text, catalogue)
        if twice := sorted(target.keys() & levels.keys()):
            raise ConfigError(f"--until {text}: {twice[0]} is given twice. Remove one of the two.")
        levels |= target
    return levels


def _level(name: str, text: str, view: ClusterView, catalogue: Catalogue) -> int:
    """Return the level that a text means for a feature, for any release of the controllers."""
    number = catalogue.of(ANY).level_of(text) if name == METADATA_VERSION else None
    level = named_level(view, name, text if number is None else str(number), catalogue)
    if not level:
        raise ConfigError(f"--until {name}={text}: expected a level above 0, found 0.")
    ends = (node.supported[name][1] for node in view.cluster.nodes if name in node.supported)
    newest = max(catalogue.newest_known(name), *ends, 0)
    if name in catalogue.features and level > newest:  # otherwise it would be awaited forever
        raise ConfigError(
            f"--until {clean(name)}={clean(text)}: No release of the catalogue and no node "
            f"supports level {level}. The highest is {level_text(catalogue, name, newest)}."
        )
    return level


def _of(text: str, catalogue: Catalogue) -> dict[str, int]:
    """Return feature → default level of a release, without opt-in levels."""
    own = catalogue.of(catalogue.release_named(text) or ANY)
    version = own.level_of(text)
    if version is None:
        releases = ", ".join(release.release for release in catalogue.releases)
        raise ConfigError(
            f"--until {clean(text)}: This is no release ({releases}) and no FEATURE=LEVEL. Use for "
            "example metadata.version=4.2."
        )
    return {
        name: level
        for name, level in own.defaults(version).items()
        if level and not any(by_name <= level for by_name in catalogue.only_by_name(name))
    }
