"""Find the level to which each feature can be upgraded now (the target), up to its maximum level.

The catalogue gives the maximum level; for unknown features the nodes do. No target is above the
production default at the finalized or planned metadata.version. The search proposes a level for
every feature of every cluster, lowers the refused levels, and repeats until no rule refuses a
level. READY needs the policy and every dialect that the cluster's controllers may use.

A probe is a request that only validates. It checks every registered broker, also brokers in no
list. If the controller accepts the probe, no registration blocks the request; if the controller
refuses, the level is never READY. A probe counts until newer data of its cluster is collected, and
no longer than other evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from featurelib.audit.columns import is_fresh, marked
from featurelib.audit.controllers import Software, blind_leaders
from featurelib.audit.evidence import BatchFindings, Conditions, Evidence
from featurelib.audit.features import Questions
from featurelib.audit.fleet import ANY_LEVEL, FleetColumns, Proposed
from featurelib.audit.profiles import NOBODY
from featurelib.catalogue import Catalogue
from featurelib.core.batch import NOT_HERE
from featurelib.core.dialect import GENERATIONS, HONOURED, Dialect, load
from featurelib.core.dry_run import FAILS_AFTER_WRITING
from featurelib.core.reply import Refuser, is_about_another, read_refusal
from featurelib.core.rules import dependency_unmet, metadata_version_unmet
from featurelib.feature import METADATA_VERSION, Role
from featurelib.rows import NONE, Bool, Int

PROBE_AGREED, PROBE_REFUSED = "probe_agreed", "probe_refused"  # codes of findings about a probe
PROBE_UNSETTLED = "probe_unsettled"
UNLIMITED = -1  # the catalogue lacks the feature, so it has no bound
UNCLEAR = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The catalogue's bounds of each (cluster, feature); UNLIMITED = unknown bound."""

    ceiling: Int
    newest_known: Int
    newest_stable: Int
    seen: Int  # the highest level that any node supports
    common: Int  # the highest level that every node supports


def bounds(evidence: Evidence, catalogue: Catalogue, up_to: int = 0) -> Bounds:
    """Return the bounds of each (cluster, feature). The maximum level is the production default at
    the newest stable metadata.version of any node; of an unknown feature, the highest supported
    level. `up_to`: the highest requested metadata.version, 0 = none."""
    query = evidence.questions
    highest = _reduce(np.maximum, query, query.pair_max)
    # A partial response proves nothing about a feature that it may omit.
    common = _reduce(np.minimum, query, np.where(query.pair_unclear, UNCLEAR, query.pair_max))
    ceiling = highest.copy()
    newest_known = np.full(len(highest), UNLIMITED, dtype=np.int64)
    newest_stable = newest_known.copy()
    newest, stable = (ends[query.cluster] for ends in _stable_ends(evidence, catalogue))
    if up_to:
        newest = np.minimum(newest, up_to)
    foreign = evidence.uncatalogued(catalogue)
    for code, name in enumerate(query.names):
        mask = query.feature == code
        if name not in catalogue.features:
            ceiling[mask & (foreign | (up_to > 0))] = 0
            continue
        newest_known[mask] = catalogue.newest_known(name)
        if name == METADATA_VERSION:
            newest_stable[mask], ceiling[mask] = stable[mask], newest[mask]
        else:
            ceiling[mask] = catalogue.ceiling(name, newest[mask], query.current[mask])
    return Bounds(
        ceiling=np.maximum(ceiling, query.current),
        newest_known=newest_known,
        newest_stable=newest_stable,
        seen=highest,
        common=np.minimum(common, highest),
    )


def _reduce(function: np.ufunc, query: Questions, values: Int) -> Int:
    result = np.zeros(len(query.cluster), dtype=np.int64)
    filled = query.pair_count > 0
    if filled.any():
        result[filled] = function.reduceat(values, query.pair_first[filled])
    return result


def _stable_ends(evidence: Evidence, catalogue: Catalogue) -> tuple[Int, Int]:
    """Return per cluster (newest stable metadata.version of any node, first level that a node's own
    software calls unstable)."""
    query, subjects, answering = evidence.questions, evidence.subjects, evidence.answering
    newest = np.zeros(len(evidence.clusters), dtype=np.int64)
    by_profile = np.zeros(len(answering.cluster), dtype=np.int64)
    mask = query.of_feature(METADATA_VERSION)[query.pair_question]
    by_profile[query.pair_profile[mask]] = query.pair_max[mask]
    table = catalogue.stable_up_to().astype(np.int64)
    counts = answering.of_subject >= 0
    supported = by_profile[answering.of_subject[counts]]
    stable = table[np.minimum(supported, len(table) - 1)]
    ends = subjects.stable_metadata[counts]
    stable = np.where(ends > 0, np.minimum(stable, ends), stable)
    cluster, lower = subjects.cluster[counts], stable < supported
    np.maximum.at(newest, cluster, stable)
    lowest = newest.copy()
    np.minimum.at(lowest, cluster[lower], stable[lower])
    return newest, lowest


class Judge:
    """The policy, the (cluster, feature) pairs of a batch, and the bounds of their levels."""

    def __init__(
        self, evidence: Evidence, bounds: Bounds, dialect: Dialect, catalogue: Catalogue
    ) -> None:
        self.evidence = evidence
        self.asked = evidence.questions
        self.bounds = bounds
        self.dialect = dialect.in_audits
        self.catalogue = catalogue
        self._of_metadata = self.asked.of_feature(METADATA_VERSION)
        clusters = len(evidence.clusters)
        stable = np.full(clusters, ANY_LEVEL)
        stable[self.asked.cluster[self._of_metadata]] = bounds.newest_stable[self._of_metadata]
        self.fleet = FleetColumns(evidence, catalogue.tables, stable)
        # The finalized metadata.version of each cluster, or the level that Kafka assumes without a
        # record.
        self.metadata_version: Int = np.full(clusters, dialect.can.absent_metadata_version)
        mask = self._of_metadata & (self.asked.current > 0)
        self.metadata_version[self.asked.cluster[mask]] = self.asked.current[mask]
        of_kraft = ~evidence.membership.on_zookeeper[self.asked.cluster]
        self._catalogued = [
            (name, np.flatnonzero((self.asked.feature == code) & of_kraft))
            for code, name in enumerate(self.asked.names)
            if name in catalogue.features and name != METADATA_VERSION
        ]

    def defaults(self, level: Int) -> Int:
        """Return, per (cluster, feature), the production default at the metadata.version in
        `level`; ANY_LEVEL if the catalogue has no default."""
        query, metadata = self.asked, self.metadata_version.copy()
        metadata[query.cluster[self._of_metadata]] = level[self._of_metadata]
        metadata = np.maximum(metadata, self.metadata_version)
        levels = np.full(len(level), ANY_LEVEL)
        for name, rows in self._catalogued:
            at = metadata[query.cluster[rows]]
            levels[rows] = self.catalogue.ceiling(name, at, query.current[rows])
        return levels

    def settle(self, target: Int) -> None:
        """Set the maximum level of opt-in features to the production default at the
        metadata.version in `target`.

        A higher level that all nodes support becomes opt-in. If a node lacks that level, the
        maximum stays, so that the audit reports the node."""
        default, old = np.maximum(self.defaults(target), self.asked.current), self.bounds
        opt_in = (default < old.ceiling) & (old.common > default)
        self.bounds = replace(old, ceiling=np.where(opt_in, default, old.ceiling))

    def propose(self, level: Int, questions: Bool, other: Int | None = None) -> Proposed:
        """Evaluate `level` with the policy, for the (cluster, feature) pairs in the mask
        `questions`. `other`: the levels of the clusters' other features, None = `level`."""
        return self.fleet.propose(np.flatnonzero(questions), level, self.dialect, other=other)

    def rests_on(self, level: Int, unsure: Bool) -> Bool:
        """Return a mask of (cluster, feature) pairs whose `level` depends on features of unknown
        level (`unsure`). Every level depends on metadata.version, unless it is known to be high
        enough."""
        mask = level > self.asked.current
        refused_at_zero = self.propose(level, mask, other=np.where(unsure, 0, ANY_LEVEL))
        columns = refused_at_zero.judged.columns
        mask[mask] = dependency_unmet(columns.proposed, columns.needed)
        return mask | self._rests_on_metadata_version(level, unsure)

    def _rests_on_metadata_version(self, level: Int, unsure_of: Bool) -> Bool:
        """Return a mask of the (cluster, feature) pairs whose result depends on an unknown
        metadata.version: the rule, or the default level, needs a metadata.version that may not be
        finalized."""
        query, membership = self.asked, self.evidence.membership
        needed = max(load(name).can.metadata_needed for name in GENERATIONS)
        levels = np.full(len(self.evidence.clusters), needed)
        unsure = np.flatnonzero(self._of_metadata & unsure_of)
        levels[query.cluster[unsure]] = np.where(query.known, query.current, 0)[unsure]
        on_kraft = ~membership.on_zookeeper[query.cluster]
        mask = metadata_version_unmet(level, levels[query.cluster], needed)
        open_ends = marked(len(levels), query.cluster[unsure])[query.cluster]
        mask |= (level > np.maximum(self.defaults(query.current), query.current)) & open_ends
        return mask & on_kraft & ~self._of_metadata


def search(judge: Judge, ceiling: Int) -> Int:
    """Return the highest level up to `ceiling` of each (cluster, feature) that all rules accept;
    without such a level, the current one.

    The search needs few steps: below a refused level, only the lowest of the nodes' maximum levels
    can pass."""
    query, bounds, clusters = judge.asked, judge.bounds, len(judge.evidence.clusters)
    level, current = ceiling.copy(), query.current
    rising = level > current
    while rising.any():
        level = np.minimum(level, np.maximum(judge.defaults(level), current))
        rising &= level > current
        proposed = judge.propose(level, rising)
        nodes, by_cluster = proposed.refused(by_nodes=True), proposed.refused(by_nodes=False)
        by_nodes = marked(clusters, query.cluster[nodes])
        by_cluster = by_cluster[~by_nodes[query.cluster[by_cluster]]]
        common = bounds.common[nodes]
        level[nodes] = np.where(level[nodes] > common, common, 0)
        # Rules about updates refuse a level of an unknown feature only because of the cluster.
        level[by_cluster] = np.where(bounds.newest_known[by_cluster] >= 0, level[by_cluster] - 1, 0)
        level = np.maximum(level, current)
        refused = by_nodes | marked(clusters, query.cluster[by_cluster])
        rising = (level > current) & refused[query.cluster]
    return level


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """The levels that policy and dialects accept, and the results of probes.

    `target`, `refusals`: per (cluster, feature). `dialects`: the evaluated dialects of each
    cluster. `unanswered`: pairs that no dialect could judge. `below`: pairs whose refused probe may
    leave a lower level. `probed`: feature → (from, to) of accepted probes, which prove that no
    registration blocks. `controllers`: clusters where this covers controllers, too."""

    target: Int
    refusals: Int
    unanswered: Bool
    dialects: dict[int, list[str]]
    probed: dict[int, dict[str, tuple[int, int]]] = field(default_factory=dict)
    controllers: list[int] = field(default_factory=list)
    below: list[int] = field(default_factory=list)


def agree(judge: Judge, software: Software, report: BatchFindings) -> Agreed:
    """Return the highest levels that the policy and every dialect of the cluster accept. Report why
    higher levels are refused."""
    query, source, clusters = judge.asked, judge.evidence.levels.seen, len(judge.evidence.clusters)
    target = search(judge, judge.bounds.ceiling)
    clusters_open = np.unique(query.cluster[query.known & (target > query.current)])
    target, refused = _search_own(judge, software, target)
    questions = np.array([question for question, _ in refused], dtype=np.int64)
    reasons, levels = zip(*refused.values(), strict=True) if refused else ((), ())
    refusals = report.of_questions(
        "refused_by_own_controller", questions, reasons, level=np.array(levels, dtype=np.int64)
    )
    # No level rises at a controller that does not see `/feature`.
    is_blind = blind_leaders(judge.evidence)[query.cluster]
    is_blinded = np.flatnonzero(query.known & (target > query.current) & (is_blind != NOBODY))
    refusals += report.of_questions(
        FAILS_AFTER_WRITING,
        is_blinded,
        role=np.full(len(is_blinded), Role.BROKER),
        node_id=is_blind[is_blinded],
        level=target[is_blinded],
    )
    target[is_blinded] = query.current[is_blinded]
    dialects = {cluster: software.dialects(cluster) for cluster in clusters_open.tolist()}
    has_several = {
        cluster: ", ".join(load(name).title for name in names)
        for cluster, names in dialects.items()
        if len(names) > 1
    }
    report.of_clusters("generation_ambiguous", has_several, source)
    silent = marked(clusters, [cluster for cluster, names in dialects.items() if not names])
    unanswered = silent[query.cluster] & query.known & (target > query.current)
    report.of_clusters("release_unknown", marked(clusters, query.cluster[unanswered]), source)
    return Agreed(target=target, refusals=refusals, unanswered=unanswered, dialects=dialects)


def _search_own(
    judge: Judge, software: Software, target: Int
) -> tuple[Int, dict[tuple[int, str], tuple[str, int]]]:
    """Return (highest levels up to `target` that every dialect accepts, (pair, rule) → (reason,
    level) of the refusals). A refused level and its dependent levels are lowered and tried
    again."""
    current, refused = judge.asked.current, dict[tuple[int, str], tuple[str, int]]()
    while rows := [(p, row) for p in software.propose(judge.fleet, target) for row in p.by_row()]:
        for proposed, (update, row, at) in rows:
            for i in at.tolist():
                question = int(proposed.questions[i])
                nodes = _refusing_nodes(judge, proposed, update, i)
                reason = f"Rule {row.code} ({proposed.dialect.title}){nodes}"
                refused.setdefault((question, row.code), (reason, int(target[question])))
        refused_rows = np.unique(np.concatenate([p.questions[at] for p, (_, _, at) in rows]))
        target[refused_rows] = np.maximum(target[refused_rows] - 1, current[refused_rows])
        target = search(judge, target)
    return target, refused


def _refusing_nodes(judge: Judge, proposed: Proposed, place: int, update: int) -> str:
    """Return the last part of a finding's sentence: the refusing nodes, their range, and the
    required range."""
    evidence, row = judge.evidence, proposed.dialect.rules[place]
    pair = int(proposed.judged.named[place, update])
    group = proposed.batch.groups[row.asks] if row.asks is not None and pair >= 0 else None
    profile = NOT_HERE if group is None else int(group.profile[pair])
    # no named node, or a node without features
    if not 0 <= profile < len(evidence.answering.cluster):
        return ""
    begin, end = evidence.answering.subject_first[profile : profile + 2].tolist()
    rows = evidence.answering.subject_order[begin:end]
    ids = sorted(set(evidence.subjects.node_id[rows].tolist()))
    several = f"nodes {', '.join(map(str, ids))} support"
    nodes = f"node {ids[0]} supports" if len(ids) == 1 else several
    columns, ranges = proposed.judged.columns, proposed.batch.ranges
    at = profile, int(columns.feature[update])
    needed = ""
    if "lowest" in row.rule.columns and columns.local_min[update]:
        needed = f", and must support {columns.local_min[update]}-{columns.level[update]}"
    return f": {nodes} {ranges.min_version[at]}-{ranges.max_version[at]}{needed}"


class Validated(msgspec.Struct, frozen=True, kw_only=True):
    """An update that the controller validated, with the error code and message of the response.
    `from_level` -1 = unknown, because kafka-features.sh printed only the refusal."""

    feature: str
    from_level: int
    to_level: int
    code: int  # the error code of the response; 0 means the controller agrees
    message: str


def report_probes(
    judge: Judge, agreed: Agreed, software: Software, conditions: Conditions, report: BatchFindings
) -> Agreed:
    """Compare the accepted levels with the controller's responses to probes, and report
    differences.

    A refused level, and all levels that depend on it, return to the current level. Levels below it,
    and a level whose request was refused because of another feature, become unknown."""
    query, target, refusals = judge.asked, agreed.target.copy(), np.zeros_like(agreed.target)
    proof, controllers = dict[int, dict[str, tuple[int, int]]](), list[int]()
    unanswered = agreed.unanswered.copy()
    for cluster, answers, (at, line), dialects in _answers(judge, agreed, software, conditions):
        moving = _probed_questions(query, target, cluster, answers)
        met = [*_met(query, target, moving, answers), *_refused_unknown(query, cluster, answers)]
        accepted = [a for _, a in met if a.code == 0]
        if len(accepted) == len(moving) > 0:
            proof[cluster] = {a.feature: (a.from_level, a.to_level) for a in accepted}
            # True if the controller checks all registered controllers (KIP-919, from 3.7 on).
            least = [load(name).can.controllers_register_from for name in dialects]
            if all(0 < a <= judge.metadata_version[cluster] for a in least):
                controllers.append(cluster)
        if accepted:
            levels = ", ".join(f"{a.feature} {a.to_level}" for a in accepted)
            report.of_clusters(PROBE_AGREED, {cluster: levels}, at=at, line=line)
        for question, a in met:
            if a.code == 0:
                continue
            source = {"at": at, "line": line, "level": np.array([a.to_level])}
            if is_about_another(a.message, a.feature, answers):
                report.of_questions(PROBE_UNSETTLED, np.array([question]), [a.message], **source)
                unanswered[question] = True
                continue
            refusals += _report_refused(judge, question, a, report, **source)
            target[question] = query.current[question]
            agreed.below.extend([question] * _may_leave_lower(a, target[question]))
    if refusals.any():
        target = search(judge, target)
    refusals += agreed.refusals
    agreed = replace(agreed, target=target, refusals=refusals, unanswered=unanswered)
    return replace(agreed, probed=proof, controllers=controllers)


Answers = Mapping[str, Validated]  # feature → the controller's response to a probe


def _probed_questions(query: Questions, target: Int, cluster: int, answers: Answers) -> list[int]:
    """Return the (cluster, feature) pairs of a cluster whose level would rise. If no level rises,
    return the pairs with a probe response."""
    questions = np.flatnonzero((query.cluster == cluster) & query.known)
    rising = questions[target[questions] > query.current[questions]]
    is_answered = [query.names[feature] in answers for feature in query.feature[questions]]
    moving: list[int] = (rising if len(rising) else questions[is_answered]).tolist()
    return moving


def _met(
    query: Questions, target: Int, moving: Sequence[int], answers: Answers
) -> Iterator[tuple[int, Validated]]:
    """Yield (pair, response) for each planned update that a probe validated unchanged."""
    for question in moving:
        answer = answers.get(query.names[query.feature[question]])
        ends = (answer.from_level, answer.to_level) if answer else ()
        if answer and ends in ((query.current[question], target[question]), (-1, target[question])):
            yield question, answer


def _refused_unknown(
    query: Questions, cluster: int, answers: Answers
) -> Iterator[tuple[int, Validated]]:
    """Yield (pair, response) for each refused probe of a feature whose current level is unknown."""
    for question in np.flatnonzero((query.cluster == cluster) & ~query.known).tolist():
        answer = answers.get(query.names[query.feature[question]])
        if answer is not None and answer.code != 0:
            yield question, answer


def _may_leave_lower(answer: Validated, current: int) -> bool:
    """Return true if the controller may accept a level between the current and the refused one."""
    refuser = read_refusal(answer.message, answer.feature)
    _, maximum = (refuser.range or (NONE, current)) if refuser else (NONE, answer.to_level)
    return bool(min(maximum, answer.to_level - 1) > current)


def _report_refused(
    judge: Judge, question: int, answer: Validated, report: BatchFindings, **place: Int
) -> Int:
    """Report a refused probe and the node it names. Return findings per (cluster, feature)."""
    words = f": {answer.message}" if answer.message else ""
    detail = [f"error {answer.code}{words}"]
    count = report.of_questions(PROBE_REFUSED, np.array([question]), detail, **place)
    if refuser := read_refusal(answer.message, answer.feature):
        count = count + _report_refuser(judge, question, refuser, report, **place)
    return count


def _report_refuser(
    judge: Judge, question: int, named: Refuser, report: BatchFindings, **columns: Int
) -> Int:
    """Report the node that a refused probe names, if no other source shows its range. Return the
    findings per (cluster, feature)."""
    node, cluster = judge.evidence.subjects, judge.asked.cluster[question]
    mask = (node.cluster == cluster) & (node.role == named.role) & (node.node_id == named.node_id)
    row = np.flatnonzero(mask & (node.profile < 0))
    ends = [np.full(len(row), end) for end in named.range or (NONE, NONE)]
    columns = {name: values[: len(row)] for name, values in columns.items()}
    columns |= dict(zip(("min_version", "max_version"), ends, strict=True))
    columns |= {"role": node.role[row], "node_id": node.node_id[row]}
    return report.of_questions("unsupported_by_node", np.full(len(row), question), None, **columns)


def _answers(
    judge: Judge, agreed: Agreed, software: Software, conditions: Conditions
) -> Iterator[tuple[int, dict[str, Validated], tuple[Int, Int], Sequence[str]]]:
    """Yield (cluster, feature → update, (time, line), dialects) for each valid probe response.
    Responses from the future, and from controllers that may not validate, are skipped."""
    probe = judge.evidence.snapshots["probe"]
    updates = probe.structs(Validated)
    for cluster in np.flatnonzero(probe.lengths).tolist():
        first, end = probe.start[cluster], probe.start[cluster] + probe.lengths[cluster]
        at, line = probe.field("at")[[first]], probe.field("line")[[first]]
        dialects = agreed.dialects.get(cluster) or software.dialects(cluster)
        honoured = all(load(name).can.validate_only == HONOURED for name in dialects)
        is_young = is_fresh(at, conditions.as_of, conditions.max_age)[0]
        answers = {update.feature: update for update in updates[first:end]}
        is_printed = all(update.from_level == -1 and update.code for update in answers.values())
        is_printed &= not judge.evidence.membership.on_zookeeper[cluster]
        if is_young and (is_printed or (dialects and honoured)):
            yield cluster, answers, (at, line), dialects


def agreed_levels(evidence: Evidence) -> set[tuple[str, int]]:
    """Return the (feature, level) pairs that a controller accepted in a probe."""
    updates = evidence.snapshots["probe"].structs(Validated)
    return {(update.feature, update.to_level) for update in updates if update.code == 0}
