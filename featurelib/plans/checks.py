"""What a meaning must be like to be a plan at all, whoever wrote it.

Nothing is judged here: whether the steps may be sent is for the rules, on fresh evidence. A plan
that contradicts itself, or sends in one request what must not go together, is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from featurelib.core.dialect import GENERATIONS, STRICT, load
from featurelib.feature import KRAFT_VERSION, UpgradeType
from featurelib.model import Guards, Move, NodeGroup, Plan, Requirements, Step

HIGHEST_LEVEL = 2**15 - 1  # int16 on the wire
HIGHEST_INT32 = 2**31 - 1

Value = TypeVar("Value", str, int)


def faults(meaning: Plan) -> Iterator[str]:
    """What is wrong with a plan, as `where: expected …, found …`; nothing for a good one."""
    yield from _judges(meaning)
    yield from _steps(meaning)
    yield from _requirements(meaning.requirements)
    yield from () if meaning.guards is None else _guards(meaning.guards)
    yield from _side_effects(meaning)
    planned = {update.feature for step in meaning.steps for update in step.updates}
    for i, group in enumerate(meaning.requirements.nodes):
        if lacking := sorted(planned - set(group.ranges)):
            at = f"requirements.nodes[{i}].ranges"
            yield f"{at}: expected every planned feature, {lacking[0]!r} lacks"


def _judges(meaning: Plan) -> Iterator[str]:
    for name in ("cluster", "intent", "catalogue"):
        if not getattr(meaning, name).strip():
            yield f"{name}: expected a text, found none"
    if meaning.dialect != STRICT:
        yield f"dialect: expected {STRICT!r}, found {meaning.dialect!r}"
    if strange := sorted(set(meaning.own_dialects) - set(GENERATIONS)):
        yield f"own_dialects: expected some of {', '.join(GENERATIONS)}, found {strange[0]!r}"
    yield from _ascending(meaning.own_dialects, "own_dialects")


def _guards(guards: Guards) -> Iterator[str]:
    """Who manages features and which they are go together."""
    at = "guards.managed_features"
    names = guards.managed_features
    if not guards.managed_by.strip() and names != ():
        yield f"{at}: expected none where managed_by names nobody, found {names or 'all'}"
    if guards.managed_by.strip() and names == ():
        yield f"{at}: expected what {guards.managed_by} manages, found none"
    yield from _ascending(names or (), at)


def _side_effects(meaning: Plan) -> Iterator[str]:
    """Each is one of the plan's own levels, and says what happens and to whom."""
    updates = [update for step in meaning.steps for update in step.updates]
    for i, effect in enumerate(meaning.side_effects):
        at, name = f"side_effects[{i}]", f"{effect.feature} {effect.level}"
        moves = [u for u in updates if u.feature == effect.feature]
        if not any(u.from_level < effect.level <= u.to_level for u in moves):
            yield f"{at}: expected a level that the plan goes up to or past, found {name}"
        if not effect.what.strip():
            yield f"{at}.what: expected a text, found none"
        if effect.values and not effect.key:
            yield f"{at}.key: expected the name of what has values, found none"
        ids = [node for change in effect.values for node in change.brokers]
        if len(set(ids)) < len(ids) or not all(change.brokers for change in effect.values):
            yield f"{at}.values: expected each broker once, and none without brokers"


def _steps(meaning: Plan) -> Iterator[str]:
    """Each step goes on from where the one before ends, the first from what is finalized."""
    if not meaning.steps:
        yield "steps: expected one or more, found none"
    own = [load(name).can.atomic for name in meaning.own_dialects if name in GENERATIONS]
    atomic = bool(own) and all(own)
    levels = dict(meaning.requirements.levels)
    for i, step in enumerate(meaning.steps):
        at = f"steps[{i}]"
        yield from _step(step, at, atomic=atomic)
        for j, update in enumerate(step.updates):
            yield from _update(update, levels.get(update.feature, 0), f"{at}.updates[{j}]")
        levels |= {update.feature: update.to_level for update in step.updates}


def _step(step: Step, at: str, *, atomic: bool) -> Iterator[str]:
    if not 0 < step.timeout_ms <= HIGHEST_INT32:
        yield f"{at}.timeout_ms: expected 1 to {HIGHEST_INT32}, found {step.timeout_ms}"
    names = [update.feature for update in step.updates]
    if not names:
        yield f"{at}.updates: expected one or more, found none"
    if len(set(names)) < len(names):
        yield f"{at}.updates: expected each feature once, found one twice"
    if KRAFT_VERSION in names and len(names) > 1:
        yield f"{at}.updates: expected {KRAFT_VERSION} in a request of its own, found more"
    if not atomic and len(names) > 1:
        yield (
            f"{at}.updates: expected one feature in a request, since a controller that may answer "
            f"does the good part of a refused one; found {len(names)}"
        )


def _update(update: Move, current: int, at: str) -> Iterator[str]:
    if not update.feature:
        yield f"{at}.feature: expected a name, found none"
    for name in ("from_level", "to_level"):
        level = getattr(update, name)
        if not 0 <= level <= HIGHEST_LEVEL:
            yield f"{at}.{name}: expected 0 to {HIGHEST_LEVEL}, found {level}"
    if update.from_level != current:
        found = update.from_level
        yield f"{at}.from_level: expected {current}, where it is by then, found {found}"
    up = update.to_level > update.from_level
    kinds = [kind.name for kind in UpgradeType if (kind is UpgradeType.UPGRADE) == up]
    if update.to_level == update.from_level:
        yield f"{at}.to_level: expected another level than {update.from_level}"
    elif update.upgrade_type not in kinds:
        yield f"{at}.upgrade_type: expected {' or '.join(kinds)}, found {update.upgrade_type!r}"


def _requirements(required: Requirements) -> Iterator[str]:
    at = "requirements"
    for name, level in sorted(required.levels.items()):
        if not name or not 0 < level <= HIGHEST_LEVEL:
            yield f"{at}.levels: expected names with 1 to {HIGHEST_LEVEL}, found {name!r}: {level}"
    version = required.features_node_version
    if version is not None and not 0 <= version <= HIGHEST_INT32:
        yield f"{at}.features_node_version: expected 0 to {HIGHEST_INT32} or null, found {version}"
    if not required.nodes:
        yield f"{at}.nodes: expected one or more, found none"
    for i, group in enumerate(required.nodes):
        yield from _group(group, f"{at}.nodes[{i}]")
    if list(required.nodes) != sorted(required.nodes, key=in_order):
        yield f"{at}.nodes: expected them by their nodes' ids, found another order"
    for role in ("brokers", "controllers"):
        ids = [node for group in required.nodes for node in getattr(group, role)]
        if len(set(ids)) < len(ids):
            yield f"{at}.nodes: expected each of the {role} in one group, found one in two"
    if len({frozenset(group.ranges) for group in required.nodes}) > 1:
        yield f"{at}.nodes: expected the same features in every group"


def in_order(group: NodeGroup) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The order of groups."""
    return group.controllers, group.brokers


def _group(group: NodeGroup, at: str) -> Iterator[str]:
    if not group.brokers and not group.controllers:
        yield f"{at}: expected a broker or a controller, found none"
    for name in ("brokers", "controllers"):
        ids = getattr(group, name)
        yield from _ascending(ids, f"{at}.{name}")
        if strange := [node for node in ids if not 0 <= node <= HIGHEST_INT32]:
            yield f"{at}.{name}: expected ids from 0 to {HIGHEST_INT32}, found {strange[0]}"
    for name, (first, last) in sorted(group.ranges.items()):
        if not name or not 0 <= first <= last <= HIGHEST_LEVEL:
            yield f"{at}.ranges: expected a range, found {name!r}: {first}-{last}"


def _ascending(values: Sequence[Value], at: str) -> Iterator[str]:
    if list(values) != sorted(set(values)):
        yield f"{at}: expected ascending values, each once, found {list(values)}"
