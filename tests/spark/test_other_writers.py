"""Tables that another writer changed between two runs: the next run says so and heals, or reads."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyarrow import parquet
from pyspark.sql import SparkSession

from featurelib.arrow import table_of
from featurelib.lake import Lake
from featurelib.snapshot.records import MALFORMED, unusable_row
from featurelib.spark import log
from featurelib.spark.store import Store
from featurelib.tables import (
    ALL,
    AUDIT_RUN,
    BRONZE,
    CHANGED,
    CLUSTER_SNAPSHOT,
    FEATURE_READINESS,
    FINDINGS,
    GOLD,
    LANDING_LINE,
    NODE_ADVERTISEMENT,
    UPGRADE_PLANS,
    Table,
)
from tests.facts import first_fact
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
        words += ["--landing", self.landing] if job in ("nightly", "ingest") else []
        words += ["--as-of", "newest"] if job in ("nightly", "audit") else []
        assert run_job(job, *words[: 2 if job == "refine" else None]) == code
        return self._capfd.readouterr().err

    def open(self, table: Table) -> DeltaTable:
        return open_table(self.tables, table)

    def all(self) -> dict[str, list[Row]]:
        return all_tables(self.tables)

    def judged(self) -> dict[object, object]:
        """Return the verdict of each cluster in the newest run."""
        return {row["cluster"]: row["verdict"] for row in self.newest(UPGRADE_PLANS)}

    def void(self) -> list[object]:
        """Return why the newest run could not judge snapshots."""
        return [first_fact(row) for row in self.newest(FINDINGS) if row["code"] == MALFORMED]

    def unchanged(self) -> int:
        """Return the number of clusters of which the newest run took the last results."""
        [row] = self.newest(AUDIT_RUN)
        assert isinstance(row["unchanged"], int)
        return row["unchanged"]

    def newest(self, table: Table) -> list[Row]:
        newest = max(row["run"] for row in rows_of(self.tables, table, without=()))
        return rows_of(self.tables, table, run=newest)


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


def verdicts_of(nights: Nights) -> dict[object, object]:
    """Return the verdicts of the newest run, by cluster and feature."""
    rows = nights.newest(FEATURE_READINESS)
    return {(row["cluster"], row["feature"]): row["verdict"] for row in rows}


def narrower() -> list[bytes]:
    """Return lines of k37-forgotten of a day later, whose nodes support no level above 13."""
    lines = []
    for line in (SAMPLES / "k37-forgotten" / "landing.jsonl").read_bytes().splitlines():
        later = json.loads(line.replace(b"2026-11-21T", b"2026-11-22T"))
        for feature in later.get("supported_features") or ():
            feature["max_version"] = min(13, feature["max_version"])  # 11 is finalized
        lines.append(json.dumps(later).encode())
    return lines


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

    first, folder = verdicts_of(nights), nights.tables / CLUSTER_SNAPSHOT.path
    shutil.copytree(folder, backup := nights.tables.parent / "backup")
    nights.land("later", narrow := narrower())
    nights.run()
    second = verdicts_of(nights)
    cluster = json.loads(narrow[0])["cluster_id"], "metadata.version"
    assert (first[cluster], second[cluster]) == ("READY", "BLOCKED")
    session.sql(f"RESTORE TABLE delta.`{folder}` TO VERSION AS OF 1")
    nights.run("audit", code=2)
    assert "(RESTORE in version 3). All clusters are folded" in nights.run()
    assert verdicts_of(nights) == second
    shutil.rmtree(folder)
    backup.rename(folder)
    nights.run("audit", code=2)
    assert "and silver.node_advertisement knows run" in nights.run("refine")
    nights.run("audit")
    assert verdicts_of(nights) == second


def test_a_cluster_whose_newest_lines_are_lost_is_unknown_until_it_is_collected(
    nights: Nights,
) -> None:
    """A run judged its later lines, and bronze and silver of a backup do not have them."""

    def judged() -> tuple[object, object]:
        of = {"cluster": json.loads(narrow[0])["cluster_id"]}
        [verdict] = {
            row["verdict"]
            for row in nights.newest(FEATURE_READINESS)
            if row | of == row and row["feature"] == "metadata.version"
        }
        found = [row for row in nights.newest(FINDINGS) if row["code"] == "evidence_lost"]
        return verdict, [row["cluster"] for row in found] == [of["cluster"]]

    narrow, backup = narrower(), nights.tables.parent / "backup"
    assert judged() == ("READY", False)
    for layer in ("bronze", "silver"):
        shutil.copytree(nights.tables / layer, backup / layer)
    nights.land("later", narrow)
    nights.run()
    assert judged() == ("BLOCKED", False)
    for layer in ("bronze", "silver"):
        shutil.rmtree(nights.tables / layer)
        (backup / layer).rename(nights.tables / layer)
    (nights.landing / "later.jsonl").unlink()
    for _ in range(2):
        nights.run()
        assert judged() == ("UNKNOWN", True)
    nights.land("later", narrow)
    nights.run()
    assert judged() == ("BLOCKED", False)


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


def test_a_backup_of_bronze_and_silver_beside_newer_results_is_said(nights: Nights) -> None:
    backup = nights.tables.parent / "backup"
    for layer in ("bronze", "silver"):
        shutil.copytree(nights.tables / layer, backup / layer)
    nights.land("later", [b"no landing line"])
    nights.run()
    for layer in ("bronze", "silver"):
        shutil.rmtree(nights.tables / layer)
        (backup / layer).rename(nights.tables / layer)
    (nights.landing / "later.jsonl").unlink()
    said = nights.run()
    assert "warning: bronze.landing_line is older than the last run left it, as a backup is" in said
    assert "is older than" not in nights.run()


def test_silver_of_a_backup_is_said_and_brought_up_to_date(nights: Nights) -> None:
    backup = nights.tables.parent / "backup"
    shutil.copytree(nights.tables / "silver", backup)
    for day in (b"22", b"23", b"24"):
        nights.land(
            f"later-{day.decode()}",
            [line.replace(b"2026-11-22T", b"2026-11-%sT" % day) for line in narrower()],
        )
        nights.run()
    before = verdicts_of(nights)
    shutil.rmtree(nights.tables / "silver")
    backup.rename(nights.tables / "silver")
    warning = "warning: silver.cluster_snapshot is older than the last run left it, as a backup is"
    said = nights.run()
    assert warning in said
    assert "lines are lost" not in said  # bronze has them
    assert verdicts_of(nights) == before
    assert "is older than" not in nights.run()


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
        assert len(nights.judged()) == len(NAMES)
        assert nights.void() == 2 * ["it is missing, although the tables have lines of the cluster"]


WRONG = "zk-392-many"
OF_WRONG = f"source_file LIKE '%{WRONG}%'"
SET_ASIDE = "bronze.landing_line has lines of the cluster that were quarantined later"


def quarantined(nights: Nights) -> dict[str, str]:
    """Return the reason of each quarantined line of bronze, by file and line."""
    rows = nights.open(LANDING_LINE).to_pyarrow_table().to_pylist()
    return {
        f"{row['source_file']}:{row['line_number']}": row["reason"] for row in rows if row["reason"]
    }


def test_a_changed_line_is_set_aside_and_read_again_from_its_file(nights: Nights) -> None:
    before, places = nights.judged(), places_of(nights, WRONG)
    nights.open(LANDING_LINE).update(
        updates={"raw": "encode('{}', 'base64')"}, predicate=f"{OF_WRONG} AND line_number < 4"
    )
    warnings = nights.run()
    first = f"{places[0]} {CHANGED}".removeprefix("file:")
    assert (
        f"warning: table bronze.landing_line: 3 lines set aside; first: {first}"
    ) in warnings.splitlines()
    assert "bronze.landing_line: another writer changed it (UPDATE in version 2). All" in warnings
    assert quarantined(nights) == dict.fromkeys(places[:3], CHANGED)
    assert (nights.judged(), nights.void()) == (before, [])
    assert "warning" not in nights.run()
    assert nights.judged() == before


@pytest.mark.parametrize("column", ["raw", "cluster"])
def test_a_cluster_of_changed_lines_is_unknown(nights: Nights, column: str) -> None:
    """Its landing file is gone, so nothing shows what the lines were."""
    before, places = nights.judged(), places_of(nights, WRONG)
    [wrong] = {row["cluster"] for row in rows_at(nights, WRONG)}
    [other] = {row["cluster"] for row in rows_at(nights, "k39-dynamic")}
    change = {"raw": "encode('{}', 'base64')", "cluster": f"'{other}'"}[column]
    where = f"{OF_WRONG} AND line_number < 3"
    nights.open(LANDING_LINE).update(updates={column: change}, predicate=where)
    (nights.landing / f"{WRONG}.jsonl").unlink()
    unknown = {wrong if column == "raw" else other: "UNKNOWN"}
    assert "2 lines set aside" in nights.run()
    for job in ("audit", "nightly"):
        nights.run(job)
        assert {**before, **unknown} == {**nights.judged(), wrong: before[wrong], **unknown}
        assert nights.void() == [SET_ASIDE]
        assert quarantined(nights) == dict.fromkeys(places[:2], CHANGED)


def test_a_valid_line_that_is_rejected_now_is_set_aside(nights: Nights) -> None:
    """A line of an earlier release, whose parser accepted it: here, another writer says so."""
    [known] = {row["cluster"] for row in rows_at(nights, WRONG)}
    line = '{"kind": "unheard-of", "cluster_id": "%s", "observed_at": "2026-11-21T00:00:00Z"}'
    nights.land("odd", [(line % cluster).encode() for cluster in ("odd-one", known)])
    nights.run()
    before, reasons = nights.judged(), quarantined(nights)
    nights.open(LANDING_LINE).update(
        updates={"reason": "NULL"}, predicate="source_file LIKE '%odd%'"
    )
    warnings = nights.run()
    first = f"{places_of(nights, 'odd')[0]} {next(iter(reasons.values()))}".removeprefix("file:")
    assert f"landing_line: 2 lines set aside; first: {first}" in warnings
    assert quarantined(nights) == reasons
    for _ in range(2):
        assert nights.judged() == {**before, "odd-one": "UNKNOWN"}
        assert len(nights.void()) == 1
        assert "set aside" not in nights.run()


def test_a_cluster_whose_lines_are_gone_stays_unknown(nights: Nights) -> None:
    before = nights.judged()
    [gone] = {row["cluster"] for row in rows_at(nights, WRONG)}
    nights.open(LANDING_LINE).delete(OF_WRONG)
    (nights.landing / f"{WRONG}.jsonl").unlink()
    for _ in range(2):
        assert "warning: 1 cluster lost in silver.cluster_snapshot: UNKNOWN" in nights.run()
        assert nights.judged() == {**before, gone: "UNKNOWN"}


def test_a_cluster_that_was_not_folded_yet_is_in_the_audit(nights: Nights) -> None:
    before = nights.judged()
    nights.land("k41", (SAMPLES / "k41-forgotten" / "landing.jsonl").read_bytes().splitlines())
    nights.run("ingest")
    nights.run("audit")
    [new] = {row["cluster"] for row in rows_at(nights, "k41")}
    assert nights.judged() == {**before, new: "UNKNOWN"}


def rows_at(nights: Nights, name: str) -> list[Row]:
    """Return the lines of bronze that stood in this landing file, in order."""
    rows = nights.open(LANDING_LINE).to_pyarrow_table().to_pylist()
    mine = [row for row in rows if name in row["source_file"]]
    return sorted(mine, key=lambda row: row["line_number"])


def places_of(nights: Nights, name: str) -> list[str]:
    """Return file and line of the lines of this landing file, in order."""
    return [f"{row['source_file']}:{row['line_number']}" for row in rows_at(nights, name)]


def test_a_snapshot_row_whose_bytes_changed_in_its_file_is_said_and_never_taken_from_the_last_run(
    nights: Nights,
) -> None:
    """No commit shows it, and Parquet's own checksums are left out: the row's checksum differs."""
    nights.run("audit")
    assert nights.unchanged() > 0
    before = nights.judged()
    name = next(cluster for cluster, verdict in before.items() if verdict == "BLOCKED")
    [file] = [Path(uri) for uri in nights.open(CLUSTER_SNAPSHOT).file_uris()]
    rows = parquet.read_table(file)
    stored = rows["listeners"].to_pylist()
    at = rows["cluster"].to_pylist().index(name)
    stored[at] = bytes([stored[at][0] ^ 1]) + stored[at][1:]
    place = rows.schema.get_field_index("listeners")
    changed = rows.set_column(place, rows.schema.field(place), pa.array(stored, pa.binary()))
    parquet.write_table(changed, file)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)  # of Hadoop, for local disks alone
    for job in ("audit", "nightly"):
        nights.run(job)
        assert nights.void() == ["its checksum does not match its content"]
        assert nights.judged() == before | {name: "UNKNOWN"}


def test_a_cluster_on_which_the_fold_failed_is_folded_again_by_the_next_run(nights: Nights) -> None:
    before = nights.judged()
    [file] = [Path(uri) for uri in nights.open(CLUSTER_SNAPSHOT).file_uris()]
    rows = parquet.read_table(file)
    name = rows["cluster"].to_pylist()[0]
    failed = table_of(unusable_row(name, ValueError("of a dump")))
    missing = [column for column in rows.column_names if column not in failed.column_names]
    for column in missing:
        failed = failed.append_column(rows.schema.field(column), rows[column].slice(0, 1))
    rows = pa.concat_tables([failed.select(rows.column_names).cast(rows.schema), rows.slice(1)])
    parquet.write_table(rows, file)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    nights.run("audit")
    assert nights.void() == ["featurelib failed on it (ValueError: of a dump); please report it"]
    assert nights.judged() == before | {name: "UNKNOWN"}
    nights.run()
    assert (nights.judged(), nights.void()) == (before, [])


def test_a_table_of_packed_and_unpacked_files_is_read_by_everybody_and_packed_again(
    nights: Nights, session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier release wrote its files without a codec."""
    nights.land("later", narrower())
    with monkeypatch.context() as earlier:
        earlier.setattr(log, "CODEC", "UNCOMPRESSED")
        nights.run()
    for table in (FINDINGS, LANDING_LINE):
        opened = nights.open(table)
        files, place = opened.file_uris(), f"{nights.tables}/{table.path}"
        assert codecs(files) == {"UNCOMPRESSED", "ZSTD"}
        count = opened.to_pyarrow_table().num_rows
        assert session.read.format("delta").load(place).count() == count
        assert duckdb.sql(f"select count(*) from read_parquet({files})").fetchall() == [(count,)]
        assert polars.scan_delta(place).collect().height == count
        assert len(Lake(str(nights.tables)).read(table)) == count
    before = rows_of(nights.tables, FINDINGS, without=())
    monkeypatch.setattr(log, "SMALL_FILES", 0)
    Store(session, str(nights.tables)).maintain(FINDINGS, vacuum=True)
    assert codecs(nights.open(FINDINGS).file_uris()) == {"ZSTD"}
    assert rows_of(nights.tables, FINDINGS, without=()) == before


def codecs(files: list[str]) -> set[str]:
    """Return the codecs of all columns of these files that have values."""
    groups = [meta.row_group(0) for meta in map(parquet.read_metadata, files) if meta.num_rows]
    return {group.column(at).compression for group in groups for at in range(group.num_columns)}
