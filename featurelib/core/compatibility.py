"""Judge nodes against finalized levels: who can register, who stops, and which releases fit.

A node is compared with a level in three different ways:

    compared by       compared values                          consequence of a misfit
    the controller    a registration and the finalized levels  it refuses the broker, which
                      (also for features that it lacks)        retries forever (KIP-778)
    the node itself   the values that its own generation       it exits, or stops following the
                      checks (Guard of its dialect)            metadata (ZooKeeper mode: exits)
    an upgrade        the ranges that a release advertises     its nodes cannot register

A node and a cluster are columns with a row per feature. For example broker 3 of release 3.9, with a
4.2 controller and finalized metadata.version 25 and group.version 1:

    level  25, 1     low  1, 0   high  21, 0   lists  yes, no
    the controller refuses it for both; if it runs, only metadata.version stops its metadata

Every incompatible feature is found, but Kafka names only the first. The controller's checks before
any feature (cluster id, a second broker with one id, migration) are not judged here. Only rules.py
compares a level with a range.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from typing import Final

import numpy as np

from featurelib.catalogue import Catalogue, Tables
from featurelib.core.batch import NOT_HERE, Flags, Levels
from featurelib.core.cluster import Cluster, Node, Range, name_order
from featurelib.core.dialect import (
    Absence,
    Dialect,
    Guard,
    RegistrationTable,
    generation_of,
    is_before,
    load,
)
from featurelib.core.reply import range_text
from featurelib.core.rules import (
    incompatible_with_finalized,
    range_unsupported_by_node,
    unsupported_by_node,
)
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role

FIRST_WITH_DIRECTORIES: Final = "3.7"  # the first release that registers log directories


class Admission(IntEnum):
    """The outcome when a node registers."""

    ACCEPTED = 0
    REFUSED = 1  # the controller responds with an error; the node retries forever
    STOPS = 2  # the broker checks itself before it registers, and exits (ZooKeeper mode)
    IGNORED = 3  # the broker is registered, but is no live broker (ZooKeeper mode)
    NOT_REGISTERED = 4  # controllers of this generation do not register


class Effect(IntEnum):
    """The reaction of a node to an unsupported finalized level; the worst comes last."""

    GOES_ON = 0
    BLIND = 1  # the node logs a fault and runs without following the metadata
    KEPT_OUT = 2  # the node starts, but is refused or ignored, so it serves no clients
    EXITS = 3  # the node exits with status 1


class Moment(StrEnum):
    """The moment at which a node is compared with the finalized levels: start or change."""

    NOW = "now"
    NEXT_START = "next_start"
    AFTER_UPDATE = "after_update"


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomer:
    """A node that wants to register, with the checks that it makes before."""

    node: Node
    protocol_version: str = ""  # inter.broker.protocol.version in ZooKeeper mode; "" = newer
    unguarded: bool = False  # true if the node makes no check before it registers


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """A feature whose finalized level a node does not support, with Kafka's message."""

    feature: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The result of a registration. `code`, `message`: the controller's response or log."""

    entry: Admission
    code: int = 0
    message: str | None = None
    unfit: tuple[Unfit, ...] = ()  # all incompatible features, in Kafka's order


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A node that stops or cannot register, with Kafka's log messages."""

    node: Node
    effect: Effect
    unfit: tuple[Unfit, ...]  # levels that the node itself does not accept
    refused: Joined | None = None  # the refused registration; None = not refused


@dataclass(frozen=True, slots=True, kw_only=True)
class _LevelsAndNode:
    """The F finalized levels of a cluster, and one node's ranges of these features."""

    node: Node
    own: Dialect  # the dialect of the node's own generation
    guarded: bool  # true if the node checks levels (ZooKeeper mode: protocol 2.7 or later)
    names: tuple[str, ...]  # [F] the names of the features
    level: Levels  # [F] 0 if not finalized
    minimum: Levels  # [F] the finalized minimum, or the level if no minimum is stored
    stored: Flags  # [F] true if the level is finalized, and the feature system is on
    low: Levels  # [F] the minimum that the node advertises
    high: Levels  # [F] the maximum that the node advertises
    lists: Flags  # [F] true if the node lists the feature

    @property
    def of_controller(self) -> bool:
        return self.node.role is Role.CONTROLLER

    def code(self, name: str) -> int:
        return self.names.index(name)

    def at(self, levels: Mapping[str, Range]) -> _LevelsAndNode:
        """Return a copy with other finalized levels: feature → (minimum, level)."""
        minimum, level = _ends(levels, self.names)
        minimum = np.where(minimum == 0, level, minimum)
        return replace(self, level=level, minimum=minimum, stored=level != 0)


def _levels_and_node(
    cluster: Cluster, node: Node, dialect: Dialect, extra: Collection[str] = ()
) -> _LevelsAndNode:
    """Return the levels of `cluster` and the ranges of `node`. `extra`: further features."""
    mentioned = (METADATA_VERSION, KRAFT_VERSION, *extra, *cluster.finalized, *node.supported)
    names = tuple(dict.fromkeys(mentioned))
    minimum, level = _ends(cluster.finalized, names)
    low, high = _ends(node.supported, names)
    stored = np.array([name in cluster.finalized for name in names], dtype=bool)
    return _LevelsAndNode(
        node=node,
        own=_own_generation(node, dialect),
        # A registered broker that is ignored and still runs never checks (protocol below 2.7).
        guarded=not (node.ignored and node.running),
        names=names,
        level=level,
        minimum=np.where(minimum == 0, level, minimum),
        stored=stored & ((level != 0) | dialect.protection.zero_counts) & (not cluster.off),
        low=low,
        high=high,
        lists=np.array([name in node.supported for name in names], dtype=bool),
    )


def _ends(ranges: Mapping[str, Range], names: Sequence[str]) -> tuple[Levels, Levels]:
    """Return (minimums [F], maximums [F]) of the features `names`; 0 if not listed."""
    low, high = np.array([ranges.get(name, (0, 0)) for name in names], dtype=np.int32).T
    return low, high


def _own_generation(node: Node, dialect: Dialect) -> Dialect:
    """Return the dialect of the node's release; `dialect` if the release is unknown."""
    if dialect.mode == "any" or not node.release:
        return dialect
    try:
        return load(generation_of(node.release, dialect.mode))
    except KeyError:
        return dialect


def range_refused(
    guard: Guard, minimum: Levels, level: Levels, low: Levels, high: Levels, silent: Flags
) -> Flags:
    """Return a mask of the levels that a node with this guard does not support. `silent`: the node
    does not list the feature (BrokerFeatures.hasIncompatibleFeatures). Shapes broadcast."""
    lowest = minimum if guard is Guard.RANGE else level
    return range_unsupported_by_node(lowest, level, low, high, silent)


def _unfit(at: _LevelsAndNode, tables: Tables) -> Flags:
    """Return a mask [F] of finalized levels that make the node itself stop or fail.

    Source: BrokerFeatures.hasIncompatibleFeatures; FeatureControlManager.replay; FeaturesDelta.
    """
    guard = at.own.protection.controllers if at.of_controller else at.own.protection.brokers
    if guard is Guard.NOTHING or not at.guarded:
        return np.zeros(len(at.names), dtype=bool)
    # A controller without the feature supports 0-0, so a record of level 0 is valid for it.
    silent = ~at.lists & (not at.of_controller)
    is_outside = range_refused(guard, at.minimum, at.level, at.low, at.high, silent)
    if guard is Guard.METADATA_VERSION:
        code, release = at.code(METADATA_VERSION), tables.release_code(at.node.release)
        if release != NOT_HERE:  # the software supports levels that it does not advertise
            level = int(at.level[code])
            is_known = level in range(tables.width) and tables.level_known[release, 0, level]
            is_outside[code] = not is_known
        is_outside &= np.arange(len(at.names)) == code
    return is_outside & at.stored


def stopped(
    cluster: Cluster,
    dialect: Dialect,
    tables: Tables,
    *,
    moment: Moment = Moment.NOW,
    proposed: Mapping[str, Range] | None = None,
) -> tuple[Stopped, ...]:
    """Return the nodes of one cluster that stop or stay out, in the order of its nodes.

    A node protects itself by its own generation, whatever the controller runs. In ZooKeeper mode a
    broker exits for any finalized feature outside its range. In KRaft mode a controller exits for
    such a level; a broker stops following the metadata if its software does not know the
    metadata.version. At its next start a node registers again. `proposed` (for AFTER_UPDATE): all
    levels finalized afterwards. Their records are written before any node replays them, also a
    level of 0, so a node that was not checked may exit. The dialect's `race` names the gaps.

    Source: FinalizedFeatureChangeListener; FeatureControlManager.replay; SharedServer.
    """
    controllers = {node.node_id for node in cluster.nodes if node.role is Role.CONTROLLER}
    result = []
    for node in cluster.nodes:
        if not node.running and moment is not Moment.NEXT_START:
            continue
        before = at = _levels_and_node(cluster, node, dialect, extra=tuple(proposed or ()))
        if moment is Moment.AFTER_UPDATE:
            at = at.at(cluster.finalized if proposed is None else proposed)
        unfit, refused = _unfit(at, tables), None
        if at.of_controller:
            unfit |= _unfit(replace(at, stored=at.level != before.level), tables)
        if moment is Moment.NEXT_START:
            joined = _registration(cluster, at, dialect, tables)
            stops_early = at.of_controller and joined.entry is Admission.REFUSED
            if joined.entry in (Admission.REFUSED, Admission.IGNORED) and not stops_early:
                refused = joined
        effect = Effect.GOES_ON if refused is None else Effect.KEPT_OUT
        if unfit.any():
            exits = at.own.protection.broker_exits or node.node_id in controllers
            effect = max(effect, Effect.EXITS if exits else Effect.BLIND)
        if effect is not Effect.GOES_ON:
            texts = tuple(_log_line(at, f, tables) for f in np.flatnonzero(unfit).tolist())
            left_out = refused if effect is Effect.KEPT_OUT else None
            result.append(Stopped(node=node, effect=effect, unfit=texts, refused=left_out))
    return tuple(result)


def _log_line(at: _LevelsAndNode, feature: int, tables: Tables) -> Unfit:
    """Return the message that a node logs about a finalized feature that it does not support."""
    table, release = at.own.protection, tables.release_code(at.node.release)
    ends = low, high = int(at.low[feature]), int(at.high[feature])
    if release != NOT_HERE:
        ends = int(tables.oldest[release, 0]), int(tables.newest_unstable[release, 0])
    template = table.says_broker if at.lists[feature] else table.says_broker_absent
    if at.of_controller:
        template = table.says_controller
    return _unfit_words(
        template or table.says_broker, at, feature,
        node_range=range_text(low, high), oldest_known=ends[0], newest_known=ends[1],
    )  # the values of the text in one block  # fmt: skip


def _unfit_words(template: str, at: _LevelsAndNode, feature: int, **values: object) -> Unfit:
    name = at.names[feature]
    text = template.format(
        feature=name,
        level=int(at.level[feature]),
        lowest=int(at.minimum[feature]),
        node_min=int(at.low[feature]),
        node_max=int(at.high[feature]),
        **values,
    )
    return Unfit(feature=name, text=text)


def _with_substitutes(cluster: Cluster, at: _LevelsAndNode, dialect: Dialect) -> _LevelsAndNode:
    """Return the columns with the ranges that a controller assumes for unlisted features."""
    code, (least, most) = at.code(METADATA_VERSION), dialect.registration.absent_metadata_version
    level, low, high, listed = at.level.copy(), at.low.copy(), at.high.copy(), at.lists.copy()
    if most > 0 and not listed[code]:
        low[code], high[code], listed[code] = least, most, True
    if level[code] == 0:
        level[code] = dialect.can.absent_metadata_version
    if dialect.can.kraft_version == "record":  # a reported level may be a record without effect
        level[at.code(KRAFT_VERSION)] = cluster.raft_level
    return replace(at, level=level, low=low, high=high, lists=listed)


def join(cluster: Cluster, newcomer: Newcomer, dialect: Dialect, tables: Tables) -> Joined:
    """Judge a registration: return Kafka's code and message, and every incompatible feature.

    In KRaft mode the active controller judges. In ZooKeeper mode the broker judges itself; if it
    registers nevertheless, the controller does not make it a live broker (KIP-778).
    """
    node, guarded = newcomer.node, not newcomer.unguarded
    if is_before(newcomer.protocol_version, dialect.election.system_from):
        node, guarded = replace(node, supported={}), False  # such a broker lists no ranges
    at = replace(_levels_and_node(cluster, node, dialect), guarded=guarded)
    return _registration(cluster, at, dialect, tables)


def _registration(cluster: Cluster, at: _LevelsAndNode, dialect: Dialect, tables: Tables) -> Joined:
    """Judge the registration of a node, whether it is registered now or not.

    Source: ClusterControlManager.registerBroker and registerController;
    FinalizedFeatureChangeListener, KafkaController.partitionOnFeatureCompatibility.
    """
    read, table, judge = _with_substitutes(cluster, at, dialect), dialect.registration, dialect
    metadata_version = int(read.level[read.code(METADATA_VERSION)])
    entry, is_empty, unfit = Admission.ACCEPTED, False, np.zeros(len(at.names), dtype=bool)
    if table.at_start:  # ZooKeeper mode: a broker checks itself, the controller checks the others
        unfit = _unfit(at, tables)
        if unfit.any():
            entry, judge = Admission.STOPS, at.own
        elif (unfit := _unfit_for_controller(at, dialect, tables)).any():
            entry = Admission.IGNORED
    elif at.of_controller:
        first = dialect.can.controllers_register_from
        if first == 0 or metadata_version < first:
            entry = Admission.REFUSED if first else Admission.NOT_REGISTERED
    else:
        old = is_before(at.node.release, FIRST_WITH_DIRECTORIES)
        is_empty = 0 < table.directories_from <= metadata_version and old
        unfit = _refused_features(read, table)
        if is_empty or unfit.any():
            entry = Admission.REFUSED
    words = []
    for code_at in (read.code(name) for name in _order(cluster, at.node)):
        if unfit[code_at]:
            protection, is_listed = judge.protection, read.lists[code_at]
            template = protection.says_broker if is_listed else protection.says_broker_absent
            words.append(_unfit_words(table.says or template, read, code_at))
    texts, code, message = [unfit_words.text for unfit_words in words], 0, None
    if is_empty:
        code, message = table.directories_code, table.says_directories
    elif entry is Admission.REFUSED:
        code, message = table.code, texts[0] if texts else table.says_controller
    elif entry is Admission.STOPS:
        message = judge.protection.says_broker_prefix + ", ".join(texts)
    elif entry is Admission.IGNORED:
        message = table.says_ignored.format(node=at.node.node_id)
    return Joined(entry=entry, code=code, message=message, unfit=tuple(words))


def _refused_features(read: _LevelsAndNode, table: RegistrationTable) -> Flags:
    """Return a mask [F] of the features for which a KRaft controller refuses a broker."""
    compared = np.ones(len(read.names), dtype=bool)
    if table.absence is Absence.SKIP:
        compared &= read.lists
    if table.not_finalized is Absence.SKIP:
        compared &= read.level > 0
    return unsupported_by_node(read.level, read.low, read.high, np.False_) & compared


def _unfit_for_controller(at: _LevelsAndNode, dialect: Dialect, tables: Tables) -> Flags:
    """Return a mask [F] of the features for which a ZooKeeper-mode controller ignores a broker."""
    broker = replace(at.node, role=Role.BROKER)
    return _unfit(replace(at, node=broker, own=dialect, guarded=True), tables)


def _order(cluster: Cluster, node: Node) -> list[str]:
    """Return the features in the order in which a controller checks a node: listed features,
    metadata.version, then other finalized features."""
    names = (name for name, (_, level) in cluster.finalized.items() if level)
    finalized = sorted({METADATA_VERSION, KRAFT_VERSION, *names})
    size = 1 << int(len(finalized) / 0.75).bit_length()  # the capacity of Java's HashMap(Map)
    walk = (finalized[i] for i in name_order(finalized, size))
    in_order = (*node.supported, METADATA_VERSION, *walk, *cluster.finalized)
    return list(dict.fromkeys(in_order))


@dataclass(frozen=True, slots=True, kw_only=True)
class Advertised:
    """The ranges [L, F] that the software of L releases advertises; 0-0 = not listed."""

    releases: tuple[str, ...]
    names: tuple[str, ...]
    min_version: Levels  # [L, F] the lowest advertised level
    max_version: Levels  # [L, F] the highest advertised level


def advertised(catalogue: Catalogue, names: Sequence[str], *, unstable: bool = False) -> Advertised:
    """Return the ranges of `names` that each release advertises (KIP-584, KIP-1022). Features with
    maximum 0 are not listed."""
    tables, releases = catalogue.tables, tuple(software.release for software in catalogue.releases)
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
    """Return a mask [R, L, F]: nodes of release L do not support the finalized level [R, F]
    (ClusterControlManager.registerBroker). Level 0 = not finalized."""
    level = levels[:, None, :]
    return incompatible_with_finalized(
        level, level, ranges.min_version[None], ranges.max_version[None]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A release, and the features of one cluster that the release does not support."""

    release: str
    misfits: tuple[str, ...]  # incompatible features of production software
    misfits_unstable: tuple[str, ...]  # incompatible features if unstable features are enabled

    @property
    def joins(self) -> bool:
        """True if a node of the release can register without unstable features."""
        return not self.misfits


def fits(levels: Mapping[str, int], catalogue: Catalogue) -> tuple[Fit, ...]:
    """Return per release the finalized levels that its software does not support."""
    names = sorted(levels)
    row = np.array([[levels[name] for name in names]], dtype=np.int32)
    stable, unstable = (
        misfits(row, advertised(catalogue, names, unstable=flag))[0] for flag in (False, True)
    )

    def named(mask: Flags) -> tuple[str, ...]:
        return tuple(name for name, bad in zip(names, mask.tolist(), strict=True) if bad)

    return tuple(
        Fit(release=software.release, misfits=named(stable[i]), misfits_unstable=named(unstable[i]))
        for i, software in enumerate(catalogue.releases)
    )


def may_join(levels: Mapping[str, int], catalogue: Catalogue) -> tuple[str, ...]:
    """Return the releases whose production software supports all `levels`, oldest first."""
    return tuple(row.release for row in fits(levels, catalogue) if row.joins)
