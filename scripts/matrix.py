"""Run the nightly on the samples with each Spark and each Python, and compare the tables.

    make matrix                                       (some two minutes for each pair)
    make matrix SPARKS="4.0.1 4.1.0" PYTHONS=3.12

Each pair gets a copy of this checkout in build/matrix/, set up as a user sets it up: by
scripts/setup.sh, then `uv pip install pyspark==…`, then ./spark-submit.sh. `lowest` instead of a
Spark takes the lowest version of every range in pyproject.toml. The tables must have the same rows
and columns as those of this checkout with the versions of uv.lock.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from deltalake import DeltaTable

from featurelib.tables import ALL, Table
from scripts.pythons import find_all

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "matrix"
SAMPLES = ROOT / "data" / "samples"
LOWEST = "lowest"  # of every range of pyproject.toml, Spark's and the others'
SPARKS = ("4.0.2", "4.0.5", "4.1.4", version("pyspark"), "4.2.1", LOWEST)  # EMR 8 has the first
COPIED = ("featurelib", "jobs", "scripts", "conf", "spark-submit.sh")
COPIED += ("pyproject.toml", "uv.lock", "README.md", "LICENSE")
NIGHT = ("nightly", "--as-of", "newest", "--run", "20261121080000")
SETTINGS = {"CI": "true"}  # no class archive is made, because each copy starts once


def run_night(checkout: Path, tables: Path) -> str:
    """Run the nightly on the samples in a checkout. Return "" or the error message."""
    places = ("--landing", SAMPLES, "--fleet", SAMPLES / "fleet.toml", "--tables", tables)
    return run(checkout, "./spark-submit.sh", *NIGHT, *places)


def set_up(checkout: Path, python: Path, spark: str) -> str:
    """Copy this checkout and install a Spark version there. Return "" or the error message."""
    shutil.rmtree(checkout, ignore_errors=True)
    checkout.mkdir(parents=True)
    for name in COPIED:
        source, target = ROOT / name, checkout / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    wanted = [f"pyspark=={spark}"]
    if spark == LOWEST:
        wanted = ["--upgrade", "--resolution", "lowest-direct", "-e", ".[spark,lake]"]
    return (
        run(checkout, "scripts/setup.sh", "--no-java", PYTHON=str(python))
        or run(checkout, ".venv/bin/uv", "pip", "install", *wanted)
        or run(checkout, "scripts/setup.sh")
    )


def run(folder: Path, *words: str | Path, **settings: str) -> str:
    """Run a command. Return "" or the last line before its failure."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHON", "VIRTUAL_ENV", "MASTER")}
    cache = os.environ.get("FEATURELIB_CACHE") or str(ROOT / ".cache")
    env |= {"FEATURELIB_CACHE": cache, **SETTINGS, **settings}
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)
    said = done.stderr.strip().splitlines() or [f"{words[0]} ended with {done.returncode}"]
    return said[-1] if done.returncode else ""


def differing(tables: Path, expected: Path) -> list[str]:
    """Return the tables whose rows differ from the expected tables."""
    return [table.full_name for table in ALL if rows_of(tables, table) != rows_of(expected, table)]


def rows_of(tables: Path, table: Table) -> list[str]:
    """Return the rows of a table as sorted texts, without the digest of featurelib's files."""
    rows = DeltaTable(tables / table.path).to_pyarrow_table().to_pylist()
    return sorted(repr({**row, "conditions": None}) for row in rows)


def try_pair(python: Path, spark: str, name: str, expected: Path) -> str:
    """Run the nightly with one Spark and one Python; return the result as text."""
    checkout = FOLDER / name
    tables = checkout / "tables"
    if said := set_up(checkout, python, spark) or run_night(checkout, tables):
        return f"FAILED: {said}"
    differ = differing(tables, expected)
    shutil.rmtree(checkout)
    return f"DIFFERENT: {', '.join(differ)}" if differ else f"{len(ALL)} tables equal"


def main() -> int:
    """Run all pairs of Spark and Python, and print the results. Exit code 1 unless all tables are
    equal."""
    parser = argparse.ArgumentParser(prog="python -m scripts.matrix", description=main.__doc__)
    pythons = find_all()
    parser.add_argument("--sparks", nargs="+", default=SPARKS, metavar="VERSION")
    parser.add_argument("--pythons", nargs="+", default=pythons, choices=pythons, metavar="VERSION")
    chosen = parser.parse_args()
    expected = FOLDER / "expected"
    shutil.rmtree(expected, ignore_errors=True)
    if said := run_night(ROOT, expected):
        sys.exit(f"this checkout itself: {said}")
    print(f"expected: Spark {version('pyspark')}, Python {platform.python_version()}")
    outcomes = []
    for spark in chosen.sparks:
        for wanted in chosen.pythons:
            outcome = try_pair(pythons[wanted], spark, f"spark-{spark}-py{wanted}", expected)
            print(f"Spark {spark:7} Python {wanted:5} {outcome}", flush=True)
            outcomes.append(outcome)
    return int(any("equal" not in outcome for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
