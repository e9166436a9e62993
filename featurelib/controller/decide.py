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
from featurelib.model import NodeGroup, Plan, Requirements, SideEffect, Step

_NOT_KNOWN = "not known"
_NOT_LISTED = 0, 0

Ranges = dict[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One thing that is not as the plan expects it."""

    what: str  # as `level of f`, `broker 3`
    expected: str
    found: str

    @property
    def text(self) -> str:
        return f"{self.what}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
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
    """Nothing is to be sent. At least one reason."""

    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToDo:
    """Every level the plan wants is there already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """The step to send next, and its position, from 0."""

    step: Step
    position: int


Decision = Refuse | NothingToDo | Send


def decide(plan: Plan, done: int, found: Found) -> Decision:
    """What to do with `plan` after its first `done` steps were applied."""
    if plan.cluster != found.cluster:  # then all else is another cluster's too
        other = Reason(what="cluster", expected=plan.cluster, found=found.cluster)
        return Refuse(reasons=(other,))
    if _is_reached(plan, found):
        return NothingToDo()
    expected = after(plan, done)
    reasons = [
        *_other_judges(plan, done, found),
        *_levels(expected, found),
        *_version(expected, found.requirements),
        *_nodes(expected.nodes, found.requirements.nodes),
        *_side_effects(plan, done, found),
        *(Reason(what="evidence", expected="complete", found=text) for text in found.missing),
    ]
    if not reasons:  # else they would only say again what the differences are
        reasons = [
            Reason(what="judged again", expected="nothing against the plan", found=text)
            for text in found.against
        ]
    if done == len(plan.steps) and not reasons:  # a plan without a step
        return NothingToDo()
    return Refuse(reasons=tuple(reasons)) if reasons else Send(step=plan.steps[done], position=done)


def after(plan: Plan, done: int) -> Requirements:
    """The plan's requirements once its first `done` steps were applied. Each is one write, and so
    moves the features node's version by one (KafkaController.updateFeatures)."""
    before = plan.requirements
    levels, version = dict(before.levels), before.features_node_version
    for step in plan.steps[:done]:
        levels |= {update.feature: update.to_level for update in step.updates}
    return replace(
        before, levels=levels, features_node_version=None if version is None else version + done
    )


def _is_reached(plan: Plan, found: Found) -> bool:
    """Whether each feature the plan moves is known to be where the plan leaves it."""
    final = {u.feature: u.to_level for step in plan.steps for u in step.updates}
    levels = found.requirements.levels
    return bool(final) and all(
        levels.get(name, 0) == level and name not in found.unknown for name, level in final.items()
    )


def _other_judges(plan: Plan, done: int, found: Found) -> Iterator[Reason]:
    """What a plan is judged by has to be what it was judged by; a controller that wrote may since
    be told apart from its look-alikes."""
    if plan.dialect != STRICT:
        yield Reason(what="policy", expected=STRICT, found=plan.dialect)
    if plan.catalogue != found.catalogue:
        yield Reason(what="catalogue", expected=plan.catalogue, found=found.catalogue)
    now, then = set(found.dialects), set(plan.own_dialects)
    if not now or not now <= then or (now != then and done == 0):
        yield Reason(
            what="controllers' dialects", expected=_listed(then), found=_listed(found.dialects)
        )


def _side_effects(plan: Plan, done: int, found: Found) -> Iterator[Reason]:
    """Who approved the plan has seen what it changes besides; applied steps had theirs."""
    moved = {update.feature for step in plan.steps[done:] for update in step.updates}
    rest = [effect for effect in plan.side_effects if effect.feature in moved]
    for what, (then, now) in differences(rest, found.side_effects).items():
        yield Reason(what=what, expected=then, found=now)


def _levels(expected: Requirements, found: Found) -> Iterator[Reason]:
    there = found.requirements.levels
    for name in sorted(expected.levels.keys() | there.keys()):
        wanted, now = expected.levels.get(name, 0), there.get(name, 0)
        if name in found.unknown:
            yield Reason(what=f"level of {name}", expected=_level(wanted), found=_NOT_KNOWN)
        elif wanted != now:
            yield Reason(what=f"level of {name}", expected=_level(wanted), found=_level(now))


def _level(level: int) -> str:
    return str(level) if level else "not finalized"


def _version(expected: Requirements, found: Requirements) -> Iterator[Reason]:
    wanted, now = expected.features_node_version, found.features_node_version
    if wanted != now:
        yield Reason(
            what="version of the features node",
            expected="none (KRaft)" if wanted is None else str(wanted),
            found="none (KRaft)" if now is None else str(now),
        )


def _nodes(expected: Sequence[NodeGroup], found: Sequence[NodeGroup]) -> Iterator[Reason]:
    """What differs, once for all nodes of a role of which the same differs."""
    wanted, now = _by_node(expected), _by_node(found)
    alike: dict[tuple[str, str, str], list[int]] = {}
    for role, node_id in sorted(wanted.keys() | now.keys()):
        told = _difference(wanted.get((role, node_id)), now.get((role, node_id)))
        if told is not None:
            alike.setdefault((role, *told), []).append(node_id)
    for (role, then, there), ids in alike.items():
        what = f"{role} {ids[0]}" if len(ids) == 1 else f"{role}s {runs(ids)}"
        yield Reason(what=what, expected=then, found=there)


def _difference(wanted: Ranges | None, now: Ranges | None) -> tuple[str, str] | None:
    """What is expected of a node and what was found, where that is not the same."""
    if wanted is None or now is None:
        gone = "no such node, or no answer"
        return "no such node" if wanted is None else _ranges(wanted), _ranges(now) if now else gone
    odd = list(_unlike(wanted, now))
    return (_ranges(wanted, odd), _ranges(now, odd)) if odd else None


def runs(ids: Sequence[int]) -> str:
    """Ascending numbers as people write them: `1-3, 7`."""
    parts: list[list[int]] = []
    for number in ids:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts)


def _unlike(wanted: Ranges, now: Ranges) -> Iterator[str]:
    """The features of which a node advertises another range; not to list one is 0-0."""
    for name in sorted(wanted.keys() | now.keys()):
        if wanted.get(name, _NOT_LISTED) != now.get(name, _NOT_LISTED):
            yield name


def _by_node(groups: Sequence[NodeGroup]) -> dict[tuple[str, int], Ranges]:
    by_role = [("broker", group.brokers, group.ranges) for group in groups]
    by_role += [("controller", group.controllers, group.ranges) for group in groups]
    return {(role, node): ranges for role, nodes, ranges in by_role for node in nodes}


def _ranges(ranges: Ranges, names: Sequence[str] | None = None) -> str:
    chosen = sorted(ranges) if names is None else names
    texts = [f"{n} {ranges[n][0]}-{ranges[n][1]}" if n in ranges else f"no {n}" for n in chosen]
    return ", ".join(texts) or "a node that lists nothing of the plan"


def _listed(names: Sequence[str] | set[str]) -> str:
    return ", ".join(sorted(names)) or "none known"
