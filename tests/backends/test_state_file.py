"""The file an embedded cluster is kept in: its form, and that a crash leaves before or after."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from featurelib.backends import embedded_cluster
from featurelib.errors import InputError, UnreachableError
from tests.backends.clusters import KRAFT, TABLES, ZK, finalized, to
from tests.backends.simulator import Simulated

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
        assert str(error.value).startswith(f"{path}: expected an embedded cluster's file")
        assert path.read_bytes() == before
    with pytest.raises(InputError, match="unable to open"):
        Simulated(str(tmp_path / "nowhere" / "cluster"), TABLES)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("UPDATE about SET value = '3' WHERE name = 'form'", "3"),
        ("DROP TABLE about; CREATE TABLE about (mode, form)", "an older one"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, change: str, found: str) -> None:
    path = tmp_path / "cluster"
    Simulated(str(path), TABLES).close()
    with sqlite3.connect(path) as db:
        db.executescript(change)
    db.close()
    says = f"expected an embedded cluster of form 2, found {found}"
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
