"""Render the report as pages: one self-contained file, and a page for each cluster that this file
only lists. Render range plots as pictures.

No network or script is needed; the templates escape every text. The one file has the most urgent
clusters in full. A picture has its own colours and styles, so a notebook shows it unchanged.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from html import escape
from importlib import resources
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from featurelib import words
from featurelib.config.fleet import Choice, Fleet
from featurelib.errors import ConfigError
from featurelib.feature import METADATA_VERSION, Severity, Verdict, release_number
from featurelib.planning.files import file_names
from featurelib.view import digest, model, today, trend
from featurelib.view import words as sentences
from featurelib.view.digest import warns
from featurelib.view.plot import BARS, Plot, draw
from featurelib.view.prometheus import render_prometheus
from featurelib.view.report import IN_FULL, MOST, narrow
from featurelib.view.trend import HEIGHT, gather_levels, gather_moves, setbacks
from featurelib.view.trend import WIDTH as LONG
from featurelib.words import code_text, metadata_first

# The most clusters with a plot on the fleet's page; others have a plot on their own page.
PLOTS = 8
FOLDER = "clusters"
PAGE, UP = "report.html", "../"
HOME = f"{UP}{PAGE}"  # the link from the page of a cluster or of a part to the fleet's page
# Widths of a plot and of the part with bars: as wide as a phone, so that texts stay legible.
WIDTH, LEFT, RIGHT = 360, 14, 346
DIGIT = 7.5  # the width of a digit on the axis
LINEAR = 40  # with more levels than this, a plot marks only the ends of bars
COLUMNS = 10  # Maximum number of features with a column in the table of clusters
FEW = 4  # Maximum number of clusters that a cause or a change names; a filter shows all


def render_html(
    report: model.Report, *, parts: Sequence[PartPage] = (), whole: model.Report | None = None
) -> str:
    """Return the fleet's page as HTML. `parts`: further pages to link; `whole`: the report of the
    whole fleet, for a page about a part."""
    root, full_report = UP if whole else "", whole or report
    keys = (cluster.key for cluster in full_report.clusters)
    names = dict(zip(keys, page_names(full_report), strict=True))
    places = _places(report, names, root)
    moves = gather_moves(report.change) + gather_levels(report.change) if report.change else []
    groups = _groups(report, moves)
    large = {
        name: [title for title, keys in group.items() if keys[FEW:] and places.keys() & keys]
        for name, group in groups.items()
    }
    return _template("report.html.j2").render(
        report=report,
        few=FEW,
        groups=groups,
        large=large,
        marks=_all_marks(report, groups, large),
        loud=_clusters_to_check(report),
        scales=draw_scales(report),
        **_columns(report),
        in_full=IN_FULL,
        places=places,
        pages=len(full_report.clusters) > IN_FULL
        and [f"{root}{FOLDER}/{names[cluster.key]}" for cluster in report.clusters],
        parts=parts,
        names={c.key: c.name for _, moved in moves for c in moved}
        | {cluster.key: cluster.name for cluster in report.clusters},
        home="",
        script=_text("page.js"),
    )


Groups = dict[str, dict[str, list[str]]]  # filter → title → the keys of clusters
Changed = Sequence[
    tuple[str, Sequence[model.ChangedVerdict | model.ChangedLevel | model.ChangedNodes]]
]


def _groups(report: model.Report, moves: Changed) -> Groups:
    """Return filter → title → keys of the clusters, for each cause and change."""
    by_name = Counter(c.name for c in report.clusters)  # two clusters with one name get no link
    keyed = {cluster.name: cluster.key for cluster in report.clusters if by_name[cluster.name] == 1}
    held = {cause.title: [keyed.get(name, name) for name in cause.held] for cause in report.causes}
    texts = defaultdict[tuple[str, ...], list[str]](list)  # one line for equal lists of clusters
    for text, clusters in moves:
        texts[tuple(cluster.key for cluster in clusters)].append(text)
    return {"cause": held, "change": {"; ".join(texts[keys]): [*keys] for keys in texts}}


def _all_marks(
    report: model.Report, groups: Groups, large: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, str]]:
    """Return filter → cluster → numbers of its groups, as text."""
    marks = {name: _marks(groups[name][title] for title in large[name]) for name in groups}
    movable = [cluster.key for cluster in report.clusters if cluster.steps]
    return marks | {"todo": _marks([*(task.clusters for task in report.today), movable])}


def _columns(report: model.Report) -> dict[str, Any]:
    """Return the feature columns for the table of clusters, and the values of the filters."""
    spread = Counter(ready.feature for cluster in report.clusters for ready in cluster.readiness)
    features = sorted(spread, key=lambda name: (metadata_first(name)[0], -spread[name], name))
    verdicts = report.change.verdicts if report.change else ()
    software = {name for c in report.clusters for name in digest.software_text(c).split(" to ")}
    owners = {cluster.owner or "" for cluster in report.clusters}
    return {
        "moved": {c.key: c for c in verdicts if c.before is not c.after},
        "features": features[:COLUMNS],
        "others": len(features) > COLUMNS,
        "phases": [phase for phase, n in report.fleet.clusters_by_phase.items() if n],
        "releases": sorted(software - {""}, key=release_number),
        "bars": count_releases(report),
        "unowned": "" in owners,
        "owners": sorted(owners - {""}),
    }


def count_releases(report: model.Report) -> list[tuple[str, int, int]]:
    """Return (release, number of clusters with it as oldest software, number that finalized it)."""
    software = Counter(cluster.release or "" for cluster in report.clusters)
    finalized = Counter(cluster.finalized_release or "" for cluster in report.clusters)
    names = sorted({*software, *finalized} - {""}, key=release_number)
    return [(name, software[name], finalized[name]) for name in names]


def draw_scales(report: model.Report) -> dict[str, tuple[int, int]]:
    """Return cluster key → positions of metadata.version and its target on a scale, in percent."""
    levels = dict[str, tuple[int, int]]()
    for cluster in report.clusters:
        for ready in cluster.readiness:
            if ready.feature == METADATA_VERSION and ready.finalized:
                is_kept = ready.verdict is Verdict.BLOCKED
                scales = [
                    finding.level.number
                    for finding in cluster.findings
                    if finding.level and finding.feature == ready.feature
                ]
                target = [ready.target.number] if ready.target else scales * is_kept
                level = ready.finalized.number
                levels[cluster.key] = level, max(level, *target, 0)
    newest = max((target for _, target in levels.values()), default=0)
    # The fleet's lowest level is at one fifth of the scale, so that small differences are visible.
    least = min((level for level, _ in levels.values()), default=0)
    wide = max(newest - least, 1)
    return {
        key: (20 + 80 * (level - least) // wide, 20 + 80 * (target - least) // wide)
        for key, (level, target) in levels.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class PartPage:
    """A page about the clusters of an owner or view."""

    name: str
    report: model.Report


def pages_of(
    report: model.Report,
    fleet: Fleet,
    listed_in: str,
    say: Callable[[str], None],
    keeps: Callable[[str, str], bool] | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield (file name, text) of every page of a report. `keeps`: see render_pages."""
    parts = part_pages(report, fleet, listed_in, say)
    yield PAGE, render_html(report, parts=parts)
    yield "report.prom", render_prometheus(report)
    yield from render_pages(report, most=MOST, keeps=keeps)
    for page in parts:
        yield page.name, render_html(page.report, whole=report)


OWNERS, VIEWS = "owners", "views"  # the folders of pages for owners and views
NOBODY = "\0"  # the name of no owner


def part_pages(
    report: model.Report, fleet: Fleet, listed_in: str, say: Callable[[str], None]
) -> list[PartPage]:
    """Return a page per owner and view, and one for clusters without owner. Print the names of
    empty views."""
    owners = {owner: Choice(owner=[owner]) for owner in fleet.owners}
    if owners:
        owners[NOBODY] = Choice(owner=[""])
    pages = []
    for folder, choices in (
        (OWNERS, owners),
        (VIEWS, {view.name: Choice(view=view.name) for view in fleet.view}),
    ):
        names = html_names(choices, {NOBODY: "nobody"}, folder.removesuffix("s"))
        for name, choice in zip(names, choices.values(), strict=True):
            try:
                part = fleet.choose(choice, listed_in)
            except ConfigError as error:
                say(f"warning: {error} It has no page.")
                continue
            part_report = narrow(report, part) if part else report
            if part_report.clusters:
                pages.append(PartPage(name=f"{folder}/{name}", report=part_report))
    return pages


def explain_codes(report: model.Report) -> list[tuple[model.ReportedFinding, list[str]]]:
    """Return, per finding code, an example and the keys of all clusters with this code."""
    by_code: dict[str, tuple[model.ReportedFinding, list[str]]] = {}
    for cluster in report.clusters:
        for finding in cluster.findings:
            by_code.setdefault(finding.code, (finding, []))[1].append(cluster.key)
    return [by_code[code] for code in sorted(by_code)]


def render_pages(
    report: model.Report, *, most: int, keeps: Callable[[str, str], bool] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of the page of each of the worst clusters; none if the fleet's page has
    all.

    `keeps` is called with the name of a page and a digest of its content without the run. It
    returns True if an earlier run wrote the same page.
    """
    if len(report.clusters) <= IN_FULL:
        return
    values = {"report": report, "home": HOME, "loud": (alerts := _clusters_to_check(report))}
    run_facts = (report.run.release, report.run.dialect, report.run.catalogue, report.run.tables)
    page = _template("one.html.j2")
    for cluster, name in list(zip(report.clusters, page_names(report), strict=True))[:most]:
        content = msgspec.json.encode((run_facts, cluster.key in alerts, cluster))
        if keeps is None or not keeps(f"{FOLDER}/{name}", sha256(content).hexdigest()):
            yield f"{FOLDER}/{name}", page.render(values, cluster=cluster)


def render_figure(plot: Plot) -> str:
    """Return a range plot as a self-contained SVG document."""
    return _template("figure.svg.j2").render(plot=plot)


class Scale:
    """The horizontal positions of levels in a plot."""

    def __init__(self, levels: Sequence[int]) -> None:
        low, high = levels[0], levels[-1]
        ranked = levels if high - low > LINEAR else range(low, high + 1)
        self._places = {level: float(index) for index, level in enumerate(ranked)}

    def at(self, level: int, part: float = 0.5) -> float:
        """Return the position of a level in a plot. `part`: 0 = left end, 1 = right end."""
        offset = (self._places[level] + part) / len(self._places)
        return round(LEFT + (RIGHT - LEFT) * offset, 1)

    def bar(self, low: int, high: int) -> tuple[float, float]:
        """Return (start, width) of the bar for a range."""
        begin = self.at(low, 0)
        return begin, round(self.at(high, 1) - begin, 1)


def ticks(plot: Plot, scale: Scale) -> list[int]:
    """Return the levels to label on a plot's axis: those with marks, then others if they fit."""
    lines = [mark.level for mark in plot.marks]
    labelled: list[int] = []
    for level in (*lines, *plot.levels):
        wide = DIGIT / 2 * len(str(level))
        rooms = ((abs(scale.at(level) - scale.at(n)), DIGIT / 2 * len(str(n))) for n in labelled)
        if all(distance >= wide + width for distance, width in rooms):
            labelled.append(level)
    return sorted(labelled)


def html_names(
    ids: Iterable[str], titles: Mapping[str, str] | None = None, of: str = "cluster"
) -> list[str]:
    """Return a safe file name per id for HTML pages. `of`: the type of the ids."""
    return [name.removesuffix(".json") + ".html" for name in file_names(ids, titles, of)]


def page_names(report: model.Report) -> list[str]:
    """Return a safe file name for the page of each cluster."""
    return html_names(cluster.key for cluster in report.clusters)


def _places(report: model.Report, names: Mapping[str, str], root: str) -> dict[str, str]:
    """Return cluster key → link to its details: an anchor, or its own page."""
    places = {}
    for row, cluster in enumerate(report.clusters):
        name = names[cluster.key]
        anchor = f"#cluster-{name.removesuffix('.html')}"
        places[cluster.key] = anchor if row < IN_FULL else f"{root}{FOLDER}/{name}"
    return places


def _clusters_to_check(report: model.Report) -> set[str]:
    """Return the keys of clusters with a warning, a downgrade or a rollback."""
    warned = {cluster.key for cluster in report.clusters if warns(cluster)}
    fallen = setbacks(report.clusters, report.change)
    return warned | {c.key for clusters_fallen in fallen.values() for c in clusters_fallen}


def _marks(groups: Iterable[Iterable[str]]) -> dict[str, str]:
    """Return cluster key → numbers of the groups that contain it, as text `1 4`."""
    marks = defaultdict[str, list[str]](list)
    for number, keys in enumerate(groups, start=1):
        for key in keys:
            marks[key].append(str(number))
    return {key: " ".join(numbers) for key, numbers in marks.items()}


def name_tasks(report: model.Report) -> list[str]:
    """Return the names of the filter's tasks: the verb, and the code if the verb is not unique."""
    verbs = Counter(task.verb for task in report.today)
    codes = [code_text(next(iter(task.codes), "no_finding")) for task in report.today]
    pairs = zip(report.today, codes, strict=True)
    return [f"{t.verb}: {code}" if verbs[t.verb] > 1 else t.verb for t, code in pairs]


def _within(plots: Sequence[Plot]) -> list[Plot]:
    """Return the plots that fit on the fleet's page. Others appear on the clusters' own pages."""
    inside: list[Plot] = []
    bars = 0
    for plot in plots:
        if len(inside) < PLOTS and bars + len(plot.bars) <= BARS:
            inside.append(plot)
            bars += len(plot.bars)
    return inside


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("featurelib.view", "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Functions that templates use.
    functions = (of for module in (digest, sentences, trend, words) for of in vars(module).items())
    environment.globals.update(
        {name: of for name, of in functions if callable(of) and not name.startswith("_")},
        explain_codes=explain_codes,
        name_tasks=name_tasks,
        MOST=today.MOST,
        draw=draw,
        ticks=ticks,
        Scale=Scale,
        within=_within,
        METADATA_VERSION=METADATA_VERSION,
        by_feature=lambda cluster: {ready.feature: ready for ready in cluster.readiness},
        verdicts=list(Verdict),
        severities=list(Severity),
        SEVERITY_RANK=model.SEVERITY_RANK,
        VERDICT_RANK=model.VERDICT_RANK,
        left=LEFT,
        right=RIGHT,
        width=WIDTH,
        trend_size=(LONG, HEIGHT),
        style="".join(map(_text, ("colours.css", "style.css", "plot.css"))),
        figure_style="".join(map(_text, ("colours.css", "plot.css"))),
    )
    # A name may continue on a new line after each of its dots.
    environment.filters["breakable"] = lambda name: Markup(".<wbr>").join(name.split("."))
    return environment


def compile_templates() -> None:
    """Prepare the templates of the pages before the first report."""
    for name in ("layout.html.j2", "cluster.html.j2", "charts.html.j2", "report.html.j2"):
        _template(name)


def _template(name: str) -> Template:
    return _environment().get_template(name)


@cache
def _text(name: str) -> str:
    return resources.files("featurelib.view").joinpath("pages", name).read_text("utf-8")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RangePlot:
    """The range plots of one cluster, as text and, in a program that shows HTML, as pictures.

    Each feature has a track of levels: a bar for each supported range, and lines for the finalized
    level, the target, and the maximum level of the software (ceiling).
    """

    title: str
    plots: tuple[Plot, ...]

    def svg(self, feature: str) -> str:
        """Return the plot of a feature as SVG document. Raises KeyError if there is none."""
        return render_figure({plot.feature: plot for plot in self.plots}[feature])

    def __str__(self) -> str:
        lines = [f"{plot.feature}: {plot.words}" for plot in self.plots]
        return "\n".join([self.title, *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<h4>{escape(self.title)}</h4>" + "".join(map(_plot_image, self.plots))


def _plot_image(plot: Plot) -> str:
    content = b64encode(render_figure(plot).encode()).decode("ascii")
    alt = escape(f"{plot.feature}: {plot.words}", quote=True)
    return (
        f'<figure style="margin: 0.6em 0"><figcaption>{escape(plot.feature)}</figcaption>'
        f'<img alt="{alt}" src="data:image/svg+xml;base64,{content}" style="max-width: 100%">'
        "</figure>"
    )
