"""One line of `kafka-dump-log --cluster-metadata-decoder`, read.

A record of a type nobody here needs is `Other`; a line that should have said something and cannot
be read is `Undecodable`, because a gap in the log is evidence too. A record's type is decoded from
its JSON by the names of Kafka's record schemas; all other records are named and not looked into.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from featurelib.landing.api_versions import Ranges, ordered
from featurelib.landing.fields import FilledText, Int16, Level, NodeId, Truth
from featurelib.landing.strict import FaultError, misfit, show


class Dumping(Struct, frozen=True, gc=False):
    """The tool begins with a file."""

    file: str


class LogStart(Struct, frozen=True, gc=False):
    """A log segment begins at this offset."""

    offset: int


class SnapshotStart(Struct, frozen=True, gc=False):
    """A checkpoint follows: the state below this offset."""

    end_offset: int


class BootstrapStart(Struct, frozen=True, gc=False):
    """A bootstrap checkpoint follows: what `format` asked for, not what holds."""


class RecordBatch(Struct, frozen=True, gc=False):
    """A batch begins; both offsets belong to it."""

    base_offset: int
    last_offset: int
    count: int
    is_control: bool


class LeftOut(Struct, frozen=True, gc=False):
    """A collector kept these lines back: their records say nothing about features or nodes.

    `lines` of the dump, from this one's number on. `first` and `last` are the offsets of their
    records, without a hole; both None = they held no record.
    """

    lines: int
    first: int | None
    last: int | None


class Body(Struct, frozen=True, gc=False):
    """What a record says."""


class FeatureLevelRecord(Body, frozen=True, rename={"level": "featureLevel"}):
    """A feature was finalized; level 0 removes it."""

    name: FilledText
    level: Level


class RegisterBroker(Body, frozen=True):
    """A broker registered; replaces all that was known of the id."""

    id: int
    fenced: bool
    features: Ranges
    is_migrating: bool  # it still runs in ZooKeeper mode


class UnregisterBroker(Body, frozen=True, rename={"id": "brokerId"}):
    """A registration was removed."""

    id: NodeId


class UnregisterController(Body, frozen=True, rename={"id": "controllerId"}):
    """A controller's registration was removed (KIP-1312, Kafka 4.4)."""

    id: NodeId


class RegistrationChange(Body, frozen=True, rename={"id": "brokerId"}):
    """A registration changed; `fenced` 1 fenced, -1 unfenced, 0 as before."""

    id: NodeId
    fenced: Annotated[int, Meta(ge=-1, le=1, description="-1, 0 or 1")] = 0


class FenceBroker(Body, frozen=True):
    """A broker was fenced (before metadata.version 3.3-IV2)."""

    id: NodeId


class UnfenceBroker(Body, frozen=True):
    """A broker was unfenced (before metadata.version 3.3-IV2)."""

    id: NodeId


class RegisterController(Body, frozen=True):
    """A controller registered; replaces all that was known of the id."""

    id: int
    features: Ranges


class BeginTransaction(Body, frozen=True):
    """What follows holds only if the transaction ends, and not if it is aborted."""


class EndTransaction(Body, frozen=True):
    """What stood since the transaction began holds."""


class AbortTransaction(Body, frozen=True):
    """What stood since the transaction began never was."""


class ZkMigrationState(Body, frozen=True, rename={"state": "zkMigrationState"}):
    """0 none, 1 migration, 2 pre-migration, 3 post-migration (3.4 had 1 and 2 swapped)."""

    state: Int16


class KRaftVersion(Body, frozen=True, rename={"level": "kRaftVersion"}):
    """The raft layer's kraft.version."""

    level: Level


class KRaftVoters(Body, frozen=True):
    """The voters of a dynamic quorum, ascending."""

    ids: tuple[int, ...]


class SnapshotHeader(Body, frozen=True):
    """First record of a checkpoint."""


class SnapshotFooter(Body, frozen=True):
    """Last record of a checkpoint: it is complete."""


class Other(Body, frozen=True):
    """A record that says nothing about features or nodes."""

    type: str


class Undecodable(Body, frozen=True):
    """A line that cannot be read, and why."""

    text: str


class Record(Struct, frozen=True, gc=False):
    """One record; `offset` None where the tool was told to leave it out, or it is damaged."""

    offset: int | None
    body: Body


LogItem = Dumping | LogStart | SnapshotStart | BootstrapStart | RecordBatch | Record | LeftOut


class _Feature(Struct, frozen=True, gc=False, rename="camel"):
    name: FilledText
    min_supported_version: Level
    max_supported_version: Level


_Features = Annotated[list[_Feature], Meta(description="a list of features")]


class _Broker(Struct, frozen=True, gc=False, rename="camel"):
    broker_id: NodeId
    features: _Features
    fenced: Truth
    is_migrating_zk_broker: Truth = False

    def body(self) -> RegisterBroker:
        features = _ranges(self.features)
        return RegisterBroker(self.broker_id, self.fenced, features, self.is_migrating_zk_broker)


class _Controller(Struct, frozen=True, gc=False, rename="camel"):
    controller_id: NodeId
    features: _Features

    def body(self) -> RegisterController:
        return RegisterController(self.controller_id, _ranges(self.features))


class _Voter(Struct, frozen=True, gc=False, rename="camel"):
    voter_id: NodeId


class _Voters(Struct, frozen=True, gc=False):
    voters: Annotated[list[_Voter], Meta(description="a list of voters")]

    def body(self) -> KRaftVoters:
        return KRaftVoters(tuple(sorted({voter.voter_id for voter in self.voters})))


class _LeaderChange(Struct, frozen=True, gc=False):
    def body(self) -> Other:
        return Other("LeaderChange")


def _ranges(features: Iterable[_Feature]) -> Ranges:
    ranges = ((one.name, one.min_supported_version, one.max_supported_version) for one in features)
    return ordered(ranges, "features")


_S = TypeVar("_S")
_Reader = Callable[[bytes], Body]


def _reader(shape: type[_S], body: Callable[[_S], Body]) -> _Reader:
    decoder = msgspec.json.Decoder(shape)

    def read(raw: bytes) -> Body:
        try:
            return body(decoder.decode(raw))
        except msgspec.ValidationError as error:
            raise misfit(raw, shape, error) from None

    return read


def _itself(body: Body) -> Body:
    return body


_RECORDS: dict[str, _Reader] = {
    "FEATURE_LEVEL_RECORD": _reader(FeatureLevelRecord, _itself),
    "REGISTER_BROKER_RECORD": _reader(_Broker, _Broker.body),
    "UNREGISTER_BROKER_RECORD": _reader(UnregisterBroker, _itself),
    "BROKER_REGISTRATION_CHANGE_RECORD": _reader(RegistrationChange, _itself),
    "FENCE_BROKER_RECORD": _reader(FenceBroker, _itself),
    "UNFENCE_BROKER_RECORD": _reader(UnfenceBroker, _itself),
    "REGISTER_CONTROLLER_RECORD": _reader(_Controller, _Controller.body),
    "UNREGISTER_CONTROLLER_RECORD": _reader(UnregisterController, _itself),
    "BEGIN_TRANSACTION_RECORD": _reader(BeginTransaction, _itself),
    "END_TRANSACTION_RECORD": _reader(EndTransaction, _itself),
    "ABORT_TRANSACTION_RECORD": _reader(AbortTransaction, _itself),
    "ZK_MIGRATION_STATE_RECORD": _reader(ZkMigrationState, _itself),
}
_CONTROLS: dict[str, _Reader] = {
    "SnapshotHeader": _reader(SnapshotHeader, _itself),
    "SnapshotFooter": _reader(SnapshotFooter, _itself),
    "KRaftVersion": _reader(KRaftVersion, _itself),
    "KRaftVoters": _reader(_Voters, _Voters.body),
    "LeaderChange": _reader(_LeaderChange, _LeaderChange.body),
}


class _Payload(Struct, frozen=True, gc=False):
    type: FilledText
    data: msgspec.Raw


_PAYLOAD_JSON = msgspec.json.Decoder(_Payload)
_CONTROL = re.compile(rf" ({'|'.join(_CONTROLS)}):? (\S.*)")
_NAMED_CONTROL = re.compile(r" controlType: (\w+)\(-?\d+\)")
# Named by a tool that does not know what they hold.
_HIDDEN = frozenset({"KRAFT_VERSION", "KRAFT_VOTERS", "UNKNOWN"})
_RECORD = "| offset: "
_PAYLOAD = " payload: "
_IDLE = '{"type":"NO_OP_RECORD"'  # two a second on an idle cluster: most lines of most logs
_IDLE_BODY = Other("NO_OP_RECORD")
_BATCH = re.compile(
    r"baseOffset: (\d{1,18}) lastOffset: (\d{1,18}) count: (\d{1,10}) .*"
    r"isControl: (true|false) .*isvalid: true",
    re.ASCII,
)
_OFFSET = re.compile(r"\d{1,18}", re.ASCII)  # well within an int64
_SNAPSHOT_START = "Snapshot end offset: "
_LEFT_OUT = re.compile(
    r"featurelib: left out (\d{1,18}) lines?(?:, offsets? (\d{1,18})(?: to (\d{1,18}))?)?\.",
    re.ASCII,
)
_LOG_STARTS = ("Log starting offset: ", "Starting offset: ")


def parse_line(line: str) -> LogItem | None:
    """What the line says; None if it carries nothing (blank, prompts, errors of the tool).

    Source: Kafka, DumpLogSegments.
    """
    if line.startswith(_RECORD):
        return _record(line)
    if line.startswith("baseOffset: "):
        return _batch(line)
    if line.startswith(" "):
        body = _body(line, 0)
        return None if body is None else Record(None, body)
    return _heading(line)


def _record(line: str) -> Record:
    end = line.find(" ", len(_RECORD))
    digits = line[len(_RECORD) : end]
    if not _OFFSET.fullmatch(digits):
        return _unread(line)
    return Record(int(digits), _body(line, end) or _undecodable(line))


def _body(line: str, start: int) -> Body | None:
    """The record that follows `start`; None if none does."""
    at = line.find(_PAYLOAD, start)
    text = at + len(_PAYLOAD)
    if at >= 0 and line.startswith(_IDLE, text) and line.endswith("}}"):
        return _IDLE_BODY
    try:
        return _control(line[start:]) if at < 0 else _payload(line[text:])
    except FaultError as fault:
        return Undecodable(str(fault))


def _batch(line: str) -> RecordBatch | Record:
    found = _BATCH.match(line)
    if not found:
        return _unread(line)
    base, last, count, is_control = found.groups()
    return RecordBatch(int(base), int(last), int(count), is_control == "true")


def _heading(line: str) -> LogItem | None:
    if line.startswith("Dumping "):
        return Dumping(line.removeprefix("Dumping "))
    if line.startswith("KRaft bootstrap snapshot"):
        return BootstrapStart()
    if line.startswith("featurelib: "):
        return _left_out(line)
    for start in _LOG_STARTS:
        if line.startswith(start):
            offset = _OFFSET.fullmatch(line.removeprefix(start).rstrip())
            return LogStart(int(offset[0])) if offset else _unread(line)
    if line.startswith(_SNAPSHOT_START):
        offset = _OFFSET.match(line, len(_SNAPSHOT_START))
        is_whole = offset and line.startswith(", epoch: ", offset.end())
        return SnapshotStart(int(offset[0])) if offset and is_whole else _unread(line)
    return _unread(line) if line.startswith("|") else None


def left_out(item: LeftOut) -> str:
    """The line that stands for lines a collector kept back; `parse_line` reads it."""
    text = f"featurelib: left out {item.lines} line{'' if item.lines == 1 else 's'}"
    if item.first is None:
        return f"{text}."
    if item.first == item.last:
        return f"{text}, offset {item.first}."
    return f"{text}, offsets {item.first} to {item.last}."


def _left_out(line: str) -> LeftOut | Record:
    found = _LEFT_OUT.fullmatch(line)
    if not found:
        return _unread(line)
    lines = int(found[1])
    first = None if found[2] is None else int(found[2])
    last = first if found[3] is None else int(found[3])
    possible = first is None or last is None or 0 <= last - first < lines
    return LeftOut(lines, first, last) if lines and possible else _unread(line)


def _unread(line: str) -> Record:
    return Record(None, _undecodable(line))


def _undecodable(line: str) -> Undecodable:
    return Undecodable(f"expected a whole line of kafka-dump-log, found {show(line)}")


def _payload(text: str) -> Body:
    """The record of `{"type":…,"version":…,"data":{…}}`; FaultError if it cannot be read."""
    raw = text.encode(errors="replace")
    try:
        record = _PAYLOAD_JSON.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        if isinstance(error, msgspec.ValidationError):
            with suppress(msgspec.DecodeError):  # what follows the misfit may be no JSON
                raise misfit(raw, _Payload, error) from None
        raise FaultError(f"expected the JSON of a record, found {show(text)}") from None
    read = _RECORDS.get(record.type)
    return read(bytes(record.data)) if read else Other(record.type)


def _control(text: str) -> Body | None:
    """The control record `text` ends with, None if there is none; FaultError for damage."""
    if found := _CONTROL.search(text):
        kind, raw = found[1], found[2].encode(errors="replace")
        try:
            return _CONTROLS[kind](raw)
        except (msgspec.DecodeError, RecursionError):
            raise FaultError(f"expected the JSON of {kind}, found {show(found[2])}") from None
    if found := _NAMED_CONTROL.search(text):
        if found[1] in _HIDDEN:
            raise FaultError(
                f"expected what the control record {found[1]} holds, found its name only"
            )
        return Other(found[1])
    return None
