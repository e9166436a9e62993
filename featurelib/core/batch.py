"""Thousands of UpdateFeatures requests as columns: what the nodes support, the state, the updates.

R requests (one cluster each), U updates, F features, P profiles. All requests of a batch are put to
one dialect. Nothing here decides: who is live, registered or a voter was settled when the groups
were built.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from featurelib.core.dialect import Asks

Ints = npt.NDArray[np.int64]
Levels = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
NOT_HERE = -1  # no position: no node, no release, no rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """The distinct maps feature → range of a batch; the last profile lists nothing.

    `lists` is False where the profile does not mention the feature; both ends are 0 there.
    """

    min_version: Levels  # [P + 1, F]
    max_version: Levels  # [P + 1, F]
    lists: Flags  # [P + 1, F]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Whom a rule asks: nodes of one request with one profile are one pair.

    Pairs of a request lie together, in the order in which the controller asks the first node of
    each, so that the first offending pair holds the node Kafka names.
    """

    start: Ints  # [R] the first pair of each request
    size: Ints  # [R] how many pairs it has
    profile: Ints  # [pairs]
    node: Ints  # [pairs] id of the first node in asking order
    count: Ints  # [pairs] how many nodes
    registered: Flags  # [pairs]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What is true of each cluster before its request."""

    release: Ints  # [R] of the controller, a position in the catalogue's tables; -1 unknown
    finalized: Levels  # [R, F] 0 = not finalized
    minimum: Levels  # [R, F] finalized minimum, 0 where none is stored
    cached: Levels  # [R, F] what the controller takes for finalized (ZooKeeper mode)
    cached_min: Levels  # [R, F]
    kraft_record: Levels  # [R] the level in the controller's own record of kraft.version
    raft_level: Levels  # [R] the level of the raft layer itself, where that is another thing
    stable_metadata: Levels  # [R] above it a node's own software calls what it supports unstable
    raft_ready: Flags  # [R] every voter told the raft leader that it supports kraft.version
    migrating: Flags  # [R]
    off: Flags  # [R] the feature system is off
    unauthorized: Flags  # [R]
    elsewhere: Flags  # [R] another node is the active controller
    node_missing: Flags  # [R] the features node does not exist
    blind: Flags  # [R] the controller would not see its own write in time
    active: Ints  # [R] id of the active controller


@dataclass(frozen=True, slots=True, kw_only=True)
class Updates:
    """One row for each update that counts; those of a request lie together."""

    request: Ints  # [U]
    feature: Ints  # [U]
    level: Levels  # [U]
    kind: Levels  # [U] upgrade type
    rank: Ints  # [U] the place in which the controller judges it within its request


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Everything a dialect needs to answer R requests."""

    names: tuple[str, ...]  # [F]
    catalogued: Ints  # [F] a position in the catalogue's tables; -1 = not a catalogued feature
    ranges: Ranges
    groups: dict[Asks, Group]
    state: State
    updates: Updates
    dry_run: Flags  # [R] validate only was asked for
    vendors: bool = False  # a controller knows what it advertises, though no catalogue does

    @property
    def requests(self) -> int:
        return len(self.dry_run)

    def code(self, name: str) -> int:
        """The position of a feature; -1 when nothing in the batch mentions it."""
        return self.names.index(name) if name in self.names else NOT_HERE
