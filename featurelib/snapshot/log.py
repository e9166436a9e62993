"""Read dumps of the metadata log: registered nodes and finalized levels.

A dump shows several files (log segments, checkpoints, the bootstrap checkpoint), and the meaning of
a record depends on its file. A file counts up to its first gap; a checkpoint counts only if it has
its header and footer. So `segments` cuts a dump into pieces with consecutive offsets.

Offsets are equal in every dump of one log, so the pieces may come in any order. `replay` applies
pieces that continue the known log; other pieces wait. A piece that starts above offset 0 proves
nothing without its checkpoint or the piece before it. A former leader may have records that the log
lost, and a cluster that was created again has another log. So a newer dump that reaches as far, and
needs no other dump, replaces the known log. A log that another dump contradicts is incomplete.
Records between BEGIN_TRANSACTION and ABORT_TRANSACTION do not count (KIP-868).

The log is as new as the dump that reached its end. The log is complete (`is_complete`) if no line
of that dump is missing, and no source of the same time shows a later offset. Such sources are
epochs of brokers and controllers, the quorum's high watermark, the epoch that kafka-features.sh
prints, and pieces after a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import NamedTuple

from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, SILENT_METADATA_VERSION, Role
from featurelib.landing import metadata_log as log
from featurelib.landing.metadata_log import parse_line
from featurelib.snapshot.history import LOG, Shown
from featurelib.snapshot.state import (
    NOTHING,
    ONE_READING,
    ClusterState,
    Event,
    LoggedNode,
    LogImage,
    Map,
    Segment,
    writes_idle_records,
    written_by,
)


class DumpLine(NamedTuple):
    """A line of kafka-dump-log.sh: number, text, and id of the landing line."""

    number: int
    text: str
    line_id: int


def segments(
    lines: list[DumpLine], at: int, position: Callable[[Map], int]
) -> tuple[list[Segment], bool]:
    """Return the pieces of one dump (consecutive offsets, or a whole checkpoint), and true if a
    line of the dump is missing.

    `lines` are sorted by number. A missing number inside a file ends the piece: the missing line
    may start another file.
    """
    reader, has_hole = _Reader(at, position), False
    number = -1
    for line in lines:
        item = parse_line(line.text)
        if line.number != number + 1:
            # Collectors omit the blank lines between two files.
            has_hole |= number >= 0 and not isinstance(item, log.Start)
            reader.end_section()
        number = line.number + (item.lines - 1 if isinstance(item, log.LeftOut) else 0)
        if item is not None:
            reader.take(item, line.line_id)
    reader.end_section()  # the last batch may lack records
    return reader.pieces, has_hole or reader.is_cut


class _Reader:
    """The parser for one dump of the metadata log. It tracks file and offset."""

    def __init__(self, at: int, position: Callable[[Map], int]) -> None:
        self.at = at
        self.position = position
        self.pieces: list[Segment] = []
        self.is_cut = False  # true if the last batch lacks a record
        self.kind = ""  # the type of the file; "" = unknown, so its records do not count
        self.snapshot_end = 0
        self.footer = False
        self.start = self.expected = -1
        self.batch: log.RecordBatch | None = None
        self.batch_offset = -1
        self.events: list[Event] = []

    def take(self, item: log.LogItem, line: int) -> None:
        if isinstance(item, log.Start):
            self.close_batch()
            self.end_section()
            self.kind, self.snapshot_end = item.file, item.offset
        elif isinstance(item, log.RecordBatch):
            self.close_batch()
            self.batch, self.batch_offset = item, item.base_offset
        elif isinstance(item, log.LeftOut):
            self.take_left_out(item)
        elif self.kind:
            self.take_record(item, line)

    def close_batch(self) -> None:
        """End a record batch. A control batch whose records are not printed counts as complete."""
        batch, self.batch = self.batch, None
        if batch is None or not batch.is_control or not self.kind:
            return
        if self.batch_offset == batch.base_offset:
            began = self.start >= 0
            for offset in range(batch.base_offset, batch.last_offset + 1):
                self.take_record(log.Record(offset, log.OTHER), 0)
            self.events.append(Event(batch.last_offset, "hidden", at=self.at))
            self.footer = began

    def take_record(self, record: log.Record, line: int) -> None:
        kind = self.kind
        if record.kind == log.DAMAGED:
            # A record is lost: end the piece, and do not use a checkpoint as the complete state.
            self.end_section()
            self.kind = kind if kind == "log" else ""
            return
        offset = self.batch_offset if record.offset is None else record.offset
        self.batch_offset = offset + 1
        if offset != self.expected:
            if self.start >= 0:
                backwards = offset < self.expected
                self.end_section()
                # After a gap a checkpoint is incomplete, and the log continues as a new piece. A
                # smaller offset starts a file whose first lines are missing.
                if kind == "checkpoint" or backwards:
                    self.is_cut |= kind == "log"
                    return
                self.kind = kind
            self.start = offset
        self.expected = offset + 1
        self.footer = record.kind == log.FOOTER
        self.keep(record, offset, line)

    def keep(self, record: log.Record, offset: int, line: int) -> None:
        """Store a record about features, nodes or transactions. Other records are ignored."""
        kind, fenced = record.kind, int(record.fenced)
        if kind in (log.OTHER, log.FOOTER) or (kind == "change" and fenced == 0):
            return
        if kind in ("fence", "unfence", "change"):
            kind, fenced = "fenced", int(kind == "fence" or (kind == "change" and fenced == 1))
        profile = NOTHING if record.features is None else self.position(record.features)
        self.events.append(
            Event(offset, kind, record.number, record.name, profile, fenced, line, self.at)
        )

    def take_left_out(self, item: log.LeftOut) -> None:
        if item.first is None or item.last is None:
            return  # a blank line, or a message of the tool
        self.close_batch()
        if self.kind:
            self.take_record(log.Record(item.first, log.OTHER), 0)
        if self.kind:
            self.batch_offset = self.expected = item.last + 1

    def end_section(self) -> None:
        """End a file. If its last batch lacks records, the dump counts as cut."""
        if self.kind and self.batch is not None and not self.batch.is_control:
            self.is_cut |= self.batch_offset <= self.batch.last_offset
        start, end, events = self.start, self.expected, self.events
        if start >= 0 and self.kind == "log":
            self.pieces.append(Segment(start, end, self.at, events, False))
        elif start == 0 and self.kind == "checkpoint" and self.footer:
            self.pieces.append(Segment(0, self.snapshot_end, self.at, events, True))
        elif self.kind == "bootstrap":
            self.pieces.append(Segment(0, AT_BOOTSTRAP, self.at, events, True))
        self.kind, self.start, self.expected, self.events = "", -1, -1, []
        self.footer, self.batch = False, None


_REGISTERED = {"broker": Role.BROKER, "controller": Role.CONTROLLER}
_UNREGISTERED = {"unregister": Role.BROKER, "unregister controller": Role.CONTROLLER}
UNSEEN = -1  # the level of kraft.version in a dump, which does not show control records
AT_BOOTSTRAP = -1  # the `end` of a bootstrap.checkpoint, which is not a part of the log


Learn = Callable[[tuple[int, int], Shown], None]  # (time, line id), content of the line → None


def _learn_nothing(_moment: tuple[int, int], _content: Shown) -> None: ...


def replay(
    state: ClusterState,
    dumps: dict[int, list[DumpLine]],
    position: Callable[[Map], int],
    learn: Learn,
) -> None:
    """Apply dumps of the metadata log (time → lines) to the log image in `state`. Calls `learn` for
    each new record."""
    for at in sorted(dumps):
        lines = sorted(set(dumps[at]))
        if len({line.number for line in lines}) < len({(n, text) for n, text, _ in lines}):
            state.ambiguous_dumps = sorted({*state.ambiguous_dumps, at})
            items = (parse_line(line.text) for line in lines)
            _note_levels(state, (item for item in items if isinstance(item, log.Record)), at)
            continue
        pieces, has_hole = segments(lines, at, position)
        for segment in pieces:
            _note_replayed(state.log, segment)
            if segment.end != AT_BOOTSTRAP:  # other controllers may lack the bootstrap checkpoint
                _note_levels(state, segment.events, at - 1)
        holes = {*state.dumps_with_holes} - {at} | ({at} if has_hole else set())
        if _take_dump(state, [segment for segment in pieces if segment.end != AT_BOOTSTRAP], learn):
            holes.add(state.log.at)
        state.dumps_with_holes = sorted(holes)


def _take_dump(state: ClusterState, pieces: list[Segment], learn: Learn) -> bool:
    """Apply the parts of one dump to the log image. Return true if the dump and the image
    contradict each other."""
    previous, end = state.log, 0
    dumped_at = max((piece.at for piece in pieces), default=0)
    for piece in sorted(pieces, key=attrgetter("start")):
        end = max(end, piece.end if piece.whole or piece.start <= end else 0)
    contradicts = any(_contradicts(previous, piece) for piece in pieces)
    replaces = (previous.end, previous.at) < (end, dumped_at)
    if replaces:  # the dump needs no other dump
        image = LogImage(pending=previous.pending, kraft_at_start=previous.kraft_at_start)
        image.levels_at_start, image.replayed = previous.levels_at_start, previous.replayed
        image.snapshot_end, image.snapshot_at = previous.snapshot_end, previous.snapshot_at
        state.log = LogImage(replayed=previous.replayed) if contradicts else image
        state.log.whole_at = dumped_at
    image = state.log
    image.pending.extend(pieces)
    while (following := _next(image)) is not None:
        _join(image, following, state.maps, learn, previous.end)
    if replaces and not contradicts:
        _date_node(image, {(node.role, node.node_id): node for node in previous.nodes})
        if image.line_offset == previous.line_offset and previous.line_at > image.line_at:
            image.line, image.line_at = previous.line, previous.line_at
    image.pending = _waiting(image)
    times = sorted((dumped_at, previous.at))
    return contradicts and not times[0] < times[1] == image.at == image.whole_at


def _contradicts(image: LogImage, piece: Segment) -> bool:
    """Return true if a part of a log contradicts the last record of the image."""
    last = image.last
    if last is None or piece.whole:
        return False
    events = [e for e in piece.events if last.offset <= e.offset < image.end and _counts(e)]
    expected = [_content(last)] * (piece.start <= last.offset < piece.end)
    return [_content(event) for event in events] != expected


def _counts(event: Event) -> bool:
    return event.kind not in ("kraft", "hidden")  # some dumps show no control records


def _content(event: Event) -> tuple[object, ...]:
    return event.offset, event.kind, event.number, event.name, event.profile, event.fenced


def is_complete(state: ClusterState) -> bool:
    """Return true if the newest dump contained every record committed at its time."""
    return expected_end(state) <= state.log.end and state.log.at not in state.dumps_with_holes


def expected_end(state: ClusterState) -> int:
    """Return the least end offset (at least 1) of the log at the time of its newest dump.

    `state.marks` has offsets that other sources reported later. Subtract the records that an idle
    log writes in between.
    """
    dumped_at, is_idle = state.log.at, writes_idle_records(state)
    ends = [segment.end for segment in state.log.pending if segment.at <= dumped_at]
    for at, offset in state.marks:
        if at <= dumped_at + ONE_READING:
            ends.append(1 + written_by(at, offset, dumped_at, is_idle))
    return max([1, *ends])


def _note_levels(state: ClusterState, records: Iterable[Event | log.Record], at: int) -> None:
    """Record when a dump last had each level, because a starting controller may replay it."""
    for record in records:
        if record.kind == "level" and record.number:
            entry = f"{record.name} {record.number}"
            state.levels_seen[entry] = max(state.levels_seen.get(entry, 0), at)


def _note_replayed(image: LogImage, segment: Segment) -> None:
    """Record the levels that a starting controller replays: those of its newest checkpoint, and all
    later ones, also of aborted transactions."""
    levels = [event for event in segment.events if event.kind == "level" and event.number]
    offset = segment.end if segment.whole else None
    if offset == 0:
        return
    if offset is not None and offset > image.snapshot_end:
        image.snapshot_end, image.snapshot_at = offset, segment.at
    elif offset == image.snapshot_end:
        image.snapshot_at = max(image.snapshot_at, segment.at)
    for event in levels:
        record = event.offset if offset is None else offset, event.name, event.number
        if record not in image.replayed:
            image.replayed.append(record)
    first = image.snapshot_end
    image.replayed = sorted(r for r in image.replayed if r[0] == AT_BOOTSTRAP or r[0] >= first)


def level_map(image: LogImage) -> Map:
    """Return the finalized levels at the end of the log, sorted, as (feature, level, level)."""
    # Kafka 4.4 writes the levels requested at offset 0 into the log, 4.3 ignores them. Up to 4.2
    # they are only in this first checkpoint, so the log itself has no metadata.version.
    start = {} if METADATA_VERSION in image.levels else image.levels_at_start
    levels = {METADATA_VERSION: SILENT_METADATA_VERSION, **start, **image.levels}
    # Kafka ignores feature records for kraft.version; a control record of the raft layer sets it.
    levels.pop(KRAFT_VERSION, None)
    kraft_version = image.kraft_version or image.kraft_at_start
    if kraft_version:
        levels[KRAFT_VERSION] = kraft_version
    return tuple((name, level, level) for name, level in sorted(levels.items()))


def _next(image: LogImage) -> Segment | None:
    """Return a pending part that continues the image, or a later complete checkpoint; None
    otherwise."""
    for segment in image.pending:
        continues = segment.whole or segment.start <= image.end
        if continues and image.end < segment.end and not _contradicts(image, segment):
            return segment
    return None


def _waiting(image: LogImage) -> list[Segment]:
    """Return the pending parts after a gap. Parts that the image contains are dropped."""
    waiting: dict[tuple[int, int, bool], Segment] = {}
    agreeing = [piece for piece in image.pending if not _contradicts(image, piece)]
    ends = [p.at for p in agreeing if p.end == image.end and (p.end or not p.whole)]
    image.at = max([image.at, *ends])
    for segment in image.pending:
        if segment.whole and segment.end == 0:
            # kafka-storage.sh writes these levels, and only into its first checkpoint.
            levels = [event.number for event in segment.events if event.kind == "kraft"]
            image.kraft_at_start = max([image.kraft_at_start, *levels])
            start = {event.name: event.number for event in segment.events if event.kind == "level"}
            image.levels_at_start |= {name: level for name, level in start.items() if level}
        elif segment.end <= image.end:
            if segment in agreeing:
                _date_node(image, _registered(segment))
                _credit_line(image, segment)
        else:
            key = (segment.start, segment.end, segment.whole)
            if key not in waiting or segment.at > waiting[key].at:
                waiting[key] = segment
    return [waiting[key] for key in sorted(waiting)]


def _registered(segment: Segment) -> dict[tuple[int, int], Event]:
    """Return (role, node id) → last registration in a part of the log."""
    return {
        (int(_REGISTERED[event.kind]), event.number): event
        for event in segment.events
        if event.kind in _REGISTERED
    }


def _date_node(image: LogImage, newer: Mapping[tuple[int, int], Event | LoggedNode]) -> None:
    """Update time and line of each registration to the newest dump that shows it."""
    for node in image.nodes:
        event = newer.get((node.role, node.node_id))
        if event is None or event.profile != node.profile:
            continue
        if (event.at, event.line) > (node.at, node.line):
            node.at, node.line = event.at, event.line


def _credit_line(image: LogImage, segment: Segment) -> None:
    """Update the line of the last applied record to the newest dump that shows it."""
    for event in () if segment.whole else segment.events:
        if event.offset == image.line_offset and (event.at, event.line) > (
            image.line_at,
            image.line,
        ):
            image.line, image.line_at = event.line, event.at


def _join(image: LogImage, segment: Segment, maps: list[Map], learn: Learn, known_end: int) -> None:
    """Apply a part that continues the image. Calls `learn` for records from `known_end` on."""
    before, earlier = image.end, {(node.role, node.node_id): node for node in image.nodes}
    if segment.whole:
        image.nodes, image.levels, image.kraft_version = [], {}, 0
        image.migration, image.open_transaction, image.last, before = -1, None, None, -1
    for event in segment.events:
        if segment.whole or event.offset >= before:
            is_new = known_end < segment.end if segment.whole else known_end <= event.offset
            _read_event(image, event, maps, learn if is_new else _learn_nothing)
            if not segment.whole and _counts(event):
                image.last = event
    if segment.whole:
        image.line_offset = -1  # offsets in a checkpoint are not offsets of the log
        _date_node(image, earlier)
    image.end, image.at = segment.end, segment.at


def _read_event(image: LogImage, event: Event, maps: list[Map], learn: Learn) -> None:
    if event.kind == "begin":
        image.open_transaction = []
    elif event.kind == "abort":
        image.open_transaction = None
    elif event.kind == "end":
        batch, image.open_transaction = image.open_transaction or [], None
        for inner in batch:
            _apply(image, inner, maps, learn)
    elif image.open_transaction is not None and event.kind not in ("kraft", "hidden"):
        image.open_transaction.append(event)
    else:
        _apply(image, event, maps, learn)


def _apply(image: LogImage, event: Event, maps: list[Map], learn: Learn) -> None:
    """Apply one record to the image. Calls `learn` with its levels or ranges."""
    kind, number = event.kind, event.number
    if event.line:
        image.line, image.line_at, image.line_offset = event.line, event.at, event.offset
    moment = event.at, event.line
    if kind == "level":
        image.levels.pop(event.name, None)
        if number:
            image.levels[event.name] = number
        features = ((event.name, number, number),)
        learn(moment, Shown(LOG, None, event.offset, features, True))
    elif kind == "kraft" and number != image.kraft_version:
        image.kraft_version = number
        features = ((KRAFT_VERSION, number, number),)
        learn(moment, Shown(LOG, None, event.offset, features, True))
    elif kind in _REGISTERED:
        role = int(_REGISTERED[kind])
        earlier = {(node.role, node.node_id): node for node in image.nodes}
        _remove(image, role, number)
        image.nodes.append(
            LoggedNode(number, role, event.profile, event.fenced, event.line, event.at)
        )
        _date_node(image, earlier)
        image.nodes.sort(key=attrgetter("role", "node_id"))
        ranges = maps[event.profile] if event.profile >= 0 else ()
        learn(moment, Shown(LOG, number, event.offset, ranges, False))
    elif kind in _UNREGISTERED:
        _remove(image, int(_UNREGISTERED[kind]), number)
    elif kind == "fenced":
        for entry in image.nodes:
            if (entry.role, entry.node_id) == (int(Role.BROKER), number):
                entry.fenced = event.fenced
    elif kind == "migration":
        image.migration = number
    elif kind == "hidden":
        image.kraft_version = UNSEEN


def _remove(image: LogImage, role: int, node_id: int) -> None:
    image.nodes = [node for node in image.nodes if (node.role, node.node_id) != (role, node_id)]
