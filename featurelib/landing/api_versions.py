"""`api_versions`: what one listener of one node says it supports, and what it thinks is finalized.

A node that did not answer, or answered with an error, claims nothing: `error` says so, and its
empty lists are never taken for "supports nothing".
"""

from __future__ import annotations

import msgspec

from featurelib.catalogue.api_keys import ApiKeys
from featurelib.feature import Role
from featurelib.landing.envelope import Timed
from featurelib.landing.fault import FaultError, show
from featurelib.landing.ranges import Ranges, api_keys, finalized, supported
from featurelib.landing.wire import (
    ApiVersionsVersion,
    Epoch,
    FilledText,
    Int16,
    Listener,
    NodeId,
    Truth,
)

ROLES = {role.text: role for role in Role}
ABSENT = msgspec.Raw(b"")


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
    """The line as it stands in the file; the lists are read by `ranges`."""

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
