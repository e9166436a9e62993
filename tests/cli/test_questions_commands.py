"""The questions on the command line: whole outputs, sources of evidence, widths, exit codes."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

import featurelib
from featurelib import source
from featurelib.cli.night import choose_places
from featurelib.config.files import find_place, journal_path
from featurelib.extras.sandbox import sandbox
from featurelib.source import NIGHTS_BEFORE, SAMPLE_BUILD
from tests.cli.commands import run
from tests.questions.nights import RUN, write_histories, write_night
from tests.report.samples import SAMPLES, read_samples

FLEET = str(SAMPLES / "fleet.toml")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tables")
    write_night(root, RUN - 1_000_000, read_samples().batch)
    write_night(root, RUN, read_samples().batch)
    write_histories(root, RUN)
    return root


def capture(name: str) -> str:
    return str(SAMPLES / name)


def test_the_samples_tables_are_read_by_demo_alone(
    tables: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(source, "SAMPLE_TABLES", tables)
    monkeypatch.setattr(source, "SAMPLES", SAMPLES)
    code, out, err = run("why-not", "ghost-broker", "metadata.version=27", "--demo")
    assert (code, err) == (0, "")
    assert f"tables in {tables}, run {RUN}" in " ".join(out.split())
    *_, last = out.splitlines()
    assert " --demo" in last
    assert "--fleet" not in last
    again = ("--as-of", "run", "--out", str(tmp_path / "x"))
    code, out, err = run(*last.partition("featurelib ")[2].split(), *again)
    assert (code, "Broker 2 does not support" in out + err) == (3, True)
    code, out, _ = run("report", "--demo")
    assert (code, "taken away with ticket 4711 (ann)" in out) == (0, True)
    code, _, err = run("report", "--demo", "--tables", "x")
    assert (code, err) == (2, "error: --demo: --tables cannot stand beside it. Keep one.\n")
    for words in (["report"], ["diff"], ["waves", "plan", "4.1"], ["history", "x"]):
        code, _, err = run(*words)
        assert (code, err.startswith("error: No tables are named. Add --tables")) == (2, True)
    code, _, err = run("why-not", "ghost-broker", "metadata.version=27")  # which is a look
    assert (code, "No cluster 'ghost-broker'" in err) == (2, True)
    monkeypatch.setattr(source, "SAMPLE_TABLES", tmp_path / "none")
    code, _, err = run("history", "ghost-broker", "--demo")
    assert (code, "--demo: the samples' tables are not made yet" in err) == (2, True)


def test_demo_is_printed_where_nothing_but_the_samples_is_read() -> None:
    samples = source.demo_places()
    assert source.Wanted(**samples).ways[0] == " --demo"
    mine = source.Wanted(**samples | {"fleet": "mine.toml"}).ways[0]
    assert ("--demo" in mine, "--fleet mine.toml" in mine) == (False, True)


def test_places_are_named_once_and_the_nearest_name_rules(
    tables: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = tmp_path / "audit.toml"
    settings.write_text('[places]\ntables = "none"\njournal = "sent"\n')
    monkeypatch.setenv("FEATURELIB_CONFIG", str(tmp_path))
    code, _, err = run("report")
    assert (code, str(tmp_path / "none") in err) == (2, True)
    monkeypatch.setenv("FEATURELIB_TABLES", str(tables))
    monkeypatch.setenv("FEATURELIB_FLEET", str(SAMPLES / "fleet.toml"))
    assert run("report")[0] == 0
    code, out, _ = run("config", "--json")
    places = {row["name"]: (row["value"], row["source"]) for row in json.loads(out)["values"]}
    assert (code, places["tables"]) == (0, (str(tables), "FEATURELIB_TABLES"))
    assert places["journal"] == (str(tmp_path / "sent"), str(settings))
    assert places["fleet"] == (str(SAMPLES / "fleet.toml"), "FEATURELIB_FLEET")
    assert places["max_age_hours"] == ("72.0", "default")
    settings.write_text("max_age_hours = 24\n")
    code, out, _ = run("config")
    assert code == 0
    assert f"max_age_hours · value 24.0 · source {settings}" in " ".join(out.split())


def test_a_job_without_landing_never_writes_into_the_tables_that_commands_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("LANDING", "TABLES", "OUT"):
        monkeypatch.setenv(f"FEATURELIB_{name}", f"/data/{name}")
    places = choose_places(None, None, None, None, None, None, None)
    written = [Path(place).absolute() for place in (places.tables, places.out)]
    assert written == [SAMPLE_BUILD / "tables", SAMPLE_BUILD / "out"]


def test_a_journal_that_a_variable_names_stands_in_the_commands_that_are_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEATURELIB_JOURNAL", "sent.sqlite")
    way = featurelib.connect(file="c.db").way()
    assert way.resume.endswith(f" --journal {tmp_path / 'sent.sqlite'}")
    monkeypatch.delenv("FEATURELIB_JOURNAL")
    assert "--journal" not in featurelib.connect(file="c.db").way().resume


@pytest.mark.parametrize(
    ("named", "found"),
    [("t", "conf/t"), ("main.kafka", "main.kafka"), ("s3a://b/t", "s3a://b/t"), ("/t", "/t")],
)
def test_tables_of_the_settings_are_a_folder_a_uri_or_a_schema(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named: str, found: str
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "audit.toml").write_text(f'[places]\ntables = "{named}"\n')
    monkeypatch.chdir(tmp_path)
    assert find_place("tables", None)[0] == found


def test_settings_of_the_current_folder_name_no_journal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "audit.toml").write_text('[places]\njournal = "j"\ntables = "t"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert journal_path(None) == tmp_path / "state" / "featurelib" / "journal.sqlite"
    assert find_place("tables", None)[0] == "conf/t"


@pytest.mark.parametrize(
    ("name", "question"),
    [("k41-forgotten", "why-not metadata.version=27"), ("zk-282-ranges", "can-roll --to 3.9")],
)
def test_a_plan_of_a_cluster_that_only_its_address_names_works_as_it_is_printed(
    tmp_path: Path, name: str, question: str
) -> None:
    file, fleet = str(tmp_path / "copy.db"), tmp_path / "fleet.toml"
    sandbox(file, capture=capture(name))
    fleet.write_text('[[cluster]]\nid = "another"\n')
    _, out, _ = run(*question.split(), "--file", file, "--fleet", str(fleet))
    [command] = [line for line in out.splitlines() if line.startswith("  featurelib plan ")]
    code, out, err = run(*command.split()[1:], "--out", str(tmp_path / "plan.json"))
    assert code == 0, out + err


def test_a_catalogue_of_another_label_is_said(tmp_path: Path) -> None:
    write_night(tmp_path, RUN, read_samples().batch, catalogue="2030-01-01")
    options = ("--tables", str(tmp_path), "--fleet", FLEET)
    _, _, err = run("what-if", "k40-fresh", "--release", "4.1", *options)
    assert "was judged with the catalogue of 2030-01-01" in err
    assert "--overlay FILE" in err


@pytest.mark.parametrize(
    ("name", "level", "node"),
    [("left-behind", "share.version=2", 2), ("left-behind-3.9", "metadata.version=21", 9)],
)
def test_a_leftover_is_called_not_registered_and_its_way_out_is_the_real_one_alone(
    name: str, level: str, node: int
) -> None:
    capture = str(Path(__file__).parents[1] / "data" / "configured_voters" / f"{name}.jsonl")
    code, out, err = run("why-not", level, "--capture", capture, "--as-of", "newest")
    assert code == 0, err
    assert f"controller {node}  not registered" in out
    assert f"controller {node}: the node is not registered, but controller.quorum.voters of" in out
    assert "no such feature" not in out
    assert "fix what its controllers ask for" not in out


def test_a_name_without_an_inventory_is_answered_with_the_names_that_tables_have(
    tmp_path: Path,
) -> None:
    with tarfile.open(NIGHTS_BEFORE) as packed:
        packed.extractall(tmp_path, filter="data")
    tables = ("metadata.version=29", "--tables", str(tmp_path / "tables"))
    code, _, err = run("why-not", "orders-prod-us", *tables)
    assert (code, "Add --fleet FILE, or give its id in run 2026" in err) == (2, True), err
    found = run("why-not", err.split()[-1], *tables)  # that id
    assert found[0] == 0, found
    code, _, err = run("why-not", "orders-prod-su", *tables)
    assert code == 2
    assert "Did you mean orders-prod-us" in err
    assert "Known are billing-prod-eu, billing-prod-us" in err


def test_the_next_command_keeps_the_overlay(tmp_path: Path) -> None:
    file, plan = str(tmp_path / "copy.db"), str(tmp_path / "plan.json")
    sandbox(file, capture=capture("k41-forgotten"))
    code, out, err = run("check", "--file", file, "--overlay", "automq")
    for command in (f"plan upgrade-all --overlay automq --file {file}", "show", "approve"):
        assert code == 0, out + err
        printed = [line for line in out.splitlines() if f"featurelib {command}" in line][-1]
        assert " --overlay automq" in printed
        words = printed.removeprefix("Next:").split()[1:]
        code, out, err = run(*words, *(["--out", plan] if words[0] == "plan" else []))
