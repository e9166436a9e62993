"""Nights of the samples as Delta tables, written without Spark from what the core judges."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from featurelib.arrow import schema_of, table_of
from featurelib.audit.audit import Judged, judge
from featurelib.audit.cluster_view import ClusterView, Inputs
from featurelib.audit.evidence import Conditions
from featurelib.catalogue import load as load_catalogue
from featurelib.core.dialect import load as load_dialect
from featurelib.landing import Landing, read
from featurelib.rows import TableRows, join_rows
from featurelib.snapshot import begin
from featurelib.snapshot.history import Learned, history_rows, pack
from featurelib.tables import (
    AUDIT_RUN,
    CLUSTER_SNAPSHOT,
    FEATURE_READINESS,
    FINALIZED_FEATURES,
    FINDINGS,
    INCOMPATIBLE_BROKERS,
    LANDING_LINE,
    NODE_ADVERTISEMENT,
    UPGRADE_PLANS,
    Table,
)
from tests.report.samples import HOURS_72, SAMPLES, read_samples
from tests.rows import make, newest
from tests.seeing import see

CATALOGUE = load_catalogue()
RUN = 20261121080000
TERMS = Inputs(catalogue=CATALOGUE, as_of=None, max_age=HOURS_72)
NAMES = sorted(path.parent.name for path in SAMPLES.glob("*/landing.jsonl"))
PARTS = {
    "findings": FINDINGS,
    "incompatible": INCOMPATIBLE_BROKERS,
    "readiness": FEATURE_READINESS,
    "plans": UPGRADE_PLANS,
}


def lines_of(name: str) -> list[bytes]:
    return (SAMPLES / name / "landing.jsonl").read_bytes().splitlines()


@cache
def view(name: str) -> ClusterView:
    """A sample as of its newest line."""
    return see(lines_of(name), catalogue=CATALOGUE, as_of=None, max_age=HOURS_72)


def append(root: Path, table: Table, rows: pa.Table, mode: str = "append") -> None:
    """Add rows, as the nightly's store does, the table's own version property included."""
    path, is_new = root / table.path, not (root / table.path).exists()
    schema = schema_of(table.schema)
    for name in set(schema.names) - set(rows.column_names):  # texts for SQL
        rows = rows.append_column(name, pa.nulls(rows.num_rows, schema.field(name).type))
    write_deltalake(str(path), rows.select(schema.names).cast(schema), mode=mode)
    if is_new:  # deltalake writes no property that it does not know
        log = path / "_delta_log" / f"{0:020}.json"
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for action in actions:
            if "metaData" in action:
                action["metaData"]["configuration"]["featurelib.tableVersion"] = str(table.version)
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))


def with_run(rows: pa.Table, run: int) -> pa.Table:
    return rows.add_column(0, "run", pa.repeat(pa.scalar(run, pa.int64()), rows.num_rows))


def write_night(
    root: Path, run: int, batch: TableRows, judged: Judged | None = None, **about: Any
) -> None:
    """The gold tables and the snapshots of one night; `about` are columns of its audit_run."""
    if judged is None:
        conditions = Conditions(as_of=newest(batch), max_age=HOURS_72)
        judged = judge(batch, conditions, CATALOGUE, load_dialect("strict"))
    for part, table in PARTS.items():
        append(root, table, with_run(table_of(getattr(judged, part)), run))
    rows = with_run(table_of(batch), run)
    rows = rows.append_column("learned", pa.nulls(rows.num_rows, pa.binary()))
    append(root, CLUSTER_SNAPSHOT, rows, mode="overwrite")
    log = root / CLUSTER_SNAPSHOT.path / "_delta_log"
    night = {
        "run": run,
        "as_of": datetime.fromtimestamp(read_samples().newest / 1e6, UTC),
        "catalogue": CATALOGUE.label,
        "dialect": "strict",
        "inputs": [
            {"table": "silver.cluster_snapshot", "version": len(list(log.glob("*.json"))) - 1}
        ],
    }
    append(root, AUDIT_RUN, table_of(make([night | about], AUDIT_RUN.schema)))


def write_histories(root: Path, run: int, names: Iterable[str] = NAMES) -> None:
    """Bronze's lines and both histories of silver, as ingest and refine make them."""
    packed, bronze = [], []
    for name in names:
        fold, cluster, learned = begin(None, CATALOGUE), "", Learned()
        fold.run, fold.learned = run, learned
        for number, raw in enumerate(lines_of(name), start=1):
            landing, line_id = read(raw), read_samples_id(raw)
            assert isinstance(landing, Landing)
            cluster = landing.cluster
            fold.add(landing, line_id)
            at = landing.observed_at
            bronze.append((line_id, f"samples/{name}/landing.jsonl", number, cluster, at, raw))
        fold.close_run()
        if (statements := pack(learned)) is not None:
            packed.append((cluster, statements))
    for table in (NODE_ADVERTISEMENT, FINALIZED_FEATURES):
        append(root, table, table_of(join_rows(list(history_rows(table, 0, packed)))))
    landed = schema_of(LANDING_LINE.schema)
    columns = list(zip(*bronze, strict=True))
    names_ = ("line_id", "source_file", "line_number", "cluster", "observed_at", "raw")
    arrays = {
        name: pa.array(values, landed.field(name).type)
        for name, values in zip(names_, columns, strict=True)
    }
    rows = {
        field.name: arrays.get(field.name, pa.nulls(len(bronze), field.type)) for field in landed
    }
    append(root, LANDING_LINE, pa.table(rows))


def read_samples_id(raw: bytes) -> int:
    import hashlib

    return int.from_bytes(hashlib.sha256(raw).digest()[:8], "big", signed=True)


def without(batch: TableRows, ids: Sequence[str]) -> TableRows:
    """The rows of other clusters."""
    kept = [name not in ids for name in batch["cluster"].to_pylist()]
    return batch.take(np.flatnonzero(kept))
