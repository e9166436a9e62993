"""Judges a batch of clusters: every finding, every incompatible node, a verdict for every feature.

A verdict never depends on the other clusters of the batch. READY needs every rule and all the
evidence; what is missing makes UNKNOWN, unless a known node already says no.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np
import pyarrow as pa

from featurelib.audit import evidence as facts
from featurelib.audit import missing
from featurelib.audit.checks import find_deprecations, find_incompatible, listed, report_unmet
from featurelib.audit.columns import Bool, Int
from featurelib.audit.controllers import OwnDialects, Software
from featurelib.audit.evidence import Conditions, Evidence, Expected
from featurelib.audit.findings import NO_NUMBER, Findings, set_aside, wordings
from featurelib.audit.probe import report_probes
from featurelib.audit.quorum import least_software, report_ghosts, report_settings, report_unread
from featurelib.audit.side_effects import say_briefly, side_effects
from featurelib.audit.target import Bounds, Judge, agree, bounds
from featurelib.audit.verdict import (
    beyond_ceiling,
    find_forgotten,
    plans,
    readiness,
    remember,
    verdicts,
    ways_back,
)
from featurelib.catalogue import Catalogue
from featurelib.core.dialect import Dialect
from featurelib.core.rules import level_newer_than_catalogue
from featurelib.feature import Severity, UpgradeType, Verdict
from featurelib.model import Move, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What the audit says of a batch: four tables, by the schemas in featurelib.schema."""

    findings: pa.Table
    incompatible: pa.Table
    readiness: pa.Table
    plans: pa.Table
    evidence: Evidence | None = None  # what they were judged from, where it is still at hand
    # By subject: what its controller agreed to in its place, feature → (level from, level to).
    probed: dict[int, dict[str, tuple[int, int]]] = field(default_factory=dict)


def judge(
    batch: pa.RecordBatch,
    conditions: Conditions,
    catalogue: Catalogue,
    dialect: Dialect,
    severities: dict[str, Severity] | None = None,
) -> Judged:
    """Judge snapshot rows (featurelib.schema.SNAPSHOT) under `conditions`.

    `severities` by finding code go before the wordings' own; no verdict depends on them.
    """
    evidence = facts.read(batch, conditions, dialect.can.absent_metadata_version)
    told = [conditions.inventory.get(name, Expected()).release for name in evidence.clusters]
    software = Software(evidence, told, catalogue)
    evidence = software.with_stable_ends()
    limits = bounds(evidence, catalogue)
    asking = Judge(evidence, limits, dialect, catalogue)
    usual = {code: words.severity for code, words in wordings(dialect).items()}
    said = Findings(evidence.clusters, usual | (severities or {}))

    unknown = missing.report(evidence, said)
    unfit = find_incompatible(evidence, said)
    # Made when first asked.
    own = cache(partial(OwnDialects, evidence, told, catalogue, asking.fleet, software.runs))
    agreed = agree(asking, own, limits.ceiling, said)
    probed = report_probes(asking, agreed, own, conditions, said)
    covered = missing.covered_by_probe(evidence, probed.proven, probed.controllers)
    unknown = missing.report_nodes(evidence, said, unknown, probed.proven, covered)
    report_ghosts(asking, limits.ceiling, covered, said)
    report_settings(evidence, said)
    target = probed.target
    blockers = agreed.refusals + probed.refusals + _blockers(asking, limits.ceiling, target, said)
    unknown_feature = unknown.features | _beyond_catalogue(asking, target, said)
    unsure = unknown_feature | ~asking.asked.known
    hangs = asking.rests_on(target, unsure) | agreed.unanswered
    unknown_feature |= hangs & (target > asking.asked.current)
    unread = report_unread(asking, target, probed.proven, said)
    unknown_feature |= unread
    _unstable(asking, said)
    _side_effects(asking, limits, said)
    report_unmet(evidence, own, catalogue.tables, said)
    find_deprecations(evidence, said)
    verdict = verdicts(asking, limits, target, unknown.clusters, unknown_feature)
    counts = unknown.per_cluster[evidence.questions.cluster] + unknown.per_question
    counts += agreed.unanswered + unread.astype(np.int64)
    ready = verdict == list(Verdict).index(Verdict.READY)
    back = ways_back(evidence, ready, target, own().spoken if ready.any() else {}, catalogue)
    rows = readiness(evidence, limits, asking, verdict, target, blockers, counts, back)
    rows = remember(rows, evidence, conditions, unknown.clusters)
    find_forgotten(rows, evidence, conditions, said)
    return Judged(
        findings=set_aside(said, evidence.clusters, conditions.mutes, conditions.as_of),
        incompatible=unfit,
        readiness=rows,
        plans=plans(evidence, verdict, target, unknown.clusters, agreed.dialects, catalogue),
        evidence=evidence,
        probed={
            row: probed.agreed[int(evidence.subjects.cluster[row])]
            for row in np.flatnonzero(covered).tolist()
        },
    )


def _blockers(asking: Judge, ceiling: Int, target: Int, said: Findings) -> Int:
    """Add everything that stands between the finalized levels and the ceilings, under the code of
    the row that says so; counts by question."""
    evidence, asked, fleet = asking.evidence, asking.asked, asking.fleet
    wanted = ceiling > asked.current
    count = np.zeros(len(wanted), dtype=np.int64)
    proposed = asking.propose(ceiling, wanted, fleet.known_or_enough(target))
    # What is wrong with a cluster comes before each of its nodes.
    for place, row, hit in sorted(proposed.by_row(), key=lambda one: one[1].rule.about_nodes):
        question, profile, who = fleet.offenders(proposed, place)
        is_named = len(question) > 0
        if not is_named:
            question = proposed.questions[hit]
        where = asked.cluster[question]
        at, line = evidence.levels.at[where], evidence.levels.line[where]
        low, high = None, None
        if row.rule.about_nodes:
            pair = asked.pair_first[question] + profile - evidence.answering.first[where]
            low, high = (listed(end, asked, pair) for end in (asked.pair_min, asked.pair_max))
            at, line = evidence.subjects.at[who], evidence.subjects.line[who]
        said.add(
            row.code,
            where,
            role=fleet.nodes.controller[who].astype(np.int64) if is_named else None,
            node_id=fleet.nodes.node_id[who] if is_named else None,
            feature=evidence.features(question),
            finalized_level=_current(asking, question),
            level=ceiling[question],
            min_version=low,
            max_version=high,
            at=at,
            line=line,
            detail=_details(asking, row.code, question, ceiling),
        )
        np.add.at(count, question, 1)
    return count


def _details(asking: Judge, code: str, question: Int, ceiling: Int) -> list[str] | None:
    """What the words of one rule need beside its columns."""
    evidence, where = asking.evidence, asking.asked.cluster[question]
    match code:
        case "dependency_unmet":
            return [asking.dependency(int(q), int(ceiling[q])) for q in question]
        case "voter_not_registered":
            return least_software(evidence, asking.catalogue, ceiling, where)
        case "configured_voter_not_registered":
            return [str(evidence.controller[cluster]) for cluster in where]
    return None


def _current(asking: Judge, questions: Int) -> Int:
    asked = asking.asked
    return np.where(asked.known, asked.current, NO_NUMBER)[questions]


def _beyond_catalogue(asking: Judge, target: Int, said: Findings) -> Bool:
    """Features with levels the catalogue does not know, where nothing lower can be finalized."""
    asked, seen = asking.asked, asking.bounds.seen
    highest = np.maximum(seen, asked.current)
    hit = level_newer_than_catalogue(highest, asking.bounds.newest_known)
    questions = np.flatnonzero(hit)
    said.add(
        "level_newer_than_catalogue",
        asked.cluster[questions],
        feature=asking.evidence.features(questions),
        finalized_level=_current(asking, questions),
        level=highest[questions],
        at=asking.evidence.levels.at[asked.cluster[questions]],
        line=asking.evidence.levels.line[asked.cluster[questions]],
    )
    return hit & (target <= asked.current)


def _side_effects(asking: Judge, limits: Bounds, said: Findings) -> None:
    """Levels that every node supports, and that move only by name because they change more."""
    evidence, asked, catalogue = asking.evidence, asking.asked, asking.catalogue
    changing = {row.feature for row in catalogue.rows.side_effect}
    codes = [code for code, name in enumerate(asked.names) if name in changing]
    more = beyond_ceiling(asking, limits) & asked.known & np.isin(asked.feature, codes)
    found = {}
    for question in np.flatnonzero(more).tolist():
        update = Move(
            feature=asked.names[asked.feature[question]],
            from_level=int(asked.current[question]),
            to_level=int(limits.common[question]),
            upgrade_type=UpgradeType.UPGRADE.name,
        )
        step = Step(updates=(update,), timeout_ms=1)
        effects = side_effects(catalogue, [step], evidence, int(asked.cluster[question]))
        if effects:
            found[question] = " ".join(map(say_briefly, effects))
    questions = np.array(list(found), dtype=np.int64)
    said.add(
        "side_effect_by_name",
        asked.cluster[questions],
        feature=evidence.features(questions),
        finalized_level=_current(asking, questions),
        level=limits.common[questions],
        at=evidence.levels.at[asked.cluster[questions]],
        line=evidence.levels.line[asked.cluster[questions]],
        detail=list(found.values()),
    )


def _unstable(asking: Judge, said: Findings) -> None:
    """Nodes that support more of metadata.version than is stable in their software."""
    asked, limits = asking.asked, asking.bounds
    above = (limits.newest_stable > 0) & (limits.seen > limits.newest_stable)
    questions = np.flatnonzero(above & (limits.seen <= limits.newest_known))
    said.add(
        "unstable_features_enabled",
        asked.cluster[questions],
        feature=asking.evidence.features(questions),
        finalized_level=_current(asking, questions),
        level=limits.seen[questions],
        at=asking.evidence.levels.at[asked.cluster[questions]],
        line=asking.evidence.levels.line[asked.cluster[questions]],
    )
