"""An audit's processor time: no stage may need much more of it than when its bar was set."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.facts import PROFILES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("profiles", PROFILES)
def test_no_stage_of_an_audit_became_slower(profiles: str) -> None:
    """In a process of its own, where no test's coverage is traced."""
    command = [sys.executable, "-m", "benchmarks.stages", "--profiles", profiles]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
