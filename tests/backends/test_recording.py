"""The recorder on a real controller: what it writes, conformance reads, and finds no difference."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from featurelib.catalogue import load
from featurelib.conformance.exchanges import Exchange, read
from featurelib.conformance.replay import replay
from scripts.record_exchanges import Recorder, every_request
from scripts.record_offenders import record
from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.kraft import Node

TABLES = load().tables
QUIET = {"metadata.max.idle.interval.ms": "0"}
UP, SAFE = 1, 2


def ask(version: int, *updates: tuple[str, int, int], dry: bool = False) -> dict[str, Any]:
    asked = [
        {"feature": name, "max_version_level": level, "upgrade_type": kind}
        for name, level, kind in updates
    ]
    return {"version": version, "updates": asked, "validate_only": dry}


WALK = [
    ask(1, ("group.version", 1, UP), dry=True),
    ask(1, ("group.version", 1, UP)),
    ask(2, ("group.version", 1, UP), ("transaction.version", 9, UP)),
    ask(2, ("test.feature.version", 0, UP), ("group.version", 0, SAFE)),
    ask(1, ("unit.test.feature.version.7", 0, UP)),
    ask(1, ("unit.test.feature.version.8", 0, UP)),
    ask(1, ("no.such.feature", 0, UP), ("metadata.version", 29, UP)),
    ask(1, ("metadata.version", 29, UP), ("metadata.version", 28, UP)),
    ask(1),
]


def exchanges(lines: list[dict[str, Any]]) -> list[Exchange]:
    return list(read((json.dumps(line).encode() for line in lines), "recorded"))


def recorder_of(cluster: RunningCluster, **words: Any) -> Recorder:
    nodes = cluster.nodes.values()
    return Recorder(
        release=max(node.release for node in nodes),
        brokers={node.id: node.broker for node in nodes if node.broker},
        controllers={node.id: node.controller for node in nodes if node.controller},
        **words,
    )


def test_a_recorded_controller_is_answered_for(
    kraft_cluster: Callable[..., RunningCluster],
) -> None:
    """Kafka's own test features among them: a level 0 of one of them is no unknown name."""
    cluster = kraft_cluster(Node(id=1, properties=QUIET), release_version="4.1")
    recorder = recorder_of(cluster)
    lines = [recorder.exchange(request) for request in WALK]
    assert [line["id"] for line in lines][::8] == ["4.2.1-recorded-001", "4.2.1-recorded-009"]
    assert [line["response"]["error_code"] for line in lines] == [0, 0, 95, 0, 0, 95, 95, 0, 0]
    assert lines[1]["after"]["finalized"]["group.version"] == 1
    assert "group.version" not in lines[3]["after"]["finalized"]
    report = replay(exchanges(lines), TABLES)
    assert (report.exchanges, report.differences) == (len(WALK), [])
    lines[1]["after"]["finalized"]["group.version"] = 2
    assert [found.kind for found in replay(exchanges(lines[1:2]), TABLES).differences] == ["levels"]


def test_the_command_validates_every_level_and_writes_nothing(
    kraft_node: RunningCluster, tmp_path: Path
) -> None:
    node = kraft_node.nodes[1]
    recorder = recorder_of(kraft_node)
    few = [
        request
        for request in every_request(recorder.ranges(), recorder.versions())
        if request["version"] == 2 and request["updates"][0]["feature"] == "kraft.version"
    ]
    assert len(few) == 22
    wanted = tmp_path / "requests.jsonl"
    wanted.write_text("".join(json.dumps({**each, "validate_only": False}) + "\n" for each in few))
    words = ["--release", "4.2.1", "--broker", f"1={node.broker}", "--requests", str(wanted)]
    words += ["--controller", f"1={node.controller}"]
    done = subprocess.run(
        [sys.executable, "-m", "scripts.record_exchanges", *words],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(few)
    assert {str(line["after"]["finalized"]) for line in lines} == {
        str(lines[0]["cluster"]["finalized"])
    }
    report = replay(exchanges(lines), TABLES)
    assert [found for found in report.differences if found.kind != "epoch"] == []


@pytest.mark.parametrize("release", ["3.9.2", "4.2.1"])
def test_the_first_of_several_offenders_is_the_one_a_real_controller_names(
    release: str, tmp_path: Path
) -> None:
    """Nodes of any id register by the wire: slots of Kafka's tables are shared, the active one is
    in the middle. scripts.record_offenders records more."""
    lines = list(record(release, 1, random.Random(release), tmp_path))
    named = {str(line["response"]).partition(" only supports")[0][-15:] for line in lines}
    assert len(named) > 2
    report = replay(exchanges(lines), TABLES)
    assert (report.exchanges, report.differences, report.excused) == (len(lines), [], {})
