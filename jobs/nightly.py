"""Run the nightly: turn landing lines into verdicts, reports and upgrade-all plans.

./spark-submit.sh                                   the samples in data/samples
./spark-submit.sh nightly --landing URI --tables URI [--out URI] [--as-of newest]
"""

from __future__ import annotations

import os
import tarfile
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from importlib import import_module
from pathlib import Path

from featurelib.cli.entrance import choose_run, run_job, say
from featurelib.cli.night import (
    choose_places,
    expect_tables,
    go_on,
    judge_and_publish,
    say_failed,
)
from featurelib.cli.standing import LastRun
from featurelib.feature import Severity
from featurelib.source import NIGHTS_BEFORE, SAMPLE_TABLES, SAMPLES_MARK
from featurelib.spark.local_files import local_path
from featurelib.tables import is_name
from featurelib.view.html import compile_templates
from featurelib.words import moment, time_text


def main(
    landing: str | None = None,
    tables: str | None = None,
    out: str | None = None,
    fleet: str | None = None,
    config: str | None = None,
    as_of: str | None = None,
    overlay: str | None = None,
    fail_on: Severity | None = None,
    limit: int = 20,
    run: int | None = None,
    again: bool = False,
) -> int:
    """Ingest, refine and audit, one after the other; then write and print the report.

    Without --landing it runs on the samples that come with featurelib. With --as-of, the nightly
    ends at once if files, tables, inventory, settings and release are those of a run within the
    last day.
    """
    places = choose_places(landing, tables, out, fleet, config, as_of, overlay)
    number = choose_run(run)
    last = LastRun(places, as_of, fail_on)
    if run is None and not again and (standing := last.find()) is not None:
        print(
            f"Nothing changed since run {standing.run}, so its report holds, as of "
            f"{time_text(moment(standing.as_of))}: {places.out}/report.html. "
            "To judge again, add --again."
        )
        return say_failed(fail_on, standing.exit_code)
    whose = f"landing {landing}" if landing else "no --landing, so the samples, not your clusters"
    say(f"nightly: run {number}, {whose}; starting Spark …")
    from featurelib.spark.session import open_session

    # The start of Spark is mostly the start of Java.
    with ThreadPoolExecutor(max_workers=1) as beside:
        put = None if landing else beside.submit(put_nights_before, places.tables)
        beside.submit(import_module, "featurelib.spark.auditing")
        beside.submit(compile_templates)
        session = open_session("featurelib nightly")
    if put is not None:
        put.result()
    from featurelib.spark.ingest import ingest
    from featurelib.spark.refine import refine
    from featurelib.spark.store import Store

    store = Store(session, places.tables)
    with store.hold(number, "nightly", say):
        expect_tables(store)
        number = go_on(store, run, number)
        ingest(store, places.landing, number, say)
        refine(store, say, as_of=places.as_of, run=number)
        return judge_and_publish(store, places, number, fail_on, limit, last)


def unpack(archive: Path, folder: str) -> None:
    """Unpack an archive of tables into `folder`."""
    with tarfile.open(archive) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(folder)


def put_nights_before(tables: str) -> None:
    """Put the tables of the samples' earlier runs into a folder without tables, so that the report
    shows changes and trends. This is not done for a catalog's name or another store.

    Tables of an earlier release's samples in the usual folder are moved aside. If the archive
    cannot be unpacked, the run continues without it.
    """
    path = None if is_name(tables) else local_path(tables)
    if path is None:
        return
    above = os.path.dirname(path)
    mark = f"{path}/{SAMPLES_MARK}"
    try:
        digest = sha256(NIGHTS_BEFORE.read_bytes()).hexdigest()
        is_usual = path == os.path.abspath(SAMPLE_TABLES) and os.path.isdir(path)
        if is_usual and not (os.path.isfile(mark) and Path(mark).read_text("utf-8") == digest):
            aside = f"{path}.old-{os.getpid()}"
            os.replace(path, aside)
            say(f"the tables of other samples are moved to {aside}")
        if os.path.lexists(path):
            return
        say("the samples: the nights before …")
        os.makedirs(above, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=above) as part:
            unpack(NIGHTS_BEFORE, part)
            Path(part, "tables", SAMPLES_MARK).write_text(digest, "utf-8")
            os.replace(f"{part}/tables", path)
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        say(f"warning: the samples' earlier nights are left out: {NIGHTS_BEFORE}: {error}")


if __name__ == "__main__":
    run_job(main)
