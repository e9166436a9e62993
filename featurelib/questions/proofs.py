"""Every proof against a request: by the policy, and by each controller that may answer.

A controller names the first node only. Who else would make it refuse is found by asking again with
everybody else supporting what is asked, one node at a time: the rules alone answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from featurelib.catalogue import Catalogue
from featurelib.core.again import dialect_of, request_of, who_may_lead
from featurelib.core.cluster import Cluster, Node, Range
from featurelib.core.dialect import STRICT, Dialect, load
from featurelib.core.findings import wordings
from featurelib.core.tried import Refusal, try_requests
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role
from featurelib.model import Move, Step
from featurelib.planning.known import Half, Levels, only_narrow
from featurelib.planning.reasons import Reason, Reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One reason against one level of one feature. `judge` is strict (the policy), goal (what was
    asked is wrong by itself) or a dialect; the message is the policy's, or the controller's own.

    `node` is as `broker 2`, empty for the whole cluster; its range `supported` is None where it
    does not list the feature; `needed` is the range it must support, None where the level is all
    that is asked, or nobody knows from where on. `line` is where it stands, `seen_at` microseconds,
    0 = not seen.
    """

    judge: str
    rule: str
    source: str
    feature: str
    level: int
    message: str
    node: str = ""
    role: str | None = None
    node_id: int | None = None
    supported: Range | None = None
    needed: Range | None = None
    is_answer: bool = False  # the controller would say just this; else this too is in the way
    seen_at: int = 0
    line_id: int = 0
    remedy: str = ""
    command: str = ""


def policy_proofs(refusals: Sequence[Refusal], reasons: Reasons) -> Iterator[Proof]:
    """What the policy refuses, one proof for each node that offends."""
    sources = wordings(load(STRICT))
    for reason in reasons.of_refusals([one for one in refusals if one.judge == STRICT]):
        known = sources.get(reason.code)
        yield proof_of(reason, known.source if known else "")


def proof_of(reason: Reason, source: str) -> Proof:
    """A reason as a proof; when it was seen is not known here."""
    role, _, number = reason.node.partition(" ")
    return Proof(
        judge=reason.judge,
        rule=reason.code,
        source=source,
        feature=reason.feature,
        level=reason.level or 0,
        message=reason.message,
        node=reason.node,
        role=role or None,
        node_id=int(number) if number else None,
        supported=reason.supported,
        remedy=reason.remedy,
        command=reason.command,
    )


def own_proofs(
    cluster: Cluster,
    releases: Sequence[str],
    mode: str,
    updates: Sequence[Move],
    catalogue: Catalogue,
) -> Iterator[Proof]:
    """What controllers of each of `releases` would answer, with every node they would refuse
    over."""
    levels = {update.feature: update.to_level for update in updates}
    nodes = {(n.role, n.node_id): n for n in cluster.nodes}
    halves = sorted(nodes)
    told: set[tuple[object, ...]] = set()
    for release in releases:
        own = dialect_of(release, mode, catalogue)
        steps = _steps(updates, own)
        for led in _leaders(_led_by(cluster, release), mode):
            speaks = _may_answer(cluster, led)
            for half, refusal in _asked(led, steps, own, halves, levels, catalogue):
                key = (own.name, refusal.code, refusal.feature, refusal.level, half)
                if key not in told:
                    told.add(key)
                    made = _own(refusal, own, half, None if half is None else nodes[half].supported)
                    is_answer = made.is_answer and speaks
                    yield replace(made, is_answer=is_answer, needed=_needed(refusal, own, cluster))


def _own(
    refusal: Refusal, own: Dialect, half: Half | None, supported: dict[str, Range] | None
) -> Proof:
    sources = {row.code: row.rule.source for row in (*own.rules, *own.door)}
    role, node_id = (None, None) if half is None else (half[0].text, half[1])
    return Proof(
        judge=own.name,
        rule=refusal.code,
        source=sources.get(refusal.code, ""),
        feature=refusal.feature,
        level=refusal.level,
        message=refusal.message,
        node="" if half is None else f"{role} {node_id}",
        role=role,
        node_id=node_id,
        supported=None if supported is None else supported.get(refusal.feature),
        is_answer=refusal.is_answer,
    )


def _led_by(cluster: Cluster, release: str) -> Cluster:
    """The cluster as a controller of `release` leads it: the active one, unless that is known to
    run another and a controller is there that runs this one."""
    leads = next((node for node in cluster.nodes if _is_active(node, cluster)), None)
    able = [n.node_id for n in cluster.nodes if n.role is Role.CONTROLLER and n.release == release]
    known = leads is not None and leads.release not in ("", release)
    active = able[0] if known and able else cluster.active
    return replace(cluster, release=release, active=active)


def _may_answer(cluster: Cluster, led: Cluster) -> bool:
    """Whether the controller as which `led` is led may be the one that answers now: one that is
    known to be another, or to run another release, answers only once it leads."""
    leads = next((node for node in cluster.nodes if _is_active(node, cluster)), None)
    if leads is None:
        return True
    return led.active == cluster.active and leads.release in ("", led.release)


def _is_active(node: Node, cluster: Cluster) -> bool:
    return node.role is Role.CONTROLLER and node.node_id == cluster.active


def _needed(refusal: Refusal, own: Dialect, cluster: Cluster) -> Range | None:
    """What the nodes must support by a rule that asks for more than the level: from the lowest
    level of the active controller on, where it is known who that is."""
    rules = {row.code: row.rule for row in own.rules}
    if refusal.code not in rules or "lowest" not in rules[refusal.code].columns:
        return None
    leads = [node.supported for node in cluster.nodes if node.node_id == cluster.active]
    own_range = leads[0].get(refusal.feature) if leads and leads[0] is not None else None
    return None if own_range is None else (own_range[0], refusal.level)


def _asked(
    led: Cluster,
    steps: Sequence[Step],
    own: Dialect,
    halves: Sequence[Half],
    levels: Levels,
    catalogue: Catalogue,
) -> Iterator[tuple[Half | None, Refusal]]:
    """Who makes the controller refuse, None for what is no node's range, and in which words."""
    every = tuple(halves)
    at_all, as_it_is = _in_turn(
        [only_narrow(led, group, levels) for group in ((), every)], steps, own, catalogue
    )
    whole = {(one.code, one.feature) for one in at_all}
    answers = {one.message for one in as_it_is if one.is_answer}
    at_all = [replace(one, is_answer=one.message in answers) for one in at_all]
    yield from ((None, one) for one in at_all)
    told = set(whole)
    if {(one.code, one.feature) for one in as_it_is} - whole:
        alone = [only_narrow(led, (half,), levels) for half in halves]
        for half, said in zip(halves, _in_turn(alone, steps, own, catalogue), strict=True):
            for one in said:
                if (one.code, one.feature) not in whole:
                    told.add((one.code, one.feature))
                    yield half, replace(one, is_answer=one.message in answers)
    yield from ((None, one) for one in as_it_is if (one.code, one.feature) not in told)


def _in_turn(
    clusters: Sequence[Cluster], steps: Sequence[Step], own: Dialect, catalogue: Catalogue
) -> list[list[Refusal]]:
    """Each cluster's refusals of all steps; after a refused one, as if it had been accepted."""
    said: list[list[Refusal]] = [[] for _ in clusters]
    there = list(clusters)
    for step in steps:
        cases = [(cluster, request_of(step, own)) for cluster in there]
        for i, tried in enumerate(try_requests(cases, own, catalogue.tables, vendors=True)):
            own_word = [one for one in tried.refusals if one.judge != STRICT]
            said[i] += own_word
            moved = {u.feature: (u.to_level, u.to_level) for u in step.updates if u.to_level}
            forced = replace(there[i], finalized=there[i].finalized | moved)
            there[i] = forced if own_word else tried.after
    return said


def _steps(updates: Sequence[Move], own: Dialect) -> list[Step]:
    """The requests: one for all but kraft.version where they are all or nothing, else one each;
    what others need goes up before them, and down after them."""
    order = sorted(updates, key=_turn)
    kraft = [update for update in order if update.feature == KRAFT_VERSION]
    rest = [update for update in order if update.feature != KRAFT_VERSION]
    groups = [rest] if own.can.atomic else [[update] for update in rest]
    groups += [[update] for update in kraft]
    return [Step(updates=tuple(group), timeout_ms=60_000) for group in groups if group]


def _turn(update: Move) -> tuple[int, str]:
    up = update.to_level > update.from_level
    place = 1 if update.feature != METADATA_VERSION else 0 if up else 2
    return place, update.feature


def _leaders(cluster: Cluster, mode: str) -> Iterator[Cluster]:
    """The cluster led by each node that may lead; of nodes that are alike one."""
    nodes = {node.node_id: node for node in cluster.nodes}
    seen = []
    for led in who_may_lead(cluster, mode):
        node = nodes.get(led.active)
        alike = None if node is None else replace(node, node_id=0)
        if alike not in seen:
            seen.append(alike)
            yield led
