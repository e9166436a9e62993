"""Read clusters: once, to report what can be finalized, or repeatedly during a rolling upgrade.
Nothing is sent to a cluster.

Each cluster has a thread, so that one whose nodes hang keeps no other waiting.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from queue import Empty, SimpleQueue
from threading import Event, Thread

import msgspec

from featurelib.api.clusters import Answer, AnyCluster, choose, choose_live, connect
from featurelib.api.documents import OfCluster, document
from featurelib.audit.cluster_view import Terms
from featurelib.audit.findings import NO_SITE
from featurelib.backends.base import id_of, look
from featurelib.collect import landing_lines, silence
from featurelib.config.files import find_settings, write_whole
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.config.settings import mutes_of
from featurelib.core.dialect import STRICT
from featurelib.errors import BackendError, ConfigError, FeatureLibError, install_line
from featurelib.feature import Severity, Verdict
from featurelib.findings import tagged
from featurelib.planning.goal import Command, Intent
from featurelib.planning.outlook import with_texts
from featurelib.planning.owners import LeftOver, left_over
from featurelib.planning.planner import make_plan
from featurelib.planning.requirements import Guarding
from featurelib.questions.watch import Watch, Watched
from featurelib.source import Chosen, Source, open_fleet, parse_as_of
from featurelib.source import choose as choose_entry
from featurelib.view.check import NextStep, check_page, next_step
from featurelib.view.describe import watch_line, watch_page
from featurelib.view.digest import is_reached
from featurelib.view.documents import fill
from featurelib.view.facts import Links, RunFacts
from featurelib.view.model import Report, ReportedCluster
from featurelib.view.report import look_closer, read_profiles, report_run, summarize
from featurelib.words import count

EVERY_SECONDS = 2.0
NODE_SECONDS = 3.0  # for a node to answer: one that hangs must not hide for long who is back
LEAST_PAUSE_SECONDS = 0.2
MOST_CLUSTERS = 50


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClusterLook(Answer[Watched]):
    """A reading of one cluster: the one at `position` of those watched. `name` is for people;
    `line` is a one-line summary."""

    position: int
    name: str
    line: str


def check(
    clusters: AnyCluster | Sequence[AnyCluster],
    *,
    fail_on: Severity | None = None,
    html: str | None = None,
    parallel: int = 8,
) -> Answer[Report]:
    """Check clusters: what can be raised, and what blocks it.

    \b
        featurelib check payments-eu
        featurelib check --bootstrap kafka-1.example:9092
        featurelib check --all --fail-on blocker
        featurelib check --capture landing --html pages

    Every listener of every node is asked, and the answers are judged as the nightly judges them.
    For each feature: the finalized level, the verdict, the target. Then all blockers, the point of
    no return, and the next command, the worst cluster first. Nothing is sent to a cluster.
    --html writes the nightly's pages, without Spark and Java; --json prints its report.json.
    In Python: check("payments-eu").value.clusters[0].verdict, or check(connect(...)).

    Exit codes: 0 done; 1 with --fail-on, if a finding is as severe; 2 usage; 5 a cluster could not
    be read, or is UNKNOWN because a right is missing.
    """
    several = [clusters] if isinstance(clusters, str | Chosen) else clusters
    if not (chosen := [choose(cluster) for cluster in several]):
        raise ConfigError("check: expected a cluster, found none. Name one that can be reached.")
    find_settings(chosen[0].wanted.config)  # a fault there is told before anybody is asked
    if html is not None:
        try:
            from featurelib.view.html import pages_of
        except ImportError as error:
            raise ConfigError(
                f"--html needs the package jinja2. Install it, {install_line('kafka')}"
            ) from error
    with ThreadPoolExecutor(parallel, thread_name_prefix="check") as pool:
        looks = list(pool.map(_look_once, chosen))
    failed = [look.error for look in looks if look.error is not None]
    is_told = len(looks) > 1 or all(isinstance(error, BackendError) for error in failed)
    if failed and not (is_told and all(look.entry.id for look in looks)):
        raise failed[0]
    listed_in, fleet = open_fleet(chosen[0].wanted.fleet, chosen[0].catalogue)
    report = _report(looks, fleet, listed_in)
    report, steps = _next_steps(report, looks)
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
    """Return True for a cluster that is UNKNOWN because a right is missing."""
    if cluster.verdict is not Verdict.UNKNOWN:
        return False
    return any(finding.code in tagged("forbidden") for finding in cluster.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """A reading of one cluster; without an id in `entry`, of all landing files."""

    chosen: Chosen
    entry: FleetEntry
    lines: Sequence[bytes] = ()
    error: FeatureLibError | None = None


def _look_once(chosen: Chosen) -> _Look:
    """Read one cluster. Raises ConfigError if the options do not reach it."""
    options, error = chosen.wanted, None
    if options.is_stored:
        named = open_fleet(options.fleet, chosen.catalogue)[1].named(options.cluster)
        return _Look(chosen=chosen, entry=named or FleetEntry(id=options.cluster or ""))
    reached = chosen.reached()
    entry, fleet = reached.entry, reached.fleet
    try:
        with closing(reached.open()) as backend:
            lines = look(backend, entry, chosen.say)
    except FeatureLibError as failure:
        lines, error = silence(entry, failure), failure
    if lines and fleet.named(id_ := id_of(lines[0])):  # what its owner says of it holds
        entry = choose_entry(replace(options, cluster=id_), fleet, "")
    elif lines:
        entry = msgspec.structs.replace(entry, id=id_)
    return _Look(chosen=chosen, entry=entry, lines=lines, error=error)


def _report(looks: Sequence[_Look], fleet: Fleet, listed_in: str) -> Report:
    """Judge the lines of all looks, and return the report that the nightly would make."""
    first, entries = looks[0].chosen, {look.entry.id: look for look in looks if look.entry.id}
    options, catalogue = first.wanted, first.catalogue
    settings, file = find_settings(options.config)
    mutes = mutes_of(settings.mute, fleet, file)
    terms = Terms(
        catalogue=catalogue,
        as_of=parse_as_of(options.as_of) if options.is_stored else None,
        max_age=settings.max_age,
        fleet=fleet,
        severities=settings.severities,
    )
    paths = dict.fromkeys(path for look in looks if (path := look.chosen.wanted.capture))
    files = (line for path in paths for line in landing_lines("--capture", path))
    lines = chain(files, *(look.lines for look in looks))
    is_whole = any(not look.entry.id for look in looks)
    judged, as_of, rejected = terms.judge_lines(lines, entries, mutes, every=is_whole)
    if rejected:
        number, reason = rejected[0]
        first.say(f"warning: {count(len(rejected), 'line')} set aside, first {number}: {reason}")
    guarding = Guarding.by(settings, fleet)
    plans = with_texts(judged, dialect=STRICT, catalogue=catalogue, guarding=guarding)
    number = int(f"{datetime.now(UTC):%Y%m%d%H%M%S}")
    age, latest = settings.max_age, int(plans.numbers("newest_line").max(initial=0))
    unread = (entry for entry in fleet.cluster if entry.id not in entries)
    report = summarize(
        replace(judged, plans=plans),
        report_run(catalogue, number, as_of, RunFacts(newest=latest, max_age=age)),
        catalogue,
        inventory=Fleet(cluster=(*(look.entry for look in entries.values()), *unread)),
        links=Links(
            ways=lambda entry: entries.get(entry.id, looks[0]).chosen.wanted.ways[0],
            places=(options.capture or NO_SITE.landing, listed_in),
        ),
        mutes=mutes,
    )
    assert judged.evidence is not None
    return look_closer(report, read_profiles(judged.evidence), {}, catalogue)


def _next_steps(report: Report, looks: Sequence[_Look]) -> tuple[Report, dict[str, NextStep]]:
    """Return the report with commands that reach each cluster as this reading did, and the next
    step of each cluster, by its key."""
    of_ids, names = {one.entry.id: one for one in looks}, [one.name for one in report.clusters]
    steps, clusters = dict[str, NextStep](), list[ReportedCluster]()
    for cluster in report.clusters:
        look = of_ids.get(cluster.key) or of_ids[""]
        options, called = look.chosen.wanted, look.entry.argument or cluster.name
        called = cluster.id if names.count(cluster.name) > 1 else called
        name = f" {shlex.quote(called)}" * bool(options.cluster or options.is_stored)
        ways = options.ways[0]
        step = steps[cluster.key] = next_step(cluster, name, ways, is_live=not options.is_stored)
        ask = cluster.joining and replace(cluster.joining, command=cluster.joining.ask(name, ways))
        clusters.append(replace(cluster, commands=step[1], joining=ask))
    return replace(report, clusters=tuple(clusters)), steps


@dataclass(slots=True, kw_only=True)
class Looks(Iterator[ClusterLook]):
    """The readings of a watch, as they arrive; `newest` of each cluster, by its position."""

    chosen: Sequence[Chosen]
    until: Sequence[str]
    every: float
    timeout: float | None
    newest: dict[int, ClusterLook] = field(default_factory=dict)
    _looks: Generator[ClusterLook] = field(init=False)

    def __post_init__(self) -> None:
        self._looks = self._look()

    def __next__(self) -> ClusterLook:
        return next(self._looks)

    def close(self) -> None:
        """End the watch."""
        self._looks.close()

    @property
    def is_ready(self) -> bool:
        """True if every awaited level is READY in every cluster."""
        return (
            bool(self.until) and self.is_seen and all(s.value.ready for s in self.newest.values())
        )

    @property
    def is_seen(self) -> bool:
        """True if the newest reading of each cluster reached it."""
        errors = [look.value.error for look in self.newest.values()]
        return len(errors) == len(self.chosen) and not any(errors)

    @property
    def exit_code(self) -> int:
        """The exit code: 0 READY, or nothing was waited for; 1 not yet; 5 not seen."""
        if not self.is_seen:
            return BackendError.exit_code
        return int(bool(self.until) and not self.is_ready)

    def _look(self) -> Generator[ClusterLook]:
        queue, over = SimpleQueue[_Found](), Event()
        for number, cluster in enumerate(self.chosen):
            go_on = partial(_look_on, number, cluster, self.until, self.every, over, queue)
            Thread(target=go_on, name=f"watch-{number}", daemon=True).start()
        ends_at = None if self.timeout is None else time.monotonic() + self.timeout
        try:
            while not self.is_ready:
                is_first, seconds = len(self.newest) < len(self.chosen), None
                if ends_at is not None and not is_first:  # the first look at each is waited for
                    seconds = max(0.0, ends_at - time.monotonic())
                try:
                    number, look, error = queue.get(timeout=seconds)
                except Empty:
                    return
                if look is not None:
                    self.newest[number] = look
                answered = [newest.value.answered for newest in self.newest.values()]
                nobody = len(answered) == len(self.chosen) and not any(answered)
                if error is not None and (look is None or nobody):
                    raise error
                assert look is not None
                yield look
        finally:
            over.set()


def watch(
    clusters: AnyCluster | Sequence[AnyCluster],
    *,
    until: str | Sequence[str] = (),
    every: float = EVERY_SECONDS,
    timeout: float | None = None,
) -> Looks:
    """Follow a rolling upgrade until a level is READY.

    Who runs what, what could be finalized at this moment, and what is still missing:

    \b
        featurelib watch payments-eu
        featurelib watch payments-eu --until 4.2 --timeout 2h
        featurelib watch --label ring=canary --until metadata.version=4.2 --json

    Every listener is asked every two seconds, and nothing is changed. On a terminal one screen is
    kept up to date, a line a cluster where there are several; anywhere else there is a line for
    each look that shows something new, with --json an object. READY is said where `featurelib plan`
    would plan what --until names, in every cluster. Fenced brokers and silent nodes count, as they
    do there. Ctrl-C ends it. In Python: for look in watch("payments-eu", until="4.2", timeout=60).

    Exit codes: 0 it is READY, or the time was up and nothing was waited for; 1 the time was up
    before it was READY; 2 usage; 5 nothing answered the first look, or a cluster not the last one;
    130 Ctrl-C.
    """
    several = [clusters] if isinstance(clusters, str | Chosen) else clusters
    chosen = [
        connect(cluster, timeout=NODE_SECONDS) if isinstance(cluster, str) else choose_live(cluster)
        for cluster in several
    ]
    if not 0 < len(chosen) <= MOST_CLUSTERS:
        raise ConfigError(
            f"expected 1 to {MOST_CLUSTERS} clusters to watch, found {len(chosen):,}. Name those "
            "that are rolled, or choose them with --owner, --label or --view."
        )
    texts = (until,) if isinstance(until, str) else tuple(until)
    return Looks(chosen=chosen, until=texts, every=every, timeout=timeout)


# Which cluster, and why it was not seen.
_Found = tuple[int, ClusterLook | None, BaseException | None]


def _look_on(
    number: int,
    chosen: Chosen,
    texts: Sequence[str],
    every: float,
    over: Event,
    queue: SimpleQueue[_Found],
) -> None:
    """Read one cluster until it is `over`. A failed reading is a result, too; after a fault that
    repeating cannot fix, the reading ends."""
    watching, made_from = Watch(texts, chosen.catalogue), ""
    try:
        entry = chosen.reached().entry
        with chosen.looking() as (look, backend):
            while not over.is_set():
                began, error, source = time.monotonic(), None, None
                try:
                    source = look()
                    entry, made_from = source.entry, source.made_from
                    watched = watching.see(source.sight)
                except BackendError as failed:
                    error = failed
                    watched = watching.lose(str(failed), datetime.now(UTC), entry.id)
                name = entry.title or watched.cluster_id or backend.where
                head = fill(
                    OfCluster,
                    cluster=watched.cluster_id,
                    name=entry.title or None,
                    made_from=made_from,
                )
                queue.put((number, _look(number, watched, name, head, source, chosen), error))
                over.wait(max(LEAST_PAUSE_SECONDS, began + every - time.monotonic()))
    except BaseException as fault:  # it is raised where the looks are taken
        queue.put((number, None, fault))


def _look(
    number: int, watched: Watched, name: str, head: OfCluster, source: Source | None, chosen: Chosen
) -> ClusterLook:
    catalogue = chosen.catalogue
    return ClusterLook(
        value=watched,
        make_rows=lambda: map(asdict, watched.nodes),
        make_document=lambda: document(head, watched),
        page=lambda width: watch_page(watched, name, *_next(watched, source), catalogue, width),
        position=number,
        name=name,
        line=watch_line(watched, name, catalogue),
    )


def _next(watched: Watched, source: Source | None) -> tuple[str, Sequence[LeftOver]]:
    """Return the command that plans the awaited levels ("" if featurelib finalizes none of them),
    and the levels that an owner finalizes."""
    goals = [goal for goal in watched.features if goal.wanted is not None]
    levels = {goal.feature: str(goal.wanted) for goal in goals}
    if source is None or not watched.ready or not levels:
        return "", ()
    intent, catalogue = Intent(command=Command.UPGRADE, up=levels), source.terms.catalogue
    planned = make_plan(source.sight, intent, catalogue, guards=source.guards)
    unplanned = tuple(left_over(planned.shares, source.entry, catalogue))
    if planned.plan is None:
        return "", unplanned
    cluster = f" {shlex.quote(source.argument)}" if source.wanted.cluster else ""
    return f"featurelib plan{cluster} {intent.text}{source.wanted.ways[0]}", unplanned
