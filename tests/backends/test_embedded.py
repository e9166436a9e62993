"""How the embedded cluster behaves: as a cluster does, and as a file that survives a crash."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from featurelib.backends import embedded
from featurelib.backends.embedded import IN_MEMORY, EmbeddedCluster
from featurelib.catalogue import load
from featurelib.core.answer import judge
from featurelib.core.batch import NOT_HERE
from featurelib.core.cluster import Cluster, Node, Request, Update
from featurelib.core.dialect import GENERATIONS, generation_of
from featurelib.core.dialect import load as load_dialect
from featurelib.core.single import build
from featurelib.errors import InputError, UnreachableError
from featurelib.exchanges import Exchange
from featurelib.feature import KRAFT_VERSION, Role, UpgradeType
from tests.core import recordings

ROOT = Path(__file__).parents[2]
TABLES = load().tables
NEW = {"metadata.version": (7, 29), "kraft.version": (0, 1), "group.version": (0, 1)}
UP, DOWN = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE


def controller(node_id: int, **change: Any) -> Node:
    node = Node(node_id=node_id, role=Role.CONTROLLER, supported=NEW, release="4.2.1", voter=True)
    return replace(node, **change)


def broker(node_id: int, **change: Any) -> Node:
    return replace(
        Node(node_id=node_id, role=Role.BROKER, supported=NEW, release="4.2.1"), **change
    )


KRAFT = Cluster(
    release="4.2.1",
    nodes=(controller(1), controller(2), broker(3), broker(4)),
    active=1,
    finalized={"metadata.version": (25, 25)},
)
ZK = Cluster(
    release="3.9.2",
    nodes=(broker(1, supported={"f": (1, 5), "g": (1, 5)}, release="3.9.2"),),
    active=1,
    finalized={"f": (1, 1), "g": (1, 1)},
)


def to(level: int, kind: int = UP, feature: str = "metadata.version") -> Request:
    return Request(updates=(Update(feature=feature, level=level, kind=kind),))


@pytest.fixture
def kraft() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(IN_MEMORY, TABLES) as cluster:
        cluster.put(KRAFT, 100)
        yield cluster


def finalized(cluster: EmbeddedCluster, node_id: int = 3) -> tuple[dict[str, int], int]:
    """Levels and epoch as a node shows them."""
    said: dict[str, Any] = cluster.describe(node_id)
    return {n: v["max_version_level"] for n, v in said["finalized"].items()}, said[
        "finalized_epoch"
    ]


def test_an_update_moves_level_and_epoch(kraft: EmbeddedCluster) -> None:
    answered = kraft.update_features(to(26))
    assert answered.reply.code == 0
    assert finalized(kraft) == ({"metadata.version": 26}, 101)


def test_a_refused_update_and_a_dry_run_move_nothing(kraft: EmbeddedCluster) -> None:
    assert kraft.update_features(to(24)).reply.code == 95
    assert kraft.update_features(replace(to(26), validate_only=True)).reply.code == 0
    assert finalized(kraft) == ({"metadata.version": 25}, 100)


def test_a_dry_run_is_applied_in_zookeeper_mode() -> None:
    with EmbeddedCluster(IN_MEMORY, TABLES, mode="zk") as cluster:
        cluster.put(ZK, 7)
        cluster.update_features(replace(to(2, feature="f"), validate_only=True))
        assert finalized(cluster, 1) == ({"f": 2, "g": 1}, 8)


def test_a_node_that_lags_shows_the_state_before_until_it_settles(kraft: EmbeddedCluster) -> None:
    kraft.update_features(to(26), lagging=True)
    kraft.update_features(to(27), lagging=True)
    assert finalized(kraft) == ({"metadata.version": 25}, 100)
    assert kraft.epoch == 102
    kraft.settle()
    assert finalized(kraft) == ({"metadata.version": 27}, 102)


def test_version_3_leaves_out_features_whose_minimum_is_0(kraft: EmbeddedCluster) -> None:
    newest: dict[str, Any] = kraft.describe(3)
    older: dict[str, Any] = kraft.describe(3, version=3)
    assert set(newest["supported"]) == set(NEW)
    assert older["supported"] == {"metadata.version": {"min_version": 7, "max_version": 29}}
    assert older["finalized"] == newest["finalized"]


def test_who_is_registered_is_asked_fenced_or_not(kraft: EmbeddedCluster) -> None:
    kraft.register(broker(5, supported={"metadata.version": (7, 25)}))
    kraft.fence(5)
    refused = kraft.update_features(to(26)).reply
    assert "Broker 5 only supports versions 7-25" in str(refused.message)
    kraft.stop(5)
    assert kraft.update_features(to(26)).reply.code == 95
    kraft.unregister(5)
    assert kraft.update_features(to(26)).reply.code == 0
    assert kraft.epoch == 105  # every registration is a record


def test_a_node_that_registers_again_replaces_itself(kraft: EmbeddedCluster) -> None:
    kraft.register(broker(4, supported={"metadata.version": (7, 25)}))
    kraft.register(broker(4))
    assert [n.node_id for n in kraft.cluster.nodes] == [1, 2, 3, 4]
    assert kraft.cluster.nodes[3] == broker(4)


def test_registrations_do_not_move_the_features_node() -> None:
    with EmbeddedCluster(IN_MEMORY, TABLES, mode="zk") as cluster:
        cluster.put(ZK, 7)
        cluster.register(broker(2, supported={"f": (1, 9)}))
        assert cluster.epoch == 7


def test_a_stopped_node_does_not_answer_and_comes_back(kraft: EmbeddedCluster) -> None:
    kraft.stop(3)
    assert kraft.cluster.nodes[2].fenced
    with pytest.raises(UnreachableError, match="node 3 does not run"):
        kraft.describe(3)
    kraft.stop(3, running=True)
    assert finalized(kraft)[0] == {"metadata.version": 25}
    assert not kraft.cluster.nodes[2].fenced


def test_the_elected_controller_answers_as_its_release_does(kraft: EmbeddedCluster) -> None:
    old = controller(5, supported={"metadata.version": (1, 25)}, release="3.9.2")
    kraft.register(old)
    kraft.elect(5)
    assert kraft.dialect.name == "kraft-3.9"
    reply = kraft.update_features(to(26)).reply
    assert (reply.code, [r.code for r in reply.results or ()]) == (0, [95])  # not all or nothing


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda c: c.fence(9), "one of the nodes 1, 2, 3, 4, found 9"),
        (lambda c: c.stop(9), "one of the nodes 1, 2, 3, 4, found 9"),
        (lambda c: c.describe(9), "one of the nodes 1, 2, 3, 4, found 9"),
        (lambda c: c.unregister(1), "one of the brokers 3, 4, found 1"),
        (lambda c: c.elect(3), "one of the running controllers 1, 2, found 3"),
    ],
)
def test_a_node_nobody_knows_is_named_and_nothing_moves(
    kraft: EmbeddedCluster, act: Any, says: str
) -> None:
    with pytest.raises(InputError, match=says):
        act(kraft)
    assert (kraft.cluster, kraft.epoch) == (KRAFT, 100)


def test_a_stopped_controller_is_not_elected(kraft: EmbeddedCluster) -> None:
    kraft.stop(2)
    with pytest.raises(InputError, match="one of the running controllers 1, found 2"):
        kraft.elect(2)


@pytest.mark.parametrize("unseen", [{"node_missing": True}, {"off": True}])
def test_who_sees_no_features_node_says_minus_one(unseen: dict[str, bool]) -> None:
    with EmbeddedCluster(IN_MEMORY, TABLES, mode="zk") as cluster:
        cluster.put(replace(ZK, finalized={}, **unseen), 7)
        assert finalized(cluster, 1) == ({}, -1)


# --- The file -------------------------------------------------------------------------------------


def test_a_cluster_is_there_again_when_its_file_is_opened_again(tmp_path: Path) -> None:
    path = str(tmp_path / "cluster")
    with EmbeddedCluster(path, TABLES, mode="zk") as cluster:
        cluster.put(ZK, 7)
        cluster.update_features(to(2, feature="f"), lagging=True)
        left = cluster.cluster
    with EmbeddedCluster(path, TABLES) as again:
        assert (again.mode, again.cluster, again.epoch) == ("zk", left, 8)
        assert finalized(again, 1) == ({"f": 1, "g": 1}, 7)  # still lagging


def test_a_new_file_holds_no_cluster(tmp_path: Path) -> None:
    with EmbeddedCluster(str(tmp_path / "new"), TABLES) as cluster:
        for read in (lambda: cluster.cluster, lambda: cluster.describe(1)):
            with pytest.raises(InputError, match=r"new: no cluster is in this file yet"):
                read()


def test_another_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    text, other = tmp_path / "notes.txt", tmp_path / "other.db"
    text.write_text("no database at all, and longer than a header of one " * 10)
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE bills (amount INTEGER)")
    db.close()
    for path, found in ((text, "not a database"), (other, "the tables bills")):
        before = path.read_bytes()
        with pytest.raises(InputError, match=found) as error:
            EmbeddedCluster(str(path), TABLES)
        assert str(error.value).startswith(f"{path}: expected an embedded cluster's file")
        assert path.read_bytes() == before
    with pytest.raises(InputError, match="unable to open"):
        EmbeddedCluster(str(tmp_path / "nowhere" / "cluster"), TABLES)


def test_a_file_of_another_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cluster"
    EmbeddedCluster(str(path), TABLES).close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE about SET form = 2")
    db.close()
    with pytest.raises(InputError, match="expected an embedded cluster of form 1, found 2"):
        EmbeddedCluster(str(path), TABLES)


def test_a_file_that_another_process_holds_is_waited_for_and_then_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "LONGEST_WAIT_S", 0.05)
    path = str(tmp_path / "cluster")
    with EmbeddedCluster(path, TABLES) as cluster:
        cluster.put(KRAFT)
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(UnreachableError, match="database is locked"):
            cluster.update_features(to(26))
        holder.close()
        assert cluster.update_features(to(26)).reply.code == 0


def test_a_change_that_fails_half_way_leaves_the_state_before(kraft: EmbeddedCluster) -> None:
    def fail(cluster: Cluster) -> Cluster:
        raise RuntimeError("a fault")

    with pytest.raises(RuntimeError):
        kraft._change("fail", fail)
    assert (kraft.cluster, kraft.epoch) == (KRAFT, 100)
    kraft.fence(3)


def test_killed_at_any_moment_the_state_is_before_or_after(tmp_path: Path) -> None:
    path = str(tmp_path / "cluster")
    with EmbeddedCluster(path, TABLES, mode="zk") as cluster:
        cluster.put(ZK, 0)
    for wait in (0.0, 0.003, 0.007, 0.011, 0.019, 0.031, 0.053):
        answered = _run_and_kill(path, wait)
        with EmbeddedCluster(path, TABLES, mode="zk") as cluster:
            levels, epoch = cluster.cluster.finalized, cluster.epoch
        assert epoch in (answered, answered + 1), "an answer was lost"
        assert levels in ({"f": (1, 1), "g": (1, 1)}, {"f": (2, 2), "g": (2, 2)})
        assert levels["f"][1] == 1 + epoch % 2, "levels and epoch are of two states"


def _run_and_kill(path: str, wait: float) -> int:
    """Let a child update the cluster for a while, kill it, and say the last epoch it answered."""
    command = [sys.executable, "-m", "tests.backends.crashing", path]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        answered = [child.stdout.readline()]
        time.sleep(wait)
        child.send_signal(signal.SIGKILL)
        answered += child.stdout.readlines()
    whole = [line.split() for line in answered if line.endswith("\n")]
    assert whole, "the child never answered"
    assert {violations for _, violations in whole} == {"0"}
    return int(whole[-1][0])


# --- The law --------------------------------------------------------------------------------------


@cache
def recorded(generation: str) -> tuple[Exchange, ...]:
    """The recorded exchanges of one generation: clusters as they really were."""
    return tuple(
        exchange
        for exchange in recordings.every()
        if generation_of(exchange.cluster.release, exchange.mode) == generation
    )


UPDATES = st.lists(
    st.builds(
        lambda feature, level, kind: Update(feature=feature, level=level, kind=kind),
        st.sampled_from(["metadata.version", "kraft.version", "group.version", "f", "g", "none"]),
        st.sampled_from([-1, 0, 1, 2, 3, 4, 8, 14, 15, 20, 21, 25, 29, 99]),
        st.sampled_from([1, 1, 2, 3, 4]),
    ),
    max_size=4,
    unique_by=lambda update: update.feature,  # of a name that stands twice one result is told
)


@pytest.mark.parametrize("generation", GENERATIONS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_it_accepts_exactly_what_the_core_passes(generation: str, data: st.DataObject) -> None:
    """What no rule of the dialect refuses is answered as good and applied; nothing else is."""
    exchange = data.draw(st.sampled_from(recorded(generation)))
    dialect, before = load_dialect(generation), exchange.cluster
    request = Request(
        updates=tuple(data.draw(UPDATES)),
        validate_only=data.draw(st.booleans()),
        version=min(1, max(dialect.can.wire_versions)),
    )
    batch = build([(before, request)], dialect, TABLES)
    judged = judge(batch, dialect, TABLES)
    offending = {
        batch.names[feature]
        for feature, bad in zip(batch.updates.feature, judged.offends.any(axis=0), strict=True)
        if bad
    }
    with EmbeddedCluster(IN_MEMORY, TABLES, mode=exchange.mode) as cluster:
        cluster.put(before, 5)
        answered = cluster.update_features(request)
        after, epoch = cluster.cluster.finalized, cluster.epoch
    reply, told = answered.reply, {violation.feature for violation in answered.violations}
    assert told == offending
    if judged.door[0] != NOT_HERE or (dialect.can.atomic and offending):
        assert reply.code != 0
        assert (after == before.finalized and epoch == 5) or answered.unsure
        return
    waited = dialect.can.after_failed_wait
    refused = {r.feature for r in reply.results or () if r.code not in (0, waited)}
    assert (reply.code, refused) == (0, offending)
    good = [u for u in request.updates if u.feature not in offending]
    dry = request.validate_only and dialect.can.validate_only == "honoured"
    if dry or not good:
        assert (after, epoch) == (before.finalized, 5)
    elif not before.node_missing:
        plain = [u for u in good if u.feature != KRAFT_VERSION]
        assert {u.feature: max(u.level, 0) for u in plain} == {
            u.feature: after.get(u.feature, (0, 0))[1] for u in plain
        }
