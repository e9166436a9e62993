"""Put READY upgrades of a fleet into waves: rings of clusters in order, with gates between.

A ring holds clusters. A step holds the work that is done in them at one time, and never mixes
changes that can be downgraded with others. Batches of a step may be done at once. The gate before a
step opens when every cluster of the step before has been at its level and healthy for its soak
(featurelib.extras.waves.gates). The first clusters are the canaries: one of each kind of change.
Then come the values of a label in their order, or the clusters of least risk.

    fleet ─┬─ held: UNKNOWN, BLOCKED, something critical, or software that is too old; what helps
           ├─ reached: at the target
           └─ rings ── steps (way back | none) ── batches ── works: a cluster, its commands

Every cluster is in one place, once, and is planned, approved and applied by itself. People may
change the file, so it is held to the same rules when it is read as when it is made (`faults`).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import ceil
from typing import Literal

import msgspec

from featurelib.catalogue import Catalogue
from featurelib.errors import PlanError
from featurelib.feature import METADATA_VERSION
from featurelib.findings import Advice
from featurelib.planning.files import parse_span

FORMAT: Literal["featurelib.waves"] = "featurelib.waves"
VERSION: Literal[1] = 1
UPGRADE_ALL = "upgrade-all"  # a target: every feature as far as it is READY
NO_LABEL = ""  # the value of a cluster that has no such label
EARLY = 5  # without a label, one in five clusters comes before the others
AGAIN = "Make the plan again: featurelib waves plan TARGET --out FILE"

Why = Literal["UNKNOWN", "BLOCKED", "critical", "software", "part", "order", "operator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveMove:
    """A feature from one finalized level to another.

    `way_back`: true if a lossless downgrade to today's level is possible. `no_return`: the first
    level that cannot be downgraded to today's level; null if every level can, or if unknown.
    """

    feature: str
    from_level: int
    to_level: int
    way_back: bool
    no_return: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveCommand:
    """The changes that one command makes in one cluster. `by`: the other system that finalizes the
    levels, empty for featurelib. `command`: the command; if empty, ask the person in `whom`."""

    by: str
    moves: tuple[WaveMove, ...]
    command: str
    whom: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveWork:
    """The changes of one step in one cluster, in this order. `cluster`: the cluster's id in the
    tables. `turn`: 1 for the cluster's first step, 2 for its next step. `note`: a warning for the
    reviewer, may be empty."""

    cluster: str
    name: str
    owner: str | None
    contact: str | None
    does: tuple[WaveCommand, ...]
    turn: int = 1
    note: str = ""

    @property
    def moves(self) -> tuple[WaveMove, ...]:
        """The level changes of all commands."""
        return tuple(move for d in self.does for move in d.moves)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveStep:
    """A step of a ring. Its changes are all reversible or all irreversible.

    `batches`: groups of clusters to upgrade in parallel; a batch begins after the batch before.
    `soak`: the time that all clusters must stay healthy before the next step: 30m, 24h, 7d.
    `soak_why`: the problem after an earlier step that makes the soak longer than requested; may be
    empty.
    """

    way_back: bool
    soak: str
    soak_why: str = ""
    batches: tuple[tuple[WaveWork, ...], ...]

    @property
    def span(self) -> timedelta:
        """The soak time as a time span."""
        return parse_span(self.soak) or timedelta()

    @property
    def works(self) -> tuple[WaveWork, ...]:
        """The changes of all batches."""
        return tuple(work for batch in self.batches for work in batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveRing:
    """A ring: a group of clusters to upgrade together."""

    name: str
    about: str
    steps: tuple[WaveStep, ...]

    @property
    def clusters(self) -> frozenset[str]:
        """The ids of the clusters in this ring."""
        return frozenset(work.cluster for step in self.steps for work in step.works)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveHeld:
    """A cluster that is not in the plan. `unlocks`: the fixes; `more`: the number of further
    obstacles; `why`: the reason, UNKNOWN and BLOCKED are verdicts. critical: a critical finding
    comes first. software: it does not support the target. part: only some levels are reachable.
    order: the changes depend on each other. operator: Strimzi would ignore or revert the change."""

    cluster: str
    name: str
    owner: str | None
    contact: str | None
    why: Why
    unlocks: tuple[Advice, ...]
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveReached:
    """A cluster that is already at the target."""

    cluster: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WavePlan:
    """The order in which a fleet is upgraded to a target.

    `level`: the metadata.version of the target release; null if the target is upgrade-all. `run`:
    the audit run whose results the plan uses. `as_of`: the time of that run. `part`: the chosen
    clusters, null for all. `by`: the labels whose values are rings. `notes`: warnings for the
    reviewer.
    """

    target: str
    level: int | None
    tables: str
    run: int
    as_of: str
    catalogue: str
    part: str | None
    by: tuple[str, ...]
    max_parallel: int
    rings: tuple[WaveRing, ...]
    held: tuple[WaveHeld, ...]
    reached: tuple[WaveReached, ...]
    notes: tuple[str, ...] = ()

    @property
    def steps(self) -> tuple[WaveStep, ...]:
        """The steps of all rings, in order."""
        return tuple(step for ring in self.rings for step in ring.steps)

    @property
    def clusters(self) -> list[str]:
        """The clusters of rings, held and reached. A cluster in two places appears twice."""
        places = [sorted(ring.clusters) for ring in self.rings]
        places += [[place.cluster for place in places] for places in (self.held, self.reached)]
        return [cluster for group in places for cluster in group]


class WaveFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file of a wave plan, for review. No command applies this file."""

    format: Literal["featurelib.waves"]
    version: Literal[1]
    waves: WavePlan


# --- From candidates to rings --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A cluster that can reach the target, with its changes (`works`), one part per step.

    `kind`: equal for equal changes. `nodes`: their number, which increases the risk. `labels`: in
    the inventory."""

    works: tuple[tuple[bool, WaveWork], ...]  # whether that step can be downgraded
    kind: tuple[object, ...]
    nodes: int
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def cluster(self) -> str:
        """The cluster's id."""
        return self.works[0][1].cluster

    @property
    def risk(self) -> tuple[bool, int, str, str]:
        """The sort key by risk. Irreversible changes and large clusters come last."""
        one_way = any(not way_back for way_back, _ in self.works)
        return one_way, self.nodes, self.works[0][1].name, self.cluster

    def with_note(self, note: str) -> Candidate:
        """Return the candidate with a further note in its first step."""
        (way_back, first), *later = self.works
        first = replace(first, note=f"{note} {first.note}".strip())
        return replace(self, works=((way_back, first), *later))


@dataclass(frozen=True, slots=True, kw_only=True)
class Standings:
    """The clusters of a run: candidates for rings, held, or at the target."""

    candidates: tuple[Candidate, ...]
    held: tuple[WaveHeld, ...]
    reached: tuple[WaveReached, ...]

    @property
    def names(self) -> dict[str, str]:
        """The name of each cluster by its id."""
        names = {candidate.cluster: candidate.works[0][1].name for candidate in self.candidates}
        names |= {c.cluster: c.name for c in self.held}
        return names | {c.cluster: c.name for c in self.reached}


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveTrouble:
    """A trouble with a cluster, `after` this time since an earlier step."""

    after: timedelta
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waving:
    """The options of the waves. `by`: label → order of its values; `soak`: the least soak of a
    step; `troubles`: earlier troubles by cluster, which lengthen the soak; `max_parallel`: clusters
    changed at once."""

    by: Mapping[str, Sequence[str]] = field(default_factory=dict)
    soak: str = "7d"
    max_parallel: int = 5
    troubles: Mapping[str, WaveTrouble] = field(default_factory=dict)


def put_in_rings(candidates: Iterable[Candidate], options: Waving) -> tuple[WaveRing, ...]:
    """Split the clusters into rings."""
    ordered, kinds = sorted(candidates, key=lambda each: each.risk), set[tuple[object, ...]]()
    orders = label_orders(ordered, options)
    groups = defaultdict[tuple[int, ...], list[Candidate]](list)
    for c in ordered:
        at = (values.index(c.labels.get(label, NO_LABEL)) for label, values in orders.items())
        groups[tuple(at)].append(c)
    rings = list[tuple[str, str, list[Candidate]]]()
    for rank, group in sorted(groups.items()):
        values = ((label, orders[label][i]) for label, i in zip(orders, rank, strict=True))
        name = ", ".join(f"{label}={value}" if value else f"no {label}" for label, value in values)
        first = _first_of_kind(group, kinds, options.max_parallel)
        chosen = {candidate.cluster for candidate in first}
        later = [candidate for candidate in group if candidate.cluster not in chosen]
        if not later and not rings:  # every kind is unique: one cluster goes first
            first, later = first[:1], first[1:]
        if later and first:
            who_else = "the others of it" if rings else "all others"
            purpose = f"before {who_else}, one of each kind of change that is new"
            rings.append((f"{name} canary".lstrip(), purpose, first))
        else:
            later = group
        if not options.by and len(later) > options.max_parallel:
            early = max(options.max_parallel, ceil(len(later) / EARLY))
            rings.append(("early", "the clusters of least risk", later[:early]))
            rings.append(("rest", "all others", later[early:]))
        elif later:
            rings.append((name or "rest", f"all others{' of it' if name else ''}", later))
        kinds |= {candidate.kind for candidate in group}
    return tuple(_ring(name, purpose, members, options) for name, purpose, members in rings)


def label_orders(candidates: Iterable[Candidate], options: Waving) -> dict[str, list[str]]:
    """Return label → ordered values: those in the options, then the others by number of nodes."""
    nodes = {label: Counter[str]() for label in options.by}
    for c in candidates:
        for label, of_value in nodes.items():
            of_value[c.labels.get(label, NO_LABEL)] += c.nodes
    orders = dict[str, list[str]]()
    for label, of_value in nodes.items():
        values = [value for value in options.by[label] if value in of_value]
        by_size = sorted((value == NO_LABEL, size, value) for value, size in of_value.items())
        orders[label] = values + [value for _, _, value in by_size if value not in values]
    return orders


def _first_of_kind(
    ordered: Sequence[Candidate], kinds: set[tuple[object, ...]], most: int
) -> list[Candidate]:
    """Return up to `most` clusters, one per new type of change: the commonest types, and of each
    the least risky cluster."""
    of_kind = Counter(candidate.kind for candidate in ordered if candidate.kind not in kinds)
    first = dict[tuple[object, ...], Candidate]()
    for c in ordered:
        if c.kind in of_kind:
            first.setdefault(c.kind, c)
    chosen = sorted(first.values(), key=lambda each: (-of_kind[each.kind], each.risk))[:most]
    return sorted(chosen, key=lambda candidate: candidate.risk)


def _ring(name: str, purpose: str, members: Sequence[Candidate], options: Waving) -> WaveRing:
    """Return a ring of these clusters. Its steps alternate between reversible and other changes."""
    steps: list[list[WaveWork]] = []
    kinds: list[bool] = []
    begins = any(member.works[0][0] for member in members)  # some step can be downgraded
    for member in members:
        at = 0
        for way_back, work in member.works:
            at += (at % 2 == 0) != (way_back == begins)
            while len(steps) <= at:
                kinds.append((len(steps) % 2 == 0) == begins)
                steps.append([])
            steps[at].append(work)
            at += 1
    return WaveRing(
        name=name,
        about=purpose,
        steps=tuple(
            _step(kind, works, options) for kind, works in zip(kinds, steps, strict=True) if works
        ),
    )


def _step(way_back: bool, works: Sequence[WaveWork], options: Waving) -> WaveStep:
    """Return a step with these changes. Earlier trouble of its clusters lengthens the soak."""
    soak, reason, most = options.soak, "", options.max_parallel
    troubles = (options.troubles[w.cluster] for w in works if w.cluster in options.troubles)
    worst = max(troubles, key=lambda t: (t.after, t.text), default=None)
    if worst is not None and worst.after > (parse_span(soak) or timedelta()):
        soak, reason = f"{ceil(worst.after / timedelta(days=1))}d", worst.text
    batches = tuple(tuple(works[i : i + most]) for i in range(0, len(works), most))
    return WaveStep(way_back=way_back, soak=soak, soak_why=reason, batches=batches)


def part_moves(
    moves: Sequence[WaveMove],
    owned: frozenset[str],
    levels: Mapping[str, int],
    catalogue: Catalogue,
) -> list[tuple[bool, bool, list[WaveMove]]] | None:
    """Split level changes into parts to send in order: (can be downgraded, is the owner's,
    changes). None if no order is possible. Parts that can be downgraded come first."""
    todo, now, parts = list(moves), dict(levels), list[tuple[bool, bool, list[WaveMove]]]()
    early = catalogue.not_yet_defaults({m.feature: (m.from_level, m.to_level) for m in moves})
    while todo:
        for way_back, by_owner in ((True, False), (True, True), (False, False), (False, True)):
            group = [m for m in todo if (m.way_back, m.feature in owned) == (way_back, by_owner)]
            while group:
                then = now | {move.feature: move.to_level for move in group}
                later = {move.feature for move in todo} - {move.feature for move in group}
                unmet = catalogue.whole.unmet(then)
                waiting = {need.feature for need in unmet if need.other in later}
                waiting |= early if METADATA_VERSION in later else set()
                if waiting.isdisjoint(move.feature for move in group):
                    break
                group = [move for move in group if move.feature not in waiting]
            if group:
                parts.append((way_back, by_owner, group))
                now |= {move.feature: move.to_level for move in group}
                todo = [move for move in todo if move not in group]
                break
        else:
            return None
    return parts


# --- The file -------------------------------------------------------------------------------------


def faults(plan: WavePlan) -> Iterator[str]:
    """Yield the faults of a wave plan as sentences."""
    for cluster, times in Counter(plan.clusters).items():
        if times > 1:
            yield f"cluster {cluster!r} is in {times} places, and may be in one only"
    if plan.max_parallel < 1:
        yield f"max_parallel: expected 1 or more, found {plan.max_parallel}"
    for i, ring in enumerate(plan.rings):
        if not ring.steps:
            yield f"rings[{i}].steps is empty"
        levels, turns = dict[tuple[str, str], int](), Counter[str]()
        for j, step in enumerate(ring.steps):
            path = f"rings[{i}].steps[{j}]"
            yield from _step_faults(step, plan.max_parallel, path)
            names = {work.cluster for work in step.works}
            late = names - turns.keys() if step.way_back else set[str]()
            if late and not all(before.way_back for before in ring.steps[:j]):
                yield (
                    f"{path}: cluster {min(late)!r}: put reversible changes before irreversible "
                    "changes of a cluster"
                )
            turns.update(names)
            for work in step.works:
                if work.turn != turns[work.cluster]:
                    yield (
                        f"{path}: cluster {work.cluster!r}: expected turn {turns[work.cluster]}, "
                        f"found {work.turn}: the turns of a cluster have an order"
                    )
                for move in work.moves:
                    before = levels.get((work.cluster, move.feature), move.from_level)
                    if before != move.from_level:
                        yield (
                            f"{path}: cluster {work.cluster!r}: {move.feature} is at level "
                            f"{before} after the turn before, and this turn begins at "
                            f"{move.from_level}"
                        )
                    levels[work.cluster, move.feature] = move.to_level


def _step_faults(step: WaveStep, most: int, path: str) -> Iterator[str]:
    if parse_span(step.soak) is None:
        yield f"{path}.soak: expected a time as 30m, 24h or 7d, found {step.soak!r}"
    if not step.works:
        yield f"{path}.batches has no cluster"
    for i, batch in enumerate(step.batches):
        if len(batch) > most:
            yield f"{path}.batches[{i}]: expected at most {most} clusters, found {len(batch)}"
    for cluster, times in Counter(work.cluster for work in step.works).items():
        if times > 1:
            yield f"{path} has cluster {cluster!r} {times} times, and may have it once only"
    for work in step.works:
        if not work.moves:
            yield f"{path}: cluster {work.cluster!r} has no level to upgrade"
        for move in work.moves:
            at = f"{path}: cluster {work.cluster!r}: {move.feature}"
            if move.to_level <= move.from_level:
                yield f"{at}: {move.from_level} to {move.to_level} is not an upgrade"
            if move.way_back != step.way_back or (move.way_back and move.no_return is not None):
                kind = "reversible" if step.way_back else "irreversible"
                yield f"{at}: all changes of this step must be {kind}: move it to another step"


def read_waves(text: str | bytes, source: str) -> WavePlan:
    """Parse the wave plan in `text`. `source`: named in messages. Raises PlanError."""
    try:
        parsed = json.loads(text)
        fields = parsed if isinstance(parsed, dict) else {}
        if (fields.get("format"), fields.get("version")) != (FORMAT, VERSION):
            raise PlanError(
                f"{source}: This is not a plan of waves, {FORMAT} version {VERSION}: its format is "
                f"{fields.get('format')!r} version {fields.get('version')!r}. {AGAIN}"
            )
        plan = msgspec.convert(parsed, WaveFile).waves
    except (RecursionError, ValueError, msgspec.ValidationError) as error:
        reason = "lists in lists" if isinstance(error, RecursionError) else str(error)
        raise PlanError(f"{source}: This is not a plan of waves: {reason}. {AGAIN}") from error
    if fault := next(faults(plan), None):
        raise PlanError(f"{source}: {fault}. Correct the file, or make the plan again.")
    return plan
