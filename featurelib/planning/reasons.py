"""Why something is not planned, one reason a line: who says so, of which feature, level and node.

The words are the findings' and the rules' own, with every node that offends; a controller's refusal
keeps Kafka's words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow.compute as pc

from featurelib.audit.cluster_view import Sight
from featurelib.audit.findings import remedies, wordings
from featurelib.audit.target import PROBE_REFUSED
from featurelib.audit.wording import FindingColumns, FindingWords
from featurelib.catalogue import Catalogue
from featurelib.core.cluster import Node, unregistered
from featurelib.core.dialect import STRICT, Asks, load
from featurelib.core.reply import NO_ERROR, Reply
from featurelib.feature import METADATA_VERSION, Severity, Verdict
from featurelib.model import Reason, Step
from featurelib.planning.goal import software_of
from featurelib.planning.unlock import action_for, first_release, refusing
from featurelib.words import level_text

# The findings that a controller's yes stands for, asked to validate just what is planned.
UNPROVEN = frozenset({"registrations_unproven", "configured_voters_unknown"})
EVIDENCE = "evidence"  # who refuses what nobody knows enough about
PROBE = "probe"  # the controller itself, asked to validate only
_OF_NODES, _OF_VOTERS = "unsupported_by_node", "voter_not_registered"
_OF_CONFIGURED = "configured_voter_not_registered"
_NAMING = frozenset({_OF_NODES, _OF_VOTERS, _OF_CONFIGURED})  # what is said of each node
_BEYOND = "level_newer_than_catalogue"
# What no level could be asked for at all; others tell of levels that were not asked for.
_DAMAGED = frozenset({"features_node_damaged"})
_NOT_MISSING = frozenset({_BEYOND, "epoch_went_back"})
_ABOUT_LEVELS = frozenset({"witnesses_disagree", "level_unknown"})


class Reasons:
    """Makes reasons about one cluster."""

    def __init__(self, sight: Sight, catalogue: Catalogue) -> None:
        self._sight, self._catalogue = sight, catalogue
        self._wordings = wordings(load(STRICT))
        self._words = FindingWords(catalogue)
        self._rows: list[dict[str, Any]] = sight.judged.findings.to_pylist()

    def of_findings(self, feature: str, *, unknown: bool) -> Iterator[Reason]:
        """What the audit found in a feature's way; with `unknown`, what is missing besides."""
        for row in self._rows:
            severity = self._wordings[row["code"]].severity
            mine = row["feature"] == feature and severity in (Severity.BLOCKER, Severity.UNKNOWN)
            if mine or (unknown and row["feature"] is None and self._is_missing(row["code"])):
                yield self._of_finding(row)

    def of_missing_evidence(self, features: Sequence[str]) -> Iterator[Reason]:
        """What is not known and could change the answer: of the cluster, of these features, and of
        the levels of those they depend on or that depend on them (KIP-1022, both ends)."""
        near = {METADATA_VERSION, *features} if features else set[str]()
        for one in self._catalogue.dependencies:
            near |= {one.feature, one.other} if {one.feature, one.other} & {*features} else set()
        unsure = self.levels_unknown() & near
        told = set[str]()
        for row in self._rows:
            code, feature = row["code"], row["feature"]
            is_ours = feature in features or (feature in near and code in _ABOUT_LEVELS)
            if (feature is None or is_ours) and self._is_missing(code):
                told.add(feature or "")
                yield self._of_finding(row)
            elif code == "epoch_went_back" and unsure:
                told |= unsure
                yield self._of_finding(row)
        for feature in sorted(unsure - told) if "" not in told else ():
            text = f"Nobody who can be trusted says at which level {feature} is finalized."
            yield Reason(judge=EVIDENCE, code="level_unknown", feature=feature, message=text)

    def of_unknown(self, moves: Mapping[str, int]) -> Iterator[Reason]:
        """What keeps these levels from a verdict: missing evidence, and levels of what they depend
        on, going up, that the catalogue does not know."""
        yield from self.of_missing_evidence(sorted(moves))
        levels = self._sight.cluster.levels
        up = {(name, level) for name, level in moves.items() if level > levels.get(name, 0)}
        needed = {d.other for d in self._catalogue.dependencies if (d.feature, d.level) in up}
        rows = self._sight.judged.readiness.to_pylist()
        unsure = {row["feature"] for row in rows if row["verdict"] == Verdict.UNKNOWN}
        for other in sorted((needed & unsure) - moves.keys()):
            found = self.of_findings(other, unknown=False)
            yield from (reason for reason in found if reason.code == _BEYOND)

    def of_probe(self, levels: Mapping[str, int]) -> Iterator[Reason]:
        """What the controller itself refused, asked to validate just these levels only."""
        for row in self._rows:
            if row["code"] == PROBE_REFUSED and levels.get(row["feature"]) == row["level"]:
                yield replace(self._of_finding(row), judge=PROBE)

    def of_refusals(self, refusals: Sequence[Reason]) -> Iterator[Reason]:
        """The policy's reasons with every node that offends, and what to do about it in this
        cluster; a controller's in Kafka's words."""
        for refusal in refusals:
            if refusal.judge == STRICT and refusal.code in _NAMING:
                for node in sorted(self._offending(refusal), key=lambda one: one.half):
                    yield self._with_way(self._of_policy(refusal, node), node)
            elif refusal.judge == STRICT and refusal.code in self._wordings:
                yield self._of_policy(refusal)
            else:
                yield refusal

    def _offending(self, refusal: Reason) -> Sequence[Node]:
        cluster = self._sight.cluster
        if refusal.code == _OF_VOTERS:
            return unregistered(cluster, Asks.QUORUM)
        if refusal.code == _OF_CONFIGURED:
            return unregistered(cluster, Asks.CONFIGURED_ONLY)
        return refusing(cluster.nodes, refusal.feature, refusal.level or 0)

    def _with_way(self, reason: Reason, node: Node) -> Reason:
        """The same reason with what to do about this node, in this cluster."""
        cluster, moves = self._sight.cluster, {reason.feature: reason.level or 0}
        release = first_release(cluster, self._catalogue, moves)
        action = action_for(cluster, node, moves, (reason.code,))
        way = remedies()[action].of(node.node_id, release, self._sight.address)
        remedy = f"{way.text[:1].upper()}{way.text[1:]}."
        return replace(reason, remedy=remedy, command=way.command)

    def _of_policy(self, refusal: Reason, node: Node | None = None) -> Reason:
        """A refusal of the policy in a finding's words. The audit has tried what a level depends
        on; here nobody may have asked for it."""
        current = self._sight.cluster.level(refusal.feature)
        detail = ", ".join(self._detail(refusal))
        reason = self._worded(STRICT, refusal, current, detail=detail, node=node)
        if refusal.code == "lossy_safe_downgrade":
            return replace(reason, remedy=self._lossless(reason.feature, current) or reason.remedy)
        return self._of_dependency(reason) if refusal.code == "dependency_unmet" else reason

    def _lossless(self, feature: str, current: int) -> str:
        """How far down nothing is lost, by the catalogue of the controller's release."""
        known = software_of(self._sight.cluster, self._catalogue) or self._catalogue
        below = [level for level in known.loses_metadata_below if level <= current]
        there = self._text(feature, max(below, default=0))
        if current in below:
            return f"No level below {there} loses nothing. Stay there."
        ask = f"{there} is the lowest level that loses nothing: ask for it or a higher one."
        return ask if below else ""

    def _of_dependency(self, reason: Reason) -> Reason:
        asked, cluster = (reason.feature, reason.level), self._sight.cluster
        needed = [d for d in self._catalogue.dependencies if (d.feature, d.level) == asked]
        wants = ", ".join(f"{d.other} {self._text(d.other, d.least)}" for d in needed)
        levels = [(d.other, cluster.level(d.other)) for d in needed]
        there = ", ".join(f"{other} {self._text(other, level)}" for other, level in levels)
        level = self._text(reason.feature, reason.level or 0)
        message = f"{reason.feature} {level} depends on {wants}; finalized is {there}."
        return replace(reason, message=message, remedy=f"Ask for {wants} as well, or first.")

    def _text(self, feature: str, level: int) -> str:
        """A level with its name, as `25 (4.0-IV3)`."""
        return level_text(self._catalogue, feature, level)

    def _detail(self, refusal: Reason) -> Iterator[str]:
        """What a rule of the policy has to add, as the audit adds it."""
        cluster = self._sight.cluster
        if refusal.code == _OF_CONFIGURED:
            yield str(cluster.active)
        for known in self._catalogue.dependencies:
            needs = known.other == refusal.feature and known.least > (refusal.level or 0)
            if needs and cluster.level(known.feature) == known.level:
                yield f"{known.feature} {known.level}"

    def of_reply(self, step: Step, reply: Reply) -> Iterator[Reason]:
        """What the controller said against each update when it was asked to validate, in its own
        words."""
        for move in step.updates:
            code, message = reply.of(move.feature)
            if code != NO_ERROR:
                refusal = Reason(
                    judge=PROBE,
                    code=PROBE_REFUSED,
                    feature=move.feature,
                    level=move.to_level,
                    message="",
                )
                detail = f"error {code}: {message}" if message else f"error {code}"
                yield self._worded(PROBE, refusal, move.from_level, detail=detail)

    def _worded(
        self, judge: str, refusal: Reason, current: int, *, detail: str, node: Node | None = None
    ) -> Reason:
        """A refusal in the words of the finding of its code."""
        low, high = (node.supported.get(refusal.feature) if node else None) or (None, None)
        columns = FindingColumns(
            code=refusal.code,
            role=node.role.text if node else None,
            node_id=node.node_id if node else None,
            feature=refusal.feature or None,
            finalized_level=current,
            level=refusal.level,
            min_version=low,
            max_version=high,
            observed_at=None,
            detail=detail,
        )
        return self._of_row(columns, judge)

    def _of_row(self, row: FindingColumns, judge: str) -> Reason:
        """A row of featurelib.schema.FINDING, or one like it, in words."""
        said = self._words.of(row, self._sight.address)
        low, high = row["min_version"], row["max_version"]
        return Reason(
            judge=judge,
            code=row["code"],
            feature=row["feature"] or "",
            level=row["level"],
            node="" if row["node_id"] is None else f"{row['role'] or 'node'} {row['node_id']}",
            supported=None if low is None or high is None else (low, high),
            message=said.message,
            remedy=said.remedy,
            command=said.command,
        )

    def _of_finding(self, row: dict[str, Any]) -> Reason:
        """A finding; one about a node that the look shows says what to do about it."""
        columns: FindingColumns = row  # type: ignore[assignment]  # it has more than words use
        reason = self._of_row(columns, EVIDENCE if self._is_missing(row["code"]) else STRICT)
        cluster, half = self._sight.cluster, (row["role"], row["node_id"])
        nodes = (*cluster.nodes, *unregistered(cluster, Asks.CONFIGURED_ONLY))
        found = [node for node in nodes if (node.role.text, node.node_id) == half]
        is_known = found and row["code"] in _NAMING
        return self._with_way(reason, found[0]) if is_known else reason

    def _is_missing(self, code: str) -> bool:
        unknown = self._wordings[code].severity is Severity.UNKNOWN
        return code in _DAMAGED or (unknown and code not in _NOT_MISSING)

    def levels_unknown(self) -> set[str]:
        """The features of which nobody who can be trusted says at which level they are."""
        readiness = self._sight.judged.readiness
        return set(
            readiness.filter(pc.is_null(readiness["finalized_level"]))["feature"].to_pylist()
        )
