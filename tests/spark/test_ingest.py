"""Landing files to bronze, through real Delta tables."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chispa.dataframe_comparer import assert_df_equality
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from featurelib.collecting import collect_one, name_of, write_lines
from featurelib.config.files import PART
from featurelib.errors import ConfigError, LandingError, NoEvidenceError, SurroundingsError
from featurelib.lake import read_quarantine
from featurelib.spark import ingest as module
from featurelib.spark.ingest import (
    NAMES,
    IngestCounts,
    check_files,
    ingest,
    known_lines,
    list_files,
    read_lines,
)
from featurelib.spark.local_files import Landed
from featurelib.spark.store import Store
from featurelib.tables import INGEST_RUN, LANDING_LINE, Table
from tests.backends.clusters import ZK
from tests.laboratory import LABORATORY
from tests.landing.test_tool_outputs import DUMPS, converted
from tests.spark.nights import run_job
from tests.test_collect import NIGHT, embedded, open_one, quiet

ROOT = Path(__file__).parents[2]
RUN = 20261121000000
BAD = b"not a landing line"
SILENT = b'{"kind":"describe_quorum","cluster_id":"x","asked_node":1,"listener":"b","error":"?"}'

pytestmark = pytest.mark.spark


def line(cluster: str, night: int = 1) -> bytes:
    return (
        f'{{"kind":"znode","cluster_id":"{cluster}","observed_at":"2026-11-{night:02}T00:00:00Z",'
        '"path":"/feature","version":null,"czxid":null,"ephemeral_owner":null,"data":null}'
    ).encode()


def land(folder: Path, **files: list[bytes]) -> str:
    for name, content in files.items():
        path = folder / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\n".join(content))
    return str(folder)


def run_ingest(store: Store, landing: str, run: int = RUN) -> IngestCounts:
    return ingest(Store(store.session, store.root), landing, run, lambda _: None)


def bronze(store: Store) -> list[Row]:
    rows = store.read(LANDING_LINE).withColumn("raw", F.col("raw").cast("string"))
    return sorted(rows.collect(), key=lambda row: (row.source_file, row.line_number))


def counts(files: int, accepted: int, repeated: int, quarantined: int) -> IngestCounts:
    return IngestCounts(
        files=files,
        lines=accepted + repeated + quarantined,
        accepted=accepted,
        repeated=repeated,
        quarantined=quarantined,
    )


def test_samples_are_read_once_and_every_line_is_accepted(store: Store) -> None:
    samples = LABORATORY
    content = [path.read_bytes().splitlines() for path in samples.rglob("landing.jsonl")]
    first = run_ingest(store, str(samples))
    number = sum(map(len, content))
    distinct = len({raw for file in content for raw in file})
    assert first == counts(len(content), distinct, number - distinct, 0)
    version = store.version(LANDING_LINE)
    assert run_ingest(store, str(samples), RUN + 1) == IngestCounts()
    assert store.version(LANDING_LINE) == version
    grain = store.read(LANDING_LINE).groupBy("content_hash").count().filter("count > 1")
    assert grain.isEmpty()


def test_a_line_is_kept_at_its_first_place_whatever_repeats_it(
    store: Store, tmp_path: Path
) -> None:
    landing = land(tmp_path / "l", b=[line("x"), BAD], a=[line("y"), line("x"), line("x"), BAD])
    assert run_ingest(store, landing) == counts(2, 2, 3, 1)
    assert [(Path(row.source_file).name, row.line_number) for row in bronze(store)] == [
        ("a.jsonl", 1),
        ("a.jsonl", 2),
        ("a.jsonl", 4),
    ]


def test_a_folder_is_entered_once_whatever_links_lead_to_it(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "l"
    land(folder, **{"a/x": [line("x")], "b/y": [line("y")], "_hidden/z": [BAD], "_z": [BAD]})
    land(tmp_path / "elsewhere", w=[line("w")])
    for link, to in {"a/up": "..", "b/up": "..", "to-b": "b", "away": "../elsewhere"}.items():
        (folder / link).symlink_to(to)
    (folder / "gone.jsonl").symlink_to("nowhere")
    (folder / "self.jsonl").symlink_to("self.jsonl")
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "empty.jsonl").touch()
    said: list[str] = []
    assert ingest(store, str(folder), RUN, said.append) == counts(3, 3, 0, 0)
    assert [text for text in said if "link" in text] == [
        f"ingest: {folder}/{link} is a link to a folder that is read anyway: once"
        for link in ("to-b", "a/up", "b/up")
    ]


def test_what_is_listed_here_is_what_spark_lists(session: SparkSession, tmp_path: Path) -> None:
    """So that files which an earlier release read are known again."""
    folder = tmp_path / "l"
    land(folder, **{"a/x": [line("x")], "a=_b {1}%20/é y": [line("y")], "_no/z": [BAD]})
    listed = list_files(session, str(folder), print)
    reader = session.read.format("binaryFile").option("recursiveFileLookup", "true")
    spark = reader.option("pathGlobFilter", NAMES).load(str(folder))
    at = F.unix_micros("modificationTime")
    assert len(listed) == 2
    assert listed == sorted(tuple(row) for row in spark.select("path", "length", at).collect())


def test_late_changed_and_repeated_files_add_only_what_is_new(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "l"
    landing = land(folder, a=[line("x", 5), BAD])
    assert run_ingest(store, landing) == counts(1, 1, 0, 1)
    land(folder, a=[line("x", 5), BAD, line("y", 6)], late=[line("x", 1), line("x", 5), BAD])
    assert run_ingest(store, landing, RUN + 1) == counts(2, 2, 4, 0)
    shutil.copy(folder / "a.jsonl", folder / "copy.jsonl")
    (folder / "deep").mkdir()
    (folder / "a.jsonl").rename(folder / "deep" / "moved.jsonl")
    assert run_ingest(store, landing, RUN + 2) == counts(2, 0, 6, 0)
    assert len(bronze(store)) == 4
    runs = store.read(INGEST_RUN).orderBy("run").collect()
    assert [(row.run, row.lines, row.accepted) for row in runs] == [
        (RUN, 2, 1),
        (RUN + 1, 6, 2),
        (RUN + 2, 6, 0),
    ]
    assert runs[0].files[0].source_file == f"file:{folder}/a.jsonl"
    assert runs[0].files[0].size == len(line("x", 5)) + 1 + len(BAD)


def test_damaged_and_odd_files_are_read_as_far_as_they_go(store: Store, tmp_path: Path) -> None:
    odd = tmp_path / "l" / "a [b]*?{c}%20 x\\y"
    odd.mkdir(parents=True)
    packed = gzip.compress(b"\n".join(line(f"c{number}") for number in range(3)))
    (odd / "two.json.gz").write_bytes(packed + gzip.compress(b"\n" + line("d") + b"\n"))
    (odd / "plain.ndjson.gz").write_bytes(line("e"))
    (odd / "empty.json").touch()  # there is nothing to read in it
    for name in ("_hidden.json", ".hidden.json", "README.md"):
        (odd / name).write_bytes(line("hidden"))
    assert run_ingest(store, str(tmp_path / "l")) == counts(2, 4, 0, 1)
    assert run_ingest(store, str(odd), RUN + 1) == IngestCounts()
    (fault,) = [row for row in bronze(store) if row.reason is not None]
    assert fault.reason.startswith("gzip stream is damaged after 0 bytes")
    assert fault.raw == f"{fault.source_file}: {fault.reason}"


def test_a_crash_between_the_two_commits_heals_with_the_next_run(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    landing = land(tmp_path / "l", a=[line("x"), BAD, SILENT])  # the last two have no time

    append = Store.append

    def crash(store: Store, table: Table, *rest: Any, **named: Any) -> int:
        if table is INGEST_RUN:
            raise OSError("killed")
        return append(store, table, *rest, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "append", crash)
        with pytest.raises(OSError, match="killed"):
            run_ingest(store, landing)
    before = bronze(store)
    with pytest.raises(ConfigError, match=f"run {RUN}: not greater than run {RUN}"):
        run_ingest(store, landing)
    assert run_ingest(store, landing, RUN + 1) == counts(1, 0, 3, 0)
    assert bronze(store) == before
    assert run_ingest(store, landing, RUN + 2) == IngestCounts()


def test_other_nights_are_not_read_to_recognise_a_line(store: Store, tmp_path: Path) -> None:
    for night in (1, 2):
        landing = land(tmp_path / str(night), a=[line("x", night)])
        run_ingest(store, landing, RUN + night)
    table = Path(store.path(LANDING_LINE).removeprefix("file:"))
    at = {row.run: row.file for row in _files(store)}
    (table / at[RUN + 1]).unlink()
    second = 1_793_491_200_000_000 + 86_400_000_000  # 2026-11-02
    for oldest, known in ((second, 1), (None, 0)):
        wanted = known_lines(oldest, oldest)
        assert sum(store.fetch(LANDING_LINE, one, ["line_id"]).num_rows for one in wanted) == known
        assert sum(store.read(LANDING_LINE, conditions=one).count() for one in wanted) == known


def _files(store: Store) -> list[Any]:
    name = F.substring_index(F.input_file_name(), "/", -2)  # workers' files lie in a folder
    return store.read(LANDING_LINE).select("run", name.alias("file")).collect()


def test_landing_without_files_and_landing_that_is_missing_are_told_apart(
    store: Store, tmp_path: Path
) -> None:
    (tmp_path / "l").mkdir()
    with pytest.raises(NoEvidenceError, match=r"has no files .* Nothing was written"):
        run_ingest(store, str(tmp_path / "l"))
    with pytest.raises(LandingError, match="there is no such folder or file"):
        run_ingest(store, str(tmp_path / "missing"))
    with pytest.raises(
        ConfigError, match=r"Spark has no connector for this address .No FileSystem for scheme"
    ):
        run_ingest(store, "nowhere://host/l")
    assert not os.path.exists(store.root.removeprefix("file:"))


def test_a_file_that_goes_away_while_it_is_read_is_named(store: Store, tmp_path: Path) -> None:
    landing = land(tmp_path / "l", a=[line("x")])

    def remove(text: str) -> None:
        (tmp_path / "l" / "a.jsonl").unlink()

    with pytest.raises(SurroundingsError, match=r"/l/a\.jsonl: cannot be read .*Run the job again"):
        ingest(store, landing, RUN, remove)
    assert bronze(store) == []


@pytest.fixture
def job(session: SparkSession, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Run jobs/ingest.py in this session: its exit code and what it said on stderr."""

    def call(*arguments: str) -> tuple[int, str]:
        return run_job("ingest", *arguments), capfd.readouterr().err

    return call


def test_the_job_reports_progress_and_ends_with_the_code_of_its_error(
    job: Callable[..., tuple[int, str]], store: Store, tmp_path: Path
) -> None:
    landing = land(tmp_path / "l", a=[line("x"), BAD])
    options = ("--landing", landing, "--tables", store.root, "--run")
    assert job(*options, str(RUN)) == (
        0,
        f"ingest: reading {landing}, run {RUN}\n"
        "ingest: 1 new file\n"
        "ingest: 2 lines = 1 accepted + 0 repeated + 1 quarantined\n"
        f"ingest: quarantined {landing}/a.jsonl:2 not valid JSON at character 1: expecting value, "
        "found not a landing line\n",
    )
    land(tmp_path / "l", a=[line("y")])
    code, said = job(*options, str(RUN))
    assert code == 2
    assert said.splitlines()[-1].startswith(f"error: run {RUN}: not greater than run {RUN}")
    code, said = job(*options, "5")
    assert code == 2
    assert said.startswith(
        "error: --run 5: This is not a run number. Use a time in UTC as yyyymmddHHMMSS"
    )
    (tmp_path / "empty").mkdir()
    assert job("--landing", str(tmp_path / "empty"), "--tables", store.root)[0] == 5
    with store.hold(RUN, "audit", print):
        code, said = job(*options, str(RUN + 1))
    assert code == 3
    assert "held by audit run" in said


def test_quarantined_lines_of_every_night_are_counted_and_the_newest_named(
    store: Store, tmp_path: Path
) -> None:
    landing = land(tmp_path, a=[b"{", b"[]"])
    run_ingest(store, landing, RUN)
    land(tmp_path, b=[b"not a line", b"{}", b"{", b""])  # the third is known by now
    run_ingest(store, landing, RUN + 1)
    found, newest = read_quarantine(store.rows, [], 3)
    assert found == 4
    assert [line for line, *_ in newest] == [
        f"{landing}/b.jsonl:1",
        f"{landing}/b.jsonl:2",
        f"{landing}/a.jsonl:1",
    ]
    assert newest[1][1].startswith("kind is missing")
    assert read_quarantine(store.rows, [], 4)[0] == read_quarantine(store.rows, [], 9)[0] == 4
    assert len(read_quarantine(store.rows, [], 9)[1]) == 4


def test_a_remote_file_too_big_to_cross_is_named() -> None:
    big = Landed("s3a://b/big.jsonl", (1 << 30) + 1, 0)
    with pytest.raises(
        LandingError, match=r"s3a://b/big\.jsonl: .* Split the file between two lines"
    ):
        check_files("s3a://b", [big])
    check_files("/b", [Landed("file:/b/big.jsonl", 1 << 40, 0)])


def test_remote_files_come_through_spark_and_give_the_same_lines(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"not a landing line\n\nanother")
    paths = [f"file:{tmp_path}/a.jsonl"]
    local = read_lines(session, paths)
    monkeypatch.setattr(module, "LOCAL", "none:")
    assert "CAST(NULL" not in plan(read_lines(session, paths)).upper()
    assert_df_equality(read_lines(session, paths), local)


def plan(df: DataFrame) -> str:
    return str(df._jdf.queryExecution().toString())


def test_whatever_a_collector_wrote_is_accepted_and_what_it_is_writing_is_not_read(
    store: Store, tmp_path: Path
) -> None:
    out = tmp_path / "landing"
    entries = [embedded(tmp_path, "_hidden"), embedded(tmp_path, "zoo", ZK, "zk")]
    lines = sum(collect_one(entry, out, open_one, quiet).lines for entry in entries)
    kept = converted("metadata_log", DUMPS[next(iter(DUMPS))])
    lines += write_lines(out / name_of("-c", NIGHT, "metadata_log"), kept)
    (out / f".{name_of('killed', NIGHT)}{PART}").write_bytes(b'{"kind":"api_ver')
    counts = ingest(store, str(out), RUN, quiet)
    assert (counts.files, counts.lines, counts.accepted) == (3, lines, lines)
    said = {row.cluster for row in store.read(LANDING_LINE).select("cluster").collect()}
    assert said == {"id-_hidden", "id-zoo", "c"}
