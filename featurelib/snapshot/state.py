"""Define the state of one cluster that is kept between two runs.

Every field is the greatest value seen, by a fixed order. So folding the same lines in any order,
any number of times, gives the same state. Maps are kept once and referred to by position. The state
is stored as MessagePack; the core never reads it.

The range of a controller follows from its release and its configuration at the start, not from its
listener alone. The listener shows unstable levels if `unstable.api.versions.enable` is on. The
controller uses them if `unstable.feature.versions.enable` is on (SimpleApiVersionManager and
QuorumFeatures; tried on 3.7 to 4.4). A broker's listener shows the true range.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import msgspec

from featurelib.catalogue import load
from featurelib.feature import METADATA_VERSION, Role
from featurelib.landing.samples import letters

Map = tuple[tuple[str, int, int], ...]  # (feature, min, max or level), sorted by feature

NOTHING = -1  # the position of no map
DAMAGED = -2  # the position of an unreadable map
IDLE_WINDOW = 10_000_000  # microseconds
IDLE_RECORD_INTERVAL = 500_000  # microseconds: Kafka's default of metadata.max.idle.interval.ms
ONE_READING = 5 * 60 * 1_000_000  # microseconds: lines read within this time may be of one reading
ONE_MOMENT = 10_000_000  # microseconds: lists of nodes read within this time must be equal
FASTEST_RESTART = 1_000_000  # microseconds: no node starts with other software in less time


class Listener(msgspec.Struct, array_like=True, gc=False):
    """A listener of one node. Each group of fields keeps its newest value, by (time, line)."""

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
    releases: str = ""  # releases that offer the same requests, separated by ;
    releases_at: int = 0
    releases_line: int = 0
    scraped: int = NOTHING  # metrics of its process, with feature names as in labels; by (at, line)
    scraped_levels: int = NOTHING
    scraped_at: int = 0
    scraped_line: int = 0
    # When the newest response with other ranges than the kept one came; 0 = never.
    full_other_at: int = 0
    partial_other_at: int = 0


class Registration(msgspec.Struct, array_like=True, gc=False):
    """The znode `/brokers/ids/N`, newest by (time, line). `exists` False = read and absent."""

    node_id: int
    profile: int
    exists: bool
    at: int
    line: int


class WitnessedLevels(msgspec.Struct, array_like=True, gc=False):
    """The finalized levels by one kind of source, the newest by (incarnation, epoch, time, line).

    The incarnation is the czxid of `/feature`: a znode that is created again counts from 0.
    """

    kind: int
    incarnation: int
    epoch: int
    at: int
    line: int
    levels: int


class Members(msgspec.Struct, array_like=True, gc=False):
    """A node list of DescribeCluster, per role and whether fenced brokers are shown: of each
    queried node all different lists of about the newest time, each the newest by (time, line)."""

    role: int
    fenced_shown: bool
    at: int
    line: int
    members: tuple[tuple[int, int], ...]  # (node, 1 fenced · 0 unfenced · -1 unknown), sorted
    asked_node: int = NOTHING
    end: int = -1  # of its copy of the log, if that reached the quorum's; 0 = no; -1 = unknown
    may_lack_brokers: bool = False  # true if requested over another listener than theirs


class Quorum(msgspec.Struct, array_like=True, gc=False):
    """The quorum in DescribeQuorum, the newest by (leader epoch, time, line)."""

    leader_epoch: int = -1
    at: int = 0
    line: int = 0
    voters: tuple[int, ...] = ()
    observers: tuple[int, ...] = ()
    leader_id: int = -1
    following: tuple[int, ...] = ()  # the voters that recently fetched from the leader
    directories: tuple[tuple[int, str], ...] = ()  # (voter, its directory id), if known
    high_watermark: int = -1  # records below it are committed


class Leaderless(msgspec.Struct, array_like=True, gc=False):
    """A node that found no leader of the quorum, the newest by (time, line)."""

    role: int
    node_id: int
    at: int
    line: int


class FeaturesNode(msgspec.Struct, array_like=True, gc=False):
    """The znode /feature, newest by (path, czxid, version, time, line); absence by time alone."""

    by_code: bool = False  # true: read at Kafka's path /feature; false: at the KIP's /features
    incarnation: int = -1
    version: int = -1
    at: int = 0
    line: int = 0
    data: str | None = None
    absent_at: int = 0
    recreated: bool = False  # true: the path was deleted and created again (more than one czxid)
    incarnations: dict[str, tuple[int, int]] = {}  # path → the lowest and highest czxid
    absent_line: int = 0
    unread_at: int = 0  # the time of a read whose line is damaged


class Event(msgspec.Struct, array_like=True, gc=False):
    """A record of the metadata log about features or nodes, with its offset and line.

    `kind` is one of the names in featurelib.snapshot.log; `number` a node id, a level or a
    state, by kind; `profile` names a map.
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
    """A piece of the metadata log, offsets start to end-1, that no image contains yet."""

    start: int
    end: int
    at: int
    events: list[Event]
    whole: bool  # a checkpoint: its events alone give the image at `end`


class LoggedNode(msgspec.Struct, array_like=True, gc=False):
    """A node's registration in the metadata log, as of the end of the image."""

    node_id: int
    role: int
    profile: int
    fenced: int
    line: int
    at: int


class LogImage(msgspec.Struct, array_like=True):
    """The state that results from all metadata log records below offset `end`."""

    end: int = 0
    at: int = 0
    line: int = 0  # the line of the last applied record, in the newest dump that shows it
    nodes: list[LoggedNode] = []
    levels: dict[str, int] = {}
    kraft_version: int = 0
    migration: int = -1
    open_transaction: list[Event] | None = None
    pending: list[Segment] = []
    line_at: int = 0
    line_offset: int = -1
    # The content of the checkpoint at offset 0, which kafka-storage writes: a dynamic quorum, and
    # from Kafka 4.4 on (KIP-1170) the requested levels.
    kraft_at_start: int = 0
    levels_at_start: dict[str, int] = {}
    # A starting node replays the log from its newest snapshot on. `snapshot_end` and `snapshot_at`:
    # the end of the newest checkpoint that was dumped, and the newest time it was; 0 = none was.
    # `replayed`: its levels and each level record from there on, as (offset, feature, level).
    snapshot_end: int = 0
    snapshot_at: int = 0
    replayed: list[tuple[int, str, int]] = []


class Right(msgspec.Struct, array_like=True, gc=False):
    """The permission for a request, by the role of the queried nodes: the last response of any
    node, or the newest refusal of a node, by (time, line)."""

    request: str  # the kind of landing line that holds the response
    role: int  # the role of the queried listeners
    answered_at: int = 0
    refused_at: int = 0
    line: int = 0
    node_id: int = -1
    principal: str = ""


class Probe(msgspec.Struct, array_like=True, gc=False):
    """The controller's newest response to a request that only validates, by (time, line)."""

    at: int
    line: int
    answers: tuple[tuple[str, int, int, int, str], ...]  # feature, from, to, code, message


class Configs(msgspec.Struct, array_like=True, gc=False):
    """The configuration of one resource in a node's DescribeConfigs, the newest by (time, line)."""

    role: int
    node_id: int  # the queried node
    resource: str
    at: int
    line: int
    values: tuple[tuple[str, str | None, int], ...]  # (key, value, source), by key


class NewestStatement(msgspec.Struct, array_like=True, gc=False):
    """The newest statement of a source about ranges or finalized levels, by (time, line). The next
    one is compared with it, and a history keeps the differences."""

    witness: str
    node_id: int  # the node that the source reports about; -1 = no node
    is_finalized: bool
    feature: str  # the feature of a tool's line, which is about one feature; else empty
    at: int
    line: int
    epoch: int | None
    map: int


class MigrationReady(msgspec.Struct, array_like=True, gc=False):
    """The readiness of a controller for a migration from ZooKeeper, the newest by (time, line)."""

    node_id: int
    at: int
    line: int
    ready: bool


class StrimziState(msgspec.Struct, array_like=True, gc=False):
    """The content of a cluster's Strimzi resources, the newest by (time, line)."""

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
    nodes: tuple[tuple[int, int, str | None], ...] = ()  # (node, role, version), sorted


class NotReached(msgspec.Struct, array_like=True, gc=False):
    """The newest reading that reached no node, by (time, line). `alone`: only one node failed to
    describe the cluster, so the reading counts only if no other node responded."""

    at: int
    line: int
    error: str
    alone: bool = False

    @property
    def after(self) -> int:
        """The time, in microseconds: a later response proves that the reading reached a node."""
        return self.at - ONE_READING * self.alone


class ClusterState(msgspec.Struct, array_like=True):
    """The state of a cluster between runs. New fields come last, so that older states can be
    read."""

    maps: list[Map] = []
    listeners: list[Listener] = []
    registrations: list[Registration] = []
    witnesses: list[WitnessedLevels] = []
    members: list[Members] = []
    quorum: Quorum = msgspec.field(default_factory=Quorum)
    node: FeaturesNode = msgspec.field(default_factory=FeaturesNode)
    log: LogImage = msgspec.field(default_factory=LogImage)
    read_twice: dict[str, tuple[int, int]] = {}  # znode path → its two newest reading times
    # Feature → (time, line number, level, and the printed level if the catalogue lacks that name).
    tool: dict[str, tuple[int, int, int, str]] = {}
    observed_at: int = 0
    ambiguous_dumps: list[int] = []
    controller: tuple[int, int, int] = (0, 0, -1)  # the controller znode: (time, line, broker)
    rights: list[Right] = []  # by (request, role, node_id)
    probe: Probe | None = None
    configs: list[Configs] = []  # by (role, node, resource)
    # Lines dated later than the judgement, which no fold uses yet: (time, line) of the newest, and
    # their number. Every fold counts them again.
    waiting: tuple[int, int, int] = (0, 0, 0)
    strimzi: StrimziState | None = None
    not_reached: NotReached | None = None
    migration_ready: list[MigrationReady] = []  # by node_id
    leaderless: list[Leaderless] = []  # by (role, node)
    # The newest list of the children of `/brokers/ids`: (time, line, broker ids), by (time, line).
    children: tuple[int, int, tuple[int, ...]] = (0, 0, ())
    # Offsets of the metadata log that a source reported: (time, offset), both ascending.
    marks: list[tuple[int, int]] = []
    dumps_with_holes: list[int] = []  # the times of dumps with a missing line, ascending
    # "feature level" → when a node last showed that level as finalized. It may still be in the
    # metadata log after a downgrade.
    levels_seen: dict[str, int] = {}
    statements: list[NewestStatement] = []  # by (witness, node, finalized or not, feature)
    compared_at: int = 0  # when `collect` last compared the copy of a broker that listed nodes
    quorums: list[Quorum] = []  # the different ones of the newest leader epoch, at about one time


_DECODER = msgspec.msgpack.Decoder(ClusterState)
_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


def thaw(stored: bytes | None) -> ClusterState:
    """Return the stored state of the previous fold; for None an empty state."""
    return ClusterState() if stored is None else _DECODER.decode(stored)


def freeze(state: ClusterState) -> bytes:
    """Return `state` as bytes, equal for equal states."""
    return _ENCODER.encode(state)


_MAPS_OF_LISTENERS = ("full", "partial", "levels", "scraped", "scraped_levels")


def newest_statements(listener: Listener) -> Iterator[NewestStatement]:
    """Yield the newest statements of a listener, which are stored in its own fields."""
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


_MARKS = 16  # the most marks kept that are later than the dump of the log


def _settle_marks(state: ClusterState) -> None:
    """Drop the log marks that log.expected_end does not need and that are not newer."""
    rising, highest = list[tuple[int, int]](), -1
    for at, offset in sorted(state.marks):
        if offset > highest:
            rising.append((at, offset))
            highest = offset
    before = [mark for mark in rising if mark[0] <= state.log.at]
    later = rising[len(before) :]
    of_reading = [mark for mark in later if mark[0] <= state.log.at + ONE_READING]
    telling = max(
        of_reading, key=lambda mark: written_by(mark[0], mark[1], state.log.at), default=None
    )
    marks = [mark for mark in later[:-_MARKS] if mark == telling]
    state.marks = [*before[-1:], *marks, *later[-_MARKS:]]


def _settle_lists(state: ClusterState) -> None:
    """Drop the lists of nodes and of voters that are not of the newest time."""
    newest = dict[tuple[int, bool], int]()
    for members in state.members:
        key = members.role, members.fenced_shown
        newest[key] = max(newest.get(key, 0), members.at)
    since = {key: at - ONE_MOMENT for key, at in newest.items()}
    state.members = [m for m in state.members if m.at >= since[m.role, m.fenced_shown]]
    epoch, at = state.quorum.leader_epoch, state.quorum.at - ONE_MOMENT
    state.quorums = [q for q in state.quorums if q.leader_epoch == epoch and q.at >= at]


def written_by(at: int, offset: int, time: int) -> int:
    """Return an offset that was certainly written by `time`, given that `offset` was seen at `at`.

    An idle log writes records by itself. Only those of a few seconds are subtracted: a dump that
    ends early on a quiet cluster would otherwise count as complete.
    """
    since = min(max(0, at - time), IDLE_WINDOW)
    return offset + -since // IDLE_RECORD_INTERVAL


def settle(state: ClusterState) -> None:
    """Sort the maps of a state and drop unused ones, so that equal states have equal bytes."""
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
    """Return the ranges of a listener's node: `ranges`, except for a controller whose known release
    has exactly these ranges.

    If its configuration is unknown, a controller counts as supporting stable levels only.
    """
    if listener.role != Role.CONTROLLER or listener.releases not in _ranges():
        return ranges
    stable, unstable = _ranges()[listener.releases]
    if ranges not in (stable, unstable):
        return ranges
    return unstable if _has_unstable(listener.node_id, state) else stable


def by_metrics(listener: Listener, state: ClusterState) -> tuple[Map, Map]:
    """Return (ranges, levels) in the metrics of a listener's process, under Kafka's feature names.

    Names of features have dots, which labels replace. The result omits a name that no source and no
    release has. A process that just started shows the lowest level of metadata.version until it has
    read its log (MetadataLoaderMetrics), so the lowest level counts as none.
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
    has_read = lowest[0] >= 0 and level[0] > lowest[0]
    return _map_of(ranges), _map_of(levels) if has_read else ()


def _spellings(state: ClusterState) -> dict[str, str]:
    """Return a feature's name without its dot → the name, for every name with a dot."""
    names = {name for entries in state.maps for name, _, _ in entries}
    return {letters(name): name for name in sorted(names | set(load().features)) if "." in name}


def levels_by_metrics(state: ClusterState) -> tuple[Map, int, int]:
    """Return the levels that all processes of the newest scrape share, with its time and line;
    level -1 = not shown, or different. Time 0 = no metrics."""
    by_node = [(node, by_metrics(node, state)[1]) for node in state.listeners]
    telling = [(node.scraped_at, node.scraped_line, levels) for node, levels in by_node if levels]
    at, line, _ = max(telling, default=(0, 0, ()))
    levels = [dict.fromkeys(of) for time, _, of in telling if at - time <= ONE_READING]
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
    """Return release line → (stable ranges, ranges with unstable levels) of its software."""
    return {
        software.release: (_map_of(software.ranges()), _map_of(software.ranges(unstable=True)))
        for software in load().releases
    }


def _map_of(ranges: dict[str, tuple[int, int]]) -> Map:
    return tuple(sorted((name, low, high) for name, (low, high) in ranges.items()))
