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

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from featurelib.feature import Verdict
from featurelib.planning.files import file_names
from featurelib.view.digest import (
    ahead_lines,
    group_findings,
    hint,
    lead,
    lead_note,
    mute_text,
    muted_lines,
    unmuted,
)
from featurelib.view.model import VERDICT_RANK, Readiness, Report, ReportedCluster
from featurelib.view.plot import Plot, Portrait, draw
from featurelib.words import clean, count, metadata_first, place, some, time_text

IN_FULL = 100  # clusters in the one file
# Of each of them where there are more clusters: the rest stands on its own page.
PLOTS, BARS = 8, 30
CAUSES = 25
FOLDER = "clusters"
NOBODY = Portrait()
WIDTH, LEFT, RIGHT = 840, 190, 550  # of a plot, and of the track within it
LINEAR = 40  # levels that still have room side by side; of more only the ends are places
COLUMNS = 10  # features with a column of their own
Cell = tuple[str, str]
# The class of a cell, and the sign that stands in it: a grid of thousands has no room for words.
KINDS = {
    Verdict.UNKNOWN: ("U", "?"),
    Verdict.BLOCKED: ("B", "✕"),
    Verdict.READY: ("R", "▲"),
    Verdict.UP_TO_DATE: ("D", "✓"),
}


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
    features = _features(report.clusters)
    fleet = count(report.fleet.clusters, "cluster")
    most = f"The {len(full)} clusters that need a person most"
    return _template("report.html.j2").render(
        title=f"Feature levels of {fleet}",
        run=report.run,
        lead=lead(report),
        counted=lead_note(report),
        next_step=hint(report),
        tiles=_tiles(report, before),
        causes=report.causes[:CAUSES],
        more_causes=max(len(report.causes) - CAUSES, 0),
        verdicts=list(Verdict),
        features=features[:COLUMNS],
        others=len(features) > COLUMNS,
        rows=zip(report.clusters, links, strict=True),
        mutes=[mute_text(mute) for mute in report.mutes],
        heading=most if big else "Cluster by cluster",
        shown=[
            (_anchor(i), _part(one, portraits, f"{FOLDER}/{name}" if big else ""))
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
        part = _part(cluster, portraits)
        page = _template("one.html.j2").render(title=cluster.name, run=report.run, part=part)
        yield f"{FOLDER}/{name}", page


def render_figure(plot: Plot) -> str:
    """One range plot as an SVG document that stands alone, with the colours of the page."""
    return _template("figure.svg.j2").render(plot=plot)


class Scale:
    """Where levels stand on the track of a plot; too many to stand side by side are ranked."""

    def __init__(self, levels: Sequence[int]) -> None:
        low, high = levels[0], levels[-1]
        ranked = levels if high - low > LINEAR else range(low, high + 1)
        self._places = {level: float(place) for place, level in enumerate(ranked)}

    def at(self, level: int, part: float = 0.5) -> float:
        """The middle of a level's place, or where a `part` of it ends."""
        place = (self._places[level] + part) / len(self._places)
        return round(LEFT + (RIGHT - LEFT) * place, 1)

    def bar(self, low: int, high: int) -> tuple[float, float]:
        """Where the bar of a range begins, and how wide it is."""
        begin = self.at(low, 0)
        return begin, round(self.at(high, 1) - begin, 1)


def page_names(report: Report) -> list[str]:
    """A file name for each cluster's page, safe on any file system."""
    names = file_names([cluster.key for cluster in report.clusters])
    return [name.removesuffix(".json") + ".html" for name in names]


def _tiles(report: Report, before: Mapping[Verdict, int] | None) -> Iterator[tuple[object, ...]]:
    """Count, label, class of each count of the fleet, and how it moved since the night before."""
    fleet = report.fleet
    for verdict, number in fleet.clusters_by_verdict.items():
        change = "" if before is None else _change(number - before.get(verdict, 0))
        yield number, verdict.value, verdict.value, change
    yield fleet.need_person, "need a person", "", ""
    yield fleet.can_move, "can finalize something now", "", ""
    yield fleet.incompatible_nodes, "nodes that do not fit what is finalized", "", ""
    if fleet.muted:
        first = fleet.muted_until
        runs_out = "" if first is None else f"the first until {first.isoformat()}"
        yield fleet.muted, "muted findings", "", runs_out


def _change(by: int) -> str:
    return "as last night" if by == 0 else f"{by:+,} since last night"


def _part(
    cluster: ReportedCluster, portraits: Mapping[str, Portrait], page: str = ""
) -> dict[str, object]:
    """What a cluster's part of a page shows, all of it unless that stands on a `page` of its own:
    then a few plots, and how many are left out."""
    portrait = portraits.get(cluster.key, NOBODY)
    drawn = draw(cluster, portrait) if portrait.nodes else ()
    plots = sorted((plot for plot in drawn if not plot.quiet), key=lambda plot: not plot.troubled)
    plots = _within(plots) if page else plots
    return {
        "cluster": cluster,
        "page": page,
        "plots": plots,
        "quiet": [plot for plot in drawn if plot.quiet and not page],
        "left_out": len(drawn) - len(plots) if page else 0,
        "findings": group_findings(unmuted(cluster.findings)),
        "muted": muted_lines(cluster.findings),
        "ahead": ahead_lines(cluster),
        "history": portrait.history,
    }


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
        cells=_cells,
        time=time_text,
        clean=clean,
        count=count,
        some=some,
        place=place,
        left=LEFT,
        right=RIGHT,
        width=WIDTH,
        Scale=Scale,
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


def _features(clusters: Sequence[ReportedCluster]) -> list[str]:
    """All features, those of most clusters first."""
    spread = Counter(ready.feature for cluster in clusters for ready in cluster.readiness)
    return sorted(spread, key=lambda name: (metadata_first(name)[0], -spread[name], name))


def _cells(cluster: ReportedCluster, features: Sequence[str], others: bool) -> list[Cell | None]:
    """A cell for each verdict, and one that counts the features without a column."""
    by_name = {ready.feature: ready for ready in cluster.readiness}
    cells = [_cell(by_name.pop(feature, None)) for feature in features]
    return [*cells, _counted([*by_name.values()])] if others else cells


def _cell(ready: Readiness | None) -> Cell | None:
    if ready is None:
        return None
    kind, sign = KINDS[ready.verdict]
    text = sign if ready.finalized is None else f"{sign} {ready.finalized.number}"
    if ready.verdict is Verdict.READY and ready.target is not None:
        text += f"→{ready.target.number}"
    return kind, text


def _counted(rest: Sequence[Readiness]) -> Cell | None:
    if not rest:
        return None
    worst = min((ready.verdict for ready in rest), key=VERDICT_RANK.__getitem__)
    kind, sign = KINDS[worst]
    alike = sum(ready.verdict is worst for ready in rest)
    return kind, f"{sign} {alike} of {len(rest)}"


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
