"""Make the verdict of each feature, the plan of each cluster, and the lowest level of a downgrade.

A known node that lacks the level makes BLOCKED. Otherwise missing evidence makes UNKNOWN. Otherwise
a feature is READY if its level can rise now.

A plan has the fewest safe requests that finalize READY levels: one request if every possible
controller is atomic (4.0 and later), otherwise one feature per request, metadata.version first. A
plan never has an irreversible, UNKNOWN or BLOCKED level.

A feature is READY since its first READY run: UNKNOWN neither ends nor begins that time; BLOCKED,
UP_TO_DATE and another finalized level end it. Verdict and target have a time of their own. Until
that time is longer than the soak time, a plan has no steps, and the cluster has its own phase.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import TypeVar

import numpy as np

from featurelib.audit.checks import levels_of_clusters
from featurelib.audit.columns import distinct, find, marked, node_key, split_key
from featurelib.audit.controllers import Software
from featurelib.audit.evidence import BatchFindings, Conditions, Evidence, Waiting
from featurelib.audit.registrations import BROKER, record_keys
from featurelib.audit.target import Judge
from featurelib.catalogue import Catalogue, Tables
from featurelib.core.batch import NOT_HERE, Flags
from featurelib.core.compatibility import advertised, misfits
from featurelib.core.dialect import load, zookeeper_releases
from featurelib.core.downgrade import Position, WaysBack, of_metadata_version, of_other_feature
from featurelib.feature import METADATA_VERSION, ClusterMode, Phase, Role, UpgradeType, Verdict
from featurelib.rows import (
    NONE,
    Bool,
    Column,
    Int,
    Lists,
    TableRows,
    Texts,
    join_rows,
    lists_of,
    make_rows,
    spread,
    texts_of,
)
from featurelib.schema import NODE, READINESS, STEP, UPGRADE_PLAN
from featurelib.words import moment

# With timeout 0 a ZooKeeper-mode controller writes the levels, and then responds with error 96.
TIMEOUT_MS = 60_000

Choice = TypeVar("Choice", bound=StrEnum)
READY = list(Verdict).index(Verdict.READY)


def _choose(choices: list[tuple[Choice, Bool]], otherwise: Choice) -> Int:
    """Return per row the enum position of the first choice whose mask is true."""
    order = list(type(otherwise))
    return np.select(
        [mask for _, mask in choices], [order.index(w) for w, _ in choices], order.index(otherwise)
    )


def _texts(kind: type[StrEnum], positions: Int) -> Texts:
    return Texts(words=[member.value for member in kind], codes=positions)


def verdicts(judge: Judge, target: Int, unknown: Bool, below: Bool) -> Int:
    """Return each verdict of (cluster, feature), as a position in featurelib.feature.Verdict.
    `below`: pairs whose refused probe may leave a lower level."""
    query = judge.asked
    can_rise, rising = target > query.current, judge.bounds.ceiling > query.current
    choices = [
        (Verdict.UNKNOWN, ~query.known),
        (Verdict.BLOCKED, rising & ~can_rise & ~(below & unknown)),
        (Verdict.UNKNOWN, unknown),
        (Verdict.READY, can_rise),
    ]
    return _choose(choices, Verdict.UP_TO_DATE)


def beyond_ceiling(judge: Judge) -> Bool:
    """Return a mask of the (cluster, feature) pairs whose nodes all support a level above the
    maximum level."""
    query, bounds = judge.asked, judge.bounds
    is_newer = (bounds.common > bounds.ceiling) & ~judge.evidence.uncatalogued(judge.catalogue)
    is_newer[judge.propose(bounds.common, is_newer).refused(by_nodes=True)] = False
    is_newer[query.pair_question[query.pair_unclear]] = False
    return is_newer


def readiness(
    judge: Judge,
    verdict: Int,
    target: Int,
    beyond: Bool,
    blockers: Int,
    unknowns: Int,
    downgrades: WaysBack,
) -> TableRows:
    """Return rows of featurelib.schema.READINESS without times. `beyond`: the (cluster, feature)
    pairs that could rise above the maximum level."""
    query, evidence, bounds = judge.asked, judge.evidence, judge.bounds
    columns: dict[str, Column | Int] = {
        "cluster": Texts(words=evidence.clusters, codes=query.cluster),
        "feature": Texts(words=query.names, codes=query.feature),
        "verdict": _texts(Verdict, verdict),
        "finalized_level": np.where(query.known, query.current, NONE),
        "target": np.where(verdict == READY, target, NONE),
        "ceiling": bounds.ceiling,
        "available": np.where(beyond, bounds.common, NONE),
        "blockers": blockers,
        "unknowns": unknowns,
        "downgrade_floor": np.where(downgrades.floor < 0, NONE, downgrades.floor),
        "point_of_no_return": np.where(downgrades.no_return < 0, NONE, downgrades.no_return),
    }
    return make_rows(READINESS, len(query.cluster), columns)


def plans(
    evidence: Evidence,
    verdict: Int,
    target: Int,
    unknown: Bool,
    dialects: dict[int, list[str]],
    catalogue: Catalogue,
    software: Software,
    soaking: Bool,
) -> TableRows:
    """Return a row of UPGRADE_PLAN per cluster, with steps in sending order; no steps while the
    software is `soaking`. `dialects`: cluster → possible dialects of its controllers."""
    query, node, clusters = evidence.questions, evidence.subjects, len(evidence.clusters)
    order = list(Verdict)
    worst = np.where(unknown, order.index(Verdict.UNKNOWN), order.index(Verdict.UP_TO_DATE))
    np.minimum.at(worst, query.cluster, verdict)
    ready = np.flatnonzero((verdict == READY) & ~soaking[query.cluster])
    last = ~query.of_feature(METADATA_VERSION)[ready]
    ready = ready[np.lexsort((query.feature[ready], last, query.cluster[ready]))]
    cluster = query.cluster[ready]
    count = np.bincount(cluster, minlength=clusters)
    _, request = spread(np.ones_like(count), count)
    atomic = [at for at, names in dialects.items() if _all_atomic(tuple(names))]
    request[marked(clusters, atomic)[cluster]] = 1
    steps: dict[str, Column | Int] = {
        "request": request,
        "feature": evidence.features(ready),
        "from_level": query.current[ready],
        "to_level": target[ready],
        "upgrade_type": Texts(words=(UpgradeType.UPGRADE.name,), codes=np.zeros_like(ready)),
        "timeout_ms": np.full(len(ready), TIMEOUT_MS),
    }
    after = query.current.copy()
    after[ready] = target[ready]
    mode, (oldest, newest) = evidence.membership.mode, software.span()
    own = _members(evidence)
    processes, _, _ = split_key(distinct(node_key(node.cluster[own], BROKER, node.node_id[own])))
    columns: dict[str, Column | Int] = {
        "cluster": texts_of(evidence.clusters),
        "verdict": _texts(Verdict, worst),
        "phase": _texts(Phase, _phases(evidence, worst, unknown, soaking)),
        "nodes": np.bincount(processes, minlength=clusters),
        "steps": Lists(size=count, of=make_rows(STEP, len(ready), steps)),
        "dialects": lists_of([dialects.get(at, []) for at in range(clusters)]),
        "may_join": who_may_join(evidence, catalogue, query.current),
        "may_join_after": who_may_join(evidence, catalogue, after, only=count > 0),
        "mode": _texts(
            ClusterMode, np.where(mode == list(ClusterMode).index(ClusterMode.UNKNOWN), -1, mode)
        ),
        "release": oldest,
        "newest_release": newest,
        "newest_line": evidence.snapshots.observed_at,
        "checksum": evidence.snapshots.checksum,
    }
    return make_rows(UPGRADE_PLAN, clusters, columns)


def _members(evidence: Evidence) -> Int:
    """Return the positions of the nodes in the cluster's own node lists."""
    unknown = distinct(record_keys(evidence.listeners)[evidence.strangers()])
    return np.flatnonzero(find(unknown, evidence.subjects.key) < 0)


def nodes(evidence: Evidence, software: Software) -> TableRows:
    """Return a row of featurelib.schema.NODE per required node and role."""
    node, at = evidence.subjects, _members(evidence)
    active, fenced = software.active[node.cluster[at]], node.fenced[at]

    def time(times: Int) -> Int:
        return np.where(times[at] > 0, times[at], NONE)

    columns: dict[str, Column | Int] = {
        "cluster": Texts(words=evidence.clusters, codes=node.cluster[at]),
        "role": Texts(words=[role.text for role in Role], codes=node.role[at]),
        "node_id": node.node_id[at],
        "registered": node.registered[at].astype(np.int64),
        "voter": node.voter[at].astype(np.int64),
        "active_controller": np.where(active < 0, NONE, active == at),
        "fenced": np.where(fenced < 0, NONE, fenced == 1),
        "stale": node.gone[at].astype(np.int64),
        "release": software.releases_of(at),
        "line_id": np.where(node.at[at] > 0, node.line[at], NONE),
        "observed_at": time(node.at),
        "answered_at": time(node.answered_at),
        "failed_at": time(node.failed_at),
    }
    return make_rows(NODE, len(at), columns)


@cache
def _all_atomic(dialects: tuple[str, ...]) -> bool:
    return bool(dialects) and all(load(name).can.atomic for name in dialects)


def _phases(evidence: Evidence, worst: Int, unknown: Bool, soaking: Bool) -> Int:
    """Return the phase of each cluster, as a position in featurelib.feature.Phase. Mixed software
    means that the running nodes do not all support equal ranges."""
    answering, node = evidence.answering, evidence.subjects
    live = (answering.of_subject >= 0) & (
        node.answers | evidence.membership.zookeeper[node.cluster]
    )
    profiles = answering.cluster[distinct(answering.of_subject[live])]
    # Migrating brokers register fewer features than the same software registers in KRaft mode.
    several = np.bincount(profiles, minlength=len(evidence.clusters))
    choices = [
        (Phase.SYSTEM_OFF, evidence.levels.system_off),
        (Phase.MIXED, (several > 1) & ~evidence.membership.migrating),
        (Phase.UNKNOWN, unknown),
        (Phase.SOAKING, soaking),
        (Phase.ROLLED_NOT_FINALIZED, worst != list(Verdict).index(Verdict.UP_TO_DATE)),
    ]
    return _choose(choices, Phase.FINALIZED)


def who_may_join(
    evidence: Evidence, catalogue: Catalogue, level: Int, only: Bool | None = None
) -> Lists:
    """Return per cluster the releases that can register with its features at `level`, oldest first;
    null = unknown, or excluded by `only`.

    A release can register if its production software supports every finalized level. There is no
    result in ZooKeeper mode and for vendor's builds."""
    query, levels, tables = evidence.questions, evidence.levels, catalogue.tables
    mask: Bool = levels.trusted & ~levels.too_old & ~evidence.membership.on_zookeeper
    mask[query.cluster[~query.known | evidence.uncatalogued(catalogue)]] = False
    mask &= True if only is None else only
    finalized, _, is_newer = levels_of_clusters(evidence, level, tables)
    ranges = advertised(catalogue, tables.features)
    is_fit: Flags = np.logical_not(misfits(finalized, ranges).any(axis=2))
    has_zookeeper = [release.based_on in zookeeper_releases() for release in catalogue.releases]
    is_fit &= has_zookeeper | ~evidence.membership.migrating[:, None]
    is_fit[is_newer | ~mask] = False  # no release of the catalogue supports an unknown level
    _, release = np.nonzero(is_fit)
    names = [release.release for release in catalogue.releases]
    size = np.where(mask, is_fit.sum(axis=1), -1)
    return Lists(size=size, of=Texts(words=names, codes=release))


def least_software(judge: Judge, clusters: Int) -> Texts:
    """Return per cluster the oldest release that can register now and later; "" = none."""
    levels = judge.asked.current, judge.bounds.ceiling
    releases, after = (who_may_join(judge.evidence, judge.catalogue, level) for level in levels)
    kinds, codes = np.unique(clusters, return_inverse=True)
    pairs = zip(releases.take(kinds).to_pylist(), after.take(kinds).to_pylist(), strict=True)
    words = [next((name for name in new or () if name in (old or ())), "") for old, new in pairs]
    return Texts(words=words, codes=codes)


def ways_back(
    evidence: Evidence,
    ready: Bool,
    target: Int,
    spoken: dict[tuple[str, str], Bool],
    catalogue: Catalogue,
) -> WaysBack:
    """Return how far each `ready` (cluster, feature) can be downgraded from `target` (KIP-778).
    `spoken`: (dialect, release) → mask of clusters whose controllers may run the release."""
    query = evidence.questions
    ways = WaysBack(floor=np.full(len(ready), NOT_HERE), no_return=np.full(len(ready), NOT_HERE))
    for feature, name in enumerate(query.names):
        rows = np.flatnonzero(ready & (query.feature == feature))
        if len(rows) == 0:
            continue
        if name == METADATA_VERSION:
            judges = [
                (*judge, np.flatnonzero(clusters[query.cluster[rows]]))
                for judge, clusters in spoken.items()
            ]
            at = _positions(evidence, rows, catalogue.tables)
            result = of_metadata_version(at, target[rows], judges, catalogue.tables)
        else:
            result = of_other_feature(catalogue, name, query.current[rows], target[rows])
        ways.floor[rows], ways.no_return[rows] = result.floor, result.no_return
    return ways


def _positions(evidence: Evidence, rows: Int, tables: Tables) -> Position:
    """Return downgrade positions of the clusters of `rows`, which are metadata.version rows."""
    query, count = evidence.questions, evidence.questions.pair_count[rows]
    _, pairs = spread(query.pair_first[rows], count)
    first = np.cumsum(count) - count
    levels, _, is_newer = levels_of_clusters(evidence, query.current, tables)
    levels[:, 0] = 0
    stores = is_newer | (levels > 0).any(axis=1)
    return Position(
        level=query.current[rows].astype(np.int32),
        min_version=np.maximum.reduceat(query.pair_min[pairs], first).astype(np.int32),
        max_version=np.minimum.reduceat(query.pair_max[pairs], first).astype(np.int32),
        others=levels[query.cluster[rows]],
        stores=stores[query.cluster[rows]],
    )


def with_ready_times(
    rows: TableRows, evidence: Evidence, conditions: Conditions, unknown: Bool
) -> TableRows:
    """Return rows of featurelib.schema.READINESS with `ready_since` and `verdict_since`.

    `unknown`: clusters with incomplete data. A feature that was READY there and that no data shows
    now gets a row with the verdict UNKNOWN."""
    as_of, waiting = conditions.as_of, conditions.waiting
    waits_left = {name: dict(waiting[name]) for name in evidence.clusters if name in waiting}
    verdicts = rows.texts("verdict")
    times = np.where(verdicts.equal(Verdict.READY), as_of, NONE), np.full(len(rows), as_of)
    cluster = rows.texts("cluster")
    waits = np.array([name in waits_left for name in cluster.words], dtype=bool)
    at = np.flatnonzero(waits[cluster.codes])
    names = ("cluster", "feature", "verdict", "finalized_level", "target")
    moments = [
        _ready_since(verdict, level, target, waits_left[name].pop(feature, None), as_of)
        for name, feature, verdict, level, target in zip(
            *(rows[name].take(at).to_pylist() for name in names), strict=True
        )
    ]
    for column, values in zip(times, zip(*moments, strict=True), strict=False):
        column[at] = values
    times[1][verdicts.equal(Verdict.UP_TO_DATE)] = NONE
    rows = rows.replace(ready_since=times[0], verdict_since=times[1])
    gap_waits = [
        (name, feature, *_ready_since(Verdict.UNKNOWN, None, None, wait, as_of))
        for name, gap in zip(evidence.clusters, unknown.tolist(), strict=True)
        if gap
        for feature, wait in waits_left.get(name, {}).items()
        if wait.since is not None
    ]
    if not gap_waits:
        return rows
    clusters, features, ready_since, verdict_since = zip(*gap_waits, strict=True)
    zeros = np.zeros(len(gap_waits), dtype=np.int64)
    columns: dict[str, Column | Int] = {
        "cluster": texts_of(clusters),
        "feature": texts_of(features),
        "verdict": Texts(words=(Verdict.UNKNOWN.value,), codes=zeros),
        "blockers": zeros,
        "unknowns": zeros,
        "ready_since": np.array(ready_since, dtype=np.int64),
        "verdict_since": np.array(verdict_since, dtype=np.int64),
    }
    return join_rows([rows, make_rows(READINESS, len(gap_waits), columns)])


def _ready_since(
    verdict: str, level: int | None, target: int | None, before: Waiting | None, as_of: int
) -> tuple[int, int]:
    """Return (time since which the feature is READY, NONE = not READY; time since which verdict and
    target are unchanged), in microseconds. `level` None = no trusted source. `before`: the values
    of the previous run."""
    ready = as_of if verdict == Verdict.READY else NONE
    if before is None:
        return ready, as_of
    is_moved = None not in (level, before.level) and level != before.level
    if before.since is not None and not is_moved and verdict in (Verdict.READY, Verdict.UNKNOWN):
        ready = min(before.since, as_of)
    since = before.verdict_since
    if since is None or (before.verdict, before.target) != (verdict, target):
        since = as_of
    return ready, min(since, as_of)


def find_soaking(
    rows: TableRows, evidence: Evidence, conditions: Conditions, software: Software,
    catalogue: Catalogue, report: BatchFindings,
) -> Bool:  # inputs in one block  # fmt: skip
    """Report clusters that are READY for less than the soak time; return a mask of them. Their
    software can be rolled back until a level is finalized."""
    query, since = evidence.questions, np.zeros(len(evidence.clusters), dtype=np.int64)
    ready = np.flatnonzero(rows.texts("verdict").equal(Verdict.READY))
    np.maximum.at(since, query.cluster[ready], rows.numbers("verdict_since")[ready])
    ends = since + conditions.min_ready
    soaking = (since > 0) & (ends > conditions.as_of)
    if soaking.any():
        order = {release.release: at for at, release in enumerate(catalogue.releases)}
        runs = [order.get(name, 0) for name in software.span()[0].to_pylist()]
        may_join = who_may_join(evidence, catalogue, query.current, only=soaking).to_pylist()
        before = [
            [name for name in may_join[at] or () if order[name] < runs[at]]
            for at in np.flatnonzero(soaking).tolist()
        ]
        older = [f"Kafka {names[-1]}" if names else "an older release" for names in before]
        days = [f"{moment(at):%Y-%m-%d}" for at in ends[soaking].tolist()]
        report.of_clusters("upgrade_soaks", soaking, (), days, release=texts_of(older))
    return soaking


def find_forgotten(
    rows: TableRows,
    evidence: Evidence,
    conditions: Conditions,
    soaking: Bool,
    report: BatchFindings,
) -> None:
    """Report features that have a plan and were READY longer than the setting `forgotten`."""
    if conditions.forgotten <= 0:
        return
    since = rows.numbers("ready_since")
    late = rows.texts("verdict").equal(Verdict.READY) & (since != NONE)
    late[late] = conditions.as_of - since[late] >= conditions.forgotten
    late[: len(evidence.questions.cluster)] &= ~soaking[evidence.questions.cluster]
    report.of_questions(
        "finalization_forgotten",
        np.flatnonzero(late),
        [f"{moment(at):%Y-%m-%d}" for at in since[late].tolist()],
        level=rows.numbers("target")[late],
    )
