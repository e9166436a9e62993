"""The table in data/samples/README.md is what the audit really says about the samples."""

from __future__ import annotations

import hashlib
import tomllib
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from featurelib.audit.audit import Judged, judge
from featurelib.audit.evidence import Conditions
from featurelib.catalogue import load as load_catalogue
from featurelib.core.dialect import load as load_dialect
from featurelib.landing import Landing, read
from featurelib.snapshot import ClusterState, fold_lines, snapshot_rows

SAMPLES = Path(__file__).parents[2] / "data" / "samples"
NAMES: dict[str, str] = {
    entry["id"]: entry["name"]
    for entry in tomllib.loads((SAMPLES / "fleet.toml").read_text(encoding="utf-8"))["cluster"]
}
HOUR = 3_600_000_000


def read_samples() -> pa.RecordBatch:
    """Every sample as a snapshot row, in the order of the folders."""
    rows: list[tuple[str, ClusterState]] = []
    for path in sorted(SAMPLES.glob("*/landing.jsonl")):
        lines: list[tuple[Landing, int]] = []
        for raw in path.read_bytes().splitlines():
            line = read(raw)
            assert isinstance(line, Landing), line
            line_id = int.from_bytes(hashlib.sha256(raw).digest()[:8], "big", signed=True)
            lines.append((line, line_id))
        rows.append((lines[0][0].cluster, fold_lines(lines, load_catalogue())))
    return snapshot_rows(rows)


@pytest.fixture(scope="module")
def judged() -> Judged:
    batch = read_samples()
    newest = max(batch.column("observed_at").cast(pa.int64()).to_pylist())
    conditions = Conditions(as_of=newest, max_age=72 * HOUR)
    return judge(batch, conditions, load_catalogue(), load_dialect("strict"))


def counted(words: list[str]) -> str:
    said = [f"{word} {n}" if n > 1 else word for word, n in sorted(Counter(words).items())]
    return ", ".join(said) or "none"


def rows_of(judged: Judged) -> list[str]:
    readiness, findings = judged.readiness.to_pylist(), judged.findings.to_pylist()
    rows = []
    for plan in judged.plans.to_pylist():
        cluster = plan["cluster"]
        verdicts = Counter(r["verdict"] for r in readiness if r["cluster"] == cluster)
        features = ", ".join(f"{verdict} {n}" for verdict, n in sorted(verdicts.items())) or "none"
        codes = counted([f["code"] for f in findings if f["cluster"] == cluster])
        cells = [f"`{NAMES[cluster]}`", plan["verdict"], plan["phase"], features, codes]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def test_the_readme_says_what_the_audit_says(judged: Judged) -> None:
    lines = (SAMPLES / "README.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("| `")] == rows_of(judged)


def test_every_sample_is_named_and_told(judged: Judged) -> None:
    folders = {path.parent.name for path in SAMPLES.glob("*/landing.jsonl")}
    stories = (SAMPLES / "README.md").read_text(encoding="utf-8").partition("## Their stories")[2]
    assert set(NAMES.values()) == folders
    assert [name for name in folders if f"`{name}`" not in stories] == []
