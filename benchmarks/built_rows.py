"""Facts as snapshot rows, built column by column: the rows that folding the lines gives.

For fleets whose lines nobody wants to store. Two columns that no verdict depends on differ from
rows of a real night: a line's id is its number in the fleet, and `state` is empty.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import numpy.typing as npt

from benchmarks.facts import CONTROLLERS, Bool, Facts, Int
from benchmarks.fleet_lines import CONTROLLER_EPOCH, REFUSED, dissenting_levels
from featurelib.feature import Role, Witness
from featurelib.rows import Cells, Column, TableRows, cells_of, texts_of
from featurelib.schema import LAYOUT
from featurelib.snapshot.records import pack, with_checksum

BATCH = 1000  # clusters


def build_rows(facts: Facts) -> Iterator[TableRows]:
    """The fleet's rows, of featurelib.schema.SNAPSHOT, some at a time."""
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
        self.parts: dict[str, Cells] = {}
        self.dissenter = facts.dissenter[clusters]
        self.last = self.nodes - 1 - np.argmax(self.answers[:, self.nodes - 1 :: -1], axis=1)

    def build(self) -> TableRows:
        profile = self._profiles()
        shown = self._level_maps()
        observing = self.answers[:, : self.nodes].copy()
        observing[self.facts.combined[self.clusters], :CONTROLLERS] = False
        self._listeners(profile, shown)
        self._witnesses(shown)
        self._members()
        voters = self.ids[:, self.nodes :]
        each = np.full(self.count, CONTROLLERS)
        follows, unknown = np.ones_like(voters), np.full_like(voters, -1)
        self._put("voters", each, node_id=voters, follows=follows, directory=unknown)
        self._put("observers", observing.sum(axis=1), node_id=self.ids[:, : self.nodes][observing])
        none = np.full(self.count, -1)
        self._put(
            "scalars",
            np.ones(self.count, dtype=np.int64),
            quorum_at=self.at[:, -1],
            quorum_line=self.line[:, -1],
            controller=self.ids[:, self.nodes],
            **dict.fromkeys(("log_gap_end", "migration", "features_node_version"), none),
        )
        names = msgspec.msgpack.encode(self.facts.builds.names)
        failed = [not all(row) for row in self.answers.tolist()]
        errors = [msgspec.msgpack.encode([REFUSED] if one else []) for one in failed]
        columns: dict[str, Column | Int] = {
            "cluster": texts_of(self.facts.ids[self.clusters]),
            "observed_at": self.at[:, -1],
            "waiting": np.zeros(self.count, dtype=np.int64),
            "names": cells_of([names] * self.count),
            "texts": cells_of(errors),
        }
        for part in LAYOUT:
            if part not in self.parts:
                self._put(part, np.zeros(self.count, dtype=np.int64))
        return with_checksum(columns | self.parts)

    def _put(self, part: str, lengths: Int, **fields: npt.NDArray[np.generic]) -> None:
        """A part's column; a field that is left out is 0."""
        records = np.zeros(int(lengths.sum()), dtype=LAYOUT[part])
        for name, values in fields.items():
            records[name] = values.ravel()
        self.parts[part] = pack(records, lengths)

    def _profiles(self) -> Int:
        """Puts the distinct maps of each cluster; which one each listener advertises."""
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
        count = np.bincount(at_row, minlength=self.count)
        self._put("profiles", count, size=np.full(len(at_row), width))
        self._put(
            "ranges",
            count * width,
            feature=np.tile(np.arange(width), len(at_row)),
            min_version=own,
            max_version=builds.maximum[software[at_row, at_listener]],
        )
        return local

    def _level_maps(self) -> Int:
        """Puts the distinct maps of levels of each cluster; which one each listener shows."""
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
        self._put("level_maps", np.bincount(at_row, minlength=self.count), size=there.sum(axis=1))
        count = np.bincount(at_row, weights=there.sum(axis=1), minlength=self.count)
        level = levels[there]
        feature = np.nonzero(there)[1]
        self._put("levels", count.astype(np.int64), feature=feature, min_level=level, level=level)
        return local

    def _listeners(self, profile: Int, shown: Int) -> None:
        listeners = self.answers.shape[1]
        at, line = self.at[:, :listeners], self.line[:, :listeners]
        epoch = np.hstack((self.facts.epoch[self.clusters], self._controller_epoch()))
        role = np.broadcast_to(np.arange(listeners) >= self.nodes, at.shape).astype(np.int64)
        answers, none = self.answers, np.full(at.shape, -1)
        epochs = np.where(answers, epoch, -1)
        self._put(
            "listeners",
            np.full(self.count, listeners),
            node_id=self.ids,
            role=role,
            full=profile,
            full_at=np.where(answers, at, 0),
            full_line=np.where(answers, line, 0),
            partial=none,
            levels=shown,
            epoch=epochs,
            highest_epoch=epochs,
            levels_at=np.where(answers, at, 0),
            levels_line=np.where(answers, line, 0),
            failed_at=np.where(answers, 0, at),
            failed_line=np.where(answers, 0, line),
            error=np.where(answers, -1, 0),
            releases=none,
            releases_at=np.where(answers, at, 0),
            scraped=none,
        )

    def _controller_epoch(self) -> Int:
        epoch = CONTROLLER_EPOCH + self.facts.finalized[self.clusters].astype(np.int64)
        return np.repeat(epoch[:, None], CONTROLLERS, axis=1)

    def _witnesses(self, shown: Int) -> None:
        """The last broker that answers, and the last controller: their epochs are the highest."""
        rows, listeners = np.arange(self.count), self.answers.shape[1]
        broker, controller = self.last, np.full(self.count, listeners - 1)
        who = np.stack((broker, controller), axis=1)
        epoch = self.facts.epoch[self.clusters][rows, broker]
        self._put(
            "witnesses",
            np.full(self.count, len(who[0])),
            kind=np.tile([int(Witness.BROKER), int(Witness.CONTROLLER)], (self.count, 1)),
            levels=shown[rows[:, None], who],
            epoch=np.stack((epoch, self._controller_epoch()[:, 0]), axis=1),
            at=self.at[rows[:, None], who],
            line=self.line[rows[:, None], who],
        )

    def _members(self) -> None:
        """What DescribeCluster lists: brokers with fenced ones, then controllers."""
        sizes = np.tile([self.nodes, CONTROLLERS], self.count)
        self._put(
            "members",
            np.full(self.count, 2),
            role=np.tile([int(Role.BROKER), int(Role.CONTROLLER)], self.count),
            fenced_shown=np.tile([True, False], self.count),
            at=self.at[:, -3:-1],
            line=self.line[:, -3:-1],
            size=sizes,
        )
        self._put(
            "member",
            np.full(self.count, self.nodes + CONTROLLERS),
            node_id=self.ids,
            fenced=~self.answers,
        )


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
