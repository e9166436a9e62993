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
    API, FAILED, ZNODE, CLUSTER, QUORUM, LOG, TOOL, REFUSED, PROBE, CONFIGS, CONFIGS_REFUSED
)  # fmt: skip


class Case(NamedTuple):
    """One kind of damage."""

    name: str
    raw: bytes


def swap(line: str, old: str, new: str) -> bytes:
    """`line` with the one `old` in it replaced."""
    assert line.count(old) == 1, (old, line)
    return line.replace(old, new).encode(errors="surrogatepass")


def at(name: str, line: str, old: str, new: str) -> Case:
    """`line` with the one `old` in it replaced, as a case."""
    return Case(name, swap(line, old, new))


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
        at("comma before the end", API, "false}", "false,}"),
        at("comment", API, "false}", "false/*x*/}"),
        at("leading zero", API, '"node_id":1', '"node_id":01'),
        at("raw TAB in a text", API, "h:9092", "h\t"),
        at("unknown escape", API, "h:9092", "\\q"),
        at("NaN", API, '"node_id":1', '"node_id":NaN'),
        at("Infinity", API, ":5,", ":Infinity,"),
        at("minus Infinity", API, ":5,", ":-Infinity,"),
        at("NaN unknown key", API, "false}", 'false,"x":[NaN]}'),
        at("too long", LOG, "Log starting offset: 0", "x" * MAX_BYTES),
        at("too deep", LOG, '"line_number"', '"x":' + "[" * 100 + "]" * 100 + ',"line_number"'),
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
        at("high surrogate", API, "h:9092", "\\ud800x"),
        at("low surrogate", API, "h:9092", "\\uDC00"),
        at("surrogate in data", ZNODE, '"{}"', '"\\ud83d"'),
        at("surrogate in an unknown name", API, "false}", 'false,"\\ud800":1}'),
        at("escape cut", API, "h:9092", "\\u12"),
    ]


def _twice() -> list[Case]:
    deep = '"answer":{"error_code":0,"error_code":0,'
    return [
        at("kind twice", API, '"role"', '"kind":"api_versions","role"'),
        at("cluster twice", API, '"role"', '"cluster_id":"c2","role"'),
        at("same value twice", LOG, '"line":', '"line_number":2,"line":'),
        at("unknown key twice", API, "false}", 'false,"x":1,"x":2}'),
        at("twice with spaces", API, "false}", 'false,"x" : 1, "x" :2}'),
        at("twice by an escape", API, "false}", 'false,"\\u006eode_id":2}'),
        at("twice in a feature", API, '"min_version":0', '"min_version":0,"min_version":1'),
        at(
            "twice in a level",
            API,
            '"max_version_level":1',
            '"max_version_level":1,"max_version_level":2',
        ),
        at("twice in an answer", CLUSTER, '"answer":{"error_code":0,', deep),
        at("twice in a broker", CLUSTER, '"is_fenced":false', '"is_fenced":false,"is_fenced":1'),
        at("twice in an unknown value", API, "false}", 'false,"x":[{"y":1,"y":1}]}'),
        at("twice in the envelope of a node", ZNODE, '"data"', '"x":{"y":{"z":1,"z":2}},"data"'),
    ]


def _envelope() -> list[Case]:
    def cluster(value: str) -> bytes:
        return swap(API, '"cluster_id":"c1"', f'"cluster_id":{value}')

    def time(value: str) -> bytes:
        return swap(API, AT, f'"observed_at":{value}')

    return [
        at("kind missing", API, '"kind":"api_versions",', ""),
        at("kind unknown", API, '"api_versions"', '"api_version"'),
        at("kind null", API, '"api_versions"', "null"),
        at("kind number", API, '"api_versions"', "5"),
        at("kind list", API, '"api_versions"', '["znode"]'),
        at("kind in capitals", API, '"api_versions"', '"ZNODE"'),
        at("cluster missing", API, '"cluster_id":"c1",', ""),
        Case("cluster empty", cluster('""')),
        Case("cluster null", cluster("null")),
        Case("cluster number", cluster("5")),
        Case("cluster object", cluster('{"id":"c1"}')),
        Case("cluster too long", cluster(f'"{"c" * 256}"')),
        Case("cluster with a line end", cluster('"c\\n1"')),
        Case("cluster with NUL", cluster('"c\\u00001"')),
        Case("cluster with DEL", cluster('"c\x7f"')),
        Case("cluster with a C1 control", cluster('"c\x85"')),
        at("time missing", API, f",{AT}", ""),
        at("time missing on a log line", LOG, f",{AT}", ""),
        at("time missing beside an answer", CLUSTER, f",{AT}", ""),
        Case("time null", time("null")),
        at("time null beside an answer", QUORUM, AT, '"observed_at":null'),
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
        at("node missing", API, '"node_id":1,', ""),
        Case("node null", node("null")),
        Case("node true", node("true")),
        Case("node 1.0", node("1.0")),
        Case("node 1e0", node("1e0")),
        Case("node text", node('"1"')),
        Case("node negative", node("-1")),
        Case("node beyond int32", node("2147483648")),
        Case("node beyond everything", node("9" * 5000)),
        at("role missing", API, '"role":"broker",', ""),
        at("role unknown", API, '"broker"', '"leader"'),
        at("role number", API, '"broker"', "0"),
        at("endpoint missing", API, '"endpoint":"h:9092",', ""),
        at("endpoint number", API, '"h:9092"', "9092"),
        at("asked missing", API, '"asked_version":4,', ""),
        at("asked above 5", API, '"asked_version":4', '"asked_version":6'),
        at("asked negative", API, '"asked_version":4', '"asked_version":-1'),
        at("answered above 5", API, '"answered_version":4', '"answered_version":9'),
        at("error code beyond int16", API, '"error_code":0', '"error_code":32768'),
        at("epoch below -1", API, ":5,", ":-2,"),
        at("epoch beyond int64", API, ":5,", ":9223372036854775808,"),
        at("epoch text", API, ":5,", ':"5",'),
        at("epoch null", API, ":5,", ":null,"),
        at("ready a number", API, "false}", "0}"),
        at("features missing", API, f'"supported_features":{one},', ""),
        at("levels missing", API, f'"finalized_features":{level},', ""),
        at("epoch missing", API, '"finalized_features_epoch":5,', ""),
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
        Case("second feature wrong", features(f'[{one[1:-1]},{{"name":"g","min_version":0}}]')),
        at("api keys a number", API, "false}", 'false,"api_keys":5}'),
        at("api key a text", API, "false}", 'false,"api_keys":[{"api_key":"3"}]}'),
        at("answer and error", API, "false}", 'false,"error":"x"}'),
        at("half an answer and an error", FAILED, '"error":', '"finalized_features":[],"error":'),
        at("neither answer nor error", FAILED, ',"error":"refused"', ""),
        at("error empty", FAILED, '"refused"', '""'),
        at("error a number", FAILED, '"refused"', "35"),
    ]


def _others() -> list[Case]:
    def path(value: str) -> bytes:
        return swap(ZNODE, '"/feature"', value)

    def number(value: str) -> bytes:
        return swap(LOG, '"line_number":2', f'"line_number":{value}')

    answer = CLUSTER[CLUSTER.index('"answer":') : -1]
    topic = "__cluster_metadata"
    return [
        at("path missing", ZNODE, '"path":"/feature",', ""),
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
        at("version missing", ZNODE, '"version":3,', ""),
        at("data missing", ZNODE, ',"data":"{}"', ""),
        at("data an object", ZNODE, '"{}"', "{}"),
        at("version negative", ZNODE, ":3,", ":-1,"),
        at("version null beside data", ZNODE, ":3,", ":null,"),
        at("czxid a text", ZNODE, ":7,", ':"7",'),
        at("owner a list", ZNODE, '"0x0"', "[]"),
        Case("line number 0", number("0")),
        Case("line number a text", number('"2"')),
        at("line number missing", LOG, '"line_number":2,', ""),
        at("line missing", TOOL, ',"line":"Feature: f"', ""),
        at("line null", TOOL, '"Feature: f"', "null"),
        at("asked node negative", QUORUM, '"asked_node":1', '"asked_node":-1'),
        at("listener unknown", QUORUM, '"broker"', '"client"'),
        at("cluster version 3", CLUSTER, '"version":2', '"version":3'),
        at("quorum version 3", QUORUM, '"version":2', '"version":3'),
        at("describe version missing", QUORUM, '"version":2,', ""),
        at("endpoint type 3", CLUSTER, '"endpoint_type":1', '"endpoint_type":3'),
        at("fenced included 1", CLUSTER, "true", "1"),
        at("answer a text", CLUSTER, answer, '"answer":"yes"'),
        at(
            "answer without brokers", CLUSTER, answer, '"answer":{"error_code":0,"controller_id":1}'
        ),
        at("broker id a text", CLUSTER, '"broker_id":1', '"broker_id":"1"'),
        at("broker twice", CLUSTER, '[{"broker_id"', '[{"broker_id":1},{"broker_id"'),
        at("describe: answer and error", QUORUM, '"answer"', '"error":"x","answer"'),
        at("describe: neither", CLUSTER, f",{answer}", ""),
        at("quorum of another topic", QUORUM, topic, "t"),
        at("quorum of partition 1", QUORUM, '"partition_index":0', '"partition_index":1'),
        at("voter null", QUORUM, '{"replica_id":1}', "null"),
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
        Case("configs: value twice", value('"1@h:9093","value":"2@h:9093"')),
        at("configs: key twice", CONFIGS, config, f"{config},{config}"),
        at("configs: key null", CONFIGS, f"[{config}", f"[null,{config}"),
        at(
            "configs: name missing",
            CONFIGS,
            '{"name":"controller.quorum.voters","value":"1@h:9093","read',
            '{"value":"1@h:9093","read',
        ),
        at("configs: source missing", CONFIGS, '"config_source":4,', ""),
        at("configs: source a text", CONFIGS, '"config_source":4', '"config_source":"4"'),
        at("configs: source beyond int8", CONFIGS, '"config_source":4', '"config_source":128'),
        at("configs: sensitive 1", CONFIGS, '"is_sensitive":false', '"is_sensitive":1'),
        at("configs: sensitive missing", CONFIGS, '"is_sensitive":false,', ""),
        Case("configs: of another node", resource('"7"')),
        Case("configs: of node 01", resource('"01"')),
        Case("configs: of a number", resource("1")),
        at("configs: of a topic", CONFIGS, '"resource_type":4', '"resource_type":2'),
        at("configs: resource twice", CONFIGS, result, f"{result},{result}"),
        at("configs: no result", CONFIGS, result, ""),
        at("configs: error code a text", CONFIGS, '"error_code":0', '"error_code":"0"'),
        at("configs: version 0", CONFIGS, '"version":4', '"version":0'),
        at("configs: version missing", CONFIGS, '"version":4,', ""),
        at("configs: role missing", CONFIGS, '"role":"controller",', ""),
        at("configs: endpoint empty", CONFIGS, '"h:9093","version', '"","version'),
        at("configs: asked node negative", CONFIGS, '"asked_node":1', '"asked_node":-1'),
        at(
            "configs: answer a list",
            CONFIGS,
            '"answer":{"throttle_time_ms":0,',
            '"answer":[],"x":{"throttle_time_ms":0,',
        ),
        at("configs: answer and error", CONFIGS, '"answer"', '"error":"x","answer"'),
        at("configs: neither", CONFIGS_REFUSED, '"error":"it is not authorized",', ""),
        at("configs: time missing", CONFIGS, f",{AT}", ""),
    ]


CASES = [*_text(), *_encoding(), *_twice(), *_envelope(), *_api_versions(), *_others(), *_configs()]
