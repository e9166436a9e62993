"""Real controllers ask whom their own configuration names: what was recorded, played again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from featurelib.audit.cluster_view import ClusterView
from featurelib.backends.kafka.backend import open_kafka
from featurelib.config.fleet import FleetEntry as Entry
from featurelib.core.reply import Reply
from featurelib.feature import METADATA_VERSION
from featurelib.model import Move, Step
from tests.backends.judged import judged, until, verdict
from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.kraft import Node
from tests.walk.wire import Line

SHARE = "share.version"


def asked(cluster: RunningCluster) -> Any:
    """The backend of the nodes that run."""
    nodes = [node for node in cluster.nodes.values() if node.process.running]
    entry = Entry(
        id=cluster.cluster_id,
        bootstrap=tuple(node.broker for node in nodes if node.broker),
        controller_bootstrap=tuple(f"{n.id}@{n.controller}" for n in nodes if n.controller),
    )
    return open_kafka(entry, timeout=20)


def validate(
    cluster: RunningCluster, feature: str, low: int, high: int, *, only: bool = True
) -> Reply:
    update = Move(feature=feature, from_level=low, to_level=high, upgrade_type="UPGRADE")
    step = Step(updates=(update,), timeout_ms=20_000)
    reply: Reply = asked(cluster).update(step, validate_only=only)
    return reply


def look(cluster: RunningCluster, *, read: bool = True) -> ClusterView:
    lines = asked(cluster).describe(lambda text: None)
    kept = [line for line in lines if read or b'"describe_configs"' not in line]
    return judged(kept)


def properties(cluster: RunningCluster, node_id: int) -> Path:
    return cluster.nodes[node_id].process.home / "server.properties"


def directory(cluster: RunningCluster, node_id: int) -> str:
    text = (cluster.nodes[node_id].process.home / "data" / "meta.properties").read_text()
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)["directory.id"]


def restart(cluster: RunningCluster, node_id: int, **changes: str | None) -> None:
    path = properties(cluster, node_id)
    said: dict[str, str | None] = dict(
        line.split("=", 1)
        for line in path.read_text().splitlines()  # type: ignore[misc]
    )
    said |= {key.replace("_", "."): value for key, value in changes.items()}
    cluster.stop_node(node_id)
    path.write_text("".join(f"{k}={v}\n" for k, v in said.items() if v is not None))
    cluster.start_node(node_id)


def test_a_controller_left_in_the_configuration_and_unregistered_blocks_until_a_restart(
    kraft_cluster: Callable[..., RunningCluster],
) -> None:
    cluster = kraft_cluster(
        Node(id=1, release="4.4.0"),
        Node(id=2, release="4.4.0", roles="controller"),
        release_version="4.4",
        features={SHARE: 1},
    )
    until(lambda: validate(cluster, "kraft.version", 0, 1, only=False).code == 0)

    def removed() -> bool:
        said = []
        for node in cluster.nodes.values():
            with Line(node.controller) as line:
                said.append(line.remove_voter(cluster.cluster_id, 2, directory(cluster, 2)))
        return "done" in said

    until(removed)
    cluster.stop_node(2)
    until(lambda: validate(cluster, SHARE, 1, 2).code == 0)
    with Line(cluster.nodes[1].controller) as line:
        assert line.unregister_controller(2) == "done"
    refused = validate(cluster, SHARE, 1, 2)
    assert (refused.message or "").endswith("controller 2 has not registered, and may not support "
                                            "this feature")  # fmt: skip
    assert verdict(look(cluster), SHARE) == "BLOCKED"
    assert verdict(look(cluster, read=False), SHARE) == "UNKNOWN"
    servers = cluster.nodes[1].controller
    restart(cluster, 1, controller_quorum_voters=None, controller_quorum_bootstrap_servers=servers)
    until(lambda: validate(cluster, SHARE, 1, 2).code == 0)
    assert verdict(look(cluster), SHARE) == "READY"


def test_a_dynamic_quorum_of_3_9_asks_its_configuration_too(
    kraft_cluster: Callable[..., RunningCluster],
) -> None:
    cluster = kraft_cluster(
        Node(id=1, release="3.9.2"),
        release_version="3.8",
        dynamic=True,
        features={"kraft.version": 1},
    )
    [good] = validate(cluster, METADATA_VERSION, 20, 21).results or ()
    assert good.code == 0
    left = f"1@{cluster.nodes[1].controller},9@127.0.0.1:9"
    restart(cluster, 1, controller_quorum_voters=left)
    [bad] = validate(cluster, METADATA_VERSION, 20, 21).results or ()
    assert "controller 9 has not registered" in (bad.message or "")
    assert verdict(look(cluster), METADATA_VERSION) == "BLOCKED"
