"""What we read of Strimzi's resources is there in its own schemas, and of the type that we expect.

schemas/strimzi-RELEASE.json.gz is from install/cluster-operator/04*-Crd-*.yaml of
github.com/strimzi/strimzi-kafka-operator at the tags 0.36.0 (8012dc66), 0.45.0 (b5060222) and
1.2.0 (6c7b43c4), taken on 2026-11-23. Left out are descriptions and the settings of pods; objects
are closed where the API server drops what it does not know. The CRDs that `crd-generator` makes of
`io.strimzi:api` from Maven Central, 0.45.0 and 1.2.0, are the same.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from featurelib.backends import kubernetes
from featurelib.landing import strimzi
from tests.landing.test_strimzi import line_of, resources, taken

RELEASES = ("0.36.0", "0.45.0", "1.2.0")
# What a release does not have, or may leave out; we read it as unknown.
ABSENT = {
    "0.36.0": {
        "Kafka.spec.kafka.metadataVersion",
        "Kafka.status.kafkaVersion",
        "Kafka.status.kafkaMetadataVersion",
        "KafkaNodePool.status.roles",
    },
    "0.45.0": set[str](),
    "1.2.0": {"Kafka.status.listeners[].type"},  # of before 0.34, in place of a name
}
Json = dict[str, Any]


def definitions(release: str) -> list[Json]:
    packed = Path(__file__).parent / "schemas" / f"strimzi-{release}.json.gz"
    found: list[Json] = json.loads(gzip.decompress(packed.read_bytes()))
    return found


def differences(ours: Json, theirs: Json | None, names: Json, path: str) -> Iterator[str]:
    """The paths that are read and not there. Fails where one is of another type, or where we want
    what they may leave out."""
    if theirs is None:
        yield path
        return
    if "anyOf" in ours:
        ours = next(one for one in ours["anyOf"] if one != {"type": "null"})
    if "$ref" in ours:
        ours = names[ours["$ref"].rpartition("/")[2]]
    assert ours["type"] == theirs["type"], path
    if ours["type"] == "array":
        yield from differences(ours["items"], theirs["items"], names, f"{path}[]")
    if "properties" in theirs:  # else it is Kubernetes' own: metadata, pods
        wanted = {*ours.get("required", ())} - {"metadata"}
        assert wanted <= {*theirs.get("required", ())}, path
        for name, one in ours["properties"].items():
            yield from differences(one, theirs["properties"].get(name), names, f"{path}.{name}")


@pytest.mark.parametrize("release", RELEASES)
def test_every_field_that_is_read_is_strimzis(release: str) -> None:
    found = set[str]()
    for one in definitions(release):
        ours = msgspec.json.schema(strimzi._TYPES[one["kind"]])
        for version in one["versions"].values():
            found |= {*differences(ours, version, ours["$defs"], one["kind"])}
    assert found == ABSENT[release]


@pytest.mark.parametrize("release", RELEASES)
def test_the_lists_that_are_asked_for_are_strimzis(release: str) -> None:
    known = definitions(release)
    assert {(one["group"], one["plural"]) for one in known} == {*kubernetes._LISTS}
    asked = strimzi.COMMAND.split()[2].split(",")
    assert sorted(one["singular"] for one in known) == sorted(asked)


@pytest.mark.parametrize(("release", "version"), [("0.45.0", "v1beta2"), ("1.2.0", "v1")])
def test_the_samples_are_what_an_api_server_would_take(release: str, version: str) -> None:
    schemas = {one["kind"]: one["versions"][version] for one in definitions(release)}
    for one in resources().values():
        check = jsonschema.Draft202012Validator(schemas[one["kind"]])
        check.validate(one)
        one["spec"]["odd"] = 1
        assert not check.is_valid(one)


def test_resources_of_a_release_without_these_fields_read_as_unknown() -> None:
    known = resources()
    kafka, pool = known["Kafka orders"], known["KafkaNodePool broker"]
    for one in (kafka, pool):
        one["apiVersion"] = "kafka.strimzi.io/v1beta2"
    del kafka["status"]["kafkaVersion"], kafka["status"]["kafkaMetadataVersion"]
    del pool["status"]["roles"]
    kafka["status"]["kafkaNodePools"] = [{"name": "broker"}, {}]
    found = line_of(taken(kafka, pool))
    assert (found.metadata_version, found.status_version) == (None, None)
    assert found.status_metadata_version is None
    assert [(one.node_id, one.role) for one in found.nodes] == [(i, "broker") for i in range(3)]
    assert not found.nodes_complete


def test_resources_without_a_spec_are_no_cluster_and_no_node() -> None:
    known = resources()
    pods = known["StrimziPodSet orders-broker"] | {"spec": None}
    pods["metadata"] |= {"namespace": "search"}
    pods["metadata"]["labels"] |= {"strimzi.io/cluster": "logs"}
    found = taken(known["Kafka orders"] | {"spec": None}, known["Kafka logs"], pods)
    assert found.left_out == (
        "kafka/orders: left out, because it has no spec, so its requested software is unknown",
    )
    assert found.clusters[0].keys["nodes"] == []
