"""What an accepted line says, exactly; what the text of a znode, a line of the features tool and a
line of a dump of the metadata log say, damaged ones too; and that nothing makes them raise."""

from __future__ import annotations

import contextlib
import json
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from featurelib.feature import Role
from featurelib.landing import (
    ApiVersionsAnswer,
    ClusterDescription,
    Landing,
    LogLine,
    Quarantined,
    QuorumDescription,
    Znode,
    read,
)
from featurelib.landing.kinds import (
    NodeDescription,
    ToolFeature,
    broker_id,
    controller,
    registration,
    tool_feature,
)
from featurelib.landing.line import decode
from featurelib.landing.metadata_log import (
    DAMAGED,
    FOOTER,
    LogItem,
    Record,
    RecordBatch,
    Start,
    parse_line,
)
from featurelib.landing.strict import FaultError, is_retold, require_strict
from tests.core import scale
from tests.laboratory import LABORATORY
from tests.landing.corpus import API, AT, CLUSTER, FAILED, GOOD, LOG, QUORUM, ZNODE, swap

SAMPLES = LABORATORY
LINES = [
    line
    for file in sorted(SAMPLES.glob("*/landing.jsonl"))
    for line in file.read_bytes().splitlines()
]
NOW = 1_795_240_173_229_000  # AT in microseconds


def accepted(raw: bytes | str) -> Landing:
    verdict = read(raw if isinstance(raw, bytes) else raw.encode())
    assert isinstance(verdict, Landing), verdict
    return verdict


def answer(raw: bytes | str) -> ApiVersionsAnswer:
    content = accepted(raw).content
    assert isinstance(content, ApiVersionsAnswer)
    return content


def test_every_line_of_every_sample_is_accepted() -> None:
    assert len(LINES) > 1800
    assert [verdict for line in LINES if isinstance(verdict := read(line), Quarantined)] == []


def test_spelling_of_a_line_changes_nothing() -> None:
    for line in LINES:
        spelled = json.dumps(dict(reversed(json.loads(line).items())), indent=1).encode()
        assert read(spelled) == read(line)


def test_answer_of_a_node_is_read() -> None:
    found = accepted(API)
    assert (found.kind, found.cluster, found.observed_at) == ("api_versions", "c1", NOW)
    assert found.content == ApiVersionsAnswer(
        1, Role.BROKER, "h:9092", 4, 4, None, 5, (("f", 0, 2),), (("f", 1, 1),), (), False
    )


def test_long_lists_are_read_like_short_ones() -> None:
    items = [{"name": f"f{n:04}", "min_version": 0, "max_version": n} for n in range(900)]
    raw = swap(API, '[{"name":"f","min_version":0,"max_version":2}]', json.dumps(items))
    assert answer(raw).supported == tuple((f"f{n:04}", 0, n) for n in range(900))


@pytest.mark.parametrize(
    "raw",
    [
        swap(API, '"error_code":0', '"error_code":35'),
        swap(FAILED, '"error":"refused"', '"error_code":35'),
    ],
)
def test_error_code_is_no_answer_with_empty_lists(raw: bytes) -> None:
    assert answer(raw) == answer(swap(FAILED, "refused", "error code 35"))


def test_unknown_keys_are_ignored() -> None:
    more = ',"x":{"y":[{"z":1}]}}'
    assert read(swap(API, "false}", "false" + more)) == read(API.encode())
    long = ',"x":{"y":"' + "z" * 20_000 + '"}}'
    assert read(swap(API, "false}", "false" + long)) == read(API.encode())


def test_requests_that_a_node_offers_are_read_by_key() -> None:
    keys = '[{"api_key":18,"min_version":0,"max_version":4,"x":1},'
    keys += '{"api_key":3,"min_version":0,"max_version":12}]'
    line = read(swap(API, "false}", f'false,"api_keys":{keys}}}'))
    assert isinstance(line, Landing)
    assert isinstance(line.content, ApiVersionsAnswer)
    assert line.content.offers == ((3, 0, 12), (18, 0, 4))


def test_an_answer_below_version_3_may_show_requests_alone() -> None:
    keys = '"api_keys":[{"api_key":3,"min_version":0,"max_version":12}]'
    alone = FAILED.replace('"error":"refused"', keys).replace('on":4', 'on":2')
    said = answer(alone)
    assert (said.offers, said.supported, said.epoch, said.error) == (((3, 0, 12),), None, -1, None)
    for version in ("0,", "2,"):
        assert answer(alone.replace("2,", version)).supported is None
    for not_it in (
        alone.replace('on":2', 'on":3'),
        alone.replace(keys, '"api_keys":[]'),
        alone.replace(keys, f'{keys},"finalized_features_epoch":-1'),
        alone.replace(keys, f'{keys},"supported_features":[]'),
    ):
        assert isinstance(read(not_it.encode()), Quarantined)
    assert answer(alone.replace(keys, f'{keys},"error_code":35')).error == "error code 35"


def test_white_space_around_and_inside_changes_nothing() -> None:
    assert read(b" " + API.replace(",", " , ").encode() + b"\r\n") == read(API.encode())


def test_nesting_is_accepted_up_to_its_limit() -> None:
    deep = '"x":' + "[" * 99 + "]" * 99 + ',"line_number"'
    assert accepted(swap(LOG, '"line_number"', deep)) == accepted(LOG)
    many = '"x":' + json.dumps([[1]] * 200) + ',"line_number"'
    assert accepted(swap(LOG, '"line_number"', many)) == accepted(LOG)


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("2000-01-01T00:00:00Z", 946_684_800_000_000),
        ("2200-12-31T23:59:59.999999Z", 7_289_654_399_999_999),
        ("2026-11-21T05:49:33.229+00:00", NOW),
        ("2026-11-21T07:49:33.229+02:00", NOW),
        ("2026-11-20T23:49:33.229-06:00", NOW),
    ],
)
def test_time_is_microseconds_in_utc(text: str, microseconds: int) -> None:
    assert accepted(swap(LOG, AT, f'"observed_at":"{text}"')).observed_at == microseconds


def test_escaped_pair_is_one_character() -> None:
    content = accepted(swap(LOG, "Log starting offset: 0", "\\ud83d\\ude00 \\\\ud800")).content
    assert isinstance(content, LogLine)
    assert content.line == "\U0001f600 \\ud800"


def test_znode_is_kept_untouched() -> None:
    damaged = '"{\\"a\\":1,\\"a\\":NaN"'
    for raw, data in ((ZNODE.encode(), "{}"), (swap(ZNODE, '"{}"', damaged), '{"a":1,"a":NaN')):
        node = accepted(raw).content
        assert isinstance(node, Znode)
        assert (node.path, node.version, node.czxid, node.data) == ("/feature", 3, 7, data)


def test_description_of_a_cluster_is_read() -> None:
    two = '[{"broker_id":7,"is_fenced":true},{"broker_id":2}'
    content = accepted(swap(CLUSTER, '[{"broker_id":1,"is_fenced":false}', two)).content
    assert isinstance(content, ClusterDescription)
    assert (content.request.asked_node, content.request.role) == (1, Role.BROKER)
    assert (content.role, content.fenced_shown) == (Role.BROKER, True)
    assert (content.members, content.answered) == (((2, None), (7, True)), True)


@pytest.mark.parametrize("reply", ['"answer":null,"why":"not offered"', '"error":"timed out"'])
def test_request_nobody_answered_needs_no_time(reply: str) -> None:
    start = '{"kind":"describe_%s","cluster_id":"c1","asked_node":1,"listener":"controller",'
    cluster = accepted(start % "cluster" + reply + "}")
    assert (cluster.cluster, cluster.observed_at) == ("c1", None)
    for content in (cluster.content, accepted(start % "quorum" + reply + "}").content):
        assert isinstance(content, NodeDescription)
        assert content.request.role == Role.CONTROLLER
        assert (content.answered, content.error_code) == (False, 0)


def test_description_of_the_quorum_is_read() -> None:
    three = '[{"replica_id":3},{"replica_id":1},{"replica_id":3}]'
    content = accepted(swap(QUORUM, '[{"replica_id":1}]', three)).content
    assert isinstance(content, QuorumDescription)
    assert (content.leader_id, content.leader_epoch) == (1, 3)
    assert (content.voters, content.observers, content.answered) == ((1, 3), (), True)


@pytest.mark.parametrize("where", ['"answer":{"error_code":', '"partition_index":0,"error_code":'])
def test_refused_description_of_the_quorum_is_not_answered(where: str) -> None:
    content = accepted(swap(QUORUM, where + "0", where + "41")).content
    assert isinstance(content, QuorumDescription)
    assert (content.answered, content.error_code, content.voters) == (False, 41, ())


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_make_it_raise(raw: bytes) -> None:
    assert isinstance(read(raw), Quarantined)


@settings(max_examples=scale.some(400), deadline=None)
@given(st.sampled_from([*GOOD, *(line.decode() for line in LINES[::40])]), st.data())
def test_no_mutation_of_a_line_makes_it_raise(line: str, data: st.DataObject) -> None:
    raw = bytearray(line.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        end = data.draw(st.integers(at, min(len(raw), at + 4)))
        tokens = [b'"', b"{", b"}", b"[", b",", b"\\ud800", b"\xff", b"NaN", b"null", b"-1", b"9e9"]
        raw[at:end] = data.draw(st.sampled_from(tokens) | st.binary(max_size=3))
    assert isinstance(read(bytes(raw)), Landing | Quarantined)


@pytest.mark.parametrize("line", GOOD)
def test_a_line_written_again_has_no_key_that_it_lacks(line: str) -> None:
    """What `is_retold` rests on: a key made up would hide one that stands twice."""
    members = json.loads(line)
    for name in members:
        fewer = json.dumps({key: value for key, value in members.items() if key != name}).encode()
        try:
            again = json.loads(msgspec.json.encode(decode(fewer)))
        except FaultError:
            continue
        assert again.keys() <= members.keys() - {name}


def test_lines_as_collectors_write_them_are_proven_strict_by_what_they_say() -> None:
    for line in (line.encode() for line in GOOD):
        assert is_retold(line, msgspec.json.encode(decode(line)))


@settings(max_examples=scale.some(400), deadline=None)
@given(st.sampled_from([*GOOD, *(line.decode() for line in LINES[::40])]), st.data())
def test_a_member_too_many_is_never_proven_strict(line: str, data: st.DataObject) -> None:
    """A key of the line is put a second time at the front of one of its objects."""
    name = data.draw(st.sampled_from(re.findall(r'"\w+"(?=:)', line)))
    value = data.draw(st.sampled_from(["1", '"x"', "null", "[]", '{"x":1,"x":1}', "\\" + "u0022"]))
    at = data.draw(st.sampled_from([mark.end() for mark in re.finditer(r"\{", line)]))
    rest = line[at:].lstrip()
    raw = f"{line[:at]}{name}:{value}{'' if rest.startswith('}') else ','}{rest}".encode()
    try:
        require_strict(raw)
    except FaultError:
        assert isinstance(read(raw), Quarantined)


UNUSED = (
    '"host":{"a":[1]},"broker_id"',
    '"nodes":7,"broker_id"',
    '"rack":' + "[" * 96 + "]" * 96 + ',"broker_id"',
    '"port":' + "9" * 400 + ',"broker_id"',
)


@pytest.mark.parametrize("more", UNUSED)
def test_what_is_not_used_of_an_answer_may_be_anything(more: str) -> None:
    content = accepted(swap(CLUSTER, '"broker_id"', more)).content
    assert isinstance(content, ClusterDescription)
    assert content.members == ((1, False),)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('"host":{"a":1,"a":2},', 'the key "a" stands more than once'),
        ('"rack":null,"rack":null,', 'the key "rack" stands more than once'),
        ('"rack":' + "[" * 97 + "]" * 97 + ",", "nested more than 100 deep"),
        ('"host":"\\ud800",', "a lone surrogate escape"),
    ],
)
def test_what_is_not_used_of_an_answer_is_strict_all_the_same(more: str, words: str) -> None:
    verdict = read(swap(CLUSTER, '"broker_id"', more + '"broker_id"'))
    assert isinstance(verdict, Quarantined)
    assert words in verdict.reason


# --- What texts inside a line say -----------------------------------------------------------------


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
        (TAB, ToolFeature("metadata.version", "3.0-IV1", "UNKNOWN [11]", "3.3-IV3", None, 27)),
        (PADDED, ToolFeature("kraft.version", "0", "1", "UNKNOWN 33", None, 21)),
        (WITH_MINIMUM, ToolFeature("geo", "2", "5", "4", "3", 1)),
        (ABSENT, ToolFeature("geo", "2", "5", "-", "-", None)),
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
