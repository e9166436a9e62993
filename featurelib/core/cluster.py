"""Describe a cluster and a request as plain values, and turn them into a batch for the engine.

Controllers, backends and people use plain values. A fleet comes from snapshot rows instead
(audit/fleet.py). Both fill the table of nodes in core/nodes.py, and use the engine core/judge.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from featurelib.catalogue import Tables
from featurelib.core.batch import (
    Batch,
    ClusterColumns,
    Flags,
    Ints,
    Levels,
    NodePairs,
    Ranges,
    Updates,
)
from featurelib.core.dialect import Asks, Dialect, WalkOrder
from featurelib.core.nodes import Nodes, are_asked, are_walked
from featurelib.feature import (
    KRAFT_VERSION,
    METADATA_VERSION,
    SILENT_METADATA_VERSION,
    Role,
    UpgradeType,
    release_number,
)

Range = tuple[int, int]
Half = tuple[Role, int]  # a broker or a controller, and its node id
Features = dict[str, Range]  # a profile: feature → supported range


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node in one role, broker or controller."""

    node_id: int
    role: Role
    supported: Features = field(default_factory=dict)
    release: str = ""
    registered: bool = True
    fenced: bool = False
    running: bool = True  # true if the node responds now
    gone: bool = False  # true if Kafka calls it fenced, or does not see it in the quorum
    voter: bool = False
    ignored: bool = False  # true: registered and not among the live brokers (ZooKeeper mode)

    def range_of(self, feature: str) -> Range:
        """Return the node's range of `feature`. An unlisted metadata.version means 3.0-IV1; another
        unlisted feature means 0-0 (KIP-778)."""
        silent = SILENT_METADATA_VERSION if feature == METADATA_VERSION else 0
        return self.supported.get(feature, (silent, silent))

    @property
    def half(self) -> Half:
        """The pair (role, node id) of the node."""
        return self.role, self.node_id

    def widened(self, levels: Mapping[str, int]) -> Node:
        """Return the node with ranges extended to include `levels`."""
        ends = {name: (*self.range_of(name), level) for name, level in levels.items()}
        ranges = {name: (min(values), max(values)) for name, values in ends.items()}
        return replace(self, supported=self.supported | ranges)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The state of one cluster. `finalized`: feature → (minimum, level)."""

    release: str  # the active controller's release
    nodes: tuple[Node, ...] = ()
    active: int = -1
    finalized: dict[str, Range] = field(default_factory=dict)
    cached: dict[str, Range] | None = None  # None = the controller's cache is up to date
    kraft_record: int = 0
    raft_level: int = 0
    # The ids in the active controller's own controller.quorum.voters, in that order. None = the
    # default: the voters of a static quorum, no node in a dynamic quorum.
    configured_voters: tuple[int, ...] | None = None
    off: bool = False
    migrating: bool = False
    node_missing: bool = False
    blind: bool = False

    @property
    def levels(self) -> dict[str, int]:
        """The finalized levels: feature → level."""
        return {name: level for name, (_, level) in self.finalized.items()}

    def level(self, feature: str) -> int:
        """Return the finalized level of `feature`; 0 if it is not finalized."""
        return self.finalized.get(feature, (0, 0))[1]

    @property
    def has_quorum(self) -> bool:
        """True if the cluster has controllers. A cluster in ZooKeeper mode has only brokers."""
        return any(node.role is Role.CONTROLLER for node in self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """An update in an UpdateFeatures request. `kind`: the code of the upgrade type."""

    feature: str
    level: int
    kind: int = UpgradeType.UPGRADE
    allow_downgrade: bool = False  # the flag AllowDowngrade of request version 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An UpdateFeatures request with its version, options and receiver."""

    updates: tuple[Update, ...]
    version: int = 1  # the version of the request in Kafka's protocol
    validate_only: bool = False
    timeout_ms: int = 60_000
    to_active: bool = True
    authorized: bool = True


Case = tuple[Cluster, Request]


def counted(updates: Sequence[Update], duplicates: str) -> list[Update]:
    """Return the updates that count if a feature is repeated, in order of first mention."""
    if duplicates == "each":
        return list(updates)
    updates_kept: dict[str, Update] = {}
    for update in updates:
        if duplicates == "last" or update.feature not in updates_kept:
            updates_kept[update.feature] = update
    return list(updates_kept.values())


def kind_of(update: Update, version: int, dialect: Dialect) -> int:
    """Return the upgrade type that a controller reads. Request version 0 has `allow_downgrade`
    instead of a type."""
    if version > 0:
        return update.kind
    flag = dialect.can.upgrade_type_v0 == "allow_downgrade" and update.allow_downgrade
    return UpgradeType.SAFE_DOWNGRADE if flag else UpgradeType.UPGRADE


def build(cases: Sequence[Case], dialect: Dialect, tables: Tables) -> Batch:
    """Build the batch of the (cluster, request) pairs `cases`."""
    updates = [counted(request.updates, dialect.can.duplicates) for _, request in cases]
    names = _names(cases, updates)
    at = {name: i for i, name in enumerate(names)}
    profiles: dict[frozenset[tuple[str, Range]], int] = {}

    def position(supported: Features) -> int:
        """Return the profile number of a range map. Equal maps have one number."""
        listed = frozenset(item for item in supported.items() if item[0] in at)
        return profiles.setdefault(listed, len(profiles))

    nodes = table([cluster for cluster, _ in cases], position)
    low, high, is_listed = _ends((dict(listed) for listed in (*profiles, ())), at)
    orders = {Asks.LOCAL_CONTROLLER: WalkOrder.NONE}
    orders |= {row.asks: row.order for row in dialect.rules if row.asks is not None}
    return Batch(
        names=names,
        catalogued=np.array([tables.feature_code(name) for name in names], dtype=np.int64),
        ranges=Ranges(min_version=low, max_version=high, lists=is_listed),
        groups={rule: _group(nodes, rule, order, len(cases)) for rule, order in orders.items()},
        state=_state(cases, at, tables),
        updates=_updates(cases, updates, at, dialect),
        dry_run=np.array([request.validate_only for _, request in cases], dtype=bool),
    )


def _names(cases: Sequence[Case], requested: list[list[Update]]) -> tuple[str, ...]:
    names = [METADATA_VERSION, KRAFT_VERSION]
    for (cluster, _), updates in zip(cases, requested, strict=True):
        names += [*cluster.finalized, *(cluster.cached or ()), *(u.feature for u in updates)]
    return tuple(dict.fromkeys(names))


def _ends(maps: Iterable[Features], at: dict[str, int]) -> tuple[Levels, Levels, Flags]:
    """Return (minimum, maximum, is listed) of each feature in each map, all [maps, features]."""
    features = list(maps)
    low = np.zeros((len(features), len(at)), dtype=np.int32)
    high, lists = np.zeros_like(low), np.zeros(low.shape, dtype=bool)
    for row, ranges in enumerate(features):
        for name, (lowest, highest) in ranges.items():
            low[row, at[name]], high[row, at[name]], lists[row, at[name]] = lowest, highest, True
    return low, high, lists


def table(clusters: Sequence[Cluster], position: Callable[[Features], int]) -> Nodes:
    """Return the node columns of clusters, in the order of registration. Unregistered nodes in a
    cluster's configuration come last. `position`: returns the profile number of a range map."""
    every = [(i, node, known) for i, c in enumerate(clusters) for node, known in _all_nodes(c)]
    nodes = [node for _, node, _ in every]
    places = [_configured(cluster) for cluster in clusters]
    # In ZooKeeper mode the active controller is a broker.
    local = [(Role.CONTROLLER if c.has_quorum else Role.BROKER, c.active) for c in clusters]

    def flags(condition: Callable[[Node], bool]) -> Flags:
        return np.array([condition(node) for node in nodes], dtype=bool)

    is_active = np.array([(n.role, n.node_id) == local[i] for i, n, _ in every], dtype=bool)
    known = np.array([known for _, _, known in every], dtype=bool)
    controller, voter = flags(lambda n: n.role is Role.CONTROLLER), flags(lambda n: n.voter)
    at = [places[i].get(n.node_id, -1) for i, n, _ in every]
    return Nodes(
        cluster=np.array([i for i, _, _ in every], dtype=np.int64),
        node_id=np.array([node.node_id for node in nodes], dtype=np.int64),
        controller=controller,
        profile=np.array([position(node.supported) for node in nodes], dtype=np.int64),
        known=known,
        registered=flags(lambda n: n.registered),
        voter=voter,
        live=flags(lambda n: n.running and not n.fenced and not n.ignored),
        reachable=voter & flags(lambda n: n.running and n.registered),
        configured=np.where(controller, np.array(at, dtype=np.int64), -1),
        leads=is_active & known,
        is_active=is_active,
    )


def unregistered(cluster: Cluster, asks: Asks) -> list[Node]:
    """Return the unregistered nodes that a rule with `asks` counts."""
    nodes = table([cluster], lambda _: 0)
    rows = np.flatnonzero(are_asked(nodes, asks) & ~nodes.registered)
    nodes_of = [node for node, _ in _all_nodes(cluster)]
    return [nodes_of[i] for i in rows[np.argsort(nodes.configured[rows])].tolist()]


def _all_nodes(cluster: Cluster) -> list[tuple[Node, bool]]:
    """Return (node, true) of each node, and (node, false) of ids only in a configuration."""
    ids = {node.node_id for node in cluster.nodes if node.role is Role.CONTROLLER}
    unknown = [i for i in dict.fromkeys(cluster.configured_voters or ()) if i not in ids]
    unseen = [Node(node_id=i, role=Role.CONTROLLER, registered=False) for i in unknown]
    return [*((node, True) for node in cluster.nodes), *((node, False) for node in unseen)]


def _configured(cluster: Cluster) -> dict[int, int]:
    """Return node id → position of the controllers that the active controller must check."""
    ids: Iterable[int] | None = cluster.configured_voters
    if ids is None:
        static = cluster.raft_level == 0
        ids = (node.node_id for node in cluster.nodes if static and node.voter)
    return {node_id: position for position, node_id in enumerate(dict.fromkeys(ids))}


def _check_order(rows: Ints, nodes: Nodes, order: WalkOrder) -> list[int]:
    """Return the rows of one cluster in the order in which the controller checks the nodes."""
    ordered = rows.tolist()
    if order is WalkOrder.NONE:
        return sorted(ordered, key=lambda row: (nodes.node_id[row], nodes.controller[row]))
    if order in (WalkOrder.TABLE, WalkOrder.TABLE_HASH):
        ordered = [ordered[i] for i in table_order(nodes.node_id[ordered].tolist())]
    if order is not WalkOrder.TABLE:
        capacity = 1 if order is WalkOrder.SIZED_HASH else 16
        ordered = [ordered[i] for i in hash_order(nodes.node_id[ordered].tolist(), capacity)]
    return ordered


def _group(nodes: Nodes, asks: Asks, order: WalkOrder, clusters: int) -> NodePairs:
    """Return one pair per node, so that a message can name each offending node."""
    relevant, walked = are_asked(nodes, asks), np.flatnonzero(are_walked(nodes, asks))
    if asks is Asks.CONFIGURED_VOTERS:  # the controller checks them in the order of the list
        walked = walked[np.lexsort((nodes.configured[walked], nodes.cluster[walked]))]
    parts = np.split(walked, np.searchsorted(nodes.cluster[walked], np.arange(1, clusters)))
    every = np.array([row for rows in parts for row in _check_order(rows, nodes, order)], dtype=int)
    every = every[relevant[every]]
    size = np.bincount(nodes.cluster[every], minlength=clusters)
    return NodePairs(
        start=np.cumsum(size) - size,
        size=size,
        profile=nodes.profile[every],
        node=nodes.node_id[every],
        count=np.ones(len(every), dtype=np.int64),
        registered=nodes.registered[every],
    )


def _state(cases: Sequence[Case], at: dict[str, int], tables: Tables) -> ClusterColumns:
    clusters = [cluster for cluster, _ in cases]
    minimum, finalized, _ = _ends((cluster.finalized for cluster in clusters), at)
    levels = (c.finalized if c.cached is None else c.cached for c in clusters)
    cached_min, cached, _ = _ends(levels, at)

    def flags(condition: Callable[[Cluster], bool]) -> Flags:
        return np.array([condition(cluster) for cluster in clusters], dtype=bool)

    return ClusterColumns(
        release=np.array([tables.release_code(cluster.release) for cluster in clusters]),
        finalized=finalized,
        minimum=minimum,
        cached=cached,
        cached_min=cached_min,
        kraft_record=np.array([cluster.kraft_record for cluster in clusters], dtype=np.int32),
        raft_level=np.array([cluster.raft_level for cluster in clusters], dtype=np.int32),
        stable_metadata=np.array([_stable_metadata(c, tables) for c in clusters], dtype=np.int32),
        raft_ready=flags(_is_raft_ready),
        migrating=flags(lambda c: c.migrating),
        off=flags(lambda c: c.off),
        unauthorized=np.array([not request.authorized for _, request in cases], dtype=bool),
        elsewhere=np.array([not request.to_active for _, request in cases], dtype=bool),
        node_missing=flags(lambda c: c.node_missing),
        blind=np.array([c.blind or request.timeout_ms <= 0 for c, request in cases], dtype=bool),
        active=np.array([cluster.active for cluster in clusters], dtype=np.int64),
    )


def _stable_metadata(cluster: Cluster, tables: Tables) -> int:
    """Return the metadata.version above which a node's own software calls levels unstable; the
    number of levels if all are stable."""
    column = tables.feature_code(METADATA_VERSION)
    codes = {name: tables.release_code(name) for name in {node.release for node in cluster.nodes}}
    ends = [tables.width]
    for node in cluster.nodes:
        code = codes[node.release]
        stable = int(tables.newest_stable[code, column]) if code >= 0 else tables.width
        if node.supported.get(METADATA_VERSION, (0, 0))[1] > stable:
            ends.append(stable)
    return min(ends)


def _is_raft_ready(cluster: Cluster) -> bool:
    """Return true if all voters report their ranges to the raft leader (Kafka 4.1 and later)."""
    voters = [node for node in cluster.nodes if node.voter]
    return all(node.supported and release_number(node.release) >= (4, 1) for node in voters)


def _updates(
    cases: Sequence[Case], requested: list[list[Update]], at: dict[str, int], dialect: Dialect
) -> Updates:
    rows: list[tuple[int, int, int, int, int]] = []
    for i, ((_, request), updates) in enumerate(zip(cases, requested, strict=True)):
        ranks = _ranks([update.feature for update in updates], dialect.can.update_order)
        rows += [
            (i, at[u.feature], u.level, kind_of(u, request.version, dialect), rank)
            for u, rank in zip(updates, ranks, strict=True)
        ]
    columns = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    return Updates(
        request=columns[0],
        feature=columns[1],
        level=columns[2].astype(np.int32),
        kind=columns[3].astype(np.int32),
        rank=columns[4],
    )


def _ranks(names: list[str], order: str) -> list[int]:
    """Return each update's position in the order in which the controller judges updates."""
    positions = range(len(names))
    if order == "hash":
        walk = name_order(names)
    else:
        walk = sorted(positions, key=names.__getitem__) if order == "name" else list(positions)
    return sorted(positions, key=walk.__getitem__)  # the inverse permutation of `walk`


# The orders in which Java iterates over its maps, so that the first offender is the one that Kafka
# names. Only names in messages depend on these orders. Sources: java.util.HashMap,
# java.lang.String.hashCode, org.apache.kafka.timeline.BaseHashTable.
_INT = 1 << 32
_LONG = 1 << 64
_MULTIPLIER = -7046029254386353131  # BaseHashTable spreads the bits of a hash with this factor


def string_hash(text: str) -> int:
    """Return Java's String.hashCode as an unsigned 32-bit number."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for i in range(0, len(data), 2):
        value = (31 * value + (data[i] << 8 | data[i + 1])) % _INT
    return value


def hash_order(hashes: Iterable[int], capacity: int = 16) -> list[int]:
    """Return the positions of distinct keys with these hashes in the iteration order of
    java.util.HashMap. `capacity`: the initial size of the map."""
    keys = list(hashes)
    size = capacity
    while len(keys) > 0.75 * size:
        size *= 2
    return sorted(range(len(keys)), key=lambda i: ((keys[i] ^ keys[i] >> 16) & (size - 1), i))


def name_order(names: Iterable[str], capacity: int = 16) -> list[int]:
    """Return the positions of distinct names in the iteration order of a Java HashMap."""
    return hash_order((string_hash(name) for name in names), capacity)


def table_order(ids: Iterable[int]) -> list[int]:
    """Return the positions of node ids in the iteration order of Kafka's TimelineHashMap."""
    keys = list(ids)
    size = 2
    for count in range(len(keys)):
        while (count + 1) * 0.75 > size:
            size *= 2
    bits = size.bit_length() - 1
    slot = [((key * _MULTIPLIER) % _LONG) >> (64 - bits) for key in keys]
    return sorted(range(len(keys)), key=lambda i: (slot[i], -i))
