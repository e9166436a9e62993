"""Compute the progress of steps from the tables of runs.

A step is done when each of its clusters was at its level, without a critical finding, for its soak.
A run in which a cluster's level is unknown neither begins nor ends that time; in the newest run all
must be known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from featurelib.extras.waves.rings import Standings, WaveHeld, WavePlan, WaveWork
from featurelib.feature import Severity, Verdict
from featurelib.lake import Lake
from featurelib.tables import FEATURE_READINESS, FINDINGS


class WorkState(StrEnum):
    """The state of a cluster's changes in a step."""

    AT_LEVEL = "at its level"
    BEHIND = "not at its level"
    CRITICAL = "critical finding"
    UNKNOWN = "not known"


class StepState(StrEnum):
    """The state of a step in the waves."""

    DONE = "done"
    SOAKING = "soaking"
    OPEN = "open"
    CLOSED = "closed"


class WaveGate(StrEnum):
    """The permission to continue: `done`, `open`, or wait for a soak (`soaking`), a person
    (`closed`) or data (`unknown`)."""

    DONE = "done"
    OPEN = "open"
    SOAKING = "soaking"
    CLOSED = "closed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveNight:
    """The state of the fleet in one run: the finalized levels of each cluster (None = unknown), and
    the clusters with an unmuted critical finding."""

    as_of: datetime
    levels: Mapping[str, Mapping[str, int | None]]
    critical: frozenset[str]

    def state(self, work: WaveWork) -> WorkState:
        """Return the state of a cluster's changes in this run."""
        known = self.levels.get(work.cluster, {})
        levels = [(known.get(move.feature), move.to_level) for move in work.moves]
        if work.cluster in self.critical:
            return WorkState.CRITICAL
        if any(level is not None and level < goal for level, goal in levels):
            return WorkState.BEHIND
        return WorkState.UNKNOWN if any(n is None for n, _ in levels) else WorkState.AT_LEVEL


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveWait:
    """A cluster that keeps a gate closed, with the reason."""

    cluster: str
    name: str
    state: WorkState


@dataclass(frozen=True, slots=True, kw_only=True)
class NextWork:
    """The next changes in a cluster. `held`: the obstacles, null = none."""

    work: WaveWork
    held: WaveHeld | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStatus:
    """A step of the waves. `at_level` of its `clusters` are at their level.

    `since`: start of the time in which all are at their level and healthy; `until`: end of the
    soak. `waits`: clusters that keep the previous gate closed; `waits_until`: end of the previous
    soak. `next`: the possible changes. `ahead`: clusters at their level although the gate is
    closed."""

    ring: str
    number: int
    way_back: bool
    state: StepState
    clusters: int
    at_level: int
    since: datetime | None
    until: datetime | None
    waits: tuple[WaveWait, ...]
    waits_until: datetime | None
    next: tuple[NextWork, ...]
    ahead: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveStatus:
    """The progress of a wave plan in a run. `gate`: the permission to continue; `nights`: the
    number of later runs; `strangers`: clusters not in the plan; `unlocked`: held clusters that can
    now be in a ring."""

    target: str
    run: int
    as_of: datetime
    nights: int
    gate: WaveGate
    steps: tuple[StepStatus, ...]
    strangers: tuple[str, ...]
    unlocked: tuple[str, ...]


def nights_since(lake: Lake, first: int, last: int) -> Iterator[WaveNight]:
    """Yield the runs from `last` back to `first`, each read on demand."""
    for run in lake.runs["run"].to_pylist():
        if first <= run <= last:
            yield _read_night(lake, run)


def _read_night(lake: Lake, run: int) -> WaveNight:
    """Read the levels and critical findings of a run from the tables."""
    readiness = lake.rows(
        FEATURE_READINESS, run=run, columns=["cluster", "feature", "verdict", "finalized_level"]
    )
    levels = defaultdict[str, dict[str, int | None]](dict)
    for row in readiness.to_pylist():
        is_known = row["verdict"] != Verdict.UNKNOWN
        levels[row["cluster"]][row["feature"]] = row["finalized_level"] if is_known else None
    critical = {cluster for _, cluster in critical_nights(lake, run, run)}
    as_of: datetime = lake.night(run)["as_of"]
    return WaveNight(as_of=as_of, levels=levels, critical=frozenset(critical))


def critical_nights(lake: Lake, first: int, last: int) -> set[tuple[int, str]]:
    """Return (run, cluster) of each unmuted critical finding from `first` to `last`."""
    critical = ("severity", "=", Severity.CRITICAL.value), ("muted", "is null", None)
    span = ("run", ">=", first), ("run", "<=", last)
    rows = lake.read(FINDINGS, [*span, *critical], ["run", "cluster"]).to_pylist()
    return {(row["run"], row["cluster"]) for row in rows}


def waves_status(
    plan: WavePlan, run: int, nights: Iterable[WaveNight], tonight: Standings, *, later: int = 0
) -> WaveStatus:
    """Return the progress of a plan. `nights`: the runs from `run` back; `later`: the number of
    runs after the plan's."""
    looked = iter(nights)
    now = next(looked)
    since = _healthy_since(plan, now, looked)
    blocked = {c.cluster: c for c in tonight.held}
    rings = [ring.name for ring in plan.rings for _ in ring.steps]
    steps, pending, soaked = list[StepStatus](), dict[WaveWait, None](), now.as_of
    for number, (step, start) in enumerate(zip(plan.steps, since, strict=True), start=1):
        states = [now.state(work) for work in step.works]
        finished = [
            work for work, s in zip(step.works, states, strict=True) if s is WorkState.AT_LEVEL
        ]
        until = None if start is None else start + step.span
        is_open = not pending and soaked <= now.as_of
        if until is not None:
            stands = StepState.DONE if until <= now.as_of else StepState.SOAKING
        else:
            stands = StepState.OPEN if is_open else StepState.CLOSED
        steps.append(
            StepStatus(
                ring=rings[number - 1],
                number=number,
                way_back=step.way_back,
                state=stands,
                clusters=len(states),
                at_level=len(finished),
                since=start,
                until=until,
                waits=tuple(pending),
                waits_until=soaked if soaked > now.as_of and not pending else None,
                next=_next_of(step.batches, states, blocked) if stands is StepState.OPEN else (),
                ahead=() if is_open else tuple(work.name for work in finished),
            )
        )
        for work, state in zip(step.works, states, strict=True):
            if state is not WorkState.AT_LEVEL:
                pending[WaveWait(cluster=work.cluster, name=work.name, state=state)] = None
        soaked = until or now.as_of
    planned, waiting = set(plan.clusters), {c.cluster for c in plan.held}
    known_names = tonight.names.items() if plan.part is None else ()
    unlocked = (c.works[0][1].name for c in tonight.candidates if c.cluster in waiting)
    return WaveStatus(
        target=plan.target,
        run=run,
        as_of=now.as_of,
        nights=later,
        gate=_gate(steps),
        steps=tuple(steps),
        strangers=tuple(sorted(name for cluster, name in known_names if cluster not in planned)),
        unlocked=tuple(sorted(unlocked)),
    )


def _gate(steps: Sequence[StepStatus]) -> WaveGate:
    """Return the gate of the first open step."""
    reasons = {n.held.why if n.held else None for step in steps for n in step.next}
    if not reasons:
        is_done = all(step.state is StepState.DONE for step in steps)
        return WaveGate.DONE if is_done else WaveGate.SOAKING
    if None in reasons and "critical" not in reasons:
        return WaveGate.OPEN
    return WaveGate.UNKNOWN if reasons == {"UNKNOWN"} else WaveGate.CLOSED


def _healthy_since(
    plan: WavePlan, now: WaveNight, before: Iterator[WaveNight]
) -> list[datetime | None]:
    """Return, per step, the time since which it is at its level and healthy; None otherwise."""
    since: list[datetime | None] = []
    for step in plan.steps:
        is_there = all(now.state(work) is WorkState.AT_LEVEL for work in step.works)
        since.append(now.as_of if is_there else None)
    going = {k for k, start in enumerate(since) if start is not None}
    while going and (night := next(before, None)) is not None:
        for k in sorted(going):
            states = {night.state(work) for work in plan.steps[k].works}
            if states & {WorkState.BEHIND, WorkState.CRITICAL}:
                going.discard(k)
            elif WorkState.UNKNOWN not in states:
                since[k] = night.as_of
    return since


def _next_of(
    batches: Sequence[Sequence[WaveWork]], states: Sequence[WorkState], held: Mapping[str, WaveHeld]
) -> tuple[NextWork, ...]:
    """Return the changes of the first batch that is not at its level."""
    state_of = iter(states)
    for batch in batches:
        open_works = [work for work in batch if next(state_of) is not WorkState.AT_LEVEL]
        if open_works:
            return tuple(NextWork(work=work, held=held.get(work.cluster)) for work in open_works)
    return ()
