"""Decide which ZooKeeper data still counts in a cluster with KRaft controllers (KIP-866).

A migration lasts while the newest reading shows one of these: a controller that is set up for it
(`zk_migration_ready`), or a broker in ZooKeeper mode. Such a broker is registered in ZooKeeper, or
its response lacks metadata.version. A cluster whose migration ended is judged as KRaft, even if
ZooKeeper is still read. Each phase was recorded on 3.9.2 (tests/data/migration).
"""

from __future__ import annotations

from featurelib.feature import METADATA_VERSION, Role, Witness
from featurelib.snapshot.log import level_map
from featurelib.snapshot.state import (
    NOTHING,
    ONE_READING,
    ClusterState,
    Listener,
    Map,
    Registration,
)

_IN_MIGRATION = (1, 2)  # states of ZK_MIGRATION_STATE_RECORD


def controllers_at(state: ClusterState) -> int:
    """Return the time of the newest data from KRaft controllers or their log; 0 = none."""
    times = [_answered_at(node) for node in state.listeners if node.role == Role.CONTROLLER]
    return max([state.quorum.at, state.log.at, *times])


def is_on_zookeeper(state: ClusterState) -> bool:
    """Return true for a cluster in ZooKeeper mode, or in a migration from it."""
    newest = controllers_at(state)
    if not newest:
        return bool(state.read_twice)
    since = newest - ONE_READING
    if any(entry.ready and entry.at >= since for entry in state.migration_ready):
        return True
    if state.log.migration in _IN_MIGRATION and state.log.at >= since:
        return True
    if not state.read_twice:
        return False
    answering = (
        entry for entry in state.listeners if _answered_at(entry) >= max(since, entry.failed_at, 1)
    )
    is_registered = any(entry.exists and entry.at >= since for entry in state.registrations)
    return is_registered or any(is_in_zookeeper_mode(entry, state) for entry in answering)


def is_in_zookeeper_mode(listener: Listener, state: ClusterState) -> bool:
    """Return true for a broker whose newest response is from ZooKeeper mode."""
    newer = listener.partial_at > listener.full_at
    position = listener.partial if newer else listener.full
    if listener.role != Role.BROKER or position == NOTHING:
        return False
    return all(name != METADATA_VERSION for name, _, _ in state.maps[position])


def outlived(entry: Registration, state: ClusterState) -> bool:
    """Return true if a broker in ZooKeeper's list responded later as a KRaft broker, or in a later
    reading without ZooKeeper."""
    answers = (o for o in state.listeners if (o.role, o.node_id) == (Role.BROKER, entry.node_id))
    return any(
        _answered_at(o) > entry.at + ONE_READING * is_in_zookeeper_mode(o, state) for o in answers
    )


def registered_ranges(state: ClusterState) -> Map | None:
    """Return the ranges that brokers in ZooKeeper mode register with the controllers of a
    migration; None = unknown.

    The brokers report no ranges. They register the features of their software, and of
    metadata.version only the level of their inter.broker.protocol.version. A controller admits only
    brokers that support the finalized level, so the registered level is the finalized one
    (BrokerServer and KafkaServer of 3.9; recorded: `Broker 2 only supports versions 20`).
    """
    levels = [
        (entry.at, entry.line, state.maps[entry.levels])
        for entry in state.witnesses
        if entry.kind == Witness.CONTROLLER
    ]
    levels += [(state.log.at, state.log.line, level_map(state.log))] if state.log.end else []
    _, _, newest = max(levels, default=(0, 0, ()))
    finalized = [entry for entry in newest if entry[0] == METADATA_VERSION]
    reported = [
        (entry.full_at, entry.full_line, state.maps[entry.full])
        for entry in state.listeners
        if entry.role == Role.CONTROLLER and entry.full > NOTHING
    ]
    _, _, ranges = max(reported, default=(0, 0, ()))
    entries = [entry for entry in ranges if entry[0] != METADATA_VERSION]
    return tuple(sorted([*entries, *finalized])) if finalized else None


def _answered_at(listener: Listener) -> int:
    return max(listener.full_at, listener.partial_at)
