"""Decide on an approved plan after the cluster was read again, from plain values.

A plan is sent only if the cluster is as in the plan: every difference is reported, not only the
first. Only the levels of the plan's own steps may differ, and in ZooKeeper mode the znode's version
by the number of these writes. The judgements of policy and controllers are arguments.
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
    """A condition of the plan that the cluster does not meet: expected and actual value."""

    what: str  # the differing value, such as `level of f` or `broker 3`
    expected: str
    found: str
    is_unseen: bool = False  # true if only missing evidence is the reason

    @property
    def text(self) -> str:
        return f"{self.what}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The present state of everything in the cluster that a plan depends on.

    `unknown`: features without a trusted level; `missing`: sentences about other missing data;
    `against`: refusals of the remaining steps; `side_effects`: the present side effects of the
    remaining steps."""

    cluster: str
    requirements: Requirements
    dialects: tuple[str, ...]
    catalogue: str
    unknown: frozenset[str] = frozenset()
    missing: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    side_effects: tuple[SideEffect, ...] = ()


# The step to send next; or the reasons for not sending; or None if every level of the plan is
# already finalized.
Decision = Step | tuple[Mismatch, ...] | None


def decide(plan: Plan, done: int, now: Situation) -> Decision:
    """Return the plan's next step after `done` steps, None if all are applied, or mismatches."""
    if plan.cluster != now.cluster:  # a comparison with another cluster has no meaning
        return (Mismatch("cluster", plan.cluster, now.cluster),)
    final, levels = {move.feature: move.to_level for move in plan.moves}, now.requirements.levels
    if final and all(levels.get(f, 0) == n and f not in now.unknown for f, n in final.items()):
        return None
    mismatches = [
        *_judges(plan, done, now),
        *_state(after(plan, done), now),
        *_unseen(plan, done, now),
    ]
    if not mismatches:  # the rules would report a known difference again
        mismatches = [
            Mismatch("judged again", "nothing against the plan", text) for text in now.against
        ]
    if mismatches:
        return tuple(mismatches)
    return plan.steps[done] if done < len(plan.steps) else None  # a plan without steps


def after(plan: Plan, done: int) -> Requirements:
    """Return the requirements of the plan after its first `done` steps. Each step increases the
    znode's version by one (KafkaController.updateFeatures)."""
    before = plan.requirements
    written = {move.feature: move.to_level for step in plan.steps[:done] for move in step.updates}
    version = before.features_node_version
    return replace(
        before,
        levels=before.levels | written,
        features_node_version=None if version is None else version + done,
    )


def _judges(plan: Plan, done: int, situation: Situation) -> Iterator[Mismatch]:
    """Yield the mismatches of policy, catalogue and dialects. After a write, fewer dialects may be
    possible than in the plan."""
    if plan.dialect != STRICT:
        yield Mismatch("policy", STRICT, plan.dialect)
    if plan.catalogue != situation.catalogue:
        yield Mismatch("catalogue", plan.catalogue, situation.catalogue)
    live, planned = set(situation.dialects), set(plan.own_dialects)
    if not live or not live <= planned or (live != planned and done == 0):
        expected, actual = (", ".join(sorted(names)) or "none known" for names in (planned, live))
        yield Mismatch("controllers' dialects", expected, actual, is_unseen=not live)


def _state(expected: Requirements, situation: Situation) -> Iterator[Mismatch]:
    """Yield the mismatches of levels, znode version, nodes and ranges."""
    levels_now = situation.requirements.levels
    for name in sorted(expected.levels.keys() | levels_now.keys()):
        expected_level, level = (
            str(levels.get(name) or NOT_FINALIZED) for levels in (expected.levels, levels_now)
        )
        if name in situation.unknown or expected_level != level:
            actual = "not known" if name in situation.unknown else level
            yield Mismatch(f"level of {name}", expected_level, actual, name in situation.unknown)
    versions = [state.features_node_version for state in (expected, situation.requirements)]
    if versions[0] != versions[1]:
        planned, level = ("none (KRaft)" if state is None else str(state) for state in versions)
        if is_unseen := versions[1] is None and not situation.dialects:
            level = "unknown (read it from ZooKeeper: --zookeeper HOST:PORT/CHROOT)"
        yield Mismatch("version of the features node", planned, level, is_unseen)
    yield from _nodes(expected.nodes, situation.requirements.nodes)


def _unseen(plan: Plan, done: int, situation: Situation) -> Iterator[Mismatch]:
    """Yield mismatches that the approver did not see: new side effects, and missing evidence."""
    moved = {move.feature for step in plan.steps[done:] for move in step.updates}
    effects = [effect for effect in plan.side_effects if effect.feature in moved]
    for subject, (expected, value) in differences(effects, situation.side_effects).items():
        yield Mismatch(subject, expected, value)
    for text in situation.missing:
        yield Mismatch("evidence", "complete", text, is_unseen=True)


def _nodes(expected: Sequence[RangeGroup], actual: Sequence[RangeGroup]) -> Iterator[Mismatch]:
    """Yield the mismatches of nodes. Nodes of one role with equal mismatches share one text."""
    required, current = _by_node(expected), _by_node(actual)
    groups: dict[tuple[str, str, str], list[int]] = {}
    for role, node_id in sorted(required.keys() | current.keys()):
        then, present = required.get((role, node_id)), current.get((role, node_id))
        if then is None or present is None:
            texts = (_ranges(then), _ranges(present) if present else _NOT_SEEN)
        else:  # without the feature a node supports level 0
            names = sorted(then.keys() | present.keys())
            changed = [n for n in names if then.get(n, _NOT_LISTED) != present.get(n, _NOT_LISTED)]
            texts = (_ranges(then, changed), _ranges(present, changed)) if changed else ("", "")
        if any(texts):
            groups.setdefault((role, *texts), []).append(node_id)
    for (role, before, after), ids in groups.items():
        yield Mismatch(nodes(role, ids, most=None), before, after, after == _NOT_SEEN)


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
