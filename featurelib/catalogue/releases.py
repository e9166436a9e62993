"""One release's own catalogue: what its tools and controllers know, and how they map.

A 4.0 tool and a 4.3 tool map differently, a level that is unstable in one release is stable in the
next, and the flags of an unstable level may flip. So what a cluster's software says about a level
is asked of the catalogue of that release, never of today's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from featurelib.catalogue.rows import Rows, pairs
from featurelib.feature import METADATA_VERSION

CLASSIC_PARTS, EARLY_PARTS = 2, 3  # 3.9.1 means 3.9; 0.10.2.1 means 0.10.2
ANY = "any"  # the release that knows what any of them knows
FEATURE_RECORDS_FROM = 4  # 3.3-IV0: any level above 0 needs it (KIP-1022; Feature.java)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """`feature` at `level` needs `other` at `least` or higher (KIP-1022, dependencies)."""

    feature: str
    level: int
    other: str
    least: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLevel:
    """One level of a feature other than metadata.version, as one release knows it."""

    feature: str
    level: int
    default_from: int  # the metadata.version from which new clusters get it
    stable: bool  # production; an unstable one needs unstable.feature.versions.enable
    irreversible: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseCatalogue:
    """What software of one release knows. Unstable levels are known; `stable` says they are not
    for production."""

    release: str
    based_on: str  # whose tools it answers with: the release itself, but for vendor builds
    oldest: int  # metadata.version
    newest_stable: int
    newest_unstable: int
    oldest_bootstrap: int
    names: dict[int, str]  # metadata.version → 4.0-IV3; oldest first
    loses_metadata_below: frozenset[int]
    features: tuple[str, ...]  # other than metadata.version, in the order Kafka lists them
    levels: tuple[KnownLevel, ...]
    dependencies: tuple[Dependency, ...]
    _by_text: dict[str, int]

    def known_levels(self, feature: str, *, unstable: bool = True) -> tuple[int, ...]:
        """The levels of `feature`, lowest first; without `unstable`, those for production."""
        if feature == METADATA_VERSION:
            return tuple(n for n in self.names if unstable or n <= self.newest_stable)
        return tuple(
            known.level
            for known in self.levels
            if known.feature == feature and (unstable or known.stable)
        )

    def knows(self, feature: str, level: int, *, unstable: bool = True) -> bool:
        """Whether this release has that level of that feature."""
        return level in self.known_levels(feature, unstable=unstable)

    def level_of(self, text: str, *, unstable: bool = True) -> int | None:
        """The metadata.version a release version means (`3.9`, `3.9.1`, `3.7-IV2`), or None.

        A release's name means its highest production level (MetadataVersion.fromVersionString).
        """
        parts = text.split(".")
        count = EARLY_PARTS if text.startswith("0.") else CLASSIC_PARTS
        level = self._by_text.get(text, self._by_text.get(".".join(parts[:count])))
        if level is None or not self.knows(METADATA_VERSION, level, unstable=unstable):
            return None
        return level

    def default(self, feature: str, metadata_version: int) -> int:
        """The level of `feature` that version-mapping gives for a metadata.version.

        Levels are scanned in order up to the first that starts later (Feature.defaultLevel).
        """
        if feature == METADATA_VERSION:
            return metadata_version
        level = 0
        for known in self.levels:
            if known.feature == feature:
                if known.default_from > metadata_version:
                    break
                level = known.level
        return level

    def defaults(self, metadata_version: int) -> dict[str, int]:
        """Every feature's level for a metadata.version, in the order of version-mapping."""
        names = (METADATA_VERSION, *self.features)
        return {name: self.default(name, metadata_version) for name in names}

    def needs(self, feature: str, level: int) -> tuple[Dependency, ...]:
        """What a level declares to depend on (`feature-dependencies`)."""
        return tuple(d for d in self.dependencies if (d.feature, d.level) == (feature, level))

    def unmet(self, levels: Mapping[str, int]) -> tuple[Dependency, ...]:
        """Dependencies that a whole set of levels does not satisfy, by feature name.

        Besides the declared ones every level above 0 needs metadata.version 3.3-IV0, the first
        that can write feature levels; in a release that knows nothing older, its oldest.
        """
        missing = []
        for feature in sorted(set(levels) - {METADATA_VERSION}):
            for needed in (
                *self._implied(feature, levels[feature]),
                *self.needs(feature, levels[feature]),
            ):
                if levels.get(needed.other, 0) < needed.least:
                    missing.append(needed)
        return tuple(missing)

    def _implied(self, feature: str, level: int) -> Iterator[Dependency]:
        least = max(FEATURE_RECORDS_FROM, self.oldest)
        if level > 0:
            yield Dependency(feature=feature, level=level, other=METADATA_VERSION, least=least)


def release_catalogues(rows: Rows) -> dict[str, ReleaseCatalogue]:
    """Each release's own catalogue, in the order of the releases."""
    return {row.release: _of(rows, row.release) for row in rows.release}


def union(catalogues: Mapping[str, ReleaseCatalogue]) -> ReleaseCatalogue:
    """What any release knows; where releases differ about a level, the newest that knows it."""
    all_of = list(catalogues.values())
    last = {(k.feature, k.level): c for c in all_of for k in c.levels}
    last |= {(METADATA_VERSION, level): c for c in all_of for level in c.names}
    names = {level: name for c in all_of for level, name in c.names.items()}
    return replace(
        all_of[-1],
        release=ANY,
        oldest=min(names),
        names=dict(sorted(names.items())),
        loses_metadata_below=frozenset(
            n for n in names if n in last[METADATA_VERSION, n].loses_metadata_below
        ),
        features=tuple(dict.fromkeys(name for c in all_of for name in c.features)),
        levels=tuple(k for c in all_of for k in c.levels if last[k.feature, k.level] is c),
        dependencies=tuple(
            d for c in all_of for d in c.dependencies if last[d.feature, d.level] is c
        ),
    )


def _of(rows: Rows, release: str) -> ReleaseCatalogue:
    row = next(row for row in rows.release if row.release == release)
    named = {version.name: version.level for version in rows.metadata_version}
    own = {
        (d.feature, d.level, d.what): d.value
        for d in rows.release_difference
        if d.release == release
    }
    known = sorted(
        (
            v
            for v in rows.metadata_version
            if row.oldest_metadata_version <= v.level <= row.newest_unstable
        ),
        key=lambda version: version.level,
    )
    loses = {
        v.level: own.get(
            (METADATA_VERSION, v.level, "loses_metadata_below"), str(v.loses_metadata_below)
        )
        for v in known
    }
    ends = {f.feature: f for f in rows.release_feature if f.release == release}
    listed = dict.fromkeys(level.feature for level in rows.feature_level if level.feature in ends)
    mine = [
        level
        for feature in listed
        for level in sorted(
            (v for v in rows.feature_level if v.feature == feature), key=lambda v: v.level
        )
        if level.level <= ends[feature].newest_unstable
    ]
    needs = {v: own.get((v.feature, v.level, "dependency"), v.dependency) for v in mine}
    return ReleaseCatalogue(
        release=release,
        based_on=row.based_on or release,
        oldest=row.oldest_metadata_version,
        newest_stable=row.newest_stable,
        newest_unstable=row.newest_unstable,
        oldest_bootstrap=row.oldest_bootstrap,
        names={version.level: version.name for version in known},
        loses_metadata_below=frozenset(n for n, text in loses.items() if text.lower() == "true"),
        features=tuple(listed),
        levels=tuple(
            KnownLevel(
                feature=v.feature,
                level=v.level,
                default_from=named[own.get((v.feature, v.level, "default_from"), v.default_from)],
                stable=v.level <= ends[v.feature].newest_stable,
                irreversible=v.irreversible,
            )
            for v in mine
        ),
        dependencies=tuple(
            Dependency(feature=v.feature, level=v.level, other=other, least=least)
            for v, text in needs.items()
            for other, least in pairs(text)
        ),
        _by_text={
            **{v.release: v.level for v in known if v.level <= row.newest_stable},
            **{v.name: v.level for v in known},
        },
    )
