"""The catalogues of all releases as arrays, for a core that judges clusters of many releases at
once.

Axis 0 is the release, axis 1 the feature, the last one a level; one look-up per row, no loop. Use
`release_code` and `feature_code` once per distinct name. -1 stands where a release does not know a
feature; such a look-up must be masked by the caller, since index -1 is the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from featurelib.catalogue.releases import ReleaseCatalogue
from featurelib.feature import METADATA_VERSION, release_line

G = TypeVar("G", bound=np.generic)
Bools = npt.NDArray[np.bool_]
Levels = npt.NDArray[np.int16]
LEAST_WIDTH = 64  # levels 0 to 63, more if a catalogue has a higher one
UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """What every release knows. `width` = the first level no table has a place for."""

    releases: tuple[str, ...]
    features: tuple[str, ...]  # metadata.version first, then in the order Kafka lists them
    width: int
    level_known: Bools  # [release, feature, level]
    defaults: Levels  # [release, feature, metadata.version]: what version-mapping gives
    changes: Levels  # [release, level, 0 to width]: lossy steps up to a metadata.version
    oldest: Levels  # [release, feature]
    newest_stable: Levels  # [release, feature]
    newest_unstable: Levels  # [release, feature]
    oldest_bootstrap: Levels  # [release]: of metadata.version
    # Dependencies, a row each: `feature` at `level` needs `other` at `least` in `release`.
    dependency_release: Levels
    dependency_feature: Levels
    dependency_level: Levels
    dependency_other: Levels
    dependency_least: Levels

    def release_code(self, release: str) -> int:
        """The position of the release a version means (`4.1.2` is 4.1); -1 if there is none."""
        known = [text for text in (release, release_line(release)) if text]
        return next((self.releases.index(n) for n in known if n in self.releases), UNKNOWN)

    def feature_code(self, feature: str) -> int:
        """The position of a feature; -1 for one that no release knows."""
        return self.features.index(feature) if feature in self.features else UNKNOWN

    def lossy(self, release: npt.NDArray[np.integer], one: Levels, other: Levels) -> Bools:
        """Whether going down from the higher to the lower metadata.version may lose metadata, by
        the catalogue of each release. Shapes broadcast; levels from 0 to `width`."""
        changed = self.changes[release, one] != self.changes[release, other]
        return np.asarray(changed, dtype=np.bool_)


def make_tables(catalogues: Mapping[str, ReleaseCatalogue], features: Iterable[str]) -> Tables:
    """The arrays of all releases; `features` other than metadata.version, in their order."""
    names = (METADATA_VERSION, *features)
    all_of = list(catalogues.values())
    width = 1 + max(
        [LEAST_WIDTH - 1, *(n for c in all_of for name in names for n in c.known_levels(name))]
    )
    shape = (len(all_of), len(names))
    known = np.zeros((*shape, width), dtype=bool)
    defaults = np.zeros((*shape, width), dtype=np.int16)
    changes = np.zeros((len(all_of), width + 1), dtype=np.int16)
    ends = np.full((3, *shape), UNKNOWN, dtype=np.int16)
    for i, catalogue in enumerate(all_of):
        steps = sorted(catalogue.loses_metadata_below)
        changes[i] = np.searchsorted(steps, np.arange(width + 1), side="right")
        for j, name in enumerate(names):
            levels = catalogue.known_levels(name)
            production = catalogue.known_levels(name, unstable=False)
            known[i, j, list(levels)] = True
            defaults[i, j] = [catalogue.default(name, n) for n in range(width)]
            if levels:
                newest = max(production, default=UNKNOWN)
                ends[:, i, j] = min(levels), newest, max(levels)
    return Tables(
        releases=tuple(catalogues),
        features=names,
        width=width,
        level_known=_fixed(known),
        defaults=_fixed(defaults),
        changes=_fixed(changes),
        oldest=_fixed(ends[0]),
        newest_stable=_fixed(ends[1]),
        newest_unstable=_fixed(ends[2]),
        oldest_bootstrap=_fixed(np.array([c.oldest_bootstrap for c in all_of], dtype=np.int16)),
        **_dependencies(all_of, names),
    )


def _dependencies(all_of: list[ReleaseCatalogue], names: tuple[str, ...]) -> dict[str, Levels]:
    rows = [
        (i, names.index(d.feature), d.level, names.index(d.other), d.least)
        for i, catalogue in enumerate(all_of)
        for d in catalogue.dependencies
    ]
    columns = np.array(rows, dtype=np.int16).reshape(-1, 5).T
    parts = ("release", "feature", "level", "other", "least")
    return {
        f"dependency_{part}": _fixed(column) for part, column in zip(parts, columns, strict=True)
    }


def _fixed(values: npt.NDArray[G]) -> npt.NDArray[G]:
    values.setflags(write=False)
    return values
