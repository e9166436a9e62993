"""The edge for one cluster, or a few: plain values in, a batch out.

Who is live, registered, reachable or a voter is decided here, once, not in rules. A fleet comes
from snapshot rows instead; both ask the same core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from featurelib.catalogue.tables import Tables
from featurelib.core.batch import Batch, Flags, Group, Levels, Ranges, State, Updates
from featurelib.core.cluster import (
    Case,
    Cluster,
    Features,
    Node,
    Range,
    Update,
    counted,
    hash_order,
    kind_of,
    name_order,
    table_order,
)
from featurelib.core.dialect import Asks, Dialect, Order
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role


def build(cases: Sequence[Case], dialect: Dialect, tables: Tables) -> Batch:
    """A batch of these requests, one for each cluster."""
    asked = [counted(request.updates, dialect.can.duplicates) for _, request in cases]
    names = _names(cases, asked, tables)
    at = {name: i for i, name in enumerate(names)}
    profiles = _Profiles(at)
    groups = {
        asks: _group(cases, asks, order, profiles) for asks, order in _asked_groups(dialect).items()
    }
    catalogued = np.array([tables.feature_code(name) for name in names], dtype=np.int64)
    return Batch(
        names=names,
        catalogued=catalogued,
        ranges=profiles.ranges(),
        groups=groups,
        state=_state(cases, at, tables),
        updates=_updates(cases, asked, at, dialect),
        dry_run=np.array([request.validate_only for _, request in cases], dtype=bool),
    )


def _names(cases: Sequence[Case], asked: list[list[Update]], tables: Tables) -> tuple[str, ...]:
    names = {METADATA_VERSION: None, KRAFT_VERSION: None}
    for (cluster, _), updates in zip(cases, asked, strict=True):
        names |= dict.fromkeys(cluster.finalized)
        names |= dict.fromkeys(cluster.cached or ())
        names |= dict.fromkeys(update.feature for update in updates)
    return tuple(names)


class _Profiles:
    """Distinct maps, each kept once; a node's features that nobody asks about do not matter."""

    def __init__(self, at: dict[str, int]) -> None:
        self._at = at
        self._position: dict[tuple[tuple[int, Range], ...], int] = {}

    def position(self, supported: Features) -> int:
        at = self._at
        entries = tuple(sorted((at[n], r) for n, r in supported.items() if n in at))
        return self._position.setdefault(entries, len(self._position))

    def ranges(self) -> Ranges:
        shape = len(self._position) + 1, len(self._at)
        lows, highs = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int32)
        lists = np.zeros(shape, dtype=bool)
        for entries, row in self._position.items():
            for name, (low, high) in entries:
                lows[row, name], highs[row, name], lists[row, name] = low, high, True
        return Ranges(min_version=lows, max_version=highs, lists=lists)


def _asked_groups(dialect: Dialect) -> dict[Asks, Order]:
    groups = {Asks.LOCAL_CONTROLLER: Order.NONE}
    return groups | {row.asks: row.order for row in dialect.rules if row.asks is not None}


_OTHERS = {Asks.REACHABLE_CONTROLLERS, Asks.REGISTERED_CONTROLLERS, Asks.CONFIGURED_VOTERS}
_OTHERS |= {Asks.CONFIGURED_ONLY}


def _members(cluster: Cluster, asks: Asks, order: Order) -> list[Node]:
    """Whom one cluster's controller asks, in its order.

    It walks a whole table and passes over itself and whom it does not ask on the way: how large the
    table is, and so the order, hangs on all of them.
    """
    local = (Role.CONTROLLER, cluster.active)
    controllers = [node for node in cluster.nodes if node.role is Role.CONTROLLER]
    if not controllers:  # ZooKeeper mode: a broker is the controller
        local = (Role.BROKER, cluster.active)
    voters = [node for node in controllers if node.voter]
    configured = _configured(cluster)
    brokers = [node for node in cluster.nodes if node.role is Role.BROKER and node.registered]
    tables: dict[Asks, Iterable[Node]] = {
        Asks.REACHABLE_CONTROLLERS: voters,
        Asks.REGISTERED_CONTROLLERS: [node for node in controllers if node.registered],
        Asks.BROKERS: brokers,
        Asks.LIVE_BROKERS: brokers,
        Asks.CONFIGURED_VOTERS: configured,
        Asks.CONFIGURED_ONLY: leftovers(cluster),
        Asks.QUORUM: voters,
    }
    walked = _ordered(tables.get(asks, cluster.nodes), order)
    if asks is Asks.LOCAL_CONTROLLER:
        return [node for node in walked if (node.role, node.node_id) == local]
    if asks in _OTHERS:
        walked = [node for node in walked if (node.role, node.node_id) != local]
    if asks is Asks.REACHABLE_CONTROLLERS:
        return [node for node in walked if node.running and node.registered]
    if asks is Asks.LIVE_BROKERS:
        return [node for node in walked if node.running and not node.fenced and not node.ignored]
    return walked


def leftovers(cluster: Cluster) -> list[Node]:
    """Who neither votes nor is registered, and stands in the active controller's configuration."""
    return [
        node
        for node in _configured(cluster)
        if not node.voter and not node.registered and node.node_id != cluster.active
    ]


def _configured(cluster: Cluster) -> list[Node]:
    """Whom the active controller is configured to ask; who is no node here never registered."""
    ids = cluster.configured_voters
    controllers = [node for node in cluster.nodes if node.role is Role.CONTROLLER]
    if ids is None:
        return [node for node in controllers if node.voter and cluster.raft_level == 0]
    known = {node.node_id: node for node in controllers}
    unknown = {i: Node(node_id=i, role=Role.CONTROLLER, registered=False) for i in ids}
    return list((unknown | {i: known[i] for i in ids if i in known}).values())


def _ordered(nodes: Iterable[Node], order: Order) -> list[Node]:
    """Nodes as a controller walks them; `nodes` are in the order in which they registered."""
    found = list(nodes)
    if order in (Order.TABLE, Order.TABLE_HASH):
        found = [found[i] for i in table_order(node.node_id for node in found)]
    if order in (Order.HASH, Order.TABLE_HASH):
        return [found[i] for i in hash_order(node.node_id for node in found)]
    if order is Order.SIZED_HASH:
        return [found[i] for i in hash_order((node.node_id for node in found), least=1)]
    return found if order is Order.TABLE else sorted(found, key=lambda n: (n.node_id, n.role))


def _group(cases: Sequence[Case], asks: Asks, order: Order, profiles: _Profiles) -> Group:
    """A pair for each node: whichever offends can be named."""
    asked = [_members(cluster, asks, order) for cluster, _ in cases]
    size = np.array([len(nodes) for nodes in asked], dtype=np.int64)
    every = [node for nodes in asked for node in nodes]
    return Group(
        start=np.cumsum(size) - size,
        size=size,
        profile=np.array([profiles.position(n.supported) for n in every], dtype=np.int64),
        node=np.array([node.node_id for node in every], dtype=np.int64),
        count=np.ones(len(every), dtype=np.int64),
        registered=np.array([node.registered for node in every], dtype=bool),
    )


def _state(cases: Sequence[Case], at: dict[str, int], tables: Tables) -> State:
    clusters = [cluster for cluster, _ in cases]
    finalized, minimum = _levels([cluster.finalized for cluster in clusters], at)
    seen = [c.finalized if c.cached is None else c.cached for c in clusters]
    cached, cached_min = _levels(seen, at)

    def flags(of: Callable[[Cluster], bool]) -> Flags:
        return np.array([of(cluster) for cluster in clusters], dtype=bool)

    return State(
        release=np.array([tables.release_code(_short(c.release)) for c in clusters]),
        finalized=finalized,
        minimum=minimum,
        cached=cached,
        cached_min=cached_min,
        kraft_record=np.array([c.kraft_record for c in clusters], dtype=np.int32),
        raft_level=np.array([c.raft_level for c in clusters], dtype=np.int32),
        stable_metadata=np.array([_stable_metadata(c, tables) for c in clusters], dtype=np.int32),
        raft_ready=flags(_raft_ready),
        migrating=flags(lambda c: c.migrating),
        off=flags(lambda c: c.off),
        unauthorized=np.array([not request.authorized for _, request in cases], dtype=bool),
        elsewhere=np.array([not request.to_active for _, request in cases], dtype=bool),
        node_missing=flags(lambda c: c.node_missing),
        blind=np.array([c.blind or request.timeout_ms <= 0 for c, request in cases], dtype=bool),
        active=np.array([cluster.active for cluster in clusters], dtype=np.int64),
    )


def _levels(maps: list[dict[str, Range]], at: dict[str, int]) -> tuple[Levels, Levels]:
    level = np.zeros((len(maps), len(at)), dtype=np.int32)
    minimum = np.zeros_like(level)
    for row, entries in enumerate(maps):
        for name, (low, high) in entries.items():
            minimum[row, at[name]], level[row, at[name]] = low, high
    return level, minimum


def _short(release: str) -> str:
    return ".".join(release.split(".")[:2])


def _stable_metadata(cluster: Cluster, tables: Tables) -> int:
    """The metadata.version above which some node's own software calls a level it supports unstable;
    as many levels as there are where none does. bounds.py says the same of a fleet."""
    column = tables.feature_code(METADATA_VERSION)
    ends = [tables.width]
    for node in cluster.nodes:
        release = tables.release_code(_short(node.release))
        stable = int(tables.newest_stable[release, column]) if release >= 0 else tables.width
        if node.supported.get(METADATA_VERSION, (0, 0))[1] > stable:
            ends.append(stable)
    return min(ends)


def _raft_ready(cluster: Cluster) -> bool:
    """Whether every voter tells the raft leader what it supports, as 4.1 and later do."""
    voters = [node for node in cluster.nodes if node.voter]
    return all(node.supported and _release(node) >= (4, 1) for node in voters)


def _release(node: Node) -> tuple[int, ...]:
    return tuple(int(part) for part in node.release.split(".")[:2] if part.isdigit())


def _updates(
    cases: Sequence[Case], asked: list[list[Update]], at: dict[str, int], dialect: Dialect
) -> Updates:
    rows: list[tuple[int, int, int, int, int]] = []
    for i, ((_, request), updates) in enumerate(zip(cases, asked, strict=True)):
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
    """The place of each update in the order in which the controller judges them."""
    positions = list(range(len(names)))
    if order == "name":
        positions.sort(key=lambda i: names[i])
    elif order == "hash":
        positions = name_order(names)
    ranks = [0] * len(names)
    for place, position in enumerate(positions):
        ranks[position] = place
    return ranks
