"""Whether software of a release may join a cluster now, what must happen first, and the way back.

Whoever rolls wants to know two things before: do the new nodes get in, and can the old software
come back, right after the roll and once what the new one brings is finalized. The way back is
worked out on levels alone, as the catalogue has them; KRaft mode only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from featurelib.audit.cluster_view import Sight, Terms
from featurelib.catalogue import Catalogue
from featurelib.core.batch import NOT_HERE
from featurelib.core.compatibility import fits, may_join
from featurelib.core.downgrade import fitting_after_lowering, of_metadata_version, position
from featurelib.core.dry_run import dialect_of
from featurelib.core.storage_format import format_with
from featurelib.feature import METADATA_VERSION, SILENT_METADATA_VERSION
from featurelib.model import Reason, Step
from featurelib.planning.goal import Command, Intent
from featurelib.planning.planner import make_plan, mode_of
from featurelib.planning.reasons import Reasons
from featurelib.questions.what_if import (
    Changes,
    Refused,
    WhatIf,
    refusals_of,
    release_of,
    software_of_release,
    what_if,
    with_release,
)

Levels = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A finalized level that software of the release does not support; None: it has no such
    feature."""

    feature: str
    level: int
    supported: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class First:
    """What must happen before: an intent in words, and its steps or every reason against it."""

    intent: str
    steps: tuple[Step, ...]
    refusals: tuple[Reason, ...]


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
    on the way there from which the present one is not had again; None: there is none.
    `joins_after`: the releases whose production software supports all of it.
    """

    brings: dict[str, int]
    joins_after: tuple[str, ...]
    back: tuple[Back, ...]
    floor: int | None
    no_return: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Roll:
    """The answer. `mend_first`: what is critical, and a majority of the voters that is silent.
    `misfits` are the policy's, `refused` the controllers' own.

    `then`: every node that runs is of that release. `way_back` is None in ZooKeeper mode, whose
    production software finalizes nothing of its own. `format_with`: the release whose tool formats
    new storage while nodes may run the old software or the new; None: any of their tools does.
    """

    cluster_id: str
    release: str
    mode: str
    levels: dict[str, int]
    levels_known: bool  # a trustworthy witness says all of them
    mend_first: tuple[Reason, ...]
    misfits: tuple[Misfit, ...]
    only_unstable: tuple[str, ...]  # misfits that go away with unstable features enabled
    refused: tuple[Refused, ...]
    first: tuple[First, ...]
    then: WhatIf
    joins_now: tuple[str, ...]
    format_with: str | None
    way_back: WayBack | None

    @property
    def may_join(self) -> bool:
        """Whether a node of production software may come now."""
        return not (self.misfits or self.refused)

    @property
    def off(self) -> tuple[int, ...]:
        """Who does not run, and is left as now."""
        return self.then.off

    @property
    def silent(self) -> tuple[int, ...]:
        """Who only did not answer us, and is left as now."""
        return self.then.silent


def roll(sight: Sight, text: str, terms: Terms) -> Roll:
    """Whether every node may run software of the release `text`, and what follows.

    Raises ConfigError for a release that nobody knows, or without the cluster's mode.
    """
    mode, catalogue = mode_of(sight), terms.catalogue
    release = release_of(text, sight, catalogue, "--to")
    levels = {name: level for name, (_, level) in sight.cluster.finalized.items() if level}
    if mode != "zk":
        levels = {METADATA_VERSION: SILENT_METADATA_VERSION} | levels
    nodes = [with_release(node, release, mode, catalogue) for node in sight.cluster.nodes]
    misfits, unstable = _misfits(levels, release, mode, catalogue)
    first = tuple(_first(sight, misfits, release, catalogue))
    moved = {update.feature: update.to_level for one in first for step in one.steps
             for update in step.updates}  # fmt: skip
    some = [node for node in sight.cluster.nodes if node.running] or sight.cluster.nodes
    running = {catalogue.release_named(node.release) or "" for node in some}
    is_kraft, is_stock = mode != "zk", not sight.evidence.uncatalogued(catalogue).any()
    tool = format_with(catalogue.of(one) for one in {release, *running} - {""} if is_kraft)
    return Roll(
        cluster_id=sight.cluster_id,
        release=release,
        mode=mode,
        levels=levels,
        levels_known=sight.is_trusted and bool(sight.evidence.questions.known.all()) and is_stock,
        mend_first=tuple(Reasons(sight, catalogue).to_mend()),
        misfits=misfits,
        only_unstable=unstable,
        refused=tuple(refusals_of(sight.cluster, nodes, sight.releases, mode, catalogue)),
        first=first,
        then=what_if(sight, Changes(release=release), terms),
        joins_now=may_join(_known(levels, catalogue), catalogue) if is_kraft and is_stock else (),
        format_with=tool.release if tool else None,
        way_back=(
            _way_back(levels | moved, release, running, catalogue)
            if is_kraft and is_stock
            else None
        ),
    )


def _misfits(
    levels: Levels, release: str, mode: str, catalogue: Catalogue
) -> tuple[tuple[Misfit, ...], tuple[str, ...]]:
    """What the software does not support, and what of it does with unstable features enabled."""
    software = software_of_release(release, mode, catalogue)
    names, unstable = sorted(levels), list[str]()  # ZooKeeper mode lists no feature in production
    if mode != "zk":
        fit = next(one for one in fits(levels, catalogue) if one.release == release)
        names, unstable = list(fit.misfits), sorted({*fit.misfits} - {*fit.misfits_unstable})
    found = (Misfit(feature=n, level=levels[n], supported=software.get(n)) for n in names)
    return tuple(found), tuple(unstable)


def _first(
    sight: Sight, misfits: tuple[Misfit, ...], release: str, catalogue: Catalogue
) -> Iterator[First]:
    """The levels that have to go down, and those that have to go up, before the software comes."""
    low = {
        misfit.feature: str(misfit.supported[0])
        for misfit in misfits
        if misfit.supported is not None and misfit.level <= min(misfit.supported)
    }
    intents = []
    if len(low) < len(misfits) and catalogue.release_named(release) is not None:
        intents.append(Intent(command=Command.DOWNGRADE_ALL, release_version=release))
    elif len(low) < len(misfits):
        gone = tuple(misfit.feature for misfit in misfits)
        intents.append(Intent(command=Command.DISABLE, delete=gone))
    if low:
        intents.append(Intent(command=Command.UPGRADE, up=low))
    for intent in intents:
        planned = make_plan(sight, intent, catalogue)
        steps = () if planned.plan is None else planned.plan.steps
        yield First(intent=intent.text, steps=steps, refusals=planned.refusals)


def _way_back(levels: Levels, release: str, running: set[str], catalogue: Catalogue) -> WayBack:
    """The way back for nodes of the releases `running`, once all nodes are of `release` and
    `levels` are finalized, 0 = not (KIP-778, Downgrades)."""
    software, before = catalogue.of(release), running - {release}
    kept = _known(levels, catalogue)
    brings = {
        name: level
        for name, level in software.defaults(software.newest_stable).items()
        if level > kept.get(name, 0) and level not in catalogue.only_by_name(name)
    }
    after, own = kept | brings, dialect_of(release, "kraft", catalogue)
    supported = [(software.oldest, software.newest_unstable)]
    # Every node runs that release; what other levels need of metadata.version does not count.
    alone = [({METADATA_VERSION: at[METADATA_VERSION]}, supported) for at in (kept, after)]
    at, target = position(alone, catalogue), np.array([after[METADATA_VERSION]] * 2)
    back = of_metadata_version(at, target, [(own.name, release, np.arange(2))], catalogue.tables)
    then = at.at(np.array([1]))
    lowered = fitting_after_lowering(after, then, release, own.can, catalogue)
    return WayBack(
        brings=brings,
        joins_after=may_join(after, catalogue),
        back=tuple(
            Back(
                release=now.release,
                after_roll=now.joins,
                after_finalizing=later.joins,
                after_lowering=lowered[now.release],
            )
            for now, later in zip(fits(kept, catalogue), fits(after, catalogue), strict=True)
            if now.release in before
        ),
        floor=_level_or_none(back.floor[1]),
        no_return=_level_or_none(back.no_return[0]),
    )


def _level_or_none(level: np.int32) -> int | None:
    return None if level == NOT_HERE else int(level)


def _known(levels: Levels, catalogue: Catalogue) -> dict[str, int]:
    """The levels of Kafka's features: of others no release says anything."""
    return {name: level for name, level in levels.items() if level and name in catalogue.features}
