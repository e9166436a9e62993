"""A sign of life from a job that takes long: Spark says by itself nothing until it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

EVERY = 30.0  # seconds


@contextmanager
def telling(job: str, say: Callable[[str], None], every: float = EVERY) -> Iterator[None]:
    """While the block runs, say once in a while for how long; `job` is the job."""
    ended, began = Event(), time.monotonic()

    def tell() -> None:
        while not ended.wait(every):
            say(f"{job}: at work for {time.monotonic() - began:.0f} s")

    thread = Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
