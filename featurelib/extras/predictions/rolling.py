"""Decide whether software of a release can register now, the steps before it, and its rollback.

The rollback, right after the rolling upgrade and after its levels are finalized, depends only on
the catalogue's levels; KRaft mode only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from featurelib.audit.cluster_view import ClusterView, Inputs
from featurelib.catalogue import Catalogue, ReleaseCatalogue
from featurelib.core.batch import NOT_HERE
from featurelib.core.cluster import Cluster
from featurelib.core.compatibility import fits, may_join
from featurelib.core.downgrade import fitting_after_lowering, of_metadata_version, position
from featurelib.core.dry_run import dialect_of
from featurelib.extras.predictions.what_if import (
    Changes,
    Refused,
    WhatIf,
    refusals_of,
    release_of,
    software_of_release,
    what_if,
    with_release,
)
from featurelib.feature import (
    KRAFT_VERSION,
    METADATA_VERSION,
    SILENT_METADATA_VERSION,
    Role,
    release_number,
)
from featurelib.model import Reason, Step
from featurelib.planning.goal import Command, Intent
from featurelib.planning.planner import make_plan, mode_of
from featurelib.planning.reasons import Reasons
from featurelib.snapshot.log import AT_BOOTSTRAP, is_complete
from featurelib.snapshot.state import NOTHING, ClusterState, thaw

Levels = Mapping[str, int]


class ReplayProof(StrEnum):
    """The source for a level that a starting controller may replay."""

    LOG = "metadata log"
    BOOTSTRAP = "bootstrap checkpoint"
    SEEN = "earlier evidence"
    JOURNAL = "journal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A finalized level that the release does not support. `supported`: None if the release lacks
    the feature."""

    feature: str
    level: int
    supported: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed(Misfit):
    """An unsupported level that a starting controller may replay. `seen`: the last time it was
    seen, microseconds."""

    proof: ReplayProof
    seen: int


@dataclass(frozen=True, slots=True, kw_only=True)
class First:
    """The steps before a rolling upgrade: the intent as text, and the steps or refusals."""

    intent: str
    steps: tuple[Step, ...]
    refusals: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Back:
    """The rollback of nodes to a release that runs now. `after_lowering`: possible after lossless
    downgrades of all levels."""

    release: str
    after_roll: bool
    after_finalizing: bool
    after_lowering: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WayBack:
    """The rollback after the upgrade. `brings`: feature → the release's default level, if not
    finalized.

    `downgrade_floor`: the lowest metadata.version of a lossless downgrade afterwards.
    `point_of_no_return`: the first level that cannot be downgraded to the present one, or None.
    `joins_after_finalizing`: the releases that can register afterwards."""

    brings: dict[str, int]
    joins_after_finalizing: tuple[str, ...]
    back: tuple[Back, ...]
    downgrade_floor: int | None
    point_of_no_return: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Roll:
    """The result of `can-roll`. `mend_first`: critical findings, and a missing majority of voters.
    `misfits`: refusals of the policy, `refused`: those of the controllers.

    `then`: the state when every running node has that release. `way_back` None = ZooKeeper mode,
    where software finalizes no level. `format_with`: the release whose tool formats new storage
    while nodes may run the old or the new software; None = any of their tools can.
    """

    cluster_id: str
    release: str
    mode: str
    levels: dict[str, int]
    levels_known: bool  # true if a trustworthy source shows all levels
    mend_first: tuple[Reason, ...]
    replays: tuple[Replayed, ...]  # a controller needs a newer snapshot before it starts
    conditions: tuple[str, ...]  # conditions on nodes without data, as sentences
    misfits: tuple[Misfit, ...]
    only_unstable: tuple[str, ...]  # features supported with unstable features enabled
    refused: tuple[Refused, ...]
    first: tuple[First, ...]
    then: WhatIf
    joins_now: tuple[str, ...]
    format_with: str | None
    way_back: WayBack | None

    @property
    def may_join(self) -> bool:
        """True if production software of the release can register; false if levels are unknown."""
        return not (self.misfits or self.refused) and (self.levels_known or bool(self.levels))

    @property
    def off(self) -> tuple[int, ...]:
        """The stopped nodes. The prediction does not change them."""
        return self.then.off

    @property
    def silent(self) -> tuple[int, ...]:
        """The nodes that did not respond. The prediction does not change them."""
        return self.then.silent


def roll(
    view: ClusterView, text: str, inputs: Inputs, journal: Iterable[tuple[str, int, int]] = ()
) -> Roll:
    """Return the prediction of a rolling upgrade of every node to the release `text`.

    `journal`: feature, level and time (microseconds) of each finalized level in a journal. Raises
    ConfigError for an unknown release, or if the cluster's mode is not known.
    """
    mode, catalogue = mode_of(view), inputs.catalogue
    release = release_of(text, view, catalogue, "--to")
    levels = _levels(view, mode)
    nodes = [with_release(node, release, mode, catalogue) for node in view.cluster.nodes]
    misfits, unstable = _misfits(levels, release, mode, catalogue)
    first = tuple(_first(view, misfits, release, catalogue))
    running = _running(view.cluster, catalogue)
    is_kraft, evidence = mode != "zk", view.evidence
    vendors = evidence.uncatalogued(catalogue), evidence.finalized_by_vendor(catalogue)
    is_stock = not any(mask.any() for mask in vendors)
    is_shown = is_kraft and is_stock and bool(levels)
    state = thaw(view.rows["state"].to_pylist()[0])
    software = software_of_release(release, mode, catalogue)
    replays = tuple(_replays(view, state, software, journal, release)) if is_kraft else ()
    tool = format_with(catalogue.of(e) for e in {release, *running} - {""} if is_kraft)
    moves = [move for part in first for step in part.steps for move in step.updates]
    planned = levels | {move.feature: move.to_level for move in moves}
    conditions = tuple(_conditions(view.cluster, state, levels, release, running))
    return Roll(
        cluster_id=view.cluster_id,
        release=release,
        mode=mode,
        levels=levels,
        levels_known=view.is_trusted and bool(view.evidence.questions.known.all()) and is_stock,
        mend_first=tuple(Reasons(view, catalogue).to_fix_first()),
        replays=replays,
        conditions=conditions if is_kraft else (),
        misfits=misfits,
        only_unstable=unstable,
        refused=tuple(refusals_of(view.cluster, nodes, view.releases, mode, catalogue)),
        first=first,
        then=what_if(view, Changes(release=release), inputs),
        joins_now=may_join(_known(levels, catalogue), catalogue) if is_shown else (),
        format_with=tool.release if tool else None,
        way_back=_way_back(planned, release, running, catalogue) if is_shown else None,
    )


# The tools of this release and later write levels to a file that only newer software reads
# (0-0.checkpoint; KIP-1170, apache/kafka PR 20707). Tried on 3.3.2 to 4.3.1: a new cluster of 4.3
# begins at its own newest metadata.version, whatever was requested. Up to 4.2 the levels count, and
# an unknown level stops the software. Every release reads storage that was in use.
FORMATS_FOR_ITSELF_FROM = (4, 4)


def is_for_itself(software: ReleaseCatalogue) -> bool:
    """Return true if kafka-storage.sh of `software` formats only for its own and later releases."""
    return release_number(software.based_on) >= FORMATS_FOR_ITSELF_FROM


def format_with(releases: Iterable[ReleaseCatalogue]) -> ReleaseCatalogue | None:
    """Return the release whose kafka-storage.sh must format storage for all `releases`; None if any
    of them can."""
    ordered = sorted(releases, key=lambda software: release_number(software.based_on))
    same_vendor = not ordered or ordered[0].based_on == ordered[-1].based_on
    return None if same_vendor or not is_for_itself(ordered[-1]) else ordered[0]


def _levels(view: ClusterView, mode: str) -> dict[str, int]:
    """Return the finalized levels. A KRaft cluster without metadata.version has the level that
    Kafka assumes."""
    levels = {name: level for name, (_, level) in view.cluster.finalized.items() if level}
    if mode != "zk" and (view.is_trusted or levels):
        return {METADATA_VERSION: SILENT_METADATA_VERSION} | levels
    return levels


def _running(cluster: Cluster, catalogue: Catalogue) -> set[str]:
    """Return the releases of the running nodes, or of all nodes if none runs; "" = unknown."""
    live = [node for node in cluster.nodes if node.running] or cluster.nodes
    return {catalogue.release_named(node.release) or "" for node in live}


def _replays(
    view: ClusterView,
    state: ClusterState,
    software: Mapping[str, tuple[int, int]],
    journal: Iterable[tuple[str, int, int]],
    release: str,
) -> Iterator[Replayed]:
    """Yield the levels that may stop controllers of the release when they start.

    A dump from a snapshot to the newest offset of brokers proves the log of one controller, which
    is enough if there is no other. If every controller has since run software without the level,
    each has replayed its log. Source: FeatureControlManager.replay.
    """
    current = view.cluster.levels
    for name, level, proof, at in sorted(_proven_levels(state, view.cluster, journal, release)):
        ends = software.get(name)
        is_fit = ends is not None and ends[0] <= level <= ends[1]
        # Kafka keeps kraft.version in the log as a control record, which ends no controller.
        if not level or is_fit or level == current.get(name) or name == KRAFT_VERSION:
            continue
        if proof is not ReplayProof.BOOTSTRAP and _runs_without(
            state, view.cluster, name, level, at
        ):
            continue
        yield Replayed(feature=name, level=level, supported=ends, proof=proof, seen=at)


def _proven_levels(
    state: ClusterState, cluster: Cluster, journal: Iterable[tuple[str, int, int]], release: str
) -> Iterator[tuple[str, int, ReplayProof, int]]:
    """Yield (feature, level, source, time) of levels that the metadata log may contain."""
    log, least = state.log, _proven_from(cluster, state)
    proofs = {key: proof for key, proof in _earlier(state, journal).items() if proof[1] >= least}
    for offset, name, level in log.replayed:
        if offset != AT_BOOTSTRAP:
            proofs[name, level] = ReplayProof.LOG, log.at
        elif not log.snapshot_end:
            proofs.setdefault((name, level), (ReplayProof.SEEN, log.at))
        if offset == AT_BOOTSTRAP and release in READS_BOOTSTRAP:
            yield name, level, ReplayProof.BOOTSTRAP, log.at
    yield from ((*key, *proof) for key, proof in proofs.items())


def _runs_without(state: ClusterState, cluster: Cluster, name: str, level: int, since: int) -> bool:
    """Return true if every controller has run software without that level since the time `since`.

    Each follows the leader and answers with the cluster's finalized levels, so it has replayed its
    log (FeaturesPublisher); software without the level would have ended on it.
    """
    quorum, proven = state.quorum, set[int]()
    finalized = {feature: level for feature, level in cluster.levels.items() if level}
    for listener in state.listeners:
        if min(listener.full, listener.levels) <= NOTHING or listener.failed_at > listener.full_at:
            continue
        ranges = {feature: (low, high) for feature, low, high in state.maps[listener.full]}
        levels = {feature: to for feature, _, to in state.maps[listener.levels] if to}
        low, high = ranges.get(name, (0, 0))
        is_newer = min(listener.full_at, listener.levels_at) > since
        if levels == finalized and is_newer and not low <= level <= high:
            proven.add(listener.node_id)
    following = {quorum.leader_id, *quorum.following, *quorum.observers}
    needed = _controllers(cluster) | {*quorum.voters}
    return bool(quorum.voters) and quorum.at > since and needed <= proven & following


def _is_alone(cluster: Cluster, state: ClusterState) -> bool:
    """Return true if the cluster has one known controller, which is the only voter."""
    return len(state.quorum.voters) == 1 and _controllers(cluster) == {*state.quorum.voters}


def _controllers(cluster: Cluster) -> set[int]:
    return {node.node_id for node in cluster.nodes if node.role is Role.CONTROLLER}


def _proven_from(cluster: Cluster, state: ClusterState) -> int:
    """Return the time from which the only controller's log is completely known; 0 if unknown, or
    with several controllers."""
    is_proven = _is_alone(cluster, state) and state.log.snapshot_end and is_complete(state)
    return state.log.snapshot_at if is_proven else 0


def _earlier(
    state: ClusterState, journal: Iterable[tuple[str, int, int]]
) -> dict[tuple[str, int], tuple[ReplayProof, int]]:
    """Return (feature, level) → (source, newest time) in earlier data or a journal."""
    proofs = dict[tuple[str, int], tuple[ReplayProof, int]]()
    for entry, at in state.levels_seen.items():
        name, _, level_text = entry.rpartition(" ")
        proofs[name, int(level_text)] = ReplayProof.SEEN, at
    for name, level, at in journal:
        if at > proofs.get((name, level), (None, 0))[1]:
            proofs[name, level] = ReplayProof.JOURNAL, at
    return proofs


READS_BOOTSTRAP = frozenset({"4.0"})  # read at each start; not by 4.0.1 (KAFKA-19192)


def _conditions(
    cluster: Cluster, state: ClusterState, levels: Levels, release: str, running: set[str]
) -> Iterator[str]:
    """Yield the conditions for a start that the data cannot prove, as sentences."""
    number = release_number(release)
    numbers = [release_number(r) for r in running if r]
    is_dumped = _proven_from(cluster, state) and state.log.at >= state.observed_at
    if number < max(numbers, default=number):
        yield (
            "the dump of the metadata log was made on the controller. Every node, a broker too, "
            "has a copy of the log with metadata snapshots of its own."
            if is_dumped
            else "if a level was downgraded recently, a controller or combined node of "
            f"{release} starts only with a metadata snapshot written after the downgrade."
        )
    if "3.3" in {release, *running} and max([number, *numbers]) >= (3, 7):
        yield (
            "a node can be rolled back to 3.3 only if it has one log directory: one entry in "
            "log.dirs, and no other metadata.log.dir. Kafka 3.7 and later write directory.id, "
            "which 3.3 rejects (KAFKA-18442). Kafka 3.4 to 3.6 start with several directories."
        )
    dumped = {offset == AT_BOOTSTRAP for offset, _, _ in state.log.replayed}
    is_shown = {False, release in READS_BOOTSTRAP} <= dumped and _is_alone(cluster, state)
    if number >= (4, 0) and not is_shown and min(numbers, default=number) < (4, 0):
        yield (
            "a controller of 4.x ends at start if its metadata log still replays a "
            "metadata.version below 7 (3.3-IV3), and 4.0.0 also if bootstrap.checkpoint holds one "
            "(KAFKA-19192). This matters for clusters formatted with 3.3-IV2 or earlier. Wait for "
            "a metadata snapshot, and use 4.0.1 or later."
        )
    if number >= (3, 9) and not levels.get(KRAFT_VERSION):
        yield (
            "each node keeps controller.quorum.voters in its file while kraft.version is 0: "
            "controller.quorum.bootstrap.servers alone does not name the voters."
        )


def _misfits(
    levels: Levels, release: str, mode: str, catalogue: Catalogue
) -> tuple[tuple[Misfit, ...], tuple[str, ...]]:
    """Return (unsupported levels, features that unstable levels would support)."""
    software = software_of_release(release, mode, catalogue)
    names, unstable = sorted(levels), list[str]()  # ZooKeeper mode lists no feature in production
    if mode != "zk":
        row = next(f for f in fits(levels, catalogue) if f.release == release)
        names, unstable = list(row.misfits), sorted({*row.misfits} - {*row.misfits_unstable})
    misfits_of = (Misfit(feature=n, level=levels[n], supported=software.get(n)) for n in names)
    return tuple(misfits_of), tuple(unstable)


def _first(
    view: ClusterView, misfits: tuple[Misfit, ...], release: str, catalogue: Catalogue
) -> Iterator[First]:
    """Yield the downgrades, then the upgrades, that must come before the new software."""
    low = {
        misfit.feature: str(misfit.supported[0])
        for misfit in misfits
        if misfit.supported is not None and misfit.level <= min(misfit.supported)
    }
    intents = []
    if len(low) < len(misfits) and catalogue.release_named(release) is not None:
        intents.append(Intent(command=Command.DOWNGRADE_ALL, release_version=release))
    elif len(low) < len(misfits):
        names = tuple(misfit.feature for misfit in misfits)
        intents.append(Intent(command=Command.DISABLE, delete=names))
    if low:
        intents.append(Intent(command=Command.UPGRADE, up=low))
    for intent in intents:
        planned = make_plan(view, intent, catalogue)
        steps = () if planned.plan is None else planned.plan.steps
        yield First(intent=intent.text, steps=steps, refusals=planned.refusals)


def _way_back(levels: Levels, release: str, running: set[str], catalogue: Catalogue) -> WayBack:
    """Return the possible rollback to the releases `running`, after all nodes run `release` with
    these finalized levels (KIP-778, Downgrades)."""
    software, before = catalogue.of(release), running - {release}
    known = _known(levels, catalogue)
    brings = {
        name: level
        for name, level in software.defaults(software.newest_stable).items()
        if level > known.get(name, 0) and level not in catalogue.only_by_name(name)
    }
    after, own = known | brings, dialect_of(release, "kraft", catalogue)
    supported = [(software.oldest, software.newest_unstable)]
    # All nodes have that release; dependencies on metadata.version do not count.
    alone = [({METADATA_VERSION: at[METADATA_VERSION]}, supported) for at in (known, after)]
    at, target = position(alone, catalogue), np.array([after[METADATA_VERSION]] * 2)
    ways = of_metadata_version(at, target, [(own.name, release, np.arange(2))], catalogue.tables)
    rows = at.at(np.array([1]))
    lowered = fitting_after_lowering(after, rows, release, own.can, catalogue)
    return WayBack(
        brings=brings,
        joins_after_finalizing=may_join(after, catalogue),
        back=tuple(
            Back(
                release=now.release,
                after_roll=now.joins,
                after_finalizing=later.joins,
                after_lowering=lowered[now.release],
            )
            for now, later in zip(fits(known, catalogue), fits(after, catalogue), strict=True)
            if now.release in before
        ),
        downgrade_floor=_level_or_none(ways.floor[1]),
        point_of_no_return=_level_or_none(ways.no_return[0]),
    )


def _level_or_none(level: np.int32) -> int | None:
    return None if level == NOT_HERE else int(level)


def _known(levels: Levels, catalogue: Catalogue) -> dict[str, int]:
    """Return the finalized levels of features that Kafka defines."""
    return {name: level for name, level in levels.items() if level and name in catalogue.features}
