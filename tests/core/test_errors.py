"""Errors tell what to do next."""

from __future__ import annotations

import tomllib
from pathlib import Path

from featurelib.errors import install_line

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_a_missing_extra_is_installed_from_the_checkout_and_never_from_the_index() -> None:
    extras = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for extra in extras:
        line = install_line(extra)
        assert line.endswith(f"pip install '.[{extra}]'")
        assert "install featurelib" not in line
