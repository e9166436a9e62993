"""The records of the metadata log that tell of features and nodes, read from their JSON.

Keys are those of Kafka's record schemas; all other records are named and not looked into.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from featurelib.landing.fault import FaultError, show
from featurelib.landing.log_items import (
    AbortTransaction,
    BeginTransaction,
    Body,
    EndTransaction,
    FeatureLevel,
    FenceBroker,
    KRaftVersion,
    KRaftVoters,
    Other,
    RegisterBroker,
    RegisterController,
    RegistrationChange,
    SnapshotFooter,
    SnapshotHeader,
    UnfenceBroker,
    UnregisterBroker,
    UnregisterController,
    ZkMigrationState,
)
from featurelib.landing.ranges import Ranges, ordered
from featurelib.landing.shape import misfit
from featurelib.landing.wire import FilledText, Int16, Level, NodeId, Truth


class _Data(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The `data` of a record, or the text of a control record."""


class _Feature(_Data, frozen=True, gc=False):
    name: FilledText
    min_supported_version: Level
    max_supported_version: Level


_FeatureList = Annotated[list[_Feature], Meta(description="a list of features")]


class _FeatureLevel(_Data, frozen=True, gc=False):
    name: FilledText
    feature_level: Level


class _RegisterBroker(_Data, frozen=True, gc=False):
    broker_id: NodeId
    features: _FeatureList
    fenced: Truth
    is_migrating_zk_broker: Truth = False


class _Broker(_Data, frozen=True, gc=False):
    broker_id: NodeId


class _Fence(_Data, frozen=True, gc=False):
    id: NodeId


class _Change(_Data, frozen=True, gc=False):
    broker_id: NodeId
    fenced: Annotated[int, Meta(ge=-1, le=1, description="-1, 0 or 1")] = 0


class _Controller(_Data, frozen=True, gc=False):
    controller_id: NodeId


class _RegisterController(_Controller, frozen=True, gc=False):
    features: _FeatureList


class _Migration(_Data, frozen=True, gc=False):
    zk_migration_state: Int16


class _KRaftVersion(_Data, frozen=True, gc=False, rename={"level": "kRaftVersion"}):
    level: Level


class _Voter(_Data, frozen=True, gc=False):
    voter_id: NodeId


class _KRaftVoters(_Data, frozen=True, gc=False):
    voters: Annotated[list[_Voter], Meta(description="a list of voters")]


_S = TypeVar("_S", bound=_Data)
_Reader = Callable[[bytes], Body]


def _reader(shape: type[_S], make: Callable[[_S], Body]) -> _Reader:
    decoder = msgspec.json.Decoder(shape)

    def read(raw: bytes) -> Body:
        try:
            return make(decoder.decode(raw))
        except msgspec.ValidationError as error:
            raise misfit(raw, shape, error) from None

    return read


def _ranges(features: Iterable[_Feature]) -> Ranges:
    ranges = ((one.name, one.min_supported_version, one.max_supported_version) for one in features)
    return ordered(ranges, "features")


def _registered(data: _RegisterBroker) -> RegisterBroker:
    features = _ranges(data.features)
    return RegisterBroker(data.broker_id, data.fenced, features, data.is_migrating_zk_broker)


_RECORDS: dict[str, _Reader] = {
    "FEATURE_LEVEL_RECORD": _reader(
        _FeatureLevel, lambda data: FeatureLevel(data.name, data.feature_level)
    ),
    "REGISTER_BROKER_RECORD": _reader(_RegisterBroker, _registered),
    "UNREGISTER_BROKER_RECORD": _reader(_Broker, lambda data: UnregisterBroker(data.broker_id)),
    "BROKER_REGISTRATION_CHANGE_RECORD": _reader(
        _Change, lambda data: RegistrationChange(data.broker_id, data.fenced)
    ),
    "FENCE_BROKER_RECORD": _reader(_Fence, lambda data: FenceBroker(data.id)),
    "UNFENCE_BROKER_RECORD": _reader(_Fence, lambda data: UnfenceBroker(data.id)),
    "REGISTER_CONTROLLER_RECORD": _reader(
        _RegisterController,
        lambda data: RegisterController(data.controller_id, _ranges(data.features)),
    ),
    "UNREGISTER_CONTROLLER_RECORD": _reader(
        _Controller, lambda data: UnregisterController(data.controller_id)
    ),
    "BEGIN_TRANSACTION_RECORD": _reader(_Data, lambda data: BeginTransaction()),
    "END_TRANSACTION_RECORD": _reader(_Data, lambda data: EndTransaction()),
    "ABORT_TRANSACTION_RECORD": _reader(_Data, lambda data: AbortTransaction()),
    "ZK_MIGRATION_STATE_RECORD": _reader(
        _Migration, lambda data: ZkMigrationState(data.zk_migration_state)
    ),
}
_CONTROLS: dict[str, _Reader] = {
    "SnapshotHeader": _reader(_Data, lambda data: SnapshotHeader()),
    "SnapshotFooter": _reader(_Data, lambda data: SnapshotFooter()),
    "KRaftVersion": _reader(_KRaftVersion, lambda data: KRaftVersion(data.level)),
    "KRaftVoters": _reader(
        _KRaftVoters,
        lambda data: KRaftVoters(tuple(sorted({voter.voter_id for voter in data.voters}))),
    ),
    "LeaderChange": _reader(_Data, lambda data: Other("LeaderChange")),
}


class _Payload(msgspec.Struct, frozen=True, gc=False):
    type: FilledText
    data: msgspec.Raw


_PAYLOAD = msgspec.json.Decoder(_Payload)
_CONTROL = re.compile(rf" ({'|'.join(_CONTROLS)}):? (\S.*)")
_NAMED_CONTROL = re.compile(r" controlType: (\w+)\(-?\d+\)")
# Named by a tool that does not know what they hold.
_HIDDEN = frozenset({"KRAFT_VERSION", "KRAFT_VOTERS", "UNKNOWN"})


def payload(text: str) -> Body:
    """The record of `{"type":…,"version":…,"data":{…}}`; FaultError if it cannot be read."""
    raw = text.encode(errors="replace")
    try:
        record = _PAYLOAD.decode(raw)
    except msgspec.ValidationError as error:
        raise misfit(raw, _Payload, error) from None
    except (msgspec.DecodeError, RecursionError):
        raise FaultError(f"expected the JSON of a record, found {show(text)}") from None
    read = _RECORDS.get(record.type)
    return read(bytes(record.data)) if read else Other(record.type)


def control(text: str) -> Body | None:
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
