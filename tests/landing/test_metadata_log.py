"""What a line of the metadata log's dump says, in both of its forms, and when it is damaged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from featurelib.landing.metadata_log import (
    DAMAGED,
    FOOTER,
    OTHER,
    LogItem,
    Record,
    RecordBatch,
    Start,
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
# Type, data, and what is read of it: kind, number, name, features, fenced.
RECORDS: list[tuple[str, str, tuple[Any, ...]]] = [
    ("FEATURE_LEVEL_RECORD", '{"name":"m","featureLevel":25}', ("level", 25, "m")),
    (
        "REGISTER_BROKER_RECORD",
        '{"brokerId":3,"isMigratingZkBroker":true,' + FEATURES + ',"rack":null,"fenced":true}',
        ("broker", 3, "", RANGES, 1),
    ),
    (
        "REGISTER_BROKER_RECORD",
        '{"brokerId":3,"features":[],"fenced":false}',
        ("broker", 3, "", (), 0),
    ),
    ("UNREGISTER_BROKER_RECORD", '{"brokerId":3,"brokerEpoch":9}', ("unregister", 3)),
    (
        "BROKER_REGISTRATION_CHANGE_RECORD",
        '{"brokerId":3,"fenced":1}',
        ("change", 3, "", None, 1),
    ),
    ("BROKER_REGISTRATION_CHANGE_RECORD", '{"brokerId":3}', ("change", 3, "", None, 0)),
    ("FENCE_BROKER_RECORD", '{"id":3,"epoch":9}', ("fence", 3)),
    ("UNFENCE_BROKER_RECORD", '{"id":3,"epoch":9}', ("unfence", 3)),
    (
        "REGISTER_CONTROLLER_RECORD",
        '{"controllerId":3,' + FEATURES + "}",
        ("controller", 3, "", RANGES),
    ),
    ("UNREGISTER_CONTROLLER_RECORD", '{"controllerId":3}', ("unregister controller", 3)),
    ("BEGIN_TRANSACTION_RECORD", '{"name":"Bootstrap records"}', ("begin",)),
    ("END_TRANSACTION_RECORD", "{}", ("end",)),
    ("ABORT_TRANSACTION_RECORD", '{"reason":"x"}', ("abort",)),
    ("ZK_MIGRATION_STATE_RECORD", '{"zkMigrationState":2}', ("migration", 2)),
    ("NO_OP_RECORD", "{}", (OTHER, 0, "NO_OP_RECORD")),
    ("CONFIG_RECORD", '{"value":" payload: "}', (OTHER, 0, "CONFIG_RECORD")),
]
CONTROLS: list[tuple[str, tuple[Any, ...]]] = [
    ('SnapshotHeader {"version":0,"lastContainedLogTimestamp":0}', (OTHER,)),
    ('SnapshotFooter {"version":0}', (FOOTER,)),
    ('KRaftVersion {"version":0,"kRaftVersion":1}', ("kraft", 1)),
    ('KRaftVoters {"version":0,"voters":[{"voterId":3},{"voterId":1}]}', (OTHER,)),
    ('LeaderChange: {"version":0,"leaderId":1}', (OTHER,)),
    ("controlType: LEADER_CHANGE(2)", (OTHER, 0, "LEADER_CHANGE")),
]


def payload(kind: str, data: str) -> str:
    return f' payload: {{"type":"{kind}","version":0,"data":{data}}}'


def is_damaged(item: LogItem | None) -> bool:
    return isinstance(item, Record) and item.kind == DAMAGED


@pytest.mark.parametrize(("kind", "data", "body"), RECORDS)
def test_record_is_read_with_and_without_its_metadata(
    kind: str, data: str, body: tuple[Any, ...]
) -> None:
    assert parse_line(PREFIX + payload(kind, data)) == Record(53, *body)
    assert parse_line(payload(kind, data)) == Record(None, *body)


@pytest.mark.parametrize(("text", "body"), CONTROLS)
def test_control_record_is_read(text: str, body: tuple[Any, ...]) -> None:
    assert parse_line(f"{PREFIX} {text}") == Record(53, *body)
    assert parse_line(f" {text}") == Record(None, *body)


@pytest.mark.parametrize(
    ("line", "item"),
    [
        ("Dumping node1/logs/x.log", Start("", 0)),
        ("Log starting offset: 70", Start("log", 70)),
        ("Starting offset: 70", Start("log", 70)),
        ("Snapshot end offset: 12, epoch: 1", Start("checkpoint", 12)),
        ("KRaft bootstrap snapshot", Start("", 0)),
        (BATCH, RecordBatch(4, 6, False)),
        (BATCH.replace("isControl: false", "isControl: true"), RecordBatch(4, 6, True)),
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
    "line",
    [
        PREFIX,
        PREFIX + " payload: Error at 53, skipping. Unknown",
        PREFIX + payload("FEATURE_LEVEL_RECORD", '{"name":"m"}'),
        PREFIX + payload("FEATURE_LEVEL_RECORD", '{"name":"m","featureLevel":40000}'),
        PREFIX + payload("FEATURE_LEVEL_RECORD", "[]"),
        PREFIX + payload("FENCE_BROKER_RECORD", '{"id":-1}'),
        PREFIX + payload("ZK_MIGRATION_STATE_RECORD", "null"),
        PREFIX + payload("UNREGISTER_CONTROLLER_RECORD", "{}"),
        PREFIX + payload("UNREGISTER_CONTROLLER_RECORD", '{"brokerId":2}'),
        PREFIX + payload("UNREGISTER_CONTROLLER_RECORD", '{"controllerId":"2"}'),
        PREFIX + payload("UNREGISTER_CONTROLLER_RECORD", '{"controllerId":-2}'),
        PREFIX + payload("UNREGISTER_CONTROLLER_RECORD", '{"controllerId":2}')[:-2],
        PREFIX + ' payload: {"version":0,"data":{}}',
        PREFIX + payload("NO_OP_RECORD", "{}")[:-1],
        PREFIX + payload("X", '"\ud800"')[:-1],
        PREFIX + " controlType: KRAFT_VERSION(5)",
        PREFIX + " controlType: UNKNOWN(-1)",
        PREFIX + ' KRaftVersion {"version":0',
        PREFIX + ' KRaftVersion {"version":0}',
        "| offset: x CreateTime: 1",
        "| offset: " + "9" * 30 + " CreateTime: 1",
        "| offset: ",
        "| off",
        BATCH[:30],
        BATCH.replace("isvalid: true", "isvalid: false"),
        "Log starting offset: x",
        "Snapshot end offset: 5",
        "Snapshot end offset: x, epoch: 1",
    ],
)
def test_damage_is_noted_and_never_raised(line: str) -> None:
    assert is_damaged(parse_line(line))


@pytest.mark.parametrize("old", ['"maxSupportedVersion":19', '"name":"g"'])
def test_registration_that_is_no_range_is_damaged(old: str) -> None:
    new = {'"maxSupportedVersion":19': '"maxSupportedVersion":0', '"name":"g"': '"name":"m"'}[old]
    data = '{"controllerId":3,' + FEATURES.replace(old, new) + "}"
    assert is_damaged(parse_line(payload("REGISTER_CONTROLLER_RECORD", data)))


def test_every_record_of_the_samples_is_read() -> None:
    lines = [json.loads(line)["line"] for line in LINES if b'"metadata_log"' in line]
    assert len(lines) > 1000
    items = [parse_line(line) for line in lines]
    kinds = {item.kind for item in items if isinstance(item, Record)}
    assert DAMAGED not in kinds
    assert {"broker", "controller", "level"} <= kinds


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
