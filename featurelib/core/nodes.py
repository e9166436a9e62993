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

from featurelib.core.ages import is_fresh
from featurelib.core.columns import (
    Bool,
    Int,
    any_of,
    find,
    first_of_equals,
    integers,
    pick,
)
from featurelib.core.members import (
    BROKER,
    CONTROLLER,
    LOG,
    ONE_LOOK,
    ZOOKEEPER,
    Membership,
    Sources,
    fenced_flags,
    gone_controllers,
    other_keys,
    position,
    registered_keys,
    voter_keys,
)
from featurelib.core.profiles import Profiles

NOBODY = -1
REGISTERED = 0  # why a node counts


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
    gone: Bool  # Kafka itself does not see it: a fenced broker, a controller that does not follow
    live: Bool  # a broker that Kafka itself called live when we asked it last
    listed_nothing: Bool  # registered in ZooKeeper without a word about features
    expected_only: Bool
    too_old: Bool
    not_answering: Bool
    not_asked: Bool
    own_word: Bool  # a controller's range that nothing but its own listener tells
    stable_metadata: Int  # what its own controller listener calls the newest stable level; -1


class _Word(NamedTuple):
    listener: Int
    profile: Int
    partial: Bool
    at: Int
    line: Int
    of_broker_half: Bool
    stable: Int


class _Age(NamedTuple):
    as_of: int
    longest: int


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
    said = Sources(batch)
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
    proven = ((authority_at > 0) & is_fresh(authority_at, as_of, max_age)) | vouched
    proven = np.where(said.zookeeper & ~kraft, in_zookeeper | vouched, proven)
    membership = Membership(
        zookeeper=said.zookeeper,
        kraft=kraft,
        registrations_proven=proven,
        quorum_known=said.quorum_at > 0,
        quorum_at=said.quorum_at,
        quorum_line=integers(batch.column("quorum_line")),
        controllers_known=(said.log_end > 0)
        | any_of(said.members.row, said.members.field("role") == CONTROLLER, said.clusters),
    )
    registered = registered_keys(said, from_log, authority_at, plain_at)
    others = other_keys(said, authority_at, in_zookeeper)
    ways = enumerate((registered, others, expected))
    counted = np.sort(np.concatenate([keys << 2 | way for way, keys in ways]), kind="stable")
    counted = counted[first_of_equals(counted >> 2)]
    age = _Age(as_of, max_age)
    return _describe(said, profiles, counted >> 2, counted & 3, system_off, age), membership


def _describe(
    said: Sources,
    profiles: Profiles,
    keys: Int,
    way: Int,
    system_off: Bool,
    age: _Age,
) -> Subjects:
    """`way`: REGISTERED, 1 counted for another reason, 2 only expected."""
    cluster, role, node_id = keys >> 32, (keys >> 31) & 1, keys & 0x7FFFFFFF
    said_itself = _own_word(said, profiles, keys)
    listener, answered_at = said_itself.listener, said_itself.at
    profile, partial = said_itself.profile, said_itself.partial
    at, line = said_itself.at, said_itself.line
    flat = said.listeners
    failed_at = pick(flat.field("failed_at"), listener, 0)

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

    fenced = fenced_flags(said, keys, entry)
    answers = (answered_at > 0) & (answered_at >= failed_at)
    listed_at = _listed_at(said, keys)
    lost = gone_controllers(said, keys, np.maximum(entry_at, listed_at))
    # What answered after the quorum was asked, or just before it, is there.
    lost &= (way == REGISTERED) & ~(answers & (answered_at + ONE_LOOK >= said.quorum_at[cluster]))
    gone = (fenced == 1) | lost
    confirmed = gone | in_zookeeper
    voter = np.zeros(len(keys), dtype=bool)
    voter[find(keys, voter_keys(said))] = True  # every voter counts, so each is found
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
        registered=way == REGISTERED,
        voter=voter,
        gone=gone,
        live=(role == BROKER) & (listed_at > 0) & (listed_at + ONE_LOOK >= failed_at) & ~gone,
        listed_nothing=in_zookeeper & (entry_profile == profiles.empty),
        expected_only=way == 2,
        # A time as far ahead is no better: such a clock cannot be believed.
        too_old=(at > 0) & ~is_fresh(at, age.as_of, age.longest),
        not_answering=(failed_at > answered_at) & ~confirmed,
        not_asked=~answers & (failed_at == 0) & ~confirmed,
        own_word=(role == CONTROLLER) & ~said_itself.of_broker_half & ~believe_entry & answers,
        stable_metadata=said_itself.stable,
    )


def _listed_at(said: Sources, keys: Int) -> Int:
    """When DescribeCluster last listed each node; 0 = it did not."""
    order = np.lexsort((-said.member_at, said.member_key))
    order = order[first_of_equals(said.member_key[order])]
    return pick(said.member_at, position(said.member_key, order, keys), 0)


def _own_word(said: Sources, profiles: Profiles, keys: Int) -> _Word:
    """What each node half said of itself in its newest answer."""
    role = (keys >> 31) & 1
    order = np.argsort(said.listener_key, kind="stable")
    listener = position(said.listener_key, order, keys)
    own = profiles.of_listeners(said.listeners)
    own_partial = own.partial.astype(np.int64)
    newest = own.metadata_max(profiles)
    profile = pick(own.profile, listener, NOBODY)

    # A controller's listener leaves unstable levels out of its range; the broker half of the same
    # process does not (facts, g.3). So a controller half is taken at its broker half's word.
    halves = np.flatnonzero((role == CONTROLLER) & (profile >= 0))
    half = position(said.listener_key, order, keys[halves] & ~(CONTROLLER << 31))
    speaks = pick(own.profile, half, NOBODY) >= 0
    stands_in = np.zeros(len(keys), dtype=bool)
    stands_in[halves] = speaks
    speaker = listener.copy()
    speaker[halves[speaks]] = half[speaks]

    # The stable end of a node's range, where its controller half shows one.
    stable = pick(newest, listener, NOBODY)
    stable[role != CONTROLLER] = NOBODY
    shows = order[said.listeners.field("role")[order] == CONTROLLER]
    brokers = find(keys, said.listener_key[shows] & ~(CONTROLLER << 31))
    stable[brokers[brokers >= 0]] = newest[shows[brokers >= 0]]
    return _Word(
        listener=listener,
        profile=pick(own.profile, speaker, NOBODY),
        partial=pick(own_partial, speaker, 0) > 0,
        at=pick(own.at, listener, 0),
        line=pick(own.line, listener, 0),
        of_broker_half=stands_in,
        stable=stable,
    )


def _registration(said: Sources, keys: Int) -> Int:
    """The registration of each key: ZooKeeper's before the log's; a migrating broker has both."""
    flat = said.registrations
    order = np.lexsort((flat.field("witness"), said.registration_key))
    first = np.concatenate(([True], np.diff(said.registration_key[order]) != 0))[: len(order)]
    order = order[first]
    return position(said.registration_key, order, keys)
