"""Read a live cluster once for a plan: judge it, and collect the levels that each node reports.

featurelib.audit.cluster_view judges the cluster. The levels of each node are needed, too, because a
plan is done when all nodes report its levels.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from featurelib.audit.cluster_view import ClusterView, Inputs
from featurelib.audit.findings import wordings
from featurelib.audit.side_effects import side_effects
from featurelib.backends.base import Backend, Say
from featurelib.catalogue import Catalogue
from featurelib.config.fleet import Fleet
from featurelib.controller.decide import Situation
from featurelib.controller.holder import elapsed
from featurelib.core.dialect import STRICT, load
from featurelib.core.dry_run import judge_again
from featurelib.core.outcome import LevelsSeen
from featurelib.errors import ProtocolError
from featurelib.feature import Role, Severity, Witness
from featurelib.findings import tagged
from featurelib.landing import ApiVersionsAnswer, Landing, read
from featurelib.model import Passed, Plan, Step
from featurelib.planning.reasons import Reasons
from featurelib.planning.requirements import features_of, require

Node = tuple[Role, int]
Levels = Mapping[str, int]
_SHOWN = 5  # the maximum number of printed findings


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The data of one query of a cluster. `reports`: the finalized levels that each node and role
    reports, None if it cannot report levels; `epochs`: the epoch of each report."""

    view: ClusterView
    reports: Mapping[Node, Levels | None]
    epochs: Mapping[Node, int]
    at: float = field(default_factory=elapsed)  # the time of the last response, in seconds

    @property
    def is_unproven(self) -> bool:
        """True if the controller may check a node about which no source has data."""
        return not tagged("unproven").isdisjoint(self.view.judged.findings["code"].to_pylist())

    def seen(self, features: Iterable[str]) -> LevelsSeen:
        """Return the levels of the trusted source. An unlisted feature is not finalized. Without a
        trusted source the levels of `features` are unknown."""
        questions = self.view.evidence.questions
        names = [questions.names[code] for code in questions.feature.tolist()]
        known_levels = dict(zip(names, questions.known.tolist(), strict=True))
        levels = dict(zip(names, questions.current.tolist(), strict=True))
        is_known = self.view.is_trusted
        is_unsure = {name for name in {*names, *features} if not known_levels.get(name, is_known)}
        return LevelsSeen(levels=levels, unknown=frozenset(is_unsure))

    def seen_after(self, passed: Passed, features: Collection[str]) -> LevelsSeen | None:
        """Return the levels of a node that has applied all records before `passed`, or of the
        `/feature` znode in ZooKeeper mode; None without such a source."""
        if passed.offset is not None:
            nodes = [node for node, epoch in self.epochs.items() if epoch >= passed.offset]
            levels = next((report for node in nodes if (report := self.reports[node])), None)
            return None if levels is None else LevelsSeen(levels=levels)
        evidence = self.view.evidence
        witness = Witness(int(evidence.levels.kind[0]))
        in_zookeeper_mode = all(name.startswith("zk") for name in self.view.dialects)
        if in_zookeeper_mode and witness is not Witness.FEATURES_NODE:
            return None
        return self.seen(features)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """The connection to one cluster, and the settings for judging the cluster."""

    backend: Backend
    catalogue: Catalogue
    fleet: Fleet
    max_age: int  # the maximum age of data, in microseconds
    say: Say

    def read(self, cluster: str | None = None, *, say: Say | None = None) -> Reading:
        """Query every node; return the judged data. Raises UnreachableError, NoEvidenceError;
        ProtocolError if another cluster than `cluster` responds."""
        texts = list[str]()
        try:
            lines = self.backend.describe(texts.append)
        finally:
            at = elapsed()  # the time must be taken before any output, which may block
            for text in texts:
                (say or self.say)(text)
        view = self._terms().see_lines(lines)
        if cluster is not None and view.cluster_id != cluster:
            raise ProtocolError(
                f"{self.backend.where}: expected the cluster {cluster}, found "
                f"{view.cluster_id}. Fix the addresses."
            )
        contents = [line.content for line in map(read, lines) if isinstance(line, Landing)]
        answers = {
            (answer.role, answer.node_id): answer
            for answer in contents
            if isinstance(answer, ApiVersionsAnswer) and answer.error is None
        }
        reports = {
            node: {name: level for name, _, level in c.finalized} if c.epoch >= 0 else None
            for node, c in answers.items()
        }
        epochs = {node: answer.epoch for node, answer in answers.items()}
        return Reading(view=view, reports=reports, epochs=epochs, at=at)

    def _terms(self) -> Inputs:
        now = time.time_ns() // 1000
        return Inputs(catalogue=self.catalogue, as_of=now, max_age=self.max_age, fleet=self.fleet)

    def as_if_seen(self, reading: Reading) -> Reading:
        """Return the data judged as if all nodes that the controller requires had responded."""
        inputs = replace(self._terms(), controller_decides=True)
        return replace(reading, view=inputs.see(reading.view.rows))

    def found(self, reading: Reading, plan: Plan, steps: Sequence[Step]) -> Situation:
        """Return the present state that `plan` depends on. `steps`: the remaining steps."""
        evidence, view = reading.view.evidence, reading.view
        features, mode = features_of(plan.steps), self.backend.abilities().mode
        refusals = judge_again(view.cluster, view.releases, mode, steps, self.catalogue)
        return Situation(
            cluster=view.cluster_id,
            requirements=require(evidence, 0, features, self.catalogue),
            dialects=view.dialects,
            catalogue=self.catalogue.label,
            unknown=reading.seen(features).unknown,
            missing=self._missing(view, features),
            against=tuple(
                f"{refusal.judge}: {refusal.feature} {refusal.level}: {refusal.message}"
                for refusal in refusals
            ),
            side_effects=side_effects(self.catalogue, steps, evidence),
        )

    def _missing(self, view: ClusterView, features: Sequence[str]) -> tuple[str, ...]:
        """Return a sentence per missing evidence that prevents sending the plan."""
        usual = wordings(load(STRICT))
        codes: list[str] = view.judged.findings["code"].to_pylist()
        if all(usual[code].severity is not Severity.UNKNOWN for code in codes):
            return ()
        reasons = Reasons(view, self.catalogue).of_missing_evidence(features)
        texts = list(dict.fromkeys(reason.message for reason in reasons))
        omitted = [f"{len(texts) - _SHOWN} more; see featurelib describe"] if texts[_SHOWN:] else []
        return (*texts[:_SHOWN], *omitted)


def late_nodes(before: Reading, after: Reading, expected: Levels) -> tuple[list[str], int]:
    """Return (nodes that do not yet report the expected levels, number of nodes that responded
    before). Nodes without response before are not counted."""
    late, node_ids = dict[int, dict[str, list[str]]](), set[int]()
    for node, report in sorted(before.reports.items(), key=lambda item: item[0]):
        answers, levels = node in after.reports, after.reports.get(node)
        if report is None and answers and levels is None:
            continue
        node_ids.add(node[1])
        reason = ""
        if not answers:
            reason = "it no longer responds"
        elif levels is None:
            reason = "it reports no finalized level"
        elif differing := [
            name for name, level in expected.items() if levels.get(name, 0) != level
        ]:
            reason = ", ".join(f"{name} {levels.get(name, 0)}" for name in differing)
        if reason:
            late.setdefault(node[1], {}).setdefault(reason, []).append(node[0].text)
    return [
        "; ".join(
            f"{' and '.join(roles)} {node_id} ({reason})" for reason, roles in by_reason.items()
        )
        for node_id, by_reason in late.items()
    ], len(node_ids)
