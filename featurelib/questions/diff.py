"""What two nights found, against each other: new, resolved, unchanged, incomparable.

A finding that is in one night only says something only if the other night could have found it: with
the same catalogue and policy, of a cluster that was judged then, on evidence that was known then.
What is wrong with the evidence itself can always be compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from featurelib.audit.findings import wordings
from featurelib.core.dialect import STRICT, load
from featurelib.feature import Severity, Verdict
from featurelib.lake import Lake
from featurelib.tables import FEATURE_READINESS, FINDINGS, UPGRADE_PLANS

Row = dict[str, Any]
Flags = npt.NDArray[np.bool_]
KEY = ("cluster", "code", "role", "node_id", "feature")
_SEVERITIES = list(Severity)
_BETWEEN = "\x1f"  # in no name that a landing line can hold unescaped


class State(StrEnum):
    """What became of one finding."""

    NEW = "new"
    RESOLVED = "resolved"
    UNCHANGED = "unchanged"
    INCOMPARABLE = "incomparable"


class Why(StrEnum):
    """Why a finding of one night cannot be compared."""

    JUDGED_OTHERWISE = "the nights were judged by another catalogue or policy"
    NOT_JUDGED = "its cluster was judged in one of the nights only"
    UNKNOWN = "the other night's evidence was UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDiff:
    """One cluster, and what the inventory calls it. `before` and `after` are its verdicts, None
    where it was not judged; an `incomparable` row has a key more, `why`."""

    cluster: str
    name: str | None
    before: str | None
    after: str | None
    new: tuple[Row, ...]
    resolved: tuple[Row, ...]
    unchanged: int
    incomparable: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """Two nights. `clusters` are those with anything new, resolved or incomparable, or another
    verdict, by id; `same` counts the others. Rows are of featurelib.schema.FINDING."""

    before: int
    after: int
    judged_alike: bool
    counts: Mapping[State, int]
    same: int
    clusters: tuple[ClusterDiff, ...]

    def new_at_least(self, severity: Severity) -> int:
        """How many findings are new, that severe or more, and not muted."""
        order = list(Severity)
        bad = set(order[: order.index(severity) + 1])
        new = (row for one in self.clusters for row in one.new)
        return sum(row["severity"] in bad and row["muted"] is None for row in new)


def diff(lake: Lake, before: int, after: int, names: Mapping[str, str] | None = None) -> Diff:
    """The night `after` against the night `before`; `names` by cluster id. Raises ConfigError for a
    night that is not there."""
    was, now = _Night(lake, before), _Night(lake, after)
    alike = was.judged_by == now.judged_by
    gone, come = was.missing_in(now), now.missing_in(was)
    found: dict[str, dict[State, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for night, other, only, state in (
        (was, now, gone, State.RESOLVED),
        (now, was, come, State.NEW),
    ):
        for row in night.rows(only):
            why = Why.JUDGED_OTHERWISE if not alike else other.why_silent(row)
            if why is None:
                found[row["cluster"]][state].append(row)
            else:
                found[row["cluster"]][State.INCOMPARABLE].append(row | {"why": why})
    both = now.count_by_cluster(~come)
    every = was.verdicts.keys() | now.verdicts.keys()
    moved = {name for name in every if was.verdicts.get(name) != now.verdicts.get(name)}
    clusters = []
    for cluster in sorted(found.keys() | moved):
        rows = {state: tuple(sorted(found[cluster][state], key=_order)) for state in State}
        clusters.append(
            ClusterDiff(
                cluster=cluster,
                name=names.get(cluster) if names else None,
                before=was.verdicts.get(cluster),
                after=now.verdicts.get(cluster),
                new=rows[State.NEW],
                resolved=rows[State.RESOLVED],
                unchanged=both.get(cluster, 0),
                incomparable=rows[State.INCOMPARABLE],
            )
        )
    counts = {state: sum(len(rows[state]) for rows in found.values()) for state in State}
    return Diff(
        before=before,
        after=after,
        judged_alike=alike,
        counts=counts | {State.UNCHANGED: sum(both.values())},
        same=len(every) - len(clusters),
        clusters=tuple(clusters),
    )


def _order(row: Row) -> tuple[object, ...]:
    """The worst first, then by code, node and feature, whatever the order of the tables' files."""
    node = -1 if row["node_id"] is None else row["node_id"]
    where = row["role"] or "", node, row["feature"] or ""
    return _SEVERITIES.index(row["severity"]), row["code"], *where, row["detail"] or ""


class _Night:
    """The findings of one night, and what it knew."""

    def __init__(self, lake: Lake, run: int) -> None:
        row = next(row for row in lake.runs.to_pylist() if row["run"] == lake.run(run))
        self.judged_by = (row["catalogue"], row["dialect"])
        self._lake, self._run = lake, run
        keys = lake.rows(FINDINGS, run=run, columns=KEY)
        self._keys = _texts(keys)
        self._clusters = keys["cluster"]
        plans = lake.rows(UPGRADE_PLANS, run=run, columns=["cluster", "verdict"])
        names, verdicts = plans["cluster"].to_pylist(), plans["verdict"].to_pylist()
        self.verdicts: dict[str, str] = dict(zip(names, verdicts, strict=True))
        self._known: dict[tuple[str, str], str] | None = None

    def missing_in(self, other: _Night) -> Flags:
        """Which of its findings the other night does not have."""
        there = pc.is_in(self._keys, value_set=other._keys)
        missing: Flags = np.logical_not(there.to_numpy(zero_copy_only=False))
        return missing

    def rows(self, which: Flags) -> Iterator[Row]:
        """These findings whole, read only if there are any."""
        if which.any():
            found = self._lake.rows(FINDINGS, run=self._run)
            keys = _texts(found)  # a table is not read in one order every time
            wanted = self._keys.filter(pa.array(which))
            yield from found.filter(pc.is_in(keys, value_set=wanted)).to_pylist()

    def count_by_cluster(self, which: Flags) -> dict[str, int]:
        """How many of these findings each cluster has."""
        counted = self._clusters.filter(pa.array(which)).value_counts()
        return {row["values"]: row["counts"] for row in counted.to_pylist()}

    def why_silent(self, row: Row) -> Why | None:
        """Why this night may not have found what another did; None where its silence counts."""
        cluster, feature = row["cluster"], row["feature"]
        if cluster not in self.verdicts:
            return Why.NOT_JUDGED
        if _is_about_evidence(row):
            return None
        verdict = self.verdicts[cluster] if feature is None else self._verdict(cluster, feature)
        return Why.UNKNOWN if verdict == Verdict.UNKNOWN else None

    def _verdict(self, cluster: str, feature: str) -> str:
        """On one feature; on one that nobody spoke of the cluster's."""
        if self._known is None:
            columns = ["cluster", "feature", "verdict"]
            rows = self._lake.rows(FEATURE_READINESS, run=self._run, columns=columns)
            unknown = rows.filter(pc.equal(rows["verdict"], Verdict.UNKNOWN.value))
            self._known = {
                (row["cluster"], row["feature"]): row["verdict"] for row in unknown.to_pylist()
            }
        return self._known.get((cluster, feature), "")


def _texts(keys: pa.Table) -> pa.Array:
    """What tells two findings of a night apart, as one text each."""
    parts = [pc.fill_null(keys[name].cast(pa.string()), "") for name in KEY]
    return pc.binary_join_element_wise(*parts, _BETWEEN).combine_chunks()


def _is_about_evidence(row: Row) -> bool:
    known = wordings(load(STRICT)).get(row["code"])
    severity = row["severity"] if known is None else known.severity
    return bool(severity == Severity.UNKNOWN)
