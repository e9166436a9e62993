"""Find the nodes that must support a level, with their supported ranges.

A node counts if it is registered (also if fenced), is a voter, is expected by the inventory, or
responded after the registrations were read. The trusted list of registrations is the newer of two:
the metadata log, or a DescribeCluster response with fenced brokers. In ZooKeeper mode it is
`/brokers/ids`. A profile is a range map that several nodes share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from featurelib.audit.columns import (
    broker_key,
    distinct,
    find,
    first_of_equals,
    firsts,
    marked,
    node_key,
    other_half,
    place,
    split_key,
)
from featurelib.audit.profiles import NOBODY, UNREADABLE, Answers, Profiles
from featurelib.feature import Role, Witness
from featurelib.rows import Bool, Int, pick
from featurelib.snapshot.records import Records, Snapshots
from featurelib.snapshot.state import FASTEST_RESTART, ONE_MOMENT, ONE_READING

Fresh = Callable[[Int], Bool]  # times → true for recent times
LOG, ZOOKEEPER = int(Witness.METADATA_LOG), int(Witness.FEATURES_NODE)
BROKER, CONTROLLER = int(Role.BROKER), int(Role.CONTROLLER)
# The reasons why a node counts as a part of its cluster, the strongest first.
REGISTERED, VOTES_OR_ANSWERS, EXPECTED_AND_THERE, EXPECTED_ONLY = range(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The mode, the node lists and the quorum of each cluster, one row per cluster."""

    zookeeper: Bool
    kraft: Bool
    registrations_proven: Bool
    brokers_lag: Bool  # by cluster: true if the broker that sent the node list had old metadata
    brokers_listed: Bool  # by cluster: true if the data has a list of registered brokers
    quorum_known: Bool  # by cluster: true if DescribeQuorum was read recently
    quorum_at: Int
    quorum_line: Int
    controllers_known: Bool  # by cluster: true if a source lists the registered controllers
    controllers_current: Bool  # by cluster: true if the newest reading has a list of controllers
    disputed: Int  # positions of the nodes that only some current lists contain

    @property
    def on_zookeeper(self) -> Bool:
        """The mask of clusters in ZooKeeper mode that do not migrate to KRaft."""
        return self.zookeeper & ~self.kraft

    @property
    def migrating(self) -> Bool:
        """The mask of clusters that migrate from ZooKeeper to KRaft, in which no level changes."""
        return self.zookeeper & self.kraft

    @property
    def mode(self) -> Int:
        """The mode of each cluster, as a position in featurelib.feature.ClusterMode."""
        return self.kraft + 2 * self.zookeeper

    @property
    def quorum_place(self) -> tuple[Int, Int]:
        """The time and the line of each cluster's newest DescribeQuorum response."""
        return self.quorum_at, self.quorum_line


class Sources:
    """The node records of a batch as flat columns, and the trusted lists of brokers."""

    def __init__(self, snapshots: Snapshots) -> None:
        self.clusters = len(snapshots)
        self.listeners, self.registrations = snapshots["listeners"], snapshots["registrations"]
        self.listener_key = record_keys(self.listeners)
        self.listener_order = np.argsort(self.listener_key, kind="stable")
        self.answered_at = np.maximum(*map(self.listeners.field, ("full_at", "partial_at")))
        self.registration_key = record_keys(self.registrations)
        voters = snapshots["voters"]
        self.voter_key = _controller_keys(voters)
        self.following_key = _controller_keys(voters, voters.field("follows") > 0)
        self.leader = snapshots.scalar("controller")
        self.follower_key = _controller_keys(snapshots["observers"])
        self.quorum_at = snapshots.scalar("quorum_at")
        # By cluster: the time of the newest response that is about all of its nodes.
        self.read_at = self.quorum_at.copy()
        for part in ("members", "configs", "leaderless"):
            np.maximum.at(self.read_at, snapshots[part].row, snapshots[part].field("at"))
        # Node lists of DescribeCluster: one row per list, and one row per listed node.
        self.lists, listed = snapshots["members"], snapshots["member"]
        at, role, shows = (self.lists.field(name) for name in ("at", "role", "fenced_shown"))
        owner = np.repeat(np.arange(len(self.lists)), self.lists.field("size"))
        self.member_at, self.member_shown = at[owner], shows[owner] > 0
        self.member_fenced = listed.field("fenced")
        self.member_key = node_key(self.lists.row[owner], role[owner], listed.field("node_id"))
        # The newest list of brokers, by cluster: with fenced brokers, without them, in the metadata
        # log.
        self.shown_at, self.plain_at = np.zeros((2, self.clusters), dtype=np.int64)
        line, self.plain_line = self.lists.field("line"), self.plain_at * 0
        whole, plain = (np.flatnonzero(mask & (role == BROKER)) for mask in (shows > 0, shows <= 0))
        self.shown_at[self.lists.row[whole]] = at[whole]
        self.plain_at[self.lists.row[plain]] = at[plain]
        self.plain_line[self.lists.row[plain]], self.member_line = line[plain], line[owner]
        self.has_log, self.log_at = snapshots.scalar("log_end") > 0, snapshots.scalar("log_at")
        self.log_is_complete = self.log_at > 0
        self.from_log = self.log_at >= self.shown_at
        self.authority_at = np.maximum(self.log_at, self.shown_at)
        stored = self.registrations.field("witness") == ZOOKEEPER
        self.in_zookeeper = self.having(self.registrations, stored)
        self.zookeeper_at, read_at = self.plain_at * 0, self.registrations.field("at")[stored]
        np.maximum.at(self.zookeeper_at, self.registrations.row[stored], read_at)

    def having(self, records: Records, mask: Bool) -> Bool:
        """Return a mask of the clusters with at least one record in `mask`."""
        return marked(self.clusters, records.row[mask])

    def registered(self) -> Int:
        """Return the keys of nodes that a trusted registration or node list contains."""
        flat, member = self.registrations, self.member_key
        trusted = (flat.field("witness") == ZOOKEEPER) | (flat.field("role") == CONTROLLER)
        cluster, role, _ = split_key(member)
        newer = self.plain_at[cluster] > self.authority_at[cluster]
        # A broker that the log lacks counts if a list of the same reading has it.
        is_shown = ~self.from_log | (self.log_at <= self.shown_at + ONE_READING)
        listed = np.where(self.member_shown, is_shown[cluster], newer) | (role == CONTROLLER)
        # An incomplete log shows some registrations and lacks others.
        # Clocks differ: a log record with about the time of a list may be newer than the list.
        since = self.shown_at[flat.row] - ONE_MOMENT
        trusted |= self.from_log[flat.row] | (flat.field("at") > since)
        return np.concatenate((self.registration_key[trusted], member[listed]))

    def others(self, has_list: Bool) -> Int:
        """Return the keys of voters, and of listeners without a complete node list. `has_list`:
        clusters with a complete list of brokers."""
        flat, cluster, answered = self.listeners, self.listeners.row, self.answered_at
        listed_at = np.where(flat.field("role") == BROKER, self.authority_at[cluster], 0)
        # A follower of the quorum is a controller, also if it responded before the quorum was read.
        asked_at = self.quorum_at[cluster] - ONE_MOMENT
        asked_at[find(self.follower_key, self.listener_key) >= 0] -= ONE_READING
        listed_at += np.where(flat.field("role") == CONTROLLER, np.maximum(asked_at, 0), 0)
        # Metrics do not show their cluster, but a node that fetches the metadata log belongs to
        # this cluster. No source shows whether an observer is a broker or a controller.
        own = flat.field("scraped") >= 0
        if own.any():
            follow_key = distinct(np.append(self.follower_key, broker_key(self.follower_key)))
            own[own] = find(follow_key, self.listener_key[own]) >= 0
        is_stranger = (answered == 0) & ~own & (flat.field("role") == BROKER) & has_list[cluster]
        answered = np.maximum(answered, np.where(own, flat.field("scraped_at"), 0))
        is_unlisted = (answered > listed_at) | ((listed_at == 0) & ~is_stranger)
        is_unlisted &= (flat.field("role") == CONTROLLER) | ~self.in_zookeeper[cluster]
        return np.concatenate((self.listener_key[is_unlisted], self.voter_key))

    def seen(self, counted: Int) -> Int:
        """Return the keys of nodes that responded at the time of the registrations and the quorum,
        and of nodes outside `counted` that fetched the metadata log."""
        flat, (cluster, _, _) = self.listeners, split_key(self.follower_key)
        listed_at = np.maximum(self.authority_at, self.quorum_at)
        listed_at = np.maximum(listed_at, self.zookeeper_at)
        answered = self.answered_at
        is_recent = (answered + ONE_READING >= listed_at[flat.row]) & (
            answered >= flat.field("failed_at")
        )
        is_recent &= answered > 0
        follow = self.follower_key[(self.quorum_at + ONE_READING >= self.authority_at)[cluster]]
        follow = follow[find(distinct(broker_key(counted)), broker_key(follow)) < 0]
        return distinct(np.concatenate((self.listener_key[is_recent], follow, broker_key(follow))))

    def follow(self, keys: Int, failed_at: Int) -> Bool:
        """Return a mask of `keys`: voters that fetched from the leader when our request failed."""
        at = find(keys, self.following_key)
        is_recent = self.quorum_at[split_key(keys)[0]] + ONE_READING >= failed_at
        return marked(len(keys), at[at >= 0]) & is_recent

    def live(self, keys: Int, listed_at: Int, failed_at: Int) -> Bool:
        """Return a mask of `keys`: nodes that Kafka listed, or that fetched the metadata log, at
        the time `failed_at`."""
        cluster, role, node_id = split_key(keys)
        listed = (role == BROKER) & (listed_at > 0) & (listed_at + ONE_READING >= failed_at)
        return listed | (self.follow(keys, failed_at) & (node_id != self.leader[cluster]))

    def there(self, listeners: Int, answered_at: Int) -> Bool:
        """Return a mask of brokers' listeners that still run: after the response no request failed,
        and each later node list has the broker unfenced."""
        keys, at = self.listener_key[listeners], answered_at[listeners]
        cluster = split_key(keys)[0]
        fenced = distinct(self.member_key[self.member_shown & (self.member_fenced == 1)])
        is_fenced = (find(fenced, keys) >= 0) & (self.shown_at[cluster] >= at)
        list_at = np.maximum(self.shown_at, self.plain_at)[cluster]
        is_missing = (list_at >= at) & (self.listed_at(keys) < list_at)
        return ~(is_fenced | is_missing | (self.listeners.field("failed_at")[listeners] > at))

    def lacks_later_reading(self, keys: Int, seen_at: Int) -> Bool:
        """Return a mask of nodes that a later collection lacks. At the time `seen_at` of the node's
        last data, the other role of its process also responded."""
        position = place(self.listener_key, self.listener_order, other_half(keys))
        answered_at = pick(self.answered_at, position, 0)
        failed_at = pick(self.listeners.field("failed_at"), position, 0)
        is_nearer = np.abs(seen_at - answered_at) < failed_at - seen_at
        return (seen_at > 0) & (answered_at > 0) & (answered_at < failed_at) & is_nearer

    def newest_reading_at(self, keys: Int) -> Int:
        """Return per cluster the time of the last collection that queried the whole cluster, or
        about half of the nodes of one role in `keys`; microseconds, 0 = never."""
        read_at, newest = self.read_at.copy(), self.read_at.copy()
        oldest = np.minimum(self.quorum_at, self.shown_at)
        times = np.maximum(self.answered_at, self.listeners.field("failed_at"))
        asked_at = pick(times, place(self.listener_key, self.listener_order, keys), 0)
        cluster, role, _ = split_key(keys)
        has_time = asked_at > 0
        np.maximum.at(newest, cluster, asked_at)
        np.minimum.at(oldest, cluster[has_time], asked_at[has_time])
        at = np.flatnonzero(has_time & (oldest + ONE_READING < newest)[cluster])
        at = at[np.lexsort((-asked_at[at], role[at], cluster[at]))]
        start = np.flatnonzero(first_of_equals(node_key(cluster[at], role[at], at * 0)))
        middle = at[start + np.maximum(np.diff(np.append(start, len(at))) // 2, 1) - 1]
        np.maximum.at(read_at, cluster[middle], asked_at[middle])
        return read_at

    def disputed(self, nodes: Records, log_at: Int) -> Int:
        """Return positions of nodes that some node lists lack, unless a newer list decides."""
        authority_at = np.where(nodes.field("role") == BROKER, self.authority_at[nodes.row], 0)
        return np.flatnonzero(nodes.field("at") >= np.maximum(authority_at, log_at[nodes.row]))

    def listed_at(self, keys: Int) -> Int:
        """Return the time of the newest DescribeCluster response that lists each node; 0 = none."""
        newest = firsts(self.member_key, -self.member_at)
        return pick(self.member_at, place(self.member_key, newest, keys), 0)

    def gone_controllers(self, keys: Int, registered_at: Int) -> Bool:
        """Return a mask of `keys`: registered controllers that a later DescribeQuorum response
        lists neither as voter nor as observer."""
        cluster, role, _ = split_key(keys)
        controllers = np.flatnonzero(role == CONTROLLER)
        asked_at = self.quorum_at[cluster[controllers]]
        is_missing = (asked_at > 0) & (registered_at[controllers] <= asked_at + ONE_READING)
        for quorum_keys in (self.voter_key, self.follower_key):
            is_missing &= find(quorum_keys, keys[controllers]) < 0
        return marked(len(keys), controllers[is_missing])

    def fenced(self, keys: Int, entry: Int) -> tuple[Int, Int, Int]:
        """Return (fenced, time, line) of nodes from the newest source. Fenced: 1, 0 or -1
        (unknown).

        Sources: DescribeCluster, and the registration `entry`. If the metadata log has a broker and
        a later list without fenced brokers lacks it, the broker is fenced or unregistered."""
        fields = (self.registrations.field(name) for name in ("fenced", "at", "line", "witness"))
        fenced, entry_at, line, witness = (pick(values, entry, -1) for values in fields)
        cluster, role, _ = split_key(keys)
        members = np.flatnonzero(self.member_shown)
        member = place(self.member_key, members[firsts(self.member_key[members])], keys)
        newer_rows = np.flatnonzero((member >= 0) & (pick(self.member_at, member, 0) >= entry_at))
        is_missing = (witness == LOG) & (role == BROKER) & (self.plain_at[cluster] > entry_at)
        unfenced = distinct(self.member_key[~self.member_shown])
        is_missing[is_missing] = find(unfenced, keys[is_missing]) < 0
        fenced[is_missing], entry_at[is_missing] = 1, self.plain_at[cluster[is_missing]]
        line[is_missing] = self.plain_line[cluster[is_missing]]
        at = member[newer_rows]
        fenced[newer_rows], entry_at[newer_rows] = self.member_fenced[at], self.member_at[at]
        line[newer_rows] = self.member_line[at]
        return fenced, entry_at, line


def record_keys(records: Records) -> Int:
    """Return one node key per record."""
    return node_key(records.row, records.field("role"), records.field("node_id"))


def _controller_keys(ids: Records, mask: Bool | slice = slice(None)) -> Int:
    """Return the distinct node keys of the controllers in `ids`."""
    return distinct(node_key(ids.row, CONTROLLER, ids.field("node_id"))[mask])


@dataclass(frozen=True, slots=True, kw_only=True)
class Subjects:
    """The brokers and controllers that must support a level: one row per node and role.

    `profile`: the node's range map, -1 = unknown. `fenced`: 1, 0, or -1 = unknown. `at`, `line`:
    the source of the range; times in microseconds."""

    key: Int  # the key of each node (featurelib.audit.columns), ascending
    cluster: Int
    role: Int
    node_id: Int
    profile: Int
    partial: Bool  # true if the range map may omit features with minimum version 0
    at: Int
    line: Int
    fenced: Int
    fenced_at: Int  # the time and line that show the broker as fenced
    fenced_line: Int
    answered_at: Int
    failed_at: Int
    failed_line: Int
    answers: Bool  # true if the node responded to the newest request
    listener: Int  # the position among the batch's listeners; -1 = never queried
    registered: Bool
    voter: Bool
    gone: Bool  # true if Kafka sees a broker as fenced, or a controller as not following
    follows: Bool  # true for a voter that fetched from the leader, by the newest DescribeQuorum
    live: Bool  # true for a follower, and for a broker that the newest response calls alive
    contradicted: Bool  # true if data of one time shows two ranges for the node
    listed_nothing: Bool  # true for a registration in ZooKeeper without features
    answered_with: Int  # the profile in the node's own response; -1 = no usable response
    expected_only: Bool
    unregistered: Bool  # true if the node is expected and responds, but no list has it
    too_old: Bool  # true if the node's data is older than max_age, or dated in the future
    not_answering: Bool
    not_asked: Bool
    past: Bool  # true if `gone`, and the range is older than the failed request or this reading
    by_metrics: Bool  # true if the range is from metrics, because no stronger source is current
    scraped: Int  # the profile in the node's metrics; -1 if a stronger source is newer
    own_word: Bool  # true for a controller whose range is known only from its own listener
    # The newest stable metadata.version in the controller's listener; -1 = unknown.
    stable_metadata: Int

    @property
    def runs(self) -> Bool:
        """The mask of running nodes: they responded, or Kafka sees them and nobody queried them."""
        return self.answers | ((self.failed_at == 0) & ~self.gone)


def read_nodes(
    snapshots: Snapshots,
    profiles: Profiles,
    fresh: Fresh,
    expected: Int,
    vouched: Bool,
    system_off: Bool,
) -> tuple[Subjects, Membership]:
    """Return (nodes that must support a level, membership facts of each cluster).

    `fresh`: returns true for recent times. `expected`: node keys in the inventory. `vouched`: a
    mask of clusters whose owner declares the registrations complete."""
    base = Sources(snapshots)
    quorum_seen, zookeeper = base.quorum_at > 0, snapshots.scalar("zookeeper") > 0
    by_list, log_at = base.lists.field("role") == CONTROLLER, snapshots.scalar("log_at")
    has_list = base.log_is_complete | base.having(base.lists, by_list)
    listeners = base.listeners
    # Only KRaft has controllers, and only KRaft brokers have these metrics (KIP-1180).
    only_kraft = (listeners.field("scraped") >= 0) & ~zookeeper[listeners.row]
    only_kraft |= listeners.field("role") == CONTROLLER
    kraft = has_list | base.has_log | base.having(listeners, only_kraft)
    kraft |= quorum_seen | marked(base.clusters, snapshots["voters"].row)
    is_proven = (base.authority_at > 0) & fresh(base.authority_at)
    is_proven = np.where(zookeeper & ~kraft, base.in_zookeeper, is_proven)
    brokers_listed = is_proven | (vouched & (base.plain_at > 0))
    registered, listed_only = base.registered(), base.others(brokers_listed)
    counted_keys = np.concatenate((registered, listed_only))
    present = expected[find(base.seen(counted_keys) if len(expected) else expected, expected) >= 0]
    ways = enumerate((registered, listed_only, present, expected))
    counted_keys = np.sort(np.concatenate([keys << 2 | kind for kind, keys in ways]), kind="stable")
    counted_keys = counted_keys[first_of_equals(counted_keys >> 2)]
    keys, source = counted_keys >> 2, counted_keys & 3
    reading_start = base.newest_reading_at(keys) - ONE_READING
    at, is_outdated = base.lists.field("at"), base.lists.field("fenced_shown") < 0
    is_new = fresh(at) & (at >= reading_start[base.lists.row]) & ~is_outdated
    is_recent = base.having(base.lists, by_list & is_new)
    is_recent |= base.log_is_complete & fresh(log_at) & (log_at >= reading_start)
    listed_at = np.where(zookeeper & ~kraft, base.zookeeper_at, base.authority_at)
    # An incomplete log that was dumped after the list may have later registrations.
    is_current = (listed_at >= reading_start) & (-log_at <= base.shown_at + ONE_MOMENT)
    membership = Membership(
        zookeeper=zookeeper,
        kraft=kraft,
        registrations_proven=(is_proven & is_current) | vouched,
        brokers_lag=base.having(base.lists, is_outdated & ~by_list),
        brokers_listed=brokers_listed,
        quorum_known=quorum_seen & fresh(base.quorum_at) & (base.quorum_at >= reading_start),
        quorum_at=base.quorum_at,
        quorum_line=snapshots.scalar("quorum_line"),
        controllers_known=has_list,
        controllers_current=is_recent,
        disputed=base.disputed(snapshots["disputed"], log_at),
    )
    return _describe(base, profiles, keys, source, system_off, fresh, reading_start), membership


def _describe(
    base: Sources,
    profiles: Profiles,
    keys: Int,
    source: Int,
    system_off: Bool,
    fresh: Fresh,
    reading_start: Int,
) -> Subjects:
    """Return the columns of the nodes in `keys`, one row each. `source`: why a node counts."""
    cluster, role, node_id = split_key(keys)
    listener, answers, answered_at, by_broker_half, stable = _own_responses(base, profiles, keys)
    failed_at = pick(base.listeners.field("failed_at"), listener, 0)
    answered = (answered_at > 0) & (answered_at >= failed_at)
    flat = base.registrations  # ZooKeeper first: the log, too, has migrating brokers
    entry = place(base.registration_key, firsts(base.registration_key, flat.field("witness")), keys)
    entry_at, entry_line = (pick(flat.field(name), entry, 0) for name in ("at", "line"))
    entry_profile = pick(profiles.of_registrations(flat), entry, NOBODY)
    in_zookeeper = pick(flat.field("witness"), entry, LOG) == ZOOKEEPER
    entry_word = Answers(entry_profile, entry_at < 0, entry_at, entry_line)
    is_off = system_off[cluster]
    word, by_entry, is_odd = _ranges_of(answers, entry_word, in_zookeeper, is_off, profiles)
    is_valid = fresh(word.at) & (answered | by_entry)
    metrics = profiles.of_metrics(base.listeners).of(listener)
    word, alive, by_metrics, scraped = _with_metrics(word, is_valid, metrics, failed_at, fresh)
    fenced, fenced_at, fenced_line = base.fenced(keys, entry)
    listed_at = base.listed_at(keys)
    is_missing = base.gone_controllers(keys, np.maximum(entry_at, listed_at))
    # A controller that responded after DescribeQuorum, or just before, still exists.
    exists = answered & (answered_at + ONE_READING >= base.quorum_at[cluster])
    stale = (fenced == 1) | (is_missing & (source == REGISTERED) & ~exists)
    is_past = stale & ~by_entry & (word.profile >= 0) & fresh(word.at)
    is_past &= ~answered | (word.at < reading_start[cluster])
    asked_at = np.maximum.reduce((answered_at, metrics.at, failed_at))
    not_queried = (asked_at > 0) & (np.maximum(asked_at, entry_at) < reading_start[cluster])
    not_queried |= base.lacks_later_reading(keys, np.maximum(answered_at, metrics.at))
    return Subjects(
        key=keys,
        cluster=cluster,
        role=role,
        node_id=node_id,
        **word._asdict(),
        fenced=fenced,
        fenced_at=fenced_at,
        fenced_line=fenced_line,
        answered_at=answered_at,
        failed_at=failed_at,
        failed_line=pick(base.listeners.field("failed_line"), listener, 0),
        answers=answered | alive,
        listener=listener,
        registered=source == REGISTERED,
        # The search finds every key, because each voter counts as a node.
        voter=marked(len(keys), find(keys, base.voter_key)),
        gone=stale,
        follows=base.follow(keys, failed_at),
        live=base.live(keys, listed_at, failed_at) & ~stale,
        contradicted=is_odd,
        listed_nothing=in_zookeeper & (entry_profile == profiles.empty),
        answered_with=np.where(answered & fresh(answered_at) & ~is_odd, answers.profile, NOBODY),
        expected_only=source == EXPECTED_ONLY,
        unregistered=source == EXPECTED_AND_THERE,
        too_old=(word.at > 0) & ~fresh(word.at),
        not_answering=(failed_at > answered_at) & ~(stale | in_zookeeper | alive),
        not_asked=np.where(answered | alive, not_queried, failed_at == 0) & ~(stale | in_zookeeper),
        past=is_past,
        by_metrics=by_metrics,
        scraped=scraped,
        own_word=(role == CONTROLLER) & ~by_broker_half & ~by_entry & answered & ~by_metrics,
        stable_metadata=stable,
    )


def _ranges_of(
    own: Answers, entry: Answers, stored: Bool, off: Bool, profiles: Profiles
) -> tuple[Answers, Bool, Bool]:
    """Return (range of each node, mask of ranges from registrations, mask of contradictory ranges).
    `own`: responses; `entry`: registrations; `stored`: registered in ZooKeeper; `off`: the feature
    system is off. A contradictory range counts as unknown."""
    # Brokers register no features, and respond with old values, while the feature system is off or
    # if their inter.broker.protocol.version is below 2.7.
    is_empty = entry.profile == profiles.empty
    by_entry = ((entry.at >= own.at) & (entry.profile >= 0)) | stored
    by_entry &= ~(is_empty & (own.profile >= 0) & off)
    # No node starts with other software within a second, so the narrower registration counts.
    is_same_start = ~by_entry & (own.at - np.abs(entry.at) < FASTEST_RESTART)
    by_entry |= profiles.lack_levels(entry.profile, np.where(is_same_start, own.profile, NOBODY))
    ranges = Answers(*(np.where(by_entry, of, value) for of, value in zip(entry, own, strict=True)))
    # If a broker's response differs from its znode, it restarted in between, or two processes run.
    is_odd = by_entry & stored & profiles.contradict(own, entry.profile)
    is_odd &= own.at > np.where(is_empty, entry.at + ONE_READING, entry.at - ONE_MOMENT)
    is_odd |= ~by_entry & (own.profile == UNREADABLE)
    ranges.profile[is_odd] = NOBODY
    return ranges, by_entry, is_odd


def _with_metrics(
    word: Answers, stands: Bool, metrics: Answers, failed_at: Int, fresh: Fresh
) -> tuple[Answers, Bool, Bool, Int]:
    """Return per node (range from `word` if `stands`, else from `metrics`; mask of nodes that run
    by their metrics; mask of ranges from metrics; profile of recent metrics, -1 = none). Metrics
    later than a failed request prove a running process."""
    present = (metrics.profile >= 0) & fresh(metrics.at) & (metrics.at + ONE_READING >= failed_at)
    stands = stands & (word.profile >= 0)
    is_used = present & ~stands
    words = (np.where(is_used, metric, other) for metric, other in zip(metrics, word, strict=True))
    scraped = np.where(present & stands & (metrics.at >= word.at), metrics.profile, NOBODY)
    return Answers(*words), present, is_used, scraped


class _Own(NamedTuple):
    """The nodes' responses about themselves: listener, range, time, and responding role."""

    listener: Int  # the position among the batch's listeners; -1 = never queried
    word: Answers  # the newest usable response about this node and role
    answered_at: Int  # the time of the response of this role itself
    by_broker_half: Bool  # true if the broker role of the process sent the response in `word`
    stable: Int  # the newest stable metadata.version, known only of controllers; else -1


def _own_responses(base: Sources, profiles: Profiles, keys: Int) -> _Own:
    """Return the newest response of each node about itself. The response of the node's other role
    is used only if it is from the same collection and that role still runs."""
    _, role, _ = split_key(keys)
    key_order = base.listener_order
    listener = place(base.listener_key, key_order, keys)
    answers = profiles.of_listeners(base.listeners)
    newest = pick(profiles.metadata_max, answers.profile, -1)

    # A controller's listener omits unstable levels; the broker role of the same process does not.
    # So a combined node's controller role gets the range of its broker role.
    controllers = np.flatnonzero(base.listeners.field("role") == CONTROLLER)
    controllers = controllers[answers.profile[controllers] >= 0]
    brokers = place(base.listener_key, key_order, broker_key(base.listener_key[controllers]))
    is_combined = pick(answers.profile, brokers, NOBODY) >= 0
    is_combined &= np.abs(pick(answers.at, brokers, 0) - answers.at[controllers]) <= ONE_MOMENT
    is_combined[is_combined] = base.there(brokers[is_combined], answers.at)
    controllers, brokers = controllers[is_combined], brokers[is_combined]

    positions, stable = listener.copy(), pick(newest, listener, NOBODY)
    stable[role != CONTROLLER] = NOBODY
    by_key = find(keys, base.listener_key[controllers])
    rows_hit, broker_rows = by_key[by_key >= 0], brokers[by_key >= 0]
    same_profile = answers.profile[broker_rows] == answers.profile[listener[rows_hit]]
    same_profile &= answers.partial[broker_rows] == answers.partial[listener[rows_hit]]
    positions[rows_hit[~same_profile]] = broker_rows[~same_profile]
    by_key = find(keys, base.listener_key[brokers])
    stable[by_key[by_key >= 0]] = newest[controllers[by_key >= 0]]
    answered_at = pick(answers.at, listener, 0)
    return _Own(listener, answers.of(positions), answered_at, marked(len(keys), rows_hit), stable)
