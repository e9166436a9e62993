"""The smallest set of nodes that unlocks a level, against every subset of up to six nodes."""

from __future__ import annotations

import itertools
from dataclasses import replace
from random import Random

import pytest

from featurelib.catalogue import Catalogue
from featurelib.core.cluster import Cluster, Node
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role
from featurelib.findings import Action
from featurelib.planning.reasons import Fix, Unlock, ladder, refusing, unlock
from tests.core import scale
from tests.core.made_up import CATALOGUE, TOP, Needs, catalogue_of, kraft, levels_of, node, software

ELR = "eligible.leader.replicas.version"
State = dict[str, int]


def unlocks(cluster: Cluster, catalogue: Catalogue) -> tuple[Unlock, ...]:
    """Every next level of every feature, by feature and level."""
    names = sorted({n for node in cluster.nodes for n in node.supported} | set(cluster.finalized))
    rungs = {name: ladder(cluster, name, catalogue) for name in names}
    return tuple(unlock(cluster, catalogue, n, level) for n in names for level in rungs[n])


def supports(one: Node, state: State) -> bool:
    ends = {name: one.supported.get(name, (0, 0)) for name in state}
    return all(low <= state[name] <= high for name, (low, high) in ends.items())


def whole(state: State, needs: Needs) -> bool:
    return all(
        state.get(other, 0) >= least
        for (feature, level), others in needs.items()
        if state.get(feature, 0) == level
        for other, least in others.items()
    )


def smallest(cluster: Cluster, needs: Needs, feature: str, level: int, names: str) -> int:
    """The size of the least set of nodes without which the level, and some levels of what it
    depends on, would pass: every subset, every choice of levels above the finalized ones."""
    now = levels_of(cluster)
    others = [name for name in names if name != feature]
    free = [range(now.get(name, 0), TOP + 1) for name in others]
    best = len(cluster.nodes)
    for values in itertools.product(*free):
        state = dict(zip(others, values, strict=True)) | {feature: level}
        if not whole(state, needs):
            continue
        moved = {name: n for name, n in state.items() if n != now.get(name, 0)}
        for size in range(best):
            sets = itertools.combinations(cluster.nodes, size)
            if any(all(supports(n, moved) for n in cluster.nodes if n not in out) for out in sets):
                best = size
                break
    return best


def drawn(seed: int) -> tuple[Catalogue, Needs, Cluster, str]:
    random = Random(seed)
    names = "abc"[: random.randint(1, 3)]
    needs: dict[tuple[str, int], dict[str, int]] = {}
    for _ in range(random.choice([0, 1, 2, 3])):
        at = random.randrange(len(names))
        if at:  # a depends on nothing, b on a, c on both
            other = names[random.randrange(at)]
            needs.setdefault((names[at], random.randint(1, TOP)), {})[other] = random.randint(1, 3)

    def ends() -> dict[str, tuple[int, int]]:
        said = {METADATA_VERSION: (7, 27)}
        for name in names:
            if random.random() < 0.8:
                low = random.choice([0, 0, 0, 1, 2])
                said[name] = low, random.randint(max(low, 1), TOP)
        return said

    count = random.randint(1, 6)
    nodes = [replace(node(0, Role.CONTROLLER, "4.1", ends()))]
    nodes += [node(i, Role.BROKER, "4.1", ends()) for i in range(1, count)]
    state = {name: random.choice([0, 0, 1]) for name in names} | {METADATA_VERSION: 25}
    if not whole(state, needs):
        state = {METADATA_VERSION: 25}
    finalized = {name: (level, level) for name, level in state.items() if level}
    cluster = Cluster(release="4.1", nodes=tuple(nodes), active=0, finalized=finalized)
    return catalogue_of(needs, names), needs, cluster, names


@pytest.mark.no_cover
def test_the_set_is_the_smallest_of_all_subsets_of_up_to_six_nodes() -> None:
    asked = chosen = 0
    for seed in range(scale.some(300)):
        catalogue, needs, cluster, names = drawn(seed)
        for found in unlocks(cluster, catalogue):
            if found.feature not in names:
                continue
            least = smallest(cluster, needs, found.feature, found.level, names)
            assert len(found.fixes) == least, (seed, found)
            asked += 1
            chosen += bool(found.needs)
            if not found.remaining_rules:
                state = dict(found.needs) | {found.feature: found.level}
                out = {(fix.role, fix.node_id) for fix in found.fixes}
                left = [n for n in cluster.nodes if (n.role, n.node_id) not in out]
                assert all(supports(n, state) for n in left)
                assert whole(levels_of(cluster) | state, needs)
    assert asked > scale.some(400)
    assert chosen > scale.some(40)


def by_level(cluster: Cluster, feature: str) -> dict[int, Unlock]:
    return {u.level: u for u in unlocks(cluster, CATALOGUE) if u.feature == feature}


def fixes(*some: tuple[Role, int, Action]) -> tuple[Fix, ...]:
    return tuple(Fix(role=role, node_id=i, action=action) for role, i, action in some)


def test_only_what_kafka_calls_gone_is_unregistered_and_no_controller_below_33() -> None:
    ghost = replace(node(20, Role.BROKER, "3.9"), running=False, gone=True)
    silent = replace(node(21, Role.BROKER, "3.9"), running=False)
    voter = replace(node(3, Role.CONTROLLER, "3.9"), running=False)
    observer = replace(node(4, Role.CONTROLLER, "3.9"), running=False, voter=False, gone=True)
    others = (ghost, silent, voter, observer)
    cluster = kraft("4.0", {METADATA_VERSION: 21}, *others)
    assert by_level(cluster, METADATA_VERSION)[25].fixes == fixes(
        (Role.BROKER, 20, Action.UNREGISTER),
        (Role.BROKER, 21, Action.START),
        (Role.CONTROLLER, 3, Action.START),
        (Role.CONTROLLER, 4, Action.REGISTER_ANEW),
    )
    old = replace(observer, supported=software("4.3"))
    newest = kraft("4.4", {METADATA_VERSION: 33}, old)
    found = by_level(newest, "share.version")
    assert found[2].fixes == fixes((Role.CONTROLLER, 4, Action.UNREGISTER_CONTROLLER))


def test_voters_that_never_registered_are_named_where_they_count() -> None:
    voter = replace(node(3, Role.CONTROLLER, "3.7"), registered=False)
    grown = kraft("3.7", {METADATA_VERSION: 15}, voter)
    found = by_level(grown, METADATA_VERSION)[19]
    assert found.fixes == fixes((Role.CONTROLLER, 3, Action.REGISTER))
    assert found.remaining_rules == ()
    young = replace(grown, finalized={METADATA_VERSION: (14, 14)})
    assert by_level(young, METADATA_VERSION)[19].fixes == ()
    silent = replace(voter, supported={})
    both = replace(young, nodes=(*young.nodes[:-1], silent))
    assert by_level(both, METADATA_VERSION)[19].fixes == fixes((Role.CONTROLLER, 3, Action.UPGRADE))


def test_a_node_too_new_for_a_level_is_told_so() -> None:
    newer = node(20, Role.BROKER, "4.0")
    cluster = kraft("3.9", {METADATA_VERSION: 4}, newer)
    rungs = by_level(cluster, METADATA_VERSION)
    assert rungs[5].fixes == fixes((Role.BROKER, 20, Action.DOWNGRADE))
    assert rungs[7].fixes == ()


def test_what_no_node_can_help_is_said() -> None:
    unstable = software("4.2") | {METADATA_VERSION: (7, 30)}
    cluster = kraft("4.2", {METADATA_VERSION: 29}, supported=unstable)
    found = by_level(cluster, METADATA_VERSION)[30]
    assert (found.fixes, found.remaining_rules, found.release) == ((), ("unstable_level",), "4.3")
    moving = replace(kraft("3.7", {METADATA_VERSION: 18}), migrating=True)
    assert by_level(moving, METADATA_VERSION)[19].remaining_rules == ("during_zk_migration",)
    old = replace(node(9, Role.CONTROLLER, "3.9"), release="3.9")
    voters = kraft("4.2", {METADATA_VERSION: 21}, old)
    assert by_level(voters, KRAFT_VERSION)[1].remaining_rules == ("raft_voters_not_ready",)


def test_a_ladder_has_the_levels_that_matter() -> None:
    nodes = [node(1, Role.BROKER, "2.8", {"f": (2, 9)}), node(2, Role.BROKER, "2.8", {"f": (1, 5)})]
    cluster = Cluster(release="2.8", nodes=tuple(nodes), active=1, finalized={"f": (1, 1)})
    assert ladder(cluster, "f", CATALOGUE) == (2, 5, 9)
    assert ladder(cluster, "nobody", CATALOGUE) == ()
    assert ladder(kraft("4.1", {METADATA_VERSION: 25}), METADATA_VERSION, CATALOGUE) == (26, 27)
    assert unlocks(Cluster(release="2.8"), CATALOGUE) == ()


def test_silence_is_read_as_the_strict_policy_reads_it() -> None:
    silent = node(1, Role.BROKER, "", {})
    asked = [("f", 0), ("f", 1), (METADATA_VERSION, 1), (METADATA_VERSION, 2)]
    assert [bool(refusing([silent], *move)) for move in asked] == [False, True, False, True]


@pytest.mark.parametrize("seed", range(20))
def test_order_of_nodes_and_features_changes_nothing(seed: int) -> None:
    catalogue, _, cluster, _ = drawn(seed)
    finalized = dict(reversed(cluster.finalized.items()))
    turned = replace(cluster, nodes=cluster.nodes[::-1], finalized=finalized)
    assert unlocks(cluster, catalogue) == unlocks(turned, catalogue)
