"""A command imports what it needs and nothing else: an operator in a change window waits for it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from pkgutil import resolve_name

import pytest
import typer

import featurelib
from featurelib.cli.app import COMMANDS, sentence_of
from tests.laboratory import LABORATORY

SAMPLE = LABORATORY / "k41-forgotten"
HEAVY = {"pandas", "pyspark", "kafka", "kazoo", "deltalake", "rich"}
# Ends with a line that says how, and what was imported.
RUN = """
import json, sys
from featurelib.cli.app import main
from tests.laboratory import LABORATORY
try:
    main()
except SystemExit as end:
    print(json.dumps([end.code, sorted(sys.modules)]))
"""


def imported(*words: str) -> tuple[int, set[str]]:
    """The exit code of a command, and what it imported."""
    done = subprocess.run([sys.executable, "-c", RUN, *words], capture_output=True, text=True)
    code, names = json.loads(done.stdout.splitlines()[-1])
    return code, set(names)


def test_a_plan_of_a_capture_needs_no_client_no_spark_and_no_pandas(tmp_path: Path) -> None:
    out = str(tmp_path / "plan.json")
    words = ("plan", "upgrade-all", "--capture", str(SAMPLE), "--as-of", "newest", "--out", out)
    code, names = imported(*words)
    assert (code, names & HEAVY) == (0, set())


@pytest.mark.parametrize(("word", "ends"), [("--help", 0), ("--version", 0), ("aply", 2)])
def test_the_list_of_all_commands_imports_none_of_them(word: str, ends: int) -> None:
    code, names = imported(word)
    assert (code, names & (HEAVY | {"numpy", "pyarrow", "featurelib.api"})) == (ends, set())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_of_a_command_what_its_own_help_begins_with(name: str) -> None:
    own = resolve_name(COMMANDS[name])
    said = own.info.help if isinstance(own, typer.Typer) else own.__doc__
    assert said.startswith(f"{sentence_of(COMMANDS[name])}\n")


@pytest.mark.parametrize("words", [(), ("check",), ("waves",), ("waves", "plan")])
def test_help_before_a_command_is_help_after_it(words: tuple[str, ...]) -> None:
    asked = [
        subprocess.run([sys.executable, "-m", "featurelib", *line], capture_output=True, text=True)
        for line in (("help", *words), (*words, "--help"))
    ]
    assert asked[0].returncode == 0
    assert asked[0].stdout == asked[1].stdout
    assert asked[0].stdout.startswith("Usage: featurelib ")


def test_the_version_is_the_one_that_is_installed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "featurelib", "--version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, f"featurelib {featurelib.__version__}\n")
    assert featurelib.__version__ == version("featurelib-kafka")


def test_a_reader_that_goes_away_is_no_fault() -> None:
    command = f"{sys.executable} -m featurelib rules --json | head -c 9; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 141)
