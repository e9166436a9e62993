"""What the nightly and the audit share: their options, where things are, and the end of a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pyarrow.compute as pc
import typer

from featurelib.catalogue import load as load_catalogue
from featurelib.cli.entrance import say
from featurelib.core.audit import Judged
from featurelib.core.dialect import load as load_dialect
from featurelib.errors import ConfigError, LandingError, NoEvidenceError
from featurelib.feature import Severity
from featurelib.fleet import Fleet, parse_fleet
from featurelib.planfile import file_names
from featurelib.report import (
    Ingest,
    Report,
    RunInfo,
    render_json,
    render_text,
    summarize,
    write_text,
)
from featurelib.settings import Settings, parse_settings
from featurelib.tables import ALL, Table
from featurelib.tables.bronze import LANDING_LINE

if TYPE_CHECKING:
    from featurelib.spark.ingest import IngestCounts
    from featurelib.spark.store import Store

REPOSITORY = Path(__file__).parents[2]
SAMPLES = REPOSITORY / "data" / "samples"
SAMPLE_BUILD = REPOSITORY / "build" / "samples"
NEWEST = "newest"
LANDING_NAMES = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz", ".json", ".json.gz")
DIALECT = "strict"

LandingOrSamples = Annotated[
    str | None,
    typer.Option("--landing", help="Folder or URI of the landing files. Default: the samples."),
]
TablesOrSamples = Annotated[
    str | None,
    typer.Option("--tables", help="Folder or URI of the Delta tables. Needed with --landing."),
]
Out = Annotated[
    str | None,
    typer.Option("--out", help="Folder or URI for report.txt, report.json and plans/."),
]
FleetFile = Annotated[
    str | None,
    typer.Option("--fleet", help="The inventory. Default: conf/fleet.toml; samples: their own."),
]
Config = Annotated[
    str | None,
    typer.Option("--config", help="How to judge. Default: conf/audit.toml."),
]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        help="Judge ages as of this time (ISO-8601, UTC), or 'newest' for the newest line. "
        "Default: now; samples: newest.",
    ),
]
FailOn = Annotated[
    Severity | None,
    typer.Option(
        "--fail-on", help="Exit code 1 if a finding is this severe or more. Default: off."
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=0, help="Rows of the report; 0 = all.")]
RunNumber = Annotated[
    int | None,
    typer.Option("--run", help="Number of this run, yyyymmddHHMMSS. Default: now, in UTC."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where a run reads and writes, and what it judges by. `as_of` None = the newest line."""

    landing: str
    tables: str
    out: str | None
    fleet: Fleet
    settings: Settings
    as_of: int | None


def choose_places(
    landing: str | None,
    tables: str | None,
    out: str | None,
    fleet: str | None,
    config: str | None,
    as_of: str | None,
) -> Places:
    """Options and their defaults made one. Raises ConfigError for what cannot be used."""
    samples = landing is None
    if samples and tables is None:
        tables, out = str(SAMPLE_BUILD / "tables"), out or str(SAMPLE_BUILD / "out")
    if tables is None:
        raise ConfigError(
            f"--tables: expected a folder or URI beside --landing {landing}, found none. "
            "Add --tables FOLDER; it is made if it is not there."
        )
    if landing:
        expect_folder(landing)
    if out is not None:
        _expect_no_file(out)
    inventory = SAMPLES / "fleet.toml" if samples else REPOSITORY / "conf" / "fleet.toml"
    rules = REPOSITORY / "conf" / "audit.toml"
    return Places(
        landing=str(SAMPLES) if landing is None else landing,
        tables=tables,
        out=out,
        fleet=parse_fleet(*_read(fleet, inventory)),
        settings=parse_settings(*_read(config, rules)),
        as_of=_time(NEWEST if samples and as_of is None else as_of),
    )


def expect_folder(landing: str) -> None:
    """Before Spark is started: LandingError for a local folder that is not there, NoEvidenceError
    for one without a single landing file."""
    path = landing.removeprefix("file://").removeprefix("file:")
    if "://" in path:
        return
    if not Path(path).exists():
        raise LandingError(
            f"landing {landing}: there is no such folder or file; nothing was written. "
            "Name the folder that holds the landing files with --landing."
        )
    if Path(path).is_dir() and not any(_landing_files(path)):
        raise NoEvidenceError(
            f"landing {landing}: expected files {', '.join(LANDING_NAMES)}, found none; nothing "
            "was written. Run `featurelib collect` first, or name another folder with --landing."
        )


def _landing_files(path: str) -> Iterator[str]:
    for _, _, names in os.walk(path, followlinks=True):
        yield from (name for name in names if name.endswith(LANDING_NAMES))


def expect_tables(store: Store) -> None:
    """TableError for a table of another release or schema, before the first one is written."""

    def check(table: Table) -> None:
        if store.exists(table):
            store.check(table)

    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(check, ALL))


def _expect_no_file(out: str) -> None:
    path = Path(out.removeprefix("file://").removeprefix("file:"))
    if path.exists() and not path.is_dir():
        raise ConfigError(f"--out {out}: expected a folder, found a file. Name a folder.")


def _read(named: str | None, usual: Path) -> tuple[str, str]:
    """Text and name of a configuration file; one that nobody named may be missing."""
    path = Path(named) if named is not None else usual
    if named is None and not path.exists():
        return "", str(path)
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}). Name another file.") from error


def _time(text: str | None) -> int | None:
    if text == NEWEST:
        return None
    if text is None:
        return int(datetime.now(UTC).timestamp() * 1_000_000)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(
            f"--as-of {text}: expected a time as 2026-11-21T06:00:00Z, or {NEWEST!r}."
        ) from error
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1_000_000)


def judge_and_publish(
    store: Store,
    places: Places,
    run: int,
    fail_on: Severity | None,
    limit: int,
    counts: IngestCounts | None,
) -> int:
    """The audit, its files, its report on stdout, and the exit code."""
    from featurelib.spark.audit import audit, locate_lines

    audited = audit(
        store,
        places.fleet,
        run=run,
        as_of=places.as_of,
        max_age=places.settings.max_age,
        severities=places.settings.severities,
        say=say,
    )
    store.maintain(LANDING_LINE, places.settings.retention_days, places.settings.vacuum)
    plans = plan_files(audited.judged)
    lines = locate_lines(store, audited.judged.findings)
    report = summarize(
        audited.judged,
        RunInfo(number=run, as_of=audited.as_of, release=audited.release, ingest=_ingest(counts)),
        load_catalogue(),
        load_dialect(DIALECT),
        names=places.fleet.names,
        plan_files={cluster: f"plans/{name}" for cluster, (name, _) in plans.items()},
        find_line=lines.get,
    )
    if places.out is not None:
        publish(store, places.out, report, dict(plans.values()))
    write_text(report, sys.stdout, limit=limit)
    return int(fail_on is not None and _is_reached(fail_on, audited.judged))


def plan_files(judged: Judged) -> dict[str, tuple[str, str]]:
    """By cluster with steps: the name of its plan file, and its text."""
    rows = zip(judged.plans["cluster"].to_pylist(), judged.plans["plan"].to_pylist(), strict=True)
    named = {cluster: text for cluster, text in rows if text is not None}
    return {c: (name, named[c]) for c, name in zip(named, file_names(list(named)), strict=True)}


def publish(store: Store, out: str, report: Report, plans: dict[str, str]) -> None:
    """Write the reports and the plan files; plans of other nights go."""
    from featurelib.spark.files import Folder

    folder = Folder(store.session, out)
    for name, text in plans.items():
        folder.write(f"plans/{name}", text)
    folder.keep_only("plans", set(plans))
    folder.write("report.json", render_json(report).decode())
    folder.write("report.txt", render_text(report, limit=0))
    say(f"report: {folder.uri}/report.txt, report.json and {len(plans)} plans in plans/")


def _ingest(counts: IngestCounts | None) -> Ingest | None:
    if counts is None:
        return None
    return Ingest(
        lines=counts.lines,
        accepted=counts.accepted,
        repeated=counts.repeated,
        quarantined=counts.quarantined,
    )


def _is_reached(fail_on: Severity, judged: Judged) -> bool:
    """Whether some finding is as severe as `fail_on`, or more."""
    order = [severity.value for severity in Severity]
    found = pc.unique(judged.findings["severity"]).to_pylist()
    return any(order.index(severity) <= order.index(fail_on.value) for severity in found)
