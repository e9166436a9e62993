"""`featurelib describe`: all nodes of a cluster, from a live look and from what was recorded."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from featurelib.catalogue import load
from featurelib.config.fleet import FleetEntry
from featurelib.questions.describe import Description, FindingShown, LevelShown, NodeShown, describe
from featurelib.view.describe import describe_page, letter
from featurelib.view.layout import WIDEST as WIDTH
from tests.backends.clusters import KRAFT, broker
from tests.cli.commands import run
from tests.core import test_software as software
from tests.laboratory import LABORATORY
from tests.seeing import see
from tests.test_collect import embedded

SAMPLES = LABORATORY
NAMES = sorted(path.parent.name for path in SAMPLES.glob("*/landing.jsonl"))


def of_sample(name: str, *args: str) -> tuple[int, str, str]:
    fleet = ["--fleet", str(SAMPLES / "fleet.toml")]
    return run("describe", "--capture", str(SAMPLES / name), *fleet, *args)


def description(name: str) -> Description:
    lines = (SAMPLES / name / "landing.jsonl").read_bytes().splitlines()
    return describe(see(lines, catalogue=load(), as_of=None, max_age=10**12), load())


def node(described: Description, role: str, node_id: int) -> NodeShown:
    return next(n for n in described.nodes if (n.role, n.node_id) == (role, node_id))


def test_a_node_that_does_not_fit_is_marked_where_it_does_not(tmp_path: Path) -> None:
    unfit = broker(5, supported={"metadata.version": (7, 21), "group.version": (0, 1)})
    entry = embedded(tmp_path, "one", replace(KRAFT, nodes=(*KRAFT.nodes, unfit)))
    _, out, _ = run("describe", "--file", entry.file)
    marked = [line.split() for line in out.splitlines() if " !" in line]
    assert marked == [["metadata.version", "25", "(4.0-IV3)", "7-29", "7-21", "!"]]
    assert "! does not support the finalized level" in out


def test_who_contradicts_is_shown() -> None:
    out = of_sample("kraft-moved-by-refused-cli")[1]
    assert "(disputed)" not in out
    lines = (SAMPLES / "ghost-broker" / "landing.jsonl").read_bytes().splitlines()
    for raw in list(lines):
        line = json.loads(raw)
        if line["kind"] == "api_versions" and line["node_id"] == 1 and line["role"] == "broker":
            line["node_id"] = 3
            line["finalized_features"][0]["max_version_level"] += 1
            lines.append(json.dumps(line).encode())
    described = describe(see(lines, catalogue=load(), as_of=None, max_age=10**12), load())
    (disputed,) = [row.feature for row in described.levels if row.is_disputed]
    shown = list(describe_page(described, FleetEntry(id="x"), "here"))
    assert [line for line in shown if line.startswith(disputed) and "(disputed)" in line]
    assert "witnesses_disagree" in {finding.code for finding in described.findings}


def with_a_ninth_voter(name: str) -> Description:
    """Controller 9 votes; nothing else knows it."""
    lines = []
    for raw in (SAMPLES / name / "landing.jsonl").read_bytes().splitlines():
        line = json.loads(raw)
        if line["kind"] == "describe_quorum":
            (topic,) = line["answer"]["topics"]
            voters = topic["partitions"][0]["current_voters"]
            voters.append(voters[0] | {"replica_id": 9})
        lines.append(json.dumps(line).encode())
    return describe(see(lines, catalogue=load(), as_of=None, max_age=10**12), load())


def test_an_unregistered_voter_is_called_so() -> None:
    described = with_a_ninth_voter("k42-dynamic")
    stranger = node(described, "controller", 9)
    assert (stranger.is_unregistered_voter, stranger.state) == (True, "not queried")
    assert not node(described, "controller", 1).is_unregistered_voter
    shown = "\n".join(describe_page(described, FleetEntry(id="x"), "here"))
    assert "not queried, unregistered voter" in shown


def test_a_voter_is_not_called_unregistered_where_no_list_of_controllers_was_read() -> None:
    assert not node(with_a_ninth_voter("k41-forgotten"), "controller", 9).is_unregistered_voter


def test_a_live_look_says_the_same_as_what_was_collected_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = embedded(tmp_path, "one")
    monkeypatch.chdir(tmp_path)  # long paths take a line of their own
    code, live, _ = run("describe", "--file", "one.db")
    assert code == 0
    assert run("collect", "--file", entry.file, "--out", "landing")[0] == 0
    code, stored, _ = run("describe", "--capture", "landing")
    assert code == 0
    moments = ("seen ", "brokers ", "controllers ")

    def steady(text: str) -> list[str]:
        return [line for line in text.splitlines() if not line.startswith(moments)]

    assert steady(live) == steady(stored)
    assert "brokers 3-4" in live


def test_many_builds_take_as_many_tables_as_fit(tmp_path: Path) -> None:
    nodes = [
        broker(100 + i, supported={"metadata.version": (7, 29), "some.feature": (1000, 2000 + i)})
        for i in range(40)
    ]
    entry = embedded(tmp_path, "wide", replace(KRAFT, nodes=(*KRAFT.nodes, *nodes)))
    _, out, _ = run("describe", "--file", entry.file)
    assert max(len(line) for line in out.splitlines() if entry.file not in line) <= WIDTH
    heads = [line.split() for line in out.splitlines() if line.startswith("feature ")]
    assert len(heads) > 1
    assert [name for head in heads for name in head[2:]] == [letter(i) for i in range(41)]


def test_ids_with_many_gaps_take_several_lines(tmp_path: Path) -> None:
    nodes = [broker(10_000 + 2 * i) for i in range(30)]
    entry = embedded(tmp_path, "gaps", replace(KRAFT, nodes=(*KRAFT.nodes, *nodes)))
    _, out, _ = run("describe", "--file", entry.file)
    assert max(len(line) for line in out.splitlines() if entry.file not in line) <= WIDTH
    assert len(re.findall(r"^  10\d{3}, ", out, re.MULTILINE)) > 1


def test_names_from_outside_cannot_move_the_cursor() -> None:
    level = LevelShown(
        feature="evil\x1b[2J", level=0, min_level=0, text="0", is_disputed=False, offended=()
    )
    described = replace(description("k40-fresh"), levels=(level,))
    shown = describe_page(described, FleetEntry(id="x", name="a\x07b", owner="o\x1b"), "x\x1b")
    assert [line for line in shown if not line.isprintable()] == []


def test_the_header_names_the_release_of_the_active_controller(tmp_path: Path) -> None:
    """The other controllers run 4.3, and may lead after it."""
    path = tmp_path / "roll.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in software.lines_of("roll4143")))
    code, out, _ = run("describe", "--capture", str(path))
    assert code == 0
    assert "active controller: 2 · its release: 4.1\n" in out
    assert "controllers 3-4  running                     4.3" in out


HEADS = ("Feature", "SupportedMinVersion", "SupportedMaxVersion", "FinalizedVersionLevel", "Epoch")
ROWS = (
    ("confluent.metadata.version", "CP-7.3-IV3", "CP-8.1-IV1A", "CP-8.1-IV1A", "11"),
    ("transaction.version", "0", "2", "0", "11"),
)
TOOL = "".join(
    "\t".join(f"{head}: {cell}" for head, cell in zip(HEADS, row, strict=True)) + "\n"
    for row in ROWS
)


def test_the_text_of_kafka_s_own_tool_alone_is_described_and_blocks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("features.txt").write_text(TOOL)
    collect = ("collect", "--from", "features.txt", "--kind", "features_describe", "--out", "L")
    assert run(*collect, "--cluster", "c", "--observed-at", "2026-11-27T06:00:00Z")[0] == 0
    code, out, _ = run("describe", "--capture", "L")
    text = " ".join(out.split())
    assert (code, "no feature is known" in text) == (0, True)
    assert "printed CP-8.1-IV1A as the finalized level" in " ".join(text.split())
    code, out, _ = run("why-not", "transaction.version=2", "--capture", "L")
    assert (code, out.splitlines()[0]) == (0, "c: transaction.version 2: UNKNOWN")


DATA = Path(__file__).parents[1] / "data"
SEEN = ("--observed-at", "2026-11-27T06:00:00Z")


def test_requests_that_another_tool_showed_tell_the_release_and_no_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = DATA / "tool_outputs" / "broker-api-versions-4.0.0.txt"
    collect = ("collect", "--from", str(text), "--kind", "api_versions", "--out", "L")
    assert run(*collect, "--cluster", "c", *SEEN)[0] == 0
    out = run("describe", "--capture", "L")[1]
    assert ["broker", "1", "not", "queried", "4.0", "?"] in [
        row.split() for row in out.splitlines()
    ]
    assert "no response from" not in out
    assert "never queried" not in out
    _, out, _ = run("check", "--capture", "L", "--as-of", "newest", "--json")
    assert "queried only for its list of requests" in out
    for release in ("3.9", "4.1"):  # nobody says what is finalized
        _, out, _ = run("can-roll", "--capture", "L", "--to", release, "--as-of", "newest")
        assert out.splitlines()[:2] == [
            f"c: software of {release} joins or not: UNKNOWN",
            "finalized: not known",
        ]
        assert "can register" not in out
        assert "its controllers would let" not in out
        told = run("can-roll", "--capture", "L", "--to", release, "--as-of", "newest", "--json")
        assert json.loads(told[1])["may_join"] is False


@pytest.mark.parametrize(("voters", "shown"), [("", None), (None, (1, 2))])
def test_a_dynamic_quorum_without_static_voters_is_nothing_to_say(
    voters: str | None, shown: tuple[int, ...] | None
) -> None:
    lines = (DATA / "configured_voters" / "left-behind.jsonl").read_text("utf-8").splitlines()
    if voters is not None:
        named = r'("name":"controller.quorum.voters","value":)"[^"]*"'
        lines = [re.sub(named, r'\1""', line) for line in lines]
    raw = [line.encode() for line in lines]
    described = describe(see(raw, catalogue=load(), as_of=None, max_age=10**12), load())
    assert described.configured_voters == shown


def test_what_holds_for_several_nodes_is_said_once() -> None:
    def shown_of(code: str, node_id: int, text: str) -> FindingShown:
        names = {"severity": "warning", "role": "controller", "of_any": text}
        message = text.replace("?", str(node_id))
        return FindingShown(code=code, node_id=node_id, message=message, **names)

    found = [shown_of("a", i, "Controller ? still has static voters.") for i in (1, 2, 3)]
    found.append(shown_of("b", 1, "Controller ? is gone."))
    described = replace(description("k40-fresh"), findings=tuple(found))
    shown = "\n".join(describe_page(described, FleetEntry(id="x"), "here"))
    said = "Controller 1 still has static voters. The same holds for controllers 2-3."
    assert shown.count("still has static voters") == shown.count(said) == 1
    assert "warning  Controller 1 is gone." in shown
