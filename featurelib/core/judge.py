"""The engine: judge requests by a dialect, and derive the controller's actions.

`judge` applies every row of a dialect to every update, whether the columns come from one cluster as
plain values (cluster.py) or from a fleet's evidence (audit/fleet.py). `decide` derives the
controller's response: the first violated row in its order counts; an audit lists all of them. No
function here knows a release.

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
from featurelib.core.dialect import HONOURED, Capability, Dialect, RuleRow
from featurelib.core.rules import Mask
from featurelib.feature import UpgradeType


@dataclass(frozen=True, slots=True, kw_only=True)
class Offences:
    """The refusals of a batch: K rules, in order, for U updates."""

    offends: Flags  # [K, U] true if the update violates the rule
    named: Ints  # [K, U] the pair of the first offending node; -1 = the rule names no node
    columns: UpdateColumns
    rejecting_check: Ints  # [R] the first check that refuses the whole request; -1 = no check does

    @property
    def first(self) -> Ints:
        """The first violated rule of each update [U]; -1 if none is violated."""
        mask = self.offends.any(axis=0)
        return np.where(mask, self.offends.argmax(axis=0), NOT_HERE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequences:
    """The effects of each request and update on the cluster."""

    failed_by: Ints  # [R] the update that refuses the whole request; -1 = no update does
    applied: Flags  # [U] update and request are accepted, and the request does not only validate
    failed_write: Flags  # [R] the response reports a failure: the write came too late
    after: Levels  # [R, F] the finalized levels after the request
    after_min: Levels  # [R, F] the minimum levels after the request
    kraft_record: Levels  # [R] the controller's record of kraft.version after the request
    writes: Flags  # [R] the request writes a record, so the epoch increases
    unsure: Flags  # [R] an unspecified order decides whether kraft.version changes


def judge(batch: Batch, dialect: Dialect, tables: Tables) -> Offences:
    """Judge every update of `batch` by `dialect`; return the refusals."""
    columns = UpdateColumns(batch, dialect.can, tables)
    offends = np.zeros((len(dialect.rules), len(columns.level)), dtype=bool)
    named = np.full(offends.shape, NOT_HERE)
    for i, row in enumerate(dialect.rules):
        offends[i], named[i] = _ask(row, columns, batch)
    rejecting_check = np.full(batch.requests, NOT_HERE)
    for i, row in reversed(list(enumerate(dialect.request_checks))):
        rejecting_check[row.rule.ask(batch.state)] = i
    return Offences(offends=offends, named=named, columns=columns, rejecting_check=rejecting_check)


def _ask(row: RuleRow, columns: UpdateColumns, batch: Batch) -> tuple[Mask, Ints | int]:
    """Return (mask [U] of updates that violate the rule in `row`, first offending pair of each)."""
    if row.asks is None:
        return _scoped(row, row.rule.ask(columns), columns), NOT_HERE
    if row.rule.about_nodes:
        nodes = NodeColumns(columns, batch, row.asks, row.absence)
        first_pairs = _first_pair(nodes, _scoped(row, row.rule.ask(nodes), columns, nodes.update))
        return first_pairs >= 0, first_pairs
    group = GroupColumns(columns, batch, row.asks, row.absence)
    mask = _scoped(row, row.rule.ask(group), columns)
    if not mask.any():
        return mask, NOT_HERE
    is_missing = ~group.nodes.group.registered[group.nodes.pair]
    return mask, np.where(mask, _first_pair(group.nodes, is_missing), NOT_HERE)


def _scoped(row: RuleRow, mask: Mask, columns: UpdateColumns, update: Ints | None = None) -> Mask:
    """Return `mask` limited to the scopes of `row`. `update`: of each entry in `mask`."""
    for scope in row.where:
        in_scope = scope.ask(columns)
        mask = mask & (in_scope if update is None else in_scope[update])
    return mask


def _first_pair(nodes: NodeColumns, mask: Mask) -> Ints:
    """Return [U] the first offending pair of each update; -1 without offending pair."""
    first_pairs = np.full(len(nodes.size), NOT_HERE)
    at = np.flatnonzero(mask)[::-1]  # backwards, so that the first pair overwrites later pairs
    first_pairs[nodes.update[at]] = nodes.pair[at]
    return first_pairs


def offending_pairs(offences: Offences, batch: Batch, row: RuleRow) -> tuple[Ints, Ints]:
    """Return (update, pair) for every pair that violates `row`, a rule about nodes."""
    assert row.asks is not None
    nodes = NodeColumns(offences.columns, batch, row.asks, row.absence)
    mask = row.rule.ask(nodes) if row.rule.about_nodes else ~nodes.group.registered[nodes.pair]
    mask = _scoped(row, mask, offences.columns, nodes.update)
    return nodes.update[mask], nodes.pair[mask]


def decide(batch: Batch, dialect: Dialect, offences: Offences) -> Consequences:
    """Return the controller's writes and failures, given the refusals."""
    capability, updates, state, columns = dialect.can, batch.updates, batch.state, offences.columns
    request, passed = updates.request, offences.first == NOT_HERE
    failed_by = np.full(batch.requests, NOT_HERE)
    if capability.atomic:  # the first failing update refuses the request
        failing = np.flatnonzero(~passed & (offences.rejecting_check == NOT_HERE)[request])
        latest_first = failing[np.argsort(-updates.rank[failing], kind="stable")]
        failed_by[request[latest_first]] = latest_first
    good = passed & ((offences.rejecting_check == NOT_HERE) & (failed_by == NOT_HERE))[request]
    not_dry_run = ~(batch.dry_run & (capability.validate_only == HONOURED))[request]
    applied, leaked = good & not_dry_run, np.zeros_like(good)
    if capability.kraft_version_leaks:  # the raft layer changes before the refusal
        refused_by = failed_by[request]
        earlier = (refused_by >= 0) & (updates.rank < updates.rank[np.maximum(refused_by, 0)])
        moves = columns.is_kraft_version & (updates.level > columns.current)
        leaked = moves & passed & earlier & not_dry_run
    after, after_min = _levels_after(batch, capability, columns, applied | leaked)
    writing = applied
    if capability.kraft_version == "raft":  # the controller writes no record if the level stays
        is_idle = columns.is_kraft_version & (columns.kind != UpgradeType.UPGRADE)
        writing = applied & ~is_idle
    writes = batch.having(writing)
    silent_failure = writes & (state.node_missing | state.blind)
    failed_write = silent_failure & (capability.after_failed_wait > 0)
    deleted = failed_write & state.node_missing
    record = state.kraft_record.copy()
    if capability.kraft_version == "record":
        kraft_moves = applied & columns.is_kraft_version
        record[request[kraft_moves]] = updates.level[kraft_moves]
    return Consequences(
        failed_by=failed_by,
        applied=applied,
        failed_write=failed_write,
        after=np.where(deleted[:, None], 0, after),
        after_min=np.where(deleted[:, None], 0, after_min),
        kraft_record=record,
        writes=writes & ~deleted,
        unsure=batch.having(leaked),
    )


def _levels_after(
    batch: Batch, capability: Capability, columns: UpdateColumns, moved: Flags
) -> tuple[Levels, Levels]:
    """Return (levels, minimum levels) that nodes finally report."""
    updates, state, mask = batch.updates, batch.state, batch.having(moved)
    after, after_min = state.finalized.copy(), state.minimum.copy()
    if capability.judges == "cached":
        after[mask], after_min[mask] = state.cached[mask], state.cached_min[mask]
    level = np.maximum(updates.level, 0)
    at = updates.request[moved], updates.feature[moved]
    if capability.kraft_version == "ignored_record":
        level_before = state.finalized[updates.request, updates.feature]
        level = np.where(columns.is_kraft_version, level_before, level)
    elif capability.kraft_version == "record":
        raft = state.raft_level[updates.request]
        level = np.where(columns.is_kraft_version & (raft > 0), raft, level)
    after[at] = level[moved]
    if capability.stores_min == "local":
        after_min[at] = np.where(level > 0, columns.local_min, 0)[moved]
    else:  # a level is its own minimum
        after_min[mask] = after[mask]
    return after, after_min
