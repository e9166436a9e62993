"""Landing lines of one cluster, judged by inputs that are given one by one."""

from __future__ import annotations

from collections.abc import Iterable

from featurelib.audit.cluster_view import NO_FLEET, ClusterView, Inputs
from featurelib.catalogue import Catalogue
from featurelib.config.fleet import Fleet
from featurelib.feature import Severity


def see(
    lines: Iterable[bytes],
    *,
    catalogue: Catalogue,
    as_of: int | None,
    max_age: int,
    fleet: Fleet = NO_FLEET,
    cluster_id: str | None = None,
    severities: dict[str, Severity] | None = None,
) -> ClusterView:
    """Inputs.see_lines by these inputs."""
    inputs = Inputs(
        catalogue=catalogue, as_of=as_of, max_age=max_age, fleet=fleet, severities=severities
    )
    return inputs.see_lines(lines, cluster_id)
