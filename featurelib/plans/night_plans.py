"""The plan files of a judged batch: one for every cluster with something READY.

They are what `featurelib plan CLUSTER upgrade-all` writes for the same evidence, but for the part
that is for people.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from featurelib.catalogue import Catalogue
from featurelib.core.audit import Judged
from featurelib.core.batch import NOT_HERE
from featurelib.core.returning import Return, returns_of
from featurelib.feature import METADATA_VERSION
from featurelib.model import Plan
from featurelib.plans.guarding import Guarding
from featurelib.plans.planfile import ForPeople, write
from featurelib.plans.requirements import features_of, require, steps_of

UPGRADE_ALL = "upgrade-all"


def with_texts(
    judged: Judged, *, dialect: str, catalogue: Catalogue, guarding: Guarding | None = None
) -> pa.Table:
    """The plans of a judged batch with `plan` and `returns_after` filled where there are steps;
    they guard what `guarding` says."""
    evidence, plans = judged.evidence, judged.plans
    assert evidence is not None
    texts: list[str | None] = [None] * plans.num_rows
    meanings: list[Plan] = []
    lengths = plans["steps"].combine_chunks().value_lengths().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(lengths)
    shown = plans.select(["cluster", "steps", "dialects"]).take(pa.array(rows))
    for i, cluster, sent, own in zip(rows.tolist(), *shown.to_pydict().values(), strict=True):
        steps = steps_of(sent)
        meaning = Plan(
            cluster=cluster,
            intent=UPGRADE_ALL,
            dialect=dialect,
            own_dialects=tuple(own),
            catalogue=catalogue.label,
            steps=steps,
            requirements=require(evidence, i, features_of(steps), catalogue),
            guards=None if guarding is None else guarding.of(cluster),
        )
        meanings.append(meaning)
        texts[i] = write(meaning, ForPeople(level_names=level_names(meaning, catalogue)))
    plans = _with(plans, "plan", texts)
    returns: list[list[dict[str, object]] | None] = [None] * plans.num_rows
    for i, found in zip(rows.tolist(), returns_of(meanings, catalogue), strict=True):
        returns[i] = [_row(one) for one in found]
    return _with(plans, "returns_after", returns)


def _with(plans: pa.Table, name: str, values: Sequence[object]) -> pa.Table:
    at = plans.schema.get_field_index(name)
    field = plans.schema.field(at)
    return plans.set_column(at, field, pa.array(values, field.type))


def _row(found: Return) -> dict[str, object]:
    floor, point = (None if n == NOT_HERE else n for n in (found.floor, found.no_return))
    return {"feature": found.feature, "downgrade_floor": floor, "point_of_no_return": point}


def level_names(meaning: Plan, catalogue: Catalogue) -> dict[str, dict[str, str]]:
    """The names of the levels of metadata.version in a plan; other features have numbers only."""
    updates = [update for step in meaning.steps for update in step.updates]
    levels = {u.from_level for u in updates if u.feature == METADATA_VERSION}
    levels |= {u.to_level for u in updates if u.feature == METADATA_VERSION}
    levels |= {meaning.requirements.levels.get(METADATA_VERSION, 0)}
    names = {str(n): catalogue.names[n] for n in sorted(levels) if n in catalogue.names}
    return {METADATA_VERSION: names} if names else {}
