"""A real roll from 4.1 to 4.2, node after node, and the command that waits for its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

from tests.backends.judged import until, ways
from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.jars import ROOT
from tests.backends.rig.java import Java
from tests.backends.rig.kraft import ONE_LEADER, Node
from tests.cli.commands import run

OLD, NEW, WANTED = "4.1.2", "4.2.1", {"metadata.version": 29}
LATE_SECONDS = 30  # of a machine that is busy; on a quiet one it is below 5


def restart(cluster: RunningCluster, node_id: int) -> None:
    """Software of NEW in the place of what ran."""
    process = cluster.nodes[node_id].process
    properties = process.home / "server.properties"
    Java.of(NEW).serve(process, "kafka.Kafka", str(properties))
    process.wait()


def test_the_pipeline_goes_on_once_the_last_node_is_back(
    kraft_cluster: Callable[..., RunningCluster], tmp_path: Path
) -> None:
    broker = Node(id=2, roles="broker", release=OLD, properties=ONE_LEADER)
    cluster = kraft_cluster(Node(id=1, release=OLD), broker, release_version="4.1")
    told: list[tuple[float, dict[str, Any]]] = []
    goal = [f"{name}={level}" for name, level in WANTED.items()]
    given = "--bootstrap", cluster.nodes[2].broker  # the first that restarts
    command = (sys.executable, "-m", "featurelib", "watch", *given, "--until", *goal)
    with subprocess.Popen(
        [*command, "--json", "--timeout", "10m"],
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as watching:
        try:
            assert watching.stdout is not None
            lines = iter(watching.stdout)
            reading = Thread(
                target=lambda: told.extend((time.monotonic(), json.loads(line)) for line in lines)
            )
            reading.start()
            until(lambda: states(told).get(("broker", 2)) == ("running", "4.1"))
            for node_id in (2, 1):
                half = "broker", node_id
                cluster.stop_node(node_id)
                until(lambda: states(told)[half][0] == "not answering")  # noqa: B023
                assert states(told)[half][1] == "4.1"
                restart(cluster, node_id)
                back = time.monotonic()
                until(lambda: states(told)[half] == ("running", "4.2"))  # noqa: B023
                assert told[-1][0] - back < LATE_SECONDS
            assert watching.wait(LATE_SECONDS) == 0
            reading.join(LATE_SECONDS)
        finally:
            watching.kill()
    print(f"\nREADY {told[-1][0] - back:.2f} s after the last node served; {len(told)} documents")
    assert {document["error"] for _, document in told} == {None}  # it looks by what it saw before
    assert [document["ready"] for _, document in told] == [False] * (len(told) - 1) + [True]
    assert {tuple(document["until"].items()) for _, document in told} == {tuple(WANTED.items())}
    code, out, err = run("plan", "upgrade", "--feature", *goal, *ways(cluster), "--out", "-")
    assert (code, json.loads(out)["meaning"]["cluster"]) == (0, cluster.cluster_id), err


def states(told: list[tuple[float, dict[str, Any]]]) -> dict[tuple[str, int], tuple[str, str]]:
    """How each half is in the newest document, and what it runs."""
    nodes = told[-1][1]["nodes"] if told else []
    return {(one["role"], one["node_id"]): (one["state"], one["release"]) for one in nodes}
