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

GHOST = """\
ghost-broker: metadata.version 27 (4.1-IV1): BLOCKED
finalized: 25 (4.0-IV3) · landing files in {capture}
judged by: the policy; and as these controllers answer: KRaft 4.1

in the way  supports              seen                  line
broker 2    7-25 (up to 4.0-IV3)  2026-11-21 05:49 UTC  ghost-broker/landing.jsonl:48

the rules that refuse it
  unsupported_by_node, asked by policy and KRaft 4.1: broker 2
    KIP-584, Validations; KIP-778, Upgrades; QuorumFeatures.reasonNotSupported
    KRaft 4.1 would answer: "Invalid update version 27 for feature metadata.version. Broker 2 only
      supports versions 7-25"

the smallest set of changes that unlocks it
  broker 2: start it with Kafka 4.1 or later, or, if it is gone for good, unregister it
    kafka-cluster.sh unregister --bootstrap-server HOST:PORT --id 2
  what was read stays as it is: collect and run the nightly again, or let the plan look at the
    cluster itself
  then: featurelib plan ghost-broker upgrade --feature metadata.version=27 --fleet {fleet}
"""
REMOVED = """\
ghost-broker, if node 2 is gone
landing files in {capture}

cluster: BLOCKED (rolled, not finalized) → READY (rolled, not finalized)

feature           before                                         after
metadata.version  BLOCKED at 25 (4.0-IV3), ceiling 27 (4.1-IV1)  READY 25 (4.0-IV3) → 27 (4.1-IV1)
5 features unchanged

findings that are gone: 2
  blocker  unsupported by node: Broker 2 does not support metadata.version 27 (4.1-IV1): it supports
    7-25 (up to 4.0-IV3).
  warning  ghost broker: Broker 2 is registered but fenced; it did not answer
    (ConnectionRefusedError: Connection refused); it counts until it is unregistered.
"""
ROLLED = """\
k42-dynamic: software of 4.1 may NOT join now
finalized: metadata.version 29 (4.2-IV1), eligible.leader.replicas.version 1, group.version 1,
  kraft.version 1, share.version 1, streams.version 1, transaction.version 2
landing files in {capture}

what software of 4.1 does not support
  metadata.version 29 (4.2-IV1): it supports 7-27 (up to 4.1-IV1)
  streams.version 1: it supports no such feature
  with unstable features enabled it supports metadata.version, streams.version; do not, in
    production

what would become of its nodes
  broker 1 would be refused over metadata.version, streams.version, and ask again for ever
    KRaft 4.2 to 4.4 and KRaft 4.1: "Unable to register because the broker does not support
      finalized version 29 of metadata.version. The broker wants a version between 7 and 27,
      inclusive."
  controller 1 would refuse to start over metadata.version, streams.version
    KRaft 4.2 to 4.4 and KRaft 4.1: "Tried to apply FeatureLevelRecord
      FeatureLevelRecord(name='metadata.version', featureLevel=29), but this controller only
      supports versions 7-27; Tried to apply FeatureLevelRecord
      FeatureLevelRecord(name='streams.version', featureLevel=1), but this controller only supports
      versions 0"

what must happen first
  request 1: metadata.version 29 (4.2-IV1) → 27 (4.1-IV1): SAFE DOWNGRADE
  request 1: streams.version 1 → 0 (not finalized): DELETION (safe downgrade)
  featurelib plan k42-dynamic downgrade-all --release-version 4.1

releases that may join as things are: 4.2 to 4.4
"""
STORY = """\
zk-roll-282-332: nothing went back
tables in {tables}, up to run 20261121080000

finalized levels     epoch  what changed
2026-11-21 05:43:50      0  search.index 0 → 2; tiering 0 → 2
2026-11-21 05:43:56      1  search.index 2 → 4
times are when it was read; of a dumped log, when it was dumped

what nodes supported
  2026-11-21 05:43:50  broker 1: first seen: search.index 1-3, tiering 1-2
  2026-11-21 05:43:50  brokers 2-3: first seen: search.index 1-4, tiering 1-3
"""


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


@pytest.mark.parametrize(
    ("command", "name", "words", "expected"),
    [
        ("why-not", "ghost-broker", ("metadata.version=27",), GHOST),
        ("why-not", "ghost-broker", ("metadata.version=4.1",), GHOST),
        ("what-if", "ghost-broker", ("--remove", "2"), REMOVED),
        ("roll", "k42-dynamic", ("--to", "4.1.2"), ROLLED),
    ],
)
def test_the_whole_answer_is_shown(
    command: str, name: str, words: tuple[str, ...], expected: str
) -> None:
    code, out, err = of_capture(command, name, *words)
    assert (code, err) == (0, "")
    assert out == expected.format(capture=capture(name), fleet=FLEET)


def usual_fleet() -> str:
    """The samples' inventory as a person would type it."""
    return str(Path(FLEET).absolute().relative_to(Path.cwd()))


def test_a_timeline_is_told_from_the_tables(tables: Path) -> None:
    code, out, err = run("timeline", "zk-roll-282-332", "--tables", str(tables), "--fleet", FLEET)
    assert (code, err) == (0, "")
    assert out == STORY.format(tables=tables)


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
    told = GHOST.replace("landing files in {capture}", f"tables in {tables}, run {RUN}")
    # The tables' path is of any length, and so the line it stands in may wrap.
    assert out.split() == told.format(fleet=usual_fleet()).split()
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
