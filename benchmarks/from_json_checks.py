"""The checks of featurelib.landing as native Spark: from_json, and conditions on what it gives.

Of keys that stand twice and lone surrogates from_json sees nothing; try_parse_json, which reads the
line once more, refuses them. What neither sees (tried): text after the document, how deep a line is
nested, a number where a text belongs, null for a key that is missing; nor is the number of the line
in its file known. It says that a line is bad, not why. A condition that gives null is not met.
"""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

INT16, INT32 = 2**15 - 1, 2**31 - 1
MAX_BYTES = 8 * 1024 * 1024

_RANGES = "array<struct<name: string, min_version: bigint, max_version: bigint>>"
_LEVELS = "array<struct<name: string, max_version_level: bigint, min_version_level: bigint>>"
_KEY = ("api_key", "min_version", "max_version")
_API_KEYS = f"array<struct<{', '.join(f'{name}: bigint' for name in _KEY)}>>"
_REPLICAS = "array<struct<replica_id: bigint>>"
_PARTITION = (
    "struct<partition_index: bigint, error_code: bigint, leader_id: bigint, leader_epoch: bigint,"
    f" high_watermark: bigint, current_voters: {_REPLICAS}, observers: {_REPLICAS}>"
)
_ANSWER = (
    "struct<error_code: bigint, controller_id: bigint,"
    " brokers: array<struct<broker_id: bigint, is_fenced: boolean>>,"
    f" topics: array<struct<topic_name: string, partitions: array<{_PARTITION}>>>>"
)
LINE = (
    "kind string, cluster_id string, observed_at string, node_id bigint, role string,"
    " endpoint string, asked_version bigint, answered_version bigint, error_code bigint,"
    f" supported_features {_RANGES}, finalized_features_epoch bigint,"
    f" finalized_features {_LEVELS}, zk_migration_ready boolean,"
    f" api_keys {_API_KEYS}, error string,"
    " asked_node bigint, listener string, version bigint, endpoint_type bigint,"
    f" include_fenced_brokers boolean, why string, answer {_ANSWER},"
    " path string, czxid bigint, data string, line_number bigint, line string, broken string"
)
TIME = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:?\d{2})$"
FIRST, END = "2000-01-01 00:00:00", "2201-01-01 00:00:00"  # UTC, as the session is
ROLES = ("broker", "controller")
CONTROL = r"[\x00-\x1f\x7f-\x9f]"
PATHS = r"^/(features?|controller(_epoch)?|cluster/id|migration|brokers/ids(/(0|[1-9]\d{0,9}))?)$"
OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": "broken",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}


def check_lines(lines: DataFrame) -> DataFrame:
    """`value` in; what ingest keeps of a line out, `valid` in place of a reason."""
    parsed = lines.select("value", F.from_json("value", LINE, OPTIONS).alias("said"))
    said = parsed.select("value", "said.*", F.try_to_timestamp("said.observed_at").alias("at"))
    return said.select(
        F.sha2("value", 256).alias("content_hash"),
        "kind",
        F.col("cluster_id").alias("cluster"),
        F.col("at").alias("observed_at"),
        F.coalesce(_valid(), F.lit(False)).alias("valid"),
        "value",
    )


def _valid() -> Column:
    cluster = F.length("cluster_id").between(1, 255) & ~F.col("cluster_id").rlike(CONTROL)
    envelope = F.col("broken").isNull() & (F.octet_length("value") <= MAX_BYTES) & cluster
    timed = F.col("observed_at").rlike(TIME) & (F.col("at") >= FIRST) & (F.col("at") < END)
    of_kind = (
        F.when(F.col("kind") == "api_versions", timed & _api_versions())
        .when(F.col("kind") == "describe_cluster", _answered(timed, _members()))
        .when(F.col("kind") == "describe_quorum", _answered(timed, _quorum()))
        .when(F.col("kind") == "znode", timed & _znode())
        .when(
            F.col("kind").isin("metadata_log", "features_describe"),
            timed & (F.col("line_number") >= 1) & F.col("line").isNotNull(),
        )
    )
    # Last, so that only a line that is good so far is read once more.
    strict = F.is_valid_utf8("value") & F.try_parse_json("value").isNotNull()
    return envelope & of_kind & strict


def _znode() -> Column:
    return (
        F.col("path").rlike(PATHS)
        & _between_or_null("version", 0, INT32)
        & (F.col("czxid").isNull() | (F.col("czxid") >= 0))
        & (F.col("version").isNotNull() | F.col("data").isNull())
    )


def _api_versions() -> Column:
    asked = (
        F.col("node_id").between(0, INT32)
        & F.col("role").isin(*ROLES)
        & (F.length("endpoint") > 0)
        & F.col("asked_version").between(0, 5)
        & _between_or_null("answered_version", 0, 5)
        & _between_or_null("error_code", -INT16 - 1, INT16)
    )
    ranges, levels = F.col("supported_features"), F.col("finalized_features")
    answer = (
        F.col("error").isNull()
        & (F.col("finalized_features_epoch") >= -1)
        & _good_ranges(ranges, "min_version", "max_version")
        & _good_ranges(levels, "min_version_level", "max_version_level")
    )
    failed = F.coalesce(F.col("error_code"), F.lit(0)) != 0
    nothing = ranges.isNull() & levels.isNull() & F.col("finalized_features_epoch").isNull()
    silence = nothing & ((F.length("error") > 0) | (F.col("error").isNull() & failed))
    keys = F.col("api_keys").isNull() | F.forall("api_keys", _good_key)
    return asked & keys & (F.coalesce(answer, F.lit(False)) | silence)


def _good_key(key: Column) -> Column:
    numbers = (key[name].between(-INT16 - 1, INT16) for name in _KEY)
    return reduce(and_, numbers)


def _good_ranges(entries: Column, first: str, last: str) -> Column:
    """Names of 1 to 32767 bytes, none twice; 0 to 32767, ascending."""

    def good(entry: Column) -> Column:
        ascends = (entry[first] >= 0) & (entry[first] <= entry[last]) & (entry[last] <= INT16)
        return F.octet_length(entry["name"]).between(1, INT16) & ascends

    names = F.array_distinct(entries.getField("name"))
    return F.forall(entries, good) & (F.size(names) == F.size(entries))


def _answered(timed: Column, answer: Column) -> Column:
    asked = (
        F.col("asked_node").between(0, INT32)
        & F.col("listener").isin(*ROLES)
        & _between_or_null("version", 0, 2)
        & _between_or_null("endpoint_type", 1, 2)
    )
    silent = F.col("answer").isNull() & ((F.length("error") > 0) | F.col("why").isNotNull())
    said = timed & F.col("error").isNull() & F.col("version").isNotNull() & answer
    return asked & (silent | F.coalesce(said, F.lit(False)))


def _members() -> Column:
    brokers = F.col("answer.brokers")
    ids = brokers.getField("broker_id")
    return (
        F.col("answer.error_code").between(-INT16 - 1, INT16)
        & F.col("answer.controller_id").between(-1, INT32)
        & F.forall(ids, lambda node: node.between(0, INT32))
        & (F.size(F.array_distinct(ids)) == F.size(ids))
    )


def _quorum() -> Column:
    def good(replica: Column) -> Column:
        return replica["replica_id"].between(0, INT32)

    def whole(partition: Column) -> Column:
        return (
            partition["partition_index"].between(0, INT32)
            & partition["error_code"].between(-INT16 - 1, INT16)
            & partition["leader_id"].between(-1, INT32)
            & partition["leader_epoch"].between(-1, INT32)
            & (partition["high_watermark"] >= -1)
            & F.forall(partition["current_voters"], good)
            & F.forall(partition["observers"], good)
        )

    def metadata(topic: Column) -> Column:
        return (topic["topic_name"] == "__cluster_metadata") & F.exists(
            topic["partitions"], lambda partition: partition["partition_index"] == 0
        )

    topics = F.col("answer.topics")
    return (
        F.col("answer.error_code").between(-INT16 - 1, INT16)
        & F.forall(topics, lambda topic: F.forall(topic["partitions"], whole))
        & ((F.col("answer.error_code") != 0) | F.exists(topics, metadata))
    )


def _between_or_null(name: str, least: int, most: int) -> Column:
    return F.col(name).isNull() | F.col(name).between(least, most)
