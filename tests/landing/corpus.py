"""Broken landing lines as data: a name and the bytes; tests/golden/landing.txt has the reasons.

Each case is one good line with one thing wrong, so that the reason can only be about that.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from featurelib.landing import MAX_BYTES

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


def swap(line: str, old: str, new: str) -> bytes:
    """`line` with the one `old` in it replaced."""
    assert line.count(old) == 1, (old, line)
    return line.replace(old, new).encode(errors="surrogatepass")


def _text() -> list[Case]:
    api = API.encode()
    return [
        Case("empty line", b""),
        Case("white space only", b" \t\r\n"),
        Case("text", b"hello"),
        Case("cut in a name", api[:12]),
        Case("cut in a text", api[:25]),
        Case("cut in a number", api[: api.index(b"asked_version") + 16]),
        Case("cut before the end", api[:-1]),
        Case("cut at the front", api[20:]),
        Case("binary", b"\x1f\x8b\x08\x00\x01"[:3]),
        Case("NUL inside", api.replace(b"h:9092", b"h\0")),
        Case("only NUL", b"\0\0\0"),
        Case("UTF-16", API.encode("utf-16")),
        Case("byte-order mark", b"\xef\xbb\xbf" + api),
        Case("list", b"[" + api + b"]"),
        Case("number", b"17"),
        Case("null", b"null"),
        Case("string", b'"x"'),
        Case("empty object", b"{}"),
        Case("trailing garbage", api + b" x"),
        Case("trailing comma", api + b","),
        Case("second document", api + b" {}"),
        Case("single quotes", b"{'kind':'znode'}"),
        Case("comma before the end", swap(API, "false}", "false,}")),
        Case("comment", swap(API, "false}", "false/*x*/}")),
        Case("leading zero", swap(API, '"node_id":1', '"node_id":01')),
        Case("raw TAB in a text", swap(API, "h:9092", "h\t")),
        Case("unknown escape", swap(API, "h:9092", "\\q")),
        Case("NaN", swap(API, '"node_id":1', '"node_id":NaN')),
        Case("Infinity", swap(API, ":5,", ":Infinity,")),
        Case("minus Infinity", swap(API, ":5,", ":-Infinity,")),
        Case("NaN unknown key", swap(API, "false}", 'false,"x":[NaN]}')),
        Case(
            "too long",
            swap(LOG, "Log starting offset: 0", "x" * MAX_BYTES),
        ),
        Case(
            "too deep",
            swap(LOG, '"line_number"', '"x":' + "[" * 100 + "]" * 100 + ',"line_number"'),
        ),
        Case("far too deep", b'{"x":' + b"[" * 9999 + b"]" * 9999 + b"}"),
    ]


def _encoding() -> list[Case]:
    api = API.encode()
    bad = b"\xff\xfe"
    over = b'false,"x":["' + bad + b'"]}'
    return [
        Case("UTF-8 in a value", api.replace(b"h:9092", bad)),
        Case("UTF-8 in a name", api.replace(b"endpoint", bad)),
        Case("UTF-8 in an unknown value", api.replace(b"false}", over)),
        Case("UTF-8 in a feature", api.replace(b'"name":"f"', b'"name":"\xff"')),
        Case("UTF-8 beside a wrong type", api.replace(b'"f"', b'5,"\xff":"\xff"')),
        Case("UTF-8 in the data", ZNODE.encode().replace(b'"{}"', b'"\xc3"')),
        Case("UTF-8 overlong", api.replace(b"h:9092", b"\xc0\xaf")),
        Case("UTF-8 surrogate", api.replace(b"h:9092", b"\xed\xa0\x80")),
        Case("high surrogate", swap(API, "h:9092", "\\ud800x")),
        Case("low surrogate", swap(API, "h:9092", "\\uDC00")),
        Case("surrogate in data", swap(ZNODE, '"{}"', '"\\ud83d"')),
        Case("surrogate in an unknown name", swap(API, "false}", 'false,"\\ud800":1}')),
        Case("escape cut", swap(API, "h:9092", "\\u12")),
    ]


def _twice() -> list[Case]:
    deep = '"answer":{"error_code":0,"error_code":0,'
    return [
        Case("kind twice", swap(API, '"role"', '"kind":"api_versions","role"')),
        Case("cluster twice", swap(API, '"role"', '"cluster_id":"c2","role"')),
        Case(
            "same value twice",
            swap(LOG, '"line":', '"line_number":2,"line":'),
        ),
        Case("unknown key twice", swap(API, "false}", 'false,"x":1,"x":2}')),
        Case("twice with spaces", swap(API, "false}", 'false,"x" : 1, "x" :2}')),
        Case("twice by an escape", swap(API, "false}", 'false,"\\u006eode_id":2}')),
        Case(
            "twice in a feature",
            swap(API, '"min_version":0', '"min_version":0,"min_version":1'),
        ),
        Case(
            "twice in a level",
            swap(API, '"max_version_level":1', '"max_version_level":1,"max_version_level":2'),
        ),
        Case(
            "twice in an answer",
            swap(CLUSTER, '"answer":{"error_code":0,', deep),
        ),
        Case(
            "twice in a broker",
            swap(CLUSTER, '"is_fenced":false', '"is_fenced":false,"is_fenced":1'),
        ),
        Case(
            "twice in an unknown value",
            swap(API, "false}", 'false,"x":[{"y":1,"y":1}]}'),
        ),
        Case(
            "twice in the envelope of a node",
            swap(ZNODE, '"data"', '"x":{"y":{"z":1,"z":2}},"data"'),
        ),
    ]


def _envelope() -> list[Case]:
    def cluster(value: str) -> bytes:
        return swap(API, '"cluster_id":"c1"', f'"cluster_id":{value}')

    def time(value: str) -> bytes:
        return swap(API, AT, f'"observed_at":{value}')

    return [
        Case("kind missing", swap(API, '"kind":"api_versions",', "")),
        Case("kind unknown", swap(API, '"api_versions"', '"api_version"')),
        Case("kind null", swap(API, '"api_versions"', "null")),
        Case("kind number", swap(API, '"api_versions"', "5")),
        Case("kind list", swap(API, '"api_versions"', '["znode"]')),
        Case("kind in capitals", swap(API, '"api_versions"', '"ZNODE"')),
        Case("cluster missing", swap(API, '"cluster_id":"c1",', "")),
        Case("cluster empty", cluster('""')),
        Case("cluster null", cluster("null")),
        Case("cluster number", cluster("5")),
        Case("cluster object", cluster('{"id":"c1"}')),
        Case("cluster too long", cluster(f'"{"c" * 256}"')),
        Case("cluster with a line end", cluster('"c\\n1"')),
        Case("cluster with NUL", cluster('"c\\u00001"')),
        Case("cluster with DEL", cluster('"c\x7f"')),
        Case("cluster with a C1 control", cluster('"c\x85"')),
        Case("time missing", swap(API, f",{AT}", "")),
        Case("time missing on a log line", swap(LOG, f",{AT}", "")),
        Case("time missing beside an answer", swap(CLUSTER, f",{AT}", "")),
        Case("time null", time("null")),
        Case("time null beside an answer", swap(QUORUM, AT, '"observed_at":null')),
        Case("time number", time("1795240173")),
        Case("time text of a number", time('"1795240173"')),
        Case("time empty", time('""')),
        Case("time naive", time('"2026-11-21T05:49:33"')),
        Case("time a date", time('"2026-11-21"')),
        Case("time of a thirteenth month", time('"2026-13-21T05:49:33Z"')),
        Case("time of no day", time('"2026-02-30T05:49:33Z"')),
        Case("time of hour 25", time('"2026-11-21T25:49:33Z"')),
        Case("time with words", time('"yesterday"')),
        Case("time before 2000", time('"1999-12-31T23:59:59Z"')),
        Case("time after 2200", time('"2201-01-01T00:00:00Z"')),
        Case("time of year 1", time('"0001-01-01T00:00:00+14:00"')),
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

    long_name = f'[{{"name":"{"ü" * 16384}","min_version":0,"max_version":2}}]'
    longest = f'[{{"name":"{"u" * 32768}","min_version":0,"max_version":2}}]'
    nameless = one.replace('"name":"f",', "")
    return [
        Case("node missing", swap(API, '"node_id":1,', "")),
        Case("node null", node("null")),
        Case("node true", node("true")),
        Case("node 1.0", node("1.0")),
        Case("node 1e0", node("1e0")),
        Case("node text", node('"1"')),
        Case("node negative", node("-1")),
        Case("node beyond int32", node("2147483648")),
        Case("node beyond everything", node("9" * 5000)),
        Case("role missing", swap(API, '"role":"broker",', "")),
        Case("role unknown", swap(API, '"broker"', '"leader"')),
        Case("role number", swap(API, '"broker"', "0")),
        Case("endpoint missing", swap(API, '"endpoint":"h:9092",', "")),
        Case("endpoint number", swap(API, '"h:9092"', "9092")),
        Case("asked missing", swap(API, '"asked_version":4,', "")),
        Case("asked above 5", swap(API, '"asked_version":4', '"asked_version":6')),
        Case("asked negative", swap(API, '"asked_version":4', '"asked_version":-1')),
        Case(
            "answered above 5",
            swap(API, '"answered_version":4', '"answered_version":9'),
        ),
        Case(
            "error code beyond int16",
            swap(API, '"error_code":0', '"error_code":32768'),
        ),
        Case("epoch below -1", swap(API, ":5,", ":-2,")),
        Case("epoch beyond int64", swap(API, ":5,", ":9223372036854775808,")),
        Case("epoch text", swap(API, ":5,", ':"5",')),
        Case("epoch null", swap(API, ":5,", ":null,")),
        Case("ready a number", swap(API, "false}", "0}")),
        Case(
            "features missing",
            swap(API, f'"supported_features":{one},', ""),
        ),
        Case(
            "levels missing",
            swap(API, f'"finalized_features":{level},', ""),
        ),
        Case("epoch missing", swap(API, '"finalized_features_epoch":5,', "")),
        Case("features null", features("null")),
        Case("features an object", features('{"f":[0,2]}')),
        Case("feature a text", features('["f"]')),
        Case("feature without name", features(nameless)),
        Case("feature without a name", features(one.replace('"f"', '""'))),
        Case("feature name null", features(one.replace('"f"', "null"))),
        Case("feature name too long", features(long_name)),
        Case("feature name far too long", features(longest)),
        Case("feature twice", features(f"[{one[1:-1]},{one[1:-1]}]")),
        Case("level twice", levels(f"[{level[1:-1]},{level[1:-1]}]")),
        Case("min above max", span(3, 2)),
        Case("max beyond int16", span(0, 32768)),
        Case("min negative", span(-1, 2)),
        Case("min true", span(True, 2)),
        Case("max 2.0", span(0, 2.0)),
        Case("max a text", span(0, "2")),
        Case("max null", span(0, None)),
        Case(
            "level below its minimum",
            levels(level.replace('_version_level":1,', '_version_level":0,')),
        ),
        Case("level beyond int16", levels(level.replace(":1,", ":40000,"))),
        Case("level a text", levels(level.replace(":1,", ':"1",'))),
        Case(
            "second feature wrong",
            features(f'[{one[1:-1]},{{"name":"g","min_version":0}}]'),
        ),
        Case("api keys a number", swap(API, "false}", 'false,"api_keys":5}')),
        Case(
            "api key a text",
            swap(API, "false}", 'false,"api_keys":[{"api_key":"3"}]}'),
        ),
        Case("answer and error", swap(API, "false}", 'false,"error":"x"}')),
        Case(
            "half an answer and an error",
            swap(FAILED, '"error":', '"finalized_features":[],"error":'),
        ),
        Case("neither answer nor error", swap(FAILED, ',"error":"refused"', "")),
        Case("error empty", swap(FAILED, '"refused"', '""')),
        Case("error a number", swap(FAILED, '"refused"', "35")),
    ]


def _others() -> list[Case]:
    def path(value: str) -> bytes:
        return swap(ZNODE, '"/feature"', value)

    def number(value: str) -> bytes:
        return swap(LOG, '"line_number":2', f'"line_number":{value}')

    answer = CLUSTER[CLUSTER.index('"answer":') : -1]
    topic = "__cluster_metadata"
    return [
        Case("path missing", swap(ZNODE, '"path":"/feature",', "")),
        Case("path unknown", path('"/config"')),
        Case("path with its chroot", path('"/kafka/feature"')),
        Case("path of a negative broker", path('"/brokers/ids/-1"')),
        Case("path of broker 01", path('"/brokers/ids/01"')),
        Case("path of a broker too far", path('"/brokers/ids/2147483648"')),
        Case("path of a broker in other digits", path('"/brokers/ids/١"')),
        Case("path of all brokers", path('"/brokers/ids"')),
        Case("path with a slash more", path('"/feature/"')),
        Case("path with a line end", path('"/feature\\n"')),
        Case("path null", path("null")),
        Case("version missing", swap(ZNODE, '"version":3,', "")),
        Case("data missing", swap(ZNODE, ',"data":"{}"', "")),
        Case("data an object", swap(ZNODE, '"{}"', "{}")),
        Case("version negative", swap(ZNODE, ":3,", ":-1,")),
        Case("version null beside data", swap(ZNODE, ":3,", ":null,")),
        Case("czxid a text", swap(ZNODE, ":7,", ':"7",')),
        Case("owner a list", swap(ZNODE, '"0x0"', "[]")),
        Case("line number 0", number("0")),
        Case("line number a text", number('"2"')),
        Case("line number missing", swap(LOG, '"line_number":2,', "")),
        Case("line missing", swap(TOOL, ',"line":"Feature: f"', "")),
        Case("line null", swap(TOOL, '"Feature: f"', "null")),
        Case(
            "asked node negative",
            swap(QUORUM, '"asked_node":1', '"asked_node":-1'),
        ),
        Case("listener unknown", swap(QUORUM, '"broker"', '"client"')),
        Case("cluster version 3", swap(CLUSTER, '"version":2', '"version":3')),
        Case("quorum version 3", swap(QUORUM, '"version":2', '"version":3')),
        Case("describe version missing", swap(QUORUM, '"version":2,', "")),
        Case(
            "endpoint type 3",
            swap(CLUSTER, '"endpoint_type":1', '"endpoint_type":3'),
        ),
        Case("fenced included 1", swap(CLUSTER, "true", "1")),
        Case("answer a text", swap(CLUSTER, answer, '"answer":"yes"')),
        Case(
            "answer without brokers",
            swap(CLUSTER, answer, '"answer":{"error_code":0,"controller_id":1}'),
        ),
        Case(
            "broker id a text",
            swap(CLUSTER, '"broker_id":1', '"broker_id":"1"'),
        ),
        Case(
            "broker twice",
            swap(CLUSTER, '[{"broker_id"', '[{"broker_id":1},{"broker_id"'),
        ),
        Case(
            "describe: answer and error",
            swap(QUORUM, '"answer"', '"error":"x","answer"'),
        ),
        Case("describe: neither", swap(CLUSTER, f",{answer}", "")),
        Case("quorum of another topic", swap(QUORUM, topic, "t")),
        Case(
            "quorum of partition 1",
            swap(QUORUM, '"partition_index":0', '"partition_index":1'),
        ),
        Case(
            "voter null",
            swap(QUORUM, '{"replica_id":1}', "null"),
        ),
    ]


def _configs() -> list[Case]:
    result = CONFIGS[CONFIGS.index('{"error_code":0,') : CONFIGS.rindex("]}")]
    config = CONFIGS[CONFIGS.index('{"name":"controller') : CONFIGS.rindex("]}]}")]

    def value(text: str) -> bytes:
        return swap(CONFIGS, '"value":"1@h:9093","read', f'"value":{text},"read')

    def resource(text: str) -> bytes:
        return swap(CONFIGS, '"resource_name":"1"', f'"resource_name":{text}')

    return [
        Case("configs: value a number", value("2")),
        Case("configs: value a list", value('["1@h"]')),
        Case("configs: value true", value("true")),
        Case(
            "configs: value twice",
            value('"1@h:9093","value":"2@h:9093"'),
        ),
        Case("configs: key twice", swap(CONFIGS, config, f"{config},{config}")),
        Case("configs: key null", swap(CONFIGS, f"[{config}", f"[null,{config}")),
        Case(
            "configs: name missing",
            swap(
                CONFIGS,
                '{"name":"controller.quorum.voters","value":"1@h:9093","read',
                '{"value":"1@h:9093","read',
            ),
        ),
        Case("configs: source missing", swap(CONFIGS, '"config_source":4,', "")),
        Case("configs: source a text", swap(CONFIGS, '"config_source":4', '"config_source":"4"')),
        Case(
            "configs: source beyond int8", swap(CONFIGS, '"config_source":4', '"config_source":128')
        ),
        Case("configs: sensitive 1", swap(CONFIGS, '"is_sensitive":false', '"is_sensitive":1')),
        Case("configs: sensitive missing", swap(CONFIGS, '"is_sensitive":false,', "")),
        Case("configs: of another node", resource('"7"')),
        Case("configs: of node 01", resource('"01"')),
        Case("configs: of a number", resource("1")),
        Case("configs: of a topic", swap(CONFIGS, '"resource_type":4', '"resource_type":2')),
        Case("configs: resource twice", swap(CONFIGS, result, f"{result},{result}")),
        Case("configs: no result", swap(CONFIGS, result, "")),
        Case("configs: error code a text", swap(CONFIGS, '"error_code":0', '"error_code":"0"')),
        Case("configs: version 0", swap(CONFIGS, '"version":4', '"version":0')),
        Case("configs: version missing", swap(CONFIGS, '"version":4,', "")),
        Case("configs: role missing", swap(CONFIGS, '"role":"controller",', "")),
        Case("configs: endpoint empty", swap(CONFIGS, '"h:9093","version', '"","version')),
        Case("configs: asked node negative", swap(CONFIGS, '"asked_node":1', '"asked_node":-1')),
        Case(
            "configs: answer a list",
            swap(
                CONFIGS, '"answer":{"throttle_time_ms":0,', '"answer":[],"x":{"throttle_time_ms":0,'
            ),
        ),
        Case("configs: answer and error", swap(CONFIGS, '"answer"', '"error":"x","answer"')),
        Case("configs: neither", swap(CONFIGS_REFUSED, '"error":"it is not authorized",', "")),
        Case("configs: time missing", swap(CONFIGS, f",{AT}", "")),
    ]


CASES = [*_text(), *_encoding(), *_twice(), *_envelope(), *_api_versions(), *_others(), *_configs()]
