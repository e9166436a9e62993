"""Collecting from and describing real clusters: all are asked, and the silent are written down."""

from __future__ import annotations

import json
from pathlib import Path

from featurelib.landing import Landing, read
from tests.backends.rig.cluster import RunningCluster
from tests.cli.commands import run


def collected(out: Path) -> list[dict[str, object]]:
    (path,) = out.iterdir()
    raw = path.read_bytes().splitlines()
    assert all(isinstance(read(line), Landing) for line in raw)
    return [json.loads(line) for line in raw]


def listeners(lines: list[dict[str, object]], *, silent: bool) -> set[tuple[object, object]]:
    asked = [line for line in lines if line["kind"] == "api_versions"]
    return {(one["role"], one["node_id"]) for one in asked if ("error" in one) == silent}


def test_a_mixed_cluster_with_a_ghost_lands_whole(
    mixed_cluster: RunningCluster, tmp_path: Path
) -> None:
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(
        f'[[cluster]]\nid = "{mixed_cluster.cluster_id}"\nname = "mixed"\n'
        f"bootstrap = {json.dumps(mixed_cluster.bootstrap.split(','))}\n"
        '[[cluster]]\nid = "down"\nbootstrap = ["127.0.0.1:1"]\nbrokers = [1]\n'
    )
    out = tmp_path / "landing"
    options = ["--fleet", str(fleet), "--timeout", "5"]
    code, text, said = run("collect", *options, "--out", str(out))
    assert code == 5
    assert text.startswith("1 cluster looked at, 1 not: down.")
    assert "down: NOT LOOKED AT: 127.0.0.1:1" in said
    assert len(list(out.iterdir())) == 2
    next(path for path in out.iterdir() if path.name.endswith("-down.jsonl")).unlink()
    lines = collected(out)
    assert {line["cluster_id"] for line in lines} == {mixed_cluster.cluster_id}
    assert listeners(lines, silent=False) >= {("controller", 100), ("broker", 1), ("broker", 2)}
    code, live, _ = run("describe", "mixed", *options)
    assert code == 0
    assert "controller 100" in live
    assert "running, active controller" in live
    code, stored, _ = run("describe", "--capture", str(out), "--json")
    document = json.loads(stored)
    nodes = {(n["role"], n["node_id"]): n for n in document["nodes"]}
    assert nodes["broker", 3]["state"] == "ghost"
    assert (nodes["broker", 2]["release"], nodes["broker", 1]["release"]) == ("3.9", "4.2")
    levels = {row["feature"]: row["level"] for row in document["levels"]}
    assert levels["metadata.version"] == 21
