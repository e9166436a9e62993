"""Facts as landing lines, byte for byte in the form that collectors write.

What many lines share (supported ranges of a build, finalized levels) is written once and pasted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.builds import Builds
from benchmarks.facts import CONTROLLERS, Facts, Int

CHUNK = 256  # clusters whose times are written in one go
ROLES = (b"broker", b"controller")
REFUSED = "ConnectionRefusedError: Connection refused"
CONTROLLER_EPOCH = 5  # offset of a controller's last feature record, and one more a build

_HEAD = (
    b'{"kind":"api_versions","cluster_id":"%b","node_id":%d,"role":"%b","endpoint":"%b",'
    b'"asked_version":4,"observed_at":"%bZ",'
)
_ANSWER = _HEAD + (
    b'"answered_version":4,"error_code":0,"supported_features":[%b],'
    b'"finalized_features_epoch":%d,"finalized_features":[%b],"zk_migration_ready":false}\n'
)
_SILENCE = _HEAD + b'"error":"' + REFUSED.encode() + b'"}\n'
_MEMBERS = (
    b'{"kind":"describe_cluster","cluster_id":"%b","asked_node":%d,"listener":"%b","version":2,'
    b'"endpoint_type":%d,"include_fenced_brokers":true,"observed_at":"%bZ","answer":'
    b'{"throttle_time_ms":0,"error_code":0,"error_message":null,"endpoint_type":%d,'
    b'"cluster_id":"%b","controller_id":1,"brokers":[%b],"authorized_operations":null}}\n'
)
_MEMBER = b'{"broker_id":%d,"host":"10.0.0.%d","port":9092,"rack":null,"is_fenced":%b}'
_QUORUM = (
    b'{"kind":"describe_quorum","cluster_id":"%b","asked_node":1,"listener":"broker","version":2,'
    b'"observed_at":"%bZ","answer":{"error_code":0,"error_message":"","topics":[{"topic_name":'
    b'"__cluster_metadata","partitions":[{"partition_index":0,"error_code":0,"error_message":"",'
    b'"leader_id":%d,"leader_epoch":1,"high_watermark":%d,"current_voters":[%b],'
    b'"observers":[%b]}]}],"nodes":[]}}\n'
)
_REPLICA = (
    b'{"replica_id":%d,"replica_directory_id":null,"log_end_offset":%d,'
    b'"last_fetch_timestamp":%d,"last_caught_up_timestamp":%d}'
)


def write_lines(facts: Facts, first: int = 0, stop: int | None = None) -> Iterator[bytes]:
    """All lines of each cluster from `first` to before `stop`, joined, each with its newline."""
    texts = _Texts(facts.builds)
    end = facts.shape.clusters if stop is None else stop
    for begin in range(first, end, CHUNK):
        clusters = slice(begin, min(begin + CHUNK, end))
        at = facts.at(clusters)
        times = np.datetime_as_string(at.astype("datetime64[us]"), unit="ms").astype("S")
        many = facts.minima(clusters) if facts.shape.profiles == "many" else None
        answering = facts.answering(clusters)
        for row, cluster in enumerate(range(clusters.start, clusters.stop)):
            minima = None if many is None else many[row]
            answers = answering[row].tolist()
            listeners = _listeners(facts, cluster, texts, times[row].tolist(), answers, minima)
            others = _others(facts, cluster, times[row].tolist(), answers, at[row].tolist())
            yield b"".join(listeners + others)


class _Texts:
    """The parts of lines that repeat: lists of ranges and of levels by build."""

    def __init__(self, builds: Builds) -> None:
        self.supported = [_supported(builds, build, set()) for build in range(len(builds))]
        made_up = set(builds.made_up)
        self.templates = [_supported(builds, build, made_up) for build in range(len(builds))]
        self.finalized = [_finalized(builds.names, levels) for levels in builds.levels]
        self.dissenting = [
            _finalized(builds.names, dissenting_levels(builds, build))
            for build in range(len(builds))
        ]


def dissenting_levels(builds: Builds, build: int) -> npt.NDArray[np.int16]:
    """What a dissenter says where `build` is finalized: an earlier metadata.version."""
    levels: npt.NDArray[np.int16] = builds.levels[build].copy()
    levels[builds.metadata] = builds.levels[max(build - 1, 0), builds.metadata]
    return levels


def _supported(builds: Builds, build: int, open_minima: set[int]) -> bytes:
    parts = []
    for column, name in enumerate(builds.names):
        minimum = "%d" if column in open_minima else str(builds.minimum[build, column])
        maximum = builds.maximum[build, column]
        parts.append(
            f'{{"name":{json.dumps(name)},"min_version":{minimum},"max_version":{maximum}}}'
        )
    return ",".join(parts).encode()


def _finalized(names: Sequence[str], levels: npt.NDArray[np.int16]) -> bytes:
    return ",".join(
        f'{{"name":{json.dumps(name)},"max_version_level":{level},"min_version_level":{level}}}'
        for name, level in zip(names, levels.tolist(), strict=True)
        if level > 0
    ).encode()


def _listeners(
    facts: Facts,
    cluster: int,
    texts: _Texts,
    times: list[bytes],
    answering: list[bool],
    minima: Int | None,
) -> list[bytes]:
    nodes, name = facts.shape.nodes, facts.ids[cluster].encode()
    build = int(facts.finalized[cluster])
    levels, dissenter = texts.finalized[build], int(facts.dissenter[cluster])
    epochs = facts.epoch[cluster].tolist() + [CONTROLLER_EPOCH + build] * CONTROLLERS
    ranges = [texts.supported[software] for software in facts.software[cluster].tolist()]
    if minima is not None:
        ranges = [
            texts.templates[software] % tuple(own)
            for software, own in zip(facts.software[cluster].tolist(), minima.tolist(), strict=True)
        ]
    lines = []
    for i, node_id in enumerate(facts.node_ids(cluster)):
        endpoint = b"10.%d.%d.%d:9092" % (cluster >> 8 & 255, cluster & 255, node_id & 255)
        head = (name, node_id, ROLES[i >= nodes], endpoint, times[i])
        if answering[i]:
            said = texts.dissenting[build] if i == dissenter else levels
            lines.append(_ANSWER % (*head, ranges[i], epochs[i], said))
        else:
            lines.append(_SILENCE % head)
    return lines


def _others(
    facts: Facts, cluster: int, times: list[bytes], answering: list[bool], at: list[int]
) -> list[bytes]:
    nodes, name = facts.shape.nodes, facts.ids[cluster].encode()
    ids = facts.node_ids(cluster)
    brokers = b",".join(
        _MEMBER % (node, i & 255, b"false" if answers else b"true")
        for i, (node, answers) in enumerate(zip(ids[:nodes], answering, strict=False))
    )
    voters = ids[nodes:]
    controllers = b",".join(_MEMBER % (node, node & 255, b"false") for node in voters)
    end, now = int(facts.epoch[cluster, -1]), at[-1] // 1000
    observers = [
        node
        for node, answers in zip(ids[:nodes], answering, strict=False)
        if answers and node not in voters
    ]
    replicas = [
        b",".join(_REPLICA % (node, end, now, now) for node in group)
        for group in (voters, observers)
    ]
    epochs = facts.epoch[cluster].tolist()
    lister = ids[max(range(nodes), key=lambda i: (answering[i], epochs[i]))]
    return [
        _MEMBERS % (name, lister, ROLES[0], 1, times[-3], 1, name, brokers),
        _MEMBERS % (name, voters[0], ROLES[1], 2, times[-2], 2, name, controllers),
        _QUORUM % (name, times[-1], voters[0], end, *replicas),
    ]
