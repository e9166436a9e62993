"""Facts as snapshot rows, built column by column: the rows that folding the lines gives.

For fleets whose lines nobody wants to store. Two columns that no verdict depends on differ from
rows of a real night: a line's id is its number in the fleet, and `state` is null.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from benchmarks.facts import CONTROLLERS, Bool, Facts, Int
from benchmarks.fleet_lines import CONTROLLER_EPOCH, REFUSED, dissenting_levels
from featurelib.feature import Role, Witness
from featurelib.schema import (
    CONFIG,
    FINALIZED,
    LISTENER,
    MEMBER,
    MEMBERS,
    NODE,
    RANGE,
    REGISTRATION,
    SNAPSHOT,
    SOFTWARE,
    WITNESS,
)
from featurelib.snapshot.packed import pack

BATCH = 1000  # clusters


def build_rows(facts: Facts) -> Iterator[pa.RecordBatch]:
    """The fleet's rows as batches of featurelib.schema.SNAPSHOT."""
    for first in range(0, facts.shape.clusters, BATCH):
        yield _Batch(facts, slice(first, min(first + BATCH, facts.shape.clusters))).build()


class _Batch:
    """Some clusters of the fleet; C of them, with L listeners each."""

    def __init__(self, facts: Facts, clusters: slice) -> None:
        self.facts, self.clusters, self.nodes = facts, clusters, facts.shape.nodes
        self.count = clusters.stop - clusters.start
        self.at = facts.at(clusters)
        lines = np.arange(clusters.start, clusters.stop)[:, None] * facts.shape.lines
        self.line = lines + np.arange(facts.shape.lines) + 1
        self.answers = facts.answering(clusters)
        self.ids = np.array([facts.node_ids(i) for i in range(clusters.start, clusters.stop)])
        self.dissenter = facts.dissenter[clusters]
        self.last = self.nodes - 1 - np.argmax(self.answers[:, self.nodes - 1 :: -1], axis=1)

    def build(self) -> pa.RecordBatch:
        profiles, profile = self._profiles()
        maps, said = self._level_maps()
        quorum_at, quorum_line = self.at[:, -1], self.line[:, -1]
        observing = self.answers[:, : self.nodes].copy()
        observing[self.facts.combined[self.clusters], :CONTROLLERS] = False
        zero, none = np.zeros(self.count, dtype=np.int64), np.full(self.count, -1)
        columns = {
            "cluster": pa.array(self.facts.ids[self.clusters], pa.string()),
            "observed_at": pa.array(quorum_at),
            "profiles": profiles,
            "level_maps": maps,
            "listeners": self._listeners(profile, said),
            "registrations": _lists(zero, pa.array([], REGISTRATION)),
            "witnesses": self._witnesses(said),
            "members": self._members(),
            "voters": _lists(zero + CONTROLLERS, _ints(self.ids[:, self.nodes :], NODE)),
            "observers": _lists(
                observing.sum(axis=1), _ints(self.ids[:, : self.nodes][observing], NODE)
            ),
            "quorum_at": pa.array(quorum_at),
            "quorum_line": pa.array(quorum_line),
            "controller": pa.array(self.ids[:, self.nodes]),
            "log_end": pa.array(zero),
            "log_at": pa.array(zero),
            "migration": pa.array(none),
            "features_node_at": pa.array(zero),
            "features_node_line": pa.array(zero),
            "features_node_version": pa.array(none),
            "zookeeper": pa.array(zero.astype(bool)),
            "oddities": _lists(zero, pa.array([], pa.string())),
            "configs": _lists(zero, pa.array([], CONFIG)),
            "software": _lists(zero, pa.array([], SOFTWARE)),
        }
        columns["packed"] = pack(columns)
        arrays = [
            columns[field.name].cast(field.type)
            if field.name in columns
            else pa.nulls(self.count, field.type)
            for field in SNAPSHOT
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=SNAPSHOT)

    def _profiles(self) -> tuple[pa.Array, Int]:
        """Distinct maps of each cluster, as listeners name them, and which one each advertises."""
        builds, software = self.facts.builds, self.facts.software[self.clusters].astype(np.int64)
        width = len(builds.names)
        minima: Int | None = None
        kind = software
        if self.facts.shape.profiles == "many":
            minima = self.facts.minima(self.clusters)
            kind = np.broadcast_to(np.arange(software.shape[1]), software.shape).copy()
            combined = self.facts.combined[self.clusters]
            kind[combined, self.nodes :] = kind[combined, :CONTROLLERS]
        local, at_row, at_listener = _number(kind, self.answers)
        own = builds.minimum[software[at_row, at_listener]].astype(np.int64)
        if minima is not None:
            own[:, builds.made_up] = minima[at_row, at_listener]
        ranges = pa.StructArray.from_arrays(
            [
                _names(builds.names, np.tile(np.arange(width), len(at_row))),
                pa.array(own.ravel()).cast(pa.int16()),
                pa.array(builds.maximum[software[at_row, at_listener]].ravel()),
            ],
            fields=list(RANGE),
        )
        inner = _lists(np.full(len(at_row), width), ranges)
        return _lists(np.bincount(at_row, minlength=self.count), inner), local

    def _level_maps(self) -> tuple[pa.Array, Int]:
        """Distinct maps of levels of each cluster, and which one each listener says."""
        builds, finalized = self.facts.builds, self.facts.finalized[self.clusters]
        listeners = self.answers.shape[1]
        dissents = np.arange(listeners) == self.dissenter[:, None]
        local, at_row, at_listener = _number(dissents.astype(np.int64), self.answers)
        dissenting = np.array([dissenting_levels(builds, b) for b in range(len(builds))])
        levels = np.where(
            dissents[at_row, at_listener][:, None],
            dissenting[finalized[at_row]],
            builds.levels[finalized[at_row]],
        )
        there = levels > 0
        level = pa.array(levels[there])
        entries = pa.StructArray.from_arrays(
            [_names(builds.names, np.nonzero(there)[1]), level, level], fields=list(FINALIZED)
        )
        inner = _lists(there.sum(axis=1), entries)
        return _lists(np.bincount(at_row, minlength=self.count), inner), local

    def _listeners(self, profile: Int, said: Int) -> pa.Array:
        listeners = self.answers.shape[1]
        at, line = self.at[:, :listeners], self.line[:, :listeners]
        epoch = np.hstack((self.facts.epoch[self.clusters], self._controller_epoch()))
        role = np.broadcast_to(np.arange(listeners) >= self.nodes, at.shape).astype(np.int64)
        answers, zero = self.answers, np.zeros_like(at)
        columns = {
            "node_id": self.ids,
            "role": role,
            "full": profile,
            "full_at": np.where(answers, at, 0),
            "full_line": np.where(answers, line, 0),
            "partial": zero - 1,
            "partial_at": zero,
            "partial_line": zero,
            "levels": said,
            "epoch": np.where(answers, epoch, -1),
            "levels_at": np.where(answers, at, 0),
            "levels_line": np.where(answers, line, 0),
            "failed_at": np.where(answers, 0, at),
            "failed_line": np.where(answers, 0, line),
        }
        arrays = [_ints(columns[name], LISTENER.field(name).type) for name in columns]
        error = pa.array(
            [None if said else REFUSED for said in answers.ravel().tolist()], pa.string()
        )
        values = pa.StructArray.from_arrays([*arrays, error], fields=list(LISTENER))
        return _lists(np.full(self.count, listeners), values)

    def _controller_epoch(self) -> Int:
        epoch = CONTROLLER_EPOCH + self.facts.finalized[self.clusters].astype(np.int64)
        return np.repeat(epoch[:, None], CONTROLLERS, axis=1)

    def _witnesses(self, said: Int) -> pa.Array:
        """The last broker that answers, and the last controller: their epochs are the highest."""
        rows, listeners = np.arange(self.count), self.answers.shape[1]
        broker, controller = self.last, np.full(self.count, listeners - 1)
        who = np.stack((broker, controller), axis=1)
        epoch = self.facts.epoch[self.clusters][rows, broker]
        columns = [
            np.tile([int(Witness.BROKER), int(Witness.CONTROLLER)], (self.count, 1)),
            said[rows[:, None], who],
            np.stack((epoch, self._controller_epoch()[:, 0]), axis=1),
            self.at[rows[:, None], who],
            self.line[rows[:, None], who],
        ]
        fields = list(WITNESS)
        arrays = [_ints(c, f.type) for c, f in zip(columns, fields, strict=True)]
        values = pa.StructArray.from_arrays(arrays, fields=fields)
        return _lists(np.full(self.count, len(who[0])), values)

    def _members(self) -> pa.Array:
        """What DescribeCluster lists: brokers with fenced ones, then controllers."""
        of_list = np.tile([self.nodes, CONTROLLERS], self.count)
        listed = pa.StructArray.from_arrays(
            [_ints(self.ids, NODE), _ints(~self.answers, pa.int8())],
            fields=list(MEMBER),
        )
        values = pa.StructArray.from_arrays(
            [
                _ints(np.tile([int(Role.BROKER), int(Role.CONTROLLER)], self.count), pa.int8()),
                pa.array(np.tile([True, False], self.count)),
                _ints(self.at[:, -3:-1], pa.int64()),
                _ints(self.line[:, -3:-1], pa.int64()),
                _lists(of_list, listed),
            ],
            fields=list(MEMBERS),
        )
        return _lists(np.full(self.count, 2), values)


def _number(kind: Int, counts: Bool) -> tuple[Int, Int, Int]:
    """Numbers the distinct `kind` of each row by first appearance among those that count.

    Returns the number of each entry (-1 where it does not count), and row and column of the first
    entry of each distinct kind, in the order of their numbers.
    """
    rows, width = kind.shape
    most = int(kind.max(initial=0)) + 1
    first = np.full((rows, most), width)
    where, column = np.nonzero(counts)
    np.minimum.at(first, (where, kind[where, column]), column)
    order = np.argsort(first, axis=1, kind="stable")
    rank = np.argsort(order, axis=1, kind="stable")
    local = np.where(counts, np.take_along_axis(rank, kind, axis=1), -1)
    sorted_first = np.take_along_axis(first, order, axis=1)
    at_row, position = np.nonzero(sorted_first < width)
    return local, at_row, sorted_first[at_row, position]


def _lists(lengths: Int, values: pa.Array) -> pa.Array:
    offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())
    return pa.ListArray.from_arrays(offsets, values)


def _ints(values: Int | Bool, of: pa.DataType) -> pa.Array:
    return pa.array(values.ravel()).cast(of)


def _names(names: list[str], at: Int) -> pa.Array:
    return pa.array(names, pa.string()).take(pa.array(at))
