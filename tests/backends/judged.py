"""What is judged of the lines that a real cluster gave."""

from __future__ import annotations

from collections.abc import Iterable

from featurelib.audit.cluster_view import Sight, see
from featurelib.catalogue import load

CATALOGUE, METADATA = load(), "metadata.version"


def judged(lines: Iterable[bytes]) -> Sight:
    return see(lines, catalogue=CATALOGUE, as_of=None, max_age=10**15)


def verdict(sight: Sight, feature: str = METADATA) -> str:
    rows = sight.judged.readiness.to_pylist()
    return str(next(row["verdict"] for row in rows if row["feature"] == feature))
