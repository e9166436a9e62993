"""Plans against exhaustive search, against the slow oracle, and their laws."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from featurelib.catalogue import Catalogue
from featurelib.core.cluster import Cluster
from featurelib.core.dialect import load
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role, UpgradeType
from featurelib.planning.goal import (
    Direction,
    Goal,
    Move,
    downgrade_all,
    explicit,
    level_of,
    release_version,
    upgrade_all,
)
from featurelib.planning.steps import Plan, Task, plan
from tests.core import scale
from tests.core.made_up import (
    CATALOGUE,
    TOP,
    Needs,
    catalogue_of,
    kraft,
    levels_of,
    node,
    software,
    zookeeper,
)

State = dict[str, int]
ATOMIC, SINGLES = load("kraft-4.1"), load("kraft-3.9")
EITHER = Direction.EITHER
ALL = dict.fromkeys("abcde", (0, TOP)) | {METADATA_VERSION: (7, 27), KRAFT_VERSION: (0, 1)}


def goal_of(cluster: Cluster, wanted: State) -> Goal:
    moves = [
        Move(
            feature=name,
            current=level_of(cluster, name),
            level=level,
            kind=UpgradeType.UPGRADE
            if level > level_of(cluster, name)
            else UpgradeType.SAFE_DOWNGRADE,
        )
        for name, level in sorted(wanted.items())
        if level != level_of(cluster, name)
    ]
    return Goal(direction=EITHER, moves=tuple(moves))


# --- Exhaustive search ----------------------------------------------------------------------------


def passes(state: State, updates: State, needs: Needs) -> bool:
    """Dependencies hold for what moves, and of what moves, in the whole proposed state."""
    after = state | updates
    for (feature, level), others in needs.items():
        for other, least in others.items():
            unmet = after.get(feature, 0) == level and after.get(other, 0) < least
            if unmet and (feature in updates or other in updates):
                return False
    return True


def fewest(state: State, moves: State, needs: Needs, *, atomic: bool) -> int | None:
    """The least number of requests over every order and partition of the moves; None = none."""

    @cache
    def best(done: frozenset[str]) -> int | None:
        left = sorted(set(moves) - done)
        if not left:
            return 0
        here = state | {name: moves[name] for name in done}
        counts = []
        for size in range(1, len(left) + 1 if atomic else 2):
            for group in itertools.combinations(left, size):
                if size > 1 and KRAFT_VERSION in group:
                    continue
                if not passes(here, {name: moves[name] for name in group}, needs):
                    continue
                if (rest := best(done | set(group))) is not None:
                    counts.append(rest + 1)
        return min(counts, default=None)

    return best(frozenset())


def made_up_case(seed: int, *, atomic: bool) -> tuple[Catalogue, Needs, State, State]:
    random = Random(seed)
    names = "abcde"[: random.randint(1, 5)]
    others = [METADATA_VERSION, *names, *([KRAFT_VERSION] if atomic else [])]
    metadata = range(23, 28) if atomic else range(17, 22)
    needs: dict[tuple[str, int], dict[str, int]] = {}
    for _ in range(random.randint(0, 6)):
        feature = random.choice([*names, *([KRAFT_VERSION] if atomic else [])])
        level = 1 if feature == KRAFT_VERSION else random.randint(1, TOP)
        other = random.choice([name for name in others if name != feature])
        least = random.choice(metadata) if other == METADATA_VERSION else random.randint(1, TOP)
        needs.setdefault((feature, level), {})[other] = 1 if other == KRAFT_VERSION else least
    state = {name: random.randint(0, TOP) for name in names}
    wanted = {name: random.randint(0, TOP) for name in names}
    state[METADATA_VERSION], wanted[METADATA_VERSION] = random.choices(metadata, k=2)
    if atomic and len(names) < 5:
        wanted[KRAFT_VERSION] = random.randint(0, 1)
    return catalogue_of(needs, names), needs, state, wanted


@pytest.mark.parametrize("atomic", [True, False])
def test_a_plan_has_the_fewest_requests_of_every_order_and_partition(atomic: bool) -> None:
    reached = refused = 0
    for seed in range(scale.some(400)):
        catalogue, needs, state, wanted = made_up_case(seed, atomic=atomic)
        release = "4.1" if atomic else "3.9"
        ends = ALL if atomic else ALL | {METADATA_VERSION: (1, 21)}
        cluster = kraft(release, state, supported=ends)
        dialect = ATOMIC if atomic else SINGLES
        moves = {name: n for name, n in wanted.items() if n != state.get(name, 0)}
        least = fewest(state, moves, needs, atomic=atomic)
        found = plan(
            Task(cluster=cluster, goal=goal_of(cluster, wanted), dialect=dialect), catalogue
        )
        if least is None:
            refused += 1
            assert found.refusals, seed
            assert found.steps == (), seed
            assert found.after == cluster, seed
            continue
        reached += 1
        assert found.refusals == (), (seed, found.refusals)
        assert len(found.steps) == least, seed
        assert levels_of(found.after) == {n: v for n, v in (state | wanted).items() if v}, seed
        again = goal_of(found.after, wanted)
        assert plan(Task(cluster=found.after, goal=again, dialect=dialect), catalogue).steps == ()
    assert reached > scale.some(100)
    assert refused > scale.some(50)


@pytest.mark.parametrize(
    ("needs", "requests"),
    [
        ({}, [{"a": 1, "b": 1}, {KRAFT_VERSION: 1}]),
        ({(KRAFT_VERSION, 1): {"a": 1}}, [{"a": 1, "b": 1}, {KRAFT_VERSION: 1}]),
        ({("b", 1): {KRAFT_VERSION: 1}}, [{KRAFT_VERSION: 1}, {"a": 1, "b": 1}]),
        (
            {(KRAFT_VERSION, 1): {"a": 1}, ("b", 1): {KRAFT_VERSION: 1}},
            [{"a": 1}, {KRAFT_VERSION: 1}, {"b": 1}],
        ),
        ({(KRAFT_VERSION, 1): {"b": 1}, ("b", 1): {KRAFT_VERSION: 1}}, []),
        (
            {(KRAFT_VERSION, 1): {"b": 1}, **{(n, 1): {KRAFT_VERSION: 1} for n in "ab"}},
            [],
        ),
    ],
)
def test_kraft_version_goes_as_late_as_what_depends_on_it_lets_it(
    needs: Needs, requests: list[State]
) -> None:
    cluster = kraft("4.1", {METADATA_VERSION: 25}, supported=ALL)
    goal = goal_of(cluster, {"a": 1, "b": 1, KRAFT_VERSION: 1})
    found = plan(Task(cluster=cluster, goal=goal, dialect=ATOMIC), catalogue_of(needs, "ab"))
    assert sent(found) == requests
    assert bool(found.refusals) == (not requests)


# --- Kafka's own dialects -------------------------------------------------------------------------


def sent(found: Plan) -> list[State]:
    return [{u.feature: u.level for u in step.request.updates} for step in found.steps]


def planned(cluster: Cluster, goal: Goal, dialect: str, **how: bool) -> Plan:
    return plan(Task(cluster=cluster, goal=goal, dialect=load(dialect), **how), CATALOGUE)


def codes(found: Plan) -> set[tuple[str, str]]:
    return {(refusal.feature, refusal.code) for refusal in found.refusals}


def test_kraft_version_goes_alone_after_the_others() -> None:
    cluster = kraft("4.2", {METADATA_VERSION: 21})
    goal = upgrade_all(cluster, CATALOGUE, by_name=[KRAFT_VERSION])
    found = planned(cluster, goal, "kraft-4.2")
    assert [sorted(step) for step in sent(found)] == [
        sorted(set(goal.levels) - {KRAFT_VERSION}), [KRAFT_VERSION]
    ]  # fmt: skip
    assert found.steps[1].after == found.after.finalized
    blocked = replace(cluster, nodes=(*cluster.nodes, node(30, Role.BROKER, "3.9")))
    refused = planned(blocked, goal, "kraft-4.2")
    assert (refused.steps, refused.after) == ((), blocked)
    assert (METADATA_VERSION, "unsupported_by_node") in codes(refused)


@pytest.mark.parametrize(("release", "dialect"), [("3.9", "kraft-3.9"), ("4.0", "kraft-4.0")])
def test_kraft_version_is_not_sent_where_it_moves_nothing(release: str, dialect: str) -> None:
    cluster = kraft(release, {METADATA_VERSION: 21})
    newer = tuple(replace(n, release="4.1") for n in cluster.nodes)
    for some in (cluster, replace(cluster, nodes=newer)):
        goal = explicit(some, {KRAFT_VERSION: 1}, Direction.UP, CATALOGUE)
        found = planned(some, goal, dialect)
        assert found.steps == ()
        assert codes(found) <= {
            (KRAFT_VERSION, "nothing_changes"), (KRAFT_VERSION, "raft_voters_not_ready")
        }  # fmt: skip
    assert codes(found) == {(KRAFT_VERSION, "nothing_changes")}
    assert "in vain" in found.refusals[0].message


def test_one_feature_a_request_before_4_0_and_metadata_version_first_up_last_down() -> None:
    ends = software("3.9") | {"transaction.version": (0, 2), "x": (0, 2)}
    cluster = kraft("3.9", {METADATA_VERSION: 17}, supported=ends)
    wanted = {METADATA_VERSION: 21, "x": 2}
    up = planned(cluster, goal_of(cluster, wanted), "kraft-3.9")
    assert sent(up) == [{METADATA_VERSION: 21}, {"x": 2}]
    back = goal_of(up.after, {METADATA_VERSION: 17, "x": 0})
    assert sent(planned(up.after, back, "kraft-3.9")) == [{"x": 0}, {METADATA_VERSION: 17}]


@pytest.mark.parametrize("dialect", ["kraft-3.9", "kraft-4.2"])
def test_stepwise_is_one_known_level_at_a_time(dialect: str) -> None:
    release = dialect.removeprefix("kraft-")
    ends = software(release) | {"group.version": (0, 1)}
    cluster = kraft(release, {METADATA_VERSION: 18}, supported=ends)
    goal = goal_of(cluster, {METADATA_VERSION: 21, "group.version": 1})
    found = planned(cluster, goal, dialect, stepwise=True)
    ladder = [{METADATA_VERSION: n} for n in (19, 20, 21)]
    assert sent(found) == [*ladder, {"group.version": 1}]
    down = goal_of(found.after, {METADATA_VERSION: 19, "group.version": 0})
    back = planned(found.after, down, dialect, stepwise=True)
    assert sent(back) == [{"group.version": 0}, {METADATA_VERSION: 20}, {METADATA_VERSION: 19}]
    steep = planned(
        found.after, goal_of(found.after, {METADATA_VERSION: 17}), dialect, stepwise=True
    )
    assert sent(steep) == [{METADATA_VERSION: n} for n in (20, 19, 18, 17)]
    only = planned(cluster, goal_of(cluster, {METADATA_VERSION: 20}), dialect, stepwise=True)
    assert sent(only) == ladder[:2]
    unknown = replace(cluster, release="")
    assert len(planned(unknown, goal, dialect, stepwise=True).steps) <= 2


def test_what_the_level_depends_on_moves_with_it_or_refuses_it() -> None:
    elr = "eligible.leader.replicas.version"
    cluster = kraft("4.1", {METADATA_VERSION: 22})
    alone = planned(cluster, explicit(cluster, {elr: 1}, EITHER, CATALOGUE), "kraft-4.1")
    assert codes(alone) == {(elr, "dependency_unmet")}
    words_of = {refusal.judge: refusal.message for refusal in alone.refusals}
    assert words_of["kraft-4.1"].endswith("because it depends on metadata.version level 23")
    both = explicit(cluster, {elr: 1, METADATA_VERSION: 23}, EITHER, CATALOGUE)
    assert sent(planned(cluster, both, "kraft-4.1")) == [{elr: 1, METADATA_VERSION: 23}]


def test_a_dependency_is_seen_from_the_other_end() -> None:
    """4.0 lets metadata.version go below what a finalized kraft.version needs."""
    cluster = kraft("4.0", {METADATA_VERSION: 21, KRAFT_VERSION: 1})
    found = planned(cluster, goal_of(cluster, {METADATA_VERSION: 20}), "kraft-4.0")
    assert codes(found) == {(METADATA_VERSION, "dependant_broken")}
    assert {refusal.judge for refusal in found.refusals} == {"strict"}


@pytest.mark.parametrize("unsafe", [False, True])
def test_nothing_lossy_is_planned_without_its_own_word_and_no_kafka_takes_that(
    unsafe: bool,
) -> None:
    cluster = kraft("4.2", {METADATA_VERSION: 25})
    goal = explicit(cluster, {METADATA_VERSION: 22}, EITHER, CATALOGUE, unsafe=unsafe)
    found = planned(cluster, goal, "kraft-4.2")
    judges = {(refusal.judge, refusal.code) for refusal in found.refusals}
    if unsafe:
        assert judges == {("kraft-4.2", "lossy_unsafe_downgrade")}
        assert sent(planned(cluster, goal, "kip")) == [{METADATA_VERSION: 22}]
    else:
        lossy = "lossy_safe_downgrade"
        assert judges == {("kraft-4.2", lossy), ("strict", lossy)}


def test_faults_of_the_goal_are_refusals() -> None:
    cluster = kraft("4.2", {METADATA_VERSION: 25, "share.version": 1})
    goal = release_version(cluster, "4.0-IV0", Direction.UP, CATALOGUE)
    found = planned(cluster, goal, "kraft-4.2")
    assert found.steps == ()
    assert codes(found) == {
        (METADATA_VERSION, "wrong_direction"), ("share.version", "wrong_direction")
    }  # fmt: skip
    assert {refusal.judge for refusal in found.refusals} == {"goal"}


def test_partly_plans_what_can_be_had_and_says_what_cannot() -> None:
    older = node(30, Role.BROKER, "4.0")
    cluster = kraft("4.2", {METADATA_VERSION: 21}, older)
    goal = upgrade_all(cluster, CATALOGUE, by_name=[KRAFT_VERSION])
    found = planned(cluster, goal, "kraft-4.2", partly=True)
    assert sent(found) == [
        {METADATA_VERSION: 25, "transaction.version": 2, "group.version": 1},
        {KRAFT_VERSION: 1},
    ]  # fmt: skip
    blocked = {(METADATA_VERSION, 29), ("share.version", 1), ("streams.version", 1)}
    assert {(refusal.feature, refusal.level) for refusal in found.refusals} == blocked
    assert planned(cluster, goal, "kraft-4.2").steps == ()


def test_partly_says_of_what_fell_with_what_it_depends_on() -> None:
    elr = "eligible.leader.replicas.version"
    old = software("4.2") | {METADATA_VERSION: (7, 22)}
    cluster = kraft("4.2", {METADATA_VERSION: 21}, node(30, Role.BROKER, "", old))
    goal = explicit(cluster, {METADATA_VERSION: 29, elr: 1}, EITHER, CATALOGUE)
    found = planned(cluster, goal, "kraft-4.2", partly=True)
    assert sent(found) == [{METADATA_VERSION: 22}]
    assert (elr, "dependency_unmet") in codes(found)
    lower = explicit(cluster, {METADATA_VERSION: 7}, EITHER, CATALOGUE)
    assert planned(cluster, lower, "kraft-4.2", partly=True).steps == ()


def test_a_voter_has_to_register_only_where_controllers_do() -> None:
    def with_silent_voter(level: int) -> Cluster:
        cluster = kraft("3.7", {METADATA_VERSION: level})
        voter = replace(node(3, Role.CONTROLLER, "3.7"), registered=False)
        return replace(cluster, nodes=(*cluster.nodes, voter))

    young, grown = with_silent_voter(14), with_silent_voter(15)
    assert sent(planned(young, upgrade_all(young, CATALOGUE), "kraft-3.7")) == [
        {METADATA_VERSION: 19}
    ]
    found = planned(grown, upgrade_all(grown, CATALOGUE), "kraft-3.7")
    assert codes(found) == {(METADATA_VERSION, "voter_not_registered")}


# --- ZooKeeper mode -------------------------------------------------------------------------------


@pytest.mark.parametrize(("release", "dialect"), [("2.8", "zk-2.7"), ("3.9", "zk-3.3")])
def test_zookeeper_mode_takes_features_one_by_one_deletes_and_leaves_equals_out(
    release: str, dialect: str
) -> None:
    cluster = zookeeper(release, {"f": (1, 4), "g": (1, 2), "h": (1, 3)}, {"f": 2, "h": 3, "x": 1})
    goal = explicit(cluster, {"f": 1, "g": 2, "h": 3, "x": 0}, EITHER, CATALOGUE)
    found = planned(cluster, goal, dialect)
    assert found.refusals == ()
    assert sent(found) == [{"f": 1}, {"g": 2}, {"x": 0}]
    flags = [step.request.updates[0].allow_downgrade for step in found.steps]
    versions = {step.request.version for step in found.steps}
    assert (flags, versions) == (
        ([True, False, True], {0}) if dialect == "zk-2.7" else ([False] * 3, {1})
    )
    assert levels_of(found.after) == {"f": 1, "g": 2, "h": 3}
    everything = downgrade_all(cluster, "3.9.2", CATALOGUE)
    assert levels_of(planned(cluster, everything, dialect).after) == {}


def test_a_system_that_is_off_or_migrates_refuses_everything() -> None:
    cluster = zookeeper("2.8", {"f": (1, 4)}, {})
    goal = upgrade_all(cluster, CATALOGUE)
    off = planned(replace(cluster, off=True), goal, "zk-2.7", partly=True)
    assert ("", "system_off") in codes(off)
    assert off.steps == ()
    moving = replace(kraft("3.7", {METADATA_VERSION: 15}), migrating=True)
    found = planned(moving, upgrade_all(moving, CATALOGUE), "kraft-3.7", partly=True)
    assert (METADATA_VERSION, "during_zk_migration") in codes(found)
    assert found.steps == ()


def test_a_features_node_that_is_missing_changes_nothing() -> None:
    cluster = replace(zookeeper("2.8", {"f": (1, 4)}, {}), node_missing=True)
    found = planned(cluster, upgrade_all(cluster, CATALOGUE), "zk-2.7")
    assert codes(found) == {("f", "nothing_changes")}


def test_a_controller_that_does_not_see_its_node_is_not_asked() -> None:
    cluster = zookeeper("2.8", {"f": (1, 4), "g": (1, 4)}, {"f": 2, "g": 1})
    goal = explicit(cluster, {"f": 3}, EITHER, CATALOGUE)
    stale = planned(replace(cluster, cached={"f": (1, 2)}), goal, "zk-2.7", partly=True)
    assert (codes(stale), stale.steps) == ({("g", "others_change")}, ())
    blind = planned(replace(cluster, blind=True), goal, "zk-2.7")
    assert (codes(blind), blind.steps) == ({("f", "fails_after_writing")}, ())
