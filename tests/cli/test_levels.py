"""The commands about levels: whole output and exit code, against Kafka's own tools where they are
recorded.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from featurelib.cli.app import COMMANDS, make_app
from tests.core.recorded import formats, mappings, table

ROOT = Path(__file__).parents[2]
OVERLAY = """
[[feature_level]]
feature = "acme.version"
level = 0
default_from = "3.3-IV3"
stable_since = "4.1"
[[feature_level]]
feature = "acme.version"
level = 1
default_from = "4.1-IV0"
stable_since = "4.1"
dependency = "metadata.version=26"
[[release_feature]]
release = "4.1"
feature = "acme.version"
newest_stable = 1
newest_unstable = 1
"""


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)


def run(*args: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command line."""
    result = CliRunner().invoke(make_app(), args, prog_name="featurelib")
    return result.exit_code, result.stdout, result.stderr


def told(*args: str) -> str:
    """The message of a command line that cannot be used."""
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    return err


@pytest.fixture
def overlay(tmp_path: Path) -> str:
    path = tmp_path / "acme.toml"
    path.write_text(OVERLAY, encoding="utf-8")
    return str(path)


def test_version_mapping_prints_what_the_real_tool_of_each_release_prints() -> None:
    for tool, asked, levels in mappings():
        option = ("--release-version", asked) if asked else ()
        code, out, err = run("version-mapping", "--software", tool, *option)
        if levels is None:
            assert (code, out) == (2, "")
            assert err.startswith(f"error: --release-version {asked}: expected a release up to ")
            continue
        name = (
            asked
            or {25: "4.0-IV3", 27: "4.1-IV1", 29: "4.2-IV1", 30: "4.3-IV0", 33: "4.4-IV2"}[
                levels["metadata.version"]
            ]
        )
        lines = [f"{feature}={level}" for feature, level in levels.items()]
        lines[0] += f" ({name})"
        assert (code, out, err) == (0, "\n".join(lines) + "\n", "")


def test_a_version_that_is_not_known_is_told_with_those_near_it() -> None:
    assert told("version-mapping", "--release-version", "4.1", "--software", "4.0") == (
        "error: --release-version 4.1: expected a release up to 4.0 or one of the 20 "
        "metadata.versions Kafka 4.0 knows, 3.3-IV3 to 4.1-IV0; found none such; near it: 4.1-IV0, "
        "4.0-IV1. Name one of them, or newer software with --software RELEASE.\n"
    )
    assert "near it: 4.0-IV3, 4.0-IV2," in told("version-mapping", "--release-version", "4.0-iv9")
    assert "; found none such. Name" in told("version-mapping", "--release-version", "nonsense")


def test_software_that_is_not_known_is_told_with_those_that_are() -> None:
    known = "3.3, 3.4, 3.5, 3.6, 3.7, 3.8, 3.9, 4.0, 4.1, 4.2, 4.3, 4.4"
    assert told("version-mapping", "--software", "5.0") == (
        f"error: --software 5.0: expected a release of the catalogue of 2026-11-21 ({known}), "
        "found none such. Name one of them, or add it with --overlay FILE.\n"
    )
    for older in ("2.8.1", "3.2"):
        assert told("initial-levels", "--software", older) == (
            f"error: --software {older}: expected a release of the catalogue of 2026-11-21 "
            f"({known}), found none such. Before 3.3 Kafka finalizes nothing of its own. For a "
            "cluster that was formatted then, name the software it runs now: featurelib "
            "initial-levels --software RELEASE --preview\n"
        )
    for text in ("2", "3.x", "", "10.0"):
        assert "add it with --overlay FILE" in told("initial-levels", "--software", text)


def test_feature_dependencies_prints_what_the_real_tool_of_each_release_prints() -> None:
    names = {"21": "3.9-IV0", "23": "4.0-IV1"}
    for row in table("feature_dependencies.csv"):
        text = f"{row['feature']}={row['level']}"
        code, out, err = run("feature-dependencies", "--software", row["tool"], "--feature", text)
        if row["needs"] == "unknown":
            assert (code, out) == (2, "")
            assert err.startswith(f"error: --feature {text}: Kafka ")
        elif row["needs"]:
            level = row["needs"].removeprefix("metadata.version=")
            wanted = f"{text} requires:\n    metadata.version={level} ({names[level]})\n"
            assert (code, out, err) == (0, wanted, "")
        else:
            assert (code, out.startswith(text), err) == (0, True, "")
            assert out.endswith(" has no dependencies.\n")


@pytest.mark.parametrize("text", ["group.version", "group.version=", "=1", "a=-1", "a=1.0", "a=³"])
def test_what_is_no_feature_and_level_is_told(text: str) -> None:
    assert told("feature-dependencies", "--feature", text) == (
        f"error: --feature {text}: expected NAME=LEVEL with a whole number up to 32767, as "
        f"group.version=1, found {text!r}. What a release version means in numbers is what "
        "`featurelib version-mapping --release-version VERSION` says.\n"
    )


@pytest.mark.parametrize("level", ["32768", "99999", "9" * 5000])
def test_a_level_that_no_request_can_carry_is_told(level: str) -> None:
    assert "expected NAME=LEVEL" in told("feature-dependencies", "--feature", f"a={level}")


def test_a_feature_named_twice_is_told() -> None:
    assert told("initial-levels", "--software", "4.0", "--feature", "a=1", "--feature", "a=2") == (
        "error: --feature a=2: expected a once, found it twice (a=1 before). Keep one of them.\n"
    )


def test_a_level_and_a_feature_that_are_not_known_are_told() -> None:
    assert told("feature-dependencies", "--feature", "group.version=9") == (
        "error: --feature group.version=9: Kafka 4.4 knows a level of group.version from 0 to 1; "
        "found 9. Name one of them, or newer software with --software RELEASE.\n"
    )
    assert told("feature-dependencies", "--feature", "share.version=1", "--software", "4.0") == (
        "error: --feature share.version=1: Kafka 4.0 knows metadata.version, kraft.version, "
        "transaction.version, group.version, eligible.leader.replicas.version; found the feature "
        "share.version. Name one of them, or newer software with --software RELEASE.\n"
    )


def test_initial_levels_says_what_the_real_tool_of_each_release_writes_or_refuses() -> None:
    compared = 0
    for recorded in formats():
        request = recorded.request
        if not (request.static_voters or request.dynamic_quorum):
            continue  # no flag of ours leaves the quorum open
        args = [a for a in recorded.args if a not in ("--standalone", "--no-initial-controllers")]
        args += ["--dynamic-quorum"] * request.dynamic_quorum + ["--unstable"] * request.unstable
        code, out, err = run("initial-levels", "--software", recorded.tool, *args)
        compared += 1
        if recorded.levels is None:
            release = recorded.tool[:3]
            assert (code, out) == (3, "")
            assert err == (
                f"refused: {recorded.says}\nkafka-storage.sh format of {release} would write "
                f"nothing. What it knows: featurelib version-mapping --software {release}\n"
            )
        else:
            said = dict(line.split(" ")[0].split("=") for line in out.splitlines())
            assert said.pop("kraft.version", "0") == str(
                int(request.dynamic_quorum and recorded.tool != "3.8.1")
            )
            assert {name: int(level) for name, level in said.items()} == recorded.levels
            assert (code, err) == (0, "")
    assert compared == 66


def test_initial_levels_as_json() -> None:
    args = ("initial-levels", "--software", "4.0", "--release-version", "3.9", "--json")
    code, out, err = run(*args, "--feature", "eligible.leader.replicas.version=1")
    text = "eligible.leader.replicas.version could not be set to 1 because it depends on "
    text += "metadata.version level 23"
    assert code == 3
    assert json.loads(out)["refusals"] == [{"code": "dependency", "text": text}]
    assert err.startswith(f"refused: {text}\n")


def test_a_preview_cluster() -> None:
    assert run("initial-levels", "--software", "3.9", "--preview") == (
        0,
        "metadata.version=1 (3.0-IV1)\n",
        "",
    )
    assert run("initial-levels", "--software", "4.0", "--preview") == (
        3,
        "",
        "refused: Kafka 4.0 reads no cluster without a metadata.version record: start its "
        "controllers with 3.3 to 3.9 and finalize 3.3-IV3 first.\n",
    )
    assert told("initial-levels", "--software", "3.9", "--preview", "--unstable") == (
        "error: --preview: expected no other option than --software, --overlay and --json, since "
        "such a cluster was formatted without any. Leave --preview out for a new cluster.\n"
    )


def test_an_overlay_is_used_and_said(overlay: str) -> None:
    code, out, err = run("version-mapping", "--software", "4.1", "--overlay", overlay)
    assert (code, out.splitlines()[-1]) == (0, "acme.version=1")
    assert err.startswith(f"catalogue 2026-11-21 + overlay {overlay} (3 rows, ")
    feature = ("--feature", "acme.version=1", "--json", "--overlay", overlay)
    code, out, _ = run("feature-dependencies", "--software", "4.1", *feature)
    assert json.loads(out)["catalogue"] in err
    args = ("--release-version", "4.0", "--feature", "acme.version=1", "--overlay", overlay)
    code, out, err = run("initial-levels", "--software", "4.1", *args)
    assert (code, out) == (3, "")
    assert "acme.version could not be set to 1 because it depends on metadata.version" in err


def test_an_overlay_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.toml")
    assert told("version-mapping", "--overlay", missing) == (
        f"error: --overlay {missing}: expected a TOML file, found: No such file or directory. Copy "
        "conf/catalogue-overlay.toml and name the copy.\n"
    )
    assert "Is a directory" in told("version-mapping", "--overlay", str(tmp_path))
    broken = tmp_path / "broken.toml"
    broken.write_text("\n[[release]]\nrelease = 4", encoding="utf-8")
    assert told("version-mapping", "--overlay", str(broken)) == (
        f"error: {broken}:2: [[release]] number 1: release: expected a text, found 4. "
        "conf/catalogue-overlay.toml explains every table and key.\n"
    )


# Their examples need no cluster and no file; those of the others run in their own tests and pages.
ALONE = ["version-mapping", "feature-dependencies", "initial-levels", "rules", "conformance"]


def examples(command: str) -> list[list[str]]:
    """The example lines of a command's help, as arguments."""
    code, out, _ = run(command, "--help")
    assert code == 0
    assert "Exit codes: 0 " in " ".join(out.split())
    return [line.split()[1:] for line in out.splitlines() if line.startswith("      featurelib ")]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_with_an_example(command: str) -> None:
    assert [words for words in examples(command) if words[0] == command]


@pytest.mark.parametrize("command", ALONE)
def test_examples_that_need_nothing_run(command: str) -> None:
    for words in examples(command):
        assert run(*words)[0] == 0


def test_help_lists_every_command() -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert [name for name in COMMANDS if f"\n  {name} " not in out] == []
    assert "..." not in out.partition("Commands:")[2]


@pytest.mark.parametrize(
    ("args", "message", "command"),
    [
        (("no-such",), "No such command 'no-such'", "featurelib"),
        (("initial-levels",), "Missing option '--software'", "featurelib initial-levels"),
        (("version-mapping", "--x"), "No such option: --x", "featurelib version-mapping"),
        (("rules", "a", "b"), "Got unexpected extra argument(s) (b)", "featurelib rules"),
    ],
)
def test_a_command_line_that_cannot_be_read_is_told_as_every_error_is(
    args: tuple[str, ...], message: str, command: str
) -> None:
    first, usage, more = told(*args).splitlines()
    assert first == f"error: {message}."
    assert usage.startswith(f"Usage: {command} [")
    assert more == f"Help: {command} --help"


def test_the_module_is_the_command_and_needs_no_spark() -> None:
    script = (
        "import runpy, sys\n"
        "sys.argv = ['featurelib', 'initial-levels', '--software', '3.3']\n"
        "try:\n"
        "    runpy.run_module('featurelib', run_name='__main__')\n"
        "except SystemExit as end:\n"
        "    heavy = {'pyspark', 'delta', 'pandas', 'deltalake'} & set(sys.modules)\n"
        "    print(end.code, sorted(heavy))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("metadata.version=7 (3.3-IV3)\n0 []\n", "")


def test_a_feature_is_trimmed_as_kafka_s_own_tool_does() -> None:
    """Tried on kafka-features of 4.2.1: blanks and controls go, other spaces do not."""
    plain = run("feature-dependencies", "--feature", "metadata.version=27")
    for text in (" metadata.version = 27 ", "\tmetadata.version=27\n"):
        assert run("feature-dependencies", "--feature", text) == plain
    assert run("feature-dependencies", "--feature", "\u00a0metadata.version=27")[0] == 2
