"""What the real kafka-features does to real clusters, beside what was said beforehand."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

from tests.backends.judged import levels, ways
from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.kraft import Node
from tests.cli.commands import run

# In this order. The last one fails, and moves kraft.version all the same.
COMMANDS = (
    "upgrade --release-version 4.1 --dry-run",
    "upgrade --feature metadata.version=23 --feature group.version=1",
    "downgrade --feature metadata.version=22",
    "disable --feature group.version",
    "upgrade --feature nobody.knows=1 --feature group.version=1",
    "downgrade --metadata 3.9 --unsafe",
    "upgrade --release-version 4.2",
)


def test_every_command_prints_and_moves_what_was_said(
    kraft_cluster: Callable[..., RunningCluster], tmp_path: Path
) -> None:
    old = Node(id=2, roles="broker", release="4.0.1")
    cluster = kraft_cluster(Node(id=1, release="4.2.1"), old, release_version="4.0-IV0")
    for command in COMMANDS:
        code, out, err = run("kafka-features", *ways(cluster), "--command", command, "--json")
        assert code == 0, err
        [said] = json.loads(out)["runs"]
        before = levels(cluster.controller_bootstrap)
        done = cluster.features_tool("--bootstrap-server", cluster.bootstrap, *shlex.split(command))
        assert done.stdout.splitlines() == said["stdout"], command
        assert (done.stderr.splitlines(), done.returncode) == (said["stderr"], said["exit_code"])
        after = levels(cluster.controller_bootstrap)
        moved = {name for name, _ in before.items() ^ after.items()}
        assert moved == {move["feature"] for move in said["moves"]}, command
    changes = said["ahead"]["changes"]
    assert (said["exit_code"], moved) == (1, {"kraft.version"})
    assert [one["update"]["feature"] for one in changes if one["irreversible"]] == ["kraft.version"]
