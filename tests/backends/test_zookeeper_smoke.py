"""ZooKeeper mode from end to end, on real processes: collect, plan, approve, apply."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import msgspec
from kazoo.client import KazooClient

from featurelib.audit.findings import FindingWords, Site
from featurelib.backends.zookeeper import read_znodes
from featurelib.catalogue import load
from featurelib.landing import read
from featurelib.landing.line import Landing
from tests.backends.judged import collected, findings, judged, levels, until
from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.desk import Desk
from tests.backends.rig.jars import more_jars
from tests.facts import first_fact


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


def test_the_printed_command_names_zookeeper_and_shows_the_mode(
    zookeeper_cluster: RunningCluster, tmp_path: Path
) -> None:
    run = Desk(folder=tmp_path, said=[], environment={}).run
    shown = run("check", "--bootstrap", zookeeper_cluster.bootstrap)
    assert "No data shows whether this cluster runs in ZooKeeper or KRaft mode." in shown
    [line] = [line for line in shown.splitlines() if line.endswith("--zookeeper ZOOKEEPER")]
    words = shlex.split(line.replace("ZOOKEEPER", zookeeper_cluster.zookeeper))
    after = run(*words[1:])
    assert "ZooKeeper mode" in after
    assert "No data shows whether" not in after


def test_a_features_node_that_was_deleted_is_written_back_by_the_printed_command(
    zookeeper_cluster: RunningCluster, tmp_path: Path
) -> None:
    """The last of this module: it changes what the others look at."""
    cluster, before = zookeeper_cluster, levels(zookeeper_cluster.nodes[1].broker)
    reach = ("--bootstrap", cluster.bootstrap, "--zookeeper", cluster.zookeeper)
    lines, _ = collected(tmp_path / "before", *reach)
    client = KazooClient(cluster.zookeeper)
    client.start(timeout=10)
    try:
        client.delete("/feature")
    finally:
        client.stop()
        client.close()
    until(lambda: not any(levels(node.broker) for node in cluster.nodes.values()))
    lines += collected(tmp_path / "after", *reach)[0]
    row = findings(judged(lines))["features_node_deleted", None, None]
    assert ", which nobody approved: f 3 or 5, g 2." in first_fact(row)
    said = FindingWords(load()).of(row, Site(zookeeper=cluster.zookeeper))  # type: ignore[arg-type]
    script, *words = shlex.split(said.command)
    assert script == "zookeeper-shell.sh"
    main = "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka"
    java = replace(cluster.java, jars=(*cluster.java.jars, *more_jars("shell")))
    done = [java.run(main, "-server", *words) for _ in range(2)]
    assert done[0].returncode == 0, done[0].stderr
    assert "Node already exists: /feature" in done[1].stdout + done[1].stderr
    assert levels(cluster.nodes[1].broker) == {}  # who saw it deleted does not see the new one
    for node_id in (2, 1):  # the controller last
        cluster.stop_node(node_id)
        cluster.start_node(node_id)
    assert [levels(node.broker) for node in cluster.nodes.values()] == [before, before]


def version(cluster: RunningCluster) -> int:
    """The features node's own version, read past everything above."""
    reads = read_znodes(cluster.zookeeper, 5.0).reads
    found = next(read.content["version"] for read in reads if read.path == "/feature")
    assert isinstance(found, int)
    return found
