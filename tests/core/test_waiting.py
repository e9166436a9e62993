"""Finalization forgotten: how long a feature is READY is remembered from night to night."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from featurelib.audit.audit import Judged
from featurelib.audit.evidence import Waiting
from featurelib.feature import METADATA_VERSION
from tests.core.lines import (
    AS_OF,
    NOW,
    findings,
    judge_lines,
    lines_of,
    readiness,
    rows_of,
    verdicts,
)
from tests.core.oracle import Cluster
from tests.core.test_downgrade import kraft
from tests.core.test_every_finding import ZOOKEEPER
from tests.facts import first_fact

DAY = 86_400_000_000
LONG = 10_000 * DAY  # an age no evidence of these tests has


def readies(judged: Judged) -> dict[str, Waiting]:
    """What the night after it reads back."""
    return {
        row["feature"]: Waiting(
            since=micros(row["ready_since"]),
            level=row["finalized_level"],
            verdict=row["verdict"],
            target=row["target"],
            verdict_since=micros(row["verdict_since"]),
        )
        for row in rows_of(judged, "readiness")
        if row["verdict"] != "UP_TO_DATE"
    }


def micros(time: datetime | None) -> int | None:
    return None if time is None else int(time.timestamp()) * 1_000_000


def night(
    cluster: Cluster, day: int, before: Judged | dict[str, Waiting] | None = None, *,
    nights: int = 14, age: int = LONG, soak: int = 0,
) -> Judged:  # fmt: skip
    """`cluster` judged so many days after the first night, remembering the one before."""
    waiting = readies(before) if isinstance(before, Judged) else before or {}
    then = {"as_of": NOW + day * DAY, "max_age": age, "forgotten": nights * DAY}
    then["min_ready"] = soak * DAY
    return judge_lines(lines_of(cluster), name="k", waiting={"k": waiting}, **then)


def said(judged: Judged, feature: str = METADATA_VERSION) -> tuple[str, datetime | None]:
    row = readiness(judged, feature)
    return row["verdict"], row["ready_since"]


def since(judged: Judged) -> datetime | None:
    return said(judged)[1]


def forgotten(judged: Judged) -> list[dict[str, Any]]:
    return findings(judged, "finalization_forgotten", feature=METADATA_VERSION)


def at(day: int) -> datetime:
    return AS_OF + timedelta(days=day)


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
        assert first_fact(row) == at(0).date().isoformat()


def test_no_nights_switches_it_off_and_remembers_all_the_same() -> None:
    later = night(CAN, 40, night(CAN, 0), nights=0)
    assert (since(later), forgotten(later)) == (at(0), [])


@pytest.mark.parametrize("between", [DONE, HELD])
def test_another_level_up_to_date_and_blocked_begin_anew(between: Cluster) -> None:
    later = night(MOVED, 14, night(CAN, 0))
    assert (said(later), forgotten(later)) == (("READY", at(14)), [])
    middle = night(between, 7, night(CAN, 0))
    assert since(middle) is None
    assert since(night(CAN, 14, middle)) == at(14)


def test_a_night_without_an_answer_neither_begins_anew_nor_begins() -> None:
    """Its evidence was too old, so that the cluster says nothing of the feature."""
    unknown = night(CAN, 7, night(CAN, 0), age=DAY)
    assert (said(unknown), forgotten(unknown)) == (("UNKNOWN", at(0)), [])
    assert forgotten(night(CAN, 20, unknown, age=DAY)) == []
    later = night(CAN, 14, unknown)
    assert (since(later), len(forgotten(later))) == (at(0), 1)
    for waiting in ({}, GONE):
        assert said(night(CAN, 7, waiting, age=DAY)) == ("UNKNOWN", None)


GONE = {"of.yore": Waiting(0, "READY", 1, NOW)}


def test_a_feature_nobody_mentions_is_unknown_until_all_nodes_are_known_not_to_have_it() -> None:
    """One that was never finalized is known from nodes alone, and their evidence was too old."""
    assert said(night(CAN, 7, GONE, age=DAY), "of.yore") == ("UNKNOWN", at(0))
    assert "of.yore" not in verdicts(night(CAN, 7, GONE))


def test_a_night_judged_as_of_an_earlier_day_waits_for_no_negative_time() -> None:
    earlier = night(CAN, -3, night(CAN, 0))
    assert (since(earlier), forgotten(earlier)) == (at(-3), [])


def lasts(judged: Judged) -> tuple[str, datetime | None]:
    row = readiness(judged, METADATA_VERSION)
    return row["verdict"], row["verdict_since"]


def test_blocked_and_unknown_have_a_time_of_their_own_and_up_to_date_has_none() -> None:
    blocked = night(HELD, 3, night(HELD, 0))
    assert lasts(blocked) == ("BLOCKED", at(0))
    unknown = night(HELD, 5, night(HELD, 4, blocked, age=DAY), age=DAY)
    assert lasts(unknown) == ("UNKNOWN", at(4))
    assert lasts(night(HELD, 6, unknown)) == ("BLOCKED", at(6))
    assert lasts(night(CAN, 6, unknown)) == ("READY", at(6))
    assert lasts(night(DONE, 6, unknown)) == ("UP_TO_DATE", None)


def test_rows_of_an_earlier_release_have_no_time_and_begin_now() -> None:
    before = {METADATA_VERSION: Waiting(25, "READY", 27, NOW)}
    assert (lasts(night(CAN, 7, before)), since(night(CAN, 7, before))) == (("READY", at(7)), at(0))


def offer(judged: Judged) -> tuple[str, int, list[str]]:
    """Phase, number of steps, and what is said of a soak time."""
    [plan] = rows_of(judged, "plans")
    texts = [
        f"{row['facts']['release']}, {row['facts']['until']}"
        for row in findings(judged, "upgrade_soaks")
    ]
    return plan["phase"], len(plan["steps"]), texts


def test_a_plan_is_offered_once_the_verdict_is_as_old_as_the_soak_time() -> None:
    first = night(CAN, 0, soak=7)
    soaking = ("rolled, soaking", 0, ["Kafka 4.0, 2026-11-28"])
    assert said(first) == ("READY", at(0))
    assert offer(first) == offer(night(CAN, 6, first, soak=7)) == soaking
    assert offer(night(CAN, 7, first, soak=7)) == ("rolled, not finalized", 3, [])
    assert offer(night(CAN, 6, first)) == ("rolled, not finalized", 3, [])


def test_a_rolling_upgrade_while_a_level_waits_begins_the_soak_time_again() -> None:
    """What is READY for months and has a higher target since today has proved nothing yet."""
    earlier = kraft("4.0", {METADATA_VERSION: 24})
    first = night(earlier, 0, soak=7)
    later = night(kraft("4.1", {METADATA_VERSION: 24}), 30, first, soak=7)
    assert (since(later), lasts(later)) == (at(0), ("READY", at(30)))
    assert (offer(later)[:2], forgotten(later)) == (("rolled, soaking", 0), [])
    offered = night(kraft("4.1", {METADATA_VERSION: 24}), 37, later, soak=7)
    assert (offer(offered)[:2], len(forgotten(offered))) == (("rolled, not finalized", 3), 1)


def test_a_cluster_in_zookeeper_mode_has_no_release_to_name() -> None:
    zookeeper = replace(ZOOKEEPER, nodes=(replace(ZOOKEEPER.nodes[0], levels={}),), stored={})
    one = night(zookeeper, 0, soak=7)
    assert findings(one, "upgrade_soaks")[0]["facts"]["release"] == "an older release"
