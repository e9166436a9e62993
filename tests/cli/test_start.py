"""A command imports what it needs and nothing else: an operator in a change window waits for it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import featurelib

SAMPLE = Path(__file__).parents[2] / "data" / "samples" / "k41-forgotten"
HEAVY = ("pandas", "pyspark", "kafka", "kazoo", "deltalake", "rich")
RUN = f"""
import json, sys
from featurelib.cli.app import main
try:
    main()
except SystemExit as end:
    print(json.dumps([end.code, [name for name in {HEAVY!r} if name in sys.modules]]))
"""


def heavy(*words: str) -> list[object]:
    """The exit code of a command, and which heavy packages it imported."""
    done = subprocess.run([sys.executable, "-c", RUN, *words], capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_a_plan_of_a_capture_needs_no_client_no_spark_and_no_pandas(tmp_path: Path) -> None:
    out = str(tmp_path / "plan.json")
    words = ("plan", "upgrade-all", "--capture", str(SAMPLE), "--as-of", "newest", "--out", out)
    assert heavy(*words) == [0, []]


def test_help_of_all_commands_needs_none_of_them_either() -> None:
    assert heavy("--help") == [0, []]


def test_the_version_is_the_one_that_is_installed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "featurelib", "--version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, f"featurelib {version('featurelib')}\n")
    assert featurelib.__version__ == version("featurelib")


def test_a_reader_that_goes_away_is_no_fault() -> None:
    command = f"{sys.executable} -m featurelib rules --json | head -c 9; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 141)
