"""What is said in the end: a verdict for each feature, a plan for each cluster, and the way back.

A verdict: a known node that says no decides, whatever is missing; else what is missing decides;
else whether something can go up now.

A plan has the fewest safe requests that finalize what is READY. Where every controller that may
answer is all or nothing (4.0 and later) one request carries all of it; else each feature has a
request of its own, because an older one writes the good part of what it refuses in part, and
metadata.version goes first, because other levels depend on it. Nothing irreversible, nothing
UNKNOWN and nothing BLOCKED is ever in a plan.

Since when a feature is READY is remembered night after night: a night without an answer (UNKNOWN)
neither ends the wait nor begins it; BLOCKED, UP_TO_DATE and another finalized level end it. Where
nothing is remembered, nothing is done row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from featurelib.audit.checks import levels_of_clusters
from featurelib.audit.columns import Bool, Int, distinct, node_key, split_key
from featurelib.audit.evidence import Conditions, Evidence, Waiting
from featurelib.audit.findings import NO_NUMBER, Findings
from featurelib.audit.target import Bounds, Judge
from featurelib.catalogue import Catalogue, Tables
from featurelib.core.batch import NOT_HERE, Flags
from featurelib.core.compatibility import advertised, misfits
from featurelib.core.dialect import load
from featurelib.core.downgrade import Position, WaysBack, of_metadata_version, of_other_feature
from featurelib.feature import METADATA_VERSION, Phase, UpgradeType, Verdict
from featurelib.schema import READINESS, RETURN, STEP, TIME, UPGRADE_PLAN

# A ZooKeeper-mode controller that is given 0 writes, and then answers 96.
TIMEOUT_MS = 60_000

_VERDICTS = list(Verdict)
_PHASES = list(Phase)
READY, UNKNOWN = Verdict.READY.value, Verdict.UNKNOWN.value


def verdicts(
    asking: Judge, limits: Bounds, target: Int, unknown_clusters: Bool, unknown_feature: Bool
) -> Int:
    """One of featurelib.feature.Verdict by question, as its position in that enum."""
    asked = asking.asked
    unknown = unknown_feature | unknown_clusters[asked.cluster]
    can, wanted = target > asked.current, limits.ceiling > asked.current
    return np.select(
        [~asked.known, wanted & ~can, unknown, can],
        [
            _VERDICTS.index(Verdict.UNKNOWN),
            _VERDICTS.index(Verdict.BLOCKED),
            _VERDICTS.index(Verdict.UNKNOWN),
            _VERDICTS.index(Verdict.READY),
        ],
        _VERDICTS.index(Verdict.UP_TO_DATE),
    )


def beyond_ceiling(asking: Judge, limits: Bounds) -> Bool:
    """Questions where every node supports more than the ceiling: `limits.common`."""
    asked = asking.asked
    more = limits.common > limits.ceiling
    more[asking.propose(limits.common, more).refused(by_nodes=True)] = False
    more[asked.pair_question[asked.pair_unclear]] = False
    return more


def readiness(
    evidence: Evidence,
    limits: Bounds,
    asking: Judge,
    verdict: Int,
    target: Int,
    blockers: Int,
    unknowns: Int,
    back: WaysBack,
) -> pa.Table:
    """One row a question of featurelib.schema.READINESS."""
    asked = evidence.questions
    ready = verdict == _VERDICTS.index(Verdict.READY)
    more = beyond_ceiling(asking, limits)
    everything = np.arange(len(asked.cluster))
    columns = {
        "cluster": pa.array(evidence.clusters, pa.string()).take(pa.array(asked.cluster)),
        "feature": evidence.features(everything),
        "verdict": pa.array([v.value for v in Verdict], pa.string()).take(pa.array(verdict)),
        "finalized_level": pa.array(asked.current, mask=~asked.known),
        "target": pa.array(target, mask=~ready),
        "ceiling": pa.array(limits.ceiling),
        "available": pa.array(limits.common, mask=~more),
        "blockers": pa.array(blockers),
        "unknowns": pa.array(unknowns),
        "downgrade_floor": pa.array(back.floor, mask=back.floor < 0),
        "point_of_no_return": pa.array(back.no_return, mask=back.no_return < 0),
        "ready_since": pa.nulls(len(everything)),  # featurelib.audit.verdict knows
    }
    return pa.table(
        [columns[name].cast(READINESS.field(name).type) for name in READINESS.names],
        schema=READINESS,
    )


# --- Plans ----------------------------------------------------------------------------------------


def plans(
    evidence: Evidence,
    verdict: Int,
    target: Int,
    unknown: Bool,
    dialects: dict[int, list[str]],
    catalogue: Catalogue,
) -> pa.Table:
    """One row a cluster of featurelib.schema.UPGRADE_PLAN, steps in the order to send them.

    `dialects` are those a cluster's controllers may speak, where something may go up. Plan files,
    and what is read from them (`returns_after`), are not made here: both stay null.
    """
    asked, clusters = evidence.questions, len(evidence.clusters)
    worst = np.where(unknown, _VERDICTS.index(Verdict.UNKNOWN), _VERDICTS.index(Verdict.UP_TO_DATE))
    np.minimum.at(worst, asked.cluster, verdict)
    ready = np.flatnonzero(verdict == _VERDICTS.index(Verdict.READY))
    names = np.array(asked.names, dtype=object)
    first = names[asked.feature[ready]] != METADATA_VERSION if len(ready) else ready
    order = ready[np.lexsort((asked.feature[ready], first, asked.cluster[ready]))]
    count = np.bincount(asked.cluster[order], minlength=clusters)
    place = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
    atomic = np.zeros(clusters, dtype=bool)
    spoken: list[list[str]] = [dialects.get(cluster, []) for cluster in range(clusters)]
    atomic[[c for c, names in dialects.items() if _all_atomic(tuple(names))]] = True
    request = np.where(atomic[asked.cluster[order]], 0, place) + 1
    steps = pa.StructArray.from_arrays(
        [
            pa.array(request).cast(pa.int16()),
            pa.array(names[asked.feature[order]] if len(order) else [], pa.string()),
            pa.array(asked.current[order]).cast(pa.int16()),
            pa.array(target[order]).cast(pa.int16()),
            pa.repeat(pa.scalar(UpgradeType.UPGRADE.name), len(order)),
            pa.repeat(pa.scalar(TIMEOUT_MS, pa.int32()), len(order)),
        ],
        fields=list(STEP),
    )
    offsets = pa.array(np.concatenate(([0], np.cumsum(count))), pa.int32())
    who = evidence.subjects
    after = asked.current.copy()
    after[ready] = target[ready]
    processes, _, _ = split_key(distinct(node_key(who.cluster, 0, who.node_id)))
    nodes = np.bincount(processes, minlength=clusters)
    return pa.table(
        [
            pa.array(evidence.clusters, pa.string()),
            pa.array([v.value for v in Verdict], pa.string()).take(pa.array(worst)),
            pa.array([p.value for p in Phase], pa.string()).take(
                pa.array(_phases(evidence, worst, unknown))
            ),
            pa.array(nodes).cast(pa.int32()),
            pa.ListArray.from_arrays(offsets, steps),
            pa.array(spoken, pa.list_(pa.string())),
            pa.nulls(clusters, pa.string()),
            who_may_join(evidence, catalogue, asked.current),
            who_may_join(evidence, catalogue, after, only=count > 0),
            pa.nulls(clusters, pa.list_(RETURN)),
        ],
        schema=UPGRADE_PLAN,
    )


@cache
def _all_atomic(dialects: tuple[str, ...]) -> bool:
    return bool(dialects) and all(load(name).can.atomic for name in dialects)


def _phases(evidence: Evidence, worst: Int, unknown: Bool) -> Int:
    """Where each cluster stands, as a position in featurelib.feature.Phase.

    Rolling = its live nodes do not all support the same ranges. The halves of one process count as
    one, because a controller listener may leave unstable levels out.
    """
    answering, who = evidence.answering, evidence.subjects
    live = (answering.of_subject >= 0) & (who.answers | evidence.membership.zookeeper[who.cluster])
    profiles = answering.cluster[distinct(answering.of_subject[live])]
    different = np.bincount(profiles, minlength=len(evidence.clusters)) > 1
    off = evidence.levels.system_off
    behind = worst != _VERDICTS.index(Verdict.UP_TO_DATE)
    return np.select(
        [off, different, unknown, behind],
        [
            _PHASES.index(Phase.SYSTEM_OFF),
            _PHASES.index(Phase.ROLLING),
            _PHASES.index(Phase.UNKNOWN),
            _PHASES.index(Phase.ROLLED_NOT_FINALIZED),
        ],
        _PHASES.index(Phase.FINALIZED),
    )


def who_may_join(
    evidence: Evidence, catalogue: Catalogue, level: Int, only: Bool | None = None
) -> pa.Array:
    """The releases that may join each cluster with its features at `level`, by question; oldest
    first, null where nobody knows or `only` leaves the cluster out.

    A release may join whose production software supports everything that is finalized. Only KRaft's
    releases are in the catalogue, so a cluster in ZooKeeper mode has no answer.
    """
    asked, membership, tables = evidence.questions, evidence.membership, catalogue.tables
    known: Bool = evidence.levels.trusted & ~evidence.levels.too_old
    known &= membership.kraft | ~membership.zookeeper
    known[asked.cluster[~asked.known]] = False
    known &= True if only is None else only
    levels, _, beyond = levels_of_clusters(evidence, level, tables)
    ranges = advertised(catalogue, tables.features)
    fits: Flags = np.logical_not(misfits(levels, ranges).any(axis=2))
    fits[beyond | ~known] = False  # no release supports what the catalogue does not know
    _, release = np.nonzero(fits)
    offsets = np.concatenate(([0], np.cumsum(fits.sum(axis=1)))).astype(np.int32)
    names = pa.array([one.release for one in catalogue.releases], pa.string())
    return pa.ListArray.from_arrays(
        pa.array(offsets), names.take(pa.array(release)), mask=pa.array(~known)
    )


def ways_back(
    evidence: Evidence,
    ready: Bool,
    target: Int,
    spoken: dict[tuple[str, str], Bool],
    catalogue: Catalogue,
) -> WaysBack:
    """The way back of each question that is `ready` for its `target` (KIP-778, Downgrades).

    `spoken`: (dialect, release) → which clusters' controllers may be of it.
    """
    asked = evidence.questions
    found = WaysBack(floor=np.full(len(ready), NOT_HERE), no_return=np.full(len(ready), NOT_HERE))
    for feature, name in enumerate(asked.names):
        rows = np.flatnonzero(ready & (asked.feature == feature))
        if len(rows) == 0:
            continue
        if name == METADATA_VERSION:
            judges = [
                (*judge, np.flatnonzero(which[asked.cluster[rows]]))
                for judge, which in spoken.items()
            ]
            at = _positions(evidence, rows, catalogue.tables)
            back = of_metadata_version(at, target[rows], judges, catalogue.tables)
        else:
            back = of_other_feature(catalogue, name, asked.current[rows], target[rows])
        found.floor[rows], found.no_return[rows] = back.floor, back.no_return
    return found


def _positions(evidence: Evidence, rows: Int, tables: Tables) -> Position:
    """Where the clusters of these questions about metadata.version stand."""
    asked = evidence.questions
    count = asked.pair_count[rows]
    first = np.cumsum(count) - count
    pairs = np.repeat(asked.pair_first[rows] - first, count) + np.arange(int(count.sum()))
    others, _, beyond = levels_of_clusters(evidence, asked.current, tables)
    others[:, 0] = 0
    stores = beyond | (others > 0).any(axis=1)
    return Position(
        level=asked.current[rows].astype(np.int32),
        min_version=np.maximum.reduceat(asked.pair_min[pairs], first).astype(np.int32),
        max_version=np.minimum.reduceat(asked.pair_max[pairs], first).astype(np.int32),
        others=others[asked.cluster[rows]],
        stores=stores[asked.cluster[rows]],
    )


# --- Since when -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Night:
    """What tonight says of one feature; `level` None = no trustworthy witness."""

    verdict: str
    level: int | None
    as_of: int

    def since(self, before: Waiting | None) -> int | None:
        """Since when it is READY, microseconds; None where it is not and was not."""
        if before is not None and None not in (self.level, before.level):
            before = before if self.level == before.level else None  # somebody finalized it
        if self.verdict not in (READY, UNKNOWN):
            return None
        if before is not None:
            return min(before.since, self.as_of)
        return self.as_of if self.verdict == READY else None


def remember(rows: pa.Table, evidence: Evidence, conditions: Conditions, unknown: Bool) -> pa.Table:
    """Rows of featurelib.schema.READINESS with `ready_since`.

    `unknown`: the clusters whose evidence has a gap. What waited in one of them and is not asked
    about tonight becomes a row too: it is UNKNOWN, and not gone.
    """
    ready = pc.equal(rows["verdict"], READY)
    when = pa.scalar(conditions.as_of, pa.int64())
    since = pc.if_else(ready, when, pa.scalar(None, pa.int64()))
    left: dict[str, dict[str, Waiting]] = {}
    waiting = conditions.waiting
    if waiting:
        left = {name: dict(waiting[name]) for name in evidence.clusters if name in waiting}
    if left:
        since = pa.array(_since(rows, left, conditions.as_of), pa.int64())
    place = READINESS.get_field_index("ready_since")
    rows = rows.set_column(place, READINESS.field(place), since.cast(TIME))
    silent = {name for name, gap in zip(evidence.clusters, unknown.tolist(), strict=True) if gap}
    gone = [
        {"cluster": name, "feature": feature, "verdict": UNKNOWN, "ready_since": wait.since}
        for name, features in left.items()
        if name in silent
        for feature, wait in features.items()
    ]
    more = [{"blockers": 0, "unknowns": 0, **row} for row in gone]
    return pa.concat_tables([rows, pa.Table.from_pylist(more, schema=READINESS)]) if more else rows


def _since(rows: pa.Table, left: dict[str, dict[str, Waiting]], as_of: int) -> list[int | None]:
    """By row; what was found is taken out of `left`."""
    names = ("cluster", "feature", "verdict", "finalized_level")
    found: list[int | None] = []
    for name, feature, verdict, level in zip(*(rows[n].to_pylist() for n in names), strict=True):
        before = left[name].pop(feature, None) if name in left else None
        found.append(_Night(verdict=verdict, level=level, as_of=as_of).since(before))
    return found


def find_forgotten(
    rows: pa.Table, evidence: Evidence, conditions: Conditions, said: Findings
) -> None:
    """The features that are READY for as long as conf/audit.toml calls forgotten, or longer."""
    if conditions.forgotten <= 0:
        return
    waited = pc.subtract(conditions.as_of, rows["ready_since"].cast(pa.int64()))
    long = pc.fill_null(pc.greater_equal(waited, conditions.forgotten), False)
    late = rows.filter(pc.and_(long, pc.equal(rows["verdict"], READY)))
    if late.num_rows == 0:
        return
    position = {name: i for i, name in enumerate(evidence.clusters)}
    cluster = np.array([position[name] for name in late["cluster"].to_pylist()], dtype=np.int64)
    level = late["finalized_level"].cast(pa.int64())
    said.add(
        "finalization_forgotten",
        cluster,
        feature=late["feature"].combine_chunks(),
        finalized_level=pc.fill_null(level, NO_NUMBER).to_numpy(),
        level=late["target"].cast(pa.int64()).to_numpy(),
        at=evidence.levels.at[cluster],
        line=evidence.levels.line[cluster],
        detail=[_day(at) for at in late["ready_since"].cast(pa.int64()).to_pylist()],
    )


def _day(at: int) -> str:
    return datetime.fromtimestamp(at // 1_000_000, UTC).date().isoformat()
