"""The tables of a nightly: silver's histories and gold of the samples, gold of a made-up fleet."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from benchmarks.facts import Shape, draw
from benchmarks.fleet import write_night
from tests.golden.transcript import REWRITES
from tests.laboratory import LABORATORY
from tests.spark.nights import run_job

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
STORED = Path(__file__).parent / "tables"
RUN = 20261121080000
SILVER = ("silver/node_advertisement", "silver/finalized_features")  # of the samples
GOLD = (
    "gold/finding",
    "gold/incompatible_broker",
    "gold/feature_readiness",
    "gold/upgrade_plan",
    "gold/cluster",
    "gold/node",
    "gold/audit_run",
)
# Files, a folder of their own in each run, and digests of code and of stored rows.
VARIES = ("inputs", "out", "conditions", "checksum")
SHAPE = Shape(clusters=60, nodes=6, features=7, offenders=0.05, ghosts=0.05, disagreeing=0.05)


@pytest.mark.parametrize("fleet", ["samples", "made-up"])
def test_tables_hold_what_they_held(fleet: str, session: SparkSession, tmp_path: Path) -> None:
    landing = LABORATORY
    if fleet == "made-up":
        landing = tmp_path / "landing"
        write_night(draw(SHAPE), landing, files=2)
    places = ["--landing", str(landing), "--tables", str(tmp_path / "tables")]
    places += ["--out", str(tmp_path / "out")]
    assert run_job("nightly", *places, "--as-of", "newest", "--run", RUN) == 0
    for name in (*GOLD, *(SILVER if fleet == "samples" else ())):
        text = _rows(tmp_path / "tables" / name).replace(str(landing), "LANDED")
        stored = STORED / fleet / f"{name.replace('/', '.')}.jsonl"
        if REWRITES:
            stored.parent.mkdir(parents=True, exist_ok=True)
            stored.write_text(text, "utf-8")
        assert text == stored.read_text("utf-8"), name


def _rows(path: Path) -> str:
    """A table as JSON, a line a row, sorted; without what is null or differs from run to run."""
    rows = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    told = [{k: v for k, v in row.items() if v is not None and k not in VARIES} for row in rows]
    lines = [json.dumps(row, default=_text, ensure_ascii=False) for row in told]
    return "".join(f"{line}\n" for line in sorted(lines))


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
