"""Broken landing lines as data: a name, the bytes, and words the reason has to contain.

Each case is one good line with one thing wrong, so that the reason can only be about that.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from featurelib.landing import MAX_BYTES, MAX_DEPTH

AT = '"observed_at":"2026-11-21T05:49:33.229Z"'
HEAD = f'"cluster_id":"c1",{AT}'
API = (
    f'{{"kind":"api_versions",{HEAD},"node_id":1,"role":"broker","endpoint":"h:9092",'
    '"asked_version":4,"answered_version":4,"error_code":0,'
    '"supported_features":[{"name":"f","min_version":0,"max_version":2}],'
    '"finalized_features_epoch":5,'
    '"finalized_features":[{"name":"f","max_version_level":1,"min_version_level":1}],'
    '"zk_migration_ready":false}'
)
FAILED = (
    f'{{"kind":"api_versions",{HEAD},"node_id":1,"role":"broker","endpoint":"h:9092",'
    '"asked_version":4,"error":"refused"}'
)
ZNODE = (
    f'{{"kind":"znode",{HEAD},"path":"/feature","version":3,"czxid":7,'
    '"ephemeral_owner":"0x0","data":"{}"}'
)
CLUSTER = (
    f'{{"kind":"describe_cluster",{HEAD},"asked_node":1,"listener":"broker","version":2,'
    '"endpoint_type":1,"include_fenced_brokers":true,"answer":{"error_code":0,'
    '"controller_id":1,"brokers":[{"broker_id":1,"is_fenced":false}]}}'
)
QUORUM = (
    f'{{"kind":"describe_quorum",{HEAD},"asked_node":1,"listener":"broker","version":2,'
    '"answer":{"error_code":0,"topics":[{"topic_name":"__cluster_metadata","partitions":['
    '{"partition_index":0,"error_code":0,"leader_id":1,"leader_epoch":3,"high_watermark":9,'
    '"current_voters":[{"replica_id":1}],"observers":[]}]}]}}'
)
LOG = f'{{"kind":"metadata_log",{HEAD},"line_number":2,"line":"Log starting offset: 0"}}'
TOOL = f'{{"kind":"features_describe",{HEAD},"line_number":2,"line":"Feature: f"}}'
REFUSED = (
    f'{{"kind":"describe_quorum",{HEAD},"asked_node":1,"listener":"controller",'
    '"error":"it is not authorized","error_code":31,"principal":"User:auditor"}'
)
PROBE = (
    f'{{"kind":"probe",{HEAD},"updates":[{{"feature":"f","from_level":1,"to_level":2}}],'
    '"answer":{"error_code":0,"results":[{"feature":"f","error_code":95,"error_message":"no"}]}}'
)
CONFIGS = (
    f'{{"kind":"describe_configs",{HEAD},"asked_node":1,"role":"controller","endpoint":"h:9093",'
    '"version":4,"answer":{"throttle_time_ms":0,"results":[{"error_code":0,"error_message":null,'
    '"resource_type":4,"resource_name":"1","configs":[{"name":"controller.quorum.voters",'
    '"value":"1@h:9093","read_only":true,"config_source":4,"is_sensitive":false,'
    '"synonyms":[{"name":"controller.quorum.voters","value":"1@h:9093","source":4}]}]}]}}'
)
CONFIGS_REFUSED = (
    f'{{"kind":"describe_configs",{HEAD},"asked_node":1,"role":"broker","endpoint":"h:9092",'
    '"error":"it is not authorized","error_code":31,"principal":"User:auditor"}'
)
GOOD = (
    API, FAILED, ZNODE, CLUSTER, QUORUM, LOG, TOOL, REFUSED, PROBE, CONFIGS, CONFIGS_REFUSED,
)  # fmt: skip


class Case(NamedTuple):
    """One kind of damage."""

    name: str
    raw: bytes
    words: tuple[str, ...]


def swap(line: str, old: str, new: str) -> bytes:
    """`line` with the one `old` in it replaced."""
    assert line.count(old) == 1, (old, line)
    return line.replace(old, new).encode(errors="surrogatepass")


def _text() -> list[Case]:
    api = API.encode()
    return [
        Case("empty line", b"", ("the line is empty",)),
        Case("white space only", b" \t\r\n", ("the line is empty",)),
        Case("text", b"hello", ("not valid JSON", "hello")),
        Case("cut in a name", api[:12], ("the line is cut", "12 characters")),
        Case("cut in a text", api[:25], ("the line is cut",)),
        Case("cut in a number", api[: api.index(b"asked_version") + 16], ("the line is cut",)),
        Case("cut before the end", api[:-1], ("the line is cut",)),
        Case("cut at the front", api[20:], ("not valid JSON at character 1", "cluster_id")),
        Case("binary", b"\x1f\x8b\x08\x00\x01"[:3], ("not UTF-8", "0x8b", "byte 2")),
        Case("NUL inside", api.replace(b"h:9092", b"h\0"), ("NUL", "byte")),
        Case("only NUL", b"\0\0\0", ("byte 1 is NUL",)),
        Case("UTF-16", API.encode("utf-16"), ("NUL",)),
        Case("byte-order mark", b"\xef\xbb\xbf" + api, ("byte-order mark",)),
        Case("list", b"[" + api + b"]", ("expected one JSON object", "[{")),
        Case("number", b"17", ("expected one JSON object", "found 17")),
        Case("null", b"null", ("expected one JSON object", "found null")),
        Case("string", b'"x"', ("expected one JSON object", '"x"')),
        Case("empty object", b"{}", ("kind is missing", "api_versions", "znode")),
        Case("trailing garbage", api + b" x", ("more text follows", "found x")),
        Case("trailing comma", api + b",", ("more text follows",)),
        Case("second document", api + b" {}", ("more text follows", "found {}")),
        Case("single quotes", b"{'kind':'znode'}", ("not valid JSON", "character 2")),
        Case("comma before the end", swap(API, "false}", "false,}"), ("not valid JSON",)),
        Case("comment", swap(API, "false}", "false/*x*/}"), ("not valid JSON", "/*x*/")),
        Case("leading zero", swap(API, '"node_id":1', '"node_id":01'), ("not valid JSON",)),
        Case("raw TAB in a text", swap(API, "h:9092", "h\t"), ("not valid JSON", "control")),
        Case("unknown escape", swap(API, "h:9092", "\\q"), ("not valid JSON", "escape")),
        Case("NaN", swap(API, '"node_id":1', '"node_id":NaN'), ("NaN is no number",)),
        Case("Infinity", swap(API, ":5,", ":Infinity,"), ("Infinity is no number",)),
        Case("minus Infinity", swap(API, ":5,", ":-Infinity,"), ("-Infinity is no number",)),
        Case("NaN unknown key", swap(API, "false}", 'false,"x":[NaN]}'), ("NaN is no number",)),
        Case(
            "too long",
            swap(LOG, "Log starting offset: 0", "x" * MAX_BYTES),
            ("too long", str(MAX_BYTES), "bytes"),
        ),
        Case(
            "too deep",
            swap(LOG, '"line_number"', '"x":' + "[" * 100 + "]" * 100 + ',"line_number"'),
            (f"nested more than {MAX_DEPTH} deep",),
        ),
        Case("far too deep", b'{"x":' + b"[" * 9999 + b"]" * 9999 + b"}", ("nested more",)),
    ]


def _encoding() -> list[Case]:
    api = API.encode()
    bad = b"\xff\xfe"
    over = b'false,"x":["' + bad + b'"]}'
    return [
        Case("UTF-8 in a value", api.replace(b"h:9092", bad), ("not UTF-8", "0xff")),
        Case("UTF-8 in a name", api.replace(b"endpoint", bad), ("not UTF-8", "0xff")),
        Case("UTF-8 in an unknown value", api.replace(b"false}", over), ("not UTF-8",)),
        Case("UTF-8 in a feature", api.replace(b'"name":"f"', b'"name":"\xff"'), ("not UTF-8",)),
        Case("UTF-8 beside a wrong type", api.replace(b'"f"', b'5,"\xff":"\xff"'), ("not UTF-8",)),
        Case("UTF-8 in the data", ZNODE.encode().replace(b'"{}"', b'"\xc3"'), ("not UTF-8",)),
        Case("UTF-8 overlong", api.replace(b"h:9092", b"\xc0\xaf"), ("not UTF-8", "0xc0")),
        Case("UTF-8 surrogate", api.replace(b"h:9092", b"\xed\xa0\x80"), ("not UTF-8", "0xed")),
        Case("high surrogate", swap(API, "h:9092", "\\ud800x"), ("lone surrogate", "\\ud800")),
        Case("low surrogate", swap(API, "h:9092", "\\uDC00"), ("lone surrogate", "\\udc00")),
        Case("surrogate in data", swap(ZNODE, '"{}"', '"\\ud83d"'), ("lone surrogate",)),
        Case("surrogate in an unknown name", swap(API, "false}", 'false,"\\ud800":1}'), ("lone",)),
        Case("escape cut", swap(API, "h:9092", "\\u12"), ("not valid JSON", "escape")),
    ]


def _twice() -> list[Case]:
    def twice(key: str) -> tuple[str, ...]:
        return (f'the key "{key}"', "more than once")

    deep = '"answer":{"error_code":0,"error_code":0,'
    return [
        Case("kind twice", swap(API, '"role"', '"kind":"api_versions","role"'), twice("kind")),
        Case("cluster twice", swap(API, '"role"', '"cluster_id":"c2","role"'), twice("cluster_id")),
        Case(
            "same value twice",
            swap(LOG, '"line":', '"line_number":2,"line":'),
            twice("line_number"),
        ),
        Case("unknown key twice", swap(API, "false}", 'false,"x":1,"x":2}'), twice("x")),
        Case("twice with spaces", swap(API, "false}", 'false,"x" : 1, "x" :2}'), twice("x")),
        Case(
            "twice by an escape", swap(API, "false}", 'false,"\\u006eode_id":2}'), twice("node_id")
        ),
        Case(
            "twice in a feature",
            swap(API, '"min_version":0', '"min_version":0,"min_version":1'),
            twice("min_version"),
        ),
        Case(
            "twice in a level",
            swap(API, '"max_version_level":1', '"max_version_level":1,"max_version_level":2'),
            twice("max_version_level"),
        ),
        Case(
            "twice in an answer",
            swap(CLUSTER, '"answer":{"error_code":0,', deep),
            twice("error_code"),
        ),
        Case(
            "twice in a broker",
            swap(CLUSTER, '"is_fenced":false', '"is_fenced":false,"is_fenced":1'),
            twice("is_fenced"),
        ),
        Case(
            "twice in an unknown value",
            swap(API, "false}", 'false,"x":[{"y":1,"y":1}]}'),
            twice("y"),
        ),
        Case(
            "twice in the envelope of a node",
            swap(ZNODE, '"data"', '"x":{"y":{"z":1,"z":2}},"data"'),
            twice("z"),
        ),
    ]


def _envelope() -> list[Case]:
    def cluster(value: str) -> bytes:
        return swap(API, '"cluster_id":"c1"', f'"cluster_id":{value}')

    def time(value: str) -> bytes:
        return swap(API, AT, f'"observed_at":{value}')

    when = ("observed_at", "ISO-8601")
    return [
        Case("kind missing", swap(API, '"kind":"api_versions",', ""), ("kind is missing",)),
        Case(
            "kind unknown", swap(API, '"api_versions"', '"api_version"'), ("kind", '"api_version"')
        ),
        Case("kind null", swap(API, '"api_versions"', "null"), ("kind", "found null")),
        Case("kind number", swap(API, '"api_versions"', "5"), ("kind", "found 5")),
        Case("kind list", swap(API, '"api_versions"', '["znode"]'), ("kind", '["znode"]')),
        Case("kind in capitals", swap(API, '"api_versions"', '"ZNODE"'), ("kind", "ZNODE")),
        Case("cluster missing", swap(API, '"cluster_id":"c1",', ""), ("cluster_id is missing",)),
        Case("cluster empty", cluster('""'), ("cluster_id", "1 to 255", '""')),
        Case("cluster null", cluster("null"), ("cluster_id", "text", "null")),
        Case("cluster number", cluster("5"), ("cluster_id", "text", "found 5")),
        Case("cluster object", cluster('{"id":"c1"}'), ("cluster_id", "text", "{")),
        Case("cluster too long", cluster(f'"{"c" * 256}"'), ("cluster_id", "255")),
        Case("cluster with a line end", cluster('"c\\n1"'), ("cluster_id", "control", "\\n")),
        Case("cluster with NUL", cluster('"c\\u00001"'), ("cluster_id", "control", "\\x00")),
        Case("cluster with DEL", cluster('"c\x7f"'), ("cluster_id", "control", "\\x7f")),
        Case("cluster with a C1 control", cluster('"c\x85"'), ("cluster_id", "control", "\\x85")),
        Case("time missing", swap(API, f",{AT}", ""), ("observed_at is missing", "ISO-8601")),
        Case("time missing on a log line", swap(LOG, f",{AT}", ""), ("observed_at is missing",)),
        Case(
            "time missing beside an answer", swap(CLUSTER, f",{AT}", ""), ("observed_at is miss",)
        ),
        Case("time null", time("null"), (*when, "null")),
        Case(
            "time null beside an answer", swap(QUORUM, AT, '"observed_at":null'), ("observed_at",)
        ),
        Case("time number", time("1795240173"), (*when, "1795240173")),
        Case("time text of a number", time('"1795240173"'), (*when, "1795240173")),
        Case("time empty", time('""'), when),
        Case("time naive", time('"2026-11-21T05:49:33"'), (*when, "offset")),
        Case("time a date", time('"2026-11-21"'), when),
        Case("time of a thirteenth month", time('"2026-13-21T05:49:33Z"'), when),
        Case("time of no day", time('"2026-02-30T05:49:33Z"'), when),
        Case("time of hour 25", time('"2026-11-21T25:49:33Z"'), when),
        Case("time with words", time('"yesterday"'), (*when, "yesterday")),
        Case("time before 2000", time('"1999-12-31T23:59:59Z"'), ("observed_at", "2000", "1999")),
        Case("time after 2200", time('"2201-01-01T00:00:00Z"'), ("observed_at", "2200", "2201")),
        Case("time of year 1", time('"0001-01-01T00:00:00+14:00"'), ("observed_at", "2000")),
    ]


def _api_versions() -> list[Case]:
    one = '[{"name":"f","min_version":0,"max_version":2}]'
    level = '[{"name":"f","max_version_level":1,"min_version_level":1}]'

    def node(value: str) -> bytes:
        return swap(API, '"node_id":1', f'"node_id":{value}')

    def features(value: str) -> bytes:
        return swap(API, one, value)

    def levels(value: str) -> bytes:
        return swap(API, level, value)

    def span(low: object, high: object) -> bytes:
        item = {"name": "f", "min_version": low, "max_version": high}
        return features(json.dumps([item]))

    where = "supported_features[0]."
    long_name = f'[{{"name":"{"ü" * 16384}","min_version":0,"max_version":2}}]'
    longest = f'[{{"name":"{"u" * 32768}","min_version":0,"max_version":2}}]'
    nameless = one.replace('"name":"f",', "")
    return [
        Case("node missing", swap(API, '"node_id":1,', ""), ("node_id is missing",)),
        Case("node null", node("null"), ("node_id", "found null")),
        Case("node true", node("true"), ("node_id", "whole number", "found true")),
        Case("node 1.0", node("1.0"), ("node_id", "whole number", "found 1.0")),
        Case("node 1e0", node("1e0"), ("node_id", "found 1e0")),
        Case("node text", node('"1"'), ("node_id", 'found "1"')),
        Case("node negative", node("-1"), ("node_id", "from 0", "found -1")),
        Case("node beyond int32", node("2147483648"), ("node_id", "2147483647", "2147483648")),
        Case("node beyond everything", node("9" * 5000), ("node_id", "999")),
        Case("role missing", swap(API, '"role":"broker",', ""), ("role is missing",)),
        Case("role unknown", swap(API, '"broker"', '"leader"'), ("role", "controller", "leader")),
        Case("role number", swap(API, '"broker"', "0"), ("role", "found 0")),
        Case("endpoint missing", swap(API, '"endpoint":"h:9092",', ""), ("endpoint is missing",)),
        Case("endpoint number", swap(API, '"h:9092"', "9092"), ("endpoint", "found 9092")),
        Case("asked missing", swap(API, '"asked_version":4,', ""), ("asked_version is missing",)),
        Case("asked above 5", swap(API, '"asked_version":4', '"asked_version":6'), ("0 to 5", "6")),
        Case("asked negative", swap(API, '"asked_version":4', '"asked_version":-1'), ("-1",)),
        Case(
            "answered above 5",
            swap(API, '"answered_version":4', '"answered_version":9'),
            ("answered_version", "0 to 5", "9"),
        ),
        Case(
            "error code beyond int16",
            swap(API, '"error_code":0', '"error_code":32768'),
            ("error_code", "32767", "32768"),
        ),
        Case("epoch below -1", swap(API, ":5,", ":-2,"), ("finalized_features_epoch", "-1", "-2")),
        Case("epoch beyond int64", swap(API, ":5,", ":9223372036854775808,"), ("epoch", "9223")),
        Case("epoch text", swap(API, ":5,", ':"5",'), ("finalized_features_epoch", '"5"')),
        Case("epoch null", swap(API, ":5,", ":null,"), ("finalized_features_epoch is missing",)),
        Case("ready a number", swap(API, "false}", "0}"), ("zk_migration_ready", "found 0")),
        Case(
            "features missing",
            swap(API, f'"supported_features":{one},', ""),
            ("supported_features is missing",),
        ),
        Case(
            "levels missing",
            swap(API, f'"finalized_features":{level},', ""),
            ("finalized_features is missing",),
        ),
        Case(
            "epoch missing", swap(API, '"finalized_features_epoch":5,', ""), ("epoch is missing",)
        ),
        Case("features null", features("null"), ("supported_features", "list", "null")),
        Case("features an object", features('{"f":[0,2]}'), ("supported_features", "list", "{")),
        Case("feature a text", features('["f"]'), ("supported_features[0]", "object", '"f"')),
        Case("feature without name", features(nameless), (where + "name is missing",)),
        Case(
            "feature without a name", features(one.replace('"f"', '""')), (where + "name", "empty")
        ),
        Case("feature name null", features(one.replace('"f"', "null")), (where + "name", "null")),
        Case("feature name too long", features(long_name), ("32767 bytes", "found 32768")),
        Case("feature name far too long", features(longest), ("32767 bytes", "found 32768")),
        Case("feature twice", features(f"[{one[1:-1]},{one[1:-1]}]"), ('"f"', "more than once")),
        Case("level twice", levels(f"[{level[1:-1]},{level[1:-1]}]"), ("finalized", '"f"', "once")),
        Case("min above max", span(3, 2), ("supported_features", '"f"', "found 3 to 2")),
        Case("max beyond int16", span(0, 32768), (where + "max_version", "32767", "32768")),
        Case("min negative", span(-1, 2), (where + "min_version", "from 0", "-1")),
        Case("min true", span(True, 2), (where + "min_version", "found true")),
        Case("max 2.0", span(0, 2.0), (where + "max_version", "found 2.0")),
        Case("max a text", span(0, "2"), (where + "max_version", 'found "2"')),
        Case("max null", span(0, None), (where + "max_version", "found null")),
        Case(
            "level below its minimum",
            levels(level.replace('_version_level":1,', '_version_level":0,')),
            ("finalized_features", "found 1 to 0"),
        ),
        Case("level beyond int16", levels(level.replace(":1,", ":40000,")), ("level", "40000")),
        Case("level a text", levels(level.replace(":1,", ':"1",')), ("max_version_level", '"1"')),
        Case(
            "second feature wrong",
            features(f'[{one[1:-1]},{{"name":"g","min_version":0}}]'),
            ("supported_features[1].max_version is missing",),
        ),
        Case("api keys a number", swap(API, "false}", 'false,"api_keys":5}'), ("api_keys", "list")),
        Case(
            "api key a text",
            swap(API, "false}", 'false,"api_keys":[{"api_key":"3"}]}'),
            ("api_keys[0].api_key", '"3"'),
        ),
        Case("answer and error", swap(API, "false}", 'false,"error":"x"}'), ("error", "beside")),
        Case(
            "half an answer and an error",
            swap(FAILED, '"error":', '"finalized_features":[],"error":'),
            ("error", "finalized_features"),
        ),
        Case("neither answer nor error", swap(FAILED, ',"error":"refused"', ""), ("neither",)),
        Case("error empty", swap(FAILED, '"refused"', '""'), ("error", "not empty")),
        Case("error a number", swap(FAILED, '"refused"', "35"), ("error", "text", "35")),
    ]


def _others() -> list[Case]:
    def path(value: str) -> bytes:
        return swap(ZNODE, '"/feature"', value)

    def number(value: str) -> bytes:
        return swap(LOG, '"line_number":2', f'"line_number":{value}')

    answer = CLUSTER[CLUSTER.index('"answer":') : -1]
    topic = "__cluster_metadata"
    wrong = ("wrong path", "chroot", "/brokers/ids/N")
    return [
        Case("path missing", swap(ZNODE, '"path":"/feature",', ""), ("path is missing",)),
        Case("path unknown", path('"/config"'), (*wrong, "/config")),
        Case("path with its chroot", path('"/kafka/feature"'), (*wrong, "/kafka/feature")),
        Case("path of a negative broker", path('"/brokers/ids/-1"'), wrong),
        Case("path of broker 01", path('"/brokers/ids/01"'), wrong),
        Case("path of a broker too far", path('"/brokers/ids/2147483648"'), wrong),
        Case("path of a broker in other digits", path('"/brokers/ids/١"'), wrong),
        Case("path of all brokers", path('"/brokers/ids"'), wrong),
        Case("path with a slash more", path('"/feature/"'), wrong),
        Case("path with a line end", path('"/feature\\n"'), (*wrong, "\\n")),
        Case("path null", path("null"), ("path", "text", "null")),
        Case("version missing", swap(ZNODE, '"version":3,', ""), ("version is missing",)),
        Case("data missing", swap(ZNODE, ',"data":"{}"', ""), ("data is missing",)),
        Case("data an object", swap(ZNODE, '"{}"', "{}"), ("data", "text", "{}")),
        Case("version negative", swap(ZNODE, ":3,", ":-1,"), ("version", "from 0", "-1")),
        Case("version null beside data", swap(ZNODE, ":3,", ":null,"), ("version", "data", "null")),
        Case("czxid a text", swap(ZNODE, ":7,", ':"7",'), ("czxid", '"7"')),
        Case("owner a list", swap(ZNODE, '"0x0"', "[]"), ("ephemeral_owner", "[]")),
        Case("line number 0", number("0"), ("line_number", "from 1", "found 0")),
        Case("line number a text", number('"2"'), ("line_number", '"2"')),
        Case("line number missing", swap(LOG, '"line_number":2,', ""), ("line_number is missing",)),
        Case("line missing", swap(TOOL, ',"line":"Feature: f"', ""), ("line is missing",)),
        Case("line null", swap(TOOL, '"Feature: f"', "null"), ("line", "text", "null")),
        Case(
            "asked node negative",
            swap(QUORUM, '"asked_node":1', '"asked_node":-1'),
            ("asked_node",),
        ),
        Case("listener unknown", swap(QUORUM, '"broker"', '"client"'), ("listener", "client")),
        Case(
            "cluster version 3", swap(CLUSTER, '"version":2', '"version":3'), ("version", "0 to 2")
        ),
        Case("quorum version 3", swap(QUORUM, '"version":2', '"version":3'), ("version", "0 to 2")),
        Case("describe version missing", swap(QUORUM, '"version":2,', ""), ("version is missing",)),
        Case(
            "endpoint type 3",
            swap(CLUSTER, '"endpoint_type":1', '"endpoint_type":3'),
            ("endpoint_type", "controllers", "null", "found 3"),
        ),
        Case(
            "fenced included 1", swap(CLUSTER, "true", "1"), ("include_fenced_brokers", "found 1")
        ),
        Case("answer a text", swap(CLUSTER, answer, '"answer":"yes"'), ("answer", "object", "yes")),
        Case(
            "answer without brokers",
            swap(CLUSTER, answer, '"answer":{"error_code":0,"controller_id":1}'),
            ("answer.brokers is missing",),
        ),
        Case(
            "broker id a text",
            swap(CLUSTER, '"broker_id":1', '"broker_id":"1"'),
            ("answer.brokers[0].broker_id", '"1"'),
        ),
        Case(
            "broker twice",
            swap(CLUSTER, '[{"broker_id"', '[{"broker_id":1},{"broker_id"'),
            ("answer.brokers", "once"),
        ),
        Case(
            "describe: answer and error",
            swap(QUORUM, '"answer"', '"error":"x","answer"'),
            ("error", "beside an answer"),
        ),
        Case("describe: neither", swap(CLUSTER, f",{answer}", ""), ("neither",)),
        Case("quorum of another topic", swap(QUORUM, topic, "t"), ("partition 0", topic)),
        Case(
            "quorum of partition 1",
            swap(QUORUM, '"partition_index":0', '"partition_index":1'),
            ("partition 0", topic),
        ),
        Case(
            "voter null",
            swap(QUORUM, '{"replica_id":1}', "null"),
            ("answer.topics[0].partitions[0].current_voters[0]", "object", "null"),
        ),
    ]


def _configs() -> list[Case]:
    result = CONFIGS[CONFIGS.index('{"error_code":0,') : CONFIGS.rindex("]}")]
    config = CONFIGS[CONFIGS.index('{"name":"controller') : CONFIGS.rindex("]}]}")]
    where = "answer.results[0]."
    one = where + "configs[0]."

    def value(text: str) -> bytes:
        return swap(CONFIGS, '"value":"1@h:9093","read', f'"value":{text},"read')

    def resource(text: str) -> bytes:
        return swap(CONFIGS, '"resource_name":"1"', f'"resource_name":{text}')

    return [
        Case("configs: value a number", value("2"), (one + "value", "text or null", "found 2")),
        Case("configs: value a list", value('["1@h"]'), (one + "value", "text", "[")),
        Case("configs: value true", value("true"), (one + "value", "text", "true")),
        Case(
            "configs: value twice",
            value('"1@h:9093","value":"2@h:9093"'),
            ('the key "value"', "more than once"),
        ),
        Case("configs: key twice", swap(CONFIGS, config, f"{config},{config}"), (
            where + "configs", "each key once")),
        Case("configs: key null", swap(CONFIGS, f"[{config}", f"[null,{config}"), (
            where + "configs[0]", "object", "null")),
        Case("configs: name missing", swap(CONFIGS, '{"name":"controller.quorum.voters",'
            '"value":"1@h:9093","read', '{"value":"1@h:9093","read'), (one + "name is missing",)),
        Case("configs: source missing", swap(CONFIGS, '"config_source":4,', ""), (
            one + "config_source is missing",)),
        Case("configs: source a text", swap(CONFIGS, '"config_source":4', '"config_source":"4"'), (
            one + "config_source", "whole number", '"4"')),
        Case("configs: source beyond int8", swap(CONFIGS, '"config_source":4',
            '"config_source":128'), (one + "config_source", "127", "128")),
        Case("configs: sensitive 1", swap(CONFIGS, '"is_sensitive":false', '"is_sensitive":1'), (
            one + "is_sensitive", "true or false", "found 1")),
        Case("configs: sensitive missing", swap(CONFIGS, '"is_sensitive":false,', ""), (
            one + "is_sensitive is missing",)),
        Case("configs: of another node", resource('"7"'), (
            where + "resource_name", '"1", which was asked', "found 7")),
        Case("configs: of node 01", resource('"01"'), (where + "resource_name", "found 01")),
        Case("configs: of a number", resource("1"), (where + "resource_name", "text", "found 1")),
        Case("configs: of a topic", swap(CONFIGS, '"resource_type":4', '"resource_type":2'), (
            where + "resource_type", "4 (a broker)", "found 2")),
        Case("configs: resource twice", swap(CONFIGS, result, f"{result},{result}"), (
            "answer.results", "each resource once")),
        Case("configs: no result", swap(CONFIGS, result, ""), (
            "answer.results", "at least one result", "[]")),
        Case("configs: error code a text", swap(CONFIGS, '"error_code":0', '"error_code":"0"'), (
            where + "error_code", '"0"')),
        Case("configs: version 0", swap(CONFIGS, '"version":4', '"version":0'), (
            "version", "1 to 4", "found 0")),
        Case("configs: version missing", swap(CONFIGS, '"version":4,', ""), ("version is miss",)),
        Case("configs: role missing", swap(CONFIGS, '"role":"controller",', ""), (
            "role is missing",)),
        Case("configs: endpoint empty", swap(CONFIGS, '"h:9093","version', '"","version'), (
            "endpoint", "not empty")),
        Case("configs: asked node negative", swap(CONFIGS, '"asked_node":1', '"asked_node":-1'), (
            "asked_node", "from 0")),
        Case("configs: answer a list", swap(CONFIGS, '"answer":{"throttle_time_ms":0,',
            '"answer":[],"x":{"throttle_time_ms":0,'), ("answer", "object", "[]")),
        Case("configs: answer and error", swap(CONFIGS, '"answer"', '"error":"x","answer"'), (
            "error", "beside an answer")),
        Case("configs: neither", swap(CONFIGS_REFUSED, '"error":"it is not authorized",', ""), (
            "neither",)),
        Case("configs: time missing", swap(CONFIGS, f",{AT}", ""), ("observed_at is missing",)),
    ]  # fmt: skip


CASES = [*_text(), *_encoding(), *_twice(), *_envelope(), *_api_versions(), *_others(), *_configs()]
