"""Why a level of a feature cannot be finalized now: all the proof, and the way out.

What the level depends on moves with it. A known refusal decides; else what is missing decides; else
nothing stands in the way, and `featurelib plan` plans it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from featurelib.catalogue import Catalogue
from featurelib.core.cluster import Request
from featurelib.core.cluster import Update as Asked
from featurelib.core.dialect import STRICT, load
from featurelib.core.findings import wordings
from featurelib.core.intents import Command, Intent, goal_of
from featurelib.core.moves import level_of
from featurelib.core.steps import GOAL
from featurelib.core.tried import Refusal, refusals_by
from featurelib.core.unlock import Unlock, unlock
from featurelib.feature import METADATA_VERSION, Role, Severity, UpgradeType
from featurelib.model import Move
from featurelib.planning.known import Half, known_cluster, lowest_supported
from featurelib.planning.planner import mode_of
from featurelib.planning.reasons import EVIDENCE, Reason, Reasons
from featurelib.questions.probed import agreement, probe_proofs
from featurelib.questions.proofs import Proof, own_proofs, policy_proofs, proof_of
from featurelib.sight import Sight


class Answer(StrEnum):
    """What stands between a cluster and a level."""

    NOTHING = "nothing"
    FINALIZED = "finalized"  # it is finalized at that level
    BLOCKED = "blocked"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyNot:
    """The answer. `current` None = nobody knows; 0 = not finalized.

    `moves` are all levels that would be asked for, what the level depends on among them; `words`
    plan them, after `featurelib plan CLUSTER`.
    """

    cluster_id: str
    feature: str
    level: int
    current: int | None
    answer: Answer
    moves: tuple[tuple[str, int], ...]
    dialects: tuple[str, ...]
    proofs: tuple[Proof, ...]
    unknown: tuple[Proof, ...]
    unlock: Unlock | None  # None: nothing is in the way, or it is about going down
    also_refused_over: tuple[Half, ...] = ()  # nodes that only its controllers refuse over
    words: str = ""
    address: str = ""  # of its brokers, for commands; "" = not known
    agreed: Proof | None = None  # the controller itself did, asked to validate all moves only


def why_not(sight: Sight, feature: str, level: int, catalogue: Catalogue) -> WhyNot:
    """What stands between the cluster and `level` of `feature` (KIP-584, KIP-778, KIP-1022).

    A level below the finalized one is asked for as a downgrade that may lose nothing.
    """
    current, known = _current(sight, feature), level_of(sight.cluster, feature)
    found = WhyNot(
        cluster_id=sight.cluster_id,
        feature=feature,
        level=level,
        current=current,
        answer=Answer.FINALIZED,
        moves=(),
        dialects=sight.dialects,
        proofs=(),
        unknown=(),
        unlock=None,
        address=sight.address,
    )
    if level == current:
        return found
    way, up = None, level > known
    moves = _moves(sight, feature, level, catalogue) if up else {feature: level}
    sure = replace(sight, cluster=known_cluster(sight, moves))
    if up:
        ways = [unlock(sure.cluster, catalogue, *move) for move in sorted(moves.items())]
        fixes = {fix for one in ways for fix in one.fixes}
        way = next(one for one in ways if one.feature == feature)
        order = sorted(fixes, key=lambda fix: (fix.role, fix.node_id, fix.action))
        way = replace(way, fixes=tuple(order))
    seen = _Seen(sight)
    said = list(_said(sure, moves, feature, up, catalogue))
    unsure = {code for code, w in wordings(load(STRICT)).items() if w.severity is Severity.UNKNOWN}
    proofs = tuple(seen.dated(p) for p in said if not (p.judge == STRICT and p.rule in unsure))
    agreed = agreement(sight, moves) if up else None
    unknown = [p for p in said if p.judge == STRICT and p.rule in unsure]
    unknown += [proof_of(reason, _source(reason)) for reason in _missing(sight, moves, catalogue)]
    answer = Answer.BLOCKED if proofs else Answer.UNKNOWN if unknown else Answer.NOTHING
    return replace(
        found,
        answer=answer,
        moves=tuple(sorted(moves.items())),
        proofs=proofs,
        unknown=tuple(seen.dated(p) for p in unknown),
        unlock=way if proofs else None,
        also_refused_over=_only_own(way, proofs) if way is not None else (),
        words=_intent(moves, up).text,
        agreed=agreed,
    )


def _moves(sight: Sight, feature: str, level: int, catalogue: Catalogue) -> dict[str, int]:
    """The level, with the least of all that it depends on: what it declares, and the
    metadata.version that any level needs in a controller's release (KIP-1022)."""
    moves = {feature: level}
    needs = unlock(known_cluster(sight, moves), catalogue, feature, level).needs
    moves = dict(needs) | moves
    levels = {name: level for name, (_, level) in sight.cluster.finalized.items()} | moves
    if mode_of(sight) != "zk":
        named = {catalogue.release_named(release) for release in sight.releases} - {None}
        least = [
            needed.least
            for release in named
            for needed in catalogue.of(release or "").unmet({METADATA_VERSION: 1} | levels)
            if needed.feature in moves and needed.other == METADATA_VERSION
        ]
        if least:
            enough = max(*least, moves.get(METADATA_VERSION, 0))
            moves[METADATA_VERSION] = lowest_supported(sight, enough, catalogue)
    return moves


def _intent(moves: dict[str, int], up: bool) -> Intent:
    levels = {name: str(level) for name, level in moves.items()}
    if up:
        return Intent(command=Command.UPGRADE, up=levels)
    if 0 in moves.values():
        return Intent(command=Command.DISABLE, delete=tuple(moves))
    return Intent(command=Command.DOWNGRADE, down=levels)


def _said(
    sight: Sight, moves: dict[str, int], feature: str, up: bool, catalogue: Catalogue
) -> Iterable[Proof]:
    """Everything that speaks against these levels together: policy, controllers, the asking."""
    kind = UpgradeType.UPGRADE if up else UpgradeType.SAFE_DOWNGRADE
    cluster = sight.cluster
    request = Request(
        updates=tuple(Asked(feature=n, level=v, kind=kind) for n, v in sorted(moves.items()))
    )
    reasons = Reasons(sight, catalogue)
    refusals: list[Refusal] = refusals_by([(cluster, request)], load(STRICT), catalogue.tables)[0]
    yield from policy_proofs(refusals, reasons)
    updates = [
        Move(
            feature=name,
            from_level=level_of(cluster, name),
            to_level=level,
            upgrade_type=kind.name,
        )
        for name, level in moves.items()
    ]
    yield from own_proofs(cluster, sight.releases, mode_of(sight), updates, catalogue)
    if up:
        yield from probe_proofs(sight, reasons, moves)
    goal = goal_of(_intent(moves, up), cluster, catalogue)
    yield from (proof_of(reason, "") for reason in reasons.of_faults(goal.faults))


def _missing(sight: Sight, moves: dict[str, int], catalogue: Catalogue) -> Sequence[Reason]:
    reasons = Reasons(sight, catalogue)
    found = list(reasons.of_unknown(moves))
    if not sight.releases and not found:
        text = "Nothing tells which release the controllers run, so nobody knows what they say."
        found.append(
            Reason(
                judge=EVIDENCE,
                code="release_unknown",
                message=text,
                remedy="Name the release in conf/fleet.toml.",
            )
        )
    return found


def _source(reason: Reason) -> str:
    known = wordings(load(STRICT)).get(reason.code)
    return known.source if known else ""


def _current(sight: Sight, feature: str) -> int | None:
    """The finalized level as the audit knows it; 0 where nobody speaks of the feature."""
    for row in sight.judged.readiness.to_pylist():
        if row["feature"] == feature:
            level: int | None = row["finalized_level"]
            return level
    evidence = sight.judged.evidence
    assert evidence is not None
    return 0 if evidence.levels.trusted[0] and not evidence.levels.too_old[0] else None


def _only_own(way: Unlock, proofs: Sequence[Proof]) -> tuple[Half, ...]:
    """Nodes that only a controller refuses over: each of them is enough."""
    fixed = {(fix.role, fix.node_id) for fix in way.fixes}
    own = {
        (Role[proof.role.upper()], proof.node_id)
        for proof in proofs
        if proof.judge not in (STRICT, GOAL) and proof.role and proof.node_id is not None
    }
    return tuple(sorted(own - fixed))


class _Seen:
    """When and in which line each node's range, and what is finalized, was seen."""

    def __init__(self, sight: Sight) -> None:
        evidence = sight.judged.evidence
        assert evidence is not None
        who, levels = evidence.subjects, evidence.levels
        columns = (who.role, who.node_id, who.at, who.line, who.failed_at, who.failed_line)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        self._nodes = {
            (Role(role).text, node): (at, line) if at else (failed, failed_line)
            for role, node, at, line, failed, failed_line in rows
        }
        self._cluster = int(levels.at[0]), int(levels.line[0])

    def dated(self, proof: Proof) -> Proof:
        if proof.seen_at:
            return proof
        at, line = self._cluster
        if proof.node_id is not None:
            at, line = self._nodes.get((proof.role or "", proof.node_id), (0, 0))
        return replace(proof, seen_at=at, line_id=line)
