"""Make a plan for one cluster and one intent, or return every reason why there is none.

A plan has the fewest UpdateFeatures requests that reach its goal. An atomic controller gets all
ordinary features in one request. Any other controller gets one feature per request, because it may
write a part of a request that it refuses. kraft.version has its own request: a refused request may
have upgraded it permanently (KIP-584, Tooling; KIP-778; KIP-1022).

The policy and every possible controller judge each step. Missing evidence blocks upgrades and
downgrades. A node with an unknown range supports nothing in a plain cluster; in `known_cluster` it
supports everything, so that only known ranges refuse.

`plan_by_probe` asks the controller to validate, if the only blockers are unseen registrations,
ranges and settings. If the controller accepts every request there is a plan; otherwise it refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from featurelib.audit.checks import raised_by
from featurelib.audit.cluster_view import ClusterView
from featurelib.audit.findings import FindingWords
from featurelib.audit.side_effects import side_effects
from featurelib.audit.verdict import TIMEOUT_MS
from featurelib.backends.base import Backend, Say, accepts, may_prove, moves_text, validate
from featurelib.catalogue import Catalogue
from featurelib.core import dry_run
from featurelib.core.cluster import Cluster, Half, Node
from featurelib.core.dialect import GENERATIONS, STRICT, Dialect, load
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role, Severity, UpgradeType, Verdict
from featurelib.findings import code_of, tagged
from featurelib.landing.responses import NOT_AUTHORIZED
from featurelib.model import Guards, Move, Plan, Reason, Step
from featurelib.planning.goal import (
    Command,
    Goal,
    Intent,
    goal_of,
    losses,
    software_of,
    stay_at_ceiling,
)
from featurelib.planning.owners import NOTHING, PlanSplit, share
from featurelib.planning.reasons import PROBE, Reasons, ladder, refusing
from featurelib.planning.requirements import features_of, require
from featurelib.words import mend_first, metadata_first

Levels = Mapping[str, int]
_NOT_ASKED = "--probe: nothing was sent: "
_WHOLE = "every node that the controller checks is known; apply asks the controller first."
_DONE = "there is nothing to do."
_MORE = "more is in the way than registrations, ranges and settings that were not seen."
_WRITES = "this controller cannot validate without writing, or kraft.version would change."
_TOLD = (
    "Not every node that the controller asks was seen. The plan rests on a probe: the controller "
    "was asked to validate only, and agreed. `featurelib apply` asks it again."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The result of planning. Without a plan and without refusals no level needs a change.

    With a plan the refusals are moves that upgrade-all omitted. `shares` splits the moves by owner;
    the plan has those of ours that can be sent now. `probed`: the moves that a probe accepted, if
    the plan depends on the probe.
    """

    intent: Intent
    goal: Goal
    plan: Plan | None = None
    shares: PlanSplit = NOTHING
    refusals: tuple[Reason, ...] = ()
    warnings: tuple[str, ...] = ()
    probed: str = ""

    @property
    def is_refused(self) -> bool:
        """True if the whole plan is refused."""
        return self.plan is None and bool(self.refusals) and not self.shares.theirs


def make_plan(
    view: ClusterView,
    intent: Intent,
    catalogue: Catalogue,
    *,
    guards: Guards | None = None,
    timeout_ms: int = TIMEOUT_MS,
) -> Planned:
    """Return the plan for `intent`, or the reasons against it (KIP-584, Tooling; KIP-778;
    KIP-1022).

    The plan has all moves or none, except for upgrade-all, which plans READY levels. Accepted moves
    are split by owner, by `guards`, which the plan repeats. Pure: sends and writes nothing.
    """
    reasons = Reasons(view, catalogue)
    left_out: tuple[Reason, ...] = ()
    if intent.command is Command.UPGRADE_ALL:
        goal, left_out = _ready(view, reasons, catalogue)
    else:
        goal = goal_of(intent, view.cluster, catalogue)
    warnings = tuple(_warnings(view, intent, goal, catalogue))
    made = Planned(intent=intent, goal=goal, refusals=left_out, warnings=warnings)
    if goal.faults:
        return replace(made, refusals=goal.faults)
    probed = tuple(reasons.of_probe(goal.levels))
    unsure = reasons.levels_unknown()
    levels = {stay.feature: stay.current for stay in goal.stays if stay.feature in unsure}
    missing = tuple(reasons.of_unknown(goal.levels | levels) if goal.moves or levels else ())
    if missing or probed:
        refusals = _refusals_of(view, goal, unsure, catalogue) if missing else ()
        return replace(made, refusals=(*refusals, *probed, *missing))
    if not goal.moves:
        return made
    steps, refused = _route(view, goal, catalogue, stepwise=intent.stepwise, timeout_ms=timeout_ms)
    if refused:
        # Without a known release no controller is judged; the policy's refusals are shown anyway.
        refusals = () if view.releases else _refusals_of(view, goal, unsure, catalogue)
        return replace(made, refusals=(*refusals, *reasons.of_refusals(refused)))
    shares = share(steps, guards, view.cluster.levels, catalogue)
    made = replace(made, shares=shares)
    if not shares.ours:
        return made
    steps = shares.ours
    plan = Plan(
        cluster=view.cluster_id,
        intent=intent.text,
        dialect=STRICT,
        own_dialects=view.dialects,
        catalogue=catalogue.label,
        steps=steps,
        requirements=require(view.evidence, 0, features_of(steps), catalogue),
        guards=guards,
        side_effects=side_effects(catalogue, steps, view.evidence),
    )
    more_warnings = _warnings_of_steps(view, mode_of(view), steps, catalogue)
    declared = (refusal.statement for refusal in reasons.of_codes(tagged("declared")))
    return replace(made, plan=plan, warnings=(*warnings, *more_warnings, *declared))


def plan_by_probe(
    backend: Backend,
    view: ClusterView,
    intent: Intent,
    catalogue: Catalogue,
    *,
    as_if_seen: Callable[[], ClusterView],
    say: Say,
    guards: Guards | None = None,
) -> Planned:
    """Return the plan of a cluster that was just read; if only unseen nodes block it, a probe of
    the controller decides. `as_if_seen` judges the data as if every node had responded; `say` gets
    the request, or the reason why no request is sent.

    Raises UnreachableError if the controller does not respond; never writes.
    """
    first = make_plan(view, intent, catalogue, guards=guards)
    if not any(reason.code in tagged("unproven") for reason in first.refusals):
        say(f"{_NOT_ASKED}{_WHOLE if first.plan or first.refusals else _DONE}")
        return first
    planned = as_if_seen()
    proven = make_plan(planned, intent, catalogue, guards=guards)
    probe = make_plan(planned, intent, catalogue).plan  # a plan that includes the owner's moves
    if probe is None and not proven.refusals:
        return proven  # without moves, missing registrations do not matter
    if probe is None:
        say(f"{_NOT_ASKED}{_MORE}")
        return first
    steps = probe.steps
    if not all(may_prove(backend, view.dialects, step) for step in steps):
        say(f"{_NOT_ASKED}{_WRITES}")
        return first
    for step in steps:
        reply = validate(backend, step, say)
        if reply.code == NOT_AUTHORIZED:
            text = f"The controller was not heard: {reply.message}"
            lacks = Reason(judge=PROBE, code=code_of("withheld"), message=text)
            return replace(proven, plan=None, refusals=(*first.refusals, lacks))
        if not accepts(reply, step):
            against = tuple(Reasons(view, catalogue).of_reply(step, reply))
            return replace(proven, plan=None, refusals=against)
    moves = ", then ".join(map(moves_text, steps))
    return replace(proven, probed=moves, warnings=(*proven.warnings, _TOLD))


def _ready(
    view: ClusterView, reasons: Reasons, catalogue: Catalogue
) -> tuple[Goal, tuple[Reason, ...]]:
    """Return (goal with all READY features, reasons why it omits the other features)."""
    moves, left_out, unchanged = list[Move](), list[Reason](), []
    for row in view.judged.readiness.to_pylist():
        name, verdict, target = row["feature"], row["verdict"], row["target"]
        if verdict == Verdict.READY:
            current, kind = view.cluster.level(name), UpgradeType.UPGRADE.name
            moves.append(Move(feature=name, from_level=current, to_level=target, upgrade_type=kind))
        if verdict == Verdict.UP_TO_DATE:
            unchanged.append(stay_at_ceiling(view.cluster, catalogue, name, row["ceiling"]))
        elif target != row["ceiling"]:
            left_out += reasons.of_findings(name, unknown=verdict == Verdict.UNKNOWN)
    if not len(view.judged.readiness):  # no feature of the cluster is listed or finalized
        left_out += reasons.of_missing_evidence([])
    unchanged.sort(key=lambda stay: stay.feature)
    return Goal(moves=tuple(moves), stays=tuple(unchanged)), tuple(dict.fromkeys(left_out))


def _refusals_of(
    view: ClusterView, goal: Goal, unsure: Collection[str], catalogue: Catalogue
) -> tuple[Reason, ...]:
    """Return the refusals of a goal by known nodes, used if other data is missing. Refusals that
    depend on `unsure` features are omitted."""
    if not goal.moves:
        return ()
    sure = replace(view, cluster=known_cluster(view, goal.levels))
    if view.releases:
        refusals = _route(sure, goal, catalogue)[1]
    else:  # the policy needs no dialects
        request = dry_run.request_of(
            Step(updates=goal.moves, timeout_ms=TIMEOUT_MS), load(GENERATIONS[-1])
        )
        refusals = dry_run.refusals_by([(sure.cluster, request)], load(STRICT), catalogue.tables)[0]
    resting_features = tagged("dependency") if unsure else frozenset[str]()
    reasons = [r for r in refusals if r.feature not in unsure and r.code not in resting_features]
    return tuple(Reasons(sure, catalogue).of_refusals(reasons))


def mode_of(view: ClusterView) -> str:
    """Return the mode of the controllers: kraft, zk, or "" if unknown."""
    return view.dialects[0].partition("-")[0] if view.dialects else ""


def _route(
    view: ClusterView,
    goal: Goal,
    catalogue: Catalogue,
    *,
    stepwise: bool = False,
    timeout_ms: int = TIMEOUT_MS,
) -> tuple[tuple[Step, ...], Sequence[Reason]]:
    """Return the steps of a goal if every possible controller accepts them, otherwise the refusals.

    If a possible controller is not atomic, each request has one feature, for all controllers.
    """
    if not view.releases:
        return (), [*Reasons(view, catalogue).of_release()]
    mode = mode_of(view)
    cluster = dry_run.who_may_lead(view.cluster, mode)[0]
    dialects = [dry_run.dialect_of(release, mode, catalogue) for release in view.releases]
    router = Router(
        cluster=replace(cluster, release=view.releases[0]),
        dialect=next((dialect for dialect in dialects if not dialect.can.atomic), dialects[0]),
        catalogue=catalogue,
        timeout_ms=timeout_ms,
        stepwise=stepwise,
        vendors=True,  # the audit accepts vendors' features, too
    )
    route = router.route(goal.moves)
    if not route.refusals:
        refusals = dry_run.judge_again(view.cluster, view.releases, mode, route.steps, catalogue)
        return route.steps, refusals
    is_refused = dict.fromkeys(route.refusals)
    for release, dialect in zip(view.releases, dialects, strict=True):
        led_cluster = replace(cluster, release=release)
        led_route = replace(router, cluster=led_cluster, dialect=dialect).route(goal.moves)
        # The policy's reasons are complete without these refusals.
        is_refused |= dict.fromkeys(r for r in led_route.refusals if r.judge != STRICT)
    return (), list(is_refused)


def _warnings(view: ClusterView, intent: Intent, goal: Goal, catalogue: Catalogue) -> Iterator[str]:
    """Yield the warnings of a plan: permanent losses, unexpected level names, nodes without support
    for present levels."""
    for move in goal.moves:
        level = catalogue.level_name(move.feature, move.to_level)
        if move.is_upgrade and move.to_level in catalogue.irreversible(move.feature):
            yield f"{move.feature} {level} is irreversible: it can never be taken back."
        for loss in losses(catalogue, view.cluster.release, move):
            yield (
                f"{move.feature} {level} may lose what {loss.name} brought: "
                f"{loss.purpose.removesuffix('.')}."
            )
    several = [release for release in view.releases if catalogue.release_named(release)]
    if intent.command in (Command.UPGRADE, Command.DOWNGRADE) and len(several) > 1:
        levels = [
            goal_of(intent, replace(view.cluster, release=release), catalogue).levels
            for release in several
        ]
        differing = [r for r, mapped in zip(several, levels, strict=True) if mapped != levels[0]]
        if differing:
            yield (
                f"The controllers may run {', '.join(several)}. Levels are as {several[0]} maps "
                f"them; {', '.join(differing)} would map them otherwise. Name the release in "
                "conf/fleet.toml."
            )
    words, rows = FindingWords(catalogue), view.judged.findings.to_pylist()
    critical = [words.of(row).statement for row in rows if row["severity"] == Severity.CRITICAL]
    yield from filter(None, [mend_first(critical)])


def _warnings_of_steps(
    view: ClusterView, mode: str, steps: Sequence[Step], catalogue: Catalogue
) -> tuple[str, ...]:
    """Return the checks that an operator must make, because a controller of 2.7 to 3.2 would raise
    a finalized minimum (KIP-584, Feature version deprecation)."""
    texts = {
        f"{x.feature}: its finalized minimum would become {x.last_lost + 1}. {x.text}": None
        for release in view.releases
        for dialect in [dry_run.dialect_of(release, mode, catalogue)]
        for led in dry_run.who_may_lead(replace(view.cluster, release=release), mode)
        for x in raised_by(
            led, [dry_run.request_of(step, dialect) for step in steps], dialect, catalogue.tables
        )
    }
    return tuple(texts)


def known_cluster(view: ClusterView, levels: Levels) -> Cluster:
    """Return the cluster as if every node with an unknown range supported `levels`.

    A node with an unknown release gets the active controller's release, because a raft layer checks
    its voters' releases. A deleted `/feature` znode counts as present, and has a finding.
    """
    evidence = view.evidence
    nodes, questions = evidence.subjects, evidence.questions
    hidden: dict[int, set[str]] = {}  # profile → features that the response may omit
    for pair in np.flatnonzero(questions.pair_unclear).tolist():
        name = questions.names[int(questions.feature[questions.pair_question[pair]])]
        hidden.setdefault(int(questions.pair_profile[pair]), set()).add(name)
    columns = (nodes.role, nodes.node_id, evidence.answering.of_subject)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    # A negative profile is unknown.
    profiles = {(Role(role), node): profile for role, node, profile in rows}

    def known(node: Node) -> Node:
        profile = profiles.get(node.half)
        if profile is None or (profile >= 0 and profile not in hidden):
            return node
        known = {n: level for n, level in levels.items() if profile < 0 or n in hidden[profile]}
        return replace(node.widened(known), release=node.release or view.cluster.release)

    return replace(view.cluster, nodes=tuple(map(known, view.cluster.nodes)), node_missing=False)


def lowest_supported(view: ClusterView, least: int, catalogue: Catalogue) -> int:
    """Return the lowest metadata.version, from `least` on, that no known node refuses."""
    levels = ladder(view.cluster, METADATA_VERSION, catalogue)
    for level in (least, *(candidate for candidate in levels if candidate > least)):
        nodes = known_cluster(view, {METADATA_VERSION: level}).nodes
        if not refusing(nodes, METADATA_VERSION, level):
            return level
    return least


def only_narrow(cluster: Cluster, narrow: Collection[Half], levels: Levels) -> Cluster:
    """Return the cluster as if every node except those in `narrow` supported `levels` and the
    active controller's ranges of these features.

    Controllers of ZooKeeper mode before 3.3 require a range that begins at their own minimum.
    """
    active = [node.supported for node in cluster.nodes if node.node_id == cluster.active]
    kept_moves = {
        name: (level, *(end for ranges in active for end in ranges.get(name, ())))
        for name, level in levels.items()
    }
    lowest = {name: min(ends) for name, ends in kept_moves.items()}
    highest = {name: max(ends) for name, ends in kept_moves.items()}
    nodes = (
        node if node.half in narrow else node.widened(lowest).widened(highest)
        for node in cluster.nodes
    )
    return replace(cluster, nodes=tuple(nodes))


# --- The requests of a plan -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The requests that reach a goal, and the cluster after them. `refusals`: the reasons if the
    goal cannot be reached."""

    steps: tuple[Step, ...] = ()
    refusals: tuple[Reason, ...] = ()
    after: Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    """The search for a goal's requests. `stepwise`: upgrade metadata.version level by level."""

    cluster: Cluster
    dialect: Dialect
    catalogue: Catalogue
    timeout_ms: int = TIMEOUT_MS
    stepwise: bool = False
    vendors: bool = False

    def route(self, moves: Sequence[Move]) -> Route:
        """Return the requests for `moves`, or the refusals."""
        if not moves:
            return Route(after=self.cluster)
        [route] = self._try(self.cluster, [moves])
        if route.refusals:
            return Route(refusals=route.refusals, after=self.cluster)
        hops = {move.feature: self._split_into_known_levels(move) for move in moves}
        return self._atomic(hops) if self.dialect.can.atomic else self._single_moves(hops)

    def _try(self, cluster: Cluster, groups: Sequence[Sequence[Move]]) -> list[dry_run.Tried]:
        """Judge each group of level changes as one request."""
        by_name = [sorted(moves, key=lambda move: move.feature) for moves in groups]
        requests = [dry_run.request_of(self._step(moves), self.dialect) for moves in by_name]
        cases = [(cluster, request) for request in requests]
        return dry_run.try_requests(
            cases, self.dialect, self.catalogue.tables, vendors=self.vendors
        )

    def _step(self, moves: Sequence[Move]) -> Step:
        return Step(updates=tuple(moves), timeout_ms=self.timeout_ms)

    def _split_into_known_levels(self, move: Move) -> list[Move]:
        """Return the level change; if stepwise, one change per known metadata.version (KIP-778)."""
        software = software_of(self.cluster, self.catalogue)
        if not self.stepwise or move.feature != METADATA_VERSION or software is None:
            return [move]
        low, high = sorted((move.from_level, move.to_level))
        between = [level for level in software.known_levels(METADATA_VERSION) if low < level < high]
        if not move.is_upgrade:
            between.reverse()
        hops = [move.from_level, *between, move.to_level]
        return [replace(move, from_level=start, to_level=end) for start, end in pairwise(hops)]

    def _passing_groups(self, groups: Sequence[Sequence[Move]]) -> Route:
        """Return a request per group of level changes, or the refusals of the first refused one."""
        cluster, steps = self.cluster, list[Step]()
        for group in groups:
            [tried] = self._try(cluster, [group])
            if tried.refusals:
                return Route(refusals=tried.refusals, after=self.cluster)
            cluster = tried.after
            steps.append(self._step(sorted(group, key=lambda move: metadata_first(move.feature))))
        return Route(steps=tuple(steps), after=cluster)

    def _atomic(self, hops: dict[str, list[Move]]) -> Route:
        """Return one request for all features except kraft.version, which has its own request
        before or after, by its dependencies."""
        kraft = hops.get(KRAFT_VERSION, [])
        ordinary = {name: moves for name, moves in hops.items() if name != KRAFT_VERSION}
        groups = _groups(ordinary)
        orders = [[*groups, kraft], [kraft, *groups]]
        if kraft and groups:
            before = self._passing([moves[-1] for moves in ordinary.values()])
            first = {name: moves for name, moves in ordinary.items() if name in before}
            after = {name: moves for name, moves in ordinary.items() if name not in before}
            orders.append([*_groups(first), kraft, *_groups(after)])
        refused = list[Route]()
        for move in orders:
            route = self._passing_groups([group for group in move if group])
            if not route.refusals:
                return route
            refused.append(route)
        return refused[0]

    def _passing(self, moves: list[Move]) -> set[str]:
        """Return the features that are accepted in one request, after dropping refused features."""
        while moves:
            [tried] = self._try(self.cluster, [moves])
            refused = {refusal.feature for refusal in tried.refusals}
            if not refused:
                break
            passing = [move for move in moves if move.feature not in refused]
            moves = passing if len(passing) < len(moves) else []
        return {move.feature for move in moves}

    def _single_moves(self, hops: dict[str, list[Move]]) -> Route:
        """Return one request per feature. Dependencies are raised before, and lowered after, the
        features that depend on them."""
        cluster, steps = self.cluster, list[Step]()
        waiting = sorted(hops.values(), key=lambda route: request_order(route[0]))
        while waiting:
            answers = self._try(cluster, [route[:1] for route in waiting])
            passes = next((i for i, tried in enumerate(answers) if not tried.refusals), None)
            if passes is None:
                refusals = dict.fromkeys(refusal for tried in answers for refusal in tried.refusals)
                return Route(refusals=tuple(refusals), after=self.cluster)
            cluster = answers[passes].after
            steps.append(self._step(waiting[passes][:1]))
            waiting[passes : passes + 1] = [moves] if (moves := waiting[passes][1:]) else []
        return Route(steps=tuple(steps), after=cluster)


def _groups(hops: dict[str, list[Move]]) -> list[list[Move]]:
    """Return the level changes grouped by request. Usually there is one group; if stepwise,
    metadata.version has its own."""
    version_moves = hops.get(METADATA_VERSION, [])
    if len(version_moves) < 2:
        return [[hop for route in hops.values() for hop in route]] if hops else []
    later = [move for name, route in hops.items() if name != METADATA_VERSION for move in route]
    is_alone = [[move] for move in version_moves]
    groups = [*is_alone, later] if version_moves[0].is_upgrade else [later, *is_alone]
    return [group for group in groups if group]


def request_order(move: Move) -> tuple[bool, int, str]:
    """Return the sort key of single requests. metadata.version is upgraded first and downgraded
    last; kraft.version is last."""
    rank = 1 if move.feature != METADATA_VERSION else 0 if move.is_upgrade else 2
    return move.feature == KRAFT_VERSION, rank, move.feature
