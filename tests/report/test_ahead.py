"""What a plan cannot take back, and who may join, as values and in the text."""

from __future__ import annotations

from typing import Any

import pytest

from featurelib.planning.files import read_plan
from featurelib.planning.outlook import NONE, look_ahead
from featurelib.view.model import Level, ReportedCluster
from featurelib.view.text import render_text
from tests.report.samples import CATALOGUE, judge_samples, report_samples
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


def shown(*readiness: dict[str, Any], **more: Any) -> tuple[ReportedCluster, str]:
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


def test_how_far_back_it_goes_after_the_plan_is_said_of_every_feature() -> None:
    cluster, text = shown(
        ready(downgrade_floor=23),
        returns_after=[
            {"feature": "group.version", "downgrade_floor": 0},
            {"feature": "made.up"},
            {"feature": "metadata.version", "downgrade_floor": 28, "point_of_no_return": 28},
        ],
    )
    first, *others = cluster.returns
    assert (first.feature, [back.feature for back in others]) == (
        "metadata.version", ["group.version", "made.up"]
    )  # fmt: skip
    assert first.downgrade_floor is not None
    assert first.downgrade_floor.text == "28 (4.2-IV0)"
    assert "lowest today without loss: metadata.version 23 (4.0-IV1)\n" in text
    then = "lowest after the plan without loss: metadata.version 28 (4.2-IV0), group.version 0"
    assert then in " ".join(text.split())
    assert "point of no return to today's level: metadata.version 28 (4.2-IV0)\n" in text


def test_no_point_of_no_return_is_said_only_where_somebody_can_tell() -> None:
    _, text = shown(returns_after=[{"feature": "metadata.version", "downgrade_floor": 23}])
    assert "point of no return to today's level: none\n" in text
    for nobody in (None, [{"feature": "made.up"}]):
        _, text = shown(ready(downgrade_floor=23), returns_after=nobody)
        assert "point of no return" not in text
        assert "after the plan" not in text


def test_the_report_says_of_a_plan_what_show_says_of_it() -> None:
    texts = {row["cluster"]: row["plan"] for row in judge_samples().plans.to_pylist()}
    found = {cluster.key: cluster for cluster in report_samples().clusters}
    said = list[int]()
    for key, text in texts.items():
        returns = {back.feature: back for back in found[key].returns}
        if text is None:
            assert returns == {}
            continue
        steps = look_ahead(read_plan(text, key).plan, CATALOGUE)
        points = {c.update.feature: c.no_return for step in steps for c in step.changes}
        names = {*points, *({"metadata.version"} & steps[-1].levels.keys())}
        assert returns.keys() == names
        for name, back in returns.items():
            assert number(back.point_of_no_return) == points.get(name, NONE)
        if "metadata.version" in returns:
            assert number(returns["metadata.version"].downgrade_floor) == steps[-1].floor
            said.append(steps[-1].floor)
    assert len(set(said)) > 2  # no one number for all of them


def number(level: Level | None) -> int:
    return NONE if level is None else level.number


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
