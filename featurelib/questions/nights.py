"""Tell the history of one cluster, and compare two runs, from tables.

A timeline shows what each node said itself. A range that ends lower, a missing feature, a lower
level and a smaller epoch are regressions; a range that begins higher is what newer software does.

A finding of one run counts as new or resolved only if the other run could have found it: with the
same catalogue and policy, of a cluster that was judged then, on evidence that was known then.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple, TypedDict

import numpy as np

from featurelib import tables
from featurelib.audit.findings import without_blanks, wordings
from featurelib.controller.journal import JournalEntry
from featurelib.core.dialect import STRICT, load
from featurelib.core.outcome import Fate
from featurelib.errors import NoEvidenceError
from featurelib.feature import Role, Severity, Verdict
from featurelib.findings import code_of, tagged
from featurelib.lake import FOUND, Lake
from featurelib.planning.files import SKEW
from featurelib.questions.describe import Ends
from featurelib.rows import TableRows
from featurelib.snapshot.history import (
    LOG,
    REGISTRATION,
    EpochBack,
    LevelChange,
    LevelMove,
    changed_levels,
    epochs_back,
    known_levels,
    late_since,
    level_changes,
    lowered_ceilings,
)
from featurelib.snapshot.history import Row as LevelRow
from featurelib.words import nodes

Row = dict[str, Any]
Key = tuple[Any, ...]  # of a finding, by KEY
KEY = ("cluster", "code", "role", "node_id", "feature")
_SEVERITIES = list(Severity)
BROKER, CONTROLLER = Role.BROKER.text, Role.CONTROLLER.text
_EPOCH = datetime(1970, 1, 2, tzinfo=UTC)
Ranges = Mapping[str, Ends]


class RangeMove(NamedTuple):
    """A feature's range before and after; None = not listed."""

    feature: str
    before: Ends | None
    after: Ends | None


class RangeRow(TypedDict):
    """The columns of silver.node_advertisement that a timeline is made of."""

    observed_at: datetime
    line_id: int
    witness: str
    node_id: int
    epoch: int | None
    feature: str | None
    min_version: int | None
    max_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeChange:
    """Nodes that began to support something else, between two times, in one way. `registered`: so
    their registrations say, and they did not. `first`: they were never seen before."""

    since: datetime
    until: datetime
    role: str
    node_ids: tuple[int, ...]
    registered: bool
    changes: tuple[RangeMove, ...]
    first: bool

    @property
    def who(self) -> str:
        """Return `brokers 2-3`, or `registration of broker 2`."""
        return "registration of " * self.registered + nodes(self.role, self.node_ids)

    @property
    def shrank(self) -> tuple[str, ...]:
        """The features whose maximum fell on these nodes, or that they no longer support."""
        moves = ((name, was, now) for name, was, now in self.changes if was)
        return tuple(name for name, was, now in moves if now is None or now[1] < was[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class SentLevel:
    """The sender of a finalized level, from a journal. `at` and `feature`: of the change. `entry`:
    of the journal. `approved_by`: "" = no approval was needed or kept."""

    at: datetime
    feature: str
    entry: int
    sent_at: datetime
    user: str
    host: str
    approved_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The history of a cluster, oldest first. `sent`: senders of levels, as `journal`, a file of
    this machine, knows them; None = there is no journal."""

    cluster_id: str
    ranges: tuple[RangeChange, ...]
    levels: tuple[LevelChange, ...]
    epochs: tuple[EpochBack, ...]
    sent: tuple[SentLevel, ...] = ()
    journal: str | None = None

    @property
    def regressions(self) -> int:
        """The number of changes that went back."""
        shrank = sum(1 for change in self.ranges if change.shrank)
        return shrank + sum(1 for move in self.levels if move.went_down) + len(self.epochs)


def timeline(
    cluster_id: str, advertised: Iterable[RangeRow], finalized: Iterable[LevelRow]
) -> Timeline:
    """Make the timeline of one cluster from the rows of both histories."""
    levels = list(finalized)
    return Timeline(
        cluster_id=cluster_id,
        ranges=tuple(_together(_range_changes(advertised))),
        levels=tuple(level_changes(levels)),
        epochs=tuple(epochs_back(levels)),
    )


def read_timeline(lake: Lake, cluster_id: str, run: int | None = None) -> Timeline:
    """The timeline of a cluster up to a night. Raises ConfigError for one that is not there,
    NoEvidenceError for one that never said anything."""
    advertised = lake.history(tables.NODE_ADVERTISEMENT, [cluster_id], run).to_pylist()
    finalized = lake.history(tables.FINALIZED_FEATURES, [cluster_id], run).to_pylist()
    if not advertised and not finalized:
        lake.expect_cluster(cluster_id, run)
        raise NoEvidenceError(
            f"cluster {cluster_id}: nothing that answered landed from it up to run "
            f"{lake.run(run)}. Collect it."
        )
    return timeline(cluster_id, advertised, finalized)


def find_senders(levels: Sequence[LevelChange], entries: Sequence[JournalEntry]) -> list[SentLevel]:
    """Return the sender of each level: of the last request that wrote it, sent after the feature
    was read at another level and before it was read at this one. `entries`: the cluster's."""
    senders, since = [], dict[str, tuple[datetime, datetime]]()  # the last two times it was read
    for change in levels:
        for name, _, level in change.changes:
            earlier, last = since.get(name, (_EPOCH, _EPOCH))
            after = last if last < change.at else earlier  # records of one dump have one time
            since[name] = (after, change.at)
            for entry in reversed(entries):
                sent = datetime.fromtimestamp(entry.intent.at, UTC)
                wrote = any(
                    (u.fate, u.update.feature, u.update.to_level) == (Fate.APPLIED, name, level)
                    for u in entry.updates
                )
                if wrote and after - SKEW < sent < change.at + SKEW:
                    senders.append(
                        SentLevel(
                            at=change.at,
                            feature=name,
                            entry=entry.number,
                            sent_at=sent,
                            user=entry.intent.who.user,
                            host=entry.intent.who.host,
                            approved_by=entry.intent.approved_by,
                        )
                    )
                    break
    return senders


_Who = tuple[str, int]  # a role, or what keeps registrations, and a node id
_Saying = tuple[datetime, int, int]  # when, at which epoch, in which line


def _range_changes(rows: Iterable[RangeRow]) -> Iterator[RangeChange]:
    """Yield changed answers of nodes and, beside them, registrations that differ: below protocol
    version 2.7 a broker registers nothing, whatever its software supports."""
    sayings = sorted(_sayings(rows).items())
    answers = [(key, of) for key, of in sayings if key[0] not in (LOG, REGISTRATION)]
    own = [change for key, of in answers for change in _of_node(*key, of)]
    yield from own
    known = {(change.node_ids, change.changes) for change in own}
    for change, is_seen in _registered(sayings, {key for key, _ in answers}):
        if not is_seen and (change.node_ids, change.changes) not in known:
            yield change


def _registered(
    sayings: Sequence[tuple[_Who, Mapping[_Saying, Ranges]]], answering: Set[_Who]
) -> Iterator[tuple[RangeChange, bool]]:
    """Yield the changed registrations of brokers, and whether it is the first record in the log of
    a broker that answers itself."""
    for (role, node_id), of_node in sayings:
        # The log does not say here which half of a process registered.
        if role == REGISTRATION or (role == LOG and (CONTROLLER, node_id) not in answering):
            is_answering = role == LOG and (BROKER, node_id) in answering
            for change in _of_node(BROKER, node_id, of_node, registered=True):
                yield change, change.first and is_answering


def _sayings(rows: Iterable[RangeRow]) -> dict[_Who, dict[_Saying, dict[str, Ends]]]:
    """Return the ranges of each node by what showed them and when."""
    sayings: dict[_Who, dict[_Saying, dict[str, Ends]]] = defaultdict(dict)
    for row in rows:
        role = row["witness"]
        epoch = -1 if row["epoch"] is None else row["epoch"]
        # Several records of the log stand in dumps of one time; only their offsets tell them apart.
        line = 0 if role == LOG else row["line_id"]
        saying = sayings[role, row["node_id"]].setdefault((row["observed_at"], epoch, line), {})
        if row["feature"] is not None:
            saying[row["feature"]] = Ends(row["min_version"] or 0, row["max_version"] or 0)
    return sayings


def _of_node(
    role: str, node_id: int, sayings: Mapping[_Saying, Ranges], *, registered: bool = False
) -> Iterator[RangeChange]:
    before: Ranges | None = None
    for (at, _, _), ranges in sorted(sayings.items()):
        if before is not None and (ranges == before or _is_partial(before, ranges)):
            continue
        was = before or {}
        names = sorted({name for name, _ in was.items() ^ ranges.items()})
        yield RangeChange(
            since=at,
            until=at,
            role=role,
            node_ids=(node_id,),
            registered=registered,
            changes=tuple(RangeMove(name, was.get(name), ranges.get(name)) for name in names),
            first=before is None,
        )
        before = ranges


def _is_partial(before: Ranges, ranges: Ranges) -> bool:
    """Return true if an answer only shows that it was asked below ApiVersions v4, which leaves out
    features whose minimum is 0 (KIP-1022, KAFKA-17011)."""
    left_out = [name for name in before if name not in ranges]
    kept = {name: ends for name, ends in before.items() if name in ranges}
    return bool(left_out) and kept == dict(ranges) and all(before[n][0] == 0 for n in left_out)


def _together(changes: Iterable[RangeChange]) -> Iterator[RangeChange]:
    """Sort changes by time; nodes that change alike, one after the other, are one row."""
    ordered = sorted(changes, key=lambda c: (c.since, *_series(c), c.node_ids))
    rows: list[RangeChange] = []
    for change in ordered:
        alike = next((i for i, c in enumerate(rows) if _is_alike(c, change, rows)), None)
        if alike is None:
            rows.append(change)
        else:
            ids = tuple(sorted({*rows[alike].node_ids, *change.node_ids}))
            rows[alike] = replace(rows[alike], node_ids=ids, until=change.since)
    return iter(rows)


def _is_alike(other: RangeChange, change: RangeChange, rows: Sequence[RangeChange]) -> bool:
    """Return true if a change belongs to an earlier row: no other change of its nodes since."""
    kinds = {(_series(which), which.changes, which.first) for which in (other, change)}
    if len(kinds) > 1:
        return False
    after = (later for later in rows[rows.index(other) + 1 :] if _series(later) == _series(other))
    return not any(set(later.node_ids) & {*other.node_ids, *change.node_ids} for later in after)


def _series(change: RangeChange) -> tuple[bool, str]:
    """Return the source of a change."""
    return change.registered, change.role


class State(StrEnum):
    """The fate of one finding."""

    NEW = "new"
    RESOLVED = "resolved"
    UNCHANGED = "unchanged"
    INCOMPARABLE = "incomparable"


class Why(StrEnum):
    """The reason why a finding of one run cannot be compared."""

    JUDGED_OTHERWISE = "the nights were judged by another catalogue or policy"
    NOT_JUDGED = "its cluster was judged in one of the nights only"
    UNKNOWN = "the other night's evidence was UNKNOWN"
    NO_SUCH_LEVEL = "the other night aimed at no level as high"
    FINALIZED = "the level was finalized all the same"


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelOfNights:
    """A feature, and at which level each of two nights found it finalized. `unfit`: the nodes that
    the later level does not fit, as `broker 2`."""

    feature: str
    before: int
    after: int
    unfit: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDiff:
    """A cluster, and what the inventory calls it. `before` and `after` are its verdicts, None where
    it was not judged; `critical`: whether the later night has a critical finding of it that is not
    muted. An `incomparable` row has a key more, `why`. `levels`: what is finalized at another
    level, as far as both nights knew it; 0 = not finalized. `ceilings`: the highest levels possible
    that fell though the level stayed, as its software went back. `silent_since`: when its newest
    line was read, where it fell silent between the nights."""

    cluster: str
    name: str | None
    before: str | None
    after: str | None
    critical: bool
    silent_since: datetime | None
    levels: tuple[LevelOfNights, ...]
    ceilings: tuple[LevelMove, ...]
    new: tuple[Row, ...]
    resolved: tuple[Row, ...]
    unchanged: int
    incomparable: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """Two nights. `clusters` are those with anything new, resolved or incomparable, another verdict
    or another level, or that fell silent, by id; `same` counts the others. Rows are of
    featurelib.schema.FINDING."""

    before: int
    after: int
    judged_alike: bool
    counts: Mapping[State, int]
    same: int
    clusters: tuple[ClusterDiff, ...]

    def new_at_least(self, severity: Severity) -> int:
        """Return the number of new findings, that severe or more, and not muted."""
        order = list(Severity)
        bad = set(order[: order.index(severity) + 1])
        new = (row for c in self.clusters for row in c.new)
        return sum(row["severity"] in bad and row["muted"] is None for row in new)


def diff(
    lake: Lake,
    before: int,
    after: int,
    names: Mapping[str, str] | None = None,
    part: Container[str] | None = None,
) -> Diff:
    """The night `after` against the night `before`; `names` by cluster id. `part`: the ids of the
    clusters it is about, None = all. Raises ConfigError for a night that is not there."""
    was, now = _Night(lake, before, part), _Night(lake, after, part)
    alike = was.judged_by == now.judged_by
    same = now.found & was.found
    unchanged, found = Counter(key[0] for key in same), _differing(was, now)
    every = was.verdicts.keys() | now.verdicts.keys()
    levels = _levels_moved(was, now)
    moved = {name for name in every if was.verdicts.get(name) != now.verdicts.get(name)}
    silent = {name: at for name, at in now.silent.items() if name not in was.silent}
    clusters = []
    for cluster in sorted({*found, *moved, *levels, *silent}):
        rows = {state: tuple(sorted(found[cluster][state], key=_order)) for state in State}
        changed, ceilings = levels.get(cluster, ((), ()))
        clusters.append(
            ClusterDiff(
                cluster=cluster,
                name=names.get(cluster) if names else None,
                before=was.verdicts.get(cluster),
                after=now.verdicts.get(cluster),
                critical=cluster in now.critical,
                silent_since=silent.get(cluster),
                levels=changed,
                ceilings=ceilings,
                new=rows[State.NEW],
                resolved=rows[State.RESOLVED],
                unchanged=unchanged[cluster],
                incomparable=rows[State.INCOMPARABLE],
            )
        )
    counts = {state: sum(len(rows[state]) for rows in found.values()) for state in State}
    return Diff(
        before=before,
        after=after,
        judged_alike=alike,
        counts=counts | {State.UNCHANGED: len(same)},
        same=len(every) - len(clusters),
        clusters=tuple(clusters),
    )


def _differing(was: _Night, now: _Night) -> dict[str, dict[State, list[Row]]]:
    """Return by cluster the findings that one of two runs lacks, new, resolved or incomparable."""
    changed: dict[str, dict[State, list[Row]]] = defaultdict(lambda: defaultdict(list))
    alike = was.judged_by == now.judged_by
    for night, other, state in ((was, now, State.RESOLVED), (now, was, State.NEW)):
        for row in night.rows(night.found - other.found):
            why_not = (
                Why.JUDGED_OTHERWISE if not alike else other.why_silent(row, is_new=other is was)
            )
            if why_not is None:
                changed[row["cluster"]][state].append(row)
            else:
                changed[row["cluster"]][State.INCOMPARABLE].append(row | {"why": why_not})
    return changed


_Moved = tuple[tuple[LevelOfNights, ...], tuple[LevelMove, ...]]  # levels, and ceilings


def _levels_moved(was: _Night, now: _Night) -> dict[str, _Moved]:
    """Return by cluster what is finalized at another level, of clusters that both nights judged;
    and the ceilings that fell beside that, where both judged alike."""
    moved: dict[str, _Moved] = {}
    (before, low), (after, high) = (
        [known_levels(side.readiness.values(), of) for of in ("finalized_level", "ceiling")]
        for side in (was, now)
    )
    for key in was.verdicts.keys() & now.verdicts.keys():
        pairs = changed_levels(before[key], after[key])
        fell = lowered_ceilings(low[key], high[key], pairs)
        levels = (
            LevelOfNights(feature=name, before=old, after=new, unfit=(*now.unfit[key, name],))
            for name, old, new in pairs
        )
        found = tuple(levels), tuple(fell if was.judged_by == now.judged_by else ())
        if any(found):
            moved[key] = found
    return moved


def _order(row: Row) -> tuple[object, ...]:
    """The worst first, then by code, node and feature, whatever the order of the tables' files."""
    node = -1 if row["node_id"] is None else row["node_id"]
    place = row["role"] or "", node, row["feature"] or ""
    return _SEVERITIES.index(row["severity"]), row["code"], *place, str(row["facts"])


class _Night:
    """The findings of one night, and what it knew."""

    def __init__(self, lake: Lake, run: int, part: Container[str] | None) -> None:
        row = lake.night(run)
        self.judged_by = (row["catalogue"], row["dialect"])
        self._lake, self._run = lake, run
        findings = lake.rows(tables.FINDINGS, run=run, columns=[*KEY, "severity", "muted"])
        self.found = {key for key in _keys(findings) if part is None or key[0] in part}
        rows = findings.to_pylist()
        critical = (row for row in rows if row["severity"] == "critical" and not row["muted"])
        self.critical: set[str] = {row["cluster"] for row in critical}
        columns = ["cluster", "verdict", "newest_line"]
        plans = lake.rows(tables.UPGRADE_PLANS, run=run, columns=columns).to_pylist()
        silent, verdicts = _silent(plans, rows), {row["cluster"]: row["verdict"] for row in plans}
        judged = [name for name in verdicts if part is None or name in part]
        self.verdicts: dict[str, str] = {name: verdicts[name] for name in judged}
        self.silent = {name: silent[name] for name in judged if name in silent}

    def rows(self, keys: Set[Key]) -> Iterator[Row]:
        """Yield these findings whole: no read has the order of another, so keys find the rows."""
        if keys:
            rows = self._lake.rows(tables.FINDINGS, run=self._run, columns=FOUND)
            at = [i for i, key in enumerate(_keys(rows)) if key in keys]
            yield from map(without_blanks, rows.take(np.array(at, dtype=np.int64)).to_pylist())

    def why_silent(self, row: Row, *, is_new: bool) -> Why | None:
        """Return why this run may lack a finding of another; None where its silence counts.
        `is_new`: this is the earlier night; nothing aims at a level before some node supports
        it."""
        cluster, feature = row["cluster"], row["feature"]
        if cluster not in self.verdicts:
            return Why.NOT_JUDGED
        words = wordings(load(STRICT)).get(row["code"])
        if (row["severity"] if words is None else words.severity) == Severity.UNKNOWN:
            return None  # about the evidence itself
        is_blocker = row["severity"] == Severity.BLOCKER
        halves = cluster, code_of("unfit"), row["role"], row["node_id"], feature
        if is_blocker and not is_new and halves in self.found:
            return Why.FINALIZED
        ready = self.readiness.get((cluster, feature))
        # Where nobody answers, nobody may list the feature.
        verdict = self.verdicts[cluster] if ready is None else ready["verdict"]
        if verdict == Verdict.UNKNOWN:
            return Why.UNKNOWN
        aims = None if ready is None else ready["ceiling"]
        has_level = is_blocker and row["level"] is not None
        is_lower = has_level and aims is not None and aims < row["level"]
        return Why.NO_SUCH_LEVEL if is_lower and not is_new else None

    @cached_property
    def unfit(self) -> defaultdict[tuple[str, str], list[str]]:
        """Return by cluster and feature the nodes that its finalized level does not fit."""
        nodes: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        misfits = (key for key in self.found if key[1] in tagged("unfit"))
        for cluster, _, role, node_id, feature in sorted(misfits):
            nodes[cluster, feature].append(f"{role} {node_id}")
        return nodes

    @cached_property
    def readiness(self) -> dict[tuple[str, str], Row]:
        columns = ["cluster", "feature", "verdict", "finalized_level", "ceiling"]
        rows = self._lake.rows(tables.FEATURE_READINESS, run=self._run, columns=columns)
        return {(row["cluster"], row["feature"]): row for row in rows.to_pylist()}


def _silent(plans: Sequence[Row], findings: Sequence[Row]) -> dict[str, datetime]:
    """Return the clusters that sent no data in a run, each with the time of its newest line."""
    codes = defaultdict[str, list[tuple[str, str | None]]](list)
    for row in findings:
        if row["code"] in tagged("too_old", "unreached"):
            codes[row["cluster"]].append((row["code"], row["muted"]))
    newest = max(filter(None, (row["newest_line"] for row in plans)), default=None)
    since = {r["cluster"]: late_since(r["newest_line"], newest, codes[r["cluster"]]) for r in plans}
    return {cluster: at for cluster, at in since.items() if at}


def _keys(findings: TableRows) -> list[Key]:
    """Return the keys that tell findings of a run apart; the cluster first."""
    return list(zip(*(findings[name].to_pylist() for name in KEY), strict=True))
