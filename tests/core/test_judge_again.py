"""A plan's steps are judged again, one after the other, by the policy and whoever may answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from featurelib.core.dialect import GENERATIONS, STRICT, load
from featurelib.core.dry_run import dialect_of, judge_again, request_of, who_may_lead
from featurelib.feature import METADATA_VERSION, Role
from featurelib.model import Move, Step
from tests.core.made_up import CATALOGUE, kraft, node

GROUP = "group.version"
CLUSTER = kraft("4.1", {METADATA_VERSION: 21})


def step(feature: str, before: int, after: int, kind: str = "UPGRADE") -> Step:
    update = Move(feature=feature, from_level=before, to_level=after, upgrade_type=kind)
    return Step(updates=(update,), timeout_ms=60_000)


RAISE, THEN = step(METADATA_VERSION, 21, 25), step(GROUP, 0, 1)


def judged(*steps: Step, releases: tuple[str, ...] = ("4.1",)) -> list[tuple[str, str, int]]:
    """(judge, code, level) of every refusal."""
    said = judge_again(CLUSTER, releases, "kraft", steps, CATALOGUE)
    return [(one.judge, one.code, one.level) for one in said]


def test_a_step_is_judged_on_what_the_one_before_it_leaves() -> None:
    assert judged(RAISE, THEN) == []
    assert judged(RAISE, step(METADATA_VERSION, 25, 21)) != []  # lowers, and does not say so


def test_what_comes_after_a_refused_step_is_not_tried() -> None:
    refused = step(METADATA_VERSION, 21, 99)
    alone = judged(refused)
    assert alone
    assert judged(refused, step(GROUP, 0, 99)) == alone


def test_the_policy_speaks_once_and_each_release_for_itself() -> None:
    refused = step(METADATA_VERSION, 21, 99)
    policy = [one for one in judged(refused) if one[0] == STRICT]
    said = judged(refused, releases=("4.1", "3.9"))
    assert {judge for judge, _, _ in said} == {STRICT, "kraft-4.1", "kraft-3.9"}
    assert [one for one in said if one[0] == STRICT] == policy
    # 4.1 takes 25 and 3.9 does not; the policy judges as the likeliest of the two.
    [(judge, _, _)] = judged(RAISE, releases=("4.1", "3.9"))
    assert judge == "kraft-3.9"


def test_where_nobody_knows_the_active_controller_each_may_be_it() -> None:
    unknown = replace(CLUSTER, active=-1)
    assert who_may_lead(CLUSTER, "kraft") == (CLUSTER,)
    assert [one.active for one in who_may_lead(unknown, "kraft")] == [0, 1, 2]
    brokers = replace(unknown, nodes=tuple(n for n in CLUSTER.nodes if n.role is Role.BROKER))
    assert [one.active for one in who_may_lead(brokers, "kraft")] == [10, 11]
    assert [one.active for one in who_may_lead(unknown, "zk")] == [0, 1, 2, 10, 11]
    nobody = replace(unknown, nodes=())
    assert who_may_lead(nobody, "kraft") == (nobody,)


def test_each_controller_that_may_answer_is_asked() -> None:
    """The one that asks does not count among those it asks: an older one refuses elsewhere."""
    older = node(3, Role.CONTROLLER, "3.9")
    cluster = replace(kraft("4.1", {METADATA_VERSION: 21}, older), active=-1)
    own = [
        (one.judge, one.level)
        for one in judge_again(cluster, ("4.1",), "kraft", [RAISE], CATALOGUE)
        if one.judge != STRICT
    ]
    assert own == [("kraft-4.1", 25)] * len(own)
    assert own


@pytest.mark.parametrize(
    ("dialect", "kind", "version", "allow"),
    [
        ("zk-2.7", "SAFE_DOWNGRADE", 0, True),
        ("zk-2.7", "UPGRADE", 0, False),
        ("kraft-3.9", "SAFE_DOWNGRADE", 1, False),
        ("kraft-4.2", "UPGRADE", 1, False),
    ],
)
def test_a_step_is_asked_in_the_newest_version_that_carries_results(
    dialect: str, kind: str, version: int, allow: bool
) -> None:
    request = request_of(step("f", 2, 1, kind), load(dialect), validate_only=True)
    [update] = request.updates
    assert (request.version, update.allow_downgrade) == (version, allow)
    assert (update.feature, update.level, update.kind.name) == ("f", 1, kind)
    assert (request.validate_only, request.timeout_ms) == (True, 60_000)


def test_controllers_newer_than_all_answer_as_the_newest_there_is() -> None:
    assert dialect_of("9.9", "kraft", CATALOGUE).name == GENERATIONS[-1]
    assert dialect_of("4.0.1", "kraft", CATALOGUE).name == "kraft-4.0"
