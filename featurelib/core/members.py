"""Who belongs to a cluster, as every witness of it says: lists, registrations, voters, listeners.

Which list of registered brokers is believed, and who counts beside it, is decided here; what the
nodes support is featurelib.core.nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from featurelib.core.columns import (
    Bool,
    Flat,
    Int,
    distinct,
    find,
    first_of_equals,
    integers,
    node_key,
    pick,
)
from featurelib.feature import Role, Witness

ZOOKEEPER = int(Witness.FEATURES_NODE)
LOG = int(Witness.METADATA_LOG)
BROKER, CONTROLLER = int(Role.BROKER), int(Role.CONTROLLER)
ONE_LOOK = 5 * 60 * 1_000_000  # microseconds: lines as near to each other may be of one look


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """One row a cluster: what is known about who belongs to it."""

    zookeeper: Bool
    kraft: Bool
    registrations_proven: Bool
    quorum_known: Bool
    quorum_at: Int
    quorum_line: Int
    controllers_known: Bool  # something lists the registered controllers


class Sources:
    """Every statement about nodes in the batch, flat."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.clusters = batch.num_rows
        self.listeners = Flat(batch.column("listeners"))
        self.registrations = Flat(batch.column("registrations"))
        self.members = Flat(batch.column("members"))
        self.voters = Flat(batch.column("voters"))
        self.log_end = integers(batch.column("log_end"))
        self.log_at = np.where(self.log_end > 0, integers(batch.column("log_at")), 0)
        self.quorum_at = integers(batch.column("quorum_at"))
        self.followers = Flat(batch.column("observers"))
        self.zookeeper = integers(batch.column("zookeeper")).astype(bool)
        flat = self.listeners
        self.listener_key = node_key(flat.row, flat.field("role"), flat.field("node_id"))
        flat = self.registrations
        self.registration_key = node_key(flat.row, flat.field("role"), flat.field("node_id"))
        listed = Flat(self.members.child("members"))
        owner = listed.row  # position in self.members
        self.member_cluster = self.members.row[owner]
        self.member_shown = self.members.field("fenced_shown")[owner].astype(bool)
        self.member_at = self.members.field("at")[owner]
        self.member_role = self.members.field("role")[owner]
        self.member_fenced = listed.field("fenced")
        self.member_key = node_key(self.member_cluster, self.member_role, listed.field("node_id"))

    def newest_list(self, shown: bool) -> Int:
        """When DescribeCluster last listed brokers, with or without fenced ones, by cluster."""
        newest = np.zeros(self.clusters, dtype=np.int64)
        is_it = (self.members.field("role") == BROKER) & (
            self.members.field("fenced_shown").astype(bool) == shown
        )
        newest[self.members.row[is_it]] = self.members.field("at")[is_it]
        return newest


def registered_keys(said: Sources, from_log: Bool, authority_at: Int, plain_at: Int) -> Int:
    flat = said.registrations
    witness, role = flat.field("witness"), flat.field("role")
    believed = (witness == ZOOKEEPER) | (role == CONTROLLER) | from_log[flat.row]
    cluster = said.member_cluster
    listed = (said.member_role == CONTROLLER) | np.where(
        said.member_shown, ~from_log[cluster], plain_at[cluster] > authority_at[cluster]
    )
    return distinct(np.concatenate((said.registration_key[believed], said.member_key[listed])))


def other_keys(said: Sources, authority_at: Int, in_zookeeper: Bool) -> Int:
    """Voters, and listeners that no list of registrations speaks about."""
    flat = said.listeners
    answered = np.maximum(flat.field("full_at"), flat.field("partial_at"))
    cluster = flat.row
    newer = (answered > authority_at[cluster]) & ~in_zookeeper[cluster]
    unlisted = (authority_at[cluster] == 0) & ~in_zookeeper[cluster]
    brokers = (flat.field("role") == BROKER) & (newer | unlisted)
    controllers = (flat.field("role") == CONTROLLER) & (
        (answered > said.quorum_at[cluster]) | (said.quorum_at[cluster] == 0)
    )
    return np.concatenate((said.listener_key[brokers | controllers], voter_keys(said)))


def voter_keys(said: Sources) -> Int:
    """The controllers that vote, distinct."""
    return _controller_keys(said.voters)


def gone_controllers(said: Sources, keys: Int, registered_at: Int) -> Bool:
    """Which of `keys` are controllers that Kafka itself does not see: neither a voter nor a
    follower by the quorum's leader, which was asked after they were seen to be registered."""
    cluster = keys >> 32
    seen = distinct(np.concatenate((voter_keys(said), _controller_keys(said.followers))))
    asked_at = said.quorum_at[cluster]
    gone = ((keys >> 31) & 1 == CONTROLLER) & (find(seen, keys) < 0)
    return gone & (asked_at > 0) & (registered_at <= asked_at + ONE_LOOK)


def _controller_keys(ids: Flat) -> Int:
    """Node keys of lists of controllers, distinct."""
    controllers = np.full(len(ids), CONTROLLER, dtype=np.int64)
    return distinct(node_key(ids.row, controllers, integers(ids.values)))


def position(keys: Int, order: Int, wanted: Int) -> Int:
    """Where `wanted` stand in the unsorted `keys`, which `order` sorts; -1 where not."""
    return pick(order, find(keys[order], wanted), -1)


def fenced_flags(said: Sources, keys: Int, entry: Int) -> Int:
    """What the newest witness says: DescribeCluster with fenced brokers, or the registration.

    A list that leaves fenced brokers out is a witness, too: a broker that was registered when the
    log was dumped, and is not listed later, is fenced, or not registered any more.
    """
    fenced = pick(said.registrations.field("fenced"), entry, -1)
    entry_at = pick(said.registrations.field("at"), entry, 0)
    in_log = (entry >= 0) & (pick(said.registrations.field("witness"), entry, LOG) == LOG)
    plain = distinct(said.member_key[~said.member_shown])
    left_out = in_log & ((keys >> 31) & 1 == BROKER) & (find(plain, keys) < 0)
    fenced = np.where(left_out & (said.newest_list(False)[keys >> 32] > entry_at), 1, fenced)
    shown = np.flatnonzero(said.member_shown)
    order = shown[np.argsort(said.member_key[shown], kind="stable")]
    order = order[first_of_equals(said.member_key[order])]
    member = position(said.member_key, order, keys)
    newer = (member >= 0) & (pick(said.member_at, member, 0) >= entry_at)
    return np.where(newer, pick(said.member_fenced, member, -1), fenced)
