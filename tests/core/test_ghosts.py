"""Ghost or silent: only what Kafka itself does not see is gone; what we cannot reach is silent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from featurelib.audit.audit import Judged, judge
from featurelib.audit.evidence import Conditions, Expected
from featurelib.audit.findings import Action, FindingWords, action_for_gone
from featurelib.catalogue import load as catalogue
from featurelib.core.dialect import STRICT, load
from featurelib.feature import Role
from tests.core.lines import (
    AS_OF,
    MAX_AGE,
    answer_line,
    failure_line,
    line_of,
    log_texts,
    microseconds,
    snapshot,
)
from tests.core.oracle import BROKER, CONTROLLER, METADATA, Cluster, Node

OLD, NEW = {METADATA: (7, 25)}, {METADATA: (7, 29)}
LEVELS = {METADATA: 25}
LEADER = 1_795_000_000_000  # its time of the answer, milliseconds


def ids(*pairs: tuple[int, int]) -> list[dict[str, int]]:
    """Replicas and how many seconds ago they fetched."""
    return [{"replica_id": i, "last_fetch_timestamp": LEADER - ago * 1000} for i, ago in pairs]


def quorum(
    voters: Sequence[tuple[int, int]], observers: Sequence[tuple[int, int]], age: int = 1
) -> bytes:
    partition = {
        "partition_index": 0,
        "error_code": 0,
        "leader_id": 1,
        "leader_epoch": 3,
        "high_watermark": 900,
        "current_voters": ids(*voters),
        "observers": ids(*observers),
    }
    topics = [{"topic_name": "__cluster_metadata", "partitions": [partition]}]
    answer = {"error_code": 0, "topics": topics}
    return line_of(
        "describe_quorum", "c", age, asked_node=1, listener="broker", version=2, answer=answer
    )


def brokers(*listed: tuple[int, bool], version: int = 2, age: int = 1) -> bytes:
    """A broker's DescribeCluster answer; below version 2 fenced brokers are left out."""
    return line_of(
        "describe_cluster",
        "c",
        age,
        asked_node=1,
        listener="broker",
        version=version,
        endpoint_type=1,
        include_fenced_brokers=version >= 2,
        answer={
            "error_code": 0,
            "controller_id": 1,
            "brokers": [
                {"broker_id": i, **({"is_fenced": fenced} if version >= 2 else {})}
                for i, fenced in listed
                if version >= 2 or not fenced
            ],
        },
    )


def controllers(*listed: int, age: int = 1) -> bytes:
    return line_of(
        "describe_cluster",
        "c",
        age,
        asked_node=1,
        listener="controller",
        version=2,
        endpoint_type=2,
        include_fenced_brokers=False,
        answer={
            "error_code": 0,
            "controller_id": 1,
            "brokers": [{"broker_id": i, "is_fenced": False} for i in listed],
        },
    )


def node(node_id: int, role: str = BROKER, **keys: Any) -> Node:
    told: dict[str, Any] = {"ranges": NEW, "levels": LEVELS, "epoch": 9, "answered": 1}
    return Node(node_id=node_id, role=role, **told | keys)


def dump(*nodes: Node, age: int = 2, level: int = 25) -> list[bytes]:
    texts = log_texts(Cluster(name="c", nodes=nodes, stored={METADATA: level}))
    return [
        line_of("metadata_log", "c", age, line_number=i, line=text)
        for i, text in enumerate(texts, start=2)
    ]


def judged(*lines: bytes, expected: Expected | None = None) -> Judged:
    inventory = {} if expected is None else {"c": expected}
    conditions = Conditions(as_of=microseconds(AS_OF), max_age=MAX_AGE, inventory=inventory)
    return judge(snapshot({"c": list(lines)}), conditions, catalogue(), load(STRICT))


def found(said: Judged) -> dict[tuple[str, str | None, int | None], dict[str, Any]]:
    return {(r["code"], r["role"], r["node_id"]): r for r in said.findings.to_pylist()}


def verdict(said: Judged) -> str:
    rows = {row["feature"]: row["verdict"] for row in said.readiness.to_pylist()}
    return str(rows[METADATA])


BASE = (
    answer_line("c", node(1)),
    answer_line("c", node(1, CONTROLLER)),
    quorum([(1, 0)], []),
    controllers(1),
)
SILENT = failure_line("c", node(2, failed=1))


def test_a_broker_that_only_we_cannot_reach_is_silent_and_nobody_unregisters_it() -> None:
    said = judged(*BASE, SILENT, brokers((1, False), (2, False)))
    findings = found(said)
    row = findings["node_not_answering", "broker", 2]
    assert row["detail"] == "connection refused; Kafka calls it live"
    assert not {code for code, _, _ in findings} & {"ghost_broker", "range_unknown"}
    told = FindingWords(catalogue()).of(row)  # type: ignore[arg-type]
    assert "unregister" not in told.remedy.casefold() + told.command
    assert verdict(said) == "UNKNOWN"


def test_a_fenced_broker_is_a_ghost_and_that_it_did_not_answer_is_said() -> None:
    said = judged(*BASE, SILENT, brokers((1, False), (2, True)))
    findings = found(said)
    for code in ("ghost_broker", "range_unknown"):
        row = findings[code, "broker", 2]
        assert row["detail"] == "; it did not answer (connection refused)"
        told = FindingWords(catalogue()).of(row)  # type: ignore[arg-type]
        assert "did not answer (connection refused)" in told.message
        assert told.command == ("kafka-cluster.sh unregister --bootstrap-server HOST:PORT --id 2")
    assert ("node_not_answering", "broker", 2) not in findings
    assert verdict(said) == "UNKNOWN"


def test_a_ghost_is_judged_by_the_range_it_was_last_seen_with() -> None:
    earlier = answer_line("c", node(2, ranges=OLD, answered=20))
    said = judged(*BASE, SILENT, earlier, brokers((1, False), (2, True)))
    assert ("unsupported_by_node", "broker", 2) in found(said)
    assert verdict(said) == "BLOCKED"


@pytest.mark.parametrize(("version", "ghost"), [(2, False), (1, True)])
def test_a_list_that_leaves_out_who_is_fenced_is_kafkas_word_too(version: int, ghost: bool) -> None:
    """3.x: registered by the log, and not among the live brokers that were listed later."""
    log = dump(node(1), node(2, ranges=OLD), node(1, CONTROLLER))
    listed = brokers((1, False), (2, version == 1), version=version)
    said = judged(*BASE, SILENT, *log, listed)
    assert (("ghost_broker", "broker", 2) in found(said)) == ghost
    assert (("node_not_answering", "broker", 2) in found(said)) != ghost


GONE = (controllers(1, 2), quorum([(1, 0)], [(1, 0)]), brokers((1, False)))
LOST = ("ghost_controller", "controller", 2)


def unseen(*lines: bytes, level: int = 25, age: int = 2) -> Judged:
    """A cluster with controller 2 registered by the log with old software, and `lines`."""
    log = dump(node(1), node(1, CONTROLLER), node(2, CONTROLLER, ranges=OLD), level=level, age=age)
    answers = [
        answer_line("c", node(1, levels={METADATA: level})),
        answer_line("c", node(1, CONTROLLER, levels={METADATA: level})),
    ]
    return judged(*answers, *log, *lines)


def test_a_registered_controller_that_neither_votes_nor_follows_is_a_ghost() -> None:
    said = unseen(*GONE)
    row = found(said)[LOST]
    assert (row["finalized_level"], row["detail"]) == (25, "4.2")
    assert ("unsupported_by_node", "controller", 2) in found(said)
    assert verdict(said) == "BLOCKED"
    told = FindingWords(catalogue()).of(row)  # type: ignore[arg-type]
    assert "start a controller of that id once" in told.remedy
    assert "Start it with Kafka 4.2 or later" in told.remedy
    assert "controllers_complete = true" in told.remedy
    assert told.command == ""


@pytest.mark.parametrize(
    ("level", "action"), [(32, "register_anew"), (33, "unregister_controller")]
)
def test_a_controller_can_be_unregistered_from_metadata_version_33_on(
    level: int, action: str
) -> None:
    row = found(unseen(*GONE, level=level))[LOST]
    assert action_for_gone(Role.CONTROLLER, row["finalized_level"]) is Action(action)
    told = FindingWords(catalogue()).of(row)  # type: ignore[arg-type]
    command = "kafka-cluster.sh unregister-controller --bootstrap-server HOST:PORT --id 2"
    assert told.command == (command if level == 33 else "")


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ((quorum([(1, 0), (2, 300)], []),), "it votes, and starting it again is the way"),
        ((quorum([(1, 0)], [(2, 3)]),), "the leader saw it fetch"),
        (
            (quorum([(1, 0)], [(2, 3)]), failure_line("c", node(2, CONTROLLER, failed=1))),
            "the same",
        ),
        ((quorum([(1, 0)], [], age=9),), "it may have come after the quorum was described"),
        ((quorum([(1, 0)], []), answer_line("c", node(2, CONTROLLER))), "it answers"),
        ((), "nobody described the quorum"),
    ],
)
def test_a_controller_is_no_ghost_where(lines: tuple[bytes, ...], why: str) -> None:
    assert LOST not in found(unseen(controllers(1, 2), brokers((1, False)), *lines)), why


@pytest.mark.parametrize("ago", [10, 11])
def test_who_fetched_long_ago_follows_no_more_though_kafka_lists_it(ago: int) -> None:
    said = unseen(controllers(1, 2), brokers((1, False)), quorum([(1, 0)], [(2, ago)]))
    assert (LOST in found(said)) == (ago > 10)


def test_an_answer_of_days_ago_does_not_hide_that_a_controller_is_gone() -> None:
    earlier = answer_line("c", node(2, CONTROLLER, ranges=OLD, answered=40))
    assert LOST in found(unseen(*GONE, earlier))
    assert LOST in found(unseen(*GONE, earlier, failure_line("c", node(2, CONTROLLER, failed=1))))


def test_a_ghost_in_a_cluster_of_unknown_levels_is_started_again() -> None:
    lines = (node(1, epoch=-1, levels=None), node(1, CONTROLLER, epoch=-1, levels=None))
    base = [answer_line("c", one) for one in lines]
    said = judged(*base, quorum([(1, 0)], []), SILENT, brokers((1, False), (2, True)))
    row = found(said)["ghost_broker", "broker", 2]
    assert row["finalized_level"] is None
    told = FindingWords(catalogue()).of(row)  # type: ignore[arg-type]
    assert (told.remedy, told.command) == ("Start it again.", "")


@pytest.mark.parametrize(
    ("silent", "detail"), [((2, 3), "1 of 3"), ((1, 2, 3), "0 of 3"), ((3,), None)]
)
def test_too_few_voters_that_answer_are_said_to_be_no_majority(
    silent: tuple[int, ...], detail: str | None
) -> None:
    lines = [
        failure_line("c", node(i, CONTROLLER, failed=1))
        if i in silent
        else answer_line("c", node(i, CONTROLLER))
        for i in (1, 2, 3)
    ]
    row = found(judged(answer_line("c", node(1)), *lines, quorum([(1, 0), (2, 0), (3, 0)], [])))
    told = row.get(("no_majority_answers", None, None))
    assert (told and told["detail"]) == detail


@pytest.mark.parametrize(
    ("listed", "code"), [(2, "observer_not_registered"), (1, "observer_not_listed")]
)
def test_an_observer_is_not_registered_only_where_registrations_are_shown(
    listed: int, code: str
) -> None:
    lines = (*BASE[:2], quorum([(1, 0)], [(1, 0), (7, 3)]), brokers((1, False), version=listed))
    codes = {one for one, _, number in found(judged(*lines)) if number == 7}
    assert codes == {code}


@pytest.mark.parametrize("said", [None, -1])
def test_an_answer_without_times_shows_who_is_listed(said: int | None) -> None:
    line = json.loads(quorum([(1, 0)], [(7, 57)]))
    for replica in line["answer"]["topics"][0]["partitions"][0]["observers"]:
        replica.pop("last_fetch_timestamp")
        replica.update({} if said is None else {"last_fetch_timestamp": said})
    lines = (*BASE[:2], json.dumps(line).encode(), brokers((1, False)))
    assert 7 in {number for _, _, number in found(judged(*lines))}


def test_each_voter_that_never_registered_is_a_row_of_its_own_with_what_helps() -> None:
    log = dump(node(1), node(1, CONTROLLER))
    voters = quorum([(1, 0), (2, 0), (3, 0)], [])
    said = judged(*BASE[:2], *log, voters, brokers((1, False)))
    rows = [row for (code, _, _), row in found(said).items() if code == "voter_not_registered"]
    assert [(row["role"], row["node_id"], row["detail"]) for row in rows] == [
        ("controller", 2, "4.2"),
        ("controller", 3, "4.2"),
    ]
    told = FindingWords(catalogue()).of(rows[0])  # type: ignore[arg-type]
    assert told.message.startswith("Voter 2 never registered")
    assert told.remedy == "Start it with Kafka 4.2 or later, so that it registers."
