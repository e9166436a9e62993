"""What the evidence takes from a batch and the inventory, cluster by cluster."""

from __future__ import annotations

import pyarrow as pa

from featurelib.audit import evidence as facts
from featurelib.audit.evidence import Conditions, Evidence, Expected
from featurelib.core.features_znode import Generation
from featurelib.feature import Witness
from tests.core.lines import (
    AS_OF,
    MAX_AGE,
    anomalies,
    answer_line,
    line_of,
    microseconds,
    snapshot,
)
from tests.core.oracle import CONTROLLER, METADATA, Node

RANGES = {METADATA: (7, 25), "f": (1, 5)}
SCHEMA_3 = '{"version":3,"status":1,"features":{"f":{"min_version_level":1,"max_version_level":2}}}'


def read(batch: pa.RecordBatch, **inventory: Expected) -> Evidence:
    conditions = Conditions(as_of=microseconds(AS_OF), max_age=MAX_AGE, inventory=inventory)
    return facts.read(batch, conditions, absent_metadata=1)


def test_the_generation_of_a_cluster_is_its_own() -> None:
    def lines(name: str) -> list[bytes]:
        keys = {"path": "/feature", "version": 3, "czxid": 3, "data": SCHEMA_3}
        return [line_of("znode", name, 1, **keys)]

    batch = snapshot({"a": lines("a"), "b": lines("b")})
    for known in ("a", "b"):
        evidence = read(batch, **{known: Expected(generation=Generation.ZK_2_7)})
        said = evidence.levels.ambiguous
        assert [evidence.clusters[cluster] for cluster in said] == [{"a": "b", "b": "a"}[known]]


def went_back(*, cluster: str, node_id: int, role: str, epochs: tuple[int, int]) -> list[bytes]:
    """A node that spoke of one epoch, and an hour later of another."""
    before = Node(
        node_id=node_id,
        role=role,
        ranges=RANGES,
        levels={METADATA: 20},
        epoch=epochs[0],
        answered=2,
    )
    after = Node(node_id=node_id, role=role, ranges=RANGES, levels={METADATA: 20}, epoch=epochs[1])
    return [answer_line(cluster, before), answer_line(cluster, after)]


def test_an_epoch_that_went_back_counts_where_its_witness_is_believed() -> None:
    back, on = (900, 800), (800, 900)
    broker, quorum = {"node_id": 1, "role": "broker"}, {"node_id": 11, "role": CONTROLLER}
    batch = snapshot(
        {
            "broker-went-back": went_back(cluster="broker-went-back", epochs=back, **broker),
            "controller-alone": went_back(cluster="controller-alone", epochs=back, **quorum),
            "controller-beside": [
                *went_back(cluster="controller-beside", epochs=on, **broker),
                *went_back(cluster="controller-beside", epochs=(700, 600), **quorum),
            ],
            "went-on": went_back(cluster="went-on", epochs=on, **broker),
            "nothing": [],
            "hole": [
                *went_back(cluster="hole", epochs=back, **broker),
                line_of("znode", "hole", 2, path="/feature", version=1, czxid=1, data="{"),
                line_of("znode", "hole", 1, path="/feature", version=1, czxid=2, data="{"),
            ],
        }
    )
    evidence = read(batch)
    said = dict(zip(evidence.clusters, evidence.levels.went_back.tolist(), strict=True))
    assert said == {
        "broker-went-back": True, "controller-alone": True, "controller-beside": False,
        "went-on": False, "nothing": False, "hole": False,
    }  # fmt: skip
    kinds = dict(zip(evidence.clusters, evidence.levels.kind.tolist(), strict=True))
    assert kinds["controller-beside"] == Witness.BROKER
    assert kinds["nothing"] == -1
    assert "epoch_went_back:controller 11 from 700 to 600" in anomalies(batch)
