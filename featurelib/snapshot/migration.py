"""Tell what of ZooKeeper still counts in a cluster that has controllers of KRaft (KIP-866).

A migration lasts while, in the newest look, a controller is set up for it (`zk_migration_ready`) or
a broker is in ZooKeeper mode: registered there, or without metadata.version in its answer. One that
ended is judged as KRaft, whether or not ZooKeeper is still read. Seen on 3.9.2, phase by phase
(tests/data/migration).
"""

from __future__ import annotations

from featurelib.feature import METADATA_VERSION, Role, Witness
from featurelib.snapshot.log import level_map
from featurelib.snapshot.state import NOTHING, ONE_LOOK, ClusterState, Listener, Map, Registration

_IN_MIGRATION = (1, 2)  # states of ZK_MIGRATION_STATE_RECORD


def controllers_at(state: ClusterState) -> int:
    """When controllers of KRaft were heard of last; 0 = never."""
    asked = [_answered_at(one) for one in state.listeners if one.role == Role.CONTROLLER]
    return max([state.quorum.at, state.log.at, *asked])


def is_on_zookeeper(state: ClusterState) -> bool:
    """Whether ZooKeeper is part of the cluster: it is in ZooKeeper mode, or still migrates."""
    heard = controllers_at(state)
    if not heard:
        return bool(state.read_twice)
    since = heard - ONE_LOOK
    if any(one.ready and one.at >= since for one in state.migration_ready):
        return True
    if state.log.migration in _IN_MIGRATION and state.log.at >= since:
        return True
    if not state.read_twice:
        return False
    answering = (
        one for one in state.listeners if _answered_at(one) >= max(since, one.failed_at, 1)
    )
    there = any(one.exists and one.at >= since for one in state.registrations)
    return there or any(is_in_zookeeper_mode(one, state) for one in answering)


def is_in_zookeeper_mode(listener: Listener, state: ClusterState) -> bool:
    """Whether it is of a broker whose newest answer is one of ZooKeeper mode."""
    newer = listener.partial_at > listener.full_at
    shown = listener.partial if newer else listener.full
    if listener.role != Role.BROKER or shown == NOTHING:
        return False
    return all(name != METADATA_VERSION for name, _, _ in state.maps[shown])


def outlived(entry: Registration, state: ClusterState) -> bool:
    """Whether the broker registered in ZooKeeper has answered since: as one of KRaft, or in a later
    look, of which ZooKeeper was no part."""
    own = (
        one for one in state.listeners if (one.role, one.node_id) == (Role.BROKER, entry.node_id)
    )
    return any(
        _answered_at(one) > entry.at + ONE_LOOK * is_in_zookeeper_mode(one, state) for one in own
    )


def registered_ranges(state: ClusterState) -> Map | None:
    """What brokers in ZooKeeper mode register with the controllers of a migration; None = not
    known.

    Themselves they show nothing. They register what their software supports, and of
    metadata.version just the level of their inter.broker.protocol.version; a controller lets in
    only who supports the finalized level, so it is that one (BrokerServer and KafkaServer of 3.9;
    recorded: `Broker 2 only supports versions 20`).
    """
    levels = [
        (one.at, one.line, state.maps[one.levels])
        for one in state.witnesses
        if one.kind == Witness.CONTROLLER
    ]
    levels += [(state.log.at, state.log.line, level_map(state.log))] if state.log.end else []
    _, _, newest = max(levels, default=(0, 0, ()))
    found = [entry for entry in newest if entry[0] == METADATA_VERSION]
    shown = [
        (one.full_at, one.full_line, state.maps[one.full])
        for one in state.listeners
        if one.role == Role.CONTROLLER and one.full > NOTHING
    ]
    _, _, ranges = max(shown, default=(0, 0, ()))
    others = [entry for entry in ranges if entry[0] != METADATA_VERSION]
    return tuple(sorted([*others, *found])) if found else None


def _answered_at(listener: Listener) -> int:
    return max(listener.full_at, listener.partial_at)
