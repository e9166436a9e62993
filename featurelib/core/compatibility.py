"""What nodes make of finalized levels: who may register, who stops, and which releases fit.

A node meets a level in three ways, and no two compare alike:

    who compares          what it compares                      what follows
    the controller        a registration, with what is          the broker is refused, and asks
                          finalized and its own silence          again for ever (KIP-778)
    the node itself       what its own generation guards         it exits, or follows the metadata
                          (Guard of its dialect)                 no longer; ZooKeeper mode: it exits
    whoever rolls         the ranges a release advertises        its nodes may join or not

All of it is columns of one cluster: F features by N nodes. A broker 3 of 3.9 at a 4.2 controller
that has finalized metadata.version 25 and group.version 1:

    level  25, 1     low  1, 0   high  21, 0   lists  yes, no
    the controller refuses it over both; running, it only goes blind over metadata.version

Every feature that does not fit is found, though Kafka names only the first. Not judged here: what a
controller looks at before any feature (cluster id, a second broker of one id, migration). Only
rules.py compares a level with a range.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from typing import Final

import numpy as np

from featurelib.catalogue import Catalogue, Tables
from featurelib.core.batch import NOT_HERE, Flags, Ints, Levels
from featurelib.core.cluster import Cluster, Node, Range, string_hash
from featurelib.core.dialect import Absence, Dialect, Guard, generation_of, is_before, load
from featurelib.core.reply import range_text
from featurelib.core.rules import (
    incompatible_with_finalized,
    range_unsupported_by_node,
    unsupported_by_node,
)
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role

FIRST_WITH_DIRECTORIES: Final = "3.7"  # release of brokers that name their log directories


class Admission(IntEnum):
    """What becomes of a registration."""

    ACCEPTED = 0
    REFUSED = 1  # the controller answers with an error; the node asks again, for ever
    STOPS = 2  # the broker looks itself before it registers, and exits (ZooKeeper mode)
    IGNORED = 3  # it is registered, and left out of the live brokers (ZooKeeper mode)
    NOT_REGISTERED = 4  # controllers of this generation do not register


class Effect(IntEnum):
    """What a node does, the worst last."""

    GOES_ON = 0
    BLIND = 1  # it logs a fault and runs on without following the metadata, never to be trusted
    KEPT_OUT = 2  # it starts, and its registration is refused or left out: it serves nobody
    EXITS = 3  # exit status 1


class Moment(StrEnum):
    """When a node meets what is finalized."""

    NOW = "now"
    NEXT_START = "next_start"
    AFTER_UPDATE = "after_update"


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomer:
    """A node that wants to join, and how it does."""

    node: Node
    protocol_version: str = ""  # inter.broker.protocol.version in ZooKeeper mode; empty: 2.7 or up
    unguarded: bool = False  # nobody looks before this registers: made by hand, or a lost race


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """A feature that does not fit, and Kafka's words about it."""

    feature: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """What becomes of one registration. `code` and `message` are what Kafka answers or logs."""

    entry: Admission
    code: int = 0
    message: str | None = None
    unfit: tuple[Unfit, ...] = ()  # all of them, in the order in which Kafka looks


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A node that stops or stays out, and the words of Kafka's log about each feature."""

    node: Node
    effect: Effect
    unfit: tuple[Unfit, ...]  # what the node itself does not accept
    refused: Joined | None = None  # its registration, where that keeps it out


# --- One cluster as columns -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """What is finalized in one cluster, beside the nodes that meet it: F features, N nodes."""

    names: tuple[str, ...]  # [F]
    level: Levels  # [F] 0 = not finalized
    minimum: Levels  # [F] the finalized minimum; the level where none is stored
    stored: Flags  # [F] it is finalized, and the feature system is on
    raft_level: int  # kraft.version of the raft layer, where that is another thing
    low: Levels  # [N, F] as nodes advertise them: nothing stands in for what they leave out
    high: Levels  # [N, F]
    lists: Flags  # [N, F]
    nodes: tuple[Node, ...]  # [N]
    own: tuple[Dialect, ...]  # [N] of each node's own generation
    release: Ints  # [N] a position in the catalogue's tables; -1 = not known
    controller: Flags  # [N]
    guarded: Flags  # [N] it looks at what is finalized (ZooKeeper mode: protocol 2.7 or above)

    def code(self, name: str) -> int:
        return self.names.index(name)

    def at(self, levels: Mapping[str, Range]) -> _Columns:
        """The same nodes once feature → (minimum, level) is finalized."""
        level, minimum = _level_columns(levels, self.names)
        return replace(self, level=level, minimum=minimum, stored=level != 0)


def _columns(
    cluster: Cluster,
    nodes: Sequence[Node],
    dialect: Dialect,
    tables: Tables,
    also: Collection[str] = (),
) -> _Columns:
    """The columns of `nodes` in `cluster`; `also` names features that nothing mentions yet."""
    listed = (name for node in nodes for name in node.supported)
    names = tuple(
        dict.fromkeys((METADATA_VERSION, KRAFT_VERSION, *also, *cluster.finalized, *listed))
    )
    level, minimum = _level_columns(cluster.finalized, names)
    stored = np.array([name in cluster.finalized for name in names], dtype=bool)
    ends = [[node.supported.get(name, (0, 0)) for name in names] for node in nodes]
    ranges = np.array(ends, dtype=np.int32).reshape(len(nodes), len(names), 2)
    lists = [[name in node.supported for name in names] for node in nodes]
    return _Columns(
        names=names,
        level=level,
        minimum=minimum,
        stored=stored & ((level != 0) | dialect.protection.zero_counts) & (not cluster.off),
        raft_level=cluster.raft_level,
        low=ranges[:, :, 0],
        high=ranges[:, :, 1],
        lists=np.array(lists, dtype=bool).reshape(len(nodes), len(names)),
        nodes=tuple(nodes),
        own=tuple(_own_generation(node, dialect) for node in nodes),
        release=np.array([tables.release_code(node.release) for node in nodes], dtype=np.int64),
        controller=np.array([node.role is Role.CONTROLLER for node in nodes], dtype=bool),
        # A registered broker that is ignored and still runs never looks (protocol below 2.7).
        guarded=np.array([not (node.ignored and node.running) for node in nodes], dtype=bool),
    )


def _level_columns(levels: Mapping[str, Range], names: Sequence[str]) -> tuple[Levels, Levels]:
    """[F] levels and minimums of feature → (minimum, level); 0 = not there."""
    ends = np.array([levels.get(name, (0, 0)) for name in names], dtype=np.int32)
    return ends[:, 1], np.where(ends[:, 0] == 0, ends[:, 1], ends[:, 0])


def _own_generation(node: Node, dialect: Dialect) -> Dialect:
    """The dialect of a node's own release; of a release nobody knows, the cluster's."""
    if dialect.mode == "any" or not node.release:
        return dialect
    try:
        return load(generation_of(node.release, dialect.mode))
    except KeyError:
        return dialect


# --- The node itself ------------------------------------------------------------------------------


def range_refused(
    guard: Guard, minimum: Levels, level: Levels, low: Levels, high: Levels, silent: Flags
) -> Flags:
    """Which levels a node with this guard does not accept; shapes broadcast. `silent`: the node
    lists no such feature, and that is a refusal (BrokerFeatures.hasIncompatibleFeatures)."""
    lowest = minimum if guard is Guard.RANGE else level
    return range_unsupported_by_node(lowest, level, low, high, silent)


def _unfit(at: _Columns, tables: Tables) -> Flags:
    """[N, F] what each node, of its own accord, does not accept of what is finalized.

    Source: BrokerFeatures.hasIncompatibleFeatures; FeatureControlManager.replay; FeaturesDelta.
    """
    found = np.zeros(at.low.shape, dtype=bool)
    for i, own in enumerate(at.own):
        guard = own.protection.controllers if at.controller[i] else own.protection.brokers
        # A record of level 0 fits a controller that knows no such feature: it supports 0-0.
        silent = ~at.lists[i] & ~at.controller[i]
        outside = range_refused(guard, at.minimum, at.level, at.low[i], at.high[i], silent)
        if guard is Guard.METADATA_VERSION:
            code = at.code(METADATA_VERSION)
            release = int(at.release[i])
            # Software knows more than it advertises; where its release is not known, that counts.
            known = _knows(tables, release, int(at.level[code]))
            found[i, code] = outside[code] if release == NOT_HERE else not known
        else:
            found[i] = outside & (guard is not Guard.NOTHING)
    return found & at.stored & at.guarded[:, None]


def _knows(tables: Tables, release: int, level: int) -> bool:
    """Whether software of a release has that metadata.version, stable or not."""
    inside = 0 <= level < tables.width
    code = tables.feature_code(METADATA_VERSION)
    return inside and bool(tables.level_known[release, code, level])


def stopped(
    cluster: Cluster,
    dialect: Dialect,
    tables: Tables,
    *,
    moment: Moment = Moment.NOW,
    proposed: Mapping[str, Range] | None = None,
) -> tuple[Stopped, ...]:
    """Which nodes of one cluster stop or stay out, in the order of its nodes.

    A node protects itself by its own generation, whatever the controller runs. ZooKeeper mode: a
    broker ends over any finalized feature outside its range. KRaft: a controller ends over any such
    level, a broker goes blind over a metadata.version that its software does not know. At its next
    start it registers again. `proposed`, for AFTER_UPDATE, is the whole of what would be finalized:
    its records are written before anybody replays them, a level of 0 as well, so a node that was
    not asked may end over it. What a protection leaves open is `race` of the dialect.

    Source: FinalizedFeatureChangeListener; FeatureControlManager.replay; SharedServer.
    """
    at = _columns(cluster, cluster.nodes, dialect, tables, also=tuple(proposed or ()))
    kept_out = np.zeros(len(cluster.nodes), dtype=bool)
    if moment is Moment.AFTER_UPDATE:
        before, at = at, at.at(cluster.finalized if proposed is None else proposed)
        records = replace(at, stored=at.level != before.level)
        own = _unfit(at, tables) | (_unfit(records, tables) & at.controller[:, None])
    else:
        own = _unfit(at, tables)
    if moment is Moment.NEXT_START:
        judged = _registrations(at, dialect, tables)
        kept_out = np.isin(judged.entry, (Admission.REFUSED, Admission.IGNORED)) & ~judged.too_early
    else:
        own &= np.array([node.running for node in cluster.nodes], dtype=bool)[:, None]
    halves = {node.node_id for node in cluster.nodes if node.role is Role.CONTROLLER}
    found = []
    for i in np.flatnonzero(own.any(axis=1) | kept_out).tolist():
        node = cluster.nodes[i]
        exits = at.own[i].protection.broker_exits or node.node_id in halves
        effect = max(
            (Effect.EXITS if exits else Effect.BLIND) if own[i].any() else Effect.GOES_ON,
            Effect.KEPT_OUT if kept_out[i] else Effect.GOES_ON,
        )
        newcomer = Newcomer(node=node, unguarded=not at.guarded[i])
        refused = join(cluster, newcomer, dialect, tables) if effect is Effect.KEPT_OUT else None
        words = tuple(_log_line(at, i, f, tables) for f in np.flatnonzero(own[i]).tolist())
        found.append(Stopped(node=node, effect=effect, unfit=words, refused=refused))
    return tuple(found)


def _log_line(at: _Columns, node: int, feature: int, tables: Tables) -> Unfit:
    """What a node logs about one feature it does not accept."""
    table, release = at.own[node].protection, int(at.release[node])
    ends = int(at.low[node, feature]), int(at.high[node, feature])
    known, code = ends, tables.feature_code(METADATA_VERSION)
    if release != NOT_HERE:
        known = int(tables.oldest[release, code]), int(tables.newest_unstable[release, code])
    says = table.says_broker if at.lists[node, feature] else table.says_broker_absent
    if at.controller[node]:
        says = table.says_controller
    text = (says or table.says_broker).format(
        feature=at.names[feature],
        level=int(at.level[feature]),
        lowest=int(at.minimum[feature]),
        node_min=ends[0],
        node_max=ends[1],
        node_range=range_text(*ends),
        oldest_known=known[0],
        newest_known=known[1],
    )
    return Unfit(feature=at.names[feature], text=text)


# --- The controller that judges a registration ----------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Registrations:
    """What becomes of N registrations, and every feature that does not fit."""

    entry: Ints  # [N] of Admission
    unfit: Flags  # [N, F]
    no_directories: Flags  # [N] refused before its features are looked at
    too_early: Flags  # [N] a controller, before controllers register
    read: _Columns  # as the controller reads them: what is absent has its value


def _registrations(at: _Columns, dialect: Dialect, tables: Tables) -> _Registrations:
    """What becomes of each node's registration, whether or not it is registered now.

    Source: ClusterControlManager.registerBroker and registerController;
    FinalizedFeatureChangeListener, KafkaController.partitionOnFeatureCompatibility.
    """
    nobody = np.zeros(len(at.own), dtype=bool)
    read, table = _as_read(at, dialect), dialect.registration
    if table.at_start:  # ZooKeeper mode: each broker by itself, the rest by the controller
        own = _unfit(at, tables)
        count = len(at.own)
        judge = replace(at, own=(dialect,) * count, guarded=~nobody, controller=nobody)
        seen = _unfit(judge, tables)
        stops: Flags = np.logical_or.reduce(own, axis=1)
        ignored: Flags = np.logical_or.reduce(seen, axis=1)
        entry = np.select(
            [stops, ignored], [Admission.STOPS, Admission.IGNORED], Admission.ACCEPTED
        )
        return _Registrations(
            entry=entry,
            unfit=np.where(stops[:, None], own, seen),
            no_directories=nobody,
            too_early=nobody,
            read=read,
        )
    register_from = dialect.can.controllers_register_from
    metadata_version = read.level[read.code(METADATA_VERSION)]
    too_early = at.controller & (metadata_version < register_from)
    bare = nobody
    if 0 < table.directories_from <= metadata_version:
        old = [is_before(node.release, FIRST_WITH_DIRECTORIES) for node in at.nodes]
        bare = ~at.controller & np.array(old, dtype=bool)
    unfit = _refused_features(read, dialect) & ~at.controller[:, None]
    refused = bare | too_early | unfit.any(axis=1)
    entry = np.where(refused, Admission.REFUSED, Admission.ACCEPTED)
    if register_from == 0:
        entry = np.where(at.controller, Admission.NOT_REGISTERED, entry)
    return _Registrations(
        entry=entry, unfit=unfit, no_directories=bare, too_early=too_early, read=read
    )


def _as_read(at: _Columns, dialect: Dialect) -> _Columns:
    """The columns as a controller reads them: what is absent has the value it gives it."""
    code, (least, most) = at.code(METADATA_VERSION), dialect.registration.absent_metadata_version
    level, low, high, lists = at.level.copy(), at.low.copy(), at.high.copy(), at.lists.copy()
    if most > 0:
        absent = ~lists[:, code]
        low[absent, code], high[absent, code], lists[absent, code] = least, most, True
    if level[code] == 0:
        level[code] = dialect.can.absent_metadata_version
    if dialect.can.kraft_version == "record":  # what nodes report may be a record of no effect
        level[at.code(KRAFT_VERSION)] = at.raft_level
    return replace(at, level=level, low=low, high=high, lists=lists)


def _refused_features(read: _Columns, dialect: Dialect) -> Flags:
    """[N, F] every feature over which a controller in KRaft mode refuses a broker."""
    table = dialect.registration
    compared = np.ones(read.lists.shape, dtype=bool)
    if table.absence is Absence.SKIP:
        compared &= read.lists
    if table.not_finalized is Absence.SKIP:
        compared &= read.level > 0
    return unsupported_by_node(read.level, read.low, read.high, np.False_) & compared


def join(cluster: Cluster, newcomer: Newcomer, dialect: Dialect, tables: Tables) -> Joined:
    """What becomes of a registration, in Kafka's words and code, with all that does not fit.

    In KRaft mode the active controller judges it; in ZooKeeper mode the broker judges itself, and
    what comes all the same is left out of the live brokers by the controller (KIP-778).
    """
    node, guarded = newcomer.node, not newcomer.unguarded
    if is_before(newcomer.protocol_version, dialect.election.system_from):
        node, guarded = replace(node, supported={}), False  # it says no ranges, it never looks
    at = replace(_columns(cluster, [node], dialect, tables), guarded=np.array([guarded]))
    judged = _registrations(at, dialect, tables)
    entry, table = Admission(int(judged.entry[0])), dialect.registration
    protection = (at.own[0] if entry is Admission.STOPS else dialect).protection
    found = []
    for name in _order(cluster, node):
        where = judged.read.code(name)
        if judged.unfit[0, where]:
            own = protection.says_broker
            if not judged.read.lists[0, where]:
                own = protection.says_broker_absent
            text = (table.says or own).format(
                feature=name,
                level=int(judged.read.level[where]),
                lowest=int(at.minimum[where]),
                node_min=int(judged.read.low[0, where]),
                node_max=int(judged.read.high[0, where]),
            )
            found.append(Unfit(feature=name, text=text))
    code, message = 0, None
    if judged.no_directories[0]:
        code, message = table.directories_code, table.says_directories
    elif entry is Admission.REFUSED:
        code = table.code
        message = found[0].text if found else table.says_controller
    elif entry is Admission.STOPS:
        message = protection.says_broker_prefix + ", ".join(item.text for item in found)
    elif entry is Admission.IGNORED:
        message = table.says_ignored.format(node=node.node_id)
    return Joined(entry=entry, code=code, message=message, unfit=tuple(found))


def _order(cluster: Cluster, node: Node) -> list[str]:
    """The order in which a controller looks: what is listed, metadata.version, then the rest of
    what is finalized as a copy of its hash map walks it."""
    there = (name for name, (_, level) in cluster.finalized.items() if level)
    finalized = sorted({METADATA_VERSION, KRAFT_VERSION, *there})
    size = 2
    while size < int(len(finalized) / 0.75 + 1):  # as HashMap(Map) reckons
        size *= 2
    hashes = {name: string_hash(name) for name in finalized}
    finalized.sort(key=lambda name: (hashes[name] ^ hashes[name] >> 16) & (size - 1))
    in_order = (*node.supported, METADATA_VERSION, *finalized, *cluster.finalized)
    return list(dict.fromkeys(in_order))


def left_out(cluster: Cluster, releases: Sequence[str], tables: Tables) -> Cluster:
    """The cluster in ZooKeeper mode with those marked whom a controller of each of `releases`
    leaves out of the live brokers (KafkaController.partitionOnFeatureCompatibility)."""
    ignored = np.array([node.registered for node in cluster.nodes], dtype=bool)
    for name in sorted({generation_of(release, "zk") for release in releases}):
        at = _columns(cluster, cluster.nodes, load(name), tables)
        at = replace(at, guarded=np.zeros(len(cluster.nodes), dtype=bool))
        ignored &= _registrations(at, load(name), tables).entry == Admission.IGNORED
    nodes = zip(cluster.nodes, ignored.tolist(), strict=True)
    return replace(cluster, nodes=tuple(replace(node, ignored=out) for node, out in nodes))


# --- The software of a release --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Advertised:
    """The ranges of each release's software; 0-0 where it does not list the feature."""

    releases: tuple[str, ...]
    names: tuple[str, ...]
    min_version: Levels  # [L, F]
    max_version: Levels  # [L, F]


def advertised(catalogue: Catalogue, names: Sequence[str], *, unstable: bool = False) -> Advertised:
    """What every release of the catalogue says it supports of `names` (KIP-584, ApiVersions;
    KIP-1022, unstable.feature.versions.enable). A feature whose highest is 0 is not listed."""
    tables, releases = catalogue.tables, tuple(own.release for own in catalogue.releases)
    codes = np.array([tables.feature_code(name) for name in names], dtype=np.int64)
    at = np.array([tables.release_code(release) for release in releases])[:, None], codes
    highest = tables.newest_unstable[at] if unstable else tables.newest_stable[at]
    listed = (codes >= 0) & (highest > 0)
    return Advertised(
        releases=releases,
        names=tuple(names),
        min_version=np.where(listed, tables.oldest[at], 0).astype(np.int32),
        max_version=np.where(listed, highest, 0).astype(np.int32),
    )


def misfits(levels: Levels, ranges: Advertised) -> Flags:
    """[R, L, F]: a node of that release does not support what is finalized there, [R, F]; 0 = not
    finalized (KIP-584, Broker protections; ClusterControlManager.registerBroker)."""
    level = levels[:, None, :]
    return incompatible_with_finalized(
        level, level, ranges.min_version[None], ranges.max_version[None]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One release and one cluster's levels: the features it does not support as they are."""

    release: str
    misfits: tuple[str, ...]  # of production software
    misfits_unstable: tuple[str, ...]  # with unstable features enabled

    @property
    def joins(self) -> bool:
        """A node of production software may register now."""
        return not self.misfits


def fits(levels: Mapping[str, int], catalogue: Catalogue) -> tuple[Fit, ...]:
    """Every release against one cluster's finalized levels, in the catalogue's order."""
    names = sorted(levels)
    row = np.array([[levels[name] for name in names]], dtype=np.int32)
    stable, unstable = (
        [
            tuple(name for name, bad in zip(names, hit, strict=True) if bad)
            for hit in misfits(row, advertised(catalogue, names, unstable=way))[0].tolist()
        ]
        for way in (False, True)
    )
    return tuple(
        Fit(release=release.release, misfits=one, misfits_unstable=other)
        for release, one, other in zip(catalogue.releases, stable, unstable, strict=True)
    )


def may_join(levels: Mapping[str, int], catalogue: Catalogue) -> tuple[str, ...]:
    """The releases whose production software supports these levels, oldest first."""
    return tuple(fit.release for fit in fits(levels, catalogue) if fit.joins)
