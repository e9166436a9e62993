"""What is said of each feature in the end, and the row that says it.

A known node that says no decides, whatever is missing; else what is missing decides; else whether
something can go up now.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from featurelib.core.bounds import Bounds
from featurelib.core.columns import Bool, Int
from featurelib.core.downgrade import WaysBack
from featurelib.core.evidence import Evidence
from featurelib.core.target import Judge
from featurelib.feature import Verdict
from featurelib.schema import READINESS


def verdicts(
    asking: Judge, limits: Bounds, target: Int, unknown_clusters: Bool, unknown_feature: Bool
) -> Int:
    """One of featurelib.feature.Verdict by question, as its position in that enum."""
    asked = asking.asked
    order = list(Verdict)
    unknown = unknown_feature | unknown_clusters[asked.cluster]
    can, wanted = target > asked.current, limits.ceiling > asked.current
    return np.select(
        [~asked.known, wanted & ~can, unknown, can],
        [
            order.index(Verdict.UNKNOWN),
            order.index(Verdict.BLOCKED),
            order.index(Verdict.UNKNOWN),
            order.index(Verdict.READY),
        ],
        order.index(Verdict.UP_TO_DATE),
    )


def beyond_ceiling(asking: Judge, limits: Bounds) -> Bool:
    """Questions where every node supports more than the ceiling: `limits.common`."""
    asked = asking.asked
    more = limits.common > limits.ceiling
    refused = asked.pair_question[asking.offending_pairs(limits.common, more)]
    more[refused] = False
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
    ready = verdict == list(Verdict).index(Verdict.READY)
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
        "ready_since": pa.nulls(len(everything)),  # featurelib.core.waiting knows
    }
    return pa.table(
        [columns[name].cast(READINESS.field(name).type) for name in READINESS.names],
        schema=READINESS,
    )
