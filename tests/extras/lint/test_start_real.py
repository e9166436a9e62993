"""What `featurelib lint` says about the start of a node, beside a real node with that change."""

from __future__ import annotations

import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends.judged import until
from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.jars import UnavailableError
from tests.backends.rig.java import Java
from tests.backends.rig.kraft import Node, start_kraft
from tests.backends.rig.zookeeper import CHROOT, ZooKeeperBroker, start_zookeeper_mode
from tests.cli.commands import run

pytestmark = pytest.mark.kafka
OF_ZOOKEEPER = "authorizer.class.name=kafka.security.authorizer.AclAuthorizer\n"


@pytest.fixture(params=["4.2.1", "3.9.2"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningCluster]:
    """One combined node, stopped, that was formatted and has run."""
    try:
        cluster = start_kraft(tmp_path / "kafka", [Node(id=1, release=request.param)])
    except UnavailableError as missing:
        pytest.skip(f"real Kafka: {missing}")
    cluster.nodes[1].process.stop()
    yield cluster
    cluster.stop()


def start(cluster: RunningCluster) -> str:
    """Start the node, and return its log once it serves or has ended."""
    node = cluster.nodes[1]
    node.launch()
    until(lambda: not node.process.running or node.process.is_ready)
    return cluster.logs(1)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("/data\n", "/other\n"), "meta.properties"),
        (("node.id=1\n", "node.id=1\nbroker.id=9\n"), "the same value as `broker.id`"),
        (("controller.listener.names=CONTROLLER\n", ""), "controller.listener.names"),
        (("listener.names=CONTROLLER", "listener.names=OTHER"), "must contain at least one value"),
        (
            (".listener.names=CONTROLLER\n", f".listener.names=CONTROLLER\n{OF_ZOOKEEPER}"),
            "AclAuth",
        ),
    ],
    ids=["log.dirs", "broker.id", "controller.listener.names", "another listener", "authorizer"],
)
def test_a_node_ends_at_its_start_as_lint_says(
    change: tuple[str, str], says: str, cluster: RunningCluster, tmp_path: Path
) -> None:
    [file] = tmp_path.rglob("server.properties")
    before = tmp_path / "before.properties"
    text = file.read_text()
    before.write_text(text)
    assert change[0] in text
    file.write_text(text.replace(*change))
    log = start(cluster)
    assert not cluster.nodes[1].process.running, log[-2000:]
    assert says in log
    code, out, _ = run("lint", str(file), "--before", str(before), "--fail-on", "blocker")
    assert (code, "node_does_not_start" in out) == (1, True), out


def test_a_node_whose_directories_change_places_ends_at_its_start(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    """The metadata log stays in the directory that was the first; metadata.log.dir names it."""
    [file] = tmp_path.rglob("server.properties")
    before, text = tmp_path / "before.properties", file.read_text()
    [line] = [line for line in text.splitlines() if line.startswith("log.dirs=")]
    first = line.removeprefix("log.dirs=")
    before.write_text(text.replace(line, f"{line},{first}-2"))
    words = ("format", "--ignore-formatted", "-t", cluster.cluster_id, "-c", str(before))
    command = Java.of(cluster.nodes[1].release).command("kafka.tools.StorageTool", *words)
    subprocess.run(command, capture_output=True, check=True)
    for more, is_running in (("", False), (f"\nmetadata.log.dir={first}", True)):
        file.write_text(text.replace(line, f"log.dirs={first}-2,{first}{more}"))
        log = start(cluster)
        assert cluster.nodes[1].process.running is is_running, log[-2000:]
        assert "Found unexpected metadata location" in log
        code, out, _ = run("lint", str(file), "--before", str(before), "--fail-on", "critical")
        assert (code, "Keep the order" in out) == (1 - is_running, not is_running), out


def test_the_tool_refuses_to_format_for_another_cluster_id(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    """Images format with --ignore-formatted before each start, and end if that fails."""
    [file] = tmp_path.rglob("server.properties")
    java = Java.of(cluster.nodes[1].release)
    for cluster_id, is_same in ((cluster.cluster_id, True), ("GwADMFzsGCPcwU2D3sfMnl", False)):
        words = ("format", "--ignore-formatted", "-t", cluster_id, "-c", str(file))
        command = java.command("kafka.tools.StorageTool", *words)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) is is_same, done.stdout + done.stderr


def test_a_broker_ends_at_its_start_with_another_path_in_zookeeper(tmp_path: Path) -> None:
    try:
        cluster = start_zookeeper_mode(tmp_path / "nodes", [ZooKeeperBroker(id=1)])
    except UnavailableError as missing:
        pytest.skip(f"real Kafka: {missing}")
    try:
        cluster.nodes[1].process.stop()
        files = (tmp_path / "nodes").rglob("*.properties")
        [file] = [path for path in files if "zookeeper.connect=" in path.read_text()]
        file.write_text(file.read_text().replace(CHROOT, "/other"))
        log = start(cluster)
        assert not cluster.nodes[1].process.running, log[-2000:]
        assert "Invalid cluster.id" in log
    finally:
        cluster.stop()


CASES = Path(__file__).parent / "cases"
REFUSED = [
    path
    for path in sorted(CASES.glob("*.toml"))
    if "nodes of 3.9.2 and 4.2.1 ended with" in path.read_text()
]


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_a_node_refuses_the_settings_of_a_case_and_takes_those_of_its_cure(
    path: Path, tmp_path: Path
) -> None:
    """A node whose settings are right looks for its formatted directory, and finds none."""
    case = tomllib.loads(path.read_text(encoding="utf-8"))
    file = tmp_path / "server.properties"
    for release in ("4.2.1", "3.9.2"):
        try:
            command = Java.of(release).command("kafka.Kafka", str(file))
        except UnavailableError as missing:
            pytest.skip(f"real Kafka: {missing}")
        for change, is_refused in ((case["change"], True), (case["cured_change"], False)):
            text = case["before"].replace(*change, 1)
            file.write_text(f"{text}log.dirs={tmp_path}/data\n")
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            log = done.stdout + done.stderr
            assert done.returncode != 0
            assert ("No readable meta.properties" in log) is not is_refused, (release, log)
