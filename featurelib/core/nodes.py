"""Who must answer, and with which supported ranges: absence gets its value here.

A node counts if it is registered (fenced too), a voter, expected by the fleet's inventory, or
answered after the registrations were read. Which registrations are believed: the newest of the
metadata log and a DescribeCluster that shows fenced brokers; in ZooKeeper mode `/brokers/ids`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from featurelib.core.columns import (
    Bool,
    Flat,
    Int,
    any_of,
    distinct,
    find,
    integers,
    node_key,
    pick,
)
from featurelib.core.profiles import Profiles
from featurelib.feature import Role, Witness

ZOOKEEPER = int(Witness.FEATURES_NODE)
LOG = int(Witness.METADATA_LOG)
BROKER, CONTROLLER = int(Role.BROKER), int(Role.CONTROLLER)
NOBODY = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Subjects:
    """One row a node half that must answer; all int64 or bool, times in microseconds.

    `profile` is a row of the batch's profiles, -1 = its range is not known. `fenced` 1, 0, or -1
    for not known. `at` and `line` are of the statement the range is taken from.
    """

    cluster: Int
    role: Int
    node_id: Int
    profile: Int
    partial: Bool  # the map may leave out features whose minimum is 0
    at: Int
    line: Int
    fenced: Int
    answered_at: Int
    failed_at: Int
    failed_line: Int
    answers: Bool  # to the last call
    listener: Int  # position among the batch's listeners, -1 = it was never asked
    registered: Bool
    voter: Bool
    listed_nothing: Bool  # registered in ZooKeeper without a word about features
    expected_only: Bool
    too_old: Bool
    not_answering: Bool
    not_asked: Bool
    own_word: Bool  # a controller's range that nothing but its own listener tells
    stable_metadata: Int  # what its own controller listener calls the newest stable level; -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """One row a cluster: what is known about who belongs to it."""

    zookeeper: Bool
    kraft: Bool
    registrations_at: Int  # 0 = nothing shows fenced brokers
    registrations_proven: Bool
    quorum_known: Bool
    quorum_at: Int
    quorum_line: Int
    controllers_known: Bool  # something lists the registered controllers


class _Age(NamedTuple):
    as_of: int
    longest: int


class _Sources:
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


def read_nodes(
    batch: pa.RecordBatch,
    profiles: Profiles,
    *,
    as_of: int,
    max_age: int,
    expected: Int,
    vouched: Bool,
    system_off: Bool,
) -> tuple[Subjects, Membership]:
    """The nodes that must answer, and what is known of each cluster's membership.

    `expected` are node keys of the inventory, `vouched` says by cluster whether its owner stands
    for the registrations being complete.
    """
    said = _Sources(batch)
    role = said.listeners.field("role")
    shown_at, plain_at = said.newest_list(True), said.newest_list(False)
    kraft = (said.log_end > 0) | (said.quorum_at > 0)
    kraft |= any_of(said.listeners.row, role == CONTROLLER, said.clusters)
    kraft |= any_of(said.members.row, said.members.field("role") == CONTROLLER, said.clusters)
    from_log = said.log_at >= shown_at
    authority_at = np.maximum(said.log_at, shown_at)
    in_zookeeper = any_of(
        said.registrations.row, said.registrations.field("witness") == ZOOKEEPER, said.clusters
    )
    proven = ((authority_at > 0) & (np.abs(as_of - authority_at) <= max_age)) | vouched
    proven = np.where(said.zookeeper & ~kraft, in_zookeeper | vouched, proven)
    membership = Membership(
        zookeeper=said.zookeeper,
        kraft=kraft,
        registrations_at=authority_at,
        registrations_proven=proven,
        quorum_known=said.quorum_at > 0,
        quorum_at=said.quorum_at,
        quorum_line=integers(batch.column("quorum_line")),
        controllers_known=(said.log_end > 0)
        | any_of(said.members.row, said.members.field("role") == CONTROLLER, said.clusters),
    )
    registered = _registered_keys(said, from_log, authority_at, plain_at)
    others = _other_keys(said, authority_at, in_zookeeper)
    known = distinct(np.concatenate((registered, others)))
    keys = distinct(np.concatenate((known, expected)))
    age = _Age(as_of, max_age)
    return _describe(said, profiles, keys, registered, known, system_off, age), membership


def _registered_keys(said: _Sources, from_log: Bool, authority_at: Int, plain_at: Int) -> Int:
    flat = said.registrations
    witness, role = flat.field("witness"), flat.field("role")
    believed = (witness == ZOOKEEPER) | (role == CONTROLLER) | from_log[flat.row]
    cluster = said.member_cluster
    listed = (said.member_role == CONTROLLER) | np.where(
        said.member_shown, ~from_log[cluster], plain_at[cluster] > authority_at[cluster]
    )
    return distinct(np.concatenate((said.registration_key[believed], said.member_key[listed])))


def _other_keys(said: _Sources, authority_at: Int, in_zookeeper: Bool) -> Int:
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
    voters = node_key(
        said.voters.row,
        np.full(len(said.voters), CONTROLLER, dtype=np.int64),
        integers(said.voters.values),
    )
    return np.concatenate((said.listener_key[brokers | controllers], voters))


def _describe(
    said: _Sources,
    profiles: Profiles,
    keys: Int,
    registered: Int,
    known: Int,
    system_off: Bool,
    age: _Age,
) -> Subjects:
    cluster, role, node_id = keys >> 32, (keys >> 31) & 1, keys & 0x7FFFFFFF
    order = np.argsort(said.listener_key, kind="stable")
    listener = find(said.listener_key[order], keys)
    listener = pick(order, listener, NOBODY)
    own = profiles.of_listeners(said.listeners)
    flat = said.listeners
    answered_at = pick(own.at, listener, 0)
    failed_at = pick(flat.field("failed_at"), listener, 0)
    profile, partial = (
        pick(own.profile, listener, NOBODY),
        pick(own.partial.astype(np.int64), listener, 0) > 0,
    )
    at, line = answered_at, pick(own.line, listener, 0)

    # A controller's listener leaves unstable levels out of its range; the broker half of the same
    # process does not (facts, g.3). So a controller half is taken at its broker half's word.
    half = _position(said.listener_key, order, node_key(cluster, role * 0, node_id))
    stands_in = (role == CONTROLLER) & (profile >= 0) & (pick(own.profile, half, NOBODY) >= 0)
    newest = own.metadata_max(profiles)
    understated = pick(newest, listener, NOBODY)
    profile = np.where(stands_in, pick(own.profile, half, NOBODY), profile)
    partial = np.where(stands_in, pick(own.partial.astype(np.int64), half, 0) > 0, partial)

    # The stable end of a node's range, where its controller half shows one.
    other = _position(said.listener_key, order, node_key(cluster, role * 0 + CONTROLLER, node_id))
    stable = np.where(role == CONTROLLER, understated, pick(newest, other, NOBODY))

    entry = _registration(said, keys)
    entry_at = pick(said.registrations.field("at"), entry, 0)
    entry_profile = profiles.of_registrations(said.registrations)
    entry_profile = pick(entry_profile, entry, NOBODY)
    in_zookeeper = pick(said.registrations.field("witness"), entry, LOG) == ZOOKEEPER
    believe_entry = (
        (entry >= 0) & ((entry_at >= at) | in_zookeeper) & ((entry_profile >= 0) | in_zookeeper)
    )
    # With the system off nobody registers features; brokers' answers show what they have in memory.
    believe_entry &= ~((entry_profile == profiles.empty) & (profile >= 0) & system_off[cluster])
    profile = np.where(believe_entry, entry_profile, profile)
    partial &= ~believe_entry
    at = np.where(believe_entry, entry_at, at)
    line = np.where(believe_entry, pick(said.registrations.field("line"), entry, 0), line)

    fenced = _fenced(said, keys, entry)
    confirmed = (fenced == 1) | in_zookeeper
    answers = (answered_at > 0) & (answered_at >= failed_at)
    expected_only = find(known, keys) < 0
    return Subjects(
        cluster=cluster,
        role=role,
        node_id=node_id,
        profile=profile,
        partial=partial,
        at=at,
        line=line,
        fenced=fenced,
        answered_at=answered_at,
        failed_at=failed_at,
        failed_line=pick(flat.field("failed_line"), listener, 0),
        answers=answers,
        listener=listener,
        registered=find(registered, keys) >= 0,
        voter=_is_voter(said, keys),
        listed_nothing=in_zookeeper & (entry_profile == profiles.empty),
        expected_only=expected_only,
        # A time as far ahead is no better: such a clock cannot be believed.
        too_old=(at > 0) & (np.abs(age.as_of - at) > age.longest),
        not_answering=(failed_at > answered_at) & ~confirmed,
        not_asked=~answers & (failed_at == 0) & ~confirmed,
        own_word=(role == CONTROLLER) & ~stands_in & ~believe_entry & answers,
        stable_metadata=stable,
    )


def _position(keys: Int, order: Int, wanted: Int) -> Int:
    return pick(order, find(keys[order], wanted), NOBODY)


def _registration(said: _Sources, keys: Int) -> Int:
    """The registration of each key: ZooKeeper's before the log's; a migrating broker has both."""
    flat = said.registrations
    order = np.lexsort((flat.field("witness"), said.registration_key))
    first = np.concatenate(([True], np.diff(said.registration_key[order]) != 0))[: len(order)]
    order = order[first]
    return _position(said.registration_key, order, keys)


def _fenced(said: _Sources, keys: Int, entry: Int) -> Int:
    """What the newest witness says: DescribeCluster with fenced brokers, or the registration."""
    fenced = pick(said.registrations.field("fenced"), entry, -1)
    entry_at = pick(said.registrations.field("at"), entry, 0)
    order = np.argsort(np.where(said.member_shown, said.member_key, -1), kind="stable")
    member = _position(
        np.where(said.member_shown, said.member_key, -1), _distinct(said, order), keys
    )
    newer = (member >= 0) & (pick(said.member_at, member, 0) >= entry_at)
    return np.where(newer, pick(said.member_fenced, member, -1), fenced)


def _distinct(said: _Sources, order: Int) -> Int:
    key = np.where(said.member_shown, said.member_key, -1)[order]
    keep = np.concatenate(([True], np.diff(key) != 0))[: len(order)]
    return order[keep]


def _is_voter(said: _Sources, keys: Int) -> Bool:
    controllers = np.full(len(said.voters), CONTROLLER, dtype=np.int64)
    voters = node_key(said.voters.row, controllers, integers(said.voters.values))
    return find(distinct(voters), keys) >= 0
