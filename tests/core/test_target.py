"""What the search for targets proposes and what refuses it, on batches of unlike clusters."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from featurelib.audit import evidence as facts
from featurelib.audit.target import Judge, bounds, search
from featurelib.catalogue import ANY, Catalogue, Dependency
from featurelib.catalogue import load as load_catalogue
from featurelib.core.dialect import load as load_dialect
from tests.core.lines import conditions, judge_clusters, lines_of, snapshot, steps
from tests.core.oracle import BROKER, CONTROLLER, METADATA, Cluster, Node, Range
from tests.core.recorded import mappings

ELR, KRAFT, GROUP = "eligible.leader.replicas.version", "kraft.version", "group.version"
TRANSACTION = "transaction.version"
NEW: dict[str, Range] = {
    METADATA: (7, 25), ELR: (0, 1), "f": (1, 5), GROUP: (0, 1), TRANSACTION: (0, 2)
}  # fmt: skip
OLD: dict[str, Range] = {**NEW, METADATA: (7, 22), "f": (2, 3)}


def node(node_id: int, ranges: dict[str, Range], **change: object) -> Node:
    return replace(Node(node_id=node_id, ranges=ranges), **change)


def kraft(name: str, *nodes: Node, voters: tuple[int, ...], **stored: int) -> Cluster:
    levels = {METADATA: stored.pop("metadata", 0), **stored}
    spoken = replace(nodes[0], levels=levels, epoch=900)
    return Cluster(name=name, nodes=(spoken, *nodes[1:]), voters=voters, stored=levels)


ROLL = kraft(
    "roll", node(1, NEW), node(2, OLD), node(3, OLD), node(11, NEW, role=CONTROLLER),
    voters=(11,), metadata=20, f=2,
)  # fmt: skip
UNREGISTERED = kraft(
    "unregistered", node(1, NEW), node(11, NEW, role=CONTROLLER), voters=(11, 12, 13), metadata=17
)
FRESH = kraft("fresh", node(1, NEW), node(11, NEW, role=CONTROLLER), voters=(11,))
OFF = Cluster(name="off", zookeeper=True, nodes=(node(1, {"f": (1, 5)}),), system_off=True)
MIGRATING = Cluster(name="migrating", zookeeper=True, nodes=(node(1, {"f": (1, 5)}),), voters=(11,))
ALL = (ROLL, OFF, UNREGISTERED, MIGRATING, FRESH)


def judging(*clusters: Cluster, catalogue: Catalogue | None = None) -> Judge:
    catalogue = catalogue or load_catalogue()
    batch = snapshot({cluster.name: lines_of(cluster) for cluster in clusters})
    evidence = facts.read(batch, conditions(clusters), absent_metadata=1)
    return Judge(evidence, bounds(evidence, catalogue), load_dialect("strict"), catalogue)


def depending(*chain: Dependency) -> Catalogue:
    """The catalogue with other dependencies between its features."""
    catalogue = load_catalogue()
    tables = catalogue.tables
    rows = [
        (tables.release_code(ANY), tables.feature_code(d.feature), d.level,
         tables.feature_code(d.other), d.least)
        for d in chain
    ]  # fmt: skip
    changed = replace(tables, dependencies=np.array(rows, dtype=np.int16))
    whole = replace(catalogue.whole, dependencies=chain)
    return replace(catalogue, whole=whole, tables=changed)


def question(judge: Judge, cluster: str, feature: str) -> int:
    asked = judge.asked
    at = judge.evidence.clusters.index(cluster), asked.names.index(feature)
    [found] = np.flatnonzero((asked.cluster == at[0]) & (asked.feature == at[1]))
    return int(found)


def levels(judge: Judge, **wanted: int) -> np.ndarray:
    """Current levels, but for `cluster__feature`."""
    level = judge.asked.current.copy()
    names = {"mv": METADATA, "elr": ELR, "group": GROUP, "transaction": TRANSACTION}
    for place, value in wanted.items():
        cluster, feature = place.split("__")
        level[question(judge, cluster, names.get(feature, feature))] = value
    return level


def refused(judge: Judge, wanted: np.ndarray) -> dict[str, list[tuple[str, str]]]:
    """For each rule that refuses something: the clusters and features."""
    proposed = judge.propose(wanted, wanted > judge.asked.current)
    return {
        row.code: [of(judge, question) for question in proposed.questions[hit].tolist()]
        for _, row, hit in proposed.by_row()
    }


def of(judge: Judge, question: int) -> tuple[str, str]:
    asked = judge.asked
    return judge.evidence.clusters[asked.cluster[question]], asked.names[asked.feature[question]]


CHAIN = (
    Dependency(feature=TRANSACTION, level=2, other=GROUP, least=1),
    Dependency(feature=TRANSACTION, level=2, other=METADATA, least=21),
    Dependency(feature=TRANSACTION, level=1, other="share.version", least=1),
    Dependency(feature=GROUP, level=1, other=METADATA, least=22),
)


@pytest.mark.parametrize(
    ("metadata", "group", "transaction", "expected"),
    [
        (21, 1, 2, [GROUP]), (22, 1, 2, []), (22, 0, 2, [TRANSACTION]), (20, 1, 0, [GROUP]),
        (25, 1, 1, [TRANSACTION]),
    ],
)  # fmt: skip
def test_a_dependency_is_looked_up_in_the_proposed_state_of_the_same_cluster(
    metadata: int, group: int, transaction: int, expected: list[str]
) -> None:
    judge = judging(FRESH, ROLL, UNREGISTERED, catalogue=depending(*CHAIN))
    wanted = levels(
        judge, roll__mv=metadata, roll__group=group, roll__transaction=transaction, fresh__mv=25
    )
    found = refused(judge, wanted).get("dependency_unmet", [])
    assert found == [("roll", feature) for feature in expected]


def test_what_is_not_known_to_be_finalized_refuses_nothing_in_its_cluster() -> None:
    judge = judging(FRESH, ROLL, catalogue=depending(*CHAIN))
    judge.asked.known[question(judge, "roll", METADATA)] = False
    wanted = levels(judge, roll__group=1, fresh__group=1)
    assert refused(judge, wanted) == {"dependency_unmet": [("fresh", GROUP)]}
    assert ("roll", GROUP) in resting(judge, wanted, ~judge.asked.known)


def test_a_level_rests_on_what_it_depends_on() -> None:
    judge = judging(FRESH, ROLL, catalogue=depending(*CHAIN))
    wanted = levels(judge, roll__transaction=2, roll__mv=25, fresh__group=1, fresh__mv=25)
    for cluster, feature, expected in (
        ("roll", GROUP, {"roll"}), ("roll", METADATA, {"roll"}), ("fresh", METADATA, {"fresh"}),
        ("roll", ELR, set()), ("roll", "f", set()),
    ):  # fmt: skip
        others = np.arange(len(wanted)) == question(judge, cluster, feature)
        hit = resting(judge, wanted, others)
        assert {name for name, _ in hit} == expected


MODES = (
    OFF,
    FRESH,
    Cluster(name="migrating", zookeeper=True, nodes=(node(1, NEW),), voters=(11,)),
    Cluster(name="zookeeper", zookeeper=True, nodes=(node(1, NEW),)),
    Cluster(name="unclear", registry="live", nodes=(node(1, NEW),)),
)


def resting(judge: Judge, wanted: np.ndarray, others: np.ndarray) -> set[tuple[str, str]]:
    return {of(judge, at) for at in np.flatnonzero(judge.rests_on(wanted, others)).tolist()}


def test_every_level_rests_on_metadata_version_but_under_zookeeper_alone() -> None:
    judge = judging(*MODES)
    asked = judge.asked
    its_own = asked.feature == asked.names.index(METADATA)
    wanted = np.where(its_own | (asked.feature == asked.names.index("f")), 2, 0)
    raft = {(name, "f") for name in ("fresh", "migrating", "unclear")}
    assert resting(judge, wanted, its_own) == raft
    assert resting(judge, wanted, ~its_own) == set()
    here = its_own & (np.arange(len(wanted)) == question(judge, "migrating", METADATA))
    assert resting(judge, wanted, here) == {("migrating", "f")}
    assert resting(judge, wanted * 0, its_own) == set()


@pytest.mark.parametrize(
    ("level", "known", "rests"),
    [(6, True, True), (7, True, False), (8, True, False), (25, False, True), (0, False, True)],
)
def test_a_metadata_version_known_to_be_enough_is_not_rested_on(
    level: int, known: bool, rests: bool
) -> None:
    """7, 3.3-IV3, is what 4.0 and later ask for before they store a level of another feature."""
    judge = judging(OFF, FRESH)
    one = question(judge, "fresh", METADATA)
    judge.asked.current[one], judge.asked.known[one] = level, known
    others = np.arange(len(judge.asked.current)) == one
    expected = {("fresh", "f")} if rests else set()
    assert resting(judge, levels(judge, fresh__f=1), others) == expected


def targets(judge: Judge, ceiling: np.ndarray) -> dict[tuple[str, str], int]:
    return {of(judge, at): level for at, level in enumerate(search(judge, ceiling).tolist())}


def test_a_level_falls_with_what_it_depends_on_and_no_further() -> None:
    judge = judging(ROLL, catalogue=depending(*CHAIN))
    assert targets(judge, levels(judge, roll__mv=21, roll__group=1))["roll", GROUP] == 0
    found = targets(judge, levels(judge, roll__mv=25, roll__group=1, roll__transaction=2))
    assert (found["roll", METADATA], found["roll", GROUP]) == (22, 1)
    assert found["roll", TRANSACTION] == 0  # the default from metadata.version 24 on


def test_a_level_that_is_refused_step_by_step_ends_where_nodes_take_it() -> None:
    # 2 needs what is not there; 1 is below what one node takes: the current one stays. Who refuses
    # 2 as well does not cost a level more.
    catalogue = depending(Dependency(feature=TRANSACTION, level=2, other=METADATA, least=30))
    for ends, target in (((0, 2), 1), ((1, 2), 1), ((2, 2), 0), ((0, 1), 1)):
        narrow = node(2, {**NEW, TRANSACTION: ends})
        c = kraft("c", node(1, NEW), narrow, voters=(), metadata=25)
        judge = judging(c, OFF, catalogue=catalogue)
        assert targets(judge, levels(judge, c__transaction=2))["c", TRANSACTION] == target


def test_a_level_that_no_catalogue_knows_is_lowered_to_where_it_is() -> None:
    judge = judging(OFF)
    assert targets(judge, levels(judge, off__f=5))["off", "f"] == 0


# --- Defaults by metadata.version -----------------------------------------------------------------

TOOLS = {"4.0": "4.0.1", "4.1": "4.1.2", "4.2": "4.2.1", "4.3": "4.3.1", "4.4": "4.4.0"}
LINES = ("3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9", *TOOLS)
PAIRS = list(itertools.combinations(LINES, 2))


def mapping(old: str, new: str) -> dict[str, int]:
    """What `version-mapping --release-version OLD` of the newer tool says, recorded from real
    Kafka; before 4.0 no tool has that command, and the one of 4.0 stands for them."""
    tool = {(who, of): levels for who, of, levels in mappings()}[TOOLS.get(new, "4.0.1"), old]
    assert tool is not None
    return tool


def mixed(old: str, new: str, role: str, level: int = 0) -> Cluster:
    """A cluster of the older release with one node of the newer one, at this metadata.version or,
    for 0, the older release's newest."""
    ranges = {name: load_catalogue().of(name).ranges() for name in (old, new)}
    level = level or ranges[old][METADATA][1]
    said = {"levels": {METADATA: level}, "epoch": 900}
    nodes = [node(i, ranges[old], **said) for i in (1, 2)]
    nodes.append(node(11, ranges[old], role=CONTROLLER))
    nodes.append(node(12 if role == CONTROLLER else 3, ranges[new], role=role))
    voters = tuple(one.node_id for one in nodes if one.role == CONTROLLER)
    cluster = kraft(f"mixed-{old}-{new}-{role}", *nodes, voters=voters, metadata=level)
    return replace(cluster, controllers_listed=True)


@pytest.mark.parametrize("level", [0, 7])
@pytest.mark.parametrize("role", [BROKER, CONTROLLER])
def test_newer_software_on_one_node_makes_no_level_a_default(role: str, level: int) -> None:
    """What is planned in a mixed cluster is the newer tool's mapping of the older release, never
    what the newest node would bring: no less, too, but for what is asked for by name."""
    catalogue, clusters = load_catalogue(), [mixed(*pair, role, level) for pair in PAIRS]
    judged = judge_clusters(*clusters)
    rows, plans = judged.readiness.to_pylist(), judged.plans.to_pylist()
    for (old, new), cluster in zip(PAIRS, clusters, strict=True):
        mine = [row for row in rows if row["cluster"] == cluster.name]
        ready = {row["feature"]: row["target"] for row in mine if row["verdict"] == "READY"}
        [steps] = [row["steps"] for row in plans if row["cluster"] == cluster.name]
        assert {move["feature"]: move["to_level"] for move in steps} == ready
        assert ready == {
            name: target
            for name, target in mapping(old, new).items()
            if target > cluster.stored.get(name, 0)
            and name in catalogue.of(old).ranges()
            and target not in catalogue.only_by_name(name)
        }, (old, new)


def test_the_whole_way_is_planned_once_all_nodes_are_of_the_newer_release() -> None:
    ranges = load_catalogue().of("4.2").ranges()
    nodes = [node(1, ranges), node(11, ranges, role=CONTROLLER)]
    judged = judge_clusters(
        replace(kraft("all", *nodes, voters=(11,), metadata=27), controllers_listed=True)
    )
    moved = {move["feature"]: move["to_level"] for move in steps(judged)}
    assert (moved[METADATA], moved["share.version"], moved["streams.version"]) == (29, 1, 1)
