"""Write the report as CSV: a sheet for each part of it.

The columns are the fields of the part's type. A level has a column with its number and a column
`_text` with its name. A supported range has three columns. A cell that a spreadsheet would take for
a formula begins with an apostrophe: names of clusters, owners and features come from outside.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from datetime import date
from enum import StrEnum
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from featurelib.view.model import (
    Cause,
    IncompatibleNode,
    Level,
    Readiness,
    Report,
    ReportedCluster,
    ReportedFinding,
    ReportedMove,
    ReportedMute,
    ReportedProfile,
    ReportedReturn,
    ReportedStep,
    Task,
)
from featurelib.words import printable

FORMULA = tuple("=+-@|%＝＋－＠")
# Spreadsheets in many languages split cells at semicolons, so each part is checked.
_LATER_FORMULA = re.compile(rf"(;\s*)(?=[{re.escape(''.join(FORMULA))}])")
OF_CLUSTER = ("cluster", "name", "owner")  # columns before those of a cluster's parts
Path = tuple[str, ...]


class Sheet(StrEnum):
    """The parts of a report that are tables, named as on the command line."""

    TODAY = "today"
    CAUSES = "causes"
    CLUSTERS = "clusters"
    FEATURES = "features"
    FINDINGS = "findings"
    INCOMPATIBLE = "incompatible"
    STEPS = "steps"
    RETURNS = "returns"
    RANGES = "ranges"
    HISTORY = "history"
    MUTES = "mutes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRow:
    """The range of one feature that several nodes share; null = unknown."""

    brokers: tuple[int, ...]
    controllers: tuple[int, ...]
    feature: str | None = None
    min_version: int | None = None
    max_version: int | None = None


# The type of rows, and the field of a report with these rows.
WHOLE: dict[Sheet, tuple[type, str]] = {
    Sheet.TODAY: (Task, "today"),
    Sheet.CAUSES: (Cause, "causes"),
    Sheet.CLUSTERS: (ReportedCluster, "clusters"),
    Sheet.MUTES: (ReportedMute, "mutes"),
}
# The type of rows, and the field of a cluster with these rows.
OF_CLUSTERS: dict[Sheet, tuple[type, str]] = {
    Sheet.FEATURES: (Readiness, "readiness"),
    Sheet.FINDINGS: (ReportedFinding, "findings"),
    Sheet.INCOMPATIBLE: (IncompatibleNode, "incompatible"),
    Sheet.STEPS: (ReportedStep, "steps"),
    Sheet.RETURNS: (ReportedReturn, "returns"),
    Sheet.RANGES: (ProfileRow, "profiles"),
    Sheet.HISTORY: (ReportedMove, "history"),
}
_NOT_SHOWN = {"key", "remedy"}  # the columns `id` and `action` have their content


def render_sheet(report: Report, sheet: Sheet) -> str:
    r"""Return one part of the report as CSV with a header (RFC 4180, line ends \n)."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    kind, name = (WHOLE | OF_CLUSTERS)[sheet]
    columns = _columns(kind)
    header = ["_".join(path) for path in columns]
    if sheet in WHOLE:
        rows.writerow(header)
        rows.writerows(_cells(row, columns) for row in getattr(report, name))
    else:
        rows.writerow([*OF_CLUSTER, *header])
        for cluster in report.clusters:
            cluster_cells = [_text(value) for value in (cluster.id, cluster.name, cluster.owner)]
            values = getattr(cluster, name) or ()
            if sheet is Sheet.RANGES:
                values = [row for profile in values for row in _profile_rows(profile)]
            rows.writerows([*cluster_cells, *_cells(row, columns)] for row in values)
    return text.getvalue()


def _profile_rows(profile: ReportedProfile) -> list[ProfileRow]:
    base = ProfileRow(brokers=profile.brokers, controllers=profile.controllers)
    return [replace(base, **asdict(r)) for r in profile.ranges or ()] or [base]


@cache
def _columns(kind: type) -> tuple[Path, ...]:
    """Return the columns of a row type. Each column is the path of fields to its value."""
    paths: list[Path] = []
    hints = get_type_hints(kind)
    for field in fields(kind):
        hint = hints[field.name]
        inner = next((h for h in (hint, *get_args(hint)) if is_dataclass(h)), None)
        tuples = [part for part in (hint, *get_args(hint)) if get_origin(part) is tuple]
        if field.name in _NOT_SHOWN or any(is_dataclass(get_args(hint)[0]) for hint in tuples):
            continue  # a list of rows has its own table
        if inner is Level:
            paths += [(field.name,), (field.name, "text")]
        elif isinstance(inner, type):
            paths += [(field.name, *path) for path in _columns(inner)]
        else:
            paths.append((field.name,))
    return tuple(paths)


def _cells(row: object, columns: Sequence[Path]) -> list[str]:
    return [_text(_at(row, path)) for path in columns]


def _at(value: Any, path: Path) -> Any:
    for name in path:
        value = None if value is None else getattr(value, name)
    return value.number if isinstance(value, Level) else value


def _text(value: Any) -> str:
    """Return a value as the text of a CSV cell: "" for null; lists with semicolons."""
    if value is None:
        return ""
    if isinstance(value, int | float):
        return str(value).lower()  # also true and false
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        return _harmless(value)
    if isinstance(value, Mapping):
        value = [f"{name} = {fact}" for name, fact in value.items()]
    assert isinstance(value, Iterable), value
    return _harmless("; ".join(map(_text, value)))


def _harmless(text: str) -> str:
    """Return a text in one line that no spreadsheet evaluates as a formula."""
    safe = _LATER_FORMULA.sub(r"\1'", printable(text))
    return f"'{safe}" if safe.lstrip().startswith(FORMULA) else safe
