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
from tests.backends.clusters import ZK
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
    assert text == f"2 clusters read, 1 not: dead. Landing files are in {out}\n"
    dead_db = tmp_path / "dead.db"
    assert sorted(said.splitlines()) == [
        f"dead: NOT READ: {dead_db}: None of the 4 nodes is running. "
        "Nothing was read or sent. Recorded: no node could be read.",
        f"elsewhere: left out, {fleet} does not say how it is reached",
        "kraft: 4 listeners responded",
        "zoo: 1 listener responded",
    ]
    assert collected(out) == ["id-dead.jsonl", "id-kraft.jsonl", "id-zoo.jsonl"]
    lost = [line["cluster_id"] for line in lines_in(out) if line["kind"] == "not_reached"]
    assert lost == ["id-dead"]


def test_a_long_round_says_how_far_it_is(
    tmp_path: Path, fleet: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["featurelib.api.collect"], "PROGRESS_SECONDS", 0.0)
    _, _, said = run("collect", "--fleet", fleet, "--out", str(tmp_path / "landing"))
    assert [line for line in said.splitlines() if line.startswith("collect: ")] == [
        f"collect: {done} of 3 clusters, about 1 minute left" for done in (1, 2)
    ]


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


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ": the file is empty."),
        (b"ok\n\xff\n", ":2: the line is not UTF-8 text"),
        (gzip.compress(b"a\n" * 9000, mtime=0)[:-9], ": featurelib cannot read this file"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_and_nothing_lands(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes(content)
    code, out, said = convert(tmp_path, str(path), "features_describe")
    assert (code, out) == (2, "")
    assert words in said
    assert str(path) in said
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []


def test_a_tool_s_output_comes_through_a_pipe(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "featurelib", "collect", "--from", "-", "--kind", "znode"]
    command += ["--cluster", "c-1", "--path", "/feature", "--out", str(tmp_path / "out")]
    stat = "cZxid = 0x2\ndataVersion = 7\ndataLength = 2\nnumChildren = 0\n"
    done = subprocess.run(
        command, input=f"{{}}\n{stat}", text=True, capture_output=True, check=True
    )
    assert done.stdout.strip().endswith("-c-1-znode.jsonl")
    assert [(n["path"], n["data"]) for n in lines_in(tmp_path / "out")] == [("/feature", "{}")]


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        ("orders", ""),
        ("id-1", ""),
        ("4Imaql6QRMyinfQbQ1eyVA", ""),
        (
            "order",
            "--cluster order: The inventory has no such cluster, and Kafka",
        ),
        ("order", "featurelib uses the text as a cluster id. Did you mean orders?"),
    ],
)
def test_what_is_of_a_cluster_that_nobody_knows_lands_with_a_warning(
    tmp_path: Path, cluster: str, words: str
) -> None:
    (fleet := tmp_path / "fleet.toml").write_text('[[cluster]]\nid = "id-1"\nname = "orders"\n')
    (scraped := tmp_path / "node.txt").write_text(
        'kafka_server_node_metrics_maximum_supported_level{feature_name="metadata-version"} 29\n'
        'kafka_server_node_metrics_minimum_supported_level{feature_name="metadata-version"} 7\n'
        'kafka_server_metadataloader_finalizedlevel{featureName="metadataVersion"} 25\n'
        'kafka_server_app_info_start_time_ms{client_id="2"} 1\n'
        'kafka_controller_KafkaController_Value{name="ActiveControllerCount"} 0\n'
    )
    given = ["--kind", "metrics", "--out", str(tmp_path / "out"), "--fleet", str(fleet)]
    code, _, said = run("collect", "--from", str(scraped), *given, "--cluster", cluster)
    assert (code, "has no such cluster" in said) == (0, bool(words))
    assert words in said


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
            assert "--allow-principal User:ANONYMOUS --operation Describe --cluster" in told
            (said,) = (one for one in json.loads(out)["clusters"] if one["name"] == "secure")
            assert [one["refused_by"] for one in said["not_allowed"]] == [["broker 1"]]
            assert told.endswith(said["not_allowed"][0]["error"])
