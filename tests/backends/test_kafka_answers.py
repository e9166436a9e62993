"""Answers of every version in one shape, and what is made of them; and the parts of kafka-python
below its public clients that are relied on, of one release. No Kafka is needed here."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import kafka
import msgspec
import pytest

from featurelib.backends.kafka import internals
from featurelib.backends.kafka.backend import candidates, lines_of
from featurelib.backends.kafka.discover import Map
from featurelib.backends.kafka.internals import Api
from featurelib.backends.kafka.protocol import (
    WITNESSES,
    ListenerAnswer,
    NodeAnswers,
    Share,
    Silence,
    Target,
    configurations,
)
from featurelib.errors import ProtocolError
from featurelib.feature import Role
from featurelib.landing import read
from featurelib.landing.line import Landing
from featurelib.landing.responses import NOT_OFFERED

BACKENDS = Path(__file__).parents[2] / "featurelib" / "backends"
AT = datetime(2026, 11, 21, 6, 0, 0, 123456, tzinfo=UTC)


def answer(api: Api, version: int, **body: object) -> ListenerAnswer:
    return ListenerAnswer(api=api, version=version, at=AT, body=body)


def test_of_configurations_only_the_keys_that_are_read_are_kept_and_nothing_sensitive() -> None:
    def config(name: str, **changes: object) -> dict[str, object]:
        own = {"name": name, "value": "v", "source": 4}
        return {
            **own, "read_only": True, "config_source": 4, "is_sensitive": False,
            "synonyms": [own], "config_type": 2, "documentation": None, **changes,
        }  # fmt: skip

    configs = [
        config("node.id"),
        config("ssl.key.password", value="secret"),
        config("process.roles", value="secret", is_sensitive=True),
    ]
    result = {
        "error_code": 0, "error_message": None, "resource_type": 4, "resource_name": "1",
        "configs": configs,
    }  # fmt: skip
    said = answer(Api.DESCRIBE_CONFIGS, 4, throttle_time_ms=0, results=[result])
    assert said.fault is None
    found = configurations(said)
    assert b"secret" not in msgspec.json.encode(found)
    [kept] = msgspec.to_builtins(found)["results"][0]["configs"]
    assert kept == {
        "name": "node.id", "value": "v", "read_only": True, "config_source": 4,
        "is_sensitive": False, "synonyms": [{"name": "node.id", "value": "v", "source": 4}],
    }  # fmt: skip


def test_configurations_are_refused_by_what_is_said_of_the_node_itself() -> None:
    refused, unknown = (
        answer(Api.DESCRIBE_CONFIGS, 4, results=[{"error_code": code, "error_message": "no"}])
        for code in (31, 42)
    )
    assert refused.code == 31
    assert "the operation DESCRIBE_CONFIGS on the resource CLUSTER" in (refused.fault or "")
    assert unknown.fault == "DescribeConfigs was answered with error 42: no"
    with pytest.raises(ProtocolError, match="DescribeConfigs version 4: expected the fields"):
        _ = answer(Api.DESCRIBE_CONFIGS, 4, results=[]).code


def target(role: Role = Role.BROKER, node_id: int = 7) -> Target:
    return Target(role=role, node_id=node_id, addresses=("kafka-7:9092",))


def asked(**changes: object) -> NodeAnswers:
    given: dict[str, object] = {"target": target(), "address": "kafka-7:9092", "at": AT}
    return NodeAnswers(**{**given, "error": None, **changes})  # type: ignore[arg-type]


FEATURES = answer(
    Api.API_VERSIONS,
    3,
    error_code=0,
    throttle_time_ms=0,
    api_keys=[{"api_key": 57, "min_version": 0, "max_version": 1}],
    supported_features=[{"name": "f", "min_version": 1, "max_version": 3}],
    finalized_features_epoch=-1,
    finalized_features=[],
    zk_migration_ready=False,
)


@pytest.mark.parametrize("is_kraft", [True, False])
def test_a_list_that_is_not_offered_is_recorded_in_kraft_only(is_kraft: bool) -> None:
    why = NOT_OFFERED.format(Api.DESCRIBE_QUORUM.title)
    silent = (
        Silence(Api.DESCRIBE_QUORUM, AT, why),
        Silence(Api.DESCRIBE_CLUSTER, AT, "error 99", 99),
    )
    found = [
        msgspec.json.decode(line)
        for line in lines_of(asked(answers=(FEATURES,), silent=silent, is_kraft=is_kraft), "c")
    ]
    assert all(isinstance(read(msgspec.json.encode(line)), Landing) for line in found)
    texts = {line["kind"]: line.get("why") or line.get("error") for line in found[1:]}
    expected = {"describe_quorum": why} if is_kraft else {}
    assert texts == {**expected, "describe_cluster": "error 99"}
    assert [line.get("error_code") for line in found[1:]] == [None] * is_kraft + [99]


def test_two_brokers_of_each_version_are_asked_for_a_list_and_every_controller() -> None:
    share = Share()
    said, refused = (
        ListenerAnswer(api=Api.DESCRIBE_CLUSTER, version=2, at=AT, body={"error_code": code})
        for code in (0, 31)
    )
    for _ in range(WITNESSES):
        share.note(target(Role.CONTROLLER), said)  # it lists controllers
        share.note(target(), refused)
    for _ in range(WITNESSES):
        assert not share.is_enough(target(), Api.DESCRIBE_CLUSTER, 2)
        share.note(target(), said)
    assert share.is_enough(target(), Api.DESCRIBE_CLUSTER, 2)
    assert not share.is_enough(target(), Api.DESCRIBE_CLUSTER, 1)
    assert not share.is_enough(target(Role.CONTROLLER), Api.DESCRIBE_CLUSTER, 2)


def test_in_zookeeper_mode_an_update_goes_to_the_controller_broker_and_to_nobody_else() -> None:
    known = Map(modes={"zk"}, active=2, brokers={1: ("b1:9092",), 2: ("b2:9092",)})
    assert list(candidates(known)) == [(Role.BROKER, 2, "b2:9092")]
    known.active = -1
    assert list(candidates(known)) == []


def test_nothing_of_ours_can_write_a_znode() -> None:
    calls = {
        node.func.attr
        for node in ast.walk(ast.parse((BACKENDS / "zookeeper.py").read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value) == "client"
    }
    reads = {"exists_async", "get", "get_children"}
    assert calls == {"start_async", "add_listener", "stop", "close"} | reads


@pytest.mark.parametrize(
    ("module", "client", "extra"),
    [("kafka.backend", "kafka", "kafka"), ("zookeeper", "kazoo", "zookeeper")],
)
def test_without_its_client_a_backend_says_what_to_install(
    module: str, client: str, extra: str
) -> None:
    program = (
        f"import sys; sys.modules[{client!r}] = None\n"
        "from featurelib.errors import ConfigError\n"
        f"try: import featurelib.backends.{module}\n"
        "except ConfigError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr == ""
    assert f"pip install '.[{extra}]'" in done.stdout


def test_the_clients_are_imported_without_a_warning() -> None:
    program = "import featurelib.backends.kafka.backend, featurelib.backends.zookeeper"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


# --- What is used below the client's public parts -------------------------------------------------


ROOT = Path(__file__).parents[2]
PINNED = "3.0.12"


def test_the_release_is_the_pinned_one() -> None:
    """Another one? Read the diff of kafka/net first, run tests/backends, then write it here."""
    locked = re.search(
        r'name = "kafka-python"\nversion = "([^"]+)"', (ROOT / "uv.lock").read_text()
    )
    assert locked is not None
    assert locked.group(1) == kafka.__version__ == PINNED


@pytest.mark.parametrize(
    ("part", "names"),
    [
        (
            internals.KafkaConnection,
            "connection_made initialize init_future send_request broker_version_data connected "
            "paused close",
        ),
        (internals.NetworkSelector, "run sleep close"),
        (internals.KafkaTCPTransport, "_sock_recv"),  # overridden: last words are kept
        (internals.AbstractTokenProvider, "token"),
        (
            type(internals.admin.UpdateFeaturesRequest.fields["feature_updates"]),
            "is_struct_array data_class",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_used_of_it_is_there(part: type, names: str) -> None:
    source = inspect.getsource(part)
    for name in names.split():
        assert hasattr(part, name) or f"self.{name} =" in source, name
