"""List at most seven things to do today, the most urgent first, and the state of the fleet.

Order: critical findings (a quorum without a leader first), quorums that may have none, what went
back, what did not land or does not answer, what else hides a verdict, plans that wait, ghosts and
what a command does, what unlocks most clusters, the rest. Where seven lines are too few, less
urgent things share one. Every cluster that needs a person stands in one or more, and no other does.
Where something went back, or nothing landed, a plan waits for that.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from featurelib.feature import Severity, Verdict
from featurelib.findings import tagged
from featurelib.planning.owners import ADVICE
from featurelib.snapshot.history import LATE
from featurelib.view.digest import (
    count_muted,
    fill_in,
    group_findings,
    has_landed,
    is_ahead,
    late_since,
    no_returns,
    parts,
    step_text,
    titles_of,
    turn_of,
    unmuted,
    warns,
)
from featurelib.view.model import (
    Cause,
    Change,
    ChangedLevel,
    FleetCounts,
    QuarantinedLine,
    Report,
    ReportedCluster,
    ReportedFinding,
    ReportedRun,
    Task,
    Verb,
)
from featurelib.view.trend import setbacks
from featurelib.words import age, count, nodes, some, time_text

AUDIT = "./spark-submit.sh audit"
MOST = 7
HELPS = 4  # remedies in one line
KINDS = 3  # of findings, named in one line
FEATURES = 2  # of a plan, named in one line
NEEDS = (
    "A cluster needs action if it is BLOCKED or UNKNOWN, if a finding is worse than info, if it "
    "has a plan, if a level or its software was downgraded, or if this run has no data of it."
)

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
    found = [(cluster, one) for cluster in clusters for one in unmuted(cluster.findings)]
    strangers = [row for row in found if row[1].code in tagged("unlisted")]
    add = [_fix("Add", titles_of(strangers[0][1].code)[0], strangers)] if strangers else []
    if is_all_old(fleet):  # nothing else is known
        return (_collect_again(clusters, run), *_not_landed(clusters, None, run.as_of), *add)
    grave = [row for row in found if row[1].severity is Severity.CRITICAL]
    old = {c.key for c in clusters} - {one.key for one in (change.verdicts if change else ())}
    # Of what is critical what keeps from restarts goes first, then what is so since this night.
    grave.sort(key=lambda row: (turn_of(row[1].code), row[0].key in old))
    dim = [(c, f) for c, f in found if c.verdict is Verdict.UNKNOWN]
    few = [(c, f) for c, f in dim if f.code in tagged("no_majority")]
    # A quorum is told of before the nodes that it lacks.
    told = {one.key for one, finding in found if finding.code in tagged("no_leader", "no_majority")}
    worse = {(c.key, f.role, f.node_id) for c, f in grave}
    silent = [(c, f) for c, f in dim if f.code in tagged("silent")]
    silent = [(c, f) for c, f in silent if c.key not in told]
    silent = [(c, f) for c, f in silent if (c.key, f.role, f.node_id) not in worse]
    unsure = [_fix("Check", *kind) for kind in _kinds(few, 1)]
    start = [_fix("Check", *kind) for kind in _kinds(silent, 1)]
    first = [*_ask(setbacks(clusters, change), change.lowered if change else ())]
    first += _not_landed(clusters, run.newest_line, run.as_of)
    waits = {key for task in first for key in task.clusters}
    plans = [*_waiting([one for one in clusters if one.key not in waits])]
    done_by = {one.code for _, one in found if one.command} - tagged("unsupported")
    causes = sorted(causes, key=lambda c: (not c.ghosts and c.code not in done_by, -c.alone))
    bad = {one.key for one, _ in grave}  # the first tasks say what is critical
    left = _without([*unsure, *first, *start, *plans], clusters)
    dark = [c for c in left if c.verdict is Verdict.UNKNOWN and c.key not in bad]
    below = any(c.verdict is not Verdict.UNKNOWN and c.key not in bad for c in left)
    # Of one that is UNKNOWN and has a plan something could be judged.
    rest = [c for c in clusters if c.verdict is not Verdict.UNKNOWN or c.steps]
    # Who is down since this night comes first, then what most clusters have.
    fresh = {one.key for one in (change.silent if change else ())}
    roots = {one.key: root.code for one in left if (root := _root(one))}
    many = Counter(roots.values())
    for some_of in (dark, rest):
        some_of.sort(key=lambda one: (one.key not in fresh, -many[roots.get(one.key, "")]))
    # What is less urgent keeps its lines, or one; what is left over goes to the most urgent.
    room = MOST - len(unsure) - len(first) - len(plans) - below
    if len(start) + bool(grave) + bool(dark) > room:  # who does not answer shares the line
        of = {key for task in start for key in task.clusters} - bad
        dark = [*(one for one in clusters if one.key in of), *dark]
        start = []
    if len(start) + len(_kinds(grave, 2)) + bool(dark) > room and plans[1:]:
        plans = [_in_one(*plans)]
        room += 1
    room -= len(start)
    urgent = [_fix("Fix", *kind) for kind in _kinds(grave, room - bool(dark))]
    hidden = _held_back(dark, causes, "Fix", room - len(urgent))
    tasks = [*urgent, *unsure, *first, *start, *hidden, *plans]
    return (*tasks, *_held_back(rest, causes, "Look at", MOST - len(tasks), tasks, add))


def _without(tasks: Iterable[Task], clusters: Clusters) -> Clusters:
    """Those of the clusters that need a person and stand in none of the tasks."""
    covered = {key for task in tasks for key in task.clusters if task.verb != "Add"}
    return [one for one in clusters if one.needs_person and one.key not in covered]


def _held_back(
    clusters: Clusters,
    causes: Iterable[Cause],
    verb: Verb,
    most: int,
    above: Sequence[Task] = (),
    more: Sequence[Task] = (),
) -> list[Task]:
    """A task for each cause that alone holds some of these clusters back, and `more`; then `verb`
    those that stand in no task so far, `above` included. The last of `most` takes in the rest."""

    def left(kept: Sequence[Task]) -> Rows:
        rows = [(one, _root(one)) for one in _without([*above, *kept], clusters)]
        added = tagged("unlisted") if any(task.verb == "Add" for task in kept) else ()
        return [row for row in rows if row[1] is None or row[1].code not in added]

    by_key = {one.key: one for one in clusters if one.needs_person}
    freed = ((one, [by_key[key] for key in one.unlocked if key in by_key]) for one in causes)
    kept = [*(task for one, free in freed for task in _unlock(one, free)), *more][:most]
    if len(kept) == most and left(kept):
        kept = kept[:-1]
    return kept + [_fix(verb, *kind) for kind in _kinds(left(kept), most - len(kept))]


def _root(cluster: ReportedCluster) -> ReportedFinding | None:
    """The worst finding of a cluster or, of a node that is gone, the one that says so."""
    found = unmuted(cluster.findings)
    gone = {(one.role, one.node_id): one for one in found if one.code in tagged("stale")}
    worst = next(iter(found), None)
    return worst and gone.get((worst.role, worst.node_id), worst)


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


def _kinds(rows: Rows, most: int) -> list[tuple[str, Rows]]:
    """Findings of one code together, behind its title; the last of `most` kinds takes in all
    further ones, and counts the clusters of each."""
    held = defaultdict[str, list[tuple[ReportedCluster, ReportedFinding | None]]](list)
    for row in rows:
        held[titles_of(row[1].code)[0] if row[1] else "no finding says why"].append(row)
    kinds = list(held.items())
    rest = kinds[most - 1 :]
    if len(rest) < 2:
        return [*kinds]
    where = [{one.key for one, _ in mine} for _, mine in rest]
    in_one = len(set().union(*where)) == 1
    numbers = ["" if in_one else f" in {count(len(keys), 'cluster')}" for keys in where]
    names = [title + number for (title, _), number in zip(rest, numbers, strict=True)]
    return [*kinds[: most - 1], (some(names, KINDS), [row for _, mine in rest for row in mine])]


def _fix(verb: Verb, title: str, rows: Rows) -> Task:
    """A task of findings that have a remedy: of one cluster in full, of many by their title."""
    distinct = list({cluster.key: cluster for cluster, _ in rows}.values())
    groups = group_findings([finding for _, finding in rows if finding])
    first, codes = groups[0].first if groups else None, [one.first.code for one in groups]
    if len(distinct) > 1 or len(groups) != 1 or first is None:
        return _task(verb, distinct, f"{title[:1].upper()}{title[1:]}.", _helps(rows), codes=codes)
    text = " ".join(filter(None, (groups[0].messages[0], groups[0].others)))
    # What unregisters stands in the cluster's part alone, beside when that is right.
    commands = () if first.code in tagged("stale") else groups[0].commands
    how = f"{first.remedy} {fill_in(first.command) * bool(commands)}".rstrip()
    return _task(verb, distinct, text, how, "\n".join(commands), codes)


def _helps(rows: Rows) -> str:
    """What helps in these clusters, in their order: how each remedy begins, where several do."""
    remedies = defaultdict[str, dict[str, tuple[ReportedFinding, str]]](dict)
    for cluster, one in rows:
        if one and one.remedy:
            remedies[_todo(one)].setdefault(cluster.name, (one, _nodes(cluster, one)))
    kinds, texts = list(remedies.values()), list[str]()
    for (name, (one, who)), *others in (list(helped.items()) for helped in kinds[:HELPS]):
        begin, *more = re.split(r"(?<=\.) (?=[A-Z])", one.remedy)
        text = f"In {name}{who}: {begin}" + " …" * bool(more)
        if len(kinds) == 1:
            alone = one.node_id is None or who == f" ({nodes(one.role, [one.node_id])})"
            where = name if alone else f"{name}{who}"
            text = f"In {where}: {f'{one.message} ' if who else ''}{one.remedy}"
        names = [of + also for of, (_, also) in others]
        texts.append(text + (f" Likewise in {some(names, KINDS)}." if names else ""))
    if left := set[str]().union(*kinds[HELPS:]).difference(*kinds[:HELPS]):
        texts.append(f"In {count(len(left), 'more cluster')}: something else.")
    return " ".join(texts)


def _todo(one: ReportedFinding) -> str:
    return re.sub(rf"\b{one.node_id}\b", "", one.remedy)


def _nodes(cluster: ReportedCluster, one: ReportedFinding) -> str:
    """` (brokers 5-6)`: for whom the cluster has this finding with this remedy."""
    same = one.code, one.role, _todo(one)
    alike = (f for f in unmuted(cluster.findings) if (f.code, f.role, _todo(f)) == same)
    ids = {found.node_id for found in alike if found.node_id is not None}
    return f" ({nodes(one.role, ids)})" if one.node_id is not None else ""


def _ask(went: Mapping[str, Clusters], lowered: Iterable[ChangedLevel]) -> Iterator[Task]:
    """One task of all clusters in which something went back; `lowered` may be of earlier nights."""
    found = list({one.key: one for kept in went.values() for one in kept}.values())
    if found:
        named = (f"{what} in {some([c.name for c in kept], KINDS)}" for what, kept in went.items())
        text = "; ".join(named)
        lower = [
            f"{one.name}: {one.feature} {one.before.text} → {one.after.text} ({one.seen:%Y-%m-%d})"
            for one in lowered
        ]
        how = f"{some(lower, KINDS)}. " * bool(lower)
        how += "Ask who did it, why, and what was lost, before anything there is raised."
        codes = {one.code for cluster in found for one in cluster.findings} & tagged("epoch_fell")
        yield _task("Ask", found, f"{text[:1].upper()}{text[1:]}.", how, codes=codes)


def _not_landed(clusters: Clusters, newest: datetime | None, as_of: datetime) -> Iterator[Task]:
    """One task of clusters of which nothing ever landed, or nothing in the night of `newest`; who
    fell silent last comes first."""
    missing = [cluster for cluster in clusters if not has_landed(unmuted(cluster.findings))]
    late = list[tuple[int, bool, datetime, ReportedCluster]]()
    for one in clusters:
        if at := late_since(one.newest_line, one.findings, newest):
            nights = max((as_of - at - LATE) // timedelta(days=1) + 1, 1)
            late.append((nights, is_ahead(one.findings), at, one))
    late.sort(key=lambda row: row[:2])
    since = [f"{c.name} since {time_text(at)} ({count(n, 'night')})" for n, _, at, c in late]
    texts = [f"Nothing that counts landed from {some(since, KINDS)}."] if late else []
    if missing:
        names = some([cluster.name for cluster in missing], KINDS)
        texts.append(f"No data was ever collected from {names}.")
    ahead = [cluster.name for _, early, _, cluster in late if early]
    if ahead:
        texts.append(f"Lines from {some(ahead, 2)} are dated ahead: set its collector's clock.")
    if texts:
        found = [*(row[-1] for row in late), *missing]
        whole = _whole_owners(clusters, found)
        texts += [f"Among them are {whole}: look first at what these share."] if whole else []
        lost = [(c, f) for c in found for f in unmuted(c.findings) if f.code in tagged("unreached")]
        first, why = lost[0] if lost else (found[0], None)
        whose, which = ("the collectors", first.name) if found[1:] else ("its collector", "it")
        again = len(ahead) + len(lost) < len(late)
        whose += " (one that runs may write old lines again)" * again
        how = f"Check {whose}, or collect {which} by hand."
        if why:
            how = f"{f'In {first.name}: ' if found[1:] else ''}{why.message} {why.remedy}"
        how = f"{how} {fill_in(first.collect)}".rstrip()
        yield _task("Collect", found, " ".join(texts), how, first.collect or "")


def _whole_owners(clusters: Clusters, silent: Clusters) -> str:
    """`all 4 clusters of media`: the owners of several clusters, and all of them silent."""
    all_of = Counter(one.owner for one in clusters if one.owner)
    none_of = Counter(one.owner for one in silent if one.owner)
    whole = [name for name, number in none_of.items() if number == all_of[name] > 1]
    return some([f"all {none_of[name]:,} clusters of {name}" for name in whole], 2)


def _waiting(clusters: Clusters) -> Iterator[Task]:
    """The plans that wait for an approval of ours, and those for the owner of a managed cluster.
    Clusters that are READY as a whole come first; last what warns."""
    kept = [one for one in clusters if one.steps]
    late = tagged("forgotten")  # a plan's approval is its remedy
    plans = sorted(kept, key=lambda one: (warns(one, late), one.verdict is not Verdict.READY))
    ours = [cluster for cluster in plans if parts(cluster)[0]]
    theirs = [cluster for cluster in plans if parts(cluster)[1]]
    verbs: tuple[tuple[Verb, Clusters], ...] = (("Approve", ours), ("Hand over", theirs))
    for verb, mine in verbs:
        if not mine:
            continue
        first = mine[0]
        shown = [step_text(replace(one, managed_by=None)) for one in parts(first)[mine is theirs]]
        others = f", and levels of {count(len(mine) - 1, 'more cluster')}." if mine[1:] else "."
        warned = [one.name for one in mine if warns(one, late)]
        text = f"{first.name}: " * bool(mine[1:]) + some(shown, FEATURES) + others
        before = f"Read the findings of {some(warned, 2)} first. " if warned else ""
        before += _one_way({one.name: no_returns(one, parts(one)[mine is theirs]) for one in mine})
        before += _after_ours(mine) if mine is theirs else ""
        how = f"Read {'each' if mine[1:] else 'the'} plan, then approve it."
        how = _by_managers([one.managed_by or "" for one in mine]) if mine is theirs else how
        for found in first.findings if mine is theirs else ():
            if found.code in tagged("not_carried_out") and found.command == first.owner_command:
                how += f" {first.name} was asked for it already, and does not do it. {found.remedy}"
        command = first.owner_command if mine is theirs else first.commands[0]
        yield _task(verb, mine, text, before + how, command or "")


def _in_one(ours: Task, theirs: Task) -> Task:
    """Both plans that wait for us and those that others carry out, where lines are few."""
    return replace(
        ours,
        how=f"{ours.how} {theirs.verb}: {theirs.text} {theirs.how}",
        clusters=tuple(dict.fromkeys((*ours.clusters, *theirs.clusters))),
        owners=tuple(dict.fromkeys((*ours.owners, *theirs.owners))),
    )


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


def _unlock(cause: Cause, clusters: Clusters) -> Iterator[Task]:
    """The one change that lets these clusters move; none where all that holds them is muted."""
    codes = tagged("stale") if cause.ghosts else (cause.code,)
    rows = [(c, f) for c in clusters for f in unmuted(c.findings) if f.code in codes]
    if not rows:
        return
    verbs: dict[str, Verb] = dict.fromkeys(tagged("silent"), "Check")
    verbs |= dict.fromkeys(tagged("unsupported"), "Upgrade")
    verb = "Check" if cause.ghosts else verbs.get(cause.code, "Fix")  # who is off may come back
    task = _fix(verb, cause.title.replace("nodes that ", "nodes ", 1), rows)
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
    if fleet.need_person == fleet.can_move == 0:
        what = "Nothing else is wrong" if fleet.muted else "Nothing is wrong"
        muted = f" {count_muted(fleet.muted, fleet.muted_until)}." if fleet.muted else ""
        return f"{what}, and nothing is left to finalize, in {clusters}.{muted}"
    verb = "needs" if fleet.need_person == 1 else "need"
    text = f"{fleet.need_person:,} of {clusters} {verb} action."
    return text + f" {fleet.can_move:,} can be upgraded now." * bool(fleet.can_move)


def part_text(report: Report) -> str:
    """Write whose clusters a report is about, and how many there are; empty for all."""
    if report.part is None:
        return ""
    of = count(report.part.of, "cluster")
    return f"{report.part.text}: {report.fleet.clusters:,} of {of}"


def lead_note(report: Report) -> str:
    """What `need action` in the lead counts; empty where the lead does not say it."""
    fleet = report.fleet
    if not fleet.clusters or is_all_old(fleet) or fleet.need_person == fleet.can_move == 0:
        return ""
    return NEEDS + " Muted findings do not count." * bool(fleet.muted)


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


def left_out_line(line: QuarantinedLine) -> str:
    """Return `payments: FILE:7: not valid JSON`, without a cluster where none is known."""
    return ": ".join(filter(None, (line.cluster, line.line, line.reason)))


def left_out_text(run: ReportedRun) -> str:
    """`9 landing lines of all nights left out, none of this night`, where that is known."""
    lines = run.quarantine.lines if run.quarantine else 0
    now = f"{run.ingest.quarantined:,}" if run.ingest and run.ingest.quarantined else "none"
    mine = f", {now} of this night" if run.ingest else ""
    return f"{count(lines, 'landing line')} of all nights left out{mine}"
