"""What a plan cannot take back, and who may join, as values and in the text."""

from __future__ import annotations

from featurelib.planning.files import read_plan
from featurelib.planning.outlook import NONE, look_ahead
from featurelib.view.model import Level
from tests.report.samples import CATALOGUE, judge_samples, report_samples


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
