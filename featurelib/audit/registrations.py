"""Find the nodes that belong to a cluster and must respond, with their supported ranges.

A profile is one row for all nodes of a cluster that advertise the same map; row `empty` has no
features. A node counts if it is registered (fenced too), a voter, expected by the inventory, or
responded after the registrations were read. The trusted list of registrations is the newer of the
metadata log and a DescribeCluster that shows fenced brokers; in ZooKeeper mode `/brokers/ids`.
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

Fresh = Callable[[Int], Bool]  # true for times of recent data
LOG, ZOOKEEPER = int(Witness.METADATA_LOG), int(Witness.FEATURES_NODE)
BROKER, CONTROLLER = int(Role.BROKER), int(Role.CONTROLLER)
# The reasons why a node counts as part of its cluster.
REGISTERED, VOTES_OR_ANSWERS, EXPECTED_AND_THERE, EXPECTED_ONLY = range(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The membership facts of clusters: mode, node lists and quorum, one row per cluster."""

    zookeeper: Bool
    kraft: Bool
    registrations_proven: Bool
    brokers_lag: Bool  # by cluster: true if the node that listed the brokers lagged behind
    brokers_listed: Bool  # by cluster: true if the data has a list of registered brokers
    quorum_known: Bool  # by cluster: true with a recent DescribeQuorum response
    quorum_at: Int
    quorum_line: Int
    controllers_known: Bool  # by cluster: true if a source lists the registered controllers
    controllers_lately: Bool  # by cluster: true if a source listed them in the newest reading
    disputed: Int  # positions of nodes about which the lists that count differ

    @property
    def on_zookeeper(self) -> Bool:
        """A mask of clusters in ZooKeeper mode that do not migrate; all others count as KRaft."""
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
        """The time and line of the newest data about each quorum."""
        return self.quorum_at, self.quorum_line


class Sources:
    """The records about nodes in a batch, flat, and the lists of brokers that can be trusted."""

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
        # The time of the newest response about all nodes of a cluster.
        self.read_at = self.quorum_at.copy()
        for part in ("members", "configs", "leaderless"):
            np.maximum.at(self.read_at, snapshots[part].row, snapshots[part].field("at"))
        # Lists of DescribeCluster, and their members.
        self.lists, listed = snapshots["members"], snapshots["member"]
        at, role, shows = (self.lists.field(name) for name in ("at", "role", "fenced_shown"))
        owner = np.repeat(np.arange(len(self.lists)), self.lists.field("size"))
        self.member_at, self.member_shown = at[owner], shows[owner] > 0
        self.member_fenced = listed.field("fenced")
        self.member_key = node_key(self.lists.row[owner], role[owner], listed.field("node_id"))
        # The newest lists of brokers: with fenced brokers, without them, and the metadata log's.
        self.shown_at, self.plain_at = np.zeros((2, self.clusters), dtype=np.int64)
        line, self.plain_line = self.lists.field("line"), self.plain_at * 0
        whole, plain = (np.flatnonzero(of & (role == BROKER)) for of in (shows > 0, shows <= 0))
        self.shown_at[self.lists.row[whole]] = at[whole]
        self.plain_at[self.lists.row[plain]] = at[plain]
        self.plain_line[self.lists.row[plain]], self.member_line = line[plain], line[owner]
        self.has_log, log_at = snapshots.scalar("log_end") > 0, snapshots.scalar("log_at")
        self.log_is_complete = log_at > 0
        self.from_log = log_at >= self.shown_at
        self.authority_at = np.maximum(log_at, self.shown_at)
        stored = self.registrations.field("witness") == ZOOKEEPER
        self.in_zookeeper = self.having(self.registrations, stored)
        self.zookeeper_at, read_at = self.plain_at * 0, self.registrations.field("at")[stored]
        np.maximum.at(self.zookeeper_at, self.registrations.row[stored], read_at)

    def having(self, records: Records, mask: Bool) -> Bool:
        """Return a mask of clusters that have any of the records selected by `mask`."""
        return marked(self.clusters, records.row[mask])

    def registered(self) -> Int:
        """Return the keys of nodes that a trusted registration or list contains."""
        flat, member = self.registrations, self.member_key
        believed = (flat.field("witness") == ZOOKEEPER) | (flat.field("role") == CONTROLLER)
        cluster, role, _ = split_key(member)
        newer = self.plain_at[cluster] > self.authority_at[cluster]
        listed = np.where(self.member_shown, ~self.from_log[cluster], newer) | (role == CONTROLLER)
        # An incomplete log shows some registrations, but may lack others.
        # Clocks differ: a log record from about the time of a list may be newer than the list.
        since = self.shown_at[flat.row] - ONE_MOMENT
        believed |= self.from_log[flat.row] | (flat.field("at") > since)
        return np.concatenate((self.registration_key[believed], member[listed]))

    def others(self, listed: Bool) -> Int:
        """Return the keys of voters, and of listeners that no list of registrations covers.
        `listed`: a mask of clusters with a complete list of brokers."""
        flat, cluster, answered = self.listeners, self.listeners.row, self.answered_at
        listed_at = np.where(flat.field("role") == BROKER, self.authority_at[cluster], 0)
        # A follower of the quorum is a controller of it, also if it responded before the quorum.
        asked_at = self.quorum_at[cluster] - ONE_MOMENT
        asked_at[find(self.follower_key, self.listener_key) >= 0] -= ONE_READING
        listed_at += np.where(flat.field("role") == CONTROLLER, np.maximum(asked_at, 0), 0)
        # A metric names no cluster; a node that fetches the metadata log belongs to this one. No
        # source shows whether an observer is a broker or a controller.
        own = flat.field("scraped") >= 0
        if own.any():
            follow_key = distinct(np.append(self.follower_key, broker_key(self.follower_key)))
            own[own] = find(follow_key, self.listener_key[own]) >= 0
        stranger = (answered == 0) & ~own & (flat.field("role") == BROKER) & listed[cluster]
        answered = np.maximum(answered, np.where(own, flat.field("scraped_at"), 0))
        unlisted = (answered > listed_at) | ((listed_at == 0) & ~stranger)
        unlisted &= (flat.field("role") == CONTROLLER) | ~self.in_zookeeper[cluster]
        return np.concatenate((self.listener_key[unlisted], self.voter_key))

    def seen(self, counted: Int) -> Int:
        """Return the keys of nodes that responded when the registrations and the quorum were read,
        or that fetched the metadata log and are not in `counted`."""
        flat, (cluster, _, _) = self.listeners, split_key(self.follower_key)
        listed_at = np.maximum(self.authority_at, self.quorum_at)
        listed_at = np.maximum(listed_at, self.zookeeper_at)
        answered = self.answered_at
        near = (answered + ONE_READING >= listed_at[flat.row]) & (
            answered >= flat.field("failed_at")
        )
        near &= answered > 0
        follow = self.follower_key[(self.quorum_at + ONE_READING >= self.authority_at)[cluster]]
        follow = follow[find(distinct(broker_key(counted)), broker_key(follow)) < 0]
        return distinct(np.concatenate((self.listener_key[near], follow, broker_key(follow))))

    def follow(self, keys: Int, failed_at: Int) -> Bool:
        """Return a mask of `keys`: voters that fetched from the leader when our request failed."""
        at = find(keys, self.following_key)
        near = self.quorum_at[split_key(keys)[0]] + ONE_READING >= failed_at
        return marked(len(keys), at[at >= 0]) & near

    def live(self, keys: Int, listed_at: Int, failed_at: Int) -> Bool:
        """Return a mask of `keys` that Kafka saw running at `failed_at`: listed or fetching."""
        cluster, role, node_id = split_key(keys)
        listed = (role == BROKER) & (listed_at > 0) & (listed_at + ONE_READING >= failed_at)
        return listed | (self.follow(keys, failed_at) & (node_id != self.leader[cluster]))

    def there(self, listeners: Int, answered_at: Int) -> Bool:
        """Return a mask of brokers' listeners that still run: no failed request since the last
        response, and unfenced in every later list of brokers. `answered_at` is of all listeners.
        The metadata log does not count, because a dump may end before the broker is unfenced."""
        keys, at = self.listener_key[listeners], answered_at[listeners]
        cluster = split_key(keys)[0]
        fenced = distinct(self.member_key[self.member_shown & (self.member_fenced == 1)])
        is_fenced = (find(fenced, keys) >= 0) & (self.shown_at[cluster] >= at)
        list_at = np.maximum(self.shown_at, self.plain_at)[cluster]
        left_out = (list_at >= at) & (self.listed_at(keys) < list_at)
        return ~(is_fenced | left_out | (self.listeners.field("failed_at")[listeners] > at))

    def half_left_out(self, keys: Int, seen_at: Int) -> Bool:
        """Return a mask of nodes last read (`seen_at`) when their process responded in its other
        role, and that a later reading lacks. A time belongs to the nearer reading."""
        position = place(self.listener_key, self.listener_order, other_half(keys))
        answered_at = pick(self.answered_at, position, 0)
        failed_at = pick(self.listeners.field("failed_at"), position, 0)
        is_nearer = np.abs(seen_at - answered_at) < failed_at - seen_at
        return (seen_at > 0) & (answered_at > 0) & (answered_at < failed_at) & is_nearer

    def newest_reading_at(self, keys: Int) -> Int:
        """Return, by cluster, the last time at which the whole cluster, or about half of the nodes
        of a role in `keys`, was queried; microseconds, 0 = never."""
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
        """Return the positions of nodes about which lists disagree, unless a newer list decides."""
        authority_at = np.where(nodes.field("role") == BROKER, self.authority_at[nodes.row], 0)
        return np.flatnonzero(nodes.field("at") >= np.maximum(authority_at, log_at[nodes.row]))

    def listed_at(self, keys: Int) -> Int:
        """Return the time of the last DescribeCluster list with each of `keys`; 0 = none."""
        newest = firsts(self.member_key, -self.member_at)
        return pick(self.member_at, place(self.member_key, newest, keys), 0)

    def gone_controllers(self, keys: Int, registered_at: Int) -> Bool:
        """Return a mask of `keys`: controllers that, after their registration was read, the
        quorum's leader listed neither as voter nor as follower."""
        cluster, role, _ = split_key(keys)
        controllers = np.flatnonzero(role == CONTROLLER)
        asked_at = self.quorum_at[cluster[controllers]]
        lost = (asked_at > 0) & (registered_at[controllers] <= asked_at + ONE_READING)
        for listed in (self.voter_key, self.follower_key):
            lost &= find(listed, keys[controllers]) < 0
        return marked(len(keys), controllers[lost])

    def fenced(self, keys: Int, entry: Int) -> tuple[Int, Int, Int]:
        """Return fenced (1, 0), time and line from the newest source: DescribeCluster with fenced
        brokers, or `entry`, the registration. -1 for not known.

        A list without fenced brokers is a source, too: a broker that was registered when the log
        was dumped, and is not listed later, is fenced, or not registered any more.
        """
        fields = (self.registrations.field(name) for name in ("fenced", "at", "line", "witness"))
        fenced, entry_at, line, witness = (pick(values, entry, -1) for values in fields)
        cluster, role, _ = split_key(keys)
        members = np.flatnonzero(self.member_shown)
        member = place(self.member_key, members[firsts(self.member_key[members])], keys)
        newer = np.flatnonzero((member >= 0) & (pick(self.member_at, member, 0) >= entry_at))
        left_out = (witness == LOG) & (role == BROKER) & (self.plain_at[cluster] > entry_at)
        plain = distinct(self.member_key[~self.member_shown])
        left_out[left_out] = find(plain, keys[left_out]) < 0
        fenced[left_out], entry_at[left_out] = 1, self.plain_at[cluster[left_out]]
        line[left_out] = self.plain_line[cluster[left_out]]
        at = member[newer]
        fenced[newer], entry_at[newer] = self.member_fenced[at], self.member_at[at]
        line[newer] = self.member_line[at]
        return fenced, entry_at, line


def record_keys(records: Records) -> Int:
    """Return the node key of each record."""
    return node_key(records.row, records.field("role"), records.field("node_id"))


def _controller_keys(ids: Records, mask: Bool | slice = slice(None)) -> Int:
    """Return the distinct node keys of the controllers in these records."""
    return distinct(node_key(ids.row, CONTROLLER, ids.field("node_id"))[mask])


@dataclass(frozen=True, slots=True, kw_only=True)
class Subjects:
    """The broker and controller halves that must support a level, one row each; times in
    microseconds.

    `profile` is a row of the batch's profiles, -1 = unknown range. `fenced` is 1, 0, or -1 for
    unknown. `at` and `line`: when and where the range was read.
    """

    key: Int  # the key of each node (featurelib.audit.columns), ascending
    cluster: Int
    role: Int
    node_id: Int
    profile: Int
    partial: Bool  # true if the range map may leave out features whose minimum is 0
    at: Int
    line: Int
    fenced: Int
    fenced_at: Int  # the time and the line that show the broker as fenced
    fenced_line: Int
    answered_at: Int
    failed_at: Int
    failed_line: Int
    answers: Bool  # true if the node responded to the last request
    listener: Int  # position among the batch's listeners, -1 = it was never queried
    registered: Bool
    voter: Bool
    gone: Bool  # true if Kafka does not see it: a fenced broker, a controller that does not follow
    follows: Bool  # true for a voter that fetched from the leader, in the leader's newest response
    live: Bool  # true for a follower, and a broker that Kafka called live in its newest response
    contradicted: Bool  # true if data of one time shows two ranges
    listed_nothing: Bool  # true for a registration in ZooKeeper that lists no features
    answered_with: Int  # the profile of its own response; -1 = no usable response
    expected_only: Bool
    unregistered: Bool  # true if it is expected and responds, and no list of registrations has it
    too_old: Bool  # true if its data is older than max_age, or dated in the future
    not_answering: Bool
    not_asked: Bool
    past: Bool  # true if it is gone, and its range is older than its failed request or this reading
    by_metrics: Bool  # true if its range is from its metrics, because no stronger source is current
    scraped: Int  # the profile of its metrics; -1 if a stronger source is newer
    own_word: Bool  # true for a controller whose range is known only from its own listener
    # The newest stable metadata.version of its controller listener; -1 = unknown.
    stable_metadata: Int

    @property
    def runs(self) -> Bool:
        """A mask of nodes that responded, or were never queried and that Kafka sees running."""
        return self.answers | ((self.failed_at == 0) & ~self.gone)


def read_nodes(
    snapshots: Snapshots,
    profiles: Profiles,
    fresh: Fresh,
    expected: Int,
    vouched: Bool,
    system_off: Bool,
) -> tuple[Subjects, Membership]:
    """Return the nodes that must support a level, and the membership facts of each cluster.

    `fresh` is true for times that are recent enough; `expected`: node keys of the inventory;
    `vouched`: a mask of clusters whose owner declares the registrations complete.
    """
    base = Sources(snapshots)
    quorum_seen, zookeeper = base.quorum_at > 0, snapshots.scalar("zookeeper") > 0
    by_list, log_at = base.lists.field("role") == CONTROLLER, snapshots.scalar("log_at")
    listed = base.log_is_complete | base.having(base.lists, by_list)
    listeners = base.listeners
    # Only KRaft has controllers, and only KRaft brokers have these metrics (KIP-1180).
    of_kraft = (listeners.field("scraped") >= 0) & ~zookeeper[listeners.row]
    of_kraft |= listeners.field("role") == CONTROLLER
    kraft = listed | base.has_log | base.having(listeners, of_kraft)
    kraft |= quorum_seen | marked(base.clusters, snapshots["voters"].row)
    proven = (base.authority_at > 0) & fresh(base.authority_at)
    proven = np.where(zookeeper & ~kraft, base.in_zookeeper, proven)
    brokers_listed = proven | (vouched & (base.plain_at > 0))
    registered, listed_only = base.registered(), base.others(brokers_listed)
    counted = np.concatenate((registered, listed_only))
    present = expected[find(base.seen(counted) if len(expected) else expected, expected) >= 0]
    ways = enumerate((registered, listed_only, present, expected))
    counted = np.sort(np.concatenate([keys << 2 | kind for kind, keys in ways]), kind="stable")
    counted = counted[first_of_equals(counted >> 2)]
    keys, source = counted >> 2, counted & 3
    reading_start = base.newest_reading_at(keys) - ONE_READING
    at, is_outdated = base.lists.field("at"), base.lists.field("fenced_shown") < 0
    is_new = fresh(at) & (at >= reading_start[base.lists.row]) & ~is_outdated
    lately = base.having(base.lists, by_list & is_new)
    lately |= base.log_is_complete & fresh(log_at) & (log_at >= reading_start)
    listed_at = np.where(zookeeper & ~kraft, base.zookeeper_at, base.authority_at)
    # An incomplete log that was dumped after the list may have later registrations.
    is_current = (listed_at >= reading_start) & (-log_at <= base.shown_at + ONE_MOMENT)
    membership = Membership(
        zookeeper=zookeeper,
        kraft=kraft,
        registrations_proven=(proven & is_current) | vouched,
        brokers_lag=base.having(base.lists, is_outdated & ~by_list),
        brokers_listed=brokers_listed,
        quorum_known=quorum_seen & fresh(base.quorum_at) & (base.quorum_at >= reading_start),
        quorum_at=base.quorum_at,
        quorum_line=snapshots.scalar("quorum_line"),
        controllers_known=listed,
        controllers_lately=lately,
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
    """Return the columns of node halves; `keys` ascend, `source`: why each one counts."""
    cluster, role, node_id = split_key(keys)
    listener, answers, answered_at, by_broker_half, stable = _own_responses(base, profiles, keys)
    failed_at = pick(base.listeners.field("failed_at"), listener, 0)
    answered = (answered_at > 0) & (answered_at >= failed_at)
    flat = base.registrations  # ZooKeeper first: a migrating broker is in the log, too
    entry = place(base.registration_key, firsts(base.registration_key, flat.field("witness")), keys)
    entry_at, entry_line = (pick(flat.field(name), entry, 0) for name in ("at", "line"))
    entry_profile = pick(profiles.of_registrations(flat), entry, NOBODY)
    in_zookeeper = pick(flat.field("witness"), entry, LOG) == ZOOKEEPER
    entry_word = Answers(entry_profile, entry_at < 0, entry_at, entry_line)
    off = system_off[cluster]
    word, by_entry, odd = _ranges_of(answers, entry_word, in_zookeeper, off, profiles)
    stands = fresh(word.at) & (answered | by_entry)
    metrics = profiles.of_metrics(base.listeners).of(listener)
    word, alive, by_metrics, scraped = _beside_metrics(word, stands, metrics, failed_at, fresh)
    fenced, fenced_at, fenced_line = base.fenced(keys, entry)
    listed_at = base.listed_at(keys)
    lost = base.gone_controllers(keys, np.maximum(entry_at, listed_at))
    # A controller that responded after the quorum was read, or just before, exists.
    exists = answered & (answered_at + ONE_READING >= base.quorum_at[cluster])
    stale = (fenced == 1) | (lost & (source == REGISTERED) & ~exists)
    past = stale & ~by_entry & (word.profile >= 0) & fresh(word.at)
    past &= ~answered | (word.at < reading_start[cluster])
    asked_at = np.maximum.reduce((answered_at, metrics.at, failed_at))
    left_out = (asked_at > 0) & (np.maximum(asked_at, entry_at) < reading_start[cluster])
    left_out |= base.half_left_out(keys, np.maximum(answered_at, metrics.at))
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
        contradicted=odd,
        listed_nothing=in_zookeeper & (entry_profile == profiles.empty),
        answered_with=np.where(answered & fresh(answered_at) & ~odd, answers.profile, NOBODY),
        expected_only=source == EXPECTED_ONLY,
        unregistered=source == EXPECTED_AND_THERE,
        too_old=(word.at > 0) & ~fresh(word.at),
        not_answering=(failed_at > answered_at) & ~(stale | in_zookeeper | alive),
        not_asked=np.where(answered | alive, left_out, failed_at == 0) & ~(stale | in_zookeeper),
        past=past,
        by_metrics=by_metrics,
        scraped=scraped,
        own_word=(role == CONTROLLER) & ~by_broker_half & ~by_entry & answered & ~by_metrics,
        stable_metadata=stable,
    )


def _ranges_of(
    own: Answers, entry: Answers, stored: Bool, off: Bool, profiles: Profiles
) -> tuple[Answers, Bool, Bool]:
    """Return the range of each node, from its own response or its registration `entry`, and masks
    of ranges from registrations, and of nodes whose data of one time shows two ranges: they have
    none. `stored`: registered in ZooKeeper; `off`: the feature system of the cluster is off."""
    # While the feature system is off, brokers register no features, and answer with old values. So
    # does any broker below inter.broker.protocol.version 2.7.
    unused = entry.profile == profiles.empty
    by_entry = ((entry.at >= own.at) & (entry.profile >= 0)) | stored
    by_entry &= ~(unused & (own.profile >= 0) & off)
    # No node starts with other software within a second: then the narrower registration counts.
    at_once = ~by_entry & (own.at - np.abs(entry.at) < FASTEST_RESTART)
    by_entry |= profiles.lack_levels(entry.profile, np.where(at_once, own.profile, NOBODY))
    mixed = Answers(*(np.where(by_entry, of, value) for of, value in zip(entry, own, strict=True)))
    # A broker with another response than its znode was restarted in between, or is two processes.
    odd = by_entry & stored & profiles.contradict(own, entry.profile)
    odd &= own.at > np.where(unused, entry.at + ONE_READING, entry.at - ONE_MOMENT)
    odd |= ~by_entry & (own.profile == UNREADABLE)
    mixed.profile[odd] = NOBODY
    return mixed, by_entry, odd


def _beside_metrics(
    word: Answers, stands: Bool, metrics: Answers, failed_at: Int, fresh: Fresh
) -> tuple[Answers, Bool, Bool, Int]:
    """Return for each node half: its range, from `word` if `stands` is true, else from `metrics`;
    masks of halves that run according to metrics, and that have their range from metrics; and the
    profile of metrics that are as new as `word` (-1 = none). A process with metrics from the time
    of its failed request runs."""
    present = (metrics.profile >= 0) & fresh(metrics.at) & (metrics.at + ONE_READING >= failed_at)
    stands = stands & (word.profile >= 0)
    taken = present & ~stands
    words = (np.where(taken, metric, other) for metric, other in zip(metrics, word, strict=True))
    scraped = np.where(present & stands & (metrics.at >= word.at), metrics.profile, NOBODY)
    return Answers(*words), present, taken, scraped


class _Own(NamedTuple):
    """The nodes' own responses: listener, range, time, and the half that answered."""

    listener: Int  # position among the batch's listeners, -1 = it was never queried
    word: Answers  # the newest usable response for this broker or controller half
    answered_at: Int  # the time of the response of this half itself
    by_broker_half: Bool  # true if the broker half of the process sent the response in `word`
    stable: Int  # the newest stable metadata.version, known only of controller halves; else -1


def _own_responses(base: Sources, profiles: Profiles, keys: Int) -> _Own:
    """Return the newest response of each node about itself.

    A response of the other half counts only if it is of the same reading, and that half runs. A
    combined node may now have one role and other software."""
    _, role, _ = split_key(keys)
    order = base.listener_order
    listener = place(base.listener_key, order, keys)
    answers = profiles.of_listeners(base.listeners)
    newest = pick(profiles.metadata_max, answers.profile, -1)

    # A controller's listener leaves unstable levels out of its range; the broker half of the same
    # process does not. So a controller half has the range of its broker half.
    controllers = np.flatnonzero(base.listeners.field("role") == CONTROLLER)
    controllers = controllers[answers.profile[controllers] >= 0]
    brokers = place(base.listener_key, order, broker_key(base.listener_key[controllers]))
    joined = pick(answers.profile, brokers, NOBODY) >= 0
    joined &= np.abs(pick(answers.at, brokers, 0) - answers.at[controllers]) <= ONE_MOMENT
    joined[joined] = base.there(brokers[joined], answers.at)
    controllers, brokers = controllers[joined], brokers[joined]

    positions, stable = listener.copy(), pick(newest, listener, NOBODY)
    stable[role != CONTROLLER] = NOBODY
    by_key = find(keys, base.listener_key[controllers])
    halves, said_by = by_key[by_key >= 0], brokers[by_key >= 0]
    same_profile = answers.profile[said_by] == answers.profile[listener[halves]]
    same_profile &= answers.partial[said_by] == answers.partial[listener[halves]]
    positions[halves[~same_profile]] = said_by[~same_profile]
    by_key = find(keys, base.listener_key[brokers])
    stable[by_key[by_key >= 0]] = newest[controllers[by_key >= 0]]
    answered_at = pick(answers.at, listener, 0)
    return _Own(listener, answers.of(positions), answered_at, marked(len(keys), halves), stable)
