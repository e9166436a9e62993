"""Lists of named ranges: what a node supports, what is finalized.

A list is read once for each distinct text of it: the nodes of a fleet that run one build repeat
it byte for byte. A list that names a feature twice, or ends before it starts, is not evidence.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta
from msgspec.json import Decoder

from featurelib.catalogue.api_keys import ApiKeys
from featurelib.landing.document import MAX_DEPTH, require_strict
from featurelib.landing.fault import FaultError, show
from featurelib.landing.memory import remembered
from featurelib.landing.shape import misfit
from featurelib.landing.wire import NAME_LENGTH, FilledText, Int16, Level

_T = TypeVar("_T")

# (feature, first, last), sorted by feature.
Ranges = tuple[tuple[str, int, int], ...]


class Supported(msgspec.Struct, frozen=True, gc=False):
    """One supported version range as an ApiVersions answer names it."""

    name: FilledText
    min_version: Level
    max_version: Level


class Finalized(msgspec.Struct, frozen=True, gc=False):
    """One finalized feature as an ApiVersions answer names it."""

    name: FilledText
    min_version_level: Level
    max_version_level: Level


class ApiKey(msgspec.Struct, frozen=True, gc=False):
    """One request a node offers, in versions from the first to the last."""

    api_key: Int16
    min_version: Int16
    max_version: Int16


_LIST = Meta(description="a list of objects")
_SUPPORTED = Annotated[list[Supported], _LIST]
_FINALIZED = Annotated[list[Finalized], _LIST]
_API_KEYS = Annotated[list[ApiKey], _LIST]
_SUPPORTED_DECODER = Decoder(list[Supported])
_FINALIZED_DECODER = Decoder(list[Finalized])
_API_KEYS_DECODER = Decoder(list[ApiKey])


@remembered
def supported(raw: bytes) -> Ranges:
    """(feature, min_version, max_version) of `supported_features`; FaultError for no ranges."""
    items = _items(raw, _SUPPORTED_DECODER, _SUPPORTED, "supported_features")
    ranges = ((item.name, item.min_version, item.max_version) for item in items)
    return ordered(ranges, "supported_features")


@remembered
def finalized(raw: bytes) -> Ranges:
    """(feature, min_level, max_level) of `finalized_features`; FaultError for no ranges."""
    items = _items(raw, _FINALIZED_DECODER, _FINALIZED, "finalized_features")
    ranges = ((item.name, item.min_version_level, item.max_version_level) for item in items)
    return ordered(ranges, "finalized_features")


@remembered
def api_keys(raw: bytes) -> ApiKeys:
    """(api_key, min_version, max_version) of `api_keys`; FaultError for no such list."""
    items = _items(raw, _API_KEYS_DECODER, _API_KEYS, "api_keys")
    return tuple(sorted((item.api_key, item.min_version, item.max_version) for item in items))


def _items(raw: bytes, decoder: Decoder[list[_T]], shape: object, where: str) -> list[_T]:
    require_strict(raw, MAX_DEPTH - 1)  # one level is the line around it
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise misfit(raw, shape, error, where) from None


def ordered(ranges: Iterable[tuple[str, int, int]], where: str) -> Ranges:
    """`ranges` by feature; FaultError for a name that is none or repeated, or min above max."""
    by_name = sorted(ranges)
    before = None
    for name, first, last in by_name:
        if not 1 <= (length := len(name.encode())) <= NAME_LENGTH:
            raise FaultError(f"{where}: expected names of 1 to {NAME_LENGTH} bytes, found {length}")
        if name == before:
            raise FaultError(f'{where}: the feature "{show(name)}" is named more than once')
        if first > last:
            found = f"found {first} to {last}"
            raise FaultError(f'{where}: expected the range of "{show(name)}" to ascend, {found}')
        before = name
    return tuple(by_name)
