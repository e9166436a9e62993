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

COMMANDS = ("why-not", "what-if", "roll", "timeline", "diff")
FLEET = str(SAMPLES / "fleet.toml")


@pytest.fixture(autouse=True)
def width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tables")
    write_night(root, RUN - 1_000_000, read_samples().batch)
    write_night(root, RUN, read_samples().batch)
    write_histories(root, RUN)
    return root


def capture(name: str) -> str:
    return str(SAMPLES / name)


def of_capture(command: str, name: str, *words: str) -> tuple[int, str, str]:
    given = [*words[:1]] if command == "why-not" else []
    options = words[1:] if command == "why-not" else words
    return run(command, *given, "--capture", capture(name), "--fleet", FLEET, *options)


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
    monkeypatch.setattr(source, "SAMPLE_TABLES", tmp_path / "none")
    code, _, err = run("timeline", "ghost-broker")
    assert (code, "--tables: expected the folder of the nightly's tables" in err) == (2, True)


def test_a_night_is_judged_as_of_when_it_was_judged(tables: Path) -> None:
    """The samples are old by now; a later --as-of calls their evidence too old."""
    options = ("--tables", str(tables), "--fleet", FLEET)
    _, out, _ = run("why-not", "k41-forgotten", "metadata.version=27", *options)
    assert "nothing stands in the way" in out
    late = ("--as-of", "2027-01-01T00:00:00Z")
    _, out, _ = run("why-not", "k41-forgotten", "metadata.version=27", *options, *late)
    assert "UNKNOWN" in out.splitlines()[0]
    assert "evidence_too_old" in out


def test_a_catalogue_of_another_label_is_said(tmp_path: Path) -> None:
    write_night(tmp_path, RUN, read_samples().batch, catalogue="2030-01-01")
    options = ("--tables", str(tmp_path), "--fleet", FLEET)
    _, _, err = run("what-if", "k40-fresh", "--release", "4.1", *options)
    assert "was judged with the catalogue of 2030-01-01" in err
    assert "--overlay FILE" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("why-not", "metadata.version"), "expected [CLUSTER] FEATURE=LEVEL"),
        (("why-not", "a", "b", "f=1"), "expected [CLUSTER] FEATURE=LEVEL"),
        (("why-not", "nonsense=1", "--capture", "X"), "the nearest are"),
        (("why-not", "metadata.version=5.9", "--capture", "X"), "expected a level as a number"),
        (("why-not", "metadata.version=4.2", "--capture", "X"), "Write 4.2-IV1 or 29."),
        (("what-if", "--capture", "X"), "expected a change, found none"),
        (("what-if", "--capture", "X", "--node", "7"), "expected ID=RELEASE"),
        (("what-if", "--capture", "X", "--node", "1=4.1", "--node", "1=4.2"), "found it twice"),
        (("what-if", "--capture", "X", "--finalize", "f"), "expected FEATURE=LEVEL"),
        (("roll", "--capture", "X", "--to", "9.9"), "--to 9.9: expected a release"),
        (("diff", "1"), "expected two runs, or --last, found 1 run"),
        (("diff", "--last", "1", "2"), "found 2 runs and --last"),
        (("diff", "--last", "blocker"), "expected runs, as 20261121060000, found 'blocker'"),
        (("diff", "--last", "--fail-on-new", "bad"), "expected a severity, critical, blocker"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_the_way_on(
    words: tuple[str, ...], message: str, tables: Path
) -> None:
    given = [capture("ghost-broker") if word == "X" else word for word in words]
    more = ("--tables", str(tables)) if words[0] == "diff" else ()
    code, out, err = run(*given, *more)
    assert (code, out) == (2, "")
    assert message in err


def test_one_night_alone_cannot_be_compared(tmp_path: Path) -> None:
    write_night(tmp_path, RUN, read_samples().batch)
    code, _, err = run("diff", "--last", "--tables", str(tmp_path))
    assert code == 5
    assert "expected two nights" in err


def test_a_remedy_has_the_cluster_s_own_address_where_the_inventory_knows_it(
    tmp_path: Path,
) -> None:
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(
        '[[cluster]]\nid = "h0FOOR_sRsiOiKHch7mH4w"\nbootstrap = ["k-1:9092", "k-2:9092"]\n'
    )
    command = "kafka-cluster.sh unregister --bootstrap-server k-1:9092,k-2:9092 --id 2"
    ghost = ("--capture", capture("ghost-broker"), "--as-of", "newest", "--fleet", str(fleet))
    for words in (
        ("why-not", "metadata.version=27", *ghost),
        ("plan", "upgrade", "--feature", "metadata.version=27", *ghost),
    ):
        for form in ((), ("--json",)):
            _, out, err = run(*words, *form)
            assert command in out + err
            assert "HOST:PORT" not in out + err


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
    assert f"controller {node}: it is not registered, and stands in" in out
    assert "no such feature" not in out
    assert "mend what its controllers ask for" not in out


def ask_ibp(name: str, version: str, *more: str) -> tuple[int, str, str]:
    words = ("--capture", capture(name), "--fleet", FLEET, "--ibp", version, *more)
    return run("what-if", *words)


@pytest.mark.parametrize("text", ["", "4.0", "2.7-IV9", "latest"])
def test_a_protocol_version_that_there_is_not_is_a_usage_error(text: str) -> None:
    code, out, err = ask_ibp("zk-282-ranges", text)
    assert (code, out) == (2, "")
    assert f"--ibp {text}: expected an inter.broker.protocol.version of ZooKeeper mode" in err


def test_from_python_a_copy_of_the_cluster_then_does_what_was_said(tmp_path: Path) -> None:
    file = str(tmp_path / "copy.db")
    cluster = featurelib.embedded(file, capture=capture("zk-282-ranges"))
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
