"""`featurelib lint`: changes that public reports show to have gone wrong, and those that cure them.

A case has the file before, the change, and what is right to say about it. `cured_change` is the
change that would have been right: it has no finding but those in `cured`.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
import tomllib
from importlib.resources import files
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

from featurelib.catalogue import load
from featurelib.extras.lint import declared as of_declared
from featurelib.extras.lint import rules as of_rules
from featurelib.extras.lint.change import FileChange, KnownCluster
from featurelib.extras.lint.declared import ROWS, WATCHED, Scope
from featurelib.extras.lint.rules import NAMED, rules, words_of
from tests.cli.commands import run

HERE = Path(__file__).parent
CASES = sorted((HERE / "cases").glob("*.toml"))
DATA = HERE.parents[1] / "data" / "configured_voters"
SAMPLES = HERE.parents[2] / "data" / "samples"
QUIET = {"info"}
SETTINGS = {*WATCHED, *ROWS["settings"]}  # that texts may name


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


def evidence(path: Path) -> tuple[str, ...]:
    """Return the options that name a capture and its cluster."""
    with (path / "landing.jsonl" if path.is_dir() else path).open(encoding="utf-8") as lines:
        cluster_id = json.loads(next(lines))["cluster_id"]
    return "--capture", str(path), "--cluster", cluster_id


def write_beside(folder: Path, case: dict[str, Any]) -> None:
    """Write the files that stand beside the file of a case, before and after the change."""
    for name, text in case.get("beside", {}).items():
        (folder / name).write_text(text, encoding="utf-8")


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
    write_beside(tmp_path, case)
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
    write_beside(tmp_path, case)
    found = lint(tmp_path, case["file"], before, after, *case.get("options", []))["findings"]
    loud = sorted((one["code"], one["severity"]) for one in found if one["severity"] not in QUIET)
    assert loud == sorted((row["code"], row["severity"]) for row in case.get("cured", []))


# --- The cluster ----------------------------------------------------------------------------------

VOTERS = (
    "process.roles=controller\nnode.id=1\ncontroller.quorum.voters=1@a:9093,2@b:9093,3@c:9093\n"
)
VOTERS_101 = re.sub("([123])(?=@|\nc)", r"10\1", VOTERS)  # those of orders-prod-us
SERVERS = "process.roles=controller\nnode.id=1\ncontroller.quorum.bootstrap.servers=a:9093,b:9093\n"


@pytest.mark.parametrize(
    ("capture", "before", "after", "expected"),
    [
        (SAMPLES / "orders-prod-us", VOTERS, SERVERS, [("voters_replaced", "critical")]),
        (DATA / "moved-to-dynamic.jsonl", VOTERS, SERVERS, []),
        (None, VOTERS, SERVERS, [("voters_replaced", "blocker")]),
        (SAMPLES / "orders-prod-us", None, SERVERS, [("no_voters", "critical")]),
        (SAMPLES / "orders-prod-us", None, VOTERS, [("voters_differ", "blocker")]),
        (SAMPLES / "orders-prod-us", None, VOTERS_101, []),
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
    options = evidence(capture) if capture else ()
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
    capture = evidence(SAMPLES / "orders-prod-us")
    found = {
        one["code"]: one for one in lint(tmp_path, "k.yaml", before, after, *capture)["findings"]
    }
    assert found["level_refused"]["severity"] == "blocker"
    assert "off and still registered" in found["level_refused"]["message"]
    assert "Broker 4 does not support" in found["level_refused"]["message"]
    healthy = lint(tmp_path, "k.yaml", before, after, *evidence(SAMPLES / "orders-prod-eu"))
    assert "level_refused" not in {one["code"] for one in healthy["findings"]}


def test_software_that_cannot_register_is_named_with_its_reason(tmp_path: Path) -> None:
    before = KAFKA.format(version="4.2.0", level="4.1-IV1")
    after = KAFKA.format(version="4.0.1", level="4.1-IV1")
    capture = evidence(SAMPLES / "orders-prod-us")
    found = lint(tmp_path, "k.yaml", before, after, *capture)["findings"]
    [one] = [one for one in found if one["code"] == "software_cannot_register"]
    assert one["severity"] == "blocker"  # the operator stops before the first pod
    assert "metadata.version is finalized at 27 (4.1-IV1)" in one["message"]
    assert "7-25 (up to 4.0-IV3)" in one["message"]


def test_remedies_name_the_cluster_whose_data_is_given(tmp_path: Path) -> None:
    """The data that is given is not asked for again, although it has no level."""
    before = KAFKA.format(version="4.2.0", level="4.1-IV1")
    after = KAFKA.format(version="4.0.1", level="4.1-IV1")
    capture = evidence(SAMPLES / "orders-prod-us")
    found = lint(tmp_path, "k.yaml", before, after, *capture)["findings"]
    [one] = [one for one in found if one["code"] == "software_cannot_register"]
    assert one["remedy"].endswith("featurelib can-roll Zk134dhGTS-NdCoF4ck_oA --to 4.0")
    lines = [
        json.loads(line)
        for line in (SAMPLES / "orders-prod-us" / "landing.jsonl").read_text().splitlines()
    ]
    kept = [line for line in lines if line["kind"] != "api_versions"]  # which have the levels
    assert 0 < len(kept) < len(lines)
    (tmp_path / "capture.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in kept))
    capture = evidence(tmp_path / "capture.jsonl")
    [one] = lint(tmp_path, "server.properties", VOTERS, SERVERS, *capture)["findings"]
    assert (one["code"], one["severity"]) == ("voters_replaced", "blocker")
    assert "the data of Zk134dhGTS-NdCoF4ck_oA does not show its kraft.version" in one["message"]
    assert one["remedy"].startswith("Collect the cluster again")


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
    code, out, error = run("lint", str(tmp_path / "k.yaml"), *evidence)
    document = json.loads(out)
    assert (code, document["clusters"]) == (5, [])
    assert "--cluster NAME" in error
    (tmp_path / "k.yaml").write_text(
        KAFKA.format(version="4.0.0", level="'4.2'").replace("orders", "other")
    )
    code, out, error = run("lint", str(tmp_path / "k.yaml"), *evidence)
    assert [one["code"] for one in json.loads(out)["findings"]] == ["level_above_software"]
    code, *_ = run("lint", str(tmp_path / "k.yaml"), *evidence, "--fail-on", "blocker")
    assert code == 1


def test_the_evidence_of_one_cluster_is_not_taken_for_another(tmp_path: Path) -> None:
    """The capture has one cluster. Neither resource nor properties say that they are of it."""
    (tmp_path / "fleet.toml").write_text(FLEET)
    options = ("--capture", str(SAMPLES / "orders-prod-us"), "--json")
    options = (*options, "--fleet", str(tmp_path / "fleet.toml"))
    text = KAFKA.format(version="4.0.1", level="4.1-IV1")
    for name, content, words in (
        ("k.yaml", text.replace("orders", "other"), 'has managed_as = "kafka/other"'),
        ("server.properties", VOTERS, "--cluster NAME"),
    ):
        (tmp_path / name).write_text(content)
        code, out, error = run("lint", str(tmp_path / name), *options)
        assert (code, json.loads(out)["clusters"]) == (5, [])
        assert "is judged without evidence" in error
        assert words in error
        codes = {one["code"] for one in json.loads(out)["findings"]}
        assert not codes & {"software_cannot_register", "voters_differ"}
    (tmp_path / "k.yaml").write_text(text)
    code, out, _ = run("lint", str(tmp_path / "k.yaml"), *options)
    assert (code, json.loads(out)["clusters"]) == (0, ["orders-prod-us"])
    assert "software_cannot_register" in {one["code"] for one in json.loads(out)["findings"]}


def test_a_cluster_without_evidence_is_named_and_the_file_is_judged(tmp_path: Path) -> None:
    (tmp_path / "k.yaml").write_text(KAFKA.format(version="4.0.0", level="4.1-IV1"))
    options = ("--capture", str(SAMPLES / "orders-prod-us"), "--cluster", "ghost", "--json")
    code, out, error = run("lint", str(tmp_path / "k.yaml"), *options)
    document = json.loads(out)
    assert (code, document["clusters"]) == (5, [])
    assert [one["code"] for one in document["findings"]] == ["level_above_software"]
    assert "lines of Zk134dhGTS-NdCoF4ck_oA" in error
    assert ("has no cluster ghost. Give" in error, "managed_as" in error) == (True, False)


def test_a_level_below_that_of_the_cluster_is_named(tmp_path: Path) -> None:
    """The cluster has 27 (4.1-IV1): Kafka refuses 3.6-IV2, and can go back to 4.0-IV3."""
    for level, severity in (("3.6-IV2", "blocker"), ("4.0-IV3", "warning"), ("4.1-IV1", None)):
        text = KAFKA.format(version="4.1.0", level=level)
        found = lint(tmp_path, "k.yaml", None, text, *evidence(SAMPLES / "orders-prod-us"))
        severities = [
            one["severity"] for one in found["findings"] if one["code"] == "level_lowered"
        ]
        assert severities == [severity] * (severity is not None), found["findings"]


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
        "loop.yaml": "apiVersion: &a kafka.strimzi.io/v1\nkind: Kafka\nspec: &s\n  kafka: *s\n",
    }
    for name, text in files.items():
        content = text if isinstance(text, bytes) else text.encode()
        (tmp_path / name).write_bytes(content)
    paths = [str(tmp_path / name) for name in (*files, "missing.yaml")]
    code, out, error = run("lint", *paths, "--json", "--fail-on", "critical")
    assert code == 2
    document = json.loads(out)
    faults = {(Path(one["file"]).name, one["line"]): one["message"] for one in document["faults"]}
    skipped = ["other.yaml", "log4j.properties", "picture.yaml"]
    assert [Path(name).name for name in document["skipped"]] == skipped
    assert set(faults) == {
        ("half.yaml", 10),
        ("deep.yaml", 1),
        ("loop.yaml", 1),
        ("missing.yaml", 1),
    }
    assert "Fix it" in faults["half.yaml", 10]
    assert all(message in error for message in faults.values())
    judged = {(Path(one["file"]).name, one["line"]) for one in document["findings"]}
    assert judged == {("good.yaml", 7), ("half.yaml", 7), ("half.yaml", 18)}


def test_a_file_that_the_change_breaks_removes_nothing(tmp_path: Path) -> None:
    """The resource may be there still, behind the broken line. The other document is judged."""
    resource = KAFKA.format(version="4.1.0", level="4.1-IV1")
    other = KAFKA.format(version="4.0.0", level="4.1-IV1").replace("orders", "other")
    (tmp_path / "old.yaml").write_text(f"{resource}---\n{other}")
    (tmp_path / "new.yaml").write_text(f"{resource}\tkind: x\n---\n{other}")
    before = ("--before", str(tmp_path / "old.yaml"))
    code, out, _ = run("lint", str(tmp_path / "new.yaml"), *before, "--json")
    document = json.loads(out)
    assert (code, [one["line"] for one in document["faults"]]) == (2, [8])
    found = [(one["code"], one["subject"]) for one in document["findings"]]
    assert found == [("level_above_software", "kafka/other")]


def test_a_broken_file_before_is_named_as_that(tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_text("kind: [\n")
    (tmp_path / "new.yaml").write_text(KAFKA.format(version="4.1.0", level="4.1-IV1"))
    code, out, _ = run(
        *("lint", str(tmp_path / "new.yaml"), "--before", str(tmp_path / "old.yaml"), "--json")
    )
    [fault] = json.loads(out)["faults"]
    assert (code, Path(fault["file"]).name, fault["line"]) == (2, "old.yaml", 2)


@pytest.mark.parametrize(
    ("before", "words"),
    [("replicas: 3\n", "no settings of Kafka. Name the file as it was"), (None, "cannot be read")],
)
def test_a_file_before_that_is_not_kafkas_is_named_and_the_file_is_judged_as_it_is(
    before: str | None, words: str, tmp_path: Path
) -> None:
    if before is not None:
        (tmp_path / "old.yaml").write_text(before)
    (tmp_path / "new.yaml").write_text(KAFKA.format(version="4.0.0", level="4.1-IV1"))
    options = ("--before", str(tmp_path / "old.yaml"), "--json")
    code, out, error = run("lint", str(tmp_path / "new.yaml"), *options)
    document = json.loads(out)
    assert (code, document["before"], words in error) == (2, None, True)
    assert [one["code"] for one in document["findings"]] == ["level_above_software"]


def test_tables_that_are_not_there_are_named_as_that(tmp_path: Path) -> None:
    (tmp_path / "new.yaml").write_text(KAFKA.format(version="4.0.0", level="4.0"))
    tables = str(tmp_path / "no-tables")
    code, _, error = run("lint", str(tmp_path / "new.yaml"), "--tables", tables)
    assert (code, "managed_as" in error) == (2, False)
    assert f"tables {tables}: There is no such folder" in error


def test_no_empty_line_stands_within_a_finding_or_at_the_end(tmp_path: Path) -> None:
    """A finding without a consequence, and a file that is not judged."""
    (tmp_path / "k.yaml").write_text(
        "apiVersion: kafka.strimzi.io/v1\nkind: Kafka\nspec:\n  kafka: {version: 4.1.0}\n"
    )
    _, out, _ = run("lint", str(tmp_path / "k.yaml"))
    assert "\n\n  →" not in out
    assert "  → Set spec.kafka.metadataVersion" in out
    (tmp_path / "k.yaml").write_text("a: b\n")
    code, out, _ = run("lint", str(tmp_path / "k.yaml"))
    assert (code, out) == (2, "1 place not judged\n")


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
        ("filled_by_template", 8),
    ]


def test_another_version_of_the_api_is_read_and_named(tmp_path: Path) -> None:
    text = KAFKA.format(version="4.0.0", level="4.1-IV1").replace("/v1", "/v2alpha1")
    found = {one["code"]: one for one in lint(tmp_path, "kafka.yaml", None, text)["findings"]}
    assert set(found) == {"api_unknown", "level_above_software"}
    assert "v2alpha1" in found["api_unknown"]["message"]


INI = "[all:vars]\nansible_user=root\n\n[kafka_controller]\nc1 node_id=1\n"


@pytest.mark.parametrize(
    ("name", "text", "line", "words"),
    [
        ("service.yaml", "apiVersion: v1\nkind: Service\n", 1, "found none"),
        ("hosts", INI, 4, "ansible-inventory --list --yaml -i"),
    ],
)
def test_a_file_that_is_named_alone_has_to_be_of_kafka(
    name: str, text: str, line: int, words: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    code, out, error = run("lint", str(tmp_path / name), "--json")
    [fault] = json.loads(out)["faults"]
    assert (code, fault["line"]) == (2, line)
    assert words in fault["message"]
    assert words in error


def test_files_of_others_below_a_glob_are_skipped_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "kafka.yaml").write_text(KAFKA.format(version="4.0.0", level="4.1-IV1"))
    (tmp_path / "a" / "service.yaml").write_text("apiVersion: v1\nkind: Service\n")
    code, out, error = run("lint", "**/*.yaml", "none/*.yaml", "--json")
    document = json.loads(out)
    assert (code, error, document["faults"]) == (0, "", [])
    assert document["files"] == ["a/kafka.yaml"]
    assert (document["skipped"], document["unmatched"]) == (["a/service.yaml"], ["none/*.yaml"])
    assert [one["file"] for one in document["findings"]] == ["a/kafka.yaml"]
    code, out, _ = run("lint", "none/*.yaml")
    assert (code, out) == (0, "Nothing was judged.\nNo file matches none/*.yaml.\n")


def test_a_version_stays_the_text_that_it_is(tmp_path: Path) -> None:
    """4.10 is no 4.1, and YAML would read it as a number."""
    found = lint(tmp_path, "kafka.yaml", None, KAFKA.format(version="4.10", level="4.1-IV1"))
    [one] = [one for one in found["findings"] if one["code"] == "version_unknown"]
    assert "4.10" in one["message"]


def test_aliases_that_repeat_too_much_are_a_fault(tmp_path: Path) -> None:
    """Nine lists of ten aliases each would be a billion values."""
    rows = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    (tmp_path / "values.yaml").write_text("\n".join(["a0: &a0 x", *rows]))
    code, _, error = run("lint", str(tmp_path / "values.yaml"))
    assert (code, "too many values" in error) == (2, True)


# --- Helm and compose -----------------------------------------------------------------------------

CHART = """apiVersion: v2
name: orders
dependencies:
  - { name: kafka, repository: "oci://registry-1.docker.io/bitnamicharts", version: VERSION }
"""


@pytest.mark.parametrize("named", ["app/Chart.yaml", "app/values.yaml", "app/*.yaml"])
def test_a_chart_is_judged_with_the_values_beside_it(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The values say kraftVersion: 0 only after the second change."""
    monkeypatch.chdir(tmp_path)
    chart, values = Path("app/Chart.yaml"), Path("app/values.yaml")
    chart.parent.mkdir()
    chart.write_text(CHART.replace("VERSION", "31.4.0"))
    values.write_text("kafka:\n  controller:\n    replicaCount: 3\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "first")):
        subprocess.run(["git", *words], check=True)
    chart.write_text(CHART.replace("VERSION", "32.3.0"))
    before = ("--before-revision", "HEAD", "--json")
    for text, expected in (
        ("", [("voters_replaced", "app/Chart.yaml", 4)]),
        ("  kraftVersion: 0\n", []),
    ):
        values.write_text(values.read_text() + text)
        code, out, error = run("lint", named, *before)
        document = json.loads(out)
        found = [(one["code"], one["file"], one["line"]) for one in document["findings"]]
        assert (code, error, document["files"]) == (0, "", ["app/values.yaml"])
        assert found == expected


def commit_all() -> None:
    """Make a repository of the present folder, with one commit of all files."""
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "first")):
        subprocess.run(["git", *words], check=True)


@pytest.mark.parametrize("named", [["app/*.yaml"], ["app/Chart.yaml"], ["app/values.yaml"]])
def test_a_chart_that_a_change_deletes_is_a_finding(
    named: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The values stay, and nothing tells their version any more."""
    monkeypatch.chdir(tmp_path)
    chart, values = Path("app/Chart.yaml"), Path("app/values.yaml")
    chart.parent.mkdir()
    chart.write_text(CHART.replace("VERSION", "31.4.0"))
    values.write_text("kafka:\n  controller: {replicaCount: 3}\n  broker: {replicaCount: 3}\n")
    commit_all()
    chart.unlink()
    code, out, error = run("lint", *named, "--before-revision", "HEAD", "--json")
    found = [(one["code"], one["severity"]) for one in json.loads(out)["findings"]]
    assert (code, error, found) == (0, "", [("version_removed", "warning")])


def test_a_finding_that_services_share_is_shown_once(tmp_path: Path) -> None:
    """The image stands in an anchor; a service that goes is named."""
    before = """x-kafka: &kafka
  image: apache/kafka:4.1.0
services:
  kafka-1: { <<: *kafka, environment: [KAFKA_NODE_ID=1] }
  kafka-2: { <<: *kafka, environment: [KAFKA_NODE_ID=2] }
  web: { image: nginx }
"""
    after = before.replace("4.1.0", "4.0.1")
    [found] = lint(tmp_path, "compose.yaml", before, after)["findings"]
    assert (found["code"], found["line"]) == ("software_cannot_start", 2)
    after = before.replace("  kafka-2: { <<: *kafka, environment: [KAFKA_NODE_ID=2] }\n", "")
    [found] = lint(tmp_path, "compose.yaml", before, after)["findings"]
    assert (found["code"], found["severity"]) == ("declaration_removed", "warning")
    assert found["subject"].endswith("compose.yaml kafka-2")


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


@pytest.mark.parametrize("how", ["deleted", "folder deleted", "emptied", "another name"])
@pytest.mark.parametrize("named", ["clusters/kafka.yaml", "clusters/*.yaml"])
def test_a_cluster_that_a_change_removes_is_a_finding(
    how: str, named: str, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    file = Path("clusters/kafka.yaml")
    Path("clusters/new.yaml").unlink()
    if "deleted" in how:
        file.unlink()
    else:
        file.write_text(file.read_text().replace("name: a", "name: b") * (how != "emptied"))
    if how == "folder deleted":
        file.parent.rmdir()
    code, out, _ = run("lint", named, "--before-revision", "HEAD", "--json")
    found = [(one["code"], one["severity"], one["subject"]) for one in json.loads(out)["findings"]]
    assert code == 0
    assert found[0] == ("declaration_removed", "blocker", "a")
    assert len(found) == 1 + (how == "another name")


def test_an_emptied_file_is_compared_with_the_file_before(tmp_path: Path) -> None:
    before = KAFKA.format(version="4.1.0", level="4.1-IV1")
    [found] = lint(tmp_path, "k.yaml", before, "")["findings"]
    assert (found["code"], found["severity"]) == ("declaration_removed", "blocker")


def test_before_the_first_commit_there_is_nothing_to_compare_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook compares with HEAD, also in a new repository."""
    monkeypatch.chdir(tmp_path)
    Path("kafka.yaml").write_text(KAFKA.format(version="4.0.0", level="4.1-IV1"))
    code, _, error = run("lint", "kafka.yaml", "--before-revision", "HEAD")
    assert (code, "expected a revision of the Git repository" in error) == (2, True)
    subprocess.run(["git", "init", "-q"], check=True)
    for name in ("kafka.yaml", "*.yaml"):
        code, out, error = run("lint", name, "--before-revision", "HEAD", "--json")
        assert (code, error) == (0, "")
        assert [one["code"] for one in json.loads(out)["findings"]] == ["level_above_software"]


def test_a_renamed_file_is_compared_with_its_earlier_name(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    rest = "".join(f"key.{number}=value\n" for number in range(20))
    Path("server.properties").write_text(VOTERS + rest)
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")
    for words in (("add", "server.properties"), (*identity, "commit", "-qm", "second")):
        subprocess.run(["git", *words], check=True)
    subprocess.run(["git", "mv", "server.properties", "clusters/c1.properties"], check=True)
    Path("clusters/c1.properties").write_text(SERVERS + rest)
    code, out, error = run("lint", "**/*.properties", "--before-revision", "HEAD", "--json")
    assert (code, error) == (0, "")
    assert [one["code"] for one in json.loads(out)["findings"]] == ["voters_replaced"]


def test_a_folder_is_no_file_with_a_revision_either(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    code, _, error = run("lint", "clusters", "--before-revision", "HEAD")
    assert (code, "is a directory" in error) == (2, True)


@pytest.mark.parametrize("name", [".", ""])
def test_the_present_folder_is_no_file(name: str) -> None:
    code, _, error = run("lint", name)
    assert (code, "expected a file, and it cannot be read (is a directory)" in error) == (2, True)


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ("[1]", "a mapping at spec"),
        ("1", "a mapping at spec"),
        ("{kafka: [1]}", "a mapping at spec.kafka"),
        ("{kafka: {version: {a: 1}}}", "a text at spec.kafka.version"),
        ("{kafka: {config: [a]}}", "a mapping at spec.kafka.config"),
    ],
)
def test_a_resource_of_another_form_is_not_judged(spec: str, place: str, tmp_path: Path) -> None:
    head = "apiVersion: kafka.strimzi.io/v1\nkind: Kafka\nmetadata: {name: a}\n"
    (tmp_path / "kafka.yaml").write_text(f"{head}spec: {spec}\n")
    code, out, error = run("lint", str(tmp_path / "kafka.yaml"))
    assert (code, f"kafka.yaml:4: expected {place}. Fix spec" in error) == (2, True), error
    assert "1 place not judged" in out
    (tmp_path / "kafka.yaml").write_text(f"{head}spec: ${{SPEC}}\n")
    assert run("lint", str(tmp_path / "kafka.yaml"))[0] == 0


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


def test_two_forms_of_output_are_refused(tmp_path: Path) -> None:
    (tmp_path / "kafka.yaml").write_text(KAFKA.format(version="4.1.0", level="4.1-IV1"))
    code, out, error = run("lint", str(tmp_path / "kafka.yaml"), "--as", "sarif", "--json")
    assert (code, json.loads(out)["error"]) == (2, "usage")
    assert "--json and --as sarif exclude each other" in error


def test_nothing_to_report_is_said(tmp_path: Path) -> None:
    text = output(tmp_path, "text", KAFKA.format(version="4.1.0", level="4.1-IV1"))
    assert text.startswith("Nothing to report")


# --- Rules ----------------------------------------------------------------------------------------


def test_rows_name_known_facts_words_and_texts() -> None:
    tables = tomllib.loads((files(of_rules.__package__) / of_rules.FILE).read_text())
    facts = tables["facts"]
    texts = {*tables["texts"]["names"], *tables["texts"]["phrases"]}
    settings = {*tables["texts"]["settings"]["words"]}
    texts |= {re.sub(r"\W", "_", name) + end for name in SETTINGS for end in ("", "_before")}
    for code, rule in rules().items():
        for conditions in (rule.conditions, *(case.conditions for case in rule.cases)):
            for name, words in conditions.items():
                if name.startswith(("value ", "form ")):
                    sort, key = name.split(" ", 1)
                    assert key in NAMED, (code, name)
                    assert sort == "value" or words in {*tables["forms"][key], "other"}, (
                        code,
                        name,
                    )
                    continue
                known = settings if name in NAMED else {*facts[name]}
                named = {words} if isinstance(words, str) else {*words} - {"not"}
                assert named <= known, (code, name)
        for case in rule.cases:
            parts = Formatter().parse(case.message + case.consequence + case.remedy)
            assert {name for _, name, _, _ in parts if name is not None} <= texts, code
    scope = Scope(kind="strimzi", name="a", file="a", line=1)
    change = FileChange(scope, scope, KnownCluster(source=None, catalogue=load()))
    own, _ = words_of(change)
    assert own.keys() - NAMED - {
        f"{sort} {name}" for name in NAMED for sort in ("value", "form")
    } == (facts.keys())


def test_the_newest_patch_of_each_release_is_known() -> None:
    """The catalogue was read from a patch, which its source names; later ones may be known."""
    patches = ROWS["patches"]
    rows = csv.DictReader((files("featurelib.catalogue") / "releases.csv").read_text().splitlines())
    read = {
        row["release"]: re.findall(rf"real {row['release']}\.(\d+)", row["source"]) for row in rows
    }
    assert patches.keys() == read.keys()
    assert [name for name, found in read.items() if int(found[0]) > patches[name]] == []


def test_settings_of_readers_are_described() -> None:
    """Every key that a reader sets is Kafka's own or a row of [settings]."""
    own = {
        value
        for name, value in vars(of_declared).items()
        if name.isupper() and isinstance(value, str)
    }
    assert {*of_declared.MEMBERS["broker"], *of_declared.MEMBERS["controller"]} < own
    described = {*SETTINGS, *ROWS["names"], of_declared.TEMPLATE, of_declared.TWICE}
    assert own - described == set()


def test_every_rule_is_shown_by_a_case() -> None:
    shown = {
        row["code"]
        for path in CASES
        for row in tomllib.loads(path.read_text(encoding="utf-8"))["finding"]
    }
    shown |= {"level_refused", "software_cannot_register", "no_voters", "static_voters"}
    shown |= {"voters_differ"}
    shown |= {"api_unknown", "version_unknown", of_rules.REMOVED}
    assert set(rules()) - shown == set()
