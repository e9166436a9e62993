"""Cuts a dump of the metadata log into pieces whose offsets are consecutive.

What a record means depends on the file it stands in, and a dump shows several: segments of the
log, checkpoints, the bootstrap checkpoint. A file is believed as far as it was dumped without a
hole; a checkpoint only from its header to its footer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from featurelib.landing import metadata_log as log
from featurelib.landing.metadata_log import parse_line
from featurelib.snapshot.state import Event, Map, Segment

FENCE, NO_CHANGE = 1, 0  # BROKER_REGISTRATION_CHANGE_RECORD, `fenced`; -1 unfences


class DumpLine(NamedTuple):
    """One line of a dump: its number in the tool's output, its text, its landing line."""

    number: int
    text: str
    line_id: int


def segments(lines: list[DumpLine], at: int, position: Callable[[Map], int]) -> Iterator[Segment]:
    """Cut one dump into pieces of consecutive offsets, and whole checkpoints.

    `lines` are in the order of their numbers. A number that is missing inside a file ends the
    piece: whether the line said something, and in which file the next one stands, is not known.
    """
    reader = _Reader(at, position)
    number = -1
    for line in lines:
        if line.number != number + 1:
            yield from reader.end_section()
        item = parse_line(line.text)
        number = line.number + (item.lines - 1 if isinstance(item, log.LeftOut) else 0)
        if item is not None:
            yield from reader.take(item, line.line_id)
    yield from reader.end_section()  # what the last batch holds may still come


class _Reader:
    """Where in a dump we are: in which kind of file, and at which offset."""

    def __init__(self, at: int, position: Callable[[Map], int]) -> None:
        self.at = at
        self.position = position
        self.kind = ""  # log · checkpoint · "" = a file that proves nothing
        self.snapshot_end = 0
        self.footer = False
        self.start = self.expected = -1
        self.batch: log.Batch | None = None
        self.batch_offset = -1
        self.events: list[Event] = []

    def take(self, item: log.LogItem, line: int) -> Iterator[Segment]:
        if isinstance(item, log.Dumping | log.BootstrapStart):
            yield from self.end()
        elif isinstance(item, log.LogStart):
            yield from self.end()
            self.kind = "log"
        elif isinstance(item, log.SnapshotStart):
            yield from self.end()
            self.kind, self.snapshot_end = "checkpoint", item.end_offset
        elif isinstance(item, log.Batch):
            yield from self.close_batch()
            self.batch, self.batch_offset = item, item.base_offset
        elif isinstance(item, log.LeftOut):
            yield from self.take_left_out(item)
        elif isinstance(item, log.Record) and self.kind:
            yield from self.take_record(item, line)

    def close_batch(self) -> Iterator[Segment]:
        """With --skip-record-metadata the tool does not show what is in a control batch."""
        batch, self.batch = self.batch, None
        if batch is None or not batch.is_control or not self.kind:
            return
        if self.batch_offset == batch.base_offset:
            began = self.start >= 0
            for offset in range(batch.base_offset, batch.last_offset + 1):
                yield from self.take_record(log.Record(offset, log.Other("CONTROL")), 0)
            self.events.append(Event(batch.last_offset, "hidden", at=self.at))
            self.footer = began

    def take_record(self, record: log.Record, line: int) -> Iterator[Segment]:
        if isinstance(record.body, log.Undecodable):
            # Whatever it said is missing: the piece ends here, and a checkpoint is no image.
            kind = self.kind
            yield from self.end_section()
            self.kind = kind if kind == "log" else ""
            return
        offset = self.batch_offset if record.offset is None else record.offset
        self.batch_offset = offset + 1
        if offset != self.expected:
            kind, backwards = self.kind, offset < self.expected
            if self.start >= 0:
                yield from self.end_section()
                # After a hole a checkpoint is no image, and a log goes on as another piece;
                # offsets that go backwards belong to a file whose first lines are missing.
                if kind == "checkpoint" or backwards:
                    return
                self.kind = kind
            self.start = offset
        self.expected = offset + 1
        self.footer = isinstance(record.body, log.SnapshotFooter)
        event = _event(record.body, self.position)
        if event is not None:
            event.offset, event.line, event.at = offset, line, self.at
            self.events.append(event)

    def take_left_out(self, item: log.LeftOut) -> Iterator[Segment]:
        if item.first is None or item.last is None:
            return  # blank lines, and what the tool says beside the log
        yield from self.close_batch()
        if not self.kind:
            return
        yield from self.take_record(log.Record(item.first, log.Other("LEFT_OUT")), 0)
        if self.kind:
            self.batch_offset = self.expected = item.last + 1

    def end(self) -> Iterator[Segment]:
        """The file is at its end."""
        yield from self.close_batch()
        yield from self.end_section()
        self.kind = ""

    def end_section(self) -> Iterator[Segment]:
        """What was read of the file so far is all that counts of it."""
        start, end, events, kind = self.start, self.expected, self.events, self.kind
        footer = self.footer
        self.kind, self.start, self.expected, self.events = "", -1, -1, []
        self.footer, self.batch = False, None
        if start < 0:
            return
        if kind == "log":
            yield Segment(start, end, self.at, events, False)
        elif kind == "checkpoint" and start == 0 and footer:
            yield Segment(0, self.snapshot_end, self.at, events, True)


def _event(body: log.Body, position: Callable[[Map], int]) -> Event | None:
    """The part of a record that is kept, or None for records that are not about features."""
    match body:
        case log.FeatureLevel(name=name, level=level):
            return Event(0, "level", level, name)
        case log.RegisterBroker(id=node, fenced=fenced, features=features):
            return Event(0, "broker", node, profile=position(features), fenced=int(fenced))
        case log.RegisterController(id=node, features=features):
            return Event(0, "controller", node, profile=position(features))
        case log.UnregisterBroker(id=node):
            return Event(0, "unregister", node)
        case log.UnregisterController(id=node):
            return Event(0, "unregister controller", node)
        case log.RegistrationChange(id=node, fenced=change) if change != NO_CHANGE:
            return Event(0, "fenced", node, fenced=int(change == FENCE))
        case log.FenceBroker(id=node):
            return Event(0, "fenced", node, fenced=1)
        case log.UnfenceBroker(id=node):
            return Event(0, "fenced", node, fenced=0)
        case log.ZkMigrationState(state=number):
            return Event(0, "migration", number)
        case log.KRaftVersion(level=level):
            return Event(0, "kraft", level)
        case log.BeginTransaction():
            return Event(0, "begin")
        case log.EndTransaction():
            return Event(0, "end")
        case log.AbortTransaction():
            return Event(0, "abort")
        case _:
            return None
