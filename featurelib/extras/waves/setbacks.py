"""Find what came late after earlier steps of the clusters that move now, and what went down last.

A new critical finding, or a level taken back, so late that a soak would have ended before it is a
reason to soak longer. What comes after the next step belongs to it; after a month nobody can tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from featurelib.catalogue import Catalogue
from featurelib.extras.waves.gates import critical_nights
from featurelib.extras.waves.rings import Standings, WaveTrouble
from featurelib.lake import Lake
from featurelib.planning.files import say_span
from featurelib.questions.setbacks import ask_why, moved_levels, remembered_runs, went_down
from featurelib.words import levels_text

LONGEST = timedelta(days=30)  # what comes later is not laid to a step


def find_setbacks(
    lake: Lake, run: int, standings: Standings, catalogue: Catalogue
) -> tuple[dict[str, WaveTrouble], dict[str, str]]:
    """Return the latest trouble after an earlier step of features that move now, by cluster; and
    the question to ask first of clusters whose levels went down and not up again."""
    names = {c.cluster: c.works[0][1].name for c in standings.candidates}
    moves = (move for c in standings.candidates for _, work in c.works for move in work.moves)
    features = sorted({move.feature for move in moves})
    nights = remembered_runs(lake.read, run)
    if not names or len(nights) == 1:
        return {}, {}
    critical, troubles = critical_nights(lake, min(nights), run), dict[str, WaveTrouble]()
    lower = dict[str, str]()
    for cluster, moved in moved_levels(lake.read, nights, ("feature", "in", features)).items():
        if cluster not in names:
            continue
        if went := went_down(moved, nights):
            lower[cluster] = ask_why(went, catalogue)
        bad = {number for number in nights if (number, cluster) in critical}
        if late := list(_troubles(moved, bad, nights)):
            after, trouble, levels = max(late, key=lambda c: c[0])
            place = f"{say_span(after)} after it went to {levels_text(catalogue, levels.items())}"
            troubles[cluster] = WaveTrouble(after=after, text=f"{names[cluster]} {trouble} {place}")
    return troubles, lower


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
                trouble = "had a critical finding" if later in critical else "was taken back"
                yield after, trouble, levels
                break
