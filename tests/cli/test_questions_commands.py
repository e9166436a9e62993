"""The questions on the command line: whole outputs, sources of evidence, widths, exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

import featurelib
from featurelib import source
from featurelib.core.features_znode import ZnodeChange, ZnodeReason
from featurelib.errors import ConfigError
from featurelib.questions.election import Doubt
from featurelib.view.questions import CHANGES, DOUBTS, REASONS
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


def test_the_samples_tables_are_read_where_nothing_is_named(
    tables: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(source, "SAMPLE_TABLES", tables)
    code, out, err = run("why-not", "ghost-broker", "metadata.version=27")
    assert code == 0
    assert err == f"reading the samples' tables, {tables}; others with --tables FOLDER\n"
    assert f"tables in {tables}, run {RUN}" in " ".join(out.split())
    *_, last = out.splitlines()
    again = ("--tables", str(tables), "--as-of", "run", "--out", str(tmp_path / "x"))
    code, out, err = run(*last.partition("featurelib ")[2].split(), *again)
    assert (code, "Broker 2 does not support" in out + err) == (3, True)
    code, out, _ = run("report")
    assert (code, "taken away with ticket 4711 (ann)" in out) == (0, True)
    monkeypatch.setattr(source, "SAMPLE_TABLES", tmp_path / "none")
    code, _, err = run("history", "ghost-broker")
    assert (code, "--tables: expected the folder of the nightly's tables" in err) == (2, True)


@pytest.mark.parametrize(
    ("name", "question"),
    [("k41-forgotten", "why-not metadata.version=27"), ("zk-282-ranges", "can-roll --to 3.9")],
)
def test_a_plan_of_a_cluster_that_only_its_address_names_works_as_it_is_printed(
    tmp_path: Path, name: str, question: str
) -> None:
    file, fleet = str(tmp_path / "copy.db"), tmp_path / "fleet.toml"
    featurelib.sandbox(file, capture=capture(name))
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
    assert f"controller {node}: it is not registered, and the active controller" in out
    assert "no such feature" not in out
    assert "fix what its controllers ask for" not in out


def test_from_python_a_copy_of_the_cluster_then_does_what_was_said(tmp_path: Path) -> None:
    file = str(tmp_path / "copy.db")
    cluster = featurelib.sandbox(file, capture=capture("zk-282-ranges"))
    found = featurelib.what_if(cluster, ibp="2.6")
    assert found.value.election is not None
    assert found.value.election.settled is not None
    assert "2 finalized levels LOST" in found.text
    with pytest.raises(ConfigError, match=r"--ibp nine: expected an inter\.broker\.protocol"):
        featurelib.what_if(cluster, ibp="nine")


def test_every_change_reason_and_doubt_has_its_words() -> None:
    assert (set(CHANGES), set(REASONS), set(DOUBTS)) == (
        set(ZnodeChange),
        set(ZnodeReason),
        set(Doubt),
    )
