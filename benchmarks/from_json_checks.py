"""The checks of featurelib.landing as native Spark: from_json, and conditions on what it gives.

What it cannot see (tried): a key that stands twice, text after the document, broken UTF-8 (replaced
before anybody looks), lone surrogates, how deep a line is nested; nor does it know the number of
the line in its file. It says that a line is bad, not why.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

INT16, INT32 = 2**15 - 1, 2**31 - 1

_RANGES = "array<struct<name: string, min_version: bigint, max_version: bigint>>"
_LEVELS = "array<struct<name: string, max_version_level: bigint, min_version_level: bigint>>"
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
    f" finalized_features {_LEVELS}, zk_migration_ready boolean, error string,"
    " asked_node bigint, listener string, version bigint, endpoint_type bigint,"
    f" include_fenced_brokers boolean, why string, answer {_ANSWER},"
    " path string, czxid bigint, data string, line_number bigint, line string, broken string"
)
TIME = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:?\d{2})$"
ROLES = ("broker", "controller")


def check_lines(lines: DataFrame) -> DataFrame:
    """`value` in; what ingest keeps of a line out, `valid` in place of a reason."""
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "broken"}
    parsed = lines.select("value", F.from_json("value", LINE, options).alias("said"))
    said = parsed.select("value", "said.*")
    at = F.try_to_timestamp("observed_at")
    return said.select(
        F.sha2("value", 256).alias("content_hash"),
        "kind",
        F.col("cluster_id").alias("cluster"),
        at.alias("observed_at"),
        F.coalesce(_valid(at), F.lit(False)).alias("valid"),
        "value",
    )


def _valid(at: Column) -> Column:
    cluster = F.length("cluster_id").between(1, 255) & ~F.col("cluster_id").rlike(r"\p{Cntrl}")
    envelope = F.col("broken").isNull() & cluster
    timed = F.col("observed_at").rlike(TIME) & F.year(at).between(2000, 2200)
    of_kind = (
        F.when(F.col("kind") == "api_versions", timed & _api_versions())
        .when(F.col("kind") == "describe_cluster", _answered(timed, _members()))
        .when(F.col("kind") == "describe_quorum", _answered(timed, _quorum()))
        .when(F.col("kind") == "znode", timed & (F.length("path") > 0))
        .when(
            F.col("kind").isin("metadata_log", "features_describe"),
            timed & (F.col("line_number") >= 1) & F.col("line").isNotNull(),
        )
    )
    return envelope & of_kind


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
    silence = ranges.isNull() & levels.isNull() & (F.col("error").isNotNull() | failed)
    return asked & (F.coalesce(answer, F.lit(False)) | silence)


def _good_ranges(entries: Column, first: str, last: str) -> Column:
    """Names of 1 to 32767 bytes, none twice; 0 to 32767, ascending."""

    def good(entry: Column) -> Column:
        ascends = entry[first].between(0, INT16) & entry[last].between(0, INT16)
        named = F.octet_length(entry["name"]).between(1, INT16)
        return F.coalesce(named & ascends & (entry[first] <= entry[last]), F.lit(False))

    names = F.transform(entries, lambda entry: entry["name"])
    return F.forall(entries, good) & (F.size(F.array_distinct(names)) == F.size(entries))


def _answered(timed: Column, answer: Column) -> Column:
    asked = F.col("asked_node").between(0, INT32) & F.col("listener").isin(*ROLES)
    silent = F.col("answer").isNull() & (F.col("error").isNotNull() | F.col("why").isNotNull())
    said = timed & F.col("error").isNull() & F.col("version").between(0, 2) & answer
    return asked & (silent | F.coalesce(said, F.lit(False)))


def _members() -> Column:
    brokers = F.col("answer.brokers")
    ids = F.transform(brokers, lambda broker: broker["broker_id"])
    return (
        F.col("answer.error_code").between(-INT16 - 1, INT16)
        & F.col("answer.controller_id").between(-1, INT32)
        & _between_or_null("endpoint_type", 1, 2)
        & F.forall(ids, lambda node: F.coalesce(node.between(0, INT32), F.lit(False)))
        & (F.size(F.array_distinct(ids)) == F.size(ids))
    )


def _quorum() -> Column:
    def good(replica: Column) -> Column:
        return F.coalesce(replica["replica_id"].between(0, INT32), F.lit(False))

    def whole(partition: Column) -> Column:
        said = (
            partition["partition_index"].between(0, INT32)
            & partition["error_code"].between(-INT16 - 1, INT16)
            & partition["leader_id"].between(-1, INT32)
            & partition["leader_epoch"].between(-1, INT32)
            & (partition["high_watermark"] >= -1)
            & F.forall(partition["current_voters"], good)
            & F.forall(partition["observers"], good)
        )
        return F.coalesce(said, F.lit(False))

    def metadata(topic: Column) -> Column:
        return (topic["topic_name"] == "__cluster_metadata") & F.exists(
            topic["partitions"], lambda partition: partition["partition_index"] == 0
        )

    topics = F.col("answer.topics")
    return (
        F.col("answer.error_code").between(-INT16 - 1, INT16)
        & F.forall(topics, lambda topic: F.forall(topic["partitions"], whole))
        & F.exists(topics, metadata)
    )


def _between_or_null(name: str, least: int, most: int) -> Column:
    return F.col(name).isNull() | F.col(name).between(least, most)
