"""The end of a night: judge, write the reports and the plan files, print, and say the exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from featurelib.cli.entrance import say
from featurelib.cli.night import Places
from featurelib.cli.pages import pages_of
from featurelib.core.audit import Judged
from featurelib.core.dialect import STRICT
from featurelib.core.dialect import load as load_dialect
from featurelib.core.evidence import Conditions
from featurelib.feature import Severity
from featurelib.planning.files import file_names
from featurelib.planning.requirements import Guarding
from featurelib.tables import LANDING_LINE
from featurelib.view.as_json import render_json
from featurelib.view.html import FOLDER as PAGES
from featurelib.view.model import Ingest, Quarantine, QuarantinedLine, Report
from featurelib.view.report import RunInfo, summarize
from featurelib.view.text import render_text, write_text
from featurelib.words import count

if TYPE_CHECKING:
    from featurelib.spark.ingest import IngestCounts
    from featurelib.spark.store import Store

HOUR = 3_600_000_000  # microseconds
QUARANTINED = 3  # lines that are named


def judge_and_publish(
    store: Store,
    places: Places,
    run: int,
    fail_on: Severity | None,
    limit: int,
    counts: IngestCounts | None,
) -> int:
    """The audit, its files, its report on stdout, and the exit code."""
    from featurelib.spark.audit import audit, locate_lines, read_quarantine

    audited = audit(
        store,
        places.fleet,
        run=run,
        as_of=places.as_of,
        max_age=places.settings.max_age,
        severities=places.settings.severities,
        say=say,
        catalogue=places.catalogue,
        mutes=places.mutes,
        forgotten=places.settings.forgotten,
        guarding=Guarding.by(places.settings, places.fleet),
    )
    store.maintain(LANDING_LINE, places.settings.retention_days, places.settings.vacuum)
    plans = plan_files(audited.judged)
    with ThreadPoolExecutor(max_workers=1) as pool:
        quarantine = pool.submit(read_quarantine, store, QUARANTINED)
        lines = locate_lines(store, audited.judged.findings)
    report = summarize(
        audited.judged,
        RunInfo(
            number=run,
            as_of=audited.as_of,
            release=audited.release,
            ingest=_ingest(counts),
            newest=audited.newest,
            max_age=places.settings.max_age,
            tables=places.tables,
            out=places.out or "",
            quarantine=_quarantine(*quarantine.result()),
            mutes=places.mutes,
        ),
        places.catalogue,
        load_dialect(STRICT),
        inventory=places.fleet,
        plan_files={cluster: f"plans/{name}" for cluster, (name, _) in plans.items() if places.out},
        find_line=lines.get,
    )
    if places.out is not None:
        conditions = Conditions(
            as_of=audited.as_of,
            max_age=places.settings.max_age,
            inventory=places.fleet.inventory,
        )
        pages = pages_of(store, report, places.fleet, conditions)
        publish(store, places.out, report, dict(plans.values()), pages)
    write_text(report, sys.stdout, limit=limit)
    if audited.newest > audited.as_of + HOUR:
        say("warning: the newest line is younger than --as-of; is that the time you meant?")
    if fail_on is None or not is_reached(fail_on, audited.judged):
        return 0
    say(f"exit code 1: some finding is {fail_on.value} or worse (--fail-on {fail_on.value})")
    return 1


def plan_files(judged: Judged) -> dict[str, tuple[str, str]]:
    """By cluster with steps: the name of its plan file, and its text."""
    rows = zip(judged.plans["cluster"].to_pylist(), judged.plans["plan"].to_pylist(), strict=True)
    named = {cluster: text for cluster, text in rows if text is not None}
    return {c: (name, named[c]) for c, name in zip(named, file_names(list(named)), strict=True)}


def publish(
    store: Store,
    out: str,
    report: Report,
    plans: dict[str, str],
    pages: Iterable[tuple[str, str]] = (),
) -> None:
    """Write the reports, the plan files and the pages; plans and pages of other nights go."""
    from featurelib.spark.files import Folder

    folder = Folder(store.session, out)
    for name, text in plans.items():
        folder.write(f"plans/{name}", text)
    folder.keep_only("plans", set(plans), "json")
    folder.write("report.json", render_json(report).decode())
    folder.write("report.txt", render_text(report, limit=0))
    written = set()
    for name, text in pages:
        folder.write(name, text)
        written.add(name.removeprefix(f"{PAGES}/"))
    folder.keep_only(PAGES, written, "html")
    how_many = count(len(plans), "plan")
    say(f"report: {folder.uri}/report.html, report.txt, report.json and {how_many} in plans/")


def _quarantine(lines: int, newest: list[tuple[str, str]]) -> Quarantine:
    rows = [QuarantinedLine(line=line, reason=reason) for line, reason in newest]
    return Quarantine(lines=lines, newest=tuple(rows))


def _ingest(counts: IngestCounts | None) -> Ingest | None:
    if counts is None:
        return None
    return Ingest(
        lines=counts.lines,
        accepted=counts.accepted,
        repeated=counts.repeated,
        quarantined=counts.quarantined,
    )


def is_reached(fail_on: Severity, judged: Judged) -> bool:
    """Whether some finding that is not muted is as severe as `fail_on`, or more."""
    order = [severity.value for severity in Severity]
    heard = judged.findings.filter(pc.is_null(judged.findings["muted"]))
    found = pc.unique(heard["severity"]).to_pylist()
    return any(order.index(severity) <= order.index(fail_on.value) for severity in found)
