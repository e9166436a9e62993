"""Side effects on a real cluster: what plan, show, approve and apply say is what happens."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest

from tests.backends.rig.asking import ask
from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.kraft import Node
from tests.cli.commands import run

ELR, KEY, BROKER = "eligible.leader.replicas.version", "min.insync.replicas", 4
FILE, CLUSTER_DEFAULT = 4, 3  # sources of DescribeConfigs


def effective(cluster: RunningCluster, node: int) -> tuple[str, int]:
    """The value that rules on a broker, and where it comes from."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    asked = resource(resource_type=BROKER, resource_name=str(node), configuration_keys=[KEY])
    said: Any = ask(cluster.nodes[node].broker, DescribeConfigsRequest(resources=[asked])).to_dict()
    [config] = said["results"][0]["configs"]
    return config["value"], config["config_source"]


def set_cluster_default(cluster: RunningCluster, value: str | None) -> None:
    """As kafka-configs.sh --entity-default does; None deletes it."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    config = resource.AlterableConfig(
        name=KEY, config_operation=1 if value is None else 0, value=value
    )
    asked = resource(resource_type=BROKER, resource_name="", configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[asked], validate_only=False)
    said: Any = ask(cluster.nodes[1].broker, request).to_dict()
    assert [one["error_code"] for one in said["responses"]] == [0]


def until(cluster: RunningCluster, wanted: tuple[str, int]) -> None:
    end = time.monotonic() + 20
    while (found := [effective(cluster, node) for node in (1, 2)]) != [wanted] * 2:
        assert time.monotonic() < end, found
        time.sleep(0.05)


@pytest.fixture
def usual(
    kraft_cluster: Callable[..., RunningCluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[RunningCluster, tuple[str, ...]]:
    """Brokers with 2 in their files and a controller without, as most are laid out; and the words
    that reach it."""
    brokers = [Node(id=i, roles="broker", properties={KEY: "2"}) for i in (1, 2)]
    cluster = kraft_cluster(Node(id=100, roles="controller"), *brokers, release_version="4.0")
    monkeypatch.chdir(tmp_path)
    controllers = ("--controllers", cluster.controller_bootstrap)
    return cluster, ("--bootstrap", cluster.bootstrap, *controllers, "--timeout", "10")


def carried_out(reach: tuple[str, ...], *asked: str) -> str:
    """Plan, show, approve, apply; all that was printed."""
    said = ""
    for words in (
        ("plan", *asked, *reach, "--out", "p.json"),
        ("show", "p.json"),
        ("approve", "p.json", "--expires", "1h", "--yes"),
        ("apply", "p.json", "--approval", "p.approval.json", *reach, "--yes"),
    ):
        code, out, err = run(*words)
        assert code == 0, out + err
        said += f"<{words[0]}>{' '.join(out.split())}"
    Path("p.approval.json").unlink()
    return said


def test_what_a_level_overwrites_is_said_before_it_happens_and_stays_after_going_back(
    usual: tuple[RunningCluster, tuple[str, ...]],
) -> None:
    cluster, reach = usual
    code, out, err = run("plan", "upgrade-all", *reach, "--out", "all.json")
    assert code == 0, out + err
    assert f"{ELR} could go up to 1, but it changes {KEY} too" in " ".join(out.split())
    assert f'"{ELR}"' not in Path("all.json").read_text().partition('"steps"')[2].partition("]")[0]
    carried_out(reach, "upgrade-all")
    assert [effective(cluster, node) for node in (1, 2)] == [("2", FILE)] * 2

    said = carried_out(reach, "upgrade", "--feature", f"{ELR}=1")
    for part in re.split("<(?:plan|show|approve|apply)>", said)[1:]:
        assert f"ALSO CHANGES {KEY}: brokers 1-2: 2 → 1 (where no cluster default is set" in part
        assert "Going back does not restore it." in part
    assert f"--entity-default --alter --add-config {KEY}=2" in said
    until(cluster, ("1", CLUSTER_DEFAULT))
    carried_out(reach, "disable", "--feature", ELR)
    until(cluster, ("1", CLUSTER_DEFAULT))

    # What was approved is no longer what it would do: a cluster default would stay now.
    assert run("plan", "upgrade", "--feature", f"{ELR}=1", *reach, "--out", "p.json")[0] == 0
    assert run("approve", "p.json", "--expires", "1h", "--yes")[0] == 0
    set_cluster_default(cluster, None)
    until(cluster, ("2", FILE))
    apply = ("apply", "p.json", "--approval", "p.approval.json", *reach, "--yes")
    code, out, err = run(*apply)
    assert code == 3, out + err
    assert f"side effect of {ELR} 1: expected {KEY}: brokers 1-2: 1 as now" in out + err
    assert "2 → 1" in out + err
    Path("p.approval.json").unlink()

    # The command that is told beforehand does what it is told for.
    set_cluster_default(cluster, "2")
    until(cluster, ("2", CLUSTER_DEFAULT))
    said = carried_out(reach, "upgrade", "--feature", f"{ELR}=1")
    assert f"ALSO CHANGES {KEY}: brokers 1-2: 2 as now (" in said
    assert "To keep the values" not in said
    until(cluster, ("2", CLUSTER_DEFAULT))
