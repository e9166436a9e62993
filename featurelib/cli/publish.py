"""The end of a night: judge, write the reports and the plan files, print, and say the exit code."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from featurelib.cli.entrance import say
from featurelib.cli.night import Places
from featurelib.core.audit import Judged
from featurelib.core.dialect import STRICT
from featurelib.core.dialect import load as load_dialect
from featurelib.feature import Severity
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
from featurelib.tables.bronze import LANDING_LINE

if TYPE_CHECKING:
    from featurelib.spark.ingest import IngestCounts
    from featurelib.spark.store import Store

HOUR = 3_600_000_000  # microseconds


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
        catalogue=places.catalogue,
    )
    store.maintain(LANDING_LINE, places.settings.retention_days, places.settings.vacuum)
    plans = plan_files(audited.judged)
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
        ),
        places.catalogue,
        load_dialect(STRICT),
        inventory=places.fleet,
        plan_files={cluster: f"plans/{name}" for cluster, (name, _) in plans.items() if places.out},
        find_line=lines.get,
    )
    if places.out is not None:
        publish(store, places.out, report, dict(plans.values()))
    write_text(report, sys.stdout, limit=limit)
    if audited.newest > audited.as_of + HOUR:
        say("warning: the newest line is younger than --as-of; is that the time you meant?")
    if fail_on is None or not _is_reached(fail_on, audited.judged):
        return 0
    say(f"exit code 1: some finding is {fail_on.value} or worse (--fail-on {fail_on.value})")
    return 1


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
