"""A piece of the metadata log proves what it shows, and not that there is nothing else: it is
complete where nobody was seen to be further before it was dumped, and where no line is missing."""

from __future__ import annotations

import pytest

from tests.core.lines import (
    at,
    batch,
    codes,
    configs_line,
    findings,
    judge_lines,
    line_of,
    listing,
    readiness,
)
from tests.core.oracle import BROKER, CONTROLLER, METADATA, Node
from tests.core.test_registrations import LEVELS, NEW, OLD, answer, log, node, quorum, silence
from tests.facts import first_fact

ME = node(1), node(1, CONTROLLER)
GHOST = node(2, ranges=OLD, fenced=True)
WHOLE = log(*ME, GHOST)
# Offsets 0 to 2 are two control records and a level, 3 to 5 are of node 1, 6 is the ghost.
HEAD = [line for line in WHOLE if b"offset: 6 " not in line][:-1]

OLD_HEAD = [line.replace(at(2).encode(), at(48).encode()) for line in HEAD]


def early(epoch: int, age: int = 3) -> list[bytes]:
    """What node 1 answered before the log was dumped, at an epoch."""
    return [answer(1, epoch=epoch, answered=age), answer(1, CONTROLLER, epoch=2, answered=age)]


def watermark(offset: int, age: int = 3) -> bytes:
    return quorum([(1, 0)], age=age, end=900).replace(
        b'"high_watermark": 900', b'"high_watermark": %d' % offset
    )


def printed(epoch: int) -> bytes:
    """What kafka-features.sh printed at the time of the dump."""
    text = (
        "Feature: metadata.version\tSupportedMinVersion: 3.3-IV3\tSupportedMaxVersion: 4.2-IV1\t"
        f"FinalizedVersionLevel: 4.0-IV3\tEpoch: {epoch}"
    )
    return line_of("features_describe", "c", 2, line_number=1, line=text)


def soon(*lines: bytes) -> list[bytes]:
    """Lines of an hour ago, as of eight seconds after the dump."""
    times = [(at(1, second).encode(), at(2, 8 + second).encode()) for second in (0, 1)]
    return [line.replace(*times[0]).replace(*times[1]) for line in lines]


NOW = soon(answer(1), answer(1, CONTROLLER), watermark(20, 1))
LATER = soon(answer(1, epoch=21), answer(1, CONTROLLER), watermark(21, 1))
LIST = listing((1, False), (2, True))
BATCH = batch(6, control=False)


def more(*texts: str) -> list[bytes]:
    """Lines of the dump after its head."""
    return [
        line_of("metadata_log", "c", 2, line_number=len(HEAD) + 2 + i, line=text)
        for i, text in enumerate(texts)
    ]


@pytest.mark.parametrize(
    ("lines", "verdict", "found", "says"),
    [
        ([*WHOLE, *NOW], "BLOCKED", {"unsupported_by_node"}, ""),
        ([*WHOLE, *LATER], "BLOCKED", {"unsupported_by_node"}, ""),
        ([*HEAD, *NOW], "READY", set(), ""),
        ([*HEAD, answer(1), answer(1, CONTROLLER), watermark(5000, 1)],
         "UNKNOWN", {"registrations_unproven"}, ""),
        ([*HEAD, *NOW, *early(5)], "READY", set(), ""),
        ([*HEAD, *NOW, *early(6)], "UNKNOWN", {"registrations_unproven", "metadata_log_gap"},
         "offsets 6 to 6 were not dumped"),
        ([*HEAD, *NOW, *early(4), watermark(6)], "READY", set(), ""),
        ([*HEAD, *LATER, *early(4), watermark(7)],
         "UNKNOWN", {"registrations_unproven", "metadata_log_gap"}, "offsets 6 to 6"),
        ([*WHOLE[:3], *WHOLE[4:], *NOW[:2], *soon(watermark(9, 1))],
         "UNKNOWN", {"registrations_unproven", "metadata_log_gap"}, "a line is missing after "),
        ([*HEAD, *more(BATCH), *NOW],
         "UNKNOWN", {"registrations_unproven", "metadata_log_gap"}, "a line is missing after "),
        ([*HEAD, *more("", "", "Dumping n/bootstrap.checkpoint")[2:], *NOW], "READY", set(), ""),
        ([*HEAD, *NOW, *early(6), *soon(listing((1, False)))], "READY", {"metadata_log_gap"}, ""),
        ([*WHOLE[:-1], *NOW, *early(9), listing((1, False), age=5)],
         "BLOCKED", {"unsupported_by_node", "metadata_log_gap", "registrations_unproven"},
         "offsets 7 to 9"),
        ([*HEAD, *NOW, *early(7, age=2)], "READY", set(), ""),
        ([*HEAD, *NOW, *early(8, age=2)],
         "UNKNOWN", {"registrations_unproven", "metadata_log_gap"}, "offsets 6 to 6"),
        ([*OLD_HEAD, *early(8, age=48), *(watermark(999 + i, 47 - i) for i in range(30)), *NOW],
         "UNKNOWN", {"registrations_unproven", "metadata_log_gap"}, "offsets 6 to 6"),
        ([*HEAD, *NOW, printed(6)],
         "UNKNOWN", {"registrations_unproven", "metadata_log_gap"}, "offsets 6 to 6"),
    ],
    ids=[
        "whole", "whole, and the log went on since", "nobody was seen further",
        "it is older than the newest look", "at its end",
        "a broker was further", "at its high watermark", "its watermark was further",
        "a line is missing", "the last record is missing", "blank lines before the next file",
        "a newer list has all brokers", "who registered after an older list is known",
        "an idle log wrote two records in the second since", "a broker was further a second later",
        "a broker was further a second later, and the log went on for many runs",
        "kafka-features.sh printed a later epoch",
    ],
)  # fmt: skip
def test_a_piece_of_the_log_proves_no_absence(
    lines: list[bytes], verdict: str, found: set[str], says: str
) -> None:
    said = judge_lines(lines)
    assert readiness(said, METADATA)["verdict"] == verdict
    asked = {"unsupported_by_node", "registrations_unproven", "metadata_log_gap"}
    assert asked & codes(said) == found
    for row in findings(said, "metadata_log_gap"):
        assert first_fact(row).startswith(says)


def test_old_lines_that_are_dumped_again_make_nothing_newer() -> None:
    """A list of two hours ago names a ghost of which the log of yesterday knows nothing."""
    ghost = [answer(2, ranges=OLD, answered=20), silence(2)]
    yesterday, again = log(*ME, age=24), log(*ME, age=1)
    scene = [answer(1), answer(1, CONTROLLER), quorum([(1, 0)]), *ghost, listing(*GHOSTS, age=2)]
    for lines in ([*scene, *yesterday], [*scene, *yesterday, *again[:-2]]):
        said = judge_lines(lines)
        assert readiness(said, METADATA)["verdict"] == "BLOCKED"
        assert {row["node_id"] for row in findings(said, "ghost_broker")} == {2}
    said = judge_lines([*scene, *yesterday, *again])
    assert readiness(said, METADATA)["target"] == 29


GHOSTS = (1, False), (2, True)


def test_an_old_registration_that_is_dumped_again_is_no_newer_than_an_answer() -> None:
    """Broker 1 registered with new software, and answers with old software since."""
    wide, narrow = Node(node_id=1, ranges=NEW, levels=LEVELS), {METADATA: (7, 27)}
    before, again = log(wide, ME[1], age=24), log(wide, ME[1], age=0)
    now = [answer(1, ranges=narrow), answer(1, CONTROLLER), quorum([(1, 0)]), listing((1, False))]
    said = judge_lines([*before, *again[:-2], *now])
    assert readiness(said, METADATA)["target"] == 27


@pytest.mark.parametrize(
    ("age", "verdict"), [(1, "READY"), (2, "UNKNOWN"), (73, "UNKNOWN"), (720, "UNKNOWN")]
)
def test_who_votes_grows_old(age: int, verdict: str) -> None:
    lines = [answer(1), answer(1, CONTROLLER), listing((1, False)), quorum([(1, 0)], age=age)]
    said = judge_lines(lines)
    assert readiness(said, METADATA)["verdict"] == verdict
    found = findings(said, "voters_unknown")
    assert [first_fact(row) for row in found] == [" recently"] * (verdict == "UNKNOWN")


@pytest.mark.parametrize(("interval", "verdict"), [("500", "READY"), ("0", "UNKNOWN")])
def test_a_log_without_idle_records_must_reach_a_later_epoch(interval: str, verdict: str) -> None:
    """The epoch of a second later may be that of a registration."""
    values = {"metadata.max.idle.interval.ms": (interval, 5)}
    config = soon(configs_line(1, "controller", {"1": values}))
    lines = [*HEAD, *NOW, *early(7, age=2), *config]
    assert readiness(judge_lines(lines), METADATA)["verdict"] == verdict


@pytest.mark.parametrize(("ranges", "verdict"), [(OLD, "UP_TO_DATE"), (NEW, "UNKNOWN")])
def test_a_hidden_registration_holds_nothing_back_at_the_ceiling(
    ranges: dict[str, tuple[int, int]], verdict: str
) -> None:
    lines = [
        *(answer(1, role, ranges=ranges) for role in (BROKER, CONTROLLER)),
        quorum([(1, 0)]),
        listing((1, False), version=1),
    ]
    said = judge_lines(lines)
    assert readiness(said, METADATA)["verdict"] == verdict
    # Whoever lowers a level, or asks for one by name, has to know it all the same.
    assert "registrations_unproven" in codes(said)
    silent = judge_lines([*lines[:2], quorum([(1, 0), (2, 0)]), lines[3], silence(2, CONTROLLER)])
    assert readiness(silent, METADATA)["verdict"] == "UNKNOWN"


@pytest.mark.parametrize("lost", [False, True])
def test_who_registered_behind_a_gap_in_a_later_dump_is_not_known(lost: bool) -> None:
    """The list is whole, and the dump of two hours later has a record that nobody had read then."""
    before = [answer(1, epoch=5, answered=4), answer(1, CONTROLLER, epoch=2, answered=4)]
    scene = [*before, watermark(5, 4), listing((1, False), age=4)]
    dump = [line for line in WHOLE if not (lost and b"offset: 4 " in line)]
    said = judge_lines([*scene, *dump])
    assert readiness(said, METADATA)["verdict"] == ("UNKNOWN" if lost else "BLOCKED")
    assert ("registrations_unproven" in codes(said)) is lost


def test_a_registration_that_was_dumped_seconds_before_a_list_counts() -> None:
    """Clocks differ, so the list may be the older one."""
    lists = [listing((1, False), age=2).replace(at(2).encode(), at(2, second).encode())
             for second in (5, 15)]  # fmt: skip
    said = [judge_lines([*WHOLE, *NOW, line]) for line in lists]
    assert [readiness(of, METADATA)["verdict"] for of in said] == ["BLOCKED", "READY"]


def dated(lines: list[bytes], age: int) -> list[bytes]:
    return [line.replace(at(2).encode(), at(age).encode()) for line in lines]


ALONE = log(*ME)
SHORTER = [line.replace(b"to 1999.", b"to 1499.") for line in WHOLE]
TAIL = [line for line in WHOLE if not any(b"offset: %d " % i in line for i in range(6))]
LISTED = soon(listing((1, False), (2, True)))


@pytest.mark.parametrize(
    ("older", "newer", "verdict"),
    [
        (dated(ALONE, 30), WHOLE, "BLOCKED"),
        (dated(WHOLE, 30), ALONE, "READY"),
        (dated(ALONE, 30), SHORTER, "UNKNOWN"),
        (ALONE, dated(SHORTER, 1), "UNKNOWN"),
        (dated(ALONE, 30), TAIL, "UNKNOWN"),
        (dated(ALONE, 30), ALONE, "READY"),
        (dated(WHOLE, 30), TAIL, "BLOCKED"),
        (dated(ALONE, 30), [*ALONE, *LISTED], "UNKNOWN"),
    ],
    ids=[
        "the cluster was made again, or the older dump is of a former leader",
        "the ghost is in the older log only", "the newer dump ends before the older one",
        "both are of one hour", "a piece has another record than the known log",
        "both are of one log", "the piece is of the known log",
        "a list of the same reading has a broker that the log lacks",
    ],
)  # fmt: skip
def test_a_log_that_another_dump_contradicts_proves_nothing(
    older: list[bytes], newer: list[bytes], verdict: str
) -> None:
    for lines in ([*older, *newer, *NOW], [*NOW, *newer, *older]):
        judged = judge_lines(lines)
        assert readiness(judged, METADATA)["verdict"] == verdict, codes(judged)
