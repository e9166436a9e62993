"""Judge requests to clusters as plain values: refusals, the reply, and the state afterwards.

A batch of one or few requests goes through the engine that judges a fleet. `answer` predicts the
reply of one controller (a sandbox cluster's, a recording's). `try_requests` also applies the policy
before a request is sent. `judge_again` judges the remaining steps of a plan after a new reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from featurelib.catalogue import Catalogue, Tables
from featurelib.core.cluster import Case, Cluster, Node, Request, Update, build
from featurelib.core.dialect import GENERATIONS, STRICT, Dialect, generation_of, load
from featurelib.core.reply import JudgedRequests, Reply
from featurelib.errors import ProtocolError
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role, UpgradeType
from featurelib.model import Reason, Step

NOTHING_CHANGES, OTHERS_CHANGE = "nothing_changes", "others_change"
FAILS_AFTER_WRITING = "fails_after_writing"
_SAYS = {
    NOTHING_CHANGES: "{title} accepts {feature} {level} without a change.",
    OTHERS_CHANGE: "The controller does not see all levels: {feature} would become {level}.",
    FAILS_AFTER_WRITING: "The controller would write {feature} {level} and say that it failed.",
}
# 3.9 and 4.0 write a record, and the raft layer keeps its own level
_RECORD_ONLY = ("record", "ignored_record")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The refusals of a request, and the state of the cluster afterwards."""

    refusals: tuple[Reason, ...]
    after: Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A controller's reply, the state of the cluster afterwards, and all violated rules."""

    reply: Reply
    after: Cluster
    writes: bool  # true if the request writes a record, so that the epoch increases
    unsure: bool  # true if the order of a hash map decides whether kraft.version changes
    refusals: tuple[Reason, ...]  # all reasons; the reply has only the first
    alike: tuple[frozenset[str], ...]  # messages that differ only in the named offender


def answer(cluster: Cluster, request: Request, dialect: Dialect, tables: Tables) -> Answered:
    """Return the reply of a controller of `dialect` to `request`, and its effects (KIP-1022).

    Raises ProtocolError for a request version that such a controller does not read.
    """
    if dialect.can.wire_versions and request.version not in dialect.can.wire_versions:
        versions = ", ".join(map(str, dialect.can.wire_versions))
        raise ProtocolError(
            f"{dialect.title}: The controller closes the connection: its UpdateFeatures versions "
            "are "
            f"{versions}, not {request.version}. Use a version of its ApiVersions response."
        )
    requests = JudgedRequests(build([(cluster, request)], dialect, tables), dialect, tables)
    wrote = bool(requests.outcome.writes[0])
    # The controller has seen its own write, unless it does not see the znode.
    cached = cluster.cached if not wrote or cluster.blind else None
    return Answered(
        reply=requests.reply(0, request),
        after=replace(requests.after(0, cluster), cached=cached),
        writes=wrote,
        unsure=bool(requests.outcome.unsure[0]),
        refusals=tuple(requests.refusals()[0]),
        alike=requests.alike(),
    )


def try_requests(
    cases: Sequence[Case], own: Dialect, tables: Tables, *, vendors: bool = False
) -> list[Tried]:
    """Return the refusals of each request by the policy and by a controller of the dialect `own`.
    `vendors`: accept features that the controller advertises and the catalogue lacks."""
    policy = refusals_by(cases, load(STRICT), tables)
    requests = JudgedRequests(replace(build(cases, own, tables), vendors=vendors), own, tables)
    results = []
    for i, (case, of_own) in enumerate(zip(cases, requests.refusals(), strict=True)):
        reply = requests.reply(i, case[1])
        words = "\n".join([reply.message or "", *(r.message or "" for r in reply.results or ())])
        refusals = policy[i] + [replace(r, is_answer=r.message in words) for r in of_own]
        after = replace(requests.after(i, case[0]), cached=None)
        after = replace(after, nodes=_registering(case[0], after, own))
        if not refusals:
            has_failed = bool(requests.outcome.failed_write[i])
            refusals = list(_other_effects(case, after, own, failed=has_failed))
        results.append(Tried(refusals=tuple(refusals), after=after))
    return results


def refusals_by(cases: Sequence[Case], dialect: Dialect, tables: Tables) -> list[list[Reason]]:
    """Return the refusals of each (cluster, request) pair by one dialect or policy."""
    return JudgedRequests(build(cases, dialect, tables), dialect, tables).refusals()


def refused_by(cases: Sequence[Case], dialect: Dialect, tables: Tables) -> list[frozenset[str]]:
    """Return, per (cluster, request) pair, the codes of the rules that refuse the request."""
    return [frozenset(reason.code for reason in row) for row in refusals_by(cases, dialect, tables)]


def _registering(before: Cluster, after: Cluster, dialect: Dialect) -> tuple[Node, ...]:
    """Return the nodes after an update of metadata.version. From a certain level on, running
    controllers register by themselves (KIP-919)."""
    first = dialect.can.controllers_register_from
    began = [first > 0 and cluster.level(METADATA_VERSION) >= first for cluster in (before, after)]
    if began != [False, True]:
        return after.nodes
    return tuple(
        replace(node, registered=True) if node.role is Role.CONTROLLER and node.running else node
        for node in after.nodes
    )


def _other_effects(case: Case, after: Cluster, own: Dialect, *, failed: bool) -> Iterator[Reason]:
    """Yield the effects of an accepted request that its updates do not name.

    3.9 and 4.0 record a kraft.version that their raft layer ignores (KRaftVersion). A
    ZooKeeper-mode controller that no longer sees `/feature` writes back the levels in its cache,
    and then reports a failure (KafkaController.updateFeatures).
    """
    before, requested = case[0], {update.feature: update.level for update in case[1].updates}
    recorded = {KRAFT_VERSION} if own.can.kraft_version in _RECORD_ONLY else set[str]()
    for name in sorted(requested):
        if after.level(name) != requested[name] or name in recorded:
            yield _without_effect(own, NOTHING_CHANGES, name, requested[name])
        elif failed:
            yield _without_effect(own, FAILS_AFTER_WRITING, name, requested[name])
    for name in sorted((set(after.finalized) | set(before.finalized)) - set(requested)):
        if after.level(name) != before.level(name):
            yield _without_effect(own, OTHERS_CHANGE, name, after.level(name))


def _without_effect(dialect: Dialect, code: str, feature: str, level: int) -> Reason:
    message = _SAYS[code].format(title=dialect.title, feature=feature, level=level)
    return Reason(judge=dialect.name, code=code, feature=feature, level=level, message=message)


def judge_again(
    cluster: Cluster,
    releases: Sequence[str],
    mode: str,
    steps: Sequence[Step],
    catalogue: Catalogue,
) -> tuple[Reason, ...]:
    """Return the distinct refusals of these steps by the policy and by controllers of any of
    `releases`; every step is judged on the state after the previous step.

    `mode` is kraft or zk; `releases` has the likeliest first, and the policy judges only that
    release, as in the audit. After a refused step the state is unknown, so later steps are not
    judged for that release.
    """
    reasons: dict[Reason, None] = {}
    led_clusters = [(release, lead) for release in releases for lead in who_may_lead(cluster, mode)]
    for release, cluster_led in led_clusters:
        dialect = dialect_of(release, mode, catalogue)
        state = replace(cluster_led, release=release)
        for step in steps:
            case = state, request_of(step, dialect)
            [result] = try_requests([case], dialect, catalogue.tables, vendors=True)
            likeliest = release == releases[0]
            refusals = [r for r in result.refusals if likeliest or r.judge != STRICT]
            reasons |= dict.fromkeys(refusals)
            if refusals:
                break
            state = result.after
    return tuple(reasons)


def who_may_lead(cluster: Cluster, mode: str) -> tuple[Cluster, ...]:
    """Return a copy of the cluster for each node that may be the active controller: the known one,
    else every controller, else every broker."""
    controllers = [node for node in cluster.nodes if node.role is Role.CONTROLLER]
    may_lead = controllers if controllers and mode != "zk" else cluster.nodes
    ids = sorted(node.node_id for node in may_lead)
    if cluster.active in ids or not ids:
        return (cluster,)
    return tuple(replace(cluster, active=node_id) for node_id in ids)


def dialect_of(release: str, mode: str, catalogue: Catalogue) -> Dialect:
    """Return the dialect of controllers of `release`. A newer release than all known ones gets the
    newest dialect."""
    release_name = catalogue.release_named(release)
    base_release = catalogue.of(release_name).based_on if release_name else release
    return load(generation_of(base_release, mode, GENERATIONS[-1]))


def request_of(step: Step, own: Dialect, *, validate_only: bool = False) -> Request:
    """Return the request of a step, in the newest version of `own` whose response has results."""
    capability = own.can
    version = max((v for v in capability.wire_versions if v <= capability.results_up_to), default=1)
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
