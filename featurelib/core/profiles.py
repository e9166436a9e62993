"""The distinct maps feature → supported range of a batch, each standing once.

A profile is one row, whatever number of nodes advertise it; rules look at profiles, and only
offenders are expanded to nodes. Row `empty` is the profile that lists nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from featurelib.core.columns import Bool, Flat, Int, pick
from featurelib.feature import METADATA_VERSION

# The first metadata.version whose software has features with a minimum of 0 (3.9).
ZERO_MINIMUM_FROM = 21
UNREADABLE = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What each listener said of itself: a profile (-1 nothing), when, in which line."""

    profile: Int
    partial: Bool
    at: Int
    line: Int

    def metadata_max(self, profiles: Profiles) -> Int:
        """The highest metadata.version each listener says, -1 where it says none."""
        return pick(profiles.metadata_max, self.profile, -1)


class Profiles:
    """Profiles of a batch of snapshot rows; entries are flat and in profile order."""

    def __init__(self, column: pa.Array) -> None:
        outer = Flat(column)
        inner = Flat(outer.values)
        self.first: Int = outer.start  # of each cluster's profiles
        self.count: Int = outer.lengths
        self.cluster: Int = outer.row  # of each profile
        self.empty = len(outer)
        self.entry_profile: Int = inner.row
        self.names: pa.Array = inner.child("feature")
        self.entry_min: Int = inner.field("min_version")
        self.entry_max: Int = inner.field("max_version")
        self._start = inner.start
        is_metadata = pc.equal(self.names, METADATA_VERSION).to_numpy(zero_copy_only=False)
        self.metadata_max: Int = np.full(len(outer) + 1, -1, dtype=np.int64)
        self.metadata_max[self.entry_profile[is_metadata]] = self.entry_max[is_metadata]

    def of_registrations(self, flat: Flat) -> Int:
        """The profile of each registration: none listed is `empty`, unreadable is -1."""
        local = flat.field("profile")
        found = np.where(local >= 0, self.first[flat.row] + local, self.empty)
        return np.where(local == UNREADABLE, -1, found)

    def of_listeners(self, flat: Flat) -> Own:
        """What each listener said, from its newest full and its newest partial answer.

        A partial answer newer than a full one confirms it if it differs only in features whose
        minimum is 0; else the software changed, and only the partial answer is left.
        """
        full, partial = flat.field("full"), flat.field("partial")
        full_at, partial_at = flat.field("full_at"), flat.field("partial_at")
        both = (full >= 0) & (partial >= 0) & (partial_at > full_at)
        full = np.where(full >= 0, self.first[flat.row] + full, -1)
        partial = np.where(partial >= 0, self.first[flat.row] + partial, -1)
        confirmed = np.ones(len(full), dtype=bool)
        pairs, of_pair = np.unique(
            np.stack((full[both], partial[both])), axis=1, return_inverse=True
        )
        says = [self._confirms(int(a), int(b)) for a, b in pairs.T]
        confirmed[both] = np.array(says, dtype=bool)[of_pair.ravel()]
        by_partial = ((full < 0) & (partial >= 0)) | ~confirmed
        profile = np.where(by_partial, partial, full)
        may_omit = pick(self.metadata_max, profile, -1) >= ZERO_MINIMUM_FROM
        return Own(
            profile=profile,
            partial=by_partial & may_omit,
            at=np.where(both & confirmed, partial_at, np.where(by_partial, partial_at, full_at)),
            line=np.where(by_partial, flat.field("partial_line"), flat.field("full_line")),
        )

    def _confirms(self, full: int, partial: int) -> bool:
        return self._ranges(full, least=1) == self._ranges(partial, least=1)

    def _ranges(self, profile: int, least: int) -> list[tuple[str, int, int]]:
        start = self._start[profile]
        stop = self._start[profile + 1] if profile + 1 < len(self._start) else len(self.names)
        rows = zip(
            self.names[start:stop].to_pylist(),
            self.entry_min[start:stop].tolist(),
            self.entry_max[start:stop].tolist(),
            strict=True,
        )
        return [row for row in rows if row[1] >= least]
