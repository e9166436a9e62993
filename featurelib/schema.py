"""The columns of everything that crosses a floor: the words of the house, with their types.

A *version* is an end of a supported range, a *level* is chosen. Both are int16, as on Kafka's wire.
Times are microseconds since the epoch in UTC. `line_id` is the first eight bytes of a landing
line's SHA-256, big-endian and signed: it finds the line again in `bronze.landing_line`.

columns.toml says in a sentence what a column of a table holds. Schemas are plain values;
featurelib.rows holds columns of these types, and only featurelib.arrow knows what Arrow calls them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources

import numpy as np


class Scalar(StrEnum):
    """A type of one value, by Arrow's name of it."""

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
    """Any number of values, or of rows."""

    of: Scalar | Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The columns of a row in their order, each with its type; a value may be null."""

    fields: tuple[tuple[str, Kind], ...]

    @classmethod
    def of(cls, fields: Iterable[tuple[str, Kind]]) -> Schema:
        """A schema of these columns."""
        return cls(fields=tuple(fields))

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.fields]

    def __getitem__(self, column: str) -> Kind:
        return dict(self.fields)[column]

    def select(self, names: Iterable[str]) -> Schema:
        """A schema of these columns of it."""
        return Schema.of([(name, self[name]) for name in names])

    def with_first(self, name: str, kind: Kind) -> Schema:
        """The same with one column more, before all others."""
        return Schema.of([(name, kind), *self.fields])

    def with_last(self, name: str, kind: Kind) -> Schema:
        """The same with one column more, after all others."""
        return Schema.of([*self.fields, (name, kind)])


Kind = Scalar | ListOf | Schema
BOOL, SHORT, INT, LONG = Scalar.BOOL, Scalar.SHORT, Scalar.INT, Scalar.LONG
TEXT, BYTES, TIME, DATE = Scalar.TEXT, Scalar.BYTES, Scalar.TIME, Scalar.DATE
LEVEL, NODE = SHORT, INT

# The parts of a row of silver.cluster_snapshot: snapshot.toml says what each field holds.
_TABLE = resources.files(__package__).joinpath("snapshot.toml").read_text(encoding="utf-8")
_PARTS: dict[str, dict[str, str]] = tomllib.loads(_TABLE)
LAYOUT = {part: np.dtype([*fields.items()]) for part, fields in _PARTS.items()}
# Fields that hold a position in a list of texts of the row, -1 = none, and which list: names of
# features are alike in nearly every cluster.
_TEXTS = "error releases resource key value request principal message version metadata_version"
_TEXTS += " directory"
_OF_STATUS = "status_version status_metadata_version refused"
TEXT_FIELDS = {"feature": "names"} | dict.fromkeys(f"{_TEXTS} {_OF_STATUS}".split(), "texts")

SNAPSHOT = Schema.of(
    [
        ("cluster", TEXT),
        ("observed_at", TIME),
        ("waiting", INT),
        ("features_node", TEXT),
        ("names", BYTES),
        ("texts", BYTES),
        *((part, BYTES) for part in LAYOUT),
        ("checksum", LONG),
        ("state", BYTES),
    ]
)

# What the texts of a finding name besides, and why the usual remedy does not help.
_OF_TEXT = ("cause", "needs", "principal", "resource", "znode_text", "entry", "voters", "directory")
FACTS = Schema.of([*((name, TEXT) for name in _OF_TEXT), ("znode_version", LONG)])

FINDING = Schema.of(
    [
        ("cluster", TEXT),
        ("code", TEXT),
        ("severity", TEXT),
        ("role", TEXT),
        ("node_id", NODE),
        ("feature", TEXT),
        ("finalized_level", LEVEL),
        ("level", LEVEL),
        ("min_version", LEVEL),
        ("max_version", LEVEL),
        ("epoch", LONG),
        ("observed_at", TIME),
        ("line_id", LONG),
        ("detail", TEXT),
        ("muted", TEXT),
        ("muted_until", DATE),
        *FACTS.fields,
    ]
)

FINDING_TEXTS = Schema.of((name, TEXT) for name in ("name", "message", "remedy", "command"))

# What nodes support, a row a node half and feature. A null feature: the node lists none. A null end
# of a range: the response may leave that out.
SUPPORTED_RANGE = Schema.of(
    [
        ("cluster", TEXT),
        ("role", TEXT),
        ("node_id", NODE),
        ("feature", TEXT),
        ("min_version", LEVEL),
        ("max_version", LEVEL),
        ("observed_at", TIME),
    ]
)

# What is finalized in a cluster, a row a feature that is, as far as a trustworthy source says it.
FINALIZED_LEVEL = Schema.of(
    [
        ("cluster", TEXT),
        ("feature", TEXT),
        ("min_level", LEVEL),  # KIP-584's finalized minimum; the level itself where none is stored
        ("level", LEVEL),
        ("epoch", LONG),  # null where the source has none
        ("source", TEXT),  # features_node, broker, metadata_log or controller
    ]
)

INCOMPATIBLE_BROKER = Schema.of(
    [
        ("cluster", TEXT),
        ("role", TEXT),
        ("node_id", NODE),
        ("feature", TEXT),
        ("finalized_level", LEVEL),
        ("min_version", LEVEL),
        ("max_version", LEVEL),
        ("fenced", BOOL),
        ("observed_at", TIME),
        ("line_id", LONG),
    ]
)

READINESS = Schema.of(
    [
        ("cluster", TEXT),
        ("feature", TEXT),
        ("verdict", TEXT),
        ("finalized_level", LEVEL),
        ("target", LEVEL),
        ("ceiling", LEVEL),
        ("available", LEVEL),
        ("blockers", INT),
        ("unknowns", INT),
        ("downgrade_floor", LEVEL),
        ("point_of_no_return", LEVEL),
        ("ready_since", TIME),
    ]
)

# One update. Those of one `request` go out together, the first request first.
STEP = Schema.of(
    [
        ("request", SHORT),
        ("feature", TEXT),
        ("from_level", LEVEL),
        ("to_level", LEVEL),
        ("upgrade_type", TEXT),
        ("timeout_ms", INT),
    ]
)

RETURN = Schema.of([("feature", TEXT), ("downgrade_floor", LEVEL), ("point_of_no_return", LEVEL)])

UPGRADE_PLAN = Schema.of(
    [
        ("cluster", TEXT),
        ("verdict", TEXT),
        ("phase", TEXT),
        ("nodes", INT),
        ("steps", ListOf(of=STEP)),
        ("dialects", ListOf(of=TEXT)),
        ("plan", TEXT),
        ("may_join", ListOf(of=TEXT)),
        ("may_join_after", ListOf(of=TEXT)),
        ("returns_after", ListOf(of=RETURN)),
        ("mode", TEXT),
        ("release", TEXT),
        ("newest_release", TEXT),
        ("newest_line", TIME),
    ]
)

LEVEL_OF = Schema.of([("feature", TEXT), ("level", LEVEL)])

CLUSTER = Schema.of(
    [
        ("cluster", TEXT),
        ("name", TEXT),
        ("owner", TEXT),
        ("contact", TEXT),
        ("labels", ListOf(of=TEXT)),
        ("managed_by", TEXT),
        ("mode", TEXT),
        ("release", TEXT),
        ("newest_release", TEXT),
        ("phase", TEXT),
        ("verdict", TEXT),
        ("severity", TEXT),
        ("metadata_version", LEVEL),
        ("metadata_version_name", TEXT),
        ("levels", ListOf(of=LEVEL_OF)),
        ("newest_line", TIME),
    ]
)
