"""The evidence a question is asked of: a night's tables, landing files, or a live look.

Where nothing is named, a cluster that the inventory can reach is looked at; any other is looked for
in the tables of the samples, if the nightly has made them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from featurelib.catalogue import Catalogue
from featurelib.cli.entrance import say
from featurelib.cli.night import SAMPLE_BUILD, SAMPLES
from featurelib.cli.options import find_source
from featurelib.collect import landing_lines
from featurelib.config.files import open_settings
from featurelib.errors import ConfigError, NoEvidenceError, TableError
from featurelib.lake import Lake
from featurelib.questions.draft import Terms
from featurelib.source import NEWEST, RUN_TIME, Source, Wanted, open_fleet

SAMPLE_TABLES = SAMPLE_BUILD / "tables"
SAMPLE_FLEET = SAMPLES / "fleet.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One cluster, what it is judged by, and the options that chose it."""

    source: Source
    terms: Terms
    wanted: Wanted

    @property
    def name(self) -> str:
        """What the commands that follow call the cluster."""
        return self.source.entry.title or self.source.sight.cluster_id

    @property
    def ways(self) -> tuple[str, str]:
        """The options, after a blank each, with which another command asks the same evidence, and
        the same when something has changed: without what is stored, which stays as it is."""
        later = replace(self.wanted, capture=None, tables=None)
        if later != self.wanted:
            later = replace(later, as_of=None)
        return _options(self.wanted), _options(later)

    def places(self, lines: Iterable[tuple[int, int]]) -> dict[int, str]:
        """Where lines stand, as `file:line`, from their ids and when they were observed
        (microseconds); none of a live look, which is in no file."""
        known = {line: at for line, at in lines if line}
        if self.source.lake is not None:
            try:
                return self.source.lake.places(self.source.sight.cluster_id, known)
            except (NoEvidenceError, TableError):  # whoever keeps no bronze has the answer still
                return {}
        return {} if self.wanted.capture is None else _in_files(self.wanted.capture, known)


def _options(wanted: Wanted) -> str:
    options = [
        ("--capture", wanted.capture),
        ("--tables", wanted.tables),
        ("--as-of", wanted.as_of),
        ("--fleet", wanted.fleet),
        ("--config", wanted.config),
        ("--bootstrap", wanted.bootstrap),
        ("--controllers", wanted.controllers),
        ("--zookeeper", wanted.zookeeper),
        ("--file", wanted.file),
    ]
    return "".join(f" {name} {shlex.quote(value)}" for name, value in options if value)


def ask(wanted: Wanted, catalogue: Catalogue) -> Asked:
    """The evidence these options choose. Raises as find_source does."""
    chosen = _with_usual(wanted, catalogue)
    if chosen.as_of is None and chosen.tables is not None:
        chosen = replace(chosen, as_of=RUN_TIME)
    elif chosen.as_of is None and chosen.capture is not None:
        chosen = replace(chosen, as_of=NEWEST)
    source, settings = find_source(chosen, catalogue), open_settings(chosen.config)
    if source.lake is not None:
        expect_catalogue(source.lake, chosen.run, catalogue)
    terms = Terms(
        catalogue=catalogue,
        as_of=source.as_of,
        max_age=settings.max_age,
        fleet=source.fleet,
        severities=settings.severities,
    )
    return Asked(source=source, terms=terms, wanted=chosen)


def expect_catalogue(lake: Lake, run: int | None, catalogue: Catalogue) -> None:
    """Say where a night was judged with another catalogue than the one at hand."""
    night = lake.run(run)
    row = next(row for row in lake.runs.to_pylist() if row["run"] == night)
    if row["catalogue"] != catalogue.label:
        say(
            f"warning: run {night} was judged with the catalogue of {row['catalogue']}, this is "
            f"the one of {catalogue.label}. With its overlay, if it had one: --overlay FILE"
        )


def usual_tables(tables: str | None, fleet: str | None) -> tuple[str, str | None]:
    """The tables and the inventory, for what is asked of tables alone. Raises ConfigError."""
    if tables is None:
        if not SAMPLE_TABLES.is_dir():
            raise ConfigError(
                "--tables: expected the folder of the nightly's tables, found none named. Name it; "
                "`./spark-submit.sh` makes those of the samples."
            )
        tables = str(_relative(SAMPLE_TABLES))
        say(f"reading the samples' tables, {tables}; others with --tables FOLDER")
    if fleet is None and Path(tables).absolute() == SAMPLE_TABLES:
        fleet = str(_relative(SAMPLE_FLEET))
    return tables, fleet


def _with_usual(wanted: Wanted, catalogue: Catalogue) -> Wanted:
    live = (wanted.bootstrap, wanted.controllers, wanted.zookeeper, wanted.file)
    if wanted.capture is not None or any(way is not None for way in live):
        return wanted
    if wanted.tables is None and (wanted.fleet is not None or not SAMPLE_TABLES.is_dir()):
        return wanted
    if wanted.tables is None and _is_reachable(wanted, catalogue):
        return wanted
    tables, fleet = usual_tables(wanted.tables, wanted.fleet)
    return replace(wanted, tables=tables, fleet=fleet)


def _is_reachable(wanted: Wanted, catalogue: Catalogue) -> bool:
    _, fleet = open_fleet(wanted.fleet, catalogue)
    names = [entry for entry in fleet.cluster if wanted.cluster in (entry.id, entry.name)]
    return any(entry.is_reachable for entry in names)


def _relative(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _in_files(capture: str, lines: dict[int, int]) -> dict[int, str]:
    place, found = Path(capture), dict[int, str]()
    files = [place] if place.is_file() else sorted(f for f in place.rglob("*") if f.is_file())
    for file in files:
        if len(found) == len(lines):
            break
        for number, raw in enumerate(landing_lines("--capture", str(file)), start=1):
            line_id = int.from_bytes(sha256(raw).digest()[:8], "big", signed=True)
            if line_id in lines:
                found.setdefault(line_id, f"{file}:{number}")
    return found
