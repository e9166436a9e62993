"""Find which clusters of a run can go to a target, and put them in waves.

The run's snapshots are judged again, as the nightly judges, with metadata.version capped at the
target. READY clusters are put in rings (featurelib.extras.waves.rings); every other has its
obstacles.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from shlex import quote
from typing import Any

import numpy as np

from featurelib.api.tables import AuditInputs
from featurelib.audit.audit import Judged, judge
from featurelib.audit.evidence import Conditions
from featurelib.audit.findings import FindingWords
from featurelib.catalogue import Catalogue
from featurelib.config.fleet import FleetEntry
from featurelib.core.dialect import STRICT, load
from featurelib.errors import ConfigError
from featurelib.extras.waves.gates import critical_nights
from featurelib.extras.waves.rings import (
    NO_LABEL,
    UPGRADE_ALL,
    Candidate,
    Standings,
    WaveCommand,
    WaveHeld,
    WaveMove,
    WavePlan,
    WaveReached,
    WaveTrouble,
    WaveWork,
    Waving,
    Why,
    label_orders,
    part_moves,
    put_in_rings,
)
from featurelib.feature import METADATA_VERSION, Severity, UpgradeType, Verdict
from featurelib.findings import Advice, joined, tagged
from featurelib.lake import Lake
from featurelib.model import Move
from featurelib.planning.files import say_span
from featurelib.planning.owners import option_of, owner_command, whom_to_ask
from featurelib.questions.setbacks import ask_why, moved_levels, remembered_runs, went_down
from featurelib.rows import join_rows, make_rows, texts_of
from featurelib.schema import SNAPSHOT
from featurelib.words import clean, level_text, levels_text, time_text

Row = dict[str, Any]
SHOWN = 3  # obstacles of a cluster that are listed
_HOLDING = (Severity.CRITICAL, Severity.BLOCKER, Severity.UNKNOWN)
_TEXTS = ("message", "consequence", "action", "command")  # the texts of a finding
_LONGEST_COMMAND = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """The target of a fleet: the levels of a release; `level` None = all levels that are READY."""

    text: str
    level: int | None

    @classmethod
    def of(cls, text: str, catalogue: Catalogue) -> Aim:
        """Parse a target. Raises ConfigError for an unknown release version."""
        if text == UPGRADE_ALL:
            return cls(text=text, level=None)
        level = catalogue.whole.level_of(text, unstable=False)
        if level is None:
            releases = ", ".join(release.release for release in catalogue.releases)
            raise ConfigError(
                f"{text}: The catalogue of {catalogue.label} has no such production release. Use a "
                f"release version, such as 4.1 or 3.9-IV0, or {UPGRADE_ALL}. Its releases: "
                f"{releases}."
            )
        return cls(text=text, level=level)


def find_standings(inputs: AuditInputs, lake: Lake, run: int, target: Aim) -> Standings:
    """Return the place of each cluster in a run. Raises NoEvidenceError without snapshots."""
    rows = lake.snapshots(run)
    landed = set(rows["cluster"].to_pylist())
    missing = [entry.id for entry in inputs.fleet.cluster if entry.id not in landed]
    silent = make_rows(SNAPSHOT, len(missing), {"cluster": texts_of(missing)})
    rows = join_rows([rows, silent])
    if inputs.part is not None:
        chosen = [cluster in inputs.part for cluster in rows["cluster"].to_pylist()]
        rows = rows.take(np.flatnonzero(chosen))
    conditions = Conditions(
        as_of=lake.as_of(run),
        max_age=inputs.settings.max_age,
        inventory=inputs.fleet.inventory,
        mutes=inputs.mutes,
        up_to=target.level or 0,
    )
    dialect, severities = load(STRICT), inputs.settings.severities
    return sort_out(inputs, judge(rows, conditions, inputs.catalogue, dialect, severities), target)


def sort_out(inputs: AuditInputs, judged: Judged, target: Aim) -> Standings:
    """Return the place of each judged cluster: candidate, held, or at the target."""
    reader = _Reader(inputs, judged, target)
    places = [reader.place(row) for row in judged.plans.select(_OF_PLANS).to_pylist()]
    blocked = [standing for standing in places if isinstance(standing, WaveHeld)]
    reached = [standing for standing in places if isinstance(standing, WaveReached)]
    return Standings(
        candidates=tuple(standing for standing in places if isinstance(standing, Candidate)),
        held=tuple(sorted(blocked, key=lambda c: (c.why, c.name, c.cluster))),
        reached=tuple(sorted(reached, key=lambda c: (c.name, c.cluster))),
    )


def plan_waves(inputs: AuditInputs, lake: Lake, run: int, target: Aim, options: Waving) -> WavePlan:
    """Plan the waves for a run. Raises ConfigError for a label that no cluster has."""
    for key, values in options.by.items():
        for label in (key, *(f"{key}={value}" for value in values)):
            inputs.fleet.expect_label(f"--by {label}", label, "the inventory")
    standings = find_standings(inputs, lake, run, target)
    troubles, lower = find_setbacks(lake, run, standings, inputs.catalogue)
    options = replace(options, troubles=troubles)
    candidates = [c.with_note(lower.get(c.cluster, "")) for c in standings.candidates]
    notes = list[str]()
    for label, values in label_orders(standings.candidates, options).items():
        if len(values) > 1 and not options.by[label]:
            order = ",".join(value for value in values if value != NO_LABEL)
            notes.append(
                f"{clean(label)} has no order, so the value with the fewest nodes goes first. "
                f"Set the order: --by {quote(clean(f'{label}={order}', 300))}"
            )
    return WavePlan(
        target=target.text,
        level=target.level,
        tables=lake.root,
        run=run,
        as_of=time_text(lake.night(run)["as_of"]),
        catalogue=inputs.catalogue.label,
        part=None if inputs.part is None else inputs.part.text,
        by=tuple(options.by),
        max_parallel=options.max_parallel,
        rings=put_in_rings(candidates, options),
        held=standings.held,
        reached=standings.reached,
        notes=tuple(notes),
    )


_OF_PLANS = ["cluster", "verdict", "nodes", "mode", "release", "newest_release"]


class _Reader:
    """A converter of judged clusters to places in the waves."""

    def __init__(self, inputs: AuditInputs, judged: Judged, target: Aim) -> None:
        self._asked, self._target, self._catalogue = inputs, target, inputs.catalogue
        self._entries = {entry.id: entry for entry in inputs.fleet.cluster}
        self._features = _by_cluster(judged.readiness.to_pylist())
        severity = judged.findings["severity"].to_pylist()
        code, operator = judged.findings["code"].to_pylist(), tagged("operator", "unpinned")
        worded = operator | tagged("stale")  # one remedy for all that the range of a node blocks
        is_told = [s in _HOLDING or c in worded for s, c in zip(severity, code, strict=True)]
        holding = judged.findings.take(np.flatnonzero(is_told))
        sites = {name: entry.site for name, entry in self._entries.items()}
        words = FindingWords(inputs.catalogue).of_rows(holding, sites)
        columns = zip(*(words[name].to_pylist() for name in _TEXTS), strict=True)
        rows = holding.select(("cluster", "code", "severity", "muted")).to_pylist()
        rows = [
            row | dict(zip(_TEXTS, texts, strict=True))
            for row, texts in zip(rows, columns, strict=True)
        ]
        self._findings = _by_cluster(row for row in rows if row["severity"] in _HOLDING)
        self._of_operator = _by_cluster(row for row in rows if row["code"] in operator)

    def place(self, row: Row) -> Candidate | WaveHeld | WaveReached:
        """Return the place of a cluster, from its row of UPGRADE_PLAN."""
        cluster, verdict = row["cluster"], Verdict(row["verdict"])
        entry = self._entries.get(cluster) or FleetEntry(id=cluster)
        features, rows = self._features[cluster], self._findings[cluster]
        ready = [row for row in features if row["verdict"] == Verdict.READY]
        critical = [f for f in rows if f["severity"] == Severity.CRITICAL and f["muted"] is None]
        if verdict is Verdict.UNKNOWN:
            unlocks, missing = _unlocks(rows, first=Severity.UNKNOWN), None
            own = next((row for row in features if row["feature"] == METADATA_VERSION), None)
            if self._target.level and row["newest_release"] and own and own["ceiling"]:
                missing = self._lacks(row, features, entry)  # whoever answered does
            return _held(entry, "UNKNOWN", [missing, *unlocks] if missing else unlocks)
        if verdict is Verdict.BLOCKED:
            return _held(entry, "BLOCKED", _unlocks(rows))
        if critical:
            return _held(entry, "critical", _unlocks(critical))
        if self._target.level is not None:
            if (missing := self._lacks(row, features, entry)) is not None:
                return _held(entry, "software", [missing])
            if any(row["target"] < row["ceiling"] for row in ready):
                return _held(entry, "part", _unlocks(rows))
        if not ready:
            return WaveReached(cluster=cluster, name=clean(entry.title))
        works = self._works(entry, features, ready)
        if works is None:
            return _held(entry, "order", [])
        operator = list[Row]()
        if any(row["feature"] == METADATA_VERSION for row in ready):
            operator = [row for row in self._of_operator[cluster] if row["muted"] is None]
        if strays := [row for row in operator if row["code"] in tagged("operator")]:
            return _held(entry, "operator", _said(strays))
        note = ""
        if operator:  # it is not pinned
            note = joined("Pin it first:", *(operator[0][name] for name in _TEXTS[:3]))
        moves = (
            (move.feature, move.from_level, move.to_level) for _, w in works for move in w.moves
        )
        software = (row["mode"], row["release"], row["newest_release"], entry.managed_by)
        return Candidate(
            works=works,
            kind=(*software, *sorted(moves)),
            nodes=row["nodes"] or 0,
            labels=entry.labels,
        ).with_note(note)

    def _lacks(self, row: Row, features: Sequence[Row], entry: FleetEntry) -> Advice | None:
        """Return advice for a cluster whose software does not support the target, or None."""
        catalogue, level = self._catalogue, self._target.level
        assert level is not None
        metadata_row = next((row for row in features if row["feature"] == METADATA_VERSION), None)
        if metadata_row is not None and metadata_row["ceiling"] >= level:
            return None
        goal = f"{clean(self._target.text)} is {METADATA_VERSION} " + level_text(
            catalogue, METADATA_VERSION, level
        )
        if metadata_row is None:
            text = f"It has no {METADATA_VERSION} ({row['mode'] or 'mode not known'}), and {goal}."
            return Advice(message=text, action="Migrate it to KRaft first.")
        knows = level_text(catalogue, METADATA_VERSION, metadata_row["ceiling"])
        first = next(r.release for r in catalogue.releases if r.newest_stable >= level)
        name = quote(entry.argument)
        return Advice(
            message=f"Its software goes up to {METADATA_VERSION} {knows}, and {goal}.",
            action=f"Upgrade its software to Kafka {first} or later first.",
            command=f"featurelib can-roll {name} --to {first}{self._asked.ways(entry)}",
        )

    def _works(
        self, entry: FleetEntry, features: Sequence[Row], ready: Sequence[Row]
    ) -> tuple[tuple[bool, WaveWork], ...] | None:
        """Return the changes in a cluster, one part per step; None if they cannot be split."""
        levels = {row["feature"]: row["finalized_level"] or 0 for row in features}
        moves = [
            WaveMove(
                feature=row["feature"],
                from_level=row["finalized_level"],
                to_level=row["target"],
                way_back=row["downgrade_floor"] is not None and row["point_of_no_return"] is None,
                no_return=row["point_of_no_return"],
            )
            for row in ready
        ]
        managed = entry.managed
        owned = frozenset(m.feature for m in moves if managed is None or m.feature in managed)
        parts = part_moves(moves, owned, levels, self._catalogue)
        if parts is None:
            return None
        works = list[tuple[bool, WaveWork]]()
        for way_back, by_owner, group in parts:
            command = self._command(entry, group, by_owner=by_owner)
            if works and works[-1][0] == way_back:
                before = works[-1][1]
                works[-1] = (way_back, replace(before, does=(*before.does, command)))
            else:
                turn = len(works) + 1
                works.append((way_back, WaveWork(**_whose(entry), does=(command,), turn=turn)))
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
            command = f"featurelib plan {quote(entry.argument)} update {options}"
            command = clean(command + self._asked.ways(entry), 1000)
            return WaveCommand(by="", moves=tuple(moves), command=command)
        command = owner_command(plain, entry, self._catalogue)
        return WaveCommand(
            by=clean(entry.managed_by),
            moves=tuple(moves),
            command=clean(command, _LONGEST_COMMAND) if command else "",
            whom="" if command else clean(whom_to_ask(entry.managed_by, entry), _LONGEST_COMMAND),
        )


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


def _held(entry: FleetEntry, reason: Why, unlocks: Sequence[Advice]) -> WaveHeld:
    listed = tuple(unlocks[:SHOWN])
    return WaveHeld(**_whose(entry), why=reason, unlocks=listed, more=len(unlocks) - len(listed))


def _unlocks(rows: Iterable[Row], first: Severity = Severity.CRITICAL) -> list[Advice]:
    """Return the distinct obstacles. Severity `first` comes first, then the worst."""

    def urgency(row: Row) -> tuple[bool, int, str]:
        severity = Severity(row["severity"])
        return severity is not first, _HOLDING.index(severity), row["message"]

    return _said(sorted(rows, key=urgency))


def _said(rows: Iterable[Row]) -> list[Advice]:
    """Return the distinct texts of findings."""
    return list(dict.fromkeys(Advice(**{key: row[key] for key in _TEXTS}) for row in rows))


LONGEST = timedelta(days=30)  # later trouble is not attributed to a step


def find_setbacks(
    lake: Lake, run: int, standings: Standings, catalogue: Catalogue
) -> tuple[dict[str, WaveTrouble], dict[str, str]]:
    """Return (cluster → latest trouble after an earlier step of the same features, cluster →
    question about a downgrade)."""
    names = {candidate.cluster: candidate.works[0][1].name for candidate in standings.candidates}
    moves = (move for c in standings.candidates for _, work in c.works for move in work.moves)
    features = sorted({move.feature for move in moves})
    nights = remembered_runs(lake.read, run)
    if not names or len(nights) == 1:
        return {}, {}
    critical, troubles = critical_nights(lake, min(nights), run), dict[str, WaveTrouble]()
    lower = dict[str, str]()
    for cluster, moved in moved_levels(lake.read, nights, ("feature", "in", features)).items():
        if cluster not in names:
            continue
        if lowered := went_down(moved, nights):
            lower[cluster] = ask_why(lowered, catalogue)
        bad = {number for number in nights if (number, cluster) in critical}
        if late := list(_troubles(moved, bad, nights)):
            after, trouble, levels = max(late, key=lambda c: c[0])
            span = f"{say_span(after)} after it went to {levels_text(catalogue, levels.items())}"
            troubles[cluster] = WaveTrouble(after=after, text=f"{names[cluster]} {trouble} {span}")
    return troubles, lower


def _troubles(
    moved: Mapping[int, Mapping[str, tuple[int, int]]],
    critical: set[int],
    nights: Mapping[int, datetime],
) -> Iterator[tuple[timedelta, str, dict[str, int]]]:
    """Yield (time, text, levels) of the troubles after each step of a cluster."""
    up = {
        night: {name: high for name, (low, high) in levels.items() if low < high}
        for night, levels in moved.items()
    }
    order = list(nights)
    for night, levels in up.items():
        index = order.index(night)
        if not levels or critical.intersection(order[index - 1 : index + 1]):
            continue
        for later in order[index + 1 :]:
            after = nights[later] - nights[night]
            if after > LONGEST or up.get(later):
                break
            if later in critical or later in moved:
                trouble = "had a critical finding" if later in critical else "was taken back"
                yield after, trouble, levels
                break
