"""Find levels whose last change was a downgrade, to ask why before a plan raises them again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np

from featurelib.catalogue import Catalogue
from featurelib.lake import Lake, Read, Wanted
from featurelib.planning.planner import Planned
from featurelib.rows import NONE
from featurelib.snapshot.history import LevelMove
from featurelib.tables import AUDIT_RUN, FEATURE_READINESS
from featurelib.words import ask_why_lower, level_text

REMEMBERED = timedelta(days=180)  # older runs do not count
Moved = dict[str, dict[int, dict[str, tuple[int, int]]]]  # cluster → run → feature → (from, to)
Lowered = list[tuple[LevelMove, datetime]]  # the last downgrades, with the time each was read


def warn_lowered(
    planned: Planned, lake: Lake | None, run: int | None, catalogue: Catalogue
) -> Planned:
    """Return the plan with a warning if the last change of an upgraded level was a downgrade.
    `run`: the newest run to consider, None = all."""
    if lake is None or planned.plan is None:
        return planned
    cluster, moves = planned.plan.cluster, planned.plan.moves
    raised = {(cluster, move.feature) for move in moves if move.from_level < move.to_level}
    went = find_lowered(lake.read, lake.run(run), raised).get(cluster, [])
    return replace(planned, warnings=(*planned.warnings, *filter(None, [ask_why(went, catalogue)])))


def find_lowered(read: Read, run: int, raised: Set[tuple[str, str]]) -> dict[str, Lowered]:
    """Return cluster → levels in `raised` whose last change, up to `run`, was a downgrade."""
    runs = remembered_runs(read, run)
    if not raised or len(runs) == 1:
        return {}
    clusters, features = (sorted(set(names)) for names in zip(*raised, strict=True))
    lowered = defaultdict[str, Lowered](list)
    conditions = ("cluster", "in", clusters), ("feature", "in", features)
    for cluster, moves_by_cluster in moved_levels(read, runs, *conditions).items():
        for move, at in went_down(moves_by_cluster, runs):
            if (cluster, move.feature) in raised:
                lowered[cluster].append((move, at))
    return lowered


def remembered_runs(read: Read, run: int) -> dict[int, datetime]:
    """Return run → time of the recent runs up to `run`."""
    rows = read(AUDIT_RUN, [("run", "<=", run)], ["run", "as_of"]).to_pylist()
    nights = {row["run"]: row["as_of"] for row in rows}
    return {n: at for n, at in sorted(nights.items()) if at >= nights[run] - REMEMBERED}


def went_down(
    moved: Mapping[int, Mapping[str, tuple[int, int]]], nights: Mapping[int, datetime]
) -> Lowered:
    """Return a cluster's levels whose last change was a downgrade, with its time."""
    last = {name: (ends, nights[n]) for n in sorted(moved) for name, ends in moved[n].items()}
    moves = ((LevelMove(name, *ends), at) for name, (ends, at) in sorted(last.items()))
    return [(move, at) for move, at in moves if move.to_level < move.from_level]


def ask_why(lowered: Lowered, catalogue: Catalogue) -> str:
    """Return the question about downgrades to answer before an upgrade; "" without downgrades."""
    return ask_why_lower(
        (name, level_text(catalogue, name, before), level_text(catalogue, name, after), at)
        for (name, before, after), at in lowered
    )


def moved_levels(read: Read, nights: Mapping[int, datetime], *conditions: Wanted) -> Moved:
    """Return all changes of known finalized levels between two runs. `conditions`: on the rows."""
    columns = ["run", "cluster", "feature", "finalized_level"]
    span = ("run", ">=", min(nights)), ("run", "<=", max(nights))
    rows = read(FEATURE_READINESS, [*span, *conditions], columns)
    level, run = rows.numbers("finalized_level"), rows.numbers("run")
    codes = rows.texts("cluster").codes, rows.texts("feature").codes
    with_level = np.flatnonzero(level != NONE)
    order = with_level[np.lexsort((run[with_level], codes[1][with_level], codes[0][with_level]))]
    before, after = order[:-1], order[1:]
    changed = level[before] != level[after]
    for code in codes:
        changed &= code[before] == code[after]
    moved: Moved = defaultdict(lambda: defaultdict(dict))
    before_levels = level[before[changed]].tolist()
    for row, low in zip(rows.take(after[changed]).to_pylist(), before_levels, strict=True):
        moved[row["cluster"]][row["run"]][row["feature"]] = (low, row["finalized_level"])
    return moved
