"""In ZooKeeper mode a lost line frees nothing: a broker that somebody speaks of is there, and what
brokers read of `/feature` later than we did is heard."""

from __future__ import annotations

import json

import pytest

from featurelib.audit.audit import Judged
from featurelib.catalogue import load
from featurelib.errors import NoEvidenceError
from tests.core.lines import (
    MAX_AGE,
    answer_line,
    at,
    codes,
    failure_line,
    findings,
    judge_lines,
    line_of,
    readiness,
)
from tests.core.oracle import Node
from tests.seeing import see

WIDE, NARROW, NOTHING_MORE = {"f": (1, 6)}, {"f": (1, 5)}, {"f": (1, 4)}
RANK = {"f": 4}
HOUR = 3600


def znode(path: str, seconds: int, data: object = None, **keys: object) -> bytes:
    """One read, `seconds` after the look began an hour ago."""
    text = None if data is None else json.dumps(data)
    said = {"version": None if data is None else 1} | keys
    return line_of("znode", "c", 1, path=path, data=text, observed_at=at(1, seconds), **said)


def registered(node_id: int, ranges: dict[str, tuple[int, int]], seconds: int = 0) -> bytes:
    features = {n: {"min_version": low, "max_version": high} for n, (low, high) in ranges.items()}
    return znode(f"/brokers/ids/{node_id}", seconds, {"version": 5, "features": features})


def listed(*brokers: int, seconds: int = 0) -> bytes:
    return znode("/brokers/ids", seconds, version=0, children=brokers)


def feature(level: int, version: int, seconds: int = 0, **keys: object) -> bytes:
    content = {"version": 2, "status": 1, "features": {"f": {"max_version_level": level}}}
    return znode("/feature", seconds, content, version=version, **keys)


def answer(
    node_id: int,
    ranges: dict[str, tuple[int, int]],
    seconds: int = 1,
    level: int = 4,
    epoch: int = 1,
    asked_version: int = 4,
) -> bytes:
    said = Node(
        node_id=node_id,
        ranges=ranges,
        answered=1,
        levels={"f": level},
        epoch=epoch,
        asked_version=asked_version,
    )
    moment = at(1, seconds).encode()
    return answer_line("c", said).replace(at(1, node_id).encode(), moment)


def silence(node_id: int) -> bytes:
    return failure_line("c", Node(node_id=node_id, ranges={}, answered=None, failed=1))


def lead(seconds: int = 0, broker: int = 2) -> bytes:
    return znode("/controller", seconds, {"version": 1, "brokerid": broker})


ROUND = [registered(2, WIDE), lead(1), feature(4, 1, 1), answer(2, WIDE)]
LATER = [registered(2, WIDE, 60), lead(61), feature(4, 1, 61), answer(2, WIDE, 61)]
FIVE = [*ROUND, *(f(n, NARROW) for n in (1, 3, 4, 5) for f in (registered, answer))]
OFF = znode("/brokers/ids/6", 0, {"version": 4})  # below inter.broker.protocol.version 2.7
BEFORE = [*ROUND, registered(1, NARROW), answer(1, NARROW)]


@pytest.mark.parametrize(
    ("lines", "verdict", "found"),
    [
        ([*BEFORE], "READY", set()),
        ([*ROUND], "READY", set()),
        ([*ROUND, answer(1, NARROW)], "UNKNOWN", {"range_unknown"}),
        ([*ROUND, answer(1, NARROW, -200)], "UNKNOWN", {"range_unknown"}),
        ([*ROUND, answer(1, NARROW, -HOUR)], "READY", set()),
        ([*ROUND, silence(1)], "UNKNOWN", {"range_unknown"}),
        ([*ROUND, silence(1), listed(2, seconds=-HOUR)], "UNKNOWN", {"range_unknown"}),
        ([*ROUND, silence(1), listed(2)], "READY", set()),
        ([*BEFORE, *LATER], "READY", {"registration_gone"}),
        ([*BEFORE, *LATER, silence(1)], "READY", {"registration_gone"}),
        ([*BEFORE, *LATER, answer(1, NARROW, 61)], "UNKNOWN", {"range_unknown"}),
        ([*BEFORE, *LATER, answer(1, NARROW, 59)], "UNKNOWN", {"range_unknown"}),
        ([*ROUND, listed(1, 2)], "UNKNOWN", {"range_unknown"}),
        ([*ROUND, listed(1, 2), znode("/brokers/ids/1", 0)], "UNKNOWN", {"range_unknown"}),
        ([*BEFORE, listed(1, 2)], "READY", set()),
        ([*BEFORE, listed(1, 2), *LATER, listed(1, 2, seconds=60)], "UNKNOWN", {"range_unknown"}),
        ([*BEFORE, listed(1, 2), *LATER, listed(2, seconds=60)], "READY", {"registration_gone"}),
        ([*BEFORE, listed(1, 2), *LATER], "UNKNOWN", {"range_unknown"}),
        ([*BEFORE, *LATER, listed(2, seconds=60), answer(1, NARROW, 61)],
         "UNKNOWN", {"range_unknown"}),
        ([*BEFORE, *LATER, listed(2, seconds=60), answer(1, NARROW, 59)],
         "UNKNOWN", {"range_unknown"}),
        ([*BEFORE, *LATER, listed(2, seconds=60), silence(1)], "READY", {"registration_gone"}),
        ([*ROUND, listed(2, seconds=-60), registered(1, NARROW)], "READY", set()),
        ([*BEFORE, registered(2, WIDE, 60)], "READY", set()),
        ([*BEFORE, registered(2, WIDE, HOUR - 60)], "UNKNOWN", {"range_unknown"}),
        ([*BEFORE, answer(1, NARROW, HOUR), answer(2, WIDE, HOUR)], "UNKNOWN", set()),
        ([*FIVE, answer(1, NARROW, HOUR)], "READY", set()),
        ([*FIVE, answer(1, NOTHING_MORE, HOUR)], "UNKNOWN", {"range_unknown"}),
        ([*FIVE, OFF, answer(6, NOTHING_MORE, HOUR)], "UNKNOWN", {"range_unknown"}),
        ([*FIVE, OFF, answer(6, NOTHING_MORE)], "BLOCKED", set()),
        ([*ROUND, lead(2, 1)], "UNKNOWN", {"range_unknown"}),
        ([*ROUND, lead(0, 1)], "READY", set()),
    ],
    ids=[
        "both are registered", "the other was never there", "it answers", "it answered just before",
        "it answered an hour before", "it is asked",
        "it is asked an hour after a list", "it is asked, and the list is without it",
        "a later round is without it",
        "a later round is without it, and it is silent",
        "a later round is without it, and it answers",
        "a later round is without it, and it answered just before",
        "only the list names it", "and its znode is missing in that second",
        "it is listed and registered", "its newest registration is lost",
        "the newest list is without it", "the newest list is lost",
        "the list is without it, and it answers",
        "the list is without it, and it answered just before",
        "the list is without it, and it is silent",
        "it came after the list",
        "another one was read again", "and an hour later", "they answer an hour later",
        "one of five answers as it registered", "one of five answers otherwise",
        "one registered nothing, and answers an hour later", "or answers at once",
        "it is the controller", "it was the controller before",
    ],
)  # fmt: skip
def test_a_broker_is_gone_only_where_something_says_so(
    lines: list[bytes], verdict: str, found: set[str]
) -> None:
    said = judge_lines(lines)
    assert readiness(said, "f")["verdict"] == verdict
    assert {"range_unknown", "registration_gone"} & codes(said) == found
    if "registration_gone" in found or lines in (
        ROUND,
        [*ROUND, lead(0, 1)],
        [*ROUND, answer(1, NARROW, -HOUR)],
        [*ROUND, silence(1), listed(2)],
    ):
        assert readiness(said, "f")["target"] == 6
    elif verdict == "READY":
        assert readiness(said, "f")["target"] == 5


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        ([answer(1, NOTHING_MORE)], "UNKNOWN"),
        ([answer(1, NOTHING_MORE, 299)], "UNKNOWN"),
        ([answer(1, NOTHING_MORE, -5)], "UNKNOWN"),
        ([answer(1, NOTHING_MORE, -60)], "READY"),
        ([answer(1, {})], "UNKNOWN"),
        ([answer(1, {}, asked_version=3)], "UNKNOWN"),
        ([answer(1, NARROW, asked_version=3)], "READY"),
    ],
    ids=["a moment later", "minutes later", "just before", "before its start", "with no feature",
         "with no feature, in a short response", "with the same"],
)  # fmt: skip
def test_a_broker_that_responds_otherwise_than_its_znode_is_not_known(
    lines: list[bytes], verdict: str
) -> None:
    said = judge_lines([*ROUND, registered(1, NARROW), *lines])
    assert readiness(said, "f")["verdict"] == verdict
    causes = {row["facts"]["cause"] for row in findings(said, "range_unknown")}
    assert causes == ({"contradicted"} if verdict == "UNKNOWN" else set())


def printed(level: int, seconds: int) -> bytes:
    """A line of kafka-features.sh describe."""
    line = "Feature: f\tSupportedMinVersion: 1\tSupportedMaxVersion: 6\t"
    line += f"FinalizedVersionLevel: {level}\tEpoch: 2"
    keys = {"observed_at": at(1, seconds), "line_number": 1, "line": line}
    return line_of("features_describe", "c", 1, **keys)


@pytest.mark.parametrize(
    ("line", "verdict", "found"),
    [
        (printed(4, 2), "READY", set()),
        (printed(5, 2), "UNKNOWN", {"witnesses_disagree"}),
        (printed(5, 0), "READY", set()),
        (printed(0, 2), "READY", set()),
    ],
    ids=["the same level", "another one later", "another one before", "that it has none"],
)  # fmt: skip
def test_another_level_that_a_tool_printed_later_is_a_contradiction(
    line: bytes, verdict: str, found: set[str]
) -> None:
    said = judge_lines([*BEFORE, line])
    assert readiness(said, "f")["verdict"] == verdict
    assert codes(said) & {"witnesses_disagree"} == found


def level(judged: Judged) -> tuple[str, int | None]:
    row = readiness(judged, "f")
    return row["verdict"], row["finalized_level"]


AGAIN = [*BEFORE, registered(2, WIDE, 60), registered(1, NARROW, 60), answer(2, WIDE, 62)]


def cut(line: bytes) -> bytes:
    """The line as it comes where its end is lost on the way."""
    return line[: line.index(b'"data"') + 20]


@pytest.mark.parametrize(
    ("lines", "verdict", "found"),
    [
        ([*BEFORE, *LATER, cut(registered(1, NARROW, 60)), silence(1)],
         "UNKNOWN", {"range_unknown"}),
        ([*ROUND, cut(registered(1, NARROW))], "UNKNOWN", {"range_unknown"}),
        ([*AGAIN, lead(61), cut(feature(4, 1, 61))], "UNKNOWN", {"no_trustworthy_witness"}),
        ([*AGAIN, lead(61), feature(4, 1, 61), cut(feature(4, 1, -9))], "READY", set()),
        ([*AGAIN, feature(4, 1, 61), cut(lead(61))], "READY", set()),
        ([*BEFORE, cut(registered(1, NARROW)).replace(b"/brokers/ids/1", b"/nowhere")],
         "READY", set()),
        ([*BEFORE, b'{"kind":"znode","cluster_id":"c","path":"/brokers/ids/7"}'], "READY", set()),
    ],
    ids=[
        "of the newest round", "the only one", "of /feature", "of an older /feature",
        "of /controller", "of no path", "of no time",
    ],
)  # fmt: skip
def test_a_damaged_line_of_a_znode_makes_its_path_unknown_and_not_gone(
    lines: list[bytes], verdict: str, found: set[str]
) -> None:
    view = see(lines, catalogue=load(), as_of=None, max_age=MAX_AGE)
    assert len(view.rejected) == 1
    assert readiness(view.judged, "f")["verdict"] == verdict
    lost = {"range_unknown", "registration_gone", "no_trustworthy_witness"}
    assert lost & codes(view.judged) == found


def test_a_cluster_of_damaged_lines_alone_is_none() -> None:
    with pytest.raises(NoEvidenceError):
        see([cut(registered(1, NARROW))], catalogue=load(), as_of=None, max_age=MAX_AGE)


RANGES = [lead(), registered(2, WIDE)]


@pytest.mark.parametrize(
    ("lines", "says", "disputes"),
    [
        ([feature(4, 1), answer(2, WIDE)], ("READY", 4), 0),
        ([feature(2, 0), feature(4, 1, 2), answer(2, WIDE, 3)], ("READY", 4), 0),
        ([feature(2, 0), answer(2, WIDE, 3)], ("UNKNOWN", None), 1),
        ([feature(2, 0), answer(2, WIDE, 3, level=2)], ("READY", 2), 0),
        ([feature(4, 5, czxid=7), feature(2, 0, 60, czxid=9), answer(2, WIDE, 1, epoch=5)],
         ("READY", 2), 0),
        ([feature(4, 5, czxid=7), answer(2, WIDE, 1, epoch=5), answer(2, WIDE, 9, 2, epoch=0)],
         ("UNKNOWN", None), 1),
        ([feature(4, 5), answer(2, WIDE, 1, 3, epoch=4)], ("READY", 4), 0),
        ([feature(4, 5), answer(2, WIDE, 400, 3, epoch=4)], ("UNKNOWN", None), 1),
        ([answer(2, WIDE)], ("UNKNOWN", None), 0),
    ],
    ids=[
        "of one version", "the newer read", "the newer read is lost", "the same level",
        "made again, and read since", "made again, and the read is lost", "a broker lags behind",
        "a broker lags behind for too long", "it was never read",
    ],
)  # fmt: skip
def test_a_version_that_brokers_read_later_than_we_did_is_heard(
    lines: list[bytes], says: tuple[str, int | None], disputes: int
) -> None:
    said = judge_lines([*RANGES, *lines])
    assert level(said) == says
    assert len(findings(said, "witnesses_disagree", feature="f")) == disputes
    assert ("no_trustworthy_witness" in codes(said)) == (lines == [answer(2, WIDE)])
