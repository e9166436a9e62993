"""How far back a cluster goes today and after its plan, what that cannot take back, who may join.

All of it as far as anybody can tell, and the same as `featurelib show` says of the plan.
"""

from __future__ import annotations

from collections.abc import Iterable

from featurelib.report.model import Cluster, Level


def say_ahead(cluster: Cluster) -> list[str]:
    """A line each: the lowest levels without loss, as things are today and once the plan is carried
    out; the point of no return to today's levels; the releases that may join now and then."""
    today = _named((found.feature, found.downgrade_floor) for found in cluster.readiness)
    then = _named((found.feature, found.downgrade_floor) for found in cluster.returns)
    points = _named((found.feature, found.point_of_no_return) for found in cluster.returns)
    said = [f"lowest today without loss: {today}"] if today else []
    said += [f"lowest after the plan without loss: {then}"] if then else []
    said += [f"point of no return to today's level: {points or 'none'}"] if then else []
    if cluster.joining is not None:
        said.append(f"releases that may join: {cluster.joining.text}")
    return said


def _named(levels: Iterable[tuple[str, Level | None]]) -> str:
    return ", ".join(f"{feature} {level.text}" for feature, level in levels if level is not None)
