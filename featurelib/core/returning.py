"""Which updates of a plan cannot be taken back without loss: what a person has to know beforehand.

A plan names no release, so the catalogue of all releases answers, for every dialect of the plan.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from featurelib.catalogue import Catalogue
from featurelib.catalogue.releases import ANY
from featurelib.core.batch import NOT_HERE
from featurelib.core.dialect import STRICT, load
from featurelib.core.floors import Footing, no_return_of_other, point_of_no_return
from featurelib.core.planned import Meaning, Requirements, Update
from featurelib.feature import METADATA_VERSION, UpgradeType


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What an update does that none of its kind takes back.

    `no_return`: the first level on its way from which the present one cannot be had again without
    loss, or None. `may_lose_metadata`: it says itself that it may.
    """

    deletes: bool
    may_lose_metadata: bool
    no_return: int | None


def loss_of(update: Update, meaning: Meaning, catalogue: Catalogue) -> Loss:
    """What one update of `meaning` loses, or makes it impossible to go back to."""
    points = [
        _no_return(update, meaning.requirements, name, catalogue)
        for name in meaning.own_dialects or (STRICT,)
        if update.upgrade_type == UpgradeType.UPGRADE.name
    ]
    return Loss(
        deletes=update.to_level == 0,
        may_lose_metadata=update.upgrade_type == UpgradeType.UNSAFE_DOWNGRADE.name,
        no_return=min((point for point in points if point != NOT_HERE), default=None),
    )


def _no_return(
    update: Update, requirements: Requirements, dialect: str, catalogue: Catalogue
) -> int:
    feature, current, target = update.feature, update.from_level, update.to_level
    if feature != METADATA_VERSION:
        return no_return_of_other(catalogue.of(ANY), feature, current, target)
    tables = catalogue.tables
    ends = [group.ranges[feature] for group in requirements.nodes if feature in group.ranges]
    where = Footing(
        release=np.array([tables.release_code(ANY)], dtype=np.int64),
        level=np.array([current], dtype=np.int32),
        min_version=np.array([max((low for low, _ in ends), default=0)], dtype=np.int32),
        max_version=np.array([min((high for _, high in ends), default=0)], dtype=np.int32),
        needed_by_others=np.zeros(1, dtype=np.int32),
    )
    wanted = np.array([target], dtype=np.int32)
    return int(point_of_no_return(tables, where, wanted, load(dialect).can)[0])
