"""Read recorded UpdateFeatures exchanges: a JSON line becomes a cluster, a request and a response.

docs/conformance.md specifies the form. A line has the cluster, the request, the response and the
state afterwards. Users can record their own controllers. Unknown keys are ignored, and null equals
a missing key, except in `finalized` and `epoch`. Numbers must fit the width of the protocol.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import msgspec

from featurelib.core.cluster import Cluster, Node, Request, Update
from featurelib.core.dialect import generation_of, load
from featurelib.core.reply import Reply
from featurelib.errors import InputError
from featurelib.feature import Role
from featurelib.landing.fields import INT16_MAX, Int8, Int16, Int32, Int64
from featurelib.landing.responses import UpdateFeatures

_NULL_ANSWERS = ("finalized", "epoch")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_JSON = msgspec.json.Decoder()
_RELEASE = re.compile(r"\s*(\d+(?:\.\d+)*)")


class _Node(msgspec.Struct):
    node_id: Int32
    role: Literal["broker", "controller"]
    features: dict[str, tuple[Int16, Int16]] | None = None
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


class _After(msgspec.Struct):
    # msgspec 0.22 breaks over a union of bounded numbers and tuples: `_levels` has the bound.
    finalized: dict[str, int | tuple[int, int]] | None
    epoch: Int64 | None


class _Cluster(_After, kw_only=True):
    nodes: list[_Node]
    flags: _Flags = msgspec.field(default_factory=_Flags)
    controller_id: int | None = None
    status: str | None = None


class _Update(msgspec.Struct):
    feature: str
    max_version_level: Int16
    upgrade_type: Int8 = 1
    allow_downgrade: bool = False


class _Target(msgspec.Struct):
    node_id: Int32
    role: Literal["broker", "controller"]


class _Request(msgspec.Struct):
    version: int
    updates: list[_Update]
    timeout_ms: Int32 = 60_000
    validate_only: bool = False
    target: _Target | None = None


class _Line(msgspec.Struct):
    id: str
    release: str
    mode: Literal["zk", "kraft"]
    cluster: _Cluster
    request: _Request
    response: UpdateFeatures
    after: _After


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        fields = {key: v for key, v in value.items() if v is not None or key in _NULL_ANSWERS}
        return {key: _without_nulls(v) for key, v in fields.items()}
    if isinstance(value, list):
        return [_without_nulls(v) for v in value]
    return value


def kafka_release(text: str) -> str:
    """Return the numbers at the start of a release: 4.2 for `4.2-SNAPSHOT`, 4.2.0 for
    `4.2.0.acme-1`. A text without numbers is returned unchanged."""
    match = _RELEASE.match(text)
    return match.group(1) if match else text


Levels = dict[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A recorded request with its response, and the cluster before and after."""

    id: str
    mode: str  # the mode of the cluster: zk or kraft
    cluster: Cluster
    request: Request
    reply: Reply
    after: Levels
    epoch: int | None  # None: the `/feature` znode does not exist
    epoch_after: int | None

    @property
    def scenario(self) -> str:
        """The name of the recording: the first two parts of the id, release and scenario."""
        return "-".join(self.id.split("-")[:2])


def read(
    lines: Iterable[bytes], name: str, unread: list[InputError] | None = None
) -> Iterator[Exchange]:
    """Yield the recorded exchanges in a file, in order. An invalid line raises an InputError with
    file, line and fault; with `unread`, the error is added to this list."""
    for number, line in enumerate(lines, start=1):
        text = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
        if not text.strip():
            continue
        try:
            exchange = _exchange(msgspec.convert(_without_nulls(_JSON.decode(text)), _Line))
        except (msgspec.MsgspecError, KeyError, ValueError, RecursionError) as error:
            wrong = InputError(
                f"{name}:{number}: This line is not a recorded exchange, a JSON object with id, "
                f"release, mode, cluster, request, response and after: {error.args[0]}. "
                "docs/conformance.md specifies the form, and `featurelib rules --dialects` lists "
                "the releases."
            )
            if unread is None:
                raise wrong from error
            unread.append(wrong)
        else:
            yield exchange


def _exchange(raw: _Line) -> Exchange:
    """Return an exchange from a recorded line. Raises KeyError (no dialect), ValueError."""
    release, flags = kafka_release(raw.release), raw.cluster.flags
    versions = load(generation_of(release, raw.mode)).can.wire_versions
    if raw.request.version not in versions:
        raise ValueError(
            f"request.version {raw.request.version}, and a controller of {raw.release} in "
            f"{raw.mode} mode reads {', '.join(map(str, versions))}"
        )
    keys = [(node.node_id, node.role) for node in raw.cluster.nodes]
    for node_id, role in keys:
        if keys.count((node_id, role)) > 1:
            raise ValueError(f"{role} {node_id} twice in cluster.nodes")
    active = raw.cluster.controller_id
    if active is None:
        active = next((node.node_id for node in raw.cluster.nodes if node.active), None)
    if active is None:
        raise ValueError("a cluster without controller_id in which no node is `active`")
    missing = raw.cluster.finalized is None
    is_blind = not flags.caches_noticed_the_new_node
    protocol = flags.inter_broker_protocol.split("-")[0].split(".")[:2]
    cluster = Cluster(
        release=release,
        nodes=tuple(_node(node, flags) for node in raw.cluster.nodes),
        active=active,
        finalized=_levels(raw.cluster.finalized),
        cached={} if is_blind or missing or raw.cluster.status == "Disabled" else None,
        raft_level=int(flags.dynamic_quorum),
        # Below 2.7 the feature system is off.
        off=bool(flags.inter_broker_protocol) and tuple(map(int, protocol)) < (2, 7),
        migrating=flags.migrating,
        node_missing=raw.mode == "zk" and missing,
        blind=is_blind,
    )
    return Exchange(
        id=raw.id,
        mode=raw.mode,
        cluster=cluster,
        request=_request(raw, active),
        reply=raw.response.reply,
        after=_levels(raw.after.finalized),
        epoch=raw.cluster.epoch,
        epoch_after=raw.after.epoch,
    )


def _node(node: _Node, flags: _Flags) -> Node:
    controller = node.role == "controller"
    return Node(
        node_id=node.node_id,
        role=Role.CONTROLLER if controller else Role.BROKER,
        supported=node.features or {},
        release=kafka_release(node.release),
        registered=node.registered,
        fenced=node.fenced,
        running=node.running and node.node_id not in flags.offline,
        voter=controller and (flags.voters is None or node.node_id in flags.voters),
    )


def _request(raw: _Line, active: int) -> Request:
    request, target, sent_to = raw.request, raw.request.target, raw.cluster.flags.sent_to
    elsewhere = sent_to is not None and sent_to != active
    if target is not None:  # a broker forwards to the active controller
        elsewhere = target.role == "controller" and target.node_id != active
    return Request(
        updates=tuple(
            Update(
                feature=update.feature,
                level=update.max_version_level,
                kind=update.upgrade_type,
                allow_downgrade=update.allow_downgrade,
            )
            for update in request.updates
        ),
        version=request.version,
        validate_only=request.validate_only,
        timeout_ms=request.timeout_ms,
        to_active=not elsewhere,
    )


def _levels(finalized: dict[str, int | tuple[int, int]] | None) -> Levels:
    """Return feature → (minimum, level) of the finalized levels. Raises ValueError."""
    pairs = {
        name: (value, value) if isinstance(value, int) else value
        for name, value in (finalized or {}).items()
    }
    for level in (level for pair in pairs.values() for level in pair):
        if not -INT16_MAX - 1 <= level <= INT16_MAX:
            raise ValueError(f"level {level}, which is no number of 16 bits")
    return {name: pair for name, pair in pairs.items() if pair[1] != 0}
