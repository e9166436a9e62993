"""Who belongs to a cluster and must answer, and with which supported ranges.

A profile is one row for all nodes of a cluster that advertise the same map; row `empty` lists
nothing. A node counts if it is registered (fenced too), a voter, expected by the fleet's inventory,
or answered after the registrations were read. Which registrations are believed: the newest of the
metadata log and a DescribeCluster that shows fenced brokers; in ZooKeeper mode `/brokers/ids`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from featurelib.audit.columns import (
    Bool,
    Int,
    any_of,
    broker_key,
    distinct,
    find,
    first_of_equals,
    is_fresh,
    node_key,
    pick,
    split_key,
)
from featurelib.feature import METADATA_VERSION, Role, Witness
from featurelib.snapshot.records import Records, Snapshots

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

    def __init__(self, snapshots: Snapshots) -> None:
        self.clusters = len(snapshots)
        self.listeners = snapshots["listeners"]
        self.registrations = snapshots["registrations"]
        self.members = snapshots["members"]
        self.voters = snapshots["voters"]
        self.log_end = snapshots.scalar("log_end")
        self.log_at = np.where(self.log_end > 0, snapshots.scalar("log_at"), 0)
        self.quorum_at = snapshots.scalar("quorum_at")
        self.quorum_line = snapshots.scalar("quorum_line")
        self.followers = snapshots["observers"]
        self.zookeeper = snapshots.scalar("zookeeper").astype(bool)
        flat = self.listeners
        self.listener_key = node_key(flat.row, flat.field("role"), flat.field("node_id"))
        flat = self.registrations
        self.registration_key = node_key(flat.row, flat.field("role"), flat.field("node_id"))
        listed = snapshots["member"]
        owner = np.repeat(np.arange(len(self.members)), self.members.field("size"))
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
    cluster, role, _ = split_key(keys)
    seen = distinct(np.concatenate((voter_keys(said), _controller_keys(said.followers))))
    asked_at = said.quorum_at[cluster]
    gone = (role == CONTROLLER) & (find(seen, keys) < 0)
    return gone & (asked_at > 0) & (registered_at <= asked_at + ONE_LOOK)


def _controller_keys(ids: Records) -> Int:
    """Node keys of lists of controllers, distinct."""
    controllers = np.full(len(ids), CONTROLLER, dtype=np.int64)
    return distinct(node_key(ids.row, controllers, ids.field("node_id")))


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
    cluster, role, _ = split_key(keys)
    plain = distinct(said.member_key[~said.member_shown])
    left_out = in_log & (role == BROKER) & (find(plain, keys) < 0)
    fenced = np.where(left_out & (said.newest_list(False)[cluster] > entry_at), 1, fenced)
    shown = np.flatnonzero(said.member_shown)
    order = shown[np.argsort(said.member_key[shown], kind="stable")]
    order = order[first_of_equals(said.member_key[order])]
    member = position(said.member_key, order, keys)
    newer = (member >= 0) & (pick(said.member_at, member, 0) >= entry_at)
    return np.where(newer, pick(said.member_fenced, member, -1), fenced)


# The first metadata.version whose software has features with a minimum of 0 (3.9).
ZERO_MINIMUM_FROM = 21
UNREADABLE = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRanges:
    """What each listener said of itself: a profile (-1 nothing), when, in which line."""

    profile: Int
    partial: Bool
    at: Int
    line: Int

    def metadata_max(self, profiles: Profiles) -> Int:
        """The highest metadata.version each listener says, -1 where it says none."""
        return pick(profiles.metadata_max, self.profile, -1)


class Profiles:
    """Profiles of a batch of snapshot rows; entries are flat and in profile order."""

    def __init__(self, rows: Snapshots) -> None:
        profiles, entries = rows["profiles"], rows["ranges"]
        sizes = profiles.field("size")
        self.first: Int = profiles.start  # of each cluster's profiles
        self.count: Int = profiles.lengths
        self.cluster: Int = profiles.row  # of each profile
        self.empty = len(profiles)
        self.entry_profile: Int = np.repeat(np.arange(len(profiles)), sizes)
        self.names = rows.names
        self.entry_feature: Int = entries.field("feature")  # position in names
        self.entry_min: Int = entries.field("min_version")
        self.entry_max: Int = entries.field("max_version")
        self._start = np.cumsum(sizes) - sizes
        is_metadata = self.entry_feature == entries.code("feature", METADATA_VERSION)
        self.metadata_max: Int = np.full(len(profiles) + 1, -1, dtype=np.int64)
        self.metadata_max[self.entry_profile[is_metadata]] = self.entry_max[is_metadata]

    def of_registrations(self, flat: Records) -> Int:
        """The profile of each registration: none listed is `empty`, unreadable is -1."""
        local = flat.field("profile")
        found = np.where(local >= 0, self.first[flat.row] + local, self.empty)
        return np.where(local == UNREADABLE, -1, found)

    def of_listeners(self, flat: Records) -> OwnRanges:
        """What each listener said, from its newest full and its newest partial answer.

        A partial answer newer than a full one confirms it if it differs only in features whose
        minimum is 0; else the software changed, and only the partial answer is left.
        """
        full, partial = flat.field("full"), flat.field("partial")
        full_at, partial_at = flat.field("full_at"), flat.field("partial_at")
        both = (full >= 0) & (partial >= 0) & (partial_at > full_at)
        full = np.where(full >= 0, self.first[flat.row] + full, -1)
        partial = np.where(partial >= 0, self.first[flat.row] + partial, -1)
        confirmed = np.ones(len(full), dtype=bool)
        pairs, of_pair = np.unique(
            np.stack((full[both], partial[both])), axis=1, return_inverse=True
        )
        says = [self._confirms(int(a), int(b)) for a, b in pairs.T]
        confirmed[both] = np.array(says, dtype=bool)[of_pair.ravel()]
        by_partial = ((full < 0) & (partial >= 0)) | ~confirmed
        profile = np.where(by_partial, partial, full)
        may_omit = pick(self.metadata_max, profile, -1) >= ZERO_MINIMUM_FROM
        return OwnRanges(
            profile=profile,
            partial=by_partial & may_omit,
            at=np.where(both & confirmed, partial_at, np.where(by_partial, partial_at, full_at)),
            line=np.where(by_partial, flat.field("partial_line"), flat.field("full_line")),
        )

    def _confirms(self, full: int, partial: int) -> bool:
        return self._ranges(full, least=1) == self._ranges(partial, least=1)

    def _ranges(self, profile: int, least: int) -> list[tuple[int, int, int]]:
        start = self._start[profile]
        stop = self._start[profile + 1] if profile + 1 < len(self._start) else len(self.entry_min)
        rows = zip(
            self.entry_feature[start:stop].tolist(),
            self.entry_min[start:stop].tolist(),
            self.entry_max[start:stop].tolist(),
            strict=True,
        )
        return [row for row in rows if row[1] >= least]


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
    snapshots: Snapshots,
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
    said = Sources(snapshots)
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
        quorum_line=said.quorum_line,
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
    cluster, role, node_id = split_key(keys)
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
    _, role, _ = split_key(keys)
    order = np.argsort(said.listener_key, kind="stable")
    listener = position(said.listener_key, order, keys)
    own = profiles.of_listeners(said.listeners)
    own_partial = own.partial.astype(np.int64)
    newest = own.metadata_max(profiles)
    profile = pick(own.profile, listener, NOBODY)

    # A controller's listener leaves unstable levels out of its range; the broker half of the same
    # process does not. So a controller half is taken at its broker half's word.
    halves = np.flatnonzero((role == CONTROLLER) & (profile >= 0))
    half = position(said.listener_key, order, broker_key(keys[halves]))
    speaks = pick(own.profile, half, NOBODY) >= 0
    stands_in = np.zeros(len(keys), dtype=bool)
    stands_in[halves] = speaks
    speaker = listener.copy()
    speaker[halves[speaks]] = half[speaks]

    # The stable end of a node's range, where its controller half shows one.
    stable = pick(newest, listener, NOBODY)
    stable[role != CONTROLLER] = NOBODY
    shows = order[said.listeners.field("role")[order] == CONTROLLER]
    brokers = find(keys, broker_key(said.listener_key[shows]))
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
