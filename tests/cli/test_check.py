"""`featurelib check`: the nightly's verdicts of a look or of landing files, and the next step."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from featurelib import check, connect
from featurelib.config.fleet import parse_fleet
from featurelib.errors import ConfigError
from tests.backends.clusters import KRAFT, TABLES, broker
from tests.backends.simulator import Simulated
from tests.cli.commands import run
from tests.laboratory import LABORATORY

ROOT = Path(__file__).parents[2]
SAMPLES = LABORATORY
SEEN_OF_LISTENERS = ("api_versions", "describe_quorum")  # which list no registrations
OF_SAMPLES = ("--fleet", str(SAMPLES / "fleet.toml"), "--config", str(SAMPLES / "audit.toml"))
STORED = ROOT / "tests" / "golden" / "tables" / "samples"  # what the nightly's tables hold
ID = "MkU3OEVBNTcwNTJENDM2Qg"
OLD = {"metadata.version": (7, 25), "kraft.version": (0, 1)}
BLOCKED = replace(KRAFT, nodes=(*KRAFT.nodes, broker(5, supported=OLD, release="4.0.1")))


def stored(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (STORED / f"gold.{name}.jsonl").read_text().splitlines()]


def number(level: dict[str, Any] | None) -> int | None:
    return None if level is None else int(level["number"])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, cluster, key in (("ready", KRAFT, ID), ("blocked", BLOCKED, "b-1")):
        with Simulated(f"{name}.db", TABLES, cluster_id=key) as made:
            made.put(cluster, 9)
    return tmp_path


def checked(*words: str) -> tuple[int, list[dict[str, Any]]]:
    code, out, _ = run("check", *words, "--json")
    clusters: list[dict[str, Any]] = json.loads(out)["clusters"]
    return code, clusters


def test_landing_files_come_to_what_the_nightly_s_tables_hold() -> None:
    code, clusters = checked("--capture", str(SAMPLES), "--fleet", "/dev/null", "--as-of", "newest")
    assert code == 0
    found = {
        (one["key"], row["feature"]): (
            row["verdict"],
            *(number(row[key]) for key in ("finalized", "target", "ceiling", "available")),
            *(number(row[key]) for key in ("downgrade_floor", "point_of_no_return")),
        )
        for one in clusters
        for row in one["readiness"]
    }
    keys = ("finalized_level", "target", "ceiling", "available")
    keys += ("downgrade_floor", "point_of_no_return")
    assert found == {
        (row["cluster"], row["feature"]): (row["verdict"], *(row.get(key) for key in keys))
        for row in stored("feature_readiness")
    }
    assert {one["key"]: (one["verdict"], one["phase"], one["nodes"]) for one in clusters} == {
        row["cluster"]: (row["verdict"], row["phase"], row.get("nodes", 0))
        for row in stored("upgrade_plan")
    }
    said = {(one["key"], f["code"], f["severity"]) for one in clusters for f in one["findings"]}
    nightly = {(row["cluster"], row["code"], row["severity"]) for row in stored("finding")}
    assert {one for one in nightly if one[1] != "ready_forgotten"} == said


def test_each_next_command_goes_on_as_it_is_pasted_and_nothing_was_written_before(
    home: Path,
) -> None:
    before = sorted(home.iterdir())
    for name in ("ready", "blocked"):
        _, [one] = checked("--file", f"{name}.db")
        [command] = one["commands"]
        assert command.endswith(f" --file {name}.db")
        code, _, err = run(*shlex.split(command)[1:])
        assert code == 0, err
        assert command in run("check", "--file", f"{name}.db")[1]
    assert sorted(home.iterdir()) == sorted([*before, home / "plans"])  # the plan of the first


def test_landing_files_without_a_line_that_is_accepted_are_no_evidence(home: Path) -> None:
    for name, text in (("empty", ""), ("damaged", '{"kind":1e999}\n')):
        (home / name).mkdir()
        (home / name / "landing.jsonl").write_text(text)
        code, out, err = run("check", "--capture", str(home / name))
        assert (code, out) == (5, ""), err
        fault = "There is no landing line" if name == "empty" else "is a valid landing line"
        assert fault in err


def test_what_is_not_known_has_no_target_and_is_collected_beside_its_file(
    home: Path,
) -> None:
    line = {"kind": "features_describe", "cluster_id": "c", "observed_at": "2026-11-21T05:00:00Z"}
    text = "Feature: f\tSupportedMinVersion: 0\tSupportedMaxVersion: 2\t"
    text += "FinalizedVersionLevel: 0\tEpoch: 7"
    lines = json.dumps(line | {"line_number": 1, "line": text})
    Path("tool.jsonl").write_text(f"{lines}\n", "utf-8")
    shown = run("check", "--capture", "tool.jsonl", "--as-of", "newest")[1].splitlines()
    assert any(row.startswith("    featurelib collect --out . --fleet ") for row in shown)
    assert [row.split() for row in shown if row.startswith("f ")] == [["f", "?", "UNKNOWN"]]


def test_every_blocker_is_named_with_all_its_nodes(home: Path) -> None:
    nodes = (*BLOCKED.nodes, broker(6, supported=OLD, release="4.0.1"))
    with Simulated("blocked.db", TABLES) as there:
        there.put(replace(BLOCKED, nodes=nodes), 10)
    code, out, _ = run("check", "--file", "blocked.db", "--fail-on", "blocker")
    assert (code, "Brokers 5-6 block metadata.version" in out) == (1, True), out
    assert run("check", "--file", "blocked.db", "--fail-on", "critical")[0] == 0
    assert run("check", "--file", "ready.db", "--fail-on", "blocker")[0] == 0


def test_the_owner_s_word_holds_for_a_cluster_that_is_asked_by_its_address(home: Path) -> None:
    entry = f'[[cluster]]\nid = "{ID}"\nname = "mine"\nfile = "gone.db"\n'
    (home / "fleet.toml").write_text(entry + 'managed_by = "msk"\nowner = "web"\n')
    words = ("--file", "ready.db", "--fleet", "fleet.toml")
    _, [one] = checked(*words)
    assert (one["name"], one["owner"], one["managed_by"]) == ("mine", "web", "msk")
    assert {step["managed_by"] for step in one["steps"]} == {"msk"}
    assert run("plan", "upgrade-all", *words)[1].count("ours to send now") == 1


def test_a_cluster_that_answers_in_the_place_of_another_is_refused_and_the_others_are_shown(
    home: Path,
) -> None:
    entries = [("one", ID, "ready"), ("two", "c-2", "blocked"), ("three", "c-3", "none")]
    text = "".join(
        f'[[cluster]]\nid = "{i}"\nname = "{n}"\nfile = "{f}.db"\n' for n, i, f in entries
    )
    (home / "fleet.toml").write_text("".join(text))
    assert run("check", "two", "--fleet", "fleet.toml")[0] == 2
    code, clusters = checked("--all", "--fleet", "fleet.toml")
    verdicts = {one["name"]: one["verdict"] for one in clusters}
    assert (code, verdicts) == (5, {"one": "READY", "two": "UNKNOWN", "three": "UNKNOWN"})
    assert [one["name"] for one in clusters][-1] == "one"  # the worst first
    messages = {one["name"]: str(one["findings"]) for one in clusters}
    assert "expected the cluster c-2 (two), found b-1" in messages["two"]
    assert "Check the address first" not in messages["two"]  # the message says what to fix


def test_an_id_beside_an_address_is_the_cluster_that_has_to_answer(home: Path) -> None:
    assert run("plan", ID, "upgrade-all", "--file", "ready.db", "--out", "-")[0] == 0
    code, _, err = run("plan", ID, "upgrade-all", "--file", "blocked.db")
    assert (code, f"expected the cluster {ID}" in err) == (2, True)
    code, _, err = run("plan", "payments", "upgrade-all", "--file", "ready.db")
    assert (code, "No cluster 'payments'" in err) == (2, True)


def test_pages_are_those_of_the_nightly_and_need_no_spark(home: Path) -> None:
    words = ("--all", "--capture", str(SAMPLES), *OF_SAMPLES, "--as-of", "newest")
    code, out, _ = run("check", *words, "--html", "pages")
    assert (code, out.splitlines()[0].split(",")[0]) == (0, "27 clusters")
    page = (home / "pages" / "report.html").read_text()
    fleet = parse_fleet((SAMPLES / "fleet.toml").read_text(), str(SAMPLES / "fleet.toml"))
    assert [one.name for one in fleet.cluster if one.name and one.name not in page] == []
    owners = {path.name for path in (home / "pages" / "owners").iterdir()}
    assert {"payments.html", "nobody.html"} <= owners


def test_a_command_that_asks_the_live_cluster_reads_no_recorded_lines(home: Path) -> None:
    recorded = (SAMPLES / "k37-forgotten" / "landing.jsonl").read_bytes().splitlines(keepends=True)
    lines = [line for line in recorded if json.loads(line)["kind"] in SEEN_OF_LISTENERS]
    Path("seen.jsonl").write_bytes(b"".join(lines))
    entry = f'[[cluster]]\nid = "{json.loads(lines[0])["cluster_id"]}"\nname = "mine"\n'
    Path("mine.toml").write_text(f'{entry}bootstrap = ["127.0.0.1:9"]\n')
    words = ("mine", "--capture", "seen.jsonl", "--fleet", "mine.toml", "--as-of", "newest")
    shown = [row.strip() for row in run("check", *words)[1].splitlines()]
    assert "featurelib plan mine upgrade-all --probe --fleet mine.toml" in shown
    change = "upgrade --feature metadata.version=19"
    _, out, _ = run("plan", words[0], *change.split(), *words[1:])
    assert f"featurelib plan mine {change} --probe --fleet mine.toml" in out


def test_an_unknown_finding_stands_in_the_headline_of_an_up_to_date_cluster(home: Path) -> None:
    recorded = (SAMPLES / "k40-fresh" / "landing.jsonl").read_bytes().splitlines(keepends=True)
    lines = [line for line in recorded if json.loads(line)["kind"] in SEEN_OF_LISTENERS]
    Path("seen.jsonl").write_bytes(b"".join(lines))
    words = ("--capture", "seen.jsonl", "--fleet", "/dev/null", "--as-of", "newest")
    out = run("check", *words)[1]
    assert out.splitlines()[0].endswith(
        "No recent data shows which brokers are registered but fenced"
    ), out
    assert "Next:" not in out


def test_python_asks_by_a_name_an_address_or_several(home: Path) -> None:
    found = check([connect(file="ready.db"), connect(file="blocked.db")])
    assert [one.verdict for one in found.value.clusters] == ["BLOCKED", "READY"]
    assert [row["id"] for row in found.rows] == ["b-1", ID]
    assert (found.exit_code, str(found).splitlines()[0][:10]) == (0, "2 clusters")
    with pytest.raises(ConfigError, match="No cluster is named"):
        check([])
    with pytest.raises(ConfigError, match=r"No cluster 'pay'|no cluster has the id or name 'pay'"):
        check("pay")


def test_a_line_that_cannot_be_read_is_set_aside_and_said(home: Path) -> None:
    landed = (SAMPLES / "k40-fresh" / "landing.jsonl").read_bytes()
    Path("landed.jsonl").write_bytes(landed + b"{broken\n")
    code, out, err = run("check", "--capture", "landed.jsonl", "--as-of", "newest")
    assert (code, "UP_TO_DATE" in out, "warning: 1 line set aside" in err) == (0, True, True), err
    old = run("check", "--capture", "landed.jsonl", "--as-of", "2027-11-21")
    assert (old[0], "UNKNOWN" in old[1]) == (0, True)  # of a year ago: nothing is READY


def test_one_named_cluster_that_does_not_answer_has_a_verdict(home: Path) -> None:
    entry = f'[[cluster]]\nid = "{ID}"\nname = "payments"\nbootstrap = ["127.0.0.1:1"]\n'
    (home / "fleet.toml").write_text(entry)
    code, out, _ = run("check", "payments", "--fleet", "fleet.toml", "--timeout", "2")
    assert (code, out.splitlines()[0]) == (
        5,
        "payments: UNKNOWN: No data was collected from this cluster, and 1 more problem",
    )
    assert "127.0.0.1:1: connection refused" in " ".join(out.split())
    assert "featurelib check payments --fleet fleet.toml" in out
    code, out, err = run("check", "--bootstrap", "127.0.0.1:1", "--timeout", "2")
    assert (code, out) == (5, "")  # nobody says which cluster that is
    assert "expected at least one node to answer" in err


def test_a_page_that_cannot_be_made_is_said_before_anybody_is_asked(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "featurelib.view.html", None)
    code, out, err = run("check", "--bootstrap", "127.0.0.1:1", "--html", "pages")
    assert (code, out) == (2, "")
    assert "--html needs the package jinja2. Install it, in a checkout" in err
    assert "'.[kafka]'" in err
