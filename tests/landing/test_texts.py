"""What the text of a znode, a line of `kafka-features.sh describe` and a line of a dump of the
metadata log say, damaged ones too."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from featurelib.landing.kinds import ToolFeature, broker_id, controller, registration, tool_feature
from featurelib.landing.metadata_log import (
    DAMAGED,
    FOOTER,
    LogItem,
    Record,
    RecordBatch,
    Start,
    parse_line,
)
from featurelib.landing.strict import FaultError
from tests.landing.test_read import LINES

RANGE = '{"min_version":1,"max_version":4}'
TAB = (
    "Feature: metadata.version\tSupportedMinVersion: 3.0-IV1\tSupportedMaxVersion: UNKNOWN [11]"
    "\tFinalizedVersionLevel: 3.3-IV3\tEpoch: 27"
)
PADDED = (
    f"Feature: {'kraft.version':<40}  SupportedMinVersion: {'0':<15}  "
    f"SupportedMaxVersion: {'1':<15}  FinalizedVersionLevel: {'UNKNOWN 33':<15}  Epoch: 21"
)
WITH_MINIMUM = (
    "Feature: geo\tSupportedMinVersion: 2\tSupportedMaxVersion: 5\t"
    "FinalizedMinVersionLevel: 3\tFinalizedMaxVersionLevel: 4\tEpoch: 1"
)
ABSENT = WITH_MINIMUM.replace(": 3", ": -").replace(": 4", ": -").replace("Epoch: 1", "Epoch: -")


def features(text: str) -> str:
    return f'{{"version":5,"features":{text}}}'


def test_a_registration_lists_ranges_by_feature_or_no_features_at_all() -> None:
    zero = '{"min_version":0,"max_version":0}'
    data = f'{{"features":{{"g":{RANGE},"a":{zero}}},"version":5,"port":1}}'
    assert registration(data) == (("a", 0, 0), ("g", 1, 4))
    assert registration('{"version":4}') is registration('{"version":4,"features":null}') is None
    assert registration('{"version":4,"features":{}}') == ()


@pytest.mark.parametrize(
    "data",
    [
        *("", "{", "[]", "\ud800", "[" * 9999, '{"features":{}}', '{"version":0}'),
        *('{"version":"5"}', features("[]"), features('{"g":7}')),
        features('{"g":{"min_version":1}}'),
        features('{"g":' + RANGE.replace("4", "65537") + "}"),
        features('{"g":' + RANGE.replace("4", "0") + "}"),
        features('{"":' + RANGE + "}"),
    ],
)
def test_a_registration_that_cannot_be_read_is_damaged(data: str) -> None:
    with pytest.raises(FaultError):
        registration(data)


def test_every_text_of_the_samples_is_read() -> None:
    nodes = [json.loads(line) for line in LINES if b'"path":"/brokers/ids/' in line]
    assert len([registration(node["data"]) for node in nodes if node["data"]]) > 20
    tool = [json.loads(line)["line"] for line in LINES if b'"features_describe"' in line]
    shown = [tool_feature(line) for line in tool if line.startswith("Feature: ")]
    assert len(shown) > 100
    assert None not in shown


def test_path_of_a_registration_names_its_broker() -> None:
    assert broker_id("/brokers/ids/17") == 17
    assert broker_id("/brokers/ids/2147483648") is None
    assert broker_id("/feature") is None


@pytest.mark.parametrize(
    ("data", "node_id"),
    [('{"version":1,"brokerid":7}', 7), (None, -1), ("", -1), ("{", -1), ("[]", -1),
     ('{"brokerid":"7"}', -1), ("\ud800", -1), ("[" * 9999, -1)],
)  # fmt: skip
def test_who_is_the_controller_by_its_znode(data: str | None, node_id: int) -> None:
    assert controller(data) == node_id


@settings(deadline=None)
@given(st.text(st.characters()), st.booleans())
def test_no_text_raises_anything_else(data: str, inside: bool) -> None:
    with contextlib.suppress(FaultError):
        registration('{"version":5,"features":' + data if inside else data)


@pytest.mark.parametrize(
    ("line", "feature"),
    [
        (TAB, ToolFeature("metadata.version", "3.3-IV3", None, 27)),
        (PADDED, ToolFeature("kraft.version", "UNKNOWN 33", None, 21)),
        (WITH_MINIMUM, ToolFeature("geo", "4", "3", 1)),
        (ABSENT, ToolFeature("geo", "-", "-", None)),
        *((line, None) for line in ("", "--- stderr", TAB[:40], TAB + "x", "x" + TAB)),
        *((line, None) for line in (TAB.replace("27", "x"), TAB.replace("\t", " "))),
    ],
)
def test_a_line_of_the_tool_tells_of_a_feature_or_of_none(
    line: str, feature: ToolFeature | None
) -> None:
    assert tool_feature(line) == feature


# One line of kafka-dump-log.

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
RECORD = "FEATURE_LEVEL_RECORD", '{"name":"m","featureLevel":25}'


def payload(kind: str, data: str) -> str:
    return f' payload: {{"type":"{kind}","version":0,"data":{data}}}'


def is_damaged(item: LogItem | None) -> bool:
    return isinstance(item, Record) and item.kind == DAMAGED


def test_a_record_is_read_with_and_without_its_metadata() -> None:
    level = ("level", 25, "m")
    assert parse_line(PREFIX + payload(*RECORD)) == Record(53, *level)
    assert parse_line(payload(*RECORD)) == Record(None, *level)
    data = '{"brokerId":3,"isMigratingZkBroker":true,' + FEATURES + ',"rack":null,"fenced":true}'
    found = parse_line(payload("REGISTER_BROKER_RECORD", data))
    assert found == Record(None, "broker", 3, "", RANGES, 1)
    assert parse_line(PREFIX + ' SnapshotFooter {"version":0}') == Record(53, FOOTER)
    assert parse_line(BATCH) == RecordBatch(4, 6, False)
    assert parse_line("Snapshot end offset: 12, epoch: 1") == Start("checkpoint", 12)


@pytest.mark.parametrize(
    "line", ["", " ", "$ kafka-dump-log.sh", "Exception in thread main", "\tat kafka.X", " a b"]
)
def test_a_line_of_a_dump_without_evidence_is_nothing(line: str) -> None:
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
    items = [parse_line(json.loads(line)["line"]) for line in LINES if b'"metadata_log"' in line]
    kinds = {item.kind for item in items if isinstance(item, Record)}
    assert DAMAGED not in kinds
    assert {"broker", "controller", "level"} <= kinds


@settings(deadline=None)
@given(st.sampled_from([BATCH, "Log starting offset: 0", PREFIX + payload(*RECORD)]), st.data())
def test_no_damage_of_a_dump_makes_it_raise(line: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(line)))
    end = data.draw(st.integers(at, len(line)))
    middle = data.draw(st.text(st.characters(), max_size=4))
    parse_line(line[:at] + middle + line[end:])
    parse_line(' payload: {"type":0' + middle)
