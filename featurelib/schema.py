"""The columns of everything that crosses a floor: the words of the house, with their types.

A *version* is an end of a supported range, a *level* is chosen. Both are int16, as on Kafka's wire.
Times are microseconds since the epoch in UTC. `line_id` is the first eight bytes of a landing
line's SHA-256, big-endian and signed: it finds the line again in `bronze.landing_line`.

columns.toml says in a sentence what a column of a table holds. Schemas are plain values;
featurelib.rows holds columns of these types, and only featurelib.arrow knows what Arrow calls them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

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

_MOMENT = [("at", "<i8"), ("line", "<i8")]  # when it was seen, in which line
# What a row of silver.cluster_snapshot holds for the core, part by part: each part is a binary
# column of records without padding, little-endian, as featurelib.snapshot.records writes and reads
# them. `profile`, `full`, `partial` and `levels` are positions among the row's `profiles` or
# `level_maps`; -1 = there was no map. Fields of TEXT_FIELDS are positions in a list of texts.
_PARTS: dict[str, list[tuple[str, str]]] = {
    # One record of what a cluster has one of.
    "scalars": [
        ("quorum_at", "<i8"),  # 0 = DescribeQuorum was never answered
        ("quorum_line", "<i8"),
        ("controller", "<i4"),  # the active one, by the newest evidence; -1 = not known
        ("log_end", "<i8"),  # offsets below it are all known; 0 = the log proves nothing
        ("log_at", "<i8"),  # when it was dumped; 0 = it is not complete, and proves no absence
        # Offsets from log_end to it were not dumped, log_end = a line is missing; -1 = no gap.
        ("log_gap_end", "<i8"),
        ("migration", "<i1"),  # ZK_MIGRATION_STATE_RECORD; -1 = never seen
        ("features_node_at", "<i8"),  # 0 = never read
        ("features_node_line", "<i8"),
        ("features_node_version", "<i8"),  # -1 = not known, -2 = it does not exist
        ("features_node_recreated", "<i1"),
        ("zookeeper", "<i1"),  # some znode of this cluster was read
        ("waiting_at", "<i8"),  # the newest line that is dated later than what was judged
        ("waiting_line", "<i8"),
    ],
    # Distinct maps feature → supported range: how many entries each has, and the entries in turn.
    "profiles": [("size", "<i4")],
    "ranges": [("feature", "<i4"), ("min_version", "<i2"), ("max_version", "<i2")],
    # Distinct maps feature → finalized level, likewise.
    "level_maps": [("size", "<i4")],
    "levels": [("feature", "<i4"), ("min_level", "<i2"), ("level", "<i2")],
    # What one listener of one node answered last. `full` answers come from ApiVersions v4 or later,
    # or from a node that knows no v4; `partial` ones were asked at v3 or below and may leave out
    # features whose minimum is 0 (KIP-1022, KAFKA-17011).
    "listeners": [
        ("node_id", "<i4"),
        ("role", "<i1"),  # featurelib.feature.Role
        ("full", "<i4"),
        ("full_at", "<i8"),
        ("full_line", "<i8"),
        ("partial", "<i4"),
        ("partial_at", "<i8"),
        ("partial_line", "<i8"),
        ("levels", "<i4"),
        ("epoch", "<i8"),
        ("highest_epoch", "<i8"),  # it ever answered
        ("levels_at", "<i8"),
        ("levels_line", "<i8"),
        ("failed_at", "<i8"),  # 0 = it never failed to answer
        ("failed_line", "<i8"),
        ("error", "<i4"),  # why, in the collector's words
        ("releases", "<i4"),  # it may be of by the requests it offers: 4.2, several with ;
        ("releases_at", "<i8"),
        ("scraped", "<i4"),  # what its process showed last as metrics, true of both its halves
        ("scraped_at", "<i8"),
        ("scraped_line", "<i8"),
    ],
    # A registration as ZooKeeper (`/brokers/ids/N`) or the metadata log holds it. Profile -1 = it
    # lists no features at all (a registration below version 5), -2 = it cannot be read.
    "registrations": [
        ("node_id", "<i4"),
        ("role", "<i1"),
        ("witness", "<i1"),  # FEATURES_NODE = ZooKeeper, or METADATA_LOG
        ("profile", "<i4"),
        ("fenced", "<i1"),  # 1 fenced, 0 not, -1 this witness does not show it
        *_MOMENT,
    ],
    # Registrations that a later round of reading ZooKeeper did not find.
    "registrations_gone": [("node_id", "<i4")],
    # One kind of witness of the finalized levels, at its highest epoch.
    "witnesses": [
        ("kind", "<i1"),  # featurelib.feature.Witness
        ("levels", "<i4"),
        ("epoch", "<i8"),
        *_MOMENT,
    ],
    # Whom DescribeCluster listed: the lists, and the nodes of each in turn. `fenced_shown` = asked
    # at v2 with include_fenced_brokers.
    "members": [("role", "<i1"), ("fenced_shown", "<i1"), *_MOMENT, ("size", "<i4")],
    "member": [("node_id", "<i4"), ("fenced", "<i1")],
    "voters": [("node_id", "<i4"), ("follows", "<i1")],  # the leader saw it fetch just before
    "observers": [("node_id", "<i4")],
    # Nodes that found nobody who leads the quorum: controllers that knew of no leader, and brokers
    # that passed DescribeQuorum on to nobody, and did not answer it.
    "leaderless": [("role", "<i1"), ("node_id", "<i4"), *_MOMENT],
    # What one node was configured with when it was asked last: its own (`resource` = its id), or
    # the default of all brokers (""). Every key of featurelib.landing.responses is there.
    "configs": [
        ("node_id", "<i4"),  # who was asked
        ("role", "<i1"),
        ("resource", "<i4"),
        ("key", "<i4"),
        ("value", "<i4"),  # -1 = not set, or the node knows no such key
        ("source", "<i1"),  # as in DescribeConfigsResponse; -1 = the key was not in the answer
        *_MOMENT,
    ],
    # Requests that one half of the nodes refused for want of a right when they were made last, by
    # each node that did.
    "refusals": [
        ("request", "<i4"),  # a kind of landing line
        ("role", "<i1"),
        ("node_id", "<i4"),  # -1 = the active controller, whoever it was
        ("elsewhere", "<i1"),  # the other half answered it since
        ("principal", "<i4"),
        *_MOMENT,
    ],
    # What the controller answered to the newest request to validate only, an update each; none
    # where something newer landed: the cluster may have changed since.
    "probe": [
        ("feature", "<i4"),
        ("from_level", "<i4"),
        ("to_level", "<i4"),
        ("code", "<i4"),
        ("message", "<i4"),
        *_MOMENT,
    ],
    # What Strimzi's resources say of the cluster, if any landed: what the Kafka resource asks for,
    # and its status (featurelib.landing.strimzi), -1 = it does not say; and the nodes to be there.
    "strimzi": [
        ("resource", "<i4"),
        ("version", "<i4"),
        ("metadata_version", "<i4"),
        ("status_version", "<i4"),
        ("status_metadata_version", "<i4"),
        ("refused", "<i4"),
        ("paused", "<i1"),
        ("nodes_complete", "<i1"),
        *_MOMENT,
    ],
    # The newest look that reached nobody, where no node's line is newer.
    "not_reached": [
        ("error", "<i4"),  # in the collector's words
        ("answered_at", "<i8"),  # the newest line of before; null = there is none
        *_MOMENT,
    ],
    "strimzi_nodes": [("node_id", "<i4"), ("role", "<i1"), ("version", "<i4")],
    # Dumps of the metadata log of which two lines with one number differ.
    "ambiguous_dumps": [("at", "<i8")],
}
LAYOUT = {part: np.dtype(fields) for part, fields in _PARTS.items()}
# Fields that hold a position in a list of texts of the row, -1 = none, and which list: names of
# features are alike in nearly every cluster.
_TEXTS = "error releases resource key value request principal message version metadata_version"
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
        ("to_fix", TEXT),
    ]
)

# What a finding says to people, for whoever asks with SQL; all of it safe to show.
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

# How far back a feature goes once the plan is applied (featurelib.core.downgrade): the lowest level
# (0 = not finalized) that can be had then without losing metadata, and the first level of the
# plan's way from which today's cannot be had again; null = nobody can tell, or there is none.
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

# A cluster as a dashboard shows it. Names, owners, contacts and labels are the inventory's of that
# night, safe to show; null where it does not say.
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
