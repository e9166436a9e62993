"""What a plan depends on: every change of the world that may matter is seen, and no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from featurelib.catalogue import load
from featurelib.model import Requirements
from featurelib.planning.requirements import having_a_say, require
from tests.core.lines import judge_clusters
from tests.core.oracle import METADATA, Cluster, Node
from tests.core.random_clusters import RELEASES

ELR, GROUP, SHARE = "eligible.leader.replicas.version", "group.version", "share.version"
FEATURES = (ELR,)
OLD, NEW = RELEASES["4.1"], RELEASES["4.2"]
KRAFT = Cluster(
    name="c",
    nodes=(
        Node(node_id=1, ranges=OLD, levels={METADATA: 25, GROUP: 1}, epoch=900),
        Node(node_id=2, ranges=OLD),
        Node(node_id=11, role="controller", ranges=NEW),
    ),
    voters=(11,),
    stored={METADATA: 25, GROUP: 1},
)


def of(cluster: Cluster, position: int = 0, features: tuple[str, ...] = FEATURES) -> Requirements:
    """The requirements of a cluster between two others, in one batch."""
    other = replace(KRAFT, name="a")
    batch = [other] * position + [replace(cluster, name="b")] + [replace(KRAFT, name="z")]
    evidence = judge_clusters(*batch).evidence
    assert evidence is not None
    return require(evidence, position, features, load())


def nodes(change: Callable[[list[Node]], object]) -> Cluster:
    changed = list(KRAFT.nodes)
    change(changed)
    return replace(KRAFT, nodes=tuple(changed))


def test_levels_are_what_is_finalized_and_nodes_are_all_that_answer() -> None:
    required = of(KRAFT)
    assert required.levels == {METADATA: 25, GROUP: 1}
    assert required.features_node_version is None
    assert [(g.brokers, g.controllers) for g in required.nodes] == [((1, 2), ()), ((), (11,))]
    assert {name for group in required.nodes for name in group.ranges} == {ELR, METADATA}
    assert required.nodes[0].ranges == {ELR: (0, 1), METADATA: OLD[METADATA]}


def test_what_depends_on_what_has_a_say() -> None:
    assert having_a_say([ELR], load()) == {ELR, METADATA}
    assert having_a_say(["f"], load()) == {"f", METADATA}


@pytest.mark.parametrize(
    "other",
    [
        nodes(lambda n: n.append(Node(node_id=3, ranges=OLD))),
        nodes(lambda n: n.append(Node(node_id=3, ranges=OLD, fenced=True))),
        nodes(lambda n: n.append(Node(node_id=12, role="controller", ranges=NEW))),
        nodes(lambda n: n.pop(1)),
        nodes(lambda n: n.__setitem__(1, Node(node_id=2, ranges=NEW))),
        nodes(lambda n: n.__setitem__(1, Node(node_id=5, ranges=OLD))),
        nodes(lambda n: n.__setitem__(1, Node(node_id=2, ranges=OLD | {ELR: (0, 2)}))),
        nodes(lambda n: n.__setitem__(0, replace(n[0], levels={METADATA: 26, GROUP: 1}))),
        nodes(lambda n: n.__setitem__(0, replace(n[0], levels={METADATA: 25}))),
        nodes(lambda n: n.__setitem__(0, replace(n[0], levels={METADATA: 25, GROUP: 1, "x": 1}))),
        replace(
            KRAFT,
            nodes=tuple(
                replace(n, role="controller") if n.node_id == 2 else n for n in KRAFT.nodes
            ),
        ),
    ],
)
def test_a_world_that_may_answer_otherwise_is_another(other: Cluster) -> None:
    stored = dict(other.nodes[0].levels or {})
    assert of(replace(other, stored=stored)) != of(KRAFT)


@pytest.mark.parametrize(
    "same",
    [
        nodes(lambda n: n.reverse()),
        nodes(lambda n: n.__setitem__(0, replace(n[0], epoch=990))),
        nodes(lambda n: n.__setitem__(1, Node(node_id=2, ranges=OLD | {SHARE: (0, 1)}))),
        nodes(lambda n: n.__setitem__(1, Node(node_id=2, ranges=OLD | {"x": (1, 7)}))),
        nodes(lambda n: n.__setitem__(1, replace(n[1], fenced=True))),
    ],
)
def test_what_decides_nothing_is_not_required(same: Cluster) -> None:
    assert of(same) == of(KRAFT)


def test_in_zookeeper_mode_the_features_node_s_version_is_required() -> None:
    node = Node(node_id=1, ranges={"f": (1, 3)})
    cluster = Cluster(name="z", zookeeper=True, nodes=(node,), stored={"f": 1})
    required = of(cluster, features=("f",))
    assert required.features_node_version == 5
    assert required.nodes[0].ranges == {"f": (1, 3)}
