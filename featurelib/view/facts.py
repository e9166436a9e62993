"""Hold the facts that a report needs and that the run's tables do not have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from featurelib.audit.findings import NO_SITE
from featurelib.config.fleet import FleetEntry
from featurelib.view.model import Ingest


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """The facts of a run that its tables lack. `newest`: time of the newest line; `max_age`: limit
    for old data, microseconds, 0 = unknown; `release`: of featurelib; `quarantine`: number of
    quarantined lines, and (place, reason, cluster) of the first ones."""

    release: str = ""
    ingest: Ingest | None = None
    newest: int = 0
    max_age: int = 0
    tables: str = ""
    out: str = ""
    quarantine: tuple[int, Iterable[tuple[str, str, str | None]]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """The paths and options in a report. `plan_files`: cluster id → plan's path; `find_line`: line
    id → `file:line` or None; `ways`: inventory entry → options of a plan command; `places`:
    (landing folder, inventory file)."""

    plan_files: Mapping[str, str] = field(default_factory=dict)
    find_line: Callable[[int], str | None] = lambda line_id: None
    ways: Callable[[FleetEntry], str] = lambda entry: ""
    places: tuple[str, str] = (NO_SITE.landing, NO_SITE.inventory)
