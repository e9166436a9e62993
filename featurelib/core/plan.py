"""Upgrade-all plans: the fewest safe requests that finalize what is READY.

Where every controller that may answer is all or nothing (4.0 and later) one request carries all of
it; else each feature has a request of its own, because an older one writes the good part of what it
refuses in part, and metadata.version goes first, because other levels depend on it. Nothing
irreversible, nothing UNKNOWN and nothing BLOCKED is ever in a plan.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa

from featurelib.catalogue import Catalogue
from featurelib.core.columns import Bool, Int, distinct
from featurelib.core.dialect import load
from featurelib.core.evidence import Evidence
from featurelib.core.joiners import Joiners
from featurelib.feature import METADATA_VERSION, Phase, UpgradeType, Verdict
from featurelib.schema import RETURN, STEP, UPGRADE_PLAN

# A ZooKeeper-mode controller that is given 0 writes, and then answers 96.
TIMEOUT_MS = 60_000

_VERDICTS = list(Verdict)
_PHASES = list(Phase)


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
    joiners, after = Joiners(evidence, catalogue), asked.current.copy()
    after[ready] = target[ready]
    nodes = np.bincount(distinct((who.cluster << 32) | who.node_id) >> 32, minlength=clusters)
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
            joiners.rows(asked.current),
            joiners.rows(after, only=count > 0),
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
