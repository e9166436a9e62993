"""Find what came late after earlier steps of the clusters that move now, and what went down last.

A new critical finding, or a level taken back, so late that a soak would have ended before it is a
reason to soak longer. What comes after the next step belongs to it; after a month nobody can tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np

from featurelib.catalogue import Catalogue
from featurelib.lake import Lake, Read, Wanted
from featurelib.planning.files import say_span
from featurelib.planning.planner import Planned
from featurelib.planning.waves import Standings, WaveTrouble
from featurelib.questions.gates import critical_nights
from featurelib.rows import NONE
from featurelib.snapshot.history import LevelMove
from featurelib.tables import AUDIT_RUN, FEATURE_READINESS
from featurelib.words import ask_why_lower, level_text, levels_text

LONGEST = timedelta(days=30)  # what comes later is not laid to a step
REMEMBERED = timedelta(days=180)  # nights before are not looked at
Moved = dict[str, dict[int, dict[str, tuple[int, int]]]]  # cluster → night → feature → from, to
Lowered = list[tuple[LevelMove, datetime]]  # what went down last, and when that was seen


def find_setbacks(
    lake: Lake, run: int, found: Standings, catalogue: Catalogue
) -> tuple[dict[str, WaveTrouble], dict[str, str]]:
    """Return the latest trouble after an earlier step of features that move now, by cluster; and
    the question to ask first of clusters whose levels went down and not up again."""
    names = {one.cluster: one.works[0][1].name for one in found.candidates}
    moves = (move for one in found.candidates for _, work in one.works for move in work.moves)
    features = sorted({move.feature for move in moves})
    nights = _remembered(lake.read, run)
    if not names or len(nights) == 1:
        return {}, {}
    critical, troubles = critical_nights(lake, min(nights), run), dict[str, WaveTrouble]()
    lower = dict[str, str]()
    for cluster, moved in _moved(lake.read, nights, ("feature", "in", features)).items():
        if cluster not in names:
            continue
        if went := _went_down(moved, nights):
            lower[cluster] = _ask(went, catalogue)
        bad = {number for number in nights if (number, cluster) in critical}
        if late := list(_troubles(moved, bad, nights)):
            after, what, levels = max(late, key=lambda one: one[0])
            there = f"{say_span(after)} after it went to {levels_text(catalogue, levels.items())}"
            troubles[cluster] = WaveTrouble(after=after, text=f"{names[cluster]} {what} {there}")
    return troubles, lower


def warn_lowered(
    planned: Planned, lake: Lake | None, run: int | None, catalogue: Catalogue
) -> Planned:
    """The same with a warning where the plan raises levels that went down last, by the nights up to
    `run`, None = all there are."""
    if lake is None or planned.plan is None:
        return planned
    cluster, moves = planned.plan.cluster, planned.plan.moves
    raised = {(cluster, one.feature) for one in moves if one.from_level < one.to_level}
    went = find_lowered(lake.read, lake.run(run), raised).get(cluster, [])
    return replace(planned, warnings=(*planned.warnings, *filter(None, [_ask(went, catalogue)])))


def find_lowered(read: Read, run: int, raised: Set[tuple[str, str]]) -> dict[str, Lowered]:
    """By cluster those of the levels that are to be `raised`, by cluster and feature, which went
    down last by the nights up to `run`."""
    nights = _remembered(read, run)
    if not raised or len(nights) == 1:
        return {}
    clusters, features = (sorted(set(names)) for names in zip(*raised, strict=True))
    found = defaultdict[str, Lowered](list)
    wanted = ("cluster", "in", clusters), ("feature", "in", features)
    for cluster, moved in _moved(read, nights, *wanted).items():
        for move, at in _went_down(moved, nights):
            if (cluster, move.feature) in raised:
                found[cluster].append((move, at))
    return found


def _remembered(read: Read, run: int) -> dict[int, datetime]:
    """The nights up to this one that are looked at, and when each was judged."""
    rows = read(AUDIT_RUN, [("run", "<=", run)], ["run", "as_of"]).to_pylist()
    nights = {row["run"]: row["as_of"] for row in rows}
    return {n: at for n, at in sorted(nights.items()) if at >= nights[run] - REMEMBERED}


def _went_down(
    moved: Mapping[int, Mapping[str, tuple[int, int]]], nights: Mapping[int, datetime]
) -> Lowered:
    """The levels of one cluster that moved down last."""
    last = {name: (ends, nights[n]) for n in sorted(moved) for name, ends in moved[n].items()}
    kept = ((LevelMove(name, *ends), at) for name, (ends, at) in sorted(last.items()))
    return [(move, at) for move, at in kept if move.to_level < move.from_level]


def _ask(went: Lowered, catalogue: Catalogue) -> str:
    """Return the question about these levels before they are upgraded, "" = there are none."""
    return ask_why_lower(
        (name, level_text(catalogue, name, was), level_text(catalogue, name, now), at)
        for (name, was, now), at in went
    )


def _moved(read: Read, nights: Mapping[int, datetime], *wanted: Wanted) -> Moved:
    """Every level that another night found than the one before which knew it, of the rows for which
    all of `wanted` holds."""
    columns = ["run", "cluster", "feature", "finalized_level"]
    span = ("run", ">=", min(nights)), ("run", "<=", max(nights))
    rows = read(FEATURE_READINESS, [*span, *wanted], columns)
    level, run = rows.numbers("finalized_level"), rows.numbers("run")
    codes = rows.texts("cluster").codes, rows.texts("feature").codes
    known = np.flatnonzero(level != NONE)
    order = known[np.lexsort((run[known], codes[1][known], codes[0][known]))]
    before, after = order[:-1], order[1:]
    hit = level[before] != level[after]
    for of in codes:
        hit &= of[before] == of[after]
    moved: Moved = defaultdict(lambda: defaultdict(dict))
    was = level[before[hit]].tolist()
    for row, low in zip(rows.take(after[hit]).to_pylist(), was, strict=True):
        moved[row["cluster"]][row["run"]][row["feature"]] = (low, row["finalized_level"])
    return moved


def _troubles(
    moved: Mapping[int, Mapping[str, tuple[int, int]]],
    critical: set[int],
    nights: Mapping[int, datetime],
) -> Iterator[tuple[timedelta, str, dict[str, int]]]:
    """Yield the troubles after each step of a cluster: the time, the words, the levels."""
    up = {
        night: {name: high for name, (low, high) in levels.items() if low < high}
        for night, levels in moved.items()
    }
    order = list(nights)
    for night, levels in up.items():
        place = order.index(night)
        if not levels or critical.intersection(order[place - 1 : place + 1]):
            continue
        for later in order[place + 1 :]:
            after = nights[later] - nights[night]
            if after > LONGEST or up.get(later):
                break
            if later in critical or later in moved:
                what = "had a critical finding" if later in critical else "was taken back"
                yield after, what, levels
                break
