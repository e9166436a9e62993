"""KRaft controllers 4.0 to 4.4: all or nothing, with dependencies; kraft.version stands apart."""

from __future__ import annotations

from collections.abc import Callable

from tests.core.controllers.asking import bad
from tests.core.controllers.java import names_in_map_order
from tests.core.controllers.kraft3 import (
    LOSSY,
    UNSAFE_LOSSY,
    current_level,
    door,
    intent_of,
    local_of,
    malformed,
    unsupported_since_37,
    wrong_way,
)
from tests.core.controllers.releases import (
    KNOWN,
    knows_metadata,
    levels_of,
    loses_metadata,
    needs,
)
from tests.core.controllers.words import (
    ELR,
    INVALID_UPDATE,
    KRAFT,
    METADATA,
    UNSAFE,
    UPGRADE,
    Answer,
    Cluster,
    Refusal,
    Request,
    Result,
    Update,
    minor,
    refuse,
)

PREFIX = "The update failed for all features since the following feature had an error: "
KAFKAS_TESTS = {"test.feature.version"} | {f"unit.test.feature.version.{n}" for n in range(8)}
Judge = Callable[[Cluster, Update, str, dict[str, int]], Refusal | None]


def first_questions(cluster: Cluster, update: Update, intent: str, current: int) -> Refusal | None:
    """What every 4.x release asks about every feature."""
    why = malformed(update, intent)
    if why is None:
        why = unsupported_since_37(cluster, local_of(cluster), update)
    if why is None:
        why = wrong_way(update, intent, current)
    return why


def catalogue_refuses(release: str, update: Update, proposed: dict[str, int]) -> Refusal | None:
    """Is the level known, and is what it needs there once all updates are applied?"""
    name, level = update.feature, update.level
    newest = levels_of(release)
    if name in KAFKAS_TESTS:  # in the list of features, and at 0 wherever Kafka is not tested
        return None
    if name not in newest:
        return refuse(bad(update, f"Feature {name} not found."))
    if level > newest[name]:
        return refuse(bad(update, f"No feature:{name} with feature level {level}"))
    start = f"{name} could not be set to {level} because it depends on"
    if level >= 1 and proposed.get(METADATA, 0) < 7:
        return refuse(bad(update, f"{start} metadata.version=7 (3.3-IV3)"))
    for other, least in needs(release, name, level).items():
        if proposed.get(other, 0) < least:
            return refuse(bad(update, f"{start} {other} level {least}"))
    return None


def refused_by_40(
    cluster: Cluster, update: Update, intent: str, proposed: dict[str, int]
) -> Refusal | None:
    """4.0: kraft.version is compared with 0 for ever."""
    level = update.level
    current = 0 if update.feature == KRAFT else current_level(cluster, update.feature)
    why = first_questions(cluster, update, intent, current)
    if why is not None:
        return why
    if update.feature != METADATA:
        return catalogue_refuses(cluster.release, update, proposed)
    start = f"Invalid metadata.version {level}."
    if not knows_metadata(cluster.release, level):
        return refuse(f"{start} Unknown metadata.version.")
    if level < current and loses_metadata(cluster.release, level, current):
        return refuse(f"{start} {UNSAFE_LOSSY if intent == UNSAFE else LOSSY}")
    return None


def refused_by_41(
    cluster: Cluster, update: Update, intent: str, proposed: dict[str, int]
) -> Refusal | None:
    return refused_since_41(cluster, update, intent, proposed, "Invalid metadata.version {level}.")


def refused_by_42(
    cluster: Cluster, update: Update, intent: str, proposed: dict[str, int]
) -> Refusal | None:
    start = "Unsupported metadata.version downgrade from {current} to {level}."
    return refused_since_41(cluster, update, intent, proposed, start)


def refused_since_41(
    cluster: Cluster, update: Update, intent: str, proposed: dict[str, int], lossy: str
) -> Refusal | None:
    """4.1 to 4.4: kraft.version goes to the raft layer."""
    level = update.level
    current = cluster.raft if update.feature == KRAFT else current_level(cluster, update.feature)
    why = first_questions(cluster, update, intent, current)
    if why is not None:
        return why
    if update.feature == METADATA:
        if not knows_metadata(cluster.release, level):
            low, high = KNOWN[minor(cluster.release)]
            valid = f"Valid versions are from {low} to {high}."
            return refuse(f"Invalid metadata.version {level}. {valid}")
        if level < current and loses_metadata(cluster.release, level, current):
            start = lossy.format(level=level, current=current)
            return refuse(f"{start} {UNSAFE_LOSSY if intent == UNSAFE else LOSSY}")
        return None
    if update.feature == KRAFT:
        return raft_refuses(cluster, update, intent, current)
    return catalogue_refuses(cluster.release, update, proposed)


def raft_refuses(cluster: Cluster, update: Update, intent: str, current: int) -> Refusal | None:
    if intent != UPGRADE and update.level != current:
        return refuse(bad(update, "Can't downgrade the version of this feature."))
    if update.level > current and not all(n.told_raft for n in cluster.quorum()):
        start = f"Invalid upgrade of kraft.version to KRAFT_VERSION_{update.level}"
        return refuse(f"{start} because not all of the voters support it")
    return None


def all_or_nothing(cluster: Cluster, request: Request, judge: Judge, raft_moves: bool) -> Answer:
    """In hash order of the names; the first refusal is the answer to the whole request."""
    last = {update.feature: update for update in request.updates}
    proposed = {METADATA: current_level(cluster, METADATA), **cluster.levels()}
    proposed |= {name: update.level for name, update in last.items()}
    raft, records = cluster.raft, 0
    refusal = None
    for name in names_in_map_order(list(last)):
        intent = intent_of(last[name], request)
        refusal = judge(cluster, last[name], intent, proposed)
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
    text = None if refusal is None else PREFIX + refusal.message
    return Answer(
        code=0 if refusal is None else INVALID_UPDATE,
        message=text,
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


def listed(request: Request, refusal: Refusal | None) -> list[Result] | None:
    """Wire v2 has no results; v0 and v1 list the names of a request that was good."""
    if request.version >= 2:
        return None
    if refusal is not None:
        return []
    return [Result(u.feature, 0, "NONE") for u in request.updates]


def answer_40(cluster: Cluster, request: Request) -> Answer:
    return door(cluster, request, ".") or all_or_nothing(cluster, request, refused_by_40, False)


def answer_41(cluster: Cluster, request: Request) -> Answer:
    return door(cluster, request, ".") or all_or_nothing(cluster, request, refused_by_41, True)


def answer_42(cluster: Cluster, request: Request) -> Answer:
    """4.2 to 4.4."""
    return door(cluster, request, ".") or all_or_nothing(cluster, request, refused_by_42, True)
