"""`featurelib collect`: whole output, exit code, and what lands."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kafka.protocol.admin import DescribeQuorumResponse

from featurelib.landing import Landing, read
from tests.backends.clusters import TABLES, ZK
from tests.backends.simulator import Simulated
from tests.backends.test_hostile_listeners import hostile
from tests.cli.commands import run
from tests.landing.test_tool_outputs import DUMPS
from tests.test_collect import dead, embedded

FEATURE = (
    "Feature: metadata.version\tSupportedMinVersion: 3.0-IV1\tSupportedMaxVersion: 3.7-IV4\t"
    "FinalizedVersionLevel: 3.5-IV2\tEpoch: 12\n"
)


@pytest.fixture
def fleet(tmp_path: Path) -> str:
    """Two clusters that answer, one that does not, one nobody knows how to reach."""
    embedded(tmp_path, "kraft")
    embedded(tmp_path, "zoo", ZK, "zk")
    embedded(tmp_path, "dead", dead())
    path = tmp_path / "fleet.toml"
    path.write_text(
        "".join(
            f'[[cluster]]\nid = "id-{name}"\nname = "{name}"\nfile = "{name}.db"\n'
            for name in ("kraft", "zoo", "dead")
        )
        + 'brokers = [3, 4]\n[[cluster]]\nid = "elsewhere"\n'
    )
    return str(path)


def collected(out: Path) -> list[str]:
    """Which clusters' files are there."""
    return sorted(re.sub(r"^\d{8}T\d{6}\.\d{6}Z-", "", path.name) for path in out.iterdir())


def lines_in(out: Path) -> list[dict[str, object]]:
    raw = [line for path in out.iterdir() for line in path.read_bytes().splitlines()]
    assert all(isinstance(read(line), Landing) for line in raw)
    return [json.loads(line) for line in raw]


def test_all_clusters_are_read_and_the_one_that_failed_is_named(tmp_path: Path, fleet: str) -> None:
    out = tmp_path / "landing"
    code, text, said = run("collect", "--fleet", fleet, "--out", str(out))
    assert code == 5
    assert text == f"2 clusters looked at, 1 not: dead. Landing files are in {out}\n"
    dead_db = tmp_path / "dead.db"
    assert sorted(said.splitlines()) == [
        f"dead: NOT LOOKED AT: {dead_db}: expected nodes that answer, found none of 4 running. "
        "Nothing was asked or sent. Recorded: 2 listeners did not answer.",
        f"elsewhere: left out, {fleet} does not say how it is reached",
        "kraft: 4 listeners answered",
        "zoo: 1 listener answered",
    ]
    assert collected(out) == ["id-dead.jsonl", "id-kraft.jsonl", "id-zoo.jsonl"]
    assert {line["cluster_id"] for line in lines_in(out)} == {"id-dead", "id-kraft", "id-zoo"}


def test_a_cluster_nobody_lists_is_told_with_the_options_that_collect_has(
    tmp_path: Path, fleet: str
) -> None:
    code, _, said = run("collect", "kraff", "--fleet", fleet, "--out", str(tmp_path / "out"))
    assert code == 2
    assert "found 4 others, as kraft" in said
    assert "--bootstrap HOST:PORT" in said
    assert "--tables" not in said
    assert "--capture" not in said
    _, _, said = run("describe", "kraff", "--fleet", fleet)
    assert "(--tables FOLDER, --capture PATH)" in said


def test_where_nobody_answers_the_address_is_named_once(tmp_path: Path) -> None:
    one = ("collect", "--bootstrap", "127.0.0.1:1", "--out", str(tmp_path / "out"))
    _, _, said = run(*one)
    assert said.splitlines()[-1] == (
        "127.0.0.1:1: NOT LOOKED AT: 127.0.0.1:1: expected at least one node to answer, found: "
        "connection refused."
    )
    _, _, said = run("describe", "--bootstrap", "127.0.0.1:1,127.0.0.1:2")
    assert said.splitlines()[-1] == (
        "error: expected at least one node to answer, found: 127.0.0.1:1: connection refused · "
        "127.0.0.1:2: connection refused."
    )
    _, _, said = run("describe", "--zookeeper", "127.0.0.1:1")
    assert said.splitlines()[-1] == (
        "error: zookeeper 127.0.0.1:1: expected an answer, found: connection refused. Nothing "
        "was read."
    )


def test_one_cluster_by_name_with_its_steps_and_a_silent_node(tmp_path: Path, fleet: str) -> None:
    made = Simulated(str(tmp_path / "kraft.db"), TABLES)
    made.stop(4)
    made.close()
    out = tmp_path / "landing"
    code, text, said = run("collect", "kraft", "--fleet", fleet, "--out", str(out))
    assert (code, text) == (0, f"1 cluster looked at. Landing files are in {out}\n")
    assert said.splitlines() == [
        f"asking 4 listeners of {tmp_path / 'kraft.db'}",
        "kraft: 3 listeners answered, 1 did not (broker 4: ConnectionRefusedError: the process "
        "does not run)",
    ]


def test_the_answer_as_json(tmp_path: Path, fleet: str) -> None:
    out = tmp_path / "landing"
    code, text, _ = run("collect", "kraft", "dead", "--fleet", fleet, "--out", str(out), "--json")
    document = json.loads(text)
    assert (code, document["version"], document["out"]) == (5, 1, str(out))
    by_name = {entry["name"]: entry for entry in document["clusters"]}
    assert by_name["kraft"]["error"] is None
    assert by_name["kraft"]["lines"] == 12
    assert {(n["role"], n["node_id"]) for n in by_name["kraft"]["answered"]} == {
        ("controller", 1), ("controller", 2), ("broker", 3), ("broker", 4),
    }  # fmt: skip
    assert [n["node_id"] for n in by_name["dead"]["not_answering"]] == [3, 4]
    assert "found none of 4 running" in by_name["dead"]["error"]


def test_a_cluster_outside_the_inventory_is_called_by_the_id_it_says(tmp_path: Path) -> None:
    entry = embedded(tmp_path, "new")
    code, _, said = run("collect", "--file", entry.file, "--out", str(tmp_path / "out"))
    assert code == 0
    assert said.splitlines()[-1] == "id-new: 4 listeners answered"
    assert collected(tmp_path / "out") == ["id-new.jsonl"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["kraft"], "--out: expected a folder"),
        (["kraft", "zoo", "--bootstrap", "a:1", "--out", "x"], "expected one cluster beside them"),
        (["--kind", "znode", "--out", "x"], "--kind: expected beside --from FILE"),
        (["--from", "f", "--out", "x"], "--from f: expected --kind KIND and --cluster CLUSTER"),
        (["--from", "f", "--kind", "znode", "--cluster", "c", "--out", "x"], "--from f: expected"),
    ],
)
def test_options_that_cannot_be_used_are_told_and_nothing_lands(
    tmp_path: Path, fleet: str, args: list[str], words: str
) -> None:
    args = [str(tmp_path / "x") if arg == "x" else arg for arg in args]
    code, out, said = run("collect", *args, "--fleet", fleet)
    assert (code, out) == (2, "")
    assert words in said
    assert not (tmp_path / "x").exists()


def test_an_inventory_without_a_way_to_any_cluster_is_told(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text('[[cluster]]\nid = "a"\n')
    code, _, said = run("collect", "--fleet", str(path), "--out", str(tmp_path / "x"))
    assert code == 2
    assert "expected clusters with a way to reach them" in said


def convert(tmp_path: Path, name: str, kind: str, *args: str) -> tuple[int, str, str]:
    given = ["--from", name, "--kind", kind, "--out", str(tmp_path / "out"), "--cluster", "c-1"]
    return run("collect", *given, *args)


@pytest.mark.parametrize("zipped", [False, True])
def test_a_dump_of_the_log_lands_at_the_file_s_own_time(tmp_path: Path, zipped: bool) -> None:
    texts = DUMPS[next(iter(DUMPS))]
    path = tmp_path / "dump.txt"
    content = "\n".join(texts).encode()
    path.write_bytes(gzip.compress(content) if zipped else content)
    os.utime(path, (1_795_000_000, 1_795_000_000))
    code, out, said = convert(tmp_path, str(path), "metadata_log")
    lines = lines_in(tmp_path / "out")
    assert (code, out.strip()) == (0, str(next((tmp_path / "out").iterdir())))
    assert out.strip().endswith("Z-c-1-metadata_log.jsonl")
    assert {line["observed_at"] for line in lines} == {"2026-11-18T11:06:40.000000Z"}
    assert said.splitlines()[0] == (
        f"{path}: read from the cluster at 2026-11-18T11:06:40.000000Z, the file's time "
        "(--observed-at)"
    )
    assert f"{path}: {len(texts)} lines, of which " in said
    assert len(lines) < len(texts)


def test_the_time_can_be_told_and_the_cluster_named_as_the_inventory_does(
    tmp_path: Path, fleet: str
) -> None:
    path = tmp_path / "describe.txt"
    path.write_text(FEATURE)
    args = ["--observed-at", "2026-11-20T07:00:00+01:00", "--fleet", fleet, "--json"]
    given = ["--from", str(path), "--kind", "features_describe", "--out", str(tmp_path / "out")]
    code, out, _ = run("collect", *given, "--cluster", "kraft", *args)
    document = json.loads(out)
    assert (code, document["version"], document["cluster"]) == (0, 1, "id-kraft")
    assert (document["read"], document["lines"]) == (1, 1)
    assert document["observed_at"] == "2026-11-20T06:00:00.000000Z"


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        (b"hello\n", "metadata_log", ": expected records, as kafka-dump-log.sh"),
        (b"", "features_describe", ": expected the output of a tool, found an empty file."),
        (b"ok\n\xff\n", "features_describe", ":2: expected UTF-8 text"),
        (
            gzip.compress(b"a\n" * 9000, mtime=0)[:-9],
            "metadata_log",
            ": expected a file that can be read",
        ),
        (FEATURE.encode(), "feature", "--kind feature: expected one of api_versions"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_and_nothing_lands(
    tmp_path: Path, content: bytes, kind: str, words: str
) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes(content)
    code, out, said = convert(tmp_path, str(path), kind)
    assert (code, out) == (2, "")
    assert words in said
    assert str(path) in said
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    "text", ["yesterday", "2026-11-20", "2026-11-20T07:00:00", "1999-01-01T00:00:00Z"]
)
def test_a_time_that_is_none_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "describe.txt"
    path.write_text(FEATURE)
    code, _, said = convert(tmp_path, str(path), "features_describe", "--observed-at", text)
    assert code == 2
    assert "observed" in said


def test_a_tool_s_output_comes_through_a_pipe(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "featurelib", "collect", "--from", "-", "--kind", "znode"]
    command += ["--cluster", "c-1", "--path", "/feature", "--out", str(tmp_path / "out")]
    stat = "cZxid = 0x2\ndataVersion = 7\ndataLength = 2\nnumChildren = 0\n"
    done = subprocess.run(
        command, input=f"{{}}\n{stat}", text=True, capture_output=True, check=True
    )
    assert done.stdout.strip().endswith("-c-1-znode.jsonl")
    assert [(n["path"], n["data"]) for n in lines_in(tmp_path / "out")] == [("/feature", "{}")]


def test_killed_while_it_writes_it_leaves_nothing_that_is_ingested(tmp_path: Path) -> None:
    from featurelib.cli.night import expect_landing
    from featurelib.errors import NoEvidenceError

    command = [sys.executable, "-m", "featurelib", "collect", "--from", "-", "--kind"]
    command += ["features_describe", "--cluster", "c-1", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(FEATURE.encode() * 5000)
        process.stdin.flush()
        end = time.monotonic() + 20
        while time.monotonic() < end and not any(p.stat().st_size for p in tmp_path.iterdir()):
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".")
    assert left.stat().st_size > 0
    with pytest.raises(NoEvidenceError):
        expect_landing(str(tmp_path))


def test_a_probe_says_before_what_it_sends_and_after_what_was_answered(
    tmp_path: Path, fleet: str
) -> None:
    out = tmp_path / "landing"
    names = ["kraft", "zoo", "--fleet", fleet, "--out", str(out)]
    code, text, said = run("collect", *names, "--probe", "--json")
    assert code == 0
    assert said.splitlines()[0] == (
        "--probe: each KRaft controller is sent one UpdateFeatures request with ValidateOnly for "
        "what could be upgraded; nothing is written. It needs ALTER on the cluster."
    )
    told = {one["name"]: one["probe"] for one in json.loads(text)["clusters"]}
    assert told["kraft"].startswith("probe: the controller agreed, validating only: ")
    assert told["zoo"].startswith("probe: nothing was sent: this controller would apply")
    for probe in told.values():
        assert probe in said
    kinds = [line["kind"] for line in lines_in(out)]
    assert kinds.count("probe") == 1
    code, text, said = run("collect", *names, "--json")
    assert {one["probe"] for one in json.loads(text)["clusters"]} == {None}
    assert "probe" not in said


def test_a_file_cannot_be_probed(tmp_path: Path) -> None:
    given = ["--kind", "metadata_log", "--cluster", "c", "--out", str(tmp_path)]
    code, _, said = run("collect", "--from", "-", "--probe", *given)
    assert code == 2
    assert "--probe: expected a live cluster to ask, found --from." in said


def test_a_right_that_is_missing_is_said_however_many_clusters_are_read(tmp_path: Path) -> None:
    refused = DescribeQuorumResponse(error_code=31, error_message="denied", topics=[], nodes=[])
    with hostile(describe_quorum=lambda mine: refused) as listener:
        (tmp_path / "one.toml").write_text(
            f'[[cluster]]\nid = "c"\nname = "secure"\nbootstrap = ["{listener.address}"]\n'
        )
        embedded(tmp_path, "kraft")
        (tmp_path / "two.toml").write_text(
            (tmp_path / "one.toml").read_text()
            + '[[cluster]]\nid = "id-kraft"\nfile = "kraft.db"\n'
        )
        for inventory in ("one", "two"):
            words = ("--fleet", str(tmp_path / f"{inventory}.toml"), "--out", str(tmp_path / "out"))
            code, out, err = run("collect", *words, "--json")
            assert code == 0
            (told,) = [line for line in err.splitlines() if "not authorized" in line]
            assert "broker 1: DescribeQuorum is not authorized (error 31)" in told
            assert "--allow-principal User:ANONYMOUS --operation DESCRIBE --cluster" in told
            (said,) = (one for one in json.loads(out)["clusters"] if one["name"] == "secure")
            assert [one["refused_by"] for one in said["not_allowed"]] == [["broker 1"]]
            assert told.endswith(said["not_allowed"][0]["error"])
