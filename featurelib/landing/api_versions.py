"""`api_versions`: what one listener of one node says it supports, and what it thinks is finalized.

A node that did not answer, or answered with an error, claims nothing: `error` says so, and its
empty lists are never taken for "supports nothing". A list is read once for each distinct text of
it: the nodes of a fleet that run one build repeat it byte for byte. A list that names a feature
twice, or ends before it starts, is not evidence.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta
from msgspec.json import Decoder

from featurelib.catalogue.rows import ApiKeys
from featurelib.feature import Role
from featurelib.landing.fields import (
    NAME_LENGTH,
    ApiVersionsVersion,
    Epoch,
    FilledText,
    Int16,
    Listener,
    NodeId,
    Timed,
    Truth,
)
from featurelib.landing.responses import FinalizedFeature, OfferedRequest, SupportedFeature
from featurelib.landing.strict import (
    MAX_DEPTH,
    FaultError,
    misfit,
    remembered,
    require_strict,
    show,
)

ROLES = {role.text: role for role in Role}
ABSENT = msgspec.Raw(b"")

_T = TypeVar("_T")

# (feature, first, last), sorted by feature.
Ranges = tuple[tuple[str, int, int], ...]


class ApiVersionsAnswer(msgspec.Struct, frozen=True, gc=False):
    """One ApiVersions answer; where `error` is set, only who was asked is known.

    `supported` is (feature, min_version, max_version), `finalized` is (feature, min_level,
    max_level), both by feature. `epoch` -1 = this witness does not know. `offers` is what requests
    it answers, (api_key, min_version, max_version) by key; () = the line does not say.
    """

    node_id: int
    role: Role
    endpoint: str
    asked_version: int
    answered_version: int | None
    error: str | None
    epoch: int
    supported: Ranges
    finalized: Ranges
    offers: ApiKeys = ()


class ApiVersionsLine(Timed, tag="api_versions", frozen=True, gc=False, kw_only=True):
    """The line as it stands in the file, the answer's fields in it; the lists are read apart."""

    node_id: NodeId
    role: Listener
    endpoint: FilledText
    asked_version: ApiVersionsVersion
    answered_version: ApiVersionsVersion | None = None
    error_code: Int16 | msgspec.UnsetType = msgspec.UNSET  # left out in ZooKeeper mode
    supported_features: msgspec.Raw = ABSENT
    finalized_features_epoch: Epoch | None = None
    finalized_features: msgspec.Raw = ABSENT
    zk_migration_ready: Truth | None = None
    api_keys: msgspec.Raw = ABSENT
    error: FilledText | None = None

    def content(self) -> ApiVersionsAnswer:
        """What was observed; FaultError for lists that are no ranges, two answers or none."""
        offers = api_keys(bytes(self.api_keys)) if self.api_keys else ()
        epoch = self.finalized_features_epoch
        if not self.supported_features or not self.finalized_features or epoch is None:
            return self._silence()
        if self.error is not None:
            raise FaultError(f"error: expected none beside an answer, found {show(self.error)}")
        supports = supported(bytes(self.supported_features))
        finalizes = finalized(bytes(self.finalized_features))
        if self.error_code:
            return self._failure(f"error code {self.error_code}")
        answered = self.answered_version
        return ApiVersionsAnswer(
            self.node_id,
            ROLES[self.role],
            self.endpoint,
            self.asked_version,
            self.asked_version if answered is None else answered,
            None,
            epoch,
            supports,
            finalizes,
            offers,
        )

    def _silence(self) -> ApiVersionsAnswer:
        parts = {
            "supported_features": bool(self.supported_features),
            "finalized_features_epoch": self.finalized_features_epoch is not None,
            "finalized_features": bool(self.finalized_features),
        }
        given = [name for name, there in parts.items() if there]
        if given and self.error is not None:
            raise FaultError(f"error: expected none beside an answer, found both it and {given[0]}")
        if given:
            missing = next(name for name, there in parts.items() if not there)
            raise FaultError(f"{missing} is missing: expected beside {given[0]}")
        if self.error is None and not self.error_code:
            raise FaultError("neither an answer nor an error: expected supported_features or error")
        return self._failure(self.error or f"error code {self.error_code}")

    def _failure(self, error: str) -> ApiVersionsAnswer:
        who = (self.node_id, ROLES[self.role], self.endpoint, self.asked_version)
        return ApiVersionsAnswer(*who, None, error, -1, (), ())


_LIST = Meta(description="a list of objects")
_SUPPORTED = Annotated[list[SupportedFeature], _LIST]
_FINALIZED = Annotated[list[FinalizedFeature], _LIST]
_OFFERED = Annotated[list[OfferedRequest], _LIST]
_SUPPORTED_DECODER = Decoder(list[SupportedFeature])
_FINALIZED_DECODER = Decoder(list[FinalizedFeature])
_OFFERED_DECODER = Decoder(list[OfferedRequest])


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
    items = _items(raw, _OFFERED_DECODER, _OFFERED, "api_keys")
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
