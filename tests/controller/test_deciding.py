"""What nobody lists: before 4.0 only the controller knows every registration, so it is asked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from featurelib.backends.base import Abilities, Backend, Say, is_honoured, may_prove
from featurelib.config.fleet import Fleet
from featurelib.controller.apply import Mode
from featurelib.core.cluster import Node
from featurelib.core.outcome import EndingKind
from featurelib.core.reply import Reply
from featurelib.errors import OutcomeUnknownError, StalePlanError, UnreachableError
from featurelib.feature import Role
from featurelib.model import Move, Plan, Step
from tests.controller.clusters import OLD, Bench, Wrapped, bench, kraft, vouched

GHOST = Node(
    node_id=7,
    role=Role.BROKER,
    supported={"metadata.version": (1, 20)},
    release="3.8.1",
    fenced=True,
    running=False,
)
UNLISTED = "evidence: expected complete, found Nothing fresh shows which brokers are registered"


class Unaware:
    """A backend of whose cluster nobody names broker 7."""

    def __init__(self, inner: Backend) -> None:
        self._inner = inner

    def describe(self, say: Say) -> tuple[bytes, ...]:
        return tuple(x for x in self._inner.describe(say) if json.loads(x).get("node_id") != 7)

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def at_39(folder: Path, level: int = 20) -> Bench:
    """A cluster of 3.9, its owner's word in the inventory."""
    fleet = vouched("c-1", "3.9.2")
    return bench(folder, kraft(level, release="3.9.2", ranges=OLD), fleet=fleet)


def planned(it: Bench) -> tuple[Plan, Wrapped]:
    """Its plan by that word, then taken back; and a backend that counts what it is sent."""
    plan = it.plan(up={"metadata.version": "21"})
    it.fleet = Fleet()
    return plan, Wrapped(Unaware(it.backend))  # type: ignore[arg-type]


def haunt(it: Bench) -> None:
    there = it.cluster.cluster
    it.cluster.put(replace(there, nodes=(*there.nodes, GHOST)), 101)


def says(it: Bench) -> str:
    return "\n".join(it.said)


def test_the_controller_is_asked_once_and_its_yes_stands_for_what_nobody_lists(
    tmp_path: Path,
) -> None:
    it = at_39(tmp_path)
    plan, wrapped = planned(it)
    assert it.apply(plan, wrapped).kind is EndingKind.APPLIED
    [step] = plan.steps
    assert wrapped.sent == [(step, True), (step, False)]
    assert it.levels() == {"metadata.version": 21}
    assert "the controller knows them all, so its answer decides" in says(it)


def test_a_registration_that_nobody_listed_refuses_in_the_controller_s_words(
    tmp_path: Path,
) -> None:
    it = at_39(tmp_path)
    plan, wrapped = planned(it)
    haunt(it)
    ending = it.apply(plan, wrapped)
    assert ending.kind is EndingKind.REJECTED
    assert ending.kind.exit_code == 3
    [refused] = ending.steps[0].updates
    assert "Broker 7 only supports versions 1-20" in (refused.message or "")
    assert [validate_only for _, validate_only in wrapped.sent] == [True]
    assert (it.levels(), it.fates()) == ({"metadata.version": 20}, [])


def test_a_ghost_in_the_way_of_the_second_step_stops_after_the_first(tmp_path: Path) -> None:
    it = at_39(tmp_path, 19)
    plan = it.by_hand(*([("metadata.version", n, n + 1, "UPGRADE")] for n in (19, 20)))
    it.fleet = Fleet()
    haunt(it)
    wrapped = Wrapped(Unaware(it.backend))  # type: ignore[arg-type]
    ending = it.apply(plan, wrapped)
    assert ending.kind is EndingKind.STOPPED
    assert wrapped.written == [plan.steps[0]]
    assert it.levels() == {"metadata.version": 20}


def test_validate_only_asks_once_and_writes_nothing(tmp_path: Path) -> None:
    it = at_39(tmp_path)
    plan, wrapped = planned(it)
    assert it.apply(plan, wrapped, mode=Mode.VALIDATE).kind is EndingKind.VALIDATED
    assert [validate_only for _, validate_only in wrapped.sent] == [True]
    assert it.levels() == {"metadata.version": 20}


def test_a_dry_run_asks_nobody_and_names_what_does(tmp_path: Path) -> None:
    it = at_39(tmp_path)
    plan, wrapped = planned(it)
    with pytest.raises(StalePlanError) as error:
        it.apply(plan, wrapped, mode=Mode.REHEARSE)
    assert UNLISTED in str(error.value)
    assert "with --validate-only it is asked" in str(error.value)
    assert "Make a new plan" not in str(error.value)
    assert wrapped.sent == []


def test_a_controller_that_does_not_answer_proves_nothing(tmp_path: Path) -> None:
    it = at_39(tmp_path)
    plan, wrapped = planned(it)

    class Silent(Unaware):
        def update(self, step: Step, *, validate_only: bool = False) -> Reply:
            raise OutcomeUnknownError("the reply was cut off.")

    wrapped.inner = Silent(it.backend)  # type: ignore[assignment]
    with pytest.raises(UnreachableError, match="Nothing was written"):
        it.apply(plan, wrapped)
    assert (wrapped.written, it.fates()) == ([], [])


def test_where_anything_else_is_in_the_way_the_controller_is_not_asked(tmp_path: Path) -> None:
    it = at_39(tmp_path)
    plan, wrapped = planned(it)
    it.cluster.stop(13)
    with pytest.raises(StalePlanError, match="evidence: expected complete") as error:
        it.apply(plan, wrapped)
    assert "broker 13" in str(error.value)
    assert UNLISTED in str(error.value)
    assert wrapped.sent == []


@pytest.mark.parametrize("mode", ["kraft", "zk"])
def test_a_controller_that_would_write_is_never_asked(tmp_path: Path, mode: str) -> None:
    it = at_39(tmp_path)
    plan, wrapped = planned(it)
    wrapped.abilities_ = Abilities(mode=mode, validate_only=mode == "zk")  # neither promises it
    with pytest.raises(StalePlanError):
        it.apply(plan, wrapped)
    assert wrapped.sent == []


def test_whoever_may_speak_for_the_cluster_has_to_honour_it_and_kraft_version_never_does(
    tmp_path: Path,
) -> None:
    backend = at_39(tmp_path).backend
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
