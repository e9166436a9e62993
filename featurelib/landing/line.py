"""Read one landing line: bytes in, its observation or the reason for quarantine out.

The functions never raise, whatever the bytes are. A line is valid only if every JSON reader would
understand it equally and every known field fits Kafka's protocol; unknown keys are ignored. A
quarantined line keeps the readable parts of its kind, cluster and time, so that a search by cluster
finds it. Missing parts are never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

import msgspec

from featurelib.landing.fields import ClusterId, Time, checked_id, microseconds
from featurelib.landing.kinds import (
    PATHS,
    Content,
    KindLine,
    RequestLine,
    UnreadZnode,
    Znode,
    broker_id,
)
from featurelib.landing.strict import (
    FaultError,
    is_deep,
    is_retold,
    misfit,
    require_size,
    require_strict,
    show,
)


class Landing(msgspec.Struct, frozen=True, gc=False):
    """A valid landing line. `observed_at`: microseconds, UTC; None without response."""

    kind: str
    cluster: str
    observed_at: int | None
    content: Content


class Quarantined(msgspec.Struct, frozen=True, gc=False):
    """A quarantined line: the reason; and kind, cluster, time and path as far as readable."""

    reason: str
    kind: str | None
    cluster: str | None
    observed_at: int | None
    path: str | None = None

    @property
    def unread(self) -> Landing | None:
        """The fact in a quarantined line that still counts: a znode was read. None = no such fact.

        A damaged registration must not count as a missing registration.
        """
        if self.cluster is None or self.observed_at is None or self.path is None:
            return None
        return Landing(ZNODE, self.cluster, self.observed_at, UnreadZnode(self.path))


_KINDS = {str(line.__struct_config__.tag): line for line in KindLine.__args__}
KINDS = tuple(_KINDS)
_NAMES = {line: kind for kind, line in _KINDS.items()}
ZNODE = _NAMES[Znode]
_LINE: msgspec.json.Decoder[KindLine] = msgspec.json.Decoder(KindLine)
_ENCODER = msgspec.json.Encoder()
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read(raw: bytes) -> Landing | Quarantined:
    """Return the content of a landing line, or the reason for its quarantine. Never raises."""
    try:
        line = decode(raw)
        # `content` proves that the undecoded lists of a line are strict; unused parts of a response
        # are decoded at any depth.
        content = line.content()
        if not is_retold(raw, _ENCODER.encode(line)) or (
            isinstance(line, RequestLine) and is_deep(raw)
        ):
            require_strict(raw)
        cluster, time = checked_id(line.cluster_id), line.observed_at
        at = None if time is None else microseconds(time)
        return Landing(_NAMES[type(line)], cluster, at, content)
    except FaultError as fault:
        return Quarantined(_reason(raw, fault), *_salvaged(raw))
    except Exception as error:  # a single bad line must not end the run
        reason = f"featurelib cannot read this line ({type(error).__name__}): please report it"
        return Quarantined(reason, None, None, None)


def _reason(raw: bytes, fault: FaultError) -> str:
    """Return the fault of the whole document; if the document is valid, the fault of its part."""
    try:
        require_strict(raw)
    except FaultError as whole:
        return str(whole)
    return str(fault)


def decode(raw: bytes) -> KindLine:
    """Return the typed line. Raises FaultError. `read` makes further checks."""
    require_size(raw)
    try:
        return _LINE.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _refuse(raw, error)


def _refuse(raw: bytes, error: Exception) -> NoReturn:
    """Raise the FaultError for a line that the parser rejected with `error`."""
    require_strict(raw)
    kinds = ", ".join(KINDS)
    try:
        value = _MEMBERS.decode(raw)["kind"]
    except msgspec.ValidationError:
        raise FaultError(f"expected one JSON object, found {show(raw.decode())}") from None
    except KeyError:
        raise FaultError(f"kind is missing: expected one of {kinds}") from None
    try:
        kind = msgspec.json.decode(value, type=str)
    except _BROKEN:
        kind = ""
    if kind not in _KINDS:
        text = show(bytes(value).decode())
        raise FaultError(f"kind: expected one of {kinds}, found {text}")
    raise misfit(raw, _KINDS[kind], error)


_SEARCHED = 64 * 1024  # the bytes of an invalid line that are searched for kind, cluster and time
# Quotes inside a JSON text are escaped, so these keys never match inside a text.
_MEMBER = re.compile(rb'"(kind|cluster_id|observed_at|path)"\s*:\s*("[^"\\]{1,1024}")')
_CLUSTER: msgspec.json.Decoder[ClusterId] = msgspec.json.Decoder(ClusterId)
_TIME: msgspec.json.Decoder[Time] = msgspec.json.Decoder(Time)
_PATH: msgspec.json.Decoder[str] = msgspec.json.Decoder(str)
_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_T = TypeVar("_T")
_R = TypeVar("_R")


def _salvaged(raw: bytes) -> tuple[str | None, str | None, int | None, str | None]:
    """Return (kind, cluster, microseconds, path) of a quarantined line; None = unreadable."""
    try:
        members = {name: bytes(value) for name, value in _MEMBERS.decode(raw).items()}
    except _BROKEN:
        pairs = reversed(_MEMBER.findall(raw[:_SEARCHED]))  # of two equal keys the first counts
        members = {name.decode(): value for name, value in pairs}
    kind, cluster = (_clean(_CLUSTER, members.get(n), checked_id) for n in ("kind", "cluster_id"))
    path = _clean(_PATH, members.get("path"), _checked_path) if kind == ZNODE else None
    return kind, cluster, _clean(_TIME, members.get("observed_at"), microseconds), path


def _checked_path(path: str) -> str:
    if path not in PATHS and broker_id(path) is None:
        raise FaultError(f"wrong path: {show(path)}")
    return path


def _clean(
    decoder: msgspec.json.Decoder[_T], text: bytes | None, check: Callable[[_T], _R]
) -> _R | None:
    try:
        return check(decoder.decode(text or b"null"))
    except (*_BROKEN, FaultError):
        return None
