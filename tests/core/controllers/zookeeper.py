"""The controllers of ZooKeeper mode: 2.7 to 3.2 (ranges) and 3.3 to 3.9 (single levels)."""

from __future__ import annotations

from tests.core.controllers.java import by_name
from tests.core.controllers.words import (
    DISABLED,
    ENABLED,
    INVALID_REQUEST,
    NOT_AUTHORIZED,
    NOT_CONTROLLER,
    SAFE,
    UNKNOWN,
    UPDATE_FAILED,
    UPGRADE,
    Answer,
    Cluster,
    Node,
    Range,
    Request,
    Result,
    Update,
    minor,
    outside,
    turned_away,
)

Levels = dict[str, Range]
APPLY = "Could not apply finalized feature update because"
UNFIT = f"{APPLY} brokers were found to have incompatible versions for the feature."
FAILED_WRITE = "Unable to update finalized features due to an unexpected server error."
NOT_THERE = "Can not delete non-existing finalized feature."


def cached(cluster: Cluster) -> Levels:
    """What the controller believes is finalized."""
    if not cluster.sees_node or cluster.finalized is None or cluster.status == DISABLED:
        return {}
    return cluster.finalized


def door(cluster: Cluster, request: Request) -> Answer | None:
    if not request.authorized:
        return turned_away(cluster, request, NOT_AUTHORIZED, "Cluster authorization failed.")
    active = cluster.active()
    if active is None or active.node_id != request.sent_to:
        text = "This is not the correct controller for this cluster."
        return turned_away(cluster, request, NOT_CONTROLLER, text)
    if minor(cluster.ibp) < (2, 7):
        text = "Feature versioning system is disabled."
        return turned_away(cluster, request, INVALID_REQUEST, text)
    return None


def refused_by_27(cluster: Cluster, local: Node, update: Update) -> str | None:
    """2.7 to 3.2: None when the update is good."""
    name, level, down = update.feature, update.level, update.allow_downgrade
    finalized = cached(cluster).get(name)
    if name == "":
        return "Feature name can not be empty."
    if level < 1:
        if not down:
            return (
                f"Can not provide maxVersionLevel: {level} less than 1 without setting the "
                "allowDowngrade flag to true in the request."
            )
        return NOT_THERE if finalized is None else None
    if finalized is not None:
        lowest, current = finalized
        old = f"existing maxVersionLevel:{current}"
        if level == current:
            verb = "downgrade" if down else "upgrade"
            return f"Can not {verb} a finalized feature from {old} to the same value."
        if level < current and not down:
            return (
                f"Can not downgrade finalized feature from {old} to provided "
                f"maxVersionLevel:{level} without setting the allowDowngrade flag in the request."
            )
        if level > current and down:
            return (
                "When the allowDowngrade flag set in the request, the provided "
                f"maxVersionLevel:{level} can not be greater than {old}."
            )
        if level < lowest:
            return (
                f"Can not downgrade finalized feature to maxVersionLevel:{level} because it's "
                f"lower than the existing minVersionLevel:{lowest}."
            )
    own = local.supported.get(name)
    if own is None:
        return f"{APPLY} the provided feature is not supported."
    if level < own[0]:
        return (
            f"{APPLY} the provided maxVersionLevel:{level} is lower than the supported "
            f"minVersion:{own[0]}."
        )
    for broker in cluster.live_brokers():
        span = broker.supported.get(name)
        # The whole of [own minimum, level] has to lie in the broker's range.
        if span is None or own[0] < span[0] or level > span[1]:
            return UNFIT
    return None


def refused_by_33(cluster: Cluster, local: Node, update: Update, intent: str) -> str | None:
    """3.3 to 3.9: None when the update is good."""
    name, level = update.feature, update.level
    finalized = cached(cluster).get(name)
    if name == "":
        return "Feature name can not be empty."
    if intent == UNKNOWN:
        return "Received unknown upgrade type."
    if level < 1:
        if intent == UPGRADE:
            return (
                f"Can not provide versionLevel: {level} less than 1 without setting the SAFE "
                "downgradeType in the request."
            )
        return NOT_THERE if finalized is None else None
    if finalized is not None:
        current = finalized[1]
        old = f"existing versionLevel:{current}"
        if level == current:
            verb = "downgrade" if intent == SAFE else "upgrade"
            return f"Can not {verb} a finalized feature from {old} to the same value."
        if level < current and intent != SAFE:
            return (
                f"Can not downgrade finalized feature from {old} to provided versionLevel:{level} "
                "without setting the downgradeType to SAFE in the request."
            )
        if level > current and intent != UPGRADE:
            return (
                "When the downgradeType is set to SAFE in the request, the provided "
                f"versionLevel:{level} can not be greater than {old}."
            )
    own = local.supported.get(name)
    if own is None:
        return f"{APPLY} the provided feature is not supported."
    if outside(level, own):
        return (
            f"{APPLY} the provided versionLevel:{level} is lower than the supported "
            f"minVersion:{own[0]}."
        )
    for broker in cluster.live_brokers():
        span = broker.supported.get(name)
        if span is None or outside(level, span):
            return UNFIT
    return None


def write(
    cluster: Cluster, request: Request, target: Levels, refused: dict[str, str | None]
) -> Answer:
    """Writes the whole node if it would change, and waits for the own cache to see that."""
    changed = target != cached(cluster)
    absent = cluster.finalized is None
    written = changed and not absent
    failed = changed and (absent or request.timeout_ms <= 0 or not cluster.sees_node)
    good = (UPDATE_FAILED, FAILED_WRITE) if failed else (0, "NONE")
    results = []
    for name in sorted(refused, key=by_name):
        why = refused[name]
        code, text = good if why is None else (INVALID_REQUEST, why)
        results.append(Result(name, code, text))
    return Answer(
        code=0,
        message=None,
        results=results,
        after=target if written else cluster.finalized,
        status=ENABLED if written else cluster.status,
        epoch_moved=written,
        steps=int(written),
    )


def answer_27(cluster: Cluster, request: Request) -> Answer:
    """2.7 to 3.2: every mention of a name is judged; the last one is reported."""
    refusal = door(cluster, request)
    if refusal is not None:
        return refusal
    local = cluster.active()
    assert local is not None
    target = dict(cached(cluster))
    said: dict[str, str | None] = {}
    for update in request.updates:
        why = refused_by_27(cluster, local, update)
        said[update.feature] = why
        if why is not None:
            continue
        if update.level < 1:
            target.pop(update.feature, None)
        else:
            target[update.feature] = (local.supported[update.feature][0], update.level)
    return write(cluster, request, target, said)


def answer_33(cluster: Cluster, request: Request) -> Answer:
    """3.3 to 3.9: every mention of a name stands for the first; there are no minimum levels."""
    refusal = door(cluster, request)
    if refusal is not None:
        return refusal
    local = cluster.active()
    assert local is not None
    target = {name: (level, level) for name, (_, level) in cached(cluster).items()}
    seen = Cluster(**{**vars(cluster), "finalized": target, "status": ENABLED, "sees_node": True})
    new = dict(target)
    said: dict[str, str | None] = {}
    for update in request.updates:
        if update.feature in said:
            continue
        intent = update.intent()
        if request.version == 0:
            intent = SAFE if update.allow_downgrade else UPGRADE
        why = refused_by_33(seen, local, update, intent)
        said[update.feature] = why
        if why is not None:
            continue
        if update.level < 1:
            new.pop(update.feature, None)
        else:
            new[update.feature] = (update.level, update.level)
    if new == target:  # nothing is written, so minimum levels of an older schema stay
        new = cached(cluster)
    return write(cluster, request, new, said)
