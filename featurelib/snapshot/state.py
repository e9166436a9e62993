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

NOTHING = -1  # the position of a missing map
DAMAGED = -2  # the position of a map that cannot be read
IDLE_WINDOW = 10_000_000  # microseconds
IDLE_RECORD_INTERVAL = 500_000  # microseconds: Kafka's metadata.max.idle.interval.ms
ONE_READING = 5 * 60 * 1_000_000  # microseconds: lines read within this time may be of one reading
ONE_MOMENT = 10_000_000  # microseconds: lists of nodes read within this time must be equal


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
    scraped: int = NOTHING  # of its process's metrics, features as in labels; by (at, line)
    scraped_levels: int = NOTHING
    scraped_at: int = 0
    scraped_line: int = 0


class Registration(msgspec.Struct, array_like=True, gc=False):
    """The znode `/brokers/ids/N`, by (time, line). `exists` False = it was read and is absent."""

    node_id: int
    profile: int
    exists: bool
    at: int
    line: int


class WitnessedLevels(msgspec.Struct, array_like=True, gc=False):
    """A kind of source of the finalized levels, by (incarnation, epoch, time, line).

    The incarnation is the czxid of `/feature`: a znode that is created again counts from 0.
    """

    kind: int
    incarnation: int
    epoch: int
    at: int
    line: int
    levels: int


class Members(msgspec.Struct, array_like=True, gc=False):
    """A node list of DescribeCluster, by (time, line); per (role, fenced shown) the different lists
    of its newest time."""

    role: int
    fenced_shown: bool
    at: int
    line: int
    members: tuple[tuple[int, int], ...]  # (node, 1 fenced · 0 not · -1 not known), sorted


class Quorum(msgspec.Struct, array_like=True, gc=False):
    """The quorum of DescribeQuorum, by (leader epoch, time, line)."""

    leader_epoch: int = -1
    at: int = 0
    line: int = 0
    voters: tuple[int, ...] = ()
    observers: tuple[int, ...] = ()
    leader_id: int = -1
    following: tuple[int, ...] = ()  # the voters that fetched from the leader lately
    directories: tuple[tuple[int, str], ...] = ()  # (voter, its directory id), if known


class Leaderless(msgspec.Struct, array_like=True, gc=False):
    """A node that found no leader of the quorum, by (time, line)."""

    role: int
    node_id: int
    at: int
    line: int


class FeaturesNode(msgspec.Struct, array_like=True, gc=False):
    """The znode /feature, by (path, czxid, version, time, line); absence by time alone."""

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
    """A record of the metadata log about features, with its place.

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
    """The records from offset start to end-1, without a gap, that no image has yet."""

    start: int
    end: int
    at: int
    events: list[Event]
    whole: bool  # a checkpoint: its events make the image at `end` from nothing


class LoggedNode(msgspec.Struct, array_like=True, gc=False):
    """A registration in the metadata log, at the end of the image."""

    node_id: int
    role: int
    profile: int
    fenced: int
    line: int
    at: int


class LogImage(msgspec.Struct, array_like=True):
    """The metadata log up to `end`: the image of all records below it."""

    end: int = 0
    at: int = 0
    line: int = 0  # of the last applied record, in the newest dump that shows it
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
    """A request that needs a permission, by the role of its nodes: the last response of any node,
    or the newest refusal by a node, by (time, line)."""

    request: str  # the kind of landing line that the request makes
    role: int  # the role of the queried listeners
    answered_at: int = 0
    refused_at: int = 0
    line: int = 0
    node_id: int = -1
    principal: str = ""


class Probe(msgspec.Struct, array_like=True, gc=False):
    """The controller's last response to a request to validate, by (time, line)."""

    at: int
    line: int
    answers: tuple[tuple[str, int, int, int, str], ...]  # feature, from, to, code, message


class Configs(msgspec.Struct, array_like=True, gc=False):
    """The configuration of a resource in one node's DescribeConfigs, by (time, line)."""

    role: int
    node_id: int  # the queried node
    resource: str
    at: int
    line: int
    values: tuple[tuple[str, str | None, int], ...]  # key, value, source; by key


class NewestStatement(msgspec.Struct, array_like=True, gc=False):
    """The newest statement of a source about its ranges or about the finalized levels, by (time,
    line): the next one is compared with it, and a history keeps what differs."""

    witness: str
    node_id: int  # the node that the source reports about; -1 = no node
    is_finalized: bool
    feature: str  # the feature of a tool's line, which is about one feature; else empty
    at: int
    line: int
    epoch: int | None
    map: int


class MigrationReady(msgspec.Struct, array_like=True, gc=False):
    """The readiness of a controller for a migration from ZooKeeper, by (time, line)."""

    node_id: int
    at: int
    line: int
    ready: bool


class StrimziState(msgspec.Struct, array_like=True, gc=False):
    """The content of Strimzi's resources, by (time, line); texts as in their landing line."""

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
    """The newest reading that reached no node, by (time, line). `alone` = only one node failed to
    describe the cluster: the reading reached no node, unless another node responded."""

    at: int
    line: int
    error: str
    alone: bool = False

    @property
    def after(self) -> int:
        """The time after which a response proves that the reading reached a node, microseconds."""
        return self.at - ONE_READING * self.alone


class ClusterState(msgspec.Struct, array_like=True):
    """The state of a cluster. New fields come last, so that older states can be read."""

    maps: list[Map] = []
    listeners: list[Listener] = []
    registrations: list[Registration] = []
    witnesses: list[WitnessedLevels] = []
    members: list[Members] = []
    quorum: Quorum = msgspec.field(default_factory=Quorum)
    node: FeaturesNode = msgspec.field(default_factory=FeaturesNode)
    log: LogImage = msgspec.field(default_factory=LogImage)
    read_twice: dict[str, tuple[int, int]] = {}  # znode path: its two newest reading times
    # Feature: (time, line number, level, as printed if the catalogue lacks that name).
    tool: dict[str, tuple[int, int, int, str]] = {}
    observed_at: int = 0
    ambiguous_dumps: list[int] = []
    controller: tuple[int, int, int] = (0, 0, -1)  # the controller znode: (time, line, broker)
    rights: list[Right] = []  # by (request, role, node_id)
    probe: Probe | None = None
    configs: list[Configs] = []  # by (role, node, resource)
    # Lines that no fold uses, because they are dated later than the judgement: (time, line) of the
    # newest, and their number. Counted again by every fold.
    waiting: tuple[int, int, int] = (0, 0, 0)
    strimzi: StrimziState | None = None
    not_reached: NotReached | None = None
    migration_ready: list[MigrationReady] = []  # by node_id
    leaderless: list[Leaderless] = []  # by (role, node)
    # The newest list of the children of `/brokers/ids`: (time, line, broker ids), by (time, line).
    children: tuple[int, int, tuple[int, ...]] = (0, 0, ())
    # Offsets of the metadata log that a source knew: (time, offset), both ascending.
    marks: list[tuple[int, int]] = []
    dumps_with_holes: list[int] = []  # the times of dumps with a missing line, ascending
    # "feature level" → when a node last showed that level as finalized. It may still be in the
    # metadata log after a downgrade.
    levels_seen: dict[str, int] = {}
    statements: list[NewestStatement] = []  # by (witness, node, finalized or not, feature)


_DECODER = msgspec.msgpack.Decoder(ClusterState)
_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


def thaw(stored: bytes | None) -> ClusterState:
    """Return the state of the previous fold, or an empty one."""
    return ClusterState() if stored is None else _DECODER.decode(stored)


def freeze(state: ClusterState) -> bytes:
    """Return `state` as bytes, equal for equal states."""
    return _ENCODER.encode(state)


_MAPS_OF_LISTENERS = ("full", "partial", "levels", "scraped", "scraped_levels")


def newest_statements(listener: Listener) -> Iterator[NewestStatement]:
    """Yield the newest statements of a listener, which has them in its fields."""
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


_MARKS = 16  # the number of kept marks that are later than the dump of the log


def _settle_marks(state: ClusterState) -> None:
    """Keep the marks that log.expected_end needs, and newer marks."""
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
    kept = [mark for mark in later[:-_MARKS] if mark == telling]
    state.marks = [*before[-1:], *kept, *later[-_MARKS:]]


def _settle_lists(state: ClusterState) -> None:
    """Keep the newest lists of nodes."""
    newest = dict[tuple[int, bool], int]()
    for members in state.members:
        key = members.role, members.fenced_shown
        newest[key] = max(newest.get(key, 0), members.at)
    since = {key: at - ONE_MOMENT for key, at in newest.items()}
    state.members = [m for m in state.members if m.at >= since[m.role, m.fenced_shown]]


def written_by(at: int, offset: int, time: int) -> int:
    """Return an offset that was certainly written by `time`, if `offset` was seen at `at`.

    An idle log writes records by itself. Only those of a few seconds are subtracted: a dump that
    ends early on a quiet cluster would otherwise count as complete.
    """
    since = min(max(0, at - time), IDLE_WINDOW)
    return offset + -since // IDLE_RECORD_INTERVAL


def settle(state: ClusterState) -> None:
    """Sort the maps and drop unused ones, so that equal states are equal bytes."""
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
    """Return the ranges of a listener's node: `ranges` themselves, except for a controller of a
    known release with exactly these.

    If its configuration is not known, a controller counts as supporting stable levels only.
    """
    if listener.role != Role.CONTROLLER or listener.releases not in _ranges():
        return ranges
    stable, unstable = _ranges()[listener.releases]
    if ranges not in (stable, unstable):
        return ranges
    return unstable if _has_unstable(listener.node_id, state) else stable


def by_metrics(listener: Listener, state: ClusterState) -> tuple[Map, Map]:
    """Return (ranges, levels) from the metrics of a listener's process, by Kafka's names.

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
    lowest, level = (of.get(METADATA_VERSION, (-1, 0)) for of in (ranges, levels))
    has_read = lowest[0] >= 0 and level[0] > lowest[0]
    return _map_of(ranges), _map_of(levels) if has_read else ()


def _spellings(state: ClusterState) -> dict[str, str]:
    """Return the letters of every feature's name with a dot → the name."""
    names = {name for entries in state.maps for name, _, _ in entries}
    return {letters(name): name for name in sorted(names | set(load().features)) if "." in name}


def levels_by_metrics(state: ClusterState) -> tuple[Map, int, int]:
    """Return the levels that all processes of the newest scrape share, and the time and line of the
    newest; -1 = not shown, or different. Time 0 = no metrics."""
    by_node = [(node, by_metrics(node, state)[1]) for node in state.listeners]
    telling = [(node.scraped_at, node.scraped_line, levels) for node, levels in by_node if levels]
    at, line, _ = max(telling, default=(0, 0, ()))
    levels = [dict.fromkeys(of) for time, _, of in telling if at - time <= ONE_READING]
    agreed = [entry for entry in (levels[0] if levels else ()) if all(entry in of for of in levels)]
    level_of = {name: level for name, level, _ in agreed}
    names = sorted(_spellings(state).values())
    return tuple((name, level_of.get(name, -1), level_of.get(name, -1)) for name in names), at, line


def _has_unstable(node_id: int, state: ClusterState) -> bool:
    """Return true if a controller was started with unstable features."""
    return any(
        (key, value) == (UNSTABLE_FEATURES, "true")
        for entry in state.configs
        if (entry.role, entry.node_id, entry.resource) == (Role.CONTROLLER, node_id, str(node_id))
        for key, value, _ in entry.values
    )


@cache
def _ranges() -> dict[str, tuple[Map, Map]]:
    """Return release line → levels that its software advertises, stable and unstable."""
    return {
        own.release: (_map_of(own.ranges()), _map_of(own.ranges(unstable=True)))
        for own in load().releases
    }


def _map_of(ranges: dict[str, tuple[int, int]]) -> Map:
    return tuple(sorted((name, low, high) for name, (low, high) in ranges.items()))
