"""Which clusters of a night can go to a target, and how far the waves of a plan have come.

The night's snapshots are judged once more, as the nightly judges, with metadata.version capped at
the target. Who is READY for all of it is put in rings (featurelib.planning.waves); each of the
others stands there with what holds it. Nothing that is missing is taken for good.

How far the waves are, the nights since say: a step is done when each of its clusters was at its
level, without a critical finding, for as long as it soaks. A night in which nobody knows the level
of a cluster neither begins nor ends that time; in the newest night all of it has to be known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from shlex import quote
from typing import Any

import numpy as np

from featurelib.audit.audit import Judged, judge
from featurelib.audit.evidence import Conditions
from featurelib.audit.findings import FindingWords, Mute
from featurelib.catalogue import Catalogue
from featurelib.config.fleet import Fleet, FleetEntry, FleetPart
from featurelib.config.settings import Settings
from featurelib.core.dialect import STRICT, load
from featurelib.errors import ConfigError
from featurelib.feature import METADATA_VERSION, Severity, UpgradeType, Verdict
from featurelib.lake import Lake
from featurelib.model import Move
from featurelib.planning.files import parse_span
from featurelib.planning.owners import option_of, owner_command, whom_to_ask
from featurelib.planning.waves import (
    NO_LABEL,
    UPGRADE_ALL,
    Candidate,
    WaveCommand,
    WaveHeld,
    WaveMove,
    WavePlan,
    WaveReached,
    WaveUnlock,
    WaveWork,
    Waving,
    Why,
    part_moves,
    put_in_rings,
)
from featurelib.rows import join_rows, make_rows, texts_of
from featurelib.schema import SNAPSHOT
from featurelib.tables import FEATURE_READINESS, FINDINGS
from featurelib.words import clean, level_text, time_text

Row = dict[str, Any]
SHOWN = 3  # things in the way of a cluster that are listed
_HOLDING = (Severity.CRITICAL, Severity.BLOCKER, Severity.UNKNOWN)
# Where Strimzi's command would change nothing, or ours would be set back.
_OPERATOR = ("strimzi_not_in_inventory", "strimzi_not_carried_out", "strimzi_contradicted")
_UNPINNED = "metadata_version_not_pinned"
_LONGEST_COMMAND = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """Where a fleet goes: to the levels of a release version, up to its metadata.version `level`,
    or with `level` None every feature as far as it is READY."""

    text: str
    level: int | None

    @classmethod
    def of(cls, text: str, catalogue: Catalogue) -> Aim:
        """Read what was asked for. Raises ConfigError for a release version that is not known."""
        if text == UPGRADE_ALL:
            return cls(text=text, level=None)
        level = catalogue.whole.level_of(text, unstable=False)
        if level is None:
            known = ", ".join(release.release for release in catalogue.releases)
            raise ConfigError(
                f"{text}: expected a release version, as 4.1 or 3.9-IV0, or {UPGRADE_ALL}, found "
                f"none that the catalogue of {catalogue.label} knows for production. Its releases: "
                f"{known}."
            )
        return cls(text=text, level=level)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standings:
    """Each cluster of a night in one of three places."""

    candidates: tuple[Candidate, ...]
    held: tuple[WaveHeld, ...]
    reached: tuple[WaveReached, ...]

    @property
    def names(self) -> dict[str, str]:
        """What people call each cluster, by its id."""
        found = {one.cluster: one.works[0][1].name for one in self.candidates}
        found |= {one.cluster: one.name for one in self.held}
        return found | {one.cluster: one.name for one in self.reached}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Who asks: the inventory and the clusters of it that were chosen (None: all), the settings
    with their mutes, the catalogue; `ways`: options, after a blank each, that commands need."""

    fleet: Fleet
    part: FleetPart | None
    settings: Settings
    mutes: tuple[Mute, ...]
    catalogue: Catalogue
    ways: str = ""

    def standings(self, lake: Lake, run: int, target: Aim) -> Standings:
        """Where each cluster of that night stands. Raises NoEvidenceError without snapshots."""
        rows = lake.snapshots(run)
        landed = set(rows["cluster"].to_pylist())
        never = [entry.id for entry in self.fleet.cluster if entry.id not in landed]
        silent = make_rows(SNAPSHOT, len(never), {"cluster": texts_of(never)})
        rows = join_rows([rows, silent])
        if self.part is not None:
            chosen = [cluster in self.part for cluster in rows["cluster"].to_pylist()]
            rows = rows.take(np.flatnonzero(chosen))
        conditions = Conditions(
            as_of=lake.as_of(run),
            max_age=self.settings.max_age,
            inventory=self.fleet.inventory,
            mutes=self.mutes,
            up_to=target.level or 0,
        )
        dialect, severities = load(STRICT), self.settings.severities
        return self.sort_out(judge(rows, conditions, self.catalogue, dialect, severities), target)

    def sort_out(self, judged: Judged, target: Aim) -> Standings:
        """The place of each cluster that was judged."""
        candidates, held, reached = list[Candidate](), list[WaveHeld](), list[WaveReached]()
        reader = _Reader(self, judged, target)
        for row in judged.plans.select(_OF_PLANS).to_pylist():
            place = reader.place(row)
            if isinstance(place, Candidate):
                candidates.append(place)
            elif isinstance(place, WaveHeld):
                held.append(place)
            else:
                reached.append(place)
        held.sort(key=lambda one: (one.why, one.name, one.cluster))
        reached.sort(key=lambda one: (one.name, one.cluster))
        return Standings(candidates=tuple(candidates), held=tuple(held), reached=tuple(reached))

    def plan(self, lake: Lake, run: int, target: Aim, wanted: Waving) -> WavePlan:
        """The waves of that night. Raises ConfigError for a label nobody has."""
        self._expect_label(wanted)
        found = self.standings(lake, run, target)
        rings, values = put_in_rings(found.candidates, wanted)
        notes = list[str]()
        if values and not wanted.values and len(values) > 1:
            order = ",".join(value for value in values if value != NO_LABEL)
            notes.append(
                f"The order of {clean(wanted.by or '')} was not named: the value with the fewest "
                f"nodes goes first. Name it: --by {quote(clean(f'{wanted.by}={order}', 300))}"
            )
        return WavePlan(
            target=target.text,
            level=target.level,
            tables=lake.root,
            run=run,
            as_of=time_text(lake.night(run)["as_of"]),
            catalogue=self.catalogue.label,
            part=None if self.part is None else self.part.text,
            by=wanted.by,
            max_parallel=wanted.max_parallel,
            rings=rings,
            held=found.held,
            reached=found.reached,
            notes=tuple(notes),
        )

    def _expect_label(self, wanted: Waving) -> None:
        """Raises ConfigError for a label, or a value of it, that no cluster has."""
        if wanted.by is not None:
            labels = [wanted.by, *(f"{wanted.by}={value}" for value in wanted.values)]
            for label in labels:
                self.fleet.expect_label(f"--by {label}", label, "the inventory")


_OF_PLANS = ["cluster", "verdict", "nodes", "mode", "release", "newest_release"]


class _Reader:
    """Reads what was judged, cluster by cluster."""

    def __init__(self, asked: Asked, judged: Judged, target: Aim) -> None:
        self._asked, self._target, self._catalogue = asked, target, asked.catalogue
        self._entries = {entry.id: entry for entry in asked.fleet.cluster}
        self._features = _by_cluster(judged.readiness.to_pylist())
        severity = judged.findings["severity"].to_pylist()
        code, others = judged.findings["code"].to_pylist(), (*_OPERATOR, _UNPINNED)
        tells = [s in _HOLDING or c in others for s, c in zip(severity, code, strict=True)]
        holding = judged.findings.take(np.flatnonzero(tells))
        sites = {name: entry.site for name, entry in self._entries.items()}
        words = FindingWords(asked.catalogue).of_rows(holding, sites)
        columns = [holding[name].to_pylist() for name in ("cluster", "code", "severity", "muted")]
        columns += [words[name].to_pylist() for name in ("message", "remedy", "command")]
        names = ("cluster", "code", "severity", "muted", "message", "remedy", "command")
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        self._findings = _by_cluster(row for row in rows if row["severity"] in _HOLDING)
        self._of_operator = _by_cluster(row for row in rows if row["code"] in others)

    def place(self, row: Row) -> Candidate | WaveHeld | WaveReached:
        """Where a cluster stands, by its row of featurelib.schema.UPGRADE_PLAN."""
        cluster, verdict = row["cluster"], Verdict(row["verdict"])
        entry = self._entries.get(cluster) or FleetEntry(id=cluster)
        features, found = self._features[cluster], self._findings[cluster]
        ready = [one for one in features if one["verdict"] == Verdict.READY]
        critical = [f for f in found if f["severity"] == Severity.CRITICAL and f["muted"] is None]
        if verdict is Verdict.UNKNOWN:
            unlocks, lacks = _unlocks(found, first=Severity.UNKNOWN), None
            own = next((one for one in features if one["feature"] == METADATA_VERSION), None)
            if self._target.level and row["newest_release"] and own and own["ceiling"]:
                lacks = self._lacks(row, features, entry)  # whoever answered does
            return _held(entry, "UNKNOWN", [lacks, *unlocks] if lacks else unlocks)
        if verdict is Verdict.BLOCKED:
            return _held(entry, "BLOCKED", _unlocks(found))
        if critical:
            return _held(entry, "critical", _unlocks(critical))
        if self._target.level is not None:
            if (lacks := self._lacks(row, features, entry)) is not None:
                return _held(entry, "software", [lacks])
            if any(one["target"] < one["ceiling"] for one in ready):
                return _held(entry, "part", _unlocks(found))
        if not ready:
            return WaveReached(cluster=cluster, name=clean(entry.title))
        works = self._works(entry, features, ready)
        if works is None:
            return _held(entry, "order", [])
        operator = list[Row]()
        if any(one["feature"] == METADATA_VERSION for one in ready):
            operator = [one for one in self._of_operator[cluster] if one["muted"] is None]
        if strays := [one for one in operator if one["code"] in _OPERATOR]:
            return _held(entry, "operator", _said(strays))
        if operator:  # it is not pinned
            note = f"Pin it first: {operator[0]['message']} {operator[0]['remedy']}"
            works = ((works[0][0], replace(works[0][1], note=note)), *works[1:])
        moves = (
            (move.feature, move.from_level, move.to_level) for _, w in works for move in w.moves
        )
        software = (row["mode"], row["release"], row["newest_release"], entry.managed_by)
        return Candidate(
            works=works,
            kind=(*software, *sorted(moves)),
            nodes=row["nodes"] or 0,
            labels=entry.labels,
        )

    def _lacks(self, row: Row, features: Sequence[Row], entry: FleetEntry) -> WaveUnlock | None:
        """What is said where the software of a cluster does not know the target."""
        catalogue, level = self._catalogue, self._target.level
        assert level is not None
        own = next((one for one in features if one["feature"] == METADATA_VERSION), None)
        if own is not None and own["ceiling"] >= level:
            return None
        there = f"{clean(self._target.text)} is {METADATA_VERSION} " + level_text(
            catalogue, METADATA_VERSION, level
        )
        if own is None:
            said = f"It has no {METADATA_VERSION} ({row['mode'] or 'mode not known'}), and {there}."
            return WaveUnlock(message=said, remedy="Migrate it to KRaft first.", command="")
        knows = level_text(catalogue, METADATA_VERSION, own["ceiling"])
        first = next(r.release for r in catalogue.releases if r.newest_stable >= level)
        return WaveUnlock(
            message=f"Its software goes up to {METADATA_VERSION} {knows}, and {there}.",
            remedy=f"Upgrade its software to Kafka {first} or later first.",
            command=f"featurelib roll {self._name(entry)} --to {first}{self._asked.ways}",
        )

    def _works(
        self, entry: FleetEntry, features: Sequence[Row], ready: Sequence[Row]
    ) -> tuple[tuple[bool, WaveWork], ...] | None:
        """What is done in a cluster, a work for each step; None if it cannot be told apart."""
        levels = {one["feature"]: one["finalized_level"] or 0 for one in features}
        moves = [
            WaveMove(
                feature=one["feature"],
                from_level=one["finalized_level"],
                to_level=one["target"],
                way_back=one["downgrade_floor"] is not None and one["point_of_no_return"] is None,
                no_return=one["point_of_no_return"],
            )
            for one in ready
        ]
        managed = entry.managed
        theirs = frozenset(m.feature for m in moves if managed is None or m.feature in managed)
        parts = part_moves(moves, theirs, levels, self._catalogue)
        if parts is None:
            return None
        works = list[tuple[bool, WaveWork]]()
        for way_back, by_owner, some in parts:
            does = self._command(entry, some, by_owner=by_owner)
            if works and works[-1][0] == way_back:
                before = works[-1][1]
                works[-1] = (way_back, replace(before, does=(*before.does, does)))
            else:
                works.append((way_back, WaveWork(**_whose(entry), does=(does,))))
        return tuple(works)

    def _command(
        self, entry: FleetEntry, moves: Sequence[WaveMove], *, by_owner: bool
    ) -> WaveCommand:
        plain = [
            Move(
                feature=move.feature,
                from_level=move.from_level,
                to_level=move.to_level,
                upgrade_type=UpgradeType.UPGRADE.name,
            )
            for move in moves
        ]
        if not by_owner:
            options = " ".join(map(option_of, plain))
            command = f"featurelib plan {self._name(entry)} update {options}{self._asked.ways}"
            return WaveCommand(by="", moves=tuple(moves), command=clean(command, 1000))
        command = owner_command(plain, entry, self._catalogue)
        return WaveCommand(
            by=clean(entry.managed_by),
            moves=tuple(moves),
            command=clean(command, _LONGEST_COMMAND) if command else "",
            whom="" if command else clean(whom_to_ask(entry.managed_by, entry), _LONGEST_COMMAND),
        )

    def _name(self, entry: FleetEntry) -> str:
        """What a command calls the cluster: its id where its name cannot be typed as it is."""
        plain = clean(entry.title) == entry.title and not entry.title.startswith("-")
        return quote(entry.title if plain else entry.id)


def _by_cluster(rows: Iterable[Row]) -> defaultdict[str, list[Row]]:
    groups = defaultdict[str, list[Row]](list)
    for row in rows:
        groups[row["cluster"]].append(row)
    return groups


def _whose(entry: FleetEntry) -> dict[str, Any]:
    return {
        "cluster": entry.id,
        "name": clean(entry.title),
        "owner": clean(entry.owner) if entry.owner else None,
        "contact": clean(entry.contact) if entry.contact else None,
    }


def _held(entry: FleetEntry, why: Why, unlocks: Sequence[WaveUnlock]) -> WaveHeld:
    shown = tuple(unlocks[:SHOWN])
    return WaveHeld(**_whose(entry), why=why, unlocks=shown, more=len(unlocks) - len(shown))


def _unlocks(found: Iterable[Row], first: Severity = Severity.CRITICAL) -> list[WaveUnlock]:
    """What is in the way, the worst first or what is of the severity `first`, each once."""

    def turn(row: Row) -> tuple[bool, int, str]:
        severity = Severity(row["severity"])
        return severity is not first, _HOLDING.index(severity), row["message"]

    return _said(sorted(found, key=turn))


def _said(found: Iterable[Row]) -> list[WaveUnlock]:
    """What findings say, each once."""
    keys = ("message", "remedy", "command")
    return list(dict.fromkeys(WaveUnlock(**{key: row[key] for key in keys}) for row in found))


# --- How far the waves are ------------------------------------------------------------------------


class WorkState(StrEnum):
    """Where a cluster stands with what a step does in it."""

    AT_LEVEL = "at its level"
    BEHIND = "not at its level"
    CRITICAL = "critical finding"
    UNKNOWN = "not known"


class StepState(StrEnum):
    """Where a step of the waves stands."""

    DONE = "done"
    SOAKING = "soaking"
    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveNight:
    """What one night found: the finalized level of each feature of each cluster, None = not known;
    and the clusters with a critical finding that nothing mutes."""

    as_of: datetime
    levels: Mapping[str, Mapping[str, int | None]]
    critical: frozenset[str]

    def state(self, work: WaveWork) -> WorkState:
        """Where a cluster stood then."""
        known = self.levels.get(work.cluster, {})
        levels = [(known.get(move.feature), move.to_level) for move in work.moves]
        if work.cluster in self.critical:
            return WorkState.CRITICAL
        if any(level is not None and level < wanted for level, wanted in levels):
            return WorkState.BEHIND
        return WorkState.UNKNOWN if any(n is None for n, _ in levels) else WorkState.AT_LEVEL


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveWait:
    """A cluster that keeps a gate closed, and why."""

    cluster: str
    name: str
    state: WorkState


@dataclass(frozen=True, slots=True, kw_only=True)
class NextWork:
    """What may be done now in a cluster; `held`: what is in its way tonight, null = nothing."""

    work: WaveWork
    held: WaveHeld | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStatus:
    """One step: of `clusters` so many are `at_level`.

    `since`: from when on all of them are at their level and healthy; `until`: the end of the soak.
    `waits`: who keeps the gate before it closed; `waits_until`: or the soak of the step before.
    `next`: what may be done now. `ahead`: clusters that are at their level though the gate is
    closed.
    """

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
    """How far a plan of waves is by a night. `nights`: how many were looked at, back to the one it
    was made from at most. `strangers`: clusters that are in no place of it, none where it is about
    a part of the fleet; `unlocked`: those that it holds, and that could be in a ring by now. Both
    are taken in when the plan is made again."""

    target: str
    run: int
    as_of: datetime
    nights: int
    is_done: bool
    steps: tuple[StepStatus, ...]
    strangers: tuple[str, ...]
    unlocked: tuple[str, ...]


def read_night(lake: Lake, run: int) -> WaveNight:
    """What a night of the tables says about levels and health."""
    readiness = lake.rows(
        FEATURE_READINESS, run=run, columns=["cluster", "feature", "verdict", "finalized_level"]
    )
    levels = defaultdict[str, dict[str, int | None]](dict)
    for row in readiness.to_pylist():
        is_known = row["verdict"] != Verdict.UNKNOWN
        levels[row["cluster"]][row["feature"]] = row["finalized_level"] if is_known else None
    found = lake.rows(FINDINGS, run=run, columns=["cluster", "severity", "muted"])
    critical = found.texts("severity").equal(Severity.CRITICAL) & (found.texts("muted").codes < 0)
    hit = found["cluster"].take(np.flatnonzero(critical)).to_pylist()
    as_of: datetime = lake.night(run)["as_of"]
    return WaveNight(as_of=as_of, levels=levels, critical=frozenset(hit))


def nights_since(lake: Lake, first: int, last: int) -> Iterator[WaveNight]:
    """The nights from `last` back to `first`, each read when it is asked for."""
    for run in lake.runs["run"].to_pylist():
        if first <= run <= last:
            yield read_night(lake, run)


def waves_status(
    plan: WavePlan, run: int, nights: Iterable[WaveNight], tonight: Standings
) -> WaveStatus:
    """How far a plan is; `nights` from `run` back, at least one."""
    steps, looked = plan.steps, iter(nights)
    now = next(looked)
    states = [[now.state(work) for work in step.works] for step in steps]
    since, read = _healthy_since(plan, now, looked)
    ends = [
        None if start is None else start + _soak_of(step)
        for step, start in zip(steps, since, strict=True)
    ]
    held = {one.cluster: one for one in tonight.held}
    rings = [ring.name for ring in plan.rings for _ in ring.steps]
    found = list[StepStatus]()
    for k, step in enumerate(steps):
        waits = dict.fromkeys(
            WaveWait(cluster=work.cluster, name=work.name, state=state)
            for before, known in zip(steps[:k], states[:k], strict=True)
            for work, state in zip(before.works, known, strict=True)
            if state is not WorkState.AT_LEVEL
        )
        end = ends[k - 1] if k else None
        soaks = end is not None and end > now.as_of
        is_open, there = not waits and not soaks, [s is WorkState.AT_LEVEL for s in states[k]]
        until = ends[k]
        if all(there) and until is not None:
            state = StepState.DONE if until <= now.as_of else StepState.SOAKING
        else:
            state = StepState.OPEN if is_open else StepState.CLOSED
        is_next = state is StepState.OPEN
        ahead = [w.name for w, at in zip(step.works, there, strict=True) if at and not is_open]
        found.append(
            StepStatus(
                ring=rings[k],
                number=k + 1,
                way_back=step.way_back,
                state=state,
                clusters=len(there),
                at_level=sum(there),
                since=since[k],
                until=until,
                waits=tuple(waits),
                waits_until=end if soaks and not waits else None,
                next=_next_of(step.batches, states[k], held) if is_next else (),
                ahead=tuple(ahead),
            )
        )
    known, waiting = set(plan.clusters), {one.cluster for one in plan.held}
    others = tonight.names.items() if plan.part is None else ()
    strangers = (name for cluster, name in others if cluster not in known)
    unlocked = (c.works[0][1].name for c in tonight.candidates if c.cluster in waiting)
    return WaveStatus(
        target=plan.target,
        run=run,
        as_of=now.as_of,
        nights=read,
        is_done=all(one.state is StepState.DONE for one in found),
        steps=tuple(found),
        strangers=tuple(sorted(strangers)),
        unlocked=tuple(sorted(unlocked)),
    )


def _soak_of(step: Any) -> timedelta:
    span = parse_span(step.soak)
    assert span is not None  # of a plan that was read
    return span


def _healthy_since(
    plan: WavePlan, now: WaveNight, before: Iterator[WaveNight]
) -> tuple[list[datetime | None], int]:
    """Since when each step is at its level and healthy, None = it is not; and how many nights that
    took to know."""
    since: list[datetime | None] = []
    for step in plan.steps:
        is_there = all(now.state(work) is WorkState.AT_LEVEL for work in step.works)
        since.append(now.as_of if is_there else None)
    going, read = {k for k, start in enumerate(since) if start is not None}, 1
    while going and (night := next(before, None)) is not None:
        read += 1
        for k in sorted(going):
            states = {night.state(work) for work in plan.steps[k].works}
            if states & {WorkState.BEHIND, WorkState.CRITICAL}:
                going.discard(k)
            elif WorkState.UNKNOWN not in states:
                since[k] = night.as_of
    return since, read


def _next_of(
    batches: Sequence[Sequence[WaveWork]], states: Sequence[WorkState], held: Mapping[str, WaveHeld]
) -> tuple[NextWork, ...]:
    """The works of the first batch that is not at its level."""
    known = iter(states)
    for batch in batches:
        left = [work for work in batch if next(known) is not WorkState.AT_LEVEL]
        if left:
            return tuple(NextWork(work=work, held=held.get(work.cluster)) for work in left)
    return ()
