"""Compare two runs of the nightly, from the tables.

A finding of one run counts as new or resolved only if the other run could have found it: with equal
catalogue and policy, in a judged cluster, with known data.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np

from featurelib import tables
from featurelib.audit.findings import without_blanks, wordings
from featurelib.core.dialect import STRICT, load
from featurelib.feature import Severity, Verdict
from featurelib.findings import code_of, tagged
from featurelib.lake import FOUND, Lake
from featurelib.rows import TableRows
from featurelib.snapshot.history import (
    LevelMove,
    changed_levels,
    known_levels,
    late_since,
    lowered_ceilings,
)

Row = dict[str, Any]
Key = tuple[Any, ...]  # the values of KEY that identify a finding
KEY = ("cluster", "code", "role", "node_id", "feature")
_SEVERITIES = list(Severity)


class State(StrEnum):
    """The state of a finding in the comparison of two runs."""

    NEW = "new"
    RESOLVED = "resolved"
    UNCHANGED = "unchanged"
    INCOMPARABLE = "incomparable"


class Why(StrEnum):
    """The reason why a finding of one run cannot be compared."""

    JUDGED_OTHERWISE = "the two runs used different catalogues or policies"
    NOT_JUDGED = "only one of the two runs judged the cluster"
    UNKNOWN = "the verdict of the other run was UNKNOWN"
    NO_SUCH_LEVEL = "the other run had no target level as high as this"
    FINALIZED = "the level was finalized in spite of the finding"


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelOfNights:
    """A feature with its finalized level in two runs. `unfit`: the nodes, such as `broker 2`, that
    do not support the later level."""

    feature: str
    before: int
    after: int
    unfit: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDiff:
    """The differences of one cluster. `before`, `after`: verdicts, None = not judged; `critical`:
    the later run has an unmuted critical finding; `levels`: changed finalized levels; `ceilings`:
    maximum levels that fell; `silent_since`: the time of the newest line, if no new data came."""

    cluster: str
    name: str | None
    before: str | None
    after: str | None
    critical: bool
    silent_since: datetime | None
    levels: tuple[LevelOfNights, ...]
    ceilings: tuple[LevelMove, ...]
    new: tuple[Row, ...]
    resolved: tuple[Row, ...]
    unchanged: int
    incomparable: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """The differences of two runs. `clusters`: the clusters with any difference or without new
    data; `same`: the number of the other clusters. Findings are rows of
    featurelib.schema.FINDING."""

    before: int
    after: int
    judged_alike: bool
    counts: Mapping[State, int]
    same: int
    clusters: tuple[ClusterDiff, ...]

    def new_at_least(self, severity: Severity) -> int:
        """Return the number of new, unmuted findings with at least this severity."""
        bad = set(_SEVERITIES[: _SEVERITIES.index(severity) + 1])
        new = (row for cluster in self.clusters for row in cluster.new)
        return sum(row["severity"] in bad and row["muted"] is None for row in new)


def diff(
    lake: Lake,
    before: int,
    after: int,
    names: Mapping[str, str] | None = None,
    part: Container[str] | None = None,
) -> Diff:
    """Compare the runs `before` and `after`. `names`: cluster id → name; `part`: ids of the chosen
    clusters, None = all. Raises ConfigError if a run does not exist."""
    older, newer = _Night(lake, before, part), _Night(lake, after, part)
    same_judge = older.judged_by == newer.judged_by
    in_both = newer.found & older.found
    unchanged, differing = Counter(key[0] for key in in_both), _differing(older, newer)
    features = older.verdicts.keys() | newer.verdicts.keys()
    levels = _levels_moved(older, newer)
    moved = {name for name in features if older.verdicts.get(name) != newer.verdicts.get(name)}
    silent = {name: at for name, at in newer.silent.items() if name not in older.silent}
    clusters = []
    for cluster in sorted({*differing, *moved, *levels, *silent}):
        rows = {state: tuple(sorted(differing[cluster][state], key=_order)) for state in State}
        changed, ceilings = levels.get(cluster, ((), ()))
        clusters.append(
            ClusterDiff(
                cluster=cluster,
                name=names.get(cluster) if names else None,
                before=older.verdicts.get(cluster),
                after=newer.verdicts.get(cluster),
                critical=cluster in newer.critical,
                silent_since=silent.get(cluster),
                levels=changed,
                ceilings=ceilings,
                new=rows[State.NEW],
                resolved=rows[State.RESOLVED],
                unchanged=unchanged[cluster],
                incomparable=rows[State.INCOMPARABLE],
            )
        )
    counts = {state: sum(len(rows[state]) for rows in differing.values()) for state in State}
    return Diff(
        before=before,
        after=after,
        judged_alike=same_judge,
        counts=counts | {State.UNCHANGED: len(in_both)},
        same=len(features) - len(clusters),
        clusters=tuple(clusters),
    )


def _differing(older: _Night, newer: _Night) -> dict[str, dict[State, list[Row]]]:
    """Return cluster → state → findings, without unchanged findings."""
    changed: dict[str, dict[State, list[Row]]] = defaultdict(lambda: defaultdict(list))
    equal = older.judged_by == newer.judged_by
    for night, other, state in ((older, newer, State.RESOLVED), (newer, older, State.NEW)):
        for row in night.rows(night.found - other.found):
            why_not = (
                Why.JUDGED_OTHERWISE if not equal else other.why_silent(row, is_new=other is older)
            )
            if why_not is None:
                changed[row["cluster"]][state].append(row)
            else:
                changed[row["cluster"]][State.INCOMPARABLE].append(row | {"why": why_not})
    return changed


_Moved = tuple[tuple[LevelOfNights, ...], tuple[LevelMove, ...]]  # levels, lowered ceilings


def _levels_moved(older: _Night, newer: _Night) -> dict[str, _Moved]:
    """Return cluster → (changed finalized levels, lowered maximum levels). Maximum levels are
    compared only if both runs used the same rules."""
    moved: dict[str, _Moved] = {}
    (before, low), (after, high) = (
        [known_levels(side.readiness.values(), column) for column in ("finalized_level", "ceiling")]
        for side in (older, newer)
    )
    for key in older.verdicts.keys() & newer.verdicts.keys():
        pairs = changed_levels(before[key], after[key])
        lowered = lowered_ceilings(low[key], high[key], pairs)
        levels = (
            LevelOfNights(feature=name, before=old, after=new, unfit=(*newer.unfit[key, name],))
            for name, old, new in pairs
        )
        changes = tuple(levels), tuple(lowered if older.judged_by == newer.judged_by else ())
        if any(changes):
            moved[key] = changes
    return moved


def _order(row: Row) -> tuple[object, ...]:
    """Return the sort key of a finding: severity (worst first), code, node, feature."""
    node = -1 if row["node_id"] is None else row["node_id"]
    node_key = row["role"] or "", node, row["feature"] or ""
    return _SEVERITIES.index(row["severity"]), row["code"], *node_key, str(row["facts"])


class _Night:
    """The findings, verdicts and levels of one run."""

    def __init__(self, lake: Lake, run: int, part: Container[str] | None) -> None:
        row = lake.night(run)
        self.judged_by = (row["catalogue"], row["dialect"])
        self._lake, self._run = lake, run
        findings = lake.rows(tables.FINDINGS, run=run, columns=[*KEY, "severity", "muted"])
        self.found = {key for key in _keys(findings) if part is None or key[0] in part}
        rows = findings.to_pylist()
        critical = (row for row in rows if row["severity"] == "critical" and not row["muted"])
        self.critical: set[str] = {row["cluster"] for row in critical}
        columns = ["cluster", "verdict", "newest_line"]
        plans = lake.rows(tables.UPGRADE_PLANS, run=run, columns=columns).to_pylist()
        silent, verdicts = _silent(plans, rows), {row["cluster"]: row["verdict"] for row in plans}
        features = [name for name in verdicts if part is None or name in part]
        self.verdicts: dict[str, str] = {name: verdicts[name] for name in features}
        self.silent = {name: silent[name] for name in features if name in silent}

    def rows(self, keys: Set[Key]) -> Iterator[Row]:
        """Yield all columns of the findings with these keys, in any order."""
        if keys:
            rows = self._lake.rows(tables.FINDINGS, run=self._run, columns=FOUND)
            at = [i for i, key in enumerate(_keys(rows)) if key in keys]
            yield from map(without_blanks, rows.take(np.array(at, dtype=np.int64)).to_pylist())

    def why_silent(self, row: Row, *, is_new: bool) -> Why | None:
        """Return the reason why this run may lack a finding of the other run; None if the finding
        is certainly absent. `is_new`: this is the earlier run."""
        cluster, feature = row["cluster"], row["feature"]
        if cluster not in self.verdicts:
            return Why.NOT_JUDGED
        words = wordings(load(STRICT)).get(row["code"])
        if (row["severity"] if words is None else words.severity) == Severity.UNKNOWN:
            return None  # the finding is about evidence itself
        is_blocker = row["severity"] == Severity.BLOCKER
        prefix = cluster, code_of("unfit"), row["role"], row["node_id"], feature
        if is_blocker and not is_new and prefix in self.found:
            return Why.FINALIZED
        ready = self.readiness.get((cluster, feature))
        # If no node responds, none can list the feature.
        verdict = self.verdicts[cluster] if ready is None else ready["verdict"]
        if verdict == Verdict.UNKNOWN:
            return Why.UNKNOWN
        aims = None if ready is None else ready["ceiling"]
        has_level = is_blocker and row["level"] is not None
        is_lower = has_level and aims is not None and aims < row["level"]
        return Why.NO_SUCH_LEVEL if is_lower and not is_new else None

    @cached_property
    def unfit(self) -> defaultdict[tuple[str, str], list[str]]:
        """The nodes that do not support a finalized level, by (cluster, feature)."""
        nodes: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        misfits = (key for key in self.found if key[1] in tagged("unfit"))
        for cluster, _, role, node_id, feature in sorted(misfits):
            nodes[cluster, feature].append(f"{role} {node_id}")
        return nodes

    @cached_property
    def readiness(self) -> dict[tuple[str, str], Row]:
        columns = ["cluster", "feature", "verdict", "finalized_level", "ceiling"]
        rows = self._lake.rows(tables.FEATURE_READINESS, run=self._run, columns=columns)
        return {(row["cluster"], row["feature"]): row for row in rows.to_pylist()}


def _silent(plans: Sequence[Row], findings: Sequence[Row]) -> dict[str, datetime]:
    """Return cluster → time of the newest line, for clusters that sent no data for a run."""
    codes = defaultdict[str, list[tuple[str, str | None]]](list)
    for row in findings:
        if row["code"] in tagged("too_old", "unreached"):
            codes[row["cluster"]].append((row["code"], row["muted"]))
    newest = max(filter(None, (row["newest_line"] for row in plans)), default=None)
    since = {r["cluster"]: late_since(r["newest_line"], newest, codes[r["cluster"]]) for r in plans}
    return {cluster: at for cluster, at in since.items() if at}


def _keys(findings: TableRows) -> list[Key]:
    """Return the keys that identify the findings of a run."""
    return list(zip(*(findings[name].to_pylist() for name in KEY), strict=True))
