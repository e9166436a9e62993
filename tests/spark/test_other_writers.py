"""Tables that another writer changed between two runs: the next run says so and heals, or reads."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from featurelib.snapshot.records import MALFORMED
from featurelib.tables import (
    ALL,
    BRONZE,
    CLUSTER_SNAPSHOT,
    FEATURE_READINESS,
    GOLD,
    LANDING_LINE,
    NODE_ADVERTISEMENT,
    Table,
)
from tests.spark.nights import RUN, SAMPLES, Row, all_tables, open_table, rows_of, run_job

pytestmark = pytest.mark.spark

NAMES = ("ghost-broker", "k39-dynamic", "k37-forgotten", "k40-fresh", "zk-392-many")
MANY = "source_file LIKE '%k39%' OR source_file LIKE '%many%'"


class Nights:
    """A folder of tables, and the runs over its landing folder."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.tables, self.landing, self._capfd, self._run = folder / "t", folder / "l", capfd, RUN

    def land(self, name: str, lines: list[bytes]) -> None:
        self.landing.mkdir(exist_ok=True)
        (self.landing / f"{name}.jsonl").write_bytes(b"\n".join(lines))

    def run(self, job: str = "nightly", code: int = 0) -> str:
        """Run a job; return its messages."""
        self._run += 1
        words = ["--tables", self.tables, "--run", self._run]
        words += ["--landing", self.landing] if job == "nightly" else []
        words += ["--as-of", "newest"] if job != "refine" else []
        assert run_job(job, *words[: 2 if job == "refine" else None]) == code
        return self._capfd.readouterr().err

    def open(self, table: Table) -> DeltaTable:
        return open_table(self.tables, table)

    def all(self) -> dict[str, list[Row]]:
        return all_tables(self.tables)


@pytest.fixture
def nights(session: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Nights:
    found = Nights(tmp_path, capfd)
    for name in NAMES:
        found.land(name, (SAMPLES / name / "landing.jsonl").read_bytes().splitlines())
    found.run()
    return found


def by_spark(words: str) -> Callable[[Nights, SparkSession], object]:
    return lambda nights, session: session.sql(words.replace("TABLES", f"{nights.tables}"))


SNAPSHOTS, LINES = (f"delta.`TABLES/{table.path}`" for table in (CLUSTER_SNAPSHOT, LANDING_LINE))
FOLDED_AGAIN = "All clusters are folded again from bronze."
READ_AGAIN = "Lines may be missing in it, so all landing files are read again."
HARMS = {
    "rows of silver deleted by Spark": (
        by_spark(f"DELETE FROM {SNAPSHOTS} WHERE cluster > 'a'"),
        "warning: table silver.cluster_snapshot: another writer changed it (DELETE in version 2). "
        + FOLDED_AGAIN,
    ),
    "rows of silver deleted by deltalake": (
        lambda nights, _: nights.open(CLUSTER_SNAPSHOT).delete("cluster > 'a'"),
        "warning: table silver.cluster_snapshot: another writer changed it (DELETE in version 2). "
        + FOLDED_AGAIN,
    ),
    "silver restored to version 0": (
        by_spark(f"RESTORE TABLE {SNAPSHOTS} TO VERSION AS OF 0"),
        "warning: table silver.cluster_snapshot: another writer changed it (RESTORE in version 2). "
        + FOLDED_AGAIN,
    ),
    "a history emptied": (
        lambda nights, _: nights.open(NODE_ADVERTISEMENT).delete(),
        "warning: table silver.node_advertisement: another writer changed it (DELETE in version "
        "2). " + FOLDED_AGAIN,
    ),
    "bronze restored to version 0": (
        by_spark(f"RESTORE TABLE {LINES} TO VERSION AS OF 0"),
        "warning: table bronze.landing_line: another writer changed it (RESTORE in version 2). "
        + READ_AGAIN,
    ),
    "bronze without its newest commit": (
        lambda nights, _: max(
            (nights.tables / LANDING_LINE.path).glob("_delta_log/*.json")
        ).unlink(),
        "warning: table bronze.landing_line: its newest run is none, and bronze.ingest_run knows "
        f"run {RUN + 1}. " + READ_AGAIN,
    ),
    "rows of bronze deleted by deltalake": (
        lambda nights, _: nights.open(LANDING_LINE).delete(MANY),
        "warning: table bronze.landing_line: another writer changed it (DELETE in version 2). "
        + READ_AGAIN,
    ),
    "rows of bronze deleted by Spark": (
        by_spark(f"DELETE FROM {LINES} WHERE {MANY}"),
        "warning: table bronze.landing_line: another writer changed it (DELETE in version 2). "
        + READ_AGAIN,
    ),
}


@pytest.mark.parametrize("name", HARMS)
def test_the_next_run_says_what_another_writer_changed_and_heals_it(
    nights: Nights, session: SparkSession, name: str
) -> None:
    before, (harm, message) = nights.all(), HARMS[name]
    harm(nights, session)
    assert message in nights.run().splitlines()
    assert nights.all() == before
    assert "warning" not in nights.run()
    assert nights.all() == before


def test_a_restored_snapshot_never_makes_a_feature_ready(
    nights: Nights, session: SparkSession
) -> None:
    """Brokers of the second night support less than those of the first."""

    def verdicts() -> dict[object, object]:
        newest = max(row["run"] for row in rows_of(nights.tables, FEATURE_READINESS, without=()))
        rows = rows_of(nights.tables, FEATURE_READINESS, run=newest)
        return {(row["cluster"], row["feature"]): row["verdict"] for row in rows}

    first, folder = verdicts(), nights.tables / CLUSTER_SNAPSHOT.path
    shutil.copytree(folder, backup := nights.tables.parent / "backup")
    narrow = []
    for line in (SAMPLES / "k37-forgotten" / "landing.jsonl").read_bytes().splitlines():
        later = json.loads(line.replace(b"2026-11-21T", b"2026-11-22T"))
        for feature in later.get("supported_features") or ():
            feature["max_version"] = min(13, feature["max_version"])  # 11 is finalized
        narrow.append(json.dumps(later).encode())
    nights.land("later", narrow)
    nights.run()
    second = verdicts()
    cluster = json.loads(narrow[0])["cluster_id"], "metadata.version"
    assert (first[cluster], second[cluster]) == ("READY", "BLOCKED")
    session.sql(f"RESTORE TABLE delta.`{folder}` TO VERSION AS OF 1")
    nights.run("audit", code=2)
    assert "(RESTORE in version 3). All clusters are folded" in nights.run()
    assert verdicts() == second
    shutil.rmtree(folder)
    backup.rename(folder)
    nights.run("audit", code=2)
    assert "and silver.node_advertisement knows run" in nights.run("refine")
    nights.run("audit")
    assert verdicts() == second


def test_bronze_of_a_backup_reads_its_lines_again(nights: Nights) -> None:
    before = nights.all()
    folder = nights.tables / LANDING_LINE.path
    shutil.copytree(folder, backup := nights.tables.parent / "backup")
    nights.land("later", [b"no landing line"])
    nights.run()
    shutil.rmtree(folder)
    backup.rename(folder)
    (nights.landing / "later.jsonl").unlink()
    warnings = nights.run()
    assert f"its newest run is {RUN + 1}, and bronze.ingest_run knows run {RUN + 2}" in warnings
    assert "1 file of earlier runs is not there any more" in warnings
    assert nights.all() == before


def test_what_deltalake_rewrites_and_keeps_is_read(nights: Nights) -> None:
    """Its OPTIMIZE keeps every row; its DELETE writes a form of text that Arrow cannot compare."""
    before = nights.all()
    for table in ALL:
        nights.open(table).optimize.compact()
        nights.open(table).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert "warning" not in nights.run()
    assert nights.all() == before
    for table in (*BRONZE, *GOLD):
        column = "source_file" if table is LANDING_LINE else "run"
        nights.open(table).delete(f"{column} = {'1' if column == 'run' else repr('x')}")
        nights.open(table).update(updates={column: column}, predicate=f"{column} IS NOT NULL")
    nights.run()
    assert nights.all() == before


def test_a_cluster_with_accepted_lines_and_no_snapshot_is_unknown(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing says why the row is gone: the cluster stays in the report for as long as it is."""
    nights.open(CLUSTER_SNAPSHOT).delete("cluster > 'a'")
    monkeypatch.setattr("featurelib.spark.store.Store.find_change", lambda *_: None)
    for _ in range(2):
        assert "warning: 2 clusters lost in silver.cluster_snapshot: UNKNOWN" in nights.run("audit")
        found = nights.all()
        assert len(found["gold.upgrade_plan"]) == len(NAMES)
        details = [row["detail"] for row in found["gold.finding"] if row["code"] == MALFORMED]
        assert details == 2 * [
            "it is missing, and bronze.landing_line has accepted lines of the cluster"
        ]


@pytest.mark.usefixtures("either_way")
def test_a_line_that_is_not_its_hash_is_left_out_and_named(nights: Nights) -> None:
    wrong = "zk-392-many"
    raw = nights.open(LANDING_LINE).to_pyarrow_table()
    damaged = [row for row in raw.to_pylist() if wrong in row["source_file"]]
    nights.open(LANDING_LINE).update(
        updates={"raw": "encode('{}', 'base64')"}, predicate=f"source_file LIKE '%{wrong}%'"
    )
    nights.open(CLUSTER_SNAPSHOT).delete()
    warnings = nights.run("refine")
    first = min(f"{row['source_file']}:{row['line_number']}" for row in damaged)
    assert (
        f"warning: table bronze.landing_line: {len(damaged)} lines left out, because the bytes in "
        f"`raw` are not those of `content_hash`; the first is {first}."
    ) in warnings
    clusters = {row["cluster"] for row in rows_of(nights.tables, CLUSTER_SNAPSHOT)}
    assert clusters == {row["cluster"] for row in raw.to_pylist()} - {damaged[0]["cluster"]}
    assert "warning: 1 cluster lost" in nights.run("audit")
