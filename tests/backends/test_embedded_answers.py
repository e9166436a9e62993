"""What nodes of an embedded cluster answer: lines that land, in the shape of recorded ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from featurelib.backends.embedded import EmbeddedCluster
from featurelib.core.cluster import Cluster
from featurelib.errors import ProtocolError
from featurelib.feature import Role
from featurelib.landing import Landing, read
from tests.backends.clusters import KRAFT, NEW, ZK, broker, controller, opened, to, zk_broker

SAMPLES = Path(__file__).parents[2] / "data" / "samples"
BOTH = Role.BROKER, Role.CONTROLLER
# What a collector says: who was asked, and when.
BESIDE = {"kind", "cluster_id", "observed_at", "asked_node", "listener"}
BESIDE |= {"node_id", "role", "endpoint"}


@pytest.fixture
def kraft() -> Iterator[EmbeddedCluster]:
    with opened(KRAFT, 100) as cluster:
        yield cluster


def landed(kind: str, said: dict[str, Any], node_id: int, role: Role) -> Any:
    """What landing makes of an answer once a collector has said who was asked, and when."""
    line = {"kind": kind, "cluster_id": "c", "observed_at": "2026-11-21T05:44:54Z", **said}
    if kind == "api_versions":
        line |= {"node_id": node_id, "role": role.text, "endpoint": "e:1"}
    else:
        said_by = "role" if kind == "describe_configs" else "listener"
        line |= {"asked_node": node_id, said_by: role.text}
    found = read(json.dumps(line).encode())
    assert isinstance(found, Landing), found
    return found.content


def test_version_3_leaves_out_ranges_from_0(kraft: EmbeddedCluster) -> None:
    newest = landed("api_versions", kraft.describe(3), 3, Role.BROKER)
    older = landed("api_versions", kraft.describe(3, version=3), 3, Role.BROKER)
    assert {name: (low, high) for name, low, high in newest.supported} == NEW
    assert older.supported == (("metadata.version", 7, 29),)
    assert older.finalized == newest.finalized == (("metadata.version", 25, 25),)
    with pytest.raises(ProtocolError, match="version 3 or above, found 2"):
        kraft.describe(3, version=2)


def test_only_newer_nodes_answer_in_version_4() -> None:
    with opened(replace(ZK, nodes=(zk_broker(1, "3.8.1"), zk_broker(2, "3.9.2"))), 7, "zk") as zk:
        assert [zk.describe(i)["answered_version"] for i in (1, 2)] == [3, 4]


def test_a_controller_has_an_epoch_of_its_own(kraft: EmbeddedCluster) -> None:
    """The offset of its last feature record; a broker's is the last offset it applied."""
    kraft.update_features(to(26))
    kraft.fence(3)
    epochs = [kraft.describe(i)["finalized_features_epoch"] for i in (1, 4)]
    assert epochs == [101, 102]


def test_controllers_before_3_6_show_no_levels() -> None:
    levels = {"metadata.version": (7, 7)}
    old = controller(1, release="3.5.2", supported={"metadata.version": (1, 11)})
    new = controller(2, release="3.6.2", supported={"metadata.version": (1, 14)})
    with opened(Cluster(release="3.5.2", nodes=(old, new), active=1, finalized=levels)) as cluster:
        said = landed("api_versions", cluster.describe(1), 1, Role.CONTROLLER)
        assert (said.epoch, said.finalized) == (-1, ())
        said = landed("api_versions", cluster.describe(2), 2, Role.CONTROLLER)
        assert (said.epoch, said.finalized) == (0, (("metadata.version", 7, 7),))


def test_the_halves_of_a_process_answer_each_for_itself(kraft: EmbeddedCluster) -> None:
    kraft.register(broker(1, supported={"metadata.version": (7, 25)}))
    ranges = [kraft.describe(1, role=role)["supported_features"] for role in BOTH]
    assert [len(some) for some in ranges] == [1, 3]


def test_fenced_brokers_are_listed_where_they_are_asked_for(kraft: EmbeddedCluster) -> None:
    kraft.fence(4)
    plain = landed("describe_cluster", kraft.describe_cluster(3), 3, Role.BROKER)
    assert plain.brokers == ((3, False),)
    said = kraft.describe_cluster(3, include_fenced=True)
    whole = landed("describe_cluster", said, 3, Role.BROKER)
    assert whole.brokers == ((3, False), (4, True))
    assert (whole.version, whole.endpoint_type, whole.include_fenced) == (2, 1, True)


def test_a_controllers_listener_lists_controllers(kraft: EmbeddedCluster) -> None:
    said = landed("describe_cluster", kraft.describe_cluster(2), 2, Role.CONTROLLER)
    assert said.brokers == ((1, False), (2, False))
    assert (said.endpoint_type, said.controller_id) == (2, 1)


def test_before_version_2_nothing_tells_a_fenced_broker() -> None:
    old = broker(3, release="3.9.2", supported={"metadata.version": (1, 21)})
    with opened(replace(KRAFT, nodes=(*KRAFT.nodes[:2], old))) as cluster:
        said = landed("describe_cluster", cluster.describe_cluster(3), 3, Role.BROKER)
        assert (said.version, said.brokers) == (1, ((3, None),))
        with pytest.raises(ProtocolError, match=r"4\.0 or later, found 3\.9\.2"):
            cluster.describe_cluster(3, include_fenced=True)


def test_a_zookeeper_broker_names_the_controller() -> None:
    nodes = zk_broker(1, "2.8.2"), replace(zk_broker(2, "2.8.2"), ignored=True)
    with opened(replace(ZK, release="2.8.2", nodes=nodes), 7, "zk") as cluster:
        said = landed("describe_cluster", cluster.describe_cluster(1), 1, Role.BROKER)
        assert (said.version, said.controller_id, said.brokers) == (0, 1, ((1, None),))


@pytest.mark.parametrize(
    ("release", "level", "code"), [("3.5.2", 11, None), ("3.7.2", 11, 35), ("3.7.2", 15, 0)]
)
def test_an_older_controller_describes_no_cluster(
    release: str, level: int, code: int | None
) -> None:
    one = controller(1, release=release, supported={"metadata.version": (1, 19)})
    levels = {"metadata.version": (level, level)}
    with opened(Cluster(release=release, nodes=(one,), active=1, finalized=levels)) as cluster:
        said: dict[str, Any] = cluster.describe_cluster(1)
        found = landed("describe_cluster", said, 1, Role.CONTROLLER)
        assert found.answered == (code == 0)
        assert (said["answer"] or {}).get("error_code") == code


def test_the_quorum_is_its_voters_and_who_follows(kraft: EmbeddedCluster) -> None:
    kraft.register(controller(5, voter=False))
    kraft.elect(2)
    said = kraft.describe_quorum(3)
    found = landed("describe_quorum", said, 3, Role.BROKER)
    assert (found.voters, found.observers) == ((1, 2), (3, 4, 5))
    assert (found.leader_id, found.leader_epoch, found.high_watermark) == (2, 1, 103)
    kraft.stop(2)
    assert not landed("describe_quorum", kraft.describe_quorum(3), 3, Role.BROKER).answered


def test_there_is_no_quorum_in_zookeeper_mode() -> None:
    with opened(ZK, 7, "zk") as cluster, pytest.raises(ProtocolError, match="no metadata quorum"):
        cluster.describe_quorum(1)


def test_each_node_says_what_it_is_configured_with(kraft: EmbeddedCluster) -> None:
    found = landed("describe_configs", kraft.describe_configs(3), 3, Role.BROKER)
    own, default = found.resources
    assert default == ("", ())
    assert own[0] == "3"
    assert {key: value for key, value, _ in own[1]} == {
        "controller.quorum.bootstrap.servers": "",
        "controller.quorum.voters": "1@node-1.embedded:9093,2@node-2.embedded:9093",
        "min.insync.replicas": "1",
        "node.id": "3",
        "process.roles": "broker",
    }
    leads = landed("describe_configs", kraft.describe_configs(1), 1, Role.CONTROLLER)
    assert [name for name, _ in leads.resources] == ["1"]


def test_a_controller_of_a_dynamic_quorum_names_no_voters() -> None:
    with opened(replace(KRAFT, raft_level=1)) as cluster:
        found = landed("describe_configs", cluster.describe_configs(1), 1, Role.CONTROLLER)
    [(_, values)] = found.resources
    said = {key: value for key, value, _ in values}
    assert said["controller.quorum.voters"] == ""
    assert said["controller.quorum.bootstrap.servers"].count(",") == 1


def test_older_controllers_and_zookeeper_mode_describe_no_configuration() -> None:
    one = controller(1, release="3.5.2", supported={"metadata.version": (1, 11)})
    with opened(Cluster(release="3.5.2", nodes=(one,), active=1)) as cluster:
        found = landed("describe_configs", cluster.describe_configs(1), 1, Role.CONTROLLER)
        assert not found.answered
    with opened(ZK, 7, "zk") as cluster, pytest.raises(ProtocolError, match="found ZooKeeper"):
        cluster.describe_configs(1)


# --- The shape of recorded answers ----------------------------------------------------------------


def shape(value: object) -> object:
    """The keys of an answer, at every depth; lists by what they hold."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value[:1]]
    return None


@pytest.mark.parametrize("folder", ["k35-fresh", "k37-forgotten", "k39-static", "k42-dynamic"])
def test_answers_have_the_keys_of_recorded_ones(folder: str) -> None:
    """One process, broker and controller, as it was recorded: asked again, the same keys."""
    text = (SAMPLES / folder / "landing.jsonl").read_text("utf-8").splitlines()
    lines = [json.loads(line) for line in text]
    kinds = ("api_versions", "describe_cluster", "describe_quorum")
    release = {"k35": "3.5.2", "k37": "3.7.2", "k39": "3.9.2", "k42": "4.2.1"}[folder[:3]]
    seen = set()
    for line in (line for line in lines if line["kind"] in kinds):
        role = Role[line.get("listener", line.get("role")).upper()]
        with opened(recorded_cluster(lines, release), 9) as cluster:
            if line["kind"] == "api_versions":
                ours = cluster.describe(1, line["asked_version"], role=role)
            elif line["kind"] == "describe_cluster":
                fenced = line.get("include_fenced_brokers", False)
                ours = cluster.describe_cluster(1, include_fenced=fenced, role=role)
            else:
                ours = cluster.describe_quorum(1, role=role)
        theirs = {key: value for key, value in line.items() if key in ours}
        assert set(line) - set(ours) <= BESIDE
        bare = {"observers", "supported_features", "finalized_features"}
        assert without(shape(theirs), bare) == without(shape(ours), bare), line["kind"]
        for key in ("version", "answered_version", "endpoint_type", "why"):
            assert theirs.get(key) == ours.get(key)
        if "supported_features" in ours:
            assert by_name(ours["supported_features"]) == by_name(line["supported_features"])
            assert by_name(ours["finalized_features"]) == by_name(line["finalized_features"])
        seen.add((line["kind"], role))
    assert len(seen) == 6


def recorded_cluster(lines: list[Any], release: str) -> Cluster:
    """The process as its newest answers show it."""
    told = [line for line in lines if line["kind"] == "api_versions" and line["asked_version"] > 3]
    ranges = {
        e["name"]: (e["min_version"], e["max_version"]) for e in told[0]["supported_features"]
    }
    levels = {
        e["name"]: (e["min_version_level"], e["max_version_level"])
        for line in told
        for e in line["finalized_features"]
    }
    nodes = (
        controller(1, supported=ranges, release=release),
        broker(1, supported=ranges, release=release),
    )
    return Cluster(release=release, nodes=nodes, active=1, finalized=levels)


def without(value: Any, keys: set[str]) -> Any:
    if isinstance(value, dict):
        return {key: without(inner, keys) for key, inner in value.items() if key not in keys}
    if isinstance(value, list):
        return [without(inner, keys) for inner in value]
    return value


def by_name(entries: Any) -> list[Any]:
    return sorted(entries, key=lambda entry: entry["name"])
