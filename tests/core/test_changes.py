"""The histories keep a row where something changed, and tell the same changes as all responses."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from featurelib.catalogue import load as load_catalogue
from featurelib.extras.history.timeline import timeline
from featurelib.landing import Landing
from featurelib.snapshot import begin
from featurelib.snapshot.history import Learned, epochs_back, history_rows, level_changes, pack
from featurelib.snapshot.state import freeze, newest_statements, thaw
from featurelib.tables import FINALIZED_FEATURES, NODE_ADVERTISEMENT
from tests.core.lines import answer_line, landings, line_of
from tests.core.oracle import Node

Rows = list[Any]
NARROW, WIDE = {"f": (1, 2)}, {"f": (1, 3)}


def answer(age: int, node_id: int, level: int, epoch: int, wide: bool = False) -> bytes:
    ranges = WIDE if wide else NARROW
    return answer_line(
        "c", Node(node_id=node_id, ranges=ranges, answered=age, levels={"f": level}, epoch=epoch)
    )


def fold_runs(*runs: Sequence[bytes]) -> tuple[Rows, Rows, bytes]:
    """The rows of both histories after each run was folded by itself, and the last state."""
    return fold_landings([landings(lines) for lines in runs])


def fold_landings(runs: Sequence[list[tuple[Landing, int]]]) -> tuple[Rows, Rows, bytes]:
    stored, rows = b"", ([], [])  # type: tuple[bytes, tuple[Rows, Rows]]
    for run, lines in enumerate(runs, 1):
        fold = begin(stored or None, load_catalogue())
        fold.run, fold.learned = run, Learned()
        for landing, line_id in lines:
            fold.add(landing, line_id)
        fold.close_run()
        if (packed := pack(fold.learned)) is not None:
            for kept, table in zip(rows, (NODE_ADVERTISEMENT, FINALIZED_FEATURES), strict=True):
                for batch in history_rows(table, 0, [("c", packed)]):
                    kept += batch.to_pylist()
        stored = freeze(fold.finish())
    return *rows, stored


def look(age: int, level: int, epoch: int, wide: int = 0) -> list[bytes]:
    """Three brokers, the first `wide` of them with newer software."""
    return [answer(age, node, level, epoch + node, node < wide) for node in range(3)]


def test_a_reading_that_shows_nothing_new_has_no_row() -> None:
    ranges, levels, _ = fold_runs(*(look(9 - run, 1, 100 * run) for run in range(5)))
    assert [len(ranges), len(levels)] == [3, 3]
    assert {row["run"] for row in (*ranges, *levels)} == {1}


def test_a_state_stores_no_statement_that_its_listeners_have() -> None:
    """A state of before the listeners were enough stored them twice; it is read alike."""
    *_, stored = fold_runs(look(9, 1, 100))
    state = thaw(stored)
    assert state.statements == []
    before = thaw(stored)
    before.statements = [own for entry in state.listeners for own in newest_statements(entry)]
    assert len(before.statements) == 6
    for earlier in (stored, freeze(before)):
        fold = begin(earlier, load_catalogue())
        fold.run, fold.learned = 2, Learned()
        for landing, line_id in landings(look(8, 1, 200, wide=1)):
            fold.add(landing, line_id)
        fold.close_run()
        assert [entry.node_id for entry in fold.learned.statements] == [0]
        assert fold.finish().statements == []


def test_one_node_with_newer_software_has_a_row_of_its_own() -> None:
    ranges, levels, _ = fold_runs(look(9, 1, 100), look(8, 1, 200, wide=1), look(7, 1, 300, wide=1))
    assert [(row["run"], row["node_id"], row["max_version"]) for row in ranges[3:]] == [(2, 0, 3)]
    assert len(levels) == 3


def test_a_changed_level_keeps_the_whole_reading() -> None:
    mixed = [*look(8, 1, 200)[:2], answer(8, 2, 2, 202)]
    _, levels, _ = fold_runs(look(9, 1, 100), mixed)
    assert sorted((row["run"], row["level"]) for row in levels[3:]) == [(2, 1), (2, 1), (2, 2)]


def test_a_smaller_epoch_is_told_with_the_one_before_although_that_has_no_row() -> None:
    runs = look(9, 1, 100), look(8, 1, 900), look(7, 1, 200)
    _, levels, _ = fold_runs(*runs)
    assert [row["epoch_before"] for row in levels] == [None] * 3 + [900, 901, 902]
    [first, back] = level_changes(levels)
    assert (first.epoch_before, back.epoch_before, back.epoch) == (None, 902, 200)
    assert {(step.before, step.after) for step in epochs_back(levels)} == {
        (900, 200),
        (901, 201),
        (902, 202),
    }


def test_one_broker_that_replays_its_log_is_no_return_of_the_whole_cluster() -> None:
    again = [answer(7, 0, 1, 50), *look(7, 1, 950)[1:]]
    _, levels, _ = fold_runs(look(9, 1, 100), look(8, 1, 900), again)
    assert [change.epoch_before for change in level_changes(levels)] == [None]
    assert len(epochs_back(levels)) == 1


def test_after_a_late_line_the_newest_statements_follow_once_more() -> None:
    ranges, levels, _ = fold_runs(look(9, 2, 100), look(6, 2, 400), look(8, 1, 200, wide=1))
    assert [(row["epoch"], row["level"]) for row in levels[6:]] == [(400 + n, 2) for n in range(3)]
    assert [move.changes[0].to_level for move in level_changes(levels)] == [2, 1, 2]
    first = [row for row in ranges if row["node_id"] == 0]
    assert [row["max_version"] for row in first] == [2, 3, 2]
    same = fold_runs(look(9, 2, 100), look(6, 2, 400), look(8, 2, 200))
    assert [row["level"] for row in same[1]] == [2] * 6  # the late ones alone


def test_each_kind_of_source_is_compared_with_itself() -> None:
    node = '{"version":1,"status":1,"features":{"f":{"min_version_level":1,"max_version_level":2}}}'
    registered = '{"version":5,"features":{"f":{"min_version":1,"max_version":2}}}'
    text = "Feature: {}\tSupportedMinVersion: 1\tSupportedMaxVersion: 9\tFinalizedVersionLevel: 4"

    def lines(age: int) -> Iterator[bytes]:
        yield line_of("znode", "c", age, path="/feature", version=3, data=node)
        yield line_of("znode", "c", age, path="/brokers/ids/1", version=1, data=registered)
        for number, name in enumerate("fg", 2):
            line = f"{text.format(name)}\tEpoch: 8"
            yield line_of("features_describe", "c", age, line_number=number, line=line)

    ranges, levels, _ = fold_runs([*lines(9)], [*lines(8)], [*lines(7)])
    assert sorted(row["role"] for row in (*ranges, *levels)) == [
        "features_node",
        "registration",
        "tool",
        "tool",
    ]


@pytest.mark.parametrize("seed", range(40))
def test_runs_in_order_keep_the_changes_of_one_run_with_all_lines(seed: int) -> None:
    pick = random.Random(seed)
    looks, level, epoch, wide = list[list[bytes]](), 1, 100, 0
    for age in range(30, 0, -1):
        level = pick.choice((level, level, level, 1, 2))
        wide = pick.choice((wide, wide, pick.randint(0, 3)))
        epoch = pick.choice((epoch + 50, epoch + 50, epoch + 50, 10))
        lines = look(age, level, epoch, wide)
        looks.append(pick.sample(lines, len(lines)))
    one_by_one, together = fold_runs(*looks), fold_runs([line for of in looks for line in of])
    assert one_by_one[2] == together[2]
    for rows, whole in zip(one_by_one[:2], together[:2], strict=True):
        assert [row | {"run": 1} for row in rows] == whole
    every = [fold_runs(of) for of in looks]  # a row for each response
    ranges, levels = ([row for of in every for row in of[table]] for table in (0, 1))
    assert len(one_by_one[0]) < len(ranges)
    assert timeline("c", *one_by_one[:2]) == timeline("c", ranges, levels)


@pytest.mark.parametrize("seed", range(40))
def test_lines_in_any_order_leave_one_state_and_the_last_levels(seed: int) -> None:
    pick = random.Random(seed)
    lines = [
        line
        for age in range(12, 0, -1)
        for line in look(age, pick.choice((1, 1, 2)), 100 * (13 - age), pick.choice((0, 0, 3)))
    ]
    expected = fold_runs(lines)
    mixed = landings(pick.sample(lines, len(lines)))
    runs = [mixed[start : start + 5] for start in range(0, len(mixed), 5)]
    ranges, levels, state = fold_landings(runs)
    assert state == expected[2]
    for table, rows in ((0, ranges), (1, levels)):
        newest = {row["node_id"]: row for row in sorted(rows, key=lambda row: row["observed_at"])}
        of = {row["node_id"]: row for row in expected[table]}
        column = "level" if table else "max_version"
        assert {n: row[column] for n, row in newest.items()} == {
            n: r[column] for n, r in of.items()
        }
