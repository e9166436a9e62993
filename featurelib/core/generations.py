"""Which releases a node may run, by the ranges it advertises; and so which dialects may answer.

A release advertises its stable levels or, with unstable features enabled, all it has. Two releases
may look alike (4.1 with unstable features is 4.2 to the eye): then both are meant.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from featurelib.catalogue.releases import ANY
from featurelib.catalogue.tables import Tables

Levels = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


def possible_releases(
    min_version: Levels, max_version: Levels, partial: Flags, tables: Tables
) -> Flags:
    """[P, releases] which of the catalogue's releases may advertise each profile.

    Shapes [P, catalogued features], 0-0 where a profile does not list one; `partial` [P] says that
    it may leave out features whose minimum is 0 (ApiVersions before version 4). A profile that no
    release has, as a vendor's, is read by its metadata.version; one without it fits none.
    """
    fits = np.zeros((len(min_version), len(tables.releases)), dtype=bool)
    for release, name in enumerate(tables.releases):
        if name == ANY:
            continue
        low = tables.oldest[release]
        for high in (tables.newest_stable[release], tables.newest_unstable[release]):
            shown = high > 0  # what would be 0-0 is not advertised
            same = (min_version == np.where(shown, low, 0)) & (
                max_version == np.where(shown, high, 0)
            )
            fits[:, release] |= (same | (partial[:, None] & (low <= 0))).all(axis=1)
    strange = ~fits.any(axis=1) & (max_version[:, 0] > 0)
    fits[strange] = _by_metadata_version(max_version[strange, 0], tables)
    return fits


def _by_metadata_version(newest: Levels, tables: Tables) -> Flags:
    """Releases whose newest metadata.version is nearest from below, stable or not."""
    own = np.array([name != ANY for name in tables.releases])
    stable, unstable = tables.newest_stable[:, 0], tables.newest_unstable[:, 0]
    inside = (stable <= newest[:, None]) & (newest[:, None] <= unstable) & own
    reached = own & (stable <= newest[:, None])
    nearest = np.where(reached, stable, 0).max(axis=1)
    below = (stable == nearest[:, None]) & own
    return np.where(inside.any(axis=1)[:, None], inside, below)
