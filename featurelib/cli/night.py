"""What the nightly and the audit share: their options, where things are, and the end of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from featurelib.catalogue import Catalogue, load, with_overlay
from featurelib.cli.entrance import say
from featurelib.cli.settings import PLACES
from featurelib.configuration.fleet import Fleet
from featurelib.configuration.muting import mutes_of
from featurelib.configuration.settings import Settings
from featurelib.core.mutes import Mute
from featurelib.errors import ConfigError, LandingError, NoEvidenceError
from featurelib.feature import Severity
from featurelib.reaching import open_fleet
from featurelib.settings_file import INVENTORY, OVERLAY, find_file, find_settings, read_file
from featurelib.source import NEWEST, parse_as_of
from featurelib.tables import ALL, AUDIT_RUN, CLUSTER_SNAPSHOT, LANDING_LINE, Table

if TYPE_CHECKING:
    from featurelib.spark.store import Store

REPOSITORY = Path(__file__).parents[2]
SAMPLES = REPOSITORY / "data" / "samples"
SAMPLE_BUILD = REPOSITORY / "build" / "samples"

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
    typer.Option("--out", help="Folder or URI for the reports, pages and plans/."),
]
FleetFile = Annotated[
    str | None,
    typer.Option("--fleet", help=f"The inventory. {PLACES} fleet.toml; samples: their own."),
]
Config = Annotated[
    str | None,
    typer.Option("--config", help=f"How to judge. {PLACES} audit.toml."),
]
Overlay = Annotated[
    str | None,
    typer.Option(
        "--overlay",
        help=f"Rows of vendor builds over the catalogue. {PLACES} {OVERLAY}.",
    ),
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
    mutes: tuple[Mute, ...]
    as_of: int | None
    catalogue: Catalogue


def choose_places(
    landing: str | None,
    tables: str | None,
    out: str | None,
    fleet: str | None,
    config: str | None,
    as_of: str | None,
    overlay: str | None,
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
        expect_landing(landing)
    expect_folder("--tables", tables)
    if out is not None:
        expect_folder("--out", out)
    rows = find_file("--overlay", overlay, OVERLAY)
    catalogue = load()
    if rows is not None:
        catalogue = with_overlay(catalogue, read_file("--overlay", rows), str(rows))
    inventory = str(SAMPLES / INVENTORY) if samples and fleet is None else fleet
    _, expected = open_fleet(inventory, catalogue)
    settings, where = find_settings(config)
    return Places(
        landing=str(SAMPLES) if landing is None else landing,
        tables=tables,
        out=out,
        fleet=expected,
        settings=settings,
        mutes=mutes_of(settings.mute, expected, where),
        as_of=parse_as_of(NEWEST if samples and as_of is None else as_of),
        catalogue=catalogue,
    )


def expect_landing(landing: str) -> None:
    """Before Spark is started: LandingError for a local folder that is not there, NoEvidenceError
    for one without a single landing file."""
    from featurelib.spark.ingest import NAMES

    path = _local_path(landing)
    if path is None:
        return
    if not os.path.exists(path):
        raise LandingError(
            f"landing {landing}: there is no such folder or file; nothing was written. "
            "Name the folder that holds the landing files with --landing."
        )
    endings = tuple(f".{end}" for end in NAMES.removeprefix("*.{").removesuffix("}").split(","))
    if os.path.isdir(path) and not any(_landing_files(path, endings)):
        raise NoEvidenceError(
            f"landing {landing}: expected files *{', *'.join(endings)}, found none; nothing "
            "was written. Put the landing files there, or name another folder with --landing."
        )


def _landing_files(path: str, endings: tuple[str, ...]) -> Iterator[str]:
    for _, _, names in os.walk(path, followlinks=True):
        yield from (name for name in names if name.endswith(endings))


def expect_folder(option: str, uri: str) -> None:
    """Before Spark is started: ConfigError where a file stands at, or above, a local `uri`."""
    path = _local_path(uri)
    while path is not None and not os.path.isdir(path):
        if os.path.exists(path):
            raise ConfigError(
                f"{option} {uri}: expected a folder or URI, found the file {path}; nothing was "
                f"written. Name a folder with {option} FOLDER; it is made if it is not there."
            )
        path = os.path.dirname(path)


def _local_path(uri: str) -> str | None:
    """`uri` as an absolute path of this machine, or None if it is elsewhere."""
    scheme, colon, rest = uri.partition(":")
    if not colon or "/" in scheme:
        return os.path.abspath(uri)
    return os.path.abspath("/" + rest.lstrip("/")) if scheme == "file" else None


def go_on(store: Store, asked: int | None, number: int) -> int:
    """The number of this run: `number`, or the next after the newest in the tables where that is
    later, as a run with a wrong clock leaves it. One that was `asked` for stays, to be refused."""
    newest = store.newest_of(LANDING_LINE, CLUSTER_SNAPSHOT, AUDIT_RUN) or 0
    if asked is not None or number > newest:
        return number
    say(
        f"warning: run {newest} is in these tables, and now it is {number}: a clock was wrong "
        f"then, or is now. This run goes on as run {newest + 1}."
    )
    return newest + 1


def expect_tables(store: Store) -> None:
    """TableError for a table of another release or schema, before the first one is written."""

    def check(table: Table) -> None:
        if store.exists(table):
            store.check(table)

    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(check, ALL))
