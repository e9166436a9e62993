"""The software a made-up fleet runs: one row a build, one column a feature.

Ranges and default levels of real features are the catalogue's; made-up ones follow a simple law.
Every build lists every feature (an older one lists 0-0 for what it does not have yet), so that a
yardstick finds all offenders with an inner join. What that spares it is in its favour.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from featurelib.catalogue import Catalogue, load, with_overlay
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION

Level = npt.NDArray[np.int16]

OLDEST = (3, 9)  # the first release whose ApiVersions v4 shows features with a minimum of 0
REAL = (
    METADATA_VERSION,
    KRAFT_VERSION,
    "transaction.version",
    "group.version",
    "eligible.leader.replicas.version",
    "share.version",
    "streams.version",
)
# A made-up feature gains a level every third build, each third of them with another one.
BUILDS_A_LEVEL = 3
FIRST_LEVEL = 2  # of a made-up feature in the oldest build
MINIMA = 3  # minimum versions 0, 1, 2 tell nodes apart where no two may advertise the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Builds:
    """`minimum`, `maximum`: what build g supports of feature f; `levels`: what it finalizes.

    Features are sorted by name. Level 0 = not finalized. `made_up` are columns.
    """

    names: list[str]
    minimum: Level
    maximum: Level
    levels: Level
    made_up: list[int]

    def __len__(self) -> int:
        return len(self.levels)

    @property
    def metadata(self) -> int:
        """The column of metadata.version."""
        return self.names.index(METADATA_VERSION)


def list_builds(features: int, catalogue: Catalogue | None = None) -> Builds:
    """One build a release, with the first `features` of the real and then made-up features."""
    known = catalogue or load()
    releases = [r for r in known.releases if _number(r.release) >= OLDEST]
    made_up = [f"app{i:02d}.version" for i in range(features - len(REAL))]
    names = sorted([*REAL[:features], *made_up])
    shape = (len(releases), len(names))
    minimum, maximum, levels = (np.zeros(shape, dtype=np.int16) for _ in range(3))
    for build, release in enumerate(releases):
        for column, name in enumerate(names):
            if name == METADATA_VERSION:
                minimum[build, column] = release.oldest
                maximum[build, column] = levels[build, column] = release.newest_stable
            elif name in made_up:
                step = (made_up.index(name) + build) // BUILDS_A_LEVEL
                minimum[build, column] = 1
                maximum[build, column] = levels[build, column] = FIRST_LEVEL + step
            else:
                maximum[build, column] = _newest_stable(known, name, release.release)
                levels[build, column] = known.of(release.release).default(
                    name, release.newest_stable
                )
    return Builds(
        names=names,
        minimum=minimum,
        maximum=maximum,
        levels=levels,
        made_up=[names.index(name) for name in made_up],
    )


@cache
def catalogue_of(features: int) -> Catalogue:
    """The catalogue with rows for the made-up features: without them they would be a vendor's."""
    known, builds = load(), list_builds(features)
    releases = [r for r in known.releases if _number(r.release) >= OLDEST]
    rows = []
    for column in builds.made_up:
        name, ends = builds.names[column], builds.maximum[:, column].tolist()
        for level in range(max(ends) + 1):
            first = releases[next(build for build, end in enumerate(ends) if end >= level)]
            since = "3.3-IV3" if level == 0 else known.names[first.newest_stable]
            rows.append(
                f'[[feature_level]]\nfeature = "{name}"\nlevel = {level}\n'
                f'default_from = "{since}"\nstable_since = "{first.release}"\n'
            )
        for release, end in zip(releases, ends, strict=True):
            rows.append(
                f'[[release_feature]]\nrelease = "{release.release}"\nfeature = "{name}"\n'
                f"newest_stable = {end}\nnewest_unstable = {end}\n"
            )
    return with_overlay(known, "\n".join(rows), "made-up features") if rows else known


def _newest_stable(catalogue: Catalogue, feature: str, release: str) -> int:
    stable = (
        known.level
        for known in catalogue.rows.feature_level
        if known.feature == feature and _number(known.stable_since) <= _number(release)
    )
    return max(stable, default=0)


def _number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))
