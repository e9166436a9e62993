"""What is read of Strimzi's resources: those that kubectl printed, of other releases of the
operator, of others than Strimzi, damaged and hostile ones."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from featurelib.errors import LandingError
from featurelib.landing import Landing, read
from featurelib.landing.strimzi import StrimziFleet, StrimziLine, objects_of, read_resources

FILE = Path(__file__).parents[2] / "data" / "kubernetes" / "strimzi.json"
AT = 1_795_240_173_229_000
LABELS = {"strimzi.io/cluster": "old", "strimzi.io/kind": "Kafka"}
Json = dict[str, Any]


def resources() -> dict[str, Json]:
    """The resources of the file, by kind and name."""
    items = json.loads(FILE.read_text("utf-8"))["items"]
    return {f"{one['kind']} {one['metadata']['name']}": one for one in copy.deepcopy(items)}


def taken(*objects: object) -> StrimziFleet:
    return read_resources(objects_of("\n".join(map(json.dumps, objects)), "f.json"), "f.json")


def line_of(fleet: StrimziFleet, place: int = 0) -> StrimziLine:
    """The landing line of one of its clusters, read back."""
    said = read(fleet.clusters[place].line(AT))
    assert isinstance(said, Landing), said
    assert isinstance(said.content, StrimziLine)
    return said.content


def refusal(*objects: object) -> str:
    with pytest.raises(LandingError) as caught:
        taken(*objects)
    return str(caught.value)


def kafka(**status: object) -> Json:
    """The Kafka resource of a small cluster, with some of its status."""
    return {
        "apiVersion": "kafka.strimzi.io/v1beta2",
        "kind": "Kafka",
        "metadata": {"name": "old", "namespace": "kafka"},
        "spec": {"kafka": {"version": "3.7.0", "replicas": 1}, "zookeeper": {"replicas": 1}},
        "status": {"clusterId": "c", **status},
    }


def pods(name: str, **labels: str) -> Json:
    """A pod set with one pod, in which no label says a role."""
    return {
        "apiVersion": "core.strimzi.io/v1beta2",
        "kind": "StrimziPodSet",
        "metadata": {"name": name, "namespace": "kafka", "labels": LABELS | labels},
        "spec": {"pods": [{"metadata": {"name": f"{name}-0"}}, {"metadata": {"name": "odd"}}]},
    }


def pool(ids: list[int], roles: list[str]) -> Json:
    return {
        "apiVersion": "kafka.strimzi.io/v1beta2",
        "kind": "KafkaNodePool",
        "metadata": {"name": "a", "namespace": "kafka", "labels": LABELS},
        "spec": {"roles": roles},
        "status": {"nodeIds": ids},
    }


def halves(line: StrimziLine) -> list[tuple[int, str]]:
    return [(one.node_id, one.role) for one in line.nodes]


def test_each_cluster_of_a_list_becomes_a_line_without_what_is_not_asked_for() -> None:
    found = taken(json.loads(FILE.read_text("utf-8")))
    assert [one.resource for one in found.clusters] == [
        "kafka/k41-forgotten",
        "kafka/orders",
        "search/logs",
    ]
    assert found.left_out == (
        "search/fresh: left out, because its status has no clusterId: the operator has not "
        "started the cluster yet",
    )
    orders, logs = line_of(found, 1), line_of(found, 2)
    assert (orders.version, orders.metadata_version) == ("4.1.2", None)
    assert halves(orders) == [(i, "broker") for i in range(3)] + [
        (i, "controller") for i in range(3, 6)
    ]
    assert {one.version for one in orders.nodes} == {"4.1.2"}
    assert (logs.version, logs.refused) == (None, "Failed to update metadata version to 4.0-IV3")
    assert found.clusters[1].listeners[:1] == (
        ("plain", "orders-kafka-bootstrap.kafka.svc:9092", ()),
    )
    raw = b"".join(one.line(AT) for one in found.clusters)
    assert b"quay.io" not in raw
    assert b"CERTIFICATE" not in raw


def test_objects_may_stand_one_after_another_and_alone() -> None:
    known = resources()
    found = taken(known["Kafka logs"], known["KafkaNodePool mixed"])
    assert line_of(found) == line_of(taken(json.loads(FILE.read_text("utf-8"))), 2)


def test_who_is_missing_among_the_pools_is_said() -> None:
    known = resources()
    assert not line_of(taken(known["Kafka orders"])).nodes_complete
    alone = taken(known["Kafka orders"], known["KafkaNodePool broker"])
    assert not line_of(alone).nodes_complete
    assert alone.clusters[0].text == (
        "3 brokers, not all pools, asked for: Kafka 4.1.2, metadata.version as the operator chooses"
    )
    by_pods = taken(
        known["Kafka orders"],
        known["KafkaNodePool broker"],
        known["StrimziPodSet orders-controller"],
    )
    assert line_of(by_pods).nodes_complete


def test_pods_of_before_node_pools_are_brokers_and_the_ensemble_is_none() -> None:
    connect = pods("old-connect", **{"strimzi.io/kind": "KafkaConnect"})
    found = line_of(taken(kafka(), pods("old-kafka"), pods("old-zookeeper"), connect))
    assert (halves(found), found.nodes_complete) == ([(0, "broker")], True)


def test_what_kafka_cannot_have_is_no_node() -> None:
    odd = pool([-1, 2**31, 4], ["broker", "observer"])
    assert halves(line_of(taken(kafka(), odd, pods("old-99999999999")))) == [
        (0, "broker"),
        (4, "broker"),
    ]
    assert halves(line_of(taken(kafka(), odd | {"status": None}, odd | {"spec": None}))) == []


def test_a_paused_cluster_is_said_to_be() -> None:
    paused = kafka(
        conditions=[{"type": "ReconciliationPaused", "status": "True"}],
        listeners=[{"type": "plain", "bootstrapServers": "h:9092"}, {"name": "tls"}],
    )
    found = taken(paused)
    assert line_of(found).paused
    assert found.clusters[0].listeners == (("plain", "h:9092", ()),)
    assert found.clusters[0].text.startswith("no nodes, not all pools, ")


def test_the_words_of_the_operator_are_cut_and_never_missing() -> None:
    for message, said in ((None, "MetadataUpdateFailed"), ("x" * 5000, "x" * 1000)):
        failed = {"type": "Warning", "reason": "MetadataUpdateFailed", "message": message}
        assert line_of(taken(kafka(conditions=[failed]))).refused == said


def test_two_that_say_they_are_one_cluster_are_both_left_out() -> None:
    other = kafka()
    other["metadata"] = {"name": "restored", "namespace": "kafka"}
    found = taken(kafka(), other, resources()["Kafka logs"])
    assert [one.resource for one in found.clusters] == ["search/logs"]
    reason = "left out, since 2 Kafka resources say that they are cluster c"
    assert found.left_out == (f"kafka/old: {reason}", f"kafka/restored: {reason}")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"status": {"clusterId": "c\u202e"}}, "Kafka has no such cluster id: c\\u202e"),
        ({"status": {"clusterId": "c" * 256}}, "Kafka has no such cluster id: ccc"),
        (
            {"metadata": {"name": "<b>$(x)", "namespace": "kafka"}},
            "Kubernetes does not allow its name",
        ),
        (
            {"metadata": {"name": "é" * 200, "namespace": "kafka"}},
            "Kubernetes does not allow its name",
        ),
        ({"metadata": {"name": "old"}}, "Kubernetes does not allow its name"),
        ({"status": None}, "its status has no clusterId"),
    ],
)
def test_names_and_ids_that_there_are_not_are_left_out(change: Json, reason: str) -> None:
    found = taken(kafka() | change, resources()["Kafka logs"])
    assert len(found.clusters) == 1
    assert reason in found.left_out[0]
    assert found.left_out[0].isprintable()


def test_hostile_texts_land_as_evidence() -> None:
    hostile = kafka(kafkaVersion="<script>\u202e\x1b[31m" + "v" * 200)
    assert line_of(taken(hostile)).status_version == hostile["status"]["kafkaVersion"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected Kafka resources of Strimzi, the output of kubectl get kafka,"),
        ("{", "f.json:1: expected the JSON of kubectl get kafka,"),
        ('{"kind": "List",\n "items": [', "f.json:2: expected the JSON"),
        ("kind: List\n", "f.json:1: expected the JSON"),
        ("[" * 100_000, "f.json:1: expected the JSON"),
        ("17", "object 1: expected a Kubernetes object with apiVersion and kind, found 17"),
        ('{"kind":"metrics"}', "object 1: expected a Kubernetes object"),
    ],
)
def test_a_text_that_is_something_else_is_told_with_its_place(text: str, said: str) -> None:
    with pytest.raises(LandingError) as caught:
        read_resources(objects_of(text, "f.json"), "f.json")
    assert said in str(caught.value)
    assert str(caught.value).endswith("Nothing was written.")


def test_resources_of_others_are_no_clusters() -> None:
    others = [
        {"apiVersion": "kafka.banzaicloud.io/v1beta1", "kind": "KafkaCluster", "metadata": {}},
        {"apiVersion": "example.org/v1", "kind": "Kafka", "metadata": {}},
        {"apiVersion": "v1", "kind": "Secret", "data": {"password": "c2VjcmV0"}},
    ]
    said = refusal(*others)
    assert "found 3 other objects" in said
    assert "c2VjcmV0" not in said


def test_an_error_of_the_api_server_is_told_in_its_words() -> None:
    status = {"apiVersion": "v1", "kind": "Status", "message": 'kafkas is forbidden: User "x"'}
    assert 'found an error: kafkas is forbidden: User "x".' in refusal(status)


def test_a_resource_that_strimzi_does_not_define_so_is_told_with_its_field() -> None:
    wrong = kafka()
    wrong["spec"]["kafka"]["version"] = 4.1
    said = refusal(wrong)
    assert "object 1: expected a Kafka of Strimzi, found " in said
    assert "$.spec.kafka.version" in said
