"""Find the Pythons of this machine that featurelib supports."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13")


def find_all() -> dict[str, Path]:
    """Return version → program of every installed Python."""
    return {version: python for version in VERSIONS if (python := find(version))}


def find(version: str) -> Path | None:
    """Return an installed Python of `version`; None if there is none."""
    return next((one for one in _candidates(version) if _version_of(one) == version), None)


def _candidates(version: str) -> Iterator[Path]:
    """Yield the paths where a Python of `version` may be."""
    yield from (Path(folder, f"python{version}") for folder in os.get_exec_path())
    managed = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    yield from sorted(managed.glob(f"{version}.*/bin/python"))


def _version_of(python: Path) -> str | None:
    """Return the version that a Python program prints; None if it fails."""
    probe = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", probe], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip()
