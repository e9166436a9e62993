"""Requests tried on clusters before anything is sent: what refuses each, and what would follow.

A request is put to two judges: the policy of this project, and the dialect of the controller that
would answer. Every refusal of both is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from featurelib.catalogue import Catalogue, Tables
from featurelib.core.batch import Batch
from featurelib.core.cluster import Case, Cluster, Node, Range, Request, Update
from featurelib.core.dialect import GENERATIONS, STRICT, Dialect, RuleRow, generation_of, load
from featurelib.core.judge import Judged, decide, judge
from featurelib.core.reply import Reply, Speaker
from featurelib.core.single import build
from featurelib.errors import ProtocolError
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role, UpgradeType
from featurelib.model import Step

NOTHING_CHANGES, OTHERS_CHANGE = "nothing_changes", "others_change"
FAILS_AFTER_WRITING = "fails_after_writing"
_SAYS = {
    NOTHING_CHANGES: "{title} accepts {feature} {level} in vain.",
    OTHERS_CHANGE: "The controller does not see what is finalized: {feature} would become {level}.",
    FAILS_AFTER_WRITING: "The controller would write {feature} {level} and say that it failed.",
}
_RECORD_ONLY = ("record", "ignored_record")  # 3.9 and 4.0: the raft layer stays where it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One reason against one update: who says it, and in which words. A controller says only the
    first of its reasons: that one `is_answer`, to the others it comes once that is mended."""

    judge: str  # a dialect's name
    code: str
    feature: str
    level: int
    message: str
    is_answer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """Every refusal of one request, and the cluster once it has settled."""

    refusals: tuple[Refusal, ...]
    after: Cluster


def try_requests(
    cases: Sequence[Case], own: Dialect, tables: Tables, *, vendors: bool = False
) -> list[Tried]:
    """Each request as the policy and a controller of the dialect `own` judge it, together.

    `vendors`: as for a fleet, a controller knows what it advertises, though no catalogue does.
    """
    said: list[list[Refusal]] = [[] for _ in cases]
    strict = load(STRICT)
    batch = build(cases, strict, tables)
    _collect(said, batch, judge(batch, strict, tables), strict, None)
    batch = replace(build(cases, own, tables), vendors=vendors)
    judged = judge(batch, own, tables)
    outcome = decide(batch, own, judged)
    speaker = Speaker(batch, own, judged, outcome, tables)
    answered = [_words(speaker.reply(i, request)) for i, (_, request) in enumerate(cases)]
    _collect(said, batch, judged, own, speaker)
    said = [
        [replace(one, is_answer=one.judge == own.name and one.message in words) for one in mine]
        for mine, words in zip(said, answered, strict=True)
    ]
    failed = outcome.failed_write.tolist()
    tried = []
    for i, (case, refusals) in enumerate(zip(cases, said, strict=True)):
        finalized: dict[str, Range] = {}
        for name, level, least in zip(
            batch.names, outcome.after[i].tolist(), outcome.after_min[i].tolist(), strict=True
        ):
            if level:
                finalized[name] = (least or level, level)
        record = int(outcome.kraft_record[i])
        after = replace(case[0], finalized=finalized, cached=None, kraft_record=record)
        after = replace(after, nodes=_registering(case[0], after, own))
        astray = [] if refusals else list(_astray(case, after, own, failed=failed[i]))
        tried.append(Tried(refusals=(*refusals, *astray), after=after))
    return tried


def _words(reply: Reply) -> str:
    """Everything a controller says in one answer."""
    return "\n".join([reply.message or "", *(r.message or "" for r in reply.results or ())])


def _registering(before: Cluster, after: Cluster, own: Dialect) -> tuple[Node, ...]:
    """The nodes once metadata.version has moved: from a level on controllers that run register by
    themselves (KIP-919, ControllerRegistrationManager)."""
    first = own.can.controllers_register_from
    began = [first > 0 and _level(one, METADATA_VERSION) >= first for one in (before, after)]
    if began != [False, True]:
        return after.nodes
    return tuple(
        replace(n, registered=True) if n.role is Role.CONTROLLER and n.running else n
        for n in after.nodes
    )


def _level(cluster: Cluster, feature: str) -> int:
    return cluster.finalized.get(feature, (0, 0))[1]


def refused_by(cases: Sequence[Case], by: Dialect, tables: Tables) -> list[frozenset[str]]:
    """The codes of the rules of one dialect or policy that refuse each request."""
    said = refusals_by(cases, by, tables)
    return [frozenset(refusal.code for refusal in refusals) for refusals in said]


def refusals_by(cases: Sequence[Case], by: Dialect, tables: Tables) -> list[list[Refusal]]:
    """Everything that one dialect or policy says against each request, in the rules' sentences."""
    said: list[list[Refusal]] = [[] for _ in cases]
    batch = build(cases, by, tables)
    _collect(said, batch, judge(batch, by, tables), by, None)
    return said


def _collect(
    said: list[list[Refusal]], batch: Batch, judged: Judged, by: Dialect, speaker: Speaker | None
) -> None:
    updates = batch.updates
    for request, door in enumerate(judged.door.tolist()):
        if door >= 0:
            said[request].append(_refusal(by, by.door[door], "", 0, ""))
    for k, i in zip(*(at.tolist() for at in judged.offends.nonzero()), strict=True):
        row, feature = by.rules[k], batch.names[int(updates.feature[i])]
        words = speaker.words(row, i, int(judged.named[k, i])) if speaker else ""
        refusal = _refusal(by, row, feature, int(updates.level[i]), words)
        said[int(updates.request[i])].append(refusal)


def _refusal(by: Dialect, row: RuleRow, feature: str, level: int, words: str) -> Refusal:
    message = words or row.rule.sentence
    return Refusal(judge=by.name, code=row.code, feature=feature, level=level, message=message)


def _astray(case: Case, after: Cluster, own: Dialect, *, failed: bool) -> Iterator[Refusal]:
    """What would come of a request that is accepted, other than what it asks for.

    3.9 and 4.0 record a kraft.version that the raft layer does not take up (KRaftVersion). A
    ZooKeeper-mode controller that no longer sees the features node writes back what it saw last,
    and then says that it failed (KafkaController.updateFeatures).
    """
    levels = {name: level for name, (_, level) in after.finalized.items()}
    wanted = {update.feature: update.level for update in case[1].updates}
    recorded = {KRAFT_VERSION} if own.can.kraft_version in _RECORD_ONLY else set[str]()
    for name in sorted(wanted):
        if levels.get(name, 0) != wanted[name] or name in recorded:
            yield _in_vain(own, NOTHING_CHANGES, name, wanted[name])
        elif failed:
            yield _in_vain(own, FAILS_AFTER_WRITING, name, wanted[name])
    before = {name: level for name, (_, level) in case[0].finalized.items()}
    for name in sorted((set(levels) | set(before)) - set(wanted)):
        if levels.get(name, 0) != before.get(name, 0):
            yield _in_vain(own, OTHERS_CHANGE, name, levels.get(name, 0))


def _in_vain(own: Dialect, code: str, feature: str, level: int) -> Refusal:
    message = _SAYS[code].format(title=own.title, feature=feature, level=level)
    return Refusal(judge=own.name, code=code, feature=feature, level=level, message=message)


# ----------------------------------------
# One cluster, one request: the controller's answer and what is true afterwards.
#
# A batch of one through the same engine that judges a fleet.


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A rule that an update violates, in this dialect's words."""

    feature: str
    level: int
    rule: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A reply, the cluster once it has settled, and everything that was wrong."""

    reply: Reply
    after: Cluster
    writes: bool  # the epoch moves
    unsure: bool  # kraft.version moves or not by the order of a hash map
    violations: tuple[Violation, ...]  # all of them; the reply names the first
    alike: tuple[frozenset[str], ...]  # messages that differ in nothing but which offender is named


def answer(cluster: Cluster, request: Request, dialect: Dialect, tables: Tables) -> Answered:
    """What a controller of `dialect` answers to `request`, and what follows (KIP-584, KIP-1022).

    Raises ProtocolError for a version of the request that such a controller does not read.
    """
    if dialect.can.wire_versions and request.version not in dialect.can.wire_versions:
        spoken = ", ".join(map(str, dialect.can.wire_versions))
        raise ProtocolError(
            f"{dialect.title}: expected UpdateFeatures version {spoken}, found {request.version}; "
            "the controller closes the connection. Ask in a version it lists in ApiVersions."
        )
    batch = build([(cluster, request)], dialect, tables)
    judged = judge(batch, dialect, tables)
    outcome = decide(batch, dialect, judged)
    speaker = Speaker(batch, dialect, judged, outcome, tables)
    finalized: dict[str, Range] = {}
    for i, name in enumerate(batch.names):
        if level := int(outcome.after[0, i]):
            finalized[name] = int(outcome.after_min[0, i]) or level, level
    wrote = bool(outcome.writes[0])
    after = replace(
        cluster,
        finalized=finalized,
        # What the controller wrote it has seen, unless it is blind to its own node.
        cached=cluster.cached if not wrote or cluster.blind else None,
        kraft_record=int(outcome.kraft_record[0]),
    )
    violations = []
    for k, i in zip(*judged.offends.nonzero(), strict=True):
        row, updates = dialect.rules[k], batch.updates
        violations.append(
            Violation(
                feature=batch.names[int(updates.feature[i])],
                level=int(updates.level[i]),
                rule=row.code,
                message=speaker.words(row, int(i), int(judged.named[k, i])),
            )
        )
    return Answered(
        reply=speaker.reply(0, request),
        after=after,
        writes=wrote,
        unsure=bool(outcome.unsure[0]),
        violations=tuple(violations),
        alike=speaker.alike(),
    )


# ----------------------------------------
# The rest of a plan judged again on a fresh look: by the policy, and by every controller that may
# answer. The steps are taken one after the other, each on what the one before leaves.


def judge_again(
    cluster: Cluster,
    releases: Sequence[str],
    mode: str,
    steps: Sequence[Step],
    catalogue: Catalogue,
) -> tuple[Refusal, ...]:
    """Everything that policy and a controller of any of `releases` say against these steps, once.

    `mode` is kraft or zk; `releases` has the likeliest first, and the policy speaks once, of that
    one, as in the audit. After a step that somebody refuses, later ones are not tried on that
    release: what they would meet is not known.
    """
    said: dict[Refusal, None] = {}
    led = [(release, there) for release in releases for there in who_may_lead(cluster, mode)]
    for release, cluster_led in led:
        own = dialect_of(release, mode, catalogue)
        there = replace(cluster_led, release=release)
        for step in steps:
            case = there, request_of(step, own)
            [tried] = try_requests([case], own, catalogue.tables, vendors=True)
            likeliest = release == releases[0]
            refusals = [one for one in tried.refusals if likeliest or one.judge != STRICT]
            said |= dict.fromkeys(refusals)
            if refusals:
                break
            there = tried.after
    return tuple(said)


def who_may_lead(cluster: Cluster, mode: str) -> tuple[Cluster, ...]:
    """The cluster with its active controller, or, where nobody knows that node, once for each that
    may be it: a controller, and in ZooKeeper mode, or where no controller is known, a broker."""
    controllers = [node for node in cluster.nodes if node.role is Role.CONTROLLER]
    may_lead = controllers if controllers and mode != "zk" else cluster.nodes
    ids = sorted(node.node_id for node in may_lead)
    if cluster.active in ids or not ids:
        return (cluster,)
    return tuple(replace(cluster, active=one) for one in ids)


def dialect_of(release: str, mode: str, catalogue: Catalogue) -> Dialect:
    """How controllers of `release` answer; of one newer than all, as the newest there is."""
    named = catalogue.release_named(release)
    try:
        return load(generation_of(catalogue.of(named).based_on if named else release, mode))
    except KeyError:
        return load(GENERATIONS[-1])


def request_of(step: Step, own: Dialect, *, validate_only: bool = False) -> Request:
    """A step as a request in the newest wire version of `own` that carries results."""
    can = own.can
    version = max((v for v in can.wire_versions if v <= can.results_up_to), default=1)
    return Request(
        version=version,
        validate_only=validate_only,
        timeout_ms=step.timeout_ms,
        updates=tuple(
            Update(
                feature=update.feature,
                level=update.to_level,
                kind=UpgradeType[update.upgrade_type],
                allow_downgrade=version == 0 and update.upgrade_type != UpgradeType.UPGRADE.name,
            )
            for update in step.updates
        ),
    )
