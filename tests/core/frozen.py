"""What came of a table of cases, as text in data/frozen/NAME.txt: `## case`, and below it what
came of it.

FEATURELIB_REWRITE=1 writes the files anew; the diff is reviewed as code is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

from featurelib.errors import FeatureLibError

FOLDER = Path(__file__).parent / "data" / "frozen"
REWRITES = os.environ.get("FEATURELIB_REWRITE") == "1"


def expect_frozen(name: str, told: Mapping[str, str]) -> None:
    """Each case says what it said before, and there are no others."""
    path = FOLDER / f"{name}.txt"
    if REWRITES:
        blocks = [f"## {case}\n{text}\n" for case, text in told.items()]
        path.write_text("\n".join(blocks), "utf-8")
    blocks = path.read_text("utf-8").removeprefix("## ").split("\n\n## ")
    stored = dict(block.rstrip("\n").split("\n", 1) for block in blocks)
    assert list(told) == list(stored)
    assert {case: text for case, text in told.items() if stored[case] != text} == {}


def refusal(error: type[FeatureLibError], ask: Callable[[], object]) -> str:
    """The words of the error that `ask` ends with; another one, or none, fails the test."""
    with pytest.raises(FeatureLibError) as told:
        ask()
    assert type(told.value) is error, told.value
    return str(told.value)


def expect_refused(
    name: str,
    error: type[FeatureLibError],
    cases: Iterable[tuple[str, Callable[[], object]]],
    *,
    begins: str = "",
) -> None:
    """Every case is refused in the words it was refused in before, which begin with the place."""
    told = {case: refusal(error, ask) for case, ask in cases}
    assert [case for case, text in told.items() if not text.startswith(begins)] == []
    expect_frozen(name, told)
