"""List the tasks of the day, as groups of findings and plans, most urgent first.

Input: the clusters of a report. Output: a `Task` for each group; views show the first `MOST` and
link to the others. A group has the findings with equal rank, verb and code, by the row of the
finding. Every cluster that needs action is in a group, and no other cluster. A plan waits if a
level was downgraded, or if this run has no data of the cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from featurelib.feature import Severity, Verdict
from featurelib.findings import Todo, joined, row_of, tagged
from featurelib.snapshot.history import LATE
from featurelib.view import digest, words
from featurelib.view.model import Change, ReportedCluster, ReportedFinding, ReportedRun, Task
from featurelib.view.trend import METADATA_FELL, setbacks
from featurelib.words import count, some, time_text

MOST = 7  # Maximum number of groups that are shown
NAMES = 3  # Maximum number of names of clusters in one line
# The rank of a finding without its own rank, or with a changed severity.
USUAL = {
    Severity.CRITICAL: Todo(verb="Fix", rank=10),
    Severity.UNKNOWN: Todo(verb="Fix", rank=50),
    Severity.BLOCKER: Todo(verb="Fix", rank=62),
    Severity.WARNING: Todo(verb="Look at", rank=80),
    Severity.INFO: Todo(verb="Look at", rank=90),
}
ASK, COLLECT = Todo(verb="Ask", rank=20), Todo(verb="Collect", rank=30)
APPROVE, HAND_OVER = Todo(verb="Approve", rank=40), Todo(verb="Hand over", rank=41)
LAST = Todo(verb="Look at", rank=99)

Clusters = Sequence[ReportedCluster]
Groups = Iterator[tuple[Todo, Task]]
Pairs = list[tuple[ReportedCluster, ReportedFinding]]
NO_DATA = "no_data", "unreached"  # tags


def plan_day(clusters: Clusters, run: ReportedRun, change: Change | None) -> tuple[Task, ...]:
    """Return the tasks for clusters, most urgent first."""
    late_rows = _late(clusters, run)
    late_keys = {cluster.key for *_, cluster in late_rows}
    rows = _rows(clusters, late_keys)
    groups = [(todo, _fix(todo, code, f)) for (todo, code), f in rows.items()]
    fallen = setbacks(clusters, change)
    # Findings of each kind, even if settings lowered their severity.
    keys = {cluster.key for clusters_fallen in fallen.values() for cluster in clusters_fallen}
    keys |= late_keys | {
        c.key for c in clusters if _with_tags(digest.unmuted(c.findings), *NO_DATA)
    }
    ready = [cluster for cluster in clusters if cluster.steps and cluster.key not in keys]
    groups += [*_ask(fallen, change), *_without_new_data(late_rows), *_waiting(ready)]
    groups += _unnamed(clusters, {key for _, task in groups for key in task.clusters})
    groups.sort(key=lambda group: (group[0].rank, -len(group[1].clusters), group[1].codes))
    return tuple(task for _, task in groups)


def _unnamed(clusters: Clusters, keys_named: set[str]) -> Groups:
    """Yield a task for the clusters that need action and that no other task names."""
    if unnamed := [c for c in clusters if c.needs_person and c.key not in keys_named]:
        yield LAST, _task(LAST, unnamed, "No finding explains the UNKNOWN verdict.", "")


def _rows(clusters: Clusters, late_keys: set[str]) -> dict[tuple[Todo, str], Pairs]:
    """Return (rank and verb, code) → findings to act on."""
    rows = defaultdict[tuple[Todo, str], Pairs](list)
    for cluster in clusters:
        for finding in digest.without_old_data(_to_do(cluster), cluster.key in late_keys):
            rows[todo_for(finding), finding.code].append((cluster, finding))
    return rows


def todo_for(finding: ReportedFinding) -> Todo:
    """Return verb and rank of the task for a finding."""
    row = row_of(finding.code)
    is_usual = row is not None and row.severity is finding.severity
    return (row.todo if row and is_usual else None) or USUAL[finding.severity]


def _to_do(cluster: ReportedCluster) -> list[ReportedFinding]:
    """Return the findings to act on, without findings that follow from others, such as the range of
    a stale node."""
    serious = [f for f in digest.unmuted(cluster.findings) if f.severity is not Severity.INFO]
    follow, critical = _consequences(serious), Severity.CRITICAL
    roots = [f for f in serious if f.severity is critical or f not in follow]
    first = [f for f in roots if f.severity is critical or f.code not in tagged("consequence")]
    return first or ([] if cluster.steps else roots)


def _consequences(findings: Sequence[ReportedFinding]) -> list[ReportedFinding]:
    """Return the findings that follow from another finding of the cluster."""
    dead = {f.node for f in _with_tags(findings, "stale")}
    critical = {finding.node for finding in findings if finding.severity is Severity.CRITICAL}
    old, silent = _with_tags(findings, "too_old"), _with_tags(findings, "silent")
    follow = [f for f in old if f.code != old[0].code]
    is_lost = _with_tags(findings, "no_leader", "no_majority")
    follow += [f for f in (*silent, *_with_tags(findings, "votes_unseen")) if is_lost]
    follow += [f for f in findings if f.node_id is not None and f.node in critical]
    return follow + [f for f in _with_tags(findings, "of_range", "range_unseen") if f.node in dead]


def _with_tags(findings: Sequence[ReportedFinding], *tags: str) -> list[ReportedFinding]:
    return [finding for finding in findings if finding.code in tagged(*tags)]


def _task(kind: Todo, clusters: Clusters, text: str, how: str, *extra: str) -> Task:
    """Return a task for clusters. `extra`: its command and code."""
    command, code = (*extra, "", "")[:2]
    return Task(
        verb=kind.verb,
        text=text,
        how=how,
        command=command,
        codes=(code,) * bool(code),
        clusters=tuple(cluster.key for cluster in clusters),
        owners=tuple(dict.fromkeys(owner for c in clusters if (owner := c.owner or c.contact))),
    )


def _fix(kind: Todo, code: str, rows: Pairs) -> Task:
    """Return the task for one finding code, with the remedy for the first cluster."""
    clusters = list({cluster.key: cluster for cluster, _ in rows}.values())
    group, *later = digest.group_findings([f for cluster, f in rows if cluster is clusters[0]])
    title, action = digest.titles_of(code)[0], group.first.action
    text = f"{title[:1].upper()}{title[1:]}."
    if not clusters[1:] and not later:
        findings = [f for _, f in rows]
        reason = digest.reason_of(findings)
        text, reason = f"{digest.headline(findings)}.", f"{reason}." * bool(reason)
        action = joined(reason, group.first.consequence, action)
    elif action:
        is_urgent = kind.rank < USUAL[Severity.UNKNOWN].rank
        action = digest.remedy_of_several(rows, f"{group.messages[0]} " * is_urgent)
    # Only the cluster's details show commands that unregister, with their conditions.
    is_told = kind.verb == COLLECT.verb or not (clusters[1:] or code in tagged("stale", "removes"))
    commands = group.commands * is_told
    action = f"{action} {digest.fill_in(group.first.command) * bool(commands)}".strip()
    return _task(kind, clusters, text, action, "\n".join(commands), code)


def _ask(lowered: Mapping[str, Clusters], change: Change | None) -> Groups:
    """Yield the task to ask why levels or software were downgraded."""
    lowered = {kind: rows for kind, rows in lowered.items() if kind != METADATA_FELL}
    changed = list({c.key: c for rows in lowered.values() for c in rows}.values())
    if changed:
        names = {kind: some([c.name for c in rows], NAMES) for kind, rows in lowered.items()}
        text = "; ".join(
            f"{kind} in {those}" * bool(changed[1:]) or kind for kind, those in names.items()
        )
        lower = [
            f"{m.name}: {m.feature} {m.before.text} → {m.after.text} ({m.seen:%Y-%m-%d})"
            for m in (change.lowered if change else ())
        ]
        action = f"{some(lower, NAMES)}. " * bool(lower)
        action += "Ask who did it, why, and what was lost, before anything there is raised."
        yield ASK, _task(ASK, changed, f"{text[:1].upper()}{text[1:]}.", action)


def _late(clusters: Clusters, run: ReportedRun) -> list[tuple[int, datetime, ReportedCluster]]:
    """Return (days, newest line, cluster) of clusters without data in this run that no finding
    reports; oldest data first."""
    rows = []
    for cluster in clusters:
        at = digest.late_since(cluster.newest_line, cluster.findings, run.newest_line)
        if at and not _with_tags(_to_do(cluster), *NO_DATA):
            rows.append((max((run.as_of - at - LATE) // timedelta(days=1) + 1, 1), at, cluster))
    return sorted(rows, key=lambda row: row[0])


def _without_new_data(rows: Sequence[tuple[int, datetime, ReportedCluster]]) -> Groups:
    """Yield the task about clusters without new data."""
    if rows:
        since = [f"since {time_text(at)} ({count(n, 'day')})" for n, at, _ in rows]
        items = [c for *_, c in rows]
        action = f"Check {'the collectors' if items[1:] else 'its collector'}, or collect by hand."
        action = f"{action} {digest.fill_in(items[0].collect)}".rstrip()
        names = [f"from {c.name} {at}" for c, at in zip(items, since, strict=True)]
        text = f"No new data {some(names if items[1:] else since, NAMES)}."
        yield COLLECT, _task(COLLECT, items, text, action, items[0].collect or "")


def _waiting(clusters: Clusters) -> Groups:
    """Yield the tasks about plans that wait for an approval or for the clusters' managers."""
    plans = sorted(clusters, key=lambda c: (words.warns_besides(c), c.verdict is not Verdict.READY))
    own = [cluster for cluster in plans if digest.parts(cluster)[0]]
    owner_plans = [cluster for cluster in plans if digest.parts(cluster)[1]]
    if own:
        how = f"Read {'each' if own[1:] else 'the'} plan, then approve it."
        text, how = words.plans_text(own, owners=False), words.before_text(own, owners=False) + how
        yield APPROVE, _task(APPROVE, own, text, how, own[0].commands[0])
    if owner_plans:
        first = owner_plans[0]
        how = words.before_text(owner_plans, owners=True) + words.after_ours(owner_plans)
        how += words.by_managers([owner_plan.managed_by or "" for owner_plan in owner_plans])
        for cause in first.findings:
            if cause.code in tagged("not_carried_out") and cause.command == first.owner_command:
                how += (
                    f" {first.name} was asked for this already, and did not do it. {cause.action}"
                )
        text = words.plans_text(owner_plans, owners=True)
        yield HAND_OVER, _task(HAND_OVER, owner_plans, text, how, first.owner_command or "")
