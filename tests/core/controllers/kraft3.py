"""KRaft controllers 3.3 to 3.9: every update is judged alone, the good ones are written."""

from __future__ import annotations

from collections.abc import Callable

from tests.core.controllers import asking
from tests.core.controllers.asking import bad
from tests.core.controllers.java import by_name
from tests.core.controllers.releases import knows_metadata, loses_metadata
from tests.core.controllers.words import (
    BROKER,
    INVALID_UPDATE,
    KRAFT,
    METADATA,
    NOT_AUTHORIZED,
    NOT_CONTROLLER,
    SAFE,
    UNKNOWN,
    UNSAFE,
    UPGRADE,
    Answer,
    Cluster,
    Node,
    Refusal,
    Request,
    Result,
    Update,
    refuse,
    turned_away,
)

DOWN = "Can't downgrade the version of this feature without setting the upgrade type to either "
DOWN += "safe or unsafe downgrade."
LOSSY = "Refusing to perform the requested downgrade because it might delete metadata information."
RETRY = "Retry using UNSAFE_DOWNGRADE if you want to force the downgrade to proceed."
UNSAFE_LOSSY = "Unsafe metadata downgrade is not supported in this version."
MIGRATION = "Unable to modify metadata.version while a ZK migration is in progress."
# From this metadata.version on controllers register, and are asked.
CONTROLLERS_REGISTER = 15


def door(cluster: Cluster, request: Request, stop: str) -> Answer | None:
    """A broker's listener hands the request on to the active controller."""
    if not request.authorized:
        return turned_away(cluster, request, NOT_AUTHORIZED, "Cluster authorization failed.")
    active = cluster.active()
    assert active is not None, "without an active controller nobody answers"
    if request.listener != BROKER and request.sent_to != active.node_id:
        text = f"The active controller appears to be node {active.node_id}{stop}"
        return turned_away(cluster, request, NOT_CONTROLLER, text)
    return None


def intent_of(update: Update, request: Request) -> str:
    """Wire v0 has no upgrade type, and its flag is not read."""
    return UPGRADE if request.version == 0 else update.intent()


def malformed(update: Update, intent: str) -> Refusal | None:
    if intent == UNKNOWN:
        return refuse(bad(update, "The controller does not support the given upgrade type."))
    if update.level < 0:
        return refuse(bad(update, "A feature version cannot be less than 0."))
    return None


def wrong_way(update: Update, intent: str, current: int) -> Refusal | None:
    if update.level < current and intent == UPGRADE:
        return refuse(bad(update, DOWN))
    if update.level > current and intent in (SAFE, UNSAFE):
        return refuse(bad(update, "Can't downgrade to a newer version."))
    return None


def metadata_refused(
    cluster: Cluster, level: int, intent: str, current: int, lossy: str, migrates: bool
) -> Refusal | None:
    """The questions about metadata.version alone."""
    start = f"Invalid metadata.version {level}."
    if not knows_metadata(cluster.release, level):
        return refuse(f"{start} Unknown metadata.version.")
    if migrates and cluster.zk_migration:
        return refuse(f"{start} {MIGRATION}")
    if level < 4:
        return refuse(f"{start} Unable to set a metadata.version less than 3.3-IV0")
    if level < current and loses_metadata(cluster.release, level, current):
        if intent == UNSAFE:
            return refuse(f"{start} {UNSAFE_LOSSY}")
        return refuse(f"{start} {lossy}")
    return None


def current_level(cluster: Cluster, feature: str) -> int:
    """3.3 to 3.8: what is finalized; metadata.version always has a level."""
    return cluster.levels().get(feature, 1 if feature == METADATA else 0)


def current_level_39(cluster: Cluster, feature: str) -> int:
    """3.9 compares kraft.version with its own record, whatever nodes report."""
    return cluster.kraft_record if feature == KRAFT else current_level(cluster, feature)


def refused_by_33(
    cluster: Cluster, local: Node, update: Update, intent: str, migrates: bool
) -> Refusal | None:
    """3.3 to 3.6; the migration rule came with 3.5."""
    current = current_level(cluster, update.feature)
    why = malformed(update, intent)
    if why is None:
        why = asking.not_supported_locally(local, update)
    if why is None:
        others = asking.reachable_voters(cluster, local)
        why = asking.not_supported("Controller", others, update)
    if why is None:
        why = asking.not_listed_or_supported(asking.brokers_in_map_order(cluster), update)
    if why is None:
        why = wrong_way(update, intent, current)
    if why is None and update.feature == METADATA:
        lossy = f"{LOSSY} {RETRY}"
        why = metadata_refused(cluster, update.level, intent, current, lossy, migrates)
    return why


def unsupported_since_37(cluster: Cluster, local: Node, update: Update) -> Refusal | None:
    """From 3.7 on, 4.x too: the local controller, brokers, other controllers, missing voters."""
    why = asking.not_supported_locally(local, update)
    if why is None:
        why = asking.not_supported("Broker", asking.brokers_in_table_order(cluster), update)
    if why is None and current_level(cluster, METADATA) >= CONTROLLERS_REGISTER:
        why = asking.not_supported("Controller", asking.other_controllers(cluster, local), update)
        if why is None:
            why = asking.voter_not_registered(cluster, local, update)
    return why


def refused_by_37(
    cluster: Cluster, local: Node, update: Update, intent: str, current: int
) -> Refusal | None:
    """3.7 to 3.9."""
    why = malformed(update, intent)
    if why is None:
        why = unsupported_since_37(cluster, local, update)
    if why is None:
        why = wrong_way(update, intent, current)
    if why is None and update.feature == METADATA:
        why = metadata_refused(cluster, update.level, intent, current, LOSSY, True)
    return why


def each_alone(
    cluster: Cluster, request: Request, refused: Callable[[Update, str], Refusal | None]
) -> Answer:
    """Good updates are written although others fail; one record each, even without a change."""
    last = {update.feature: update for update in request.updates}
    results, good = [], []
    for name in sorted(last, key=by_name):
        why = refused(last[name], intent_of(last[name], request))
        if why is None:
            results.append(Result(name, 0, None))
            good.append(last[name])
        else:
            results.append(Result(name, INVALID_UPDATE, why.message))
    if request.validate_only:
        good = []
    after = dict(cluster.finalized or {})
    for update in good:
        after.pop(update.feature, None)
        if update.level > 0:
            after[update.feature] = (update.level, update.level)
    return Answer(
        code=0,
        message="",
        results=results,
        after=after,
        epoch_moved=bool(good),
        steps=len(good),
        kraft_record=cluster.kraft_record,
        raft=cluster.raft,
    )


def answer_33(cluster: Cluster, request: Request) -> Answer:
    """3.3 and 3.4."""
    return door(cluster, request, "") or each_alone(
        cluster,
        request,
        lambda update, intent: refused_by_33(cluster, local_of(cluster), update, intent, False),
    )


def answer_35(cluster: Cluster, request: Request) -> Answer:
    """3.5 and 3.6."""
    return door(cluster, request, ".") or each_alone(
        cluster,
        request,
        lambda update, intent: refused_by_33(cluster, local_of(cluster), update, intent, True),
    )


def answer_37(cluster: Cluster, request: Request) -> Answer:
    """3.7 and 3.8: they judge updates alike, and registrations not."""
    return door(cluster, request, ".") or each_alone(
        cluster,
        request,
        lambda update, intent: refused_by_37(
            cluster, local_of(cluster), update, intent, current_level(cluster, update.feature)
        ),
    )


def answer_39(cluster: Cluster, request: Request) -> Answer:
    """3.9: kraft.version is a record of its own, which a raft layer above 0 hides from nodes."""
    found = door(cluster, request, ".") or each_alone(
        cluster,
        request,
        lambda update, intent: refused_by_37(
            cluster, local_of(cluster), update, intent, current_level_39(cluster, update.feature)
        ),
    )
    return reported_by_39(cluster, request, found)


def local_of(cluster: Cluster) -> Node:
    local = cluster.active()
    assert local is not None
    return local


def reported_by_39(cluster: Cluster, request: Request, found: Answer) -> Answer:
    record = cluster.kraft_record
    written = {r.feature for r in found.results or [] if r.code == 0}
    for update in request.updates:
        if update.feature == KRAFT and KRAFT in written and not request.validate_only:
            record = update.level
    shown = cluster.raft if cluster.raft > 0 else record
    after = {name: span for name, span in (found.after or {}).items() if name != KRAFT}
    if shown > 0:
        after[KRAFT] = (shown, shown)
    return Answer(**{**vars(found), "after": after, "kraft_record": record})
