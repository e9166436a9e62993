"""What only the pages of a report need from the tables: evidence, histories, the night before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import functions as F

from featurelib.configuration.fleet import Fleet
from featurelib.core import evidence
from featurelib.core.dialect import STRICT, load
from featurelib.core.evidence import Conditions, Evidence
from featurelib.feature import Verdict
from featurelib.snapshot.unpacked import unpack
from featurelib.spark.judging import CORE_COLUMNS, with_expected
from featurelib.spark.store import Store
from featurelib.tables import CLUSTER_SNAPSHOT, FINALIZED_FEATURES, UPGRADE_PLANS

BATCH_CLUSTERS = 2000
HISTORY = ["cluster", "observed_at", "line_id", "witness", "epoch", "feature", "level"]


def read_evidence(
    store: Store, fleet: Fleet, conditions: Conditions, clusters: Sequence[str]
) -> Iterator[Evidence]:
    """The evidence of these clusters, in batches."""
    rows = with_expected(store.read(CLUSTER_SNAPSHOT).select(*CORE_COLUMNS), fleet)
    table = rows.filter(F.col("cluster").isin(list(clusters))).toArrow()
    absent = load(STRICT).can.absent_metadata_version
    for batch in table.combine_chunks().to_batches(max_chunksize=BATCH_CLUSTERS):
        yield evidence.read(unpack(batch), conditions, absent)


def read_history(store: Store, clusters: Sequence[str]) -> pa.Table:
    """All that was ever said to be finalized in these clusters: the columns of HISTORY."""
    said = store.read(FINALIZED_FEATURES).select(*HISTORY)
    return said.filter(F.col("cluster").isin(list(clusters))).toArrow()


def verdicts_before(store: Store, run: int) -> dict[Verdict, int] | None:
    """How many clusters had which verdict in the newest run before `run`; None for the first."""
    plans = store.read(UPGRADE_PLANS).filter(F.col("run") < F.lit(run))
    newest = plans.agg(F.max("run").alias("run")).collect()[0].run
    if newest is None:
        return None
    rows = plans.filter(F.col("run") == F.lit(newest)).groupBy("verdict").count().collect()
    counts = Counter({Verdict(row["verdict"]): row["count"] for row in rows})
    return {verdict: counts[verdict] for verdict in Verdict}
