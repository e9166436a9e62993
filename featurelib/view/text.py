"""Render the report as terminal text: the fleet, then the clusters, then the actions for each.

No verdict is shown by colour alone. The module counts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from featurelib.feature import Severity, Verdict
from featurelib.view import digest, model
from featurelib.view.layout import STYLES, WIDEST, Page, paint, plain
from featurelib.view.today import MOST
from featurelib.view.trend import gather_levels, gather_moves, other_changes
from featurelib.view.words import (
    lead,
    lead_note,
    left_out_line,
    left_out_text,
    next_step,
    part_text,
)
from featurelib.words import (
    brokers_and_controllers,
    code_text,
    count,
    metadata_first,
    place,
    some,
    time_text,
)

LIMIT = 20
ALL = "--limit 0 shows all"
CAUSES = 5
NAMES = 3  # Maximum number of names in one line
LINES = 4  # Maximum number of lines of features, steps or messages; `--limit 0` shows all
NARROW = 72  # narrower pages show fewer columns
LABEL = 12  # columns for the labels of one cluster's details
Entry = tuple[str, Sequence[str]]  # a label, and the lines beside it
NAME, PHASE = 30, 23  # the widest columns for names and phases


def render_text(report: model.Report, *, width: int = WIDEST, limit: int = LIMIT) -> str:
    """Return the report as text. `limit`: rows per part, 0 = all."""
    return f"{report_page(report, width, limit)}\n"


def report_page(report: model.Report, width: int | None = None, limit: int = LIMIT) -> Page:
    """Return the report as a page. `limit`: rows per part, 0 = all."""
    page = Page(width, parts=True)
    _head(report, page)
    _today(report, limit, page)
    _counts(report, page)
    _change(report, limit, page)
    for title, rows, show in _parts(report, limit):
        if rows:
            page.line()
            page.text(paint(title, "bold underline"))
            show(rows, limit, page)
            if limit and len(rows) > limit and show is not _causes:
                page.text(_dim(f"… and {len(rows) - limit:,} more: {ALL}"))
    page.line()
    sentence, command = next_step(report)
    page.text(f"{paint('Next', 'bold')}  {sentence}", below=0)
    page.lines([paint(line, "bold") for line in command.splitlines()])  # commands stay unchanged
    return page


def _parts(
    report: model.Report, limit: int
) -> tuple[tuple[str, Sequence[Any], Callable[[Any, int, Page], None]], ...]:
    """Return (heading, rows, function that shows them) for each part of the report."""
    movable = [cluster for cluster in report.clusters if cluster.steps]
    muted = {c.key for c in report.clusters if not limit and any(f.muted for f in c.findings)}
    acts = [cluster for cluster in report.clusters if cluster.needs_person or cluster.key in muted]
    return (
        ("What holds the fleet back most", report.causes, _causes),
        ("Can be finalized now", movable, _moves),
        ("Clusters, worst first", report.clusters, _clusters),
        ("What to do, cluster by cluster", acts, _details),
        ("Mutes", report.mutes, _mutes),
    )


def _dim(text: str) -> str:
    return paint(text, "dim")


def _head(report: model.Report, page: Page) -> None:
    run = report.run
    release = f"featurelib {run.release}".strip()
    page.text(_dim(f"{release} · run {run.number} · as of {time_text(run.as_of)}"))
    page.text(_dim(f"judged by the policy {run.dialect}, with the catalogue of {run.catalogue}"))
    if run.tables is not None:
        page.text(_dim(f"tables in {run.tables}"))
    if run.ingest is not None:
        page.text(_dim(_ingest_text(run.ingest)))
    page.line()
    if report.part is not None:
        page.text(paint(part_text(report), "bold"))
    page.text(paint(lead(report), "bold"))
    if note := lead_note(report):
        page.text(_dim(note))


def _today(report: model.Report, limit: int, page: Page) -> None:
    """Add a row per task to the page: verb, clusters, problem and remedy."""
    if not report.today:
        return
    named = {cluster.key: cluster.name for cluster in report.clusters}
    rows = [["", "where", "what"]]
    tasks = report.today[: MOST if limit else None]
    for task in tasks:
        names = _cut([named[key] for key in task.clusters], NAMES if limit else 0)
        names_line = _lines(*names, _dim(some(task.owners, NAMES)))
        codes = "" if limit else _dim(", ".join(task.codes))
        task_text = _lines(task.text, task.how, codes)
        rows.append([paint(task.verb, "bold"), names_line, task_text])
    page.line()
    page.text(paint("Today", "bold underline"))
    page.table(rows, most=(0, NAME))
    if hidden := report.today[len(tasks) :]:
        verbs = [f"{task.verb}: {code_text(''.join(task.codes))}" for task in hidden]
        page.text(_dim(f"… and {count(len(hidden), 'more group')} ({', '.join(verbs)}): {ALL}"))
    for task in tasks:  # a command stays in one line for copying
        if task.command:
            page.text(f"{task.verb} {named[task.clusters[0]]}:")
            page.lines(paint(line, "bold") for line in task.command.splitlines())


def _change(report: model.Report, limit: int, page: Page) -> None:
    """Add a row per change of verdict since the previous run to the page."""
    change = report.change
    if change is None:
        return
    page.line()
    page.text(paint("Since the run before", "bold underline"))
    page.text(_dim(f"run {change.run}, as of {time_text(change.as_of)}"))
    page.line(_dim(change.command))
    most = NAMES if limit else max(len(change.verdicts), len(change.levels))
    rows = [(move, some([c.name for c in moved], most)) for move, moved in gather_moves(change)]
    page.facts(rows)
    for move, moved in gather_levels(change):
        page.item(f"{move}: {some([c.name for c in moved], most)}")
    for line in other_changes(report):
        page.item(line)
    if not (rows or gather_levels(change)):
        page.text("every cluster has the verdict and the levels it had")


def _counts(report: model.Report, page: Page) -> None:
    fleet = report.fleet
    if fleet.clusters:
        page.line()
        heads = ["", *(paint(verdict.value, STYLES[verdict]) for verdict in Verdict), "all"]
        counts = [("clusters", fleet.clusters_by_verdict, fleet.clusters)]
        if critical := sum(fleet.critical_by_verdict.values()):
            counts.append(("of them critical", fleet.critical_by_verdict, critical))
        counts += [("their features", fleet.features_by_verdict, fleet.features)]
        rows = [[name, *(f"{row[v]:,}" for v in Verdict), f"{n:,}"] for name, row, n in counts]
        page.table([heads, *rows])
        page.line()
        _facts(report, page)


def _ingest_text(ingest: model.Ingest) -> str:
    if not ingest.lines:
        return "no new landing lines"
    lost = " (bronze.landing_line says why)" if ingest.quarantined else ""
    return (
        f"{count(ingest.lines, 'landing line')}: {ingest.accepted:,} accepted, "
        f"{ingest.repeated:,} repeated, {ingest.quarantined:,} quarantined{lost}"
    )


def _facts(report: model.Report, page: Page) -> None:
    rows, quarantine = digest.fleet_facts(report.fleet), report.run.quarantine
    if quarantine is not None and quarantine.lines:
        rows.append(("quarantined", left_out_text(report.run)))
        rows += [("", _dim(left_out_line(row))) for row in quarantine.newest]
        if hidden := quarantine.lines - len(quarantine.newest):
            rows.append(("", _dim(f"… and {hidden:,} more: bronze.landing_line has them all")))
    page.facts(rows)


def _causes(causes: Sequence[model.Cause], limit: int, page: Page) -> None:
    legend = "what unlocks most comes first; only this = clusters that nothing else holds back"
    page.text(_dim(legend))
    rows = [["clusters", "only this", "nodes", "cause"]]
    for cause in causes[: CAUSES if limit else None]:
        features = [name for name in cause.features if name != cause.feature]
        text = some(features, NAMES if limit else len(features))
        also = f"{'they also hold back' if cause.feature else 'holds back'} {text}" if text else ""
        muted = f", muted in {cause.muted:,}" if cause.muted else ""
        held = f"{cause.severity.value}, in {some(cause.held, NAMES if limit else len(cause.held))}"
        text_lines = _lines(cause.title, _dim(also), _dim(held + muted))
        nodes = f"{cause.nodes:,}" if cause.nodes else ""
        rows.append([f"{cause.clusters:,}", f"{cause.alone:,}", nodes, text_lines])
    if limit and (hidden := len(causes) - CAUSES) > 0:
        rows.append(["", "", "", _dim(f"… and {count(hidden, 'more cause')}")])
    page.table(rows)


def _lines(*texts: str) -> str:
    """Return the non-empty texts as lines of one table cell."""
    return "\n".join(filter(None, texts))


def _moves(clusters: Sequence[model.ReportedCluster], limit: int, page: Page) -> None:
    """Add the planned upgrades of each cluster to the page, READY clusters first."""
    rows = [["cluster", "steps", "from the finalized level to"]]
    ordered = sorted(clusters, key=lambda cluster: cluster.verdict is not Verdict.READY)
    for cluster in ordered[: limit or None]:
        steps = _cut([digest.step_text(step) for step in cluster.steps], LINES if limit else 0)
        is_ready = cluster.verdict is Verdict.READY
        suffix = "" if is_ready else f"the rest is {cluster.verdict.value}, see below"
        requests = len({step.request for step in cluster.steps})
        cell = _lines(*steps, _dim(suffix), _dim(_contacts(cluster)))
        rows.append([paint(cluster.name, "bold"), f"{requests:,}", cell])
    page.table(rows, most=(NAME,))


def _clusters(clusters: Sequence[model.ReportedCluster], limit: int, page: Page) -> None:
    """Add a row per cluster to the page."""
    is_wide = page.width >= NARROW
    rows = [["verdict", "cluster", *(["nodes", "phase"] if is_wide else []), "in one line"]]
    for cluster in clusters[: limit or None]:
        phase = _lines(cluster.phase.value, *map(_dim, digest.release_texts(cluster)))
        sizes = [f"{cluster.nodes:,}", phase] if is_wide else []
        contacts = _contacts(cluster) if cluster.needs_person else ""
        cell = _lines(cluster.summary, _dim(contacts))
        rows.append([_verdict(cluster), _lines(*_names(cluster)), *sizes, cell])
    page.table(rows, most=(0, NAME, 0, PHASE))


def _verdict(cluster: model.ReportedCluster) -> str:
    """Return the verdict of a cluster in colour. It is not green if the cluster has a warning."""
    is_grave = cluster.severity is Severity.CRITICAL
    is_calm = cluster.verdict in digest.OPEN or not digest.warns(cluster)
    kind = cluster.verdict if is_calm else Severity.WARNING
    return paint(cluster.verdict.value, STYLES[Severity.CRITICAL if is_grave else kind])


def _names(cluster: model.ReportedCluster) -> list[str]:
    """Return a cluster's name, and its id if both differ."""
    ids = [_dim(cluster.id)] if cluster.id != cluster.name else []
    return [paint(cluster.name, "bold"), *ids]


def _contacts(cluster: model.ReportedCluster) -> str:
    """Return the contacts of a cluster: `payments · #payments-oncall · managed by strimzi`."""
    managed = f"managed by {cluster.managed_by}" if cluster.managed_by else None
    return " · ".join(filter(None, (cluster.owner, cluster.contact, managed)))


def _details(clusters: Sequence[model.ReportedCluster], limit: int, page: Page) -> None:
    for cluster in clusters[: limit or None]:
        at = "" if limit else time_text(cluster.newest_line)
        newest = at and f"newest line {at}"
        facts = (cluster.phase.value, count(cluster.nodes, "node"), cluster.mode, newest)
        phase = _dim(", ".join(filter(None, (*facts, *digest.release_texts(cluster)))))
        page.line()
        page.text("  ".join([_verdict(cluster), *_names(cluster), phase]))
        for label, lines in _entries(cluster, limit):
            title = label
            for line in filter(None, lines):
                blank = " " * (LABEL - 2 - len(plain(title)))
                if label == "run":
                    page.line(f"{blank}{title}  {line}")
                else:
                    page.text(line, 0, LABEL, f"{blank}{title}  ")
                title = ""


def _entries(cluster: model.ReportedCluster, limit: int) -> Iterator[Entry]:
    """Yield (label, lines) for the details of one cluster."""
    most = LINES if limit else 0
    contacts = (digest.owner_text(cluster), cluster.contact, *cluster.labels)
    yield "owner", [" · ".join(filter(None, contacts))]
    if cluster.collect and cluster.newest_line:
        yield "data", [f"no usable data since {time_text(cluster.newest_line)}"]
    yield "managed", [_managed_text(cluster)]
    yield "levels", _cut(_level_lines(cluster, every=not limit), most)
    yield from _finding_entries(cluster.findings, limit, most)
    yield from _plan_entries(cluster, most)
    if cluster.joining and (cluster.steps or not limit):
        yield "", [paint(cluster.joining.command, "bold")]
    remedies = {finding.command for finding in cluster.findings}
    collect = [] if cluster.collect in remedies else [cluster.collect]
    commands = (*collect, *cluster.commands, cluster.owner_command)
    yield "run", _cut([*filter(None, commands)], most)
    yield "", [*map(digest.fill_in, collect)]
    if not limit:
        yield "nodes", _profile_lines(cluster)
        yield "history", [f"{at}: {text}" for at, text in digest.history_lines(cluster)]


def _finding_entries(findings: digest.Findings, limit: int, most: int) -> Iterator[Entry]:
    """Yield (label, lines) for unmuted findings in groups, then for muted findings."""
    groups = digest.group_findings(digest.unmuted(findings))
    for group in groups[: limit or None]:
        yield from _group_entries(group, most)
    if limit and (hidden := sum(len(group.messages) for group in groups[limit:])):
        yield "", [_dim(f"… and {count(hidden, 'more finding')}: {ALL}")]
    yield "muted", _cut([_dim(line) for line in digest.muted_lines(findings)], most)
    if not limit:
        for group in digest.group_findings([finding for finding in findings if finding.muted]):
            yield from _group_entries(group, most, " (muted)")


def _managed_text(cluster: model.ReportedCluster) -> str:
    """Return a text about the manager of a cluster and the features it finalizes; "" without
    manager."""
    if not cluster.managed_by:
        return ""
    our_part, owner_part = ({step.feature for step in steps} for steps in digest.parts(cluster))
    how = "does not move what is planned: that is ours" if our_part else "may finalize levels there"
    if owner_part:
        how = f"finalizes {', '.join(sorted(owner_part, key=metadata_first))} there"
        how += "; the rest is ours" if len(owner_part) < len(cluster.steps) else ""
    return f"by {cluster.managed_by}, which {how}"


def _plan_entries(cluster: model.ReportedCluster, most: int) -> Iterator[Entry]:
    """Yield (label, lines) for the steps of a plan and their effects, or for the possible
    downgrades without plan."""
    if not cluster.steps:
        yield "rollback", [] if most else digest.ahead_lines(cluster)
        return
    firsts = {step.request: step for step in reversed(cluster.steps)}
    steps = [
        (f"{step.request}. " if step is firsts[step.request] else "   ") + digest.step_text(step)
        for step in cluster.steps
    ]
    yield "plan", [*_cut(steps, most), paint(cluster.plan_file or "", "bold")]
    kinds = ", ".join(dict.fromkeys(step.upgrade_type for step in cluster.steps))
    yield "", ["" if most else f"upgrade type: {kinds}"]
    yield "", _cut(digest.ahead_lines(cluster), most)


def _group_entries(group: digest.FindingGroup, most: int, note: str = "") -> Iterator[Entry]:
    """Yield (label, lines) for a group of findings: messages, remedy, source."""
    first = group.first
    messages = [f"{message}{note}" for message in group.messages]
    label = paint(group.severity.value, "dim" if note else STYLES[group.severity])
    yield label, [*_cut(messages, most), group.others]
    yield "do", [first.action]
    commands = _cut([paint(line, "bold") for line in group.commands], most)
    yield "run", commands
    yield (
        "",
        [digest.fill_in(first.command), _dim(_evidence(first)), "" if most else _dim(first.source)],
    )


def _profile_lines(cluster: model.ReportedCluster) -> list[str]:
    """Return a line per group of nodes with equal ranges: `brokers 1-3: metadata.version 7-27`."""
    lines = []
    for group in cluster.profiles or ():
        ranges = [f"{of.feature} {of.min_version}-{of.max_version}" for of in group.ranges or ()]
        text = "not known" if group.ranges is None else ", ".join(ranges) or "no feature"
        lines.append(f"{brokers_and_controllers(group.brokers, group.controllers, None)}: {text}")
    return lines


def _level_lines(cluster: model.ReportedCluster, *, every: bool) -> list[str]:
    """Return a line per feature with a blocked or unknown level. `every`: per feature."""
    if every:
        return [", ".join(filter(None, _facts_of(ready))) for ready in cluster.readiness]
    if {ready.verdict for ready in cluster.readiness} == {Verdict.UNKNOWN}:
        names = some([ready.feature for ready in cluster.readiness], LINES)
        return [f"UNKNOWN for every feature: {names}"]
    return [
        _readiness_text(ready)
        for ready in cluster.readiness
        if ready.verdict is not Verdict.UP_TO_DATE and ready.target != ready.ceiling
    ]


def _facts_of(ready: model.Readiness) -> Iterator[str]:
    """Yield the facts of a feature as texts; "" if unknown."""
    yield _readiness_text(ready)
    yield f"since {since}" if (since := digest.since_text(ready)) else ""
    yield f"available {ready.available.text}" if ready.available else ""


def _readiness_text(ready: model.Readiness) -> str:
    current = "not known" if ready.finalized is None else ready.finalized.text
    goal = ready.target or ready.ceiling
    if ready.finalized is None and goal is not None:
        current, goal = f"not known, possible up to {goal.text}", None
    if goal is None or goal == ready.finalized or ready.verdict is Verdict.UP_TO_DATE:
        return f"{ready.feature}  {current}  {ready.verdict.value}"
    suffix = ""
    if ready.target is not None and ready.ceiling is not None and ready.ceiling != ready.target:
        suffix = f" (blocked up to {ready.ceiling.text})"
    return f"{ready.feature}  {current} → {goal.text}  {ready.verdict.value}{suffix}"


def _evidence(finding: model.ReportedFinding) -> str:
    """Return the code of a finding, and the place and time of its source, as text."""
    line = f"line {finding.line_id}" if finding.line_id else ""
    read_at = time_text(finding.observed_at)
    texts = [
        finding.code,
        read_at and f"seen {read_at}",
        "" if finding.epoch is None else f"epoch {finding.epoch}",
        place(finding.line) if finding.line else line,
    ]
    return " · ".join(filter(None, texts))


def _cut(texts: Sequence[str], most: int) -> list[str]:
    """Return the first `most` texts, and the number of the others. `most`: 0 = all."""
    lines = list(texts if len(texts) == most + 1 else texts[: most or None])
    hidden = len(texts) - len(lines)
    return [*lines, f"… and {hidden:,} more"] if hidden else lines


def _mutes(mutes: Sequence[model.ReportedMute], limit: int, page: Page) -> None:
    """Add the state of each mute in conf/audit.toml to the page."""
    lines = [(digest.mute_text(mute), mute.expired) for mute in mutes[: limit or None]]
    rows = [[paint(state, "yellow") if over else state, text] for (state, text), over in lines]
    page.table(rows, head=False)
