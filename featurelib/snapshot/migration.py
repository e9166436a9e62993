"""Decide which ZooKeeper data still counts in a cluster with KRaft controllers (KIP-866).

A cluster is in a migration if its newest reading shows a controller with `zk_migration_ready`, or a
broker in ZooKeeper mode. A broker in ZooKeeper mode is registered in ZooKeeper, or its response
lacks metadata.version. After the migration the cluster is judged as KRaft, even if ZooKeeper is
still read. tests/data/migration has a recording of each phase (Kafka 3.9.2).
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

_IN_MIGRATION = (1, 2)  # values of ZkMigrationStateRecord


def controllers_at(state: ClusterState) -> int:
    """Return the time of the newest data from KRaft controllers or their log; 0 without data."""
    times = [_answered_at(node) for node in state.listeners if node.role == Role.CONTROLLER]
    return max([state.quorum.at, state.log.at, *times])


def is_on_zookeeper(state: ClusterState) -> bool:
    """Return true if a cluster is in ZooKeeper mode or is migrating to KRaft."""
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
    """Return true if the newest response of a broker came in ZooKeeper mode."""
    newer = listener.partial_at > listener.full_at
    position = listener.partial if newer else listener.full
    if listener.role != Role.BROKER or position == NOTHING:
        return False
    return all(name != METADATA_VERSION for name, _, _ in state.maps[position])


def outlived(entry: Registration, state: ClusterState) -> bool:
    """Return true if a broker registered in ZooKeeper later runs in KRaft mode."""
    answers = (o for o in state.listeners if (o.role, o.node_id) == (Role.BROKER, entry.node_id))
    return any(
        _answered_at(o) > entry.at + ONE_READING * is_in_zookeeper_mode(o, state) for o in answers
    )


def registered_ranges(state: ClusterState) -> Map | None:
    """Return the ranges that brokers in ZooKeeper mode register with KRaft controllers; None =
    unknown.

    During a migration such a broker reports no ranges. It registers the features of its software,
    and metadata.version only at the level of its inter.broker.protocol.version. The controller
    accepts only brokers that support the finalized level, so the registered level is the finalized
    level (BrokerServer and KafkaServer of 3.9; recorded: `Broker 2 only supports versions 20`).
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
