"""What nobody lists: before 4.0 only the controller knows every registration, so it is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from featurelib.backends.base import Abilities, is_honoured, may_prove
from featurelib.config.fleet import Fleet
from featurelib.controller.apply import Mode
from featurelib.core.outcome import EndingKind
from featurelib.errors import OutcomeUnknownError, RefusedError, StalePlanError, UnreachableError
from featurelib.model import Move, Plan, Step
from tests.backends.clusters import broker
from tests.controller.clusters import OLD, Bench, Wrapped, bench, kraft, vouched

GHOST = broker(
    7, supported={"metadata.version": (1, 20)}, release="3.8.1", fenced=True, running=False
)
UNLISTED = "evidence: expected complete, found No recent data shows which brokers are registered"
NEVER = Abilities(mode="kraft", validate_only=False)
ZOOKEEPER = Abilities(mode="zk", validate_only=True)


def at_39(folder: Path, level: int = 20, *steps: int, **how: Any) -> tuple[Bench, Plan, Wrapped]:
    """A cluster of 3.9 that nobody lists broker 7 of, and its plan to 21, or by these steps, made
    by its owner's word, which is then taken back."""
    it = bench(folder, kraft(level, release="3.9.2", ranges=OLD), fleet=vouched("c-1", "3.9.2"))
    plan = it.plan(up={"metadata.version": "21"})
    if steps:
        plan = it.by_hand(*([("metadata.version", n - 1, n, "UPGRADE")] for n in steps))
    it.fleet = Fleet()
    return it, plan, it.wrapped(unlisted=GHOST.node_id, **how)


def haunt(it: Bench) -> None:
    there = it.cluster.cluster
    it.cluster.put(replace(there, nodes=(*there.nodes, GHOST)), 101)


def test_the_controller_is_asked_once_and_its_yes_stands_for_what_nobody_lists(
    tmp_path: Path,
) -> None:
    it, plan, wrapped = at_39(tmp_path)
    assert it.apply(plan, wrapped, mode=Mode.VALIDATE).kind is EndingKind.VALIDATED
    assert (wrapped.sent, it.levels()) == ([(plan.steps[0], True)], {"metadata.version": 20})
    wrapped.sent.clear()
    assert it.apply(plan, wrapped).kind is EndingKind.APPLIED
    assert wrapped.sent == [(plan.steps[0], True), (plan.steps[0], False)]
    assert it.levels() == {"metadata.version": 21}
    assert any(
        "the controller knows all of them, so its response decides" in text for text in it.said
    )


def test_a_registration_that_nobody_listed_refuses_in_the_controller_s_words(
    tmp_path: Path,
) -> None:
    it, plan, wrapped = at_39(tmp_path)
    haunt(it)
    ending = it.apply(plan, wrapped)
    assert (ending.kind, ending.kind.exit_code) == (EndingKind.REJECTED, 3)
    [refused] = ending.steps[0].updates
    assert "Broker 7 only supports versions 1-20" in (refused.message or "")
    assert wrapped.sent == [(plan.steps[0], True)]
    assert (it.levels(), it.fates()) == ({"metadata.version": 20}, [])


def test_a_ghost_in_the_way_of_the_second_step_stops_after_the_first(tmp_path: Path) -> None:
    it, plan, wrapped = at_39(tmp_path, 19, 20, 21)
    haunt(it)
    assert it.apply(plan, wrapped).kind is EndingKind.STOPPED
    assert wrapped.written == [plan.steps[0]]
    assert it.levels() == {"metadata.version": 20}


@pytest.mark.parametrize(
    ("how", "order", "error", "words"),
    [
        ({}, {"mode": Mode.REHEARSE}, StalePlanError, (UNLISTED, "--validate-only asks")),
        ({"stopped": 13}, {}, StalePlanError, (UNLISTED, "broker 13", "Once the rest is seen")),
        ({"validated": OutcomeUnknownError("cut")}, {}, UnreachableError, ("Nothing was written",)),
        ({"abilities_": NEVER}, {}, StalePlanError, (UNLISTED, "make a new plan")),
        ({"abilities_": ZOOKEEPER}, {}, StalePlanError, (UNLISTED, "make a new plan")),
    ],
    ids=["a dry run", "anything else in the way", "no answer", "it would write", "ZooKeeper mode"],
)
def test_where_it_is_not_asked_or_does_not_answer_nothing_is_proven_or_sent(
    tmp_path: Path,
    how: dict[str, Any],
    order: dict[str, Any],
    error: type[RefusedError],
    words: tuple[str, ...],
) -> None:
    happens = dict(how)
    stopped = happens.pop("stopped", None)
    it, plan, wrapped = at_39(tmp_path, **happens)
    if stopped:
        it.cluster.stop(stopped)
    with pytest.raises(error) as told:
        it.apply(plan, wrapped, **order)
    assert [text for text in words if text not in str(told.value)] == []
    assert ("make a new plan" in str(told.value)) == ("make a new plan" in words or bool(stopped))
    assert wrapped.sent == ([(plan.steps[0], True)] if "validated" in how else [])
    assert it.fates() == []


def test_whoever_may_speak_for_the_cluster_has_to_honour_it_and_kraft_version_never_does(
    tmp_path: Path,
) -> None:
    backend = at_39(tmp_path)[2]
    plain, raft = (
        Step(
            updates=(Move(feature=name, from_level=0, to_level=1, upgrade_type="UPGRADE"),),
            timeout_ms=1,
        )
        for name in ("f", "kraft.version")
    )
    assert may_prove(backend, ["kraft-3.9", "kraft-3.8"], plain)
    assert not may_prove(backend, ["kraft-4.1"], raft)
    assert not is_honoured(backend, ["kraft-3.9", "zk-3.3"])
    assert not is_honoured(backend, [])  # nobody knows who answers
