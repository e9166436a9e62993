"""Metrics of real nodes, through the JMX exporter and a real Prometheus, beside what the wire says
of the same nodes: the same verdict, or UNKNOWN where metrics cannot know."""

from __future__ import annotations

import json
import re
import shutil
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from featurelib.landing import ApiVersionsAnswer, NodeMetrics, read
from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.jars import UnavailableError, more_jars
from tests.backends.rig.kraft import Node
from tests.backends.rig.layout import free_address
from tests.backends.rig.process import Process
from tests.cli.commands import run
from tests.core.lines import codes, judge_lines, microseconds, verdicts

PAGE = Path(__file__).parents[2] / "docs/how-to/metrics.md"
# Of Strimzi's example rules those that meet what is read; they have no rule for all the rest.
STRIMZI = """
- pattern: kafka.(\\w+)<type=(.+), name=(.+), (.+)=(.+)><>Value
  name: kafka_$1_$2_$3
  type: GAUGE
  labels:
    "$4": "$5"
- pattern: kafka.(\\w+)<type=(.+), name=(.+)><>Value
  name: kafka_$1_$2_$3
  type: GAUGE
"""
Start = Callable[..., RunningCluster]


def rules() -> str:
    """The exporter's rules of the page, before those of Strimzi's examples."""
    found = re.search(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    assert found is not None
    mine = "\n".join(line.removeprefix("    ") for line in found[1].splitlines())
    return f"lowercaseOutputName: true\nrules:\n{mine}{STRIMZI}"


def lines_in(folder: Path) -> list[bytes]:
    return [line for path in sorted(folder.iterdir()) for line in path.read_bytes().splitlines()]


def is_of_a_controller(line: bytes) -> bool:
    said = json.loads(line)
    return "controller" in (said.get("role"), said.get("listener"))


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Callable[[Sequence[str]], tuple[str, Process]]]:
    """Starts a Prometheus that scrapes targets every five seconds."""
    started: list[Process] = []

    def start(targets: Sequence[str]) -> tuple[str, Process]:
        if (program := shutil.which("prometheus")) is None:
            pytest.skip("there is no prometheus in the PATH (Debian's package has it)")
        config, address = tmp_path / "prometheus.yml", free_address()
        config.write_text(
            "global: {scrape_interval: 5s, scrape_timeout: 5s}\n"
            "scrape_configs:\n- job_name: kafka\n  static_configs:\n"
            f"  - targets: {json.dumps(list(targets))}\n    labels: {{cluster: orders}}\n"
        )
        process = Process(name="prometheus", home=tmp_path, ready=lambda text: "is ready" in text)
        where = [f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}"]
        process.launch([program, *where, f"--web.listen-address={address}"])
        started.append(process)
        process.wait()
        return f"http://{address}", process

    yield start
    for process in started:
        process.stop(kill=True)


def test_metrics_say_what_the_wire_says_or_nothing(
    kraft_cluster: Start, prometheus: Callable[..., tuple[str, Process]], tmp_path: Path
) -> None:
    try:
        [agent] = more_jars("agent")
    except UnavailableError as missing:
        pytest.skip(f"the JMX exporter: {missing}")
    (chosen := tmp_path / "strimzi.yaml").write_text(rules())
    (every := tmp_path / "all.yaml").write_text("{}\n")
    targets = {node_id: free_address() for node_id in (1, 2, 3)}

    def node(node_id: int, release: str, roles: str, config: Path = chosen, **more: bool) -> Node:
        option = f"-javaagent:{agent}={targets[node_id]}:{config}"
        return Node(id=node_id, release=release, roles=roles, java_options=(option,), **more)

    cluster = kraft_cluster(
        node(1, "4.4.0", "controller", every),
        node(2, "4.4.0", "broker"),
        node(3, "4.4.0", "broker,controller", unstable=True),
        release_version="4.2",
        features={"group.version": 0, "streams.version": 0},
    )
    url, _ = prometheus(list(targets.values()))
    (fleet := tmp_path / "fleet.toml").write_text(
        f'[[cluster]]\nid = "{cluster.cluster_id}"\nname = "orders"\n'
        f"bootstrap = {json.dumps(cluster.bootstrap.split(','))}\n"
        'metrics = { cluster = "orders" }\n'
    )

    def collect(*words: str) -> list[bytes]:
        out = tmp_path / f"landing-{time.monotonic_ns()}"
        code, _, said = run("collect", "orders", "--fleet", str(fleet), "--out", str(out), *words)
        return lines_in(out) if code == 0 else [said.encode()]

    def scrape(nodes: int) -> list[bytes]:
        """What is collected once so many halves of nodes were scraped."""
        until = time.monotonic() + 60
        while len(lines := collect("--prometheus", url)) != nodes or lines[0][:1] != b"{":
            assert time.monotonic() < until, lines
            time.sleep(0.3)
        return lines

    wire, metrics = collect(), scrape(4)
    own, shown = {}, {}
    for line in (*wire, *metrics):
        content = getattr(read(line), "content", None)
        if isinstance(content, ApiVersionsAnswer):
            own[content.role, content.node_id] = content.supported
        elif isinstance(content, NodeMetrics):
            supported = [(n.replace("-", "."), low, high) for n, low, high in content.supported]
            shown[content.role, content.node_id] = tuple(sorted(supported))
    assert own.keys() == shown.keys()
    # A controller's own listener hides unstable levels; its metrics do not.
    assert [who for who in own if own[who] != shown[who]] == [(1, 3)]

    def judged(lines: Sequence[bytes]) -> dict[str, str]:
        from datetime import UTC, datetime

        result = judge_lines(lines, name=cluster.cluster_id, as_of=microseconds(datetime.now(UTC)))
        found.update(codes(result))
        return verdicts(result)

    found: set[str] = set()
    asked = judged(wire)
    assert judged([*wire, *metrics]) == asked
    assert "metrics_disagree" not in found
    # As in Strimzi: brokers answer, controllers cannot be asked.
    brokers = [line for line in wire if not is_of_a_controller(line)]
    alone = judged(brokers)
    assert judged([*brokers, *metrics]) == asked != alone
    assert "range_from_metrics" in found
    by_metrics = judged(metrics)
    assert all(by_metrics[name] in ("UNKNOWN", asked[name]) for name in asked)
    assert "level_unknown" in found  # group.version is at 0, which has no metric

    # A node that went away has no metrics, however often Prometheus is asked for old ones.
    cluster.stop_node(1, kill=True)
    assert {json.loads(line)["node_id"] for line in scrape(3)} == {2, 3}
    # Whoever shows metrics of another system, or none, is told so.
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        (strange := tmp_path / "strange.txt").write_bytes(answer.read())
    words = ["--kind", "metrics", "--cluster", "orders", "--out", str(tmp_path / "none")]
    code, _, said = run("collect", "--fleet", str(fleet), "--from", str(strange), *words)
    assert (code, "none of Kafka" in said) == (2, True)
