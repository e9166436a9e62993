"""Return why a level is not planned, and the smallest set of nodes whose fix unlocks the level.

A reason names its judge, feature, level and node. Its texts are those of findings and rules; a
controller's refusal keeps Kafka's message. A level is unlocked if the policy accepts it after these
nodes run other software, or are unregistered. Every node must support a level, so the set has
exactly the nodes that do not support the level or its dependencies.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from featurelib.audit.cluster_view import ClusterView
from featurelib.audit.findings import FindingColumns, FindingWords, wordings
from featurelib.audit.target import agreed_levels
from featurelib.catalogue import Catalogue
from featurelib.core.cluster import Cluster, Half, Node, Request, Update, unregistered
from featurelib.core.compatibility import may_join
from featurelib.core.dialect import STRICT, Asks, load
from featurelib.core.dry_run import refused_by
from featurelib.core.reply import NO_ERROR, Reply, read_refusal
from featurelib.core.rules import below_local_min, unsupported_by_node
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role, Severity, Verdict
from featurelib.findings import Action, Issue, code_of, first_fit, row_of, tagged, way_of, ways
from featurelib.model import Reason, Step
from featurelib.planning.goal import software_of
from featurelib.words import level_text

Moves = dict[str, int]
EVIDENCE = "evidence"  # the judge of missing data
PROBE = "probe"  # the controller itself as judge, by a probe


class Reasons:
    """The reasons why levels of one cluster are not in the plan."""

    def __init__(self, view: ClusterView, catalogue: Catalogue) -> None:
        self._view_of, self._catalogue = view, catalogue
        self._wordings = wordings(load(STRICT))
        self._words = FindingWords(catalogue)
        self._rows: list[dict[str, Any]] = view.judged.findings.to_pylist()
        self._gone = {
            (r["role"], r["node_id"]): r for r in self._rows if r["code"] in tagged("stale")
        }

    def of_findings(self, feature: str, *, unknown: bool) -> Iterator[Reason]:
        """Yield the findings that block a feature. `unknown`: include missing data."""
        for row in self._rows:
            severity = self._wordings[row["code"]].severity
            of_it = row["feature"] == feature and severity in (Severity.BLOCKER, Severity.UNKNOWN)
            if of_it or (unknown and row["feature"] is None and self._is_missing(row["code"])):
                yield self._of_finding(row)

    def of_missing_evidence(self, features: Sequence[str]) -> Iterator[Reason]:
        """Yield the missing data that could change the result, about the cluster, these features
        and their dependencies in both directions (KIP-1022)."""
        related = {METADATA_VERSION, *features} if features else set[str]()
        for d in self._catalogue.dependencies:
            related |= {d.feature, d.other} if {d.feature, d.other} & {*features} else set()
        unsure = self.levels_unknown() & related
        seen_texts = set[str]()
        for row in self._rows:
            code, feature = row["code"], row["feature"]
            is_ours = feature in features or (feature in related and code in tagged("disputed"))
            if (feature is None or is_ours) and self._is_missing(code):
                seen_texts.add(feature or "")
                yield self._of_finding(row)
            elif code in tagged("epoch_fell") and unsure:
                seen_texts |= unsure
                yield self._of_finding(row)
        for feature in sorted(unsure - seen_texts) if "" not in seen_texts else ():
            unknown = code_of("level_unseen")
            text = f"No trusted source shows the finalized level of {feature}."
            yield Reason(judge=EVIDENCE, code=unknown, feature=feature, message=text)

    def of_unknown(self, moves: Mapping[str, int]) -> Iterator[Reason]:
        """Yield the reasons why these levels have no verdict: missing data, or dependencies that
        the catalogue lacks."""
        yield from self.of_missing_evidence(sorted(moves))
        levels = self._view_of.cluster.levels
        upgrades = {(name, level) for name, level in moves.items() if level > levels.get(name, 0)}
        yield from self._of_other_levels({m for m in moves.items() if m[1] != levels.get(m[0], 0)})
        needed = {d.other for d in self._catalogue.dependencies if (d.feature, d.level) in upgrades}
        rows = self._view_of.judged.readiness.to_pylist()
        unsure = {row["feature"] for row in rows if row["verdict"] == Verdict.UNKNOWN}
        for needed_feature in sorted((needed & unsure) - moves.keys()):
            lines = self.of_findings(needed_feature, unknown=False)
            yield from (reason for reason in lines if reason.code in tagged("newer"))

    def _of_other_levels(self, moves: set[tuple[str, int]]) -> Iterator[Reason]:
        """Yield what stays unknown about levels that no probe accepted: registrations and ranges
        that only a probe proves, and if the quorum's leader knows a silent voter's kraft.version.
        """
        view, evidence = self._view_of, self._view_of.evidence
        is_probed = any(row["code"] in tagged("accepted") for row in self._rows)
        unproven_moves, nodes = moves - agreed_levels(evidence), evidence.subjects
        needs_probe = bool(is_probed and unproven_moves)
        if needs_probe and not evidence.membership.registrations_proven.all():
            unproven = Reason(judge=EVIDENCE, code=code_of("fenced_unseen"), message="")
            yield self._with_texts(EVIDENCE, unproven, 0, detail="")
        silent = nodes.voter & ~nodes.runs & ~nodes.follows
        silent &= any(n == KRAFT_VERSION and to > view.cluster.level(n) for n, to in unproven_moves)
        for i, (role, node_id) in enumerate(zip(nodes.role, nodes.node_id, strict=True)):
            if not silent[i] and not (needs_probe and i in view.judged.probed):
                continue
            code = code_of("not_answering" if silent[i] else "range_unseen")
            detail = "the leader may not know its range of kraft.version" if silent[i] else ""
            node = Node(node_id=int(node_id), role=Role(role))
            unseen = Reason(judge=EVIDENCE, code=code, message="")
            yield self._with_texts(EVIDENCE, unseen, 0, detail=detail, node=node)

    def of_probe(self, levels: Mapping[str, int]) -> Iterator[Reason]:
        """Yield the controller's refusals in a probe of exactly `levels`."""
        for row in self._rows:
            if row["code"] in tagged("refused") and levels.get(row["feature"]) == row["level"]:
                yield replace(self._of_finding(row), judge=PROBE)

    def of_codes(self, codes: Container[str], feature: str | None = None) -> Iterator[Reason]:
        """Yield the findings with one of `codes` about `feature`; None = about the cluster."""
        for row in self._rows:
            if row["code"] in codes and row["feature"] == feature:
                yield self._of_finding(row)

    def to_fix_first(self) -> Iterator[Reason]:
        """Yield the findings to fix before a restart: critical ones, and a missing majority."""
        for row in self._rows:
            if row["severity"] == Severity.CRITICAL or row["code"] in tagged("no_majority"):
                yield self._of_finding(row)

    def of_refusals(self, refusals: Sequence[Reason]) -> Iterator[Reason]:
        """Yield the refusals with texts: of a policy one per blocking node, with the remedy; of a
        controller with Kafka's message."""
        for refusal in refusals:
            if refusal.judge == STRICT and refusal.code in tagged("names_nodes"):
                for node in sorted(self._offending(refusal), key=lambda n: n.half):
                    yield self._with_remedy(self._of_policy(refusal, node), node)
            elif refusal.judge == STRICT and refusal.code in self._wordings:
                yield self._of_policy(refusal)
            else:
                yield refusal

    def of_release(self) -> Iterator[Reason]:
        """Yield the reason that the release of the controllers is unknown."""
        unknown = Reason(judge=STRICT, code=code_of("no_release"), level=0, message="")
        return self.of_refusals([unknown])

    def _offending(self, refusal: Reason) -> Sequence[Node]:
        cluster = self._view_of.cluster
        if refusal.code in tagged("voter"):
            return unregistered(cluster, Asks.QUORUM)
        if refusal.code in tagged("configured"):
            return unregistered(cluster, Asks.CONFIGURED_ONLY)
        return refusing(cluster.nodes, refusal.feature, refusal.level or 0)

    def _with_remedy(self, reason: Reason, node: Node) -> Reason:
        """Return the reason with the remedy for `node`."""
        cluster, moves = self._view_of.cluster, {reason.feature: reason.level or 0}
        release = first_release(cluster, self._catalogue, moves)
        action = action_for(cluster, node, moves, frozenset({reason.code}))
        step = way_of(action).of(node.node_id, release, self._view_of.site.address)
        text = f"{step.text[:1].upper()}{step.text[1:]}."
        return replace(reason, action=text, command=step.command)

    def _of_policy(self, refusal: Reason, node: Node | None = None) -> Reason:
        """Return a refusal by the policy with the texts of its finding."""
        current = self._view_of.cluster.level(refusal.feature)
        detail = ", ".join(self._detail(refusal))
        reason = self._with_texts(STRICT, refusal, current, detail=detail, node=node)
        if refusal.code in tagged("lossy"):
            return replace(reason, action=self._lossless(reason.feature, current) or reason.action)
        return self._of_dependency(reason) if refusal.code in tagged("consequence") else reason

    def _lossless(self, feature: str, current: int) -> str:
        """Return advice about the lowest level without loss, for a downgrade that would lose
        metadata; "" if no level loses metadata."""
        software = software_of(self._view_of.cluster, self._catalogue) or self._catalogue
        levels_below = [level for level in software.loses_metadata_below if level <= current]
        lowest = self._text(feature, max(levels_below, default=0))
        if current in levels_below:
            return f"Every lower level loses metadata. Stay at {lowest}."
        command = f"{lowest} is the lowest level that loses nothing: ask for it or a higher one."
        return command if levels_below else ""

    def _of_dependency(self, reason: Reason) -> Reason:
        move, cluster = (reason.feature, reason.level), self._view_of.cluster
        needed = [d for d in self._catalogue.dependencies if (d.feature, d.level) == move]
        dependent = ", ".join(f"{d.other} {self._text(d.other, d.least)}" for d in needed)
        levels = [(d.other, cluster.level(d.other)) for d in needed]
        texts = ", ".join(f"{feature} {self._text(feature, level)}" for feature, level in levels)
        level = self._text(reason.feature, reason.level or 0)
        message = f"{reason.feature} {level} depends on {dependent}; finalized is {texts}."
        return replace(reason, message=message, action=f"Ask for {dependent} as well, or first.")

    def _text(self, feature: str, level: int) -> str:
        """Return a level with its name, such as `25 (4.0-IV3)`."""
        return level_text(self._catalogue, feature, level)

    def _detail(self, refusal: Reason) -> Iterator[str]:
        """Yield the first fact of a policy's refusal, as in the audit's finding."""
        cluster = self._view_of.cluster
        if refusal.code in tagged("configured"):
            yield str(cluster.active)
        tables, newest = self._catalogue.tables, self._catalogue.dependencies
        current = [(d.feature, d.level, d.other, d.least) for d in newest]
        names = tables.features  # an earlier release may have a dependency that the newest lacks
        earlier = {(names[a], b, names[c], d) for _, a, b, c, d in tables.dependencies.tolist()}
        for rows in (current, sorted(earlier)):
            broken = [
                f"{feature} {level}"
                for feature, level, other, least in rows
                if (other, cluster.level(feature)) == (refusal.feature, level)
                and least > (refusal.level or 0)
            ]
            if broken:
                yield from broken
                return

    def of_reply(self, step: Step, reply: Reply) -> Iterator[Reason]:
        """Yield the controller's refusal of each update in a probe, with Kafka's message."""
        for move in step.updates:
            code, message = reply.of(move.feature)
            if code != NO_ERROR:
                refusal = Reason(
                    judge=PROBE,
                    code=code_of("refused"),
                    feature=move.feature,
                    level=move.to_level,
                    message="",
                )
                detail = f"error {code}: {message}" if message else f"error {code}"
                yield self._with_texts(PROBE, refusal, move.from_level, detail=detail)
                named = read_refusal(message, move.feature)
                for node in self._view_of.cluster.nodes if named else ():
                    if named and (node.role, node.node_id) == (named.role, named.node_id):
                        ranges = {move.feature: named.range} if named.range else {}
                        lacking, further = (
                            replace(node, supported=ranges),
                            replace(refusal, code=code_of("unsupported")),
                        )
                        yield self._with_remedy(self._of_policy(further, lacking), lacking)

    def _with_texts(
        self, judge: str, refusal: Reason, current: int, *, detail: str, node: Node | None = None
    ) -> Reason:
        """Return a refusal as a reason, with the texts of its finding."""
        low, high = (node.supported.get(refusal.feature) if node else None) or (None, None)
        row = row_of(refusal.code)
        columns = {
            "code": refusal.code,
            "role": node.role.text if node else None,
            "node_id": node.node_id if node else None,
            "feature": refusal.feature or None,
            "finalized_level": current,
            "level": refusal.level,
            "min_version": low,
            "max_version": high,
            "observed_at": None,
            "facts": {row.first_fact: detail} if row and row.first_fact else {},
        }
        return self._of_row(columns, judge)

    def _of_row(self, row: FindingColumns, judge: str) -> Reason:
        """Return a row of featurelib.schema.FINDING, or its columns, as a reason."""
        alone = row["code"] in tagged("range_unseen")  # whether the node is stale does not matter
        ghost: Any = None if alone else self._gone.get((row["role"], row["node_id"]))
        words = self._words.of(row, self._view_of.site, ghost)
        low, high = row["min_version"], row["max_version"]
        return Reason(
            judge=judge,
            code=row["code"],
            feature=row["feature"] or "",
            level=row["level"],
            node="" if row["node_id"] is None else f"{row['role'] or 'node'} {row['node_id']}",
            supported=None if low is None or high is None else (low, high),
            message=words.message,
            consequence=words.consequence,
            action=words.action,
            command=words.command,
            source=words.source,
        )

    def _of_finding(self, row: dict[str, Any]) -> Reason:
        """Return a finding as a reason. A finding about a known node gets the node's remedy."""
        reason = self._of_row(row, EVIDENCE if self._is_missing(row["code"]) else STRICT)
        cluster, node_key = self._view_of.cluster, (row["role"], row["node_id"])
        nodes = (*cluster.nodes, *unregistered(cluster, Asks.CONFIGURED_ONLY))
        nodes_hit = [node for node in nodes if (node.role.text, node.node_id) == node_key]
        is_known = nodes_hit and row["code"] in tagged("names_nodes")
        return self._with_remedy(reason, nodes_hit[0]) if is_known else reason

    def _is_missing(self, code: str) -> bool:
        unknown = self._wordings[code].severity is Severity.UNKNOWN
        return code in tagged("no_leader", "znode_unread") or (
            unknown and code not in tagged("elsewhere")
        )

    def levels_unknown(self) -> set[str]:
        """Return the features without a finalized level from a trusted source."""
        readiness = self._view_of.judged.readiness
        levels = readiness["finalized_level"].to_pylist()
        names: list[str] = readiness["feature"].to_pylist()
        return {name for name, level in zip(names, levels, strict=True) if level is None}


# --- What unlocks a level -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """A node to fix, and the action that fixes it."""

    role: Role
    node_id: int
    action: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlock:
    """The changes that allow a level: nodes to fix, dependencies, rules that still refuse."""

    feature: str
    level: int
    release: str  # the oldest release whose production software supports the levels; "" = unknown
    fixes: tuple[Fix, ...]  # the nodes to fix; () = only `remaining_rules` block the level
    needs: tuple[tuple[str, int], ...]  # dependencies that must be upgraded, and their levels
    remaining_rules: tuple[str, ...]  # the rules that still reject the level after the fixes


def ladder(cluster: Cluster, feature: str, catalogue: Catalogue) -> tuple[int, ...]:
    """Return the levels of `feature` above the finalized one that some node supports, lowest first.

    For a feature that no release knows, return only the ends of the nodes' ranges.
    """
    ranges = [node.supported[feature] for node in cluster.nodes if feature in node.supported]
    if feature == METADATA_VERSION:
        levels = set(catalogue.names)
    elif feature in catalogue.features:
        levels = {level.level for level in catalogue.levels if level.feature == feature}
    else:
        levels = {end for ends in ranges for end in ends}
    top = max((high for _, high in ranges), default=0)
    return tuple(sorted(level for level in levels if cluster.level(feature) < level <= top))


def refusing(nodes: Sequence[Node], feature: str, level: int) -> tuple[Node, ...]:
    """Return the nodes whose range does not contain `level` (QuorumFeatures.reasonNotSupported)."""
    ends = np.array([node.range_of(feature) for node in nodes], dtype=np.int32).reshape(-1, 2)
    mask = unsupported_by_node(np.int32(level), ends[:, 0], ends[:, 1], np.False_)
    return tuple(nodes[index] for index in np.flatnonzero(mask).tolist())


def unlock(cluster: Cluster, catalogue: Catalogue, feature: str, level: int) -> Unlock:
    """Return the smallest changes that make a higher level possible. No node needs to support the
    level yet."""
    choices = list(_choices(cluster, catalogue, {feature: level}))
    questions = {move for moves in choices for move in moves.items()}
    offending_nodes = {move: refusing(cluster.nodes, *move) for move in questions}

    def in_the_way(moves: Moves) -> dict[Half, Node]:
        return {node.half: node for move in moves.items() for node in offending_nodes[move]}

    # The choice with the fewest nodes to fix; of equal choices, the one with the fewest, lowest
    # levels.
    moves = min(choices, key=lambda m: (len(in_the_way(m)), sum(m.values()), sorted(m.items())))
    codes = _refused(cluster, moves, catalogue)
    needed = in_the_way(moves)
    if codes & tagged("voter"):
        needed |= {node.half: node for node in unregistered(cluster, Asks.QUORUM)}
    nodes = [node for _, node in sorted(needed.items())]
    if codes & tagged("configured"):
        nodes += unregistered(cluster, Asks.CONFIGURED_ONLY)
    fixes = tuple(
        Fix(role=name.role, node_id=name.node_id, action=action_for(cluster, name, moves, codes))
        for name in nodes
    )
    release = first_release(cluster, catalogue, moves)
    refusals = _refused(_repaired(cluster, fixes, moves, release), moves, catalogue)
    return Unlock(
        feature=feature,
        level=level,
        release=release,
        fixes=fixes,
        needs=tuple(sorted(moves.items() - {(feature, level)})),
        remaining_rules=tuple(sorted(refusals)),
    )


def _choices(cluster: Cluster, catalogue: Catalogue, moves: Moves) -> Iterator[Moves]:
    """Yield `moves` combined with each possible set of dependency levels, by the controller's
    release or the first release with the level."""
    newest = software_of(cluster, catalogue)
    order = [*([newest] if newest else []), *catalogue.releases]
    for move in moves.items():
        first_release = next((software for software in order if software.knows(*move)), None)
        for needed in first_release.needs(*move) if first_release else ():
            if moves.get(needed.other, cluster.level(needed.other)) < needed.least:
                level_choices = ladder(cluster, needed.other, catalogue)
                for choice in (needed.least, *(n for n in level_choices if n > needed.least)):
                    yield from _choices(cluster, catalogue, {**moves, needed.other: choice})
                return
    yield moves


def _remedy_problem(cluster: Cluster, node: Node, codes: frozenset[str]) -> Issue | None:
    """Return the circumstance that makes the usual action for a node fail; None without one."""
    if node.gone and node.node_id in {other.node_id for other in cluster.nodes if other.running}:
        return Issue.HALF
    issue, tag = (Issue.VOTER, "voter") if node.voter else (Issue.CONFIGURED, "configured")
    return None if node.registered or codes.isdisjoint(tagged(tag)) else issue


def action_for(cluster: Cluster, node: Node, moves: Moves, codes: frozenset[str]) -> Action:
    """Return the action for a node that blocks `moves`. `codes`: the rules that refuse."""
    level = cluster.level(METADATA_VERSION)
    brokers = [node for node in cluster.nodes if node.registered and node.role is Role.BROKER]
    is_known = (level or cluster.has_quorum) and brokers != [node]
    levels = np.array(list(moves.values()), dtype=np.int32)
    lowest = np.array([node.range_of(name)[0] for name in moves], dtype=np.int32)
    values = {
        "cause": _remedy_problem(cluster, node, codes),
        "role": node.role.text,
        "stale": not node.running and node.gone,
        "metadata_version": level if is_known else None,
        "running": node.running,
        "migrating": cluster.migrating and node.range_of(METADATA_VERSION) == (level, level),
        "range_above": bool(below_local_min(levels, lowest).any()),
    }
    return first_fit(ways(), values).action


def first_release(cluster: Cluster, catalogue: Catalogue, moves: Moves) -> str:
    """Return the oldest release whose production software supports the levels after `moves`."""
    return next(iter(may_join(cluster.levels | moves, catalogue)), "")


def _repaired(cluster: Cluster, fixes: Sequence[Fix], moves: Moves, release: str) -> Cluster:
    """Return the cluster after all fixes: stale nodes removed, other fixed nodes on `release`."""
    actions = {(fix.role, fix.node_id): fix.action for fix in fixes}
    active = (Role.CONTROLLER if cluster.has_quorum else Role.BROKER), cluster.active
    nodes, version = [], cluster.release
    for node in cluster.nodes:
        action = actions.get(node.half)
        if action is None:
            nodes.append(node)
        elif not action.startswith("unregister"):
            nodes.append(replace(node.widened(moves), registered=True, release=release))
            version = release if node.half == active else version
    reconfigured = {fix.node_id for fix in fixes if fix.action is Action.RECONFIGURE}
    ids = cluster.configured_voters
    remaining = ids if ids is None else tuple(i for i in ids if i not in reconfigured)
    return replace(cluster, nodes=tuple(nodes), release=version, configured_voters=remaining)


def _refused(cluster: Cluster, moves: Moves, catalogue: Catalogue) -> frozenset[str]:
    """Return the codes of the policy's rules that refuse `moves` as one request."""
    updates = tuple(Update(feature=name, level=level) for name, level in sorted(moves.items()))
    case = cluster, Request(updates=updates)
    return refused_by([case], load(STRICT), catalogue.tables)[0]
