"""`featurelib lint`: changes that public reports show to have gone wrong, and those that cure them.

A case has the file before, the change, and what is right to say about it. `cured_change` is the
change that would have been right: it has no finding but those in `cured`.
"""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from featurelib.extras.lint.rules import check_rule, rules
from tests.cli.commands import run

HERE = Path(__file__).parent
CASES = sorted((HERE / "cases").glob("*.toml"))
DATA = HERE.parents[1] / "data" / "configured_voters"
SAMPLES = HERE.parents[2] / "data" / "samples"
QUIET = {"info"}


def lint(folder: Path, name: str, before: str | None, after: str, *options: str) -> dict[str, Any]:
    """Lint a file as JSON, with the same file before it."""
    file, old = folder / name, folder / f"before-{name}"
    file.write_text(after, encoding="utf-8")
    if before is not None:
        old.write_text(before, encoding="utf-8")
        options = ("--before", str(old), *options)
    code, out, error = run("lint", str(file), *options, "--json")
    assert code == 0, error
    document: dict[str, Any] = json.loads(out)
    return document


def changed(text: str, change: list[str] | None) -> str:
    if change is None:
        return text
    assert change[0] in text
    return text.replace(change[0], change[1], 1)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_reported_change_is_judged_right(path: Path, tmp_path: Path) -> None:
    case = tomllib.loads(path.read_text(encoding="utf-8"))
    before, after = case["before"], changed(case["before"], case["change"])
    options = case.get("options", [])
    found = lint(tmp_path, case["file"], before, after, *options)["findings"]
    expected = sorted((row["code"], row["severity"]) for row in case["finding"])
    assert sorted((one["code"], one["severity"]) for one in found) == expected, found
    for row in case["finding"]:
        [one] = [one for one in found if one["code"] == row["code"]]
        assert one["line"] == row.get("line", one["line"]), (row["code"], one["line"])
        text = " ".join((one["message"], one["consequence"], one["remedy"]))
        assert [name for name in row.get("names", []) if name not in text] == [], text


@pytest.mark.parametrize(
    "path",
    [path for path in CASES if "cured_change" in path.read_text()],
    ids=lambda path: path.stem,
)
def test_the_change_that_cures_it_is_let_through(path: Path, tmp_path: Path) -> None:
    case = tomllib.loads(path.read_text(encoding="utf-8"))
    before = changed(case["before"], case.get("cured_before"))
    after = changed(before, case["cured_change"])
    found = lint(tmp_path, case["file"], before, after, *case.get("options", []))["findings"]
    loud = sorted((one["code"], one["severity"]) for one in found if one["severity"] not in QUIET)
    assert loud == sorted((row["code"], row["severity"]) for row in case.get("cured", []))


# --- The cluster ----------------------------------------------------------------------------------

VOTERS = (
    "process.roles=controller\nnode.id=1\ncontroller.quorum.voters=1@a:9093,2@b:9093,3@c:9093\n"
)
SERVERS = "process.roles=controller\nnode.id=1\ncontroller.quorum.bootstrap.servers=a:9093,b:9093\n"


@pytest.mark.parametrize(
    ("capture", "before", "after", "expected"),
    [
        (SAMPLES / "orders-prod-us", VOTERS, SERVERS, [("voters_replaced", "critical")]),
        (DATA / "moved-to-dynamic.jsonl", VOTERS, SERVERS, []),
        (None, VOTERS, SERVERS, [("voters_replaced", "warning")]),
        (SAMPLES / "orders-prod-us", None, SERVERS, [("no_voters", "critical")]),
        (SAMPLES / "orders-prod-us", None, VOTERS, []),
        (DATA / "moved-to-dynamic.jsonl", None, VOTERS, [("static_voters", "warning")]),
        (DATA / "moved-to-dynamic.jsonl", None, SERVERS, []),
    ],
)
def test_the_quorum_is_judged_by_the_kraft_version_of_the_cluster(
    capture: Path | None,
    before: str | None,
    after: str,
    expected: list[tuple[str, str]],
    tmp_path: Path,
) -> None:
    options = ("--capture", str(capture)) if capture else ()
    found = lint(tmp_path, "server.properties", before, after, *options)["findings"]
    assert [(one["code"], one["severity"]) for one in found] == expected


KAFKA = """apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata: {{ name: orders, namespace: kafka }}
spec:
  kafka:
    version: {version}
    metadataVersion: {level}
"""


def test_a_stale_registration_refuses_the_level_of_a_change(tmp_path: Path) -> None:
    """Broker 4 of orders-prod-us is off, registered, and of Kafka 4.1."""
    before = KAFKA.format(version="4.2.0", level="4.1-IV1")
    after = KAFKA.format(version="4.2.0", level="4.2-IV1")
    capture = ("--capture", str(SAMPLES / "orders-prod-us"))
    found = {
        one["code"]: one for one in lint(tmp_path, "k.yaml", before, after, *capture)["findings"]
    }
    assert found["level_refused"]["severity"] == "blocker"
    assert "off and still registered" in found["level_refused"]["message"]
    assert "Broker 4 does not support" in found["level_refused"]["message"]
    healthy = lint(tmp_path, "k.yaml", before, after, "--capture", str(SAMPLES / "orders-prod-eu"))
    assert "level_refused" not in {one["code"] for one in healthy["findings"]}


def test_software_that_cannot_register_is_named_with_its_reason(tmp_path: Path) -> None:
    before = KAFKA.format(version="4.2.0", level="4.1-IV1")
    after = KAFKA.format(version="4.0.1", level="4.1-IV1")
    capture = ("--capture", str(SAMPLES / "orders-prod-us"))
    found = lint(tmp_path, "k.yaml", before, after, *capture)["findings"]
    [one] = [one for one in found if one["code"] == "software_cannot_register"]
    assert one["severity"] == "critical"
    assert "metadata.version is finalized at 27 (4.1-IV1)" in one["message"]
    assert "7-25 (up to 4.0-IV3)" in one["message"]


FLEET = """[[cluster]]
id = "Zk134dhGTS-NdCoF4ck_oA"
name = "orders-prod-us"
managed_by = "strimzi"
managed_as = "kafka/orders"
"""


def test_each_resource_is_judged_by_the_evidence_of_its_own_cluster(tmp_path: Path) -> None:
    """The inventory knows kafka/orders; kafka/other is judged without evidence, and named."""
    text = KAFKA.format(version="4.2.0", level="4.2-IV1")
    (tmp_path / "fleet.toml").write_text(FLEET)
    (tmp_path / "k.yaml").write_text(f"{text}---\n{text.replace('orders', 'other')}")
    evidence = ("--capture", str(SAMPLES), "--fleet", str(tmp_path / "fleet.toml"), "--json")
    code, out, error = run("lint", str(tmp_path / "k.yaml"), *evidence)
    document = json.loads(out)
    assert (code, document["clusters"]) == (0, ["orders-prod-us"])
    found = [(one["code"], one["subject"]) for one in document["findings"]]
    assert found == [("level_refused", "kafka/orders")]
    assert "kafka/other is judged without evidence" in error
    (tmp_path / "k.yaml").write_text(text.replace("orders", "other"))
    code, _, error = run("lint", str(tmp_path / "k.yaml"), *evidence)
    assert code == 2
    assert "--cluster NAME" in error


# --- Files ----------------------------------------------------------------------------------------


def test_bad_files_are_named_with_line_and_next_step_and_the_rest_is_judged(tmp_path: Path) -> None:
    good = KAFKA.format(version="4.0.0", level="4.1-IV1")
    files = {
        "good.yaml": good,
        "half.yaml": f"{good}---\nkind: [Kafka\nmetadata: x\n---\n{good.replace('orders', 'shop')}",
        "other.yaml": "replicas: 3\nname: web\n",
        "log4j.properties": "log4j.rootLogger=INFO, stdout\n",
        "picture.yaml": b"\xff\xfe\x00",
        "deep.yaml": "[" * 5000,
        "loop.yaml": "apiVersion: &a kafka.strimzi.io/v1\nkind: Kafka\nspec: &s\n  <<: *s\n",
    }
    for name, text in files.items():
        content = text if isinstance(text, bytes) else text.encode()
        (tmp_path / name).write_bytes(content)
    paths = [str(tmp_path / name) for name in (*files, "missing.yaml")]
    code, out, error = run("lint", *paths, "--json", "--fail-on", "critical")
    assert code == 2
    document = json.loads(out)
    faults = {(Path(one["file"]).name, one["line"]): one["message"] for one in document["faults"]}
    assert set(faults) == {
        ("half.yaml", 10),
        ("other.yaml", 1),
        ("log4j.properties", 1),
        ("picture.yaml", 1),
        ("deep.yaml", 1),
        ("loop.yaml", 1),
        ("missing.yaml", 1),
    }
    assert "Fix it" in faults["half.yaml", 10]
    assert all(message in error for message in faults.values())
    judged = {(Path(one["file"]).name, one["line"]) for one in document["findings"]}
    assert judged == {("good.yaml", 7), ("half.yaml", 7), ("half.yaml", 18)}


def test_a_broken_file_before_is_named_as_that(tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_text("kind: [\n")
    (tmp_path / "new.yaml").write_text(KAFKA.format(version="4.1.0", level="4.1-IV1"))
    code, out, _ = run(
        *("lint", str(tmp_path / "new.yaml"), "--before", str(tmp_path / "old.yaml"), "--json")
    )
    [fault] = json.loads(out)["faults"]
    assert (code, Path(fault["file"]).name, fault["line"]) == (2, "old.yaml", 2)


def test_templates_are_passed_over_and_named(tmp_path: Path) -> None:
    text = """{{- if .Values.kafka.enabled }}
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata:
  name: {{ include "chart.name" . }}
spec:
  kafka:
    version: {{ .Values.version }}
    metadataVersion: ${LEVEL}
    config:
      unstable.feature.versions.enable: true
{{- end }}
"""
    found = lint(tmp_path, "kafka.yaml", None, text)["findings"]
    assert [(one["code"], one["line"]) for one in found] == [
        ("unstable_features", 11),
        ("version_is_template", 8),
    ]


def test_another_version_of_the_api_is_read_and_named(tmp_path: Path) -> None:
    text = KAFKA.format(version="4.0.0", level="4.1-IV1").replace("/v1", "/v2alpha1")
    found = {one["code"]: one for one in lint(tmp_path, "kafka.yaml", None, text)["findings"]}
    assert set(found) == {"api_unknown", "level_above_software"}
    assert "v2alpha1" in found["api_unknown"]["message"]


def test_resources_of_others_are_passed_over(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: Service\nmetadata: {name: x}\n"
    assert lint(tmp_path, "service.yaml", None, text)["findings"] == []


def test_a_version_stays_the_text_that_it_is(tmp_path: Path) -> None:
    """4.10 is no 4.1, and YAML would read it as a number."""
    found = lint(tmp_path, "kafka.yaml", None, KAFKA.format(version="4.10", level="4.1-IV1"))
    [one] = [one for one in found["findings"] if one["code"] == "version_unknown"]
    assert "4.10" in one["message"]


# --- Git ------------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with clusters/kafka.yaml at 4.1.0 in its first commit, and 4.2.0 in its tree."""
    folder = tmp_path / "clusters"
    folder.mkdir()
    text = "apiVersion: kafka.strimzi.io/v1\nkind: Kafka\nmetadata: {name: a}\nspec:\n  kafka:\n"
    (folder / "kafka.yaml").write_text(f"{text}    version: 4.1.0\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "first")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    (folder / "kafka.yaml").write_text(f"{text}    version: 4.2.0\n")
    (folder / "new.yaml").write_text(f"{text.replace('name: a', 'name: b')}    version: 4.2.0\n")
    return tmp_path


def test_a_revision_of_git_is_the_file_before(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    code, out, _ = run(
        *("lint", "clusters/kafka.yaml", "clusters/new.yaml", "--before-revision", "HEAD"),
        *("--json", "--fail-on", "warning"),
    )
    document = json.loads(out)
    assert code == 1
    assert [(one["code"], one["file"], one["line"]) for one in document["findings"]] == [
        ("level_rises_by_itself", "clusters/kafka.yaml", 6),
        ("level_not_pinned", "clusters/new.yaml", 6),
    ]
    assert document["before"] == "HEAD"


def test_what_the_other_branch_got_meanwhile_is_not_this_change(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")
    for words in (
        ("branch", "work"),
        (*identity, "commit", "-qam", "upgrade"),
        ("branch", "target"),
        ("checkout", "-q", "work"),
        ("rm", "-q", "--cached", "clusters/kafka.yaml"),
    ):
        subprocess.run(["git", *words], cwd=repository, check=True)
    code, out, error = run("lint", "clusters/kafka.yaml", "--before-revision", "target", "--json")
    assert (code, error) == (0, "")
    assert [one["code"] for one in json.loads(out)["findings"]] == ["level_not_pinned"]
    Path("clusters/kafka.yaml").unlink()
    code, _, error = run("lint", "clusters/kafka.yaml", "--before-revision", "target")
    assert (code, error) == (0, "warning: clusters/kafka.yaml: this change removes a.\n")


@pytest.mark.parametrize("revision", ["no-such-branch", "--output=x"])
def test_an_unknown_revision_is_an_error_that_says_what_to_do(
    repository: Path, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    code, _, error = run("lint", "clusters/kafka.yaml", f"--before-revision={revision}")
    assert code == 2
    assert "fetch-depth: 0" in error
    assert not (repository / "x").exists()


# --- Output ---------------------------------------------------------------------------------------


def output(tmp_path: Path, form: str, text: str) -> str:
    (tmp_path / "kafka.yaml").write_text(text)
    code, out, error = run("lint", str(tmp_path / "kafka.yaml"), "--as", form)
    assert code == 0, error
    return out


def test_sarif_has_each_finding_at_its_line(tmp_path: Path) -> None:
    log = json.loads(output(tmp_path, "sarif", KAFKA.format(version="4.0.0", level="4.1-IV1")))
    assert (log["version"], len(log["runs"])) == ("2.1.0", 1)
    [result] = log["runs"][0]["results"]
    [place] = result["locations"]
    assert place["physicalLocation"]["region"] == {"startLine": 7}
    assert (result["ruleId"], result["level"]) == ("level_above_software", "error")


def test_the_comment_has_its_mark_and_shows_texts_of_files_as_they_are(tmp_path: Path) -> None:
    evil = "'4.1|<img src=x>@admin`'"
    comment = output(tmp_path, "markdown", KAFKA.format(version="4.0.0", level=evil))
    assert comment.startswith("<!-- featurelib lint -->\n")
    assert "<img" not in comment
    assert "@admin" not in comment
    row = next(line for line in comment.splitlines() if "level" in line and "|" in line[:1])
    assert row.count("|") - row.count("\\|") == 5


def test_nothing_to_report_is_said(tmp_path: Path) -> None:
    text = output(tmp_path, "text", KAFKA.format(version="4.1.0", level="4.1-IV1"))
    assert text.startswith("Nothing to report")


# --- Rules ----------------------------------------------------------------------------------------

ROW = """[facts]
mode = ["kraft", "zookeeper"]
[texts]
names = ["version"]

[bad]
title = "t"
at = []
when = { mode = "kraft" }
source = "s"

[[bad.case]]
severity = "info"
message = "m {version}"
remedy = "r"
"""


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('mode = "kraft"', 'mood = "kraft"', "the fact mood"),
        ('mode = "kraft"', 'mode = "raft"', "compares mode with raft"),
        ("{version}", "{release}", "{release}"),
        ('"info"', '"loud"', "loud"),
        ('source = "s"', "", "source"),
        ('title = "t"', 'titel = "t"\ntitle = "t"', "titel"),
    ],
)
def test_a_wrong_row_fails_with_file_and_line(old: str, new: str, fault: str) -> None:
    assert check_rule(ROW, "bad").title == "t"
    with pytest.raises(ValueError, match=r"rules.toml:6: \[bad\]") as error:
        check_rule(ROW.replace(old, new), "bad")
    assert fault in str(error.value)


def test_every_rule_is_shown_by_a_case() -> None:
    shown = {
        row["code"]
        for path in CASES
        for row in tomllib.loads(path.read_text(encoding="utf-8"))["finding"]
    }
    shown |= {"level_refused", "software_cannot_register", "no_voters", "static_voters"}
    shown |= {"api_unknown", "version_is_template", "version_unknown"}
    assert set(rules()) - shown == set()
