"""`inventory import`: what it prints is an inventory, of any names, and adds nothing twice."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import botocore.loaders
import botocore.model
import pytest

from featurelib.config.fleet import Fleet, FleetEntry, parse_fleet
from featurelib.extras.inventory_import.entries import FoundEntry, new_ones, of_msk, of_strimzi
from featurelib.landing.strimzi import read_resources
from tests.cli.commands import run
from tests.landing.test_strimzi import kafka

DATA = Path(__file__).parents[3] / "data"
STRIMZI = str(DATA / "kubernetes" / "strimzi.json")
HOSTILE = 'a"]\n[[cluster]]\u202e\x1b[31m\x7f\U0001f600<b>' + "x" * 200


def uncommented(text: str) -> str:
    """The entries as somebody has them who filled the ids in."""
    rows = [row.removeprefix("# ") for row in text.splitlines()]
    return "\n".join(row for row in rows if " = " in row or row == "[[cluster]]")


def test_what_is_printed_is_read_as_an_inventory_and_added_once(tmp_path: Path) -> None:
    conf = tmp_path / "fleet.toml"
    conf.write_text('[[cluster]]\nid = "other"\n')
    code, out, err = run("inventory", "import", "--from-strimzi", STRIMZI, "--fleet", str(conf))
    assert (code, err.count("left out")) == (0, 1)
    conf.write_text(conf.read_text() + out)
    known = parse_fleet(conf.read_text(), str(conf)).cluster
    assert [entry.managed_as for entry in known][1:] == [
        "kafka/k41-forgotten",
        "kafka/orders",
        "search/logs",
    ]
    code, out, err = run("inventory", "import", "--from-strimzi", STRIMZI, "--fleet", str(conf))
    assert (code, out) == (0, "")
    assert "3 clusters listed, 3 of them in" in err


def test_an_entry_of_amazons_is_a_comment_until_it_has_an_id(tmp_path: Path) -> None:
    files = [w for n in ("clusters", "nodes") for w in ("--from-msk", str(DATA / f"msk/{n}.json"))]
    code, out, _ = run("inventory", "import", *files, "--fleet", "/dev/null")
    assert (code, parse_fleet(out, "f").cluster) == (0, ())
    entries = tomllib.loads(uncommented(out))["cluster"]
    assert entries[0] == {
        "id": "",
        "name": "payments",
        "managed_by": "msk",
        "managed_as": entries[0]["managed_as"],
        "bootstrap": [
            f"b-{i}.payments.1x2y3z.c5.kafka.eu-west-1.amazonaws.com:9096" for i in (1, 2, 3)
        ],
        "brokers": [1, 2, 3],
    }
    filled = uncommented(out).replace('id = ""', 'id = "c"', 1).replace('id = ""', 'id = "d"')
    conf = tmp_path / "fleet.toml"
    conf.write_text(filled)
    known_by_arn = run("inventory", "import", *files, "--fleet", str(conf))
    assert known_by_arn[:2] == (0, "")


def test_the_files_of_amazons_are_as_its_client_describes_them() -> None:
    service = botocore.loaders.Loader().load_service_model("kafka", "service-2")
    for name, shape in (("clusters", "ListClustersV2Response"), ("nodes", "ListNodesResponse")):
        value = json.loads((DATA / "msk" / f"{name}.json").read_text())
        expect_shape(value, botocore.model.ServiceModel(service).shape_for(shape), name)


def expect_shape(value: Any, shape: Any, where: str) -> None:
    """Every key of a value is one that the client knows, and of its type."""
    if shape.type_name == "structure":
        assert value.keys() <= shape.members.keys(), where
        for key, inner in value.items():
            expect_shape(inner, shape.members[key], f"{where}.{key}")
    elif shape.type_name == "list":
        for inner in value:
            expect_shape(inner, shape.member, where)
    else:
        kinds = {"string": str, "boolean": bool, "double": float, "map": dict, "timestamp": str}
        assert isinstance(value, kinds.get(shape.type_name, int)), where


def msk(clients: Any = None, broker: str = "TLS", nodes: Any = (), name: str = "n") -> FoundEntry:
    arn = f"arn:aws:kafka:eu-west-1:1:cluster/{name}/u-1"
    of = {"ClientAuthentication": clients, "EncryptionInfo": {}}
    of["EncryptionInfo"] = {"EncryptionInTransit": {"ClientBroker": broker}}
    answer = {"ClusterInfoList": [{"ClusterArn": arn, "ClusterName": name, "Provisioned": of}]}
    found, left_out = of_msk([("f", json.dumps(answer | {"NodeInfoList": list(nodes)}))])
    assert left_out == []
    return found[0]


@pytest.mark.parametrize(
    ("clients", "broker", "port"),
    [
        ({"Unauthenticated": {"Enabled": True}}, "TLS_PLAINTEXT", 9092),
        ({"Unauthenticated": {"Enabled": True}}, "TLS", 9094),
        ({"Sasl": {"Scram": {"Enabled": True}}}, "TLS", 9096),
        ({"Tls": {"Enabled": True}}, "TLS", 9094),
        ({"Sasl": {"Iam": {"Enabled": True}}}, "TLS", 9098),
        (None, "TLS", 9098),
    ],
)
def test_the_port_that_asks_least_is_taken(clients: Any, broker: str, port: int) -> None:
    node = {"NodeARN": "x/n/u-1/1", "BrokerNodeInfo": {"BrokerId": 1.5, "Endpoints": ["h"]}}
    found = msk(clients, broker, [node]).entry
    assert (found.bootstrap, found.brokers) == ((f"h:{port}",), ())


def test_names_of_any_kind_are_read_back_as_they_were() -> None:
    found = FoundEntry(msk(name=HOSTILE).entry)
    assert [one["name"] for one in tomllib.loads(uncommented(found.toml))["cluster"]] == [HOSTILE]
    assert all(row.isprintable() and row.startswith("# ") for row in found.toml.splitlines())


def test_a_broker_is_of_the_cluster_that_its_address_names_or_of_none() -> None:
    clusters = [
        {"ClusterArn": f"arn:aws:kafka:x:1:cluster/{name}/u", "ClusterName": name}
        for name in ("One", "two")
    ]
    nodes = [
        {"BrokerNodeInfo": {"BrokerId": 1.0, "Endpoints": ["b-1.one.x.amazonaws.com"]}},
        {"BrokerNodeInfo": {"BrokerId": 2.0, "Endpoints": ["b-2.three.x.amazonaws.com"]}},
        {"BrokerNodeInfo": {"BrokerId": 3.0}},
        {"NodeType": "CONTROLLER"},
    ]
    answers = [{"ClusterInfoList": clusters}, {"NodeInfoList": nodes}]
    found, left_out = of_msk([("f", json.dumps(one)) for one in answers])
    assert [one.entry.brokers for one in found] == [(1,), ()]
    assert left_out == ["2 nodes left out: no cluster of aws kafka list-clusters-v2 has them"]


def test_one_cluster_that_was_described_alone_is_taken() -> None:
    answer = {"ClusterInfo": {"ClusterArn": "arn:aws:kafka:x:1:cluster/a/u", "ClusterName": "a"}}
    assert [one.entry.name for one in of_msk([("f", json.dumps(answer))])[0]] == ["a"]


@pytest.mark.parametrize("text", ["", "{}", '{"ClusterInfoList":[{}]}', "[" * 10_000])
def test_what_is_something_else_is_told_with_its_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.json").write_text(text)
    code, out, err = run("inventory", "import", "--from-msk", str(tmp_path / "odd.json"))
    assert (code, out) == (2, "")
    assert "odd.json: This is not the JSON output of aws kafka list-clusters-v2 or" in err
    (tmp_path / "odd.json").write_bytes(b"\xff")
    assert run("inventory", "import", "--from-msk", str(tmp_path / "odd.json"))[0] == 2


def test_a_listener_that_asks_something_of_a_client_is_said_to() -> None:
    listener = {"name": "tls", "bootstrapServers": "a:9093,b:9093"}
    one, other = kafka(listeners=[listener]), kafka(clusterId="d")
    one["spec"]["kafka"]["listeners"] = [
        {"name": "tls", "tls": True, "authentication": {"type": "scram-sha-512"}},
        {"name": "own", "authentication": {}},
    ]
    other["metadata"] = {"name": "old", "namespace": "b"}
    found = [*of_strimzi(read_resources([one, other], "f").clusters)]
    assert found[0].entry.bootstrap == ("a:9093", "b:9093")
    assert "Listener tls wants TLS and authentication scram-sha-512: add" in found[0].notes[0]
    assert found[1].notes == ("Its status has no listener: say how it is reached.",)
    assert [one.entry.name for one in found] == ["kafka/old", "b/old"]


def test_one_source_is_named_and_an_address_that_nobody_answers_ends_with_5() -> None:
    for words in ([], ["--from-strimzi", STRIMZI, "--bootstrap", "127.0.0.1:1"]):
        code, out, err = run("inventory", "import", *words)
        assert (code, out) == (2, "")
        assert "needs exactly one of --from-strimzi FILE, --from-msk FILE and --bootstrap" in err
    code, out, err = run(
        "inventory", "import", "--bootstrap", "127.0.0.1:1", "--fleet", "/dev/null"
    )
    assert (code, out) == (5, "")
    assert "expected at least one node to answer" in err


def test_a_second_cluster_is_new_beside_one_that_nobody_manages() -> None:
    listed = Fleet(cluster=(FleetEntry(id="orders-id"),))
    second = FoundEntry(FleetEntry(id="payments-id"))
    assert new_ones([second, FoundEntry(listed.cluster[0])], listed) == [second]
