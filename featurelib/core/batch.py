"""Hold thousands of UpdateFeatures requests as columns: supported ranges, state and updates.

R requests (one cluster each), U updates, F features, P profiles (range maps). One dialect judges
all requests of a batch. Nothing is decided here: nodes.py chooses the nodes when the groups are
built, and a column is computed when a rule first reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from featurelib.catalogue import ANY, Tables
from featurelib.core.dialect import Absence, Asks, Capability
from featurelib.core.rules import unsupported_by_node
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, TEST_FEATURES

Ints = npt.NDArray[np.int64]
Levels = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
NOT_HERE = -1  # replaces a position: no node, no release, no rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """The distinct range maps (profiles) of a batch. The last profile lists no feature. `lists`:
    false for an unlisted feature, whose range is 0-0."""

    min_version: Levels  # [P + 1, F] the lowest supported level
    max_version: Levels  # [P + 1, F] the highest supported level
    lists: Flags  # [P + 1, F] true if the profile lists the feature


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePairs:
    """The (request, profile) pairs that a rule checks. A pair stands for all nodes with this
    profile.

    The pairs of a request are adjacent and in the controller's order of nodes, so the first
    offending pair has the node that Kafka names."""

    start: Ints  # [R] the first pair of each request
    size: Ints  # [R] the number of pairs of each request
    profile: Ints  # [pairs] the profile's position in Ranges
    node: Ints  # [pairs] id of the first node that the controller checks
    count: Ints  # [pairs] the number of nodes of each pair
    registered: Flags  # [pairs] true if the nodes are registered


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterColumns:
    """The state of each cluster before its request: R clusters, F features."""

    release: Ints  # [R] the controller's position in the catalogue's tables; -1 = unknown
    finalized: Levels  # [R, F] 0 if not finalized
    minimum: Levels  # [R, F] finalized minimum, 0 if no minimum is stored
    cached: Levels  # [R, F] the levels in the controller's cache (ZooKeeper mode)
    cached_min: Levels  # [R, F] the minimum levels in the controller's cache
    kraft_record: Levels  # [R] the level in the controller's own record of kraft.version
    raft_level: Levels  # [R] the raft layer's own level of kraft.version, if it differs
    # [R] a node's software calls levels above this metadata.version unstable
    stable_metadata: Levels
    raft_ready: Flags  # [R] every voter reported its range of kraft.version to the raft leader
    migrating: Flags  # [R] true if the cluster migrates from ZooKeeper
    off: Flags  # [R] the feature system is off
    unauthorized: Flags  # [R] true if the user may not alter the cluster
    elsewhere: Flags  # [R] the receiver is not the active controller
    node_missing: Flags  # [R] the `/feature` znode does not exist
    blind: Flags  # [R] the controller would not see its own write in time
    active: Ints  # [R] the active controller's node id


@dataclass(frozen=True, slots=True, kw_only=True)
class Updates:
    """The updates to judge, one row each. Updates of one request are adjacent."""

    request: Ints  # [U] the position of the update's request
    feature: Ints  # [U] the position of the update's feature
    level: Levels  # [U] the requested level
    kind: Levels  # [U] the upgrade type
    rank: Ints  # [U] the update's position in the controller's order within the request


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The columns from which a dialect judges R requests with U updates."""

    names: tuple[str, ...]  # [F] the names of the features
    catalogued: Ints  # [F] the feature's position in the catalogue's tables; -1 = no position
    ranges: Ranges
    groups: dict[Asks, NodePairs]
    state: ClusterColumns
    updates: Updates
    dry_run: Flags  # [R] the request only validates
    vendors: bool = False  # controllers accept features that no catalogue has
    # [R, F] the state to compare with; None = the finalized levels after the updates.
    proposed: Levels | None = None

    @property
    def requests(self) -> int:
        return len(self.dry_run)

    def having(self, mask: Flags) -> Flags:
        """Return a mask [R] of the requests that have an update in `mask` [U]."""
        requests_hit = np.zeros(self.requests, dtype=bool)
        requests_hit[self.updates.request[mask]] = True
        return requests_hit

    def code(self, name: str) -> int:
        """Return the position of a feature's name; -1 if the batch lacks the feature."""
        return self.names.index(name) if name in self.names else NOT_HERE


class UpdateColumns:
    """The columns UPDATE_COLUMNS that need no data of nodes."""

    def __init__(self, batch: Batch, capability: Capability, tables: Tables) -> None:
        self._batch, self._can, self._tables = batch, capability, tables
        updates, state = batch.updates, batch.state
        self.request, self.feature = updates.request, updates.feature
        self.level, self.kind = updates.level, updates.kind
        self.is_metadata_version: Flags = self.feature == batch.code(METADATA_VERSION)
        self.is_kraft_version: Flags = self.feature == batch.code(KRAFT_VERSION)
        any_release = np.full(len(self.request), tables.release_code(ANY))
        own_catalogue = capability.catalogue == "own"
        self._release: Ints = state.release[self.request] if own_catalogue else any_release
        self._catalogued = batch.catalogued[self.feature]
        self.metadata_floor = np.int32(capability.metadata_floor)
        self.metadata_needed = np.int32(capability.metadata_needed)
        self.register_from = np.int32(capability.controllers_register_from)

    def _by_update(self, values: Levels) -> Levels:
        """Return [U] the value at (request, feature) of each update, from a table [R, F]."""
        column: Levels = values[self.request, self.feature]
        return column

    @cached_property
    def current(self) -> Levels:
        state = self._batch.state
        current = self._by_update(state.cached if self._can.judges == "cached" else state.finalized)
        if self._can.absent_metadata_version:
            absent = self.is_metadata_version & (current == 0)
            current = np.where(absent, np.int32(self._can.absent_metadata_version), current)
        if self._can.kraft_version == "record":
            return np.where(self.is_kraft_version, state.kraft_record[self.request], current)
        if self._can.kraft_version == "ignored_record":
            return np.where(self.is_kraft_version, np.int32(0), current)
        return current

    @cached_property
    def finalized_min(self) -> Levels:
        return self._by_update(self._batch.state.cached_min)

    @cached_property
    def nameless(self) -> Flags:
        return self.feature == self._batch.code("")

    @cached_property
    def proposed_state(self) -> Levels:
        """The levels [R, F] after all updates: requested levels replace finalized ones."""
        if self._batch.proposed is not None:
            return self._batch.proposed
        proposed = self._batch.state.finalized.copy()
        proposed[self.request, self.feature] = self.level
        return proposed

    @cached_property
    def metadata_version(self) -> Levels:
        """The current metadata.version [U] of each update's cluster."""
        return self._metadata(self._batch.state.finalized)

    @cached_property
    def metadata_proposed(self) -> Levels:
        return self._metadata(self.proposed_state)

    def _metadata(self, state: Levels) -> Levels:
        code = self._batch.code(METADATA_VERSION)
        absent = np.int32(self._can.absent_metadata_version)
        if code == NOT_HERE:
            return np.full(len(self.request), absent, dtype=np.int32)
        stored = state[self.request, code]
        return np.where(stored == 0, absent, stored)

    @cached_property
    def known_feature(self) -> Flags:
        is_known: Flags = (self._catalogued >= 0) & (self._release >= 0)
        newest = self._tables.newest_unstable[self._release, self._catalogued]
        return is_known & (newest >= 0) | self._is_vendor_feature | self._is_test_feature

    @cached_property
    def _is_vendor_feature(self) -> Flags:
        """A mask [U] of updates of advertised features that the catalogue lacks."""
        if not self._batch.vendors:
            return np.zeros(len(self.level), dtype=bool)
        return (self._catalogued < 0) & self.local_lists

    @cached_property
    def _is_test_feature(self) -> Flags:
        """A mask [U] of updates of the test features in Kafka's source code (KIP-1022)."""
        names = self._batch.names if self._can.knows_test_features else ()
        codes = np.array([i for i, name in enumerate(names) if name in TEST_FEATURES], dtype=int)
        return np.isin(self.feature, codes)

    @cached_property
    def known_level(self) -> Flags:
        level = self.level
        is_inside = (level >= 0) & (level < self._tables.width)
        at = np.where(is_inside, level, 0)
        is_known: Flags = self._tables.level_known[self._release, self._catalogued, at]
        return self.known_feature & is_inside & is_known | self._is_vendor_feature

    @cached_property
    def newest_known(self) -> Levels:
        newest = self._tables.newest_unstable[:, self._catalogued].max(axis=0)
        return np.where(self._catalogued >= 0, newest, -1).astype(np.int32)

    @cached_property
    def newest_stable(self) -> Levels:
        newest = self._tables.newest_stable[self._release, self._catalogued]
        if self._can.stable_by == "nodes":
            stable = self._batch.state.stable_metadata[self.request]
            newest = np.where(self.is_metadata_version, np.minimum(newest, stable), newest)
        return np.where(self.known_feature & (self._catalogued >= 0), newest, -1).astype(np.int32)

    @cached_property
    def loses(self) -> Flags:
        """A mask [U] of updates between two levels with different metadata records."""
        highest = self._tables.width
        before, after = (
            np.clip(end, 0, highest).astype(np.int16) for end in (self.current, self.level)
        )
        changed: Flags = self._tables.lossy(self._release, before, after)
        return self.is_metadata_version & changed

    @cached_property
    def _dependency(self) -> tuple[Levels, Levels, Ints]:
        """The (needed level, proposed level, feature) of each update's worst unmet dependency; (0,
        0, -1) without dependency."""
        needed = np.zeros(len(self.level), dtype=np.int32)
        present, features = needed.copy(), np.full(len(self.level), NOT_HERE)
        every = self._tables.dependencies
        relevant = np.isin(every[:, 0], self._release) & np.isin(every[:, 1], self._catalogued)
        for release, feature, level, other, least in every[relevant].tolist():
            is_match = (self._catalogued == feature) & (self.level == level)
            rows = np.flatnonzero(is_match & (self._release == release))
            proposed = self._proposed(rows, other)
            is_worse = least - proposed > needed[rows] - present[rows]
            needed[rows[is_worse]], present[rows[is_worse]] = least, proposed[is_worse]
            features[rows[is_worse]] = other
        return needed, present, features

    def _proposed(self, rows: Ints, feature: int) -> Levels:
        """Return the level of a feature after the updates `rows`, from the proposed state."""
        if self._tables.features[feature] == METADATA_VERSION:
            return self.metadata_proposed[rows]
        code = self._batch.code(self._tables.features[feature])
        if code == NOT_HERE:
            return np.zeros(len(rows), dtype=np.int32)
        column: Levels = self.proposed_state[self.request[rows], code]
        return column

    @property
    def needed(self) -> Levels:
        return self._dependency[0]

    @property
    def proposed(self) -> Levels:
        return self._dependency[1]

    @property
    def depends_on(self) -> Ints:
        return self._dependency[2]

    @cached_property
    def needed_by_others(self) -> Levels:
        """The level [U] of the update's feature that other proposed levels depend on; 0 = none."""
        least = np.zeros(len(self.level), dtype=np.int32)
        for release, feature, level, other, needed in self._tables.dependencies.tolist():
            rows = np.flatnonzero((self._catalogued == other) & (self._release == release))
            mask = rows[self._proposed(rows, feature) == level]
            least[mask] = np.maximum(least[mask], needed)
        levels = np.delete(self.proposed_state, self._batch.code(METADATA_VERSION), axis=1)
        any_level: Flags = np.any(levels > 0, axis=1)
        stored = self.is_metadata_version & any_level[self.request]
        return np.maximum(least, np.where(stored, self.metadata_needed, 0))

    def __getattr__(self, name: str) -> Flags:
        """Return [U] a flag of each update's request, such as `migrating`."""
        of_request: Flags = getattr(self._batch.state, name)
        return of_request[self.request]

    @cached_property
    def _local(self) -> NodeColumns:
        """The columns of the nodes that may be the active controller."""
        return NodeColumns(self, self._batch, Asks.LOCAL_CONTROLLER)

    def _least_of(self, values: Levels) -> Levels:
        """Return [U] the minimum of `values` over possible active controllers, or 0."""
        size = self._local.size
        filled = np.flatnonzero(size)
        least = np.zeros(len(size), dtype=values.dtype)
        if len(values):
            least[filled] = np.minimum.reduceat(values, (np.cumsum(size) - size)[filled])
        return least

    @cached_property
    def local_lists(self) -> Flags:
        return self._least_of(self._local.lists.astype(np.int32)) > 0

    @cached_property
    def local_min(self) -> Levels:
        return self._least_of(self._local.min_version)

    @cached_property
    def local_max(self) -> Levels:
        return self._least_of(self._local.max_version)


class NodeColumns:
    """The NODE_COLUMNS: one row per (update, profile of a checked node)."""

    def __init__(
        self, updates: UpdateColumns, batch: Batch, asks: Asks, absence: Absence = Absence.ZERO
    ) -> None:
        self.group = batch.groups[asks]
        self.size = self.group.size[updates.request]  # [U] the number of pairs of each update
        before = self.group.start[updates.request] - (np.cumsum(self.size) - self.size)
        self.update: Ints = np.repeat(np.arange(len(self.size)), self.size)
        self.pair: Ints = np.arange(len(self.update)) + np.repeat(before, self.size)
        self._at = self.group.profile[self.pair], updates.feature[self.update]
        self._updates, self._ranges, self._absence = updates, batch.ranges, absence

    @cached_property
    def level(self) -> Levels:
        return np.repeat(self._updates.level, self.size)

    @property
    def lowest(self) -> Levels:
        return self._updates.local_min[self.update]

    @cached_property
    def min_version(self) -> Levels:
        return self._ranges.min_version[self._at]

    @cached_property
    def max_version(self) -> Levels:
        return self._ranges.max_version[self._at]

    @property
    def lists(self) -> Flags:
        return self._ranges.lists[self._at]

    @property
    def silent(self) -> Flags:
        if self._absence is not Absence.REFUSE:
            return np.zeros(len(self.update), dtype=bool)
        return ~self.lists


class GroupColumns:
    """The GROUP_COLUMNS: per update, numbers of checked nodes."""

    def __init__(self, updates: UpdateColumns, batch: Batch, asks: Asks, absence: Absence) -> None:
        self.nodes = NodeColumns(updates, batch, asks, absence)
        self._request = updates.request

    @property
    def asked(self) -> Ints:
        return self._of_request(self.nodes.group.count)

    @property
    def unregistered(self) -> Ints:
        group = self.nodes.group
        return self._of_request(np.where(group.registered, 0, group.count))

    @property
    def refusing(self) -> Ints:
        nodes = self.nodes
        outside = unsupported_by_node(
            nodes.level, nodes.min_version, nodes.max_version, nodes.silent
        )
        count = nodes.group.count[nodes.pair] * outside
        return np.bincount(nodes.update, count, len(self._request)).astype(np.int64)

    def _of_request(self, count: Ints) -> Ints:
        """Return [U] the sum of `count` over the checked nodes of each update's request."""
        group, total = self.nodes.group, np.concatenate(([0], np.cumsum(count)))
        summed: Ints = total[group.start + group.size] - total[group.start]
        return summed[self._request]
