"""Read clusters repeatedly during a rolling upgrade: `featurelib watch`. The command changes no
cluster.

Each cluster has a thread, so that a cluster whose nodes hang does not delay the others.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Thread

from featurelib.api.clusters import Answer, AnyCluster, choose_live, connect
from featurelib.api.documents import KEYS, OfCluster, document, row_of
from featurelib.cli.choosing import CHOOSING, PRINTING, several
from featurelib.cli.entrance import say
from featurelib.cli.streams import Screen, has_styles, output_is_lost
from featurelib.config.files import quietly
from featurelib.config.fleet import Choice
from featurelib.errors import BackendError, ConfigError
from featurelib.extras.watch.page import watch_line, watch_page
from featurelib.extras.watch.watching import Watch, Watched
from featurelib.planning.files import expect_span
from featurelib.planning.goal import Command, Intent
from featurelib.planning.owners import LeftOver, left_over
from featurelib.planning.planner import make_plan
from featurelib.source import Chosen, Source, Wanted
from featurelib.view.documents import as_json as as_json_text
from featurelib.view.documents import fill
from featurelib.view.layout import STYLES, Page, paint

EVERY_SECONDS = 2.0
NODE_SECONDS = 3.0  # short, because a hanging node delays other nodes
LEAST_PAUSE_SECONDS = 0.2
MOST_CLUSTERS = 50
KEYS[Watched] = row_of("mode started at error until ready nodes features missing")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClusterReading(Answer[Watched]):
    """The result for one watched cluster. `position`: its number among the watched clusters;
    `line`: a summary."""

    position: int
    name: str
    line: str


@dataclass(slots=True, kw_only=True)
class Readings(Iterator[ClusterReading]):
    """The successive results of `watch`. `newest`: number of the cluster → its newest result."""

    chosen: Sequence[Chosen]
    until: Sequence[str]
    every: float
    timeout: float | None
    newest: dict[int, ClusterReading] = field(default_factory=dict)
    _readings: Generator[ClusterReading] = field(init=False)

    def __post_init__(self) -> None:
        self._readings = self._read()

    def __next__(self) -> ClusterReading:
        return next(self._readings)

    def close(self) -> None:
        """Stop watching."""
        self._readings.close()

    @property
    def is_ready(self) -> bool:
        """True if every awaited level is READY in every cluster."""
        return (
            bool(self.until) and self.is_seen and all(s.value.ready for s in self.newest.values())
        )

    @property
    def is_seen(self) -> bool:
        """True if every cluster responded to its newest query."""
        errors = [reading.value.error for reading in self.newest.values()]
        return len(errors) == len(self.chosen) and not any(errors)

    @property
    def exit_code(self) -> int:
        """The exit code: 0 = READY, or no level is awaited; 1 = not READY; 5 = no response."""
        if not self.is_seen:
            return BackendError.exit_code
        return int(bool(self.until) and not self.is_ready)

    def _read(self) -> Generator[ClusterReading]:
        queue, ended = SimpleQueue[_Found](), Event()
        for number, cluster in enumerate(self.chosen):
            go_on = partial(_keep_reading, number, cluster, self.until, self.every, ended, queue)
            Thread(target=go_on, name=f"watch-{number}", daemon=True).start()
        ends_at = None if self.timeout is None else time.monotonic() + self.timeout
        try:
            while not self.is_ready:
                is_first, seconds = len(self.newest) < len(self.chosen), None
                if ends_at is not None and not is_first:  # only after the first reading of each
                    seconds = max(0.0, ends_at - time.monotonic())
                try:
                    number, reading, error = queue.get(timeout=seconds)
                except Empty:
                    return
                if reading is not None:
                    self.newest[number] = reading
                answered = [newest.value.answered for newest in self.newest.values()]
                nobody = len(answered) == len(self.chosen) and not any(answered)
                if error is not None and (reading is None or nobody):
                    raise error
                assert reading is not None
                yield reading
        finally:
            ended.set()


def watch(
    clusters: AnyCluster | Sequence[AnyCluster],
    *,
    until: str | Sequence[str] = (),
    every: float = EVERY_SECONDS,
    timeout: float | None = None,
) -> Readings:
    """Follow a rolling upgrade until a level is READY.

    \b
        featurelib watch payments-eu
        featurelib watch payments-eu --until 4.2 --timeout 2h
        featurelib watch --label ring=canary --until metadata.version=4.2 --json

    Every listener is queried every two seconds, and nothing is changed. A terminal shows one
    screen with the present state. A pipe gets a line for each change, an object with --json. A
    cluster is READY if `featurelib plan` would plan what --until names. Ctrl-C ends it.
    In Python: for look in watch("payments-eu", until="4.2", timeout=60).

    Exit codes: 0 READY, or the time was up without --until; 1 the time was up before READY; 2
    usage; 5 no node responded in the first reading, or in the last reading of one cluster; 130
    Ctrl-C.
    """
    several = [clusters] if isinstance(clusters, str | Chosen) else clusters
    chosen = [
        connect(cluster, timeout=NODE_SECONDS) if isinstance(cluster, str) else choose_live(cluster)
        for cluster in several
    ]
    if not 0 < len(chosen) <= MOST_CLUSTERS:
        raise ConfigError(
            f"watch shows 1 to {MOST_CLUSTERS} clusters, and {len(chosen):,} are chosen. Name the "
            "clusters of the upgrade, or choose them with --owner, --label or --view."
        )
    texts = (until,) if isinstance(until, str) else tuple(until)
    return Readings(chosen=chosen, until=texts, every=every, timeout=timeout)


# The cluster's position, its reading, and the error of a failed reading.
_Found = tuple[int, ClusterReading | None, BaseException | None]


def _keep_reading(
    number: int,
    chosen: Chosen,
    texts: Sequence[str],
    every: float,
    over: Event,
    queue: SimpleQueue[_Found],
) -> None:
    """Query a cluster repeatedly until `over` is set, and put each result into `queue`. An error
    that cannot disappear ends the loop."""
    watching, made_from = Watch(texts, chosen.catalogue), ""
    try:
        entry = chosen.reached().entry
        with chosen.reader() as (read, backend):
            while not over.is_set():
                began, error, source = time.monotonic(), None, None
                try:
                    source = read()
                    entry, made_from = source.entry, source.made_from
                    watched = watching.see(source.view)
                except BackendError as failed:
                    error = failed
                    watched = watching.lose(str(failed), datetime.now(UTC), entry.id)
                name = entry.title or watched.cluster_id or backend.where
                common = fill(
                    OfCluster,
                    cluster=watched.cluster_id,
                    name=entry.title or None,
                    made_from=made_from,
                )
                queue.put((number, _answer(number, watched, name, common, source, chosen), error))
                over.wait(max(LEAST_PAUSE_SECONDS, began + every - time.monotonic()))
    except BaseException as fault:  # whoever consumes the readings raises it
        queue.put((number, None, fault))


def _answer(
    number: int, watched: Watched, name: str, head: OfCluster, source: Source | None, chosen: Chosen
) -> ClusterReading:
    catalogue = chosen.catalogue
    return ClusterReading(
        value=watched,
        make_rows=lambda: map(asdict, watched.nodes),
        make_document=lambda: document(head, watched),
        page=lambda width: watch_page(watched, name, *_next(watched, source), catalogue, width),
        position=number,
        name=name,
        line=watch_line(watched, name, catalogue),
    )


def _next(watched: Watched, source: Source | None) -> tuple[str, Sequence[LeftOver]]:
    """Return (command that plans the awaited levels, "" = none; levels that the cluster's owner
    finalizes)."""
    goals = [goal for goal in watched.features if goal.wanted is not None]
    levels = {goal.feature: str(goal.wanted) for goal in goals}
    if source is None or not watched.ready or not levels:
        return "", ()
    intent, catalogue = Intent(command=Command.UPGRADE, up=levels), source.inputs.catalogue
    planned = make_plan(source.view, intent, catalogue, guards=source.guards)
    unplanned = tuple(left_over(planned.shares, source.entry, catalogue))
    if planned.plan is None:
        return "", unplanned
    cluster = f" {shlex.quote(source.argument)}" if source.wanted.cluster else ""
    return f"featurelib plan{cluster} {intent.text}{source.wanted.ways[0]}", unplanned


def follow(readings: Readings, *, as_json: bool) -> int:
    """Print each changed result until the watch ends; return the exit code."""
    before: dict[int, Watched] = {}
    screen = None if as_json or not Screen.is_there() else Screen()
    for reading in readings:
        previous, before[reading.position] = before.get(reading.position), reading.value
        if screen is not None:
            page = _page(readings.newest)
            screen.draw(page.painted.split("\n") if has_styles(sys.stdout) else [*page])
        elif previous is None or replace(reading.value, at=previous.at) != previous:
            print(as_json_text(reading.make_document(), one_line=True) if as_json else reading.line)
        if output_is_lost():
            break
    if not as_json and screen is None and before:
        print("", *(reading.page(None) for reading in readings.newest.values()), sep="\n")
    if output_is_lost() or readings.is_ready:
        return 0  # the process then ends with the code for lost output
    say(f"the time is up{', before it was READY' if readings.until else ''}")
    return readings.exit_code


def _page(newest: Mapping[int, ClusterReading]) -> Page:
    """Return the page of `watch`: one cluster in full, or a few lines per cluster."""
    if len(newest) == 1:
        [reading] = newest.values()
        return reading.page(None)
    page = Page(parts=True)
    for _, reading in sorted(newest.items()):
        style = "red" if reading.value.error else STYLES["READY"] if reading.value.ready else ""
        page.item(paint(reading.line, style) if style else reading.line)
    return page


def _watched(
    clusters: list[str] | None = None,
    *,
    choice: Choice,
    options: Wanted,
    node_timeout: float = NODE_SECONDS,
) -> list[Chosen]:
    is_fleet = not (clusters or options.addresses or choice != Choice())
    options = replace(options, timeout=node_timeout)
    members = several(clusters, is_fleet, choice=choice, options=options)
    return [replace(cluster, say=quietly) for cluster in members]


def _until(until: list[str] | None = None) -> list[str]:
    return until or []


def _within(within: str | None = None) -> float | None:
    return expect_span("--timeout", within).total_seconds() if within else None


PRINTING["watch"] = follow
CHOOSING |= {"watch.clusters": _watched, "watch.until": _until, "watch.timeout": _within}
