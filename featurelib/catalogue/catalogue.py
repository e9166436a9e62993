"""The catalogue: what Kafka's own releases know about features, read from dated CSV files.

A level the catalogue does not know is kept wherever it is seen; it has no name, no default and is
never called stable. `of` gives one release's own catalogue; names and defaults of the whole follow
the newest release, because an older one's own map differs only in levels that were unstable there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from featurelib.catalogue.releases import (
    ANY,
    Dependency,
    ReleaseCatalogue,
    release_catalogues,
    union,
)
from featurelib.catalogue.rows import (
    Cell,
    Rows,
    SideEffectRow,
    newest_release,
    pairs,
    read_rows,
)
from featurelib.catalogue.tables import Tables, make_tables
from featurelib.feature import METADATA_VERSION, release_line

DATED = "2026-11-21"
NEWEST_RELEASE: Final = newest_release()


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
class Overlay:
    """An overlay that was laid over the catalogue: its name, its rows, and what they say."""

    name: str
    rows: frozenset[tuple[str, tuple[Cell, ...]]]  # table, and the key of the row
    digest: str  # sha256 of the rows, whatever their order and layout in the file


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Everything known about features, by name and level."""

    dated: str
    names: dict[int, str]  # metadata.version: level → 3.3-IV3
    loses_metadata_below: frozenset[int]  # leaving such a level downwards may lose metadata
    levels: tuple[FeatureLevel, ...]
    dependencies: tuple[Dependency, ...]
    releases: tuple[Release, ...]
    overlay: Overlay | None
    rows: Rows = field(repr=False)
    tables: Tables = field(repr=False, compare=False)
    _of: dict[str, ReleaseCatalogue] = field(repr=False, compare=False)
    _levels_by_name: dict[str, int] = field(repr=False)

    @property
    def features(self) -> frozenset[str]:
        """Every feature the catalogue knows, metadata.version among them."""
        return frozenset({METADATA_VERSION, *(known.feature for known in self.levels)})

    @property
    def label(self) -> str:
        """What a report says it was judged by: the date, and the overlay if there is one."""
        if self.overlay is None:
            return self.dated
        count = len(self.overlay.rows)
        rows = "1 row" if count == 1 else f"{count} rows"
        return f"{self.dated} + overlay {self.overlay.name} ({rows}, {self.overlay.digest[:12]})"

    def of(self, release: str) -> ReleaseCatalogue:
        """The catalogue of one release's own software. KeyError for a release that is not in it:
        texts of people and collectors go through `release_named` first."""
        return self._of[release]

    def release_named(self, text: str) -> str | None:
        """The release a version means (`4.1.2` is 4.1), or None if the catalogue has none."""
        known = {release.name for release in self.releases}
        return next((name for name in (text, release_line(text)) if name in known), None)

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

    def irreversible(self, feature: str) -> frozenset[int]:
        """The levels of `feature` that nothing takes back (kraft.version 1, KAFKA-16538)."""
        return frozenset(v.level for v in self.levels if v.feature == feature and v.irreversible)

    def only_by_name(self, feature: str) -> frozenset[int]:
        """The levels of `feature` that move only when they are asked for by name: irreversible
        ones, and those that change more than the level."""
        return self.irreversible(feature) | {row.level for row in self.side_effects(feature)}

    def side_effects(self, feature: str) -> tuple[SideEffectRow, ...]:
        """What else the levels of `feature` change (measured: scripts/measure_side_effects.py)."""
        return tuple(row for row in self.rows.side_effect if row.feature == feature)

    def ceiling(
        self,
        feature: str,
        metadata_version: npt.NDArray[np.int64],
        current: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int64]:
        """The default level of `feature` at each metadata.version, as far as it can be had from the
        `current` one without a level on the way that moves only by name. int64, shapes alike.

        Kafka scans the levels in order and stops at the first whose bootstrap version is higher
        (Feature.java, defaultLevel).
        """
        level, stopped = np.zeros_like(current), np.zeros(current.shape, dtype=bool)
        for known in self.levels:
            if known.feature == feature:
                if known.level in self.only_by_name(feature):
                    stopped |= current < known.level
                there = ~stopped & (metadata_version >= known.default_from)
                level = np.where(there, known.level, level)
        return level

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


def build(rows: Rows, overlay: Overlay | None = None) -> Catalogue:
    """The catalogue of rows that do not contradict each other; see `checks`."""
    by_name = {row.name: row.level for row in rows.metadata_version}
    of_releases = release_catalogues(rows)
    of_releases[ANY] = union(of_releases)
    features = dict.fromkeys(row.feature for row in rows.feature_level)
    return Catalogue(
        dated=DATED,
        names={row.level: row.name for row in rows.metadata_version},
        loses_metadata_below=frozenset(
            row.level for row in rows.metadata_version if row.loses_metadata_below
        ),
        levels=tuple(
            FeatureLevel(
                feature=row.feature,
                level=row.level,
                default_from=by_name[row.default_from],
                stable_since=row.stable_since,
                irreversible=row.irreversible,
            )
            for row in rows.feature_level
        ),
        dependencies=tuple(
            Dependency(feature=row.feature, level=row.level, other=other, least=least)
            for row in rows.feature_level
            for other, least in pairs(row.dependency)
        ),
        releases=tuple(
            Release(
                name=row.release,
                oldest=row.oldest_metadata_version,
                newest_stable=row.newest_stable,
                newest_unstable=row.newest_unstable,
            )
            for row in rows.release
        ),
        overlay=overlay,
        rows=rows,
        tables=make_tables(of_releases, features),
        _of=of_releases,
        _levels_by_name=by_name,
    )


@cache
def load() -> Catalogue:
    """The catalogue that ships with this release."""
    return build(read_rows())
