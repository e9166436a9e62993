"""Tools of others that only a test needs: each in an environment of its own, made once."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
UV = Path(sys.prefix, "bin", "uv")


def environment(name: str, *packages: str) -> Path:
    """The folder `bin` of an environment that holds `packages`, each with its version."""
    cache = Path(os.environ.get("FEATURELIB_CACHE") or ROOT / ".cache").resolve() / "tools"
    cache.mkdir(parents=True, exist_ok=True)
    place, wanted = cache / name, "\n".join((sys.version, *packages))
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = place / "made-from"
        if not stamp.is_file() or stamp.read_text() != wanted:
            shutil.rmtree(place, ignore_errors=True)
            run = (UV, "venv", "--quiet", "--python", sys.executable, place)
            subprocess.run(run, check=True)
            into = ("--python", place / "bin" / "python")
            subprocess.run((UV, "pip", "install", "--quiet", *into, *packages), check=True)
            stamp.write_text(wanted)
    return place / "bin"
