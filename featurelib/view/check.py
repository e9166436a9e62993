"""Show the result of `check`: possible levels, blockers of the others, and the next command.

The values are those of the report; the page shows only the most important ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from featurelib.feature import Severity, Verdict
from featurelib.findings import tagged
from featurelib.view import digest
from featurelib.view.layout import STYLES, Page, paint
from featurelib.view.model import Readiness, Report, ReportedCluster
from featurelib.words import count, time_text

POINT = "point of no return"
MOST_NOTES = 3
NextStep = tuple[str, tuple[str, ...]]  # (the next step in words, its commands)


def next_step(cluster: ReportedCluster, name: str, ways: str, *, is_live: bool) -> NextStep:
    """Return the next step for a cluster. `name`: its argument after a blank, or ""; `ways`:
    options that reach the cluster."""
    our_steps, owner_steps = digest.parts(cluster)
    codes = {finding.code for finding in cluster.findings if finding.severity is Severity.UNKNOWN}
    is_grave = cluster.severity is Severity.CRITICAL
    if our_steps:
        first = "Fix the critical finding first. " * is_grave
        sentence = f"{first}Make a plan. Nothing is sent before you approve and apply it."
        return sentence, (f"featurelib plan{name} upgrade-all{ways}",)
    if owner_steps and cluster.owner_command:
        return f"{cluster.managed_by} finalizes this:", (cluster.owner_command,)
    if is_live and codes and codes <= tagged("unproven") and cluster.verdict in digest.OPEN:
        sentence = "Ask the controller to validate, not to write. That needs ALTER on the cluster."
        return sentence, (f"featurelib plan{name} upgrade-all --probe{ways}",)
    if level := _first_blocked(cluster):
        sentence = "Fix the blockers. This lists all proof and the smallest change that unlocks it."
        return sentence, (f"featurelib why-not{name} {level}{ways}",)
    if is_grave or cluster.verdict in (Verdict.BLOCKED, Verdict.UNKNOWN):
        return "Fix the findings, then check again.", (f"featurelib check{name}{ways}",)
    return "", ()


def _first_blocked(cluster: ReportedCluster) -> str:
    """Return `FEATURE=LEVEL` of the first blocked maximum level; "" if none is blocked."""
    blocked = (row for row in cluster.readiness if row.verdict is Verdict.BLOCKED)
    levels = (f"{row.feature}={row.ceiling.number}" for row in blocked if row.ceiling)
    return next(levels, "") if cluster.verdict is Verdict.BLOCKED else ""


def check_page(report: Report, steps: Mapping[str, NextStep], width: int | None = None) -> Page:
    """Return the page of `check`: the verdicts, then the clusters that need action. `steps`:
    cluster key → next step."""
    page, clusters = Page(width), report.clusters
    if several := len(clusters) > 1:
        of_verdicts = report.fleet.clusters_by_verdict.items()
        counts = ", ".join(f"{number:,} {verdict}" for verdict, number in of_verdicts if number)
        page.text(f"{count(len(clusters), 'cluster')}, worst first: {counts}")
        page.line()
        rows = [(_verdict(cluster), cluster.name, cluster.summary) for cluster in clusters]
        page.table([("verdict", "cluster", "in one line"), *rows], most=(0, 30))
    for cluster in clusters:
        if cluster.needs_person or not several:
            page.lines([""] * several)
            _cluster(cluster, page)
            sentence, commands = steps[cluster.key]
            for command in commands:
                page.line()
                page.text(f"{paint('Next', 'bold')}: {sentence}")
                page.line(paint(f"  {command}", "bold"))
    return page


def _verdict(cluster: ReportedCluster) -> str:
    """Return the verdict of a cluster; `CRITICAL, BLOCKED` if it has a critical finding."""
    return "CRITICAL, " * (cluster.severity is Severity.CRITICAL) + cluster.verdict


def _cluster(cluster: ReportedCluster, page: Page) -> None:
    verdict = _verdict(cluster)
    verdict = paint(verdict, STYLES[verdict.partition(",")[0]])
    page.item(f"{paint(cluster.name, 'bold')}: {verdict}: {cluster.summary}")
    id_text = cluster.id if cluster.id != cluster.name else ""
    read_at = time_text(cluster.newest_line)
    facts = (read_at and f"seen {read_at}", id_text, cluster.mode, count(cluster.nodes, "node"))
    page.item(" · ".join(filter(None, (*facts, *digest.release_texts(cluster)))))
    contacts = " · ".join(filter(None, (digest.owner_text(cluster), cluster.contact)))
    page.lines([f"owner: {contacts}"] * bool(contacts))
    if cluster.readiness:
        page.line()
        rows = [
            (row.feature, row.finalized.text if row.finalized else "?", row.verdict, _goal(row))
            for row in cluster.readiness
        ]
        page.table([("feature", "finalized", "verdict", "target"), *rows])
    lines, is_loud = digest.ahead_lines(cluster), bool(digest.no_returns(cluster, cluster.steps))
    page.lines([""] * bool(lines))
    for line in lines:
        page.item(line.replace(POINT, POINT.upper()) if is_loud else line)
    page.lines([cluster.joining.command] if cluster.joining else [], 4)
    _findings(cluster, page)


def _goal(ready: Readiness) -> str:
    """Return the next, blocked or unproven level of a feature as text, with its opt-in level."""
    goal, ceiling = ready.target or ready.ceiling, ready.ceiling
    text = goal.text if goal and goal.number and goal != ready.finalized else ""
    if ready.target and ceiling and ceiling != ready.target:
        text += f", blocked up to {ceiling.text}"
    opt_in = f"opt-in: {ready.available.text}" if ready.available else ""
    return ", ".join(filter(None, (text, opt_in)))


def _findings(cluster: ReportedCluster, page: Page) -> None:
    """Add each finding above severity info, with remedy and commands, to the page."""
    findings = digest.unmuted(cluster.findings)
    reported = [finding for finding in findings if finding.code not in tagged("no_data")]
    is_told = any(f.severity is Severity.UNKNOWN for f in reported)
    groups = digest.group_findings(reported if is_told else findings)
    for group in groups:
        if group.severity is Severity.INFO:
            continue
        page.line()
        for message in filter(None, (*group.messages, group.others)):
            page.item(f"{paint(group.severity, STYLES[group.severity])}: {message}")
        if group.first.action:
            page.item(f"→ {group.first.action}", 2)
        page.lines(group.commands, 4)
        if command := digest.fill_in(group.first.command):
            page.item(command, 4)
    notes_left = [*digest.muted_lines(cluster.findings), *_notes(groups)]
    page.lines([""] * bool(notes_left))
    for line in notes_left:
        page.item(line)


def _notes(groups: Sequence[digest.FindingGroup]) -> list[str]:
    """Return notes: the first sentences of the findings of severity info."""
    texts = [text for group in groups if group.severity is Severity.INFO for text in group.messages]
    notes = [f"note: {text.partition('. ')[0].rstrip('.')}" for text in texts]
    if hidden := notes[MOST_NOTES:]:
        notes[MOST_NOTES:] = [f"{count(len(hidden), 'more note')}: see --json"]
    return notes
