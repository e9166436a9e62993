"""`--probe` on real clusters: what is asked moves nothing, and what nobody lists is found."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.landing import Landing, ProbeReply, read
from tests.backends.judged import (
    METADATA,
    Row,
    collected,
    findings,
    judged,
    levels,
    until,
    verdict,
    ways,
)
from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.kraft import Node
from tests.backends.rig.security import password
from tests.cli.commands import run
from tests.facts import first_fact


def codes(lines: list[bytes]) -> dict[str, Row]:
    """Findings by code."""
    return {code: row for (code, _, _), row in findings(judged(lines)).items()}


def probes(lines: list[bytes]) -> list[ProbeReply]:
    said = [line.content for line in map(read, lines) if isinstance(line, Landing)]
    return [one for one in said if isinstance(one, ProbeReply)]


def test_a_real_controller_agrees_and_every_level_stays(
    kraft_node: RunningCluster, tmp_path: Path
) -> None:
    before = levels(kraft_node.bootstrap)
    lines, said = collected(tmp_path / "out", "--probe", "--bootstrap", kraft_node.bootstrap)
    assert "--probe: each KRaft controller is sent one UpdateFeatures request" in said
    assert "probe: the controller agreed, validating only: " in said
    [probe] = probes(lines)
    assert METADATA in {one.feature for one in probe.answers}
    assert "kraft.version" not in {one.feature for one in probe.answers}
    assert {one.code for one in probe.answers} == {0}
    assert "probe_agreed" in codes(lines)
    assert verdict(judged(lines)) == "READY"
    assert levels(kraft_node.bootstrap) == before


def test_what_3_9_lists_to_nobody_is_proven_by_its_controller(
    kraft_cluster: Callable[..., RunningCluster], tmp_path: Path
) -> None:
    """Before 4.0 DescribeCluster leaves fenced brokers out: only the controller knows them all."""
    cluster = kraft_cluster(Node(id=1, release="3.9.2"), release_version="3.8")
    before = levels(cluster.bootstrap)
    lines, said = collected(tmp_path / "out", "--probe", "--bootstrap", cluster.bootstrap)
    assert "probe: the controller agreed, validating only: metadata.version 20 to 21" in said
    without = [line for line in lines if b'"kind":"probe"' not in line]
    assert verdict(judged(without)) == "UNKNOWN"
    assert "registrations_unproven" in codes(without)
    assert verdict(judged(lines)) == "READY"
    assert "registrations_unproven" not in codes(lines)
    assert levels(cluster.bootstrap) == before


@pytest.mark.parametrize(("release", "level"), [("3.9.2", 21), ("3.3.2", 7)])
def test_the_controller_of_a_cluster_at_its_ceiling_agrees_to_stay_which_proves_registrations(
    kraft_cluster: Callable[..., RunningCluster], tmp_path: Path, release: str, level: int
) -> None:
    """Nothing can be upgraded, so the probe is for the present level."""
    version = release.rpartition(".")[0]
    cluster = kraft_cluster(Node(id=1, release=release), release_version=version)
    before = levels(cluster.bootstrap)
    lines, said = collected(tmp_path / "out", "--probe", *ways(cluster))
    without = [line for line in lines if b'"kind":"probe"' not in line]
    assert f"the controller agreed, validating only: {METADATA} {level} to {level}" in said
    assert (verdict(judged(without)), verdict(judged(lines))) == ("UP_TO_DATE", "UP_TO_DATE")
    assert "registrations_unproven" in codes(without)
    assert "registrations_unproven" not in codes(lines)
    assert levels(cluster.bootstrap) == before


def test_a_controller_that_is_down_is_answered_for_by_the_active_one(
    cluster_without_a_controller: RunningCluster, tmp_path: Path
) -> None:
    """From metadata.version 15 on all that registered are asked; one of three is enough to miss."""
    cluster = cluster_without_a_controller
    before = levels(cluster.bootstrap)
    lines, said = collected(tmp_path / "out", "--probe", *ways(cluster))
    assert f"agreed, validating only: {METADATA} 27 to 29" in said.replace("\n", " ")
    without = [line for line in lines if b'"kind":"probe"' not in line]
    assert (verdict(judged(without)), verdict(judged(lines))) == ("UNKNOWN", "READY")
    assert codes(without)["node_not_answering"]["node_id"] == 3
    assert codes(lines)["node_probed"]["node_id"] == 3
    assert levels(cluster.bootstrap) == before


def test_a_plan_that_rests_on_a_probe_is_applied_by_asking_again(
    kraft_cluster: Callable[..., RunningCluster], tmp_path: Path
) -> None:
    """What nobody can list in 3.9 is asked for by `plan --probe`, and again before it is sent."""
    cluster = kraft_cluster(Node(id=1, release="3.9.2"), release_version="3.8")
    plan, approval = tmp_path / "plan.json", tmp_path / "plan.approval.json"
    way = ("--bootstrap", cluster.bootstrap, "--timeout", "5")
    code, out, said = run("plan", "upgrade-all", *way, "--out", str(plan))
    assert (code, plan.exists()) == (3, False), said
    assert "registrations_unproven" in out
    before = levels(cluster.bootstrap)
    code, out, said = run("plan", "upgrade-all", *way, "--out", str(plan), "--probe")
    assert code == 0, (out, said)
    assert "to validate only: metadata.version 20 to 21 (needs ALTER)" in said
    assert levels(cluster.bootstrap) == before
    assert run("approve", str(plan), "--expires", "1h", "--yes")[0] == 0
    kept = (*way, "--journal", str(tmp_path / "journal.sqlite"), "--yes")
    code, out, said = run("apply", str(plan), "--approval", str(approval), *kept)
    assert code == 0, (out, said)
    assert "the controller knows all of them, so its response decides" in said
    assert said.count("asking the controller to validate") == 1
    assert out.splitlines()[-1].startswith("Applied: ")
    assert levels(cluster.bootstrap)[METADATA] == 21


def with_ghosts(
    kraft_cluster: Callable[..., RunningCluster], release: str, out: Path
) -> RunningCluster:
    """A dynamic quorum of controller 1, and broker 4 and controller 3 that registered and died."""
    ghosts = (
        Node(id=3, roles="controller", release=release),
        Node(id=4, roles="broker", release=release),
    )
    cluster = kraft_cluster(Node(id=1), *ghosts, release_version="4.1", dynamic=True)
    tries = itertools.count()

    def are_registered() -> bool:
        where = out / str(next(tries))
        lines, _ = collected(where, "--bootstrap", cluster.bootstrap.split(",")[0])
        said = [one for one in map(json.loads, lines) if one["kind"] == "describe_cluster"]
        nodes = {
            (one["endpoint_type"], node["broker_id"])
            for one in said
            for node in one["answer"]["brokers"]
        }
        return {(1, 4), (2, 3)} <= nodes

    until(are_registered)
    for ghost in ghosts:
        cluster.stop_node(ghost.id, kill=True)
    return cluster


def until_gone(cluster: RunningCluster, out: Path) -> None:
    """Wait until Kafka itself calls both ghosts gone."""
    tries = itertools.count()

    def are_gone() -> bool:
        lines, _ = collected(out / str(next(tries)), "--bootstrap", cluster.bootstrap.split(",")[0])
        said = findings(judged(lines))
        who = ("controller", 3), ("broker", 4)
        return all(("range_unknown", *one) in said for one in who)

    until(are_gone, 300)


def test_a_refusal_names_a_ghost_and_its_range_that_nobody_saw(
    kraft_cluster: Callable[..., RunningCluster], tmp_path: Path
) -> None:
    cluster = with_ghosts(kraft_cluster, "4.1.2", tmp_path / "before")
    until_gone(cluster, tmp_path / "looks")
    before, way = levels(cluster.nodes[1].broker), ("--bootstrap", cluster.bootstrap.split(",")[0])
    code, out, said = run("plan", "upgrade-all", *way, "--out", str(tmp_path / "plan.json"))
    assert code == 3, said
    text = " ".join(out.split())
    assert "Controller 3 is registered, and its supported range was never collected" in text
    assert "Below metadata.version 33 (Kafka 4.4) no controller can be unregistered" in text
    assert "set controllers_complete = true in fleet.toml" in text
    code, out, said = run(
        "plan", "upgrade-all", *way, "--out", str(tmp_path / "plan.json"), "--probe"
    )
    assert (code, "to validate only: metadata.version 27 to 29" in said) == (3, True), said
    text = " ".join(out.split())
    assert "range_unknown" not in text
    assert "Broker 4 does not support metadata.version 29 (4.2-IV1): it supports 7-27" in text
    assert f"kafka-cluster.sh unregister --bootstrap-server {way[1]} --id 4" in text
    lines, said = collected(tmp_path / "out", "--probe", *way)
    row = findings(judged(lines))["unsupported_by_node", "broker", 4]
    assert (row["feature"], row["min_version"], row["max_version"]) == (METADATA, 7, 27)
    assert verdict(judged(lines)) == "BLOCKED"
    # The request was refused as a whole, for metadata.version. Alone, each other is asked again.
    unsettled = findings(judged(lines))["probe_unsettled", None, None]["feature"]
    assert unsettled in {"share.version", "streams.version"}
    alone = ("--feature", f"{unsettled}=1", *way, "--out", str(tmp_path / "alone.json"), "--probe")
    code, out, said = run("plan", "upgrade", *alone)
    assert (code, f"for feature {unsettled}. Broker 4 does not" in " ".join(out.split())) == (
        3,
        True,
    )
    assert levels(cluster.nodes[1].broker) == before


def test_a_plan_over_ghosts_whose_range_nobody_saw_rests_on_the_controllers_yes(
    kraft_cluster: Callable[..., RunningCluster], tmp_path: Path
) -> None:
    cluster = with_ghosts(kraft_cluster, "4.2.1", tmp_path / "before")
    until_gone(cluster, tmp_path / "looks")
    plan, approval = tmp_path / "plan.json", tmp_path / "plan.approval.json"
    way = ("--bootstrap", cluster.bootstrap.split(",")[0], "--timeout", "5")
    assert run("plan", "upgrade-all", *way, "--out", str(plan))[0] == 3
    lines, _ = collected(tmp_path / "out", "--probe", *way[:2])
    assert verdict(judged(lines)) == "READY"
    code, out, said = run("plan", "upgrade-all", *way, "--out", str(plan), "--probe")
    assert code == 0, (out, said)
    assert run("approve", str(plan), "--expires", "1h", "--yes")[0] == 0
    kept = (*way, "--journal", str(tmp_path / "journal.sqlite"), "--yes")
    code, out, said = run("apply", str(plan), "--approval", str(approval), *kept)
    assert code == 0, (out, said)
    assert "the controller knows all of them, so its response decides" in said
    assert out.splitlines()[-1].startswith("Applied: ")
    assert levels(cluster.nodes[1].broker)[METADATA] == 29


def test_without_the_right_to_alter_the_rest_lands_and_the_right_is_named(
    secured_node: RunningCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert secured_node.security is not None
    monkeypatch.setenv("VIEWER", password("viewer"))
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(
        f'[[cluster]]\nid = "{secured_node.cluster_id}"\n'
        f"bootstrap = {json.dumps(secured_node.bootstrap.split(','))}\n"
        '[cluster.security]\nprotocol = "SASL_SSL"\nmechanism = "PLAIN"\n'
        f'username = "viewer"\npassword = "env:VIEWER"\n'
        f'ca_file = "{secured_node.security.certificate}"\n'
    )
    lines, said = collected(
        tmp_path / "out", "--probe", secured_node.cluster_id, "--fleet", str(fleet)
    )
    assert "permission ALTER on the cluster is missing" in said
    withheld = [
        first_fact(row)
        for row in judged(lines).judged.findings.to_pylist()
        if row["code"] == "right_withheld"
    ]
    assert len(withheld) == 3
    assert any("DESCRIBE_CONFIGS on CLUSTER; DescribeConfigs was refused" in d for d in withheld)
    assert any("ALTER on CLUSTER; UpdateFeatures was refused" in detail for detail in withheld)
    assert verdict(judged(lines)) == "UNKNOWN"  # no list shows the registered controllers
    entry = FleetEntry(id=secured_node.cluster_id, controllers_complete=True)
    assert verdict(judged(lines, Fleet(cluster=(entry,)))) == "READY"
