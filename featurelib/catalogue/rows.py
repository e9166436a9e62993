"""Define the rows of the catalogue's tables: one type per table, one object per row.

CSV files and overlays have the same tables and columns. This module neither looks up nor defaults
values. The requests that a listener offers (`api_keys` of ApiVersions) identify its release;
supported features do not: 4.1 with unstable features looks like 4.2. scripts/record_api_keys.py
measured release_apis.csv on real nodes: a row where a release differs from the one before.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import ClassVar, Final, TypeVar

import msgspec

from featurelib.feature import Level, Name, Role, release_number

Cell = str | int | bool


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row in a table of the catalogue."""


class VersionRow(_Row, frozen=True, kw_only=True):
    """A level of metadata.version (MetadataVersion.java)."""

    KEY: ClassVar[tuple[str, ...]] = ("level",)
    level: Level
    name: Name  # the level's name, such as 4.0-IV3
    release: str  # the release that introduced the level
    loses_metadata_below: bool  # true: a downgrade from it may lose metadata (didMetadataChange)
    purpose: str = ""
    source: str = ""


class LevelRow(_Row, frozen=True, kw_only=True):
    """A level of a feature other than metadata.version (KIP-1022; Feature.java)."""

    KEY: ClassVar[tuple[str, ...]] = ("feature", "level")
    feature: Name
    level: Level
    default_from: str  # the name of the metadata.version from which new clusters have the level
    dependency: str = ""  # the dependency, such as metadata.version=23; several are separated by ;
    stable_since: str
    irreversible: bool = False
    source: str = ""


class ReleaseRow(_Row, frozen=True, kw_only=True):
    """The metadata.version range of one release's software."""

    KEY: ClassVar[tuple[str, ...]] = ("release",)
    release: str
    oldest_metadata_version: Level
    oldest_bootstrap: Level  # new clusters never start below this level (BootstrapMetadata.java)
    newest_stable: Level
    newest_unstable: Level
    based_on: str = ""  # a vendor build's Apache release, whose features and differences it has
    source: str = ""


class ReleaseFeatureRow(_Row, frozen=True, kw_only=True):
    """The newest levels of one feature in a release's software."""

    KEY: ClassVar[tuple[str, ...]] = ("release", "feature")
    release: str
    feature: Name
    newest_stable: Level
    newest_unstable: Level
    source: str = ""


class DifferenceRow(_Row, frozen=True, kw_only=True):
    """A column value of a level in one release that differs from the newest release."""

    KEY: ClassVar[tuple[str, ...]] = ("release", "feature", "level", "what")
    release: str
    feature: Name
    level: Level
    what: str  # the column: loses_metadata_below, default_from or dependency
    value: str
    source: str = ""


class SideEffectRow(_Row, frozen=True, kw_only=True):
    """The side effect of a level. Such a level must be requested by name.

    `from_controller`: without a cluster default, the active controller's own value of `key` becomes
    the default, and values per broker are deleted
    (ConfigurationControlManager.maybeGenerateElrSafetyRecords)."""

    KEY: ClassVar[tuple[str, ...]] = ("feature", "level", "key")
    feature: Name
    level: Level
    key: str = ""  # the configuration that the level changes; "" = none
    from_controller: bool = False
    what: str  # the effect, as a phrase
    afterwards: str = ""  # what is impossible while the level is finalized
    restored: bool  # true: a downgrade restores the old value
    source: str = ""


Row = VersionRow | LevelRow | ReleaseRow | ReleaseFeatureRow | DifferenceRow | SideEffectRow
# Table name in overlays → type of its rows; with an s, the name of the file in this package.
TABLES: dict[str, type[Row]] = {
    "metadata_version": VersionRow,
    "feature_level": LevelRow,
    "release": ReleaseRow,
    "release_feature": ReleaseFeatureRow,
    "release_difference": DifferenceRow,
    "side_effect": SideEffectRow,
}


class Rows(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rows of all tables of a catalogue, or of an overlay. New rows come last."""

    metadata_version: tuple[VersionRow, ...] = ()
    feature_level: tuple[LevelRow, ...] = ()
    release: tuple[ReleaseRow, ...] = ()
    release_feature: tuple[ReleaseFeatureRow, ...] = ()
    release_difference: tuple[DifferenceRow, ...] = ()
    side_effect: tuple[SideEffectRow, ...] = ()

    def every(self) -> Iterator[tuple[str, Row]]:
        """Yield (table, row) for every row."""
        for table in TABLES:
            for row in getattr(self, table):
                yield table, row


def key_of(row: Row) -> tuple[Cell, ...]:
    """Return the values that identify a row within its table."""
    return tuple(getattr(row, name) for name in row.KEY)


def pairs(dependency: str) -> list[tuple[str, int]]:
    """Return the pairs in a text `metadata.version=23;other=1`. Raises ValueError."""
    levels = []
    for text in filter(None, dependency.split(";")):
        name, equals, level = text.partition("=")
        if not (name and equals and level.isascii() and level.isdigit()):
            raise ValueError(text)
        levels.append((name, int(level)))
    return levels


def read_rows() -> Rows:
    """Read the rows from the CSV files in this package."""
    tables = {table: _read(kind, f"{table}s.csv") for table, kind in TABLES.items()}
    return Rows(**tables)  # type: ignore[arg-type]  # each table has rows of its own type


def newest_release() -> str:
    """Return the newest release in releases.csv: the default of `--software`."""
    return _lines("releases.csv")[-1].partition(",")[0]


R = TypeVar("R")


def _read(kind: type[R], name: str) -> tuple[R, ...]:
    return msgspec.convert(list(csv.DictReader(_lines(name))), tuple[kind, ...], strict=False)  # type: ignore[valid-type]  # a type like any other


def _lines(name: str) -> list[str]:
    path = resources.files(__package__).joinpath(name)
    return path.read_text(encoding="utf-8").splitlines()


# --- Requests that listeners offer ----------------------------------------------------------------

BROKER: Final = Role.BROKER.text
CONTROLLER: Final = Role.CONTROLLER.text
ApiKeys = tuple[tuple[int, int, int], ...]  # (api_key, min_version, max_version), by key


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The versions of a request that nodes of one release offer; -1 = not offered.

    `newest_unstable`: with `unstable.api.versions.enable`. `may_be_less`: a broker may offer less,
    because the active controller or a plug-in decides."""

    min_version: int = 0
    max_version: int = -1
    newest_unstable: int = -1
    may_be_less: bool = False

    def allows(self, low: int, high: int) -> bool:
        """Return true if nodes of the release may offer versions `low` to `high` of a request."""
        if self.may_be_less:
            return low >= self.min_version and high <= self.newest_unstable
        return low == self.min_version and self.max_version <= high <= self.newest_unstable


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferRow(Offer):
    """A line of release_apis.csv: a request that a listener offers from one release on."""

    release: str
    listener: str
    api_key: int
    source: str


@cache
def releases_offering(role: Role, offered: ApiKeys) -> tuple[str, ...]:
    """Return the releases, oldest first, whose listeners of `role` offer exactly the requests
    `offered`. () = no measured release matches."""
    ranges = {key: (low, high) for key, low, high in offered}
    return tuple(release for release, known in _offers()[role.text].items() if _fits(known, ranges))


def _fits(offers: dict[int, OfferRow], ranges: dict[int, tuple[int, int]]) -> bool:
    missing = (offers[key] for key in offers.keys() - ranges.keys())
    if any(offer.max_version >= 0 and not offer.may_be_less for offer in missing):
        return False
    return all(offers.get(key, Offer()).allows(*ends) for key, ends in ranges.items())


def read_release_apis() -> tuple[OfferRow, ...]:
    """Return the rows of release_apis.csv in their order."""
    return _read(OfferRow, "release_apis.csv")


@cache
def _offers() -> dict[str, dict[str, dict[int, OfferRow]]]:
    """Return listener → release → API key → offered versions; oldest release first."""
    offers: dict[str, dict[str, dict[int, OfferRow]]] = {BROKER: {}, CONTROLLER: {}}
    rows = read_release_apis()
    for release in sorted({row.release for row in rows}, key=release_number):
        for listener, lines in offers.items():
            before = next(reversed(lines.values()), {})
            own_rows = (row for row in rows if (row.release, row.listener) == (release, listener))
            lines[release] = before | {row.api_key: row for row in own_rows}
    return offers
