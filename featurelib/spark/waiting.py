"""What the night before knew to be READY, and since when: read once, for the workers."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
from pyspark.sql import functions as F

from featurelib.core.evidence import Waiting
from featurelib.spark.store import Store
from featurelib.tables import AUDIT_RUN, FEATURE_READINESS

COLUMNS = ("cluster", "feature", "ready_since", "finalized_level")


def read_waiting(store: Store) -> tuple[dict[str, dict[str, Waiting]], dict[str, int]]:
    """By cluster and feature, of the newest night that ended; and the version of the table read.

    Both are empty where no night ended before.
    """
    newest = store.newest_run(AUDIT_RUN)
    if newest is None:
        return {}, {}
    inputs = {FEATURE_READINESS.full_name: store.version(FEATURE_READINESS)}
    rows = store.read(FEATURE_READINESS, *inputs.values()).filter(F.col("run") == newest)
    table = rows.filter(F.col("ready_since").isNotNull()).select(*COLUMNS).toArrow()
    since = table.column("ready_since").cast(pa.int64()).to_pylist()
    names, features, levels = (
        table.column(name).to_pylist() for name in ("cluster", "feature", "finalized_level")
    )
    found: dict[str, dict[str, Waiting]] = defaultdict(dict)
    for cluster, feature, at, level in zip(names, features, since, levels, strict=True):
        found[cluster][feature] = Waiting(since=at, level=level)
    return dict(found), inputs
