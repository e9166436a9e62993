"""Plans: the fewest UpdateFeatures requests that reach a goal, each of them tried beforehand.

An atomic controller gets all ordinary features in one request, any other one feature a request,
because it writes the good part of a request whose other part it refuses. kraft.version goes alone:
a refused request may have moved it for good. A goal that cannot be reached gives refusals, no step.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from featurelib.catalogue import Catalogue
from featurelib.core.cluster import Case, Cluster, Range, Request, Update
from featurelib.core.dialect import Dialect, load
from featurelib.core.dry_run import Tried, try_requests
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, UpgradeType
from featurelib.model import Reason
from featurelib.planning.goal import Goal, Move, software_of
from featurelib.planning.unlock import ladder

GOAL = "goal"  # who refuses what was asked wrongly


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One UpdateFeatures request, and the levels of the cluster once it has settled."""

    request: Request
    after: dict[str, Range]  # feature → (minimum, level); not listed = not finalized


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Steps in the order to send them. Refusals say what cannot be reached and why."""

    steps: tuple[Step, ...] = ()
    refusals: tuple[Reason, ...] = ()
    after: Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A cluster, what is wanted of it, and how its controller answers.

    `stepwise`: metadata.version moves one known level at a time. `partly`: what is refused goes
    less far, or is left out, and the rest is planned all the same. `vendors`: see `try_requests`.
    """

    cluster: Cluster
    goal: Goal
    dialect: Dialect
    stepwise: bool = False
    partly: bool = False
    vendors: bool = False


Trying = Generator[list[Case], list[Tried], Plan]


def plan(task: Task, catalogue: Catalogue) -> Plan:
    """The plan of one task; see `plans`."""
    return plans([task], catalogue)[0]


def plans(tasks: Sequence[Task], catalogue: Catalogue) -> list[Plan]:
    """The plan of each task (KIP-584, Tooling; KIP-778; KIP-1022, interdependence): all advance
    together, so that each round of requests is judged as one batch a dialect."""
    done: dict[int, Plan] = {}
    waiting: dict[int, tuple[Trying, list[Case]]] = {}

    def advance(i: int, trying: Trying, answers: list[Tried] | None) -> None:
        try:
            cases = next(trying) if answers is None else trying.send(answers)
            waiting[i] = trying, cases
        except StopIteration as stop:
            done[i] = stop.value

    for i, task in enumerate(tasks):
        advance(i, _planning(task, catalogue), None)
    while waiting:
        now, waiting = waiting, {}
        judges = {i: (tasks[i].dialect.name, tasks[i].vendors) for i in now}
        for name, vendors in sorted(set(judges.values())):
            mine = [i for i in now if judges[i] == (name, vendors)]
            cases = [case for i in mine for case in now[i][1]]
            answers = try_requests(cases, load(name), catalogue.tables, vendors=vendors)
            for i in mine:
                count = len(now[i][1])
                advance(i, now[i][0], answers[:count])
                answers = answers[count:]
    return [done[i] for i in range(len(tasks))]


def _planning(task: Task, catalogue: Catalogue) -> Trying:
    """One task's rounds: everything at once first, because what the whole violates stays wrong."""
    if task.goal.faults:
        faults = tuple(
            Reason(judge=GOAL, code=f.code, feature=f.feature, level=f.level, message=f.text)
            for f in task.goal.faults
        )
        return Plan(refusals=faults, after=task.cluster)
    moves, refusals = list(task.goal.moves), list[Reason]()
    while moves:
        [tried] = yield [_case(task, task.cluster, moves)]
        told = {refusal.feature for refusal in refusals}
        refusals += [refusal for refusal in tried.refusals if refusal.feature not in told]
        if not tried.refusals:
            break
        if not task.partly:
            return Plan(refusals=tried.refusals, after=task.cluster)
        moves = _lowered(task, moves, tried.refusals, catalogue)
    hops = {move.feature: _hops(task, move, catalogue) for move in moves}
    route = _atomic(task, hops) if task.dialect.can.atomic else _one_by_one(task, hops)
    found = yield from route
    return replace(found, refusals=tuple(dict.fromkeys((*refusals, *found.refusals))))


def _lowered(
    task: Task, moves: list[Move], refusals: Sequence[Reason], catalogue: Catalogue
) -> list[Move]:
    """What is left to try: each refused move goes up less far, or not at all. Where two are at odds
    the one that depends on the other gives way."""
    giving_way = [refusal for refusal in refusals if refusal.code != "dependant_broken"]
    refused = {refusal.feature for refusal in giving_way or refusals}
    if not refused <= {move.feature for move in moves}:  # whatever is sent does harm, or is refused
        return []
    kept = [move for move in moves if move.feature not in refused]
    for move in moves:
        if move.feature in refused and move.kind is UpgradeType.UPGRADE:
            rungs = ladder(task.cluster, move.feature, catalogue)
            if lower := [level for level in rungs if level < move.level]:
                kept.append(replace(move, level=lower[-1]))
    return kept


def _hops(task: Task, move: Move, catalogue: Catalogue) -> list[Move]:
    """The move itself, or metadata.version one known level at a time (KIP-778, Upgrades)."""
    software = software_of(task.cluster, catalogue)
    if not task.stepwise or move.feature != METADATA_VERSION or software is None:
        return [move]
    low, high = sorted((move.current, move.level))
    between = [n for n in software.known_levels(METADATA_VERSION) if low < n < high]
    if move.level < move.current:
        between.reverse()
    way = [move.current, *between, move.level]
    return [replace(move, current=here, level=there) for here, there in pairwise(way)]


def _case(task: Task, cluster: Cluster, moves: Sequence[Move]) -> Case:
    """One request, in the words of the dialect's newest wire version that carries results."""
    can = task.dialect.can
    version = max((v for v in can.wire_versions if v <= can.results_up_to), default=1)
    return cluster, Request(
        version=version,
        updates=tuple(
            Update(
                feature=move.feature,
                level=move.level,
                kind=move.kind,
                allow_downgrade=version == 0 and move.kind is not UpgradeType.UPGRADE,
            )
            for move in sorted(moves, key=lambda move: move.feature)
        ),
    )


def _way(task: Task, groups: Sequence[Sequence[Move]]) -> Trying:
    """These groups of moves, one request each; the plan ends before the first refused one."""
    cluster, steps = task.cluster, list[Step]()
    for group in groups:
        case = _case(task, cluster, group)
        [tried] = yield [case]
        if tried.refusals:
            return Plan(steps=tuple(steps), refusals=tried.refusals, after=cluster)
        cluster = tried.after
        steps.append(Step(request=case[1], after=cluster.finalized))
    return Plan(steps=tuple(steps), after=cluster)


def _atomic(task: Task, hops: dict[str, list[Move]]) -> Trying:
    """All ordinary features in one request; kraft.version after it, or where others need it first:
    before it, or as late as it can be."""
    kraft = [hop for name, way in hops.items() if name == KRAFT_VERSION for hop in way]
    ordinary = {name: way for name, way in hops.items() if name != KRAFT_VERSION}
    groups = _groups(ordinary)
    ways = [[*groups, kraft], [kraft, *groups]]
    if kraft and groups:
        early = yield from _passing(task, [way[-1] for way in ordinary.values()])
        late = {name: way for name, way in ordinary.items() if name not in early}
        first = {name: way for name, way in ordinary.items() if name in early}
        ways.append([*_groups(first), kraft, *_groups(late)])
    refused: Plan | None = None
    for way in ways:
        found = yield from _way(task, [group for group in way if group])
        if not found.refusals:
            return found
        refused = refused or found
    assert refused is not None
    return Plan(refusals=refused.refusals, after=task.cluster)


def _groups(hops: dict[str, list[Move]]) -> list[list[Move]]:
    """One request for all; a stepwise metadata.version goes first up, and last down."""
    chain = hops.get(METADATA_VERSION, [])
    if len(chain) < 2:
        return [[hop for way in hops.values() for hop in way]] if hops else []
    rest = [hop for name, way in hops.items() if name != METADATA_VERSION for hop in way]
    alone = [[hop] for hop in chain]
    up = chain[0].kind is UpgradeType.UPGRADE
    return [group for group in ([*alone, rest] if up else [rest, *alone]) if group]


def _passing(task: Task, moves: list[Move]) -> Generator[list[Case], list[Tried], set[str]]:
    """The most of these moves that pass together: what is refused is left out, again and again."""
    while moves:
        [tried] = yield [_case(task, task.cluster, moves)]
        refused = {refusal.feature for refusal in tried.refusals}
        if not refused:
            break
        passing = [move for move in moves if move.feature not in refused]
        moves = passing if len(passing) < len(moves) else []
    return {move.feature for move in moves}


def _one_by_one(task: Task, hops: dict[str, list[Move]]) -> Trying:
    """One feature a request, each as soon as it passes: what others need goes up before them and
    down after them. What passes once keeps passing, so no order is missed."""
    cluster, steps = task.cluster, list[Step]()
    waiting = sorted(hops.values(), key=_turn)
    while waiting:
        cases = [_case(task, cluster, way[:1]) for way in waiting]
        answers = yield cases
        good = next((i for i, tried in enumerate(answers) if not tried.refusals), None)
        if good is None:
            refusals = tuple(refusal for tried in answers for refusal in tried.refusals)
            return Plan(refusals=refusals, after=task.cluster)
        cluster = answers[good].after
        steps.append(Step(request=cases[good][1], after=cluster.finalized))
        waiting[good : good + 1] = [rest] if (rest := waiting[good][1:]) else []
    return Plan(steps=tuple(steps), after=cluster)


def _turn(way: list[Move]) -> tuple[bool, int, str]:
    """kraft.version last; metadata.version first when it goes up, last when it goes down."""
    name = way[0].feature
    up = way[0].kind is UpgradeType.UPGRADE
    place = 1 if name != METADATA_VERSION else 0 if up else 2
    return name == KRAFT_VERSION, place, name
