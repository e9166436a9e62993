"""NODE_COLUMNS of a batch of requests, each worked out when a rule first reads it."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from featurelib.core.batch import Batch, Flags, Group, Ints, Levels
from featurelib.core.dialect import Absence, RuleRow
from featurelib.core.update_columns import UpdateColumns


class NodeColumns:
    """NODE_COLUMNS: one row for each (update, profile) of the group a rule row asks."""

    def __init__(self, updates: UpdateColumns, batch: Batch, row: RuleRow) -> None:
        assert row.asks is not None
        self.group: Group = batch.groups[row.asks]
        size = self.group.size[updates.request]
        first = np.cumsum(size) - size
        self.update: Ints = np.repeat(np.arange(len(size)), size)
        offset = np.repeat(self.group.start[updates.request] - first, size)
        self.pair: Ints = np.arange(len(self.update)) + offset
        self._profile = self.group.profile[self.pair]
        self._feature = updates.feature[self.update]
        self._updates, self._ranges = updates, batch.ranges
        self._refuse = row.absence is Absence.REFUSE

    @cached_property
    def level(self) -> Levels:
        return self._updates.level[self.update]

    @property
    def lowest(self) -> Levels:
        return self._updates.local_min[self.update]

    @cached_property
    def min_version(self) -> Levels:
        return self._ranges.min_version[self._profile, self._feature]

    @cached_property
    def max_version(self) -> Levels:
        return self._ranges.max_version[self._profile, self._feature]

    @property
    def silent(self) -> Flags:
        if not self._refuse:
            return np.zeros(len(self.update), dtype=bool)
        return ~self._ranges.lists[self._profile, self._feature]
