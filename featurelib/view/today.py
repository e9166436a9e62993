"""List what is to be done, as groups of findings and plans, the most urgent first.

Input: the clusters of a report. Output: a `Task` for each group; views show the first `MOST` and
link to the rest. A group is what has one rank, verb and code, as the row of the finding says. Every
cluster that needs action stands in a group, and no other does.

A plan waits where something was downgraded, and where this run has no data of the cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from featurelib.feature import Severity, Verdict
from featurelib.findings import Todo, row_of, tagged
from featurelib.snapshot.history import LATE
from featurelib.view.digest import (
    fill_in,
    group_findings,
    late_since,
    no_returns,
    nodes_of,
    parts,
    step_text,
    titles_of,
    todo_of,
    unmuted,
    warns,
)
from featurelib.view.model import (
    Change,
    Report,
    ReportedCluster,
    ReportedFinding,
    ReportedRun,
    Task,
)
from featurelib.view.trend import METADATA_FELL, setbacks
from featurelib.view.words import FEATURES, after_ours, by_managers, one_way
from featurelib.words import count, some, time_text

MOST = 7  # groups that are shown at once
NAMES = 3  # of clusters, named in one line
# Of a finding whose row has no order of its own, or whose severity the settings changed.
USUAL = {
    Severity.CRITICAL: Todo(verb="Fix", rank=10),
    Severity.UNKNOWN: Todo(verb="Fix", rank=50),
    Severity.BLOCKER: Todo(verb="Fix", rank=62),
    Severity.WARNING: Todo(verb="Look at", rank=80),
}
ASK, COLLECT = Todo(verb="Ask", rank=20), Todo(verb="Collect", rank=30)
APPROVE, HAND_OVER = Todo(verb="Approve", rank=40), Todo(verb="Hand over", rank=41)
LAST = Todo(verb="Look at", rank=99)

Clusters = Sequence[ReportedCluster]
Rows = Sequence[tuple[ReportedCluster, ReportedFinding]]


def plan_day(clusters: Clusters, run: ReportedRun, change: Change | None) -> tuple[Task, ...]:
    """Return the groups of these clusters, worst first as the report has them."""
    rows: defaultdict[tuple[Todo, str], list[tuple[ReportedCluster, ReportedFinding]]]
    rows = defaultdict(list)
    for cluster in clusters:
        for found in _to_do(cluster):
            rows[todo_for(found), found.code].append((cluster, found))
    groups = [(todo, _fix(todo, code, found)) for (todo, code), found in rows.items()]
    went = [(ASK, task) for task in _ask(setbacks(clusters, change), change)]
    late = [(COLLECT, task) for task in _late(clusters, run)]
    # By what is so, whatever severity the settings give it.
    fell = [one for kept in setbacks(clusters, change).values() for one in kept]
    held = {one.key for one in (*fell, *(one for one in clusters if _has_no_data(one, run)))}
    ready = [one for one in clusters if one.steps and one.key not in held]
    groups += [*went, *late, *_waiting(ready)]
    told = {key for _, task in groups for key in task.clusters}
    rest = [one for one in clusters if one.needs_person and one.key not in told]
    if rest:
        groups.append(
            (LAST, _task(LAST, rest, "No finding says why the verdict is not known.", ""))
        )
    groups.sort(key=lambda group: (group[0].rank, -len(group[1].clusters), group[1].codes))
    return tuple(task for _, task in groups)


def _has_no_data(cluster: ReportedCluster, run: ReportedRun) -> bool:
    """Return true if this run has no data of the cluster that a plan could rest on."""
    found = unmuted(cluster.findings)
    is_late = late_since(cluster.newest_line, cluster.findings, run.newest_line) is not None
    return is_late or any(one.code in tagged("no_data", "unreached") for one in found)


def todo_for(found: ReportedFinding) -> Todo:
    """Return verb and rank of a finding: of its row, unless its severity was changed."""
    row = row_of(found.code)
    is_usual = row is not None and row.severity is found.severity
    return (row.todo if row and is_usual else None) or USUAL[found.severity]


def _to_do(cluster: ReportedCluster) -> list[ReportedFinding]:
    """Return what is to be done in a cluster, and not what follows from something else there: of a
    stale node its range, of a critical node or of a quorum without a majority who is silent, of
    evidence that is too old in one way that it is so in another."""
    found = [one for one in unmuted(cluster.findings) if one.severity is not Severity.INFO]
    critical = [one for one in found if one.severity is Severity.CRITICAL]
    stale, grave = (
        {(one.role, one.node_id) for one in some}
        for some in ([one for one in found if one.code in tagged("stale")], critical)
    )
    is_lost = any(one.code in tagged("no_leader", "no_majority") for one in found)
    old = next((one.code for one in found if one.code in tagged("too_old")), None)
    roots = list[ReportedFinding]()
    for one in found:
        node, code = (one.role, one.node_id), one.code
        follows = node in stale and code in tagged("of_range", "range_unseen")
        follows |= (is_lost or node in grave) and code in tagged("silent")
        follows |= code in tagged("too_old") and code != old
        roots += [] if follows and one not in critical else [one]
    first = [one for one in roots if one.code not in tagged("consequence") or one in critical]
    return first or ([] if cluster.steps else roots)


def _task(todo: Todo, clusters: Clusters, text: str, how: str, *more: str) -> Task:
    """The group of these clusters; `more`: its command and its code, "" = there is none."""
    command, code = (*more, "", "")[:2]
    return Task(
        verb=todo.verb,
        text=text,
        how=how,
        command=command,
        codes=(code,) * bool(code),
        clusters=tuple(cluster.key for cluster in clusters),
        owners=tuple(dict.fromkeys(one for c in clusters if (one := c.owner or c.contact))),
    )


def _fix(todo: Todo, code: str, rows: Rows) -> Task:
    """The group of one code: what is so, and what helps in the first of its clusters."""
    clusters = list({cluster.key: cluster for cluster, _ in rows}.values())
    group, *others = group_findings([one for cluster, one in rows if cluster is clusters[0]])
    helped = defaultdict[str, list[ReportedFinding]](list)  # as the first is, by the cluster's name
    for cluster, one in rows:
        if todo_of(one)[0] == todo_of(rows[0][1])[0]:
            helped[cluster.name].append(one)
    title, how = titles_of(code)[0], group.first.action
    text, said = f"{title[:1].upper()}{title[1:]}.", (*group.messages[:NAMES], group.others)
    if not clusters[1:] and not others:
        text = " ".join(filter(None, said))
        if more := group.messages[NAMES:]:
            text += f" {count(len(more), 'more finding')} of this kind."
    elif how:
        who = {name: nodes_of(found) for name, found in helped.items()}
        first, *same = [f"{name} ({ids})" if ids else name for name, ids in who.items()]
        node, alike = nodes_of([rows[0][1]]), who[clusters[0].name]
        how = rows[0][1].action  # of several nodes the first row's names one
        how = how.replace(node, alike) if node and alike else how
        is_urgent = todo.rank < USUAL[Severity.UNKNOWN].rank
        how = f"In {first}: {f'{said[0]} ' * is_urgent}{how}"
        how += f" Likewise in {some(same, NAMES)}." * bool(same)
        is_rest = sum(map(len, helped.values())) < len(rows)
        how += " The findings of the others say what helps there." * is_rest
    # What unregisters stands in the cluster's part alone, beside when that is right.
    is_told = todo.verb == COLLECT.verb or not (clusters[1:] or code in tagged("stale", "removes"))
    commands = group.commands * is_told
    how = f"{how} {fill_in(group.first.command) * bool(commands)}".strip()
    return _task(todo, clusters, text, how, "\n".join(commands), code)


def next_step(report: Report) -> tuple[str, str]:
    """Return the most urgent task in a sentence, and its command, which may be empty."""
    if not report.today:
        return "Nothing to do until the next run." if report.clusters else "Collect a cluster.", ""
    task = report.today[0]
    named = {cluster.key: cluster.name for cluster in report.clusters}
    where = some([named[key] for key in task.clusters], FEATURES)
    owners = f" ({some(task.owners, FEATURES)})" if task.owners else ""
    # A remedy's command stands with its task: whether it fits is for a person to say.
    command = task.command if task.verb in ("Approve", "Hand over", "Collect") else ""
    return f"{task.verb} {where}{owners}: {task.text} {task.how}".rstrip(), command


def _ask(went: Mapping[str, Clusters], change: Change | None) -> Iterator[Task]:
    """The group of clusters in which levels or software were downgraded."""
    went = {what: kept for what, kept in went.items() if what != METADATA_FELL}
    found = list({one.key: one for kept in went.values() for one in kept}.values())
    if found:
        named = (f"{what} in {some([c.name for c in kept], NAMES)}" for what, kept in went.items())
        text = "; ".join(named)
        lower = [
            f"{one.name}: {one.feature} {one.before.text} → {one.after.text} ({one.seen:%Y-%m-%d})"
            for one in (change.lowered if change else ())
        ]
        how = f"{some(lower, NAMES)}. " * bool(lower)
        how += "Ask who did it, why, and what was lost, before anything there is raised."
        yield _task(ASK, found, f"{text[:1].upper()}{text[1:]}.", how)


def _late(clusters: Clusters, run: ReportedRun) -> Iterator[Task]:
    """The group of clusters without data in this run that no finding says that of; who fell silent
    last comes first."""
    late = list[tuple[int, datetime, ReportedCluster]]()
    no_data = tagged("no_data", "unreached", "too_old")
    for cluster in clusters:
        at = late_since(cluster.newest_line, cluster.findings, run.newest_line)
        if at and not any(finding.code in no_data for finding in _to_do(cluster)):
            late.append((max((run.as_of - at - LATE) // timedelta(days=1) + 1, 1), at, cluster))
    if late:
        late.sort(key=lambda row: row[0])
        since = [f"{c.name} since {time_text(at)} ({count(n, 'run')})" for n, at, c in late]
        found = [one for *_, one in late]
        how = f"Check {'the collectors' if found[1:] else 'its collector'}, or collect by hand."
        how = f"{how} {fill_in(found[0].collect)}".rstrip()
        yield _task(
            COLLECT, found, f"No new data from {some(since, NAMES)}.", how, found[0].collect or ""
        )


def _waiting(clusters: Clusters) -> Iterator[tuple[Todo, Task]]:
    """The plans that wait for an approval of ours, and those for the owner of a managed cluster.
    Clusters that are READY as a whole come first; last what warns."""
    late = tagged("forgotten")  # a plan's approval is its remedy
    plans = sorted(clusters, key=lambda one: (warns(one, late), one.verdict is not Verdict.READY))
    ours = [cluster for cluster in plans if parts(cluster)[0]]
    theirs = [cluster for cluster in plans if parts(cluster)[1]]
    for todo, mine in ((APPROVE, ours), (HAND_OVER, theirs)):
        if not mine:
            continue
        is_theirs, first = todo is HAND_OVER, mine[0]
        shown = [step_text(replace(one, managed_by=None)) for one in parts(first)[is_theirs]]
        others = f", and levels of {count(len(mine) - 1, 'more cluster')}." if mine[1:] else "."
        warned = [one.name for one in mine if warns(one, late)]
        text = f"{first.name}: " * bool(mine[1:]) + some(shown, FEATURES) + others
        before = f"Read the findings of {some(warned, 2)} first. " if warned else ""
        before += one_way({one.name: no_returns(one, parts(one)[is_theirs]) for one in mine})
        how = f"Read {'each' if mine[1:] else 'the'} plan, then approve it."
        if is_theirs:
            before += after_ours(mine)
            how = by_managers([one.managed_by or "" for one in mine])
        for found in first.findings if is_theirs else ():
            if found.code in tagged("not_carried_out") and found.command == first.owner_command:
                how += f" {first.name} was asked for it already, and does not do it. {found.action}"
        command = first.owner_command if is_theirs else first.commands[0]
        yield todo, _task(todo, mine, text, before + how, command or "")
