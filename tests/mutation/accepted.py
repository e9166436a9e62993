"""Mutants that no test can notice, read from docs/contributing/mutants.md, which says why.

Under the heading of a module, a line `-` quotes its source and each line `+` below it a mutant.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "contributing" / "mutants.md"


def accepted(page: str) -> Iterator[tuple[str, str, str]]:
    """Each mutant that the page explains: (module, line before, line after)."""
    module = before = ""
    for line in page.splitlines():
        if line.startswith("## "):
            module, before = line.removeprefix("## ").strip("`"), ""
        elif line.startswith("    - "):
            before = line.removeprefix("    - ")
        elif line.startswith("    + "):
            yield module, before, line.removeprefix("    + ")
