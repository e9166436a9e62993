"""Every remedy that is printed, carried out on real clusters: it does what it says.

tests/docs/test_remedies.py says which test tries which command.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from featurelib.audit.findings import FindingWords, wordings
from featurelib.catalogue import load
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.core.dialect import STRICT
from featurelib.core.dialect import load as load_dialect
from featurelib.feature import UpgradeType
from featurelib.landing import kinds
from tests.backends.judged import (
    PATIENCE_SECONDS,
    Row,
    collected,
    findings,
    judged,
    until,
    validated,
    verdict,
    ways,
)
from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.jars import class_path, more_jars
from tests.backends.rig.java import Java, find
from tests.backends.rig.kraft import Node
from tests.backends.rig.layout import write_properties
from tests.cli.commands import run
from tests.facts import first_fact
from tests.walk.wire import Line

TOOLS = {
    "kafka-cluster.sh": "org.apache.kafka.tools.ClusterTool",
    "kafka-metadata-quorum.sh": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-features.sh": "org.apache.kafka.tools.FeatureCommand",
}
Clusters = Callable[..., RunningCluster]


def carry_out(
    cluster: RunningCluster, command: str, **names: str
) -> subprocess.CompletedProcess[str]:
    """Runs a printed command by the real tool; `names` fill in what only its reader knows."""
    filled = {"HOST:PORT": cluster.bootstrap} | names
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, filled))})\b")
    script, *words = shlex.split(pattern.sub(lambda found: filled[found[1]], command))
    if script == "kafka-dump-log.sh":
        return dumped(cluster, *words)
    return cluster.java.run(TOOLS[script], *words, timeout_seconds=120)


def dumped(cluster: RunningCluster, *words: str) -> subprocess.CompletedProcess[str]:
    """kafka-dump-log: in core before 4.3. Of 4.4 there is none on Maven Central: that of 4.3.1 is
    given the records that 4.4 knows."""
    release = max(node.release for node in cluster.nodes.values())
    before = tuple(map(int, release.split("."))) < (4, 3)
    main = "kafka.tools.DumpLogSegments" if before else "org.apache.kafka.tools.DumpLogSegments"
    java = cluster.java
    if release == "4.4.0":
        newer = {jar.name.rpartition("-")[0]: jar for jar in class_path(release)}
        records, what_they_need = newer["kafka-metadata"], newer["kafka-clients"]
        java = replace(java, jars=(records, *java.jars, what_they_need))
    return java.run(main, *words, timeout_seconds=120)


def log_lines(cluster: RunningCluster, node_id: int = 1) -> list[bytes]:
    """The metadata log of a node, dumped by the real tool, as landing lines of this moment."""
    node = cluster.nodes[node_id]
    folder = node.process.home / "data" / "__cluster_metadata-0"
    files = sorted(
        str(path) for ending in ("checkpoint", "log") for path in folder.glob(f"*.{ending}")
    )
    told = dumped(cluster, "--cluster-metadata-decoder", "--files", ",".join(files))
    at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    head = {"kind": "metadata_log", "cluster_id": cluster.cluster_id, "observed_at": at}
    return [
        json.dumps(head | {"line_number": number, "line": text}).encode()
        for number, text in enumerate(told.stdout.splitlines(), start=1)
    ]


def lines_of(cluster: RunningCluster, out: Path, *words: str) -> list[bytes]:
    return collected(out, *ways(cluster), *words)[0]


def remedy(row: Row) -> tuple[str, str]:
    said = FindingWords(load()).of(row)  # type: ignore[arg-type]
    return said.action, said.command


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets the time pass after which a controller that fetches no more follows no more: less of it
    than for users."""

    def wait() -> None:
        monkeypatch.setattr(kinds, "FOLLOWS_WITHIN_MS", 3_000)
        time.sleep(4)

    return wait


@pytest.mark.parametrize(
    ("newer", "older", "formatted", "target"),
    [("4.2.1", "4.1.2", "4.1", 29), ("3.9.2", "3.8.1", "3.8", 21)],
)
def test_a_ghost_broker_is_unregistered_by_the_printed_command(
    kraft_cluster: Clusters, tmp_path: Path, newer: str, older: str, formatted: str, target: int
) -> None:
    ghost = Node(id=2, roles="broker", release=older)
    cluster = kraft_cluster(Node(id=1, release=newer), ghost, release_version=formatted)
    assert (
        findings(judged(lines_of(cluster, tmp_path / "before")))
        .keys()
        .isdisjoint({("ghost_broker", "broker", 2)})
    )
    cluster.stop_node(2)
    log = log_lines(cluster)
    view = judged([*lines_of(cluster, tmp_path / "ghost"), *log])
    row = findings(view)["ghost_broker", "broker", 2]
    assert verdict(view) == "BLOCKED"
    assert "Broker 2" in validated(cluster, target)
    _, command = remedy(row)
    done = carry_out(cluster, command)
    assert (done.returncode, "no longer registered" in done.stdout) == (0, True), done
    until(lambda: validated(cluster, target) == "")
    view = judged([*lines_of(cluster, tmp_path / "after"), *log_lines(cluster)])
    assert not [key for key in findings(view) if key[1:] == ("broker", 2)]
    assert verdict(view) == "READY"


def test_the_broker_half_of_a_node_that_is_a_controller_now_is_unregistered(
    kraft_cluster: Clusters, tmp_path: Path
) -> None:
    cluster = kraft_cluster(Node(id=1), Node(id=2), release_version="4.1")
    path = cluster.nodes[2].process.home / "server.properties"
    lines = [line for line in path.read_text().splitlines() if "advertised" not in line]
    given = dict(line.split("=", 1) for line in lines)
    [listener] = [text for text in given["listeners"].split(",") if "CONTROLLER" in text]
    cluster.stop_node(2)
    write_properties(path, given | {"process.roles": "controller", "listeners": listener})
    cluster.start_node(2)
    view = judged([*lines_of(cluster, tmp_path / "ghost"), *log_lines(cluster)])
    text, command = remedy(findings(view)["ghost_broker", "broker", 2])
    assert text.startswith("The controller of this node runs, and its broker does not.")
    assert carry_out(cluster, command).returncode == 0
    view = judged([*lines_of(cluster, tmp_path / "after"), *log_lines(cluster)])
    assert not [key for key in findings(view) if key[1:] == ("broker", 2)]
    assert verdict(view) == "READY"


def test_a_broker_unregistered_while_it_runs_is_restarted_with_newer_software(
    kraft_cluster: Clusters, tmp_path: Path
) -> None:
    """Nobody tells it: its heartbeats are refused. With the old software it does not come back."""
    cluster = kraft_cluster(
        Node(id=1), Node(id=2, roles="broker", release="4.1.2"), release_version="4.1"
    )
    expected = Fleet(cluster=(FleetEntry(id=cluster.cluster_id, brokers=(1, 2)),))
    before = lines_of(cluster, tmp_path / "before")
    carry_out(cluster, "kafka-cluster.sh unregister --bootstrap-server HOST:PORT --id 2")
    with Line(cluster.nodes[1].broker, PATIENCE_SECONDS) as line:
        move = ("streams.version", 1, UpgradeType.UPGRADE)
        assert line.update_features([move], validate_only=False).is_good
    until(lambda: "received error STALE_BROKER_EPOCH" in cluster.logs(2))
    view = judged([*before, *lines_of(cluster, tmp_path / "out")], expected)
    for code in ("incompatible_with_finalized", "expected_node_not_registered"):
        text, _ = remedy(findings(view)[code, "broker", 2])
        assert text.startswith("Upgrade the software of broker 2 until it supports the ")
    node = cluster.nodes[2]
    cluster.stop_node(2, kill=True)
    node.launch()
    until(lambda: "Unable to register broker 2" in cluster.logs(2))
    cluster.stop_node(2, kill=True)
    cluster.java.serve(node.process, "kafka.Kafka", str(node.process.home / "server.properties"))
    node.process.wait()
    view = judged(lines_of(cluster, tmp_path / "back"), expected)
    assert not [key for key in findings(view) if key[1:] == ("broker", 2)]


def test_a_ghost_controller_below_33_registers_anew_and_no_command_is_printed(
    kraft_cluster: Clusters, tmp_path: Path, gone: Callable[[], None]
) -> None:
    """Its registration counts although it never voted; the broker's command does not help."""
    old = Node(id=101, roles="controller", release="4.1.2")
    cluster = kraft_cluster(Node(id=1), old, release_version="4.1", dynamic=True)
    until(lambda: "Controller 101" in validated(cluster, 29))  # it fetches before it is registered
    before = lines_of(cluster, tmp_path / "before")
    assert "unsupported_by_node" in {code for code, _, _ in findings(judged(before))}
    # Without a line of its own and without a list, DescribeQuorum alone shows that it is there.
    lists = re.compile(rb'"kind": ?"describe_cluster".*"listener": ?"controller"')
    rest = [line for line in before if b'"node_id":101' not in line and not lists.search(line)]
    assert ("observer_unknown", None, 101) in findings(judged(rest))
    assert verdict(judged(rest)) == "UNKNOWN"
    cluster.stop_node(101)
    gone()
    view = judged([*before, *lines_of(cluster, tmp_path / "gone")])
    row = findings(view)["ghost_controller", "controller", 101]
    assert (row["finalized_level"], first_fact(row), verdict(view)) == (27, "4.2", "BLOCKED")
    text, command = remedy(row)
    assert "start a new controller with its id" in text
    assert command == ""
    assert "Controller 101 only supports versions 7-27" in validated(cluster, 29)
    wrong = carry_out(cluster, "kafka-cluster.sh unregister --bootstrap-server HOST:PORT --id 101")
    assert "not currently registered" in wrong.stdout + wrong.stderr
    node = cluster.nodes[101]
    cluster.java.serve(node.process, "kafka.Kafka", str(node.process.home / "server.properties"))
    node.process.wait()
    until(lambda: validated(cluster, 29) == "")
    anew = lines_of(cluster, tmp_path / "anew")
    cluster.stop_node(101)
    assert validated(cluster, 29) == ""
    gone()
    for before in (anew, ()):  # it may have registered something else since it answered
        stopped = judged([*before, *lines_of(cluster, tmp_path / f"stopped{len(before)}")])
        assert verdict(stopped) == "UNKNOWN"
        assert ("range_unknown", "controller", 101) in findings(stopped)
    probed = judged(lines_of(cluster, tmp_path / "probed", "--probe"))
    assert (verdict(probed), ("node_probed", "controller", 101) in findings(probed)) == (
        "READY",
        True,
    )
    dumped = judged([*lines_of(cluster, tmp_path / "dumped"), *log_lines(cluster)])
    assert verdict(dumped) == "READY"


def test_a_ghost_controller_is_unregistered_from_33_on(
    kraft_cluster: Clusters, tmp_path: Path, gone: Callable[[], None]
) -> None:
    """By the request of Kafka 4.4; its tool, whose command is printed, is not on Maven Central."""
    nodes = (Node(id=1, release="4.4.0"), Node(id=102, roles="controller", release="4.4.0"))
    cluster = kraft_cluster(*nodes, release_version="4.4", dynamic=True)
    registered = re.compile(rb"REGISTER_CONTROLLER_RECORD.*controllerId\W+102\b")
    until(lambda: any(map(registered.search, log_lines(cluster))))  # it fetches before that
    cluster.stop_node(102)
    gone()
    view = judged([*lines_of(cluster, tmp_path / "gone"), *log_lines(cluster)])
    _, command = remedy(findings(view)["ghost_controller", "controller", 102])
    assert command == "kafka-cluster.sh unregister-controller --bootstrap-server HOST:PORT --id 102"
    with Line(cluster.nodes[1].broker, PATIENCE_SECONDS) as line:
        assert line.unregister_controller(102) == "done"
    log = log_lines(cluster)
    assert any(b"UNREGISTER_CONTROLLER_RECORD" in line for line in log)
    view = judged([*lines_of(cluster, tmp_path / "after"), *log])
    assert not [key for key in findings(view) if key[2] == 102]


def test_a_voter_that_never_registered_is_started_with_the_software_named(
    kraft_cluster: Clusters, tmp_path: Path
) -> None:
    voters = (Node(id=2, roles="controller"), Node(id=3, roles="controller", started=False))
    cluster = kraft_cluster(Node(id=1), *voters, release_version="4.1")
    row = findings(judged(lines_of(cluster, tmp_path / "before")))[
        "voter_not_registered", "controller", 3
    ]
    assert remedy(row) == (
        "Start the voter with Kafka 4.2 or later, so that it registers.",
        remedy(row)[1],
    )
    assert "controller 3 has not registered" in validated(cluster, 29)
    cluster.start_node(3)
    until(lambda: validated(cluster, 29) == "")
    assert verdict(judged(lines_of(cluster, tmp_path / "after"))) == "READY"


@pytest.mark.parametrize("release", ["4.1.2", "4.2.1"])
def test_a_dead_voter_is_taken_out_of_the_quorum_by_the_printed_command(
    kraft_cluster: Clusters, tmp_path: Path, gone: Callable[[], None], release: str
) -> None:
    nodes = (Node(id=1), *(Node(id=i, roles="controller") for i in (2, 3)))
    nodes = tuple(replace(node, release=release) for node in nodes)
    cluster = kraft_cluster(*nodes, release_version=release[:3], dynamic=True)
    tool = "kafka-metadata-quorum.sh --bootstrap-server HOST:PORT"
    for i in (2, 3):
        file = cluster.nodes[i].process.home / "server.properties"
        add = f"{tool} --command-config {file} add-controller"
        until(lambda add=add: carry_out(cluster, add).returncode == 0)  # type: ignore[misc]
    before = findings(judged(lines_of(cluster, tmp_path / "before")))
    assert not any(code == "voter_not_fetching" for code, *_ in before)
    cluster.stop_node(3, kill=True)
    gone()
    row = findings(judged(lines_of(cluster, tmp_path / "dead")))
    _, command = remedy(row["voter_not_fetching", "controller", 3])
    assert "DIRECTORY_ID" not in command
    done = carry_out(cluster, command)
    assert done.returncode == 0, done
    after = findings(judged(lines_of(cluster, tmp_path / "after")))
    assert not any(code == "voter_not_fetching" for code, *_ in after)
    table = carry_out(cluster, f"{tool} describe --replication").stdout
    assert sorted(re.findall(r"^(\d+)\s.*(?:Leader|Follower)", table, re.M)) == ["1", "2"]


def test_every_other_printed_command_is_taken_by_the_real_tools(
    kraft_cluster: Clusters, tmp_path: Path
) -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    allowed = {"authorizer.class.name": authorizer, "super.users": "User:ANONYMOUS"}
    cluster = kraft_cluster(Node(id=1, properties=allowed))
    folder = cluster.nodes[1].process.home / "data" / "__cluster_metadata-0"
    [log] = folder.glob("*.log")
    names = {"NAME": "auditor", "LOG": str(log), "CHECKPOINT,LOG": str(log)}
    admin = cluster.nodes[1].process.home / "admin.properties"
    admin.write_text("security.protocol=PLAINTEXT\n")
    names["admin.properties"] = str(admin)
    said = {words.command for words in wordings(load_dialect(STRICT)).values()}
    for command in sorted(said - {"", "{way}", "{collect}"}):
        # Tried where tests/docs/test_remedies.py says.
        elsewhere = ("featurelib plan", "featurelib why-not", "kubectl", "grep", "zookeeper-shell")
        elsewhere += ("featurelib check",)
        if command.startswith(elsewhere) or re.search("--metadata 3.3|remove-controller", command):
            continue
        if command.startswith("featurelib"):
            assert run(*command.split()[1:])[0] == 0, command
            continue
        done = carry_out(cluster, command.replace("{principal}", "User:auditor"), **names)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        assert done.stdout, command


def test_a_log_of_the_preview_gets_its_metadata_version_by_the_printed_command(
    kraft_cluster: Clusters, tmp_path: Path
) -> None:
    """Kafka 3.2.3 makes the log, 3.9.2 goes on with it; KAFKA-20839 leaves such a log, too."""
    cluster = kraft_cluster(Node(id=1, release="3.9.2", started=False))
    process, home = cluster.nodes[1].process, cluster.nodes[1].process.home
    shutil.rmtree(home / "data")
    meta = {"version": "1", "cluster.id": cluster.cluster_id, "node.id": "1"}
    write_properties(home / "data" / "meta.properties", meta)
    others = [path for path in class_path("3.9.2") if "-3.9.2" not in path.name]
    jars = (*more_jars("preview"), *others)
    preview = Java(release="3.2.3", program=find("java"), jars=jars, archive=tmp_path / "none")
    process.launch(preview.command("kafka.Kafka", str(home / "server.properties")))
    process.wait()
    cluster.stop_node(1)
    cluster.start_node(1)
    lines = lines_of(cluster, tmp_path / "before")
    assert not any("FEATURE_LEVEL_RECORD" in line.decode() for line in log_lines(cluster))
    row = findings(judged(lines))["metadata_version_not_recorded", None, None]
    assert row["finalized_level"] == 1
    told = carry_out(cluster, remedy(row)[1])
    assert "was upgraded to 7" in told.stdout, told
    after = findings(judged(lines_of(cluster, tmp_path / "after")))
    assert not any(code == "metadata_version_not_recorded" for code, *_ in after)
