"""The page of surviving mutants speaks of the source as it is, and its figures add up."""

from __future__ import annotations

import re

import pytest

from tests.mutation.accepted import PAGE, accepted

TEXT = PAGE.read_text(encoding="utf-8")
ROOT = PAGE.parents[2]
# | `file` | mutants | killed | per cent |
ROW = re.compile(r"^\| `(\S+)` \| (\d+) \| (\d+) \| (\d+\.\d) % \|$", re.MULTILINE)
FIGURES = {module: (int(a), int(b), float(c)) for module, a, b, c in ROW.findall(TEXT)}
LISTED = list(accepted(TEXT))


def test_a_page_is_read_as_modules_lines_and_mutants() -> None:
    page = "# t\n## `a.py`\nwhy\n\n    - b\n    + c\n    + d\n\n## `e.py`\n    - f\n    + g\n"
    assert list(accepted(page)) == [("a.py", "b", "c"), ("a.py", "b", "d"), ("e.py", "f", "g")]


@pytest.mark.parametrize("module", sorted({module for module, _, _ in LISTED}))
def test_a_listed_line_stands_in_its_file(module: str) -> None:
    lines = {line.strip() for line in (ROOT / module).read_text(encoding="utf-8").splitlines()}
    assert [before for of, before, _ in LISTED if of == module and before not in lines] == []


def test_a_listed_mutant_is_listed_once_and_changes_its_line() -> None:
    assert len(LISTED) == len(set(LISTED))
    assert [entry for entry in LISTED if entry[1] == entry[2]] == []


@pytest.mark.parametrize("module", FIGURES)
def test_of_each_file_95_per_cent_are_killed_and_the_others_listed(module: str) -> None:
    count, killed, share = FIGURES[module]
    assert count - killed == sum(entry[0] == module for entry in LISTED)
    assert share == round(100 * killed / count, 1)
    assert share >= 95


def test_the_files_whose_figures_stand_there_are_those_that_are_listed() -> None:
    assert set(FIGURES) == {module for module, _, _ in LISTED}
