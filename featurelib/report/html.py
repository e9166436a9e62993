"""The report as pages: one file that stands alone, and a page for each cluster it only lists.

No network, no script needed; every text is escaped by the templates. The clusters that need a
person most stand in the one file in full.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import groupby

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from featurelib.feature import Verdict
from featurelib.planning.files import file_names
from featurelib.report import phrases
from featurelib.report.ahead import say_ahead
from featurelib.report.grid import lay_out
from featurelib.report.groups import Group, group_findings
from featurelib.report.lead import counted, hint, lead
from featurelib.report.model import Cluster, Report, Step
from featurelib.report.muted import heard, say_mute, say_muted
from featurelib.report.plot import LEFT, RIGHT, WIDTH, Plot, draw
from featurelib.report.portrait import Moment, Portrait
from featurelib.report.words import show_time

IN_FULL = 100  # clusters in the one file
# Of each of them where there are more clusters: the rest stands on its own page.
PLOTS, BARS = 8, 30
CAUSES = 25
FOLDER = "clusters"
NOBODY = Portrait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A cluster as its part of a page shows it."""

    cluster: Cluster
    anchor: str
    page: str  # where all of it stands, if not here
    plots: tuple[Plot, ...]
    quiet: tuple[Plot, ...]  # where nothing is to be done
    left_out: int  # plots that only its page has
    findings: tuple[Group, ...]
    muted: tuple[str, ...]
    requests: tuple[tuple[Step, ...], ...]
    ahead: tuple[str, ...]  # what cannot be taken back, and who may join
    history: tuple[Moment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A count of the fleet; `change` says how it moved since the night before, if it did."""

    label: str
    count: int
    kind: str
    change: str


def render_html(
    report: Report,
    portraits: Mapping[str, Portrait],
    *,
    before: Mapping[Verdict, int] | None = None,
) -> str:
    """The one file. `portraits` by cluster id; `before`: the verdicts of the night before."""
    full, big = report.clusters[:IN_FULL], has_pages(report)
    names = page_names(report)
    links = [f"#{_anchor(i)}" for i in range(len(full))]
    links += [f"{FOLDER}/{name}" for name in names[len(full) :]]
    fleet = phrases.count(report.fleet.clusters, "cluster")
    most = f"The {len(full)} clusters that need a person most"
    return _template("report.html.j2").render(
        title=f"Feature levels of {fleet}",
        run=report.run,
        lead=lead(report),
        counted=counted(report),
        next_step=hint(report),
        tiles=tuple(_tiles(report, before)),
        causes=report.causes[:CAUSES],
        more_causes=max(len(report.causes) - CAUSES, 0),
        verdicts=list(Verdict),
        grid=lay_out(report.clusters, links),
        mutes=[say_mute(mute) for mute in report.mutes],
        heading=most if big else "Cluster by cluster",
        shown=[
            _show(one, portraits, _anchor(i), page=f"{FOLDER}/{name}" if big else "")
            for i, (one, name) in enumerate(zip(full, names, strict=False))
        ],
        script=_text("page.js"),
    )


def has_pages(report: Report) -> bool:
    """Whether there are more clusters than the one file shows, so that each has a page."""
    return len(report.clusters) > IN_FULL


def render_pages(
    report: Report, portraits: Mapping[str, Portrait], *, most: int
) -> Iterator[tuple[str, str]]:
    """Name and text of the page of each of the worst clusters; none if the one file has all."""
    if not has_pages(report):
        return
    for cluster, name in list(zip(report.clusters, page_names(report), strict=True))[:most]:
        shown = _show(cluster, portraits, "cluster", page="")
        page = _template("one.html.j2").render(title=cluster.name, run=report.run, shown=shown)
        yield f"{FOLDER}/{name}", page


def render_figure(plot: Plot) -> str:
    """One range plot as an SVG document that stands alone, with the colours of the page."""
    return _template("figure.svg.j2").render(plot=plot)


def page_names(report: Report) -> list[str]:
    """A file name for each cluster's page, safe on any file system."""
    names = file_names([cluster.key for cluster in report.clusters])
    return [name.removesuffix(".json") + ".html" for name in names]


def _tiles(report: Report, before: Mapping[Verdict, int] | None) -> Iterator[Tile]:
    fleet = report.fleet
    for verdict in Verdict:
        count = fleet.clusters_by_verdict[verdict]
        change = "" if before is None else _change(count - before.get(verdict, 0))
        yield Tile(label=verdict.value, count=count, kind=verdict.value, change=change)
    yield Tile(label="need a person", count=fleet.need_person, kind="", change="")
    yield Tile(label="can finalize something now", count=fleet.can_move, kind="", change="")
    unfit = "nodes that do not fit what is finalized"
    yield Tile(label=unfit, count=fleet.incompatible_nodes, kind="", change="")
    if fleet.muted:
        first = fleet.muted_until
        runs_out = "" if first is None else f"the first until {first.isoformat()}"
        yield Tile(label="muted findings", count=fleet.muted, kind="", change=runs_out)


def _change(by: int) -> str:
    return "as last night" if by == 0 else f"{by:+,} since last night"


def _show(cluster: Cluster, portraits: Mapping[str, Portrait], anchor: str, *, page: str) -> Shown:
    """A cluster for the one file, or with `page` empty for a page of its own."""
    portrait = portraits.get(cluster.key, NOBODY)
    steps = groupby(cluster.steps, key=lambda step: step.request)
    drawn = draw(cluster, portrait) if portrait.groups or portrait.silent else ()
    plots = sorted((plot for plot in drawn if not plot.quiet), key=lambda plot: not plot.troubled)
    plots = _within(plots) if page else plots
    return Shown(
        cluster=cluster,
        anchor=anchor,
        page=page,
        plots=tuple(plots),
        quiet=tuple(plot for plot in drawn if plot.quiet and not page),
        left_out=len(drawn) - len(plots) if page else 0,
        findings=group_findings(heard(cluster.findings)),
        muted=say_muted(cluster.findings),
        requests=tuple(tuple(some) for _, some in steps),
        ahead=tuple(say_ahead(cluster)),
        history=portrait.history,
    )


def _within(plots: Sequence[Plot]) -> list[Plot]:
    """The first plots that fit into the one file; one of many ranges is left to its own page."""
    kept: list[Plot] = []
    bars = 0
    for plot in plots:
        if len(kept) < PLOTS and bars + len(plot.bars) <= BARS:
            kept.append(plot)
            bars += len(plot.bars)
    return kept


def _anchor(position: int) -> str:
    return f"c{position + 1}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("featurelib.report", "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        time=show_time,
        count=phrases.count,
        some=_some,
        place=phrases.place,
        left=LEFT,
        right=RIGHT,
        width=WIDTH,
        style="".join(map(_text, ("colours.css", "style.css", "plot.css"))),
        figure_style="".join(map(_text, ("colours.css", "plot.css"))),
    )
    environment.filters["breakable"] = _breakable
    return environment


def _breakable(name: str) -> Markup:
    """A name that may go on in a new line behind each of its dots."""
    return Markup(".<wbr>").join(name.split("."))


def _template(name: str) -> Template:
    return _environment().get_template(name)


def _some(texts: Sequence[str], most: int) -> str:
    return phrases.some(texts, most)


@cache
def _text(name: str) -> str:
    return resources.files("featurelib.report").joinpath("pages", name).read_text("utf-8")
