"""Looks at clusters again and again while their software is rolled. Nothing is sent, nothing
written.

Each cluster has a thread, so that one whose nodes hang keeps no other waiting.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Thread

from featurelib.api.clusters import Answer, AnyCluster, choose_live, connect
from featurelib.api.documents import OfCluster, document
from featurelib.errors import BackendError, ConfigError
from featurelib.planning.goal import Command, Intent
from featurelib.planning.owners import LeftOver, left_over
from featurelib.planning.planner import make_plan
from featurelib.questions.watch import Watch, Watched
from featurelib.source import Chosen, Source
from featurelib.view.describe import watch_line, watch_page
from featurelib.view.documents import fill

EVERY_SECONDS = 2.0
NODE_SECONDS = 3.0  # for a node to answer: one that hangs must not hide for long who is back
LEAST_PAUSE_SECONDS = 0.2
MOST_CLUSTERS = 50


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClusterLook(Answer[Watched]):
    """One look at one cluster: the one at `position` of those that are watched, which people call
    `name`; `line` says it in one line."""

    position: int
    name: str
    line: str


def watch(
    clusters: AnyCluster | Sequence[AnyCluster],
    *,
    until: str | Sequence[str] = (),
    every: float = EVERY_SECONDS,
    timeout: float | None = None,
) -> Iterator[ClusterLook]:
    """Look at clusters every few seconds, until all that is waited for is READY in each.

        for look in watch("payments-eu", until="4.2", timeout=3600):
            print(look.line)
        look.value.ready

    `until` is a release, for every level that its software finalizes by default, or FEATURE=LEVEL;
    without it the looks go on until `timeout`, in seconds. There is one at each in any case. The
    value has `nodes`, `features`, `missing` and `ready`; nodes, and whole clusters, may go and come
    back. Raises ConfigError, and UnreachableError where no cluster answers the first look.
    """
    several = [clusters] if isinstance(clusters, str | Chosen) else clusters
    chosen = [
        connect(one, timeout=NODE_SECONDS) if isinstance(one, str) else choose_live(one)
        for one in several
    ]
    if not 0 < len(chosen) <= MOST_CLUSTERS:
        raise ConfigError(
            f"expected 1 to {MOST_CLUSTERS} clusters to watch, found {len(chosen):,}. Name those "
            "that are rolled, or choose them with --owner, --label or --view."
        )
    texts = (until,) if isinstance(until, str) else tuple(until)
    found, over = SimpleQueue[_Found](), Event()
    for number, one in enumerate(chosen):
        go_on = partial(_look_on, number, one, texts, every, over, found)
        Thread(target=go_on, name=f"watch-{number}", daemon=True).start()
    ends_at = None if timeout is None else time.monotonic() + timeout
    newest: dict[int, Watched] = {}
    try:
        while not (texts and len(newest) == len(chosen) and all(s.ready for s in newest.values())):
            left = None  # the first look at each is waited for in any case
            if ends_at is not None and len(newest) == len(chosen):
                left = max(0.0, ends_at - time.monotonic())
            try:
                number, look, error = found.get(timeout=left)
            except Empty:
                return
            if look is not None:
                newest[number] = look.value
            nobody = len(newest) == len(chosen) and not any(s.answered for s in newest.values())
            if error is not None and (look is None or nobody):
                raise error
            assert look is not None
            yield look
    finally:
        over.set()


# Which cluster, and why it was not seen.
_Found = tuple[int, ClusterLook | None, BaseException | None]


def _look_on(
    number: int,
    chosen: Chosen,
    texts: Sequence[str],
    every: float,
    over: Event,
    found: SimpleQueue[_Found],
) -> None:
    """Look at one cluster until it is `over`. A look that fails is found, too; after a fault that
    no other look fixes there is none."""
    watching, made_from = Watch(texts, chosen.catalogue), ""
    try:
        entry = chosen.reached().entry
        with chosen.looking() as (look, backend):
            while not over.is_set():
                began, error, source = time.monotonic(), None, None
                try:
                    source = look()
                    entry, made_from = source.entry, source.made_from
                    seen = watching.see(source.sight)
                except BackendError as failed:
                    error = failed
                    seen = watching.lose(str(failed), datetime.now(UTC), entry.id)
                name = entry.title or seen.cluster_id or backend.where
                head = fill(
                    OfCluster,
                    cluster=seen.cluster_id,
                    name=entry.title or None,
                    made_from=made_from,
                )
                found.put((number, _look(number, seen, name, head, source, chosen), error))
                over.wait(max(LEAST_PAUSE_SECONDS, began + every - time.monotonic()))
    except BaseException as fault:  # it is raised where the looks are taken
        found.put((number, None, fault))


def _look(
    number: int, seen: Watched, name: str, head: OfCluster, source: Source | None, chosen: Chosen
) -> ClusterLook:
    catalogue = chosen.catalogue
    return ClusterLook(
        value=seen,
        make_rows=lambda: map(asdict, seen.nodes),
        make_document=lambda: document(head, seen),
        page=lambda width: watch_page(seen, name, *_next(seen, source), catalogue, width),
        position=number,
        name=name,
        line=watch_line(seen, name, catalogue),
    )


def _next(seen: Watched, source: Source | None) -> tuple[str, Sequence[LeftOver]]:
    """What plans the levels that were waited for, empty where none of them is ours to plan; and how
    those are moved that somebody else finalizes."""
    levels = {one.feature: str(one.wanted) for one in seen.features if one.wanted is not None}
    if source is None or not seen.ready or not levels:
        return "", ()
    intent, catalogue = Intent(command=Command.UPGRADE, up=levels), source.terms.catalogue
    planned = make_plan(source.sight, intent, catalogue, guards=source.guards)
    left = tuple(left_over(planned.shares, source.entry, catalogue))
    if planned.plan is None:
        return "", left
    cluster = f" {shlex.quote(source.argument)}" if source.wanted.cluster else ""
    return f"featurelib plan{cluster} {intent.text}{source.wanted.ways[0]}", left
