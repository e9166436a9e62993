"""Arrow schemas of everything that crosses a floor: the words of the house, with their types.

A *version* is an end of a supported range, a *level* is chosen. Both are int16, as on Kafka's wire.
Times are microseconds since the epoch in UTC. `line_id` is the first eight bytes of a landing
line's SHA-256, big-endian and signed: it finds the line again in `bronze.landing_line`.
"""

from __future__ import annotations

import pyarrow as pa

TIME = pa.timestamp("us", tz="UTC")
LEVEL = pa.int16()
NODE = pa.int32()

RANGE = pa.struct([("feature", pa.string()), ("min_version", LEVEL), ("max_version", LEVEL)])
FINALIZED = pa.struct([("feature", pa.string()), ("min_level", LEVEL), ("level", LEVEL)])

# What one listener of one node said last. An index is a position in the row's `profiles` or
# `level_maps`; -1 = nothing was said. `full` answers come from ApiVersions v4 or later, or from a
# node that knows no v4; `partial` ones were asked at v3 or below and may leave out features whose
# minimum is 0 (KIP-1022, KAFKA-17011).
LISTENER = pa.struct(
    [
        ("node_id", NODE),
        ("role", pa.int8()),  # featurelib.feature.Role
        ("full", pa.int32()),
        ("full_at", pa.int64()),
        ("full_line", pa.int64()),
        ("partial", pa.int32()),
        ("partial_at", pa.int64()),
        ("partial_line", pa.int64()),
        ("levels", pa.int32()),
        ("epoch", pa.int64()),
        ("levels_at", pa.int64()),
        ("levels_line", pa.int64()),
        ("failed_at", pa.int64()),  # 0 = it never failed to answer
        ("failed_line", pa.int64()),
        ("error", pa.string()),  # why, in the collector's words
    ]
)

# A registration as ZooKeeper (`/brokers/ids/N`) or the metadata log holds it. Profile -1 = it lists
# no features at all (a registration below version 5), -2 = it cannot be read.
REGISTRATION = pa.struct(
    [
        ("node_id", NODE),
        ("role", pa.int8()),
        ("witness", pa.int8()),  # FEATURES_NODE = ZooKeeper, or METADATA_LOG
        ("profile", pa.int32()),
        ("fenced", pa.int8()),  # 1 fenced, 0 not, -1 this witness does not say
        ("at", pa.int64()),
        ("line", pa.int64()),
    ]
)

# One kind of witness of the finalized levels, at its highest epoch.
WITNESS = pa.struct(
    [
        ("kind", pa.int8()),  # featurelib.feature.Witness
        ("levels", pa.int32()),
        ("epoch", pa.int64()),
        ("at", pa.int64()),
        ("line", pa.int64()),
    ]
)

# Whom DescribeCluster listed. `fenced_shown` = asked at v2 with include_fenced_brokers.
MEMBER = pa.struct([("node_id", NODE), ("fenced", pa.int8())])
MEMBERS = pa.struct(
    [
        ("role", pa.int8()),
        ("fenced_shown", pa.bool_()),
        ("at", pa.int64()),
        ("line", pa.int64()),
        ("members", pa.list_(MEMBER)),
    ]
)

# What one node was configured with when it was asked last: its own (`resource` = its id), or the
# default of all brokers (""). Every key of featurelib.landing.describe has its entry.
CONFIG = pa.struct(
    [
        ("node_id", NODE),  # who was asked
        ("role", pa.int8()),
        ("resource", pa.string()),
        ("key", pa.string()),
        ("value", pa.string()),  # null = not set, or the node knows no such key
        ("source", pa.int8()),  # as in DescribeConfigsResponse; -1 = the key was not in the answer
        ("at", pa.int64()),
        ("line", pa.int64()),
    ]
)

# The releases a listener may be of, by the requests that its newest answer offers.
SOFTWARE = pa.struct(
    [
        ("node_id", NODE),
        ("role", pa.int8()),
        ("releases", pa.string()),  # 4.2, several with ;
        ("at", pa.int64()),
    ]
)

# The lists of a row once more, as bytes for the core (featurelib.snapshot.packed says which).
PACKED = pa.struct(
    [
        (name, pa.binary())
        for name in (
            "names",  # of the features in `ranges` and `levels`, MessagePack
            "profile_sizes",
            "ranges",
            "level_map_sizes",
            "levels",
            "listeners",
            "levels_apart",
            "partial",
            "failed",
            "errors",  # one for each of `failed`, MessagePack
            "registrations",
            "witnesses",
            "members",
            "member",
            "voters",
            "observers",
        )
    ]
)

SNAPSHOT = pa.schema(
    [
        ("cluster", pa.string()),
        ("observed_at", TIME),  # of the newest line of this cluster
        ("profiles", pa.list_(pa.list_(RANGE))),
        ("level_maps", pa.list_(pa.list_(FINALIZED))),
        ("listeners", pa.list_(LISTENER)),
        ("registrations", pa.list_(REGISTRATION)),
        ("witnesses", pa.list_(WITNESS)),
        ("members", pa.list_(MEMBERS)),
        ("voters", pa.list_(NODE)),
        ("observers", pa.list_(NODE)),
        ("quorum_at", pa.int64()),  # 0 = DescribeQuorum was never answered
        ("quorum_line", pa.int64()),
        ("controller", pa.int32()),  # who is the active one, as was said last; -1 = not known
        ("log_end", pa.int64()),  # offsets below it are all known; 0 = the log proves nothing
        ("log_at", pa.int64()),
        ("migration", pa.int8()),  # ZK_MIGRATION_STATE_RECORD; -1 = never seen
        ("features_node", pa.string()),  # the stored text, untouched; null = absent or never read
        ("features_node_at", pa.int64()),  # 0 = never read
        ("features_node_line", pa.int64()),
        ("features_node_version", pa.int64()),
        ("zookeeper", pa.bool_()),  # some znode of this cluster was read
        # What the fold saw and could not put in a column (featurelib.audit.oddities).
        ("oddities", pa.list_(pa.string())),
        # Null = written by a release that knew of none. Not packed: a cluster has few.
        ("configs", pa.list_(CONFIG)),
        # Null = written by a release that did not look. A listener is left out whose offer is that
        # of no release in the catalogue.
        ("software", pa.list_(SOFTWARE)),
        ("packed", PACKED),
        ("state", pa.binary()),  # what the next fold needs and the core does not
    ]
)

# A record of the metadata log that the last fold applied for the first time. `is_level` = it
# finalized `feature` at `high`; else node (role, node_id) registered supporting low..high.
CHANGE = pa.struct(
    [
        ("run", pa.int64()),
        ("offset", pa.int64()),
        ("at", TIME),
        ("line", pa.int64()),
        ("is_level", pa.bool_()),
        ("node_id", NODE),
        ("feature", pa.string()),
        ("low", LEVEL),
        ("high", LEVEL),
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
