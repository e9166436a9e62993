"""Each real cluster of the rig is what its fixture says, as kafka-python and ZooKeeper see it."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import ClusterAuthorizationFailedError, InvalidRequestError, for_code
from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeQuorumRequest,
    UpdateFeaturesRequest,
)
from kafka.protocol.metadata import ApiVersionsRequest
from kazoo.client import KazooClient

from tests.backends.rig.asking import ask
from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.kraft import Node


def features(address: str, **security: str) -> Any:
    return ask(
        address,
        ApiVersionsRequest(client_software_name="rig", client_software_version="1"),
        **security,
    )


def finalized(address: str, **security: str) -> dict[str, int]:
    return {
        item.name: item.max_version_level
        for item in features(address, **security).finalized_features
    }


def supported(address: str) -> dict[str, tuple[int, int]]:
    return {
        item.name: (item.min_version, item.max_version)
        for item in features(address).supported_features
    }


def update(address: str, name: str, level: int, **security: str) -> Any:
    key = UpdateFeaturesRequest.FeatureUpdateKey(
        feature=name, max_version_level=level, upgrade_type=1
    )
    request = UpdateFeaturesRequest(timeout_ms=5000, feature_updates=[key])
    return ask(address, request, **security)


def quorum(address: str, **security: str) -> Any:
    topic = DescribeQuorumRequest.TopicData
    part = topic.PartitionData(partition_index=0)
    return ask(
        address,
        DescribeQuorumRequest(topics=[topic(topic_name="__cluster_metadata", partitions=[part])]),
        **security,
    )


def test_one_node_answers_on_both_listeners_with_finalized_features(
    kraft_node: RunningCluster,
) -> None:
    for address in (kraft_node.bootstrap, kraft_node.controller_bootstrap):
        assert finalized(address)["metadata.version"] == 27
        assert supported(address)["metadata.version"] == (7, 29)
    described = ask(kraft_node.bootstrap, DescribeClusterRequest())
    assert described.cluster_id == kraft_node.cluster_id


def test_a_factory_cluster_takes_levels_and_moves_them(
    kraft_cluster: Callable[..., RunningCluster],
) -> None:
    cluster = kraft_cluster(release_version="4.1", features={"group.version": 0})
    assert "group.version" not in finalized(cluster.bootstrap)
    assert update(cluster.bootstrap, "group.version", 1).error_code == 0
    assert finalized(cluster.controller_bootstrap)["group.version"] == 1


def test_a_dynamic_quorum_and_unstable_levels(kraft_cluster: Callable[..., RunningCluster]) -> None:
    cluster = kraft_cluster(Node(id=1, unstable=True), release_version="4.2", dynamic=True)
    assert finalized(cluster.bootstrap)["kraft.version"] == 1
    assert supported(cluster.bootstrap)["metadata.version"] == (7, 30)


def test_the_real_tool_describes_the_node(kraft_node: RunningCluster) -> None:
    said = kraft_node.features_tool("--bootstrap-server", kraft_node.bootstrap, "describe")
    assert "FinalizedVersionLevel: 4.1-IV1" in said.stdout, said.stderr


def test_a_mixed_cluster_has_three_releases_and_a_ghost(mixed_cluster: RunningCluster) -> None:
    nodes = mixed_cluster.nodes
    assert supported(nodes[1].broker)["metadata.version"] == (7, 29)
    assert supported(nodes[2].broker)["metadata.version"] == (1, 21)
    assert finalized(nodes[100].controller)["metadata.version"] == 21
    described = ask(
        nodes[1].broker, DescribeClusterRequest(include_fenced_brokers=True, min_version=2)
    )
    assert {item.broker_id: item.is_fenced for item in described.brokers} == {
        1: False,
        2: False,
        3: True,
    }
    refused = update(nodes[1].broker, "metadata.version", 25)
    assert "Broker 2 only supports versions 1-21" in refused.error_message


def test_a_killed_controller_is_a_voter_that_does_not_answer(
    cluster_without_a_controller: RunningCluster,
) -> None:
    nodes = cluster_without_a_controller.nodes
    partition = quorum(nodes[1].broker).topics[0].partitions[0]
    assert {voter.replica_id for voter in partition.current_voters} == {1, 2, 3}
    assert finalized(nodes[2].controller)["metadata.version"] == 27
    host, port = nodes[3].controller.split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), 1)


def test_viewer_may_describe_and_not_alter(secured_node: RunningCluster) -> None:
    assert secured_node.security is not None
    viewer = secured_node.security.client("viewer")
    for security in (viewer, secured_node.security.client("viewer", "SCRAM-SHA-256")):
        assert quorum(secured_node.bootstrap, **security).error_code == 0
        refused = update(secured_node.bootstrap, "group.version", 1, **security)
        assert for_code(refused.error_code) is ClusterAuthorizationFailedError
    assert finalized(secured_node.controller_bootstrap, **viewer)["metadata.version"] == 27
    stranger = secured_node.security.client("stranger")
    refused = quorum(secured_node.bootstrap, **stranger)
    assert for_code(refused.error_code) is ClusterAuthorizationFailedError


def test_brokers_of_zookeeper_mode_advertise_and_finalize(
    zookeeper_cluster: RunningCluster,
) -> None:
    first, second = zookeeper_cluster.nodes[1], zookeeper_cluster.nodes[2]
    assert supported(first.broker) == {"f": (1, 5), "g": (1, 2)}
    assert supported(second.broker) == {"f": (1, 3), "g": (1, 2)}
    client = KazooClient(zookeeper_cluster.zookeeper)
    client.start(timeout=10)
    try:
        assert client.get_children("/brokers/ids") == ["1", "2"]
        before, _ = client.get("/feature")
        controller = json.loads(client.get("/controller")[0])["brokerid"]
        refused, done = update(first.broker, "f", 5), update(first.broker, "f", 3)
        after, _ = client.get("/feature")
    finally:
        client.stop()
        client.close()
    assert controller == 1
    assert json.loads(before)["features"]["f"] == {"max_version_level": 1}
    assert for_code(refused.results[0].error_code) is InvalidRequestError
    assert "incompatible versions" in refused.results[0].error_message
    assert done.results[0].error_code == 0
    assert json.loads(after)["features"]["f"] == {"max_version_level": 3}


def test_a_stopped_node_starts_again_with_its_data(
    kraft_cluster: Callable[..., RunningCluster],
) -> None:
    cluster = kraft_cluster(release_version="4.0")
    cluster.stop_node(1)
    assert cluster.nodes[1].process.pid is None
    cluster.start_node(1)
    assert finalized(cluster.bootstrap)["metadata.version"] == 25
