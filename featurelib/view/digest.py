"""Summarise a report: causes over the fleet, a cluster in one line, groups of findings, mutes, and
downgrades.

The input is the values of featurelib.view.model; none of their counts is computed again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import partial
from itertools import groupby
from typing import NamedTuple, TypeVar

from featurelib.audit.findings import SetAside
from featurelib.feature import METADATA_VERSION, ClusterMode, Severity, Verdict
from featurelib.findings import ANY_ADDRESS, places_of, row_of, tagged
from featurelib.snapshot import history
from featurelib.view import model
from featurelib.words import clean, code_text, count, metadata_first, nodes, some, time_text

HOLDS_BACK = frozenset({Severity.BLOCKER, Severity.UNKNOWN})
WARNS = frozenset({Severity.CRITICAL, Severity.UNKNOWN, Severity.WARNING})
# These findings need a person, even if conf/audit.toml lowers their severities.
OPEN = frozenset({Verdict.UNKNOWN, Verdict.BLOCKED})
IDLE = "nothing to do"
TAKE_OUT = "take it out of the settings file"
FEATURES = 1  # Maximum number of features that a line names; others are counted
CLUSTERS = 3  # Maximum number of clusters that one line names
MUTED_FEATURES = 3  # Maximum number of muted features that one line names

_Row = TypeVar("_Row")
Findings = Sequence[model.ReportedFinding]


def fill_in(command: str | None) -> str:
    """Return the advice to fill in the address in a command; "" if the command is complete."""
    text = f"Put a broker's address for {ANY_ADDRESS}: fleet.toml has no bootstrap for this cluster"
    return f"{text}." * (ANY_ADDRESS in (command or ""))


def step_text(step: model.ReportedStep) -> str:
    """Return a step as text, `metadata.version 25 (4.0-IV3) → 29 (4.2-IV1)`, with the owner who
    applies it, or `after that`."""
    after = " (after that)" if step.waits else ""
    after = f" (by {step.managed_by})" if step.managed_by else after
    return f"{step.feature} {step.from_level.text} → {step.to_level.text}{after}"


def moves(steps: Iterable[model.ReportedStep]) -> list[str]:
    """Return the feature and new level of each step as text: `metadata.version 29 (4.2-IV1)`."""
    return [f"{step.feature} {step.to_level.text}" for step in steps]


def software_text(cluster: model.ReportedCluster) -> str:
    """Return the Kafka release of a cluster as text: `4.1`, or `3.9 to 4.2` if nodes differ; "" if
    unknown."""
    return " to ".join(dict.fromkeys(filter(None, (cluster.release, cluster.newest_release))))


def owner_text(cluster: model.ReportedCluster) -> str:
    """Return a cluster's owner; for a critical cluster without owner, the advice to set one."""
    is_critical = cluster.severity is Severity.CRITICAL
    return cluster.owner or "nobody: name one in fleet.toml" * is_critical


def release_texts(cluster: model.ReportedCluster) -> list[str]:
    """Return the texts `Kafka 4.2`, `without broker 2` and `finalized 4.0`, if they differ."""
    software, finalized = software_text(cluster), cluster.finalized_release
    silent = nodes_of([finding for finding in cluster.findings if finding.code in tagged("down")])
    parts = [f"Kafka {software}", f"without {silent}" if silent else ""] if software else []
    parts += [f"finalized {finalized}" if finalized and finalized != software else ""]
    return list(filter(None, parts))


def fleet_facts(fleet: model.FleetCounts) -> list[tuple[str, str]]:
    """Return (label, counts) rows about the fleet: phases, findings, incompatible nodes."""
    phases = [f"{n:,} {phase.value}" for phase, n in fleet.clusters_by_phase.items() if n]
    severities = [f"{n:,} {level.value}" for level, n in fleet.findings_by_severity.items() if n]
    kinds = (("phases", phases), ("findings", severities))
    rows = [(label, " · ".join(parts) or "none") for label, parts in kinds]
    if fleet.muted:
        rows.append(("", f"of these {count_muted(fleet.muted, fleet.muted_until)}"))
    if fleet.incompatible_nodes:
        verb = "does" if fleet.incompatible_nodes == 1 else "do"
        nodes_text = count(fleet.incompatible_nodes, "node")
        rows.append(("incompatible", f"{nodes_text} {verb} not support a finalized level"))
    return rows


def parts(
    cluster: model.ReportedCluster,
) -> tuple[list[model.ReportedStep], list[model.ReportedStep]]:
    """Return (steps that featurelib can send now, steps that another owner applies)."""
    our_steps = [step for step in cluster.steps if step.managed_by is None and not step.waits]
    return our_steps, [step for step in cluster.steps if step.managed_by is not None]


# The main causes: findings that block or hide a verdict, by their common properties. All nodes
# of one old release are one cause for all features that they block; their common range of
# metadata.version identifies them or, if that does not block, the range that does.


class _Key(NamedTuple):
    code: str
    severity: Severity
    feature: str | None = None
    supported: model.Range | None = None
    stale: bool = False


def rank_causes(clusters: Sequence[model.ReportedCluster]) -> tuple[model.Cause, ...]:
    """Return the causes that block clusters, sorted by the number of clusters that they unlock. A
    cluster without other blockers counts twice."""
    held: dict[_Key, list[tuple[model.ReportedCluster, model.ReportedFinding]]] = defaultdict(list)
    alone: dict[_Key, list[str]] = defaultdict(list)
    for cluster in clusters:
        keyed = list(_causes_of(cluster))
        keys = {key for key, _ in keyed}
        for key, finding in keyed:
            held[key].append((cluster, finding))
        if len(keys) == 1:
            alone[keyed[0][0]].append(cluster.key)
    return tuple(sorted((_cause(key, rows, alone[key]) for key, rows in held.items()), key=_rank))


def _rank(cause: model.Cause) -> tuple[int, int, bool, int, str, str]:
    answers = cause.code not in tagged("not_answering")
    return (
        -cause.alone - cause.clusters,
        -cause.clusters,
        answers,
        cause.nodes,
        cause.title,
        cause.severity,
    )


def _causes_of(cluster: model.ReportedCluster) -> Iterator[tuple[_Key, model.ReportedFinding]]:
    holding = [finding for finding in cluster.findings if finding.severity in HOLDS_BACK]
    plain = [finding for finding in holding if finding.code not in tagged("consequence")]
    by_range = tagged("unsupported")
    metadata = {
        finding.node_id: finding.supported
        for finding in holding
        if finding.code in by_range and finding.feature == METADATA_VERSION
    }
    ghosts = gone_nodes(cluster.findings)
    for finding in plain or holding:
        key = _Key(finding.code, finding.severity)
        if titles_of(finding.code)[1] and finding.node in ghosts:
            key = key._replace(stale=True)  # grouped without ranges
        elif finding.code in by_range and finding.node_id in metadata:
            key = key._replace(feature=METADATA_VERSION, supported=metadata[finding.node_id])
        elif finding.code in by_range:
            key = key._replace(feature=finding.feature, supported=finding.supported)
        yield key, finding


def titles_of(code: str) -> tuple[str, str]:
    """Return two titles of a finding code: the usual title, and the title for stale nodes ("" =
    usual)."""
    row = row_of(code)
    return (row and row.title) or code_text(code), row.title_stale if row else ""


def _cause(
    key: _Key,
    rows: Sequence[tuple[model.ReportedCluster, model.ReportedFinding]],
    alone: Sequence[str],
) -> model.Cause:
    clusters = {cluster.key: cluster.name for cluster, _ in rows}
    node_keys = {(c.key, finding.node_id) for c, finding in rows if finding.node_id is not None}
    features = {finding.feature for _, finding in rows if finding.feature is not None}
    title, title_stale = titles_of(key.code)
    if key.stale:
        title = title_stale
    elif key.code in tagged("unsupported") and key.supported is None:
        title = f"nodes that do not support {key.feature} at all"
    elif key.code in tagged("unsupported") and key.supported is not None:
        title = f"nodes that support {key.feature} {key.supported.text}"
    return model.Cause(
        title=title,
        code=key.code,
        severity=key.severity,
        feature=key.feature,
        supported=key.supported,
        features=tuple(sorted(features, key=metadata_first)),
        clusters=len(clusters),
        alone=len(alone),
        unlocked=tuple(alone),
        stale=key.stale,
        nodes=len(node_keys),
        held=tuple(clusters.values()),
        muted=len(clusters.keys() - {c.key for c, finding in rows if finding.muted is None}),
    )


def summarize_cluster(
    verdict: Verdict, findings: Findings, steps: Sequence[model.ReportedStep],
    late: datetime | None, *, has_features: bool, mode: ClusterMode | None,
) -> str:  # fmt: skip
    """Return the summary of a cluster: its worst findings, then the possible steps."""
    active = without_old_data(unmuted(findings), late is not None)
    parts = [_problem(active, Severity.CRITICAL)]
    if verdict in (Verdict.UNKNOWN, Verdict.BLOCKED):  # known blockers come first
        parts += [_blockers_text(active), _problem(active, Severity.UNKNOWN)]
    if not any(parts) and not steps:
        texts = map(partial(_problem, active), (Severity.UNKNOWN, Severity.WARNING))
        parts.append(next(filter(None, texts), ""))
    if steps:
        is_ready, number = verdict is Verdict.READY, count(len(steps), "feature")
        parts.append(f"can finalize {some(moves(steps), FEATURES) if is_ready else number}")
    parts.append(f"no usable data was collected since {time_text(late)}" * bool(late))
    is_bare = verdict is Verdict.UP_TO_DATE and not has_features
    idle = "no node of it has a feature to finalize" if is_bare else IDLE
    waiting = tagged("unstable", "soaking")
    idle = next((finding.message for finding in active if finding.code in waiting), idle)
    if mode is ClusterMode.MIGRATING:
        idle = f"{mode.value}: nothing moves until that has ended"
    muted = count_muted(sum(finding.muted is not None for finding in findings), None)
    return "; ".join(filter(None, ["; ".join(filter(None, parts)) or idle, muted]))


def _problem(findings: Findings, severity: Severity) -> str:
    """Return the first finding of a severity as text, with the number of further codes."""
    worst = [finding for finding in findings if finding.severity is severity]
    codes = list(dict.fromkeys(finding.code for finding in worst))
    if not codes:
        return ""
    first = [finding for finding in worst if finding.code == codes[0]]
    reason = reason_of(first)
    text = headline(first) + f" ({reason})" * bool(reason)
    label = f"{severity.value}: " if severity is Severity.CRITICAL else ""
    return label + text + f", and {count(len(codes) - 1, 'more problem')}" * (len(codes) > 1)


def headline(findings: Findings) -> str:
    """Return the state that findings with one code show, as a sentence without period."""
    first, template = findings[0], _template(findings[0])
    fact = first.feature, first.finalized, first.level
    group = [f for f in findings if (f.feature, f.finalized, f.level) == fact]
    verbs = ("do", "are", "were") if len({f.node_id for f in group}) > 1 else ("does", "is", "was")
    levels = (level.text if level else "" for level in fact[1:])
    values = dict(zip(("do", "are", "were", "finalized", "level"), (*verbs, *levels), strict=True))
    values |= {"nodes": nodes_of(group), "feature": first.feature or ""}
    if not (template and all(map(values.get, places_of(template)))):
        template, group = "", [first]
    text = template.format_map(values) or first.message.rstrip(".")
    other_nodes = nodes_of([f for f in findings if f.node not in {f.node for f in group}])
    return f"{text[:1].upper()}{text[1:]}" + f"; likewise {other_nodes}" * bool(other_nodes)


def _template(finding: model.ReportedFinding) -> str:
    """Return the headline in findings.toml for a finding; "" if its remedy has another message."""
    row = row_of(finding.code)
    causes = {remedy.when.cause for remedy in row.remedies if remedy.message} if row else set()
    return row.headline if row and finding.facts.get("cause") not in causes else ""


def reason_of(findings: Findings) -> str:
    """Return the common reason why nodes did not respond; "" if the headline has it."""
    codes = tagged("not_answering", "no_majority", "no_leader")
    reasons = {f.facts.get("reason") or f.facts.get("response", "") for f in findings}
    is_left_out = findings[0].code in codes and _template(findings[0])
    return reasons.pop().rstrip(".") if is_left_out and len(reasons) == 1 else ""


def _blockers_text(findings: Findings) -> str:
    """Return the blockers of a cluster: `system off; Broker 2 blocks metadata.version`."""
    blockers = [finding for finding in findings if finding.severity is Severity.BLOCKER]
    by_node = [finding for finding in blockers if finding.code in tagged("unsupported")]
    if not by_node:
        return _problem(findings, Severity.BLOCKER)
    codes = {finding.code for finding in blockers} - tagged("unsupported", "consequence")
    features = sorted({finding.feature or "" for finding in by_node}, key=metadata_first)
    keys = {finding.node for finding in by_node}
    be, verb = ("is", "blocks") if len(keys) == 1 else ("are", "block")
    verb = f"{be} off and " * (keys <= gone_nodes(findings)) + verb
    text = f"{nodes_of(by_node).capitalize()} {verb} {some(features, FEATURES)}"
    return "; ".join([*map(code_text, sorted(codes)), text])


def nodes_of(findings: Collection[model.ReportedFinding | SetAside]) -> str:
    """Return the nodes of findings: `brokers 2-5`; `nodes 2-5` for several roles; or ""."""
    ids = {finding.node_id for finding in findings if finding.node_id is not None}
    roles = {finding.role for finding in findings}
    return nodes(roles.pop() if len(roles) == 1 else None, ids) if ids else ""


def has_landed(findings: Findings) -> bool:
    """Return false if the findings show that no data of the cluster was ever collected."""
    return all(finding.code not in tagged("no_data") for finding in findings)


def without_old_data(findings: Findings, is_late: bool) -> list[model.ReportedFinding]:
    """Return the findings; for a late cluster without the findings about old data."""
    return [f for f in findings if not (is_late and f.code in tagged("too_old"))]


def late_since(
    newest_line: datetime | None, findings: Findings, fleet: datetime | None
) -> datetime | None:
    """Return the time of a cluster's newest line if the last collection has no data of it; None
    otherwise."""
    return history.late_since(newest_line, fleet, ((f.code, f.muted) for f in findings))


def gone_nodes(findings: Findings) -> set[tuple[str | None, int | None]]:
    """Return (role, id) of the stale nodes."""
    return {finding.node for finding in findings if finding.code in tagged("stale")}


def is_too_old(cluster: model.ReportedCluster) -> bool:
    """Return true if old data makes the cluster UNKNOWN. Stale nodes are ignored."""
    old = {finding.node for finding in cluster.findings if finding.code in tagged("too_old")}
    return bool(old - gone_nodes(cluster.findings)) and cluster.verdict is Verdict.UNKNOWN


# Findings of one cluster are grouped for reading. Fifty old nodes that block three features become
# three sentences about the first node, with a list of the others. One node that blocks three
# features gets one remedy. The grouping with fewer groups is used; it keeps every node and every
# feature.


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingGroup:
    """A group of findings with one code. `first`: the finding with remedy and source."""

    severity: Severity
    messages: tuple[str, ...]
    states: tuple[tuple[str, str], ...]  # message and consequence
    others: str  # a sentence about further nodes with equal messages; "" if none
    first: model.ReportedFinding
    commands: tuple[str, ...]


def group_findings(findings: Findings) -> tuple[FindingGroup, ...]:
    """Return the findings grouped by code."""
    groups: list[FindingGroup] = []
    for same_code in _gather(findings, lambda f: (f.severity, f.code)):
        facts = _gather(same_code, _fact)
        parts = _gather(facts, lambda g: (g[0].role, *(f.node_id for f in g), _remedy(g[0])))
        by_fact = [_of_facts(group) for group in parts]
        by_remedy = [_group(group) for group in _gather(same_code, _remedy)]
        groups += by_fact if len(by_fact) < len(by_remedy) else by_remedy
    return tuple(_without_remedy(group, groups[:at]) for at, group in enumerate(groups))


def _without_remedy(group: FindingGroup, above: Sequence[FindingGroup]) -> FindingGroup:
    """Return `group` without remedy if a group in `above` shows the remedy for the same node."""
    first, keys = group.first, {(g.first.node_id, *_remedy(g.first)) for g in above}
    if first.node_id is None or (first.node_id, *_remedy(first)) not in keys:
        return group
    return replace(group, first=replace(first, action="", command=""), commands=())


def _group(findings: Findings, extra: str = "", similar: Findings = ()) -> FindingGroup:
    """Return findings as one group. Equal messages appear once."""
    messages = tuple(dict.fromkeys(finding.statement for finding in findings))
    states = tuple(dict.fromkeys((f.message, f.consequence) for f in findings))
    commands = dict.fromkeys(f.command for f in (*findings, *similar) if f.command)
    return FindingGroup(
        severity=findings[0].severity,
        messages=messages,
        states=states,
        others=extra,
        first=findings[0],
        commands=tuple(commands),
    )


def _of_facts(facts: Sequence[Findings]) -> FindingGroup:
    """Return one group of findings that differ only in the node."""
    first, *alike_nodes = facts[0]
    ids = [node.node_id for node in alike_nodes if node.node_id is not None]
    others_text = f"The same holds for {nodes(first.role, ids)}." if ids else ""
    group = _group([similar[0] for similar in facts], others_text, facts[0])
    if not ids or first.node_id is None:
        return group
    action = first.action_for(nodes(first.role, [first.node_id, *ids]))
    return replace(group, first=replace(group.first, action=action))


def remedy_of_several(
    rows: Sequence[tuple[model.ReportedCluster, model.ReportedFinding]], message: str
) -> str:
    """Return the remedy of the first finding, after `message`, and the other clusters to which it
    applies."""
    first_cluster, finding = rows[0]
    helped = defaultdict[str, list[model.ReportedFinding]](
        list
    )  # the groups are in the order of their first clusters
    for cluster, f in rows:
        if f.remedy_key == finding.remedy_key:
            helped[cluster.name].append(f)
    node_texts = {name: nodes_of(group) for name, group in helped.items()}
    first, *further = [f"{name} ({ids})" if ids else name for name, ids in node_texts.items()]
    text = f"In {first}: {message}{finding.action_for(node_texts[first_cluster.name])}"
    text += f" Likewise in {some(further, CLUSTERS)}." * bool(further)
    is_rest = sum(map(len, helped.values())) < len(rows)
    return text + " Other clusters here need another remedy: see their findings." * is_rest


def _remedy(finding: model.ReportedFinding) -> tuple[str, str]:
    return finding.action, finding.command


def _fact(row: model.ReportedFinding) -> Hashable:
    # A finding without a node differs from another by all of its facts.
    if row.node_id is None:
        return row
    values = (row.role, row.feature, row.finalized, row.level, row.supported, *row.facts.items())
    # Two nodes with equal messages may need different remedies: a stale node is unregistered.
    return *values, row.remedy_key, row.source, row.muted, row.muted_until


def _gather(rows: Sequence[_Row], key: Callable[[_Row], Hashable]) -> list[list[_Row]]:
    groups: dict[Hashable, list[_Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return list(groups.values())


# Mutes: muted findings are shown separately; they are counted, and need no action.


def unmuted(findings: Iterable[model.ReportedFinding]) -> list[model.ReportedFinding]:
    """Return the unmuted findings."""
    return [finding for finding in findings if finding.muted is None]


def is_reached(fail_on: Severity, report: model.Report) -> bool:
    """Return true if an unmuted finding is at least as severe as `fail_on`."""
    severities = (f.severity for cluster in report.clusters for f in unmuted(cluster.findings))
    return any(model.SEVERITY_RANK[s] <= model.SEVERITY_RANK[fail_on] for s in severities)


def warns(cluster: model.ReportedCluster, ignored: Collection[str] = ()) -> bool:
    """Return true if an unmuted finding is a warning, unknown or critical. `ignored`: codes to
    skip."""
    active = unmuted(cluster.findings)
    return any(f.severity in WARNS and f.code not in ignored for f in active)


def needs_person(verdict: Verdict, findings: Findings, steps: Sequence[model.ReportedStep]) -> bool:
    """Return true if a person must check a cluster with these findings, or approve its plan.

    A cluster that cannot be upgraded needs a person at any severity, unless its blockers are muted.
    """
    if steps or any(f.severity is not Severity.INFO for f in unmuted(findings)):
        return True
    severities = HOLDS_BACK | {Severity.CRITICAL}
    set_aside = any(f.muted is not None and f.severity in severities for f in findings)
    return verdict in OPEN and not set_aside


def mute_text(mute: model.ReportedMute) -> tuple[str, str]:
    """Return (state of a mute, text with subject, reason and advice)."""
    scope = [mute.feature] if mute.feature else []
    scope += [f"node {mute.node}"] if mute.node is not None else []
    scope += [f"in {mute.cluster}"] if mute.cluster else []
    subject = f"{mute.code} {', '.join(scope)}".rstrip()
    matched = f"{count(mute.findings, 'finding')} in {count(mute.clusters, 'cluster')}"
    until = f"until {mute.until.isoformat()}"
    if mute.expired:
        effect = f"{matched} again; renew it or " if mute.findings else "no finding; "
        state, action = f"ran out with {mute.until.isoformat()}", effect + TAKE_OUT
    elif mute.findings:
        state, action = until, matched
    else:
        state, action = "matches nothing", f"{until}; {TAKE_OUT}"
    return state, f"{subject}: {mute.reason} ({action})"


def recount(
    mute: model.ReportedMute, clusters: Sequence[model.ReportedCluster]
) -> model.ReportedMute:
    """Return the mute with the number of findings and clusters that it matches."""
    remaining = [
        cluster.key
        for cluster in clusters
        for finding in cluster.findings
        if finding.code == clean(mute.code)
        and mute.cluster in (None, cluster.name)
        and mute.feature in (None, finding.feature)
        and mute.node in (None, finding.node_id)
    ]
    return replace(mute, findings=len(remaining), clusters=len(set(remaining)))


def muted_lines(findings: Iterable[model.ReportedFinding | SetAside]) -> tuple[str, ...]:
    """Return the muted findings of a cluster as lines, one per code and reason."""
    groups: dict[tuple[str, str, date | None], list[model.ReportedFinding | SetAside]] = {}
    for finding in findings:
        if finding.muted is not None:
            key = (finding.code, finding.muted, finding.muted_until)
            groups.setdefault(key, []).append(finding)
    lines = []
    for (code, reason, until), similar in groups.items():
        features = sorted({f.feature for f in similar if f.feature is not None})
        details = "; ".join(filter(None, (nodes_of(similar), some(features, MUTED_FEATURES))))
        end = "" if until is None else f", until {until.isoformat()}"
        lines.append(f"{code}{f' ({details})' if details else ''}, muted: {reason}{end}")
    return tuple(lines)


def count_muted(muted: int, until: date | None) -> str:
    """Return `3 findings muted, the first until 2026-12-31`; "" without muted findings."""
    parts = [f"{count(muted, 'finding')} muted", until_text(muted, until)] if muted else []
    return ", ".join(filter(None, parts))


def until_text(muted: int, until: date | None) -> str:
    """Return the first end of these mutes as `until 2026-12-31`; "" without mutes."""
    first = "the first " if muted > 1 else ""
    return "" if until is None else f"{first}until {until.isoformat()}"


# Downgrades, and releases that can register.


def managers_of(steps: Iterable[model.ReportedStep]) -> list[str]:
    """Return the owners of these steps, without featurelib."""
    return list(dict.fromkeys(step.managed_by for step in steps if step.managed_by))


def since_text(ready: model.Readiness) -> str:
    """Return a text with the time since which a feature is READY, or has its verdict."""
    if ready.verdict is Verdict.READY:
        return time_text(ready.ready_since)
    before = f"READY since {time_text(ready.ready_since)}" * bool(ready.ready_since)
    return ", ".join(filter(None, (time_text(ready.verdict_since), before)))


def after_all(steps: Sequence[model.ReportedStep]) -> str:
    """Return `after the plan`, or `after the plan and what strimzi finalizes`, for these steps."""
    if not (managers := managers_of(steps)):
        return "after the plan"
    plan = "the plan and " if any(step.managed_by is None for step in steps) else ""
    return f"after {plan}what {', '.join(managers)} finalizes"


def ahead_lines(cluster: model.ReportedCluster) -> list[str]:
    """Return lines about a cluster: possible downgrades now and after the plan, irreversible
    levels, and compatible releases. If these are unknown, the last line has a command."""
    levels = {ready.feature: ready.finalized for ready in cluster.readiness}
    levels_after = levels | {step.feature: step.to_level for step in cluster.steps}
    today, after = _lower(cluster.readiness, levels), _lower(cluster.returns, levels_after)
    # Today's downgrade of a feature that the plan does not change is not computed.
    features = [row.feature for row in cluster.readiness if row.downgrade_floor]
    has_more = any(r.downgrade_floor and r.feature not in features for r in cluster.returns)
    fleet_text = f" (of {', '.join(features)})" if has_more else ""
    lines = [f"can be lowered without loss, today{fleet_text}: {today}"] if today else []
    if after:
        points = ", ".join(no_returns(cluster, cluster.steps))
        lines.append(f"can be lowered without loss, {after_all(cluster.steps)}: {after}")
        lines.append(f"point of no return: {points or 'none known'}")
    if cluster.joining is not None:
        lines += [f"releases that can register: {cluster.joining.text}", ROLL_BACK]
    return lines


ROLL_BACK = "before software is rolled back, ask: older controllers may need a newer snapshot"


def no_returns(cluster: model.ReportedCluster, steps: Iterable[model.ReportedStep]) -> list[str]:
    """Return the points of no return of these steps: `metadata.version 8 (3.4-IV0)` and more."""
    moved = {step.feature for step in steps}
    ends = [(r.feature, r.point_of_no_return) for r in cluster.returns]
    return [f"{name} {level.text}" for name, level in ends if level and name in moved]


def _lower(
    rows: Sequence[model.Readiness | model.ReportedReturn], at: Mapping[str, model.Level | None]
) -> str:
    """Return the possible downgrades as text: `down to metadata.version 17 (3.7-IV2)`; `nothing` if
    none, "" if unknown."""
    floors = [(row.feature, row.downgrade_floor) for row in rows if row.downgrade_floor]
    lower = [f"{name} {floor.text}" for name, floor in floors if floor != at.get(name)]
    return f"down to {', '.join(lower)}" if lower else "nothing" * bool(floors)


def history_lines(cluster: model.ReportedCluster) -> list[tuple[str, str]]:
    """Return a history's (label, levels) lines, such as `read 2026-11-20 08:00 UTC, epoch 7`."""
    lines, first = [], min((move.at for move in cluster.history or ()), default=None)
    read = groupby(cluster.history or (), lambda move: (move.at, move.epoch, move.epoch_before))
    for (at, epoch, before), moved in [(key, list(group)) for key, group in read]:
        # The first reading is not a change.
        is_first = at == first and not any(move.before.number for move in moved)
        time = ("first " * is_first) + f"read {time_text(at)}"
        befores = ["" if is_first or m.before == m.after else f"{m.before.text} → " for m in moved]
        moves = [f"{m.feature} {was}{m.after.text}" for m, was in zip(moved, befores, strict=True)]
        fell = "" if before is None else f"decreased from {before} to "
        lines.append((time + ("" if epoch is None else f", epoch {fell}{epoch}"), ", ".join(moves)))
    return lines
