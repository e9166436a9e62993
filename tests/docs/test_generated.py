"""Generated pages are what the code says now. FEATURELIB_REWRITE=1 writes them anew."""

from __future__ import annotations

import json
import os
import re
from enum import Enum
from pathlib import Path

import pytest

from featurelib import conformance, exchanges
from featurelib.catalogue import load as catalogue
from featurelib.conformance import KINDS, replay
from featurelib.core.dialect import STRICT, load
from featurelib.core.findings import wordings
from featurelib.exchanges import read
from featurelib.rulebook import DIALECTS, questions, rulebook
from scripts.write_docs import DOCS, PAGES
from scripts.write_vocabulary import ENUMS, MEMBERS

ROOT = Path(__file__).parents[2]
FORMS = [form for form in vars(exchanges).values() if hasattr(form, "__struct_fields__")]


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_not_stale(name: str) -> None:
    path, written = DOCS / name, PAGES[name]()
    if os.environ.get("FEATURELIB_REWRITE") == "1":
        path.write_text(written, encoding="utf-8")
    stale = f"docs/{name} is stale: FEATURELIB_REWRITE=1 {Path('.venv/bin/pytest')} tests/docs"
    assert path.read_text(encoding="utf-8") == written, stale


def test_every_rule_dialect_and_finding_has_its_place() -> None:
    rules, dialects, words = (
        PAGES[name]() for name in ("rules.md", "dialects.md", "vocabulary.md")
    )
    assert [name for name in rulebook() if f"\n## {name}\n" not in rules] == []
    assert [name for name in DIALECTS if f"\n## {name}\n" not in dialects] == []
    codes = [*wordings(load(STRICT)), *rulebook()]
    assert [name for name in codes if name not in words] == []


def test_every_row_of_every_dialect_is_on_the_page() -> None:
    page = PAGES["dialects.md"]()
    for name in DIALECTS:
        part = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
        found = re.findall(r"^\| (?:door )?\d+(?: †)? \| \[(\w+)\]", part, re.MULTILINE)
        assert found == [question.row.code for question in questions(name)]


def test_no_word_of_an_enum_is_explained_twice_or_left_out() -> None:
    members = [f"{owner.__name__}.{each.name}" for owner in ENUMS for each in owner]
    assert [name for name in MEMBERS if name not in members] == []
    assert all(issubclass(owner, Enum) for owner in ENUMS)


@pytest.mark.parametrize("name", [*PAGES, "conformance.md"])
def test_links_lead_somewhere(name: str) -> None:
    """Files exist, and a place within a generated page is a heading there."""
    text = (DOCS / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        file, _, heading = target.partition("#")
        path = DOCS / (file or name)
        assert path.exists(), target
        if heading:
            assert f"\n## {heading}\n" in path.read_text(encoding="utf-8"), target


def test_the_readme_names_every_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [n for n in (*PAGES, "conformance.md") if f"docs/{n}" not in readme] == []


def test_the_example_of_the_form_is_one() -> None:
    text = (DOCS / "conformance.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    report = replay(read([json.dumps(json.loads(example)).encode()], "example"), catalogue().tables)
    assert (report.exchanges, report.differences, dict(report.excused)) == (1, [], {})


def test_the_form_lists_every_key_that_is_read() -> None:
    text = (DOCS / "conformance.md").read_text(encoding="utf-8")
    for form in FORMS:
        for key in form.__struct_fields__:
            assert f"`{key}`" in text, f"{form.__name__}.{key}"


def test_every_kind_of_difference_and_every_excuse_is_explained() -> None:
    text = (DOCS / "conformance.md").read_text(encoding="utf-8")
    assert [kind for kind in KINDS if f"| `{kind}` |" not in text] == []
    source = Path(conformance.__file__).read_text(encoding="utf-8")
    reasons = re.findall(r'excused(?:\.append\(|\[)"([^"]+)"', source)
    assert len(set(reasons)) == 3
    assert [reason for reason in reasons if f"| {reason} |" not in text] == []
