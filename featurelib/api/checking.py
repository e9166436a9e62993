"""Check clusters: read each once, without a change, and report the levels that can be finalized.

Each cluster has a thread, so that a cluster whose nodes hang does not delay the others.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

import msgspec

from featurelib.api.clusters import Answer, AnyCluster, choose
from featurelib.audit.cluster_view import Inputs
from featurelib.audit.findings import NO_SITE
from featurelib.backends.base import id_of, read_cluster
from featurelib.collecting import landing_lines, silence
from featurelib.config.files import find_settings, write_whole
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.config.settings import mutes_of
from featurelib.core.dialect import STRICT
from featurelib.errors import BackendError, ConfigError, FeatureLibError, needing
from featurelib.feature import Severity, Verdict
from featurelib.findings import tagged
from featurelib.planning.outlook import with_texts
from featurelib.planning.requirements import Guarding
from featurelib.source import Chosen, open_fleet, parse_as_of
from featurelib.source import choose as choose_entry
from featurelib.view.check import NextStep, check_page, next_step
from featurelib.view.digest import is_reached
from featurelib.view.facts import Links, RunFacts
from featurelib.view.model import Report, ReportedCluster
from featurelib.view.report import add_details, read_profiles, report_run, summarize
from featurelib.words import count


def check(
    clusters: AnyCluster | Sequence[AnyCluster],
    *,
    fail_on: Severity | None = None,
    html: str | None = None,
    parallel: int = 8,
) -> Answer[Report]:
    """Show possible upgrades, and what blocks the others.

    \b
        featurelib check payments-eu
        featurelib check --bootstrap kafka-1.example:9092
        featurelib check --all --fail-on blocker
        featurelib check --capture landing --html pages

    Every listener is queried, and the verdicts are the same as those of the nightly. Nothing is
    changed. The worst cluster comes first. --html writes the nightly's pages without Spark and
    Java. In Python: check("payments-eu").value.clusters[0].verdict, or check(connect(...)).

    Exit codes: 0 done; 1 with --fail-on, if a finding has that severity; 2 usage; 5 a cluster could
    not be read, or is UNKNOWN because a permission is missing.
    """
    several = [clusters] if isinstance(clusters, str | Chosen) else clusters
    if not (chosen := [choose(cluster) for cluster in several]):
        raise ConfigError("check: No cluster is named. Name a cluster of the inventory.")
    find_settings(chosen[0].wanted.config)  # report invalid settings first
    if html is not None:
        with needing("--html needs the package jinja2", "kafka"):
            from featurelib.view.html import pages_of
    with ThreadPoolExecutor(parallel, thread_name_prefix="check") as pool:
        readings = list(pool.map(_read_once, chosen))
    failed = [reading.error for reading in readings if reading.error is not None]
    is_told = len(readings) > 1 or all(isinstance(error, BackendError) for error in failed)
    if failed and not (is_told and all(reading.entry.id for reading in readings)):
        raise failed[0]
    listed_in, fleet = open_fleet(chosen[0].wanted.fleet, chosen[0].catalogue)
    report = _report(readings, fleet, listed_in)
    report, steps = _next_steps(report, readings)
    if html is not None:
        for name, text in pages_of(report, fleet, listed_in, chosen[0].say):
            write_whole(f"{html}/{name}", text.encode(), "--html FOLDER")
    is_failed = fail_on is not None and is_reached(fail_on, report)
    hidden = any(map(_is_hidden, report.clusters))
    return Answer(
        value=report,
        make_rows=lambda: map(asdict, report.clusters),
        make_document=lambda: report,
        page=lambda width: check_page(report, steps, width),
        exit_code=BackendError.exit_code if failed or hidden else int(is_failed),
    )


def _is_hidden(cluster: ReportedCluster) -> bool:
    """Return true if a missing permission makes the cluster UNKNOWN."""
    if cluster.verdict is not Verdict.UNKNOWN:
        return False
    return any(finding.code in tagged("forbidden") for finding in cluster.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """The lines read from one cluster; with an empty `entry.id`, the lines of all landing files."""

    chosen: Chosen
    entry: FleetEntry
    lines: Sequence[bytes] = ()
    error: FeatureLibError | None = None


def _read_once(chosen: Chosen) -> _Reading:
    """Read one cluster's lines. Raises ConfigError if no option has its address."""
    options, error = chosen.wanted, None
    if options.is_stored:
        named = open_fleet(options.fleet, chosen.catalogue)[1].named(options.cluster)
        return _Reading(chosen=chosen, entry=named or FleetEntry(id=options.cluster or ""))
    reached = chosen.reached()
    entry, fleet = reached.entry, reached.fleet
    try:
        with closing(reached.open()) as backend:
            lines = read_cluster(backend, entry, chosen.say)
    except FeatureLibError as failure:
        lines, error = silence(entry, failure), failure
    if lines and fleet.named(id_ := id_of(lines[0])):  # the owner's declarations apply to it
        entry = choose_entry(replace(options, cluster=id_), fleet, "")
    elif lines:
        entry = msgspec.structs.replace(entry, id=id_)
    return _Reading(chosen=chosen, entry=entry, lines=lines, error=error)


def _report(readings: Sequence[_Reading], fleet: Fleet, listed_in: str) -> Report:
    """Return a report, as the nightly makes it, of lines that were just read."""
    first = readings[0].chosen
    entries = {reading.entry.id: reading for reading in readings if reading.entry.id}
    options, catalogue = first.wanted, first.catalogue
    settings, file = find_settings(options.config)
    mutes = mutes_of(settings.mute, fleet, file)
    inputs = Inputs(
        catalogue=catalogue,
        as_of=parse_as_of(options.as_of) if options.is_stored else None,
        max_age=settings.max_age,
        fleet=fleet,
        severities=settings.severities,
    )
    paths = dict.fromkeys(path for reading in readings if (path := reading.chosen.wanted.capture))
    files = (line for path in paths for line in landing_lines("--capture", path))
    lines = chain(files, *(reading.lines for reading in readings))
    is_whole = any(not reading.entry.id for reading in readings)
    result, as_of, rejected = inputs.judge_lines(lines, entries, mutes, every=is_whole)
    if rejected:
        number, reason = rejected[0]
        first.say(f"warning: {count(len(rejected), 'line')} set aside, first {number}: {reason}")
    guarding = Guarding.by(settings, fleet)
    plans = with_texts(result, dialect=STRICT, catalogue=catalogue, guarding=guarding)
    number = int(f"{datetime.now(UTC):%Y%m%d%H%M%S}")
    age, latest = settings.max_age, int(plans.numbers("newest_line").max(initial=0))
    unread = (entry for entry in fleet.cluster if entry.id not in entries)
    landing = Path(options.capture or NO_SITE.landing)
    report = summarize(
        replace(result, plans=plans),
        report_run(catalogue, number, as_of, RunFacts(newest=latest, max_age=age)),
        catalogue,
        inventory=Fleet(cluster=(*(reading.entry for reading in entries.values()), *unread)),
        links=Links(
            ways=lambda entry: entries.get(entry.id, readings[0]).chosen.wanted.later(entry),
            places=(str(landing.parent if landing.is_file() else landing), listed_in),
        ),
        mutes=mutes,
    )
    assert result.evidence is not None
    return add_details(report, read_profiles(result.evidence), {}, catalogue)


def _next_steps(report: Report, readings: Sequence[_Reading]) -> tuple[Report, dict[str, NextStep]]:
    """Return (report with the commands that reach each cluster, next step by cluster key)."""
    by_id = {reading.entry.id: reading for reading in readings}
    names = [cluster.name for cluster in report.clusters]
    steps, clusters = dict[str, NextStep](), list[ReportedCluster]()
    for cluster in report.clusters:
        reading = by_id.get(cluster.key) or by_id[""]
        options, called = reading.chosen.wanted, reading.entry.argument or cluster.name
        called = cluster.id if names.count(cluster.name) > 1 else called
        name = f" {shlex.quote(called)}" * bool(options.cluster or options.is_stored)
        ways = options.ways[0]
        step = steps[cluster.key] = next_step(cluster, name, ways, is_live=not options.is_stored)
        ask = cluster.joining and replace(cluster.joining, command=cluster.joining.ask(name, ways))
        clusters.append(replace(cluster, commands=step[1], joining=ask))
    return replace(report, clusters=tuple(clusters)), steps
