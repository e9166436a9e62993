"""What a line of the metadata log's dump says, in both of its forms, and when it is damaged."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from featurelib.landing.metadata_log import (
    AbortTransaction,
    BeginTransaction,
    Body,
    BootstrapStart,
    Dumping,
    EndTransaction,
    FeatureLevelRecord,
    FenceBroker,
    KRaftVersion,
    KRaftVoters,
    LogItem,
    LogStart,
    Other,
    Record,
    RecordBatch,
    RegisterBroker,
    RegisterController,
    RegistrationChange,
    SnapshotFooter,
    SnapshotHeader,
    SnapshotStart,
    Undecodable,
    UnfenceBroker,
    UnregisterBroker,
    UnregisterController,
    ZkMigrationState,
    parse_line,
)
from tests.landing.test_read import LINES

PREFIX = (
    "| offset: 53 CreateTime: 1710772983743 keySize: -1 valueSize: 308 sequence: -1 headerKeys: []"
)
BATCH = (
    "baseOffset: 4 lastOffset: 6 count: 3 baseSequence: -1 lastSequence: -1 producerId: -1 "
    "producerEpoch: -1 partitionLeaderEpoch: 1 isTransactional: false isControl: false "
    "deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 1795240165440 size: 91 magic: 2 "
    "compresscodec: none crc: 725159229 isvalid: true"
)
FEATURES = (
    '"features":[{"name":"m","minSupportedVersion":1,"maxSupportedVersion":19},'
    '{"name":"g","minSupportedVersion":0,"maxSupportedVersion":1}]'
)
RANGES = (("g", 0, 1), ("m", 1, 19))
RECORDS: list[tuple[str, str, Body]] = [
    ("FEATURE_LEVEL_RECORD", '{"name":"m","featureLevel":25}', FeatureLevelRecord("m", 25)),
    (
        "REGISTER_BROKER_RECORD",
        '{"brokerId":3,"isMigratingZkBroker":true,' + FEATURES + ',"rack":null,"fenced":true}',
        RegisterBroker(3, True, RANGES, True),
    ),
    (
        "REGISTER_BROKER_RECORD",
        '{"brokerId":3,"features":[],"fenced":false}',
        RegisterBroker(3, False, (), False),
    ),
    ("UNREGISTER_BROKER_RECORD", '{"brokerId":3,"brokerEpoch":9}', UnregisterBroker(3)),
    ("BROKER_REGISTRATION_CHANGE_RECORD", '{"brokerId":3,"fenced":-1}', RegistrationChange(3, -1)),
    ("BROKER_REGISTRATION_CHANGE_RECORD", '{"brokerId":3}', RegistrationChange(3, 0)),
    ("FENCE_BROKER_RECORD", '{"id":3,"epoch":9}', FenceBroker(3)),
    ("UNFENCE_BROKER_RECORD", '{"id":3,"epoch":9}', UnfenceBroker(3)),
    (
        "REGISTER_CONTROLLER_RECORD",
        '{"controllerId":3,' + FEATURES + "}",
        RegisterController(3, RANGES),
    ),
    ("UNREGISTER_CONTROLLER_RECORD", '{"controllerId":3}', UnregisterController(3)),
    ("BEGIN_TRANSACTION_RECORD", '{"name":"Bootstrap records"}', BeginTransaction()),
    ("END_TRANSACTION_RECORD", "{}", EndTransaction()),
    ("ABORT_TRANSACTION_RECORD", '{"reason":"x"}', AbortTransaction()),
    ("ZK_MIGRATION_STATE_RECORD", '{"zkMigrationState":2}', ZkMigrationState(2)),
    ("NO_OP_RECORD", "{}", Other("NO_OP_RECORD")),
    ("CONFIG_RECORD", '{"value":" payload: "}', Other("CONFIG_RECORD")),
]
CONTROLS: list[tuple[str, Body]] = [
    ('SnapshotHeader {"version":0,"lastContainedLogTimestamp":0}', SnapshotHeader()),
    ('SnapshotFooter {"version":0}', SnapshotFooter()),
    ('KRaftVersion {"version":0,"kRaftVersion":1}', KRaftVersion(1)),
    ('KRaftVoters {"version":0,"voters":[{"voterId":3},{"voterId":1}]}', KRaftVoters((1, 3))),
    ('LeaderChange: {"version":0,"leaderId":1}', Other("LeaderChange")),
    ("controlType: LEADER_CHANGE(2)", Other("LEADER_CHANGE")),
]


def payload(kind: str, data: str) -> str:
    return f' payload: {{"type":"{kind}","version":0,"data":{data}}}'


def undecodable(item: LogItem | None) -> str:
    assert isinstance(item, Record)
    assert isinstance(item.body, Undecodable)
    return item.body.text


@pytest.mark.parametrize(("kind", "data", "body"), RECORDS)
def test_record_is_read_with_and_without_its_metadata(kind: str, data: str, body: Body) -> None:
    assert parse_line(PREFIX + payload(kind, data)) == Record(53, body)
    assert parse_line(payload(kind, data)) == Record(None, body)


@pytest.mark.parametrize(("text", "body"), CONTROLS)
def test_control_record_is_read(text: str, body: Body) -> None:
    assert parse_line(f"{PREFIX} {text}") == Record(53, body)
    assert parse_line(f" {text}") == Record(None, body)


@pytest.mark.parametrize(
    ("line", "item"),
    [
        ("Dumping node1/logs/x.log", Dumping("node1/logs/x.log")),
        ("Log starting offset: 70", LogStart(70)),
        ("Starting offset: 70", LogStart(70)),
        ("Snapshot end offset: 12, epoch: 1", SnapshotStart(12)),
        ("KRaft bootstrap snapshot", BootstrapStart()),
        (BATCH, RecordBatch(4, 6, 3, False)),
        (BATCH.replace("isControl: false", "isControl: true"), RecordBatch(4, 6, 3, True)),
    ],
)
def test_heading_is_read(line: str, item: LogItem) -> None:
    assert parse_line(line) == item


@pytest.mark.parametrize(
    "line", ["", " ", "$ kafka-dump-log.sh", "Exception in thread main", "\tat kafka.X", " a b"]
)
def test_line_without_evidence_is_nothing(line: str) -> None:
    assert parse_line(line) is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (PREFIX, "whole line"),
        (PREFIX + " payload: Error at 53, skipping. Unknown", "found Error at 53"),
        (PREFIX + payload("FEATURE_LEVEL_RECORD", '{"name":"m"}'), "featureLevel is missing"),
        (PREFIX + payload("FEATURE_LEVEL_RECORD", '{"name":"m","featureLevel":40000}'), "40000"),
        (PREFIX + payload("FEATURE_LEVEL_RECORD", "[]"), "expected an object"),
        (PREFIX + payload("FENCE_BROKER_RECORD", '{"id":-1}'), "id: expected a whole number"),
        (PREFIX + payload("ZK_MIGRATION_STATE_RECORD", "null"), "found null"),
        (PREFIX + payload("UNREGISTER_CONTROLLER_RECORD", "{}"), "controllerId is missing"),
        (PREFIX + payload("UNREGISTER_CONTROLLER_RECORD", '{"brokerId":2}'), "controllerId"),
        (PREFIX + payload("UNREGISTER_CONTROLLER_RECORD", '{"controllerId":"2"}'), "found"),
        (PREFIX + payload("UNREGISTER_CONTROLLER_RECORD", '{"controllerId":-2}'), "found -2"),
        (PREFIX + payload("UNREGISTER_CONTROLLER_RECORD", '{"controllerId":2}')[:-2], "JSON of"),
        (PREFIX + ' payload: {"version":0,"data":{}}', "type is missing"),
        (PREFIX + payload("NO_OP_RECORD", "{}")[:-1], "JSON of a record"),
        (PREFIX + payload("X", '"\ud800"')[:-1], "JSON of a record"),
        (PREFIX + " controlType: KRAFT_VERSION(5)", "KRAFT_VERSION"),
        (PREFIX + " controlType: UNKNOWN(-1)", "its name only"),
        (PREFIX + ' KRaftVersion {"version":0', "JSON of KRaftVersion"),
        (PREFIX + ' KRaftVersion {"version":0}', "kRaftVersion is missing"),
        ("| offset: x CreateTime: 1", "whole line"),
        ("| offset: " + "9" * 30 + " CreateTime: 1", "whole line"),
        ("| offset: ", "whole line"),
        ("| off", "whole line"),
        (BATCH[:30], "whole line"),
        (BATCH.replace("isvalid: true", "isvalid: false"), "whole line"),
        ("Log starting offset: x", "whole line"),
        ("Snapshot end offset: 5", "whole line"),
        ("Snapshot end offset: x, epoch: 1", "whole line"),
    ],
)
def test_damage_is_told_and_never_raised(line: str, words: str) -> None:
    assert words in undecodable(parse_line(line))


@pytest.mark.parametrize("old", ['"maxSupportedVersion":19', '"name":"g"'])
def test_registration_that_is_no_range_is_undecodable(old: str) -> None:
    new = {'"maxSupportedVersion":19': '"maxSupportedVersion":0', '"name":"g"': '"name":"m"'}[old]
    data = '{"controllerId":3,' + FEATURES.replace(old, new) + "}"
    assert '"m"' in undecodable(parse_line(payload("REGISTER_CONTROLLER_RECORD", data)))


def test_every_record_of_the_samples_is_read() -> None:
    lines = [json.loads(line)["line"] for line in LINES if b'"metadata_log"' in line]
    assert len(lines) > 1000
    items = [parse_line(line) for line in lines]
    assert [item for item in items if isinstance(item, Record) and _is_damaged(item)] == []
    assert RegisterBroker in {type(item.body) for item in items if isinstance(item, Record)}


def _is_damaged(item: Record) -> bool:
    return isinstance(item.body, Undecodable)


_WHOLE = [BATCH, "Log starting offset: 0", *(PREFIX + payload(k, d) for k, d, _ in RECORDS)]


@settings(deadline=None)
@given(st.sampled_from(_WHOLE), st.data())
def test_no_damage_makes_it_raise(line: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(line)))
    end = data.draw(st.integers(at, len(line)))
    middle = data.draw(st.text(st.characters(), max_size=4))
    parse_line(line[:at] + middle + line[end:])


@settings(deadline=None)
@given(st.text(st.characters()))
def test_no_text_makes_it_raise(line: str) -> None:
    parse_line(line)
    parse_line(" payload: " + line)
    parse_line(' payload: {"type":0' + line)
