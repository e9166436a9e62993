"""How far back a cluster goes today, what its plan cannot take back, and who may join.

All of it as far as anybody can tell. What is lowest once the plan is applied, `featurelib show`
says.
"""

from __future__ import annotations

from featurelib.report.model import Cluster


def say_ahead(cluster: Cluster) -> list[str]:
    """A line each: the lowest levels without loss as things are today, the point of no return to
    today's levels, and the releases that may join now and afterwards."""
    ready = [found for found in cluster.readiness if found.downgrade_floor is not None]
    points = [
        f"{found.feature} {found.point_of_no_return.text}"
        for found in ready
        if found.point_of_no_return is not None
    ]
    floors = [
        f"{found.feature} {found.downgrade_floor.text}"
        for found in ready
        if found.downgrade_floor is not None
    ]
    said = [f"lowest today without loss: {', '.join(floors)}"] if floors else []
    said += [f"point of no return to today's level: {', '.join(points) or 'none'}"] if ready else []
    if cluster.joining is not None:
        said.append(f"releases that may join: {cluster.joining.text}")
    return said
