"""The jobs from outside: files, exit codes, one clear message, a driver killed at any moment."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from featurelib.api import open_tables
from featurelib.errors import BusyError, ConfigError, SurroundingsError
from featurelib.extras.exports.ci import CiForm, render_for_ci
from featurelib.extras.history import diff
from featurelib.lake import Lake
from featurelib.schema import LONG, TEXT, Schema
from featurelib.spark.hold import LEASE_NAME, HoldingRun, Lease
from featurelib.spark.store import Store
from featurelib.tables import (
    ALL,
    AUDIT_RUN,
    CLUSTER_SNAPSHOT,
    FEATURE_READINESS,
    FINDINGS,
    LANDING_LINE,
    Table,
    is_name,
)
from featurelib.view.model import render_json
from tests.golden.transcript import REWRITES
from tests.spark.drivers import said, submit
from tests.spark.nights import (
    ROOT,
    RUN,
    all_tables,
    in_order,
    open_table,
    rows_of,
    run_job,
    sample_lines,
)

pytestmark = pytest.mark.spark

FIRST = ROOT / "tests" / "golden" / "report" / "first.txt"  # of the first command
HOSTILE = (
    "../../etc/passwd",
    "a b",
    "grüße/漢字\u202e",
    "x" * 200,
    "CON.json",
    ".hidden",
    "..",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a job ended."""

    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        return self.err.splitlines()[-1]


Job = Callable[..., Ended]


@pytest.fixture
def job(session: SparkSession, capfd: pytest.CaptureFixture[str]) -> Job:
    """Run a job in this process and its session: what it said, and its exit code."""

    def call(name: str, *words: object) -> Ended:
        code, said = run_job(name, *words), capfd.readouterr()
        return Ended(code=code, out=said.out, err=said.err)

    return call


def land(folder: Path, name: str, lines: list[bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.jsonl").write_bytes(b"\n".join(lines))
    return folder


def renamed(sample: str, cluster: str) -> list[bytes]:
    """The lines of a sample as those of another cluster."""
    lines = [json.loads(line) for line in sample_lines(sample)]
    return [json.dumps({**line, "cluster_id": cluster}).encode() for line in lines]


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def assert_one_clear_message(ended: Ended, *words: str) -> None:
    assert ended.last.startswith("error: ")
    assert [word for word in words if word not in ended.last] == []
    assert "Traceback" not in ended.err
    assert ended.out == ""


def test_a_night_writes_its_files_for_clusters_of_any_name(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second night takes seven clusters for too many to stand in one file."""
    landing = tmp_path / "landing"
    for number, cluster in enumerate(HOSTILE):
        land(landing, str(number), renamed("zk-332-ranges", cluster))
    land(landing, "bad", [b'{"kind":"api_versions","cluster_id":"whose","x":'])
    tables, out = tmp_path / "deep" / "tables", tmp_path / "deep" / "er" / "out"
    stale = out / "plans" / "stale.json"
    stale.parent.mkdir(parents=True)
    for path in (stale, stale.with_suffix(".json.part"), stale.with_suffix(".txt")):
        path.write_text("of another night")
    options = ("--landing", landing, "--tables", tables, "--out", out, "--as-of", "newest")
    first = job("nightly", *options)
    assert (first.code, "Traceback" in first.err) == (0, False)
    assert "featurelib" in first.out
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["er", "tables"]
    plans = {path: json.loads(path.read_text()) for path in (out / "plans").glob("*.json")}
    assert sorted(plan["meaning"]["cluster"] for plan in plans.values()) == sorted(HOSTILE)
    names = {f"plans/{path.name}" for path in plans}
    reports = {f"report.{kind}" for kind in ("json", "txt", "html", "prom")}
    assert files_below(out) == reports | {"plans/stale.txt"} | names
    assert "1 quarantined" in first.out

    with monkeypatch.context() as small:
        for module in ("featurelib.view.html", "featurelib.view.report"):
            small.setattr(f"{module}.IN_FULL", len(HOSTILE) - 2)
        second = job("nightly", *options, "--fail-on", "blocker")
    assert (second.code, second.out != "") == (1, True)
    assert "ingest: 0 new files" in second.err
    assert "no new landing lines\n" in second.out
    assert "No new landing lines" in (out / "report.html").read_text()
    assert "1 landing line of all runs left out" in second.out
    pages = {f"clusters/{Path(name).stem}.html" for name in names}
    assert files_below(out) == reports | {"plans/stale.txt"} | names | pages
    whole = (out / "report.html").read_text()
    assert sum(f'href="{page}"' in whole for page in pages) >= 2
    third = job("audit", *options[2:], "--fail-on", "critical")
    assert third.code == 0
    assert files_below(out) == reports | {"plans/stale.txt"} | names
    runs = {row["run"] for row in rows_of(tables, AUDIT_RUN, without=())}
    assert len(runs) == 3
    report = json.loads((out / "report.json").read_text())
    assert {row["plan_file"] for row in report["clusters"]} == names
    assert report["run"]["out"] == str(out)
    [left_out] = report["run"]["quarantine"]["newest"]
    assert left_out["line"] == f"{landing}/bad.jsonl:1"
    assert left_out["reason"].startswith("the line is cut")
    assert left_out["cluster"] == "whose"


def test_runs_of_two_dates_offer_a_plan_after_the_soak_time_and_say_since_when(
    job: Job, tmp_path: Path
) -> None:
    """One cluster is READY, the other BLOCKED; both were collected once."""
    landing, tables = tmp_path / "landing", tmp_path / "tables"
    for name in ("k37-forgotten", "ghost-broker"):
        land(landing, name, sample_lines(name))
    config = tmp_path / "audit.toml"
    config.write_text("min_ready_days = 7\nmax_age_hours = 1000")

    def run(day: int) -> tuple[dict[str, Any], str, str]:
        at, out = f"2026-11-{day}T12:00:00Z", tmp_path / str(day)
        places = ("--landing", landing, "--tables", tables, "--out", out)
        ended = job("nightly", *places, "--config", config, "--as-of", at)
        assert ended.code == 0, ended.err
        clusters = json.loads((out / "report.json").read_text())["clusters"]
        text, gauges = ((out / f"report.{kind}").read_text() for kind in ("txt", "prom"))
        return {cluster["verdict"]: cluster for cluster in clusters}, text, gauges

    first, text, _ = run(21)
    assert (first["READY"]["phase"], first["READY"]["steps"]) == ("rolled, soaking", [])
    offer = "Kafka 3.6 until you finalize a level. The upgrade is offered on 2026-11-28."
    assert offer in first["READY"]["summary"]
    assert "on 2026-11-28." in text
    assert "Approve" not in text
    assert [path.name for path in (tmp_path / "21").glob("plans/*")] == []
    later, text, gauges = run(29)
    assert (later["READY"]["phase"], len(later["READY"]["steps"])) == ("rolled, not finalized", 1)
    assert len(list((tmp_path / "29").glob("plans/*.json"))) == 1
    assert "until you finalize" not in text
    since = {row["verdict"]: row["verdict_since"] for row in later["BLOCKED"]["readiness"]}
    assert since["BLOCKED"] == "2026-11-21T12:00:00Z"
    assert since["UP_TO_DATE"] is None
    seconds = int(datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp())
    blocked = re.search(r'.*_verdict_since_.*verdict="BLOCKED"} (\d+)', gauges)
    assert blocked is not None
    assert int(blocked[1]) == seconds


def test_the_first_command_reports_what_it_reported_and_readmes_tell_it(checkout: Path) -> None:
    made = checkout / "build" / "samples"
    report = json.loads((made / "out" / "report.json").read_text("utf-8"))
    text = (made / "out" / "report.txt").read_text("utf-8").replace(str(made), "build/samples")
    text = text.replace(str(report["run"]["number"]), "20261129063000")
    if REWRITES:
        FIRST.write_text(text, "utf-8")
    assert text == FIRST.read_text("utf-8")
    rows = []
    for one in report["clusters"]:
        counted = Counter(finding["code"] for finding in one["findings"])
        codes = [f"{code} {n}" if n > 1 else code for code, n in sorted(counted.items())]
        told = ", ".join(codes) or "none"
        rows.append(f"| `{one['name']}` | {one['verdict']} | {one['phase']} | {told} |")
    said = (ROOT / "data" / "samples" / "README.md").read_text("utf-8")
    assert [line for line in said.splitlines() if line.startswith("| `")] == sorted(rows)


def test_the_report_of_a_night_is_the_same_from_its_tables(
    job: Job, checkout: Path, tmp_path: Path
) -> None:
    """Of the samples' nights, and of one that a cluster did not land in; of a part, too."""
    made, fleet = checkout / "build" / "samples", "data/samples/fleet.toml"
    samples = open_tables(str(made / "tables"), fleet=fleet, config="data/samples/audit.toml")
    asked = " --config data/samples/audit.toml"  # an option that the first command does without
    found = render_json(samples.report).decode().replace(asked, "")
    assert json.loads(found) == json.loads((made / "out" / "report.json").read_text())

    landing, tables, out = tmp_path / "landing", str(tmp_path / "tables"), tmp_path / "out"
    inventory = tmp_path / "fleet.toml"
    owned = (("rNveyEX9QtGQg1t9F96TmQ", "silent"), ("0Dfym0miRVGxC5OFS_ySCg", "ready"))
    inventory.write_text("".join(
        f'[[cluster]]\nid = "{key}"\nname = "{name}"\nowner = "of {name}"\n' for key, name in owned
    ))  # fmt: skip
    for day, samples_of in ((21, ("k39-static", "k37-forgotten")), (22, ("k37-forgotten",))):
        for name in samples_of:
            lines = [
                one.replace(b"2026-11-21T", b"2026-11-%dT" % day) for one in sample_lines(name)
            ]
            land(landing, f"{name}-{day}", [*lines, b"not a line of %d" % day])
        places = ("--landing", landing, "--tables", tables, "--out", out, "--fleet", inventory)
        ended = job("nightly", *places, "--as-of", "newest", "--run", RUN + day)
        assert ended.code == 0, ended.err
    said = json.loads((out / "report.json").read_text())
    [silent] = (one for one in said["clusters"] if one["name"] == "silent")
    assert "no usable data was collected since 2026-11-21" in silent["summary"]
    night = open_tables(tables, fleet=str(inventory))
    assert json.loads(render_json(night.report)) == said
    assert said["run"]["quarantine"]["lines"] == 2
    assert "featurelib show" in str(said["today"])
    part = open_tables(tables, fleet=str(inventory), owner=["of silent"]).report
    assert (part.fleet.need_person, [task.verb for task in part.today]) == (1, ["Collect"])
    assert "<skipped" in render_for_ci(part, CiForm.JUNIT)
    before = open_tables(tables, fleet=str(inventory), run=RUN + 21).report
    assert (before.run.out, before.run.quarantine.lines, before.fleet.need_person) == (None, 1, 1)


def test_a_night_of_nothing_but_bad_lines_says_where_their_reasons_are(
    job: Job, tmp_path: Path
) -> None:
    landing = land(tmp_path / "landing", "bad", [b"not a landing line", b"{}", b"\xff"])
    tables, out = tmp_path / "tables", tmp_path / "out"
    ended = job("nightly", "--landing", landing, "--tables", tables, "--out", out)
    assert ended.code == 5
    assert_one_clear_message(ended, "there is nothing to audit", "shows why lines are quarantined")
    found = rows_of(tables, LANDING_LINE)
    assert [row["reason"] is None for row in found] == [False] * 3
    assert not out.exists()
    assert not (tables / "gold").exists()


def refusals() -> list[tuple[list[str], int, list[str]]]:
    """Options, exit code, words of the message. FOLDER is the test's own."""
    usual = ["--landing", "FOLDER/landing", "--tables", "FOLDER/tables"]
    return [
        (["--landing", "FOLDER/none", *usual[2:]], 2, ["FOLDER/none", "no such folder"]),
        (["--landing", "FOLDER/empty", *usual[2:]], 5, ["FOLDER/empty", "has no files"]),
        (usual[:2], 2, ["--tables", "The job makes a missing"]),
        ([*usual, "--as-of", "yesterday"], 2, ["--as-of yesterday", "2026-11-21T06:00:00Z"]),
        ([*usual, "--run", "5"], 2, ["--run 5", "yyyymmddHHMMSS"]),
        ([*usual, "--fleet", "FOLDER/bad.toml"], 2, ["FOLDER/bad.toml", "broker"]),
        ([*usual, "--config", "FOLDER/bad.toml"], 2, ["FOLDER/bad.toml", "cluster"]),
    ]


@pytest.mark.parametrize(("words", "code", "says"), refusals(), ids=lambda value: repr(value)[:60])
def test_what_cannot_be_done_is_said_before_anything_is_written(
    job: Job, tmp_path: Path, words: list[str], code: int, says: list[str]
) -> None:
    land(tmp_path / "landing", "a", sample_lines("zk-282-stock"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.toml").write_text('[[cluster]]\nid = "a"\nbroker = [1]\n')
    before = files_below(tmp_path)
    ended = job("nightly", *(word.replace("FOLDER", str(tmp_path)) for word in words))
    assert ended.code == code
    assert_one_clear_message(ended, *(word.replace("FOLDER", str(tmp_path)) for word in says))
    assert files_below(tmp_path) == before
    assert not (tmp_path / "tables").exists()


def test_a_table_of_a_newer_release_stops_the_night_before_its_first_line(
    job: Job, store: Store, tmp_path: Path
) -> None:
    landing = land(tmp_path / "landing", "a", sample_lines("zk-282-stock"))
    newer = replace(FEATURE_READINESS, version=FEATURE_READINESS.version + 1)
    store.create(newer)
    ended = job("nightly", "--landing", landing, "--tables", store.root)
    assert ended.code == 2
    found = f"is {newer.version}, and"
    assert_one_clear_message(ended, "gold.feature_readiness", found, "Nothing was written")
    root = Path(store.root.removeprefix("file:"))
    made = {path.parent.name for path in root.rglob("_delta_log")}
    assert made == {"feature_readiness", LEASE_NAME}


def test_a_night_is_refused_while_another_run_holds_the_tables(
    job: Job, store: Store, tmp_path: Path
) -> None:
    landing = land(tmp_path / "landing", "a", sample_lines("zk-282-stock"))
    root = Path(store.root.removeprefix("file:"))
    with Lease(str(root), {}, HoldingRun.this("ingest", RUN), print).held():
        for name in ("nightly", "ingest", "refine", "audit"):
            given = ("--landing", landing) if name in ("nightly", "ingest") else ()
            ended = job(name, *given, "--tables", store.root)
            assert ended.code == 3
            assert_one_clear_message(ended, f"held by ingest run {RUN}", f"pid {os.getpid()}")
    assert {Path(name).parts[0] for name in files_below(root)} == {LEASE_NAME}


def test_a_gold_table_that_lost_its_newest_commit_is_refused_and_begins_anew(
    job: Job, tmp_path: Path
) -> None:
    table, tables = FINDINGS, tmp_path / "tables"
    landing = land(tmp_path / "landing", "a", sample_lines("ghost-broker"))
    options = ("--landing", landing, "--tables", tables, "--as-of", "newest")
    assert [job("nightly", *options, "--run", RUN + night).code for night in (0, 1)] == [0, 0]
    max((tables / table.path / "_delta_log").glob("*.json")).unlink()
    lost = f"table {table.full_name}"
    with pytest.raises(SurroundingsError, match=f"^{lost}.*: its newest run is {RUN}, gold.audit"):
        Lake(str(tables)).rows(table)
    ended = job("nightly", *options)
    assert ended.code == 5
    assert_one_clear_message(ended, lost, "move that table's folder away and run nightly")
    shutil.rmtree(tables / table.path)
    assert job("nightly", *options).code == 0
    assert set(Lake(str(tables)).rows(table)["run"].to_pylist()) <= {Lake(str(tables)).run()}


# Tables by name: those of a catalog.


@pytest.fixture
def schema(session: SparkSession) -> Iterator[str]:
    """An empty schema of Spark's own catalog."""
    session.sql("CREATE SCHEMA spark_catalog.featurelib")
    yield "spark_catalog.featurelib"
    session.sql("DROP SCHEMA spark_catalog.featurelib CASCADE")


def test_two_nights_by_name_write_what_two_nights_by_path_write(
    job: Job, schema: str, session: SparkSession, tmp_path: Path
) -> None:
    landing, folder, out = tmp_path / "landing", tmp_path / "tables", tmp_path / "out"
    (config := tmp_path / "audit.toml").write_text("retention_days = 30\nvacuum = true\n")
    usual = ("--as-of", "newest", "--out", out)
    for run, sample in ((RUN, "ghost-broker"), (RUN + 1, "k39-static")):
        land(landing, sample, sample_lines(sample))
        for tables in (folder, schema):
            options = ("--tables", tables, "--run", run, *usual)
            options += ("--config", config) if tables == folder else ()
            ended = job("nightly", "--landing", landing, *options)
            assert ended.code == 0, ended.err
            forgets = "knows these names until this run ends" in ended.err
            assert (forgets, ended.err.count("warning")) == (tables == schema, tables == schema)
    tables_there = session.sql(f"SHOW TABLES IN {schema}").where("not isTemporary").collect()
    named = {row.tableName for row in tables_there}
    assert named == {table.name_in_schema for table in ALL}
    for table in ALL:
        by_name = session.read.table(f"{schema}.{table.name_in_schema}")
        assert by_name.columns == table.schema.names
        written = open_table(folder, table)
        kept = written.metadata().configuration["delta.deletedFileRetentionDuration"]
        assert kept == "interval 30 days"  # every table is maintained
        by_path = written.to_pyarrow_table().drop_columns(counting(table))
        assert in_order(by_name.drop(*counting(table)).toArrow()) == in_order(by_path)

    root = session.catalog.getDatabase(schema).locationUri.removeprefix("file:")
    assert json.loads((out / "report.json").read_text())["run"]["tables"] == root
    assert diff(open_tables(root), RUN, RUN + 1).value.after == RUN + 1
    again = job("nightly", "--landing", landing, "--tables", schema, "--run", RUN)
    assert_one_clear_message(again, f"run {RUN}: not greater than run {RUN + 1}", schema)


def counting(table: Table) -> list[str]:
    """Columns that count commits, since a table of a catalog has one more, and that digest the
    settings, since these differ."""
    return ["inputs", "conditions"] if table is AUDIT_RUN else []


def test_tables_of_a_catalog_are_carried_on_and_made_anew_as_others_are(
    schema: str, session: SparkSession
) -> None:
    store = Store(session, schema)
    fields = [field for field in AUDIT_RUN.schema.fields if field[0] != "run_date"]
    older = replace(AUDIT_RUN, schema=Schema.of(fields))
    known = Schema.of([("run", LONG), ("cluster", TEXT)])
    outdated = replace(CLUSTER_SNAPSHOT, version=1, schema=known)
    store.create(older, outdated)
    Store(session, schema).create(AUDIT_RUN, CLUSTER_SNAPSHOT)
    assert set(store.read(AUDIT_RUN).columns) == set(AUDIT_RUN.schema.names)
    assert store.read(CLUSTER_SNAPSHOT).columns == CLUSTER_SNAPSHOT.schema.names
    store.maintain(AUDIT_RUN, retention_days=30)
    assert store.check(AUDIT_RUN).properties["delta.logRetentionDuration"] == "interval 30 days"


@pytest.mark.parametrize("name", ["spark_catalog.nobody", "nosuch.featurelib"])
def test_a_schema_that_is_not_there_is_said_with_the_way_to_make_it(
    job: Job, name: str, tmp_path: Path
) -> None:
    landing = land(tmp_path / "landing", "a", sample_lines("zk-282-stock"))
    ended = job("nightly", "--landing", landing, "--tables", name)
    assert ended.code == 2
    assert_one_clear_message(ended, f"--tables {name}", f"CREATE SCHEMA {name}", f"./{name}")


def test_what_stands_in_the_schema_and_is_no_table_of_delta_s_is_not_written_over(
    job: Job, schema: str, session: SparkSession, tmp_path: Path
) -> None:
    landing = land(tmp_path / "landing", "a", sample_lines("zk-282-stock"))
    session.sql(f"CREATE VIEW {schema}.gold_finding AS SELECT 1 AS run")
    ended = job("nightly", "--landing", landing, "--tables", schema)
    assert ended.code == 2
    assert_one_clear_message(ended, "gold_finding", "is not a Delta table")


def test_a_name_is_told_from_a_folder_by_one_rule() -> None:
    names = ("spark_catalog.featurelib", "main.kafka_audit")
    folders = ("tables", "./a.b", "a/b.c", "/a.b", "s3a://a.b/c", "file:/a.b", "a.b.c", "1.2", ".a")
    assert [is_name(one) for one in (*names, *folders)] == [True] * 2 + [False] * len(folders)
    says = r"is the name of a schema, .* `DESCRIBE SCHEMA main\.kafka_audit"
    with pytest.raises(ConfigError, match=says):
        Lake("main.kafka_audit")


# The driver, killed.

CLUSTERS = ("ghost-broker", "k39-static", "zk-332-ranges", "zk-282-stock")


def commits(tables: Path, table: Table) -> int:
    log = tables / table.path / "_delta_log"
    return len(list(log.glob("*[0-9].json"))) if log.exists() else 0


def commit_of(tables: Path, table: Table) -> Callable[[list[str]], bool]:
    """The moment when the table gets one commit more than it has now, its creation apart."""
    before = max(commits(tables, table), 1)
    return lambda lines: commits(tables, table) > before


def free_within(tables: Path, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with Lease(str(tables), {}, HoldingRun.this("test", RUN), print).held():
                return True
        except BusyError:
            time.sleep(0.05)
    return False


def test_a_night_killed_at_any_moment_is_made_good_by_the_next_one(
    job: Job, tmp_path: Path
) -> None:
    """Two drivers die by SIGKILL, in a night each. That a crash between any two commits heals is
    shown in tests/spark/test_ingest.py and test_refine.py."""
    landing, tables, out = tmp_path / "landing", tmp_path / "tables", tmp_path / "out"
    options = ("--tables", tables, "--out", out, "--as-of", "newest")
    words = ("nightly", "--landing", landing, *options)
    for name in CLUSTERS[:2]:
        land(landing, name, sample_lines(name))
    kill_night(words, commit_of(tables, CLUSTER_SNAPSHOT), tables)
    for name in CLUSTERS[1:]:
        land(landing, f"z-{name}", sample_lines(name))  # k39-static comes again
    kill_night(words, commit_of(tables, FINDINGS), tables)
    with submit(*words) as driver:
        report = driver.finish()
    assert driver.process.returncode == 0
    assert "Traceback" not in "".join(driver.said)
    assert report.startswith("featurelib")

    calm, calm_out = tmp_path / "calm", tmp_path / "calm out"
    calmly = ("--landing", landing, "--tables", calm, "--out", calm_out, "--as-of", "newest")
    assert job("nightly", *calmly).code == 0
    expected = all_tables(calm)
    for name, found in all_tables(tables).items():
        assert found == expected[name], name
    assert files_below(out) == files_below(calm_out)
    for path in (calm_out / "plans").iterdir():
        assert (out / "plans" / path.name).read_bytes() == path.read_bytes()


def kill_night(
    words: tuple[object, ...], moment: Callable[[list[str]], bool], tables: Path
) -> None:
    with submit(*words) as driver:
        driver.wait_for(moment)
        assert driver.process.poll() is None
        driver.kill()
    assert not tables.exists() or free_within(tables, 10)


def test_a_job_does_not_go_on_after_a_scheduler_s_sigterm(tmp_path: Path) -> None:
    """Spark's process gets it, and the job may ask it for nothing for a long time."""
    job = tmp_path / "long.py"
    job.write_text("import sys, time\nprint('begun', file=sys.stderr, flush=True)\ntime.sleep(60)")
    with submit(job) as driver:
        driver.wait_for(said("begun"))
        driver.process.terminate()
        begun = time.monotonic()
        driver.finish()  # whoever has its output open has ended
        assert (driver.process.returncode, time.monotonic() - begun < 30) == (143, True)
    assert "Spark's process was ended; run the command again" in driver.said[-1]


def test_a_scratch_that_cannot_be_written_to_is_said_before_spark_is_started(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    with submit(
        "nightly", env={"SPARK_LOCAL_DIRS": f"{tmp_path}/file/a,{tmp_path}/file"}
    ) as driver:
        assert driver.finish() == ""
    assert driver.process.returncode == 5
    [line] = driver.said
    assert f"scratch {tmp_path}/file/a,{tmp_path}/file: this user may not write" in line


def test_a_java_without_memory_ends_a_night_with_5_and_one_line(tmp_path: Path) -> None:
    """Spark's own way is to end its process there and then, with 52 and its workers' traces."""
    (tmp_path / "landing").mkdir()
    with gzip.open(tmp_path / "landing" / "long.jsonl.gz", "wt", compresslevel=1) as file:
        file.writelines(f'{{"kind": "{i}{15_000_000 * "a"}"}}\n' for i in range(8))
    small = ("--driver-memory", "200m", "--conf", f"spark.testing.reservedMemory={1 << 25}")
    places = ("--landing", tmp_path / "landing", "--tables", tmp_path / "tables")
    with submit(*small, "nightly", *places, env={"MASTER": "local[1,1]"}) as driver:
        assert driver.finish() == ""
    assert driver.process.returncode == 5
    *progress, last = driver.said
    assert last.startswith("error: Spark has no memory left (OutOfMemoryError: Java heap space).")
    assert [line for line in progress if not line.startswith(("nightly: ", "ingest: "))] == []


def test_a_job_under_spark_submit_refuses_within_seconds_and_in_one_line(tmp_path: Path) -> None:
    with submit(
        "nightly", "--landing", tmp_path / "none", "--tables", tmp_path / "tables"
    ) as driver:
        out = driver.finish()
    assert (driver.process.returncode, out) == (2, "")
    assert [line for line in driver.said if not line.startswith("error: landing ")] == []
    assert len(driver.said) == 1
    assert list(tmp_path.iterdir()) == []
