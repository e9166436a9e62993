"""What real processes of every release said, recorded on 2026-11-21, in tables of our own shape.

version_mapping.csv, feature_dependencies.csv and supported_names.csv are kafka-features of 4.0.1 to
4.4.0; format.jsonl is kafka-storage format; ranges.csv and safe_downgrades.csv are what nodes
advertised and controllers answered.
"""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from featurelib.extras.initial_levels.storage_format import FormatRequest

DATA = Path(__file__).parent / "data" / "catalogue"
ORDER = ("metadata.version", "kraft.version", "transaction.version", "group.version")
ORDER += ("eligible.leader.replicas.version", "share.version", "streams.version")
QUORUM_FLAGS = {"--standalone", "--no-initial-controllers"}


def table(name: str) -> list[dict[str, str]]:
    """The rows of a recorded CSV file."""
    return list(csv.DictReader((DATA / name).read_text(encoding="utf-8").splitlines()))


def mappings() -> Iterator[tuple[str, str, dict[str, int] | None]]:
    """Tool, release version asked for (empty: none), and the levels; None = refused."""
    for row in table("version_mapping.csv"):
        if row["levels"] == "unknown":
            yield row["tool"], row["release_version"], None
        else:
            levels = [int(level) for level in row["levels"].split()]
            said = dict(zip(ORDER, levels, strict=False))
            yield row["tool"], row["release_version"], said


@dataclass(frozen=True, kw_only=True)
class Formatted:
    """One recorded kafka-storage format: what was asked, and what came of it."""

    tool: str
    args: tuple[str, ...]
    request: FormatRequest
    levels: dict[str, int] | None
    says: str

    @property
    def name(self) -> str:
        return " ".join((self.tool, *self.args, "unstable" if self.request.unstable else ""))


def formats() -> list[Formatted]:
    """Every recorded kafka-storage format."""
    found = []
    for line in (DATA / "format.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        args = row["args"]
        given = list(itertools.pairwise(args))
        features = dict(value.split("=") for flag, value in given if flag == "--feature")
        versions = [value for flag, value in given if flag == "--release-version"]
        request = FormatRequest(
            release_version=versions[0] if versions else None,
            features={name: int(level) for name, level in features.items()},
            dynamic_quorum=not QUORUM_FLAGS.isdisjoint(args),
            unstable=row["unstable"],
            static_voters=row["static_voters"],
        )
        found.append(
            Formatted(
                tool=row["tool"],
                args=tuple(args),
                request=request,
                levels=row["levels"],
                says=row["says"],
            )
        )
    return found
