"""One cluster, or several, as a look finds them just now: what may be finalized, what blocks the
rest, and the next command.

The values are those of the nightly's report; only what a person needs at once is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from featurelib.feature import Severity, Verdict
from featurelib.findings import tagged
from featurelib.view import digest
from featurelib.view.layout import Page, wrap
from featurelib.view.model import Readiness, Report, ReportedCluster
from featurelib.words import count, time_text

POINT = "point of no return"
MOST_NOTES = 3
NextStep = tuple[str, tuple[str, ...]]  # what to do, and its command, if there is one


def next_step(found: ReportedCluster, name: str, ways: str, *, is_live: bool) -> NextStep:
    """Return how to go on in a cluster. `name` is its argument, after a blank; "" where addresses
    alone say which it is. `ways` are the options that reach it."""
    ours, theirs = digest.parts(found)
    codes = {one.code for one in found.findings if one.severity is Severity.UNKNOWN}
    is_grave = found.severity is Severity.CRITICAL
    if ours:
        first = "Fix the critical finding first. " * is_grave
        sentence = f"{first}Make a plan. Nothing is sent before you approve and apply it."
        return sentence, (f"featurelib plan{name} upgrade-all{ways}",)
    if theirs and found.owner_command:
        return f"{found.managed_by} finalizes this:", (found.owner_command,)
    if is_live and codes and codes <= tagged("unproven"):
        sentence = "Ask the controller to validate, not to write. That needs ALTER on the cluster."
        return sentence, (f"featurelib plan{name} upgrade-all --probe{ways}",)
    if level := _first_blocked(found):
        sentence = "Fix the blockers. This lists all proof and the smallest change that unlocks it."
        return sentence, (f"featurelib why-not{name} {level}{ways}",)
    if is_grave or found.verdict in (Verdict.BLOCKED, Verdict.UNKNOWN):
        return "Fix the findings, then check again.", (f"featurelib check{name}{ways}",)
    return "", ()


def _first_blocked(found: ReportedCluster) -> str:
    """Return `FEATURE=LEVEL` of the first blocked ceiling; empty without one."""
    blocked = (one for one in found.readiness if one.verdict is Verdict.BLOCKED)
    levels = (f"{one.feature}={one.ceiling.number}" for one in blocked if one.ceiling)
    return next(levels, "") if found.verdict is Verdict.BLOCKED else ""


def check_page(report: Report, steps: Mapping[str, NextStep], width: int | None = None) -> Page:
    """The text of a check: a row for each cluster where there are several, then all of those that
    need a person. `steps`: how to go on in each, by its key."""
    page, found = Page(width), report.clusters
    if several := len(found) > 1:
        of_verdicts = report.fleet.clusters_by_verdict.items()
        counts = ", ".join(f"{number:,} {verdict}" for verdict, number in of_verdicts if number)
        page.text(f"{count(len(found), 'cluster')}, worst first: {counts}")
        page.line()
        rows = [(_verdict(one), one.name, one.summary) for one in found]
        page.table([("verdict", "cluster", "in one line"), *rows], most=(0, 30))
    for one in found:
        if one.needs_person or not several:
            page.lines([""] * several)
            _cluster(one, page)
            sentence, commands = steps[one.key]
            for command in commands:
                page.lines(["", *wrap(f"Next: {sentence}", page.width), f"  {command}"])
    return page


def _verdict(found: ReportedCluster) -> str:
    """The verdict; a cluster with a critical finding is never called up to date alone."""
    return "CRITICAL, " * (found.severity is Severity.CRITICAL) + found.verdict


def _cluster(found: ReportedCluster, page: Page) -> None:
    page.item(f"{found.name}: {_verdict(found)}: {found.summary}")
    known, seen = found.id if found.id != found.name else "", time_text(found.newest_line)
    facts = (seen and f"seen {seen}", known, found.mode, count(found.nodes, "node"))
    page.item(" · ".join(filter(None, (*facts, *digest.release_texts(found)))))
    people = " · ".join(filter(None, (digest.owner_text(found), found.contact)))
    page.lines([f"owner: {people}"] * bool(people))
    if found.readiness:
        page.line()
        rows = [
            (one.feature, one.finalized.text if one.finalized else "?", one.verdict, _goal(one))
            for one in found.readiness
        ]
        page.table([("feature", "finalized", "verdict", "target"), *rows])
    lines, is_loud = digest.ahead_lines(found), bool(digest.no_returns(found, found.steps))
    page.lines([""] * bool(lines))
    for line in lines:
        page.item(line.replace(POINT, POINT.upper()) if is_loud else line)
    page.lines([found.joining.command] if found.joining else [], 4)
    _findings(found, page)


def _goal(ready: Readiness) -> str:
    """The level to finalize next, or that is blocked or not proven; and what is opt-in."""
    goal, ceiling = ready.target or ready.ceiling, ready.ceiling
    text = goal.text if goal and goal != ready.finalized else ""
    if ready.target and ceiling and ceiling != ready.target:
        text += f", blocked up to {ceiling.text}"
    opt_in = f"opt-in: {ready.available.text}" if ready.available else ""
    return ", ".join(filter(None, (text, opt_in)))


def _findings(found: ReportedCluster, page: Page) -> None:
    """Each finding that is more than a note, what to do, and the commands."""
    shown = digest.unmuted(found.findings)
    known = [one for one in shown if one.code not in tagged("no_data")]
    is_told = any(one.severity is Severity.UNKNOWN for one in known)
    groups = digest.group_findings(known if is_told else shown)
    for group in groups:
        if group.severity is Severity.INFO:
            continue
        page.line()
        for message in filter(None, (*group.messages, group.others)):
            page.item(f"{group.severity}: {message}")
        if group.first.action:
            page.item(f"→ {group.first.action}", 2)
        page.lines(group.commands, 4)
        if lacks := digest.fill_in(group.first.command):
            page.item(lacks, 4)
    rest = [*digest.muted_lines(found.findings), *_notes(groups)]
    page.lines([""] * bool(rest))
    for line in rest:
        page.item(line)


def _notes(groups: Sequence[digest.FindingGroup]) -> list[str]:
    """The first sentences of findings that are only worth knowing."""
    texts = [text for of in groups if of.severity is Severity.INFO for text in of.messages]
    notes = [f"note: {text.partition('. ')[0].rstrip('.')}" for text in texts]
    if more := notes[MOST_NOTES:]:
        notes[MOST_NOTES:] = [f"{count(len(more), 'more note')}: see --json"]
    return notes
