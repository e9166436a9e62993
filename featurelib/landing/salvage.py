"""What can still be told of a broken line: its kind, its cluster, its time, each if it is clean.

A quarantined line should be found again under its cluster. Nothing is guessed: a value that is not
what the envelope asks is left out.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from featurelib.landing.envelope import microseconds, require_cluster
from featurelib.landing.fault import FaultError
from featurelib.landing.wire import ClusterId, Time

_SEARCHED = 64 * 1024  # bytes of a line that is no JSON; the envelope stands in front
# A quote inside a JSON text is escaped, so these keys are never found inside of one.
_MEMBER = re.compile(rb'"(kind|cluster_id|observed_at)"\s*:\s*("[^"\\]{1,1024}")')
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXT = msgspec.json.Decoder(ClusterId)
_TIME: msgspec.json.Decoder[Time] = msgspec.json.Decoder(Time)
_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_T = TypeVar("_T")


def salvaged(raw: bytes) -> tuple[str | None, str | None, int | None]:
    """(kind, cluster, observed_at in microseconds) of a line that was quarantined."""
    members = _members(raw)
    time = _read(_TIME, members.get("observed_at"))
    try:
        observed_at = microseconds(time) if time else None
    except FaultError:
        observed_at = None
    return _name(members.get("kind")), _name(members.get("cluster_id")), observed_at


def _members(raw: bytes) -> dict[str, bytes]:
    try:
        return {name: bytes(value) for name, value in _MEMBERS.decode(raw).items()}
    except _BROKEN:
        found = reversed(_MEMBER.findall(raw[:_SEARCHED]))  # the first of two stands
        return {name.decode(): value for name, value in found}


def _name(text: bytes | None) -> str | None:
    name = _read(_TEXT, text)
    try:
        require_cluster(name or "")
    except FaultError:
        return None
    return name


def _read(decoder: msgspec.json.Decoder[_T], text: bytes | None) -> _T | None:
    try:
        return decoder.decode(text or b"null")
    except _BROKEN:
        return None
