"""Read the timeline of one cluster from the nightly's histories.

A timeline shows the responses of each node. A lower maximum, a missing feature, a lower level and a
smaller epoch are regressions; a higher minimum is normal for newer software.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple, TypedDict

from featurelib import tables
from featurelib.controller.journal import JournalEntry
from featurelib.core.outcome import Fate
from featurelib.errors import NoEvidenceError
from featurelib.feature import Role
from featurelib.lake import Lake
from featurelib.planning.files import SKEW
from featurelib.questions.describe import Ends
from featurelib.snapshot.history import (
    LOG,
    REGISTRATION,
    EpochBack,
    LevelChange,
    epochs_back,
    level_changes,
)
from featurelib.snapshot.history import Row as LevelRow
from featurelib.words import nodes

BROKER, CONTROLLER = Role.BROKER.text, Role.CONTROLLER.text
_EPOCH = datetime(1970, 1, 2, tzinfo=UTC)
Ranges = Mapping[str, Ends]


class RangeMove(NamedTuple):
    """A change of a feature's supported range; None = the feature is not listed."""

    feature: str
    before: Ends | None
    after: Ends | None


class RangeRow(TypedDict):
    """The columns of silver.node_advertisement that the timeline reads."""

    observed_at: datetime
    line_id: int
    role: str
    node_id: int
    epoch: int | None
    feature: str | None
    min_version: int | None
    max_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeChange:
    """The nodes whose ranges changed in the same way between two times. `registered`: the
    registrations changed, not the responses; `first`: the nodes are new."""

    since: datetime
    until: datetime
    role: str
    node_ids: tuple[int, ...]
    registered: bool
    changes: tuple[RangeMove, ...]
    first: bool

    @property
    def who(self) -> str:
        """The nodes as text: `brokers 2-3`, or `registration of broker 2`."""
        return "registration of " * self.registered + nodes(self.role, self.node_ids)

    @property
    def shrank(self) -> tuple[str, ...]:
        """The features whose maximum decreased on these nodes, or that the nodes no longer list."""
        moves = ((name, old, new) for name, old, new in self.changes if old)
        return tuple(name for name, old, new in moves if new is None or new[1] < old[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class SentLevel:
    """The sender of a finalized level, from a journal. `at`, `feature`: of the change; `entry`: the
    number in the journal; `approved_by`: "" if not recorded."""

    at: datetime
    feature: str
    entry: int
    sent_at: datetime
    user: str
    host: str
    approved_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The history of a cluster, oldest change first. `sent`: the senders of levels; `journal`: the
    file that records them, None without journal."""

    cluster_id: str
    ranges: tuple[RangeChange, ...]
    levels: tuple[LevelChange, ...]
    epochs: tuple[EpochBack, ...]
    sent: tuple[SentLevel, ...] = ()
    journal: str | None = None

    @property
    def regressions(self) -> int:
        """The number of regressions in the history."""
        shrank = sum(1 for change in self.ranges if change.shrank)
        return shrank + sum(1 for move in self.levels if move.went_down) + len(self.epochs)


def timeline(
    cluster_id: str, advertised: Iterable[RangeRow], finalized: Iterable[LevelRow]
) -> Timeline:
    """Return the timeline of a cluster, from the rows of both history tables."""
    levels = list(finalized)
    return Timeline(
        cluster_id=cluster_id,
        ranges=tuple(_together(_range_changes(advertised))),
        levels=tuple(level_changes(levels)),
        epochs=tuple(epochs_back(levels)),
    )


def read_timeline(lake: Lake, cluster_id: str, run: int | None = None) -> Timeline:
    """Read the timeline of a cluster up to a run. Raises ConfigError (unknown cluster),
    NoEvidenceError (no data)."""
    advertised = lake.history(tables.NODE_ADVERTISEMENT, [cluster_id], run).to_pylist()
    finalized = lake.history(tables.FINALIZED_FEATURES, [cluster_id], run).to_pylist()
    if not advertised and not finalized:
        lake.expect_cluster(cluster_id, run)
        raise NoEvidenceError(
            f"cluster {cluster_id}: no response of this cluster was collected up to run "
            f"{lake.run(run)}. Collect it."
        )
    return timeline(cluster_id, advertised, finalized)


def find_senders(levels: Sequence[LevelChange], entries: Sequence[JournalEntry]) -> list[SentLevel]:
    """Return the sender of each level: the last request for it between the collections before and
    after the change. `entries`: the journal entries of the cluster."""
    senders, since = [], dict[str, tuple[datetime, datetime]]()  # times of the last two readings
    for change in levels:
        for name, _, level in change.changes:
            earlier, last = since.get(name, (_EPOCH, _EPOCH))
            after = last if last < change.at else earlier  # records of one dump have equal times
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


_Who = tuple[str, int]  # a role or the source of registrations, and a node id
_Saying = tuple[datetime, int, int]  # (time, epoch, line) of a response


def _range_changes(rows: Iterable[RangeRow]) -> Iterator[RangeChange]:
    """Yield changed responses of nodes, and registrations that differ from responses."""
    sayings = sorted(_sayings(rows).items())
    answers = [(key, ranges) for key, ranges in sayings if key[0] not in (LOG, REGISTRATION)]
    changes = [change for key, ranges in answers for change in _of_node(*key, ranges)]
    yield from changes
    reported = {(change.node_ids, change.changes) for change in changes}
    for change, is_seen in _registered(sayings, {key for key, _ in answers}):
        if not is_seen and (change.node_ids, change.changes) not in reported:
            yield change


def _registered(
    sayings: Sequence[tuple[_Who, Mapping[_Saying, Ranges]]], answering: Set[_Who]
) -> Iterator[tuple[RangeChange, bool]]:
    """Yield (changed registration of a broker, is first). `is first`: the first log record about a
    broker that also responds."""
    for (role, node_id), of_node in sayings:
        # The log does not show whether a broker or a controller registered.
        if role == REGISTRATION or (role == LOG and (CONTROLLER, node_id) not in answering):
            is_answering = role == LOG and (BROKER, node_id) in answering
            for change in _of_node(BROKER, node_id, of_node, registered=True):
                yield change, change.first and is_answering


def _sayings(rows: Iterable[RangeRow]) -> dict[_Who, dict[_Saying, dict[str, Ends]]]:
    """Return (source, node) → (time, epoch, line) → ranges."""
    sayings: dict[_Who, dict[_Saying, dict[str, Ends]]] = defaultdict(dict)
    for row in rows:
        role = row["role"]
        epoch = -1 if row["epoch"] is None else row["epoch"]
        # Several records of one dump have equal times; only their offsets distinguish them.
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
        old = before or {}
        # ApiVersions below v4 omits features with minimum 0 (KAFKA-17011).
        is_partial = all(old[name][0] == 0 for name in old.keys() - ranges.keys())
        if before is not None and is_partial and ranges.items() <= before.items():
            continue
        names = sorted({name for name, _ in old.items() ^ ranges.items()})
        yield RangeChange(
            since=at,
            until=at,
            role=role,
            node_ids=(node_id,),
            registered=registered,
            changes=tuple(RangeMove(name, old.get(name), ranges.get(name)) for name in names),
            first=before is None,
        )
        before = ranges


def _together(changes: Iterable[RangeChange]) -> Iterator[RangeChange]:
    """Yield the changes sorted by time. Consecutive equal changes of several nodes are joined."""
    ordered = sorted(changes, key=lambda c: (c.since, *_series(c), c.node_ids))
    rows: list[RangeChange] = []
    for change in ordered:
        match = next((i for i, c in enumerate(rows) if _is_alike(c, change, rows)), None)
        if match is None:
            rows.append(change)
        else:
            ids = tuple(sorted({*rows[match].node_ids, *change.node_ids}))
            rows[match] = replace(rows[match], node_ids=ids, until=change.since)
    return iter(rows)


def _is_alike(other: RangeChange, change: RangeChange, rows: Sequence[RangeChange]) -> bool:
    """Return true if a change can be joined with an earlier one: both are equal, and the nodes did
    not change in between."""
    kinds = {(_series(c), c.changes, c.first) for c in (other, change)}
    if len(kinds) > 1:
        return False
    after = (later for later in rows[rows.index(other) + 1 :] if _series(later) == _series(other))
    return not any(set(later.node_ids) & {*other.node_ids, *change.node_ids} for later in after)


def _series(change: RangeChange) -> tuple[bool, str]:
    """Return (is a registration, role) of a change."""
    return change.registered, change.role
