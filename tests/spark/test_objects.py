"""A store that is no disk, without Spark: what deltalake reads, commits, locks and writes there."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import MagicMock, Mock

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyarrow.fs import FileSelector

from featurelib.arrow import schema_of
from featurelib.errors import BusyError
from featurelib.lake import TableReader, files_at
from featurelib.spark import hold
from featurelib.spark.files import Folder
from featurelib.spark.hold import HoldingRun, Lease
from featurelib.spark.log import PathLog, storage_options
from featurelib.tables import INGEST_RUN
from tests.spark.machines import ObjectStore, running_s3

pytestmark = pytest.mark.spark
RUN = 20261121000000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with running_s3(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def spark(store: ObjectStore) -> Mock:
    """A session with the settings of the store."""
    settings = dict(word.split("=", 1) for word in store.options()[1::2])
    return Mock(**{"conf.get": lambda key, default=None: settings.get(key, default)})


def rows_of_run(run: int) -> pa.Table:
    row = {"run": run, "landing": "x", "files": [], "lines": 1, "accepted": 1}
    row |= {"repeated": 0, "quarantined": 0}
    return pa.Table.from_pylist([row], schema=schema_of(INGEST_RUN.schema))


def test_a_table_is_made_committed_to_and_read(
    store: ObjectStore, spark: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"{store.root}/tables/{INGEST_RUN.path}"
    log = PathLog(spark, INGEST_RUN, uri, options := storage_options(spark, uri))
    assert log.head() is None
    log.create({"delta.logRetentionDuration": "interval 90 days"}, replace=False)
    log.write(rows_of_run(RUN), RUN, "{}", "append")

    def write_parquet(place: str) -> None:  # as Spark's workers
        part = place.removeprefix(f"{uri}/")
        with files_at(uri, options).open_output_stream(f"{part}/part-0.parquet") as stream:
            parquet.write_table(rows_of_run(RUN + 1), stream)

    frame = Mock()
    frame.to.return_value.observe.return_value.write.options.return_value.parquet = write_parquet
    counted = Mock(return_value=Mock(get={"rows": 1, "nulls": 0}))
    monkeypatch.setattr("featurelib.spark.log.Observation", counted)
    monkeypatch.setattr("featurelib.spark.log.F", MagicMock())
    log.write(frame, RUN + 1, "note", "append")
    head = log.head()
    assert head is not None
    newest, *_ = head.commits()
    assert (head.version, head.run, newest[2]) == (2, RUN + 1, "note")
    assert (rows := log.open().fetch([], ["run"])) is not None
    assert sorted(rows["run"].to_pylist()) == [RUN, RUN + 1]
    log.frame([("run", "=", RUN + 1)])
    [file] = spark.read.schema.return_value.parquet.call_args.args
    assert file.startswith(f"{uri}/{RUN + 1}-")
    earlier = TableReader(INGEST_RUN, log.place, options, version=1)
    assert (first := earlier.open().fetch([], ["run"])) is not None
    assert first["run"].to_pylist() == [RUN]
    log.write(frame, RUN + 1, "again", "append")  # the run is there
    assert [commit[0] for commit in head.commits()] == [2, 1, 0]


def test_tables_are_held_by_one_run(
    store: ObjectStore, spark: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hold, "BEAT", 0.3)
    root = f"{store.root}/held"
    options = storage_options(spark, root)
    first, second = (
        Lease(root, options, HoldingRun.this(job, RUN), print) for job in ("nightly", "audit")
    )
    with first.held():
        with pytest.raises(BusyError, match=rf"^tables {root}: held by nightly run {RUN} \(pid"):
            second._take()
        first._beaten = 0.0
        first.expect()
    with second.held():
        second.expect()


def test_reports_are_written_and_those_of_other_runs_go(store: ObjectStore, spark: Mock) -> None:
    folder = Folder(spark, f"{store.root}/out")
    for name in ("report.txt", "plans/a.json", "plans/b.json", "report.txt"):
        folder.write(name, f"grün {name}")
    folder.keep_only("plans", {"a.json"}, "json")
    folder.keep_only("pages", set(), "html")
    found = folder._files.get_file_info(FileSelector("", recursive=True))
    assert {one.path for one in found if one.is_file} == {"report.txt", "plans/a.json"}
    assert folder._files.open_input_stream("report.txt").read().decode() == "grün report.txt"
