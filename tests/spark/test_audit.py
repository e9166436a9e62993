"""Silver to gold: Spark only carries, nothing is replaced, and a night can be judged again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession

from featurelib import arrow
from featurelib.audit.audit import Judged, judge
from featurelib.audit.evidence import Conditions, Waiting
from featurelib.audit.gold import PARTS
from featurelib.catalogue import load as load_catalogue
from featurelib.config.fleet import Fleet, FleetEntry
from featurelib.config.settings import MuteEntry, Settings
from featurelib.core.dialect import load as load_dialect
from featurelib.errors import ConfigError, NoEvidenceError, SurroundingsError
from featurelib.feature import Severity
from featurelib.lake import lines_of
from featurelib.lake import places as places_of
from featurelib.planning import files
from featurelib.planning import requirements as plan_requirements
from featurelib.planning.outlook import with_texts
from featurelib.planning.requirements import Guarding
from featurelib.schema import FINDING_TEXTS, SNAPSHOT
from featurelib.spark.auditing import Audited, audit, judge_snapshots
from featurelib.spark.judging import CORE_COLUMNS, judge_by, judged_in
from featurelib.spark.store import Store
from featurelib.tables import (
    AUDIT_RUN,
    CLUSTER_SNAPSHOT,
    FEATURE_READINESS,
    FINDINGS,
    LANDING_LINE,
    OF_RUN,
)
from tests.spark.nights import (
    GOLD,
    RUN,
    at_version,
    fold_samples,
    in_order,
    parse,
    put_bronze,
    rows_of,
    sample_lines,
)

pytestmark = pytest.mark.spark

HOUR = 3_600_000_000
DAY = 24 * HOUR
MAX_AGE, LONG = 3 * DAY, 1000 * DAY
GUARDING = Guarding.by(Settings(), Fleet())
FORGOTTEN = "0Dfym0miRVGxC5OFS_ySCg"
WORDS = (*OF_RUN, *FINDING_TEXTS.names)  # what the core does not say
NAMES = ("ghost-broker", "k39-dynamic", "mixed-42-39", "zk-332-ranges", "zk-392-stock")
GHOST = "h0FOOR_sRsiOiKHch7mH4w"
BATCH_SIZE = "spark.sql.execution.arrow.maxRecordsPerBatch"


def newest(snapshots: pa.Table) -> int:
    return int(pc.max(snapshots["observed_at"].cast(pa.int64())).as_py())


def core_says(
    snapshots: pa.Table,
    conditions: Conditions,
    severities: dict[str, Severity] | None = None,
    guarding: Guarding | None = None,
) -> Judged:
    """What the core says of all rows in one batch, plan texts included."""
    dialect, catalogue = load_dialect("strict"), load_catalogue()
    said = judge(arrow.rows_of(snapshots, SNAPSHOT), conditions, catalogue, dialect, severities)
    plans = with_texts(said, dialect="strict", catalogue=catalogue, guarding=guarding)
    return replace(said, plans=plans)


def tables_of(judged: Judged) -> dict[str, list[dict[str, object]]]:
    return {part: in_order(getattr(judged, part)) for part in PARTS}


@pytest.fixture(scope="module")
def samples() -> pa.Table:
    """Snapshot rows of all samples."""
    return fold_samples(sample_lines())


@pytest.fixture
def batch_size(session: SparkSession, request: pytest.FixtureRequest) -> Iterator[int]:
    usual = session.conf.get(BATCH_SIZE) or "10000"
    session.conf.set(BATCH_SIZE, request.param)
    yield request.param
    session.conf.set(BATCH_SIZE, usual)


@pytest.mark.parametrize(
    ("files", "batch_size"), [(1, 1), (1, 3), (1, 10_000), (6, 10_000)], indirect=["batch_size"]
)
def test_spark_says_what_the_core_says_whatever_the_batches(
    store: Store, samples: pa.Table, files: int, batch_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("featurelib.spark.judging.BATCH_CLUSTERS", 5)  # of a cell
    put_snapshots(store, samples, RUN, files)
    fleet = Fleet(cluster=(FleetEntry(id=GHOST, brokers=(1, 2, 3, 4)),))
    conditions = Conditions(as_of=newest(samples), max_age=MAX_AGE, inventory=fleet.inventory)
    severities = {"ghost_broker": Severity.CRITICAL}
    cells = judge_snapshots(store, judge_by(conditions, severities))
    assert cells.num_rows >= samples.num_rows / min(batch_size, 5)
    found, expected = judged_in(cells), core_says(samples, conditions, severities)
    for part, (_, schema) in PARTS.items():
        assert getattr(found, part).schema == schema
    assert tables_of(found) == tables_of(expected)
    assert Severity.CRITICAL.value in found.findings["severity"].to_pylist()


START = """
import sys
import pyarrow as pa
from featurelib import arrow
from featurelib.rows import make_rows, texts_of
from featurelib.spark.folding import ENTRY, FOLDED, fold_batches, unfold
from featurelib.spark.judging import CELLS, Conditions, SNAPSHOT, judge_by
from featurelib.spark.lines import SCHEMA, parse_file
from featurelib.tables import FINALIZED_FEATURES
[lines] = parse_file("file:/a", lambda: iter([sys.argv[1].encode()]))
assert lines.schema == SCHEMA
known = [lines.column(name) for name in ("line_number", "cluster", "line_id", "raw")]
entries = pa.RecordBatch.from_arrays([*known, pa.nulls(len(lines), pa.binary())], schema=ENTRY)
[folded] = fold_batches([entries], True)
assert folded.schema == FOLDED
list(unfold(FINALIZED_FEATURES, 0, [folded.select(["cluster", "learned"])]))
rows = arrow.batch_of(make_rows(SNAPSHOT, 1, {"cluster": texts_of(["a"])}))
[cells] = judge_by(Conditions(as_of=0, max_age=0), {})([rows])
assert cells.schema == CELLS
sys.exit(", ".join({"pandas", "pyspark", "deltalake"} & sys.modules.keys()) or 0)
"""


def test_a_worker_starts_without_what_takes_longer_to_import_than_all_it_needs() -> None:
    [line, *_] = sample_lines("ghost-broker")
    command = [sys.executable, "-c", START, line.decode()]
    started = subprocess.run(command, capture_output=True, text=True)
    assert (started.returncode, started.stderr) == (0, "")


# Whole audits, on real tables.


def test_an_expected_cluster_that_did_not_land_is_judged_without_evidence(
    store: Store, samples: pa.Table
) -> None:
    put_snapshots(store, samples.slice(0, 2), RUN, files=2)
    landed = FleetEntry(id=samples["cluster"][0].as_py())
    fleet = Fleet(cluster=(FleetEntry(id="lost", brokers=(7,)), landed))
    found = run_audit(store, RUN, fleet=fleet).judged
    assert len(found.plans) == 3
    said = [row for row in found.findings.to_pylist() if row["cluster"] == "lost"]
    assert [(row["code"], row["node_id"]) for row in said] == [("cluster_not_landed", None)]
    (plan,) = [row for row in found.plans.to_pylist() if row["cluster"] == "lost"]
    assert (plan["verdict"], plan["steps"], plan["plan"]) == ("UNKNOWN", [], None)


def test_a_file_that_was_cut_off_is_named_by_the_driver_and_by_a_worker(
    store: Store, samples: pa.Table
) -> None:
    put_snapshots(store, samples, RUN, files=4)
    cut = max((Path(store.path(CLUSTER_SNAPSHOT).removeprefix("file:"))).glob("*.parquet"))
    cut.write_bytes(cut.read_bytes()[:-9])
    said = rf"^table silver\.cluster_snapshot( at .*)?: cannot be read, .*{cut.name}\. Restore it"
    with pytest.raises(SurroundingsError, match=said):
        judge_snapshots(store, judge_by(Conditions(as_of=0, max_age=0), {}))
    with pytest.raises(SurroundingsError, match=said):
        run_audit(store, RUN)


def put_snapshots(store: Store, rows: pa.Table, run: int, files: int = 1) -> None:
    store.create(LANDING_LINE)
    table = rows.add_column(0, "run", pa.array([run] * rows.num_rows, pa.int64()))
    for field in [*arrow.schema_of(CLUSTER_SNAPSHOT.schema)][-2:]:
        table = table.append_column(field, pa.nulls(rows.num_rows, field.type))
    store.create(CLUSTER_SNAPSHOT)
    folder = store.path(CLUSTER_SNAPSHOT).removeprefix("file:")
    columns = pa.schema(DeltaTable(folder).schema().to_arrow())
    table = table.select(columns.names).cast(columns)
    size = -(-len(table) // files) or 1
    note = CommitProperties(custom_metadata={"userMetadata": json.dumps({"run": run})})
    write_deltalake(folder, table.slice(0, size), mode="overwrite", commit_properties=note)
    for first in range(size, len(table), size):
        write_deltalake(folder, table.slice(first, size), mode="append", commit_properties=note)


def run_audit(
    store: Store,
    run: int,
    as_of: int | None = None,
    fleet: Fleet | None = None,
    *,
    mutes: tuple[MuteEntry, ...] = (),
    forgotten: int = 0,
    max_age: int = MAX_AGE,
) -> Audited:
    """An audit by a driver that has just started."""
    return audit(
        Store(store.session, store.root),
        fleet or Fleet(),
        Settings(
            max_age_hours=max_age / HOUR,
            forgotten_nights=forgotten // DAY,
            mute=mutes,
        ),
        run=run,
        as_of=as_of,
        say=lambda _: None,
    )


def core_columns(df: DataFrame) -> pa.Table:
    """What the core is handed of these rows."""
    (batch,) = df.select(*CORE_COLUMNS).toArrow().sort_by("cluster").to_batches()
    return pa.Table.from_batches([batch])


def test_two_audits_keep_both_nights_and_each_can_be_judged_again(
    store: Store, samples: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one comes too late: its evidence is too old to decide anything."""
    lines = sample_lines(*NAMES)
    put_bronze(store, RUN, lines)
    rows = fold_samples(lines)
    put_snapshots(store, rows, RUN)
    first = run_audit(store, RUN)
    assert first.as_of == newest(rows)
    by_part = {
        part: rows_of(store.root, table, without=WORDS) for part, (table, _) in PARTS.items()
    }
    conditions = Conditions(as_of=first.as_of, max_age=MAX_AGE)
    assert (
        by_part == tables_of(core_says(rows, conditions, None, GUARDING)) == tables_of(first.judged)
    )

    put_snapshots(store, samples, RUN + 1)
    monkeypatch.setattr("featurelib.spark.judging.BATCH_CLUSTERS", 5)
    second = run_audit(store, RUN + 1, as_of=newest(samples) + MAX_AGE + 1_000_000)
    for part, (table, _) in PARTS.items():
        assert rows_of(store.root, table, without=WORDS, run=RUN) == by_part[part]
        assert (
            rows_of(store.root, table, without=WORDS, run=RUN + 1) == tables_of(second.judged)[part]
        )
    assert set(second.judged.readiness["verdict"].to_pylist()) == {"UNKNOWN"}
    assert set(second.judged.plans["verdict"].to_pylist()) == {"UNKNOWN"}
    assert set(second.judged.plans["plan"].to_pylist()) == {None}

    for night in (first, second):
        (told,) = [
            row for row in rows_of(store.root, AUDIT_RUN, without=()) if row["run"] == night.run
        ]
        verdict = night.judged.plans["verdict"].to_pylist()
        counted = {name: told[name.lower()] for name in ("READY", "BLOCKED", "UNKNOWN")}
        assert counted == {name: verdict.count(name) for name in counted}
        assert (told["clusters"], told["findings"]) == (
            len(verdict),
            len(night.judged.findings),
        )
        inputs = {str(entry["table"]): entry["version"] for entry in told["inputs"]}  # type: ignore[attr-defined]  # a list of structs
        assert inputs == night.inputs
        then = core_columns(at_version(store, CLUSTER_SNAPSHOT, inputs["silver.cluster_snapshot"]))
        remembered = waiting_in(store, inputs.get("gold.feature_readiness"))
        assert bool(remembered) == (night is second)
        again = Conditions(as_of=night.as_of, max_age=MAX_AGE, waiting=remembered)
        assert tables_of(core_says(then, again, None, GUARDING)) == tables_of(night.judged)
        at = inputs["bronze.landing_line"]
        assert at_version(store, LANDING_LINE, at).count() == len(lines)

    check_plans(first)
    check_lines(store, first, lines)
    with pytest.raises(ConfigError, match=f"run {RUN + 1}: not greater than run {RUN + 1}"):
        run_audit(store, RUN + 1)


def test_a_table_of_gold_that_lost_its_newest_commit_ends_the_next_night(store: Store) -> None:
    put_snapshots(store, fold_samples(sample_lines("k37-forgotten")), RUN)
    run_audit(store, RUN)
    for table in GOLD:
        entry = max(Path(store.path(table).removeprefix("file:")).glob("_delta_log/*.json"))
        kept = entry.read_bytes()
        entry.unlink()
        with pytest.raises(SurroundingsError, match=f"^table {table.full_name}.* knows run {RUN}"):
            run_audit(Store(store.session, store.root), RUN + 1)
        entry.write_bytes(kept)
    run_audit(store, RUN + 1)


def waiting_in(store: Store, version: int | None) -> dict[str, dict[str, Waiting]]:
    """What a night read of the one before, from the table's version that it names."""
    found: dict[str, dict[str, Waiting]] = {}
    if version is not None:
        for row in at_version(store, FEATURE_READINESS, version).toArrow().to_pylist():
            times = [
                None if row[name] is None else round(row[name].timestamp() * 1_000_000)
                for name in ("ready_since", "verdict_since")
            ]
            if row["verdict"] != "UP_TO_DATE":
                columns = (row[name] for name in ("finalized_level", "verdict", "target"))
                found.setdefault(row["cluster"], {})[row["feature"]] = Waiting(*columns, *times)
    return found


def test_nights_remember_since_when_and_a_night_that_did_not_end_does_not_count(
    store: Store,
) -> None:
    """The third night's evidence is too old, the fourth's is not: it waited all the while."""
    put_snapshots(store, fold_samples(sample_lines("k37-forgotten", "ghost-broker")), RUN)
    first = run_audit(store, RUN, forgotten=14 * DAY)
    nights = [first.judged]
    for number, (days, age) in enumerate([(13, LONG), (15, DAY), (16, LONG)], 1):
        as_of = first.as_of + days * DAY
        if number == 3:  # it dies before its row in gold.audit_run
            rows = arrow.schema_of(FEATURE_READINESS.schema).empty_table()
            store.append(FEATURE_READINESS, rows, RUN + 3)
        run = RUN + number + (number == 3)
        known = run_audit(store, run, as_of, forgotten=14 * DAY, max_age=age)
        nights.append(known.judged)
    forgotten = [
        [row for row in said.findings.to_pylist() if row["code"] == "finalization_forgotten"]
        for said in nights
    ]
    assert [len(rows) for rows in forgotten[:3]] == [0, 0, 0]
    assert {row["cluster"] for row in forgotten[3]} == {FORGOTTEN}
    for said in nights:
        waits = [at for at in said.readiness["ready_since"].to_pylist() if at is not None]
        assert {round(at.timestamp() * 1_000_000) for at in waits} == {first.as_of}
    for number, said in enumerate(nights):
        run = RUN + number + (number == 3)
        assert rows_of(store.root, FEATURE_READINESS, run=run) == in_order(said.readiness)
    check_first_seen(store, [RUN, RUN + 1, RUN + 2, RUN + 4])


def check_first_seen(store: Store, runs: list[int]) -> None:
    """A finding names the first of the runs in a row that have it, whatever run died between."""
    before: dict[tuple[object, ...], int] = {}
    for run in runs:
        rows = rows_of(store.root, FINDINGS, without=(), run=run)
        assert {row["run_date"] for row in rows} == {date(2026, 11, 21)}
        keys = {tuple(row[name] for name in FINDINGS.grain[1:]): row for row in rows}
        now = {key: before.get(key, run) for key in keys}
        assert {key: row["first_seen_run"] for key, row in keys.items()} == now
        before = now
    assert {RUN, RUN + 4} <= set(before.values())


def test_a_mute_reaches_the_workers_and_the_table(store: Store) -> None:
    put_snapshots(store, fold_samples(sample_lines("ghost-broker")), RUN)
    day = date(2099, 12, 31)
    rule = MuteEntry(code="unsupported_by_node", cluster=GHOST, reason="its disk", until=day)
    old = MuteEntry(code="ghost_broker", reason="known", until=date(2020, 1, 1))
    said = run_audit(store, RUN, mutes=(rule, old)).judged
    rows = {str(row["code"]): row for row in rows_of(store.root, FINDINGS, without=WORDS)}
    assert list(rows.values()) == in_order(said.findings)
    told = {code: (row["muted"], row["muted_until"]) for code, row in rows.items()}
    assert told["unsupported_by_node"] == ("its disk", day)
    assert told["ghost_broker"] == told["mute_expired"] == (None, None)
    assert said.plans["verdict"].to_pylist() == ["BLOCKED"]


def check_plans(audited: Audited) -> None:
    """Every plan reads back, to the same bytes, and its digest is the digest of its meaning."""
    plans = [row for row in audited.judged.plans.to_pylist() if row["steps"]]
    assert plans
    for row in plans:
        plan = files.read_plan(row["plan"], row["cluster"])
        assert files.write_plan(plan.plan, plan.for_people) == row["plan"]
        assert plan.plan.cluster == row["cluster"]
        assert plan.plan.steps == plan_requirements.steps_of(row["steps"])
        assert files.digest(replace(plan.plan, cluster="another")) != plan.digest


def check_lines(store: Store, audited: Audited, lines: list[bytes]) -> None:
    """A finding leads to the landing line it rests on."""
    found = places_of(store.rows, lines_of(audited.judged.findings))
    wanted = set(audited.judged.findings["line_id"].to_pylist()) - {0, None}
    places = {row["line_id"]: row["line_number"] for row in parse(lines).to_pylist()}
    assert found == {line: f"/run-{RUN}.jsonl:{places[line]}" for line in wanted & set(places)}


def test_a_night_without_any_cluster_is_no_evidence_and_writes_nothing(
    store: Store, samples: pa.Table
) -> None:
    with pytest.raises(NoEvidenceError, match=r"silver\.cluster_snapshot: there is none"):
        run_audit(store, RUN)
    put_snapshots(store, samples.slice(0, 0), RUN)
    with pytest.raises(NoEvidenceError, match=r"bronze\.landing_line shows why"):
        run_audit(store, RUN)
    assert not (Path(store.root.removeprefix("file:")) / "gold").exists()
