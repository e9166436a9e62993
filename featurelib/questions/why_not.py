"""Explain why a level of a feature cannot be finalized now: all proofs, and what unlocks the level.

The dependencies of the level count, too. A known refusal decides; otherwise missing data decides;
otherwise no reason blocks the level, and `featurelib plan` plans it.

Proofs come from the policy and from each possible controller. A controller names only the first
node. To find the others, the rules are applied again for one node at a time, with all other nodes
supporting the level. Responses to a collector's probe are among the audit's findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import filterfalse
from typing import Any, NamedTuple

import numpy as np

from featurelib.audit.cluster_view import ClusterView
from featurelib.audit.findings import wordings
from featurelib.audit.target import agreed_levels
from featurelib.audit.verdict import TIMEOUT_MS
from featurelib.catalogue import ANY, Catalogue
from featurelib.config import nearest
from featurelib.core.cluster import Cluster, Range
from featurelib.core.dialect import GENERATIONS, STRICT, Dialect, load
from featurelib.core.dry_run import dialect_of, refusals_by, request_of, try_requests, who_may_lead
from featurelib.errors import ConfigError
from featurelib.feature import (
    HIGHEST_LEVEL,
    KRAFT_VERSION,
    METADATA_VERSION,
    SILENT_METADATA_VERSION,
    Role,
    Severity,
    UpgradeType,
)
from featurelib.findings import tagged
from featurelib.model import Move, Reason, Step
from featurelib.planning.goal import GOAL, Command, Intent, goal_of, read_level, software_of
from featurelib.planning.outlook import StepOutlook, look_ahead
from featurelib.planning.planner import (
    known_cluster,
    lowest_supported,
    make_plan,
    mode_of,
    only_narrow,
    request_order,
)
from featurelib.planning.reasons import EVIDENCE, PROBE, Fix, Reasons, unlock
from featurelib.rows import NONE
from featurelib.words import clean, moment

Moves = dict[str, int]


class LevelStatus(StrEnum):
    """The status of a level in `why-not`. NOTHING: no reason blocks the level."""

    NOTHING = "nothing"
    FINALIZED = "finalized"  # the feature is finalized at this level
    BLOCKED = "blocked"
    UNKNOWN = "unknown"


class LevelOf(NamedTuple):
    """A feature and one of its levels."""

    feature: str
    level: int


class NodeOf(NamedTuple):
    """A node in one role."""

    role: Role
    node_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof(Reason):
    """A reason with its evidence: the `source` of its rule, and its landing line.

    `needed`: the range that the node must support, None = only the level matters, or the start is
    unknown. `seen_at`: microseconds, 0 = never. `line`: file and number of the line `line_id`.
    """

    level: int = 0
    needed: Range | None = None
    seen_at: int = 0
    line_id: int = 0
    line: str | None = None

    @property
    def seen(self) -> datetime | None:
        """The time when the evidence was read; None = unknown."""
        return moment(self.seen_at)

    @property
    def min_version(self) -> int | None:
        """The minimum of the node's range; None = unknown."""
        return self.supported and self.supported[0]

    @property
    def max_version(self) -> int | None:
        """The maximum of the node's range; None = unknown."""
        return self.supported and self.supported[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class WayOut:
    """The smallest change that makes a level possible: nodes to fix, nodes that only the
    controllers' rules refuse, rules that still refuse. `release`: the first release with the level,
    None = unknown."""

    release: str | None
    fixes: tuple[Fix, ...]
    only_own_controllers: tuple[NodeOf, ...]
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyNot:
    """The result of `why-not`. `current` None = unknown; 0 = not finalized.

    `moves`: all levels of the request, with dependencies; `words`: the arguments that plan them,
    after `featurelib plan CLUSTER`.
    """

    cluster_id: str
    feature: str
    level: int
    current: int | None
    dialects: tuple[str, ...]
    answer: LevelStatus = LevelStatus.FINALIZED
    moves: tuple[LevelOf, ...] = ()
    proofs: tuple[Proof, ...] = ()
    unknown: tuple[Proof, ...] = ()
    agreed: Proof | None = None  # the controller accepted all moves in a probe
    unlock: WayOut | None = None  # None = no reason blocks the level, or a downgrade
    words: str | None = None
    ahead: tuple[StepOutlook, ...] = ()  # the effects of the plan if no reason blocks the level


def why_not(view: ClusterView, feature: str, level: int, catalogue: Catalogue) -> WhyNot:
    """Return the result about `level` of `feature` on a cluster: all blockers (KIP-584, KIP-778,
    KIP-1022).

    A level below the finalized one is judged as a lossless downgrade. For the finalized level the
    proofs are the nodes that do not support it.
    """
    found = WhyNot(
        cluster_id=view.cluster_id,
        feature=feature,
        level=level,
        current=_current(view, feature),
        dialects=view.dialects,
    )
    times, reasons = _evidence_of(view), Reasons(view, catalogue)
    if level == found.current:
        misfits = map(_proof_of, reasons.of_codes(tagged("unfit"), feature))
        return replace(found, proofs=tuple(_dated(proof, times) for proof in misfits))
    up = level > view.cluster.level(feature)
    moves = _moves(view, feature, level, catalogue) if up else {feature: level}
    sure = replace(view, cluster=known_cluster(view, moves))
    against = [_dated(proof, times) for proof in _objections(sure, moves, up, catalogue)]
    proofs, unknown = [*filterfalse(_is_unsure, against)], [*filter(_is_unsure, against)]
    unknown += [_dated(proof, times) for proof in _missing(view, reasons, moves)]
    status = LevelStatus.UNKNOWN if unknown else LevelStatus.NOTHING
    answer, intent = LevelStatus.BLOCKED if proofs else status, _intent(moves, up)
    plan = make_plan(view, intent, catalogue).plan if answer is LevelStatus.NOTHING else None
    return replace(
        found,
        answer=answer,
        moves=tuple(LevelOf(*move) for move in sorted(moves.items())),
        proofs=tuple(proofs),
        unknown=tuple(unknown),
        agreed=_agreement(view, moves, times) if up else None,
        unlock=_unlock(sure.cluster, feature, moves, proofs, catalogue) if up and proofs else None,
        words=intent.text,
        ahead=look_ahead(plan, catalogue, view.site.address) if plan is not None else (),
    )


def _is_unsure(proof: Proof) -> bool:
    """Return true if the proof is missing data."""
    words = wordings(load(STRICT)).get(proof.code) if proof.judge == STRICT else None
    return words is not None and words.severity is Severity.UNKNOWN


def _unlock(
    cluster: Cluster, feature: str, moves: Moves, proofs: Sequence[Proof], catalogue: Catalogue
) -> WayOut:
    """Return the changes that make `moves` possible, for the policy and every controller."""
    unlocks = {name: unlock(cluster, catalogue, name, level) for name, level in moves.items()}
    fixes = {fix for route in unlocks.values() for fix in route.fixes}
    own = {
        NodeOf(Role[proof.role.upper()], proof.node_id)
        for proof in proofs
        if proof.judge not in (STRICT, GOAL) and proof.role and proof.node_id is not None
    }
    return WayOut(
        release=unlocks[feature].release or None,
        fixes=tuple(sorted(fixes, key=lambda fix: (fix.role, fix.node_id, fix.action))),
        only_own_controllers=tuple(sorted(own - {(fix.role, fix.node_id) for fix in fixes})),
        rules=unlocks[feature].remaining_rules,
    )


def _moves(view: ClusterView, feature: str, level: int, catalogue: Catalogue) -> Moves:
    """Return the level and the lowest necessary levels of its dependencies (KIP-1022)."""
    moves = {feature: level}
    needs = unlock(known_cluster(view, moves), catalogue, feature, level).needs
    moves = dict(needs) | moves
    if mode_of(view) == "zk":
        return moves
    levels = {METADATA_VERSION: SILENT_METADATA_VERSION} | view.cluster.levels | moves
    least = [
        needed.least
        for release in {catalogue.release_named(release) for release in view.releases} - {None}
        for needed in catalogue.of(release or "").unmet(levels)
        if needed.feature in moves and needed.other == METADATA_VERSION
    ]
    if least:
        enough = max(*least, moves.get(METADATA_VERSION, 0))
        moves[METADATA_VERSION] = lowest_supported(view, enough, catalogue)
    return moves


def _intent(moves: Moves, up: bool) -> Intent:
    levels = {name: str(level) for name, level in moves.items()}
    if up:
        return Intent(command=Command.UPGRADE, up=levels)
    if 0 in moves.values():
        return Intent(command=Command.DISABLE, delete=tuple(moves))
    return Intent(command=Command.DOWNGRADE, down=levels)


def _objections(view: ClusterView, moves: Moves, up: bool, catalogue: Catalogue) -> Iterator[Proof]:
    """Yield the refusals of these levels by the policy, the controllers and the request itself."""
    kind = UpgradeType.UPGRADE if up else UpgradeType.SAFE_DOWNGRADE
    cluster, reasons = view.cluster, Reasons(view, catalogue)
    updates = tuple(
        Move(feature=name, from_level=cluster.level(name), to_level=level, upgrade_type=kind.name)
        for name, level in sorted(moves.items())
    )
    request = request_of(Step(updates=updates, timeout_ms=TIMEOUT_MS), load(GENERATIONS[-1]))
    [refusals] = refusals_by([(cluster, request)], load(STRICT), catalogue.tables)
    yield from map(_proof_of, reasons.of_refusals(refusals))
    yield from _own_proofs(view, updates, catalogue)
    if up:
        yield from map(_proof_of, reasons.of_probe(moves))
    for reason in goal_of(_intent(moves, up), cluster, catalogue).faults:
        yield _proof_of(reason, source="")


def _proof_of(reason: Reason, **fields: Any) -> Proof:
    """Return a reason as a proof, with the source of its rule."""
    texts = wordings(load(STRICT)).get(reason.code)
    values = asdict(reason) | {"level": reason.level or 0, "source": texts.source if texts else ""}
    return Proof(**values | fields)


def _agreement(view: ClusterView, moves: Moves, times: _Seen) -> Proof | None:
    """Return the proof that a probe accepted all these levels; None without such a probe."""
    for row in view.judged.findings.to_pylist():
        code = row["code"]
        if code in tagged("accepted") and moves.items() <= agreed_levels(view.evidence):
            message = wordings(load(STRICT))[code].statement.format_map(row["facts"])
            agreed = Reason(judge=PROBE, code=code, message=message)
            return _dated(_proof_of(agreed), times)
    return None


def _missing(view: ClusterView, reasons: Reasons, moves: Moves) -> Iterator[Proof]:
    proofs = list(reasons.of_unknown(moves))
    if not view.releases and not proofs:
        proofs += [replace(r, judge=EVIDENCE) for r in reasons.of_release()]
    return map(_proof_of, proofs)


def _current(view: ClusterView, feature: str) -> int | None:
    """Return the finalized level of a feature: 0 if not finalized, None if unknown."""
    for row in view.judged.readiness.to_pylist():
        if row["feature"] == feature:
            level: int | None = row["finalized_level"]
            return level
    return 0 if view.is_trusted else None


_Seen = dict[tuple[object, ...], tuple[int, int]]


def _evidence_of(view: ClusterView) -> _Seen:
    """Return the time and line of evidence. Keys: (code, role, node, feature) of a finding, (role,
    node) of a range, (None, None) of the finalized levels."""
    nodes, levels, rows = view.evidence.subjects, view.evidence.levels, view.judged.findings
    roles = (Role(role).text for role in nodes.role.tolist())
    ranges = zip(roles, *(c.tolist() for c in (nodes.node_id, nodes.at, nodes.line)), strict=True)
    seen: _Seen = {(None, None): (int(levels.at[0]), int(levels.line[0]))}
    seen |= {(role, node_id): (at, line) for role, node_id, at, line in ranges}
    places = (rows.numbers(name) for name in ("observed_at", "line_id"))
    times = (np.where(place == NONE, 0, place).tolist() for place in places)
    for row, at, line in zip(rows.to_pylist(), *times, strict=True):
        seen[row["code"], row["role"], row["node_id"], row["feature"]] = at, line
    return seen


def _dated(proof: Proof, times: _Seen) -> Proof:
    """Return the proof with the time and line of its evidence."""
    half = proof.role, proof.node_id
    at, line = times.get((proof.code, *half, proof.feature or None)) or times.get(half, (0, 0))
    return replace(proof, seen_at=at, line_id=line)


def _own_proofs(view: ClusterView, moves: Sequence[Move], catalogue: Catalogue) -> Iterator[Proof]:
    """Yield the refusals by the controllers of each possible release, with all blocking nodes."""
    cluster, mode = view.cluster, mode_of(view)
    levels = {update.feature: update.to_level for update in moves}
    supported = {NodeOf(node.role, node.node_id): node.supported for node in cluster.nodes}
    keys: set[tuple[object, ...]] = set()
    for release in view.releases:
        dialect = dialect_of(release, mode, catalogue)
        steps = _steps(moves, dialect)
        sources = {row.code: row.rule.source for row in (*dialect.rules, *dialect.request_checks)}
        for led, speaks in _possible_leaders(cluster, release, mode):
            for half, refusal in _asked(led, steps, dialect, sorted(supported), levels, catalogue):
                key = (dialect.name, refusal.code, refusal.feature, refusal.level, half)
                if key in keys:
                    continue
                keys.add(key)
                node: dict[str, Any] = {}
                if half is not None:
                    node["node"] = f"{half.role.text} {half.node_id}"
                    node["supported"] = supported[half].get(refusal.feature)
                yield _proof_of(
                    refusal,
                    source=sources.get(refusal.code, ""),
                    is_answer=refusal.is_answer and speaks,
                    needed=_needed(refusal, dialect, cluster),
                    **node,
                )


def _possible_leaders(cluster: Cluster, release: str, mode: str) -> Iterator[tuple[Cluster, bool]]:
    """Yield the cluster led by each possible controller of `release` (one of several equal nodes),
    and true if that controller may respond now.

    The active controller leads, unless it is known to run another release and a controller of
    `release` exists; such a controller responds only after its election.
    """
    controllers = {node.node_id: node for node in cluster.nodes if node.role is Role.CONTROLLER}
    leads = controllers.get(cluster.active)
    able = (node.node_id for node in controllers.values() if node.release == release)
    is_known = leads is not None and leads.release not in ("", release)
    active = next(able, cluster.active) if is_known else cluster.active
    nodes = {node.node_id: node for node in cluster.nodes}
    steps = []
    for led in who_may_lead(replace(cluster, release=release, active=active), mode):
        node = nodes.get(led.active)
        key = None if node is None else replace(node, node_id=0)
        if key not in steps:
            steps.append(key)
            yield led, leads is None or (led.active == cluster.active and not is_known)


def _needed(refusal: Reason, dialect: Dialect, cluster: Cluster) -> Range | None:
    """Return the range that nodes must support if a rule requires more than the level; None if it
    does not."""
    rules = {row.code: row.rule for row in dialect.rules}
    if refusal.code not in rules or "lowest" not in rules[refusal.code].columns:
        return None
    ranges = (node.supported for node in cluster.nodes if node.node_id == cluster.active)
    range_known = next(ranges, {}).get(refusal.feature)
    return None if range_known is None else (range_known[0], refusal.level or 0)


def _asked(
    led: Cluster,
    steps: Sequence[Step],
    dialect: Dialect,
    nodes_of: Sequence[NodeOf],
    levels: Moves,
    catalogue: Catalogue,
) -> Iterator[tuple[NodeOf | None, Reason]]:
    """Yield (node, refusal) for each refused node, and (None, refusal) for other refusals."""

    def refusals(*groups: Sequence[NodeOf]) -> list[list[Reason]]:
        narrow = [only_narrow(led, group, levels) for group in groups]
        return _refusals_by_cluster(narrow, steps, dialect, catalogue)

    at_all, as_it_is = refusals((), nodes_of)
    keys = {(reason.code, reason.feature) for reason in at_all}
    answers = {reason.message for reason in as_it_is if reason.is_answer}
    for r in at_all:
        yield None, replace(r, is_answer=r.message in answers)
    new = [reason for reason in as_it_is if (reason.code, reason.feature) not in keys]
    of_nodes = set[tuple[str, str]]()
    if new:
        for half, reasons in zip(nodes_of, refusals(*((half,) for half in nodes_of)), strict=True):
            for r in reasons:
                if (r.code, r.feature) not in keys:
                    of_nodes.add((r.code, r.feature))
                    yield half, replace(r, is_answer=r.message in answers)
    yield from ((None, reason) for reason in new if (reason.code, reason.feature) not in of_nodes)


def _refusals_by_cluster(
    clusters: Sequence[Cluster], steps: Sequence[Step], dialect: Dialect, catalogue: Catalogue
) -> list[list[Reason]]:
    """Return the refusals of all steps, per cluster. Later steps are judged as if earlier ones were
    accepted."""
    reasons: list[list[Reason]] = [[] for _ in clusters]
    pending = list(clusters)
    for step in steps:
        cases = [(cluster, request_of(step, dialect)) for cluster in pending]
        for i, tried in enumerate(try_requests(cases, dialect, catalogue.tables, vendors=True)):
            own_word = [refusal for refusal in tried.refusals if refusal.judge != STRICT]
            reasons[i] += own_word
            moved = {u.feature: (u.to_level, u.to_level) for u in step.updates if u.to_level}
            forced = replace(pending[i], finalized=pending[i].finalized | moved)
            pending[i] = forced if own_word else tried.after
    return reasons


def _steps(updates: Sequence[Move], dialect: Dialect) -> list[Step]:
    """Return updates as requests: one for all except kraft.version if the controllers are atomic,
    otherwise one per update."""
    order = sorted(updates, key=request_order)
    together = [move for move in order if dialect.can.atomic and move.feature != KRAFT_VERSION]
    groups = [together, *([move] for move in order if move not in together)]
    return [Step(updates=tuple(group), timeout_ms=TIMEOUT_MS) for group in groups if group]


def highest_known(feature: str, cluster: Cluster, catalogue: Catalogue) -> int:
    """Return the highest level of a feature on any node or in any release."""
    if feature not in catalogue.features:
        return HIGHEST_LEVEL
    ceilings = (node.range_of(feature)[1] for node in cluster.nodes)
    return max(catalogue.newest_known(feature), cluster.level(feature), *ceilings)


def named_level(view: ClusterView, feature: str, text: str, catalogue: Catalogue) -> int:
    """Return the level of a text for a feature. Raises ConfigError for an unknown text."""
    cluster = view.cluster
    listed = {name for node in cluster.nodes for name in node.supported}
    features = sorted({*listed, *cluster.finalized, *catalogue.features})
    if feature not in features:
        raise ConfigError(
            f"{feature}={text}: no node and no release of the catalogue has a feature of that "
            f"name. {nearest(feature, [*map(clean, features)])}"
        )
    level = read_level(feature, text, cluster, catalogue)
    if level is None or not 0 <= level <= HIGHEST_LEVEL:
        if feature == METADATA_VERSION and (newer := catalogue.of(ANY).level_of(text)) is not None:
            runs = f"the controller runs {cluster.release} and does not know {text}"
            if software_of(cluster, catalogue) is None:
                runs = "which release the controller runs is not known"
            name = catalogue.level_name(feature, newer)
            raise ConfigError(
                f"{feature}={text}: The controller may not know this release: {runs}. Use {name} "
                f"or {newer}."
            )
        raise ConfigError(
            f"{feature}={text}: A level is a number up to {HIGHEST_LEVEL}. metadata.version also "
            "has names and releases, such as 3.9-IV0 or 4.1. `featurelib version-mapping` lists "
            "them."
        )
    highest = highest_known(feature, cluster, catalogue)
    if level > highest:
        raise ConfigError(
            f"{feature} has no level {level}: neither a node nor a release of the catalogue knows "
            f"it. The highest is {catalogue.level_name(feature, highest)}, {highest}."
        )
    return level
