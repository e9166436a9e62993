"""A real quorum that loses its majority: whoever leads or is left alone, it is said to have no
leader."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.backends.judged import collected, findings, judged, until
from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.kraft import Node
from tests.cli.commands import run
from tests.facts import first_fact

CODE, SILENT = ("quorum_without_leader", None, None), "node_not_answering"
NO_MAJORITY = "no_majority_answers"


@pytest.mark.parametrize("release", ["3.6.2", "4.3.1"])
@pytest.mark.parametrize("stays", ["leader", "follower"])
def test_who_is_left_of_a_quorum_leads_nobody(
    kraft_cluster: Callable[..., RunningCluster], tmp_path: Path, release: str, stays: str
) -> None:
    controllers = [Node(id=i, release=release, roles="controller") for i in (1, 2, 3)]
    cluster = kraft_cluster(*controllers, Node(id=4, release=release, roles="broker"))
    named = ",".join(f"{i}@{cluster.nodes[i].controller}" for i in (1, 2, 3))
    ways = ("--bootstrap", cluster.bootstrap, "--controllers", named)
    looks = iter(range(99))

    def look() -> list[bytes]:
        return collected(tmp_path / str(next(looks)), *ways)[0]

    # A broker that started no listener yet cannot say that it waits for a leader in vain.
    until(lambda: any(b'"role":"broker"' in line and b'"error"' not in line for line in look()))
    until(lambda: bool(leaders(look())))
    healthy = look()
    assert CODE not in findings(judged(healthy))
    [leader] = leaders(healthy)
    left = leader if stays == "leader" else leader % 3 + 1
    for node_id in {1, 2, 3} - {left}:
        cluster.stop_node(node_id, kill=True)
    until(lambda: CODE in findings(judged(look())), 60)
    found = findings(judged(look()))[CODE]
    assert (found["severity"], found["facts"]["voters"][:5]) == ("critical", "1 of ")


def leaders(lines: list[bytes]) -> set[int]:
    """Whom the nodes name that answered DescribeQuorum."""
    asked = (json.loads(line) for line in lines if b'"describe_quorum"' in line)
    answers = (line["answer"]["topics"][0]["partitions"][0] for line in asked if "answer" in line)
    return {int(one["leader_id"]) for one in answers if not one["error_code"]}


def test_controllers_that_run_and_do_not_reach_each_other_lead_nobody(
    kraft_cluster: Callable[..., RunningCluster], tmp_path: Path
) -> None:
    controllers = [Node(id=i, roles="controller") for i in (1, 2, 3)]
    cluster = kraft_cluster(*controllers, Node(id=4, roles="broker"))
    named = ",".join(f"{i}@{cluster.nodes[i].controller}" for i in (1, 2, 3))
    looks = iter(range(99))

    def look() -> list[bytes]:
        ways = ("--bootstrap", cluster.bootstrap, "--controllers", named)
        return collected(tmp_path / str(next(looks)), *ways)[0]

    until(lambda: bool(leaders(look())))
    assert CODE not in findings(judged(look()))
    for i in (1, 2, 3):
        cluster.stop_node(i, kill=True)
        conf = cluster.nodes[i].process.home / "server.properties"
        text, mine = conf.read_text("utf-8"), f"{i}@{cluster.nodes[i].controller}"
        others = ",".join(mine if n == i else f"{n}@127.0.0.1:1" for n in (1, 2, 3))
        conf.write_text(text.replace(named, others), "utf-8")
        cluster.nodes[i].launch()
    until(lambda: CODE in findings(judged(look())), 90)
    # So far somebody may not have been up yet. They have no metadata, and do not list themselves.
    until(lambda: not [code for code, *_ in findings(judged(look())) if code == SILENT], 60)
    found = findings(judged(look()))
    assert (found[CODE]["severity"], found[CODE]["facts"]["cause"]) == ("critical", "listener")


@pytest.mark.parametrize("release", ["3.8.1", "4.1.2"])
def test_a_controller_that_is_left_alone_is_read_by_its_plain_address(
    kraft_cluster: Callable[..., RunningCluster], tmp_path: Path, release: str
) -> None:
    cluster = kraft_cluster(*(Node(id=i, release=release, roles="controller") for i in (3, 4, 5)))
    for node_id in (3, 4, 5):
        cluster.stop_node(node_id, kill=True)
    cluster.nodes[3].launch()  # it never finds a leader, and lists nobody
    addresses = ", ".join(f'"{cluster.nodes[i].controller}"' for i in (3, 4, 5))
    fleet = tmp_path / "fleet.toml"
    entry = f'[[cluster]]\nid = "{cluster.cluster_id}"\nbootstrap = ["127.0.0.1:1"]\n'
    fleet.write_text(f"{entry}controller_bootstrap = [{addresses}]\n")
    looks = iter(range(99))

    def look() -> tuple[int, list[bytes], str]:
        out = tmp_path / str(next(looks))
        code, _, said = run("collect", "--fleet", str(fleet), "--timeout", "5", "--out", str(out))
        return (
            code,
            [line for path in out.iterdir() for line in path.read_bytes().splitlines()],
            said,
        )

    until(lambda: look()[0] == 0)
    _, lines, said = look()
    assert not [line for line in lines if b'"not_reached"' in line]
    assert "controller 3: DescribeCluster was answered with error 35: " in said
    _, _, said = run("collect", "--bootstrap", cluster.nodes[3].controller, "--out", str(tmp_path))
    assert "use it under controller_bootstrap" in said
    assert ".. " not in said
    [found] = [row for (code, *_), row in findings(judged(lines)).items() if code == NO_MAJORITY]
    assert "1 of 3 voters responded" in first_fact(found)


def test_a_controller_that_does_not_say_its_id_is_not_called_silent(
    kraft_cluster: Callable[..., RunningCluster], tmp_path: Path
) -> None:
    cluster = kraft_cluster(*(Node(id=i, release="3.6.2", roles="controller") for i in (3, 4, 5)))
    for node_id in (4, 5):
        cluster.stop_node(node_id, kill=True)
    address = cluster.nodes[3].controller
    words = ("--controllers", address, "--timeout", "5", "--out", str(tmp_path))
    until(lambda: "found one that does not" in run("collect", *words)[2])
    code, _, said = run("collect", *words)
    assert (code, f"{address}: NOT READ: expected a controller that says" in said) == (5, True)
    assert "Write it as ID@HOST:PORT." in said
    assert "Check the address" not in said
