"""The engine: what a dialect says to requests, and what a controller then does.

`judge` asks every row of a dialect about every update, whoever fills the columns: one cluster as
plain values (cluster.py) or a fleet's evidence (audit/fleet.py). `decide` makes the controller's
answer of it: the first violated row in its order counts; an audit lists all of them. Nothing here
knows a release.

A row without `asks` is one mask over the updates. A row that `asks` a group of nodes has a row for
each (update, pair), where a pair is a profile of ranges and the nodes of one request that have it.
The clusters of audit/features.py, asked for f 5 and metadata.version 25, by `unsupported_by_node`
of everyone (`level < min_version`, or `max_version < level`):

    update  request   level                  update  pair  profile  max  level  offends
    0       0 (east)  f 5                    0       0     0        5    5      -
                                             0       1     1        3    5      x
    1       0 (east)  metadata.version 25    1       0     0        25   25     -
                                             1       1     1        22   25     x
    2       1 (west)  f 5                    2       2     2        5    5      -

    offends[row] = [x, x, -]         named[row] = [1, 1, -1]: the first pair that offends

A rule that counts (`no_node_to_ask`, `voter_not_registered`) has one row an update again, with the
group's size or its unregistered nodes as a column. `where` narrows a row to some of the updates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from featurelib.catalogue import Tables
from featurelib.core.batch import (
    NOT_HERE,
    Batch,
    Flags,
    GroupColumns,
    Ints,
    Levels,
    NodeColumns,
    UpdateColumns,
)
from featurelib.core.dialect import Dialect, RuleRow
from featurelib.core.rules import Mask
from featurelib.feature import UpgradeType


@dataclass(frozen=True, slots=True, kw_only=True)
class Offences:
    """Every rule asked about every update. K rules in the dialect's order, U updates."""

    offends: Flags  # [K, U]
    named: Ints  # [K, U] the pair of the first offending node; -1 = the rule names nobody
    columns: UpdateColumns
    door: Ints  # [R] the row of the door that refuses the request; -1 = it comes in

    @property
    def first(self) -> Ints:
        """[U] the first violated rule of each update; -1 = it is good."""
        hit = self.offends.any(axis=0)
        return np.where(hit, self.offends.argmax(axis=0), NOT_HERE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequences:
    """What follows for each request and update."""

    failed_by: Ints  # [R] the update that refuses the whole request; -1 = none does
    good: Flags  # [U] the update passed, and so did its request
    applied: Flags  # [U] and it is not a dry run
    failed_write: Flags  # [R] the good results say failed, because nobody saw the write
    after: Levels  # [R, F]
    after_min: Levels  # [R, F]
    kraft_record: Levels  # [R]
    writes: Flags  # [R] something is written: the epoch moves
    unsure: Flags  # [R] whether kraft.version moved hangs on an order nobody should rely on


def judge(batch: Batch, dialect: Dialect, tables: Tables) -> Offences:
    """Ask `dialect` about every update of `batch`."""
    columns = UpdateColumns(batch, dialect.can, tables)
    offends = np.zeros((len(dialect.rules), len(columns.level)), dtype=bool)
    named = np.full(offends.shape, NOT_HERE)
    for i, row in enumerate(dialect.rules):
        if row.rule.about_nodes:
            offends[i], named[i] = _ask_nodes(columns, batch, row)
        elif row.asks is not None:
            offends[i], named[i] = _ask_about_group(columns, batch, row)
        else:
            offends[i] = row.ask(columns)
    return Offences(offends=offends, named=named, columns=columns, door=_door(batch, dialect))


def _door(batch: Batch, dialect: Dialect) -> Ints:
    refused = np.full(batch.requests, NOT_HERE)
    for i, row in reversed(list(enumerate(dialect.door))):
        refused[row.ask(batch.state)] = i
    return refused


def _first_pair(nodes: NodeColumns, hit: Mask, updates: int) -> tuple[Mask, Ints]:
    """Which updates have an offending pair, and the first of each."""
    first = np.full(updates, NOT_HERE)
    at = np.flatnonzero(hit)[::-1]  # backwards, so that the first one stays
    first[nodes.update[at]] = nodes.pair[at]
    return first >= 0, first


def offending_pairs(judged: Offences, batch: Batch, row: RuleRow) -> tuple[Ints, Ints]:
    """Return every (update, pair) that `row` names: the pair does not support the level of the
    update, or it never registered."""
    nodes = NodeColumns(judged.columns, batch, row)
    hit = row.rule.ask(nodes) if row.rule.about_nodes else ~nodes.group.registered[nodes.pair]
    hit = hit & _scoped(row, judged.columns)[nodes.update]
    return nodes.update[hit], nodes.pair[hit]


def _scoped(row: RuleRow, columns: UpdateColumns) -> Mask:
    asked = np.ones(len(columns.level), dtype=bool)
    for scope in row.where:
        asked &= scope.ask(columns)
    return asked


def _ask_nodes(columns: UpdateColumns, batch: Batch, row: RuleRow) -> tuple[Mask, Ints]:
    nodes = NodeColumns(columns, batch, row)
    hit = row.rule.ask(nodes)
    if row.where:
        hit = hit & _scoped(row, columns)[nodes.update]
    return _first_pair(nodes, hit, len(columns.level))


def _ask_about_group(columns: UpdateColumns, batch: Batch, row: RuleRow) -> tuple[Mask, Ints]:
    """A rule about how many of a group there are, support the level, or registered."""
    group = GroupColumns(columns, batch, row)
    hit = row.rule.ask(group) & _scoped(row, columns)
    if not hit.any():
        return hit, np.full(len(hit), NOT_HERE)
    nodes = group.nodes
    missing = ~nodes.group.registered[nodes.pair]
    return hit, np.where(hit, _first_pair(nodes, missing, len(hit))[1], NOT_HERE)


def decide(batch: Batch, dialect: Dialect, judged: Offences) -> Consequences:
    """What the controller does with what was judged."""
    can, updates, state = dialect.can, batch.updates, batch.state
    come_in = judged.door == NOT_HERE
    passed = judged.first == NOT_HERE
    failed_by = _failed_by(batch, passed, come_in) if can.atomic else _nobody(batch)
    whole = come_in & (failed_by == NOT_HERE)
    good = passed & whole[updates.request]
    dry = batch.dry_run & (can.validate_only == "honoured")
    applied = good & ~dry[updates.request]
    leaked = _leaked(batch, dialect, judged, failed_by, dry)
    unsure = np.zeros(batch.requests, dtype=bool)
    unsure[updates.request[leaked]] = True
    after, after_min = _after(batch, dialect, judged.columns, applied | leaked)
    writes = _writes(batch, dialect, judged.columns, applied)
    silent_failure = writes & (state.node_missing | state.blind)
    failed_write = silent_failure & (can.after_failed_wait > 0)
    gone = failed_write & state.node_missing
    record = state.kraft_record.copy()
    if can.kraft_version == "record":
        mine = applied & judged.columns.is_kraft_version
        record[updates.request[mine]] = updates.level[mine]
    return Consequences(
        failed_by=failed_by,
        good=good,
        applied=applied,
        failed_write=failed_write,
        after=np.where(gone[:, None], 0, after),
        after_min=np.where(gone[:, None], 0, after_min),
        kraft_record=record,
        writes=writes & ~gone,
        unsure=unsure,
    )


def _nobody(batch: Batch) -> Ints:
    return np.full(batch.requests, NOT_HERE)


def _failed_by(batch: Batch, passed: Flags, come_in: Flags) -> Ints:
    """The first update, in the order of judging, that refuses each request."""
    updates, failed = batch.updates, _nobody(batch)
    bad = np.flatnonzero(~passed & come_in[updates.request])
    latest_first = bad[np.argsort(-updates.rank[bad], kind="stable")]
    failed[updates.request[latest_first]] = latest_first
    return failed


def _leaked(batch: Batch, dialect: Dialect, judged: Offences, failed_by: Ints, dry: Flags) -> Flags:
    """kraft.version updates that moved the raft layer before their request was refused [U]."""
    updates, columns = batch.updates, judged.columns
    refused_by = failed_by[updates.request]
    if not dialect.can.kraft_version_leaks:
        return np.zeros(len(updates.level), dtype=bool)
    earlier = updates.rank < updates.rank[np.maximum(refused_by, 0)]
    moves = columns.is_kraft_version & (updates.level > columns.current)
    passed = judged.first == NOT_HERE
    return moves & passed & (refused_by >= 0) & earlier & ~dry[updates.request]


def _after(
    batch: Batch, dialect: Dialect, columns: UpdateColumns, moved: Flags
) -> tuple[Levels, Levels]:
    """The finalized levels and minimum levels that nodes report once the request has settled."""
    can, updates, state = dialect.can, batch.updates, batch.state
    after, after_min = state.finalized.copy(), state.minimum.copy()
    if can.judges == "cached":
        written = np.zeros(batch.requests, dtype=bool)
        written[updates.request[moved]] = True
        after[written], after_min[written] = state.cached[written], state.cached_min[written]
    level = np.maximum(updates.level, 0)
    at = updates.request[moved], updates.feature[moved]
    if can.kraft_version == "ignored_record":
        level = np.where(
            columns.is_kraft_version, state.finalized[updates.request, updates.feature], level
        )
    elif can.kraft_version == "record":
        raft = state.raft_level[updates.request]
        level = np.where(columns.is_kraft_version & (raft > 0), raft, level)
    after[at] = level[moved]
    if can.stores_min == "local":
        after_min[at] = np.where(level > 0, columns.local_min, 0)[moved]
    else:  # a single level, which is its own minimum
        rewritten = np.isin(np.arange(batch.requests), updates.request[moved])
        after_min[rewritten] = after[rewritten]
    return after, after_min


def _writes(batch: Batch, dialect: Dialect, columns: UpdateColumns, applied: Flags) -> Flags:
    """Whether a request leaves a record, or moves the features node."""
    writing = applied
    if dialect.can.kraft_version == "raft":  # the raft layer has nothing to do: no record
        idle = columns.is_kraft_version & (columns.kind != UpgradeType.UPGRADE)
        writing = applied & ~idle
    writes = np.zeros(batch.requests, dtype=bool)
    writes[batch.updates.request[writing]] = True
    return writes
