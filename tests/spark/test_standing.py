"""A nightly with nothing new ends before Spark is started; whatever changed makes it run."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from featurelib.cli.night import Places, choose_places
from featurelib.cli.standing import NAME, LastRun
from featurelib.config.settings import Settings
from featurelib.feature import Severity
from featurelib.lake import Lake
from featurelib.tables import FINDINGS
from featurelib.words import moment, time_text
from tests.spark.nights import run_job, sample_lines

pytestmark = pytest.mark.spark
CLUSTERS = ("one", "two", "three", "four")


def land(folder: Path, name: str, cluster: str, sample: str = "zk-332-ranges") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.loads(line) | {"cluster_id": cluster} for line in sample_lines(sample)]
    (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))


def nightly(place: Path, *words: str) -> int:
    """A nightly as of the newest line, with a page for every cluster but one."""
    named = [word for of in ("landing", "tables", "out") for word in (f"--{of}", str(place / of))]
    with pytest.MonkeyPatch.context() as small:
        small.setattr("featurelib.view.html.IN_FULL", 1)
        return run_job("nightly", *named, "--as-of", "newest", *words)


@pytest.fixture(scope="module")
def night(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("standing")
    for cluster in CLUSTERS:
        land(place / "landing", cluster, cluster)
    assert nightly(place) == 0
    return place


def places_of(place: Path) -> Places:
    landing, tables, out = (str(place / name) for name in ("landing", "tables", "out"))
    return choose_places(landing, tables, out, None, None, "newest", None)


def holds(places: Places, fail_on: Severity | None = None) -> bool:
    return LastRun(places, "newest", fail_on).find() is not None


def test_nothing_new_ends_without_spark_and_says_which_run_holds(
    night: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class OpenedError(Exception):
        pass

    def refuse(*_: object) -> None:
        raise OpenedError

    lake = Lake(str(night / "tables"))
    monkeypatch.setattr("featurelib.spark.session.open_session", refuse)
    assert nightly(night) == 0
    said = capfd.readouterr()
    assert said.out == (
        f"Nothing changed since run {lake.run()}, so its report holds, as of "
        f"{time_text(moment(lake.as_of()))}: {night}/out/report.html. "
        "To judge again, add --again.\n"
    )
    assert said.err == ""
    for words in (["--again"], ["--fail-on", "critical"], ["--run", "20990101000000"]):
        assert nightly(night, *words) == 70
        assert "OpenedError" in capfd.readouterr().err


def test_options_that_decide_a_run_make_it_run(night: Path) -> None:
    places = places_of(night)
    other = {
        "another time": replace(places, as_of=7),
        "an inventory": replace(places, listed_in="elsewhere"),
        "settings": replace(places, settings=Settings(max_age_hours=1.0)),
        "a folder of reports": replace(places, out=str(night / "deeper")),
        "no report": replace(places, out=None),
        "an object store": replace(places, tables="s3a://bucket/tables"),
        "a catalog": replace(places, tables="lake.kafka"),
    }
    assert [name for name, changed in other.items() if holds(changed)] == []
    assert not holds(places, fail_on=Severity.CRITICAL)
    assert holds(places)


@contextmanager
def kept(path: Path) -> Iterator[None]:
    """Put a file back, with its time, once the block has ended."""
    aside = path.with_name("aside")
    shutil.copy2(path, aside)
    yield
    os.replace(aside, path)


def test_a_file_or_table_that_changed_makes_it_run(night: Path) -> None:
    places, landed = places_of(night), night / "landing" / "one.jsonl"
    for path in (landed, night / "out" / "report.html", night / "tables" / NAME):
        with kept(path):
            os.utime(path, (1, 1))
            assert holds(places) == (path.name == NAME)
            path.unlink()
            assert not holds(places)
        assert holds(places)
    land(night / "landing", "more", "five")
    assert not holds(places)
    (night / "landing" / "more.jsonl").unlink()
    log = night / "tables" / FINDINGS.path / "_delta_log"
    newest = Lake(str(night / "tables")).version_if_whole(FINDINGS)
    assert newest is not None
    commit = log / f"{newest + 1:020}.json"
    commit.write_text('{"commitInfo":{"timestamp":1,"operation":"OPTIMIZE"}}\n')
    assert not holds(places)
    commit.unlink()
    assert holds(places)


def test_pages_of_changed_clusters_only_are_written(night: Path) -> None:
    """The other pages stay as they are, but for what somebody edited."""
    pages = {path.stem: path for path in (night / "out" / "clusters").iterdir()}
    before = {name: (path.read_text(), path.stat().st_mtime_ns) for name, path in pages.items()}
    pages["two"].write_text("edited")
    land(night / "landing", "more", "one", "zk-282-stock")
    assert nightly(night) == 0
    lake = Lake(str(night / "tables"))
    run = f"{lake.run()} (as of {time_text(moment(lake.as_of()))})"
    after = {name: (path.read_text(), path.stat().st_mtime_ns) for name, path in pages.items()}
    changed = {name for name in pages if before[name] != after[name]}
    assert changed == {"one", "two"}
    assert after["two"][0] == before["two"][0].replace(before_run(before["two"][0]), run)


def before_run(page: str) -> str:
    return page.split("written by run ")[1].split(" · ")[0]
