"""Provide what the jobs nightly and audit share: options, places, the end of a run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from featurelib.api.tables import AuditInputs, detail_worst, plan_files, report_night
from featurelib.audit.evidence import Conditions
from featurelib.audit.findings import NO_SITE, Mute
from featurelib.catalogue import Catalogue, load, with_overlay
from featurelib.cli.entrance import say
from featurelib.cli.options import print_page
from featurelib.config.files import (
    INVENTORY,
    OVERLAY,
    SETTINGS,
    find_file,
    find_settings,
    read_file,
)
from featurelib.config.fleet import Fleet
from featurelib.config.settings import Settings, mutes_of
from featurelib.errors import ConfigError, NoEvidenceError
from featurelib.faults import explaining
from featurelib.feature import Severity
from featurelib.lake import lines_of
from featurelib.lake import places as find_places
from featurelib.source import (
    NEWEST,
    RUN_TIME,
    SAMPLE_BUILD,
    SAMPLES,
    SAMPLES_MARK,
    Wanted,
    open_fleet,
    parse_as_of,
    relative,
)
from featurelib.spark.local_files import ENDINGS, local_path, missing, walk
from featurelib.tables import (
    ALL,
    AUDIT_RUN,
    CLUSTER_SNAPSHOT,
    FINALIZED_FEATURES,
    LANDING_LINE,
    is_name,
)
from featurelib.view.digest import is_reached
from featurelib.view.html import FOLDER as PAGES
from featurelib.view.html import OWNERS, VIEWS, pages_of
from featurelib.view.model import Report, render_json
from featurelib.view.text import render_text, report_page
from featurelib.words import count

if TYPE_CHECKING:
    from featurelib.cli.standing import LastRun
    from featurelib.spark.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The paths and settings of a run. `as_of` None = the newest line's time."""

    landing: str
    tables: str
    out: str | None
    fleet: Fleet
    listed_in: str  # the file of the inventory
    wanted: Wanted  # the options that messages repeat in commands
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
    """Return the paths and settings of a run from options and defaults. Raises ConfigError."""
    samples = landing is None
    if samples and not (tables is None or are_samples(tables)):
        raise ConfigError(
            f"--tables {tables}: These are not the tables of the samples, so --landing is missing. "
            "Add --landing FOLDER, the folder of your clusters' landing files."
        )
    if samples and tables is None:
        build = relative(SAMPLE_BUILD)  # relative, so that pages do not show this machine's folders
        tables, out = str(build / "tables"), out or str(build / "out")
    if tables is None:
        raise ConfigError(
            f"--landing {landing} needs --tables. Add --tables FOLDER. The job makes a missing "
            "folder."
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
    inventory = str(relative(SAMPLES / INVENTORY)) if samples and fleet is None else fleet
    listed_in, expected = open_fleet(inventory, catalogue)
    usual = str(SAMPLES / SETTINGS) if samples else None
    settings, file = find_settings(config or usual)
    return Places(
        landing=str(relative(SAMPLES)) if landing is None else landing,
        tables=tables,
        out=out,
        fleet=expected,
        listed_in=listed_in,
        wanted=Wanted(as_of=RUN_TIME, fleet=inventory, config=config),
        settings=settings,
        mutes=mutes_of(settings.mute, expected, file),
        as_of=parse_as_of(NEWEST if samples and as_of is None else as_of),
        catalogue=catalogue,
    )


def are_samples(tables: str) -> bool:
    """Return false if a local folder has tables of other data than the samples."""
    path = None if is_name(tables) else local_path(tables)
    if path is None or not os.path.isdir(path) or not os.listdir(path):
        return True
    return os.path.exists(f"{path}/{SAMPLES_MARK}")


def expect_landing(landing: str) -> None:
    """Check the landing folder before Spark starts. Raises LandingError (no folder),
    NoEvidenceError (no landing file), SurroundingsError (unreadable)."""
    path = local_path(landing)
    if path is None:
        return
    if not os.path.exists(path):
        raise missing(landing)
    with explaining(f"landing {landing}"):
        is_empty = os.path.isdir(path) and next(walk(path, lambda line: None), None) is None
    if is_empty:
        raise NoEvidenceError(
            f"landing {landing}: The folder has no files *.{', *.'.join(ENDINGS)}. Nothing was "
            "written. Put the landing files there, or use another folder with --landing."
        )


def expect_folder(option: str, uri: str) -> None:
    """Raise ConfigError, before Spark starts, if `uri` or a folder above it is a file."""
    path = None if option == "--tables" and is_name(uri) else local_path(uri)
    while path is not None and not os.path.isdir(path):
        if os.path.exists(path):
            raise ConfigError(
                f"{option} {uri}: {path} is a file, not a folder. Nothing was written. Use a "
                "folder "
                f"with {option} FOLDER. The job makes a missing folder."
            )
        path = os.path.dirname(path)


def go_on(store: Store, run: int | None, number: int) -> int:
    """Return the number of this run: `number`, or one above the newest run in the tables if an
    earlier run had a wrong clock. A requested `run` is returned as it is; the store rejects it if
    it is too low."""
    tables = (LANDING_LINE, CLUSTER_SNAPSHOT, AUDIT_RUN)
    newest = max(store.newest_run(table) or 0 for table in tables)
    if run is not None or number > newest:
        return number
    say(
        f"warning: run {newest} is in these tables, and now it is {number}: a clock was wrong "
        f"then, or is now. This run goes on as run {newest + 1}."
    )
    return newest + 1


def expect_tables(store: Store) -> None:
    """Raise TableError, before the first write, if a table has another release's schema."""
    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(store.exists, ALL))


# The end of a run: judge, write the reports and plan files, print, and return the exit code.


def judge_and_publish(
    store: Store,
    places: Places,
    run: int,
    fail_on: Severity | None,
    limit: int,
    last: LastRun | None = None,
) -> int:
    """Judge all clusters, write and print the reports, and return the exit code. `last`: the record
    of the previous run, so that unchanged pages are not written again."""
    from featurelib.spark.auditing import audit
    from featurelib.spark.judging import CORE_COLUMNS

    audited = audit(
        store,
        places.fleet,
        places.settings,
        run=run,
        as_of=places.as_of,
        say=say,
        catalogue=places.catalogue,
        places=(places.landing or NO_SITE.landing, places.listed_in, places.out),
    )
    days, vacuum = places.settings.retention_days, places.settings.vacuum
    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(lambda table: store.maintain(table, days, vacuum), ALL))
    # Commands without Spark accept these tables: no catalog names.
    tables = (store.is_named and store.folder.removeprefix("file:")) or places.tables
    order = AuditInputs(
        fleet=places.fleet,
        part=None,
        settings=places.settings,
        mutes=places.mutes,
        catalogue=places.catalogue,
        ways=replace(places.wanted, tables=tables).later,
    )
    report = report_night(
        store.rows,
        run,
        audited.judged,
        order,
        tables=tables,
        listed_in=places.listed_in,
        find_line=find_places(store.rows, lines_of(audited.judged.findings)).get,
    )
    if places.out is not None or limit == 0:  # without a limit the caller shows every row
        max_age, inventory = places.settings.max_age, places.fleet.inventory
        report = detail_worst(
            report,
            Conditions(as_of=audited.as_of, max_age=max_age, inventory=inventory),
            places.catalogue,
            lambda keys: store.rows(CLUSTER_SNAPSHOT, [("cluster", "in", keys)], CORE_COLUMNS),
            lambda keys: store.rows(FINALIZED_FEATURES, [("cluster", "in", keys)]),
        )
    if places.out is not None:
        pages = pages_of(report, places.fleet, places.listed_in, say, last.keeps if last else None)
        plans = dict(plan_files(audited.judged, places.fleet.names, report).values())
        files = publish(store, places.out, report, plans, pages, last)
    print_page(report_page(report, limit=limit))
    if report.run.newest_line and report.run.newest_line > report.run.as_of + timedelta(hours=1):
        say("warning: the newest line is younger than --as-of; is that the time you meant?")
    code = int(fail_on is not None and is_reached(fail_on, report))
    if last is not None and places.out is not None:
        last.write(store, audited, files, code)
    return say_failed(fail_on, code)


def say_failed(fail_on: Severity | None, code: int) -> int:
    """Return the exit code of a run. For exit code 1 also print the reason."""
    if fail_on is not None and code:
        say(f"exit code 1: some finding is {fail_on.value} or worse (--fail-on {fail_on.value})")
    return code


def publish(
    store: Store,
    out: str,
    report: Report,
    plans: dict[str, str],
    pages: Iterable[tuple[str, str]] = (),
    last: LastRun | None = None,
) -> list[str]:
    """Write reports, plan files and pages; return their names. Delete the files of other runs,
    except unchanged pages of the `last` run and approvals of unchanged plans."""
    from featurelib.spark.files import Folder

    folder = Folder(store.session, out)
    for name, text in plans.items():
        folder.write(f"plans/{name}", text)
    approvals = {name.removesuffix(".json") + ".approval.json" for name in plans}
    folder.keep_only("plans", {*plans, *approvals}, "json")
    folder.write("report.json", render_json(report).decode())
    folder.write("report.txt", render_text(report, limit=0))
    names = ["report.json", "report.txt", *(f"plans/{name}" for name in plans)]
    for name, text in pages:
        folder.write(name, text)
        names.append(name)
    names += last.pages if last else []
    for place in (PAGES, OWNERS, VIEWS):
        of_place = {name.rpartition("/")[2] for name in names if name.startswith(f"{place}/")}
        folder.keep_only(place, of_place, "html")
    how_many = count(len(plans), "plan")
    say(f"report: {folder.uri}/report.html, report.txt, report.json and {how_many} in plans/")
    return names
