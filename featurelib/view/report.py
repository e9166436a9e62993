"""Make one Report of plain values from judged tables, for every form of the report.

The module reads no clock, environment or file, and the order of rows does not matter. It cleans
every text from outside. Clusters come worst first: critical findings, then by verdict, then by
name; clusters that only muted findings block come last.
"""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from operator import attrgetter
from typing import Any, TypeVar, get_type_hints

import msgspec
import numpy as np

from featurelib.audit.audit import Judged
from featurelib.audit.evidence import Evidence
from featurelib.audit.findings import FindingWords, Mute, Site, covered, ghosts
from featurelib.catalogue import Catalogue
from featurelib.config.fleet import Fleet as Inventory
from featurelib.config.fleet import FleetEntry as Entry
from featurelib.config.fleet import FleetPart
from featurelib.core.dialect import STRICT
from featurelib.feature import (
    METADATA_VERSION,
    ClusterMode,
    Phase,
    Role,
    Severity,
    Verdict,
    release_number,
)
from featurelib.findings import tagged
from featurelib.planning.owners import PlanSplit, owner_command, share
from featurelib.planning.requirements import guards_of, steps_of
from featurelib.rows import TableRows
from featurelib.schema import FINDING, INCOMPATIBLE_BROKER, READINESS, UPGRADE_PLAN, Schema
from featurelib.snapshot.history import LevelChange
from featurelib.view import digest, model
from featurelib.view.facts import Links, RunFacts
from featurelib.view.today import plan_day, todo_for
from featurelib.view.trend import PreviousRuns, compare, read_nights, say_setbacks
from featurelib.view.words import newest_text
from featurelib.words import (
    LENGTH,
    LONGEST_PATH,
    clean,
    clean_place,
    level_text,
    metadata_first,
    printable,
    range_text,
    releases_text,
)

HOUR = 3_600_000_000  # an hour in microseconds
IN_FULL = 100  # Maximum number of clusters that the fleet's page shows in full
MOST = 5000  # Maximum number of clusters with details and a page; the worst clusters come first
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONGEST_REASON = 250
_LEVEL = model.Level, model.Level | None
LEVELS: dict[type, list[str]] = {  # type → its fields that contain levels
    kind: [name for name, hint in get_type_hints(kind).items() if hint in _LEVEL]
    for kind in (
        model.ReportedFinding,
        model.Readiness,
        model.IncompatibleNode,
        model.ReportedReturn,
        model.ReportedStep,
    )
}

Value = TypeVar("Value")
Kind = TypeVar("Kind", bound=StrEnum)


def report_run(
    catalogue: Catalogue,
    number: int,
    as_of: int,
    facts: RunFacts = RunFacts(),  # noqa: B008  nothing in it is ever changed
) -> model.ReportedRun:
    """Return the run for a report. `as_of`: microseconds since 1970, UTC."""
    left_out, newest, max_age = None, facts.newest, facts.max_age
    if facts.quarantine is not None:
        lines, first = facts.quarantine
        quarantined = [
            model.QuarantinedLine(line=clean_place(at), reason=clean(reason), cluster=_shown(key))
            for at, reason, key in first
        ]
        left_out = model.Quarantine(lines=lines, newest=tuple(quarantined))
    return model.ReportedRun(
        number=number,
        as_of=EPOCH + timedelta(microseconds=as_of),
        release=clean(facts.release) if facts.release else "",
        catalogue=catalogue.label,
        dialect=STRICT,
        ingest=facts.ingest,
        newest_line=EPOCH + timedelta(microseconds=newest) if newest else None,
        max_age_hours=max_age / HOUR if max_age else None,
        tables=_shown(facts.tables, LONGEST_PATH),
        out=_shown(facts.out, LONGEST_PATH),
        quarantine=left_out,
    )


def summarize(
    judged: Judged,
    run: model.ReportedRun,
    catalogue: Catalogue,
    *,
    inventory: Inventory | None = None,
    links: Links = Links(),  # noqa: B008
    mutes: Sequence[Mute] = (),
    past: PreviousRuns = PreviousRuns(),  # noqa: B008  nothing in it is ever changed
) -> model.Report:
    """Return the report on one run's tables. `inventory`: names and owners of clusters. `mutes`: by
    cluster id. `past`: the data of earlier runs.

    Columns that the tables have besides (`run`) are ignored.
    """
    entries = {entry.id: entry for entry in inventory.cluster} if inventory else {}
    reader = _Reader(catalogue, links, entries, judged.findings, run)
    findings = _by_cluster(judged.findings, FINDING, reader.finding)
    readiness = _by_cluster(judged.readiness, READINESS, reader.readiness)
    incompatible = _by_cluster(judged.incompatible, INCOMPATIBLE_BROKER, reader.incompatible)
    clusters = [
        reader.cluster(
            row,
            plan_file=links.plan_files.get(row["cluster"]),
            readiness=readiness[row["cluster"]],
            findings=findings[row["cluster"]],
            incompatible=incompatible[row["cluster"]],
        )
        for row in judged.plans.select(UPGRADE_PLAN.names).to_pylist()
    ]
    clusters.sort(key=_worst_first)
    names = {cluster: entry.title for cluster, entry in entries.items()}
    muted = [_mute(rule, judged.findings, run.as_of.date(), names) for rule in mutes]
    nights = read_nights(past.nights, run.number, catalogue)
    change = compare(clusters, nights, past, names, catalogue)
    clusters = sorted(say_setbacks(clusters, change), key=_worst_first)
    causes, fleet = digest.rank_causes(clusters), _count_fleet(clusters)
    if change is not None:
        options = f" --tables {shlex.quote(run.tables or 'FOLDER')}"
        options += f" --fleet {shlex.quote(printable(links.places[1]))}" if entries else ""
        change = replace(change, command=change.command + options)
    return model.Report(
        format="featurelib.report",
        version=1,
        run=run,
        part=None,
        fleet=fleet,
        today=plan_day(clusters, run, change),
        causes=causes,
        clusters=tuple(clusters),
        mutes=tuple(sorted(muted, key=_mute_order)),
        change=change,
        runs=nights,
    )


def read_profiles(evidence: Evidence) -> dict[str, tuple[model.ReportedProfile, ...]]:
    """Return cluster id → its nodes grouped by range; unknown ranges last."""
    subjects, ranges = evidence.subjects, evidence.ranges()
    ids_by_profile: defaultdict[int, defaultdict[int, dict[int, list[int]]]] = defaultdict(
        lambda: defaultdict(lambda: {role: [] for role in Role})
    )
    columns = (subjects.cluster, evidence.answering.of_subject, subjects.role, subjects.node_id)
    for cluster, profile, role, node in zip(*(column.tolist() for column in columns), strict=True):
        ids_by_profile[cluster][profile][role].append(node)
    return {
        name: tuple(
            model.ReportedProfile(
                brokers=tuple(nodes[Role.BROKER]),
                controllers=tuple(nodes[Role.CONTROLLER]),
                ranges=_shown_ranges(ranges[profile]) if profile >= 0 else None,
            )
            for profile, nodes in sorted(ids_by_profile[at].items(), key=lambda p: (p[0] < 0, p[0]))
        )
        for at, name in enumerate(evidence.clusters)
    }


def _shown_ranges(ranges: Mapping[str, tuple[int, int]]) -> tuple[model.SupportedRange, ...]:
    return tuple(
        model.SupportedRange(feature=clean(name), min_version=low, max_version=high)
        for name, (low, high) in sorted(ranges.items(), key=lambda r: metadata_first(r[0]))
    )


def add_details(
    report: model.Report,
    profiles: Mapping[str, tuple[model.ReportedProfile, ...]],
    histories: Mapping[str, Sequence[LevelChange]],
    catalogue: Catalogue,
) -> model.Report:
    """Return the report with the ranges and level histories in these maps added."""

    def moves(changes: Iterable[LevelChange]) -> tuple[model.ReportedMove, ...]:
        return tuple(
            model.ReportedMove(
                at=change.at,
                epoch=change.epoch,
                epoch_before=change.epoch_before,
                feature=clean(feature),
                before=model.Level(number=before, text=level_text(catalogue, feature, before)),
                after=model.Level(number=after, text=level_text(catalogue, feature, after)),
            )
            for change in changes
            for feature, before, after in change.changes
        )

    clusters = (
        replace(
            cluster,
            profiles=profiles.get(cluster.key),
            history=moves(histories[cluster.key]) if cluster.key in histories else None,
        )
        for cluster in report.clusters
    )
    return replace(report, clusters=tuple(clusters))


def narrow(report: model.Report, part: FleetPart) -> model.Report:
    """Return the report on the clusters of a part, counted and ranked without other clusters.

    The result omits mutes without a match in the part, and counts over the whole fleet.
    """
    clusters = [cluster for cluster in report.clusters if cluster.key in part]
    causes, fleet = digest.rank_causes(clusters), _count_fleet(clusters)
    run = replace(report.run, ingest=None, quarantine=None)
    mutes = (digest.recount(mute, clusters) for mute in report.mutes)
    change = report.change
    if change is not None:
        changed: dict[str, Any] = {
            name: tuple(c for c in getattr(change, name) if c.key in part)
            for name in ("verdicts", "levels", "ceilings", "lowered", "silent")
        }
        changed["critical"] = tuple(key for key in change.critical if key in part)
        change = replace(change, **changed, command=change.command + printable(part.options))
    return replace(
        report,
        run=run,
        part=model.ReportedPart(text=clean(part.text), of=len(report.clusters)),
        fleet=fleet,
        today=plan_day(clusters, run, change),
        causes=causes,
        clusters=tuple(clusters),
        mutes=tuple(mute for mute in mutes if mute.findings),
        change=change,
        runs=(),
    )


def _by_cluster(
    rows: TableRows, schema: Schema, read: Callable[[Any], Value]
) -> defaultdict[str, list[Value]]:
    """Return cluster → decoded rows, with the columns of `schema`."""
    groups = defaultdict[str, list[Value]](list)
    for row in rows.select(schema.names).to_pylist():
        groups[row["cluster"]].append(read(row))
    return groups


class _Reader:
    """A converter from rows of gold tables to values of a report."""

    def __init__(
        self,
        catalogue: Catalogue,
        links: Links,
        entries: Mapping[str, Entry],
        findings: TableRows,
        run: model.ReportedRun,
    ) -> None:
        self._catalogue, self._words = catalogue, FindingWords(catalogue)
        self._find_line, self._ways, self._entries = links.find_line, links.ways, entries
        self._landing, self._listed_in = map(printable, links.places)
        self._out, self._newest = run.out, run.newest_line
        stale = ghosts(findings)
        rows = findings.take(np.array([*stale.values()], dtype=np.int64)).to_pylist()
        self._ghosts = dict(zip(stale, rows, strict=True))

    def cluster(
        self,
        row: Any,
        *,
        plan_file: str | None,
        readiness: list[model.Readiness],
        findings: list[model.ReportedFinding],
        incompatible: list[model.IncompatibleNode],
    ) -> model.ReportedCluster:
        """Return a cluster of the report from its row of plans and its other rows."""
        entry = self._entries.get(row["cluster"]) or Entry(id=row["cluster"])
        shares = self._shares(row, entry)
        steps = _in_turn([self._step(step, shares, entry) for step in row["steps"] or ()])
        ways = [self._read(model.ReportedReturn, item) for item in row["returns_after"] or ()]
        verdict = Verdict(row["verdict"])
        mode = ClusterMode(row["mode"]) if row["mode"] else None
        nodes = row["nodes"] or 0
        findings = sorted(findings, key=_finding_order)
        late = digest.late_since(row["newest_line"], findings, self._newest)
        collect = self._site(entry).collect
        return model.ReportedCluster(
            key=row["cluster"],
            id=clean(row["cluster"]),
            name=clean(entry.name or entry.id),
            owner=_shown(entry.owner),
            contact=_shown(entry.contact),
            managed_by=_shown(entry.managed_by),
            labels=tuple(clean(f"{key}={entry.labels[key]}") for key in sorted(entry.labels)),
            verdict=verdict,
            severity=_worst(findings),
            # Older releases wrote "rolling software" into the tables.
            phase=Phase(row["phase"].replace("rolling", Phase.MIXED)),
            nodes=nodes,
            needs_person=late is not None or digest.needs_person(verdict, findings, steps),
            summary=digest.summarize_cluster(
                verdict, findings, steps, late, has_features=bool(readiness), mode=mode
            ),
            mode=mode,
            release=_shown(row["release"]),
            newest_release=newest_text(findings, self._catalogue) or _shown(row["newest_release"]),
            newest_line=row["newest_line"],
            finalized_release=_release_of(self._catalogue, readiness),
            readiness=tuple(sorted(readiness, key=_feature_order)),
            findings=tuple(findings),
            incompatible=tuple(sorted(incompatible, key=attrgetter("role", "node_id", "feature"))),
            steps=steps,
            owner_command=_shown(self._owner_command(shares, entry, findings), model.COMMAND),
            commands=self._commands(entry, plan_file, steps),
            collect=_shown(
                collect if late or not digest.has_landed(findings) else "", model.COMMAND
            ),
            joining=self._joining(row, steps, entry),
            returns=tuple(sorted(ways, key=_feature_order)),
            plan_file=_shown(plan_file, LONGEST_PATH),
        )

    def _commands(
        self, entry: Entry, plan_file: str | None, steps: Sequence[model.ReportedStep]
    ) -> tuple[str, ...]:
        """Return the command that shows the cluster's plan or, without plan file, makes it; () if
        featurelib has no step to send."""
        if all(step.managed_by is not None or step.waits for step in steps):
            return ()
        plan = f"featurelib plan {shlex.quote(entry.argument)} upgrade-all{self._ways(entry)}"
        folder = (self._out or "FOLDER").removeprefix("file:").rstrip("/")
        fleet = f" --fleet {shlex.quote(self._listed_in)}" if self._entries else ""
        show = f"featurelib show {shlex.quote(f'{folder}/{plan_file}')}{fleet}"
        return (clean(show if plan_file else plan, model.COMMAND),)

    def _owner_command(
        self, shares: PlanSplit, entry: Entry, findings: Sequence[model.ReportedFinding]
    ) -> str:
        """Return the owner's command for its changes; for an ignored change, the command that shows
        the reason."""
        for finding in findings:
            goal = finding.level if finding.code in tagged("not_carried_out") else None
            if goal and any(goal.number >= move.to_level for move in shares.theirs):
                return finding.command
        return owner_command(shares.theirs, entry, self._catalogue)

    def _site(self, entry: Entry) -> Site:
        """Return the facts about a cluster (name, addresses, manager) that texts of remedies
        contain."""
        listed, inventory = entry.id in self._entries, self._listed_in
        return replace(
            entry.site,
            listed=listed,
            inventory=inventory,
            landing=self._landing,
            options=printable(self._ways(entry)),
        )

    def _shares(self, row: Any, entry: Entry) -> PlanSplit:
        """Return the steps of a plans row, split by owner."""
        guards = guards_of(entry)
        levels = {step["feature"]: step["from_level"] for step in row["steps"] or ()}
        return share(steps_of(row["steps"] or ()), guards, levels, self._catalogue)

    def _step(self, row: Any, shares: PlanSplit, entry: Entry) -> model.ReportedStep:
        managed = {move.feature for move in shares.theirs}
        waiting = {move.feature for move in shares.later}
        owner = clean(entry.managed_by) if row["feature"] in managed else None
        is_waiting = row["feature"] in waiting
        return self._read(model.ReportedStep, row, managed_by=owner, waits=is_waiting)

    def finding(self, row: Any) -> model.ReportedFinding:
        """Return a finding of the report from a row of FINDING."""
        entry = self._entries.get(row["cluster"]) or Entry(id=row["cluster"])
        ghost = self._ghosts.get((row["cluster"], row["role"], row["node_id"]))
        words = self._words.of(row, self._site(entry), ghost)
        line_id = row["line_id"]
        line = None if line_id is None else self._find_line(line_id)
        return self._read(
            model.ReportedFinding,
            row,
            **asdict(words) | {"severity": row["severity"]},
            line_id=None if line_id is None else f"{line_id & 0xFFFF_FFFF_FFFF_FFFF:016x}",
            line=None if line is None else clean_place(line),
            facts=self._words.facts(row),
            muted=None if row["muted"] is None else clean(row["muted"], LONGEST_REASON),
        )

    def readiness(self, row: Any) -> model.Readiness:
        """Return a feature of the report from a row of featurelib.schema.READINESS."""
        counts = {name: row[name] or 0 for name in ("blockers", "unknowns")}
        return self._read(model.Readiness, row, **counts)

    def incompatible(self, row: Any) -> model.IncompatibleNode:
        """Return a node of the report from a row of featurelib.schema.INCOMPATIBLE_BROKER."""
        return self._read(model.IncompatibleNode, row)

    def _read(self, kind: type[Value], row: Any, **fields: object) -> Value:
        """Return a row as a value of type `kind`, with safe texts and named levels. `fields`
        replace columns."""
        feature = row["feature"]
        columns = {k: clean(v) if isinstance(v, str) else v for k, v in row.items()}
        for name in LEVELS[kind]:
            number = row[name if name in row else f"{name}_level"]
            text = level_text(self._catalogue, feature, number)
            columns[name] = None if number is None else {"number": number, "text": text}
        low, high = row.get("min_version"), row.get("max_version")
        columns["supported"] = None
        if low is not None and high is not None:
            text = range_text(self._catalogue, feature, (low, high))
            columns["supported"] = {"min_version": low, "max_version": high, "text": text}
        return msgspec.convert(columns | fields, kind)

    def _joining(
        self, row: Any, steps: Sequence[model.ReportedStep], entry: Entry
    ) -> model.Joining | None:
        if row["may_join"] is None:
            return None
        releases, later = (tuple(map(clean, row[k] or ())) for k in ("may_join", "may_join_after"))
        text = f"now {releases_text(self._catalogue, releases)}"
        has_plan = row["may_join_after"] is not None
        if has_plan:
            later_text = "the same" if later == releases else releases_text(self._catalogue, later)
            after = digest.after_all(steps) if digest.managers_of(steps) else "afterwards"
            text += f", {after} {later_text}"
        ask = model.Joining.ask(f" {shlex.quote(entry.argument)}", self._ways(entry))
        then_all = later if has_plan else None
        return model.Joining(now=releases, afterwards=then_all, text=text, command=ask)


def _in_turn(steps: Sequence[model.ReportedStep]) -> tuple[model.ReportedStep, ...]:
    """Return the steps in sending order with new request numbers: ours, the owner's, then ours that
    wait."""
    turns = [(step.waits, step.managed_by is not None, step.request) for step in steps]
    numbers = {turn: number for number, turn in enumerate(sorted(set(turns)), start=1)}
    turned = [replace(step, request=numbers[turn]) for step, turn in zip(steps, turns, strict=True)]
    return tuple(sorted(turned, key=lambda step: step.request))


def _shown(text: str | None, length: int = LENGTH) -> str | None:
    return clean(text, length) if text else None


def _release_of(catalogue: Catalogue, readiness: Iterable[model.Readiness]) -> str | None:
    """Return the release of the finalized metadata.version, such as `4.0`; None if unknown."""
    level = next((row.finalized for row in readiness if row.feature == METADATA_VERSION), None)
    if level is None or level.number == 0:
        return None
    name = catalogue.level_name(METADATA_VERSION, level.number)
    return ".".join(map(str, release_number(name))) if "-" in name else None


def _worst(findings: Iterable[model.ReportedFinding]) -> Severity | None:
    """Return the worst severity of the unmuted findings; None if there are none."""
    severities = {finding.severity for finding in digest.unmuted(findings)}
    return next((severity for severity in Severity if severity in severities), None)


def _worst_first(cluster: model.ReportedCluster) -> tuple[bool, bool, int, str, str]:
    critical = cluster.severity is Severity.CRITICAL
    set_aside = cluster.verdict in digest.OPEN and not cluster.needs_person
    rank = model.VERDICT_RANK[cluster.verdict]
    return not critical, set_aside, rank, cluster.name, cluster.key


def _feature_order(row: model.Readiness | model.ReportedReturn) -> tuple[bool, str]:
    return metadata_first(row.feature)


def _finding_order(finding: model.ReportedFinding) -> tuple[object, ...]:
    return (
        model.SEVERITY_RANK[finding.severity],
        todo_for(finding).rank,
        finding.code,
        finding.role or "",
        -1 if finding.node_id is None else finding.node_id,
        metadata_first(finding.feature or ""),
        # Equal rows are ordered by text and place.
        finding.statement,
        finding.line_id or "",
    )


def _count_fleet(clusters: Sequence[model.ReportedCluster]) -> model.FleetCounts:
    """Return the numbers of clusters by verdict and phase, and of findings."""
    ready = [ready.verdict for cluster in clusters for ready in cluster.readiness]
    unfit = {(cluster.key, node.node_id) for cluster in clusters for node in cluster.incompatible}
    too_old = sum(map(digest.is_too_old, clusters))
    return model.FleetCounts(
        clusters=len(clusters),
        clusters_by_verdict=_count(Verdict, (cluster.verdict for cluster in clusters)),
        critical_by_verdict=_count(
            Verdict, (c.verdict for c in clusters if c.severity is Severity.CRITICAL)
        ),
        clusters_by_phase=_count(Phase, (cluster.phase for cluster in clusters)),
        features=len(ready),
        features_by_verdict=_count(Verdict, ready),
        **_count_findings([finding for cluster in clusters for finding in cluster.findings]),
        need_person=sum(cluster.needs_person for cluster in clusters),
        can_move=sum(bool(cluster.steps) for cluster in clusters),
        incompatible_nodes=len(unfit),
        all_too_old=0 < too_old == len(clusters),
        too_old=too_old,
        not_landed=sum(not digest.has_landed(cluster.findings) for cluster in clusters),
    )


def _count_findings(findings: Sequence[model.ReportedFinding]) -> dict[str, Any]:
    """Return the numbers of findings and of muted findings."""
    muted = [finding for finding in findings if finding.muted is not None]
    return {
        "findings": len(findings),
        "findings_by_severity": _count(Severity, (finding.severity for finding in findings)),
        "muted": len(muted),
        "muted_until": min(filter(None, (f.muted_until for f in muted)), default=None),
    }


def _count(kind: type[Kind], values: Iterable[Kind]) -> dict[Kind, int]:
    counted = Counter(values)
    return {key: counted[key] for key in kind}


def _mute(
    rule: Mute, findings: TableRows, today: date, names: Mapping[str, str]
) -> model.ReportedMute:
    clusters = findings["cluster"].take(np.flatnonzero(covered(rule, findings))).to_pylist()
    cluster = names.get(rule.cluster) or rule.cluster
    return model.ReportedMute(
        code=rule.code,
        cluster=clean(cluster) if cluster else None,
        feature=clean(rule.feature) if rule.feature else None,
        node=rule.node,
        reason=clean(rule.reason, LONGEST_REASON),
        until=rule.until,
        expired=rule.until < today,
        findings=len(clusters),
        clusters=len(set(clusters)),
    )


def _mute_order(mute: model.ReportedMute) -> tuple[object, ...]:
    key = (mute.code, mute.cluster or "", mute.feature or "", mute.node or -1, mute.reason)
    return not mute.expired, mute.findings > 0, mute.until, *key
