"""The report as pages: one file that stands alone, and a page for each cluster it only lists; and
range plots as pictures of their own.

No network, no script needed; every text is escaped by the templates. The clusters that need a
person most stand in the one file in full. A picture carries its colours and touches no style around
it, so a notebook shows it as it is.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from itertools import groupby

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from featurelib.feature import Verdict
from featurelib.planning.files import file_names
from featurelib.snapshot.history import LevelChange
from featurelib.view.digest import (
    FindingGroup,
    ahead_lines,
    group_findings,
    hint,
    lead,
    lead_note,
    mute_text,
    muted_lines,
    unmuted,
)
from featurelib.view.model import VERDICT_RANK, Readiness, Report, ReportedCluster, ReportedStep
from featurelib.view.plot import LEFT, RIGHT, WIDTH, Plot, Portrait, draw
from featurelib.words import clean, count, metadata_first, place, some, time_text

IN_FULL = 100  # clusters in the one file
# Of each of them where there are more clusters: the rest stands on its own page.
PLOTS, BARS = 8, 30
CAUSES = 25
FOLDER = "clusters"
NOBODY = Portrait()
COLUMNS = 10  # features with a column of their own
SUMMARY = 90  # characters of the last column
# The class of a cell, and the sign that stands in it: a grid of thousands has no room for words.
KINDS = {
    Verdict.UNKNOWN: ("U", "?"),
    Verdict.BLOCKED: ("B", "✕"),
    Verdict.READY: ("R", "▲"),
    Verdict.UP_TO_DATE: ("D", "✓"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPart:
    """A cluster as its part of a page shows it."""

    cluster: ReportedCluster
    anchor: str
    page: str  # where all of it stands, if not here
    plots: tuple[Plot, ...]
    quiet: tuple[Plot, ...]  # where nothing is to be done
    left_out: int  # plots that only its page has
    findings: tuple[FindingGroup, ...]
    muted: tuple[str, ...]
    requests: tuple[tuple[ReportedStep, ...], ...]
    ahead: tuple[str, ...]  # what cannot be taken back, and who may join
    history: tuple[LevelChange, ...]


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
    fleet = count(report.fleet.clusters, "cluster")
    most = f"The {len(full)} clusters that need a person most"
    return _template("report.html.j2").render(
        title=f"Feature levels of {fleet}",
        run=report.run,
        lead=lead(report),
        counted=lead_note(report),
        next_step=hint(report),
        tiles=tuple(_tiles(report, before)),
        causes=report.causes[:CAUSES],
        more_causes=max(len(report.causes) - CAUSES, 0),
        verdicts=list(Verdict),
        grid=lay_out(report.clusters, links),
        mutes=[mute_text(mute) for mute in report.mutes],
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


def _show(
    cluster: ReportedCluster, portraits: Mapping[str, Portrait], anchor: str, *, page: str
) -> ClusterPart:
    """A cluster for the one file, or with `page` empty for a page of its own."""
    portrait = portraits.get(cluster.key, NOBODY)
    steps = groupby(cluster.steps, key=lambda step: step.request)
    drawn = draw(cluster, portrait) if portrait.groups or portrait.silent else ()
    plots = sorted((plot for plot in drawn if not plot.quiet), key=lambda plot: not plot.troubled)
    plots = _within(plots) if page else plots
    return ClusterPart(
        cluster=cluster,
        anchor=anchor,
        page=page,
        plots=tuple(plots),
        quiet=tuple(plot for plot in drawn if plot.quiet and not page),
        left_out=len(drawn) - len(plots) if page else 0,
        findings=group_findings(unmuted(cluster.findings)),
        muted=muted_lines(cluster.findings),
        requests=tuple(tuple(some) for _, some in steps),
        ahead=tuple(ahead_lines(cluster)),
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
        loader=PackageLoader("featurelib.view", "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        time=time_text,
        clean=clean,
        count=count,
        some=some,
        place=place,
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


@cache
def _text(name: str) -> str:
    return resources.files("featurelib.view").joinpath("pages", name).read_text("utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class GridCell:
    """One verdict: its class, and its sign and level."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRow:
    """One cluster; `find` holds what it is found by beside the text of its row."""

    name: str
    link: str
    verdict: Verdict
    find: str
    cells: tuple[GridCell | None, ...]
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """`others`: whether the last cell of each row counts features without a column."""

    features: tuple[str, ...]
    others: bool
    rows: tuple[GridRow, ...]


def lay_out(clusters: Sequence[ReportedCluster], links: Sequence[str]) -> Grid:
    """The grid of all clusters, in their order; `links` say where each of them stands in full."""
    spread = Counter(ready.feature for cluster in clusters for ready in cluster.readiness)
    usual = sorted(spread, key=lambda name: (metadata_first(name)[0], -spread[name], name))
    features = tuple(usual[:COLUMNS])
    others = len(usual) > COLUMNS
    rows = tuple(
        _row(cluster, link, features, others) for cluster, link in zip(clusters, links, strict=True)
    )
    return Grid(features=features, others=others, rows=rows)


def _row(cluster: ReportedCluster, link: str, features: Sequence[str], others: bool) -> GridRow:
    by_name = {ready.feature: ready for ready in cluster.readiness}
    cells = [_cell(by_name.pop(feature, None)) for feature in features]
    if others:
        cells.append(_counted(list(by_name.values())))
    summary = cluster.summary
    unseen = (cluster.id if cluster.id != cluster.name else "", cluster.owner, *cluster.labels)
    return GridRow(
        name=cluster.name,
        link=link,
        verdict=cluster.verdict,
        find=" ".join(filter(None, unseen)),
        cells=tuple(cells),
        summary=summary if len(summary) <= SUMMARY else summary[: SUMMARY - 1] + "…",
    )


def _cell(ready: Readiness | None) -> GridCell | None:
    if ready is None:
        return None
    kind, sign = KINDS[ready.verdict]
    text = sign if ready.finalized is None else f"{sign} {ready.finalized.number}"
    if ready.verdict is Verdict.READY and ready.target is not None:
        text += f"→{ready.target.number}"
    return GridCell(kind=kind, text=text)


def _counted(rest: Sequence[Readiness]) -> GridCell | None:
    if not rest:
        return None
    worst = min((ready.verdict for ready in rest), key=VERDICT_RANK.__getitem__)
    kind, sign = KINDS[worst]
    alike = sum(ready.verdict is worst for ready in rest)
    return GridCell(kind=kind, text=f"{sign} {alike} of {len(rest)}")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RangePlot:
    """The range plots of one cluster, as text and, where somebody shows HTML, as pictures.

    For each feature a track of levels: a bar for each range that nodes support, and lines where
    the feature is finalized, could go (target), and stops by its software (ceiling).
    """

    title: str
    plots: tuple[Plot, ...]

    def svg(self, feature: str) -> str:
        """One feature's plot as an SVG document. Raises KeyError for a feature without one."""
        return render_figure({plot.feature: plot for plot in self.plots}[feature])

    def __str__(self) -> str:
        lines = [f"{plot.feature}: {plot.words}" for plot in self.plots]
        return "\n".join([self.title, *lines])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<h4>{escape(self.title)}</h4>" + "".join(map(_picture, self.plots))


def _picture(plot: Plot) -> str:
    content = b64encode(render_figure(plot).encode()).decode("ascii")
    said = escape(f"{plot.feature}: {plot.words}", quote=True)
    return (
        f'<figure style="margin: 0.6em 0"><figcaption>{escape(plot.feature)}</figcaption>'
        f'<img alt="{said}" src="data:image/svg+xml;base64,{content}" style="max-width: 100%">'
        "</figure>"
    )
