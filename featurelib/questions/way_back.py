"""The way back from a roll: what a release brings, and which of those that ran before come again.

Worked out on levels alone, as the catalogue has them; KRaft mode only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from featurelib.catalogue import Catalogue
from featurelib.core.compatibility import advertised, fits
from featurelib.core.dialect import load
from featurelib.core.floors import (
    Footing,
    downgrade_floor,
    fitting_after_lowering,
    never_lowered,
    point_of_no_return,
)
from featurelib.feature import METADATA_VERSION
from featurelib.questions.entering import speaks

Levels = Mapping[str, int]
KRAFT = "kraft"


@dataclass(frozen=True, slots=True, kw_only=True)
class Back:
    """Whether nodes of one release that runs there now may come back.

    `after_lowering`: once everything is lowered without loss as far as that needs.
    """

    release: str
    after_roll: bool
    after_finalizing: bool
    after_lowering: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WayBack:
    """`brings`: what the release finalizes by default, feature → level, of what is not there yet.

    `floor`: the lowest metadata.version without loss once that is finalized; `no_return`: the first
    on the way there from which the present one is not had again; -1 = none. `joins_after`: the
    releases whose production software supports all of it.
    """

    brings: dict[str, int]
    joins_after: tuple[str, ...]
    back: tuple[Back, ...]
    floor: int
    no_return: int


def way_back(levels: Levels, release: str, running: Iterable[str], catalogue: Catalogue) -> WayBack:
    """The way back for nodes of the releases `running`, once all nodes are of `release` and
    `levels` are finalized (N3; KIP-778, Downgrades)."""
    software, before = catalogue.of(release), set(running) - {release}
    kept = {name: level for name, level in levels.items() if name in catalogue.features}
    brings = {
        name: level
        for name, level in software.defaults(software.newest_stable).items()
        if level > kept.get(name, 0) and level not in catalogue.only_by_name(name)
    }
    after, can = kept | brings, load(speaks(software.based_on, KRAFT)).can
    where, then = (_footing(catalogue, release, at) for at in (kept, after))
    target = np.array([after[METADATA_VERSION]], dtype=np.int32)
    names = sorted(after)
    row = np.array([[after[name] for name in names]], dtype=np.int32)
    ranges, fixed = advertised(catalogue, names), never_lowered(catalogue, names, row)
    lowered = fitting_after_lowering(catalogue.tables, then, can, fixed, ranges)[0].tolist()
    back = [
        Back(
            release=now.release,
            after_roll=now.joins,
            after_finalizing=later.joins,
            after_lowering=low,
        )
        for now, later, low in zip(
            fits(kept, catalogue), fits(after, catalogue), lowered, strict=True
        )
        if now.release in before
    ]
    return WayBack(
        brings=brings,
        joins_after=may_join(after, catalogue),
        back=tuple(back),
        floor=int(downgrade_floor(catalogue.tables, then, can)[0]),
        no_return=int(point_of_no_return(catalogue.tables, where, target, can)[0]),
    )


def may_join(levels: Levels, catalogue: Catalogue) -> tuple[str, ...]:
    """The releases whose production software supports these levels of Kafka's features."""
    known = {name: level for name, level in levels.items() if name in catalogue.features}
    return tuple(fit.release for fit in fits(known, catalogue) if fit.joins)


def _footing(catalogue: Catalogue, release: str, levels: Levels) -> Footing:
    code = np.array([catalogue.tables.release_code(release)], dtype=np.int64)
    level = np.array([levels[METADATA_VERSION]], dtype=np.int32)
    return Footing.alone(catalogue.tables, code, level)
