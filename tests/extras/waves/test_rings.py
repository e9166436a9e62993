"""Waves over random fleets: what holds of every plan of waves, and of every gate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

import featurelib.extras.waves.rings
from featurelib.catalogue import Dependency, load
from featurelib.errors import PlanError
from featurelib.extras.waves.gates import (
    StepState,
    WaveGate,
    WaveNight,
    WaveStatus,
    WorkState,
    waves_status,
)
from featurelib.extras.waves.rings import (
    Candidate,
    Standings,
    WaveCommand,
    WaveFile,
    WaveHeld,
    WaveMove,
    WavePlan,
    WaveReached,
    WaveWork,
    Waving,
    Why,
    faults,
    part_moves,
    put_in_rings,
    read_waves,
)
from tests.core.scale import some
from tests.report.schema_check import expect_made_of

SCHEMA = Path(featurelib.extras.waves.rings.__file__).with_name("waves.schema.json")
FLEETS = some(1000)  # drawn by plain dice: a few milliseconds each
METADATA, GROUP, SHARE = "metadata.version", "group.version", "share.version"
LABELS, VALUES = ("environment", "region"), ("test", "production", "")
DAY = timedelta(days=1)
START = datetime(2026, 11, 1, tzinfo=UTC)


def move(feature: str, low: int, high: int, *, way_back: bool) -> WaveMove:
    return WaveMove(
        feature=feature,
        from_level=low,
        to_level=high,
        way_back=way_back,
        no_return=None if way_back else high,
    )


def work(cluster: str, *moves: WaveMove, turn: int = 1) -> WaveWork:
    does = (WaveCommand(by="", moves=moves, command="…"),)
    return WaveWork(cluster=cluster, name=cluster, owner=None, contact=None, does=does, turn=turn)


def draw_candidate(dice: Random, name: str) -> Candidate:
    """One with some steps, each with a way back or without one, never two alike in a row."""
    first, steps, level = dice.choice((True, False)), dice.randint(1, 4), dice.choice((7, 21, 25))
    works = []
    for i in range(steps):
        way_back = first == (i % 2 == 0)
        up = move(METADATA, level + i, level + i + 1, way_back=way_back)
        works.append((way_back, work(name, up, turn=i + 1)))
    labels = {label: dice.choice(VALUES) for label in LABELS}
    return Candidate(
        works=tuple(works),
        kind=tuple((one.from_level, one.to_level) for _, w in works for one in w.moves),
        nodes=dice.randint(0, 9),
        labels={label: value for label, value in labels.items() if value},
    )


def draw_fleet(dice: Random) -> tuple[list[Candidate], Waving]:
    """A fleet, and its waves as somebody wants them."""
    members = [draw_candidate(dice, f"c-{i}") for i in range(dice.randint(0, 14))]
    wanted = Waving(
        by={
            label: dice.choice(((), ("test",), ("production", "test")))
            for label in dice.choice(((), LABELS[:1], LABELS, LABELS[::-1]))
        },
        soak=dice.choice(("24h", "3d")),
        max_parallel=dice.randint(1, 6),
    )
    return members, wanted


def planned(members: Sequence[Candidate], wanted: Waving) -> WavePlan:
    return WavePlan(
        target="4.1",
        level=27,
        tables="tables",
        run=1,
        as_of="",
        catalogue="",
        part=None,
        by=tuple(wanted.by),
        max_parallel=wanted.max_parallel,
        rings=put_in_rings(members, wanted),
        held=(),
        reached=(),
    )


def expect_canaries_first(members: Sequence[Candidate], plan: WavePlan) -> None:
    kinds = {one.cluster: one.kind for one in members}
    seen: set[tuple[object, ...]] = set()
    for ring in plan.rings:
        mine = [kinds[cluster] for cluster in ring.clusters]
        if ring.name.endswith("canary"):
            assert len(mine) <= plan.max_parallel
            assert len(set(mine)) == len(mine)
            assert not seen.intersection(mine)
        seen.update(mine)
    if len(plan.rings) == 1:
        assert len({tuple(map(one.labels.get, plan.by)) for one in members}) <= 1
    if not plan.by and len(members) > 1:
        assert plan.rings[0].name == "canary"


@pytest.mark.no_cover
def test_the_waves_of_a_thousand_fleets_are_right_in_any_order() -> None:
    for seed in range(FLEETS):
        dice = Random(seed)
        members, wanted = draw_fleet(dice)
        plan = planned(members, wanted)
        expect_right(members, plan)
        assert planned(dice.sample(members, len(members)), wanted) == plan, seed
        expect_gates(plan, draw_nights(dice, plan))


def expect_right(members: Sequence[Candidate], plan: WavePlan) -> None:
    """What holds of every ring and step."""
    assert list(faults(plan)) == []
    assert sorted(plan.clusters) == sorted(one.cluster for one in members)  # each in one place
    order: dict[str, list[WaveWork]] = {}
    for step in plan.steps:
        assert all(1 <= len(batch) <= plan.max_parallel for batch in step.batches)
        # No step has both what has a way back and what has none, and none a cluster twice.
        assert {one.way_back for w in step.works for one in w.moves} == {step.way_back}
        assert len({w.cluster for w in step.works}) == len(step.works)
        for w in step.works:
            order.setdefault(w.cluster, []).append(w)
    # Nothing of a cluster is lost or told in another order.
    assert order == {one.cluster: [w for _, w in one.works] for one in members}
    expect_canaries_first(members, plan)


def test_values_go_in_the_order_that_is_named_and_clusters_without_one_last() -> None:
    members = [
        Candidate(
            works=((True, work(name, move(GROUP, 0, 1, way_back=True))),),
            kind=(name[0],),
            nodes=nodes,
            labels={"environment": name[0], "place": name[-1]} if "-" in name else {},
        )
        for name, nodes in (("p-1", 9), ("p-2", 3), ("t-1", 3), ("t-2", 3), ("x", 1))
    ]
    named = planned(members, Waving(by={"environment": ("p",)}))
    assert [ring.name for ring in named.rings] == [
        "environment=p canary",
        "environment=p",
        "environment=t canary",
        "environment=t",
        "no environment",
    ]
    first, _, later, *_ = (ring.about.partition(",")[0] for ring in named.rings)
    assert (first, later) == ("before all others", "before the others of it")
    by_size = planned(members, Waving(by={"environment": ()}))
    assert [ring.name.removesuffix(" canary") for ring in by_size.rings][::2] == [
        "environment=t",
        "environment=p",
        "no environment",
    ]
    both = planned(members, Waving(by={"environment": ("p",), "place": ("2",)}))
    assert [ring.name for ring in both.rings] == [
        "environment=p, place=2",
        "environment=p, place=1",
        "environment=t, place=2",
        "environment=t, place=1",
        "no environment, no place",
    ]


# --- Parts of one cluster -------------------------------------------------------------------------

CATALOGUE = load()
OTHERS = sorted({one.feature for one in CATALOGUE.levels})


def draw_moves(dice: Random) -> tuple[dict[str, int], list[WaveMove]]:
    """Levels that fit together, and moves to others that do."""

    def whole(metadata: int, least: dict[str, int]) -> dict[str, int]:
        levels = {METADATA: metadata}
        for name in OTHERS:
            known = [n for n in CATALOGUE.whole.known_levels(name) if n >= least.get(name, 0)]
            levels[name] = dice.choice(known or [least.get(name, 0)])
        while unmet := CATALOGUE.whole.unmet(levels):
            for need in unmet:
                levels[need.feature] = least.get(need.feature, 0)
        return levels

    low = dice.randint(7, 33)
    before = whole(low, {})
    after = whole(dice.randint(low, 33), before)
    moves = [
        move(name, before[name], level, way_back=dice.choice((True, False)))
        for name, level in after.items()
        if level > before[name]
    ]
    return before, moves


@pytest.mark.no_cover
def test_parts_pass_one_after_the_other() -> None:
    for seed in range(FLEETS):
        dice = Random(seed)
        levels, moves = draw_moves(dice)
        theirs = {name for name in (METADATA, *OTHERS) if dice.random() < 0.4}
        parts = part_moves(moves, frozenset(theirs), levels, CATALOGUE)
        assert parts is not None, seed
        now = dict(levels)
        for way_back, by_owner, some_moves in parts:
            assert {(one.way_back, one.feature in theirs) for one in some_moves} == {
                (way_back, by_owner)
            }
            now |= {one.feature: one.to_level for one in some_moves}
            assert CATALOGUE.whole.unmet(now) == ()
        sent = [one.feature for _, _, some_moves in parts for one in some_moves]
        assert sorted(sent) == sorted(one.feature for one in moves)


# --- Gates ----------------------------------------------------------------------------------------

AT, BEHIND, CRITICAL, UNKNOWN = WorkState


def draw_nights(dice: Random, plan: WavePlan) -> list[WaveNight]:
    """Some nights, the newest first, in which clusters go up, are critical, or are not known."""
    works = [w for step in plan.steps for w in step.works]
    all_go = dice.random() < 0.5
    done = dice.randint(0, len(plan.steps)) if all_go else len(plan.steps)
    nights = []
    for night in range(dice.randint(1, 6)):
        levels: dict[str, dict[str, int | None]] = {}
        for w in works:
            for one in w.moves:
                levels.setdefault(w.cluster, {}).setdefault(one.feature, one.from_level)
        for step in plan.steps[:done]:
            for w in step.works:
                if all_go or dice.random() < 0.75:
                    levels[w.cluster] |= {one.feature: one.to_level for one in w.moves}
        lost, hit = (dice.choice([None] * 6 + [w.cluster for w in works]) for _ in range(2))
        if lost is not None:
            levels[lost] = dict.fromkeys(levels[lost], None)
        critical = frozenset() if hit is None else frozenset({hit})
        nights.append(WaveNight(as_of=START - night * DAY, levels=levels, critical=critical))
    return nights


NOBODY = Standings(candidates=(), held=(), reached=())


def healthy(plan: WavePlan, k: int, nights: list[WaveNight], soak: timedelta) -> tuple[bool, bool]:
    """The plain oracle: whether a step is at its levels tonight, and has been for its soak."""
    states = [{night.state(w) for w in plan.steps[k].works} for night in nights]
    if states[0] != {AT}:
        return False, False
    first = nights[0].as_of
    for night, found in zip(nights, states, strict=True):
        if BEHIND in found or CRITICAL in found:
            break
        if found == {AT}:
            first = night.as_of
    return True, nights[0].as_of - first >= soak


def expect_gates(plan: WavePlan, nights: list[WaveNight]) -> None:
    """No gate opens before its time."""
    status = waves_status(plan, 2, nights, NOBODY)
    soak = timedelta(days=3 if plan.steps and plan.steps[0].soak == "3d" else 1)
    found = [healthy(plan, k, nights, soak) for k in range(len(plan.steps))]
    for k, (step, (there, soaked)) in enumerate(zip(status.steps, found, strict=True)):
        is_open = all(at for at, _ in found[:k]) and (k == 0 or found[k - 1][1])
        assert (step.state is StepState.DONE) == (there and soaked)
        assert (step.state is StepState.SOAKING) == (there and not soaked)
        assert (step.state is StepState.OPEN) == (is_open and not there)
        assert len(step.next) <= plan.max_parallel
        assert bool(step.next) == (step.state is StepState.OPEN)
        assert bool(step.waits or step.waits_until) == (not is_open)
    assert (status.gate is WaveGate.DONE) == all(at and soaked for at, soaked in found)
    assert (status.gate is WaveGate.OPEN) == any(step.next for step in status.steps)


def two_steps(soak: str = "2d") -> WavePlan:
    """A ring of a cluster that goes up with a way back, then without one."""
    there = Candidate(
        works=(
            (True, work("c", move(GROUP, 0, 1, way_back=True))),
            (False, work("c", move(METADATA, 21, 25, way_back=False), turn=2)),
        ),
        kind=(),
        nodes=3,
    )
    return planned([there], Waving(soak=soak))


def nights_of(*levels: tuple[int | None, int]) -> list[WaveNight]:
    """Nights of that cluster, the newest first: its levels of the two."""
    return [
        WaveNight(
            as_of=START - i * DAY, levels={"c": {GROUP: g, METADATA: m}}, critical=frozenset()
        )
        for i, (g, m) in enumerate(levels)
    ]


def states(status: WaveStatus) -> list[str]:
    return [str(step.state) for step in status.steps]


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ([(0, 21)], ["open", "closed"]),
        ([(1, 21)], ["soaking", "closed"]),
        ([(1, 21), (1, 21), (1, 21)], ["done", "open"]),
        ([(1, 21), (None, 21), (1, 21), (0, 21)], ["done", "open"]),  # a night without an answer
        ([(None, 21), (1, 21), (1, 21), (1, 21)], ["open", "closed"]),  # tonight it has to be known
        ([(1, 21), (0, 21), (1, 21), (1, 21)], ["soaking", "closed"]),  # it went back in between
        ([(1, 25), (1, 25)], ["soaking", "soaking"]),  # sent before its gate opened
        ([(1, 25)] * 3, ["done", "done"]),
    ],
)
def test_a_gate_opens_after_the_soak(
    levels: list[tuple[int | None, int]], expected: list[str]
) -> None:
    status = waves_status(two_steps(), 2, nights_of(*levels), NOBODY)
    assert states(status) == expected
    assert [bool(step.ahead) for step in status.steps] == [
        False,
        levels[0] == (1, 25) and len(levels) < 3,
    ]


def test_a_critical_finding_closes_the_gate_again() -> None:
    nights = nights_of(*[(1, 21)] * 4)
    nights[0] = replace(nights[0], critical=frozenset({"c"}))
    status = waves_status(two_steps(), 2, nights, NOBODY)
    assert states(status) == ["open", "closed"]
    assert [wait.state for wait in status.steps[1].waits] == [CRITICAL]


@pytest.mark.parametrize(
    ("why", "gate"), [("UNKNOWN", "unknown"), ("BLOCKED", "closed"), ("critical", "closed")]
)
def test_where_nothing_may_be_done_the_gate_says_what_is_missing(why: Why, gate: str) -> None:
    held = WaveHeld(cluster="c", name="c", owner=None, contact=None, why=why, unlocks=())
    tonight = replace(NOBODY, held=(held,))
    assert waves_status(two_steps(), 2, nights_of((0, 21)), tonight).gate == gate


def test_what_is_no_longer_ready_is_said_beside_what_may_be_done() -> None:
    held = WaveHeld(cluster="c", name="c", owner=None, contact=None, why="BLOCKED", unlocks=())
    new = WaveReached(cluster="new", name="new")
    tonight = Standings(candidates=(), held=(held,), reached=(new,))
    status = waves_status(two_steps(), 2, nights_of((0, 21)), tonight)
    assert [one.held for one in status.steps[0].next] == [held]
    assert (status.strangers, status.unlocked) == (("new",), ())


# --- The file -------------------------------------------------------------------------------------


def written(change: Any = None) -> str:
    file = WaveFile(format="featurelib.waves", version=1, waves=two_steps())
    document = json.loads(msgspec.json.encode(file))
    if change is not None:
        change(document)
    return json.dumps(document)


def test_what_is_written_reads_back() -> None:
    assert read_waves(written(), "w.json") == two_steps()


def test_the_schema_that_ships_is_the_types() -> None:
    expect_made_of(WaveFile, SCHEMA)


def steps(document: Any) -> Any:
    return document["waves"]["rings"][0]["steps"]


def twice(document: Any) -> None:
    document["waves"]["reached"].append({"cluster": "c", "name": "c"})


def mixed(document: Any) -> None:
    steps(document)[0]["batches"][0][0]["does"] += steps(document)[1]["batches"][0][0]["does"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (twice, "cluster 'c' is in 2 places, and may be in one only"),
        (mixed, "metadata.version: all changes of this step must be reversible"),
        (lambda d: d["waves"].update(max_parallel=0), "max_parallel: expected 1 or more, found 0"),
        (
            lambda d: steps(d)[0].update(soak="soon"),
            "expected a time as 30m, 24h or 7d, found 'soon'",
        ),
        (lambda d: steps(d)[0]["batches"].clear(), "rings[0].steps[0].batches has no cluster"),
        (lambda d: steps(d).clear(), "rings[0].steps is empty"),
        (lambda d: steps(d)[0]["batches"][0][0].update(does=[]), "has no level to upgrade"),
        (
            lambda d: steps(d)[0]["batches"][0].append(steps(d)[0]["batches"][0][0]),
            "has cluster 'c' 2 times",
        ),
        (lambda d: steps(d).reverse(), "cluster 'c': expected turn 1, found 2: the turns of"),
        (
            lambda d: steps(d)[1]["batches"][0][0]["does"][0]["moves"][0].update(
                feature=GROUP, from_level=0
            ),
            "is at level 1 after the turn before",
        ),
        (
            lambda d: steps(d)[0]["batches"][0][0]["does"][0]["moves"][0].update(to_level=0),
            "0 to 0 is not an upgrade",
        ),
        (
            lambda d: steps(d)[0]["batches"][0].extend([steps(d)[0]["batches"][0][0]] * 5),
            "expected at most 5 clusters, found 6",
        ),
        (lambda d: d.update(version=2), "its format is 'featurelib.waves' version 2"),
        (lambda d: d["waves"].pop("rings"), "missing required field `rings`"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(change: Any, said: str) -> None:
    with pytest.raises(PlanError) as refused:
        read_waves(written(change), "w.json")
    assert said in str(refused.value)
    assert str(refused.value).startswith("w.json: ")


def test_what_has_a_way_back_is_not_put_after_what_has_none() -> None:
    members = [
        Candidate(works=((back, work(name, move(GROUP, 0, 1, way_back=back))),), kind=(), nodes=1)
        for name, back in (("a", True), ("b", False))
    ]
    plan = planned(members, Waving(max_parallel=1))
    whole = replace(plan.rings[0], steps=plan.steps)
    assert [one.way_back for one in whole.steps] == [True, False]
    assert list(faults(replace(plan, rings=(whole,)))) == []
    turned = replace(plan, rings=(replace(whole, steps=whole.steps[::-1]),))
    assert list(faults(turned)) == [
        "rings[0].steps[1]: cluster 'a': put reversible changes before irreversible changes of a "
        "cluster"
    ]


@pytest.mark.parametrize(
    "text", ["", "[]", "3", "{", "[" * 100_000, '{"format": "featurelib.plan"}']
)
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(PlanError, match="This is not a plan of waves"):
        read_waves(text, "w.json")


def test_changes_that_need_each_other_across_a_point_of_no_return_have_no_order() -> None:
    both = [("f", "g"), ("g", "f")]
    needs = tuple(Dependency(feature=one, level=1, other=other, least=1) for one, other in both)
    catalogue = replace(CATALOGUE, whole=replace(CATALOGUE.whole, dependencies=needs))
    levels = {METADATA: 33, "f": 0, "g": 0}
    alike = [move(name, 0, 1, way_back=True) for name in "fg"]
    assert part_moves(alike, frozenset(), levels, catalogue) == [(True, False, alike)]
    apart = [move("f", 0, 1, way_back=True), move("g", 0, 1, way_back=False)]
    assert part_moves(apart, frozenset(), levels, catalogue) is None
    # What no move fixes is no question of order: in ZooKeeper mode there is no metadata.version.
    assert part_moves(alike[:1], frozenset(), {}, CATALOGUE) == [(True, False, alike[:1])]
