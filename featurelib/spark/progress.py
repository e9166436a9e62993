"""How far Spark is with what takes long, said once in a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # no types
from pyspark import StatusTracker
from pyspark.sql import SparkSession

from featurelib.words import progress

EVERY = 10.0  # seconds


@contextmanager
def telling(
    session: SparkSession, who: str, say: Callable[[str], None], every: float = EVERY
) -> Iterator[None]:
    """While the block runs, say of each stage that goes on how many of its tasks are done, and how
    long the others take; `who` is the job."""
    ended = Event()
    tracker = session.sparkContext.statusTracker()
    thread = Thread(target=_tell, args=(tracker, who, say, every, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _tell(
    tracker: StatusTracker, who: str, say: Callable[[str], None], every: float, ended: Event
) -> None:
    seen: dict[int, tuple[float, int]] = {}  # when a stage was seen first, and its tasks done then
    with suppress(Py4JError, OSError):  # Spark has ended, and says so where it is asked
        while not ended.wait(every):
            for stage in tracker.getActiveStageIds():
                now, info = time.monotonic(), tracker.getStageInfo(stage)
                if info is not None:
                    done, tasks = info.numCompletedTasks, info.numTasks
                    began, before = seen.setdefault(stage, (now, done))
                    if before < done < tasks:
                        left = (now - began) / (done - before) * (tasks - done)
                        say(f"{who}: {progress(done, tasks, 'task', left)}")
