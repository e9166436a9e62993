"""Tests pass on another day: recorded evidence grows too old by itself, and files do.

`tests/conftest.py` gives stored evidence without --as-of a clock of its own. What else reads the
time of the day is seen only on another day, so the folders in which that was wrong run again as in
400 days. `--exclude-monotonic`: without it a test that waits stands still."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = ("tests/cli/test_plan_command.py", "tests/golden/test_commands.py", "tests/test_collect.py")
FILES += ("tests/questions/test_why_not.py", "tests/cli/test_describe.py")


@pytest.mark.skipif(shutil.which("faketime") is None, reason="faketime is not installed")
def test_what_judges_recorded_evidence_passes_in_400_days() -> None:
    clock = ["faketime", "--exclude-monotonic", "-f", "+400d"]
    command = [*clock, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *FILES]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
