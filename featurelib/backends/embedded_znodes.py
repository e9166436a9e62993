"""What ZooKeeper holds of an embedded cluster in ZooKeeper mode, as landing lines hold it.

A registration goes with its broker; the features node is the text as it was written.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from featurelib.backends.embedded_answers import Answer
from featurelib.backends.embedded_state import NOBODY
from featurelib.backends.embedded_view import EmbeddedView
from featurelib.core.cluster import Node

_REGISTRATION = 5  # the first schema with features (KIP-584)
_FIRST = 1  # czxid of nodes nobody makes again here


def znodes(cluster: EmbeddedView) -> Iterator[Answer]:
    """Every node a collector reads, each with the keys of a `znode` line."""
    text, state = cluster.features_node, cluster.cluster
    cluster_id = {"version": "1", "id": cluster.cluster_id}
    yield _znode("/cluster/id", cluster_id, version=0)
    feature = _znode("/feature", None, version=None if text is None else cluster.epoch)
    yield feature | {"data": None if text is None else _readable(text)}
    yield _znode("/features", None, version=None)
    leads = None if state.active == NOBODY else {"version": 1, "brokerid": state.active}
    yield _znode("/controller", leads, version=None if leads is None else 0)
    for node in sorted(state.nodes, key=lambda n: n.node_id):
        if node.registered:
            yield _znode(f"/brokers/ids/{node.node_id}", _registration(node), version=0)


def _readable(text: str) -> str:
    """Bytes that are no UTF-8 as a reader of ZooKeeper shows them."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _registration(node: Node) -> Answer:
    features = {
        name: {"min_version": low, "max_version": high}
        for name, (low, high) in sorted(node.supported.items())
    }
    return {"features": features, "version": _REGISTRATION, "endpoints": []}


def _znode(path: str, data: object, *, version: int | None) -> Answer:
    text = None if data is None else msgspec.json.encode(data).decode()
    czxid = None if version is None else _FIRST
    return {"path": path, "version": version, "czxid": czxid, "data": text}
