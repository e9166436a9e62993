"""Arrow schemas of everything that crosses a floor: the words of the house, with their types.

A *version* is an end of a supported range, a *level* is chosen. Both are int16, as on Kafka's wire.
Times are microseconds since the epoch in UTC. `line_id` is the first eight bytes of a landing
line's SHA-256, big-endian and signed: it finds the line again in `bronze.landing_line`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

TIME = pa.timestamp("us", tz="UTC")
LEVEL = pa.int16()
NODE = pa.int32()

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
        ("log_at", "<i8"),
        ("log_gap_end", "<i8"),  # offsets from log_end to it were not dumped; -1 = there is no gap
        ("migration", "<i1"),  # ZK_MIGRATION_STATE_RECORD; -1 = never seen
        ("features_node_at", "<i8"),  # 0 = never read
        ("features_node_line", "<i8"),
        ("features_node_version", "<i8"),
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
    "members": [
        ("role", "<i1"),
        ("fenced_shown", "<i1"),
        *_MOMENT,
        ("size", "<i4"),
    ],
    "member": [("node_id", "<i4"), ("fenced", "<i1")],
    "voters": [("node_id", "<i4")],
    "observers": [("node_id", "<i4")],
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
    # Requests that one half of the nodes refused for want of a right when they were made last.
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
    # Dumps of the metadata log of which two lines with one number differ.
    "ambiguous_dumps": [("at", "<i8")],
}
LAYOUT = {part: np.dtype(fields) for part, fields in _PARTS.items()}
# Fields that hold a position in a list of texts of the row, -1 = none, and which list: names of
# features are alike in nearly every cluster.
TEXT_FIELDS = {
    "feature": "names",
    "error": "texts",
    "releases": "texts",
    "resource": "texts",
    "key": "texts",
    "value": "texts",
    "request": "texts",
    "principal": "texts",
    "message": "texts",
}

SNAPSHOT = pa.schema(
    [
        ("cluster", pa.string()),
        ("observed_at", TIME),  # of the newest line that counts; null = there is none
        ("waiting", pa.int32()),  # lines dated later than what was judged: none of them counts yet
        ("features_node", pa.string()),  # the stored text, untouched; null = absent or never read
        ("names", pa.binary()),  # MessagePack
        ("texts", pa.binary()),  # MessagePack
        *((part, pa.binary()) for part in LAYOUT),
        ("checksum", pa.int64()),  # of all columns before it; null = nothing landed
        ("state", pa.binary()),  # what the next fold needs and the core does not
    ]
)

FINDING = pa.schema(
    [
        ("cluster", pa.string()),
        ("code", pa.string()),
        ("severity", pa.string()),
        ("role", pa.string()),
        ("node_id", NODE),
        ("feature", pa.string()),
        ("finalized_level", LEVEL),
        ("level", LEVEL),
        ("min_version", LEVEL),
        ("max_version", LEVEL),
        ("epoch", pa.int64()),
        ("observed_at", TIME),
        ("line_id", pa.int64()),
        ("detail", pa.string()),
        ("muted", pa.string()),  # why conf/audit.toml sets it aside; null = it does not
        ("muted_until", pa.date32()),  # the last day on which it does, in UTC
    ]
)

INCOMPATIBLE_BROKER = pa.schema(
    [
        ("cluster", pa.string()),
        ("role", pa.string()),
        ("node_id", NODE),
        ("feature", pa.string()),
        ("finalized_level", LEVEL),
        ("min_version", LEVEL),
        ("max_version", LEVEL),
        ("fenced", pa.bool_()),
        ("observed_at", TIME),
        ("line_id", pa.int64()),
    ]
)

READINESS = pa.schema(
    [
        ("cluster", pa.string()),
        ("feature", pa.string()),
        ("verdict", pa.string()),
        ("finalized_level", LEVEL),  # 0 = not finalized; null = no trustworthy witness
        ("target", LEVEL),  # the level to finalize next; null unless READY
        ("ceiling", LEVEL),
        ("available", LEVEL),  # supported by every node, beyond the ceiling; null = nothing is
        ("blockers", pa.int32()),  # findings that stand between the finalized level and the ceiling
        ("unknowns", pa.int32()),
        # The lowest level (0 = not finalized) that can be had again without losing metadata, and
        # the first level on the way to the target from which the present one cannot be had again.
        # READY rows of catalogued features only; null = nobody can tell, or there is none.
        ("downgrade_floor", LEVEL),
        ("point_of_no_return", LEVEL),
        # When it was READY first, by the times nights were judged as of; UNKNOWN rows keep it,
        # all others lose it.
        ("ready_since", TIME),
    ]
)

# One update. Those of one `request` go out together, the first request first.
STEP = pa.struct(
    [
        ("request", pa.int16()),
        ("feature", pa.string()),
        ("from_level", LEVEL),
        ("to_level", LEVEL),
        ("upgrade_type", pa.string()),
        ("timeout_ms", pa.int32()),
    ]
)

# How far back a feature goes once the plan is applied (featurelib.core.downgrade): the lowest level
# (0 = not finalized) that can be had then without losing metadata, and the first level of the
# plan's way from which today's cannot be had again; null = nobody can tell, or there is none.
RETURN = pa.struct(
    [("feature", pa.string()), ("downgrade_floor", LEVEL), ("point_of_no_return", LEVEL)]
)

UPGRADE_PLAN = pa.schema(
    [
        ("cluster", pa.string()),
        ("verdict", pa.string()),  # the worst of its features
        ("phase", pa.string()),
        ("nodes", pa.int32()),
        ("steps", pa.list_(STEP)),
        ("dialects", pa.list_(pa.string())),  # that its controllers may speak; all were asked
        ("plan", pa.string()),  # the plan file (featurelib.planning.files); null without steps
        # Releases whose production software supports what is finalized, now and after the steps;
        # null = not known (ZooKeeper mode, or some level is not), or without steps.
        ("may_join", pa.list_(pa.string())),
        ("may_join_after", pa.list_(pa.string())),
        # Of what the steps move, and of metadata.version; null without steps.
        ("returns_after", pa.list_(RETURN)),
    ]
)
