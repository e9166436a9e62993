"""The record of the last nightly: what it holds for, without Spark; tests/spark has the nightly."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from zipfile import ZipFile

import pytest

from featurelib.cli import standing
from featurelib.cli.night import Places, choose_places
from featurelib.cli.standing import DAY, NAME, LastRun
from featurelib.config import files
from featurelib.errors import ConfigError
from featurelib.tables import FINDINGS

NOON, LATER = "2026-11-21T12:00:00Z", "2026-11-21T12:00:01Z"
RUN: Any = SimpleNamespace(run=20261121120000, as_of=7)


class Tables:
    """Tables of one version each, as a store and as a lake; `damaged` lack a file."""

    damaged: ClassVar[list[str]] = []

    def __init__(self, root: str = "") -> None:
        self.root = root

    def rows(self, *_: object) -> list[object]:
        return []

    def find_change(self, _: object) -> None:
        return None

    def version(self, _: object) -> int:
        return 3

    def version_if_whole(self, table: Any) -> int | None:
        return None if table.full_name in self.damaged else 3


STORE: Any = Tables()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(standing, "Lake", Tables)
    for name in ("landing", "tables", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "landing" / "one.jsonl").write_text("{}")
    (tmp_path / "out" / "report.html").write_text("report")
    return tmp_path


def places_of(place: Path, as_of: str | None = "newest") -> Places:
    landing, tables, out = (str(place / name) for name in ("landing", "tables", "out"))
    return choose_places(landing, tables, out, None, None, as_of, None)


def record(places: Places, as_of: str | None = "newest") -> None:
    LastRun(places, as_of, None).write(STORE, RUN, ["report.html"], 0)


def holds(places: Places, as_of: str | None = "newest") -> bool:
    return LastRun(places, as_of, None).find() is not None


def test_a_run_as_of_now_holds_for_no_other(place: Path) -> None:
    """Minutes later evidence can be too old, a mute ended, or a cluster READY for too long."""
    record(places_of(place, None), None)
    assert not holds(places_of(place, None), None)
    for as_of in ("newest", NOON):
        record(places_of(place, as_of), as_of)
        assert holds(places_of(place, as_of), as_of)
        assert not holds(places_of(place, None), None)
        assert not holds(places_of(place, LATER), LATER)


def test_no_run_holds_for_a_day(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "now", lambda: 10 * DAY)
    record(places_of(place))
    found = []
    for passed in (-1, 0, DAY - 1, DAY):
        monkeypatch.setattr(standing, "now", lambda passed=passed: 10 * DAY + passed)
        found.append(holds(places_of(place)))
    assert found == [False, True, True, False]


def test_a_lost_file_of_a_table_makes_it_run(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(places_of(place))
    monkeypatch.setattr(Tables, "damaged", [FINDINGS.full_name])
    assert not holds(places_of(place))


def test_a_page_is_kept_for_the_same_key_and_the_same_code(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = LastRun(places_of(place), "newest", None)
    assert not last.keeps("report.html", "key")
    last.write(STORE, RUN, ["report.html"], 0)
    assert LastRun(places_of(place, None), None, None).keeps("report.html", "key")
    assert not LastRun(places_of(place), "newest", None).keeps("report.html", "another")
    monkeypatch.setattr(files, "__version__", "0.0.0")
    assert not LastRun(places_of(place), "newest", None).keeps("report.html", "key")
    assert not holds(places_of(place))


def test_a_record_that_cannot_be_written_fails_no_run(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fill(*_: object) -> None:
        raise ConfigError("--tables: expected a place to write to, found: No space left on device")

    places = places_of(place)
    record(places)
    assert (place / "tables" / NAME).exists()
    monkeypatch.setattr(standing, "write_whole", fill)
    record(places)
    said = capsys.readouterr().err
    assert "warning: this run left no record, so the next one runs: --tables: expected" in said
    assert not (place / "tables" / NAME).exists()


def test_a_run_of_code_without_source_or_of_tables_elsewhere_leaves_no_record(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for uri in ("s3a://bucket/tables", "lake.kafka"):
        record(replace(places_of(place), tables=uri))
    monkeypatch.setattr(standing, "digest_code", lambda: "")
    record(places_of(place))
    assert list(place.rglob(NAME)) == []


@pytest.mark.parametrize("packed", [True, False], ids=["archive", "folder"])
def test_the_digest_of_code_is_of_what_the_files_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    """Also in an archive, as `spark-submit --py-files` takes it; times and sizes say nothing."""
    package = f"made_up_{packed}".lower()
    archive = tmp_path / "code.zip"
    monkeypatch.syspath_prepend(str(archive if packed else tmp_path))

    def digest(content: str) -> str:
        texts = {"__init__.py": "", "deep/one.py": content, "deep/one.pyc": "compiled"}
        with ZipFile(archive, "w") as file:
            for name, text in texts.items():
                file.writestr(f"{package}/{name}", text)
        if not packed:
            with ZipFile(archive) as file:
                file.extractall(tmp_path)
        sys.modules.pop(package, None)
        importlib.invalidate_caches()
        return files.digest_code(package)

    first = digest("LEVEL = 1")
    assert first
    assert digest("LEVEL = 2") != first
    assert digest("LEVEL = 1") == first
    monkeypatch.setattr(files, "__version__", "0.0.0")
    assert digest("LEVEL = 1") != first


def test_code_without_source_has_no_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made_up_bare").mkdir()
    (tmp_path / "made_up_bare" / "one.toml").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert files.digest_code("made_up_bare") == ""
