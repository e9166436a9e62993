"""The backend on real clusters: who is asked, what is sent, and what is never sent."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from kafka.admin import ACLOperation

from featurelib.audit.cluster_view import ClusterView
from featurelib.audit.evidence import ALL_BROKERS, KAFKAS_DEFAULT, OWN_FILE
from featurelib.backends.base import Backend
from featurelib.backends.credentials import Credentials
from featurelib.backends.kafka import protocol as kafka_wire
from featurelib.backends.kafka.backend import KafkaBackend, open_kafka
from featurelib.backends.kafka.internals import Api
from featurelib.backends.kafka.protocol import Client, Wire
from featurelib.catalogue import load
from featurelib.config.fleet import FleetEntry, parse_fleet
from featurelib.config.security import Security
from featurelib.core.reply import Result
from featurelib.errors import (
    ConfigError,
    OutcomeUnknownError,
    RefusedError,
    UnreachableError,
)
from featurelib.feature import METADATA_VERSION, Role
from featurelib.landing import read
from featurelib.landing.line import Landing
from featurelib.landing.responses import KEYS
from featurelib.model import Move, NotPassed, Passed, Step
from tests.backends.cutting import UPDATE_FEATURES, Cut, proxy
from tests.backends.rig.cluster import RunningCluster
from tests.backends.rig.kraft import Node
from tests.backends.rig.security import may, password
from tests.cli.commands import run
from tests.facts import first_fact
from tests.seeing import see

TIMEOUT = 5.0  # seconds
CATALOGUE = load()
NOT_AUTHORIZED, INVALID_UPDATE_VERSION = 31, 95


def opened(cluster: RunningCluster, **changes: Any) -> KafkaBackend:
    """The backend of a running cluster, known by its brokers alone unless said otherwise."""
    given: dict[str, Any] = {"bootstrap": tuple(cluster.bootstrap.split(","))} | changes
    backend = open_kafka(FleetEntry(id="", **given), timeout=TIMEOUT)
    assert isinstance(backend, KafkaBackend)
    return backend


def described(backend: Backend) -> list[dict[str, Any]]:
    """The lines of one look, as objects; each is one that the nightly accepts."""
    lines = backend.describe(lambda text: None)
    assert [found for found in map(read, lines) if not isinstance(found, Landing)] == []
    return [msgspec.json.decode(line) for line in lines]


def asked(lines: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    """The ApiVersions lines by (role, node id); nobody is asked twice."""
    mine = [line for line in lines if line["kind"] == "api_versions"]
    found = {(line["role"], line["node_id"]): line for line in mine}
    assert len(found) == len(mine)
    return found


def seen(backend: Backend) -> ClusterView:
    return see(
        backend.describe(lambda text: None), catalogue=CATALOGUE, as_of=None, max_age=3_600_000_000
    )


def level(backend: Backend, feature: str) -> int:
    """What every listener says is finalized; they may take a moment to agree."""
    levels = set()
    for _ in range(50):
        levels = {
            entry["max_version_level"]
            for line in asked(described(backend)).values()
            for entry in line["finalized_features"]
            if entry["name"] == feature
        }
        if len(levels) < 2:
            break
    assert len(levels) < 2
    return levels.pop() if levels else 0


def step(feature: str, from_level: int, to_level: int, upgrade_type: str = "UPGRADE") -> Step:
    update = Move(
        feature=feature, from_level=from_level, to_level=to_level, upgrade_type=upgrade_type
    )
    return Step(updates=(update,), timeout_ms=5000)


UP = step("group.version", 0, 1)


# One node


def test_both_halves_of_one_process_are_asked_in_version_4_with_their_api_ranges(
    kraft_node: RunningCluster,
) -> None:
    lines = described(opened(kraft_node))
    found = asked(lines)
    assert set(found) == {("controller", 1), ("broker", 1)}
    for (role, _), line in found.items():
        endpoint = (
            kraft_node.nodes[1].broker if role == "broker" else kraft_node.nodes[1].controller
        )
        assert line["endpoint"] == endpoint
        assert (line["asked_version"], line["answered_version"]) == (4, 4)
        assert {"api_key": 57, "min_version": 0, "max_version": 2} in line["api_keys"]
        assert line["cluster_id"] == kraft_node.cluster_id
    kinds = {(line["kind"], line.get("listener"), line.get("endpoint_type")) for line in lines}
    assert ("describe_cluster", "broker", 1) in kinds
    assert ("describe_cluster", "controller", 2) in kinds
    assert {kind for kind, _, _ in kinds} >= {"describe_quorum"}


def test_each_half_says_what_it_is_configured_with_and_nothing_secret(
    kraft_node: RunningCluster,
) -> None:
    lines = [line for line in described(opened(kraft_node)) if line["kind"] == "describe_configs"]
    assert [(line["role"], line["endpoint"]) for line in lines] == [
        ("controller", kraft_node.nodes[1].controller),
        ("broker", kraft_node.nodes[1].broker),
    ]
    names = [[one["resource_name"] for one in line["answer"]["results"]] for line in lines]
    assert names == [["1"], ["1", ""]]
    voters = f"1@{kraft_node.nodes[1].controller}"
    for line in lines:
        configs = {one["name"]: one for one in line["answer"]["results"][0]["configs"]}
        assert set(configs) <= set(KEYS)
        assert configs["controller.quorum.voters"] == {
            "name": "controller.quorum.voters",
            "value": voters,
            "read_only": True,
            "config_source": OWN_FILE,
            "is_sensitive": False,
            "synonyms": [
                {"name": "controller.quorum.voters", "value": voters, "source": OWN_FILE},
                {"name": "controller.quorum.voters", "value": "", "source": KAFKAS_DEFAULT},
            ],
        }
        assert configs["process.roles"]["value"] == "broker,controller"
        assert configs["metadata.max.idle.interval.ms"]["value"] == "500"
        assert configs["min.insync.replicas"]["config_source"] in (KAFKAS_DEFAULT, ALL_BROKERS)


def test_where_brokers_do_not_name_controllers_they_are_taken_from_the_inventory(
    kraft_node: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(kafka_wire.VERSIONS, Api.DESCRIBE_QUORUM, (0, 1))  # as before 3.9
    told: list[str] = []
    backend = opened(kraft_node)
    backend.describe(told.append)
    assert set(asked(described(backend))) == {("broker", 1)}
    assert any(text.startswith("voters 1: not asked") for text in told)
    assert backend.update(step(METADATA_VERSION, 27, 27), validate_only=True).code == 0  # forwarded
    given = (kraft_node.controller_bootstrap,)
    found = asked(described(opened(kraft_node, controller_bootstrap=given)))
    assert set(found) == {("controller", 1), ("broker", 1)}


def test_a_cluster_at_an_address_becomes_an_entry_of_the_inventory(
    kraft_node: RunningCluster,
) -> None:
    """Its first broker is enough, and what is printed collects it."""
    code, out, said = run(
        "inventory", "import", "--bootstrap", kraft_node.bootstrap, "--fleet", "/dev/null"
    )
    assert code == 0, said
    [entry] = parse_fleet(out, "printed").cluster
    assert (entry.id, entry.bootstrap) == (kraft_node.cluster_id, (kraft_node.bootstrap,))


def test_a_controller_named_as_broker_is_told_apart(kraft_node: RunningCluster) -> None:
    backend = opened(kraft_node, bootstrap=(kraft_node.controller_bootstrap,))
    with pytest.raises(UnreachableError, match="use it under controller_bootstrap"):
        backend.describe(lambda text: None)


def test_a_listener_that_stays_silent_ends_by_the_time_limit(kraft_node: RunningCluster) -> None:
    wire = Wire(Credentials(Security(protocol="SSL")), 0.5)
    with (
        proxy(kraft_node.bootstrap, Cut.SILENCE) as silent,  # speaks no TLS: waits for a frame
        pytest.raises(UnreachableError, match=r"no answer within 0\.5 s"),
    ):
        wire.connect(silent.address)


# Several nodes


def test_brokers_list_the_brokers_in_every_look_however_many_controllers_answered_first(
    cluster_without_a_controller: RunningCluster,
) -> None:
    nodes = cluster_without_a_controller.nodes
    first = tuple(f"{node}@{nodes[node].controller}" for node in (1, 2, 3))
    for _ in range(8):
        lines = described(opened(cluster_without_a_controller, controller_bootstrap=first))
        lists = [(line["listener"], "answer" in line) for line in lines if "endpoint_type" in line]
        assert lists.count(("controller", True)) == 2
        # The second time its copy of the metadata log has the quorum's end.
        assert lists.count(("broker", True)) == 2
        [again] = [line for line in lines if "high_watermark" in line]
        assert again["epoch"] + 1 >= again["high_watermark"] > 1


def test_where_the_controller_has_moved_it_is_found_again(
    cluster_without_a_controller: RunningCluster,
) -> None:
    backend = opened(cluster_without_a_controller)
    backend.describe(lambda text: None)
    known = backend._map
    assert known is not None
    leader = known.leader[1]
    standby = next(node for node in (1, 2) if node != leader)
    known.leader = (known.leader[0], standby)
    known.brokers.clear()  # nobody forwards
    with backend._reach.wires[Role.CONTROLLER].connect(known.controllers[standby][0]) as client:
        assert client.update_features(UP, validate_only=True).code == 41
    assert backend.update(UP, validate_only=True).code == 0
    assert backend._map is not known
    assert backend._map.leader[1] == leader


# Updates


def test_a_request_to_validate_is_never_sent_in_a_version_without_the_field(
    kraft_node: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(kafka_wire.VERSIONS, Api.UPDATE_FEATURES, (0, 0))
    wire = Wire(Credentials(Security()), TIMEOUT)
    with (
        proxy(kraft_node.controller_bootstrap, Cut.NOWHERE) as between,
        wire.connect(between.address) as client,
        pytest.raises(RefusedError, match="Nothing was sent"),
    ):
        client.update_features(UP, validate_only=True)
    assert UPDATE_FEATURES not in between.seen


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from tests.backends.conftest import running
    from tests.backends.rig.kraft import start_kraft

    home = tmp_path_factory.mktemp("changing")
    with running(lambda: start_kraft(home, (Node(id=1),), release_version="4.1")) as cluster:
        yield cluster


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("cut", "is_applied"), [(Cut.REPLY, True), (Cut.REQUEST, False), (Cut.SILENCE, False)]
)
def test_a_lost_answer_is_unknown_and_nothing_is_sent_twice(
    changing: RunningCluster, cut: Cut, is_applied: bool
) -> None:
    looking = opened(changing)
    before = level(looking, "group.version")
    kind = "SAFE_DOWNGRADE" if before else "UPGRADE"
    with proxy(changing.controller_bootstrap, cut) as between:
        # An address that is given for a node is tried before the one it advertises.
        backend = opened(changing, controller_bootstrap=(f"1@{between.address}",))
        backend._reach.wires[Role.CONTROLLER]._timeout_ms = 300
        asking = Step(updates=step("group.version", before, 1 - before, kind).updates, timeout_ms=1)
        with pytest.raises(OutcomeUnknownError, match="UpdateFeatures was sent to "):
            backend.update(asking)
    assert between.seen[UPDATE_FEATURES] == 1
    assert level(looking, "group.version") == (1 - before if is_applied else before)


@pytest.mark.kafka
def test_a_connection_that_is_cut_before_sending_leaves_nothing_unknown(
    changing: RunningCluster,
) -> None:
    wire = Wire(Credentials(Security()), TIMEOUT)
    with (
        proxy(changing.controller_bootstrap, Cut.AT_ONCE) as between,
        pytest.raises(UnreachableError),
    ):
        wire.connect(between.address)
    assert between.seen == {}
    with proxy(changing.controller_bootstrap, Cut.AT_ONCE) as between:
        backend = opened(changing, controller_bootstrap=(f"1@{between.address}",))
        # Nothing was sent there, so the next address takes it.
        assert backend.update(step(METADATA_VERSION, 27, 27)).code == 0


# What may still be carried out


@pytest.mark.kafka
def test_whoever_may_hold_a_request_is_asked_and_the_offset_of_the_answer_is_reached(
    changing: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = opened(changing)
    taking = backend.recipient()
    assert (taking.title, taking.leader) == ("controller 1", 1)
    assert taking.leader_epoch > 0
    for sent in (taking, None):  # None: an earlier release's, which any broker may hold
        found = backend.passed(sent, {METADATA_VERSION, "kraft.version"})
        assert isinstance(found, Passed)
        assert "controller 1 has handled all that was sent before, in epoch" in found.how
        assert found.offset is not None
        epochs = [
            line["finalized_features_epoch"]
            for line in asked(described(backend)).values()
            if line["role"] == "broker"
        ]
        assert max(epochs) >= found.offset - 2  # a broker follows within a moment
    other = replace(taking, node=2)
    found = backend.passed(other, {METADATA_VERSION})
    assert isinstance(found, Passed)
    assert found.how.startswith("controller 1 leads in epoch ")
    assert "controller 2, which the request was sent to, cannot commit it" in found.how
    gone = replace(taking, role="broker", node=7, address="127.0.0.1:1")
    found = backend.passed(gone, {METADATA_VERSION})
    assert isinstance(found, NotPassed)
    assert "broker 7, which may hold the request: 127.0.0.1:1: connection refused" in found.why
    monkeypatch.setitem(kafka_wire.VERSIONS, Api.DESCRIBE_QUORUM, (0, 1))  # as before 3.9
    hidden = opened(changing)
    forwarding = hidden.recipient()
    assert (forwarding.role, forwarding.node) == ("broker", 1)
    found = hidden.passed(forwarding, {METADATA_VERSION})
    assert isinstance(found, NotPassed)
    assert "give --controllers 1@HOST:PORT" in found.why
    named = opened(changing, controller_bootstrap=(f"1@{changing.controller_bootstrap}",))
    assert isinstance(named.passed(forwarding, {METADATA_VERSION}), Passed)
    backend.close()
    hidden.close()


# Rights and secrets


def secured(cluster: RunningCluster, user: str, **changes: Any) -> dict[str, Any]:
    assert cluster.security is not None
    given = {
        "protocol": "SASL_SSL",
        "mechanism": "PLAIN",
        "username": user,
        "password": f"env:{user.upper()}",
        "ca_file": str(cluster.security.certificate),
    }
    return {"security": Security(**{**given, **changes})}


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passwords of the users, in the environment."""
    for user in ("admin", "viewer", "stranger"):
        monkeypatch.setenv(user.upper(), password(user))
    monkeypatch.setenv("WRONG", "not-the-password")
    return [password(user) for user in ("admin", "viewer", "stranger")] + ["not-the-password"]


def test_describe_on_cluster_is_enough_to_look_and_not_to_alter(
    secured_node: RunningCluster, secrets: list[str]
) -> None:
    backend = opened(secured_node, **secured(secured_node, "viewer"))
    lines = described(backend)
    assert set(asked(lines)) == {("controller", 1), ("broker", 1)}
    failed = {
        (line["kind"], line.get("listener", line.get("role"))): line["error"]
        for line in lines
        if "error" in line
    }
    # A controller lists controllers only to those who may alter; its voters it shows.
    configs = {("describe_configs", role.text) for role in Role}
    assert set(failed) == {("describe_cluster", "controller"), *configs}
    for half in configs:
        assert "the operation DESCRIBE_CONFIGS on the resource CLUSTER" in failed[half]
    assert "the operation ALTER on the resource CLUSTER" in failed["describe_cluster", "controller"]
    judged = seen(backend).judged
    findings = judged.findings.to_pylist()
    assert "right_missing" not in [row["code"] for row in findings]
    withheld = [first_fact(row) for row in findings if row["code"] == "right_withheld"]
    assert [text.split(" by ")[0] for text in sorted(withheld)] == [
        "ALTER on CLUSTER; DescribeCluster was refused to User:viewer",
        "DESCRIBE_CONFIGS on CLUSTER; DescribeConfigs was refused to User:viewer",
    ]
    # Only that list has a controller that is off, does not vote and is still registered.
    assert set(judged.readiness["verdict"].to_pylist()) == {"UNKNOWN"}
    assert "registrations_unproven" in [row["code"] for row in findings]
    for validate_only in (True, False):
        reply = backend.update(step(METADATA_VERSION, 27, 27), validate_only=validate_only)
        assert reply.code == NOT_AUTHORIZED
        lacks = "User:viewer needs the operation ALTER on the resource CLUSTER"
        assert lacks in (reply.message or "")
        assert "kafka-acls.sh" not in (reply.message or "")  # nobody is handed ALTER


def test_without_any_right_the_missing_one_is_recorded_and_said(
    secured_node: RunningCluster, secrets: list[str]
) -> None:
    backend = opened(secured_node, **secured(secured_node, "stranger"))
    told: list[str] = []
    lines = [msgspec.json.decode(line) for line in backend.describe(told.append)]
    refused = next(line for line in lines if line["kind"] == "describe_quorum")
    assert "the operation DESCRIBE on the resource CLUSTER" in refused["error"]
    assert any("the operation DESCRIBE on the resource CLUSTER" in text for text in told)
    assert (refused["error_code"], refused["principal"]) == (NOT_AUTHORIZED, "User:stranger")
    judged = seen(backend).judged
    findings = {row["code"]: row for row in judged.findings.to_pylist()}
    missing = first_fact(findings["right_missing"])
    assert missing.startswith("DESCRIBE on CLUSTER; DescribeQuorum was refused to User:stranger")
    assert "mode_unknown" not in findings  # the right is why
    assert set(judged.readiness["verdict"].to_pylist()) == {"UNKNOWN"}


@contextmanager
def allowed(cluster: RunningCluster, user: str, operation: ACLOperation) -> Iterator[None]:
    """A user may do one operation on CLUSTER, and nothing else, for as long as the block runs."""
    assert cluster.security is not None
    rule = may(user, operation)
    with cluster.security.admin(cluster.bootstrap) as client:
        client.create_acls([rule])
        try:
            yield
        finally:
            client.delete_acls([rule])


def test_alter_on_cluster_is_enough_for_everything(
    secured_node: RunningCluster, secrets: list[str]
) -> None:
    backend = opened(secured_node, **secured(secured_node, "stranger"))
    same = step(METADATA_VERSION, 27, 27)
    with allowed(secured_node, "stranger", ACLOperation.ALTER):
        failed = [line for line in described(backend) if "error" in line]
        # ALTER implies DESCRIBE, and not DESCRIBE_CONFIGS.
        assert [(line["kind"], line["error_code"]) for line in failed] == [
            ("describe_configs", NOT_AUTHORIZED)
        ] * 2
        assert backend.update(same, validate_only=True).code == 0
        assert backend.update(same).code == 0
    assert backend.update(same).code == NOT_AUTHORIZED


def test_describe_configs_on_cluster_shows_what_nodes_are_configured_with(
    secured_node: RunningCluster, secrets: list[str]
) -> None:
    backend = opened(secured_node, **secured(secured_node, "stranger"))
    with (
        allowed(secured_node, "stranger", ACLOperation.DESCRIBE),
        allowed(secured_node, "stranger", ACLOperation.DESCRIBE_CONFIGS),
    ):
        lines = [line for line in described(backend) if line["kind"] == "describe_configs"]
    assert [(line["role"], "error" in line) for line in lines] == [
        ("controller", False), ("broker", False),
    ]  # fmt: skip


def test_scram_is_spoken_too(secured_node: RunningCluster, secrets: list[str]) -> None:
    viewer = secured(secured_node, "viewer", mechanism="SCRAM-SHA-256")
    plain = secured(secured_node, "viewer")["security"]
    lines = described(opened(secured_node, **viewer, controller_security=plain))
    assert "error" not in asked(lines)["broker", 1]
    assert "error" not in asked(lines)["controller", 1]


NO_LOGIN = {"protocol": "PLAINTEXT", "mechanism": "", "username": "", "password": ""}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"password": "env:WRONG"}, "authentication failed: .*Invalid username or password"),
        ({"mechanism": "SCRAM-SHA-512"}, "it does not take the mechanism SCRAM-SHA-512"),
        ({"ca_file": ""}, "its certificate is not trusted .*; ca_file names who signed"),
        ({"protocol": "SASL_PLAINTEXT", "ca_file": ""}, "answers by TLS, .* is SASL_SSL"),
        (NO_LOGIN | {"protocol": "SSL"}, r"as one that wants a login \(SASL_SSL\) does"),
        (NO_LOGIN | {"ca_file": ""}, "it answers by TLS, so its protocol is SASL_SSL or SSL"),
    ],
)
def test_wrong_settings_are_told_with_where_to_look_and_without_secrets(
    secured_node: RunningCluster,
    secrets: list[str],
    caplog: pytest.LogCaptureFixture,
    changes: dict[str, str],
    found: str,
) -> None:
    backend = opened(secured_node, **secured(secured_node, "viewer", **changes))
    told: list[str] = []
    with (
        caplog.at_level(logging.DEBUG),
        pytest.raises((UnreachableError, ConfigError), match=found) as caught,
    ):
        backend.describe(told.append)
    shown = f"{caught.value!r} {told} {caplog.text} {backend!r} {backend.where}"
    assert [secret for secret in secrets if secret in shown] == []
    assert r"Check [cluster.security]" in str(caught.value)
    assert "Check the address first" not in str(caught.value)
    assert told == []  # the error says all of it, once


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"protocol": "SSL"}, "it ended the TLS handshake, as one without TLS does"),
        (
            {"protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN", "password": "env:VIEWER"},
            "it takes no login, so its protocol is PLAINTEXT",
        ),
    ],
)
def test_a_listener_without_tls_or_login_is_named_as_the_likely_cause(
    kraft_node: RunningCluster, secrets: list[str], settings: dict[str, str], found: str
) -> None:
    user = "viewer" if "mechanism" in settings else ""
    with pytest.raises(UnreachableError) as caught:
        opened(kraft_node, security=Security(username=user, **settings)).describe(print)  # type: ignore[arg-type]
    assert found in str(caught.value)
    assert "authentication failed" not in str(caught.value)


# ZooKeeper mode


def with_znodes(cluster: RunningCluster, **changes: Any) -> KafkaBackend:
    return opened(cluster, zookeeper=cluster.zookeeper, **changes)


def opened_at_its_brokers(backend: KafkaBackend) -> KafkaBackend:
    """The same cluster, whose ZooKeeper nobody named."""
    entry = FleetEntry(id="", bootstrap=backend._reach.bootstrap)
    made = open_kafka(entry, timeout=TIMEOUT)
    assert isinstance(made, KafkaBackend)
    return made


def zookeeper_controller(backend: KafkaBackend) -> int:
    assert backend._map is not None
    return backend._map.active


def test_in_zookeeper_mode_znodes_are_read_and_the_controller_broker_is_asked(
    zookeeper_cluster: RunningCluster,
) -> None:
    backend = with_znodes(zookeeper_cluster)
    lines = described(backend)
    znodes = {line["path"]: line for line in lines if line["kind"] == "znode"}
    assert {"/feature", "/controller", "/cluster/id", "/brokers/ids/1", "/brokers/ids/2"} <= set(
        znodes
    )
    assert znodes["/features"]["data"] is None
    assert znodes["/brokers/ids"]["children"] == [1, 2]
    assert znodes["/brokers/ids"]["observed_at"] <= znodes["/brokers/ids/1"]["observed_at"]
    before = znodes["/feature"]["version"]
    assert set(asked(lines)) == {("broker", 1), ("broker", 2)}
    assert not backend.abilities().validate_only
    _validation_is_refused(backend, zookeeper_cluster)
    _is_sent_to_whom_it_was_said_and_to_nobody_else(backend)
    after = [line for line in described(backend) if line.get("path") == "/feature"]
    assert after[0]["version"] == before + 1
    assert '"g"' in after[0]["data"]


def _validation_is_refused(backend: KafkaBackend, cluster: RunningCluster) -> None:
    with pytest.raises(RefusedError, match="would apply the request"):
        backend.update(step("g", 0, 1), validate_only=True)
    for node in cluster.nodes.values():
        with proxy(node.broker, Cut.NOWHERE) as between:
            client: Client
            with backend._reach.wires[Role.BROKER].connect(between.address) as client:
                assert not client.is_kraft
                with pytest.raises(RefusedError, match="Nothing was sent"):
                    client.update_features(step("g", 0, 1), validate_only=True)
        assert UPDATE_FEATURES not in between.seen


def _is_sent_to_whom_it_was_said_and_to_nobody_else(backend: KafkaBackend) -> None:
    real = zookeeper_controller(backend)
    assert backend._map is not None
    backend._map.active = next(node for node in backend._map.brokers if node != real)
    present = level(backend, "g")
    target = 1 if present != 1 else 2
    kind = "SAFE_DOWNGRADE" if present > target else "UPGRADE"
    assert backend._map is not None
    backend._map.active = next(node for node in backend._map.brokers if node != real)
    taking = backend.recipient()
    assert (taking.role, taking.node) == ("broker", backend._map.active)
    assert backend.update(step("g", present, target, kind)).code == 41
    assert level(backend, "g") == present
    passing = backend.passed(taking, {"g"})
    assert isinstance(passing, Passed)
    assert f"broker {taking.node} has handled all that was sent before" in passing.how
    backend.describe(lambda text: None)
    assert backend.recipient().node == real
    reply = backend.update(step("g", present, target, kind))
    assert reply.code == 0
    assert reply.results == (Result(feature="g", code=0, message="NONE"),)
    without = opened_at_its_brokers(backend)
    assert "--zookeeper HOST:PORT" in without.passed(taking, {"g"}).why
    assert zookeeper_controller(backend) == real


def test_registrations_alone_lead_to_the_brokers_and_a_wrong_chroot_is_told(
    zookeeper_cluster: RunningCluster,
) -> None:
    backend = with_znodes(zookeeper_cluster, bootstrap=())
    assert set(asked(described(backend))) == {("broker", 1), ("broker", 2)}
    wrong = opened(zookeeper_cluster, zookeeper=zookeeper_cluster.zookeeper + "/nothing")
    with pytest.raises(ConfigError, match=r"chroot .* does not exist"):
        wrong.describe(lambda text: None)
    without = opened(zookeeper_cluster, zookeeper="127.0.0.1:1")
    told: list[str] = []
    assert len(without.describe(told.append)) > 0
    assert any("ZooKeeper 127.0.0.1:1: " in text for text in told)
