"""Recorded UpdateFeatures exchanges: a JSON line in, a cluster, a request and what was answered.

docs/conformance.md specifies the form. A line says what the cluster was, what was asked, what came
back and what was true afterwards; anybody can record their own controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from featurelib import recording_form as form
from featurelib.core.cluster import Cluster, Node, Request, Update
from featurelib.core.dialect import generation_of, load
from featurelib.core.reply import Reply, Result
from featurelib.errors import InputError
from featurelib.feature import Role

Levels = dict[str, tuple[int, int]]


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


BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read(
    lines: Iterable[bytes], name: str, unread: list[InputError] | None = None
) -> Iterator[Exchange]:
    """The exchanges of a file, in its order.

    A line that is none is an InputError: file, line, what is wrong. It is raised or, with `unread`,
    put there, and the others go on.
    """
    for number, line in enumerate(lines, start=1):
        text = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
        if not text.strip():
            continue
        try:
            found = _exchange(form.decode(text))
        except (msgspec.MsgspecError, KeyError, ValueError, RecursionError) as error:
            wrong = InputError(
                f"{name}:{number}: expected a recorded exchange, one JSON object a line with id, "
                "release, mode, cluster, request, response and after; found: "
                f"{error.args[0]}. docs/conformance.md specifies the form, and "
                "`featurelib rules --dialects` lists the releases."
            )
            if unread is None:
                raise wrong from error
            unread.append(wrong)
        else:
            yield found


def _exchange(raw: form.Line) -> Exchange:
    _check(raw)
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


def _check(raw: form.Line) -> None:
    """Raises KeyError for a release no dialect is of, ValueError for what cannot have been."""
    spoken = load(generation_of(form.kafka_release(raw.release), raw.mode)).can.wire_versions
    if raw.request.version not in spoken:
        raise ValueError(
            f"request.version {raw.request.version}, and a controller of {raw.release} in "
            f"{raw.mode} mode reads {', '.join(map(str, spoken))}"
        )
    halves = [(node.node_id, node.role) for node in raw.cluster.nodes]
    twice = next((half for half in halves if halves.count(half) > 1), None)
    if twice is not None:
        raise ValueError(f"{twice[1]} {twice[0]} twice in cluster.nodes")


def _active(raw: form.Line) -> int:
    if raw.cluster.controller_id is not None:
        return raw.cluster.controller_id
    for node in raw.cluster.nodes:
        if node.active:
            return node.node_id
    raise ValueError("a cluster without controller_id in which no node is `active`")


def _cluster(raw: form.Line, active: int) -> Cluster:
    flags, finalized = raw.cluster.flags, _levels(raw.cluster.finalized)
    blind = not flags.caches_noticed_the_new_node
    unseen = blind or raw.cluster.finalized is None or raw.cluster.status == "Disabled"
    return Cluster(
        release=form.kafka_release(raw.release),
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


def _node(node: form.Node, flags: form.Flags) -> Node:
    controller = node.role == "controller"
    return Node(
        node_id=node.node_id,
        role=Role.CONTROLLER if controller else Role.BROKER,
        supported=node.features or {},
        release=form.kafka_release(node.release),
        registered=node.registered,
        fenced=node.fenced,
        running=node.running and node.node_id not in flags.offline,
        voter=controller and (flags.voters is None or node.node_id in flags.voters),
    )


def _request(raw: form.Line, active: int) -> Request:
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


def _reply(response: form.Response) -> Reply:
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


def _levels(finalized: dict[str, int | tuple[int, int]] | None) -> Levels:
    """Feature → (minimum, level); level 0 is not finalized."""
    pairs = {
        name: (value, value) if isinstance(value, int) else value
        for name, value in (finalized or {}).items()
    }
    return {name: pair for name, pair in pairs.items() if pair[1] != 0}
