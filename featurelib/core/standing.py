"""What is finalized in each cluster, beside the nodes that have to live with it.

The columns of questions (b), (c) and (e): C clusters, N nodes, F features, P profiles. A row of a
member may stand for all nodes of a cluster that are alike. Only rules are asked here; what follows
for a node is said by joining.py and protections.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Final

import numpy as np
import numpy.typing as npt

from featurelib.catalogue.tables import Tables
from featurelib.core.batch import NOT_HERE, Flags, Ints, Levels, Ranges
from featurelib.core.cluster import Cluster, Features, Node, Range
from featurelib.core.dialect import Dialect, generation_of, load
from featurelib.core.rows import NodeRows
from featurelib.core.rules import RULES
from featurelib.core.sections import Guard
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role

Codes = npt.NDArray[np.int8]
GUARDS: Final = tuple(Guard)
LIVE_WITH: Final = RULES["range_unsupported_by_node"]
KNOWS: Final = RULES["unknown_metadata_version"]
FIRST_WITH_DIRECTORIES: Final = (3, 7)  # release of brokers that name their log directories


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What holds in each cluster, and the distinct maps its nodes advertise."""

    names: tuple[str, ...]  # [F], metadata.version and kraft.version among them
    ranges: Ranges  # [P + 1, F] as nodes say them: nothing stands in for what they leave out
    level: Levels  # [C, F] 0 = not finalized
    minimum: Levels  # [C, F] the finalized minimum; the level where none is stored
    finalized: Flags  # [C, F]
    raft_level: Levels  # [C] kraft.version of the raft layer, where that is another thing
    off: Flags  # [C] the feature system is off

    def code(self, name: str) -> int:
        """The position of a feature that is there."""
        return self.names.index(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """The nodes, one row each, or one for all nodes of a cluster that are alike."""

    cluster: Ints  # [N]
    profile: Ints  # [N]
    node: Ints  # [N] an id, to name it
    release: Ints  # [N] a position in the catalogue's tables; -1 = not known
    guard: Codes  # [N] a position in GUARDS: what the node's own generation compares
    guarded: (
        Flags  # [N] it follows what is finalized at all (ZooKeeper mode: protocol 2.7 or above)
    )
    exits: Flags  # [N] what it does about a level that it does not support
    controller: Flags  # [N]
    with_controller: Flags  # [N] the process is a controller, or both
    running: Flags  # [N]
    live: Flags  # [N] a broker that answers for itself: running, not fenced, not ignored
    directories: Flags  # [N] it names its log directories when it registers


def unfit(standing: Standing, members: Members, tables: Tables) -> Flags:
    """[N, F] what each node, of its own accord, does not accept of what is finalized.

    Source: BrokerFeatures.hasIncompatibleFeatures; FeatureControlManager.replay; FeaturesDelta.
    """
    level = standing.level[members.cluster]
    guard = members.guard[:, None]
    whole = guard == GUARDS.index(Guard.RANGE)
    lists = standing.ranges.lists[members.profile]
    rows = NodeRows(
        lowest=np.where(whole, standing.minimum[members.cluster], level),
        level=level,
        min_version=standing.ranges.min_version[members.profile],
        max_version=standing.ranges.max_version[members.profile],
        # A record of level 0 fits a controller that knows no such feature: it supports 0-0.
        silent=~lists & ~members.controller[:, None],
    )
    compares = whole | (guard == GUARDS.index(Guard.LEVEL))
    found = LIVE_WITH.ask(rows) & compares
    at, code = GUARDS.index(Guard.METADATA_VERSION), standing.code(METADATA_VERSION)
    found[:, code] |= (members.guard == at) & _unknown(rows, members, code, tables)
    concerned = standing.finalized & ~standing.off[:, None]
    return found & concerned[members.cluster] & members.guarded[:, None]


def _unknown(rows: NodeRows, members: Members, code: int, tables: Tables) -> Flags:
    """Whether a node's software has no such metadata.version; it knows more than it advertises.

    Of a node whose release is not known, what it advertises is believed.
    """
    level = rows.level[:, code]
    inside = (level >= 0) & (level < tables.width)
    at = tables.feature_code(METADATA_VERSION)
    known = tables.level_known[members.release, at, np.where(inside, level, 0)] & inside
    unknown = KNOWS.ask(SimpleNamespace(known_level=known))
    return np.where(members.release == NOT_HERE, LIVE_WITH.ask(rows)[:, code], unknown)


def stand(
    clusters: Sequence[Cluster], dialect: Dialect, tables: Tables, also: Iterable[str] = ()
) -> tuple[Standing, Members]:
    """The columns of a few clusters given as plain values, all their nodes in their order.

    `also` names features that nothing mentions yet. A registered broker that is ignored and still
    runs never looks at what is finalized (protocol version below 2.7).
    """
    names = dict.fromkeys((METADATA_VERSION, KRAFT_VERSION, *also))
    for cluster in clusters:
        names |= dict.fromkeys(cluster.finalized)
        names |= dict.fromkeys(name for node in cluster.nodes for name in node.supported)
    at = {name: i for i, name in enumerate(names)}
    finalized = [cluster.finalized for cluster in clusters]
    level, minimum = level_columns(finalized, tuple(names))
    there = np.array([[name in levels for name in names] for levels in finalized], dtype=bool)
    profiles: dict[tuple[tuple[int, Range], ...], int] = {}
    members = _members(clusters, dialect, tables, at, profiles)
    standing = Standing(
        names=tuple(names),
        ranges=_ranges(profiles, len(at)),
        level=level,
        minimum=minimum,
        finalized=there & ((level != 0) | dialect.protection.zero_counts),
        raft_level=np.array([cluster.raft_level for cluster in clusters], dtype=np.int32),
        off=np.array([cluster.off for cluster in clusters], dtype=bool),
    )
    return standing, members


def level_columns(
    finalized: Sequence[Mapping[str, Range]], names: Sequence[str]
) -> tuple[Levels, Levels]:
    """[C, F] levels and minimums of feature → (minimum, level); 0 = not there."""
    ends = [[levels.get(name, (0, 0)) for name in names] for levels in finalized]
    columns = np.array(ends, dtype=np.int32).reshape(-1, len(names), 2)
    level = columns[:, :, 1]
    return level, np.where(columns[:, :, 0] == 0, level, columns[:, :, 0])


def _members(
    clusters: Sequence[Cluster],
    dialect: Dialect,
    tables: Tables,
    at: dict[str, int],
    profiles: dict[tuple[tuple[int, Range], ...], int],
) -> Members:
    rows = [(i, node) for i, cluster in enumerate(clusters) for node in cluster.nodes]
    nodes = [node for _, node in rows]
    controllers = {(i, n.node_id) for i, n in rows if n.role is Role.CONTROLLER}
    own = [own_generation(node, dialect) for node in nodes]

    def flags(of: Callable[[Node], bool]) -> Flags:
        return np.array([of(node) for node in nodes], dtype=bool)

    def position(supported: Features) -> int:
        entries = tuple(sorted((at[name], ends) for name, ends in supported.items()))
        return profiles.setdefault(entries, len(profiles))

    controller = flags(lambda node: node.role is Role.CONTROLLER)
    both = [(i, node.node_id) in controllers for i, node in rows]
    return Members(
        cluster=np.array([i for i, _ in rows], dtype=np.int64),
        profile=np.array([position(node.supported) for node in nodes], dtype=np.int64),
        node=np.array([node.node_id for node in nodes], dtype=np.int64),
        release=np.array([tables.release_code(_short(n.release)) for n in nodes], dtype=np.int64),
        guard=np.array(
            [GUARDS.index(guard_of(d, n.role)) for d, n in zip(own, nodes, strict=True)],
            dtype=np.int8,
        ),
        guarded=flags(lambda node: not (node.ignored and node.running)),
        exits=np.array([d.protection.broker_exits for d in own], dtype=bool) | controller,
        controller=controller,
        with_controller=np.array(both, dtype=bool),
        running=flags(lambda node: node.running),
        live=~controller
        & flags(lambda n: n.registered and n.running and not n.fenced and not n.ignored),
        directories=flags(lambda node: not _release(node) or is_since_directories(node)),
    )


def guard_of(dialect: Dialect, role: Role) -> Guard:
    """What nodes of one generation compare."""
    table = dialect.protection
    return table.controllers if role is Role.CONTROLLER else table.brokers


def own_generation(node: Node, dialect: Dialect) -> Dialect:
    """The dialect of a node's own release; of a release nobody knows, the cluster's."""
    if dialect.mode == "any" or not node.release:
        return dialect
    try:
        return load(generation_of(node.release, dialect.mode))
    except KeyError:
        return dialect


def is_since_directories(node: Node) -> bool:
    """Whether a broker's release names log directories when it registers (KIP-858)."""
    return _release(node) >= FIRST_WITH_DIRECTORIES


def _release(node: Node) -> tuple[int, ...]:
    return tuple(int(part) for part in _short(node.release).split(".") if part.isdigit())


def _short(release: str) -> str:
    return ".".join(release.split(".")[:2])


def _ranges(profiles: dict[tuple[tuple[int, Range], ...], int], width: int) -> Ranges:
    shape = len(profiles) + 1, width
    lows, highs = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int32)
    lists = np.zeros(shape, dtype=bool)
    for entries, row in profiles.items():
        for name, (low, high) in entries:
            lows[row, name], highs[row, name], lists[row, name] = low, high, True
    return Ranges(min_version=lows, max_version=highs, lists=lists)
