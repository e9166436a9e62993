"""The one source of every report's values: judged tables in, one Report of plain values out.

Pure: no clock, no environment, no file. The same tables give the same report whatever the order of
their rows. Clusters come worst first: critical findings, then by verdict, then by name; those that
are held back by nothing but muted findings come last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from featurelib.catalogue import Catalogue
from featurelib.configuration.fleet import Cluster as Entry
from featurelib.configuration.fleet import Fleet as Inventory
from featurelib.core.audit import Judged
from featurelib.core.dialect import Dialect
from featurelib.core.mutes import Mute
from featurelib.feature import Phase, Severity, Verdict
from featurelib.report.causes import rank_causes
from featurelib.report.clean import LENGTH, LONGEST_PATH, clean, clean_place
from featurelib.report.commands import commands_of
from featurelib.report.counts import count_fleet
from featurelib.report.landed import NOT_ANSWERING, is_silent
from featurelib.report.model import (
    SEVERITY_RANK,
    VERDICT_RANK,
    Cluster,
    Finding,
    Incompatible,
    Ingest,
    Joining,
    Quarantine,
    QuarantinedLine,
    Readiness,
    Report,
    Return,
    Run,
    Step,
)
from featurelib.report.muted import OPEN, heard, needs_person, read_mutes
from featurelib.report.reading import FindLine, Reader, group_by_cluster
from featurelib.report.summary import summarize_cluster
from featurelib.report.words import Words, metadata_first
from featurelib.schema import FINDING, INCOMPATIBLE_BROKER, READINESS, UPGRADE_PLAN

HOUR = 3_600_000_000  # microseconds
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
    where its plan was written.
    `find_line`: from a line_id to `file:line`, None where it is not known.
    """
    entries = {entry.id: entry for entry in inventory.cluster} if inventory else {}
    names = {cluster: entry.title for cluster, entry in entries.items()}
    addresses = {cluster: entry.address for cluster, entry in entries.items()}
    reader = Reader(Words(catalogue, dialect), find_line or (lambda line_id: None), addresses)
    findings = group_by_cluster(judged.findings, FINDING, reader.finding)
    readiness = group_by_cluster(judged.readiness, READINESS, reader.readiness)
    incompatible = group_by_cluster(judged.incompatible, INCOMPATIBLE_BROKER, reader.incompatible)
    clusters = [
        _cluster(
            row,
            entry=entries.get(row["cluster"]) or Entry(id=row["cluster"]),
            plan_file=(plan_files or {}).get(row["cluster"]),
            readiness=readiness.get(row["cluster"], []),
            findings=findings.get(row["cluster"], []),
            incompatible=incompatible.get(row["cluster"], []),
            steps=tuple(reader.step(step) for step in row["steps"] or ()),
            joining=reader.joining(row),
            returns=tuple(reader.going_back(found) for found in row["returns_after"] or ()),
        )
        for row in judged.plans.select(UPGRADE_PLAN.names).to_pylist()
    ]
    clusters.sort(key=_worst_first)
    return Report(
        run=_run(run, catalogue, dialect),
        fleet=count_fleet(clusters),
        causes=rank_causes(clusters),
        clusters=tuple(clusters),
        mutes=read_mutes(run.mutes, judged.findings, run.as_of, names),
    )


def _run(run: RunInfo, catalogue: Catalogue, dialect: Dialect) -> Run:
    return Run(
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
        quarantine=run.quarantine and _clean_quarantine(run.quarantine),
    )


def _clean_quarantine(found: Quarantine) -> Quarantine:
    newest = [
        QuarantinedLine(line=clean_place(row.line), reason=clean(row.reason))
        for row in found.newest
    ]
    return Quarantine(lines=found.lines, newest=tuple(newest))


def _cluster(
    row: Any,
    *,
    entry: Entry,
    plan_file: str | None,
    readiness: list[Readiness],
    findings: list[Finding],
    incompatible: list[Incompatible],
    steps: tuple[Step, ...],
    joining: Joining | None,
    returns: tuple[Return, ...],
) -> Cluster:
    verdict = Verdict(row["verdict"])
    findings.sort(key=_finding_order)
    if is_silent(findings, row["nodes"] or 0):  # of equal severity the root goes first
        findings.sort(
            key=lambda found: (SEVERITY_RANK[found.severity], found.code != NOT_ANSWERING)
        )
    return Cluster(
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
        commands=() if _is_theirs(entry, steps) else commands_of(steps, row["dialects"] or ()),
        joining=joining,
        returns=tuple(sorted(returns, key=lambda found: metadata_first(found.feature))),
        plan_file=_shown(plan_file, LONGEST_PATH),
    )


def _is_theirs(entry: Entry, steps: Sequence[Step]) -> bool:
    """Whether somebody else finalizes what a plan moves."""
    theirs = entry.managed
    return theirs is None or any(step.feature in theirs for step in steps)


def _shown(text: str | None, length: int = LENGTH) -> str | None:
    return clean(text, length) if text else None


def _worst_first(cluster: Cluster) -> tuple[bool, bool, int, str, str]:
    critical = any(finding.severity is Severity.CRITICAL for finding in heard(cluster.findings))
    set_aside = cluster.verdict in OPEN and not cluster.needs_person
    rank = VERDICT_RANK[cluster.verdict]
    return not critical, set_aside, rank, cluster.name, cluster.key


def _finding_order(found: Finding) -> tuple[object, ...]:
    node = -1 if found.node_id is None else found.node_id
    return (
        SEVERITY_RANK[found.severity],
        found.code,
        found.role or "",
        node,
        metadata_first(found.feature or ""),
        # Rows that are alike so far are told apart by what they say and where it was read.
        found.message,
        found.line_id or "",
    )
