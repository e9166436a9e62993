"""Recorded UpdateFeatures exchanges: a JSON line in, a cluster, a request and what was answered.

docs/conformance.md specifies the form. A line says what the cluster was, what was asked, what came
back and what was true afterwards; anybody can record their own controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from featurelib.core.cluster import Cluster, Node, Request, Update
from featurelib.core.dialect import generation_of
from featurelib.core.reply import Reply, Result
from featurelib.errors import InputError
from featurelib.feature import Role

Levels = dict[str, tuple[int, int]]


class _Node(msgspec.Struct):
    node_id: int
    role: Literal["broker", "controller"]
    features: dict[str, tuple[int, int]] | None = None
    release: str = ""
    fenced: bool = False
    running: bool = True
    active: bool = False
    registered: bool = True


class _Flags(msgspec.Struct):
    inter_broker_protocol: str = ""
    sent_to: int | None = None
    caches_noticed_the_new_node: bool = True
    dynamic_quorum: bool = False
    voters: list[int] | None = None
    offline: list[int] = []
    migrating: bool = False


class _Cluster(msgspec.Struct):
    nodes: list[_Node]
    finalized: dict[str, int | tuple[int, int]] | None
    epoch: int | None
    flags: _Flags = msgspec.field(default_factory=_Flags)
    controller_id: int | None = None
    status: str | None = None


class _Update(msgspec.Struct):
    feature: str
    max_version_level: int
    upgrade_type: int = 1
    allow_downgrade: bool = False


class _Target(msgspec.Struct):
    node_id: int
    role: Literal["broker", "controller"]


class _Request(msgspec.Struct):
    version: int
    updates: list[_Update]
    timeout_ms: int = 60_000
    validate_only: bool = False
    target: _Target | None = None


class _Result(msgspec.Struct):
    feature: str
    error_code: int
    error_message: str | None = None


class _Response(msgspec.Struct):
    error_code: int
    error_message: str | None = None
    results: list[_Result] | None = None


class _After(msgspec.Struct):
    finalized: dict[str, int | tuple[int, int]] | None
    epoch: int | None


class _Exchange(msgspec.Struct):
    id: str
    release: str
    mode: Literal["zk", "kraft"]
    cluster: _Cluster
    request: _Request
    response: _Response
    after: _After


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One recorded request: before, asked, answered, after."""

    id: str
    mode: str  # zk or kraft
    cluster: Cluster
    dynamic_quorum: bool
    request: Request
    reply: Reply
    after: Levels
    epoch: int | None  # None: the features node does not exist
    epoch_after: int | None

    @property
    def scenario(self) -> str:
        """What of the id names the walk the exchange is a step of: release and scenario."""
        return "-".join(self.id.split("-")[:2])


_DECODER = msgspec.json.Decoder(_Exchange)


def read(lines: Iterable[bytes], name: str) -> Iterator[Exchange]:
    """The exchanges of a file, in its order. Raises InputError: file, line, what is wrong."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield _exchange(_DECODER.decode(line))
        except (msgspec.MsgspecError, KeyError, ValueError) as error:
            raise InputError(
                f"{name}:{number}: expected a recorded exchange, one JSON object a line with id, "
                "release, mode, cluster, request, response and after; found: "
                f"{error.args[0]}. docs/conformance.md specifies the form, and "
                "`featurelib rules --dialects` lists the releases."
            ) from error


def _exchange(raw: _Exchange) -> Exchange:
    generation_of(raw.release, raw.mode)  # KeyError: no controller of ours is of that release
    active = _active(raw)
    return Exchange(
        id=raw.id,
        mode=raw.mode,
        cluster=_cluster(raw, active),
        dynamic_quorum=raw.cluster.flags.dynamic_quorum,
        request=_request(raw, active),
        reply=_reply(raw.response),
        after=_levels(raw.after.finalized),
        epoch=raw.cluster.epoch,
        epoch_after=raw.after.epoch,
    )


def _active(raw: _Exchange) -> int:
    if raw.cluster.controller_id is not None:
        return raw.cluster.controller_id
    for node in raw.cluster.nodes:
        if node.active:
            return node.node_id
    raise ValueError("a cluster without controller_id in which no node is `active`")


def _cluster(raw: _Exchange, active: int) -> Cluster:
    flags, finalized = raw.cluster.flags, _levels(raw.cluster.finalized)
    blind = not flags.caches_noticed_the_new_node
    unseen = blind or raw.cluster.finalized is None or raw.cluster.status == "Disabled"
    return Cluster(
        release=raw.release,
        nodes=tuple(_node(node, flags) for node in raw.cluster.nodes),
        active=active,
        finalized=finalized,
        cached={} if unseen else None,
        raft_level=int(flags.dynamic_quorum),
        off=_is_off(flags.inter_broker_protocol),
        migrating=flags.migrating,
        node_missing=raw.mode == "zk" and raw.cluster.finalized is None,
        blind=blind,
    )


def _is_off(protocol: str) -> bool:
    """Whether inter.broker.protocol.version is below 2.7, which switches the system off."""
    parts = protocol.split("-")[0].split(".")
    return bool(protocol) and tuple(int(part) for part in parts[:2]) < (2, 7)


def _node(node: _Node, flags: _Flags) -> Node:
    controller = node.role == "controller"
    return Node(
        node_id=node.node_id,
        role=Role.CONTROLLER if controller else Role.BROKER,
        supported=node.features or {},
        release=node.release,
        registered=node.registered,
        fenced=node.fenced,
        running=node.running and node.node_id not in flags.offline,
        voter=controller and (flags.voters is None or node.node_id in flags.voters),
    )


def _request(raw: _Exchange, active: int) -> Request:
    asked, target, sent_to = raw.request, raw.request.target, raw.cluster.flags.sent_to
    elsewhere = sent_to is not None and sent_to != active
    if target is not None:  # a broker's listener forwards to the active controller
        elsewhere = target.role == "controller" and target.node_id != active
    return Request(
        updates=tuple(
            Update(
                feature=update.feature,
                level=update.max_version_level,
                kind=update.upgrade_type,
                allow_downgrade=update.allow_downgrade,
            )
            for update in asked.updates
        ),
        version=asked.version,
        validate_only=asked.validate_only,
        timeout_ms=asked.timeout_ms,
        to_active=not elsewhere,
    )


def _reply(response: _Response) -> Reply:
    results = response.results
    return Reply(
        code=response.error_code,
        message=response.error_message,
        results=None
        if results is None
        else tuple(
            Result(feature=r.feature, code=r.error_code, message=r.error_message) for r in results
        ),
    )


def _levels(finalized: dict[str, Any] | None) -> Levels:
    """Feature → (minimum, level); level 0 is not finalized."""
    pairs = {
        name: (value, value) if isinstance(value, int) else tuple(value)
        for name, value in (finalized or {}).items()
    }
    return {name: pair for name, pair in pairs.items() if pair[1] != 0}
