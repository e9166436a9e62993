"""Random clusters for the laws and the oracle: real releases and made-up features, mixed."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from hypothesis import strategies as st

from tests.core.oracle import BROKER, CONTROLLER, METADATA, STALE, Cluster, Node, Range

T = TypeVar("T", Node, Cluster)
KRAFT, TRANSACTION, GROUP = "kraft.version", "transaction.version", "group.version"
ELR, SHARE, STREAMS = "eligible.leader.replicas.version", "share.version", "streams.version"
FOUR = {KRAFT: (0, 1), TRANSACTION: (0, 2), GROUP: (0, 1), ELR: (0, 1)}
RELEASES: dict[str, dict[str, Range]] = {
    "says nothing of it": {KRAFT: (0, 1)},
    "3.6": {METADATA: (1, 14)},
    "3.9": {METADATA: (1, 21), KRAFT: (0, 1)},
    "4.0": {METADATA: (7, 25), **FOUR},
    "4.1": {METADATA: (7, 27), **FOUR, SHARE: (0, 1)},
    "4.2": {METADATA: (7, 29), **FOUR, SHARE: (0, 1), STREAMS: (0, 1)},
    "4.3 unstable": {METADATA: (7, 31), **FOUR, SHARE: (0, 1), STREAMS: (0, 1)},
    "4.4": {METADATA: (7, 33), **FOUR, SHARE: (0, 2), STREAMS: (0, 1)},
    "unheard of": {METADATA: (9, 40), **FOUR, GROUP: (0, 3), SHARE: (1, 2), STREAMS: (0, 1)},
}
MADE_UP: list[dict[str, Range]] = [
    {"f": (1, 5)},
    {"f": (2, 3), "g": (1, 1)},
    {"f": (0, 4)},
    {"g": (4, 9)},
    {"f": (1, 2), "h": (1, 7)},
]
FINALIZED: list[dict[str, int]] = [
    {},
    {METADATA: 7},
    {METADATA: 14},
    {METADATA: 14, "f": 2},
    {METADATA: 21, KRAFT: 1},
    {METADATA: 22, GROUP: 1},
    {METADATA: 25, TRANSACTION: 2, GROUP: 1, ELR: 1},
    {METADATA: 27, TRANSACTION: 1, "f": 1, "g": 2},
    {METADATA: 33, TRANSACTION: 2, GROUP: 1, ELR: 1, SHARE: 2, STREAMS: 1},
    {METADATA: 40, GROUP: 3},
    {METADATA: 9, "f": 3, "h": 7},
]
# A dump without control records does not show kraft.version: -1.
HIDDEN: list[dict[str, int]] = [{METADATA: 21, KRAFT: -1}, {METADATA: 7, KRAFT: -1}]
# Numbers in a features node that are more than 16 bits, or less than a level.
WIDE = (65536, 65537, 65539, 32768, -3)


def rarely(usual: object, *others: object) -> st.SearchStrategy[object]:
    """`usual` about four times in five."""
    return st.sampled_from([usual] * (4 * len(others)) + list(others))


@st.composite
def node(draw: st.DrawFn, node_id: int, role: str, builds: list[dict[str, Range]]) -> Node:
    listed = draw(rarely(True, False))
    answered = draw(rarely(0, None, 2, STALE))
    failed = draw(rarely(None, 0))
    if failed == 0 and answered == 0:
        answered = None
    return Node(
        node_id=node_id,
        role=role,
        ranges=draw(st.sampled_from(builds)),
        listed=bool(listed),
        says_nothing=bool(draw(rarely(False, True))),
        fenced=role == BROKER and bool(draw(rarely(False, True))),
        answered=answered,  # type: ignore[arg-type]
        failed=failed,  # type: ignore[arg-type]
        asked_version=4 if draw(rarely(True, False)) else 3,
    )


@st.composite
def builds(draw: st.DrawFn, releases: bool) -> list[dict[str, Range]]:
    """What the nodes of one cluster run: mostly one build, in a roll two."""
    some = draw(
        st.lists(st.sampled_from([*RELEASES, "4.3 unstable", "4.4"]), min_size=1, max_size=2)
    )
    extra = draw(st.lists(st.sampled_from(MADE_UP), max_size=2))
    found = [dict(RELEASES[name]) if releases else {} for name in some]
    return [{**base, **more} for base in found for more in extra or [{}]]


@st.composite
def kraft(draw: st.DrawFn, name: str = "k") -> Cluster:
    """A KRaft cluster; whoever speaks of finalized levels says the same, but not always."""
    of = draw(builds(True))
    brokers = [draw(node(i, BROKER, of)) for i in range(1, 1 + draw(st.integers(0, 3)))]
    controllers = [draw(node(i, CONTROLLER, of)) for i in range(11, 11 + draw(st.integers(0, 2)))]
    in_log = draw(st.sampled_from([*FINALIZED, *FINALIZED, *HIDDEN]))
    stored = {name: level for name, level in in_log.items() if level > 0}
    spoken = []
    # Controllers say one thing at one epoch here, brokers may contradict each other.
    quorum = draw(rarely({METADATA: 1} | stored, draw(st.sampled_from(FINALIZED))))
    for one in [*brokers, *controllers]:
        if one.answered is None or draw(rarely(False, True)):
            spoken.append(one)
            continue
        said = draw(rarely({METADATA: 1} | stored, draw(st.sampled_from(FINALIZED))))
        levels = quorum if one.role == CONTROLLER else said
        # Whoever answered earlier had read less of the log.
        epoch = 1000 - one.answered
        spoken.append(with_changes(one, levels=levels, epoch=epoch))
    voters: list[int] | None = [one.node_id for one in controllers]
    if draw(rarely(False, True)):
        voters = [*(voters or []), 19]
    if draw(rarely(False, True)):
        voters = None
    drawn = Cluster(
        name=name,
        registry=str(draw(rarely("log", "fenced", "fenced", "live", "none"))),
        registry_age=int(str(draw(rarely(1, STALE - 1)))),
        controllers_listed=bool(draw(st.booleans())),
        nodes=tuple(spoken),
        voters=None if voters is None else tuple(voters),
        stored=in_log,
        expected_brokers=draw(rarely((), (1, 5))),  # type: ignore[arg-type]
        vouched=bool(draw(rarely(False, True))),
        controllers_vouched=bool(draw(rarely(False, True))),
        tool=bool(draw(rarely(False, True))),
    )
    # Not drawn: with one more draw the rarest codes would come later than the laws look.
    left = (None, (), (11,), (11, 19), (55,), (11, 55))[(len(spoken) + len(in_log)) % 6]
    return with_changes(drawn, refused=drawn.tool and drawn.controllers_listed, configured=left)


@st.composite
def zookeeper(draw: st.DrawFn, name: str = "z") -> Cluster:
    """A ZooKeeper-mode cluster, rarely with a quorum beside it: a migration."""
    of = draw(builds(False))
    brokers = [draw(node(i, BROKER, of)) for i in range(1, 1 + draw(st.integers(0, 3)))]
    stored = {n: v for n, v in draw(st.sampled_from(FINALIZED)).items() if n in "fgh"}
    wide = draw(st.sampled_from([*[None] * 8, *WIDE]))
    if wide is not None:
        stored["f"] = wide
    content = draw(st.sampled_from(["on", "on", "on", "off", "absent"]))
    # Who answers knows the levels, but for a broker that saw the node deleted.
    epochs = [draw(st.sampled_from([5, 5, -1])) for _ in brokers]
    seen = [with_changes(one, epoch=at) for one, at in zip(brokers, epochs, strict=True)]
    return Cluster(
        name=name,
        zookeeper=True,
        nodes=tuple(with_changes(one, asked_version=4) for one in seen),
        stored=stored,
        system_off=content == "off",
        features_node=content != "absent",
        schema=draw(st.sampled_from([2, 2, 1])),
        controller=draw(st.sampled_from([1, 1, 1, 1, 1, 2, 9, None])),
        voters=(19,) if draw(rarely(False, True)) else None,
        registry_age=int(str(draw(rarely(1, STALE - 1)))),
        vouched=bool(draw(rarely(False, True))),
    )


def clusters(most: int = 4) -> st.SearchStrategy[list[Cluster]]:
    """A batch of clusters, each with a name of its own."""
    several = st.lists(st.one_of(kraft(), kraft(), zookeeper()), min_size=2, max_size=most)
    return several.map(
        lambda some: [with_changes(one, name=f"cluster-{i}") for i, one in enumerate(some)]
    )


def with_changes(one: T, **changes: object) -> T:
    """A copy of a node or cluster with some fields changed."""
    return replace(one, **changes)
