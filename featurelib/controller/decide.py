"""What to do with an approved plan, now that the cluster was looked at again: values in, one out.

A plan is sent only into the world it was made for: every difference is named, not the first. Only
the levels its own steps wrote may differ, and in ZooKeeper mode the version by what they wrote.
Nothing here judges; what policy and controllers say of the rest of the plan is handed in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from featurelib.audit.side_effects import differences
from featurelib.core.dialect import STRICT
from featurelib.model import Plan, RangeGroup, Requirements, SideEffect, Step
from featurelib.words import nodes

_NOT_LISTED, NOT_FINALIZED = (0, 0), "not finalized"
_NO_NODE = "no such node"
_NOT_SEEN = f"{_NO_NODE}, or no answer"

Ranges = dict[str, tuple[int, int]]


class Mismatch(NamedTuple):
    """One thing that is not as the plan expects it."""

    what: str  # as `level of f`, `broker 3`
    expected: str
    found: str
    is_unseen: bool = False  # nothing else was found, but nothing was seen either

    @property
    def text(self) -> str:
        return f"{self.what}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """One look at the cluster, as far as a plan depends on it.

    `unknown` are the features whose level no trustworthy witness says, `missing` what else is not
    known, `against` what policy and controllers say against the rest of the plan: sentences.
    `side_effects` are those the rest of the plan would have now.
    """

    cluster: str
    requirements: Requirements
    dialects: tuple[str, ...]
    catalogue: str
    unknown: frozenset[str] = frozenset()
    missing: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    side_effects: tuple[SideEffect, ...] = ()


# The step to send next; why nothing is to be sent, at least one reason; or None: every level that
# the plan wants is there already.
Decision = Step | tuple[Mismatch, ...] | None


def decide(plan: Plan, done: int, now: Situation) -> Decision:
    """What to do with `plan` after its first `done` steps were applied."""
    if plan.cluster != now.cluster:  # then all else is another cluster's too
        return (Mismatch("cluster", plan.cluster, now.cluster),)
    final, levels = {move.feature: move.to_level for move in plan.moves}, now.requirements.levels
    if final and all(levels.get(f, 0) == n and f not in now.unknown for f, n in final.items()):
        return None
    odd = [*_judges(plan, done, now), *_world(after(plan, done), now), *_besides(plan, done, now)]
    if not odd:  # else they would only say again what the differences are
        odd = [Mismatch("judged again", "nothing against the plan", text) for text in now.against]
    if odd:
        return tuple(odd)
    return plan.steps[done] if done < len(plan.steps) else None  # a plan without a step


def after(plan: Plan, done: int) -> Requirements:
    """The plan's requirements once its first `done` steps were applied. Each is one write, and so
    moves the features node's version by one (KafkaController.updateFeatures)."""
    before = plan.requirements
    written = {move.feature: move.to_level for step in plan.steps[:done] for move in step.updates}
    version = before.features_node_version
    return replace(
        before,
        levels=before.levels | written,
        features_node_version=None if version is None else version + done,
    )


def _judges(plan: Plan, done: int, now: Situation) -> Iterator[Mismatch]:
    """What a plan is judged by has to be what it was judged by; a controller that wrote may since
    be told apart from its look-alikes."""
    if plan.dialect != STRICT:
        yield Mismatch("policy", STRICT, plan.dialect)
    if plan.catalogue != now.catalogue:
        yield Mismatch("catalogue", plan.catalogue, now.catalogue)
    here, then = set(now.dialects), set(plan.own_dialects)
    if not here or not here <= then or (here != then and done == 0):
        expected, found = (", ".join(sorted(some)) or "none known" for some in (then, here))
        yield Mismatch("controllers' dialects", expected, found, is_unseen=not here)


def _world(expected: Requirements, now: Situation) -> Iterator[Mismatch]:
    """Levels, the features node's version, and who is there with which ranges."""
    there = now.requirements.levels
    for name in sorted(expected.levels.keys() | there.keys()):
        wanted, here = (
            str(levels.get(name) or NOT_FINALIZED) for levels in (expected.levels, there)
        )
        if name in now.unknown or wanted != here:
            found = "not known" if name in now.unknown else here
            yield Mismatch(f"level of {name}", wanted, found, name in now.unknown)
    versions = [one.features_node_version for one in (expected, now.requirements)]
    if versions[0] != versions[1]:
        then, here = ("none (KRaft)" if one is None else str(one) for one in versions)
        if is_unseen := versions[1] is None and not now.dialects:
            here = "not seen (ZooKeeper tells it: --zookeeper HOST:PORT/CHROOT)"
        yield Mismatch("version of the features node", then, here, is_unseen)
    yield from _nodes(expected.nodes, now.requirements.nodes)


def _besides(plan: Plan, done: int, now: Situation) -> Iterator[Mismatch]:
    """Who approved the plan has seen what it changes besides; applied steps had theirs. And
    evidence has to be complete."""
    moved = {move.feature for step in plan.steps[done:] for move in step.updates}
    rest = [effect for effect in plan.side_effects if effect.feature in moved]
    for what, (then, here) in differences(rest, now.side_effects).items():
        yield Mismatch(what, then, here)
    for text in now.missing:
        yield Mismatch("evidence", "complete", text, is_unseen=True)


def _nodes(expected: Sequence[RangeGroup], found: Sequence[RangeGroup]) -> Iterator[Mismatch]:
    """What differs, once for all nodes of a role of which the same differs."""
    wanted, there = _by_node(expected), _by_node(found)
    alike: dict[tuple[str, str, str], list[int]] = {}
    for role, node_id in sorted(wanted.keys() | there.keys()):
        then, now = wanted.get((role, node_id)), there.get((role, node_id))
        if then is None or now is None:
            texts = (_ranges(then), _ranges(now) if now else _NOT_SEEN)
        else:  # not to list a feature is 0-0
            either = sorted(then.keys() | now.keys())
            odd = [n for n in either if then.get(n, _NOT_LISTED) != now.get(n, _NOT_LISTED)]
            texts = (_ranges(then, odd), _ranges(now, odd)) if odd else ("", "")
        if any(texts):
            alike.setdefault((role, *texts), []).append(node_id)
    for (role, before, here), ids in alike.items():
        yield Mismatch(nodes(role, ids, most=None), before, here, here == _NOT_SEEN)


def _by_node(groups: Sequence[RangeGroup]) -> dict[tuple[str, int], Ranges]:
    return {
        (role, node): group.ranges
        for group in groups
        for role, ids in (("broker", group.brokers), ("controller", group.controllers))
        for node in ids
    }


def _ranges(ranges: Ranges | None, names: Sequence[str] | None = None) -> str:
    if ranges is None:
        return _NO_NODE
    chosen = sorted(ranges) if names is None else names
    texts = [f"{n} {ranges[n][0]}-{ranges[n][1]}" if n in ranges else f"no {n}" for n in chosen]
    return ", ".join(texts) or "a node that lists nothing of the plan"
