"""How a night is entered: options that cannot be used, and the help, all before Spark starts; and
which findings its exit code counts."""

from __future__ import annotations

import re
import subprocess
import tarfile
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from featurelib.cli.night import (
    Places,
    choose_places,
    expect_folder,
    expect_landing,
    go_on,
)
from featurelib.config.fleet import Fleet, FleetEntry, View
from featurelib.errors import ConfigError, NoEvidenceError
from featurelib.feature import Severity
from featurelib.lake import Lake
from featurelib.source import SAMPLES_MARK
from featurelib.view.digest import is_reached
from featurelib.view.html import IN_FULL, page_names, part_pages, render_html
from jobs import nightly
from jobs.nightly import put_nights_before
from tests.cli.forked import forks
from tests.laboratory import LABORATORY
from tests.report.page import read_page
from tests.report.tables import finding, judged, plan, report
from tests.report.test_html import HOSTILE

ROOT = Path(__file__).resolve().parents[2]
JOBS = sorted(path.stem for path in (ROOT / "jobs").glob("*.py"))
ENDINGS = ("jsonl", "jsonl.gz", "ndjson", "ndjson.gz", "json", "json.gz")


def run_job(job: str, *words: object) -> subprocess.CompletedProcess[str]:
    file, late = ROOT / "jobs" / f"{job}.py", [f"jobs.{name}" for name in JOBS]
    code, *said = forks(*late).run(*map(str, words), cwd=ROOT, file=file)
    return subprocess.CompletedProcess([job, *words], code, *(text.decode() for text in said))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a file"
    path.write_text("kept")
    return path


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}", "{}/", "{}/below/it"])
def test_a_file_is_no_place_for_tables_or_reports(file: Path, form: str) -> None:
    uri = form.format(file)
    for option in ("--tables", "--out"):
        with pytest.raises(ConfigError) as raised:
            expect_folder(option, uri)
        said = str(raised.value)
        assert said.startswith(f"{option} {uri}: {file} is a file, not a folder.")
        assert "Nothing was written" in said
        assert said.endswith(f"Use a folder with {option} FOLDER. The job makes a missing folder.")
    assert file.read_text() == "kept"


@pytest.mark.parametrize("form", ["{}", "{}/new/deep", "file:{}", "s3a://bucket{}", "hdfs:{}"])
def test_a_folder_that_is_there_or_can_be_made_is_a_place(tmp_path: Path, form: str) -> None:
    expect_folder("--tables", form.format(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_the_samples_do_not_land_in_tables_of_somebody_s_clusters(tmp_path: Path) -> None:
    (tmp_path / "gold").mkdir()
    with pytest.raises(ConfigError, match=r"not the tables of the samples.* Add --landing FOLDER"):
        choose_places(None, str(tmp_path), None, None, None, None, None)
    (tmp_path / SAMPLES_MARK).touch()
    assert choose_places(None, str(tmp_path), None, None, None, None, None).tables == str(tmp_path)


def test_a_night_refuses_both(file: Path, tmp_path: Path) -> None:
    tables, out = str(tmp_path / "tables"), str(tmp_path / "out")
    with pytest.raises(ConfigError, match="--tables"):
        choose_places(None, str(file), out, None, None, None, None)
    with pytest.raises(ConfigError, match="--out"):
        choose_places(None, tables, str(file), None, None, None, None)
    assert choose_places(None, tables, out, None, None, None, None).tables == tables


@pytest.mark.parametrize("job", JOBS)
def test_every_job_says_so_in_one_line_before_it_starts_spark(job: str, file: Path) -> None:
    landing = ("--landing", LABORATORY) if job in ("ingest", "nightly") else ()
    ended = run_job(job, *landing, "--tables", file)
    assert (ended.returncode, ended.stdout) == (2, "")
    [line] = ended.stderr.splitlines()
    assert line.startswith(f"error: --tables {file}: {file} is a file")


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_landing_file_of_every_ending_is_one(tmp_path: Path, ending: str) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(NoEvidenceError) as raised:
        expect_landing(str(tmp_path))
    assert f"*.{ending}" in str(raised.value)
    (tmp_path / f"lines.{ending}").write_text("")
    expect_landing(str(tmp_path))


@pytest.mark.parametrize("job", JOBS)
def test_help_and_usage_errors_show_the_command_a_person_types(job: str) -> None:
    assert f"Usage: ./spark-submit.sh {job} [OPTIONS]" in run_job(job, "--help").stdout
    ended = run_job(job, "--nonsense")
    assert ended.returncode == 2
    assert ended.stderr == (
        "error: No such option: --nonsense.\n"
        f"Usage: ./spark-submit.sh {job} [OPTIONS]\nHelp: ./spark-submit.sh {job} --help\n"
    )


@pytest.mark.parametrize("option", ["--fleet", "--config", "--overlay"])
def test_a_file_that_is_not_there_is_told_with_the_option_that_names_it(option: str) -> None:
    ended = run_job("nightly", option, "no/such.toml")
    assert ended.returncode == 2
    assert ended.stderr == (
        f"error: {option} no/such.toml: featurelib cannot read this file: No such file or "
        f"directory. Use another file: {option} FILE.\n"
    )


class Numbered:
    """Tables whose newest run is known."""

    def __init__(self, newest: int | None) -> None:
        self._newest = newest

    def newest_run(self, table: object) -> int | None:
        return self._newest


def test_a_run_of_a_clock_that_was_ahead_does_not_stop_later_nights(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now, ahead = 20261122060000, 20271122045908
    for newest in (None, now - 1):
        assert go_on(Numbered(newest), None, now) == now  # type: ignore[arg-type]
    assert capsys.readouterr().err == ""
    assert go_on(Numbered(ahead), None, now) == ahead + 1  # type: ignore[arg-type]
    assert capsys.readouterr().err == (
        f"warning: run {ahead} is in these tables, and now it is {now}: a clock was wrong then, or "
        f"is now. This run goes on as run {ahead + 1}.\n"
    )
    # A number that somebody asked for is refused where it is written, and not changed.
    assert go_on(Numbered(ahead), now, now) == now  # type: ignore[arg-type]


MUTE = """
[[mute]]
code = "ghost_broker"
cluster = "payments"
reason = "its disk"
until = 2026-12-31
"""


@pytest.fixture
def places(tmp_path: Path) -> Callable[[str], Places]:
    """What a night is entered with by an audit.toml, where the inventory names a cluster."""
    (tmp_path / "fleet.toml").write_text('[[cluster]]\nid = "x1"\nname = "payments"')

    def choose(config: str) -> Places:
        (tmp_path / "audit.toml").write_text(config)
        fleet, settings = str(tmp_path / "fleet.toml"), str(tmp_path / "audit.toml")
        return choose_places("", str(tmp_path / "tables"), None, fleet, settings, None, None)

    return choose


def test_a_mute_is_for_the_cluster_the_inventory_names_and_one_that_cannot_be_used_stops_the_night(
    places: Callable[[str], Places],
) -> None:
    [mute] = places(MUTE).mutes
    assert (mute.code, mute.cluster, mute.until) == ("ghost_broker", "x1", date(2026, 12, 31))
    with pytest.raises(ConfigError, match=r"audit\.toml: .*ghost_brokers.*mean ghost_broker"):
        places(MUTE.replace("ghost_broker", "ghost_brokers"))


def test_muted_findings_do_not_count_for_fail_on() -> None:
    muted = {"muted": "known", "muted_until": date(2026, 12, 31)}
    rows = [
        finding("a", "incompatible_with_finalized", "critical", **muted),
        finding("a", "ghost_broker", "warning"),
    ]
    said = report(judged([plan("a", "BLOCKED")], rows))
    reached = [severity for severity in Severity if is_reached(severity, said)]
    assert reached == [Severity.WARNING, Severity.INFO]
    assert not is_reached(Severity.INFO, report(judged([plan("a", "BLOCKED")], rows[:1])))


def test_each_owner_and_view_has_a_page_that_whatever_name_keeps_in_its_folder() -> None:
    owners = [*HOSTILE, "payments", "Payments", "nobody", "../../etc/passwd", "con", "", ".", "a/b"]
    entries = [
        FleetEntry(id=f"c{i}", name=f"n{i}", owner=owner, contact=f"#c{i}", labels={"env": "prod"})
        for i, owner in enumerate(owners)
    ]
    views = (
        View(name="all", label=("env=prod",)),
        View(name="gone", owner=("paymants",)),
        View(name="../x", owner=("",)),
    )
    fleet = Fleet(cluster=tuple(entries), view=views)
    rows = [plan(entry.id, "BLOCKED") for entry in entries]
    said = report(judged([*rows, plan("stranger", "READY")]), inventory=fleet)
    told: list[str] = []
    parts = part_pages(said, fleet, "fleet.toml", told.append)
    assert "[[view]] 'gone': owner paymants: fleet.toml: no cluster has" in "".join(told)
    names = [page.name for page in parts]
    assert len({name.casefold() for name in names}) == len(names) == len(owners) + 2
    assert all(re.fullmatch(r"(owners|views)/[A-Za-z0-9_][\w.-]*\.html", name) for name in names)
    whole = read_page(render_html(said, parts=parts))
    assert [link for link in whole.links if not link.startswith("#")] == names
    for page in parts:
        read = read_page(render_html(page.report, whole=said))
        keys = {cluster.key for cluster in page.report.clusters}
        assert read.articles == len(keys)
        # An owner's own page does not say at each cluster whose it is, nor ask.
        asks = any(link.startswith("#owner=") for link in read.links)
        assert asks == ("owner" in read.ids) == (page.name == "views/all.html")
        assert [link for link in read.links if not link.startswith("#")] == ["../report.html"]
        inside = [link[1:] for link in read.links if link.startswith("#") and "=" not in link]
        assert set(inside) <= set(read.ids)
        # Where the link leads is said as well: a page may be sent alone.
        head = " ".join(read.texts).partition(" Today ")[0]
        assert (
            f"All {len(entries) + 1} clusters (report.html in the folder above this page's)" in head
        )
        contacts = [cluster.contact for cluster in page.report.clusters if cluster.contact]
        assert f"Contact: {', '.join(contacts[:3])}" in head
    of_nobody = next(page.report for page in parts if "stranger" in str(page.report.clusters))
    assert {cluster.key for cluster in of_nobody.clusters} == {f"c{owners.index('')}", "stranger"}


def test_a_page_of_many_clusters_leads_to_those_that_the_whole_has_pages_for() -> None:
    entries = [FleetEntry(id=f"c{i:03}", owner="a") for i in range(IN_FULL + 1)]
    fleet = Fleet(cluster=tuple(entries))
    tables = judged([plan(one.id, "BLOCKED") for one in entries] + [plan("C100", "UNKNOWN")])
    said = report(tables, inventory=fleet)
    mine, nobody = part_pages(said, fleet, "fleet.toml", lambda text: None)
    outside = [
        link
        for link in read_page(render_html(mine.report, whole=said)).links
        if not link.startswith("#")
    ]
    last = dict(zip((c.key for c in said.clusters), page_names(said), strict=True))["c100"]
    assert outside == ["../report.html", f"../clusters/{last}"]  # as if C100 were beside it
    assert (mine.name, nobody.name) == ("owners/a.html", "owners/nobody.html")


def test_the_samples_nights_before_are_put_where_no_table_is_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    put_nights_before("new/tables")
    assert len(Lake("new/tables").runs) == 29
    Path("mine").mkdir()
    for tables in ("mine", "fleet.audit", "s3://bucket/tables"):
        put_nights_before(tables)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["mine", "new"]
    assert (list(Path("mine").iterdir()), [one.name for one in Path("new").iterdir()]) == (
        [],
        ["tables"],
    )


def test_tables_of_other_samples_are_moved_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nightly, "SAMPLE_TABLES", tmp_path / "tables")
    (tmp_path / "tables" / "gold").mkdir(parents=True)
    put_nights_before(str(tmp_path / "tables"))
    put_nights_before(str(tmp_path / "tables"))
    assert len(Lake(str(tmp_path / "tables")).runs) == 29
    (old,) = tmp_path.glob("tables.old-*")
    assert [one.name for one in old.iterdir()] == ["gold"]


def test_a_python_without_filters_unpacks_them_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(tarfile, "data_filter")
    put_nights_before(str(tmp_path / "tables"))
    assert len(Lake(str(tmp_path / "tables")).runs) == 29


@pytest.mark.parametrize("content", [b"version https://git-lfs", b"\x1f\x8b\x08\x00", None])
def test_an_archive_that_cannot_be_read_is_left_out(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    content: bytes | None,
) -> None:
    archive = tmp_path / "tables.tar.gz"
    if content is not None:
        archive.write_bytes(content)
    monkeypatch.setattr(nightly, "NIGHTS_BEFORE", archive)
    put_nights_before(str(tmp_path / "tables"))
    assert not (tmp_path / "tables").exists()
    assert "warning: the samples' earlier nights are left out" in capsys.readouterr().err
