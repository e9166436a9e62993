"""A real cluster that was READY and is stopped, and a slip in its address: UNKNOWN at once, and no
word about its nodes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.backends.judged import findings, judged, verdict
from tests.backends.rig.cluster import RunningCluster
from tests.cli.commands import run

CODE = "cluster_not_reached"
MESSAGE = ", failed: 127.0.0.1:"


def test_who_was_ready_is_unknown_once_nobody_is_reached_and_ready_when_somebody_answers(
    kraft_cluster: Callable[..., RunningCluster], tmp_path: Path
) -> None:
    cluster = kraft_cluster(release_version="4.1")
    out, bootstrap = tmp_path / "landing", cluster.bootstrap
    wrong = "127.0.0.1:1"  # nobody listens there

    def look(address: str) -> tuple[int, str]:
        """One more file of the cluster, and what was said."""
        entry = f'[[cluster]]\nid = "{cluster.cluster_id}"\nbootstrap = ["{address}"]\n'
        more = f'controller_bootstrap = ["{cluster.controller_bootstrap}"]\nbrokers = [1]\n'
        fleet = tmp_path / "fleet.toml"
        fleet.write_text(entry + more * (address == bootstrap))
        code, _, said = run("collect", "--fleet", str(fleet), "--timeout", "5", "--out", str(out))
        return code, said

    def known() -> tuple[str, set[tuple[str, str | None, int | None]]]:
        """The verdict of all that landed, and codes, roles and nodes of the findings."""
        lines = [line for path in out.iterdir() for line in path.read_bytes().splitlines()]
        view = judged(lines)
        return verdict(view), set(findings(view))

    def planned() -> tuple[int, str]:
        words = ("plan", "upgrade-all", "--capture", str(out), "--as-of", "newest", "--out", "-")
        code, text, said = run(*words)
        return code, text + said

    assert look(bootstrap)[0] == 0
    ready, fine = known()
    assert (ready, planned()[0]) == ("READY", 0)

    code, said = look(wrong)  # everybody runs
    assert (code, "Recorded: no node could be read." in said) == (5, True)
    assert known() == ("UNKNOWN", fine | {(CODE, None, None)})
    code, said = planned()
    assert (code, MESSAGE in " ".join(said.split())) == (3, True), said

    assert look(bootstrap)[0] == 0
    assert known() == ("READY", fine)

    for node_id in cluster.nodes:
        cluster.stop_node(node_id)
    code, said = look(bootstrap)
    assert (code, "Recorded: no node could be read." in said) == (5, True)
    assert known() == ("UNKNOWN", fine | {(CODE, None, None)})
    newest = max(out.iterdir(), key=lambda path: path.name).read_text()
    assert set(json.loads(newest)) == {"kind", "cluster_id", "observed_at", "error"}
