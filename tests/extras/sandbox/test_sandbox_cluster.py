"""How a sandbox cluster behaves beyond its laws; what its nodes answer: lines that land, in the
shape of recorded ones; and the file it is kept in: its form, and that a crash leaves before or
after."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from featurelib.core.cluster import Cluster, Range
from featurelib.core.compatibility import Admission, Effect
from featurelib.errors import InputError, UnreachableError
from featurelib.extras.sandbox import cluster as embedded_cluster
from featurelib.extras.sandbox.backend import EmbeddedBackend
from featurelib.feature import Role
from featurelib.landing import Landing, read
from tests.backends.clusters import (
    KRAFT,
    TABLES,
    ZK,
    broker,
    controller,
    finalized,
    node_of,
    opened,
    to,
)
from tests.backends.simulator import Simulated
from tests.laboratory import LABORATORY

OLD: dict[str, Range] = {"metadata.version": (7, 25), "group.version": (0, 1)}
SAMPLES = LABORATORY


@pytest.fixture
def kraft() -> Iterator[Simulated]:
    with opened(KRAFT, 100) as cluster:
        yield cluster


def test_a_controller_that_comes_too_early_registers_once_the_level_allows() -> None:
    """Controllers register from metadata.version 15 on (KIP-919)."""
    own = {"metadata.version": (1, 21), "kraft.version": (0, 1)}
    one = controller(1, release="3.9.2", supported=own, registered=False)
    start = Cluster(
        release="3.9.2", nodes=(one,), active=1, finalized={"metadata.version": (14, 14)}
    )
    with opened(start) as cluster:
        early = cluster.register(replace(one, node_id=2))
        assert (early.entry, early.code) == (Admission.REFUSED, 35)
        assert [n.registered for n in cluster.cluster.nodes] == [False, False]
        assert [n.running for n in cluster.cluster.nodes] == [True, True]
        assert cluster.update_features(to(16)).answered.reply.code == 0
        assert [n.registered for n in cluster.cluster.nodes] == [True, True]


def below_15(**change: Any) -> Cluster:
    """3.9 controllers, of which the second knows no metadata.version above 14."""
    one = controller(1, release="3.9.2", supported={"metadata.version": (1, 21)})
    two = replace(one, node_id=2, release="3.6.2", supported={"metadata.version": (1, 14)})
    levels = {"metadata.version": (11, 11)}
    start = Cluster(release="3.9.2", nodes=(one, two), active=1, finalized=levels)
    return replace(start, **change)


def test_an_update_ends_the_controllers_that_nobody_asked() -> None:
    """Below metadata.version 15 other controllers are not registered, so they are not asked."""
    with opened(below_15(), 50) as cluster:
        outcome = cluster.update_features(to(17))
        assert outcome.answered.reply.code == 0
        (stopped,) = outcome.stopped
        assert (stopped.node.node_id, stopped.effect) == (2, Effect.EXITS)
        assert "only supports versions 1-14" in stopped.unfit[0].text
        ended = node_of(cluster, 2, Role.CONTROLLER)
        assert ended is not None
        assert (ended.running, ended.registered) == (False, True)


def test_a_broker_that_cannot_read_a_record_goes_on_blind() -> None:
    """Restored with a broker of 3.6 in it: nobody refused it, and it follows no longer."""
    blind = broker(3, release="3.6.2", supported={"metadata.version": (1, 21)})
    one = controller(1, release="3.9.2", supported={"metadata.version": (1, 21)})
    levels = {"metadata.version": (14, 14)}
    start = Cluster(release="3.9.2", nodes=(one, blind), active=1, finalized=levels)
    with opened(start, 5) as cluster:
        assert cluster.update_features(to(17)).stopped == ()
        assert finalized(cluster, 3) == ({"metadata.version": 14}, 5)
        assert cluster.settle() == ()
        assert cluster.update_features(to(18)).answered.reply.code == 0
        assert finalized(cluster, 3) == ({"metadata.version": 14}, 5)
        assert cluster.register(replace(blind, release="3.9.2")).entry is Admission.ACCEPTED
        assert finalized(cluster, 3) == ({"metadata.version": 18}, cluster.epoch)


def lines(cluster: Simulated, kind: str, role: Role) -> list[dict[str, Any]]:
    """The lines of one look, of that kind and of listeners of that role."""
    every = map(json.loads, EmbeddedBackend(cluster).describe(lambda text: None))
    mine = [line for line in every if line["kind"] == kind]
    return [line for line in mine if line.get("listener", line.get("role")) == role.text]


def landed(kind: str, cluster: Simulated, role: Role) -> Any:
    """What landing makes of the first of them."""
    found = read(json.dumps(lines(cluster, kind, role)[0]).encode())
    assert isinstance(found, Landing), found
    return found.content


def test_a_controller_has_an_epoch_of_its_own(kraft: Simulated) -> None:
    """The offset of its last feature record; a broker's is the last offset it applied."""
    kraft.update_features(to(26))
    kraft.fence(3)
    epochs = [kraft.describe(i)["finalized_features_epoch"] for i in (1, 4)]
    assert epochs == [101, 102]


def test_fenced_brokers_are_listed_where_a_node_knows_them(kraft: Simulated) -> None:
    kraft.fence(4)
    whole = landed("describe_cluster", kraft, Role.BROKER)
    assert whole.members == ((3, False), (4, True))
    assert (whole.role, whole.fenced_shown) == (Role.BROKER, True)
    old = broker(3, release="3.9.2", supported={"metadata.version": (1, 21)})
    with opened(replace(KRAFT, nodes=(*KRAFT.nodes[:2], old, broker(4, fenced=True)))) as cluster:
        answered = landed("describe_cluster", cluster, Role.BROKER)
    assert (answered.fenced_shown, answered.members) == (False, ((3, None),))


@pytest.mark.parametrize(
    ("release", "level", "code"), [("3.5.2", 11, None), ("3.7.2", 11, 35), ("3.7.2", 15, 0)]
)
def test_an_older_controller_describes_no_cluster(
    release: str, level: int, code: int | None
) -> None:
    one = controller(1, release=release, supported={"metadata.version": (1, 19)})
    levels = {"metadata.version": (level, level)}
    with opened(Cluster(release=release, nodes=(one,), active=1, finalized=levels)) as cluster:
        found = landed("describe_cluster", cluster, Role.CONTROLLER)
        configured = landed("describe_configs", cluster, Role.CONTROLLER)
    assert (found.answered, found.error_code) == (code == 0, code or 0)
    assert configured.answered == (code is not None)


def test_the_quorum_is_its_voters_and_who_follows(kraft: Simulated) -> None:
    kraft.register(controller(5, voter=False))
    kraft.elect(2)
    found = landed("describe_quorum", kraft, Role.BROKER)
    assert (found.voters, found.observers) == ((1, 2), (3, 4, 5))
    assert found.leader_id == 2
    kraft.stop(2)
    assert not landed("describe_quorum", kraft, Role.BROKER).answered


# --- The shape of recorded answers ----------------------------------------------------------------


def shape(value: object) -> object:
    """The keys of an answer, at every depth; lists by what they hold."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value[:1]]
    return None


@pytest.mark.parametrize("folder", ["k35-fresh", "k37-forgotten", "k39-static", "k42-dynamic"])
def test_answers_have_the_keys_of_recorded_ones(folder: str) -> None:
    """One process, broker and controller, as it was recorded: asked again, the same keys."""
    text = (SAMPLES / folder / "landing.jsonl").read_text("utf-8").splitlines()
    recorded = [json.loads(line) for line in text]
    release = {"k35": "3.5.2", "k37": "3.7.2", "k39": "3.9.2", "k42": "4.2.1"}[folder[:3]]
    seen = set()
    with opened(recorded_cluster(recorded, release), 9) as cluster:
        for theirs in recorded:
            kind = theirs["kind"]
            if kind not in ("api_versions", "describe_cluster", "describe_quorum"):
                continue
            role = Role[theirs.get("listener", theirs.get("role")).upper()]
            ours = lines(cluster, kind, role)[0]
            fenced = [line.get("include_fenced_brokers", True) for line in (ours, theirs)]
            if theirs.get("asked_version", 4) != 4 or fenced[0] != fenced[1]:
                continue
            bare = {"observed_at", "observers", "supported_features", "finalized_features"}
            absent = {key for key, value in theirs.items() if value is None}
            assert without(shape(theirs), bare | absent) == without(shape(ours), bare), kind
            for key in ("version", "answered_version", "endpoint_type", "why"):
                assert theirs.get(key) == ours.get(key)
            if "supported_features" in ours:
                assert by_name(ours["supported_features"]) == by_name(theirs["supported_features"])
                assert by_name(ours["finalized_features"]) == by_name(theirs["finalized_features"])
            seen.add((kind, role))
    assert len(seen) == 6


def recorded_cluster(lines: list[Any], release: str) -> Cluster:
    """The process as its newest answers show it."""
    told = [line for line in lines if line["kind"] == "api_versions" and line["asked_version"] > 3]
    ranges = {
        e["name"]: (e["min_version"], e["max_version"]) for e in told[0]["supported_features"]
    }
    levels = {
        e["name"]: (e["min_version_level"], e["max_version_level"])
        for line in told
        for e in line["finalized_features"]
    }
    nodes = (
        controller(1, supported=ranges, release=release),
        broker(1, supported=ranges, release=release),
    )
    return Cluster(release=release, nodes=nodes, active=1, finalized=levels)


def without(value: Any, keys: set[str]) -> Any:
    if isinstance(value, dict):
        return {key: without(inner, keys) for key, inner in value.items() if key not in keys}
    if isinstance(value, list):
        return [without(inner, keys) for inner in value]
    return value


def by_name(entries: Any) -> list[Any]:
    return sorted(entries, key=lambda entry: entry["name"])


# --- The file it is kept in -----------------------------------------------------------------------


ROOT = Path(__file__).parents[2]


def test_a_cluster_is_there_again_when_its_file_is_opened_again(tmp_path: Path) -> None:
    path = str(tmp_path / "cluster")
    with Simulated(path, TABLES, mode="zk", cluster_id="mine") as cluster:
        cluster.put(ZK, 7)
        cluster.update_features(to(2, feature="f"), lagging=True)
        left = cluster.cluster
    with Simulated(path, TABLES) as again:
        assert (again.mode, again.cluster_id) == ("zk", "mine")
        assert (again.cluster, again.epoch) == (left, 8)
        assert finalized(again, 1) == ({"f": 1, "g": 1}, 7)  # still lagging


def test_another_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    text, other = tmp_path / "notes.txt", tmp_path / "other.db"
    text.write_text("no database at all, and longer than a header of one " * 10)
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE bills (amount INTEGER)")
    db.close()
    for path, found in ((text, "not a database"), (other, "the tables bills")):
        before = path.read_bytes()
        with pytest.raises(InputError, match=found) as error:
            Simulated(str(path), TABLES)
        assert str(error.value).startswith(f"{path} is not the file of a sandbox cluster")
        assert path.read_bytes() == before
    with pytest.raises(InputError, match="unable to open"):
        Simulated(str(tmp_path / "nowhere" / "cluster"), TABLES)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("UPDATE about SET value = '3' WHERE name = 'form'", "3"),
        ("DROP TABLE about; CREATE TABLE about (mode, form)", "older"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, change: str, found: str) -> None:
    path = tmp_path / "cluster"
    Simulated(str(path), TABLES).close()
    with sqlite3.connect(path) as db:
        db.executescript(change)
    db.close()
    says = f"The form of this sandbox cluster is {found}, and this featurelib reads form 2"
    with pytest.raises(InputError, match=says):
        Simulated(str(path), TABLES)


def test_a_file_that_another_process_holds_is_waited_for_and_then_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_cluster, "LONGEST_WAIT_S", 0.05)
    path = str(tmp_path / "cluster")
    with Simulated(path, TABLES) as cluster:
        cluster.put(KRAFT)
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(UnreachableError, match="database is locked"):
            cluster.update_features(to(26))
        holder.close()
        assert cluster.update_features(to(26)).answered.reply.code == 0


def test_killed_at_any_moment_the_state_is_before_or_after(tmp_path: Path) -> None:
    path = str(tmp_path / "cluster")
    with Simulated(path, TABLES, mode="zk") as cluster:
        cluster.put(ZK, 0)
    for wait in (0.0, 0.003, 0.007, 0.011, 0.019, 0.031, 0.053):
        answered = _run_and_kill(path, wait)
        with Simulated(path, TABLES, mode="zk") as cluster:
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
