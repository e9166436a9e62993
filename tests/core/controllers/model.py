"""The oracle's front door: `answer(generation, cluster, request)`."""

from __future__ import annotations

from collections.abc import Callable

from tests.core.controllers import kip, kraft, zookeeper
from tests.core.controllers.words import Answer, Cluster, Request, minor

ANSWERS: dict[str, Callable[[Cluster, Request], Answer]] = {
    "zk-2.7": zookeeper.answer_27,
    "zk-3.3": zookeeper.answer_33,
    "kraft-3.3": kraft.each_alone,
    "kraft-3.5": kraft.each_alone,
    "kraft-3.7": kraft.each_alone,
    "kraft-3.8": kraft.each_alone,
    "kraft-3.9": kraft.each_alone,
    "kraft-4.0": kraft.all_or_nothing,
    "kraft-4.1": kraft.all_or_nothing,
    "kraft-4.2": kraft.all_or_nothing,
    "kip": kip.answer,
}
# The first release of each generation, newest first.
STARTS = {"zk": ["3.3", "2.7"], "kraft": ["4.2", "4.1", "4.0", "3.9", "3.8", "3.7", "3.5", "3.3"]}
# The newest version of the request that a generation reads.
NEWEST_WIRE = {"zk-2.7": 0, "kraft-4.0": 2, "kraft-4.1": 2, "kraft-4.2": 2, "kip": 2}


def generation_of(mode: str, release: str) -> str:
    first = next(start for start in STARTS[mode] if minor(release) >= minor(start))
    return f"{mode}-{first}"


def answer(generation: str, cluster: Cluster, request: Request) -> Answer:
    if not 0 <= request.version <= NEWEST_WIRE.get(generation, 1):
        raise ValueError(f"{generation} does not read version {request.version}")
    return ANSWERS[generation](cluster, request)
