"""Hold the catalogue: the features and levels of Kafka's releases, from dated CSV files.

Tools of two releases map a version differently, and a level that is unstable in one release is
stable in the next. So the catalogue of the cluster's release (`Catalogue.of`) counts, never the
newest. An unknown level is kept; it has no name, no default and is never stable. Names and defaults
of `Catalogue.whole` are the newest release's: an older release differs only in unstable levels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from featurelib.catalogue.rows import (
    Cell,
    LevelRow,
    ReleaseRow,
    Rows,
    SideEffectRow,
    newest_release,
    pairs,
    read_rows,
)
from featurelib.feature import METADATA_VERSION, SILENT_METADATA_VERSION, release_line

DATED = "2026-11-21"
NEWEST_RELEASE: Final = newest_release()
ANY = "any"  # stands for the union of all releases
CLASSIC_PARTS, EARLY_PARTS = 2, 3  # 3.9.1 means 3.9; 0.10.2.1 means 0.10.2
FEATURE_RECORDS_FROM = 4  # 3.3-IV0: needed by any level above 0 (KIP-1022; Feature.java)
HIGHEST_LEVEL = 2**15 - 1
LEAST_WIDTH = 64  # the tables have levels 0 to 63, more if a catalogue has a higher one
UNKNOWN = -1
G = TypeVar("G", bound=np.generic)
Bools = npt.NDArray[np.bool_]
Levels = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """A dependency: `feature` at `level` needs `other` at `least` or higher (KIP-1022)."""

    feature: str
    level: int
    other: str
    least: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevel:
    """A level of a feature other than metadata.version (KIP-1022, Feature.java)."""

    feature: str
    level: int
    default_from: int  # the metadata.version from which the level is the default of new clusters
    stable: bool  # true for production levels; other levels need unstable.feature.versions.enable
    irreversible: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseCatalogue:
    """The features and levels in the software of one release."""

    release: str
    based_on: str  # the Apache release whose version mapping applies
    oldest: int  # the oldest metadata.version
    newest_stable: int
    newest_unstable: int
    oldest_bootstrap: int
    names: dict[int, str]  # metadata.version → 4.0-IV3; oldest first
    loses_metadata_below: frozenset[int]  # a downgrade from such a level may lose metadata
    features: tuple[str, ...]  # without metadata.version, in Kafka's order
    levels: tuple[FeatureLevel, ...]
    dependencies: tuple[Dependency, ...]
    _by_text: dict[str, int]

    def known_levels(self, feature: str, *, unstable: bool = True) -> tuple[int, ...]:
        """Return the ascending levels of `feature`. `unstable` false = only production levels."""
        if feature == METADATA_VERSION:
            return tuple(level for level in self.names if unstable or level <= self.newest_stable)
        rows = (level for level in self.levels if level.feature == feature)
        return tuple(v.level for v in rows if unstable or v.stable)

    def ranges(self, *, unstable: bool = False) -> dict[str, tuple[int, int]]:
        """Return feature → advertised range. `unstable`: include unstable levels. Features with
        maximum 0 are omitted."""
        names = (METADATA_VERSION, *self.features)
        levels = {name: self.known_levels(name, unstable=unstable) for name in names}
        return {name: (numbers[0], numbers[-1]) for name, numbers in levels.items() if any(numbers)}

    def knows(self, feature: str, level: int, *, unstable: bool = True) -> bool:
        """Return true if this release has the level of the feature."""
        return level in self.known_levels(feature, unstable=unstable)

    def level_of(self, text: str, *, unstable: bool = True) -> int | None:
        """Return the metadata.version of a release version such as `3.9`, `3.9.1` or `3.7-IV2`;
        None if unknown. A release means its highest production level
        (MetadataVersion.fromVersionString)."""
        count = EARLY_PARTS if text.startswith("0.") else CLASSIC_PARTS
        level = self._by_text.get(text, self._by_text.get(".".join(text.split(".")[:count])))
        is_known = level is not None and self.knows(METADATA_VERSION, level, unstable=unstable)
        return level if is_known else None

    def default(self, feature: str, metadata_version: int) -> int:
        """Return the level of `feature` that version-mapping gives for a metadata.version
        (Feature.defaultLevel)."""
        if feature == METADATA_VERSION:
            return metadata_version
        level = 0
        for row in self.levels:
            if row.feature == feature:
                if row.default_from > metadata_version:
                    break
                level = row.level
        return level

    def defaults(self, metadata_version: int) -> dict[str, int]:
        """Return feature → default level at a metadata.version, in the order of version-mapping."""
        names = (METADATA_VERSION, *self.features)
        return {name: self.default(name, metadata_version) for name in names}

    def needs(self, feature: str, level: int) -> tuple[Dependency, ...]:
        """Return the declared dependencies of a level (`feature-dependencies`)."""
        return tuple(d for d in self.dependencies if (d.feature, d.level) == (feature, level))

    def unmet(self, levels: Mapping[str, int], only: str = "") -> tuple[Dependency, ...]:
        """Return the unmet dependencies of a set of levels; `only`: those of one feature. Besides
        declared dependencies, every level above 0 needs a metadata.version that can store feature
        levels (3.3-IV0)."""
        return tuple(
            needed
            for feature in sorted(({only} if only else set(levels)) - {METADATA_VERSION})
            for needed in self._all_needs(feature, levels[feature])
            if levels.get(needed.other, 0) < needed.least
        )

    def _all_needs(self, feature: str, level: int) -> Iterator[Dependency]:
        if level > 0:
            least = max(FEATURE_RECORDS_FROM, self.oldest)
            yield Dependency(feature=feature, level=level, other=METADATA_VERSION, least=least)
        yield from self.needs(feature, level)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The levels of all releases as arrays, to judge clusters of many releases at once.

    Axis 0: release, axis 1: feature, last axis: level. `release_code` and `feature_code` give
    positions; -1 = unknown, which the caller must mask. `width`: the first level above the
    arrays."""

    releases: tuple[str, ...]
    features: tuple[str, ...]  # metadata.version first, then in the order Kafka lists them
    width: int
    level_known: Bools  # [release, feature, level] true if the release knows the level
    changes: Levels  # [release, level, 0 to width] number of lossy levels up to a metadata.version
    oldest: Levels  # [release, feature] the oldest level
    newest_stable: Levels  # [release, feature] the newest stable level
    newest_unstable: Levels  # [release, feature] the newest level, stable or not
    # One row per dependency: in RELEASE, FEATURE at LEVEL requires OTHER at LEAST or higher.
    dependencies: Levels

    def release_code(self, release: str) -> int:
        """Return the position of a version's release (4.1 for `4.1.2`); -1 if unknown."""
        names = [text for text in (release, release_line(release)) if text]
        return next((self.releases.index(name) for name in names if name in self.releases), UNKNOWN)

    def feature_code(self, feature: str) -> int:
        """Return the position of a feature; -1 if unknown."""
        return self.features.index(feature) if feature in self.features else UNKNOWN

    def lossy(self, release: npt.NDArray[np.integer], level: Levels, other: Levels) -> Bools:
        """Return a mask of downgrades of metadata.version from `level` to `other` that may lose
        metadata, by the catalogue of each release. Shapes broadcast."""
        changed = self.changes[release, level] != self.changes[release, other]
        return np.asarray(changed, dtype=np.bool_)


def _tables(all_of: Sequence[ReleaseCatalogue], features: Iterable[str]) -> Tables:
    """Return the levels of these releases as arrays. `features`: without metadata.version."""
    names = (METADATA_VERSION, *features)
    highest = max(n for c in all_of for name in names for n in c.known_levels(name))
    width = max(LEAST_WIDTH, highest + 1)
    shape = (len(all_of), len(names))
    level_known = np.zeros((*shape, width), dtype=bool)
    changes = np.zeros((len(all_of), width + 1), dtype=np.int16)
    ends = np.full((3, *shape), UNKNOWN, dtype=np.int16)
    for i, catalogue in enumerate(all_of):
        steps = sorted(catalogue.loses_metadata_below)
        changes[i] = np.searchsorted(steps, np.arange(width + 1), side="right")
        for j, name in enumerate(names):
            if levels := list(catalogue.known_levels(name)):
                stable = catalogue.known_levels(name, unstable=False)
                level_known[i, j, levels] = True
                ends[:, i, j] = levels[0], max(stable, default=UNKNOWN), levels[-1]
    rows = [
        (i, names.index(d.feature), d.level, names.index(d.other), d.least)
        for i, catalogue in enumerate(all_of)
        for d in catalogue.dependencies
    ]
    return Tables(
        releases=tuple(catalogue.release for catalogue in all_of),
        features=names,
        width=width,
        level_known=_fixed(level_known),
        changes=_fixed(changes),
        oldest=_fixed(ends[0]),
        newest_stable=_fixed(ends[1]),
        newest_unstable=_fixed(ends[2]),
        dependencies=_fixed(np.array(rows, dtype=np.int16).reshape(-1, 5)),
    )


def _fixed(values: npt.NDArray[G]) -> npt.NDArray[G]:
    values.setflags(write=False)
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """The rows that an owner added to the catalogue: name, rows and digest."""

    name: str
    rows: frozenset[tuple[str, tuple[Cell, ...]]]  # (table, key) of each row
    digest: str  # SHA-256 of the rows, independent of order and layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The features, levels and releases that featurelib knows."""

    rows: Rows = field(repr=False)
    overlay: Overlay | None
    # All levels. Each level's data comes from the newest release that has the level.
    whole: ReleaseCatalogue = field(repr=False)
    releases: tuple[ReleaseCatalogue, ...] = field(repr=False)
    tables: Tables = field(repr=False, compare=False)
    _of: dict[str, ReleaseCatalogue] = field(repr=False, compare=False)

    @property
    def dated(self) -> str:
        """The day when Kafka's releases were last checked."""
        return DATED

    @property
    def names(self) -> dict[int, str]:
        """The names of the metadata.versions, as level → name such as 3.3-IV3."""
        return self.whole.names

    @property
    def loses_metadata_below(self) -> frozenset[int]:
        """The metadata.versions from which a downgrade to any lower version may lose metadata."""
        return self.whole.loses_metadata_below

    @property
    def levels(self) -> tuple[FeatureLevel, ...]:
        """The levels of all features except metadata.version."""
        return self.whole.levels

    @property
    def dependencies(self) -> tuple[Dependency, ...]:
        """The dependencies of all levels of all features."""
        return self.whole.dependencies

    @property
    def features(self) -> frozenset[str]:
        """The names of all known features, including metadata.version."""
        return frozenset({METADATA_VERSION, *self.whole.features})

    @property
    def label(self) -> str:
        """The name of the catalogue in reports: its date, and its overlay if any."""
        if self.overlay is None:
            return self.dated
        count = len(self.overlay.rows)
        rows = "1 row" if count == 1 else f"{count} rows"
        return f"{self.dated} + overlay {self.overlay.name} ({rows}, {self.overlay.digest[:12]})"

    def of(self, release: str) -> ReleaseCatalogue:
        """Return the catalogue of a release. Raises KeyError; convert untrusted texts with
        `release_named` first."""
        return self._of[release]

    def release_named(self, text: str) -> str | None:
        """Return the release of a version, such as 4.1 for `4.1.2`; None if unknown."""
        releases = self._of.keys() - {ANY}
        return next((name for name in (text, release_line(text)) if name in releases), None)

    def level_name(self, feature: str, level: int | None) -> str:
        """Return the name of `level`: 4.0-IV3 for metadata.version 25, otherwise the number."""
        if level is None:
            return "?"
        return self.names.get(level, str(level)) if feature == METADATA_VERSION else str(level)

    def level_of(self, text: str) -> int | None:
        """Return the metadata.version in a tool's text, such as `4.0-IV3`, `UNKNOWN 33` or `7`;
        None if it is none."""
        if text in self.names.values():
            return next(level for level, name in self.names.items() if name == text)
        number = re.fullmatch(r"(?:UNKNOWN )?\[?(\d{1,5})\]?", text)
        return int(number[1]) if number and int(number[1]) <= HIGHEST_LEVEL else None

    def newest_known(self, feature: str) -> int:
        """Return the highest known level of `feature`; 0 if the feature is unknown."""
        return max(self.whole.known_levels(feature), default=0)

    def newest_of_vendor(self, feature: str) -> int:
        """Return the highest known level of a vendor's feature; for other features the highest
        possible level."""
        own_levels = (r.features for r in self.releases if r.based_on == r.release)
        is_apache = feature == METADATA_VERSION or any(feature in names for names in own_levels)
        levels = self.whole.known_levels(feature)
        return HIGHEST_LEVEL if is_apache or not levels else max(levels)

    def irreversible(self, feature: str) -> frozenset[int]:
        """Return the levels of `feature` without a downgrade (kraft.version 1, KAFKA-16538)."""
        return frozenset(v.level for v in self.levels if v.feature == feature and v.irreversible)

    def only_by_name(self, feature: str) -> frozenset[int]:
        """Return the opt-in levels of `feature`: levels without downgrade, or with side effects."""
        return self.irreversible(feature) | {row.level for row in self.side_effects(feature)}

    def side_effects(self, feature: str) -> tuple[SideEffectRow, ...]:
        """Return the measured side effects of `feature` (scripts/measure_side_effects.py)."""
        return tuple(row for row in self.rows.side_effect if row.feature == feature)

    def ceiling(
        self, feature: str, metadata_version: npt.NDArray[np.int64], current: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Return the production default of `feature` at each metadata.version, without opt-in
        levels above `current`. int64, equal shapes.

        Like Kafka, stops at the first level with a higher bootstrap version (Feature.java,
        defaultLevel)."""
        level, stopped = np.zeros_like(current), np.zeros(current.shape, dtype=bool)
        by_name = self.only_by_name(feature)
        for row in self.levels:
            if row.feature == feature:
                if row.level in by_name:
                    stopped |= current < row.level
                mask = metadata_version >= row.default_from
                np.copyto(level, row.level, where=mask & ~stopped)
        return level

    def not_yet_defaults(self, moves: Mapping[str, tuple[int, int]]) -> set[str]:
        """Return the features whose new level becomes a production default only with the new
        metadata.version in `moves`: feature → (from, to)."""
        before, after = moves.get(METADATA_VERSION, (0, 0))
        ends, names = np.array([before or SILENT_METADATA_VERSION, after]), set[str]()
        for name, (low, high) in moves.items():
            ceiling, top = self.ceiling(name, ends, np.full(2, low)).tolist()
            names |= {name} if low < high and ceiling < high <= top else set()
        return names

    def stable_up_to(self) -> npt.NDArray[np.int16]:
        """Return an int16 array; element i is the newest stable metadata.version of software whose
        maximum is i.

        A node with unstable features advertises up to the newest unstable level. A maximum that is
        the newest stable level of a release stays; an unstable one becomes the stable level of its
        release."""
        table = np.arange(max(self.names) + 1, dtype=np.int16)
        stable = {release.newest_stable for release in self.releases}
        for release in self.releases:
            if release.newest_unstable not in stable:
                table[release.newest_unstable] = release.newest_stable
        return table


def build(rows: Rows, overlay: Overlay | None = None) -> Catalogue:
    """Build the catalogue from checked rows (overlay.py checks them)."""
    releases = release_catalogues(rows)
    by_release = {software.release: software for software in (*releases, _union(releases))}
    every = {row.feature: row.level for row in sorted(rows.feature_level, key=lambda v: v.level)}
    levels = [row.level for row in rows.metadata_version]
    every_release = ReleaseRow(
        release="",
        oldest_metadata_version=min(levels),
        oldest_bootstrap=min(levels),
        newest_stable=max(levels),
        newest_unstable=max(levels),
    )
    release = _release(
        rows, every_release, {name: (newest, newest) for name, newest in every.items()}
    )
    return Catalogue(
        rows=rows,
        overlay=overlay,
        whole=release,
        releases=releases,
        tables=_tables(list(by_release.values()), release.features),
        _of=by_release,
    )


def release_catalogues(rows: Rows) -> tuple[ReleaseCatalogue, ...]:
    """Return the catalogues of all releases, oldest first."""
    ends: dict[str, dict[str, tuple[int, int]]] = {row.release: {} for row in rows.release}
    for row in rows.release_feature:
        ends[row.release][row.feature] = row.newest_stable, row.newest_unstable
    return tuple(_release(rows, row, ends[row.release]) for row in rows.release)


def _release(rows: Rows, row: ReleaseRow, ends: Mapping[str, tuple[int, int]]) -> ReleaseCatalogue:
    """Return the catalogue of one release. `ends`: feature → (newest stable, newest level)."""
    numbers = {version.name: version.level for version in rows.metadata_version}
    own = {
        (d.feature, d.level, d.what): d.value
        for d in rows.release_difference
        if d.release == row.release
    }
    inside = range(row.oldest_metadata_version, row.newest_unstable + 1)
    known = sorted((v for v in rows.metadata_version if v.level in inside), key=lambda v: v.level)
    listed = list(dict.fromkeys(v.feature for v in rows.feature_level if v.feature in ends))
    levels = [v for v in rows.feature_level if v.feature in ends and v.level <= ends[v.feature][1]]
    levels.sort(key=lambda v: (listed.index(v.feature), v.level))

    def says(version: LevelRow, column: str) -> str:
        text: str = own.get((version.feature, version.level, column), getattr(version, column))
        return text

    return ReleaseCatalogue(
        release=row.release,
        based_on=row.based_on or row.release,
        oldest=row.oldest_metadata_version,
        newest_stable=row.newest_stable,
        newest_unstable=row.newest_unstable,
        oldest_bootstrap=row.oldest_bootstrap,
        names={version.level: version.name for version in known},
        loses_metadata_below=frozenset(
            v.level
            for v in known
            if own.get((METADATA_VERSION, v.level, "loses_metadata_below"), v.loses_metadata_below)
            in (True, "true")
        ),
        features=tuple(listed),
        levels=tuple(
            FeatureLevel(
                feature=level.feature,
                level=level.level,
                default_from=numbers[says(level, "default_from")],
                stable=level.level <= ends[level.feature][0],
                irreversible=level.irreversible,
            )
            for level in levels
        ),
        dependencies=tuple(
            Dependency(feature=level.feature, level=level.level, other=other, least=least)
            for level in levels
            for other, least in pairs(says(level, "dependency"))
        ),
        _by_text={
            **{v.release: v.level for v in known if v.level <= row.newest_stable},
            **{v.name: v.level for v in known},
        },
    )


def _union(all_of: Sequence[ReleaseCatalogue]) -> ReleaseCatalogue:
    """Return one catalogue with the levels of all releases. Where releases differ, the newest
    release decides."""
    last = {(level.feature, level.level): c for c in all_of for level in c.levels}
    last |= {(METADATA_VERSION, level): c for c in all_of for level in c.names}
    names = {level: name for c in all_of for level, name in c.names.items()}
    return replace(
        all_of[-1],
        release=ANY,
        oldest=min(names),
        names=dict(sorted(names.items())),
        loses_metadata_below=frozenset(
            level for level in names if level in last[METADATA_VERSION, level].loses_metadata_below
        ),
        features=tuple(dict.fromkeys(name for c in all_of for name in c.features)),
        levels=tuple(v for c in all_of for v in c.levels if last[v.feature, v.level] is c),
        dependencies=tuple(
            d for c in all_of for d in c.dependencies if last[d.feature, d.level] is c
        ),
    )


@cache
def load() -> Catalogue:
    """Return the catalogue in this release of featurelib."""
    return build(read_rows())
