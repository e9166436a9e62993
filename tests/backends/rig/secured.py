"""A secured node: SASL_SSL on both listeners; viewer may DESCRIBE the cluster, not ALTER it."""

from __future__ import annotations

from pathlib import Path

from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    KafkaAdminClient,
    ResourcePattern,
    ResourceType,
)

from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.kraft import Node, start_kraft
from tests.backends.rig.security import Security


def start_secured(home: Path, security: Security) -> RunningCluster:
    """Starts one node, finalized at 4.1, and writes the only ACL: viewer, DESCRIBE, CLUSTER."""
    cluster = start_kraft(home, (Node(id=1),), release_version="4.1", security=security)
    try:
        _let_viewer_describe(cluster, security)
    except BaseException:
        cluster.stop()
        raise
    return cluster


def _let_viewer_describe(cluster: RunningCluster, security: Security) -> None:
    rule = ACL(
        principal="User:viewer",
        host="*",
        operation=ACLOperation.DESCRIBE,
        permission_type=ACLPermissionType.ALLOW,
        resource_pattern=ResourcePattern(ResourceType.CLUSTER, "kafka-cluster"),
    )
    with KafkaAdminClient(
        bootstrap_servers=cluster.bootstrap, **security.client("admin")
    ) as client:
        answer = client.create_acls([rule])
    if answer["failed"]:
        raise ValueError(f"the ACL was not written: {answer['failed']}")
