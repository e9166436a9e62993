"""How much one look at a cluster may cost, whatever its nodes say.

A listener that is broken or hostile may answer without an end, name a new node in each answer, or
list a hundred thousand. Everything here is far above what real clusters need: a thousand nodes list
each other in 50 to 300 kB, and one node's ranges with a thousand features are 60 kB.
"""

from __future__ import annotations

import time
from threading import Lock

from featurelib.backends.kafka_answers import Api

MEGABYTE = 1_000_000
LISTS = 4 * MEGABYTE  # answers that list nodes
LONGEST_ANSWER_BYTES = {
    Api.METADATA: LISTS,
    Api.DESCRIBE_CLUSTER: LISTS,
    Api.DESCRIBE_QUORUM: LISTS,
    Api.LIST_PARTITION_REASSIGNMENTS: 4 * LISTS,  # of all partitions; none of a look
}
LONGEST_OTHER_ANSWER_BYTES = MEGABYTE
LONGEST_OF_ALL = max(LONGEST_ANSWER_BYTES.values())
MOST_BYTES = 64 * MEGABYTE  # of all answers of one look; parsing them takes up to half a minute
MOST_NODES = 5_000  # of each role
MOST_ADDRESSES = 8  # of a node
TIME_LIMITS, LEAST_SECONDS = 30, 60.0  # a look takes so many time limits, and may always take these


class Allowance:
    """What one look has left of time and bytes; shared by the threads that ask. `timeout` in
    seconds, a node."""

    def __init__(self, timeout: float) -> None:
        self._seconds = max(LEAST_SECONDS, TIME_LIMITS * timeout)
        self._over_at = time.monotonic() + self._seconds
        self._left = MOST_BYTES
        self._lock = Lock()

    def take(self, count: int) -> None:
        """So many bytes more were received."""
        with self._lock:
            self._left -= count

    @property
    def spent(self) -> str:
        """Why nobody is asked any more; "" = somebody may be."""
        if self._left < 0:
            return f"the nodes of this cluster answered with more than {_megabytes(MOST_BYTES)}"
        if time.monotonic() > self._over_at:
            return f"the look was to take at most {self._seconds:g} s"
        return ""


def longest(api: Api) -> int:
    """How many bytes an answer may have."""
    return LONGEST_ANSWER_BYTES.get(api, LONGEST_OTHER_ANSWER_BYTES)


def too_long(most: int) -> str:
    """What is said of an answer that is longer."""
    return f"its answer is longer than {_megabytes(most)}, and was not read"


def _megabytes(count: int) -> str:
    return f"{count // MEGABYTE} MB"
