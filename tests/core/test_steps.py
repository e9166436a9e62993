"""Routes against exhaustive search and against the slow oracle, and their laws."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from featurelib.catalogue import Catalogue
from featurelib.core.cluster import Cluster
from featurelib.core.dialect import Dialect, load
from featurelib.core.dry_run import request_of
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, Role, UpgradeType
from featurelib.model import Move
from featurelib.planning.planner import Route, Router
from tests.core import scale
from tests.core.controllers import model, words
from tests.core.controllers.draw import Drawn, draw
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
from tests.core.oracle_cases import cluster_of

State = dict[str, int]
ATOMIC, SINGLES = load("kraft-4.1"), load("kraft-3.9")
ALL = dict.fromkeys("abcde", (0, TOP)) | {METADATA_VERSION: (7, 27), KRAFT_VERSION: (0, 1)}
ELR = "eligible.leader.replicas.version"


def moves_to(cluster: Cluster, wanted: State, down: str = "SAFE_DOWNGRADE") -> tuple[Move, ...]:
    return tuple(
        Move(
            feature=name,
            from_level=cluster.level(name),
            to_level=level,
            upgrade_type="UPGRADE" if level > cluster.level(name) else down,
        )
        for name, level in sorted(wanted.items())
        if level != cluster.level(name)
    )


def routed(
    cluster: Cluster,
    wanted: State,
    by: str | Dialect,
    catalogue: Catalogue = CATALOGUE,
    **how: bool,
) -> Route:
    dialect = load(by) if isinstance(by, str) else by
    router = Router(cluster=cluster, dialect=dialect, catalogue=catalogue, **how)
    return router.route(moves_to(cluster, wanted))


def sent(found: Route) -> list[State]:
    return [{move.feature: move.to_level for move in step.updates} for step in found.steps]


def codes(found: Route) -> set[tuple[str, str]]:
    return {(refusal.feature, refusal.code) for refusal in found.refusals}


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


@pytest.mark.no_cover
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
        found = routed(cluster, wanted, dialect, catalogue)
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
        assert routed(found.after, wanted, dialect, catalogue).steps == ()
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
        ({(KRAFT_VERSION, 1): {"b": 1}, **{(n, 1): {KRAFT_VERSION: 1} for n in "ab"}}, []),
    ],
)
def test_kraft_version_goes_as_late_as_what_depends_on_it_lets_it(
    needs: Needs, requests: list[State]
) -> None:
    cluster = kraft("4.1", {METADATA_VERSION: 25}, supported=ALL)
    wanted = {"a": 1, "b": 1, KRAFT_VERSION: 1}
    found = routed(cluster, wanted, ATOMIC, catalogue_of(needs, "ab"))
    assert sent(found) == requests
    assert bool(found.refusals) == (not requests)


# --- Kafka's own dialects -------------------------------------------------------------------------


@pytest.mark.parametrize(("release", "dialect"), [("3.9", "kraft-3.9"), ("4.0", "kraft-4.0")])
def test_kraft_version_is_not_sent_where_it_moves_nothing(release: str, dialect: str) -> None:
    cluster = kraft(release, {METADATA_VERSION: 21})
    newer = replace(cluster, nodes=tuple(replace(n, release="4.1") for n in cluster.nodes))
    assert routed(cluster, {KRAFT_VERSION: 1}, dialect).steps == ()
    found = routed(newer, {KRAFT_VERSION: 1}, dialect)
    assert (found.steps, codes(found)) == ((), {(KRAFT_VERSION, "nothing_changes")})
    assert "without a change" in found.refusals[0].message


def test_one_feature_a_request_before_4_0_and_metadata_version_first_up_last_down() -> None:
    ends = software("3.9") | {"transaction.version": (0, 2), "x": (0, 2)}
    cluster = kraft("3.9", {METADATA_VERSION: 17}, supported=ends)
    up = routed(cluster, {METADATA_VERSION: 21, "x": 2}, "kraft-3.9")
    assert sent(up) == [{METADATA_VERSION: 21}, {"x": 2}]
    back = routed(up.after, {METADATA_VERSION: 17, "x": 0}, "kraft-3.9")
    assert sent(back) == [{"x": 0}, {METADATA_VERSION: 17}]


@pytest.mark.parametrize("dialect", ["kraft-3.9", "kraft-4.2"])
def test_stepwise_is_one_known_level_at_a_time(dialect: str) -> None:
    release = dialect.removeprefix("kraft-")
    ends = software(release) | {"group.version": (0, 1)}
    cluster = kraft(release, {METADATA_VERSION: 18}, supported=ends)
    wanted = {METADATA_VERSION: 21, "group.version": 1}
    found = routed(cluster, wanted, dialect, stepwise=True)
    ladder = [{METADATA_VERSION: n} for n in (19, 20, 21)]
    assert sent(found) == [*ladder, {"group.version": 1}]
    down = {METADATA_VERSION: 19, "group.version": 0}
    back = routed(found.after, down, dialect, stepwise=True)
    assert sent(back) == [{"group.version": 0}, {METADATA_VERSION: 20}, {METADATA_VERSION: 19}]
    assert sent(routed(cluster, {METADATA_VERSION: 20}, dialect, stepwise=True)) == ladder[:2]
    assert len(routed(replace(cluster, release=""), wanted, dialect, stepwise=True).steps) <= 2


def test_what_a_level_depends_on_moves_with_it_or_refuses_it_from_both_ends() -> None:
    cluster = kraft("4.1", {METADATA_VERSION: 22})
    alone = routed(cluster, {ELR: 1}, "kraft-4.1")
    assert codes(alone) == {(ELR, "dependency_unmet")}
    words_of = {refusal.judge: refusal.message for refusal in alone.refusals}
    assert words_of["kraft-4.1"].endswith("because it depends on metadata.version level 23")
    both = {METADATA_VERSION: 23, ELR: 1}
    [step] = routed(cluster, both, "kraft-4.1").steps
    assert [move.feature for move in step.updates] == [METADATA_VERSION, ELR]
    # 4.0 lets metadata.version go below what a finalized kraft.version needs.
    lower = kraft("4.0", {METADATA_VERSION: 21, KRAFT_VERSION: 1})
    found = routed(lower, {METADATA_VERSION: 20}, "kraft-4.0")
    assert codes(found) == {(METADATA_VERSION, "dependant_broken")}
    assert {refusal.judge for refusal in found.refusals} == {"strict"}


@pytest.mark.parametrize("kind", ["SAFE_DOWNGRADE", "UNSAFE_DOWNGRADE"])
def test_nothing_lossy_is_planned_without_its_own_word_and_no_kafka_takes_that(kind: str) -> None:
    cluster = kraft("4.2", {METADATA_VERSION: 25})
    router = Router(cluster=cluster, dialect=load("kraft-4.2"), catalogue=CATALOGUE)
    moves = moves_to(cluster, {METADATA_VERSION: 22}, kind)
    judges = {(refusal.judge, refusal.code) for refusal in router.route(moves).refusals}
    if kind == "UNSAFE_DOWNGRADE":
        assert judges == {("kraft-4.2", "lossy_unsafe_downgrade")}
        assert len(replace(router, dialect=load("kip")).route(moves).steps) == 1
    else:
        lossy = "lossy_safe_downgrade"
        assert judges == {("kraft-4.2", lossy), ("strict", lossy)}


def test_a_voter_has_to_register_only_where_controllers_do() -> None:
    voter = replace(node(3, Role.CONTROLLER, "3.7"), registered=False)
    for level, refused in ((14, set()), (15, {(METADATA_VERSION, "voter_not_registered")})):
        cluster = kraft("3.7", {METADATA_VERSION: level}, voter)
        assert codes(routed(cluster, {METADATA_VERSION: 19}, "kraft-3.7")) == refused


@pytest.mark.parametrize(("release", "dialect"), [("2.8", "zk-2.7"), ("3.9", "zk-3.3")])
def test_zookeeper_mode_takes_features_one_by_one_and_deletes(release: str, dialect: str) -> None:
    cluster = zookeeper(release, {"f": (1, 4), "g": (1, 2), "h": (1, 3)}, {"f": 2, "h": 3, "x": 1})
    found = routed(cluster, {"f": 1, "g": 2, "x": 0}, dialect)
    assert (found.refusals, sent(found)) == ((), [{"f": 1}, {"g": 2}, {"x": 0}])
    requests = [request_of(step, load(dialect)) for step in found.steps]
    flags = [request.updates[0].allow_downgrade for request in requests]
    assert flags == [dialect == "zk-2.7" and name in "fx" for name in "fgx"]
    assert levels_of(found.after) == {"f": 1, "g": 2, "h": 3}


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"off": True}, "system_off"),
        ({"node_missing": True}, "nothing_changes"),
        ({"cached": {"f": (1, 2)}}, "others_change"),
        ({"blind": True}, "fails_after_writing"),
    ],
)
def test_a_zookeeper_controller_that_would_do_harm_is_not_asked(
    how: dict[str, object], code: str
) -> None:
    cluster = zookeeper("2.8", {"f": (1, 4), "g": (1, 4)}, {"f": 2, "g": 1})
    if "node_missing" in how:
        cluster = replace(cluster, finalized={})
    found = routed(replace(cluster, **how), {"f": 3}, "zk-2.7")  # type: ignore[arg-type]  # of a row
    assert found.steps == ()
    assert code in {refusal.code for refusal in found.refusals}


# --- Laws -----------------------------------------------------------------------------------------


def passing(router: Router, moves: Sequence[Move]) -> Route:
    """The route of what is left of some moves once the refused ones are left out."""
    while True:
        found = router.route(moves)
        refused = {refusal.feature for refusal in found.refusals}
        fewer = [move for move in moves if move.feature not in refused]
        if not refused or len(fewer) == len(moves):
            return found
        moves = fewer


def expect_oracle_accepts(case: Drawn, found: Route, dialect: Dialect) -> None:
    """The slow oracle takes each step, and has the same levels afterwards."""
    cluster = case.cluster
    for step in found.steps:
        asked = request_of(step, dialect)
        active = cluster.active()
        assert active is not None
        request = words.Request(
            version=asked.version,
            updates=tuple(
                words.Update(u.feature, u.level, int(u.kind), u.allow_downgrade)
                for u in asked.updates
            ),
            timeout_ms=asked.timeout_ms,
            sent_to=active.node_id,
            listener=words.CONTROLLER if cluster.mode == "kraft" else words.BROKER,
        )
        answer = model.answer(case.generation, cluster, request)
        assert all(code == 0 for code in (answer.code, *(r.code for r in answer.results or [])))
        cluster = replace(
            cluster,
            finalized=answer.after,
            status=answer.status,
            kraft_record=answer.kraft_record,
            raft=answer.raft,
        )
    if found.steps:
        after = {n: pair for n, pair in (cluster.finalized or {}).items() if pair[1]}
        assert after == found.after.finalized


GENERATIONS = ["zk-2.7", "zk-3.3", *(f"kraft-{n}" for n in ("3.3", "3.5", "3.7", "3.8", "3.9"))]
GENERATIONS += ["kraft-4.0", "kraft-4.1", "kraft-4.2"]


@pytest.mark.no_cover
@pytest.mark.parametrize("name", GENERATIONS)
def test_the_oracle_takes_every_step_and_afterwards_nothing_is_left(name: str) -> None:
    reached = lowered = 0
    for seed in range(scale.some(120)):
        case, random, dialect = draw(seed, name), Random(seed), load(name)
        cluster = cluster_of(case.cluster)
        names = {n for some in cluster.nodes for n in some.supported} | cluster.finalized.keys()
        high = {n: max(some.range_of(n)[1] for some in cluster.nodes) for n in names}
        wanted = {n: random.choice([high[n], max(0, cluster.level(n) - 1)]) for n in sorted(names)}
        router = Router(cluster=cluster, dialect=dialect, catalogue=CATALOGUE)
        found = passing(router, moves_to(cluster, wanted))
        expect_oracle_accepts(case, found, dialect)
        turned = replace(cluster, nodes=cluster.nodes[::-1])
        assert (
            passing(replace(router, cluster=turned), moves_to(turned, wanted)).steps == found.steps
        )
        if found.steps:
            reached += 1
            moved = {move.feature for step in found.steps for move in step.updates}
            again = moves_to(found.after, {n: wanted[n] for n in moved})
            assert replace(router, cluster=found.after).route(again).steps == ()
            for move in (move for step in found.steps for move in step.updates):
                lowered += move.to_level < move.from_level
                assert move.is_upgrade == (move.to_level > move.from_level)
                assert UpgradeType[move.upgrade_type] is not UpgradeType.UNSAFE_DOWNGRADE
    assert reached > scale.some(8)
    assert lowered > 0
