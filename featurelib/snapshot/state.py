"""Define the state of one cluster that is stored between two runs, as MessagePack.

Every field is the greatest value seen, by a fixed order. So folding the same lines in any order,
any number of times, gives the same state. A map (features with ranges or levels) is stored once, in
`ClusterState.maps`; other fields have its position.

A controller's range follows from its release and its configuration at start, not only from its
listener. The listener shows unstable levels if `unstable.api.versions.enable` is on; the controller
uses them if `unstable.feature.versions.enable` is on (SimpleApiVersionManager and QuorumFeatures;
tried on 3.7 to 4.4). A broker's listener shows the true range.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import msgspec

from featurelib.catalogue import load
from featurelib.feature import METADATA_VERSION, Role
from featurelib.landing.responses import IDLE_INTERVAL
from featurelib.landing.samples import letters

Map = tuple[tuple[str, int, int], ...]  # (feature, min, max or level), sorted by feature

NOTHING = -1  # replaces the position of a map: the source has no map
DAMAGED = -2  # replaces the position of a map: the source's map is unreadable
IDLE_WINDOW = 10_000_000  # microseconds: idle records of at most this time are subtracted
IDLE_RECORD_INTERVAL = 500_000  # microseconds: Kafka's default of metadata.max.idle.interval.ms
ONE_READING = 5 * 60 * 1_000_000  # microseconds: lines read within this time may be one reading
ONE_MOMENT = 10_000_000  # microseconds: node lists read within this time must be equal
FASTEST_RESTART = 1_000_000  # microseconds: no node restarts with other software in less time


class Listener(msgspec.Struct, array_like=True, gc=False):
    """The newest data of a node's listener; each group of fields has its own (time, line).

    `full`: ranges in ApiVersions version 4 or later; `partial`: in an earlier version, which omits
    features with minimum version 0.
    """

    node_id: int
    role: int
    full: int = NOTHING
    full_at: int = 0
    full_line: int = 0
    partial: int = NOTHING
    partial_at: int = 0
    partial_line: int = 0
    levels: int = NOTHING
    epoch: int = -1
    levels_at: int = 0
    levels_line: int = 0
    failed_at: int = 0
    failed_line: int = 0
    error: str | None = None
    highest_epoch: int = -1  # the highest epoch that this listener ever reported
    releases: str = ""  # releases with the same supported requests, separated by ;
    releases_at: int = 0
    releases_line: int = 0
    scraped: int = NOTHING  # ranges in metrics, under the feature names of labels
    scraped_levels: int = NOTHING
    scraped_at: int = 0
    scraped_line: int = 0
    # The time of the newest response with other ranges than the stored ones; 0 = no such response.
    full_other_at: int = 0
    partial_other_at: int = 0


class Registration(msgspec.Struct, array_like=True, gc=False):
    """The newest read of the znode `/brokers/ids/N`. `exists`: false = it was absent."""

    node_id: int
    profile: int
    exists: bool
    at: int
    line: int


class WitnessedLevels(msgspec.Struct, array_like=True, gc=False):
    """The newest finalized levels of a kind of source, by (incarnation, epoch, time, line).

    The incarnation is the czxid of `/feature`: a recreated znode starts at version 0.
    """

    kind: int
    incarnation: int
    epoch: int
    at: int
    line: int
    levels: int


class Members(msgspec.Struct, array_like=True, gc=False):
    """A node list from DescribeCluster. The state keeps all lists of about the newest time."""

    role: int
    fenced_shown: bool
    at: int
    line: int
    members: tuple[tuple[int, int], ...]  # (node id, 1 fenced · 0 unfenced · -1 unknown), sorted
    asked_node: int = NOTHING
    end: int = -1  # the broker's log end, if the quorum's was reached; 0 = no; -1 = unknown
    may_lack_brokers: bool = False  # true if requested over another listener than the brokers'


class Quorum(msgspec.Struct, array_like=True, gc=False):
    """The newest DescribeQuorum response, by (leader epoch, time, line)."""

    leader_epoch: int = -1
    at: int = 0
    line: int = 0
    voters: tuple[int, ...] = ()
    observers: tuple[int, ...] = ()
    leader_id: int = -1
    following: tuple[int, ...] = ()  # the voters that fetched from the leader recently
    directories: tuple[tuple[int, str], ...] = ()  # (voter, directory id), where known
    high_watermark: int = -1  # records below this offset are committed


class Leaderless(msgspec.Struct, array_like=True, gc=False):
    """The newest report of a node that the quorum has no leader."""

    role: int
    node_id: int
    at: int
    line: int


class FeaturesNode(msgspec.Struct, array_like=True, gc=False):
    """The newest read of the znode /feature, by (path, czxid, version, time, line)."""

    by_code: bool = False  # true: read at Kafka's path /feature; false: at KIP-584's /features
    incarnation: int = -1
    version: int = -1
    at: int = 0
    line: int = 0
    data: str | None = None
    absent_at: int = 0
    recreated: bool = False  # true: the znode was deleted and created again (more than one czxid)
    incarnations: dict[str, tuple[int, int]] = {}  # path → the lowest and highest czxid
    absent_line: int = 0
    unread_at: int = 0  # the time of a reading whose znode line is damaged


class Event(msgspec.Struct, array_like=True, gc=False):
    """A record of the metadata log about features or nodes, with its offset and landing line.

    `kind` is a name in featurelib.snapshot.log. By `kind`, `number` is a node id, a level or a
    state. `profile` is the position of the node's ranges.
    """

    offset: int
    kind: str
    number: int = 0
    name: str = ""
    profile: int = NOTHING
    fenced: int = -1
    line: int = 0
    at: int = 0


class Segment(msgspec.Struct, array_like=True, gc=False):
    """A part of the metadata log, offsets start to end-1, that is not applied to the image yet."""

    start: int
    end: int
    at: int
    events: list[Event]
    whole: bool  # true: a checkpoint; its events alone give the image at `end`


class LoggedNode(msgspec.Struct, array_like=True, gc=False):
    """The registration of a node at the end of the log image."""

    node_id: int
    role: int
    profile: int
    fenced: int
    line: int
    at: int


class LogImage(msgspec.Struct, array_like=True):
    """The state after all metadata log records below offset `end`."""

    end: int = 0
    at: int = 0
    line: int = 0  # the line of the last applied record in the newest dump that shows the record
    nodes: list[LoggedNode] = []
    levels: dict[str, int] = {}
    kraft_version: int = 0
    migration: int = -1
    open_transaction: list[Event] | None = None
    pending: list[Segment] = []
    line_at: int = 0
    line_offset: int = -1
    # The content of the checkpoint at offset 0, which kafka-storage.sh writes: the level of a
    # dynamic quorum, and from Kafka 4.4 on (KIP-1170) the requested levels.
    kraft_at_start: int = 0
    levels_at_start: dict[str, int] = {}
    # A starting node replays the log from its newest snapshot on. `snapshot_end`, `snapshot_at`:
    # the end of the newest dumped checkpoint and the time of its newest dump; 0 = no dump shows a
    # checkpoint. `replayed`: (offset, feature, level) of the checkpoint and each later record.
    snapshot_end: int = 0
    snapshot_at: int = 0
    replayed: list[tuple[int, str, int]] = []
    last: Event | None = None  # the last record of a log that counts; None after a checkpoint
    whole_at: int = 0  # the time of the last dump that needed no other dump


class Right(msgspec.Struct, array_like=True, gc=False):
    """The permission for a request, by role: when a node last answered it, or when a node last
    refused it."""

    request: str  # the kind of landing line that holds the response
    role: int  # the role of the queried listeners
    answered_at: int = 0
    refused_at: int = 0
    line: int = 0
    node_id: int = -1
    principal: str = ""


class Probe(msgspec.Struct, array_like=True, gc=False):
    """The controller's newest response to an update request that only validates."""

    at: int
    line: int
    answers: tuple[tuple[str, int, int, int, str], ...]  # (feature, from, to, error code, message)


class Configs(msgspec.Struct, array_like=True, gc=False):
    """The newest configuration of a resource, from DescribeConfigs."""

    role: int
    node_id: int  # the node that sent the response
    resource: str
    at: int
    line: int
    values: tuple[tuple[str, str | None, int], ...]  # (key, value, source), sorted by key


class NewestStatement(msgspec.Struct, array_like=True, gc=False):
    """The newest ranges or levels that a source showed. Histories store only differences to it."""

    witness: str
    node_id: int  # the reported node; -1 = no single node
    is_finalized: bool
    feature: str  # the only feature of a tool's line; "" for other sources
    at: int
    line: int
    epoch: int | None
    map: int


class MigrationReady(msgspec.Struct, array_like=True, gc=False):
    """The newest report of a controller whether it is ready for a migration from ZooKeeper."""

    node_id: int
    at: int
    line: int
    ready: bool


class StrimziState(msgspec.Struct, array_like=True, gc=False):
    """The newest content of a cluster's Strimzi resources."""

    at: int = 0
    line: int = 0
    resource: str = ""
    version: str | None = None
    metadata_version: str | None = None
    status_version: str | None = None
    status_metadata_version: str | None = None
    refused: str | None = None
    paused: bool = False
    nodes_complete: bool = False
    nodes: tuple[tuple[int, int, str | None], ...] = ()  # (node id, role, version), sorted


class NotReached(msgspec.Struct, array_like=True, gc=False):
    """The newest collection that reached no node. `alone`: only one node failed, so that a response
    of another node outweighs it."""

    at: int
    line: int
    error: str
    alone: bool = False

    @property
    def after(self) -> int:
        """The time (microseconds) from which a later response outweighs the failed collection."""
        return self.at - ONE_READING * self.alone


class ClusterState(msgspec.Struct, array_like=True):
    """The state of a cluster between runs. New fields come last: stored states stay readable."""

    maps: list[Map] = []
    listeners: list[Listener] = []
    registrations: list[Registration] = []
    witnesses: list[WitnessedLevels] = []
    members: list[Members] = []
    quorum: Quorum = msgspec.field(default_factory=Quorum)
    node: FeaturesNode = msgspec.field(default_factory=FeaturesNode)
    log: LogImage = msgspec.field(default_factory=LogImage)
    read_twice: dict[str, tuple[int, int]] = {}  # znode path → the times of its two newest readings
    # Feature → (time, line number, level, printed level if the catalogue lacks that name).
    tool: dict[str, tuple[int, int, int, str]] = {}
    observed_at: int = 0
    ambiguous_dumps: list[int] = []
    controller: tuple[int, int, int] = (0, 0, -1)  # the znode /controller: (time, line, broker)
    rights: list[Right] = []  # sorted by (request, role, node id)
    probe: Probe | None = None
    configs: list[Configs] = []  # sorted by (role, node id, resource)
    # (time, line) of the newest line that is dated after the judgement, and the number of such
    # lines. No fold reads these lines yet; every fold counts them again.
    waiting: tuple[int, int, int] = (0, 0, 0)
    strimzi: StrimziState | None = None
    not_reached: NotReached | None = None
    migration_ready: list[MigrationReady] = []  # sorted by node id
    leaderless: list[Leaderless] = []  # sorted by (role, node id)
    # The newest list of the children of `/brokers/ids`: (time, line, broker ids).
    children: tuple[int, int, tuple[int, ...]] = (0, 0, ())
    # Offsets of the metadata log that other sources reported: (time, offset), both ascending.
    marks: list[tuple[int, int]] = []
    dumps_with_holes: list[int] = []  # the times of dumps that lack a line, ascending
    # "feature level" → when a node last showed that finalized level. After a downgrade the metadata
    # log may still contain the level.
    levels_seen: dict[str, int] = {}
    statements: list[NewestStatement] = []  # sorted by (witness, node id, is_finalized, feature)
    compared_at: int = 0  # when `collect` last compared a broker's metadata
    # The responses of the newest leader epoch, and the newest table without an epoch.
    quorums: list[Quorum] = []


_DECODER = msgspec.msgpack.Decoder(ClusterState)
_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


def thaw(stored: bytes | None) -> ClusterState:
    """Return the state stored by the last run; None gives an empty state."""
    return ClusterState() if stored is None else _DECODER.decode(stored)


def freeze(state: ClusterState) -> bytes:
    """Return the state as bytes. Equal states give equal bytes."""
    return _ENCODER.encode(state)


_MAPS_OF_LISTENERS = ("full", "partial", "levels", "scraped", "scraped_levels")


def newest_statements(listener: Listener) -> Iterator[NewestStatement]:
    """Yield the newest ranges and levels that a listener reported."""
    source = Role(listener.role).text, listener.node_id
    moment = listener.levels_at, listener.levels_line
    at, line, ranges = max(
        (listener.full_at, listener.full_line, listener.full),
        (listener.partial_at, listener.partial_line, listener.partial),
    )
    if ranges != NOTHING:
        epoch = listener.epoch if (at, line) == moment else None
        yield NewestStatement(*source, False, "", at, line, epoch, ranges)
    if listener.levels != NOTHING:
        yield NewestStatement(*source, True, "", *moment, listener.epoch, listener.levels)


_MAX_LATER_MARKS = 16  # the maximum number of log marks later than the newest dump of the log


def _settle_marks(state: ClusterState) -> None:
    """Drop the (time, log end) pairs that log.expected_end does not need."""
    ascending_marks, highest = list[tuple[int, int]](), -1
    for at, offset in sorted(state.marks):
        if offset > highest:
            ascending_marks.append((at, offset))
            highest = offset
    earlier_marks = [mark for mark in ascending_marks if mark[0] <= state.log.at]
    later_marks = ascending_marks[len(earlier_marks) :]
    marks_of_reading = [mark for mark in later_marks if mark[0] <= state.log.at + ONE_READING]
    needed_mark = max(
        marks_of_reading, key=lambda mark: written_by(mark[0], mark[1], state.log.at), default=None
    )
    needed_marks = {needed_mark, *marks_of_reading[-1:]}  # the last, if no idle records are written
    marks = [mark for mark in later_marks[:-_MAX_LATER_MARKS] if mark in needed_marks]
    state.marks = [*earlier_marks[-1:], *marks, *later_marks[-_MAX_LATER_MARKS:]]


def _settle_lists(state: ClusterState) -> None:
    """Drop node and voter lists that are older than the newest list by ONE_MOMENT."""
    newest = dict[tuple[int, bool], int]()
    for members in state.members:
        key = members.role, members.fenced_shown
        newest[key] = max(newest.get(key, 0), members.at)
    since = {key: at - ONE_MOMENT for key, at in newest.items()}
    state.members = [m for m in state.members if m.at >= since[m.role, m.fenced_shown]]
    epoch, oldest = state.quorum.leader_epoch, state.quorum.at - ONE_MOMENT
    table = _printed(state)
    state.quorums = [
        quorum
        for quorum in state.quorums
        if (quorum.leader_epoch == epoch >= 0 and quorum.at >= oldest) or quorum is table
    ]


def _printed(state: ClusterState) -> Quorum:
    """Return the newest table of a quorum that shows no leader epoch (--replication)."""
    printed = (quorum for quorum in state.quorums if quorum.leader_epoch < 0)
    return max(printed, key=lambda quorum: (quorum.at, quorum.line), default=Quorum())


def later_quorum(state: ClusterState) -> Quorum:
    """Return the table without a leader epoch that is newer than the quorum's response. Its nodes
    exist, but the output of a tool may lack a row."""
    printed = _printed(state)
    return printed if printed.at > state.quorum.at else Quorum()


def writes_idle_records(state: ClusterState) -> bool:
    """Return false if a node's interval of idle records is known and is not Kafka's default."""
    values = (entry for config in state.configs for entry in config.values)
    return {value for key, value, _ in values if key == IDLE_INTERVAL} <= {"500"}


def written_by(at: int, offset: int, time: int, is_idle: bool = True) -> int:
    """Return an offset that was surely written at `time`, if `offset` was read at the later `at`.

    If `is_idle`, only the records that an idle log writes in a few seconds are subtracted, so that
    a dump that ends early on a quiet cluster does not count as complete.
    """
    since = min(max(0, at - time), IDLE_WINDOW) * is_idle
    return offset + -since // IDLE_RECORD_INTERVAL


def settle(state: ClusterState) -> None:
    """Sort and prune the maps of a state, so that equal states have equal bytes."""
    _settle_marks(state)
    _settle_lists(state)
    pending = [event for segment in state.log.pending for event in segment.events]
    holders: list[tuple[object, str]] = [
        *((entry, name) for entry in state.listeners for name in _MAPS_OF_LISTENERS),
        *((entry, "levels") for entry in state.witnesses),
        *((entry, "profile") for entry in state.registrations),
        *((entry, "map") for entry in state.statements),
        *((entry, "profile") for entry in state.log.nodes),
        *((event, "profile") for event in (*pending, *(state.log.open_transaction or ()))),
        *((event, "profile") for event in (state.log.last,) if event is not None),
    ]
    used = {getattr(holder, name) for holder, name in holders}
    order = sorted((i for i in used if i >= 0), key=state.maps.__getitem__)
    if order == list(range(len(state.maps))):
        return
    moved = {old: new for new, old in enumerate(order)}
    for holder, name in holders:
        old = getattr(holder, name)
        setattr(holder, name, moved.get(old, old))
    state.maps = [state.maps[i] for i in order]


UNSTABLE_FEATURES = "unstable.feature.versions.enable"


def supported_by(listener: Listener, ranges: Map, state: ClusterState) -> Map:
    """Return the ranges of a listener's node. These are `ranges`, except for a controller whose
    known release has exactly these ranges with unstable levels.

    A controller with unknown configuration counts as supporting only stable levels.
    """
    if listener.role != Role.CONTROLLER or listener.releases not in _ranges():
        return ranges
    stable, unstable = _ranges()[listener.releases]
    if ranges not in (stable, unstable):
        return ranges
    return unstable if _has_unstable(listener.node_id, state) else stable


def by_metrics(listener: Listener, state: ClusterState) -> tuple[Map, Map]:
    """Return (ranges, levels) in the metrics of a node's process, under Kafka's feature names.

    Labels replace the dots in feature names. The result omits a name that no source and no release
    has. A starting process shows the lowest level of metadata.version until it has read its log
    (MetadataLoaderMetrics), so the lowest level does not count.
    """
    names = _spellings(state)
    ranges, levels = (
        dict[str, tuple[int, int]]()
        if position == NOTHING
        else {
            names[key]: (low, high)
            for name, low, high in state.maps[position]
            if (key := letters(name)) in names
        }
        for position in (listener.scraped, listener.scraped_levels)
    )
    lowest, level = (values.get(METADATA_VERSION, (-1, 0)) for values in (ranges, levels))
    has_read_log = lowest[0] >= 0 and level[0] > lowest[0]
    return _map_of(ranges), _map_of(levels) if has_read_log else ()


def _spellings(state: ClusterState) -> dict[str, str]:
    """Return (feature name without dots) → feature name, for every name with a dot."""
    names = {name for entries in state.maps for name, _, _ in entries}
    return {letters(name): name for name in sorted(names | set(load().features)) if "." in name}


def levels_by_metrics(state: ClusterState) -> tuple[Map, int, int]:
    """Return (levels on which all processes of the newest scrape agree, time, line). Level -1 =
    unknown or different; time 0 = no metrics."""
    by_node = [(node, by_metrics(node, state)[1]) for node in state.listeners]
    telling = [(node.scraped_at, node.scraped_line, levels) for node, levels in by_node if levels]
    at, line, _ = max(telling, default=(0, 0, ()))
    levels = [dict.fromkeys(entries) for time, _, entries in telling if at - time <= ONE_READING]
    agreed = [entry for entry in (levels[0] if levels else ()) if all(entry in of for of in levels)]
    level_of = {name: level for name, level, _ in agreed}
    names = sorted(_spellings(state).values())
    return tuple((name, level_of.get(name, -1), level_of.get(name, -1)) for name in names), at, line


def _has_unstable(node_id: int, state: ClusterState) -> bool:
    """Return true if a controller's configuration enables unstable features."""
    return any(
        (key, value) == (UNSTABLE_FEATURES, "true")
        for entry in state.configs
        if (entry.role, entry.node_id, entry.resource) == (Role.CONTROLLER, node_id, str(node_id))
        for key, value, _ in entry.values
    )


@cache
def _ranges() -> dict[str, tuple[Map, Map]]:
    """Return Kafka release → (ranges of production levels, ranges with unstable levels)."""
    return {
        software.release: (_map_of(software.ranges()), _map_of(software.ranges(unstable=True)))
        for software in load().releases
    }


def _map_of(ranges: dict[str, tuple[int, int]]) -> Map:
    return tuple(sorted((name, low, high) for name, (low, high) in ranges.items()))
