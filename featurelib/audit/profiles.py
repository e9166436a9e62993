"""Read the supported ranges in snapshot rows as profiles: range maps that several nodes share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from featurelib.feature import METADATA_VERSION
from featurelib.rows import Bool, Int, pick
from featurelib.snapshot.records import Records, Snapshots

# The first metadata.version of software with features that have a minimum of 0 (3.9).
ZERO_MINIMUM_FROM = 21
UNREADABLE = -2
NOBODY = -1


class Answers(NamedTuple):
    """The ranges that nodes reported about themselves: profile (-1 = no range), flag for a partial
    response, time, line."""

    profile: Int
    partial: Bool
    at: Int
    line: Int

    def of(self, positions: Int) -> Answers:
        """Return the responses of the listeners at `positions`; position -1 means no response."""
        return Answers(
            profile=pick(self.profile, positions, NOBODY),
            partial=pick(self.partial.astype(np.int64), positions, 0) > 0,
            at=pick(self.at, positions, 0),
            line=pick(self.line, positions, 0),
        )


class Profiles:
    """The distinct range maps (profiles) of a batch, as flat columns."""

    def __init__(self, rows: Snapshots) -> None:
        profiles, entries = rows["profiles"], rows["ranges"]
        self.size: Int = np.append(profiles.field("size"), 0)  # the empty profile comes last
        self.start: Int = np.cumsum(self.size) - self.size  # by profile: its first entry's position
        self.first: Int = profiles.start  # by cluster: the position of its first profile
        self.count: Int = profiles.lengths
        self.empty = len(profiles)
        self.entry_profile: Int = np.repeat(np.arange(len(self.size)), self.size)
        self.names = rows.names
        # by entry: its feature's position in `names`
        self.entry_feature: Int = entries.field("feature")
        self.entry_min: Int = entries.field("min_version")
        self.entry_max: Int = entries.field("max_version")
        is_metadata = self.entry_feature == entries.code("feature", METADATA_VERSION)
        self.metadata_max: Int = np.full(len(profiles) + 1, -1, dtype=np.int64)
        self.metadata_max[self.entry_profile[is_metadata]] = self.entry_max[is_metadata]

    def of_registrations(self, flat: Records) -> Int:
        """Return the profile of each registration: -1 if unreadable, `empty` without features."""
        local = flat.field("profile")
        profile = np.where(local >= 0, self.first[flat.row] + local, self.empty)
        return np.where(local == UNREADABLE, -1, profile)

    def of_listeners(self, flat: Records) -> Answers:
        """Return the profile of each listener, from its newest full and newest partial response.

        A newer partial response confirms the full one if only features with minimum 0 differ.
        Otherwise the software changed, and only the partial response is used."""
        full, partial = flat.field("full"), flat.field("partial")
        full_at, partial_at = flat.field("full_at"), flat.field("partial_at")
        two = (full >= 0) & (partial >= 0) & (partial_at > full_at)
        full, partial = (
            np.where(local >= 0, self.first[flat.row] + local, local) for local in (full, partial)
        )
        confirmed = np.ones(len(full), dtype=bool)
        pairs, of_pair = np.unique(np.stack((full[two], partial[two])), axis=1, return_inverse=True)
        confirmations = [self._confirms(int(a), int(b)) for a, b in pairs.T]
        confirmed[two] = np.array(confirmations, dtype=bool)[of_pair.ravel()]
        by_partial = ((full < 0) & (partial >= 0)) | ~confirmed
        profile = np.where(by_partial, partial, full)
        may_omit = pick(self.metadata_max, profile, -1) >= ZERO_MINIMUM_FROM
        return Answers(
            profile=profile,
            partial=by_partial & may_omit,
            at=np.where(two & confirmed, partial_at, np.where(by_partial, partial_at, full_at)),
            line=np.where(by_partial, flat.field("partial_line"), flat.field("full_line")),
        )

    def of_metrics(self, flat: Records) -> Answers:
        """Return the profile that the metrics of each listener's process show."""
        local = flat.field("scraped")
        return Answers(
            profile=np.where(local >= 0, self.first[flat.row] + local, NOBODY),
            partial=np.zeros(len(local), dtype=bool),
            at=np.where(local >= 0, flat.field("scraped_at"), 0),
            line=flat.field("scraped_line"),
        )

    def contradict(self, answers: Answers, entry: Int) -> Bool:
        """Return a mask of responses that differ from the profiles `entry` of the registrations.
        For partial responses only features with a minimum above 0 are compared."""
        differs = (answers.profile >= 0) & (entry >= 0) & (answers.profile != entry)
        differs &= (self.size[answers.profile] > 0) | (self.size[entry] > 0)  # both have no range
        for row in np.flatnonzero(differs & answers.partial).tolist():
            differs[row] = not self._confirms(int(entry[row]), int(answers.profile[row]))
        return differs

    def lack_levels(self, profiles: Int, wider: Int) -> Bool:
        """Return a mask of `profiles` that lack levels which the profile in `wider` has."""
        lack = (profiles >= 0) & (wider >= 0) & (profiles != wider)
        for row in np.flatnonzero(lack).tolist():
            ranges, other = self._ranges(int(profiles[row])), self._ranges(int(wider[row]))
            lack[row] = any(
                ranges[name][0] > other[name][0] or ranges[name][1] < other[name][1]
                for name in ranges.keys() & other.keys()
            )
        return lack

    def _confirms(self, full: int, partial: int) -> bool:
        return self._ranges(full, 1) == self._ranges(partial, 1)

    def _ranges(self, profile: int, lowest: int = 0) -> dict[int, tuple[int, int]]:
        return {
            self.entry_feature[i]: (self.entry_min[i], self.entry_max[i])
            for i in range(self.start[profile], self.start[profile] + self.size[profile])
            if self.entry_min[i] >= lowest
        }


def ranges_of(snapshots: Snapshots, profile: int) -> dict[str, tuple[int, int]]:
    """Return feature → supported range of one profile. The last profile of a batch is empty."""
    sizes, entries = snapshots["profiles"].field("size"), snapshots["ranges"]
    first = int(sizes[:profile].sum())
    positions = range(first, first + int(sizes[profile]) if profile < len(sizes) else first)
    low, high = entries.field("min_version"), entries.field("max_version")
    return {entries.text("feature", i) or "": (int(low[i]), int(high[i])) for i in positions}
