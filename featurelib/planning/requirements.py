"""Make the requirements of a plan from evidence, check plans for faults, and make their guards.

A plan requires all finalized levels and, for every node that must respond, the ranges of the
changed features and their dependencies; so `apply` notices a new, missing or changed node. Ranges
of other features are not required, because they decide nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
import numpy as np

from featurelib import feature
from featurelib.audit.evidence import Evidence
from featurelib.catalogue import Catalogue
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.config.settings import Settings
from featurelib.core.dialect import GENERATIONS, STRICT, load
from featurelib.model import Guards, Move, Plan, RangeGroup, Requirements, Step
from featurelib.words import clean, msgspec_fault

Value = TypeVar("Value", str, int)
_ORDER = attrgetter("controllers", "brokers")  # the order of groups


def require(
    evidence: Evidence, cluster: int, features: Iterable[str], catalogue: Catalogue
) -> Requirements:
    """Return the requirements of a plan for the cluster at position `cluster` of the evidence.

    `features` are those that the plan changes; this function finds their dependencies.
    """
    query = evidence.questions
    begin, end = np.searchsorted(query.cluster, (cluster, cluster + 1)).tolist()
    names = [query.names[code] for code in query.feature[begin:end].tolist()]
    levels = dict(zip(names, query.current[begin:end].tolist(), strict=True))
    bound = having_a_say(features, catalogue)
    pairs = zip(query.pair_first[begin:end].tolist(), names, strict=True)
    bounded = [(pair, name) for pair, name in pairs if name in bound]
    in_zookeeper = int(evidence.levels.kind[cluster]) == int(feature.Witness.FEATURES_NODE)
    return Requirements(
        levels={name: level for name, level in levels.items() if level > 0},
        nodes=tuple(sorted(_groups(evidence, cluster, bounded), key=_ORDER)),
        features_node_version=int(evidence.levels.epoch[cluster]) if in_zookeeper else None,
    )


def having_a_say(features: Iterable[str], catalogue: Catalogue) -> frozenset[str]:
    """Return these features, their dependencies and always metadata.version (KIP-1022)."""
    names, waiting = {feature.METADATA_VERSION}, set(features)
    while waiting:
        names |= waiting
        waiting = {d.other for d in catalogue.dependencies if d.feature in waiting} - names
    return frozenset(names)


def _groups(
    evidence: Evidence, cluster: int, pairs_of: Sequence[tuple[int, str]]
) -> Iterator[RangeGroup]:
    """Yield groups of nodes that must support a level, with equal ranges of needed features."""
    query, answering, node = evidence.questions, evidence.answering, evidence.subjects
    first, count = int(answering.first[cluster]), int(answering.count[cluster])
    # [profiles, features]: the pair of each profile, and then its range.
    at = np.array([pair for pair, _ in pairs_of], dtype=np.int64) + np.arange(count)[:, None]
    ends = zip(query.pair_min[at].tolist(), query.pair_max[at].tolist(), strict=True)
    ranges = (tuple(zip(low, high, strict=True)) for low, high in ends)
    begin, end = answering.subject_first[[first, first + count]]
    subjects = answering.subject_order[begin:end]
    columns = (answering.of_subject[subjects] - first, node.role[subjects], node.node_id[subjects])
    ids: dict[tuple[tuple[int, int], ...], tuple[list[int], list[int]]] = {}
    of_profile = [ids.setdefault(of_features, ([], [])) for of_features in ranges]
    for profile, role, node_id in zip(*(column.tolist() for column in columns), strict=True):
        of_profile[profile][role].append(node_id)
    for of_features, (brokers, controllers) in ids.items():
        yield RangeGroup(
            brokers=tuple(sorted(brokers)),
            controllers=tuple(sorted(controllers)),
            ranges={name: ranges for (_, name), ranges in zip(pairs_of, of_features, strict=True)},
        )


def features_of(steps: Iterable[Step]) -> tuple[str, ...]:
    """Return the sorted features that the steps change."""
    return tuple(sorted({move.feature for step in steps for move in step.updates}))


def steps_of(rows: Sequence[Mapping[str, Any]]) -> tuple[Step, ...]:
    """Return steps from rows of featurelib.schema.STEP. Rows with equal `request` form one step."""
    together = [list(rows_of) for _, rows_of in groupby(rows, key=lambda row: row["request"])]
    return tuple(
        Step(
            updates=tuple(msgspec.convert(row, Move) for row in rows_of),
            timeout_ms=rows_of[0]["timeout_ms"],
        )
        for rows_of in together
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarding:
    """The settings for the guards of plans. `managed`: id → inventory entry of clusters with
    another owner."""

    require_signature: bool
    managed: Mapping[str, FleetEntry]

    @staticmethod
    def by(settings: Settings, fleet: Fleet) -> Guarding:
        """Return the guard settings from the settings file and the inventory."""
        managed = {entry.id: entry for entry in fleet.cluster if entry.managed_by}
        return Guarding(require_signature=settings.require_signature, managed=managed)

    def of(self, cluster: str) -> Guards:
        """Return the guards for a plan of the cluster with this id."""
        entry = self.managed.get(cluster, FleetEntry(id=cluster))
        return guards_of(entry, require_signature=self.require_signature)


def guards_of(entry: FleetEntry, *, require_signature: bool = False) -> Guards:
    """Return the guards of a cluster: its owner, and if a signature is required."""
    return Guards(
        require_signature=require_signature,
        managed_by=entry.managed_by,
        managed_features=entry.managed,
    )


def plan_faults(plan: Plan) -> Iterator[str]:
    """Yield the faults of a plan, as `where: expected …, found …`; a valid plan has none.

    This function does not judge the steps; the rules do, on new evidence. A plan is invalid if it
    contradicts itself, or if a request combines features that need separate requests.
    """
    try:
        msgspec.convert(msgspec.to_builtins(plan), Plan)  # msgspec checks the bounds in the types
    except msgspec.ValidationError as error:
        yield msgspec_fault(error)[2]
        return
    yield from _lines_in(msgspec.to_builtins(plan), "")
    for name in ("cluster", "intent", "catalogue"):
        if not getattr(plan, name).strip():
            yield f"{name} is empty"
    if plan.dialect != STRICT:
        yield f"dialect: expected {STRICT!r}, found {plan.dialect!r}"
    if unknown := sorted(set(plan.own_dialects) - set(GENERATIONS)):
        yield f"own_dialects: expected some of {', '.join(GENERATIONS)}, found {unknown[0]!r}"
    yield from _ascending(plan.own_dialects, "own_dialects")
    yield from _steps(plan)
    features = {move.feature for move in plan.moves}
    yield from _node_groups(plan.requirements.nodes, features, "requirements.nodes")
    yield from () if plan.guards is None else _guards(plan.guards)
    yield from _side_effects(plan)


def _lines_in(value: object, at: str) -> Iterator[str]:
    """Yield a fault for each text with a line end, because output lines could be forged."""
    if isinstance(value, str) and "\n" in value:
        yield f"{at}: the text has a line end"
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _lines_in(name, f"{at}: a name")
            yield from _lines_in(inner, f"{at}.{clean(name)}".removeprefix("."))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _lines_in(inner, f"{at}[{number}]")


def _steps(plan: Plan) -> Iterator[str]:
    """Yield the faults of a plan's steps, for example a wrong start level."""
    atomic = [load(name).can.atomic for name in plan.own_dialects if name in GENERATIONS]
    levels = dict(plan.requirements.levels)
    for index, step in enumerate(plan.steps):
        at = f"steps[{index}]"
        names = [move.feature for move in step.updates]
        yield from _request(names, f"{at}.updates", is_atomic=bool(atomic) and all(atomic))
        for position, move in enumerate(step.updates):
            yield from _move(move, levels.get(move.feature, 0), f"{at}.updates[{position}]")
        levels |= {move.feature: move.to_level for move in step.updates}


def _request(names: Sequence[str], at: str, *, is_atomic: bool) -> Iterator[str]:
    """Yield the faults of a request's features. `is_atomic`: all controllers are atomic."""
    if len(set(names)) < len(names):
        yield f"{at}: a feature is in the request twice"
    if feature.KRAFT_VERSION in names and len(names) > 1:
        yield f"{at}: {feature.KRAFT_VERSION} must be alone in its request"
    if not is_atomic and len(names) > 1:
        yield (
            f"{at}: expected one feature in a request, found {len(names)}: a possible controller "
            "applies a refused request in part"
        )


def _move(move: Move, current: int, at: str) -> Iterator[str]:
    if move.from_level != current:
        yield f"{at}.from_level: expected the level {current}, found {move.from_level}"
    up = move.to_level > move.from_level
    kinds = [
        kind.name for kind in feature.UpgradeType if (kind is feature.UpgradeType.UPGRADE) == up
    ]
    if move.to_level == move.from_level:
        yield f"{at}.to_level: {move.from_level} is the level before this step, too"
    elif move.upgrade_type not in kinds:
        yield f"{at}.upgrade_type: expected {' or '.join(kinds)}, found {move.upgrade_type!r}"


def _node_groups(groups: Sequence[RangeGroup], planned: set[str], at: str) -> Iterator[str]:
    """Yield the faults of a plan's node groups."""
    for index, group in enumerate(groups):
        yield from _group(group, f"{at}[{index}]")
        if lacking := sorted(planned - set(group.ranges)):
            yield f"{at}[{index}].ranges: the planned feature {lacking[0]!r} is missing"
    if list(groups) != sorted(groups, key=_ORDER):
        yield f"{at}: the groups are not sorted by their node ids"
    for role in ("brokers", "controllers"):
        ids = [node for group in groups for node in getattr(group, role)]
        if len(set(ids)) < len(ids):
            yield f"{at}: one of the {role} is in two groups"
    if len({frozenset(group.ranges) for group in groups}) > 1:
        yield f"{at}: the groups have different features"


def _group(group: RangeGroup, at: str) -> Iterator[str]:
    if not group.brokers and not group.controllers:
        yield f"{at} has no broker and no controller"
    for name in ("brokers", "controllers"):
        yield from _ascending(getattr(group, name), f"{at}.{name}")
    for name, (first, last) in sorted(group.ranges.items()):
        if first > last:
            yield f"{at}.ranges: {name!r}: {first}-{last} does not ascend"


def _guards(guards: Guards) -> Iterator[str]:
    """Yield the contradictions between `managed_by` and `managed_features` of a plan."""
    at, names = "guards.managed_features", guards.managed_features
    if not guards.managed_by.strip() and names != ():
        yield f"{at}: managed_by is empty, so no feature is managed, found {names or 'all'}"
    if guards.managed_by.strip() and names == ():
        yield f"{at}: the features that {guards.managed_by} manages are missing"
    yield from _ascending(names or (), at)


def _side_effects(plan: Plan) -> Iterator[str]:
    """Yield the faults of a plan's side effects: wrong level, description or brokers."""
    for index, effect in enumerate(plan.side_effects):
        at, moves = f"side_effects[{index}]", [m for m in plan.moves if m.feature == effect.feature]
        if not any(move.from_level < effect.level <= move.to_level for move in moves):
            name = f"{effect.feature} {effect.level}"
            yield f"{at}: the plan does not upgrade to or past {name}"
        if not effect.what.strip():
            yield f"{at}.what is empty"
        if effect.values and not effect.key:
            yield f"{at}.key is empty: values need the name of their setting"
        ids = [node for change in effect.values for node in change.brokers]
        if len(set(ids)) < len(ids) or not all(change.brokers for change in effect.values):
            yield f"{at}.values: each value needs brokers, and each broker has one value"


def _ascending(values: Sequence[Value], at: str) -> Iterator[str]:
    if list(values) != sorted(set(values)):
        yield f"{at}: expected ascending values, each once, found {list(values)}"
