"""The intent of KIP-584, KIP-778 and KIP-1022, read literally: nobody answers like this."""

from __future__ import annotations

from collections.abc import Iterator

from tests.core.controllers.java import by_name
from tests.core.controllers.words import (
    ELR,
    INVALID_UPDATE,
    KRAFT,
    LOSSY,
    METADATA,
    NOT_AUTHORIZED,
    NOT_CONTROLLER,
    SAFE,
    UNKNOWN,
    UPGRADE,
    Answer,
    Cluster,
    Node,
    Range,
    Request,
    Result,
    Update,
    outside,
    turned_away,
)

# Names, the newest level, the newest level that is production ready.
CATALOGUE = {
    METADATA: (34, 33),
    KRAFT: (1, 1),
    "transaction.version": (2, 2),
    "group.version": (1, 1),
    ELR: (1, 1),
    "share.version": (2, 2),
    "streams.version": (1, 1),
}
NEEDS = {(ELR, 1): {METADATA: 23}}
# Any level of another feature needs the metadata.version that can say so (KIP-1022).
LEAST_METADATA = 4
PREFIX = "The update failed for all features since the following feature had an error: "
Violation = tuple[str, str]


def intent_of(update: Update, request: Request) -> str:
    if request.version == 0:
        return SAFE if update.allow_downgrade else UPGRADE
    return update.intent()


def lists(node: Node, update: Update) -> bool:
    span = node.supported.get(update.feature)
    return node.registered and span is not None and not outside(update.level, span)


def needs(feature: str, level: int) -> dict[str, int]:
    if level < 1 or feature == METADATA:
        return {}
    return {METADATA: LEAST_METADATA, **NEEDS.get((feature, level), {})}


def words(update: Update, intent: str, current: int) -> Iterator[Violation]:
    """What is wrong with the request in itself."""
    name, level = update.feature, update.level
    if name == "":
        yield "empty_name", "Feature name can not be empty."
    if intent == UNKNOWN:
        text = "The upgrade type is not one of UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE."
        yield "unknown_upgrade_type", text
    if level < 0:
        yield "negative_level", "A feature version cannot be less than 0."
    if name not in CATALOGUE:
        yield "unknown_feature", f"Feature {name} is not known."
    elif level > CATALOGUE[name][0]:
        yield "unknown_level", f"Feature {name} has no level {level}."
    elif level > CATALOGUE[name][1]:
        yield "unstable_level", f"Level {level} of {name} is not production ready."
    if level == current:
        yield "same_level", f"{name} is already at level {current}."
    way = f"from {current} to {level}"
    if level < current and intent == UPGRADE:
        text = f"{name} would go down {way} without a downgrade type."
        yield "downgrade_without_intent", text
    if level > current and intent not in (UPGRADE, UNKNOWN):
        text = f"{name} would go up {way} under a downgrade type."
        yield "upgrade_under_downgrade_type", text


def support(cluster: Cluster, update: Update) -> Iterator[Violation]:
    """Live brokers, and a majority of the quorum for metadata.version."""
    name, level = update.feature, update.level
    if level < 1:
        return
    live = cluster.live_brokers()
    unfit = [node for node in live if not lists(node, update)]
    if not live:
        text = f"No live broker supports {name} because there is no live broker."
        yield "no_live_node", text
    if unfit:
        text = f"{len(unfit)} of the live brokers do not support level {level} of {name}."
        yield "unsupported_by_node", text
    quorum = cluster.quorum()
    agree = [node for node in quorum if lists(node, update)]
    if name == METADATA and quorum and 2 * len(agree) <= len(quorum):
        text = f"Fewer than a majority of the controllers support level {level} of {name}."
        yield "no_quorum_majority", text


def state(
    update: Update, intent: str, current: int, proposed: dict[str, int]
) -> Iterator[Violation]:
    """What the proposed state would lose or break."""
    name, level = update.feature, update.level
    if name == METADATA and intent == SAFE and any(level < step <= current for step in LOSSY):
        text = f"A downgrade of {name} from {current} to {level} loses metadata."
        yield "lossy_safe_downgrade", text
    unmet = {d: n for d, n in needs(name, level).items() if proposed.get(d, 0) < n}
    if unmet:
        said = ", ".join(f"{d}={n}" for d, n in sorted(unmet.items()))
        yield "dependencies_unmet", f"{name} level {level} depends on {said}."
    broken = [o for o, at in proposed.items() if needs(o, at).get(name, level) > level]
    if broken:
        said = ", ".join(f"{o}={proposed[o]}" for o in sorted(broken, key=by_name))
        yield "dependant_broken", f"{said} need more than level {level} of {name}."


def door(cluster: Cluster, request: Request) -> Answer | None:
    active = cluster.active()
    if not request.authorized:
        return turned_away(cluster, request, NOT_AUTHORIZED, "Cluster authorization failed.")
    if active is None or active.node_id != request.sent_to:
        text = "This is not the correct controller for this cluster."
        return turned_away(cluster, request, NOT_CONTROLLER, text)
    return None


def answer(cluster: Cluster, request: Request) -> Answer:
    """All or nothing; every broken rule is reported."""
    refusal = door(cluster, request)
    if refusal is not None:
        return Answer(**{**vars(refusal), "results": []})
    last = {update.feature: update for update in request.updates}
    levels = cluster.levels()
    proposed = levels | {name: update.level for name, update in last.items()}
    good, failed = [], []
    for name in sorted(last, key=by_name):
        update, current = last[name], levels.get(name, 0)
        intent = intent_of(update, request)
        broken = [*words(update, intent, current), *support(cluster, update)]
        broken += state(update, intent, current, proposed)
        if broken:
            rules = tuple(rule for rule, _ in broken)
            text = broken[0][1]
            failed.append(Result(name, INVALID_UPDATE, text, rules))
        else:
            good.append(Result(name, 0, None))
    write = not failed and not request.validate_only and bool(good)
    after: dict[str, Range] | None = cluster.finalized
    if write:
        after = dict(cluster.finalized or {})
        for name, update in last.items():
            after.pop(name, None)
            if update.level > 0:
                after[name] = (update.level, update.level)
    return Answer(
        code=INVALID_UPDATE if failed else 0,
        message=PREFIX + str(failed[0].message) if failed else None,
        results=failed or good,
        after=after,
        status=cluster.status,
        epoch_moved=write,
        steps=int(write),
        kraft_record=cluster.kraft_record,
        raft=cluster.raft,
    )
