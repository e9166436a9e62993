"""The catalogue: what Kafka's own releases know about features, read from dated CSV files.

A level the catalogue does not know is kept wherever it is seen; it has no name, no default and is
never called stable. Names and defaults follow the newest release the catalogue knows, because an
older release's own map differs only in levels that were unstable there.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

import numpy as np
import numpy.typing as npt

from featurelib.feature import METADATA_VERSION

DATED = "2026-11-21"
NEWEST_RELEASE = "4.4"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The range of metadata.version that software of one release supports."""

    name: str
    oldest: int
    newest_stable: int
    newest_unstable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevel:
    """One level of a feature other than metadata.version (KIP-1022, Feature.java)."""

    feature: str
    level: int
    default_from: int  # the metadata.version from which new clusters get it
    stable_since: str
    irreversible: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """`feature` at `level` needs `other` at `least` or higher (KIP-1022, dependencies)."""

    feature: str
    level: int
    other: str
    least: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Everything known about features, by name and level."""

    dated: str
    names: dict[int, str]  # metadata.version: level → 3.3-IV3
    loses_metadata_below: frozenset[int]  # leaving such a level downwards may lose metadata
    levels: tuple[FeatureLevel, ...]
    dependencies: tuple[Dependency, ...]
    releases: tuple[Release, ...]
    _levels_by_name: dict[str, int] = field(repr=False)

    @property
    def features(self) -> frozenset[str]:
        """Every feature the catalogue knows, metadata.version among them."""
        return frozenset({METADATA_VERSION, *(known.feature for known in self.levels)})

    def level_name(self, feature: str, level: int | None) -> str:
        """`level` as people write it: 4.0-IV3 for metadata.version 25, else the number."""
        if level is None:
            return "?"
        if feature == METADATA_VERSION:
            return self.names.get(level, str(level))
        return str(level)

    def level_of(self, text: str) -> int | None:
        """The metadata.version a tool's text means (`4.0-IV3`, `UNKNOWN 33`, `7`), or None."""
        if text in self._levels_by_name:
            return self._levels_by_name[text]
        number = re.fullmatch(r"(?:UNKNOWN )?\[?(\d{1,5})\]?", text)
        return int(number[1]) if number else None

    def newest_known(self, feature: str) -> int:
        """The highest level of `feature` the catalogue knows; 0 for a feature it does not."""
        if feature == METADATA_VERSION:
            return max(self.names)
        return max((known.level for known in self.levels if known.feature == feature), default=0)

    def defaults(self, feature: str) -> npt.NDArray[np.int16]:
        """The default level of `feature`, int16, indexed by metadata.version from 0.

        Kafka scans the levels in order and stops at the first whose bootstrap version is higher
        (Feature.java, defaultLevel); irreversible levels are nobody's default here.
        """
        table = np.zeros(max(self.names) + 1, dtype=np.int16)
        for known in self.levels:
            if known.feature == feature and not known.irreversible:
                table[known.default_from :] = known.level
        return table

    def stable_up_to(self) -> npt.NDArray[np.int16]:
        """The newest stable metadata.version of software that advertises up to level i, int16.

        A node advertises up to the newest stable level of its release or, with unstable features
        enabled, up to the newest unstable one. A maximum that is some release's newest stable level
        is believed; one that is only ever unstable is read as that release's stable level.
        """
        table = np.arange(max(self.names) + 1, dtype=np.int16)
        stable = {release.newest_stable for release in self.releases}
        for release in self.releases:
            if release.newest_unstable not in stable:
                table[release.newest_unstable] = release.newest_stable
        return table


def _rows(name: str) -> Iterator[dict[str, str]]:
    text = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    yield from csv.DictReader(text.splitlines())


@cache
def load() -> Catalogue:
    """The catalogue that ships with this release."""
    versions = list(_rows("metadata_versions.csv"))
    names = {int(row["level"]): row["name"] for row in versions}
    by_name = {name: level for level, name in names.items()}
    rows = list(_rows("feature_levels.csv"))
    dependencies = []
    for row in rows:
        for text in filter(None, row["dependency"].split(";")):
            other, least = text.split("=")
            dependencies.append(
                Dependency(
                    feature=row["feature"], level=int(row["level"]), other=other, least=int(least)
                )
            )
    return Catalogue(
        dated=DATED,
        names=names,
        loses_metadata_below=frozenset(
            int(row["level"]) for row in versions if row["loses_metadata_below"] == "true"
        ),
        levels=tuple(
            FeatureLevel(
                feature=row["feature"],
                level=int(row["level"]),
                default_from=by_name[row["default_from"]],
                stable_since=row["stable_since"],
                irreversible=row["irreversible"] == "true",
            )
            for row in rows
        ),
        dependencies=tuple(dependencies),
        releases=tuple(
            Release(
                name=row["release"],
                oldest=int(row["oldest_metadata_version"]),
                newest_stable=int(row["newest_stable"]),
                newest_unstable=int(row["newest_unstable"]),
            )
            for row in _rows("releases.csv")
        ),
        _levels_by_name=by_name,
    )
