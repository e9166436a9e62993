"""What a plan cannot take back, and who may join, as values and in the text."""

from __future__ import annotations

from typing import Any

import pytest

from featurelib.report.model import Cluster
from featurelib.report.text import render_text
from tests.report.tables import judged, plan, report

STEP = {
    "request": 1,
    "feature": "metadata.version",
    "from_level": 25,
    "to_level": 29,
    "upgrade_type": "UPGRADE",
    "timeout_ms": 60_000,
}


def ready(**more: Any) -> dict[str, Any]:
    levels = {"finalized_level": 25, "target": 29, "ceiling": 29, "blockers": 0, "unknowns": 0}
    return {"cluster": "a", "feature": "metadata.version", "verdict": "READY", **levels, **more}


def shown(*readiness: dict[str, Any], **more: Any) -> tuple[Cluster, str]:
    """The cluster, and its part of the text."""
    tables = judged([plan("a", "READY", steps=[STEP], **more)], readiness=list(readiness))
    made = report(tables)
    return made.clusters[0], render_text(made).partition("cluster by cluster")[2]


def test_the_floor_and_the_point_of_no_return_have_names() -> None:
    cluster, text = shown(ready(downgrade_floor=23, point_of_no_return=28))
    [found] = cluster.readiness
    assert found.downgrade_floor is not None
    assert found.point_of_no_return is not None
    assert (found.downgrade_floor.number, found.downgrade_floor.text) == (23, "23 (4.0-IV1)")
    assert found.point_of_no_return.text == "28 (4.2-IV0)"
    assert "lowest today without loss: metadata.version 23 (4.0-IV1)\n" in text
    assert "point of no return to today's level: metadata.version 28 (4.2-IV0)\n" in text


def test_no_point_of_no_return_is_said_only_where_somebody_can_tell() -> None:
    _, text = shown(ready(downgrade_floor=23))
    assert "point of no return to today's level: none\n" in text
    _, text = shown(ready())
    assert "point of no return" not in text


@pytest.mark.parametrize(
    ("now", "after", "text"),
    [
        (["4.0", "4.1", "4.2"], ["4.2"], "now 4.0 to 4.2, afterwards 4.2"),
        (["3.9", "4.1", "4.2", "4.4"], [], "now 3.9, 4.1 to 4.2, 4.4, afterwards none"),
        (["4.1", "4.2"], ["4.1", "4.2"], "now 4.1 to 4.2, afterwards the same"),
        (["4.1", "vendor-1", "4.2"], None, "now 4.1, vendor-1, 4.2"),
        ([], None, "now none"),
    ],
)
def test_who_may_join_is_said_by_runs_of_releases(
    now: list[str], after: list[str] | None, text: str
) -> None:
    cluster, said = shown(may_join=now, may_join_after=after)
    assert cluster.joining is not None
    assert cluster.joining.now == tuple(now)
    assert cluster.joining.afterwards == (None if after is None else tuple(after))
    assert cluster.joining.text == text
    assert f"releases that may join: {text}\n" in said


def test_where_nobody_knows_who_may_join_nothing_is_said() -> None:
    cluster, said = shown()
    assert cluster.joining is None
    assert "may join" not in said


def test_a_release_s_name_is_made_safe_to_show() -> None:
    cluster, _ = shown(may_join=["4.1\x1b[31m"])
    assert cluster.joining is not None
    assert "\x1b" not in cluster.joining.text + cluster.joining.now[0]
