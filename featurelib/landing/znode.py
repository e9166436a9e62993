"""`znode`: one node of ZooKeeper as it is stored.

The stored text is evidence: damage in it is for a finding to tell, never a reason to quarantine.
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
from msgspec import Meta

from featurelib.landing.api_versions import Ranges, ordered
from featurelib.landing.fields import INT32_MAX, Count, Level, NodeId, Text, Timed
from featurelib.landing.strict import FaultError, misfit, remembered, show

PATHS = frozenset(
    {"/feature", "/features", "/controller", "/controller_epoch", "/cluster/id", "/migration"}
)
_BROKER = re.compile(r"/brokers/ids/(0|[1-9][0-9]{0,9})", re.ASCII)


class Znode(msgspec.Struct, frozen=True, gc=False):
    """One read of one path; `version` and `data` None = there is no such node.

    `version` is ZooKeeper's data version; of the features node it is the epoch.
    """

    path: str
    version: int | None
    czxid: int | None
    data: str | None


class ZnodeLine(Timed, tag="znode", frozen=True, gc=False, kw_only=True):
    """The line as it stands in the file."""

    path: Text
    version: NodeId | None  # an int32 as well
    data: Text | None
    czxid: Count | None = None
    ephemeral_owner: Text | Count | None = None

    def content(self) -> Znode:
        """What was observed; FaultError for a path nobody asked for, or data without a version."""
        if self.path not in PATHS and broker_id(self.path) is None:
            known = ", ".join(sorted({*PATHS, "/brokers/ids/N"}))
            found = show(self.path)
            expected = f"expected one relative to the chroot ({known})"
            raise FaultError(f"wrong path: {expected}, found {found}")
        if self.version is None and self.data is not None:
            raise FaultError("version: expected a whole number beside data, found null")
        return Znode(self.path, self.version, self.czxid, self.data)


def broker_id(path: str) -> int | None:
    """The broker a registration path is of; None for any other path."""
    found = _BROKER.fullmatch(path)
    node = int(found[1]) if found else INT32_MAX + 1
    return node if node <= INT32_MAX else None


class _Controller(msgspec.Struct, frozen=True, gc=False):
    brokerid: NodeId


_CONTROLLER = msgspec.json.Decoder(_Controller)


def controller(data: str | None) -> int:
    """The broker the text of `/controller` names; -1 where it names none (ControllerZNode)."""
    try:
        return _CONTROLLER.decode(data or "").brokerid
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return -1


class _Range(msgspec.Struct, frozen=True, gc=False):
    min_version: Level
    max_version: Level


class StoredRegistration(msgspec.Struct, frozen=True, gc=False):
    """What a `/brokers/ids/N` text says: (feature, min_version, max_version) by feature.

    `features` None = the text has no such key (schemas 1 to 4), which is not an empty map.
    `defect` says what could not be read, and then the other two hold what could.
    """

    version: int | None
    features: Ranges | None
    defect: str | None


_STORED = msgspec.json.Decoder(dict[str, msgspec.Raw])
_VERSION = msgspec.json.Decoder(Annotated[int, Meta(ge=1, le=INT32_MAX)])
_FEATURES = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
_RANGE = msgspec.json.Decoder(_Range)


def registration(data: str | None) -> StoredRegistration:
    """What the text of a broker's registration says; damage is a defect, never an exception.

    Source: Kafka, ZkData.scala, BrokerIdZNode: the version is no gate, `features` may be absent.
    """
    try:
        stored = _STORED.decode(data or "")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        found = "nothing" if data is None else show(data)
        return StoredRegistration(None, None, f"expected a JSON object, found {found}")
    version = features = defect = None
    try:
        features = _features(bytes(stored.get("features", b"null")))
    except FaultError as fault:
        defect = str(fault)
    try:
        version = _VERSION.decode(stored.get("version", b"null"))
    except msgspec.ValidationError:
        found = show(bytes(stored.get("version", b"nothing")).decode())
        defect = defect or f"version: expected a whole number from 1, found {found}"
    return StoredRegistration(version, features, defect)


@remembered
def _features(raw: bytes) -> Ranges | None:
    try:
        ranges = _FEATURES.decode(raw)
    except msgspec.ValidationError:
        raise FaultError(f"features: expected an object, found {show(raw.decode())}") from None
    if ranges is None:
        return None
    return ordered(((name, *_range(name, text)) for name, text in ranges.items()), "features")


def _range(name: str, raw: msgspec.Raw) -> tuple[int, int]:
    try:
        found = _RANGE.decode(raw)
    except msgspec.ValidationError as error:
        raise misfit(bytes(raw), _Range, error, f"features.{show(name)}") from None
    return found.min_version, found.max_version
