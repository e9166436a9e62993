"""Read one line of `kafka-dump-log --cluster-metadata-decoder`.

A record of an unused type is OTHER. An unreadable line is DAMAGED, because a gap in the log is
evidence, too. Records are decoded from JSON by the names of Kafka's record schemas.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from featurelib.landing.fields import FilledText, Int16, Level, NodeId, Ranges, Truth, ordered
from featurelib.landing.strict import FaultError

OTHER, DAMAGED, FOOTER = "other", "damaged", "footer"


class Start(Struct, frozen=True, gc=False):
    """The start of a metadata log file. `file`: "log" (a segment), "checkpoint", "bootstrap",
    "format" or "" (unknown)."""

    file: str
    offset: int


class RecordBatch(Struct, frozen=True, gc=False):
    """The start of a record batch: its first and last offset."""

    base_offset: int
    last_offset: int
    is_control: bool


class LeftOut(Struct, frozen=True, gc=False):
    """The lines that a collector omitted, because their records are not about features or nodes.

    `lines`: their number, from this line of the dump on. `first` and `last`: the offsets of their
    records, without a gap; both None = they had no record.
    """

    lines: int
    first: int | None
    last: int | None


class Record(Struct, frozen=True, gc=False):
    """A record of the metadata log. `offset`: None = damaged or not printed."""

    offset: int | None
    kind: str  # OTHER, DAMAGED, or a kind in the tables below
    number: int = 0  # a node id, a level or a migration state, by `kind`
    name: str = ""  # the feature; for OTHER the type of the record
    features: Ranges | None = None
    fenced: int = -1  # registration: 1 fenced, 0 not; change: 1 fences, -1 unfences


LogItem = Start | RecordBatch | Record | LeftOut
_Reader = Callable[[bytes, int | None], Record]
_CHANGE = Annotated[int, Meta(ge=-1, le=1)]  # the change of fencing; Kafka omits a 0


class _Feature(Struct, frozen=True, gc=False, rename="camel"):
    name: FilledText
    min_supported_version: Level
    max_supported_version: Level


def _reader(kind: str, **fields: tuple[str, object]) -> _Reader:
    """Return a function that reads a record's JSON; `fields` are the used ones, as (key, type).

    The reader raises FaultError or DecodeError for data of another form.
    """
    shape = msgspec.defstruct(
        "Data",
        [
            *((name, field) for name, (_, field) in fields.items() if field is not _CHANGE),
            *((name, field, 0) for name, (_, field) in fields.items() if field is _CHANGE),
        ],
        rename={name: key for name, (key, _) in fields.items()},
    )
    decoder = msgspec.json.Decoder(shape)

    def read(raw: bytes, offset: int | None) -> Record:
        members = msgspec.structs.asdict(decoder.decode(raw))
        if "features" in members:
            ranges = map(msgspec.structs.astuple, members["features"])
            members["features"] = ordered(ranges, "features")
        return Record(offset, kind, **members)

    return read


_FEATURES = ("features", list[_Feature])
_RECORDS = {
    "FEATURE_LEVEL_RECORD": _reader(
        "level",
        name=("name", FilledText),
        number=("featureLevel", Level),  # level 0 removes the feature
    ),
    # A registration replaces all earlier facts about the id.
    "REGISTER_BROKER_RECORD": _reader(
        "broker", number=("brokerId", NodeId), features=_FEATURES, fenced=("fenced", Truth)
    ),
    "REGISTER_CONTROLLER_RECORD": _reader(
        "controller", number=("controllerId", NodeId), features=_FEATURES
    ),
    "UNREGISTER_BROKER_RECORD": _reader("unregister", number=("brokerId", NodeId)),
    "UNREGISTER_CONTROLLER_RECORD": _reader(  # a record of KIP-1312, from Kafka 4.4 on
        "unregister controller", number=("controllerId", NodeId)
    ),
    "BROKER_REGISTRATION_CHANGE_RECORD": _reader(
        "change", number=("brokerId", NodeId), fenced=("fenced", _CHANGE)
    ),
    # Kafka writes these two records below 3.3-IV2
    "FENCE_BROKER_RECORD": _reader("fence", number=("id", NodeId)),
    "UNFENCE_BROKER_RECORD": _reader("unfence", number=("id", NodeId)),
    # Records of a transaction count only after its commit (KIP-868).
    "BEGIN_TRANSACTION_RECORD": _reader("begin"),
    "END_TRANSACTION_RECORD": _reader("end"),
    "ABORT_TRANSACTION_RECORD": _reader("abort"),
    # 0 none, 1 migration, 2 pre-migration, 3 post-migration (3.4 had 1 and 2 swapped).
    "ZK_MIGRATION_STATE_RECORD": _reader("migration", number=("zkMigrationState", Int16)),
}
_CONTROLS = {
    "SnapshotHeader": _reader(OTHER),  # the first and the last record of a checkpoint
    "SnapshotFooter": _reader(FOOTER),
    "KRaftVersion": _reader("kraft", number=("kRaftVersion", Level)),
    "KRaftVoters": _reader(OTHER),
    "LeaderChange": _reader(OTHER),
}


class _Payload(Struct, frozen=True, gc=False):
    type: FilledText
    data: msgspec.Raw


_PAYLOAD_JSON = msgspec.json.Decoder(_Payload)
_CONTROL = re.compile(rf" ({'|'.join(_CONTROLS)}):? (\S.*)")
_NAMED_CONTROL = re.compile(r" controlType: (\w+)\(-?\d+\)")
# Record types that kafka-dump-log.sh prints without a name.
_HIDDEN = frozenset({"KRAFT_VERSION", "KRAFT_VOTERS", "UNKNOWN"})
_RECORD = "| offset: "
PAYLOAD = " payload: "
_IDLE = '{"type":"NO_OP_RECORD"'  # most lines of a log: an idle cluster writes two per second
_BATCH = re.compile(
    r"baseOffset: (\d{1,18}) lastOffset: (\d{1,18}) count: \d{1,10} .*"
    r"isControl: (true|false) .*isvalid: true",
    re.ASCII,
)
_OFFSET = re.compile(r"\d{1,18}", re.ASCII)  # at most 18 digits fit an int64
_START = re.compile(
    r"(?:Log s|S)tarting offset: ([0-9]{1,18})\s*|Snapshot end offset: ([0-9]{1,18}), epoch: .*",
    re.DOTALL,
)
_STARTS = ("Log starting offset: ", "Starting offset: ", "Snapshot end offset: ")
_BOOTSTRAP = "KRaft bootstrap snapshot"
_OURS = "featurelib: "
_LEFT_OUT = re.compile(
    r"featurelib: left out (\d{1,18}) lines?(?:, offsets? (\d{1,18})(?: to (\d{1,18}))?)?\.",
    re.ASCII,
)
_DAMAGED = Record(None, DAMAGED)


def parse_line(line: str) -> LogItem | None:
    """Return the item in a line of a dump; None = no item (blank, prompt, tool error).

    Source: Kafka, DumpLogSegments.
    """
    if line.startswith(_RECORD):
        end = line.find(" ", len(_RECORD))
        digits = line[len(_RECORD) : end]
        is_whole = end >= 0 and _OFFSET.fullmatch(digits)
        return (_record(line, end, int(digits)) if is_whole else None) or _DAMAGED
    if line.startswith(" "):
        return _record(line, 0, None)
    if line.startswith("baseOffset: "):
        batch = _BATCH.match(line)
        return RecordBatch(int(batch[1]), int(batch[2]), batch[3] == "true") if batch else _DAMAGED
    return _heading(line)


def _heading(line: str) -> LogItem | None:
    if line.startswith(("Dumping ", _BOOTSTRAP)):
        return Start("bootstrap" if line.startswith(_BOOTSTRAP) else "", 0)
    if line.startswith(_STARTS):
        match = _START.fullmatch(line)
        if not match:
            return _DAMAGED
        return Start("log", int(match[1])) if match[1] else Start("checkpoint", int(match[2]))
    if line.startswith(_OURS):
        return _left_out(line)
    return _DAMAGED if line.startswith("|") else None


def _left_out(line: str) -> LeftOut | Record:
    match = _LEFT_OUT.fullmatch(line)
    if not match:
        return _DAMAGED
    lines = int(match[1])
    first = None if match[2] is None else int(match[2])
    last = first if match[3] is None else int(match[3])
    possible = first is None or last is None or 0 <= last - first < lines
    return LeftOut(lines, first, last) if lines and possible else _DAMAGED


def left_out(item: LeftOut) -> str:
    """Return the line that stands for omitted lines. `parse_line` can read it."""
    text = f"featurelib: left out {item.lines} line{'' if item.lines == 1 else 's'}"
    if item.first is None:
        return f"{text}."
    if item.first == item.last:
        return f"{text}, offset {item.first}."
    return f"{text}, offsets {item.first} to {item.last}."


def _record(line: str, start: int, offset: int | None) -> Record | None:
    """Return the record after `start`: DAMAGED if unreadable, None if there is no record."""
    at = line.find(PAYLOAD, start)
    text = at + len(PAYLOAD)
    if at >= 0 and line.startswith(_IDLE, text) and line.endswith("}}"):
        return Record(offset, OTHER, name="NO_OP_RECORD")
    try:
        if at < 0:
            return _control(line[start:], offset)
        record = _PAYLOAD_JSON.decode(line[text:].encode(errors="replace"))
        read = _RECORDS.get(record.type)
        return read(record.data, offset) if read else Record(offset, OTHER, name=record.type)
    except (msgspec.DecodeError, RecursionError, FaultError):
        return Record(offset, DAMAGED)


def _control(text: str, offset: int | None) -> Record | None:
    """Return the control record at the end of `text`; None if there is none."""
    if match := _CONTROL.search(text):
        return _CONTROLS[match[1]](match[2].encode(errors="replace"), offset)
    if match := _NAMED_CONTROL.search(text):
        kind = DAMAGED if match[1] in _HIDDEN else OTHER
        return Record(offset, kind, name=match[1])
    return None
