"""`featurelib check` on real clusters: it agrees with `plan` and with the nightly's tables, and the
next command that it prints works as it is pasted."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.backends.judged import until, ways
from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.jars import ROOT
from tests.backends.rig.kraft import ONE_LEADER, Node
from tests.backends.rig.security import password
from tests.cli.commands import run

# Of a feature: what a look now and a night that read the same lines both say.
SAID = ("feature", "verdict", "finalized", "target", "ceiling", "available", "point_of_no_return")


def checked(*words: str) -> tuple[int, dict[str, Any]]:
    """The exit code of a check, and its report."""
    code, out, _ = run("check", *words, "--timeout", "5", "--json")
    return code, json.loads(out)


def readiness(cluster: dict[str, Any]) -> list[dict[str, Any]]:
    return [{key: row[key] for key in SAID} for row in cluster["readiness"]]


def codes(cluster: dict[str, Any]) -> list[tuple[object, ...]]:
    # Remedies name the landing folder, which a live look has none of.
    keys = ("code", "severity", "role", "node_id", "feature", "finalized", "level", "supported")
    return sorted((tuple(str(f[key]) for key in keys) for f in cluster["findings"]), key=str)


def test_a_check_agrees_with_the_plan_and_with_the_nightly(
    kraft_cluster: Callable[..., RunningCluster],
    zookeeper_cluster: RunningCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    new = kraft_cluster(
        Node(id=1), Node(id=2, roles="broker", properties=ONE_LEADER), release_version="4.1"
    )
    old = kraft_cluster(Node(id=1, release="3.9.2"), release_version="3.7")
    zk = zookeeper_cluster
    way = ("--bootstrap", zk.bootstrap, "--zookeeper", zk.zookeeper)
    [of_zookeeper] = checked(*way)[1]["clusters"]
    reached = {new.cluster_id: ways(new), old.cluster_id: ways(old), of_zookeeper["key"]: way}
    entries = {
        new.cluster_id: f"bootstrap = {json.dumps(new.bootstrap.split(','))}",
        old.cluster_id: f'bootstrap = ["{old.bootstrap}"]\n'
        f'controller_bootstrap = ["{old.controller_bootstrap}"]',
        of_zookeeper["key"]: f"bootstrap = {json.dumps(zk.bootstrap.split(','))}\n"
        f'zookeeper = "{zk.zookeeper}"',
    }
    fleet = tmp_path / "fleet.toml"
    fleet.write_text("".join(f'[[cluster]]\nid = "{key}"\n{way}\n' for key, way in entries.items()))
    collected = run("collect", "--fleet", str(fleet), "--timeout", "5", "--out", "landing")
    assert collected[0] == 0, collected
    places = ("--landing", "landing", "--tables", "tables", "--out", "out", "--fleet", str(fleet))
    nightly = [str(ROOT / "spark-submit.sh"), "nightly", *places, "--as-of", "newest"]
    subprocess.run(nightly, check=True, stdout=subprocess.DEVNULL, cwd=tmp_path)
    night = json.loads((tmp_path / "out" / "report.json").read_text())
    of_night = {one["key"]: one for one in night["clusters"]}

    code, live = checked("--all", "--fleet", str(fleet))
    landed = checked("--all", "--capture", "landing", "--fleet", str(fleet), "--as-of", "newest")
    assert (code, landed[0]) == (0, 0)
    for report in (live, landed[1]):
        assert [one["key"] for one in report["clusters"]] == [*of_night]  # the worst first
        for one in report["clusters"]:
            other = of_night[one["key"]]
            assert readiness(one) == readiness(other)
            assert (codes(one), one["summary"]) == (codes(other), other["summary"])
            assert (one["verdict"], one["returns"]) == (other["verdict"], other["returns"])
        assert report["fleet"] == night["fleet"]
    verdicts = {key: one["verdict"] for key, one in of_night.items()}
    assert verdicts[new.cluster_id] == "READY"

    for key, way in reached.items():
        _, report = checked(*way)
        [one] = report["clusters"]
        assert readiness(one) == readiness(of_night[key])
        code, out, err = run("plan", "upgrade-all", *way, "--json", "--out", f"{key}.json")
        planned = json.loads(out)
        steps = [
            (move["feature"], move["from_level"], move["to_level"])
            for step in (planned["plan"] or {}).get("steps", [])
            for move in step["updates"]
        ]
        assert steps == [
            (step["feature"], step["from_level"]["number"], step["to_level"]["number"])
            for step in one["steps"]
        ], err
        assert {r["code"] for r in planned["refusals"]} <= {f["code"] for f in one["findings"]}
        for command in one["commands"]:
            assert all(address in command for address in way if not address.startswith("--"))
            name, *words = shlex.split(command)
            code, _, err = run(*words, "--timeout", "5")
            assert (name, code) == ("featurelib", 0), err


def test_a_stopped_broker_is_named_with_what_to_paste_and_another_cluster_is_refused(
    kraft_cluster: Callable[..., RunningCluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    forgotten = Node(id=2, release="4.1.2", roles="broker", properties=ONE_LEADER)
    cluster = kraft_cluster(Node(id=1), forgotten, release_version="4.1")
    address = cluster.nodes[1].broker
    command = f"kafka-cluster.sh unregister --bootstrap-server {address} --id 2"

    def look() -> tuple[int, str]:
        way = ("--bootstrap", address, "--fail-on", "blocker", "--timeout", "5")
        code, out, _ = run("check", *way)
        return code, out

    code, out = look()
    assert (code, "BLOCKED: Broker 2 blocks metadata.version" in out) == (1, True), out
    next_command = f"featurelib why-not metadata.version=29 --bootstrap {address}"
    assert out.splitlines()[-1].strip() == next_command
    assert run(*shlex.split(next_command)[1:], "--timeout", "5")[0] == 0
    cluster.stop_node(2, kill=True)
    until(lambda: command in look()[1])  # it is fenced some seconds later
    code, out = look()
    next_command = f"featurelib plan upgrade-all --probe --bootstrap {address}"
    assert (code, out.splitlines()[-1].strip()) == (0, next_command), out
    code, out, err = run(*shlex.split(next_command)[1:], "--timeout", "5")
    assert (code, "broker 2" in (out + err).casefold()) == (3, True), (out, err)

    fleet = tmp_path / "fleet.toml"
    fleet.write_text(f'[[cluster]]\nid = "another"\nname = "a"\nbootstrap = ["{address}"]\n')
    code, out, err = run("check", "a", "--fleet", str(fleet))
    assert (code, out) == (2, "")
    assert f"expected the cluster another (a), found {cluster.cluster_id}" in err
    code, out, err = run("check", "--bootstrap", "127.0.0.1:1", "--timeout", "1")
    assert (code, out, "connection refused" in err) == (5, "", True)


def test_what_a_login_or_a_right_hides_ends_with_5_and_says_what_to_change(
    secured_node: RunningCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert secured_node.security is not None
    monkeypatch.chdir(tmp_path)

    def look(user: str, secret: str, mechanism: str = "PLAIN") -> tuple[int, str]:
        monkeypatch.setenv("SECRET", secret)
        Path("fleet.toml").write_text(
            f'[[cluster]]\nid = "{secured_node.cluster_id}"\nname = "pay"\n'
            f"bootstrap = {json.dumps(secured_node.bootstrap.split(','))}\n"
            f'[cluster.security]\nprotocol = "SASL_SSL"\nmechanism = "{mechanism}"\n'
            f'username = "{user}"\npassword = "env:SECRET"\n'
            f'ca_file = "{secured_node.security.certificate}"\n'  # type: ignore[union-attr]
        )
        code, out, _ = run("check", "pay", "--fleet", "fleet.toml", "--timeout", "5")
        return code, " ".join(out.split())

    assert look("viewer", password("viewer"))[0] == 0  # READY
    code, out = look("stranger", password("stranger"))
    command = (
        f"kafka-acls.sh --bootstrap-server {secured_node.bootstrap} --command-config "
        "admin.properties --add --allow-principal User:stranger --operation Describe --cluster"
    )
    assert (code, "UNKNOWN: A permission is missing" in out, command in out) == (5, True, True), out
    code, out = look("viewer", "wrong")
    assert (code, "Renew the token, password or ticket" in out) == (5, True), out
    code, out = look("viewer", password("viewer"), "SCRAM-SHA-512")
    assert (code, "Renew" in out, "the mechanism SCRAM-SHA-512" in out) == (5, False, True), out
    assert "give the cluster the security settings of its listeners" in out
