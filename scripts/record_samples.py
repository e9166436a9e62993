"""Record the samples: clusters of real Kafka nodes on loopback, one after the other. `featurelib
collect` reads each at some moments of its story.

    .venv/bin/python -m scripts.record_samples [NAME …]

The responses at each moment are written to data/samples/NAME/landing.jsonl, dated by the last day
of that state. Lines stay as recorded, except for the day in `observed_at` and the addresses: ports
of loopback become hosts of the cluster's name. The script needs Java, the jars of
tests/backends/rig and about a minute per cluster. Afterwards `scripts.make_nights` makes the
earlier runs.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.backends.judged import until
from tests.backends.rig.cluster import FEATURES_TOOL, RunningCluster
from tests.backends.rig.java import Java
from tests.backends.rig.kraft import Node, start_kraft
from tests.cli.commands import run

DATA = Path(__file__).parents[1] / "data"
NEWEST = date(2026, 11, 29)  # the newest night
TOOLS = "4.3.1"  # of kafka-features and kafka-cluster: the newest that Maven Central has
CLUSTER_TOOL = "org.apache.kafka.tools.ClusterTool"
HEAP = ("-Xmx160m",)
SETTLE_SECONDS = 4  # until each node shows the others
GONE_SECONDS = 15  # until a quorum's leader shows that a controller no longer follows
CONTROLLERS = (101, 102, 103)
DAY = re.compile(r'("observed_at":")\d{4}-\d\d-\d\d')
ADDRESS = re.compile(r"127\.0\.0\.1:(\d+)|'127\.0\.0\.1', (\d+)")
Hosts = dict[str, tuple[str, int]]  # port on loopback → the host and port in the recording
Story = Callable[["Recorder"], Iterator[int]]


@dataclass(kw_only=True)
class Recorder:
    """A sample cluster, and the steps that a story can make with it."""

    name: str
    home: Path
    cluster: RunningCluster | None = None

    @property
    def running(self) -> RunningCluster:
        assert self.cluster is not None, "a story begins with a start"
        return self.cluster

    def start(
        self,
        release: str,
        brokers: Sequence[int],
        formatted: str,
        controllers: Sequence[int] = CONTROLLERS,
    ) -> None:
        """Start brokers and controllers of a release, formatted for a release version. An id in
        both lists is a combined node."""
        roles = {"broker": brokers, "controller": controllers}
        nodes = [
            Node(
                id=one,
                release=release,
                roles=",".join(name for name, ids in roles.items() if one in ids),
                java_options=HEAP,
            )
            for one in sorted({*brokers, *controllers})
        ]
        self.cluster = start_kraft(self.home, nodes, release_version=formatted)

    def restart(self, release: str, *ids: int) -> None:
        """Restart nodes with another release, one after the other, as in a rolling upgrade."""
        java = Java.of(release)
        for one in ids:
            process = self.running.nodes[one].process
            process.stop()
            conf = str(process.home / "server.properties")
            java.serve(process, "kafka.Kafka", conf, options=HEAP)
            process.wait()

    def finalize(self, **levels: int) -> None:
        """Upgrade levels with the real kafka-features.sh."""
        words = [f"--feature={name.replace('_', '.')}={level}" for name, level in levels.items()]
        at = ("--bootstrap-server", self.running.bootstrap)
        done = Java.of(TOOLS).run(FEATURES_TOOL, *at, "upgrade", *words)
        assert done.returncode == 0, done

    def unregister(self, broker: int) -> None:
        """Unregister a broker with the real kafka-cluster.sh."""
        at = ("--bootstrap-server", self.running.bootstrap)
        done = Java.of(TOOLS).run(CLUSTER_TOOL, "unregister", *at, "--id", str(broker))
        assert done.returncode == 0, done

    def look(self, *words: str) -> list[str]:
        """Return the landing lines that `featurelib collect` writes now."""
        time.sleep(SETTLE_SECONDS)
        with tempfile.TemporaryDirectory() as out:
            at = ["--bootstrap", self.running.bootstrap]
            if self.name not in CLOSED:
                at += ["--controllers", self.running.controller_bootstrap]
            code, _, said = run("collect", *at, *words, "--timeout", "5", "--out", out)
            assert code == 0, said
            (path,) = Path(out).iterdir()
            return [self._named(text) for text in path.read_text("utf-8").splitlines()]

    def _named(self, text: str) -> str:
        """Return a line in which host names of the cluster replace loopback ports."""
        hosts = {}
        for node in self.running.nodes.values():
            for address, port in ((node.broker, 9092), (node.controller, 9093)):
                hosts[address.rpartition(":")[2]] = f"kafka-{node.id}.{self.name}.example", port
        return json.dumps(_named(json.loads(text), hosts), separators=(",", ":"))


def _named(value: Any, hosts: Hosts) -> Any:
    if isinstance(value, dict):
        if value.get("host") == "127.0.0.1" and str(value.get("port")) in hosts:
            host, port = hosts[str(value["port"])]
            value = value | {"host": host, "port": port}
        return {name: _named(one, hosts) for name, one in value.items()}
    if isinstance(value, list):
        return [_named(one, hosts) for one in value]
    if isinstance(value, str):
        return ADDRESS.sub(lambda found: "{}:{}".format(*hosts[found[1] or found[2]]), value)
    return value


# --- The stories: each yields the last day of a state, counted back from the newest day -----------


def payments_prod_eu(own: Recorder) -> Iterator[int]:
    """Play a rolling upgrade that stopped before broker 5. On the last day broker 5 is unregistered
    while it runs, and the levels of 4.2 are finalized."""
    own.start("4.1.2", range(1, 7), "4.1")
    yield 13
    own.restart("4.2.1", *CONTROLLERS, 1, 2, 3, 4, 6)
    yield 1
    own.unregister(5)
    own.finalize(metadata_version=29, share_version=1, streams_version=1)
    until(lambda: "received error STALE_BROKER_EPOCH" in own.running.logs(5))
    yield 0


def orders_prod_eu(own: Recorder) -> Iterator[int]:
    """Play an upgrade to 4.2 whose levels were finalized on the last day."""
    own.start("4.1.2", range(1, 6), "4.1")
    yield 9
    own.restart("4.2.1", *CONTROLLERS, *range(1, 6))
    yield 1
    own.finalize(metadata_version=29, share_version=1, streams_version=1)
    yield 0


def orders_prod_us(own: Recorder) -> Iterator[int]:
    """Play a rolling upgrade without broker 4, which was switched off and is still registered."""
    own.start("4.1.2", range(1, 6), "4.1")
    yield 15
    own.restart("4.2.1", *CONTROLLERS, 1, 2, 3, 5)
    yield 2
    own.running.stop_node(4)
    yield 0


def search_prod(own: Recorder) -> Iterator[int]:
    """Play the middle of a rolling upgrade: brokers 3 and 4 still run 4.0."""
    own.start("4.0.1", range(1, 5), "4.0")
    yield 3
    own.restart("4.2.1", *CONTROLLERS, 1, 2)
    yield 0


def fraud_prod(own: Recorder) -> Iterator[int]:
    """Play a failure of controller 102 on the last day, when the levels of 4.2 could have been
    finalized."""
    own.start("4.1.2", range(1, 4), "4.1")
    yield 6
    own.restart("4.2.1", *CONTROLLERS, 1, 2, 3)
    yield 1
    own.running.stop_node(102, kill=True)
    time.sleep(GONE_SECONDS)
    yield 0


def logs_prod_ap(own: Recorder) -> Iterator[int]:
    """Play a healthy cluster whose collector stopped three days ago."""
    own.start("4.1.2", range(1, 4), "4.1")
    yield 3


def billing_prod_us(own: Recorder) -> Iterator[int]:
    """Play a cluster that has run 4.2 for three weeks without finalized levels of 4.2."""
    own.start("4.1.2", range(1, 6), "4.1")
    yield 21
    own.restart("4.2.1", *CONTROLLERS, *range(1, 6))
    yield 0


def billing_prod_eu(own: Recorder) -> Iterator[int]:
    """Play a cluster that has run 4.2 for a week."""
    own.start("4.1.2", range(1, 6), "4.1")
    yield 7
    own.restart("4.2.1", *CONTROLLERS, *range(1, 6))
    yield 0


def clickstream_prod(own: Recorder) -> Iterator[int]:
    """Play a cluster of 3.9 at a level of 3.6; levels of 3.7 cannot be downgraded."""
    own.start("3.7.2", range(1, 7), "3.6")
    yield 18
    own.restart("3.9.2", *CONTROLLERS, *range(1, 7))
    yield 0


def media_prod(own: Recorder) -> Iterator[int]:
    """Play a cluster of Strimzi that has run 4.1 for eleven days at a level of 4.0."""
    own.start("4.0.1", (0, 1, 2), "4.0", controllers=(3, 4, 5))
    yield 11
    own.restart("4.1.2", 3, 4, 5, 0, 1, 2)
    yield 0


def catalog_prod(own: Recorder) -> Iterator[int]:
    """Play three combined nodes with the newest software and all its levels."""
    own.start("4.4.0", (1, 2, 3), "4.4", controllers=(1, 2, 3))
    yield 0


def iot_ingest_ap(own: Recorder) -> Iterator[int]:
    """Play a cluster of MSK, whose controllers only the service can reach."""
    own.start("3.8.1", (1, 2, 3), "3.8", controllers=(10001, 10002, 10003))
    yield 0


STORIES: tuple[Story, ...] = (
    payments_prod_eu,
    orders_prod_eu,
    orders_prod_us,
    search_prod,
    fraud_prod,
    logs_prod_ap,
    billing_prod_us,
    billing_prod_eu,
    clickstream_prod,
    media_prod,
    catalog_prod,
    iot_ingest_ap,
)
SAMPLES = {story.__name__.replace("_", "-"): story for story in STORIES}
# Before 4.0 no list shows fenced brokers, so the collector probes there.
PROBED = ("clickstream-prod", "iot-ingest-ap")
CLOSED = ("iot-ingest-ap",)  # clusters whose controllers have no known address
INVENTORY = DATA / "samples" / "fleet.toml"


def record(name: str) -> None:
    """Play one story, and write the landing lines of each moment."""
    lines: list[str] = []
    words = ("--probe",) if name in PROBED else ()
    with tempfile.TemporaryDirectory() as home:
        own = Recorder(name=name, home=Path(home))
        try:
            for ago in SAMPLES[name](own):
                day = (NEWEST - timedelta(days=ago)).isoformat()
                lines += [DAY.sub(rf"\g<1>{day}", line) for line in own.look(*words)]
                print(f"{datetime.now(UTC):%H:%M:%S} {name}: {day}", flush=True)
        finally:
            if own.cluster is not None:
                own.cluster.stop()
    _name_in_inventory(name, json.loads(lines[0])["cluster_id"])
    path = DATA / "samples" / name / "landing.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def _name_in_inventory(name: str, cluster_id: str) -> None:
    """Write the id of the new cluster into its inventory entry."""
    entry = re.compile(rf'id = "[^"]*"\nname = "{name}"\n')
    text, found = entry.subn(
        f'id = "{cluster_id}"\nname = "{name}"\n', INVENTORY.read_text("utf-8")
    )
    assert found == 1, f"{INVENTORY} has no entry {name}"
    INVENTORY.write_text(text, "utf-8")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or SAMPLES:
        record(chosen)
