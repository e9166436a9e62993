"""Finalization forgotten: how long a feature is READY is remembered from night to night."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from featurelib.audit.audit import Judged, judge
from featurelib.audit.evidence import Conditions, Waiting
from featurelib.feature import METADATA_VERSION
from tests.core.lines import conditions, lines_of, snapshot
from tests.core.made_up import CATALOGUE
from tests.core.oracle import Cluster
from tests.core.test_downgrade import kraft
from tests.report.samples import DIALECT

DAY = 86_400_000_000
LONG = 10_000 * DAY  # an age no evidence of these tests has
FORGOTTEN = "finalization_forgotten"
START = conditions([]).as_of


def readies(judged: Judged) -> dict[str, dict[str, Waiting]]:
    """What the night after it reads back."""
    found: dict[str, dict[str, Waiting]] = {}
    for row in judged.readiness.to_pylist():
        if row["ready_since"] is not None:
            since = int(row["ready_since"].timestamp()) * 1_000_000
            wait = Waiting(since=since, level=row["finalized_level"])
            found.setdefault(row["cluster"], {})[row["feature"]] = wait
    return found


def night(
    cluster: Cluster, day: int, before: Judged | None = None, *, nights: int = 14, age: int = LONG
) -> Judged:
    """`cluster` judged so many days after the first night, remembering the one before."""
    then = Conditions(
        as_of=START + day * DAY,
        max_age=age,
        inventory=conditions([cluster]).inventory,
        waiting={} if before is None else readies(before),
        forgotten=nights * DAY,
    )
    return judge(snapshot({cluster.name: lines_of(cluster)}), then, CATALOGUE, DIALECT)


def since(judged: Judged, feature: str = METADATA_VERSION) -> datetime | None:
    [row] = [r for r in judged.readiness.to_pylist() if r["feature"] == feature]
    found: datetime | None = row["ready_since"]
    return found


def verdict(judged: Judged, feature: str = METADATA_VERSION) -> str:
    [row] = [r for r in judged.readiness.to_pylist() if r["feature"] == feature]
    return str(row["verdict"])


def forgotten(judged: Judged) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = judged.findings.to_pylist()
    return [row for row in rows if (row["code"], row["feature"]) == (FORGOTTEN, METADATA_VERSION)]


def at(day: int) -> datetime:
    return datetime.fromtimestamp(START / 1_000_000, UTC) + timedelta(days=day)


CAN = kraft("4.1", {METADATA_VERSION: 25})
MOVED = kraft("4.1", {METADATA_VERSION: 26})
DONE = kraft("4.1", {METADATA_VERSION: 27})
HELD = kraft("4.1", {METADATA_VERSION: 25}, "4.0")


@pytest.mark.parametrize(("day", "told"), [(13, False), (14, True), (40, True)])
def test_after_so_many_days_finalization_is_forgotten(day: int, told: bool) -> None:
    later = night(CAN, day, night(CAN, 0))
    assert since(later) == at(0)
    assert bool(forgotten(later)) == told
    for row in forgotten(later):
        assert (row["severity"], row["finalized_level"], row["level"]) == ("warning", 25, 27)
        assert row["detail"] == at(0).date().isoformat()


def test_no_nights_switches_it_off_and_remembers_all_the_same() -> None:
    later = night(CAN, 40, night(CAN, 0), nights=0)
    assert (since(later), forgotten(later)) == (at(0), [])


def test_another_finalized_level_begins_anew() -> None:
    later = night(MOVED, 14, night(CAN, 0))
    assert (verdict(later), since(later), forgotten(later)) == ("READY", at(14), [])


@pytest.mark.parametrize("between", [DONE, HELD])
def test_up_to_date_and_blocked_begin_anew(between: Cluster) -> None:
    middle = night(between, 7, night(CAN, 0))
    assert since(middle) is None
    assert since(night(CAN, 14, middle)) == at(14)


def test_a_night_without_an_answer_does_not_begin_anew() -> None:
    """Its evidence was too old, so that the cluster says nothing of the feature."""
    unknown = night(CAN, 7, night(CAN, 0), age=DAY)
    assert (verdict(unknown), since(unknown), forgotten(unknown)) == ("UNKNOWN", at(0), [])
    assert forgotten(night(CAN, 20, unknown, age=DAY)) == []
    later = night(CAN, 14, unknown)
    assert (since(later), len(forgotten(later))) == (at(0), 1)


GONE = {"of.yore": Waiting(since=START, level=0)}


def remembering(waiting: dict[str, Waiting], age: int) -> list[dict[str, Any]]:
    """The rows of a week later, where this was remembered."""
    now = Conditions(
        as_of=START + 7 * DAY,
        max_age=age,
        inventory=conditions([CAN]).inventory,
        waiting={CAN.name: waiting},
    )
    said = judge(snapshot({CAN.name: lines_of(CAN)}), now, CATALOGUE, DIALECT)
    rows: list[dict[str, Any]] = said.readiness.to_pylist()
    return rows


def test_a_night_without_an_answer_begins_nothing() -> None:
    for waiting in ({}, GONE):
        [row] = [r for r in remembering(waiting, DAY) if r["feature"] == METADATA_VERSION]
        assert (row["verdict"], row["ready_since"]) == ("UNKNOWN", None)


def test_a_feature_nobody_mentions_that_night_is_unknown_and_not_gone() -> None:
    """One that was never finalized is known from nodes alone, and their evidence was too old."""
    [row] = [row for row in remembering(GONE, DAY) if row["feature"] == "of.yore"]
    assert (row["verdict"], row["ready_since"], row["target"]) == ("UNKNOWN", at(0), None)


def test_a_feature_that_all_nodes_are_known_not_to_have_any_more_is_gone() -> None:
    assert "of.yore" not in [row["feature"] for row in remembering(GONE, LONG)]


def test_a_night_judged_as_of_an_earlier_day_waits_for_no_negative_time() -> None:
    earlier = night(CAN, -3, night(CAN, 0))
    assert (since(earlier), forgotten(earlier)) == (at(-3), [])
