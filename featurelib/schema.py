"""Define the columns of all data that passes between layers, with their types.

A *version* is an end of a supported range, a *level* is one value in it. Both are int16, as in
Kafka's protocol. Times are microseconds since 1970 in UTC. `line_id` is the first eight bytes of a
landing line's SHA-256, big-endian and signed: it finds the line in `bronze.landing_line`.

columns.toml describes each column of a table in a sentence. Schemas are plain values;
featurelib.rows has columns of these types, and only featurelib.arrow knows Arrow's names.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources

import numpy as np


class Scalar(StrEnum):
    """The type of a single value, named as in Arrow."""

    BOOL = "bool"
    SHORT = "int16"
    INT = "int32"
    LONG = "int64"
    TEXT = "string"
    BYTES = "binary"
    TIME = "timestamp[us, tz=UTC]"
    DATE = "date32[day]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf:
    """The type of a list of values or of rows."""

    of: Scalar | Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The names and types of a row's columns, in order. Every value may be null."""

    fields: tuple[tuple[str, Kind], ...]

    @classmethod
    def of(cls, fields: Iterable[tuple[str, Kind]]) -> Schema:
        """Return a schema with these columns."""
        return cls(fields=tuple(fields))

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.fields]

    def __getitem__(self, column: str) -> Kind:
        return dict(self.fields)[column]

    def select(self, names: Iterable[str]) -> Schema:
        """Return the schema with only the columns `names`, in that order."""
        return Schema.of([(name, self[name]) for name in names])

    def with_first(self, name: str, kind: Kind) -> Schema:
        """Return the schema with a new first column."""
        return Schema.of([(name, kind), *self.fields])

    def with_last(self, name: str, kind: Kind) -> Schema:
        """Return the schema with a new last column."""
        return Schema.of([*self.fields, (name, kind)])


Kind = Scalar | ListOf | Schema
BOOL, SHORT, INT, LONG = Scalar.BOOL, Scalar.SHORT, Scalar.INT, Scalar.LONG
TEXT, BYTES, TIME, DATE = Scalar.TEXT, Scalar.BYTES, Scalar.TIME, Scalar.DATE
LEVEL = SHORT

# Column name → its type in every table; a column without an entry has texts.
_NAMES = {
    BOOL: "fenced registered voter active_controller stale",
    LEVEL: "finalized_level level min_level min_version max_version target ceiling available "
    "downgrade_floor point_of_no_return from_level to_level metadata_version request",
    INT: "waiting node_id nodes blockers unknowns timeout_ms",
    LONG: "run line_id line_number epoch epoch_before znode_version checksum version size lines "
    "accepted repeated quarantined clusters ready blocked up_to_date unknown unchanged findings "
    "median_wait_hours longest_wait_hours first_seen_run",
    BYTES: "content_hash raw state learned",
    TIME: "observed_at ready_since verdict_since newest_line modified_at as_of answered_at "
    "failed_at",
    DATE: "muted_until run_date",
}
_KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}


def columns(names: str, **lists: ListOf | Schema) -> Schema:
    """Return a schema with the columns `names`, whose names decide their types. `lists`: types of
    list columns."""
    kinds: dict[str, Kind] = {**_KINDS, **lists}
    return Schema.of((name, kinds.get(name, TEXT)) for name in names.split())


# The parts of a row of silver.cluster_snapshot; snapshot.toml describes each field.
_TABLE = resources.files(__package__).joinpath("snapshot.toml").read_text(encoding="utf-8")
_PARTS: dict[str, dict[str, str]] = tomllib.loads(_TABLE)
_STORED_AS = {"time": "<i8", "line": "<i8", "node": "<i4", "name": "<i4", "text": "<i4"}
_LISTS = {"name": "names", "text": "texts"}


def _stored_as(part: str, field: str) -> str:
    """Return the storage type of a field in snapshot.toml. Raises ValueError if it is invalid."""
    mark, _, kind = _PARTS[part][field].partition(" ")
    if not (kind if mark == "content" else mark in _STORED_AS and not kind):
        marks = f"{', '.join(_STORED_AS)}, or content with a type"
        raise ValueError(f"snapshot.toml [{part}] {field}: write {marks}")
    return kind or _STORED_AS[mark]


LAYOUT = {part: np.dtype([(f, _stored_as(part, f)) for f in of]) for part, of in _PARTS.items()}
# Fields whose value is a position in a list of texts of the row (-1 = none), and that list. A list
# is short, because most clusters have equal feature names.
TEXT_FIELDS = {f: _LISTS[m] for fields in _PARTS.values() for f, m in fields.items() if m in _LISTS}
# Fields that hold a time, by part: a result may depend on their age.
TIME_FIELDS = [(part, f) for part, fields in _PARTS.items() for f in fields if fields[f] == "time"]

_OF_SNAPSHOT = columns("cluster observed_at waiting features_node").fields
_OF_PARTS = [(name, BYTES) for name in ("names", "texts", *LAYOUT)]
SNAPSHOT = Schema.of([*_OF_SNAPSHOT, *_OF_PARTS, *columns("checksum state").fields])

# The facts in findings' texts besides node, feature and levels, and the reason why the usual remedy
# does not help. findings.toml and rules.toml list them by code.
_OF_FACTS = "reason response difference effect condition permission setting release levels needs "
_OF_FACTS += "other_nodes dependants since until waiting_lines gap witness mutes cause principal "
FACTS = columns(_OF_FACTS + "resource znode_text entry voters directory znode_version printed")
_OF_FINDING = "cluster code severity role node_id feature finalized_level level min_version "
_OF_FINDING += "max_version epoch observed_at line_id facts muted muted_until"
FINDING = columns(_OF_FINDING, facts=FACTS)
FINDING_TEXTS = columns("name message consequence action command")

# The supported ranges, a row per node, role and feature. A null feature: the node lists no feature.
# A null end of a range: a partial response may omit it.
SUPPORTED_RANGE = columns("cluster role node_id feature min_version max_version observed_at")

# The finalized levels of a cluster, a row per finalized feature, from a trusted source:
# features_node, broker, metadata_log or controller. `min_level` is KIP-584's finalized minimum, or
# the level if no minimum is stored. `epoch` is null if the source has no epoch.
FINALIZED_LEVEL = columns("cluster feature min_level level epoch source")

INCOMPATIBLE_BROKER = columns(
    "cluster role node_id feature finalized_level min_version max_version fenced observed_at "
    "line_id"
)

NODE = columns(
    "cluster role node_id registered voter active_controller fenced stale release answered_at "
    "failed_at observed_at line_id"
)

READINESS = columns(
    "cluster feature verdict finalized_level target ceiling available blockers unknowns "
    "downgrade_floor point_of_no_return ready_since verdict_since"
)

# One update. Updates with an equal `request` are sent together, in the order of requests.
STEP = columns("request feature from_level to_level upgrade_type timeout_ms")

LEVEL_OF = columns("feature level")
RETURN = columns("feature downgrade_floor point_of_no_return")

UPGRADE_PLAN = columns(
    "cluster verdict phase nodes steps dialects plan may_join may_join_after returns_after mode "
    "release newest_release newest_line checksum",
    steps=ListOf(of=STEP),
    dialects=ListOf(of=TEXT),
    may_join=ListOf(of=TEXT),
    may_join_after=ListOf(of=TEXT),
    returns_after=ListOf(of=RETURN),
)

CLUSTER = columns(
    "cluster name owner contact labels managed_by mode release newest_release phase verdict "
    "severity metadata_version metadata_version_name levels newest_line",
    labels=ListOf(of=TEXT),
    levels=ListOf(of=LEVEL_OF),
)
