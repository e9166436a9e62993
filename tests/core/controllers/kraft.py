"""KRaft controllers: 3.3 to 3.9 judge every update alone and write the good ones; 4.0 to 4.4 take
all or nothing, with dependencies, and kraft.version stands apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.core.controllers.java import (
    by_name,
    ids_in_map_order,
    ids_in_table_order,
    in_map_order,
    int_hash,
    names_in_map_order,
    range_text,
)
from tests.core.controllers.words import (
    BROKER,
    CONTROLLER,
    ELR,
    INVALID_UPDATE,
    KNOWN,
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
    Range,
    Request,
    Result,
    Update,
    knows_metadata,
    levels_of,
    loses_metadata,
    minor,
    needs,
    outside,
    turned_away,
)

NOTHING: Range = (0, 0)
DOWN = "Can't downgrade the version of this feature without setting the upgrade type to either "
DOWN += "safe or unsafe downgrade."
LOSSY = "Refusing to perform the requested downgrade because it might delete metadata information."
RETRY = "Retry using UNSAFE_DOWNGRADE if you want to force the downgrade to proceed."
UNSAFE_LOSSY = "Unsafe metadata downgrade is not supported in this version."
MIGRATION = "Unable to modify metadata.version while a ZK migration is in progress."
PREFIX = "The update failed for all features since the following feature had an error: "
KAFKAS_TESTS = {"test.feature.version"} | {f"unit.test.feature.version.{n}" for n in range(8)}
# From this metadata.version on controllers register, and are asked.
CONTROLLERS_REGISTER = 15
# The words of the first broken rule; None: the update is good.
Judge = Callable[[Cluster, Update, str, dict[str, int]], str | None]


def local_of(cluster: Cluster) -> Node:
    local = cluster.active()
    assert local is not None, "without an active controller nobody answers"
    return local


def door(cluster: Cluster, request: Request) -> Answer | None:
    """A broker's listener hands the request on to the active controller."""
    if not request.authorized:
        return turned_away(cluster, request, NOT_AUTHORIZED, "Cluster authorization failed.")
    active = local_of(cluster).node_id
    if request.listener != BROKER and request.sent_to != active:
        stop = "" if minor(cluster.release) < (3, 5) else "."
        text = f"The active controller appears to be node {active}{stop}"
        return turned_away(cluster, request, NOT_CONTROLLER, text)
    return None


def intent_of(update: Update, request: Request) -> str:
    """Wire v0 has no upgrade type, and its flag is not read."""
    return UPGRADE if request.version == 0 else update.intent()


def current_level(cluster: Cluster, feature: str) -> int:
    """What is finalized; metadata.version always has a level."""
    return cluster.levels().get(feature, 1 if feature == METADATA else 0)


def bad(update: Update, why: str) -> str:
    return f"Invalid update version {update.level} for feature {update.feature}. {why}"


def not_supported(who: str, nodes: Iterable[Node], update: Update) -> str | None:
    """The first node whose range the level is outside of; an unlisted feature reads [0, 0]."""
    for node in nodes:
        low, high = node.supported.get(update.feature, NOTHING)
        if outside(update.level, (low, high)):
            why = "does not support this feature."
            if high:
                why = f"only supports versions {range_text(low, high)}"
            return bad(update, f"{who} {node.node_id} {why}")
    return None


def not_listed_or_supported(brokers: Iterable[Node], update: Update) -> str | None:
    """3.3 to 3.6: a broker must list the feature, whatever the level."""
    for node in brokers:
        span = node.supported.get(update.feature)
        if span is None:
            return bad(update, f"Broker {node.node_id} does not support this feature.")
        if outside(update.level, span):
            supports = f"It supports {span[0]} to {span[1]}."
            text = f"Broker {node.node_id} does not support the given version. {supports}"
            return bad(update, text)
    return None


def ordered(nodes: list[Node], order: Callable[[list[int]], list[int]]) -> list[Node]:
    by_id = {node.node_id: node for node in nodes}
    return [by_id[number] for number in order([node.node_id for node in nodes])]


def other_voters(cluster: Cluster, local: Node) -> list[Node]:
    """As controller.quorum.voters was read: into a HashMap, from 3.8 on one of its size."""
    size = 1 if minor(cluster.release) >= (3, 8) else 16
    voters = in_map_order(cluster.quorum(), lambda n: int_hash(n.node_id), size)
    return [n for n in voters if n.node_id != local.node_id]


def voter_not_registered(cluster: Cluster, local: Node, update: Update) -> str | None:
    """By controller.quorum.voters, which a dynamic quorum leaves empty: it then asks no voter."""
    for node in [] if cluster.raft else other_voters(cluster, local):
        if not node.registered:
            text = "has not registered, and may not support this feature"
            return bad(update, f"controller {node.node_id} {text}")
    return None


def malformed(update: Update, intent: str) -> str | None:
    if intent == UNKNOWN:
        return bad(update, "The controller does not support the given upgrade type.")
    return bad(update, "A feature version cannot be less than 0.") if update.level < 0 else None


def wrong_way(update: Update, intent: str, current: int) -> str | None:
    if update.level < current and intent == UPGRADE:
        return bad(update, DOWN)
    if update.level > current and intent in (SAFE, UNSAFE):
        return bad(update, "Can't downgrade to a newer version.")
    return None


def unsupported_by_33(cluster: Cluster, update: Update) -> str | None:
    """3.3 to 3.6: the local controller, voters that can be reached, brokers."""
    local = local_of(cluster)
    others = [n for n in other_voters(cluster, local) if n.running and n.registered]
    return (
        not_supported("Local controller", [local], update)
        or not_supported("Controller", others, update)
        or not_listed_or_supported(ordered(cluster.brokers(), ids_in_map_order), update)
    )


def unsupported_by_37(cluster: Cluster, update: Update) -> str | None:
    """From 3.7 on, 4.x too: the local controller, brokers, other controllers, missing voters."""
    local = local_of(cluster)
    brokers = ordered(cluster.brokers(), ids_in_table_order)
    why = not_supported("Local controller", [local], update)
    why = why or not_supported("Broker", brokers, update)
    if why is not None or current_level(cluster, METADATA) < CONTROLLERS_REGISTER:
        return why
    registered = [n for n in cluster.nodes if n.role == CONTROLLER and n.registered]
    others = [n for n in ordered(registered, ids_in_table_order) if n != local]
    return not_supported("Controller", others, update) or voter_not_registered(
        cluster, local, update
    )


def first_questions(cluster: Cluster, update: Update, intent: str, current: int) -> str | None:
    """What every release asks about every feature."""
    old = minor(cluster.release) < (3, 7)
    unsupported = unsupported_by_33 if old else unsupported_by_37
    return (
        malformed(update, intent)
        or unsupported(cluster, update)
        or wrong_way(update, intent, current)
    )


def refused_by_3(
    cluster: Cluster, update: Update, intent: str, proposed: dict[str, int]
) -> str | None:
    """3.3 to 3.9. The migration rule came with 3.5; 3.9 compares kraft.version with its own
    record, whatever nodes report."""
    release, level = minor(cluster.release), update.level
    current = current_level(cluster, update.feature)
    if update.feature == KRAFT and release == (3, 9):
        current = cluster.kraft_record
    why = first_questions(cluster, update, intent, current)
    if why is not None or update.feature != METADATA:
        return why
    start = f"Invalid metadata.version {level}."
    if not knows_metadata(cluster.release, level):
        return f"{start} Unknown metadata.version."
    if release >= (3, 5) and cluster.zk_migration:
        return f"{start} {MIGRATION}"
    if level < 4:
        return f"{start} Unable to set a metadata.version less than 3.3-IV0"
    if loses_metadata(cluster.release, level, current):
        lossy = LOSSY if release >= (3, 7) else f"{LOSSY} {RETRY}"
        return f"{start} {UNSAFE_LOSSY if intent == UNSAFE else lossy}"
    return None


def each_alone(cluster: Cluster, request: Request) -> Answer:
    """Good updates are written although others fail; one record each, even without a change."""
    refusal = door(cluster, request)
    if refusal is not None:
        return refusal
    last = {update.feature: update for update in request.updates}
    results, good = [], []
    for name in sorted(last, key=by_name):
        why = refused_by_3(cluster, last[name], intent_of(last[name], request), {})
        results.append(Result(name, INVALID_UPDATE if why else 0, why))
        if why is None and not request.validate_only:
            good.append(last[name])
    after = dict(cluster.finalized or {})
    for update in good:
        after.pop(update.feature, None)
        if update.level > 0:
            after[update.feature] = (update.level, update.level)
    record = cluster.kraft_record
    if minor(cluster.release) == (3, 9):  # a record of its own, hidden by a raft layer above 0
        record = next((u.level for u in good if u.feature == KRAFT), record)
        after.pop(KRAFT, None)
        if shown := cluster.raft or record:
            after[KRAFT] = (shown, shown)
    return Answer(
        code=0,
        message="",
        results=results,
        after=after,
        epoch_moved=bool(good),
        steps=len(good),
        kraft_record=record,
        raft=cluster.raft,
    )


def catalogue_refuses(release: str, update: Update, proposed: dict[str, int]) -> str | None:
    """Is the level known, and is what it needs there once all updates are applied?"""
    name, level = update.feature, update.level
    newest = levels_of(release)
    if name in KAFKAS_TESTS:  # in the list of features, and at 0 wherever Kafka is not tested
        return None
    if name not in newest:
        return bad(update, f"Feature {name} not found.")
    if level > newest[name]:
        return bad(update, f"No feature:{name} with feature level {level}")
    start = f"{name} could not be set to {level} because it depends on"
    if level >= 1 and proposed.get(METADATA, 0) < 7:
        return bad(update, f"{start} metadata.version=7 (3.3-IV3)")
    for other, least in needs(release, name, level).items():
        if proposed.get(other, 0) < least:
            return bad(update, f"{start} {other} level {least}")
    return None


def refused_by_4(
    cluster: Cluster, update: Update, intent: str, proposed: dict[str, int]
) -> str | None:
    """4.0 compares kraft.version with 0 for ever; from 4.1 on it goes to the raft layer."""
    release, level, to_raft = minor(cluster.release), update.level, update.feature == KRAFT
    current = current_level(cluster, update.feature)
    if to_raft:
        current = cluster.raft if release >= (4, 1) else 0
    why = first_questions(cluster, update, intent, current)
    if why is not None:
        return why
    if to_raft and release >= (4, 1):
        return raft_refuses(cluster, update, intent, current)
    if update.feature != METADATA:
        return catalogue_refuses(cluster.release, update, proposed)
    start = f"Invalid metadata.version {level}."
    if not knows_metadata(cluster.release, level):
        low, high = KNOWN[release]
        valid = f"Valid versions are from {low} to {high}."
        return f"{start} {valid if release >= (4, 1) else 'Unknown metadata.version.'}"
    if loses_metadata(cluster.release, level, current):
        if release >= (4, 2):
            start = f"Unsupported metadata.version downgrade from {current} to {level}."
        return f"{start} {UNSAFE_LOSSY if intent == UNSAFE else LOSSY}"
    return None


def raft_refuses(cluster: Cluster, update: Update, intent: str, current: int) -> str | None:
    if intent != UPGRADE and update.level != current:
        return bad(update, "Can't downgrade the version of this feature.")
    if update.level > current and not all(n.told_raft for n in cluster.quorum()):
        start = f"Invalid upgrade of kraft.version to KRAFT_VERSION_{update.level}"
        return f"{start} because not all of the voters support it"
    return None


def all_or_nothing(cluster: Cluster, request: Request) -> Answer:
    """In hash order of the names; the first refusal is the answer to the whole request."""
    turned = door(cluster, request)
    if turned is not None:
        return turned
    raft_moves = minor(cluster.release) >= (4, 1)
    last = {update.feature: update for update in request.updates}
    proposed = {METADATA: current_level(cluster, METADATA), **cluster.levels()}
    proposed |= {name: update.level for name, update in last.items()}
    raft, records = cluster.raft, 0
    refusal = None
    for name in names_in_map_order(list(last)):
        intent = intent_of(last[name], request)
        refusal = refused_by_4(cluster, last[name], intent, proposed)
        if refusal is not None:
            break
        if name == KRAFT and raft_moves and intent == UPGRADE and not request.validate_only:
            raft = last[name].level  # at once, whatever becomes of the rest
        if name != KRAFT or not raft_moves or intent == UPGRADE:
            records += 1
        if writes_a_default(cluster, last[name]):
            records += 1
    if refusal is not None or request.validate_only:
        records = 0
    after = dict(cluster.finalized or {})
    for name, update in last.items():
        if records and name != KRAFT:
            after.pop(name, None)
            if update.level > 0:
                after[name] = (update.level, update.level)
    after.pop(KRAFT, None)
    if raft > 0:
        after[KRAFT] = (raft, raft)
    may_move = raft != cluster.raft and records == 0
    return Answer(
        code=0 if refusal is None else INVALID_UPDATE,
        message=None if refusal is None else PREFIX + refusal,
        results=listed(request, refusal),
        after=after,
        epoch_moved=None if may_move else records > 0,
        steps=records,
        raft=raft,
    )


def writes_a_default(cluster: Cluster, update: Update) -> bool:
    """Enabling eligible leader replicas for the first time sets min.insync.replicas too."""
    enables = update.feature == ELR and update.level >= 1 > cluster.levels().get(ELR, 0)
    return enables and not cluster.elr_default


def listed(request: Request, refusal: str | None) -> list[Result] | None:
    """Wire v2 has no results; v0 and v1 list the names of a request that was good."""
    if request.version >= 2:
        return None
    return [] if refusal is not None else [Result(u.feature, 0, "NONE") for u in request.updates]
