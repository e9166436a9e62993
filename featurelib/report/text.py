"""The report as terminal text: the fleet first, then the clusters, then what to do in each.

Never wider than the terminal, 100 columns where there is none; no colour there or with NO_COLOR,
and no verdict by colour alone. Values come from featurelib.report.values, nothing is counted here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from io import StringIO
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from featurelib.feature import Verdict
from featurelib.report import phrases
from featurelib.report.clusters_text import (
    ALL,
    STYLES,
    needs_act,
    show_clusters,
    show_findings,
    show_moves,
)
from featurelib.report.lead import counted, hint, lead
from featurelib.report.model import Cause, Fleet, Ingest, Mute, Quarantine, Report
from featurelib.report.muted import count_muted, say_mute
from featurelib.report.words import show_time
from featurelib.report.wrapping import Located

WIDTH = 100
LIMIT = 20
CAUSES = 5
NAMES = 3  # of the clusters or features a cause holds back


def write_text(
    report: Report,
    stream: TextIO,
    *,
    limit: int = LIMIT,
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Write the report to `stream` as wide and as colourful as it can show."""
    width = _terminal_width(stream)
    plain = width is None or environment.get("NO_COLOR") or environment.get("TERM") == "dumb"
    text = render_text(report, width=width or WIDTH, colour=not plain, limit=limit)
    encoding = stream.encoding or "utf-8"
    # A terminal that cannot show a letter gets a question mark, not a stack trace.
    stream.write(text.encode(encoding, "replace").decode(encoding))


def render_text(
    report: Report, *, width: int = WIDTH, colour: bool = False, limit: int = LIMIT
) -> str:
    """The report as text of at most `width` columns; `limit` 0 shows every row."""
    console = Console(
        file=StringIO(),
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        _environ={},  # what the environment says was decided by the caller
    )
    with console.capture() as captured:
        for part in _parts(report, limit, width):
            console.print(part)
    lines = (line.rstrip() for line in captured.get().splitlines())
    return "\n".join(lines).rstrip("\n") + "\n"


def _terminal_width(stream: TextIO) -> int | None:
    """The terminal's columns, or None if `stream` is none."""
    if not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or WIDTH
    except OSError:
        return WIDTH


def _parts(report: Report, limit: int, width: int) -> Iterator[RenderableType]:
    yield _head(report)
    yield Text(lead(report), style="bold")
    if about := counted(report):
        yield Text(about, style="dim")
    if report.fleet.clusters:
        yield ""
        yield _counts(report.fleet)
        yield ""
        yield _facts(report.fleet, report.run.quarantine)
    if report.causes:
        yield _title("What holds the fleet back most")
        about = "what unlocks most comes first; alone = clusters that nothing else holds back"
        yield Text(about, style="dim")
        yield _causes(report.causes, CAUSES if limit else 0)
    movable = [cluster for cluster in report.clusters if cluster.steps]
    if movable:
        yield _title("Can be finalized now")
        yield from show_moves(movable, limit)
    if report.clusters:
        yield _title("Clusters, worst first")
        yield from show_clusters(report.clusters, limit, width)
    acts = [cluster for cluster in report.clusters if needs_act(cluster)]
    if acts:
        yield _title("What to do, cluster by cluster")
        yield from show_findings(acts, limit)
    if report.mutes:
        yield _title("Mutes")
        yield from _mutes(report.mutes, limit)
    yield ""
    sentence, command = hint(report)
    # On a line of its own, so that it can be copied.
    yield Text.assemble(("Next  ", "bold"), sentence, "\n" if command else "", (command, "bold"))


def _title(text: str) -> RenderableType:
    return Padding(Text(text, style="bold underline"), (1, 0, 0, 0))


def _head(report: Report) -> Text:
    run = report.run
    release = f"featurelib {run.release}".strip()
    judged = f"judged by the policy {run.dialect}, with the catalogue of {run.catalogue}"
    return Text(
        f"{release} · run {run.number} · as of {show_time(run.as_of)}\n"
        f"{judged}{_read(run.ingest)}\n",
        style="dim",
    )


def _read(ingest: Ingest | None) -> str:
    if ingest is None:
        return ""
    if not ingest.lines:
        return "\nno new landing lines"
    lost = " (bronze.landing_line says why)" if ingest.quarantined else ""
    return (
        f"\n{phrases.count(ingest.lines, 'landing line')}: {ingest.accepted:,} accepted, "
        f"{ingest.repeated:,} repeated, {ingest.quarantined:,} quarantined{lost}"
    )


def _counts(fleet: Fleet) -> Table:
    """Verdicts of clusters, and of the features of all clusters."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("")
    for verdict in Verdict:
        table.add_column(
            verdict.value, justify="right", header_style=STYLES[verdict], overflow="fold"
        )
    table.add_column("all", justify="right")
    for label, counts, total in (
        ("clusters", fleet.clusters_by_verdict, fleet.clusters),
        ("their features", fleet.features_by_verdict, fleet.features),
    ):
        table.add_row(label, *(f"{counts[verdict]:,}" for verdict in Verdict), f"{total:,}")
    return table


def _facts(fleet: Fleet, quarantine: Quarantine | None) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    phases = [f"{n:,} {phase.value}" for phase, n in fleet.clusters_by_phase.items() if n]
    severities = [f"{n:,} {level.value}" for level, n in fleet.findings_by_severity.items() if n]
    table.add_row("phases", Text(" · ".join(phases)))
    table.add_row("findings", Text(" · ".join(severities) or "none"))
    if fleet.muted:
        table.add_row("", Text(f"of these {count_muted(fleet.muted, fleet.muted_until)}"))
    if fleet.incompatible_nodes:
        verb = "does" if fleet.incompatible_nodes == 1 else "do"
        who = phrases.count(fleet.incompatible_nodes, "node")
        table.add_row("incompatible", Text(f"{who} {verb} not fit what is finalized already"))
    if quarantine is not None and quarantine.lines:
        table.add_row("quarantined", _say_quarantine(quarantine))
    return table


def _say_quarantine(quarantine: Quarantine) -> Group:
    """Lines of every night that nobody judged, with the newest few."""
    about = f"{phrases.count(quarantine.lines, 'landing line')} of all nights left out"
    said: list[RenderableType] = [Text(about)]
    said += [Located(f"{row.line}: {row.reason}", "dim") for row in quarantine.newest]
    left = quarantine.lines - len(quarantine.newest)
    if left:
        said.append(Text(f"… and {left:,} more: bronze.landing_line has them all", style="dim"))
    return Group(*said)


def _causes(causes: tuple[Cause, ...], most: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("clusters", justify="right")
    table.add_column("alone", justify="right")
    table.add_column("nodes", justify="right")
    table.add_column("cause", overflow="fold", ratio=1)
    for cause in causes[: most or None]:
        about = Text(cause.title)
        more = [name for name in cause.features if name != cause.feature]
        if more:
            names = phrases.some(more, NAMES)
            also = f"they also hold back {names}" if cause.feature else f"holds back {names}"
            about.append(f"\n{also}", style="dim")
        muted = f", muted in {cause.muted:,}" if cause.muted else ""
        about.append(f"\nin {phrases.some(cause.held, NAMES)}{muted}", style="dim")
        nodes = f"{cause.nodes:,}" if cause.nodes else ""
        table.add_row(f"{cause.clusters:,}", f"{cause.alone:,}", nodes, about)
    left = len(causes) - most
    if most and left > 0:
        table.add_row("", "", "", Text(f"… and {phrases.count(left, 'more cause')}", "dim"))
    return table


def _mutes(mutes: tuple[Mute, ...], limit: int) -> Iterator[RenderableType]:
    """What has come of each mute of conf/audit.toml, the first `limit` of them; 0 = all."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(overflow="fold", min_width=15)
    table.add_column(overflow="fold", ratio=1)
    for mute in mutes[: limit or None]:
        said = say_mute(mute)
        table.add_row(Text(said.state, "yellow" if mute.expired else ""), Text(said.text))
    yield table
    if limit and len(mutes) > limit:
        yield Text(f"… and {len(mutes) - limit:,} more: {ALL}", style="dim")
