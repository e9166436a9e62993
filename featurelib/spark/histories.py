"""Rows of the two histories, from single lines and from what a whole metadata log taught."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from featurelib.catalogue import load
from featurelib.feature import Witness
from featurelib.landing import Landing, Rejected, read
from featurelib.snapshot.history import History
from featurelib.spark.shapes import arrow_type
from featurelib.tables import FINALIZED_FEATURES, NODE_ADVERTISEMENT

HISTORY_KINDS = ("api_versions", "znode", "features_describe")


def read_valid(raw: bytes) -> Landing:
    """A line that bronze holds as valid; a parser that changed its mind is a fault of ours."""
    line = read(raw)
    if isinstance(line, Rejected):
        raise AssertionError(f"a valid line of bronze is rejected now: {line.reason}")
    return line


def history_of_lines(lines: DataFrame, finalized: bool) -> DataFrame:
    """Rows of a history from single lines: answers, znodes, the tool's output."""
    table = FINALIZED_FEATURES if finalized else NODE_ADVERTISEMENT

    def unfold(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        history = History(finalized, load())
        for batch in batches:
            names = ("run", "line_id", "raw")
            for run, line_id, raw in zip(
                *(batch.column(n).to_pylist() for n in names), strict=True
            ):
                history.add(run, read_valid(raw), line_id)
            if len(history):
                yield history.take()

    kinds = lines.filter(F.col("kind").isin(*HISTORY_KINDS))
    said = kinds.select("run", "line_id", "raw").mapInArrow(unfold, arrow_type(table.schema))
    return said.select(*table.schema.names)


def history_of_changes(changes: DataFrame, since: int, finalized: bool) -> DataFrame:
    """Rows of a history from what the metadata log newly taught, by offset."""
    table = FINALIZED_FEATURES if finalized else NODE_ADVERTISEMENT
    low, high = table.schema.names[-2:]
    wanted = (F.col("is_level") == F.lit(finalized)) & (F.col("run") > F.lit(since))
    return changes.filter(wanted).select(
        "run",
        "cluster",
        F.col("at").alias("observed_at"),
        F.col("line").alias("line_id"),
        F.lit(Witness.METADATA_LOG.name.lower()).alias("witness"),
        "node_id",
        F.col("offset").alias("epoch"),
        "feature",
        F.col("low").alias(low),
        F.col("high").alias(high),
    )
