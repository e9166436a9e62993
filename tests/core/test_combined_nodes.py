"""A combined node has a broker half and a controller half. Each is judged by its own newest answer;
the broker half speaks for the controller half only within ten seconds, and while it is there."""

from __future__ import annotations

import pytest

from tests.core.lines import at, findings, judge_lines, listing, readiness
from tests.core.oracle import BROKER, CONTROLLER, METADATA
from tests.core.random_clusters import RELEASES, STREAMS
from tests.core.test_registrations import answer, line_id, quorum, silence

NEW, OLD, UNSTABLE = RELEASES["4.2"], RELEASES["4.1"], RELEASES["4.3 unstable"]
STABLE = UNSTABLE | {METADATA: (7, 30)}
ONE = [answer(1, role, ranges=NEW, answered=1) for role in (BROKER, CONTROLLER)]
ONE.append(quorum([(1, 0), (3, 0)], age=1))


def moved(line: bytes, seconds: int) -> bytes:
    """The answer of node 3 an hour ago, `seconds` later."""
    return line.replace(at(1, 3).encode(), at(1, 3 + seconds).encode())


def was_combined(ranges: dict[str, tuple[int, int]], age: int = 20) -> list[bytes]:
    return [answer(3, role, ranges=ranges, answered=age) for role in (BROKER, CONTROLLER)]


def controller(ranges: dict[str, tuple[int, int]], seconds: int = 0) -> bytes:
    return moved(answer(3, CONTROLLER, ranges=ranges), seconds)


def seen(*nodes: tuple[int, bool]) -> bytes:
    """The registered brokers, 50 seconds after node 3 answered as a broker."""
    return listing(*nodes).replace(at(1).encode(), at(1, 53).encode())


ALONE, FENCED, BOTH = seen((1, False)), seen((1, False), (3, True)), seen((1, False), (3, False))
MOMENT, MINUTE, LOOK = 9, 60, 301
AT_ONCE, *_ = was_combined(NEW, 1)
AGAIN = ONE[1].replace(at(1, 1).encode(), at(1, 3 + LOOK).encode())  # controller 1


@pytest.mark.parametrize(
    ("lines", "target", "streams", "cited"),
    [
        ([*was_combined(NEW), ALONE, controller(OLD)], 27, "BLOCKED", -1),
        ([*was_combined(OLD), ALONE, controller(NEW)], 29, "READY", 0),
        ([*was_combined(NEW), BOTH, controller(OLD)], None, "BLOCKED", -1),
        ([AGAIN, AT_ONCE, BOTH, controller(OLD, LOOK)], None, "BLOCKED", -1),
        ([AT_ONCE, ALONE, controller(OLD, MINUTE)], 27, "BLOCKED", -1),
        ([AT_ONCE, FENCED, controller(OLD, MINUTE)], 27, "BLOCKED", -1),
        ([AT_ONCE, BOTH, moved(silence(3), MINUTE), controller(OLD, MINUTE)], None, "BLOCKED", -1),
        ([was_combined(OLD, 1)[0], BOTH, controller(NEW, MOMENT)], 27, "BLOCKED", 0),
        ([AT_ONCE, BOTH, controller(OLD, MOMENT + 10)], 27, "BLOCKED", -1),
    ],
    ids=[
        "a controller of older software now", "a controller of newer software now",
        "a broker that was not asked since", "of two looks", "unregistered in between",
        "fenced in between", "its broker half is silent since", "of one moment",
        "restarted with other software since",
    ],
)  # fmt: skip
def test_a_controller_half_is_not_judged_by_a_broker_half_of_before(
    lines: list[bytes], target: int | None, streams: str, cited: int
) -> None:
    said = judge_lines([*ONE, *lines])
    assert readiness(said, METADATA)["target"] == target
    assert readiness(said, STREAMS)["verdict"] == streams
    refusals = findings(said, "unsupported_by_node", role=CONTROLLER, node_id=3)
    assert {row["feature"] for row in refusals} == ({METADATA, STREAMS} if target != 29 else set())
    assert {row["line_id"] for row in refusals} <= {line_id(lines[cited])}


def test_unstable_levels_are_those_of_the_broker_half_in_the_same_look() -> None:
    halves = [answer(1, ranges=UNSTABLE), answer(1, CONTROLLER, ranges=STABLE)]
    judged = judge_lines([*halves, quorum([(1, 0)]), listing((1, False))])
    row = readiness(judged, METADATA)
    assert (row["verdict"], row["target"]) == ("READY", 30)
    assert {row["code"] for row in findings(judged)} >= {"unstable_features_enabled"}
