"""What nodes are configured with, as they said last: a value by cluster, role, node and key.

A node says what it was started with and what was set since; it may be started with something else
tomorrow. Who was not asked, or answered an error, is not in here: that is not known, and no default
stands in for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa

from featurelib.core.columns import Flat
from featurelib.feature import Role

BROKER_DEFAULT: Final = ""  # the resource that stands for all brokers
NOT_LISTED: Final = -1  # as a source: the key was not in the answer
# Sources of DescribeConfigsResponse that a verdict or a side effect tells apart.
ONE_BROKER, ALL_BROKERS, OWN_FILE, KAFKAS_DEFAULT = 2, 3, 4, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredValue:
    """One value; None = not set, or the node knows no such key. `at` in microseconds, `line` as in
    bronze."""

    value: str | None
    source: int
    at: int
    line: int


class Configurations:
    """The configurations of a batch of clusters, by position; taken apart when one is asked for."""

    def __init__(self, column: pa.Array) -> None:
        """`column` is `configs` of featurelib.schema.SNAPSHOT."""
        self.flat = Flat(column)

    def of(self, cluster: int, role: Role, node_id: int, key: str) -> ConfiguredValue | None:
        """What a node said of itself; None = it was not asked, or gave no answer."""
        return self._values.get((cluster, int(role), node_id, str(node_id), key))

    def default(self, cluster: int, key: str) -> ConfiguredValue | None:
        """The default of all brokers that is set on the cluster itself, as the newest answer has
        it; None = nobody was asked. A value of None = none is set, so that each node's file or
        Kafka's own default holds."""
        return self._defaults.get((cluster, key))

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
        flat = self.flat
        columns = (
            flat.row.tolist(),
            *(flat.field(name).tolist() for name in ("role", "node_id")),
            *(flat.child(name).to_pylist() for name in ("resource", "key", "value")),
            *(flat.field(name).tolist() for name in ("source", "at", "line")),
        )
        return {
            (row, role, node_id, resource, key): ConfiguredValue(
                value=value, source=source, at=at, line=line
            )
            for row, role, node_id, resource, key, value, source, at, line in zip(
                *columns, strict=True
            )
        }
