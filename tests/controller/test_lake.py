"""The tables without Spark: the right night, the right cluster, quickly, and clear errors."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow.dataset import InMemoryDataset

from featurelib.arrow import read, schema_of, table_of
from featurelib.errors import ConfigError, NoEvidenceError, SurroundingsError, TableError
from featurelib.lake import Lake
from featurelib.planning.outlook import with_texts
from featurelib.schema import LONG, SNAPSHOT, TEXT, TIME, Schema
from featurelib.tables import (
    AUDIT_RUN,
    CLUSTER_SNAPSHOT,
    FEATURE_READINESS,
    FINDINGS,
    INCOMPATIBLE_BROKERS,
    NODE_ADVERTISEMENT,
    UPGRADE_PLANS,
    Table,
)
from tests.report.samples import CATALOGUE, judge_samples, read_samples
from tests.rows import make

RUNS = (20261119080000, 20261120080000, 20261121080000)
FLEET = 2500
PARTS = {
    "findings": FINDINGS,
    "incompatible": INCOMPATIBLE_BROKERS,
    "readiness": FEATURE_READINESS,
    "plans": UPGRADE_PLANS,
}
GHOST = "h0FOOR_sRsiOiKHch7mH4w"
FORGOTTEN = "4Imaql6QRMyinfQbQ1eyVA"


def append(
    root: Path, table: Table, rows: pa.Table, mode: str = "append", version: int | None = None
) -> None:
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
                written = str(table.version if version is None else version)
                action["metaData"]["configuration"]["featurelib.tableVersion"] = written
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))


def with_run(rows: pa.Table, run: int) -> pa.Table:
    return rows.add_column(0, "run", pa.repeat(pa.scalar(run, pa.int64()), rows.num_rows))


def copies(rows: pa.Table, count: int) -> pa.Table:
    """The rows again and again, clusters numbered from the second time on."""
    at = rows.schema.get_field_index("cluster")
    parts = [rows]
    for number in range(1, count):
        names = pc.binary_join_element_wise(rows["cluster"], str(number), "-")
        parts.append(rows.set_column(at, "cluster", names))
    return pa.concat_tables(parts)


def write_night(root: Path, run: int, count: int, snapshots: int) -> None:
    judged = judge_samples()
    plans = with_texts(judged, dialect="strict", catalogue=CATALOGUE)
    for part, table in PARTS.items():
        rows = plans if part == "plans" else getattr(judged, part)
        append(root, table, with_run(copies(table_of(rows), count), run))
    night = {
        "run": run,
        "as_of": datetime.fromtimestamp(read_samples().newest / 1e6, UTC),
        "release": "0.1.0",
        "catalogue": CATALOGUE.label,
        "dialect": "strict",
        "inputs": [{"table": "silver.cluster_snapshot", "version": snapshots}],
        **dict.fromkeys(["clusters", "ready", "blocked", "up_to_date", "unknown", "findings"], 0),
    }
    append(root, AUDIT_RUN, table_of(make([night], AUDIT_RUN.schema)))


def write_snapshots(root: Path, run: int, count: int, leave_out: Sequence[str] = ()) -> None:
    rows = table_of(read_samples().batch)
    rows = rows.filter(pc.invert(pc.is_in(rows["cluster"], pa.array(leave_out, pa.string()))))
    rows = with_run(copies(rows, count), run)
    rows = rows.append_column("learned", pa.nulls(rows.num_rows, pa.binary()))
    append(root, CLUSTER_SNAPSHOT, rows, mode="overwrite")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three nights of 2,500 clusters; the first one's snapshots lack a cluster."""
    root = tmp_path_factory.mktemp("lake")
    count = FLEET // len(read_samples().names) + 1
    for version, run in enumerate(RUNS):
        write_snapshots(root, run, count if run == RUNS[-1] else 1, [GHOST] if version == 0 else [])
        write_night(root, run, count if run == RUNS[-1] else 1, version)
    return root


def test_one_cluster_of_a_fleet_is_read_within_two_seconds(tables: Path) -> None:
    begin = time.perf_counter()
    lake = Lake(str(tables))
    name = f"{GHOST}-57"
    found = {part: lake.rows(table, cluster=name) for part, table in PARTS.items()}
    row = lake.snapshot(name)
    assert time.perf_counter() - begin < 2
    assert len(lake.clusters()) > FLEET
    assert len(row) == 1
    assert {len(rows) for rows in found.values()} == {0, 1, 3, 6}
    for part, rows in found.items():
        whole = getattr(judge_samples(), part)
        assert len(rows) == whole["cluster"].to_pylist().count(GHOST)
        assert set(rows["run"].to_pylist()) <= {RUNS[-1]}


def test_snapshots_of_an_earlier_release_have_null_in_a_column_that_was_added(
    tables: Path, tmp_path: Path
) -> None:
    run, where = RUNS[0], tmp_path / CLUSTER_SNAPSHOT.path
    shutil.copytree(tables, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(where)
    write_snapshots(tmp_path, run, 1)
    rows = DeltaTable(str(where)).to_pyarrow_table().drop_columns("waiting")
    shutil.rmtree(where)
    kept = [name for name in CLUSTER_SNAPSHOT.schema.names if name != "waiting"]
    narrow = replace(CLUSTER_SNAPSHOT, schema=CLUSTER_SNAPSHOT.schema.select(kept))
    append(tmp_path, narrow, rows)
    found = Lake(str(tmp_path)).snapshot(GHOST, run)
    assert found.schema == SNAPSHOT
    assert found["waiting"].to_pylist() == [None]


def test_a_history_is_read_from_the_files_that_may_hold_the_cluster_alone(tmp_path: Path) -> None:
    """The other files are taken away: nobody may miss them."""
    empty = dict.fromkeys(NODE_ADVERTISEMENT.schema.names)
    for run in RUNS[:2]:
        for names in (("a", "b"), ("c", "d"), ("d", "e")):
            said = [{**empty, "run": run, "cluster": name, "line_id": 1} for name in names]
            append(tmp_path, NODE_ADVERTISEMENT, pa.Table.from_pylist(said))
        told = pa.Table.from_pylist([{**dict.fromkeys(AUDIT_RUN.schema.names), "run": run}])
        append(tmp_path, AUDIT_RUN, told)
    table = DeltaTable(str(tmp_path / NODE_ADVERTISEMENT.path))
    for file in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        if not file["min.cluster"] <= "c" <= file["max.cluster"]:
            (tmp_path / NODE_ADVERTISEMENT.path / file["path"]).unlink()
    lake = Lake(str(tmp_path))
    found = lake.history(NODE_ADVERTISEMENT, ["c"])
    assert sorted(found["run"].to_pylist()) == sorted(RUNS[:2])
    assert set(found["cluster"].to_pylist()) == {"c"}
    assert lake.history(NODE_ADVERTISEMENT, ["c"], RUNS[0])["run"].to_pylist() == [RUNS[0]]
    assert len(lake.history(NODE_ADVERTISEMENT, ["zz"])) == 0
    with pytest.raises(
        SurroundingsError, match=r"^table silver\.node_advertisement: cannot be read"
    ):
        lake.history(NODE_ADVERTISEMENT, ["a"])


def test_a_snapshot_is_the_one_that_night_judged(tables: Path) -> None:
    lake = Lake(str(tables))
    assert len(lake.snapshot(GHOST, RUNS[1])) == 1
    with pytest.raises(NoEvidenceError, match=f"cluster {GHOST}: no data of it"):
        lake.snapshot(GHOST, RUNS[0])


def test_a_table_is_whole_while_its_files_are_there_with_their_sizes(tmp_path: Path) -> None:
    write_night(tmp_path, RUNS[0], 1, 1)
    assert Lake(str(tmp_path)).version_if_whole(FINDINGS) == 0
    [file] = (tmp_path / FINDINGS.path).glob("*.parquet")
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    assert Lake(str(tmp_path)).version_if_whole(FINDINGS) is None
    file.unlink()
    assert Lake(str(tmp_path)).version_if_whole(FINDINGS) is None
    file.write_bytes(content)
    assert Lake(str(tmp_path)).version_if_whole(FINDINGS) == 0


def test_what_is_not_there_is_said_with_what_is(tables: Path, tmp_path: Path) -> None:
    lake = Lake(str(tables))
    with pytest.raises(ConfigError, match=r"--run 20261120: None of the 3 runs .* nearest"):
        lake.run(20261120)
    with pytest.raises(ConfigError, match=f"Did you mean {GHOST} or "):
        lake.snapshot(GHOST.lower())
    with pytest.raises(ConfigError, match="There is no such folder"):
        Lake(str(tmp_path / "none"))
    with pytest.raises(NoEvidenceError, match=r"table gold\.audit_run: there is none at"):
        Lake(str(tmp_path)).run()


def test_a_table_of_an_earlier_version_is_read_and_of_a_later_one_is_not(tmp_path: Path) -> None:
    empty = table_of(make([], AUDIT_RUN.schema))
    append(tmp_path, AUDIT_RUN, empty)
    with pytest.raises(NoEvidenceError, match="has no run"):
        _ = Lake(str(tmp_path)).runs
    append(tmp_path, UPGRADE_PLANS, table_of(make([], UPGRADE_PLANS.schema)), version=1)
    append(tmp_path, AUDIT_RUN, table_of(make([{"run": 1}], AUDIT_RUN.schema)))
    assert Lake(str(tmp_path)).clusters() == []
    later = FINDINGS.version + 1
    append(tmp_path, FINDINGS, table_of(make([], FINDINGS.schema)), version=later)
    with pytest.raises(TableError, match=f"Version is {later}, and"):
        Lake(str(tmp_path)).rows(FINDINGS)


def test_rows_are_those_of_the_microsecond_though_the_log_knows_milliseconds() -> None:
    """A column that no file has is null, and a condition on it holds for no row."""
    of = Schema.of([("name", TEXT), ("at", TIME), ("later", LONG)])
    there = schema_of(of).remove(2)
    table = pa.table([["a", "b", None], [1_500, 1_999, None]], schema=there)
    source = InMemoryDataset(table)
    found = read(source, of, [("at", ">", 1_700)], ["name", "later"])
    assert found.to_pylist() == [{"name": "b", "later": None}]
    assert read(source, of, [("later", "=", 1)], ["name"]).num_rows == 0
    assert read(source, of, [("at", "is null", None)], ["at"]).to_pylist() == [{"at": None}]
    assert read(source, of, (), ["name"])["name"].to_pylist() == ["a", "b", None]
