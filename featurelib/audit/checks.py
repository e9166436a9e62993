"""Check finalized levels: unsupported by a node, unmet dependencies, levels that would disappear.

The findings change no verdict. Four questions, each of all clusters of a batch at once:

    find_incompatible   nodes whose range lacks a finalized level, and the effect on these nodes
    report_unmet        levels that were lowered below what another level depends on: Kafka asks for
                        a dependency only when the level itself moves, so that breaks unseen
    find_deprecations   by KIP-584's text the highest minimum that any broker supports is finalized,
                        which deprecates all levels below it; no release has ever done that
    raised_by           from 2.7 to 3.2 an update stores the controller's own minimum; before one
                        rises, a person must see to it that no client uses what goes away
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from featurelib.audit.columns import marked
from featurelib.audit.controllers import Software
from featurelib.audit.evidence import BatchFindings, Evidence
from featurelib.audit.profiles import NOBODY, ranges_of
from featurelib.catalogue import ANY, FEATURE_RECORDS_FROM, Catalogue, Tables
from featurelib.core.batch import Levels
from featurelib.core.cluster import Cluster, Request, build
from featurelib.core.dialect import GENERATIONS, Dialect, load
from featurelib.core.judge import decide, judge
from featurelib.core.rules import (
    below_finalized_min,
    below_local_min,
    dependency_unmet,
    metadata_version_unmet,
)
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, SILENT_METADATA_VERSION, Role
from featurelib.findings import Issue, finding_rows
from featurelib.rows import NONE, Bool, Int, TableRows, Texts, make_rows
from featurelib.schema import INCOMPATIBLE_BROKER

INCOMPATIBLE_CODE = "incompatible_with_finalized"
DEPENDENCY_CODE = "finalized_dependency_unmet"
MINIMUM_CODE = "minimum_would_rise"
_ENOUGH = np.iinfo(np.int16).max  # an unknown finalized level satisfies every dependency


def find_incompatible(evidence: Evidence, report: BatchFindings) -> TableRows:
    """Report each node whose supported range excludes a finalized level. Return rows of
    INCOMPATIBLE_BROKER."""
    query, node = evidence.questions, evidence.subjects
    pair, subject = _unfit(evidence)
    question, effects = query.pair_question[pair], finding_rows()[INCOMPATIBLE_CODE].fates
    is_metadata = query.of_feature(METADATA_VERSION)[question]
    low, high = (query.listed(ends, pair) for ends in (query.pair_min, query.pair_max))
    # These nodes support the finalized level, and lack only the finalized minimum.
    is_below, current = query.finalized_min[question], query.current[question]
    is_below = np.where((is_below < low) & (low <= current) & (current <= high), is_below, NONE)
    # A node that was not queried in the newest reading may or may not run.
    unregistered = (node.unregistered & node.answers & ~node.not_asked)[subject]
    conditions = {
        "zookeeper_lists_nothing": node.listed_nothing[subject],
        "zookeeper_minimum": is_below != NONE,
        "zookeeper": evidence.membership.on_zookeeper[query.cluster[question]],
        "controller": node.role[subject] == Role.CONTROLLER,
        "unregistered_metadata_version": unregistered & is_metadata,
        "unregistered_other": unregistered,
        "broker_metadata_version": is_metadata,
        "broker_other": np.ones(len(subject), dtype=bool),
    }
    # By finding, the effect on the node: the first condition that is true.
    effect = np.argmax(np.stack([*conditions.values()]), axis=0)
    words = [effects[name] for name in conditions]
    answers, causes = _own_answers(evidence, question, subject)
    with_minimum = np.flatnonzero(effect == [*conditions].index("zookeeper_minimum")).tolist()
    texts = {
        row: answers.get(row, "") + words[effect[row]].format(minimum=is_below[row])
        for row in {*answers, *with_minimum}
    }
    effect[[*texts]] = len(words) + np.arange(len(texts))
    details = Texts(words=[*words, *texts.values()], codes=effect)
    report.of_nodes(
        INCOMPATIBLE_CODE,
        subject,
        detail=details,
        cause=causes,
        feature=evidence.features(question),
        finalized_level=current,
        level=is_below,
        min_version=low,
        max_version=high,
    )
    fenced = np.where(node.fenced[subject] < 0, NONE, node.fenced[subject] == 1)
    rows, names = report.rows(INCOMPATIBLE_CODE), INCOMPATIBLE_BROKER.names
    columns = {name: rows[name] for name in names if name != "fenced"}
    return make_rows(INCOMPATIBLE_BROKER, len(rows), columns | {"fenced": fenced})


def _unfit(evidence: Evidence) -> tuple[Int, Int]:
    """Return (range pairs that do not support the finalized level, nodes of each pair). A
    controller that responds supports the level, because otherwise it would have exited."""
    query, node = evidence.questions, evidence.subjects
    pair, subject = evidence.expand(np.flatnonzero(query.pair_unfit))
    is_metadata = query.of_feature(METADATA_VERSION)[query.pair_question[pair]]
    keep = ~(node.own_word[subject] & is_metadata & query.pair_listed[pair])
    return pair[keep], subject[keep]


def outdated(evidence: Evidence) -> Texts:
    """Return, per node, the reason why a changed configuration does not help: the software is too
    old, and the node is unregistered or stopped. "" = no reason."""
    query, node = evidence.questions, evidence.subjects
    pair, subject = _unfit(evidence)
    levels, lowest = query.current[query.pair_question[pair]], query.pair_min[pair]
    too_old = ~below_local_min(levels.astype(np.int32), lowest.astype(np.int32))
    is_old = marked(len(node.key), subject[too_old])
    leftover, failed = is_old & node.unregistered, is_old & node.not_answering & ~node.live
    words = [Issue.REGISTER_NEWER.value, Issue.START_NEWER.value]
    return Texts(words=words, codes=np.select([leftover, failed], [0, 1], -1))


def _own_answers(evidence: Evidence, question: Int, subject: Int) -> tuple[dict[int, str], Texts]:
    """Return texts about brokers whose inter.broker.protocol.version alone prevents the
    registration of features: (position → start of the finding, causes)."""
    query, node, causes = evidence.questions, evidence.subjects, dict[int, str]()
    is_empty = node.listed_nothing[subject]
    for row in np.flatnonzero(is_empty & (node.answered_with[subject] != NOBODY)).tolist():
        at = question[row]
        ranges = ranges_of(evidence.snapshots, int(node.answered_with[subject[row]]))
        low, high = ranges.get(query.names[query.feature[at]], (0, 0))
        level = int(query.current[at])
        least = int(query.finalized_min[at]) or level
        if low <= least and level <= high:
            causes[row] = f"Its software supports {low}-{high}. "
    old = outdated(evidence)
    words = [*old.words, Issue.PROTOCOL_AND_SOFTWARE.value, Issue.PROTOCOL.value]
    cause = np.where(is_empty, len(old.words), old.codes[subject])
    cause[[*causes]] = len(old.words) + 1
    return causes, Texts(words=words, codes=cause)


def levels_of_clusters(evidence: Evidence, level: Int, tables: Tables) -> tuple[Levels, Int, Bool]:
    """Return (levels [clusters, features], 0 = not finalized; column of each (cluster, feature), -1
    = none; mask of clusters with a feature that has no column). A KRaft cluster without
    metadata.version has its first level."""
    query, clusters = evidence.questions, len(evidence.clusters)
    codes = np.array([tables.feature_code(name) for name in query.names], dtype=np.int64)
    column = codes[query.feature] if len(codes) else query.feature
    levels, is_known = np.zeros((clusters, len(tables.features)), dtype=np.int32), column >= 0
    levels[query.cluster[is_known], column[is_known]] = level[is_known]
    levels[:, 0] = np.where(levels[:, 0] == 0, SILENT_METADATA_VERSION, levels[:, 0])
    return levels, column, marked(clusters, query.cluster[~is_known & (level > 0)])


def report_unmet(
    evidence: Evidence, software: Software, catalogue: Catalogue, report: BatchFindings
) -> None:
    """Report each finalized level with an unmet dependency of the newest software or of the
    cluster's controllers (KIP-1022, Feature.validateVersion). A vendor's features are skipped."""
    query, tables = evidence.questions, catalogue.tables
    level = np.where(query.known, query.current, _ENOUGH)
    finalized, column, _ = levels_of_clusters(evidence, level, tables)
    declared = []
    for release, feature, dependent, required, least in tables.dependencies.tolist():
        at_level = np.flatnonzero((column == feature) & (level == dependent))
        unmet = dependency_unmet(finalized[query.cluster[at_level], required], np.int32(least))
        declared += [(release, required, least, question) for question in at_level[unmet].tolist()]
    # The raft layer stores kraft.version, so no feature record shows it.
    reported = evidence.membership.kraft[query.cluster] & query.known
    reported &= ~evidence.uncatalogued(catalogue)
    reported &= ~query.of_feature(METADATA_VERSION) & ~query.of_feature(KRAFT_VERSION)
    metadata, current = finalized[query.cluster, 0], query.current.astype(np.int32)
    most = np.int32(max(_needed(name) for name in GENERATIONS))
    stored = np.flatnonzero(reported & metadata_version_unmet(current, metadata, most)).tolist()
    if not declared and not stored:
        return
    unmet_by = defaultdict[int, set[tuple[str, int]]](set)
    for release, required, least, question in declared:
        first = tables.releases[release]
        names = software.dialects_in(int(query.cluster[question]), first)
        if first == ANY or any(_has_rule(name, "dependency_unmet") for name in names):
            unmet_by[question].add((tables.features[required], least))
    for question in stored:
        names = software.dialects_in(int(query.cluster[question]))
        least = max([FEATURE_RECORDS_FROM, *map(_needed, names)])
        if metadata_version_unmet(current[question], metadata[question], np.int32(least)):
            unmet_by[question].add((METADATA_VERSION, least))
    details = []
    for question, lacking in sorted(unmet_by.items()):
        levels = finalized[query.cluster[question]]
        texts = (
            f"{name} {least}, and {name} {levels[tables.feature_code(name)]} is finalized"
            for name, least in sorted(lacking)
        )
        details.append("; ".join(texts))
    report.of_questions(DEPENDENCY_CODE, np.array(sorted(unmet_by), dtype=np.int64), details)


@cache
def _has_rule(dialect: str, code: str) -> bool:
    """Return true if the controllers of this dialect apply the rule with this finding code."""
    return code in {row.code for row in load(dialect).rules}


def _needed(dialect: str) -> int:
    """Return the metadata.version that this dialect requires for other features; 0 = none."""
    return load(dialect).can.metadata_needed if _has_rule(dialect, "metadata_version_unmet") else 0


def find_deprecations(evidence: Evidence, report: BatchFindings) -> None:
    """Report each minimum level that KIP-584's text would raise to the highest minimum of all
    brokers. Only clusters whose trusted `/feature` znode stores minimums are checked."""
    query, node, levels = evidence.questions, evidence.subjects, evidence.levels
    stores = evidence.membership.on_zookeeper & ~levels.system_off
    if not stores.any():
        return
    brokers = (node.role == Role.BROKER) & node.registered & (evidence.answering.of_subject >= 0)
    counts = marked(len(evidence.answering.cluster), evidence.answering.of_subject[brokers])
    least = np.zeros(len(query.cluster), dtype=np.int64)
    mask = query.pair_listed & counts[query.pair_profile]
    np.maximum.at(least, query.pair_question[mask], query.pair_min[mask])
    rises = query.known & (query.current > 0) & (query.finalized_min > 0)
    rises &= stores[query.cluster] & (least > query.finalized_min)
    rises &= ~below_finalized_min(query.current.astype(np.int32), least.astype(np.int32))
    before, after = query.finalized_min[rises].tolist(), least[rises].tolist()
    details = [_levels(*ends) for ends in zip(before, after, strict=True)]
    report.of_questions(MINIMUM_CODE, rises, details, level=least[rises])


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedMinimum:
    """A minimum level that an update raises: clients lose levels `first_lost` to `last_lost`."""

    feature: str
    first_lost: int
    last_lost: int

    @property
    def text(self) -> str:
        """The instruction to check, before the update, that no client uses the lost levels."""
        levels = _levels(self.first_lost, self.last_lost + 1)
        return (
            f"Check that no client uses {levels} of {self.feature} any more; the cluster does not "
            "know, ask the clients' own metrics."
        )


def raised_by(
    cluster: Cluster, requests: Sequence[Request], dialect: Dialect, tables: Tables
) -> tuple[RaisedMinimum, ...]:
    """Return the finalized minimums that `requests` would raise if sent in this order. Only
    dialects that store minimums have results."""
    raised: list[RaisedMinimum] = []
    for request in requests if dialect.can.stores_min == "local" else ():
        batch = replace(build([(cluster, request)], dialect, tables), vendors=True)
        outcome = decide(batch, dialect, judge(batch, dialect, tables))
        before, after = batch.state.minimum[0], outcome.after_min[0]
        for feature in np.flatnonzero((before > 0) & (after > before)).tolist():
            low, end = int(before[feature]), int(after[feature])
            name = batch.names[feature]
            raised.append(RaisedMinimum(feature=name, first_lost=low, last_lost=end - 1))
        ends = zip(after.tolist(), outcome.after[0].tolist(), strict=True)
        stored = {name: end for name, end in zip(batch.names, ends, strict=True) if end[1]}
        cluster = replace(cluster, finalized=stored, cached=None)
    return tuple(raised)


def _levels(low: int, end: int) -> str:
    """Return `level 3` or `levels 3 to 5` for the levels from `low` to `end` - 1."""
    return f"level {low}" if low == end - 1 else f"levels {low} to {end - 1}"
