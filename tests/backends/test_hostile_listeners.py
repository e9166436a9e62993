"""Listeners that answer without an end, or with what is meant for a terminal: a look ends, costs
little, and says in one line what it saw."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.admin import DescribeQuorumResponse
from kafka.protocol.metadata import ApiVersionsResponse

from featurelib.backends.kafka import connection as kafka_limits
from featurelib.backends.kafka import discover as kafka_map
from featurelib.backends.kafka.backend import open_kafka
from featurelib.backends.kafka.internals import Api
from featurelib.config.fleet import FleetEntry
from featurelib.errors import UnreachableError
from featurelib.feature import Role
from tests.backends.speaking import Listener, Mine, api_versions, listing, node
from tests.cli.forked import forks

OFFERED = {
    Api.API_VERSIONS: (0, 4),
    Api.DESCRIBE_CLUSTER: (0, 2),
    Api.DESCRIBE_QUORUM: (0, 2),
    Api.UPDATE_FEATURES: (0, 2),
}
LONG = "x" * (kafka_limits.LISTS + 1)
STEERS = "\x1b[2J\x9b31m\nerror: forged \u202egnorw\u2066"  # erases, colours, adds a line, turns
Lines = list[dict[str, Any]]


def quorum(*voters: int) -> Any:
    topic = DescribeQuorumResponse.TopicData
    state = topic.PartitionData.ReplicaState
    partition = topic.PartitionData(
        partition_index=0,
        error_code=0,
        error_message=None,
        leader_id=1,
        leader_epoch=1,
        high_watermark=1,
        current_voters=[state(replica_id=node, log_end_offset=1) for node in voters],
        observers=[],
    )
    topics = [topic(topic_name="__cluster_metadata", partitions=[partition])]
    return DescribeQuorumResponse(error_code=0, error_message=None, topics=topics, nodes=[])


def hostile(**answers: Callable[[Mine], Any]) -> AbstractContextManager[Listener]:
    """A listener of KRaft that lists itself as node 1 unless said otherwise."""
    usual = {"describe_cluster": listing, "describe_quorum": lambda mine: quorum(1)}
    return node(OFFERED, **(usual | answers))


def looked(
    listener: Listener, role: Role = Role.BROKER, timeout: float = 1.0
) -> tuple[Lines, list[str], float]:
    """The landing lines of a look, what it said, and how many seconds it took."""
    given = {("bootstrap" if role is Role.BROKER else "controller_bootstrap"): (listener.address,)}
    said: list[str] = []
    began = time.monotonic()
    backend = open_kafka(FleetEntry(id="c", **given), timeout=timeout)
    lines = [json.loads(line) for line in backend.describe(said.append)]
    return lines, said, time.monotonic() - began


def test_where_nobody_answers_those_whose_own_listeners_were_asked_have_lines() -> None:
    unheard = ((7, "127.0.0.1", 1), (8, "127.0.0.1", 2))
    with (
        hostile(describe_cluster=lambda mine: listing(*unheard, cluster="c")) as listener,
        pytest.raises(UnreachableError) as caught,
    ):
        looked(listener)
    lines = [json.loads(line) for line in caught.value.lines]
    assert [(line["cluster_id"], line["node_id"], line["endpoint"]) for line in lines] == [
        ("c", 7, "127.0.0.1:1"), ("c", 8, "127.0.0.1:2"),
    ]  # fmt: skip
    assert all(line["error"] for line in lines)
    with pytest.raises(
        UnreachableError
    ) as caught:  # the listener is gone: nobody says who is there
        looked(listener)
    assert caught.value.lines == ()


def naming_one_more(mine: tuple[int, str, int], known: list[int]) -> Any:
    known.append(len(known) + 1)
    return listing(*((node, *mine[1:]) for node in known), kind=2)


def test_a_controller_that_names_a_new_node_in_each_answer_ends_by_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka_limits, "LEAST_SECONDS", 1.0)
    monkeypatch.setattr(kafka_limits, "TIME_LIMITS", 1)
    known: list[int] = []
    with hostile(describe_cluster=lambda mine: naming_one_more(mine, known)) as listener:
        lines, said, seconds = looked(listener, Role.CONTROLLER)
    errors = [line["error"] for line in lines if "error" in line]
    assert any(error.endswith("the reading may take at most 1 s") for error in errors)
    assert 1 <= seconds < 10
    assert any("listeners answered" in text for text in said)


def test_a_controller_that_names_a_new_node_in_each_answer_ends_by_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (kafka_map, sys.modules["featurelib.backends.kafka.backend"]):
        monkeypatch.setattr(module, "MOST_NODES", 30)
    known: list[int] = []
    with hostile(describe_cluster=lambda mine: naming_one_more(mine, known)) as listener:
        lines, said, _ = looked(listener, Role.CONTROLLER)
    assert len([line for line in lines if line["kind"] == "api_versions"]) == 30
    assert f"{listener.address}: 30 nodes or more are named; no more than that are asked" in said


def test_many_nodes_in_one_answer_are_said_in_a_short_line() -> None:
    with hostile(describe_quorum=lambda mine: quorum(*range(1, 20_000))) as listener:
        _, said, _ = looked(listener, timeout=60)  # the answer is made while it is waited for
    assert max(map(len, said)) < 300
    assert any(text.startswith("voters 1, 2, 3") and "more: not asked" in text for text in said)


def test_an_answer_that_is_too_long_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with hostile(describe_cluster=lambda mine: listing((1, LONG, 1))) as listener:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(UnreachableError, match="longer than 4 MB, and was not read"):
            looked(listener)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB
    ranges = ApiVersionsResponse.SupportedFeatureKey
    many = [ranges(name=LONG[:9_000], min_version=1, max_version=2) for _ in range(120)]
    keys = api_versions(OFFERED)(4).api_keys
    answer = ApiVersionsResponse(error_code=0, api_keys=keys, supported_features=many)
    with (
        hostile(api_versions=lambda mine: answer) as listener,
        pytest.raises(UnreachableError, match="longer than 1 MB, and was not read"),
    ):
        looked(listener)


def test_all_answers_of_a_look_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_limits, "MOST_BYTES", 2_000_000)
    same = lambda mine: listing(*((node, *mine[1:]) for node in (1, 2, 3)), (4, LONG[:900_000], 1))  # noqa: E731
    with hostile(describe_cluster=same) as listener:
        lines, _, _ = looked(listener)
    assert any("answered with more than 2 MB" in line.get("error", "") for line in lines)


def test_a_real_fleet_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    ranges = ApiVersionsResponse.SupportedFeatureKey
    features = [
        ranges(name=f"some.feature.version.{n}", min_version=0, max_version=9) for n in range(1000)
    ]
    keys = api_versions(OFFERED)(4).api_keys
    answer = ApiVersionsResponse(error_code=0, api_keys=keys, supported_features=features)
    host = "broker-{:04}.kafka.a-rather-long-name-of-a-team.eu-central-1.example.internal"
    with hostile(
        api_versions=lambda mine: answer,
        describe_cluster=lambda mine: listing(
            mine, *((n, host.format(n), 1) for n in range(2, 12))
        ),
        describe_quorum=lambda mine: quorum(*range(1000)),
    ) as listener:
        lines, _, _ = looked(listener)
    assert {line["kind"] for line in lines if "error" not in line} >= {
        "api_versions",
        "describe_cluster",
        "describe_quorum",
    }


COMMANDS = (
    "collect --out landing",
    "describe",
    "plan upgrade-all",
    "why-not some.feature=2",
    "can-roll --to 4.2",
)


CASES = [(command, "c") for command in (*COMMANDS, *(f"{one} --json" for one in COMMANDS[:2]))]
CASES += [(COMMANDS[0], f"c{STEERS}"), (COMMANDS[1], f"c{STEERS}")]


@pytest.mark.parametrize(("command", "cluster"), CASES)
def test_nothing_that_a_node_says_steers_a_terminal(
    command: str, cluster: str, tmp_path: Path
) -> None:
    def steering(mine: tuple[int, str, int]) -> Any:
        return listing(mine, (2, STEERS, 99999), cluster=cluster)

    ranges = ApiVersionsResponse.SupportedFeatureKey
    levels = ApiVersionsResponse.FinalizedFeatureKey
    answer = api_versions(OFFERED)(4)
    answer = ApiVersionsResponse(
        error_code=0,
        api_keys=answer.api_keys,
        supported_features=[ranges(name=f"f{STEERS}", min_version=1, max_version=3)],
        finalized_features=[levels(name=f"f{STEERS}", min_version_level=1, max_version_level=1)],
        finalized_features_epoch=4,
    )
    refused = DescribeQuorumResponse(error_code=99, error_message=STEERS, topics=[], nodes=[])
    with hostile(
        api_versions=lambda mine: answer,
        describe_cluster=steering,
        describe_quorum=lambda mine: refused,
    ) as listener:
        words = [*command.split(), "--bootstrap", listener.address, "--timeout", "2"]
        code, out, err = forks().run(*words, cwd=tmp_path)
    said = (out + err).decode()
    assert "Traceback" not in said
    assert code in (0, 2, 3, 5), said
    assert [c for c in said if not c.isprintable() and c != "\n"] == []
    assert not any(line.startswith("error: forged") for line in said.splitlines()), said
    if "--json" in command:
        json.loads(out)
