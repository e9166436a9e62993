"""What kafka-features.sh of each release sent, printed and left behind, beside what is foreseen."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from featurelib.core.cluster import Cluster, Node
from featurelib.core.dry_run import dialect_of
from featurelib.extras.tool_preview.tool import Tool, read_command
from featurelib.feature import KRAFT_VERSION, Role, release_line
from tests.questions.nights import CATALOGUE

# 68 command lines of real tools of 3.3.2, 3.5.2, 3.9.2, 4.0.1 and 4.2.1, each against a node of its
# own release that was formatted at the oldest level, with static voters.
RECORDED = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "kafka_features.jsonl").read_text().splitlines()
]


def alone(release: str, levels: dict[str, int]) -> Cluster:
    """One node with both roles and production software, and what is finalized."""
    supported = CATALOGUE.of(release_line(release)).ranges()
    nodes = tuple(
        Node(
            node_id=1,
            role=role,
            supported=supported,
            release=release,
            voter=role is Role.CONTROLLER,
        )
        for role in Role
    )
    kraft = levels.get(KRAFT_VERSION, 0)
    return Cluster(
        release=release,
        nodes=nodes,
        active=1,
        finalized={name: (level, level) for name, level in levels.items()},
        kraft_record=kraft,
        raft_level=kraft,
    )


@pytest.mark.parametrize(
    "recorded", RECORDED, ids=lambda r: f"{r['release']} {shlex.join(r['args'])}"
)
def test_a_recorded_command_is_foreseen_word_for_word(recorded: dict[str, Any]) -> None:
    release = recorded["release"]
    tool = Tool(own=CATALOGUE.of(release_line(release)), catalogue=CATALOGUE)
    cluster = alone(release, recorded["before"])
    own = dialect_of(release, "kraft", CATALOGUE)
    run = tool.run(read_command(shlex.join(recorded["args"])), cluster, own)
    after = recorded["before"] | {move.feature: move.to_level for move in run.moves}
    assert run.stdout == tuple(recorded["stdout"].splitlines())
    assert run.stderr == tuple(recorded["stderr"].splitlines())
    assert run.exit_code == recorded["exit"]
    assert {n: v for n, v in after.items() if v} == recorded["after"]


@pytest.mark.parametrize(
    ("release", "more", "unmoved"),
    [("4.0.1", "", (KRAFT_VERSION,)), ("4.0.1", " --dry-run", ()), ("4.2.1", "", ())],
)
def test_a_line_that_is_untrue_is_known(release: str, more: str, unmoved: tuple[str, ...]) -> None:
    """4.0 prints that it upgraded kraft.version of a static quorum, and does not (KAFKA-18992)."""
    tool = Tool(own=CATALOGUE.of(release_line(release)), catalogue=CATALOGUE)
    command = read_command(f"upgrade --release-version {release_line(release)}{more}")
    own = dialect_of(release, "kraft", CATALOGUE)
    run = tool.run(command, alone(release, {"metadata.version": 21}), own)
    assert run.unmoved == unmoved
