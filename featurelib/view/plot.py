"""Make the range plot of one feature: a bar for each range of nodes, and marks for levels.

    brokers 1-3   ██████████████████████┊   7–27
    broker 4      ███████████████████|  ┊   7–25 · in the way
                  7                  25 27
                | finalized 25 (4.0-IV3)
                ┊ ceiling 27 (4.1-IV1)

The page decides the place of the plot (featurelib.view.html). A bar is marked as blocking by the
findings and the incompatible nodes of the report.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap

from featurelib.feature import Role, Verdict
from featurelib.findings import tagged
from featurelib.view.model import Level, Readiness, ReportedCluster, ReportedReturn
from featurelib.words import brokers_and_controllers, count

NOT_LISTED = (0, 0)
LABEL = 24  # the maximum length of a bar's label, in characters
BARS = 30  # Maximum number of bars in one plot, and in all plots of a cluster's page
STATES = {"unfit": "does not fit", "holds": "in the way", "fits": "", "silent": "not known"}
Node = tuple[str, int]  # the role and the id of a node
Ends = tuple[int, int]
Seen = Sequence[tuple[list[Node], dict[str, Ends] | None]]  # (nodes, their ranges; None = unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar for the nodes of one range; `ends` are None if there is no range to draw.

    `label`: the nodes, or their number if the list is too long.
    """

    ends: Ends | None
    state: str
    nodes: str
    label: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A mark in a plot: a vertical line at a level, and its text."""

    kind: str
    text: str
    level: int

    @property
    def lines(self) -> list[str]:
        """The text of the mark, wrapped into lines."""
        return wrap(self.text, 50)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """The range plot of one feature. `words`: the content as text, for screen readers."""

    feature: str
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    levels: tuple[int, ...]  # the levels at the ends of bars and at the marks
    words: str
    troubled: bool  # true if a node blocks the target or lacks the finalized level
    quiet: bool  # true if the feature needs no action


def draw(cluster: ReportedCluster) -> tuple[Plot, ...]:
    """Return a plot per feature of the cluster."""
    plots = []
    for profile in cluster.profiles or ():
        nodes = [(Role.BROKER.text, number) for number in profile.brokers]
        nodes += [(Role.CONTROLLER.text, number) for number in profile.controllers]
        ranges = {row.feature: (row.min_version, row.max_version) for row in profile.ranges or ()}
        plots.append((nodes, None if profile.ranges is None else ranges))
    return tuple(_draw(ready, cluster, plots) for ready in cluster.readiness) if plots else ()


def _draw(ready: Readiness, cluster: ReportedCluster, times: Seen) -> Plot:
    marks = _marks(ready, cluster.returns)
    bars = _bars(ready.feature, cluster, times)
    levels = {end for bar in bars for end in bar.ends or ()} | {mark.level for mark in marks}
    texts = [mark.text for mark in marks] + [f"{bar.nodes}: {bar.text}" for bar in bars]
    troubled = any(bar.state in ("unfit", "holds") for bar in bars)
    return Plot(
        feature=ready.feature,
        bars=tuple(bars),
        marks=tuple(marks),
        levels=tuple(sorted(levels)) or (0,),
        words="; ".join(texts),
        troubled=troubled,
        quiet=not troubled and ready.verdict is Verdict.UP_TO_DATE,
    )


def _bars(feature: str, cluster: ReportedCluster, times: Seen) -> list[Bar]:
    """Return one bar per distinct range of a feature, lowest range first. The last bar stands for
    bars that do not fit."""
    unfit = {(node.role, node.node_id) for node in cluster.incompatible if node.feature == feature}
    holding = {
        (finding.role, finding.node_id)
        for finding in cluster.findings
        if finding.code in tagged("unsupported") and finding.feature == feature
    }
    groups: dict[Ends, list[Node]] = defaultdict(list)
    silent = list[Node]()
    for nodes, ranges in times:
        if ranges is None:
            silent += nodes
        else:
            groups[ranges.get(feature, NOT_LISTED)] += nodes
    bars = []
    for ends in sorted(groups, key=lambda ends: ends[::-1]):
        same_nodes = {*groups[ends]}
        state = "unfit" if same_nodes & unfit else "holds" if same_nodes & holding else "fits"
        bars.append(_bar(groups[ends], state, ends))
    bars += [_bar(silent, "silent", None)] if silent else []
    if len(bars) <= BARS:
        return bars
    bars.sort(key=lambda bar: bar.state in ("fits", "silent"))
    omitted = count(len(bars) - BARS + 1, "more range")
    return [*bars[: BARS - 1], Bar(ends=None, state="fits", nodes=omitted, label=omitted, text="")]


def _bar(nodes: Sequence[Node], state: str, ends: Ends | None) -> Bar:
    brokers, controllers = (
        [number for role, number in nodes if role == node_role.text]
        for node_role in (Role.BROKER, Role.CONTROLLER)
    )
    ids = {number for _, number in nodes}  # a combined node counts once
    parts = [STATES[state]]
    if ends is not None:
        low, high = ends
        ends_text = str(low) if low == high else f"{low}–{high}"
        parts.insert(0, "does not list it" if ends == NOT_LISTED else ends_text)
    names = brokers_and_controllers(brokers, controllers)
    return Bar(
        ends=None if ends == NOT_LISTED else ends,
        state=state,
        nodes=names,
        label=names if len(names) <= LABEL or len(ids) == 1 else count(len(ids), "node"),
        text=" · ".join(filter(None, parts)),
    )


def _marks(ready: Readiness, returns: Iterable[ReportedReturn]) -> list[Mark]:
    """Return the marks of a feature's plot: ceiling, target, others. Equal levels share a mark."""
    result = next((item for item in returns if item.feature == ready.feature), None)
    ceiling = None if ready.ceiling == ready.target else ready.ceiling
    marks: dict[Level, tuple[str, str]] = {}
    for kind, words, level in (
        ("finalized", "finalized", ready.finalized),
        ("target", "target", ready.target),
        ("ceiling", "ceiling", ceiling),
        ("floor", "floor today", ready.downgrade_floor),
        ("floor", "floor after the plan", None if result is None else result.downgrade_floor),
        ("end", "point of no return", None if result is None else result.point_of_no_return),
    ):
        if level is None or (level == ready.finalized and kind in ("target", "ceiling")):
            continue
        first, before = marks.get(level, (kind, ""))
        marks[level] = (first, f"{before} and {words}" if before else words)
    return [
        Mark(kind=kind, text=f"{words} {level.text}", level=level.number)
        for level, (kind, words) in marks.items()
    ]
