"""Read the `/feature` znode like ZooKeeper-mode brokers, and predict the writes of an election.

For each text and generation of brokers the result equals the brokers' own, with the order of their
checks and truncations. features_znode.toml has the brokers' reactions as data.

An election's effect depends on the new controller's protocol version, the znode's content and the
broker's release (KIP-584, Controller: ZK node bootstrap with default values;
KafkaController.enableFeatureVersioning and disableFeatureVersioning). The module also lists the
values of inter.broker.protocol.version. A release knows its own value and all older values, and a
broker does not start with another value. KRaft uses metadata.version instead (KIP-778).
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from typing import Final, NoReturn, TypedDict

import numpy as np

from featurelib.core.cluster import Features
from featurelib.core.compatibility import range_refused
from featurelib.core.dialect import Dialect, is_before

DISABLED, ENABLED = 0, 1  # values of the znode's status
Entries = tuple[tuple[str, int, int], ...]  # (name, minimum, level), sorted by name


class Generation(StrEnum):
    """A generation of brokers that read the znode, and react to it, in one way."""

    ZK_2_7 = "zk-2.7"  # 2.7 to 3.2, measured with 2.8.2
    ZK_3_3 = "zk-3.3"  # 3.3 to 3.8, measured with 3.3.2; see wrong_type in the toml
    ZK_3_9 = "zk-3.9"  # measured with 3.9.2; reads like zk-3.3, but reacts differently


class ZnodeReading(StrEnum):
    """The result of reading the text of the `/feature` znode."""

    ACCEPTED = "accepted"
    DISABLED = "disabled"  # status 0: the text is readable, its features are ignored
    UNDECODABLE = "undecodable"  # class A: Kafka's decoder raises IllegalArgumentException
    WRONG_TYPE = "wrong_type"  # class B: Kafka's decoder raises JsonMappingException
    INCOMPATIBLE = "incompatible"  # class C: decided by core/rules.py, never returned by `decode`


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedNode:
    """The `/feature` znode as a generation of brokers reads it.

    `levels`: (name, minimum, level), empty if the text is refused. `schema_version`, `status`: None
    if the text is refused. `fault`: a sentence for operators, or None."""

    reading: ZnodeReading
    schema_version: int | None = None
    status: int | None = None
    levels: Entries = ()
    fault: str | None = None


class _RefusedTextError(Exception):
    def __init__(
        self,
        path: str,
        expected: str,
        actual: str,
        reading: ZnodeReading = ZnodeReading.UNDECODABLE,
    ) -> None:
        super().__init__(f"Features node, {path}: expected {expected}, found {actual}.")
        self.reading = reading


def decode(text: str, generation: Generation) -> DecodedNode:
    """Read the text of the `/feature` znode like brokers of a generation.

    Bytes that are no UTF-8 are in `text` as surrogateescape codes. Never raises: the result of an
    invalid text has a fault. Source: FeatureZNode.decode (ZkData.scala; equal in 2.7.0 to 3.2.3 and
    in 3.3.0 to 3.9.0).
    """
    try:
        members = _as_object(_parse(text), "top level")
        version = _schema_version(members, generation)
        # The order of these two checks decides the class of a text with both faults.
        if generation is Generation.ZK_2_7:
            entries, status = _entries(members), _status(members)
            levels = {name: _range_2_7(name, entry) for name, entry in entries.items()}
        else:
            status, entries = _status(members), _entries(members)
            levels = {name: _range_3_3(name, entry, version) for name, entry in entries.items()}
    except _RefusedTextError as refusal:
        return DecodedNode(reading=refusal.reading, fault=str(refusal))
    rows = tuple((name, *levels[name]) for name in sorted(levels))
    sample = ", ".join(f"{_show(name)} at {level}" for name, _, level in rows[:5])
    lost = f"Features node, status: expected 1, found 0, so {len(rows)} are ignored, like {sample}."
    return DecodedNode(
        reading=ZnodeReading.ACCEPTED if status else ZnodeReading.DISABLED,
        schema_version=version,
        status=status,
        levels=rows if status else (),
        fault=lost if rows and not status else None,
    )


def _schema_version(members: dict[str, object], generation: Generation) -> int:
    version = _as_int(members.get("version", _MISSING), "version")
    if version < 1 or (version > 2 and generation is not Generation.ZK_2_7):
        raise _RefusedTextError("version", "1 or 2", str(version))
    return version


def _status(members: dict[str, object]) -> int:
    stored = members.get("status", _MISSING)
    if stored is None or stored is _MISSING or (status := _as_int(stored, "status")) not in (0, 1):
        raise _RefusedTextError("status", "0 or 1", _show(stored))
    return status


def _entries(members: dict[str, object]) -> dict[str, dict[str, int]]:
    """Return feature → key → 32-bit number. Also checks that unknown keys have a number."""
    features = members.get("features", _MISSING)
    if features is None or features is _MISSING:
        raise _RefusedTextError("features", "an object", _show(features))
    entries = {}
    for name, entry in _as_object(features, "features").items():
        path = f"features[{_show(name)}]"
        # JSON can escape a lone surrogate; Java sends such a character as a question mark.
        entries[name.encode("utf-8", "replace").decode()] = {
            key: _as_int(number, f"{path}[{_show(key)}]")
            for key, number in _as_object(entry, path).items()
        }
    return entries


def _range_2_7(name: str, entry: dict[str, int]) -> tuple[int, int]:
    """Return (minimum, level) as Kafka 2.7 reads an entry: cut to 16 bits, then checked."""
    shorts = {key: _as_int16(number) for key, number in entry.items()}
    least = _bounded(name, shorts, "min_version_level", 1)
    return least, _bounded(name, shorts, "max_version_level", least)


def _range_3_3(name: str, entry: dict[str, int], version: int) -> tuple[int, int]:
    """Return (level, level) as Kafka 3.3 reads an entry: checked, then cut to 16 bits. 32768 is
    accepted and becomes -32768."""
    least = _bounded(name, entry, "min_version_level", 1) if version == 1 else 1
    level = _as_int16(_bounded(name, entry, "max_version_level", least))
    return level, level


def _bounded(name: str, entry: dict[str, int], key: str, least: int) -> int:
    level = entry.get(key)
    if level is None or level < least:
        actual = _show(entry.get(key, _MISSING))
        raise _RefusedTextError(f'features[{_show(name)}]["{key}"]', f"{least} or above", actual)
    return level


def _as_int16(number: int) -> int:
    return (number + 0x8000 & 0xFFFF) - 0x8000  # the number that Java keeps in 16 bits


def _as_int(value: object, path: str) -> int:
    # The exact type: in Python true is an integer, in Jackson it is not.
    if type(value) is int and -(2**31) <= value < 2**31:
        return value
    raise _RefusedTextError(
        path, "a whole number of 32 bits", _show(value), ZnodeReading.WRONG_TYPE
    )


def _as_object(value: object, path: str) -> dict[str, object]:
    if isinstance(value, dict):
        return value
    raise _RefusedTextError(path, "an object", _show(value), ZnodeReading.WRONG_TYPE)


def _show(value: object) -> str:
    """Return a stored value as short, escaped text."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    text = "nothing" if value is _MISSING else json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _parse(text: str) -> object:
    """Return the first JSON document of the text as Jackson reads it; ignore the rest of the text.

    `_MISSING` for white space. One difference remains: from 3.7 on brokers reject more than 1000
    levels of nesting or digits; here Python's stack is the limit.
    """
    try:
        data = text.encode("utf-8", "surrogateescape")
        # Jackson guesses the encoding likewise, but ignores a byte-order mark in three bytes.
        encoding = "utf-8" if len(data) == 3 else json.detect_encoding(data)
        body = data.decode(encoding, "surrogateescape")
        start = len(body) - len(body.lstrip(_SPACE))
        if start == len(body):
            return _MISSING
        document, end = _JSON.raw_decode(body, start)
        body[:end].encode()  # raises for bytes that are no UTF-8
    except json.JSONDecodeError as error:
        actual = _show(error.doc[error.pos :][:50] or _MISSING)
        raise _RefusedTextError(f"character {error.pos + 1}", "JSON", actual) from error
    except (UnicodeError, RecursionError) as error:
        raise _RefusedTextError("top level", "JSON", f"none ({error})") from error
    if _runs_on(document, body[end : end + 1]):
        raise _RefusedTextError(f"character {end + 1}", "white space", _show(body[end:][:50]))
    return document


def _runs_on(document: object, follower: str) -> bool:
    """Return true if a top-level number or word is part of a longer one (01, nullx)."""
    if isinstance(document, dict | list | str):
        return False
    if document is None or isinstance(document, bool):
        return follower.isalnum() or follower == "_" or follower > "~"
    return follower not in _SPACE


def _refuse_constant(name: str) -> NoReturn:
    raise _RefusedTextError("top level", "JSON", name)


_MISSING: Final = object()
_SPACE: Final = " \t\n\r"
_JSON: Final = json.JSONDecoder(
    # Python refuses integers of thousands of digits; beyond 32 bits only the type matters.
    parse_int=lambda digits: int(digits) if len(digits) < 20 else float(digits),
    parse_constant=_refuse_constant,
)


class Behaviour(TypedDict):
    """The behaviour of broker generations for one reading of the znode: a row of
    features_znode.toml."""

    reading: ZnodeReading
    generations: list[Generation]
    releases: str
    running: list[str]  # effects of writing the text while brokers run with a valid znode
    at_start: list[str]  # effects if the text exists before the broker and its controller start
    brief: str
    text: str


_DATA: Final = files(__package__).joinpath("features_znode.toml").read_text("utf-8")
BEHAVIOURS: Final[tuple[Behaviour, ...]] = tuple(tomllib.loads(_DATA)["behaviour"])


def behaviour_row(reading: ZnodeReading, generation: Generation) -> Behaviour:
    return next(
        row for row in BEHAVIOURS if row["reading"] == reading and generation in row["generations"]
    )


def behaviour(reading: ZnodeReading, generation: Generation) -> str:
    """Return a text for operators: how brokers of a generation react to such a znode."""
    return behaviour_row(reading, generation)["text"]


def behaviour_anywhere(reading: ZnodeReading) -> str:
    """Return a short text about how brokers of all releases react to such a znode."""
    rows = [row for row in BEHAVIOURS if row["reading"] == reading]
    return "; ".join(f"{row['releases']}: {row['brief']}" for row in rows) + "."


class ZnodeChange(StrEnum):
    """The change that the election of a controller makes to the `/feature` znode."""

    CREATED = "created"  # the znode's data version becomes 0
    REWRITTEN = "rewritten"  # the znode's data version grows by one
    UNCHANGED = "unchanged"
    NOBODY = "nobody"  # this broker cannot become controller; the znode is unchanged


class ZnodeReason(StrEnum):
    """The reason why an election writes the `/feature` znode, or fails."""

    ABSENT = "absent"
    ENABLED = "enabled"  # the status was Disabled, and the protocol version is 2.7 or above
    DISABLED = "disabled"  # the status was Enabled, and the protocol version is below 2.7
    EMPTIED = "emptied"  # the status was Disabled, and the znode still had features
    SCHEMA_UP = "schema_up"  # the new schema has no minimums
    SCHEMA_DOWN = "schema_down"  # the new schema has the level as every minimum
    UNDECODABLE = "undecodable"  # the election fails again and again
    WRONG_TYPE = "wrong_type"  # the broker does not even start
    INCOMPATIBLE = "incompatible"  # the broker stops because of a finalized level


@dataclass(frozen=True, slots=True, kw_only=True)
class ZnodeContent:
    """The content of the `/feature` znode, as the brokers of one generation read it."""

    schema_version: int
    status: int
    levels: Entries = ()

    @property
    def text(self) -> str:
        """The JSON that a controller writes. Kafka may order the keys differently."""
        features = {name: {"max_version_level": level} for name, _, level in self.levels}
        for name, low, _ in self.levels if self.schema_version == 1 else ():
            features[name]["min_version_level"] = low
        node = {"features": features, "version": self.schema_version, "status": self.status}
        return json.dumps(node, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionResult:
    """The consequences for the `/feature` znode if one broker becomes controller."""

    change: ZnodeChange
    reasons: tuple[ZnodeReason, ...] = ()
    text: str | None = None  # the text of the znode afterwards
    content: ZnodeContent | None = None  # the text as read; None if no controller is elected
    lost: Entries = ()  # the finalized levels that are not finalized afterwards
    fault: str | None = None  # the fault of the earlier text, for people
    unfit: tuple[str, ...] = ()  # features that this broker does not support

    def version(self, before: int | None) -> int | None:
        """Return the znode's data version after the election. `before` None = no znode existed."""
        if self.change is ZnodeChange.CREATED:
            return 0
        return before + 1 if before is not None and self.change is ZnodeChange.REWRITTEN else before


def elect(
    text: str | None, protocol_version: str, supported: Features | None, dialect: Dialect
) -> ElectionResult:
    """Predict the effect on the znode if a broker of `dialect`'s generation is elected controller.

    `text`: the stored text, None if the znode is absent; `protocol_version`: the broker's
    inter.broker.protocol.version; `supported`: the ranges that the broker advertises, None = every
    level of the znode. Without a znode, levels that only the broker knows are omitted.
    """
    table = dialect.election
    is_on = not is_before(protocol_version, table.system_from)
    second = bool(table.schema_2_from) and not is_before(protocol_version, table.schema_2_from)
    schema, status = 2 if second else 1, ENABLED if is_on else DISABLED
    if text is None:
        # The election finalizes all levels that this broker supports, even if other brokers lack
        # them.
        ranges, full_range = (supported or {}) if is_on else {}, table.creates_range
        levels = [(name, low if full_range else high, high) for name, (low, high) in ranges.items()]
        made = ZnodeContent(schema_version=schema, status=status, levels=tuple(sorted(levels)))
        return ElectionResult(
            change=ZnodeChange.CREATED, reasons=(ZnodeReason.ABSENT,), text=made.text, content=made
        )
    node = decode(text, Generation(dialect.name))
    if node.reading in (ZnodeReading.UNDECODABLE, ZnodeReading.WRONG_TYPE):
        reason = ZnodeReason(node.reading.value)
        return ElectionResult(
            change=ZnodeChange.NOBODY, reasons=(reason,), text=text, fault=node.fault
        )
    result = _rewrite(text, node, ZnodeContent(schema_version=schema, status=status), dialect)
    assert result.content is not None
    names = () if supported is None else incompatible(result.content.levels, supported, dialect)
    return unfit_for(result, text, names) if names else result


def unfit_for(foreseen: ElectionResult, text: str, names: tuple[str, ...]) -> ElectionResult:
    """Return the election result of a broker that does not support the features `names`."""
    return ElectionResult(
        change=ZnodeChange.NOBODY,
        reasons=(ZnodeReason.INCOMPATIBLE,),
        text=text,
        fault=foreseen.fault,
        unfit=names,
    )


def incompatible(levels: Entries, supported: Features, dialect: Dialect) -> tuple[str, ...]:
    """Return the features in an enabled znode that a broker with these ranges lacks."""
    rows = [(low, level, *supported.get(name, (0, 0))) for name, low, level in levels]
    minimum, level, low, high = np.array(rows, dtype=np.int32).reshape(-1, 4).T
    silent = np.array([name not in supported for name, _, _ in levels], dtype=bool)
    mask = range_refused(dialect.protection.brokers, minimum, level, low, high, silent)
    return tuple(name for (name, _, _), is_bad in zip(levels, mask, strict=True) if is_bad)


def _rewrite(
    text: str, node: DecodedNode, target: ZnodeContent, dialect: Dialect
) -> ElectionResult:
    was_on, holds_ignored = node.status == ENABLED, node.fault is not None
    schema = node.schema_version or target.schema_version
    reasons = []
    if was_on != (target.status == ENABLED):
        reasons.append(ZnodeReason.DISABLED if was_on else ZnodeReason.ENABLED)
    if not was_on and holds_ignored:
        reasons.append(ZnodeReason.EMPTIED)
    if dialect.election.schema_2_from and schema != target.schema_version:
        is_upgrade = target.schema_version > schema
        reasons.append(ZnodeReason.SCHEMA_UP if is_upgrade else ZnodeReason.SCHEMA_DOWN)
    levels = node.levels if target.status == ENABLED else ()
    content = ZnodeContent(
        schema_version=target.schema_version if reasons else schema,
        status=target.status,
        levels=levels,
    )
    return ElectionResult(
        change=ZnodeChange.REWRITTEN if reasons else ZnodeChange.UNCHANGED,
        reasons=tuple(reasons),
        text=content.text if reasons else text,
        content=content,
        lost=tuple(entry for entry in node.levels if entry not in levels),
        fault=node.fault,
    )


def knows(dialect: Dialect, protocol_version: str) -> bool:
    """Return true if any release of the dialect can run with this inter.broker.protocol.version."""
    return any(not is_before(release, protocol_version) for release in dialect.releases)
