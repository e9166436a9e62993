"""Which nodes stop, or cannot come back, over what is finalized: question (c) of the core (M7).

A node protects itself by its own generation, whatever the controller runs. ZooKeeper mode: a broker
ends over any finalized feature outside its range. KRaft: a controller ends over any such level, a
broker only over a metadata.version that its software does not know; on its own it does not end, it
logs a fault and follows the metadata no longer. At its next start it registers again, and is judged
by the controller. What a protection leaves open is `race` of the dialect.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum

import numpy as np

from featurelib.catalogue.tables import Tables
from featurelib.core.batch import NOT_HERE, Flags, Ints, Levels
from featurelib.core.cluster import Cluster, Node, Range
from featurelib.core.dialect import Dialect
from featurelib.core.joining import Entry, Joined, Newcomer, Unfit, join, judge
from featurelib.core.reply import range_text
from featurelib.core.standing import (
    Codes,
    Members,
    Standing,
    level_columns,
    own_generation,
    stand,
    unfit,
)
from featurelib.feature import METADATA_VERSION, Role


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
class Stops:
    """What becomes of N nodes, and over which features."""

    effect: Codes  # [N] of Effect
    unfit: Flags  # [N, F]


def stops_now(standing: Standing, members: Members, tables: Tables) -> Stops:
    """Nodes that run now and cannot live with what is finalized now.

    Source: FinalizedFeatureChangeListener; FeatureControlManager.replay; SharedServer.
    """
    found = unfit(standing, members, tables) & members.running[:, None]
    return Stops(effect=_own_effect(found, members), unfit=found)


def stops_at_start(standing: Standing, members: Members, dialect: Dialect, tables: Tables) -> Stops:
    """Nodes that cannot come back, should they stop: by themselves, or because `dialect` refuses
    their registration."""
    own = unfit(standing, members, tables)
    judged = judge(standing, members, dialect, tables)
    kept_out = np.isin(judged.entry, (Entry.REFUSED, Entry.IGNORED)) & ~judged.too_early
    effect = np.maximum(_own_effect(own, members), np.where(kept_out, Effect.KEPT_OUT, 0))
    return Stops(effect=effect.astype(np.int8), unfit=own | judged.unfit)


def stops_after(
    standing: Standing, members: Members, level: Levels, minimum: Levels, tables: Tables
) -> Stops:
    """Nodes that run now and would stop once `level` and `minimum` [C, F] are finalized.

    An update writes its records before anybody replays them, a level of 0 as well, so a node that
    was not asked may end over it. Take them from what an Outcome says to be true afterwards.
    """
    changed = level != standing.level
    proposed = replace(standing, level=level, minimum=minimum, finalized=level != 0)
    found = unfit(proposed, members, tables)
    records = replace(proposed, finalized=changed)
    found |= unfit(records, members, tables) & members.controller[:, None]
    found &= members.running[:, None]
    return Stops(effect=_own_effect(found, members), unfit=found)


def ends_over_version(cached: Ints, version: Ints) -> Flags:
    """ZooKeeper mode: whether brokers that cached the features node at one data version exit over
    the version they see next; -1 = nothing cached. The same version with other contents passes.

    Source: FinalizedFeatureCache.updateOrThrow. Never delete the node: its versions start anew.
    """
    return version < cached


def _own_effect(found: Flags, members: Members) -> Codes:
    hit: Flags = np.logical_or.reduce(found, axis=1)
    ends = np.where(members.exits | members.with_controller, Effect.EXITS, Effect.BLIND)
    return np.where(hit, ends, Effect.GOES_ON).astype(np.int8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A node that stops or stays out, and the words of Kafka's log about each feature."""

    node: Node
    effect: Effect
    unfit: tuple[Unfit, ...]  # what the node itself does not accept
    refused: Joined | None = None  # its registration, where that keeps it out


def stopped(
    cluster: Cluster,
    dialect: Dialect,
    tables: Tables,
    *,
    moment: Moment = Moment.NOW,
    proposed: dict[str, Range] | None = None,
) -> tuple[Stopped, ...]:
    """Which nodes of one cluster stop or stay out, in the order of its nodes.

    `proposed`, for AFTER_UPDATE, is the whole of what would be finalized: (minimum, level).
    """
    later = cluster.finalized if proposed is None else proposed
    standing, members = stand([cluster], dialect, tables, also=later)
    if moment is Moment.NEXT_START:
        found = stops_at_start(standing, members, dialect, tables)
        own = unfit(standing, members, tables)
    elif moment is Moment.AFTER_UPDATE:
        level, minimum = level_columns([later], standing.names)
        found = stops_after(standing, members, level, minimum, tables)
        own, standing = found.unfit, replace(standing, level=level, minimum=minimum)
    else:
        found = stops_now(standing, members, tables)
        own = found.unfit
    said = []
    for i in np.flatnonzero(found.effect).tolist():
        node, effect = cluster.nodes[i], Effect(int(found.effect[i]))
        newcomer = Newcomer(node=node, unguarded=not members.guarded[i])
        kept_out = effect is Effect.KEPT_OUT
        features = np.flatnonzero(own[i]).tolist()
        words = [_words(standing, members, (i, f), node, dialect, tables) for f in features]
        said.append(
            Stopped(
                node=node,
                effect=effect,
                unfit=tuple(words),
                refused=join(cluster, newcomer, dialect, tables) if kept_out else None,
            )
        )
    return tuple(said)


def _words(
    standing: Standing,
    members: Members,
    place: tuple[int, int],
    node: Node,
    dialect: Dialect,
    tables: Tables,
) -> Unfit:
    """What a node logs about one feature it does not accept; `place` is (member, feature)."""
    member, feature = place
    table = own_generation(node, dialect).protection
    ranges, at = standing.ranges, (int(members.profile[member]), feature)
    ends = int(ranges.min_version[at]), int(ranges.max_version[at])
    release, code = int(members.release[member]), tables.feature_code(METADATA_VERSION)
    known = ends
    if release != NOT_HERE:
        known = int(tables.oldest[release, code]), int(tables.newest_unstable[release, code])
    absent = not ranges.lists[at] and bool(table.says_broker_absent)
    says = table.says_broker_absent if absent else table.says_broker
    if node.role is Role.CONTROLLER:
        says = table.says_controller
    where = int(members.cluster[member]), feature
    text = says.format(
        feature=standing.names[feature],
        level=int(standing.level[where]),
        lowest=int(standing.minimum[where]),
        node_min=ends[0],
        node_max=ends[1],
        node_range=range_text(*ends),
        oldest_known=known[0],
        newest_known=known[1],
    )
    return Unfit(feature=standing.names[feature], text=text)
