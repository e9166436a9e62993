"""What to do with an approved plan, now that the cluster was looked at again: values in, one out.

A plan is sent only into the world it was made for: every difference is named, not the first. Only
the levels its own steps wrote may differ, and in ZooKeeper mode the version by what they wrote.
Nothing here judges; what policy and controllers say of the rest of the plan is handed in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from featurelib.audit.side_effects import differences
from featurelib.core.dialect import STRICT
from featurelib.model import Plan, RangeGroup, Requirements, SideEffect, Step

_NOT_LISTED = 0, 0
_NO_NODE = "no such node"

Ranges = dict[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One thing that is not as the plan expects it."""

    what: str  # as `level of f`, `broker 3`
    expected: str
    found: str

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Nothing is to be sent. At least one difference."""

    reasons: tuple[Mismatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyThere:
    """Every level the plan wants is there already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """The step to send next, and its position, from 0."""

    step: Step
    position: int


Decision = Refuse | AlreadyThere | Send


def decide(plan: Plan, done: int, now: Situation) -> Decision:
    """What to do with `plan` after its first `done` steps were applied."""
    if plan.cluster != now.cluster:  # then all else is another cluster's too
        other = Mismatch(what="cluster", expected=plan.cluster, found=now.cluster)
        return Refuse(reasons=(other,))
    final, levels = {move.feature: move.to_level for move in plan.moves}, now.requirements.levels
    if final and all(levels.get(f, 0) == n and f not in now.unknown for f, n in final.items()):
        return AlreadyThere()
    expected = after(plan, done)
    reasons = [
        *_other_judges(plan, done, now),
        *_levels(expected, now),
        *_version(expected, now.requirements),
        *_nodes(expected.nodes, now.requirements.nodes),
        *_side_effects(plan, done, now),
        *(Mismatch(what="evidence", expected="complete", found=text) for text in now.missing),
    ]
    if not reasons:  # else they would only say again what the differences are
        reasons = [
            Mismatch(what="judged again", expected="nothing against the plan", found=text)
            for text in now.against
        ]
    if done == len(plan.steps) and not reasons:  # a plan without a step
        return AlreadyThere()
    return Refuse(reasons=tuple(reasons)) if reasons else Send(step=plan.steps[done], position=done)


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


def _other_judges(plan: Plan, done: int, now: Situation) -> Iterator[Mismatch]:
    """What a plan is judged by has to be what it was judged by; a controller that wrote may since
    be told apart from its look-alikes."""
    if plan.dialect != STRICT:
        yield Mismatch(what="policy", expected=STRICT, found=plan.dialect)
    if plan.catalogue != now.catalogue:
        yield Mismatch(what="catalogue", expected=plan.catalogue, found=now.catalogue)
    here, then = set(now.dialects), set(plan.own_dialects)
    if not here or not here <= then or (here != then and done == 0):
        names = [", ".join(sorted(some)) or "none known" for some in (then, here)]
        yield Mismatch(what="controllers' dialects", expected=names[0], found=names[1])


def _side_effects(plan: Plan, done: int, now: Situation) -> Iterator[Mismatch]:
    """Who approved the plan has seen what it changes besides; applied steps had theirs."""
    moved = {move.feature for step in plan.steps[done:] for move in step.updates}
    rest = [effect for effect in plan.side_effects if effect.feature in moved]
    for what, (then, here) in differences(rest, now.side_effects).items():
        yield Mismatch(what=what, expected=then, found=here)


def _levels(expected: Requirements, now: Situation) -> Iterator[Mismatch]:
    there = now.requirements.levels
    for name in sorted(expected.levels.keys() | there.keys()):
        wanted, here = expected.levels.get(name, 0), there.get(name, 0)
        if name in now.unknown or wanted != here:
            found = "not known" if name in now.unknown else _level(here)
            yield Mismatch(what=f"level of {name}", expected=_level(wanted), found=found)


def _level(level: int) -> str:
    return str(level) if level else "not finalized"


def _version(expected: Requirements, found: Requirements) -> Iterator[Mismatch]:
    versions = [one.features_node_version for one in (expected, found)]
    if versions[0] != versions[1]:
        then, here = ("none (KRaft)" if one is None else str(one) for one in versions)
        yield Mismatch(what="version of the features node", expected=then, found=here)


def _nodes(expected: Sequence[RangeGroup], found: Sequence[RangeGroup]) -> Iterator[Mismatch]:
    """What differs, once for all nodes of a role of which the same differs."""
    wanted, there = _by_node(expected), _by_node(found)
    alike: dict[tuple[str, str, str], list[int]] = {}
    for role, node_id in sorted(wanted.keys() | there.keys()):
        then, now = wanted.get((role, node_id)), there.get((role, node_id))
        if then is None or now is None:
            texts = (_ranges(then), _ranges(now) if now else f"{_NO_NODE}, or no answer")
        else:  # not to list a feature is 0-0
            either = sorted(then.keys() | now.keys())
            odd = [n for n in either if then.get(n, _NOT_LISTED) != now.get(n, _NOT_LISTED)]
            texts = (_ranges(then, odd), _ranges(now, odd)) if odd else ("", "")
        if any(texts):
            alike.setdefault((role, *texts), []).append(node_id)
    for (role, before, here), ids in alike.items():
        what = f"{role} {ids[0]}" if len(ids) == 1 else f"{role}s {runs(ids)}"
        yield Mismatch(what=what, expected=before, found=here)


def runs(ids: Sequence[int]) -> str:
    """Ascending numbers as people write them: `1-3, 7`."""
    parts: list[list[int]] = []
    for number in ids:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts)


def _by_node(groups: Sequence[RangeGroup]) -> dict[tuple[str, int], Ranges]:
    by_role = [("broker", group.brokers, group.ranges) for group in groups]
    by_role += [("controller", group.controllers, group.ranges) for group in groups]
    return {(role, node): ranges for role, nodes, ranges in by_role for node in nodes}


def _ranges(ranges: Ranges | None, names: Sequence[str] | None = None) -> str:
    if ranges is None:
        return _NO_NODE
    chosen = sorted(ranges) if names is None else names
    texts = [f"{n} {ranges[n][0]}-{ranges[n][1]}" if n in ranges else f"no {n}" for n in chosen]
    return ", ".join(texts) or "a node that lists nothing of the plan"
