"""Draws the range plot of one feature: a track of levels, a bar for each range nodes have, marks.

        finalized 25 (4.0-IV3)   ceiling 27 (4.1-IV1)
              |                     |
    brokers 1-3 ████████████████████        7-27
    broker 4  ████████                      7-25 · in the way

Only places are worked out here. Which bar is in the way was judged by the core: the findings and
the incompatible nodes of the report say it. Nodes that advertise the same ranges are one group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from featurelib.audit.evidence import Evidence
from featurelib.feature import Role, Verdict
from featurelib.model import RangeGroup
from featurelib.snapshot.history import LevelChange
from featurelib.view.digest import BY_NODE
from featurelib.view.model import Level, Readiness, ReportedCluster, ReportedReturn
from featurelib.words import brokers_and_controllers, count

WIDTH, LEFT, RIGHT = 840, 190, 550  # of the drawing, and of the track within it
BAR, MARK, TOP, BOTTOM = 22, 15, 6, 22  # heights
LINEAR = 40  # levels that still have room side by side; of more only the ends are places
LABEL = 26  # characters beside a bar
STATES = {"unfit": "does not fit", "holds": "in the way", "fits": "", "silent": "not known"}
Node = tuple[str, int]  # its role and its id


@dataclass(frozen=True, slots=True, kw_only=True)
class Portrait:
    """One cluster: its groups of nodes, the nodes whose ranges nobody knows, and its history."""

    groups: tuple[RangeGroup, ...] = ()
    silent: tuple[Node, ...] = ()
    history: tuple[LevelChange, ...] = ()


def portraits(evidence: Evidence) -> dict[str, Portrait]:
    """The portrait of every cluster of a batch, without its history, by cluster id."""
    who, answering = evidence.subjects, evidence.answering
    silent: list[set[Node]] = [set() for _ in evidence.clusters]
    for subject in np.flatnonzero(answering.of_subject < 0).tolist():
        node = (Role(int(who.role[subject])).text, int(who.node_id[subject]))
        silent[int(who.cluster[subject])].add(node)
    groups: list[list[RangeGroup]] = [[] for _ in evidence.clusters]
    ranges = _ranges(evidence)
    for profile, cluster in enumerate(answering.cluster.tolist()):
        begin, end = answering.subject_first[profile : profile + 2].tolist()
        behind = answering.subject_order[begin:end]
        ids, brokers = who.node_id[behind], who.role[behind] == int(Role.BROKER)
        groups[cluster].append(
            RangeGroup(
                brokers=tuple(sorted(ids[brokers].tolist())),
                controllers=tuple(sorted(ids[~brokers].tolist())),
                ranges=ranges[profile],
            )
        )
    return {
        cluster: Portrait(groups=tuple(groups[i]), silent=tuple(sorted(silent[i])))
        for i, cluster in enumerate(evidence.clusters)
    }


def _ranges(evidence: Evidence) -> list[dict[str, tuple[int, int]]]:
    """What each answering profile lists."""
    asked = evidence.questions
    found: list[dict[str, tuple[int, int]]] = [{} for _ in evidence.answering.cluster]
    pairs = np.flatnonzero(asked.pair_listed)
    feature = asked.feature[asked.pair_question[pairs]]
    columns = (asked.pair_profile[pairs], feature, asked.pair_min[pairs], asked.pair_max[pairs])
    for profile, name, low, high in zip(*(column.tolist() for column in columns), strict=True):
        found[profile][asked.names[name]] = (low, high)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Nodes of one range; `x` and `width` are None where there is no range to draw."""

    y: int
    x: float | None
    width: float | None
    state: str
    nodes: str
    full: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A level that matters, as a line through all bars with its own row of text."""

    kind: str
    x: float
    y: int
    text: str
    left: bool  # the text stands left of the line


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One drawing; `words` says the same for who does not see it."""

    feature: str
    height: int
    floor: int  # where the bars end
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    ticks: tuple[tuple[float, int], ...]
    words: str
    troubled: bool  # some node is in the way, or does not fit
    quiet: bool  # nothing is to be done


def draw(cluster: ReportedCluster, portrait: Portrait) -> tuple[Plot, ...]:
    """A plot for each feature of the cluster, in the order of its verdicts."""
    return tuple(_draw(ready, cluster, portrait) for ready in cluster.readiness)


def _draw(ready: Readiness, cluster: ReportedCluster, portrait: Portrait) -> Plot:
    levels = _levels_of(ready, cluster.returns)
    shown = _by_range(portrait.groups, ready.feature)
    listed = [ends for _, ends in shown if ends != (0, 0)]
    place = _Scale([end for ends in listed for end in ends], [level.number for *_, level in levels])
    top = TOP + MARK * len(levels)
    holding, unfit = _holding(cluster, ready.feature), _unfit(cluster, ready.feature)
    bars = [
        _bar(top + BAR * i, group, ends, place, holding, unfit)
        for i, (group, ends) in enumerate(shown)
    ]
    if portrait.silent:
        bars.append(_silent(top + BAR * len(shown), portrait.silent))
    marks = tuple(
        Mark(
            kind=kind,
            x=place.at(level.number),
            y=TOP + MARK * i + 10,
            text=f"{words} {level.text}",
            left=place.at(level.number) > (LEFT + RIGHT) / 2,
        )
        for i, (kind, words, level) in enumerate(levels)
    )
    floor = top + BAR * len(bars)
    troubled = any(bar.state in ("unfit", "holds") for bar in bars)
    return Plot(
        feature=ready.feature,
        height=floor + BOTTOM,
        floor=floor,
        bars=tuple(bars),
        marks=marks,
        ticks=tuple((place.at(level), level) for level in place.ticks),
        words=_words(levels, bars),
        troubled=troubled,
        quiet=not troubled and ready.verdict is Verdict.UP_TO_DATE,
    )


def _by_range(
    groups: Iterable[RangeGroup], feature: str
) -> list[tuple[RangeGroup, tuple[int, int]]]:
    """Groups that support the same range of the feature are one, the lowest range first."""
    found: dict[tuple[int, int], list[RangeGroup]] = {}
    for group in groups:
        found.setdefault(group.ranges.get(feature, (0, 0)), []).append(group)
    return [(_joined(alike), ends) for ends, alike in sorted(found.items(), key=_upper_end)]


def _upper_end(entry: tuple[tuple[int, int], list[RangeGroup]]) -> tuple[int, int]:
    return entry[0][::-1]


def _joined(groups: Sequence[RangeGroup]) -> RangeGroup:
    brokers = sorted(node for group in groups for node in group.brokers)
    controllers = sorted(node for group in groups for node in group.controllers)
    return RangeGroup(brokers=tuple(brokers), controllers=tuple(controllers), ranges={})


def _levels_of(ready: Readiness, returns: Iterable[ReportedReturn]) -> list[tuple[str, str, Level]]:
    """Kind, words and level of each mark. What falls together with another is one mark with it; a
    ceiling that is the target, or finalized, is not said."""
    named = [("finalized", ready.finalized), ("target", ready.target), ("ceiling", ready.ceiling)]
    found = [(kind, kind, level) for kind, level in named if level is not None]
    if ready.target is not None and ready.target == ready.ceiling:
        found = [entry for entry in found if entry[0] != "ceiling"]
    found = [entry for entry in found if entry[2] != ready.finalized or entry[0] == "finalized"]
    then = next((back for back in returns if back.feature == ready.feature), None)
    for kind, words, level in (
        ("floor", "lowest today", ready.downgrade_floor),
        ("floor", "lowest after the plan", None if then is None else then.downgrade_floor),
        ("end", "point of no return", None if then is None else then.point_of_no_return),
    ):
        same = next((i for i, entry in enumerate(found) if entry[2] == level), None)
        if level is not None and same is None:
            found.append((kind, words, level))
        elif level is not None and same is not None:
            found[same] = (found[same][0], f"{found[same][1]} and {words}", level)
    return found


class _Scale:
    """Where a level stands; levels too many to stand side by side are ranked."""

    def __init__(self, ends: Sequence[int], marks: Sequence[int]) -> None:
        wanted = sorted({*ends, *marks}) or [0]
        low, high = wanted[0], wanted[-1]
        if high - low > LINEAR:
            self._places = {level: float(i) for i, level in enumerate(wanted)}
        else:
            self._places = {level: float(level - low) for level in range(low, high + 1)}
        self._span = max(self._places.values()) + 1.0
        self.ticks = wanted

    def at(self, level: int) -> float:
        """The middle of the level's place."""
        return self._x(self._places[level] + 0.5)

    def bar(self, low: int, high: int) -> tuple[float, float]:
        """Where the bar of a range begins, and how wide it is."""
        begin, end = self._x(self._places[low]), self._x(self._places[high] + 1)
        return begin, round(end - begin, 1)

    def _x(self, place: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * place / self._span, 1)


def _bar(
    y: int,
    group: RangeGroup,
    ends: tuple[int, int],
    place: _Scale,
    holding: frozenset[Node],
    unfit: frozenset[Node],
) -> Bar:
    nodes = {("broker", n) for n in group.brokers} | {("controller", n) for n in group.controllers}
    state = "unfit" if nodes & unfit else "holds" if nodes & holding else "fits"
    low, high = ends
    x, width = place.bar(low, high) if ends != (0, 0) else (None, None)
    said = "does not list it" if x is None else str(low) if low == high else f"{low}–{high}"
    full = brokers_and_controllers(group.brokers, group.controllers)
    why = STATES[state]
    ids = len({*group.brokers, *group.controllers})  # two halves of one process are one node
    many = count(ids, "node") if ids > 1 else ""
    text = " · ".join(filter(None, (said, why, many)))
    return Bar(y=y, x=x, width=width, state=state, nodes=_short(full), full=full, text=text)


def _silent(y: int, nodes: Iterable[Node]) -> Bar:
    brokers = [node for role, node in nodes if role == "broker"]
    full = brokers_and_controllers(brokers, [node for role, node in nodes if role != "broker"])
    return Bar(
        y=y, x=None, width=None, state="silent", nodes=_short(full), full=full, text="not known"
    )


def _short(text: str) -> str:
    return text if len(text) <= LABEL else text[: LABEL - 1] + "…"


def _holding(cluster: ReportedCluster, feature: str) -> frozenset[Node]:
    return frozenset(
        (found.role or "", found.node_id)
        for found in cluster.findings
        if (found.code, found.feature) == (BY_NODE, feature) and found.node_id is not None
    )


def _unfit(cluster: ReportedCluster, feature: str) -> frozenset[Node]:
    return frozenset((n.role, n.node_id) for n in cluster.incompatible if n.feature == feature)


def _words(levels: Sequence[tuple[str, str, Level]], bars: Sequence[Bar]) -> str:
    said = [f"{words} {level.text}" for _, words, level in levels]
    said += [f"{bar.full}: {bar.text}" for bar in bars]
    return "; ".join(said)
