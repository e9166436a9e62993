"""What became of a cluster's levels is told by one kind of witness, oldest first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from featurelib.snapshot.history import Row, level_changes

START = datetime(2026, 11, 1, tzinfo=UTC)
Told = tuple[int | None, tuple[tuple[str, int, int], ...]]


def row(
    witness: str, epoch: int | None, feature: str | None, level: int | None, hour: int = 0
) -> Row:
    return Row(
        cluster="c",
        observed_at=START + timedelta(hours=hour),
        line_id=hour,
        witness=witness,
        epoch=epoch,
        feature=feature,
        level=level,
    )


def told(*rows: Row) -> list[Told]:
    return [(change.epoch, change.changes) for change in level_changes(rows)]


def test_nothing_said_is_no_change() -> None:
    assert told() == []
    assert told(row("broker", 4, None, None)) == []


def test_levels_are_told_in_the_order_of_their_epochs_however_late_they_landed() -> None:
    late = row("broker", 9, "f", 3, hour=1), row("broker", 5, "f", 1, hour=2)
    assert told(*late) == [(5, (("f", 0, 1),)), (9, (("f", 1, 3),))]


def test_a_level_that_is_gone_or_0_went_down_to_0() -> None:
    rows = row("broker", 5, "f", 2), row("broker", 5, "g", 1), row("broker", 7, "g", None, hour=1)
    first, second = level_changes(rows)
    assert (first.changes, first.went_down) == ((("f", 0, 2), ("g", 0, 1)), ())
    assert (second.changes, second.went_down) == ((("f", 2, 0), ("g", 1, 0)), ("f", "g"))
    assert second.at == START + timedelta(hours=1)


def test_a_line_of_the_log_says_what_changed_and_leaves_the_rest() -> None:
    rows = row("metadata_log", 5, "f", 2), row("metadata_log", 7, "g", 1)
    assert told(*rows) == [(5, (("f", 0, 2),)), (7, (("g", 0, 1),))]


def test_a_controller_is_heard_only_where_no_broker_and_no_log_spoke() -> None:
    controller = row("controller", 900, "f", 4)
    assert told(controller) == [(900, (("f", 0, 4),))]
    assert told(controller, row("broker", 5, "f", 2)) == [(5, (("f", 0, 2),))]


def test_a_tool_names_no_epoch_and_is_told_by_when_it_looked() -> None:
    looks = row("tool", 3, "f", 2, hour=2), row("tool", 8, "f", 1, hour=1)
    assert told(*looks) == [(None, (("f", 0, 1),)), (None, (("f", 1, 2),))]
