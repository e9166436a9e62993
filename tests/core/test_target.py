"""What the search for targets asks the rules, column by column, on a batch of unlike clusters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from featurelib.audit import evidence as facts
from featurelib.audit.target import Judge, bounds, search
from featurelib.catalogue import Catalogue, Dependency
from featurelib.catalogue import load as load_catalogue
from featurelib.core.dialect import load as load_dialect
from tests.core.lines import conditions, lines_of, snapshot
from tests.core.oracle import CONTROLLER, METADATA, Cluster, Node, Range

ELR, KRAFT, GROUP = "eligible.leader.replicas.version", "kraft.version", "group.version"
NEW: dict[str, Range] = {METADATA: (7, 25), ELR: (0, 1), "f": (1, 5), GROUP: (0, 1)}
OLD: dict[str, Range] = {METADATA: (7, 22), ELR: (0, 1), "f": (2, 3), GROUP: (0, 1)}


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


def question(judge: Judge, cluster: str, feature: str) -> int:
    asked = judge.asked
    at = judge.evidence.clusters.index(cluster), asked.names.index(feature)
    [found] = np.flatnonzero((asked.cluster == at[0]) & (asked.feature == at[1]))
    return int(found)


def levels(judge: Judge, **wanted: int) -> np.ndarray:
    """Current levels, but for `cluster__feature`."""
    level = judge.asked.current.copy()
    for place, value in wanted.items():
        cluster, feature = place.split("__")
        names = {"mv": METADATA, "elr": ELR, "kraft": KRAFT}
        level[question(judge, cluster, names.get(feature, feature))] = value
    return level


def by_cluster(judge: Judge, values: np.ndarray) -> dict[str, object]:
    return {
        judge.evidence.clusters[int(cluster)]: value
        for cluster, value in zip(judge.asked.cluster, values.tolist(), strict=True)
    }


def test_what_is_true_of_a_cluster_stands_beside_each_of_its_questions() -> None:
    judge = judging(*ALL)
    current = judge.asked.current
    rows = judge.update_rows(current, current)
    names = [cluster.name for cluster in ALL]
    said = {
        column: [by_cluster(judge, getattr(rows, column))[name] for name in names]
        for column in ("asked", "unregistered_voters", "metadata_version", "off", "migrating")
    }
    assert said == {
        "asked": [4, 1, 4, 2, 2],
        "unregistered_voters": [0, 0, 2, 0, 0],
        "metadata_version": [20, 1, 17, 1, 1],
        "off": [False, True, False, False, False],
        "migrating": [False, False, False, True, False],
    }
    assert rows.register_from == 15
    questions, voters = judge.missing_voters(np.arange(len(judge.asked.cluster)))
    found = set(
        zip(
            judge.asked.cluster[questions].tolist(),
            judge.evidence.subjects.node_id[voters].tolist(),
            strict=True,
        )
    )
    assert found == {(2, 12), (2, 13), (3, 11)}


@pytest.mark.parametrize(("dialect", "absent"), [("strict", 1), ("zk-3.3", 0)])
def test_a_metadata_version_that_is_not_finalized_reads_as_the_dialect_says(
    dialect: str, absent: int
) -> None:
    lowest = kraft("lowest", node(1, NEW), voters=(), metadata=1)
    vendors = kraft("vendors", node(1, NEW), voters=(), f=3)
    some = judging(OFF, lowest, ROLL, FRESH, vendors)
    judge = Judge(some.evidence, some.bounds, load_dialect(dialect), some.catalogue)
    assert judge.metadata_version.tolist() == [absent, 1, 20, absent, absent]


def test_whom_a_level_offends() -> None:
    judge = judging(OFF, ROLL)
    asked = judge.asked
    one = question(judge, "roll", "f")
    for level, expected in ((1, [2]), (2, []), (3, []), (4, [3]), (5, [3]), (6, [3, 5])):
        wanted = levels(judge, roll__f=level)
        which = np.arange(len(wanted)) == one
        pairs = judge.offending_pairs(wanted, which)
        ends = asked.pair_min if level == 1 else asked.pair_max
        assert sorted(ends[pairs].tolist()) == expected
        assert set(asked.pair_question[pairs].tolist()) <= {one}
    assert len(judge.offending_pairs(levels(judge, roll__f=6), np.zeros(len(wanted), bool))) == 0


def test_an_answer_that_may_leave_a_feature_out_offends_nobody() -> None:
    full, partial = node(1, {**NEW, "z": (0, 4)}), node(2, NEW, asked_version=3)
    described = kraft("c", full, partial, voters=(), metadata=20)
    judge = judging(replace(described, registry="fenced"))
    one = question(judge, "c", "z")
    unclear = judge.asked.pair_unclear & (judge.asked.pair_question == one)
    assert unclear.sum() == 1
    pairs = judge.offending_pairs(levels(judge, c__z=5), np.arange(len(judge.asked.cluster)) == one)
    assert judge.asked.pair_max[pairs].tolist() == [4]


def test_a_row_asks_the_lowest_end_where_one_is_named() -> None:
    judge = judging(ROLL)
    level, lowest = judge.asked.current + 3, judge.asked.current + 1
    pairs = np.arange(len(judge.asked.pair_question))
    mine = judge.asked.pair_question
    rows = judge.node_rows(level, pairs, lowest)
    assert rows.level.tolist() == level[mine].tolist()
    assert rows.lowest.tolist() == lowest[mine].tolist()
    assert judge.node_rows(level, pairs).lowest.tolist() == level[mine].tolist()
    assert rows.level.dtype == np.int32


CHAIN = (
    Dependency(feature="f", level=5, other=GROUP, least=1),
    Dependency(feature="f", level=5, other=METADATA, least=30),
    Dependency(feature="f", level=4, other=METADATA, least=21),
    Dependency(feature="f", level=4, other=GROUP, least=1),
    Dependency(feature="f", level=1, other=METADATA, least=24),
    Dependency(feature="f", level=1, other=GROUP, least=5),
    Dependency(feature="absent", level=1, other=METADATA, least=9),
    Dependency(feature="f", level=3, other="absent", least=2),
    Dependency(feature=GROUP, level=1, other=METADATA, least=22),
)  # fmt: skip


def chained(*clusters: Cluster) -> Judge:
    return judging(*clusters, catalogue=replace(load_catalogue(), dependencies=CHAIN))


@pytest.mark.parametrize(
    ("level", "needed", "proposed"), [(1, 5, 0), (2, 0, 0), (3, 2, 0), (4, 21, 20), (5, 30, 20)]
)
def test_of_several_dependencies_the_one_most_is_missing_of_is_asked(
    level: int, needed: int, proposed: int
) -> None:
    judge = chained(OFF, ROLL)
    wanted = levels(judge, roll__f=level)
    rows, one = judge.update_rows(wanted, wanted), question(judge, "roll", "f")
    assert (rows.needed[one], rows.proposed[one]) == (needed, proposed)
    others = np.arange(len(wanted)) != one
    assert not rows.needed[others].any()
    assert not rows.proposed[others].any()


def test_a_dependency_is_looked_up_in_the_proposed_state_of_the_same_cluster() -> None:
    judge = chained(FRESH, ROLL, UNREGISTERED)
    wanted = levels(judge, roll__f=4, unregistered__f=4, fresh__f=2)
    state = levels(judge, roll__mv=21, fresh__mv=25, **{"fresh__group.version": 1})
    rows = judge.update_rows(wanted, state)
    said = {
        name: (rows.needed[question(judge, name, "f")], rows.proposed[question(judge, name, "f")])
        for name in ("roll", "unregistered", "fresh")
    }
    assert said == {"roll": (1, 0), "unregistered": (21, 17), "fresh": (0, 0)}
    assert judge.dependency(question(judge, "roll", "f"), 4) == f"{METADATA} 21, {GROUP} 1"
    assert judge.dependency(question(judge, "roll", "f"), 2) == ""
    assert judge.dependency(question(judge, "fresh", METADATA), 4) == ""


def test_what_is_not_known_to_be_finalized_refuses_nothing() -> None:
    judge = chained(ROLL)
    judge.asked.known[question(judge, "roll", METADATA)] = False
    wanted = levels(judge, roll__f=5)
    rows, one = judge.update_rows(wanted, wanted), question(judge, "roll", "f")
    assert (rows.needed[one], rows.proposed[one]) == (1, 0)
    judge.asked.known[question(judge, "roll", GROUP)] = False
    rows = judge.update_rows(wanted, wanted)
    assert (rows.needed[one], rows.proposed[one]) == (0, 0)


def first_and_second() -> Judge:
    """`a` is the very first question; the second cluster knows `f` alone, which depends on it."""
    dependencies = (Dependency(feature="f", level=5, other="a", least=3),)
    both, alone = {"a": (1, 9), "f": (1, 5)}, {"f": (1, 5)}
    first = Cluster(name="first", zookeeper=True, nodes=(node(1, both),), stored={"a": 1})
    second = Cluster(name="second", zookeeper=True, nodes=(node(1, alone),))
    judge = judging(first, second, catalogue=replace(load_catalogue(), dependencies=dependencies))
    assert question(judge, "first", "a") == 0
    return judge


@pytest.mark.parametrize("state", [1, 2, 7])
def test_a_dependency_of_another_cluster_is_none(state: int) -> None:
    judge = first_and_second()
    wanted = levels(judge, first__f=5, second__f=5)
    rows = judge.update_rows(wanted, levels(judge, first__a=state, first__f=5, second__f=5))
    here, there = question(judge, "first", "f"), question(judge, "second", "f")
    expected = (3, state) if state < 3 else (0, 0)
    assert (rows.needed[here], rows.proposed[here]) == expected
    assert (rows.needed[there], rows.proposed[there]) == (3, 0)


def test_what_another_cluster_does_not_know_excuses_nothing() -> None:
    judge = first_and_second()
    wanted = levels(judge, first__f=5, second__f=5)
    here, there = question(judge, "first", "f"), question(judge, "second", "f")
    judge.asked.known[0] = False
    rows = judge.update_rows(wanted, wanted)
    assert (rows.needed[here], rows.proposed[here]) == (0, 0)
    assert (rows.needed[there], rows.proposed[there]) == (3, 0)
    hit = judge.rests_on(wanted, ~judge.asked.known)
    assert np.flatnonzero(hit).tolist() == [here]


def test_a_dependency_is_found_whatever_else_clusters_mention() -> None:
    dependencies = (Dependency(feature="f", level=4, other="b", least=3),)
    every = dict.fromkeys("abcfg", (1, 5))
    some = [
        Cluster(name=name, zookeeper=True, nodes=(node(1, ranges),), stored={"b": 2})
        for name, ranges in (("one", every), ("two", {"b": (1, 5), "f": (1, 5)}), ("three", every))
    ]
    judge = judging(*some, catalogue=replace(load_catalogue(), dependencies=dependencies))
    # Other features at the level that depends do not depend for it.
    wanted = levels(judge, one__f=4, one__a=4, one__g=4, two__f=4, three__f=4, three__c=4)
    rows = judge.update_rows(wanted, wanted)
    mine = [question(judge, name, "f") for name in ("one", "two", "three")]
    assert rows.needed[mine].tolist() == [3, 3, 3]
    assert rows.needed.sum() == 9
    assert rows.proposed[mine].tolist() == [2, 2, 2]
    on_b = judge.asked.feature == judge.asked.names.index("b")
    assert np.flatnonzero(judge.rests_on(wanted, on_b)).tolist() == mine
    assert not judge.rests_on(wanted, ~on_b).any()


def test_a_level_rests_on_what_it_depends_on() -> None:
    judge = chained(FRESH, ROLL)
    wanted = levels(judge, roll__f=5, fresh__f=4)
    for cluster, feature, expected in (
        ("roll", GROUP, {"roll"}), ("roll", METADATA, {"roll"}), ("fresh", METADATA, {"fresh"}),
        ("roll", ELR, set()), ("roll", "f", set()),
    ):  # fmt: skip
        others = np.arange(len(wanted)) == question(judge, cluster, feature)
        hit = judge.rests_on(wanted, others)
        found = {n for n in ("roll", "fresh") if hit[question(judge, n, "f")]}
        assert found == expected
        assert hit.sum() == len(expected)
    assert not judge.rests_on(levels(judge, roll__f=2), np.ones(len(wanted), bool)).any()


MODES = (
    OFF,
    FRESH,
    Cluster(name="migrating", zookeeper=True, nodes=(node(1, NEW),), voters=(11,)),
    Cluster(name="zookeeper", zookeeper=True, nodes=(node(1, NEW),)),
    Cluster(name="unclear", registry="live", nodes=(node(1, NEW),)),
)


def resting(judge: Judge, wanted: np.ndarray, others: np.ndarray) -> set[tuple[str, str]]:
    hit = np.flatnonzero(judge.rests_on(wanted, others))
    places = zip(judge.asked.cluster[hit].tolist(), judge.asked.feature[hit].tolist(), strict=True)
    return {(judge.evidence.clusters[c], judge.asked.names[f]) for c, f in places}


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


def test_a_rule_about_updates_says_which_questions_it_refuses() -> None:
    judge = judging(*ALL)
    wanted = levels(judge, roll__elr=1, off__f=1, unregistered__mv=18, fresh__mv=20, migrating__f=2)
    found = {
        code: sorted((judge.evidence.clusters[c], judge.asked.names[f]) for c, f in zip(
            judge.asked.cluster[hit].tolist(), judge.asked.feature[hit].tolist(), strict=True
        ))
        for code, hit in judge.violations(wanted, wanted)
        if hit.any()
    }  # fmt: skip
    assert found == {
        "dependency_unmet": [("roll", ELR)],
        "system_off": [("off", "f")],
        "during_zk_migration": [("migrating", "f")],
        "voter_not_registered": [("unregistered", METADATA)],
    }


def targets(judge: Judge, ceiling: np.ndarray) -> dict[tuple[str, str], int]:
    found = search(judge, ceiling)
    places = zip(judge.asked.cluster.tolist(), judge.asked.feature.tolist(), strict=True)
    return {
        (judge.evidence.clusters[c], judge.asked.names[f]): level
        for (c, f), level in zip(places, found.tolist(), strict=True)
    }


@pytest.mark.parametrize(
    ("ceiling", "target"), [(2, 2), (3, 3), (4, 3), (5, 3), (6, 3), (9, 3), (1, 2)]
)
def test_the_target_is_the_highest_level_every_node_supports(ceiling: int, target: int) -> None:
    judge = judging(OFF, ROLL)
    wanted = levels(judge, roll__f=ceiling, off__f=5)
    before = wanted.copy()
    found = targets(judge, wanted)
    assert found["roll", "f"] == target
    assert found["off", "f"] == 0
    assert wanted.tolist() == before.tolist()


def test_nothing_is_raised_past_a_gap_between_ranges() -> None:
    low, high = node(1, {**NEW, "f": (1, 2)}), node(2, {**NEW, "f": (4, 5)})
    judge = judging(kraft("gap", low, high, voters=(), metadata=20, f=1))
    assert targets(judge, levels(judge, gap__f=5))["gap", "f"] == 1


def test_a_level_falls_with_what_it_depends_on_and_no_further() -> None:
    judge = chained(ROLL)
    ceiling = levels(judge, roll__mv=21, **{"roll__group.version": 1})
    assert targets(judge, ceiling)["roll", GROUP] == 0
    ceiling = levels(judge, roll__mv=25, **{"roll__group.version": 1})
    found = targets(judge, ceiling)
    assert (found["roll", METADATA], found["roll", GROUP]) == (22, 1)


def test_a_level_that_is_refused_step_by_step_ends_where_nodes_take_it() -> None:
    # 5 needs what is not there, 4 as well; 3 is below what one node takes: the current one stays.
    narrow = node(2, {**NEW, "f": (4, 9)})
    judge = chained(kraft("c", node(1, {**NEW, "f": (1, 9)}), narrow, voters=(), metadata=20, f=2))
    judge.bounds.newest_known[question(judge, "c", "f")] = 5
    assert targets(judge, levels(judge, c__f=5))["c", "f"] == 2
    judge = chained(kraft("c", node(1, {**NEW, "f": (1, 9)}), voters=(), metadata=20, f=1))
    judge.bounds.newest_known[question(judge, "c", "f")] = 5
    assert targets(judge, levels(judge, c__f=5))["c", "f"] == 3 - 1
    judge.bounds.newest_known[question(judge, "c", "f")] = -1
    assert targets(judge, levels(judge, c__f=5))["c", "f"] == 1


def test_a_level_lowered_for_the_clusters_sake_is_put_to_the_nodes_again() -> None:
    dependencies = (Dependency(feature="f", level=5, other=METADATA, least=30),)
    catalogue = replace(load_catalogue(), dependencies=dependencies)
    for lowest, target in ((1, 4), (4, 4), (5, 1)):
        nodes = node(1, {**NEW, "f": (1, 9)}), node(2, {**NEW, "f": (lowest, 9)})
        judge = judging(kraft("c", *nodes, voters=(), metadata=20, f=1), OFF, catalogue=catalogue)
        judge.bounds.newest_known[question(judge, "c", "f")] = 5
        assert targets(judge, levels(judge, c__f=5))["c", "f"] == target
