"""ZooKeeper mode from end to end, on real processes: collect, plan, approve, apply."""

from __future__ import annotations

from pathlib import Path

import msgspec

from featurelib.backends.zookeeper import read_znodes
from featurelib.landing import read
from featurelib.landing.line import Landing
from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.desk import Desk


def test_a_cluster_in_zookeeper_mode_is_collected_planned_and_updated(
    zookeeper_cluster: RunningCluster, tmp_path: Path
) -> None:
    run = Desk(folder=tmp_path, said=[], environment={}).run
    reach = ("--bootstrap", zookeeper_cluster.bootstrap)
    reach += ("--zookeeper", zookeeper_cluster.zookeeper)
    run("collect", *reach, "--out", "landing")
    lines = [
        line for file in (tmp_path / "landing").iterdir() for line in file.read_bytes().splitlines()
    ]
    assert all(isinstance(read(line), Landing) for line in lines)
    kinds = {msgspec.json.decode(line)["kind"] for line in lines}
    assert kinds == {"api_versions", "describe_cluster", "znode"}
    assert "ZooKeeper mode" in run("describe", *reach)
    run("plan", "update", "--upgrade", "f:2", *reach, "--out", "plan.json")
    run("approve", "plan.json", "--expires", "1h", "--yes", "--reason", "smoke")
    how = ("apply", "plan.json", "--approval", "plan.approval.json", "--yes", *reach)
    how += ("--journal", "journal.sqlite")
    run(*how, "--validate-only", code=3)  # it would be applied
    assert "nothing was sent" in run(*how, "--dry-run")
    assert version(zookeeper_cluster) == 0
    applied = run(*how)
    assert "[Upgrade] Feature: f" in applied
    assert "Result: OK" in applied
    assert "2 of 2 nodes report it" in applied
    assert version(zookeeper_cluster) == 1
    assert "Nothing to do" in run(*how)  # the approval served once
    assert version(zookeeper_cluster) == 1


def version(cluster: RunningCluster) -> int:
    """The features node's own version, read past everything above."""
    reads = read_znodes(cluster.zookeeper, 5.0).reads
    found = next(read.content["version"] for read in reads if read.path == "/feature")
    assert isinstance(found, int)
    return found
