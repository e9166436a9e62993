"""The plan files of a judged batch: one for every cluster with something READY.

They are what `featurelib plan CLUSTER upgrade-all` writes for the same evidence, but for the part
that is for people.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from featurelib.audit.audit import Judged
from featurelib.catalogue import Catalogue
from featurelib.core.batch import NOT_HERE
from featurelib.core.downgrade import returns_of
from featurelib.feature import METADATA_VERSION
from featurelib.model import Plan
from featurelib.planning.files import ForPeople, write_plan
from featurelib.planning.requirements import Guarding, features_of, require, steps_of

UPGRADE_ALL = "upgrade-all"


def with_texts(
    judged: Judged, *, dialect: str, catalogue: Catalogue, guarding: Guarding | None = None
) -> pa.Table:
    """The plans of a judged batch with `plan` and `returns_after` filled where there are steps;
    they guard what `guarding` says."""
    evidence, plans = judged.evidence, judged.plans
    assert evidence is not None
    made: dict[int, Plan] = {}
    lengths = plans["steps"].combine_chunks().value_lengths().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(lengths)
    shown = plans.select(["cluster", "steps", "dialects"]).take(pa.array(rows))
    for i, cluster, sent, own in zip(rows.tolist(), *shown.to_pydict().values(), strict=True):
        steps = steps_of(sent)
        made[i] = Plan(
            cluster=cluster,
            intent=UPGRADE_ALL,
            dialect=dialect,
            own_dialects=tuple(own),
            catalogue=catalogue.label,
            steps=steps,
            requirements=require(evidence, i, features_of(steps), catalogue),
            guards=None if guarding is None else guarding.of(cluster),
        )
    texts: list[str | None] = [None] * plans.num_rows
    returns: list[list[dict[str, object]] | None] = [None] * plans.num_rows
    for (i, plan), found in zip(
        made.items(), returns_of(list(made.values()), catalogue), strict=True
    ):
        texts[i] = write_plan(plan, ForPeople(level_names=level_names(plan, catalogue)))
        returns[i] = [
            {
                "feature": one.feature,
                "downgrade_floor": None if one.floor == NOT_HERE else one.floor,
                "point_of_no_return": None if one.no_return == NOT_HERE else one.no_return,
            }
            for one in found
        ]
    for name, values in (("plan", texts), ("returns_after", returns)):
        at = plans.schema.get_field_index(name)
        field = plans.schema.field(at)
        plans = plans.set_column(at, field, pa.array(values, field.type))
    return plans


def level_names(plan: Plan, catalogue: Catalogue) -> dict[str, dict[str, str]]:
    """The names of the levels of metadata.version in a plan; other features have numbers only."""
    moves = [move for move in plan.moves if move.feature == METADATA_VERSION]
    levels = {level for move in moves for level in (move.from_level, move.to_level)}
    levels |= {plan.requirements.levels.get(METADATA_VERSION, 0)}
    names = {str(n): catalogue.names[n] for n in sorted(levels) if n in catalogue.names}
    return {METADATA_VERSION: names} if names else {}
