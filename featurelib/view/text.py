"""The report as terminal text: the fleet first, then the clusters, then what to do in each.

As wide as the terminal, 100 columns where there is none; no colour there or with NO_COLOR, and no
verdict by colour alone. Nothing is counted here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TextIO

from featurelib.feature import Severity, Verdict
from featurelib.view.digest import (
    FindingGroup,
    ahead_lines,
    count_muted,
    group_findings,
    hint,
    lead,
    lead_note,
    mute_text,
    muted_lines,
    unmuted,
)
from featurelib.view.layout import WIDEST, Page, paint, plain
from featurelib.view.model import (
    Cause,
    Ingest,
    Readiness,
    Report,
    ReportedCluster,
    ReportedFinding,
    ReportedMute,
    ReportedStep,
)
from featurelib.words import count, place, some, time_text

LIMIT = 20
ALL = "--limit 0 shows all"
CAUSES = 5
NAMES = 3  # of the clusters or features a cause holds back
LINES = 4  # of alike messages, features or steps shown unless everything is asked for
NARROW = 72  # columns
LABEL = 12  # columns that the labels of one cluster's details take
NAME = 30  # the widest column of names

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


def write_text(
    report: Report,
    stream: TextIO,
    *,
    limit: int = LIMIT,
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Write the report to `stream` as wide and as colourful as it can show."""
    width = _terminal_width(stream)
    no_colour = width is None or environment.get("NO_COLOR") or environment.get("TERM") == "dumb"
    text = render_text(report, width=width or WIDEST, colour=not no_colour, limit=limit)
    encoding = stream.encoding or "utf-8"
    # A terminal that cannot show a letter gets a question mark, not a stack trace.
    stream.write(text.encode(encoding, "replace").decode(encoding))


def render_text(
    report: Report, *, width: int = WIDEST, colour: bool = False, limit: int = LIMIT
) -> str:
    """The report as text of `width` columns; `limit` 0 shows every row."""
    page = Page(width, parts=True)
    _head(report, page)
    if report.causes:
        _title("What holds the fleet back most", page)
        about = "what unlocks most comes first; alone = clusters that nothing else holds back"
        page.text(paint(about, "dim"))
        _causes(report.causes, CAUSES if limit else 0, page)
    movable = [cluster for cluster in report.clusters if cluster.steps]
    if movable:
        _title("Can be finalized now", page)
        _moves(movable, limit, page)
    if report.clusters:
        _title("Clusters, worst first", page)
        _clusters(report.clusters, limit, page)
    acts = [cluster for cluster in report.clusters if _needs_act(cluster)]
    if acts:
        _title("What to do, cluster by cluster", page)
        for cluster in acts[: limit or None]:
            _details(cluster, limit, page)
        _left(len(acts), limit, page)
    if report.mutes:
        _title("Mutes", page)
        _mutes(report.mutes, limit, page)
    page.line()
    sentence, command = hint(report)
    page.text(f"{paint('Next', 'bold')}  {sentence}", below=0)
    if command:  # on a line of its own, so that it can be copied
        page.text(paint(command, "bold"))
    text = f"{page}\n"
    return text if colour else plain(text)


def _terminal_width(stream: TextIO) -> int | None:
    """The terminal's columns, or None if `stream` is none."""
    if not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or WIDEST
    except OSError:
        return WIDEST


def _title(text: str, page: Page) -> None:
    page.line()
    page.text(paint(text, "bold underline"))


def _left(number: int, limit: int, page: Page) -> None:
    if limit and number > limit:
        page.text(paint(f"… and {number - limit:,} more: {ALL}", "dim"))


def _head(report: Report, page: Page) -> None:
    run, fleet = report.run, report.fleet
    release = f"featurelib {run.release}".strip()
    judged = f"judged by the policy {run.dialect}, with the catalogue of {run.catalogue}"
    page.text(paint(f"{release} · run {run.number} · as of {time_text(run.as_of)}", "dim"))
    page.text(paint(judged, "dim"))
    if run.ingest is not None:
        page.text(paint(_ingest_text(run.ingest), "dim"))
    page.line()
    page.text(paint(lead(report), "bold"))
    if about := lead_note(report):
        page.text(paint(about, "dim"))
    if fleet.clusters:
        page.line()
        heads = ["", *(paint(verdict.value, STYLES[verdict]) for verdict in Verdict), "all"]
        counts = [("clusters", fleet.clusters_by_verdict, fleet.clusters)]
        counts += [("their features", fleet.features_by_verdict, fleet.features)]
        rows = [[name, *(f"{of[v]:,}" for v in Verdict), f"{n:,}"] for name, of, n in counts]
        page.table([heads, *rows])
        page.line()
        _facts(report, page)


def _ingest_text(ingest: Ingest) -> str:
    if not ingest.lines:
        return "no new landing lines"
    lost = " (bronze.landing_line says why)" if ingest.quarantined else ""
    return (
        f"{count(ingest.lines, 'landing line')}: {ingest.accepted:,} accepted, "
        f"{ingest.repeated:,} repeated, {ingest.quarantined:,} quarantined{lost}"
    )


def _facts(report: Report, page: Page) -> None:
    fleet, quarantine = report.fleet, report.run.quarantine
    phases = [f"{n:,} {phase.value}" for phase, n in fleet.clusters_by_phase.items() if n]
    severities = [f"{n:,} {level.value}" for level, n in fleet.findings_by_severity.items() if n]
    rows = [("phases", " · ".join(phases)), ("findings", " · ".join(severities) or "none")]
    if fleet.muted:
        rows.append(("", f"of these {count_muted(fleet.muted, fleet.muted_until)}"))
    if fleet.incompatible_nodes:
        verb = "does" if fleet.incompatible_nodes == 1 else "do"
        who = count(fleet.incompatible_nodes, "node")
        rows.append(("incompatible", f"{who} {verb} not fit what is finalized already"))
    if quarantine is not None and quarantine.lines:
        about = f"{count(quarantine.lines, 'landing line')} of all nights left out"
        rows.append(("quarantined", about))
        rows += [("", paint(f"{row.line}: {row.reason}", "dim")) for row in quarantine.newest]
        if left := quarantine.lines - len(quarantine.newest):
            rows.append(
                ("", paint(f"… and {left:,} more: bronze.landing_line has them all", "dim"))
            )
    page.facts(rows)


def _causes(causes: Sequence[Cause], most: int, page: Page) -> None:
    rows = [["clusters", "alone", "nodes", "cause"]]
    for cause in causes[: most or None]:
        lines = [cause.title]
        if more := [name for name in cause.features if name != cause.feature]:
            also = "they also hold back" if cause.feature else "holds back"
            lines.append(paint(f"{also} {some(more, NAMES)}", "dim"))
        muted = f", muted in {cause.muted:,}" if cause.muted else ""
        lines.append(paint(f"in {some(cause.held, NAMES)}{muted}", "dim"))
        number = f"{cause.nodes:,}" if cause.nodes else ""
        numbers = [f"{cause.clusters:,}", f"{cause.alone:,}", number]
        rows.append([*numbers, "\n".join(lines)])
    left = len(causes) - most
    if most and left > 0:
        rows.append(["", "", "", paint(f"… and {count(left, 'more cause')}", "dim")])
    _dim_table(rows, page)


def _dim_table(rows: Sequence[Sequence[str]], page: Page, most: Sequence[int] = ()) -> None:
    """A table with a dim head."""
    page.table([[paint(name, "dim") for name in rows[0]], *rows[1:]], most=most)


def _moves(clusters: Sequence[ReportedCluster], limit: int, page: Page) -> None:
    """What can be finalized in each cluster, READY ones first."""
    rows = [["cluster", "steps", "from the finalized level to"]]
    ordered = sorted(clusters, key=lambda cluster: cluster.verdict is not Verdict.READY)
    for cluster in ordered[: limit or None]:
        lines = _first([_step_text(step) for step in cluster.steps], LINES if limit else 0)
        if cluster.verdict is not Verdict.READY:
            lines.append(paint(f"{cluster.verdict.value} beyond that, see below", "dim"))
        if people := _people(cluster):
            lines.append(paint(people, "dim"))
        requests = len({step.request for step in cluster.steps})
        rows.append([paint(cluster.name, "bold"), f"{requests:,}", "\n".join(lines)])
    _dim_table(rows, page, most=(NAME,))
    _left(len(clusters), limit, page)


def _clusters(clusters: Sequence[ReportedCluster], limit: int, page: Page) -> None:
    """A row a cluster; a narrow one has fewer columns."""
    is_wide = page.width >= NARROW
    rows = [["verdict", "cluster", *(["nodes", "phase"] if is_wide else []), "in one line"]]
    for cluster in clusters[: limit or None]:
        verdict = paint(cluster.verdict.value, STYLES[cluster.verdict])
        sizes = [f"{cluster.nodes:,}", cluster.phase.value] if is_wide else []
        about = cluster.summary
        if _needs_act(cluster) and (people := _people(cluster)):
            about += "\n" + paint(people, "dim")
        rows.append([verdict, "\n".join(_names(cluster)), *sizes, about])
    _dim_table(rows, page, most=(0, NAME))
    _left(len(clusters), limit, page)


def _needs_act(cluster: ReportedCluster) -> bool:
    """Whether there is something to look at in the cluster, or to finalize."""
    return cluster.needs_person or bool(cluster.steps)


def _names(cluster: ReportedCluster) -> list[str]:
    """Its name and, where that is another, its id."""
    others = [paint(cluster.id, "dim")] if cluster.id != cluster.name else []
    return [paint(cluster.name, "bold"), *others]


def _people(cluster: ReportedCluster) -> str:
    """`payments · #payments-oncall · managed by strimzi`, as far as the inventory says."""
    managed = f"managed by {cluster.managed_by}" if cluster.managed_by else None
    return " · ".join(filter(None, (cluster.owner, cluster.contact, managed)))


def _step_text(step: ReportedStep) -> str:
    return f"{step.feature} {step.from_level.text} → {step.to_level.text}"


def _details(cluster: ReportedCluster, limit: int, page: Page) -> None:
    most = LINES if limit else 0
    phase = paint(f"{cluster.phase.value}, {count(cluster.nodes, 'node')}", "dim")
    page.line()
    page.text(
        "  ".join([paint(cluster.verdict.value, STYLES[cluster.verdict]), *_names(cluster), phase])
    )
    if people := " · ".join(filter(None, (cluster.owner, cluster.contact))):
        _entry("owner", [people], page)
    if cluster.managed_by:
        how = "which finalizes there: levels are changed through it"
        if cluster.commands:
            how = "which does not move what is planned: that is ours"
        _entry("managed", [f"by {cluster.managed_by}, {how}"], page)
    _entry("levels", _first(_level_lines(cluster), most), page)
    groups = group_findings(unmuted(cluster.findings))
    for group in groups[: limit or None]:
        _group(group, most, page)
    if limit and (left := sum(len(group.messages) for group in groups[limit:])):
        _entry("", [paint(f"… and {count(left, 'more finding')}: {ALL}", "dim")], page)
    muted = [paint(line, "dim") for line in muted_lines(cluster.findings)]
    _entry("muted", _first(muted, most), page)
    if cluster.steps:
        firsts = {step.request: step for step in reversed(cluster.steps)}
        steps = [
            (f"{step.request}. " if step is firsts[step.request] else "   ") + _step_text(step)
            for step in cluster.steps
        ]
        files = [paint(cluster.plan_file, "bold")] if cluster.plan_file else []
        _entry("plan", [*_first(steps, most), *files], page)
        _entry("", _first(ahead_lines(cluster), most), page)
    _entry("run", _first(cluster.commands, most), page)


def _entry(label: str, lines: Sequence[str], page: Page) -> None:
    """Lines beside a label; nothing without any."""
    for i, line in enumerate(lines):
        beside = label if i == 0 else ""
        blank = " " * (LABEL - 2 - len(plain(beside)))
        page.text(line, 0, LABEL, f"{blank}{beside}  ")


def _level_lines(cluster: ReportedCluster) -> list[str]:
    """The features whose level cannot go where it should; what goes there is in the plan."""
    if {ready.verdict for ready in cluster.readiness} == {Verdict.UNKNOWN}:
        names = some([ready.feature for ready in cluster.readiness], LINES)
        return [f"UNKNOWN for every feature: {names}"]
    return [
        _readiness_text(ready)
        for ready in cluster.readiness
        if ready.verdict is not Verdict.UP_TO_DATE and ready.target != ready.ceiling
    ]


def _readiness_text(ready: Readiness) -> str:
    now = "not known" if ready.finalized is None else ready.finalized.text
    goal = ready.target or ready.ceiling
    if goal is None or goal == ready.finalized:
        return f"{ready.feature}  {now}  {ready.verdict.value}"
    beyond = ""
    if ready.target is not None and ready.ceiling is not None and ready.ceiling != ready.target:
        beyond = f" (blocked up to {ready.ceiling.text})"
    return f"{ready.feature}  {now} → {goal.text}  {ready.verdict.value}{beyond}"


def _group(group: FindingGroup, most: int, page: Page) -> None:
    first = group.first
    messages = [*_first(group.messages, most), *([group.others] if group.others else [])]
    _entry(paint(group.severity.value, STYLES[group.severity]), messages, page)
    _entry("do", [first.remedy] if first.remedy else [], page)
    _entry("run", [paint(first.command, "bold")] if first.command else [], page)
    _entry("", [paint(_evidence(first), "dim")], page)
    if not most and first.source:
        _entry("", [paint(first.source, "dim")], page)


def _evidence(finding: ReportedFinding) -> str:
    """The code, when it was seen and where: what a doubter asks for."""
    line = f"line {finding.line_id}" if finding.line_id else ""
    seen = time_text(finding.observed_at)
    parts = [
        finding.code,
        seen and f"seen {seen}",
        "" if finding.epoch is None else f"epoch {finding.epoch}",
        place(finding.line) if finding.line else line,
    ]
    return " · ".join(filter(None, parts))


def _first(texts: Sequence[str], most: int) -> list[str]:
    """The first of the texts, and how many more there are; `most` 0 = all."""
    shown = list(texts[: most or None])
    left = len(texts) - len(shown)
    return [*shown, f"… and {left:,} more"] if left else shown


def _mutes(mutes: Sequence[ReportedMute], limit: int, page: Page) -> None:
    """What has come of each mute of conf/audit.toml."""
    rows = []
    for mute in mutes[: limit or None]:
        state, text = mute_text(mute)
        rows.append([paint(state, "yellow") if mute.expired else state, text])
    page.table(rows, head=False)
    _left(len(mutes), limit, page)
