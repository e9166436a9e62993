"""Reads rows of the gold tables into a report's values, a row at a time.

Every text from outside is cleaned here, and nothing is counted or judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import pyarrow as pa

from featurelib.feature import Severity, Verdict
from featurelib.report.clean import clean, clean_place
from featurelib.report.model import (
    Finding,
    Incompatible,
    Joining,
    Level,
    Readiness,
    Return,
    Step,
)
from featurelib.report.words import Columns, Words

Value = TypeVar("Value")
LONGEST_REASON = 250
JOIN = ("may_join", "may_join_after")
FindLine = Callable[[int], str | None]


def group_by_cluster(
    table: pa.Table, schema: pa.Schema, read: Callable[[Any], Value]
) -> dict[str, list[Value]]:
    """The rows of each cluster, read; columns that `schema` does not name are left out."""
    groups: dict[str, list[Value]] = defaultdict(list)
    for row in table.select(schema.names).to_pylist():
        groups[row["cluster"]].append(read(row))
    return groups


class Reader:
    """Reads rows with the words of one dialect and the names of one catalogue."""

    def __init__(
        self, words: Words, find_line: FindLine, addresses: Mapping[str, str] | None = None
    ) -> None:
        """`addresses`: by cluster, those of its brokers."""
        self._words = words
        self._addresses = addresses or {}
        self._find_line = find_line

    def finding(self, row: Any) -> Finding:
        """A row of featurelib.schema.FINDING."""
        columns: Columns = row
        said = self._words.say(columns, self._addresses.get(row["cluster"], ""))
        feature, code, line_id = row["feature"], row["code"], row["line_id"]
        line = None if line_id is None else self._find_line(line_id)
        return Finding(
            code=clean(code),
            severity=Severity(row["severity"]),
            message=said.message,
            remedy=said.remedy,
            command=said.command,
            source=said.source,
            role=row["role"],
            node_id=row["node_id"],
            feature=None if feature is None else clean(feature),
            finalized=self._words.level(feature, row["finalized_level"]),
            level=self._words.level(feature, row["level"]),
            supported=self._words.supported(feature, row["min_version"], row["max_version"]),
            epoch=row["epoch"],
            observed_at=_in_utc(row["observed_at"]),
            line_id=None if line_id is None else f"{line_id & 0xFFFF_FFFF_FFFF_FFFF:016x}",
            line=None if line is None else clean_place(line),
            detail=self._words.detail(code, row["detail"]),
            muted=None if row["muted"] is None else clean(row["muted"], LONGEST_REASON),
            muted_until=row["muted_until"],
        )

    def readiness(self, row: Any) -> Readiness:
        """A row of featurelib.schema.READINESS."""
        feature = row["feature"]
        return Readiness(
            feature=clean(feature),
            verdict=Verdict(row["verdict"]),
            finalized=self._words.level(feature, row["finalized_level"]),
            target=self._words.level(feature, row["target"]),
            ceiling=self._words.level(feature, row["ceiling"]),
            available=self._words.level(feature, row["available"]),
            blockers=row["blockers"] or 0,
            unknowns=row["unknowns"] or 0,
            downgrade_floor=self._words.level(feature, row["downgrade_floor"]),
            point_of_no_return=self._words.level(feature, row["point_of_no_return"]),
            ready_since=_in_utc(row["ready_since"]),
        )

    def incompatible(self, row: Any) -> Incompatible:
        """A row of featurelib.schema.INCOMPATIBLE_BROKER."""
        feature = row["feature"]
        return Incompatible(
            role=row["role"],
            node_id=row["node_id"],
            feature=clean(feature),
            finalized=self._known_level(feature, row["finalized_level"]),
            supported=self._words.supported(feature, row["min_version"], row["max_version"]),
            fenced=row["fenced"],
        )

    def joining(self, row: Any) -> Joining | None:
        """Who may join, of a row of featurelib.schema.UPGRADE_PLAN."""
        if row["may_join"] is None:
            return None
        now, after = ([clean(name) for name in row[key] or ()] for key in JOIN)
        afterwards = None if row[JOIN[1]] is None else tuple(after)
        text = f"now {self._words.releases(now)}"
        if afterwards is not None:
            then = "the same" if after == now else self._words.releases(after)
            text += f", afterwards {then}"
        return Joining(now=tuple(now), afterwards=afterwards, text=text)

    def going_back(self, row: Any) -> Return:
        """One of the `returns_after` of a row of featurelib.schema.UPGRADE_PLAN."""
        feature = row["feature"]
        return Return(
            feature=clean(feature),
            downgrade_floor=self._words.level(feature, row["downgrade_floor"]),
            point_of_no_return=self._words.level(feature, row["point_of_no_return"]),
        )

    def step(self, row: Any) -> Step:
        """One of the steps of a row of featurelib.schema.UPGRADE_PLAN."""
        feature = row["feature"]
        return Step(
            request=row["request"],
            feature=clean(feature),
            from_level=self._known_level(feature, row["from_level"]),
            to_level=self._known_level(feature, row["to_level"]),
            upgrade_type=row["upgrade_type"],
            timeout_ms=row["timeout_ms"],
        )

    def _known_level(self, feature: str, number: int) -> Level:
        level = self._words.level(feature, number)
        assert level is not None  # the schemas of these rows allow no null here
        return level


def _in_utc(time: datetime | None) -> datetime | None:
    return None if time is None else time.astimezone(UTC)
