"""Bronze to silver: the same tables, however the lines came and whatever was interrupted."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from featurelib.audit.columns import latest
from featurelib.catalogue import load
from featurelib.errors import NoEvidenceError
from featurelib.landing import Landing, LogLine, read
from featurelib.snapshot.history import history_rows
from featurelib.spark.folding import ENTRY, fold_batches
from featurelib.spark.ingest import ingest
from featurelib.spark.refine import refine
from featurelib.spark.store import Store
from featurelib.tables import (
    CLUSTER_SNAPSHOT,
    FINALIZED_FEATURES,
    LANDING_LINE,
    NODE_ADVERTISEMENT,
    Table,
)
from tests.core.lines import MAX_AGE
from tests.core.test_from_the_future import moved
from tests.core.test_zookeeper_evidence import BEFORE, LATER, NARROW, cut, registered, silence
from tests.seeing import see
from tests.spark.nights import (
    RUN,
    SAMPLES,
    Row,
    fold_samples,
    in_order,
    open_table,
    parse,
    put_bronze,
    rows_of,
    sample_lines,
    with_run,
)

pytestmark = pytest.mark.spark

# Both forms of a dump, dumps with and without a checkpoint, and both kinds of clusters.
NAMES = ("ghost-broker", "k39-dynamic", "k40-fresh", "zk-392-many", "zk-roll-282-332")
SILVER = (NODE_ADVERTISEMENT, FINALIZED_FEATURES, CLUSTER_SNAPSHOT)
BRONZE_COLUMNS = (
    "run bigint, cluster string, kind string, observed_at timestamp, line_id bigint, raw binary"
)
HASHED = '"cluster_id":"c","observed_at":"2026-11-21T00:00:0'


def run_refine(store: Store, as_of: int | None = None, run: int | None = None) -> list[str]:
    """What refine said, from a driver that has just started."""
    said: list[str] = []
    refine(Store(store.session, store.root), said.append, as_of=as_of, run=run)
    return said


def silver(store: Store) -> dict[str, Any]:
    """The snapshots, and what the histories tell however late a line came: the records of the
    metadata log, and what each source showed last. Each row is there once."""
    found: dict[str, Any] = {"snapshots": snapshots(store)}
    for table in (NODE_ADVERTISEMENT, FINALIZED_FEATURES):
        rows = rows_of(store.root, table)
        grain = [tuple(row[name] for name in table.grain) for row in rows]
        assert len(grain) == len(set(grain))
        newest: dict[object, tuple[object, set[object]]] = {}
        for row in rows:
            source, at = (row["cluster"], row["role"], row["node_id"]), row["observed_at"]
            if source not in newest or at > newest[source][0]:  # type: ignore[operator]
                newest[source] = at, set()
            if at == newest[source][0]:
                newest[source][1].add(tuple(row[name] for name in table.schema.names[-3:]))
        last = {source: of for source, (_, of) in newest.items() if source[1] != "metadata_log"}  # type: ignore[index]
        found[table.name] = last, records(rows)
    return found


def versions(store: Store) -> list[int]:
    return [open_table(store.root, table).version() for table in SILVER]


@pytest.fixture(scope="module")
def undisturbed(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Silver after one night that brought all lines of NAMES."""
    store = Store(session, str(tmp_path_factory.mktemp("undisturbed")))
    put_bronze(store, RUN, sample_lines(*NAMES))
    run_refine(store)
    return silver(store)


ANSWER = (
    '{"kind":"api_versions",' + HASHED + '1Z","node_id":3,"role":"broker","endpoint":"h:1",'
    '"asked_version":4,"answered_version":4,"error_code":0,"supported_features":['
    '{"name":"group.version","min_version":0,"max_version":1},'
    '{"name":"metadata.version","min_version":1,"max_version":25}],"finalized_features":['
    '{"name":"metadata.version","min_version_level":25,"max_version_level":25}],'
    '"finalized_features_epoch":40,"zk_migration_ready":false}'
).encode()


# The laws, without Spark: the fold of many small nights.

Line = tuple[int, bytes, Landing]


def as_entries(lines: Sequence[bytes]) -> list[Line]:
    entries = []
    for row in parse(lines).select(["line_id", "raw"]).to_pylist():
        landing = read(row["raw"])
        assert isinstance(landing, Landing)
        entries.append((row["line_id"], row["raw"], landing))
    return entries


def dump_of(line: Line) -> int | None:
    return line[2].observed_at if isinstance(line[2].content, LogLine) else None


def learned_of(packed: Any) -> Iterator[tuple[object, ...]]:
    """What metadata logs taught, without the run."""
    clusters = [] if packed is None else [("c", packed)]
    for table in (NODE_ADVERTISEMENT, FINALIZED_FEATURES):
        for batch in history_rows(table, 0, clusters):
            for row in batch.to_pylist():
                if row.pop("role") == "metadata_log":
                    yield tuple(value for key, value in row.items() if key != "run")


def fold_nights(nights: Sequence[Sequence[Line]]) -> tuple[Row, list[tuple[object, ...]]]:
    """The last row of a cluster and all it taught, night by night as refine folds them: again from
    its first line if a night brings more of a dump."""
    seen: dict[int, tuple[int, Line]] = {}
    row: Row = {}
    changes: list[tuple[object, ...]] = []
    for run, night in enumerate(nights, 1):
        fresh = {line[0]: line for line in night if line[0] not in seen}
        dumps = {dump_of(line) for line in fresh.values()} - {None}
        entries = [(run, line) for line in fresh.values()]
        is_stale = any(dump_of(line) in dumps for _, line in seen.values())
        entries += [(run, line) for _, line in seen.values() if is_stale]
        seen |= {line[0]: (run, line) for line in fresh.values()}
        if not fresh:
            continue
        cluster = night[0][2].cluster
        data: list[tuple[object, ...]] = [
            (at, cluster, line_id, raw, None)
            for at, (line_id, raw, _) in sorted(entries, key=lambda entry: (entry[0], entry[1][0]))
        ]
        if row and not is_stale:
            data.insert(0, (0, cluster, None, None, row["state"]))
        arrays = [
            pa.array(column, field.type)
            for column, field in zip(zip(*data, strict=True), ENTRY, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=ENTRY)
        (row,) = pa.Table.from_batches(fold_batches([batch], True)).to_pylist()
        changes += learned_of(row.pop("learned"))
        assert row.pop("set_aside") is None
    return row, sorted({*changes}, key=repr)  # a history has each once


def split(lines: list[Line], pick: random.Random) -> Iterator[list[Line]]:
    """Lines as two to four nights: cut, cut and shuffled, dealt out, some of it sent again."""
    count = pick.randint(2, 4)
    how = pick.choice(("cut", "shuffled", "dealt"))
    if how == "dealt":
        parts = [[line for line in lines if pick.randrange(count) == 0] for _ in range(count)]
        parts.append(lines[:: pick.choice((1, -1))])
    else:
        cuts = [0, *sorted(pick.sample(range(1, len(lines)), count - 1)), len(lines)]
        parts = [lines[a:b] for a, b in pairwise(cuts)]
    if how == "shuffled":
        pick.shuffle(parts)
    yield from parts
    yield pick.choice(parts)


@pytest.mark.parametrize("name", [path.name for path in sorted(SAMPLES.glob("*/"))])
def test_lines_split_over_nights_in_any_way_fold_to_the_same_bytes(name: str) -> None:
    lines = as_entries(sample_lines(name))
    expected = fold_nights([lines])
    pick = random.Random(name)
    for _ in range(8):
        nights = list(split(lines, pick))
        row, changes = fold_nights([night for night in nights if night])
        assert [key for key in row if row[key] != expected[0][key]] == []
        assert changes == expected[1]


def test_a_change_is_learned_once_however_often_it_is_dumped() -> None:
    lines = as_entries(sample_lines("ghost-broker"))
    _, changes = fold_nights([lines[:90], lines[90:], lines])
    assert changes == fold_nights([lines])[1] != []


def test_a_late_old_file_does_not_win() -> None:
    older = ANSWER.replace(b"11-21", b"11-20").replace(b":25", b":24")
    new, old = as_entries([ANSWER, older])
    row, _ = fold_nights([[new], [old]])
    assert row == fold_nights([[old], [new]])[0]
    assert row["ranges"] == fold_nights([[new]])[0]["ranges"]


# Whole refines, on real tables.


def test_files_split_packed_repeated_and_late_give_the_tables_of_one_night(
    store: Store, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    lines = sample_lines(*NAMES)
    thirds = [lines[2::3], lines[: len(lines) // 2], lines[::-1]]  # the last one repeats the rest
    for night, part in enumerate(thirds):
        folder = tmp_path / "landing" / str(night)
        folder.mkdir(parents=True)
        (folder / "b.jsonl").write_bytes(b"\n".join([*part[::2], b"not a landing line"]))
        (folder / "a.jsonl.gz").write_bytes(gzip.compress(b"\n".join([*part[1::2], *part[:9]])))
        if night != 1:  # so that the third night refines two ingests at once
            ingest(store, str(tmp_path / "landing"), RUN + night, lambda _: None)
            run_refine(store)
    assert silver(store) == undisturbed
    before = versions(store)
    assert run_refine(store) == ["refine: nothing new came in"]
    assert versions(store) == before


def test_each_file_of_a_night_says_which_clusters_it_holds(store: Store) -> None:
    put_bronze(store, RUN, sample_lines("zk-roll-282-332", "k40-fresh", "ghost-broker"))
    run_refine(store)
    for table in (NODE_ADVERTISEMENT, FINALIZED_FEATURES):
        assert table.file_rows is not None
        outside = open_table(store.root, table)
        for file in pa.table(outside.get_add_actions(flatten=True)).to_pylist():
            rows = pq.read_table(Path(store.root.removeprefix("file:"), table.path, file["path"]))
            found = rows["cluster"].to_pylist()
            assert found == sorted(found)
            assert (file["min.cluster"], file["max.cluster"]) == (found[0], found[-1])
            assert (file["min.run"], file["max.run"]) == (RUN, RUN)
            assert len(found) <= table.file_rows


class Killed(BaseException):
    """The driver is gone."""


def refine_until(
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    table: Table,
    as_of: int | None = None,
    run: int | None = None,
) -> None:
    """A refine that dies when it would write `table`."""

    def guard(write: Any) -> Any:
        def guarded(store: Store, to: Table, *rows: Any) -> int:
            if to is table:
                raise Killed
            version: int = write(store, to, *rows)
            return version

        return guarded

    with monkeypatch.context() as patch:
        for name in ("append", "overwrite"):
            patch.setattr(Store, name, guard(getattr(Store, name)))
        with pytest.raises(Killed):
            run_refine(store, as_of, run)


def test_what_a_crash_left_open_is_followed_up_before_and_with_the_next_night(
    store: Store, monkeypatch: pytest.MonkeyPatch, undisturbed: dict[str, Any]
) -> None:
    lines = sample_lines(*NAMES)
    parts = [lines[::4], lines[1::4], lines[2::4], lines[3::4]]
    put_bronze(store, RUN, parts[0])
    refine_until(store, monkeypatch, CLUSTER_SNAPSHOT)
    refine_until(store, monkeypatch, NODE_ADVERTISEMENT)
    assert rows_of(store.root, NODE_ADVERTISEMENT) == []
    assert run_refine(store) == ["refine: nothing new came in"]  # but it followed up
    assert rows_of(store.root, NODE_ADVERTISEMENT)
    put_bronze(store, RUN + 1, parts[1])
    refine_until(store, monkeypatch, FINALIZED_FEATURES)
    put_bronze(store, RUN + 2, parts[2])
    put_bronze(store, RUN + 3, parts[3])
    run_refine(store)
    assert silver(store) == undisturbed


def test_a_night_reads_no_file_of_other_nights_and_one_without_news_writes_nothing(
    store: Store,
) -> None:
    """The files of bronze that other nights wrote are taken away: nobody may miss them."""
    put_bronze(store, RUN, sample_lines("k40-fresh", "zk-roll-282-332"))
    run_refine(store)
    for uri in open_table(store.root, LANDING_LINE).file_uris():
        Path(uri.removeprefix("file://")).unlink()
    second = [line.replace(b"2026-11-21", b"2026-11-22") for line in sample_lines("k40-fresh")]
    put_bronze(store, RUN + 1, second)
    run_refine(store)
    found = rows_of(store.root, CLUSTER_SNAPSHOT)
    assert {str(row["observed_at"])[:10] for row in found} == {"2026-11-21", "2026-11-22"}
    # A night of repeated lines, and then a commit of no run: the newest run cannot be read off it.
    store.append(LANDING_LINE, store.session.createDataFrame(with_run(RUN + 2, [])), RUN + 2)
    run_refine(store)
    before = versions(store)
    store.maintain(LANDING_LINE, retention_days=30)
    assert run_refine(store) == ["refine: nothing new came in"]
    assert versions(store) == before


def test_without_an_ingest_there_is_nothing_to_refine(store: Store) -> None:
    with pytest.raises(NoEvidenceError, match="nothing was ingested yet"):
        run_refine(store)
    store.create(LANDING_LINE)
    with pytest.raises(NoEvidenceError, match=r"Run \./spark-submit\.sh ingest first"):
        run_refine(store)
    assert not store.exists(CLUSTER_SNAPSHOT)


# Lines dated later than what is judged.

DAY = 24 * 3_600_000_000


def snapshots(store: Store) -> list[Row]:
    return rows_of(store.root, CLUSTER_SNAPSHOT, without=("run", "learned", "set_aside"))


def folded(lines: Sequence[bytes], until: int) -> list[Row]:
    return in_order(fold_samples(lines, latest(until)))


def records(rows: Iterable[Row]) -> set[tuple[object, ...]]:
    """What metadata logs taught, whichever dump did."""
    keys = ("cluster", "node_id", "epoch", "feature")
    return {tuple(row[key] for key in keys) for row in rows if row["role"] == "metadata_log"}


def test_lines_from_the_future_wait_in_bronze_until_a_night_reaches_them(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was folded before, each night is as if all lines of up to then were folded at once:
    nights ahead of their time, in the past, without new lines, and dumps that wait in parts. The
    histories have each thing once, however often its dump was folded and cut off again."""
    here = sample_lines(*NAMES)
    ahead = moved(sample_lines("ghost-broker", "zk-392-many"), timedelta(days=9))
    far = moved(sample_lines("k37-forgotten"), timedelta(days=99))  # nothing else landed of it
    lost = json.loads(sample_lines("k40-fresh")[0])
    later = {"kind": "not_reached", "observed_at": "2026-11-26T06:00:00Z", "error": "refused"}
    far.append(json.dumps({"cluster_id": lost["cluster_id"], **later}).encode())
    now = max(row["observed_at"] for row in parse(here).to_pylist())
    now = int(now.timestamp() * 1_000_000)
    first, second = here[::2] + ahead[::2] + far, here[1::2] + ahead[1::2]
    store = Store(session, str(tmp_path))
    put_bronze(store, RUN, first)
    run_refine(store)  # as releases did that looked at no clock
    assert snapshots(store) == in_order(fold_samples(first))
    said = run_refine(store, now, RUN + 1)  # heals by itself, though nothing came in
    assert said[0] == "refine: snapshot of every cluster written"
    assert snapshots(store) == folded(first, now)
    assert run_refine(store, now, RUN + 2) == ["refine: nothing new came in"]
    put_bronze(store, RUN + 3, second)
    run_refine(store, now, RUN + 3)
    assert snapshots(store) == folded(first + second, now)
    run_refine(store, now - DAY, RUN + 4)
    assert snapshots(store) == folded(first + second, now - DAY)
    refine_until(store, monkeypatch, FINALIZED_FEATURES, now + 10 * DAY, RUN + 5)
    assert run_refine(store, now + 10 * DAY, RUN + 6) == ["refine: nothing new came in"]
    assert snapshots(store) == folded(first + second, now + 10 * DAY)
    run_refine(store, now + 100 * DAY, RUN + 7)
    whole = [*here, *ahead, *far]
    assert snapshots(store) == in_order(fold_samples(whole))
    put_bronze(undisturbed := Store(session, str(tmp_path / "undisturbed")), RUN, whole)
    run_refine(undisturbed)
    for table in (NODE_ADVERTISEMENT, FINALIZED_FEATURES):
        found = rows_of(store.root, table)
        grain = [tuple(row[name] for name in table.grain) for row in found]
        assert len(grain) == len(set(grain))
        assert records(found) == records(rows_of(undisturbed.root, table)) != set()


def test_a_damaged_line_of_a_znode_is_folded_as_the_command_line_folds_it(store: Store) -> None:
    """And a cluster of which no line is valid gets no row."""
    damaged = cut(registered(1, NARROW, 60))
    lines = [*BEFORE, *LATER, silence(1)]
    stranger = damaged.replace(b'"c"', b'"nobody"')
    put_bronze(store, RUN, lines)
    refine(store, lambda _: None)
    put_bronze(store, RUN + 1, [damaged, stranger])
    refine(store, lambda _: None)
    found = {row["cluster"]: row for row in store.fetch(CLUSTER_SNAPSHOT).to_pylist()}
    view = see([*lines, damaged], catalogue=load(), as_of=None, max_age=MAX_AGE)
    [expected] = view.rows.to_pylist()
    assert found.keys() == {"c"}
    assert {name: found["c"][name] for name in ("registrations", "state")} == {
        name: expected[name] for name in ("registrations", "state")
    }
