"""Why a level of a feature cannot be finalized now: all the proof, and the way out.

What the level depends on moves with it. A known refusal decides; else what is missing decides; else
nothing stands in the way, and `featurelib plan` plans it.

Proofs come from the policy and from each controller that may answer. A controller names the first
node only. Who else would make it refuse is found by asking again with everybody else supporting
what is asked, one node at a time: the rules alone answer. What the controller itself said, asked by
a collector to validate only, is among the audit's findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from featurelib.audit.cluster_view import Sight
from featurelib.audit.findings import wordings
from featurelib.audit.probe import PROBE_AGREED, PROBE_REFUSED
from featurelib.audit.verdict import TIMEOUT_MS
from featurelib.catalogue import ANY, Catalogue
from featurelib.core.cluster import Cluster, Range
from featurelib.core.dialect import GENERATIONS, STRICT, Dialect, load
from featurelib.core.dry_run import (
    dialect_of,
    refusals_by,
    request_of,
    try_requests,
    who_may_lead,
)
from featurelib.errors import ConfigError
from featurelib.feature import (
    KRAFT_VERSION,
    METADATA_VERSION,
    SILENT_METADATA_VERSION,
    Role,
    Severity,
    UpgradeType,
)
from featurelib.model import Move, Proof, Reason, Step
from featurelib.planning.goal import (
    GOAL,
    Command,
    Intent,
    goal_of,
    level_of,
    read_level,
    software_of,
)
from featurelib.planning.planner import (
    Half,
    Levels,
    known_cluster,
    lowest_supported,
    mode_of,
    only_narrow,
)
from featurelib.planning.reasons import EVIDENCE, PROBE, Reasons
from featurelib.planning.steps import turn
from featurelib.planning.unlock import Unlock, unlock
from featurelib.words import clean

LEVELS = range(2**15)  # int16 on the wire


class LevelStatus(StrEnum):
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
    answer: LevelStatus
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
        answer=LevelStatus.FINALIZED,
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
    dated = _dates(sight)
    said = list(_said(sure, moves, up, catalogue))
    unsure = {code for code, w in wordings(load(STRICT)).items() if w.severity is Severity.UNKNOWN}
    proofs = tuple(dated(p) for p in said if not (p.judge == STRICT and p.code in unsure))
    agreed = _agreement(sight, moves) if up else None
    unknown = [p for p in said if p.judge == STRICT and p.code in unsure]
    unknown += _missing(sight, moves, catalogue)
    answer = (
        LevelStatus.BLOCKED if proofs else LevelStatus.UNKNOWN if unknown else LevelStatus.NOTHING
    )
    return replace(
        found,
        answer=answer,
        moves=tuple(sorted(moves.items())),
        proofs=proofs,
        unknown=tuple(map(dated, unknown)),
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
            for needed in catalogue.of(release or "").unmet(
                {METADATA_VERSION: SILENT_METADATA_VERSION} | levels
            )
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


def _said(sight: Sight, moves: dict[str, int], up: bool, catalogue: Catalogue) -> Iterator[Proof]:
    """Everything that speaks against these levels together: policy, controllers, the asking."""
    kind = UpgradeType.UPGRADE if up else UpgradeType.SAFE_DOWNGRADE
    cluster, reasons = sight.cluster, Reasons(sight, catalogue)
    updates = tuple(
        Move(
            feature=name,
            from_level=level_of(cluster, name),
            to_level=level,
            upgrade_type=kind.name,
        )
        for name, level in sorted(moves.items())
    )
    request = request_of(Step(updates=updates, timeout_ms=TIMEOUT_MS), load(GENERATIONS[-1]))
    [refusals] = refusals_by([(cluster, request)], load(STRICT), catalogue.tables)
    yield from map(_proof_of, reasons.of_refusals(refusals))
    yield from _own_proofs(cluster, sight.releases, mode_of(sight), updates, catalogue)
    if up:
        seen = {row["feature"]: row for row in _findings(sight, PROBE_REFUSED)}
        for reason in reasons.of_probe(moves):
            yield _dated_by(_proof_of(reason), seen[reason.feature])
    goal = goal_of(_intent(moves, up), cluster, catalogue)
    yield from (_proof_of(reason, "") for reason in goal.faults)


def _proof_of(reason: Reason, source: str | None = None) -> Proof:
    """A reason as a proof, with the source of its rule; when it was seen is not known here."""
    if source is None:
        known = wordings(load(STRICT)).get(reason.code)
        source = known.source if known else ""
    return Proof(**asdict(reason) | {"level": reason.level or 0, "source": source})


def _agreement(sight: Sight, moves: Levels) -> Proof | None:
    """That the controller itself agreed to these levels, if it was asked about all of them."""
    wording = wordings(load(STRICT))[PROBE_AGREED]
    for row in _findings(sight, PROBE_AGREED):
        if {f"{name} {level}" for name, level in moves.items()} <= set(row["detail"].split(", ")):
            message = wording.message.format_map(row)
            agreed = Reason(judge=PROBE, code=PROBE_AGREED, level=0, message=message)
            return _dated_by(_proof_of(agreed), row)
    return None


def _findings(sight: Sight, code: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = sight.judged.findings.to_pylist()
    return [row for row in rows if row["code"] == code]


def _dated_by(proof: Proof, row: dict[str, Any]) -> Proof:
    since: timedelta = row["observed_at"] - datetime.fromtimestamp(0, UTC)
    return replace(proof, seen_at=since // timedelta(microseconds=1), line_id=row["line_id"])


def _missing(sight: Sight, moves: dict[str, int], catalogue: Catalogue) -> Iterator[Proof]:
    found = list(Reasons(sight, catalogue).of_unknown(moves))
    if not sight.releases and not found:
        text = "Nothing tells which release the controllers run, so nobody knows what they say."
        remedy = "Name the release in conf/fleet.toml."
        found.append(Reason(judge=EVIDENCE, code="release_unknown", message=text, remedy=remedy))
    yield from map(_proof_of, found)


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


def _dates(sight: Sight) -> Callable[[Proof], Proof]:
    """What dates proofs: when and in which line each node's range, or what is finalized, was
    seen."""
    evidence = sight.judged.evidence
    assert evidence is not None
    who, levels = evidence.subjects, evidence.levels
    columns = (who.role, who.node_id, who.at, who.line, who.failed_at, who.failed_line)
    nodes = {
        (Role(role).text, node): (at, line) if at else (failed, failed_line)
        for role, node, at, line, failed, failed_line in zip(
            *(column.tolist() for column in columns), strict=True
        )
    }
    cluster = int(levels.at[0]), int(levels.line[0])

    def dated(proof: Proof) -> Proof:
        if proof.seen_at:
            return proof
        key = proof.role or "", proof.node_id
        at, line = cluster if proof.node_id is None else nodes.get(key, (0, 0))
        return replace(proof, seen_at=at, line_id=line)

    return dated


def _own_proofs(
    cluster: Cluster,
    releases: Sequence[str],
    mode: str,
    updates: Sequence[Move],
    catalogue: Catalogue,
) -> Iterator[Proof]:
    """What controllers of each of `releases` would answer, with every node they would refuse
    over."""
    levels = {update.feature: update.to_level for update in updates}
    supported = {(n.role, n.node_id): n.supported for n in cluster.nodes}
    halves = sorted(supported)
    told: set[tuple[object, ...]] = set()
    for release in releases:
        own = dialect_of(release, mode, catalogue)
        steps = _steps(updates, own)
        sources = {row.code: row.rule.source for row in (*own.rules, *own.door)}
        for led, speaks in _led(cluster, release, mode):
            for half, refusal in _asked(led, steps, own, halves, levels, catalogue):
                key = (own.name, refusal.code, refusal.feature, refusal.level, half)
                if key in told:
                    continue
                told.add(key)
                proof = replace(
                    _proof_of(refusal, sources.get(refusal.code, "")),
                    is_answer=refusal.is_answer and speaks,
                    needed=_needed(refusal, own, cluster),
                )
                if half is not None:
                    role, node_id = half
                    known = supported[half].get(refusal.feature)
                    proof = replace(proof, node=f"{role.text} {node_id}", supported=known)
                yield proof


def _led(cluster: Cluster, release: str, mode: str) -> Iterator[tuple[Cluster, bool]]:
    """The cluster as controllers of `release` may lead it, of nodes that are alike one; and whether
    each may be the one that answers now.

    The active one leads, unless it is known to run another release and a controller is there that
    runs this one: that answers only once it leads.
    """
    controllers = [node for node in cluster.nodes if node.role is Role.CONTROLLER]
    leads = next((node for node in controllers if node.node_id == cluster.active), None)
    able = [node.node_id for node in controllers if node.release == release]
    known = leads is not None and leads.release not in ("", release)
    active = able[0] if known and able else cluster.active
    nodes = {node.node_id: node for node in cluster.nodes}
    seen = []
    for led in who_may_lead(replace(cluster, release=release, active=active), mode):
        node = nodes.get(led.active)
        alike = None if node is None else replace(node, node_id=0)
        if alike not in seen:
            seen.append(alike)
            yield led, leads is None or (led.active == cluster.active and not known)


def _needed(refusal: Reason, own: Dialect, cluster: Cluster) -> Range | None:
    """What the nodes must support by a rule that asks for more than the level: from the lowest
    level of the active controller on, where it is known who that is."""
    rules = {row.code: row.rule for row in own.rules}
    if refusal.code not in rules or "lowest" not in rules[refusal.code].columns:
        return None
    leads = [node.supported for node in cluster.nodes if node.node_id == cluster.active]
    own_range = leads[0].get(refusal.feature) if leads and leads[0] is not None else None
    return None if own_range is None else (own_range[0], refusal.level or 0)


def _asked(
    led: Cluster,
    steps: Sequence[Step],
    own: Dialect,
    halves: Sequence[Half],
    levels: Levels,
    catalogue: Catalogue,
) -> Iterator[tuple[Half | None, Reason]]:
    """Who makes the controller refuse, None for what is no node's range, and in which words."""
    every = tuple(halves)
    at_all, as_it_is = _in_turn(
        [only_narrow(led, group, levels) for group in ((), every)], steps, own, catalogue
    )
    whole = {(one.code, one.feature) for one in at_all}
    answers = {one.message for one in as_it_is if one.is_answer}
    at_all = [replace(one, is_answer=one.message in answers) for one in at_all]
    yield from ((None, one) for one in at_all)
    told = set(whole)
    if {(one.code, one.feature) for one in as_it_is} - whole:
        alone = [only_narrow(led, (half,), levels) for half in halves]
        for half, said in zip(halves, _in_turn(alone, steps, own, catalogue), strict=True):
            for one in said:
                if (one.code, one.feature) not in whole:
                    told.add((one.code, one.feature))
                    yield half, replace(one, is_answer=one.message in answers)
    yield from ((None, one) for one in as_it_is if (one.code, one.feature) not in told)


def _in_turn(
    clusters: Sequence[Cluster], steps: Sequence[Step], own: Dialect, catalogue: Catalogue
) -> list[list[Reason]]:
    """Each cluster's refusals of all steps; after a refused one, as if it had been accepted."""
    said: list[list[Reason]] = [[] for _ in clusters]
    there = list(clusters)
    for step in steps:
        cases = [(cluster, request_of(step, own)) for cluster in there]
        for i, tried in enumerate(try_requests(cases, own, catalogue.tables, vendors=True)):
            own_word = [one for one in tried.refusals if one.judge != STRICT]
            said[i] += own_word
            moved = {u.feature: (u.to_level, u.to_level) for u in step.updates if u.to_level}
            forced = replace(there[i], finalized=there[i].finalized | moved)
            there[i] = forced if own_word else tried.after
    return said


def _steps(updates: Sequence[Move], own: Dialect) -> list[Step]:
    """The requests: one for all but kraft.version where they are all or nothing, else one each."""
    order = sorted(updates, key=turn)
    together = [move for move in order if own.can.atomic and move.feature != KRAFT_VERSION]
    groups = [together, *([move] for move in order if move not in together)]
    return [Step(updates=tuple(group), timeout_ms=TIMEOUT_MS) for group in groups if group]


def named_level(sight: Sight, feature: str, text: str, catalogue: Catalogue) -> int:
    """The level that a text means for a feature. Raises ConfigError for a feature or level that
    nobody knows."""
    cluster = sight.cluster
    listed = {name for node in cluster.nodes for name in node.supported}
    known = sorted({*listed, *cluster.finalized, *catalogue.features})
    if feature not in known:
        near = get_close_matches(feature, known, n=3, cutoff=0.4) or known[:8]
        raise ConfigError(
            f"{feature}={text}: expected a feature that a node or the catalogue knows, found none "
            f"of that name; the nearest are {', '.join(map(clean, near))}."
        )
    level = read_level(feature, text, cluster, catalogue)
    if level is None or level not in LEVELS:
        if feature == METADATA_VERSION and (newer := catalogue.of(ANY).level_of(text)) is not None:
            runs = f"the controller runs {cluster.release} and does not know {text}"
            if software_of(cluster, catalogue) is None:
                runs = "which release the controller runs is not known"
            name = catalogue.level_name(feature, newer)
            raise ConfigError(
                f"{feature}={text}: expected a release that the controller knows, found another: "
                f"{runs}. Write {name} or {newer}."
            )
        raise ConfigError(
            f"{feature}={text}: expected a level as a number up to {LEVELS[-1]} or, of "
            "metadata.version, a name or release, as 3.9-IV0 or 4.1; found neither. "
            "`featurelib version-mapping` lists the names."
        )
    return level
