"""Rights that were missing when the cluster was last looked at: each is a finding that names it.

A right without which nobody says who votes keeps the whole cluster from a verdict. One that only
adds to what is known keeps nothing, and is said all the same.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from featurelib.core import oddity
from featurelib.core.columns import Bool, Int
from featurelib.core.evidence import Evidence
from featurelib.core.findings import Findings
from featurelib.core.refusals import (
    CONFIGS,
    MEMBERS,
    NOT_AUTHORIZED,
    PROBE,
    QUORUM,
    REFUSED,
    Refusal,
    needed,
    read,
)

_TITLES = {
    QUORUM: "DescribeQuorum",
    MEMBERS: "DescribeCluster",
    PROBE: "UpdateFeatures",
    CONFIGS: "DescribeConfigs",
}
_SHOWS = {
    QUORUM: "who votes and where controllers listen",
    MEMBERS: "which controllers are registered and do not vote",
    CONFIGS: "whom controllers are configured to ask, and which settings a level overwrites",
    PROBE: "by a request to validate whether a registration that was not seen blocks",
}


def report_rights(evidence: Evidence, said: Findings, count: Callable[[Int], Int]) -> Bool:
    """Add the findings; by cluster, whether what the quorum would say is hidden by a right.

    `count` notes clusters that are kept from a verdict, one finding each.
    """
    hidden = np.zeros(len(evidence.clusters), dtype=bool)
    missing: list[tuple[int, list[Refusal]]] = []
    withheld: list[tuple[int, list[Refusal]]] = []
    for cluster, request, refusals in _by_request(evidence):
        settled = any(one.elsewhere for one in refusals) or evidence.controllers_vouched[cluster]
        if request == QUORUM and not settled:
            missing.append((cluster, refusals))
            hidden[cluster] = True
        else:
            withheld.append((cluster, refusals))
    for code, found in (("right_missing", missing), ("right_withheld", withheld)):
        where = np.array([cluster for cluster, _ in found], dtype=np.int64)
        newest = [max(refusals, key=lambda one: (one.at, one.line)) for _, refusals in found]
        said.add(
            code,
            count(where) if code == "right_missing" else where,
            at=np.array([one.at for one in newest], dtype=np.int64),
            line=np.array([one.line for one in newest], dtype=np.int64),
            detail=[_detail(refusals) for _, refusals in found],
        )
    return hidden


def _by_request(evidence: Evidence) -> list[tuple[int, str, list[Refusal]]]:
    """(cluster, request, its refusals) in the order of clusters."""
    found: dict[tuple[int, str], list[Refusal]] = {}
    for cluster, entries in enumerate(evidence.oddities):
        for entry in entries or ():
            if entry.startswith(REFUSED):
                refusal = read(oddity.read(entry))
                found.setdefault((cluster, refusal.request), []).append(refusal)
    return [(cluster, request, some) for (cluster, request), some in sorted(found.items())]


def _detail(refusals: list[Refusal]) -> str:
    """Which right, who was refused by whom, and what it would show."""
    first = refusals[0]
    by_principal: dict[str, list[str]] = {}
    for one in refusals:
        who = f"{one.role.text} {one.node_id}" if one.node_id >= 0 else "the active controller"
        by_principal.setdefault(one.principal, []).append(who)
    refused = " and ".join(
        f"to {principal or 'whoever collects'} by {' and '.join(some)}"
        for principal, some in by_principal.items()
    )
    return (
        f"{needed(first.request, first.role)} on CLUSTER; {_TITLES[first.request]} was refused "
        f"{refused} (error {NOT_AUTHORIZED}), which shows {_SHOWS[first.request]}"
    )
