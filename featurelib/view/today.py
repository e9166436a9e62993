"""What there is to do today: at most seven things, the most urgent first; and, in a few sentences,
the state of the fleet.

What is critical comes first, then what did not land or does not answer, then plans that wait for
somebody, then ghosts and what a command does, then what unlocks most clusters, and last the rest. A
cluster may stand in more than one; those that need a person, and no others, stand in some.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from featurelib.audit.findings import GONE
from featurelib.feature import Severity, Verdict
from featurelib.planning.owners import ADVICE
from featurelib.view.digest import (
    BY_NODE,
    NOT_ANSWERING,
    NOT_LANDED,
    NOT_LISTED,
    TOO_OLD,
    count_muted,
    fill_in,
    group_findings,
    has_landed,
    is_too_old,
    late_since,
    lowered,
    no_returns,
    parts,
    step_text,
    unmuted,
    warns,
)
from featurelib.view.model import (
    Cause,
    Change,
    FleetCounts,
    Report,
    ReportedCluster,
    ReportedFinding,
    ReportedRun,
    Task,
    Verb,
)
from featurelib.words import age, code_text, count, some, time_text

AUDIT = "./spark-submit.sh audit"
MOST = 7
MOST_CRITICAL = 2  # kinds of critical findings with a line each
KINDS = 3  # of findings, named in one line
FEATURES = 2  # of a plan, named in one line

Clusters = Sequence[ReportedCluster]
Rows = Sequence[tuple[ReportedCluster, ReportedFinding | None]]  # None: nothing is found there


def plan_day(
    clusters: Clusters,
    causes: Sequence[Cause],
    fleet: FleetCounts,
    run: ReportedRun,
    change: Change | None,
) -> tuple[Task, ...]:
    """Return the tasks of these clusters, worst first as the report has them."""
    if is_all_old(fleet):
        tasks, causes = [_collect_again(clusters, run), *_not_landed(clusters, None)], ()
    else:
        lost = [*_not_landed(clusters, run.newest_line), *_silent(clusters)]
        tasks = [*_critical(clusters), *lost, *_waiting(clusters, lowered(change))]
    started, collected = (
        {key for task in tasks if task.verb == verb for key in task.clusters}
        for verb in ("Start", "Collect")
    )
    by_key = {cluster.key: cluster for cluster in clusters}
    done_by = {f.code for c in clusters for f in unmuted(c.findings) if f.command} - {BY_NODE}
    for cause in sorted(causes, key=lambda c: (not c.ghosts and c.code not in done_by, -c.alone)):
        if len(tasks) < MOST - 1 and cause.code != NOT_LANDED:
            done = started | collected if cause.code in TOO_OLD else started
            unlocked = [by_key[key] for key in cause.unlocked if key not in done]
            tasks += _unlock(cause, [cluster for cluster in unlocked if cluster.needs_person])
    covered = {key for task in tasks for key in task.clusters}
    rest = [c for c in clusters if c.needs_person and c.key not in covered]
    worst = [(c, next(iter(unmuted(c.findings)), None)) for c in rest]
    strangers = [(c, f) for c in clusters for f in unmuted(c.findings) if f.code == NOT_LISTED]
    if strangers and len(tasks) < MOST - 1:
        tasks.append(_fix("Add", code_text(NOT_LISTED), strangers))
        worst = [row for row in worst if row[1] is None or row[1].code != NOT_LISTED]
    tasks += [_fix("Look at", *kind) for kind in _kinds(worst, MOST - len(tasks))]
    return tuple(tasks)


def _task(
    verb: Verb,
    clusters: Clusters,
    text: str,
    how: str = "",
    command: str = "",
    codes: Iterable[str] = (),
) -> Task:
    return Task(
        verb=verb,
        text=text,
        how=how,
        command=command,
        codes=tuple(dict.fromkeys(codes)),
        clusters=tuple(cluster.key for cluster in clusters),
        owners=tuple(dict.fromkeys(one for c in clusters if (one := c.owner or c.contact))),
    )


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


def _collect_again(clusters: Clusters, run: ReportedRun) -> Task:
    """Nothing can be judged for the age of what landed."""
    old = [cluster for cluster in clusters if has_landed(cluster.findings)]
    text, how = "What landed is too old to judge by.", "Collect the fleet again, and run again."
    if not is_newest_old(run):
        return _task("Collect", old, text, how)
    where = shlex.quote(run.tables) if run.tables else "FOLDER"
    how = "Collect the fleet again. To see what the old evidence said:"
    return _task("Collect", old, text, how, f"{AUDIT} --tables {where} --as-of newest")


def _critical(clusters: Clusters) -> Iterator[Task]:
    """A task for each kind of critical finding."""
    rows = [
        (c, f) for c in clusters for f in unmuted(c.findings) if f.severity is Severity.CRITICAL
    ]
    for kind in _kinds(rows, MOST_CRITICAL):
        yield _fix("Fix", *kind)


def _kinds(rows: Rows, most: int) -> list[tuple[str, Rows]]:
    """Findings of one code together, behind its title; the last of `most` kinds takes in all
    further ones, and counts the clusters of each."""
    held = defaultdict[str, list[tuple[ReportedCluster, ReportedFinding | None]]](list)
    for row in rows:
        held[code_text(row[1].code) if row[1] else "no finding says why"].append(row)
    kinds = list(held.items())
    rest = kinds[most - 1 :]
    if len(rest) < 2:
        return [*kinds]
    many = ((title, len({one.key for one, _ in mine})) for title, mine in rest)
    names = [f"{title} in {count(clusters, 'cluster')}" for title, clusters in many]
    return [*kinds[: most - 1], (some(names, KINDS), [row for _, mine in rest for row in mine])]


def _fix(verb: Verb, title: str, rows: Rows) -> Task:
    """A task of findings that have a remedy: of one cluster in full, of many by their title."""
    distinct = list({cluster.key: cluster for cluster, _ in rows}.values())
    groups = group_findings([finding for _, finding in rows if finding])
    first, codes = groups[0].first if groups else None, [one.first.code for one in groups]
    if len(distinct) > 1 or len(groups) != 1 or first is None:
        text = f"{title[:1].upper()}{title[1:]}."
        who = f"{first.message} " if first and first.node_id is not None else ""
        where = next((cluster.name for cluster, finding in rows if finding), "")
        how = f"In {where}: {who}{first.remedy}" if first and first.remedy else ""
        return _task(verb, distinct, text, how, codes=codes)
    text = " ".join(filter(None, (groups[0].messages[0], groups[0].others)))
    how = f"{first.remedy} {fill_in(first.command)}".rstrip()
    return _task(verb, distinct, text, how, first.command, codes)


def _not_landed(clusters: Clusters, newest: datetime | None) -> Iterator[Task]:
    """One task of clusters of which nothing ever landed, or nothing in the night of `newest`."""
    missing = [cluster for cluster in clusters if not has_landed(unmuted(cluster.findings))]
    lines = [(c, late_since(c.newest_line, c.findings, newest)) for c in clusters]
    late = [(cluster, at) for cluster, at in lines if at is not None]
    of = f" of {some([cluster.name for cluster in missing], 2)}" if late else ""
    texts = [f"Nothing landed{of}, so nothing is known."] if missing else []
    if late:
        since = [f"{cluster.name} since {time_text(at)}" for cluster, at in late]
        texts.append(f"Nothing landed of {some(since, 2)}.")
    if texts:
        found = [*missing, *(cluster for cluster, _ in late)]
        whose, which = ("the collectors", found[0].name) if found[1:] else ("its collector", "it")
        how = f"Check {whose}, or collect {which} by hand. {fill_in(found[0].collect)}".rstrip()
        yield _task("Collect", found, " ".join(texts), how, found[0].collect or "")


def _silent(clusters: Clusters) -> Iterator[Task]:
    """Clusters that are UNKNOWN with nodes that do not answer: some may be down."""
    silent = [
        (cluster, finding)
        for cluster in clusters
        for finding in unmuted(cluster.findings)
        if finding.code == NOT_ANSWERING and cluster.verdict is Verdict.UNKNOWN
    ]
    if silent:
        yield _fix("Start", code_text(NOT_ANSWERING), silent)


def _waiting(clusters: Clusters, down: Collection[str]) -> Iterator[Task]:
    """The plans that wait for an approval of ours, and those for the owner of a managed cluster.
    Clusters that are READY as a whole come first; last what warns, or whose levels went down."""
    kept = [one for one in clusters if one.steps]
    plans = sorted(kept, key=lambda one: one.verdict is not Verdict.READY)
    plans.sort(key=lambda one: one.key in down or warns(one))
    ours = [cluster for cluster in plans if parts(cluster)[0]]
    theirs = [cluster for cluster in plans if parts(cluster)[1]]
    verbs: tuple[tuple[Verb, Clusters], ...] = (("Approve", ours), ("Hand over", theirs))
    for verb, mine in verbs:
        if not mine:
            continue
        first = mine[0]
        shown = [step_text(replace(one, managed_by=None)) for one in parts(first)[mine is theirs]]
        others = f", and levels of {count(len(mine) - 1, 'more cluster')}." if mine[1:] else "."
        text = (f"{first.name}: " if mine[1:] else "") + some(shown, FEATURES) + others
        before = _one_way({one.name: no_returns(one, parts(one)[mine is theirs]) for one in mine})
        before += _caution(mine, down) + (_after_ours(mine) if mine is theirs else "")
        how = f"Read {'each' if mine[1:] else 'the'} plan, then approve it."
        how = _by_managers([one.managed_by or "" for one in mine]) if mine is theirs else how
        command = first.owner_command if mine is theirs else first.commands[0]
        yield _task(verb, mine, text, before + how, command or "")


def _by_managers(managers: Iterable[str]) -> str:
    """Who finalizes that in our place; and what is known of the first where no command does it."""
    names = list(dict.fromkeys(managers))
    who = some(names, 2) if names[2:] else " and ".join(names)
    who += " finalize" if names[1:] else " finalizes"
    return f"{who} that: change it there. {ADVICE.get(names[0].casefold(), '')}".rstrip()


def _after_ours(theirs: Clusters) -> str:
    """That a plan of ours goes first: it fits the levels of now."""
    with_ours = [cluster for cluster in theirs if parts(cluster)[0]]
    where = "" if len(with_ours) == len(theirs) else f" of {some([c.name for c in with_ours], 2)}"
    return f"Apply our plan{where} first. " if with_ours else ""


def _one_way(points: Mapping[str, Sequence[str]]) -> str:
    """That what is finalized cannot be taken back: from where on, of one cluster, by its name."""
    kept = [name for name, levels in points.items() if levels]
    if len(kept) != 1:
        return f"Some levels of {some(kept, 2)} cannot be taken back. " if kept else ""
    where = f"In {kept[0]} there" if len(points) > 1 else "There"
    return f"{where} is no way back from {some(points[kept[0]], FEATURES)} on. "


def _caution(clusters: Clusters, down: Collection[str]) -> str:
    """What to know before these are raised: whose levels went down this night, and what warns."""
    lower = [one.name for one in clusters if one.key in down]
    warned = [one.name for one in clusters if warns(one) and one.key not in down]
    text = f"Ask first why levels of {some(lower, 2)} went down. " if lower else ""
    return text + (f"Read the findings of {some(warned, 2)} first. " if warned else "")


def _unlock(cause: Cause, clusters: Clusters) -> Iterator[Task]:
    """The one change that lets these clusters move; none where all that holds them is muted."""
    codes = GONE if cause.ghosts else (cause.code,)
    rows = [(c, f) for c in clusters for f in unmuted(c.findings) if f.code in codes]
    if not rows:
        return
    verbs: dict[str, Verb] = {BY_NODE: "Upgrade", NOT_ANSWERING: "Start"}
    verb = "Unregister" if cause.ghosts else verbs.get(cause.code, "Fix")
    task = _fix(verb, cause.title, rows)
    holds = ""
    if cause.ghosts and cause.features:
        they = "They hold" if len(rows) > 1 else "It holds"
        holds = f"{they} back {some(cause.features, FEATURES)}."
    elif len(task.clusters) > 1:
        what = "get a verdict" if any(c.verdict is Verdict.UNKNOWN for c, _ in rows) else "can move"
        holds = f"{count(len(task.clusters), 'cluster')} {what} then."
    yield replace(task, text=f"{task.text} {holds}".rstrip())


# The sentences above it.


def lead(report: Report) -> str:
    """Write the state of the fleet in a few sentences."""
    fleet, clusters = report.fleet, count(report.fleet.clusters, "cluster")
    if not fleet.clusters:
        return "No cluster was judged: nothing landed, and the inventory lists no cluster."
    if is_all_old(fleet):
        return _all_old(report)
    muted = f" {count_muted(fleet.muted, fleet.muted_until)}." if fleet.muted else ""
    if fleet.need_person == fleet.can_move == 0:
        what = "Nothing else is wrong" if fleet.muted else "Nothing is wrong"
        return f"{what}, and nothing is left to finalize, in {clusters}.{muted}"
    verb = "needs" if fleet.need_person == 1 else "need"
    text = f"{fleet.need_person:,} of {clusters} {verb} a person"
    if fleet.can_move:
        text += f"; {fleet.can_move:,} can finalize something now"
    text += "."
    if fleet.too_old:
        who = some([one.name for one in report.clusters if is_too_old(one)], 1)
        text += f" The evidence of {who} is too old to judge by: collect it again."
    return text + muted


def part_text(report: Report) -> str:
    """Write whose clusters a report is about, and how many there are; empty for all."""
    if report.part is None:
        return ""
    of = count(report.part.of, "cluster")
    return f"{report.part.text}: {report.fleet.clusters:,} of {of}"


def lead_note(report: Report) -> str:
    """What `need a person` in the lead counts; empty where the lead does not say it."""
    fleet = report.fleet
    if not fleet.clusters or is_all_old(fleet) or fleet.need_person == fleet.can_move == 0:
        return ""
    about = "BLOCKED or UNKNOWN, with a finding above info, or a plan"
    newest = report.run.newest_line
    if any(late_since(c.newest_line, c.findings, newest) for c in report.clusters):
        about = about.replace(", or a plan", " or a plan, or without a line of this night")
    muted = "; muted findings do not count" if fleet.muted else ""
    return f"Need a person: clusters that are {about}{muted}."


def is_all_old(fleet: FleetCounts) -> bool:
    """Whether all that landed is too old to judge by."""
    return 0 < fleet.too_old == fleet.clusters - fleet.not_landed


def _all_old(report: Report) -> str:
    """Which share of the clusters is too old, how old the newest line is, and what to do."""
    fleet, run = report.fleet, report.run
    clusters = count(fleet.clusters, "cluster")
    who, rest = f"all {clusters}", ""
    if fleet.not_landed:
        who = f"{fleet.too_old:,} of {clusters}"
        others = "one" if fleet.not_landed == 1 else f"{fleet.not_landed:,}"
        rest = f", and nothing landed from the other {others}"
    text = f"Every verdict is UNKNOWN because the evidence of {who} is too old to judge by{rest}."
    if run.newest_line is not None:
        old = age(max(run.as_of - run.newest_line, timedelta()))
        limit = run.max_age_hours
        than = "" if limit is None else f"; what is older than {limit:g} hours decides nothing"
        text += f" The newest line is {old} old ({time_text(run.newest_line)}){than}."
    newest = ", or judge as of the newest line with --as-of newest" * is_newest_old(run)
    return f"{text} Collect the fleet again{newest}."


def is_newest_old(run: ReportedRun) -> bool:
    """Whether judging as of the newest line would judge anything more."""
    if run.newest_line is None or run.max_age_hours is None:
        return True
    return (run.as_of - run.newest_line).total_seconds() > run.max_age_hours * 3600
