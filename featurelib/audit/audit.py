"""Judge a batch of clusters: return its findings, incompatible nodes and verdicts.

The verdict of a cluster never depends on other clusters of the batch. READY needs every rule and
complete evidence. Missing evidence makes UNKNOWN, unless a known node already blocks the level.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from featurelib.audit import evidence as facts
from featurelib.audit.checks import find_deprecations, find_incompatible, report_unmet
from featurelib.audit.columns import marked
from featurelib.audit.controllers import Software
from featurelib.audit.evidence import UNEXPECTED, BatchFindings, Conditions, Details, Evidence
from featurelib.audit.findings import set_aside, wordings
from featurelib.audit.fleet import ANY_LEVEL
from featurelib.audit.missing import report_nodes, report_unknown, report_unread
from featurelib.audit.side_effects import say_briefly, side_effects
from featurelib.audit.strimzi import report_strimzi
from featurelib.audit.target import Judge, agree, bounds, report_probes
from featurelib.audit.verdict import (
    READY,
    beyond_ceiling,
    find_forgotten,
    find_soaking,
    least_software,
    nodes,
    plans,
    readiness,
    verdicts,
    ways_back,
    with_ready_times,
)
from featurelib.catalogue import Catalogue
from featurelib.core.dialect import Dialect
from featurelib.core.rules import level_newer_than_catalogue
from featurelib.feature import METADATA_VERSION, SILENT_METADATA_VERSION, Severity, UpgradeType
from featurelib.model import Move, Step
from featurelib.rows import Bool, Int, TableRows, Texts, join_rows, texts_of
from featurelib.snapshot.records import unusable_row
from featurelib.words import toml_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The judgement of a batch of clusters, as rows of five tables (featurelib.schema)."""

    findings: TableRows
    incompatible: TableRows
    readiness: TableRows
    plans: TableRows
    nodes: TableRows | None = None  # None if no output table needs node rows
    evidence: Evidence | None = None  # the judged columns, if still in memory
    # Position of a cluster → the updates that its controller accepted in a probe: feature → (from,
    # to).
    probed: dict[int, dict[str, tuple[int, int]]] = field(default_factory=dict)


def judge_each(snapshots: TableRows, judging: Callable[[TableRows], Judged]) -> Judged:
    """Judge snapshot rows. A row for which `judging` raises becomes a cluster of unknown state, so
    that it cannot end the run."""
    try:
        return judging(snapshots)
    except Exception as error:
        return judging(_without_failing(snapshots, judging, error))


def _without_failing(
    rows: TableRows, judging: Callable[[TableRows], Judged], error: Exception
) -> TableRows:
    """Return `rows`; each row for which `judging` raises is replaced by `unusable_row`."""
    if len(rows) == 1:
        return unusable_row(str(rows["cluster"].to_pylist()[0]), error)
    judged = []
    for positions in np.array_split(np.arange(len(rows)), 2):
        part = rows.take(positions)
        try:
            judging(part)
        except Exception as fault:
            part = _without_failing(part, judging, fault)
        judged.append(part)
    return join_rows(judged)


def judge(
    snapshots: TableRows,
    conditions: Conditions,
    catalogue: Catalogue,
    dialect: Dialect,
    severities: dict[str, Severity] | None = None,
) -> Judged:
    """Judge snapshot rows (featurelib.schema.SNAPSHOT) under `conditions`.

    `severities`: code → severity, replaces default severities. They change no verdict."""
    evidence = facts.read(snapshots, conditions, dialect.can.absent_metadata_version)
    releases = [conditions.inventory.get(name, UNEXPECTED).release for name in evidence.clusters]
    software = Software(evidence, releases, catalogue)
    evidence = software.with_stable_ends()
    limits = bounds(evidence, catalogue, conditions.up_to)
    judge = Judge(evidence, limits, dialect, catalogue)
    usual = {code: words.severity for code, words in wordings(dialect).items()}
    report = BatchFindings(evidence, usual | (severities or {}))

    unknown, unknown_features = report_unknown(report)
    unknown += _missing_lines(report, conditions)
    unfit = find_incompatible(evidence, report)
    agreed = agree(judge, software, report)
    agreed = report_probes(judge, agreed, software, conditions, report)
    target = agreed.target
    judge.settle(target)
    of_nodes, covered = report_nodes(judge, agreed, report)
    report.of_nodes("range_inferred", software.inferred)
    unknown += of_nodes
    blockers = agreed.refusals + _blockers(judge, target, report)
    beyond = _report_beyond(judge, target, report) | _report_uncatalogued(judge, report)
    unsure = (unknown_features > 0) | beyond
    hangs = judge.rests_on(target, unsure | ~judge.asked.known) | agreed.unanswered
    unread = report_unread(judge, agreed, report)
    unsure |= (hangs & (target > judge.asked.current)) | unread
    _report_unstable(judge, report)
    report_strimzi(report, software, catalogue, conditions)
    _report_unlisted(report, conditions)
    _report_unrecorded(judge, report)
    beyond_target = beyond_ceiling(judge)
    _report_opt_in(judge, beyond_target, report)
    report_unmet(evidence, software, catalogue, report)
    find_deprecations(evidence, report)

    unsure |= (unknown > 0)[judge.asked.cluster]
    verdict = verdicts(judge, target, unsure, marked(len(target), agreed.below))
    unknowns = unknown[judge.asked.cluster] + unknown_features + agreed.unanswered + unread + beyond
    ready = verdict == READY
    ways = ways_back(evidence, ready, target, software.spoken if ready.any() else {}, catalogue)
    rows = readiness(judge, verdict, target, beyond_target, blockers, unknowns, ways)
    rows = with_ready_times(rows, evidence, conditions, unknown > 0)
    soaking = find_soaking(rows, evidence, conditions, software, catalogue, report)
    find_forgotten(rows, evidence, conditions, soaking, report)
    # a range that blocks no level
    anything = dict.fromkeys(evidence.questions.names, (0, ANY_LEVEL))
    return Judged(
        findings=set_aside(report, evidence.clusters, conditions.mutes, conditions.as_of),
        incompatible=unfit,
        readiness=rows,
        plans=plans(
            evidence, verdict, target, unknown > 0, agreed.dialects, catalogue, software, soaking
        ),
        nodes=nodes(evidence, software),
        evidence=evidence,
        probed={
            row: agreed.probed.get(int(evidence.subjects.cluster[row]), anything)
            for row in np.flatnonzero(covered).tolist()
        },
    )


def _blockers(judge: Judge, target: Int, sink: BatchFindings) -> Int:
    """Report all blockers between the finalized and the maximum level of each feature. Return the
    number of blockers per (cluster, feature)."""
    evidence, query, fleet = judge.evidence, judge.asked, judge.fleet
    ceiling = judge.bounds.ceiling
    count = np.zeros(len(ceiling), dtype=np.int64)
    proposed = judge.propose(ceiling, ceiling > query.current, fleet.known_or_enough(target))
    # Findings about a cluster come before findings about its nodes.
    for update, row, mask in sorted(proposed.by_row(), key=lambda r: r[1].rule.about_nodes):
        question, profile, node = fleet.offenders(proposed, update)
        columns: dict[str, Int] = {}
        if len(question):
            # A broker in ZooKeeper mode gets these features as soon as it runs in KRaft mode.
            settled = ~evidence.membership.migrating[query.cluster[question]]
            question, profile, node = question[settled], profile[settled], node[settled]
            columns["role"] = fleet.nodes.controller[node].astype(np.int64)
            columns["node_id"] = fleet.nodes.node_id[node]
        else:
            question = proposed.questions[mask]
        at = query.cluster[question]
        if row.rule.about_nodes:
            pair = query.pair_first[question] + profile - evidence.answering.first[at]
            columns["min_version"] = query.listed(query.pair_min, pair)
            columns["max_version"] = query.listed(query.pair_max, pair)
            columns["at"], columns["line"] = (
                evidence.subjects.at[node],
                evidence.subjects.line[node],
            )
        match row.code:
            case "dependency_unmet":
                levels = zip(
                    evidence.features(question).to_pylist(), ceiling[question], strict=True
                )
                needed = [judge.catalogue.whole.needs(name, level) for name, level in levels]
                details: Details = [", ".join(f"{d.other} {d.least}" for d in ds) for ds in needed]
            case "voter_not_registered" | "unsupported_by_node":
                details = least_software(judge, at)
            case "configured_voter_not_registered":
                details = [str(evidence.controller[cluster]) for cluster in at]
            case _:
                details = ()
        count += sink.of_questions(row.code, question, details, level=ceiling[question], **columns)
    return count


def _report_beyond(judge: Judge, target: Int, report: BatchFindings) -> Bool:
    """Report features with a level above the catalogue. Return a mask of the features without a
    higher known level."""
    highest = np.maximum(judge.bounds.seen, judge.asked.current)
    mask = level_newer_than_catalogue(highest, judge.bounds.newest_known)
    report.of_questions("level_newer_than_catalogue", mask, level=highest[mask])
    return mask & (target <= judge.asked.current)


def _report_uncatalogued(judge: Judge, report: BatchFindings) -> Bool:
    """Report KRaft features that the catalogue lacks. Return a mask of these features."""
    mask = judge.evidence.uncatalogued(judge.catalogue)
    report.of_questions("feature_not_catalogued", mask, level=judge.bounds.seen[mask])
    return mask


def _report_opt_in(judge: Judge, beyond: Bool, report: BatchFindings) -> None:
    """Report opt-in levels that every node supports. Plans never include such levels, because they
    have side effects."""
    query, catalogue, common_level = judge.asked, judge.catalogue, judge.bounds.common
    has_effect = {row.feature for row in catalogue.rows.side_effect}
    codes = [code for code, name in enumerate(query.names) if name in has_effect]
    texts, first = {}, list[str | None]()
    for question in np.flatnonzero(beyond & query.known & np.isin(query.feature, codes)).tolist():
        update = Move(
            feature=query.names[query.feature[question]],
            from_level=int(query.current[question]),
            to_level=int(common_level[question]),
            upgrade_type=UpgradeType.UPGRADE.name,
        )
        step, cluster = Step(updates=(update,), timeout_ms=1), int(query.cluster[question])
        if effects := side_effects(catalogue, [step], judge.evidence, cluster):
            unmet = _unmet_dependencies(judge, update, cluster)
            first.append(unmet or None)
            depends = f" First finalize {unmet}: it depends on that." if unmet else ""
            texts[question] = " ".join(map(say_briefly, effects)) + depends
    questions = np.array(list(texts), dtype=np.int64)
    details = list(texts.values())
    columns: dict[str, Int | Texts] = {"level": common_level[questions], "needs": texts_of(first)}
    report.of_questions("side_effect_by_name", questions, details, **columns)


def _unmet_dependencies(judge: Judge, move: Move, cluster: int) -> str:
    """Return the unfinalized dependencies of an update as text, such as `metadata.version 23`: one
    level per feature, the highest."""
    query = judge.asked
    begin, end = np.searchsorted(query.cluster, (cluster, cluster + 1))
    questions = begin + np.flatnonzero(query.known[begin:end])
    levels = {query.names[query.feature[q]]: int(query.current[q]) for q in questions.tolist()}
    unmet = judge.catalogue.whole.unmet(levels | {move.feature: move.to_level}, move.feature)
    minima = {d.other: d.least for d in sorted(unmet, key=lambda needed: needed.least)}
    return ", ".join(f"{feature} {least}" for feature, least in minima.items())


def _report_unrecorded(judge: Judge, report: BatchFindings) -> None:
    """Report KRaft clusters at metadata.version 1, the level that stands for a missing record:
    neither kafka-storage.sh nor a request can set level 1."""
    query, kraft = judge.asked, judge.evidence.membership.kraft
    first = query.of_feature(METADATA_VERSION) & (query.current <= SILENT_METADATA_VERSION)
    foreign = query.cluster[judge.evidence.uncatalogued(judge.catalogue)]
    kraft = kraft & ~marked(len(kraft), foreign)  # a vendor's build may store another feature
    report.of_questions("metadata_version_not_recorded", first & query.known & kraft[query.cluster])


def _report_unlisted(report: BatchFindings, conditions: Conditions) -> None:
    """Report clusters with data and without entry in the inventory, unless it is empty."""
    names, listed = report.evidence.clusters, conditions.inventory
    missing = np.array([bool(listed) and name not in listed for name in names], dtype=bool)
    clusters = np.flatnonzero(missing & report.evidence.landed)
    entries = texts_of(f"id = {toml_text(names[cluster])}" for cluster in clusters.tolist())
    report.of_clusters("not_in_inventory", clusters, entry=entries)


def _missing_lines(report: BatchFindings, conditions: Conditions) -> Int:
    """Report clusters that lost lines of an earlier run; return the findings per cluster."""
    times, evidence = conditions.newest_lines, report.evidence
    newest = np.array([times.get(name, 0) for name in evidence.clusters], dtype=np.int64)
    is_lost = evidence.landed & (newest > evidence.snapshots.observed_at)
    return report.of_clusters("evidence_lost", is_lost, at=newest[is_lost])


def _report_unstable(judge: Judge, report: BatchFindings) -> None:
    """Report the features of clusters with a node that supports unstable levels of
    metadata.version."""
    limits = judge.bounds
    is_above = (limits.newest_stable > 0) & (limits.seen > limits.newest_stable)
    is_above &= limits.seen <= limits.newest_known
    report.of_questions("unstable_features_enabled", is_above, level=limits.seen[is_above])
