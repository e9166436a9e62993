"""Extract the rows of two histories from a fold: changed responses and metadata log records.

The fold collects these statements, because it knows the newest statement of each source, and
because the meaning of a log record depends on its file. The snapshot row stores the statements of
the last fold until both histories contain them, so a crash in between loses nothing.

The history of ranges has a row if a node's ranges changed. The history of finalized levels has all
rows of a reading if one source shows another level or a smaller epoch. Easy to get wrong: a late
line may stand between two equal lines, so the newest statements are added again after it.

`level_changes` turns rows of silver.finalized_features into changes, sorted by epoch. A broker's
epoch is its position in the log (KRaft mode) or the znode's version (ZooKeeper mode), so it can be
compared with epochs of the log or the znode. Epochs of controllers differ in kind, and a tool
prints none: controllers and tools count only if no other source shows a level.

The epoch decreases only if the cluster lost metadata. Then most nodes of one reading report a
smaller epoch, and all later rows follow all earlier rows, whatever their epochs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple, NotRequired, TypedDict

import msgspec
import numpy as np

from featurelib.feature import Verdict, Witness
from featurelib.findings import tagged
from featurelib.rows import Column, Int, TableRows, make_rows, numbers_of, spread, texts_of
from featurelib.schema import Schema
from featurelib.snapshot.state import ONE_READING, Map
from featurelib.tables import FINALIZED_FEATURES, Table
from featurelib.words import metadata_first

REGISTRATION = "registration"
LATE = timedelta(hours=20)  # a cluster this far behind the fleet's newest line missed a run
Levels = defaultdict[str, dict[str, int | None]]  # cluster → feature → level
_NOTHING = ((None, None, None),)


class Shown(NamedTuple):
    """The finalized levels or ranges in one landing line or log record."""

    witness: str
    node_id: int | None
    epoch: int | None
    features: Map
    is_finalized: bool
    epoch_before: int | None = None  # the source's previous epoch, if higher


class Statement(msgspec.Struct, array_like=True, gc=False):
    """A `Shown` as stored, with its run and landing line."""

    run: int  # the run in which the line was read
    observed_at: int
    line_id: int
    witness: str
    node_id: int | None
    epoch: int | None
    is_finalized: bool
    map: int  # the position of the levels or ranges in `Learned.maps`
    epoch_before: int | None = None


Stated = tuple[tuple[int, int], Shown]  # ((time, line id), the line's content)


class Learned(msgspec.Struct, array_like=True, gc=False):
    """The new rows for both histories of one cluster."""

    maps: list[Map] = []
    statements: list[Statement] = []

    def add(self, run: int, moment: tuple[int, int], content: Shown) -> None:
        """Add `content` to the histories. `moment`: (time, line id)."""
        witness, node_id, epoch, features, is_finalized, before = content
        if features not in self.maps:
            self.maps.append(features)
        source = (*moment, witness, node_id, epoch)
        position = self.maps.index(features)
        self.statements.append(Statement(run, *source, is_finalized, position, before))


def readings_of(statements: Iterable[Stated]) -> Iterator[list[Stated]]:
    """Yield the statements of each collection, oldest first. A collection takes at most
    ONE_READING."""
    reading: list[Stated] = []
    for statement in sorted(statements, key=itemgetter(0)):
        if reading and statement[0][0] - reading[0][0][0] > ONE_READING:
            yield reading
            reading = []
        reading.append(statement)
    if reading:
        yield reading


_DECODER = msgspec.msgpack.Decoder(Learned)


def pack(learned: Learned) -> bytes | None:
    """Return the new history rows as bytes for the snapshot row; None without rows."""
    return msgspec.msgpack.encode(learned) if learned.statements else None


def history_rows(
    table: Table, since: int, clusters: Iterable[tuple[str, bytes]], most: int = 50_000
) -> Iterator[TableRows]:
    """Yield batches of about `most` rows of the history `table`, for runs after `since`.
    `clusters`: (cluster, packed rows)."""
    rows: list[tuple[str, Statement, Map]] = []
    for cluster, packed in clusters:
        learned = _DECODER.decode(packed)
        rows += [
            (cluster, entry, learned.maps[entry.map])
            for entry in learned.statements
            if entry.is_finalized == (table == FINALIZED_FEATURES) and entry.run > since
        ]
        if len(rows) >= most:
            yield _batch(table, rows)
            rows = []
    if rows:
        yield _batch(table, rows)


def _batch(table: Table, rows: list[tuple[str, Statement, Map]]) -> TableRows:
    """Return one row per feature of each statement, or one row if it has no features."""
    codes: dict[Map, int] = {}
    of_row = np.array([codes.setdefault(features, len(codes)) for _, _, features in rows])
    entries = [entry for features in codes for entry in features or _NOTHING]
    size = np.array([max(len(features), 1) for features in codes])
    owner, entry = spread((np.cumsum(size) - size)[of_row], size[of_row])
    columns: dict[str, Column | Int] = {"cluster": texts_of(name for name, _, _ in rows)}
    source_columns = Schema.of(table.schema.fields[:-3])
    for name in source_columns.names:
        if name not in ("cluster", "role"):
            columns[name] = numbers_of([getattr(entry, name) for _, entry, _ in rows])
    columns["role"] = texts_of(entry.witness for _, entry, _ in rows)
    sources = make_rows(source_columns, len(rows), columns).take(owner)
    feature, low, high = zip(*entries, strict=True)
    *_, (first, _), (second, _), (third, _) = table.schema.fields
    feature_columns: dict[str, Column | Int] = {
        first: texts_of(feature),
        second: numbers_of(low),
        third: numbers_of(high),
    }
    tail = make_rows(Schema.of(table.schema.fields[-3:]), len(entries), feature_columns).take(entry)
    return TableRows(schema=table.schema, columns={**sources.columns, **tail.columns})


LOG = Witness.METADATA_LOG.name.lower()
NODE, BROKER = Witness.FEATURES_NODE.name.lower(), Witness.BROKER.name.lower()
TOGETHER = frozenset({LOG, NODE, BROKER})
TOOL, CONTROLLER = Witness.TOOL.name.lower(), Witness.CONTROLLER.name.lower()
IN_ORDER = (TOGETHER, {CONTROLLER}, {TOOL})
_READING = timedelta(microseconds=ONE_READING)
# (not early, number of epoch falls before, epoch, time, line): orders responses as the log does.
_Position = tuple[bool, int, int, datetime, int]
_INSTANT = timedelta(microseconds=1)


class Row(TypedDict):
    """The columns of silver.finalized_features that `level_changes` reads."""

    cluster: str
    observed_at: datetime
    line_id: int
    role: str
    node_id: int | None
    epoch: int | None
    epoch_before: NotRequired[int | None]
    feature: str | None
    level: int | None


class LevelMove(NamedTuple):
    """A change of one feature's finalized level. Level 0 = not finalized."""

    feature: str
    from_level: int
    to_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelChange:
    """The levels that changed at one epoch. `epoch`: None = no source shows the epoch;
    `epoch_before`: the higher previous epoch, if the epoch fell."""

    at: datetime
    epoch: int | None
    epoch_before: int | None = None
    changes: tuple[LevelMove, ...]

    @property
    def went_down(self) -> tuple[str, ...]:
        """The names of the downgraded features."""
        return tuple(name for name, before, after in self.changes if after < before)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochBack:
    """A decrease of the epoch that one source reported."""

    at: datetime
    witness: str
    node_id: int | None
    before: int
    after: int


_Source = tuple[str, int | None]  # (source, the node that the source reports about)
_EpochsBySource = dict[_Source, list[tuple[datetime, int]]]  # source → (time, epoch) pairs


def epochs_back(rows: Iterable[Row]) -> list[EpochBack]:
    """Return each decrease of the epoch within one source, oldest first."""
    return sorted(_epochs_back(_epochs_by_source(rows)), key=lambda step: step.at)


def _epochs_by_source(rows: Iterable[Row]) -> _EpochsBySource:
    pairs: defaultdict[_Source, set[tuple[datetime, int]]] = defaultdict(set)
    for row in rows:
        if row["epoch"] is not None and row["role"] not in (LOG, TOOL):
            pair_set = pairs[row["role"], row["node_id"]]
            pair_set.add((row["observed_at"], row["epoch"]))
            if (before := row.get("epoch_before")) is not None:  # the previous response has no row
                pair_set.add((row["observed_at"] - _INSTANT, before))
    return {source: sorted(epochs) for source, epochs in pairs.items()}


def _epochs_back(by_source: _EpochsBySource) -> Iterator[EpochBack]:
    for (witness, node_id), pairs in by_source.items():
        for (_, before), (at, after) in pairwise(pairs):
            if after < before:
                yield EpochBack(at=at, witness=witness, node_id=node_id, before=before, after=after)


class _EpochFall(NamedTuple):
    """A decrease of the cluster's epoch. `own`: when each source first showed it."""

    at: datetime
    before: int
    after: int
    own: dict[_Source, datetime]

    def is_before(self, row: Row) -> bool:
        """Return true for a row that is older than the decrease."""
        since = self.own.get((row["role"], row["node_id"]), self.at)
        return row["observed_at"] >= since and (
            row["role"] != LOG or (row["epoch"] or 0) > self.after
        )


def _epoch_falls(rows: Iterable[Row]) -> list[_EpochFall]:
    """Return the times at which most sources reported a smaller epoch. A single broker may only be
    replaying its log."""
    by_source, falls = _epochs_by_source(rows), list[_EpochFall]()
    groups: list[list[EpochBack]] = []
    for step in sorted(_epochs_back(by_source), key=lambda step: step.at):
        if not groups or step.at - groups[-1][0].at > _READING:
            groups.append([])
        groups[-1].append(step)
    for group in groups:
        at = group[0].at
        sources_in_reading = [
            source
            for source, pairs in by_source.items()
            if pairs[0][0] < at and any(abs(time - at) <= _READING for time, _ in pairs)
        ]
        times = {(step.witness, step.node_id): step.at for step in reversed(group)}
        if 2 * len(times) > len(sources_in_reading):
            before, after = max(step.before for step in group), min(step.after for step in group)
            falls.append(_EpochFall(at, before, after, times))
    return falls


def _early(rows: list[Row]) -> list[Row]:
    """Return rows of KRaft controllers from before any other source showed levels, as during a
    migration."""
    times = (row["observed_at"] for row in rows if row["role"] in TOGETHER and row["level"])
    until = min(times, default=datetime.max.replace(tzinfo=UTC)) - _READING
    return [row for row in rows if row["role"] == CONTROLLER and row["observed_at"] < until]


def level_changes(rows: Iterable[Row]) -> Iterator[LevelChange]:
    """Yield the changes of the finalized levels of one cluster, oldest first."""
    all_rows = list(rows)
    witnesses = {row["role"] for row in all_rows}
    trusted_roles = next((kinds for kinds in IN_ORDER if kinds & witnesses), set())
    falls = _epoch_falls(row for row in all_rows if row["role"] in trusted_roles)
    early_rows = _early(all_rows) if trusted_roles is TOGETHER else []
    levels: dict[str, int] = {}
    falls_yielded, last_position = 0, (-1, -1, datetime.min)
    responses = _by_position(all_rows, trusted_roles, early_rows, falls)
    for (_, fall_count, epoch, at, _), response in sorted(responses.items(), key=itemgetter(0)):
        is_same = (fall_count, epoch) == last_position[:2] and at - last_position[2] <= _READING
        new_levels = _levels_after(response, levels, is_same_position=is_same)
        has_fallen = fall_count > falls_yielded
        names = {*levels, *new_levels} if has_fallen else dict(levels.items() ^ new_levels.items())
        if names or has_fallen:
            order = sorted(names, key=metadata_first)
            yield LevelChange(
                at=at,
                epoch=epoch if epoch >= 0 else None,
                epoch_before=falls[fall_count - 1].before if has_fallen else None,
                changes=tuple(LevelMove(n, levels.get(n, 0), new_levels.get(n, 0)) for n in order),
            )
        levels, falls_yielded, last_position = new_levels, fall_count, (fall_count, epoch, at)


def _by_position(
    rows: list[Row], trusted_roles: Container[str], early_rows: list[Row], falls: list[_EpochFall]
) -> dict[_Position, list[Row]]:
    """Return the rows of each response by its position in the metadata log."""
    responses: dict[_Position, list[Row]] = defaultdict(list)
    for row in early_rows:
        responses[False, 0, row["epoch"] or 0, row["observed_at"], row["line_id"]].append(row)
    # A broker's response may omit features; the znode has all features.
    of_znode = {row["epoch"] for row in rows if row["role"] == NODE}
    for row in rows:
        if early_rows and row["feature"] is None:
            continue
        is_covered = row["role"] == BROKER and row["epoch"] in of_znode
        if row["role"] in trusted_roles and not is_covered:
            # A tool prints no epoch, so the line number gives the order.
            epoch = -1 if row["role"] == TOOL or row["epoch"] is None else row["epoch"]
            fall_count = sum(fall.is_before(row) for fall in falls)
            line = row["line_id"] if epoch >= 0 else 0
            responses[True, fall_count, epoch, row["observed_at"], line].append(row)
    return responses


def _levels_after(
    response: Sequence[Row], levels: Mapping[str, int], *, is_same_position: bool
) -> dict[str, int]:
    """Return the finalized levels after a response. `levels`: those before it."""
    result = {row["feature"]: row["level"] or 0 for row in response if row["feature"] is not None}
    if response[0]["role"] == LOG:
        result = {**levels, **result}
    elif response[0]["node_id"] is not None and is_same_position:
        # At one epoch, the lower of two levels is outdated. For example, a node takes
        # kraft.version from its raft layer, not from the log (KRaftMetadataCache.features).
        result = {n: max(levels.get(n, 0), result.get(n, 0)) for n in {*levels, *result}}
    return {name: level for name, level in result.items() if level > 0}


def changed_levels(
    before: Mapping[str, int | None], after: Mapping[str, int | None]
) -> list[LevelMove]:
    """Return the level changes from `before` to `after` of features that both know."""
    if not (_any_known(before) and _any_known(after)):
        return []
    moves = []
    for name in sorted({*before, *after}, key=metadata_first):
        old, new = before.get(name, 0), after.get(name, 0)
        if old is not None and new is not None and old != new:
            moves.append(LevelMove(name, old, new))
    return moves


def lowered_ceilings(
    before: Mapping[str, int | None], after: Mapping[str, int | None], moved: Iterable[LevelMove]
) -> list[LevelMove]:
    """Return the features whose maximum level fell because software was rolled back. Features in
    `moved` are skipped."""
    names = {move.feature for move in moved}
    fell = (move for move in changed_levels(before, after) if 0 < move.to_level < move.from_level)
    return [move for move in fell if move.feature not in names]


def is_late(newest_line: datetime | None, fleet: datetime | None) -> bool:
    """Return true if the cluster missed the fleet's last run: its newest line is older by LATE than
    the newest line of the `fleet`."""
    return newest_line is not None and fleet is not None and fleet - newest_line > LATE


def late_since(
    newest_line: datetime | None, fleet: datetime | None, findings: Iterable[tuple[str, str | None]]
) -> datetime | None:
    """Return the time of the cluster's newest line if the last run collected no data from it; None
    otherwise, or if that finding is muted. `findings`: (code, mute)."""
    late = [finding for finding in findings if finding[0] in tagged("too_old", "unreached")]
    missed_run = is_late(newest_line, fleet) or any(code in tagged("unreached") for code, _ in late)
    return newest_line if missed_run and all(mute is None for _, mute in late) else None


def known_levels(rows: Iterable[Mapping[str, Any]], column: str) -> Levels:
    """Return cluster → feature → level in a column of gold.feature_readiness; None = unknown."""
    levels_by_cluster: Levels = defaultdict(dict)
    for row in rows:
        is_known = column != "ceiling" or row["verdict"] != Verdict.UNKNOWN
        levels_by_cluster[row["cluster"]][row["feature"]] = row[column] if is_known else None
    return levels_by_cluster


def _any_known(levels: Mapping[str, int | None]) -> bool:
    return any(level is not None for level in levels.values())


def histories(rows: Iterable[Row]) -> dict[str, tuple[LevelChange, ...]]:
    """Return cluster id → level changes, oldest first."""
    by_cluster: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_cluster[row["cluster"]].append(row)
    return {cluster: tuple(level_changes(steps)) for cluster, steps in by_cluster.items()}
