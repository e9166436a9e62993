"""Every fact of a report stands in each of its forms: text, page and sheets, in the part that is of
it and of its cluster. What another cluster or part says does not count."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from csv import DictReader
from dataclasses import fields, is_dataclass, replace
from datetime import date, datetime, timedelta
from enum import Enum
from io import StringIO
from typing import Any

import pytest

from featurelib.config.fleet import FleetPart
from featurelib.extras.exports.sheets import OF_CLUSTERS, WHOLE, Sheet, render_sheet
from featurelib.feature import Severity
from featurelib.view.html import render_html
from featurelib.view.layout import UNWRAPPED
from featurelib.view.model import Level, Range, Report, ReportedCluster, SupportedRange
from featurelib.view.report import narrow
from featurelib.view.text import render_text
from featurelib.words import time_text
from tests.report.forms import HEAD, TABLE, Places, places_of_page, places_of_text
from tests.report.samples import report_samples

FOUND = (*(severity.value for severity in Severity), "do", "run", "muted")
BACK = "Downgrades, and releases that can register"
PLOTS = "Who supports what"
# Where the page and the text have a field of a cluster; a row of "*" is one unit: a table's row, a
# line, a picture.
OF_CLUSTER: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("id", "name", "verdict", "phase", "mode"), (HEAD, HEAD)),
    **dict.fromkeys(("release", "newest_release", "finalized_release"), (HEAD, HEAD)),
    **dict.fromkeys(("owner", "contact", "labels"), (HEAD, "owner")),
    "managed_by": (HEAD, "managed"),
    "newest_line": (HEAD, HEAD),
    "collect": (f"{HEAD}|Findings", "run"),
    "summary": (HEAD, TABLE),
    "severity": ("grid", "|".join(FOUND)),
    "readiness": ("*Verdicts", "*levels"),
    "readiness.downgrade_floor": (f"Verdicts|{BACK}|{PLOTS}", "levels|plan|rollback"),
    "readiness.point_of_no_return": (f"{BACK}|{PLOTS}", "plan|rollback"),
    "findings": ("Findings|Muted", "|".join(FOUND)),
    "findings.finalized": ("Findings|Muted|Verdicts", "|".join((*FOUND, "levels"))),
    "findings.source": ("What the codes mean", "|".join(FOUND)),
    "incompatible": ("Findings|Muted", "|".join(FOUND)),
    "steps": ("*Plan", "*plan"),
    "steps.upgrade_type": ("Plan", "plan"),
    "steps.managed_by": ("Plan", "plan"),
    "returns": (f"{BACK}|{PLOTS}|Plan", "plan"),
    "plan_file": ("Plan", "plan"),
    **dict.fromkeys(("commands", "owner_command"), ("Plan", "run")),
    "joining": (BACK, "plan|rollback"),
    "profiles": (f"*{PLOTS}", "*nodes"),
    "history": ("*History of finalized levels", "*history"),
}
# Parts of the whole, and where the page and the text have them.
OF_WHOLE: dict[str, tuple[str, str]] = {
    "today": ("Today", "Today"),
    "causes": ("*What holds the fleet back", "What holds the fleet back most"),
    "mutes": ("*Mutes", "*Mutes"),
    "change": ("Since the run before", "Since the run before"),
    **dict.fromkeys(("run", "runs"), ("", "")),  # anywhere but with a cluster
}
# Facts of the JSON that another form says otherwise, with the reason.
OTHERWISE = {
    "clusters.findings.remedy": "its action has these parts, and nodes between them",
    "clusters.findings.line_id": "its file and number stand there",
    "clusters.findings.line": "findings that say the same lend the evidence of the first",
    "clusters.findings.observed_at": "findings that say the same lend the evidence of the first",
    "clusters.joining.now": "releases that follow each other are a span",
    "clusters.joining.afterwards": "releases that follow each other are a span",
    "causes.code": "its title is made of it",
    "change.verdicts.severity": "what is critical is said there; the rest is with the cluster",
    "clusters.key": "the id is there to be shown",
    "runs.as_of": "a trend names its first night and its last",
    "today.clusters": "names stand for keys",
    "causes.unlocked": "names stand for keys",
    "change.verdicts.key": "names stand for keys",
    "change.levels.key": "names stand for keys",
    "change.levels.seen": "what moved since the night before was seen this night",
    "change.silent.key": "names stand for keys",
    "change.critical": "a tile counts them",
}


def facts(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text, level, range and time of a report, as people read it, with the way to it."""
    if isinstance(value, Level | Range):
        yield path, value.text
    elif isinstance(value, SupportedRange):
        low, high = value.min_version, value.max_version
        yield f"{path}.feature", value.feature
        yield path, str(low) if low == high else f"{low}-{high}"
    elif isinstance(value, datetime):
        yield path, time_text(value)
    elif isinstance(value, date):
        yield path, value.isoformat()
    elif isinstance(value, str) and value:
        yield path, str(value)
    elif isinstance(value, tuple):
        for one in value:
            yield from facts(one, path)
    elif is_dataclass(value):
        for field in fields(value):
            yield from facts(getattr(value, field.name), f"{path}.{field.name}".lstrip("."))


def is_in(fact: str, units: Iterable[str]) -> bool:
    plain = re.sub(r"\s+", " ", fact).replace("–", "-").lstrip("; ")
    whole = re.compile(rf"(?<![\w.]){re.escape(plain)}(?!\w)", re.IGNORECASE)
    return any(whole.search(unit) for unit in units)


def missing(value: object, path: str, name: str, rule: str, places: Places) -> set[tuple[str, str]]:
    """The facts that no place of the rule has; with "*" a unit has all of a row."""
    parts = rule.lstrip("*").split("|")
    units = [unit for part in parts for unit in places.get((name, part), ())]
    if rule == "":
        units = [unit for (of, _), some in places.items() if not of for unit in some]
    said = [(way, fact) for way, fact in facts(value, path) if way not in OTHERWISE]
    if not rule.startswith("*"):
        return {(way, fact) for way, fact in said if not is_in(fact, units)}
    lacks = [{(way, fact) for way, fact in said if not is_in(fact, [unit])} for unit in units]
    return min(lacks, key=len, default=set(said))


def rows_of(value: object, path: str) -> Iterator[tuple[str, object]]:
    """The rows of a field, and apart from them fields of a row that have a place of their own."""
    for row in value if isinstance(value, tuple) else (value,):
        own = [field for field in OF_CLUSTER if field.startswith(f"{path}.")]
        names = [field.partition(".")[2] for field in own]
        if is_dataclass(row) and not isinstance(row, type):
            for field, name in zip(own, names, strict=True):
                yield field, getattr(row, name)
            row = replace(row, **dict.fromkeys(names))
        yield path, row


def lacking(report: Report, places: Places, of: str) -> set[tuple[str, str]]:
    """What a form lacks of a report."""
    form = [*FORMS].index(of)
    found = set[tuple[str, str]]()
    for field, rules in OF_WHOLE.items():
        value = getattr(report, field)
        for row in value if isinstance(value, tuple) else (value,):
            found |= missing(row, field, "", rules[form], places)
    for cluster in report.clusters:
        is_told = cluster.needs_person or any(one.muted for one in cluster.findings)
        if form == 1 and not is_told:
            found |= in_table(cluster, places)
            continue
        here = dict(places)
        for (name, part), units in places.items():
            if not name and part in ("grid", TABLE):
                here[cluster.name, part] = [unit for unit in units if is_in(cluster.name, [unit])]
            elif not name and part == "What the codes mean":
                here[cluster.name, part] = units
        for field in fields(cluster):
            if field.name in ("key", "nodes", "needs_person"):
                continue
            value = getattr(cluster, field.name)
            if field.name == "returns":  # of what nobody can tell, nobody tells
                value = tuple(b for b in value if b.downgrade_floor or b.point_of_no_return)
            if field.name == "profiles" and form == 0:  # a picture is of one feature
                value = tuple(one for profile in value or () for one in profile.ranges or ())
            for path, row in rows_of(value, field.name):
                rule = OF_CLUSTER[path][form]
                found |= missing(row, f"clusters.{path}", cluster.name, rule, here)
    return found


def in_table(cluster: ReportedCluster, places: Places) -> set[tuple[str, str]]:
    """What lacks of a cluster that nobody has to act on: it is one line of the text."""
    about = ("name", "verdict", "phase", "summary", "release", "newest_release", "id")
    rows = places["", TABLE]
    at = next(i for i, row in enumerate(rows) if f" {cluster.name} " in row)
    lines = [" ".join(rows[at : at + 3])]
    said = [
        (f"clusters.{name}", fact) for name in about for _, fact in facts(getattr(cluster, name))
    ]
    return {(way, fact) for way, fact in said if not is_in(fact, lines)}


def whole() -> Report:
    said = report_samples()
    return replace(
        said, clusters=tuple(c if c.steps else replace(c, plan_file=None) for c in said.clusters)
    )


FORMS: dict[str, Callable[[Report], Places]] = {
    "page": lambda report: places_of_page(render_html(report)),
    "text": lambda report: places_of_text(render_text(report, width=UNWRAPPED, limit=0)),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_fact_stands_in_its_part_of_its_cluster(form: str) -> None:
    """The page and the text are made of the report alone, so nothing in them is missing in the
    JSON. Numbers are held to each other by test_metamorphic."""
    report = whole()
    assert lacking(report, FORMS[form](report), form) == set()


MARK = "~not there~"


def strangers(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The value once for each fact in it, with another one in its place; and the way to it."""
    other: Any = None
    if isinstance(value, Enum):
        other = next(one for one in type(value) if one is not value)
    elif isinstance(value, Level | Range):
        other = replace(value, text=MARK)
    elif isinstance(value, date):
        other = value + timedelta(days=9999)
    elif isinstance(value, str) and value:
        other = MARK
    elif isinstance(value, tuple):
        for at, one in enumerate(value):
            for way, changed in strangers(one, path):
                yield way, (*value[:at], changed, *value[at + 1 :])
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            inner = f"{path}.{field.name}".lstrip(".")
            for way, changed in strangers(getattr(value, field.name), inner):
                yield way, replace(value, **{field.name: changed})
    if other is not None:
        yield path, other


@pytest.mark.parametrize("form", FORMS)
def test_a_fact_that_a_form_has_not_is_missed(form: str) -> None:
    names = ("k41-forgotten", "refused-35", "not-landed", "k37-forgotten", "mixed-42-39")
    ids = frozenset(cluster.key for cluster in whole().clusters if cluster.name in names)
    report = narrow(whole(), FleetPart(text="these", options="", ids=ids, unlisted=None))
    places = FORMS[form](report)
    assert lacking(report, places, form) == set()
    changed = dict[str, Report]()
    for way, other in strangers(report):
        changed.setdefault(way, other)
    known = {way for way in changed if way.partition(".")[0] in {*OF_WHOLE, "clusters"}}
    # The name is how the parts of a cluster are found; numbers of a range are in no text of it.
    known -= {*OTHERWISE, "clusters.name"}
    known = {way for way in known if MARK in str(changed[way]) or "_at" in way or ".at" in way}
    assert len(known) > 50
    assert {way for way in known if not lacking(changed[way], places, form)} == set()


@pytest.mark.parametrize("form", FORMS)
def test_what_another_cluster_says_does_not_count(form: str) -> None:
    report = whole()
    one, other = "k41-forgotten", "k37-forgotten"
    turned = {one: other, other: one}
    places = FORMS[form](report)
    moved = {(turned.get(name, name), part): units for (name, part), units in places.items()}
    ways = {way for way, _ in lacking(report, moved, form)}
    assert {"clusters.id", "clusters.owner", "clusters.readiness.finalized"} <= ways
    assert {"clusters.findings.message", "clusters.steps.to_level", "clusters.history.at"} <= ways


def test_every_fact_stands_in_its_row_of_its_sheet() -> None:
    report = report_samples()
    sheets = {sheet: [*DictReader(StringIO(render_sheet(report, sheet)))] for sheet in Sheet}
    expected = dict[str, list[Any]]()
    for sheet, (_, field) in WHOLE.items():
        expected[sheet] = [*getattr(report, field)]
    for sheet, (_, field) in OF_CLUSTERS.items():
        expected[sheet] = [row for c in report.clusters for row in getattr(c, field) or ()]
    elsewhere = {field: () for _, field in OF_CLUSTERS.values()}
    expected["clusters"] = [replace(one, **elsewhere, key="") for one in expected["clusters"]]
    del expected["ranges"]  # a row of it is one feature of a profile: all_forms_count_the_same
    for sheet, values in expected.items():
        for value, row in zip(values, sheets[Sheet(sheet)], strict=True):
            cells = [
                re.sub(r"^(\S{10})T(\d\d:\d\d):.*", r"\1 \2 UTC", cell) for cell in row.values()
            ]
            lost = [
                (way, fact)
                for way, fact in facts(value, sheet)
                if way != "findings.remedy" and not is_in(fact, cells)
            ]
            assert lost == []
