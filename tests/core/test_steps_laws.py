"""Laws of plans: the slow oracle takes every step, and afterwards nothing is left to plan."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from featurelib.core.dialect import Dialect, generation_of, load
from featurelib.core.dry_run import answer as ask
from featurelib.feature import KRAFT_VERSION, METADATA_VERSION, UpgradeType
from featurelib.planning.goal import Direction, explicit, upgrade_all
from featurelib.planning.steps import Plan, Task, plan, plans
from tests.core import scale
from tests.core.controllers import model, words
from tests.core.controllers.draw import Drawn, draw
from tests.core.made_up import CATALOGUE, kraft, levels_of
from tests.core.oracle_cases import cluster_of

EITHER = Direction.EITHER


def oracle_accepts(case: Drawn, found: Plan) -> None:
    """The slow oracle takes each step, and has the same levels afterwards."""
    cluster = case.cluster
    for step in found.steps:
        updates = tuple(
            words.Update(u.feature, u.level, int(u.kind), u.allow_downgrade)
            for u in step.request.updates
        )
        active = cluster.active()
        assert active is not None
        listener = words.CONTROLLER if cluster.mode == "kraft" else words.BROKER
        request = words.Request(
            version=step.request.version,
            updates=updates,
            timeout_ms=step.request.timeout_ms,
            sent_to=active.node_id,
            listener=listener,
        )
        answer = model.answer(case.generation, cluster, request)
        assert answer.code == 0, answer
        assert all(result.code == 0 for result in answer.results or [])
        after = {n: pair for n, pair in (answer.after or {}).items() if pair[1]}
        assert after == step.after
        cluster = replace(
            cluster,
            finalized=answer.after,
            status=answer.status,
            kraft_record=answer.kraft_record,
            raft=answer.raft,
        )


def drawn(dialect: str, count: int) -> list[Drawn]:
    return [draw(seed, dialect) for seed in range(count)]


GENERATIONS = ["zk-2.7", "zk-3.3", *(f"kraft-{n}" for n in ("3.3", "3.5", "3.7", "3.8", "3.9"))]
GENERATIONS += ["kraft-4.0", "kraft-4.1", "kraft-4.2"]


@pytest.mark.parametrize("dialect", GENERATIONS)
def test_every_step_of_an_upgrade_all_plan_passes_and_afterwards_nothing_is_left(
    dialect: str,
) -> None:
    cases, tasks = drawn(dialect, scale.some(120)), []
    for case in cases:
        cluster = cluster_of(case.cluster)
        goal = upgrade_all(cluster, CATALOGUE, by_name=[KRAFT_VERSION])
        goal = replace(goal, faults=())
        tasks.append(Task(cluster=cluster, goal=goal, dialect=load(dialect), partly=True))
    found = plans(tasks, CATALOGUE)
    for case, task, one in zip(cases, tasks, found, strict=True):
        oracle_accepts(case, one)
        before = levels_of(task.cluster)
        for step in one.steps:
            for update in step.request.updates:
                assert update.level > before.get(update.feature, 0)
                assert update.kind is UpgradeType.UPGRADE
        if one.steps:
            goal = upgrade_all(one.after, CATALOGUE, by_name=[KRAFT_VERSION])
            again = replace(task, cluster=one.after, goal=replace(goal, faults=()))
            assert plan(again, CATALOGUE).steps == ()
    assert sum(bool(one.steps) for one in found) > scale.some(8)


@pytest.mark.parametrize("dialect", GENERATIONS)
def test_nothing_lowers_a_level_without_a_type_that_says_so(dialect: str) -> None:
    cases, tasks = drawn(dialect, scale.some(250)), []
    for seed, case in enumerate(cases):
        cluster, random = cluster_of(case.cluster), Random(seed)
        wanted = {
            name: max(0, level + random.choice([-2, -1, 0, 1]))
            for name, level in levels_of(cluster).items()
        }
        goal = explicit(cluster, wanted, EITHER, CATALOGUE)
        goal = replace(goal, faults=())
        tasks.append(Task(cluster=cluster, goal=goal, dialect=load(dialect), partly=True))
    lowered = 0
    for case, task, one in zip(cases, tasks, plans(tasks, CATALOGUE), strict=True):
        oracle_accepts(case, one)
        before = levels_of(task.cluster)
        for step in one.steps:
            for update in step.request.updates:
                if update.level < before.get(update.feature, 0):
                    assert update.kind is UpgradeType.SAFE_DOWNGRADE
                    lowered += 1
            before = {name: level for name, (_, level) in step.after.items()}
    assert lowered > 0


@pytest.mark.parametrize("dialect", ["zk-3.3", "kraft-3.9", "kraft-4.2"])
def test_order_of_nodes_and_of_tasks_changes_no_plan(dialect: str) -> None:
    tasks, turned = [], []
    for case in drawn(dialect, scale.some(60)):
        cluster = cluster_of(case.cluster)
        finalized = dict(reversed(cluster.finalized.items()))
        other = replace(cluster, nodes=cluster.nodes[::-1], finalized=finalized)
        for some, into in ((cluster, tasks), (other, turned)):
            goal = replace(upgrade_all(some, CATALOGUE), faults=())
            into.append(Task(cluster=some, goal=goal, dialect=load(dialect), partly=True))
    one, other = plans(tasks, CATALOGUE), plans(turned[::-1], CATALOGUE)[::-1]
    for first, second, task in zip(one, other, tasks, strict=True):
        assert first.steps == second.steps
        assert {(r.judge, r.code, r.feature, r.level) for r in first.refusals} == {
            (r.judge, r.code, r.feature, r.level) for r in second.refusals
        }
        assert plan(task, CATALOGUE) == first


def test_tasks_of_several_dialects_are_planned_together() -> None:
    tasks = []
    for release in ("3.3", "3.9", "4.2"):
        cluster = kraft(release, {METADATA_VERSION: CATALOGUE.of(release).oldest_bootstrap})
        dialect: Dialect = load(generation_of(release, "kraft"))
        tasks.append(Task(cluster=cluster, goal=upgrade_all(cluster, CATALOGUE), dialect=dialect))
    assert [levels_of(one.after)[METADATA_VERSION] for one in plans(tasks, CATALOGUE)] == [
        7,
        21,
        29,
    ]


def test_a_step_is_what_the_controller_answers_to_one_cluster() -> None:
    cluster = kraft("4.2", {METADATA_VERSION: 21})
    goal = upgrade_all(cluster, CATALOGUE)
    task = Task(cluster=cluster, goal=goal, dialect=load("kraft-4.2"))
    [step] = plan(task, CATALOGUE).steps
    said = ask(cluster, step.request, load("kraft-4.2"), CATALOGUE.tables)
    assert (said.reply.code, said.refusals, said.after.finalized) == (0, (), step.after)
