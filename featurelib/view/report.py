"""The one source of every report's values: judged tables in, one Report of plain values out.

Pure: no clock, no environment, no file. The same tables give the same report whatever the order of
their rows. Every text from outside is cleaned here. Clusters come worst first: critical findings,
then by verdict, then by name; those held back by nothing but muted findings come last.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from featurelib.audit.audit import Judged
from featurelib.audit.findings import Mute, covered
from featurelib.audit.wording import FindingColumns, FindingWords
from featurelib.catalogue import Catalogue
from featurelib.config.fleet import Fleet as Inventory
from featurelib.config.fleet import FleetEntry as Entry
from featurelib.core.dialect import Dialect
from featurelib.feature import Phase, Severity, Verdict
from featurelib.schema import FINDING, INCOMPATIBLE_BROKER, READINESS, UPGRADE_PLAN
from featurelib.view.digest import (
    NOT_ANSWERING,
    OPEN,
    has_landed,
    is_silent,
    needs_person,
    rank_causes,
    summarize_cluster,
    unmuted,
)
from featurelib.view.model import (
    SEVERITY_RANK,
    VERDICT_RANK,
    FleetCounts,
    IncompatibleNode,
    Ingest,
    Joining,
    Level,
    Quarantine,
    QuarantinedLine,
    Range,
    Readiness,
    Report,
    ReportedCluster,
    ReportedFinding,
    ReportedMute,
    ReportedReturn,
    ReportedRun,
    ReportedStep,
)
from featurelib.words import (
    LENGTH,
    LONGEST_PATH,
    clean,
    clean_place,
    level_text,
    metadata_first,
    range_text,
    releases_text,
)

HOUR = 3_600_000_000  # microseconds
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONGEST_REASON = 250
TOO_OLD = frozenset({"evidence_too_old", "levels_too_old"})
TOOL = "kafka-features.sh --bootstrap-server HOST:PORT upgrade"
WITHOUT_NAMES = "zk-2.7"  # the tool of 2.7 to 3.2 takes no feature by name
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

Value = TypeVar("Value")
FindLine = Callable[[int], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """What the tables do not say of their run.

    `as_of` and `newest`, when the newest line was read: microseconds since 1970, UTC; 0 without a
    line. `max_age`: the oldest age that counts, microseconds; 0 where it is not known.
    """

    number: int
    as_of: int
    release: str = ""  # of featurelib
    ingest: Ingest | None = None
    newest: int = 0
    max_age: int = 0
    tables: str = ""
    out: str = ""  # the folder or URI of the reports and plans/
    quarantine: Quarantine | None = None  # its texts as they were found
    mutes: tuple[Mute, ...] = ()  # of conf/audit.toml, clusters by id


def summarize(
    judged: Judged,
    run: RunInfo,
    catalogue: Catalogue,
    dialect: Dialect,
    *,
    inventory: Inventory | None = None,
    plan_files: Mapping[str, str] | None = None,
    find_line: FindLine | None = None,
) -> Report:
    """The report on one run's tables; further columns in them (`run`) are left alone.

    `inventory`: what people call the clusters, and whose they are. `plan_files`: by cluster id,
    where its plan was written. `find_line`: from a line_id to `file:line`, None where it is not
    known.
    """
    entries = {entry.id: entry for entry in inventory.cluster} if inventory else {}
    reader = _Reader(catalogue, dialect, find_line or (lambda line_id: None), entries)
    findings = _by_cluster(judged.findings, FINDING, reader.finding)
    readiness = _by_cluster(judged.readiness, READINESS, reader.readiness)
    incompatible = _by_cluster(judged.incompatible, INCOMPATIBLE_BROKER, reader.incompatible)
    clusters = [
        reader.cluster(
            row,
            plan_file=(plan_files or {}).get(row["cluster"]),
            readiness=readiness.get(row["cluster"], []),
            findings=findings.get(row["cluster"], []),
            incompatible=incompatible.get(row["cluster"], []),
        )
        for row in judged.plans.select(UPGRADE_PLAN.names).to_pylist()
    ]
    clusters.sort(key=_worst_first)
    names = {cluster: entry.title for cluster, entry in entries.items()}
    mutes = [_mute(rule, judged.findings, run.as_of, names) for rule in run.mutes]
    return Report(
        run=_run(run, catalogue, dialect),
        fleet=_count_fleet(clusters),
        causes=rank_causes(clusters),
        clusters=tuple(clusters),
        mutes=tuple(sorted(mutes, key=_mute_order)),
    )


def _by_cluster(
    table: pa.Table, schema: pa.Schema, read: Callable[[Any], Value]
) -> dict[str, list[Value]]:
    """The rows of each cluster, read; columns that `schema` does not name are left out."""
    groups: dict[str, list[Value]] = defaultdict(list)
    for row in table.select(schema.names).to_pylist():
        groups[row["cluster"]].append(read(row))
    return groups


def _run(run: RunInfo, catalogue: Catalogue, dialect: Dialect) -> ReportedRun:
    quarantine = run.quarantine and Quarantine(
        lines=run.quarantine.lines,
        newest=tuple(
            QuarantinedLine(line=clean_place(row.line), reason=clean(row.reason))
            for row in run.quarantine.newest
        ),
    )
    return ReportedRun(
        number=run.number,
        as_of=EPOCH + timedelta(microseconds=run.as_of),
        release=clean(run.release) if run.release else "",
        catalogue=catalogue.label,
        dialect=dialect.name,
        ingest=run.ingest,
        newest_line=EPOCH + timedelta(microseconds=run.newest) if run.newest else None,
        max_age_hours=run.max_age / HOUR if run.max_age else None,
        tables=_shown(run.tables, LONGEST_PATH),
        out=_shown(run.out, LONGEST_PATH),
        quarantine=quarantine,
    )


class _Reader:
    """Reads rows of the gold tables with the words of one dialect and one catalogue."""

    def __init__(
        self,
        catalogue: Catalogue,
        dialect: Dialect,
        find_line: FindLine,
        entries: Mapping[str, Entry],
    ) -> None:
        self._catalogue = catalogue
        self._words = FindingWords(catalogue, dialect)
        self._find_line = find_line
        self._entries = entries

    def cluster(
        self,
        row: Any,
        *,
        plan_file: str | None,
        readiness: list[Readiness],
        findings: list[ReportedFinding],
        incompatible: list[IncompatibleNode],
    ) -> ReportedCluster:
        """A row of featurelib.schema.UPGRADE_PLAN, with what the other tables say of it."""
        entry = self._entries.get(row["cluster"]) or Entry(id=row["cluster"])
        steps = tuple(self._step(step) for step in row["steps"] or ())
        returns = [self._return(found) for found in row["returns_after"] or ()]
        verdict = Verdict(row["verdict"])
        findings.sort(key=_finding_order)
        if is_silent(findings, row["nodes"] or 0):  # of equal severity the root goes first
            findings.sort(key=lambda f: (SEVERITY_RANK[f.severity], f.code != NOT_ANSWERING))
        return ReportedCluster(
            key=row["cluster"],
            id=clean(row["cluster"]),
            name=clean(entry.name or entry.id),
            owner=_shown(entry.owner),
            contact=_shown(entry.contact),
            managed_by=_shown(entry.managed_by),
            labels=tuple(clean(f"{key}={entry.labels[key]}") for key in sorted(entry.labels)),
            verdict=verdict,
            phase=Phase(row["phase"]),
            nodes=row["nodes"] or 0,
            needs_person=needs_person(verdict, findings),
            summary=summarize_cluster(verdict, findings, steps),
            readiness=tuple(sorted(readiness, key=lambda ready: metadata_first(ready.feature))),
            findings=tuple(findings),
            incompatible=tuple(
                sorted(incompatible, key=lambda node: (node.role, node.node_id, node.feature))
            ),
            steps=steps,
            commands=() if _is_theirs(entry, steps) else _commands(steps, row["dialects"] or ()),
            joining=self._joining(row),
            returns=tuple(sorted(returns, key=lambda found: metadata_first(found.feature))),
            plan_file=_shown(plan_file, LONGEST_PATH),
        )

    def finding(self, row: Any) -> ReportedFinding:
        """A row of featurelib.schema.FINDING."""
        columns: FindingColumns = row
        entry = self._entries.get(row["cluster"])
        text = self._words.of(columns, entry.address if entry else "")
        feature, code, line_id = row["feature"], row["code"], row["line_id"]
        line = None if line_id is None else self._find_line(line_id)
        return ReportedFinding(
            code=clean(code),
            severity=Severity(row["severity"]),
            message=text.message,
            remedy=text.remedy,
            command=text.command,
            source=text.source,
            role=row["role"],
            node_id=row["node_id"],
            feature=None if feature is None else clean(feature),
            finalized=self._level(feature, row["finalized_level"]),
            level=self._level(feature, row["level"]),
            supported=self._range(row),
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
            finalized=self._level(feature, row["finalized_level"]),
            target=self._level(feature, row["target"]),
            ceiling=self._level(feature, row["ceiling"]),
            available=self._level(feature, row["available"]),
            blockers=row["blockers"] or 0,
            unknowns=row["unknowns"] or 0,
            downgrade_floor=self._level(feature, row["downgrade_floor"]),
            point_of_no_return=self._level(feature, row["point_of_no_return"]),
            ready_since=_in_utc(row["ready_since"]),
        )

    def incompatible(self, row: Any) -> IncompatibleNode:
        """A row of featurelib.schema.INCOMPATIBLE_BROKER."""
        feature = row["feature"]
        return IncompatibleNode(
            role=row["role"],
            node_id=row["node_id"],
            feature=clean(feature),
            finalized=self._known_level(feature, row["finalized_level"]),
            supported=self._range(row),
            fenced=row["fenced"],
        )

    def _joining(self, row: Any) -> Joining | None:
        if row["may_join"] is None:
            return None
        now, later = ([clean(n) for n in row[k] or ()] for k in ("may_join", "may_join_after"))
        text = f"now {releases_text(self._catalogue, now)}"
        has_plan = row["may_join_after"] is not None
        if has_plan:
            then = "the same" if later == now else releases_text(self._catalogue, later)
            text += f", afterwards {then}"
        return Joining(now=tuple(now), afterwards=tuple(later) if has_plan else None, text=text)

    def _return(self, row: Any) -> ReportedReturn:
        feature = row["feature"]
        return ReportedReturn(
            feature=clean(feature),
            downgrade_floor=self._level(feature, row["downgrade_floor"]),
            point_of_no_return=self._level(feature, row["point_of_no_return"]),
        )

    def _step(self, row: Any) -> ReportedStep:
        feature = row["feature"]
        return ReportedStep(
            request=row["request"],
            feature=clean(feature),
            from_level=self._known_level(feature, row["from_level"]),
            to_level=self._known_level(feature, row["to_level"]),
            upgrade_type=row["upgrade_type"],
            timeout_ms=row["timeout_ms"],
        )

    def _level(self, feature: str | None, number: int | None) -> Level | None:
        return None if number is None else self._known_level(feature, number)

    def _known_level(self, feature: str | None, number: int) -> Level:
        return Level(number=number, text=level_text(self._catalogue, feature, number))

    def _range(self, row: Any) -> Range | None:
        """A range, or None where the feature is not listed."""
        low, high = row["min_version"], row["max_version"]
        if low is None or high is None:
            return None
        text = range_text(self._catalogue, row["feature"], (low, high))
        return Range(min_version=low, max_version=high, text=text)


def _in_utc(time: datetime | None) -> datetime | None:
    return None if time is None else time.astimezone(UTC)


def _shown(text: str | None, length: int = LENGTH) -> str | None:
    return clean(text, length) if text else None


def _is_theirs(entry: Entry, steps: Sequence[ReportedStep]) -> bool:
    """Whether somebody else finalizes what a plan moves."""
    theirs = entry.managed
    return theirs is None or any(step.feature in theirs for step in steps)


def _commands(steps: Sequence[ReportedStep], dialects: Sequence[str]) -> tuple[str, ...]:
    """A plan's requests as commands of Kafka's own tool, for the person who carries them out; none
    at all where one of them cannot be typed as it is."""
    is_plain = all(_PLAIN.fullmatch(step.feature) for step in steps)
    if not is_plain or WITHOUT_NAMES in dialects:
        return ()
    requests = (list(some) for _, some in groupby(steps, key=lambda step: step.request))
    return tuple(
        " ".join([TOOL, *(f"--feature {step.feature}={step.to_level.number}" for step in some)])
        for some in requests
    )


def _worst_first(cluster: ReportedCluster) -> tuple[bool, bool, int, str, str]:
    critical = any(finding.severity is Severity.CRITICAL for finding in unmuted(cluster.findings))
    set_aside = cluster.verdict in OPEN and not cluster.needs_person
    rank = VERDICT_RANK[cluster.verdict]
    return not critical, set_aside, rank, cluster.name, cluster.key


def _finding_order(found: ReportedFinding) -> tuple[object, ...]:
    return (
        SEVERITY_RANK[found.severity],
        found.code,
        found.role or "",
        -1 if found.node_id is None else found.node_id,
        metadata_first(found.feature or ""),
        # Rows that are alike so far are told apart by what they say and where it was read.
        found.message,
        found.line_id or "",
    )


def _count_fleet(clusters: Sequence[ReportedCluster]) -> FleetCounts:
    """The counts over the fleet, taken from the clusters of the same report so that they cannot
    differ; every key is there, in the enum's order."""
    by_verdict = Counter(cluster.verdict for cluster in clusters)
    by_phase = Counter(cluster.phase for cluster in clusters)
    features = Counter(ready.verdict for cluster in clusters for ready in cluster.readiness)
    severities = Counter(found.severity for cluster in clusters for found in cluster.findings)
    unfit = {(c.key, node.node_id) for c in clusters for node in c.incompatible}
    muted = [found for cluster in clusters for found in cluster.findings if found.muted is not None]
    too_old = sum(map(_is_too_old, clusters))
    return FleetCounts(
        clusters=len(clusters),
        clusters_by_verdict={verdict: by_verdict[verdict] for verdict in Verdict},
        clusters_by_phase={phase: by_phase[phase] for phase in Phase},
        features=features.total(),
        features_by_verdict={verdict: features[verdict] for verdict in Verdict},
        findings=severities.total(),
        findings_by_severity={severity: severities[severity] for severity in Severity},
        muted=len(muted),
        muted_until=min((m.muted_until for m in muted if m.muted_until is not None), default=None),
        need_person=sum(cluster.needs_person for cluster in clusters),
        can_move=sum(bool(cluster.steps) for cluster in clusters),
        incompatible_nodes=len(unfit),
        all_too_old=0 < too_old == len(clusters),
        too_old=too_old,
        not_landed=sum(not has_landed(cluster.findings) for cluster in clusters),
    )


def _is_too_old(cluster: ReportedCluster) -> bool:
    old = any(found.code in TOO_OLD for found in cluster.findings)
    return old and cluster.verdict is Verdict.UNKNOWN


def _mute(rule: Mute, findings: pa.Table, as_of: int, names: Mapping[str, str]) -> ReportedMute:
    about = findings["cluster"].filter(covered(rule, findings))
    cluster = names.get(rule.cluster) or rule.cluster
    return ReportedMute(
        code=rule.code,
        cluster=clean(cluster) if cluster else None,
        feature=clean(rule.feature) if rule.feature else None,
        node=rule.node,
        reason=clean(rule.reason, LONGEST_REASON),
        until=rule.until,
        expired=rule.ends <= as_of,
        findings=len(about),
        clusters=len(pc.unique(about)),
    )


def _mute_order(mute: ReportedMute) -> tuple[object, ...]:
    about: Iterable[object] = (mute.cluster or "", mute.feature or "", mute.node or -1, mute.reason)
    return not mute.expired, mute.findings > 0, mute.until, mute.code, *about
