"""Who could what when in one cluster, levels by epoch, and everything that went back.

Told by the histories of silver, as every node said it itself. A range that ends lower, a feature
that is gone, a level that is lower and an epoch that is smaller are regressions; a range that
begins higher is what newer software does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple, TypedDict

from featurelib.errors import NoEvidenceError
from featurelib.feature import Role, Witness
from featurelib.lake import Lake
from featurelib.questions.describe import Ends
from featurelib.snapshot.history import LOG, LevelChange, level_changes
from featurelib.snapshot.history import Row as LevelRow
from featurelib.tables import FINALIZED_FEATURES, NODE_ADVERTISEMENT

BROKER, CONTROLLER = Role.BROKER.text, Role.CONTROLLER.text
REGISTRATION = "registration"  # what a broker of ZooKeeper mode stored of itself
TOOL = Witness.TOOL.name.lower()
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


class EpochRow(LevelRow):
    """The same of silver.finalized_features, with who said it."""

    node_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeChange:
    """Nodes that began to support something else, between two times, in one way. `first`: they
    were never seen before."""

    since: datetime
    until: datetime
    role: str
    node_ids: tuple[int, ...]
    changes: tuple[RangeMove, ...]
    first: bool

    @property
    def shrank(self) -> tuple[str, ...]:
        """The features that these nodes support less far than before, or no longer."""
        return tuple(name for name, was, now in self.changes if was and _shrank(was, now))


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochBack:
    """A witness whose epoch is smaller than the one it had said before."""

    at: datetime
    witness: str
    node_id: int | None
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """One cluster, each part oldest first."""

    cluster_id: str
    ranges: tuple[RangeChange, ...]
    levels: tuple[LevelChange, ...]
    epochs: tuple[EpochBack, ...]

    @property
    def regressions(self) -> int:
        """How many changes went back."""
        shrank = sum(1 for change in self.ranges if change.shrank)
        return shrank + sum(1 for one in self.levels if one.went_down) + len(self.epochs)


def timeline(
    cluster_id: str, advertised: Iterable[RangeRow], finalized: Iterable[EpochRow]
) -> Timeline:
    """Make the timeline of one cluster from the rows of both histories."""
    levels = list(finalized)
    return Timeline(
        cluster_id=cluster_id,
        ranges=tuple(_together(_range_changes(advertised))),
        levels=tuple(level_changes(levels)),
        epochs=tuple(sorted(_epochs_back(levels), key=lambda one: one.at)),
    )


def read_timeline(lake: Lake, cluster_id: str, run: int | None = None) -> Timeline:
    """The timeline of a cluster up to a night. Raises ConfigError for one that is not there,
    NoEvidenceError for one that never said anything."""
    advertised = lake.history(NODE_ADVERTISEMENT, cluster_id, run).to_pylist()
    finalized = lake.history(FINALIZED_FEATURES, cluster_id, run).to_pylist()
    if not advertised and not finalized:
        lake.expect_cluster(cluster_id, run)
        raise NoEvidenceError(
            f"cluster {cluster_id}: nothing that answered landed from it up to run "
            f"{lake.run(run)}. Collect it."
        )
    return timeline(cluster_id, advertised, finalized)


_Who = tuple[str, int]  # a role, or the log, and a node id
_Saying = tuple[datetime, int, int]  # when, at which epoch, in which line


def _range_changes(rows: Iterable[RangeRow]) -> Iterator[RangeChange]:
    said: dict[_Who, dict[_Saying, dict[str, Ends]]] = defaultdict(dict)
    for row in rows:
        who = BROKER if row["witness"] == REGISTRATION else row["witness"]
        epoch = -1 if row["epoch"] is None else row["epoch"]
        # Several records of the log stand in dumps of one time; only their offsets tell them apart.
        line = 0 if who == LOG else row["line_id"]
        saying = said[who, row["node_id"]].setdefault((row["observed_at"], epoch, line), {})
        if row["feature"] is not None:
            saying[row["feature"]] = Ends(row["min_version"] or 0, row["max_version"] or 0)
    own = list[RangeChange]()
    for (who, node_id), sayings in sorted(said.items()):
        if who != LOG:
            own += _of_node(who, node_id, sayings)
    yield from own
    told = {(change.node_ids, change.changes) for change in own}
    themselves = {node_id for who, node_id in said if who == BROKER}
    controllers = {node_id for who, node_id in said if who == CONTROLLER}
    for (who, node_id), sayings in sorted(said.items()):
        # The log does not say here which half of a process registered.
        if who == LOG and node_id not in controllers:
            for change in _of_node(BROKER, node_id, sayings):
                known = change.first and node_id in themselves
                if not known and (change.node_ids, change.changes) not in told:
                    yield change


def _of_node(role: str, node_id: int, sayings: Mapping[_Saying, Ranges]) -> Iterator[RangeChange]:
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
            changes=tuple(RangeMove(name, was.get(name), ranges.get(name)) for name in names),
            first=before is None,
        )
        before = ranges


def _is_partial(before: Ranges, ranges: Ranges) -> bool:
    """Whether an answer says no more than that it was asked below ApiVersions v4, which leaves out
    features whose minimum is 0 (KIP-1022, KAFKA-17011)."""
    left_out = [name for name in before if name not in ranges]
    kept = {name: ends for name, ends in before.items() if name in ranges}
    return bool(left_out) and kept == dict(ranges) and all(before[n][0] == 0 for n in left_out)


def _shrank(was: Ends, now: Ends | None) -> bool:
    return now is None or now[1] < was[1]


def _together(changes: Iterable[RangeChange]) -> Iterator[RangeChange]:
    """Changes in the order of time; nodes that change alike, one after the other, are one row."""
    ordered = sorted(changes, key=lambda one: (one.since, one.role, one.node_ids))
    rows: list[RangeChange] = []
    for change in ordered:
        alike = next((i for i, one in enumerate(rows) if _is_alike(one, change, rows)), None)
        if alike is None:
            rows.append(change)
        else:
            ids = tuple(sorted({*rows[alike].node_ids, *change.node_ids}))
            rows[alike] = replace(rows[alike], node_ids=ids, until=change.since)
    return iter(rows)


def _is_alike(one: RangeChange, change: RangeChange, rows: Sequence[RangeChange]) -> bool:
    """Whether a change belongs to an earlier row: nothing else happened to its nodes since."""
    if (one.role, one.changes, one.first) != (change.role, change.changes, change.first):
        return False
    after = rows[rows.index(one) + 1 :]
    return not any(set(later.node_ids) & {*one.node_ids, *change.node_ids} for later in after)


def _epochs_back(rows: Iterable[EpochRow]) -> Iterator[EpochBack]:
    said: dict[tuple[str, int], set[tuple[datetime, int]]] = defaultdict(set)
    for row in rows:
        if row["epoch"] is not None and row["witness"] not in (LOG, TOOL):
            node_id = -1 if row["node_id"] is None else row["node_id"]
            said[row["witness"], node_id].add((row["observed_at"], row["epoch"]))
    for (witness, node_id), sayings in said.items():
        last: int | None = None
        for at, epoch in sorted(sayings):
            if last is not None and epoch < last:
                node = None if node_id < 0 else node_id
                yield EpochBack(at=at, witness=witness, node_id=node, before=last, after=epoch)
            last = epoch
