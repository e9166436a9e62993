"""Hold the facts that a report needs and that the run's tables do not have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from featurelib.audit.findings import NO_SITE
from featurelib.config.fleet import FleetEntry
from featurelib.view.model import Ingest


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """The facts of a run that its tables lack. `newest`: the time of the newest line, and
    `max_age`: the age from which data does not count; microseconds, 0 = unknown. `release`:
    featurelib's. `quarantine`: the number of quarantined lines, and place, reason and cluster of
    the first ones."""

    release: str = ""
    ingest: Ingest | None = None
    newest: int = 0
    max_age: int = 0
    tables: str = ""
    out: str = ""
    quarantine: tuple[int, Iterable[tuple[str, str, str | None]]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """The paths and options in a report. `plan_files`: cluster id → path of its plan. `find_line`:
    line id → `file:line`, None if unknown. `ways`: inventory entry → options of a plan command.
    `places`: the folder that collectors write to, and the inventory's file."""

    plan_files: Mapping[str, str] = field(default_factory=dict)
    find_line: Callable[[int], str | None] = lambda line_id: None
    ways: Callable[[FleetEntry], str] = lambda entry: ""
    places: tuple[str, str] = (NO_SITE.landing, NO_SITE.inventory)
