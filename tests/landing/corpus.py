"""Good landing lines, and broken ones: a name and the bytes. Reasons: tests/golden/landing.txt.

Each case is one good line with one thing wrong, so that the reason can only be about that. Those
that can be written down in a line of text are in damaged.txt.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
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
CHILDREN = (
    f'{{"kind":"znode",{HEAD},"path":"/brokers/ids","version":0,"data":null,"children":[1,2]}}'
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
STRIMZI = (
    f'{{"kind":"strimzi",{HEAD},"resource":"kafka/orders","version":"4.1.2",'
    '"status_version":"4.1.2","status_metadata_version":"4.0-IV3","refused":"Failed","paused":false,'
    '"nodes_complete":true,"nodes":[{"node_id":1,"role":"broker","version":"4.1.2"},'
    '{"node_id":5,"role":"controller"}]}'
)
METRICS = (
    f'{{"kind":"metrics",{HEAD},"node_id":1,"role":"controller","endpoint":"h:9404",'
    '"supported_features":[{"name":"metadata-version","min_version":7,"max_version":29}],'
    '"finalized_features":[{"name":"metadataVersion","level":25}]}'
)
NOT_REACHED = f'{{"kind":"not_reached",{HEAD},"error":"h:9092: connection refused"}}'
GOOD = (
    API, FAILED, ZNODE, CLUSTER, QUORUM, LOG, TOOL, REFUSED, PROBE, CONFIGS, CONFIGS_REFUSED,
    STRIMZI, METRICS, NOT_REACHED, CHILDREN,
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


def _written() -> Iterator[Case]:
    """Those of damaged.txt."""
    for row in Path(__file__).with_name("damaged.txt").read_text("utf-8").splitlines():
        if row and not row.startswith("#"):
            name, line, old, new = row.split(" | ")
            yield at(name, globals()[line], old, new.replace("∅", ""))


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
        at("raw TAB in a text", API, "h:9092", "h\t"),
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
    ]


def _long() -> list[Case]:
    """Texts that are too long for a line of damaged.txt, or cannot stand there."""
    range_of = '"name":"f","min_version"'
    result = CONFIGS[CONFIGS.index('{"error_code":0,') : CONFIGS.rindex("]}")]
    config = CONFIGS[CONFIGS.index('{"name":"controller') : CONFIGS.rindex("]}]}")]
    return [
        at("cluster too long", API, '"c1"', f'"{"c" * 256}"'),
        at("cluster with DEL", API, '"c1"', '"c\x7f"'),
        at("cluster with a C1 control", API, '"c1"', '"c\x85"'),
        at("node beyond everything", API, '"node_id":1', f'"node_id":{"9" * 5000}'),
        at("feature name too long", API, range_of, range_of.replace("f", "ü" * 16384, 1)),
        at("feature name far too long", API, range_of, range_of.replace("f", "u" * 32768, 1)),
        at("configs: key twice", CONFIGS, config, f"{config},{config}"),
        at("configs: key null", CONFIGS, f"[{config}", f"[null,{config}"),
        at("configs: resource twice", CONFIGS, result, f"{result},{result}"),
        at("configs: no result", CONFIGS, result, ""),
    ]


CASES = [*_text(), *_encoding(), *_long(), *_written()]
