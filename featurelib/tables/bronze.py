"""Bronze: every landing line once, by content, with what is wrong with it."""

from __future__ import annotations

import pyarrow as pa

from featurelib.schema import TIME
from featurelib.tables.table import Table

LANDING_LINE = Table(
    layer="bronze",
    name="landing_line",
    comment="Every landing line once, by content. A null reason means valid, a text quarantined.",
    grain=("content_hash",),
    schema=pa.schema(
        [
            ("run", pa.int64()),
            ("content_hash", pa.binary()),  # SHA-256 of raw
            ("line_id", pa.int64()),
            ("source_file", pa.string()),
            ("line_number", pa.int64()),  # from 1
            ("kind", pa.string()),
            ("cluster", pa.string()),
            ("observed_at", TIME),
            ("reason", pa.string()),
            ("raw", pa.binary()),
        ]
    ),
    required=frozenset({"run", "content_hash", "line_id", "source_file", "line_number", "raw"}),
)

FILE = pa.struct([("source_file", pa.string()), ("size", pa.int64()), ("modified_at", TIME)])

INGEST_RUN = Table(
    layer="bronze",
    name="ingest_run",
    comment="One row a run: the files it read, and lines = accepted + repeated + quarantined.",
    grain=("run",),
    schema=pa.schema(
        [
            ("run", pa.int64()),
            ("landing", pa.string()),
            ("files", pa.list_(FILE)),
            ("lines", pa.int64()),
            ("accepted", pa.int64()),
            ("repeated", pa.int64()),
            ("quarantined", pa.int64()),
        ]
    ),
    required=frozenset({"run", "landing", "lines", "accepted", "repeated", "quarantined"}),
)

TABLES = (LANDING_LINE, INGEST_RUN)
