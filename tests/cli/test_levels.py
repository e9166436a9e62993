"""The commands about levels against Kafka's own tools, as far as they are recorded; and the help of
all commands. Other words are in tests/golden/commands/levels.txt."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from featurelib.cli.app import COMMANDS, make_app
from featurelib.cli.entrance import PANELS
from tests.cli.commands import run
from tests.core.recorded import formats, mappings, table

ROOT = Path(__file__).parents[2]


def test_version_mapping_prints_what_the_real_tool_of_each_release_prints() -> None:
    for tool, asked, levels in mappings():
        option = ("--release-version", asked) if asked else ()
        code, out, err = run("version-mapping", "--software", tool, *option)
        if levels is None:
            assert (code, out) == (2, "")
            assert err.startswith(f"error: --release-version {asked}: Kafka ")
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
                f"refused: {recorded.says}\nThis software starts no cluster that way. Levels that "
                f"its kafka-storage.sh knows: featurelib version-mapping --software {release}\n"
            )
        else:
            said = dict(line.split(" ")[0].split("=") for line in out.splitlines())
            assert said.pop("kraft.version", "0") == str(
                int(request.dynamic_quorum and recorded.tool != "3.8.1")
            )
            assert {name: int(level) for name, level in said.items()} == recorded.levels
            assert (code, err) == (0, "")
    assert compared == 66


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


IN_A_GROUP = ["waves plan", "waves status"]


@pytest.mark.parametrize("width", [78, 100])  # a terminal of 80 columns leaves 78
@pytest.mark.parametrize("command", [*COMMANDS, *IN_A_GROUP])
def test_help_fits_a_screen_and_begins_with_the_command_s_own_options(
    command: str, width: int
) -> None:
    words = command.split()
    out = CliRunner().invoke(make_app(words[0]), [*words, "--help"], terminal_width=width).stdout
    lines = out.splitlines()
    assert lines[0].startswith("Usage: ")
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    panels = [line.removesuffix(":") for line in lines if line.removesuffix(":") in PANELS]
    assert panels == sorted(panels, key=PANELS.index)
    listed = re.sub(r"-\n\s+", "-", out.partition("  --help-all  ")[2])  # a name may be wrapped
    named = re.findall(r"--[a-z-]+", listed)
    whole = run(*words, "--help-all")[1] if named else ""
    assert [name for name in named if f"\n  {name} " not in whole] == []


@pytest.mark.parametrize("command", ALONE)
def test_examples_that_need_nothing_run(command: str) -> None:
    for words in examples(command):
        assert run(*words)[0] == 0


def test_help_lists_every_command() -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert [name for name in COMMANDS if f"\n  {name} " not in out] == []
    assert "..." not in out.partition("Look:")[2]
    assert "..." not in run("waves", "--help")[1].partition("Commands:")[2]


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


def test_a_number_that_is_too_long_to_read_is_told() -> None:
    code, _, err = run("feature-dependencies", "--feature", f"a={'9' * 5000}")
    assert (code, "expected NAME=LEVEL" in err) == (2, True)
