"""What nodes are configured with, as they said last: a value by cluster, role, node and key.

A node says what it was started with and what was set since; it may be started with something else
tomorrow. Who was not asked, or answered an error, is not in here: that is not known, and no default
stands in for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final

import msgspec
import numpy as np

from featurelib.audit.columns import Int
from featurelib.feature import Role
from featurelib.landing.responses import BROKER_DEFAULT
from featurelib.snapshot.records import Records

VOTERS: Final = "controller.quorum.voters"
NOT_LISTED: Final = -1  # as a source: the key was not in the answer
# Sources of DescribeConfigsResponse that a verdict or a side effect tells apart.
ONE_BROKER, ALL_BROKERS, OWN_FILE, KAFKAS_DEFAULT = 2, 3, 4, 5
_VOTER: Final = re.compile(r"(\d{1,10})@.+", re.ASCII)
_LARGEST_ID: Final = (1 << 31) - 1


class ConfiguredValue(msgspec.Struct, frozen=True, kw_only=True):
    """What a node told of one key; None = not set, or the node knows no such key. `at` in
    microseconds, `line` as in bronze."""

    node_id: int
    role: int
    resource: str
    key: str
    value: str | None
    source: int
    at: int
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticVoters:
    """The ids in one controller's own `controller.quorum.voters`; none = it is empty."""

    cluster: int  # position in the batch
    node_id: int
    ids: tuple[int, ...]
    at: int
    line: int


class Configurations:
    """The configurations of a batch of clusters, by position; taken apart when one is asked for."""

    def __init__(self, records: Records) -> None:
        """`records` are the part `configs` of featurelib.schema.LAYOUT."""
        self._records = records

    def of(self, cluster: int, role: Role, node_id: int, key: str) -> ConfiguredValue | None:
        """What a node said of itself; None = it was not asked, or gave no answer."""
        return self._values.get((cluster, int(role), node_id, str(node_id), key))

    def default(self, cluster: int, key: str) -> ConfiguredValue | None:
        """The default of all brokers that is set on the cluster itself, as the newest answer has
        it; None = nobody was asked. A value of None = none is set, so that each node's file or
        Kafka's own default holds."""
        return self._defaults.get((cluster, key))

    @cached_property
    def static_voters(self) -> tuple[StaticVoters, ...]:
        """What every controller that was asked has in `controller.quorum.voters`, by cluster and
        node; one whose value cannot be read is left out."""
        known = self._records
        own = known.field("key") == known.code("key", VOTERS)
        own &= known.field("role") == int(Role.CONTROLLER)
        own &= known.field("resource") != known.code("resource", BROKER_DEFAULT)
        where = np.flatnonzero(own)
        values = zip(known.row[where].tolist(), known.structs(ConfiguredValue, where), strict=True)
        return tuple(
            StaticVoters(cluster=cluster, node_id=one.node_id, ids=ids, at=one.at, line=one.line)
            for cluster, one in values
            if (ids := voter_ids(one.value)) is not None
        )

    def voters(self, active: Int, as_of: int, max_age: int) -> dict[int, StaticVoters]:
        """Whom the controller that is active (-1 = not known) in each cluster is configured to ask
        (QuorumFeatures.quorumNodeIds), by cluster, where that was read lately."""
        return {
            one.cluster: one
            for one in self.static_voters
            if one.node_id == active[one.cluster] and abs(as_of - one.at) <= max_age
        }

    @cached_property
    def _defaults(self) -> dict[tuple[int, str], ConfiguredValue]:
        found: dict[tuple[int, str], ConfiguredValue] = {}
        for (cluster, _, _, resource, key), value in self._values.items():
            if resource == BROKER_DEFAULT:
                older = found.get((cluster, key), value)
                found[cluster, key] = max(older, value, key=lambda one: (one.at, one.line))
        return found

    @cached_property
    def _values(self) -> dict[tuple[int, int, int, str, str], ConfiguredValue]:
        values = self._records.structs(ConfiguredValue)
        rows = zip(self._records.row.tolist(), values, strict=True)
        return {(row, one.role, one.node_id, one.resource, one.key): one for row, one in rows}


@cache
def voter_ids(value: str | None) -> tuple[int, ...] | None:
    """The ids in `ID@HOST:PORT,…`, in that order, each once; None = that is not what it says."""
    if value is None:
        return None
    entries = [entry.strip() for entry in value.split(",") if entry.strip()]
    found = [_VOTER.match(entry) for entry in entries]
    ids = [int(one[1]) for one in found if one is not None]
    if len(ids) < len(entries) or any(one > _LARGEST_ID for one in ids):
        return None
    return tuple(dict.fromkeys(ids))
