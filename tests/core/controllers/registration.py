"""Which registrations a controller accepts, which nodes stop themselves, and in which words."""

from __future__ import annotations

from dataclasses import dataclass

from tests.core.controllers.java import range_text
from tests.core.controllers.words import (
    CONTROLLER,
    KNOWN,
    KRAFT,
    METADATA,
    SERVER_ERROR,
    UNSUPPORTED,
    Cluster,
    Node,
    Range,
    minor,
    outside,
)

TOO_OLD = "The current MetadataVersion is too old to support controller registrations."
NO_DIRECTORIES = "No directories specified in request"
# From these metadata.versions on brokers name their log directories, and controllers register.
DIRECTORIES, CONTROLLERS = 17, 15


@dataclass(frozen=True)
class Registered:
    """`message` is the one in the order the node lists its features; `any_of` are all of them."""

    accepted: bool
    code: int | None = None
    message: str | None = None
    any_of: frozenset[str] = frozenset()


ACCEPTED = Registered(True)


def register(generation: str, cluster: Cluster, node: Node) -> Registered:
    if generation.startswith("zk-"):
        return register_in_zookeeper(generation, cluster, node)
    if generation == "kip":
        return register_by_the_texts(cluster, node)
    if node.role == CONTROLLER:
        return register_controller(generation, cluster)
    if number(generation) >= (3, 7) and lacks_directories(cluster, node):
        return refused(SERVER_ERROR, [NO_DIRECTORIES])
    return register_broker(generation, cluster, node)


def number(generation: str) -> tuple[int, int]:
    return minor(generation.split("-")[1])


def refused(code: int | None, messages: list[str]) -> Registered:
    if not messages:
        return ACCEPTED
    return Registered(False, code, messages[0], frozenset(messages))


def register_in_zookeeper(generation: str, cluster: Cluster, node: Node) -> Registered:
    """The broker looks itself, before it registers; nobody answers it, it stops."""
    if minor(cluster.ibp) < (2, 7) or cluster.status != "Enabled":
        return ACCEPTED
    levels = cluster.finalized or {}
    return refused(None, [text for _, text in incompatible(generation, levels, node.supported)])


def register_controller(generation: str, cluster: Cluster) -> Registered:
    """Before 3.7 controllers do not register at all; their ranges are not compared."""
    old = cluster.levels().get(METADATA, 1) < CONTROLLERS
    if number(generation) >= (3, 7) and old:
        return refused(UNSUPPORTED, [TOO_OLD])
    return ACCEPTED


def lacks_directories(cluster: Cluster, node: Node) -> bool:
    asked_for = cluster.levels().get(METADATA, 1) >= DIRECTORIES
    return asked_for and minor(node.release) < (3, 7)


def register_broker(generation: str, cluster: Cluster, node: Node) -> Registered:
    """3.3 to 3.7: only what the broker lists and what is finalized. 3.8: everything it lists; what
    is not finalized counts as 0. From 3.9 on also what is finalized but not listed, as [0, 0].
    metadata.version, when a broker does not list it, is as the oldest release would."""
    release, levels = number(generation), {METADATA: 1} | cluster.levels()
    oldest = 1 if release <= (3, 9) else 7
    spans = {METADATA: (oldest, oldest)} if METADATA not in node.supported else {}
    spans = node.supported | spans
    what, wants = "version", "It wants a version between"
    if release <= (3, 7):
        spans = {name: span for name, span in spans.items() if name in levels}
    elif release >= (3, 9):
        levels[KRAFT] = cluster.raft
        spans |= {name: (0, 0) for name, level in levels.items() if level and name not in spans}
        what, wants = "finalized version", "The broker wants a version between"
    start = f"Unable to register because the broker does not support {what}"
    return refused(
        UNSUPPORTED,
        [
            f"{start} {levels.get(name, 0)} of {name}. {wants} {span[0]} and {span[1]}, inclusive."
            for name, span in spans.items()
            if outside(levels.get(name, 0), span)
        ],
    )


def register_by_the_texts(cluster: Cluster, node: Node) -> Registered:
    """Every finalized level has to be in the range of every node that joins."""
    said = []
    for name, level in sorted(cluster.levels().items()):
        span = node.supported.get(name)
        if level > 0 and (span is None or outside(level, span)):
            said.append(f"The broker does not support level {level} of {name}.")
    return refused(UNSUPPORTED, said)


def incompatible(
    generation: str, finalized: dict[str, Range], supported: dict[str, Range]
) -> list[tuple[str, str]]:
    """What does not fit a broker in ZooKeeper mode: names, and the reason it logs.

    2.7 to 3.2 want the whole finalized range inside their own, 3.3 to 3.9 the level.
    """
    found = []
    for name, (low, level) in finalized.items():
        span = supported.get(name)
        if span is None:
            found.append((name, "Unsupported feature"))
            continue
        unfit = outside(level, span) or (generation == "zk-2.7" and outside(low, span))
        if unfit:
            said = str(level)
            if generation == "zk-2.7":
                said = f"FinalizedVersionRange[min_version_level:{low}, max_version_level:{level}]"
            own = f"SupportedVersionRange[min_version:{span[0]}, max_version:{span[1]}]"
            found.append((name, f"{said} is incompatible with {own}"))
    return found


def unfit_nodes(generation: str, cluster: Cluster) -> list[Node]:
    """ZooKeeper mode: the running brokers that would stop if they looked at the node now."""
    if minor(cluster.ibp) < (2, 7) or cluster.status != "Enabled":
        return []
    levels = cluster.finalized or {}
    running = [node for node in cluster.brokers() if node.running]
    return [node for node in running if incompatible(generation, levels, node.supported)]


def replays(node: Node, feature: str, level: int) -> str | None:
    """KRaft: the words with which a node ends over a finalized level; None: it goes on."""
    if node.role == CONTROLLER:
        span = node.supported.get(feature, (0, 0))
        if not outside(level, span):
            return None
        record = f"FeatureLevelRecord(name='{feature}', featureLevel={level})"
        return (
            f"Tried to apply FeatureLevelRecord {record}, but this controller only supports "
            f"versions {range_text(*span)}"
        )
    low, high = KNOWN[minor(node.release)]
    if feature != METADATA or low <= level <= high:
        return None  # a broker takes any level of another feature
    if minor(node.release) >= (4, 0):
        valid = f"Valid feature levels are from {low} to {high}."
        return f"No MetadataVersion with feature level {level}. {valid}"
    return f"No MetadataVersion with feature level {level}"
