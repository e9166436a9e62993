"""Which releases fit the finalized levels: who may join now, be rolled to, and come back later.

A release is judged by the ranges its software advertises, with production features only and with
unstable ones. Arrays: R clusters, L releases, F features, W metadata.versions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from featurelib.catalogue import Catalogue, Tables
from featurelib.core.batch import Flags, Levels
from featurelib.core.dialect import Capability
from featurelib.core.floors import Footing, held
from featurelib.core.rows import NodeRows
from featurelib.core.rules import RULES
from featurelib.feature import METADATA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Advertised:
    """The ranges of each release's software; 0-0 where it does not list the feature."""

    releases: tuple[str, ...]
    names: tuple[str, ...]
    min_version: Levels  # [L, F]
    max_version: Levels  # [L, F]


def advertised(catalogue: Catalogue, names: Sequence[str], *, unstable: bool = False) -> Advertised:
    """What every release of the catalogue says it supports of `names` (KIP-584, ApiVersions;
    KIP-1022, unstable.feature.versions.enable). A feature whose highest is 0 is not listed."""
    tables, releases = catalogue.tables, tuple(release.name for release in catalogue.releases)
    codes = np.array([tables.feature_code(name) for name in names], dtype=np.int64)
    at = np.array([tables.release_code(release) for release in releases])[:, None], codes
    highest = tables.newest_unstable[at] if unstable else tables.newest_stable[at]
    listed = (codes >= 0) & (highest > 0)
    return Advertised(
        releases=releases,
        names=tuple(names),
        min_version=np.where(listed, tables.oldest[at], 0).astype(np.int32),
        max_version=np.where(listed, highest, 0).astype(np.int32),
    )


def misfits(levels: Levels, ranges: Advertised) -> Flags:
    """[R, L, F]: a node of that release does not support what is finalized there, [R, F]; 0 = not
    finalized (KIP-584, Broker protections; ClusterControlManager.registerBroker)."""
    finalized = levels[:, None, :]
    rows = NodeRows(
        lowest=finalized,
        level=finalized,
        min_version=ranges.min_version[None],
        max_version=ranges.max_version[None],
    )
    return RULES["incompatible_with_finalized"].ask(rows)


def fitting_after_lowering(
    tables: Tables, where: Footing, can: Capability, fixed: Levels, ranges: Advertised
) -> Flags:
    """[R, L]: once everything is lowered as far as that release needs, it may be rolled to.

    `fixed` [R, F] are the levels that nothing lowers, see `never_lowered` (metadata.version: 0);
    metadata.version goes to any level that loses nothing (KIP-778, Downgrades: the level first,
    then the software).
    """
    code = ranges.names.index(METADATA_VERSION)
    levels = np.arange(tables.width, dtype=np.int32)
    refused = np.logical_or.reduce(list(held(tables, where, can).values()))
    free = ~refused & (levels <= where.level[:, None])  # [R, W]
    only = Advertised(
        releases=ranges.releases,
        names=(METADATA_VERSION,),
        min_version=ranges.min_version[:, [code]],
        max_version=ranges.max_version[:, [code]],
    )
    holds = ~misfits(levels[:, None], only)[:, :, 0]  # [W, L]
    somewhere: Flags = (free[:, :, None] & holds[None]).any(axis=1)
    return somewhere & ~misfits(fixed, ranges).any(axis=2)


def never_lowered(catalogue: Catalogue, names: Sequence[str], levels: Levels) -> Levels:
    """[R, F] the level nothing takes each feature below: an irreversible one, or 0."""
    fixed = np.zeros_like(levels)
    for known in catalogue.levels:
        if known.irreversible and known.feature in names:
            at = names.index(known.feature)
            fixed[:, at] = np.where(levels[:, at] < known.level, fixed[:, at], known.level)
    return fixed


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One release and one cluster's levels: the features it does not support as they are."""

    release: str
    misfits: tuple[str, ...]  # of production software
    misfits_unstable: tuple[str, ...]  # with unstable features enabled

    @property
    def joins(self) -> bool:
        """A node of production software may register now."""
        return not self.misfits


def fits(levels: Mapping[str, int], catalogue: Catalogue) -> tuple[Fit, ...]:
    """Every release against one cluster's finalized levels, in the catalogue's order (M12)."""
    names = sorted(levels)
    row = np.array([[levels[name] for name in names]], dtype=np.int32)
    stable, unstable = (advertised(catalogue, names, unstable=way) for way in (False, True))
    rows = zip(stable.releases, misfits(row, stable)[0], misfits(row, unstable)[0], strict=True)
    return tuple(
        Fit(release=release, misfits=_named(names, one), misfits_unstable=_named(names, other))
        for release, one, other in rows
    )


def _named(names: Sequence[str], hit: Flags) -> tuple[str, ...]:
    return tuple(name for name, bad in zip(names, hit.tolist(), strict=True) if bad)
