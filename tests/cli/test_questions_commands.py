"""The questions on the command line: whole outputs, sources of evidence, widths, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from featurelib.cli import asked
from tests.cli.commands import run
from tests.questions.nights import NAMES, RUN, write_histories, write_night
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


def usual_fleet() -> str:
    """The samples' inventory as a person would type it."""
    return str(Path(FLEET).absolute().relative_to(Path.cwd()))


def test_a_night_like_the_one_before_has_no_difference(tables: Path) -> None:
    code, out, _ = run("diff", "--last", "--fail-on-new", "--tables", str(tables))
    assert code == 0
    assert out == (
        "run 20261120080000 → run 20261121080000\n"
        "0 new, 0 resolved, 68 unchanged, 0 incomparable\n\n"
        "26 clusters without a difference\n"
    )


def test_what_is_new_fails_only_when_asked_to(tables: Path, tmp_path: Path) -> None:
    batch = read_samples().batch
    write_night(tmp_path, RUN - 1_000_000, batch.slice(1))
    write_night(tmp_path, RUN, batch)
    options = ("--tables", str(tmp_path), "--fleet", FLEET)
    code, out, _ = run("diff", str(RUN), str(RUN - 1_000_000), "--fail-on-new", *options)
    assert (code, "incomparable, its cluster was judged in one of the nights only" in out) == (
        0,
        True,
    )
    assert "ghost-broker: BLOCKED → not judged" in out


def test_the_samples_tables_are_read_where_nothing_is_named(
    tables: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(asked, "SAMPLE_TABLES", tables)
    code, out, err = run("why-not", "ghost-broker", "metadata.version=27")
    assert code == 0
    assert err == f"reading the samples' tables, {tables}; others with --tables FOLDER\n"
    assert f"tables in {tables}, run {RUN}" in " ".join(out.split())
    assert f"--fleet {usual_fleet()}" in out
    *_, last = out.splitlines()
    again = ("--tables", str(tables), "--as-of", "run", "--out", str(tmp_path / "x"))
    code, out, err = run(*last.partition("featurelib ")[2].split(), *again)
    assert (code, "Broker 2 does not support" in out + err) == (3, True)
    monkeypatch.setattr(asked, "SAMPLE_TABLES", tmp_path / "none")
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


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("columns", [60, 100])
def test_no_line_is_wider_than_the_terminal(
    name: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.chdir(SAMPLES)  # a folder's name is not broken
    row = json.loads(of_capture("what-if", name, "--release", "3.9", "--json")[1] or "{}")
    for command, words in (
        ("why-not", ("metadata.version=29",)),
        ("what-if", ("--release", "3.9")),
        ("roll", ("--to", "3.9")),
    ):
        given = [*words] if command == "why-not" else []
        options = [] if command == "why-not" else words
        code, out, err = run(command, *given, "--capture", name, "--fleet", FLEET, *options)
        assert code == 0, err
        wide = [line for line in out.splitlines() if len(line) > columns]
        # A command and a word of Kafka's are not broken.
        kept = ("featurelib plan", "kafka-", "FeatureLevelRecord(name=")
        assert all(any(word in line for word in kept) for line in wide), wide
    assert row["version"] == 1


@pytest.mark.parametrize(
    ("command", "words", "keys"),
    [
        ("why-not", ("metadata.version=27",), {"proofs", "unknown", "unlock", "answer", "moves"}),
        ("what-if", ("--remove", "2"), {"before", "after", "features", "unchanged", "new", "gone"}),
        ("roll", ("--to", "4.2"), {"may_join", "misfits", "refused", "first", "way_back"}),
    ],
)
def test_json_is_one_object_with_a_version(
    command: str, words: tuple[str, ...], keys: set[str]
) -> None:
    code, out, _ = of_capture(command, "ghost-broker", *words, "--json")
    said = json.loads(out)
    assert (code, said["version"], said["name"]) == (0, 1, "ghost-broker")
    assert keys <= said.keys()


def test_json_of_a_proof_has_the_range_the_time_and_the_line() -> None:
    said = json.loads(of_capture("why-not", "ghost-broker", "metadata.version=27", "--json")[1])
    first = said["proofs"][0]
    assert (first["min_version"], first["max_version"], first["node_id"]) == (7, 25, 2)
    assert first["seen_at"].startswith("2026-11-21T05:49:46")
    assert first["line"].endswith("ghost-broker/landing.jsonl:48")
    assert said["unlock"]["fixes"] == [{"role": "broker", "node_id": 2, "action": "unregister"}]


def test_json_of_histories_and_nights_has_a_version(tables: Path) -> None:
    options = ("--tables", str(tables), "--fleet", FLEET, "--json")
    told = json.loads(run("timeline", "ghost-broker", *options)[1])
    assert (told["version"], told["regressions"]) == (1, 0)
    found = json.loads(run("diff", "--last", *options)[1])
    assert (found["version"], found["counts"]["unchanged"], found["clusters"]) == (1, 68, [])


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_with_an_example(command: str) -> None:
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"    featurelib {command} " in out
    assert "Exit codes: 0 answered" in " ".join(out.split())


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


def test_what_several_nodes_need_is_said_of_each() -> None:
    capture = str(SAMPLES / "mixed-42-39")
    code, out, err = run("why-not", "metadata.version=33", "--capture", capture)
    assert code == 0, err
    assert "brokers 1-3, each: upgrade to Kafka 4.4 or later" in out
