"""One behaviour suite for every backend: whatever is behind it looks and answers the same way.

A factory makes a fresh cluster of a kind and says what of it can be changed from outside; a new
kind of backend is one more row of FACTORIES.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest

from featurelib.backends.base import Backend
from featurelib.backends.kafka.backend import open_kafka
from featurelib.catalogue import load
from featurelib.config.fleet import Fleet
from featurelib.config.fleet import FleetEntry as FleetEntry
from featurelib.controller.send import Waits
from featurelib.core.dialect import load as load_dialect
from featurelib.core.outcome import Ending, EndingKind
from featurelib.errors import ConfigError, RefusedError, UnreachableError
from featurelib.extras.sandbox.backend import open_embedded
from featurelib.feature import Role
from featurelib.landing import ApiVersionsAnswer, Landing, read
from featurelib.model import Move, Plan, Step
from tests.backends.conftest import running
from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.kraft import Node, start_kraft
from tests.controller.clusters import OLD, Bench, bench, kraft, vouched, zookeeper

CATALOGUE = load()
TIMEOUT_MS = 1000
WAITS = Waits(nodes=10.0, margin=0.5)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A fresh cluster: a feature that can go up one level, and what a test may do to it."""

    bench: Bench
    up: Move  # one level up, which the controller accepts
    too_high: Move  # which it refuses
    brokers: frozenset[int]
    controllers: frozenset[int]
    stop_broker: Callable[[], int]  # which one it was
    is_forgotten: bool  # a broker that stopped leaves no trace, as in ZooKeeper

    @property
    def backend(self) -> Backend:
        return self.bench.backend

    @property
    def level(self) -> int:
        """Of the feature, as it is seen."""
        return self.bench.view().cluster.finalized.get(self.up.feature, (0, 0))[1]


Factory = Callable[[Path], Subject]


def embedded_kraft(folder: Path) -> Subject:
    it = bench(folder, kraft(25))
    return embedded(it, _update("metadata.version", 25, 26), {11, 12, 13}, {1, 2})


def embedded_kraft_old(folder: Path) -> Subject:
    cluster = kraft(20, release="3.9.2", ranges=OLD)
    it = bench(folder, cluster, fleet=vouched("c-1", "3.9.2"))
    return embedded(it, _update("metadata.version", 20, 21), {11, 12, 13}, {1, 2})


def embedded_zookeeper(folder: Path) -> Subject:
    it = bench(folder, zookeeper(), "zk")
    return embedded(it, _update("f", 1, 2), {1, 2, 3}, set())


def embedded(it: Bench, up: Move, brokers: set[int], controllers: set[int]) -> Subject:
    def stop() -> int:
        it.cluster.stop(max(brokers))
        return max(brokers)

    return Subject(
        bench=it,
        up=up,
        too_high=replace(up, to_level=99),
        brokers=frozenset(brokers),
        controllers=frozenset(controllers),
        stop_broker=stop,
        is_forgotten=it.cluster.mode == "zk",
    )


def _update(feature: str, low: int, high: int) -> Move:
    return Move(feature=feature, from_level=low, to_level=high, upgrade_type="UPGRADE")


FACTORIES: dict[str, Factory] = {
    "embedded, KRaft 4.2": embedded_kraft,
    "embedded, KRaft 3.9": embedded_kraft_old,
    "embedded, ZooKeeper mode": embedded_zookeeper,
}


@pytest.fixture(scope="module")
def real_kraft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """Controller 100, brokers 1 and 2, real processes of 4.2.1 finalized at 4.1; for all tests."""
    nodes = (Node(id=100, roles="controller"), Node(id=1, roles="broker"))
    nodes += (Node(id=2, roles="broker"),)
    home = tmp_path_factory.mktemp("behaviour")
    with running(lambda: start_kraft(home, nodes, release_version="4.1")) as cluster:
        yield cluster


def fresh(cluster: RunningCluster, folder: Path) -> Subject:
    """The real cluster as it was at first: whatever a test left is taken back."""
    entry = FleetEntry(id=cluster.cluster_id, bootstrap=(cluster.nodes[1].broker,))

    def stop() -> int:
        cluster.stop_node(2)
        return 2

    made = Subject(
        bench=Bench(
            folder=folder,
            cluster=None,  # type: ignore[arg-type]  # a real one in its place
            fleet=Fleet(cluster=(entry,)),
            real=open_kafka(entry, timeout=5.0),
        ),
        up=_update("metadata.version", 27, 28),
        too_high=_update("metadata.version", 27, 99),
        brokers=frozenset({1, 2}),
        controllers=frozenset({100}),
        stop_broker=stop,
        is_forgotten=False,
    )
    if any(answer.error for answer in answers(made)):
        cluster.start_node(2)
    back = replace(made.up, from_level=29, to_level=27, upgrade_type="SAFE_DOWNGRADE")
    assert made.backend.update(step(back)).code == 0
    assert settled(made, 27)
    return made


@pytest.fixture(params=[*FACTORIES, pytest.param("real KRaft 4.2", marks=pytest.mark.kafka)])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    factory = FACTORIES.get(request.param)
    made = factory(tmp_path) if factory else fresh(request.getfixturevalue("real_kraft"), tmp_path)
    yield made
    made.backend.close()


def quiet(text: str) -> None:
    """Nobody listens."""


def answers(subject: Subject) -> list[ApiVersionsAnswer]:
    lines = [read(raw) for raw in subject.backend.describe(quiet)]
    return [
        line.content
        for line in lines
        if isinstance(line, Landing) and isinstance(line.content, ApiVersionsAnswer)
    ]


def step(update: Move) -> Step:
    return Step(updates=(update,), timeout_ms=TIMEOUT_MS)


def settled(subject: Subject, level: int) -> bool:
    """Whether the level is seen, sooner or later."""
    until = time.monotonic() + 10
    while subject.level != level and time.monotonic() < until:
        time.sleep(0.05)
    return subject.level == level


# --- Looking --------------------------------------------------------------------------------------


def test_a_look_is_landing_lines_that_are_all_accepted(subject: Subject) -> None:
    lines = subject.backend.describe(quiet)
    assert lines
    assert not [raw for raw in lines if not isinstance(read(raw), Landing)]
    assert len({msgspec.json.decode(raw)["cluster_id"] for raw in lines}) == 1


def test_every_listener_of_every_node_is_asked(subject: Subject) -> None:
    asked = [(answer.role, answer.node_id) for answer in answers(subject)]
    wanted = {(Role.BROKER, n) for n in subject.brokers}
    wanted |= {(Role.CONTROLLER, n) for n in subject.controllers}
    assert set(asked) == wanted
    assert len(asked) == len(wanted)


def test_a_look_is_all_that_judging_needs(subject: Subject) -> None:
    view = subject.bench.view()
    verdicts = {row["feature"]: row["verdict"] for row in view.judged.readiness.to_pylist()}
    assert verdicts[subject.up.feature] == "READY"
    assert view.rejected == ()
    assert view.cluster.active >= 0


def test_two_looks_at_an_idle_cluster_are_of_one_state(subject: Subject) -> None:
    one, two = subject.bench.view(), subject.bench.view()
    assert (one.cluster, one.dialects) == (two.cluster, two.dialects)


def test_progress_is_told_while_looking(subject: Subject) -> None:
    said: list[str] = []
    subject.backend.describe(said.append)
    assert said


def test_a_node_that_is_stopped_is_recorded_as_not_answering(subject: Subject) -> None:
    gone = subject.stop_broker()
    told = [a for a in answers(subject) if (a.role, a.node_id) == (Role.BROKER, gone)]
    assert [bool(answer.error) for answer in told] == ([] if subject.is_forgotten else [True])


# --- Abilities ------------------------------------------------------------------------------------


def test_abilities_are_those_of_every_dialect_it_may_speak(subject: Subject) -> None:
    able, view = subject.backend.abilities(), subject.bench.view()
    for name in view.dialects:
        dialect = load_dialect(name)
        assert dialect.mode == able.mode
        assert able.validate_only == (dialect.can.validate_only == "honoured")


# --- Updating -------------------------------------------------------------------------------------


def test_an_update_is_applied_and_seen(subject: Subject) -> None:
    reply = subject.backend.update(step(subject.up))
    assert reply.code == 0
    assert not [result for result in reply.results or () if result.code]
    assert settled(subject, subject.up.to_level)


def test_a_refused_update_says_so_in_words_and_writes_nothing(subject: Subject) -> None:
    before = subject.level
    reply = subject.backend.update(step(subject.too_high))
    codes = [reply.code, *(result.code for result in reply.results or ())]
    words = [reply.message, *(result.message for result in reply.results or ())]
    assert any(codes)
    assert any(words)
    assert subject.level == before


def test_a_request_to_validate_is_answered_and_never_written(subject: Subject) -> None:
    before = subject.level
    if subject.backend.abilities().validate_only:
        good = subject.backend.update(step(subject.up), validate_only=True)
        bad = subject.backend.update(step(subject.too_high), validate_only=True)
        assert not any([good.code, *(result.code for result in good.results or ())])
        assert any([bad.code, *(result.code for result in bad.results or ())])
    else:
        with pytest.raises(RefusedError, match="Nothing was sent"):
            subject.backend.update(step(subject.up), validate_only=True)
    assert subject.level == before


# --- Carrying out ---------------------------------------------------------------------------------


def carry_out(subject: Subject, plan: Plan) -> Ending:
    return subject.bench.apply(plan, waits=WAITS)


def test_a_plan_is_carried_out_and_then_has_nothing_to_do(subject: Subject) -> None:
    plan = subject.bench.plan(TIMEOUT_MS, up={subject.up.feature: str(subject.up.to_level)})
    ending = carry_out(subject, plan)
    assert ending.kind is EndingKind.APPLIED
    assert ending.steps[-1].asked == len(subject.brokers | subject.controllers)
    assert subject.level == subject.up.to_level
    assert carry_out(subject, plan).kind is EndingKind.NOTHING_TO_DO


def test_a_plan_is_refused_after_another_writer(subject: Subject) -> None:
    plan = subject.bench.plan(TIMEOUT_MS)
    subject.backend.update(step(subject.up))
    assert settled(subject, subject.up.to_level)
    if plan.steps[0].updates[0].to_level == subject.up.to_level and len(plan.steps) == 1:
        assert carry_out(subject, plan).kind is EndingKind.NOTHING_TO_DO
        return
    with pytest.raises(RefusedError, match=f"level of {subject.up.feature}: expected"):
        carry_out(subject, plan)


# --- Only the embedded one ------------------------------------------------------------------------


def test_a_file_that_is_not_there_is_no_embedded_cluster(tmp_path: Path) -> None:
    path = str(tmp_path / "nothing")
    with pytest.raises(ConfigError, match=f"featurelib sandbox make {path}"):
        open_embedded(FleetEntry(id="x", file=path), CATALOGUE)
    assert not Path(path).exists()


def test_a_cluster_of_which_nobody_runs_cannot_be_looked_at(tmp_path: Path) -> None:
    subject = embedded_kraft(tmp_path)
    for node in (1, 2, 11, 12, 13):
        subject.bench.cluster.stop(node)
    with pytest.raises(UnreachableError, match="None of the 5 nodes is running"):
        subject.backend.describe(quiet)
    with pytest.raises(UnreachableError, match="Nothing was sent"):
        subject.backend.update(step(subject.up))
