"""Tests pass on another day: recorded evidence grows too old by itself, and files do.

`tests/conftest.py` gives stored evidence without --as-of a clock of its own. What else reads the
time of the day is seen only on another day, so the folders in which that was wrong run again as in
400 days (later.c)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = ("tests/cli/test_plan_command.py", "tests/golden/test_commands.py", "tests/test_collect.py")
FILES += ("tests/questions/test_why_not.py", "tests/cli/test_describe.py")


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
def test_what_judges_recorded_evidence_passes_in_400_days(tmp_path: Path) -> None:
    clock = tmp_path / "later.so"
    source = str(Path(__file__).with_name("later.c"))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(clock), source], check=True)
    later = os.environ | {"LD_PRELOAD": str(clock)}
    year = [sys.executable, "-c", "import time; print(time.gmtime().tm_year)"]
    shown = subprocess.run(year, env=later, capture_output=True, text=True, check=True).stdout
    assert int(shown) > time.gmtime().tm_year
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *FILES]
    run = subprocess.run(command, cwd=ROOT, env=later, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
