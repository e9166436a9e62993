"""The rest of a plan judged again on a fresh look: by the policy, and by every controller that may
answer. The steps are taken one after the other, each on what the one before leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from featurelib.catalogue import Catalogue
from featurelib.core.cluster import Cluster, Request, Update
from featurelib.core.dialect import GENERATIONS, STRICT, Dialect, generation_of, load
from featurelib.core.tried import Refusal, try_requests
from featurelib.feature import Role, UpgradeType
from featurelib.model import Step


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
