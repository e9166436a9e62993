"""The one source of every report's values: judged tables in, one Report of plain values out.

Pure: no clock, no environment, no file. The same tables give the same report whatever the order of
their rows. Clusters come worst first: critical findings, then by verdict, then by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from featurelib.catalogue import Catalogue
from featurelib.core.audit import Judged
from featurelib.core.dialect import Dialect
from featurelib.feature import Phase, Severity, Verdict
from featurelib.report.causes import rank_causes
from featurelib.report.clean import clean
from featurelib.report.counts import count_fleet
from featurelib.report.model import (
    SEVERITY_RANK,
    VERDICT_RANK,
    Cluster,
    Finding,
    Incompatible,
    Ingest,
    Readiness,
    Report,
    Run,
    Step,
)
from featurelib.report.reading import FindLine, Reader, group_by_cluster
from featurelib.report.summary import summarize_cluster
from featurelib.report.words import Words, metadata_first
from featurelib.schema import FINDING, INCOMPATIBLE_BROKER, READINESS, UPGRADE_PLAN

LONGEST_PATH = 250  # a file name that is cut names no file
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A person has to look even where conf/audit.toml made light of the findings.
OPEN = frozenset({Verdict.UNKNOWN, Verdict.BLOCKED})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """What the tables do not say of their run. `as_of`: microseconds since 1970, UTC."""

    number: int
    as_of: int
    release: str = ""  # of featurelib
    ingest: Ingest | None = None


def summarize(
    judged: Judged,
    run: RunInfo,
    catalogue: Catalogue,
    dialect: Dialect,
    *,
    names: Mapping[str, str] | None = None,
    plan_files: Mapping[str, str] | None = None,
    find_line: FindLine | None = None,
) -> Report:
    """The report on one run's tables; further columns in them (`run`) are left alone.

    `names` and `plan_files`: by cluster id, what people call it and where its plan was written.
    `find_line`: from a line_id to `file:line`, None where it is not known.
    """
    reader = Reader(Words(catalogue, dialect), find_line or (lambda line_id: None))
    findings = group_by_cluster(judged.findings, FINDING, reader.finding)
    readiness = group_by_cluster(judged.readiness, READINESS, reader.readiness)
    incompatible = group_by_cluster(judged.incompatible, INCOMPATIBLE_BROKER, reader.incompatible)
    clusters = [
        _cluster(
            row,
            name=(names or {}).get(row["cluster"]) or row["cluster"],
            plan_file=(plan_files or {}).get(row["cluster"]),
            readiness=readiness.get(row["cluster"], []),
            findings=findings.get(row["cluster"], []),
            incompatible=incompatible.get(row["cluster"], []),
            steps=tuple(reader.step(step) for step in row["steps"] or ()),
        )
        for row in judged.plans.select(UPGRADE_PLAN.names).to_pylist()
    ]
    clusters.sort(key=_worst_first)
    return Report(
        run=_run(run, catalogue, dialect),
        fleet=count_fleet(clusters),
        causes=rank_causes(clusters),
        clusters=tuple(clusters),
    )


def _run(run: RunInfo, catalogue: Catalogue, dialect: Dialect) -> Run:
    return Run(
        number=run.number,
        as_of=EPOCH + timedelta(microseconds=run.as_of),
        release=clean(run.release) if run.release else "",
        catalogue=catalogue.dated,
        dialect=dialect.name,
        ingest=run.ingest,
    )


def _cluster(
    row: Any,
    *,
    name: str,
    plan_file: str | None,
    readiness: list[Readiness],
    findings: list[Finding],
    incompatible: list[Incompatible],
    steps: tuple[Step, ...],
) -> Cluster:
    verdict = Verdict(row["verdict"])
    findings.sort(key=_finding_order)
    return Cluster(
        key=row["cluster"],
        id=clean(row["cluster"]),
        name=clean(name),
        verdict=verdict,
        phase=Phase(row["phase"]),
        nodes=row["nodes"] or 0,
        needs_person=verdict in OPEN
        or any(finding.severity is not Severity.INFO for finding in findings),
        summary=summarize_cluster(verdict, findings, steps),
        readiness=tuple(sorted(readiness, key=lambda ready: metadata_first(ready.feature))),
        findings=tuple(findings),
        incompatible=tuple(
            sorted(incompatible, key=lambda node: (node.role, node.node_id, node.feature))
        ),
        steps=steps,
        plan_file=None if plan_file is None else clean(plan_file, LONGEST_PATH),
    )


def _worst_first(cluster: Cluster) -> tuple[bool, int, str, str]:
    critical = any(finding.severity is Severity.CRITICAL for finding in cluster.findings)
    return not critical, VERDICT_RANK[cluster.verdict], cluster.name, cluster.key


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
