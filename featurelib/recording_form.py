"""The JSON form of a recorded exchange, as docs/conformance.md specifies it: a line in, or why not.

Keys that are not listed are ignored, and null is the same as leaving a key out, but for
`finalized` and `epoch`, where it is an answer. Numbers have the width they have on the wire.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

_NULL_ANSWERS = ("finalized", "epoch")
_RELEASE = re.compile(r"\s*(\d+(?:\.\d+)*)")


class Node(msgspec.Struct):
    node_id: int
    role: Literal["broker", "controller"]
    features: dict[str, tuple[int, int]] | None = None
    release: str = ""
    fenced: bool = False
    running: bool = True
    active: bool = False
    registered: bool = True


class Flags(msgspec.Struct):
    inter_broker_protocol: str = ""
    sent_to: int | None = None
    caches_noticed_the_new_node: bool = True
    dynamic_quorum: bool = False
    voters: list[int] | None = None
    offline: list[int] = []
    migrating: bool = False


class Cluster(msgspec.Struct):
    nodes: list[Node]
    finalized: dict[str, int | tuple[int, int]] | None
    epoch: int | None
    flags: Flags = msgspec.field(default_factory=Flags)
    controller_id: int | None = None
    status: str | None = None


class Update(msgspec.Struct):
    feature: str
    max_version_level: int
    upgrade_type: int = 1
    allow_downgrade: bool = False


class Target(msgspec.Struct):
    node_id: int
    role: Literal["broker", "controller"]


class Request(msgspec.Struct):
    version: int
    updates: list[Update]
    timeout_ms: int = 60_000
    validate_only: bool = False
    target: Target | None = None


class Result(msgspec.Struct):
    feature: str
    error_code: int
    error_message: str | None = None


class Response(msgspec.Struct):
    error_code: int
    error_message: str | None = None
    results: list[Result] | None = None


class After(msgspec.Struct):
    finalized: dict[str, int | tuple[int, int]] | None
    epoch: int | None


class Line(msgspec.Struct):
    id: str
    release: str
    mode: Literal["zk", "kraft"]
    cluster: Cluster
    request: Request
    response: Response
    after: After


_DECODER = msgspec.json.Decoder()


def decode(line: bytes) -> Line:
    """A line of a recording. Raises msgspec.MsgspecError, ValueError: what is wrong with it."""
    found = msgspec.convert(_without_nulls(_DECODER.decode(line)), Line)
    for what, bits, number in _numbers(found):
        if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            raise ValueError(f"{what} {number}, which is no number of {bits} bits")
    return found


def _numbers(line: Line) -> Iterator[tuple[str, int, int]]:
    """Every number that the wire has room for: what it is, how many bits, and the number."""
    asked, cluster = line.request, line.cluster
    for node in cluster.nodes:
        yield "node_id", 32, node.node_id
        for ends in (node.features or {}).values():
            yield from (("level", 16, level) for level in ends)
    for levels in (cluster.finalized, line.after.finalized):
        for level in (levels or {}).values():
            yield from (
                ("level", 16, end) for end in ((level,) if isinstance(level, int) else level)
            )
    for update in asked.updates:
        yield "max_version_level", 16, update.max_version_level
        yield "upgrade_type", 8, update.upgrade_type
    yield "timeout_ms", 32, asked.timeout_ms
    for epoch in (cluster.epoch, line.after.epoch):
        yield "epoch", 64, epoch or 0


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        kept = {key: v for key, v in value.items() if v is not None or key in _NULL_ANSWERS}
        return {key: _without_nulls(v) for key, v in kept.items()}
    if isinstance(value, list):
        return [_without_nulls(v) for v in value]
    return value


def kafka_release(text: str) -> str:
    """The numbers a release begins with: `4.2-SNAPSHOT` is built from 4.2, as `4.2.0.acme-1` is
    from 4.2.0. A text without numbers stays as it is, for the error that names it."""
    found = _RELEASE.match(text)
    return found.group(1) if found else text
