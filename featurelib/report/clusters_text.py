"""Clusters as terminal text: what can be finalized, a row each, then what to do in each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from featurelib.feature import Severity, Verdict
from featurelib.report import phrases
from featurelib.report.ahead import say_ahead
from featurelib.report.groups import Group, group_findings
from featurelib.report.model import Cluster, Finding, Readiness, Step
from featurelib.report.muted import heard, say_muted
from featurelib.report.words import show_time
from featurelib.report.wrapping import Located

NARROW = 72  # columns
ALL = "--limit 0 shows all"
LINES = 4  # of alike messages, features or steps shown unless everything is asked for

STYLES: dict[Verdict | Severity, str] = {
    Verdict.UNKNOWN: "magenta",
    Verdict.BLOCKED: "red",
    Verdict.READY: "cyan",
    Verdict.UP_TO_DATE: "green",
    Severity.CRITICAL: "bold red",
    Severity.BLOCKER: "red",
    Severity.UNKNOWN: "magenta",
    Severity.WARNING: "yellow",
    Severity.INFO: "dim",
}


def show_clusters(clusters: Sequence[Cluster], limit: int, width: int) -> Iterator[RenderableType]:
    """A row a cluster, the first `limit` of them; 0 = all. A narrow one has fewer columns."""
    wide = width >= NARROW
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("verdict", overflow="fold", min_width=10)
    table.add_column("cluster", overflow="fold", min_width=22 if wide else None, max_width=30)
    if wide:
        table.add_column("nodes", justify="right", overflow="fold")
        table.add_column("phase", overflow="fold", min_width=9)
    table.add_column("in one line", overflow="fold", ratio=1)
    for cluster in clusters[: limit or None]:
        sizes = [f"{cluster.nodes:,}", cluster.phase.value] if wide else []
        verdict = Text(cluster.verdict.value, STYLES[cluster.verdict])
        about = Text(cluster.summary)
        if needs_act(cluster) and (people := _say_people(cluster)):
            about.append(f"\n{people}", style="dim")
        table.add_row(verdict, _names(cluster, "\n"), *sizes, about)
    yield table
    yield from _left(len(clusters), limit)


def show_moves(clusters: Sequence[Cluster], limit: int) -> Iterator[RenderableType]:
    """What can be finalized in each cluster, READY ones first, `limit` of them; 0 = all."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("cluster", overflow="fold", max_width=30)
    table.add_column("steps", justify="right")
    table.add_column("from the finalized level to", overflow="fold", ratio=1)
    ordered = sorted(clusters, key=lambda cluster: cluster.verdict is not Verdict.READY)
    for cluster in ordered[: limit or None]:
        moves = _lines([_say_step(step) for step in cluster.steps], LINES if limit else 0)
        if cluster.verdict is not Verdict.READY:
            moves.append(f"\n{cluster.verdict.value} beyond that, see below", style="dim")
        if people := _say_people(cluster):
            moves.append(f"\n{people}", style="dim")
        table.add_row(Text(cluster.name, "bold"), f"{count_requests(cluster):,}", moves)
    yield table
    yield from _left(len(clusters), limit)


def needs_act(cluster: Cluster) -> bool:
    """Whether there is something to look at in the cluster, or to finalize."""
    return cluster.needs_person or bool(cluster.steps)


def show_findings(clusters: Sequence[Cluster], limit: int) -> Iterator[RenderableType]:
    """What to do in each cluster, the first `limit` of them, and of the findings of each as many;
    0 = all, and all they have."""
    for cluster in clusters[: limit or None]:
        head = Text.assemble((cluster.verdict.value, STYLES[cluster.verdict]), "  ")
        head.append_text(_names(cluster, "  "))
        nodes = phrases.count(cluster.nodes, "node")
        head.append(f"  {cluster.phase.value}, {nodes}", style="dim")
        yield Padding(head, (1, 0, 0, 0))
        yield Padding(_details(cluster, limit), (0, 0, 0, 2))
    yield from _left(len(clusters), limit)


def _names(cluster: Cluster, between: str) -> Text:
    name = Text(cluster.name, style="bold")
    if cluster.id != cluster.name:
        name.append(between + cluster.id, style="not bold dim")
    return name


def _say_people(cluster: Cluster) -> str:
    """`payments · #payments-oncall · managed by strimzi`, as far as the inventory says."""
    managed = f"managed by {cluster.managed_by}" if cluster.managed_by else None
    return " · ".join(filter(None, (cluster.owner, cluster.contact, managed)))


def _say_step(step: Step) -> str:
    return f"{step.feature} {step.from_level.text} → {step.to_level.text}"


def _left(count: int, limit: int) -> Iterator[RenderableType]:
    if limit and count > limit:
        yield Text(f"… and {count - limit:,} more: {ALL}", style="dim")


def _details(cluster: Cluster, limit: int) -> Table:
    most = LINES if limit else 0
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(justify="right", overflow="fold", min_width=8)
    grid.add_column(overflow="fold", ratio=1)
    people = " · ".join(filter(None, (cluster.owner, cluster.contact)))
    if people:
        grid.add_row("owner", Text(people))
    if cluster.managed_by:
        how = "which finalizes there: levels are changed through it"
        if cluster.commands:
            how = "which does not move what is planned: that is ours"
        grid.add_row("managed", Text(f"by {cluster.managed_by}, {how}"))
    levels = _say_levels(cluster)
    if levels:
        grid.add_row("levels", _lines(levels, most))
    groups = group_findings(heard(cluster.findings))
    for group in groups[: limit or None]:
        _add_group(grid, group, most)
    if limit and (left := sum(len(group.messages) for group in groups[limit:])):
        grid.add_row("", Text(f"… and {phrases.count(left, 'more finding')}: {ALL}", style="dim"))
    if muted := say_muted(cluster.findings):
        grid.add_row("muted", _lines(list(muted), most), style="dim")
    if cluster.steps:
        firsts = {step.request: step for step in reversed(cluster.steps)}
        steps = [
            (f"{step.request}. " if step is firsts[step.request] else "   ") + _say_step(step)
            for step in cluster.steps
        ]
        plan = _lines(steps, most)
        if cluster.plan_file:
            plan.append(f"\n{cluster.plan_file}", style="bold")
        grid.add_row("plan", plan)
        if ahead := say_ahead(cluster):
            grid.add_row("", _lines(ahead, most))
    if cluster.commands:
        grid.add_row("run", _lines(list(cluster.commands), most))
    return grid


def count_requests(cluster: Cluster) -> int:
    """How many UpdateFeatures requests the plan of a cluster has."""
    return len({step.request for step in cluster.steps})


def _say_levels(cluster: Cluster) -> list[str]:
    """The features whose level cannot go where it should; what goes there is in the plan."""
    if {ready.verdict for ready in cluster.readiness} == {Verdict.UNKNOWN}:
        names = phrases.some([ready.feature for ready in cluster.readiness], LINES)
        return [f"UNKNOWN for every feature: {names}"]
    return [
        _say_readiness(ready)
        for ready in cluster.readiness
        if ready.verdict is not Verdict.UP_TO_DATE and ready.target != ready.ceiling
    ]


def _say_readiness(ready: Readiness) -> str:
    now = "unknown" if ready.finalized is None else ready.finalized.text
    goal = ready.target or ready.ceiling
    if goal is None or goal == ready.finalized:
        return f"{ready.feature}  {now}  {ready.verdict.value}"
    beyond = ""
    if ready.target is not None and ready.ceiling not in (None, ready.target):
        assert ready.ceiling is not None
        beyond = f" (blocked up to {ready.ceiling.text})"
    return f"{ready.feature}  {now} → {goal.text}  {ready.verdict.value}{beyond}"


def _add_group(grid: Table, group: Group, most: int) -> None:
    first = group.first
    messages = _lines(list(group.messages), most)
    if group.others:
        messages.append(f"\n{group.others}")
    grid.add_row(Text(group.severity.value, STYLES[group.severity]), messages)
    if first.remedy:
        grid.add_row("do", Text(first.remedy))
    if first.command:
        grid.add_row("run", Text(first.command, "bold"))
    grid.add_row("", Located(_evidence(first), "dim"))
    if not most and first.source:
        grid.add_row("", Text(first.source, style="dim"))


def _evidence(finding: Finding) -> str:
    """The code, when it was seen and where: what a doubter asks for."""
    seen = show_time(finding.observed_at)
    line = f"line {finding.line_id}" if finding.line_id else None
    line = phrases.place(finding.line) if finding.line else line
    epoch = None if finding.epoch is None else f"epoch {finding.epoch}"
    when = None if seen is None else f"seen {seen}"
    return " · ".join(filter(None, [finding.code, when, epoch, line]))


def _lines(texts: list[str], most: int) -> Text:
    shown = texts[: most or None]
    if len(shown) < len(texts):
        shown.append(f"… and {len(texts) - len(shown):,} more")
    return Text("\n".join(shown))
