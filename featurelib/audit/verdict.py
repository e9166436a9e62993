"""What is said of each feature in the end, and the row that says it.

A known node that says no decides, whatever is missing; else what is missing decides; else whether
something can go up now.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from featurelib.audit.columns import Bool, Int
from featurelib.audit.evidence import Conditions, Evidence, Waiting
from featurelib.audit.findings import NO_NUMBER, Findings
from featurelib.audit.target import Bounds, Judge
from featurelib.core.downgrade import WaysBack
from featurelib.feature import Verdict
from featurelib.schema import READINESS, TIME


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
        "ready_since": pa.nulls(len(everything)),  # featurelib.audit.verdict knows
    }
    return pa.table(
        [columns[name].cast(READINESS.field(name).type) for name in READINESS.names],
        schema=READINESS,
    )


# ----------------------------------------
# Since when a feature is READY, night after night, and when its finalization counts as forgotten.
#
# A night without an answer (UNKNOWN) neither ends the wait nor begins it; BLOCKED, UP_TO_DATE and
# another finalized level end it. Where nothing is remembered, nothing is done row by row.

READY, UNKNOWN = Verdict.READY.value, Verdict.UNKNOWN.value


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
