"""ZooKeeper's features node as brokers read it, and what a newly elected controller makes of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NoReturn

from tests.core.controllers.words import Range, minor


class DamagedError(Exception):
    """Not to be decoded: readers clear their caches."""


class WrongTypeError(Exception):
    """Another JSON type than expected: what comes of it depends on the release."""


@dataclass(frozen=True)
class Content:
    schema: int
    enabled: bool
    features: dict[str, Range]


def read_node(generation: str, text: str) -> Content:
    found = parsed(text)
    if not isinstance(found, dict) or "version" not in found:
        raise WrongTypeError
    version = whole(found["version"])
    newest = 2 if generation == "zk-3.3" else 2**31
    if not 1 <= version <= newest:
        raise DamagedError
    if generation == "zk-3.3":
        enabled = status_of(found)
        entries = entries_of(found)
    else:
        entries = entries_of(found)
        enabled = status_of(found)
    features = {}
    for name, entry in entries.items():
        if not isinstance(entry, dict):
            raise WrongTypeError
        if generation == "zk-3.3":
            features[name] = level_of_33(entry, version)
        else:
            features[name] = range_of_27(entry)
    return Content(version, enabled, features)


def parsed(text: str) -> Any:
    """The first document; what follows is not looked at."""
    text = text.removeprefix("\ufeff").lstrip(" \t\r\n")
    if text == "":
        raise WrongTypeError
    try:
        return json.JSONDecoder(parse_constant=no_number).raw_decode(text)[0]
    except json.JSONDecodeError as error:
        raise DamagedError from error


def no_number(_: str) -> NoReturn:
    raise DamagedError


def whole(value: object) -> int:
    """A 32-bit number and nothing else."""
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**31) <= value < 2**31:
        raise WrongTypeError
    return value


def status_of(found: dict[str, Any]) -> bool:
    if found.get("status") is None:
        raise DamagedError
    status = whole(found["status"])
    if status not in (0, 1):
        raise DamagedError
    return status == 1


def entries_of(found: dict[str, Any]) -> dict[str, Any]:
    if found.get("features") is None:
        raise DamagedError
    if not isinstance(found["features"], dict):
        raise WrongTypeError
    return found["features"]


def short(value: int) -> int:
    """Cut to 16 bits without a question."""
    return (value + 2**15) % 2**16 - 2**15


def number_in(entry: dict[str, Any], key: str) -> int:
    if key not in entry:
        raise DamagedError
    return whole(entry[key])


def range_of_27(entry: dict[str, Any]) -> Range:
    """2.7 to 3.2: the rule sees the cut numbers."""
    low = short(number_in(entry, "min_version_level"))
    high = short(number_in(entry, "max_version_level"))
    if low < 1 or high < low:
        raise DamagedError
    return low, high


def level_of_33(entry: dict[str, Any], version: int) -> Range:
    """3.3 to 3.9: the rule sees the whole numbers; the minimum of schema 1 is checked only."""
    if version == 1:
        low = number_in(entry, "min_version_level")
        high = number_in(entry, "max_version_level")
        if low < 1 or high < low:
            raise DamagedError
    else:
        high = number_in(entry, "max_version_level")
        if high < 1:
            raise DamagedError
    return short(high), short(high)


@dataclass(frozen=True)
class Election:
    """`node`: the content afterwards; `written`: the node's version moved (or began at 0)."""

    elected: bool
    node: Content | None
    written: bool


def elect(release: str, ibp: str, content: str | None, supported: dict[str, Range]) -> Election:
    """2.7 to 3.2: schema 1 with minimum levels; the schema alone is no reason to write. 3.3 to 3.9:
    schema 2 from protocol version 3.3 on, else 1 with minimum = level."""
    old, on = minor(release) < (3, 3), minor(ibp) >= (2, 7)
    schema = 2 if not old and minor(ibp) >= (3, 3) else 1
    if content is None:
        made = supported if old else {name: (high, high) for name, (_, high) in supported.items()}
        return Election(True, Content(schema, on, dict(made) if on else {}), True)
    try:
        node = read_node("zk-2.7" if old else "zk-3.3", content)
    except (DamagedError, WrongTypeError):
        return Election(False, None, False)
    if on == node.enabled and (on or not node.features) and (old or node.schema == schema):
        return Election(True, node, False)
    return Election(True, Content(schema, on, node.features if on and node.enabled else {}), True)
