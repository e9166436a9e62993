"""`featurelib patch`: what it prints is taken by git, and changes one line of the file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from featurelib.extras.sandbox import sandbox
from featurelib.extras.waves.rings import (
    FORMAT,
    WaveCommand,
    WaveMove,
    WavePlan,
    WaveRing,
    WaveStep,
    WaveWork,
)
from tests.cli.commands import run

BIN = Path(sys.executable).parent
HEAD = """# orders of all shops
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata: {name: orders, namespace: kafka}
"""
BLOCK = f"""{HEAD}spec:
  kafka:
    # since May
    version: 4.2.0   # and no later
    config: {{}}
"""
SHOP = BLOCK.replace("name: orders", "name: shop")
TEXTS = {
    "inserted": BLOCK,
    "changed": BLOCK.replace("config: {}", "metadataVersion: 4.1-IV1  # present"),
    "quoted": BLOCK.replace("config: {}", 'metadataVersion: "4.1"'),
    "first of several": f"{BLOCK}---\n{SHOP}",
    "last of several": f"kind: Other\n---\n{SHOP}---\n{BLOCK}",
    "empty": BLOCK.replace("config: {}", "metadataVersion:  # later"),
    "null": BLOCK.replace("config: {}", "metadataVersion: null"),
    "empty text": f"{HEAD}spec: {{kafka: {{metadataVersion: '', version: 4.2.0}}}}\n",
    "one line": f"{HEAD}spec: {{kafka: {{version: 4.2.0, config: {{}}}}}}\n",
    "JSON": json.dumps(yaml.safe_load(f"{HEAD}spec: {{kafka: {{version: 4.2.0}}}}"), indent=1),
    "Windows": BLOCK.replace("\n", "\r\n"),
    "no end of line": f"{HEAD}spec:\n  kafka:\n    version: 4.2.0",
    "no end of line, changed": f"{HEAD}spec:\n  kafka:\n    metadataVersion: '4.1'",
    "quoted keys": BLOCK.replace("version: 4.2.0 ", '"version": 4.2.0 '),
    "anchor": BLOCK.replace("version: 4.2.0", "version: &v 4.2.0").replace("{}", "{a: *v}"),
    "a list": "items:\n"
    + "".join(f"  {x}\n" for x in f"- {BLOCK}".replace("\n", "\n  ").split("\n")),
}
REFUSED = {"anchor": "fills version in. Change it there", "quoted keys": "Add it by hand"}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a cluster of software 4.2 at the levels of 4.1, its inventory, and the answers
    of `plan` where Strimzi finalizes metadata.version (theirs), and where nobody does (ours)."""
    folder = tmp_path_factory.mktemp("answers")
    sandbox(str(folder / "orders.db"), software="4.2", metadata="4.1")
    _, out, _ = run("describe", "--file", str(folder / "orders.db"), "--json")
    keys = {"id": json.loads(out)["cluster_id"], "name": "orders", "file": f"{folder}/orders.db"}
    entry = "[[cluster]]\n" + "".join(f'{key} = "{value}"\n' for key, value in keys.items())
    managed = 'managed_by = "strimzi"\nmanaged_as = "kafka/orders"\n'
    for name, text in (("ours", entry), ("theirs", entry + managed)):
        (folder / f"{name}.toml").write_text(text)
        options = ("--fleet", str(folder / f"{name}.toml"), "--out", str(folder / "plan.json"))
        code, out, error = run("plan", "orders", "upgrade-all", *options, "--json")
        assert code == 0, error
        (folder / f"{name}.json").write_text(out)
    return folder


def patch(answers: Path, name: str, *words: str) -> tuple[int, str, str]:
    fleet = ("--fleet", str(answers / f"{name}.toml"))
    return run("patch", str(answers / f"{name}.json"), *words, *fleet)


def level_of(text: str) -> Any:
    for document in yaml.safe_load_all(text):
        for resource in (document or {}).get("items", [document]):
            if resource["kind"] == "Kafka" and resource["metadata"]["name"] == "orders":
                return resource["spec"]["kafka"].get("metadataVersion")
    return None


@pytest.mark.parametrize("kind", TEXTS)
def test_git_applies_the_patch_and_one_line_differs(
    kind: str, answers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "clusters" / "a b"
    folder.mkdir(parents=True)
    text = TEXTS[kind].encode()
    (folder / "kafka.yaml").write_bytes(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path / "clusters")
    if refusal := REFUSED.get(kind):
        code, out, error = patch(answers, "theirs", "a b/kafka.yaml")
        assert (code, out, refusal in error) == (2, "", True)
        return
    words = ["patch", str(answers / "theirs.json"), "**/*.yaml"]
    words += ["--fleet", str(answers / "theirs.toml")]
    done = subprocess.run([BIN / "featurelib", *words], capture_output=True, check=True)
    subprocess.run(["git", "apply"], input=done.stdout, cwd=tmp_path, check=True)
    assert done.stderr == b""
    after = (folder / "kafka.yaml").read_bytes()
    assert level_of(after.decode()) == "4.2-IV1"
    before_lines, after_lines = text.split(b"\n"), after.split(b"\n")
    gone = [line for line in before_lines if line not in after_lines]
    new = [line for line in after_lines if line not in before_lines]
    assert (len(gone), len(new)) in ((0, 1), (1, 1)), (gone, new)
    assert (b"\r" in after) == (b"\r" in text)
    code, out, error = patch(answers, "theirs", "a b/kafka.yaml")
    assert (code, out) == (0, "")
    assert error.endswith("asks for 4.2-IV1 already.\n")


def test_other_features_are_named_with_their_command(answers: Path, tmp_path: Path) -> None:
    (tmp_path / "kafka.yaml").write_text(BLOCK)
    code, out, error = patch(answers, "ours", str(tmp_path / "kafka.yaml"))
    assert (code, "+    metadataVersion: 4.2-IV1" in out) == (0, True)
    assert error == (
        "orders: A Kafka resource holds no share.version, streams.version. Instead: featurelib "
        "plan orders update --upgrade share.version:1 --upgrade streams.version:1\n"
    )


@pytest.mark.parametrize(
    ("name", "file", "text", "words"),
    [
        (
            "ours",
            "server.properties",
            "process.roles=broker\n",
            "without a Kafka resource of this cluster hold no metadata.",
        ),
        (
            "ours",
            "hosts.yml",
            "kafka_broker: {vars: {node.id: 1}}\n",
            "without a Kafka resource of this cluster hold no meta",
        ),
        (
            "theirs",
            "kafka.yaml",
            BLOCK.replace("orders", "shop"),
            "without kafka/orders hold",
        ),
    ],
)
def test_files_that_hold_no_level_end_with_3_and_the_command(
    name: str, file: str, text: str, words: str, answers: Path, tmp_path: Path
) -> None:
    (tmp_path / file).write_text(text)
    code, out, error = patch(answers, name, str(tmp_path / file))
    assert (code, out) == (3, "")
    assert words in error
    assert "Instead: featurelib plan orders update --upgrade metadata.version:29" in error


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BLOCK + "---\n" + BLOCK.replace("namespace: kafka", ""), "may belong to several clusters"),
        (BLOCK.replace("config: {}", "metadataVersion: ${LEVEL}"), ":9: a template"),
        ("kind: [", "kafka.yaml:1: expected YAML"),
    ],
)
def test_files_that_do_not_show_the_level_are_refused(
    text: str, words: str, answers: Path, tmp_path: Path
) -> None:
    (tmp_path / "kafka.yaml").write_text(text)
    code, out, error = patch(answers, "ours", str(tmp_path / "kafka.yaml"))
    assert (code, out) == (2, "")
    assert words in error


@pytest.mark.parametrize("text", ["{}", "[]", "no JSON", '{"cluster": 1, "name": null}', "1"])
def test_another_answer_is_refused(text: str, answers: Path, tmp_path: Path) -> None:
    (tmp_path / "kafka.yaml").write_text(BLOCK)
    (tmp_path / "answer.json").write_text(text)
    code, _, error = run("patch", str(tmp_path / "answer.json"), str(tmp_path / "kafka.yaml"))
    assert (code, "featurelib plan CLUSTER … --json" in error) == (2, True)


def test_a_step_of_waves_is_a_patch_of_all_its_files(tmp_path: Path) -> None:
    names = ("orders", "shop")
    (tmp_path / "fleet.toml").write_text(
        "".join(
            f'[[cluster]]\nid = "{n}"\nmanaged_by = "strimzi"\nmanaged_as = "kafka/{n}"\n'
            for n in names
        )
    )
    (tmp_path / "a.yaml").write_text(BLOCK)
    (tmp_path / "b.yaml").write_text(SHOP)
    level = WaveMove(feature="metadata.version", from_level=27, to_level=29, way_back=True)
    group = WaveMove(feature="group.version", from_level=0, to_level=1, way_back=True)
    does = WaveCommand(by="strimzi", moves=(level,), command="kubectl")
    ours = WaveCommand(by="", moves=(group,), command="featurelib plan shop")
    works = [
        WaveWork(
            cluster=n, name=n, owner=None, contact=None, does=(does, ours)[: 1 + (n == "shop")]
        )
        for n in names
    ]
    steps = (WaveStep(way_back=True, soak="7d", batches=(tuple(works),)),)
    plan = WavePlan(
        target="4.2", level=29, tables="t", run=1, as_of="", catalogue="", part=None, by=(),
        max_parallel=5, rings=(WaveRing(name="rest", about="", steps=steps),), held=(), reached=(),
    )  # fmt: skip
    waves = tmp_path / "waves.json"
    waves.write_bytes(msgspec.json.encode({"format": FORMAT, "version": 1, "waves": plan}))
    words = ("patch", str(waves), str(tmp_path / "*.yaml"), "--fleet", str(tmp_path / "fleet.toml"))
    code, out, error = run(*words, "--step", "1")
    assert (code, out.count("+    metadataVersion: 4.2-IV1")) == (0, 2), error
    assert error == (
        "shop: A Kafka resource holds no group.version. Instead: featurelib plan shop update "
        "--upgrade group.version:1\n"
    )
    for step in ((), ("--step", "2")):
        code, out, error = run(*words, *step)
        assert (code, out, "--step: expected one of the 1 steps" in error) == (2, "", True)


def test_a_plan_that_moves_nothing_is_no_patch(answers: Path, tmp_path: Path) -> None:
    (tmp_path / "kafka.yaml").write_text(BLOCK)
    answer = json.loads((answers / "theirs.json").read_text()) | {"theirs": [], "plan": None}
    (tmp_path / "answer.json").write_text(json.dumps(answer))
    code, out, error = run("patch", str(tmp_path / "answer.json"), str(tmp_path / "kafka.yaml"))
    assert (code, out) == (3, "")
    assert "no level of this plan" in error


def test_a_resource_that_another_cluster_claims_is_never_changed(
    answers: Path, tmp_path: Path
) -> None:
    (tmp_path / "kafka.yaml").write_text(BLOCK)
    words = ("patch", str(answers / "ours.json"), str(tmp_path / "kafka.yaml"), "--fleet")
    code, out, _ = run(*words, str(answers / "ours.toml"))
    assert (code, "+    metadataVersion: 4.2-IV1" in out) == (0, True)
    other = '[[cluster]]\nid = "x"\nmanaged_by = "strimzi"\nmanaged_as = "kafka/orders"\n'
    (tmp_path / "fleet.toml").write_text((answers / "ours.toml").read_text() + other)
    code, out, error = run(*words, str(tmp_path / "fleet.toml"))
    assert (code, out) == (3, "")
    assert "Files without a Kafka resource of this cluster hold no metadata.version" in error


@pytest.mark.parametrize("more", ["", f"---\n{SHOP}", f"---\n{BLOCK}".replace("kafka}", "x}")])
def test_a_resource_without_namespace_is_found_by_its_name(
    more: str, answers: Path, tmp_path: Path
) -> None:
    (tmp_path / "kafka.yaml").write_text(BLOCK.replace(", namespace: kafka", "") + more)
    code, out, error = patch(answers, "theirs", str(tmp_path / "kafka.yaml"))
    assert (code, error, out.count("\n+ "), "@@ -5," in out) == (0, "", 1, True)


@pytest.mark.parametrize("is_file", [True, False])
def test_a_resource_without_namespace_of_two_clusters_is_refused(
    is_file: bool, answers: Path, tmp_path: Path
) -> None:
    text, fleet = BLOCK.replace(", namespace: kafka", ""), (answers / "theirs.toml").read_text()
    (tmp_path / "kafka.yaml").write_text(text + f"---\n{text}" * is_file)
    other = '[[cluster]]\nid = "x"\nmanaged_by = "strimzi"\nmanaged_as = "other/orders"\n'
    (tmp_path / "fleet.toml").write_text(fleet + other * (not is_file))
    words = (str(answers / "theirs.json"), str(tmp_path / "kafka.yaml"))
    code, out, error = run("patch", *words, "--fleet", str(tmp_path / "fleet.toml"))
    assert (code, out) == (2, "")
    assert "may belong to several clusters. Set metadata.namespace" in error


def test_an_upgrade_lowers_no_level_that_a_file_asks_for(answers: Path, tmp_path: Path) -> None:
    (tmp_path / "kafka.yaml").write_text(BLOCK.replace("config: {}", "metadataVersion: 4.4-IV0"))
    code, out, error = patch(answers, "theirs", str(tmp_path / "kafka.yaml"))
    assert (code, out, error) == (0, "", "orders: kafka/orders asks for 4.4-IV0 already.\n")


def test_the_patch_is_printed_as_json_with_what_it_leaves_out(
    answers: Path, tmp_path: Path
) -> None:
    (tmp_path / "kafka.yaml").write_text(BLOCK)
    _, diff, _ = patch(answers, "theirs", str(tmp_path / "kafka.yaml"))
    code, out, error = patch(answers, "theirs", str(tmp_path / "kafka.yaml"), "--json")
    document = json.loads(out)
    assert (code, error, document["patch"], document["notes"]) == (0, "", diff, [])
    (tmp_path / "kafka.yaml").write_text(BLOCK.replace("config: {}", "metadataVersion: 4.2"))
    _, out, error = patch(answers, "theirs", str(tmp_path / "kafka.yaml"), "--json")
    notes = ["orders: kafka/orders asks for 4.2 already."]
    assert (json.loads(out)["patch"], json.loads(out)["notes"], error) == ("", notes, "")


def test_a_plan_has_no_steps_to_choose(answers: Path, tmp_path: Path) -> None:
    (tmp_path / "kafka.yaml").write_text(BLOCK)
    code, out, error = patch(answers, "theirs", str(tmp_path / "kafka.yaml"), "--step", "1")
    assert (code, out, "--step: expected waves" in error) == (2, "", True)
