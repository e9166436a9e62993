"""Silver: flat histories for people, and one snapshot row a cluster for the core."""

from __future__ import annotations

import pyarrow as pa

from featurelib.schema import CHANGE, LEVEL, NODE, SNAPSHOT, TIME
from featurelib.tables.table import Table, with_run

# Whoever asks for one cluster reads a file or two of a night, and a small one.
_SKIP_BY = ("run", "cluster")
_HISTORY_ROWS, _SNAPSHOT_ROWS = 50_000, 500

_WHO = [
    ("run", pa.int64()),
    ("cluster", pa.string()),
    ("observed_at", TIME),
    ("line_id", pa.int64()),
    ("witness", pa.string()),
    ("node_id", NODE),
    ("epoch", pa.int64()),
]

NODE_ADVERTISEMENT = Table(
    layer="silver",
    name="node_advertisement",
    comment="Which version range of which feature a node said it supports, when, in which line.",
    grain=("line_id", "feature"),
    schema=pa.schema(
        [
            *_WHO,
            ("feature", pa.string()),  # null: it answered, and listed no feature
            ("min_version", LEVEL),
            ("max_version", LEVEL),
        ]
    ),
    required=frozenset({"run", "cluster", "observed_at", "line_id", "witness"}),
    skip_by=_SKIP_BY,
    sort_by=("cluster",),
    file_rows=_HISTORY_ROWS,
)

FINALIZED_FEATURES = Table(
    layer="silver",
    name="finalized_features",
    comment="Which level of which feature a witness said is finalized, at which epoch.",
    grain=("line_id", "feature"),
    schema=pa.schema(
        [
            *_WHO,
            ("feature", pa.string()),  # null: it answered, and nothing is finalized
            ("min_level", LEVEL),
            ("level", LEVEL),  # 0: this line removed it
        ]
    ),
    required=frozenset({"run", "cluster", "observed_at", "line_id", "witness"}),
    skip_by=_SKIP_BY,
    sort_by=("cluster",),
    file_rows=_HISTORY_ROWS,
)

CLUSTER_SNAPSHOT = Table(
    layer="silver",
    name="cluster_snapshot",
    comment="One cluster as everything read so far shows it, as one row; rewritten every night.",
    grain=("cluster",),
    # `changes` feeds the histories with what only a whole log can show; the core does not read it.
    schema=with_run(SNAPSHOT).append(pa.field("changes", pa.list_(CHANGE))),
    required=frozenset({"run", "cluster"}),
    version=2,  # 2: the lists stand in the row packed as well
    skip_by=_SKIP_BY,
    file_rows=_SNAPSHOT_ROWS,  # a fold leaves them sorted by cluster
)

TABLES = (NODE_ADVERTISEMENT, FINALIZED_FEATURES, CLUSTER_SNAPSHOT)
