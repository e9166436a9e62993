"""A list of nodes proves registrations only if it is as new as the other responses of its reading.

Each scene is READY without the response that makes its list old, or its source doubtful.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.core.lines import listing
from tests.core.oracle import CONTROLLER, METADATA
from tests.core.test_registrations import (
    ALL_LOST,
    ALONE,
    ANSWERS,
    BOTH_LISTED,
    DYNAMIC_LEVELS,
    LEVELS,
    ME,
    NEW,
    OLD,
    answer,
    codes,
    findings,
    judge_lines,
    log,
    node,
    quorum,
    readiness,
    seconds_later,
)

Ranges = dict[str, tuple[int, int]]
UNPROVEN = {"registrations_unproven"}
ALIKE = quorum([(1, 0)], [(7, 0)])  # its end is the end that broker 1 has
AHEAD = quorum([(1, 0)], [(7, 0)], end=40)


def changed(line: bytes, **keys: object) -> bytes:
    return json.dumps(json.loads(line) | keys).encode()


def collected(epoch: int = 9, end: int | None = 10, seconds: float = 5, **keys: object) -> bytes:
    """A list as `collect` writes it: after it compared the broker's copy with the quorum's end."""
    return changed(seconds_later(seconds, ALONE), epoch=epoch, high_watermark=end, **keys)


def printed(seconds: float, voters: list[int], observers: tuple[int, ...] = ()) -> bytes:
    """The table of `kafka-metadata-quorum.sh describe --replication`, which has no leader epoch."""
    nodes = ([(node_id, 0) for node_id in ids] for ids in (voters, observers))
    line = seconds_later(seconds, quorum(*nodes))
    return line.replace(b'"leader_epoch": 3', b'"leader_epoch": -1')


BY_ANOTHER = changed(seconds_later(5, ALONE), asked_node=2)
GHOSTS_BEFORE = changed(seconds_later(5, BOTH_LISTED), epoch=99, high_watermark=100)
REFUSED = changed(collected(seconds=20), error="no answer", answer=None, epoch=None)


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([quorum([(1, 0)]), ALONE], set()),
        ([ALIKE, ALONE], set()),
        ([AHEAD, ALONE], UNPROVEN),
        ([quorum([(1, 0)], end=40), ALONE], set()),
        ([quorum([(1, 0)], [(4, 0)]), ALONE], set()),
        ([quorum([(4, 0)], [(5, 0)]).replace(b'"leader_id": 1', b'"leader_id": 4'), ALONE],
         UNPROVEN),
        ([quorum([(1, 0)], end=40), collected(39, 40)], set()),
        ([AHEAD, collected(39, 40)], set()),
        ([quorum([(1, 0)], end=40), collected(38, 40)], UNPROVEN),
        ([AHEAD, ALONE, collected(38, 40)], UNPROVEN),
        ([quorum([(1, 0)], end=40), collected(38, 40), BY_ANOTHER], UNPROVEN),
        ([quorum([(1, 0)], end=100), collected(24, 25)], UNPROVEN),
        ([quorum([(1, 0)]), seconds_later(1, answer(1, epoch=99)), collected(24, 25)], UNPROVEN),
        ([quorum([(1, 0)]), GHOSTS_BEFORE, collected(24, 25, seconds=25)], UNPROVEN),
        ([quorum([(1, 0)]), collected(9, None)], UNPROVEN),
        ([quorum([(1, 0)]), collected(9, 0)], UNPROVEN),
        ([quorum([(1, 0)]), collected(), seconds_later(30, ANSWERS[0])], UNPROVEN),
        ([quorum([(1, 0)]), ALONE, seconds_later(30, ANSWERS[0])], set()),
        ([quorum([(1, 0)]), collected(), REFUSED], UNPROVEN),
        ([quorum([(1, 0)]), seconds_later(2, answer(7, epoch=9, ranges=OLD)), ALONE], set()),
        ([AHEAD, collected(39, 40, listener_name="B", inter_broker_listener="B")], set()),
        ([AHEAD, collected(39, 40, listener_name="C", inter_broker_listener="B")], UNPROVEN),
        ([quorum([(1, 0)], end=40),
          collected(39, 40, listener_name="C", inter_broker_listener="B")], set()),
        ([quorum([(1, 0)], end=40), collected(39, 40), seconds_later(15, AHEAD)], UNPROVEN),
        ([quorum([(1, 0)], end=40), collected(39, 40), printed(15, [1], (7,))], UNPROVEN),
        ([quorum([(1, 0)], end=40), collected(39, 40), printed(15, [1], (1,))], set()),
        ([quorum([(1, 0)], [(7, 0)]), ALONE, seconds_later(30, ALIKE)], UNPROVEN),
    ],
    ids=[
        "no other node", "a node that runs is in no list, and the list is as new as the quorum",
        "the quorum is further", "which counts only if a node is in no list",
        "the broker follows", "the broker does not follow",
        "its copy has the quorum's end", "also if a node is in no list",
        "its copy lacks a record", "and an older list of the same node proves nothing",
        "nor does an equal list of another node, whose copy nobody compared",
        "the quorum was further before", "a broker was further before", "a list was further before",
        "the leader does not know the high watermark", "or there is none",
        "the node was queried again, and its list is lost", "which other collectors may do",
        "and its list failed", "a broker that is not registered responds",
        "a node is in no list, not even over the listener between brokers",
        "the list was requested over another listener, which that node may lack",
        "which no node shows that it lacks",
        "a later response has a node that is in no list",
        "also a table that kafka-metadata-quorum.sh prints",
        "which has no other node", "and no copy was compared",
    ],
)  # fmt: skip
def test_a_list_that_is_older_than_other_responses_proves_nothing(
    lines: list[bytes], found: set[str]
) -> None:
    for order in ([*ANSWERS, *lines], [*ANSWERS, *lines][::-1]):
        said = judge_lines(order)
        assert codes(said) & UNPROVEN == found
        assert (readiness(said, METADATA)["verdict"] == "READY") == (
            not found and "unsupported_by_node" not in codes(said)
        )


TWO = {"kind": 2}


@pytest.mark.parametrize(
    ("lines", "is_ready"),
    [
        ([listing((1, False), (2, False), **TWO)], True),
        ([changed(listing((1, False), (2, False), **TWO), asked_node=2)], False),
        ([changed(listing((1, False), (2, False), **TWO), asked_node=i) for i in (1, 2)], True),
    ],
    ids=["the leader lists", "a follower lists, which may lag behind", "both list the same"],
)
@pytest.mark.parametrize("levels", [DYNAMIC_LEVELS, {"levels": LEVELS}], ids=["dynamic", "static"])
def test_only_the_leader_s_list_of_controllers_is_as_new_as_the_quorum(
    levels: dict[str, Any], lines: list[bytes], is_ready: bool
) -> None:
    nodes = [answer(1, **levels), *(answer(i, CONTROLLER, **levels) for i in (1, 2))]
    said = judge_lines([*nodes, ALONE, quorum([(1, 0), (2, 0)]), *lines])
    assert (readiness(said, METADATA)["verdict"] == "READY") == is_ready
    found = findings(said, "registrations_unproven")
    assert [row["facts"]["cause"] for row in found] == ["lags"] * (not is_ready)


@pytest.mark.parametrize("hour", [b"T11:", b"T12:"])
def test_a_later_table_with_another_voter_makes_the_voters_unknown(hour: bytes) -> None:
    """The table has no leader epoch, and may lack a row, so it shows only that a node is there."""
    lines = [*ANSWERS, quorum([(1, 0)]), collected()]
    assert readiness(judge_lines(lines), METADATA)["verdict"] == "READY"
    for ids, found in (([1], set()), ([1, 9], {"voters_unknown"}), ([9, 1], {"voters_unknown"})):
        table = printed(15, ids).replace(b"T11:", hour)
        for order in ([*lines, table], [table, *lines], [table, printed(1, [1]), *lines]):
            said = judge_lines(order)
            assert codes(said) & {"voters_unknown"} == found
            assert (readiness(said, METADATA)["verdict"] == "READY") == (not found)


@pytest.mark.parametrize("seconds", [3, 8, 13, 59])
def test_a_controller_that_follows_the_quorum_counts_whenever_it_responded(seconds: int) -> None:
    """More evidence against a level never makes it READY."""
    said = judge_lines(
        [
            *(answer(1, *role, **DYNAMIC_LEVELS) for role in ((), (CONTROLLER,))),
            ALONE,
            answer(8, CONTROLLER, ranges=OLD | {"kraft.version": (0, 1)}),
            seconds_later(seconds, quorum([(1, 0)], [(8, 0)])),
        ]
    )
    assert findings(said, "unsupported_by_node", role=CONTROLLER, node_id=8)
    assert readiness(said, METADATA)["verdict"] != "READY"


@pytest.mark.parametrize(
    ("other", "seconds", "ids"),
    [
        (quorum([(1, 0), (9, 0)]), 5, {9}),
        (quorum([(1, 0)]).replace(b'"leader_id": 1', b'"leader_id": 5'), 5, {5}),
        (quorum([(1, 0)], [(7, 0)]), 5, set()),
        (quorum([(1, 0), (9, 0)]), 15, set()),
        (quorum([(1, 0), (9, 0)]).replace(b'"leader_epoch": 3', b'"leader_epoch": 2'), 5, set()),
    ],
    ids=["another voter", "another leader", "other observers", "later", "an earlier leader"],
)
def test_two_responses_about_one_quorum_that_differ_prove_nothing(
    other: bytes, seconds: int, ids: set[int]
) -> None:
    lines = [*ANSWERS, ALONE, other, seconds_later(seconds, quorum([(1, 0)]))]
    for order in (lines, lines[::-1]):
        said = judge_lines(order)
        assert {row["node_id"] for row in findings(said, "lists_disagree")} == ids
        assert (readiness(said, METADATA)["verdict"] == "READY") == (not ids)


@pytest.mark.parametrize(
    ("seconds", "registered", "responds", "verdict"),
    [
        (0, OLD, NEW, "BLOCKED"),
        (0.9, OLD, NEW, "BLOCKED"),
        (30, OLD, NEW, "READY"),
        (0.9, NEW, OLD, "UP_TO_DATE"),
    ],
)
def test_a_response_is_no_wider_than_a_registration_of_the_same_second(
    seconds: float, registered: Ranges, responds: Ranges, verdict: str
) -> None:
    """No broker starts with other software within a second."""
    dump = [seconds_later(1, line) for line in log(node(1, ranges=registered), ME[1], age=1)]
    nodes = [answer(1, ranges=responds), *ANSWERS[1:]]
    scene = [seconds_later(1 + seconds, line) for line in [*nodes, ALONE, quorum([(1, 0)])]]
    said = judge_lines([*dump, *scene])
    assert readiness(said, METADATA)["verdict"] == verdict


@pytest.mark.parametrize(("seconds", "verdict"), [(5, "READY"), (20, "UNKNOWN")])
def test_a_leader_counts_ten_seconds_after_all_voters_know_of_none(
    seconds: int, verdict: str
) -> None:
    lost = [seconds_later(seconds, line) for line in ALL_LOST[:3]]
    voters = [answer(1), *(answer(i, CONTROLLER) for i in (1, 2, 3))]
    said = judge_lines([*voters, quorum([(1, 0), (2, 0), (3, 0)]), ALONE, *lost])
    assert readiness(said, METADATA)["verdict"] == verdict
    assert ("quorum_without_leader" in codes(said)) == (verdict == "UNKNOWN")
