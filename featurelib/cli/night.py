"""What the nightly and the audit share: their options, where things are, and the end of a run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from featurelib.cli.entrance import say
from featurelib.errors import ConfigError
from featurelib.feature import Severity
from featurelib.fleet import Fleet, parse_fleet
from featurelib.planfile import file_name
from featurelib.settings import Settings, parse_settings

if TYPE_CHECKING:
    from featurelib.spark.ingest import IngestCounts
    from featurelib.spark.store import Store

REPOSITORY = Path(__file__).parents[2]
SAMPLES = REPOSITORY / "data" / "samples"
SAMPLE_BUILD = REPOSITORY / "build" / "samples"
NEWEST = "newest"

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
    from featurelib.spark.audit import audit
    from featurelib.spark.files import Folder

    audited = audit(
        store,
        places.fleet,
        run=run,
        as_of=places.as_of,
        max_age=places.settings.max_age,
        severities=places.settings.severities,
        say=say,
    )
    del counts, limit
    if places.out is not None:
        folder = Folder(store.session, places.out)
        plans = audited.judged.plans
        texts = {
            file_name(cluster): text
            for cluster, text in zip(
                plans["cluster"].to_pylist(), plans["plan"].to_pylist(), strict=True
            )
            if text is not None
        }
        for name, text in texts.items():
            folder.write(f"plans/{name}", text)
        folder.keep_only("plans", set(texts))
        say(f"nightly: {len(texts)} plans in {folder.uri}/plans")
    if fail_on is None:
        return 0
    order = [severity.value for severity in Severity]
    worst = min(
        (order.index(s) for s in audited.judged.findings["severity"].to_pylist()), default=9
    )
    return int(worst <= order.index(fail_on.value))
